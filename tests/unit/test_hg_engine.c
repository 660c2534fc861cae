/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules handle, overflow, forward, serve and context: two engines in one
 * process, whose messages the test may change, delay, drop or forge.
 */
#include "support/library.h"
#include "unit/locked.h"

#include "engine.h"
#include "support/golden.h"

#define ENGINE_EAGER 4096

/* ---- Changes of messages ---- */

struct engine_trouble {
    enum loop_fate fate;
    uint8_t type;     /* of the affected messages */
    unsigned flip_at; /* offset of the byte to invert; 0: none */
    unsigned count;   /* affected messages, so far */
};

static enum loop_fate engine_tap(
    void *arg, na_class_t *from, unsigned char *data, size_t *size)
{
    struct engine_trouble *trouble = (struct engine_trouble *) arg;

    (void) from;
    if (*size < HG_HEADER_MIN || data[11] != trouble->type)
        return LOOP_PASS;
    trouble->count++;
    if (trouble->flip_at != 0 && trouble->flip_at < *size)
        data[trouble->flip_at] ^= 0xff;
    return trouble->fate;
}

static uint64_t engine_refused(const struct engine_end *end)
{
    return atomic_load(&end->context->counts[HG_COUNT_REFUSED]);
}

static uint64_t engine_late(const struct engine_end *end)
{
    return atomic_load(&end->context->counts[HG_COUNT_LATE]);
}

static hg_return_t engine_answer_large(hg_handle_t handle)
{
    hg_return_t ret = engine_answer_size(handle, 100000);

    (void) hg_serve_free(handle);
    return ret;
}

static void engine_begin(
    struct engine *engine, size_t eager, const struct hg_options *options)
{
    loop_register();
    HG_CHECK_OK(engine_open(engine, eager, options));
}

/* A call without arguments, which `callback` receives, or has received. */
static void engine_begin_call(struct engine *engine,
    const struct hg_options *options, hg_rpc_cb_t callback,
    struct engine_trouble *trouble, struct engine_call *call)
{
    struct blob in = {0, NULL};
    hg_id_t id;

    engine_begin(engine, ENGINE_EAGER, options);
    id = engine_register(engine, "call", callback);
    if (trouble != NULL)
        loop_set_tap(engine_tap, trouble);
    HG_CHECK_OK(engine_start(engine, id, &in, call));
    engine_settle(engine);
    HG_CHECK_EQ_INT(engine_kept_count, callback == engine_keep);
}

static void engine_end(struct engine *engine)
{
    engine_check_empty(engine);
    loop_set_tap(NULL, NULL);
    engine_close(engine);
}

/* ---- Arguments of any size ---- */

static void engine_echo_size(struct engine *engine, hg_id_t id, size_t size)
{
    struct blob in = engine_new_blob(size, size);
    struct blob out = {0, NULL};
    struct engine_call call;
    uint64_t inputs =
        atomic_load(&engine->b.context->counts[HG_COUNT_INPUTS_FETCHED]);
    uint64_t outputs =
        atomic_load(&engine->a.context->counts[HG_COUNT_OUTPUTS_FETCHED]);
    bool large = HG_HEADER_MIN + 8 + size > ENGINE_EAGER;

    HG_CHECK_OK(engine_start(engine, id, &in, &call));
    engine_settle(engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_OK(call.ret);
    HG_CHECK_OK(engine_output(&call, &out));
    HG_CHECK_EQ_U64(out.size, size);
    if (size > 0)
        HG_CHECK_EQ_MEM(out.bytes, in.bytes, size);
    HG_CHECK_OK(hg_handle_release(blob_proc, &out));
    engine_forget(&call);
    free(in.bytes);
    HG_CHECK_EQ_U64(
        atomic_load(&engine->b.context->counts[HG_COUNT_INPUTS_FETCHED]) -
            inputs,
        large);
    HG_CHECK_EQ_U64(
        atomic_load(&engine->a.context->counts[HG_COUNT_OUTPUTS_FETCHED]) -
            outputs,
        large);
    /* The acknowledgement released the output's memory. */
    engine_check_empty(engine);
}

HG_TEST_SECONDS(overflow_carries_arguments_of_any_size, 60)
{
    const size_t sizes[] = {0, 1, 7, ENGINE_EAGER, 65536, 1000003,
        (size_t) (hg_test_is_plain() ? 64 : 4) << 20};
    size_t edge = ENGINE_EAGER - HG_HEADER_MIN - 8;
    struct engine engine;
    size_t i;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "echo", engine_echo);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        engine_echo_size(&engine, id, sizes[i]);
    for (i = edge - 3; i <= edge + 3; i++)
        engine_echo_size(&engine, id, i);
    engine_close(&engine);
}

HG_TEST(overflow_matches_its_golden_file)
{
    struct golden *golden = golden_open("tests/golden/overflow.hex");
    struct engine engine;
    unsigned direction;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    for (direction = 0; direction < 2; direction++) {
        bool answer = direction == 1;
        size_t args_size = answer ? 70000 : (size_t) 1 << 20;
        size_t want_size;
        const unsigned char *want = golden_get(
            golden, answer ? "response_large" : "request_large", &want_size);
        struct hg_handle *handle = engine_new_handle(engine.a.context);
        struct hg_header header;
        struct hg_handle_message message = {&header, NULL, 0};
        struct hg_args args;
        unsigned char *bytes;

        HG_CHECK(handle != NULL);
        hg_enter(engine.a.context->lock);
        hg_handle_set_addr(handle, engine.a.peer);
        hg_leave(engine.a.context->lock);
        HG_CHECK_OK(hg_buf_reserve(
            &handle->in, HG_HEADER_MIN + args_size, HG_HEADER_MIN + args_size));
        memset(handle->in.data, 0, HG_HEADER_MIN + args_size);
        memset(&header, 0, sizeof(header));
        header.type = answer ? HG_HEADER_RESPONSE : HG_HEADER_REQUEST;
        header.rpc_id = 0x995DC9BBDF1939FAu;
        header.sequence = 0x0807060504030201u;
        header.trace_id = 0x2827262524232221u;
        args.data = handle->in.data + HG_HEADER_MIN;
        args.size = args_size;
        args.raw = false;
        HG_CHECK_OK(hg_overflow_offer(
            handle, &handle->in_large, &handle->in, &args, &message));
        HG_CHECK_EQ_U64(message.size, want_size);
        hg_header_encode(&header, message.data, false); /* the key is random */
        bytes = (unsigned char *) malloc(want_size);
        HG_CHECK(bytes != NULL);
        memcpy(bytes, message.data, want_size);
        memcpy(bytes + want_size - 16, want + want_size - 16, 8);
        HG_CHECK_EQ_MEM(bytes, want, want_size);
        free(bytes);
        hg_overflow_end(handle, &handle->in_large);

        HG_CHECK_OK(hg_overflow_prepare(handle, &handle->in_large,
            want + HG_HEADER_MIN, want_size - HG_HEADER_MIN));
        HG_CHECK_EQ_U64(handle->in_large.size, args_size);
        HG_CHECK_EQ_U64(handle->in_large.remote->size, args_size);
        HG_CHECK_EQ_U64(handle->in_large.remote->key, 0xa8a7a6a5a4a3a2a1u);
        hg_overflow_free_mem(&handle->in_large.mem);
        hg_overflow_end(handle, &handle->in_large);
        hg_handle_unref(handle);
    }
    engine_close(&engine);
    golden_close(golden);
}

static unsigned engine_freed;

/* Code of the application: no lock is held. */
static void engine_free_data(void *lock)
{
    HG_CHECK(!hg_is_inside((struct hg_monitor *) lock));
    engine_freed++;
}

static hg_return_t engine_answer_large_with_data(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Set_data(handle, handle->context->lock, engine_free_data));
    return engine_answer_large(handle);
}

/* The timer, which runs with the lock held, has the last reference. */
HG_TEST(overflow_output_is_released_when_nobody_fetches_it)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct engine_trouble trouble = {LOOP_DROP, HG_HEADER_RESPONSE, 0, 0};
    struct engine_call call;
    struct engine engine;

    engine_freed = 0;
    options.output_hold_ms = 10;
    engine_begin_call(
        &engine, &options, engine_answer_large_with_data, &trouble, &call);
    HG_CHECK_EQ_INT(trouble.count, 1);
    HG_CHECK_EQ_INT(engine_held(engine.b.context, NULL), 1);
    HG_CHECK_EQ_INT(call.ends, 0);
    /* Progress sleeps until the timeout, not longer. */
    while (engine_held(engine.b.context, NULL) > 0)
        (void) engine_progress(
            engine.b.context, NA_LANES_ALL, hg_clock_after_ms(30));
    HG_CHECK_EQ_INT(engine_live(engine.b.context), 0);
    HG_CHECK_EQ_INT(engine_freed, 1);
    HG_CHECK_OK(locked_forward_cancel(call.handle));
    engine_settle(&engine);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    engine_forget(&call);
    engine_end(&engine);
}

HG_TEST(overflow_output_released_too_early_is_an_error)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct blob in = {0, NULL};
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    options.output_hold_ms = 1;
    engine_begin(&engine, ENGINE_EAGER, &options);
    id = engine_register(&engine, "large", engine_answer_large);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_turn(&engine.b);
    HG_CHECK_EQ_INT(engine_held(engine.b.context, NULL), 1);
    while (engine_held(engine.b.context, NULL) > 0)
        (void) engine_progress(
            engine.b.context, NA_LANES_ALL, hg_clock_after_ms(30));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_NOENTRY);
    engine_forget(&call);
    engine_end(&engine);
}

