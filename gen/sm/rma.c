/* SPDX-License-Identifier: BSD-3-Clause */
/* rma: see rma.h. */
#include "sm/rma.h"

#if HG_ENABLE_SM

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "emul/emul.h"

/* ==== mem ==== */

/* Between two looks at hazard words: first, and after a while. */
#define NA_SM_MEM_NAP_NS 50000
#define NA_SM_MEM_LONG_NS 1000000
#define NA_SM_MEM_NAPS 100u  /* short ones */
#define NA_SM_MEM_LOOK 1000u /* naps between two looks at threads: a second */

/* ---- Life ---- */

HG_PRIVATE na_return_t na_sm_mem_init(struct na_sm_class *self)
{
    self->slots_used = (uint64_t *) hg_mem_calloc(
        (NA_SM_SLOTS + 63) / 64, sizeof(*self->slots_used));
    if (self->slots_used == NULL) {
        hg_log_error("sm", "no memory for a class");
        return NA_NOMEM;
    }
    hg_list_init(&self->movers);
    return NA_SUCCESS;
}

HG_PRIVATE void na_sm_mem_fini(struct na_sm_class *self)
{
    hg_mem_free(self->slots_used);
    self->slots_used = NULL;
}

/* ---- Registrations ---- */

/* A free slot, or NA_SM_SLOTS; the class lock is held. */
static uint32_t na_sm_mem_take_slot(struct na_sm_class *self)
{
    uint32_t words = (NA_SM_SLOTS + 63) / 64;
    uint32_t i;

    for (i = 0; i < words; i++) {
        uint32_t w = (self->slots_at + i) % words;
        uint64_t space = ~self->slots_used[w];
        uint32_t slot;

        if (space == 0)
            continue;
        slot = w * 64 + (uint32_t) __builtin_ctzll(space);
        if (slot >= NA_SM_SLOTS)
            continue;
        self->slots_used[w] |= UINT64_C(1) << (slot % 64);
        self->slots_at = w;
        return slot;
    }
    return NA_SM_SLOTS;
}

/* Tell peers about registered memory, if there is a slot left. */
static void na_sm_mem_show(struct na_sm_class *self, struct na_sm_mem *mem)
{
    const struct na_mem_handle *base = &mem->base;
    struct na_sm_told told;

    memset(&told, 0, sizeof(told));
    told.place =
        (uintptr_t) (base->segment_count == 1 ? base->segments[0].address
                                              : (const void *) base->segments);
    told.size = base->size;
    told.count = (uint32_t) base->segment_count;
    told.flags = (uint8_t) base->flags;
    told.width = sizeof(void *);
    told.arena = (uint8_t) na_sm_arena_find(
        self->arenas, base->segments, base->segment_count, &told.arena_offset);
    na_sm_enter(self);
    mem->slot = na_sm_mem_take_slot(self);
    na_sm_leave(self);
    if (mem->slot < NA_SM_SLOTS)
        na_sm_slot_fill(&self->public_page->slots[mem->slot], &told,
            na_sm_slot_mark(base->key, self->base.incarnation));
}

HG_PRIVATE na_return_t na_sm_mem_register(struct na_mem_handle *base)
{
    struct na_sm_class *self = na_sm_of(base->na_class);
    struct na_sm_mem *mem = na_sm_mem_of(base);
    na_return_t ret = na_emul_mem_register(base);

    if (ret != NA_SUCCESS)
        return ret;
    mem->slot = NA_SM_SLOTS;
    /* The child of a fork has the page in common with its parent. */
    if (base->segment_count <= NA_SM_MEM_SEGMENTS &&
        !atomic_load(&self->forked))
        na_sm_mem_show(self, mem);
    return NA_SUCCESS;
}

static bool na_sm_mem_has_key(const _Atomic uint64_t *hazards, uint64_t key)
{
    unsigned i;

    for (i = 0; i < NA_SM_HAZARDS; i++) {
        if (atomic_load(&hazards[i]) == key)
            return true;
    }
    return false;
}

/* A living peer that has the key in a hazard word, after `skip` others, or
 * NULL. The class lock is held. */
static struct na_sm_addr *na_sm_mem_find_user(
    struct na_sm_class *self, uint64_t key, unsigned skip)
{
    const struct na_link *link;

    for (link = self->movers.next; link != &self->movers; link = link->next) {
        struct na_sm_addr *addr =
            HG_CONTAINER_OF(link, struct na_sm_addr, mover);

        if (na_sm_peer_state(addr) < NA_SM_DYING &&
            na_sm_mem_has_key(
                addr->shared->control[addr->dialled ? 1 : 0].hazard, key) &&
            !na_sm_peer_has_ended(addr) && skip-- == 0)
            return addr;
    }
    return NULL;
}

HG_PRIVATE na_bool_t na_sm_mem_retract(struct na_mem_handle *base)
{
    struct na_sm_class *self = na_sm_of(base->na_class);
    struct na_sm_mem *mem = na_sm_mem_of(base);
    bool touched;

    if (mem->slot >= NA_SM_SLOTS || atomic_load(&self->forked))
        return NA_FALSE;
    na_sm_enter(self);
    atomic_store(&self->public_page->slots[mem->slot].mark, 0);
    touched = na_sm_mem_has_key(self->own_hazards, base->key) ||
        na_sm_mem_find_user(self, base->key, 0) != NULL;
    if (!touched)
        self->slots_used[mem->slot / 64] &= ~(UINT64_C(1) << (mem->slot % 64));
    na_sm_leave(self);
    if (!touched)
        mem->slot = NA_SM_SLOTS;
    return touched ? NA_TRUE : NA_FALSE;
}

