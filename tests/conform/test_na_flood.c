/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NA: senders that are faster than their receiver. A message whose send has
 * succeeded arrives, in order, and a receiver that takes nothing makes its
 * senders wait.
 *
 * The receiver is the role `receiver`, with a short queue. It makes progress
 * without posting receives, until a line tells it to
 *
 *     compute    make no progress until the next line
 *     take N     receive N messages, one completion for each NA_Progress(),
 *                and report how many it had dropped
 *
 * The test and a process with the role `sender` send to it. Each sends the
 * numbers 0, 1, 2 ... in turn as unexpected and as expected messages.
 */
#define HG_NA_PLUGIN_API /* NA_Get_counter() */
#include "conform.h"

#include <poll.h>

#define FLOOD_QUEUE ((size_t) 128 << 10)
#define FLOOD_SENDERS 2u
#define FLOOD_MAX 6000u
#define FLOOD_SIZE 8000u
#define FLOOD_LAST 7u /* a tag: for the context that nobody progresses */
#define FLOOD_TAG 8u  /* of expected messages */

/* Bytes that may wait in all: the receiver's queue, which one sender may fill
 * and others half of what is left; and the window of a sender. Over MPI eight
 * messages more are in transit; sm has a ring; a margin is added. */
#define FLOOD_WINDOW ((size_t) 2 << 20)

struct flood_word {
    uint32_t sender;
    uint32_t number; /* of its plane */
    char fill[FLOOD_SIZE - 8];
};

/* ---- The receiver ---- */

struct flood_receiver {
    struct conform_end end;
    na_context_t *idle;
    na_addr_t sources[FLOOD_SENDERS];
    uint32_t next[2][FLOOD_SENDERS]; /* by plane */
    struct conform_call last;        /* in `idle` */
    struct conform_call any, from[FLOOD_SENDERS];
    struct flood_word words[1 + FLOOD_SENDERS];
};

/* A message has arrived: it is the next of its sender. */
static void flood_check(struct flood_receiver *receiver, unsigned plane,
    const struct conform_call *call, const struct flood_word *word)
{
    HG_CHECK_OK(call->ret);
    HG_CHECK_EQ_U64(call->size, sizeof(*word));
    HG_CHECK(word->sender < FLOOD_SENDERS);
    HG_CHECK_EQ_U64(word->number, receiver->next[plane][word->sender]++);
}

static void flood_post(struct flood_receiver *receiver, unsigned sender)
{
    struct conform_call *call = &receiver->from[sender];
    na_return_t ret;

    memset(call, 0, sizeof(*call));
    ret = NA_Msg_recv_expected(receiver->end.na_class, receiver->end.context,
        conform_ended, call, &receiver->words[1 + sender],
        sizeof(receiver->words[0]), receiver->sources[sender], FLOOD_TAG,
        &call->id);
    HG_CHECK(ret == NA_SUCCESS || ret == NA_DISCONNECT); /* it has ended */
}

static void flood_post_any(struct flood_receiver *receiver)
{
    HG_CHECK_OK(conform_recv(&receiver->end, &receiver->any, false,
        &receiver->words[0], sizeof(receiver->words[0]), 0));
}

/* The first message of each sender, its number, tells its address. */
static void flood_greet(struct flood_receiver *receiver)
{
    unsigned i;

    for (i = 0; i < FLOOD_SENDERS; i++) {
        const struct flood_word *word = &receiver->words[0];

        flood_post_any(receiver);
        HG_CHECK_OK(conform_wait(&receiver->end, &receiver->any));
        HG_CHECK(word->sender < FLOOD_SENDERS);
        receiver->sources[word->sender] = receiver->any.addr;
    }
    memset(&receiver->last, 0, sizeof(receiver->last));
    HG_CHECK_OK(NA_Msg_recv_expected(receiver->end.na_class, receiver->idle,
        conform_ended, &receiver->last, NULL, 0, receiver->sources[0],
        FLOOD_LAST, &receiver->last.id));
}