static hg_handle_t engine_large_kept;

static hg_return_t engine_answer_large_and_keep(hg_handle_t handle)
{
    engine_large_kept = handle;
    return engine_answer_size(handle, 100000);
}

/* The acknowledgement of an output cancels no call. */
HG_TEST(overflow_output_that_was_fetched_is_not_canceled)
{
    struct blob in = {0, NULL};
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "large", engine_answer_large_and_keep);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_OK(call.ret);
    HG_CHECK_EQ_INT(engine_held(engine.b.context, NULL), 0);
    HG_CHECK(HG_Is_canceled(engine_large_kept) == HG_FALSE);
    HG_CHECK_OK(hg_serve_free(engine_large_kept));
    engine_forget(&call);
    engine_end(&engine);
}

/* Only a valid CANCEL of the peer that fetches an output releases it. */
HG_TEST(overflow_output_is_released_by_its_peer_only)
{
    unsigned char bytes[HG_HEADER_MIN];
    struct blob in = {0, NULL};
    struct engine_call call;
    struct hg_header header;
    struct engine engine;
    na_addr_t stranger;
    na_class_t *third;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    third = engine_open_class("loop://c", ENGINE_EAGER);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(engine.b.na_class, "loop://c", 1000, &stranger));
    id = engine_register(&engine, "large", engine_answer_large);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_turn(&engine.b);
    memset(&header, 0, sizeof(header));
    header.type = HG_HEADER_CANCEL;
    header.sequence = call.handle->sequence;
    hg_header_encode(&header, bytes, true);
    loop_inject(engine.b.na_class, stranger, bytes, sizeof(bytes));
    engine_turn(&engine.b);
    HG_CHECK_EQ_INT(engine_held(engine.b.context, NULL), 1);
    bytes[HG_HEADER_MIN - 1] ^= 1;
    loop_inject(engine.b.na_class, engine.b.peer, bytes, sizeof(bytes));
    engine_turn(&engine.b);
    HG_CHECK_EQ_U64(engine_refused(&engine.b), 1);
    HG_CHECK_EQ_INT(engine_held(engine.b.context, NULL), 1);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_OK(call.ret);
    HG_CHECK_EQ_INT(engine_held(engine.b.context, NULL), 0);
    engine_forget(&call);
    HG_CHECK_OK(NA_Addr_free(engine.b.na_class, stranger));
    HG_CHECK_OK(NA_Finalize(third));
    engine_end(&engine);
}

HG_TEST(overflow_fetch_of_an_output_can_be_canceled)
{
    struct blob in = {0, NULL};
    struct engine_call call;
    struct engine engine;
    unsigned turns;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "large", engine_answer_large);
    /* After each number of rounds: before, during and after the fetch. */
    for (turns = 0; turns < 8; turns++) {
        unsigned i;

        HG_CHECK_OK(engine_start(&engine, id, &in, &call));
        engine_turn(&engine.b);
        for (i = 0; i < turns; i++)
            engine_turn(i % 2 == 0 ? &engine.a : &engine.b);
        if (locked_forward_cancel(call.handle) == HG_NOENTRY)
            HG_CHECK_EQ_INT(call.ends, 1);
        engine_settle(&engine);
        HG_CHECK_EQ_INT(call.ends, 1);
        HG_CHECK(call.ret == HG_SUCCESS || call.ret == HG_CANCELED);
        if (turns <= 1)
            HG_CHECK_RET(call.ret, HG_CANCELED);
        engine_forget(&call);
        /* It was not acknowledged. */
        if (engine_held(engine.b.context, NULL) > 0) {
            hg_overflow_release_all(engine.b.context);
            engine_settle(&engine);
        }
        engine_check_empty(&engine);
    }
    engine_close(&engine);
}

/* The request has arrived, and its input is not being fetched yet: there is no
 * transfer to cancel, but the call is canceled. */
HG_TEST(overflow_fetch_can_be_canceled_before_it_begins)
{
    struct blob in = {0, NULL};
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "large", engine_answer_large);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_turn(&engine.b);
    (void) locked_poll(engine.a.context->na_context);
    HG_CHECK_EQ_INT(call.handle->state, HG_HANDLE_FETCHING);
    HG_CHECK_OK(locked_forward_cancel(call.handle));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    engine_forget(&call);
    engine_end(&engine);
}

/* A layer that ends does not fetch inputs of calls that it will not execute. */
HG_TEST(overflow_fetch_stops_when_the_layer_ends)
{
    struct blob in = engine_new_blob((size_t) 40 << 20, 3);
    struct engine_call call;
    struct engine engine;
    struct hg_context *context;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    context = engine.b.context;
    id = engine_register(&engine, "echo", engine_echo);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_turn(&engine.b);
    HG_CHECK_EQ_INT(context->deadline.count, 1); /* the first piece */
    hg_test_expect_log("refused \"echo\": canceled");
    context->closing = true;
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    HG_CHECK_EQ_U64(atomic_load(&context->counts[HG_COUNT_INPUTS_FETCHED]), 0);
    context->closing = false;
    engine_forget(&call);
    free(in.bytes);
    engine_end(&engine);
}

/* ---- False descriptions of large arguments ---- */

struct engine_forgery {
    uint64_t size;
    uint32_t length; /* of the memory handle, as announced */
    size_t cut;      /* bytes missing at the end */
    hg_return_t ret;
};

/* A description of memory that does not exist, in a correct message. */
static size_t engine_forgery_message(unsigned char *bytes,
    const struct engine_forgery *lie, uint8_t type, hg_id_t id,
    uint64_t sequence)
{
    struct hg_header header;
    unsigned char *payload = bytes + HG_HEADER_MIN;

    memset(&header, 0, sizeof(header));
    header.type = type;
    header.flags = HG_HEADER_LARGE;
    header.rpc_id = id;
    header.sequence = sequence;
    header.payload_size =
        HG_OVERFLOW_FIXED + NA_EMUL_WIRE_HANDLE_SIZE - lie->cut;
    memset(payload, 0, HG_OVERFLOW_FIXED + NA_EMUL_WIRE_HANDLE_SIZE);
    hg_wire_store64(payload, lie->size);
    hg_wire_store32(payload + 16, lie->length);
    payload[20] = 0x68;
    payload[21] = 0x4d;
    payload[22] = 1;
    payload[23] = NA_MEM_READ_ONLY;
    hg_wire_store64(payload + 28, 0x1234567890u);
    hg_wire_store64(payload + 36, 1000);
    hg_header_encode(&header, bytes, true);
    return HG_HEADER_MIN + header.payload_size;
}

static const struct engine_forgery engine_forgeries[] = {
    {1000, 24, 0, HG_NOENTRY},  /* no such key */
    {1001, 24, 0, HG_OVERFLOW}, /* larger than the memory */
    {0, 24, 0, HG_PROTOCOL_ERROR},
    {1000, 23, 0, HG_PROTOCOL_ERROR},
    {1000, 25, 0, HG_PROTOCOL_ERROR},
    {1000, 0, 24, HG_PROTOCOL_ERROR},
    {1000, 24, 25, HG_PROTOCOL_ERROR},
    {1000, 24, 44, HG_PROTOCOL_ERROR},
    {((uint64_t) 1 << 30) + 1, 24, 0, HG_MSGSIZE},
    {UINT64_MAX, 24, 0, HG_MSGSIZE},
};

#define ENGINE_LIES (sizeof(engine_forgeries) / sizeof(engine_forgeries[0]))

static hg_return_t engine_never(hg_handle_t handle)
{
    (void) handle;
    hg_test_fail("engine_never", "the handler ran");
}

/* A call that ends with the error of the false description: messages of `type`
 * to `to`. */
static void engine_send_forgeries(
    struct engine *engine, struct engine_end *to, uint8_t type)
{
    hg_id_t id = engine_register(engine, "never", engine_never);
    struct blob in = {0, NULL};
    size_t i;

    hg_test_expect_log("malformed description");
    hg_test_expect_log("exceed the limit");
    hg_test_allow_log(""); /* of NA */
    for (i = 0; i < ENGINE_LIES; i++) {
        struct engine_trouble trouble = {LOOP_DROP, HG_HEADER_REQUEST, 0, 0};
        struct engine_call call;
        unsigned char bytes[256];
        size_t size;

        /* The call's own message is dropped, and replaced by the false one. */
        loop_set_tap(engine_tap, &trouble);
        HG_CHECK_OK(engine_start(engine, id, &in, &call));
        loop_set_tap(NULL, NULL);
        size = engine_forgery_message(
            bytes, &engine_forgeries[i], type, id, call.handle->sequence);
        loop_inject(to->na_class, to->peer, bytes, size);
        engine_settle(engine);
        HG_CHECK_EQ_INT(call.ends, 1);
        HG_CHECK_RET(call.ret, engine_forgeries[i].ret);
        engine_forget(&call);
        engine_check_empty(engine);
    }
}

HG_TEST(overflow_request_with_false_fields_is_answered_with_an_error)
{
    struct engine engine;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    engine_send_forgeries(&engine, &engine.b, HG_HEADER_REQUEST);
    engine_close(&engine);
}

HG_TEST(overflow_response_with_false_fields_ends_the_call)
{
    struct engine engine;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    engine_send_forgeries(&engine, &engine.a, HG_HEADER_RESPONSE);
    engine_close(&engine);
}

