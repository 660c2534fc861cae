/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles of the callback model that are used again while something of the call
 * before is still on its way: bytes that somebody looks at stay where they are,
 * and whose message is of no more use may make the next call.
 */
#include "support/library.h"

#include "engine.h"

#define AGAIN_SMALL 16
#define AGAIN_LARGE 3000 /* fits a message, but not the room of a small one */
#define AGAIN_OVERFLOW 100000

/* Two ends, and a handle of `a` to call `b`. */
struct again {
    hg_class_t *classes[2];
    hg_context_t *contexts[2];
    na_addr_t addr;
    hg_id_t id;
    hg_handle_t handle;
    enum loop_fate fate; /* of messages of a type */
    uint8_t type;
    unsigned met;
    bool cancel; /* the first one, while it is handed over */
    bool answer; /* it, as if it had arrived; what comes then is stuck */
    unsigned ends;
    unsigned max;      /* calls to make in all */
    size_t size;       /* of what callbacks send */
    hg_return_t again; /* what the last HG_Forward in a callback returned */
    hg_return_t ret;   /* how the last call ended */
};

static struct again again_now;

/* The last call to `b`; those before it end unanswered. */
static hg_handle_t again_kept;

static void again_drop_kept(void)
{
    HG_CHECK_OK(HG_Destroy(again_kept));
    again_kept = HG_HANDLE_NULL;
}

static hg_return_t again_keep(hg_handle_t handle)
{
    again_drop_kept();
    again_kept = handle;
    return HG_SUCCESS;
}

static hg_return_t again_ended(const struct hg_cb_info *info);

static hg_return_t again_forward(size_t size)
{
    struct blob in = engine_new_blob(size, 5);
    hg_return_t ret = HG_Forward2(again_now.handle, again_ended, NULL, &in);

    free(in.bytes);
    return ret;
}

/* Call again, as callbacks may. */
static hg_return_t again_ended(const struct hg_cb_info *info)
{
    again_now.ret = info->ret;
    if (++again_now.ends < again_now.max)
        again_now.again = again_forward(again_now.size);
    return HG_SUCCESS;
}

static void again_trigger(unsigned end)
{
    unsigned count;

    do
        (void) HG_Trigger(again_now.contexts[end], 0, 1, &count);
    while (count > 0);
}

static void again_turn(void)
{
    unsigned end;
    unsigned i;

    for (i = 0; i < 20; i++) {
        for (end = 0; end < 2; end++) {
            (void) HG_Progress(again_now.contexts[end], 0);
            again_trigger(end);
        }
    }
}

/* A target answers what it has not got, as it guessed the number: no room. */
static void again_answer(void)
{
    unsigned char bytes[HG_HEADER_MIN];
    struct hg_header header;

    hg_handle_begin_header(again_now.handle, HG_HEADER_RESPONSE, &header);
    header.code = HG_AGAIN;
    hg_header_encode(&header, bytes, true);
    loop_inject(
        again_now.classes[0]->na_class, again_now.addr, bytes, sizeof(bytes));
    (void) HG_Progress(again_now.contexts[0], 0);
    again_trigger(0);
}

/* What a thread beside the sender's does is done here, in the midst of it. */
static enum loop_fate again_meet(
    void *arg, na_class_t *from, unsigned char *data, size_t *size)
{
    enum loop_fate fate = again_now.fate;

    (void) arg;
    (void) from;
    if (*size < HG_HEADER_MIN || data[11] != again_now.type)
        return LOOP_PASS;
    if (again_now.met++ > 0)
        return fate;
    if (again_now.cancel) {
        HG_CHECK_OK(HG_Cancel(again_now.handle));
        again_trigger(0);
    }
    if (again_now.answer) {
        again_now.fate = LOOP_STUCK;
        again_answer();
    }
    return fate;
}

