/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Expected receives from a peer that was only resolved, not looked up: they get
 * the messages of the class that listens at the address, whoever connected
 * first, and those of no other class.
 */
#include "conform.h"

#include <pthread.h>
#include <time.h>

#define SOURCE_ENDS 3
#define SOURCE_SIZE 16

struct source_net {
    struct conform_end ends[SOURCE_ENDS];
    unsigned count;
};

/* A receive with its buffer. */
struct source_recv {
    struct conform_call call;
    char got[SOURCE_SIZE];
};

static bool source_has_peers(void)
{
    return !hg_test_is_self();
}

/* Without connections an address stands for its name: any process that listens
 * there later is the same peer. */
static bool source_has_connections(void)
{
    return source_has_peers() && strcmp(hg_test_transport(), "unix") != 0;
}

/* A class that is opened later over MPI, or its part for sm, has another
 * address. */
static bool source_keeps_names(void)
{
    return source_has_connections() && !hg_test_is_mpi() && !hg_test_is_mux();
}

static void source_open(struct source_net *net, unsigned count)
{
    for (net->count = 0; net->count < count; net->count++)
        conform_open(&net->ends[net->count], NULL);
}

static void source_close(struct source_net *net)
{
    while (net->count > 0)
        conform_close(&net->ends[--net->count]);
}

static uint64_t source_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* Make progress on all classes. */
static void source_turn(struct source_net *net)
{
    unsigned i;

    for (i = 0; i < net->count; i++)
        (void) conform_turn(net->ends[i].na_class, net->ends[i].context, 0);
}

static na_return_t source_wait(
    struct source_net *net, struct conform_call *call)
{
    uint64_t end = source_ms() + CONFORM_TIMEOUT;

    while (atomic_load(&call->ends) == 0) {
        HG_CHECK(source_ms() < end);
        source_turn(net);
    }
    return call->ret;
}

static void source_name(
    const struct conform_end *end, na_addr_t addr, char name[NA_MAX_ADDR_LEN])
{
    HG_CHECK_OK(NA_Addr_to_string(end->na_class, name, NA_MAX_ADDR_LEN, addr));
}

/* Listen again where a class that was closed did. */
static void source_reopen(struct conform_end *end, const char *name)
{
    end->na_class = NA_Initialize(name, NA_TRUE);
    HG_CHECK(end->na_class != NULL);
    end->context = NA_Context_create(end->na_class);
    HG_CHECK(end->context != NULL);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->self));
}

/* The address that `to` listens at, not connected. */
static na_addr_t source_resolve(
    struct conform_end *from, const struct conform_end *to)
{
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr = NA_ADDR_NULL;

    source_name(to, to->self, name);
    HG_CHECK_OK(NA_Addr_resolve(from->na_class, name, &addr));
    return addr;
}

static void source_post(struct conform_end *end, struct source_recv *recv,
    na_addr_t from, na_tag_t tag)
{
    memset(recv, 0, sizeof(*recv));
    HG_CHECK_OK(NA_Msg_recv_expected(end->na_class, end->context, conform_ended,
        &recv->call, recv->got, sizeof(recv->got), from, tag, &recv->call.id));
}

/* Send, and wait until it has left. */
static void source_send(struct source_net *net, struct conform_end *end,
    na_addr_t to, bool expected, const char *text, na_tag_t tag)
{
    struct conform_call send;

    memset(&send, 0, sizeof(send));
    HG_CHECK_OK((expected ? NA_Msg_send_expected : NA_Msg_send_unexpected)(
        end->na_class, end->context, conform_ended, &send, text,
        strlen(text) + 1, to, tag, &send.id));
    HG_CHECK_OK(source_wait(net, &send));
}

static void source_check(
    struct source_net *net, struct source_recv *recv, const char *text)
{
    HG_CHECK_OK(source_wait(net, &recv->call));
    HG_CHECK_EQ_STR(recv->got, text);
}

/* Send an unexpected message, and receive it: what the same peer sent before
 * has arrived. Returns the address that it came from. */
static na_addr_t source_meet(struct source_net *net, struct conform_end *from,
    na_addr_t to, struct conform_end *at)
{
    struct source_recv recv;

    memset(&recv, 0, sizeof(recv));
    HG_CHECK_OK(NA_Msg_recv_unexpected(at->na_class, at->context, conform_ended,
        &recv.call, recv.got, sizeof(recv.got), &recv.call.id));
    source_send(net, from, to, false, "hello", 0);
    source_check(net, &recv, "hello");
    return recv.call.addr;
}

