/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules clock, lock and waker. Tests of the waker hold for the eventfd
 * and for the pipe: the whole suite is also built with HG_ENABLE_EPOLL 0.
 */
#include "support/library.h"

#include "harness.h"

#include <sys/resource.h>
#include <sys/time.h>

/* ---- clock ---- */

HG_TEST(clock_deadlines_saturate)
{
    uint64_t before = hg_clock_now();
    uint64_t deadline = hg_clock_after_ms(1000);
    uint64_t after = hg_clock_now();

    HG_CHECK(before > 0 && after >= before);
    HG_CHECK(deadline >= before + 1000 * UINT64_C(1000000));
    HG_CHECK(deadline <= after + 1000 * UINT64_C(1000000));
    HG_CHECK(hg_clock_after_ms(UINT_MAX) > after);

    HG_CHECK_EQ_INT(hg_clock_ms_until(0), 0);
    HG_CHECK_EQ_INT(hg_clock_ms_until(before), 0);
    HG_CHECK_EQ_INT(hg_clock_ms_until(HG_CLOCK_NEVER), INT_MAX);
    HG_CHECK_EQ_INT(hg_clock_ms_until(HG_CLOCK_NEVER - 1), INT_MAX);
    HG_CHECK(hg_clock_ms_until(hg_clock_after_ms(100000)) <= 100000);
    HG_CHECK(hg_clock_ms_until(hg_clock_after_ms(100000)) > 0);
}

HG_TEST(clock_rounds_up)
{
    uint64_t deadline = hg_clock_now() + 20 * HG_CLOCK_MS;
    int ms;

    /* While time is left, at least a millisecond is slept. */
    do {
        uint64_t now = hg_clock_now();

        ms = hg_clock_ms_until(deadline);
        if (ms == 0)
            HG_CHECK(hg_clock_now() >= deadline);
        else
            HG_CHECK(now < deadline);
        hg_clock_relax();
    } while (ms > 0);
}

/* An age matches the clock, within a small fraction. */
HG_TEST(clock_computes_ages)
{
    struct hg_clock_pair born;
    uint64_t began = hg_clock_now();
    uint64_t ticks;
    uint64_t now;
    uint64_t age;

    hg_clock_pair_init(&born);
    while (hg_clock_now() < began + 5 * HG_CLOCK_MS)
        hg_clock_relax();
    began = hg_clock_now();
    ticks = hg_clock_ticks();
    while (hg_clock_now() < began + 20 * HG_CLOCK_MS)
        hg_clock_relax();
    age = hg_clock_age(&born, ticks);
    now = hg_clock_now();
    HG_CHECK(age >= 10 * HG_CLOCK_MS && age <= 2 * (now - began));
    HG_CHECK(hg_clock_age(&born, born.ticks) >= age);
    HG_CHECK_EQ_U64(hg_clock_age(&born, UINT64_MAX), 0);
    born.ticks = UINT64_MAX;
    HG_CHECK_EQ_U64(hg_clock_age(&born, ticks), 0);
}

HG_TEST(clock_random_numbers_differ)
{
    uint64_t all_ones = UINT64_MAX;
    uint64_t any_ones = 0;
    uint64_t last = hg_clock_random();
    unsigned i;

    for (i = 0; i < 200; i++) {
        uint64_t next = hg_clock_random();

        HG_CHECK(next != last);
        all_ones &= next;
        any_ones |= next;
        last = next;
    }
    HG_CHECK_EQ_U64(all_ones, 0);
    HG_CHECK_EQ_U64(any_ones, UINT64_MAX);
}

/* ---- lock ---- */

struct waker_door {
    struct hg_monitor monitor;
    bool open;
};

/* Other threads get the lock while a thread pauses. */
static void *waker_open_door(void *arg)
{
    struct waker_door *door = (struct waker_door *) arg;

    hg_enter(&door->monitor);
    door->open = true;
    hg_leave(&door->monitor);
    return NULL;
}

