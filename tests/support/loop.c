/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loop: see loop.h.
 *
 * Locking: one mutex guards the list of classes, their inboxes and addresses,
 * and the tap. Of the core's functions only alloc and free are called under it.
 */
#include "support/loop.h"

#include "harness.h"

#include <pthread.h>

struct loop_class {
    na_class_t base;
    struct loop_class *next; /* in the list of all classes */
    struct loop_item *first; /* inbox */
    struct loop_item *last;
    struct loop_addr *addrs; /* with a reference each, until closed */
};

struct loop_addr {
    na_addr_t addr;
    struct loop_addr *next;
    bool ended; /* ended by the peer: dead once the inbox is empty */
};

/* An item in flight: a message, or a frame of emulated RMA. */
struct loop_item {
    struct loop_item *next;
    na_addr_t source;
    bool frame;
    uint8_t plane;
    uint8_t target;
    na_tag_t tag;
    size_t header_size;
    size_t size;
    unsigned char *bytes; /* header, then data */
};

static pthread_mutex_t loop_lock = PTHREAD_MUTEX_INITIALIZER;
static struct loop_class *loop_classes;
static struct na_op *loop_stuck;
static loop_tap_t loop_tap;
static void *loop_tap_arg;

static struct loop_class *loop_of(na_class_t *na_class)
{
    return (struct loop_class *) (void *) na_class;
}

void loop_set_tap(loop_tap_t tap, void *arg)
{
    pthread_mutex_lock(&loop_lock);
    loop_tap = tap;
    loop_tap_arg = arg;
    pthread_mutex_unlock(&loop_lock);
}

/* ---- Addresses ---- */

static na_addr_t loop_known(struct loop_class *loop, const char *name)
{
    struct loop_addr *entry;

    for (entry = loop->addrs; entry != NULL; entry = entry->next)
        if (strcmp(entry->addr->name, name) == 0 &&
            !loop->base.core->addr_is_dead(entry->addr))
            return entry->addr;
    return NULL;
}

/* The address of `name` in a class, created if it is new. NULL: no memory. */
static na_addr_t loop_peer(struct loop_class *loop, const char *name)
{
    const struct na_core *core = loop->base.core;
    struct loop_addr *entry;
    na_addr_t addr;

    if (strcmp(name, loop->base.self_addr->name) == 0)
        return loop->base.self_addr;
    pthread_mutex_lock(&loop_lock);
    addr = loop_known(loop, name);
    pthread_mutex_unlock(&loop_lock);
    if (addr != NULL)
        return addr;
    addr = core->addr_create(&loop->base, name, NA_FALSE);
    if (addr == NULL)
        return NULL;
    entry = (struct loop_addr *) core->alloc(sizeof(*entry));
    if (entry == NULL) {
        core->addr_unref(addr);
        return NULL;
    }
    entry->addr = addr;
    entry->ended = false;
    pthread_mutex_lock(&loop_lock);
    entry->next = loop->addrs;
    loop->addrs = entry;
    pthread_mutex_unlock(&loop_lock);
    return addr;
}

/* The open class with a name; the lock is held. */
static struct loop_class *loop_find(const char *name)
{
    struct loop_class *loop = loop_classes;

    while (loop != NULL && strcmp(loop->base.self_addr->name, name) != 0)
        loop = loop->next;
    return loop;
}

static na_return_t loop_resolve(struct na_class *na_class, const char *name,
    na_bool_t from_peer, struct na_addr **addr_p)
{
    struct loop_class *loop = loop_of(na_class);
    na_addr_t addr;
    bool found;

    (void) from_peer;
    pthread_mutex_lock(&loop_lock);
    found = loop_find(name) != NULL;
    pthread_mutex_unlock(&loop_lock);
    if (!found)
        return NA_HOSTUNREACH;
    addr = loop_peer(loop, name);
    if (addr == NULL)
        return NA_NOMEM;
    loop->base.core->addr_ref(addr);
    *addr_p = addr;
    return NA_SUCCESS;
}

static na_return_t loop_lookup(struct na_op *op)
{
    struct na_class *na_class = op->context->na_class;
    na_return_t ret =
        loop_resolve(na_class, op->name, NA_FALSE, &op->result_addr);

    na_class->core->complete(op, ret);
    return NA_SUCCESS;
}

void loop_kill(na_class_t *na_class, na_addr_t addr)
{
    na_class->core->addr_dead(addr, NA_DISCONNECT);
}

/* The address of a peer that has ended the connection, or NULL; the lock is
 * held. */
static struct loop_addr *loop_ended(const struct loop_class *loop)
{
    struct loop_addr *entry = loop->addrs;

    while (entry != NULL && !entry->ended)
        entry = entry->next;
    return entry;
}

