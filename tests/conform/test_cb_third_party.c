/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unbound bulk handles passed on, in the callback model: one process owns
 * memory and returns a handle, this process passes it on, and a third one moves
 * the data, using the owner's address. On every transport that reaches other
 * processes.
 */
#include "cb.h"

#include <signal.h>
#include <sys/wait.h>

#define THIRD_SIZE 65536u
#define THIRD_CALLERS "caller" /* an owner\'s name: the caller */

MERCURY_GEN_PROC(
    third_expose_t, ((uint32_t) (count))((uint64_t) (size))((uint8_t) (flags)))
MERCURY_GEN_PROC(third_exposed_t, ((hg_bulk_t) (bulk)))
/* `via`: an address to pass the handle on to first, or "". */
MERCURY_GEN_PROC(third_move_t,
    ((hg_bulk_t) (bulk))((hg_string_t) (owner))((hg_string_t) (via))(
        (uint8_t) (push))((uint64_t) (offset))((uint64_t) (size)))
MERCURY_GEN_PROC(third_moved_t,
    ((int32_t) (ret))((uint64_t) (sum))((uint64_t) (whole))(
        (uint32_t) (segments))((uint8_t) (flags)))

static hg_id_t third_expose_id, third_free_id, third_move_id;

/* ---- The owner ---- */

static hg_bulk_t third_exposed = HG_BULK_NULL;

