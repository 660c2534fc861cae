/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * self: see self.h.
 *
 * Locking: `lock` guards what waits; `memory` lets copies run side by side
 * and registration wait for them.
 */
#include "na/self.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "na/core.h"
#include "na/emul.h"
#include "na/rma.h"

struct na_self_class {
    struct na_class base;
    pthread_mutex_t lock;
    struct na_link sends;     /* operations that met a full queue */
    struct na_op *offered;    /* one of them, offered again; guarded by lock */
    bool offer_canceled;      /* it is to end if nobody takes it; lock */
    struct na_link frames;    /* of the emulation, on their way to ourselves */
    _Atomic unsigned waiting; /* elements of both lists */
    pthread_rwlock_t memory;
    struct hg_map keys; /* registered memory; guarded by memory */
};

/* A frame on its way: copies of header and data. */
struct na_self_frame {
    struct na_link link;
    struct na_addr *addr; /* a reference */
    size_t header_size;
    size_t size;
    unsigned char bytes[];
};

static _Atomic uint64_t na_self_count;

static struct na_self_class *na_self_of(struct na_class *na_class)
{
    return HG_CONTAINER_OF(na_class, struct na_self_class, base);
}

/* ---- Life ---- */

static na_return_t na_self_open(struct na_class *na_class, const char *host)
{
    struct na_self_class *self = na_self_of(na_class);
    char name[64];
    na_return_t ret;

    if (host[0] != '\0') {
        hg_log_error("addr", "self:// takes no name, not '%s'", host);
        return NA_INVALID_ARG;
    }
    ret = hg_lock_init(&self->lock);
    if (ret != NA_SUCCESS)
        return ret;
    if (pthread_rwlock_init(&self->memory, NULL) != 0) {
        ret = NA_NOMEM;
        goto destroy_lock;
    }
    hg_list_init(&self->sends);
    hg_list_init(&self->frames);
    hg_map_init(&self->keys);
    (void) snprintf(name, sizeof(name), "self://%ld-%" PRIu64, (long) getpid(),
        atomic_fetch_add(&na_self_count, 1));
    na_class->max_unexpected_size = na_class->info->max_unexpected_size;
    na_class->max_expected_size = na_class->info->max_expected_size;
    na_class->max_tag = UINT32_MAX;
    na_class->self_addr = na_class->core->addr_create(na_class, name, NA_TRUE);
    if (na_class->self_addr == NULL) {
        ret = NA_NOMEM;
        goto fini_keys;
    }
    return NA_SUCCESS;

fini_keys:
    hg_map_fini(&self->keys);
    pthread_rwlock_destroy(&self->memory);
destroy_lock:
    pthread_mutex_destroy(&self->lock);
    return ret;
}

static void na_self_close(struct na_class *na_class, unsigned linger_ms)
{
    struct na_self_class *self = na_self_of(na_class);
    struct na_link *link;

    (void) linger_ms;
    assert(hg_list_is_empty(&self->sends));
    while ((link = hg_list_pop(&self->frames)) != NULL) {
        struct na_self_frame *frame =
            HG_CONTAINER_OF(link, struct na_self_frame, link);

        na_class->core->addr_unref(frame->addr);
        hg_mem_free(frame);
    }
    hg_map_fini(&self->keys);
    pthread_rwlock_destroy(&self->memory);
    pthread_mutex_destroy(&self->lock);
}

static na_return_t na_self_lookup(struct na_op *op)
{
    struct na_class *na_class = op->context->na_class;
    const char *rest = strstr(op->name, "://");

    if (rest == NULL || rest[3] == '\0' ||
        strcmp(op->name, na_class->self_addr->name) == 0) {
        na_class->core->addr_ref(na_class->self_addr);
        op->result_addr = na_class->self_addr;
        na_class->core->complete(op, NA_SUCCESS);
        return NA_SUCCESS;
    }
    hg_log_error(
        "addr", "%s is not this class: self reaches nobody else", op->name);
    na_class->core->complete(op, NA_HOSTUNREACH);
    return NA_SUCCESS;
}

/* Everything accepted has arrived, so terminating has nothing to wait for. */
static na_return_t na_self_terminate(struct na_op *op)
{
    op->context->na_class->core->complete(op, NA_SUCCESS);
    return NA_SUCCESS;
}

/* ---- Messages ---- */

