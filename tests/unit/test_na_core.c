/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules of NA's core: uri, queue, op, addr, plugins and progress; then
 * NA's guarantees on a transport that injects faults.
 */
#include "support/library.h"
#include "unit/locked.h"

#include "harness.h"
#include "support/faults.h"
#include "support/loop.h"

#include <sys/resource.h>

/* ---- uri ---- */

HG_TEST(uri_parses_strings)
{
    static const struct {
        const char *string, *plugin, *protocol, *rest;
    } good[] = {
        {"tcp", "", "tcp", ""},
        {"tcp://", "", "tcp", ""},
        {"tcp://host:1", "", "tcp", "host:1"},
        {"zmq+tcp://[::1]:2", "zmq", "tcp", "[::1]:2"},
        {"zmq+ipc:///a+b://c", "zmq", "ipc", "/a+b://c"},
        {"a-b_c.9+D://x", "a-b_c.9", "D", "x"},
    };
    static const char *const bad[] = {"", "+", "a+", "+a", "a+b+c://", "://",
        "a b", "a/b", "a\tb", "\x7f", "a:b", "a+://x", "tcp:/x",
        "0123456789012345678901234567890123456789://"};
    struct na_uri uri;
    size_t i;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        HG_CHECK_OK(na_uri_parse(good[i].string, &uri));
        HG_CHECK_EQ_STR(uri.plugin, good[i].plugin);
        HG_CHECK_EQ_STR(uri.protocol, good[i].protocol);
        HG_CHECK_EQ_STR(uri.rest, good[i].rest);
    }
    hg_test_expect_log("is not [plugin+]protocol");
    hg_test_expect_log("control characters");
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        HG_CHECK_RET(na_uri_parse(bad[i], &uri), NA_INVALID_ARG);
}

HG_TEST(uri_refuses_strings_past_its_limit)
{
    char string[NA_MAX_ADDR_LEN + 1];
    struct na_uri uri;

    memset(string, 'x', sizeof(string));
    memcpy(string, "tcp://", 6);
    string[NA_MAX_ADDR_LEN - 1] = '\0';
    HG_CHECK_OK(na_uri_parse(string, &uri));
    string[NA_MAX_ADDR_LEN - 1] = 'x';
    string[NA_MAX_ADDR_LEN] = '\0';
    hg_test_expect_log("256 bytes and more");
    HG_CHECK_RET(na_uri_parse(string, &uri), NA_INVALID_ARG);
}

/* ---- queue ---- */

struct core_entry {
    struct na_completion done; /* must be first */
    struct na_queue *queue;
    unsigned *counter;
    unsigned ran_as;
    bool again; /* push once more when run */
};

static void core_entry_run(struct na_completion *done)
{
    struct core_entry *entry = (struct core_entry *) (void *) done;

    entry->ran_as = ++*entry->counter;
    if (entry->again) {
        entry->again = false;
        locked_queue_push(entry->queue, NA_LANE_INTERNAL, done);
    }
}

static struct hg_monitor core_queue_lock;

static unsigned core_queue_run(
    struct na_queue *queue, unsigned lanes, unsigned max, uint64_t deadline)
{
    unsigned n;

    hg_enter(queue->lock);
    n = na_queue_run(queue, lanes, max, deadline);
    hg_leave(queue->lock);
    return n;
}

static unsigned core_queue_run_internal(struct na_queue *queue)
{
    unsigned n;

    hg_enter(queue->lock);
    n = na_queue_run(queue, NA_LANES_INTERNAL, UINT_MAX, HG_CLOCK_NEVER);
    hg_leave(queue->lock);
    return n;
}

static na_return_t core_queue_wait(
    struct na_queue *queue, unsigned lanes, unsigned ms)
{
    uint64_t deadline = hg_clock_after_ms(ms);
    na_return_t ret = NA_SUCCESS;

    hg_enter(queue->lock);
    while (!na_queue_has(queue, lanes) && ret == NA_SUCCESS)
        ret = na_queue_sleep(queue, NA_LANES_ALL, NULL, deadline);
    hg_leave(queue->lock);
    return ret;
}

HG_TEST(queue_keeps_each_lane_in_order)
{
    struct na_queue queue;
    struct core_entry entries[6];
    unsigned counter = 0, i;

    HG_CHECK_OK(na_queue_init(&queue, &core_queue_lock));
    HG_CHECK_EQ_INT(core_queue_run(&queue, ~0u, 1, HG_CLOCK_NEVER), 0);
    memset(entries, 0, sizeof(entries));
    for (i = 0; i < 6; i++) {
        entries[i].done.run = core_entry_run;
        entries[i].counter = &counter;
        entries[i].queue = &queue;
        locked_queue_push(
            &queue, (enum na_lane)(NA_LANE_CALL - i % 3), &entries[i].done);
    }
    HG_CHECK_EQ_INT(na_queue_count(&queue, NA_LANES_DONE), 2);
    HG_CHECK_EQ_INT(na_queue_count(&queue, NA_LANES_ALL), 4);
    HG_CHECK_EQ_INT(
        core_queue_run(&queue, NA_LANES_DONE, 1, HG_CLOCK_NEVER), 1);
    HG_CHECK_EQ_INT(na_queue_count(&queue, NA_LANES_ALL), 3);
    HG_CHECK_EQ_INT(entries[1].ran_as, 1);
    entries[2].again = true;
    HG_CHECK_EQ_INT(core_queue_run_internal(&queue), 3);
    HG_CHECK_EQ_INT(entries[5].ran_as, 3);
    HG_CHECK_EQ_INT(entries[2].ran_as, 4);
    HG_CHECK_EQ_INT(
        core_queue_run(&queue, NA_LANES_ALL, 100, HG_CLOCK_NEVER), 3);
    HG_CHECK_EQ_INT(entries[4].ran_as, 5); /* the lower lane first */
    HG_CHECK_EQ_INT(entries[0].ran_as, 6);
    HG_CHECK_EQ_INT(entries[3].ran_as, 7);
    HG_CHECK_EQ_INT(na_queue_count(&queue, ~0u), 0);
    HG_CHECK_RET(core_queue_wait(&queue, NA_LANES_ALL, 2), NA_TIMEOUT);
    na_queue_fini(&queue);
}

enum { CORE_PUSHES = 20000 };

static void *core_push_many(void *arg)
{
    struct core_entry *entries = (struct core_entry *) arg;
    unsigned i;

    for (i = 0; i < CORE_PUSHES; i++)
        locked_queue_push(entries[i].queue, NA_LANE_DONE, &entries[i].done);
    return NULL;
}

static void *core_push_one(void *arg)
{
    struct core_entry *entry = (struct core_entry *) arg;
    struct timespec nap = {0, 5000000};

    (void) nanosleep(&nap, NULL);
    locked_queue_push(entry->queue, NA_LANE_DONE, &entry->done);
    return NULL;
}

HG_TEST(queue_wakes_a_waiting_thread)
{
    struct core_entry *entries =
        (struct core_entry *) calloc(CORE_PUSHES, sizeof(*entries));
    struct na_queue queue;
    pthread_t thread;
    unsigned counter = 0, i;

    HG_CHECK(entries != NULL);
    HG_CHECK_OK(na_queue_init(&queue, &core_queue_lock));
    for (i = 0; i < CORE_PUSHES; i++) {
        entries[i].done.run = core_entry_run;
        entries[i].counter = &counter;
        entries[i].queue = &queue;
    }
    HG_CHECK(!pthread_create(&thread, NULL, core_push_many, entries));
    while (counter < CORE_PUSHES) {
        HG_CHECK_OK(core_queue_wait(&queue, NA_LANES_DONE, 10000));
        (void) core_queue_run(&queue, NA_LANES_DONE, 3, HG_CLOCK_NEVER);
    }
    HG_CHECK(!pthread_join(thread, NULL));
    for (i = 0; i < CORE_PUSHES; i++)
        HG_CHECK_EQ_INT(entries[i].ran_as, i + 1);
    na_queue_fini(&queue);
    free(entries);
}

/* Runs the entries after it before it returns. */
static void core_entry_run_rest(struct na_completion *done)
{
    struct core_entry *entry = (struct core_entry *) (void *) done;

    entry->ran_as = ++*entry->counter;
    hg_leave(entry->queue->lock);
    HG_CHECK_EQ_INT(
        core_queue_run(entry->queue, NA_LANES_DONE, 100, HG_CLOCK_NEVER), 2);
    hg_enter(entry->queue->lock);
}

/* Entries that were pushed together are available to other threads one by
 * one. */
HG_TEST(queue_delivers_entries_while_another_one_runs)
{
    struct core_entry entries[3];
    struct na_queue queue;
    unsigned counter = 0, i;

    HG_CHECK_OK(na_queue_init(&queue, &core_queue_lock));
    memset(entries, 0, sizeof(entries));
    for (i = 0; i < 3; i++) {
        entries[i].done.run = i == 0 ? core_entry_run_rest : core_entry_run;
        entries[i].counter = &counter;
        entries[i].queue = &queue;
        locked_queue_push(&queue, NA_LANE_DONE, &entries[i].done);
    }
    HG_CHECK_EQ_INT(
        core_queue_run(&queue, NA_LANES_DONE, 100, HG_CLOCK_NEVER), 1);
    for (i = 0; i < 3; i++)
        HG_CHECK_EQ_INT(entries[i].ran_as, i + 1);
    na_queue_fini(&queue);
}

/* Two threads push at once: the entries of each keep their order, and all
 * arrive. */
HG_TEST(queue_keeps_the_order_of_each_producer)
{
    struct core_entry *entries =
        (struct core_entry *) calloc(2 * CORE_PUSHES, sizeof(*entries));
    struct na_queue queue;
    pthread_t threads[2];
    unsigned counter = 0, i;

    HG_CHECK(entries != NULL);
    HG_CHECK_OK(na_queue_init(&queue, &core_queue_lock));
    for (i = 0; i < 2 * CORE_PUSHES; i++) {
        entries[i].done.run = core_entry_run;
        entries[i].counter = &counter;
        entries[i].queue = &queue;
    }
    for (i = 0; i < 2; i++)
        HG_CHECK(!pthread_create(&threads[i], NULL, core_push_many,
            &entries[(size_t) i * CORE_PUSHES]));
    while (counter < 2 * CORE_PUSHES) {
        HG_CHECK_OK(core_queue_wait(&queue, NA_LANES_DONE, 10000));
        (void) core_queue_run(&queue, NA_LANES_DONE, 3, HG_CLOCK_NEVER);
    }
    for (i = 0; i < 2; i++)
        HG_CHECK(!pthread_join(threads[i], NULL));
    for (i = 1; i < 2 * CORE_PUSHES; i++) {
        if (i != CORE_PUSHES)
            HG_CHECK(entries[i].ran_as > entries[i - 1].ran_as);
    }
    HG_CHECK_EQ_INT(na_queue_count(&queue, ~0u), 0);
    na_queue_fini(&queue);
    free(entries);
}