static void source_free(const struct conform_end *end, na_addr_t addr)
{
    HG_CHECK_OK(NA_Addr_free(end->na_class, addr));
}

/* A pair: `a` sends to `b`, which has only resolved it. */
struct source_pair {
    struct source_net net;
    struct conform_end *a, *b;
    na_addr_t to_a, to_b;
};

static void source_pair_open(struct source_pair *pair, unsigned count)
{
    source_open(&pair->net, count);
    pair->a = &pair->net.ends[0];
    pair->b = &pair->net.ends[1];
    pair->to_a = source_resolve(pair->b, pair->a);
    pair->to_b = source_resolve(pair->a, pair->b);
}

static void source_pair_close(struct source_pair *pair)
{
    source_free(pair->b, pair->to_a);
    source_free(pair->a, pair->to_b);
    source_close(&pair->net);
}

HG_TEST_WHERE(receive_comes_before_its_message, source_has_peers)
{
    struct source_pair pair;
    struct source_recv one, two, third;

    source_pair_open(&pair, 2);
    source_post(pair.b, &one, pair.to_a, 7);
    source_post(pair.b, &two, pair.to_a, 7);
    source_post(pair.b, &third, pair.to_a, 8);
    source_send(&pair.net, pair.a, pair.to_b, true, "third", 8);
    source_send(&pair.net, pair.a, pair.to_b, true, "one", 7);
    source_send(&pair.net, pair.a, pair.to_b, true, "two", 7);
    source_check(&pair.net, &one, "one");
    source_check(&pair.net, &two, "two");
    source_check(&pair.net, &third, "third");
    source_pair_close(&pair);
}

/* The message is queued, and its address is compared as it is matched. */
HG_TEST_WHERE(receive_comes_after_its_message, source_has_peers)
{
    struct source_pair pair;
    struct source_recv one, two, seen;
    na_addr_t source;

    source_pair_open(&pair, 2);
    source_send(&pair.net, pair.a, pair.to_b, true, "one", 7);
    source_send(&pair.net, pair.a, pair.to_b, true, "two", 7);
    source_send(&pair.net, pair.a, pair.to_b, true, "seen", 7);
    source = source_meet(&pair.net, pair.a, pair.to_b, pair.b);
    source_post(pair.b, &one, pair.to_a, 7);
    source_post(pair.b, &two, pair.to_a, 7);
    source_check(&pair.net, &one, "one");
    source_check(&pair.net, &two, "two");
    HG_CHECK(NA_Addr_cmp(pair.b->na_class, source, pair.to_a));
    HG_CHECK(NA_Addr_cmp(pair.b->na_class, pair.to_a, source));
    source_post(pair.b, &seen, source, 7);
    source_check(&pair.net, &seen, "seen");
    source_free(pair.b, source);
    source_pair_close(&pair);
}

/* Over ZeroMQ only the peer's progress answers. */
static bool source_needs_no_progress(void)
{
    return source_has_peers() && !hg_test_is_mpi() &&
        (hg_test_is_mux() || strncmp(hg_test_transport(), "zmq", 3) != 0);
}

/* The sender has sent its message, and does not make progress any more. */
HG_TEST_WHERE(sender_need_not_make_progress, source_needs_no_progress)
{
    struct source_pair pair;
    struct source_recv one, two;
    na_addr_t source;

    source_pair_open(&pair, 2);
    source_send(&pair.net, pair.a, pair.to_b, true, "one", 7);
    source = source_meet(&pair.net, pair.a, pair.to_b, pair.b);
    source_post(pair.b, &one, pair.to_a, 7);
    HG_CHECK_OK(conform_wait(pair.b, &one.call));
    HG_CHECK_EQ_STR(one.got, "one");
    source_post(pair.b, &two, pair.to_a, 7);
    source_free(pair.b, source);
    source_send(&pair.net, pair.a, pair.to_b, true, "two", 7);
    source_check(&pair.net, &two, "two");
    source_pair_close(&pair);
}

