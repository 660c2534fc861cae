/* SPDX-License-Identifier: BSD-3-Clause */
/* overflow: see overflow.h. */
#include "hg/overflow.h"

#include "base/clock.h"
#include "base/crc64.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/wire.h"
#include "na/context.h"
#include "emul/emul.h"
#include "na/rma.h"

#define HG_OVERFLOW_FIXED 20

/* Arguments are fetched in pieces of this size. Each piece must arrive within
 * output_hold_ms. */
#define HG_OVERFLOW_PIECE ((size_t) 16 << 20)

/* ---- Limits ---- */

static enum hg_limit_kind hg_overflow_kind(
    const struct hg_handle *handle, const struct hg_overflow *large)
{
    return large == &handle->in_large ? HG_LIMIT_FETCHED : HG_LIMIT_HELD;
}

/* Count `size` bytes of input or output for a target's peer. HG_AGAIN
 * (logged). */
static hg_return_t hg_overflow_take_quota(
    struct hg_handle *handle, struct hg_overflow *large, size_t size)
{
    struct hg_context *context = handle->context;
    enum hg_limit_kind kind = hg_overflow_kind(handle, large);
    uint64_t lingering = 0;
    bool fits;

    if (!handle->target)
        return HG_SUCCESS;
    /* Released outputs that are still being sent count, too. */
    if (kind == HG_LIMIT_HELD)
        lingering = na_emul_lingering(handle->addr);
    hg_enter(context->lock);
    fits = hg_limit_fits(
        context->hg_class->limits, handle->addr, kind, size + lingering);
    if (fits) {
        hg_limit_add(context->hg_class->limits, handle->addr, kind, size);
        large->counted = size;
    }
    hg_leave(context->lock);
    if (fits)
        return HG_SUCCESS;
    hg_handle_count(context, HG_COUNT_TURNED_AWAY);
    hg_log_warning("rpc",
        "the limit leaves no space for an %s of %zu bytes of \"%s\" with %s",
        kind == HG_LIMIT_HELD ? "output" : "input", size,
        hg_handle_function(handle), hg_handle_peer(handle));
    return HG_AGAIN;
}

static void hg_overflow_give_quota(
    struct hg_handle *handle, struct hg_overflow *large)
{
    struct hg_context *context = handle->context;

    if (large->counted == 0)
        return;
    hg_enter(context->lock);
    hg_limit_give(context->hg_class->limits, handle->addr,
        hg_overflow_kind(handle, large), large->counted);
    large->counted = 0;
    hg_leave(context->lock);
}

/* ---- Offering ---- */

HG_PRIVATE hg_return_t hg_overflow_offer(struct hg_handle *handle,
    struct hg_overflow *large, struct hg_buf *buf, const struct hg_args *args,
    struct hg_handle_message *message)
{
    struct na_class *na_class = na_addr_class(handle->addr);
    struct hg_header *header = message->header;
    size_t args_end = HG_HEADER_MIN + args->size;
    bool checksum = hg_handle_is_exposed(handle) &&
        !handle->context->hg_class->options.no_checksum;
    struct hg_wire wire;
    size_t mem_size;
    size_t total;
    hg_return_t ret;

