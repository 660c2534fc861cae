/* SPDX-License-Identifier: BSD-3-Clause */
/* msg: see msg.h. */
#include "na/msg.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"
#include "na/live.h"
#include "na/op.h"

/* Approximate overhead of the allocator for a block. */
#define NA_MSG_OVERHEAD (2 * sizeof(void *))
/* Places of messages in the buffer of a receive of many. */
#define NA_MSG_ALIGN 16u
/* Bytes that last messages may take beyond what all peers together may use. */
#define NA_MSG_LAST_MAX ((uint64_t) 64 << 20)

/* A message; all pointers are borrowed. */
struct na_msg_in {
    struct na_addr *source;
    const void *data;
    na_size_t size;
    na_tag_t tag;
    uint8_t plane;
    uint8_t target; /* number of a sink or id of a context */
    bool last;      /* of a connection that has ended */
};

/* A queued copy of a message, which waits for a receive or a sink. */
struct na_msg_kept {
    struct na_link link;
    /* Its source is a reference, its data belongs to this struct. */
    struct na_msg_in in;
    unsigned char data[];
};

static struct na_msg_kept *na_msg_kept_of(struct na_link *link)
{
    return HG_CONTAINER_OF(link, struct na_msg_kept, link);
}

/* ---- Kept messages ---- */

HG_PRIVATE void na_msg_inbox_init(struct na_inbox *inbox)
{
    unsigned i;

    for (i = 0; i < NA_INBOX_LISTS; i++) {
        hg_list_init(&inbox->kept[i]);
        hg_list_init(&inbox->receives[i]);
    }
}

/* The list for messages of a plane, and for their receives. */
static unsigned na_msg_list(uint8_t plane, na_tag_t tag)
{
    if (plane == NA_MSG_EXPECTED)
        return (unsigned) ((tag * UINT64_C(0x9e3779b97f4a7c15)) >> 32) &
            (NA_INBOX_TAGS - 1);
    return plane == NA_MSG_RPC ? NA_INBOX_RPC : NA_INBOX_UNEXPECTED;
}

/* The weight of a queued message in bytes. */
static uint64_t na_msg_weight(na_size_t size)
{
    return size + sizeof(struct na_msg_kept) + NA_MSG_OVERHEAD;
}

/* Remove a queued message from its list. */
static void na_msg_take(struct na_inbox *inbox, struct na_msg_kept *kept)
{
    struct na_addr_core *source = na_addr_core_of(kept->in.source);
    uint64_t weight = na_msg_weight(kept->in.size);

    HG_ASSERT(source->queued_bytes >= weight);
    HG_ASSERT(inbox->queued_bytes >= source->queued_bytes);
    hg_list_remove(&kept->link);
    source->queued_bytes -= weight;
    inbox->queued_bytes -= weight;
}

static void na_msg_free(struct na_msg_kept *kept)
{
    na_addr_unref_locked(kept->in.source);
    hg_mem_free(kept);
}

/* Whether nothing can receive a queued message: its sender is dead, and the
 * message is a call; or an unexpected one, and the application has never
 * received such; or the application has no address of its sender. */
static bool na_msg_is_orphan(
    const struct na_inbox *inbox, const struct na_msg_kept *kept)
{
    struct na_addr *source = kept->in.source;

    if (!na_addr_is_dead(source))
        return false;
    switch (kept->in.plane) {
    case NA_MSG_UNEXPECTED: return !inbox->unexpected;
    case NA_MSG_EXPECTED:
        return atomic_load(&na_addr_core_of(source)->given) == 0;
    default: return true;
    }
}

/* Drop queued messages that nothing can receive, or all. Returns their
 * number. */
static unsigned na_msg_drop_kept(struct na_inbox *inbox, bool all)
{
    unsigned n = 0;
    unsigned i;

    inbox->has_dead = false;
    for (i = 0; i < NA_INBOX_LISTS; i++) {
        struct na_link *link = inbox->kept[i].next;

        while (link != &inbox->kept[i]) {
            struct na_msg_kept *kept = na_msg_kept_of(link);

            link = link->next;
            if (!all && !na_msg_is_orphan(inbox, kept))
                continue;
            na_msg_take(inbox, kept);
            na_msg_free(kept);
            n++;
        }
    }
    return n;
}

