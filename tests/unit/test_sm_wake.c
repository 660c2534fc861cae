/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport sm asleep: no wakeup is lost, whatever both sides are doing
 * when a message arrives (see support/sm_wake.h). box/test_sm_sleep_cost.c
 * measures the cost of sleeping.
 */
#include "support/sm_wake.h"

#if HG_ENABLE_SM

static unsigned wake_rounds(void)
{
    return getenv("HG_TEST_FULL") != NULL ? 1000000
        : hg_test_is_plain()              ? 20000
                                          : 2000;
}

HG_TEST_SECONDS(sm_wakeup_is_never_lost, 600)
{
    wake_race(NA_WAIT_BLOCK, false, false, wake_rounds());
}

HG_TEST_SECONDS(sm_wakeup_is_never_lost_by_a_thread_that_spins_first, 600)
{
    wake_race(NA_WAIT_ADAPTIVE, false, false, wake_rounds());
}

/* Only with epoll there is a descriptor to poll. */
static bool wake_has_fd(void)
{
    return HG_ENABLE_EPOLL;
}

HG_TEST_WHERE_SECONDS(
    sm_wakeup_is_never_lost_by_an_event_loop, wake_has_fd, 600)
{
    wake_race(NA_WAIT_BLOCK, true, false, wake_rounds());
}

/* As between two users. */
HG_TEST_SECONDS(sm_wakeup_is_never_lost_through_the_socket, 600)
{
    wake_race(NA_WAIT_BLOCK, false, true, wake_rounds() / 4);
}

/* One context's thread drains the ring that was for another's, and leaves with
 * work not done. */
HG_TEST_WHERE(sm_wakeup_is_passed_on_by_a_thread_that_leaves_work, wake_has_fd)
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
    /* Check the descriptors. */
    na_sm_of(one.na_class)->polls = NA_SM_LOOK_POLLS - 1;
    na_sm_of(one.na_class)->look = true;
    (void) NA_Progress(one.na_class, one.context, 0);
    HG_CHECK_EQ_INT(poll(&fd, 1, 0), 1);
    HG_CHECK_OK(NA_Context_destroy(one.na_class, sleeper));
    wake_close(&one);
    wake_close(&two);
}

/* A woken thread has read the earlier messages before it drains the descriptor,
 * and has drained it before it sleeps again. */
HG_TEST_WHERE(
    sm_wakeup_reads_messages_before_it_drains_the_descriptor, wake_has_fd)
{
    struct wake_side one, two;
    struct pollfd fd = {-1, POLLIN, 0};
    unsigned i;

    wake_open(&one, NA_WAIT_BLOCK, 1);
    wake_open(&two, NA_WAIT_BLOCK, 2);
    wake_meet(&two, &one);
    wake_meet(&one, &two);
    wake_put_off_scans(&one);
    fd.fd = NA_Poll_get_fd(one.na_class, one.context);
    for (i = 0; i < 3; i++) {
        while (NA_Poll_try_wait(one.na_class, one.context) != NA_TRUE)
            wake_turn(&one, 0);
        HG_CHECK_EQ_INT(poll(&fd, 1, 0), 0);
        na_sm_of(one.na_class)->polls = 0;
        HG_CHECK_OK(NA_Msg_send_unexpected(two.na_class, two.context, NULL,
            NULL, "x", 1, two.peer, 1, NA_OP_ID_IGNORE));
        HG_CHECK_EQ_INT(poll(&fd, 1, 10000), 1);
        wake_turn(&one, 0);
        HG_CHECK_EQ_INT(poll(&fd, 1, 0), 1);
        HG_CHECK(NA_Poll_try_wait(one.na_class, one.context) == NA_FALSE);
        wake_turn(&one, 0);
        HG_CHECK_EQ_INT(poll(&fd, 1, 0), 0);
    }
    wake_close(&one);
    wake_close(&two);
}

/* As an event loop does; no check of the sockets is due then. */
static void wake_prepare_sleep(struct wake_side *side)
{
    while (NA_Poll_try_wait(side->na_class, side->context) != NA_TRUE)
        wake_turn(side, 0);
    na_sm_of(side->na_class)->look_at = UINT64_MAX - 1;
    na_sm_of(side->na_class)->polls = 0;
}

static bool wake_has_looked(const struct wake_side *side)
{
    return na_sm_of(side->na_class)->look_at != UINT64_MAX - 1;
}

