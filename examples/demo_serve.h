/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * demo_serve: the server's side of the demo. It serves the files of one folder
 * to clients that it does not trust.
 *
 * A file name has no slash and links are not followed, so clients cannot reach
 * anything outside the folder. Only the client that opened a file can use its
 * number. Sizes and offsets are checked before data is moved. The table of open
 * files is bounded: if it is full, the file that was unused for the longest
 * time, and for at least a minute, is closed. So a client that died does not
 * keep its files open forever.
 *
 * A client writes to a hidden file, .NAME.NUMBER, which is renamed to NAME when
 * the client closes it with `keep`. If the client dies, the file NAME does not
 * change. If the server dies, the hidden file remains; the next server removes
 * it when a client writes NAME again.
 *
 * One thread per process, one server per folder. A handler gets nothing but its
 * handle, so the state is global.
 */
#ifndef HG_EXAMPLES_DEMO_SERVE_H
#define HG_EXAMPLES_DEMO_SERVE_H

#include "demo_calls.h"

/* Register the calls and serve the files of `folder`. `na_class` is the class
 * that HG_Init got; it stays open until demo_serve_end. */
hg_return_t demo_serve_begin(na_class_t *na_class, const char *folder);

/* Close all files. Call it before HG_Finalize. */
void demo_serve_end(void);

#endif