    /* Reserve space first: exposed memory must not move. The size of the memory
     * handle does not depend on the address. */
    total = args_end + HG_HEADER_MIN + HG_OVERFLOW_FIXED + NA_MAX_ADDR_LEN;
    handle->large = true;
    ret = hg_buf_reserve(buf, total, total);
    if (ret == HG_SUCCESS)
        ret = hg_overflow_take_quota(handle, large, args->size);
    if (ret != HG_SUCCESS)
        return ret;
    /* Registered only for the transport of this peer: no other peer fetches
     * it. */
    ret = na_rma_create(handle->addr->na_class, buf->data + HG_HEADER_MIN,
        args->size, NA_MEM_READ_ONLY, &large->mem);
    if (ret != HG_SUCCESS)
        goto end_large;
    ret = NA_Mem_register(na_class, large->mem);
    if (ret != HG_SUCCESS)
        goto end_large;
    mem_size = (size_t) NA_Mem_handle_get_serialize_size(na_class, large->mem);
    if (mem_size > NA_MAX_ADDR_LEN) {
        hg_log_error(
            "rpc", "a memory handle of %zu bytes is too large", mem_size);
        ret = HG_MSGSIZE;
        goto end_large;
    }
    header->flags |= HG_HEADER_LARGE;
    header->payload_size = HG_OVERFLOW_FIXED + mem_size;
    wire = hg_wire_writer(
        buf->data + args_end + HG_HEADER_MIN, header->payload_size);
    hg_wire_put64(&wire, args->size);
    hg_wire_put64(&wire,
        checksum ? hg_crc64_update(0, buf->data + HG_HEADER_MIN, args->size)
                 : 0);
    hg_wire_put32(&wire, (uint32_t) mem_size);
    ret = NA_Mem_handle_serialize(
        na_class, hg_wire_take(&wire, mem_size), mem_size, large->mem);
    if (ret != HG_SUCCESS)
        goto end_large;
    message->data = buf->data + args_end;
    message->size = HG_HEADER_MIN + header->payload_size;
    return HG_SUCCESS;

end_large:
    hg_overflow_end(handle, large);
    return ret;
}

static void hg_overflow_free_mem(struct na_mem_handle **mem_p)
{
    if (*mem_p != NULL)
        (void) NA_Mem_handle_free(na_class_head((*mem_p)->na_class), *mem_p);
    *mem_p = NULL;
}

HG_PRIVATE void hg_overflow_end_large(
    struct hg_handle *handle, struct hg_overflow *large)
{
    if (large->mem != NULL) {
        /* The exposed memory is the handle's own buffer. */
        struct hg_buf *buf =
            large == &handle->out_large ? &handle->out : &handle->in;

        if (na_emul_withdraw(large->mem, buf->data, handle->addr))
            memset(buf, 0, sizeof(*buf));
    }
    hg_overflow_free_mem(&large->remote);
    hg_mem_free(large->data);
    hg_overflow_give_quota(handle, large);
    memset(large, 0, sizeof(*large));
}

/* ---- Holding an output ---- */

/* Take the reference that holds an output, unless another thread did. The lock
 * is held. */
static bool hg_overflow_take_held(struct hg_handle *handle)
{
    if (!handle->held)
        return false;
    handle->held = false;
    hg_deadline_remove(&handle->context->deadline, &handle->timer);
    return true;
}

static void hg_overflow_release_held(struct hg_handle *handle)
{
    hg_overflow_end(handle, &handle->out_large);
    hg_handle_unref(handle);
}

static void hg_overflow_run_release(struct na_completion *done)
{
    struct hg_handle *handle = hg_handle_of(done);
    struct hg_monitor *lock = handle->context->lock;

    hg_leave(lock);
    hg_overflow_release_held(handle);
    hg_enter(lock);
}

HG_PRIVATE void hg_overflow_release(struct hg_handle *handle)
{
    if (hg_overflow_take_held(handle))
        hg_handle_push(handle, NA_LANE_INTERNAL, hg_overflow_run_release);
}

HG_PRIVATE void hg_overflow_release_all(struct hg_context *context)
{
    struct na_link *link;

    hg_enter(context->lock);
    for (link = context->targets.next; link != &context->targets;
         link = link->next)
        hg_overflow_release(HG_CONTAINER_OF(link, struct hg_handle, link));
    hg_leave(context->lock);
}

HG_PRIVATE void hg_overflow_take_back(struct hg_handle *handle)
{
    bool taken;

    hg_enter(handle->context->lock);
    taken = hg_overflow_take_held(handle);
    hg_leave(handle->context->lock);
    if (taken)
        hg_overflow_release_held(handle);
}

static void hg_overflow_unsent(
    struct hg_handle *handle, uint64_t sequence, hg_return_t ret)
{
    (void) sequence;
    (void) ret;
    hg_overflow_release(handle);
}

HG_PRIVATE hg_return_t hg_overflow_hold(
    struct hg_handle *handle, struct hg_handle_message *message)
{
    struct hg_context *context = handle->context;
    uint64_t until;
    hg_return_t ret = hg_overflow_offer(
        handle, &handle->out_large, &handle->out, &handle->out_args, message);

