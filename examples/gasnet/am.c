/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * am: active messages over NA's unexpected messages.
 *
 *     offset  bytes
 *          0      1  kind
 *          1      1  handler; of a slot: the round
 *          2      1  arguments
 *          3      1  flags
 *          4      2  credits that the receiver gets back
 *          6      2  0
 *          8      4  rank of the sender
 *         12      4  bytes of the payload
 *         16      8  destination of a long message
 *         24    4 M  arguments; padded to a multiple of 16
 *                    payload
 *
 * All nodes run one program, so numbers have the byte order of the host. A
 * receiver checks all of it.
 *
 * Flow control: a node may have AM_CREDITS at each peer. A request takes one,
 * and one more for each AM_CREDIT_BYTES. The peer returns them with its next
 * message, or alone when AM_RETURN have come together. Only requests wait for
 * credits. Replies and messages of the conduit are bounded by the requests of
 * the other side, so they never wait: a handler may send them.
 */
#define _GNU_SOURCE
#include "gasnet_hg.h"

#include <stdlib.h>

#define AM_ALIGN 16u
#define AM_MAX_ARGS 16u
#define AM_RECEIVES 64
#define AM_SMALL 256u /* bytes of a small buffer */
#define AM_CREDIT_BYTES 16384u
#define AM_RETURN (GASNET_HG_CREDITS / 4)

enum {
    AM_SHORT = GASNET_HG_SHORT,
    AM_MEDIUM = GASNET_HG_MEDIUM,
    AM_LONG = GASNET_HG_LONG,
    AM_RETURNS, /* nothing but credits */
    AM_SLOT     /* of a barrier: phase, id and flags are arguments */
};

enum {
    AM_REPLY = 1,
    AM_PLACED = 2 /* long: the data is there already */
};

struct am_header {
    uint8_t kind, handler, nargs, flags;
    uint16_t returns, zero;
    uint32_t source, length;
    uint64_t dest;
};

/* A message while NA sends it. Free ones are on one of two lists. They are not
 * freed; `older` keeps those in flight reachable, for leak checkers. */
struct am_buffer {
    struct am_buffer *next, *older;
    struct am_buffer **list;
    unsigned char *bytes; /* aligned to AM_ALIGN */
};

/* The token of a handler. */
struct am_token {
    gasnet_node_t source;
    bool may_reply; /* a request that was not replied to */
};

static struct am_buffer *am_small, *am_large, *am_newest;
static pthread_mutex_t am_lock = PTHREAD_MUTEX_INITIALIZER;
static size_t am_max; /* bytes of a message */
static unsigned char *am_receives[AM_RECEIVES];

/* ---- Sending ---- */

static size_t am_header_size(unsigned nargs)
{
    size_t size = sizeof(struct am_header) + nargs * sizeof(int32_t);

    return (size + AM_ALIGN - 1) / AM_ALIGN * AM_ALIGN;
}

static int32_t am_cost(size_t size)
{
    return 1 + (int32_t) (size / AM_CREDIT_BYTES);
}

/* Aligned memory for messages, which is never freed. */
static unsigned char *am_alloc(size_t size)
{
    unsigned char *bytes = (unsigned char *) NA_Msg_buf_alloc(
        gasnet_hg.boot.na_class, size + AM_ALIGN);

    if (bytes == NULL)
        gasnet_hg_fatal("out of memory for messages of %zu bytes", size);
    return bytes + (AM_ALIGN - (uintptr_t) bytes % AM_ALIGN) % AM_ALIGN;
}

static struct am_buffer *am_buffer_new(struct am_buffer **list)
{
    struct am_buffer *buffer = (struct am_buffer *) calloc(1, sizeof(*buffer));

    if (buffer == NULL)
        gasnet_hg_fatal("out of memory for a message");
    buffer->list = list;
    buffer->bytes = am_alloc(list == &am_small ? AM_SMALL : am_max);
    (void) pthread_mutex_lock(&am_lock);
    buffer->older = am_newest;
    am_newest = buffer;
    (void) pthread_mutex_unlock(&am_lock);
    return buffer;
}

static struct am_buffer *am_buffer_get(size_t size)
{
    struct am_buffer **list = size <= AM_SMALL ? &am_small : &am_large;
    struct am_buffer *buffer;

    if (gasnet_hg.threaded)
        (void) pthread_mutex_lock(&am_lock);
    buffer = *list;
    if (buffer != NULL)
        *list = buffer->next;
    if (gasnet_hg.threaded)
        (void) pthread_mutex_unlock(&am_lock);
    return buffer != NULL ? buffer : am_buffer_new(list);
}

