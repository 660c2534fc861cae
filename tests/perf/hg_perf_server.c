/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf: the server's side, in one thread.
 *
 * The handler of `move` starts transfers and waits for them, as the pipelined
 * write of the Mercury paper does. The handler of `background` only starts a
 * transfer; the main loop waits for it, so that the server executes other calls
 * meanwhile. The server keeps its memory between calls, so that page faults of
 * new memory are not measured.
 */
#define _POSIX_C_SOURCE 200809L

#include "hg_perf.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERF_BUFFERS_MAX 64

/* Memory of the server, with its bulk handle. */
struct perf_local {
    unsigned char *buf;
    size_t size;
    hg_bulk_t bulk;
};

struct perf_server {
    na_class_t *na_class;
    struct perf_local local; /* the local end of transfers */
    unsigned char *sink;     /* destination of COPY, one piece */
    size_t sink_size;
    /* The transfer of `background`, if `job` is not NULL. */
    hg_handle_t job;
    perf_move_in_t job_in;
    perf_move_out_t job_out;
    uint64_t job_start;
    hg_bulk_request_t job_request;
    hg_handle_t kept;
    int ended; /* a client called `end` */
};

static struct perf_server perf_server;

/* ---- Memory ---- */

static void perf_local_free(struct perf_local *local)
{
    if (local->bulk != HG_BULK_NULL)
        (void) HG_Bulk_handle_free(local->bulk);
    free(local->buf);
    memset(local, 0, sizeof(*local));
}

/* Allocate at least `size` bytes. */
static hg_return_t perf_local_make(struct perf_local *local, size_t size)
{
    void *buf;
    hg_return_t ret;

    if (local->size >= size)
        return HG_SUCCESS;
    perf_local_free(local);
    buf = perf_alloc(size);
    if (buf == NULL)
        return HG_NOMEM;
    memset(buf, 0, size);
    local->buf = (unsigned char *) buf;
    local->size = size;
    ret =
        HG_Bulk_handle_create(1, &buf, &size, HG_BULK_READWRITE, &local->bulk);
    if (ret != HG_SUCCESS)
        perf_local_free(local);
    return ret;
}

static hg_return_t perf_sink_make(size_t size)
{
    if (perf_server.sink_size >= size)
        return HG_SUCCESS;
    free(perf_server.sink);
    perf_server.sink_size = 0;
    perf_server.sink = (unsigned char *) malloc(size);
    if (perf_server.sink == NULL)
        return HG_NOMEM;
    memset(perf_server.sink, 0, size);
    perf_server.sink_size = size;
    return HG_SUCCESS;
}

/* Check the sizes and prepare the memory, before the measured time. */
static hg_return_t perf_prepare(const perf_move_in_t *in)
{
    const size_t local = (size_t) (in->piece * in->buffers);
    hg_return_t ret;

    if (in->size == 0 || in->piece == 0 || in->piece > in->size ||
        in->piece % 8 != 0 || in->buffers == 0 ||
        in->buffers > PERF_BUFFERS_MAX ||
        in->piece > SIZE_MAX / PERF_BUFFERS_MAX ||
        in->size > HG_Bulk_handle_get_size(in->bulk))
        return HG_INVALID_ARG;
    ret = perf_local_make(&perf_server.local, local);
    if (ret == HG_SUCCESS && (in->flags & PERF_MOVE_COPY) != 0)
        ret = perf_sink_make((size_t) in->piece);
    if (ret != HG_SUCCESS)
        return ret;
    if ((in->flags & PERF_MOVE_TRUST) != 0)
        return HG_SUCCESS;
    if ((in->flags & PERF_MOVE_PUSH) == 0)
        memset(perf_server.local.buf, 0, local);
    else if (in->piece == in->size)
        perf_fill(perf_server.local.buf, (size_t) in->size, 0);
    else
        return HG_INVALID_ARG; /* a push is one piece */
    return HG_SUCCESS;
}

/* ---- move ---- */

/* One transfer in pieces. */
struct perf_flow {
    const perf_move_in_t *in;
    na_addr_t origin;
    hg_bulk_request_t requests[PERF_BUFFERS_MAX];
    uint64_t started; /* pieces */
    uint64_t ended;
    uint64_t wrong;
};

static size_t perf_piece_size(const perf_move_in_t *in, uint64_t index)
{
    const uint64_t left = in->size - index * in->piece;

    return (size_t) (left < in->piece ? left : in->piece);
}

