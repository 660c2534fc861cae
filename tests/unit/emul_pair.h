/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * emul_pair: two classes connected by a pipe of frames, for the tests of
 * emulated RMA. The test decides when a frame arrives, when its memory is
 * released, and when the transport is full; the pipe measures the data in
 * flight.
 *
 * The layers above the emulation are simulated here, so that completions are
 * seen at once and counted.
 */
#ifndef HG_TESTS_EMUL_PAIR_H
#define HG_TESTS_EMUL_PAIR_H

#include "support/library.h"

#include "harness.h"
#include "unit/locked.h"

/* ---- The pipe ---- */

enum emul_release {
    EMUL_RELEASE_COPY,    /* before frame_send returns */
    EMUL_RELEASE_ARRIVAL, /* once the frame has arrived */
    EMUL_RELEASE_LATE,    /* when the test releases it */
    EMUL_RELEASE_MIXED
};

struct emul_pipe_frame {
    struct na_link link;
    struct na_addr *source; /* as the receiver sees it */
    unsigned char header[NA_EMUL_WIRE_SIZE];
    size_t header_size;
    const void *data;
    void *copy;
    size_t size;
    void (*release)(void *arg);
    void *arg;
    void *memory; /* placed: the final memory of the data, or NULL */
    void *place;
};

/* One side: a simulated class, with one address for the other side. */
struct emul_side {
    struct na_class_core core; /* must be first: found from the class */
    struct emul_pair *pair;
    struct emul_side *other;
    struct na_context_core context;
    struct na_context_core context2;
    struct na_addr *peer;
    struct na_link in;     /* frames to this side */
    uint64_t in_bytes;     /* their payload */
    uint64_t in_bytes_max; /* ... at most */
    _Atomic uint64_t wakes;
    bool drop; /* drop frames to this side */
};

struct emul_pair {
    struct emul_side a;
    struct emul_side b;
    pthread_mutex_t lock; /* guards the lists */
    enum emul_release release;
    struct na_link late; /* arrived, not released */
    uint64_t random;
    unsigned again;        /* this many sends return NA_AGAIN */
    unsigned again_chance; /* or one in this many */
    na_return_t refuse;    /* every send returns this */
    bool reclaims;         /* a waiting thread gets the frames that arrived */
    bool closed;           /* no frame may be sent any more */
    bool places;           /* data is received into its final memory */
    bool abandoned;        /* a side ended the connection */
    unsigned placed;       /* frames received into their final memory */
};

/* An operation; must complete exactly once. */
struct emul_call {
    struct na_op_core op; /* must be first: found from the op */
    _Atomic unsigned ends;
    na_return_t ret;
};

static struct emul_side *emul_side_of(const struct na_class *na_class)
{
    return (struct emul_side *) (void *) na_class_core_of(na_class);
}

/* The pipe no longer uses the final memory of the data. */
static void emul_frame_unplace(struct emul_pipe_frame *frame)
{
    if (frame->memory != NULL)
        na_emul_frame_unplace(frame->source->na_class, frame->place);
    frame->memory = NULL;
}

static void emul_frame_give_back(struct emul_pipe_frame *frame)
{
    emul_frame_unplace(frame);
    if (frame->release != NULL)
        frame->release(frame->arg);
    free(frame->copy);
    free(frame);
}

/* The code that a send must return; else a random number in *dice_p. */
static na_return_t emul_pipe_fate(struct emul_pair *pair, uint64_t *dice_p)
{
    na_return_t ret = NA_SUCCESS;

    hg_lock(&pair->lock);
    HG_CHECK(!pair->closed);
    *dice_p = hg_test_random(&pair->random);
    if (pair->refuse != NA_SUCCESS) {
        ret = pair->refuse;
    } else if (pair->again > 0) {
        pair->again--;
        ret = NA_AGAIN;
    } else if (pair->again_chance > 0 && *dice_p % pair->again_chance == 0) {
        ret = NA_AGAIN;
    }
    hg_unlock(&pair->lock);
    return ret;
}

static void emul_pipe_push(struct emul_side *to, struct emul_pipe_frame *frame)
{
    hg_lock(&to->pair->lock);
    hg_list_push(&to->in, &frame->link);
    to->in_bytes += frame->size;
    if (to->in_bytes > to->in_bytes_max)
        to->in_bytes_max = to->in_bytes;
    hg_unlock(&to->pair->lock);
}