static void again_begin(enum loop_fate fate, uint8_t type, unsigned max)
{
    static const char *const names[2] = {"loop://a", "loop://b"};
    unsigned i;

    memset(&again_now, 0, sizeof(again_now));
    again_kept = HG_HANDLE_NULL;
    again_now.fate = fate;
    again_now.type = type;
    again_now.max = max;
    again_now.size = AGAIN_LARGE;
    loop_register();
    for (i = 0; i < 2; i++) {
        again_now.classes[i] = HG_Init2(names[i], HG_TRUE);
        HG_CHECK(again_now.classes[i] != NULL);
        again_now.contexts[i] = HG_Context_create(again_now.classes[i]);
        HG_CHECK(again_now.contexts[i] != NULL);
        again_now.id = HG_Register_name(
            again_now.classes[i], "again", blob_proc, blob_proc, again_keep);
    }
    HG_CHECK_OK(
        HG_Addr_lookup2(again_now.classes[0], names[1], &again_now.addr));
    loop_set_tap(again_meet, NULL);
}

static void again_create(void)
{
    HG_CHECK_OK(HG_Create(again_now.contexts[0], again_now.addr, again_now.id,
        &again_now.handle));
}

static void again_end(void)
{
    unsigned i;

    again_turn();
    again_drop_kept();
    again_turn();
    HG_CHECK_OK(HG_Destroy(again_now.handle));
    HG_CHECK_OK(HG_Addr_free(again_now.classes[0], again_now.addr));
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(HG_Context_destroy(again_now.contexts[i]));
        HG_CHECK_OK(HG_Finalize2(again_now.classes[i]));
    }
    loop_set_tap(NULL, NULL);
}

/* A call one way ends when its message has left: who sends it need not have
 * come back from that. */
HG_TEST(handle_is_reusable_when_its_message_was_sent)
{
    again_begin(LOOP_STUCK, HG_HEADER_REQUEST, 2);
    HG_CHECK_OK(HG_Registered_disable_response(
        again_now.classes[0], again_now.id, HG_TRUE));
    again_create();
    HG_CHECK_OK(again_forward(AGAIN_SMALL));
    HG_CHECK_EQ_INT(atomic_load(&again_now.handle->sends), 1);
    again_now.fate = LOOP_PASS;
    hg_forward_left(again_now.handle, again_now.handle->sequence, HG_SUCCESS);
    again_trigger(0);
    HG_CHECK_OK(again_now.again);
    again_trigger(0);
    HG_CHECK_EQ_INT(again_now.ends, 2);
    loop_unstick();
    again_end();
}

/* The same of one that could not leave. */
HG_TEST(handle_is_reusable_when_its_message_cannot_be_sent)
{
    again_begin(LOOP_STUCK, HG_HEADER_REQUEST, 2);
    again_create();
    HG_CHECK_OK(again_forward(AGAIN_SMALL));
    hg_forward_unsent(
        again_now.handle, again_now.handle->sequence, HG_DISCONNECT);
    again_now.fate = LOOP_PASS;
    again_trigger(0);
    HG_CHECK_OK(again_now.again);
    again_turn();
    HG_CHECK(again_kept != HG_HANDLE_NULL);
    again_drop_kept();
    again_turn();
    HG_CHECK_EQ_INT(again_now.ends, 2);
    loop_unstick();
    again_end();
}

static hg_return_t again_answer_large(hg_handle_t handle)
{
    struct blob out = engine_new_blob(AGAIN_OVERFLOW, 9);

    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    free(out.bytes);
    return HG_Destroy(handle);
}

/* That the last output was not wanted is nothing to the next one. */
HG_TEST(handle_repeats_a_fetch_that_was_canceled)
{
    again_begin(LOOP_PASS, HG_HEADER_REQUEST, 1);
    again_now.id = HG_Register_name(
        again_now.classes[0], "large", blob_proc, blob_proc, NULL);
    HG_CHECK(HG_Register_name(again_now.classes[1], "large", blob_proc,
                 blob_proc, again_answer_large) == again_now.id);
    again_create();
    HG_CHECK_OK(again_forward(AGAIN_SMALL));
    (void) HG_Progress(again_now.contexts[1], 0);
    again_trigger(1);
    (void) na_class_ops(again_now.classes[0]->na_class)
        ->poll(again_now.contexts[0]->na_context);
    HG_CHECK_EQ_INT(again_now.handle->state, HG_HANDLE_FETCHING);
    HG_CHECK_OK(HG_Cancel(again_now.handle));
    again_turn();
    HG_CHECK_EQ_INT(again_now.ends, 1);
    HG_CHECK_RET(again_now.ret, HG_CANCELED);
    HG_CHECK_OK(again_forward(AGAIN_SMALL));
    again_turn();
    HG_CHECK_EQ_INT(again_now.ends, 2);
    HG_CHECK_OK(again_now.ret);
    again_end();
}

