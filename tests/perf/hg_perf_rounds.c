/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf: one round of each kind, at the client, and the comparison of several
 * contestants.
 *
 * In a round, all contestants of a figure are measured one after the other, so
 * a ratio compares measurements next to each other in time. Each round starts
 * with another contestant, so none always follows the same other one.
 */
#define _POSIX_C_SOURCE 200809L

#include "hg_perf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PERF_WINDOW_MAX 1024

/* ---- Calls ---- */

static int perf_echo_start(struct perf_client *client, uint64_t number,
    perf_echo_t *out, hg_request_t *request_p)
{
    perf_echo_t in;
    hg_return_t ret;

    memset(&in, 0, sizeof(in));
    in.a = number;
    in.h = ~number;
    ret = HG_Forward(client->addr, client->ids.echo, &in, out, request_p);
    return ret == HG_SUCCESS ? 0 : perf_fail("HG_Forward(echo)", ret);
}

static int perf_echo_end(
    uint64_t number, const perf_echo_t *out, hg_request_t request)
{
    hg_return_t ret = HG_Wait(request, HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);

    if (ret != HG_SUCCESS)
        return perf_fail("HG_Wait(echo)", ret);
    if (out->a != number || out->h != ~number)
        return perf_fail("the response of an echo is wrong", HG_OTHER_ERROR);
    (void) HG_Request_free(request);
    return 0;
}

int perf_echo_round(
    struct perf_client *client, unsigned window, double *per_op_p)
{
    static hg_request_t requests[PERF_WINDOW_MAX];
    static perf_echo_t outs[PERF_WINDOW_MAX];
    const uint64_t start = perf_now_ns();
    const uint64_t until = start + (uint64_t) (client->options->seconds * 1e9);
    uint64_t now = start;
    uint64_t sent = 0;
    uint64_t taken = 0;

    assert(window > 0 && window <= PERF_WINDOW_MAX);
    while (taken < sent || now < until) {
        for (; sent - taken < window && now < until; sent++) {
            if (perf_echo_start(client, sent, &outs[sent % window],
                    &requests[sent % window]) != 0)
                return -1;
        }
        if (perf_echo_end(
                taken, &outs[taken % window], requests[taken % window]) != 0)
            return -1;
        taken++;
        if (taken % 16 == 0 || window == 1)
            now = perf_now_ns();
    }
    *per_op_p = (double) (perf_now_ns() - start) * 1e-9 / (double) taken;
    return 0;
}

int perf_nap_round(
    struct perf_client *client, unsigned nap_us, double *per_op_p)
{
    const struct timespec nap = {0, (long) nap_us * 1000};
    const uint64_t until =
        perf_now_ns() + (uint64_t) (client->options->seconds * 1e9);
    uint64_t spent = 0;
    uint64_t taken = 0;

    while (perf_now_ns() < until) {
        hg_request_t request;
        perf_echo_t out;
        uint64_t begin;

        (void) nanosleep(&nap, NULL);
        begin = perf_now_ns();
        if (perf_echo_start(client, taken, &out, &request) != 0 ||
            perf_echo_end(taken, &out, request) != 0)
            return -1;
        spent += perf_now_ns() - begin;
        taken++;
    }
    *per_op_p = (double) spent * 1e-9 / (double) taken;
    return 0;
}

/* A call in flight, and the number in its first and last bytes. */
struct perf_page_slot {
    hg_request_t request;
    uint64_t number;
    perf_page_t out;
};

static int perf_page_start(struct perf_client *client, perf_page_t *in,
    uint64_t number, struct perf_page_slot *slot)
{
    hg_return_t ret;

    memcpy(in->bytes, &number, sizeof(number));
    memcpy(in->bytes + in->size - sizeof(number), &number, sizeof(number));
    slot->number = number;
    ret = HG_Forward(
        client->addr, client->ids.page, in, &slot->out, &slot->request);
    return ret == HG_SUCCESS ? 0 : perf_fail("HG_Forward(page)", ret);
}

