/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier: the split-phase barrier, by dissemination.
 *
 * In round r a node tells node + 2^r what it knows: whether it knows a name,
 * which one, and whether names differ. It advances when node - 2^r has told it
 * the same. After log2 N rounds each node knows what all nodes have said.
 *
 *     round 0     0 -> 1 -> 2 -> 3 -> 0
 *     round 1     0 -> 2    1 -> 3    2 -> 0    3 -> 1
 *
 * A node writes into a slot of the receiver: by a store if its page is mapped
 * here, else by a message. Barriers alternate between two rows of slots. Two
 * are enough: a node that is in barrier p + 2 has ended p + 1, which all nodes
 * began after they had ended p.
 *
 * The client calls notify, then wait or try, with one thread inside at a time.
 * Threads that poll advance the barrier, too, so its state has a lock, unless
 * one thread at a time is here: without GASNET_PAR.
 */
#include "gasnet_hg.h"

#define BARRIER_NAMED 1u
#define BARRIER_DIFFERS 2u
#define BARRIER_SPINS 100 /* looks at the slot between two polls */

_Atomic bool gasnet_hg_barrier_active;

static struct {
    _Atomic bool busy;      /* a thread uses the members below */
    _Atomic uint32_t ended; /* the last barrier that all nodes have reached */
    uint32_t phase;         /* the last barrier that this node has reached */
    _Atomic unsigned round; /* the slot of this round is waited for */
    uint32_t flags;         /* what is known */
    int32_t id;
    bool notified; /* between notify and wait; used by the client's thread */
} barrier;

static bool barrier_try_lock(void)
{
    return !gasnet_hg.threaded ||
        !atomic_exchange_explicit(&barrier.busy, true, memory_order_acquire);
}

static void barrier_unlock(void)
{
    atomic_store_explicit(&barrier.busy, false, memory_order_release);
}

static void barrier_set_round(unsigned round)
{
    atomic_store_explicit(&barrier.round, round, memory_order_relaxed);
}

static void barrier_set_active(bool active)
{
    atomic_store_explicit(
        &gasnet_hg_barrier_active, active, memory_order_relaxed);
}

static void barrier_combine(uint32_t flags, int32_t id)
{
    if ((flags & barrier.flags & BARRIER_NAMED) != 0 && id != barrier.id)
        barrier.flags |= BARRIER_DIFFERS;
    if ((barrier.flags & BARRIER_NAMED) == 0)
        barrier.id = id;
    barrier.flags |= flags & (BARRIER_NAMED | BARRIER_DIFFERS);
}

/* Tell the receiver of this round. */
static void barrier_tell(void)
{
    gasnet_node_t to = gasnet_hg_rank + (1u << barrier.round);
    struct gasnet_hg_page *page;
    struct gasnet_hg_slot *slot;

    if (to >= gasnet_hg_size)
        to -= gasnet_hg_size;
    page = gasnet_hg.peers[to].page;
    if (page == NULL) {
        gasnet_hg_send_slot(
            to, barrier.round, barrier.phase, barrier.id, barrier.flags);
        return;
    }
    slot = &page->slots[barrier.phase & 1][barrier.round];
    slot->id = barrier.id;
    slot->flags = barrier.flags;
    atomic_store_explicit(&slot->phase, barrier.phase, memory_order_release);
}

/* This round is one too many. */
static bool barrier_is_over(void)
{
    return (1u << barrier.round) >= gasnet_hg_size;
}

/* Without the lock: a guess. */
static bool barrier_can_advance(void)
{
    struct gasnet_hg_slot *slot = &gasnet_hg.page->slots[barrier.phase &
        1][atomic_load_explicit(&barrier.round, memory_order_relaxed)];

    return atomic_load_explicit(&slot->phase, memory_order_relaxed) ==
        barrier.phase;
}

static void barrier_end(void)
{
    barrier_set_active(false);
    atomic_store_explicit(&barrier.ended, barrier.phase, memory_order_release);
}

