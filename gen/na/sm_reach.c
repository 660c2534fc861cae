/* SPDX-License-Identifier: BSD-3-Clause */
/* sm_reach: see sm_reach.h. */
#include "na/sm_reach.h"

#if HG_ENABLE_SM

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"

/* Say something about an arena; the address lock is held. */
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

/* Ask for an arena, once; the address lock is held. */
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

/* What came of an ASK; what to count, or NULL. */
static const char *na_sm_reach_granted(
    struct na_sm_addr *addr, const struct na_sm_packet *packet)
{
    uint32_t id = packet->slot;
    struct na_sm_window *window;

    if (id == 0 || id > NA_SM_ARENAS || addr->windows == NULL)
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

HG_PRIVATE void na_sm_reach_hear(struct na_sm_class *self,
    struct na_sm_addr *addr, const struct na_sm_packet *packet)
{
    const char *counter = "sm_arena_stray";

    hg_lock(&addr->lock);
    if (packet->kind == NA_SM_ASK)
        counter = na_sm_reach_grant(self, addr, packet->slot);
    else if (packet->kind == NA_SM_GRANT)
        counter = na_sm_reach_granted(addr, packet);
    hg_unlock(&addr->lock);
    if (counter != NULL)
        self->base.core->count(&self->base, counter, 1);
}

#endif
