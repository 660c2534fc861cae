/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rooms cursor, emul_wire, emul_xfer, emul_send and emul: two classes
 * joined by a pipe of frames that the test holds in its hands. It decides
 * when a frame arrives, when its memory is given back, and when the
 * transport has no room; it measures what is on its way.
 */
#include "../../hg.c"

#include "harness.h"

#include <sys/mman.h>

/* ---- The pipe ---- */

enum emul_release {
    EMUL_RELEASE_COPY,    /* before frame_send returns */
    EMUL_RELEASE_ARRIVAL, /* once the frame has arrived */
    EMUL_RELEASE_LATE,    /* when the test says so */
    EMUL_RELEASE_MIXED
};

struct emul_pipe_frame {
    struct na_link link;
    struct na_addr *source; /* as the receiver sees it */
    unsigned char header[64];
    size_t header_size;
    const void *data;
    void *copy;
    size_t size;
    void (*release)(void *arg);
    void *arg;
};

/* One end: a class made by hand, with one address for the other end. */
struct emul_side {
    struct na_class_core core; /* first: found from the class */
    struct emul_pair *pair;
    struct emul_side *other;
    struct na_context_core context;
    struct na_context_core context2;
    struct na_addr *peer;
    struct na_link in;     /* frames to this side */
    uint64_t in_bytes;     /* their payload */
    uint64_t in_bytes_max; /* ... at most */
    _Atomic uint64_t wakes;
    bool drop; /* frames to this side vanish */
};

struct emul_pair {
    struct emul_side a;
    struct emul_side b;
    pthread_mutex_t lock; /* guards the lists */
    enum emul_release release;
    struct na_link late; /* arrived, not released */
    uint64_t random;
    unsigned again;        /* so many sends meet NA_AGAIN; ... */
    unsigned again_chance; /* ... or one in so many */
    na_return_t refuse;    /* every send meets this */
    bool closed;           /* no frame may be sent any more */
};

/* An operation: completed exactly once. */
struct emul_call {
    struct na_op_core op; /* first: found from the op */
    _Atomic unsigned ends;
    na_return_t ret;
};

static struct emul_side *emul_side_of(const struct na_class *na_class)
{
    return (struct emul_side *) (void *) na_class_core_of(na_class);
}

static void emul_frame_give_back(struct emul_pipe_frame *frame)
{
    if (frame->release != NULL)
        frame->release(frame->arg);
    free(frame->copy);
    free(frame);
}

static void emul_release_now(void (*release)(void *), void *arg)
{
    HG_CHECK(release != NULL);
    release(arg);
}

static na_return_t emul_frame_send(struct na_addr *addr, const void *header,
    size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    struct emul_side *from = emul_side_of(addr->na_class);
    struct emul_side *to = from->other;
    struct emul_pair *pair = from->pair;
    enum emul_release mode = pair->release;
    struct emul_pipe_frame *frame;
    uint64_t dice;

    hg_lock(&pair->lock);
    HG_CHECK(!pair->closed);
    dice = hg_test_random(&pair->random);
    if (pair->refuse != NA_SUCCESS) {
        hg_unlock(&pair->lock);
        return pair->refuse;
    }
    if (pair->again > 0 ||
        (pair->again_chance > 0 && dice % pair->again_chance == 0)) {
        if (pair->again > 0)
            pair->again--;
        hg_unlock(&pair->lock);
        return NA_AGAIN;
    }
    hg_unlock(&pair->lock);
    HG_CHECK(header_size <= sizeof(frame->header));
    if (mode == EMUL_RELEASE_MIXED)
        mode = (enum emul_release)((dice >> 32) % 3);
    if (addr != from->peer || to->drop) { /* a stranger, or a dead peer */
        emul_release_now(release, arg);
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
        emul_release_now(release, arg);
        frame->release = NULL;
    }
    hg_lock(&pair->lock);
    hg_list_push(&to->in, &frame->link);
    to->in_bytes += size;
    if (to->in_bytes > to->in_bytes_max)
        to->in_bytes_max = to->in_bytes;
    hg_unlock(&pair->lock);
    return NA_SUCCESS;
}

/* The next frame to `side`, which is no longer on its way; NULL. */
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

/* Let the next frame arrive at `side`; false: there is none. */
static bool emul_deliver(struct emul_side *side)
{
    struct emul_pair *pair = side->pair;
    struct emul_pipe_frame *frame = emul_take(side);
    bool late;

    if (frame == NULL)
        return false;
    na_emul_frame_arrived(&side->core.pub, frame->source, frame->header,
        frame->header_size, frame->data, frame->size);
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

/* Give back the memory of a frame that arrived; false: there is none. */
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

/* What a connection that breaks does to frames on their way to `side`. */
static void emul_drop_frames(struct emul_side *side)
{
    struct emul_pipe_frame *frame;

    while ((frame = emul_take(side)) != NULL)
        emul_frame_give_back(frame);
}

static unsigned emul_poll(struct emul_side *side)
{
    return na_emul_poll(side->core.emul);
}

/* Until nothing moves any more. */
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

/* One event of chance. */
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

/* The n-th event of a fixed order: arrivals, polls, releases in turn. */
static void emul_turn(struct emul_pair *pair, unsigned n)
{
    switch (n % 5) {
    case 0: (void) emul_deliver(&pair->b); break;
    case 1: (void) emul_poll(&pair->b); break;
    case 2: (void) emul_deliver(&pair->a); break;
    case 3: (void) emul_poll(&pair->a); break;
    default: (void) emul_release_one(pair); break;
    }
}

/* ---- What the core does for the rooms ---- */

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

static void emul_addr_release(struct na_addr *addr)
{
    (void) addr;
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
    ops->mem_register = na_emul_mem_register;
    ops->mem_deregister = na_emul_mem_deregister;
    ops->mem_serialize_size = na_emul_mem_serialize_size;
    ops->mem_serialize = na_emul_mem_serialize;
    ops->mem_deserialize = na_emul_mem_deserialize;
    core->info.rma_frame_size = frame_size;
    core->info.rma_window = window;
    core->pub.core = &emul_core;
    core->pub.info = &core->info;
    hg_list_init(&core->addrs);
    hg_list_init(&core->mems);
    HG_CHECK_OK(hg_lock_init(&core->lock));
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
        na_emul_context_gone(&side->context.pub);
        na_emul_context_gone(&side->context2.pub);
        na_emul_destroy(core->emul);
    }
    if (side->peer != NULL) {
        HG_CHECK_EQ_U64(atomic_load(&na_addr_core_of(side->peer)->refs), 1);
        na_addr_unref(side->peer);
    }
    HG_CHECK(hg_list_is_empty(&core->addrs));
    HG_CHECK(hg_list_is_empty(&core->mems));
    pthread_mutex_destroy(&core->lock);
}

/* Frames leave nobody behind. */
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
            HG_CHECK_OK(hg_lock_init(&pair->b.core.lock));
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

/* Nothing is left of any transfer. */
static void emul_check_idle(struct emul_pair *pair)
{
    HG_CHECK_EQ_U64(atomic_load(&pair->a.core.emul->active), 0);
    HG_CHECK_EQ_U64(atomic_load(&pair->b.core.emul->active), 0);
    HG_CHECK(!na_emul_has_work(pair->a.core.emul));
    HG_CHECK(!na_emul_has_work(pair->b.core.emul));
    HG_CHECK_EQ_U64(pair->a.core.emul->origins.count, 0);
    HG_CHECK_EQ_U64(pair->b.core.emul->origins.count, 0);
}

/* ---- Memory ---- */

/* Segments in random order and with gaps in a backing store; what the store
 * should hold stands in `want`. */
