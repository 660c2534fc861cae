/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NA on one transport: NA_Msg_multi_recv_unexpected(), messages that share the
 * buffer of one receive.
 */
#include "conform.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#define MULTI_LEFT 256u /* bytes of a buffer beyond one message */
#define MULTI_MANY 100u

/* A receive, and its results so far. */
struct multi_recv {
    char *buf;
    na_size_t size;
    na_op_id_t id;
    unsigned count;
    struct na_cb_info infos[MULTI_MANY];
    na_addr_t kept; /* of the first message: the test frees it */
    bool last;
    na_class_t *keeps;
};

static na_return_t multi_came(const struct na_cb_info *info)
{
    struct multi_recv *recv = (struct multi_recv *) info->arg;

    HG_CHECK(conform_triggering > 0);
    HG_CHECK(info->type == NA_CB_MULTI_RECV_UNEXPECTED);
    HG_CHECK(!recv->last && recv->count < MULTI_MANY);
    if (recv->keeps != NULL && recv->count == 0)
        HG_CHECK_OK(NA_Addr_dup(
            recv->keeps, info->info.multi_recv_unexpected.source, &recv->kept));
    recv->last = info->info.multi_recv_unexpected.last;
    recv->infos[recv->count++] = *info;
    return NA_SUCCESS;
}

static na_size_t multi_max(const struct conform_end *end)
{
    return NA_Msg_get_max_unexpected_size(end->na_class);
}

static void multi_post(struct conform_end *end, struct multi_recv *recv)
{
    recv->count = 0;
    recv->last = false;
    memset(recv->buf, 'z', recv->size);
    HG_CHECK_OK(NA_Msg_multi_recv_unexpected(end->na_class, end->context,
        multi_came, recv, recv->buf, recv->size, &recv->id));
}

static void multi_open(struct conform_end *end, struct multi_recv *recv)
{
    conform_open(end, NULL);
    memset(recv, 0, sizeof(*recv));
    recv->size = multi_max(end) + MULTI_LEFT;
    recv->buf = (char *) malloc(recv->size);
    HG_CHECK(recv->buf != NULL);
}

static void multi_close(struct conform_end *end, struct multi_recv *recv)
{
    free(recv->buf);
    conform_close(end);
}

/* Another context of the class. */
static void multi_other(
    const struct conform_end *end, struct conform_end *other)
{
    *other = *end;
    other->context = NA_Context_create(end->na_class);
    HG_CHECK(other->context != NULL);
}

static void multi_pause(void)
{
    const struct timespec ms = {0, 1000000};

    (void) nanosleep(&ms, NULL);
}

/* Wait for a number of results. */
static void multi_wait(
    struct conform_end *end, const struct multi_recv *recv, unsigned count)
{
    unsigned ms = 0;

    while (recv->count < count) {
        HG_CHECK(ms++ < CONFORM_TIMEOUT);
        (void) conform_turn(end->na_class, end->context, 1);
    }
}

static void multi_cancel(struct conform_end *end, struct multi_recv *recv)
{
    unsigned count = recv->count + 1;

    HG_CHECK_OK(NA_Cancel(end->na_class, end->context, recv->id));
    HG_CHECK_RET(NA_Cancel(end->na_class, end->context, recv->id), NA_NOENTRY);
    multi_wait(end, recv, count);
    HG_CHECK_RET(recv->infos[count - 1].ret, NA_CANCELED);
    HG_CHECK(recv->last);
}

/* Send a message whose bytes and size follow from its tag. */
static void multi_send(struct conform_end *end, na_size_t size, na_tag_t tag)
{
    struct conform_call send;
    char *bytes = (char *) malloc(size + 1);

    HG_CHECK(bytes != NULL);
    conform_fill(bytes, size, tag);
    HG_CHECK_OK(conform_send(end, &send, false, bytes, size, tag));
    HG_CHECK_OK(conform_wait(end, &send));
    free(bytes);
}

/* Check a result; `at` is the place of the message. Returns the next place. */
static na_size_t multi_check(const struct multi_recv *recv, unsigned i,
    na_size_t at, na_size_t size, na_tag_t tag)
{
    const struct na_cb_info_multi_recv_unexpected *info =
        &recv->infos[i].info.multi_recv_unexpected;
    char *bytes = (char *) malloc(size + 1);

    HG_CHECK(bytes != NULL);
    HG_CHECK_OK(recv->infos[i].ret);
    HG_CHECK_EQ_U64(info->actual_buf_size, size);
    HG_CHECK_EQ_INT(info->tag, tag);
    HG_CHECK((char *) info->actual_buf == recv->buf + at);
    conform_fill(bytes, size, tag);
    HG_CHECK_EQ_MEM(info->actual_buf, bytes, size);
    free(bytes);
    return at + (size == 0 ? 16 : (size + 15) / 16 * 16);
}