/* State of a thread that may be copying. */
enum na_sm_mem_task {
    NA_SM_MEM_SLEEPS, /* it is not in a copy */
    NA_SM_MEM_RUNS,   /* or it waits for a processor */
    NA_SM_MEM_STOPPED
};

/* Task of a thread, by its stat file and wait channel in /proc. */
static enum na_sm_mem_task na_sm_mem_thread(
    const char *stat, const char *channel)
{
    const char *state = strrchr(stat, ')'); /* the name may contain anything */

    if (state == NULL || state[1] != ' ')
        return NA_SM_MEM_STOPPED;
    switch (state[2]) {
    case 'R': return NA_SM_MEM_RUNS;
    case 'S': /* cgroup v2 freezes a thread where it handles signals */
        return strstr(channel, "get_signal") != NULL ||
                strstr(channel, "freez") != NULL
            ? NA_SM_MEM_STOPPED
            : NA_SM_MEM_SLEEPS;
    case 'Z':
    case 'X': return NA_SM_MEM_SLEEPS;
    default: return NA_SM_MEM_STOPPED;
    }
}

/* The greatest of all threads; STOPPED, too, if it cannot be found out. */
static enum na_sm_mem_task na_sm_mem_process(pid_t pid)
{
    char path[320], stat[256], channel[64];
    enum na_sm_mem_task most = NA_SM_MEM_SLEEPS;
    struct dirent *entry;
    DIR *tasks;

    if (pid <= 0)
        return NA_SM_MEM_STOPPED; /* of another namespace of processes */
    (void) snprintf(path, sizeof(path), "/proc/%ld/task", (long) pid);
    tasks = opendir(path);
    if (tasks == NULL) /* it is gone, or hidden */
        return kill(pid, 0) != 0 && errno == ESRCH ? most : NA_SM_MEM_STOPPED;
    while (most < NA_SM_MEM_STOPPED && (entry = readdir(tasks)) != NULL) {
        enum na_sm_mem_task task;

        if (entry->d_name[0] == '.')
            continue;
        (void) snprintf(path, sizeof(path), "/proc/%ld/task/%s/stat",
            (long) pid, entry->d_name);
        if (!na_sm_read_text(path, stat, sizeof(stat))) {
            if (errno == ENOENT || errno == ESRCH)
                continue;             /* it has ended */
            most = NA_SM_MEM_STOPPED; /* such as no descriptor left */
            break;
        }
        (void) snprintf(path, sizeof(path), "/proc/%ld/task/%s/wchan",
            (long) pid, entry->d_name);
        (void) na_sm_read_text(path, channel, sizeof(channel));
        task = na_sm_mem_thread(stat, channel);
        most = task > most ? task : most;
    }
    (void) closedir(tasks);
    return most;
}

/* End the connections of peers that keep memory from being withdrawn: of those
 * that sleep and, if it is late, of those that run. */
static void na_sm_mem_expel(
    struct na_sm_class *self, uint64_t key, bool late, bool tell)
{
    const struct na_core *core = self->base.core;
    unsigned spared = 0;

    for (;;) {
        enum na_sm_mem_task task;
        struct na_sm_addr *addr;
        long pid = 0;

        na_sm_enter(self);
        addr = na_sm_mem_find_user(self, key, spared);
        if (addr != NULL) {
            pid = (long) addr->pid;
            core->addr_ref(&addr->base);
        }
        na_sm_leave(self);
        if (addr == NULL)
            return;
        task = na_sm_mem_process((pid_t) pid);
        if (task == NA_SM_MEM_SLEEPS || (task == NA_SM_MEM_RUNS && late)) {
            hg_log_warning("sm",
                "process %ld does not release memory: its connection ends",
                pid);
            core->count(&self->base, "sm_broken", 1);
            na_sm_enter(self);
            na_sm_peer_lose(self, addr, NA_PROTOCOL_ERROR);
            na_sm_peer_unlock(self);
        } else {
            spared++;
            if (tell)
                hg_log_warning("sm",
                    "deregistering memory waits for process %ld, which is "
                    "stopped and may be copying it: continue or end it",
                    pid);
        }
        core->addr_unref(&addr->base);
    }
}

/* Time is counted in naps: if the whole machine is suspended, neither side
 * gets on. */
HG_PRIVATE void na_sm_mem_deregister(struct na_mem_handle *mem)
{
    struct timespec nap = {0, NA_SM_MEM_NAP_NS};
    bool told = false;
    uint64_t naps;

    for (naps = 1; na_sm_mem_retract(mem); naps++) {
        (void) nanosleep(&nap, NULL);
        if (naps == NA_SM_MEM_NAPS)
            nap.tv_nsec = NA_SM_MEM_LONG_NS;
        if (naps % NA_SM_MEM_LOOK == 0) {
            bool late = naps > mem->na_class->info->death_ms;

            na_sm_mem_expel(
                na_sm_of(mem->na_class), mem->key, late, late && !told);
            told = late;
        }
    }
    na_emul_mem_deregister(mem);
}

/* ---- Handles as bytes ---- */

HG_PRIVATE na_size_t na_sm_mem_serialize_size(const struct na_mem_handle *mem)
{
    (void) mem;
    return NA_SM_MEM_HANDLE;
}

