/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses: creation, lookup by token, end.
 *
 * Part of the libfabric transport; see ofi.h.
 */
#include "ofi/ofi.h"

/* Create an idle address; NULL: out of memory. No lock is held. */
static struct na_ofi_addr *na_ofi_addr_new(
    struct na_ofi_class *self, const char *name, na_bool_t is_self)
{
    struct na_addr *base =
        self->base.core->addr_create(&self->base, name, is_self);
    struct na_ofi_addr *addr;

    if (base == NULL)
        return NULL;
    addr = na_ofi_addr_of(base);
    na_plug_list_init(&addr->link);
    na_plug_list_init(&addr->named);
    na_plug_list_init(&addr->due);
    na_plug_list_init(&addr->lookups);
    na_plug_list_init(&addr->sends);
    na_plug_list_init(&addr->closers);
    na_plug_list_init(&addr->held);
    na_plug_list_init(&addr->holding);
    addr->at = FI_ADDR_UNSPEC;
    return addr;
}

/* ---- Tokens ---- */

#define NA_OFI_SLOT_BITS 24

/* Assign addr->token to a peer, which puts it into its messages. The class's
 * lock is held, as below. */
static na_return_t na_ofi_slot_take(
    struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    const struct na_core *core = self->base.core;
    uint32_t i = 0;

    while (i < self->slot_count && self->slots[i].addr != NULL)
        i++;
    if (i == self->slot_count) {
        uint32_t count = i > 0 ? 2 * i : 16;
        struct na_ofi_slot *slots;

        if (count > (uint32_t) 1 << NA_OFI_SLOT_BITS)
            return NA_AGAIN;
        slots = (struct na_ofi_slot *) core->realloc(
            self->slots, count * sizeof(*slots));
        if (slots == NULL)
            return NA_NOMEM;
        memset(slots + i, 0, (count - i) * sizeof(*slots));
        self->slots = slots;
        self->slot_count = count;
    }
    addr->slot = i;
    do {
        uint64_t random = core->random();

        if (random == 0)
            return NA_NODEV;
        addr->token = random << NA_OFI_SLOT_BITS | i;
    } while (addr->token == 0);
    self->slots[i].addr = addr;
    self->slots[i].token = addr->token;
    return NA_SUCCESS;
}

static void na_ofi_slot_free(
    struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    if (addr->token == 0)
        return;
    HG_ASSERT(self->slots[addr->slot].addr == addr);
    self->slots[addr->slot].addr = NULL;
    addr->token = 0;
}

/* The peer with a token, or NULL. */
static struct na_ofi_addr *na_ofi_slot_find(
    const struct na_ofi_class *self, uint64_t token)
{
    uint32_t i = (uint32_t) token & (((uint32_t) 1 << NA_OFI_SLOT_BITS) - 1);

    if (i >= self->slot_count || self->slots[i].token != token)
        return NULL;
    return self->slots[i].addr;
}

/* ---- The address vector ---- */

/* Insert an address that passes na_ofi_raw_ok into the address vector. If a
 * process of shm ended and another one opened its name, the memory of the old
 * one stays mapped as long as its address is in use. A further slash makes shm
 * map that of the new one. */
static na_return_t na_ofi_insert(struct na_ofi_class *self, bool other,
    const unsigned char *raw, fi_addr_t *at_p)
{
    const struct na_core *core = self->base.core;
    struct na_ofi_family *family = na_ofi_family_of(self, other);
    struct na_ofi_entry *fresh =
        (struct na_ofi_entry *) core->alloc(sizeof(*fresh));
    struct na_link *link;
    int n;

    *at_p = FI_ADDR_UNSPEC;
    if (fresh == NULL)
        return NA_NOMEM;
    n = na_ofi_look(self, other, raw, fresh);
    for (link = family->entries.next; link != &family->entries;
         link = link->next) {
        struct na_ofi_entry *entry = NA_OFI_OF(link, struct na_ofi_entry, link);

        if (memcmp(entry->raw, fresh->raw, sizeof(entry->raw)) != 0)
            continue;
        if (entry->file == fresh->file) {
            core->free(fresh);
            entry->uses++;
            *at_p = entry->at;
            return NA_SUCCESS;
        }
        if (fresh->slashes <= entry->slashes)
            fresh->slashes = entry->slashes + 1;
    }
    if (n == 0)
        n = na_ofi_insert_entry(family, fresh);
    if (n == 1) {
        na_plug_list_init(&fresh->link);
        na_plug_list_push(&family->entries, &fresh->link);
        *at_p = fresh->at;
        return NA_SUCCESS;
    }
    core->free(fresh);
    core->log(HG_LOG_LEVEL_WARNING, "ofi", "cannot enter a peer's address: %s",
        n < 0 ? fi_strerror(-n) : "the provider refuses it");
    return NA_HOSTUNREACH;
}

