/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded queue of pointers for many producers and consumers. Each slot has a
 * counter: the slot accepts entry number n when the counter is n, and returns
 * it when the counter is n + 1.
 */
#ifndef HG_COMPAT_MERCURY_ATOMIC_QUEUE_H
#define HG_COMPAT_MERCURY_ATOMIC_QUEUE_H

#include "mercury_atomic.h"
#include "mercury_mem.h"

#include <stdlib.h>

struct hg_atomic_queue_slot {
    hg_atomic_int64_t turn;
    void *entry;
};

struct hg_atomic_queue {
    struct hg_atomic_queue_slot *slots;
    int64_t size; /* a power of two */
    hg_atomic_int64_t pushed;
    hg_atomic_int64_t popped;
};

#ifdef __cplusplus
extern "C" {
#endif

/* `count` is a power of two. NULL: it is not, or out of memory. */
static HG_UTIL_INLINE struct hg_atomic_queue *hg_atomic_queue_alloc(
    unsigned int count)
{
    struct hg_atomic_queue *queue;
    unsigned int i;

    if (count == 0 || (count & (count - 1)) != 0)
        return NULL;
    queue = (struct hg_atomic_queue *) malloc(sizeof(*queue));
    if (queue == NULL)
        return NULL;
    queue->slots =
        (struct hg_atomic_queue_slot *) malloc(count * sizeof(*queue->slots));
    if (queue->slots == NULL) {
        free(queue);
        return NULL;
    }
    for (i = 0; i < count; i++)
        hg_atomic_init64(&queue->slots[i].turn, (int64_t) i);
    queue->size = (int64_t) count;
    hg_atomic_init64(&queue->pushed, 0);
    hg_atomic_init64(&queue->popped, 0);
    return queue;
}

static HG_UTIL_INLINE void hg_atomic_queue_free(struct hg_atomic_queue *queue)
{
    if (queue != NULL)
        free(queue->slots);
    free(queue);
}

/* HG_UTIL_FAIL: the queue is full. */
static HG_UTIL_INLINE int hg_atomic_queue_push(
    struct hg_atomic_queue *queue, void *entry)
{
    struct hg_atomic_queue_slot *slot;
    int64_t n, turn;

    for (;;) {
        n = hg_atomic_get64(&queue->pushed);
        slot = &queue->slots[n & (queue->size - 1)];
        turn = hg_atomic_get64(&slot->turn);
        if (turn < n)
            return HG_UTIL_FAIL;
        if (turn == n && hg_atomic_cas64(&queue->pushed, n, n + 1))
            break;
    }
    slot->entry = entry;
    hg_atomic_set64(&slot->turn, n + 1);
    return HG_UTIL_SUCCESS;
}

/* NULL: the queue is empty. */
static HG_UTIL_INLINE void *hg_atomic_queue_pop_mc(
    struct hg_atomic_queue *queue)
{
    struct hg_atomic_queue_slot *slot;
    int64_t n, turn;
    void *entry;

    for (;;) {
        n = hg_atomic_get64(&queue->popped);
        slot = &queue->slots[n & (queue->size - 1)];
        turn = hg_atomic_get64(&slot->turn);
        if (turn < n + 1)
            return NULL;
        if (turn == n + 1 && hg_atomic_cas64(&queue->popped, n, n + 1))
            break;
    }
    entry = slot->entry;
    hg_atomic_set64(&slot->turn, n + queue->size);
    return entry;
}

/* For the only consumer. */
static HG_UTIL_INLINE void *hg_atomic_queue_pop_sc(
    struct hg_atomic_queue *queue)
{
    return hg_atomic_queue_pop_mc(queue);
}

static HG_UTIL_INLINE unsigned int hg_atomic_queue_count(
    const struct hg_atomic_queue *queue)
{
    int64_t popped = hg_atomic_get64(&queue->popped);

    return (unsigned int) (hg_atomic_get64(&queue->pushed) - popped);
}

static HG_UTIL_INLINE bool hg_atomic_queue_is_empty(
    const struct hg_atomic_queue *queue)
{
    return hg_atomic_queue_count(queue) == 0;
}

#ifdef __cplusplus
}
#endif

#endif
