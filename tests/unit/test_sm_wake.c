/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport sm asleep: no wake-up is lost, whatever both sides are doing
 * when a message comes, and sleeping costs next to nothing. Two classes, each
 * with a thread, in one process; the look at all rings once a second, which
 * would cure a lost wake-up, is put off for ever.
 */
#include "support/house.h"

#include "harness.h"

#if HG_ENABLE_SM

#include <poll.h>
#include <sys/resource.h>

struct wake_side {
    na_class_t *na_class;
    na_context_t *context;
    na_addr_t peer;
    uint64_t random;
    unsigned rounds;
    bool by_fd; /* sleep on the descriptor, as an event loop does */
    _Atomic unsigned got;
};

static na_return_t wake_received(const struct na_cb_info *info)
{
    struct wake_side *side = (struct wake_side *) info->arg;

    HG_CHECK_OK(info->ret);
    atomic_fetch_add(&side->got, 1);
    return NA_SUCCESS;
}

struct wake_lookup {
    bool done;
    na_addr_t addr;
};

static na_return_t wake_found(const struct na_cb_info *info)
{
    struct wake_lookup *lookup = (struct wake_lookup *) info->arg;

    HG_CHECK_OK(info->ret);
    lookup->addr = info->info.lookup.addr;
    lookup->done = true;
    return NA_SUCCESS;
}

static void wake_open(struct wake_side *side, unsigned mode, uint64_t seed)
{
    static const struct na_init_info fresh = NA_INIT_INFO_INITIALIZER;
    struct na_init_info info = fresh;

    memset(side, 0, sizeof(*side));
    info.wait_mode = (uint8_t) mode;
    info.spin_us = 5;
    side->na_class = NA_Initialize_opt("sm://", NA_TRUE, &info);
    HG_CHECK(side->na_class != NULL);
    side->context = NA_Context_create(side->na_class);
    HG_CHECK(side->context != NULL);
    side->random = seed;
}

static void wake_turn(struct wake_side *side, unsigned ms)
{
    na_return_t ret = NA_Progress(side->na_class, side->context, ms);
    unsigned count = 0;

    HG_CHECK(ret == NA_SUCCESS || ret == NA_TIMEOUT);
    (void) NA_Trigger(side->context, 0, 100, &count);
}

/* Look `to` up, turning both wheels. */
static void wake_meet(struct wake_side *from, struct wake_side *to)
{
    struct wake_lookup lookup = {false, NA_ADDR_NULL};

    HG_CHECK_OK(NA_Addr_lookup(from->na_class, from->context, wake_found,
        &lookup, to->na_class->self_addr->name, NA_OP_ID_IGNORE));
    while (!lookup.done) {
        wake_turn(from, 0);
        wake_turn(to, 0);
    }
    from->peer = lookup.addr;
}

/* No look at all rings from here on. */
static void wake_put_off_scans(struct wake_side *side)
{
    struct na_sm_class *self = na_sm_of(side->na_class);

    HG_CHECK(self->scan_at > 0); /* there was one, so this stays */
    self->scan_at = UINT64_MAX - 1;
    self->tick = UINT64_MAX - 1;
}

static void wake_close(struct wake_side *side)
{
    HG_CHECK_OK(NA_Addr_free(side->na_class, side->peer));
    HG_CHECK_OK(NA_Context_destroy(side->na_class, side->context));
    HG_CHECK_OK(NA_Finalize(side->na_class));
}

/* Up to 64 us of something else, mostly nothing. */
static void wake_dawdle(struct wake_side *side)
{
    uint64_t pick = hg_test_random(&side->random);
    uint64_t until;

    if (pick % 3 != 0)
        return;
    if (pick % 5 == 0)
        (void) sched_yield();
    until = hg_clock_now() + (pick >> 8) % (pick % 17 == 0 ? 64000 : 4000);
    while (hg_clock_now() < until)
        hg_clock_relax();
}

static void wake_sleep(struct wake_side *side)
{
    struct pollfd fd;

    if (!side->by_fd) {
        wake_turn(side, 10000);
        return;
    }
    fd.fd = NA_Poll_get_fd(side->na_class, side->context);
    fd.events = POLLIN;
    if (NA_Poll_try_wait(side->na_class, side->context) == NA_TRUE) {
        wake_dawdle(side);
        HG_CHECK_EQ_INT(poll(&fd, 1, 10000), 1);
    }
    wake_turn(side, 0);
}

/* Send, then wait for as many as were sent. */
static void *wake_play(void *arg)
{
    struct wake_side *side = (struct wake_side *) arg;
    char got, byte = 'x';
    unsigned i;

    for (i = 0; i < side->rounds; i++) {
        uint64_t begin = hg_clock_now();

        HG_CHECK_OK(NA_Msg_recv_expected(side->na_class, side->context,
            wake_received, side, &got, 1, side->peer, 1, NA_OP_ID_IGNORE));
        wake_dawdle(side);
        HG_CHECK_OK(NA_Msg_send_expected(side->na_class, side->context, NULL,
            NULL, &byte, 1, side->peer, 1, NA_OP_ID_IGNORE));
        while (atomic_load(&side->got) <= i) {
            wake_dawdle(side);
            wake_sleep(side);
        }
        /* A lost wake-up would last until the end of a sleep. */
        HG_CHECK(hg_clock_now() - begin < 9000 * UINT64_C(1000000));
    }
    return NULL;
}

