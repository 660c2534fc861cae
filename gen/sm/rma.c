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
#include "na/rma.h"

#define NA_SM_RMA_PIECE ((na_size_t) 1 << 20)
#define NA_SM_RMA_AT_ONCE ((na_size_t) 256 << 10)
#define NA_SM_RMA_SMALL ((na_size_t) 16 << 10) /* the lock is kept for these */
#define NA_SM_RMA_VECTOR 1023u /* segments in one call, plus the incarnation */

#define NA_SM_MEM_POLL_NS 50000 /* between two looks at hazard words */

/* A piece of memory that a hazard word protects. */
struct na_sm_touch {
    struct na_sm_class *self;
    struct na_sm_addr *addr;
    struct na_sm_slot_info info; /* from the memory's slot */
    bool leaves;                 /* the lock is released during a copy */
};

/* ---- Life ---- */

HG_PRIVATE na_return_t na_sm_rma_init(struct na_sm_class *self)
{
    struct na_class_core *core = na_class_core_of(&self->base);
    const char *mode = getenv("HG_SM_RMA");

    self->rma_mode = NA_SM_RMA_AUTO;
    if (mode != NULL && strcmp(mode, "vm") == 0) {
        self->rma_mode = NA_SM_RMA_VM;
        /* An error: the system has no Yama. */
        if (prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0)
            hg_log_info("sm",
                "all processes of this user may read this one's memory "
                "(PR_SET_PTRACER), because of HG_SM_RMA=vm");
    } else if (mode != NULL && strcmp(mode, "copy") == 0) {
        self->rma_mode = NA_SM_RMA_COPY;
    } else if (mode != NULL && mode[0] != '\0' && strcmp(mode, "auto") != 0 &&
        strcmp(mode, "map") != 0) {
        hg_log_error("sm", "HG_SM_RMA=%s: not auto, vm, map or copy", mode);
        return NA_INVALID_ARG;
    }
    self->rma_vm = na_class_counter(core, "sm_rma_vm");
    self->rma_calls = na_class_counter(core, "sm_rma_calls");
    self->rma_mapped = na_class_counter(core, "sm_rma_mapped");
    hg_list_init(&self->transfers);
    return NA_SUCCESS;
}

/* ---- Registrations ---- */

/* A free slot, or NA_SM_SLOTS. */
static uint32_t na_sm_mem_take_slot(struct na_sm_class *self)
{
    uint32_t i;

    for (i = 0; i < NA_SM_SLOTS; i++) {
        uint32_t slot = (self->mems_at + i) % NA_SM_SLOTS;

        if (atomic_load(&self->public_page->slots[slot].mark) == 0) {
            self->mems_at = slot + 1;
            return slot;
        }
    }
    return NA_SM_SLOTS;
}

/* Describe registered memory in the public page, if there is a free slot. */
static void na_sm_mem_show(struct na_sm_class *self, struct na_sm_mem *mem)
{
    const struct na_mem_handle *base = &mem->base;
    struct na_sm_slot_info info;

    memset(&info, 0, sizeof(info));
    info.place =
        (uintptr_t) (base->segment_count == 1 ? base->segments[0].address
                                              : (const void *) base->segments);
    info.size = base->size;
    info.count = (uint32_t) base->segment_count;
    info.flags = (uint8_t) base->flags;
    info.width = sizeof(void *);
    info.arena = (uint8_t) na_sm_arena_find(
        self->arenas, base->segments, base->segment_count, &info.arena_offset);
    mem->slot = na_sm_mem_take_slot(self);
    if (mem->slot < NA_SM_SLOTS)
        na_sm_slot_fill(&self->public_page->slots[mem->slot], &info,
            na_sm_slot_mark(base->key, self->base.incarnation));
}

HG_PRIVATE na_return_t na_sm_mem_register(struct na_mem_handle *base)
{
    na_sm_mem_of(base)->slot = NA_SM_SLOTS;
    return na_emul_mem_register(base);
}