/* Without a descriptor to sleep on, a wait checks again and again. */
HG_TEST(queue_waits_without_descriptors)
{
    struct rlimit limit;
    struct rlimit none;
    struct core_entry entry;
    struct na_queue queue;
    pthread_t thread;
    unsigned counter = 0;

    HG_CHECK_OK(na_queue_init(&queue, &core_queue_lock));
    HG_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    none = limit;
    none.rlim_cur = 0;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    HG_CHECK_RET(core_queue_wait(&queue, NA_LANES_ALL, 5), NA_TIMEOUT);
    HG_CHECK(hg_list_is_empty(&queue.sleepers));
    memset(&entry, 0, sizeof(entry));
    entry.done.run = core_entry_run;
    entry.counter = &counter;
    entry.queue = &queue;
    HG_CHECK(!pthread_create(&thread, NULL, core_push_one, &entry));
    HG_CHECK_OK(core_queue_wait(&queue, NA_LANES_DONE, 10000));
    HG_CHECK(!pthread_join(thread, NULL));
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    HG_CHECK_EQ_INT(
        core_queue_run(&queue, NA_LANES_DONE, 3, HG_CLOCK_NEVER), 1);
    na_queue_fini(&queue);
}

/* ---- live ---- */

static _Alignas(16) unsigned char live_objects[NA_LIVE_MAX + 1][16];

static void live_add(unsigned i)
{
    HG_CHECK_OK(na_live_add(NA_LIVE_CONTEXT, live_objects[i]));
}

static void live_check(unsigned i, bool there)
{
    HG_CHECK(na_live_has(NA_LIVE_CONTEXT, live_objects[i]) == there);
    HG_CHECK(!na_live_has(NA_LIVE_CLASS, live_objects[i]));
}

/* Also after many were added and removed, which leaves marks. */
HG_TEST(live_objects_are_found_until_they_are_removed)
{
    uint32_t random = (uint32_t) hg_test_seed();
    bool there[64] = {false};
    unsigned i;

    HG_CHECK(!na_live_has(NA_LIVE_CONTEXT, NULL));
    /* A pointer read from freed memory. */
    HG_CHECK(!na_live_has(NA_LIVE_CONTEXT, (const char *) live_objects[0] + 1));
    for (i = 0; i < 4 * NA_LIVE_MAX; i++) {
        unsigned one;

        random = random * 1664525u + 1013904223u;
        one = (random >> 16) % 64;
        if (there[one])
            na_live_remove(NA_LIVE_CONTEXT, live_objects[one]);
        else
            live_add(one);
        there[one] = !there[one];
        live_check(one, there[one]);
        live_check((one + 1) % 64, there[(one + 1) % 64]);
    }
    for (i = 0; i < 64; i++) {
        live_check(i, there[i]);
        if (there[i])
            na_live_remove(NA_LIVE_CONTEXT, live_objects[i]);
    }
}

HG_TEST(live_objects_are_limited_and_slots_reused)
{
    unsigned i;

    for (i = 0; i < NA_LIVE_MAX; i++)
        live_add(i);
    live_check(NA_LIVE_MAX, false);
    hg_test_expect_log("no more than 4096 classes and contexts");
    HG_CHECK_RET(
        na_live_add(NA_LIVE_CONTEXT, live_objects[NA_LIVE_MAX]), NA_AGAIN);
    HG_CHECK(NA_Initialize("self://", NA_FALSE) == NULL);
    na_live_remove(NA_LIVE_CONTEXT, live_objects[7]);
    live_check(7, false);
    live_add(NA_LIVE_MAX);
    for (i = 0; i <= NA_LIVE_MAX; i++) {
        live_check(i, i != 7);
        if (i != 7)
            na_live_remove(NA_LIVE_CONTEXT, live_objects[i]);
        live_check(i, false);
    }
}

HG_TEST(live_table_recognizes_finalized_classes)
{
    na_class_t *gone = NA_Initialize("self://", NA_FALSE);

    HG_CHECK(gone != NULL);
    HG_CHECK_OK(NA_Finalize(gone));
    hg_test_expect_log("NA_Finalize: no such class is open");
    HG_CHECK_RET(NA_Finalize(gone), NA_INVALID_ARG);
}

/* A class that a layer uses is not finalized. */
HG_TEST(live_class_in_use_by_a_layer_is_not_finalized)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);

    HG_CHECK(na_class != NULL);
    na_live_hold(na_class);
    na_live_hold(na_class);
    na_live_release(na_class);
    hg_test_expect_log("HG_Finalize (or HG_Bulk_finalize) has not been called");
    HG_CHECK_RET(NA_Finalize(na_class), NA_BUSY);
    na_live_release(na_class);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* ---- op ---- */

static na_return_t core_op_ended(const struct na_cb_info *info)
{
    ++*(unsigned *) info->arg;
    return NA_SUCCESS;
}

