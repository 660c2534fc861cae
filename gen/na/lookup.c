/* SPDX-License-Identifier: BSD-3-Clause */
/* lookup: see lookup.h. */
#include "na/lookup.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"
#include "na/context.h"
#include "na/live.h"
#include "na/mux.h"
#include "na/mux_wire.h"
#include "na/op.h"
#include "na/plugins.h"
#include "na/progress.h"
#include "na/uri.h"

HG_PRIVATE bool na_lookup_is_for(
    const struct na_class *na_class, const char *name)
{
    struct na_uri uri;

    return na_uri_read(HG_LOG_LEVEL_DEBUG, name, &uri) == NA_SUCCESS &&
        strcmp(uri.protocol, na_class->protocol) == 0 &&
        na_plugins_named(na_class_ops(na_class), &uri);
}

/* Of a peer with several addresses: the first of this class's protocol, or all
 * of them. */
static const char *na_lookup_pick(const struct na_class *na_class,
    const char *name, char part[NA_MAX_ADDR_LEN])
{
    const char *at = name;

    if (na_mux_is(na_class) || !na_mux_wire_is_list(name))
        return name;
    while (na_mux_wire_next(&at, part)) {
        if (na_lookup_is_for(na_class, part))
            return part;
    }
    return name;
}

/* Whether a name is an address of the class's transport. */
static na_return_t na_lookup_check(
    const struct na_class *na_class, const char *name, na_bool_t from_peer)
{
    const struct na_plugin *ops = na_class_ops(na_class);
    bool same = strcmp(ops->name, na_class->protocol) == 0;
    int level = na_addr_name_level(from_peer);
    struct na_uri uri;
    na_return_t ret = na_uri_read(level, name, &uri);

    if (ret != NA_SUCCESS || na_mux_is(na_class) ||
        na_plugins_speaks(ops, &uri))
        return ret;
    HG_LOG_AT(level, "addr", "'%s': this class was opened for %s%s%s", name,
        same ? "" : ops->name, same ? "" : "+", na_class->protocol);
    return NA_PROTONOSUPPORT;
}

HG_PRIVATE na_return_t na_lookup_start(struct na_context *context,
    enum na_lane lane, na_cb_t callback, void *arg, const char *name,
    na_op_id_t *op_id)
{
    const struct na_plugin *ops = na_class_ops(context->na_class);
    char part[NA_MAX_ADDR_LEN];
    struct na_op_core *op;
    na_return_t ret;

    name = na_lookup_pick(context->na_class, name, part);
    ret = na_lookup_check(context->na_class, name, NA_FALSE);
    if (ret != NA_SUCCESS)
        return ret;
    op = na_op_get(context, NA_CB_LOOKUP, lane, callback, arg, op_id);
    if (op == NULL)
        return NA_NOMEM;
    op->name = hg_mem_strdup(name);
    if (op->name == NULL) {
        hg_log_error("addr", "no memory for the name '%s'", name);
        ret = NA_NOMEM;
        goto put_op;
    }
    op->pub.name = op->name;
    ret = ops->addr_lookup(&op->pub);
    if (ret != NA_SUCCESS)
        goto put_op;
    return NA_SUCCESS;

put_op:
    na_op_put(op);
    return ret;
}

NA_EXPORT na_return_t NA_Addr_lookup(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const char *name,
    na_op_id_t *op_id)
{
    na_return_t ret =
        na_live_check_context(na_class, context, "NA_Addr_lookup");

    if (ret != NA_SUCCESS)
        return ret;
    if (name == NULL) {
        hg_log_error("addr", "NA_Addr_lookup: the name is NULL");
        return NA_INVALID_ARG;
    }
    return na_lookup_start(context, NA_LANE_DONE, callback, arg, name, op_id);
}

struct na_lookup_waiter {
    bool done;
    na_return_t ret;
    struct na_addr *addr;
};

static na_return_t na_lookup_done(const struct na_cb_info *info)
{
    struct na_lookup_waiter *waiter = (struct na_lookup_waiter *) info->arg;

    waiter->done = true;
    waiter->ret = info->ret;
    if (info->ret == NA_SUCCESS)
        waiter->addr = info->info.lookup.addr;
    return NA_SUCCESS;
}

/* Turn the context's wheel until the lookup ended or was taken back, which is
 * why; the result. */
static na_return_t na_lookup_drive(struct na_context *context,
    struct na_lookup_waiter *waiter, na_op_id_t op_id, unsigned timeout_ms)
{
    struct na_context_core *core = na_context_core_of(context);
    uint64_t deadline = hg_clock_after_ms(timeout_ms);
    na_return_t why = NA_SUCCESS;

    while (!waiter->done) {
        na_return_t ret;

        na_context_enter(core);
        ret = na_progress(context, NA_LANES_ALL, NULL, deadline);
        (void) na_queue_run(&core->queue, NA_LANES_ALL, 1, HG_CLOCK_NEVER);
        na_context_leave(core);
        if (waiter->done || why != NA_SUCCESS || ret == NA_SUCCESS)
            continue;
        why = ret;
        deadline = HG_CLOCK_NEVER;
        /* NA_NOENTRY: it ended meanwhile, or ends by itself. */
        (void) na_context_cancel(context, op_id);
    }
    return waiter->ret == NA_CANCELED ? why : waiter->ret;
}

/* Look a name up in a context of its own, and wait; *addr_p is given to the
 * application. */
