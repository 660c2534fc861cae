/* SPDX-License-Identifier: BSD-3-Clause */
/* loop: see loop.h. */
#include "na/loop.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"

/* A frame on its way: copies of header and data. */
struct na_loop_frame {
    struct na_link link;
    struct na_addr *addr; /* a reference */
    size_t header_size;
    size_t size;
    unsigned char bytes[];
};

HG_PRIVATE na_return_t na_loop_init(struct na_loop *loop)
{
    hg_list_init(&loop->sends);
    hg_list_init(&loop->frames);
    loop->offered = NULL;
    loop->offer_canceled = false;
    atomic_init(&loop->waiting, 0);
    return hg_lock_init(&loop->lock);
}

HG_PRIVATE void na_loop_fini(struct na_loop *loop, struct na_class *na_class)
{
    struct na_link *link;

    assert(hg_list_is_empty(&loop->sends));
    while ((link = hg_list_pop(&loop->frames)) != NULL) {
        struct na_loop_frame *frame =
            HG_CONTAINER_OF(link, struct na_loop_frame, link);

        na_class->core->addr_unref(frame->addr);
        hg_mem_free(frame);
    }
    pthread_mutex_destroy(&loop->lock);
}

/* ---- Messages ---- */

static na_return_t na_loop_deliver(
    struct na_class *na_class, const struct na_msg *msg)
{
    unsigned char *gathered;
    na_size_t used = 0;
    na_size_t i;
    na_return_t ret;

    if (msg->segment_count == 1)
        return na_class->core->msg_arrived(na_class, msg->addr, msg->plane,
            msg->target, msg->tag, msg->segments[0].address, msg->size);
    gathered = (unsigned char *) hg_mem_alloc((size_t) msg->size);
    if (gathered == NULL) {
        hg_log_error("msg", "no memory to gather a message");
        return NA_NOMEM;
    }
    for (i = 0; i < msg->segment_count; i++) {
        if (msg->segments[i].size > 0)
            memcpy(gathered + used, msg->segments[i].address,
                (size_t) msg->segments[i].size);
        used += msg->segments[i].size;
    }
    assert(used == msg->size);
    ret = na_class->core->msg_arrived(na_class, msg->addr, msg->plane,
        msg->target, msg->tag, gathered, msg->size);
    hg_mem_free(gathered);
    return ret;
}

HG_PRIVATE na_return_t na_loop_send(struct na_loop *loop,
    struct na_class *na_class, const struct na_msg *msg, struct na_op *op)
{
    if (op == NULL) {
        if (atomic_load_explicit(&loop->waiting, memory_order_acquire) > 0)
            return NA_AGAIN; /* keep order behind those */
        return na_loop_deliver(na_class, msg);
    }
    hg_lock(&loop->lock);
    hg_list_push(&loop->sends, &op->link);
    atomic_fetch_add(&loop->waiting, 1);
    hg_unlock(&loop->lock);
    na_class->core->wake(na_class);
    return NA_SUCCESS;
}

/* Offer the first waiting send again; whether it left. One thread at a time
 * offers, so that the sends keep their order. */
static bool na_loop_retry(struct na_loop *loop, struct na_class *na_class)
{
    struct na_link *link = NULL;
    struct na_op *op;
    na_return_t ret;

    hg_lock(&loop->lock);
    if (loop->offered == NULL)
        link = hg_list_pop(&loop->sends);
    if (link != NULL) {
        loop->offered = HG_CONTAINER_OF(link, struct na_op, link);
        loop->offer_canceled = false;
    }
    hg_unlock(&loop->lock);
    if (link == NULL)
        return false;
    op = HG_CONTAINER_OF(link, struct na_op, link);
    ret = na_loop_deliver(na_class, &op->msg);
    hg_lock(&loop->lock);
    loop->offered = NULL;
    if (ret == NA_AGAIN && loop->offer_canceled)
        ret = NA_CANCELED;
    if (ret == NA_AGAIN) /* in front of the others, where it was */
        hg_list_push(loop->sends.next, link);
    hg_unlock(&loop->lock);
    if (ret == NA_AGAIN)
        return false;
    atomic_fetch_sub(&loop->waiting, 1);
    na_class->core->complete(op, ret);
    return true;
}