/* As called by poll. */
static void *emul_frame_place(struct emul_side *side, struct na_addr *source,
    const void *header, size_t header_size, size_t size, void **place_p)
{
    void *memory;

    hg_enter(side->core.lock);
    memory = na_emul_frame_place(
        &side->core.pub, source, header, header_size, size, place_p);
    hg_leave(side->core.lock);
    return memory;
}

static na_return_t emul_frame_send(struct na_addr *addr, const void *header,
    size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    struct emul_side *from = emul_side_of(addr->na_class);
    struct emul_side *to = from->other;
    enum emul_release mode = from->pair->release;
    struct emul_pipe_frame *frame;
    uint64_t dice;
    na_return_t ret = emul_pipe_fate(from->pair, &dice);

    HG_CHECK(release != NULL && header_size <= sizeof(frame->header));
    if (ret != NA_SUCCESS)
        return ret;
    if (mode == EMUL_RELEASE_MIXED)
        mode = (enum emul_release)((dice >> 32) % 3);
    if (addr != from->peer || to->drop) { /* an unknown or dead peer */
        release(arg);
        return NA_SUCCESS;
    }
    frame = (struct emul_pipe_frame *) calloc(1, sizeof(*frame));
    HG_CHECK(frame != NULL);
    hg_list_init(&frame->link);
    frame->source = to->peer;
    memcpy(frame->header, header, header_size);
    frame->header_size = header_size;
    frame->data = data;
    frame->size = size;
    frame->release = release;
    frame->arg = arg;
    if (mode == EMUL_RELEASE_COPY && size > 0) {
        frame->copy = malloc(size);
        HG_CHECK(frame->copy != NULL);
        memcpy(frame->copy, data, size);
        frame->data = frame->copy;
    }
    if (mode == EMUL_RELEASE_COPY) {
        release(arg);
        frame->release = NULL;
    }
    if (from->pair->places)
        frame->memory = emul_frame_place(
            to, to->peer, header, header_size, size, &frame->place);
    emul_pipe_push(to, frame);
    return NA_SUCCESS;
}

/* Remove the next frame to `side` from the pipe; NULL: none. */
static struct emul_pipe_frame *emul_take(struct emul_side *side)
{
    struct emul_pipe_frame *frame = NULL;
    struct na_link *link;

    hg_lock(&side->pair->lock);
    link = hg_list_pop(&side->in);
    if (link != NULL) {
        frame = HG_CONTAINER_OF(link, struct emul_pipe_frame, link);
        side->in_bytes -= frame->size;
    }
    hg_unlock(&side->pair->lock);
    return frame;
}

/* Deliver the next frame to `side`; returns false without one. */
static bool emul_deliver(struct emul_side *side)
{
    struct emul_pair *pair = side->pair;
    struct emul_pipe_frame *frame = emul_take(side);
    bool late;

    if (frame == NULL)
        return false;
    if (frame->memory != NULL && hg_test_random(&pair->random) % 4 == 0)
        emul_frame_unplace(frame); /* it does not go there after all */
    if (frame->memory != NULL) {
        memcpy(frame->memory, frame->data, frame->size);
        pair->placed++;
    }
    locked_emul_arrived(&side->core.pub, frame->source, frame->header,
        frame->header_size, frame->memory != NULL ? frame->memory : frame->data,
        frame->size);
    emul_frame_unplace(frame);
    hg_lock(&pair->lock);
    late = frame->release != NULL &&
        (pair->release == EMUL_RELEASE_LATE ||
            (pair->release == EMUL_RELEASE_MIXED &&
                hg_test_random(&pair->random) % 2 == 0));
    if (late)
        hg_list_push(&pair->late, &frame->link);
    hg_unlock(&pair->lock);
    if (!late)
        emul_frame_give_back(frame);
    return true;
}

/* Release the memory of a frame that arrived; returns false without one. */
static bool emul_release_one(struct emul_pair *pair)
{
    struct na_link *link;

    hg_lock(&pair->lock);
    link = hg_list_pop(&pair->late);
    hg_unlock(&pair->lock);
    if (link == NULL)
        return false;
    emul_frame_give_back(HG_CONTAINER_OF(link, struct emul_pipe_frame, link));
    return true;
}

