/* SPDX-License-Identifier: BSD-3-Clause */
/* self: see self.h. */
#include "na/self.h"

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "emul/emul.h"
#include "na/addr.h"
#include "na/rma.h"

/* ---- The loop ---- */

/* A frame on its way: copies of header and data. */
struct na_loop_frame {
    struct na_link link;
    struct na_addr *addr; /* a reference */
    size_t header_size;
    size_t size;
    unsigned char bytes[];
};

HG_PRIVATE void na_loop_init(struct na_loop *loop)
{
    hg_list_init(&loop->sends);
    hg_list_init(&loop->frames);
}

static void na_loop_free(struct na_loop_frame *frame)
{
    na_addr_unref(frame->addr);
    hg_mem_free(frame);
}

HG_PRIVATE void na_loop_fini(struct na_loop *loop)
{
    struct na_link *link;

    assert(hg_list_is_empty(&loop->sends));
    while ((link = hg_list_pop(&loop->frames)) != NULL)
        na_loop_free(HG_CONTAINER_OF(link, struct na_loop_frame, link));
}

static na_return_t na_loop_deliver(const struct na_msg *msg)
{
    struct na_class *na_class = msg->addr->na_class;
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

HG_PRIVATE na_return_t na_loop_send(
    struct na_loop *loop, const struct na_msg *msg, struct na_op *op)
{
    struct na_class *na_class = msg->addr->na_class;

    assert(msg->addr->self && hg_is_inside(na_class_core_of(na_class)->lock));
    if (op == NULL) /* behind those that wait, which keeps the order */
        return hg_list_is_empty(&loop->sends) ? na_loop_deliver(msg) : NA_AGAIN;
    hg_list_push(&loop->sends, &op->link);
    na_class->core->wake(na_class);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_loop_cancel(struct na_loop *loop, struct na_op *op)
{
    const struct na_link *link = loop->sends.next;

    while (link != &loop->sends && link != &op->link)
        link = link->next;
    if (link == &loop->sends)
        return NA_NOENTRY;
    hg_list_remove(&op->link);
    op->context->na_class->core->complete(op, NA_CANCELED);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_loop_frame_send(struct na_loop *loop,
    struct na_addr *addr, const void *header, size_t header_size,
    const void *data, size_t size, void (*release)(void *arg), void *arg)
{
    struct na_loop_frame *frame = (struct na_loop_frame *) hg_mem_alloc(
        sizeof(*frame) + header_size + size);

    assert(addr->self && hg_is_inside(na_class_core_of(addr->na_class)->lock));
    if (frame == NULL) {
        hg_log_error("rma", "no memory for a frame of %zu bytes", size);
        return NA_NOMEM;
    }
    na_addr_ref(addr);
    frame->addr = addr;
    frame->header_size = header_size;
    frame->size = size;
    memcpy(frame->bytes, header, header_size);
    if (size > 0)
        memcpy(frame->bytes + header_size, data, size);
    hg_list_init(&frame->link);
    hg_list_push(&loop->frames, &frame->link);
    if (release != NULL)
        release(arg);
    addr->na_class->core->wake(addr->na_class);
    return NA_SUCCESS;
}

HG_PRIVATE unsigned na_loop_poll(struct na_loop *loop)
{
    struct na_link *link;
    unsigned n = 0;

    for (; !hg_list_is_empty(&loop->sends); n++) {
        struct na_op *op =
            HG_CONTAINER_OF(loop->sends.next, struct na_op, link);
        na_return_t ret = na_loop_deliver(&op->msg);

        if (ret == NA_AGAIN)
            break;
        hg_list_remove(&op->link);
        op->context->na_class->core->complete(op, ret);
    }
    for (; (link = hg_list_pop(&loop->frames)) != NULL; n++) {
        struct na_loop_frame *frame =
            HG_CONTAINER_OF(link, struct na_loop_frame, link);
        struct na_class *na_class = frame->addr->na_class;

        na_class->core->frame_arrived(na_class, frame->addr, frame->bytes,
            frame->header_size, frame->bytes + frame->header_size, frame->size);
        na_loop_free(frame);
    }
    return n;
}

/* ---- The transport ---- */

struct na_self_class {
    struct na_class base;
    struct na_loop loop; /* messages and frames */
    pthread_rwlock_t memory;
    struct hg_map keys; /* registered memory; guarded by memory */
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

    if (host[0] != '\0') {
        hg_log_error("addr", "self:// takes no name, not '%s'", host);
        return NA_INVALID_ARG;
    }
    if (pthread_rwlock_init(&self->memory, NULL) != 0)
        return NA_NOMEM;
    na_loop_init(&self->loop);
    hg_map_init(&self->keys);
    (void) snprintf(name, sizeof(name), "self://%ld-%" PRIu64, (long) getpid(),
        atomic_fetch_add(&na_self_count, 1));
    na_class->max_unexpected_size = na_class->info->max_unexpected_size;
    na_class->max_expected_size = na_class->info->max_expected_size;
    na_class->max_tag = UINT32_MAX;
    na_class->self_addr = na_class->core->addr_create(na_class, name, NA_TRUE);
    if (na_class->self_addr != NULL)
        return NA_SUCCESS;
    hg_map_fini(&self->keys);
    pthread_rwlock_destroy(&self->memory);
    return NA_NOMEM;
}

static void na_self_close(struct na_class *na_class, unsigned linger_ms)
{
    struct na_self_class *self = na_self_of(na_class);

    (void) linger_ms;
    na_loop_fini(&self->loop);
    hg_map_fini(&self->keys);
    pthread_rwlock_destroy(&self->memory);
}

static na_return_t na_self_resolve(struct na_class *na_class, const char *name,
    na_bool_t from_peer, struct na_addr **addr_p)
{
    const char *rest = strstr(name, "://");

    if (rest == NULL || rest[3] == '\0' ||
        strcmp(name, na_class->self_addr->name) == 0) {
        na_class->core->addr_ref(na_class->self_addr);
        *addr_p = na_class->self_addr;
        return NA_SUCCESS;
    }
    HG_LOG_AT(na_addr_name_level(from_peer), "addr",
        "%s is not this class: self reaches nobody else", name);
    return NA_HOSTUNREACH;
}

/* Everything accepted has arrived, so terminating has nothing to wait for. */
static na_return_t na_self_terminate(struct na_op *op)
{
    op->context->na_class->core->complete(op, NA_SUCCESS);
    return NA_SUCCESS;
}

/* ---- Messages ---- */

static na_return_t na_self_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    struct na_self_class *self = na_self_of(context->na_class);

    return na_loop_send(&self->loop, msg, op);
}

static na_return_t na_self_frame_send(struct na_addr *addr, const void *header,
    size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    struct na_self_class *self = na_self_of(addr->na_class);

    return na_loop_frame_send(
        &self->loop, addr, header, header_size, data, size, release, arg);
}

static na_return_t na_self_cancel(struct na_op *op, uint64_t op_id)
{
    (void) op_id;
    return na_loop_cancel(&na_self_of(op->context->na_class)->loop, op);
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
    return na_loop_poll(&na_self_of(context->na_class)->loop);
}

static int na_self_poll_fd(struct na_context *context)
{
    (void) context;
    return NA_POLL_FD_IDLE;
}

static na_bool_t na_self_wait_begin(struct na_context *context)
{
    struct na_self_class *self = na_self_of(context->na_class);

    return na_loop_has_work(&self->loop) ? NA_FALSE : NA_TRUE;
}

static const char *const na_self_protocols[] = {"self", NULL};

static const struct na_plugin na_self_plugin = {
    .abi = NA_PLUGIN_ABI,
    .size = sizeof(struct na_plugin),
    .name = "self",
    .protocols = na_self_protocols,
    .caps = NA_CAP_ORDERED | NA_CAP_HOLDS_BACK,
    .class_size = sizeof(struct na_self_class),
    .open = na_self_open,
    .close = na_self_close,
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
    .addr_resolve = na_self_resolve,
};

HG_PRIVATE const struct na_plugin *na_self_table(void)
{
    return &na_self_plugin;
}