HG_TEST(op_ids_are_unique)
{
    enum { COUNT = 1000 };
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    na_context_t *context = NA_Context_create(na_class);
    struct na_context_core *core = na_context_core_of(context);
    static struct na_op_core *ops[COUNT];
    static na_op_id_t ids[COUNT];
    unsigned ended = 0, i, j;

    for (i = 0; i < COUNT; i++) {
        ops[i] = locked_op_get(context, NA_CB_SEND_EXPECTED, NA_LANE_DONE,
            i % 2 == 0 ? core_op_ended : NULL, &ended, &ids[i]);
        HG_CHECK(ops[i] != NULL && ids[i] == na_op_public_id(ops[i]));
        HG_CHECK(ids[i] != NA_OP_ID_NULL);
        for (j = 0; j < i; j += 37)
            HG_CHECK(ids[j] != ids[i]);
    }
    na_context_enter(core);
    HG_CHECK_EQ_INT(na_op_table_pending(core), COUNT);
    for (i = 0; i < COUNT; i++) {
        HG_CHECK(na_op_find(core, ids[i]) == ops[i]);
        locked_complete(&ops[i]->pub, NA_SUCCESS);
        HG_CHECK(na_op_find(core, ids[i]) == NULL);
    }
    HG_CHECK_EQ_INT(na_op_table_pending(core), 0);
    na_context_leave(core);
    HG_CHECK_EQ_INT(ended, 0);
    HG_CHECK_EQ_INT(
        core_queue_run(&core->queue, NA_LANES_ALL, UINT_MAX, HG_CLOCK_NEVER),
        500);
    HG_CHECK_EQ_INT(ended, 500);
    for (i = 0; i < COUNT; i++) {
        struct na_op_core *op = locked_op_get(context, NA_CB_SEND_EXPECTED,
            NA_LANE_DONE, NULL, NULL, NA_OP_ID_IGNORE);

        na_context_enter(core);
        HG_CHECK(op != NULL && na_op_find(core, ids[i]) == NULL);
        locked_op_put(op); /* never started */
        na_context_leave(core);
    }
    HG_CHECK_EQ_INT(core->op_count, COUNT); /* reused, no more */
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* ---- addr ---- */

HG_TEST(addr_names_and_deaths_are_reported_once)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    na_context_t *context = NA_Context_create(na_class);
    struct na_addr *peer = na_addr_create(na_class, NULL, NA_FALSE);
    struct na_addr *twin = na_addr_create(na_class, "self://b", NA_FALSE);
    char text[NA_MAX_ADDR_LEN];
    char got[8];
    unsigned ended = 0, count;

    HG_CHECK(peer != NULL && twin != NULL);
    HG_CHECK_OK(NA_Addr_to_string(na_class, text, sizeof(text), peer));
    HG_CHECK(!strncmp(text, "self+self://peer-", 17));
    HG_CHECK(!na_addr_same(peer, twin));
    HG_CHECK_OK(na_addr_set_name(peer, "self://b"));
    HG_CHECK_OK(na_addr_set_name(peer, "self://c")); /* the first name stays */
    HG_CHECK_EQ_STR(peer->name, "self://b");
    HG_CHECK(na_addr_same(peer, twin));
    /* Messages that arrived before its death can be received; later ones
     * cannot. */
    HG_CHECK_OK(
        locked_arrived(na_class, peer, NA_MSG_EXPECTED, 0, 5, "hello", 6));
    HG_CHECK_OK(NA_Msg_recv_expected(na_class, context, core_op_ended, &ended,
        got, sizeof(got), peer, 6, NA_OP_ID_IGNORE));
    locked_addr_abandon(
        peer); /* a transport without its own function for that */
    locked_addr_dead(peer, NA_HOSTUNREACH);
    HG_CHECK(na_addr_is_dead(peer) == NA_TRUE);
    locked_addr_abandon(na_class->self_addr);
    HG_CHECK(na_addr_is_dead(na_class->self_addr) == NA_FALSE);
    HG_CHECK_RET(na_addr_state(peer), NA_DISCONNECT);
    HG_CHECK_OK(NA_Trigger(context, 0, 9, &count));
    HG_CHECK_EQ_INT(count, 1);
    HG_CHECK_OK(NA_Msg_recv_expected(na_class, context, core_op_ended, &ended,
        got, sizeof(got), peer, 5, NA_OP_ID_IGNORE));
    HG_CHECK_OK(NA_Trigger(context, 0, 9, &count));
    HG_CHECK_EQ_STR(got, "hello");
    HG_CHECK_EQ_INT(ended, 2);
    hg_test_expect_log("NA_Msg_recv_expected: the peer self://b is dead");
    HG_CHECK_RET(NA_Msg_recv_expected(na_class, context, core_op_ended, &ended,
                     got, sizeof(got), peer, 5, NA_OP_ID_IGNORE),
        NA_DISCONNECT);
    hg_test_expect_log("the peer self://b is dead");
    HG_CHECK_RET(NA_Msg_send_expected(na_class, context, core_op_ended, &ended,
                     got, sizeof(got), peer, 5, NA_OP_ID_IGNORE),
        NA_DISCONNECT);
    na_addr_unref(peer);
    na_addr_unref(twin);
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

static na_bool_t core_proves_nothing(
    const struct na_addr *addr1, const struct na_addr *addr2)
{
    (void) addr1;
    (void) addr2;
    return NA_FALSE;
}

/* Until a transport knows a peer's identity, names are compared. Another
 * process may have a dead peer's name. */
HG_TEST(addr_names_compare_living_peers_only)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    struct na_addr *peer, *twin, *other;

    HG_CHECK(na_class != NULL);
    na_class_core_of(na_class)->ops.addr_cmp = core_proves_nothing;
    peer = na_addr_create(na_class, "self://b", NA_FALSE);
    twin = na_addr_create(na_class, "self://b", NA_FALSE);
    other = na_addr_create(na_class, "self://c", NA_FALSE);
    HG_CHECK(peer != NULL && twin != NULL && other != NULL);
    HG_CHECK(NA_Addr_cmp(na_class, peer, twin) == NA_TRUE);
    HG_CHECK(NA_Addr_cmp(na_class, peer, other) == NA_FALSE);
    locked_addr_dead(peer, NA_DISCONNECT);
    HG_CHECK(NA_Addr_cmp(na_class, peer, twin) == NA_FALSE);
    HG_CHECK(NA_Addr_cmp(na_class, twin, peer) == NA_FALSE);
    HG_CHECK(NA_Addr_cmp(na_class, peer, peer) == NA_TRUE);
    na_addr_unref(peer);
    na_addr_unref(twin);
    na_addr_unref(other);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* Of a class of two parts that does not listen: the list of both names, if it
 * fits. */
HG_TEST(reachable_name_is_complete_or_empty)
{
    static const size_t sizes[] = {127, 128, 129}; /* of the second one */
    struct na_class_core *parts[2];
    const char *names[2];
    char first[128], second[130], name[NA_MAX_ADDR_LEN];
    unsigned i;

    for (i = 0; i < 2; i++) {
        parts[i] = na_class_core_of(NA_Initialize("self://", NA_FALSE));
        parts[i]->pub.finds_callers = NA_TRUE;
        names[i] = parts[i]->pub.self_addr->name;
    }
    parts[0]->next = parts[1];
    memset(first, 'a', sizeof(first));
    first[127] = '\0';
    parts[0]->pub.self_addr->name = first;
    parts[1]->pub.self_addr->name = second;
    for (i = 0; i < 3; i++) {
        memset(second, 'b', sizeof(second));
        second[sizes[i]] = '\0';
        na_addr_write_reachable(&parts[0]->pub, name);
        if (i == 0)
            HG_CHECK_EQ_U64(strlen(name), NA_MAX_ADDR_LEN - 1);
        else
            HG_CHECK_EQ_STR(name, "");
    }
    parts[0]->next = NULL;
    for (i = 0; i < 2; i++) {
        parts[i]->pub.self_addr->name = names[i];
        HG_CHECK_OK(NA_Finalize(&parts[i]->pub));
    }
}

/* A peer sends messages that are expected from another one, before the receive
 * is posted and after: the receive accepts only the other one's message. */
HG_TEST(expected_messages_of_other_peers_are_not_received)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    na_context_t *context = NA_Context_create(na_class);
    struct na_addr *good = na_addr_create(na_class, "self://good", NA_FALSE);
    struct na_addr *other = na_addr_create(na_class, "self://other", NA_FALSE);
    unsigned ended = 0;
    na_tag_t tag;
    char got[8];

    HG_CHECK(context != NULL && good != NULL && other != NULL);
    for (tag = 1; tag <= 2; tag++) {
        if (tag == 1)
            HG_CHECK_OK(locked_arrived(
                na_class, other, NA_MSG_EXPECTED, 0, tag, "other", 6));
        HG_CHECK_OK(NA_Msg_recv_expected(na_class, context, core_op_ended,
            &ended, got, sizeof(got), good, tag, NA_OP_ID_IGNORE));
        if (tag == 2)
            HG_CHECK_OK(locked_arrived(
                na_class, other, NA_MSG_EXPECTED, 0, tag, "other", 6));
        HG_CHECK_RET(NA_Trigger(context, 0, 1, NULL), NA_TIMEOUT);
        HG_CHECK_OK(
            locked_arrived(na_class, good, NA_MSG_EXPECTED, 0, tag, "good", 5));
        HG_CHECK_OK(NA_Trigger(context, 0, 1, NULL));
        HG_CHECK_EQ_STR(got, "good");
        HG_CHECK_OK(NA_Msg_recv_expected(na_class, context, core_op_ended,
            &ended, got, sizeof(got), other, tag, NA_OP_ID_IGNORE));
        HG_CHECK_OK(NA_Trigger(context, 0, 1, NULL));
        HG_CHECK_EQ_STR(got, "other");
    }
    HG_CHECK_EQ_INT(ended, 4);
    na_addr_unref(good);
    na_addr_unref(other);
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* A transport connects the address `named`, whose peer sends from the address
 * `source`. */
struct core_dial {
    na_class_t *na_class;
    na_context_t *context;
    struct na_addr *named, *source;
    unsigned ended;
};

static bool core_is_known; /* that `source` is the peer of `named` */
static unsigned core_dials;

static na_bool_t core_knows(
    const struct na_addr *addr1, const struct na_addr *addr2)
{
    (void) addr1;
    (void) addr2;
    return core_is_known ? NA_TRUE : NA_FALSE;
}

static na_bool_t core_connect(struct na_addr *addr)
{
    (void) addr;
    core_dials++;
    return NA_TRUE;
}

static void core_dial_open(struct core_dial *dial)
{
    memset(dial, 0, sizeof(*dial));
    dial->na_class = NA_Initialize("self://", NA_TRUE);
    dial->context = NA_Context_create(dial->na_class);
    dial->named = na_addr_create(dial->na_class, "self://named", NA_FALSE);
    dial->source = na_addr_create(dial->na_class, "self://source", NA_FALSE);
    HG_CHECK(dial->context != NULL);
    HG_CHECK(dial->named != NULL && dial->source != NULL);
    na_class_core_of(dial->na_class)->ops.addr_cmp = core_knows;
    na_class_core_of(dial->na_class)->ops.addr_connect = core_connect;
    core_is_known = false;
    core_dials = 0;
}

static void core_dial_close(struct core_dial *dial)
{
    na_addr_unref(dial->named);
    na_addr_unref(dial->source);
    HG_CHECK_OK(NA_Context_destroy(dial->na_class, dial->context));
    HG_CHECK_OK(NA_Finalize(dial->na_class));
}

static void core_dial_receive(struct core_dial *dial, char got[8])
{
    HG_CHECK_OK(NA_Msg_recv_expected(dial->na_class, dial->context,
        core_op_ended, &dial->ended, got, 8, dial->named, 1, NA_OP_ID_IGNORE));
}

static void core_dial_send(struct core_dial *dial, const char *text)
{
    HG_CHECK_OK(locked_arrived(dial->na_class, dial->source, NA_MSG_EXPECTED, 0,
        1, text, strlen(text) + 1));
}

static void core_dial_check(
    struct core_dial *dial, const char *got, const char *text)
{
    HG_CHECK_OK(NA_Trigger(dial->context, 0, 1, NULL));
    HG_CHECK_EQ_STR(got, text);
}

/* Another thread delivers the second message when the transport has made the
 * connection, but not reported it yet. */
HG_TEST(messages_keep_their_order_while_their_address_is_connected)
{
    struct core_dial dial;
    char got[2][8];

    core_dial_open(&dial);
    core_dial_receive(&dial, got[0]);
    core_dial_send(&dial, "one");
    core_is_known = true;
    core_dial_send(&dial, "two");
    HG_CHECK_RET(NA_Trigger(dial.context, 0, 1, NULL), NA_TIMEOUT);
    locked_addr_connected(dial.named, NA_SUCCESS);
    core_dial_check(&dial, got[0], "one");
    core_dial_receive(&dial, got[1]);
    core_dial_check(&dial, got[1], "two");
    core_dial_close(&dial);
}

/* A message came during the attempt: its sender has started by now. */
HG_TEST(attempt_to_connect_is_repeated_if_a_message_came)
{
    struct core_dial dial;
    char got[8];

    core_dial_open(&dial);
    core_dial_receive(&dial, got);
    locked_addr_connected(dial.named, NA_HOSTUNREACH);
    HG_CHECK_EQ_INT(core_dials, 1);
    core_dial_send(&dial, "one");
    HG_CHECK_EQ_INT(core_dials, 2);
    locked_addr_connected(dial.named, NA_HOSTUNREACH);
    HG_CHECK_EQ_INT(core_dials, 3);
    core_is_known = true;
    locked_addr_connected(dial.named, NA_SUCCESS);
    core_dial_check(&dial, got, "one");
    core_dial_close(&dial);
}

HG_TEST(attempt_to_connect_ends_with_a_send_that_fails)
{
    struct core_dial dial;
    char got[8];

    core_dial_open(&dial);
    core_dial_receive(&dial, got);
    locked_addr_unreached(dial.named, NA_HOSTUNREACH);
    HG_CHECK_OK(NA_Trigger(dial.context, 0, 1, NULL));
    core_is_known = true;
    core_dial_receive(&dial, got);
    HG_CHECK_EQ_INT(core_dials, 1);
    core_dial_send(&dial, "one");
    core_dial_check(&dial, got, "one");
    core_dial_close(&dial);
}

/* Twice the limit exceeds the largest number. */
HG_TEST(messages_are_kept_within_the_largest_limits)
{
    static const size_t limits[] = {SIZE_MAX / 2 + 1, SIZE_MAX};
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;
    size_t i;

    for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        info.max_queue_bytes = limits[i];
        na_class = NA_Initialize_opt("self://", NA_TRUE, &info);
        HG_CHECK(na_class != NULL);
        HG_CHECK_OK(locked_arrived(
            na_class, na_class->self_addr, NA_MSG_UNEXPECTED, 0, 1, "x", 1));
        HG_CHECK_EQ_U64(NA_Get_counter(na_class, "msg_dropped"), 0);
        HG_CHECK_OK(NA_Finalize(na_class));
    }
}

/* How many messages of one byte the class accepts from this peer now, up to a
 * number: calls, and with `kept` unexpected messages, which are kept for a
 * receive. */
static unsigned core_fill(
    na_class_t *na_class, struct na_addr *source, bool kept, unsigned most)
{
    unsigned n = 0;

    while (n < most &&
        locked_arrived(na_class, source, kept ? NA_MSG_UNEXPECTED : NA_MSG_RPC,
            0, n, "x", 1) == NA_SUCCESS)
        n++;
    return n;
}

static na_class_t *core_open_short(void)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;

    info.max_queue_bytes = 4096;
    na_class = NA_Initialize_opt("self://", NA_TRUE, &info);
    HG_CHECK(na_class != NULL);
    return na_class;
}

HG_TEST(messages_of_a_dead_peer_free_their_quota)
{
    na_class_t *na_class = core_open_short();
    struct na_addr *dead, *alive, *late;
    unsigned all, half;

    dead = na_addr_create(na_class, "self://dead", NA_FALSE);
    alive = na_addr_create(na_class, "self://alive", NA_FALSE);
    late = na_addr_create(na_class, "self://late", NA_FALSE);
    HG_CHECK(dead != NULL && alive != NULL && late != NULL);
    all = core_fill(na_class, dead, false, UINT_MAX);
    HG_CHECK(all > 10);
    half = core_fill(na_class, alive, true, UINT_MAX); /* it has its quota */
    HG_CHECK(half >= all / 2 - 1 && half <= all / 2 + 1);
    locked_addr_dead(dead, NA_DISCONNECT);
    HG_CHECK_EQ_INT(core_fill(na_class, alive, true, UINT_MAX), all - half);
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "msg_dropped"), all);
    HG_CHECK_EQ_INT(atomic_load(&na_addr_core_of(dead)->refs), 1);
    na_addr_unref(dead);
    /* Messages that arrive after their sender's death are the first to be
     * dropped, too. */
    locked_addr_dead(late, NA_DISCONNECT);
    HG_CHECK_EQ_INT(core_fill(na_class, late, false, 3), 3);
    HG_CHECK_RET(
        locked_arrived(na_class, alive, NA_MSG_UNEXPECTED, 0, 1, "x", 1),
        NA_AGAIN);
    HG_CHECK_EQ_INT(atomic_load(&na_addr_core_of(late)->refs), 1);
    na_addr_unref(late);
    na_addr_unref(alive); /* its messages hold it until the class closes */
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* A receive may still come: of unexpected messages any, of expected ones one
 * from an address that the application has. */
