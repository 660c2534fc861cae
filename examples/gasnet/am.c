/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * am: active messages over NA's unexpected messages.
 *
 *     offset  bytes
 *          0      1  kind; bit 0: a reply
 *          1      1  handler; of a slot: the round
 *          2      1  M, the number of arguments
 *          3      1  0
 *          4      2  credits that the receiver gets back
 *          6      2  rank of the sender
 *          8    4 M  arguments of a short message or a slot
 *
 *          8      8  medium, long: bytes of the payload
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
/* A receive has the buffer of the largest message and of this many bytes of
 * small ones: the memory that all receives use in turn fits into a cache. */
#define AM_RECEIVES 64
#define AM_SMALL 4096u
#define AM_CREDIT_BYTES 16384u
#define AM_RETURN (GASNET_HG_CREDITS / 4)

enum {
    AM_REPLY = GASNET_HG_REPLY,
    AM_SHORT = GASNET_HG_SHORT,
    AM_MEDIUM = GASNET_HG_MEDIUM,
    AM_LONG = GASNET_HG_LONG,
    AM_PLACED = 6,  /* long: the data is there already */
    AM_RETURNS = 8, /* nothing but credits */
    AM_SLOT = 10    /* of a barrier: phase, id and flags are arguments */
};
#define AM_KIND(word) ((word)->kind & ~AM_REPLY)

#define AM_LIKELY(condition) __builtin_expect(condition, 1)
#define AM_UNLIKELY(condition) __builtin_expect(condition, 0)

/* A message that NA could not send at once. They are not freed; `older` keeps
 * those in flight reachable, for leak checkers. */
struct am_buffer {
    struct am_buffer *next; /* of the free ones */
    struct am_buffer *older;
    unsigned char bytes[]; /* am_max */
};

/* The token of a handler. A request that was replied to becomes a reply. */
struct am_token {
    struct gasnet_hg_word word;
    uint32_t credits; /* of a request */
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

/* NA did not send a message at once. */
static __attribute__((noinline)) void am_send_later(
    gasnet_node_t node, na_return_t ret, const struct na_segment *segments)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();

    if (ret == NA_AGAIN) {
        gasnet_hg_enter(self);
        ret = am_queue(&gasnet_hg.peers[node], segments);
        gasnet_hg_leave(self);
    }
    if (ret != NA_SUCCESS)
        am_failed(node, ret);
}

/* Fill in the sender, and add the credits of the receiver. */
static GASNET_HG_INLINE void am_complete(
    struct gasnet_hg_peer *peer, struct gasnet_hg_word *word)
{
    word->source = (uint16_t) gasnet_hg_rank;
    if (AM_UNLIKELY(
            atomic_load_explicit(&peer->returns, memory_order_relaxed) > 0))
        word->returns = (uint16_t) (word->returns +
            (uint16_t) atomic_exchange(&peer->returns, 0));
}

/* Send a message of arguments alone, without waiting, to a node that is not
 * apart. */
static GASNET_HG_INLINE void am_send_word(
    gasnet_node_t node, struct gasnet_hg_word *word, size_t size)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    struct gasnet_hg_peer *peer = &gasnet_hg.peers[node];
    na_return_t ret;

    am_complete(peer, word);
    gasnet_hg_enter(self);
    ret = NA_Msg_try_send_unexpected(gasnet_hg.boot.na_class,
        gasnet_hg.boot.context, word, size, peer->addr, GASNET_HG_TAG_AM);
    gasnet_hg_leave(self);
    if (AM_UNLIKELY(ret != NA_SUCCESS)) {
        struct na_segment segments[2] = {{word, size}, {NULL, 0}};

        am_send_later(node, ret, segments);
    }
}

/* Send another message, without waiting. A message to a dead node is dropped:
 * the job is ending. */
