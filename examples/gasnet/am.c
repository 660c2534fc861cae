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
 *          6      2  rank of the sender
 *          8      8  bytes of the payload
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
#define AM_RECEIVES 64
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

/* A message that NA could not send at once. They are not freed; `older` keeps
 * those in flight reachable, for leak checkers. */
struct am_buffer {
    struct am_buffer *next; /* of the free ones */
    struct am_buffer *older;
    unsigned char bytes[]; /* am_max */
};

/* The token of a handler. */
struct am_token {
    gasnet_node_t source;
    bool may_reply; /* a request that was not replied to */
};

static struct am_buffer *am_free, *am_newest;
static pthread_mutex_t am_lock = PTHREAD_MUTEX_INITIALIZER;
static size_t am_max; /* bytes of a message */
static unsigned char *am_receives[AM_RECEIVES];

/* ---- Sending ---- */

static size_t am_front_size(unsigned nargs)
{
    size_t size =
        sizeof(struct gasnet_hg_header) + nargs * sizeof(gasnet_handlerarg_t);

    return (size + AM_ALIGN - 1) / AM_ALIGN * AM_ALIGN;
}

static const gasnet_handlerarg_t *am_args(const struct gasnet_hg_header *header)
{
    return (const gasnet_handlerarg_t *) (header + 1);
}

/* The credits that the peer gets back with a message. */
static GASNET_HG_INLINE uint16_t am_take_returns(struct gasnet_hg_peer *peer)
{
    int32_t returns =
        atomic_load_explicit(&peer->returns, memory_order_relaxed);

    if (returns == 0)
        return 0;
    if (gasnet_hg.threaded)
        return (uint16_t) atomic_exchange(&peer->returns, 0);
    atomic_store_explicit(&peer->returns, 0, memory_order_relaxed);
    return (uint16_t) returns;
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

static struct am_buffer *am_buffer_get(void)
{
    struct am_buffer *buffer;

    (void) pthread_mutex_lock(&am_lock);
    buffer = am_free;
    if (buffer != NULL)
        am_free = buffer->next;
    else {
        buffer = (struct am_buffer *) malloc(sizeof(*buffer) + am_max);
        if (buffer == NULL)
            gasnet_hg_fatal("out of memory for a message");
        buffer->older = am_newest;
        am_newest = buffer;
    }
    (void) pthread_mutex_unlock(&am_lock);
    return buffer;
}

static void am_buffer_put(struct am_buffer *buffer)
{
    (void) pthread_mutex_lock(&am_lock);
    buffer->next = am_free;
    am_free = buffer;
    (void) pthread_mutex_unlock(&am_lock);
}

static na_return_t am_sent(const struct na_cb_info *info)
{
    am_buffer_put((struct am_buffer *) info->arg);
    return NA_SUCCESS;
}

/* Let NA send a copy of the message when it can. */
static na_return_t am_queue(
    const struct gasnet_hg_peer *peer, const struct na_segment *segments)
{
    size_t front = (size_t) segments[0].size,
           nbytes = (size_t) segments[1].size;
    struct am_buffer *buffer = am_buffer_get();
    na_return_t ret;

    memcpy(buffer->bytes, segments[0].address, front);
    if (nbytes > 0)
        memcpy(buffer->bytes + front, segments[1].address, nbytes);
    ret = NA_Msg_send_unexpected(gasnet_hg.boot.na_class,
        gasnet_hg.boot.context, am_sent, buffer, buffer->bytes, front + nbytes,
        peer->addr, GASNET_HG_TAG_AM, NA_OP_ID_IGNORE);
    if (ret != NA_SUCCESS)
        am_buffer_put(buffer);
    return ret;
}

static void am_failed(gasnet_node_t node, na_return_t ret)
{
    if (ret != NA_DISCONNECT && ret != NA_HOSTUNREACH)
        gasnet_hg_fatal(
            "a message to node %u: %s", node, NA_Error_to_string(ret));
    gasnet_hg_lost(node);
}

/* Send a message without waiting. A message to a dead node is dropped: the job
 * is ending. */
static GASNET_HG_INLINE void am_send(gasnet_node_t node,
    struct gasnet_hg_header *header, const void *payload, size_t nbytes)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    struct gasnet_hg_peer *peer = &gasnet_hg.peers[node];
    struct na_segment segments[2];
    na_return_t ret;

    if (atomic_load_explicit(&peer->lost, memory_order_relaxed))
        return;
    header->source = (uint16_t) gasnet_hg_rank;
    header->returns = am_take_returns(peer);
    segments[0].address = header;
    segments[0].size = am_front_size(header->nargs);
    segments[1].address = (void *) (uintptr_t) payload;
    segments[1].size = nbytes;
    gasnet_hg_enter(self);
    ret = NA_Msg_try_sendv_unexpected(gasnet_hg.boot.na_class,
        gasnet_hg.boot.context, segments, nbytes > 0 ? 2 : 1, peer->addr,
        GASNET_HG_TAG_AM);
    if (__builtin_expect(ret == NA_AGAIN, 0))
        ret = am_queue(peer, segments);
    gasnet_hg_leave(self);
    if (__builtin_expect(ret != NA_SUCCESS, 0))
        am_failed(node, ret);
}

