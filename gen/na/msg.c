/* SPDX-License-Identifier: BSD-3-Clause */
/* msg: see msg.h. */
#include "na/msg.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"
#include "na/op.h"

#define NA_MSG_BUCKETS_MIN 64u

/* A message that waits for its receive. */
struct na_msg_waiting {
    struct na_link link;
    struct na_addr *source; /* a reference */
    na_size_t size;
    na_tag_t tag;
    uint8_t plane;
    uint8_t target;
    unsigned char data[];
};

HG_PRIVATE na_return_t na_msg_match_init(struct na_match *match)
{
    memset(match, 0, sizeof(*match));
    hg_list_init(&match->unexpected);
    hg_list_init(&match->rpc);
    return hg_lock_init(&match->lock);
}

/* Bytes that a waiting message counts for. */
static uint64_t na_msg_weight(na_size_t size)
{
    return size + sizeof(struct na_msg_waiting);
}

/* Drop one message; the match lock is held, or nobody else is left. Gives
 * the reference of its source to the caller, who drops it without the lock. */
static struct na_addr *na_msg_unlink(
    struct na_match *match, struct na_msg_waiting *waiting)
{
    struct na_addr *source = waiting->source;

    hg_list_remove(&waiting->link);
    assert(match->queued_bytes >= na_msg_weight(waiting->size));
    match->queued_bytes -= na_msg_weight(waiting->size);
    if (waiting->plane == NA_MSG_EXPECTED)
        match->entries--;
    return source;
}

static void na_msg_drop_list(struct na_match *match, struct na_link *head)
{
    while (!hg_list_is_empty(head)) {
        struct na_msg_waiting *waiting =
            HG_CONTAINER_OF(head->next, struct na_msg_waiting, link);

        na_addr_unref(na_msg_unlink(match, waiting));
        hg_mem_free(waiting);
    }
}

HG_PRIVATE void na_msg_match_drop(struct na_match *match)
{
    size_t i;

    na_msg_drop_list(match, &match->unexpected);
    na_msg_drop_list(match, &match->rpc);
    for (i = 0; i < match->buckets; i++) {
        assert(hg_list_is_empty(&match->receives[i]));
        na_msg_drop_list(match, &match->messages[i]);
    }
    assert(match->queued_bytes == 0 && match->entries == 0);
}

HG_PRIVATE void na_msg_match_fini(struct na_match *match)
{
    na_msg_match_drop(match);
    hg_mem_free(match->receives);
    hg_mem_free(match->messages);
    pthread_mutex_destroy(&match->lock);
}

/* A receive or sink is new: what was held back may be offered again, once the
 * caller has released the match lock and woken the class. Whether to. */
static bool na_msg_let_go(struct na_match *match)
{
    bool held = match->held;

    match->held = false;
    if (held)
        atomic_store(&match->retry, true);
    return held;
}

/* ---- The table of expected messages ---- */

static size_t na_msg_bucket(const struct na_match *match, na_tag_t tag)
{
    return (size_t) ((tag * UINT64_C(0x9e3779b97f4a7c15)) >> 32) &
        (match->buckets - 1);
}

/* Double the table; on NA_NOMEM the old one stands. Match lock held. */
static na_return_t na_msg_grow(struct na_match *match)
{
    struct na_match old = *match;
    size_t buckets = old.buckets == 0 ? NA_MSG_BUCKETS_MIN : old.buckets * 2;
    struct na_link *receives =
        (struct na_link *) hg_mem_alloc(buckets * sizeof(*receives));
    struct na_link *messages =
        (struct na_link *) hg_mem_alloc(buckets * sizeof(*messages));
    size_t i;

    if (receives == NULL || messages == NULL) {
        hg_mem_free(receives);
        hg_mem_free(messages);
        return NA_NOMEM;
    }
    for (i = 0; i < buckets; i++) {
        hg_list_init(&receives[i]);
        hg_list_init(&messages[i]);
    }
    match->receives = receives;
    match->messages = messages;
    match->buckets = buckets;
    for (i = 0; i < old.buckets; i++) {
        struct na_link *link;

        while ((link = hg_list_pop(&old.receives[i])) != NULL) {
            struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);

            hg_list_push(&receives[na_msg_bucket(match, op->msg.tag)], link);
        }
        while ((link = hg_list_pop(&old.messages[i])) != NULL) {
            struct na_msg_waiting *waiting =
                HG_CONTAINER_OF(link, struct na_msg_waiting, link);

            hg_list_push(&messages[na_msg_bucket(match, waiting->tag)], link);
        }
    }
    hg_mem_free(old.receives);
    hg_mem_free(old.messages);
    return NA_SUCCESS;
}

