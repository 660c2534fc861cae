/* SPDX-License-Identifier: BSD-3-Clause */
/* self: see self.h. */
#include "na/self.h"

#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"

/* ---- The loop ---- */

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
    HG_ASSERT(used == msg->size);
    ret = na_class->core->msg_arrived(na_class, msg->addr, msg->plane,
        msg->target, msg->tag, gathered, msg->size);
    hg_mem_free(gathered);
    return ret;
}

HG_PRIVATE na_return_t na_loop_send(
    struct na_link *held, const struct na_msg *msg, struct na_op *op)
{
    struct na_class *na_class = msg->addr->na_class;

    HG_ASSERT(
        msg->addr->self && hg_is_inside(na_class_core_of(na_class)->lock));
    if (op == NULL) /* after queued ones, to keep the order */
        return hg_list_is_empty(held) ? na_loop_deliver(msg) : NA_AGAIN;
    hg_list_push(held, &op->link);
    na_class->core->wake(na_class);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_loop_cancel(struct na_link *held, struct na_op *op)
{
    const struct na_link *link = held->next;

    while (link != held && link != &op->link)
        link = link->next;
    if (link == held)
        return NA_NOENTRY;
    hg_list_remove(&op->link);
    op->context->na_class->core->complete(op, NA_CANCELED);
    return NA_SUCCESS;
}

HG_PRIVATE unsigned na_loop_poll(struct na_link *held)
{
    unsigned n;

    for (n = 0; !hg_list_is_empty(held); n++) {
        struct na_op *op = HG_CONTAINER_OF(held->next, struct na_op, link);
        na_return_t ret = na_loop_deliver(&op->msg);

        if (ret == NA_AGAIN)
            break;
        hg_list_remove(&op->link);
        op->context->na_class->core->complete(op, ret);
    }
    return n;
}

/* ---- The transport ---- */

struct na_self_class {
    struct na_class base;
    struct na_link held;
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
    hg_list_init(&self->held);
    (void) snprintf(name, sizeof(name), "self://%ld-%" PRIu64, (long) getpid(),
        atomic_fetch_add(&na_self_count, 1));
    na_class->max_unexpected_size = na_class->info->max_unexpected_size;
    na_class->max_expected_size = na_class->info->max_expected_size;
    na_class->max_tag = UINT32_MAX;
    na_class->self_addr = na_class->core->addr_create(na_class, name, NA_TRUE);
    return na_class->self_addr != NULL ? NA_SUCCESS : NA_NOMEM;
}

static void na_self_close(struct na_class *na_class, unsigned linger_ms)
{
    (void) linger_ms;
    HG_ASSERT(hg_list_is_empty(&na_self_of(na_class)->held));
    (void) na_class;
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
        "%s is not this class: self:// reaches only the class itself", name);
    return NA_HOSTUNREACH;
}

/* All accepted messages have been delivered, so terminating does not wait. */
static na_return_t na_self_terminate(struct na_op *op)
{
    op->context->na_class->core->complete(op, NA_SUCCESS);
    return NA_SUCCESS;
}

/* ---- Messages ---- */

static na_return_t na_self_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    return na_loop_send(&na_self_of(context->na_class)->held, msg, op);
}

static na_return_t na_self_cancel(struct na_op *op, uint64_t op_id)
{
    (void) op_id;
    return na_loop_cancel(&na_self_of(op->context->na_class)->held, op);
}

static unsigned na_self_poll(struct na_context *context)
{
    return na_loop_poll(&na_self_of(context->na_class)->held);
}

static int na_self_poll_fd(struct na_context *context)
{
    (void) context;
    return NA_POLL_FD_IDLE;
}

static const char *const na_self_protocols[] = {"self", NULL};

static const struct na_plugin na_self_plugin = {
    .abi = NA_PLUGIN_ABI,
    .size = sizeof(struct na_plugin),
    .name = "self",
    .protocols = na_self_protocols,
    .caps = NA_CAP_ORDERED | NA_CAP_HOLDS_BACK | NA_CAP_IN_MEMORY,
    .class_size = sizeof(struct na_self_class),
    .open = na_self_open,
    .close = na_self_close,
    .addr_terminate = na_self_terminate,
    .msg_send = na_self_send,
    .poll = na_self_poll,
    .poll_fd = na_self_poll_fd,
    .cancel = na_self_cancel,
    .addr_resolve = na_self_resolve,
};

HG_PRIVATE const struct na_plugin *na_self_table(void)
{
    return &na_self_plugin;
}