/* Return a handle of new memory in segments of one size. */
static hg_return_t third_expose(hg_handle_t handle)
{
    hg_size_t sizes[1024];
    void *ptrs[1024];
    third_expose_t in;
    third_exposed_t out;
    uint32_t count = 0;
    uint32_t i;
    size_t at = 0;
    size_t k;

    HG_CHECK_OK(HG_Get_input(handle, &in));
    HG_CHECK(in.count <= 1024);
    for (i = 0; i < in.count; i++)
        sizes[i] = in.size;
    HG_CHECK_OK(HG_Bulk_create(HG_Get_info(handle)->hg_class, in.count, NULL,
        sizes, in.flags, &third_exposed));
    HG_CHECK_OK(HG_Bulk_access(
        third_exposed, 0, in.count * in.size, 0, 1024, ptrs, sizes, &count));
    for (i = 0; i < count; i++)
        for (k = 0; k < sizes[i]; k++)
            ((unsigned char *) ptrs[i])[k] = blob_byte(at++);
    out.bulk = third_exposed;
    HG_CHECK_OK(HG_Free_input(handle, &in));
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

static hg_return_t third_free(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Bulk_free(third_exposed));
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

/* ---- The third process ---- */

struct third_job {
    hg_handle_t handle;
    third_move_t in;
    hg_bulk_t local;
    unsigned char *memory;
};

static void third_answer(struct third_job *job, const third_moved_t *moved)
{
    third_moved_t out = *moved;

    if (job->local != HG_BULK_NULL)
        HG_CHECK_OK(HG_Bulk_free(job->local));
    HG_CHECK_OK(HG_Free_input(job->handle, &job->in));
    HG_CHECK_OK(HG_Respond(job->handle, NULL, NULL, &out));
    HG_CHECK_OK(HG_Destroy(job->handle));
    free(job->memory);
    free(job);
}

static hg_return_t third_ended(const struct hg_cb_info *info)
{
    struct third_job *job = (struct third_job *) info->arg;
    hg_bulk_t origin = job->in.bulk;
    third_moved_t out;

    out.ret = (int32_t) info->ret;
    out.sum = blob_sum(job->memory, (size_t) job->in.size);
    out.whole = HG_Bulk_get_size(origin);
    out.segments = HG_Bulk_get_segment_count(origin);
    out.flags = HG_Bulk_get_flags(origin);
    third_answer(job, &out);
    return HG_SUCCESS;
}

static hg_return_t third_start(struct third_job *job)
{
    const struct hg_info *info = HG_Get_info(job->handle);
    hg_size_t size = job->in.size;
    void *memory = calloc(1, (size_t) size + 1);
    hg_addr_t addr;
    hg_return_t ret;

    HG_CHECK(memory != NULL);
    job->memory = (unsigned char *) memory;
    if (job->in.push)
        memset(memory, 0x5a, (size_t) size);
    HG_CHECK_OK(HG_Bulk_create(
        info->hg_class, 1, &memory, &size, HG_BULK_READWRITE, &job->local));
    if (strcmp(job->in.owner, THIRD_CALLERS) == 0)
        ret = HG_Addr_dup(info->hg_class, info->addr, &addr);
    else
        ret = HG_Addr_lookup2(info->hg_class, job->in.owner, &addr);
    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Bulk_transfer(info->context, third_ended, job,
        job->in.push ? HG_BULK_PUSH : HG_BULK_PULL, addr, job->in.bulk,
        job->in.offset, job->local, 0, size, HG_OP_ID_IGNORE);
    HG_CHECK_OK(HG_Addr_free(info->hg_class, addr));
    return ret;
}

static hg_return_t third_returned(const struct hg_cb_info *info)
{
    struct third_job *job = (struct third_job *) info->arg;
    hg_handle_t handle = info->info.forward.handle;
    third_moved_t out;

    memset(&out, 0, sizeof(out));
    out.ret = (int32_t) info->ret;
    if (info->ret == HG_SUCCESS) {
        HG_CHECK_OK(HG_Get_output(handle, &out));
        HG_CHECK_OK(HG_Free_output(handle, &out));
    }
    third_answer(job, &out);
    return HG_Destroy(handle);
}

static hg_return_t third_forward(struct third_job *job)
{
    const struct hg_info *info = HG_Get_info(job->handle);
    third_move_t in = job->in;
    char nobody[] = "";
    hg_handle_t handle;
    hg_addr_t addr;

    HG_CHECK_OK(HG_Addr_lookup2(info->hg_class, in.via, &addr));
    HG_CHECK_OK(HG_Create(info->context, addr, third_move_id, &handle));
    HG_CHECK_OK(HG_Addr_free(info->hg_class, addr));
    in.via = nobody;
    return HG_Forward(handle, third_returned, job, &in);
}

static hg_return_t third_move(hg_handle_t handle)
{
    struct third_job *job = (struct third_job *) calloc(1, sizeof(*job));
    third_moved_t out;
    hg_return_t ret;

    HG_CHECK(job != NULL);
    job->handle = handle;
    ret = HG_Get_input(handle, &job->in);
    if (ret != HG_SUCCESS) { /* a forged handle */
        free(job);
        return ret;
    }
    ret = job->in.via[0] != '\0' ? third_forward(job) : third_start(job);
    if (ret == HG_SUCCESS)
        return HG_SUCCESS;
    memset(&out, 0, sizeof(out));
    out.ret = (int32_t) ret;
    third_answer(job, &out);
    return HG_SUCCESS;
}

static void cb_register(hg_class_t *hg_class)
{
    third_expose_id = MERCURY_REGISTER(
        hg_class, "pass lend", third_expose_t, third_exposed_t, third_expose);
    third_free_id =
        MERCURY_REGISTER(hg_class, "pass free", void, void, third_free);
    third_move_id = MERCURY_REGISTER(
        hg_class, "pass move", third_move_t, third_moved_t, third_move);
    HG_CHECK(third_expose_id != 0 && third_free_id != 0 && third_move_id != 0);
}

/* ---- The process between ---- */

/* The owner is end.peer. */
struct third_case {
    struct cb_end end;
    hg_addr_t owner_addr;
    char owner[NA_MAX_ADDR_LEN];
    struct hg_test_peer *third;
    hg_addr_t third_addr;
    char *third_name;
    hg_handle_t lend; /* its output holds the handle */
    third_exposed_t lent;
    third_expose_t shape;
};

static void third_open(struct third_case *c)
{
    hg_size_t size = sizeof(c->owner);

    memset(c, 0, sizeof(*c));
    cb_open(&c->end);
    c->owner_addr = c->end.target;
    HG_CHECK_OK(
        HG_Addr_to_string(c->end.hg_class, c->owner, &size, c->owner_addr));
    c->third = hg_test_spawn("server", "1", (char *) NULL);
    c->third_name = hg_test_read_peer(c->third);
    HG_CHECK_OK(NA_Addr_lookup_wait(
        c->end.na_class, c->third_name, CB_TIMEOUT, &c->third_addr));
}

static void third_close(struct third_case *c)
{
    c->end.target = c->owner_addr;
    HG_CHECK_OK(HG_Addr_free(c->end.hg_class, c->third_addr));
    free(c->third_name);
    cb_close(&c->end);
    hg_test_stop(c->third);
}

static void third_borrow(
    struct third_case *c, uint32_t count, size_t size, uint8_t flags)
{
    c->shape.count = count;
    c->shape.size = size;
    c->shape.flags = flags;
    c->end.target = c->owner_addr;
    c->lend = cb_new_handle(&c->end, third_expose_id);
    HG_CHECK_OK(cb_do(&c->end, c->lend, &c->shape, &c->lent));
}

static void third_forget(struct third_case *c)
{
    HG_CHECK_OK(HG_Free_output(c->lend, &c->lent));
    HG_CHECK_OK(HG_Destroy(c->lend));
}

static void third_return(struct third_case *c)
{
    third_forget(c);
    c->end.target = c->owner_addr;
    HG_CHECK_OK(cb_call(&c->end, third_free_id, NULL, NULL));
}

/* Let the third process move data, perhaps through another one. */
static hg_return_t third_ask(struct third_case *c, hg_bulk_t bulk,
    const char *owner, const char *via, bool push, third_moved_t *out,
    size_t offset, size_t size)
{
    char names[2][NA_MAX_ADDR_LEN];
    third_move_t in = {bulk, names[0], names[1], push, offset, size};

    (void) snprintf(names[0], sizeof(names[0]), "%s", owner);
    (void) snprintf(names[1], sizeof(names[1]), "%s", via);
    memset(out, 0, sizeof(*out));
    c->end.target = c->third_addr;
    return cb_call(&c->end, third_move_id, &in, out);
}

/* Its result. */
static hg_return_t third_result(
    struct third_case *c, const char *owner, bool push)
{
    third_moved_t out;

    HG_CHECK_OK(
        third_ask(c, c->lent.bulk, owner, "", push, &out, 0, THIRD_SIZE));
    return (hg_return_t) out.ret;
}

/* It pulls the owner's data. */
static void third_pull(
    struct third_case *c, const char *via, size_t offset, size_t size)
{
    unsigned char *want = (unsigned char *) malloc(size + 1);
    third_moved_t out;
    size_t i;

    HG_CHECK(want != NULL);
    for (i = 0; i < size; i++)
        want[i] = blob_byte(offset + i);
    HG_CHECK_OK(
        third_ask(c, c->lent.bulk, c->owner, via, false, &out, offset, size));
    HG_CHECK_OK(out.ret);
    HG_CHECK_EQ_U64(out.sum, blob_sum(want, size));
    HG_CHECK_EQ_U64(out.whole, c->shape.count * c->shape.size);
    HG_CHECK_EQ_U64(out.segments, c->shape.count);
    HG_CHECK_EQ_INT(out.flags, c->shape.flags);
    free(want);
}

struct third_own {
    _Atomic unsigned ends;
    hg_return_t ret;
};

static hg_return_t third_own_ended(const struct hg_cb_info *info)
{
    struct third_own *own = (struct third_own *) info->arg;

    own->ret = info->ret;
    atomic_fetch_add(&own->ends, 1);
    return HG_SUCCESS;
}

/* The owner's data now, as this process sees it. */
static void third_look(struct third_case *c, unsigned char *bytes)
{
    struct third_own own = {0, HG_OTHER_ERROR};
    hg_size_t size = THIRD_SIZE;
    void *ptr = bytes;
    hg_bulk_t local;

    HG_CHECK_OK(HG_Bulk_create(
        c->end.hg_class, 1, &ptr, &size, HG_BULK_WRITE_ONLY, &local));
    HG_CHECK_OK(
        HG_Bulk_transfer(c->end.context, third_own_ended, &own, HG_BULK_PULL,
            c->owner_addr, c->lent.bulk, 0, local, 0, size, HG_OP_ID_IGNORE));
    cb_turn_until(c->end.context, &own.ends);
    HG_CHECK_OK(own.ret);
    HG_CHECK_OK(HG_Bulk_free(local));
}

/* ---- Success ---- */

HG_TEST_WHERE(third_party_pulls, hg_test_crosses_processes)
{
    static const struct {
        uint32_t count;
        size_t size;
    } shapes[] = {
        {1, THIRD_SIZE}, {16, THIRD_SIZE / 16}, {1024, THIRD_SIZE / 1024}};
    struct third_case c;
    unsigned i;

    third_open(&c);
    for (i = 0; i < 3; i++) {
        third_borrow(&c, shapes[i].count, shapes[i].size, HG_BULK_READ_ONLY);
        third_pull(&c, "", 0, THIRD_SIZE);
        third_pull(&c, "", THIRD_SIZE / 2 + 1, THIRD_SIZE / 4);
        third_pull(&c, "", THIRD_SIZE, 0);
        third_return(&c);
    }
    third_borrow(&c, 1, (size_t) 16 << 20, HG_BULK_READ_ONLY);
    third_pull(&c, "", 0, (size_t) 16 << 20);
    third_return(&c);
    third_close(&c);
}

HG_TEST_WHERE(third_party_pushes, hg_test_crosses_processes)
{
    unsigned char *bytes = (unsigned char *) malloc(THIRD_SIZE);
    third_moved_t out;
    struct third_case c;
    size_t i;

    HG_CHECK(bytes != NULL);
    third_open(&c);
    third_borrow(&c, 16, THIRD_SIZE / 16, HG_BULK_READWRITE);
    HG_CHECK_OK(
        third_ask(&c, c.lent.bulk, c.owner, "", true, &out, 5000, 10000));
    HG_CHECK_OK(out.ret);
    third_look(&c, bytes);
    for (i = 0; i < THIRD_SIZE; i++)
        HG_CHECK_EQ_INT(bytes[i], i >= 5000 && i < 15000 ? 0x5a : blob_byte(i));
    third_return(&c);
    third_close(&c);
    free(bytes);
}

HG_TEST_WHERE(third_party_handle_is_passed_twice, hg_test_crosses_processes)
{
    struct hg_test_peer *fourth;
    struct third_case c;
    char *name;

    third_open(&c);
    fourth = hg_test_spawn("server", "1", (char *) NULL);
    name = hg_test_read_peer(fourth);
    third_borrow(&c, 16, THIRD_SIZE / 16, HG_BULK_READ_ONLY);
    third_pull(&c, name, 1, THIRD_SIZE - 1);
    third_pull(&c, c.third_name, 1, THIRD_SIZE - 1); /* to oneself */
    third_pull(&c, c.owner, 1, THIRD_SIZE - 1);      /* back to the owner */
    third_return(&c);
    third_close(&c);
    free(name);
    hg_test_stop(fourth);
}

/* A handle received from a peer serializes to the bytes received. */
HG_TEST_WHERE(third_party_handle_bytes_are_unchanged, hg_test_crosses_processes)
{
    unsigned char bytes[2][1024];
    struct third_case c;
    hg_size_t size;
    hg_bulk_t again;

    third_open(&c);
    third_borrow(&c, 2, THIRD_SIZE / 2, HG_BULK_READ_ONLY);
    HG_CHECK(HG_Bulk_get_addr(c.lent.bulk) == HG_ADDR_NULL);
    size = HG_Bulk_get_serialize_size(c.lent.bulk, 0);
    HG_CHECK(size > 0 && size <= sizeof(bytes[0]));
    memset(bytes, 0xa5, sizeof(bytes));
    hg_test_expect_log("too few for the bulk handle");
    HG_CHECK_RET(
        HG_Bulk_serialize(bytes[0], size - 1, 0, c.lent.bulk), HG_OVERFLOW);
    HG_CHECK_OK(HG_Bulk_serialize(bytes[0], size, 0, c.lent.bulk));
    HG_CHECK_OK(HG_Bulk_deserialize(
        c.end.hg_class, &again, bytes[0], sizeof(bytes[0])));
    HG_CHECK_EQ_U64(HG_Bulk_get_serialize_size(again, 0), size);
    HG_CHECK_OK(HG_Bulk_serialize(bytes[1], size, 0, again));
    HG_CHECK_EQ_MEM(bytes[1], bytes[0], sizeof(bytes[0]));
    HG_CHECK_OK(HG_Bulk_free(again));
    /* Only its owner can bind it. */
    hg_test_expect_log("of a peer's memory");
    HG_CHECK_RET(HG_Bulk_bind(c.lent.bulk, c.end.context), HG_INVALID_ARG);
    third_return(&c);
    third_close(&c);
}

/* ---- Failure ---- */

HG_TEST_WHERE(third_party_keeps_permissions, hg_test_crosses_processes)
{
    struct third_case c;

    third_open(&c);
    third_borrow(&c, 1, THIRD_SIZE, HG_BULK_READ_ONLY);
    HG_CHECK_RET(third_result(&c, c.owner, true), HG_PERMISSION);
    third_return(&c);
    third_borrow(&c, 1, THIRD_SIZE, HG_BULK_WRITE_ONLY);
    HG_CHECK_RET(third_result(&c, c.owner, false), HG_PERMISSION);
    HG_CHECK_OK(third_result(&c, c.owner, true));
    third_return(&c);
    third_close(&c);
}

HG_TEST_WHERE(third_party_of_freed_memory_fails, hg_test_crosses_processes)
{
    struct third_case c;

    third_open(&c);
    third_borrow(&c, 1, THIRD_SIZE, HG_BULK_READWRITE);
    third_pull(&c, "", 0, THIRD_SIZE);
    c.end.target = c.owner_addr;
    HG_CHECK_OK(cb_call(&c.end, third_free_id, NULL, NULL));
    HG_CHECK_RET(third_result(&c, c.owner, false), HG_NOENTRY);
    HG_CHECK_RET(third_result(&c, c.owner, true), HG_NOENTRY);
    third_forget(&c);
    third_close(&c);
}

/* Neither this process nor the third one is the owner. */
HG_TEST_WHERE(third_party_with_a_wrong_address_fails, hg_test_crosses_processes)
{
    struct third_case c;

    third_open(&c);
    third_borrow(&c, 1, THIRD_SIZE, HG_BULK_READWRITE);
    HG_CHECK_RET(third_result(&c, THIRD_CALLERS, false), HG_NOENTRY);
    HG_CHECK_RET(third_result(&c, THIRD_CALLERS, true), HG_NOENTRY);
    HG_CHECK_RET(third_result(&c, c.third_name, false), HG_INVALID_ARG);
    HG_CHECK_RET(third_result(&c, c.third_name, true), HG_INVALID_ARG);
    third_pull(&c, "", 0, THIRD_SIZE);
    third_return(&c);
    third_close(&c);
}

HG_TEST_WHERE(third_party_of_a_dead_owner_fails, hg_test_crosses_processes)
{
    struct third_case c;
    hg_return_t ret;

    hg_test_allow_log("");
    third_open(&c);
    third_borrow(&c, 1, THIRD_SIZE, HG_BULK_READWRITE);
    third_pull(&c, "", 0, THIRD_SIZE);
    hg_test_signal(c.end.peer, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(c.end.peer)));
    c.end.peer = NULL;
    ret = third_result(&c, c.owner, false);
    HG_CHECK(ret == HG_DISCONNECT || ret == HG_HOSTUNREACH);
    third_forget(&c);
    third_close(&c);
}

