/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocking: the transfers of a server that waits for them, in both models.
 *
 * HG_Bulk_pull and HG_Bulk_push move memory of a call's client in one transfer.
 * A pipeline moves it in pieces, through buffers that are parts of one bulk
 * handle. Piece i uses buffer i modulo their number:
 *
 *     client's memory   |  0  |  1  |  2  |  3  |  4  |  5  |  6 |
 *                                 in work     in flight
 *     buffers                       [ 2 ]  [ 3 ][ 4 ][ 5 ]
 *
 * A transfer ends early when the caller waits no longer, or when its time is
 * over. Then the local memory is withdrawn, since this ends a transfer in a
 * limited time even if the peer does not read from the network. A pipeline
 * whose buffers were withdrawn allocates them again.
 *
 * The waiting thread makes progress and runs callbacks, but no handlers. No
 * other module includes this one.
 *
 * Locking: none; a flag that is waited for is atomic, and so is the flag that
 * gives a pipeline to one thread.
 */
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "bulk/transfer.h"
#include "hg/check.h"
#include "hg/layer.h"
#include "hg/wait.h"
#include "na/addr.h"

/* The longest time between two checks: timers of the context, and the
 * cancellation of a transfer whose call was canceled, are delayed by that
 * much. */
#define HG_BLOCKING_SLICE_MS 5

/* The arguments of one function, and its limits. */
struct hg_blocking {
    const char *function;
    struct hg_handle *call;
    struct hg_transfer_args args; /* of all bytes */
    unsigned timeout;             /* ms; 0: none */
    uint64_t deadline;
    hg_bulk_piece_cb_t work; /* of a pipeline */
    void *arg;
};

/* A transfer that a thread waits for. */
struct hg_blocking_transfer {
    struct hg_transfer transfer; /* first */
    struct hg_context *context;
    _Atomic bool ended;
};

/* ---- One transfer ---- */

/* Whether the caller has passed on the handle of another process, whose address
 * is in the handle. A bulk class of its own always uses the address in it. */
static bool hg_blocking_is_passed(
    const struct hg_handle *call, const struct hg_bulk *bulk)
{
    return bulk->remote && bulk->bound && bulk->addr != call->addr &&
        na_addr_class(call->addr) == bulk->layer->na_class;
}

/* Check the arguments of both directions, and begin. The local side is not
 * set. */
static hg_return_t hg_blocking_init(struct hg_blocking *b, hg_bulk_op_t op,
    const char *function, struct hg_handle *call, struct hg_bulk *bulk,
    size_t offset, size_t size)
{
    hg_return_t ret;

    memset(b, 0, sizeof(*b));
    if (call == NULL || (size > 0 && bulk == NULL))
        return hg_log_misuse("rpc", function, "an argument is NULL");
    ret = hg_check_side(call, true, function);
    if (ret == HG_SUCCESS && hg_context_is_driver())
        ret = hg_wait_refuse();
    if (ret != HG_SUCCESS || size == 0)
        return ret;
    b->function = function;
    b->call = call;
    b->args.op = op;
    b->args.addr = call->addr;
    if (hg_blocking_is_passed(call, bulk)) {
        if (!call->context->hg_class->options.passed_memory) {
            hg_log_keep_text("%s: the memory is not of the caller %s, and the "
                             "option passed_memory is not set",
                function, hg_handle_peer(call));
            return HG_CANCELED;
        }
        b->args.addr = NULL;
    }
    b->args.origin = bulk;
    b->args.origin_offset = offset;
    b->args.size = size;
    return HG_SUCCESS;
}

static void hg_blocking_limit(struct hg_blocking *b, unsigned timeout)
{
    b->timeout = timeout;
    b->deadline = timeout != 0 ? hg_clock_after_ms(timeout) : HG_CLOCK_NEVER;
}

/* Why to end before all is moved: HG_TIMEOUT, HG_CANCELED or HG_DISCONNECT.
 * HG_SUCCESS: no reason. */
static hg_return_t hg_blocking_why_end(const struct hg_blocking *b)
{
    if (hg_handle_is_over(b->call))
        return na_addr_is_dead(b->call->addr) ? HG_DISCONNECT : HG_CANCELED;
    return hg_clock_is_past(b->deadline) ? HG_TIMEOUT : HG_SUCCESS;
}

/* Name the side whose memory ended a transfer with HG_FAULT. Local memory is
 * one segment; its contents are undefined after a pull. */