HG_TEST(messages_of_a_dead_peer_that_can_be_received_stay)
{
    na_class_t *na_class = core_open_short();
    na_context_t *context = NA_Context_create(na_class);
    struct na_addr *dead, *alive;
    char got[2][8];

    dead = na_addr_create(na_class, "self://dead", NA_FALSE);
    alive = na_addr_create(na_class, "self://alive", NA_FALSE);
    HG_CHECK(context != NULL && dead != NULL && alive != NULL);
    na_addr_ref(dead);
    na_addr_give(dead); /* to the application */
    HG_CHECK_OK(NA_Msg_recv_unexpected(
        na_class, context, NULL, NULL, got[1], 8, NA_OP_ID_IGNORE));
    HG_CHECK_OK(
        locked_arrived(na_class, alive, NA_MSG_UNEXPECTED, 0, 1, "a", 2));
    HG_CHECK_EQ_STR(got[1], "a");
    HG_CHECK_OK(locked_arrived(na_class, dead, NA_MSG_EXPECTED, 0, 1, "e", 2));
    HG_CHECK_OK(locked_arrived(na_class, dead, NA_MSG_EXPECTED, 0, 2, "f", 2));
    HG_CHECK_OK(
        locked_arrived(na_class, dead, NA_MSG_UNEXPECTED, 0, 1, "u", 2));
    locked_addr_dead(dead, NA_DISCONNECT);
    HG_CHECK(core_fill(na_class, alive, true, UINT_MAX) > 10);
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "msg_dropped"), 0);
    HG_CHECK_OK(NA_Msg_recv_expected(
        na_class, context, NULL, NULL, got[0], 8, dead, 1, NA_OP_ID_IGNORE));
    HG_CHECK_OK(NA_Msg_recv_unexpected(
        na_class, context, NULL, NULL, got[1], 8, NA_OP_ID_IGNORE));
    HG_CHECK_EQ_STR(got[0], "e");
    HG_CHECK_EQ_STR(got[1], "u");
    /* Without an address, nothing can receive the other one. */
    (void) NA_Progress(na_class, context, 0);
    (void) core_fill(na_class, alive, true, UINT_MAX);
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "msg_dropped"), 0);
    HG_CHECK(!na_class_core_of(na_class)->inbox.retry);
    HG_CHECK_OK(NA_Addr_free(na_class, dead));
    HG_CHECK(na_class_core_of(na_class)->inbox.retry);
    HG_CHECK(core_fill(na_class, alive, true, UINT_MAX) > 0);
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "msg_dropped"), 1);
    na_addr_unref(dead);
    na_addr_unref(alive);
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* Else strangers could fill the queue of a class that nobody reads, for good.
 */
HG_TEST(unexpected_messages_of_a_dead_peer_go_if_nobody_receives_such)
{
    na_class_t *na_class = core_open_short();
    struct na_addr *dead = na_addr_create(na_class, "self://dead", NA_FALSE);
    struct na_addr *alive = na_addr_create(na_class, "self://alive", NA_FALSE);

    HG_CHECK(dead != NULL && alive != NULL);
    HG_CHECK_OK(
        locked_arrived(na_class, dead, NA_MSG_UNEXPECTED, 0, 1, "u", 2));
    locked_addr_dead(dead, NA_DISCONNECT);
    HG_CHECK(core_fill(na_class, alive, true, UINT_MAX) > 10);
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "msg_dropped"), 1);
    na_addr_unref(dead);
    na_addr_unref(alive);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* Messages of connections that have ended exceed their senders' shares, up to a
 * limit for all. */
HG_TEST(last_messages_are_kept_past_the_quota)
{
    enum { SIZE = 1 << 20 };
    static char bytes[SIZE];
    na_class_t *na_class = core_open_short();
    struct na_addr *ended = na_addr_create(na_class, "self://ended", NA_FALSE);
    unsigned i;

    HG_CHECK(ended != NULL);
    (void) core_fill(na_class, ended, true, UINT_MAX);
    for (i = 0; i < 63; i++)
        HG_CHECK_OK(
            locked_last(na_class, ended, NA_MSG_UNEXPECTED, 0, 1, bytes, SIZE));
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "msg_dropped"), 0);
    for (i = 0; i < 3; i++)
        HG_CHECK_OK(
            locked_last(na_class, ended, NA_MSG_UNEXPECTED, 0, 1, bytes, SIZE));
    HG_CHECK(NA_Get_counter(na_class, "msg_dropped") >= 2);
    na_addr_unref(ended);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* A refusal must not walk all queued messages: that would take minutes here. */
HG_TEST_SECONDS(flood_is_refused_in_constant_time, 10)
{
    enum { KEPT = 30000, REFUSED = 300000 };
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;
    struct na_addr *flood;
    unsigned i, kept;

    info.max_queue_bytes = (size_t) KEPT * 100;
    na_class = NA_Initialize_opt("self://", NA_TRUE, &info);
    HG_CHECK(na_class != NULL);
    flood = na_addr_create(na_class, "self://flood", NA_FALSE);
    HG_CHECK(flood != NULL);
    kept = core_fill(na_class, flood, true, UINT_MAX);
    HG_CHECK(kept >= KEPT && kept < 2 * KEPT);
    for (i = 0; i < REFUSED; i++)
        HG_CHECK_RET(
            locked_arrived(na_class, flood, NA_MSG_UNEXPECTED, 0, 1, "x", 1),
            NA_AGAIN);
    HG_CHECK_OK(
        locked_arrived(na_class, na_class->self_addr, NA_MSG_RPC, 0, 1, "", 0));
    na_addr_unref(flood);
    HG_CHECK_OK(NA_Finalize(na_class));
}

static void core_count_lines(
    int level, const char *subsys, const char *line, void *arg)
{
    (void) subsys;
    if (level == HG_LOG_LEVEL_WARNING && strstr(line, "dropped a") != NULL)
        ++*(unsigned *) arg;
}

