/* SPDX-License-Identifier: BSD-3-Clause */
/* match: see match.h. */
#include "na/match.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"
#include "na/op.h"
#include "na/sink.h"

#define NA_MATCH_BUCKETS_MIN 64u

/* What an allocator adds to a block, about. */
#define NA_MATCH_OVERHEAD (2 * sizeof(void *))

/* A message that waits for its receive. */
struct na_match_waiting {
    struct na_link link;
    struct na_link of_source;  /* its source's list */
    struct na_match_item item; /* its source is a reference, its data ours */
    unsigned char data[];
};

static struct na_match_waiting *na_match_waiting_of(struct na_link *link)
{
    return HG_CONTAINER_OF(link, struct na_match_waiting, link);
}

HG_PRIVATE void na_match_init(struct na_match *match)
{
    memset(match, 0, sizeof(*match));
    hg_list_init(&match->unexpected);
    hg_list_init(&match->rpc);
    hg_list_init(&match->graves);
}

/* Bytes that a waiting message counts for. */
static uint64_t na_match_weight(na_size_t size)
{
    return size + sizeof(struct na_match_waiting) + NA_MATCH_OVERHEAD;
}

/* Whether so many bytes more would be more than a sender's share. Lock held. */
static bool na_match_is_full(const struct na_class_core *core,
    const struct na_addr *source, uint64_t weight)
{
    uint64_t limit = core->info.max_queue_bytes;

    if (limit > UINT64_MAX / 4)
        limit = UINT64_MAX / 4; /* no sum overflows */
    return na_addr_core_of(source)->queued_bytes + weight +
        core->match.queued_bytes + weight >
        2 * limit;
}

/* Take note of a dead address that has messages. Lock held. */
static void na_match_bury(struct na_match *match, struct na_addr_core *addr)
{
    if (hg_list_is_empty(&addr->grave))
        hg_list_push(&match->graves, &addr->grave);
}

/* Take a message off its list. The lock is held, or nobody else is
 * left; the caller frees the message without it. */
static void na_match_unlink(
    struct na_match *match, struct na_match_waiting *waiting)
{
    struct na_addr_core *source = na_addr_core_of(waiting->item.source);
    uint64_t weight = na_match_weight(waiting->item.size);

    hg_list_remove(&waiting->link);
    hg_list_remove(&waiting->of_source);
    if (hg_list_is_empty(&source->waiting))
        hg_list_remove(&source->grave);
    assert(source->queued_bytes >= weight);
    assert(match->queued_bytes >= source->queued_bytes);
    source->queued_bytes -= weight;
    match->queued_bytes -= weight;
    if (waiting->item.plane == NA_MSG_EXPECTED) {
        assert(match->entries > 0);
        match->entries--;
    }
}

static void na_match_free(struct na_match_waiting *waiting)
{
    na_addr_unref(waiting->item.source);
    hg_mem_free(waiting);
}

static void na_match_free_list(struct na_link *list)
{
    struct na_link *link;

    while ((link = hg_list_pop(list)) != NULL)
        na_match_free(na_match_waiting_of(link));
}

static void na_match_drop_list(struct na_match *match, struct na_link *head)
{
    while (!hg_list_is_empty(head)) {
        struct na_match_waiting *waiting = na_match_waiting_of(head->next);

        na_match_unlink(match, waiting);
        na_match_free(waiting);
    }
}

HG_PRIVATE void na_match_drop(struct na_match *match)
{
    size_t i;

    na_match_drop_list(match, &match->unexpected);
    na_match_drop_list(match, &match->rpc);
    for (i = 0; i < match->buckets; i++) {
        assert(hg_list_is_empty(&match->receives[i]));
        na_match_drop_list(match, &match->messages[i]);
    }
    assert(match->queued_bytes == 0 && match->entries == 0);
    assert(hg_list_is_empty(&match->graves));
}

HG_PRIVATE void na_match_fini(struct na_match *match)
{
    na_match_drop(match);
    hg_mem_free(match->receives);
    hg_mem_free(match->messages);
}

/* A receive or sink is new: what was held back may be offered again. Whether
 * something was; then the caller wakes the class. */
static bool na_match_let_go(struct na_match *match)
{
    bool held = match->held;

    match->held = false;
    if (held)
        match->retry = true;
    return held;
}