/* A living peer that copies to or from the memory, or NULL. */
static const struct na_sm_addr *na_sm_mem_user(
    const struct na_sm_class *self, uint64_t key)
{
    const struct na_link *link;

    for (link = self->addrs.next; link != &self->addrs; link = link->next) {
        const struct na_sm_addr *addr =
            HG_CONTAINER_OF(link, struct na_sm_addr, link);

        if (addr->shared != NULL && addr->state < NA_SM_DYING &&
            na_sm_peer_copies(addr, key))
            return addr;
    }
    return NULL;
}

HG_PRIVATE na_bool_t na_sm_mem_retract(struct na_mem_handle *base)
{
    struct na_sm_class *self = na_sm_of(base->na_class);
    struct na_sm_mem *mem = na_sm_mem_of(base);
    bool copied;

    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    if (mem->slot >= NA_SM_SLOTS)
        return NA_FALSE;
    atomic_store(
        &self->public_page->slots[mem->slot].mark, NA_SM_SLOT_WITHDRAWN);
    copied = na_sm_mem_user(self, base->key) != NULL;
    if (!copied) {
        atomic_store(&self->public_page->slots[mem->slot].mark, 0);
        self->mems_at = mem->slot;
        mem->slot = NA_SM_SLOTS;
    }
    return copied ? NA_TRUE : NA_FALSE;
}

static void na_sm_mem_log_late(const struct na_sm_class *self, uint64_t key)
{
    const struct na_sm_addr *addr = na_sm_mem_user(self, key);

    if (addr != NULL)
        hg_log_warning("sm",
            "deregistering memory waits for process %ld, which copies it: if "
            "it is stopped, continue or end it",
            (long) addr->user.pid);
}

/* There is no time limit: a peer that is stopped during a copy finishes it when
 * it continues. */