/* A response with an error has no large output, whatever its flags say: the
 * caller fetches nothing and sends no CANCEL. */
HG_TEST(overflow_response_with_an_error_is_not_fetched)
{
    struct engine_trouble trouble = {LOOP_DROP, HG_HEADER_REQUEST, 0, 0};
    struct blob in = {0, NULL};
    unsigned char bytes[256];
    struct engine_call call;
    struct hg_header header;
    struct engine engine;
    bool answerable;
    size_t size;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "never", engine_never);
    loop_set_tap(engine_tap, &trouble);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    size = engine_forgery_message(bytes, &engine_forgeries[0],
        HG_HEADER_RESPONSE, id, call.handle->sequence);
    HG_CHECK_OK(hg_header_decode(&header, bytes, size, &answerable));
    header.code = HG_PERMISSION;
    hg_header_encode(&header, bytes, true);
    trouble.type = HG_HEADER_CANCEL;
    trouble.count = 0;
    loop_inject(engine.a.na_class, engine.a.peer, bytes, size);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_PERMISSION);
    HG_CHECK_EQ_INT(trouble.count, 0);
    loop_set_tap(NULL, NULL);
    engine_forget(&call);
    engine_end(&engine);
}

/* ---- Messages damaged, lost, delayed, forged ---- */

HG_TEST(forward_ends_with_the_error_of_a_damaged_response)
{
    struct engine_trouble trouble = {LOOP_PASS, HG_HEADER_RESPONSE, 0, 0};
    struct blob in = engine_new_blob(100, 1);
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "echo", engine_echo);
    loop_set_tap(engine_tap, &trouble);

    trouble.flip_at = 40; /* in the header, after the identity of the call */
    hg_test_expect_log("the answer was damaged in transit");
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_CHECKSUM_ERROR);
    HG_CHECK_EQ_U64(engine_refused(&engine.a), 1);
    engine_forget(&call);

    trouble.flip_at = HG_HEADER_MIN + 50; /* in the arguments */
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_CHECKSUM_ERROR);
    HG_CHECK_EQ_U64(engine_refused(&engine.a), 2);
    engine_forget(&call);

    trouble.flip_at = 10; /* another major version */
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK_RET(call.ret, HG_PROTOCOL_ERROR);
    engine_forget(&call);

    free(in.bytes);
    engine_end(&engine);
}

HG_TEST(large_input_that_was_damaged_is_refused_and_counted)
{
    struct blob in = engine_new_blob(100000, 1);
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "echo", engine_echo);
    hg_test_expect_log("100008 bytes of arguments of \"echo\" from loop://");
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    call.handle->in.data[HG_HEADER_MIN + 50000] ^= 1;
    engine_settle(&engine);
    HG_CHECK_RET(call.ret, HG_CHECKSUM_ERROR);
    HG_CHECK_EQ_U64(engine_refused(&engine.b), 1);
    engine_forget(&call);
    free(in.bytes);
    engine_end(&engine);
}

static const hg_checksum_level_t engine_levels[] = {
    HG_CHECKSUM_NONE, HG_CHECKSUM_RPC_HEADERS, HG_CHECKSUM_RPC_PAYLOAD};

enum { ENGINE_LEVELS = 3 };

/* As HG_Init_opt does. */
static void engine_set_level(
    const struct engine_end *end, hg_checksum_level_t level)
{
    end->hg_class->options.no_checksum = level != HG_CHECKSUM_RPC_PAYLOAD;
    end->hg_class->sum_messages = level == HG_CHECKSUM_RPC_HEADERS;
}

/* Where bytes are copied in memory, only what asks for it has a CRC64. */
static void engine_try_in_memory(bool always, uint8_t type)
{
    struct engine_trouble trouble = {LOOP_PASS, type, HG_HEADER_MIN + 50, 0};
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct blob in = engine_new_blob(100, 1);
    struct blob large = engine_new_blob(100000, 1);
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    options.checksum_always = always;
    engine_begin(&engine, ENGINE_EAGER, &options);
    na_class_core_of(engine.a.na_class)->ops.caps |= NA_CAP_IN_MEMORY;
    na_class_core_of(engine.b.na_class)->ops.caps |= NA_CAP_IN_MEMORY;
    id = engine_register(&engine, "echo", engine_echo);
    engine_echo_size(&engine, id, 100000);
    loop_set_tap(engine_tap, &trouble);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(trouble.count, 1);
    HG_CHECK_RET(call.ret, always ? HG_CHECKSUM_ERROR : HG_SUCCESS);
    engine_forget(&call);
    loop_set_tap(NULL, NULL);
    HG_CHECK_OK(engine_start(&engine, id, &large, &call));
    call.handle->in.data[HG_HEADER_MIN + 50000] ^= 1;
    engine_settle(&engine);
    HG_CHECK_RET(call.ret, always ? HG_CHECKSUM_ERROR : HG_SUCCESS);
    engine_forget(&call);
    free(in.bytes);
    free(large.bytes);
    engine_end(&engine);
}

HG_TEST(checksum_in_memory_is_an_option)
{
    engine_try_in_memory(false, HG_HEADER_REQUEST);
    engine_try_in_memory(false, HG_HEADER_RESPONSE);
    hg_test_expect_log("damaged in transit");
    engine_try_in_memory(true, HG_HEADER_REQUEST);
    engine_try_in_memory(true, HG_HEADER_RESPONSE);
}

/* The sender decides whether a message has a CRC64; a receiver verifies one
 * that is present, and accepts messages without one. */
static void engine_try_checksum(
    hg_checksum_level_t from, hg_checksum_level_t to, uint8_t type)
{
    struct engine_trouble trouble = {LOOP_PASS, type, HG_HEADER_MIN + 50, 0};
    bool checked = (type == HG_HEADER_REQUEST ? from : to) != HG_CHECKSUM_NONE;
    struct blob in = engine_new_blob(100, 1);
    struct blob out = {0, NULL};
    struct engine_call call;
    struct engine engine;
    hg_return_t ret;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    engine_set_level(&engine.a, from);
    engine_set_level(&engine.b, to);
    id = engine_register(&engine, "echo", engine_echo);
    engine_echo_size(&engine, id, 100);
    engine_echo_size(&engine, id, 100000);
    loop_set_tap(engine_tap, &trouble);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(trouble.count, 1);
    HG_CHECK_EQ_INT(call.ends, 1);
    ret = call.ret == HG_SUCCESS ? engine_output(&call, &out) : call.ret;
    HG_CHECK_RET(ret, checked ? HG_CHECKSUM_ERROR : HG_SUCCESS);
    if (ret == HG_SUCCESS) {
        HG_CHECK_EQ_U64(out.size, in.size);
        HG_CHECK_EQ_INT(out.bytes[42], in.bytes[42] ^ 0xff);
        HG_CHECK_OK(hg_handle_release(blob_proc, &out));
    }
    engine_forget(&call);
    free(in.bytes);
    engine_end(&engine);
}

HG_TEST(checksum_is_chosen_by_the_sender)
{
    unsigned from, to;

    hg_test_expect_log("damaged in transit");
    for (from = 0; from < ENGINE_LEVELS; from++) {
        for (to = 0; to < ENGINE_LEVELS; to++) {
            engine_try_checksum(
                engine_levels[from], engine_levels[to], HG_HEADER_REQUEST);
            engine_try_checksum(
                engine_levels[from], engine_levels[to], HG_HEADER_RESPONSE);
        }
    }
}

HG_TEST(checksum_level_decides_which_messages_have_one)
{
    unsigned i;

    for (i = 0; i < ENGINE_LEVELS; i++) {
        struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
        hg_class_t *hg_class;

        info.checksum_level = engine_levels[i];
        hg_class = HG_Init_opt("self://", HG_TRUE, &info);
        HG_CHECK(hg_class != NULL);
        HG_CHECK_EQ_INT(hg_class_sums_messages(hg_class), i > 0);
        HG_CHECK_OK(HG_Finalize2(hg_class));
    }
}

/* A peer may send a text that is too long. */
HG_TEST(forward_truncates_an_error_text_that_is_too_long)
{
    struct engine_trouble trouble = {LOOP_DROP, HG_HEADER_REQUEST, 0, 0};
    unsigned char bytes[HG_HEADER_MIN + 2 * HG_ERROR_TEXT_MAX];
    struct hg_header header = {.type = HG_HEADER_RESPONSE};
    struct blob in = {0, NULL};
    struct engine_call call;
    struct engine engine;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    loop_set_tap(engine_tap, &trouble);
    header.rpc_id = engine_register(&engine, "never", engine_never);
    HG_CHECK_OK(engine_start(&engine, header.rpc_id, &in, &call));
    header.code = HG_PERMISSION;
    header.sequence = call.handle->sequence;
    header.payload_size = sizeof(bytes) - HG_HEADER_MIN;
    memset(bytes + HG_HEADER_MIN, 'x', header.payload_size);
    hg_header_encode(&header, bytes, true);
    loop_inject(engine.a.na_class, engine.a.peer, bytes, sizeof(bytes));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_PERMISSION);
    HG_CHECK_EQ_U64(strlen(HG_Get_error_text(call.handle)), HG_HEADER_TEXT_MAX);
    engine_forget(&call);
    engine_end(&engine);
}

static hg_return_t engine_count(const struct hg_cb_info *info)
{
    ++*(unsigned *) info->arg;
    return info->ret;
}