static const char *hg_blocking_whose(const struct hg_blocking *b)
{
    const struct na_segment *local = b->args.local->segments;
    bool good = b->args.op == HG_BULK_PULL
        ? hg_fault_can_write(local->address, (size_t) local->size)
        : hg_fault_can_read(local->address, (size_t) local->size);

    return good ? ": memory of the peer" : ": memory of this process";
}

/* Keep why a transfer failed, if `ret` is an error. Returns the result for the
 * application. */
static hg_return_t hg_blocking_explain(
    const struct hg_blocking *b, hg_return_t ret)
{
    if (ret == HG_TIMEOUT)
        HG_LOG_EXPLAIN(HG_LOG_LEVEL_WARNING, "bulk",
            "%s of %" PRIu64 " bytes of %s for \"%s\" did not end in %u ms: "
            "canceled",
            b->function, b->args.size, hg_handle_peer(b->call),
            hg_handle_function(b->call), b->timeout);
    else if (ret != HG_SUCCESS)
        hg_log_keep_text("%s with %s: %s%s", b->function,
            hg_handle_peer(b->call), HG_Error_to_string(ret),
            ret == HG_FAULT && b->args.local != NULL ? hg_blocking_whose(b)
                                                     : "");
    /* The owner withdrew its memory: it does not wait any more. */
    return ret == HG_NOENTRY ? HG_CANCELED : ret;
}

/* Callback of the transfer. */
static void hg_blocking_moved(struct hg_transfer *transfer)
{
    struct hg_blocking_transfer *moved =
        (struct hg_blocking_transfer *) transfer;

    hg_enter(transfer->home->layer->lock);
    hg_transfer_fini(transfer);
    hg_leave(transfer->home->layer->lock);
    hg_enter(moved->context->lock);
    hg_wait_raise(moved->context, &moved->ended);
    hg_leave(moved->context->lock);
}

/* Start a transfer with arguments that were checked. */
static hg_return_t hg_blocking_start(const struct hg_blocking *b,
    const struct hg_transfer_args *args, struct hg_blocking_transfer *moved)
{
    struct hg_transfer_list *home = &b->call->context->transfers;
    bool ended = false;
    hg_return_t ret;

    memset(moved, 0, sizeof(*moved));
    moved->context = b->call->context;
    hg_enter(home->layer->lock);
    ret = hg_transfer_start(
        &moved->transfer, home, args, hg_blocking_moved, &ended);
    if (ended) {
        hg_transfer_fini(&moved->transfer);
        atomic_store(&moved->ended, true);
    }
    hg_leave(home->layer->lock);
    return hg_blocking_explain(b, ret);
}

/* Wait for the end of a transfer, whose local memory is withdrawn if there is a
 * reason to end early. Returns its result, or the reason. */
static hg_return_t hg_blocking_await(
    const struct hg_blocking *b, const struct hg_blocking_transfer *moved)
{
    hg_return_t why = HG_SUCCESS;
    hg_return_t ret;

    while (!atomic_load(&moved->ended)) {
        if (why == HG_SUCCESS) {
            why = hg_blocking_why_end(b);
            if (why != HG_SUCCESS)
                hg_bulk_withdraw(b->args.local);
        }
        hg_wait_uninterrupted(moved->context, &moved->ended, NA_LANES_DONE,
            hg_clock_after_ms(HG_BLOCKING_SLICE_MS));
    }
    ret = moved->transfer.ret;
    return ret == HG_CANCELED && why != HG_SUCCESS ? why : ret;
}

/* Move `size` bytes between `buf` and the memory `bulk`, within `timeout` ms;
 * NULL: within the option bulk_ms. */
static hg_return_t hg_blocking_move(hg_bulk_op_t op, hg_handle_t call,
    hg_bulk_t bulk, size_t offset, const void *buf, size_t size,
    const unsigned *timeout)
{
    bool pull = op == HG_BULK_PULL;
    const char *function = pull ? "HG_Bulk_pull" : "HG_Bulk_push";
    void *memory = (void *) (uintptr_t) buf; /* the flags make it read-only */
    struct hg_blocking_transfer moved;
    struct hg_blocking b;
    hg_return_t ret;

    if (size > 0 && buf == NULL)
        return hg_log_misuse("rpc", function, "an argument is NULL");
    ret = hg_blocking_init(&b, op, function, call, bulk, offset, size);
    if (ret != HG_SUCCESS || size == 0)
        return ret;
    ret = hg_bulk_create(call->context->hg_class->layer, 1, &memory, &size,
        pull ? HG_BULK_WRITE_ONLY : HG_BULK_READ_ONLY, &b.args.local);
    if (ret != HG_SUCCESS)
        return hg_blocking_explain(&b, ret);
    hg_blocking_limit(&b,
        timeout != NULL ? *timeout : call->context->hg_class->options.bulk_ms);
    ret = hg_transfer_check(&call->context->transfers, &b.args, function);
    if (ret == HG_SUCCESS)
        ret = hg_blocking_start(&b, &b.args, &moved);
    if (ret == HG_SUCCESS)
        ret = hg_blocking_explain(&b, hg_blocking_await(&b, &moved));
    (void) hg_bulk_take_back(b.args.local);
    return ret;
}