/* Make space in the queue. */
static void na_msg_drop_orphans(struct na_class_core *core)
{
    unsigned n = na_msg_drop_kept(&core->inbox, false);

    if (n == 0)
        return;
    core->pub.core->count(&core->pub, "msg_dropped", n);
    hg_log_warning("msg",
        "dropped %u messages of peers that have ended: no receive can get them",
        n);
}

HG_PRIVATE void na_msg_inbox_drop(struct na_class_core *core)
{
    hg_enter(core->lock);
    (void) na_msg_drop_kept(&core->inbox, true);
    HG_ASSERT(core->inbox.queued_bytes == 0);
    hg_leave(core->lock);
}

/* Whether a message of this weight would exceed the sender's share, or if it is
 * a last one, the limit for these. */
static bool na_msg_is_full(const struct na_class_core *core,
    const struct na_msg_in *in, uint64_t weight)
{
    uint64_t limit = core->info.max_queue_bytes;

    if (limit > UINT64_MAX / 4)
        limit = UINT64_MAX / 4; /* sums cannot overflow */
    if (in->last)
        return core->inbox.queued_bytes + weight > 2 * limit + NA_MSG_LAST_MAX;
    return !na_core_is_fair(na_addr_core_of(in->source)->queued_bytes,
        core->inbox.queued_bytes, weight, limit);
}

/* Queue a message without a receiver. NA_AGAIN: its sender has used its share.
 * NA_NOMEM: not logged. */
static na_return_t na_msg_keep(
    struct na_class_core *core, const struct na_msg_in *in)
{
    struct na_inbox *inbox = &core->inbox;
    uint64_t weight = na_msg_weight(in->size);
    struct na_msg_kept *kept;

    HG_ASSERT(hg_is_inside(core->lock));
    if (na_msg_is_full(core, in, weight) && inbox->has_dead)
        na_msg_drop_orphans(core);
    if (na_msg_is_full(core, in, weight))
        return NA_AGAIN;
    kept =
        (struct na_msg_kept *) hg_mem_alloc(sizeof(*kept) + (size_t) in->size);
    if (kept == NULL)
        return NA_NOMEM;
    na_addr_ref(in->source);
    kept->in = *in;
    kept->in.data = kept->data;
    if (in->size > 0)
        memcpy(kept->data, in->data, (size_t) in->size);
    na_addr_core_of(in->source)->queued_bytes += weight;
    inbox->queued_bytes += weight;
    if (na_addr_is_dead(in->source))
        inbox->has_dead = true; /* the peer died meanwhile */
    hg_list_push(&inbox->kept[na_msg_list(in->plane, in->tag)], &kept->link);
    return NA_SUCCESS;
}

/* ---- Arrivals ---- */

/* Whether a receive may take a message from `source`. While its address is
 * being connected, it may not: receives of that address match in their order
 * once the connection was made. */
static bool na_msg_is_from(const struct na_op *op, const struct na_addr *source)
{
    return op->addr == source ||
        (!na_addr_core_of(op->addr)->connecting &&
            na_addr_same(op->addr, source));
}

/* The first posted receive that matches the message; NULL: none. */
static struct na_op *na_msg_find_receive(
    struct na_inbox *inbox, const struct na_msg_in *in)
{
    struct na_link *head = &inbox->receives[na_msg_list(in->plane, in->tag)];
    struct na_link *link;

    for (link = head->next; link != head; link = link->next) {
        struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);

        if (op->addr == NULL || /* unexpected plane */
            (op->msg.tag == in->tag && na_msg_is_from(op, in->source)))
            return op;
    }
    return NULL;
}

/* Copy a message to a receive. NA_MSGSIZE: it is too long, counted and
 * logged. */