struct emul_mem {
    na_mem_handle_t handle;
    unsigned char *store;
    unsigned char *want;
    size_t store_size;
    size_t *place; /* in the store, of each logical byte */
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

/* `count` segments of up to `most` bytes, or of exactly that. */
static na_return_t emul_mem_make(struct emul_mem *mem, struct emul_side *side,
    size_t count, size_t most, bool exact, unsigned long flags)
{
    struct na_segment *segments =
        (struct na_segment *) calloc(count, sizeof(*segments));
    uint64_t *random = &side->pair->random;
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
    for (i = 0; i < mem->store_size; i++)
        mem->store[i] = (unsigned char) (hg_test_random(random) >> 24);
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

/* Register at its owner and deserialize at `side`: what a peer would hold. */
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

/* What a transfer should do. */
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
    atomic_store(&call->op.id, atomic_fetch_add(&ids, 1));
    hg_list_init(&op->link);
    op->context = &side->context.pub;
    op->type = put ? NA_CB_PUT : NA_CB_GET;
    op->addr = side->peer;
    op->local = local;
    op->local_offset = local_offset;
    op->remote = remote;
    op->remote_offset = remote_offset;
    op->size = size;
    return put ? na_emul_put(op) : na_emul_get(op);
}

static void emul_check_end(const struct emul_call *call, na_return_t ret)
{
    HG_CHECK_EQ_INT(atomic_load(&call->ends), 1);
    HG_CHECK_RET(call->ret, ret);
}

/* ---- Bytes ---- */

HG_TEST(emul_wire_matches_its_picture)
{
    static const unsigned char put[] = {0x68, 0x52, 1, 2, 1, 0, 0, 0, 0x88,
        0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 1, 0, 0, 0, 0, 0, 0, 0xa0, 2,
        0, 0, 0, 0, 0, 0, 0xb0, 3, 0, 0, 0, 0, 0, 0, 0xc0, 4, 0, 0, 0, 0, 0, 0,
        0xd0};
    static const unsigned char data[] = {0x68, 0x52, 1, 6, 1, 0, 0, 0, 9, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0};
    static const unsigned char done[] = {
        0x68, 0x52, 1, 8, 0, 0, 13, 0, 7, 0, 0, 0, 0, 0, 0, 0};
    static const unsigned char handle[] = {0x68, 0x4d, 1, 3, 0, 0, 0, 0, 1, 2,
        3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 2, 0, 0, 0};
    unsigned char buf[NA_EMUL_WIRE_MAX];
    struct na_emul_wire wire;
    struct na_mem_handle mem;

    memset(&wire, 0, sizeof(wire));
    wire.type = NA_EMUL_WIRE_PUT_REQ;
    wire.flags = NA_EMUL_WIRE_WANT_ACK;
    wire.id = UINT64_C(0x1122334455667788);
    wire.key = UINT64_C(0xa000000000000001);
    wire.offset = UINT64_C(0xb000000000000002);
    wire.length = UINT64_C(0xc000000000000003);
    wire.window = UINT64_C(0xd000000000000004);
    HG_CHECK_EQ_U64(na_emul_wire_encode(&wire, buf), sizeof(put));
    HG_CHECK_EQ_MEM(buf, put, sizeof(put));
    HG_CHECK_OK(na_emul_wire_decode(put, sizeof(put), 5, &wire));
    HG_CHECK_EQ_U64(wire.length, UINT64_C(0xc000000000000003));
    HG_CHECK_EQ_U64(wire.window, UINT64_C(0xd000000000000004));

    memset(&wire, 0, sizeof(wire));
    HG_CHECK_OK(na_emul_wire_decode(data, sizeof(data), 1, &wire));
    HG_CHECK_EQ_INT(wire.type, NA_EMUL_WIRE_GET_DATA);
    HG_CHECK_EQ_U64(wire.offset, UINT64_C(1) << 32);
    HG_CHECK_EQ_U64(na_emul_wire_encode(&wire, buf), sizeof(data));
    HG_CHECK_EQ_MEM(buf, data, sizeof(data));

    HG_CHECK_OK(na_emul_wire_decode(done, sizeof(done), 0, &wire));
    HG_CHECK_EQ_INT(wire.status, NA_OVERFLOW);
    HG_CHECK_EQ_U64(na_emul_wire_encode(&wire, buf), sizeof(done));
    HG_CHECK_EQ_MEM(buf, done, sizeof(done));

    memset(&mem, 0, sizeof(mem));
    HG_CHECK_OK(na_emul_wire_get_handle(&mem, handle, sizeof(handle)));
    HG_CHECK_EQ_U64(mem.flags, NA_MEM_READWRITE);
    HG_CHECK_EQ_U64(mem.key, UINT64_C(0x0807060504030201));
    HG_CHECK_EQ_U64(mem.size, UINT64_C(2) << 32);
    na_emul_wire_put_handle(&mem, buf);
    HG_CHECK_EQ_MEM(buf, handle, sizeof(handle));
}

HG_TEST(emul_wire_refuses_what_is_no_frame)
{
    unsigned char buf[NA_EMUL_WIRE_MAX + 8];
    struct na_emul_wire wire;
    size_t size;
    uint8_t type;
    unsigned bad;

    for (type = 1; type <= NA_EMUL_WIRE_DONE; type++) {
        memset(&wire, 0, sizeof(wire));
        memset(buf, 0, sizeof(buf));
        wire.type = type;
        size = na_emul_wire_encode(&wire, buf);
        HG_CHECK_OK(na_emul_wire_decode(buf, size, 0, &wire));
        HG_CHECK_OK(na_emul_wire_decode(buf, size + 8, 0, &wire));
        HG_CHECK_RET(
            na_emul_wire_decode(buf, size - 1, 0, &wire), NA_PROTOCOL_ERROR);
        HG_CHECK_RET(na_emul_wire_decode(buf, size, 1, &wire),
            type == NA_EMUL_WIRE_PUT_REQ || type == NA_EMUL_WIRE_PUT_DATA ||
                    type == NA_EMUL_WIRE_GET_DATA
                ? NA_SUCCESS
                : NA_PROTOCOL_ERROR);
        for (bad = 0; bad < 3; bad++) { /* magic and version */
            buf[bad] ^= 0x10;
            HG_CHECK_RET(
                na_emul_wire_decode(buf, size, 0, &wire), NA_PROTOCOL_ERROR);
            buf[bad] ^= 0x10;
        }
    }
    buf[3] = 0;
    HG_CHECK_RET(na_emul_wire_decode(buf, 48, 0, &wire), NA_PROTOCOL_ERROR);
    buf[3] = NA_EMUL_WIRE_DONE + 1;
    HG_CHECK_RET(na_emul_wire_decode(buf, 48, 0, &wire), NA_PROTOCOL_ERROR);
    HG_CHECK_RET(na_emul_wire_decode(NULL, 0, 0, &wire), NA_PROTOCOL_ERROR);
}

HG_TEST(emul_handle_bytes_are_checked)
{
    unsigned char good[NA_EMUL_WIRE_HANDLE_SIZE];
    unsigned char bad[NA_EMUL_WIRE_HANDLE_SIZE + 1];
    struct na_mem_handle mem;
    size_t i;

    memset(&mem, 0, sizeof(mem));
    mem.flags = NA_MEM_WRITE_ONLY;
    mem.key = 1;
    mem.size = UINT64_MAX;
    na_emul_wire_put_handle(&mem, good);
    memset(bad, 0, sizeof(bad));
    for (i = 0; i < 8; i++) {
        memcpy(bad, good, sizeof(good));
        bad[i] = (unsigned char) (bad[i] + 4);
        HG_CHECK_RET(na_emul_wire_get_handle(&mem, bad, sizeof(good)),
            NA_PROTOCOL_ERROR);
    }
    memcpy(bad, good, sizeof(good));
    bad[3] = 0; /* no permission at all */
    HG_CHECK_RET(
        na_emul_wire_get_handle(&mem, bad, sizeof(good)), NA_PROTOCOL_ERROR);
    memcpy(bad, good, sizeof(good));
    bad[8] = 0; /* no key */
    HG_CHECK_RET(
        na_emul_wire_get_handle(&mem, bad, sizeof(good)), NA_PROTOCOL_ERROR);
    HG_CHECK_RET(na_emul_wire_get_handle(&mem, good, sizeof(good) - 1),
        NA_PROTOCOL_ERROR);
    HG_CHECK_RET(
        na_emul_wire_get_handle(&mem, bad, sizeof(bad)), NA_PROTOCOL_ERROR);
    HG_CHECK_OK(na_emul_wire_get_handle(&mem, good, sizeof(good)));
}

/* ---- Moving data ---- */

/* A few transfers of random shape at once, on memory of their own. */
#define EMUL_AT_ONCE 3

static void emul_shapes_round(struct emul_pair *pair)
{
    struct emul_mem local[EMUL_AT_ONCE];
    struct emul_mem owned[EMUL_AT_ONCE];
    na_mem_handle_t remote[EMUL_AT_ONCE];
    struct emul_call call[EMUL_AT_ONCE];
    unsigned i;
    unsigned steps;

    for (i = 0; i < EMUL_AT_ONCE; i++) {
        uint64_t dice = hg_test_random(&pair->random);
        struct emul_side *side = dice % 2 == 0 ? &pair->a : &pair->b;
        bool put = dice % 4 < 2;
        size_t most = (size_t) 1 << (dice >> 8) % 17;
        size_t size, from, to;

        HG_CHECK_OK(emul_mem_make(&local[i], side, 1 + (dice >> 16) % 40, most,
            dice % 16 == 0, NA_MEM_READWRITE));
        HG_CHECK_OK(emul_mem_make(&owned[i], side->other, 1 + (dice >> 24) % 40,
            most, dice % 16 == 1, NA_MEM_READWRITE));
        HG_CHECK_OK(emul_mem_publish(&owned[i], side, &remote[i]));
        size = local[i].size < owned[i].size ? local[i].size : owned[i].size;
        size = (dice >> 32) % 3 == 0 ? size : (dice >> 34) % (size + 1);
        from = (dice >> 40) % (local[i].size - size + 1);
        to = (dice >> 48) % (owned[i].size - size + 1);
        HG_CHECK_OK(emul_start(
            &call[i], side, put, local[i].handle, from, remote[i], to, size));
        if (put)
            emul_model(&owned[i], to, &local[i], from, size);
        else
            emul_model(&local[i], from, &owned[i], to, size);
    }
    for (steps = (unsigned) hg_test_random(&pair->random) % 200; steps > 0;
         steps--)
        emul_step(pair);
    emul_settle(pair);
    emul_check_idle(pair);
    for (i = 0; i < EMUL_AT_ONCE; i++) {
        emul_check_end(&call[i], NA_SUCCESS);
        emul_mem_check(&local[i]);
        emul_mem_check(&owned[i]);
        HG_CHECK_OK(NA_Mem_handle_free(remote[i]->na_class, remote[i]));
        emul_mem_free(&local[i]);
        emul_mem_free(&owned[i]);
    }
}

HG_TEST(emul_moves_every_shape)
{
    static const size_t frames[] = {4096, 5000, 65536, 0};
    enum emul_release release;
    unsigned i;
    unsigned round;

    for (release = EMUL_RELEASE_COPY; release <= EMUL_RELEASE_MIXED;
         release = (enum emul_release)(release + 1)) {
        for (i = 0; i < 4; i++) {
            struct emul_pair *pair =
                emul_open(frames[i], i % 2 == 0 ? 0 : 3 * frames[i], release);

            pair->again_chance = i == 1 ? 3 : 0;
            for (round = 0; round < 12; round++)
                emul_shapes_round(pair);
            HG_CHECK(pair->a.in_bytes_max <=
                pair->a.core.emul->window + EMUL_AT_ONCE * NA_EMUL_SMALL);
            HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_malformed"), 0);
            HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_malformed"), 0);
            HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_refused"), 0);
            HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_stale"), 0);
            emul_close(pair);
        }
    }
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

HG_TEST(emul_sends_contiguous_memory_in_place)
{
    struct emul_pair *pair = emul_open(65536, 0, EMUL_RELEASE_LATE);
    const size_t size = 1000000;
    struct emul_plain plain;
    unsigned put;

    emul_plain_make(&plain, pair, size);
    for (put = 0; put < 2; put++) {
        const struct emul_side *source = put ? &pair->a : &pair->b;
        const struct emul_side *sink = put ? &pair->b : &pair->a;

        HG_CHECK_OK(emul_plain_start(&plain, pair, put != 0, size));
        emul_settle(pair);
        emul_check_end(&plain.call, NA_SUCCESS);
        emul_check_idle(pair);
        HG_CHECK_EQ_U64(emul_counter(source, "rma_bytes_copied_source"), 0);
        HG_CHECK_EQ_U64(emul_counter(source, "rma_bytes_sent"), size);
        HG_CHECK_EQ_U64(
            emul_counter(source, "rma_frames"), (size + 65535) / 65536);
        HG_CHECK(sink->in_bytes_max <= 4 * 65536);
        HG_CHECK(sink->in_bytes_max > 2 * 65536);
    }
    emul_plain_free(&plain);
    emul_close(pair);
}

HG_TEST(emul_gathers_only_short_pieces)
{
    struct emul_pair *pair = emul_open(1 << 20, 0, EMUL_RELEASE_MIXED);
    static unsigned char bytes[3 * 100 + 65536];
    struct na_segment segments[4] = {{bytes, 100}, {bytes + 100, 100},
        {bytes + 200, 65536}, {bytes + 200 + 65536, 100}};
    struct emul_mem local;
    struct emul_call call;
    na_mem_handle_t owned, remote;
    unsigned char handle[NA_EMUL_WIRE_HANDLE_SIZE];

    memset(bytes, 0x5a, sizeof(bytes));
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        &pair->b.core.pub, segments, 4, NA_MEM_READ_ONLY, &owned));
    HG_CHECK_OK(NA_Mem_register(&pair->b.core.pub, owned));
    HG_CHECK_OK(NA_Mem_handle_serialize(
        &pair->b.core.pub, handle, sizeof(handle), owned));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        &pair->a.core.pub, &remote, handle, sizeof(handle)));
    HG_CHECK_OK(emul_mem_make(
        &local, &pair->a, 1, sizeof(bytes), true, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_start(
        &call, &pair->a, false, local.handle, 0, remote, 0, sizeof(bytes)));
    emul_settle(pair);
    emul_check_end(&call, NA_SUCCESS);
    HG_CHECK_EQ_MEM(local.handle->segments[0].address, bytes, sizeof(bytes));
    /* The two in front together; the long one and the last as they are. */
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_bytes_copied_source"), 200);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_frames"), 3);
    HG_CHECK_OK(NA_Mem_handle_free(&pair->a.core.pub, remote));
    HG_CHECK_OK(NA_Mem_handle_free(&pair->b.core.pub, owned));
    emul_mem_free(&local);
    emul_close(pair);
}