static void wake_ring(struct wake_side *side)
{
    HG_CHECK_OK(NA_Msg_send_unexpected(side->na_class, side->context, NULL,
        NULL, "x", 1, side->peer, 1, NA_OP_ID_IGNORE));
}

/* One poll drains the rings of all peers, once for each sleep. */
static void wake_drains(bool by_socket)
{
    struct wake_side one, two, three;
    struct pollfd fd = {-1, POLLIN, 0};
    unsigned i;

    wake_open(&one, NA_WAIT_BLOCK, 1);
    wake_open(&two, NA_WAIT_BLOCK, 2);
    wake_open(&three, NA_WAIT_BLOCK, 3);
    wake_meet(&two, &one);
    wake_meet(&three, &one);
    wake_meet(&one, &two);
    if (by_socket) {
        wake_take_bell(&two);
        wake_take_bell(&three);
    }
    wake_put_off_scans(&one);
    fd.fd = NA_Poll_get_fd(one.na_class, one.context);
    for (i = 0; i < 6; i++) {
        wake_prepare_sleep(&one);
        HG_CHECK_EQ_INT(poll(&fd, 1, 0), 0);
        wake_ring(i % 2 == 0 ? &two : &three);
        if (i >= 3)
            wake_ring(i % 2 == 0 ? &three : &two);
        HG_CHECK_EQ_INT(poll(&fd, 1, 10000), 1);
        wake_turn(&one, 0); /* receives them */
        HG_CHECK(!wake_has_looked(&one));
        wake_turn(&one, 0); /* drains the descriptor */
        HG_CHECK(wake_has_looked(&one));
        HG_CHECK_EQ_INT(poll(&fd, 1, 0), 0);
    }
    wake_prepare_sleep(&one);
    wake_close(&three);
    HG_CHECK_EQ_INT(poll(&fd, 1, 10000), 1);
    while (!wake_has_looked(&one))
        wake_turn(&one, 0);
    wake_close(&one);
    wake_close(&two);
}

HG_TEST_WHERE(sm_wakeup_drains_all_rings_at_once, wake_has_fd)
{
    wake_drains(false);
}

HG_TEST_WHERE(sm_wakeup_drains_all_rings_of_sockets_at_once, wake_has_fd)
{
    wake_drains(true);
}

/* A ring that was not drained because its sleep had ended ends no other sleep:
 * it is drained before that. */
HG_TEST_WHERE(sm_wakeup_late_ring_ends_no_sleep, wake_has_fd)
{
    struct wake_side one, two;
    struct pollfd fd = {-1, POLLIN, 0};

    wake_open(&one, NA_WAIT_BLOCK, 1);
    wake_open(&two, NA_WAIT_BLOCK, 2);
    wake_meet(&two, &one);
    wake_meet(&one, &two);
    wake_put_off_scans(&one);
    fd.fd = NA_Poll_get_fd(one.na_class, one.context);
    wake_prepare_sleep(&one);
    wake_turn(&one, 0);
    na_sm_bell_ring(na_sm_addr_of(two.peer)->peer_bell);
    HG_CHECK_EQ_INT(poll(&fd, 1, 0), 1);
    wake_prepare_sleep(&one);
    HG_CHECK_EQ_INT(poll(&fd, 1, 0), 1); /* late: it ends this sleep */
    wake_turn(&one, 0);
    wake_prepare_sleep(&one);
    HG_CHECK_EQ_INT(poll(&fd, 1, 0), 0);
    wake_close(&one);
    wake_close(&two);
}

/* A thread that sleeps with a message that did not fit is woken when there is
 * space again. */
HG_TEST_WHERE(sm_wakeup_is_sent_when_a_full_ring_has_space, wake_has_fd)
{
    static const char bytes[NA_SM_MSG_MAX] = {0};
    struct wake_side one, two;
    struct pollfd fd = {-1, POLLIN, 0};

    wake_open(&one, NA_WAIT_BLOCK, 1);
    wake_open(&two, NA_WAIT_BLOCK, 2);
    wake_meet(&two, &one);
    wake_meet(&one, &two);
    wake_put_off_scans(&one);
    fd.fd = NA_Poll_get_fd(one.na_class, one.context);
    while (!na_sm_addr_of(one.peer)->full)
        HG_CHECK_OK(NA_Msg_send_unexpected(one.na_class, one.context, NULL,
            NULL, bytes, sizeof(bytes), one.peer, 1, NA_OP_ID_IGNORE));
    wake_prepare_sleep(&one);
    HG_CHECK_EQ_INT(poll(&fd, 1, 0), 0);
    wake_turn(&two, 0); /* reads what is in the ring */
    HG_CHECK_EQ_INT(poll(&fd, 1, 0), 1);
    wake_turn(&one, 0);
    HG_CHECK(!na_sm_addr_of(one.peer)->full);
    wake_close(&one);
    wake_close(&two);
}