static inline bool am_try_credits(struct gasnet_hg_peer *peer, int32_t cost)
{
    if (gasnet_hg_add(&peer->credits, -cost) >= cost)
        return true;
    (void) gasnet_hg_add(&peer->credits, cost);
    return false;
}

/* Wait until the peer takes a request of this cost. */
static void am_wait_for_credits(struct gasnet_hg_peer *peer, int32_t cost)
{
    unsigned tries = 0;

    while (!am_try_credits(peer, cost) && !atomic_load(&peer->lost))
        gasnet_hg_wait(&tries);
}

void gasnet_hg_send_slot(gasnet_node_t node, unsigned round, uint32_t phase,
    int32_t id, uint32_t flags)
{
    int32_t a0 = (int32_t) phase, a1 = id, a2 = (int32_t) flags;
    GASNET_HG_AM_FRONT(AM_SLOT, (uint8_t) round, 0, 0, 3);

    am_send(node, &front.header, NULL, 0);
}

static void am_send_returns(gasnet_node_t node)
{
    GASNET_HG_AM_FRONT(AM_RETURNS, 0, 0, 0, 0);

    am_send(node, &front.header, NULL, 0);
}

/* ---- Running handlers ---- */

/* Run the handler of a message. */
static GASNET_HG_INLINE void am_run(
    const struct gasnet_hg_header *header, void *payload)
{
    void (*function)(void) = gasnet_hg.handlers[header->handler];
    struct am_token token = {header->source, (header->flags & AM_REPLY) == 0};

    if (__builtin_expect(function == NULL, 0))
        gasnet_hg_fatal("a message of node %u is for handler %u, which is not "
                        "registered here",
            header->source, header->handler);
    if (__builtin_expect(gasnet_hg.checked, 0))
        gasnet_hg_begin_handler(gasnet_hg_self());
    gasnet_hg_calls[header->kind == AM_SHORT][header->nargs](
        &token, payload, header->length, function, am_args(header));
    if (__builtin_expect(gasnet_hg.checked, 0))
        gasnet_hg_end_handler(gasnet_hg_self(), header->handler);
}

/* A message of this node to itself: the handler runs now, with a copy of a
 * medium payload. */
static int am_loop(struct gasnet_hg_header *header, const void *payload)
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
    header->source = (uint16_t) gasnet_hg_rank;
    am_run(header, at);
    return GASNET_OK;
}

/* ---- Requests and replies ---- */

/* Bring the data of a long message to its place, if the message cannot carry
 * it or need not. A handler cannot wait for NA: the limit of its replies is
 * that of a message. */
static bool am_place(gasnet_node_t node, const struct gasnet_hg_header *header,
    const void *source)
{
    void *dest = (void *) (uintptr_t) header->dest;

    if (gasnet_hg_shifts[node] == GASNET_HG_FAR &&
        header->length <= gasnet_hg_max_medium)
        return false;
    gasnet_put(node, dest, source, header->length);
    return true;
}

/* Send a request or a reply. */
static GASNET_HG_INLINE int am_start(
    gasnet_node_t node, struct gasnet_hg_header *header, const void *source)
{
    size_t nbytes = header->length;

    if (node == gasnet_hg_rank)
        return am_loop(header, source);
    if (header->kind == AM_LONG && am_place(node, header, source)) {
        header->flags |= AM_PLACED;
        nbytes = 0;
    }
    if ((header->flags & AM_REPLY) == 0) {
        int32_t cost = am_cost(am_front_size(header->nargs) + nbytes);

        if (!am_try_credits(&gasnet_hg.peers[node], cost))
            am_wait_for_credits(&gasnet_hg.peers[node], cost);
    }
    am_send(node, header, source, nbytes);
    return GASNET_OK;
}