/* Each message is behind the one before it. The receive ends with the first
 * message that leaves less than a message. */
static void multi_fill(bool early)
{
    static const na_size_t sizes[] = {0, 1, 15, 16, 17, 100, 48, 1, 7, 30, 200};
    const unsigned count = sizeof(sizes) / sizeof(sizes[0]);
    struct multi_recv recv;
    struct conform_call single;
    struct conform_end end;
    na_size_t at = 0;
    char got[8];
    unsigned i, used = 0;

    multi_open(&end, &recv);
    recv.keeps = end.na_class;
    if (early)
        multi_post(&end, &recv);
    for (i = 0; i < count; i++)
        multi_send(&end, sizes[i], i);
    if (!early)
        multi_post(&end, &recv);
    while (at <= MULTI_LEFT)
        at += sizes[used] == 0 ? 16 : (sizes[used] + 15) / 16 * 16, used++;
    HG_CHECK(used > 4 && used + 2 < count);
    multi_wait(&end, &recv, used);
    conform_idle(&end);
    HG_CHECK_EQ_INT(recv.count, used);
    at = 0;
    for (i = 0; i < used; i++) {
        at = multi_check(&recv, i, at, sizes[i], i);
        HG_CHECK_EQ_INT(
            recv.infos[i].info.multi_recv_unexpected.last, i + 1 == used);
    }
    HG_CHECK(NA_Addr_cmp(end.na_class, recv.kept, end.self) == NA_TRUE);
    HG_CHECK_OK(NA_Addr_free(end.na_class, recv.kept));
    HG_CHECK_RET(NA_Cancel(end.na_class, end.context, recv.id), NA_NOENTRY);
    /* The others wait for the next receive, of either kind. */
    HG_CHECK_OK(conform_recv(&end, &single, false, got, 8, 0));
    HG_CHECK_OK(conform_wait(&end, &single));
    HG_CHECK_EQ_INT(single.tag, used);
    conform_free_addr(&end, &single);
    recv.keeps = NULL;
    multi_post(&end, &recv);
    multi_wait(&end, &recv, count - used - 1);
    (void) multi_check(&recv, 0, 0, sizes[used + 1], used + 1);
    if (!recv.last)
        multi_cancel(&end, &recv);
    multi_close(&end, &recv);
}

HG_TEST(messages_share_the_buffer_of_a_receive)
{
    multi_fill(true);
}

HG_TEST(messages_that_wait_share_the_buffer_of_a_receive)
{
    multi_fill(false);
}

/* A buffer for one message takes one, of the largest size. */
HG_TEST(buffer_of_the_least_size_takes_one_message)
{
    struct multi_recv recv;
    struct conform_end end;
    na_size_t max;

    multi_open(&end, &recv);
    recv.size = max = multi_max(&end);
    multi_post(&end, &recv);
    multi_send(&end, max, 5);
    multi_wait(&end, &recv, 1);
    (void) multi_check(&recv, 0, 0, max, 5);
    HG_CHECK(recv.last);
    multi_post(&end, &recv); /* the buffer is free again */
    multi_send(&end, 1, 6);
    multi_wait(&end, &recv, 1);
    (void) multi_check(&recv, 0, 0, 1, 6);
    HG_CHECK(recv.last);
    multi_close(&end, &recv);
}

HG_TEST(receive_of_many_refuses_bad_arguments)
{
    struct multi_recv recv;
    struct conform_end end;
    na_op_id_t id = (na_op_id_t) (uintptr_t) 0x5a;

    multi_open(&end, &recv);
    hg_test_expect_log("the buffer is NULL");
    HG_CHECK_RET(NA_Msg_multi_recv_unexpected(end.na_class, end.context,
                     multi_came, &recv, NULL, recv.size, &id),
        NA_INVALID_ARG);
    HG_CHECK(id == NA_OP_ID_NULL);
    hg_test_expect_log("is smaller than the largest unexpected message, ");
    HG_CHECK_RET(
        NA_Msg_multi_recv_unexpected(end.na_class, end.context, multi_came,
            &recv, recv.buf, multi_max(&end) - 1, NA_OP_ID_IGNORE),
        NA_INVALID_ARG);
    HG_CHECK_RET(NA_Msg_multi_recv_unexpected(end.na_class, end.context,
                     multi_came, &recv, NULL, 0, NA_OP_ID_IGNORE),
        NA_INVALID_ARG);
    hg_test_expect_log("the context is NULL");
    HG_CHECK_RET(NA_Msg_multi_recv_unexpected(end.na_class, NULL, multi_came,
                     &recv, recv.buf, recv.size, &id),
        NA_INVALID_ARG);
    conform_idle(&end);
    HG_CHECK_EQ_INT(recv.count, 0);
    multi_close(&end, &recv);
}