hg_return_t HG_Bulk_pull(
    hg_handle_t call, hg_bulk_t bulk, size_t offset, void *buf, size_t size)
{
    return hg_blocking_move(HG_BULK_PULL, call, bulk, offset, buf, size, NULL);
}

hg_return_t HG_Bulk_push(hg_handle_t call, hg_bulk_t bulk, size_t offset,
    const void *buf, size_t size)
{
    return hg_blocking_move(HG_BULK_PUSH, call, bulk, offset, buf, size, NULL);
}

hg_return_t HG_Bulk_pull_timed(hg_handle_t call, hg_bulk_t bulk, size_t offset,
    void *buf, size_t size, unsigned int timeout)
{
    return hg_blocking_move(
        HG_BULK_PULL, call, bulk, offset, buf, size, &timeout);
}

hg_return_t HG_Bulk_push_timed(hg_handle_t call, hg_bulk_t bulk, size_t offset,
    const void *buf, size_t size, unsigned int timeout)
{
    return hg_blocking_move(
        HG_BULK_PUSH, call, bulk, offset, buf, size, &timeout);
}

/* ---- Pipelines ---- */

struct hg_bulk_pipeline {
    struct hg_bulk_layer *layer; /* only compared: it may have ended */
    struct hg_bulk *local; /* all buffers; NULL: they could not be allocated */
    size_t buffer_size;
    size_t count;
    _Atomic bool busy; /* a thread uses the members below */
    size_t first;      /* the oldest piece in flight */
    size_t in_flight;
    struct hg_blocking_transfer pieces[];
};

/* Allocate the buffers, unless they can be used. */
static hg_return_t hg_pipeline_allocate(
    struct hg_bulk_pipeline *pipeline, struct hg_bulk_layer *layer)
{
    size_t size = pipeline->count * pipeline->buffer_size;

    if (pipeline->local != NULL && !pipeline->local->withdrawn)
        return HG_SUCCESS;
    if (pipeline->local != NULL)
        (void) hg_bulk_take_back(pipeline->local);
    pipeline->local = NULL;
    return hg_bulk_create(
        layer, 1, NULL, &size, HG_BULK_READWRITE, &pipeline->local);
}

/* The index of the buffer for the next piece. */
static size_t hg_pipeline_next(const struct hg_bulk_pipeline *pipeline)
{
    return (pipeline->first + pipeline->in_flight) % pipeline->count;
}

/* The size of the piece at `offset`. */
static size_t hg_pipeline_piece(const struct hg_bulk_pipeline *pipeline,
    const struct hg_blocking *b, size_t offset)
{
    size_t rest = (size_t) b->args.size - offset;

    return rest < pipeline->buffer_size ? rest : pipeline->buffer_size;
}

/* Start the transfer of a piece through the next buffer. */
static hg_return_t hg_pipeline_start(struct hg_bulk_pipeline *pipeline,
    const struct hg_blocking *b, size_t offset, size_t size)
{
    size_t index = hg_pipeline_next(pipeline);
    struct hg_transfer_args args = b->args;
    hg_return_t ret;

    HG_ASSERT(pipeline->in_flight < pipeline->count);
    args.origin_offset += offset;
    args.local_offset = index * pipeline->buffer_size;
    args.size = size;
    ret = hg_blocking_start(b, &args, &pipeline->pieces[index]);
    pipeline->in_flight += ret == HG_SUCCESS;
    return ret;
}

/* Wait for the oldest piece in flight. */
static hg_return_t hg_pipeline_await(
    struct hg_bulk_pipeline *pipeline, const struct hg_blocking *b)
{
    hg_return_t ret = hg_blocking_await(b, &pipeline->pieces[pipeline->first]);

    HG_ASSERT(pipeline->in_flight > 0);
    pipeline->first = (pipeline->first + 1) % pipeline->count;
    pipeline->in_flight--;
    return ret;
}