static na_return_t na_msg_copy(
    const struct na_op *op, const struct na_msg_in *in)
{
    const char *name = in->source->name != NULL ? in->source->name : "a peer";

    if (HG_LIKELY(in->size <= op->buf_size)) {
        if (in->size > 0)
            memcpy(op->buf, in->data, (size_t) in->size);
        return NA_SUCCESS;
    }
    in->source->na_class->core->count(in->source->na_class, "msg_too_long", 1);
    hg_log_warning("msg",
        "a message of %" PRIu64 " bytes from %s is too long for a receive "
        "of %" PRIu64,
        in->size, name, op->buf_size);
    return NA_MSGSIZE;
}

/* Add a message to a receive of many: `op->buf` and `op->buf_size` are what is
 * left of its buffer. */
static void na_msg_add(struct na_op *op, const struct na_msg_in *in)
{
    struct na_result result = {
        in->source, op->buf, in->size, in->tag, na_msg_copy(op, in), false};
    na_size_t used = NA_MSG_ALIGN; /* at least: it bounds the results */

    if (result.ret != NA_SUCCESS)
        result.source = NULL;
    else if (in->size > 0)
        used = (in->size + NA_MSG_ALIGN - 1) / NA_MSG_ALIGN * NA_MSG_ALIGN;
    if (used > op->buf_size)
        used = op->buf_size;
    op->buf = (unsigned char *) op->buf + used;
    op->buf_size -= used;
    result.last = op->buf_size < op->context->na_class->max_unexpected_size;
    if (na_op_add_result(op, result))
        hg_list_remove(&op->link);
}

/* Complete a receive with a message. */
static void na_msg_fill(struct na_op *op, const struct na_msg_in *in)
{
    na_return_t ret;

    if (op->type == NA_CB_MULTI_RECV_UNEXPECTED) {
        na_msg_add(op, in);
        return;
    }
    HG_ASSERT(
        op->type == NA_CB_RECV_EXPECTED || op->type == NA_CB_RECV_UNEXPECTED);
    hg_list_remove(&op->link);
    ret = na_msg_copy(op, in);
    if (ret == NA_SUCCESS) {
        op->result_size = in->size;
        op->result_tag = in->tag;
        if (op->type == NA_CB_RECV_UNEXPECTED) {
            na_addr_ref(in->source);
            op->result_addr = in->source;
        }
    }
    na_op_complete(op, ret);
}

/* The first queued message that matches a receive; NULL: none. */
static struct na_msg_kept *na_msg_find_kept(
    struct na_link *head, const struct na_op *op)
{
    struct na_link *link;

    for (link = head->next; link != head; link = link->next) {
        struct na_msg_kept *kept = na_msg_kept_of(link);

        if (op->addr == NULL || /* unexpected plane */
            (kept->in.tag == op->msg.tag &&
                na_msg_is_from(op, kept->in.source)))
            return kept;
    }
    return NULL;
}

/* Complete a receive with a queued message. False: none matches. */
static bool na_msg_match_kept(
    struct na_inbox *inbox, unsigned list, struct na_op *op)
{
    struct na_msg_kept *kept = na_msg_find_kept(&inbox->kept[list], op);

    if (kept == NULL)
        return false;
    na_msg_take(inbox, kept);
    na_msg_fill(op, &kept->in);
    na_msg_free(kept);
    return true;
}

/* Match the receives that wait for an address with the queued messages. */
static void na_msg_match_all(
    struct na_class_core *core, const struct na_addr *addr)
{
    struct na_inbox *inbox = &core->inbox;
    unsigned i;

    for (i = 0; inbox->queued_bytes > 0 && i < NA_INBOX_TAGS; i++) {
        struct na_link *link = inbox->receives[i].next;

        while (link != &inbox->receives[i]) {
            struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);

            link = link->next;
            if (op->addr == addr)
                (void) na_msg_match_kept(inbox, i, op);
        }
    }
    na_core_retry(core);
}

/* A receive waits for messages of an address. Returns whether receives may have
 * been completed. */