/* The effect of a broken connection on frames in flight to `side`. */
static void emul_drop_frames(struct emul_side *side)
{
    struct emul_pipe_frame *frame;

    while ((frame = emul_take(side)) != NULL)
        emul_frame_give_back(frame);
}

static unsigned emul_poll(struct emul_side *side)
{
    unsigned n;

    hg_enter(side->core.lock);
    n = na_emul_poll(side->core.emul);
    hg_leave(side->core.lock);
    return n;
}

/* Until no frame moves any more. */
static void emul_settle(struct emul_pair *pair)
{
    bool more;

    do {
        more = emul_deliver(&pair->a);
        more = emul_deliver(&pair->b) || more;
        more = emul_poll(&pair->a) > 0 || more;
        more = emul_poll(&pair->b) > 0 || more;
        more = emul_release_one(pair) || more;
        more = more || !hg_list_is_empty(&pair->a.core.emul->stalled) ||
            !hg_list_is_empty(&pair->b.core.emul->stalled);
    } while (more);
}

/* One random event. */
static void emul_step(struct emul_pair *pair)
{
    switch (hg_test_random(&pair->random) % 5) {
    case 0: (void) emul_deliver(&pair->a); break;
    case 1: (void) emul_deliver(&pair->b); break;
    case 2: (void) emul_poll(&pair->a); break;
    case 3: (void) emul_poll(&pair->b); break;
    default: (void) emul_release_one(pair); break;
    }
}

/* Event n of a fixed order: arrivals, polls and releases alternate. */
static inline void emul_turn(struct emul_pair *pair, unsigned n)
{
    switch (n % 5) {
    case 0: (void) emul_deliver(&pair->b); break;
    case 1: (void) emul_poll(&pair->b); break;
    case 2: (void) emul_deliver(&pair->a); break;
    case 3: (void) emul_poll(&pair->a); break;
    default: (void) emul_release_one(pair); break;
    }
}

/* ---- The core's functions, simulated ---- */

static void emul_complete(struct na_op *op, na_return_t ret)
{
    struct emul_call *call = (struct emul_call *) (void *) na_op_core_of(op);

    HG_CHECK_EQ_INT(atomic_load(&call->ends), 0);
    call->ret = ret;
    atomic_store(&call->ends, 1);
}

static void emul_wake(struct na_class *na_class)
{
    atomic_fetch_add(&emul_side_of(na_class)->wakes, 1);
}

static void emul_count(struct na_class *na_class, const char *name, uint64_t n)
{
    struct na_counter *counter = emul_side_of(na_class)->core.counters;
    const char *none = NULL;

    while (!atomic_compare_exchange_strong(&counter->name, &none, name) &&
        strcmp(none, name) != 0) {
        none = NULL;
        counter++;
    }
    atomic_fetch_add(&counter->value, n);
}

static uint64_t emul_counter(const struct emul_side *side, const char *name)
{
    const struct na_counter *counter;

    for (counter = side->core.counters; atomic_load(&counter->name) != NULL;
         counter++)
        if (strcmp(atomic_load(&counter->name), name) == 0)
            return atomic_load(&counter->value);
    return 0;
}

static void emul_addr_abandon(struct na_addr *addr)
{
    emul_side_of(addr->na_class)->pair->abandoned = true;
}

static void emul_addr_release(struct na_addr *addr)
{
    (void) addr;
}

static void emul_reclaim(struct na_class *na_class)
{
    struct emul_pair *pair = emul_side_of(na_class)->pair;

    while (pair->reclaims && emul_release_one(pair))
        continue;
}

static const struct na_core emul_core = {
    .size = sizeof(struct na_core),
    .complete = emul_complete,
    .addr_create = na_addr_create,
    .addr_ref = na_addr_ref,
    .addr_unref = na_addr_unref,
    .addr_is_dead = na_addr_is_dead,
    .wake = emul_wake,
    .count = emul_count,
};