/* Undo na_ofi_insert; FI_ADDR_UNSPEC is allowed. */
static void na_ofi_remove(struct na_ofi_class *self, bool other, fi_addr_t *at)
{
    struct na_ofi_family *family = na_ofi_family_of(self, other);
    struct na_link *link = family->entries.next;

    while (link != &family->entries) {
        struct na_ofi_entry *entry = NA_OFI_OF(link, struct na_ofi_entry, link);

        link = link->next;
        if (entry->at != *at || --entry->uses > 0)
            continue;
        (void) fi_av_remove(family->av, at, 1, 0);
        na_plug_list_remove(&entry->link);
        self->base.core->free(entry);
    }
    *at = FI_ADDR_UNSPEC;
}

/* Insert an address of an introduction; see `host`. */
static na_return_t na_ofi_enter(struct na_ofi_class *self,
    const struct na_ofi_addr *addr, const unsigned char *raw, fi_addr_t *at_p)
{
    unsigned char other[NA_OFI_RAW_MAX];
    struct sockaddr_storage address = addr->host;
    struct sockaddr_storage announced;
    bool is_other = na_ofi_is_other(addr);
    size_t size = na_ofi_end_at(self, addr, 0)->raw_size;

    if (address.ss_family == 0)
        return na_ofi_insert(self, is_other, raw, at_p);
    memcpy(&announced, raw, size);
    na_ofi_set_port(&address, na_ofi_port(&announced));
    memset(other, 0, sizeof(other));
    memcpy(other, &address, size);
    return na_ofi_insert(self, is_other, other, at_p);
}

/* Add an entry of an introduction. NULL: out of memory, or not accepted. */
static struct na_ofi_far *na_ofi_far_new(struct na_ofi_class *self,
    struct na_ofi_addr *addr, uint64_t incarnation, const unsigned char *entry,
    bool rma)
{
    struct na_ofi_far *far =
        (struct na_ofi_far *) self->base.core->alloc(sizeof(*far));

    if (far == NULL)
        return NULL;
    far->id = entry[0];
    far->rma = rma;
    far->due = false;
    far->other = na_ofi_is_other(addr);
    far->incarnation = incarnation;
    far->next = atomic_load(&addr->far);
    if (na_ofi_enter(self, addr, entry + 1, &far->at) != NA_SUCCESS) {
        self->base.core->free(far);
        return NULL;
    }
    atomic_store(&addr->far, far);
    return far;
}

/* Store the addresses of a peer's endpoints. Those already known in this
 * incarnation stay. A LINK is due to those for puts and gets. */
static na_return_t na_ofi_set_ends(struct na_ofi_class *self,
    struct na_ofi_addr *addr, const struct na_ofi_intro *intro)
{
    bool seen[NA_OFI_CONTEXTS] = {true};
    unsigned i;

    if (addr->at == FI_ADDR_UNSPEC) {
        na_return_t ret = na_ofi_enter(self, addr, intro->ends + 1, &addr->at);

        if (ret != NA_SUCCESS)
            return ret;
    }
    for (i = 1; i < intro->count; i++) {
        const unsigned char *end = intro->ends + i * (1 + intro->raw_size);
        bool rma = seen[end[0]];
        struct na_ofi_far *far = atomic_load(&addr->far);

        seen[end[0]] = true;
        while (far != NULL &&
            (far->id != end[0] || far->rma != rma ||
                far->other != na_ofi_is_other(addr) ||
                far->incarnation != intro->incarnation))
            far = far->next;
        if (far == NULL)
            far = na_ofi_far_new(self, addr, intro->incarnation, end, rma);
        if (far == NULL)
            break; /* its first endpoint receives everything */
        far->due = rma && !addr->accepted;
    }
    return NA_SUCCESS;
}

