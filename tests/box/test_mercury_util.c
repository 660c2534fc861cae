/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's utility library as the headers of gen/compat offer it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "gen/compat/mercury_atomic_queue.h"
#include "gen/compat/mercury_dl.h"
#include "gen/compat/mercury_event.h"
#include "gen/compat/mercury_hash_string.h"
#include "gen/compat/mercury_hash_table.h"
#include "gen/compat/mercury_inet.h"
#include "gen/compat/mercury_list.h"
#include "gen/compat/mercury_mem.h"
#include "gen/compat/mercury_param.h"
#include "gen/compat/mercury_poll.h"
#include "gen/compat/mercury_queue.h"
#include "gen/compat/mercury_request.h"
#include "gen/compat/mercury_thread_pool.h"
#include "gen/compat/mercury_thread_rwlock.h"
#include "gen/compat/mercury_thread_spin.h"
#include "gen/compat/mercury_util.h"

#include "harness.h"

#include <signal.h>

/* ---- Numbers and times ---- */

HG_TEST(util_times_are_added_and_subtracted)
{
    hg_time_t a = {1, 600000000}, b = {2, 500000000}, c;

    c = hg_time_add(a, b);
    HG_CHECK_EQ_INT(c.tv_sec, 4);
    HG_CHECK_EQ_INT(c.tv_nsec, 100000000);
    c = hg_time_subtract(b, a);
    HG_CHECK_EQ_INT(c.tv_sec, 0);
    HG_CHECK_EQ_INT(c.tv_nsec, 900000000);
    HG_CHECK(hg_time_less(a, b) && !hg_time_less(b, a) && !hg_time_less(a, a));
    HG_CHECK(hg_time_diff(b, a) > 0.89 && hg_time_diff(b, a) < 0.91);
    c = hg_time_from_ms(1234);
    HG_CHECK_EQ_INT(c.tv_sec, 1);
    HG_CHECK_EQ_INT(c.tv_nsec, 234000000);
    c.tv_nsec++;
    HG_CHECK_EQ_U64(hg_time_to_ms(c), 1235);
    c = hg_time_from_double(2.5);
    HG_CHECK_EQ_INT(c.tv_sec, 2);
    HG_CHECK_EQ_INT(c.tv_nsec, 500000000);
    HG_CHECK_EQ_INT(hg_time_get_current(&a), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_time_sleep(hg_time_from_ms(1)), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_time_get_current(&b), HG_UTIL_SUCCESS);
    HG_CHECK(hg_time_less(a, b));
    HG_CHECK_EQ_INT(hg_time_get_current_ms(&a), HG_UTIL_SUCCESS);
    HG_CHECK(strlen(hg_time_stamp()) > 10);
}

HG_TEST(util_atomics_return_new_or_old_values)
{
    static hg_atomic_int32_t small = HG_ATOMIC_VAR_INIT(5);
    hg_atomic_int64_t large;

    HG_CHECK_EQ_INT(hg_atomic_incr32(&small), 6);
    HG_CHECK_EQ_INT(hg_atomic_decr32(&small), 5);
    HG_CHECK_EQ_INT(hg_atomic_or32(&small, 2), 5);
    HG_CHECK_EQ_INT(hg_atomic_xor32(&small, 1), 7);
    HG_CHECK_EQ_INT(hg_atomic_and32(&small, 4), 6);
    HG_CHECK_EQ_INT(hg_atomic_get32(&small), 4);
    HG_CHECK(!hg_atomic_cas32(&small, 5, 9) && hg_atomic_cas32(&small, 4, 9));
    HG_CHECK_EQ_INT(hg_atomic_get32(&small), 9);
    hg_atomic_init64(&large, INT64_MAX - 1);
    HG_CHECK(hg_atomic_incr64(&large) == INT64_MAX);
    HG_CHECK(hg_atomic_decr64(&large) == INT64_MAX - 1);
    hg_atomic_set64(&large, 1);
    HG_CHECK(hg_atomic_or64(&large, 2) == 1);
    HG_CHECK(hg_atomic_xor64(&large, 1) == 3);
    HG_CHECK(hg_atomic_and64(&large, 6) == 2);
    hg_atomic_fence();
    HG_CHECK(!hg_atomic_cas64(&large, 5, 9) && hg_atomic_cas64(&large, 2, 9));
    HG_CHECK(hg_atomic_get64(&large) == 9);
}