/* A receive is in the order in which receives were posted, until it ends. */
HG_TEST(receives_of_both_kinds_keep_their_order)
{
    struct multi_recv recv;
    struct conform_call first, later;
    struct conform_end end;
    char got[2][8];
    unsigned i;

    multi_open(&end, &recv);
    HG_CHECK_OK(conform_recv(&end, &first, false, got[0], 8, 0));
    multi_post(&end, &recv);
    HG_CHECK_OK(conform_recv(&end, &later, false, got[1], 8, 0));
    for (i = 0; i < 3; i++)
        multi_send(&end, 8, i);
    HG_CHECK_OK(conform_wait(&end, &first));
    HG_CHECK_EQ_INT(first.tag, 0);
    conform_free_addr(&end, &first);
    multi_wait(&end, &recv, 2);
    multi_cancel(&end, &recv);
    HG_CHECK_EQ_INT(recv.infos[0].info.multi_recv_unexpected.tag, 1);
    HG_CHECK_EQ_INT(recv.infos[1].info.multi_recv_unexpected.tag, 2);
    multi_send(&end, 8, 3);
    HG_CHECK_OK(conform_wait(&end, &later));
    HG_CHECK_EQ_INT(later.tag, 3);
    conform_free_addr(&end, &later);
    multi_close(&end, &recv);
}

/* Messages arrive for a receive of another context, whose callbacks do not
 * run. The expected message that is sent last arrives last. */
static void multi_arrive(struct conform_end *end, unsigned count, na_tag_t tag)
{
    struct conform_call sends[MULTI_MANY], send, recv;
    char got[4];
    unsigned i;

    HG_CHECK(count <= MULTI_MANY);
    for (i = 0; i < count; i++)
        HG_CHECK_OK(conform_send(end, &sends[i], false, "x", 1, tag + i));
    HG_CHECK_OK(conform_recv(end, &recv, true, got, 4, 9));
    HG_CHECK_OK(conform_send(end, &send, true, "end", 4, 9));
    HG_CHECK_OK(conform_wait(end, &recv));
    HG_CHECK_OK(conform_wait(end, &send));
    for (i = 0; i < count; i++)
        HG_CHECK_OK(conform_wait(end, &sends[i]));
}

HG_TEST(canceled_receive_ends_behind_its_messages)
{
    struct multi_recv recv;
    struct conform_call single;
    struct conform_end end, other;
    char got[8];
    unsigned i;

    multi_open(&end, &recv);
    multi_other(&end, &other);
    multi_post(&other, &recv);
    multi_cancel(&other, &recv); /* without a message */
    HG_CHECK_EQ_INT(recv.count, 1);
    multi_post(&other, &recv);
    multi_arrive(&end, 3, 20);
    HG_CHECK_EQ_INT(recv.count, 0);
    HG_CHECK_OK(NA_Cancel(end.na_class, other.context, recv.id));
    multi_send(&end, 8, 23);
    multi_wait(&other, &recv, 4);
    conform_idle(&other);
    for (i = 0; i < 3; i++) {
        HG_CHECK_OK(recv.infos[i].ret);
        HG_CHECK_EQ_INT(recv.infos[i].info.multi_recv_unexpected.tag, 20 + i);
        HG_CHECK(!recv.infos[i].info.multi_recv_unexpected.last);
    }
    HG_CHECK_RET(recv.infos[3].ret, NA_CANCELED);
    HG_CHECK(recv.last);
    HG_CHECK_OK(conform_recv(&end, &single, false, got, 8, 0));
    HG_CHECK_OK(conform_wait(&end, &single));
    HG_CHECK_EQ_INT(single.tag, 23);
    conform_free_addr(&end, &single);
    HG_CHECK_OK(NA_Context_destroy(end.na_class, other.context));
    multi_close(&end, &recv);
}

/* Two receives take turns, and the callback that is the last posts its buffer
 * again: all messages arrive, in order. */
struct multi_turns {
    struct conform_end end;
    char *bufs[2];
    na_size_t size;
    unsigned count, lasts;
};

