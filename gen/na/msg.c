/* SPDX-License-Identifier: BSD-3-Clause */
/* msg: see msg.h. */
#include "na/msg.h"

#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"
#include "na/live.h"
#include "na/match.h"
#include "na/op.h"
#include "na/sink.h"

/* ---- Arrivals ---- */

/* Hand a message to whoever it is for, or keep it. */
static na_return_t na_msg_place(
    struct na_class_core *core, const struct na_match_item *item)
{
    na_return_t ret = NA_NOENTRY;

    hg_enter(core->lock);
    if (item->plane == NA_MSG_RPC)
        ret = na_sink_deliver(core, item->source, item->target, item->tag,
            item->data, item->size);
    if (ret == NA_NOENTRY)
        ret = na_match_offer(core, item);
    hg_leave(core->lock);
    return ret;
}

static void na_msg_drop(struct na_class *na_class, const struct na_addr *source,
    na_size_t size, na_return_t ret)
{
    na_class->core->count(na_class, "msg_dropped", 1);
    hg_log_warning("msg", "dropped a message of %" PRIu64 " bytes from %s: %s",
        size, source->name != NULL ? source->name : "a peer",
        NA_Error_to_string(ret));
}

/* A message that was not taken: `ret` says why. */
HG_NOINLINE static na_return_t na_msg_refused(struct na_class *na_class,
    const struct na_match_item *item, na_return_t ret)
{
    struct na_class_core *core = na_class_core_of(na_class);

    if (ret == NA_AGAIN && na_match_purge(core))
        ret = na_msg_place(core, item);
    if (ret == NA_SUCCESS)
        return NA_SUCCESS;
    if (ret == NA_AGAIN && (core->ops.caps & NA_CAP_HOLDS_BACK) != 0)
        return NA_AGAIN;
    na_msg_drop(na_class, item->source, item->size, ret);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_msg_arrived(struct na_class *na_class,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size)
{
    struct na_match_item item = {source, data, size, tag, plane, target};
    na_return_t ret;

    assert(plane < NA_MSG_PLANE_MAX && source->na_class == na_class);
    ret = na_msg_place(na_class_core_of(na_class), &item);
    if (HG_LIKELY(ret == NA_SUCCESS))
        return NA_SUCCESS;
    return na_msg_refused(na_class, &item, ret);
}

HG_PRIVATE void na_msg_addr_dead(struct na_addr *addr, na_return_t ret)
{
    na_match_addr_dead(addr, ret);
    na_sink_tell_dead(addr, ret);
}

/* ---- The RPC plane ---- */

HG_PRIVATE na_return_t na_msg_set_sink(struct na_context *context, int number,
    na_rpc_cb_t sink, na_rpc_dead_cb_t dead, void *arg)
{
    if (sink != NULL)
        return na_match_set_sink(context, number, sink, dead, arg);
    na_sink_close(context);
    return NA_SUCCESS;
}

/* Start a send that could not go out at once; on error its operation is given
 * back. */
static na_return_t na_msg_start(struct na_op_core *op, const struct na_msg *msg)
{
    struct na_context *context = op->pub.context;
    na_return_t ret;

    na_op_set_addr(op, msg->addr);
    ret = na_op_set_msg(op, msg);
    if (ret == NA_SUCCESS)
        ret = na_class_ops(context->na_class)
                  ->msg_send(context, &op->pub.msg, &op->pub);
    if (ret != NA_SUCCESS)
        na_op_put(op);
    return ret;
}

HG_PRIVATE na_return_t na_msg_try_rpc(
    struct na_context *context, const struct na_msg *msg)
{
    na_return_t ret = na_addr_state(msg->addr);

    assert(msg->plane == NA_MSG_RPC);
    if (ret != NA_SUCCESS)
        return ret;
    return na_class_ops(context->na_class)->msg_send(context, msg, NULL);
}

HG_PRIVATE na_return_t na_msg_queue_rpc(struct na_context *context,
    const struct na_msg *msg, na_cb_t callback, void *arg,
    _Atomic(na_op_id_t) *op_id_p)
{
    struct na_op_core *op = na_op_get(context, NA_CB_SEND_UNEXPECTED,
        NA_LANE_INTERNAL, callback, arg, NA_OP_ID_IGNORE);

    assert(msg->plane == NA_MSG_RPC);
    if (op == NULL)
        return NA_NOMEM;
    atomic_store(op_id_p, na_op_public_id(op));
    return na_msg_start(op, msg);
}

/* ---- The NA interface: sends ---- */

/* Check a message, and add up its size. */
static na_return_t na_msg_check_send(const struct na_class *na_class,
    const struct na_context *context, struct na_msg *msg, const char *function)
{
    na_size_t max;
    na_size_t i;
    na_return_t ret = na_live_check_context(na_class, context, function);

    if (ret == NA_SUCCESS)
        ret = na_addr_check(na_class, msg->addr, function);
    if (ret != NA_SUCCESS)
        return ret;
    if (msg->segments == NULL && msg->segment_count > 0)
        return hg_log_misuse("msg", function, "segments is NULL");
    max = msg->plane == NA_MSG_EXPECTED ? na_class->max_expected_size
                                        : na_class->max_unexpected_size;
    for (i = 0; i < msg->segment_count; i++) {
        if (msg->segments[i].size > max - msg->size) {
            hg_log_error("msg",
                "%s: the message is larger than the maximum of %" PRIu64,
                function, max);
            return NA_MSGSIZE;
        }
        msg->size += msg->segments[i].size;
        if (msg->segments[i].address == NULL && msg->segments[i].size > 0)
            return hg_log_misuse("msg", function, "a buffer is NULL");
    }
    if (msg->tag > na_class->max_tag) {
        hg_log_error("msg", "%s: tag %" PRIu32 " is past the maximum", function,
            msg->tag);
        return NA_INVALID_ARG;
    }
    return na_addr_check_alive(msg->addr, function);
}

/* One buffer or many, either plane: every public send ends here. */
static na_return_t na_msg_send(na_class_t *na_class, na_context_t *context,
    na_cb_type_t type, na_cb_t callback, void *arg,
    const struct na_segment *segments, na_size_t count, na_addr_t dest,
    na_tag_t tag, na_op_id_t *op_id, const char *function)
{
    struct na_op_core *op;
    struct na_msg msg;
    na_return_t ret;

    memset(&msg, 0, sizeof(msg));
    msg.addr = dest;
    msg.segments = segments;
    msg.segment_count = count;
    msg.tag = tag;
    msg.plane =
        type == NA_CB_SEND_EXPECTED ? NA_MSG_EXPECTED : NA_MSG_UNEXPECTED;
    ret = na_msg_check_send(na_class, context, &msg, function);
    if (ret != NA_SUCCESS)
        return ret;
    op = na_op_get(context, type, NA_LANE_DONE, callback, arg, op_id);
    if (op == NULL)
        return NA_NOMEM;
    ret = na_class_ops(na_class)->msg_send(context, &msg, NULL);
    if (ret == NA_AGAIN)
        return na_msg_start(op, &msg);
    if (ret == NA_SUCCESS)
        na_op_complete(&op->pub, NA_SUCCESS);
    else
        na_op_put(op);
    return ret;
}

NA_EXPORT na_return_t NA_Msg_send_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const void *buf,
    na_size_t buf_size, na_addr_t dest, na_tag_t tag, na_op_id_t *op_id)
{
    struct na_segment segment;

    segment.address = (void *) (uintptr_t) buf;
    segment.size = buf_size;
    return na_msg_send(na_class, context, NA_CB_SEND_UNEXPECTED, callback, arg,
        &segment, 1, dest, tag, op_id, "NA_Msg_send_unexpected");
}