static hg_return_t perf_start_piece(struct perf_flow *flow)
{
    const perf_move_in_t *in = flow->in;
    const uint64_t slot = flow->started % in->buffers;
    const hg_return_t ret = HG_Bulk_transfer(
        (in->flags & PERF_MOVE_PUSH) != 0 ? HG_BULK_PUSH : HG_BULK_PULL,
        flow->origin, in->bulk, (size_t) (flow->started * in->piece),
        perf_server.local.bulk, (size_t) (slot * in->piece),
        perf_piece_size(in, flow->started), &flow->requests[slot]);

    if (ret == HG_SUCCESS)
        flow->started++;
    return ret;
}

static hg_return_t perf_end_piece(struct perf_flow *flow)
{
    const perf_move_in_t *in = flow->in;
    const uint64_t slot = flow->ended % in->buffers;
    const unsigned char *buf = perf_server.local.buf + slot * in->piece;
    const size_t size = perf_piece_size(in, flow->ended);
    const hg_return_t ret =
        HG_Bulk_wait(flow->requests[slot], HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);

    if (ret == HG_INTR)
        return perf_end_piece(flow); /* a signal ends the process later */
    if (ret == HG_SUCCESS && (in->flags & PERF_MOVE_VERIFY) != 0)
        flow->wrong +=
            (uint64_t) !perf_is_filled(buf, size, flow->ended * in->piece);
    if (ret == HG_SUCCESS && (in->flags & PERF_MOVE_COPY) != 0)
        memcpy(perf_server.sink, buf, size);
    flow->ended++;
    return ret;
}

/* One whole transfer. After an error, wait for the pieces in flight. */
static hg_return_t perf_move_once(struct perf_flow *flow)
{
    const perf_move_in_t *in = flow->in;
    const uint64_t pieces = (in->size + in->piece - 1) / in->piece;
    hg_return_t ret = HG_SUCCESS;

    flow->started = 0;
    flow->ended = 0;
    while (ret == HG_SUCCESS && flow->ended < pieces) {
        while (ret == HG_SUCCESS && flow->started < pieces &&
            flow->started - flow->ended < in->buffers)
            ret = perf_start_piece(flow);
        if (ret == HG_SUCCESS)
            ret = perf_end_piece(flow);
    }
    while (flow->ended < flow->started)
        (void) perf_end_piece(flow);
    return ret;
}

/* Compare the pieces that are in the buffers with the pattern. */
static uint64_t perf_count_wrong(const perf_move_in_t *in)
{
    const uint64_t pieces = (in->size + in->piece - 1) / in->piece;
    const uint64_t kept = pieces < in->buffers ? pieces : in->buffers;
    uint64_t wrong = 0;
    uint64_t i;

    if ((in->flags & (PERF_MOVE_PUSH | PERF_MOVE_TRUST)) != 0)
        return 0; /* the client compares, or nobody does */
    for (i = pieces - kept; i < pieces; i++)
        wrong += (uint64_t) !perf_is_filled(
            perf_server.local.buf + i % in->buffers * in->piece,
            perf_piece_size(in, i), i * in->piece);
    return wrong;
}

static hg_return_t perf_on_move(hg_handle_t handle)
{
    perf_move_in_t in;
    perf_move_out_t out;
    struct perf_flow flow;
    uint64_t start;
    hg_return_t ret = HG_Handler_get_input(handle, &in);

    if (ret != HG_SUCCESS)
        return ret;
    memset(&flow, 0, sizeof(flow));
    memset(&out, 0, sizeof(out));
    flow.in = &in;
    flow.origin = HG_Handler_get_addr(handle);
    ret = perf_prepare(&in);
    start = perf_now_ns();
    while (ret == HG_SUCCESS) {
        ret = perf_move_once(&flow);
        out.ops++;
        out.ns = perf_now_ns() - start;
        if (out.ns >= in.ms * 1000000)
            break;
    }
    if (ret == HG_SUCCESS) {
        out.wrong = flow.wrong + perf_count_wrong(&in);
        ret = HG_Handler_start_output(handle, &out);
    }
    (void) HG_Handler_free_input(handle, &in);
    if (ret == HG_SUCCESS)
        (void) HG_Handler_free(handle);
    return ret;
}

/* ---- background ---- */

static hg_return_t perf_job_begin_transfer(void)
{
    const perf_move_in_t *in = &perf_server.job_in;

    return HG_Bulk_transfer(
        (in->flags & PERF_MOVE_PUSH) != 0 ? HG_BULK_PUSH : HG_BULK_PULL,
        HG_Handler_get_addr(perf_server.job), in->bulk, 0,
        perf_server.local.bulk, 0, (size_t) in->size, &perf_server.job_request);
}