static bool na_msg_connect(struct na_class_core *core, struct na_addr *addr)
{
    bool *connecting = &na_addr_core_of(addr)->connecting;
    bool before = *connecting;

    if (addr->self || (!before && na_addr_is_known(addr)))
        return false;
    *connecting = na_class_ops(addr->na_class)->addr_connect(addr);
    if (!before || *connecting)
        return false;
    na_msg_match_all(core, addr);
    return true;
}

/* The first posted receive for a message that none matched yet. Its source may
 * have a receive whose address is not known. NULL: none. */
HG_NOINLINE static struct na_op *na_msg_seek_receive(
    struct na_class_core *core, const struct na_msg_in *in)
{
    struct na_link *head =
        &core->inbox.receives[na_msg_list(in->plane, in->tag)];
    struct na_link *link = head->next;

    while (link != head) {
        const struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);
        struct na_addr *addr = op->addr;

        link = link->next;
        if (addr == NULL || op->msg.tag != in->tag)
            continue;
        if (na_msg_connect(core, addr))
            link = head->next; /* its list has changed */
        else if (na_addr_core_of(addr)->connecting)
            na_addr_core_of(addr)->again = true; /* this may be too early */
    }
    return na_msg_find_receive(&core->inbox, in);
}

/* A message was not accepted; `ret` is the reason. NA_AGAIN: the transport
 * keeps it. Else it is dropped, counted and logged. */
HG_NOINLINE static na_return_t na_msg_refused(
    struct na_class_core *part, const struct na_msg_in *in, na_return_t ret)
{
    if ((ret == NA_AGAIN || ret == NA_NOMEM) && !in->last &&
        (part->ops.caps & NA_CAP_HOLDS_BACK) != 0) {
        part->head->inbox.held = true;
        return NA_AGAIN;
    }
    part->pub.core->count(&part->pub, "msg_dropped", 1);
    hg_log_warning("msg", "dropped a message of %" PRIu64 " bytes from %s: %s",
        in->size, in->source->name != NULL ? in->source->name : "a peer",
        NA_Error_to_string(ret));
    return NA_SUCCESS;
}

/* Deliver a message to a receive, or queue it. `ret`: the result of its sink;
 * NA_NOENTRY: it has none. */
static na_return_t na_msg_accept(
    struct na_class_core *part, const struct na_msg_in *in, na_return_t ret)
{
    struct na_class_core *core = part->head;

    if (in->source->stranger && in->plane != NA_MSG_RPC) {
        ret = NA_PERMISSION;
    } else if (ret == NA_NOENTRY) {
        struct na_op *op = na_msg_find_receive(&core->inbox, in);

        if (op == NULL)
            op = na_msg_seek_receive(core, in);
        if (op != NULL)
            na_msg_fill(op, in);
        ret = op != NULL ? NA_SUCCESS : na_msg_keep(core, in);
    }
    return ret == NA_SUCCESS ? ret : na_msg_refused(part, in, ret);
}

/* `last` is a constant, so that each caller gets a copy without a branch. */
static inline na_return_t na_msg_deliver(struct na_class *na_class,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size, bool last)
{
    struct na_class_core *part = na_class_core_of(na_class);
    struct na_class_core *core = part->head;
    na_return_t ret = NA_NOENTRY;

    HG_ASSERT(plane < NA_MSG_PLANE_MAX && source->na_class == na_class);
    HG_ASSERT(hg_is_inside(core->lock));
    if (plane == NA_MSG_RPC)
        ret = na_sink_deliver(core, source, target, tag, data, size);
    if (HG_UNLIKELY(ret != NA_SUCCESS)) {
        struct na_msg_in in = {source, data, size, tag, plane, target, last};

        ret = na_msg_accept(part, &in, ret);
    }
    return ret;
}

HG_PRIVATE na_return_t na_msg_arrived(struct na_class *na_class,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size)
{
    return na_msg_deliver(
        na_class, source, plane, target, tag, data, size, false);
}

HG_PRIVATE na_return_t na_msg_last(struct na_class *na_class,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size)
{
    na_return_t ret =
        na_msg_deliver(na_class, source, plane, target, tag, data, size, true);

    HG_ASSERT(ret == NA_SUCCESS);
    return ret;
}