/* ---- The table of the expected plane ---- */

static size_t na_match_bucket(const struct na_match *match, na_tag_t tag)
{
    assert(match->buckets > 0);
    return (size_t) ((tag * UINT64_C(0x9e3779b97f4a7c15)) >> 32) &
        (match->buckets - 1);
}

/* Double the table; on NA_NOMEM the old one stands. Lock held. */
static na_return_t na_match_grow(struct na_match *match)
{
    struct na_match old = *match;
    size_t buckets = old.buckets == 0 ? NA_MATCH_BUCKETS_MIN : old.buckets * 2;
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

            hg_list_push(&receives[na_match_bucket(match, op->msg.tag)], link);
        }
        while ((link = hg_list_pop(&old.messages[i])) != NULL)
            hg_list_push(&messages[na_match_bucket(
                             match, na_match_waiting_of(link)->item.tag)],
                link);
    }
    hg_mem_free(old.receives);
    hg_mem_free(old.messages);
    return NA_SUCCESS;
}

/* Make sure that there is a table, and a roomy one. Lock held. */
static na_return_t na_match_make_room(struct na_match *match)
{
    na_return_t ret;

    if (match->entries < match->buckets)
        return NA_SUCCESS;
    ret = na_match_grow(match);
    if (ret != NA_SUCCESS && match->buckets != 0)
        ret = NA_SUCCESS; /* longer chains, nothing worse */
    return ret;
}

static struct na_op *na_match_find_recv(
    struct na_match *match, const struct na_addr *source, na_tag_t tag)
{
    struct na_link *head;
    struct na_link *link;

    if (match->buckets == 0)
        return NULL;
    head = &match->receives[na_match_bucket(match, tag)];
    for (link = head->next; link != head; link = link->next) {
        struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);

        if (op->msg.tag == tag && na_addr_same(op->addr, source))
            return op;
    }
    return NULL;
}

static struct na_match_waiting *na_match_find_waiting(
    struct na_match *match, const struct na_addr *source, na_tag_t tag)
{
    struct na_link *head = &match->messages[na_match_bucket(match, tag)];
    struct na_link *link;

    for (link = head->next; link != head; link = link->next) {
        struct na_match_waiting *waiting = na_match_waiting_of(link);

        if (waiting->item.tag == tag &&
            na_addr_same(waiting->item.source, source))
            return waiting;
    }
    return NULL;
}

/* ---- Messages ---- */

/* A posted unexpected receive: of the target context, else of any. Both locks
 * are held. */
static struct na_op *na_match_any_recv(
    struct na_class_core *core, uint8_t target)
{
    struct na_context_core *context = core->contexts[target];
    unsigned i = 0;

    while (context == NULL || hg_list_is_empty(&context->recv_unexpected)) {
        if (i == core->context_high)
            return NULL;
        context = core->contexts[i++];
    }
    return HG_CONTAINER_OF(context->recv_unexpected.next, struct na_op, link);
}

/* Take the receive that a message is for off its list; NULL. Lock held. */
static struct na_op *na_match_take_recv(
    struct na_class_core *core, const struct na_match_item *item)
{
    struct na_match *match = &core->match;
    struct na_op *op = NULL;

    if (item->plane == NA_MSG_EXPECTED) {
        op = na_match_find_recv(match, item->source, item->tag);
        if (op != NULL)
            match->entries--;
    } else if (item->plane == NA_MSG_UNEXPECTED) {
        hg_lock(&core->list_lock);
        op = na_match_any_recv(core, item->target);
        hg_unlock(&core->list_lock);
    }
    if (op != NULL)
        hg_list_remove(&op->link);
    return op;
}

/* Fill a receive, which is off every list, with a message; its result. */
static na_return_t na_match_fill(
    struct na_op *op, const struct na_match_item *item)
{
    if (item->size > op->buf_size) {
        item->source->na_class->core->count(
            item->source->na_class, "msg_too_long", 1);
        hg_log_warning("msg",
            "a message of %" PRIu64 " bytes from %s is too long for a receive "
            "of %" PRIu64,
            item->size,
            item->source->name != NULL ? item->source->name : "a peer",
            op->buf_size);
        return NA_MSGSIZE;
    }
    if (item->size > 0)
        memcpy(op->buf, item->data, (size_t) item->size);
    op->result_size = item->size;
    op->result_tag = item->tag;
    if (op->type == NA_CB_RECV_UNEXPECTED) {
        na_addr_ref(item->source);
        op->result_addr = item->source;
    }
    return NA_SUCCESS;
}

