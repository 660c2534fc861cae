/* SPDX-License-Identifier: BSD-3-Clause */
/* deadline: see deadline.h. */
#include "hg/deadline.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

HG_PRIVATE void hg_deadline_init(struct hg_deadline *deadline)
{
    memset(deadline, 0, sizeof(*deadline));
}

HG_PRIVATE void hg_deadline_fini(struct hg_deadline *deadline)
{
    HG_ASSERT(deadline->count == 0);
    hg_mem_free(deadline->heap);
}

static void hg_deadline_place(
    struct hg_deadline *deadline, uint32_t at, struct hg_timer *timer)
{
    deadline->heap[at] = timer;
    timer->index = at + 1;
}

/* Move a timer towards the root while it is earlier than its parent. */
static void hg_deadline_up(
    struct hg_deadline *deadline, uint32_t at, struct hg_timer *timer)
{
    while (at > 0 && deadline->heap[(at - 1) / 2]->when > timer->when) {
        hg_deadline_place(deadline, at, deadline->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    hg_deadline_place(deadline, at, timer);
}

/* Move a timer towards the leaves while a child is earlier. */
static void hg_deadline_down(
    struct hg_deadline *deadline, uint32_t at, struct hg_timer *timer)
{
    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= deadline->count)
            break;
        if (child + 1 < deadline->count &&
            deadline->heap[child + 1]->when < deadline->heap[child]->when)
            child++;
        if (deadline->heap[child]->when >= timer->when)
            break;
        hg_deadline_place(deadline, at, deadline->heap[child]);
        at = child;
    }
    hg_deadline_place(deadline, at, timer);
}

HG_PRIVATE hg_return_t hg_deadline_add(
    struct hg_deadline *deadline, struct hg_timer *timer, uint64_t when)
{
    HG_ASSERT(timer->index == 0);
    if (deadline->count == deadline->capacity) {
        uint32_t capacity =
            deadline->capacity == 0 ? 16 : 2 * deadline->capacity;
        void *grown = hg_mem_realloc(
            deadline->heap, capacity * sizeof(deadline->heap[0]));

        if (grown == NULL) {
            hg_log_error("rpc", "no memory for %" PRIu32 " timers", capacity);
            return HG_NOMEM;
        }
        deadline->heap = (struct hg_timer **) grown;
        deadline->capacity = capacity;
    }
    timer->when = when;
    deadline->count++;
    hg_deadline_up(deadline, deadline->count - 1, timer);
    return HG_SUCCESS;
}

HG_PRIVATE void hg_deadline_remove(
    struct hg_deadline *deadline, struct hg_timer *timer)
{
    struct hg_timer *last;
    uint32_t at;

    if (timer->index == 0)
        return;
    at = timer->index - 1;
    HG_ASSERT(at < deadline->count && deadline->heap[at] == timer);
    timer->index = 0;
    last = deadline->heap[--deadline->count];
    if (last == timer)
        return;
    if (at > 0 && deadline->heap[(at - 1) / 2]->when > last->when)
        hg_deadline_up(deadline, at, last);
    else
        hg_deadline_down(deadline, at, last);
}

HG_PRIVATE uint64_t hg_deadline_next(const struct hg_deadline *deadline)
{
    return deadline->count > 0 ? deadline->heap[0]->when : HG_CLOCK_NEVER;
}

HG_PRIVATE struct hg_timer *hg_deadline_pop(
    struct hg_deadline *deadline, uint64_t now)
{
    struct hg_timer *first;

    if (deadline->count == 0 || deadline->heap[0]->when > now)
        return NULL;
    first = deadline->heap[0];
    hg_deadline_remove(deadline, first);
    return first;
}