HG_PRIVATE void na_sm_mem_serialize(const struct na_mem_handle *base, void *buf)
{
    const struct na_sm_mem *mem = na_sm_mem_of(base);
    unsigned char *bytes = (unsigned char *) buf;
    uint32_t number = mem->slot < NA_SM_SLOTS ? mem->slot + 1 : 0;

    na_emul_mem_serialize(base, bytes);
    hg_wire_store64(
        bytes + NA_EMUL_WIRE_HANDLE_SIZE, base->na_class->incarnation);
    hg_wire_store32(bytes + NA_EMUL_WIRE_HANDLE_SIZE + 8, number);
    hg_wire_store32(bytes + NA_EMUL_WIRE_HANDLE_SIZE + 12, 0);
}

HG_PRIVATE na_return_t na_sm_mem_deserialize(
    struct na_mem_handle *base, const void *buf, na_size_t buf_size)
{
    struct na_sm_mem *mem = na_sm_mem_of(base);
    const unsigned char *bytes = (const unsigned char *) buf;
    uint32_t number;
    na_return_t ret;

    mem->slot = NA_SM_SLOTS;
    /* Of a class that has been told to emulate. */
    if (buf_size == NA_EMUL_WIRE_HANDLE_SIZE)
        return na_emul_mem_deserialize(base, buf, buf_size);
    if (buf_size != NA_SM_MEM_HANDLE)
        return NA_PROTOCOL_ERROR;
    ret = na_emul_mem_deserialize(base, buf, NA_EMUL_WIRE_HANDLE_SIZE);
    if (ret != NA_SUCCESS)
        return ret;
    bytes += NA_EMUL_WIRE_HANDLE_SIZE;
    number = hg_wire_load32(bytes + 8);
    if (number > NA_SM_SLOTS || hg_wire_load32(bytes + 12) != 0)
        return NA_PROTOCOL_ERROR;
    if (number == 0)
        return NA_SUCCESS;
    mem->owner = hg_wire_load64(bytes);
    mem->slot = number - 1;
    mem->mark = na_sm_slot_mark(base->key, mem->owner);
    return NA_SUCCESS;
}

/* ==== reach ==== */

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

/* ==== rma ==== */

#define NA_SM_RMA_PIECE ((na_size_t) 1 << 20)
#define NA_SM_RMA_AT_ONCE ((na_size_t) 256 << 10)
#define NA_SM_RMA_VECTOR 1023u /* segments in one call, and the witness */

/* Hold of a pair, for one piece: it is neither unmapped nor said goodbye to. */
struct na_sm_touch {
    struct na_sm_addr *addr;
    const struct na_sm_public *owner;
    _Atomic uint64_t *hazard;
    const struct na_sm_control *theirs; /* of the other direction, or NULL */
    unsigned bit;                       /* of addr->touching */
    struct na_sm_told told; /* about the memory, while that is named */
};

/* ---- Life ---- */

HG_PRIVATE na_return_t na_sm_rma_init(struct na_sm_class *self)
{
    struct na_class_core *core = na_class_core_of(&self->base);
    const char *mode = getenv("HG_SM_RMA");
    na_return_t ret;

    self->rma_mode = NA_SM_RMA_AUTO;
    if (mode != NULL && strcmp(mode, "vm") == 0) {
        self->rma_mode = NA_SM_RMA_VM;
    } else if (mode != NULL && strcmp(mode, "copy") == 0) {
        self->rma_mode = NA_SM_RMA_COPY;
    } else if (mode != NULL && strcmp(mode, "map") == 0) {
        self->rma_mode = NA_SM_RMA_MAP;
    } else if (mode != NULL && mode[0] != '\0' && strcmp(mode, "auto") != 0) {
        hg_log_error("sm", "HG_SM_RMA=%s: not auto, vm, map or copy", mode);
        return NA_INVALID_ARG;
    }
    self->rma_vm = na_class_counter(core, "sm_rma_vm");
    self->rma_calls = na_class_counter(core, "sm_rma_calls");
    self->rma_mapped = na_class_counter(core, "sm_rma_mapped");
    hg_list_init(&self->transfers);
    hg_list_init(&self->unmet);
    ret = na_sm_mem_init(self);
    if (ret != NA_SUCCESS)
        return ret;
    ret = hg_lock_cond_init(&self->moved);
    if (ret != NA_SUCCESS)
        na_sm_mem_fini(self);
    return ret;
}

HG_PRIVATE void na_sm_rma_fini(struct na_sm_class *self)
{
    if (self->slots_used == NULL) /* it never began */
        return;
    assert(hg_list_is_empty(&self->transfers) && self->moving == NULL);
    assert(hg_list_is_empty(&self->unmet));
    pthread_cond_destroy(&self->moved);
    na_sm_mem_fini(self);
}

/* ---- Hold of a pair ---- */

/* The last to leave lets a goodbye leave. */
static void na_sm_rma_leave(
    struct na_sm_class *self, const struct na_sm_touch *touch)
{
    struct na_sm_addr *addr = touch->addr;

    if (atomic_fetch_and(&addr->touching, ~touch->bit) != touch->bit ||
        HG_LIKELY(!atomic_load(&addr->waiting)))
        return;
    na_sm_enter(na_sm_of(addr->base.na_class));
    if (addr->slot < NA_SM_PEERS)
        na_sm_hint_set(self->hints, addr->slot);
    na_sm_leave(na_sm_of(addr->base.na_class));
    self->base.core->wake(&self->base);
}

