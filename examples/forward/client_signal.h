/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client_signal: which signals end a system call.
 *
 * The kernel reports the first signal of a program that waits for a response,
 * whatever the program does with it. A local file system ends its calls only
 * for signals that end the program.
 */
#ifndef HG_EXAMPLES_CLIENT_SIGNAL_H
#define HG_EXAMPLES_CLIENT_SIGNAL_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether a signal that ends the program is pending for a thread that is in a
 * system call. True if that is not known. */
bool signal_ends(pid_t thread);

#endif