    if (ret != HG_SUCCESS)
        return ret;
    handle->unsent = hg_overflow_unsent;
    until = hg_clock_after_ms(context->hg_class->options.output_hold_ms);
    hg_enter(context->lock);
    ret = atomic_load(&handle->unwanted) ? HG_CANCELED
                                         : hg_handle_set_timer(handle, until);
    handle->held = ret == HG_SUCCESS;
    if (handle->held)
        hg_handle_ref(handle);
    hg_leave(context->lock);
    if (ret != HG_SUCCESS)
        hg_overflow_end(handle, &handle->out_large);
    return ret;
}

/* ---- Fetching ---- */

/* A fetch ended or could not start; a failed fetch leaves nothing. The lock is
 * not held. */
static void hg_overflow_finish(
    struct hg_handle *handle, struct hg_overflow *large, hg_return_t ret)
{
    void (*fetched)(struct hg_handle *, hg_return_t) = large->fetched;

    HG_ASSERT(large->op_id == NA_OP_ID_NULL);
    hg_overflow_free_mem(&large->mem); /* described the local buffer */
    hg_overflow_free_mem(&large->remote);
    if (ret != HG_SUCCESS)
        hg_overflow_end(handle, large);
    fetched(handle, ret);
    hg_handle_unref(handle);
}

static size_t hg_overflow_piece(const struct hg_overflow *large)
{
    size_t left = large->size - large->got;

    return left < HG_OVERFLOW_PIECE ? left : HG_OVERFLOW_PIECE;
}

static na_return_t hg_overflow_got(const struct na_cb_info *info);

/* Fetch the next piece; at a target, start its timer. The lock is held. */
static hg_return_t hg_overflow_next(
    struct hg_handle *handle, struct hg_overflow *large)
{
    struct hg_context *context = handle->context;
    hg_return_t ret = HG_SUCCESS;

    HG_ASSERT(large->op_id == NA_OP_ID_NULL);
    if (handle->canceled || context->closing)
        return HG_CANCELED;
    if (handle->target)
        ret = hg_handle_set_timer(handle,
            hg_clock_after_ms(context->hg_class->options.output_hold_ms));
    if (ret == HG_SUCCESS)
        ret = na_rma_start(context->na_context, NA_CB_GET, NA_LANE_INTERNAL,
            hg_overflow_got, handle, large->mem, large->got, large->remote,
            large->got, hg_overflow_piece(large), handle->addr, &large->op_id);
    if (ret != HG_SUCCESS && handle->target)
        hg_deadline_remove(&context->deadline, &handle->timer);
    return ret;
}

/* All pieces have arrived: check the CRC64. HG_CHECKSUM_ERROR (logged). */
static hg_return_t hg_overflow_check_crc(
    struct hg_handle *handle, const struct hg_overflow *large)
{
    if (large->crc == large->got_crc)
        return HG_SUCCESS;
    hg_handle_count(handle->context, HG_COUNT_REFUSED);
    hg_log_warning("rpc",
        "%zu bytes of arguments of \"%s\" from %s were damaged in transit: "
        "CRC64 %016" PRIx64 " instead of %016" PRIx64,
        large->size, hg_handle_function(handle), hg_handle_peer(handle),
        large->got_crc, large->crc);
    return HG_CHECKSUM_ERROR;
}

/* The fetch of a piece ended. */
static na_return_t hg_overflow_got(const struct na_cb_info *info)
{
    struct hg_handle *handle = (struct hg_handle *) info->arg;
    struct hg_overflow *large =
        handle->target ? &handle->in_large : &handle->out_large;
    struct hg_monitor *lock = handle->context->lock;
    hg_return_t ret = info->ret;

    large->op_id = NA_OP_ID_NULL;
    if (handle->target)
        hg_deadline_remove(&handle->context->deadline, &handle->timer);
    if (ret == HG_SUCCESS) {
        size_t size = hg_overflow_piece(large);

        hg_leave(lock);
        if (large->crc != 0)
            large->got_crc =
                hg_crc64_update(large->got_crc, large->data + large->got, size);
        hg_enter(lock);
        large->got += size;
        if (large->got == large->size)
            ret = hg_overflow_check_crc(handle, large);
        else if ((ret = hg_overflow_next(handle, large)) == HG_SUCCESS)
            return NA_SUCCESS;
    }
    hg_leave(lock);
    hg_overflow_finish(handle, large, ret);
    hg_enter(lock);
    return NA_SUCCESS;
}