/* Make sure that there is a table, and a roomy one. Match lock held. */
static na_return_t na_msg_make_room(struct na_match *match)
{
    na_return_t ret;

    if (match->entries < match->buckets)
        return NA_SUCCESS;
    ret = na_msg_grow(match);
    if (ret != NA_SUCCESS && match->buckets != 0)
        ret = NA_SUCCESS; /* longer chains, nothing worse */
    return ret;
}

static struct na_op *na_msg_find_recv(
    struct na_match *match, const struct na_addr *source, na_tag_t tag)
{
    struct na_link *head;
    struct na_link *link;

    if (match->buckets == 0)
        return NULL;
    head = &match->receives[na_msg_bucket(match, tag)];
    for (link = head->next; link != head; link = link->next) {
        struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);

        if (op->msg.tag == tag && na_addr_same(op->addr, source))
            return op;
    }
    return NULL;
}

static struct na_msg_waiting *na_msg_find_waiting(
    struct na_match *match, const struct na_addr *source, na_tag_t tag)
{
    struct na_link *head = &match->messages[na_msg_bucket(match, tag)];
    struct na_link *link;

    for (link = head->next; link != head; link = link->next) {
        struct na_msg_waiting *waiting =
            HG_CONTAINER_OF(link, struct na_msg_waiting, link);

        if (waiting->tag == tag && na_addr_same(waiting->source, source))
            return waiting;
    }
    return NULL;
}

/* ---- Arrivals ---- */

/* Fill a receive with a message; it is off every list. */
static na_return_t na_msg_fill(struct na_op *op, struct na_addr *source,
    na_tag_t tag, const void *data, na_size_t size)
{
    if (size > op->buf_size) {
        hg_log_error("msg",
            "a message of %" PRIu64 " bytes came for a receive of %" PRIu64,
            size, op->buf_size);
        return NA_MSGSIZE;
    }
    if (size > 0)
        memcpy(op->buf, data, (size_t) size);
    op->result_size = size;
    op->result_tag = tag;
    if (op->type == NA_CB_RECV_UNEXPECTED) {
        na_addr_ref(source);
        op->result_addr = source;
    }
    return NA_SUCCESS;
}

/* A posted unexpected receive: of the target context, else of any. Match and
 * context lock are held. */
static struct na_op *na_msg_any_recv(struct na_class_core *core, uint8_t target)
{
    struct na_context_core *context = core->contexts[target];
    unsigned i;

    for (i = 0; i <= NA_CORE_CONTEXTS; i++) {
        if (context != NULL && !hg_list_is_empty(&context->recv_unexpected))
            return HG_CONTAINER_OF(
                context->recv_unexpected.next, struct na_op, link);
        if (i < NA_CORE_CONTEXTS)
            context = core->contexts[i];
    }
    return NULL;
}

/* Forget messages whose sender is dead, to make room. Match lock held; the
 * references go to `dropped`, whose messages the caller frees. */
static void na_msg_purge(
    struct na_match *match, struct na_link *head, struct na_link *dropped)
{
    struct na_link *link = head->next;

