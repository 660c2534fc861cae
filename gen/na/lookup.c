/* SPDX-License-Identifier: BSD-3-Clause */
/* lookup: see lookup.h. */
#include "na/lookup.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "mux/mux.h"
#include "na/addr.h"
#include "na/context.h"
#include "na/live.h"
#include "na/op.h"
#include "na/progress.h"
#include "na/uri.h"

/* How long to wait between two tries of NA_Addr_lookup_listener, in ns. */
#define NA_LOOKUP_PAUSE_MIN ((uint64_t) 5000000)
#define NA_LOOKUP_PAUSE_MAX ((uint64_t) 160000000)

/* Check the form of a name, given by the application or a peer. */
static na_return_t na_lookup_check(const char *name, na_bool_t from_peer)
{
    struct na_uri uri;

    return na_uri_read(na_addr_name_level(from_peer), name, &uri);
}

/* No part of the class reaches such an address. */
static na_return_t na_lookup_refuse(
    struct na_class *na_class, const char *name, na_bool_t from_peer)
{
    const struct na_class_core *part = na_class_core_of(na_class);
    char parts[NA_MAX_ADDR_LEN] = "";
    size_t used;

    for (; part != NULL; part = part->next) {
        used = strlen(parts);
        (void) snprintf(parts + used, sizeof(parts) - used, "%s%s",
            used > 0 ? ", " : "", part->tag);
    }
    HG_LOG_AT(na_addr_name_level(from_peer), "addr",
        "'%s': this class was opened for %s", name, parts);
    return NA_PROTONOSUPPORT;
}

/* As na_lookup_start; `quiet`: see struct na_op. */
static na_return_t na_lookup_begin(struct na_context *context,
    enum na_lane lane, na_cb_t callback, void *arg, const char *name,
    na_bool_t quiet, na_op_id_t *op_id)
{
    struct na_class_core *core = na_class_core_of(context->na_class);
    struct na_class *part;
    struct na_op_core *op;
    char *wanted;
    na_return_t ret = na_lookup_check(name, NA_FALSE);

    if (ret != NA_SUCCESS)
        return na_op_started(ret, op_id);
    hg_enter(core->lock);
    op = na_op_get(context, NA_CB_LOOKUP, lane, callback, arg, op_id);
    if (op == NULL) {
        ret = NA_NOMEM;
        goto leave;
    }
    op->name = (char *) hg_mem_alloc(strlen(name) + 1 + HG_LOG_TEXT_MAX);
    if (op->name == NULL) {
        hg_log_error("addr", "no memory for the name '%s'", name);
        ret = NA_NOMEM;
        goto put_op;
    }
    _Static_assert(HG_LOG_TEXT_MAX >= NA_MAX_ADDR_LEN, "room for a name");
    wanted = op->name + strlen(name) + 1;
    memcpy(op->name, name, strlen(name) + 1);
    part = na_mux_choose(&core->pub, name, wanted);
    if (part != NULL) {
        na_op_set_part(op, part);
        op->pub.name = wanted;
        op->pub.quiet = quiet;
        ret = na_class_ops(part)->addr_lookup(&op->pub);
    }
    if (part == NULL)
        ret = na_lookup_refuse(&core->pub, name, NA_FALSE);
    if (ret == NA_SUCCESS)
        goto leave;

put_op:
    na_op_put(op);
leave:
    hg_leave(core->lock);
    return na_op_started(ret, op_id);
}

HG_PRIVATE na_return_t na_lookup_start(struct na_context *context,
    enum na_lane lane, na_cb_t callback, void *arg, const char *name,
    na_op_id_t *op_id)
{
    return na_lookup_begin(context, lane, callback, arg, name, NA_FALSE, op_id);
}