HG_TEST(lock_is_free_during_a_pause)
{
    struct waker_door door;
    pthread_t thread;

    door.open = false;
    HG_CHECK_OK(hg_monitor_init(&door.monitor));
    hg_enter(&door.monitor);
    HG_CHECK(pthread_create(&thread, NULL, waker_open_door, &door) == 0);
    while (!door.open)
        HG_CHECK(hg_pause(&door.monitor));
    hg_leave(&door.monitor);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    hg_monitor_fini(&door.monitor);
}

/* A thread that continues with a lock lets waiting threads have it. */
HG_TEST(lock_is_passed_to_a_waiting_thread)
{
    struct waker_door door;
    pthread_t thread;

    door.open = false;
    HG_CHECK_OK(hg_monitor_init(&door.monitor));
    hg_enter(&door.monitor);
    HG_CHECK(pthread_create(&thread, NULL, waker_open_door, &door) == 0);
    while (!door.open)
        hg_pass(&door.monitor);
    hg_leave(&door.monitor);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    hg_monitor_fini(&door.monitor);
}

/* ---- waker ---- */

static bool waker_is_readable(const struct hg_waker *waker)
{
    struct pollfd fd = {waker->read_fd, POLLIN, 0};

    return poll(&fd, 1, 0) == 1;
}

HG_TEST(waker_rings_only_when_armed)
{
    struct hg_waker waker;
    unsigned fds = hg_test_fd_count();

    HG_CHECK(hg_waker_init(&waker));
    HG_CHECK_EQ_U64(hg_test_fd_count(), fds + (HG_ENABLE_EPOLL ? 1 : 2));
    HG_CHECK(fcntl(waker.read_fd, F_GETFD) & FD_CLOEXEC);
    HG_CHECK(fcntl(waker.write_fd, F_GETFD) & FD_CLOEXEC);
    hg_waker_ring(&waker);
    HG_CHECK(!waker_is_readable(&waker));

    hg_waker_arm(&waker);
    HG_CHECK(!waker_is_readable(&waker));
    HG_CHECK_RET(hg_waker_sleep(&waker, NULL, 0, 0), HG_TIMEOUT);
    errno = ENOTTY;
    hg_waker_ring(&waker);
    hg_waker_ring(&waker);
    HG_CHECK_EQ_INT(errno, ENOTTY);
    HG_CHECK_OK(hg_waker_sleep(&waker, NULL, 0, HG_CLOCK_NEVER));
    HG_CHECK(waker_is_readable(&waker));

    /* Readable until the last one disarms. */
    hg_waker_arm(&waker);
    hg_waker_disarm(&waker);
    HG_CHECK(waker_is_readable(&waker));
    hg_waker_disarm(&waker);
    HG_CHECK(!waker_is_readable(&waker));
    hg_waker_fini(&waker);
    HG_CHECK_EQ_U64(hg_test_fd_count(), fds);
}

HG_TEST(waker_wakes_for_another_descriptor)
{
    uint64_t deadline = hg_clock_after_ms(10);
    struct hg_waker waker;
    int ends[2];

    HG_CHECK(hg_waker_init(&waker));
    HG_CHECK(pipe(ends) == 0);
    hg_waker_arm(&waker);
    HG_CHECK_RET(hg_waker_sleep(&waker, &ends[0], 1, deadline), HG_TIMEOUT);
    HG_CHECK(hg_clock_now() >= deadline);
    HG_CHECK(write(ends[1], "x", 1) == 1);
    HG_CHECK_OK(hg_waker_sleep(&waker, &ends[0], 1, HG_CLOCK_NEVER));
    HG_CHECK(!waker_is_readable(&waker));
    hg_waker_disarm(&waker);
    hg_waker_fini(&waker);
    close(ends[0]);
    close(ends[1]);
}

static void waker_on_alarm(int signal_number)
{
    (void) signal_number;
}

HG_TEST(waker_sleep_ends_with_a_signal)
{
    /* Repeated: the first signal may come before the sleep. */
    static const struct itimerval often = {{0, 5000}, {0, 5000}};
    static const struct itimerval never = {{0, 0}, {0, 0}};
    struct sigaction action;
    struct hg_waker waker;

    memset(&action, 0, sizeof(action));
    action.sa_handler = waker_on_alarm;
    HG_CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    HG_CHECK(hg_waker_init(&waker));
    hg_waker_arm(&waker);
    HG_CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    HG_CHECK_RET(hg_waker_sleep(&waker, NULL, 0, HG_CLOCK_NEVER), HG_INTR);
    HG_CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    hg_waker_disarm(&waker);
    hg_waker_fini(&waker);
}