/* Any bit of a handle may be flipped when it is passed on: the result is an
 * error code, or data of memory that the owner exposed. */
HG_TEST_WHERE(third_party_with_forged_handles_fails, hg_test_crosses_processes)
{
    uint64_t state = hg_test_seed();
    unsigned char bytes[1024];
    struct third_case c;
    third_moved_t out;
    hg_size_t size;
    unsigned codes = 0;
    unsigned i;

    hg_test_allow_log("");
    third_open(&c);
    third_borrow(&c, 2, THIRD_SIZE / 2, HG_BULK_READ_ONLY);
    size = HG_Bulk_get_serialize_size(c.lent.bulk, 0);
    for (i = 0; i < 300; i++) {
        size_t bit = (size_t) (hg_test_random(&state) % (size * 8));
        hg_bulk_t forged = HG_BULK_NULL;
        hg_return_t ret;

        HG_CHECK_OK(HG_Bulk_serialize(bytes, size, 0, c.lent.bulk));
        bytes[bit / 8] ^= (unsigned char) (1u << bit % 8);
        if (HG_Bulk_deserialize(c.end.hg_class, &forged, bytes, size) !=
            HG_SUCCESS)
            continue;
        ret =
            third_ask(&c, forged, c.owner, "", i % 2 == 0, &out, 0, THIRD_SIZE);
        codes += ret == HG_SUCCESS && out.ret != HG_SUCCESS;
        if (ret == HG_SUCCESS && out.ret == HG_SUCCESS)
            HG_CHECK(i % 2 == 1); /* writing is not allowed */
        HG_CHECK_OK(HG_Bulk_free(forged));
    }
    HG_CHECK(codes > 0);
    third_pull(&c, "", 0, THIRD_SIZE);
    third_return(&c);
    third_close(&c);
}
