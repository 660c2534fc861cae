/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counts: shared by the counting process and by the client and the server that
 * it examines.
 *
 * Client and server are children of the counting process and run in turns. Each
 * executes a breakpoint at the start of a step of the echo, which stops it. The
 * counting process then decides which of them runs next, and whether it runs
 * freely or instruction by instruction.
 */
#ifndef HG_TESTS_COUNTS_H
#define HG_TESTS_COUNTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define COUNTS_WORDS 8 /* of 8 bytes: an argument has so many, or one */
#define COUNTS_WINDOW 64
#define COUNTS_TIMEOUT 10000 /* ms; all events happen well before */

/* Where a child is. */
enum counts_mark {
    COUNTS_OUTSIDE = 0, /* in the driver: not counted */
    COUNTS_YIELD,       /* at the end of its turn */
    COUNTS_FORWARD,     /* the first step */
    COUNTS_WAIT,
    COUNTS_FREE,
    COUNTS_PROCESS,
    COUNTS_PROGRESS,
    COUNTS_TRIGGER,
    COUNTS_MARKS
};

/* Set from the first mark on: from then on the clock advances only when it is
 * read. */
extern bool counts_in_turns;

/* Stop here, and report the place to the counting process. */
static inline void counts_mark(enum counts_mark mark)
{
    counts_in_turns = true;
#if defined(__x86_64__)
    __asm__ volatile("int3" : : "D"((uint64_t) mark) : "memory");
#else
    (void) mark;
#endif
}

/* In memory that all three processes share. */
struct counts_shared {
    const char *listen;  /* "sm://NAME" */
    char address[256];   /* of the server */
    atomic_bool listens; /* `address` is set */
    atomic_bool connected;
    unsigned window; /* calls in flight */
    unsigned words;  /* of an argument */
    uint64_t sent;   /* calls; 1 is the first */
    uint64_t served;
};

/* A request has the bytes of number 2 n, its response those of 2 n + 1, where n
 * counts calls. No two numbers have a word in common. */
static inline uint64_t counts_word(uint64_t number, unsigned i)
{
    uint64_t x = (number * COUNTS_WORDS + i + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

static inline void counts_fill(void *words, uint64_t number)
{
    uint64_t *word = (uint64_t *) words;
    unsigned i;

    for (i = 0; i < COUNTS_WORDS; i++)
        word[i] = counts_word(number, i);
}

static inline bool counts_is(const void *words, unsigned count, uint64_t number)
{
    const uint64_t *word = (const uint64_t *) words;
    unsigned i;

    for (i = 0; i < count; i++) {
        if (word[i] != counts_word(number, i))
            return false;
    }
    return true;
}

/* Where the driver makes the bytes of a request and of a response. They are
 * copied from here, so these places are not counted as moves. */
extern uint64_t counts_request_words[COUNTS_WORDS];
extern uint64_t counts_response_words[COUNTS_WORDS];

/* End the process unless `ret`, the result of a function of hg.h, is 0. */
void counts_must(const char *function, int64_t ret);

/* One side of the echo; these never return. */
typedef void counts_side_t(struct counts_shared *shared);

counts_side_t counts_request_client;
counts_side_t counts_request_server;
counts_side_t counts_request_self;
counts_side_t counts_callback_client;
counts_side_t counts_callback_server;

#endif
