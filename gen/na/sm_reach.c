/* SPDX-License-Identifier: BSD-3-Clause */
/* sm_reach: see sm_reach.h. */
#include "na/sm_reach.h"

#if HG_ENABLE_SM

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"

#define NA_SM_REACH_YAMA "/proc/sys/kernel/yama/ptrace_scope"

/* Say something about an arena; the lock is held. */
static na_return_t na_sm_reach_say(struct na_sm_addr *addr,
    enum na_sm_packet_kind kind, uint32_t id, na_return_t reason, int fd)
{
    struct na_sm_packet packet;

    memset(&packet, 0, sizeof(packet));
    packet.version = NA_SM_VERSION;
    packet.kind = (uint8_t) kind;
    packet.incarnation = addr->base.na_class->incarnation;
    packet.slot = id;
    packet.reason = (uint32_t) reason;
    packet.fds[0] = fd;
    return na_sm_packet_send(addr->fd, &packet, fd >= 0 ? 1 : 0);
}

/* ---- The initiator ---- */

/* Ask for an arena, once; the lock is held. */
static void na_sm_reach_ask(
    struct na_sm_addr *addr, uint32_t id, struct na_sm_window *window)
{
    if (window->state != NA_SM_WINDOW_UNKNOWN ||
        na_sm_peer_state(addr) != NA_SM_READY)
        return;
    if (na_sm_reach_say(addr, NA_SM_ASK, id, NA_SUCCESS, -1) == NA_SUCCESS)
        window->state = NA_SM_WINDOW_ASKED;
}

HG_PRIVATE enum na_sm_reach na_sm_reach(struct na_sm_addr *addr, uint32_t id,
    uint64_t offset, uint64_t size, bool write, unsigned char **at_p)
{
    struct na_sm_window *window;
    unsigned char *at;

    if (id == 0 || id > NA_SM_ARENAS)
        return NA_SM_REACH_NEVER;
    if (HG_UNLIKELY(addr->windows == NULL)) {
        if (na_sm_peer_state(addr) == NA_SM_READY)
            addr->windows = (struct na_sm_windows *) hg_mem_calloc(
                1, sizeof(*addr->windows));
        if (addr->windows == NULL) /* memory may be there later */
            return NA_SM_REACH_ASKED;
    }
    window = &addr->windows->window[id - 1];
    if (HG_LIKELY(window->state == NA_SM_WINDOW_OPEN)) {
        at = na_sm_window_at(window, offset, size, write);
        if (at == NULL)
            return NA_SM_REACH_NEVER;
        *at_p = at;
        return NA_SM_REACH_HERE;
    }
    na_sm_reach_ask(addr, id, window);
    return window->state == NA_SM_WINDOW_SHUT ? NA_SM_REACH_NEVER
                                              : NA_SM_REACH_ASKED;
}

HG_PRIVATE bool na_sm_reach_awaits(struct na_sm_addr *addr, uint32_t id)
{
    bool awaits;

    assert(id <= NA_SM_ARENAS); /* one that was asked for */
    if (id == 0)
        return false;
    na_sm_enter(na_sm_of(addr->base.na_class));
    awaits = addr->windows != NULL &&
        addr->windows->window[id - 1].state == NA_SM_WINDOW_ASKED;
    na_sm_leave(na_sm_of(addr->base.na_class));
    return awaits;
}

HG_PRIVATE void na_sm_reach_permit(struct na_sm_addr *addr)
{
    na_sm_enter(na_sm_of(addr->base.na_class));
    if (atomic_load(&addr->permit) == NA_SM_PERMIT_NONE &&
        na_sm_peer_state(addr) == NA_SM_READY &&
        na_sm_reach_say(addr, NA_SM_ASK, 0, NA_SUCCESS, -1) == NA_SUCCESS)
        atomic_store(&addr->permit, NA_SM_PERMIT_ASKED);
    na_sm_leave(na_sm_of(addr->base.na_class));
}

/* What came of an ASK for the permit. */
static const char *na_sm_reach_permitted(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    bool asked;

    na_sm_enter(self);
    na_sm_enter(na_sm_of(addr->base.na_class));
    asked = atomic_load(&addr->permit) == NA_SM_PERMIT_ASKED;
    if (asked)
        atomic_store(&addr->permit, NA_SM_PERMIT_HERE);
    na_sm_leave(na_sm_of(addr->base.na_class));
    if (asked)
        na_sm_peer_resume(self);
    na_sm_peer_unlock(self);
    return asked ? NULL : "sm_arena_stray";
}

/* Takes the answer to an ASK. Returns the counter to raise, or NULL. */
static const char *na_sm_reach_granted(
    struct na_sm_addr *addr, const struct na_sm_packet *packet)
{
    uint32_t id = packet->slot;
    struct na_sm_window *window;

