/* SPDX-License-Identifier: BSD-3-Clause */
/* peer: see peer.h. */
#include "sm/peer.h"

#if HG_ENABLE_SM

#include "base/clock.h"
#include "base/crc64.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/progress.h"

HG_PRIVATE void na_sm_wake(struct na_sm_class *self)
{
    if (self->sleepers > 0)
        na_progress_wake(&self->base);
}

HG_PRIVATE void na_sm_yield(const struct na_sm_class *self)
{
    na_sm_leave(self);
    (void) sched_yield();
    na_sm_enter(self);
}

/* ---- Addresses ---- */

HG_PRIVATE struct na_sm_addr *na_sm_peer_new(struct na_sm_class *self,
    const char *name, na_bool_t is_self, const struct na_sm_name *where)
{
    struct na_addr *base = na_addr_create(&self->base, name, is_self);
    struct na_sm_addr *addr;

    if (base == NULL)
        return NULL;
    addr = na_sm_addr_of(base);
    hg_list_init(&addr->link);
    hg_list_init(&addr->turn);
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

/* Peers choose names, so different names may have the same hash: the last one
 * has the entry. */
static uint64_t na_sm_peer_hash(const char *name)
{
    return hg_crc64_update(0, name, strlen(name));
}

/* Remove from the table of names. */
static void na_sm_peer_forget(struct na_sm_class *self, struct na_sm_addr *addr)
{
    uint64_t hash;

    if (addr->base.name == NULL)
        return;
    hash = na_sm_peer_hash(addr->base.name);
    if (hg_map_get(&self->names, hash) == addr)
        (void) hg_map_remove(&self->names, hash);
}

HG_PRIVATE void na_sm_peer_release(struct na_addr *base)
{
    struct na_sm_addr *addr = na_sm_addr_of(base);
    struct na_sm_class *self = na_sm_of(base->na_class);

    HG_ASSERT(addr->shared == NULL && addr->fd < 0);
    HG_ASSERT(hg_list_is_empty(&addr->link) && hg_list_is_empty(&addr->turn));
    if (self->closed)
        return;
    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    na_sm_peer_forget(self, addr);
}

HG_PRIVATE struct na_sm_addr *na_sm_peer_find(
    struct na_sm_class *self, const char *name)
{
    struct na_sm_addr *addr =
        (struct na_sm_addr *) hg_map_get(&self->names, na_sm_peer_hash(name));

    return addr != NULL && strcmp(addr->base.name, name) == 0 &&
            na_addr_try_ref(&addr->base)
        ? addr
        : NULL;
}

HG_PRIVATE na_return_t na_sm_peer_enter(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    const char *name = addr->base.name;
    na_return_t ret = hg_map_put(&self->names, na_sm_peer_hash(name), addr);

    if (ret != NA_SUCCESS)
        hg_log_error("sm", "no memory for the name %s", name);
    return ret;
}

/* The level of a line about a peer: an error if the application looks it up,
 * information if only lookups wait for it that are tried again. */
static int na_sm_peer_level(const struct na_sm_addr *addr)
{
    const struct na_link *link = addr->lookups.next;

    while (link != &addr->lookups &&
        HG_CONTAINER_OF(link, const struct na_op, link)->quiet)
        link = link->next;
    if (link == &addr->lookups && !hg_list_is_empty(&addr->lookups) &&
        hg_list_is_empty(&addr->sends))
        return HG_LOG_LEVEL_INFO;
    return addr->dialled ? na_addr_name_level(addr->from_peer || addr->receives)
                         : HG_LOG_LEVEL_WARNING;
}

/* Take the first free slot for a pair. NA_AGAIN, logged: all are in use. */
static na_return_t na_sm_peer_take_slot(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    uint32_t slot = 0;

    HG_ASSERT(addr->slot == NA_SM_PEERS && self->slots_end <= NA_SM_PEERS);
    if (self->pairs == NA_SM_PEERS) {
        HG_LOG_AT(na_sm_peer_level(addr), "sm",
            "process %ld cannot be a peer: the limit is %u peers",
            (long) addr->user.pid, NA_SM_PEERS);
        return NA_AGAIN;
    }
    while (self->slots[slot] != NULL)
        slot++;
    if (slot >= self->slots_end)
        self->slots_end = slot + 1;
    self->pairs++;
    self->slots[slot] = addr;
    addr->slot = slot;
    return NA_SUCCESS;
}

static void na_sm_peer_give_slot(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    if (addr->slot == NA_SM_PEERS)
        return;
    self->slots[addr->slot] = NULL;
    na_sm_hint_clear(self->hints, addr->slot);
    addr->slot = NA_SM_PEERS;
    self->pairs--;
    while (self->slots_end > 0 && self->slots[self->slots_end - 1] == NULL)
        self->slots_end--;
}

/* ---- States ---- */

/* The class holds a reference of an address while it works on it. */
static void na_sm_peer_hold(struct na_sm_class *self, struct na_sm_addr *addr)
{
    if (!hg_list_is_empty(&addr->link))
        return;
    na_addr_use(&addr->base);
    hg_list_push(&self->addrs, &addr->link);
}

HG_PRIVATE void na_sm_peer_dial(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    HG_ASSERT(addr->state == NA_SM_IDLE && addr->dialled);
    HG_ASSERT(addr->fd < 0 && hg_list_is_empty(&addr->turn));
    na_sm_peer_hold(self, addr);
    addr->state = NA_SM_DIALLING;
    addr->deadline = hg_clock_after_ms(self->base.info->lookup_ms);
    addr->retry = 0;
    hg_list_push(&self->dialling, &addr->turn);
    self->tick = 0;
    self->look = true;
    na_sm_wake(self);
}

HG_PRIVATE void na_sm_peer_want(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    if (addr->state == NA_SM_IDLE) {
        na_sm_peer_dial(self, addr);
    } else if (addr->state == NA_SM_DIALLING && addr->receives) {
        addr->deadline = hg_clock_after_ms(self->base.info->lookup_ms);
        self->tick = 0;
    }
    addr->receives = false;
}

HG_PRIVATE void na_sm_peer_close(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    HG_ASSERT(addr->shared != NULL && addr->state < NA_SM_DYING);
    addr->state = NA_SM_CLOSING;
    addr->deadline = hg_clock_after_ms(self->base.info->death_ms);
    hg_list_remove(&addr->turn);
    hg_list_push(&self->closing, &addr->turn);
    self->tick = 0;
    self->look = true;
    na_sm_wake(self);
}

/* The rings of a pair and the peer's pages are mapped: open the connection. */
static void na_sm_peer_open(struct na_sm_class *self, struct na_sm_addr *addr)
{
    unsigned ours = addr->dialled ? 0 : 1;

    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    HG_ASSERT(addr->state == NA_SM_DIALLING && addr->shared != NULL);
    na_sm_out_init(&addr->out, &addr->shared->control[ours],
        addr->shared->rings[ours], NA_SM_RING);
    na_sm_in_init(&addr->in, &addr->shared->control[1 - ours],
        addr->shared->rings[1 - ours], NA_SM_RING);
    addr->rung = 0;
    addr->reached = true;
    addr->open = true;
    addr->full = !hg_list_is_empty(&addr->sends);
    addr->state = NA_SM_READY;
    hg_list_remove(&addr->turn);
    /* The application may have closed the connection before it began. */
    if (!hg_list_is_empty(&addr->closers))
        na_sm_peer_close(self, addr);
    na_sm_hint_set(self->hints, addr->slot); /* check its ring first */
    self->base.core->count(&self->base, "sm_met", 1);
    if (addr->dialled)
        self->base.core->addr_connected(&addr->base, NA_SUCCESS);
}

/* Make the polling thread end the connection. */
static void na_sm_peer_set_dying(struct na_sm_class *self,
    struct na_sm_addr *addr, na_return_t lookup_ret, bool again)
{
    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    HG_ASSERT(!hg_list_is_empty(&addr->link));
    addr->lookup_ret = lookup_ret;
    addr->again = again;
    addr->state = NA_SM_DYING;
    if (!again)
        na_sm_peer_forget(self, addr);
    hg_list_remove(&addr->turn);
    hg_list_push(&self->dying, &addr->turn);
    na_sm_wake(self);
}

HG_PRIVATE void na_sm_peer_lose(
    struct na_sm_class *self, struct na_sm_addr *addr, na_return_t lookup_ret)
{
    if (addr->state == NA_SM_IDLE || addr->state >= NA_SM_DYING)
        return;
    na_sm_peer_set_dying(self, addr, lookup_ret,
        addr->dialled && (addr->state == NA_SM_CLOSING || !addr->reached));
}

HG_PRIVATE void na_sm_peer_give_up(
    struct na_sm_class *self, struct na_sm_addr *addr, na_return_t lookup_ret)
{
    if (addr->state == NA_SM_DEAD)
        return;
    na_sm_peer_hold(self, addr);
    na_sm_peer_set_dying(self, addr, lookup_ret, false);
}

HG_PRIVATE bool na_sm_peer_has_ended(const struct na_sm_addr *addr)
{
    struct pollfd socket = {addr->fd, POLLRDHUP, 0};

    /* A descriptor of -1 has no events. */
    return poll(&socket, 1, 0) > 0 &&
        (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

HG_PRIVATE bool na_sm_peer_copies(const struct na_sm_addr *addr, uint64_t key)
{
    const struct na_sm_control *theirs = na_sm_theirs(addr);
    unsigned i;

    for (i = 0; i < NA_SM_HAZARDS; i++) {
        uint64_t word = atomic_load(&theirs->hazard[i]);

        if (word != 0 && (key == 0 || word == key))
            return !na_sm_peer_has_ended(addr);
    }
    return false;
}

/* The mappings, by enum na_sm_fd. */
static const struct {
    size_t size;
    int protection;
} na_sm_peer_maps[NA_SM_FD_BELL] = {{NA_SM_PUBLIC_SIZE, PROT_READ},
    {NA_SM_HINTS_SIZE, PROT_READ | PROT_WRITE},
    {sizeof(struct na_sm_shared), PROT_READ | PROT_WRITE},
    {NA_SM_ARENA_SIZE, PROT_NONE}, {NA_SM_ARENA_SIZE, PROT_NONE}};

HG_PRIVATE void na_sm_peer_part(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    unsigned i;

    while (addr->copies != 0)
        na_sm_yield(self);
    for (i = 0; i < NA_SM_FD_BELL; i++) {
        na_sm_page_unmap(addr->maps[i], na_sm_peer_maps[i].size);
        addr->maps[i] = NULL;
    }
    addr->shared = NULL;
    memset(addr->peer_open, 0, sizeof(addr->peer_open));
    if (addr->fd >= 0) {
        (void) epoll_ctl(self->epoll_fd, EPOLL_CTL_DEL, addr->fd, NULL);
        (void) close(addr->fd);
    }
    addr->fd = -1;
    if (addr->peer_bell >= 0)
        (void) close(addr->peer_bell);
    addr->peer_bell = -1;
    addr->user.pid = 0;
    addr->open = false;
    addr->full = false;
    addr->held = false;
    addr->vm = NA_SM_VM_UNTRIED;
    na_sm_peer_give_slot(self, addr);
}

HG_PRIVATE void na_sm_peer_complete(struct na_link *list, na_return_t ret)
{
    while (!hg_list_is_empty(list)) {
        struct na_op *op = HG_CONTAINER_OF(list->next, struct na_op, link);

        na_sm_op_remove(op);
        na_op_complete(op, ret);
    }
}

/* Log that an address that was dialled cannot be reached. */
static void na_sm_peer_log_unreached(
    const struct na_sm_class *self, const struct na_sm_addr *addr)
{
    bool listen = self->base.listen;
    bool calls =
        addr->why == ECONNREFUSED && na_sm_is_caller_name(addr->base.name);

    HG_LOG_AT(na_sm_peer_level(addr), "sm", "%s cannot be reached: %s%s%s",
        addr->base.name,
        calls ? "it does not listen and is not connected to this class"
            : addr->why == 0 ? "the process that listens there does not answer"
            : addr->why == ECONNREFUSED ? "nobody listens there"
                                        : strerror(addr->why),
        !calls       ? ""
            : listen ? ": its process must first look up "
                     : ", which does not listen, either: one of the two must",
        calls && listen ? self->base.self_addr->name : "");
}

/* Log why an address is dead; returns the result of its pending operations.
 * That it cannot be reached is an error if the application gave the address. */
static na_return_t na_sm_peer_dead_code(
    struct na_sm_class *self, const struct na_sm_addr *addr)
{
    const char *name = addr->base.name != NULL ? addr->base.name : "(unnamed)";

    if (addr->lookup_ret == NA_PROTOCOL_ERROR || addr->lookup_ret == NA_FAULT)
        return addr->lookup_ret;
    if (addr->reached) {
        hg_log_info("sm", "lost the peer %s", name);
        return NA_DISCONNECT;
    }
    if (addr->lookup_ret != NA_HOSTUNREACH && addr->lookup_ret != NA_ACCESS)
        return addr->lookup_ret;
    if (addr->from_peer)
        self->base.core->count(&self->base, "bad_names", 1);
    na_sm_peer_log_unreached(self, addr);
    return addr->lookup_ret;
}

HG_PRIVATE void na_sm_peer_end(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    const struct na_core *core = self->base.core;
    na_return_t ret;

    HG_ASSERT(addr->state == NA_SM_DYING);
    hg_list_remove(&addr->turn);
    na_sm_peer_part(self, addr);
    addr->state = addr->again ? NA_SM_IDLE : NA_SM_DEAD;
    if (addr->again) /* another process may listen there next */
        atomic_store(&addr->incarnation, 0);
    na_sm_peer_complete(&addr->closers, NA_SUCCESS);
    if (addr->again && addr->reached) {
        if (!hg_list_is_empty(&addr->lookups) ||
            !hg_list_is_empty(&addr->sends))
            na_sm_peer_dial(self, addr);
        core->addr_parted(&addr->base);
    } else {
        ret = na_sm_peer_dead_code(self, addr);
        na_sm_peer_complete(&addr->lookups, addr->lookup_ret);
        na_sm_peer_complete(&addr->sends, ret);
        if (!addr->again)
            core->addr_dead(&addr->base, ret);
        else if (addr->receives)
            core->addr_connected(&addr->base, ret);
        else
            core->addr_unreached(&addr->base, ret);
    }
    if (addr->state == NA_SM_IDLE || addr->state == NA_SM_DEAD) {
        hg_list_remove(&addr->link);
        na_addr_unuse(&addr->base);
    }
}

/* ---- Connecting ---- */

#define NA_SM_CONN_HELLO_MS 5000u /* timeout of HELLO */
#define NA_SM_CONN_BATCH 64u      /* callers accepted at a time */
#define NA_SM_CONN_CALLERS 1024u  /* maximum of callers before HELLO */

HG_PRIVATE na_return_t na_sm_watch(
    const struct na_sm_class *self, int fd, uint32_t events, void *what)
{
    struct epoll_event event;

    memset(&event, 0, sizeof(event));
    event.events = EPOLLIN | events;
    event.data.ptr = what;
    return epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0
        ? NA_SUCCESS
        : hg_log_no_fd("sm", "the class's epoll");
}

/* Send HELLO or WELCOME to a peer, with the descriptors that it may have. */
static na_return_t na_sm_conn_send(const struct na_sm_class *self,
    const struct na_sm_addr *addr, enum na_sm_packet_kind kind, int pair_fd)
{
    struct na_sm_packet packet;
    unsigned i;

    na_sm_packet_init(&packet, kind);
    packet.incarnation = self->base.incarnation;
    packet.slot = addr->slot;
    packet.fds[NA_SM_FD_PUBLIC] = self->public_fd;
    packet.fds[NA_SM_FD_HINTS] = self->hints_fd;
    packet.fds[NA_SM_FD_PAIR] = pair_fd;
    for (i = 0; i < NA_SM_ARENAS; i++)
        packet.fds[NA_SM_FD_ARENA + i] = na_sm_arena_fd(self->arenas, i);
    packet.fds[NA_SM_FD_BELL] = addr->user.same_user ? self->bell_fd : -1;
    if (kind == NA_SM_HELLO)
        (void) snprintf(
            packet.name, sizeof(packet.name), "%s", self->base.self_addr->name);
    return na_sm_packet_send(addr->fd, &packet);
}

/* Log that the process that listens at an address is no peer; NA_PERMISSION:
 * for its user. */
static void na_sm_conn_log_refusal(const struct na_sm_addr *addr,
    const struct na_sm_user *listener, na_return_t ret, const char *why)
{
    char hint[96] = "";

    if (ret == NA_PERMISSION)
        (void) snprintf(hint, sizeof(hint),
            "; auth_key of each side must allow the other's user (here %lu)",
            (unsigned long) geteuid());
    HG_LOG_AT(na_sm_peer_level(addr), "sm",
        "%s cannot be reached: process %ld of user %lu listens there: %s%s",
        addr->base.name, (long) listener->pid, (unsigned long) listener->uid,
        why, hint);
}

/* Whether the user who listens at an address may be a peer. */
static bool na_sm_conn_allows_listener(const struct na_sm_class *self,
    const struct na_sm_addr *addr, struct na_sm_user *listener_p)
{
    const char *no = na_sm_policy_refuses(&self->policy, addr->fd, listener_p);

    if (no != NULL)
        na_sm_conn_log_refusal(addr, listener_p, NA_PERMISSION, no);
    return no == NULL;
}

/* Whether the user of a caller may be a peer. */
static bool na_sm_conn_allows(
    const struct na_sm_class *self, int fd, struct na_sm_user *peer_p)
{
    const char *no = na_sm_policy_refuses(&self->policy, fd, peer_p);

    if (no != NULL)
        hg_log_warning("sm", "process %ld of user %lu is refused: %s",
            (long) peer_p->pid, (unsigned long) peer_p->uid, no);
    return no == NULL;
}

/* Send a caller the reason of its refusal. */
static void na_sm_conn_refuse(
    struct na_sm_class *self, int fd, na_return_t reason)
{
    struct na_sm_packet packet;

    na_sm_packet_init(&packet, NA_SM_REFUSE);
    packet.incarnation = self->base.incarnation;
    packet.reason = (uint32_t) reason;
    (void) na_sm_packet_send(fd, &packet);
    self->base.core->count(&self->base, "sm_refused", 1);
}

/* ---- Dialling ---- */

/* Map what the other side sent, and take its bell, if there is one that may be
 * rung. An arena that cannot be mapped, or is missing, only costs speed. */
static na_return_t na_sm_conn_map(
    struct na_sm_addr *addr, struct na_sm_packet *packet)
{
    bool arenas = na_sm_arena_is_mappable();
    unsigned i;

    for (i = 0; i < (arenas ? NA_SM_FD_BELL : NA_SM_FD_ARENA); i++) {
        na_return_t ret = packet->fds[i] < 0
            ? NA_SUCCESS
            : na_sm_page_map(packet->fds[i], na_sm_peer_maps[i].size,
                  na_sm_peer_maps[i].protection, &addr->maps[i]);

        if (ret != NA_SUCCESS && i < NA_SM_FD_ARENA)
            return ret;
    }
    addr->peer_public =
        (const struct na_sm_public *) addr->maps[NA_SM_FD_PUBLIC];
    addr->peer_hints = (struct na_sm_hints *) addr->maps[NA_SM_FD_HINTS];
    addr->shared = (struct na_sm_shared *) addr->maps[NA_SM_FD_PAIR];
    addr->peer_slot = packet->slot;
    if (addr->user.same_user)
        addr->peer_bell = na_sm_packet_take(packet, NA_SM_FD_BELL);
    atomic_store(&addr->pid, addr->user.pid);
    atomic_store(&addr->incarnation, packet->incarnation);
    return NA_SUCCESS;
}

/* Create the pair and send HELLO with it. NA_BUSY: it cannot be sent now. */
static na_return_t na_sm_conn_hello(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    char name[sizeof("hg-pair sm://") + sizeof(addr->where.where.sun_path)];
    int fd = -1;
    na_return_t ret;

    (void) snprintf(name, sizeof(name), "hg-pair %s", addr->base.name);
    ret = na_sm_page_create(name, sizeof(struct na_sm_shared), false,
        &addr->maps[NA_SM_FD_PAIR], &fd);
    if (ret != NA_SUCCESS)
        return ret;
    ret = na_sm_conn_send(self, addr, NA_SM_HELLO, fd);
    (void) close(fd);
    /* If the peer closed the socket, its reason may still be unread. */
    return ret == NA_AGAIN ? NA_BUSY : NA_SUCCESS;
}

/* An address that was dialled before must still belong to the same user: its
 * identity may have been passed on. */
static na_return_t na_sm_conn_check_user(
    struct na_sm_addr *addr, const struct na_sm_user *peer)
{
    if (addr->reached && strcmp(addr->user.identity, peer->identity) != 0) {
        HG_LOG_AT(na_sm_peer_level(addr), "sm",
            "%s was %s, and is process %ld of user %lu now", addr->base.name,
            addr->user.identity, (long) peer->pid, (unsigned long) peer->uid);
        return NA_PERMISSION;
    }
    addr->user = *peer;
    return NA_SUCCESS;
}

/* Connect to an address and send HELLO. NA_BUSY: try again later; NA_AGAIN: the
 * limit of peers or descriptors is reached. */
static na_return_t na_sm_conn_dial(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    struct na_sm_user peer;
    na_return_t ret;

    addr->fd = na_sm_socket();
    if (addr->fd < 0)
        return hg_log_no_fd("sm", addr->base.name);
    ret = na_sm_connect(&addr->where, addr->fd);
    addr->why = ret == NA_HOSTUNREACH || ret == NA_ACCESS ? errno : 0;
    if (ret != NA_SUCCESS)
        return ret;
    if (!na_sm_conn_allows_listener(self, addr, &peer))
        return NA_PERMISSION;
    ret = na_sm_conn_check_user(addr, &peer);
    if (ret != NA_SUCCESS)
        return ret;
    ret = na_sm_watch(self, addr->fd, EPOLLRDHUP, addr);
    if (ret == NA_SUCCESS)
        ret = na_sm_peer_take_slot(self, addr);
    return ret == NA_SUCCESS ? na_sm_conn_hello(self, addr) : ret;
}

/* Complete the lookups of an address that is ready. */
static void na_sm_conn_end_lookups(struct na_sm_addr *addr)
{
    while (!hg_list_is_empty(&addr->lookups)) {
        struct na_op *op =
            HG_CONTAINER_OF(addr->lookups.next, struct na_op, link);

        na_sm_op_remove(op);
        na_addr_ref(&addr->base);
        op->result_addr = &addr->base;
        na_op_complete(op, NA_SUCCESS);
    }
}

HG_PRIVATE bool na_sm_conn_prove(
    const struct na_sm_class *self, struct na_sm_addr *addr)
{
    const struct na_link *link;

    if (addr->state != NA_SM_DIALLING || addr->fd < 0 || addr->user.pid == 0)
        return false;
    for (link = self->addrs.next; link != &self->addrs; link = link->next) {
        const struct na_sm_addr *caller =
            HG_CONTAINER_OF(link, struct na_sm_addr, link);

        if (caller->dialled || caller->state != NA_SM_READY ||
            caller->user.pid != addr->user.pid ||
            strcmp(caller->base.name, addr->base.name) != 0 ||
            na_sm_peer_has_ended(caller))
            continue;
        atomic_store(&addr->pid, atomic_load(&caller->pid));
        atomic_store(&addr->incarnation, atomic_load(&caller->incarnation));
        return true;
    }
    return false;
}

HG_PRIVATE bool na_sm_conn_owns_name(const struct na_sm_class *self,
    struct na_sm_addr *caller, const struct na_sm_name *name)
{
    struct na_sm_user listener;
    na_return_t ret = NA_AGAIN;
    int fd;

    if (caller->owns_name)
        return true;
    fd = na_sm_socket();
    if (fd >= 0)
        ret = na_sm_connect(name, fd);
    if (ret == NA_SUCCESS)
        caller->owns_name =
            na_sm_policy_refuses(&self->policy, fd, &listener) == NULL &&
            listener.pid == caller->user.pid && listener.pid != 0;
    if (fd >= 0)
        (void) close(fd);
    return ret == NA_HOSTUNREACH || caller->owns_name;
}

/* The error code for a refusal. */
static na_return_t na_sm_conn_refusal_code(
    const struct na_sm_addr *addr, uint32_t reason)
{
    if (reason == NA_NOMEM || reason == NA_IO_ERROR)
        reason = NA_AGAIN;
    else if (reason != NA_PERMISSION && reason != NA_PROTOCOL_ERROR &&
        reason != NA_AGAIN)
        return NA_HOSTUNREACH; /* logged at its end */
    na_sm_conn_log_refusal(addr, &addr->user, (na_return_t) reason,
        reason == NA_AGAIN ? "its limit of peers or descriptors is reached"
            : reason == NA_PERMISSION ? "it does not allow this process"
                                      : "it does not understand this process");
    return (na_return_t) reason;
}

/* ---- Callers ---- */

/* Drop a caller that has no name yet. */
static void na_sm_conn_drop_caller(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    self->callers--;
    na_sm_peer_part(self, addr);
    addr->state = NA_SM_DEAD;
    hg_list_remove(&addr->turn);
    hg_list_remove(&addr->link);
    na_addr_unuse(&addr->base);
}

/* Accept a HELLO: set the caller's name, and map its memory. A caller that does
 * not listen is found by that name. */
static na_return_t na_sm_conn_accept_hello(struct na_sm_class *self,
    struct na_sm_addr *addr, struct na_sm_packet *hello)
{
    na_return_t ret = na_sm_peer_take_slot(self, addr);

    if (ret == NA_SUCCESS)
        ret = na_sm_conn_map(addr, hello);
    if (ret != NA_SUCCESS)
        return ret;
    if (strncmp(hello->name, "sm://", 5) != 0)
        na_sm_caller_name(hello->name);
    ret = na_addr_set_name(&addr->base, hello->name);
    if (ret == NA_SUCCESS && na_sm_is_caller_name(hello->name))
        ret = na_sm_peer_enter(self, addr);
    if (ret != NA_SUCCESS)
        return ret;
    return na_sm_conn_send(self, addr, NA_SM_WELCOME, -1);
}

/* Check a packet, and connect. NA_HOSTUNREACH: the peer is this class, by a
 * name that na_sm_is_own_name did not recognise. */
static na_return_t na_sm_conn_handle(struct na_sm_class *self,
    struct na_sm_addr *addr, struct na_sm_packet *packet)
{
    const unsigned pair = 1u << NA_SM_FD_PAIR;
    const unsigned pages = 1u << NA_SM_FD_PUBLIC | 1u << NA_SM_FD_HINTS;
    int bell = packet->fds[NA_SM_FD_BELL];

    if (addr->dialled && packet->kind == NA_SM_REFUSE)
        return na_sm_conn_refusal_code(addr, packet->reason);
    if (packet->kind != (addr->dialled ? NA_SM_WELCOME : NA_SM_HELLO) ||
        (packet->what & (pages | pair)) !=
            (addr->dialled ? pages : pages | pair) ||
        (bell >= 0 && !na_sm_bell_is_one(bell)))
        return NA_PROTOCOL_ERROR;
    if (packet->incarnation == self->base.incarnation)
        return addr->dialled ? NA_PROTOCOL_ERROR : NA_HOSTUNREACH;
    return addr->dialled ? na_sm_conn_map(addr, packet)
                         : na_sm_conn_accept_hello(self, addr, packet);
}

/* Log a malformed packet of a peer or caller. */
static void na_sm_conn_log_malformed(
    const struct na_sm_addr *addr, const struct na_sm_packet *packet)
{
    if (packet->version != 0 && packet->version != NA_SM_VERSION)
        HG_LOG_AT(na_sm_peer_level(addr), "sm",
            "process %ld is refused: it has version %u of the protocol, not %d",
            (long) addr->user.pid, packet->version, NA_SM_VERSION);
    else if (packet->kind != NA_SM_REFUSE)
        HG_LOG_AT(na_sm_peer_level(addr), "sm",
            "process %ld is refused: it is not hg, or its memory has "
            "another size or is unsealed",
            (long) addr->user.pid);
}

HG_PRIVATE unsigned na_sm_conn_read(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    struct na_sm_packet packet;
    na_return_t ret = na_sm_packet_recv(addr->fd, &packet);

    if (ret == NA_AGAIN)
        return 0;
    if (ret == NA_OVERFLOW) {
        errno = EMFILE;
        ret = hg_log_no_fd(
            "sm", addr->dialled ? addr->base.name : "the memory of a peer");
    }
    if (ret == NA_SUCCESS)
        ret = na_sm_conn_handle(self, addr, &packet);
    na_sm_packet_close(&packet);
    if (ret == NA_PROTOCOL_ERROR)
        na_sm_conn_log_malformed(addr, &packet);
    if (ret == NA_SUCCESS) {
        self->callers -= !addr->dialled;
        na_sm_peer_open(self, addr);
        na_sm_conn_end_lookups(addr);
    } else if (addr->dialled) {
        na_sm_peer_lose(
            self, addr, ret == NA_DISCONNECT ? NA_HOSTUNREACH : ret);
    } else {
        if (ret != NA_DISCONNECT)
            na_sm_conn_refuse(self, addr->fd, ret);
        na_sm_conn_drop_caller(self, addr);
    }
    return 1;
}

/* Accept the next caller; -1 with errno: none. */
static int na_sm_conn_next_caller(const struct na_sm_class *self)
{
    return accept4(self->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* Add a caller, or refuse it. */
static void na_sm_conn_add_caller(struct na_sm_class *self, int fd)
{
    struct na_sm_addr *addr = NULL;
    na_return_t ret = NA_AGAIN;
    struct na_sm_user peer;

    if (!na_sm_conn_allows(self, fd, &peer))
        ret = NA_PERMISSION;
    else if (self->callers < NA_SM_CONN_CALLERS)
        addr = na_sm_peer_new(self, NULL, NA_FALSE, NULL);
    if (addr == NULL) {
        na_sm_conn_refuse(self, fd, ret);
        (void) close(fd);
        return;
    }
    addr->fd = fd;
    addr->user = peer;
    addr->base.stranger = !self->base.listen;
    addr->state = NA_SM_DIALLING;
    addr->deadline = hg_clock_after_ms(NA_SM_CONN_HELLO_MS);
    na_sm_peer_hold(self, addr);
    na_addr_unref_locked(&addr->base);
    hg_list_push(&self->dialling, &addr->turn);
    self->callers++;
    ret = na_sm_watch(self, fd, EPOLLRDHUP, addr);
    if (ret == NA_SUCCESS) {
        (void) na_sm_conn_read(self, addr); /* its HELLO may have arrived */
        return;
    }
    na_sm_conn_refuse(self, fd, ret);
    na_sm_conn_drop_caller(self, addr);
}

/* There is no descriptor for a caller. It must not wait for ever, nor keep the
 * listening socket readable: close the spare descriptor to accept and refuse
 * it. False: there was no caller, which accept does not check first. */
static bool na_sm_conn_refuse_next(struct na_sm_class *self)
{
    int error = errno;
    int fd;

    if (self->spare_fd >= 0)
        (void) close(self->spare_fd);
    fd = na_sm_conn_next_caller(self);
    if (fd >= 0) {
        errno = error;
        na_sm_conn_refuse(self, fd, hg_log_no_fd("sm", "a caller"));
        (void) close(fd);
    }
    self->spare_fd = na_sm_bell_open();
    return fd >= 0;
}

HG_PRIVATE unsigned na_sm_conn_accept(struct na_sm_class *self)
{
    unsigned n;

    for (n = 0; n < NA_SM_CONN_BATCH; n++) {
        int fd = na_sm_conn_next_caller(self);

        if (fd >= 0) {
            na_sm_conn_add_caller(self, fd);
        } else if (errno == EMFILE || errno == ENFILE) {
            if (!na_sm_conn_refuse_next(self))
                break;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            break;
        }
    }
    return n;
}

/* ---- Time ---- */

static uint64_t na_sm_conn_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The end of dialling. A receive waits as long as a process listens, which may
 * not make progress before this process has answered a message. */
static uint64_t na_sm_conn_deadline(const struct na_sm_addr *addr)
{
    return addr->receives && addr->fd >= 0 ? NA_SM_NEVER : addr->deadline;
}

/* Dial or give up an address that is being dialled, or drop a caller that is
 * late. Returns the time of the next attempt; NA_SM_NEVER: it has ended. */
static uint64_t na_sm_conn_try(
    struct na_sm_class *self, struct na_sm_addr *addr, uint64_t now)
{
    na_return_t ret = NA_SUCCESS;

    if (now >= addr->deadline && !addr->dialled) {
        self->base.core->count(&self->base, "sm_refused", 1);
        na_sm_conn_drop_caller(self, addr);
        return NA_SM_NEVER;
    }
    if (now >= na_sm_conn_deadline(addr)) {
        ret = NA_HOSTUNREACH;
    } else if (now >= addr->retry) {
        ret = na_sm_conn_dial(self, addr);
        addr->retry = NA_SM_NEVER;
        if (ret == NA_BUSY) {
            na_sm_peer_part(self, addr);
            addr->retry = now + NA_SM_RETRY;
            ret = NA_SUCCESS;
        } else if (ret == NA_SUCCESS && na_sm_conn_prove(self, addr)) {
            self->base.core->addr_connected(&addr->base, NA_SUCCESS);
        }
    }
    if (ret == NA_SUCCESS)
        return na_sm_conn_earlier(na_sm_conn_deadline(addr), addr->retry);
    na_sm_peer_lose(self, addr, ret);
    return NA_SM_NEVER;
}

HG_PRIVATE unsigned na_sm_conn_tick(struct na_sm_class *self, uint64_t now)
{
    uint64_t due, tick = NA_SM_NEVER;
    struct na_link *link, *next;
    unsigned n = 0;

    for (link = self->dialling.next; link != &self->dialling; link = next) {
        struct na_sm_addr *addr =
            HG_CONTAINER_OF(link, struct na_sm_addr, turn);

        next = link->next;
        due = na_sm_conn_try(self, addr, now);
        n += due == NA_SM_NEVER;
        tick = na_sm_conn_earlier(tick, due);
    }
    if (!hg_list_is_empty(&self->closing))
        tick = na_sm_conn_earlier(tick, now + NA_SM_RETRY);
    if (self->pairs > 0)
        tick = na_sm_conn_earlier(tick, self->scan_at);
    self->tick = tick;
    na_class_core_of(&self->base)->due = tick;
    return n;
}

#endif