static hg_return_t engine_respond(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    HG_CHECK_EQ_U64(hg_wire_load64(handle->out.data), 0);
    return HG_Destroy(handle);
}

/* Not between contexts either. */
HG_TEST(checksum_is_not_used_within_a_process)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_context_t *contexts[2];
    hg_class_t *hg_class;
    hg_handle_t handle;
    unsigned ended = 0;
    hg_addr_t self;
    hg_id_t id;

    info.checksum_level = HG_CHECKSUM_RPC_PAYLOAD;
    hg_class = HG_Init_opt("self://", HG_TRUE, &info);
    HG_CHECK(hg_class != NULL);
    contexts[0] = HG_Context_create_id(hg_class, 0);
    contexts[1] = HG_Context_create_id(hg_class, 1);
    id = HG_Register_name(
        hg_class, "respond", blob_proc, blob_proc, engine_respond);
    HG_CHECK_OK(HG_Addr_self(hg_class, &self));
    HG_CHECK_OK(HG_Create(contexts[0], self, id, &handle));
    HG_CHECK_OK(HG_Set_target_id(handle, 1));
    HG_CHECK_OK(HG_Forward2(handle, engine_count, &ended, NULL));
    HG_CHECK_EQ_U64(hg_wire_load16(handle->in.data + 8), HG_HEADER_MAGIC);
    HG_CHECK_EQ_U64(hg_wire_load64(handle->in.data), 0);
    while (ended == 0) {
        unsigned i;

        for (i = 0; i < 2; i++) {
            (void) HG_Progress(contexts[i], 1);
            (void) HG_Trigger(contexts[i], 0, 1, NULL);
        }
    }
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(HG_Addr_free(hg_class, self));
    HG_CHECK_OK(HG_Context_destroy(contexts[0]));
    HG_CHECK_OK(HG_Context_destroy(contexts[1]));
    HG_CHECK_OK(HG_Finalize2(hg_class));
}

/* The flag of a one-way call. */
static enum loop_fate engine_turn_flag(
    void *arg, na_class_t *from, unsigned char *data, size_t *size)
{
    (void) arg;
    (void) from;
    if (*size >= HG_HEADER_MIN && data[11] == HG_HEADER_REQUEST)
        data[12] ^= HG_HEADER_ONE_WAY;
    return LOOP_PASS;
}

/* No field of a damaged header is trusted: the caller gets a response even if
 * the message seems to be one-way. */
HG_TEST(serve_answers_a_request_with_any_damaged_field)
{
    static const unsigned fields[] = {1, 14, 32, 36, 40, HG_HEADER_MIN};
    struct engine_trouble trouble = {LOOP_PASS, HG_HEADER_REQUEST, 0, 0};
    struct blob in = engine_new_blob(100, 1);
    struct engine_call call;
    struct engine engine;
    hg_id_t id;
    size_t i;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "never", engine_never);
    loop_set_tap(engine_tap, &trouble);
    hg_test_expect_log("a damaged message of 156 bytes");
    for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        trouble.flip_at = fields[i];
        HG_CHECK_OK(engine_start(&engine, id, &in, &call));
        engine_settle(&engine);
        HG_CHECK_EQ_INT(call.ends, 1);
        HG_CHECK_RET(call.ret, HG_CHECKSUM_ERROR);
        HG_CHECK_EQ_U64(engine_refused(&engine.b), i + 1);
        engine_forget(&call);
    }
    loop_set_tap(engine_turn_flag, NULL);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_CHECKSUM_ERROR);
    engine_forget(&call);
    free(in.bytes);
    engine_end(&engine);
}

/* Large arguments that change after they were encoded are refused, in either
 * direction, unless the sender computes no checksum. */
static void engine_damage_large(bool answer, bool checked)
{
    struct blob in = engine_new_blob(answer ? 0 : (size_t) 3 << 20, 1);
    struct engine_call call;
    struct engine engine;
    struct hg_handle *at;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    engine.a.hg_class->options.no_checksum = !checked;
    engine.b.hg_class->options.no_checksum = !checked;
    id = answer ? engine_register(&engine, "large", engine_answer_large)
                : engine_register(&engine, "echo", engine_echo);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    at = call.handle;
    if (answer) {
        engine_turn(&engine.b);
        HG_CHECK_EQ_INT(engine_held(engine.b.context, &at), 1);
    }
    (answer ? at->out : at->in).data[HG_HEADER_MIN + 70000] ^= 4;
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, checked ? HG_CHECKSUM_ERROR : HG_SUCCESS);
    engine_forget(&call);
    engine_check_empty(&engine);
    free(in.bytes);
    engine_end(&engine);
}

HG_TEST(overflow_verifies_the_bytes_it_fetched)
{
    hg_test_expect_log(
        "bytes of arguments of \"echo\" from loop://a were damaged");
    engine_damage_large(false, true);
    engine_damage_large(false, false);
    hg_test_expect_log(
        "bytes of arguments of \"large\" from loop://b were damaged");
    engine_damage_large(true, true);
    engine_damage_large(true, false);
}

HG_TEST(serve_answers_a_damaged_request)
{
    struct engine_trouble trouble = {LOOP_PASS, HG_HEADER_REQUEST, 0, 0};
    struct blob in = engine_new_blob(100, 1);
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "echo", engine_echo);
    loop_set_tap(engine_tap, &trouble);

    hg_test_expect_log("loop://b refused \"echo\": checksum error");
    trouble.flip_at = 7; /* the CRC64 */
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_CHECKSUM_ERROR);
    HG_CHECK_EQ_U64(engine_refused(&engine.b), 1);
    engine_forget(&call);

    trouble.flip_at = HG_HEADER_MIN + 50; /* in the arguments */
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_CHECKSUM_ERROR);
    HG_CHECK_EQ_U64(engine_refused(&engine.b), 2);
    engine_forget(&call);

    trouble.flip_at = 10; /* another major version */
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK_RET(call.ret, HG_PROTOCOL_ERROR);
    engine_forget(&call);

    free(in.bytes);
    engine_end(&engine);
}

HG_TEST(messages_that_are_sent_late_arrive)
{
    static const uint8_t types[] = {
        HG_HEADER_REQUEST, HG_HEADER_RESPONSE, HG_HEADER_CANCEL};
    struct engine engine;
    size_t i;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "echo", engine_echo);
    for (i = 0; i < sizeof(types); i++) {
        struct engine_trouble trouble = {LOOP_LATER, types[i], 0, 0};

        loop_set_tap(engine_tap, &trouble);
        engine_echo_size(&engine, id, 10);
        engine_echo_size(&engine, id, 100000);
        HG_CHECK(trouble.count > 0);
        loop_set_tap(NULL, NULL);
    }
    engine_close(&engine);
}

HG_TEST(forward_ends_when_its_request_cannot_be_sent)
{
    struct engine_trouble trouble = {LOOP_FAIL, HG_HEADER_REQUEST, 0, 0};
    size_t sizes[2] = {10, 100000};
    struct engine engine;
    unsigned i;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "echo", engine_echo);
    loop_set_tap(engine_tap, &trouble);
    for (i = 0; i < 2; i++) {
        struct blob in = engine_new_blob(sizes[i], 1);
        struct engine_call call;

        HG_CHECK_OK(engine_start(&engine, id, &in, &call));
        engine_settle(&engine);
        HG_CHECK_EQ_INT(call.ends, 1);
        HG_CHECK_RET(call.ret, HG_DISCONNECT);
        engine_forget(&call);
        free(in.bytes);
    }
    engine_end(&engine);
}

/* A response that cannot be sent holds nothing for ever. */
HG_TEST(serve_releases_a_response_that_cannot_be_sent)
{
    struct engine_trouble trouble = {LOOP_FAIL, HG_HEADER_RESPONSE, 0, 0};
    struct engine_call call;
    struct engine engine;

    engine_begin_call(&engine, NULL, engine_answer_large, &trouble, &call);
    HG_CHECK_EQ_INT(engine_held(engine.b.context, NULL), 0);
    HG_CHECK_OK(locked_forward_cancel(call.handle));
    engine_settle(&engine);
    engine_forget(&call);
    engine_end(&engine);
}

HG_TEST(calls_never_sent_are_not_counted)
{
    struct engine engine;
    struct engine_call call;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "echo", engine_echo);
    HG_CHECK_OK(
        engine_create(engine.a.context, engine.a.peer, id, &call.handle));
    HG_CHECK_EQ_INT(engine.a.hg_class->in_flight, 1);
    HG_CHECK_EQ_U64(
        engine.a.hg_class->limits[HG_LIMIT_IN_FLIGHT].used, HG_LIMIT_CALL);
    locked_forward_forget(call.handle);
    hg_handle_unref(call.handle);
    HG_CHECK_EQ_U64(engine.a.hg_class->limits[HG_LIMIT_IN_FLIGHT].used, 0);
    HG_CHECK_EQ_U64(
        atomic_load(&engine.a.context->counts[HG_COUNT_REQUESTS_SENT]), 0);
    HG_CHECK_EQ_INT(engine.a.hg_class->in_flight, 0);
    engine_end(&engine);
}

