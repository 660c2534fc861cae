/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk transfers that run out of memory, in the request model. Each allocation
 * of the server that moves the data fails in turn, then each of the client that
 * owns the memory. Every transfer ends in time, and the next one succeeds.
 */
#include "rpc.h"

enum oom_how { OOM_PLAIN, OOM_PIPELINE, OOM_REQUEST, OOM_HOWS };

#define OOM_MS hg_test_scaled_ms(20000u) /* of a transfer; 0.1 s is expected */
#define OOM_SEGMENTS 40u
#define OOM_LARGE 600000u

/* clang-format off */
MERCURY_GEN_PROC(oom_job_t, ((uint8_t)(how))((uint8_t)(push))((uint32_t)(nth)))
MERCURY_GEN_PROC(oom_done_t, ((int32_t)(ret))((uint8_t)(failed)))
MERCURY_GEN_RPC_STUB(oom_done_t, oom_move,
    ((oom_job_t)(job))((hg_bulk_t)(memory)), )
/* clang-format on */

static void rpc_register(void)
{
    HG_CHECK(oom_move_provide() != 0);
}

/* The memory before a transfer, and after a push. */
static unsigned char oom_before[OOM_LARGE], oom_pushed[OOM_LARGE];

/* In every process of this program, before the library is used. */
__attribute__((constructor)) static void oom_begin(void)
{
    unsigned i;

    for (i = 0; i < OOM_LARGE; i++) {
        oom_before[i] = (unsigned char) ((i * 131 + 3) >> i % 5);
        oom_pushed[i] = (unsigned char) ~oom_before[i];
    }
    hg_test_alloc_install();
}

/* ---- The server ---- */

static hg_return_t oom_piece(void *arg, void *data, size_t *size, size_t offset)
{
    const oom_job_t *job = (const oom_job_t *) arg;

    if (job->push)
        memcpy(data, oom_pushed + offset, *size);
    else
        HG_CHECK_EQ_MEM(data, oom_before + offset, *size);
    return HG_SUCCESS;
}

static hg_return_t oom_pipeline(oom_job_t *job, hg_memory_t memory)
{
    hg_bulk_pipeline_t pipeline;
    hg_return_t ret =
        HG_Bulk_pipeline_create(NULL, 3, memory.size / 3, &pipeline);

    if (ret != HG_SUCCESS)
        return ret;
    ret = (job->push ? HG_Bulk_pipeline_push : HG_Bulk_pipeline_pull)(pipeline,
        memory.call, memory.bulk, 0, memory.size, oom_piece, job, OOM_MS);
    HG_CHECK_OK(HG_Bulk_pipeline_free(pipeline));
    return ret;
}

static hg_return_t oom_request(
    const oom_job_t *job, hg_memory_t memory, void *bytes)
{
    hg_bulk_request_t request = HG_BULK_REQUEST_NULL;
    hg_status_t ended = HG_FALSE;
    hg_bulk_t local;
    hg_return_t ret;

    ret = HG_Bulk_handle_create(
        1, &bytes, &memory.size, HG_BULK_READWRITE, &local);
    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Bulk_transfer(job->push ? HG_BULK_PUSH : HG_BULK_PULL,
        HG_Handler_get_addr(memory.call), memory.bulk, 0, local, 0, memory.size,
        &request);
    if (ret == HG_SUCCESS) {
        ret = HG_Bulk_wait(request, OOM_MS, &ended);
        HG_CHECK_EQ_INT(ended, HG_TRUE);
    } else {
        HG_CHECK(request == HG_BULK_REQUEST_NULL);
    }
    HG_CHECK_OK(HG_Bulk_handle_free(local));
    return ret;
}

static hg_return_t oom_once(oom_job_t *job, hg_memory_t memory)
{
    unsigned char *bytes = (unsigned char *) malloc(memory.size);
    hg_return_t ret;

    HG_CHECK(bytes != NULL);
    memcpy(bytes, oom_pushed, memory.size);
    switch (job->how) {
    case OOM_PIPELINE: ret = oom_pipeline(job, memory); break;
    case OOM_REQUEST: ret = oom_request(job, memory, bytes); break;
    default:
        ret = job->push ? HG_Bulk_push_timed(memory.call, memory.bulk, 0, bytes,
                              memory.size, OOM_MS)
                        : HG_Bulk_pull_timed(memory.call, memory.bulk, 0, bytes,
                              memory.size, OOM_MS);
    }
    if (ret == HG_SUCCESS && job->how != OOM_PIPELINE && !job->push)
        HG_CHECK_EQ_MEM(bytes, oom_before, memory.size);
    free(bytes);
    HG_CHECK(ret != HG_TIMEOUT);
    return ret;
}