    assert(id != 0);
    if (id > NA_SM_ARENAS || addr->windows == NULL)
        return "sm_arena_stray";
    window = &addr->windows->window[id - 1];
    if (window->state != NA_SM_WINDOW_ASKED || packet->fd_count > 1)
        return "sm_arena_stray";
    if (packet->fd_count == 1)
        return na_sm_window_open(window, packet->fds[0]) == NA_PROTOCOL_ERROR
            ? "sm_arena_stray"
            : NULL;
    window->state =
        packet->reason == NA_AGAIN ? NA_SM_WINDOW_UNKNOWN : NA_SM_WINDOW_SHUT;
    return NULL;
}

/* ---- The owner ---- */

/* Answer an ASK; what to count. Who does not read what we say has no answer:
 * the socket has room for all that an honest peer asks for. */
static const char *na_sm_reach_grant(
    struct na_sm_class *self, struct na_sm_addr *addr, uint32_t id)
{
    int fd = na_sm_arena_fd(self->arenas, id);
    uint64_t bit = UINT64_C(1) << (id - 1) % 64;
    na_return_t ret;

    if (fd >= 0 && (addr->granted & bit) != 0)
        return "sm_arena_refused";
    if (fd < 0) {
        (void) na_sm_reach_say(addr, NA_SM_GRANT, id, NA_NOENTRY, -1);
        return "sm_arena_refused";
    }
    ret = na_sm_reach_say(addr, NA_SM_GRANT, id, NA_SUCCESS, fd);
    /* As many descriptors are under way as may be. */
    if (ret == NA_AGAIN)
        (void) na_sm_reach_say(addr, NA_SM_GRANT, id, NA_AGAIN, -1);
    if (ret != NA_SUCCESS)
        return "sm_arena_refused";
    addr->granted |= bit;
    return "sm_arena_granted";
}

/* Whether the file of Yama says that a process may let others in. */
static bool na_sm_reach_may_open(const char *path)
{
    char text[4];

    return na_sm_read_text(path, text, sizeof(text)) &&
        (strcmp(text, "1") == 0 || strcmp(text, "1\n") == 0);
}

/* Let the processes of our user read our memory, once, where only those may
 * whom a process lets in. */
static void na_sm_reach_open_up(void)
{
    static _Atomic bool done;

    if (atomic_exchange(&done, true) || !na_sm_reach_may_open(NA_SM_REACH_YAMA))
        return;
    if (prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0)
        hg_log_info("sm",
            "all processes of this user may read this one's memory now "
            "(PR_SET_PTRACER), for peers that move bulk data");
}

/* Answer an ASK for the permit: from now on check the hazard words of the peer,
 * then grant it. */
static const char *na_sm_reach_admit(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    bool first;

    if (self->rma_mode == NA_SM_RMA_VM)
        na_sm_reach_open_up();
    na_sm_enter(self);
    first = hg_list_is_empty(&addr->mover);
    if (first)
        hg_list_push(&self->movers, &addr->mover);
    na_sm_leave(self);
    if (!first)
        return "sm_arena_refused";
    NA_SM_STEP();
    na_sm_enter(na_sm_of(addr->base.na_class));
    (void) na_sm_reach_say(addr, NA_SM_GRANT, 0, NA_SUCCESS, -1);
    na_sm_leave(na_sm_of(addr->base.na_class));
    return "sm_rma_permits";
}

/* A packet about an arena. */
static const char *na_sm_reach_hear_arena(struct na_sm_class *self,
    struct na_sm_addr *addr, const struct na_sm_packet *packet)
{
    const char *counter = "sm_arena_stray";

    na_sm_enter(na_sm_of(addr->base.na_class));
    if (packet->kind == NA_SM_ASK)
        counter = na_sm_reach_grant(self, addr, packet->slot);
    else if (packet->kind == NA_SM_GRANT)
        counter = na_sm_reach_granted(addr, packet);
    na_sm_leave(na_sm_of(addr->base.na_class));
    if (packet->kind == NA_SM_GRANT) {
        na_sm_enter(self);
        na_sm_peer_resume(self);
        na_sm_peer_unlock(self);
    }
    return counter;
}

HG_PRIVATE void na_sm_reach_hear(struct na_sm_class *self,
    struct na_sm_addr *addr, const struct na_sm_packet *packet)
{
    const char *counter;

    if (packet->slot == 0 && packet->kind == NA_SM_ASK)
        counter = na_sm_reach_admit(self, addr);
    else if (packet->slot == 0 && packet->kind == NA_SM_GRANT)
        counter = na_sm_reach_permitted(self, addr);
    else
        counter = na_sm_reach_hear_arena(self, addr, packet);
    if (counter != NULL)
        self->base.core->count(&self->base, counter, 1);
}

#endif