/* Responses without a matching call are only counted. */
HG_TEST(messages_without_a_call_are_counted)
{
    unsigned char bytes[HG_HEADER_MIN];
    struct hg_header header;
    struct blob in = {0, NULL};
    struct engine_call call;
    struct engine engine;
    na_addr_t stranger;
    na_class_t *third;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    third = engine_open_class("loop://c", ENGINE_EAGER);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(engine.a.na_class, "loop://c", 1000, &stranger));
    id = engine_register(&engine, "keep", engine_keep);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(engine_kept_count, 1);

    memset(&header, 0, sizeof(header));
    header.type = HG_HEADER_RESPONSE;
    header.sequence = call.handle->sequence;
    header.rpc_id = id;
    hg_header_encode(&header, bytes, true); /* valid, but from another peer */
    loop_inject(engine.a.na_class, stranger, bytes, sizeof(bytes));
    header.rpc_id = id + 1;
    hg_header_encode(&header, bytes, true);
    loop_inject(engine.a.na_class, engine.a.peer, bytes, sizeof(bytes));
    header.rpc_id = id;
    header.sequence++;
    hg_header_encode(&header, bytes, true);
    loop_inject(engine.a.na_class, engine.a.peer, bytes, sizeof(bytes));
    header.type = HG_HEADER_CANCEL;
    hg_header_encode(&header, bytes, true);
    loop_inject(engine.a.na_class, engine.a.peer, bytes, sizeof(bytes));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 0);
    HG_CHECK_EQ_U64(engine_late(&engine.a), 3);

    header.type = 77; /* an unknown type */
    hg_header_encode(&header, bytes, true);
    loop_inject(engine.a.na_class, engine.a.peer, bytes, sizeof(bytes));
    loop_inject(engine.a.na_class, engine.a.peer, bytes, 0);
    loop_inject(engine.a.na_class, engine.a.peer, "garbage", 7);
    engine_settle(&engine);
    HG_CHECK_EQ_U64(engine_refused(&engine.a), 3);

    HG_CHECK_OK(engine_answer(engine_kept[0], &in));
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    engine_settle(&engine);
    HG_CHECK_OK(call.ret);
    engine_forget(&call);
    engine_check_empty(&engine);
    HG_CHECK_OK(NA_Addr_free(engine.a.na_class, stranger));
    engine_close(&engine);
    HG_CHECK_OK(NA_Finalize(third));
}

/* ---- Death ---- */

HG_TEST(forward_ends_once_when_the_peer_dies)
{
    struct blob in = engine_new_blob(100000, 3);
    struct blob small = {0, NULL};
    struct engine_call calls[10];
    struct engine_call late;
    struct engine engine;
    unsigned i;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "keep", engine_keep);
    for (i = 0; i < 10; i++)
        HG_CHECK_OK(
            engine_start(&engine, id, i % 2 == 0 ? &in : &small, &calls[i]));
    /* Some have arrived, and the arguments of some are being fetched. */
    engine_turn(&engine.b);
    engine_turn(&engine.a);
    engine_turn(&engine.b);
    locked_kill(engine.a.na_class, engine.a.peer);
    locked_kill(engine.b.na_class, engine.b.peer);
    engine_settle(&engine);
    for (i = 0; i < 10; i++) {
        HG_CHECK_EQ_INT(calls[i].ends, 1);
        HG_CHECK_RET(calls[i].ret, HG_DISCONNECT);
        engine_forget(&calls[i]);
    }
    HG_CHECK_RET(engine_start(&engine, id, &small, &late), HG_DISCONNECT);
    HG_CHECK(engine_kept_count > 0);
    for (i = 0; i < engine_kept_count; i++)
        HG_CHECK_OK(hg_serve_free(engine_kept[i]));
    engine_settle(&engine);
    free(in.bytes);
    engine_end(&engine);
}

HG_TEST(serve_releases_what_it_held_for_a_dead_peer)
{
    struct engine_trouble trouble = {LOOP_DROP, HG_HEADER_RESPONSE, 0, 0};
    struct engine_call call;
    struct engine engine;

    engine_begin_call(&engine, NULL, engine_answer_large, &trouble, &call);
    HG_CHECK_EQ_INT(engine_held(engine.b.context, NULL), 1);
    locked_kill(engine.b.na_class, engine.b.peer);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(engine_held(engine.b.context, NULL), 0);
    HG_CHECK_EQ_INT(engine_live(engine.b.context), 0);
    locked_kill(engine.a.na_class, engine.a.peer);
    engine_settle(&engine);
    HG_CHECK_RET(call.ret, HG_DISCONNECT);
    engine_forget(&call);
    engine_end(&engine);
}

/* ---- Events while another thread makes progress ---- */

struct engine_driver {
    struct hg_context *context;
    _Atomic bool stop;
    pthread_t thread;
};

static void *engine_drive(void *arg)
{
    struct engine_driver *driver = (struct engine_driver *) arg;

    hg_enter(driver->context->lock);
    while (!atomic_load(&driver->stop))
        (void) hg_context_progress(driver->context, NA_LANES_DONE,
            &driver->stop, hg_clock_after_ms(15000));
    hg_leave(driver->context->lock);
    return NULL;
}

/* A thread makes progress on `end` and sleeps. */
static void engine_start_driver(
    struct engine_driver *driver, struct engine_end *end)
{
    driver->context = end->context;
    atomic_init(&driver->stop, false);
    HG_CHECK(pthread_create(&driver->thread, NULL, engine_drive, driver) == 0);
    while (atomic_load(&end->context->queue->waker.state) == 0)
        (void) sched_yield();
}

static void engine_stop_driver(struct engine_driver *driver)
{
    hg_enter(driver->context->lock);
    na_queue_raise(driver->context->queue, &driver->stop);
    hg_leave(driver->context->lock);
    HG_CHECK(pthread_join(driver->thread, NULL) == 0);
}

/* Whether the context has no timers, well before the thread wakes by itself. */
static void engine_await_quiet(struct hg_context *context)
{
    uint64_t end = hg_clock_after_ms(5000);
    bool quiet;

    do {
        (void) sched_yield();
        hg_enter(context->lock);
        quiet = context->deadline.count == 0;
        hg_leave(context->lock);
    } while (!quiet && hg_clock_now() < end);
    HG_CHECK(quiet);
}

/* The thread had no timer when it went to sleep. */
HG_TEST(driver_is_woken_for_a_timer_set_by_another_thread)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct engine_trouble trouble = {LOOP_DROP, HG_HEADER_RESPONSE, 0, 0};
    struct blob large = engine_new_blob(100000, 5);
    struct engine_driver driver;
    struct engine_call call;
    struct engine engine;

    options.output_hold_ms = 10;
    engine_begin_call(&engine, &options, engine_keep, &trouble, &call);
    engine_start_driver(&driver, &engine.b);
    HG_CHECK_OK(engine_answer(engine_kept[0], &large));
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    engine_await_quiet(engine.b.context);
    engine_stop_driver(&driver);
    engine_abandon(&call);
    engine_settle(&engine);
    free(large.bytes);
    engine_end(&engine);
}

/* There was no memory for a response; soon there is, and it is sent then. */
HG_TEST(driver_is_woken_for_a_response_to_retry)
{
    struct engine_trouble trouble = {LOOP_LATER, HG_HEADER_RESPONSE, 0, 0};
    struct engine_driver driver;
    struct engine_call call;
    struct engine engine;

    hg_test_alloc_install();
    hg_test_allow_log("no memory");
    engine_begin_call(&engine, NULL, engine_keep, &trouble, &call);
    engine_start_driver(&driver, &engine.b);
    hg_test_alloc_fail_at(1);
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    HG_CHECK(hg_test_alloc_failed());
    engine_await_quiet(engine.b.context);
    engine_stop_driver(&driver);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    engine_forget(&call);
    engine_end(&engine);
}

/* ---- Initializing ---- */

/* A failed initialization leaves nothing. */
HG_TEST(layer_that_fails_to_initialize_holds_nothing)
{
    hg_return_t ret = HG_NOMEM;
    na_class_t *na_class;
    uint64_t nth;

    hg_test_alloc_install();
    hg_test_allow_log("");
    loop_register();
    for (nth = 1; ret != HG_SUCCESS; nth++) {
        na_class = engine_open_class("loop://a", ENGINE_EAGER);
        hg_test_alloc_fail_at(nth);
        ret = HG_Init(na_class);
        hg_test_alloc_fail_at(0);
        if (ret == HG_SUCCESS) {
            HG_CHECK_OK(HG_Finalize());
        } else {
            HG_CHECK_RET(ret, HG_NOMEM);
            HG_CHECK_RET(HG_Bulk_finalize(), HG_FAULT);
        }
        HG_CHECK_OK(NA_Finalize(na_class));
    }
    HG_CHECK(nth > 5);
}

/* ---- Limits ---- */

/* A response stays in the handle: a second response, or a request for its
 * buffer, neither moves nor overwrites it. */
HG_TEST(serve_keeps_a_response_unchanged)
{
    struct blob large = engine_new_blob(100000, 5);
    struct blob out = {0, NULL};
    struct engine_call call;
    struct engine engine;
    const void *data;
    void *buf = NULL;
    size_t size = 0;

    engine_begin_call(&engine, NULL, engine_keep, NULL, &call);
    HG_CHECK_OK(engine_answer(engine_kept[0], &large));
    data = engine_kept[0]->out.data;
    size = engine_kept[0]->out.capacity;
    hg_test_expect_log("a call of \"call\" was answered twice");
    HG_CHECK_RET(hg_serve_respond_raw(engine_kept[0], NULL, 0), HG_EXIST);
    HG_CHECK_RET(hg_serve_respond_raw(engine_kept[0], data, size), HG_EXIST);
    HG_CHECK(engine_kept[0]->out.data == data);
    HG_CHECK_EQ_U64(engine_kept[0]->out.capacity, size);
    hg_test_expect_log("the output of \"call\" was already sent");
    HG_CHECK_RET(hg_serve_output_buf(engine_kept[0], &buf, &size), HG_EXIST);
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    engine_settle(&engine);
    HG_CHECK_OK(call.ret);
    HG_CHECK_OK(engine_output(&call, &out));
    HG_CHECK_EQ_U64(out.size, large.size);
    HG_CHECK_EQ_MEM(out.bytes, large.bytes, out.size);
    HG_CHECK_OK(hg_handle_release(blob_proc, &out));
    engine_forget(&call);
    free(large.bytes);
    engine_end(&engine);
}