/* End a connection: both sides are notified. */
static void loop_abandon(struct na_addr *addr)
{
    const char *name = addr->na_class->self_addr->name;
    struct loop_class *to;

    pthread_mutex_lock(&loop_lock);
    to = loop_find(addr->name);
    if (to != NULL) {
        struct loop_addr *entry;

        for (entry = to->addrs; entry != NULL; entry = entry->next)
            entry->ended = entry->ended || strcmp(entry->addr->name, name) == 0;
    }
    pthread_mutex_unlock(&loop_lock);
    if (to != NULL)
        to->base.core->wake(&to->base);
    addr->na_class->core->addr_dead(addr, NA_DISCONNECT);
}

/* ---- Sending ---- */

static void loop_free_item(const struct na_core *core, struct loop_item *item)
{
    if (item != NULL)
        core->free(item->bytes);
    core->free(item);
}

static struct loop_item *loop_new_item(const struct na_core *core, size_t size)
{
    struct loop_item *item = (struct loop_item *) core->alloc(sizeof(*item));

    if (item == NULL)
        return NULL;
    memset(item, 0, sizeof(*item));
    item->bytes = (unsigned char *) core->alloc(size);
    if (item->bytes == NULL) {
        core->free(item);
        return NULL;
    }
    return item;
}

static void loop_append(struct loop_class *to, struct loop_item *item)
{
    pthread_mutex_lock(&loop_lock);
    if (to->last != NULL)
        to->last->next = item;
    else
        to->first = item;
    to->last = item;
    pthread_mutex_unlock(&loop_lock);
    to->base.core->wake(&to->base);
}

/* Append an item to the inbox of the class with a name; the item is taken. */
static na_return_t loop_file(
    na_class_t *from, const char *name, struct loop_item *item)
{
    struct loop_class *to;

    pthread_mutex_lock(&loop_lock);
    to = loop_find(name);
    pthread_mutex_unlock(&loop_lock);
    if (to != NULL)
        item->source = loop_peer(to, from->self_addr->name);
    if (to == NULL || item->source == NULL) {
        loop_free_item(from->core, item);
        return to == NULL ? NA_DISCONNECT : NA_NOMEM;
    }
    loop_append(to, item);
    return NA_SUCCESS;
}

static enum loop_fate loop_ask_tap(na_class_t *from, struct loop_item *item)
{
    loop_tap_t tap;
    void *arg;

    pthread_mutex_lock(&loop_lock);
    tap = loop_tap;
    arg = loop_tap_arg;
    pthread_mutex_unlock(&loop_lock);
    if (tap == NULL || item->plane != NA_MSG_RPC)
        return LOOP_PASS;
    return tap(arg, from, item->bytes, &item->size);
}

static na_return_t loop_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    na_class_t *from = context->na_class;
    struct loop_item *item = loop_new_item(from->core, (size_t) msg->size);
    enum loop_fate fate;
    na_return_t ret;
    na_size_t i;

    if (item == NULL)
        return NA_NOMEM;
    for (i = 0; i < msg->segment_count; i++) {
        if (msg->segments[i].size > 0)
            memcpy(item->bytes + item->size, msg->segments[i].address,
                (size_t) msg->segments[i].size);
        item->size += (size_t) msg->segments[i].size;
    }
    item->plane = msg->plane;
    item->target = msg->target;
    item->tag = msg->tag;
    fate = loop_ask_tap(from, item);
    if (fate == LOOP_PASS || (fate == LOOP_LATER && op != NULL)) {
        ret = loop_file(from, msg->addr->name, item);
    } else if (fate == LOOP_STUCK && op != NULL) {
        loop_free_item(from->core, item);
        HG_CHECK(loop_stuck == NULL);
        loop_stuck = op;
        return NA_SUCCESS;
    } else {
        loop_free_item(from->core, item);
        ret = fate == LOOP_DROP ? NA_SUCCESS
            : op == NULL        ? NA_AGAIN
                                : NA_DISCONNECT;
    }
    if (op == NULL || ret == NA_NOMEM)
        return ret;
    from->core->complete(op, ret);
    return NA_SUCCESS;
}

na_class_t *loop_stuck_class(void)
{
    HG_CHECK(loop_stuck != NULL);
    return loop_stuck->context->na_class;
}

void loop_unstick(void)
{
    HG_CHECK(loop_stuck != NULL);
    loop_stuck->context->na_class->core->complete(loop_stuck, NA_DISCONNECT);
    loop_stuck = NULL;
}

static na_return_t loop_frame_send(na_addr_t addr, const void *header,
    size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    na_class_t *from = addr->na_class;
    struct loop_item *item = loop_new_item(from->core, header_size + size);
    na_return_t ret;

    if (item == NULL)
        return NA_NOMEM;
    item->frame = true;
    item->header_size = header_size;
    item->size = size;
    memcpy(item->bytes, header, header_size);
    if (size > 0)
        memcpy(item->bytes + header_size, data, size);
    ret = loop_file(from, addr->name, item);
    if (ret == NA_SUCCESS && release != NULL)
        release(arg);
    return ret;
}

