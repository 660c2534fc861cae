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

#define HG_OVERFLOW_FIXED 28

/* Pieces grow from the first size to the largest: as much again as has come.
 * The largest has to come in output_hold_ms. Once a quarter of what a target
 * has is taken they begin small, so that as many announcements as there may be
 * calls leave room for whoever sends something. */
#define HG_OVERFLOW_PIECE_SMALL ((size_t) 64 << 10)
#define HG_OVERFLOW_PIECE_FIRST ((size_t) 1 << 20)
#define HG_OVERFLOW_PIECE_MAX ((size_t) 16 << 20)

/* How soon to look again at a piece that cannot be canceled yet. */
#define HG_OVERFLOW_AGAIN_MS 10

/* ---- Shares ---- */

/* Count `size` bytes more for a target's peer, of its input or its output. */
static hg_return_t hg_overflow_take_share(
    struct hg_handle *handle, struct hg_overflow *large, size_t size)
{
    struct hg_context *context = handle->context;
    bool fetched = large == &handle->in_large;
    struct hg_limit *limits = context->hg_class->limits;
    enum hg_limit_kind kind = fetched ? HG_LIMIT_FETCHED : HG_LIMIT_HELD;
    uint64_t lingering;
    bool taken;

    if (!handle->target)
        return HG_SUCCESS;
    /* Held no more, but on its way still: as if it were held. */
    lingering = fetched ? 0 : na_emul_lingering(handle->addr);
    hg_enter(context->lock);
    taken = hg_limit_fits(limits, handle->addr, kind, size + lingering);
    if (taken) {
        hg_limit_add(limits, handle->addr, kind, size);
        large->share += size;
    }
    hg_leave(context->lock);
    if (taken)
        return HG_SUCCESS;
    hg_handle_count(context, HG_COUNT_TURNED_AWAY);
    hg_log_warning("rpc",
        "no room for an %s of %zu bytes of \"%s\" with %s for now",
        fetched ? "input" : "output", fetched ? large->size : size,
        hg_handle_function(handle), hg_handle_peer(handle));
    return HG_AGAIN;
}

static void hg_overflow_give_share(
    struct hg_handle *handle, struct hg_overflow *large)
{
    struct hg_context *context = handle->context;
    bool fetched = large == &handle->in_large;

    if (large->share == 0)
        return;
    hg_enter(context->lock);
    hg_limit_give(context->hg_class->limits, handle->addr,
        fetched ? HG_LIMIT_FETCHED : HG_LIMIT_HELD, large->share);
    large->share = 0;
    hg_leave(context->lock);
}

/* ---- Offering ---- */

HG_PRIVATE hg_return_t hg_overflow_offer(struct hg_handle *handle,
    struct hg_overflow *large, struct hg_buf *buf, const struct hg_args *args,
    uint64_t held_id, struct hg_handle_message *message)
{
    struct na_class *na_class = na_addr_class(handle->addr);
    struct hg_header *header = message->header;
    size_t args_end = HG_HEADER_MIN + args->size;
    bool checksum = !handle->context->hg_class->options.no_checksum;
    struct hg_wire wire;
    size_t mem_size;
    size_t total;
    hg_return_t ret;

    /* Room first: what is exposed must not move afterwards. The memory
     * handle's size does not depend on the address. */
    total = args_end + HG_HEADER_MIN + HG_OVERFLOW_FIXED + NA_MAX_ADDR_LEN;
    handle->large = true;
    ret = hg_buf_reserve(buf, total, total);
    if (ret == HG_SUCCESS)
        ret = hg_overflow_take_share(handle, large, args->size);
    if (ret != HG_SUCCESS)
        return ret;
    /* Only for the transport of this peer: nobody else fetches it. */
    ret = na_rma_create(handle->addr->na_class, buf->data + HG_HEADER_MIN,
        args->size, NA_MEM_READ_ONLY, &large->mem);
    if (ret != HG_SUCCESS)
        goto end_large;
    ret = NA_Mem_register(na_class, large->mem);
    if (ret != HG_SUCCESS)
        goto end_large;
    mem_size = (size_t) NA_Mem_handle_get_serialize_size(na_class, large->mem);
    if (mem_size > NA_MAX_ADDR_LEN) {
        hg_log_error("rpc", "a memory handle of %zu bytes", mem_size);
        ret = HG_MSGSIZE;
        goto end_large;
    }
    header->flags |= HG_HEADER_LARGE;
    header->payload_size = HG_OVERFLOW_FIXED + mem_size;
    wire = hg_wire_writer(
        buf->data + args_end + HG_HEADER_MIN, header->payload_size);
    hg_wire_put64(&wire, held_id);
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

HG_PRIVATE uint64_t hg_overflow_held_id(
    const unsigned char *payload, size_t size)
{
    return size >= HG_OVERFLOW_FIXED ? hg_wire_load64(payload) : 0;
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
        /* What was offered lies where the handle encodes. */
        struct hg_buf *buf =
            large == &handle->out_large ? &handle->out : &handle->in;

        if (na_emul_withdraw(large->mem, buf->data, handle->addr))
            memset(buf, 0, sizeof(*buf));
    }
    hg_overflow_free_mem(&large->remote);
    hg_mem_free(large->data);
    hg_overflow_give_share(handle, large);
    memset(large, 0, sizeof(*large));
}

