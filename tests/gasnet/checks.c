/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checks: mistakes that end the job with words when GASNET_DEBUG is set. The
 * script compares the words. A case that returns has not been noticed.
 */
#define _GNU_SOURCE
#define GASNET_PAR 1
#define GASNET_DEBUG 1
#define GASNET_SPEC 4
#include <unistd.h>

#include "jobs.h"

static gasnet_hsl_t checks_a = GASNET_HSL_INITIALIZER;
static gasnet_hsl_t checks_b = GASNET_HSL_INITIALIZER;
static gasnet_seginfo_t checks_segments[8];

static void checks_keeps_lock(gasnet_token_t token)
{
    (void) token;
    gasnet_hsl_lock(&checks_a);
}

static void checks_replies_locked(gasnet_token_t token)
{
    gasnet_hsl_lock(&checks_a);
    (void) gasnet_AMReplyShort0(token, 205);
}

static void checks_holds(gasnet_token_t token)
{
    (void) token;
    gasnet_hold_interrupts();
}

static void checks_polls(gasnet_token_t token)
{
    (void) token;
    (void) gasnet_AMPoll();
}

static void checks_replies_twice(gasnet_token_t token)
{
    (void) gasnet_AMReplyShort0(token, 205);
    (void) gasnet_AMReplyShort0(token, 205);
}

static void checks_nothing(gasnet_token_t token)
{
    (void) token;
}

static void checks_reply_replies(gasnet_token_t token)
{
    (void) gasnet_AMReplyShort0(token, 205);
}

static void checks_is_replied(gasnet_token_t token)
{
    (void) gasnet_AMReplyShort0(token, 206);
}

static void checks_start(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {HANDLER(200, checks_keeps_lock),
        HANDLER(201, checks_replies_locked), HANDLER(202, checks_holds),
        HANDLER(203, checks_polls), HANDLER(204, checks_replies_twice),
        HANDLER(205, checks_nothing), HANDLER(206, checks_reply_replies),
        HANDLER(207, checks_is_replied)};

    START(table, 8, GASNET_PAGESIZE);
    CHECK(gasnet_getSegmentInfo(checks_segments, 8) == GASNET_OK);
    BARRIER();
}

/* The handler of the node itself makes the mistake. */
static void checks_request(gasnet_handler_t handler)
{
    CHECK(gasnet_AMRequestShort0(gasnet_mynode(), handler) == GASNET_OK);
}

#define CHECKS_CASE(name, statements) \
    static void checks_##name(int argc, char *argv[]) \
    { \
        checks_start(argc, argv); \
        statements; \
        (void) fprintf(stderr, "not noticed\n"); \
        gasnet_exit(0); \
    }

CHECKS_CASE(lock_twice, gasnet_hsl_lock(&checks_a); gasnet_hsl_lock(&checks_a))
CHECKS_CASE(try_twice, gasnet_hsl_lock(&checks_a);
            (void) gasnet_hsl_trylock(&checks_a))
CHECKS_CASE(unlock_order, gasnet_hsl_lock(&checks_a);
            gasnet_hsl_lock(&checks_b); gasnet_hsl_unlock(&checks_a))
CHECKS_CASE(unlock_free, gasnet_hsl_unlock(&checks_a))
CHECKS_CASE(init_twice, gasnet_hsl_init(&checks_a))
CHECKS_CASE(destroy_locked, gasnet_hsl_lock(&checks_a);
            gasnet_hsl_destroy(&checks_a))
CHECKS_CASE(destroy_twice, gasnet_hsl_destroy(&checks_a);
            gasnet_hsl_destroy(&checks_a))
CHECKS_CASE(handler_keeps_lock, checks_request(200))
CHECKS_CASE(reply_locked, checks_request(201))
CHECKS_CASE(hold_in_handler, checks_request(202))
CHECKS_CASE(poll_in_handler, checks_request(203))
CHECKS_CASE(reply_twice, checks_request(204))
CHECKS_CASE(reply_of_reply, checks_request(207))
CHECKS_CASE(hold_locked, gasnet_hsl_lock(&checks_a); gasnet_hold_interrupts())
CHECKS_CASE(resume_locked, gasnet_hsl_lock(&checks_a);
            gasnet_resume_interrupts())
CHECKS_CASE(hold_twice, gasnet_hold_interrupts(); gasnet_hold_interrupts())
CHECKS_CASE(resume_free, gasnet_resume_interrupts())
CHECKS_CASE(request_locked, gasnet_hsl_lock(&checks_a); checks_request(205))
CHECKS_CASE(request_held, gasnet_hold_interrupts(); checks_request(205))
CHECKS_CASE(put_locked, gasnet_hsl_lock(&checks_a);
            gasnet_put_val(0, checks_segments[0].addr, 1, 1))
