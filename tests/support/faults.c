/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults: see faults.h.
 *
 * A delayed message or frame is a copy, so its owner is released at once. An
 * operation whose payload must stay is either refused or passed on. Delayed
 * items are sent in order, unless a message was chosen to overtake.
 *
 * Locking: one mutex guards the queue, the random numbers and the counters. No
 * slot of the inner transport and no core function is called under it.
 */
#define HG_NA_PLUGIN_API 1
#include "support/faults.h"

#include "hg.h"

#include "harness.h"

#include <pthread.h>

#define FAULTS_TRACE 8192u

/* A delayed message or frame, with copies of its bytes. */
struct faults_item {
    struct faults_item *next;
    struct na_addr *addr;       /* a reference */
    struct na_context *context; /* NULL: a frame */
    na_tag_t tag;
    uint8_t plane;
    uint8_t target;
    size_t header_size;
    size_t size;
    unsigned char bytes[]; /* header, then data */
};

static struct {
    pthread_mutex_t lock;
    const struct na_plugin *inner;
    const struct hg_test_faults *rates;
    struct na_plugin table;
    uint64_t random;
    struct faults_item *first; /* delayed items, oldest first */
    struct hg_test_faults_count count;
    bool wake_wanted; /* a frame was refused with NA_AGAIN */
} faults = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Random numbers ---- */

/* The lock is held. */
static bool faults_hit(unsigned rate, uint64_t *counter)
{
    if (rate == 0 || hg_test_random(&faults.random) % 1000 >= rate)
        return false;
    ++*counter;
    return true;
}

enum faults_fate {
    FAULTS_PASS,
    FAULTS_DROP,
    FAULTS_WAIT,
    FAULTS_TWICE,
    FAULTS_CUT,
    FAULTS_AGAIN,
    FAULTS_REFUSE,
    FAULTS_KILL
};

static enum faults_fate faults_draw(void)
{
    const struct hg_test_faults *rates = faults.rates;
    struct hg_test_faults_count *count = &faults.count;
    enum faults_fate fate = FAULTS_PASS;

    pthread_mutex_lock(&faults.lock);
    if (faults_hit(rates->kill, &count->killed))
        fate = FAULTS_KILL;
    else if (faults_hit(rates->refuse, &count->refused))
        fate = FAULTS_REFUSE;
    else if (faults_hit(rates->again, &count->again))
        fate = FAULTS_AGAIN;
    else if (faults_hit(rates->drop, &count->dropped))
        fate = FAULTS_DROP;
    else if (faults_hit(rates->cut, &count->cut))
        fate = FAULTS_CUT;
    else if (faults_hit(rates->duplicate, &count->duplicated))
        fate = FAULTS_TWICE;
    else if (faults_hit(rates->delay, &count->delayed))
        fate = FAULTS_WAIT;
    else
        count->passed++;
    pthread_mutex_unlock(&faults.lock);
    return fate;
}

/* ---- Delayed items ---- */

static struct faults_item *faults_item_new(
    struct na_addr *addr, size_t header_size, size_t size)
{
    struct faults_item *item =
        (struct faults_item *) calloc(1, sizeof(*item) + header_size + size);

    HG_CHECK(item != NULL);
    addr->na_class->core->addr_ref(addr);
    item->addr = addr;
    item->header_size = header_size;
    item->size = size;
    return item;
}

static void faults_item_free(struct faults_item *item)
{
    item->addr->na_class->core->addr_unref(item->addr);
    free(item);
}

static struct faults_item *faults_copy_msg(
    struct na_context *context, const struct na_msg *msg)
{
    struct faults_item *item =
        faults_item_new(msg->addr, 0, (size_t) msg->size);
    size_t used = 0;
    na_size_t i;

    item->context = context;
    item->tag = msg->tag;
    item->plane = msg->plane;
    item->target = msg->target;
    for (i = 0; i < msg->segment_count; i++) {
        size_t size = (size_t) msg->segments[i].size;

        if (size > 0)
            memcpy(item->bytes + used, msg->segments[i].address, size);
        used += size;
    }
    return item;
}

