/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls without a response whose server destroys them twice, as a program of
 * Mercury must, where such a call has two references. The second HG_Destroy()
 * succeeds until TWICE_PARKED more were destroyed, and ends no other call.
 */
#include "cb.h"

#define TWICE_PARKED 16u /* as in hg.h */
#define TWICE_KEPT (TWICE_PARKED + 4u)
#define TWICE_LARGE ((size_t) 100 << 10) /* does not fit a message */

static hg_id_t twice_keep_id, twice_release_id, twice_thread_id, twice_join_id;
static hg_id_t twice_quiet_id, twice_end_quiet_id;

/* ---- The functions of the target ---- */

static hg_handle_t twice_kept[TWICE_KEPT];
static unsigned twice_kept_count;
static unsigned twice_freed;
static pthread_t twice_threads[TWICE_PARKED];
static unsigned twice_thread_count;
static hg_handle_t twice_quiet_kept;

static void twice_free(void *data)
{
    HG_CHECK(data == &twice_freed);
    twice_freed++;
}

static hg_return_t twice_keep(hg_handle_t handle)
{
    HG_CHECK(twice_kept_count < TWICE_KEPT);
    HG_CHECK_OK(HG_Set_data(handle, &twice_freed, twice_free));
    twice_kept[twice_kept_count++] = handle;
    return HG_SUCCESS;
}

/* Destroy the kept handles, which is done at once, then all of them once more,
 * and then too often. No call arrives meanwhile. */
