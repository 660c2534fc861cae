/* SPDX-License-Identifier: BSD-3-Clause */
/* sm_rma: see sm_rma.h. */
#include "na/sm_rma.h"

#if HG_ENABLE_SM

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"
#include "na/emul.h"
#include "na/emul_wire.h"

#define NA_SM_RMA_HANDLE 64u /* bytes of a serialized handle */
#define NA_SM_RMA_PIECE ((na_size_t) 1 << 20)
#define NA_SM_RMA_AT_ONCE ((na_size_t) 256 << 10)
#define NA_SM_RMA_VECTOR 1024u                   /* segments in one call */
#define NA_SM_RMA_SEGMENTS ((na_size_t) 1 << 20) /* of a handle: else copied */
#define NA_SM_RMA_NAP_NS 50000 /* between two looks at hazard words */

/* Hold of a pair, for one piece: it is neither unmapped nor said goodbye to. */
struct na_sm_touch {
    struct na_sm_addr *addr;
    const struct na_sm_public *owner;
    _Atomic uint64_t *hazard;
    unsigned bit; /* of addr->touching */
    pid_t pid;
    int fd; /* -1: it is ourselves */
};

static inline struct na_sm_mem *na_sm_mem_of(const struct na_mem_handle *mem)
{
    return (struct na_sm_mem *) (uintptr_t) mem;
}

/* ---- Life ---- */

HG_PRIVATE na_return_t na_sm_rma_init(struct na_sm_class *self)
{
    const char *mode = getenv("HG_SM_RMA");

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
    hg_list_init(&self->transfers);
    self->slots_used = (uint64_t *) hg_mem_calloc(
        (NA_SM_SLOTS + 63) / 64, sizeof(*self->slots_used));
    if (self->slots_used == NULL) {
        hg_log_error("sm", "no memory for a class");
        return NA_NOMEM;
    }
    if (hg_lock_cond_init(&self->moved) == NA_SUCCESS)
        return NA_SUCCESS;
    hg_mem_free(self->slots_used);
    self->slots_used = NULL;
    return NA_NOMEM;
}

HG_PRIVATE void na_sm_rma_fini(struct na_sm_class *self)
{
    if (self->slots_used == NULL)
        return;
    assert(hg_list_is_empty(&self->transfers) && self->moving == NULL);
    pthread_cond_destroy(&self->moved);
    hg_mem_free(self->slots_used);
    self->slots_used = NULL;
}

/* ---- Registrations ---- */

/* A free slot, or NA_SM_SLOTS; the class lock is held. */
static uint32_t na_sm_rma_take_slot(struct na_sm_class *self)
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

HG_PRIVATE na_return_t na_sm_rma_register(struct na_mem_handle *base)
{
    struct na_sm_class *self = na_sm_of(base->na_class);
    struct na_sm_mem *mem = na_sm_mem_of(base);
    na_return_t ret = na_emul_mem_register(base);

    if (ret != NA_SUCCESS)
        return ret;
    mem->slot = NA_SM_SLOTS;
    if (base->segment_count > NA_SM_RMA_SEGMENTS)
        return NA_SUCCESS;
    mem->arena = na_sm_arena_find(
        self->arenas, base->segments, base->segment_count, &mem->arena_offset);
    hg_lock(&self->lock);
    mem->slot = na_sm_rma_take_slot(self);
    if (mem->slot < NA_SM_SLOTS)
        mem->generation =
            atomic_fetch_add(&self->public_page->slots[mem->slot], 1) + 1;
    hg_unlock(&self->lock);
    return NA_SUCCESS;
}

static bool na_sm_rma_names(const _Atomic uint64_t *hazards, uint32_t slot)
{
    unsigned i;

    for (i = 0; i < NA_SM_HAZARDS; i++) {
        if (atomic_load(&hazards[i]) == (uint64_t) slot + 1)
            return true;
    }
    return false;
}