void loop_inject(
    na_class_t *to, na_addr_t source, const void *data, size_t size)
{
    struct loop_item *item = loop_new_item(to->core, size);

    HG_CHECK(item != NULL);
    item->source = source;
    item->plane = NA_MSG_RPC;
    item->size = size;
    if (size > 0)
        memcpy(item->bytes, data, size);
    loop_append(loop_of(to), item);
}

bool loop_is_idle(void)
{
    const struct loop_class *loop;
    bool idle = true;

    pthread_mutex_lock(&loop_lock);
    for (loop = loop_classes; loop != NULL; loop = loop->next)
        idle = idle && loop->first == NULL && loop_ended(loop) == NULL;
    pthread_mutex_unlock(&loop_lock);
    return idle;
}

/* ---- Progress ---- */

static unsigned loop_poll(struct na_context *context)
{
    struct loop_class *loop = loop_of(context->na_class);
    const struct na_core *core = loop->base.core;
    unsigned n = 0;

    for (;;) {
        struct loop_addr *ended = NULL;
        struct loop_item *item;

        pthread_mutex_lock(&loop_lock);
        item = loop->first;
        if (item == NULL)
            ended = loop_ended(loop);
        if (ended != NULL)
            ended->ended = false;
        if (item != NULL) {
            loop->first = item->next;
            if (loop->first == NULL)
                loop->last = NULL;
        }
        pthread_mutex_unlock(&loop_lock);
        if (ended != NULL)
            core->addr_dead(ended->addr, NA_DISCONNECT);
        else if (item == NULL)
            return n;
        if (item == NULL)
            continue;
        if (item->frame)
            core->frame_arrived(&loop->base, item->source, item->bytes,
                item->header_size, item->bytes + item->header_size, item->size);
        else
            (void) core->msg_arrived(&loop->base, item->source, item->plane,
                item->target, item->tag, item->bytes, item->size);
        loop_free_item(core, item);
        n++;
    }
}

static int loop_poll_fd(struct na_context *context)
{
    (void) context;
    return NA_POLL_FD_IDLE; /* a new item wakes us */
}

/* An item that arrived since the last poll, before any thread was armed, woke
 * no thread. */
static na_bool_t loop_wait_begin(struct na_context *context)
{
    struct loop_class *loop = loop_of(context->na_class);
    bool idle;

    pthread_mutex_lock(&loop_lock);
    idle = loop->first == NULL && loop_ended(loop) == NULL;
    pthread_mutex_unlock(&loop_lock);
    return idle ? NA_TRUE : NA_FALSE;
}

/* ---- Opening and closing ---- */

static na_size_t loop_size(size_t wanted)
{
    return wanted != 0 ? wanted : 4096;
}

static na_return_t loop_open(na_class_t *na_class, const char *host)
{
    struct loop_class *loop = loop_of(na_class);
    char name[NA_MAX_ADDR_LEN];

    snprintf(name, sizeof(name), "%s://%s", na_class->protocol, host);
    na_class->max_unexpected_size =
        loop_size(na_class->info->max_unexpected_size);
    na_class->max_expected_size = loop_size(na_class->info->max_expected_size);
    na_class->max_tag = UINT32_MAX;
    na_class->self_addr = na_class->core->addr_create(na_class, name, NA_TRUE);
    if (na_class->self_addr == NULL)
        return NA_NOMEM;
    pthread_mutex_lock(&loop_lock);
    loop->next = loop_classes;
    loop_classes = loop;
    pthread_mutex_unlock(&loop_lock);
    return NA_SUCCESS;
}

static void loop_close(na_class_t *na_class, unsigned linger_ms)
{
    struct loop_class *loop = loop_of(na_class);
    const struct na_core *core = na_class->core;
    struct loop_class **at = &loop_classes;

    (void) linger_ms;
    pthread_mutex_lock(&loop_lock);
    while (*at != loop)
        at = &(*at)->next;
    *at = loop->next;
    pthread_mutex_unlock(&loop_lock);
    while (loop->first != NULL) {
        struct loop_item *item = loop->first;

        loop->first = item->next;
        loop_free_item(core, item);
    }
    while (loop->addrs != NULL) {
        struct loop_addr *entry = loop->addrs;

        loop->addrs = entry->next;
        core->addr_unref(entry->addr);
        core->free(entry);
    }
}

static const char *const loop_protocols[] = {"loop", NULL};

static const struct na_plugin loop_plugin = {
    .abi = NA_PLUGIN_ABI,
    .size = sizeof(struct na_plugin),
    .name = "loop",
    .protocols = loop_protocols,
    .class_size = sizeof(struct loop_class),
    .open = loop_open,
    .close = loop_close,
    .addr_lookup = loop_lookup,
    .addr_abandon = loop_abandon,
    .addr_resolve = loop_resolve,
    .msg_send = loop_send,
    .frame_send = loop_frame_send,
    .poll = loop_poll,
    .poll_fd = loop_poll_fd,
    .wait_begin = loop_wait_begin,
};

void loop_register(void)
{
    HG_CHECK_OK(NA_Register_plugin(&loop_plugin));
}
