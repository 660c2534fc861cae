/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * info: what the library in a program is, and what it can do here.
 */
#ifndef HG_EXAMPLES_INFO_H
#define HG_EXAMPLES_INFO_H

#include "hg.h"

/* Print the version, the transports, the environment variables that the library
 * looks at, and the options with their values. */
hg_return_t info_print(void);

/* Print what a class has that listens on such an address: where it can be
 * reached, and how much a message takes. */
hg_return_t info_print_class(const char *address);

#endif
