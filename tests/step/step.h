/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * step: hg.c with the steps of the transport sm (gen/na/sm_step.h), for tests
 * that do something at each of them. Included first, as support/house.h is.
 */
#ifndef HG_TESTS_STEP_H
#define HG_TESTS_STEP_H

#define HG_SM_STEPS 1
#include "support/house.h"

#include "harness.h"

/* What is done at a step; NULL: nothing. Set while no class is open. */
static void (*step_hook)(const char *function, unsigned line);

static void na_sm_step(const char *function, unsigned line)
{
    if (step_hook != NULL)
        step_hook(function, line);
}

#endif