static void flood_take(struct flood_receiver *receiver, unsigned count)
{
    na_class_t *na_class = receiver->end.na_class;
    unsigned i, taken = 0, ms = 0;

    for (i = 0; i < FLOOD_SENDERS; i++)
        flood_post(receiver, i);
    flood_post_any(receiver);
    while (taken < count) {
        HG_CHECK(ms++ < CONFORM_TIMEOUT + count);
        (void) NA_Progress(na_class, receiver->end.context, 1);
        (void) conform_trigger(receiver->end.context, 0, 1);
        if (receiver->any.ends > 0) {
            flood_check(receiver, 0, &receiver->any, &receiver->words[0]);
            conform_free_addr(&receiver->end, &receiver->any);
            flood_post_any(receiver);
            taken++;
        }
        for (i = 0; i < FLOOD_SENDERS; i++) {
            if (receiver->from[i].ends == 0 ||
                receiver->from[i].ret != NA_SUCCESS)
                continue; /* NA_DISCONNECT: that one has ended */
            flood_check(
                receiver, 1, &receiver->from[i], &receiver->words[1 + i]);
            if (++taken < count)
                flood_post(receiver, i);
        }
    }
}

HG_TEST_ROLE(receiver)
{
    static struct flood_receiver receiver;
    struct pollfd channel = {hg_test_parent_fd(), POLLIN, 0};
    struct na_init_info info;
    char name[NA_MAX_ADDR_LEN], text[64];
    char *line;

    (void) argc;
    (void) argv;
    conform_info(&info);
    info.max_queue_bytes = FLOOD_QUEUE;
    info.death_ms = 60000;
    conform_open(&receiver.end, &info);
    receiver.idle = NA_Context_create(receiver.end.na_class);
    HG_CHECK(receiver.idle != NULL);
    HG_CHECK_OK(NA_Addr_to_string(
        receiver.end.na_class, name, sizeof(name), receiver.end.self));
    hg_test_write_parent(name);
    flood_greet(&receiver);
    hg_test_write_parent("met");
    for (;;) {
        while (poll(&channel, 1, 0) == 0)
            (void) conform_turn(receiver.end.na_class, receiver.end.context, 1);
        line = hg_test_read_parent();
        if (line == NULL)
            break;
        if (strncmp(line, "take ", 5) == 0) {
            flood_take(&receiver, (unsigned) strtoul(line + 5, NULL, 10));
            (void) snprintf(text, sizeof(text), "%" PRIu64,
                NA_Get_counter(receiver.end.na_class, "msg_dropped"));
            hg_test_write_parent(text);
        } else {
            hg_test_write_parent("computes");
            (void) poll(&channel, 1, -1);
        }
        free(line);
    }
    /* The context that nobody progressed has its message. */
    while (receiver.last.ends == 0) {
        (void) conform_turn(receiver.end.na_class, receiver.end.context, 1);
        (void) conform_trigger(receiver.idle, 0, 1);
    }
    HG_CHECK_OK(receiver.last.ret);
    HG_CHECK_OK(NA_Addr_free(receiver.end.na_class, receiver.sources[0]));
    HG_CHECK_OK(NA_Addr_free(receiver.end.na_class, receiver.sources[1]));
    HG_CHECK_OK(NA_Context_destroy(receiver.end.na_class, receiver.idle));
    HG_CHECK_OK(NA_Context_destroy(
        receiver.end.na_class, receiver.end.context)); /* with its receives */
    receiver.end.context = NA_Context_create(receiver.end.na_class);
    HG_CHECK(receiver.end.context != NULL);
    conform_close(&receiver.end);
}

/* ---- A sender ---- */

struct flood_sender {
    struct conform_end end;
    na_addr_t receiver;
    uint32_t id;
    uint32_t next[2];
    struct flood_word words[FLOOD_MAX];
    struct conform_call calls[FLOOD_MAX];
};

static struct flood_sender flood_self;

