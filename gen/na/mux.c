/* SPDX-License-Identifier: BSD-3-Clause */
/* mux: see mux.h. */
#include "na/mux.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "na/addr.h"
#include "na/context.h"
#include "emul/emul.h"
#include "na/msg.h"
#include "na/mux_addr.h"
#include "na/mux_lookup.h"
#include "na/mux_mem.h"
#include "na/op.h"
#include "na/plugins.h"
#include "na/progress.h"
#include "sm/sm.h"

/* ---- Operations ---- */

/* core->complete of a part: its operation stands for one of ours. */
static void na_mux_complete(struct na_op *inner, na_return_t ret)
{
    struct na_mux_part *part = na_mux_part_of(inner->context->na_class);
    struct na_op *op = (struct na_op *) na_op_core_of(inner)->arg;

    if (inner->type == NA_CB_LOOKUP) {
        na_mux_lookup_ended(part, inner, ret);
        return;
    }
    if (ret == NA_SUCCESS &&
        (inner->type == NA_CB_PUT || inner->type == NA_CB_GET))
        na_counter_add(part->moved, op->size); /* inner's is used up */
    na_op_complete(inner, ret);
    na_op_complete(op, ret);
}

/* An operation of a part's, which stands for `op`; NULL: no memory (logged). */
static struct na_op_core *na_mux_op_get(
    struct na_op *op, unsigned part, struct na_addr *inner)
{
    struct na_mux_op *mux_op = na_mux_op_of(op);
    struct na_op_core *core;

    assert(part < na_mux_of(op->context->na_class)->count);
    assert(na_mux_part_of(inner->na_class)->mux ==
        na_mux_of(op->context->na_class));
    mux_op->part = part;
    core = na_op_get(na_mux_inner_context(op->context, part), op->type,
        NA_LANE_INTERNAL, NULL, op, &mux_op->inner);
    if (core != NULL)
        na_op_set_addr(core, inner);
    return core;
}

static na_return_t na_mux_terminate(struct na_op *op)
{
    struct na_mux_addr *addr = na_mux_addr_of(op->addr);
    struct na_op_core *core = na_mux_op_get(op, addr->part, addr->inner);
    na_return_t ret;

    if (core == NULL)
        return NA_NOMEM;
    ret = na_class_ops(addr->inner->na_class)->addr_terminate(&core->pub);
    if (ret != NA_SUCCESS)
        na_op_put(core);
    return ret;
}

static na_return_t na_mux_cancel(struct na_op *op, uint64_t op_id)
{
    const struct na_mux_op *mux_op = na_mux_op_of(op);
    struct na_context *context;
    na_op_id_t inner;

    if (na_mux_lookup_cancel(op, op_id))
        return NA_SUCCESS;
    inner = mux_op->inner;
    context = na_mux_inner_context(op->context, mux_op->part);
    /* If it is the one that was meant, so is what stands for it. */
    if (na_op_id_of(op) != op_id)
        return NA_NOENTRY;
    return na_context_cancel(context, inner);
}

/* ---- Messages ---- */

/* Start a send that cannot go out at once. */
static na_return_t na_mux_queue(
    struct na_op *op, unsigned part, const struct na_msg *msg)
{
    struct na_op_core *core = na_mux_op_get(op, part, msg->addr);
    na_return_t ret;

    if (core == NULL)
        return NA_NOMEM;
    ret = na_op_set_msg(core, msg);
    if (ret == NA_SUCCESS)
        ret = na_class_ops(msg->addr->na_class)
                  ->msg_send(core->pub.context, &core->pub.msg, &core->pub);
    if (ret != NA_SUCCESS)
        na_op_put(core);
    return ret;
}

static na_return_t na_mux_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    struct na_mux_class *mux = na_mux_of(context->na_class);
    const struct na_mux_addr *addr = na_mux_addr_of(msg->addr);
    struct na_mux_part *part = &mux->parts[addr->part];
    struct na_msg inner = *msg;
    na_return_t ret;

    assert(addr->part < mux->count && addr->inner != NULL);
    inner.addr = addr->inner;
    if (op == NULL)
        ret = na_class_ops(part->na_class)
                  ->msg_send(
                      na_mux_inner_context(context, addr->part), &inner, NULL);
    else
        ret = na_mux_queue(op, addr->part, &inner);
    if (ret == NA_SUCCESS)
        na_counter_add(part->sent, inner.size);
    return ret;
}