CHECKS_CASE(put_outside,
    gasnet_put_val(0, (char *) checks_segments[0].addr + GASNET_PAGESIZE, 1, 1))
CHECKS_CASE(get_before,
    (void) gasnet_get_val(0, (char *) checks_segments[0].addr - 1, 2))
CHECKS_CASE(value_outside,
    (void) gasnet_get_nb_val(
        0, (char *) checks_segments[0].addr + GASNET_PAGESIZE - 1, 2))
CHECKS_CASE(memset_outside,
    gasnet_memset(0, checks_segments[0].addr, 0, GASNET_PAGESIZE + 1))
CHECKS_CASE(long_outside,
    (void) gasnet_AMRequestLong0(0, 205, checks_segments, 8,
        (char *) checks_segments[0].addr + GASNET_PAGESIZE - 7))
CHECKS_CASE(put_node, gasnet_put_val(99, checks_segments[0].addr, 1, 1))
CHECKS_CASE(wait_alone, (void) gasnet_barrier_wait(0, 0))
CHECKS_CASE(notify_twice, gasnet_barrier_notify(0, 0);
            gasnet_barrier_notify(0, 0))
CHECKS_CASE(regions_nest, gasnet_begin_nbi_accessregion();
            gasnet_begin_nbi_accessregion())
CHECKS_CASE(region_ends, (void) gasnet_end_nbi_accessregion())
CHECKS_CASE(region_waits, gasnet_begin_nbi_accessregion();
            gasnet_wait_syncnbi_all())
CHECKS_CASE(region_tries, gasnet_begin_nbi_accessregion();
            (void) gasnet_try_syncnbi_puts())

/* Longer than a second: a warning. */
static void checks_lock_long(int argc, char *argv[])
{
    checks_start(argc, argv);
    gasnet_hsl_lock(&checks_a);
    (void) usleep(1100000);
    gasnet_hsl_unlock(&checks_a);
    gasnet_exit(0);
}

static void checks_hold_long(int argc, char *argv[])
{
    checks_start(argc, argv);
    gasnet_hold_interrupts();
    (void) usleep(1100000);
    gasnet_resume_interrupts();
    gasnet_exit(0);
}

static void checks_early(int argc, char *argv[])
{
    CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
    gasnet_barrier_notify(0, 0);
}

static void checks_put_first(int argc, char *argv[])
{
    (void) argc, (void) argv;
    gasnet_put_val(0, checks_segments, 1, 1);
}

static void checks_notify_first(int argc, char *argv[])
{
    (void) argc, (void) argv;
    gasnet_barrier_notify(0, 0);
}

const struct jobs_case jobs_checks[] = {{"lock_twice", checks_lock_twice},
    {"try_twice", checks_try_twice}, {"unlock_order", checks_unlock_order},
    {"unlock_free", checks_unlock_free}, {"init_twice", checks_init_twice},
    {"destroy_locked", checks_destroy_locked},
    {"destroy_twice", checks_destroy_twice},
    {"handler_keeps_lock", checks_handler_keeps_lock},
    {"reply_locked", checks_reply_locked},
    {"hold_in_handler", checks_hold_in_handler},
    {"poll_in_handler", checks_poll_in_handler},
    {"reply_twice", checks_reply_twice},
    {"reply_of_reply", checks_reply_of_reply},
    {"hold_locked", checks_hold_locked},
    {"resume_locked", checks_resume_locked}, {"hold_twice", checks_hold_twice},
    {"resume_free", checks_resume_free},
    {"request_locked", checks_request_locked},
    {"request_held", checks_request_held}, {"put_locked", checks_put_locked},
    {"value_outside", checks_value_outside},
    {"memset_outside", checks_memset_outside},
    {"long_outside", checks_long_outside},
    {"region_waits", checks_region_waits},
    {"region_tries", checks_region_tries}, {"early", checks_early},
    {"put_first", checks_put_first}, {"notify_first", checks_notify_first},
    {"lock_long", checks_lock_long}, {"hold_long", checks_hold_long},
    {"put_outside", checks_put_outside}, {"get_before", checks_get_before},
    {"put_node", checks_put_node}, {"wait_alone", checks_wait_alone},
    {"notify_twice", checks_notify_twice},
    {"regions_nest", checks_regions_nest}, {"region_ends", checks_region_ends},
    {NULL, NULL}};
