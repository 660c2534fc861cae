/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing of the RPC engine: any messages of a peer, put into the inbox of a
 * running engine. After each, a good call must be answered, and nothing of the
 * bad message may be left.
 *
 * The first byte of an input says what is corrected before the rest is
 * delivered: 1: it goes to the caller's side, else to the server's; 2: magic,
 * version, size and checksum of the header; 4: the id of an existing function;
 * 8: the sequence number of a waiting call. Built with -DHG_FUZZER=1 and
 * clang's -fsanitize=fuzzer it is a fuzzer; otherwise a test.
 */
#include "support/library.h"

#ifndef HG_FUZZER
#define HG_FUZZER 0
#endif

#if HG_FUZZER
#include "support/fuzz_alone.h"
#endif
#include "unit/engine.h"

int hg_fuzz_message(const uint8_t *data, size_t size);

enum {
    FUZZ_TO_CALLER = 1,
    FUZZ_SIGN = 2,
    FUZZ_RIGHT_ID = 4,
    FUZZ_RIGHT_SEQUENCE = 8
};

static hg_id_t fuzz_id;

/* One pair of engines for all inputs. */
static struct engine *fuzz_engine(void)
{
    static struct engine engine;
    struct hg_options options = HG_OPTIONS_INITIALIZER;

    if (engine.a.na_class != NULL)
        return &engine;
    (void) HG_Set_log_level("none");
    options.max_args_size = 1 << 20;
    loop_register();
    HG_CHECK_OK(engine_open(&engine, 1024, &options));
    fuzz_id = engine_register(&engine, "echo", engine_echo);
    HG_CHECK(fuzz_id != 0);
    return &engine;
}

static enum loop_fate fuzz_drop(
    void *arg, na_class_t *from, unsigned char *data, size_t *size)
{
    (void) arg;
    (void) from;
    (void) data;
    (void) size;
    return LOOP_DROP;
}

static void fuzz_put_right(
    uint8_t *bytes, size_t size, unsigned what, uint64_t sequence)
{
    size_t header_size;

    if (size >= HG_HEADER_STABLE && (what & FUZZ_RIGHT_ID) != 0)
        hg_wire_store64(bytes + 16, fuzz_id);
    if (size >= HG_HEADER_STABLE && (what & FUZZ_RIGHT_SEQUENCE) != 0)
        hg_wire_store64(bytes + 24, sequence);
    if (size < HG_HEADER_MIN || (what & FUZZ_SIGN) == 0)
        return;
    hg_wire_store16(bytes + 8, HG_HEADER_MAGIC);
    bytes[10] = HG_HEADER_MAJOR;
    header_size = hg_wire_load16(bytes + 14);
    if (header_size > size)
        hg_wire_store16(bytes + 14, HG_HEADER_MIN);
    hg_wire_store64(bytes, hg_crc64_update(0, bytes + 8, size - 8));
}

/* A small call and a large one, both valid. */
static void fuzz_good_call(struct engine *engine, size_t size)
{
    static unsigned char bytes[2000];
    struct blob in = {size, bytes};
    struct blob out = {0, NULL};
    struct engine_call call;

    HG_CHECK_OK(engine_start(engine, fuzz_id, &in, &call));
    engine_settle(engine);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_OK(call.ret);
    HG_CHECK_OK(engine_output(&call, &out));
    HG_CHECK_EQ_U64(out.size, size);
    HG_CHECK_OK(hg_handle_release(blob_proc, &out));
    engine_forget(&call);
}

int hg_fuzz_message(const uint8_t *data, size_t size)
{
    struct engine *engine = fuzz_engine();
    struct blob in = {0, NULL};
    struct engine_end *to;
    struct engine_call call;
    uint8_t *bytes;

    if (size == 0)
        return 0;
    to = (data[0] & FUZZ_TO_CALLER) != 0 ? &engine->a : &engine->b;
    bytes = (uint8_t *) malloc(size);
    HG_CHECK(bytes != NULL);
    memcpy(bytes, data + 1, size - 1);

    /* A call whose request is lost, so that the message can answer it. */
    loop_set_tap(fuzz_drop, NULL);
    HG_CHECK_OK(engine_start(engine, fuzz_id, &in, &call));
    loop_set_tap(NULL, NULL);
    fuzz_put_right(bytes, size - 1, data[0], call.handle->sequence);
    loop_inject(to->na_class, to->peer, bytes, size - 1);
    free(bytes);
    engine_settle(engine);
    if (call.ends == 0)
        engine_abandon(&call);
    else
        engine_forget(&call);
    engine_settle(engine);
    engine_check_empty(engine);
    fuzz_good_call(engine, data[0] % 2 == 0 ? 3 : 2000);
    return 0;
}

#if HG_FUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return hg_fuzz_message(data, size);
}

#else

#include "support/fuzz.h"

/* The decoder must have refused messages of each kind, or this tests
 * nothing. */
static void fuzz_check_counters(void)
{
    struct engine *engine = fuzz_engine();

    HG_CHECK(atomic_load(&engine->a.context->counts[HG_COUNT_REFUSED]) > 0);
    HG_CHECK(atomic_load(&engine->a.context->counts[HG_COUNT_LATE]) > 0);
    HG_CHECK(atomic_load(&engine->b.context->counts[HG_COUNT_REFUSED]) > 0);
    HG_CHECK(atomic_load(&engine->b.context->counts[HG_COUNT_ERRORS_SENT]) > 0);
    engine_close(engine);
}

HG_TEST(fuzz_message_corpus)
{
    fuzz_run_corpus("message", hg_fuzz_message);
    fuzz_check_counters();
}

/* Every other random input gets a correct checksum. */
static int fuzz_message_by_turns(const uint8_t *data, size_t size)
{
    static unsigned turn;
    uint8_t *copy;
    int ret;

    if (size == 0)
        return 0;
    copy = (uint8_t *) malloc(size);
    HG_CHECK(copy != NULL);
    memcpy(copy, data, size);
    copy[0] = (uint8_t) (turn++ % 2 == 0 ? copy[0] | FUZZ_SIGN
                                         : copy[0] & ~FUZZ_SIGN);
    ret = hg_fuzz_message(copy, size);
    free(copy);
    return ret;
}

HG_TEST_SECONDS(fuzz_message_random, 60)
{
    fuzz_run_random("message", fuzz_message_by_turns, 40000);
    fuzz_check_counters();
}

#endif