HG_TEST(drops_are_counted_and_logged_at_doublings)
{
    na_class_t *na_class;
    unsigned lines = 0, i;

    hg_test_alloc_install();
    na_class = NA_Initialize("self://", NA_TRUE);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(HG_Set_log_level("warning"));
    HG_Set_log_func(core_count_lines, &lines);
    for (i = 1; i <= 100; i++) {
        hg_test_alloc_fail_at(1);
        HG_CHECK_OK(locked_last(
            na_class, na_class->self_addr, NA_MSG_RPC, 0, i, "lost", 5));
    }
    hg_test_alloc_fail_at(0);
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "msg_dropped"), 100);
    HG_CHECK_EQ_INT(lines, 7); /* 1, 2, 4 ... 64 */
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(counters_past_the_limit_are_ignored)
{
    static char names[NA_CORE_COUNTERS + 2][16];
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    uint64_t value;
    unsigned before = 0;
    unsigned i;

    HG_CHECK(na_class != NULL);
    while (na_class_counter_at(na_class, before, &value) != NULL)
        before++;
    for (i = before; i < NA_CORE_COUNTERS + 2; i++) {
        (void) snprintf(names[i], sizeof(names[i]), "core_%u", i);
        na_class->core->count(na_class, names[i], i + 1);
        HG_CHECK_EQ_U64(NA_Get_counter(na_class, names[i]),
            i < NA_CORE_COUNTERS ? i + 1 : 0);
    }
    HG_CHECK(na_class_counter_at(na_class, NA_CORE_COUNTERS, &value) == NULL);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* A class that does not listen: the owner of bulk memory, whose name only peers
 * know, is a stranger until the application looks it up. */
HG_TEST(addr_that_only_peers_have_named_is_a_stranger)
{
    static const char *const names[] = {"loop://one", "loop://two"};
    na_class_t *client, *server[2];
    struct na_addr *addr, *same;
    unsigned i;

    loop_register();
    client = NA_Initialize("loop://client", NA_FALSE);
    HG_CHECK(client != NULL);
    for (i = 0; i < 2; i++) { /* both ways of a lookup */
        server[i] = NA_Initialize(names[i], NA_TRUE);
        HG_CHECK(server[i] != NULL);
        HG_CHECK_OK(na_lookup_resolve(client, names[i], NA_TRUE, &addr));
        HG_CHECK(addr->stranger);
        if (i == 0)
            HG_CHECK_OK(NA_Addr_resolve(client, names[i], &same));
        else
            HG_CHECK_OK(NA_Addr_lookup_wait(client, names[i], 1000, &same));
        HG_CHECK(same == addr && !addr->stranger);
        na_addr_unref(addr);
        HG_CHECK_OK(na_lookup_resolve(client, names[i], NA_TRUE, &addr));
        HG_CHECK(same == addr && !addr->stranger);
        na_addr_unref(addr);
        HG_CHECK_OK(NA_Addr_free(client, same));
    }
    HG_CHECK_OK(na_lookup_resolve(server[0], "loop://client", NA_TRUE, &addr));
    HG_CHECK(!addr->stranger); /* a listener has none */
    na_addr_unref(addr);
    locked_addr_set_named(client->self_addr, NA_TRUE);
    HG_CHECK(!client->self_addr->stranger);
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(NA_Finalize(server[i]));
    HG_CHECK_OK(NA_Finalize(client));
}

/* ---- sink ---- */

struct core_sink {
    na_context_t *context;
    uint8_t number;
    _Atomic bool begun;
    char heard[8];
    unsigned count;
};

static na_return_t core_receive(void *arg, struct na_addr *source, na_tag_t tag,
    const void *data, na_size_t size)
{
    struct core_sink *sink = (struct core_sink *) arg;

    (void) source;
    (void) tag;
    HG_CHECK(size == 1 && sink->count < sizeof(sink->heard));
    sink->heard[sink->count++] = *(const char *) data;
    return NA_SUCCESS;
}

static void *core_listen(void *arg)
{
    struct core_sink *sink = (struct core_sink *) arg;

    atomic_store(&sink->begun, true);
    HG_CHECK_OK(na_sink_open(sink->context->na_class, NA_SINK_ANY, core_receive,
        NULL, sink, &sink->number));
    return NULL;
}

static void *core_send_b(void *arg)
{
    struct core_sink *sink = (struct core_sink *) arg;
    na_class_t *na_class = sink->context->na_class;

    HG_CHECK_OK(locked_arrived(
        na_class, na_class->self_addr, NA_MSG_RPC, 0, 1, "b", 1));
    return NULL;
}

/* Including those that arrive while the sink is being set. */
HG_TEST(sink_receives_all_messages_in_order)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    struct core_sink sink;
    struct timespec nap = {0, 20000000};
    pthread_t listener, speaker;

    memset(&sink, 0, sizeof(sink));
    HG_CHECK(na_class != NULL);
    sink.context = NA_Context_create(na_class);
    HG_CHECK(sink.context != NULL);
    HG_CHECK_OK(locked_arrived(
        na_class, na_class->self_addr, NA_MSG_RPC, 0, 1, "a", 1));
    hg_enter(na_class_core_of(na_class)->lock);
    HG_CHECK(!pthread_create(&listener, NULL, core_listen, &sink));
    while (!atomic_load(&sink.begun))
        (void) sched_yield();
    (void) nanosleep(&nap, NULL); /* it waits for the lock */
    HG_CHECK(!pthread_create(&speaker, NULL, core_send_b, &sink));
    (void) nanosleep(&nap, NULL);
    hg_leave(na_class_core_of(na_class)->lock);
    HG_CHECK(!pthread_join(listener, NULL));
    HG_CHECK(!pthread_join(speaker, NULL));
    HG_CHECK_OK(locked_arrived(
        na_class, na_class->self_addr, NA_MSG_RPC, 0, 1, "c", 1));
    HG_CHECK_EQ_STR(sink.heard, "abc");
    na_sink_close(na_class, sink.number);
    HG_CHECK_OK(NA_Context_destroy(na_class, sink.context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* Calls wait for the context that their sender names. */
HG_TEST(sink_receives_only_messages_for_its_id)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    struct core_sink sinks[2];
    uint8_t i;

    HG_CHECK(na_class != NULL);
    memset(sinks, 0, sizeof(sinks));
    for (i = 0; i < 2; i++) {
        char call = (char) ('a' + i);

        HG_CHECK_OK(locked_arrived(na_class, na_class->self_addr, NA_MSG_RPC,
            (uint8_t) (7 + i), 1, &call, 1));
    }
    for (i = 0; i < 2; i++) {
        sinks[i].context = NA_Context_create(na_class);
        HG_CHECK(sinks[i].context != NULL);
        HG_CHECK_OK(na_sink_open(
            na_class, 7 + i, core_receive, NULL, &sinks[i], &sinks[i].number));
        HG_CHECK_EQ_STR(sinks[i].heard, i == 0 ? "a" : "b");
    }
    for (i = 0; i < 2; i++) {
        HG_CHECK_EQ_INT(sinks[i].count, 1);
        na_sink_close(na_class, sinks[i].number);
        HG_CHECK_OK(NA_Context_destroy(na_class, sinks[i].context));
    }
    HG_CHECK_OK(NA_Finalize(na_class));
}

static struct na_addr *core_abandoned;

static void core_abandon(struct na_addr *addr)
{
    core_abandoned = addr;
    locked_addr_dead(addr, NA_DISCONNECT);
}

struct core_refusing {
    unsigned calls;
    struct core_sink sink;
};

static na_return_t core_lacks_memory(void *arg, struct na_addr *source,
    na_tag_t tag, const void *data, na_size_t size)
{
    struct core_refusing *refusing = (struct core_refusing *) arg;

    return ++refusing->calls == 2
        ? NA_NOMEM
        : core_receive(&refusing->sink, source, tag, data, size);
}

/* The sender of a call that is lost learns that by the end of its connection.
 * Other calls are delivered. */
HG_TEST(call_that_a_new_sink_refuses_ends_its_connection)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    struct na_class_core *core = na_class_core_of(na_class);
    struct core_refusing refusing;
    struct na_addr *peers[2];
    uint8_t number;
    unsigned i;

    HG_CHECK(na_class != NULL);
    memset(&refusing, 0, sizeof(refusing));
    core->ops.addr_abandon = core_abandon;
    for (i = 0; i < 2; i++)
        peers[i] = na_addr_create(na_class, "self://peer", NA_FALSE);
    for (i = 0; i < 4; i++)
        HG_CHECK_OK(locked_arrived(
            na_class, peers[i == 1], NA_MSG_RPC, 7, 1, &"abcd"[i], 1));
    HG_CHECK_OK(
        na_sink_open(na_class, 7, core_lacks_memory, NULL, &refusing, &number));
    HG_CHECK_EQ_STR(refusing.sink.heard, "acd");
    HG_CHECK(core_abandoned == peers[1]);
    HG_CHECK(na_addr_is_dead(peers[1]) && !na_addr_is_dead(peers[0]));
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "msg_dropped"), 1);
    HG_CHECK_EQ_U64(core->inbox.queued_bytes, 0);
    na_sink_close(na_class, number);
    for (i = 0; i < 2; i++)
        na_addr_unref(peers[i]);
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(messages_without_memory_are_kept_by_the_transport)
{
    na_class_t *na_class;

    hg_test_alloc_install();
    na_class = NA_Initialize("self://", NA_TRUE);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(locked_arrived(
        na_class, na_class->self_addr, NA_MSG_UNEXPECTED, 0, 1, "kept", 5));
    hg_test_alloc_fail_at(1);
    HG_CHECK_RET(locked_arrived(na_class, na_class->self_addr,
                     NA_MSG_UNEXPECTED, 0, 2, "kept", 5),
        NA_AGAIN);
    hg_test_alloc_fail_at(1);
    HG_CHECK_RET(locked_arrived(na_class, na_class->self_addr, NA_MSG_EXPECTED,
                     0, 3, "kept", 5),
        NA_AGAIN);
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "msg_dropped"), 0);
    hg_test_alloc_fail_at(1);
    HG_CHECK_OK(locked_last(
        na_class, na_class->self_addr, NA_MSG_UNEXPECTED, 0, 2, "lost", 5));
    hg_test_alloc_fail_at(0);
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "msg_dropped"), 1);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* A layer above NA unmaps its own pointers. */
HG_TEST(pointer_of_another_layer_is_not_unmapped)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    static char memory[8];
    int layer;

    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(na_shared_lend(na_class, memory, &layer));
    hg_test_expect_log("it is no pointer of NA_Mem_map");
    HG_CHECK_RET(NA_Mem_unmap(na_class, memory), NA_INVALID_ARG);
    HG_CHECK_RET(na_shared_unmap(na_class, memory, &memory), NA_NOENTRY);
    HG_CHECK_OK(na_shared_unmap(na_class, memory, &layer));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* ---- plugins ---- */

HG_TEST(plugins_are_checked_and_completed)
{
    struct na_plugin bad, filled;

    bad = *na_self_table();
    bad.abi++;
    hg_test_expect_log("NA_Register_plugin: not a table of this version");
    HG_CHECK_RET(NA_Register_plugin(NULL), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Register_plugin(&bad), NA_INVALID_ARG);
    bad = *na_self_table();
    bad.size = 16;
    HG_CHECK_RET(NA_Register_plugin(&bad), NA_INVALID_ARG);
    bad = *na_self_table();
    bad.poll = NULL;
    HG_CHECK_RET(NA_Register_plugin(&bad), NA_INVALID_ARG);
    bad = *na_self_table();
    bad.put = na_emul_put;
    HG_CHECK_RET(NA_Register_plugin(&bad), NA_INVALID_ARG);
    bad.get = na_emul_get;
    HG_CHECK_RET(NA_Register_plugin(&bad), NA_INVALID_ARG);
    /* An old table ends early; nothing past its end is read. */
    bad = *na_self_table();
    bad.size = offsetof(struct na_plugin, poll_fd);
    na_plugins_fill(&bad, &filled);
    HG_CHECK(filled.poll == bad.poll && filled.poll_fd != bad.poll_fd);
    HG_CHECK(filled.cancel != NULL && filled.cancel != bad.cancel);
    bad.size = offsetof(struct na_plugin, list_devices);
    bad.addr_resolve = NULL;
    HG_CHECK_RET(NA_Register_plugin(&bad), NA_INVALID_ARG);
}

enum { PLUGINS_EACH = NA_PLUGINS_MAX / 2 };

static struct na_plugin plugins_many[NA_PLUGINS_MAX];
static _Atomic unsigned plugins_begun;

static void *plugins_register(void *arg)
{
    struct na_plugin *table = (struct na_plugin *) arg;
    unsigned i;

    atomic_fetch_add(&plugins_begun, 1);
    while (atomic_load(&plugins_begun) < 2)
        (void) sched_yield();
    for (i = 0; i < PLUGINS_EACH; i++) {
        table[i] = *na_self_table();
        HG_CHECK_OK(NA_Register_plugin(&table[i]));
        HG_CHECK(na_plugins_get(i) != NULL);
    }
    return NULL;
}

HG_TEST(plugins_of_two_threads_are_all_registered)
{
    pthread_t thread;
    unsigned i, j;

    HG_CHECK(
        pthread_create(&thread, NULL, plugins_register, plugins_many) == 0);
    (void) plugins_register(plugins_many + PLUGINS_EACH);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    for (i = 0; i < NA_PLUGINS_MAX; i++) {
        for (j = 0; na_plugins_get(j) != &plugins_many[i]; j++)
            HG_CHECK(na_plugins_get(j) != NULL);
        HG_CHECK(j < NA_PLUGINS_MAX);
    }
    hg_test_expect_log("no more than 32 transports can be registered");
    HG_CHECK_RET(NA_Register_plugin(na_self_table()), NA_AGAIN);
}

HG_TEST(counters_have_names)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);

    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "a"), 0);
    na_class->core->count(na_class, "a", 2);
    na_class->core->count(na_class, "b", 5);
    na_class->core->count(na_class, "a", 1);
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "a"), 3);
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "b"), 5);
    hg_test_expect_log("NA_Get_counter: the class is NULL");
    HG_CHECK_EQ_U64(NA_Get_counter(NULL, "a"), 0);
    hg_test_expect_log("NA_Get_counter: the name is NULL");
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, NULL), 0);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* ---- The ids of sinks ---- */

static na_return_t core_count_rpc(void *arg, struct na_addr *source,
    na_tag_t tag, const void *data, na_size_t size)
{
    (void) source;
    (void) tag;
    (void) data;
    (void) size;
    ++*(unsigned *) arg;
    return NA_SUCCESS;
}

static void core_count_dead(void *arg, struct na_addr *addr, na_return_t ret)
{
    (void) addr;
    HG_CHECK_RET(ret, NA_DISCONNECT);
    *(unsigned *) arg += 100;
}

static na_return_t core_deliver(struct na_class_core *core,
    struct na_addr *source, uint8_t target, na_tag_t tag, const void *data,
    na_size_t size)
{
    na_return_t ret;

    hg_enter(core->lock);
    ret = na_sink_deliver(core, source, target, tag, data, size);
    hg_leave(core->lock);
    return ret;
}

/* A requested id is given once; unused ids between do not keep the others from
 * being notified of a death. */
