/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usage: the command line options that all examples and tools share, and the
 * line that they print about a wrong use.
 */
#ifndef HG_EXAMPLES_USAGE_H
#define HG_EXAMPLES_USAGE_H

#include <stdbool.h>

/* Exit status after a wrong use of the command line. */
#define USAGE_ERROR 2

/* Print `help` if one of the arguments is -h or --help, or the version if one
 * is --version. Returns true if it printed: the program then exits with 0. */
bool usage_is_printed(
    int argc, char *argv[], const char *program, const char *help);

/* Print "PROGRAM: CAUSE; see PROGRAM --help" to stderr. `cause` is a format of
 * printf. Returns USAGE_ERROR. */
int usage_error(const char *program, const char *cause, ...);

/* Print what getopt_long did not accept when it returned `result`, ':' or '?'.
 * Returns USAGE_ERROR. */
int usage_wrong_option(const char *program, char *argv[], int result);

/* Read a whole decimal number from 1 to `max`. Returns 0 if `text` is none. */
unsigned long usage_number(const char *text, unsigned long max);

#endif