enum { ENGINE_BURST = 200 };
static hg_handle_t engine_burst_kept[ENGINE_BURST];
static unsigned engine_burst_count;

static hg_return_t engine_keep_burst(hg_handle_t handle)
{
    HG_CHECK(engine_burst_count < ENGINE_BURST);
    engine_burst_kept[engine_burst_count++] = handle;
    return HG_SUCCESS;
}

/* The pool is limited in handles, in the size of a buffer, and in bytes. */
static void engine_check_pool(struct hg_context *context)
{
    const struct na_link *link;
    size_t bytes = 0;

    hg_enter(context->lock);
    hg_handle_collect(context);
    hg_leave(context->lock);
    HG_CHECK(context->pool_count > 0);
    HG_CHECK(context->pool_count <= HG_HANDLE_POOL_MAX);
    /* No more sequence numbers are kept than handles. */
    HG_CHECK(context->sequences.count <= context->pool_count);
    for (link = context->pool.next; link != &context->pool; link = link->next) {
        const struct hg_handle *handle = HG_CONTAINER_OF(
            (struct na_link *) (uintptr_t) link, struct hg_handle, link);

        HG_CHECK(handle->in.capacity <= HG_HANDLE_BUF_MAX);
        HG_CHECK(handle->out.capacity <= HG_HANDLE_BUF_MAX);
        bytes += hg_handle_large_bytes(handle);
    }
    HG_CHECK(bytes <= HG_HANDLE_POOL_BYTES);
    HG_CHECK_EQ_U64(bytes, atomic_load(&context->pool_bytes));
}

HG_TEST(idle_handles_hold_little_memory)
{
    enum { CALLS = HG_HANDLE_POOL_MAX + 100 };
    static struct engine_call calls[CALLS];
    struct blob large = engine_new_blob(HG_HANDLE_BUF_MAX + 1, 5);
    struct blob in = engine_new_blob(10, 3);
    struct engine engine;
    hg_id_t id;
    unsigned i;

    engine_begin(&engine, 2 * HG_HANDLE_BUF_MAX, NULL);
    id = engine_register(&engine, "echo", engine_echo);
    HG_CHECK_OK(engine_start(&engine, id, &large, &calls[0]));
    engine_settle(&engine);
    HG_CHECK_OK(calls[0].ret);
    engine_forget(&calls[0]);
    engine_check_pool(engine.a.context);
    engine_check_pool(engine.b.context);
    for (i = 0; i < CALLS; i++)
        HG_CHECK_OK(engine_start(&engine, id, &in, &calls[i]));
    engine_settle(&engine);
    for (i = 1; i < CALLS; i++) {
        HG_CHECK_OK(calls[i].ret);
        engine_forget(&calls[i]);
    }
    engine_forget(&calls[0]); /* one too many: it is freed */
    engine_check_pool(engine.a.context);
    HG_CHECK_EQ_INT(engine.a.context->pool_count, HG_HANDLE_POOL_MAX);
    engine_check_pool(engine.b.context);
    free(large.bytes);
    free(in.bytes);
    engine_end(&engine);
}

/* A burst of calls with large messages in both directions; each handle of the
 * target is in use until all calls have arrived. Returns the bytes that stay
 * allocated. */
static int64_t engine_burst(
    struct engine *engine, hg_id_t id, unsigned count, size_t size)
{
    struct engine_call *calls =
        (struct engine_call *) calloc(count, sizeof(*calls));
    struct blob in = engine_new_blob(size, 5);
    int64_t before = hg_test_alloc_bytes();
    unsigned i;

    HG_CHECK(calls != NULL);
    engine_burst_count = 0;
    for (i = 0; i < count; i++)
        HG_CHECK_OK(engine_start(engine, id, &in, &calls[i]));
    engine_settle(engine);
    HG_CHECK_EQ_INT(engine_burst_count, count);
    for (i = 0; i < count; i++) {
        HG_CHECK_OK(engine_answer(engine_burst_kept[i], &in));
        HG_CHECK_OK(hg_serve_free(engine_burst_kept[i]));
    }
    engine_settle(engine);
    for (i = 0; i < count; i++) {
        HG_CHECK_OK(calls[i].ret);
        engine_forget(&calls[i]);
    }
    free(in.bytes);
    free(calls);
    return hg_test_alloc_bytes() - before;
}

/* The pool keeps the handles of a burst, but only some of their buffers. */
HG_TEST(handles_release_large_buffers)
{
    const size_t size = 60000; /* 31 handles keep two such buffers each */
    struct engine engine;
    int64_t grown;
    hg_id_t id;

    hg_test_alloc_install();
    engine_begin(&engine, 2 * HG_HANDLE_BUF_MAX, NULL);
    id = engine_register(&engine, "burst", engine_keep_burst);
    (void) engine_burst(&engine, id, ENGINE_BURST, 10);
    grown = engine_burst(&engine, id, ENGINE_BURST, size);
    HG_CHECK(grown > (int64_t) HG_HANDLE_POOL_BYTES);
    HG_CHECK(grown < 2 * (int64_t) HG_HANDLE_POOL_BYTES + (1 << 20));
    engine_check_pool(engine.a.context);
    engine_check_pool(engine.b.context);
    /* The kept buffers are reused. */
    HG_CHECK_EQ_INT(engine_burst(&engine, id, 20, size), 0);
    HG_CHECK(engine_burst(&engine, id, ENGINE_BURST, 10) < 1 << 20);
    engine_end(&engine);
}

/* The buffer for an output by hand contains no bytes of an earlier call; bytes
 * written by the handler itself stay. */
HG_TEST(serve_leaks_no_bytes_of_earlier_calls)
{
    enum { CALLS = 30 }; /* more than the pool has unused handles */
    static const unsigned char zeros[8192] = {0};
    struct blob in = engine_new_blob(10, 3);
    struct engine engine;
    hg_id_t id;
    unsigned i;

    loop_register();
    HG_CHECK_OK(engine_open(&engine, 8192, NULL));
    id = engine_register(&engine, "call", engine_keep);
    for (i = 0; i < CALLS; i++) {
        struct engine_call call;
        void *buf = NULL;
        void *same = NULL;
        size_t size = 0;

        HG_CHECK_OK(engine_start(&engine, id, &in, &call));
        engine_settle(&engine);
        HG_CHECK_EQ_INT(engine_kept_count, i + 1);
        HG_CHECK_OK(hg_serve_output_buf(engine_kept[i], &buf, &size));
        HG_CHECK(size > 0 && size <= sizeof(zeros));
        HG_CHECK_EQ_MEM(buf, zeros, size);
        memset(buf, 0xaa, size);
        HG_CHECK_OK(hg_serve_output_buf(engine_kept[i], &same, &size));
        HG_CHECK(same == buf && *(unsigned char *) same == 0xaa);
        HG_CHECK_OK(hg_serve_respond_raw(engine_kept[i], NULL, 0));
        HG_CHECK_OK(hg_serve_free(engine_kept[i]));
        engine_settle(&engine);
        HG_CHECK_OK(call.ret);
        engine_forget(&call);
    }
    free(in.bytes);
    engine_close(&engine);
}

HG_TEST(serve_refuses_a_raw_output_beyond_its_limit)
{
    static const unsigned char bytes[2000] = {0};
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct engine_call call;
    struct engine engine;

    options.max_args_size = 1000;
    engine_begin_call(&engine, &options, engine_keep, NULL, &call);
    hg_test_expect_log("1001 bytes and exceeds the limit of 1000");
    HG_CHECK_RET(hg_serve_respond_raw(engine_kept[0], bytes, 1001), HG_MSGSIZE);
    hg_test_expect_log("exceeds the limit of 1000");
    HG_CHECK_RET(
        hg_serve_respond_raw(engine_kept[0], bytes, SIZE_MAX), HG_MSGSIZE);
    HG_CHECK_OK(hg_serve_respond_raw(engine_kept[0], bytes, 1000));
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    engine_settle(&engine);
    HG_CHECK_OK(call.ret);
    HG_CHECK_EQ_U64(call.handle->out_args.size, 1000);
    engine_forget(&call);
    engine_end(&engine);
}

HG_TEST(serve_sends_no_raw_output_of_a_one_way_call)
{
    struct engine_trouble trouble = {LOOP_PASS, HG_HEADER_RESPONSE, 0, 0};
    struct blob in = {0, NULL};
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    engine_begin(&engine, ENGINE_EAGER, NULL);
    id = engine_register(&engine, "keep", engine_keep);
    loop_set_tap(engine_tap, &trouble);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(
        engine_create(engine.a.context, engine.a.peer, id, &call.handle));
    call.handle->one_way = true;
    HG_CHECK_OK(engine_send(call.handle, &in, engine_ended, &call));
    engine_settle(&engine);
    HG_CHECK_OK(hg_serve_respond_raw(engine_kept[0], "x", 1));
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    engine_settle(&engine);
    HG_CHECK_OK(call.ret);
    HG_CHECK_EQ_INT(trouble.count, 0);
    engine_forget(&call);
    engine_end(&engine);
}