/* Whether `later` must not overtake `item`. */
static bool faults_follows(
    const struct faults_item *item, const struct faults_item *later)
{
    if ((item->context == NULL) != (later->context == NULL))
        return false;
    return item->context == NULL ||
        (item->plane == later->plane &&
            (item->tag == later->tag || item->plane != NA_MSG_EXPECTED));
}

static void faults_put(struct faults_item *item)
{
    struct faults_item **at = &faults.first;

    pthread_mutex_lock(&faults.lock);
    while (*at != NULL)
        at = &(*at)->next;
    *at = item;
    pthread_mutex_unlock(&faults.lock);
    item->addr->na_class->core->wake(item->addr->na_class);
}

/* Whether an item is delayed, so that a new one must queue after it. */
static bool faults_waiting(void)
{
    bool waiting;

    pthread_mutex_lock(&faults.lock);
    waiting = faults.first != NULL;
    pthread_mutex_unlock(&faults.lock);
    return waiting;
}

/* Take the oldest item, or one that need not follow those before it. */
static struct faults_item *faults_take(void)
{
    struct faults_item **at = &faults.first, **chosen = at, *item;
    const struct faults_item *before;

    pthread_mutex_lock(&faults.lock);
    if (*at != NULL &&
        faults_hit(faults.rates->reorder, &faults.count.reordered))
        for (at = &(*at)->next; *at != NULL; at = &(*at)->next) {
            bool may = true;

            for (before = faults.first; before != *at; before = before->next)
                may = may && !faults_follows(before, *at);
            if (may)
                chosen = at;
        }
    item = *chosen;
    if (item != NULL) {
        *chosen = item->next;
        item->next = NULL;
    }
    pthread_mutex_unlock(&faults.lock);
    return item;
}

static void faults_put_back(struct faults_item *item)
{
    pthread_mutex_lock(&faults.lock);
    item->next = faults.first;
    faults.first = item;
    pthread_mutex_unlock(&faults.lock);
}

/* Pass an item on; its destination may be dead meanwhile. */
static na_return_t faults_pass_on(struct faults_item *item)
{
    struct na_segment segment;
    struct na_msg msg;

    if (item->context == NULL)
        return faults.inner->frame_send(item->addr, item->bytes,
            item->header_size, item->bytes + item->header_size, item->size,
            NULL, NULL);
    segment.address = item->bytes;
    segment.size = item->size;
    memset(&msg, 0, sizeof(msg));
    msg.addr = item->addr;
    msg.segments = &segment;
    msg.segment_count = 1;
    msg.size = item->size;
    msg.tag = item->tag;
    msg.plane = item->plane;
    msg.target = item->target;
    return faults.inner->msg_send(item->context, &msg, NULL);
}

static void faults_drop_context(const struct na_context *context)
{
    struct faults_item **at = &faults.first, *gone = NULL, *item;

    pthread_mutex_lock(&faults.lock);
    while ((item = *at) != NULL) {
        if (item->context == context) {
            *at = item->next;
            item->next = gone;
            gone = item;
        } else {
            at = &item->next;
        }
    }
    pthread_mutex_unlock(&faults.lock);
    while ((item = gone) != NULL) {
        gone = item->next;
        faults_item_free(item);
    }
}

/* ---- The slots ---- */

static na_return_t faults_msg_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    const struct na_core *core = context->na_class->core;
    enum faults_fate fate = faults_draw();
    struct faults_item *item;

    if (fate == FAULTS_KILL) {
        core->addr_dead(msg->addr, NA_DISCONNECT);
        return NA_DISCONNECT;
    }
    if (fate == FAULTS_REFUSE)
        return NA_DISCONNECT;
    if (fate == FAULTS_AGAIN && op == NULL)
        return NA_AGAIN;
    if (fate == FAULTS_PASS && !faults_waiting())
        return faults.inner->msg_send(context, msg, op);
    if (fate != FAULTS_DROP) {
        item = faults_copy_msg(context, msg);
        if (fate == FAULTS_CUT)
            item->size /= 2;
        faults_put(item);
    }
    if (fate == FAULTS_TWICE)
        faults_put(faults_copy_msg(context, msg));
    if (op != NULL)
        core->complete(op, NA_SUCCESS); /* it was copied */
    return NA_SUCCESS;
}