HG_TEST(emul_walks_65536_segments)
{
    struct emul_pair *pair = emul_open(0, 0, EMUL_RELEASE_MIXED);
    struct emul_mem local, owned;
    struct emul_call call;
    na_mem_handle_t remote;
    unsigned put;

    HG_CHECK_OK(
        emul_mem_make(&local, &pair->a, 65536, 7, true, NA_MEM_READWRITE));
    HG_CHECK_OK(
        emul_mem_make(&owned, &pair->b, 65536, 14, false, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_mem_publish(&owned, &pair->a, &remote));
    for (put = 0; put < 2; put++) {
        size_t size = 300000;

        HG_CHECK_OK(emul_start(
            &call, &pair->a, put != 0, local.handle, 123, remote, 4567, size));
        emul_settle(pair);
        emul_check_end(&call, NA_SUCCESS);
        if (put)
            emul_model(&owned, 4567, &local, 123, size);
        else
            emul_model(&local, 123, &owned, 4567, size);
    }
    emul_mem_check(&local);
    emul_mem_check(&owned);
    /* 7 bytes a piece, yet only as many frames as buffers fill. */
    HG_CHECK(emul_counter(&pair->b, "rma_frames") <= 3);
    HG_CHECK_OK(NA_Mem_handle_free(&pair->a.core.pub, remote));
    emul_mem_free(&local);
    emul_mem_free(&owned);
    emul_close(pair);
}

/* 5 GiB of addresses that share 4 MiB of memory. */
static void emul_wide(struct na_segment *segments, size_t count, char *bytes)
{
    size_t i;

    for (i = 0; i < count; i++) {
        segments[i].address = bytes;
        segments[i].size = 4 << 20;
    }
}

HG_TEST_SECONDS(emul_moves_5_gib, 120)
{
    enum { COUNT = 1280 };
    struct emul_pair *pair = emul_open(0, 0, EMUL_RELEASE_ARRIVAL);
    const uint64_t total = (uint64_t) COUNT << 22;
    static struct na_segment segments[COUNT];
    char *from = (char *) malloc(4 << 20);
    char *to = (char *) calloc(1, 4 << 20);
    unsigned char handle[NA_EMUL_WIRE_HANDLE_SIZE];
    struct emul_call call;
    na_mem_handle_t local, owned, remote;

    HG_CHECK(from != NULL && to != NULL && total > UINT64_C(5) << 30 >> 1);
    memset(from, 0x3c, 4 << 20);
    emul_wide(segments, COUNT, from);
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        &pair->b.core.pub, segments, COUNT, NA_MEM_READ_ONLY, &owned));
    HG_CHECK_OK(NA_Mem_register(&pair->b.core.pub, owned));
    HG_CHECK_OK(NA_Mem_handle_serialize(
        &pair->b.core.pub, handle, sizeof(handle), owned));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        &pair->a.core.pub, &remote, handle, sizeof(handle)));
    HG_CHECK_EQ_U64(remote->size, UINT64_C(5) << 30);
    emul_wide(segments, COUNT, to);
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        &pair->a.core.pub, segments, COUNT, NA_MEM_WRITE_ONLY, &local));
    HG_CHECK_OK(emul_start(&call, &pair->a, false, local, 0, remote, 0, total));
    emul_settle(pair);
    emul_check_end(&call, NA_SUCCESS);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_bytes_sent"), total);
    HG_CHECK_EQ_MEM(to, from, 4 << 20);
    /* And the last bytes alone. */
    memset(to, 0, 4 << 20);
    HG_CHECK_OK(emul_start(
        &call, &pair->a, false, local, total - 9, remote, total - 9, 9));
    emul_settle(pair);
    emul_check_end(&call, NA_SUCCESS);
    HG_CHECK_EQ_MEM(to + (4 << 20) - 9, from, 9);
    HG_CHECK_EQ_INT(to[(4 << 20) - 10], 0);
    HG_CHECK_OK(NA_Mem_handle_free(&pair->a.core.pub, remote));
    HG_CHECK_OK(NA_Mem_handle_free(&pair->a.core.pub, local));
    HG_CHECK_OK(NA_Mem_handle_free(&pair->b.core.pub, owned));
    free(from);
    free(to);
    emul_close(pair);
}