/* A transfer wants a peer that is not connected: dial it. NA_AGAIN: it is being
 * dialled; NA_OPNOTSUPPORT: its connection is ending. */
static na_return_t na_sm_rma_dial(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    enum na_sm_state state;

    na_sm_enter(self);
    if (na_sm_peer_state(addr) == NA_SM_IDLE)
        na_sm_peer_dial(self, addr);
    state = na_sm_peer_state(addr);
    na_sm_peer_unlock(self);
    return state == NA_SM_DIALLING || state == NA_SM_READY ? NA_AGAIN
                                                           : NA_OPNOTSUPPORT;
}

/* NA_AGAIN: as many pieces as can be are under way, or the peer is dialled, or
 * asked for its permit; NA_OPNOTSUPPORT: its connection is ending. The thread
 * that ends a connection changes its state and then looks at the bits; we do it
 * in the reverse order, so one of the two sees the other. */
static na_return_t na_sm_rma_pin(struct na_sm_class *self,
    struct na_sm_addr *addr, struct na_sm_touch *touch)
{
    const unsigned all = (1u << NA_SM_HAZARDS) - 1;
    bool own = addr->base.self != NA_FALSE;
    unsigned taken = atomic_load(&addr->touching);
    unsigned i;

    do {
        if (taken == all)
            return NA_AGAIN;
        i = (unsigned) __builtin_ctz(~taken);
    } while (!atomic_compare_exchange_weak(
        &addr->touching, &taken, taken | 1u << i));
    touch->addr = addr;
    touch->bit = 1u << i;
    if (!own && atomic_load(&addr->state) != NA_SM_READY) {
        na_sm_rma_leave(self, touch);
        return na_sm_rma_dial(self, addr);
    }
    if (!own && HG_UNLIKELY(atomic_load(&addr->permit) != NA_SM_PERMIT_HERE)) {
        na_sm_reach_permit(addr);
        na_sm_rma_leave(self, touch);
        return NA_AGAIN;
    }
    touch->owner = own ? self->public_page : addr->peer_public;
    touch->hazard = own
        ? &self->own_hazards[i]
        : &addr->shared->control[addr->dialled ? 0 : 1].hazard[i];
    touch->theirs = own ? NULL : &addr->shared->control[addr->dialled ? 1 : 0];
    return NA_SUCCESS;
}

static void na_sm_rma_unpin(
    struct na_sm_class *self, const struct na_sm_touch *touch)
{
    atomic_store(touch->hazard, 0);
    na_sm_rma_leave(self, touch);
}

/* Whether an operation may use memory so, by what its owner tells. */
static na_return_t na_sm_rma_judge(
    const struct na_sm_told *told, const struct na_op *op)
{
    unsigned needed =
        op->type == NA_CB_PUT ? NA_MEM_WRITE_ONLY : NA_MEM_READ_ONLY;

    if ((told->flags & needed) == 0)
        return NA_PERMISSION;
    if (op->remote_offset > told->size ||
        op->size > told->size - op->remote_offset)
        return NA_OVERFLOW;
    return NA_SUCCESS;
}

/* Publish the key of an operation's memory, then read its slot.
 * NA_OPNOTSUPPORT: the peer ignores our hazard words from now on; NA_NOENTRY:
 * the memory is not registered; or as above. */
static na_return_t na_sm_rma_find(
    struct na_sm_class *self, struct na_sm_touch *touch, const struct na_op *op)
{
    const struct na_sm_mem *mem = na_sm_mem_of(op->remote);
    na_return_t ret = NA_NOENTRY;

    atomic_store(touch->hazard, mem->base.key);
    if (touch->theirs != NULL && HG_UNLIKELY(atomic_load(&touch->theirs->over)))
        return NA_OPNOTSUPPORT;
    if (na_sm_slot_read(
            &touch->owner->slots[mem->slot], mem->mark, &touch->told))
        ret = na_sm_rma_judge(&touch->told, op);
    if (HG_LIKELY(ret == NA_SUCCESS))
        return NA_SUCCESS;
    self->base.core->count(&self->base, "rma_refused", 1);
    hg_log_debug("rma", "a transfer was refused: %s", NA_Error_to_string(ret));
    return ret;
}

/* ---- The kernel's copy ---- */

/* Whether the pair's socket lives, and so the process of that number is the
 * peer. */
static bool na_sm_rma_lives(const struct na_sm_touch *touch)
{
    return !na_sm_peer_has_ended(touch->addr);
}

/* The kernel will not, or the peer is not who it is taken for: from now on, by
 * frames. */
static na_return_t na_sm_rma_deny(
    const struct na_sm_touch *touch, const char *why)
{
    struct na_sm_addr *addr = touch->addr;

    if (atomic_exchange(&addr->vm, NA_SM_VM_DENIED) != NA_SM_VM_DENIED)
        hg_log_info("sm",
            "the memory of process %ld cannot be reached (%s): its data is "
            "copied through the rings",
            (long) addr->pid, why);
    return NA_OPNOTSUPPORT;
}

/* A call failed: another way is to be taken, for the peer or for this memory
 * only. */
static na_return_t na_sm_rma_failed(const struct na_sm_touch *touch, int error)
{
    bool works = atomic_load(&touch->addr->vm) == NA_SM_VM_WORKS;

    if (error == EPERM || error == ENOSYS || (error == ESRCH && !works))
        return na_sm_rma_deny(touch, strerror(error));
    return NA_OPNOTSUPPORT;
}