static void twice_destroy_kept(void)
{
    unsigned i;

    twice_freed = 0;
    for (i = 0; i < TWICE_KEPT; i++) {
        HG_CHECK_OK(HG_Destroy(twice_kept[i]));
        HG_CHECK_EQ_INT(twice_freed, i + 1);
        HG_CHECK(HG_Get_info(twice_kept[i]) == NULL);
    }
    for (i = 0; i < TWICE_KEPT; i++)
        HG_CHECK_RET(HG_Destroy(twice_kept[i]),
            TWICE_KEPT - i > TWICE_PARKED ? HG_INVALID_ARG : HG_SUCCESS);
    for (i = 0; i < TWICE_KEPT; i++)
        HG_CHECK_RET(HG_Destroy(twice_kept[i]), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(twice_freed, TWICE_KEPT);
}

/* Returns how many handles are kept. */
static hg_return_t twice_release(hg_handle_t handle)
{
    cb_one_t out = {(int32_t) twice_kept_count};

    if (twice_kept_count == TWICE_KEPT) {
        twice_destroy_kept();
        twice_kept_count = 0;
    }
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

static void *twice_destroy(void *arg)
{
    hg_handle_t handle = (hg_handle_t) arg;

    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(HG_Destroy(handle));
    return NULL;
}

/* Destroy the handle twice in another thread. */
static hg_return_t twice_thread(hg_handle_t handle)
{
    HG_CHECK(twice_thread_count < TWICE_PARKED);
    HG_CHECK(pthread_create(&twice_threads[twice_thread_count++], NULL,
                 twice_destroy, handle) == 0);
    return HG_SUCCESS;
}

static hg_return_t twice_join(hg_handle_t handle)
{
    while (twice_thread_count > 0)
        HG_CHECK(pthread_join(twice_threads[--twice_thread_count], NULL) == 0);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

static hg_return_t twice_quiet(hg_handle_t handle)
{
    twice_quiet_kept = handle;
    return HG_SUCCESS;
}

/* Destroy the kept one-way call, and once more. Returns whether there was
 * one. */
static hg_return_t twice_end_quiet(hg_handle_t handle)
{
    cb_one_t out = {twice_quiet_kept != NULL};

    if (out.value) {
        HG_CHECK_OK(HG_Destroy(twice_quiet_kept));
        HG_CHECK_RET(HG_Destroy(twice_quiet_kept), HG_INVALID_ARG);
    }
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

static void cb_register(hg_class_t *hg_class)
{
    hg_class_t *c = hg_class;

    twice_keep_id =
        HG_Register_name(c, "twice keep", blob_proc, NULL, twice_keep);
    HG_CHECK(twice_keep_id != 0);
    twice_release_id =
        MERCURY_REGISTER(c, "twice release", void, cb_one_t, twice_release);
    twice_thread_id =
        MERCURY_REGISTER(c, "twice thread", void, void, twice_thread);
    twice_join_id = MERCURY_REGISTER(c, "twice join", void, void, twice_join);
    twice_quiet_id =
        MERCURY_REGISTER(c, "twice quiet", void, void, twice_quiet);
    HG_CHECK_OK(HG_Registered_disable_response(c, twice_quiet_id, HG_TRUE));
    twice_end_quiet_id =
        MERCURY_REGISTER(c, "twice end quiet", void, cb_one_t, twice_end_quiet);
}

/* ---- Cases ---- */

/* Start calls, of which the target destroys each without a response. */
static void twice_start(const struct cb_end *end, hg_id_t id, void *in,
    struct cb_call *calls, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++)
        HG_CHECK_OK(cb_forward(&calls[i], cb_new_handle(end, id), in));
}

static void twice_await(
    const struct cb_end *end, struct cb_call *calls, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        HG_CHECK_RET(cb_wait(end, &calls[i]), HG_CANCELED);
        HG_CHECK_OK(HG_Destroy(calls[i].handle));
    }
}

/* Some of them have inputs that were fetched. */
HG_TEST(call_without_a_response_may_be_destroyed_twice)
{
    struct cb_call calls[TWICE_KEPT];
    static unsigned char bytes[TWICE_LARGE];
    struct blob small = {10, bytes};
    struct blob large = {sizeof(bytes), bytes};
    struct cb_end end;
    cb_one_t count = {0};
    unsigned round;

    hg_test_allow_log("the handle was destroyed");
    cb_open(&end);
    for (round = 0; round < 2; round++) {
        twice_start(&end, twice_keep_id, &small, calls, TWICE_KEPT / 2);
        twice_start(&end, twice_keep_id, &large, calls + TWICE_KEPT / 2,
            TWICE_KEPT - TWICE_KEPT / 2);
        do
            HG_CHECK_OK(cb_call(&end, twice_release_id, NULL, &count));
        while (count.value < (int32_t) TWICE_KEPT);
        twice_await(&end, calls, TWICE_KEPT);
    }
    /* Nothing is left of them. */
    if (end.peer == NULL)
        HG_CHECK_OK(HG_Drain(end.hg_class, CB_TIMEOUT));
    cb_close(&end);
}

/* The function has returned, returns, or has not returned yet. */
HG_TEST(call_without_a_response_may_be_destroyed_twice_in_a_thread)
{
    struct cb_call calls[TWICE_PARKED];
    struct cb_end end;
    int round;

    cb_open(&end);
    for (round = 0; round < 10; round++) {
        twice_start(&end, twice_thread_id, NULL, calls, TWICE_PARKED);
        twice_await(&end, calls, TWICE_PARKED);
        HG_CHECK_OK(cb_call(&end, twice_join_id, NULL, NULL));
    }
    cb_close(&end);
}

/* Its handle is not parked: the library ends such calls all the time. */
HG_TEST(one_way_call_is_destroyed_once)
{
    struct cb_call call;
    struct cb_end end;
    cb_one_t ended = {0};

    hg_test_allow_log("the handle was destroyed");
    cb_open(&end);
    HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, twice_quiet_id), NULL));
    do
        HG_CHECK_OK(cb_call(&end, twice_end_quiet_id, NULL, &ended));
    while (!ended.value);
    HG_CHECK_OK(cb_wait(&end, &call));
    HG_CHECK_OK(HG_Destroy(call.handle));
    cb_close(&end);
}
