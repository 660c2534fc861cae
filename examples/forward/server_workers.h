/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server_workers: the threads that execute calls.
 *
 * One thread at a time, the leader, receives calls, and executes them itself. A
 * small call so costs no switch to another thread. Before a handler does what
 * can take long, it hands over: another thread becomes the leader, one that
 * sleeps or a new one. A thread that is not the leader any more finishes its
 * call and sleeps. If a handler blocks unexpectedly, the monitor hands over in
 * its place after WORKERS_PATIENCE_MS to twice that time.
 */
#ifndef HG_EXAMPLES_SERVER_WORKERS_H
#define HG_EXAMPLES_SERVER_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hg.h"

#define WORKERS_MAX 1024u
#define WORKERS_BUFFER_SIZE ((size_t) 256 << 10)
#define WORKERS_PATIENCE_MS 2

/* Start the first thread; there are never more than `max`. */
bool workers_start(unsigned max);

/* End the threads, and wait for them. */
void workers_stop(void);

unsigned workers_max(void);

/* A handler begins and ends. */
void workers_enter(void);
void workers_leave(void);

/* In a handler: what follows can take long. */
void workers_hand_over(void);

/* Memory of this thread, WORKERS_BUFFER_SIZE bytes, for an output. */
void *workers_buffer(void);

/* Memory of this thread, FWD_IO_MAX bytes, for data; NULL: out of memory. */
void *workers_io_buffer(void);

/* The pipeline of this thread; NULL: out of memory. */
hg_bulk_pipeline_t workers_pipeline(void);

#endif