/* The next call is made while the message of this one waits to leave, which is
 * a copy: the arguments may be larger, also where the application has them. */
HG_TEST(queued_message_does_not_delay_the_next_call)
{
    hg_size_t size = 0;
    void *buf = NULL;

    again_begin(LOOP_STUCK, HG_HEADER_REQUEST, 2);
    again_create();
    HG_CHECK_OK(HG_Get_input_buf(again_now.handle, &buf, &size));
    HG_CHECK_OK(again_forward(AGAIN_SMALL));
    again_now.size = AGAIN_OVERFLOW;
    again_now.fate = LOOP_PASS;
    again_answer();
    HG_CHECK_EQ_INT(again_now.ends, 1);
    HG_CHECK_OK(again_now.again);
    loop_unstick();
    again_turn();
    HG_CHECK(again_kept != HG_HANDLE_NULL);
    again_end();
    HG_CHECK_EQ_INT(again_now.ends, 2);
}

/* What becomes of a message is not told to the next call. */
HG_TEST(send_error_of_an_earlier_call_ends_no_later_call)
{
    again_begin(LOOP_STUCK, HG_HEADER_REQUEST, 2);
    again_create();
    HG_CHECK_OK(again_forward(AGAIN_SMALL));
    again_now.fate = LOOP_PASS;
    again_answer();
    HG_CHECK_OK(again_now.again);
    loop_unstick();
    (void) HG_Progress(again_now.contexts[0], 0);
    again_trigger(0);
    HG_CHECK_EQ_INT(again_now.ends, 1);
    again_turn();
    HG_CHECK(again_kept != HG_HANDLE_NULL); /* it is served, too */
    again_end();
    HG_CHECK_EQ_INT(again_now.ends, 2);
}

/* ---- What is told of an answer ---- */

static unsigned again_told;
static hg_return_t again_told_ret;

static hg_return_t again_hear(const struct hg_cb_info *info)
{
    HG_CHECK_EQ_INT(info->type, HG_CB_RESPOND);
    again_told++;
    again_told_ret = info->ret;
    return HG_SUCCESS;
}

/* Memory is short for each part of an answer that has to wait. What HG_Respond
 * has refused is not told, and may be done once more. */
HG_TEST(response_callback_runs_after_a_send_without_memory)
{
    struct blob out = engine_new_blob(AGAIN_LARGE, 8);
    uint64_t nth = 0;
    hg_return_t ret;

    hg_test_alloc_install();
    hg_test_allow_log("no memory");
    again_begin(LOOP_LATER, HG_HEADER_RESPONSE, 1);
    again_create();
    HG_CHECK_OK(again_forward(AGAIN_SMALL));
    again_turn();
    do {
        hg_test_alloc_fail_at(++nth);
        ret = HG_Respond(again_kept, again_hear, NULL, &out);
        hg_test_alloc_fail_at(0);
        HG_CHECK(ret == HG_SUCCESS || ret == HG_NOMEM);
        HG_CHECK_EQ_INT(again_told, 0);
    } while (ret != HG_SUCCESS);
    HG_CHECK(nth > 2);
    again_turn();
    HG_CHECK_EQ_INT(again_told, 1);
    HG_CHECK_OK(again_told_ret);
    HG_CHECK_EQ_INT(again_now.ends, 1);
    HG_CHECK_OK(again_now.ret);
    free(out.bytes);
    again_end();
}

/* ---- Buffers, and HG_Reset ---- */

