/* SPDX-License-Identifier: BSD-3-Clause */
/* sm_peer: see sm_peer.h. */
#include "na/sm_peer.h"

#if HG_ENABLE_SM

#include "base/clock.h"
#include "base/crc64.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"

HG_PRIVATE void na_sm_peer_close(struct na_sm_class *self, int *fd)
{
    na_sm_enter(self);
    if (*fd >= 0)
        (void) close(*fd);
    *fd = -1;
    na_sm_leave(self);
    NA_SM_STEP();
}

HG_PRIVATE void na_sm_peer_unlock(struct na_sm_class *self)
{
    bool wake = self->sleepers > 0 &&
        (self->tick < self->timer_at || !hg_list_is_empty(&self->dying) ||
            !hg_list_is_empty(&self->transfers));

    na_sm_leave(self);
    if (wake)
        self->base.core->wake(&self->base);
}

HG_PRIVATE na_return_t na_sm_peer_forked(struct na_sm_class *self)
{
    if (!atomic_exchange(&self->fork_told, true))
        hg_log_error("sm",
            "this class belongs to the process that forked this one: open "
            "another");
    return NA_FAULT;
}

/* ---- Addresses ---- */

HG_PRIVATE struct na_sm_addr *na_sm_peer_new(struct na_sm_class *self,
    const char *name, na_bool_t is_self, const struct na_sm_name *where)
{
    struct na_addr *base =
        self->base.core->addr_create(&self->base, name, is_self);
    struct na_sm_addr *addr;

    if (base == NULL)
        return NULL;
    addr = na_sm_addr_of(base);
    addr->watch = NA_SM_WATCH_PEER;
    hg_list_init(&addr->link);
    hg_list_init(&addr->turn);
    hg_list_init(&addr->mover);
    hg_list_init(&addr->lookups);
    hg_list_init(&addr->sends);
    hg_list_init(&addr->closers);
    addr->fd = -1;
    addr->peer_bell = -1;
    addr->slot = NA_SM_PEERS;
    addr->retry = NA_SM_NEVER;
    if (where != NULL) {
        addr->where = *where;
        addr->dialled = true;
    }
    return addr;
}

/* Out of the table of names. */
static void na_sm_peer_forget(struct na_sm_class *self, struct na_sm_addr *addr)
{
    struct na_sm_addr *first;
    struct na_sm_addr **at = &first;

    if (!addr->named)
        return;
    addr->named = false;
    first = (struct na_sm_addr *) hg_map_remove(&self->names, addr->hash);
    while (*at != addr)
        at = &(*at)->next;
    *at = addr->next;
    addr->next = NULL;
    /* A removal made room for this. */
    if (first != NULL)
        (void) hg_map_put(&self->names, addr->hash, first);
}

HG_PRIVATE void na_sm_peer_release(struct na_addr *base)
{
    struct na_sm_addr *addr = na_sm_addr_of(base);
    struct na_sm_class *self = na_sm_of(base->na_class);

    assert(addr->shared == NULL && addr->fd < 0);
    assert(hg_list_is_empty(&addr->link) && hg_list_is_empty(&addr->turn));
    if (addr->named && !self->closed) {
        na_sm_enter(self);
        na_sm_peer_forget(self, addr);
        na_sm_leave(self);
    }
}

HG_PRIVATE struct na_sm_addr *na_sm_peer_find(
    struct na_sm_class *self, const char *name)
{
    uint64_t hash = hg_crc64_update(0, name, strlen(name));
    struct na_sm_addr *addr =
        (struct na_sm_addr *) hg_map_get(&self->names, hash);

    while (addr != NULL &&
        (strcmp(addr->base.name, name) != 0 || !na_addr_try_ref(&addr->base)))
        addr = addr->next;
    return addr;
}

