/* SPDX-License-Identifier: BSD-3-Clause */
/* notify: see notify.h. */
#include "na/notify.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"
#include "na/msg.h"
#include "na/op.h"
#include "na/rma.h"

struct na_notify {
    struct na_op_core *op;     /* of the application */
    na_op_id_t put;            /* while it is pending, else NULL */
    _Atomic(na_op_id_t) send;  /* the same */
    struct na_addr *addr;      /* a reference */
    struct na_segment segment; /* the message */
    na_tag_t tag;
    bool sent; /* the message was started */
    unsigned steps;
    na_return_t ret; /* the first error */
};

HG_PRIVATE void na_notify_steps(
    const struct na_op_core *op, na_op_id_t *put_p, na_op_id_t *send_p)
{
    const struct na_notify *notify = op->notify;

    HG_ASSERT(op->pub.type == NA_CB_PUT_NOTIFY);
    *put_p = notify->put;
    *send_p = atomic_load(&notify->send);
}

static void na_notify_free(struct na_notify *notify)
{
    na_addr_unref_locked(notify->addr);
    hg_mem_free(notify);
}

static na_return_t na_notify_ended(const struct na_cb_info *info);

/* Start the message. */
static void na_notify_send(struct na_notify *notify)
{
    struct na_context *context = &notify->op->home->pub;
    struct na_msg msg;
    na_return_t ret;

    memset(&msg, 0, sizeof(msg));
    msg.addr = notify->addr;
    msg.segments = &notify->segment;
    msg.segment_count = 1;
    msg.size = notify->segment.size;
    msg.tag = notify->tag;
    msg.plane = NA_MSG_UNEXPECTED;
    notify->sent = true;
    ret = na_msg_try(context, &msg);
    if (ret == NA_AGAIN) {
        ret =
            na_msg_queue(context, &msg, na_notify_ended, notify, &notify->send);
        notify->steps += ret == NA_SUCCESS;
    }
    if (notify->ret == NA_SUCCESS)
        notify->ret = ret;
}

/* A step ended: start the next one, or complete the operation. */
static void na_notify_step(struct na_notify *notify, na_return_t ret)
{
    struct na_op_core *op = notify->op;

    HG_ASSERT(hg_is_inside(op->home->queue.lock) && notify->steps > 0);
    if (notify->ret == NA_SUCCESS)
        notify->ret = ret;
    if (notify->ret == NA_SUCCESS && !notify->sent)
        na_notify_send(notify);
    if (--notify->steps > 0)
        return;
    ret = notify->ret;
    na_notify_free(notify);
    na_op_complete(&op->pub, ret);
}

/* In lane INTERNAL, so the lock is held. */
static na_return_t na_notify_ended(const struct na_cb_info *info)
{
    struct na_notify *notify = (struct na_notify *) info->arg;

    if (info->type == NA_CB_PUT)
        notify->put = NA_OP_ID_NULL;
    else
        atomic_store(&notify->send, NA_OP_ID_NULL);
    na_notify_step(notify, info->ret);
    return NA_SUCCESS;
}

/* Create the operation. NULL: out of memory (logged). */
static struct na_notify *na_notify_new(struct na_context *context,
    na_cb_t callback, void *arg, const struct na_msg *msg, na_op_id_t *op_id)
{
    struct na_notify *notify =
        (struct na_notify *) hg_mem_calloc(1, sizeof(*notify));

    if (notify == NULL) {
        hg_log_error("rma", "no memory for a put with a message");
        return NULL;
    }
    notify->op = na_op_get(
        context, NA_CB_PUT_NOTIFY, NA_LANE_DONE, callback, arg, op_id);
    if (notify->op == NULL) {
        hg_mem_free(notify);
        return NULL;
    }
    notify->op->notify = notify;
    na_addr_ref(msg->addr);
    notify->addr = msg->addr;
    notify->segment = msg->segments[0];
    notify->tag = msg->tag;
    notify->steps = 1;
    return notify;
}

/* The data was moved at once, or the put has started; else nothing has. */
static na_return_t na_notify_start(struct na_notify *notify,
    struct na_mem_handle *local, na_offset_t local_offset,
    struct na_mem_handle *remote, na_offset_t remote_offset, na_size_t size)
{
    struct na_context_core *context = notify->op->home;
    const struct na_op_core *put;
    na_return_t ret = na_rma_now(&context->pub, NA_CB_PUT, local, local_offset,
        remote, remote_offset, size, notify->addr);

    if (ret == NA_SUCCESS)
        na_notify_step(notify, NA_SUCCESS);
    if (ret != NA_AGAIN)
        return ret;
    ret = na_rma_start(&context->pub, NA_CB_PUT, NA_LANE_INTERNAL,
        na_notify_ended, notify, local, local_offset, remote, remote_offset,
        size, notify->addr, &notify->put);
    if (ret != NA_SUCCESS)
        return ret;
    put = na_op_find(context, notify->put);
    if (put != NULL && put->handed)
        na_notify_send(notify);
    return NA_SUCCESS;
}

NA_EXPORT na_return_t NA_Put_notify(na_class_t *na_class, na_context_t *context,
    na_cb_t callback, void *arg, na_mem_handle_t local_mem_handle,
    na_offset_t local_offset, na_mem_handle_t remote_mem_handle,
    na_offset_t remote_offset, na_size_t data_size, na_addr_t remote_addr,
    const void *buf, na_size_t buf_size, na_tag_t tag, na_op_id_t *op_id)
{
    static const char function[] = "NA_Put_notify";
    struct na_segment segment = {(void *) (uintptr_t) buf, buf_size};
    struct na_notify *notify;
    struct na_msg msg;
    na_return_t ret;

    memset(&msg, 0, sizeof(msg));
    msg.addr = remote_addr;
    msg.segments = &segment;
    msg.segment_count = 1;
    msg.tag = tag;
    ret = na_msg_check_send(na_class, context, &msg, function);
    if (ret == NA_SUCCESS)
        ret = na_rma_check_mem(na_class, local_mem_handle, function);
    if (ret == NA_SUCCESS)
        ret = na_rma_check_mem(na_class, remote_mem_handle, function);
    if (ret != NA_SUCCESS)
        return na_op_started(ret, op_id);
    na_context_enter(na_context_core_of(context));
    notify = na_notify_new(context, callback, arg, &msg, op_id);
    ret = notify == NULL
        ? NA_NOMEM
        : na_notify_start(notify, local_mem_handle, local_offset,
              remote_mem_handle, remote_offset, data_size);
    if (notify != NULL && ret != NA_SUCCESS) {
        na_op_put(notify->op);
        na_notify_free(notify);
    }
    na_context_leave(na_context_core_of(context));
    return na_op_started(ret, op_id);
}