NA_EXPORT na_return_t NA_Msg_send_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const void *buf,
    na_size_t buf_size, na_addr_t dest, na_tag_t tag, na_op_id_t *op_id)
{
    struct na_segment segment;

    segment.address = (void *) (uintptr_t) buf;
    segment.size = buf_size;
    return na_msg_send(na_class, context, NA_CB_SEND_EXPECTED, callback, arg,
        &segment, 1, dest, tag, op_id, "NA_Msg_send_expected");
}

NA_EXPORT na_return_t NA_Msg_sendv_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg,
    const struct na_segment *segments, na_size_t count, na_addr_t dest,
    na_tag_t tag, na_op_id_t *op_id)
{
    return na_msg_send(na_class, context, NA_CB_SEND_UNEXPECTED, callback, arg,
        segments, count, dest, tag, op_id, "NA_Msg_sendv_unexpected");
}

NA_EXPORT na_return_t NA_Msg_sendv_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg,
    const struct na_segment *segments, na_size_t count, na_addr_t dest,
    na_tag_t tag, na_op_id_t *op_id)
{
    return na_msg_send(na_class, context, NA_CB_SEND_EXPECTED, callback, arg,
        segments, count, dest, tag, op_id, "NA_Msg_sendv_expected");
}

/* ---- The NA interface: receives ---- */