/* Read `size` bytes and, behind them, the witness; a partial read fails. Both
 * vectors have a free element at the end. */
static na_return_t na_sm_rma_read(const struct na_sm_touch *touch,
    struct iovec *local, size_t local_count, struct iovec *remote,
    size_t remote_count, na_size_t size)
{
    struct na_sm_addr *addr = touch->addr;
    uint64_t place = atomic_load(&touch->owner->witness);
    uint64_t word = 0;
    na_return_t ret;
    ssize_t moved;
    bool works;

    local[local_count].iov_base = &word;
    local[local_count].iov_len = sizeof(word);
    remote[remote_count].iov_base = (void *) (uintptr_t) place;
    remote[remote_count].iov_len = sizeof(word);
    moved = process_vm_readv(
        addr->pid, local, local_count + 1, remote, remote_count + 1, 0);
    if (moved < 0)
        return na_sm_rma_failed(touch, errno);
    if ((na_size_t) moved != size + sizeof(word))
        return NA_OPNOTSUPPORT;
    if (word == atomic_load(&addr->incarnation))
        return NA_SUCCESS;
    works = atomic_load(&addr->vm) == NA_SM_VM_WORKS;
    ret = na_sm_rma_deny(touch, "its number is another process's");
    return works ? NA_DISCONNECT : ret;
}

/* Write *size bytes; sets how many it did. */
static na_return_t na_sm_rma_write(const struct na_sm_touch *touch,
    const struct iovec *local, size_t local_count, const struct iovec *remote,
    size_t remote_count, na_size_t *size)
{
    ssize_t moved;

    if (!na_sm_rma_lives(touch))
        return NA_OPNOTSUPPORT;
    moved = process_vm_writev(
        touch->addr->pid, local, local_count, remote, remote_count, 0);
    if (moved < 0)
        return na_sm_rma_failed(touch, errno);
    if (!na_sm_rma_lives(touch))
        return NA_DISCONNECT;
    assert(moved > 0 && (na_size_t) moved <= *size);
    *size = (na_size_t) moved;
    return NA_SUCCESS;
}

/* The first use of a connection: is it who it is taken for? */
static na_return_t na_sm_rma_identify(const struct na_sm_touch *touch)
{
    struct iovec local[1], remote[1];
    na_return_t ret = na_sm_rma_read(touch, local, 0, remote, 0, 0);

    if (ret == NA_SUCCESS)
        atomic_store(&touch->addr->vm, NA_SM_VM_WORKS);
    else
        (void) na_sm_rma_deny(touch, "it is not as it says");
    return ret;
}

/* ---- Descriptions ---- */

/* Lay down what was fetched, which is in order, unless another thread has.
 * NA_AGAIN: another one is at it. Without a lock, since whoever ends the
 * connection holds the class's while it waits for us. */
static na_return_t na_sm_rma_lay_down(struct na_sm_mem *mem,
    const struct na_sm_told *told, struct na_segment *segments,
    na_offset_t *starts)
{
    int state = NA_SM_MEM_UNKNOWN;

    if (atomic_compare_exchange_strong(
            &mem->known, &state, NA_SM_MEM_LEARNING)) {
        mem->base.segments = segments;
        mem->base.segment_count = told->count;
        mem->described = told->size;
        na_mem_core_of(&mem->base)->starts = starts;
        atomic_store(&mem->known, NA_SM_MEM_KNOWN);
        return NA_SUCCESS;
    }
    hg_mem_free(segments);
    hg_mem_free(starts);
    return state == NA_SM_MEM_KNOWN ? NA_SUCCESS : NA_AGAIN;
}

/* Check what was fetched, and lay it down in the handle. Takes both arrays. */
static na_return_t na_sm_rma_learn(struct na_sm_class *self,
    struct na_sm_mem *mem, const struct na_sm_told *told,
    struct na_segment *segments, na_offset_t *starts)
{
    na_size_t total = 0;
    uint32_t i;

    for (i = 0; i < told->count; i++) {
        if (segments[i].size > told->size - total)
            break;
        starts[i] = total;
        total += segments[i].size;
    }
    if (i == told->count && total == told->size)
        return na_sm_rma_lay_down(mem, told, segments, starts);
    hg_mem_free(segments);
    hg_mem_free(starts);
    self->base.core->count(&self->base, "rma_malformed", 1);
    return NA_PROTOCOL_ERROR;
}

/* Fetch the segments of a peer's memory. */
static na_return_t na_sm_rma_fetch(struct na_sm_class *self,
    const struct na_sm_touch *touch, struct na_sm_mem *mem)
{
    uint32_t count = touch->told.count;
    size_t size = count * sizeof(struct na_segment);
    struct na_segment *segments;
    na_offset_t *starts;
    struct iovec local[2], remote[2];
    na_return_t ret = NA_NOMEM;

    if (count == 0 || count > NA_SM_MEM_SEGMENTS)
        return NA_OPNOTSUPPORT;
    segments = (struct na_segment *) hg_mem_alloc(size);
    starts = (na_offset_t *) hg_mem_alloc(count * sizeof(*starts));
    if (segments != NULL && starts != NULL) {
        local[0].iov_base = segments;
        remote[0].iov_base = (void *) (uintptr_t) touch->told.place;
        local[0].iov_len = remote[0].iov_len = size;
        ret = na_sm_rma_read(touch, local, 1, remote, 1, size);
    } else {
        hg_log_error("sm", "no memory for %" PRIu32 " segments", count);
    }
    if (ret == NA_SUCCESS)
        return na_sm_rma_learn(self, mem, &touch->told, segments, starts);
    hg_mem_free(segments);
    hg_mem_free(starts);
    return ret;
}