static fi_addr_t na_ofi_target(struct na_ofi_addr *addr, uint8_t id)
{
    const struct na_ofi_far *far =
        id == 0 ? NULL : atomic_load_explicit(&addr->far, memory_order_acquire);

    while (far != NULL &&
        (far->id != id || far->rma || far->other != na_ofi_is_other(addr) ||
            far->incarnation != atomic_load(&addr->incarnation)))
        far = far->next;
    return far != NULL ? far->at : addr->at;
}

/* ---- The end ---- */

/* Complete the operations in the caller's list `ops`; returns their number.
 * Each is removed with the lock held; until then it can be canceled. */
static unsigned na_ofi_complete_all(struct na_ofi_class *self,
    struct na_link *ops, na_return_t ret, struct na_addr *result)
{
    unsigned n = 0;

    for (;;) {
        struct na_link *link;
        struct na_op *op;

        na_ofi_lock(&self->lock);
        link = na_plug_list_pop(ops);
        na_ofi_unlock(&self->lock);
        if (link == NULL)
            return n;
        op = NA_OFI_OF(link, struct na_op, link);
        if (result != NULL) {
            self->base.core->addr_ref(result);
            op->result_addr = result;
        }
        self->base.core->complete(op, ret);
        n++;
    }
}

/* Queue an address that has something to send; the class's lock is held. */
static void na_ofi_push_due(struct na_ofi_class *self, struct na_ofi_addr *addr)
{
    if (na_plug_list_empty(&addr->due))
        na_plug_list_push(&self->due, &addr->due);
    if (!atomic_exchange(&self->hurry, true))
        (void) pthread_cond_signal(&self->alarm);
}

static void na_ofi_hurry(struct na_ofi_class *self)
{
    if (atomic_load(&self->hurry))
        return;
    na_ofi_lock(&self->lock);
    atomic_store(&self->hurry, true);
    (void) pthread_cond_signal(&self->alarm);
    na_ofi_unlock(&self->lock);
}

/* Whether the next number of a host name is asked instead of losing an address.
 * If the name server is the cause of the loss, *why_p says so. The lock is
 * held. */
static bool na_ofi_tries_next(struct na_ofi_class *self,
    struct na_ofi_addr *addr, na_return_t code, const char **why_p)
{
    const char *why;

    if (addr->query == NULL || code == NA_PROTOCOL_ERROR)
        return false;
    HG_ASSERT(atomic_load(&addr->state) == NA_OFI_ASKED);
    why = na_plug_why(addr->query, addr->query->taken);
    if (why != NULL)
        *why_p = why;
    else if (na_plug_has_next(addr->query))
        na_plug_log_failed(addr->query, "ofi", *why_p);
    return na_ofi_ask_next(self, addr);
}

/* For the log. */
#define NA_OFI_NO_ANSWER "no answer, or refused"
#define NA_OFI_FIREWALL \
    "a firewall or address translation in between? See hg-cluster(7)"

/* Why an address cannot be reached; the lock is held. */
static const char *na_ofi_why_lost(
    const struct na_ofi_class *self, const struct na_ofi_addr *addr)
{
    if (!na_plug_has_fds(1))
        return NA_PLUG_NO_FD;
    if (addr->greeted && na_ofi_is_tcp(self))
        return "connected, but its answer does not arrive: " NA_OFI_FIREWALL;
    if (addr->query == NULL || !addr->query->taken || !addr->query->other)
        return NA_OFI_NO_ANSWER;
    return na_ofi_own_af(self) == AF_INET6
        ? NA_OFI_NO_ANSWER ". The host has IPv4, too, but " NA_PLUG_ONLY_V6
        : NA_OFI_NO_ANSWER ". The host has IPv6, too, but " NA_PLUG_ONLY_V4;
}

/* End the connection. An address that was never reached stays usable. `why`:
 * for the log, or NULL. */