static na_return_t multi_turn(const struct na_cb_info *info)
{
    struct multi_turns *turns = (struct multi_turns *) info->arg;
    const struct na_cb_info_multi_recv_unexpected *recv =
        &info->info.multi_recv_unexpected;
    char *buf = turns->bufs[turns->lasts % 2];

    HG_CHECK_OK(info->ret);
    HG_CHECK_EQ_INT(recv->tag, turns->count++);
    HG_CHECK((char *) recv->actual_buf >= buf &&
        (char *) recv->actual_buf < buf + turns->size);
    HG_CHECK_EQ_MEM(recv->actual_buf, &recv->tag, sizeof(recv->tag));
    if (recv->last) {
        turns->lasts++;
        memset(buf, 'z', turns->size);
        HG_CHECK_OK(NA_Msg_multi_recv_unexpected(turns->end.na_class,
            turns->end.context, multi_turn, turns, buf, turns->size,
            NA_OP_ID_IGNORE));
    }
    return NA_SUCCESS;
}

HG_TEST(last_callback_posts_the_buffer_again)
{
    enum { COUNT = 2000 };
    static struct conform_call sends[COUNT];
    static na_tag_t bytes[COUNT];
    struct multi_turns turns;
    unsigned i;

    memset(&turns, 0, sizeof(turns));
    conform_open(&turns.end, NULL);
    turns.size = multi_max(&turns.end) + MULTI_LEFT;
    for (i = 0; i < 2; i++) {
        turns.bufs[i] = (char *) malloc(turns.size);
        HG_CHECK(turns.bufs[i] != NULL);
        HG_CHECK_OK(NA_Msg_multi_recv_unexpected(turns.end.na_class,
            turns.end.context, multi_turn, &turns, turns.bufs[i], turns.size,
            NA_OP_ID_IGNORE));
    }
    for (i = 0; i < COUNT; i++) {
        bytes[i] = i;
        HG_CHECK_OK(
            conform_send(&turns.end, &sends[i], false, &bytes[i], 4, i));
        if (i % 64 == 63)
            (void) conform_turn(turns.end.na_class, turns.end.context, 0);
    }
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(conform_wait(&turns.end, &sends[i]));
    for (i = 0; turns.count < COUNT && i < CONFORM_TIMEOUT; i++)
        (void) conform_turn(turns.end.na_class, turns.end.context, 1);
    HG_CHECK_EQ_INT(turns.count, COUNT);
    HG_CHECK_EQ_INT(turns.lasts, COUNT / (MULTI_LEFT / 16 + 1));
    HG_CHECK_OK(NA_Context_destroy(turns.end.na_class, turns.end.context));
    turns.end.context = NA_Context_create(turns.end.na_class);
    HG_CHECK(turns.end.context != NULL);
    conform_close(&turns.end);
    free(turns.bufs[0]);
    free(turns.bufs[1]);
}

/* Messages whose callbacks have not run are dropped with their context; those
 * that come later wait for another receive. */
HG_TEST(context_ends_with_messages_of_a_receive)
{
    struct multi_recv recv;
    struct conform_end end, other;
    struct conform_call single;
    char got[8];

    multi_open(&end, &recv);
    multi_other(&end, &other);
    multi_post(&other, &recv);
    multi_arrive(&end, 40, 0);
    HG_CHECK_OK(NA_Context_destroy(end.na_class, other.context));
    HG_CHECK_EQ_INT(recv.count, 0);
    HG_CHECK_OK(conform_recv(&end, &single, false, got, 8, 0));
    multi_send(&end, 8, 77);
    HG_CHECK_OK(conform_wait(&end, &single));
    /* One buffer is full after 17 messages of this size. */
    HG_CHECK_EQ_INT(single.tag, 17);
    conform_free_addr(&end, &single);
    multi_close(&end, &recv);
}

/* ---- Threads ---- */

struct multi_threads {
    struct conform_end end;
    _Atomic unsigned began, done;
    _Atomic bool go;
    _Atomic bool last;
};

/* The callback of the first message waits. */
static na_return_t multi_slow(const struct na_cb_info *info)
{
    struct multi_threads *threads = (struct multi_threads *) info->arg;
    unsigned ms = 0;

    if (info->info.multi_recv_unexpected.last) {
        HG_CHECK_EQ_INT(threads->done, 3);
        threads->last = true;
        return NA_SUCCESS;
    }
    threads->began++;
    while (info->info.multi_recv_unexpected.tag == 0 && !threads->go) {
        HG_CHECK(ms++ < CONFORM_TIMEOUT);
        multi_pause();
    }
    threads->done++;
    return NA_SUCCESS;
}