    while (link != head) {
        struct na_msg_waiting *waiting =
            HG_CONTAINER_OF(link, struct na_msg_waiting, link);

        link = link->next;
        if (na_addr_is_dead(waiting->source)) {
            (void) na_msg_unlink(match, waiting);
            hg_list_push(dropped, &waiting->link);
        }
    }
}

static void na_msg_free_dropped(struct na_link *dropped)
{
    struct na_link *link;

    while ((link = hg_list_pop(dropped)) != NULL) {
        struct na_msg_waiting *waiting =
            HG_CONTAINER_OF(link, struct na_msg_waiting, link);

        na_addr_unref(waiting->source);
        hg_mem_free(waiting);
    }
}

static void na_msg_purge_all(struct na_match *match, struct na_link *dropped)
{
    size_t i;

    na_msg_purge(match, &match->unexpected, dropped);
    na_msg_purge(match, &match->rpc, dropped);
    for (i = 0; i < match->buckets; i++)
        na_msg_purge(match, &match->messages[i], dropped);
}

/* Queue a message nobody waits for. Match lock held. */
static na_return_t na_msg_keep(struct na_class_core *core,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size)
{
    struct na_match *match = &core->match;
    struct na_msg_waiting *waiting;

    if (match->queued_bytes + na_msg_weight(size) >
        core->info.max_queue_bytes) {
        match->held = (core->ops.caps & NA_CAP_HOLDS_BACK) != 0;
        return NA_AGAIN;
    }
    if (plane == NA_MSG_EXPECTED && na_msg_make_room(match) != NA_SUCCESS)
        return NA_NOMEM;
    waiting = (struct na_msg_waiting *) hg_mem_alloc(
        sizeof(*waiting) + (size_t) size);
    if (waiting == NULL)
        return NA_NOMEM;
    na_addr_ref(source);
    waiting->source = source;
    waiting->size = size;
    waiting->tag = tag;
    waiting->plane = plane;
    waiting->target = target;
    if (size > 0)
        memcpy(waiting->data, data, (size_t) size);
    match->queued_bytes += na_msg_weight(size);
    if (plane == NA_MSG_EXPECTED) {
        hg_list_push(
            &match->messages[na_msg_bucket(match, tag)], &waiting->link);
        match->entries++;
    } else {
        hg_list_push(plane == NA_MSG_RPC ? &match->rpc : &match->unexpected,
            &waiting->link);
    }
    return NA_SUCCESS;
}

/* Deliver to the sink of the target context; NA_NOENTRY: it has none. */
static na_return_t na_msg_to_sink(struct na_class_core *core,
    struct na_addr *source, uint8_t target, na_tag_t tag, const void *data,
    na_size_t size)
{
    struct na_context_core *context;
    na_return_t ret = NA_NOENTRY;

    hg_lock(&core->context_lock);
    context = core->contexts[target];
    if (context != NULL)
        hg_lock(&context->sink_lock);
    hg_unlock(&core->context_lock);
    if (context == NULL)
        return NA_NOENTRY;
    if (context->sink != NULL)
        ret = context->sink(context->sink_arg, source, tag, data, size);
    hg_unlock(&context->sink_lock);
    return ret;
}

/* Whether a context has taken its RPC plane meanwhile. */
static bool na_msg_has_sink(struct na_class_core *core, uint8_t target)
{
    struct na_context_core *context;
    bool has = false;

    hg_lock(&core->context_lock);
    context = core->contexts[target];
    if (context != NULL) {
        hg_lock(&context->sink_lock);
        has = context->sink != NULL;
        hg_unlock(&context->sink_lock);
    }
    hg_unlock(&core->context_lock);
    return has;
}

/* Match with a posted receive, or keep. NA_BUSY: a message of the RPC plane
 * whose sink came between; to be offered to it again. */