static int emul_side_open(struct emul_side *side, struct emul_pair *pair,
    struct emul_side *other, size_t frame_size, size_t window)
{
    struct na_class_core *core = &side->core;
    struct na_plugin *ops = &core->ops;

    side->pair = pair;
    side->other = other;
    side->context.pub.na_class = &core->pub;
    side->context2.pub.na_class = &core->pub;
    hg_list_init(&side->in);
    ops->name = "pipe";
    ops->frame_send = emul_frame_send;
    ops->addr_release = emul_addr_release;
    ops->addr_abandon = emul_addr_abandon;
    ops->reclaim = emul_reclaim;
    ops->mem_register = na_emul_mem_register;
    ops->mem_deregister = na_emul_mem_deregister;
    ops->mem_serialize_size = na_emul_mem_serialize_size;
    ops->mem_serialize = na_emul_mem_serialize;
    ops->mem_deserialize = na_emul_mem_deserialize;
    ops->mem_release = na_plugins_mem_ignore;
    if (frame_size == 0)
        frame_size = 1 << 20;
    if (window == 0)
        window = 4 * frame_size;
    core->info.rma_frame_size = frame_size;
    core->info.rma_window = window;
    core->info.death_ms = 5000;
    core->pub.core = &emul_core;
    core->pub.info = &core->info;
    hg_list_init(&core->addrs);
    hg_list_init(&core->mems);
    HG_CHECK_OK(hg_monitor_init(&core->own_lock));
    HG_CHECK_OK(hg_lock_init(&core->list_lock));
    core->head = core;
    core->lock = &core->own_lock;
    HG_CHECK_OK(na_live_add(NA_LIVE_NA_CLASS, &core->pub));
    side->peer = na_addr_create(&core->pub, "pipe://other", NA_FALSE);
    if (side->peer == NULL)
        return NA_NOMEM;
    core->emul = na_emul_create(&core->pub);
    return core->emul != NULL ? NA_SUCCESS : NA_NOMEM;
}

static void emul_side_close(struct emul_side *side)
{
    struct na_class_core *core = &side->core;

    if (core->emul != NULL) {
        locked_emul_context_gone(&side->context.pub);
        locked_emul_context_gone(&side->context2.pub);
        na_emul_destroy(core->emul);
    }
    if (side->peer != NULL) {
        HG_CHECK_EQ_U64(atomic_load(&na_addr_core_of(side->peer)->refs), 1);
        na_addr_unref(side->peer);
    }
    HG_CHECK(hg_list_is_empty(&core->addrs));
    HG_CHECK(hg_list_is_empty(&core->mems));
    HG_CHECK(na_live_remove(NA_LIVE_NA_CLASS, &core->pub));
    pthread_mutex_destroy(&core->list_lock);
    hg_monitor_fini(&core->own_lock);
}

/* Frames leave no address behind. */
static void emul_close(struct emul_pair *pair)
{
    emul_drop_frames(&pair->a);
    emul_drop_frames(&pair->b);
    while (emul_release_one(pair))
        continue;
    pair->closed = true;
    emul_side_close(&pair->a);
    emul_side_close(&pair->b);
    pthread_mutex_destroy(&pair->lock);
    free(pair);
}

/* NULL: out of memory. */
static struct emul_pair *emul_try_open(
    size_t frame_size, size_t window, enum emul_release release)
{
    struct emul_pair *pair = (struct emul_pair *) calloc(1, sizeof(*pair));

    HG_CHECK(pair != NULL);
    HG_CHECK_OK(hg_lock_init(&pair->lock));
    hg_list_init(&pair->late);
    pair->random = hg_test_seed();
    pair->release = release;
    if (emul_side_open(&pair->a, pair, &pair->b, frame_size, window) !=
            NA_SUCCESS ||
        emul_side_open(&pair->b, pair, &pair->a, frame_size, window) !=
            NA_SUCCESS) {
        if (pair->b.pair == NULL) { /* not reached */
            hg_list_init(&pair->b.in);
            hg_list_init(&pair->b.core.addrs);
            hg_list_init(&pair->b.core.mems);
            pair->b.pair = pair;
            HG_CHECK_OK(hg_monitor_init(&pair->b.core.own_lock));
            HG_CHECK_OK(hg_lock_init(&pair->b.core.list_lock));
            pair->b.core.head = &pair->b.core;
            pair->b.core.lock = &pair->b.core.own_lock;
            HG_CHECK_OK(na_live_add(NA_LIVE_NA_CLASS, &pair->b.core.pub));
        }
        emul_close(pair);
        return NULL;
    }
    return pair;
}