HG_TEST(serve_refuses_calls_beyond_its_limit)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct blob in = {0, NULL};
    struct engine_call calls[6];
    struct engine_call after;
    struct engine engine;
    unsigned i;
    hg_id_t id;

    options.max_unanswered = 4;
    engine_begin(&engine, ENGINE_EAGER, &options);
    id = engine_register(&engine, "keep", engine_keep);
    for (i = 0; i < 6; i++)
        HG_CHECK_OK(engine_start(&engine, id, &in, &calls[i]));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(engine_kept_count, 4);
    for (i = 0; i < 6; i++) {
        HG_CHECK_EQ_INT(calls[i].ends, i >= 4);
        if (i >= 4)
            HG_CHECK_RET(calls[i].ret, HG_AGAIN);
    }
    HG_CHECK_OK(hg_serve_free(engine_kept[0]));
    engine_settle(&engine);
    HG_CHECK_RET(calls[0].ret, HG_CANCELED);
    HG_CHECK_OK(engine_start(&engine, id, &in, &after));
    engine_settle(&engine);
    HG_CHECK_EQ_INT(after.ends, 0);
    HG_CHECK_EQ_INT(engine_kept_count, 5);
    for (i = 1; i < 5; i++)
        HG_CHECK_OK(hg_serve_free(engine_kept[i]));
    engine_settle(&engine);
    for (i = 0; i < 6; i++)
        engine_forget(&calls[i]);
    engine_forget(&after);
    engine_end(&engine);
}

/* ---- Destroying contexts ---- */

HG_TEST(context_destroy_ends_everything_in_flight)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct engine_trouble trouble = {LOOP_DROP, HG_HEADER_RESPONSE, 0, 0};
    struct blob in = engine_new_blob(100000, 3);
    struct blob small = {0, NULL};
    struct engine_call calls[12];
    struct engine engine;
    int64_t live;
    unsigned turns;
    unsigned i;

    hg_test_alloc_install();
    hg_test_allow_log("");
    live = hg_test_alloc_live();
    loop_register();
    options.drain_ms = 20;
    /* Stopped after each number of rounds. */
    for (turns = 0; turns < 6; turns++) {
        hg_id_t keep;
        hg_id_t large;
        hg_id_t echo;

        engine_kept_count = 0;
        HG_CHECK_OK(engine_open(&engine, ENGINE_EAGER, &options));
        keep = engine_register(&engine, "keep", engine_keep);
        large = engine_register(&engine, "large", engine_answer_large);
        echo = engine_register(&engine, "echo", engine_echo);
        loop_set_tap(turns % 2 == 0 ? NULL : engine_tap, &trouble);
        for (i = 0; i < 12; i++)
            HG_CHECK_OK(engine_start(&engine,
                i % 3 == 0       ? keep
                    : i % 3 == 1 ? large
                                 : echo,
                i % 2 == 0 ? &in : &small, &calls[i]));
        for (i = 0; i < turns; i++)
            engine_turn(i % 2 == 0 ? &engine.b : &engine.a);
        /* As HG_Finalize does with requests that were not freed. */
        for (i = 0; i < 12; i++)
            engine_abandon(&calls[i]);
        engine_close(&engine);
        loop_set_tap(NULL, NULL);
        HG_CHECK_EQ_INT(hg_test_alloc_live(), live);
    }
    free(in.bytes);
}

/* A send that the transport does not complete in time: it keeps using the
 * call's bytes, and refers to the context when it completes. */
HG_TEST(context_memory_stays_while_a_send_does_not_complete)
{
    static struct hg_context *left; /* for leak checkers: on purpose */
    static struct hg_handle *sent;
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct engine_trouble trouble = {LOOP_STUCK, HG_HEADER_REQUEST, 0, 0};
    struct blob in = engine_new_blob(100, 1);
    struct engine_call call;
    struct engine engine;
    int64_t before;
    hg_id_t id;

    hg_test_alloc_install();
    options.drain_ms = 10;
    engine_begin(&engine, ENGINE_EAGER, &options);
    id = engine_register(&engine, "echo", engine_echo);
    loop_set_tap(engine_tap, &trouble);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    left = engine.a.context;
    sent = call.handle;
    HG_CHECK_EQ_INT(left->sending, 1);
    engine_abandon(&call);
    hg_test_expect_log("1 calls, 1 sends and 0 transfers did not end");
    before = hg_test_alloc_live();
    hg_context_destroy(left);
    engine.a.context = NULL;
    HG_CHECK_EQ_INT(hg_test_alloc_live(), before); /* nothing was freed */
    HG_CHECK_EQ_MEM(sent->in.data + HG_HEADER_MIN + 8, in.bytes, 100);
    locked_unstick();
    hg_enter(left->lock);
    (void) na_queue_run(
        left->queue, NA_LANES_INTERNAL, UINT_MAX, HG_CLOCK_NEVER);
    hg_leave(left->lock);
    HG_CHECK_EQ_INT(engine_live(left), 0);
    HG_CHECK_EQ_INT(left->sending, 0);
    loop_set_tap(NULL, NULL);
    free(in.bytes);
    engine_close(&engine);
}

/* A call that arrives while the context is destroyed is refused, not left
 * behind. */
HG_TEST(context_refuses_calls_while_it_is_destroyed)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct blob in = {0, NULL};
    struct engine_call call;
    struct engine engine;
    hg_id_t id;

    options.drain_ms = 20;
    engine_begin(&engine, ENGINE_EAGER, &options);
    id = engine_register(&engine, "never", engine_never);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    hg_enter(engine.b.context->lock);
    engine.b.context->closing = true;
    hg_leave(engine.b.context->lock);
    engine_settle(&engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_AGAIN);
    engine_forget(&call);
    /* It is in the queue, as if it had arrived just before the sink was
     * removed. */
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    (void) locked_poll(engine.b.context->na_context);
    HG_CHECK_EQ_INT(engine_live(engine.b.context), 1);
    hg_context_destroy(engine.b.context);
    engine.b.context = NULL;
    while (call.ends == 0)
        engine_turn(&engine.a);
    HG_CHECK_RET(call.ret, HG_AGAIN);
    engine_forget(&call);
    engine_close(&engine);
}

/* ---- Out of memory ---- */

static int engine_scenario(void *arg)
{
    const size_t *size = (const size_t *) arg;
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct blob in = engine_new_blob(*size, 5);
    struct blob out = {0, NULL};
    struct engine_call call;
    struct engine engine;
    hg_return_t ret;
    hg_id_t id;

    options.drain_ms = 20;
    ret = engine_open(&engine, ENGINE_EAGER, &options);
    if (ret != HG_SUCCESS)
        goto free_blob;
    id = engine_register(&engine, "echo", engine_echo);
    ret = id != 0 ? engine_start(&engine, id, &in, &call) : HG_NOMEM;
    if (ret == HG_SUCCESS) {
        engine_settle(&engine);
        /* Whatever failed, the caller gets a result. */
        HG_CHECK_EQ_INT(call.ends, 1);
        ret = call.ret;
        if (ret == HG_SUCCESS)
            ret = engine_output(&call, &out);
        if (ret == HG_SUCCESS) {
            HG_CHECK_EQ_U64(out.size, *size);
            (void) hg_handle_release(blob_proc, &out);
        }
        engine_forget(&call);
    }
    engine_close(&engine);
free_blob:
    free(in.bytes);
    return ret;
}

HG_TEST_SECONDS(engine_survives_every_failing_allocation, 60)
{
    size_t small = 10;
    size_t large = 100000;

    hg_test_alloc_install();
    loop_register();
    HG_CHECK(hg_test_oom_loop(engine_scenario, &small) > 20);
    HG_CHECK(hg_test_oom_loop(engine_scenario, &large) > 20);
}

/* ---- Waits ---- */

struct engine_waiter {
    struct hg_context *context;
    _Atomic bool done;
    pthread_t thread;
    hg_return_t ret;
};

static void *engine_wait(void *arg)
{
    struct engine_waiter *waiter = (struct engine_waiter *) arg;

    waiter->ret = engine_wait_until(waiter->context, &waiter->done,
        NA_LANES_DONE, hg_clock_after_ms(60000));
    return NULL;
}

static bool engine_is_driven(const struct hg_context *context)
{
    bool driven;

    hg_enter(context->lock);
    driven = na_context_core_of(context->na_context)->progressing;
    hg_leave(context->lock);
    return driven;
}

/* Wait until a thread makes progress and so many others sleep. */
static void engine_await_waiters(
    const struct hg_context *context, unsigned sleepers)
{
    const struct na_link *naps = &context->queue->sleepers;
    const struct na_link *link;
    unsigned count;

    do {
        count = 0;
        (void) sched_yield();
        hg_enter(context->lock);
        for (link = naps->next; link != naps; link = link->next)
            count++;
        hg_leave(context->lock);
    } while (!engine_is_driven(context) || count != sleepers);
}

/* These waits end; a thread that still waits must make progress. */
static void engine_end_waits(struct engine_waiter *waiters, unsigned count)
{
    struct hg_context *context = waiters[0].context;
    unsigned i;

    for (i = 0; i < count; i++)
        locked_wait_raise(context, &waiters[i].done);
    locked_poke(context->na_context);
    for (i = 0; i < count; i++) {
        HG_CHECK(!pthread_join(waiters[i].thread, NULL));
        HG_CHECK_OK(waiters[i].ret);
    }
}