static na_return_t na_msg_match(struct na_class_core *core,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size)
{
    struct na_match *match = &core->match;
    struct na_op *op = NULL;
    na_return_t ret = NA_SUCCESS;
    na_return_t fill = NA_SUCCESS;

    hg_lock(&match->lock);
    if (plane == NA_MSG_RPC && na_msg_has_sink(core, target)) {
        hg_unlock(&match->lock);
        return NA_BUSY;
    }
    if (plane == NA_MSG_EXPECTED) {
        op = na_msg_find_recv(match, source, tag);
        if (op != NULL)
            match->entries--;
    } else if (plane == NA_MSG_UNEXPECTED) {
        hg_lock(&core->context_lock);
        op = na_msg_any_recv(core, target);
        hg_unlock(&core->context_lock);
    }
    if (op != NULL) {
        hg_list_remove(&op->link);
        fill = na_msg_fill(op, source, tag, data, size);
    } else {
        ret = na_msg_keep(core, source, plane, target, tag, data, size);
    }
    hg_unlock(&match->lock);
    if (op != NULL)
        na_op_complete(op, fill);
    return ret;
}

HG_PRIVATE na_return_t na_msg_arrived(struct na_class *na_class,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size)
{
    struct na_class_core *core = na_class_core_of(na_class);
    struct na_link dropped;
    na_return_t ret;

    assert(plane < NA_MSG_PLANE_MAX && source->na_class == na_class);
    na_class_note_arrival(na_class, size);
    do {
        ret = NA_NOENTRY;
        if (plane == NA_MSG_RPC)
            ret = na_msg_to_sink(core, source, target, tag, data, size);
        if (ret == NA_NOENTRY)
            ret = na_msg_match(core, source, plane, target, tag, data, size);
    } while (ret == NA_BUSY);
    if (ret == NA_AGAIN) {
        hg_list_init(&dropped);
        hg_lock(&core->match.lock);
        na_msg_purge_all(&core->match, &dropped);
        hg_unlock(&core->match.lock);
        if (!hg_list_is_empty(&dropped)) {
            na_msg_free_dropped(&dropped);
            ret = na_msg_match(core, source, plane, target, tag, data, size);
        }
    }
    if (ret == NA_SUCCESS)
        return NA_SUCCESS;
    if (ret == NA_AGAIN && (core->ops.caps & NA_CAP_HOLDS_BACK) != 0)
        return NA_AGAIN;
    na_class->core->count(na_class, "msg_dropped", 1);
    hg_log_warning("msg", "dropped a message of %" PRIu64 " bytes: %s", size,
        NA_Error_to_string(ret));
    return NA_SUCCESS;
}

/* Tell the RPC engine of every context. */
static void na_msg_tell_sinks(struct na_addr *addr, na_return_t ret)
{
    struct na_class_core *core = na_class_core_of(addr->na_class);
    unsigned i;

    hg_lock(&core->context_lock);
    for (i = 0; i < NA_CORE_CONTEXTS; i++) {
        struct na_context_core *context = core->contexts[i];

        if (context == NULL)
            continue;
        hg_lock(&context->sink_lock);
        if (context->sink_dead != NULL)
            context->sink_dead(context->sink_arg, addr, ret);
        hg_unlock(&context->sink_lock);
    }
    hg_unlock(&core->context_lock);
}

HG_PRIVATE void na_msg_addr_dead(struct na_addr *addr, na_return_t ret)
{
    struct na_match *match = &na_class_core_of(addr->na_class)->match;
    struct na_link failed;
    struct na_link *link;
    size_t i;

    hg_list_init(&failed);
    hg_lock(&match->lock);
    for (i = 0; i < match->buckets; i++) {
        struct na_link *head = &match->receives[i];

        link = head->next;
        while (link != head) {
            struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);

            link = link->next;
            if (op->addr != addr)
                continue;
            hg_list_remove(&op->link);
            hg_list_push(&failed, &op->link);
            match->entries--;
        }
    }
    hg_unlock(&match->lock);
    while ((link = hg_list_pop(&failed)) != NULL)
        na_op_complete(HG_CONTAINER_OF(link, struct na_op, link), ret);
    na_msg_tell_sinks(addr, ret);
}