int gasnet_hg_request(
    gasnet_node_t dest, struct gasnet_hg_header *header, const void *source)
{
    if (!gasnet_hg.attached)
        return GASNET_ERR_NOT_INIT;
    if (dest >= gasnet_hg_size ||
        header->length > (header->kind == AM_LONG ? gasnet_AMMaxLongRequest()
                                                  : gasnet_hg_max_medium))
        return GASNET_ERR_BAD_ARG;
    if (gasnet_hg.checked) {
        gasnet_hg_check_call("gasnet_AMRequest");
        if (header->kind == AM_LONG)
            gasnet_hg_check(
                dest, (void *) (uintptr_t) header->dest, header->length);
    }
    return am_start(dest, header, source);
}

int gasnet_hg_reply(
    gasnet_token_t token, struct gasnet_hg_header *header, const void *source)
{
    struct am_token *request = (struct am_token *) token;

    if (request == NULL ||
        header->length > (header->kind == AM_LONG ? gasnet_hg_max_long_reply
                                                  : gasnet_hg_max_medium))
        return GASNET_ERR_BAD_ARG;
    if (gasnet_hg.checked)
        gasnet_hg_check_reply(request->may_reply);
    if (!request->may_reply)
        return GASNET_ERR_BAD_ARG;
    request->may_reply = false;
    header->flags = AM_REPLY;
    return am_start(request->source, header, source);
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

/* The words of a message agree with each other and with its size. `left`: the
 * bytes behind its arguments; more than `size` if they do not fit. */
static GASNET_HG_INLINE bool am_is_valid(
    const struct gasnet_hg_header *header, size_t left, size_t size)
{
    if (left > size || header->nargs > GASNET_HG_MAX_ARGS ||
        header->flags > (AM_REPLY | AM_PLACED) ||
        header->source >= gasnet_hg_size || header->source == gasnet_hg_rank ||
        header->returns > GASNET_HG_CREDITS)
        return false;
    if (__builtin_expect(header->kind == AM_SHORT, 1))
        return (left | header->length) == 0;
    switch (header->kind) {
    case AM_RETURNS: return (left | header->length) == 0;
    case AM_MEDIUM: return left == header->length;
    case AM_LONG:
        return left ==
            ((header->flags & AM_PLACED) != 0 ? 0 : header->length) &&
            gasnet_hg_has(&gasnet_hg.peers[gasnet_hg_rank],
                (void *) (uintptr_t) header->dest, header->length);
    case AM_SLOT:
        return left == 0 && header->nargs == 3 &&
            header->handler < GASNET_HG_ROUNDS;
    default: return false;
    }
}

static void am_write_slot(const struct gasnet_hg_header *header)
{
    const int32_t *args = am_args(header);
    struct gasnet_hg_slot *slot =
        &gasnet_hg.page->slots[args[0] & 1][header->handler];

    slot->id = args[1];
    slot->flags = (uint32_t) args[2];
    atomic_store_explicit(
        &slot->phase, (uint32_t) args[0], memory_order_release);
}

/* Run the handler of a request or a reply, and return the credits of a request:
 * before it, so that its reply has them. */
static GASNET_HG_INLINE void am_handle(const struct gasnet_hg_header *header,
    struct gasnet_hg_peer *peer, unsigned char *payload, size_t size)
{
    void *at = payload;

    if (header->kind == AM_LONG) {
        at = (void *) (uintptr_t) header->dest;
        if ((header->flags & AM_PLACED) == 0 && header->length > 0)
            memcpy(at, payload, header->length);
    }
    if ((header->flags & AM_REPLY) == 0)
        (void) gasnet_hg_add(&peer->returns, am_cost(size));
    am_run(header, at);
    if (atomic_load_explicit(&peer->returns, memory_order_relaxed) >= AM_RETURN)
        am_send_returns(header->source);
}

/* The message is in memory of this node alone: its words do not change. */
static GASNET_HG_INLINE void am_deliver(unsigned char *bytes, size_t size)
{
    const struct gasnet_hg_header *header =
        (const struct gasnet_hg_header *) (void *) bytes;
    struct gasnet_hg_peer *peer;
    size_t left =
        size < sizeof(*header) ? SIZE_MAX : size - am_front_size(header->nargs);

    if (!am_is_valid(header, left, size)) {
        gasnet_hg_warn("a malformed message of %zu bytes is ignored", size);
        return;
    }
    peer = &gasnet_hg.peers[header->source];
    if (header->returns > 0)
        (void) gasnet_hg_add(&peer->credits, header->returns);
    if (__builtin_expect(header->kind <= AM_LONG, 1))
        am_handle(header, peer, bytes + size - left, size);
    else if (header->kind == AM_SLOT)
        am_write_slot(header);
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
    gasnet_hg_max_medium = am_max - am_front_size(GASNET_HG_MAX_ARGS);
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