/* Respond and end the job. `wrong` tells the client of an error. */
static void perf_job_end(hg_return_t ret)
{
    perf_server.job_out.ns = perf_now_ns() - perf_server.job_start;
    perf_server.job_out.wrong = ret == HG_SUCCESS
        ? perf_count_wrong(&perf_server.job_in)
        : perf_server.job_in.size;
    (void) HG_Handler_start_output(perf_server.job, &perf_server.job_out);
    (void) HG_Handler_free_input(perf_server.job, &perf_server.job_in);
    (void) HG_Handler_free(perf_server.job);
    perf_server.job = HG_HANDLE_NULL;
}

static hg_return_t perf_on_background(hg_handle_t handle)
{
    perf_move_in_t in;
    hg_return_t ret;

    if (perf_server.job != HG_HANDLE_NULL)
        return HG_BUSY;
    ret = HG_Handler_get_input(handle, &in);
    if (ret != HG_SUCCESS)
        return ret;
    ret = in.piece != in.size || in.buffers != 1 ? HG_INVALID_ARG
                                                 : perf_prepare(&in);
    if (ret != HG_SUCCESS)
        goto free_input;
    perf_server.job = handle;
    perf_server.job_in = in;
    memset(&perf_server.job_out, 0, sizeof(perf_server.job_out));
    perf_server.job_start = perf_now_ns();
    ret = perf_job_begin_transfer();
    if (ret == HG_SUCCESS)
        return HG_SUCCESS;
    perf_server.job = HG_HANDLE_NULL;

free_input:
    (void) HG_Handler_free_input(handle, &in);
    return ret;
}

/* If the transfer of the job has ended, start the next one or respond. */
static void perf_job_step(void)
{
    hg_return_t ret =
        HG_Bulk_wait(perf_server.job_request, 0, HG_STATUS_IGNORE);

    if (ret == HG_TIMEOUT || ret == HG_INTR)
        return;
    if (ret == HG_SUCCESS) {
        perf_server.job_out.ops++;
        if (perf_now_ns() - perf_server.job_start <
            perf_server.job_in.ms * 1000000)
            ret = perf_job_begin_transfer();
        else {
            perf_job_end(HG_SUCCESS);
            return;
        }
    }
    if (ret != HG_SUCCESS)
        perf_job_end(ret);
}

/* ---- The others ---- */

static hg_return_t perf_on_echo(hg_handle_t handle)
{
    perf_echo_t data;
    hg_return_t ret = HG_Handler_get_input(handle, &data);

    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Handler_start_output(handle, &data);
    (void) HG_Handler_free_input(handle, &data);
    if (ret == HG_SUCCESS)
        (void) HG_Handler_free(handle);
    return ret;
}

static hg_return_t perf_on_page(hg_handle_t handle)
{
    perf_page_t data;
    hg_return_t ret = HG_Handler_get_input(handle, &data);

    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Handler_start_output(handle, &data);
    (void) HG_Handler_free_input(handle, &data);
    if (ret == HG_SUCCESS)
        (void) HG_Handler_free(handle);
    return ret;
}

static hg_return_t perf_on_counter(hg_handle_t handle)
{
    perf_name_t in;
    perf_value_t out;
    hg_return_t ret = HG_Handler_get_input(handle, &in);

    if (ret != HG_SUCCESS)
        return ret;
    out.value = NA_Get_counter(perf_server.na_class, in.name);
    ret = HG_Handler_start_output(handle, &out);
    (void) HG_Handler_free_input(handle, &in);
    if (ret == HG_SUCCESS)
        (void) HG_Handler_free(handle);
    return ret;
}

/* Kill the process at the given time. Spin at the end, because a timer may be
 * late. */
static hg_return_t perf_on_die(hg_handle_t handle)
{
    const uint64_t spin_ns = 200 * 1000;
    struct timespec pause = {0, 0};
    uint64_t now = perf_now_ns();
    perf_value_t in;
    hg_return_t ret = HG_Handler_get_input(handle, &in);

    if (ret != HG_SUCCESS)
        return ret;
    if (in.value > now + spin_ns)
        pause.tv_nsec = (long) ((in.value - now - spin_ns) % 1000000000);
    (void) nanosleep(&pause, NULL);
    while (perf_now_ns() < in.value)
        continue;
    (void) raise(SIGKILL);
    return HG_OTHER_ERROR;
}

static void perf_let_go(hg_handle_t handle)
{
    if (perf_server.kept != HG_HANDLE_NULL)
        (void) HG_Handler_free(perf_server.kept);
    perf_server.kept = handle;
}

