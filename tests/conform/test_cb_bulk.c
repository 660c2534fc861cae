/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk data of the callback model: handles, transfers with the layouts of
 * Mercury's own tests, cancellation, references, and bound handles, which a
 * third process can use. On every transport.
 */
#include "cb.h"

#define BULK_SIZE 65536u

/* On a transport to other processes a transfer of this size never completes
 * within the call; to oneself it always does. */
#define BULK_LONG ((size_t) 16 << 20)

/* How a target moves the caller's memory. */
enum bulk_how {
    BULK_PLAIN = 0,
    BULK_BOUND = 1,  /* the handle carries its address */
    BULK_PASS = 2,   /* call yourself with it, to move it there */
    BULK_EARLY = 3,  /* free everything while the transfer runs */
    BULK_CANCEL = 4, /* as EARLY, and cancel after `offset` rounds */
    BULK_DROP = 5    /* as EARLY, and free the local handle */
};

MERCURY_GEN_PROC(bulk_move_t,
    ((hg_bulk_t) (bulk))((uint8_t) (how))((uint8_t) (push))(
        (uint64_t) (origin_offset))((uint64_t) (local_offset))(
        (uint64_t) (size)))
MERCURY_GEN_PROC(bulk_moved_t, ((int32_t) (ret))((uint64_t) (sum)))
MERCURY_GEN_PROC(bulk_expose_t, ((hg_bulk_t) (bulk)))
MERCURY_GEN_PROC(
    bulk_third_t, ((hg_bulk_t) (bulk))((hg_string_t) (name))((uint64_t) (size)))

static hg_id_t bulk_move_id, bulk_third_id, bulk_expose_id, bulk_end_id;

/* ---- The target ---- */

struct bulk_job {
    hg_handle_t handle;
    bulk_move_t in;
    hg_bulk_t local;
    unsigned char *memory;
    size_t size; /* of memory */
    unsigned ends;
    hg_op_id_t op_id;
};

static void bulk_answer(struct bulk_job *job, hg_return_t ret)
{
    bulk_moved_t out;

    out.ret = (int32_t) ret;
    out.sum = blob_sum(job->memory, job->size);
    (void) HG_Respond(job->handle, NULL, NULL, &out);
    HG_CHECK_OK(HG_Destroy(job->handle));
    free(job->memory);
    free(job);
}

static hg_return_t bulk_ended(const struct hg_cb_info *info)
{
    struct bulk_job *job = (struct bulk_job *) info->arg;

    HG_CHECK(cb_triggering > 0);
    HG_CHECK_EQ_INT(info->type, HG_CB_BULK);
    HG_CHECK_EQ_INT(
        info->info.bulk.op, job->in.push ? HG_BULK_PUSH : HG_BULK_PULL);
    HG_CHECK_EQ_U64(info->info.bulk.size, job->in.size);
    HG_CHECK_EQ_U64(HG_Bulk_get_size(info->info.bulk.local_handle), job->size);
    HG_CHECK(HG_Bulk_get_size(info->info.bulk.origin_handle) >= job->in.size);
    HG_CHECK_EQ_INT(job->ends++, 0);
    HG_CHECK_OK(HG_Bulk_cancel(job->op_id)); /* it has completed */
    if (job->in.how < BULK_EARLY)
        HG_CHECK_OK(HG_Bulk_free(info->info.bulk.origin_handle));
    if (job->in.how != BULK_DROP)
        HG_CHECK_OK(HG_Bulk_free(job->local));
    bulk_answer(job, info->ret);
    return HG_SUCCESS;
}

static hg_return_t bulk_start(struct bulk_job *job, hg_bulk_t origin)
{
    const struct hg_info *info = HG_Get_info(job->handle);
    const bulk_move_t *in = &job->in;
    hg_bulk_op_t op = in->push ? HG_BULK_PUSH : HG_BULK_PULL;

    if (in->how == BULK_BOUND) {
        HG_CHECK_EQ_INT(HG_Bulk_get_context_id(origin), 0);
        return HG_Bulk_bind_transfer(info->context, bulk_ended, job, op, origin,
            in->origin_offset, job->local, in->local_offset, in->size,
            &job->op_id);
    }
    HG_CHECK(HG_Bulk_get_addr(origin) == HG_ADDR_NULL);
    return HG_Bulk_transfer_id(info->context, bulk_ended, job, op, info->addr,
        info->context_id, origin, in->origin_offset, job->local,
        in->local_offset, in->size, &job->op_id);
}

/* The part of the job besides the transfer, which has started. The job is not
 * accessed once it may have completed. */
static void bulk_interfere(struct bulk_job *job)
{
    hg_context_t *context = HG_Get_info(job->handle)->context;
    hg_op_id_t op_id = job->op_id;
    uint64_t turns = job->in.origin_offset;

    if (job->in.how == BULK_CANCEL) {
        for (; turns > 0; turns--)
            (void) HG_Progress(context, 0);
        HG_CHECK_OK(HG_Bulk_cancel(op_id));
        HG_CHECK_OK(HG_Bulk_cancel(op_id)); /* a second cancel is valid */
    } else if (job->in.how == BULK_DROP) {
        HG_CHECK_OK(HG_Bulk_free(job->local));
        /* The application owns it again. */
        memset(job->memory, 0xee, job->size);
    }
}

static struct bulk_job *bulk_new_job(hg_handle_t handle)
{
    struct bulk_job *job = (struct bulk_job *) calloc(1, sizeof(*job));
    void *memory;
    hg_size_t size;

