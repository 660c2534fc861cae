/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock: the thread of a class for timed events.
 *
 * Part of the libfabric transport; see ofi.h.
 *
 * In each tick it sends keep-alives, ends silent peers, and polls endpoints
 * that were not polled since the last tick. While something waits because the
 * provider could not accept it (-FI_EAGAIN), it retries every millisecond, so
 * that contexts may sleep meanwhile.
 */
#include "ofi/ofi.h"

#define NA_OFI_TICK_MIN (2 * NA_OFI_MS)
#define NA_OFI_TICK_MAX (100 * NA_OFI_MS)
#define NA_OFI_LATE 2 /* ticks; see na_ofi_is_late */

/* Check an address in this tick, at time `now`: NA_SUCCESS, or the code with
 * which it ends. The class's lock is held. */
static na_return_t na_ofi_check_addr(
    struct na_ofi_class *self, struct na_ofi_addr *addr, uint64_t now)
{
    uint64_t often = addr->often;

    switch (atomic_load(&addr->state)) {
    case NA_OFI_ASKED:
        if (now > addr->deadline)
            return addr->reached ? NA_DISCONNECT : NA_HOSTUNREACH;
        often = self->lookup_ticks / 4;
        break;
    case NA_OFI_ACCEPTED:
        if (self->turn > addr->deadline)
            return NA_DISCONNECT;
        break;
    case NA_OFI_READY:
        if (self->turn > addr->deadline ||
            self->turn > atomic_load(&addr->heard) + self->death_ticks)
            return NA_DISCONNECT;
        break;
    default: return NA_SUCCESS;
    }
    if (!addr->accepted && addr->token != 0 && self->turn > addr->asked + often)
        addr->hello = true;
    if (addr->hello)
        na_ofi_push_due(self, addr);
    return NA_SUCCESS;
}

/* One tick. The class's lock is held, but released meanwhile. */
static void na_ofi_tick(struct na_ofi_class *self)
{
    uint64_t now = self->base.core->now_ns();
    struct na_link *link;
    struct na_link *next;

    HG_ASSERT(!self->stopping);
    self->turn++;
    for (link = self->addrs.next; link != &self->addrs; link = next) {
        struct na_ofi_addr *addr = NA_OFI_OF(link, struct na_ofi_addr, link);
        na_return_t code = na_ofi_check_addr(self, addr, now);

        next = link->next;
        if (code == NA_SUCCESS)
            continue;
        if (addr->late == 0)
            addr->late = self->turn;
        if (na_ofi_is_late(self, addr) && addr->deadline != 0 &&
            self->turn < addr->late + NA_OFI_LATE) {
            na_ofi_push_due(self, addr);
            continue;
        }
        self->base.core->addr_ref(&addr->base);
        na_ofi_unlock(&self->lock);
        na_ofi_lost(self, addr, code);
        self->base.core->addr_unref(&addr->base);
        na_ofi_lock(&self->lock);
        next = self->addrs.next; /* the list may have changed */
    }
}

/* Warn once when the process has no free descriptor: providers then accept no
 * connections, without reporting it. */
static void na_ofi_warn_if_full(struct na_ofi_class *self)
{
    bool full = na_ofi_is_full();

    if (full && !self->full) {
        self->base.core->count(&self->base, "ofi_full", 1);
        self->base.core->log(HG_LOG_LEVEL_WARNING, "ofi",
            "%s cannot accept peers: all descriptors of the process are in use",
            self->base.self_addr->name);
    }
    self->full = full;
}

/* Poll the endpoints that were not polled, or all if something is due. */
static void na_ofi_poll_idle(struct na_ofi_class *self, bool turn, bool all)
{
    unsigned id;
    unsigned i;

    na_ofi_lock(&self->clock_lock);
    for (id = 0; id < NA_OFI_ENDS; id++) {
        struct na_ofi_end *end = self->ends[id];

        if (end == NULL)
            continue;
        if (turn)
            na_ofi_rma_tick(end);
        if ((atomic_exchange(&end->polled, false) && !all) ||
            (atomic_load(&end->sleepers) > 0 && !all) ||
            pthread_mutex_trylock(&end->poll_lock) != 0)
            continue;
        for (i = 0; i < NA_OFI_BATCH && na_ofi_poll_end(end) > 0; i++)
            continue;
        (void) na_ofi_rma_flush(end);
        na_ofi_unlock(&end->poll_lock);
    }
    na_ofi_unlock(&self->clock_lock);
}

/* Whether something still waits to be sent; no lock is held. */
static bool na_ofi_is_due(struct na_ofi_class *self)
{
    bool due;
    unsigned id;

    na_ofi_lock(&self->clock_lock);
    na_ofi_lock(&self->lock);
    due = !na_plug_list_empty(&self->due) || na_plug_has_news(self->resolver);
    na_ofi_unlock(&self->lock);
    for (id = 0; id < NA_OFI_ENDS && !due; id++) {
        struct na_ofi_end *end = self->ends[id];

        if (end == NULL)
            continue;
        na_ofi_lock(&end->lock);
        due = !na_plug_list_empty(&end->due);
        na_ofi_unlock(&end->lock);
    }
    na_ofi_unlock(&self->clock_lock);
    return due;
}

static struct timespec na_ofi_time(uint64_t ns)
{
    struct timespec when;