static void flood_send(struct flood_sender *sender, unsigned at, bool expected)
{
    struct flood_word *word = &sender->words[at];
    struct conform_call *call = &sender->calls[at];

    memset(call, 0, sizeof(*call));
    word->sender = sender->id;
    word->number = sender->next[expected]++;
    HG_CHECK_OK((expected ? NA_Msg_send_expected : NA_Msg_send_unexpected)(
        sender->end.na_class, sender->end.context, conform_ended, call, word,
        sizeof(*word), sender->receiver, expected ? FLOOD_TAG : 0, &call->id));
}

static void flood_meet(
    struct flood_sender *sender, uint32_t id, const char *name)
{
    struct na_init_info info;
    struct conform_call call;

    conform_info(&info);
    info.death_ms = 60000;
    conform_open(&sender->end, &info);
    sender->id = id;
    HG_CHECK_OK(NA_Addr_lookup_wait(
        sender->end.na_class, name, CONFORM_TIMEOUT, &sender->receiver));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Msg_send_unexpected(sender->end.na_class,
        sender->end.context, conform_ended, &call, &sender->id,
        sizeof(sender->id), sender->receiver, 0, &call.id));
    HG_CHECK_OK(conform_wait(&sender->end, &call));
}

/* Start to send messages; returns how many were sent meanwhile. */
static unsigned flood_start(struct flood_sender *sender, unsigned count)
{
    unsigned i, sent = 0;

    HG_CHECK(count <= FLOOD_MAX);
    for (i = 0; i < count; i++)
        flood_send(sender, i, i % 2 == 1);
    for (i = 0; i < 30; i++)
        (void) conform_turn(sender->end.na_class, sender->end.context, 1);
    for (i = 0; i < count; i++)
        sent += (unsigned) sender->calls[i].ends;
    return sent;
}

/* Wait until all was sent, and then until all was taken: the connection is
 * closed after the messages. The first sender sends one more. */
static void flood_finish(struct flood_sender *sender, unsigned count)
{
    struct conform_call call;
    unsigned i;

    for (i = 0; i < count; i++)
        HG_CHECK_OK(conform_wait(&sender->end, &sender->calls[i]));
    if (sender->id == 0) {
        memset(&call, 0, sizeof(call));
        HG_CHECK_OK(NA_Msg_send_expected(sender->end.na_class,
            sender->end.context, conform_ended, &call, NULL, 0,
            sender->receiver, FLOOD_LAST, &call.id));
        HG_CHECK_OK(conform_wait(&sender->end, &call));
    }
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_terminate(sender->end.na_class, sender->end.context,
        conform_ended, &call, sender->receiver, &call.id));
    HG_CHECK_OK(conform_wait(&sender->end, &call));
}

static void flood_end(struct flood_sender *sender)
{
    HG_CHECK_OK(NA_Addr_free(sender->end.na_class, sender->receiver));
    conform_close(&sender->end);
}

/* Cancel what was not sent; returns the number of messages that were. */
static unsigned flood_cancel(struct flood_sender *sender, unsigned count)
{
    unsigned i, sent = 0;

    for (i = count; i-- > 0;) /* the last first: the others keep their order */
        (void) NA_Cancel(
            sender->end.na_class, sender->end.context, sender->calls[i].id);
    for (i = 0; i < count; i++) {
        na_return_t ret = conform_wait(&sender->end, &sender->calls[i]);

        HG_CHECK(ret == NA_SUCCESS || ret == NA_CANCELED);
        HG_CHECK(ret == NA_CANCELED || sent == i);
        sent += ret == NA_SUCCESS;
    }
    return sent;
}