static na_return_t faults_frame_send(struct na_addr *addr, const void *header,
    size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    enum faults_fate fate = faults_draw();
    unsigned copies = fate == FAULTS_TWICE ? 2 : fate == FAULTS_DROP ? 0 : 1;

    if (fate == FAULTS_REFUSE)
        return NA_DISCONNECT;
    if (fate == FAULTS_AGAIN) {
        pthread_mutex_lock(&faults.lock);
        faults.wake_wanted = true;
        pthread_mutex_unlock(&faults.lock);
        return NA_AGAIN;
    }
    if (fate == FAULTS_PASS && !faults_waiting())
        return faults.inner->frame_send(
            addr, header, header_size, data, size, release, arg);
    for (; copies > 0; copies--) {
        struct faults_item *item = faults_item_new(addr, header_size, size);

        memcpy(item->bytes, header, header_size);
        if (size > 0)
            memcpy(item->bytes + header_size, data, size);
        if (fate == FAULTS_CUT && size > 0)
            item->size = size / 2;
        else if (fate == FAULTS_CUT)
            item->header_size = header_size / 2;
        faults_put(item);
    }
    if (release != NULL)
        release(arg);
    if (fate == FAULTS_KILL)
        addr->na_class->core->addr_dead(addr, NA_DISCONNECT);
    return NA_SUCCESS;
}

static unsigned faults_poll(struct na_context *context)
{
    struct faults_item *item;
    unsigned n = 0;
    bool wake;

    pthread_mutex_lock(&faults.lock);
    wake = faults.wake_wanted;
    faults.wake_wanted = false;
    pthread_mutex_unlock(&faults.lock);
    if (wake)
        context->na_class->core->wake(context->na_class);
    while (n < 16 && (item = faults_take()) != NULL) {
        if (faults_pass_on(item) == NA_AGAIN) {
            faults_put_back(item);
            break;
        }
        faults_item_free(item);
        n++;
    }
    return n + faults.inner->poll(context);
}

static int faults_poll_fd(struct na_context *context)
{
    (void) context;
    return NA_POLL_FD_NONE;
}

static void faults_context_destroy(struct na_context *context)
{
    faults_drop_context(context);
    if (faults.inner->context_destroy != NULL)
        faults.inner->context_destroy(context);
}

static void faults_close(struct na_class *na_class, unsigned linger_ms)
{
    faults_drop_context(NULL);
    faults.inner->close(na_class, linger_ms);
}

const struct na_plugin *hg_test_faults_wrap(const struct na_plugin *inner,
    const char *name, uint64_t seed, const struct hg_test_faults *rates)
{
    HG_CHECK(faults.first == NULL);
    faults.inner = inner;
    faults.rates = rates;
    faults.random = seed;
    faults.table = *inner;
    faults.table.name = name;
    /* Several contexts would call poll at once, and the order is not kept. */
    faults.table.caps &= ~(uint64_t) NA_CAP_ORDERED;
    faults.table.msg_send = faults_msg_send;
    if (inner->frame_send != NULL)
        faults.table.frame_send = faults_frame_send;
    faults.table.poll = faults_poll;
    faults.table.poll_fd = faults_poll_fd;
    faults.table.context_destroy = faults_context_destroy;
    faults.table.close = faults_close;
    return &faults.table;
}

struct hg_test_faults_count hg_test_faults_counts(void)
{
    struct hg_test_faults_count count;

    pthread_mutex_lock(&faults.lock);
    count = faults.count;
    pthread_mutex_unlock(&faults.lock);
    return count;
}