static na_return_t na_msg_check_recv(const struct na_class *na_class,
    const struct na_context *context, const void *buf, na_size_t buf_size,
    const char *function)
{
    na_return_t ret = na_live_check_context(na_class, context, function);

    return ret == NA_SUCCESS && buf == NULL && buf_size > 0
        ? hg_log_misuse("msg", function, "the buffer is NULL")
        : ret;
}

NA_EXPORT na_return_t NA_Msg_recv_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    na_size_t buf_size, na_op_id_t *op_id)
{
    struct na_op_core *op;
    na_return_t ret = na_msg_check_recv(
        na_class, context, buf, buf_size, "NA_Msg_recv_unexpected");

    if (ret != NA_SUCCESS)
        return ret;
    op = na_op_get(
        context, NA_CB_RECV_UNEXPECTED, NA_LANE_DONE, callback, arg, op_id);
    if (op == NULL)
        return NA_NOMEM;
    op->pub.buf = buf;
    op->pub.buf_size = buf_size;
    return na_match_post(op);
}

NA_EXPORT na_return_t NA_Msg_recv_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    na_size_t buf_size, na_addr_t source, na_tag_t tag, na_op_id_t *op_id)
{
    struct na_op_core *op;
    na_return_t ret = na_msg_check_recv(
        na_class, context, buf, buf_size, "NA_Msg_recv_expected");

    if (ret == NA_SUCCESS)
        ret = na_addr_check(na_class, source, "NA_Msg_recv_expected");
    if (ret != NA_SUCCESS)
        return ret;
    if (tag > na_class->max_tag) {
        hg_log_error("msg",
            "NA_Msg_recv_expected: tag %" PRIu32 " is past the maximum", tag);
        return NA_INVALID_ARG;
    }
    op = na_op_get(
        context, NA_CB_RECV_EXPECTED, NA_LANE_DONE, callback, arg, op_id);
    if (op == NULL)
        return NA_NOMEM;
    op->pub.buf = buf;
    op->pub.buf_size = buf_size;
    op->pub.msg.tag = tag;
    na_op_set_addr(op, source);
    ret = na_match_post(op);
    if (ret != NA_SUCCESS) {
        hg_log_error("msg", "NA_Msg_recv_expected: %s",
            ret == NA_NOMEM ? "no memory" : "the source is gone");
        na_op_put(op);
    }
    return ret;
}

/* ---- Sizes and buffers ---- */

NA_EXPORT na_size_t NA_Msg_get_max_expected_size(na_class_t *na_class)
{
    if (na_live_check(na_class, "NA_Msg_get_max_expected_size") != NA_SUCCESS)
        return 0;
    return na_class->max_expected_size;
}

NA_EXPORT na_size_t NA_Msg_get_max_unexpected_size(na_class_t *na_class)
{
    if (na_live_check(na_class, "NA_Msg_get_max_unexpected_size") != NA_SUCCESS)
        return 0;
    return na_class->max_unexpected_size;
}

NA_EXPORT na_tag_t NA_Msg_get_max_tag(na_class_t *na_class)
{
    if (na_live_check(na_class, "NA_Msg_get_max_tag") != NA_SUCCESS)
        return 0;
    return na_class->max_tag;
}

NA_EXPORT void *NA_Msg_buf_alloc(na_class_t *na_class, na_size_t size)
{
    void *buf;

    if (na_live_check(na_class, "NA_Msg_buf_alloc") != NA_SUCCESS)
        return NULL;
    if (size > SIZE_MAX) {
        hg_log_error("msg", "NA_Msg_buf_alloc: too large");
        return NULL;
    }
    buf = hg_mem_alloc((size_t) size);
    if (buf == NULL)
        hg_log_error("msg", "no memory for a buffer of %" PRIu64, size);
    return buf;
}

NA_EXPORT na_return_t NA_Msg_buf_free(na_class_t *na_class, void *buf)
{
    na_return_t ret = na_live_check(na_class, "NA_Msg_buf_free");

    if (ret != NA_SUCCESS)
        return ret;
    if (buf == NULL) {
        hg_log_error("msg", "NA_Msg_buf_free: an argument is NULL");
        return NA_INVALID_ARG;
    }
    hg_mem_free(buf);
    return NA_SUCCESS;
}