/* Queue a message nobody waits for. Lock held. */
static na_return_t na_match_keep(
    struct na_class_core *core, const struct na_match_item *item)
{
    struct na_match *match = &core->match;
    struct na_addr_core *source = na_addr_core_of(item->source);
    struct na_match_waiting *waiting;
    struct na_link *list = &match->unexpected;
    uint64_t weight = na_match_weight(item->size);

    if (na_match_is_full(core, item->source, weight)) {
        match->held = (core->ops.caps & NA_CAP_HOLDS_BACK) != 0;
        return NA_AGAIN;
    }
    if (item->plane == NA_MSG_EXPECTED &&
        na_match_make_room(match) != NA_SUCCESS)
        return NA_NOMEM;
    waiting = (struct na_match_waiting *) hg_mem_alloc(
        sizeof(*waiting) + (size_t) item->size);
    if (waiting == NULL)
        return NA_NOMEM;
    na_addr_ref(item->source);
    waiting->item = *item;
    waiting->item.data = waiting->data;
    if (item->size > 0)
        memcpy(waiting->data, item->data, (size_t) item->size);
    source->queued_bytes += weight;
    match->queued_bytes += weight;
    hg_list_push(&source->waiting, &waiting->of_source);
    if (na_addr_is_dead(item->source))
        na_match_bury(match, source); /* it died on the way here */
    if (item->plane == NA_MSG_EXPECTED) {
        list = &match->messages[na_match_bucket(match, item->tag)];
        match->entries++;
    } else if (item->plane == NA_MSG_RPC) {
        list = &match->rpc;
    }
    hg_list_push(list, &waiting->link);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_match_offer(
    struct na_class_core *core, const struct na_match_item *item)
{
    struct na_op *op;
    na_return_t ret = NA_SUCCESS;
    na_return_t fill = NA_SUCCESS;

    hg_enter(core->lock);
    op = na_match_take_recv(core, item);
    if (op != NULL)
        fill = na_match_fill(op, item);
    else
        ret = na_match_keep(core, item);
    hg_leave(core->lock);
    if (op != NULL)
        na_op_complete(op, fill);
    return ret;
}

HG_PRIVATE bool na_match_purge(struct na_class_core *core)
{
    struct na_match *match = &core->match;
    struct na_link dropped;
    bool any;

    hg_list_init(&dropped);
    hg_enter(core->lock);
    while (!hg_list_is_empty(&match->graves)) {
        struct na_addr_core *addr =
            HG_CONTAINER_OF(match->graves.next, struct na_addr_core, grave);
        struct na_match_waiting *waiting = HG_CONTAINER_OF(
            addr->waiting.next, struct na_match_waiting, of_source);

        assert(!hg_list_is_empty(&addr->waiting));
        na_match_unlink(match, waiting); /* the last one ends the grave */
        hg_list_push(&dropped, &waiting->link);
    }
    hg_leave(core->lock);
    any = !hg_list_is_empty(&dropped);
    na_match_free_list(&dropped);
    return any;
}

/* Move what waits for the RPC engine of a number to `mine`. Lock held. */
static void na_match_take_rpc(
    struct na_match *match, uint8_t target, struct na_link *mine)
{
    struct na_link *link = match->rpc.next;

