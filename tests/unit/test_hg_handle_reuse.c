/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles of the callback model that are reused while the previous call is not
 * finished: bytes that may still be read stay in place, and a handle whose
 * message is no longer needed can be used for the next call.
 */
#include "support/library.h"
#include "unit/locked.h"

#include "engine.h"

#define REUSE_SMALL 16
#define REUSE_LARGE 3000 /* fits into a message, but not into a small buffer */
#define REUSE_OVERFLOW 100000

/* Two sides, and a handle of `a` to call `b`. */
struct again {
    hg_class_t *classes[2];
    hg_context_t *contexts[2];
    na_addr_t addr;
    hg_id_t id;
    hg_handle_t handle;
    enum loop_fate fate; /* for messages of a type */
    uint8_t type;
    unsigned met;
    bool cancel; /* the first one, while it is handed over */
    bool answer; /* as if it had arrived; later messages are stuck */
    unsigned ends;
    unsigned max;      /* total number of calls to make */
    size_t size;       /* of the calls made by callbacks */
    hg_return_t again; /* result of the last HG_Forward in a callback */
    hg_return_t ret;   /* result of the last call */
};

static struct again reuse_now;

/* The last call to `b`; those before it end unanswered. */
static hg_handle_t reuse_kept;

static void reuse_drop_kept(void)
{
    HG_CHECK_OK(HG_Destroy(reuse_kept));
    reuse_kept = HG_HANDLE_NULL;
}

static hg_return_t reuse_keep(hg_handle_t handle)
{
    reuse_drop_kept();
    reuse_kept = handle;
    return HG_SUCCESS;
}

static hg_return_t reuse_ended(const struct hg_cb_info *info);

static hg_return_t reuse_forward(size_t size)
{
    struct blob in = engine_new_blob(size, 5);
    hg_return_t ret = HG_Forward2(reuse_now.handle, reuse_ended, NULL, &in);

    free(in.bytes);
    return ret;
}

/* Call again, as callbacks may. */
static hg_return_t reuse_ended(const struct hg_cb_info *info)
{
    reuse_now.ret = info->ret;
    if (++reuse_now.ends < reuse_now.max)
        reuse_now.again = reuse_forward(reuse_now.size);
    return HG_SUCCESS;
}

static void reuse_trigger(unsigned end)
{
    unsigned count;

    do
        (void) HG_Trigger(reuse_now.contexts[end], 0, 1, &count);
    while (count > 0);
}

static void reuse_turn(void)
{
    unsigned end;
    unsigned i;

    for (i = 0; i < 20; i++) {
        for (end = 0; end < 2; end++) {
            (void) HG_Progress(reuse_now.contexts[end], 0);
            reuse_trigger(end);
        }
    }
}

/* A target answers a call that it has not received, with a guessed number: it
 * is full. */
static void reuse_answer(void)
{
    unsigned char bytes[HG_HEADER_MIN];
    struct hg_header header;

    hg_handle_begin_header(reuse_now.handle, HG_HEADER_RESPONSE, &header);
    header.code = HG_AGAIN;
    hg_header_encode(&header, bytes, true);
    loop_inject(
        reuse_now.classes[0]->na_class, reuse_now.addr, bytes, sizeof(bytes));
    (void) HG_Progress(reuse_now.contexts[0], 0);
    reuse_trigger(0);
}

/* The work of a second thread is done here, during the sender's. */
static enum loop_fate reuse_meet(
    void *arg, na_class_t *from, unsigned char *data, size_t *size)
{
    enum loop_fate fate = reuse_now.fate;

    (void) arg;
    (void) from;
    if (*size < HG_HEADER_MIN || data[11] != reuse_now.type)
        return LOOP_PASS;
    if (reuse_now.met++ > 0)
        return fate;
    if (reuse_now.cancel) {
        HG_CHECK_OK(HG_Cancel(reuse_now.handle));
        reuse_trigger(0);
    }
    if (reuse_now.answer) {
        reuse_now.fate = LOOP_STUCK;
        reuse_answer();
    }
    return fate;
}

static void reuse_begin(enum loop_fate fate, uint8_t type, unsigned max)
{
    static const char *const names[2] = {"loop://a", "loop://b"};
    unsigned i;

    memset(&reuse_now, 0, sizeof(reuse_now));
    reuse_kept = HG_HANDLE_NULL;
    reuse_now.fate = fate;
    reuse_now.type = type;
    reuse_now.max = max;
    reuse_now.size = REUSE_LARGE;
    loop_register();
    for (i = 0; i < 2; i++) {
        reuse_now.classes[i] = HG_Init2(names[i], HG_TRUE);
        HG_CHECK(reuse_now.classes[i] != NULL);
        reuse_now.contexts[i] = HG_Context_create(reuse_now.classes[i]);
        HG_CHECK(reuse_now.contexts[i] != NULL);
        reuse_now.id = HG_Register_name(
            reuse_now.classes[i], "again", blob_proc, blob_proc, reuse_keep);
    }
    HG_CHECK_OK(
        HG_Addr_lookup2(reuse_now.classes[0], names[1], &reuse_now.addr));
    loop_set_tap(reuse_meet, NULL);
}