/* Advance. The lock is held. */
static void barrier_advance(void)
{
    while (!barrier_is_over()) {
        struct gasnet_hg_slot *slot =
            &gasnet_hg.page->slots[barrier.phase & 1][barrier.round];

        if (atomic_load_explicit(&slot->phase, memory_order_acquire) !=
            barrier.phase)
            return;
        barrier_combine(slot->flags, slot->id);
        barrier_set_round(barrier.round + 1);
        if (!barrier_is_over())
            barrier_tell();
    }
    barrier_end();
}

void gasnet_hg_barrier_kick(void)
{
    if (!barrier_try_lock())
        return; /* another thread does it */
    if (atomic_load(&gasnet_hg_barrier_active))
        barrier_advance();
    barrier_unlock();
}

/* ---- The calls ---- */

void gasnet_hg_notify2(int id, int flags)
{
    if (gasnet_hg.checked)
        gasnet_hg_check_call("gasnet_barrier_notify");
    if (barrier.notified)
        gasnet_hg_fatal("gasnet_barrier_notify: called twice without "
                        "gasnet_barrier_wait");
    barrier.notified = true;
    atomic_thread_fence(memory_order_release);
    while (!barrier_try_lock())
        ;
    barrier.phase++;
    barrier_set_round(0);
    barrier.id = id;
    barrier.flags =
        ((flags & GASNET_BARRIERFLAG_ANONYMOUS) == 0 ? BARRIER_NAMED : 0) |
        ((flags & GASNET_BARRIERFLAG_MISMATCH) != 0 ? BARRIER_DIFFERS : 0);
    if (!barrier_is_over())
        barrier_tell();
    barrier_set_active(true);
    barrier_advance();
    barrier_unlock();
}

static bool barrier_has_ended(void)
{
    return atomic_load_explicit(&barrier.ended, memory_order_acquire) ==
        barrier.phase;
}

/* The result of wait and try, which may name another id than notify. */
static int barrier_result(int id, int flags)
{
    bool differs = (barrier.flags & BARRIER_DIFFERS) != 0 ||
        (flags & GASNET_BARRIERFLAG_MISMATCH) != 0 ||
        ((barrier.flags & BARRIER_NAMED) != 0 &&
            (flags & GASNET_BARRIERFLAG_ANONYMOUS) == 0 && id != barrier.id);

    barrier.notified = false;
    return differs ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK;
}

static void barrier_check(const char *what)
{
    if (gasnet_hg.checked)
        gasnet_hg_check_call(what);
    if (!barrier.notified)
        gasnet_hg_fatal("%s: without gasnet_barrier_notify", what);
}

/* The other nodes write to memory, so look at it more often than at NA. */
int gasnet_hg_await2(int id, int flags)
{
    unsigned tries = 0, i, spins = gasnet_hg.all_near ? BARRIER_SPINS : 0;

    barrier_check("gasnet_barrier_wait");
    while (!barrier_has_ended()) {
        for (i = 0; i < spins && !barrier_can_advance(); i++)
            ;
        if (barrier_can_advance())
            gasnet_hg_barrier_kick();
        else
            gasnet_hg_wait(&tries);
    }
    return barrier_result(id, flags);
}

int gasnet_hg_try2(int id, int flags)
{
    barrier_check("gasnet_barrier_try");
    if (!barrier_has_ended())
        gasnet_hg_poll();
    return barrier_has_ended() ? barrier_result(id, flags)
                               : GASNET_ERR_NOT_READY;
}

int gasnet_barrier(int id, int flags)
{
    gasnet_hg_notify2(id, flags);
    return gasnet_hg_await2(id, flags);
}

int gasnet_barrier_result(int *id)
{
    if ((barrier.flags & BARRIER_NAMED) == 0)
        return 1;
    *id = barrier.id;
    return 0;
}