/* Whether a living peer, or a thread of ours, copies to or from what is
 * registered in a slot. The class lock is held. */
static bool na_sm_rma_is_touched(struct na_sm_class *self, uint32_t slot)
{
    uint32_t left = self->pairs;
    uint32_t i;

    if (na_sm_rma_names(self->own_hazards, slot))
        return true;
    for (i = 0; i < NA_SM_PEERS && left > 0; i++) {
        const struct na_sm_addr *addr = atomic_load(&self->slots[i]);

        if (addr == NULL)
            continue;
        left--;
        if (addr->shared != NULL &&
            na_sm_rma_names(
                addr->shared->control[addr->dialled ? 1 : 0].hazard, slot) &&
            !na_sm_peer_has_ended(addr))
            return true;
    }
    return false;
}

HG_PRIVATE void na_sm_rma_retract(struct na_mem_handle *base)
{
    const struct timespec nap = {0, NA_SM_RMA_NAP_NS};
    struct na_sm_class *self = na_sm_of(base->na_class);
    struct na_sm_mem *mem = na_sm_mem_of(base);

    if (mem->slot >= NA_SM_SLOTS || atomic_load(&self->forked))
        return;
    hg_lock(&self->lock);
    NA_SM_STEP();
    atomic_store(&self->public_page->slots[mem->slot], mem->generation + 1);
    NA_SM_STEP();
    while (na_sm_rma_is_touched(self, mem->slot)) {
        hg_unlock(&self->lock);
        (void) nanosleep(&nap, NULL);
        hg_lock(&self->lock);
    }
    self->slots_used[mem->slot / 64] &= ~(UINT64_C(1) << (mem->slot % 64));
    hg_unlock(&self->lock);
    mem->slot = NA_SM_SLOTS;
}

HG_PRIVATE void na_sm_rma_deregister(struct na_mem_handle *mem)
{
    na_sm_rma_retract(mem);
    na_emul_mem_deregister(mem);
}

/* ---- Handles as bytes ---- */

HG_PRIVATE na_size_t na_sm_rma_serialize_size(const struct na_mem_handle *mem)
{
    (void) mem;
    return NA_SM_RMA_HANDLE;
}

HG_PRIVATE void na_sm_rma_serialize(const struct na_mem_handle *base, void *buf)
{
    const struct na_sm_mem *mem = na_sm_mem_of(base);
    unsigned char *bytes = (unsigned char *) buf;
    const void *place = base->segment_count == 1
        ? base->segments[0].address
        : (const void *) base->segments;

    na_emul_mem_serialize(base, bytes);
    bytes += NA_EMUL_WIRE_HANDLE_SIZE;
    memset(bytes, 0, NA_SM_RMA_HANDLE - NA_EMUL_WIRE_HANDLE_SIZE);
    if (mem->slot >= NA_SM_SLOTS)
        return;
    hg_wire_store64(bytes, base->na_class->incarnation);
    hg_wire_store64(bytes + 8, (uintptr_t) place);
    hg_wire_store32(bytes + 16, (uint32_t) base->segment_count);
    hg_wire_store16(bytes + 20, (uint16_t) mem->slot);
    bytes[22] = (unsigned char) mem->arena;
    bytes[23] = sizeof(void *);
    hg_wire_store64(bytes + 24, mem->generation);
    hg_wire_store64(bytes + 32, mem->arena_offset);
}

HG_PRIVATE na_return_t na_sm_rma_deserialize(
    struct na_mem_handle *base, const void *buf, na_size_t buf_size)
{
    struct na_sm_mem *mem = na_sm_mem_of(base);
    const unsigned char *bytes = (const unsigned char *) buf;
    na_return_t ret;