HG_TEST(sinks_get_the_ids_they_ask_for)
{
    static const int wanted[3] = {NA_CORE_CONTEXTS - 1, 7, 0};
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    struct na_addr *peer = na_addr_create(na_class, "self://peer", NA_FALSE);
    struct na_class_core *core = na_class_core_of(na_class);
    unsigned got[4] = {0, 0, 0, 0};
    uint8_t number = 0;
    unsigned i;

    hg_test_expect_log("accepts calls has the id 7");
    for (i = 0; i < 3; i++) {
        HG_CHECK_OK(na_sink_open(na_class, wanted[i], core_count_rpc,
            core_count_dead, &got[i], &number));
        HG_CHECK_EQ_INT(number, wanted[i]);
        HG_CHECK_OK(core_deliver(core, peer, number, 0, "x", 1));
    }
    HG_CHECK_RET(
        na_sink_open(na_class, 7, core_count_rpc, NULL, &got[3], &number),
        NA_EXIST);
    HG_CHECK_OK(na_sink_open(na_class, NA_SINK_ANY, core_count_rpc,
        core_count_dead, &got[3], &number));
    HG_CHECK_EQ_INT(number, 1);
    locked_addr_dead(peer, NA_DISCONNECT);
    for (i = 0; i < 4; i++) {
        HG_CHECK_EQ_U64(got[i], i < 3 ? 101 : 100);
        na_sink_close(na_class, i < 3 ? (uint8_t) wanted[i] : number);
    }
    na_addr_unref(peer);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* An id belongs to one sink, and to none once the sink is closed. */
HG_TEST(sinks_release_their_ids)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    struct na_class_core *core = na_class_core_of(na_class);
    unsigned got[3] = {0, 0, 0};
    struct na_addr *early, *peer;
    uint8_t number;
    unsigned i;

    early = na_addr_create(na_class, "self://early", NA_FALSE);
    peer = na_addr_create(na_class, "self://peer", NA_FALSE);
    for (i = 0; i < 3; i++) {
        HG_CHECK_OK(na_sink_open(na_class, NA_SINK_ANY, core_count_rpc,
            core_count_dead, &got[i], &number));
        HG_CHECK_EQ_INT(number, i);
    }
    na_sink_close(na_class, 1);
    /* The sink after the gap is also notified of deaths. */
    locked_addr_dead(early, NA_DISCONNECT);
    HG_CHECK_EQ_U64(got[0], 100);
    HG_CHECK_EQ_U64(got[1], 0);
    HG_CHECK_EQ_U64(got[2], 100);
    HG_CHECK_RET(core_deliver(core, peer, 1, 0, "x", 1), NA_NOENTRY);
    HG_CHECK_OK(core_deliver(core, peer, 2, 0, "x", 1));
    HG_CHECK_OK(na_sink_open(na_class, NA_SINK_ANY, core_count_rpc,
        core_count_dead, &got[1], &number));
    HG_CHECK_EQ_INT(number, 1);
    HG_CHECK_OK(core_deliver(core, peer, 1, 0, "x", 1));
    locked_addr_dead(peer, NA_DISCONNECT);
    HG_CHECK_EQ_U64(got[0], 200);
    HG_CHECK_EQ_U64(got[1], 101);
    HG_CHECK_EQ_U64(got[2], 201);
    for (i = 0; i < 3; i++)
        na_sink_close(na_class, (uint8_t) i);
    na_addr_unref(early);
    na_addr_unref(peer);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* ---- Wakeups ---- */

struct core_sleeper {
    na_class_t *na_class;
    na_context_t *context;
    pthread_t thread;
    na_return_t ret;
};

static void *core_sleep(void *arg)
{
    struct core_sleeper *sleeper = (struct core_sleeper *) arg;

    sleeper->ret = NA_Progress(sleeper->na_class, sleeper->context, 60000);
    return NULL;
}

/* Let a thread make progress; it has found nothing, and sleeps or is about
 * to. */
static void core_put_to_sleep(struct core_sleeper *sleeper)
{
    const struct hg_waker *waker =
        &na_context_core_of(sleeper->context)->queue.waker;

    HG_CHECK(!pthread_create(&sleeper->thread, NULL, core_sleep, sleeper));
    while (atomic_load(&waker->state) == 0)
        (void) sched_yield();
}

static na_return_t core_count_success(const struct na_cb_info *info)
{
    if (info->ret == NA_SUCCESS)
        ++*(unsigned *) info->arg;
    return NA_SUCCESS;
}

/* A thread polls, and may be past the messages that wait: another one does not
 * take back the request to offer them again. */
HG_TEST(retry_stays_requested_while_another_thread_polls)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    struct na_class_core *core;
    na_context_t *context;

    HG_CHECK(na_class != NULL);
    core = na_class_core_of(na_class);
    context = NA_Context_create(na_class);
    HG_CHECK(context != NULL);
    core->inbox.retry = true;
    core->polling = true; /* as by a thread in another context */
    HG_CHECK_RET(NA_Progress(na_class, context, 0), NA_TIMEOUT);
    HG_CHECK(core->inbox.retry);
    core->polling = false;
    HG_CHECK_RET(NA_Progress(na_class, context, 0), NA_TIMEOUT);
    HG_CHECK(!core->inbox.retry);
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* Even if its transport would: this one knows of no death. */
HG_TEST(message_to_a_dead_peer_is_not_sent)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    struct na_addr *dead = na_addr_create(na_class, "self://dead", NA_FALSE);
    na_context_t *context;
    struct na_msg msg;

    HG_CHECK(na_class != NULL && dead != NULL);
    context = NA_Context_create(na_class);
    HG_CHECK(context != NULL);
    locked_addr_dead(dead, NA_PROTOCOL_ERROR);
    memset(&msg, 0, sizeof(msg));
    msg.addr = dead;
    na_context_enter(na_context_core_of(context));
    HG_CHECK_RET(na_msg_try(context, &msg), NA_PROTOCOL_ERROR);
    na_context_leave(na_context_core_of(context));
    HG_CHECK_RET(
        NA_Msg_try_send_unexpected(na_class, context, NULL, 0, dead, 0),
        NA_PROTOCOL_ERROR);
    na_addr_unref(dead);
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* The queue is full of other messages, and stays so: only the new receive lets
 * the message that is held back pass. */
HG_TEST(receive_wakes_a_transport_that_retries)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct core_sleeper sleeper;
    static char from[1000], to[1000];
    unsigned sent = 0, got = 0, i;
    na_addr_t self = NA_ADDR_NULL;

    info.max_queue_bytes = 4096;
    info.wait_mode = NA_WAIT_BLOCK;
    sleeper.na_class = NA_Initialize_opt("self://", NA_TRUE, &info);
    HG_CHECK(sleeper.na_class != NULL);
    sleeper.context = NA_Context_create(sleeper.na_class);
    HG_CHECK_OK(NA_Addr_self(sleeper.na_class, &self));
    for (i = 0; i < 4; i++)
        HG_CHECK_OK(NA_Msg_send_expected(sleeper.na_class, sleeper.context,
            core_count_success, &sent, from, sizeof(from), self, i < 3 ? 9 : 5,
            NA_OP_ID_IGNORE));
    for (i = 0; i < 6; i++) {
        (void) NA_Progress(sleeper.na_class, sleeper.context, 0);
        (void) NA_Trigger(sleeper.context, 0, 10, NULL);
    }
    HG_CHECK_EQ_U64(sent, 3);
    core_put_to_sleep(&sleeper);
    HG_CHECK_OK(NA_Msg_recv_expected(sleeper.na_class, sleeper.context,
        core_count_success, &got, to, sizeof(to), self, 5, NA_OP_ID_IGNORE));
    HG_CHECK(!pthread_join(sleeper.thread, NULL));
    HG_CHECK_OK(sleeper.ret);
    while (sent < 4 || got < 1) {
        (void) NA_Progress(sleeper.na_class, sleeper.context, 0);
        (void) NA_Trigger(sleeper.context, 0, 10, NULL);
    }
    HG_CHECK_OK(NA_Addr_free(sleeper.na_class, self));
    HG_CHECK_OK(NA_Context_destroy(sleeper.na_class, sleeper.context));
    HG_CHECK_OK(NA_Finalize(sleeper.na_class));
}

/* A message that cannot be queued has no identifier. */
static void core_queue_without_memory(
    na_context_t *context, const struct na_msg *msg)
{
    _Atomic(na_op_id_t) id = (na_op_id_t) (uintptr_t) 1;
    unsigned sent = 0;

    hg_test_allow_log("no memory");
    hg_test_alloc_install();
    na_context_enter(na_context_core_of(context));
    hg_test_alloc_fail_at(1);
    HG_CHECK_RET(
        na_msg_queue(context, msg, core_count_success, &sent, &id), NA_NOMEM);
    hg_test_alloc_fail_at(0);
    na_context_leave(na_context_core_of(context));
    HG_CHECK(id == NA_OP_ID_NULL);
}

/* Calls to a context that does not exist yet fill the queue, and stay there.
 * The call that is held back is for another context: that of the new sink. */
HG_TEST(new_sink_wakes_a_transport_that_retries)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    static char bytes[1000];
    struct na_segment segment = {bytes, sizeof(bytes)};
    _Atomic(na_op_id_t) ids[4];
    na_class_t *na_class;
    na_context_t *context;
    struct na_msg msg;
    unsigned sent = 0, got = 0, i;
    uint8_t number;

    info.max_queue_bytes = 4096;
    na_class = NA_Initialize_opt("self://", NA_TRUE, &info);
    HG_CHECK(na_class != NULL);
    context = NA_Context_create(na_class);
    memset(&msg, 0, sizeof(msg));
    msg.addr = na_class->self_addr;
    msg.segments = &segment;
    msg.segment_count = 1;
    msg.size = sizeof(bytes);
    msg.plane = NA_MSG_RPC;
    na_context_enter(na_context_core_of(context));
    for (i = 0; i < 4; i++) {
        msg.target = i < 3 ? 9 : 5;
        HG_CHECK_OK(
            na_msg_queue(context, &msg, core_count_success, &sent, &ids[i]));
    }
    na_context_leave(na_context_core_of(context));
    for (i = 0; i < 6; i++)
        (void) NA_Progress(na_class, context, 0);
    HG_CHECK_EQ_U64(sent, 3);
    HG_CHECK(NA_Poll_try_wait(na_class, context) == NA_TRUE);
    HG_CHECK_OK(na_sink_open(na_class, 5, core_count_rpc, NULL, &got, &number));
    HG_CHECK(NA_Poll_try_wait(na_class, context) == NA_FALSE);
    (void) NA_Progress(na_class, context, 0);
    HG_CHECK_EQ_U64(sent, 4);
    HG_CHECK_EQ_U64(got, 1);
    core_queue_without_memory(context, &msg);
    na_sink_close(na_class, number);
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

static void *core_sleep_in_trigger(void *arg)
{
    struct core_sleeper *sleeper = (struct core_sleeper *) arg;
    unsigned count = 0;

    sleeper->ret = NA_Trigger(sleeper->context, 60000, 1, &count);
    HG_CHECK_EQ_INT(count, 1);
    return NULL;
}

/* A context is not destroyed while a thread sleeps in it. */
HG_TEST(context_is_in_use_while_a_thread_waits_in_trigger)
{
    struct core_sleeper sleeper;
    unsigned sent = 0;
    bool asleep = false;

    sleeper.na_class = NA_Initialize("self://", NA_TRUE);
    HG_CHECK(sleeper.na_class != NULL);
    sleeper.context = NA_Context_create(sleeper.na_class);
    HG_CHECK(sleeper.context != NULL);
    HG_CHECK(!pthread_create(
        &sleeper.thread, NULL, core_sleep_in_trigger, &sleeper));
    while (!asleep) {
        struct na_context_core *core = na_context_core_of(sleeper.context);

        na_context_enter(core);
        asleep = !hg_list_is_empty(&core->queue.sleepers);
        na_context_leave(core);
        (void) sched_yield();
    }
    hg_test_expect_log("the context is in use by a thread or a callback");
    HG_CHECK_RET(
        NA_Context_destroy(sleeper.na_class, sleeper.context), NA_BUSY);
    HG_CHECK_OK(NA_Msg_send_unexpected(sleeper.na_class, sleeper.context,
        core_count_success, &sent, "x", 1, sleeper.na_class->self_addr, 1,
        NA_OP_ID_IGNORE));
    (void) NA_Progress(sleeper.na_class, sleeper.context, 0);
    HG_CHECK(!pthread_join(sleeper.thread, NULL));
    HG_CHECK_OK(sleeper.ret);
    HG_CHECK_EQ_U64(sent, 1);
    HG_CHECK_OK(NA_Context_destroy(sleeper.na_class, sleeper.context));
    HG_CHECK_OK(NA_Finalize(sleeper.na_class));
}