static void *multi_trigger(void *arg)
{
    struct multi_threads *threads = (struct multi_threads *) arg;

    HG_CHECK_OK(NA_Trigger(threads->end.context, CONFORM_TIMEOUT, 1, NULL));
    return NULL;
}

/* While the callback of one message runs, other threads run those of the next
 * ones, but not the last one. */
HG_TEST(last_callback_runs_after_the_others)
{
    struct multi_threads threads;
    struct conform_end sender;
    pthread_t thread;
    na_size_t size;
    na_op_id_t id;
    char *buf;

    memset(&threads, 0, sizeof(threads));
    conform_open(&threads.end, NULL);
    multi_other(&threads.end, &sender);
    size = multi_max(&threads.end) + MULTI_LEFT;
    buf = (char *) malloc(size);
    HG_CHECK(buf != NULL);
    HG_CHECK_OK(NA_Msg_multi_recv_unexpected(threads.end.na_class,
        threads.end.context, multi_slow, &threads, buf, size, &id));
    multi_arrive(&sender, 3, 0);
    HG_CHECK_OK(NA_Cancel(threads.end.na_class, threads.end.context, id));
    HG_CHECK(!pthread_create(&thread, NULL, multi_trigger, &threads));
    while (threads.began == 0)
        multi_pause();
    HG_CHECK_EQ_INT(conform_trigger(threads.end.context, 0, 100), 2);
    HG_CHECK_EQ_INT(threads.done, 2);
    HG_CHECK_EQ_INT(conform_trigger(threads.end.context, 0, 100), 0);
    threads.go = true;
    HG_CHECK(!pthread_join(thread, NULL));
    HG_CHECK_EQ_INT(conform_trigger(threads.end.context, 0, 100), 1);
    HG_CHECK(threads.last);
    HG_CHECK_OK(NA_Context_destroy(sender.na_class, sender.context));
    conform_close(&threads.end);
    free(buf);
}

/* ---- A peer that dies ---- */

/* Sends messages to the address `argv[0]`, and waits. */
HG_TEST_ROLE(multi_sender)
{
    struct conform_end end;
    struct conform_call send;
    na_addr_t self;
    na_tag_t i;

    HG_CHECK_EQ_INT(argc, 1);
    conform_open(&end, NULL);
    self = end.self;
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end.na_class, argv[0], CONFORM_TIMEOUT, &end.self));
    for (i = 0; i < 10; i++) {
        HG_CHECK_OK(conform_send(&end, &send, false, "dying", 6, i));
        HG_CHECK_OK(conform_wait(&end, &send));
    }
    hg_test_allow_log("");
    while (hg_test_read_parent() != NULL)
        continue;
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.self));
    end.self = self;
    conform_close(&end);
}

/* Its messages have arrived, and their callbacks run after its death. */
HG_TEST_WHERE(messages_outlive_their_sender, hg_test_reports_death)
{
    struct hg_test_peer *process;
    struct multi_recv recv;
    struct conform_call death;
    struct conform_end end;
    char name[NA_MAX_ADDR_LEN], got[8];
    unsigned i, ms;

    multi_open(&end, &recv);
    hg_test_allow_log("");
    recv.keeps = end.na_class;
    multi_post(&end, &recv);
    HG_CHECK_OK(NA_Addr_to_string(end.na_class, name, sizeof(name), end.self));
    process = hg_test_spawn("multi_sender", name, NULL);
    for (ms = 0; recv.count == 0; ms++) {
        HG_CHECK(ms < CONFORM_TIMEOUT);
        (void) NA_Progress(end.na_class, end.context, 1);
        (void) conform_trigger(end.context, 0, 1);
    }
    memset(&death, 0, sizeof(death));
    HG_CHECK_OK(NA_Msg_recv_expected(end.na_class, end.context, conform_ended,
        &death, got, sizeof(got), recv.kept, 1, &death.id));
    /* Nine more have arrived, and no callback runs. */
    for (ms = 0; ms < 100; ms++)
        (void) NA_Progress(end.na_class, end.context, 1);
    hg_test_signal(process, SIGKILL);
    (void) hg_test_wait(process);
    HG_CHECK_RET(conform_wait(&end, &death), NA_DISCONNECT);
    multi_cancel(&end, &recv);
    for (i = 0; i + 1 < recv.count; i++) {
        HG_CHECK_OK(recv.infos[i].ret);
        HG_CHECK_EQ_INT(recv.infos[i].info.multi_recv_unexpected.tag, i);
        HG_CHECK_EQ_MEM(
            recv.infos[i].info.multi_recv_unexpected.actual_buf, "dying", 6);
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, recv.kept));
    multi_close(&end, &recv);
}