HG_TEST(waker_reports_missing_descriptors)
{
    struct rlimit limit;
    struct hg_waker waker;
    int fds[64];
    unsigned count = 0;

    HG_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 64;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while ((fds[count] = dup(STDERR_FILENO)) >= 0)
        count++;
    HG_CHECK(!hg_waker_init(&waker) && errno == EMFILE);
    while (count > 0)
        close(fds[--count]);
    HG_CHECK(hg_waker_init(&waker));
    hg_waker_fini(&waker);
}

#define WAKER_HANDOVERS 20000u
#define WAKER_SLEEPERS 3u

/* A place for one number, and the threads that wait for it to be empty or full.
 * The number has no memory order of its own: the wakers must provide it. */
struct waker_mailbox {
    atomic_uint number;
    struct hg_waker full;
    struct hg_waker empty;
    uint64_t seed;
};

static void waker_delay(uint64_t *state)
{
    uint64_t dice = hg_test_random(state);
    unsigned spins = dice % 4 == 0 ? 0 : (unsigned) (dice >> 8) % 300;

    if (dice % 64 == 1)
        sched_yield();
    while (spins-- > 0)
        hg_clock_relax();
}

/* Wait until the mailbox is full, or empty; returns its number. */
static unsigned waker_await(struct waker_mailbox *box, bool full)
{
    struct hg_waker *waker = full ? &box->full : &box->empty;
    unsigned number;

    for (;;) {
        number = atomic_load_explicit(&box->number, memory_order_relaxed);
        if ((number != 0) == full)
            return number;
        hg_waker_arm(waker);
        number = atomic_load_explicit(&box->number, memory_order_relaxed);
        if ((number != 0) != full)
            HG_CHECK_OK(
                hg_waker_sleep(waker, NULL, 0, hg_clock_after_ms(15000)));
        hg_waker_disarm(waker);
    }
}

static void *waker_reader(void *arg)
{
    struct waker_mailbox *box = (struct waker_mailbox *) arg;
    uint64_t state = box->seed + 1;
    unsigned i;

    for (i = 1; i <= WAKER_HANDOVERS; i++) {
        HG_CHECK_EQ_U64(waker_await(box, true), i);
        waker_delay(&state);
        atomic_store_explicit(&box->number, 0, memory_order_relaxed);
        hg_waker_ring(&box->empty);
    }
    return NULL;
}

HG_TEST_SECONDS(waker_loses_no_message_between_two_threads, 60)
{
    struct waker_mailbox box;
    pthread_t thread;
    uint64_t state;
    unsigned i;

    box.seed = hg_test_seed();
    state = box.seed;
    atomic_init(&box.number, 0);
    HG_CHECK(hg_waker_init(&box.full));
    HG_CHECK(hg_waker_init(&box.empty));
    HG_CHECK(pthread_create(&thread, NULL, waker_reader, &box) == 0);
    for (i = 1; i <= WAKER_HANDOVERS; i++) {
        waker_await(&box, false);
        waker_delay(&state);
        atomic_store_explicit(&box.number, i, memory_order_relaxed);
        hg_waker_ring(&box.full);
    }
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK(!waker_is_readable(&box.full));
    HG_CHECK(!waker_is_readable(&box.empty));
    hg_waker_fini(&box.full);
    hg_waker_fini(&box.empty);
}

/* Items that several threads wait for with one waker. */
struct waker_store {
    atomic_uint goods;
    atomic_uint taken;
    pthread_mutex_t mutex; /* around arming and disarming */
    struct hg_waker waker;
};

static bool waker_take_one(struct waker_store *store)
{
    unsigned goods = atomic_load_explicit(&store->goods, memory_order_relaxed);

    while (goods > 0)
        if (atomic_compare_exchange_weak_explicit(&store->goods, &goods,
                goods - 1, memory_order_relaxed, memory_order_relaxed)) {
            atomic_fetch_add(&store->taken, 1);
            return true;
        }
    return false;
}