HG_PRIVATE void na_msg_addr_ended(
    struct na_addr *addr, na_return_t ret, bool unreached, bool parted)
{
    struct na_class_core *core = na_class_core_of(addr->na_class)->head;
    unsigned i;

    HG_ASSERT(ret != NA_SUCCESS);
    HG_ASSERT(hg_is_inside(core->lock));
    na_addr_core_of(addr)->connecting = false;
    if (na_addr_is_dead(addr) && na_addr_core_of(addr)->queued_bytes > 0)
        core->inbox.has_dead = true;
    for (i = 0; unreached && i < NA_INBOX_TAGS; i++) {
        struct na_link *link = core->inbox.receives[i].next;

        while (link != &core->inbox.receives[i]) {
            struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);

            link = link->next;
            if (op->addr == addr) {
                hg_list_remove(&op->link);
                na_op_complete(op, ret);
            }
        }
    }
    for (i = 0; parted && i < NA_CORE_CONTEXTS; i++) {
        if (core->sinks[i].dead != NULL)
            core->sinks[i].dead(core->sinks[i].arg, addr, ret);
    }
}

HG_PRIVATE void na_msg_addr_connected(struct na_addr *addr, na_return_t ret)
{
    struct na_class_core *core = na_class_core_of(addr->na_class)->head;
    bool again;

    HG_ASSERT(hg_is_inside(core->lock));
    again = na_addr_core_of(addr)->again;
    na_addr_core_of(addr)->again = false;
    na_addr_core_of(addr)->connecting = false;
    if (ret == NA_SUCCESS)
        na_msg_match_all(core, addr);
    else if (again)
        (void) na_msg_connect(core, addr);
}

/* ---- Sinks ---- */

HG_PRIVATE void *na_sink_arg(const struct na_class_core *core, unsigned number)
{
    HG_ASSERT(hg_is_inside(core->lock));
    return core->sinks[number].arg;
}

/* Deliver queued messages to a new sink. If it has no memory for one, the
 * connection of the sender ends, which learns that way that it is lost. */
static void na_msg_hand_kept(struct na_class_core *core, unsigned number)
{
    struct na_link *head = &core->inbox.kept[NA_INBOX_RPC];
    struct na_link *link = head->next;
    na_return_t ret;

    HG_ASSERT(number < NA_CORE_CONTEXTS && core->sinks[number].take != NULL);
    while (link != head) {
        struct na_msg_kept *kept = na_msg_kept_of(link);

        link = link->next;
        if (kept->in.target != number)
            continue;
        na_msg_take(&core->inbox, kept);
        ret = na_sink_deliver(core, kept->in.source, kept->in.target,
            kept->in.tag, kept->in.data, kept->in.size);
        if (ret != NA_SUCCESS) {
            kept->in.last = true; /* no transport holds it */
            (void) na_msg_refused(
                na_class_core_of(kept->in.source->na_class), &kept->in, ret);
            na_addr_abandon(kept->in.source);
            link = head->next; /* the list may have changed */
        }
        na_msg_free(kept);
    }
}

HG_PRIVATE na_return_t na_sink_open(struct na_class *na_class, int wanted,
    na_rpc_cb_t take, na_rpc_dead_cb_t dead, void *arg, uint8_t *number_p)
{
    struct na_class_core *core = na_class_core_of(na_class);
    struct na_sink sink = {take, dead, arg};
    unsigned number = wanted < 0 ? 0 : (unsigned) wanted;
    bool free;

    hg_enter(core->lock);
    while (wanted < 0 && number < NA_CORE_CONTEXTS - 1 &&
        core->sinks[number].take != NULL)
        number++;
    free = number < NA_CORE_CONTEXTS && core->sinks[number].take == NULL;
    if (free) {
        *number_p = (uint8_t) number;
        core->sinks[number] = sink;
        na_msg_hand_kept(core, number);
        na_core_retry(core);
    }
    hg_leave(core->lock);
    if (free)
        return NA_SUCCESS;
    hg_log_error(
        "ctx", "another context that accepts calls has the id %u", number);
    return NA_EXIST;
}