static na_return_t na_lookup_wait(struct na_class *na_class, const char *name,
    unsigned timeout_ms, struct na_addr **addr_p)
{
    struct na_lookup_waiter waiter = {false, NA_SUCCESS, NULL};
    struct na_context *context = NULL;
    na_op_id_t op_id = NA_OP_ID_NULL;
    na_return_t ret;

    ret = na_context_create(na_class, NA_CONTEXT_HELPER, &context);
    if (ret != NA_SUCCESS)
        return ret;
    ret = na_lookup_start(
        context, NA_LANE_DONE, na_lookup_done, &waiter, name, &op_id);
    if (ret == NA_SUCCESS) {
        ret = na_lookup_drive(context, &waiter, op_id, timeout_ms);
        if (ret == NA_TIMEOUT)
            hg_log_error(
                "addr", "no answer of '%s' in %u ms", name, timeout_ms);
    }
    (void) na_context_destroy(context, NA_CONTEXT_DRAIN_MS);
    if (ret == NA_SUCCESS)
        *addr_p = waiter.addr;
    return ret;
}

/* For a transport that can only connect. */
static na_return_t na_lookup_connect(
    struct na_class *na_class, const char *name, struct na_addr **addr_p)
{
    na_return_t ret =
        na_lookup_wait(na_class, name, na_class->info->lookup_ms, addr_p);

    if (ret != NA_SUCCESS)
        return ret;
    na_addr_ref(*addr_p); /* it is not the application's */
    return na_addr_take_back(na_class, *addr_p, "NA_Addr_resolve");
}

HG_PRIVATE na_return_t na_lookup_resolve(struct na_class *na_class,
    const char *name, na_bool_t from_peer, struct na_addr **addr_p)
{
    const struct na_plugin *ops = na_class_ops(na_class);
    char part[NA_MAX_ADDR_LEN];
    na_return_t ret;

    name = na_lookup_pick(na_class, name, part);
    ret = na_lookup_check(na_class, name, from_peer);
    if (ret == NA_SUCCESS && ops->addr_resolve != NULL)
        ret = ops->addr_resolve(na_class, name, from_peer, addr_p);
    else if (ret == NA_SUCCESS)
        ret = from_peer ? NA_OPNOTSUPPORT
                        : na_lookup_connect(na_class, name, addr_p);
    if (!from_peer || ret == NA_SUCCESS || ret == NA_NOMEM)
        return ret;
    if (na_class_core_of(na_class)->part == NULL) /* else its list counts it */
        na_class->core->count(na_class, "bad_names", 1);
    /* A peer's name is no argument of the application's. */
    return ret == NA_INVALID_ARG || ret == NA_PROTONOSUPPORT ? NA_NODEV : ret;
}

NA_EXPORT na_return_t NA_Addr_lookup_wait(na_class_t *na_class,
    const char *name, unsigned int timeout_ms, na_addr_t *addr)
{
    na_return_t ret = na_live_check(na_class, "NA_Addr_lookup_wait");

    if (ret != NA_SUCCESS)
        return ret;
    if (name == NULL || addr == NULL)
        return hg_log_misuse(
            "addr", "NA_Addr_lookup_wait", "an argument is NULL");
    hg_log_keep_errors("NA_Addr_lookup_wait");
    ret = na_lookup_wait(na_class, name, timeout_ms, addr);
    hg_log_keep_errors(NULL);
    if (ret != NA_SUCCESS && HG_Get_last_error_text()[0] == '\0')
        hg_log_keep_text(
            "NA_Addr_lookup_wait: %s: %s", name, NA_Error_to_string(ret));
    return ret;
}

NA_EXPORT na_return_t NA_Addr_resolve(
    na_class_t *na_class, const char *name, na_addr_t *addr)
{
    struct na_addr *found;
    na_return_t ret = na_live_check(na_class, "NA_Addr_resolve");

    if (ret != NA_SUCCESS)
        return ret;
    if (name == NULL || addr == NULL) {
        hg_log_error("addr", "NA_Addr_resolve: an argument is NULL");
        return NA_INVALID_ARG;
    }
    ret = na_lookup_resolve(na_class, name, NA_FALSE, &found);
    if (ret == NA_SUCCESS) {
        na_addr_give(found);
        *addr = found;
    }
    return ret;
}

NA_EXPORT na_return_t NA_Addr_deserialize(
    na_class_t *na_class, na_addr_t *addr, const void *buf, na_size_t buf_size)
{
    na_return_t ret = na_live_check(na_class, "NA_Addr_deserialize");

    if (ret != NA_SUCCESS)
        return ret;
    if (addr == NULL || buf == NULL) {
        hg_log_error("addr", "NA_Addr_deserialize: an argument is NULL");
        return NA_INVALID_ARG;
    }
    if (memchr(buf, '\0', (size_t) buf_size) == NULL) {
        hg_log_warning("addr", "NA_Addr_deserialize: the bytes are no address");
        return NA_PROTOCOL_ERROR;
    }
    return NA_Addr_lookup_wait(
        na_class, (const char *) buf, na_class->info->lookup_ms, addr);
}

NA_EXPORT na_return_t NA_Addr_terminate(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, na_addr_t addr,
    na_op_id_t *op_id)
{
    struct na_op_core *op;
    na_return_t ret =
        na_live_check_context(na_class, context, "NA_Addr_terminate");

    if (ret == NA_SUCCESS)
        ret = na_addr_check(na_class, addr, "NA_Addr_terminate");
    if (ret != NA_SUCCESS)
        return ret;
    op =
        na_op_get(context, NA_CB_TERMINATE, NA_LANE_DONE, callback, arg, op_id);
    if (op == NULL)
        return NA_NOMEM;
    na_op_set_addr(op, addr);
    ret = na_class_ops(na_class)->addr_terminate(&op->pub);
    if (ret != NA_SUCCESS)
        na_op_put(op);
    return ret;
}