/* core->msg_arrived of a part. */
static na_return_t na_mux_arrived(struct na_class *inner,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size)
{
    struct na_mux_part *part = na_mux_part_of(inner);
    struct na_class *na_class = &part->mux->base;
    struct na_addr *addr = na_mux_addr_above(part, source, NULL);
    na_return_t ret = NA_NOMEM;

    if (addr != NULL) {
        ret = na_msg_arrived(na_class, addr, plane, target, tag, data, size);
        na_addr_unref(addr);
    }
    if (ret == NA_AGAIN && (na_class_ops(inner)->caps & NA_CAP_HOLDS_BACK) != 0)
        return NA_AGAIN;
    if (ret != NA_SUCCESS)
        na_class->core->count(na_class, "msg_dropped", 1);
    return NA_SUCCESS;
}

/* ---- The wheel ---- */

static unsigned na_mux_poll_part(struct na_context *inner)
{
    struct na_class_core *core = na_class_core_of(inner->na_class);
    unsigned n = core->ops.poll(inner);

    return core->emul != NULL ? n + na_emul_poll(core->emul) : n;
}

static unsigned na_mux_poll(struct na_context *context)
{
    const struct na_mux_class *mux = na_mux_of(context->na_class);
    unsigned n = 0;
    unsigned i;

    for (i = 0; i < mux->count; i++)
        n += na_mux_poll_part(na_mux_inner_context(context, i));
    return n;
}

/* When emulation has something to do, though nobody wakes. */
static uint64_t na_mux_due_one(const struct na_class *na_class)
{
    struct na_emul *emul = na_class_emul(na_class);

    return emul != NULL ? na_emul_due(emul) : HG_CLOCK_NEVER;
}

HG_PRIVATE uint64_t na_mux_due(const struct na_class *na_class)
{
    const struct na_mux_class *mux = na_mux_of(na_class);
    uint64_t due = HG_CLOCK_NEVER;
    unsigned i;

    if (!na_mux_is(na_class))
        return na_mux_due_one(na_class);
    for (i = 0; i < mux->count; i++) {
        uint64_t part = na_mux_due_one(mux->parts[i].na_class);

        due = part < due ? part : due;
    }
    return due;
}

static int na_mux_poll_fd(struct na_context *context)
{
    return HG_CONTAINER_OF(context, struct na_mux_context, base)->fd;
}

static na_bool_t na_mux_wait_begin(struct na_context *context)
{
    const struct na_mux_class *mux = na_mux_of(context->na_class);
    bool idle = true;
    unsigned i;

    for (i = 0; i < mux->count; i++) {
        struct na_class *inner = mux->parts[i].na_class;
        struct na_emul *emul = na_class_emul(inner);

        if (!na_class_ops(inner)->wait_begin(na_mux_inner_context(context, i)))
            idle = false;
        if (emul != NULL && na_emul_has_work(emul))
            idle = false;
    }
    return idle ? NA_TRUE : NA_FALSE;
}

static void na_mux_wait_end(struct na_context *context)
{
    const struct na_mux_class *mux = na_mux_of(context->na_class);
    unsigned i;

    for (i = 0; i < mux->count; i++)
        na_class_ops(mux->parts[i].na_class)
            ->wait_end(na_mux_inner_context(context, i));
}

/* core->wake of a part: who sleeps does so in our contexts. */
static void na_mux_wake(struct na_class *inner)
{
    struct na_class *na_class = &na_mux_part_of(inner)->mux->base;

    na_class->core->wake(na_class);
}

static void na_mux_reclaim(struct na_class *na_class)
{
    const struct na_mux_class *mux = na_mux_of(na_class);
    unsigned i;

    for (i = 0; i < mux->count; i++)
        na_class_ops(mux->parts[i].na_class)->reclaim(mux->parts[i].na_class);
}

/* ---- Contexts ---- */

/* One descriptor for those of all parts. A part without one is polled, and so
 * are all. */
static void na_mux_join(
    const struct na_mux_class *mux, struct na_mux_context *context)
{
    unsigned i;

    context->fd = NA_POLL_FD_IDLE;
    for (i = 0; i < mux->count && context->fd != NA_POLL_FD_NONE; i++) {
        int fd =
            na_class_ops(mux->parts[i].na_class)->poll_fd(context->inner[i]);

        if (fd == NA_POLL_FD_IDLE)
            continue;
        if (fd == NA_POLL_FD_NONE || context->fd == NA_POLL_FD_IDLE) {
            context->fd = fd;
            continue;
        }
        fd = na_progress_join_fds(context->fd, fd);
        context->fd = fd >= 0 ? fd : NA_POLL_FD_NONE;
        if (fd >= 0)
            context->joined[context->joined_count++] = fd;
    }
}