HG_TEST_WHERE(both_sides_receive_and_send, source_has_peers)
{
    enum { COUNT = 8 };
    struct source_pair pair;
    static struct source_recv at_a[COUNT], at_b[COUNT];
    static struct conform_call of_a[COUNT], of_b[COUNT];
    static char text[COUNT][2];
    unsigned i;

    source_pair_open(&pair, 2);
    memset(of_a, 0, sizeof(of_a));
    memset(of_b, 0, sizeof(of_b));
    for (i = 0; i < COUNT; i++) {
        text[i][0] = (char) ('a' + i);
        source_post(pair.a, &at_a[i], pair.to_b, 7);
        source_post(pair.b, &at_b[i], pair.to_a, 7);
        HG_CHECK_OK(NA_Msg_send_expected(pair.a->na_class, pair.a->context,
            conform_ended, &of_a[i], text[i], 2, pair.to_b, 7, &of_a[i].id));
        HG_CHECK_OK(NA_Msg_send_expected(pair.b->na_class, pair.b->context,
            conform_ended, &of_b[i], text[i], 2, pair.to_a, 7, &of_b[i].id));
    }
    for (i = 0; i < COUNT; i++) {
        source_check(&pair.net, &at_a[i], text[i]);
        source_check(&pair.net, &at_b[i], text[i]);
        HG_CHECK_OK(source_wait(&pair.net, &of_a[i]));
        HG_CHECK_OK(source_wait(&pair.net, &of_b[i]));
    }
    source_pair_close(&pair);
}

/* Another listener sends with the same tag, before and after. */
HG_TEST_WHERE(message_of_another_listener_is_not_matched, source_has_peers)
{
    struct source_pair pair;
    struct conform_end *other;
    struct source_recv one, two, others;
    na_addr_t from_other, source;

    source_pair_open(&pair, 3);
    other = &pair.net.ends[2];
    from_other = source_resolve(other, pair.b);
    source_send(&pair.net, other, from_other, true, "other 1", 7);
    source = source_meet(&pair.net, other, from_other, pair.b);
    source_post(pair.b, &one, pair.to_a, 7);
    source_post(pair.b, &two, pair.to_a, 7);
    source_send(&pair.net, other, from_other, true, "other 2", 7);
    source_send(&pair.net, pair.a, pair.to_b, true, "one", 7);
    source_check(&pair.net, &one, "one");
    HG_CHECK_EQ_INT(two.call.ends, 0);
    HG_CHECK(!NA_Addr_cmp(pair.b->na_class, source, pair.to_a));
    source_post(pair.b, &others, source, 7);
    source_check(&pair.net, &others, "other 1");
    source_post(pair.b, &others, source, 7);
    source_check(&pair.net, &others, "other 2");
    source_send(&pair.net, pair.a, pair.to_b, true, "two", 7);
    source_check(&pair.net, &two, "two");
    source_free(pair.b, source);
    source_free(other, from_other);
    source_pair_close(&pair);
}

/* The receive waits, although the peer cannot be connected and somebody else
 * sends with its tag. Then the peer starts. */
HG_TEST_WHERE(
    receive_waits_for_a_listener_that_starts_later, source_keeps_names)
{
    struct source_net net;
    struct conform_end *b, *other;
    struct source_recv recv, others;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t to_a, to_b, from_other;
    struct conform_end *a;

    hg_test_allow_log("cannot be reached");
    source_open(&net, 3);
    b = &net.ends[0];
    other = &net.ends[1];
    a = &net.ends[2];
    source_name(a, a->self, name);
    to_a = source_resolve(b, a);
    from_other = source_resolve(other, b);
    conform_close(a);
    net.count--;
    source_post(b, &recv, to_a, 7);
    source_post(b, &others, b->self, 8);
    source_send(&net, other, from_other, true, "other", 7);
    source_send(&net, b, b->self, true, "self", 8);
    source_check(&net, &others, "self");
    HG_CHECK_EQ_INT(recv.call.ends, 0);
    source_reopen(a, name);
    net.count++;
    to_b = source_resolve(a, b);
    source_send(&net, a, to_b, true, "late", 7);
    source_check(&net, &recv, "late");
    source_free(a, to_b);
    source_free(b, to_a);
    source_free(other, from_other);
    source_close(&net);
}