    HG_CHECK(job != NULL);
    job->handle = handle;
    HG_CHECK_OK(HG_Get_input(handle, &job->in));
    size = job->in.local_offset + job->in.size;
    job->size = (size_t) size;
    memory = calloc(1, job->size > 0 ? job->size : 1);
    HG_CHECK(memory != NULL);
    job->memory = (unsigned char *) memory;
    if (job->in.push)
        memset(job->memory, 0x5a, job->size);
    HG_CHECK_OK(HG_Bulk_create(HG_Get_info(handle)->hg_class, 1, &memory, &size,
        HG_BULK_READWRITE, &job->local));
    return job;
}

/* A call that another call executes, and the objects it must keep meanwhile. */
struct bulk_passing {
    hg_handle_t caller;
    bulk_move_t in;
    bulk_third_t third;
    bool to_third;
};

static hg_return_t bulk_passed(const struct hg_cb_info *info)
{
    struct bulk_passing *passing = (struct bulk_passing *) info->arg;
    hg_handle_t caller = passing->caller;
    bulk_moved_t out = {-1, 0};

    if (info->ret == HG_SUCCESS) {
        HG_CHECK_OK(HG_Get_output(info->info.forward.handle, &out));
        HG_CHECK_OK(HG_Free_output(info->info.forward.handle, &out));
    } else {
        out.ret = (int32_t) info->ret;
    }
    if (passing->to_third)
        HG_CHECK_OK(HG_Free_input(caller, &passing->third));
    else
        HG_CHECK_OK(HG_Free_input(caller, &passing->in));
    free(passing);
    HG_CHECK_OK(HG_Respond(caller, NULL, NULL, &out));
    HG_CHECK_OK(HG_Destroy(caller));
    return HG_Destroy(info->info.forward.handle);
}

/* Call `addr`, which is freed, with the caller's memory. */
static void bulk_pass_to(
    struct bulk_passing *passing, hg_addr_t addr, hg_bulk_t bulk)
{
    const struct hg_info *info = HG_Get_info(passing->caller);
    bulk_move_t move = passing->in;
    hg_handle_t there;

    move.bulk = bulk;
    move.how = BULK_BOUND;
    HG_CHECK_OK(HG_Create(info->context, addr, bulk_move_id, &there));
    HG_CHECK_OK(HG_Addr_free(info->hg_class, addr));
    HG_CHECK_OK(HG_Forward(there, bulk_passed, passing, &move));
}

static struct bulk_passing *bulk_new_passing(hg_handle_t handle)
{
    struct bulk_passing *passing =
        (struct bulk_passing *) calloc(1, sizeof(*passing));

    HG_CHECK(passing != NULL);
    passing->caller = handle;
    return passing;
}

/* Call this process with the same input. */
static hg_return_t bulk_pass(hg_handle_t handle, const bulk_move_t *in)
{
    struct bulk_passing *passing = bulk_new_passing(handle);
    hg_addr_t self;

    passing->in = *in;
    HG_CHECK_OK(HG_Addr_self(HG_Get_info(handle)->hg_class, &self));
    bulk_pass_to(passing, self, in->bulk);
    return HG_SUCCESS;
}

static hg_return_t bulk_move(hg_handle_t handle)
{
    bulk_move_t in;
    struct bulk_job *job;
    hg_return_t ret;

    HG_CHECK_OK(HG_Get_input(handle, &in));
    if (in.how == BULK_PASS)
        return bulk_pass(handle, &in);
    HG_CHECK_OK(HG_Free_input(handle, &in));
    job = bulk_new_job(handle);
    in = job->in;
    if (in.how < BULK_EARLY) /* as in Mercury's test: the memory is separate */
        HG_CHECK_OK(HG_Bulk_ref_incr(in.bulk));
    ret = bulk_start(job, in.bulk);
    HG_CHECK_OK(HG_Free_input(handle, &in));
    if (ret == HG_SUCCESS) {
        bulk_interfere(job);
        return HG_SUCCESS;
    }
    if (job->in.how < BULK_EARLY)
        HG_CHECK_OK(HG_Bulk_free(job->in.bulk));
    HG_CHECK_OK(HG_Bulk_free(job->local));
    bulk_answer(job, ret);
    return HG_SUCCESS;
}

/* ---- The process between ---- */

/* Pass the caller's handle on to another process. */
static hg_return_t bulk_hand_on(hg_handle_t handle)
{
    struct bulk_passing *passing = bulk_new_passing(handle);
    hg_addr_t addr;

    passing->to_third = true;
    HG_CHECK_OK(HG_Get_input(handle, &passing->third));
    HG_CHECK_OK(HG_Addr_lookup2(
        HG_Get_info(handle)->hg_class, passing->third.name, &addr));
    passing->in.size = passing->third.size;
    bulk_pass_to(passing, addr, passing->third.bulk);
    return HG_SUCCESS;
}

/* ---- Memory of the target ---- */

static hg_bulk_t bulk_exposed = HG_BULK_NULL;