static struct emul_pair *emul_open(
    size_t frame_size, size_t window, enum emul_release release)
{
    struct emul_pair *pair = emul_try_open(frame_size, window, release);

    HG_CHECK(pair != NULL);
    return pair;
}

/* The first transfer that `side` started, and its id. NULL: none. */
static inline struct na_emul_xfer *emul_first_origin(
    const struct emul_side *side, uint64_t *id_p)
{
    struct na_emul_xfer *xfer;
    size_t cursor = 0;

    do
        xfer = (struct na_emul_xfer *) hg_map_next(
            &side->core.emul->xfers, &cursor, id_p);
    while (xfer != NULL && !xfer->origin);
    return xfer;
}

/* Deliver a frame that no side sent: `wire` with `size` bytes of `data`. */
static inline void emul_inject(struct emul_side *side, struct na_addr *source,
    const struct na_emul_wire *wire, const void *data, size_t size)
{
    unsigned char header[NA_EMUL_WIRE_SIZE];

    na_emul_wire_encode(wire, header);
    locked_emul_arrived(
        &side->core.pub, source, header, sizeof(header), data, size);
}

/* No transfer has left any state. */
static void emul_check_idle(struct emul_pair *pair)
{
    HG_CHECK_EQ_U64(pair->a.core.emul->xfers.count, 0);
    HG_CHECK_EQ_U64(pair->b.core.emul->xfers.count, 0);
    HG_CHECK(na_emul_due(pair->a.core.emul) > hg_clock_now());
    HG_CHECK(na_emul_due(pair->b.core.emul) > hg_clock_now());
}

/* ---- Memory ---- */

/* Segments in random order and with gaps in a backing store; `want` has the
 * expected contents of the store. */
struct emul_mem {
    na_mem_handle_t handle;
    unsigned char *store;
    unsigned char *want;
    size_t store_size;
    size_t *place; /* offset in the store of each logical byte */
    size_t size;
};

static void emul_mem_free(struct emul_mem *mem)
{
    if (mem->handle != NULL)
        HG_CHECK_OK(NA_Mem_handle_free(mem->handle->na_class, mem->handle));
    free(mem->store);
    free(mem->want);
    free(mem->place);
    memset(mem, 0, sizeof(*mem));
}

/* `count` segments of up to `most` bytes, or of exactly that many. */
static na_return_t emul_mem_make(struct emul_mem *mem, struct emul_side *side,
    size_t count, size_t most, bool exact, unsigned long flags)
{
    struct na_segment *segments =
        (struct na_segment *) calloc(count, sizeof(*segments));
    uint64_t *random = &side->pair->random;
    uint64_t bytes = 0;
    size_t at = 0;
    size_t i;
    na_return_t ret;

    memset(mem, 0, sizeof(*mem));
    HG_CHECK(segments != NULL);
    for (i = 0; i < count; i++) {
        uint64_t dice = hg_test_random(random);

        segments[i].size = exact ? most
            : dice % 8 == 0      ? 0
                                 : (dice >> 8) % (most + 1);
        mem->size += (size_t) segments[i].size;
    }
    mem->store_size = mem->size + 16 * count + 16;
    mem->store = (unsigned char *) malloc(mem->store_size);
    mem->want = (unsigned char *) malloc(mem->store_size);
    mem->place = (size_t *) calloc(mem->size + 1, sizeof(*mem->place));
    HG_CHECK(mem->store && mem->want && mem->place);
    for (i = 0; i < mem->store_size; i++) {
        if (i % 8 == 0)
            bytes = hg_test_random(random);
        mem->store[i] = (unsigned char) (bytes >> i % 8 * 8);
    }
    memcpy(mem->want, mem->store, mem->store_size);
    for (i = 0; i < count; i++) { /* laid out from either end */
        at += (size_t) hg_test_random(random) % 16;
        segments[i].address = mem->store + at;
        at += (size_t) segments[i].size;
    }
    for (i = count; i > 1; i--) { /* shuffled */
        size_t j = (size_t) (hg_test_random(random) % i);
        struct na_segment swap = segments[i - 1];

        segments[i - 1] = segments[j];
        segments[j] = swap;
    }
    for (i = 0, at = 0; i < count; i++) {
        size_t begin =
            (size_t) ((unsigned char *) segments[i].address - mem->store);
        size_t k;

        for (k = 0; k < segments[i].size; k++)
            mem->place[at++] = begin + k;
    }
    ret = NA_Mem_handle_create_segments(
        &side->core.pub, segments, count, flags, &mem->handle);
    free(segments);
    return ret;
}