static void wake_race(unsigned mode, bool by_fd, unsigned rounds)
{
    struct wake_side one, two;
    uint64_t seed = hg_test_seed();
    pthread_t thread;

    wake_open(&one, mode, seed);
    wake_open(&two, mode, seed + 1);
    wake_meet(&one, &two);
    wake_meet(&two, &one);
    /* One pair serves both; the other stands idle. */
    wake_put_off_scans(&one);
    wake_put_off_scans(&two);
    one.rounds = two.rounds = rounds;
    one.by_fd = two.by_fd = by_fd;
    HG_CHECK(pthread_create(&thread, NULL, wake_play, &two) == 0);
    (void) wake_play(&one);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    wake_close(&one);
    wake_close(&two);
}

static unsigned wake_rounds(void)
{
    return getenv("HG_TEST_FULL") != NULL ? 1000000
        : hg_test_is_plain()              ? 20000
                                          : 2000;
}

HG_TEST_SECONDS(sm_wake_is_never_lost, 600)
{
    wake_race(NA_WAIT_BLOCK, false, wake_rounds());
}

HG_TEST_SECONDS(sm_wake_is_never_lost_by_who_spins_first, 600)
{
    wake_race(NA_WAIT_ADAPTIVE, false, wake_rounds());
}

/* There is a descriptor to poll only with epoll. */
static bool wake_has_fd(void)
{
    return HG_ENABLE_EPOLL;
}

HG_TEST_WHERE_SECONDS(sm_wake_is_never_lost_by_an_event_loop, wake_has_fd, 600)
{
    wake_race(NA_WAIT_BLOCK, true, wake_rounds());
}

/* One context's thread eats the bell that was for another's, and goes away
 * with work left. */
HG_TEST_WHERE(sm_wake_is_passed_on_by_who_leaves_work, wake_has_fd)
{
    struct wake_side one, two;
    struct pollfd fd = {-1, POLLIN, 0};
    na_context_t *sleeper;
    unsigned i;

    wake_open(&one, NA_WAIT_BLOCK, 1);
    wake_open(&two, NA_WAIT_BLOCK, 2);
    wake_meet(&two, &one);
    wake_meet(&one, &two);
    sleeper = NA_Context_create(one.na_class);
    HG_CHECK(sleeper != NULL);
    fd.fd = NA_Poll_get_fd(one.na_class, sleeper);
    while (NA_Poll_try_wait(one.na_class, sleeper) != NA_TRUE)
        (void) NA_Progress(one.na_class, sleeper, 0);
    for (i = 0; i < 200; i++)
        HG_CHECK_OK(NA_Msg_send_unexpected(two.na_class, two.context, NULL,
            NULL, "x", 1, two.peer, 1, NA_OP_ID_IGNORE));
    HG_CHECK_EQ_INT(poll(&fd, 1, 10000), 1);
    atomic_store(&na_sm_of(one.na_class)->rung, true); /* look at the bells */
    (void) NA_Progress(one.na_class, one.context, 0);
    HG_CHECK_EQ_INT(poll(&fd, 1, 0), 1);
    HG_CHECK_OK(NA_Context_destroy(one.na_class, sleeper));
    wake_close(&one);
    wake_close(&two);
}

/* ---- What sleeping costs ---- */

HG_TEST(sm_wake_costs_little_asleep)
{
    struct wake_side one, two;
    struct rusage before, after;
    unsigned seconds = getenv("HG_TEST_FULL") != NULL ? 10 : 3;
    long switches;

    wake_open(&one, NA_WAIT_ADAPTIVE, 1);
    wake_open(&two, NA_WAIT_ADAPTIVE, 1);
    wake_meet(&one, &two);
    wake_turn(&one, 10);
    HG_CHECK(getrusage(RUSAGE_THREAD, &before) == 0);
    wake_turn(&one, seconds * 1000);
    HG_CHECK(getrusage(RUSAGE_THREAD, &after) == 0);
    switches = after.ru_nvcsw - before.ru_nvcsw;
    printf("%ld switches, %ld us of processor in %u s\n", switches,
        (after.ru_utime.tv_sec - before.ru_utime.tv_sec +
            after.ru_stime.tv_sec - before.ru_stime.tv_sec) *
                1000000 +
            after.ru_utime.tv_usec - before.ru_utime.tv_usec +
            after.ru_stime.tv_usec - before.ru_stime.tv_usec,
        seconds);
    HG_CHECK(switches <= (long) seconds * 2);
    wake_close(&one);
    HG_CHECK_OK(NA_Context_destroy(two.na_class, two.context));
    HG_CHECK_OK(NA_Finalize(two.na_class));
}

#endif