/* Make progress once. Otherwise a thread whose pieces are moved at once would
 * never learn that the call was canceled. */
static void hg_pipeline_progress(struct hg_context *context)
{
    hg_enter(context->lock);
    (void) hg_wait_until(context, NULL, NA_LANES_DONE, 0);
    hg_leave(context->lock);
}

/* Let the application work on the piece in a buffer. It may reduce *size_p. */
static hg_return_t hg_pipeline_work(const struct hg_bulk_pipeline *pipeline,
    const struct hg_blocking *b, size_t index, size_t offset, size_t *size_p)
{
    char *buffers = (char *) b->args.local->segments[0].address;
    size_t size = *size_p;
    hg_return_t ret;

    if (offset > 0)
        hg_pipeline_progress(b->call->context);
    ret = hg_blocking_explain(b, hg_blocking_why_end(b));
    if (ret == HG_SUCCESS)
        ret = b->work(
            b->arg, buffers + index * pipeline->buffer_size, size_p, offset);
    if (ret == HG_SUCCESS && *size_p > size)
        ret = hg_log_misuse(
            "bulk", b->function, "the callback enlarged the size of a piece");
    return ret;
}

static hg_return_t hg_pipeline_pull(
    struct hg_bulk_pipeline *pipeline, const struct hg_blocking *b)
{
    size_t total = (size_t) b->args.size;
    size_t started = 0;
    size_t done = 0;
    hg_return_t ret = HG_SUCCESS;

    while (done < total) {
        size_t index = pipeline->first;
        size_t size = hg_pipeline_piece(pipeline, b, done);
        size_t used = size;

        while (ret == HG_SUCCESS && started < total &&
            pipeline->in_flight < pipeline->count) {
            size_t next = hg_pipeline_piece(pipeline, b, started);

            ret = hg_pipeline_start(pipeline, b, started, next);
            started += next;
        }
        if (ret == HG_SUCCESS)
            ret = hg_blocking_explain(b, hg_pipeline_await(pipeline, b));
        if (ret == HG_SUCCESS)
            ret = hg_pipeline_work(pipeline, b, index, done, &used);
        if (ret != HG_SUCCESS || used < size)
            break;
        done += size;
    }
    return ret;
}

static hg_return_t hg_pipeline_push(
    struct hg_bulk_pipeline *pipeline, const struct hg_blocking *b)
{
    size_t total = (size_t) b->args.size;
    size_t done = 0;
    hg_return_t ret = HG_SUCCESS;

    while (ret == HG_SUCCESS && done < total) {
        size_t size = hg_pipeline_piece(pipeline, b, done);
        size_t used = size;

        if (pipeline->in_flight == pipeline->count)
            ret = hg_blocking_explain(b, hg_pipeline_await(pipeline, b));
        if (ret == HG_SUCCESS)
            ret = hg_pipeline_work(
                pipeline, b, hg_pipeline_next(pipeline), done, &used);
        if (ret == HG_SUCCESS)
            ret = hg_pipeline_start(pipeline, b, done, used);
        done = used == size ? done + size : total;
    }
    while (ret == HG_SUCCESS && pipeline->in_flight > 0)
        ret = hg_blocking_explain(b, hg_pipeline_await(pipeline, b));
    return ret;
}

/* Move the data through a pipeline that this thread uses alone. */
static hg_return_t hg_pipeline_run(
    struct hg_bulk_pipeline *pipeline, struct hg_blocking *b)
{
    struct hg_bulk_layer *layer = b->call->context->transfers.layer;
    struct hg_transfer_args args;
    hg_return_t ret;

    if (pipeline->layer != layer)
        return hg_log_misuse("bulk", b->function,
            "the pipeline is of another class than the call");
    ret = hg_pipeline_allocate(pipeline, layer);
    if (ret != HG_SUCCESS)
        return hg_blocking_explain(b, ret);
    b->args.local = pipeline->local;
    args = b->args;
    /* The origin must allow all bytes, the buffers those of one piece. */
    if (hg_bulk_allows(args.origin, args.origin_offset, args.size, 0) ==
        HG_SUCCESS)
        args.size = hg_pipeline_piece(pipeline, b, 0);
    ret = hg_transfer_check(&b->call->context->transfers, &args, b->function);
    if (ret != HG_SUCCESS)
        return ret;
    ret = args.op == HG_BULK_PULL ? hg_pipeline_pull(pipeline, b)
                                  : hg_pipeline_push(pipeline, b);
    if (pipeline->in_flight > 0)
        hg_bulk_withdraw(pipeline->local);
    while (pipeline->in_flight > 0)
        (void) hg_pipeline_await(pipeline, b);
    (void) hg_pipeline_allocate(pipeline, layer); /* or at the next use */
    return ret;
}