static na_return_t na_self_deliver(
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

static na_return_t na_self_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    struct na_self_class *self = na_self_of(context->na_class);

    if (op == NULL) {
        if (atomic_load_explicit(&self->waiting, memory_order_acquire) > 0)
            return NA_AGAIN; /* keep order behind those */
        return na_self_deliver(context->na_class, msg);
    }
    hg_lock(&self->lock);
    hg_list_push(&self->sends, &op->link);
    atomic_fetch_add(&self->waiting, 1);
    hg_unlock(&self->lock);
    context->na_class->core->wake(context->na_class);
    return NA_SUCCESS;
}

/* Offer the first waiting send again; whether it left. One thread at a time
 * offers, so that the sends keep their order. */
static bool na_self_retry(struct na_self_class *self)
{
    struct na_link *link = NULL;
    struct na_op *op;
    na_return_t ret;

    hg_lock(&self->lock);
    if (self->offered == NULL)
        link = hg_list_pop(&self->sends);
    if (link != NULL) {
        self->offered = HG_CONTAINER_OF(link, struct na_op, link);
        self->offer_canceled = false;
    }
    hg_unlock(&self->lock);
    if (link == NULL)
        return false;
    op = HG_CONTAINER_OF(link, struct na_op, link);
    ret = na_self_deliver(&self->base, &op->msg);
    hg_lock(&self->lock);
    self->offered = NULL;
    if (ret == NA_AGAIN && self->offer_canceled)
        ret = NA_CANCELED;
    if (ret == NA_AGAIN) /* in front of the others, where it was */
        hg_list_push(self->sends.next, link);
    hg_unlock(&self->lock);
    if (ret == NA_AGAIN)
        return false;
    atomic_fetch_sub(&self->waiting, 1);
    self->base.core->complete(op, ret);
    return true;
}

static na_return_t na_self_cancel(struct na_op *op, uint64_t op_id)
{
    struct na_class *na_class = op->context->na_class;
    struct na_self_class *self = na_self_of(na_class);
    const struct na_link *link;
    bool offered;
    bool found;

    /* While it is here its identifier does not change; so look for it first:
     * elsewhere the operation may be in use for something else by now. */
    hg_lock(&self->lock);
    link = self->sends.next;
    while (link != &self->sends && link != &op->link)
        link = link->next;
    offered = op == self->offered;
    found =
        (offered || link != &self->sends) && na_class->core->op_id(op) == op_id;
    if (found && offered)
        self->offer_canceled = true;
    else if (found)
        hg_list_remove(&op->link);
    hg_unlock(&self->lock);
    if (!found)
        return NA_NOENTRY;
    if (offered)
        return NA_SUCCESS;
    atomic_fetch_sub(&self->waiting, 1);
    na_class->core->complete(op, NA_CANCELED);
    return NA_SUCCESS;
}

/* ---- Frames of the emulation ---- */