/* Return a handle of our own, or free it. */
static hg_return_t bulk_expose(hg_handle_t handle)
{
    bulk_expose_t out;
    hg_size_t size = BULK_LONG;

    HG_CHECK_OK(HG_Bulk_create(HG_Get_info(handle)->hg_class, 1, NULL, &size,
        HG_BULK_READWRITE, &bulk_exposed));
    out.bulk = bulk_exposed;
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

static hg_return_t bulk_end(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Bulk_free(bulk_exposed));
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

static void cb_register(hg_class_t *hg_class)
{
    bulk_expose_id = MERCURY_REGISTER(
        hg_class, "bulk lend", void, bulk_expose_t, bulk_expose);
    bulk_end_id = MERCURY_REGISTER(hg_class, "bulk end", void, void, bulk_end);
    bulk_move_id = MERCURY_REGISTER(
        hg_class, "bulk move", bulk_move_t, bulk_moved_t, bulk_move);
    bulk_third_id = MERCURY_REGISTER(
        hg_class, "bulk third", bulk_third_t, bulk_moved_t, bulk_hand_on);
    HG_CHECK(bulk_move_id != 0 && bulk_third_id != 0 && bulk_expose_id != 0 &&
        bulk_end_id != 0);
}

/* ---- The origin ---- */

#define BULK_SEGMENTS 1024u

/* Memory in segments of one size, with a byte between them. */
struct bulk_memory {
    uint32_t count;
    hg_size_t size; /* of all */
    void *ptrs[BULK_SEGMENTS];
    hg_size_t sizes[BULK_SEGMENTS];
    unsigned char *bytes;
    hg_bulk_t bulk;
};

static void bulk_make(struct bulk_memory *memory, const struct cb_end *end,
    uint32_t count, size_t size, uint8_t flags)
{
    size_t at = 0;
    uint32_t i;
    size_t k;

    memory->count = count;
    memory->size = (hg_size_t) count * size;
    memory->bytes = (unsigned char *) calloc(count, size + 1);
    HG_CHECK(memory->bytes != NULL && count <= BULK_SEGMENTS);
    for (i = 0; i < count; i++) {
        memory->sizes[i] = size;
        memory->ptrs[i] = size > 0 ? memory->bytes + i * (size + 1) : NULL;
        for (k = 0; k < size; k++)
            memory->bytes[i * (size + 1) + k] = blob_byte(at++);
    }
    HG_CHECK_OK(HG_Bulk_create(end->hg_class, count, memory->ptrs,
        memory->sizes, flags, &memory->bulk));
    HG_CHECK_EQ_U64(HG_Bulk_get_size(memory->bulk), memory->size);
    HG_CHECK_EQ_U64(HG_Bulk_get_segment_count(memory->bulk), count);
    HG_CHECK_EQ_INT(HG_Bulk_get_flags(memory->bulk), flags);
}

static void bulk_free(struct bulk_memory *memory)
{
    HG_CHECK_OK(HG_Bulk_free(memory->bulk));
    free(memory->bytes);
}

/* The data a target that pulled should have. */
static uint64_t bulk_want(const bulk_move_t *in)
{
    size_t size = (size_t) (in->local_offset + in->size);
    unsigned char *bytes = (unsigned char *) calloc(1, size > 0 ? size : 1);
    uint64_t sum;
    size_t i;

    HG_CHECK(bytes != NULL);
    for (i = 0; i < in->size; i++)
        bytes[in->local_offset + i] = blob_byte((size_t) in->origin_offset + i);
    sum = blob_sum(bytes, size);
    free(bytes);
    return sum;
}

/* Let the target pull it; returns the target's result. */
static hg_return_t bulk_pull(const struct cb_end *end,
    const struct bulk_memory *memory, enum bulk_how how, size_t size,
    size_t origin_offset, size_t local_offset)
{
    bulk_move_t in = {
        memory->bulk, (uint8_t) how, 0, origin_offset, local_offset, size};
    bulk_moved_t out = {-1, 0};

    HG_CHECK_OK(cb_call(end, bulk_move_id, &in, &out));
    if (out.ret == HG_SUCCESS)
        HG_CHECK_EQ_U64(out.sum, bulk_want(&in));
    return (hg_return_t) out.ret;
}

/* ---- Layouts ---- */

HG_TEST(cb_bulk_of_zero_length_segments)
{
    struct bulk_memory memory;
    struct cb_end end;

    cb_open(&end);
    bulk_make(&memory, &end, 2, 0, HG_BULK_READ_ONLY);
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_PLAIN, 0, 0, 0));
    bulk_free(&memory);
    bulk_make(&memory, &end, 1, 0, HG_BULK_READ_ONLY);
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_PLAIN, 0, 0, 0));
    bulk_free(&memory);
    cb_close(&end);
}

HG_TEST(cb_bulk_transfer_of_size_0)
{
    struct bulk_memory memory;
    struct cb_end end;

    cb_open(&end);
    bulk_make(&memory, &end, 1, BULK_SIZE, HG_BULK_READ_ONLY);
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_PLAIN, 0, 0, 0));
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_PLAIN, 0, BULK_SIZE, 7));
    bulk_free(&memory);
    cb_close(&end);
}

HG_TEST(cb_bulk_moves_the_layouts_of_mercurys_tests)
{
    static const struct {
        uint32_t count;
        size_t size;
    } shapes[] = {
        {1, BULK_SIZE}, {16, BULK_SIZE / 16}, {1024, BULK_SIZE / 1024}};
    struct bulk_memory memory;
    struct cb_end end;
    unsigned i;

    cb_open(&end);
    for (i = 0; i < 3; i++) {
        bulk_make(
            &memory, &end, shapes[i].count, shapes[i].size, HG_BULK_READ_ONLY);
        HG_CHECK_OK(bulk_pull(&end, &memory, BULK_PLAIN, BULK_SIZE, 0, 0));
        HG_CHECK_OK(bulk_pull(
            &end, &memory, BULK_PLAIN, BULK_SIZE / 4, BULK_SIZE / 2 + 1, 0));
        HG_CHECK_OK(bulk_pull(&end, &memory, BULK_PLAIN, BULK_SIZE / 8,
            BULK_SIZE / 2 + 1, BULK_SIZE / 4));
        HG_CHECK_OK(bulk_pull(&end, &memory, BULK_EARLY, BULK_SIZE, 0, 0));
        bulk_free(&memory);
    }
    bulk_make(&memory, &end, 2, 8, HG_BULK_READ_ONLY);
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_PLAIN, 16, 0, 0));
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_PLAIN, 8, 8, 0));
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_PLAIN, 8, 4, 2));
    bulk_free(&memory);
    cb_close(&end);
}