HG_PRIVATE na_return_t na_loop_cancel(
    struct na_loop *loop, struct na_op *op, uint64_t op_id)
{
    const struct na_core *core = op->context->na_class->core;
    const struct na_link *link;
    bool offered;
    bool found;

    /* While it is here its identifier does not change; so look for it first:
     * elsewhere the operation may be in use for something else by now. */
    hg_lock(&loop->lock);
    link = loop->sends.next;
    while (link != &loop->sends && link != &op->link)
        link = link->next;
    offered = op == loop->offered;
    found = (offered || link != &loop->sends) && core->op_id(op) == op_id;
    if (found && offered)
        loop->offer_canceled = true;
    else if (found)
        hg_list_remove(&op->link);
    hg_unlock(&loop->lock);
    if (!found)
        return NA_NOENTRY;
    if (offered)
        return NA_SUCCESS;
    atomic_fetch_sub(&loop->waiting, 1);
    core->complete(op, NA_CANCELED);
    return NA_SUCCESS;
}

/* ---- Frames of the emulation ---- */

HG_PRIVATE na_return_t na_loop_frame_send(struct na_loop *loop,
    struct na_addr *addr, const void *header, size_t header_size,
    const void *data, size_t size, void (*release)(void *arg), void *arg)
{
    struct na_loop_frame *frame = (struct na_loop_frame *) hg_mem_alloc(
        sizeof(*frame) + header_size + size);

    if (frame == NULL) {
        hg_log_error("rma", "no memory for a frame of %zu bytes", size);
        return NA_NOMEM;
    }
    addr->na_class->core->addr_ref(addr);
    frame->addr = addr;
    frame->header_size = header_size;
    frame->size = size;
    memcpy(frame->bytes, header, header_size);
    if (size > 0)
        memcpy(frame->bytes + header_size, data, size);
    hg_lock(&loop->lock);
    hg_list_init(&frame->link);
    hg_list_push(&loop->frames, &frame->link);
    atomic_fetch_add(&loop->waiting, 1);
    hg_unlock(&loop->lock);
    if (release != NULL)
        release(arg);
    addr->na_class->core->wake(addr->na_class);
    return NA_SUCCESS;
}

static bool na_loop_deliver_frame(
    struct na_loop *loop, struct na_class *na_class)
{
    struct na_loop_frame *frame;
    struct na_link *link;

    hg_lock(&loop->lock);
    link = hg_list_pop(&loop->frames);
    hg_unlock(&loop->lock);
    if (link == NULL)
        return false;
    atomic_fetch_sub(&loop->waiting, 1);
    frame = HG_CONTAINER_OF(link, struct na_loop_frame, link);
    na_class->core->frame_arrived(na_class, frame->addr, frame->bytes,
        frame->header_size, frame->bytes + frame->header_size, frame->size);
    na_class->core->addr_unref(frame->addr);
    hg_mem_free(frame);
    return true;
}

/* ---- Progress ---- */

HG_PRIVATE unsigned na_loop_poll(
    struct na_loop *loop, struct na_class *na_class)
{
    unsigned n = 0;

    if (atomic_load_explicit(&loop->waiting, memory_order_acquire) == 0)
        return 0;
    while (na_loop_retry(loop, na_class))
        n++;
    while (na_loop_deliver_frame(loop, na_class))
        n++;
    return n;
}

HG_PRIVATE bool na_loop_has_work(struct na_loop *loop)
{
    bool work;

    hg_lock(&loop->lock);
    work = !hg_list_is_empty(&loop->frames);
    hg_unlock(&loop->lock);
    return work;
}
