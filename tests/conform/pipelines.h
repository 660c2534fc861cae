/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipelines: memory of a caller that moves through a pipeline, for the programs
 * of both models. Each defines the functions below, with the endpoint of its
 * model, before it includes this file.
 *
 * The function `pipe_move` executes one transfer. Its callback checks that the
 * pieces are in order and have the right sizes. It fills them with a pattern,
 * or sums their bytes up. The pipeline is kept from call to call: each transfer
 * shows that the one before left it usable.
 */
#ifndef HG_TESTS_CONFORM_PIPELINES_H
#define HG_TESTS_CONFORM_PIPELINES_H

#include "support/stubs.h"

#include <poll.h>
#include <signal.h>
#include <time.h>

/* The special treatment of one piece by the callback. */
enum pipe_stop {
    PIPE_ALL,   /* nothing else */
    PIPE_FAIL,  /* return a code */
    PIPE_SHORT, /* reduce the size */
    PIPE_WIDE,  /* enlarge the size */
    PIPE_SLOW,  /* take a time in ms */
    PIPE_BUSY,  /* use the pipeline for another transfer */
    PIPE_WRONG, /* call the functions with wrong arguments */
    PIPE_EVENT  /* call pipe_event */
};

/* clang-format off */
MERCURY_GEN_PROC(pipe_job_t,
    ((uint8_t)(push))((uint8_t)(endless))((uint32_t)(count))
    ((uint64_t)(buffer))((uint64_t)(offset))((uint64_t)(size))
    ((uint32_t)(timeout))((uint32_t)(stop))((uint32_t)(piece))
    ((uint64_t)(value)))
MERCURY_GEN_PROC(pipe_done_t,
    ((int32_t)(ret))((uint32_t)(pieces))((uint64_t)(bytes))((uint64_t)(sum)))
MERCURY_GEN_RPC_STUB(pipe_done_t, pipe_move,
    ((pipe_job_t)(job))((hg_bulk_t)(memory)), )
MERCURY_GEN_RPC_STUB(int32_t, pipe_free, , )
/* clang-format on */

/* The option passed_memory of this process. */
static bool pipe_follows = true;

/* ---- Defined by the program ---- */

static void pipe_open(pipe_end_t *end);     /* with a server */
static bool pipe_try_open(pipe_end_t *end); /* server and client; may fail */
static void pipe_close(pipe_end_t *end);
static void pipe_open_alone(pipe_end_t *end, char address[NA_MAX_ADDR_LEN]);
static void pipe_open_client(pipe_end_t *end, const char *address);
static void pipe_close_alone(pipe_end_t *end);
static void pipe_open_deaf(pipe_end_t *end); /* it does not listen */
static void pipe_relay(void);                /* serve in a process of its own */
static void pipe_turn(pipe_end_t *end);      /* for 1 ms */
static hg_class_t *pipe_class(hg_handle_t call);
static hg_bulk_t pipe_expose(pipe_end_t *end, unsigned count, void **ptrs,
    const size_t *sizes, unsigned long flags);
static hg_return_t pipe_call(
    pipe_end_t *end, pipe_job_t job, hg_bulk_t memory, pipe_done_t *done);
static void pipe_call_free(pipe_end_t *end);
static void pipe_bind(pipe_end_t *end, hg_bulk_t bulk);
static void pipe_start(
    pipe_move_call_t *call, pipe_end_t *end, pipe_job_t job, hg_bulk_t memory);
static void pipe_cancel(pipe_move_call_t *call);
static bool pipe_is_over(const pipe_move_call_t *call);

/* ---- The server ---- */

static hg_bulk_pipeline_t pipe_pipeline;
static uint32_t pipe_count;
static uint64_t pipe_buffer;
static pipe_done_t pipe_last; /* the result of the last transfer */
static pipe_done_t pipe_cut;  /* that of the last victim */
static unsigned pipe_moves;   /* transfers that have ended */
static void (*pipe_event)(void);
static hg_return_t pipe_event_code; /* of the callback, after the event */

