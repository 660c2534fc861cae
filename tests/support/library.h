/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * library: the shipped hg.c with its private functions, for unit tests and
 * fuzzing.
 *
 * Included first, before any system header, since hg.c defines the feature
 * macros. The unit tests are compiled as one file, which contains hg.c once.
 */
#ifndef HG_TESTS_LIBRARY_H
#define HG_TESTS_LIBRARY_H

#include "../../hg.c"

#endif