static void *waker_buyer(void *arg)
{
    struct waker_store *store = (struct waker_store *) arg;
    unsigned i;

    for (i = 0; i < WAKER_HANDOVERS / 10; i++)
        while (!waker_take_one(store)) {
            bool took;

            hg_lock(&store->mutex);
            hg_waker_arm(&store->waker);
            hg_unlock(&store->mutex);
            took = waker_take_one(store);
            if (!took)
                HG_CHECK_OK(hg_waker_sleep(
                    &store->waker, NULL, 0, hg_clock_after_ms(15000)));
            hg_lock(&store->mutex);
            hg_waker_disarm(&store->waker);
            hg_unlock(&store->mutex);
            if (took)
                break;
        }
    return NULL;
}

HG_TEST_SECONDS(waker_serves_several_sleepers, 60)
{
    pthread_t threads[WAKER_SLEEPERS];
    struct waker_store store;
    uint64_t state = hg_test_seed();
    unsigned i;

    atomic_init(&store.goods, 0);
    atomic_init(&store.taken, 0);
    HG_CHECK_OK(hg_lock_init(&store.mutex));
    HG_CHECK(hg_waker_init(&store.waker));
    for (i = 0; i < WAKER_SLEEPERS; i++)
        HG_CHECK(pthread_create(&threads[i], NULL, waker_buyer, &store) == 0);
    for (i = 0; i < WAKER_SLEEPERS * (WAKER_HANDOVERS / 10); i++) {
        waker_delay(&state);
        atomic_fetch_add_explicit(&store.goods, 1, memory_order_relaxed);
        hg_waker_ring(&store.waker);
    }
    for (i = 0; i < WAKER_SLEEPERS; i++)
        HG_CHECK(pthread_join(threads[i], NULL) == 0);
    HG_CHECK_EQ_U64(
        atomic_load(&store.taken), WAKER_SLEEPERS * (WAKER_HANDOVERS / 10));
    HG_CHECK(!waker_is_readable(&store.waker));
    hg_waker_fini(&store.waker);
    pthread_mutex_destroy(&store.mutex);
}

#define WAKER_MEETINGS 50000u

/* Two threads that act at the same instant, again and again: one makes a change
 * and rings, the other arms and checks. */
struct waker_meeting {
    _Alignas(64) atomic_uint arrived;
    _Alignas(64) atomic_uint change;
    struct hg_waker waker;
};

/* Continue when both threads are here for the `count`th time. */
static void waker_meet(struct waker_meeting *meeting, unsigned count)
{
    unsigned spins = 0;

    atomic_fetch_add(&meeting->arrived, 1);
    while (atomic_load(&meeting->arrived) < 2 * count)
        if (++spins % 1000 == 0)
            sched_yield();
}

static void *waker_changer(void *arg)
{
    struct waker_meeting *meeting = (struct waker_meeting *) arg;
    unsigned i;

    for (i = 1; i <= WAKER_MEETINGS; i++) {
        waker_meet(meeting, 2 * i - 1);
        atomic_store_explicit(&meeting->change, i, memory_order_relaxed);
        hg_waker_ring(&meeting->waker);
        waker_meet(meeting, 2 * i);
    }
    return NULL;
}

HG_TEST_SECONDS(waker_ring_or_sleeper_check_sees_the_other_side, 180)
{
    struct waker_meeting meeting;
    pthread_t thread;
    unsigned i;

    atomic_init(&meeting.arrived, 0);
    atomic_init(&meeting.change, 0);
    HG_CHECK(hg_waker_init(&meeting.waker));
    HG_CHECK(pthread_create(&thread, NULL, waker_changer, &meeting) == 0);
    for (i = 1; i <= WAKER_MEETINGS; i++) {
        unsigned seen;

        waker_meet(&meeting, 2 * i - 1);
        hg_waker_arm(&meeting.waker);
        seen = atomic_load_explicit(&meeting.change, memory_order_relaxed);
        waker_meet(&meeting, 2 * i);
        HG_CHECK(seen == i || waker_is_readable(&meeting.waker));
        hg_waker_disarm(&meeting.waker);
    }
    HG_CHECK(pthread_join(thread, NULL) == 0);
    hg_waker_fini(&meeting.waker);
}