static void am_buffer_put(struct am_buffer *buffer)
{
    if (gasnet_hg.threaded)
        (void) pthread_mutex_lock(&am_lock);
    buffer->next = *buffer->list;
    *buffer->list = buffer;
    if (gasnet_hg.threaded)
        (void) pthread_mutex_unlock(&am_lock);
}

static na_return_t am_sent(const struct na_cb_info *info)
{
    am_buffer_put((struct am_buffer *) info->arg);
    return NA_SUCCESS;
}

/* Send a message without waiting. A message to a dead node is dropped: the job
 * is ending. */
static void am_send(gasnet_node_t node, struct am_header *header,
    const int32_t *args, const void *payload, size_t nbytes)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    struct gasnet_hg_peer *peer = &gasnet_hg.peers[node];
    size_t front = am_header_size(header->nargs);
    struct am_buffer *buffer;
    na_return_t ret;

    if (atomic_load_explicit(&peer->lost, memory_order_relaxed))
        return;
    buffer = am_buffer_get(front + nbytes);
    header->source = gasnet_hg_rank;
    header->returns = (uint16_t) atomic_exchange(&peer->returns, 0);
    memcpy(buffer->bytes, header, sizeof(*header));
    if (header->nargs > 0)
        memcpy(buffer->bytes + sizeof(*header), args,
            header->nargs * sizeof(int32_t));
    if (nbytes > 0)
        memcpy(buffer->bytes + front, payload, nbytes);
    gasnet_hg_enter(self);
    ret = NA_Msg_send_unexpected(gasnet_hg.boot.na_class,
        gasnet_hg.boot.context, am_sent, buffer, buffer->bytes, front + nbytes,
        peer->addr, GASNET_HG_TAG_AM, NA_OP_ID_IGNORE);
    gasnet_hg_leave(self);
    if (ret == NA_SUCCESS)
        return;
    am_buffer_put(buffer);
    if (ret != NA_DISCONNECT && ret != NA_HOSTUNREACH)
        gasnet_hg_fatal(
            "a message to node %u: %s", node, NA_Error_to_string(ret));
    gasnet_hg_lost(node);
}

/* Wait until the peer takes a request of this cost. */
static void am_take_credits(struct gasnet_hg_peer *peer, int32_t cost)
{
    int32_t credits = atomic_load(&peer->credits);
    unsigned tries = 0;

    for (;;) {
        while (credits >= cost)
            if (atomic_compare_exchange_weak(
                    &peer->credits, &credits, credits - cost))
                return;
        if (atomic_load(&peer->lost))
            return;
        gasnet_hg_wait(&tries);
        credits = atomic_load(&peer->credits);
    }
}

void gasnet_hg_send_slot(gasnet_node_t node, unsigned round, uint32_t phase,
    int32_t id, uint32_t flags)
{
    const int32_t args[3] = {(int32_t) phase, id, (int32_t) flags};
    struct am_header header = {
        .kind = AM_SLOT, .handler = (uint8_t) round, .nargs = 3};

    am_send(node, &header, args, NULL, 0);
}

/* ---- Running handlers ---- */

/* Run the handler that a header names. */
static void am_run(const struct am_header *header, void *payload,
    const int32_t *args, gasnet_node_t source)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    void (*function)(void) = gasnet_hg.handlers[header->handler];
    struct am_token token = {source, (header->flags & AM_REPLY) == 0};

    if (function == NULL)
        gasnet_hg_fatal("a message of node %u is for handler %u, which is not "
                        "registered here",
            source, header->handler);
    if (gasnet_hg.checked)
        gasnet_hg_begin_handler(self);
    self->handlers++;
    gasnet_hg_call_handler(function, &token, header->kind == AM_SHORT, payload,
        header->length, header->nargs, args);
    self->handlers--;
    if (gasnet_hg.checked)
        gasnet_hg_end_handler(self, header->handler);
}

/* A message of this node to itself: the handler runs now, with a copy of a
 * medium payload. */
static int am_loop(
    const struct am_header *header, const int32_t *args, const void *payload)
{
    unsigned char **copy =
        &gasnet_hg_self()->loopback[(header->flags & AM_REPLY) != 0];
    void *at = (void *) (uintptr_t) header->dest;

    if (header->kind == AM_MEDIUM) {
        if (*copy == NULL)
            *copy = am_alloc(am_max);
        at = *copy;
    }
    if (header->length > 0)
        memcpy(at, payload, header->length);
    am_run(header, at, args, gasnet_hg_rank);
    return GASNET_OK;
}