HG_PRIVATE na_return_t na_msg_cancel_recv(
    struct na_context *context, struct na_op_core *op, uint64_t id)
{
    struct na_context_core *core = na_context_core_of(context);
    struct na_match *match = &na_class_core_of(context->na_class)->match;
    bool posted;

    hg_lock(&match->lock);
    hg_lock(&core->op_lock); /* it is not used for another meanwhile */
    posted = atomic_load(&op->id) == id && !hg_list_is_empty(&op->pub.link);
    if (posted) {
        hg_list_remove(&op->pub.link);
        if (op->pub.type == NA_CB_RECV_EXPECTED)
            match->entries--;
    }
    hg_unlock(&core->op_lock);
    hg_unlock(&match->lock);
    if (!posted)
        return NA_NOENTRY;
    na_op_complete(&op->pub, NA_CANCELED);
    return NA_SUCCESS;
}

/* ---- The RPC plane ---- */

HG_PRIVATE void na_msg_set_sink(struct na_context *context, na_rpc_cb_t sink,
    na_rpc_dead_cb_t dead, void *arg)
{
    struct na_context_core *core = na_context_core_of(context);
    struct na_match *match = &na_class_core_of(context->na_class)->match;
    struct na_link mine;
    struct na_link *link;
    bool wake;

    hg_lock(&core->sink_lock);
    core->sink = sink;
    core->sink_dead = dead;
    core->sink_arg = arg;
    hg_unlock(&core->sink_lock);
    if (sink == NULL)
        return;
    /* From here on nothing more is filed for this context. */
    hg_list_init(&mine);
    hg_lock(&match->lock);
    link = match->rpc.next;
    while (link != &match->rpc) {
        struct na_msg_waiting *waiting =
            HG_CONTAINER_OF(link, struct na_msg_waiting, link);

        link = link->next;
        if (waiting->target != context->id)
            continue;
        (void) na_msg_unlink(match, waiting);
        hg_list_push(&mine, &waiting->link);
    }
    wake = na_msg_let_go(match);
    hg_unlock(&match->lock);
    if (wake)
        context->na_class->core->wake(context->na_class);
    hg_lock(&core->sink_lock);
    for (link = mine.next; link != &mine && core->sink != NULL;
         link = link->next) {
        struct na_msg_waiting *waiting =
            HG_CONTAINER_OF(link, struct na_msg_waiting, link);

        (void) core->sink(core->sink_arg, waiting->source, waiting->tag,
            waiting->data, waiting->size);
    }
    hg_unlock(&core->sink_lock);
    na_msg_free_dropped(&mine);
}

HG_PRIVATE na_return_t na_msg_send_rpc(struct na_context *context,
    const struct na_msg *msg, na_cb_t callback, void *arg, bool *done_p)
{
    const struct na_plugin *ops = na_class_ops(context->na_class);
    struct na_op_core *op;
    na_return_t ret = na_addr_state(msg->addr);

    assert(msg->plane == NA_MSG_RPC);
    if (ret != NA_SUCCESS)
        return ret;
    ret = ops->msg_send(context, msg, NULL);
    if (ret == NA_SUCCESS)
        *done_p = true;
    if (ret != NA_AGAIN)
        return ret;
    op = na_op_get(
        context, NA_CB_SEND_UNEXPECTED, NA_LANE_INTERNAL, callback, arg);
    if (op == NULL)
        return NA_NOMEM;
    na_op_set_addr(op, msg->addr);
    ret = na_op_set_msg(op, msg);
    if (ret != NA_SUCCESS)
        goto put_op;
    *done_p = false;
    ret = ops->msg_send(context, &op->pub.msg, &op->pub);
    if (ret != NA_SUCCESS)
        goto put_op;
    return NA_SUCCESS;

put_op:
    na_op_put(op);
    return ret;
}