HG_TEST(wait_that_ends_hands_progress_to_another_waiter)
{
    struct engine engine;
    struct engine_waiter waiters[4];
    unsigned i;

    loop_register();
    HG_CHECK_OK(engine_open(&engine, 1024, NULL));
    memset(waiters, 0, sizeof(waiters));
    for (i = 0; i < 4; i++) {
        waiters[i].context = engine.a.context;
        HG_CHECK(!pthread_create(
            &waiters[i].thread, NULL, engine_wait, &waiters[i]));
        engine_await_waiters(engine.a.context, i);
    }
    /* The thread that makes progress, and the sleeper it would wake to take
     * over. */
    engine_end_waits(waiters, 2);
    engine_await_waiters(engine.a.context, 1);
    engine_end_waits(&waiters[2], 2);
    engine_close(&engine);
}

/* The layer is not finalized while a thread waits. */
HG_TEST(finalize_is_busy_while_a_thread_waits)
{
    struct engine_waiter waiter;
    na_class_t *na_class;

    loop_register();
    hg_test_expect_log("HG_Finalize: a thread waits");
    na_class = engine_open_class("loop://a", ENGINE_EAGER);
    HG_CHECK_OK(HG_Init(na_class));
    memset(&waiter, 0, sizeof(waiter));
    waiter.context = hg_layer_find("the test");
    HG_CHECK(!pthread_create(&waiter.thread, NULL, engine_wait, &waiter));
    engine_await_waiters(waiter.context, 0);
    HG_CHECK_RET(HG_Finalize(), HG_BUSY);
    engine_end_waits(&waiter, 1);
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
}

struct engine_step {
    struct na_completion completion;
    struct hg_context *context;
    hg_return_t ret;
};

/* A progress callback that runs code that waits. */
static void engine_run_step(struct na_completion *completion)
{
    static _Atomic bool never = false;
    struct engine_step *step =
        HG_CONTAINER_OF(completion, struct engine_step, completion);

    step->ret =
        hg_wait_until(step->context, &never, NA_LANES_DONE, HG_CLOCK_NEVER);
}

/* It would wait for itself. */
HG_TEST(wait_inside_progress_is_refused)
{
    struct engine engine;
    struct engine_step step = {{NULL, engine_run_step}, NULL, HG_SUCCESS};

    hg_test_expect_log("cannot wait here");
    loop_register();
    HG_CHECK_OK(engine_open(&engine, 1024, NULL));
    step.context = engine.a.context;
    locked_queue_push(
        engine.a.context->queue, NA_LANE_INTERNAL, &step.completion);
    HG_CHECK_RET(
        engine_progress(engine.a.context, NA_LANES_ALL, 0), HG_TIMEOUT);
    HG_CHECK_RET(step.ret, HG_BUSY);
    HG_CHECK(!hg_context_is_driver());
    engine_close(&engine);
}

/* A progress callback that moves bulk data for the call that executes. */
struct engine_pull {
    struct na_completion completion; /* first */
    hg_handle_t call;
    struct hg_bulk *bulk;
    hg_return_t ret;
};

static struct engine_pull engine_pull;

static void engine_run_pull(struct na_completion *completion)
{
    struct engine_pull *pull =
        HG_CONTAINER_OF(completion, struct engine_pull, completion);
    char byte;

    pull->ret = HG_Bulk_pull(pull->call, pull->bulk, 0, &byte, 1);
}

static hg_return_t engine_pull_inside_progress(hg_handle_t handle)
{
    struct hg_context *context = handle->context;

    engine_pull.completion.run = engine_run_pull;
    engine_pull.call = handle;
    locked_queue_push(
        context->queue, NA_LANE_INTERNAL, &engine_pull.completion);
    (void) engine_progress(context, NA_LANES_ALL, 0);
    return engine_echo(handle);
}

HG_TEST(pull_inside_progress_is_refused)
{
    struct blob in = engine_new_blob(10, 3);
    struct engine engine;
    struct engine_call call;
    size_t size = 10;
    hg_id_t id;

    hg_test_expect_log("cannot wait here");
    loop_register();
    HG_CHECK_OK(engine_open(&engine, 1024, NULL));
    id = engine_register(&engine, "pulls", engine_pull_inside_progress);
    HG_CHECK_OK(hg_bulk_create(engine.b.hg_class->layer, 1, NULL, &size,
        HG_BULK_READWRITE, &engine_pull.bulk));
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK_OK(call.ret);
    HG_CHECK_RET(engine_pull.ret, HG_BUSY);
    HG_CHECK_OK(HG_Bulk_free(engine_pull.bulk));
    engine_forget(&call);
    free(in.bytes);
    engine_close(&engine);
}

static void *engine_wait_for_calls(void *arg)
{
    struct engine_waiter *waiter = (struct engine_waiter *) arg;

    waiter->ret =
        hg_wait_serve(waiter->context, (struct hg_wait_end){0, 60000});
    return NULL;
}

static unsigned engine_waits[2];
static unsigned engine_waits_count;

static hg_return_t engine_note_waits(hg_handle_t handle)
{
    engine_waits[engine_waits_count++] = handle->context->waits;
    return engine_echo(handle);
}

/* A thread that executes a call and then waits for the next one counts as
 * waiting: the layer is not finalized between the two. */
HG_TEST(thread_between_two_calls_counts_as_waiting)
{
    struct blob in = engine_new_blob(10, 3);
    struct engine engine;
    struct engine_call calls[2];
    hg_id_t id;
    unsigned i;

    loop_register();
    HG_CHECK_OK(engine_open(&engine, 1024, NULL));
    id = engine_register(&engine, "noted", engine_note_waits);
    engine_waits_count = 0;
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(engine_start(&engine, id, &in, &calls[i]));
    HG_CHECK_OK(
        hg_wait_serve(engine.b.context, (struct hg_wait_end){0, 60000}));
    HG_CHECK_EQ_INT(engine_waits_count, 2);
    HG_CHECK_EQ_INT(engine_waits[0], 1);
    HG_CHECK_EQ_INT(engine_waits[1], 0);
    HG_CHECK_EQ_INT(engine.b.context->waits, 0);
    engine_settle(&engine);
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(calls[i].ret);
        engine_forget(&calls[i]);
    }
    free(in.bytes);
    engine_close(&engine);
}

/* A call after which the waits for calls return. */
static void engine_call_server(
    struct engine *engine, hg_id_t id, const struct engine_waiter *server)
{
    struct blob in = engine_new_blob(10, 3);
    struct engine_call call;

    HG_CHECK_OK(engine_start(engine, id, &in, &call));
    HG_CHECK(!pthread_join(server->thread, NULL));
    HG_CHECK_OK(server->ret);
    while (call.ends == 0)
        engine_turn(&engine->a);
    HG_CHECK_OK(call.ret);
    engine_forget(&call);
    free(in.bytes);
}

/* A thread that makes progress for its own result looks for calls, too, once a
 * thread that runs handlers sleeps, and wakes that thread. */
HG_TEST(driver_without_handlers_wakes_a_thread_that_runs_them)
{
    struct engine engine;
    struct engine_waiter driver;
    struct engine_waiter server;
    hg_id_t id;

    loop_register();
    HG_CHECK_OK(engine_open(&engine, 1024, NULL));
    id = engine_register(&engine, "echo", engine_echo);
    memset(&driver, 0, sizeof(driver));
    driver.context = engine.b.context;
    server = driver;
    HG_CHECK(!pthread_create(&driver.thread, NULL, engine_wait, &driver));
    engine_await_waiters(engine.b.context, 0);
    while (atomic_load(&engine.b.context->queue->waker.state) == 0)
        (void) sched_yield(); /* it sleeps, or is about to */
    HG_CHECK(
        !pthread_create(&server.thread, NULL, engine_wait_for_calls, &server));
    engine_await_waiters(engine.b.context, 1);
    engine_call_server(&engine, id, &server);
    engine_end_waits(&driver, 1);
    engine_close(&engine);
}

/* A handler that lasts until another thread makes progress. */
static hg_return_t engine_echo_driven(hg_handle_t handle)
{
    unsigned ms = 0;

    do {
        HG_CHECK(ms++ < HG_TEST_WAIT_MS);
        (void) poll(NULL, 0, 1);
    } while (!engine_is_driven(handle->context));
    return engine_echo(handle);
}

/* A thread that makes progress and then runs a handler lets a sleeping thread
 * take over progress: what that one waits for does not wait for the handler. */
HG_TEST(driver_that_runs_a_handler_hands_progress_to_a_sleeper)
{
    struct engine engine;
    struct engine_waiter server;
    struct engine_waiter sleeper;
    hg_id_t id;

    loop_register();
    HG_CHECK_OK(engine_open(&engine, 1024, NULL));
    id = engine_register(&engine, "echo", engine_echo_driven);
    memset(&server, 0, sizeof(server));
    server.context = engine.b.context;
    sleeper = server;
    HG_CHECK(
        !pthread_create(&server.thread, NULL, engine_wait_for_calls, &server));
    engine_await_waiters(engine.b.context, 0);
    HG_CHECK(!pthread_create(&sleeper.thread, NULL, engine_wait, &sleeper));
    engine_await_waiters(engine.b.context, 1);
    engine_call_server(&engine, id, &server);
    engine_end_waits(&sleeper, 1);
    engine_close(&engine);
}
