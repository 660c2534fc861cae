/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two engines, one of which runs out of memory at any moment for a while: its
 * peer is answered or loses its connection, and what was held is released.
 */
#include "support/library.h"

#include "engine.h"

#define OOM_EAGER 4096
#define OOM_CALLS 8

/* Allocations still granted; then all fail. */
static uint64_t oom_granted = UINT64_MAX;
static bool oom_refused; /* an allocation failed */

static bool oom_grant(void)
{
    if (oom_granted == 0) {
        oom_refused = true;
        return false;
    }
    if (oom_granted != UINT64_MAX)
        oom_granted--;
    return true;
}

static void *oom_malloc(size_t size, void *arg)
{
    return oom_grant() ? hg_test_allocator()->malloc_fn(size, arg) : NULL;
}

static void *oom_realloc(void *ptr, size_t size, void *arg)
{
    return oom_grant() ? hg_test_allocator()->realloc_fn(ptr, size, arg) : NULL;
}

static void oom_free(void *ptr, void *arg)
{
    hg_test_allocator()->free_fn(ptr, arg);
}

static void oom_begin(struct engine *engine)
{
    static const struct hg_allocator allocator = {
        sizeof(allocator), oom_malloc, oom_realloc, oom_free, NULL};

    hg_test_allow_log("");
    HG_CHECK_OK(HG_Set_allocator(&allocator));
    loop_register();
    HG_CHECK_OK(engine_open(engine, OOM_EAGER, NULL));
}

/* Both make progress; `end` has `granted` allocations left, then all fail,
 * until nothing more can happen; then memory is available again. Returns
 * whether an allocation failed. */
static bool oom_settle(
    struct engine *engine, struct engine_end *end, uint64_t granted)
{
    struct engine_end *other = end == &engine->a ? &engine->b : &engine->a;
    uint64_t left = granted;
    unsigned i;

    oom_refused = false;
    for (i = 0; i < 40; i++) {
        engine_turn(other);
        oom_granted = left;
        engine_turn(end);
        left = oom_granted;
        oom_granted = UINT64_MAX;
    }
    engine_settle(engine);
    return oom_refused;
}

static hg_return_t oom_answer(hg_handle_t handle, size_t size)
{
    hg_return_t ret = engine_answer_size(handle, size);

    (void) hg_serve_free(handle);
    return ret == HG_NOMEM ? HG_SUCCESS : ret;
}

static hg_return_t oom_small(hg_handle_t handle)
{
    return oom_answer(handle, 0);
}

static hg_return_t oom_large(hg_handle_t handle)
{
    return oom_answer(handle, 20000);
}

/* Calls of `size` bytes, with memory running out at each allocation of one
 * side. Returns how often an allocation failed. */
static unsigned oom_run(bool server, size_t size, hg_rpc_cb_t callback)
{
    struct blob in = engine_new_blob(size, 3);
    unsigned rounds = 0;
    bool missed;

    do {
        struct engine_call calls[OOM_CALLS];
        struct engine engine;
        unsigned i;
        hg_id_t id;

        HG_CHECK_OK(engine_open(&engine, OOM_EAGER, NULL));
        id = engine_register(&engine, "starved", callback);
        for (i = 0; i < OOM_CALLS; i++)
            HG_CHECK_OK(engine_start(&engine, id, &in, &calls[i]));
        missed = oom_settle(&engine, server ? &engine.b : &engine.a, rounds);
        for (i = 0; i < OOM_CALLS; i++) {
            HG_CHECK_EQ_INT(calls[i].ends, 1);
            HG_CHECK(calls[i].ret == HG_SUCCESS || calls[i].ret == HG_NOMEM ||
                calls[i].ret == HG_DISCONNECT);
            HG_CHECK(missed || calls[i].ret == HG_SUCCESS);
            engine_forget(&calls[i]);
        }
        /* An output that a CANCEL did not find for lack of memory stays until
         * its time limit. */
        hg_overflow_release_all(engine.b.context);
        engine_settle(&engine);
        engine_check_empty(&engine);
        engine_close(&engine);
        rounds += missed;
    } while (missed);
    free(in.bytes);
    return rounds;
}

/* A call that could not start for lack of memory leaves no trace. */
HG_TEST(call_that_finds_no_memory_is_not_counted)
{
    struct blob in = engine_new_blob(10, 3);
    struct engine_call call;
    struct engine engine;
    uint64_t granted = 0;
    hg_return_t ret;
    hg_id_t id;

    oom_begin(&engine);
    id = engine_register(&engine, "counted", engine_echo);
    do {
        oom_granted = granted++;
        ret = engine_start(&engine, id, &in, &call);
        oom_granted = UINT64_MAX;
        HG_CHECK(ret == HG_SUCCESS || ret == HG_NOMEM);
        HG_CHECK_EQ_INT(engine.a.hg_class->in_flight, ret == HG_SUCCESS);
        HG_CHECK_EQ_U64(
            atomic_load(&engine.a.context->counts[HG_COUNT_REQUESTS_SENT]),
            ret == HG_SUCCESS);
    } while (ret != HG_SUCCESS);
    HG_CHECK(granted > 1);
    engine_settle(&engine);
    HG_CHECK_OK(call.ret);
    engine_forget(&call);
    free(in.bytes);
    engine_check_empty(&engine);
    engine_close(&engine);
}

HG_TEST_SECONDS(server_without_memory_answers_calls, 60)
{
    struct engine engine;

    oom_begin(&engine);
    engine_close(&engine);
    HG_CHECK(oom_run(true, 10, engine_echo) > OOM_CALLS);
    HG_CHECK(oom_run(true, 10, oom_small) > OOM_CALLS);
}

HG_TEST_SECONDS(server_without_memory_answers_large_calls, 60)
{
    struct engine engine;

    oom_begin(&engine);
    engine_close(&engine);
    HG_CHECK(oom_run(true, 20000, oom_small) > OOM_CALLS);
    HG_CHECK(oom_run(true, 20000, engine_echo) > OOM_CALLS);
}

HG_TEST_SECONDS(client_without_memory_releases_large_outputs, 60)
{
    struct engine engine;

    oom_begin(&engine);
    engine_close(&engine);
    HG_CHECK(oom_run(false, 10, oom_large) > OOM_CALLS);
}

/* The server asks the client for memory when the client cannot even refuse. */
HG_TEST_SECONDS(client_without_memory_serves_or_refuses_large_inputs, 60)
{
    struct engine engine;

    oom_begin(&engine);
    engine_close(&engine);
    HG_CHECK(oom_run(false, 20000, oom_small) > OOM_CALLS);
}