HG_PRIVATE void na_sink_close(struct na_class *na_class, uint8_t number)
{
    struct na_class_core *core = na_class_core_of(na_class);

    hg_enter(core->lock);
    memset(&core->sinks[number], 0, sizeof(core->sinks[number]));
    hg_leave(core->lock);
}

/* ---- Sends ---- */

/* Pass a message to the transport of its peer, to send it at once, or as
 * `op`. */
static HG_HOT na_return_t na_msg_give(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    struct na_class *part = msg->addr->na_class;
    na_return_t ret;

    HG_ASSERT(hg_is_inside(na_class_core_of(part)->lock));
    ret = na_class_ops(part)->msg_send(na_context_for(context, part), msg, op);
    if (ret == NA_SUCCESS)
        na_counter_add(na_class_core_of(part)->sent, msg->size);
    return ret;
}

/* Queue a send that could not complete at once. On error its operation is
 * released. */
static na_return_t na_msg_start(struct na_op_core *op, const struct na_msg *msg)
{
    na_return_t ret;

    na_op_set_addr(op, msg->addr);
    na_op_set_part(op, msg->addr->na_class);
    ret = na_op_set_msg(op, msg);
    if (ret == NA_SUCCESS)
        ret = na_msg_give(op->pub.context, &op->pub.msg, &op->pub);
    if (ret != NA_SUCCESS)
        na_op_put(op);
    return ret;
}

HG_PRIVATE na_return_t na_msg_try(
    struct na_context *context, const struct na_msg *msg)
{
    na_return_t ret = na_addr_state(msg->addr);

    if (ret != NA_SUCCESS)
        return ret;
    return na_msg_give(context, msg, NULL);
}

HG_PRIVATE na_return_t na_msg_queue(struct na_context *context,
    const struct na_msg *msg, na_cb_t callback, void *arg,
    _Atomic(na_op_id_t) *op_id_p)
{
    struct na_op_core *op = na_op_get(context, NA_CB_SEND_UNEXPECTED,
        NA_LANE_INTERNAL, callback, arg, NA_OP_ID_IGNORE);
    na_return_t ret = NA_NOMEM;

    if (op != NULL) {
        atomic_store(op_id_p, na_op_public_id(op));
        ret = na_msg_start(op, msg);
    }
    if (ret != NA_SUCCESS)
        atomic_store(op_id_p, NA_OP_ID_NULL);
    return ret;
}

/* ---- The NA interface: sends ---- */

static na_return_t na_msg_check_tag(
    const struct na_class *na_class, na_tag_t tag, const char *function)
{
    if (tag <= na_class->max_tag)
        return NA_SUCCESS;
    hg_log_error(
        "msg", "%s: tag %" PRIu32 " exceeds the maximum", function, tag);
    return NA_INVALID_ARG;
}

HG_PRIVATE na_return_t na_msg_check_send(const struct na_class *na_class,
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
    ret = na_msg_check_tag(na_class, msg->tag, function);
    return ret == NA_SUCCESS ? na_addr_check_alive(msg->addr, function) : ret;
}