HG_TEST(cb_bulk_push_writes_between_the_gaps)
{
    struct bulk_memory memory;
    struct cb_end end;
    bulk_move_t in;
    bulk_moved_t out = {-1, 0};
    size_t i;

    cb_open(&end);
    bulk_make(&memory, &end, 16, 100, HG_BULK_WRITE_ONLY);
    memset(&in, 0, sizeof(in));
    in.bulk = memory.bulk;
    in.push = 1;
    in.origin_offset = 50;
    in.size = 1500;
    HG_CHECK_OK(cb_call(&end, bulk_move_id, &in, &out));
    HG_CHECK_OK(out.ret);
    for (i = 0; i < 16 * 101; i++) {
        size_t logical = i / 101 * 100 + i % 101;
        int want = i % 101 == 100             ? 0
            : logical >= 50 && logical < 1550 ? 0x5a
                                              : blob_byte(logical);

        HG_CHECK_EQ_INT(memory.bytes[i], want);
    }
    bulk_free(&memory);
    cb_close(&end);
}

HG_TEST(cb_bulk_large_data)
{
    struct bulk_memory memory;
    struct cb_end end;

    cb_open(&end);
    bulk_make(&memory, &end, 3, (size_t) 3 << 20, HG_BULK_READ_ONLY);
    HG_CHECK_OK(
        bulk_pull(&end, &memory, BULK_PLAIN, (size_t) 8 << 20, 12345, 77));
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_EARLY, (size_t) 9 << 20, 0, 0));
    bulk_free(&memory);
    cb_close(&end);
}

/* ---- Canceling and freeing ---- */

static void bulk_try_cancel(
    const struct cb_end *end, const struct bulk_memory *memory, unsigned turns)
{
    bulk_move_t in = {
        memory->bulk, BULK_CANCEL, 0, turns, 0, BULK_LONG - turns};
    bulk_moved_t out = {-1, 0};

    HG_CHECK_OK(cb_call(end, bulk_move_id, &in, &out));
    if (end->peer == NULL)
        HG_CHECK_OK(out.ret);
    else if (turns == 0 || out.ret != HG_SUCCESS)
        HG_CHECK_RET(out.ret, HG_CANCELED);
    if (out.ret == HG_SUCCESS)
        HG_CHECK_EQ_U64(out.sum, bulk_want(&in));
}

HG_TEST(cb_bulk_cancel_ends_a_transfer_in_flight)
{
    struct bulk_memory memory;
    struct cb_end end;
    unsigned turns;

    cb_open(&end);
    bulk_make(&memory, &end, 4, BULK_LONG / 4, HG_BULK_READ_ONLY);
    for (turns = 0; turns < 12; turns += getenv("HG_TEST_FULL") != NULL ? 1 : 4)
        bulk_try_cancel(&end, &memory, turns);
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_PLAIN, BULK_SIZE, 0, 0));
    bulk_free(&memory);
    cb_close(&end);
}

/* No data is written to memory whose handle the application has freed. */
HG_TEST(cb_bulk_last_free_releases_the_local_memory)
{
    struct bulk_memory memory;
    struct cb_end end;
    bulk_move_t in;
    bulk_moved_t out = {-1, 0};
    unsigned char *want;

    cb_open(&end);
    bulk_make(&memory, &end, 1, BULK_LONG, HG_BULK_READ_ONLY);
    memset(&in, 0, sizeof(in));
    in.bulk = memory.bulk;
    in.how = BULK_DROP;
    in.size = BULK_LONG;
    HG_CHECK_OK(cb_call(&end, bulk_move_id, &in, &out));
    if (end.peer == NULL)
        HG_CHECK_OK(out.ret);
    else
        HG_CHECK_RET(out.ret, HG_CANCELED);
    want = (unsigned char *) malloc(BULK_LONG);
    HG_CHECK(want != NULL);
    memset(want, 0xee, BULK_LONG);
    HG_CHECK_EQ_U64(out.sum, blob_sum(want, BULK_LONG));
    free(want);
    bulk_free(&memory);
    cb_close(&end);
}

struct bulk_own {
    unsigned ends;
    hg_return_t ret;
    hg_bulk_t bulk[2];
};

static hg_return_t bulk_own_ended(const struct hg_cb_info *info)
{
    struct bulk_own *own = (struct bulk_own *) info->arg;

    HG_CHECK(cb_triggering > 0);
    HG_CHECK_EQ_INT(own->ends++, 0);
    own->ret = info->ret;
    own->bulk[0] = info->info.bulk.origin_handle;
    own->bulk[1] = info->info.bulk.local_handle;
    return HG_OTHER_ERROR; /* its value is ignored */
}