/* ---- Turns ---- */

HG_TEST(emul_lets_a_small_transfer_pass)
{
    struct emul_pair *pair = emul_open(65536, 4 * 65536, EMUL_RELEASE_ARRIVAL);
    struct emul_plain big, small;
    unsigned put;

    emul_plain_make(&big, pair, 64 * 65536);
    emul_plain_make(&small, pair, 4096);
    for (put = 0; put < 2; put++) {
        const char *frames = "rma_frames";
        struct emul_side *source = put ? &pair->a : &pair->b;
        uint64_t before;

        HG_CHECK_OK(emul_plain_start(&big, pair, put != 0, 64 * 65536));
        do /* until the window is full */
            (void) emul_deliver(&pair->b);
        while (emul_poll(&pair->b) + emul_poll(&pair->a) > 0 &&
            pair->a.in_bytes + pair->b.in_bytes < 3 * 65536);
        before = emul_counter(source, frames);
        HG_CHECK_OK(emul_plain_start(&small, pair, put != 0, 4096));
        while (atomic_load(&small.call.ends) == 0) {
            (void) emul_deliver(&pair->b);
            (void) emul_poll(&pair->b);
            (void) emul_deliver(&pair->a);
            (void) emul_poll(&pair->a);
        }
        /* It waited for what was on its way, not for the rest. */
        HG_CHECK(emul_counter(source, frames) - before <= 14);
        HG_CHECK_EQ_INT(atomic_load(&big.call.ends), 0);
        emul_settle(pair);
        emul_check_end(&big.call, NA_SUCCESS);
        emul_check_end(&small.call, NA_SUCCESS);
    }
    emul_plain_free(&big);
    emul_plain_free(&small);
    emul_close(pair);
}

HG_TEST(emul_shares_the_window_between_transfers)
{
    struct emul_pair *pair = emul_open(65536, 4 * 65536, EMUL_RELEASE_MIXED);
    struct emul_plain plain[6];
    unsigned i;
    unsigned put;

    for (i = 0; i < 6; i++)
        emul_plain_make(&plain[i], pair, 500000);
    for (put = 0; put < 2; put++) {
        for (i = 0; i < 6; i++)
            HG_CHECK_OK(emul_plain_start(&plain[i], pair, put != 0, 500000));
        emul_settle(pair);
        for (i = 0; i < 6; i++)
            emul_check_end(&plain[i].call, NA_SUCCESS);
        HG_CHECK((put ? &pair->b : &pair->a)->in_bytes_max <= 4 * 65536);
    }
    emul_check_idle(pair);
    for (i = 0; i < 6; i++)
        emul_plain_free(&plain[i]);
    emul_close(pair);
}

HG_TEST(emul_queues_more_operations_than_a_peer_takes)
{
    enum { COUNT = 3 * NA_EMUL_TARGETS_MAX };
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_MIXED);
    struct emul_call *calls =
        (struct emul_call *) calloc(COUNT, sizeof(*calls));
    struct emul_plain plain;
    unsigned i;

    HG_CHECK(calls != NULL);
    emul_plain_make(&plain, pair, 100);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(emul_start(&calls[i], &pair->a, false, plain.local.handle,
            i % 50, plain.remote, i % 50, i % 50));
    emul_settle(pair);
    for (i = 0; i < COUNT; i++)
        emul_check_end(&calls[i], NA_SUCCESS);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_refused"), 0);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    free(calls);
    emul_close(pair);
}

HG_TEST(emul_waits_for_room_in_the_transport)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_MIXED);
    struct emul_plain plain;
    unsigned put;

    emul_plain_make(&plain, pair, 50000);
    for (put = 0; put < 2; put++) {
        pair->again = 5;
        HG_CHECK_OK(emul_plain_start(&plain, pair, put != 0, 50000));
        /* Nothing to do until the transport says so: progress may sleep. */
        HG_CHECK(!na_emul_has_work(pair->a.core.emul));
        HG_CHECK_EQ_U64(emul_poll(&pair->a), 0);
        emul_settle(pair);
        emul_check_end(&plain.call, NA_SUCCESS);
        HG_CHECK_EQ_INT(pair->again, 0);
    }
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_malformed"), 0);
    emul_plain_free(&plain);
    emul_close(pair);
}

HG_TEST(emul_reports_what_the_transport_reports)
{
    static const na_return_t errors[] = {
        NA_DISCONNECT, NA_HOSTUNREACH, NA_NOMEM};
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct emul_plain plain;
    unsigned put;
    unsigned i;

    emul_plain_make(&plain, pair, 50000);
    for (put = 0; put < 2; put++)
        for (i = 0; i < 3; i++) {
            pair->refuse = errors[i];
            HG_CHECK_OK(emul_plain_start(&plain, pair, put != 0, 50000));
            emul_check_end(&plain.call, errors[i]);
            emul_check_idle(pair);
            pair->refuse = NA_SUCCESS;
            emul_settle(pair);
        }
    emul_plain_free(&plain);
    emul_close(pair);
}

/* ---- Refusals ---- */

