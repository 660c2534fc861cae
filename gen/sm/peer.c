/* SPDX-License-Identifier: BSD-3-Clause */
/* peer: see peer.h. */
#include "sm/peer.h"

#if HG_ENABLE_SM

#include "base/clock.h"
#include "base/crc64.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"

/* ==== peer ==== */

HG_PRIVATE void na_sm_peer_close(struct na_sm_class *self, int *fd)
{
    na_sm_enter(self);
    if (*fd >= 0)
        (void) close(*fd);
    *fd = -1;
    na_sm_leave(self);
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
    na_sm_enter(na_sm_of(addr->base.na_class));
    atomic_store(&addr->state, state);
    na_sm_leave(na_sm_of(addr->base.na_class));
    na_sm_peer_resume(na_sm_of(addr->base.na_class));
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
    atomic_store(&addr->open, true);
    atomic_store(&addr->state, addr->owes_bye ? NA_SM_CLOSING : NA_SM_READY);
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
        (void) close(addr->fd);
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

/* ==== door ==== */

#define NA_SM_DOOR_HELLO_MS 5000u /* for a caller to say HELLO */
#define NA_SM_DOOR_RETRY (2u * HG_CLOCK_MS)
#define NA_SM_DOOR_BATCH 64u    /* callers taken in at a time */
#define NA_SM_DOOR_GUESTS 1024u /* that have not said HELLO */

/* Watch a socket; `what` begins with an enum na_sm_watch. */
static na_return_t na_sm_door_watch(
    struct na_sm_class *self, int fd, void *what)
{
    struct epoll_event event;

    memset(&event, 0, sizeof(event));
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.ptr = what;
    if (epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return NA_SUCCESS;
    hg_log_error("sm", "cannot watch a socket: %s", strerror(errno));
    return NA_IO_ERROR;
}

static void na_sm_door_packet(const struct na_sm_class *self,
    enum na_sm_packet_kind kind, struct na_sm_packet *packet)
{
    memset(packet, 0, sizeof(*packet));
    packet->version = NA_SM_VERSION;
    packet->kind = (uint8_t) kind;
    packet->incarnation = self->base.incarnation;
    packet->ring_size = NA_SM_RING;
    packet->fds[NA_SM_FD_PUBLIC] = self->public_fd;
    packet->fds[NA_SM_FD_HINTS] = self->hints_fd;
}

/* Send a packet with its `count` descriptors, and our bell if the other end may
 * have that. */
static na_return_t na_sm_door_send(struct na_sm_class *self, int fd,
    struct na_sm_packet *packet, unsigned count, bool kin)
{
    if (kin)
        packet->fds[count++] = self->bell_fd;
    return na_sm_packet_send(fd, packet, count);
}

/* Whether what came with a packet is `count` descriptors, and maybe a bell. */
static bool na_sm_door_is_whole(
    const struct na_sm_packet *packet, unsigned count)
{
    return packet->fd_count == count ||
        (packet->fd_count == count + 1 &&
            na_sm_bell_is_one(packet->fds[count]));
}

/* Tell a caller why it is sent away. */
static void na_sm_door_refuse(
    struct na_sm_class *self, int fd, na_return_t reason)
{
    struct na_sm_packet packet;

    na_sm_door_packet(self, NA_SM_REFUSE, &packet);
    packet.reason = (uint32_t) reason;
    (void) na_sm_packet_send(fd, &packet, 0);
    self->base.core->count(&self->base, "sm_refused", 1);
}

/* Log that there is no descriptor for a caller, or for its memory; the code of
 * that. */
static na_return_t na_sm_door_no_fd(int error)
{
    errno = error;
    return hg_log_no_fd("sm", "a caller");
}

/* ---- Dialling ---- */

/* Map the two pages that the other side sent, and take its bell, if there is
 * one behind the `count` other descriptors, and it may be rung. */
static na_return_t na_sm_door_map_pages(
    struct na_sm_addr *addr, struct na_sm_packet *packet, unsigned count)
{
    void *pages = NULL;
    void *hints = NULL;
    na_return_t ret;

    ret = na_sm_page_map(
        packet->fds[NA_SM_FD_PUBLIC], NA_SM_PUBLIC_SIZE, true, &pages);
    if (ret != NA_SUCCESS)
        return ret;
    ret = na_sm_page_map(
        packet->fds[NA_SM_FD_HINTS], NA_SM_HINTS_SIZE, false, &hints);
    if (ret != NA_SUCCESS) {
        na_sm_page_unmap(pages, NA_SM_PUBLIC_SIZE);
        return ret;
    }
    addr->peer_public = (const struct na_sm_public *) pages;
    addr->peer_hints = (struct na_sm_hints *) hints;
    addr->peer_slot = packet->slot;
    if (addr->kin && packet->fd_count > count)
        addr->peer_bell = na_sm_packet_take(packet);
    atomic_store(&addr->incarnation, packet->incarnation);
    return NA_SUCCESS;
}

/* Make the pair and say HELLO with it. NA_BUSY: it cannot be said now. */
static na_return_t na_sm_door_hello(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    struct na_sm_packet packet;
    void *shared = NULL;
    int fd = -1;
    na_return_t ret = na_sm_page_create(
        "hg-pair", sizeof(struct na_sm_shared), false, &shared, &fd);

    if (ret != NA_SUCCESS)
        return ret;
    addr->shared = (struct na_sm_shared *) shared;
    na_sm_door_packet(self, NA_SM_HELLO, &packet);
    packet.slot = addr->slot;
    packet.fds[NA_SM_FD_PAIR] = fd;
    (void) snprintf(
        packet.name, sizeof(packet.name), "%s", self->base.self_addr->name);
    ret = na_sm_door_send(self, addr->fd, &packet, NA_SM_FDS_HELLO, addr->kin);
    (void) close(fd);
    /* Whoever hung up may have said why: that is yet to be read. */
    return ret == NA_AGAIN ? NA_BUSY : NA_SUCCESS;
}

/* An address that was dialled before is that of the same user still: others
 * may have been told whose it is. */
static na_return_t na_sm_door_recognise(
    struct na_sm_addr *addr, const struct ucred *peer)
{
    char identity[NA_SM_IDENTITY];

    na_sm_policy_identify(peer, identity);
    if (!addr->reached)
        memcpy(addr->identity, identity, sizeof(identity));
    if (strcmp(addr->identity, identity) == 0)
        return NA_SUCCESS;
    hg_log_warning("sm", "%s was %s, and is process %ld of user %lu now",
        addr->base.name, addr->identity, (long) peer->pid,
        (unsigned long) peer->uid);
    return NA_PERMISSION;
}

/* Connect to an address that is to be dialled, and greet it. */
static na_return_t na_sm_door_call(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    struct ucred peer;
    const char *no;
    na_return_t ret;

    na_sm_enter(self);
    addr->fd = na_sm_socket();
    na_sm_leave(self);
    if (addr->fd < 0)
        return hg_log_no_fd("sm", "a connection");
    ret = na_sm_connect(&addr->where, addr->fd);
    addr->why = ret == NA_HOSTUNREACH || ret == NA_ACCESS ? errno : 0;
    if (ret != NA_SUCCESS)
        return ret;
    no = na_sm_policy_refuses(&self->policy, addr->fd, &peer);
    if (no != NULL) {
        hg_log_warning("sm", "process %ld of user %lu is refused: %s",
            (long) peer.pid, (unsigned long) peer.uid, no);
        return NA_PERMISSION;
    }
    addr->pid = peer.pid;
    addr->kin = na_sm_policy_is_own(&peer);
    ret = na_sm_door_recognise(addr, &peer);
    if (ret != NA_SUCCESS)
        return ret;
    ret = na_sm_door_watch(self, addr->fd, &addr->watch);
    if (ret != NA_SUCCESS)
        return ret;
    na_sm_enter(self);
    ret = na_sm_peer_take_slot(self, addr);
    na_sm_leave(self);
    if (ret == NA_SUCCESS)
        return na_sm_door_hello(self, addr);
    hg_log_error("sm", "%s is not dialled: no more than %u peers at a time",
        addr->base.name, NA_SM_PEERS);
    return ret;
}

/* The same. NA_BUSY: it is to be done anew, later; NA_AGAIN: we have as many
 * peers, or descriptors, as can be. */
static na_return_t na_sm_door_dial(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    na_return_t ret = na_sm_door_call(self, addr);

    if (ret == NA_BUSY) {
        na_sm_enter(self);
        na_sm_peer_part(self, addr);
        na_sm_leave(self);
    }
    return ret;
}

static void na_sm_door_give_up(
    struct na_sm_class *self, struct na_sm_addr *addr, na_return_t fate)
{
    na_sm_enter(self);
    na_sm_peer_lose(self, addr, fate);
    na_sm_leave(self);
}

/* The lookups of an address that is ready. */
static void na_sm_door_found(struct na_sm_class *self, struct na_sm_addr *addr)
{
    const struct na_core *core = self->base.core;
    struct na_link lookups;
    struct na_link *link;

    hg_list_init(&lookups);
    na_sm_enter(self);
    na_sm_peer_take_ops(&lookups, &addr->lookups);
    na_sm_leave(self);
    while ((link = hg_list_pop(&lookups)) != NULL) {
        struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);

        core->addr_ref(&addr->base);
        op->result_addr = &addr->base;
        core->complete(op, NA_SUCCESS);
    }
}

/* What a refusal means here. */
static na_return_t na_sm_door_reason(
    const struct na_sm_addr *addr, uint32_t reason)
{
    switch (reason) {
    case NA_PERMISSION:
    case NA_PROTOCOL_ERROR: break;
    case NA_AGAIN:
    case NA_NOMEM:
    case NA_IO_ERROR: reason = NA_AGAIN; break;
    default: reason = NA_HOSTUNREACH; break;
    }
    hg_log_warning("sm", "%s refuses us: %s", addr->base.name,
        reason == NA_AGAIN ? "it has no room, or no descriptors, left"
                           : NA_Error_to_string((na_return_t) reason));
    return (na_return_t) reason;
}

/* Judge an answer. */
static na_return_t na_sm_door_judge(const struct na_sm_class *self,
    const struct na_sm_addr *addr, const struct na_sm_packet *packet)
{
    if (packet->version != NA_SM_VERSION) {
        hg_log_warning("sm", "%s speaks version %u, not %d", addr->base.name,
            packet->version, NA_SM_VERSION);
        return NA_PROTOCOL_ERROR;
    }
    if (packet->kind == NA_SM_REFUSE)
        return na_sm_door_reason(addr, packet->reason);
    if (packet->kind != NA_SM_WELCOME ||
        !na_sm_door_is_whole(packet, NA_SM_FDS_WELCOME))
        return NA_PROTOCOL_ERROR;
    /* Another process that claims to be this one. */
    return packet->incarnation != self->base.incarnation ? NA_SUCCESS
                                                         : NA_PROTOCOL_ERROR;
}

HG_PRIVATE unsigned na_sm_door_answer(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    struct na_sm_packet packet;
    na_return_t ret = na_sm_packet_recv(addr->fd, &packet);

    assert(addr->dialled);
    if (ret == NA_AGAIN)
        return 0;
    if (ret == NA_SUCCESS) {
        ret = na_sm_door_judge(self, addr, &packet);
        if (ret == NA_SUCCESS) {
            ret = na_sm_door_map_pages(addr, &packet, NA_SM_FDS_WELCOME);
            if (ret == NA_PROTOCOL_ERROR)
                hg_log_warning("sm",
                    "%s sent memory of another size, or unsealed",
                    addr->base.name);
        }
        na_sm_packet_close(&packet);
    }
    if (ret == NA_OVERFLOW)
        ret = na_sm_packet_no_fd("the memory of a peer");
    if (ret != NA_SUCCESS) {
        na_sm_door_give_up(
            self, addr, ret == NA_DISCONNECT ? NA_HOSTUNREACH : ret);
        return 1;
    }
    if (na_sm_peer_open(self, addr))
        na_sm_door_found(self, addr);
    return 1;
}

/* ---- Callers ---- */

static void na_sm_door_drop(struct na_sm_class *self, struct na_sm_guest *guest)
{
    na_sm_enter(self);
    hg_list_remove(&guest->link);
    if (guest->fd >= 0) {
        (void) epoll_ctl(self->epoll_fd, EPOLL_CTL_DEL, guest->fd, NULL);
        (void) close(guest->fd);
    }
    na_sm_leave(self);
    self->guest_count--;
    hg_mem_free(guest);
}

/* A caller is one too many. */
static void na_sm_door_full(const struct na_sm_guest *guest)
{
    hg_log_warning("sm",
        "process %ld is refused: no more than %u peers at a time",
        (long) guest->peer.pid, NA_SM_PEERS);
}

/* The caller's address gets its socket. From now on others find a caller that
 * does not listen by its name: what they send waits until the connection is
 * ready. NA_NOMEM, logged. */
static na_return_t na_sm_door_seat(struct na_sm_class *self,
    struct na_sm_guest *guest, struct na_sm_addr *addr)
{
    na_return_t ret = NA_SUCCESS;

    na_sm_enter(self);
    if (na_sm_is_caller_name(addr->base.name))
        ret = na_sm_peer_enter(self, addr);
    if (ret == NA_SUCCESS) {
        addr->fd = guest->fd;
        guest->fd = -1;
        hg_list_push(&self->addrs, &addr->link);
        na_sm_peer_move(addr, NA_SM_DIALLING);
    }
    na_sm_leave(self);
    return ret;
}

/* An address for a caller that has said HELLO, with its memory mapped. */
static na_return_t na_sm_door_admit(struct na_sm_class *self,
    struct na_sm_guest *guest, struct na_sm_packet *hello)
{
    struct na_sm_addr *addr;
    struct na_sm_packet welcome;
    char name[NA_MAX_ADDR_LEN];
    void *shared = NULL;
    na_return_t ret;

    if (strncmp(hello->name, "sm://", 5) == 0)
        (void) snprintf(name, sizeof(name), "%s", hello->name);
    else
        na_sm_caller_name(name);
    addr = na_sm_peer_new(self, name, NA_FALSE, NULL);
    if (addr == NULL)
        return NA_NOMEM;
    na_sm_enter(self);
    ret = na_sm_peer_take_slot(self, addr);
    na_sm_leave(self);
    if (ret != NA_SUCCESS) {
        na_sm_door_full(guest);
        goto part;
    }
    addr->kin = na_sm_policy_is_own(&guest->peer);
    ret = na_sm_door_map_pages(addr, hello, NA_SM_FDS_HELLO);
    if (ret == NA_SUCCESS)
        ret = na_sm_page_map(hello->fds[NA_SM_FD_PAIR],
            sizeof(struct na_sm_shared), false, &shared);
    if (ret != NA_SUCCESS)
        goto part;
    addr->shared = (struct na_sm_shared *) shared;
    addr->pid = guest->peer.pid;
    na_sm_policy_identify(&guest->peer, addr->identity);
    (void) epoll_ctl(self->epoll_fd, EPOLL_CTL_DEL, guest->fd, NULL);
    ret = na_sm_door_watch(self, guest->fd, &addr->watch);
    if (ret == NA_SUCCESS)
        ret = na_sm_door_seat(self, guest, addr);
    if (ret != NA_SUCCESS)
        goto part;
    na_sm_door_packet(self, NA_SM_WELCOME, &welcome);
    welcome.slot = addr->slot;
    ret =
        na_sm_door_send(self, addr->fd, &welcome, NA_SM_FDS_WELCOME, addr->kin);
    if (ret == NA_SUCCESS)
        (void) na_sm_peer_open(self, addr);
    else
        na_sm_door_give_up(self, addr, NA_DISCONNECT);
    return NA_SUCCESS;

part:
    na_sm_enter(self);
    na_sm_peer_part(self, addr);
    na_sm_peer_move(addr, NA_SM_DEAD);
    na_sm_leave(self);
    self->base.core->addr_unref(&addr->base);
    return ret;
}

/* Judge a HELLO. NA_HOSTUNREACH: it is our own, by a name that
 * na_sm_is_own_name did not know as ours. */
static na_return_t na_sm_door_greet(struct na_sm_class *self,
    struct na_sm_guest *guest, struct na_sm_packet *hello)
{
    /* Of another version only the kind is decoded: ring_size is 0. */
    if (hello->kind != NA_SM_HELLO ||
        !na_sm_door_is_whole(hello, NA_SM_FDS_HELLO) ||
        hello->ring_size != NA_SM_RING)
        return NA_PROTOCOL_ERROR;
    return hello->incarnation != self->base.incarnation
        ? na_sm_door_admit(self, guest, hello)
        : NA_HOSTUNREACH;
}

/* A caller says no HELLO, or not with the memory that goes with it. */
static void na_sm_door_nonsense(
    const struct na_sm_guest *guest, const struct na_sm_packet *hello)
{
    if (hello->version != 0 && hello->version != NA_SM_VERSION)
        hg_log_warning("sm",
            "process %ld is refused: it speaks version %u, not %d",
            (long) guest->peer.pid, hello->version, NA_SM_VERSION);
    else
        hg_log_warning("sm",
            "process %ld is refused: it is none of ours, or its memory is of "
            "another size, or unsealed",
            (long) guest->peer.pid);
}

HG_PRIVATE unsigned na_sm_door_guest(
    struct na_sm_class *self, struct na_sm_guest *guest)
{
    struct na_sm_packet hello;
    na_return_t ret = na_sm_packet_recv(guest->fd, &hello);

    if (ret == NA_AGAIN)
        return 0;
    if (ret == NA_SUCCESS) {
        ret = na_sm_door_greet(self, guest, &hello);
        na_sm_packet_close(&hello);
    }
    if (ret == NA_OVERFLOW)
        ret = na_sm_door_no_fd(EMFILE);
    if (ret == NA_PROTOCOL_ERROR)
        na_sm_door_nonsense(guest, &hello);
    if (ret != NA_SUCCESS && ret != NA_DISCONNECT)
        na_sm_door_refuse(self, guest->fd, ret);
    na_sm_door_drop(self, guest);
    return 1;
}

/* The next caller, with no name but self->caller_fd; false, and errno: none. A
 * child of fork finds it there. */
static bool na_sm_door_next(struct na_sm_class *self)
{
    bool found;

    na_sm_enter(self);
    assert(self->caller_fd < 0);
    self->caller_fd =
        accept4(self->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    found = self->caller_fd >= 0;
    na_sm_leave(self);
    return found;
}

/* Take in a caller. */
static void na_sm_door_let_in(struct na_sm_class *self)
{
    struct na_sm_guest *guest;
    struct ucred peer;
    const char *no =
        na_sm_policy_refuses(&self->policy, self->caller_fd, &peer);
    na_return_t ret = no == NULL ? NA_AGAIN : NA_PERMISSION;

    if (no != NULL)
        hg_log_warning("sm", "process %ld of user %lu is refused: %s",
            (long) peer.pid, (unsigned long) peer.uid, no);
    if (no != NULL || self->guest_count >= NA_SM_DOOR_GUESTS)
        goto refuse;
    guest = (struct na_sm_guest *) hg_mem_calloc(1, sizeof(*guest));
    if (guest == NULL) {
        hg_log_error("sm", "no memory for a caller");
        ret = NA_NOMEM;
        goto refuse;
    }
    guest->watch = NA_SM_WATCH_GUEST;
    guest->peer = peer;
    guest->deadline = hg_clock_after_ms(NA_SM_DOOR_HELLO_MS);
    hg_list_init(&guest->link);
    na_sm_enter(self);
    guest->fd = self->caller_fd;
    self->caller_fd = -1;
    hg_list_push(&self->guests, &guest->link);
    na_sm_leave(self);
    self->guest_count++;
    ret = na_sm_door_watch(self, guest->fd, &guest->watch);
    if (ret != NA_SUCCESS) {
        na_sm_door_refuse(self, guest->fd, ret);
        na_sm_door_drop(self, guest);
        return;
    }
    (void) na_sm_door_guest(self, guest); /* it may have spoken already */
    return;

refuse:
    na_sm_door_refuse(self, self->caller_fd, ret);
    na_sm_peer_close(self, &self->caller_fd);
}

/* There is no descriptor for a caller, who must not wait for ever, nor make
 * the listening socket readable for ever: the spare one serves to say so.
 * False: there was no caller, which the system does not find out first. */
static bool na_sm_door_turn_away(struct na_sm_class *self)
{
    int error = errno;
    bool found;

    na_sm_peer_close(self, &self->spare_fd);
    found = na_sm_door_next(self);
    if (found) {
        na_sm_door_refuse(self, self->caller_fd, na_sm_door_no_fd(error));
        na_sm_peer_close(self, &self->caller_fd);
    }
    na_sm_enter(self);
    self->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    na_sm_leave(self);
    return found;
}

HG_PRIVATE unsigned na_sm_door_accept(struct na_sm_class *self)
{
    unsigned n;

    for (n = 0; n < NA_SM_DOOR_BATCH; n++) {
        if (na_sm_door_next(self)) {
            na_sm_door_let_in(self);
        } else if (errno == EMFILE || errno == ENFILE) {
            if (!na_sm_door_turn_away(self))
                break;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            break;
        }
    }
    return n;
}

HG_PRIVATE void na_sm_door_close(struct na_sm_class *self)
{
    while (!hg_list_is_empty(&self->guests))
        na_sm_door_drop(
            self, HG_CONTAINER_OF(self->guests.next, struct na_sm_guest, link));
}

/* ---- Time ---- */

/* Dial, or give up, one of those to be dialled. */
static unsigned na_sm_door_try(
    struct na_sm_class *self, struct na_sm_addr *addr, uint64_t now)
{
    na_return_t ret;

    if (now >= addr->deadline) {
        na_sm_door_give_up(self, addr, NA_HOSTUNREACH);
        return 1;
    }
    if (now < addr->retry)
        return 0;
    ret = na_sm_door_dial(self, addr);
    addr->retry =
        ret == NA_BUSY ? now + NA_SM_DOOR_RETRY : (uint64_t) NA_SM_NEVER;
    if (ret != NA_SUCCESS && ret != NA_BUSY)
        na_sm_door_give_up(self, addr, ret);
    return 1;
}

static uint64_t na_sm_door_sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Guests that did not say HELLO; `tick`: when the next will be late. */
static unsigned na_sm_door_late_guests(
    struct na_sm_class *self, uint64_t now, uint64_t *tick)
{
    struct na_link *link, *next;
    unsigned n = 0;

    for (link = self->guests.next; link != &self->guests; link = next) {
        struct na_sm_guest *guest =
            HG_CONTAINER_OF(link, struct na_sm_guest, link);

        next = link->next;
        if (now < guest->deadline) {
            *tick = na_sm_door_sooner(*tick, guest->deadline);
            continue;
        }
        self->base.core->count(&self->base, "sm_refused", 1);
        na_sm_door_drop(self, guest);
        n++;
    }
    return n;
}

/* What waits on an address whose goodbye was not answered. */
struct na_sm_door_waiters {
    struct na_link lookups;
    struct na_link sends;
    struct na_link closers;
};

/* A peer did not answer a goodbye. Its connection is over; or, if it is in the
 * middle of a copy, stays for as long as that takes, and nobody waits for it
 * any more. The class lock is held. */
static void na_sm_door_late_answer(struct na_sm_class *self,
    struct na_sm_addr *addr, struct na_sm_door_waiters *left)
{
    struct na_sm_control *ours = &addr->shared->control[addr->dialled ? 0 : 1];
    bool again = atomic_load(&ours->over) != 0;

    /* Who names memory of ours after this looks here first. */
    atomic_store(&ours->over, 1);
    if (!na_sm_peer_is_touching(addr)) {
        hg_log_info("sm", "process %ld does not answer a goodbye: it is over",
            (long) addr->pid);
        na_sm_peer_lose(self, addr, NA_DISCONNECT);
        return;
    }
    if (!again)
        hg_log_info("sm",
            "process %ld does not answer a goodbye, and stopped in the middle "
            "of a copy",
            (long) addr->pid);
    hg_list_remove(&addr->turn);
    na_sm_peer_await_end(self, addr);
    na_sm_peer_take_ops(&left->lookups, &addr->lookups);
    na_sm_peer_take_ops(&left->sends, &addr->sends);
    na_sm_peer_take_ops(&left->closers, &addr->closers);
}

/* Those who did not. */
static unsigned na_sm_door_late_answers(struct na_sm_class *self, uint64_t now)
{
    struct na_sm_door_waiters left;
    unsigned n = 0;

    hg_list_init(&left.lookups);
    hg_list_init(&left.sends);
    hg_list_init(&left.closers);
    na_sm_enter(self);
    while (!hg_list_is_empty(&self->closing)) {
        struct na_sm_addr *addr =
            HG_CONTAINER_OF(self->closing.next, struct na_sm_addr, turn);

        if (now < addr->deadline)
            break;
        na_sm_door_late_answer(self, addr, &left);
        n++;
    }
    na_sm_leave(self);
    na_sm_peer_complete(self, &left.lookups, NA_HOSTUNREACH);
    na_sm_peer_complete(self, &left.sends, NA_DISCONNECT);
    na_sm_peer_complete(self, &left.closers, NA_SUCCESS);
    return n;
}

HG_PRIVATE unsigned na_sm_door_tick(struct na_sm_class *self, uint64_t now)
{
    uint64_t tick = NA_SM_NEVER;
    struct na_link *link, *next;
    unsigned n = na_sm_door_late_guests(self, now, &tick);

    n += na_sm_door_late_answers(self, now);
    na_sm_enter(self);
    for (link = self->dialling.next; link != &self->dialling;) {
        struct na_sm_addr *addr =
            HG_CONTAINER_OF(link, struct na_sm_addr, turn);

        /* Others only append, or abandon it; we alone bury. */
        na_sm_leave(self);
        n += na_sm_door_try(self, addr, now);
        na_sm_enter(self);
        next = link->next;
        if (na_sm_peer_state(addr) != NA_SM_DIALLING) {
            link = self->dialling.next; /* it left the list: begin anew */
            continue;
        }
        tick = na_sm_door_sooner(
            tick, na_sm_door_sooner(addr->deadline, addr->retry));
        link = next;
    }
    /* Others may have begun to wait for an end meanwhile. */
    if (!hg_list_is_empty(&self->closing))
        tick = na_sm_door_sooner(tick,
            HG_CONTAINER_OF(self->closing.next, struct na_sm_addr, turn)
                ->deadline);
    self->tick =
        self->pairs > 0 ? na_sm_door_sooner(tick, self->scan_at) : tick;
    /* Another thread may sleep, until later than this. */
    na_sm_peer_unlock(self);
    return n;
}

#endif