/* Register at its owner and deserialize at `side`: the handle that a peer
 * has. */
static na_return_t emul_mem_publish(
    const struct emul_mem *mem, struct emul_side *side, na_mem_handle_t *remote)
{
    na_class_t *owner = mem->handle->na_class;
    unsigned char bytes[NA_EMUL_WIRE_HANDLE_SIZE];
    na_return_t ret = NA_Mem_register(owner, mem->handle);

    if (ret != NA_SUCCESS)
        return ret;
    HG_CHECK_EQ_U64(
        NA_Mem_handle_get_serialize_size(owner, mem->handle), sizeof(bytes));
    HG_CHECK_OK(
        NA_Mem_handle_serialize(owner, bytes, sizeof(bytes), mem->handle));
    return NA_Mem_handle_deserialize(
        &side->core.pub, remote, bytes, sizeof(bytes));
}

static void emul_mem_check(const struct emul_mem *mem)
{
    HG_CHECK_EQ_MEM(mem->store, mem->want, mem->store_size);
}

/* The expected effect of a transfer. */
static void emul_model(struct emul_mem *to, size_t to_offset,
    const struct emul_mem *from, size_t from_offset, size_t size)
{
    size_t i;

    for (i = 0; i < size; i++)
        to->want[to->place[to_offset + i]] =
            from->want[from->place[from_offset + i]];
}

/* Start a transfer of `side`. */
static na_return_t emul_start(struct emul_call *call, struct emul_side *side,
    bool put, na_mem_handle_t local, na_offset_t local_offset,
    na_mem_handle_t remote, na_offset_t remote_offset, na_size_t size)
{
    static _Atomic uint64_t ids = 1;
    struct na_op *op = &call->op.pub;

    memset(call, 0, sizeof(*call));
    call->op.id = atomic_fetch_add(&ids, 1);
    hg_list_init(&op->link);
    op->context = &side->context.pub;
    op->type = put ? NA_CB_PUT : NA_CB_GET;
    op->addr = side->peer;
    op->local = local;
    op->local_offset = local_offset;
    op->remote = remote;
    op->remote_offset = remote_offset;
    op->size = size;
    return locked_emul_start(op, put);
}

static void emul_check_end(const struct emul_call *call, na_return_t ret)
{
    HG_CHECK_EQ_INT(atomic_load(&call->ends), 1);
    HG_CHECK_RET(call->ret, ret);
}

/* A contiguous transfer of `size` bytes and its memory. */
struct emul_plain {
    struct emul_mem local;
    struct emul_mem owned;
    na_mem_handle_t remote;
    struct emul_call call;
};

static void emul_plain_make(
    struct emul_plain *plain, struct emul_pair *pair, size_t size)
{
    HG_CHECK_OK(emul_mem_make(
        &plain->local, &pair->a, 1, size, true, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_mem_make(
        &plain->owned, &pair->b, 1, size, true, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_mem_publish(&plain->owned, &pair->a, &plain->remote));
}

static na_return_t emul_plain_start(
    struct emul_plain *plain, struct emul_pair *pair, bool put, size_t size)
{
    return emul_start(&plain->call, &pair->a, put, plain->local.handle, 0,
        plain->remote, 0, size);
}

static void emul_plain_free(struct emul_plain *plain)
{
    if (plain->remote != NULL)
        HG_CHECK_OK(NA_Mem_handle_free(plain->remote->na_class, plain->remote));
    emul_mem_free(&plain->local);
    emul_mem_free(&plain->owned);
}

#endif
