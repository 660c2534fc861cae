/* SPDX-License-Identifier: BSD-3-Clause */
/* sm_mem: see sm_mem.h. */
#include "na/sm_mem.h"

#if HG_ENABLE_SM

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "na/emul.h"
#include "na/emul_wire.h"

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
    NA_SM_STEP();
    atomic_store(&self->public_page->slots[mem->slot].mark, 0);
    NA_SM_STEP();
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

#endif