hg_return_t HG_Bulk_pipeline_create(hg_class_t *hg_class, size_t count,
    size_t buffer_size, hg_bulk_pipeline_t *pipeline)
{
    struct hg_bulk_pipeline *made;
    hg_return_t ret;

    if (pipeline == NULL || count == 0 || buffer_size == 0)
        return hg_log_misuse("bulk", "HG_Bulk_pipeline_create",
            "pipeline is NULL, or an argument is 0");
    if (count > SIZE_MAX / buffer_size ||
        count > (SIZE_MAX - sizeof(*made)) / sizeof(made->pieces[0]))
        return hg_log_misuse(
            "bulk", "HG_Bulk_pipeline_create", "the sizes overflow");
    ret = hg_layer_find_class(&hg_class, "HG_Bulk_pipeline_create");
    if (ret != HG_SUCCESS)
        return ret;
    made = (struct hg_bulk_pipeline *) hg_mem_calloc(
        1, sizeof(*made) + count * sizeof(made->pieces[0]));
    if (made == NULL) {
        hg_log_error("bulk", "no memory for a pipeline");
        return HG_NOMEM;
    }
    made->layer = hg_class->layer;
    made->buffer_size = buffer_size;
    made->count = count;
    ret = hg_pipeline_allocate(made, made->layer);
    if (ret == HG_SUCCESS)
        *pipeline = made;
    else
        hg_mem_free(made);
    return ret;
}

hg_return_t HG_Bulk_pipeline_free(hg_bulk_pipeline_t pipeline)
{
    hg_return_t ret = HG_SUCCESS;

    if (pipeline == NULL)
        return hg_log_misuse(
            "bulk", "HG_Bulk_pipeline_free", "pipeline is NULL");
    if (pipeline->busy) {
        hg_log_error(
            "bulk", "HG_Bulk_pipeline_free: a transfer uses the pipeline");
        return HG_BUSY;
    }
    if (pipeline->local != NULL)
        ret = HG_Bulk_free(pipeline->local);
    if (ret == HG_SUCCESS)
        hg_mem_free(pipeline);
    return ret;
}

static hg_return_t hg_pipeline_move(hg_bulk_op_t op,
    hg_bulk_pipeline_t pipeline, hg_handle_t call, hg_bulk_t bulk,
    size_t offset, size_t size, hg_bulk_piece_cb_t work, void *arg,
    unsigned timeout)
{
    const char *function =
        op == HG_BULK_PULL ? "HG_Bulk_pipeline_pull" : "HG_Bulk_pipeline_push";
    struct hg_blocking b;
    hg_return_t ret;

    if (pipeline == NULL || work == NULL)
        return hg_log_misuse("bulk", function, "an argument is NULL");
    ret = hg_blocking_init(&b, op, function, call, bulk, offset, size);
    if (ret != HG_SUCCESS || size == 0)
        return ret;
    if (atomic_exchange(&pipeline->busy, true)) {
        HG_LOG_EXPLAIN(HG_LOG_LEVEL_ERROR, "bulk",
            "%s: another transfer uses the pipeline", function);
        return HG_BUSY;
    }
    b.work = work;
    b.arg = arg;
    hg_blocking_limit(&b, timeout);
    ret = hg_pipeline_run(pipeline, &b);
    atomic_store(&pipeline->busy, false);
    return ret;
}

hg_return_t HG_Bulk_pipeline_pull(hg_bulk_pipeline_t pipeline, hg_handle_t call,
    hg_bulk_t bulk, size_t offset, size_t size, hg_bulk_piece_cb_t work,
    void *arg, unsigned int timeout)
{
    return hg_pipeline_move(
        HG_BULK_PULL, pipeline, call, bulk, offset, size, work, arg, timeout);
}

hg_return_t HG_Bulk_pipeline_push(hg_bulk_pipeline_t pipeline, hg_handle_t call,
    hg_bulk_t bulk, size_t offset, size_t size, hg_bulk_piece_cb_t work,
    void *arg, unsigned int timeout)
{
    return hg_pipeline_move(
        HG_BULK_PUSH, pipeline, call, bulk, offset, size, work, arg, timeout);
}