/* ---- Pieces ---- */

/* Segments from a place on, *size bytes in all or fewer, and then those: their
 * number. */
static size_t na_sm_rma_list(struct na_cursor cursor,
    struct iovec vector[NA_SM_RMA_VECTOR], na_size_t *size)
{
    na_size_t left = *size;
    size_t n;

    for (n = 0; left > 0 && n < NA_SM_RMA_VECTOR; n++) {
        na_size_t run;

        vector[n].iov_base = na_cursor_run(&cursor, left, &run);
        vector[n].iov_len = (size_t) run;
        na_cursor_advance(&cursor, run);
        left -= run;
    }
    *size -= left;
    return n;
}

static void na_sm_rma_pass(struct na_cursor *cursor, na_size_t size)
{
    while (size > 0) {
        na_size_t run;

        (void) na_cursor_run(cursor, size, &run);
        na_cursor_advance(cursor, run);
        size -= run;
    }
}

/* The offsets and the size tell what is left. */
static void na_sm_rma_progress(struct na_op *op, na_size_t moved)
{
    op->local_offset += moved;
    op->remote_offset += moved;
    op->size -= moved;
}

/* One call of the kernel for as much as fits, up to `size`. */
static na_return_t na_sm_rma_move(struct na_sm_class *self,
    const struct na_sm_touch *touch, struct na_op *op, na_size_t size)
{
    struct na_sm_op *rma = na_sm_op_of(op);
    struct iovec local[NA_SM_RMA_VECTOR + 1];
    struct iovec remote[NA_SM_RMA_VECTOR + 1];
    size_t local_count = na_sm_rma_list(rma->local, local, &size);
    size_t remote_count = 1;
    na_return_t ret;

    if (touch->told.count == 1) {
        remote[0].iov_base =
            (void *) (uintptr_t) (touch->told.place + op->remote_offset);
        remote[0].iov_len = (size_t) size;
    } else {
        na_size_t all = size;

        remote_count = na_sm_rma_list(rma->remote, remote, &size);
        if (size < all)
            local_count = na_sm_rma_list(rma->local, local, &size);
    }
    ret = op->type == NA_CB_PUT
        ? na_sm_rma_write(
              touch, local, local_count, remote, remote_count, &size)
        : na_sm_rma_read(touch, local, local_count, remote, remote_count, size);
    if (ret != NA_SUCCESS)
        return ret;
    na_counter_add(self->rma_calls, 1);
    na_counter_add(self->rma_vm, size);
    na_sm_rma_progress(op, size);
    if (op->size == 0) /* the cursors are not needed any more */
        return NA_SUCCESS;
    na_sm_rma_pass(&rma->local, size);
    if (touch->told.count != 1)
        na_sm_rma_pass(&rma->remote, size);
    return NA_SUCCESS;
}

/* Copy up to a piece to or from the peer's arena. NA_OPNOTSUPPORT: the memory
 * is not in one, or that is not mapped; NA_AGAIN: it is to be waited for. */
static na_return_t na_sm_rma_map(
    struct na_sm_class *self, const struct na_sm_touch *touch, struct na_op *op)
{
    struct na_sm_op *rma = na_sm_op_of(op);
    struct na_sm_addr *addr = touch->addr;
    na_size_t size = op->size < NA_SM_RMA_PIECE ? op->size : NA_SM_RMA_PIECE;
    bool put = op->type == NA_CB_PUT;
    unsigned char *remote = NULL;
    enum na_sm_reach reach;
    na_size_t left = size;

    if (touch->told.arena == 0 || addr->base.self ||
        self->rma_mode == NA_SM_RMA_VM)
        return NA_OPNOTSUPPORT;
    na_sm_enter(na_sm_of(addr->base.na_class));
    reach = na_sm_reach(addr, touch->told.arena,
        touch->told.arena_offset + op->remote_offset, size, put, &remote);
    na_sm_leave(na_sm_of(addr->base.na_class));
    if (reach == NA_SM_REACH_ASKED && self->rma_mode == NA_SM_RMA_MAP) {
        rma->awaits = touch->told.arena;
        return NA_AGAIN;
    }
    if (reach != NA_SM_REACH_HERE)
        return NA_OPNOTSUPPORT;
    while (left > 0) {
        na_size_t run;
        char *local = na_cursor_run(&rma->local, left, &run);

        if (put)
            memcpy(remote, local, (size_t) run);
        else
            memcpy(local, remote, (size_t) run);
        na_cursor_advance(&rma->local, run);
        remote += run;
        left -= run;
    }
    na_counter_add(self->rma_mapped, size);
    rma->aimed = false; /* the remote cursor stayed behind */
    na_sm_rma_progress(op, size);
    return NA_SUCCESS;
}

/* Have the kernel move up to a piece. */
static na_return_t na_sm_rma_work(
    struct na_sm_class *self, const struct na_sm_touch *touch, struct na_op *op)
{
    struct na_sm_op *rma = na_sm_op_of(op);
    struct na_sm_mem *mem = na_sm_mem_of(op->remote);
    int vm = atomic_load(&touch->addr->vm);
    na_size_t left = op->size < NA_SM_RMA_PIECE ? op->size : NA_SM_RMA_PIECE;
    na_size_t end = op->size - left;
    na_return_t ret = NA_SUCCESS;

