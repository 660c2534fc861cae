/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * self: see self.h.
 *
 * Locking: what waits is the loop's; `memory` lets copies run side by side and
 * registration wait for them.
 */
#include "na/self.h"

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "na/addr.h"
#include "emul/emul.h"
#include "na/loop.h"
#include "na/rma.h"

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
    na_return_t ret;

    if (host[0] != '\0') {
        hg_log_error("addr", "self:// takes no name, not '%s'", host);
        return NA_INVALID_ARG;
    }
    ret = na_loop_init(&self->loop);
    if (ret != NA_SUCCESS)
        return ret;
    if (pthread_rwlock_init(&self->memory, NULL) != 0) {
        ret = NA_NOMEM;
        goto fini_loop;
    }
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
fini_loop:
    na_loop_fini(&self->loop, na_class);
    return ret;
}

static void na_self_close(struct na_class *na_class, unsigned linger_ms)
{
    struct na_self_class *self = na_self_of(na_class);

    (void) linger_ms;
    na_loop_fini(&self->loop, na_class);
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

    return na_loop_send(&self->loop, context->na_class, msg, op);
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
    return na_loop_cancel(&na_self_of(op->context->na_class)->loop, op, op_id);
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
    return na_loop_poll(
        &na_self_of(context->na_class)->loop, context->na_class);
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