static na_return_t na_self_frame_send(struct na_addr *addr, const void *header,
    size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    struct na_self_class *self = na_self_of(addr->na_class);
    struct na_self_frame *frame = (struct na_self_frame *) hg_mem_alloc(
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
    hg_lock(&self->lock);
    hg_list_init(&frame->link);
    hg_list_push(&self->frames, &frame->link);
    atomic_fetch_add(&self->waiting, 1);
    hg_unlock(&self->lock);
    if (release != NULL)
        release(arg);
    addr->na_class->core->wake(addr->na_class);
    return NA_SUCCESS;
}

static bool na_self_deliver_frame(struct na_self_class *self)
{
    struct na_self_frame *frame;
    struct na_link *link;

    hg_lock(&self->lock);
    link = hg_list_pop(&self->frames);
    hg_unlock(&self->lock);
    if (link == NULL)
        return false;
    atomic_fetch_sub(&self->waiting, 1);
    frame = HG_CONTAINER_OF(link, struct na_self_frame, link);
    self->base.core->frame_arrived(&self->base, frame->addr, frame->bytes,
        frame->header_size, frame->bytes + frame->header_size, frame->size);
    self->base.core->addr_unref(frame->addr);
    hg_mem_free(frame);
    return true;
}

/* ---- Memory ---- */

static na_return_t na_self_register(struct na_mem_handle *mem)
{
    struct na_self_class *self = na_self_of(mem->na_class);
    na_return_t ret;

    (void) pthread_rwlock_wrlock(&self->memory);
    ret = hg_map_add(&self->keys, mem, &mem->key);
    (void) pthread_rwlock_unlock(&self->memory);
    return ret;
}

static void na_self_deregister(struct na_mem_handle *mem)
{
    struct na_self_class *self = na_self_of(mem->na_class);

    (void) pthread_rwlock_wrlock(&self->memory);
    (void) hg_map_remove(&self->keys, mem->key);
    (void) pthread_rwlock_unlock(&self->memory);
}

/* The target's side of a transfer: its own checks, then the copy. */
static na_return_t na_self_move(struct na_self_class *self, struct na_op *op)
{
    const struct na_mem_handle *target =
        (const struct na_mem_handle *) hg_map_get(&self->keys, op->remote->key);
    bool put = op->type == NA_CB_PUT;

    if (target == NULL)
        return NA_NOENTRY;
    if ((target->flags & (put ? NA_MEM_WRITE_ONLY : NA_MEM_READ_ONLY)) == 0)
        return NA_PERMISSION;
    if (op->remote_offset > target->size ||
        op->size > target->size - op->remote_offset)
        return NA_OVERFLOW;
    if (put)
        na_rma_copy(
            target, op->remote_offset, op->local, op->local_offset, op->size);
    else
        na_rma_copy(
            op->local, op->local_offset, target, op->remote_offset, op->size);
    return NA_SUCCESS;
}

static na_return_t na_self_transfer(struct na_op *op)
{
    struct na_class *na_class = op->context->na_class;
    struct na_self_class *self = na_self_of(na_class);
    na_return_t ret;

    (void) pthread_rwlock_rdlock(&self->memory);
    ret = na_self_move(self, op);
    (void) pthread_rwlock_unlock(&self->memory);
    if (ret != NA_SUCCESS) {
        na_class->core->count(na_class, "rma_refused", 1);
        hg_log_error(
            "rma", "a transfer was refused: %s", NA_Error_to_string(ret));
    }
    na_class->core->complete(op, ret);
    return NA_SUCCESS;
}

/* ---- Progress ---- */

static unsigned na_self_poll(struct na_context *context)
{
    struct na_self_class *self = na_self_of(context->na_class);
    unsigned n = 0;

    if (atomic_load_explicit(&self->waiting, memory_order_acquire) == 0)
        return 0;
    while (na_self_retry(self))
        n++;
    while (na_self_deliver_frame(self))
        n++;
    return n;
}

static int na_self_poll_fd(struct na_context *context)
{
    (void) context;
    return NA_POLL_FD_IDLE;
}

/* Frames can always be delivered; the core wakes us when a send can. */
static na_bool_t na_self_wait_begin(struct na_context *context)
{
    struct na_self_class *self = na_self_of(context->na_class);
    bool idle;

    hg_lock(&self->lock);
    idle = hg_list_is_empty(&self->frames);
    hg_unlock(&self->lock);
    return idle ? NA_TRUE : NA_FALSE;
}

static const char *const na_self_protocols[] = {"self", NULL};

static const struct na_plugin na_self_plugin = {
    .abi = NA_PLUGIN_ABI,
    .size = sizeof(struct na_plugin),
    .name = "self",
    .protocols = na_self_protocols,
    .caps = NA_CAP_ORDERED | NA_CAP_HOLDS_BACK | NA_CAP_OWN_CONTEXTS,
    .class_size = sizeof(struct na_self_class),
    .open = na_self_open,
    .close = na_self_close,
    .addr_lookup = na_self_lookup,
    .addr_terminate = na_self_terminate,
    .msg_send = na_self_send,
    .frame_send = na_self_frame_send,
    .mem_register = na_self_register,
    .mem_deregister = na_self_deregister,
    .mem_serialize_size = na_emul_mem_serialize_size,
    .mem_serialize = na_emul_mem_serialize,
    .mem_deserialize = na_emul_mem_deserialize,
    .put = na_self_transfer,
    .get = na_self_transfer,
    .poll = na_self_poll,
    .poll_fd = na_self_poll_fd,
    .wait_begin = na_self_wait_begin,
    .cancel = na_self_cancel,
};

HG_PRIVATE const struct na_plugin *na_self_table(void)
{
    return &na_self_plugin;
}