oom_done_t oom_move(oom_job_t job, hg_memory_t memory)
{
    oom_done_t done = {0, 0};

    if (job.nth != 0)
        hg_test_alloc_fail_at(job.nth);
    done.ret = (int32_t) oom_once(&job, memory);
    if (job.nth == 0)
        return done;
    done.failed = hg_test_alloc_failed();
    hg_test_alloc_fail_at(0);
    HG_CHECK(done.ret == HG_SUCCESS || done.failed);
    if (done.ret != HG_SUCCESS)
        HG_CHECK_OK(oom_once(&job, memory));
    return done;
}

/* ---- The client ---- */

struct oom_case {
    struct rpc_end end;
    char address[NA_MAX_ADDR_LEN];
    unsigned char *bytes;
    size_t size;
    bool segments;
    unsigned calls; /* that failed */
};

/* Describe the memory, and call the server. */
static hg_return_t oom_call(
    struct oom_case *c, const oom_job_t *job, oom_done_t *done)
{
    void *pieces[OOM_SEGMENTS];
    size_t sizes[OOM_SEGMENTS];
    unsigned count = c->segments ? OOM_SEGMENTS : 1;
    hg_bulk_t bulk;
    hg_return_t ret;
    unsigned i;

    for (i = 0; i < count; i++) {
        sizes[i] = c->size / count;
        pieces[i] = c->bytes + i * sizes[i];
    }
    memcpy(c->bytes, oom_before, c->size);
    ret = HG_Bulk_handle_create(count, pieces, sizes, HG_BULK_READWRITE, &bulk);
    if (ret != HG_SUCCESS)
        return ret;
    ret = oom_move_call(c->end.target, 3 * OOM_MS, *job, bulk, done);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    HG_CHECK(ret != HG_TIMEOUT);
    if (ret == HG_SUCCESS && done->ret == HG_SUCCESS)
        HG_CHECK_EQ_MEM(c->bytes, job->push ? oom_pushed : oom_before, c->size);
    return ret;
}

/* If the connection ended, because there was no memory to answer a request,
 * connect again. */
static void oom_recover(struct oom_case *c)
{
    oom_job_t job = {OOM_PLAIN, 0, 0};
    oom_done_t done;
    hg_return_t ret = oom_call(c, &job, &done);

    if (ret == HG_DISCONNECT) {
        HG_CHECK_OK(NA_Addr_free(c->end.na_class, c->end.target));
        HG_CHECK_OK(NA_Addr_lookup_wait(
            c->end.na_class, c->address, RPC_TIMEOUT, &c->end.target));
        ret = oom_call(c, &job, &done);
    }
    HG_CHECK_OK(ret);
    HG_CHECK_OK(done.ret);
}

/* The `nth` allocation fails, in this process or in the server. Returns whether
 * one did. */
static bool oom_try(struct oom_case *c, oom_job_t job, unsigned nth, bool here)
{
    oom_done_t done = {0, 0};
    hg_return_t ret;

    job.nth = here ? 0 : nth;
    if (here)
        hg_test_alloc_fail_at(nth);
    ret = oom_call(c, &job, &done);
    if (here) {
        done.failed = hg_test_alloc_failed();
        hg_test_alloc_fail_at(0);
    }
    HG_CHECK(done.failed || (ret == HG_SUCCESS && done.ret == HG_SUCCESS));
    if (ret != HG_SUCCESS || done.ret != HG_SUCCESS) {
        c->calls++;
        oom_recover(c);
    }
    return done.failed;
}

static void oom_open(struct oom_case *c, size_t size, bool segments)
{
    memset(c, 0, sizeof(*c));
    rpc_open(&c->end);
    HG_CHECK_OK(NA_Addr_to_string(
        c->end.na_class, c->address, sizeof(c->address), c->end.target));
    c->size = size;
    c->segments = segments;
    c->bytes = (unsigned char *) malloc(size);
    HG_CHECK(c->bytes != NULL);
}

static void oom_all(size_t size, bool segments, bool here)
{
    struct oom_case c;
    unsigned how, push, nth;

    hg_test_allow_log("");
    oom_open(&c, size, segments);
    for (how = 0; how < OOM_HOWS; how++) {
        for (push = 0; push < 2; push++) {
            oom_job_t job = {(uint8_t) how, (uint8_t) push, 0};

            oom_recover(&c); /* it succeeds */
            for (nth = 1; oom_try(&c, job, nth, here); nth++)
                continue;
        }
    }
    HG_CHECK(c.calls > 0);
    rpc_close(&c.end);
    free(c.bytes);
}

HG_TEST(server_without_memory_ends_transfers)
{
    oom_all(50000, false, false);
}

HG_TEST(server_without_memory_ends_large_transfers)
{
    oom_all(OOM_LARGE, false, false);
}

HG_TEST(server_without_memory_ends_transfers_of_segments)
{
    oom_all(40000, true, false);
}

HG_TEST(client_without_memory_ends_transfers)
{
    oom_all(50000, false, true);
}

HG_TEST(client_without_memory_ends_large_transfers)
{
    oom_all(OOM_LARGE, false, true);
}

HG_TEST(client_without_memory_ends_transfers_of_segments)
{
    oom_all(40000, true, true);
}