/* ---- Fetching ---- */

/* A fetch ended; of one that failed nothing is left. */
static void hg_overflow_finish(
    struct hg_handle *handle, struct hg_overflow *large, hg_return_t ret)
{
    assert(!large->under_way && large->mem == NULL);
    hg_overflow_free_mem(&large->remote);
    if (ret != HG_SUCCESS)
        hg_overflow_end(handle, large);
}

/* Room for `need` bytes of the arguments: as much again as there was, and that
 * much of the peer's share. */
static hg_return_t hg_overflow_grow(
    struct hg_handle *handle, struct hg_overflow *large, size_t need)
{
    size_t room = large->room > large->size / 2 ? large->size : 2 * large->room;
    unsigned char *data;
    hg_return_t ret;

    if (need <= large->room)
        return HG_SUCCESS;
    if (room < need)
        room = need;
    ret = hg_overflow_take_share(handle, large, room - large->room);
    if (ret != HG_SUCCESS)
        return ret;
    data = (unsigned char *) hg_mem_realloc(large->data, room);
    if (data == NULL) {
        hg_log_error("rpc", "no memory for arguments of %zu bytes, of %zu",
            room, large->size);
        return HG_NOMEM;
    }
    large->data = data;
    large->room = room;
    return HG_SUCCESS;
}

/* A piece begins, and at a target its time. */
static hg_return_t hg_overflow_begin_piece(
    struct hg_handle *handle, struct hg_overflow *large)
{
    struct hg_context *context = handle->context;
    hg_return_t ret = HG_SUCCESS;

    hg_enter(context->lock);
    assert(!large->under_way);
    assert(!handle->target || handle->timer.index == 0);
    if (handle->target)
        ret = hg_handle_set_timer(handle,
            hg_clock_after_ms(context->hg_class->options.output_hold_ms));
    large->under_way = ret == HG_SUCCESS;
    hg_leave(context->lock);
    return ret;
}

/* It ended, with `size` bytes more. Whether there is more to fetch. */
static bool hg_overflow_end_piece(
    struct hg_handle *handle, struct hg_overflow *large, size_t size)
{
    struct hg_context *context = handle->context;
    bool more;

    hg_enter(context->lock);
    if (large->under_way && handle->target)
        hg_deadline_remove(&context->deadline, &handle->timer);
    large->under_way = false;
    large->op_id = NA_OP_ID_NULL;
    large->got += size;
    more = large->got < large->size;
    if (context->closing)
        handle->canceled = true;
    hg_leave(context->lock);
    hg_overflow_free_mem(&large->mem); /* described the local half */
    return more;
}