HG_TEST(cb_bulk_handles_live_as_long_as_their_references)
{
    hg_size_t size = 1000;
    struct bulk_own own = {0, HG_RETURN_MAX, {NULL, NULL}};
    struct cb_end end;
    hg_bulk_t from;
    hg_bulk_t to;
    hg_addr_t self;
    hg_op_id_t op_id = HG_OP_ID_NULL;
    unsigned turns = 0;

    cb_open(&end);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    HG_CHECK_OK(
        HG_Bulk_create(end.hg_class, 1, NULL, &size, HG_BULK_READ_ONLY, &from));
    HG_CHECK_OK(
        HG_Bulk_create(end.hg_class, 1, NULL, &size, HG_BULK_WRITE_ONLY, &to));
    HG_CHECK_OK(HG_Bulk_ref_incr(from));
    HG_CHECK_OK(HG_Bulk_free(from));
    HG_CHECK_OK(HG_Bulk_transfer(end.context, bulk_own_ended, &own,
        HG_BULK_PULL, self, from, 0, to, 0, size, &op_id));
    HG_CHECK(op_id != HG_OP_ID_NULL);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    HG_CHECK_OK(HG_Bulk_free(from));
    HG_CHECK_OK(HG_Bulk_free(to));
    HG_CHECK_EQ_INT(own.ends, 0);  /* not in the call */
    hg_test_expect_log("is left"); /* the transfer holds references */
    HG_CHECK_RET(HG_Finalize(end.hg_class), HG_BUSY);
    while (own.ends == 0) {
        HG_CHECK(turns++ < CB_TIMEOUT);
        (void) cb_turn(end.context, 1);
    }
    HG_CHECK_OK(own.ret);
    HG_CHECK(own.bulk[0] == from && own.bulk[1] == to);
    HG_CHECK_OK(HG_Bulk_cancel(op_id));
    HG_CHECK_OK(HG_Bulk_cancel((hg_op_id_t) (uintptr_t) 0x12345678));
    cb_close(&end);
}

/* Operations for another thread to cancel: the latest one started; 0: none. */
static _Atomic uintptr_t bulk_victim;
static _Atomic bool bulk_stop;

static void *bulk_cancel_all(void *arg)
{
    unsigned *done = (unsigned *) arg;

    while (!atomic_load(&bulk_stop)) {
        uintptr_t victim = atomic_load(&bulk_victim);

        if (victim == 0)
            continue;
        HG_CHECK_OK(HG_Bulk_cancel((hg_op_id_t) victim));
        *done += 1;
    }
    return NULL;
}

/* Each completes once, however it ends and whoever owns it. */
HG_TEST(cb_bulk_cancel_from_another_thread)
{
    enum { ROUNDS = 50 };
    hg_size_t size = BULK_LONG / 2;
    unsigned canceled = 0;
    unsigned cancels = 0;
    bulk_expose_t lent;
    struct cb_end end;
    hg_handle_t handle;
    hg_bulk_t local;
    pthread_t thread;
    unsigned i;

    cb_open(&end);
    handle = cb_new_handle(&end, bulk_expose_id);
    HG_CHECK_OK(cb_do(&end, handle, NULL, &lent));
    HG_CHECK_OK(HG_Bulk_create(
        end.hg_class, 1, NULL, &size, HG_BULK_READWRITE, &local));
    HG_CHECK(pthread_create(&thread, NULL, bulk_cancel_all, &cancels) == 0);
    for (i = 0; i < ROUNDS; i++) {
        struct bulk_own own = {0, HG_RETURN_MAX, {NULL, NULL}};
        hg_op_id_t op_id = HG_OP_ID_NULL;
        unsigned turns = 0;

        HG_CHECK_OK(HG_Bulk_transfer(end.context, bulk_own_ended, &own,
            i % 2 == 0 ? HG_BULK_PULL : HG_BULK_PUSH, end.target, lent.bulk, i,
            local, 0, size, &op_id));
        atomic_store(&bulk_victim, (uintptr_t) op_id);
        while (own.ends == 0) {
            HG_CHECK(turns++ < CB_TIMEOUT);
            (void) cb_turn(end.context, 1);
        }
        HG_CHECK(own.ret == HG_SUCCESS || own.ret == HG_CANCELED);
        canceled += own.ret == HG_CANCELED;
    }
    atomic_store(&bulk_stop, true);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK(end.peer != NULL || canceled == 0);
    HG_CHECK_OK(HG_Bulk_free(local));
    HG_CHECK_OK(HG_Free_output(handle, &lent));
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(cb_call(&end, bulk_end_id, NULL, NULL));
    cb_close(&end);
}

/* ---- Bound handles ---- */

HG_TEST(cb_bulk_bound_handle_is_enough)
{
    struct bulk_memory memory;
    struct cb_end end;
    hg_addr_t self;

    cb_open(&end);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    bulk_make(&memory, &end, 16, BULK_SIZE / 16, HG_BULK_READ_ONLY);
    HG_CHECK(HG_Bulk_get_addr(memory.bulk) == HG_ADDR_NULL);
    HG_CHECK_OK(HG_Bulk_bind(memory.bulk, end.context));
    HG_CHECK(HG_Addr_cmp(end.hg_class, HG_Bulk_get_addr(memory.bulk), self));
    hg_test_expect_log("bound already");
    HG_CHECK_RET(HG_Bulk_bind(memory.bulk, end.context), HG_INVALID_ARG);
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_BOUND, BULK_SIZE, 0, 0));
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_BOUND, BULK_SIZE / 8,
        BULK_SIZE / 2 + 1, BULK_SIZE / 4));
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_PASS, BULK_SIZE, 0, 0));
    bulk_free(&memory);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    cb_close(&end);
}

/* An endpoint that does not listen. */
static void bulk_open_mute(struct cb_end *end)
{
    char *string = hg_test_listen_string();

    memset(end, 0, sizeof(*end));
    strstr(string, "://")[3] = '\0';
    end->na_class = NA_Initialize(string, NA_FALSE);
    HG_CHECK(end->na_class != NULL);
    free(string);
}