static void na_mux_context_destroy(struct na_context *base)
{
    struct na_mux_context *context =
        HG_CONTAINER_OF(base, struct na_mux_context, base);
    unsigned i;

    for (i = 0; i < NA_MUX_PARTS; i++) {
        if (context->inner[i] != NULL)
            (void) na_context_destroy(context->inner[i], NA_CONTEXT_DRAIN_MS);
        context->inner[i] = NULL;
    }
    while (context->joined_count > 0)
        (void) close(context->joined[--context->joined_count]);
}

static na_return_t na_mux_context_create(struct na_context *base)
{
    struct na_mux_context *context =
        HG_CONTAINER_OF(base, struct na_mux_context, base);
    const struct na_mux_class *mux = na_mux_of(base->na_class);
    na_return_t ret = NA_SUCCESS;
    unsigned i;

    for (i = 0; i < mux->count && ret == NA_SUCCESS; i++)
        ret = na_context_create(mux->parts[i].na_class,
            base->helper ? NA_CONTEXT_HELPER : NA_CONTEXT_LAYER,
            &context->inner[i]);
    if (ret == NA_SUCCESS)
        na_mux_join(mux, context);
    else
        na_mux_context_destroy(base);
    return ret;
}

/* ---- Life ---- */

/* core->count of a part: NA_Get_counter and hg_tool read ours. */
static void na_mux_count(struct na_class *inner, const char *name, uint64_t n)
{
    struct na_class *na_class = &na_mux_part_of(inner)->mux->base;

    na_class->core->count(na_class, name, n);
}

/* A class of the list was opened: it is a part from now on. */
static na_return_t na_mux_adopt(
    struct na_mux_class *mux, struct na_class *inner)
{
    struct na_mux_part *part = &mux->parts[mux->count];
    char tag[NA_MUX_WIRE_TAG_MAX] = "";
    unsigned i;

    na_mux_wire_tag(inner, tag);
    for (i = 0; i < mux->count; i++) {
        if (strcmp(mux->parts[i].tag, tag) == 0) {
            hg_log_error("cls", "%s stands twice in the list", tag);
            return NA_INVALID_ARG;
        }
    }
    memcpy(part->tag, tag, sizeof(tag));
    (void) snprintf(
        part->sent_name, sizeof(part->sent_name), "mux_sent_%s", tag);
    (void) snprintf(
        part->moved_name, sizeof(part->moved_name), "mux_moved_%s", tag);
    part->sent =
        na_class_counter(na_class_core_of(&mux->base), part->sent_name);
    part->moved =
        na_class_counter(na_class_core_of(&mux->base), part->moved_name);
    part->mux = mux;
    part->na_class = inner;
    part->below = inner->core;
    part->core = *inner->core;
    part->core.complete = na_mux_complete;
    part->core.msg_arrived = na_mux_arrived;
    part->core.addr_dead = na_mux_addr_dead;
    part->core.addr_parted = na_mux_addr_parted;
    part->core.addr_unreached = na_mux_addr_unreached;
    part->core.wake = na_mux_wake;
    part->core.count = na_mux_count;
    na_class_core_of(inner)->part = part;
    inner->core = &part->core;
    if (strcmp(part->tag, "sm") == 0)
        mux->sm = mux->count;
    mux->count++;
    return NA_SUCCESS;
}

/* Whether it is sm. */
static bool na_mux_is_sm(const char *string)
{
    struct na_uri uri;

    return na_uri_parse(string, &uri) == NA_SUCCESS &&
        strcmp(uri.protocol, "sm") == 0;
}

/* ... with the name left to us. */
static bool na_mux_is_silent(const char *string)
{
    const char *mark = strstr(string, "://");

    return na_mux_is_sm(string) && (mark == NULL || mark[3] == '\0');
}

static na_return_t na_mux_open_part(
    struct na_mux_class *mux, const char *string)
{
    struct na_init_info info = *mux->base.info;
    struct na_class *inner;
    na_return_t ret;