HG_TEST(emul_reports_refusals)
{
    static const struct {
        unsigned long flags;
        uint64_t bad_key;
        na_offset_t offset;
        na_size_t size;
        bool put;
        na_return_t ret;
    } cases[] = {
        {NA_MEM_READWRITE, 1, 0, 10, false, NA_NOENTRY},
        {NA_MEM_READWRITE, 1, 0, 10, true, NA_NOENTRY},
        {NA_MEM_READWRITE, 1, 0, 100000, true, NA_NOENTRY},
        {NA_MEM_WRITE_ONLY, 0, 0, 10, false, NA_PERMISSION},
        {NA_MEM_READ_ONLY, 0, 0, 10, true, NA_PERMISSION},
        {NA_MEM_READ_ONLY, 0, 0, 100000, true, NA_PERMISSION},
        {NA_MEM_READWRITE, 0, 100001, 0, false, NA_OVERFLOW},
        {NA_MEM_READWRITE, 0, 1, 100000, false, NA_OVERFLOW},
        {NA_MEM_READWRITE, 0, 1, 100000, true, NA_OVERFLOW},
        {NA_MEM_READWRITE, 0, UINT64_MAX - 5, 10, true, NA_OVERFLOW},
        {NA_MEM_READWRITE, 0, 100000, 0, false, NA_SUCCESS},
        {NA_MEM_READWRITE, 0, 100000, 0, true, NA_SUCCESS},
        {NA_MEM_READ_ONLY, 0, 99990, 10, false, NA_SUCCESS},
        {NA_MEM_WRITE_ONLY, 0, 99990, 10, true, NA_SUCCESS},
    };
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_MIXED);
    struct emul_mem local, owned;
    struct emul_call call;
    na_mem_handle_t remote;
    unsigned refused = 0;
    unsigned i;

    HG_CHECK_OK(
        emul_mem_make(&local, &pair->a, 1, 100000, true, NA_MEM_READWRITE));
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        HG_CHECK_OK(
            emul_mem_make(&owned, &pair->b, 1, 100000, true, cases[i].flags));
        HG_CHECK_OK(emul_mem_publish(&owned, &pair->a, &remote));
        remote->key ^= cases[i].bad_key;
        HG_CHECK_OK(emul_start(&call, &pair->a, cases[i].put, local.handle, 0,
            remote, cases[i].offset, cases[i].size));
        emul_settle(pair);
        emul_check_end(&call, cases[i].ret);
        if (cases[i].ret == NA_SUCCESS && cases[i].put)
            emul_model(&owned, (size_t) cases[i].offset, &local, 0,
                (size_t) cases[i].size);
        else if (cases[i].ret == NA_SUCCESS)
            emul_model(&local, 0, &owned, (size_t) cases[i].offset,
                (size_t) cases[i].size);
        emul_mem_check(&owned);
        emul_mem_check(&local);
        refused += cases[i].ret != NA_SUCCESS;
        HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_refused"), refused);
        emul_check_idle(pair);
        HG_CHECK_OK(NA_Mem_handle_free(&pair->a.core.pub, remote));
        emul_mem_free(&owned);
    }
    HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_malformed"), 0);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_malformed"), 0);
    emul_mem_free(&local);
    emul_close(pair);
}

HG_TEST(emul_refuses_a_flood)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct na_emul_wire wire;
    unsigned char header[NA_EMUL_WIRE_MAX];
    struct emul_plain plain;
    const unsigned extra = 100;
    size_t size;
    unsigned i;

    emul_plain_make(&plain, pair, 100000);
    memset(&wire, 0, sizeof(wire));
    wire.type = NA_EMUL_WIRE_GET_REQ;
    wire.key = plain.remote->key;
    wire.length = 100000;
    wire.window = 1 << 20;
    for (i = 0; i < NA_EMUL_TARGETS_MAX + extra; i++) {
        wire.id = i << 6; /* the worst for its buckets */
        size = na_emul_wire_encode(&wire, header);
        na_emul_frame_arrived(
            &pair->b.core.pub, pair->b.peer, header, size, NULL, 0);
    }
    HG_CHECK_EQ_U64(
        atomic_load(&pair->b.core.emul->active), NA_EMUL_TARGETS_MAX);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_refused"), extra);
    HG_CHECK_OK(NA_Mem_deregister(&pair->b.core.pub, plain.owned.handle));
    emul_settle(pair);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* ---- Endings, at every step ---- */

enum emul_ending {
    EMUL_END_CANCEL,
    EMUL_END_DEREGISTER,
    EMUL_END_DEATH_HERE,  /* the initiator hears of it first */
    EMUL_END_DEATH_THERE, /* the target does */
    EMUL_END_CONTEXT
};

static void emul_kill(struct emul_side *side, na_return_t ret)
{
    atomic_store(&na_addr_core_of(side->peer)->dead, ret);
    emul_drop_frames(side);
    emul_drop_frames(side->other);
    side->drop = true;
    side->other->drop = true;
    na_emul_addr_dead(side->peer, ret);
}

/* Have every frame to `side` arrive, and its memory given back: who waits for
 * that in this one thread would wait for ever. */
static void emul_flush(struct emul_side *side)
{
    while (emul_deliver(side))
        continue;
    while (emul_release_one(side->pair))
        continue;
}

static void emul_end_it(
    struct emul_pair *pair, struct emul_plain *plain, enum emul_ending ending)
{
    uint64_t id = na_op_id_of(&plain->call.op.pub);

    switch (ending) {
    case EMUL_END_CANCEL:
        HG_CHECK_RET(na_emul_cancel(&plain->call.op.pub, id + 1), NA_NOENTRY);
        if (na_emul_cancel(&plain->call.op.pub, id) == NA_SUCCESS)
            HG_CHECK_RET(na_emul_cancel(&plain->call.op.pub, id), NA_NOENTRY);
        break;
    case EMUL_END_DEREGISTER:
        emul_flush(&pair->a);
        HG_CHECK_OK(NA_Mem_deregister(&pair->b.core.pub, plain->owned.handle));
        break;
    case EMUL_END_DEATH_HERE:
        emul_kill(&pair->a, NA_DISCONNECT);
        (void) emul_poll(&pair->b);
        emul_kill(&pair->b, NA_DISCONNECT);
        break;
    case EMUL_END_DEATH_THERE:
        emul_kill(&pair->b, NA_DISCONNECT);
        (void) emul_poll(&pair->a);
        emul_kill(&pair->a, NA_HOSTUNREACH);
        break;
    case EMUL_END_CONTEXT:
        emul_flush(&pair->b);
        na_emul_context_gone(&pair->a.context.pub);
        break;
    }
}

static na_return_t emul_ending_code(enum emul_ending ending)
{
    return ending == EMUL_END_CANCEL    ? NA_CANCELED
        : ending == EMUL_END_DEREGISTER ? NA_NOENTRY
        : ending == EMUL_END_DEATH_HERE ? NA_DISCONNECT
                                        : NA_HOSTUNREACH;
}

/* A transfer that meets its end after `steps` events. True: the ending was
 * in time to make a difference. */
static bool emul_ends_at(enum emul_ending ending, bool put, bool pieces,
    enum emul_release release, unsigned steps)
{
    struct emul_pair *pair = emul_open(4096, 8192, release);
    const size_t size = 40000;
    const size_t count = pieces ? 200 : 1;
    struct emul_plain plain;
    bool late;
    unsigned i;

    memset(&plain, 0, sizeof(plain));
    HG_CHECK_OK(emul_mem_make(
        &plain.local, &pair->a, count, size / count, true, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_mem_make(
        &plain.owned, &pair->b, count, size / count, true, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_mem_publish(&plain.owned, &pair->a, &plain.remote));
    HG_CHECK_OK(emul_plain_start(&plain, pair, put, size));
    for (i = 0; i < steps; i++)
        emul_turn(pair, i);
    emul_end_it(pair, &plain, ending);
    late = atomic_load(&plain.call.ends) != 0 && plain.call.ret == NA_SUCCESS;
    if (atomic_load(&plain.call.ends) != 0) {
        /* Whatever comes now may not touch the local memory. */
        memset(plain.local.store, 0xee, plain.local.store_size);
        memset(plain.local.want, 0xee, plain.local.store_size);
    }
    emul_settle(pair);
    if (ending == EMUL_END_CONTEXT) {
        if (!late)
            HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 0);
    } else {
        HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 1);
        if (plain.call.ret != NA_SUCCESS)
            HG_CHECK_RET(plain.call.ret, emul_ending_code(ending));
        late = plain.call.ret == NA_SUCCESS;
    }
    if (atomic_load(&plain.call.ends) != 0 && plain.call.ret != NA_SUCCESS &&
        plain.local.store[0] == 0xee)
        emul_mem_check(&plain.local);
    emul_check_idle(pair);
    HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_malformed"), 0);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_malformed"), 0);
    emul_plain_free(&plain);
    emul_close(pair);
    return !late;
}

static void emul_ends_everywhere(enum emul_ending ending)
{
    unsigned shape;

    for (shape = 0; shape < 12; shape++) {
        unsigned steps = 0;

        while (emul_ends_at(ending, shape % 2 != 0, shape / 2 % 2 != 0,
            (enum emul_release)(shape / 4), steps))
            steps++;
        HG_CHECK(steps > 10); /* the transfer is not over at once */
    }
}

HG_TEST(emul_cancels_at_every_step)
{
    emul_ends_everywhere(EMUL_END_CANCEL);
}

HG_TEST(emul_survives_death_at_every_step)
{
    emul_ends_everywhere(EMUL_END_DEATH_HERE);
    emul_ends_everywhere(EMUL_END_DEATH_THERE);
}

HG_TEST(emul_withdraws_memory_at_every_step)
{
    emul_ends_everywhere(EMUL_END_DEREGISTER);
}

HG_TEST(emul_forgets_a_context_at_every_step)
{
    emul_ends_everywhere(EMUL_END_CONTEXT);
}