HG_TEST(util_numbers_and_strings)
{
    uint64_t bytes = htonll(0x0102030405060708u);
    unsigned int major = 0, minor = 0, patch = 9;

    HG_CHECK_EQ_MEM(&bytes, "\1\2\3\4\5\6\7\10", 8);
    HG_CHECK_EQ_U64(ntohll(bytes), 0x0102030405060708u);
    HG_CHECK(MAX(1, 2) == 2 && MIN(1, 2) == 1 && powerof2(8) && !powerof2(9));
    HG_CHECK_EQ_U64(hg_hash_string(""), 5381);
    HG_CHECK_EQ_U64(hg_hash_string("a"), 5381 * 33 + 'a');
    HG_Util_version_get(&major, &minor, &patch);
    HG_CHECK(major == 4 && minor == 1 && patch == 0);
    HG_Util_version_get(NULL, NULL, NULL);
}

/* ---- Lists ---- */

struct util_item {
    int value;
    HG_QUEUE_ENTRY(util_item) queued;
    HG_LIST_ENTRY(util_item) listed;
};

HG_TEST(util_queue_keeps_order)
{
    struct util_item items[3] = {{.value = 0}, {.value = 1}, {.value = 2}};
    HG_QUEUE_HEAD(util_item) queue;
    struct util_item *item;
    int i;

    HG_QUEUE_INIT(&queue);
    HG_CHECK(HG_QUEUE_IS_EMPTY(&queue));
    for (i = 0; i < 3; i++)
        HG_QUEUE_PUSH_TAIL(&queue, &items[i], queued);
    i = 0;
    HG_QUEUE_FOREACH(item, &queue, queued)
    HG_CHECK_EQ_INT(item->value, i++);
    HG_CHECK_EQ_INT(i, 3);
    HG_QUEUE_REMOVE(&queue, &items[2], util_item, queued);
    HG_QUEUE_PUSH_TAIL(&queue, &items[2], queued);
    HG_QUEUE_REMOVE(&queue, &items[1], util_item, queued);
    HG_CHECK(HG_QUEUE_FIRST(&queue) == &items[0]);
    HG_CHECK(HG_QUEUE_NEXT(&items[0], queued) == &items[2]);
    HG_QUEUE_POP_HEAD(&queue, queued);
    HG_QUEUE_POP_HEAD(&queue, queued);
    HG_CHECK(HG_QUEUE_IS_EMPTY(&queue));
    HG_QUEUE_PUSH_TAIL(&queue, &items[1], queued);
    HG_CHECK(HG_QUEUE_FIRST(&queue) == &items[1]);
}

