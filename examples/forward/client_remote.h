/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client_remote: the connection to the server and the session on it.
 *
 * When a session is lost, this module connects and begins a new one by itself,
 * again and again. Each session has another epoch, so that numbers of an
 * earlier session are recognized.
 */
#ifndef HG_EXAMPLES_CLIENT_REMOTE_H
#define HG_EXAMPLES_CLIENT_REMOTE_H

#define HG_API_VERSION 2
#include <stdbool.h>

#include "forward.h"

/* A function of the server. */
struct remote_call {
    const char *name;
    hg_proc_cb_t in;
    hg_proc_cb_t out;
    hg_id_t id; /* set by remote_register */
};

/* Open an endpoint for the transport of the address, which is kept. Returns
 * false if that fails; the library has logged the cause. */
bool remote_open(const char *address);

/* Close it before the process exits. */
void remote_close(void);

/* Register a function. Returns false without memory. */
bool remote_register(struct remote_call *call);

/* Begin the first session, within `timeout` ms. Returns NULL or the cause of
 * the failure. */
const char *remote_connect(unsigned timeout);

/* The descriptor that is readable when remote_turn has something to do. */
int remote_fd(void);

/* Make progress and run callbacks. Returns whether a callback ran. */
bool remote_turn(void);

/* Prepare to sleep on the descriptor. Returns false if remote_turn must run
 * first. */
bool remote_may_sleep(void);

/* Connect again if it is time to. Returns the milliseconds until the next call
 * of this function, or -1. */
int remote_tick(void);

/* The epoch of the session; 0 without a session. The next session has another
 * one. */
uint64_t remote_epoch(void);
uint64_t remote_session(void);

/* When the last session was lost. */
uint64_t remote_lost_at(void);

/* The session is lost: begin another one. */
void remote_lose(const char *cause);

/* Prepare `handle` to call a function of the server within `timeout` ms. The
 * handle is made if it is HG_HANDLE_NULL. */
hg_return_t remote_prepare(
    hg_handle_t *handle, const struct remote_call *call, unsigned timeout);

/* Memory that the library allocates, with the `access` of the server. */
hg_return_t remote_memory(
    size_t size, uint8_t access, hg_bulk_t *bulk, void **memory);

/* Collect lookups of a node to give back, and send them. */
void remote_forget(uint64_t node, uint64_t lookups);
void remote_flush_forgets(void);

/* Milliseconds of a clock that only goes forward. */
uint64_t remote_now(void);

#endif