/* ---- Requests and replies ---- */

/* Bring the data of a long message to its place, if the message cannot carry
 * it or need not. A handler cannot wait for NA: the limit of its replies is
 * that of a message. */
static bool am_place(
    gasnet_node_t node, const struct am_header *header, const void *source)
{
    void *dest = (void *) (uintptr_t) header->dest;

    if (gasnet_hg_shifts[node] == GASNET_HG_FAR &&
        header->length <= gasnet_hg_max_medium)
        return false;
    gasnet_put(node, dest, source, header->length);
    return true;
}

/* Send a request or a reply. */
static int am_start(gasnet_node_t node, struct am_header *header,
    const int32_t *args, const void *source)
{
    size_t nbytes = header->length;

    if (node == gasnet_hg_rank)
        return am_loop(header, args, source);
    if (header->kind == AM_LONG && am_place(node, header, source)) {
        header->flags |= AM_PLACED;
        nbytes = 0;
    }
    if ((header->flags & AM_REPLY) == 0)
        am_take_credits(&gasnet_hg.peers[node],
            am_cost(am_header_size(header->nargs) + nbytes));
    am_send(node, header, args, source, nbytes);
    return GASNET_OK;
}

int gasnet_hg_request(int kind, gasnet_node_t dest, gasnet_handler_t handler,
    const void *source, size_t nbytes, void *dest_addr, unsigned nargs,
    const gasnet_handlerarg_t *args)
{
    struct am_header header = {
        .kind = (uint8_t) (kind == GASNET_HG_ASYNC ? AM_LONG : kind),
        .handler = handler,
        .nargs = (uint8_t) nargs,
        .length = (uint32_t) nbytes,
        .dest = (uintptr_t) dest_addr};

    if (!gasnet_hg.attached)
        return GASNET_ERR_NOT_INIT;
    if (dest >= gasnet_hg_size ||
        nbytes > (kind == AM_MEDIUM ? gasnet_hg_max_medium
                                    : gasnet_AMMaxLongRequest()))
        return GASNET_ERR_BAD_ARG;
    if (gasnet_hg.checked) {
        gasnet_hg_check_call("gasnet_AMRequest");
        if (header.kind == AM_LONG)
            gasnet_hg_check(dest, dest_addr, nbytes);
    }
    return am_start(dest, &header, args, source);
}

int gasnet_hg_reply(int kind, gasnet_token_t token, gasnet_handler_t handler,
    const void *source, size_t nbytes, void *dest_addr, unsigned nargs,
    const gasnet_handlerarg_t *args)
{
    struct am_token *request = (struct am_token *) token;
    struct am_header header = {.kind = (uint8_t) kind,
        .handler = handler,
        .nargs = (uint8_t) nargs,
        .flags = AM_REPLY,
        .length = (uint32_t) nbytes,
        .dest = (uintptr_t) dest_addr};

    if (request == NULL ||
        nbytes >
            (kind == AM_LONG ? gasnet_hg_max_long_reply : gasnet_hg_max_medium))
        return GASNET_ERR_BAD_ARG;
    if (gasnet_hg.checked)
        gasnet_hg_check_reply(request->may_reply);
    if (!request->may_reply)
        return GASNET_ERR_BAD_ARG;
    request->may_reply = false;
    return am_start(request->source, &header, args, source);
}

int gasnet_AMGetMsgSource(gasnet_token_t token, gasnet_node_t *source)
{
    const struct am_token *message = (const struct am_token *) token;

    if (message == NULL || source == NULL)
        return GASNET_ERR_BAD_ARG;
    *source = message->source;
    return GASNET_OK;
}

/* ---- Receiving ---- */

/* The words of a message agree with each other and with its size. */
static bool am_is_valid(const struct am_header *header, size_t size)
{
    bool is_long = header->kind == AM_LONG;
    bool carries = header->kind == AM_MEDIUM ||
        (is_long && (header->flags & AM_PLACED) == 0);
    size_t front = am_header_size(header->nargs);

    return header->kind <= AM_SLOT && header->nargs <= AM_MAX_ARGS &&
        header->flags <= (AM_REPLY | AM_PLACED) && header->zero == 0 &&
        header->source < gasnet_hg_size && header->source != gasnet_hg_rank &&
        header->returns <= GASNET_HG_CREDITS && size >= front &&
        size - front == (carries ? header->length : 0) &&
        (carries || is_long || header->length == 0) &&
        (!is_long ||
            gasnet_hg_has(&gasnet_hg.peers[gasnet_hg_rank],
                (void *) (uintptr_t) header->dest, header->length)) &&
        (header->kind != AM_SLOT ||
            (header->nargs == 3 && header->handler < GASNET_HG_ROUNDS));
}