/* How much to fetch next. */
static size_t hg_overflow_piece(
    struct hg_handle *handle, const struct hg_overflow *large)
{
    const struct hg_limit *limit =
        &handle->context->hg_class->limits[HG_LIMIT_FETCHED];
    size_t first = HG_OVERFLOW_PIECE_FIRST;
    size_t size = large->got;

    hg_enter(handle->context->lock);
    if (handle->target && limit->used > limit->max / 4)
        first = HG_OVERFLOW_PIECE_SMALL;
    hg_leave(handle->context->lock);
    if (size < first)
        size = first;
    if (size > HG_OVERFLOW_PIECE_MAX)
        size = HG_OVERFLOW_PIECE_MAX;
    return size < large->size - large->got ? size : large->size - large->got;
}

static bool hg_overflow_is_canceled(struct hg_handle *handle)
{
    bool canceled;

    hg_enter(handle->context->lock);
    canceled = handle->canceled;
    hg_leave(handle->context->lock);
    return canceled;
}

static na_return_t hg_overflow_got(const struct na_cb_info *info);

/* Fetch the next piece. */
static hg_return_t hg_overflow_next(
    struct hg_handle *handle, struct hg_overflow *large)
{
    struct hg_context *context = handle->context;
    size_t start = large->got;
    size_t size = hg_overflow_piece(handle, large);
    na_op_id_t op_id = NA_OP_ID_NULL;
    bool canceled = false; /* while it began */
    hg_return_t ret;

    ret = hg_overflow_grow(handle, large, start + size);
    if (ret != HG_SUCCESS)
        return ret;
    ret = NA_Mem_handle_create(context->hg_class->na_class, large->data + start,
        size, NA_MEM_WRITE_ONLY, &large->mem);
    if (ret == HG_SUCCESS)
        ret = hg_overflow_begin_piece(handle, large);
    if (ret != HG_SUCCESS)
        goto end_piece;
    hg_handle_ref(handle); /* it may end before this function does */
    ret = na_rma_start(context->na_context, NA_CB_GET, NA_LANE_INTERNAL,
        hg_overflow_got, handle, large->mem, 0, large->remote, start, size,
        handle->addr, &op_id);
    if (ret == HG_SUCCESS) {
        hg_enter(context->lock);
        if (large->under_way && large->got == start) { /* this piece is */
            large->op_id = op_id;
            canceled = handle->canceled;
        }
        hg_leave(context->lock);
    }
    if (canceled)
        (void) na_context_cancel(context->na_context, op_id);
    hg_handle_unref(handle);
    if (ret == HG_SUCCESS)
        return HG_SUCCESS;
end_piece:
    (void) hg_overflow_end_piece(handle, large, 0);
    return ret;
}

/* Everything has come. HG_CHECKSUM_ERROR (logged): not as it was described. */
static hg_return_t hg_overflow_judge(
    struct hg_handle *handle, const struct hg_overflow *large)
{
    if (large->crc == large->got_crc)
        return HG_SUCCESS;
    hg_handle_count(handle->context, HG_COUNT_REFUSED);
    hg_log_warning("rpc",
        "%zu bytes of arguments of \"%s\" from %s changed on the way: CRC64 "
        "%016" PRIx64 " instead of %016" PRIx64,
        large->size, hg_handle_function(handle), hg_handle_peer(handle),
        large->got_crc, large->crc);
    return HG_CHECKSUM_ERROR;
}

/* A piece came, or did not. */
static void hg_overflow_take_piece(
    const struct na_cb_info *info, struct hg_handle *handle)
{
    struct hg_overflow *large =
        handle->target ? &handle->in_large : &handle->out_large;
    void (*fetched)(struct hg_handle *, hg_return_t) = large->fetched;
    hg_return_t ret = info->ret;
    size_t size = ret == HG_SUCCESS ? (size_t) large->mem->size : 0;
    bool more = hg_overflow_end_piece(handle, large, size);

    if (large->crc != 0)
        large->got_crc = hg_crc64_update(
            large->got_crc, large->data + large->got - size, size);
    if (ret == HG_SUCCESS && more) {
        ret = hg_overflow_is_canceled(handle) ? HG_CANCELED
                                              : hg_overflow_next(handle, large);
        if (ret == HG_SUCCESS)
            return;
    } else if (ret == HG_SUCCESS) {
        ret = hg_overflow_judge(handle, large);
    }
    hg_overflow_finish(handle, large, ret);
    fetched(handle, ret);
    hg_handle_unref(handle);
}