static void na_ofi_end_addr(struct na_ofi_class *self, struct na_ofi_addr *addr,
    na_return_t code, const char *why)
{
    const struct na_core *core = self->base.core;
    na_return_t ret;
    bool reached;
    bool failed;
    bool asked;
    bool adopted;
    bool mute; /* it looked up this class, which could not answer */
    bool receives;
    struct na_link lookups;
    struct na_link sends;
    struct na_link closers;

    na_plug_list_init(&lookups);
    na_plug_list_init(&sends);
    na_plug_list_init(&closers);
    na_ofi_lock(&self->lock);
    if (why == NULL)
        why = na_ofi_why_lost(self, addr);
    if (addr->base.self || atomic_load(&addr->state) == NA_OFI_DEAD ||
        (atomic_load(&addr->state) == NA_OFI_IDLE && code != NA_DISCONNECT) ||
        na_ofi_tries_next(self, addr, code, &why)) {
        na_ofi_unlock(&self->lock);
        return;
    }
    adopted = atomic_load(&addr->state) != NA_OFI_IDLE;
    reached = addr->reached; /* another thread may connect it when it is idle */
    failed = atomic_load(&addr->state) == NA_OFI_ASKED && !reached;
    receives = addr->receives;
    mute = atomic_load(&addr->state) == NA_OFI_ACCEPTED && addr->hello;
    atomic_store(&addr->open, false);
    atomic_store(&addr->state, failed ? NA_OFI_IDLE : NA_OFI_DEAD);
    na_ofi_slot_free(self, addr);
    na_plug_list_remove(&addr->link);
    na_plug_list_remove(&addr->due);
    addr->hello = false;
    addr->tries = 0;
    na_plug_drop(addr->query);
    addr->query = NULL;
    if (!failed)
        na_plug_list_remove(&addr->named);
    na_plug_list_move(&lookups, &addr->lookups);
    na_plug_list_move(&sends, &addr->sends);
    na_plug_list_move(&closers, &addr->closers);
    na_ofi_unlock(&self->lock);
    asked = !na_plug_list_empty(&lookups) || !na_plug_list_empty(&sends);
    if (mute) {
        core->count(&self->base, "ofi_unanswered", 1);
        core->log(HG_LOG_LEVEL_WARNING, "ofi",
            "%s looks up this class, which cannot send to it: " NA_OFI_FIREWALL,
            addr->base.name);
    } else if (reached)
        core->log(
            HG_LOG_LEVEL_INFO, "ofi", "lost the peer %s", addr->base.name);
    else if (failed && !asked && !receives) /* only a peer sent the address */
        core->count(&self->base, "bad_names", 1);
    if (failed || code == NA_PROTOCOL_ERROR)
        core->log(code == NA_HOSTUNREACH && na_plug_is_quiet(&lookups, &sends)
                ? HG_LOG_LEVEL_INFO
                : asked ? HG_LOG_LEVEL_ERROR
                        : HG_LOG_LEVEL_WARNING,
            "ofi", "%s cannot be reached: %s", addr->base.name, why);
    ret = reached ? NA_DISCONNECT : code;
    (void) na_ofi_offer(self, addr);
    (void) na_ofi_complete_all(self, &lookups, code, NULL);
    (void) na_ofi_complete_all(self, &sends, ret, NULL);
    (void) na_ofi_complete_all(self, &closers, NA_SUCCESS, NULL);
    if (failed && receives)
        core->addr_connected(&addr->base, ret);
    else if (failed)
        core->addr_unreached(&addr->base, ret);
    else
        core->addr_dead(&addr->base, ret);
    if (adopted)
        core->addr_unref(&addr->base);
}

static void na_ofi_lost(
    struct na_ofi_class *self, struct na_ofi_addr *addr, na_return_t code)
{
    na_ofi_end_addr(self, addr, code, NULL);
}

/* The class's own address. Messages, puts and gets to it go through the
 * provider, as to any other. */