    if (vm == NA_SM_VM_DENIED || touch->told.width != sizeof(void *))
        return NA_OPNOTSUPPORT;
    if (HG_UNLIKELY(vm != NA_SM_VM_WORKS))
        ret = na_sm_rma_identify(touch);
    if (ret == NA_SUCCESS && touch->told.count != 1 && !rma->aimed) {
        if (atomic_load(&mem->known) != NA_SM_MEM_KNOWN)
            ret = na_sm_rma_fetch(self, touch, mem);
        if (ret == NA_SUCCESS && touch->told.size != mem->described)
            ret = NA_PROTOCOL_ERROR; /* what it tells changes */
        rma->aimed = ret == NA_SUCCESS;
        if (rma->aimed)
            na_cursor_init(&rma->remote, op->remote, op->remote_offset);
    }
    while (ret == NA_SUCCESS && op->size > end) {
        ret = na_sm_rma_move(self, touch, op, op->size - end);
    }
    return ret;
}

/* Move up to a piece of an operation. NA_AGAIN: not now; NA_OPNOTSUPPORT: what
 * is left is for the emulation, which also knows what to do with a peer that
 * is going or gone. */
static na_return_t na_sm_rma_piece(struct na_sm_class *self, struct na_op *op)
{
    struct na_sm_touch touch;
    na_return_t ret = na_sm_rma_pin(self, na_sm_addr_of(op->addr), &touch);

    na_sm_op_of(op)->awaits = 0;
    if (ret != NA_SUCCESS)
        return ret;
    ret =
        na_sm_mem_of(op->remote)->owner == atomic_load(&touch.addr->incarnation)
        ? na_sm_rma_find(self, &touch, op)
        : NA_OPNOTSUPPORT;
    if (ret == NA_SUCCESS && op->size > 0) {
        ret = na_sm_rma_map(self, &touch, op);
        if (ret == NA_OPNOTSUPPORT)
            ret = na_sm_rma_work(self, &touch, op);
    }
    na_sm_rma_unpin(self, &touch);
    return ret;
}

/* ---- Operations ---- */

/* Whether to try the kernel's copy, or our own. */
static bool na_sm_rma_is_direct(
    const struct na_sm_class *self, const struct na_op *op)
{
    const struct na_sm_addr *addr = na_sm_addr_of(op->addr);
    const struct na_sm_mem *mem = na_sm_mem_of(op->remote);
    uint64_t owner =
        atomic_load_explicit(&addr->incarnation, memory_order_relaxed);

    /* Of an address that was never connected nothing is known yet. */
    return self->rma_mode != NA_SM_RMA_COPY && mem->slot < NA_SM_SLOTS &&
        (mem->owner == owner || owner == 0);
}

/* The emulation moves the rest. */
static na_return_t na_sm_rma_hand_over(
    struct na_sm_class *self, struct na_op *op)
{
    if (self->rma_mode == NA_SM_RMA_VM) {
        hg_log_error("sm",
            "HG_SM_RMA=vm, but the memory of %s cannot be reached so",
            op->addr->name != NULL ? op->addr->name : "a peer");
        return NA_PERMISSION;
    }
    return op->type == NA_CB_PUT ? na_emul_put(op) : na_emul_get(op);
}

/* Have it wait, for its turn or for what comes before; the class lock is held,
 * so that nobody who ends that wait is missed. */
static void na_sm_rma_enlist(struct na_sm_class *self, struct na_op *op)
{
    struct na_sm_addr *addr = na_sm_addr_of(op->addr);
    bool asked = na_sm_peer_state(addr) == NA_SM_DIALLING ||
        (na_sm_peer_state(addr) == NA_SM_READY &&
            (atomic_load(&addr->permit) == NA_SM_PERMIT_ASKED ||
                na_sm_reach_awaits(addr, na_sm_op_of(op)->awaits)));

    na_sm_op_push(asked ? &self->unmet : &self->transfers, op);
    if (!asked)
        atomic_store_explicit(&self->moves, true, memory_order_relaxed);
}

static void na_sm_rma_queue(struct na_sm_class *self, struct na_op *op)
{
    na_sm_enter(self);
    na_sm_rma_enlist(self, op);
    na_sm_peer_unlock(self);
}