/* The attempt to connect it ends after lookup_ms. */
HG_TEST_WHERE(receive_outlives_a_failed_attempt, source_has_connections)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct source_net net;
    struct source_recv recv;
    na_addr_t to_a;

    hg_test_expect_log("cannot be reached");
    info.lookup_ms = 100;
    conform_open(&net.ends[0], &info);
    conform_open(&net.ends[1], NULL);
    to_a = source_resolve(&net.ends[0], &net.ends[1]);
    conform_close(&net.ends[1]);
    net.count = 1;
    source_post(&net.ends[0], &recv, to_a, 7);
    while (hg_test_log_count("cannot be reached") == 0)
        source_turn(&net);
    source_turn(&net);
    HG_CHECK_EQ_INT(recv.call.ends, 0);
    HG_CHECK_OK(
        NA_Cancel(net.ends[0].na_class, net.ends[0].context, recv.call.id));
    HG_CHECK_RET(source_wait(&net, &recv.call), NA_CANCELED);
    source_free(&net.ends[0], to_a);
    source_close(&net);
}

/* A message of an earlier listener is not taken for one of the later. */
HG_TEST_WHERE(message_of_an_earlier_listener_is_not_matched, source_keeps_names)
{
    struct source_pair pair;
    struct source_recv recv;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t source;

    source_pair_open(&pair, 2);
    source_name(pair.a, pair.a->self, name);
    source_send(&pair.net, pair.a, pair.to_b, true, "earlier", 7);
    source = source_meet(&pair.net, pair.a, pair.to_b, pair.b);
    source_free(pair.a, pair.to_b);
    conform_close(pair.a);
    source_reopen(pair.a, name);
    pair.to_b = source_resolve(pair.a, pair.b);
    source_post(pair.b, &recv, pair.to_a, 7);
    source_send(&pair.net, pair.a, pair.to_b, true, "later", 7);
    source_check(&pair.net, &recv, "later");
    HG_CHECK(!NA_Addr_cmp(pair.b->na_class, source, pair.to_a));
    /* Its own address still gets it. */
    source_post(pair.b, &recv, source, 7);
    source_check(&pair.net, &recv, "earlier");
    source_free(pair.b, source);
    source_pair_close(&pair);
}

/* A closed connection leaves an address that is only resolved. */
HG_TEST_WHERE(
    receive_of_a_terminated_address_is_matched, source_has_connections)
{
    struct source_pair pair;
    struct source_recv recv, kept;
    struct conform_call call;

    source_pair_open(&pair, 2);
    source_send(&pair.net, pair.b, pair.to_a, true, "connects", 9);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_terminate(pair.b->na_class, pair.b->context,
        conform_ended, &call, pair.to_a, &call.id));
    source_post(pair.b, &kept, pair.to_a, 6);
    HG_CHECK_OK(source_wait(&pair.net, &call));
    source_free(pair.a, pair.to_b);
    pair.to_b = source_resolve(pair.a, pair.b);
    source_post(pair.b, &recv, pair.to_a, 7);
    source_send(&pair.net, pair.a, pair.to_b, true, "seven", 7);
    source_send(&pair.net, pair.a, pair.to_b, true, "six", 6);
    source_check(&pair.net, &recv, "seven");
    source_check(&pair.net, &kept, "six");
    source_pair_close(&pair);
}

/* A terminated address does not stand for the listener that it was connected
 * to. */
HG_TEST_WHERE(
    receive_of_a_terminated_address_is_of_the_next_listener, source_keeps_names)
{
    struct source_pair pair;
    struct source_recv recv;
    struct conform_call call;
    char name[NA_MAX_ADDR_LEN];

    source_pair_open(&pair, 2);
    source_name(pair.a, pair.a->self, name);
    source_send(&pair.net, pair.b, pair.to_a, true, "connects", 9);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_terminate(pair.b->na_class, pair.b->context,
        conform_ended, &call, pair.to_a, &call.id));
    HG_CHECK_OK(source_wait(&pair.net, &call));
    source_free(pair.a, pair.to_b);
    conform_close(pair.a);
    source_reopen(pair.a, name);
    pair.to_b = source_resolve(pair.a, pair.b);
    source_post(pair.b, &recv, pair.to_a, 7);
    source_send(&pair.net, pair.a, pair.to_b, true, "seven", 7);
    source_check(&pair.net, &recv, "seven");
    source_pair_close(&pair);
}