/* ---- The trace ---- */

static struct {
    pthread_mutex_t lock;
    const struct na_plugin *inner;
    struct na_plugin table;
    char text[2][FAULTS_TRACE]; /* being written, and returned */
    size_t used;
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void trace_note(const char *slot)
{
    size_t size = strlen(slot);

    pthread_mutex_lock(&trace.lock);
    HG_CHECK(trace.used + size + 2 <= FAULTS_TRACE);
    memcpy(trace.text[0] + trace.used, slot, size);
    trace.used += size;
    trace.text[0][trace.used++] = ' ';
    pthread_mutex_unlock(&trace.lock);
}

static na_return_t trace_open(struct na_class *na_class, const char *host)
{
    trace_note("open");
    return trace.inner->open(na_class, host);
}

static void trace_close(struct na_class *na_class, unsigned linger_ms)
{
    trace_note("close");
    trace.inner->close(na_class, linger_ms);
}

static na_return_t trace_context_create(struct na_context *context)
{
    trace_note(context->helper ? "helper_create" : "context_create");
    return trace.inner->context_create != NULL
        ? trace.inner->context_create(context)
        : NA_SUCCESS;
}

static void trace_context_destroy(struct na_context *context)
{
    trace_note("context_destroy");
    if (trace.inner->context_destroy != NULL)
        trace.inner->context_destroy(context);
}

static na_return_t trace_addr_resolve(struct na_class *na_class,
    const char *name, na_bool_t from_peer, struct na_addr **addr_p)
{
    trace_note("addr_resolve");
    return trace.inner->addr_resolve(na_class, name, from_peer, addr_p);
}

static void trace_addr_release(struct na_addr *addr)
{
    trace_note("addr_release");
    if (trace.inner->addr_release != NULL)
        trace.inner->addr_release(addr);
}

static na_return_t trace_msg_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    trace_note(op != NULL ? "msg_send+op" : "msg_send");
    return trace.inner->msg_send(context, msg, op);
}

static na_return_t trace_mem_register(struct na_mem_handle *mem)
{
    trace_note("mem_register");
    return trace.inner->mem_register(mem);
}

static void trace_mem_deregister(struct na_mem_handle *mem)
{
    trace_note("mem_deregister");
    trace.inner->mem_deregister(mem);
}

static na_return_t trace_put(struct na_op *op)
{
    trace_note("put");
    return trace.inner->put(op);
}

static na_return_t trace_get(struct na_op *op)
{
    trace_note("get");
    return trace.inner->get(op);
}

static na_return_t trace_cancel(struct na_op *op, uint64_t op_id)
{
    trace_note("cancel");
    return trace.inner->cancel(op, op_id);
}

const struct na_plugin *hg_test_trace_wrap(
    const struct na_plugin *inner, const char *name)
{
    trace.inner = inner;
    trace.used = 0;
    trace.table = *inner;
    trace.table.name = name;
    trace.table.open = trace_open;
    trace.table.close = trace_close;
    trace.table.context_create = trace_context_create;
    trace.table.context_destroy = trace_context_destroy;
    trace.table.addr_resolve = trace_addr_resolve;
    trace.table.addr_release = trace_addr_release;
    trace.table.msg_send = trace_msg_send;
    if (inner->put != NULL) {
        trace.table.mem_register = trace_mem_register;
        trace.table.mem_deregister = trace_mem_deregister;
        trace.table.put = trace_put;
        trace.table.get = trace_get;
    }
    if (inner->cancel != NULL)
        trace.table.cancel = trace_cancel;
    return &trace.table;
}

const char *hg_test_trace_take(void)
{
    pthread_mutex_lock(&trace.lock);
    memcpy(trace.text[1], trace.text[0], trace.used);
    trace.text[1][trace.used] = '\0';
    trace.used = 0;
    pthread_mutex_unlock(&trace.lock);
    return trace.text[1];
}
