/* SPDX-License-Identifier: BSD-3-Clause */
/* counts: both sides of the echo in the request model. */
#define _POSIX_C_SOURCE 200809L

#include "counts.h"

#include "hg.h"

#include <sched.h>
#include <stdio.h>

MERCURY_GEN_PROC(counts_echo_t,
    ((uint64_t) (a))((uint64_t) (b))((uint64_t) (c))((uint64_t) (d))(
        (uint64_t) (e))((uint64_t) (f))((uint64_t) (g))((uint64_t) (h)))
MERCURY_GEN_PROC(counts_small_t, ((uint64_t) (a)))

static struct counts_shared *counts_shared;
static na_class_t *counts_class;
static hg_id_t counts_id;

static hg_return_t counts_serve(hg_handle_t handle)
{
    static counts_echo_t in;
    uint64_t number = ++counts_shared->served;

    counts_must("HG_Handler_get_input", HG_Handler_get_input(handle, &in));
    counts_must(
        "the request", !counts_is(&in, counts_shared->words, 2 * number));
    counts_must("HG_Handler_free_input", HG_Handler_free_input(handle, &in));
    counts_fill(counts_response_words, 2 * number + 1);
    counts_must("HG_Handler_start_output",
        HG_Handler_start_output(handle, counts_response_words));
    return HG_Handler_free(handle);
}

static void counts_open(
    struct counts_shared *shared, const char *info, bool listen)
{
    counts_shared = shared;
    counts_class = NA_Initialize(info, listen ? NA_TRUE : NA_FALSE);
    counts_must("NA_Initialize", counts_class == NULL);
    counts_must("HG_Init", HG_Init(counts_class));
    counts_id = shared->words == 1 ? MERCURY_REGISTER("counts", counts_small_t,
                                         counts_small_t, counts_serve)
                                   : MERCURY_REGISTER("counts", counts_echo_t,
                                         counts_echo_t, counts_serve);
    counts_must("HG_Register", counts_id == 0);
}

void counts_request_server(struct counts_shared *shared)
{
    na_addr_t self;

    counts_open(shared, shared->listen, true);
    counts_must("NA_Addr_self", NA_Addr_self(counts_class, &self));
    counts_must("NA_Addr_to_string",
        NA_Addr_to_string(
            counts_class, shared->address, sizeof(shared->address), self));
    atomic_store(&shared->listens, true);
    while (!atomic_load(&shared->connected))
        (void) HG_Handler_process(1, HG_STATUS_IGNORE);
    for (;;) {
        counts_mark(COUNTS_YIELD);
        while (shared->served < shared->sent) {
            counts_mark(COUNTS_PROCESS);
            counts_must("HG_Handler_process",
                HG_Handler_process(COUNTS_TIMEOUT, HG_STATUS_IGNORE));
            counts_mark(COUNTS_OUTSIDE);
        }
    }
}

/* Make as many calls as ordered, `window` at a time. */
static void counts_call(na_addr_t target)
{
    static counts_echo_t outs[COUNTS_WINDOW];
    static hg_request_t requests[COUNTS_WINDOW];
    struct counts_shared *shared = counts_shared;
    unsigned i;

    for (;;) {
        const uint64_t first = shared->sent + 1;

        counts_mark(COUNTS_YIELD);
        for (i = 0; i < shared->window; i++) {
            hg_return_t ret;

            counts_fill(counts_request_words, 2 * (first + i));
            counts_mark(COUNTS_FORWARD);
            ret = HG_Forward(target, counts_id, counts_request_words, &outs[i],
                &requests[i]);
            counts_mark(COUNTS_OUTSIDE);
            counts_must("HG_Forward", ret);
            shared->sent++;
        }
        counts_mark(COUNTS_YIELD);
        for (i = 0; i < shared->window; i++) {
            hg_return_t ret;

            counts_mark(COUNTS_WAIT);
            ret = HG_Wait(requests[i], COUNTS_TIMEOUT, HG_STATUS_IGNORE);
            counts_mark(COUNTS_OUTSIDE);
            counts_must("HG_Wait", ret);
            counts_must("the response",
                !counts_is(&outs[i], shared->words, 2 * (first + i) + 1));
            counts_mark(COUNTS_FREE);
            ret = HG_Request_free(requests[i]);
            counts_mark(COUNTS_OUTSIDE);
            counts_must("HG_Request_free", ret);
        }
    }
}

void counts_request_client(struct counts_shared *shared)
{
    na_addr_t target;

    while (!atomic_load(&shared->listens))
        (void) sched_yield();
    counts_open(shared, "sm://", false);
    counts_must("NA_Addr_lookup_wait",
        NA_Addr_lookup_wait(
            counts_class, shared->address, COUNTS_TIMEOUT, &target));
    atomic_store(&shared->connected, true);
    counts_call(target);
}

void counts_request_self(struct counts_shared *shared)
{
    na_addr_t target;

    counts_open(shared, "self://", true);
    counts_must("NA_Addr_self", NA_Addr_self(counts_class, &target));
    counts_call(target);
}