/* Operations of another context go on. */
HG_TEST(emul_forgets_one_context_only)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct emul_plain plain;
    struct emul_call other;

    emul_plain_make(&plain, pair, 50000);
    HG_CHECK_OK(emul_plain_start(&plain, pair, false, 50000));
    HG_CHECK_OK(emul_start(&other, &pair->a, false, plain.local.handle, 0,
        plain.remote, 0, 50000));
    na_emul_context_gone(&pair->a.context2.pub);
    emul_settle(pair);
    emul_check_end(&plain.call, NA_SUCCESS);
    emul_check_end(&other, NA_SUCCESS);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* A dead peer starts nothing, and gets no answer. */
HG_TEST(emul_refuses_the_dead)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_COPY);
    struct emul_plain plain;

    emul_plain_make(&plain, pair, 5000);
    atomic_store(&na_addr_core_of(pair->b.peer)->dead, NA_DISCONNECT);
    HG_CHECK_OK(emul_plain_start(&plain, pair, true, 5000));
    HG_CHECK(emul_deliver(&pair->b));
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_stale"), 1);
    HG_CHECK_EQ_U64(atomic_load(&pair->b.core.emul->active), 0);
    emul_mem_check(&plain.owned);
    emul_kill(&pair->a, NA_HOSTUNREACH);
    emul_check_end(&plain.call, NA_HOSTUNREACH);
    HG_CHECK_RET(emul_plain_start(&plain, pair, true, 5000), NA_HOSTUNREACH);
    HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 0);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* ---- Memory that runs out ---- */

static int emul_oom_transfer(struct emul_pair *pair, bool put, bool pieces)
{
    const size_t size = 40000;
    const size_t count = pieces ? 200 : 1;
    struct emul_plain plain;
    na_return_t ret;

    memset(&plain, 0, sizeof(plain));
    ret = emul_mem_make(
        &plain.local, &pair->a, count, size / count, true, NA_MEM_READWRITE);
    if (ret == NA_SUCCESS)
        ret = emul_mem_make(&plain.owned, &pair->b, count, size / count, true,
            NA_MEM_READWRITE);
    if (ret == NA_SUCCESS)
        ret = emul_mem_publish(&plain.owned, &pair->a, &plain.remote);
    if (ret == NA_SUCCESS)
        ret = emul_plain_start(&plain, pair, put, size);
    if (ret == NA_SUCCESS) {
        emul_settle(pair);
        emul_check_idle(pair);
        HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 1);
        ret = plain.call.ret;
        if (ret == NA_SUCCESS) {
            if (put)
                emul_model(&plain.owned, 0, &plain.local, 0, size);
            else
                emul_model(&plain.local, 0, &plain.owned, 0, size);
            emul_mem_check(&plain.owned);
            emul_mem_check(&plain.local);
        }
    }
    HG_CHECK(ret == NA_SUCCESS || ret == NA_NOMEM);
    emul_plain_free(&plain);
    return ret;
}

static int emul_oom_body(void *arg)
{
    struct emul_pair *pair = emul_try_open(4096, 8192, EMUL_RELEASE_MIXED);
    int failed = 0;
    unsigned shape;

    (void) arg;
    if (pair == NULL)
        return NA_NOMEM;
    for (shape = 0; shape < 4; shape++)
        if (emul_oom_transfer(pair, shape % 2 != 0, shape / 2 != 0) != 0)
            failed = NA_NOMEM;
    emul_close(pair);
    return failed;
}

HG_TEST(emul_survives_every_failing_allocation)
{
    hg_test_alloc_install();
    HG_CHECK(hg_test_oom_loop(emul_oom_body, NULL) > 20);
}