    when.tv_sec = (time_t) (ns / 1000000000u);
    when.tv_nsec = (long) (ns % 1000000000u);
    return when;
}

static void *na_ofi_clock(void *arg)
{
    struct na_ofi_class *self = (struct na_ofi_class *) arg;
    const struct na_core *core = self->base.core;
    uint64_t next = core->now_ns() + self->period;

    na_ofi_in_clock = true;
    na_ofi_lock(&self->lock);
    while (!self->stopping) {
        bool hurry = atomic_load(&self->hurry);
        uint64_t now = core->now_ns();
        uint64_t until =
            hurry && now + NA_OFI_MS < next ? now + NA_OFI_MS : next;
        struct timespec when = na_ofi_time(until);
        bool turn;

        if (now < until)
            (void) pthread_cond_timedwait(&self->alarm, &self->lock, &when);
        if (self->stopping)
            break;
        na_ofi_unlock(&self->lock);
        core->enter(&self->base);
        na_ofi_lock(&self->lock);
        if (self->stopping) {
            core->leave(&self->base);
            break;
        }
        turn = core->now_ns() >= next;
        if (turn) {
            na_ofi_tick(self);
            /* A late turn does not delay the next ones. After a long stop there
             * is one turn, so that peers get the time to be read. */
            next += self->period;
            now = core->now_ns();
            if (next < now)
                next = now + self->period;
        }
        na_ofi_unlock(&self->lock);
        hurry = atomic_load(&self->hurry);
        (void) na_ofi_flush(self);
        if (hurry) /* a sleeping thread may have messages to send */
            core->wake(&self->base);
        if (turn)
            na_ofi_warn_if_full(self);
        if (turn || hurry)
            na_ofi_poll_idle(self, turn, hurry);
        if (hurry) {
            atomic_store(&self->hurry, false);
            if (na_ofi_is_due(self))
                atomic_store(&self->hurry, true);
        }
        core->leave(&self->base);
        na_ofi_lock(&self->lock);
    }
    na_ofi_unlock(&self->lock);
    return NULL;
}

static na_return_t na_ofi_clock_start(struct na_ofi_class *self)
{
    int rc = pthread_create(&self->clock, NULL, na_ofi_clock, self);

    if (rc != 0)
        return na_ofi_failed(self, "cannot start", "a thread", -rc);
    self->ticking = true;
    return NA_SUCCESS;
}

static void na_ofi_clock_stop(struct na_ofi_class *self)
{
    if (!self->ticking)
        return;
    na_ofi_lock(&self->lock);
    self->stopping = true;
    (void) pthread_cond_signal(&self->alarm);
    na_ofi_unlock(&self->lock);
    (void) pthread_join(self->clock, NULL);
    self->ticking = false;
}

/* Initialize lists and locks, and compute the tick. False: the system is out of
 * resources. */
static bool na_ofi_prepare(struct na_ofi_class *self)
{
    const struct na_init_info *info = self->base.info;
    uint64_t death = info->death_ms * NA_OFI_MS;
    uint64_t lookup = info->lookup_ms * NA_OFI_MS;
    pthread_condattr_t attr;

    na_plug_list_init(&self->families[0].entries);
    na_plug_list_init(&self->families[1].entries);
    na_plug_list_init(&self->mems);
    self->guard = -1;
    na_plug_list_init(&self->addrs);
    na_plug_list_init(&self->named);
    na_plug_list_init(&self->due);
    na_plug_list_init(&self->holding);
    self->period = (death < lookup ? death : lookup) / 8;
    if (self->period > NA_OFI_TICK_MAX)
        self->period = NA_OFI_TICK_MAX;
    if (self->period < NA_OFI_TICK_MIN)
        self->period = NA_OFI_TICK_MIN;
    if (death < 10 * NA_OFI_TICK_MAX) /* a peer's clock may tick that slowly */
        death = 10 * NA_OFI_TICK_MAX;
    self->death_ticks = death / self->period + 1;
    self->lookup_ticks = lookup / self->period + 1;
    if (pthread_mutex_init(&self->lock, NULL) != 0)
        return false;
    if (pthread_mutex_init(&self->clock_lock, NULL) != 0)
        goto lock;
    if (pthread_mutex_init(&self->keys_lock, NULL) != 0)
        goto clock_lock;
    if (pthread_mutex_init(&self->mems_lock, NULL) != 0)
        goto keys_lock;
    if (pthread_condattr_init(&attr) != 0)
        goto mems_lock;
    if (pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
        pthread_cond_init(&self->alarm, &attr) == 0) {
        (void) pthread_condattr_destroy(&attr);
        return true;
    }
    (void) pthread_condattr_destroy(&attr);
mems_lock:
    (void) pthread_mutex_destroy(&self->mems_lock);
keys_lock:
    (void) pthread_mutex_destroy(&self->keys_lock);
clock_lock:
    (void) pthread_mutex_destroy(&self->clock_lock);
lock:
    (void) pthread_mutex_destroy(&self->lock);
    return false;
}

/* The last step of closing. Addresses may be released later. */
static void na_ofi_unprepare(struct na_ofi_class *self)
{
    (void) pthread_cond_destroy(&self->alarm);
    (void) pthread_mutex_destroy(&self->mems_lock);
    (void) pthread_mutex_destroy(&self->keys_lock);
    (void) pthread_mutex_destroy(&self->clock_lock);
    (void) pthread_mutex_destroy(&self->lock);
}