static void am_send(gasnet_node_t node, struct gasnet_hg_header *header,
    const void *payload, size_t nbytes)
{
    struct gasnet_hg_thread *self = gasnet_hg_self();
    struct gasnet_hg_peer *peer = &gasnet_hg.peers[node];
    struct na_segment segments[2];
    na_return_t ret;

    if (atomic_load_explicit(&peer->lost, memory_order_relaxed))
        return;
    am_complete(peer, &header->word);
    segments[0].address = header;
    segments[0].size = am_front_size(header->word.nargs);
    segments[1].address = (void *) (uintptr_t) payload;
    segments[1].size = nbytes;
    gasnet_hg_enter(self);
    ret = NA_Msg_try_sendv_unexpected(gasnet_hg.boot.na_class,
        gasnet_hg.boot.context, segments, nbytes > 0 ? 2 : 1, peer->addr,
        GASNET_HG_TAG_AM);
    gasnet_hg_leave(self);
    if (AM_UNLIKELY(ret != NA_SUCCESS))
        am_send_later(node, ret, segments);
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

/* Send a message of the conduit itself. */
static void am_send_own(
    gasnet_node_t node, struct gasnet_hg_word *word, size_t size)
{
    if (!atomic_load_explicit(
            &gasnet_hg.peers[node].apart, memory_order_relaxed))
        am_send_word(node, word, size);
}

void gasnet_hg_send_slot(gasnet_node_t node, unsigned round, uint32_t phase,
    int32_t id, uint32_t flags)
{
    int32_t a0 = (int32_t) phase, a1 = id, a2 = (int32_t) flags;
    GASNET_HG_AM_WORDS(AM_SLOT, (uint8_t) round, 3);

    am_send_own(node, &front.word, GASNET_HG_AM_SIZE(3));
}

/* Give the credits of a request back that was not replied to. */
static __attribute__((noinline)) void am_give_back(
    gasnet_node_t node, uint32_t credits)
{
    struct gasnet_hg_word word = {AM_RETURNS, 0, 0, 0, 0, 0};

    if (gasnet_hg_add(&gasnet_hg.peers[node].returns, (int32_t) credits) +
            (int32_t) credits >=
        AM_RETURN)
        am_send_own(node, &word, sizeof(word));
}

/* ---- Running handlers ---- */

/* The handler of a message. */
static GASNET_HG_INLINE void (*am_handler(const struct gasnet_hg_word *word))(
    void)
{
    void (*function)(void) = gasnet_hg.handlers[word->handler];

    if (AM_UNLIKELY(function == NULL))
        gasnet_hg_fatal("a message of node %u is for handler %u, which is not "
                        "registered here",
            word->source, word->handler);
    return function;
}

static GASNET_HG_INLINE void am_run_short(
    struct am_token *token, const struct gasnet_hg_word *word)
{
    gasnet_hg_short_calls[word->nargs](
        token, am_handler(word), (const gasnet_handlerarg_t *) (word + 1));
}

static void am_run_long(struct am_token *token,
    const struct gasnet_hg_header *header, void *payload)
{
    gasnet_hg_calls[header->word.nargs](token, payload, header->length,
        am_handler(&header->word), (const gasnet_handlerarg_t *) (header + 1));
}

static struct gasnet_hg_header *am_header(struct gasnet_hg_word *word)
{
    return (struct gasnet_hg_header *) (void *) word;
}

/* Run the handler of a message of any kind, with the checks of GASNET_DEBUG. */
static void am_run(
    struct am_token *token, struct gasnet_hg_word *word, void *payload)
{
    if (gasnet_hg.checked)
        gasnet_hg_begin_handler(gasnet_hg_self());
    if (AM_KIND(word) == AM_SHORT)
        am_run_short(token, word);
    else
        am_run_long(token, am_header(word), payload);
    if (gasnet_hg.checked)
        gasnet_hg_end_handler(gasnet_hg_self(), word->handler);
}

/* A message of this node to itself: the handler runs now, with a copy of a
 * medium payload. */
static int am_loop(struct gasnet_hg_word *word, const void *payload)
{
    const struct gasnet_hg_header *header = am_header(word);
    unsigned char **copy = &gasnet_hg_self()->loopback[word->kind & AM_REPLY];
    struct am_token token;
    void *at = NULL;

    word->source = (uint16_t) gasnet_hg_rank;
    token.word = *word;
    token.credits = 0;
    if (AM_KIND(word) == AM_MEDIUM) {
        if (*copy == NULL)
            *copy = am_alloc(am_max);
        at = *copy;
    } else if (AM_KIND(word) == AM_LONG)
        at = (void *) (uintptr_t) header->dest;
    if (at != NULL && header->length > 0)
        memcpy(at, payload, header->length);
    am_run(&token, word, at);
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
static int am_start(
    gasnet_node_t node, struct gasnet_hg_header *header, const void *source)
{
    size_t nbytes = header->length;

    if (node == gasnet_hg_rank)
        return am_loop(&header->word, source);
    if (AM_KIND(&header->word) == AM_LONG && am_place(node, header, source)) {
        header->word.kind |= AM_PLACED;
        nbytes = 0;
    }
    if ((header->word.kind & AM_REPLY) == 0) {
        int32_t cost = am_cost(am_front_size(header->word.nargs) + nbytes);

        if (!am_try_credits(&gasnet_hg.peers[node], cost))
            am_wait_for_credits(&gasnet_hg.peers[node], cost);
    }
    am_send(node, header, source, nbytes);
    return GASNET_OK;
}

/* A short request that is checked, goes to this node or a dead one, or must
 * wait. */
static __attribute__((noinline)) int am_request_slowly(
    gasnet_node_t dest, struct gasnet_hg_word *word, size_t size)
{
    if (!gasnet_hg.attached)
        return GASNET_ERR_NOT_INIT;
    if (dest >= gasnet_hg_size)
        return GASNET_ERR_BAD_ARG;
    if (gasnet_hg.checked)
        gasnet_hg_check_call("gasnet_AMRequest");
    if (dest == gasnet_hg_rank)
        return am_loop(word, NULL);
    am_wait_for_credits(&gasnet_hg.peers[dest], 1);
    am_send_own(dest, word, size);
    return GASNET_OK;
}

int gasnet_hg_request_short(
    gasnet_node_t dest, struct gasnet_hg_word *word, size_t size)
{
    struct gasnet_hg_peer *peer;

    if (AM_UNLIKELY(!gasnet_hg.plain || dest >= gasnet_hg_size))
        return am_request_slowly(dest, word, size);
    peer = &gasnet_hg.peers[dest];
    if (AM_UNLIKELY(atomic_load_explicit(&peer->apart, memory_order_relaxed) ||
            !am_try_credits(peer, 1)))
        return am_request_slowly(dest, word, size);
    am_send_word(dest, word, size);
    return GASNET_OK;
}

int gasnet_hg_request_long(
    gasnet_node_t dest, struct gasnet_hg_header *header, const void *source)
{
    bool is_long = AM_KIND(&header->word) == AM_LONG;

    if (!gasnet_hg.attached)
        return GASNET_ERR_NOT_INIT;
    if (dest >= gasnet_hg_size ||
        header->length >
            (is_long ? gasnet_AMMaxLongRequest() : gasnet_hg_max_medium))
        return GASNET_ERR_BAD_ARG;
    if (gasnet_hg.checked) {
        gasnet_hg_check_call("gasnet_AMRequest");
        if (is_long)
            gasnet_hg_check(
                dest, (void *) (uintptr_t) header->dest, header->length);
    }
    return am_start(dest, header, source);
}

/* A reply returns the credits of its request. */
static GASNET_HG_INLINE void am_take_credits(
    struct am_token *request, struct gasnet_hg_word *word)
{
    word->returns = (uint16_t) request->credits;
    request->word.kind |= AM_REPLY;
}

/* Begin the reply to a request. */
static bool am_begin_reply(
    struct am_token *request, struct gasnet_hg_word *word)
{
    if (request == NULL)
        return false;
    if (gasnet_hg.checked)
        gasnet_hg_check_reply((request->word.kind & AM_REPLY) == 0);
    if ((request->word.kind & AM_REPLY) != 0)
        return false;
    am_take_credits(request, word);
    return true;
}

/* A short reply that is checked, or goes to this node or a dead one. */
static __attribute__((noinline)) int am_reply_slowly(
    struct am_token *request, struct gasnet_hg_word *word, size_t size)
{
    if (!am_begin_reply(request, word))
        return GASNET_ERR_BAD_ARG;
    if (request->word.source == gasnet_hg_rank)
        return am_loop(word, NULL);
    am_send_own(request->word.source, word, size);
    return GASNET_OK;
}

int gasnet_hg_reply_short(
    gasnet_token_t token, struct gasnet_hg_word *word, size_t size)
{
    struct am_token *request = (struct am_token *) token;

    if (AM_UNLIKELY(!gasnet_hg.plain || request == NULL ||
            (request->word.kind & AM_REPLY) != 0 ||
            atomic_load_explicit(&gasnet_hg.peers[request->word.source].apart,
                memory_order_relaxed)))
        return am_reply_slowly(request, word, size);
    am_take_credits(request, word);
    am_send_word(request->word.source, word, size);
    return GASNET_OK;
}

int gasnet_hg_reply_long(
    gasnet_token_t token, struct gasnet_hg_header *header, const void *source)
{
    struct am_token *request = (struct am_token *) token;

    if (header->length > (AM_KIND(&header->word) == AM_LONG
                                 ? gasnet_hg_max_long_reply
                                 : gasnet_hg_max_medium) ||
        !am_begin_reply(request, &header->word))
        return GASNET_ERR_BAD_ARG;
    return am_start(request->word.source, header, source);
}

int gasnet_AMGetMsgSource(gasnet_token_t token, gasnet_node_t *source)
{
    const struct am_token *message = (const struct am_token *) token;

    if (message == NULL || source == NULL)
        return GASNET_ERR_BAD_ARG;
    *source = message->word.source;
    return GASNET_OK;
}

/* ---- Receiving ---- */

/* The sender and the credits of a message can be right. */
static GASNET_HG_INLINE bool am_is_from_peer(const struct gasnet_hg_word *word)
{
    return AM_LIKELY(word->source < gasnet_hg_size) &&
        AM_LIKELY(word->source != gasnet_hg_rank) &&
        AM_LIKELY(word->returns <= GASNET_HG_CREDITS);
}

/* A short message has the size of its arguments. */
static GASNET_HG_INLINE bool am_is_short(
    const struct gasnet_hg_word *word, size_t size)
{
    return AM_LIKELY(size == GASNET_HG_AM_SIZE((size_t) word->nargs)) &&
        AM_LIKELY(size <= GASNET_HG_AM_SIZE(GASNET_HG_MAX_ARGS));
}

/* The bytes behind the front of a medium or long message; more than `size` if
 * the front does not fit. */
static size_t am_left(const struct gasnet_hg_header *header, size_t size)
{
    return size - am_front_size(header->word.nargs);
}

/* The front of a medium or long message agrees with its size. */
static bool am_is_long(const struct gasnet_hg_header *header, size_t size)
{
    size_t left;

    if (size < sizeof(*header) || header->word.nargs > GASNET_HG_MAX_ARGS ||
        am_left(header, size) > size)
        return false;
    left = am_left(header, size);
    if (AM_KIND(&header->word) == AM_MEDIUM)
        return left == header->length;
    return left == (AM_KIND(&header->word) == AM_PLACED ? 0 : header->length) &&
        gasnet_hg_has(&gasnet_hg.peers[gasnet_hg_rank],
            (void *) (uintptr_t) header->dest, header->length);
}

/* The parts of a message agree with each other and with its size. */
static bool am_is_valid(struct gasnet_hg_word *word, size_t size)
{
    if (size < sizeof(*word) || !am_is_from_peer(word))
        return false;
    switch (AM_KIND(word)) {
    case AM_SHORT: return am_is_short(word, size);
    case AM_MEDIUM:
    case AM_LONG:
    case AM_PLACED: return am_is_long(am_header(word), size);
    case AM_RETURNS: return size == GASNET_HG_AM_SIZE(0);
    case AM_SLOT:
        return size == GASNET_HG_AM_SIZE(3) && word->nargs == 3 &&
            word->handler < GASNET_HG_ROUNDS;
    default: return false;
    }
}

static void am_write_slot(const struct gasnet_hg_word *word)
{
    const int32_t *args = (const int32_t *) (const void *) (word + 1);
    struct gasnet_hg_slot *slot =
        &gasnet_hg.page->slots[args[0] & 1][word->handler];

    slot->id = args[1];
    slot->flags = (uint32_t) args[2];
    atomic_store_explicit(
        &slot->phase, (uint32_t) args[0], memory_order_release);
}

static GASNET_HG_INLINE void am_add_credits(const struct gasnet_hg_word *word)
{
    if (word->returns > 0)
        (void) gasnet_hg_add(
            &gasnet_hg.peers[word->source].credits, word->returns);
}

/* A handler has ended. */
static GASNET_HG_INLINE void am_end(const struct am_token *token)
{
    if (AM_UNLIKELY((token->word.kind & AM_REPLY) == 0))
        am_give_back(token->word.source, token->credits);
}

/* Run the handler of a message of any kind. */
static void am_handle(struct gasnet_hg_word *word, size_t size)
{
    struct gasnet_hg_header *header = am_header(word);
    struct am_token token = {*word, (uint32_t) am_cost(size)};
    void *at = NULL;

    if (AM_KIND(word) == AM_MEDIUM)
        at = (unsigned char *) header + size - header->length;
    else if (AM_KIND(word) != AM_SHORT)
        at = (void *) (uintptr_t) header->dest;
    if (AM_KIND(word) == AM_LONG && header->length > 0)
        memcpy(at, (unsigned char *) header + size - header->length,
            header->length);
    am_run(&token, word, at);
    am_end(&token);
}

/* A message that is not short, or checked, or malformed. */
static __attribute__((noinline)) void am_deliver_slowly(
    struct gasnet_hg_word *word, size_t size)
{
    if (!am_is_valid(word, size)) {
        gasnet_hg_warn("a malformed message of %zu bytes is ignored", size);
        return;
    }
    am_add_credits(word);
    if (AM_KIND(word) == AM_SLOT)
        am_write_slot(word);
    else if (AM_KIND(word) != AM_RETURNS)
        am_handle(word, size);
}

/* The message is in memory of this node alone: its words do not change. Its
 * buffer has am_max bytes for each: the word of a shorter one can be read. */
static GASNET_HG_INLINE void am_deliver(
    struct gasnet_hg_word *word, size_t size)
{
    struct am_token token;

    if (AM_UNLIKELY(AM_KIND(word) != AM_SHORT || !am_is_short(word, size) ||
            !am_is_from_peer(word) || gasnet_hg.checked)) {
        am_deliver_slowly(word, size);
        return;
    }
    token.word = *word;
    token.credits = 1;
    am_add_credits(word);
    am_run_short(&token, word);
    am_end(&token);
}

static na_return_t am_received(const struct na_cb_info *info);

static na_return_t am_post(unsigned char *bytes)
{
    return NA_Msg_multi_recv_unexpected(gasnet_hg.boot.na_class,
        gasnet_hg.boot.context, am_received, bytes, bytes, am_max + AM_SMALL,
        NA_OP_ID_IGNORE);
}

/* The last message of a buffer was handled. */
static __attribute__((noinline)) void am_post_again(unsigned char *bytes)
{
    na_return_t ret = am_post(bytes);

    if (ret != NA_SUCCESS)
        gasnet_hg_fatal("receiving: %s", NA_Error_to_string(ret));
}

/* A handler in gasnet_exit() could not reply. */
static na_return_t am_received(const struct na_cb_info *info)
{
    const struct na_cb_info_multi_recv_unexpected *message =
        &info->info.multi_recv_unexpected;

    if (AM_UNLIKELY(info->ret != NA_SUCCESS))
        gasnet_hg_warn("a message is lost: %s", NA_Error_to_string(info->ret));
    else if (AM_LIKELY(!atomic_load_explicit(
                 &gasnet_hg.closing, memory_order_relaxed)))
        am_deliver((struct gasnet_hg_word *) message->actual_buf,
            (size_t) message->actual_buf_size);
    if (AM_UNLIKELY(message->last))
        am_post_again((unsigned char *) info->arg);
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

        am_receives[i] = am_alloc(am_max + AM_SMALL);
        ret = am_post(am_receives[i]);
        if (ret != NA_SUCCESS) {
            gasnet_hg_warn(
                "gasnet_attach: receiving: %s", NA_Error_to_string(ret));
            return GASNET_ERR_RESOURCE;
        }
    }
    return GASNET_OK;
}