/* sender NAME COUNT [end] */
HG_TEST_ROLE(sender)
{
    unsigned count = (unsigned) strtoul(argv[1], NULL, 10);
    char text[64];
    unsigned sent;

    flood_meet(&flood_self, 1, argv[0]);
    hg_test_write_parent("met");
    free(hg_test_read_parent());
    sent = flood_start(&flood_self, count);
    if (argc > 2)
        sent = flood_cancel(&flood_self, count);
    (void) snprintf(text, sizeof(text), "%u", sent);
    hg_test_write_parent(text);
    if (argc <= 2)
        flood_finish(&flood_self, count);
    flood_end(&flood_self);
}

/* ---- The cases ---- */

struct flood {
    struct hg_test_peer *receiver, *sender;
};

static unsigned flood_read(struct hg_test_peer *peer)
{
    char *line = hg_test_read_peer(peer);
    unsigned number = (unsigned) strtoul(line, NULL, 10);

    free(line);
    return number;
}

static void flood_open(struct flood *flood, unsigned count, const char *end)
{
    char text[64];
    char *name;

    (void) snprintf(text, sizeof(text), "%u", count);
    flood->receiver = hg_test_spawn("receiver", NULL);
    name = hg_test_read_peer(flood->receiver);
    flood->sender = hg_test_spawn("sender", name, text, end, NULL);
    flood_meet(&flood_self, 0, name);
    free(name);
    free(hg_test_read_peer(flood->sender));
    free(hg_test_read_peer(flood->receiver));
}

static void flood_say_take(struct flood *flood, unsigned count)
{
    char text[64];

    (void) snprintf(text, sizeof(text), "take %u", count);
    hg_test_write_peer(flood->receiver, text);
}

static void flood_all(unsigned count)
{
    struct flood flood;
    unsigned sent[2];

    flood_open(&flood, count, NULL);
    hg_test_write_peer(flood.receiver, "compute");
    free(hg_test_read_peer(flood.receiver));
    hg_test_write_peer(flood.sender, "send");
    sent[0] = flood_start(&flood_self, count);
    sent[1] = flood_read(flood.sender);
    HG_CHECK(
        sent[0] < count && sent[0] * sizeof(struct flood_word) <= FLOOD_WINDOW);
    HG_CHECK(
        sent[1] < count && sent[1] * sizeof(struct flood_word) <= FLOOD_WINDOW);
    flood_say_take(&flood, 2 * count);
    flood_finish(&flood_self, count);
    HG_CHECK_EQ_INT(flood_read(flood.receiver), 0);
    HG_CHECK_EQ_INT(hg_test_wait(flood.sender), 0);
    hg_test_stop(flood.receiver);
    flood_end(&flood_self);
}

static bool flood_applies(void)
{
    return hg_test_crosses_processes() && hg_test_holds_back();
}

/* The receiver computes, and then takes one message after the other. */
HG_TEST_WHERE(slow_receiver_gets_every_message, flood_applies)
{
    flood_all(400);
}

HG_TEST_WHERE_SECONDS(
    slow_receiver_gets_every_message_of_a_flood, flood_applies, 300)
{
    if (getenv("HG_TEST_FULL") == NULL)
        hg_test_skip("only with HG_TEST_FULL");
    flood_all(FLOOD_MAX);
}

/* ---- Messages without bytes ---- */

#define FLOOD_EMPTY 20000u

/* Receives so many, one completion for each NA_Progress(), in order. */
HG_TEST_ROLE(receiver_of_nothing)
{
    unsigned count = (unsigned) strtoul(argv[0], NULL, 10);
    struct pollfd channel = {hg_test_parent_fd(), POLLIN, 0};
    struct conform_end end;
    struct conform_call recv;
    struct na_init_info info;
    char name[NA_MAX_ADDR_LEN];
    unsigned i;

    (void) argc;
    conform_info(&info);
    info.max_queue_bytes = FLOOD_QUEUE;
    info.death_ms = 60000;
    conform_open(&end, &info);
    HG_CHECK_OK(NA_Addr_to_string(end.na_class, name, sizeof(name), end.self));
    hg_test_write_parent(name);
    for (i = 0; i < 1 + count; i++) {
        HG_CHECK_OK(conform_recv(&end, &recv, false, NULL, 0, 0));
        HG_CHECK_OK(conform_wait(&end, &recv));
        HG_CHECK_EQ_INT(recv.tag, i);
        HG_CHECK_EQ_U64(recv.size, 0);
        conform_free_addr(&end, &recv);
        if (i == 0) {
            hg_test_write_parent("met");
            free(hg_test_read_parent());
        }
    }
    hg_test_write_parent("all");
    while (poll(&channel, 1, 0) == 0)
        (void) conform_turn(end.na_class, end.context, 1);
    conform_close(&end);
}