struct pipe_run {
    const pipe_job_t *job;
    hg_memory_t memory;
    pipe_done_t done;
};

/* The byte that a push writes at an offset of the transfer. */
static unsigned char pipe_byte(size_t offset)
{
    return (unsigned char) (offset * 7 + offset / 251);
}

static hg_return_t pipe_nothing(
    void *arg, void *data, size_t *size, size_t offset)
{
    (void) data;
    (void) offset;
    *(size_t *) arg += *size;
    return HG_SUCCESS;
}

/* The first byte of the memory, through a pipeline. */
static hg_return_t pipe_one_byte(
    hg_bulk_pipeline_t pipeline, const struct pipe_run *run, size_t *moved_p)
{
    return HG_Bulk_pipeline_pull(pipeline, run->memory.call, run->memory.bulk,
        0, 1, pipe_nothing, moved_p, 0);
}

static void *pipe_use_busy(void *arg)
{
    size_t moved = 0;

    HG_CHECK_RET(
        pipe_one_byte(pipe_pipeline, (struct pipe_run *) arg, &moved), HG_BUSY);
    HG_CHECK_EQ_U64(moved, 0);
    return NULL;
}

/* The pipeline is in use. Another one is not. */
static void pipe_check_busy(struct pipe_run *run)
{
    hg_bulk_pipeline_t other;
    pthread_t thread;
    size_t moved = 0;
    char byte;

    HG_CHECK_RET(HG_Bulk_pipeline_free(pipe_pipeline), HG_BUSY);
    (void) pipe_use_busy(run);
    HG_CHECK(pthread_create(&thread, NULL, pipe_use_busy, run) == 0);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_OK(
        HG_Bulk_pipeline_create(pipe_class(run->memory.call), 1, 100, &other));
    HG_CHECK_OK(pipe_one_byte(other, run, &moved));
    HG_CHECK_EQ_U64(moved, 1);
    HG_CHECK_OK(HG_Bulk_pipeline_free(other));
    HG_CHECK_OK(HG_Bulk_pull(run->memory.call, run->memory.bulk, 0, &byte, 1));
}