HG_PRIVATE na_return_t na_sm_peer_enter(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    const char *name = addr->base.name;
    na_return_t ret;

    addr->hash = hg_crc64_update(0, name, strlen(name));
    addr->next = (struct na_sm_addr *) hg_map_get(&self->names, addr->hash);
    ret = hg_map_put(&self->names, addr->hash, addr);
    if (ret != NA_SUCCESS) {
        hg_log_error("sm", "no memory for the name %s", name);
        return ret;
    }
    addr->named = true;
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_sm_peer_take_slot(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    uint32_t i;

    for (i = 0; i < NA_SM_PEERS; i++) {
        uint32_t slot = (self->slot_hint + i) % NA_SM_PEERS;

        if (atomic_load(&self->slots[slot]) != NULL)
            continue;
        self->slot_hint = slot + 1;
        self->pairs++;
        addr->slot = slot;
        atomic_store(&self->slots[slot], addr);
        return NA_SUCCESS;
    }
    return NA_AGAIN;
}

/* ---- States ---- */

HG_PRIVATE void na_sm_peer_move(struct na_sm_addr *addr, enum na_sm_state state)
{
    NA_SM_STEP();
    na_sm_enter(na_sm_of(addr->base.na_class));
    atomic_store(&addr->state, state);
    na_sm_leave(na_sm_of(addr->base.na_class));
    na_sm_peer_resume(na_sm_of(addr->base.na_class));
    NA_SM_STEP();
}

HG_PRIVATE void na_sm_peer_dial(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    assert(na_sm_peer_state(addr) == NA_SM_IDLE && addr->dialled);
    assert(addr->fd < 0 && hg_list_is_empty(&addr->turn));
    if (hg_list_is_empty(&addr->link)) {
        self->base.core->addr_ref(&addr->base);
        hg_list_push(&self->addrs, &addr->link);
    }
    na_sm_peer_move(addr, NA_SM_DIALLING);
    addr->deadline = hg_clock_after_ms(self->base.info->lookup_ms);
    addr->retry = 0;
    hg_list_push(&self->dialling, &addr->turn);
    self->tick = 0;
    atomic_store(&self->rung, true);
}

HG_PRIVATE void na_sm_peer_await_end(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    assert(na_sm_peer_state(addr) == NA_SM_CLOSING ||
        na_sm_peer_state(addr) == NA_SM_LEAVING);
    if (!hg_list_is_empty(&addr->turn)) /* somebody else does so already */
        return;
    addr->deadline = hg_clock_after_ms(self->base.info->death_ms);
    hg_list_push(&self->closing, &addr->turn);
    if (addr->deadline < self->tick)
        self->tick = addr->deadline;
}

HG_PRIVATE bool na_sm_peer_open(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    unsigned ours = addr->dialled ? 0 : 1;

    na_sm_enter(self);
    if (na_sm_peer_state(addr) >= NA_SM_DYING) {
        na_sm_leave(self);
        return false;
    }
    na_sm_enter(na_sm_of(addr->base.na_class));
    na_sm_out_init(&addr->out, &addr->shared->control[ours],
        addr->shared->rings[ours], NA_SM_RING);
    na_sm_in_init(&addr->in, &addr->shared->control[1 - ours],
        addr->shared->rings[1 - ours], NA_SM_RING);
    addr->rung = 0;
    addr->reached = true;
    /* Somebody may have asked for the end of it before it began. */
    addr->owes_bye = !hg_list_is_empty(&addr->closers);
    atomic_store(
        &addr->waiting, addr->owes_bye || !hg_list_is_empty(&addr->sends));
    NA_SM_STEP();
    atomic_store(&addr->open, true);
    atomic_store(&addr->state, addr->owes_bye ? NA_SM_CLOSING : NA_SM_READY);
    NA_SM_STEP();
    na_sm_leave(na_sm_of(addr->base.na_class));
    hg_list_remove(&addr->turn);
    if (addr->owes_bye)
        na_sm_peer_await_end(self, addr);
    na_sm_peer_resume(self); /* transfers waited for the connection */
    na_sm_hint_set(self->hints, addr->slot); /* look there first */
    self->base.core->count(&self->base, "sm_met", 1);
    na_sm_peer_unlock(self);
    return true;
}

/* Let it be buried. The class lock is held. */
static void na_sm_peer_mourn(struct na_sm_class *self, struct na_sm_addr *addr)
{
    hg_list_remove(&addr->turn);
    hg_list_push(&self->dying, &addr->turn);
    NA_SM_STEP();
    atomic_store(&self->mourning, true);
}

HG_PRIVATE void na_sm_peer_lose(
    struct na_sm_class *self, struct na_sm_addr *addr, na_return_t fate)
{
    enum na_sm_state state = na_sm_peer_state(addr);

    if (state == NA_SM_IDLE || state >= NA_SM_DYING)
        return;
    addr->closing = state == NA_SM_CLOSING || state == NA_SM_LEAVING;
    addr->failed = state == NA_SM_DIALLING && !addr->reached;
    addr->fate = fate;
    na_sm_peer_move(addr, NA_SM_DYING);
    if (!na_sm_peer_lives(addr))
        na_sm_peer_forget(self, addr);
    na_sm_peer_mourn(self, addr);
}

/* One without a connection: the class has no reference of it. */
static void na_sm_peer_lose_idle(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    assert(hg_list_is_empty(&addr->link) && hg_list_is_empty(&addr->turn));
    self->base.core->addr_ref(&addr->base);
    hg_list_push(&self->addrs, &addr->link);
    addr->fate = NA_DISCONNECT;
    na_sm_peer_move(addr, NA_SM_DYING);
    na_sm_peer_mourn(self, addr);
}

HG_PRIVATE void na_sm_peer_give_up(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    enum na_sm_state state = na_sm_peer_state(addr);

    if (state == NA_SM_DEAD)
        return;
    if (state == NA_SM_IDLE)
        na_sm_peer_lose_idle(self, addr);
    else
        na_sm_peer_lose(self, addr, NA_DISCONNECT);
    addr->closing = false;
    addr->failed = false;
    na_sm_peer_forget(self, addr);
}

HG_PRIVATE bool na_sm_peer_has_ended(const struct na_sm_addr *addr)
{
    struct pollfd socket = {addr->fd, POLLRDHUP, 0};

    /* A descriptor of -1 has no events. */
    return poll(&socket, 1, 0) > 0 &&
        (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

HG_PRIVATE bool na_sm_peer_is_touching(const struct na_sm_addr *addr)
{
    const struct na_sm_control *theirs =
        &addr->shared->control[addr->dialled ? 1 : 0];
    unsigned i;

    for (i = 0; i < NA_SM_HAZARDS; i++) {
        if (atomic_load(&theirs->hazard[i]) != 0)
            return !na_sm_peer_has_ended(addr);
    }
    return false;
}

HG_PRIVATE void na_sm_peer_part(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    struct hg_monitor *lock = na_class_core_of(&self->base)->lock;

    na_sm_enter(self);
    while (atomic_load(&addr->touching) != 0) {
        unsigned depth = hg_leave_all(lock);

        NA_SM_STEP();
        (void) sched_yield();
        hg_enter_again(lock, depth);
    }
    atomic_store(&addr->open, false);
    na_sm_page_unmap(addr->shared, sizeof(*addr->shared));
    na_sm_page_unmap(addr->peer_public, NA_SM_PUBLIC_SIZE);
    na_sm_page_unmap(addr->peer_hints, NA_SM_HINTS_SIZE);
    addr->shared = NULL;
    addr->peer_public = NULL;
    addr->peer_hints = NULL;
    na_sm_windows_free(addr->windows);
    addr->windows = NULL;
    addr->granted = 0;
    if (addr->fd >= 0) {
        (void) epoll_ctl(self->epoll_fd, EPOLL_CTL_DEL, addr->fd, NULL);
        NA_SM_STEP();
        (void) close(addr->fd);
        NA_SM_STEP();
    }
    addr->fd = -1;
    if (addr->peer_bell >= 0)
        (void) close(addr->peer_bell);
    addr->peer_bell = -1;
    addr->pid = 0;
    if (addr->slot < NA_SM_PEERS) {
        atomic_store(&self->slots[addr->slot], NULL);
        na_sm_hint_clear(self->hints, addr->slot);
        addr->slot = NA_SM_PEERS;
        self->pairs--;
    }
    na_sm_leave(na_sm_of(addr->base.na_class));
    atomic_store(&addr->waiting, false);
    atomic_store(&addr->stalled, false);
    atomic_store(&addr->held, false);
    atomic_store(&addr->vm, NA_SM_VM_UNTRIED);
    atomic_store(&addr->permit, NA_SM_PERMIT_NONE);
    hg_list_remove(&addr->mover);
    addr->owes_bye = false;
    addr->owes_ack = false;
}

HG_PRIVATE void na_sm_peer_take_ops(struct na_link *to, struct na_link *from)
{
    struct na_op *op;

    while ((op = na_sm_op_pop(from)) != NULL)
        hg_list_push(to, &op->link);
}

HG_PRIVATE void na_sm_peer_complete(
    struct na_sm_class *self, struct na_link *list, na_return_t ret)
{
    struct na_link *link;

    while ((link = hg_list_pop(list)) != NULL)
        self->base.core->complete(
            HG_CONTAINER_OF(link, struct na_op, link), ret);
}

/* Log why an address is dead; the code that what waits for it ends with. That
 * it cannot be reached is an error if the application gave the address. */
static na_return_t na_sm_peer_dead_code(
    struct na_sm_class *self, const struct na_sm_addr *addr, bool from_peer)
{
    const char *name = addr->base.name != NULL ? addr->base.name : "(unnamed)";

    if (addr->fate == NA_PROTOCOL_ERROR || addr->fate == NA_FAULT)
        return addr->fate;
    if (addr->reached) {
        hg_log_info("sm", "lost the peer %s", name);
        return NA_DISCONNECT;
    }
    if (addr->fate != NA_HOSTUNREACH && addr->fate != NA_ACCESS)
        return addr->fate;
    if (from_peer)
        self->base.core->count(&self->base, "bad_names", 1);
    HG_LOG_AT(na_addr_name_level(from_peer), "sm", "%s cannot be reached: %s",
        name,
        addr->why == 0                  ? "what listens there gives no answer"
            : addr->why == ECONNREFUSED ? "nobody listens there"
                                        : strerror(addr->why));
    return addr->fate;
}

/* Move the transfers that wait for an address to `to`; the class lock is held,
 * and no transfer is under way. */
static void na_sm_peer_take_transfers(
    struct na_link *to, struct na_link *from, const struct na_sm_addr *addr)
{
    struct na_link *link, *next;

    for (link = from->next; link != from; link = next) {
        struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);

        next = link->next;
        if (op->addr != &addr->base)
            continue;
        hg_list_remove(link);
        na_sm_op_of(op)->held = false;
        hg_list_push(to, link);
    }
}

/* End what waits for an address that is dead, or was not connected. */
static void na_sm_peer_fail(struct na_sm_class *self, struct na_sm_addr *addr,
    bool failed, bool from_peer, struct na_link *lookups, struct na_link *sends)
{
    const struct na_core *core = self->base.core;
    na_return_t fate = addr->fate;
    na_return_t ret = na_sm_peer_dead_code(self, addr, from_peer);

    na_sm_peer_complete(self, lookups, fate);
    na_sm_peer_complete(self, sends, ret);
    if (failed)
        core->addr_unreached(&addr->base, ret);
    else
        core->addr_dead(&addr->base, ret);
}

HG_PRIVATE void na_sm_peer_bury(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    const struct na_core *core = self->base.core;
    struct na_link lookups, sends, closers, transfers;
    bool lives, failed, from_peer, again;

    hg_list_init(&lookups);
    hg_list_init(&sends);
    hg_list_init(&transfers);
    hg_list_init(&closers);
    na_sm_enter(self);
    assert(na_sm_peer_state(addr) == NA_SM_DYING);
    hg_list_remove(&addr->turn);
    na_sm_peer_part(self, addr);
    na_sm_peer_take_ops(&closers, &addr->closers);
    lives = na_sm_peer_lives(addr);
    failed = lives && addr->failed;
    from_peer = addr->from_peer;
    again = lives && !failed &&
        (!hg_list_is_empty(&addr->lookups) || !hg_list_is_empty(&addr->sends));
    if (failed) { /* else the transfers would dial again, without end */
        na_sm_peer_take_transfers(&transfers, &self->unmet, addr);
        na_sm_peer_take_transfers(&transfers, &self->transfers, addr);
        atomic_store(&addr->incarnation, 0);
    }
    na_sm_peer_move(addr, lives ? NA_SM_IDLE : NA_SM_DEAD);
    if (again) {
        na_sm_peer_dial(self, addr);
    } else {
        if (!lives)
            na_sm_peer_forget(self, addr);
        hg_list_remove(&addr->link);
        na_sm_peer_take_ops(&lookups, &addr->lookups);
        na_sm_peer_take_ops(&sends, &addr->sends);
    }
    na_sm_peer_unlock(self);
    na_sm_peer_complete(self, &closers, NA_SUCCESS);
    na_sm_peer_complete(self, &transfers, addr->fate);
    if (failed || !lives)
        na_sm_peer_fail(self, addr, failed, from_peer, &lookups, &sends);
    else
        core->addr_parted(&addr->base);
    if (!again)
        core->addr_unref(&addr->base);
}

#endif
