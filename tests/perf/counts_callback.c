/* SPDX-License-Identifier: BSD-3-Clause */
/* counts: both sides of the echo in the callback model; the client's handle is
 * used for every call. */
#define _POSIX_C_SOURCE 200809L
#define HG_API_VERSION 2

#include "counts.h"

#include "hg.h"

#include <sched.h>
#include <stdio.h>

MERCURY_GEN_PROC(counts_echo_t,
    ((uint64_t) (a))((uint64_t) (b))((uint64_t) (c))((uint64_t) (d))(
        (uint64_t) (e))((uint64_t) (f))((uint64_t) (g))((uint64_t) (h)))

static struct counts_shared *counts_shared;
static na_class_t *counts_na_class;
static hg_class_t *counts_class;
static hg_context_t *counts_context;
static hg_id_t counts_id;

static hg_return_t counts_serve(hg_handle_t handle)
{
    static counts_echo_t in;
    uint64_t number = ++counts_shared->served;

    counts_must("HG_Get_input", HG_Get_input(handle, &in));
    counts_must("the request", !counts_is(&in, COUNTS_WORDS, 2 * number));
    counts_must("HG_Free_input", HG_Free_input(handle, &in));
    counts_fill(counts_response_words, 2 * number + 1);
    counts_must(
        "HG_Respond", HG_Respond(handle, NULL, NULL, counts_response_words));
    return HG_Destroy(handle);
}

static hg_return_t counts_ended(const struct hg_cb_info *info)
{
    static counts_echo_t out;
    hg_handle_t handle = info->info.forward.handle;
    bool *ended = (bool *) info->arg;

    counts_must("the call", info->ret);
    counts_must("HG_Get_output", HG_Get_output(handle, &out));
    counts_must("the response",
        !counts_is(&out, COUNTS_WORDS, 2 * counts_shared->served + 1));
    counts_must("HG_Free_output", HG_Free_output(handle, &out));
    *ended = true;
    return HG_SUCCESS;
}

static void counts_open(
    struct counts_shared *shared, const char *info, bool listen)
{
    struct hg_init_info options = HG_INIT_INFO_INITIALIZER;

    counts_shared = shared;
    options.na_class = NA_Initialize(info, listen ? NA_TRUE : NA_FALSE);
    counts_must("NA_Initialize", options.na_class == NULL);
    counts_na_class = options.na_class;
    counts_class = HG_Init_opt(NULL, listen ? HG_TRUE : HG_FALSE, &options);
    counts_must("HG_Init_opt", counts_class == NULL);
    counts_context = HG_Context_create(counts_class);
    counts_must("HG_Context_create", counts_context == NULL);
    counts_id = MERCURY_REGISTER(
        counts_class, "counts", counts_echo_t, counts_echo_t, counts_serve);
    counts_must("HG_Register", counts_id == 0);
}

/* Make progress once, and run the callbacks. */
static void counts_turn(unsigned timeout)
{
    hg_return_t ret;

    counts_mark(COUNTS_PROGRESS);
    ret = HG_Progress(counts_context, timeout);
    counts_mark(COUNTS_TRIGGER);
    if (ret == HG_SUCCESS)
        ret = HG_Trigger(counts_context, 0, 1, NULL);
    counts_mark(COUNTS_OUTSIDE);
    if (ret != HG_TIMEOUT)
        counts_must("HG_Progress, HG_Trigger", ret);
}

void counts_callback_server(struct counts_shared *shared)
{
    hg_size_t size = sizeof(shared->address);
    hg_addr_t self;

    counts_open(shared, shared->listen, true);
    counts_must("HG_Addr_self", HG_Addr_self(counts_class, &self));
    counts_must("HG_Addr_to_string",
        HG_Addr_to_string(counts_class, shared->address, &size, self));
    atomic_store(&shared->listens, true);
    while (!atomic_load(&shared->connected)) {
        (void) HG_Progress(counts_context, 1);
        (void) HG_Trigger(counts_context, 0, 1, NULL);
    }
    for (;;) {
        counts_mark(COUNTS_YIELD);
        while (shared->served < shared->sent)
            counts_turn(COUNTS_TIMEOUT);
    }
}

void counts_callback_client(struct counts_shared *shared)
{
    hg_handle_t handle;
    hg_addr_t target;

    while (!atomic_load(&shared->listens))
        (void) sched_yield();
    counts_open(shared, "sm://", false);
    counts_must("NA_Addr_lookup_wait",
        NA_Addr_lookup_wait(
            counts_na_class, shared->address, COUNTS_TIMEOUT, &target));
    counts_must(
        "HG_Create", HG_Create(counts_context, target, counts_id, &handle));
    atomic_store(&shared->connected, true);
    for (;;) {
        bool ended = false;
        hg_return_t ret;

        counts_mark(COUNTS_YIELD);
        counts_fill(counts_request_words, 2 * (shared->sent + 1));
        counts_mark(COUNTS_FORWARD);
        ret = HG_Forward(handle, counts_ended, &ended, counts_request_words);
        counts_mark(COUNTS_OUTSIDE);
        counts_must("HG_Forward", ret);
        shared->sent++;
        counts_mark(COUNTS_YIELD);
        while (!ended)
            counts_turn(COUNTS_TIMEOUT);
    }
}