static int perf_page_end(perf_page_t *in, struct perf_page_slot *slot)
{
    const uint64_t number = slot->number;
    hg_return_t ret =
        HG_Wait(slot->request, HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);

    if (ret != HG_SUCCESS)
        return perf_fail("HG_Wait(page)", ret);
    (void) HG_Request_free(slot->request);
    memcpy(in->bytes, &number, sizeof(number));
    memcpy(in->bytes + in->size - sizeof(number), &number, sizeof(number));
    if (slot->out.size != in->size ||
        memcmp(in->bytes, slot->out.bytes, in->size) != 0)
        return perf_fail("the response of an echo is wrong", HG_OTHER_ERROR);
    return 0;
}

int perf_page_round(
    struct perf_client *client, struct perf_pages *pages, double *per_op_p)
{
    const uint64_t start = perf_now_ns();
    const uint64_t until = start + (uint64_t) (client->options->seconds * 1e9);
    const uint64_t slept = perf_sleeps();
    static struct perf_page_slot slots[PERF_PAGE_WINDOW_MAX];
    static perf_page_t in;
    uint64_t now = start;
    uint64_t sent = 0;
    uint64_t taken = 0;

    assert(pages->size >= 2 * sizeof(taken) && pages->size <= PERF_PAGE_MAX);
    assert(pages->window > 0 && pages->window <= PERF_PAGE_WINDOW_MAX);
    in.size = (uint32_t) pages->size;
    while (taken < sent || now < until) {
        for (; sent - taken < pages->window && now < until; sent++) {
            if (perf_page_start(
                    client, &in, sent, &slots[sent % pages->window]) != 0)
                return -1;
        }
        if (perf_page_end(&in, &slots[taken % pages->window]) != 0)
            return -1;
        taken++;
        now = perf_now_ns();
    }
    pages->calls += taken;
    pages->sleeps += perf_sleeps() - slept;
    *per_op_p = (double) (now - start) * 1e-9 / (double) taken;
    return 0;
}

int perf_echo_sample(
    struct perf_client *client, hg_request_t job, struct perf_samples *samples)
{
    uint64_t now = perf_now_ns();
    const uint64_t until = now + (uint64_t) (client->options->seconds * 1e9);
    hg_status_t ended = HG_FALSE;
    hg_return_t ret;

    samples->count = 0;
    for (;;) {
        const uint64_t start = now;
        hg_request_t request;
        perf_echo_t out;

        if (perf_echo_start(client, start, &out, &request) != 0 ||
            perf_echo_end(start, &out, request) != 0)
            return -1;
        now = perf_now_ns();
        if (job != HG_REQUEST_NULL) {
            ret = HG_Wait(job, 0, &ended);
            if (ret != HG_SUCCESS && ret != HG_TIMEOUT)
                return perf_fail("HG_Wait(background)", ret);
        }
        /* The job may have ended before the last call did. That call counts
         * only if there is no other one. */
        if (!ended || samples->count == 0)
            samples->ns[samples->count++] = (double) (now - start);
        if (ended || samples->count == PERF_SAMPLES_MAX ||
            (job == HG_REQUEST_NULL && now >= until))
            break;
    }
    perf_sort(samples->ns, samples->count);
    return 0;
}

int perf_source_make(struct perf_source *source, size_t size)
{
    void *buf = perf_alloc(size);
    hg_return_t ret;

    if (buf == NULL)
        return perf_fail("malloc", HG_NOMEM);
    perf_fill(buf, size, 0);
    ret =
        HG_Bulk_handle_create(1, &buf, &size, HG_BULK_READWRITE, &source->bulk);
    if (ret != HG_SUCCESS) {
        free(buf);
        return perf_fail("HG_Bulk_handle_create", ret);
    }
    source->buf = (unsigned char *) buf;
    source->size = size;
    source->given = 0;
    return 0;
}