NA_EXPORT na_return_t NA_Addr_lookup(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const char *name,
    na_op_id_t *op_id)
{
    na_return_t ret =
        na_live_check_context(na_class, context, "NA_Addr_lookup");

    if (ret == NA_SUCCESS && name == NULL)
        ret = hg_log_misuse("addr", "NA_Addr_lookup", "the name is NULL");
    if (ret != NA_SUCCESS)
        return na_op_started(ret, op_id);
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

/* Look up a name in a context, and wait. `waiter` gets the result. */
static na_return_t na_lookup_try(struct na_context *context, const char *name,
    na_bool_t quiet, uint64_t deadline, struct na_lookup_waiter *waiter)
{
    struct na_context_core *core = na_context_core_of(context);
    na_return_t ret;

    memset(waiter, 0, sizeof(*waiter));
    ret = na_lookup_begin(context, NA_LANE_DONE, na_lookup_done, waiter, name,
        quiet, NA_OP_ID_IGNORE);
    na_context_enter(core);
    while (ret == NA_SUCCESS && !waiter->done) {
        ret = na_progress(context, NA_LANES_ALL, NULL, deadline);
        (void) na_queue_run(&core->queue, NA_LANES_ALL, 1, HG_CLOCK_NEVER);
    }
    na_context_leave(core);
    return waiter->done ? waiter->ret : ret;
}

/* Nobody listens yet: make progress for a while, longer each time. Returns
 * NA_SUCCESS if there is time for another try, NA_TIMEOUT or NA_INTR. */
static na_return_t na_lookup_pause(
    struct na_context *context, uint64_t *pause, uint64_t deadline)
{
    uint64_t until = hg_clock_now() + *pause;
    na_return_t ret;

    if (until >= deadline)
        until = deadline;
    if (*pause < NA_LOOKUP_PAUSE_MAX)
        *pause *= 2;
    na_context_enter(na_context_core_of(context));
    ret = na_progress(context, NA_LANES_ALL, NULL, until);
    na_context_leave(na_context_core_of(context));
    if (ret == NA_INTR)
        return NA_INTR;
    return hg_clock_is_past(deadline) ? NA_TIMEOUT : NA_SUCCESS;
}

/* Look up a name in a new context and wait; with `listener` also until somebody
 * listens there. *addr_p is passed to the application. */
static na_return_t na_lookup_wait(struct na_class *na_class, const char *name,
    unsigned timeout_ms, na_bool_t listener, struct na_addr **addr_p)
{
    uint64_t deadline = hg_clock_after_ms(timeout_ms);
    uint64_t pause = NA_LOOKUP_PAUSE_MIN;
    struct na_lookup_waiter waiter;
    struct na_context *context = NULL;
    unsigned tries = 1;
    na_return_t ret;

    ret = na_context_create(na_class, NA_CONTEXT_HELPER, &context);
    if (ret != NA_SUCCESS)
        return ret;
    ret = na_lookup_try(context, name, listener, deadline, &waiter);
    while (listener && ret == NA_HOSTUNREACH) {
        ret = na_lookup_pause(context, &pause, deadline);
        if (ret != NA_SUCCESS)
            break;
        tries++;
        ret = na_lookup_try(context, name, listener, deadline, &waiter);
    }
    if (ret == NA_TIMEOUT && listener)
        hg_log_error("addr", "nobody listens at '%s': waited %u ms, tries: %u",
            name, timeout_ms, tries);
    else if (ret == NA_TIMEOUT)
        hg_log_error("addr", "no response from '%s' in %u ms%s", name,
            timeout_ms,
            timeout_ms <= na_class->info->lookup_ms
                ? ": a timeout longer than lookup_ms tells the cause"
                : "");
    else if (ret == NA_SUCCESS && tries > 1)
        hg_log_info(
            "addr", "waited until '%s' listened, tries: %u", name, tries);
    /* Destroying the context cancels a pending lookup. */
    (void) na_context_destroy(context, NA_CONTEXT_DRAIN_MS);
    if (ret == NA_SUCCESS)
        *addr_p = waiter.addr;
    return ret;
}

/* Resolve a name by the part that reaches the peer. */
static na_return_t na_lookup_find(struct na_class *na_class, const char *name,
    na_bool_t from_peer, struct na_addr **addr_p)
{
    char wanted[NA_MAX_ADDR_LEN];
    struct na_class *part = na_mux_choose(na_class, name, wanted);
    na_return_t ret;

    if (part == NULL)
        return na_lookup_refuse(na_class, name, from_peer);
    hg_enter(na_class_core_of(part)->lock);
    ret = na_class_ops(part)->addr_resolve(part, wanted, from_peer, addr_p);
    if (ret == NA_SUCCESS)
        na_addr_set_named(*addr_p, from_peer);
    hg_leave(na_class_core_of(part)->lock);
    if (ret != NA_SUCCESS)
        return ret;
    if (na_class_core_of(na_class)->next != NULL)
        (void) na_addr_set_label(*addr_p, name);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_lookup_resolve(struct na_class *na_class,
    const char *name, na_bool_t from_peer, struct na_addr **addr_p)
{
    na_return_t ret = na_lookup_check(name, from_peer);

    if (ret == NA_SUCCESS)
        ret = na_lookup_find(na_class, name, from_peer, addr_p);
    if (!from_peer || ret == NA_SUCCESS || ret == NA_NOMEM)
        return ret;
    na_class->core->count(na_class, "bad_names", 1);
    /* A name from a peer is not an invalid argument of the application. */
    return ret == NA_INVALID_ARG || ret == NA_PROTONOSUPPORT ? NA_NODEV : ret;
}

/* The blocking lookups. */
static na_return_t na_lookup_blocking(na_class_t *na_class, const char *name,
    unsigned timeout_ms, na_bool_t listener, na_addr_t *addr,
    const char *function)
{
    na_return_t ret = na_live_check(na_class, function);

    if (ret != NA_SUCCESS)
        return ret;
    if (name == NULL || addr == NULL)
        return hg_log_misuse("addr", function, "an argument is NULL");
    hg_log_keep_errors(function);
    ret = na_lookup_wait(na_class, name, timeout_ms, listener, addr);
    hg_log_keep_errors(NULL);
    if (ret == NA_SUCCESS)
        hg_log_forget_error();
    if (ret != NA_SUCCESS && HG_Get_last_error_text()[0] == '\0')
        hg_log_keep_text("%s: %s: %s", function, name, NA_Error_to_string(ret));
    return ret;
}

NA_EXPORT na_return_t NA_Addr_lookup_wait(na_class_t *na_class,
    const char *name, unsigned int timeout_ms, na_addr_t *addr)
{
    return na_lookup_blocking(
        na_class, name, timeout_ms, NA_FALSE, addr, "NA_Addr_lookup_wait");
}

NA_EXPORT na_return_t NA_Addr_lookup_listener(na_class_t *na_class,
    const char *name, unsigned int timeout_ms, na_addr_t *addr)
{
    return na_lookup_blocking(
        na_class, name, timeout_ms, NA_TRUE, addr, "NA_Addr_lookup_listener");
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
        return na_op_started(ret, op_id);
    na_context_enter(na_context_core_of(context));
    op =
        na_op_get(context, NA_CB_TERMINATE, NA_LANE_DONE, callback, arg, op_id);
    if (op == NULL) {
        ret = NA_NOMEM;
    } else {
        na_op_set_addr(op, addr);
        na_op_set_part(op, addr->na_class);
        ret = na_class_ops(addr->na_class)->addr_terminate(&op->pub);
        if (ret != NA_SUCCESS)
            na_op_put(op);
    }
    na_context_leave(na_context_core_of(context));
    return na_op_started(ret, op_id);
}