/* A buffer that is asked for is no reason to move what a peer may fetch. */
HG_TEST(buffer_of_a_call_in_progress_is_not_moved)
{
    struct blob out = engine_new_blob(AGAIN_SMALL, 6);
    hg_size_t size = 0;
    void *buf = NULL;

    again_begin(LOOP_STUCK, HG_HEADER_REQUEST, 1);
    again_create();
    HG_CHECK_OK(again_forward(AGAIN_SMALL));
    hg_test_expect_log("is not over");
    HG_CHECK_RET(HG_Get_input_buf(again_now.handle, &buf, &size), HG_BUSY);
    loop_unstick();
    again_turn();
    HG_CHECK_EQ_INT(again_now.ends, 1);
    HG_CHECK_OK(HG_Get_input_buf(again_now.handle, &buf, &size));
    again_now.fate = LOOP_PASS;
    again_now.max = 2;
    HG_CHECK_OK(again_forward(AGAIN_SMALL));
    /* Asked for before: it lies there still. */
    HG_CHECK_OK(HG_Get_input_buf(again_now.handle, &buf, &size));
    again_turn();
    HG_CHECK(again_kept != HG_HANDLE_NULL);
    again_now.fate = LOOP_STUCK;
    again_now.type = HG_HEADER_RESPONSE;
    HG_CHECK_OK(HG_Respond(again_kept, NULL, NULL, &out));
    HG_CHECK_RET(HG_Get_output_buf(again_kept, &buf, &size), HG_BUSY);
    loop_unstick();
    HG_CHECK_OK(HG_Cancel(again_now.handle));
    again_turn();
    free(out.bytes);
    again_end();
}

/* A handle that was reset has all of its time. */
HG_TEST(reset_restores_the_deadline_of_a_handle)
{
    again_begin(LOOP_PASS, HG_HEADER_REQUEST, 1);
    again_create();
    HG_CHECK_OK(HG_Set_deadline(again_now.handle, 60000));
    HG_CHECK_OK(again_forward(AGAIN_SMALL));
    HG_CHECK_OK(HG_Cancel(again_now.handle));
    again_turn();
    again_now.handle->deadline = 1;
    HG_CHECK_EQ_INT(HG_Get_time_left(again_now.handle), 0);
    HG_CHECK_OK(HG_Reset(again_now.handle, HG_ADDR_NULL, 0));
    HG_CHECK_EQ_INT(HG_Get_time_left(again_now.handle), 60000);
    again_end();
}

/* It takes no room, nor memory, which may be short. */
HG_TEST(reset_of_a_handle_is_not_counted_as_a_call)
{
    hg_test_alloc_install();
    again_begin(LOOP_PASS, HG_HEADER_REQUEST, 1);
    again_create();
    again_now.classes[0]->options.max_in_flight = 0;
    HG_CHECK_RET(again_forward(AGAIN_SMALL), HG_AGAIN);
    hg_test_alloc_fail_at(1);
    HG_CHECK_OK(HG_Reset(again_now.handle, again_now.addr, again_now.id));
    hg_test_alloc_fail_at(0);
    HG_CHECK(!hg_test_alloc_failed());
    again_now.classes[0]->options.max_in_flight = 1;
    HG_CHECK_OK(again_forward(AGAIN_SMALL));
    again_end();
    HG_CHECK_EQ_INT(again_now.ends, 1);
}

/* Callbacks that call again and again do not keep a context from ending in its
 * time, here with HG_BUSY. */
HG_TEST_SECONDS(context_destroy_ends_in_time_when_callbacks_forward_again, 30)
{
    again_begin(LOOP_PASS, HG_HEADER_REQUEST, UINT_MAX);
    again_create();
    loop_kill(again_now.classes[0]->na_class, again_now.addr);
    HG_CHECK_OK(again_forward(AGAIN_SMALL));
    HG_CHECK_OK(HG_Set_log_level("error")); /* each call warns */
    hg_test_expect_log("handles, or sends, are left");
    HG_CHECK_RET(HG_Context_destroy(again_now.contexts[0]), HG_BUSY);
    again_now.max = 0;
    again_turn();
    again_end();
}

/* A call one way counts until it is executed, not until its input was
 * fetched. */
HG_TEST(one_way_call_counts_as_input_until_it_is_executed)
{
    struct blob in = engine_new_blob(AGAIN_OVERFLOW, 4);
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