/* A descriptor that can be written without blocking, without a signal, and with
 * no effect but waking. */
HG_TEST(sm_wakeup_descriptor_is_distinguished_from_others)
{
    int bell = na_sm_bell_open();
    int blocking = eventfd(0, EFD_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int memory = memfd_create("no bell", MFD_CLOEXEC);
    int ends[2], sockets[2];

    HG_CHECK(bell >= 0 && blocking >= 0 && timer >= 0 && memory >= 0);
    HG_CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    HG_CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                 sockets) == 0);
    HG_CHECK(fcntl(memory, F_SETFL, O_NONBLOCK) == 0);
    HG_CHECK(na_sm_bell_is_one(bell));
    HG_CHECK(!na_sm_bell_is_one(blocking));
    na_sm_bell_ring(timer); /* not valid either: it cannot be written */
    HG_CHECK(!na_sm_bell_is_one(memory));
    HG_CHECK(!na_sm_bell_is_one(ends[0]) && !na_sm_bell_is_one(ends[1]));
    HG_CHECK(!na_sm_bell_is_one(sockets[0]));
    (void) close(memory);
    HG_CHECK(!na_sm_bell_is_one(memory));
    (void) close(bell);
    (void) close(blocking);
    (void) close(timer);
    (void) close(ends[0]);
    (void) close(ends[1]);
    (void) close(sockets[0]);
    (void) close(sockets[1]);
}

/* Another context sleeps on when one has drained the ring: the peer that rang
 * for that sleep rings again. */
HG_TEST_WHERE(sm_wakeup_is_repeated_for_a_thread_that_sleeps_on, wake_has_fd)
{
    struct wake_side one, two;
    struct pollfd fd = {-1, POLLIN, 0};
    na_context_t *sleeper;

    wake_open(&one, NA_WAIT_BLOCK, 1);
    wake_open(&two, NA_WAIT_BLOCK, 2);
    wake_meet(&two, &one);
    wake_meet(&one, &two);
    wake_put_off_scans(&one);
    sleeper = NA_Context_create(one.na_class);
    HG_CHECK(sleeper != NULL);
    fd.fd = NA_Poll_get_fd(one.na_class, sleeper);
    wake_prepare_sleep(&one);
    while (NA_Poll_try_wait(one.na_class, sleeper) != NA_TRUE)
        (void) NA_Progress(one.na_class, sleeper, 0);
    wake_prepare_sleep(&one);
    wake_ring(&two);
    HG_CHECK_EQ_INT(poll(&fd, 1, 10000), 1);
    wake_turn(&one, 0); /* receives */
    wake_turn(&one, 0); /* drains the descriptor */
    HG_CHECK_EQ_INT(poll(&fd, 1, 0), 0);
    HG_CHECK_EQ_INT(na_sm_of(one.na_class)->sleepers, 1);
    wake_ring(&two);
    HG_CHECK_EQ_INT(poll(&fd, 1, 0), 1);
    HG_CHECK_OK(NA_Context_destroy(one.na_class, sleeper));
    wake_close(&one);
    wake_close(&two);
}

/* A process that computes and polls from time to time accepts a connection in a
 * few polls, although busy polls rarely read the clock. */
HG_TEST(sm_that_polls_rarely_is_connected_in_a_few_polls)
{
    const struct timespec work = {0, 5000000};
    struct wake_lookup lookup = {false, NA_ADDR_NULL};
    struct wake_side rare, other;
    unsigned polls;

    wake_open(&rare, NA_WAIT_BLOCK, 1);
    wake_open(&other, NA_WAIT_BLOCK, 2);
    wake_turn(&rare, 0);
    HG_CHECK_OK(NA_Addr_lookup(other.na_class, other.context, wake_found,
        &lookup, rare.na_class->self_addr->name, NA_OP_ID_IGNORE));
    for (polls = 0; !lookup.done && polls < 100; polls++) {
        (void) nanosleep(&work, NULL);
        wake_turn(&other, 0);
        wake_turn(&rare, 0);
        wake_turn(&other, 0);
    }
    HG_CHECK(polls <= 4);
    other.peer = lookup.addr;
    wake_meet(&rare, &other);
    wake_close(&rare);
    wake_close(&other);
}

#endif