static na_return_t na_ofi_addr_self(struct na_ofi_class *self, const char *name)
{
    struct na_ofi_addr *addr = na_ofi_addr_new(self, name, NA_TRUE);
    na_return_t ret;

    if (addr == NULL)
        return NA_NOMEM;
    na_ofi_lock(&self->lock);
    ret = na_ofi_insert(self, false, self->ends[0]->raw, &addr->at);
    if (ret == NA_SUCCESS)
        ret = na_ofi_slot_take(self, addr);
    atomic_store(&addr->theirs, addr->token);
    atomic_store(&addr->incarnation, self->base.incarnation);
    atomic_store(&addr->state, NA_OFI_READY);
    atomic_store(&addr->open, ret == NA_SUCCESS);
    na_ofi_unlock(&self->lock);
    if (ret == NA_SUCCESS)
        self->base.self_addr = &addr->base;
    else
        self->base.core->addr_unref(&addr->base);
    return ret;
}

/* The slot: the last reference was released, so no operation uses the peer:
 * each holds one. */
static void na_ofi_addr_release(struct na_addr *base)
{
    struct na_ofi_class *self = na_ofi_of(base->na_class);
    struct na_ofi_addr *addr = na_ofi_addr_of(base);
    struct na_ofi_far *far;
    struct na_link *link;

    if (self->families[0].av != NULL) {
        na_ofi_lock(&self->lock);
        na_plug_list_remove(&addr->named);
        na_ofi_remove(self, addr->other, &addr->at);
        for (far = addr->far; far != NULL; far = far->next)
            na_ofi_remove(self, far->other, &far->at);
        na_ofi_unlock(&self->lock);
    }
    while ((far = addr->far) != NULL) {
        addr->far = far->next;
        self->base.core->free(far);
    }
    while ((link = na_plug_list_pop(&addr->held)) != NULL)
        self->base.core->free(NA_OFI_OF(link, struct na_ofi_held, link));
}

/* The slot: the core abandons the peer. */
static void na_ofi_addr_abandon(struct na_addr *base)
{
    struct na_ofi_class *self = na_ofi_of(base->na_class);
    struct na_ofi_addr *addr = na_ofi_addr_of(base);
    bool asked;

    na_ofi_lock(&self->lock);
    asked = atomic_load(&addr->state) == NA_OFI_ASKED;
    if (atomic_load(&addr->state) == NA_OFI_READY && !base->self)
        (void) na_ofi_send_control(
            self, addr, NA_OFI_BYE); /* it may be alive */
    na_ofi_unlock(&self->lock);
    if (!asked)
        na_ofi_lost(self, addr, NA_DISCONNECT);
}

/* The process of an address; 0: unknown. Peers know the number of this class:
 * one that connects with it is not taken for this class. */
static uint64_t na_ofi_process(const struct na_addr *base)
{
    const struct na_ofi_addr *addr = na_ofi_addr_of(base);
    uint64_t process =
        atomic_load_explicit(&addr->incarnation, memory_order_relaxed);

    return process == base->na_class->incarnation && addr->accepted ? ~process
                                                                    : process;
}

/* The slot: a process is the same peer by any name. */
static na_bool_t na_ofi_addr_cmp(
    const struct na_addr *base1, const struct na_addr *base2)
{
    uint64_t one = na_ofi_process(base1);

    return one != 0 && one == na_ofi_process(base2) ? NA_TRUE : NA_FALSE;
}

/* The class closes: disconnect all addresses. */
static void na_ofi_addrs_drop(struct na_ofi_class *self)
{
    struct na_link *link;
    unsigned i;

    while (na_plug_list_pop(&self->holding) != NULL)
        continue;
    while ((link = na_plug_list_pop(&self->addrs)) != NULL) {
        struct na_ofi_addr *addr = NA_OFI_OF(link, struct na_ofi_addr, link);

        HG_ASSERT(na_plug_list_empty(&addr->sends));
        na_plug_drop(addr->query);
        addr->query = NULL;
        atomic_store(&addr->state, NA_OFI_DEAD);
        na_plug_list_remove(&addr->due);
        self->base.core->addr_unref(&addr->base);
    }
    for (i = 0; i < 2; i++) {
        while ((link = na_plug_list_pop(&self->families[i].entries)) != NULL)
            self->base.core->free(NA_OFI_OF(link, struct na_ofi_entry, link));
    }
    self->base.core->free(self->slots);
    self->slots = NULL;
    self->slot_count = 0;
}