/* ---- The NA interface: sends ---- */

static na_return_t na_msg_check_send(const struct na_class *na_class,
    const struct na_context *context, const struct na_msg *msg,
    const char *function)
{
    na_size_t max;
    na_size_t total = 0;
    na_size_t i;
    na_return_t ret = na_addr_check(na_class, msg->addr, function);

    if (ret != NA_SUCCESS)
        return ret;
    if (context == NULL || context->na_class != na_class ||
        (msg->segments == NULL && msg->segment_count > 0)) {
        hg_log_error("msg", "%s: %s", function,
            context == NULL             ? "the context is NULL"
                : msg->segments == NULL ? "segments is NULL"
                                        : "the context is of another class");
        return NA_INVALID_ARG;
    }
    max = msg->plane == NA_MSG_EXPECTED ? na_class->max_expected_size
                                        : na_class->max_unexpected_size;
    for (i = 0; i < msg->segment_count; i++) {
        if (msg->segments[i].size > max - total) {
            hg_log_error("msg",
                "%s: the message is larger than the maximum of %" PRIu64,
                function, max);
            return NA_MSGSIZE;
        }
        total += msg->segments[i].size;
        if (msg->segments[i].address == NULL && msg->segments[i].size > 0) {
            hg_log_error("msg", "%s: a buffer is NULL", function);
            return NA_INVALID_ARG;
        }
    }
    if (msg->tag > na_class->max_tag) {
        hg_log_error("msg", "%s: tag %" PRIu32 " is past the maximum", function,
            msg->tag);
        return NA_INVALID_ARG;
    }
    ret = na_addr_state(msg->addr);
    if (ret != NA_SUCCESS)
        hg_log_error("msg", "%s: the peer %s is gone: %s", function,
            msg->addr->name != NULL ? msg->addr->name : "(unnamed)",
            NA_Error_to_string(ret));
    return ret;
}

/* Start a checked send; every public send ends here. */
static na_return_t na_msg_send(struct na_context *context, na_cb_type_t type,
    na_cb_t callback, void *arg, struct na_msg *msg, na_op_id_t *op_id)
{
    const struct na_plugin *ops = na_class_ops(context->na_class);
    struct na_op_core *op;
    na_size_t i;
    na_return_t ret;

    msg->size = 0;
    for (i = 0; i < msg->segment_count; i++)
        msg->size += msg->segments[i].size;
    op = na_op_get(context, type, NA_LANE_DONE, callback, arg);
    if (op == NULL)
        return NA_NOMEM;
    if (op_id != NA_OP_ID_IGNORE)
        *op_id = na_op_public_id(op);
    ret = ops->msg_send(context, msg, NULL);
    if (ret == NA_SUCCESS) {
        na_op_complete(&op->pub, NA_SUCCESS);
        return NA_SUCCESS;
    }
    if (ret != NA_AGAIN)
        goto put_op;
    na_op_set_addr(op, msg->addr);
    ret = na_op_set_msg(op, msg);
    if (ret != NA_SUCCESS)
        goto put_op;
    ret = ops->msg_send(context, &op->pub.msg, &op->pub);
    if (ret != NA_SUCCESS)
        goto put_op;
    return NA_SUCCESS;

put_op:
    na_op_put(op);
    return ret;
}

/* One buffer or many, either plane. */
static na_return_t na_msg_start_send(na_class_t *na_class,
    na_context_t *context, na_cb_type_t type, na_cb_t callback, void *arg,
    const struct na_segment *segments, na_size_t count, na_addr_t dest,
    na_tag_t tag, na_op_id_t *op_id, const char *function)
{
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
        return ret;
    return na_msg_send(context, type, callback, arg, &msg, op_id);
}