static na_return_t hg_overflow_got(const struct na_cb_info *info)
{
    struct hg_handle *handle = (struct hg_handle *) info->arg;
    struct hg_monitor *lock = handle->context->lock;

    hg_leave(lock);
    hg_overflow_take_piece(info, handle);
    hg_enter(lock);
    return NA_SUCCESS;
}

/* Take a description apart and claim room. */
static hg_return_t hg_overflow_prepare(struct hg_handle *handle,
    struct hg_overflow *large, const unsigned char *payload, size_t size)
{
    struct na_class *na_class = handle->context->hg_class->na_class;
    struct hg_wire wire = hg_wire_reader(payload, size);
    uint64_t args_size;
    uint32_t mem_size;

    handle->large = true;
    (void) hg_wire_get64(&wire);
    args_size = hg_wire_get64(&wire);
    large->crc = hg_wire_get64(&wire);
    mem_size = hg_wire_get32(&wire);
    /* Of a description that is too short the rest is 0. */
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
            " bytes of \"%s\" from %s are past the limit of %zu",
            args_size, hg_handle_function(handle), hg_handle_peer(handle),
            handle->context->hg_class->options.max_args_size);
        return HG_MSGSIZE;
    }
    large->size = (size_t) args_size;
    return NA_Mem_handle_deserialize(
        na_class, &large->remote, hg_wire_get_bytes(&wire, mem_size), mem_size);
}

HG_PRIVATE void hg_overflow_fetch(struct hg_handle *handle,
    struct hg_overflow *large, const unsigned char *payload, size_t size,
    void (*fetched)(struct hg_handle *handle, hg_return_t ret))
{
    hg_return_t ret;

    hg_handle_ref(handle); /* for the fetch */
    ret = hg_overflow_prepare(handle, large, payload, size);
    large->fetched = fetched;
    if (ret == HG_SUCCESS)
        ret = hg_overflow_next(handle, large);
    if (ret == HG_SUCCESS)
        return;
    hg_overflow_finish(handle, large, ret);
    fetched(handle, ret);
    hg_handle_unref(handle);
}

HG_PRIVATE void hg_overflow_cancel(
    struct hg_handle *handle, struct hg_overflow *large)
{
    struct hg_context *context = handle->context;
    na_op_id_t op_id;

    hg_enter(context->lock);
    op_id = large->op_id;
    hg_leave(context->lock);
    /* Stale once the piece ended, and not yet known before it started: then who
     * starts it sees that it is canceled. */
    (void) na_context_cancel(context->na_context, op_id);
}

HG_PRIVATE void hg_overflow_expired(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    na_op_id_t op_id = NA_OP_ID_NULL;
    bool late;

    hg_enter(context->lock);
    /* With the timer set again it is the next piece that is on its way. */
    late = handle->in_large.under_way && handle->timer.index == 0;
    if (late) {
        op_id = handle->in_large.op_id;
        handle->canceled = true;
    }
    if (late && op_id == NA_OP_ID_NULL) /* just begun: in a moment, then */
        (void) hg_handle_set_timer(
            handle, hg_clock_after_ms(HG_OVERFLOW_AGAIN_MS));
    hg_leave(context->lock);
    if (!late || op_id == NA_OP_ID_NULL)
        return;
    hg_log_warning("rpc", "the input of \"%s\" did not come from %s in time",
        hg_handle_function(handle), hg_handle_peer(handle));
    (void) na_context_cancel(context->na_context, op_id);
}
