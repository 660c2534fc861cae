/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words that two sides of the transport sm share: whatever one side does
 * between two steps of the other, at least one of them sees the other's change.
 * Every pair of steps is tried.
 */
#include "step.h"

#if HG_ENABLE_SM

#define WORDS_RING 4096u

static const char *words_function; /* a prefix: its steps count */
static unsigned words_steps;       /* steps left; 0: never */

static bool words_is_now(const char *function)
{
    return strncmp(function, words_function, strlen(words_function)) == 0 &&
        words_steps > 0 && --words_steps == 0;
}

/* ---- Space in a ring ---- */

static struct {
    struct na_sm_control control;
    _Alignas(NA_SM_RING_LINE) unsigned char data[WORDS_RING];
    struct na_sm_in in;
    bool told; /* the producer must be notified of space */
} words_ring;

/* The consumer reads everything. */
static void words_take(const char *function, unsigned line)
{
    struct na_sm_record record;
    const unsigned char *payload;

    (void) line;
    if (!words_is_now(function))
        return;
    while (na_sm_in_peek(&words_ring.in, &record, &payload) == NA_SUCCESS) {
        if (na_sm_in_take(&words_ring.in, &record))
            words_ring.told = true;
    }
    if (na_sm_in_publish(&words_ring.in))
        words_ring.told = true;
}

HG_TEST(sm_full_ring_is_retried_or_its_writer_is_woken)
{
    const struct na_sm_record record = {0, NA_SM_MESSAGE, 0, 0, 0};
    struct na_sm_out out;
    unsigned char *payload;
    unsigned step, i;

    words_function = "na_sm_out_";
    for (step = 1;; step++) {
        na_return_t ret;

        memset(&words_ring, 0, sizeof(words_ring));
        na_sm_out_init(&out, &words_ring.control, words_ring.data, WORDS_RING);
        na_sm_in_init(
            &words_ring.in, &words_ring.control, words_ring.data, WORDS_RING);
        for (i = 0; i < WORDS_RING / NA_SM_RING_LINE; i++) {
            HG_CHECK_OK(na_sm_out_reserve(&out, 0, &payload));
            na_sm_out_commit(&out, &record);
        }
        words_steps = step;
        step_hook = words_take;
        ret = na_sm_out_reserve(&out, 0, &payload);
        step_hook = NULL;
        if (words_steps > 0)
            break;
        HG_CHECK(ret == NA_SUCCESS || words_ring.told);
    }
    HG_CHECK(step > 2);
}

/* The producer finds no space. */
static struct na_sm_out words_out;
static bool words_full;

static void words_reserve(const char *function, unsigned line)
{
    unsigned char *payload;

    (void) line;
    if (words_is_now(function))
        words_full = na_sm_out_reserve(&words_out, 0, &payload) == NA_AGAIN;
}

HG_TEST(sm_full_ring_is_retried_or_its_reader_notices)
{
    const struct na_sm_record filler = {0, NA_SM_MESSAGE, 0, 0, 0};
    const unsigned char *payload;
    struct na_sm_record record;
    unsigned char *space;
    unsigned step, i;

    words_function = "na_sm_in_publish";
    for (step = 1;; step++) {
        bool told;

        memset(&words_ring, 0, sizeof(words_ring));
        na_sm_out_init(
            &words_out, &words_ring.control, words_ring.data, WORDS_RING);
        na_sm_in_init(
            &words_ring.in, &words_ring.control, words_ring.data, WORDS_RING);
        for (i = 0; i < WORDS_RING / NA_SM_RING_LINE; i++) {
            HG_CHECK_OK(na_sm_out_reserve(&words_out, 0, &space));
            na_sm_out_commit(&words_out, &filler);
        }
        HG_CHECK_OK(na_sm_in_peek(&words_ring.in, &record, &payload));
        HG_CHECK(!na_sm_in_take(&words_ring.in, &record));
        words_full = false;
        words_steps = step;
        step_hook = words_reserve;
        told = na_sm_in_publish(&words_ring.in);
        step_hook = NULL;
        if (words_steps > 0)
            break;
        HG_CHECK(!words_full || told);
    }
    HG_CHECK(step > 2);
}

#endif