/* Decode a description and allocate memory. */
static hg_return_t hg_overflow_prepare(struct hg_handle *handle,
    struct hg_overflow *large, const unsigned char *payload, size_t size)
{
    struct na_class *na_class = handle->context->hg_class->na_class;
    struct hg_wire wire = hg_wire_reader(payload, size);
    uint64_t args_size = hg_wire_get64(&wire);
    uint32_t mem_size;
    hg_return_t ret;

    handle->large = true;
    large->crc = hg_wire_get64(&wire);
    mem_size = hg_wire_get32(&wire);
    /* The missing part of a short description reads as 0. */
    if (args_size == 0 || mem_size == 0 || mem_size != hg_wire_left(&wire)) {
        hg_handle_count(handle->context, HG_COUNT_REFUSED);
        hg_log_warning("rpc",
            "a malformed description of large arguments of \"%s\" from %s",
            hg_handle_function(handle), hg_handle_peer(handle));
        return HG_PROTOCOL_ERROR;
    }
    if (args_size > handle->context->hg_class->options.max_args_size) {
        hg_handle_count(handle->context, HG_COUNT_REFUSED);
        hg_log_warning("rpc",
            "arguments of %" PRIu64
            " bytes of \"%s\" from %s exceed the limit of %zu",
            args_size, hg_handle_function(handle), hg_handle_peer(handle),
            handle->context->hg_class->options.max_args_size);
        return HG_MSGSIZE;
    }
    large->size = (size_t) args_size;
    ret = NA_Mem_handle_deserialize(
        na_class, &large->remote, hg_wire_get_bytes(&wire, mem_size), mem_size);
    if (ret == HG_SUCCESS)
        ret = hg_overflow_take_quota(handle, large, large->size);
    if (ret != HG_SUCCESS)
        return ret;
    large->data = (unsigned char *) hg_mem_alloc(large->size);
    if (large->data == NULL) {
        hg_log_error("rpc", "no memory for arguments of %zu bytes of \"%s\"",
            large->size, hg_handle_function(handle));
        return HG_NOMEM;
    }
    return NA_Mem_handle_create(
        na_class, large->data, large->size, NA_MEM_WRITE_ONLY, &large->mem);
}

HG_PRIVATE void hg_overflow_fetch(struct hg_handle *handle,
    struct hg_overflow *large, const unsigned char *payload, size_t size,
    void (*fetched)(struct hg_handle *handle, hg_return_t ret))
{
    struct hg_monitor *lock = handle->context->lock;
    hg_return_t ret;

    hg_handle_ref(handle); /* for the fetch */
    ret = hg_overflow_prepare(handle, large, payload, size);
    large->fetched = fetched;
    if (ret == HG_SUCCESS) {
        hg_enter(lock);
        ret = hg_overflow_next(handle, large);
        hg_leave(lock);
    }
    if (ret != HG_SUCCESS)
        hg_overflow_finish(handle, large, ret);
}

HG_PRIVATE void hg_overflow_cancel(
    struct hg_handle *handle, struct hg_overflow *large)
{
    struct hg_context *context = handle->context;

    HG_ASSERT(hg_is_inside(context->lock));
    if (large->op_id != NA_OP_ID_NULL)
        (void) na_context_cancel(context->na_context, large->op_id);
}

HG_PRIVATE void hg_overflow_expired(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    bool held = handle->held;
    bool late;

    HG_ASSERT(hg_is_inside(context->lock));
    hg_overflow_release(handle);
    /* If the timer runs again, it belongs to the next piece. */
    late = handle->in_large.op_id != NA_OP_ID_NULL && handle->timer.index == 0;
    if (late) {
        handle->canceled = true;
        (void) na_context_cancel(context->na_context, handle->in_large.op_id);
    }
    if (held || late)
        hg_log_warning("rpc", "the %s of \"%s\" was not %s %s in time",
            held ? "output" : "input", hg_handle_function(handle),
            held ? "fetched by" : "received from", hg_handle_peer(handle));
}
