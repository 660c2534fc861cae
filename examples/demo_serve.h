/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * demo_serve: the server's side of the demo: files of one folder, for callers
 * that are not trusted.
 *
 * A name is a plain file name, so nothing outside the folder is reached, and
 * links are not followed. A file belongs to the client that opened it; its
 * number is worth nothing to another. Sizes and offsets are checked before
 * anything is moved. The table of open files is bounded: when it is full, the
 * file that nobody used for longest, and at least for a while, is closed, so
 * that clients which died leave nothing behind for ever.
 *
 * What is written goes to a hidden file, .NAME.NUMBER, and gets its name when
 * the client closes it to be kept. A client that dies leaves nothing under the
 * name; a server that dies leaves a hidden file, which the next one removes
 * when that name is written again.
 *
 * One thread, one server a process and a folder: handlers get nothing but
 * their handle.
 */
#ifndef HG_EXAMPLES_DEMO_SERVE_H
#define HG_EXAMPLES_DEMO_SERVE_H

#include "demo_calls.h"

/* Register the calls and serve the files of `folder`. `na_class` is the one
 * HG_Init got; it is borrowed until demo_serve_end. */
hg_return_t demo_serve_begin(na_class_t *na_class, const char *folder);

/* Close every file; before HG_Finalize. */
void demo_serve_end(void);

#endif