static void reuse_create(void)
{
    HG_CHECK_OK(HG_Create(reuse_now.contexts[0], reuse_now.addr, reuse_now.id,
        &reuse_now.handle));
}

static void reuse_end(void)
{
    unsigned i;

    reuse_turn();
    reuse_drop_kept();
    reuse_turn();
    HG_CHECK_OK(HG_Destroy(reuse_now.handle));
    HG_CHECK_OK(HG_Addr_free(reuse_now.classes[0], reuse_now.addr));
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(HG_Context_destroy(reuse_now.contexts[i]));
        HG_CHECK_OK(HG_Finalize2(reuse_now.classes[i]));
    }
    loop_set_tap(NULL, NULL);
}

/* A one-way call ends when its message was sent, perhaps before the sending
 * function returns. */
HG_TEST(handle_is_reusable_when_its_message_was_sent)
{
    reuse_begin(LOOP_STUCK, HG_HEADER_REQUEST, 2);
    HG_CHECK_OK(HG_Registered_disable_response(
        reuse_now.classes[0], reuse_now.id, HG_TRUE));
    reuse_create();
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    HG_CHECK_EQ_INT(atomic_load(&reuse_now.handle->sends), 1);
    reuse_now.fate = LOOP_PASS;
    locked_forward_left(
        reuse_now.handle, reuse_now.handle->sequence, HG_SUCCESS);
    reuse_trigger(0);
    HG_CHECK_OK(reuse_now.again);
    reuse_trigger(0);
    HG_CHECK_EQ_INT(reuse_now.ends, 2);
    locked_unstick();
    reuse_end();
}

/* As before, for a message that cannot be sent. */
HG_TEST(handle_is_reusable_when_its_message_cannot_be_sent)
{
    reuse_begin(LOOP_STUCK, HG_HEADER_REQUEST, 2);
    reuse_create();
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    locked_forward_unsent(
        reuse_now.handle, reuse_now.handle->sequence, HG_DISCONNECT);
    reuse_now.fate = LOOP_PASS;
    reuse_trigger(0);
    HG_CHECK_OK(reuse_now.again);
    reuse_turn();
    HG_CHECK(reuse_kept != HG_HANDLE_NULL);
    reuse_drop_kept();
    reuse_turn();
    HG_CHECK_EQ_INT(reuse_now.ends, 2);
    locked_unstick();
    reuse_end();
}

static hg_return_t reuse_answer_large(hg_handle_t handle)
{
    struct blob out = engine_new_blob(REUSE_OVERFLOW, 9);

    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    free(out.bytes);
    return HG_Destroy(handle);
}

/* A canceled fetch does not affect the next output. */
HG_TEST(handle_repeats_a_fetch_that_was_canceled)
{
    reuse_begin(LOOP_PASS, HG_HEADER_REQUEST, 1);
    reuse_now.id = HG_Register_name(
        reuse_now.classes[0], "large", blob_proc, blob_proc, NULL);
    HG_CHECK(HG_Register_name(reuse_now.classes[1], "large", blob_proc,
                 blob_proc, reuse_answer_large) == reuse_now.id);
    reuse_create();
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    (void) HG_Progress(reuse_now.contexts[1], 0);
    reuse_trigger(1);
    (void) locked_poll(reuse_now.contexts[0]->na_context);
    HG_CHECK_EQ_INT(reuse_now.handle->state, HG_HANDLE_FETCHING);
    HG_CHECK_OK(HG_Cancel(reuse_now.handle));
    reuse_turn();
    HG_CHECK_EQ_INT(reuse_now.ends, 1);
    HG_CHECK_RET(reuse_now.ret, HG_CANCELED);
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    reuse_turn();
    HG_CHECK_EQ_INT(reuse_now.ends, 2);
    HG_CHECK_OK(reuse_now.ret);
    reuse_end();
}

/* The next call is made while the message of the previous one waits to be sent;
 * that is a copy. The arguments may be larger, even in the application's
 * buffer. */