NA_EXPORT na_return_t NA_Msg_send_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const void *buf,
    na_size_t buf_size, na_addr_t dest, na_tag_t tag, na_op_id_t *op_id)
{
    struct na_segment segment;

    segment.address = (void *) (uintptr_t) buf;
    segment.size = buf_size;
    return na_msg_start_send(na_class, context, NA_CB_SEND_UNEXPECTED, callback,
        arg, &segment, 1, dest, tag, op_id, "NA_Msg_send_unexpected");
}

NA_EXPORT na_return_t NA_Msg_send_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const void *buf,
    na_size_t buf_size, na_addr_t dest, na_tag_t tag, na_op_id_t *op_id)
{
    struct na_segment segment;

    segment.address = (void *) (uintptr_t) buf;
    segment.size = buf_size;
    return na_msg_start_send(na_class, context, NA_CB_SEND_EXPECTED, callback,
        arg, &segment, 1, dest, tag, op_id, "NA_Msg_send_expected");
}

NA_EXPORT na_return_t NA_Msg_sendv_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg,
    const struct na_segment *segments, na_size_t count, na_addr_t dest,
    na_tag_t tag, na_op_id_t *op_id)
{
    return na_msg_start_send(na_class, context, NA_CB_SEND_UNEXPECTED, callback,
        arg, segments, count, dest, tag, op_id, "NA_Msg_sendv_unexpected");
}

NA_EXPORT na_return_t NA_Msg_sendv_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg,
    const struct na_segment *segments, na_size_t count, na_addr_t dest,
    na_tag_t tag, na_op_id_t *op_id)
{
    return na_msg_start_send(na_class, context, NA_CB_SEND_EXPECTED, callback,
        arg, segments, count, dest, tag, op_id, "NA_Msg_sendv_expected");
}

/* ---- The NA interface: receives ---- */

static na_return_t na_msg_check_recv(const struct na_class *na_class,
    const struct na_context *context, const void *buf, na_size_t buf_size,
    const char *function)
{
    if (na_class != NULL && context != NULL && context->na_class == na_class &&
        (buf != NULL || buf_size == 0))
        return NA_SUCCESS;
    hg_log_error("msg", "%s: %s", function,
        na_class == NULL                    ? "the class is NULL"
            : context == NULL               ? "the context is NULL"
            : context->na_class != na_class ? "the context is of another class"
                                            : "the buffer is NULL");
    return NA_INVALID_ARG;
}

/* Serve a receive from a message that waits, if there is one; else post it.
 * The match lock is held by none, `op` is complete but for its lists. */
static na_return_t na_msg_post(struct na_op_core *op)
{
    struct na_context_core *context = na_context_core_of(op->pub.context);
    struct na_match *match =
        &na_class_core_of(op->pub.context->na_class)->match;
    struct na_class *na_class = op->pub.context->na_class;
    bool expected = op->pub.type == NA_CB_RECV_EXPECTED;
    struct na_msg_waiting *waiting = NULL;
    bool wake = false;
    na_return_t ret = NA_SUCCESS;

    hg_lock(&match->lock);
    if (expected) {
        ret = na_msg_make_room(match);
        if (ret != NA_SUCCESS)
            goto unlock;
        waiting = na_msg_find_waiting(match, op->pub.addr, op->pub.msg.tag);
        if (waiting == NULL)
            ret = na_addr_state(op->pub.addr);
        if (ret != NA_SUCCESS)
            goto unlock;
    } else if (!hg_list_is_empty(&match->unexpected)) {
        waiting = HG_CONTAINER_OF(
            match->unexpected.next, struct na_msg_waiting, link);
    }
    if (waiting != NULL) {
        (void) na_msg_unlink(match, waiting);
    } else if (expected) {
        hg_list_push(&match->receives[na_msg_bucket(match, op->pub.msg.tag)],
            &op->pub.link);
        match->entries++;
    } else {
        hg_list_push(&context->recv_unexpected, &op->pub.link);
    }
    wake = na_msg_let_go(match);
unlock:
    hg_unlock(&match->lock);
    if (wake)
        na_class->core->wake(na_class);
    if (waiting != NULL) {
        na_op_complete(&op->pub,
            na_msg_fill(&op->pub, waiting->source, waiting->tag, waiting->data,
                waiting->size));
        na_addr_unref(waiting->source);
        hg_mem_free(waiting);
    }
    return ret;
}