static hg_return_t perf_on_keep(hg_handle_t handle)
{
    perf_let_go(handle);
    return HG_SUCCESS;
}

/* Respond without data. */
static hg_return_t perf_answer(hg_handle_t handle, int rc)
{
    hg_return_t ret =
        rc != 0 ? HG_OTHER_ERROR : HG_Handler_start_output(handle, NULL);

    if (ret == HG_SUCCESS)
        (void) HG_Handler_free(handle);
    return ret;
}

static hg_return_t perf_on_raw(hg_handle_t handle)
{
#if HG_NA_MPI
    return perf_answer(handle, perf_mpi_serve_raw());
#else
    return perf_answer(handle, -1);
#endif
}

static hg_return_t perf_on_end(hg_handle_t handle)
{
    perf_server.ended = 1;
    return perf_answer(handle, 0);
}

void perf_register(enum perf_serving serving, struct perf_ids *ids_p)
{
    const int serve = serving != PERF_SERVES_NONE;
    const int trusts = serving == PERF_SERVES_ALL;
    const hg_rpc_cb_t none = (hg_rpc_cb_t) 0;

    ids_p->echo = MERCURY_REGISTER(
        "perf_echo", perf_echo_t, perf_echo_t, serve ? perf_on_echo : none);
    ids_p->page = MERCURY_REGISTER(
        "perf_page", perf_page_t, perf_page_t, serve ? perf_on_page : none);
    ids_p->move = MERCURY_REGISTER("perf_move", perf_move_in_t, perf_move_out_t,
        serve ? perf_on_move : none);
    ids_p->background = MERCURY_REGISTER("perf_background", perf_move_in_t,
        perf_move_out_t, serve ? perf_on_background : none);
    ids_p->counter = MERCURY_REGISTER("perf_counter", perf_name_t, perf_value_t,
        serve ? perf_on_counter : none);
    ids_p->die = MERCURY_REGISTER(
        "perf_die", perf_value_t, void, trusts ? perf_on_die : none);
    ids_p->keep =
        MERCURY_REGISTER("perf_keep", void, void, serve ? perf_on_keep : none);
    ids_p->raw =
        MERCURY_REGISTER("perf_raw", void, void, trusts ? perf_on_raw : none);
    ids_p->end =
        MERCURY_REGISTER("perf_end", void, void, trusts ? perf_on_end : none);
}

/* ---- Serving ---- */

static int perf_tell_address(na_class_t *na_class, int fd)
{
    char name[NA_MAX_ADDR_LEN + 1];
    na_addr_t addr;
    size_t size;
    na_return_t ret = NA_Addr_self(na_class, &addr);

    if (ret != NA_SUCCESS)
        return perf_fail("NA_Addr_self", ret);
    ret = NA_Addr_to_string(na_class, name, NA_MAX_ADDR_LEN, addr);
    (void) NA_Addr_free(na_class, addr);
    if (ret != NA_SUCCESS)
        return perf_fail("NA_Addr_to_string", ret);
    size = strlen(name);
    name[size++] = '\n';
    if (write(fd, name, size) != (ssize_t) size)
        return perf_fail("write", HG_IO_ERROR);
    return 0;
}

int perf_serve(const char *url, int ready_fd,
    const struct perf_options *options, const volatile sig_atomic_t *stop)
{
    struct perf_ids ids;
    na_class_t *na_class;
    hg_return_t ret = HG_SUCCESS;

    if (perf_start(url, NA_TRUE, options, &na_class) != 0)
        return -1;
    perf_server.na_class = na_class;
    perf_register(
        options->standalone ? PERF_SERVES_ANY : PERF_SERVES_ALL, &ids);
    if (ready_fd >= 0 && perf_tell_address(na_class, ready_fd) != 0)
        ret = HG_OTHER_ERROR;
    while (!*stop && !perf_server.ended &&
        (ret == HG_SUCCESS || ret == HG_TIMEOUT || ret == HG_INTR)) {
        if (perf_server.job != HG_HANDLE_NULL)
            perf_job_step();
        ret = HG_Handler_process(1000, HG_STATUS_IGNORE);
    }
    if (!*stop && !perf_server.ended && ret != HG_OTHER_ERROR)
        (void) perf_fail("HG_Handler_process", ret);
    perf_let_go(HG_HANDLE_NULL);
    perf_local_free(&perf_server.local);
    free(perf_server.sink);
    perf_finish(na_class);
    return *stop || perf_server.ended ? 0 : -1;
}