HG_TEST(util_list_inserts_anywhere)
{
    struct util_item items[4] = {
        {.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
    HG_LIST_HEAD(util_item) list;
    struct util_item *item;
    int i = 0;

    HG_LIST_INIT(&list);
    HG_CHECK(HG_LIST_IS_EMPTY(&list));
    HG_LIST_INSERT_HEAD(&list, &items[3], listed);
    HG_LIST_INSERT_HEAD(&list, &items[1], listed);
    HG_LIST_INSERT_BEFORE(&items[1], &items[0], listed);
    HG_LIST_INSERT_AFTER(&items[1], &items[2], listed);
    HG_LIST_FOREACH(item, &list, listed)
    HG_CHECK_EQ_INT(item->value, i++);
    HG_CHECK_EQ_INT(i, 4);
    HG_LIST_REMOVE(&items[0], listed);
    HG_LIST_REMOVE(&items[2], listed);
    HG_CHECK(HG_LIST_FIRST(&list) == &items[1]);
    HG_CHECK(HG_LIST_NEXT(&items[1], listed) == &items[3]);
    HG_LIST_REMOVE(&items[3], listed);
    HG_LIST_REMOVE(&items[1], listed);
    HG_CHECK(HG_LIST_IS_EMPTY(&list));
}

/* ---- Hash tables ---- */

static unsigned int util_keys_freed, util_values_freed;

static unsigned int util_hash(void *key)
{
    return *(unsigned int *) key;
}

static int util_equal(void *a, void *b)
{
    return *(unsigned int *) a == *(unsigned int *) b;
}

static void util_free_key(void *key)
{
    util_keys_freed++;
    free(key);
}

static void util_free_value(void *value)
{
    util_values_freed++;
    free(value);
}

static void *util_number(unsigned int number)
{
    unsigned int *memory = (unsigned int *) malloc(sizeof(*memory));

    HG_CHECK(memory != NULL);
    *memory = number;
    return memory;
}

static unsigned int util_lookup(hg_hash_table_t *table, unsigned int key)
{
    unsigned int *value = (unsigned int *) hg_hash_table_lookup(table, &key);

    return value != HG_HASH_TABLE_NULL ? *value : 0;
}

HG_TEST(util_hash_table_finds_what_it_stored)
{
    hg_hash_table_t *table = hg_hash_table_new(util_hash, util_equal);
    hg_hash_table_iter_t iter;
    unsigned int i, seen = 0, sum = 0, gone = 500;

    HG_CHECK(table != NULL);
    hg_hash_table_register_free_functions(
        table, util_free_key, util_free_value);
    hg_hash_table_iterate(table, &iter);
    HG_CHECK(!hg_hash_table_iter_has_more(&iter));
    HG_CHECK(hg_hash_table_iter_next(&iter) == HG_HASH_TABLE_NULL);
    for (i = 1; i <= 1000; i++)
        HG_CHECK(
            hg_hash_table_insert(table, util_number(i), util_number(i + 1)));
    HG_CHECK_EQ_U64(hg_hash_table_num_entries(table), 1000);
    HG_CHECK(hg_hash_table_insert(table, util_number(7), util_number(70)));
    HG_CHECK_EQ_U64(hg_hash_table_num_entries(table), 1000);
    HG_CHECK(util_keys_freed == 1 && util_values_freed == 1);
    HG_CHECK_EQ_U64(util_lookup(table, 7), 70);
    HG_CHECK_EQ_U64(util_lookup(table, 1000), 1001);
    HG_CHECK_EQ_U64(util_lookup(table, 1001), 0);
    HG_CHECK(hg_hash_table_remove(table, &gone));
    HG_CHECK(!hg_hash_table_remove(table, &gone));
    HG_CHECK_EQ_U64(util_lookup(table, gone), 0);
    HG_CHECK_EQ_U64(util_lookup(table, gone + 64), gone + 65);
    hg_hash_table_iterate(table, &iter);
    while (hg_hash_table_iter_has_more(&iter)) {
        sum += *(unsigned int *) hg_hash_table_iter_next(&iter);
        seen++;
    }
    HG_CHECK_EQ_U64(seen, 999);
    HG_CHECK_EQ_U64(sum, 1000 * 1001 / 2 + 1000 - 501 - 8 + 70);
    hg_hash_table_free(table);
    HG_CHECK(util_keys_freed == 1001 && util_values_freed == 1001);
}

/* ---- Threads ---- */

static hg_thread_mutex_t util_mutex = HG_THREAD_MUTEX_INITIALIZER;
static hg_thread_rwlock_t util_rwlock;
static hg_thread_spin_t util_spin;

/* Another thread holds the locks; returns the number of failures. */
static HG_THREAD_RETURN_TYPE util_try(void *unused)
{
    intptr_t wrong = 0;

    (void) unused;
    wrong += hg_thread_mutex_try_lock(&util_mutex) == HG_UTIL_SUCCESS;
    wrong += hg_thread_spin_try_lock(&util_spin) == HG_UTIL_SUCCESS;
    wrong += hg_thread_rwlock_try_wrlock(&util_rwlock) == HG_UTIL_SUCCESS;
    wrong += hg_thread_rwlock_try_rdlock(&util_rwlock) != HG_UTIL_SUCCESS;
    hg_thread_rwlock_release_rdlock(&util_rwlock);
    HG_CHECK_EQ_INT(wrong, 0);
    hg_thread_exit(NULL);
    return NULL;
}

HG_TEST(util_locks_exclude)
{
    hg_thread_t thread;

    HG_CHECK_EQ_INT(hg_thread_rwlock_init(&util_rwlock), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_thread_spin_init(&util_spin), HG_UTIL_SUCCESS);
    hg_thread_mutex_lock(&util_mutex);
    hg_thread_spin_lock(&util_spin);
    hg_thread_rwlock_rdlock(&util_rwlock);
    hg_thread_init(&thread);
    HG_CHECK_EQ_INT(hg_thread_create(&thread, util_try, NULL), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_thread_join(thread), HG_UTIL_SUCCESS);
    hg_thread_mutex_unlock(&util_mutex);
    hg_thread_spin_unlock(&util_spin);
    hg_thread_rwlock_release_rdlock(&util_rwlock);
    HG_CHECK_EQ_INT(hg_thread_mutex_try_lock(&util_mutex), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_thread_spin_try_lock(&util_spin), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_thread_rwlock_try_wrlock(&util_rwlock), HG_UTIL_SUCCESS);
    hg_thread_rwlock_release_wrlock(&util_rwlock);
    hg_thread_spin_unlock(&util_spin);
    hg_thread_mutex_unlock(&util_mutex);
    HG_CHECK_EQ_INT(hg_thread_rwlock_destroy(&util_rwlock), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_thread_spin_destroy(&util_spin), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_thread_mutex_init_fast(&util_mutex), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_thread_mutex_destroy(&util_mutex), HG_UTIL_SUCCESS);
}

HG_TEST(util_threads_have_keys_and_processors)
{
    hg_thread_key_t key;
    hg_cpu_set_t cpus;

    HG_CHECK_EQ_INT(hg_thread_key_create(&key), HG_UTIL_SUCCESS);
    HG_CHECK(hg_thread_getspecific(key) == NULL);
    HG_CHECK_EQ_INT(hg_thread_setspecific(key, &key), HG_UTIL_SUCCESS);
    HG_CHECK(hg_thread_getspecific(key) == &key);
    HG_CHECK_EQ_INT(hg_thread_key_delete(key), HG_UTIL_SUCCESS);
    HG_CHECK(hg_thread_equal(hg_thread_self(), hg_thread_self()));
    HG_CHECK_EQ_INT(hg_thread_yield(), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(
        hg_thread_getaffinity(hg_thread_self(), &cpus), HG_UTIL_SUCCESS);
    HG_CHECK(CPU_COUNT(&cpus) > 0);
    HG_CHECK_EQ_INT(
        hg_thread_setaffinity(hg_thread_self(), &cpus), HG_UTIL_SUCCESS);
}

struct util_turn {
    hg_thread_mutex_t mutex;
    hg_thread_cond_t cond;
    bool ready;
};

static HG_THREAD_RETURN_TYPE util_make_ready(void *arg)
{
    struct util_turn *turn = (struct util_turn *) arg;

    hg_thread_mutex_lock(&turn->mutex);
    turn->ready = true;
    (void) hg_thread_cond_broadcast(&turn->cond);
    hg_thread_mutex_unlock(&turn->mutex);
    return NULL;
}

HG_TEST(util_condition_ends_by_signal_or_time)
{
    struct util_turn turn = {.ready = false};
    hg_thread_t thread;
    hg_time_t before, after;

    HG_CHECK_EQ_INT(hg_thread_mutex_init(&turn.mutex), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_thread_cond_init(&turn.cond), HG_UTIL_SUCCESS);
    hg_thread_mutex_lock(&turn.mutex);
    (void) hg_time_get_current(&before);
    while (hg_thread_cond_timedwait(&turn.cond, &turn.mutex, 10) ==
        HG_UTIL_SUCCESS)
        continue;
    (void) hg_time_get_current(&after);
    HG_CHECK(hg_time_to_ms(hg_time_subtract(after, before)) >= 10);
    HG_CHECK_EQ_INT(
        hg_thread_create(&thread, util_make_ready, &turn), HG_UTIL_SUCCESS);
    while (!turn.ready)
        HG_CHECK_EQ_INT(
            hg_thread_cond_timedwait(&turn.cond, &turn.mutex, 3600 * 1000),
            HG_UTIL_SUCCESS);
    hg_thread_mutex_unlock(&turn.mutex);
    HG_CHECK_EQ_INT(hg_thread_join(thread), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_thread_cond_signal(&turn.cond), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_thread_cond_destroy(&turn.cond), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_thread_mutex_destroy(&turn.mutex), HG_UTIL_SUCCESS);
}

static HG_THREAD_RETURN_TYPE util_count(void *count)
{
    (void) hg_atomic_incr32((hg_atomic_int32_t *) count);
    return NULL;
}

HG_TEST(util_thread_pool_executes_all_before_it_ends)
{
    static struct hg_thread_work works[100], none;
    hg_atomic_int32_t count = HG_ATOMIC_VAR_INIT(0);
    hg_thread_pool_t *pool = NULL;
    size_t i;

    HG_CHECK_EQ_INT(hg_thread_pool_init(4, &pool), HG_UTIL_SUCCESS);
    for (i = 0; i < 100; i++) {
        works[i].func = util_count;
        works[i].args = &count;
        HG_CHECK_EQ_INT(hg_thread_pool_post(pool, &works[i]), HG_UTIL_SUCCESS);
    }
    while (hg_atomic_get32(&count) < 50)
        (void) hg_thread_yield(); /* some are executed before it ends */
    HG_CHECK_EQ_INT(hg_thread_pool_post(pool, &none), HG_UTIL_FAIL);
    HG_CHECK_EQ_INT(hg_thread_pool_post(pool, NULL), HG_UTIL_FAIL);
    HG_CHECK_EQ_INT(hg_thread_pool_destroy(pool), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_atomic_get32(&count), 100);
    HG_CHECK_EQ_INT(hg_thread_pool_init(1, NULL), HG_UTIL_FAIL);
    HG_CHECK_EQ_INT(hg_thread_pool_destroy(NULL), HG_UTIL_SUCCESS);
}

static HG_THREAD_RETURN_TYPE util_meet(void *barrier)
{
    (void) pthread_barrier_wait((pthread_barrier_t *) barrier);
    return NULL;
}

/* When the pool is destroyed, every thread has executed something and waits. */
HG_TEST(util_thread_pool_wakes_all_idle_threads_at_its_end)
{
    static struct hg_thread_work works[4];
    pthread_barrier_t barrier;
    hg_thread_pool_t *pool = NULL;
    size_t i;

    HG_CHECK(pthread_barrier_init(&barrier, NULL, 5) == 0);
    HG_CHECK_EQ_INT(hg_thread_pool_init(4, &pool), HG_UTIL_SUCCESS);
    for (i = 0; i < 4; i++) {
        works[i].func = util_meet;
        works[i].args = &barrier;
        HG_CHECK_EQ_INT(hg_thread_pool_post(pool, &works[i]), HG_UTIL_SUCCESS);
    }
    (void) pthread_barrier_wait(&barrier);
    HG_CHECK_EQ_INT(hg_time_sleep(hg_time_from_ms(50)), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_thread_pool_destroy(pool), HG_UTIL_SUCCESS);
    HG_CHECK(pthread_barrier_destroy(&barrier) == 0);
}

/* ---- Queues between threads ---- */

HG_TEST(util_atomic_queue_is_bounded)
{
    struct hg_atomic_queue *queue = hg_atomic_queue_alloc(4);
    int numbers[5], i, round;

    HG_CHECK(queue != NULL && hg_atomic_queue_alloc(5) == NULL);
    for (round = 0; round < 3; round++) {
        HG_CHECK(hg_atomic_queue_is_empty(queue));
        HG_CHECK(hg_atomic_queue_pop_mc(queue) == NULL);
        for (i = 0; i < 4; i++)
            HG_CHECK_EQ_INT(
                hg_atomic_queue_push(queue, &numbers[i]), HG_UTIL_SUCCESS);
        HG_CHECK_EQ_INT(hg_atomic_queue_push(queue, &numbers[4]), HG_UTIL_FAIL);
        HG_CHECK_EQ_U64(hg_atomic_queue_count(queue), 4);
        HG_CHECK(hg_atomic_queue_pop_sc(queue) == &numbers[0]);
        HG_CHECK_EQ_INT(
            hg_atomic_queue_push(queue, &numbers[4]), HG_UTIL_SUCCESS);
        for (i = 1; i < 5; i++)
            HG_CHECK(hg_atomic_queue_pop_mc(queue) == &numbers[i]);
    }
    hg_atomic_queue_free(queue);
}

#define UTIL_PUSHED 20000

static HG_THREAD_RETURN_TYPE util_push(void *arg)
{
    struct hg_atomic_queue *queue = (struct hg_atomic_queue *) arg;
    static int token;
    int i;

    for (i = 0; i < UTIL_PUSHED; i++)
        while (hg_atomic_queue_push(queue, &token) != HG_UTIL_SUCCESS)
            (void) hg_thread_yield();
    return NULL;
}

static hg_atomic_int32_t util_popped = HG_ATOMIC_VAR_INIT(0);

static HG_THREAD_RETURN_TYPE util_pop(void *arg)
{
    struct hg_atomic_queue *queue = (struct hg_atomic_queue *) arg;

    while (hg_atomic_get32(&util_popped) < 2 * UTIL_PUSHED)
        if (hg_atomic_queue_pop_mc(queue) != NULL)
            (void) hg_atomic_incr32(&util_popped);
        else
            (void) hg_thread_yield();
    return NULL;
}

HG_TEST(util_atomic_queue_loses_nothing_between_threads)
{
    struct hg_atomic_queue *queue = hg_atomic_queue_alloc(64);
    hg_thread_t threads[4];
    int i;

    for (i = 0; i < 4; i++)
        HG_CHECK_EQ_INT(
            hg_thread_create(&threads[i], i < 2 ? util_push : util_pop, queue),
            HG_UTIL_SUCCESS);
    for (i = 0; i < 4; i++)
        HG_CHECK_EQ_INT(hg_thread_join(threads[i]), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_atomic_get32(&util_popped), 2 * UTIL_PUSHED);
    HG_CHECK(hg_atomic_queue_is_empty(queue));
    hg_atomic_queue_free(queue);
}

/* ---- Requests ---- */

struct util_engine {
    hg_request_t *request;
    unsigned int progressed, triggered, longest;
    bool completes;
};

static int util_progress(unsigned int timeout, void *arg)
{
    struct util_engine *engine = (struct util_engine *) arg;

    engine->progressed++;
    engine->longest = MAX(engine->longest, timeout);
    return HG_UTIL_SUCCESS;
}

static int util_trigger(unsigned int timeout, unsigned int *flag, void *arg)
{
    struct util_engine *engine = (struct util_engine *) arg;

    HG_CHECK_EQ_U64(timeout, 0);
    engine->triggered++;
    if (engine->completes && engine->progressed == 2) {
        engine->completes = false;
        hg_request_complete(engine->request);
        *flag = 1;
    }
    return HG_UTIL_SUCCESS;
}

HG_TEST(util_request_waits_until_completed)
{
    struct util_engine engine = {.completes = true};
    hg_request_class_t *rc =
        hg_request_init(util_progress, util_trigger, &engine);
    unsigned int flag = 9;
    void *arg = NULL;
    int data;

    engine.request = hg_request_create(rc);
    HG_CHECK(hg_request_get_data(engine.request) == NULL);
    hg_request_set_data(engine.request, &data);
    HG_CHECK(hg_request_get_data(engine.request) == &data);
    HG_CHECK_EQ_INT(
        hg_request_wait(engine.request, 3600 * 1000, &flag), HG_UTIL_SUCCESS);
    HG_CHECK(flag == 1 && engine.progressed == 2 && engine.longest == 500);
    HG_CHECK_EQ_INT(
        hg_request_waitall(1, &engine.request, 0, &flag), HG_UTIL_SUCCESS);
    HG_CHECK(flag == 1 && engine.progressed == 2);
    hg_request_reset(engine.request);
    HG_CHECK_EQ_INT(hg_request_wait(engine.request, 0, &flag), HG_UTIL_SUCCESS);
    HG_CHECK(flag == 0 && engine.progressed == 3);
    hg_request_destroy(engine.request);
    hg_request_finalize(rc, &arg);
    HG_CHECK(arg == &engine);
}

HG_TEST(util_request_wait_times_out)
{
    struct util_engine engine = {.completes = false};
    hg_request_class_t *rc =
        hg_request_init(util_progress, util_trigger, &engine);
    unsigned int flag = 9;
    hg_time_t before, after;

    engine.request = hg_request_create(rc);
    (void) hg_time_get_current(&before);
    HG_CHECK_EQ_INT(
        hg_request_wait(engine.request, 10, &flag), HG_UTIL_SUCCESS);
    (void) hg_time_get_current(&after);
    HG_CHECK(flag == 0 && engine.progressed > 0 && engine.longest <= 10);
    HG_CHECK(engine.triggered > engine.progressed);
    HG_CHECK(hg_time_to_ms(hg_time_subtract(after, before)) >= 10);
    hg_request_destroy(engine.request);
    hg_request_finalize(rc, NULL);
}

/* ---- Descriptors ---- */

HG_TEST(util_poll_reports_events)
{
    hg_poll_set_t *set = hg_poll_create();
    struct hg_poll_event event = {.events = HG_POLLIN}, events[4];
    int fd = hg_event_create(), ends[2];
    unsigned int count = 9;
    bool notified = true;

    HG_CHECK(set != NULL && fd != -1 && hg_poll_get_fd(set) != -1);
    event.data.u32 = 77;
    HG_CHECK_EQ_INT(hg_poll_add(set, fd, &event), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_poll_add(set, fd, &event), HG_UTIL_FAIL);
    HG_CHECK_EQ_INT(hg_poll_wait(set, 0, 4, events, &count), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_U64(count, 0);
    HG_CHECK_EQ_INT(hg_event_set(fd), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(
        hg_poll_wait(set, 3600 * 1000, 4, events, &count), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_U64(count, 1);
    HG_CHECK(events[0].events == HG_POLLIN && events[0].data.u32 == 77);
    HG_CHECK_EQ_INT(hg_event_get(fd, &notified), HG_UTIL_SUCCESS);
    HG_CHECK(notified);
    HG_CHECK_EQ_INT(hg_event_get(fd, &notified), HG_UTIL_SUCCESS);
    HG_CHECK(!notified);

    HG_CHECK(pipe(ends) == 0);
    event.events = HG_POLLOUT;
    event.data.fd = ends[1];
    HG_CHECK_EQ_INT(hg_poll_add(set, ends[1], &event), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_poll_wait(set, 0, 4, events, &count), HG_UTIL_SUCCESS);
    HG_CHECK(count == 1 && events[0].events == HG_POLLOUT);
    (void) close(ends[0]);
    HG_CHECK_EQ_INT(hg_poll_wait(set, 0, 4, events, &count), HG_UTIL_SUCCESS);
    HG_CHECK(count == 1 && (events[0].events & HG_POLLERR) != 0);
    HG_CHECK_EQ_INT(hg_poll_destroy(set), HG_UTIL_FAIL);
    HG_CHECK_EQ_INT(hg_poll_remove(set, ends[1]), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_poll_remove(set, fd), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_poll_destroy(set), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_poll_destroy(NULL), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_event_destroy(fd), HG_UTIL_SUCCESS);
    (void) close(ends[1]);
}

static void util_ignore(int unused)
{
    (void) unused;
}

/* Signal the waiting thread until it has noticed. */
static hg_atomic_int32_t util_noticed = HG_ATOMIC_VAR_INIT(0);

static HG_THREAD_RETURN_TYPE util_interrupt(void *thread)
{
    while (hg_atomic_get32(&util_noticed) == 0) {
        (void) pthread_kill(*(pthread_t *) thread, SIGUSR1);
        (void) hg_time_sleep(hg_time_from_ms(1));
    }
    return NULL;
}

HG_TEST(util_poll_ends_by_a_signal)
{
    hg_poll_set_t *set = hg_poll_create();
    struct sigaction action = {.sa_handler = util_ignore};
    struct hg_poll_event events[1];
    hg_thread_t self = hg_thread_self(), thread;
    unsigned int count = 0;

    HG_CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    HG_CHECK_EQ_INT(
        hg_thread_create(&thread, util_interrupt, &self), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(
        hg_poll_wait(set, 3600 * 1000, 1, events, &count), HG_UTIL_SUCCESS);
    hg_atomic_set32(&util_noticed, 1);
    HG_CHECK(count == 1 && events[0].events == HG_POLLINTR);
    HG_CHECK_EQ_INT(hg_thread_join(thread), HG_UTIL_SUCCESS);
    HG_CHECK_EQ_INT(hg_poll_destroy(set), HG_UTIL_SUCCESS);
}

/* ---- Memory and libraries ---- */

HG_TEST(util_memory_is_aligned)
{
    char *memory = (char *) hg_mem_aligned_alloc(256, 100);

    HG_CHECK(memory != NULL && (uintptr_t) memory % 256 == 0);
    memset(memory, 1, 100);
    hg_mem_aligned_free(memory);
    memory = (char *) hg_mem_header_alloc(10, 8, 100);
    HG_CHECK(memory != NULL && (uintptr_t) memory % 8 == 0);
    memset(memory - 10, 1, 110);
    hg_mem_header_free(10, 8, memory);
    hg_mem_header_free(10, 0, hg_mem_header_alloc(10, 0, 1));
    hg_mem_header_free(10, 8, NULL);
    HG_CHECK(hg_mem_get_page_size() >= HG_MEM_PAGE_SIZE);
    HG_CHECK(hg_mem_get_hugepage_size() % hg_mem_get_page_size() == 0);
}

HG_TEST(util_libraries_are_loaded)
{
    HG_DL_HANDLE handle = hg_dl_open(NULL);
    char path[256] = "";

    HG_CHECK(handle != NULL && hg_dl_sym(handle, "malloc") != NULL);
    HG_CHECK(hg_dl_sym(handle, "there_is_no_such_name") == NULL);
    HG_CHECK(hg_dl_error() != NULL);
    HG_CHECK_EQ_INT(
        hg_dl_get_path((void *) (intptr_t) &util_equal, path, sizeof(path)),
        HG_UTIL_SUCCESS);
    HG_CHECK(strstr(path, "test_mercury_util") != NULL);
    HG_CHECK_EQ_INT(hg_dl_close(handle), 0);
}

/* ---- Log outlets ---- */

HG_LOG_DECL_REGISTER(util_main);
HG_LOG_SUBSYS_DECL_REGISTER(part, util_main);

/* The text written to the stream since the previous call. */
static const char *util_logged(FILE *stream)
{
    static char text[4096];
    size_t size;

    (void) fflush(stream);
    rewind(stream);
    size = fread(text, 1, sizeof(text) - 1, stream);
    text[size] = '\0';
    rewind(stream);
    HG_CHECK(ftruncate(fileno(stream), 0) == 0);
    return text;
}

HG_TEST(util_outlets_write_what_the_level_allows)
{
    FILE *stream = tmpfile();

    HG_CHECK(stream != NULL);
    hg_log_set_stream_error(stream);
    hg_log_set_stream_warning(stream);
    HG_CHECK(hg_log_get_stream_warning() == stream);
    hg_log_set_level(HG_LOG_LEVEL_NONE);
    hg_log_set_subsys("hg_all");
    HG_LOG_WRITE(util_main, HG_LOG_LEVEL_ERROR, "none");
    HG_CHECK_EQ_STR(util_logged(stream), "");
    hg_log_set_level(HG_LOG_LEVEL_ERROR);
    HG_LOG_WRITE(util_main, HG_LOG_LEVEL_WARNING, "too much");
    HG_CHECK_EQ_STR(util_logged(stream), "");
    HG_LOG_WRITE(util_main, HG_LOG_LEVEL_ERROR, "number %d", 42);
    HG_CHECK(strstr(util_logged(stream), "number 42\n") != NULL);
    HG_Util_set_log_level("warning");
    HG_CHECK_EQ_INT(hg_log_get_level(), HG_LOG_LEVEL_WARNING);
    HG_CHECK_EQ_STR(hg_log_get_subsys(), "hg_all,hg_util");
    HG_LOG_SUBSYS_WRITE(part, util_main, HG_LOG_LEVEL_WARNING, "from a part");
    HG_CHECK(strstr(util_logged(stream), "part warning: ") != NULL);
    hg_log_set_subsys("~part,util_main");
    HG_LOG_SUBSYS_WRITE(part, util_main, HG_LOG_LEVEL_ERROR, "silenced");
    HG_CHECK_EQ_STR(util_logged(stream), "");
    hg_log_set_subsys("other");
    HG_LOG_WRITE(util_main, HG_LOG_LEVEL_ERROR, "not listed");
    HG_CHECK_EQ_STR(util_logged(stream), "");
    hg_log_set_stream_error(NULL);
    hg_log_set_stream_warning(NULL);
    HG_CHECK(hg_log_get_stream_error() == stderr);
    (void) fclose(stream);
}

static char util_line[512];

static int util_print(FILE *stream, const char *format, ...)
{
    va_list args;
    int n;

    (void) stream;
    va_start(args, format);
    n = vsnprintf(util_line, sizeof(util_line), format, args);
    va_end(args);
    return n;
}

/* A Mercury program that replaces the functions of its log gets hg's lines. */
HG_TEST(util_log_functions_control_the_library)
{
    FILE *stream = tmpfile();

    HG_CHECK(stream != NULL);
    hg_log_set_level(HG_LOG_LEVEL_ERROR);
    hg_log_set_stream_error(stream);
    HG_CHECK(HG_Init("no+such://", 0) == NULL);
    HG_CHECK(strstr(util_logged(stream), "hg: error: ") != NULL);
    hg_log_set_func(util_print);
    HG_CHECK(hg_log_get_func() == util_print);
    HG_CHECK(HG_Init("no+such://", 0) == NULL);
    HG_CHECK(strstr(util_line, "hg: error: ") != NULL);
    util_line[0] = '\0';
    hg_log_set_level(HG_LOG_LEVEL_NONE);
    HG_CHECK(HG_Init("no+such://", 0) == NULL);
    HG_CHECK_EQ_STR(util_line, "");
    hg_log_set_func(NULL);
    hg_log_set_stream_error(NULL);
    (void) fclose(stream);
}

HG_TEST(util_levels_have_names)
{
    HG_CHECK_EQ_INT(hg_log_name_to_level("WARNING"), HG_LOG_LEVEL_WARNING);
    HG_CHECK_EQ_INT(hg_log_name_to_level("none"), HG_LOG_LEVEL_NONE);
    HG_CHECK_EQ_INT(hg_log_name_to_level(NULL), HG_LOG_LEVEL_NONE);
    HG_CHECK_EQ_INT(hg_log_name_to_level("loud"), HG_LOG_LEVEL_NONE);
    HG_CHECK_EQ_STR(hg_log_level_to_string(HG_LOG_LEVEL_DEBUG), "debug");
}