NA_EXPORT na_return_t NA_Msg_recv_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    na_size_t buf_size, na_op_id_t *op_id)
{
    struct na_op_core *op;
    na_return_t ret = na_msg_check_recv(
        na_class, context, buf, buf_size, "NA_Msg_recv_unexpected");

    if (ret != NA_SUCCESS)
        return ret;
    op = na_op_get(context, NA_CB_RECV_UNEXPECTED, NA_LANE_DONE, callback, arg);
    if (op == NULL)
        return NA_NOMEM;
    if (op_id != NA_OP_ID_IGNORE)
        *op_id = na_op_public_id(op);
    op->pub.buf = buf;
    op->pub.buf_size = buf_size;
    return na_msg_post(op);
}

NA_EXPORT na_return_t NA_Msg_recv_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    na_size_t buf_size, na_addr_t source, na_tag_t tag, na_op_id_t *op_id)
{
    struct na_op_core *op;
    na_return_t ret = na_msg_check_recv(
        na_class, context, buf, buf_size, "NA_Msg_recv_expected");

    if (ret == NA_SUCCESS)
        ret = na_addr_check(na_class, source, "NA_Msg_recv_expected");
    if (ret != NA_SUCCESS)
        return ret;
    if (tag > na_class->max_tag) {
        hg_log_error("msg",
            "NA_Msg_recv_expected: tag %" PRIu32 " is past the maximum", tag);
        return NA_INVALID_ARG;
    }
    op = na_op_get(context, NA_CB_RECV_EXPECTED, NA_LANE_DONE, callback, arg);
    if (op == NULL)
        return NA_NOMEM;
    if (op_id != NA_OP_ID_IGNORE)
        *op_id = na_op_public_id(op);
    op->pub.buf = buf;
    op->pub.buf_size = buf_size;
    op->pub.msg.tag = tag;
    na_op_set_addr(op, source);
    ret = na_msg_post(op);
    if (ret != NA_SUCCESS) {
        hg_log_error("msg", "NA_Msg_recv_expected: %s",
            ret == NA_NOMEM ? "no memory" : "the source is gone");
        na_op_put(op);
    }
    return ret;
}

/* ---- Sizes and buffers ---- */

NA_EXPORT na_size_t NA_Msg_get_max_expected_size(na_class_t *na_class)
{
    return na_class != NULL ? na_class->max_expected_size : 0;
}

NA_EXPORT na_size_t NA_Msg_get_max_unexpected_size(na_class_t *na_class)
{
    return na_class != NULL ? na_class->max_unexpected_size : 0;
}

NA_EXPORT na_tag_t NA_Msg_get_max_tag(na_class_t *na_class)
{
    return na_class != NULL ? na_class->max_tag : 0;
}

NA_EXPORT void *NA_Msg_buf_alloc(na_class_t *na_class, na_size_t size)
{
    void *buf;

    if (na_class == NULL || size > SIZE_MAX) {
        hg_log_error("msg", "NA_Msg_buf_alloc: %s",
            na_class == NULL ? "the class is NULL" : "too large");
        return NULL;
    }
    buf = hg_mem_alloc((size_t) size);
    if (buf == NULL)
        hg_log_error("msg", "no memory for a buffer of %" PRIu64, size);
    return buf;
}

NA_EXPORT na_return_t NA_Msg_buf_free(na_class_t *na_class, void *buf)
{
    if (na_class == NULL || buf == NULL) {
        hg_log_error("msg", "NA_Msg_buf_free: an argument is NULL");
        return NA_INVALID_ARG;
    }
    hg_mem_free(buf);
    return NA_SUCCESS;
}