HG_PRIVATE na_return_t na_sm_rma_start(struct na_op *op)
{
    struct na_sm_class *self = na_sm_of(op->context->na_class);
    na_return_t ret = NA_AGAIN;

    if (HG_UNLIKELY(atomic_load_explicit(&self->forked, memory_order_relaxed)))
        return na_sm_peer_forked(self);
    if (!na_sm_rma_is_direct(self, op))
        return na_sm_rma_hand_over(self, op);
    na_cursor_init(&na_sm_op_of(op)->local, op->local, op->local_offset);
    na_sm_op_of(op)->aimed = false;
    na_sm_op_of(op)->awaits = 0;
    if (op->size <= NA_SM_RMA_AT_ONCE)
        ret = na_sm_rma_piece(self, op);
    if (ret == NA_OPNOTSUPPORT)
        return na_sm_rma_hand_over(self, op);
    if (ret == NA_AGAIN)
        na_sm_rma_queue(self, op);
    else
        self->base.core->complete(op, ret);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_sm_rma_now(const struct na_op *op)
{
    struct na_sm_class *self = na_sm_of(op->context->na_class);
    struct na_sm_op rma;
    na_return_t ret;

    if (op->size > NA_SM_RMA_AT_ONCE || !na_sm_rma_is_direct(self, op) ||
        HG_UNLIKELY(atomic_load_explicit(&self->forked, memory_order_relaxed)))
        return NA_AGAIN;
    rma.base = *op;
    rma.held = false;
    rma.aimed = false;
    rma.awaits = 0;
    na_cursor_init(&rma.local, op->local, op->local_offset);
    ret = na_sm_rma_piece(self, &rma.base);
    /* What was moved of it is moved again. */
    return ret == NA_OPNOTSUPPORT ? NA_AGAIN : ret;
}

HG_PRIVATE bool na_sm_rma_cancel_running(
    struct na_sm_class *self, uint64_t op_id)
{
    if (self->moving == NULL || self->moving_id != op_id)
        return false;
    self->moving_canceled = true;
    return true;
}

/* The operation whose turn it is, which runs from here on, or NULL. */
static struct na_op *na_sm_rma_next(struct na_sm_class *self, uint64_t *id_p)
{
    struct na_op *op;

    /* Who raises the mark wakes whoever sleeps, or polls itself. */
    if (!atomic_load_explicit(&self->moves, memory_order_relaxed))
        return NULL;
    na_sm_enter(self);
    assert(self->moving == NULL);
    op = na_sm_op_pop(&self->transfers);
    if (op != NULL) {
        self->moving = op;
        self->moving_id = *id_p = self->base.core->op_id(op);
        self->moving_canceled = false;
    }
    atomic_store_explicit(&self->moves, !hg_list_is_empty(&self->transfers),
        memory_order_relaxed);
    na_sm_leave(self);
    return op;
}

/* It runs no more; unless it is `gone` it waits for its next turn. Whether it
 * was to be canceled meanwhile, and so does not. */
static bool na_sm_rma_pause(
    struct na_sm_class *self, struct na_op *op, bool gone)
{
    bool canceled;

    na_sm_enter(self);
    canceled = self->moving_canceled;
    if (!gone && !canceled)
        na_sm_rma_enlist(self, op);
    self->moving = NULL;
    pthread_cond_broadcast(&self->moved);
    na_sm_leave(self);
    return canceled;
}

HG_PRIVATE unsigned na_sm_rma_poll(struct na_sm_class *self)
{
    uint64_t id = 0;
    struct na_op *op = na_sm_rma_next(self, &id);
    struct hg_monitor *lock = na_class_core_of(&self->base)->lock;
    unsigned depth;
    bool handed = false;
    na_return_t ret;

    if (op == NULL)
        return 0;
    depth = hg_leave_all(lock); /* others need not wait for the copy */
    ret = na_sm_rma_piece(self, op);
    hg_enter_again(lock, depth);
    if (ret == NA_SUCCESS && op->size > 0)
        ret = NA_AGAIN;
    /* It runs until the emulation has it: whoever looks for it now waits, and
     * finds it there. */
    if (ret == NA_OPNOTSUPPORT) {
        ret = na_sm_rma_hand_over(self, op);
        handed = ret == NA_SUCCESS;
    }
    if (!na_sm_rma_pause(self, op, ret != NA_AGAIN)) {
        if (ret != NA_AGAIN && !handed)
            self->base.core->complete(op, ret);
    } else if (handed) {
        (void) na_emul_cancel(op, id);
    } else {
        self->base.core->complete(op, ret == NA_AGAIN ? NA_CANCELED : ret);
    }
    return 1;
}

/* ---- Ends from outside ---- */

/* Whether an operation has that context, or that local memory; either may be
 * NULL. */
static bool na_sm_rma_is_of(const struct na_op *op,
    const struct na_context *context, const struct na_mem_handle *mem)
{
    return op->context == context || op->local == mem;
}

/* Move what is theirs from one list to another; the class lock is held. */
static void na_sm_rma_take(struct na_link *to, struct na_link *from,
    const struct na_context *context, const struct na_mem_handle *mem)
{
    struct na_link *link, *next;

    for (link = from->next; link != from; link = next) {
        struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);

        next = link->next;
        if (na_sm_rma_is_of(op, context, mem)) {
            hg_list_remove(link);
            na_sm_op_of(op)->held = false;
            hg_list_push(to, link);
        }
    }
}

/* End what is queued of them with NA_CANCELED, and wait for the piece under
 * way, after which it ends so, too. */
static void na_sm_rma_end(struct na_sm_class *self,
    const struct na_context *context, const struct na_mem_handle *mem)
{
    struct na_link canceled;

    hg_list_init(&canceled);
    na_sm_enter(self);
    if (self->moving != NULL && na_sm_rma_is_of(self->moving, context, mem)) {
        const struct na_op *op = self->moving;

        self->moving_canceled = true;
        while (self->moving == op)
            (void) hg_monitor_wait_until(na_class_core_of(&self->base)->lock,
                &self->moved, HG_CLOCK_NEVER);
    }
    na_sm_rma_take(&canceled, &self->transfers, context, mem);
    na_sm_rma_take(&canceled, &self->unmet, context, mem);
    na_sm_leave(self);
    na_sm_peer_complete(self, &canceled, NA_CANCELED);
}

HG_PRIVATE void na_sm_rma_end_local(const struct na_mem_handle *mem)
{
    na_sm_rma_end(na_sm_of(mem->na_class), NULL, mem);
}

HG_PRIVATE void na_sm_rma_context_gone(const struct na_context *context)
{
    na_sm_rma_end(na_sm_of(context->na_class), context, NULL);
}

#endif