static void am_write_slot(const struct am_header *header, const int32_t *args)
{
    struct gasnet_hg_slot *slot =
        &gasnet_hg.page->slots[args[0] & 1][header->handler];

    slot->id = args[1];
    slot->flags = (uint32_t) args[2];
    atomic_store_explicit(
        &slot->phase, (uint32_t) args[0], memory_order_release);
}

/* Run the handler of a message, and return the credits of a request. */
static void am_handle(const struct am_header *header, const int32_t *args,
    unsigned char *payload, size_t size)
{
    struct gasnet_hg_peer *peer = &gasnet_hg.peers[header->source];
    void *at = payload;

    if ((header->flags & AM_REPLY) == 0)
        atomic_fetch_add(&peer->returns, am_cost(size));
    if (header->kind == AM_LONG) {
        at = (void *) (uintptr_t) header->dest;
        if ((header->flags & AM_PLACED) == 0 && header->length > 0)
            memcpy(at, payload, header->length);
    }
    am_run(header, at, args, header->source);
    if (atomic_load(&peer->returns) >= AM_RETURN) {
        struct am_header back = {.kind = AM_RETURNS};

        am_send(header->source, &back, NULL, NULL, 0);
    }
}

static void am_deliver(unsigned char *bytes, size_t size)
{
    struct am_header header = {0};
    int32_t args[AM_MAX_ARGS];
    struct gasnet_hg_peer *peer;

    if (size >= sizeof(header))
        memcpy(&header, bytes, sizeof(header));
    if (size < sizeof(header) || !am_is_valid(&header, size)) {
        gasnet_hg_warn("a malformed message of %zu bytes is ignored", size);
        return;
    }
    memcpy(args, bytes + sizeof(header), header.nargs * sizeof(args[0]));
    peer = &gasnet_hg.peers[header.source];
    if (header.returns > 0)
        atomic_fetch_add(&peer->credits, header.returns);
    if (header.kind == AM_SLOT)
        am_write_slot(&header, args);
    else if (header.kind != AM_RETURNS)
        am_handle(&header, args, bytes + am_header_size(header.nargs), size);
}

static na_return_t am_received(const struct na_cb_info *info);

static na_return_t am_post(unsigned char *bytes)
{
    return NA_Msg_recv_unexpected(gasnet_hg.boot.na_class,
        gasnet_hg.boot.context, am_received, bytes, bytes, am_max,
        NA_OP_ID_IGNORE);
}

static na_return_t am_received(const struct na_cb_info *info)
{
    unsigned char *bytes = (unsigned char *) info->arg;
    na_return_t ret = info->ret;

    if (ret == NA_SUCCESS) {
        (void) NA_Addr_free(
            gasnet_hg.boot.na_class, info->info.recv_unexpected.source);
        /* A handler in gasnet_exit() could not reply. */
        if (!atomic_load_explicit(&gasnet_hg.closing, memory_order_relaxed))
            am_deliver(
                bytes, (size_t) info->info.recv_unexpected.actual_buf_size);
    } else
        gasnet_hg_warn("a message is lost: %s", NA_Error_to_string(ret));
    ret = am_post(bytes);
    if (ret != NA_SUCCESS)
        gasnet_hg_fatal("receiving: %s", NA_Error_to_string(ret));
    return NA_SUCCESS;
}

int gasnet_hg_am_start(void)
{
    int i;

    am_max = (size_t) NA_Msg_get_max_unexpected_size(gasnet_hg.boot.na_class);
    gasnet_hg_max_medium = am_max - am_header_size(AM_MAX_ARGS);
    gasnet_hg_max_long_reply =
        gasnet_hg.all_near ? gasnet_AMMaxLongRequest() : gasnet_hg_max_medium;
    for (i = 0; i < AM_RECEIVES; i++) {
        na_return_t ret;

        am_receives[i] = am_alloc(am_max);
        ret = am_post(am_receives[i]);
        if (ret != NA_SUCCESS) {
            gasnet_hg_warn(
                "gasnet_attach: receiving: %s", NA_Error_to_string(ret));
            return GASNET_ERR_RESOURCE;
        }
    }
    return GASNET_OK;
}