HG_TEST(queued_message_does_not_delay_the_next_call)
{
    hg_size_t size = 0;
    void *buf = NULL;

    reuse_begin(LOOP_STUCK, HG_HEADER_REQUEST, 2);
    reuse_create();
    HG_CHECK_OK(HG_Get_input_buf(reuse_now.handle, &buf, &size));
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    reuse_now.size = REUSE_OVERFLOW;
    reuse_now.fate = LOOP_PASS;
    reuse_answer();
    HG_CHECK_EQ_INT(reuse_now.ends, 1);
    HG_CHECK_OK(reuse_now.again);
    locked_unstick();
    reuse_turn();
    HG_CHECK(reuse_kept != HG_HANDLE_NULL);
    reuse_end();
    HG_CHECK_EQ_INT(reuse_now.ends, 2);
}

/* A late send error of a message is not reported to the next call. */
HG_TEST(send_error_of_an_earlier_call_ends_no_later_call)
{
    reuse_begin(LOOP_STUCK, HG_HEADER_REQUEST, 2);
    reuse_create();
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    reuse_now.fate = LOOP_PASS;
    reuse_answer();
    HG_CHECK_OK(reuse_now.again);
    locked_unstick();
    (void) HG_Progress(reuse_now.contexts[0], 0);
    reuse_trigger(0);
    HG_CHECK_EQ_INT(reuse_now.ends, 1);
    reuse_turn();
    HG_CHECK(reuse_kept != HG_HANDLE_NULL); /* it is served, too */
    reuse_end();
    HG_CHECK_EQ_INT(reuse_now.ends, 2);
}

/* ---- A call without a response ---- */

/* Its handle is kept for a second HG_Destroy(), but no CANCEL finds it. */
HG_TEST(call_without_a_response_leaves_the_table_of_calls)
{
    struct hg_context *context;

    reuse_begin(LOOP_PASS, HG_HEADER_REQUEST, 1);
    reuse_create();
    context = reuse_now.contexts[1];
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    reuse_turn();
    HG_CHECK(reuse_kept != HG_HANDLE_NULL);
    HG_CHECK_OK(HG_Cancel(reuse_now.handle));
    reuse_turn();
    HG_CHECK_EQ_U64(context->by_call.count, 1); /* the CANCEL entered it */
    reuse_drop_kept();
    HG_CHECK_EQ_INT(context->parked_count, 1);
    HG_CHECK_EQ_U64(context->by_call.count, 0);
    reuse_end();
}

/* ---- The callback of a response ---- */

static unsigned reuse_responses;
static hg_return_t reuse_response_ret;

static hg_return_t reuse_receive(const struct hg_cb_info *info)
{
    HG_CHECK_EQ_INT(info->type, HG_CB_RESPOND);
    reuse_responses++;
    reuse_response_ret = info->ret;
    return HG_SUCCESS;
}

/* Memory is short for each part of a response that has to wait. If HG_Respond
 * refuses, there is no callback, and it can be called once more. */
HG_TEST(response_callback_runs_after_a_send_without_memory)
{
    struct blob out = engine_new_blob(REUSE_LARGE, 8);
    uint64_t nth = 0;
    hg_return_t ret;

    hg_test_alloc_install();
    hg_test_allow_log("no memory");
    reuse_begin(LOOP_LATER, HG_HEADER_RESPONSE, 1);
    reuse_create();
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    reuse_turn();
    do {
        hg_test_alloc_fail_at(++nth);
        ret = HG_Respond(reuse_kept, reuse_receive, NULL, &out);
        hg_test_alloc_fail_at(0);
        HG_CHECK(ret == HG_SUCCESS || ret == HG_NOMEM);
        HG_CHECK_EQ_INT(reuse_responses, 0);
    } while (ret != HG_SUCCESS);
    HG_CHECK(nth > 2);
    reuse_turn();
    HG_CHECK_EQ_INT(reuse_responses, 1);
    HG_CHECK_OK(reuse_response_ret);
    HG_CHECK_EQ_INT(reuse_now.ends, 1);
    HG_CHECK_OK(reuse_now.ret);
    free(out.bytes);
    reuse_end();
}

/* ---- Buffers, and HG_Reset ---- */