/* A thread that only its flag can wake, and two callbacks: the first sets the
 * flag, and the second waits for the thread. */
struct core_flagged {
    na_context_t *context;
    _Atomic bool flag, woken;
};

static void *core_sleep_for_flag(void *arg)
{
    struct core_flagged *flagged = (struct core_flagged *) arg;
    struct na_context_core *core = na_context_core_of(flagged->context);

    na_context_enter(core);
    HG_CHECK_OK(na_queue_sleep(
        &core->queue, 0, &flagged->flag, hg_clock_after_ms(60000)));
    na_context_leave(core);
    atomic_store(&flagged->woken, true);
    return NULL;
}

static na_return_t core_set_flag(const struct na_cb_info *info)
{
    atomic_store(&((struct core_flagged *) info->arg)->flag, true);
    return NA_SUCCESS;
}

static na_return_t core_await_flagged(const struct na_cb_info *info)
{
    while (!atomic_load(&((struct core_flagged *) info->arg)->woken))
        (void) sched_yield();
    return NA_SUCCESS;
}

HG_TEST(trigger_wakes_a_waiting_thread_before_the_next_callback)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    struct core_flagged flagged;
    struct na_context_core *core;
    bool asleep = false;
    pthread_t thread;
    unsigned i, count;

    HG_CHECK(na_class != NULL);
    memset(&flagged, 0, sizeof(flagged));
    flagged.context = NA_Context_create(na_class);
    HG_CHECK(flagged.context != NULL);
    core = na_context_core_of(flagged.context);
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(NA_Msg_send_unexpected(na_class, flagged.context,
            i == 0 ? core_set_flag : core_await_flagged, &flagged, "x", 1,
            na_class->self_addr, 1, NA_OP_ID_IGNORE));
    (void) NA_Progress(na_class, flagged.context, 0);
    core->flags++; /* as in NA_Progress_until */
    HG_CHECK(!pthread_create(&thread, NULL, core_sleep_for_flag, &flagged));
    while (!asleep) {
        na_context_enter(core);
        asleep = !hg_list_is_empty(&core->queue.sleepers);
        na_context_leave(core);
        (void) sched_yield();
    }
    HG_CHECK_OK(NA_Trigger(flagged.context, 0, 2, &count));
    HG_CHECK_EQ_INT(count, 2);
    HG_CHECK(!pthread_join(thread, NULL));
    core->flags--;
    HG_CHECK_OK(NA_Context_destroy(na_class, flagged.context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

static unsigned core_looks;

static int core_no_fd(struct na_context *context)
{
    (void) context;
    return NA_POLL_FD_NONE;
}

static int core_poke(na_context_t *context)
{
    locked_poke(context);
    return NA_POLL_FD_IDLE;
}

/* Also in the last moment before it arms, when a ring would be missed. */
HG_TEST(thread_poked_before_it_sleeps_returns)
{
    static struct na_plugin table; /* borrowed, never unregistered */
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;
    na_context_t *context;

    table = *na_self_table();
    table.name = "poke";
    table.poll_fd = core_poke;
    HG_CHECK_OK(NA_Register_plugin(&table));
    info.wait_mode = NA_WAIT_BLOCK;
    na_class = NA_Initialize_opt("poke+self://", NA_TRUE, &info);
    HG_CHECK(na_class != NULL);
    context = NA_Context_create(na_class);
    HG_CHECK_OK(NA_Progress(na_class, context, 60000));
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* A thread of the transport queues the end of a send, then the response to it:
 * the thread that makes progress has processed the end when it reports the
 * response. */
HG_TEST(progress_runs_internal_steps_before_completions)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    na_context_t *context = NA_Context_create(na_class);
    struct na_queue *queue = &na_context_core_of(context)->queue;
    struct core_entry entries[2];
    unsigned counter = 0, i;

    memset(entries, 0, sizeof(entries));
    for (i = 0; i < 2; i++) {
        entries[i].done.run = core_entry_run;
        entries[i].counter = &counter;
        locked_queue_push(
            queue, i == 0 ? NA_LANE_INTERNAL : NA_LANE_DONE, &entries[i].done);
    }
    HG_CHECK_OK(NA_Progress(na_class, context, 60000));
    HG_CHECK_EQ_INT(entries[0].ran_as, 1);
    HG_CHECK_EQ_INT(entries[1].ran_as, 0);
    HG_CHECK_EQ_INT(core_queue_run(queue, NA_LANES_DONE, 1, HG_CLOCK_NEVER), 1);
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

static void *core_progress_for_nothing(void *arg)
{
    na_context_t *context = (na_context_t *) arg;

    na_context_enter(na_context_core_of(context));
    HG_CHECK_OK(na_progress(context, 0, NULL, HG_CLOCK_NEVER));
    na_context_leave(na_context_core_of(context));
    return NULL;
}

/* An entry that is already queued is returned although another thread makes
 * progress for something else. */
HG_TEST(progress_returns_an_entry_while_another_thread_makes_progress)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    na_context_t *context = NA_Context_create(na_class);
    struct na_context_core *core = na_context_core_of(context);
    struct core_entry entry;
    unsigned counter = 0;
    bool progressing;
    pthread_t other;

    HG_CHECK(
        pthread_create(&other, NULL, core_progress_for_nothing, context) == 0);
    do {
        na_context_enter(core);
        progressing = core->progressing;
        na_context_leave(core);
    } while (!progressing);
    memset(&entry, 0, sizeof(entry));
    entry.done.run = core_entry_run;
    entry.counter = &counter;
    locked_queue_push(&core->queue, NA_LANE_DONE, &entry.done);
    HG_CHECK_OK(NA_Progress(na_class, context, 60000));
    locked_poke(context);
    HG_CHECK(pthread_join(other, NULL) == 0);
    HG_CHECK_EQ_INT(
        core_queue_run(&core->queue, NA_LANES_DONE, 1, HG_CLOCK_NEVER), 1);
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* ---- Spinning among other threads ---- */

#ifdef __linux__
static void *core_take_processor(void *arg)
{
    while (!atomic_load((_Atomic bool *) arg))
        continue;
    return NULL;
}

/* Milliseconds of processor time that this thread used. */
static double core_used_ms(void)
{
    struct timespec used;

    HG_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0);
    return (double) used.tv_sec * 1e3 + (double) used.tv_nsec / 1e6;
}

/* Run this thread, and those that it creates, on one processor. */
static void core_stay_on_one_processor(void)
{
    cpu_set_t all, one;
    size_t cpu = 0;

    HG_CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    HG_CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
}

/* After a yield that took longer than the window may be, spinning pauses for a
 * while. */
HG_TEST(window_is_zero_while_other_threads_want_the_processor)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    const struct na_context_core *core;
    _Atomic bool stop = false;
    na_context_t *context;
    na_class_t *na_class;
    pthread_t other;
    unsigned tries = 0;

    core_stay_on_one_processor();
    info.spin_us = 100;
    na_class = NA_Initialize_opt("self://", NA_TRUE, &info);
    HG_CHECK(na_class != NULL);
    context = NA_Context_create(na_class);
    HG_CHECK(context != NULL);
    core = na_context_core_of(context);
    HG_CHECK(na_progress_window(core, hg_clock_now()) > 0);
    HG_CHECK(pthread_create(&other, NULL, core_take_processor, &stop) == 0);
    while (core->busy_until == 0) {
        HG_CHECK(tries++ < 1000);
        HG_CHECK_RET(NA_Progress(na_class, context, 5), NA_TIMEOUT);
    }
    HG_CHECK_EQ_U64(na_progress_window(core, core->busy_until - 1), 0);
    atomic_store(&stop, true);
    HG_CHECK(pthread_join(other, NULL) == 0);
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* With a second to spin, on a processor that another thread wants. */
HG_TEST(spinning_thread_yields_the_processor)
{
    enum { WAIT_MS = 300 };
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    _Atomic bool stop = false;
    na_context_t *context;
    na_class_t *na_class;
    pthread_t other;
    double used;

    core_stay_on_one_processor();
    info.spin_us = 1000000;
    na_class = NA_Initialize_opt("self://", NA_TRUE, &info);
    HG_CHECK(na_class != NULL);
    context = NA_Context_create(na_class);
    HG_CHECK(context != NULL);
    HG_CHECK(pthread_create(&other, NULL, core_take_processor, &stop) == 0);
    used = core_used_ms();
    HG_CHECK_RET(NA_Progress(na_class, context, WAIT_MS), NA_TIMEOUT);
    used = core_used_ms() - used;
    atomic_store(&stop, true);
    HG_CHECK(pthread_join(other, NULL) == 0);
    if (used > WAIT_MS / 10)
        hg_test_fail(HG_TEST_HERE, "%.1f ms of %d were used", used, WAIT_MS);
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}
#endif

/* When the next event comes. */
static uint64_t core_news_at;

static unsigned core_news(struct na_context *context)
{
    core_looks++;
    if (hg_clock_now() < core_news_at)
        return 0;
    locked_poke(context);
    return 1;
}

/* How long a context spins after so many waits for events like that; and how
 * often it polled in the last one. */
static uint64_t core_wait_for_news(
    na_context_t *context, uint64_t after, unsigned waits)
{
    while (waits-- > 0) {
        core_looks = 0;
        core_news_at = hg_clock_now() + after;
        HG_CHECK_OK(NA_Progress(context->na_class, context, 60000));
    }
    return na_context_core_of(context)->window;
}

static na_context_t *core_open_news(
    struct na_plugin *table, const char *name, unsigned spin_us)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char url[64];
    na_class_t *na_class;
    na_context_t *context;

    table->name = name;
    table->poll = core_news;
    table->poll_fd = core_no_fd;
    HG_CHECK_OK(NA_Register_plugin(table));
    info.spin_us = spin_us;
    (void) snprintf(url, sizeof(url), "%s+self://", name);
    na_class = NA_Initialize_opt(url, NA_TRUE, &info);
    HG_CHECK(na_class != NULL);
    context = NA_Context_create(na_class);
    HG_CHECK(context != NULL);
    return context;
}

static void core_close_news(na_context_t *context)
{
    na_class_t *na_class = context->na_class;

    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* The window has its maximum while events come within that time, and shrinks to
 * zero while they do not. */
HG_TEST(window_adapts_to_the_latency_of_events)
{
    static struct na_plugin table; /* borrowed, never unregistered */
    uint64_t limit = 4 * HG_CLOCK_MS;
    na_context_t *context;
    unsigned tries = 0;

    table = *na_self_table();
    context = core_open_news(&table, "news", 4000);
    HG_CHECK_EQ_U64(na_context_core_of(context)->window, limit);
    /* Repeated if the thread did not run meanwhile. */
    while (core_wait_for_news(context, 3 * limit, 1) >= 100)
        HG_CHECK(tries++ < 1000);
    HG_CHECK(tries >= 10);
    HG_CHECK(core_looks < 1000);
    while (core_wait_for_news(context, limit / 10, 1) != limit)
        HG_CHECK(tries++ < 1000);
    core_close_news(context);
}

/* Without a descriptor an adaptive wait spins longer than it sleeps: otherwise
 * it would poll only a few times in a millisecond. */
HG_TEST(wait_without_a_descriptor_spins_longer_than_it_sleeps)
{
    static struct na_plugin table; /* borrowed, never unregistered */
    na_context_t *context;

    table = *na_self_table();
    context = core_open_news(&table, "deaf", 1);
    /* Repeated while others have the processor; the watchdog ends it. */
    do
        (void) core_wait_for_news(context, HG_CLOCK_MS / 2, 1);
    while (core_looks < 100);
    HG_CHECK(na_context_core_of(context)->no_fd);
    core_close_news(context);
}

/* ---- The order of slots ---- */

HG_TEST(plugin_slots_are_called_in_order)
{
    na_class_t *na_class;
    na_context_t *context;
    na_addr_t addr;
    unsigned ended = 0, count;

    HG_CHECK_OK(
        NA_Register_plugin(hg_test_trace_wrap(na_self_table(), "trace")));
    na_class = NA_Initialize("trace+self://", NA_TRUE);
    HG_CHECK(na_class != NULL);
    context = NA_Context_create(na_class);
    HG_CHECK_EQ_STR(hg_test_trace_take(), "open context_create ");
    HG_CHECK_OK(NA_Addr_lookup_wait(na_class, "self://", 1000, &addr));
    HG_CHECK_EQ_STR(
        hg_test_trace_take(), "helper_create addr_resolve context_destroy ");
    HG_CHECK_OK(NA_Msg_send_unexpected(na_class, context, core_op_ended, &ended,
        "x", 1, addr, 1, NA_OP_ID_IGNORE));
    HG_CHECK_OK(NA_Trigger(context, 0, 1, &count));
    HG_CHECK_EQ_STR(hg_test_trace_take(), "msg_send ");
    HG_CHECK_OK(NA_Addr_free(na_class, addr));
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
    HG_CHECK_EQ_STR(
        hg_test_trace_take(), "context_destroy close addr_release ");
}

/* ---- A transport that injects faults ---- */

enum { CORE_OPS = 300, CORE_SIZE = 20000 };

struct core_call {
    unsigned ends;
    bool started;
    na_addr_t addr;
    na_op_id_t id;
    na_tag_t tag;
    unsigned *good; /* of its operations, by type */
};

struct core_storm {
    na_class_t *na_class;
    na_context_t *context;
    na_addr_t self;
    uint64_t random;
    na_mem_handle_t local, target, remote;
    struct core_call calls[CORE_OPS];
    unsigned good[NA_CB_TERMINATE + 1]; /* successes */
};

static na_return_t core_call_ended(const struct na_cb_info *info)
{
    struct core_call *call = (struct core_call *) info->arg;

    HG_CHECK_EQ_INT(call->ends++, 0);
    call->good[info->type] += info->ret == NA_SUCCESS;
    if (info->type == NA_CB_RECV_UNEXPECTED && info->ret == NA_SUCCESS)
        call->addr = info->info.recv_unexpected.source;
    return NA_SUCCESS;
}

static na_return_t core_storm_start(
    struct core_storm *storm, struct core_call *call)
{
    static char memory[CORE_OPS];
    na_class_t *c = storm->na_class;
    na_context_t *x = storm->context;
    uint64_t dice = hg_test_random(&storm->random);
    na_size_t size = (dice >> 8) % CORE_SIZE;
    char *at = &memory[call - storm->calls];

    call->tag = (na_tag_t) (dice >> 40) % 4;
    switch (dice % 6) {
    case 0:
        return NA_Msg_send_unexpected(c, x, core_call_ended, call, "x", 1,
            storm->self, call->tag, &call->id);
    case 1:
        return NA_Msg_recv_unexpected(
            c, x, core_call_ended, call, at, 1, &call->id);
    case 2:
        return NA_Msg_send_expected(c, x, core_call_ended, call, "x", 1,
            storm->self, call->tag, &call->id);
    case 3:
        return NA_Msg_recv_expected(c, x, core_call_ended, call, at, 1,
            storm->self, call->tag, &call->id);
    case 4:
        return NA_Put(c, x, core_call_ended, call, storm->local, 0,
            storm->remote, 0, size, storm->self, &call->id);
    default:
        return NA_Get(c, x, core_call_ended, call, storm->local, 0,
            storm->remote, 0, size, storm->self, &call->id);
    }
}

static void core_storm_open(struct core_storm *storm, const char *name)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    static char memory[2][CORE_SIZE];
    unsigned char bytes[64];
    na_size_t size;

    info.force_rma_emulation = NA_TRUE;
    info.rma_frame_size = 1024;
    info.rma_window = 4096;
    info.max_queue_bytes = 3000;
    storm->na_class = NA_Initialize_opt(name, NA_TRUE, &info);
    HG_CHECK(storm->na_class != NULL);
    storm->context = NA_Context_create(storm->na_class);
    HG_CHECK(storm->context != NULL);
    HG_CHECK_OK(NA_Addr_self(storm->na_class, &storm->self));
    HG_CHECK_OK(NA_Mem_handle_create(
        storm->na_class, memory[0], CORE_SIZE, 3, &storm->local));
    HG_CHECK_OK(NA_Mem_handle_create(
        storm->na_class, memory[1], CORE_SIZE, 3, &storm->target));
    HG_CHECK_OK(NA_Mem_register(storm->na_class, storm->target));
    size = NA_Mem_handle_get_serialize_size(storm->na_class, storm->target);
    HG_CHECK(size <= sizeof(bytes));
    HG_CHECK_OK(
        NA_Mem_handle_serialize(storm->na_class, bytes, size, storm->target));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        storm->na_class, &storm->remote, bytes, size));
}