static void pipe_check_arguments(const struct pipe_run *run)
{
    hg_class_t *hg_class = pipe_class(run->memory.call);
    hg_class_t *stranger = HG_Init_opt("self://", HG_FALSE, NULL);
    hg_handle_t call = run->memory.call;
    hg_bulk_t bulk = run->memory.bulk;
    hg_bulk_pipeline_t other = NULL;
    size_t moved = 0;

    HG_CHECK_RET(
        HG_Bulk_pipeline_create(hg_class, 0, 10, &other), HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Bulk_pipeline_create(hg_class, 1, 0, &other), HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Bulk_pipeline_create(hg_class, 1, 10, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_pipeline_create(hg_class, 3, SIZE_MAX / 2, &other),
        HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_pipeline_create(hg_class, SIZE_MAX / 16, 8, &other),
        HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_pipeline_create((hg_class_t *) &moved, 1, 10, &other),
        HG_INVALID_ARG);
    HG_CHECK(other == NULL);
    HG_CHECK_RET(HG_Bulk_pipeline_free(NULL), HG_INVALID_ARG);
    HG_CHECK(stranger != NULL);
    HG_CHECK_OK(HG_Bulk_pipeline_create(stranger, 1, 10, &other));
    HG_CHECK_RET(pipe_one_byte(other, run, &moved), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Bulk_pipeline_free(other));
    HG_CHECK_OK(HG_Finalize2(stranger));
    HG_CHECK_OK(HG_Bulk_pipeline_create(hg_class, 1, 10, &other));
    HG_CHECK_RET(
        HG_Bulk_pipeline_pull(NULL, call, bulk, 0, 1, pipe_nothing, &moved, 0),
        HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Bulk_pipeline_pull(other, NULL, bulk, 0, 1, pipe_nothing, &moved, 0),
        HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_pipeline_pull(
                     other, call, HG_BULK_NULL, 0, 1, pipe_nothing, &moved, 0),
        HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Bulk_pipeline_push(other, call, bulk, 0, 1, NULL, &moved, 0),
        HG_INVALID_ARG);
    HG_CHECK_OK(HG_Bulk_pipeline_push(
        other, call, HG_BULK_NULL, 7, 0, pipe_nothing, &moved, 0));
    HG_CHECK_EQ_U64(moved, 0);
    HG_CHECK_OK(HG_Bulk_pipeline_free(other));
}

/* Call pipe_event once. */
static hg_return_t pipe_happen(void)
{
    void (*event)(void) = pipe_event;

    pipe_event = NULL;
    if (event == NULL)
        return HG_SUCCESS;
    event();
    return pipe_event_code;
}

/* Treat the special piece of the job. */
static hg_return_t pipe_stop_at(struct pipe_run *run, size_t *size)
{
    switch (run->job->stop) {
    case PIPE_FAIL: return (hg_return_t) run->job->value;
    case PIPE_WIDE: *size += 1; break;
    case PIPE_SHORT: *size = (size_t) run->job->value; break;
    case PIPE_SLOW: (void) poll(NULL, 0, (int) run->job->value); break;
    case PIPE_BUSY: pipe_check_busy(run); break;
    case PIPE_WRONG: pipe_check_arguments(run); break;
    case PIPE_EVENT: return pipe_happen();
    default: break;
    }
    return HG_SUCCESS;
}

static hg_return_t pipe_work(void *arg, void *data, size_t *size, size_t offset)
{
    struct pipe_run *run = (struct pipe_run *) arg;
    uint64_t rest = run->job->size - offset;
    unsigned char *bytes = (unsigned char *) data;
    hg_return_t ret = HG_SUCCESS;
    size_t i;

    HG_CHECK_EQ_U64(offset, run->done.bytes);
    HG_CHECK_EQ_U64(*size, rest < pipe_buffer ? rest : pipe_buffer);
    if (run->done.pieces++ == run->job->piece)
        ret = pipe_stop_at(run, size);
    if (ret != HG_SUCCESS || *size > pipe_buffer)
        return ret;
    for (i = 0; i < *size; i++) {
        if (run->job->push)
            bytes[i] = pipe_byte(offset + i);
        else
            run->done.sum = run->done.sum * 31 + bytes[i];
    }
    run->done.bytes += *size;
    return HG_SUCCESS;
}

int32_t pipe_free(void)
{
    hg_return_t ret = pipe_pipeline != NULL
        ? HG_Bulk_pipeline_free(pipe_pipeline)
        : HG_SUCCESS;

    pipe_pipeline = NULL;
    return (int32_t) ret;
}

static hg_return_t pipe_prepare(const pipe_job_t *job, hg_handle_t call)
{
    if (pipe_pipeline != NULL && pipe_count == job->count &&
        pipe_buffer == job->buffer)
        return HG_SUCCESS;
    HG_CHECK_OK(pipe_free());
    pipe_count = job->count;
    pipe_buffer = job->buffer;
    return HG_Bulk_pipeline_create(
        pipe_class(call), job->count, (size_t) job->buffer, &pipe_pipeline);
}

/* Move all bytes at once, without a pipeline. */
static hg_return_t pipe_move_at_once(struct pipe_run *run)
{
    const pipe_job_t *job = run->job;
    size_t size = (size_t) job->size;
    unsigned char *bytes = stubs_buffer(size);
    hg_return_t ret;
    size_t i;

    for (i = 0; i < size; i++)
        bytes[i] = pipe_byte(i);
    ret = job->push ? HG_Bulk_push(run->memory.call, run->memory.bulk,
                          (size_t) job->offset, bytes, size)
                    : HG_Bulk_pull(run->memory.call, run->memory.bulk,
                          (size_t) job->offset, bytes, size);
    if (ret == HG_SUCCESS) {
        run->done.sum = job->push ? 0 : stubs_sum(bytes, size);
        run->done.bytes = size;
    }
    free(bytes);
    return ret;
}

static hg_return_t pipe_move_once(struct pipe_run *run)
{
    const pipe_job_t *job = run->job;
    hg_return_t ret;

    memset(&run->done, 0, sizeof(run->done));
    if (job->count == 0)
        return pipe_move_at_once(run);
    ret = pipe_prepare(job, run->memory.call);
    if (ret != HG_SUCCESS)
        return ret;
    return (job->push ? HG_Bulk_pipeline_push : HG_Bulk_pipeline_pull)(
        pipe_pipeline, run->memory.call, run->memory.bulk, (size_t) job->offset,
        (size_t) job->size, pipe_work, run, job->timeout);
}

pipe_done_t pipe_move(pipe_job_t job, hg_memory_t memory)
{
    struct pipe_run run = {&job, memory, {0, 0, 0, 0}};
    hg_return_t ret;

    do
        ret = pipe_move_once(&run);
    while (job.endless && ret == HG_SUCCESS);
    run.done.ret = (int32_t) ret;
    pipe_last = run.done;
    pipe_moves++;
    return run.done;
}

/* ---- The client ---- */

static const pipe_job_t pipe_job = {
    0, 0, 3, 1000, 0, 0, 0, PIPE_ALL, UINT32_MAX, 0};

typedef hg_return_t (*pipe_call_t)(
    pipe_end_t *end, pipe_job_t job, hg_bulk_t memory, pipe_done_t *done);

/* Move `job.size` bytes of memory of `total` bytes in so many segments. Check
 * the result, the number of bytes, and the data. */
static void pipe_check_by(pipe_call_t call, pipe_end_t *end, pipe_job_t job,
    size_t total, unsigned segments, hg_return_t want, uint64_t bytes)
{
    unsigned char *before = stubs_new_pattern(total, 5);
    unsigned char *memory = stubs_new_pattern(total, 5);
    void **ptrs = (void **) calloc(segments, sizeof(*ptrs));
    size_t *sizes = (size_t *) calloc(segments, sizeof(*sizes));
    size_t piece = total / segments;
    pipe_done_t done = {77, 0, 0, 0};
    hg_bulk_t bulk;
    size_t i;

    HG_CHECK(ptrs != NULL && sizes != NULL);
    for (i = 0; i < segments; i++) {
        ptrs[i] = memory + i * piece;
        sizes[i] = i + 1 < segments ? piece : total - i * piece;
    }
    bulk = pipe_expose(end, segments, ptrs, sizes, HG_BULK_READWRITE);
    HG_CHECK_OK(call(end, job, bulk, &done));
    HG_CHECK_RET(done.ret, want);
    HG_CHECK_EQ_U64(done.bytes, bytes);
    for (i = 0; job.push && want == HG_SUCCESS && i < bytes; i++)
        before[job.offset + i] = pipe_byte(i);
    if (!job.push)
        HG_CHECK_EQ_U64(
            done.sum, stubs_sum(before + job.offset, (size_t) bytes));
    if (!job.push || want == HG_SUCCESS)
        HG_CHECK_EQ_MEM(memory, before, total);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    free(sizes);
    free(ptrs);
    free(memory);
    free(before);
}

static void pipe_check(pipe_end_t *end, pipe_job_t job, size_t total,
    unsigned segments, hg_return_t want, uint64_t bytes)
{
    pipe_check_by(pipe_call, end, job, total, segments, want, bytes);
}

static void pipe_end_case(pipe_end_t *end)
{
    pipe_call_free(end);
    pipe_close(end);
}

HG_TEST(pipeline_moves_every_size)
{
    static const size_t sizes[] = {
        0, 1, 999, 1000, 1001, 2000, 3000, 3001, 4000, 13007};
    pipe_job_t job = pipe_job;
    pipe_end_t end;
    unsigned i;

    pipe_open(&end);
    for (job.count = 1; job.count <= 4; job.count += 3) {
        for (i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
            job.push = i % 2;
            job.size = sizes[i / 2];
            job.offset = i % 5;
            pipe_check(&end, job, 14000, 1, HG_SUCCESS, job.size);
        }
    }
    pipe_end_case(&end);
}

/* Over sm a piece above 256 KiB is moved while this side makes progress. */
HG_TEST(pipeline_moves_large_pieces)
{
    pipe_job_t job = pipe_job;
    pipe_end_t end;

    pipe_open(&end);
    job.buffer = (uint64_t) 1 << 20;
    job.size = ((uint64_t) 9 << 20) + 12345;
    job.offset = 3;
    pipe_check(&end, job, (size_t) 10 << 20, 1, HG_SUCCESS, job.size);
    job.push = 1;
    pipe_check(&end, job, (size_t) 10 << 20, 3, HG_SUCCESS, job.size);
    pipe_end_case(&end);
}

HG_TEST(pipeline_moves_many_segments)
{
    pipe_job_t job = pipe_job;
    pipe_end_t end;

    pipe_open(&end);
    job.offset = 4;
    job.size = 6990;
    pipe_check(&end, job, 7000, 1000, HG_SUCCESS, job.size);
    job.push = 1;
    pipe_check(&end, job, 7000, 1000, HG_SUCCESS, job.size);
    pipe_end_case(&end);
}

/* A code of the callback is the result, even one that has a meaning for
 * transfers. */
HG_TEST(pipeline_ends_with_a_code_of_the_callback)
{
    static const hg_return_t codes[] = {HG_IO_ERROR, HG_NOENTRY, HG_TIMEOUT};
    pipe_job_t job = pipe_job;
    pipe_end_t end;
    unsigned i;

    pipe_open(&end);
    job.size = 8500;
    for (i = 0; i < 6; i++) {
        job.push = i % 2;
        job.stop = PIPE_FAIL;
        job.value = (uint64_t) codes[i / 2];
        for (job.piece = 0; job.piece < 9; job.piece += 4)
            pipe_check(
                &end, job, 9000, 1, codes[i / 2], job.piece * job.buffer);
        job.stop = PIPE_ALL;
        pipe_check(&end, job, 9000, 1, HG_SUCCESS, job.size);
    }
    pipe_end_case(&end);
}

HG_TEST(pipeline_ends_when_the_callback_reduces_the_size)
{
    pipe_job_t job = pipe_job;
    pipe_end_t end;
    unsigned i;

    pipe_open(&end);
    job.size = 8500;
    job.stop = PIPE_SHORT;
    for (i = 0; i < 6; i++) {
        job.push = i % 2;
        job.value = i / 2 * 249; /* 0 is allowed */
        for (job.piece = 0; job.piece < 9; job.piece += 4)
            pipe_check(&end, job, 9000, 2, HG_SUCCESS,
                job.piece * job.buffer + job.value);
    }
    pipe_end_case(&end);
}

HG_TEST(pipeline_refuses_a_size_that_the_callback_enlarged)
{
    pipe_job_t job = pipe_job;
    pipe_end_t end;

    hg_test_allow_log("enlarged the size of a piece");
    pipe_open(&end);
    job.size = 8500;
    job.stop = PIPE_WIDE;
    job.piece = 1;
    pipe_check(&end, job, 9000, 1, HG_INVALID_ARG, 1000);
    job.push = 1;
    pipe_check(&end, job, 9000, 1, HG_INVALID_ARG, 1000);
    pipe_end_case(&end);
}

/* Nothing is moved, and the callback does not run. */
static void pipe_check_refused(pipe_end_t *end, uint8_t push, uint64_t offset,
    uint64_t size, unsigned long flags, hg_return_t want)
{
    unsigned char memory[2500] = {1};
    void *ptr = memory;
    size_t total = sizeof(memory);
    hg_bulk_t bulk = pipe_expose(end, 1, &ptr, &total, flags);
    pipe_done_t done = {77, 7, 7, 7};
    pipe_job_t job = pipe_job;

    job.push = push;
    job.offset = offset;
    job.size = size;
    HG_CHECK_OK(pipe_call(end, job, bulk, &done));
    HG_CHECK_RET(done.ret, want);
    HG_CHECK_EQ_U64(done.pieces, 0);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
}

HG_TEST(pipeline_stays_within_the_memory_and_its_flags)
{
    pipe_end_t end;

    hg_test_allow_log("past the end of");
    hg_test_allow_log("forbidden by the flags");
    pipe_open(&end);
    pipe_check_refused(&end, 0, 0, 2501, HG_BULK_READWRITE, HG_OVERFLOW);
    pipe_check_refused(&end, 1, 1, 2500, HG_BULK_READWRITE, HG_OVERFLOW);
    pipe_check_refused(&end, 0, 2501, 1, HG_BULK_READWRITE, HG_OVERFLOW);
    pipe_check_refused(
        &end, 1, 5, SIZE_MAX - 2, HG_BULK_READWRITE, HG_OVERFLOW);
    pipe_check_refused(&end, 0, SIZE_MAX, 2, HG_BULK_READWRITE, HG_OVERFLOW);
    pipe_check_refused(&end, 1, 0, 2500, HG_BULK_READ_ONLY, HG_PERMISSION);
    pipe_check_refused(&end, 0, 0, 2500, HG_BULK_WRITE_ONLY, HG_PERMISSION);
    pipe_end_case(&end);
}

HG_TEST(pipeline_serves_one_transfer_at_a_time)
{
    pipe_job_t job = pipe_job;
    pipe_end_t end;

    hg_test_allow_log("uses the pipeline");
    pipe_open(&end);
    job.size = 8500;
    job.stop = PIPE_BUSY;
    job.piece = 2;
    pipe_check(&end, job, 9000, 1, HG_SUCCESS, job.size);
    job.count = 1; /* no piece is in flight while the callback runs */
    pipe_check(&end, job, 9000, 1, HG_SUCCESS, job.size);
    pipe_end_case(&end);
}

HG_TEST(pipeline_refuses_wrong_arguments)
{
    pipe_job_t job = pipe_job;
    pipe_end_t end;

    hg_test_allow_log("HG_Bulk_pipeline_");
    pipe_open(&end);
    job.size = 2500;
    job.stop = PIPE_WRONG;
    job.piece = 1;
    pipe_check(&end, job, 2500, 1, HG_SUCCESS, job.size);
    pipe_end_case(&end);
}

/* The limit includes the time of the callback. */
static void pipe_check_limit(pipe_end_t *end, uint8_t push)
{
    unsigned char memory[9000] = {1};
    size_t size = sizeof(memory);
    void *ptr = memory;
    hg_bulk_t bulk = pipe_expose(end, 1, &ptr, &size, HG_BULK_READWRITE);
    pipe_done_t done = {77, 0, 0, 0};
    pipe_job_t job = pipe_job;

    job.push = push;
    job.size = size;
    job.stop = PIPE_SLOW;
    job.piece = 2;
    job.timeout = 100;
    job.value = 110;
    HG_CHECK_OK(pipe_call(end, job, bulk, &done));
    HG_CHECK_RET(done.ret, HG_TIMEOUT);
    HG_CHECK(done.bytes <= 3000);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    job.timeout = 0;
    pipe_check(end, job, 9000, 1, HG_SUCCESS, job.size);
}

HG_TEST(pipeline_has_a_time_limit)
{
    pipe_end_t end;

    pipe_open(&end);
    pipe_check_limit(&end, 0);
    pipe_check_limit(&end, 1);
    pipe_end_case(&end);
}

/* ---- The caller does not wait any more ---- */

#define PIPE_VICTIM_SIZE 80000u

/* A client that makes one call. Meanwhile it does what a line of the parent
 * says. The event comes with the second piece, or with the last one. */
HG_TEST_ROLE(victim)
{
    static unsigned char memory[PIPE_VICTIM_SIZE];
    pipe_job_t job = pipe_job;
    size_t size = sizeof(memory);
    void *ptr = memory;
    struct pollfd ready = {0, POLLIN, 0};
    pipe_move_call_t call;
    hg_bulk_t bulk;
    pipe_end_t end;
    char *line;

    HG_CHECK_EQ_INT(argc, 4);
    hg_test_allow_log("");
    job.push = strcmp(argv[1], "push") == 0;
    job.endless = strcmp(argv[2], "endless") == 0;
    job.timeout = (uint32_t) strtoul(argv[3], NULL, 10);
    job.size = size;
    job.stop = PIPE_EVENT;
    job.piece = strcmp(argv[2], "last") == 0 ? PIPE_VICTIM_SIZE / 1000 - 1 : 1;
    pipe_open_client(&end, argv[0]);
    bulk = pipe_expose(&end, 1, &ptr, &size, HG_BULK_READWRITE);
    pipe_start(&call, &end, job, bulk);
    ready.fd = hg_test_parent_fd();
    while (poll(&ready, 1, 0) == 0)
        pipe_turn(&end);
    line = hg_test_read_parent();
    if (line != NULL && strcmp(line, "free") == 0) {
        HG_CHECK_OK(HG_Bulk_handle_free(bulk));
        bulk = HG_BULK_NULL;
    } else if (line != NULL && strcmp(line, "cancel") == 0) {
        pipe_cancel(&call);
    }
    if (line != NULL)
        hg_test_write_parent("done");
    free(line);
    while (poll(&ready, 1, 0) == 0) /* until the parent closes the channel */
        pipe_turn(&end);
    while (!pipe_is_over(&call))
        pipe_turn(&end);
    HG_CHECK_OK(pipe_move_end(&call));
    if (bulk != HG_BULK_NULL)
        HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    pipe_close_alone(&end);
}

static struct hg_test_peer *pipe_victim;

static void pipe_kill(void)
{
    hg_test_signal(pipe_victim, SIGKILL);
    (void) hg_test_wait(pipe_victim); /* frees it */
    pipe_victim = NULL;
}

static void pipe_freeze(void)
{
    hg_test_freeze(pipe_victim);
}

static void pipe_ask(const char *line)
{
    hg_test_write_peer(pipe_victim, line);
    free(hg_test_read_peer(pipe_victim));
}

static void pipe_ask_free(void)
{
    pipe_ask("free");
}

static void pipe_ask_cancel(void)
{
    pipe_ask("cancel");
}

/* Serve a victim, which `event` happens to in the middle of the transfer.
 * Returns the result of the transfer. */
static hg_return_t pipe_serve_victim(
    bool push, const char *way, const char *timeout, void (*event)(void))
{
    char address[NA_MAX_ADDR_LEN];
    pipe_job_t job = pipe_job;
    pipe_end_t end;
    hg_return_t ret;

    pipe_open_alone(&end, address);
    pipe_event = event;
    pipe_moves = 0;
    pipe_victim = hg_test_spawn(
        "victim", address, push ? "push" : "pull", way, timeout, (char *) NULL);
    while (pipe_moves == 0) /* the watchdog ends it */
        pipe_turn(&end);
    ret = (hg_return_t) pipe_last.ret;
    pipe_cut = pipe_last;
    if (pipe_victim != NULL)
        hg_test_signal(pipe_victim, SIGCONT);
    job.size = 8500; /* the pipeline can be used again */
    pipe_check(&end, job, 9000, 1, HG_SUCCESS, job.size);
    HG_CHECK_OK(pipe_free());
    pipe_close_alone(&end);
    if (pipe_victim != NULL)
        hg_test_stop(pipe_victim);
    return ret;
}

HG_TEST_WHERE(pipeline_ends_when_the_caller_dies, hg_test_reports_death)
{
    hg_test_allow_log("");
    HG_CHECK_RET(
        pipe_serve_victim(false, "once", "0", pipe_kill), HG_DISCONNECT);
    HG_CHECK_RET(
        pipe_serve_victim(true, "once", "0", pipe_kill), HG_DISCONNECT);
}

HG_TEST_WHERE(
    pipeline_ends_when_the_caller_frees_the_memory, hg_test_crosses_processes)
{
    HG_CHECK_RET(
        pipe_serve_victim(false, "once", "0", pipe_ask_free), HG_CANCELED);
    HG_CHECK_RET(
        pipe_serve_victim(true, "once", "0", pipe_ask_free), HG_CANCELED);
    HG_CHECK_RET(
        pipe_serve_victim(true, "last", "0", pipe_ask_free), HG_CANCELED);
}

/* Its transfers never end otherwise. Over sm the second transfer does not even
 * begin: the cancellation is there when the event ends. */
HG_TEST_WHERE(
    pipeline_ends_when_the_call_is_canceled, hg_test_crosses_processes)
{
    bool soon = strcmp(hg_test_transport(), "sm") == 0;

    HG_CHECK_RET(
        pipe_serve_victim(false, "endless", "0", pipe_ask_cancel), HG_CANCELED);
    HG_CHECK(!soon || pipe_cut.pieces == 2);
    HG_CHECK_RET(
        pipe_serve_victim(true, "endless", "0", pipe_ask_cancel), HG_CANCELED);
    HG_CHECK(!soon || pipe_cut.pieces == 2);
}

/* Over some transports the owner of the memory need not run. */
HG_TEST_WHERE(
    pipeline_ends_when_the_caller_is_stopped, hg_test_crosses_processes)
{
    hg_return_t ret = pipe_serve_victim(false, "once", "300", pipe_freeze);

    HG_CHECK(ret == HG_TIMEOUT ||
        (ret == HG_SUCCESS && !hg_test_moves_in_messages()));
    ret = pipe_serve_victim(true, "once", "300", pipe_freeze);
    HG_CHECK(ret == HG_TIMEOUT ||
        (ret == HG_SUCCESS && !hg_test_moves_in_messages()));
}

static void pipe_freeze_and_fail(void)
{
    pipe_freeze();
    pipe_event_code = HG_IO_ERROR;
}

/* Pieces in flight are not waited for, though their owner does not serve
 * them. */
HG_TEST_WHERE(pipeline_ends_with_a_code_while_the_caller_is_stopped,
    hg_test_crosses_processes)
{
    time_t begin = time(NULL);

    HG_CHECK_RET(pipe_serve_victim(false, "once", "0", pipe_freeze_and_fail),
        HG_IO_ERROR);
    /* Over other transports the memory is in use until the peer is dead, after
     * 5 s. */
    if (hg_test_is_plain() && !hg_test_is_ofi() && !hg_test_is_mpi())
        HG_CHECK(time(NULL) - begin < 4);
}

/* ---- Out of memory ---- */

static int pipe_try(void *arg)
{
    pipe_job_t job = pipe_job;
    unsigned char memory[2500] = {1};
    size_t size = sizeof(memory);
    void *ptr = memory;
    pipe_done_t done = {0, 0, 0, 0};
    hg_return_t ret = HG_NOMEM;
    hg_bulk_t bulk;
    pipe_end_t end;

    (void) arg;
    if (!pipe_try_open(&end))
        return HG_NOMEM;
    bulk = pipe_expose(&end, 1, &ptr, &size, HG_BULK_READWRITE);
    job.size = size;
    if (bulk != HG_BULK_NULL) {
        job.stop = PIPE_FAIL; /* the buffers are allocated again */
        job.value = HG_NOMEM;
        ret = pipe_call(&end, job, bulk, &done);
        job.stop = PIPE_ALL;
        if (ret == HG_SUCCESS)
            ret = pipe_call(&end, job, bulk, &done);
        if (ret == HG_SUCCESS)
            ret = (hg_return_t) done.ret;
        HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    }
    HG_CHECK_OK(pipe_free());
    pipe_close(&end);
    return (int) ret;
}

HG_TEST_WHERE(pipeline_survives_allocation_failures, hg_test_is_self)
{
    hg_test_alloc_install();
    HG_CHECK(hg_test_oom_loop(pipe_try, NULL) > 10);
}

#endif