int perf_source_take(struct perf_source *source, size_t size)
{
    void *buf;
    size_t actual;
    unsigned count;
    hg_return_t ret =
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &source->bulk);

    if (ret != HG_SUCCESS)
        return perf_fail("HG_Bulk_handle_create", ret);
    ret = HG_Bulk_handle_access(
        source->bulk, 0, size, HG_BULK_READWRITE, 1, &buf, &actual, &count);
    if (ret != HG_SUCCESS || actual != size) {
        (void) HG_Bulk_handle_free(source->bulk);
        return perf_fail("HG_Bulk_handle_access", ret);
    }
    perf_fill(buf, size, 0);
    source->buf = (unsigned char *) buf;
    source->size = size;
    source->given = 1;
    return 0;
}

void perf_source_free(struct perf_source *source)
{
    (void) HG_Bulk_handle_free(source->bulk);
    if (!source->given)
        free(source->buf);
}

int perf_judge_move(const perf_move_in_t *in, const perf_move_out_t *out,
    const struct perf_source *source)
{
    if (out->wrong != 0 || out->ops == 0 ||
        ((in->flags & PERF_MOVE_PUSH) != 0 &&
            !perf_is_filled(source->buf, (size_t) in->size, 0)))
        return perf_fail("the data arrived changed", HG_OTHER_ERROR);
    return 0;
}

int perf_move_round(struct perf_client *client,
    const struct perf_source *source, perf_move_in_t *in, double *per_op_p)
{
    perf_move_out_t out;
    hg_request_t request;
    hg_return_t ret;
    int rc;

    in->bulk = source->bulk;
    if ((in->flags & PERF_MOVE_PUSH) != 0)
        memset(source->buf, 0, (size_t) in->size);
    ret = HG_Forward(client->addr, client->ids.move, in, &out, &request);
    if (ret != HG_SUCCESS)
        return perf_fail("HG_Forward(move)", ret);
    ret = HG_Wait(request, HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);
    rc = ret != HG_SUCCESS ? perf_fail("HG_Wait(move)", ret)
                           : perf_judge_move(in, &out, source);
    (void) HG_Request_free(request);
    if (rc == 0)
        *per_op_p = (double) out.ns * 1e-9 / (double) out.ops;
    return rc;
}

perf_move_in_t perf_move_order(const struct perf_client *client, size_t size,
    size_t piece, unsigned buffers, unsigned flags)
{
    perf_move_in_t in;

    memset(&in, 0, sizeof(in));
    in.size = size;
    in.piece = piece < size ? piece : size;
    in.buffers = buffers;
    in.ms = (uint64_t) (client->options->seconds * 1e3);
    in.flags = flags;
    return in;
}

/* ---- Comparisons ---- */

int perf_contest(struct perf_client *client,
    struct perf_contestant *contestants, unsigned count)
{
    unsigned round;
    unsigned turn;

    for (round = 0; round < client->options->rounds; round++) {
        for (turn = 0; turn < count; turn++) {
            struct perf_contestant *c = &contestants[(round + turn) % count];
            double per_op;

            if (c->run(client, c->arg, &per_op) != 0)
                return -1;
            perf_series_add(&c->series, per_op);
        }
    }
    return 0;
}

int perf_run_echo(struct perf_client *client, void *arg, double *per_op_p)
{
    return perf_echo_round(client, *(const unsigned *) arg, per_op_p);
}

int perf_run_move(struct perf_client *client, void *arg, double *per_op_p)
{
    struct perf_move_arg *move = (struct perf_move_arg *) arg;

    return perf_move_round(client, move->source, &move->in, per_op_p);
}

int perf_run_page(struct perf_client *client, void *arg, double *per_op_p)
{
    return perf_page_round(client, (struct perf_pages *) arg, per_op_p);
}