static hg_return_t bulk_ask_third(
    const struct cb_end *end, hg_bulk_t bulk, char *name, size_t size)
{
    bulk_third_t in = {bulk, name, size};
    bulk_moved_t out = {-1, 0};
    bulk_move_t moved;

    HG_CHECK_OK(cb_call(end, bulk_third_id, &in, &out));
    memset(&moved, 0, sizeof(moved));
    moved.size = size;
    if (out.ret == HG_SUCCESS)
        HG_CHECK_EQ_U64(out.sum, bulk_want(&moved));
    return (hg_return_t) out.ret;
}

/* This process exposes memory, a second one forwards the handle, a third one
 * pulls. */
HG_TEST_WHERE(
    cb_bulk_bound_handle_works_from_a_third_process, hg_test_crosses_processes)
{
    struct bulk_memory memory;
    struct hg_test_peer *third;
    struct cb_end end;
    char *name;

    cb_open(&end);
    third = hg_test_spawn("server", "1", (char *) NULL);
    name = hg_test_read_peer(third);
    bulk_make(&memory, &end, 16, BULK_SIZE / 16, HG_BULK_READ_ONLY);
    HG_CHECK_OK(HG_Bulk_bind(memory.bulk, end.context));
    HG_CHECK_OK(bulk_ask_third(&end, memory.bulk, name, BULK_SIZE));
    /* It is connected now. */
    HG_CHECK_OK(bulk_ask_third(&end, memory.bulk, name, 10));
    bulk_free(&memory);
    free(name);
    cb_close(&end);
    hg_test_stop(third);
}

/* A class that does not listen can be reached by the peers it called, and by
 * others where its address is enough. */
HG_TEST_WHERE(cb_bulk_bound_handle_of_a_class_that_does_not_listen,
    hg_test_crosses_processes)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct bulk_memory memory;
    struct hg_test_peer *third;
    struct cb_end end;
    char *name;

    bulk_open_mute(&end);
    info.na_class = end.na_class;
    end.hg_class = HG_Init_opt(NULL, HG_FALSE, &info);
    HG_CHECK(end.hg_class != NULL);
    end.contexts[0] = HG_Context_create(end.hg_class);
    HG_CHECK(end.contexts[0] != NULL);
    end.count = 1;
    end.context = end.contexts[0];
    cb_register(end.hg_class);
    end.peer = hg_test_spawn("server", "1", (char *) NULL);
    cb_find_peer(&end);
    third = hg_test_spawn("server", "1", (char *) NULL);
    name = hg_test_read_peer(third);
    bulk_make(&memory, &end, 1, BULK_SIZE, HG_BULK_READ_ONLY);
    HG_CHECK_OK(HG_Bulk_bind(memory.bulk, end.context));
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_BOUND, BULK_SIZE, 0, 0));
    HG_CHECK_OK(bulk_pull(&end, &memory, BULK_PASS, BULK_SIZE, 0, 0));
    HG_CHECK_RET(bulk_ask_third(&end, memory.bulk, name, BULK_SIZE),
        hg_test_finds_callers() ? HG_SUCCESS : HG_HOSTUNREACH);
    bulk_free(&memory);
    free(name);
    cb_close(&end);
    hg_test_stop(third);
}

/* ---- Serialized handles ---- */

HG_TEST(cb_bulk_handle_round_trips_through_bytes)
{
    unsigned char bytes[1024];
    hg_size_t sizes[2] = {100, 200};
    struct cb_end end;
    hg_bulk_t bulk;
    hg_bulk_t again = HG_BULK_NULL;
    hg_size_t size;
    void *ptr[2];

    cb_open(&end);
    HG_CHECK_OK(
        HG_Bulk_create(end.hg_class, 2, NULL, sizes, HG_BULK_READWRITE, &bulk));
    size = HG_Bulk_get_serialize_size(bulk, 0);
    HG_CHECK(size > 0 && size < sizeof(bytes));
    memset(bytes, 0xff, sizeof(bytes));
    HG_CHECK_OK(HG_Bulk_serialize(bytes, size, 0, bulk));
    HG_CHECK_EQ_INT(bytes[size], 0xff);
    HG_CHECK_OK(
        HG_Bulk_deserialize(end.hg_class, &again, bytes, sizeof(bytes)));
    HG_CHECK(again != bulk);
    HG_CHECK_EQ_U64(HG_Bulk_get_size(again), 300);
    HG_CHECK_OK(HG_Bulk_access(bulk, 150, 1, 0, 1, &ptr[0], NULL, NULL));
    HG_CHECK_OK(HG_Bulk_access(again, 150, 1, 0, 1, &ptr[1], NULL, NULL));
    HG_CHECK(ptr[0] == ptr[1]); /* both are in this process */
    hg_test_expect_log("are too few");
    HG_CHECK_RET(HG_Bulk_serialize(bytes, size - 1, 0, bulk), HG_OVERFLOW);
    hg_test_expect_log("are not a bulk handle");
    HG_CHECK_RET(HG_Bulk_deserialize(end.hg_class, &again, bytes + 1, size),
        HG_PROTOCOL_ERROR);
    HG_CHECK_OK(HG_Bulk_free(again));
    HG_CHECK_OK(HG_Bulk_free(bulk));
    cb_close(&end);
}