/* How many operations have not completed. */
static unsigned core_storm_turn(struct core_storm *storm)
{
    unsigned left = 0, count, i;
    na_return_t ret = NA_Progress(storm->na_class, storm->context, 0);

    HG_CHECK(ret == NA_SUCCESS || ret == NA_TIMEOUT);
    (void) NA_Trigger(storm->context, 0, UINT_MAX, &count);
    for (i = 0; i < CORE_OPS; i++)
        left += storm->calls[i].started && storm->calls[i].ends == 0;
    return left;
}

/* Start everything, run with faults, then cancel the rest: each operation that
 * started completes exactly once. */
static void core_storm_run(struct core_storm *storm)
{
    uint64_t deadline;
    unsigned i, left = CORE_OPS;

    memset(storm->calls, 0, sizeof(storm->calls));
    for (i = 0; i < CORE_OPS; i++) {
        struct core_call *call = &storm->calls[i];

        call->good = storm->good;
        call->started = core_storm_start(storm, call) == NA_SUCCESS;
        if (i % 8 == 0)
            (void) core_storm_turn(storm);
    }
    for (i = 0; i < 200 && left > 0; i++)
        left = core_storm_turn(storm);
    for (i = 0; i < CORE_OPS; i++) {
        struct core_call *call = &storm->calls[i];

        if (call->started && call->ends == 0)
            (void) NA_Cancel(storm->na_class, storm->context, call->id);
    }
    deadline = hg_clock_after_ms(HG_TEST_WAIT_MS);
    while (core_storm_turn(storm) > 0)
        HG_CHECK(hg_clock_now() < deadline);
    for (i = 0; i < CORE_OPS; i++) {
        struct core_call *call = &storm->calls[i];

        HG_CHECK_EQ_INT(call->ends, call->started ? 1 : 0);
        if (call->addr != NULL)
            HG_CHECK_OK(NA_Addr_free(storm->na_class, call->addr));
    }
}

static void core_storm_close(struct core_storm *storm)
{
    HG_CHECK_OK(NA_Mem_handle_free(storm->na_class, storm->remote));
    HG_CHECK_OK(NA_Mem_handle_free(storm->na_class, storm->local));
    HG_CHECK_OK(NA_Mem_handle_free(storm->na_class, storm->target));
    HG_CHECK_OK(NA_Addr_free(storm->na_class, storm->self));
    HG_CHECK_OK(NA_Context_destroy(storm->na_class, storm->context));
    HG_CHECK_OK(NA_Finalize(storm->na_class));
}

/* Whether each rate that was set had an effect, and operations of each type
 * succeeded. */
static bool core_storms_are_enough(
    const struct hg_test_faults *worst, const struct core_storm *storm)
{
    struct hg_test_faults_count count = hg_test_faults_counts();
    unsigned i;

    for (i = NA_CB_SEND_UNEXPECTED; i <= NA_CB_GET; i++)
        if (storm->good[i] == 0)
            return false;
    return (worst->drop > 0) == (count.dropped > 0) &&
        (worst->delay > 0) == (count.delayed > 0) &&
        (worst->reorder > 0) == (count.reordered > 0) &&
        (worst->duplicate > 0) == (count.duplicated > 0) &&
        (worst->cut > 0) == (count.cut > 0) &&
        (worst->again > 0) == (count.again > 0) &&
        (worst->refuse > 0) == (count.refused > 0) &&
        (worst->kill > 0) == (count.killed > 0);
}

/* At least so many rounds: chance decides what happens in them. */
static void core_storms(const struct hg_test_faults *worst, unsigned rounds)
{
    static struct hg_test_faults rates; /* read by the decorator */
    static struct core_storm storm;
    unsigned i;

    hg_test_alloc_install();
    hg_test_allow_log("");
    storm.random = hg_test_seed();
    HG_CHECK_OK(NA_Register_plugin(
        hg_test_faults_wrap(na_self_table(), "storm", storm.random, &rates)));
    for (i = 0; i < rounds || !core_storms_are_enough(worst, &storm); i++) {
        HG_CHECK(i < 1000);
        memset(&rates, 0, sizeof(rates));
        core_storm_open(&storm, "storm+self://");
        rates = *worst;
        core_storm_run(&storm);
        core_storm_close(&storm);
        HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
    }
}

HG_TEST(storm_of_delays_and_refusals)
{
    struct hg_test_faults rates = {.delay = 200, .reorder = 200, .again = 200};

    core_storms(&rates, 8);
}

HG_TEST(storm_of_lost_and_doubled_frames)
{
    struct hg_test_faults rates = {
        .drop = 50, .delay = 100, .duplicate = 50, .cut = 50, .refuse = 20};

    core_storms(&rates, 8);
}

HG_TEST(storm_with_deaths)
{
    struct hg_test_faults rates = {
        .drop = 20, .delay = 100, .again = 50, .kill = 3};

    core_storms(&rates, 20);
}