    assert(mux->count <= NA_MUX_PARTS);
    if (mux->count == NA_MUX_PARTS) {
        hg_log_error("cls", "a list has %d transports at most", NA_MUX_PARTS);
        return NA_INVALID_ARG;
    }
    info.progress_thread = NA_FALSE; /* ours drives it */
    info.max_contexts = 0;
    inner = NA_Initialize_opt(string, mux->base.listen, &info);
    if (inner == NULL)
        return NA_NODEV; /* which it has logged */
    na_class_core_of(inner)->lock = na_class_core_of(&mux->base)->lock;
    ret = na_mux_adopt(mux, inner);
    if (ret != NA_SUCCESS)
        (void) NA_Finalize(inner);
    return ret;
}

/* Open sm under the name that follows from the first address. Where somebody
 * else has that, peers come the other way. */
static na_return_t na_mux_open_silent(struct na_mux_class *mux)
{
    char name[NA_MAX_ADDR_LEN];

    mux->sm_silent = true;
    (void) snprintf(name, sizeof(name), "sm://");
    if (mux->base.listen && mux->count > 0)
        (void) na_mux_lookup_silent_name(
            mux->parts[0].na_class->self_addr->name, name);
    if (name[5] != '\0' && !na_sm_is_free(name + 5)) {
        hg_log_warning("cls", "%s is taken: nobody comes by it", name);
        name[5] = '\0';
    }
    return na_mux_open_part(mux, name);
}

static na_return_t na_mux_open_parts(struct na_mux_class *mux, const char *list)
{
    char string[NA_MAX_ADDR_LEN];
    na_return_t ret = NA_SUCCESS;
    bool silent = false;

    while (ret == NA_SUCCESS && na_mux_wire_next(&list, string)) {
        if (na_mux_is_silent(string))
            silent = true;
        else
            ret = na_mux_open_part(mux, string);
    }
    return ret == NA_SUCCESS && silent ? na_mux_open_silent(mux) : ret;
}

/* What all parts can do, and only that. */
static void na_mux_limit(struct na_mux_class *mux)
{
    struct na_class *na_class = &mux->base;
    struct na_plugin *ops = &na_class_core_of(na_class)->ops;
    uint64_t any = 0;
    unsigned i;

    na_class->max_unexpected_size = UINT64_MAX;
    na_class->max_expected_size = UINT64_MAX;
    na_class->max_tag = UINT32_MAX;
    for (i = 0; i < mux->count; i++) {
        const struct na_class *inner = mux->parts[i].na_class;
        const struct na_plugin *has = na_class_ops(inner);

        if (inner->max_unexpected_size < na_class->max_unexpected_size)
            na_class->max_unexpected_size = inner->max_unexpected_size;
        if (inner->max_expected_size < na_class->max_expected_size)
            na_class->max_expected_size = inner->max_expected_size;
        if (inner->max_tag < na_class->max_tag)
            na_class->max_tag = inner->max_tag;
        if (has->max_segments != 0 &&
            (ops->max_segments == 0 || has->max_segments < ops->max_segments))
            ops->max_segments = has->max_segments;
        if (na_class_emul(inner) != NULL || (has->caps & NA_CAP_ORDERED) == 0)
            ops->caps &= ~(uint64_t) NA_CAP_ORDERED;
        any |= has->caps;
    }
    ops->caps &= any | NA_CAP_ORDERED;
    ops->name = na_class_ops(mux->parts[0].na_class)->name;
}

/* Our own address: those of all parts, but of sm where it follows. */
static na_return_t na_mux_open_self(struct na_mux_class *mux)
{
    char name[NA_MUX_PARTS * NA_MAX_ADDR_LEN];
    struct na_class *na_class = &mux->base;
    struct na_mux_addr *addr;
    size_t size = 0;
    unsigned i;

    for (i = 0; i < mux->count; i++) {
        struct na_addr *part = mux->parts[i].na_class->self_addr;

        if (i > 0 && i == mux->sm && mux->sm_silent)
            continue;
        size += (size_t) snprintf(name + size, sizeof(name) - size, "%s%s",
            size > 0 ? ";" : "", na_addr_core_of(part)->name);
    }
    if (size >= NA_MAX_ADDR_LEN) {
        hg_log_error("cls", "the addresses are too long for one string");
        return NA_MSGSIZE;
    }
    na_class->self_addr = na_class->core->addr_create(na_class, name, NA_TRUE);
    if (na_class->self_addr == NULL)
        return NA_NOMEM;
    addr = na_mux_addr_of(na_class->self_addr);
    addr->part = 0;
    addr->inner = mux->parts[0].na_class->self_addr;
    na_addr_ref(addr->inner);
    hg_list_push(&mux->addrs, &addr->link);
    return NA_SUCCESS;
}