HG_TEST(cb_bulk_access_returns_the_segments)
{
    hg_size_t sizes[4] = {10, 0, 20, 30};
    hg_size_t got[4];
    void *ptrs[4];
    uint32_t count = 77;
    struct cb_end end;
    hg_bulk_t bulk;
    size_t i;

    cb_open(&end);
    HG_CHECK_OK(
        HG_Bulk_create(end.hg_class, 4, NULL, sizes, HG_BULK_READ_ONLY, &bulk));
    HG_CHECK_OK(HG_Bulk_access(bulk, 0, 0, 0, 4, ptrs, got, &count));
    HG_CHECK_OK(HG_Bulk_access(bulk, 0, 60, 0, 0, ptrs, got, &count));
    HG_CHECK_EQ_INT(count, 77); /* nothing was written */
    HG_CHECK_OK(
        HG_Bulk_access(bulk, 5, 50, HG_BULK_READWRITE, 4, ptrs, got, &count));
    HG_CHECK_EQ_INT(count, 3);
    HG_CHECK_EQ_U64(got[0], 5);
    HG_CHECK_EQ_U64(got[1], 20);
    HG_CHECK_EQ_U64(got[2], 25);
    for (i = 0; i < got[2]; i++) /* memory of the library is zeroed */
        HG_CHECK_EQ_INT(((unsigned char *) ptrs[2])[i], 0);
    HG_CHECK_OK(HG_Bulk_access(bulk, 5, 50, 0, 2, ptrs, NULL, &count));
    HG_CHECK_EQ_INT(count, 2);
    HG_CHECK_OK(HG_Bulk_access(bulk, 5, 50, 0, 4, NULL, NULL, NULL));
    hg_test_expect_log("out of range");
    HG_CHECK_RET(
        HG_Bulk_access(bulk, 5, 56, 0, 4, ptrs, got, &count), HG_OVERFLOW);
    HG_CHECK_OK(HG_Bulk_free(bulk));
    cb_close(&end);
}

/* ---- Out of memory ---- */

static const struct cb_end *bulk_starved;

/* Returns 0, or the code of the object that could not be allocated. */
static int bulk_play(void *arg)
{
    const struct cb_end *end = bulk_starved;
    struct bulk_own own = {0, HG_RETURN_MAX, {NULL, NULL}};
    unsigned char bytes[256];
    hg_size_t sizes[20];
    hg_bulk_t bulk[3] = {NULL, NULL, NULL};
    hg_op_id_t op_id = HG_OP_ID_NULL;
    hg_return_t ret;
    unsigned i;

    (void) arg;
    for (i = 0; i < 20; i++) /* more than can be reported without memory */
        sizes[i] = i;
    ret = HG_Bulk_create(
        end->hg_class, 20, NULL, sizes, HG_BULK_READ_ONLY, &bulk[0]);
    if (ret == HG_SUCCESS)
        ret = HG_Bulk_create(
            end->hg_class, 20, NULL, sizes, HG_BULK_WRITE_ONLY, &bulk[1]);
    if (ret == HG_SUCCESS)
        ret = HG_Bulk_serialize(bytes, sizeof(bytes), 0, bulk[0]);
    if (ret == HG_SUCCESS)
        ret =
            HG_Bulk_deserialize(end->hg_class, &bulk[2], bytes, sizeof(bytes));
    if (ret == HG_SUCCESS)
        ret = HG_Bulk_transfer(end->context, bulk_own_ended, &own, HG_BULK_PULL,
            end->target, bulk[2], 0, bulk[1], 0, 190, &op_id);
    if (ret == HG_SUCCESS) {
        while (own.ends == 0)
            (void) cb_turn(end->context, 0);
        ret = own.ret;
    }
    for (i = 0; i < 3; i++)
        HG_CHECK_OK(HG_Bulk_free(bulk[i]));
    HG_CHECK_EQ_INT(own.ends, op_id != HG_OP_ID_NULL ? 1 : 0);
    return (int) ret;
}

HG_TEST_WHERE(cb_bulk_fails_cleanly_without_memory, hg_test_is_self)
{
    struct cb_end end;

    hg_test_alloc_install();
    cb_open(&end);
    bulk_starved = &end;
    /* Memory that the class keeps is now allocated. */
    HG_CHECK_OK(bulk_play(NULL));
    HG_CHECK(hg_test_oom_loop(bulk_play, NULL) > 10);
    cb_close(&end);
}

/* ---- Mistakes ---- */