    while (link != &match->rpc) {
        struct na_match_waiting *waiting = na_match_waiting_of(link);

        link = link->next;
        if (waiting->item.target != target)
            continue;
        na_match_unlink(match, waiting);
        hg_list_push(mine, &waiting->link);
    }
}

HG_PRIVATE na_return_t na_match_set_sink(struct na_context *context, int number,
    na_rpc_cb_t sink, na_rpc_dead_cb_t dead, void *arg)
{
    struct na_class_core *core = na_class_core_of(context->na_class);
    struct na_link mine;
    struct na_link *link;
    na_return_t ret;
    bool wake;

    assert(sink != NULL);
    hg_list_init(&mine);
    hg_enter(core->lock);
    ret = na_sink_open(context, number, sink, dead, arg);
    if (ret != NA_SUCCESS) {
        hg_leave(core->lock);
        return ret;
    }
    na_match_take_rpc(&core->match, na_sink_number(context), &mine);
    wake = na_match_let_go(&core->match);
    for (link = mine.next; link != &mine; link = link->next) {
        const struct na_match_item *item = &na_match_waiting_of(link)->item;

        (void) sink(arg, item->source, item->tag, item->data, item->size);
    }
    hg_leave(core->lock);
    if (wake)
        context->na_class->core->wake(context->na_class);
    na_match_free_list(&mine);
    return NA_SUCCESS;
}

/* ---- Receives ---- */

/* Take the message that a receive is for off its list, else put the receive
 * on one. Lock held. */
static na_return_t na_match_take_or_post(struct na_match *match,
    struct na_op_core *op, struct na_match_waiting **waiting_p)
{
    struct na_context_core *context = na_context_core_of(op->pub.context);
    struct na_match_waiting *waiting = NULL;
    struct na_link *list = &context->recv_unexpected;
    na_return_t ret = NA_SUCCESS;

    if (op->pub.type == NA_CB_RECV_EXPECTED) {
        ret = na_match_make_room(match);
        if (ret != NA_SUCCESS)
            return ret;
        list = &match->receives[na_match_bucket(match, op->pub.msg.tag)];
        waiting = na_match_find_waiting(match, op->pub.addr, op->pub.msg.tag);
        if (waiting == NULL)
            ret = na_addr_state(op->pub.addr);
        if (ret != NA_SUCCESS)
            return ret;
    } else if (!hg_list_is_empty(&match->unexpected)) {
        waiting = na_match_waiting_of(match->unexpected.next);
    }
    if (waiting != NULL) {
        na_match_unlink(match, waiting);
    } else {
        assert(hg_list_is_empty(&op->pub.link));
        hg_list_push(list, &op->pub.link);
        if (op->pub.type == NA_CB_RECV_EXPECTED)
            match->entries++;
    }
    *waiting_p = waiting;
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_match_post(struct na_op_core *op)
{
    struct na_class *na_class = op->pub.context->na_class;
    struct na_class_core *core = na_class_core_of(na_class);
    struct na_match_waiting *waiting = NULL;
    bool wake = false;
    na_return_t ret;

    hg_enter(core->lock);
    ret = na_match_take_or_post(&core->match, op, &waiting);
    if (ret == NA_SUCCESS)
        wake = na_match_let_go(&core->match);
    hg_leave(core->lock);
    /* Once posted, the operation may be over by now. */
    if (wake)
        na_class->core->wake(na_class);
    if (waiting != NULL) {
        na_op_complete(&op->pub, na_match_fill(&op->pub, &waiting->item));
        na_match_free(waiting);
    }
    return ret;
}

HG_PRIVATE na_return_t na_match_cancel(
    struct na_context *context, struct na_op_core *op, uint64_t id)
{
    struct na_class_core *core = na_class_core_of(context->na_class);
    bool posted;

    hg_enter(core->lock);
    posted = atomic_load(&op->id) == id && !hg_list_is_empty(&op->pub.link);
    if (posted) {
        hg_list_remove(&op->pub.link);
        if (op->pub.type == NA_CB_RECV_EXPECTED)
            core->match.entries--;
    }
    hg_leave(core->lock);
    if (!posted)
        return NA_NOENTRY;
    na_op_complete(&op->pub, NA_CANCELED);
    return NA_SUCCESS;
}

HG_PRIVATE void na_match_addr_dead(struct na_addr *addr, na_return_t ret)
{
    struct na_class_core *core = na_class_core_of(addr->na_class);
    struct na_match *match = &core->match;
    struct na_link failed;
    struct na_link *link;
    size_t i;

    hg_list_init(&failed);
    hg_enter(core->lock);
    if (na_addr_is_dead(addr) &&
        !hg_list_is_empty(&na_addr_core_of(addr)->waiting))
        na_match_bury(match, na_addr_core_of(addr));
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
    hg_leave(core->lock);
    while ((link = hg_list_pop(&failed)) != NULL)
        na_op_complete(HG_CONTAINER_OF(link, struct na_op, link), ret);
}