HG_PRIVATE void na_sm_mem_deregister(struct na_mem_handle *mem)
{
    struct na_sm_class *self = na_sm_of(mem->na_class);
    uint64_t late = hg_clock_after_ms(mem->na_class->info->death_ms);
    struct timespec nap = {0, NA_SM_MEM_POLL_NS};

    na_sm_enter(self);
    while (na_sm_mem_retract(mem)) {
        na_sm_leave(self);
        (void) nanosleep(&nap, NULL);
        na_sm_enter(self);
        if (hg_clock_now() >= late) {
            na_sm_mem_log_late(self, mem->key);
            late = HG_CLOCK_NEVER;
        }
    }
    na_sm_leave(self);
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
    struct na_sm_class *self = na_sm_of(base->na_class);
    struct na_sm_mem *mem = na_sm_mem_of(base);
    unsigned char *bytes = (unsigned char *) buf;
    uint32_t number;

    na_sm_enter(self);
    if (mem->slot >= NA_SM_SLOTS && base->segment_count <= NA_SM_MEM_SEGMENTS)
        na_sm_mem_show(self, mem);
    number = mem->slot < NA_SM_SLOTS ? mem->slot + 1 : 0;
    na_sm_leave(self);
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
    /* From a class that uses only the emulation. */
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

/* ---- The kernel's copy ---- */

static void na_sm_rma_copy_begins(struct na_sm_touch *touch)
{
    HG_ASSERT(touch->addr->copies != 0);
    if (touch->leaves)
        na_sm_leave(touch->self);
}

static void na_sm_rma_copy_ends(const struct na_sm_touch *touch)
{
    if (touch->leaves)
        na_sm_enter(touch->self);
}

/* The kernel refuses the copy, or the process is not the peer: from now on use
 * frames. */
static na_return_t na_sm_rma_deny(struct na_sm_addr *addr, const char *why)
{
    if (addr->vm != NA_SM_VM_DENIED)
        hg_log_info("sm",
            "the memory of process %ld cannot be reached (%s): its data is "
            "copied through the rings",
            (long) addr->user.pid, why);
    addr->vm = NA_SM_VM_DENIED;
    return NA_OPNOTSUPPORT;
}

/* Make the kernel copy *size bytes; a put may copy fewer, *size is then their
 * number. A read also reads the peer's incarnation; a partial read fails. Both
 * vectors have a free element at the end. NA_FAULT: memory of one side cannot
 * be accessed, or the process is not the peer. */
static na_return_t na_sm_rma_call(struct na_sm_touch *touch, bool put,
    struct iovec *local, size_t local_count, struct iovec *remote,
    size_t remote_count, na_size_t *size)
{
    struct na_sm_addr *addr = touch->addr;
    bool works = addr->vm == NA_SM_VM_WORKS;
    uint64_t word = 0;
    ssize_t moved;
    int error;

    if (put && na_sm_peer_has_ended(addr))
        return NA_OPNOTSUPPORT;
    if (!put) {
        local[local_count].iov_base = &word;
        remote[remote_count].iov_base = (void *) (uintptr_t) atomic_load(
            &addr->peer_public->incarnation_at);
        local[local_count++].iov_len = sizeof(word);
        remote[remote_count++].iov_len = sizeof(word);
    }
    na_sm_rma_copy_begins(touch);
    moved = put ? process_vm_writev(addr->user.pid, local, local_count, remote,
                      remote_count, 0)
                : process_vm_readv(addr->user.pid, local, local_count, remote,
                      remote_count, 0);
    error = errno;
    na_sm_rma_copy_ends(touch);
    if (moved < 0 && error == EFAULT)
        return NA_FAULT;
    if (moved < 0)
        return error == ENOMEM ? NA_OPNOTSUPPORT
                               : na_sm_rma_deny(addr, strerror(error));
    if (put) {
        HG_ASSERT(moved > 0 && (na_size_t) moved <= *size);
        *size = (na_size_t) moved;
        return na_sm_peer_has_ended(addr) ? NA_DISCONNECT : NA_SUCCESS;
    }
    if ((na_size_t) moved != *size + sizeof(word))
        return NA_FAULT;
    if (word == atomic_load(&addr->incarnation))
        return NA_SUCCESS;
    (void) na_sm_rma_deny(addr, "its process id belongs to another process");
    return works ? NA_DISCONNECT : NA_OPNOTSUPPORT;
}

/* Check the identity of the process: at the first use of a connection, and
 * after a fault. */
static na_return_t na_sm_rma_identify(struct na_sm_touch *touch)
{
    struct iovec local[1], remote[1];
    na_size_t size = 0;
    na_return_t ret = na_sm_rma_call(touch, false, local, 0, remote, 0, &size);

    if (ret == NA_FAULT)
        ret = na_sm_rma_deny(touch->addr, strerror(EFAULT));
    touch->addr->vm = ret == NA_SUCCESS ? NA_SM_VM_WORKS : NA_SM_VM_DENIED;
    return ret;
}

/* The kernel's copy reached memory that cannot be accessed. */
static na_return_t na_sm_rma_fault(
    struct na_sm_touch *touch, const struct na_op *op, na_size_t size)
{
    bool get = op->type == NA_CB_GET;
    na_return_t ret = na_sm_rma_identify(touch);

    if (ret != NA_SUCCESS)
        return ret;
    if (!na_rma_can_access(op->local, op->local_offset, size, get))
        return na_rma_fault(size, get);
    hg_log_warning("rma",
        "%" PRIu64 " bytes of bulk memory of process %ld cannot be %s: it has "
        "unmapped or protected them, or their mapped file was cut short",
        size, (long) touch->addr->user.pid, get ? "read" : "written");
    return NA_FAULT;
}

/* ---- Descriptions ---- */

/* Check fetched segments, and compute their offsets. */
static bool na_sm_rma_check(const struct na_sm_slot_info *info,
    const struct na_segment *segments, na_offset_t *starts)
{
    na_size_t total = 0;
    uint32_t i;

    for (i = 0; i < info->count; i++) {
        if (segments[i].size > info->size - total)
            return false;
        starts[i] = total;
        total += segments[i].size;
    }
    return total == info->size;
}

/* Fetch the segments of a peer's memory. */
static na_return_t na_sm_rma_fetch(
    struct na_sm_touch *touch, struct na_sm_mem *mem)
{
    uint32_t count = touch->info.count;
    na_size_t size = count * sizeof(struct na_segment);
    struct na_segment *segments;
    na_offset_t *starts;
    struct iovec local[2], remote[2];
    na_return_t ret = NA_NOMEM;

    if (count == 0 || count > NA_SM_MEM_SEGMENTS)
        return NA_OPNOTSUPPORT;
    segments = (struct na_segment *) hg_mem_alloc((size_t) size);
    starts = (na_offset_t *) hg_mem_alloc(count * sizeof(*starts));
    if (segments != NULL && starts != NULL) {
        local[0].iov_base = segments;
        remote[0].iov_base = (void *) (uintptr_t) touch->info.place;
        local[0].iov_len = remote[0].iov_len = (size_t) size;
        ret = na_sm_rma_call(touch, false, local, 1, remote, 1, &size);
    } else {
        hg_log_error("sm", "no memory for %" PRIu32 " segments", count);
    }
    if (ret == NA_SUCCESS && !na_sm_rma_check(&touch->info, segments, starts)) {
        touch->self->base.core->count(&touch->self->base, "rma_malformed", 1);
        ret = NA_PROTOCOL_ERROR;
    }
    /* Another thread may have fetched them meanwhile. */
    if (ret == NA_SUCCESS && mem->base.segments == NULL) {
        mem->base.segments = segments;
        mem->base.segment_count = count;
        mem->described = touch->info.size;
        na_mem_core_of(&mem->base)->starts = starts;
        return NA_SUCCESS;
    }
    hg_mem_free(segments);
    hg_mem_free(starts);
    return ret;
}

/* ---- Pointers ---- */

/* A connection to the process with an incarnation, or NULL. */
static struct na_sm_addr *na_sm_mem_owner(
    const struct na_sm_class *self, uint64_t incarnation)
{
    const struct na_link *link;

    for (link = self->addrs.next; link != &self->addrs; link = link->next) {
        struct na_sm_addr *addr =
            HG_CONTAINER_OF(link, struct na_sm_addr, link);

        if (addr->state == NA_SM_READY &&
            atomic_load(&addr->incarnation) == incarnation)
            return addr;
    }
    return NULL;
}

/* The offset of a segment, which the owner knows. */
static na_return_t na_sm_mem_start(struct na_sm_touch *touch,
    struct na_sm_mem *mem, na_size_t segment, na_offset_t *start_p)
{
    na_return_t ret = NA_SUCCESS;

    *start_p = 0;
    if (segment == 0)
        return NA_SUCCESS;
    if (touch->addr->vm == NA_SM_VM_DENIED ||
        touch->info.width != sizeof(void *))
        return NA_OPNOTSUPPORT;
    if (touch->addr->vm != NA_SM_VM_WORKS)
        ret = na_sm_rma_identify(touch);
    if (ret == NA_SUCCESS && mem->base.segments == NULL)
        ret = na_sm_rma_fetch(touch, mem);
    if (ret != NA_SUCCESS)
        return ret == NA_FAULT ? NA_OPNOTSUPPORT : ret;
    if (segment >= mem->base.segment_count ||
        touch->info.size != mem->described)
        return na_rma_refuse_map(&mem->base, NA_PROTOCOL_ERROR);
    *start_p = na_mem_core_of(&mem->base)->starts[segment];
    return NA_SUCCESS;
}

/* Map memory whose slot was read. */
static na_return_t na_sm_mem_map_slot(struct na_sm_touch *touch,
    struct na_sm_mem *mem, na_size_t segment, struct na_mem_block *block)
{
    const struct na_sm_slot_info *info = &touch->info;
    bool writes = (mem->base.flags & NA_MEM_WRITE_ONLY) != 0;
    unsigned arena = info->arena;
    na_offset_t start;
    na_return_t ret =
        na_rma_check_described(&mem->base, info->size, info->flags);

    if (ret != NA_SUCCESS)
        return ret;
    if (arena >= NA_SM_ARENAS ||
        touch->addr->maps[NA_SM_FD_ARENA + arena] == NULL ||
        (writes && arena == NA_SM_ARENA_READ_ONLY))
        return NA_OPNOTSUPPORT;
    if (info->arena_offset > NA_SM_ARENA_SIZE ||
        info->size > NA_SM_ARENA_SIZE - info->arena_offset)
        return na_rma_refuse_map(&mem->base, NA_PROTOCOL_ERROR);
    ret = na_sm_mem_start(touch, mem, segment, &start);
    if (ret == NA_SUCCESS && start >= mem->base.size)
        ret = NA_OPNOTSUPPORT; /* it has no bytes */
    if (ret != NA_SUCCESS)
        return ret;
    return na_sm_arena_map(
        (unsigned char *) touch->addr->maps[NA_SM_FD_ARENA + arena],
        info->arena_offset + start, (size_t) (mem->base.size - start),
        writes ? PROT_READ | PROT_WRITE : PROT_READ, block);
}

/* The hazard word protects the array of segments, not the mapping: that stays
 * when the memory is withdrawn. */
HG_PRIVATE na_return_t na_sm_mem_map(struct na_mem_handle *base,
    struct na_addr *owner, na_size_t segment, struct na_mem_block *block)
{
    struct na_sm_class *self = na_sm_of(base->na_class);
    struct na_sm_mem *mem = na_sm_mem_of(base);
    struct na_sm_touch touch;
    na_return_t ret = NA_AGAIN;
    unsigned word;

    if (self->rma_mode != NA_SM_RMA_AUTO || mem->slot >= NA_SM_SLOTS)
        return NA_OPNOTSUPPORT;
    na_sm_enter(self);
    touch.self = self;
    touch.leaves = false;
    touch.addr = owner != NULL ? na_sm_addr_of(owner)
                               : na_sm_mem_owner(self, mem->owner);
    word = touch.addr == NULL ? NA_SM_HAZARDS
                              : (unsigned) __builtin_ctz(~touch.addr->copies);
    if (word < NA_SM_HAZARDS && touch.addr->state == NA_SM_READY) {
        struct na_sm_control *control = na_sm_own_control(touch.addr);

        touch.addr->copies |= 1u << word;
        atomic_store(&control->hazard[word], base->key);
        ret = mem->owner == atomic_load(&touch.addr->incarnation) &&
                na_sm_slot_read(&touch.addr->peer_public->slots[mem->slot],
                    mem->mark, &touch.info)
            ? na_sm_mem_map_slot(&touch, mem, segment, block)
            : na_rma_refuse_map(base, NA_NOENTRY);
        atomic_store_explicit(&control->hazard[word], 0, memory_order_release);
        touch.addr->copies &= ~(1u << word);
    }
    na_sm_leave(self);
    return ret;
}

/* ---- Pieces ---- */

/* List segments of memory from an offset on, up to *size bytes, which becomes
 * the listed size; returns the number of segments. */
static size_t na_sm_rma_list(const struct na_mem_handle *mem,
    na_offset_t offset, struct iovec vector[NA_SM_RMA_VECTOR], na_size_t *size)
{
    struct na_cursor cursor;
    na_size_t left = *size;
    size_t n;

    na_cursor_init(&cursor, mem, offset);
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

/* Advance the offsets and the size of the operation to what is left. */
static void na_sm_rma_progress(struct na_op *op, na_size_t moved)
{
    op->local_offset += moved;
    op->remote_offset += moved;
    op->size -= moved;
}

/* Copy as much as one call of the kernel allows, up to `size`. */
static na_return_t na_sm_rma_move(
    struct na_sm_touch *touch, struct na_op *op, na_size_t size)
{
    struct iovec local[NA_SM_RMA_VECTOR + 1];
    struct iovec remote[NA_SM_RMA_VECTOR + 1];
    size_t local_count =
        na_sm_rma_list(op->local, op->local_offset, local, &size);
    size_t remote_count = 1;
    na_return_t ret;

    if (touch->info.count == 1) {
        remote[0].iov_base =
            (void *) (uintptr_t) (touch->info.place + op->remote_offset);
        remote[0].iov_len = (size_t) size;
    } else {
        na_size_t all = size;

        remote_count =
            na_sm_rma_list(op->remote, op->remote_offset, remote, &size);
        if (size < all)
            local_count =
                na_sm_rma_list(op->local, op->local_offset, local, &size);
    }
    ret = na_sm_rma_call(touch, op->type == NA_CB_PUT, local, local_count,
        remote, remote_count, &size);
    if (ret != NA_SUCCESS)
        return ret;
    na_counter_add(touch->self->rma_calls, 1);
    na_counter_add(touch->self->rma_vm, size);
    na_sm_rma_progress(op, size);
    return NA_SUCCESS;
}

/* Copy up to a piece to or from the peer's arena. NA_OPNOTSUPPORT: the memory
 * is not in an arena, or that is not mapped. */
static na_return_t na_sm_rma_map(struct na_sm_touch *touch, struct na_op *op)
{
    const struct na_sm_slot_info *info = &touch->info;
    na_size_t size = op->size < NA_SM_RMA_PIECE ? op->size : NA_SM_RMA_PIECE;
    uint64_t offset = info->arena_offset + op->remote_offset;
    bool put = op->type == NA_CB_PUT;
    unsigned arena = info->arena;
    struct na_cursor cursor;
    unsigned char *remote;
    na_size_t left = size;

    if (arena >= NA_SM_ARENAS ||
        touch->addr->maps[NA_SM_FD_ARENA + arena] == NULL ||
        touch->self->rma_mode == NA_SM_RMA_VM ||
        info->arena_offset > NA_SM_ARENA_SIZE || offset > NA_SM_ARENA_SIZE ||
        size > NA_SM_ARENA_SIZE - offset ||
        (put && arena == NA_SM_ARENA_READ_ONLY) ||
        !na_sm_arena_open(
            (unsigned char *) touch->addr->maps[NA_SM_FD_ARENA + arena],
            &touch->addr->peer_open[arena], (size_t) (offset + size),
            arena == NA_SM_ARENA_READ_ONLY ? PROT_READ
                                           : PROT_READ | PROT_WRITE))
        return NA_OPNOTSUPPORT;
    remote =
        (unsigned char *) touch->addr->maps[NA_SM_FD_ARENA + arena] + offset;
    na_cursor_init(&cursor, op->local, op->local_offset);
    na_sm_rma_copy_begins(touch);
    while (left > 0) {
        na_size_t run;
        char *local = na_cursor_run(&cursor, left, &run);

        if (put)
            memcpy(remote, local, (size_t) run);
        else
            memcpy(local, remote, (size_t) run);
        na_cursor_advance(&cursor, run);
        remote += run;
        left -= run;
    }
    na_sm_rma_copy_ends(touch);
    na_counter_add(touch->self->rma_mapped, size);
    na_sm_rma_progress(op, size);
    return NA_SUCCESS;
}

/* Make the kernel copy up to a piece. */
static na_return_t na_sm_rma_work(struct na_sm_touch *touch, struct na_op *op)
{
    struct na_sm_mem *mem = na_sm_mem_of(op->remote);
    na_size_t left = op->size < NA_SM_RMA_PIECE ? op->size : NA_SM_RMA_PIECE;
    na_size_t end = op->size - left;
    na_return_t ret = NA_SUCCESS;

    if (touch->addr->vm == NA_SM_VM_DENIED ||
        touch->info.width != sizeof(void *))
        return NA_OPNOTSUPPORT;
    if (HG_UNLIKELY(touch->addr->vm != NA_SM_VM_WORKS))
        ret = na_sm_rma_identify(touch);
    if (ret == NA_SUCCESS && touch->info.count != 1) {
        if (mem->base.segments == NULL)
            ret = na_sm_rma_fetch(touch, mem);
        if (ret == NA_SUCCESS && touch->info.size != mem->described)
            ret = NA_PROTOCOL_ERROR; /* the slot changed */
    }
    while (ret == NA_SUCCESS && op->size > end)
        ret = na_sm_rma_move(touch, op, op->size - end);
    return ret == NA_FAULT ? na_sm_rma_fault(touch, op, op->size - end) : ret;
}

/* Read the slot of an operation's memory, whose key is published.
 * NA_OPNOTSUPPORT: the peer no longer checks the hazard words; NA_NOENTRY: the
 * memory is not registered; NA_PERMISSION; NA_OVERFLOW. */
static na_return_t na_sm_rma_find(
    struct na_sm_touch *touch, const struct na_op *op)
{
    unsigned needed =
        op->type == NA_CB_PUT ? NA_MEM_WRITE_ONLY : NA_MEM_READ_ONLY;
    struct na_sm_class *self = touch->self;
    const struct na_sm_mem *mem = na_sm_mem_of(op->remote);
    struct na_sm_slot_info *info = &touch->info;
    na_return_t ret = NA_NOENTRY;

    if (HG_UNLIKELY(atomic_load(&na_sm_theirs(touch->addr)->over) != 0))
        return NA_OPNOTSUPPORT;
    if (na_sm_slot_read(
            &touch->addr->peer_public->slots[mem->slot], mem->mark, info)) {
        if ((info->flags & needed) == 0)
            ret = NA_PERMISSION;
        else if (op->remote_offset > info->size ||
            op->size > info->size - op->remote_offset)
            ret = NA_OVERFLOW;
        else
            return NA_SUCCESS;
    }
    self->base.core->count(&self->base, "rma_refused", 1);
    hg_log_debug("rma", "a transfer was refused: %s", NA_Error_to_string(ret));
    return ret;
}

/* Move up to a piece of an operation. The lock is released during a copy that
 * is not small. NA_AGAIN: not now; NA_OPNOTSUPPORT: the rest is
 * moved by the emulation, which also handles a peer that is ending. */
static na_return_t na_sm_rma_piece(struct na_sm_class *self, struct na_op *op)
{
    struct na_sm_addr *addr = na_sm_addr_of(op->addr);
    const struct na_sm_mem *mem = na_sm_mem_of(op->remote);
    unsigned word = (unsigned) __builtin_ctz(~addr->copies);
    struct na_sm_touch touch;
    na_return_t ret;

    if (addr->state != NA_SM_READY || word >= NA_SM_HAZARDS)
        return NA_AGAIN;
    if (mem->owner != atomic_load(&addr->incarnation))
        return NA_OPNOTSUPPORT;
    HG_ASSERT(hg_is_inside(na_sm_lock(self)) && mem->slot < NA_SM_SLOTS);
    touch.self = self;
    touch.addr = addr;
    touch.leaves = op->size > NA_SM_RMA_SMALL;
    addr->copies |= 1u << word;
    atomic_store(&na_sm_own_control(addr)->hazard[word], mem->base.key);
    ret = na_sm_rma_find(&touch, op);
    if (ret == NA_SUCCESS && op->size > 0) {
        ret = na_sm_rma_map(&touch, op);
        if (ret == NA_OPNOTSUPPORT)
            ret = na_sm_rma_work(&touch, op);
    }
    atomic_store_explicit(
        &na_sm_own_control(addr)->hazard[word], 0, memory_order_release);
    addr->copies &= ~(1u << word);
    return ret;
}

/* ---- Operations ---- */

/* Whether to try a copy by the kernel or by this process. */
static bool na_sm_rma_is_direct(
    const struct na_sm_class *self, const struct na_op *op)
{
    const struct na_sm_addr *addr = na_sm_addr_of(op->addr);
    const struct na_sm_mem *mem = na_sm_mem_of(op->remote);
    uint64_t owner = atomic_load(&addr->incarnation);

    /* The owner is unknown if the address was never connected. */
    return self->rma_mode != NA_SM_RMA_COPY && !addr->base.self &&
        mem->slot < NA_SM_SLOTS && (mem->owner == owner || owner == 0);
}

/* The emulation moves the rest. */
static na_return_t na_sm_rma_hand_over(
    struct na_sm_class *self, struct na_op *op)
{
    if (self->rma_mode == NA_SM_RMA_VM && !op->addr->self) {
        hg_log_error("sm",
            "HG_SM_RMA=vm, but the kernel cannot access the memory of %s",
            op->addr->name != NULL ? op->addr->name : "a peer");
        return NA_PERMISSION;
    }
    return op->type == NA_CB_PUT ? na_emul_put(op) : na_emul_get(op);
}

/* Continue an operation after a piece of it. An error: it could not be handed
 * over, and is not completed. */
static na_return_t na_sm_rma_go_on(
    struct na_sm_class *self, struct na_op *op, na_return_t ret)
{
    struct na_sm_addr *addr = na_sm_addr_of(op->addr);

    if (ret == NA_AGAIN && addr->state == NA_SM_READY) {
        na_sm_op_push(&self->transfers, op);
        return NA_SUCCESS;
    }
    if (ret == NA_AGAIN &&
        na_sm_flow_queue(self, addr, op) ==
            NA_AGAIN) /* waits for a connection */
        return NA_SUCCESS;
    if (ret == NA_AGAIN || ret == NA_OPNOTSUPPORT)
        return na_sm_rma_hand_over(self, op);
    na_op_complete(op, ret);
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_sm_rma_start(struct na_op *op)
{
    struct na_sm_class *self = na_sm_of(op->context->na_class);
    na_return_t ret = NA_AGAIN;

    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    if (!na_sm_rma_is_direct(self, op))
        ret = NA_OPNOTSUPPORT;
    else if (op->size <= NA_SM_RMA_AT_ONCE)
        ret = na_sm_rma_piece(self, op);
    ret = na_sm_rma_go_on(self, op, ret);
    if (!hg_list_is_empty(&self->transfers))
        na_sm_wake(self);
    return ret;
}

HG_PRIVATE na_return_t na_sm_rma_now(const struct na_op *op)
{
    struct na_sm_class *self = na_sm_of(op->context->na_class);
    struct na_op copy = *op;
    na_return_t ret = NA_AGAIN;

    if (op->size <= NA_SM_RMA_AT_ONCE && na_sm_rma_is_direct(self, op))
        ret = na_sm_rma_piece(self, &copy);
    /* The part that was moved is moved again. */
    return ret == NA_OPNOTSUPPORT ? NA_AGAIN : ret;
}

HG_PRIVATE bool na_sm_rma_cancel_running(
    struct na_sm_class *self, const struct na_op *op, uint64_t op_id)
{
    if (self->moving != op || na_op_id_of(op) != op_id)
        return false;
    self->moving_canceled = true;
    return true;
}

HG_PRIVATE unsigned na_sm_rma_poll(struct na_sm_class *self)
{
    struct na_op *op;
    na_return_t ret;

    if (hg_list_is_empty(&self->transfers))
        return 0;
    op = HG_CONTAINER_OF(self->transfers.next, struct na_op, link);
    na_sm_op_remove(op);
    self->moving = op;
    self->moving_canceled = false;
    ret = na_sm_rma_piece(self, op);
    self->moving = NULL;
    if (ret == NA_SUCCESS && op->size > 0)
        ret = NA_AGAIN;
    if (self->moving_canceled && (ret == NA_AGAIN || ret == NA_OPNOTSUPPORT))
        ret = NA_CANCELED;
    ret = na_sm_rma_go_on(self, op, ret);
    if (ret != NA_SUCCESS)
        na_op_complete(op, ret);
    return 1;
}

/* ---- Ends from outside ---- */

/* Cancel puts and gets of a list with that local memory. */
static void na_sm_rma_cancel(
    struct na_link *list, const struct na_mem_handle *mem)
{
    struct na_link *link, *next;

    for (link = list->next; link != list; link = next) {
        struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);

        next = link->next;
        if ((op->type == NA_CB_PUT || op->type == NA_CB_GET) &&
            op->local == mem) {
            na_sm_op_remove(op);
            na_op_complete(op, NA_CANCELED);
        }
    }
}

HG_PRIVATE void na_sm_rma_end_local(const struct na_mem_handle *mem)
{
    struct na_sm_class *self = na_sm_of(mem->na_class);
    struct na_link *link;

    na_sm_enter(self);
    while (self->moving != NULL && self->moving->local == mem) {
        self->moving_canceled = true;
        na_sm_yield(self);
    }
    na_sm_rma_cancel(&self->transfers, mem);
    for (link = self->addrs.next; link != &self->addrs; link = link->next)
        na_sm_rma_cancel(
            &HG_CONTAINER_OF(link, struct na_sm_addr, link)->sends, mem);
    na_sm_leave(self);
}

/* Waiting operations were canceled before. */
HG_PRIVATE void na_sm_rma_context_gone(struct na_context *context)
{
    struct na_sm_class *self = na_sm_of(context->na_class);

    na_sm_enter(self);
    while (self->moving != NULL && self->moving->context == context)
        na_sm_yield(self);
    na_sm_leave(self);
}

#endif