static void na_mux_close_parts(struct na_mux_class *mux)
{
    unsigned i;

    /* A name of sm's that follows from another address goes before that. */
    for (i = mux->count; i > 0; i--)
        (void) NA_Finalize(mux->parts[i - 1].na_class);
    pthread_mutex_destroy(&mux->lock);
}

static na_return_t na_mux_open(struct na_class *na_class, const char *list)
{
    struct na_mux_class *mux = na_mux_of(na_class);
    na_return_t ret = hg_lock_init(&mux->lock);

    if (ret != NA_SUCCESS)
        return ret;
    hg_list_init(&mux->addrs);
    mux->sm = NA_MUX_PARTS;
    ret = na_mux_open_parts(mux, list);
    if (ret == NA_SUCCESS) {
        na_mux_limit(mux);
        ret = na_mux_open_self(mux);
    }
    if (ret != NA_SUCCESS)
        na_mux_close_parts(mux);
    return ret;
}

static void na_mux_close(struct na_class *na_class, unsigned linger_ms)
{
    struct na_mux_class *mux = na_mux_of(na_class);

    (void) linger_ms; /* each part has its own */
    na_mux_addr_part_all(mux);
    na_mux_close_parts(mux);
}

/* ---- Whose an address is ---- */

static const char *na_mux_addr_identity(const struct na_addr *base)
{
    const struct na_addr *inner = na_mux_addr_of(base)->inner;

    return inner == NULL ? ""
                         : na_class_ops(inner->na_class)->addr_identity(inner);
}

/* The part tells of its death. */
static void na_mux_addr_abandon(struct na_addr *base)
{
    struct na_addr *inner = na_mux_addr_of(base)->inner;

    if (inner != NULL)
        na_addr_abandon(inner);
}

static const char *const na_mux_protocols[] = {NULL};

static const struct na_plugin na_mux_plugin = {
    .abi = NA_PLUGIN_ABI,
    .size = sizeof(struct na_plugin),
    .name = "mux",
    .protocols = na_mux_protocols,
    .caps = NA_CAP_ORDERED | NA_CAP_HOLDS_BACK | NA_CAP_AUTH_KEY |
        NA_CAP_CURVE, /* each part decides */
    .class_size = sizeof(struct na_mux_class),
    .context_size = sizeof(struct na_mux_context),
    .addr_size = sizeof(struct na_mux_addr),
    .op_size = sizeof(struct na_mux_op),
    .mem_size = sizeof(struct na_mux_mem),
    .open = na_mux_open,
    .close = na_mux_close,
    .context_create = na_mux_context_create,
    .context_destroy = na_mux_context_destroy,
    .addr_lookup = na_mux_lookup_start,
    .addr_release = na_mux_addr_release,
    .addr_cmp = na_mux_addr_cmp,
    .addr_terminate = na_mux_terminate,
    .msg_send = na_mux_send,
    .mem_register = na_mux_mem_register,
    .mem_deregister = na_mux_mem_deregister,
    .mem_serialize_size = na_mux_mem_serialize_size,
    .mem_serialize = na_mux_mem_serialize,
    .mem_deserialize = na_mux_mem_deserialize,
    .put = na_mux_mem_move,
    .get = na_mux_mem_move,
    .poll = na_mux_poll,
    .poll_fd = na_mux_poll_fd,
    .wait_begin = na_mux_wait_begin,
    .wait_end = na_mux_wait_end,
    .cancel = na_mux_cancel,
    .reclaim = na_mux_reclaim,
    .mem_alloc = na_mux_mem_alloc,
    .rma_now = na_mux_mem_move_now,
    .addr_identity = na_mux_addr_identity,
    .addr_abandon = na_mux_addr_abandon,
    .mem_release = na_mux_mem_release,
    .addr_resolve = na_mux_lookup_resolve,
};

HG_PRIVATE const struct na_plugin *na_mux_table(void)
{
    return &na_mux_plugin;
}

HG_PRIVATE bool na_mux_is(const struct na_class *na_class)
{
    return na_class_ops(na_class)->put == na_mux_mem_move;
}

HG_PRIVATE struct na_addr *na_mux_inner(struct na_addr *addr)
{
    return na_mux_is(addr->na_class) ? na_mux_addr_of(addr)->inner : addr;
}