HG_TEST_WHERE(
    waiting_receive_is_canceled_and_outlives_its_address, source_has_peers)
{
    struct source_pair pair;
    struct source_recv one, two;

    source_pair_open(&pair, 2);
    source_post(pair.b, &one, pair.to_a, 7);
    source_post(pair.b, &two, pair.to_a, 7);
    source_free(pair.b, pair.to_a);
    HG_CHECK_OK(NA_Cancel(pair.b->na_class, pair.b->context, one.call.id));
    HG_CHECK_RET(source_wait(&pair.net, &one.call), NA_CANCELED);
    source_send(&pair.net, pair.a, pair.to_b, true, "two", 7);
    source_check(&pair.net, &two, "two");
    /* One that never got a message. */
    pair.to_a = source_resolve(pair.b, pair.a);
    source_post(pair.b, &one, pair.to_a, 8);
    source_free(pair.b, pair.to_a);
    HG_CHECK_OK(NA_Cancel(pair.b->na_class, pair.b->context, one.call.id));
    HG_CHECK_RET(source_wait(&pair.net, &one.call), NA_CANCELED);
    pair.to_a = source_resolve(pair.b, pair.a);
    source_pair_close(&pair);
}

/* A receive that was not reached leaves nothing that keeps the class open. */
HG_TEST_WHERE(class_is_closed_while_a_receive_connects, source_has_peers)
{
    struct source_pair pair;
    struct source_recv recv;

    source_pair_open(&pair, 2);
    source_post(pair.b, &recv, pair.to_a, 7);
    source_free(pair.b, pair.to_a);
    source_free(pair.a, pair.to_b);
    source_close(&pair.net);
}

/* A send that cannot reach the peer also ends what is received from it. */
HG_TEST_WHERE(failed_send_ends_the_receives, source_keeps_names)
{
    struct source_net net;
    struct source_recv recv;
    struct conform_call send;
    na_addr_t to_a;

    hg_test_allow_log("cannot be reached");
    source_open(&net, 2);
    to_a = source_resolve(&net.ends[0], &net.ends[1]);
    conform_close(&net.ends[1]);
    net.count--;
    source_post(&net.ends[0], &recv, to_a, 7);
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_expected(net.ends[0].na_class, net.ends[0].context,
        conform_ended, &send, "x", 1, to_a, 8, &send.id));
    HG_CHECK_RET(source_wait(&net, &send), NA_HOSTUNREACH);
    HG_CHECK_RET(source_wait(&net, &recv.call), NA_HOSTUNREACH);
    source_free(&net.ends[0], to_a);
    source_close(&net);
}

/* ---- Threads ---- */

#define SOURCE_THREADS 3
#define SOURCE_ROUNDS 30

struct source_thread {
    struct source_pair *pair;
    na_tag_t tag;
    pthread_t thread;
};

static _Atomic unsigned source_ended; /* threads */

/* Receive by an address of its own, which is resolved and freed each time. */
static void *source_receive(void *arg)
{
    struct source_thread *thread = (struct source_thread *) arg;
    struct source_pair *pair = thread->pair;
    unsigned i;

    for (i = 0; i < SOURCE_ROUNDS; i++) {
        na_addr_t to_a = source_resolve(pair->b, pair->a);
        struct source_recv recv;

        source_post(pair->b, &recv, to_a, thread->tag);
        source_free(pair->b, to_a);
        HG_CHECK_OK(conform_wait(pair->b, &recv.call));
        HG_CHECK_EQ_STR(recv.got, "x");
    }
    atomic_fetch_add(&source_ended, 1);
    return NULL;
}

HG_TEST_WHERE(threads_receive_by_resolved_addresses, source_has_peers)
{
    struct source_thread threads[SOURCE_THREADS];
    struct source_pair pair;
    unsigned i, k;

    source_pair_open(&pair, 2);
    for (k = 0; k < SOURCE_THREADS; k++) {
        threads[k].pair = &pair;
        threads[k].tag = 10 + k;
        HG_CHECK_EQ_INT(pthread_create(&threads[k].thread, NULL, source_receive,
                            &threads[k]),
            0);
    }
    for (i = 0; i < SOURCE_ROUNDS; i++) {
        for (k = 0; k < SOURCE_THREADS; k++)
            source_send(
                &pair.net, pair.a, pair.to_b, true, "x", threads[k].tag);
    }
    while (atomic_load(&source_ended) < SOURCE_THREADS)
        source_turn(&pair.net); /* the sender answers */
    for (k = 0; k < SOURCE_THREADS; k++)
        HG_CHECK_EQ_INT(pthread_join(threads[k].thread, NULL), 0);
    source_pair_close(&pair);
}
