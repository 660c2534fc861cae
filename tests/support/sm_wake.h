/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_wake: a race of wakeups over the transport sm, used by the unit tests and
 * by tests that delay it at its steps. Two classes in one process, each with a
 * thread, send to each other and sleep until a message arrives. The check of
 * all rings once a second, which would hide a lost wakeup, is disabled, so a
 * lost wakeup lasts until the end of a sleep of 10 s.
 */
#ifndef HG_TESTS_SM_WAKE_H
#define HG_TESTS_SM_WAKE_H

#include "support/library.h"

#include "harness.h"

#if HG_ENABLE_SM

#include <poll.h>

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

/* Look `to` up; both sides make progress. */
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

/* Disable the check of all rings. */
static void wake_put_off_scans(struct wake_side *side)
{
    struct na_sm_class *self = na_sm_of(side->na_class);

    HG_CHECK(self->scan_at > 0); /* it was due, so this stays set */
    self->scan_at = UINT64_MAX - 1;
    self->tick = UINT64_MAX - 1;
}

/* Make a side ring its peer through the socket, as it does for another user's
 * process. */
static void wake_take_bell(struct wake_side *side)
{
    struct na_sm_addr *addr = na_sm_addr_of(side->peer);

    na_sm_enter(na_sm_of(addr->base.na_class));
    HG_CHECK(addr->peer_bell >= 0 && close(addr->peer_bell) == 0);
    addr->peer_bell = -1;
    na_sm_leave(na_sm_of(addr->base.na_class));
}

static void wake_close(struct wake_side *side)
{
    HG_CHECK_OK(NA_Addr_free(side->na_class, side->peer));
    HG_CHECK_OK(NA_Context_destroy(side->na_class, side->context));
    HG_CHECK_OK(NA_Finalize(side->na_class));
}

/* Do something else for up to 64 us, mostly nothing. */
static void wake_delay(struct wake_side *side)
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
        wake_turn(side, 50000);
        return;
    }
    fd.fd = NA_Poll_get_fd(side->na_class, side->context);
    fd.events = POLLIN;
    if (NA_Poll_try_wait(side->na_class, side->context) == NA_TRUE) {
        wake_delay(side);
        HG_CHECK_EQ_INT(poll(&fd, 1, 50000), 1);
    }
    wake_turn(side, 0);
}

/* Send, then wait for as many messages as were sent. */
static void *wake_play(void *arg)
{
    struct wake_side *side = (struct wake_side *) arg;
    char got, byte = 'x';
    unsigned i;

    for (i = 0; i < side->rounds; i++) {
        uint64_t begin = hg_clock_now();

        HG_CHECK_OK(NA_Msg_recv_expected(side->na_class, side->context,
            wake_received, side, &got, 1, side->peer, 1, NA_OP_ID_IGNORE));
        wake_delay(side);
        HG_CHECK_OK(NA_Msg_send_expected(side->na_class, side->context, NULL,
            NULL, &byte, 1, side->peer, 1, NA_OP_ID_IGNORE));
        while (atomic_load(&side->got) <= i) {
            wake_delay(side);
            wake_sleep(side);
        }
        /* A lost wakeup would last until the end of a sleep. */
        HG_CHECK(hg_clock_now() - begin < 45000 * UINT64_C(1000000));
    }
    return NULL;
}

/* Both sides send and wait `rounds` times: as many wakeups of each. */
static void wake_race(
    unsigned mode, bool by_fd, bool by_socket, unsigned rounds)
{
    struct wake_side one, two;
    uint64_t seed = hg_test_seed();
    pthread_t thread;

    wake_open(&one, mode, seed);
    wake_open(&two, mode, seed + 1);
    wake_meet(&one, &two);
    wake_meet(&two, &one);
    if (by_socket) {
        wake_take_bell(&one);
        wake_take_bell(&two);
    }
    /* One pair serves both directions; the other is unused. */
    wake_put_off_scans(&one);
    wake_put_off_scans(&two);
    one.rounds = two.rounds = rounds;
    one.by_fd = two.by_fd = by_fd;
    HG_CHECK(pthread_create(&thread, NULL, wake_play, &two) == 0);
    (void) wake_play(&one);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    printf("%u wake-ups, %" PRIu64 " sleeps begun\n", 2 * rounds,
        na_sm_of(one.na_class)->sleep + na_sm_of(two.na_class)->sleep);
    wake_close(&one);
    wake_close(&two);
}

#endif
#endif