    mem->slot = NA_SM_SLOTS;
    /* Of a class that has been told to emulate. */
    if (buf_size == NA_EMUL_WIRE_HANDLE_SIZE)
        return na_emul_mem_deserialize(base, buf, buf_size);
    if (buf_size != NA_SM_RMA_HANDLE)
        return NA_PROTOCOL_ERROR;
    ret = na_emul_mem_deserialize(base, buf, NA_EMUL_WIRE_HANDLE_SIZE);
    bytes += NA_EMUL_WIRE_HANDLE_SIZE;
    if (ret != NA_SUCCESS || bytes[23] == 0)
        return ret;
    mem->owner = hg_wire_load64(bytes);
    mem->place = hg_wire_load64(bytes + 8);
    mem->count = hg_wire_load32(bytes + 16);
    mem->slot = hg_wire_load16(bytes + 20);
    mem->arena = bytes[22];
    mem->generation = hg_wire_load64(bytes + 24);
    mem->arena_offset = hg_wire_load64(bytes + 32);
    if (mem->slot >= NA_SM_SLOTS || (mem->generation & 1) == 0 ||
        mem->count == 0 || mem->count > NA_SM_RMA_SEGMENTS ||
        mem->arena > NA_SM_ARENAS || mem->arena_offset > NA_SM_ARENA_MAX)
        return NA_PROTOCOL_ERROR;
    mem->direct = bytes[23] == sizeof(void *);
    mem->one.address = (void *) (uintptr_t) mem->place;
    mem->one.size = base->size;
    atomic_init(&mem->known, mem->count == 1);
    return NA_SUCCESS;
}

/* ---- Hold of a pair ---- */

/* NA_AGAIN: as many pieces as can be are under way; NA_OPNOTSUPPORT: it is not
 * connected. */
static na_return_t na_sm_rma_pin(struct na_sm_class *self,
    struct na_sm_addr *addr, struct na_sm_touch *touch)
{
    bool own = addr->base.self != NA_FALSE;
    unsigned space;
    na_return_t ret = NA_OPNOTSUPPORT;

    hg_lock(&addr->lock);
    space = ~addr->touching & ((1u << NA_SM_HAZARDS) - 1);
    if (own || na_sm_peer_state(addr) == NA_SM_READY)
        ret = space != 0 ? NA_SUCCESS : NA_AGAIN;
    if (ret == NA_SUCCESS) {
        unsigned i = (unsigned) __builtin_ctz(space);

        touch->addr = addr;
        touch->bit = 1u << i;
        addr->touching |= touch->bit;
        touch->owner = own ? self->public_page : addr->peer_public;
        touch->hazard = own
            ? &self->own_hazards[i]
            : &addr->shared->control[addr->dialled ? 0 : 1].hazard[i];
        touch->pid = own ? getpid() : addr->pid;
        touch->fd = own ? -1 : addr->fd;
    }
    hg_unlock(&addr->lock);
    return ret;
}

static void na_sm_rma_unpin(
    struct na_sm_class *self, const struct na_sm_touch *touch)
{
    struct na_sm_addr *addr = touch->addr;
    bool awaited;

    atomic_store(touch->hazard, 0);
    NA_SM_STEP();
    hg_lock(&addr->lock);
    addr->touching &= ~touch->bit;
    awaited = addr->touching == 0 && atomic_load(&addr->waiting);
    if (awaited) /* a goodbye may leave now */
        na_sm_hint_set(self->hints, addr->slot);
    hg_unlock(&addr->lock);
    if (awaited)
        self->base.core->wake(&self->base);
}

/* Whether the pair's socket lives, and so the process of that number is the
 * peer. */