/* Once warm, transfers take nothing from the heap. */
HG_TEST(emul_allocates_nothing_once_warm)
{
    struct emul_pair *pair;
    struct emul_plain plain;
    unsigned i;

    hg_test_alloc_install();
    pair = emul_open(4096, 0, EMUL_RELEASE_ARRIVAL);
    emul_plain_make(&plain, pair, 50000);
    for (i = 0; i < 100; i++) {
        if (i == 10)
            hg_test_alloc_fail_at(1);
        HG_CHECK_OK(emul_plain_start(&plain, pair, i % 2 != 0, 50000));
        emul_settle(pair);
        emul_check_end(&plain.call, NA_SUCCESS);
    }
    HG_CHECK(!hg_test_alloc_failed());
    hg_test_alloc_fail_at(0);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* ---- Hostile peers ---- */

/* Values that break arithmetic. */
static uint64_t emul_nasty(uint64_t *random, uint64_t usual)
{
    static const uint64_t values[] = {0, 1, 4095, 4096, 16384, 16385,
        UINT32_MAX, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX - 1,
        UINT64_MAX};
    uint64_t dice = hg_test_random(random);

    switch (dice % 6) {
    case 0: return values[(dice >> 8) % (sizeof(values) / sizeof(values[0]))];
    case 1: return usual + (dice >> 8) % 5 - 2;
    case 2: return usual ^ (UINT64_C(1) << (dice >> 8) % 64);
    default: return usual;
    }
}

/* A frame that is nearly right: of a known key, a known id, any type. */
static size_t emul_forge(
    uint64_t *random, uint64_t key, uint64_t id, unsigned char *header)
{
    struct na_emul_wire wire;
    uint64_t dice = hg_test_random(random);
    size_t size;

    memset(&wire, 0, sizeof(wire));
    wire.type = (uint8_t) (1 + dice % NA_EMUL_WIRE_DONE);
    wire.flags = (uint8_t) (dice >> 8) & 3;
    wire.status = dice >> 16 & 1 ? (uint16_t) ((dice >> 17) % 30) : 0;
    wire.id = dice >> 24 & 3 ? id : (dice >> 26) % 4;
    wire.key = emul_nasty(random, key);
    wire.offset = emul_nasty(random, hg_test_random(random) % 8 * 4096);
    wire.length = emul_nasty(random, hg_test_random(random) % 50000);
    wire.window = emul_nasty(random, 16384);
    size = na_emul_wire_encode(&wire, header);
    if (dice >> 40 & 1) /* and bits flipped, or bytes missing */
        header[(dice >> 41) % size] ^= (unsigned char) (1u << (dice >> 48) % 8);
    if ((dice >> 52) % 16 == 0)
        size = (dice >> 56) % (size + 1);
    return size;
}

/* A stranger knows the key of some memory and the ids in use, and shoots at
 * the owner, while a good peer works on other memory of the same owner. */
HG_TEST_SECONDS(emul_serves_good_peers_beside_a_hostile_one, 60)
{
    struct emul_pair *pair = emul_open(4096, 0, EMUL_RELEASE_MIXED);
    struct emul_plain plain;
    struct emul_mem bait;
    na_mem_handle_t key;
    struct na_addr *stranger =
        na_addr_create(&pair->b.core.pub, "pipe://stranger", NA_FALSE);
    static unsigned char junk[65536];
    unsigned char header[NA_EMUL_WIRE_MAX];
    unsigned finished = 0;
    unsigned i;

    HG_CHECK(stranger != NULL);
    emul_plain_make(&plain, pair, 50000);
    HG_CHECK_OK(
        emul_mem_make(&bait, &pair->b, 30, 3000, true, NA_MEM_READWRITE));
    HG_CHECK_OK(emul_mem_publish(&bait, &pair->a, &key));
    HG_CHECK_OK(emul_plain_start(&plain, pair, true, 50000));
    for (i = 0; i < 100000; i++) {
        uint64_t id = emul_nasty(&pair->random, (uint64_t) i % 8);
        size_t size = emul_forge(&pair->random, key->key, id, header);
        size_t data = hg_test_random(&pair->random) % 4 == 0
            ? 0
            : (size_t) hg_test_random(&pair->random) % 8192;

        na_emul_frame_arrived(
            &pair->b.core.pub, stranger, header, size, junk, data);
        emul_step(pair);
        if (atomic_load(&plain.call.ends) != 0) {
            emul_check_end(&plain.call, NA_SUCCESS);
            if (finished % 2 == 0)
                emul_model(&plain.owned, 0, &plain.local, 0, 50000);
            else
                emul_model(&plain.local, 0, &plain.owned, 0, 50000);
            emul_mem_check(&plain.owned);
            emul_mem_check(&plain.local);
            finished++;
            HG_CHECK_OK(
                emul_plain_start(&plain, pair, finished % 2 == 0, 50000));
        }
        HG_CHECK(
            atomic_load(&pair->b.core.emul->active) <= NA_EMUL_TARGETS_MAX + 2);
    }
    HG_CHECK(finished > 100);
    HG_CHECK(emul_counter(&pair->b, "rma_malformed") > 1000);
    HG_CHECK(emul_counter(&pair->b, "rma_refused") > 1000);
    HG_CHECK(emul_counter(&pair->b, "rma_stale") > 1000);
    HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_malformed"), 0);
    atomic_store(&na_addr_core_of(stranger)->dead, NA_DISCONNECT);
    na_emul_addr_dead(stranger, NA_DISCONNECT);
    emul_settle(pair);
    emul_check_end(&plain.call, NA_SUCCESS);
    emul_check_idle(pair);
    /* Only registered bytes were touched, and the gaps between are whole. */
    for (i = 0; i < bait.size; i++)
        bait.want[bait.place[i]] = bait.store[bait.place[i]];
    emul_mem_check(&bait);
    HG_CHECK_EQ_U64(atomic_load(&na_addr_core_of(stranger)->refs), 1);
    na_addr_unref(stranger);
    HG_CHECK_OK(NA_Mem_handle_free(&pair->a.core.pub, key));
    emul_mem_free(&bait);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* Frames between two peers are changed, repeated, swapped, lost. */
static void emul_spoil(struct emul_side *side, unsigned char *junk)
{
    struct emul_pair *pair = side->pair;
    uint64_t dice = hg_test_random(&pair->random);
    struct emul_pipe_frame *frame;

    if (hg_list_is_empty(&side->in))
        return;
    frame = HG_CONTAINER_OF(side->in.next, struct emul_pipe_frame, link);
    switch (dice % 8) {
    case 0: /* a bit */
        frame->header[(dice >> 8) % frame->header_size] ^=
            (unsigned char) (1u << (dice >> 16) % 8);
        break;
    case 1: /* arrives twice */
        na_emul_frame_arrived(&side->core.pub, frame->source, frame->header,
            frame->header_size, frame->data, frame->size);
        break;
    case 2: /* lost */
        frame = emul_take(side);
        emul_frame_give_back(frame);
        break;
    case 3: /* more or less data */
        na_emul_frame_arrived(&side->core.pub, frame->source, frame->header,
            frame->header_size, junk, (dice >> 8) % 8192);
        break;
    case 4: /* shorter header */
        frame->header_size = (dice >> 8) % (frame->header_size + 1);
        break;
    default: /* later */
        hg_list_remove(&frame->link);
        hg_list_push(&side->in, &frame->link);
        break;
    }
}

HG_TEST_SECONDS(emul_survives_a_peer_that_lies, 60)
{
    static unsigned char junk[8192];
    unsigned succeeded = 0;
    unsigned failed = 0;
    uint64_t malformed = 0;
    unsigned round;

    for (round = 0; round < 400; round++) {
        struct emul_pair *pair = emul_open(4096, 8192, EMUL_RELEASE_MIXED);
        struct emul_plain plain[4];
        unsigned i;

        pair->random += round;
        for (i = 0; i < 4; i++) {
            emul_plain_make(&plain[i], pair, 30000);
            HG_CHECK_OK(emul_plain_start(&plain[i], pair, i % 2 != 0, 30000));
        }
        for (i = 0; i < 200; i++) {
            emul_step(pair);
            if (hg_test_random(&pair->random) % 16 == 0)
                emul_spoil(i % 2 != 0 ? &pair->a : &pair->b, junk);
        }
        emul_settle(pair);
        emul_kill(&pair->a, NA_DISCONNECT);
        emul_kill(&pair->b, NA_DISCONNECT);
        emul_settle(pair);
        emul_check_idle(pair);
        malformed += emul_counter(&pair->a, "rma_malformed") +
            emul_counter(&pair->b, "rma_malformed");
        for (i = 0; i < 4; i++) {
            HG_CHECK_EQ_INT(atomic_load(&plain[i].call.ends), 1);
            succeeded += plain[i].call.ret == NA_SUCCESS;
            failed += plain[i].call.ret == NA_PROTOCOL_ERROR;
            emul_plain_free(&plain[i]);
        }
        emul_close(pair);
    }
    HG_CHECK(succeeded > 20);
    HG_CHECK(failed > 20);
    HG_CHECK(malformed > 1000);
}

/* What a fuzzer calls: `data` is a sequence of frames to either side of two
 * classes with transfers under way. A record is a byte of kind, two of
 * payload size, one of header size, and the header; kind bit 0 chooses the
 * side, bit 1 has the key of real memory stand in a request, bits 2 and 3
 * let the pair work. */
int hg_fuzz_emul(const uint8_t *data, size_t size);

int hg_fuzz_emul(const uint8_t *data, size_t size)
{
    static unsigned char junk[65536];
    struct hg_wire wire = hg_wire_reader(data, size);
    struct emul_pair *pair = emul_open(4096, 8192, EMUL_RELEASE_ARRIVAL);
    struct emul_plain get, put;

    emul_plain_make(&get, pair, 30000);
    emul_plain_make(&put, pair, 30000);
    HG_CHECK_OK(emul_plain_start(&get, pair, false, 30000));
    HG_CHECK_OK(emul_plain_start(&put, pair, true, 30000));
    while (hg_wire_left(&wire) > 0) {
        unsigned char header[NA_EMUL_WIRE_MAX];
        uint8_t kind = hg_wire_get8(&wire);
        size_t payload = hg_wire_get16(&wire);
        size_t header_size = hg_wire_get8(&wire) % (sizeof(header) + 1);
        const void *bytes = hg_wire_get_bytes(&wire, header_size);
        struct emul_side *side = kind & 1 ? &pair->b : &pair->a;

        if (wire.failed)
            break;
        if (header_size > 0)
            memcpy(header, bytes, header_size);
        if ((kind & 2) != 0 && header_size >= 24)
            hg_wire_store64(header + 16, get.remote->key);
        na_emul_frame_arrived(
            &side->core.pub, side->peer, header, header_size, junk, payload);
        if ((kind & 4) != 0)
            emul_settle(pair);
        if ((kind & 8) != 0)
            (void) emul_deliver(side);
    }
    emul_settle(pair);
    emul_kill(&pair->a, NA_DISCONNECT);
    emul_kill(&pair->b, NA_DISCONNECT);
    emul_settle(pair);
    emul_check_idle(pair);
    HG_CHECK_EQ_INT(atomic_load(&get.call.ends), 1);
    HG_CHECK_EQ_INT(atomic_load(&put.call.ends), 1);
    emul_plain_free(&get);
    emul_plain_free(&put);
    emul_close(pair);
    return 0;
}

HG_TEST_SECONDS(emul_survives_what_a_fuzzer_feeds, 60)
{
    uint64_t random = hg_test_seed();
    unsigned round;

    for (round = 0; round < 300; round++) {
        unsigned char input[4096];
        struct hg_wire wire = hg_wire_writer(input, sizeof(input));
        unsigned n;

        for (n = (unsigned) hg_test_random(&random) % 50; n > 0; n--) {
            unsigned char header[NA_EMUL_WIRE_MAX];
            /* An id of a slot is its index + 1 at first. */
            size_t size = emul_forge(&random, 1, 1 + n % 2, header);

            hg_wire_put8(&wire, (uint8_t) hg_test_random(&random));
            hg_wire_put16(&wire, (uint16_t) (hg_test_random(&random) % 9000));
            hg_wire_put8(&wire, (uint8_t) size);
            hg_wire_put_bytes(&wire, header, size);
        }
        HG_CHECK(!wire.failed);
        HG_CHECK_EQ_INT(
            hg_fuzz_emul(input, sizeof(input) - hg_wire_left(&wire)), 0);
    }
}

/* ---- Threads ---- */

/* Both sides make progress and a third thread gives memory back, while the
 * application's threads start, cancel and withdraw as they like. */
struct emul_worker {
    struct emul_side *side;
    uint64_t random;
    unsigned rounds;
    unsigned succeeded;
    _Atomic bool *stop;
    pthread_t thread;
};

static void *emul_progress_thread(void *arg)
{
    struct emul_worker *worker = (struct emul_worker *) arg;

    while (!atomic_load(worker->stop)) {
        bool more = emul_deliver(worker->side);

        more = emul_poll(worker->side) > 0 || more;
        if (!more)
            (void) sched_yield();
    }
    return NULL;
}

static void *emul_release_thread(void *arg)
{
    struct emul_worker *worker = (struct emul_worker *) arg;

    while (!atomic_load(worker->stop))
        if (!emul_release_one(worker->side->pair))
            (void) sched_yield();
    return NULL;
}

static void emul_dawdle(uint64_t *random)
{
    unsigned n = (unsigned) hg_test_random(random) % 30;

    while (n-- > 0)
        (void) sched_yield();
}

/* One transfer with a peer's memory that vanishes once it is withdrawn. */
static void emul_work(struct emul_worker *worker)
{
    na_class_t *here = &worker->side->core.pub;
    na_class_t *there = &worker->side->other->core.pub;
    uint64_t dice = hg_test_random(&worker->random);
    size_t size = 1 + (size_t) (dice >> 8) % 200000;
    bool put = dice & 1;
    unsigned char *local = (unsigned char *) malloc(size);
    unsigned char *owned = (unsigned char *) mmap(
        NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char bytes[NA_EMUL_WIRE_HANDLE_SIZE];
    na_mem_handle_t mine, theirs, remote;
    struct emul_call call;
    bool withdrawn = (dice >> 2 & 3) == 0;

    HG_CHECK(local != NULL && owned != MAP_FAILED);
    memset(local, put ? 0x11 : 0, size);
    memset(owned, put ? 0 : 0x11, size);
    HG_CHECK_OK(
        NA_Mem_handle_create(here, local, size, NA_MEM_READWRITE, &mine));
    HG_CHECK_OK(
        NA_Mem_handle_create(there, owned, size, NA_MEM_READWRITE, &theirs));
    HG_CHECK_OK(NA_Mem_register(there, theirs));
    HG_CHECK_OK(NA_Mem_handle_serialize(there, bytes, sizeof(bytes), theirs));
    HG_CHECK_OK(NA_Mem_handle_deserialize(here, &remote, bytes, sizeof(bytes)));
    HG_CHECK_OK(emul_start(&call, worker->side, put, mine, 0, remote, 0, size));
    emul_dawdle(&worker->random);
    if ((dice >> 4 & 3) == 0)
        (void) na_emul_cancel(&call.op.pub, na_op_id_of(&call.op.pub));
    if (withdrawn) {
        HG_CHECK_OK(NA_Mem_deregister(there, theirs));
        HG_CHECK_EQ_INT(munmap(owned, size), 0);
    }
    while (atomic_load(&call.ends) == 0)
        (void) sched_yield();
    if (call.ret == NA_SUCCESS) {
        const unsigned char *got = put ? owned : local;

        worker->succeeded++;
        if (!withdrawn || !put)
            HG_CHECK(got[0] == 0x11 && got[size - 1] == 0x11 &&
                memcmp(got, got + 1, size - 1) == 0);
    } else {
        HG_CHECK(call.ret == NA_CANCELED || call.ret == NA_NOENTRY);
    }
    memset(local, 0x22, size);
    free(local); /* at once: nobody may look at it any more */
    HG_CHECK_OK(NA_Mem_handle_free(here, mine));
    HG_CHECK_OK(NA_Mem_handle_free(here, remote));
    HG_CHECK_OK(NA_Mem_handle_free(there, theirs));
    if (!withdrawn)
        HG_CHECK_EQ_INT(munmap(owned, size), 0);
}

static void *emul_work_thread(void *arg)
{
    struct emul_worker *worker = (struct emul_worker *) arg;
    unsigned i;

    for (i = 0; i < worker->rounds; i++)
        emul_work(worker);
    return NULL;
}

HG_TEST_SECONDS(emul_serves_many_threads, 120)
{
    static void *(*const body[])(void *) = {emul_progress_thread,
        emul_progress_thread, emul_release_thread, emul_work_thread,
        emul_work_thread, emul_work_thread};
    enum { THREADS = 6, SERVERS = 3 };
    struct emul_pair *pair = emul_open(4096, 16384, EMUL_RELEASE_MIXED);
    struct emul_worker workers[THREADS];
    _Atomic bool stop = false;
    unsigned succeeded = 0;
    unsigned i;

    pair->again_chance = 50;
    memset(workers, 0, sizeof(workers));
    for (i = 0; i < THREADS; i++) {
        workers[i].side = i % 2 == 0 ? &pair->a : &pair->b;
        workers[i].random = hg_test_seed() + i;
        workers[i].rounds = 150;
        workers[i].stop = &stop;
        HG_CHECK_EQ_INT(
            pthread_create(&workers[i].thread, NULL, body[i], &workers[i]), 0);
    }
    for (i = THREADS; i > 0; i--) {
        if (i == SERVERS)
            atomic_store(&stop, true);
        HG_CHECK_EQ_INT(pthread_join(workers[i - 1].thread, NULL), 0);
        succeeded += workers[i - 1].succeeded;
    }
    HG_CHECK(succeeded > 50);
    emul_settle(pair);
    emul_check_idle(pair);
    HG_CHECK_EQ_U64(emul_counter(&pair->a, "rma_malformed"), 0);
    HG_CHECK_EQ_U64(emul_counter(&pair->b, "rma_malformed"), 0);
    emul_close(pair);
}

/* ---- Waiting for the transport ---- */

static void *emul_give_back_later(void *arg)
{
    struct emul_pair *pair = (struct emul_pair *) arg;

    /* Until the other thread waits. */
    for (;;) {
        unsigned waiters;

        hg_lock(&pair->b.core.emul->lock);
        waiters = pair->b.core.emul->waiters;
        hg_unlock(&pair->b.core.emul->lock);
        if (waiters > 0)
            break;
        (void) sched_yield();
    }
    while (emul_release_one(pair))
        continue;
    return NULL;
}

HG_TEST(emul_deregisters_only_when_frames_came_back)
{
    struct emul_pair *pair = emul_open(4096, 16384, EMUL_RELEASE_LATE);
    struct emul_plain plain;
    pthread_t thread;

    emul_plain_make(&plain, pair, 50000);
    HG_CHECK_OK(emul_plain_start(&plain, pair, false, 50000));
    HG_CHECK(emul_deliver(&pair->b));
    HG_CHECK_EQ_U64(emul_poll(&pair->b), 4);
    while (emul_deliver(&pair->a))
        continue;
    HG_CHECK(!hg_list_is_empty(&pair->late));
    HG_CHECK_EQ_INT(
        pthread_create(&thread, NULL, emul_give_back_later, pair), 0);
    HG_CHECK_OK(NA_Mem_deregister(&pair->b.core.pub, plain.owned.handle));
    HG_CHECK(hg_list_is_empty(&pair->late));
    HG_CHECK_EQ_INT(pthread_join(thread, NULL), 0);
    emul_settle(pair);
    emul_check_end(&plain.call, NA_NOENTRY);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}

/* An end that comes from a release callback is found by the next poll, and
 * progress is woken for it. */
HG_TEST(emul_wakes_for_what_a_release_ends)
{
    struct emul_pair *pair = emul_open(4096, 16384, EMUL_RELEASE_LATE);
    struct emul_plain plain;
    uint64_t wakes;

    emul_plain_make(&plain, pair, 4096);
    HG_CHECK_OK(emul_plain_start(&plain, pair, true, 4096));
    HG_CHECK(emul_deliver(&pair->b));
    HG_CHECK_EQ_U64(emul_poll(&pair->b), 2); /* DONE leaves, and all is over */
    HG_CHECK(emul_deliver(&pair->a));
    HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 0);
    HG_CHECK(!na_emul_has_work(pair->a.core.emul));
    wakes = atomic_load(&pair->a.wakes);
    HG_CHECK(emul_release_one(pair));
    HG_CHECK_EQ_INT(atomic_load(&plain.call.ends), 0); /* not on its thread */
    HG_CHECK_EQ_U64(atomic_load(&pair->a.wakes), wakes + 1);
    HG_CHECK(na_emul_has_work(pair->a.core.emul));
    HG_CHECK_EQ_U64(emul_poll(&pair->a), 1);
    emul_check_end(&plain.call, NA_SUCCESS);
    emul_settle(pair);
    emul_check_idle(pair);
    emul_plain_free(&plain);
    emul_close(pair);
}
