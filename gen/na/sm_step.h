/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_step: a seam for tests, wherever another process could see a difference.
 *
 * Two processes that share memory can be stopped, delayed or killed between
 * any two instructions, and only some of these places differ to the other
 * side: before and after each store to shared memory, each look that a store
 * of the other side may come before or after, each step of a meeting, each
 * thing given back. NA_SM_STEP() stands at these places and is nothing in the
 * library. A test that includes hg.c with HG_SM_STEPS 1 defines na_sm_step,
 * and there counts, dawdles or dies: see tests/step.
 *
 * Whoever adds such a store or look adds the step. A step may stand under any
 * lock of this transport, and changes nothing.
 */
#ifndef HG_GEN_NA_SM_STEP_H
#define HG_GEN_NA_SM_STEP_H

#include "base/os.h"

#if HG_ENABLE_SM

#ifndef HG_SM_STEPS
#define HG_SM_STEPS 0
#endif

#if HG_SM_STEPS
/* Of the test. The place is told by function and line of hg.c. */
static void na_sm_step(const char *function, unsigned line);
#define NA_SM_STEP() na_sm_step(__func__, __LINE__)
#else
#define NA_SM_STEP() ((void) 0)
#endif

#endif
#endif