static bool na_sm_rma_lives(const struct na_sm_touch *touch)
{
    struct pollfd socket = {touch->fd, POLLRDHUP, 0};

    return touch->fd < 0 || poll(&socket, 1, 0) == 0 ||
        (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0;
}

/* ---- The kernel's copy ---- */

/* The kernel will not, or the peer is not who it is taken for: from now on, by
 * frames. */
static na_return_t na_sm_rma_deny(const struct na_sm_touch *touch, int error)
{
    struct na_sm_addr *addr = touch->addr;

    if (atomic_exchange(&addr->vm, NA_SM_VM_DENIED) != NA_SM_VM_DENIED)
        hg_log_info("sm",
            "the memory of process %ld cannot be reached (%s): its data is "
            "copied through the rings",
            (long) touch->pid,
            error != 0 ? strerror(error) : "it is another process");
    return NA_OPNOTSUPPORT;
}

/* One call: the number of bytes that moved. NA_OPNOTSUPPORT: another way is to
 * be taken, for the peer or for this memory only. */
static na_return_t na_sm_rma_call(const struct na_sm_touch *touch, bool put,
    const struct iovec *near, size_t near_count, const struct iovec *far,
    size_t far_count, na_size_t *moved_p)
{
    ssize_t moved = put
        ? process_vm_writev(touch->pid, near, near_count, far, far_count, 0)
        : process_vm_readv(touch->pid, near, near_count, far, far_count, 0);

    if (moved > 0) {
        *moved_p = (na_size_t) moved;
        return NA_SUCCESS;
    }
    if (moved < 0 && (errno == EPERM || errno == ENOSYS || errno == ESRCH))
        return na_sm_rma_deny(touch, errno);
    return NA_OPNOTSUPPORT;
}

/* Read `size` bytes at a place of the peer's. */
static na_return_t na_sm_rma_peek(
    const struct na_sm_touch *touch, uint64_t place, void *buf, size_t size)
{
    struct iovec near = {buf, size};
    struct iovec far = {(void *) (uintptr_t) place, size};

    while (near.iov_len > 0) {
        na_size_t moved = 0;
        na_return_t ret =
            na_sm_rma_call(touch, false, &near, 1, &far, 1, &moved);

        if (ret != NA_SUCCESS)
            return ret;
        near.iov_base = (char *) near.iov_base + moved;
        far.iov_base = (char *) far.iov_base + moved;
        near.iov_len -= (size_t) moved;
        far.iov_len = near.iov_len;
    }
    return NA_SUCCESS;
}

/* The first use of a connection: is it who it is taken for? */
static na_return_t na_sm_rma_identify(const struct na_sm_touch *touch)
{
    struct na_sm_addr *addr = touch->addr;
    uint64_t place = atomic_load(&touch->owner->witness);
    uint64_t word = 0;
    na_return_t ret = na_sm_rma_peek(touch, place, &word, sizeof(word));

    if (ret != NA_SUCCESS)
        return atomic_load(&addr->vm) == NA_SM_VM_DENIED
            ? ret
            : na_sm_rma_deny(touch, EFAULT);
    if (word != atomic_load(&addr->incarnation))
        return na_sm_rma_deny(touch, 0);
    atomic_store(&addr->vm, NA_SM_VM_WORKS);
    return NA_SUCCESS;
}

/* Check what was fetched, and lay it down in the handle, unless another thread
 * has. Takes both arrays. */
static na_return_t na_sm_rma_learn(struct na_sm_class *self,
    struct na_sm_mem *mem, struct na_segment *segments, na_offset_t *starts)
{
    na_size_t total = 0;
    uint32_t i;
    bool late;

    for (i = 0; i < mem->count; i++) {
        if (segments[i].size > mem->base.size - total)
            break;
        starts[i] = total;
        total += segments[i].size;
    }
    if (i < mem->count || total != mem->base.size) {
        hg_mem_free(segments);
        hg_mem_free(starts);
        self->base.core->count(&self->base, "rma_malformed", 1);
        return NA_PROTOCOL_ERROR;
    }
    hg_lock(&self->lock);
    late = atomic_load(&mem->known);
    if (!late) {
        mem->base.segments = segments;
        mem->base.segment_count = mem->count;
        na_mem_core_of(&mem->base)->starts = starts;
        atomic_store(&mem->known, true);
    }
    hg_unlock(&self->lock);
    if (late) {
        hg_mem_free(segments);
        hg_mem_free(starts);
    }
    return NA_SUCCESS;
}

/* Fetch the description of a peer's memory; under a hazard word. */
static na_return_t na_sm_rma_fetch(struct na_sm_class *self,
    const struct na_sm_touch *touch, struct na_sm_mem *mem)
{
    size_t size = mem->count * sizeof(struct na_segment);
    struct na_segment *segments = (struct na_segment *) hg_mem_alloc(size);
    na_offset_t *starts =
        (na_offset_t *) hg_mem_alloc(mem->count * sizeof(*starts));
    na_return_t ret = NA_NOMEM;

    if (segments == NULL || starts == NULL)
        hg_log_error("sm", "no memory for %" PRIu32 " segments", mem->count);
    else
        ret = na_sm_rma_peek(touch, mem->place, segments, size);
    if (ret == NA_SUCCESS && !na_sm_rma_lives(touch))
        ret = NA_OPNOTSUPPORT;
    if (ret == NA_SUCCESS)
        return na_sm_rma_learn(self, mem, segments, starts);
    hg_mem_free(segments);
    hg_mem_free(starts);
    return ret;
}

/* ---- Pieces ---- */

/* Segments from a place on, up to `size` bytes in all; their number. */
static size_t na_sm_rma_list(struct na_cursor cursor, na_size_t size,
    struct iovec vector[NA_SM_RMA_VECTOR])
{
    size_t n;

    for (n = 0; size > 0 && n < NA_SM_RMA_VECTOR; n++) {
        na_size_t run;

        vector[n].iov_base = na_cursor_run(&cursor, size, &run);
        vector[n].iov_len = (size_t) run;
        na_cursor_advance(&cursor, run);
        size -= run;
    }
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

/* Where in the peer's memory an operation begins. */
static void na_sm_rma_aim(struct na_op *op)
{
    struct na_sm_mem *mem = na_sm_mem_of(op->remote);
    struct na_cursor *far = &na_sm_op_of(op)->far;

    if (mem->count > 1) {
        na_cursor_init(far, op->remote, op->remote_offset);
        return;
    }
    far->segments = &mem->one;
    far->count = 1;
    far->index = 0;
    far->offset = op->remote_offset;
}

/* The offsets and the size tell what is left. */
static void na_sm_rma_progress(struct na_op *op, na_size_t moved)
{
    op->local_offset += moved;
    op->remote_offset += moved;
    op->size -= moved;
}

/* One call of the kernel for as much as fits; the offsets and the size tell
 * afterwards what is left. */
static na_return_t na_sm_rma_move(struct na_sm_class *self,
    const struct na_sm_touch *touch, struct na_op *op, na_size_t limit)
{
    struct na_sm_op *rma = na_sm_op_of(op);
    struct iovec near[NA_SM_RMA_VECTOR];
    struct iovec far[NA_SM_RMA_VECTOR];
    size_t near_count = na_sm_rma_list(rma->near, limit, near);
    size_t far_count = na_sm_rma_list(rma->far, limit, far);
    na_size_t moved = 0;
    na_return_t ret;

    ret = na_sm_rma_call(
        touch, op->type == NA_CB_PUT, near, near_count, far, far_count, &moved);
    if (ret != NA_SUCCESS)
        return ret;
    assert(moved <= limit);
    self->base.core->count(&self->base, "sm_rma_calls", 1);
    self->base.core->count(&self->base, "sm_rma_vm", moved);
    na_sm_rma_pass(&rma->near, moved);
    na_sm_rma_pass(&rma->far, moved);
    na_sm_rma_progress(op, moved);
    return NA_SUCCESS;
}

/* Copy up to a piece to or from the peer's arena; a hazard word names the
 * memory. NA_OPNOTSUPPORT: it is not in one, or that is not mapped; NA_AGAIN:
 * it is to be waited for. */
static na_return_t na_sm_rma_map(
    struct na_sm_class *self, const struct na_sm_touch *touch, struct na_op *op)
{
    struct na_sm_op *rma = na_sm_op_of(op);
    const struct na_sm_mem *mem = na_sm_mem_of(op->remote);
    na_size_t size = op->size < NA_SM_RMA_PIECE ? op->size : NA_SM_RMA_PIECE;
    bool put = op->type == NA_CB_PUT;
    unsigned char *far = NULL;
    enum na_sm_reach reach;
    na_size_t left = size;

    if (mem->arena == 0 || touch->fd < 0 || self->rma_mode == NA_SM_RMA_VM)
        return NA_OPNOTSUPPORT;
    hg_lock(&touch->addr->lock);
    reach = na_sm_reach(touch->addr, mem->arena,
        mem->arena_offset + op->remote_offset, size, put, &far);
    hg_unlock(&touch->addr->lock);
    if (reach != NA_SM_REACH_HERE)
        return reach == NA_SM_REACH_ASKED && self->rma_mode == NA_SM_RMA_MAP
            ? NA_AGAIN
            : NA_OPNOTSUPPORT;
    while (left > 0) {
        na_size_t run;
        char *near = na_cursor_run(&rma->near, left, &run);

        if (put)
            memcpy(far, near, (size_t) run);
        else
            memcpy(near, far, (size_t) run);
        na_cursor_advance(&rma->near, run);
        far += run;
        left -= run;
    }
    self->base.core->count(&self->base, "sm_rma_mapped", size);
    rma->aimed = false; /* the far cursor stayed behind */
    na_sm_rma_progress(op, size);
    return NA_SUCCESS;
}

/* Move up to a piece; a hazard word names the memory, which is registered. */
static na_return_t na_sm_rma_work(
    struct na_sm_class *self, const struct na_sm_touch *touch, struct na_op *op)
{
    struct na_sm_op *rma = na_sm_op_of(op);
    struct na_sm_mem *mem = na_sm_mem_of(op->remote);
    na_size_t left = op->size < NA_SM_RMA_PIECE ? op->size : NA_SM_RMA_PIECE;
    na_size_t end = op->size - left;
    na_return_t ret = NA_SUCCESS;

    if (HG_UNLIKELY(atomic_load(&touch->addr->vm) != NA_SM_VM_WORKS))
        ret = atomic_load(&touch->addr->vm) == NA_SM_VM_DENIED
            ? NA_OPNOTSUPPORT
            : na_sm_rma_identify(touch);
    if (ret == NA_SUCCESS && HG_UNLIKELY(!atomic_load(&mem->known)))
        ret = na_sm_rma_fetch(self, touch, mem);
    if (ret == NA_SUCCESS && !rma->aimed) {
        na_sm_rma_aim(op);
        rma->aimed = true;
    }
    while (ret == NA_SUCCESS && op->size > end) {
        NA_SM_STEP();
        ret = na_sm_rma_move(self, touch, op, op->size - end);
    }
    return ret;
}

/* Move up to a piece of an operation. NA_AGAIN: not now; NA_OPNOTSUPPORT: what
 * is left is for the emulation, which also knows what to do with a peer that
 * is going or gone; NA_NOENTRY: the memory was withdrawn. */
static na_return_t na_sm_rma_piece(struct na_sm_class *self, struct na_op *op)
{
    const struct na_sm_mem *mem = na_sm_mem_of(op->remote);
    struct na_sm_touch touch;
    na_return_t ret = na_sm_rma_pin(self, na_sm_addr_of(op->addr), &touch);

    if (ret != NA_SUCCESS)
        return ret;
    NA_SM_STEP();
    atomic_store(touch.hazard, (uint64_t) mem->slot + 1);
    NA_SM_STEP();
    if (atomic_load(&touch.owner->slots[mem->slot]) != mem->generation)
        ret = NA_NOENTRY;
    else
        ret = na_sm_rma_map(self, &touch, op);
    if (ret == NA_OPNOTSUPPORT && na_sm_rma_lives(&touch)) {
        ret = na_sm_rma_work(self, &touch, op);
        /* What moved may have been another's, of the same number. */
        if (ret == NA_SUCCESS && !na_sm_rma_lives(&touch))
            ret = NA_DISCONNECT;
    }
    NA_SM_STEP();
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

    return self->rma_mode != NA_SM_RMA_COPY && mem->direct &&
        mem->owner ==
        atomic_load_explicit(&addr->incarnation, memory_order_relaxed) &&
        (mem->arena != 0 ||
            atomic_load_explicit(&addr->vm, memory_order_relaxed) !=
                NA_SM_VM_DENIED);
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

static void na_sm_rma_queue(struct na_sm_class *self, struct na_op *op)
{
    bool wake;

    hg_lock(&self->lock);
    na_sm_op_push(&self->transfers, op);
    wake = self->sleepers > 0;
    hg_unlock(&self->lock);
    if (wake)
        self->base.core->wake(&self->base);
}

HG_PRIVATE na_return_t na_sm_rma_start(struct na_op *op)
{
    struct na_sm_class *self = na_sm_of(op->context->na_class);
    na_return_t ret = NA_AGAIN;

    if (HG_UNLIKELY(atomic_load_explicit(&self->forked, memory_order_relaxed)))
        return na_sm_peer_forked(self);
    if (!na_sm_rma_is_direct(self, op))
        return na_sm_rma_hand_over(self, op);
    na_cursor_init(&na_sm_op_of(op)->near, op->local, op->local_offset);
    na_sm_op_of(op)->aimed = false;
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

    hg_lock(&self->lock);
    assert(self->moving == NULL);
    op = na_sm_op_pop(&self->transfers);
    if (op != NULL) {
        self->moving = op;
        self->moving_id = *id_p = self->base.core->op_id(op);
        self->moving_canceled = false;
    }
    hg_unlock(&self->lock);
    return op;
}

/* It runs no more; unless it is `gone` it waits for its next turn. Whether it
 * was to be canceled meanwhile, and so does not. */
static bool na_sm_rma_pause(
    struct na_sm_class *self, struct na_op *op, bool gone)
{
    bool canceled;

    hg_lock(&self->lock);
    canceled = self->moving_canceled;
    if (!gone && !canceled)
        na_sm_op_push(&self->transfers, op);
    self->moving = NULL;
    pthread_cond_broadcast(&self->moved);
    hg_unlock(&self->lock);
    return canceled;
}

HG_PRIVATE unsigned na_sm_rma_poll(struct na_sm_class *self)
{
    uint64_t id = 0;
    struct na_op *op = na_sm_rma_next(self, &id);
    bool handed = false;
    na_return_t ret;

    if (op == NULL)
        return 0;
    ret = na_sm_rma_piece(self, op);
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

/* End what is queued of them with NA_CANCELED, and wait for the piece under
 * way, after which it ends so, too. */
static void na_sm_rma_end(struct na_sm_class *self,
    const struct na_context *context, const struct na_mem_handle *mem)
{
    struct na_link canceled, *link, *next;

    hg_list_init(&canceled);
    hg_lock(&self->lock);
    if (self->moving != NULL && na_sm_rma_is_of(self->moving, context, mem)) {
        const struct na_op *op = self->moving;

        self->moving_canceled = true;
        while (self->moving == op)
            (void) hg_lock_wait_until(
                &self->moved, &self->lock, HG_CLOCK_NEVER);
    }
    for (link = self->transfers.next; link != &self->transfers; link = next) {
        struct na_op *op = HG_CONTAINER_OF(link, struct na_op, link);

        next = link->next;
        if (na_sm_rma_is_of(op, context, mem)) {
            hg_list_remove(link);
            na_sm_op_of(op)->held = false;
            hg_list_push(&canceled, link);
        }
    }
    hg_unlock(&self->lock);
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