HG_TEST(cb_bulk_invalid_arguments_of_handles)
{
    struct hg_bulk_attr attr = {HG_MEM_TYPE_HOST, 0};
    hg_size_t size = 10;
    struct cb_end end;
    hg_bulk_t bulk = HG_BULK_NULL;
    unsigned char bytes[8];

    hg_test_allow_log("");
    cb_open(&end);
    HG_CHECK_RET(HG_Bulk_create(NULL, 1, NULL, &size, HG_BULK_READWRITE, &bulk),
        HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Bulk_create(end.hg_class, 0, NULL, &size, HG_BULK_READWRITE, &bulk),
        HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Bulk_create(end.hg_class, 1, NULL, NULL, HG_BULK_READWRITE, &bulk),
        HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Bulk_create(end.hg_class, 1, NULL, &size, 0, &bulk), HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Bulk_create(end.hg_class, 1, NULL, &size, HG_BULK_READWRITE, NULL),
        HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_create_attr(end.hg_class, 1, NULL, &size,
                     HG_BULK_READWRITE, NULL, &bulk),
        HG_INVALID_ARG);
    attr.mem_type = HG_MEM_TYPE_CUDA;
    HG_CHECK_RET(HG_Bulk_create_attr(end.hg_class, 1, NULL, &size,
                     HG_BULK_READWRITE, &attr, &bulk),
        HG_OPNOTSUPPORTED);
    HG_CHECK(bulk == HG_BULK_NULL);
    attr.mem_type = HG_MEM_TYPE_HOST;
    HG_CHECK_OK(HG_Bulk_create_attr(
        end.hg_class, 1, NULL, &size, HG_BULK_READWRITE, &attr, &bulk));
    HG_CHECK_OK(HG_Bulk_free(HG_BULK_NULL));
    HG_CHECK_RET(HG_Bulk_ref_incr(HG_BULK_NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_bind(HG_BULK_NULL, end.context), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_bind(bulk, NULL), HG_INVALID_ARG);
    HG_CHECK(HG_Bulk_get_addr(HG_BULK_NULL) == HG_ADDR_NULL);
    HG_CHECK_EQ_INT(HG_Bulk_get_context_id(HG_BULK_NULL), 0);
    HG_CHECK_RET(HG_Bulk_access(HG_BULK_NULL, 0, 1, 0, 1, NULL, NULL, NULL),
        HG_INVALID_ARG);
    HG_CHECK_EQ_U64(HG_Bulk_get_size(HG_BULK_NULL), 0);
    HG_CHECK_EQ_U64(HG_Bulk_get_segment_count(HG_BULK_NULL), 0);
    HG_CHECK_EQ_INT(HG_Bulk_get_flags(HG_BULK_NULL), 0);
    HG_CHECK_EQ_U64(HG_Bulk_get_serialize_size(HG_BULK_NULL, 0), 0);
    HG_CHECK_RET(HG_Bulk_serialize(bytes, 8, 0, HG_BULK_NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_serialize(NULL, 8, 0, bulk), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_deserialize(NULL, &bulk, bytes, 8), HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Bulk_deserialize(end.hg_class, NULL, bytes, 8), HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Bulk_deserialize(end.hg_class, &bulk, NULL, 8), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_cancel(HG_OP_ID_NULL), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Bulk_free(bulk));
    cb_close(&end);
}

/* Of two mistakes the one that Mercury reports is reported. */
HG_TEST(cb_bulk_invalid_arguments_of_transfers)
{
    hg_size_t size = 100;
    struct cb_end end;
    struct cb_end other;
    hg_bulk_t bulk[4]; /* for reading, for writing, bound, of another class */
    hg_addr_t self;
    hg_op_id_t op_id = HG_OP_ID_NULL;
    unsigned i;

    cb_open(&end);
    cb_start(&other, 1);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    for (i = 0; i < 4; i++)
        HG_CHECK_OK(HG_Bulk_create(i < 3 ? end.hg_class : other.hg_class, 1,
            NULL, &size, i == 0 ? HG_BULK_READ_ONLY : HG_BULK_WRITE_ONLY,
            &bulk[i]));
    HG_CHECK_OK(HG_Bulk_bind(bulk[2], end.context));
    {
        const struct {
            const char *log;
            hg_context_t *context;
            hg_addr_t addr;
            hg_bulk_t origin;
            hg_size_t origin_offset;
            hg_bulk_t local;
            hg_size_t local_offset;
            hg_return_t ret;
        } wrong[] = {
            {"the context is NULL", NULL, NULL, NULL, 0, NULL, 0,
                HG_INVALID_ARG},
            {"the origin's handle is NULL", end.context, self, NULL, 0, NULL, 0,
                HG_INVALID_ARG},
            {"past the end of the origin's", end.context, self, bulk[0], 91,
                bulk[1], 91, HG_INVALID_ARG},
            {NULL, end.context, self, bulk[0], UINT64_MAX, bulk[1], 91,
                HG_INVALID_ARG},
            {"the origin's handle is bound", end.context, NULL, bulk[2], 0,
                NULL, 91, HG_INVALID_ARG},
            {"the address is NULL", end.context, NULL, bulk[1], 0, NULL, 91,
                HG_INVALID_ARG},
            {"the local handle is NULL", end.context, self, bulk[1], 0, NULL,
                91, HG_INVALID_ARG},
            {"past the end of the local", end.context, self, bulk[0], 0,
                bulk[1], 91, HG_INVALID_ARG},
            {"forbidden by the flags", end.context, self, bulk[1], 0, bulk[1],
                0, HG_PERMISSION},
            {NULL, end.context, self, bulk[0], 0, bulk[0], 0, HG_PERMISSION},
            {"address are of different classes", end.context, self, bulk[0], 0,
                bulk[3], 0, HG_INVALID_ARG},
            {NULL, other.context, self, bulk[0], 0, bulk[1], 0, HG_INVALID_ARG},
        };

        for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
            if (wrong[i].log != NULL) /* else the same line as before */
                hg_test_expect_log(wrong[i].log);
            HG_CHECK_RET(HG_Bulk_transfer(wrong[i].context, bulk_own_ended,
                             NULL, HG_BULK_PULL, wrong[i].addr, wrong[i].origin,
                             wrong[i].origin_offset, wrong[i].local,
                             wrong[i].local_offset, 10, &op_id),
                wrong[i].ret);
        }
    }
    hg_test_expect_log("is not bound");
    HG_CHECK_RET(HG_Bulk_bind_transfer(end.context, bulk_own_ended, NULL,
                     HG_BULK_PULL, bulk[0], 0, bulk[1], 0, 10, &op_id),
        HG_INVALID_ARG);
    hg_test_expect_log("handle and context are of different classes");
    HG_CHECK_RET(HG_Bulk_bind(bulk[3], end.context), HG_INVALID_ARG);
    HG_CHECK(op_id == HG_OP_ID_NULL);
    HG_CHECK_EQ_INT(cb_turn(end.context, 1), 0);
    for (i = 0; i < 4; i++)
        HG_CHECK_OK(HG_Bulk_free(bulk[i]));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    cb_end(&other);
    cb_close(&end);
}