/* All public send functions call this. */
static na_return_t na_msg_send(na_class_t *na_class, na_context_t *context,
    na_cb_type_t type, na_cb_t callback, void *arg,
    const struct na_segment *segments, na_size_t count, na_addr_t dest,
    na_tag_t tag, na_op_id_t *op_id, const char *function)
{
    struct na_context_core *core;
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
        return na_op_started(ret, op_id);
    core = na_context_core_of(context);
    na_context_enter(core);
    op = na_op_get(context, type, NA_LANE_DONE, callback, arg, op_id);
    ret = op == NULL ? NA_NOMEM : na_msg_give(context, &msg, NULL);
    if (ret == NA_AGAIN)
        ret = na_msg_start(op, &msg);
    else if (ret == NA_SUCCESS)
        na_op_complete(&op->pub, NA_SUCCESS);
    else if (op != NULL)
        na_op_put(op);
    na_context_leave(core);
    return na_op_started(ret, op_id);
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

/* All public functions that send now or not at all call this. */
static na_return_t na_msg_send_now(na_class_t *na_class, na_context_t *context,
    uint8_t plane, const struct na_segment *segments, na_size_t count,
    na_addr_t dest, na_tag_t tag, const char *function)
{
    struct na_msg msg;
    na_return_t ret;

    memset(&msg, 0, sizeof(msg));
    msg.addr = dest;
    msg.segments = segments;
    msg.segment_count = count;
    msg.tag = tag;
    msg.plane = plane;
    ret = na_msg_check_send(na_class, context, &msg, function);
    if (ret != NA_SUCCESS)
        return ret;
    na_context_enter(na_context_core_of(context));
    ret = na_msg_try(context, &msg);
    na_context_leave(na_context_core_of(context));
    return ret;
}

NA_EXPORT na_return_t NA_Msg_try_send_unexpected(na_class_t *na_class,
    na_context_t *context, const void *buf, na_size_t buf_size, na_addr_t dest,
    na_tag_t tag)
{
    struct na_segment segment;

    segment.address = (void *) (uintptr_t) buf;
    segment.size = buf_size;
    return na_msg_send_now(na_class, context, NA_MSG_UNEXPECTED, &segment, 1,
        dest, tag, "NA_Msg_try_send_unexpected");
}

NA_EXPORT na_return_t NA_Msg_try_send_expected(na_class_t *na_class,
    na_context_t *context, const void *buf, na_size_t buf_size, na_addr_t dest,
    na_tag_t tag)
{
    struct na_segment segment;

    segment.address = (void *) (uintptr_t) buf;
    segment.size = buf_size;
    return na_msg_send_now(na_class, context, NA_MSG_EXPECTED, &segment, 1,
        dest, tag, "NA_Msg_try_send_expected");
}

NA_EXPORT na_return_t NA_Msg_try_sendv_unexpected(na_class_t *na_class,
    na_context_t *context, const struct na_segment *segments, na_size_t count,
    na_addr_t dest, na_tag_t tag)
{
    return na_msg_send_now(na_class, context, NA_MSG_UNEXPECTED, segments,
        count, dest, tag, "NA_Msg_try_sendv_unexpected");
}

NA_EXPORT na_return_t NA_Msg_try_sendv_expected(na_class_t *na_class,
    na_context_t *context, const struct na_segment *segments, na_size_t count,
    na_addr_t dest, na_tag_t tag)
{
    return na_msg_send_now(na_class, context, NA_MSG_EXPECTED, segments, count,
        dest, tag, "NA_Msg_try_sendv_expected");
}

/* ---- The NA interface: receives ---- */

/* Complete a receive with a queued message, or post it. */
static na_return_t na_msg_post(struct na_op *op, const char *function)
{
    struct na_class_core *core = na_class_core_of(op->context->na_class);
    struct na_inbox *inbox = &core->inbox;
    unsigned list = na_msg_list(
        op->addr != NULL ? NA_MSG_EXPECTED : NA_MSG_UNEXPECTED, op->msg.tag);

    HG_ASSERT(hg_list_is_empty(&op->link));
    if (op->addr != NULL)
        (void) na_msg_connect(core, op->addr);
    else
        inbox->unexpected = true;
    if (op->type == NA_CB_MULTI_RECV_UNEXPECTED) {
        hg_list_push(&inbox->receives[list], &op->link);
        while (
            !hg_list_is_empty(&op->link) && na_msg_match_kept(inbox, list, op))
            continue;
    } else if (na_msg_match_kept(inbox, list, op)) {
        /* It has ended. */
    } else if (op->addr != NULL && na_addr_state(op->addr) != NA_SUCCESS) {
        return na_addr_check_alive(op->addr, function);
    } else {
        hg_list_push(&inbox->receives[list], &op->link);
    }
    na_core_retry(core);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_msg_cancel(struct na_op *op)
{
    const struct na_result canceled = {NULL, NULL, 0, 0, NA_CANCELED, true};

    HG_ASSERT(hg_is_inside(na_context_core_of(op->context)->queue.lock));
    if (hg_list_is_empty(&op->link))
        return NA_NOENTRY;
    hg_list_remove(&op->link);
    if (op->type == NA_CB_MULTI_RECV_UNEXPECTED)
        (void) na_op_add_result(op, canceled);
    else
        na_op_complete(op, NA_CANCELED);
    return NA_SUCCESS;
}

/* All public receive functions call this. Only receives of the expected plane
 * have a source. */
static na_return_t na_msg_recv(struct na_class *na_class,
    struct na_context *context, na_cb_type_t type, na_cb_t callback, void *arg,
    void *buf, na_size_t buf_size, struct na_addr *source, na_tag_t tag,
    na_op_id_t *op_id, const char *function)
{
    struct na_op_core *op;
    na_return_t ret = na_live_check_context(na_class, context, function);

    if (ret == NA_SUCCESS && type == NA_CB_RECV_EXPECTED)
        ret = na_addr_check(na_class, source, function);
    if (ret == NA_SUCCESS)
        ret = na_msg_check_tag(na_class, tag, function);
    if (ret == NA_SUCCESS && buf == NULL && buf_size > 0)
        ret = hg_log_misuse("msg", function, "the buffer is NULL");
    if (ret == NA_SUCCESS && type == NA_CB_MULTI_RECV_UNEXPECTED &&
        buf_size < na_class->max_unexpected_size) {
        hg_log_error("msg",
            "%s: a buffer of %" PRIu64 " bytes is smaller than the largest "
            "unexpected message, %" PRIu64,
            function, (uint64_t) buf_size,
            (uint64_t) na_class->max_unexpected_size);
        ret = NA_INVALID_ARG;
    }
    if (ret != NA_SUCCESS)
        return na_op_started(ret, op_id);
    na_context_enter(na_context_core_of(context));
    op = na_op_get(context, type, NA_LANE_DONE, callback, arg, op_id);
    if (op == NULL) {
        ret = NA_NOMEM;
    } else {
        op->pub.buf = buf;
        op->pub.buf_size = buf_size;
        op->pub.msg.tag = tag;
        if (source != NULL)
            na_op_set_addr(op, source);
        if (type == NA_CB_MULTI_RECV_UNEXPECTED)
            ret = na_op_open_results(op);
        if (ret == NA_SUCCESS)
            ret = na_msg_post(&op->pub, function);
        if (ret != NA_SUCCESS)
            na_op_put(op);
    }
    na_context_leave(na_context_core_of(context));
    return na_op_started(ret, op_id);
}

NA_EXPORT na_return_t NA_Msg_recv_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    na_size_t buf_size, na_op_id_t *op_id)
{
    return na_msg_recv(na_class, context, NA_CB_RECV_UNEXPECTED, callback, arg,
        buf, buf_size, NULL, 0, op_id, "NA_Msg_recv_unexpected");
}

NA_EXPORT na_return_t NA_Msg_multi_recv_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    na_size_t buf_size, na_op_id_t *op_id)
{
    return na_msg_recv(na_class, context, NA_CB_MULTI_RECV_UNEXPECTED, callback,
        arg, buf, buf_size, NULL, 0, op_id, "NA_Msg_multi_recv_unexpected");
}

NA_EXPORT na_return_t NA_Msg_recv_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    na_size_t buf_size, na_addr_t source, na_tag_t tag, na_op_id_t *op_id)
{
    return na_msg_recv(na_class, context, NA_CB_RECV_EXPECTED, callback, arg,
        buf, buf_size, source, tag, op_id, "NA_Msg_recv_expected");
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

    if (ret == NA_SUCCESS && buf == NULL)
        ret = hg_log_misuse("msg", "NA_Msg_buf_free", "an argument is NULL");
    if (ret == NA_SUCCESS)
        hg_mem_free(buf);
    return ret;
}