static na_return_t flood_count(const struct na_cb_info *info)
{
    HG_CHECK_OK(info->ret);
    ++*(unsigned *) info->arg;
    return NA_SUCCESS;
}

static void flood_send_empty(
    struct conform_end *end, na_addr_t receiver, na_tag_t tag, unsigned *sent)
{
    HG_CHECK_OK(NA_Msg_send_unexpected(end->na_class, end->context, flood_count,
        sent, NULL, 0, receiver, tag, NA_OP_ID_IGNORE));
}

/* They count as others do: their memory at the receiver is limited. */
HG_TEST_WHERE(slow_receiver_gets_every_empty_message, flood_applies)
{
    struct conform_end end;
    struct conform_call call;
    struct hg_test_peer *peer;
    struct na_init_info info;
    na_addr_t receiver;
    char *name;
    char text[16];
    unsigned i, sent = 0;

    (void) snprintf(text, sizeof(text), "%u", FLOOD_EMPTY);
    peer = hg_test_spawn("receiver_of_nothing", text, NULL);
    name = hg_test_read_peer(peer);
    conform_info(&info);
    info.death_ms = 60000;
    conform_open(&end, &info);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end.na_class, name, CONFORM_TIMEOUT, &receiver));
    free(name);
    flood_send_empty(&end, receiver, 0, &sent);
    while (sent < 1)
        (void) conform_turn(end.na_class, end.context, 1);
    free(hg_test_read_peer(peer));
    for (i = 1; i <= FLOOD_EMPTY; i++)
        flood_send_empty(&end, receiver, i, &sent);
    for (i = 0; i < 30; i++)
        (void) conform_turn(end.na_class, end.context, 1);
    HG_CHECK(sent < FLOOD_EMPTY);
    hg_test_write_peer(peer, "take");
    while (sent < 1 + FLOOD_EMPTY)
        (void) conform_turn(end.na_class, end.context, 1);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_terminate(end.na_class, end.context, conform_ended,
        &call, receiver, &call.id)); /* after all messages */
    HG_CHECK_OK(conform_wait(&end, &call));
    free(hg_test_read_peer(peer));
    hg_test_stop(peer);
    HG_CHECK_OK(NA_Addr_free(end.na_class, receiver));
    conform_close(&end);
}

/* Over MPI a class that closes takes back what was not requested in time. */
static bool flood_outlives_sender(void)
{
    return flood_applies() && !hg_test_is_mpi();
}

/* A sender has ended before its messages were taken. Later messages of others
 * wait, rather than displacing them. */
HG_TEST_WHERE(messages_outlive_their_sender, flood_outlives_sender)
{
    enum { COUNT = 300 };
    struct flood flood;
    unsigned sent;

    flood_open(&flood, COUNT, "end");
    hg_test_write_peer(flood.sender, "send");
    sent = flood_read(flood.sender);
    HG_CHECK(sent * sizeof(struct flood_word) > FLOOD_QUEUE && sent < COUNT);
    HG_CHECK_EQ_INT(hg_test_wait(flood.sender), 0);
    HG_CHECK(flood_start(&flood_self, COUNT) < COUNT);
    flood_say_take(&flood, sent + COUNT);
    flood_finish(&flood_self, COUNT);
    HG_CHECK_EQ_INT(flood_read(flood.receiver), 0);
    hg_test_stop(flood.receiver);
    flood_end(&flood_self);
}