/* Asking for a buffer does not move bytes that a peer may fetch. */
HG_TEST(buffer_of_a_call_in_progress_is_not_moved)
{
    struct blob out = engine_new_blob(REUSE_SMALL, 6);
    hg_size_t size = 0;
    void *buf = NULL;

    reuse_begin(LOOP_STUCK, HG_HEADER_REQUEST, 1);
    reuse_create();
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    hg_test_expect_log("is not over");
    HG_CHECK_RET(HG_Get_input_buf(reuse_now.handle, &buf, &size), HG_BUSY);
    locked_unstick();
    reuse_turn();
    HG_CHECK_EQ_INT(reuse_now.ends, 1);
    HG_CHECK_OK(HG_Get_input_buf(reuse_now.handle, &buf, &size));
    reuse_now.fate = LOOP_PASS;
    reuse_now.max = 2;
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    /* Requested before: it is still there. */
    HG_CHECK_OK(HG_Get_input_buf(reuse_now.handle, &buf, &size));
    reuse_turn();
    HG_CHECK(reuse_kept != HG_HANDLE_NULL);
    reuse_now.fate = LOOP_STUCK;
    reuse_now.type = HG_HEADER_RESPONSE;
    HG_CHECK_OK(HG_Respond(reuse_kept, NULL, NULL, &out));
    HG_CHECK_RET(HG_Get_output_buf(reuse_kept, &buf, &size), HG_BUSY);
    locked_unstick();
    HG_CHECK_OK(HG_Cancel(reuse_now.handle));
    reuse_turn();
    free(out.bytes);
    reuse_end();
}

/* A handle that was reset has its full time limit again. */
HG_TEST(reset_restores_the_deadline_of_a_handle)
{
    reuse_begin(LOOP_PASS, HG_HEADER_REQUEST, 1);
    reuse_create();
    HG_CHECK_OK(HG_Set_deadline(reuse_now.handle, 60000));
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    HG_CHECK_OK(HG_Cancel(reuse_now.handle));
    reuse_turn();
    reuse_now.handle->deadline = 1;
    HG_CHECK_EQ_INT(HG_Get_time_left(reuse_now.handle), 0);
    HG_CHECK_OK(HG_Reset(reuse_now.handle, HG_ADDR_NULL, 0));
    HG_CHECK_EQ_INT(HG_Get_time_left(reuse_now.handle), 60000);
    reuse_end();
}

/* It takes no quota, nor memory, which may be short. */
HG_TEST(reset_of_a_handle_is_not_counted_as_a_call)
{
    hg_test_alloc_install();
    reuse_begin(LOOP_PASS, HG_HEADER_REQUEST, 1);
    reuse_create();
    reuse_now.classes[0]->options.max_in_flight = 0;
    HG_CHECK_RET(reuse_forward(REUSE_SMALL), HG_AGAIN);
    hg_test_alloc_fail_at(1);
    HG_CHECK_OK(HG_Reset(reuse_now.handle, reuse_now.addr, reuse_now.id));
    hg_test_alloc_fail_at(0);
    HG_CHECK(!hg_test_alloc_failed());
    reuse_now.classes[0]->options.max_in_flight = 1;
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    reuse_end();
    HG_CHECK_EQ_INT(reuse_now.ends, 1);
}

/* Callbacks that call again and again do not keep HG_Context_destroy from
 * returning in time, here with HG_BUSY. */
HG_TEST_SECONDS(context_destroy_ends_in_time_when_callbacks_forward_again, 30)
{
    reuse_begin(LOOP_PASS, HG_HEADER_REQUEST, UINT_MAX);
    reuse_create();
    locked_kill(reuse_now.classes[0]->na_class, reuse_now.addr);
    HG_CHECK_OK(reuse_forward(REUSE_SMALL));
    HG_CHECK_OK(HG_Set_log_level("error")); /* each call warns */
    hg_test_expect_log("handles, or sends, are left");
    HG_CHECK_RET(HG_Context_destroy(reuse_now.contexts[0]), HG_BUSY);
    reuse_now.max = 0;
    reuse_turn();
    reuse_end();
}

/* A one-way call counts until it is executed, not until its input was
 * fetched. */
HG_TEST(one_way_call_counts_as_input_until_it_is_executed)
{
    struct blob in = engine_new_blob(REUSE_OVERFLOW, 4);
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    loop_register();
    HG_CHECK_OK(engine_open(&engine, 4096, NULL));
    id = engine_register(&engine, "one way", engine_echo);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(
        engine_create(engine.a.context, engine.a.peer, id, &call.handle));
    call.handle->one_way = true;
    HG_CHECK_OK(engine_send(call.handle, &in, engine_ended, &call));
    while (na_queue_count(engine.b.context->queue, 1u << NA_LANE_CALL) == 0) {
        (void) engine_progress(engine.b.context, 1u << NA_LANE_CALL, 0);
        (void) engine_progress(engine.a.context, 1u << NA_LANE_CALL, 0);
    }
    HG_CHECK_EQ_U64(engine.b.hg_class->limits[HG_LIMIT_CALLS].used, 1);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_SUCCESS);
    HG_CHECK_EQ_U64(engine.b.hg_class->limits[HG_LIMIT_CALLS].used, 0);
    engine_forget(&call);
    free(in.bytes);
    engine_check_empty(&engine);
    engine_close(&engine);
}
