/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk memory allocated by the library, moved between two processes of one
 * node: peers map it and copy it themselves. Checked: every transfer uses the
 * mapping, in both directions and for every segment layout, also where the
 * kernel refuses to copy; returned memory is no longer written; a process that
 * dies halfway leaves nothing behind.
 *
 * A transfer has an owner, whose memory is described, and an initiator, which
 * copies. The case is one of them, and a process that it starts is the other.
 */
#include "sm_sockets.h"

#include "conform/rpc.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>

#define MAPPED_NOBODY 65534
#define MAPPED_PIECES 64
#define MAPPED_OFFSET 3 /* in the initiator's memory */

/* The transfer: `size` bytes at `offset` of the owner's `total`. */
MERCURY_GEN_PROC(mapped_order_t,
    ((hg_bulk_t) (bulk))((uint8_t) (push))((uint8_t) (flags))(
        (uint8_t) (plain))((uint32_t) (pieces))((uint64_t) (offset))(
        (uint64_t) (total))((uint64_t) (size))((uint64_t) (seed)))
/* The result, and the counters of the initiator. */
MERCURY_GEN_PROC(mapped_result_t,
    ((int32_t) (ret))((uint8_t) (same))((uint64_t) (mapped))((uint64_t) (vm))(
        (uint64_t) (copied)))
MERCURY_GEN_PROC(mapped_given_t, ((hg_bulk_t) (bulk)))

static hg_id_t mapped_move_id, mapped_give_id, mapped_look_id, mapped_keep_id;
static na_class_t *mapped_class;

/* ---- Memory ---- */

struct mapped_memory {
    hg_bulk_t bulk;
    unsigned char *bytes; /* NULL: allocated by the library */
};

/* Describe memory in pieces: allocated by the library, or our own with pieces
 * in no order. */
static void mapped_make(struct mapped_memory *memory, size_t size,
    uint32_t pieces, unsigned long flags, bool own)
{
    void *ptrs[MAPPED_PIECES] = {NULL};
    size_t sizes[MAPPED_PIECES];
    size_t at = 0;
    uint32_t i;

    HG_CHECK(pieces > 0 && pieces <= MAPPED_PIECES);
    memory->bytes = own ? (unsigned char *) malloc(size + pieces) : NULL;
    HG_CHECK(!own || memory->bytes != NULL);
    for (i = pieces; i-- > 0; at += sizes[i] + 1) {
        sizes[i] = size / pieces + (i == 0 ? size % pieces : 0);
        if (own)
            ptrs[i] = memory->bytes + at;
    }
    HG_CHECK_OK(
        HG_Bulk_handle_create(pieces, ptrs, sizes, flags, &memory->bulk));
}

static void mapped_free(struct mapped_memory *memory)
{
    HG_CHECK_OK(HG_Bulk_handle_free(memory->bulk));
    free(memory->bytes);
    memory->bytes = NULL;
}

enum mapped_deed { MAPPED_FILL, MAPPED_SAME, MAPPED_ZERO };

/* Whether bytes have the pattern of a seed, or are zero. */
static bool mapped_is(enum mapped_deed deed, const unsigned char *bytes,
    size_t size, uint64_t seed)
{
    unsigned char want[4096] = {0};
    size_t at, n;

    for (at = 0; at < size; at += n) {
        n = size - at < sizeof(want) ? size - at : sizeof(want);
        if (deed == MAPPED_SAME)
            conform_fill(want, n, seed + at);
        if (memcmp(bytes + at, want, n) != 0)
            return false;
    }
    return true;
}

/* Fill a range with a pattern, or check that it has the pattern, or that it is
 * zero. */
static bool mapped_do(enum mapped_deed deed, const struct mapped_memory *memory,
    size_t offset, size_t size, uint64_t seed)
{
    void *ptrs[MAPPED_PIECES];
    size_t sizes[MAPPED_PIECES];
    unsigned count = 0;
    unsigned i;

    HG_CHECK_OK(HG_Bulk_handle_access(
        memory->bulk, offset, size, 0, MAPPED_PIECES, ptrs, sizes, &count));
    for (i = 0; i < count; i++) {
        unsigned char *bytes = (unsigned char *) ptrs[i];

        if (deed == MAPPED_FILL)
            conform_fill(bytes, sizes[i], seed);
        else if (!mapped_is(deed, bytes, sizes[i], seed))
            return false;
        seed += sizes[i];
        size -= sizes[i];
    }
    HG_CHECK_EQ_U64(size, 0);
    return true;
}

static unsigned char *mapped_start(const struct mapped_memory *memory)
{
    void *start = NULL;
    size_t size;
    unsigned count;

    HG_CHECK_OK(
        HG_Bulk_handle_access(memory->bulk, 0, 1, 0, 1, &start, &size, &count));
    return (unsigned char *) start;
}

/* ---- The owner's part ---- */

static void mapped_offer(
    struct mapped_memory *memory, const mapped_order_t *order)
{
    mapped_make(memory, (size_t) order->total, order->pieces, order->flags,
        order->plain != 0);
    if (!order->push)
        (void) mapped_do(
            MAPPED_FILL, memory, 0, (size_t) order->total, order->seed);
}

/* Whether the pushed bytes are there, and no others changed; then the memory is
 * freed. */
static bool mapped_judge(
    struct mapped_memory *memory, const mapped_order_t *order)
{
    size_t end = (size_t) (order->offset + order->size);
    bool good = true;

    if (order->push)
        good = mapped_do(MAPPED_SAME, memory, (size_t) order->offset,
                   (size_t) order->size, order->seed) &&
            mapped_do(MAPPED_ZERO, memory, 0, (size_t) order->offset, 0) &&
            mapped_do(MAPPED_ZERO, memory, end, (size_t) order->total - end, 0);
    mapped_free(memory);
    return good;
}

/* ---- The initiator's part ---- */

static void mapped_count(mapped_result_t *result)
{
    result->mapped = NA_Get_counter(mapped_class, "sm_rma_mapped");
    result->vm = NA_Get_counter(mapped_class, "sm_rma_vm");
    result->copied = NA_Get_counter(mapped_class, "sm_rma_copied");
}

/* For a pull, `same` says whether the bytes match the owner's. */
static void mapped_move(
    na_addr_t owner, const mapped_order_t *order, mapped_result_t *result)
{
    size_t size = (size_t) order->size;
    hg_bulk_request_t request = HG_BULK_REQUEST_NULL;
    struct mapped_memory local;

    mapped_make(&local, size + 2 * MAPPED_OFFSET, order->pieces,
        HG_BULK_READWRITE, order->seed % 2 == 0);
    if (order->push)
        (void) mapped_do(MAPPED_FILL, &local, MAPPED_OFFSET, size, order->seed);
    result->ret = HG_Bulk_transfer(order->push ? HG_BULK_PUSH : HG_BULK_PULL,
        owner, order->bulk, (size_t) order->offset, local.bulk, MAPPED_OFFSET,
        size, &request);
    if (result->ret == HG_SUCCESS)
        result->ret = HG_Bulk_wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE);
    result->same = order->push ||
        mapped_do(MAPPED_SAME, &local, MAPPED_OFFSET, size,
            order->seed + order->offset);
    mapped_free(&local);
    mapped_count(result);
}

/* ---- The other process ---- */

static struct mapped_memory mapped_given;

/* Act as initiator. */
static hg_return_t mapped_on_move(hg_handle_t handle)
{
    mapped_order_t order;
    mapped_result_t result;

    HG_CHECK_OK(HG_Handler_get_input(handle, &order));
    mapped_move(HG_Handler_get_addr(handle), &order, &result);
    HG_CHECK_OK(HG_Handler_free_input(handle, &order));
    (void) HG_Handler_start_output(handle, &result);
    return HG_Handler_free(handle);
}

/* Act as owner, of one memory at a time. */
static hg_return_t mapped_on_give(hg_handle_t handle)
{
    mapped_order_t order;
    mapped_given_t given;

    HG_CHECK_OK(HG_Handler_get_input(handle, &order));
    mapped_offer(&mapped_given, &order);
    given.bulk = mapped_given.bulk;
    HG_CHECK_OK(HG_Handler_free_input(handle, &order));
    (void) HG_Handler_start_output(handle, &given);
    return HG_Handler_free(handle);
}

static hg_return_t mapped_on_look(hg_handle_t handle)
{
    mapped_order_t order;
    mapped_result_t result;

    memset(&result, 0, sizeof(result));
    HG_CHECK_OK(HG_Handler_get_input(handle, &order));
    result.same = mapped_judge(&mapped_given, &order);
    HG_CHECK_OK(HG_Handler_free_input(handle, &order));
    (void) HG_Handler_start_output(handle, &result);
    return HG_Handler_free(handle);
}

/* A call that is never answered: it repeats the same transfer on the given
 * memory for ever. */
static hg_return_t mapped_on_keep(hg_handle_t handle)
{
    struct mapped_memory local;
    mapped_order_t order;

    HG_CHECK_OK(HG_Handler_get_input(handle, &order));
    if (order.bulk == HG_BULK_NULL)
        return HG_SUCCESS;
    mapped_make(&local, (size_t) order.total, 1, HG_BULK_READWRITE, true);
    (void) mapped_do(MAPPED_FILL, &local, 0, (size_t) order.total, order.seed);
    for (;;) {
        hg_bulk_request_t request;

        HG_CHECK_OK(HG_Bulk_transfer(order.push ? HG_BULK_PUSH : HG_BULK_PULL,
            HG_Handler_get_addr(handle), order.bulk, 0, local.bulk, 0,
            (size_t) order.total, &request));
        HG_CHECK_OK(HG_Bulk_wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE));
    }
}

static void rpc_register(void)
{
    mapped_move_id = MERCURY_REGISTER(
        "mapped move", mapped_order_t, mapped_result_t, mapped_on_move);
    mapped_give_id = MERCURY_REGISTER(
        "mapped give", mapped_order_t, mapped_given_t, mapped_on_give);
    mapped_look_id = MERCURY_REGISTER(
        "mapped look", mapped_order_t, mapped_result_t, mapped_on_look);
    mapped_keep_id =
        MERCURY_REGISTER("mapped keep", mapped_order_t, void, mapped_on_keep);
}

/* Run as user nobody, and let no process read our memory. */
static void mapped_shut(void)
{
    if (geteuid() == 0) {
        HG_CHECK(setgroups(0, NULL) == 0);
        HG_CHECK(setresgid(MAPPED_NOBODY, MAPPED_NOBODY, MAPPED_NOBODY) == 0);
        HG_CHECK(setresuid(MAPPED_NOBODY, MAPPED_NOBODY, MAPPED_NOBODY) == 0);
    }
    HG_CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
}

/* RIGHTS: "shut", or "open". */
HG_TEST_ROLE(peer)
{
    struct rpc_end end;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log(""); /* the case checks the results it gets */
    if (strcmp(argv[0], "shut") == 0)
        mapped_shut();
    rpc_start(&end, NULL, false);
    mapped_class = end.na_class;
    rpc_serve(&end);
    rpc_end(&end);
}

/* ---- Our side ---- */

/* Called before the first process is started. */
static void mapped_choose(const char *way)
{
    HG_CHECK(setenv("HG_TEST_TRANSPORT", "sm", 1) == 0);
    HG_CHECK(setenv("HG_SM_RMA", way, 1) == 0);
}

static void mapped_open(struct rpc_end *end, const char *rights)
{
    struct hg_test_peer *peer = hg_test_spawn("peer", rights, NULL);

    if (strcmp(rights, "shut") == 0)
        mapped_shut();
    rpc_start(end, NULL, false);
    mapped_class = end->na_class;
    end->peer = peer;
    rpc_find_peer(end);
}

/* One transfer, in which we are the owner or the initiator. */
static void mapped_run(const struct rpc_end *end, const mapped_order_t *shape,
    bool ours, mapped_result_t *result)
{
    mapped_order_t order = *shape;
    struct mapped_memory memory;
    mapped_given_t given;
    hg_request_t request;

    if (ours) {
        mapped_offer(&memory, &order);
        order.bulk = memory.bulk;
        HG_CHECK_OK(rpc_call(end, mapped_move_id, &order, result));
        HG_CHECK(mapped_judge(&memory, shape));
    } else {
        mapped_result_t look;

        request = rpc_start_call(end, mapped_give_id, &order, &given);
        HG_CHECK_OK(rpc_wait(request));
        order.bulk = given.bulk;
        mapped_move(end->target, &order, result);
        HG_CHECK_OK(HG_Request_free(request));
        order.bulk = HG_BULK_NULL;
        HG_CHECK_OK(rpc_call(end, mapped_look_id, &order, &look));
        HG_CHECK(look.same);
    }
    HG_CHECK_OK(result->ret);
    HG_CHECK(result->same);
}

static void mapped_shape(mapped_order_t *order, uint64_t *random, size_t size)
{
    memset(order, 0, sizeof(*order));
    order->push = hg_test_random(random) % 2 != 0;
    order->flags = hg_test_random(random) % 2 != 0 ? HG_BULK_READWRITE
        : order->push                              ? HG_BULK_WRITE_ONLY
                                                   : HG_BULK_READ_ONLY;
    order->pieces = 1 + (uint32_t) (hg_test_random(random) % MAPPED_PIECES);
    order->offset = hg_test_random(random) % 5000;
    order->size = size;
    order->total = order->offset + size + hg_test_random(random) % 5000;
    order->seed = hg_test_random(random);
}

/* ---- All transfers ---- */

static void mapped_move_all(struct rpc_end *end)
{
    static const size_t sizes[] = {1, 2, 4095, 4096, 4097, 65537, 256 << 10,
        (256 << 10) + 1, 1 << 20, (1 << 20) + 1, 5000000, 20 << 20};
    uint64_t random = hg_test_seed();
    uint64_t moved[2] = {0, 0};
    unsigned i, turn;

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (turn = 0; turn < 4; turn++) {
            bool ours = turn % 2 == 0;
            mapped_result_t result;
            mapped_order_t order;

            mapped_shape(&order, &random, sizes[i]);
            order.push = turn / 2 != 0;
            order.flags = order.flags == HG_BULK_READWRITE ? order.flags
                : order.push                               ? HG_BULK_WRITE_ONLY
                                                           : HG_BULK_READ_ONLY;
            mapped_run(end, &order, ours, &result);
            moved[ours] += sizes[i];
            HG_CHECK_EQ_U64(result.mapped, moved[ours]);
            HG_CHECK_EQ_U64(result.vm, 0);
            HG_CHECK_EQ_U64(result.copied, 0);
        }
    }
}

HG_TEST_SECONDS(library_memory_is_copied_through_a_mapping, 60)
{
    struct rpc_end end;

    mapped_choose("map");
    mapped_open(&end, "open");
    mapped_move_all(&end);
    rpc_close(&end);
}

/* The result of a bare system call; 0: the kernel would copy if memory existed
 * at that address. */
static int mapped_bare(pid_t pid)
{
    char got[8];
    struct iovec near = {got, sizeof(got)}, far = {got, sizeof(got)};

    return process_vm_readv(pid, &near, 1, &far, 1, 0) < 0 && errno != EFAULT
        ? errno
        : 0;
}

HG_TEST_SECONDS(library_memory_is_mapped_where_the_kernel_refuses_to_copy, 60)
{
    struct rpc_end end;

    mapped_choose("map");
    mapped_open(&end, "shut");
    HG_CHECK_EQ_INT(mapped_bare(hg_test_peer_pid(end.peer)), EPERM);
    mapped_move_all(&end);
    rpc_close(&end);
    HG_CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0); /* for leak checkers */
}

/* ---- Pointers ---- */

/* Ask the peer for memory; returns the request, which owns the handle. */
static hg_request_t mapped_ask(
    struct rpc_end *end, mapped_order_t *order, mapped_given_t *given)
{
    hg_request_t request;

    order->bulk = HG_BULK_NULL;
    request = rpc_start_call(end, mapped_give_id, order, given);
    HG_CHECK_OK(rpc_wait(request));
    return request;
}

static void mapped_check_look(struct rpc_end *end, mapped_order_t *order)
{
    mapped_result_t look;

    HG_CHECK_OK(rpc_call(end, mapped_look_id, order, &look));
    HG_CHECK(look.same);
}

/* The second of three segments is filled by stores; memory to be read is read;
 * the pointer outlives the handle. */
HG_TEST(bulk_memory_of_a_peer_has_a_pointer)
{
    mapped_order_t order;
    mapped_given_t given;
    struct rpc_end end;
    hg_request_t request;
    void *ptr = NULL;
    hg_bulk_t bulk;

    if (hg_test_is_valgrind())
        hg_test_skip("valgrind refuses the system call");
    mapped_choose("auto");
    mapped_open(&end, "open");
    memset(&order, 0, sizeof(order));
    order.push = 1;
    order.flags = HG_BULK_READWRITE;
    order.pieces = 3;
    order.total = 30000;
    order.offset = order.size = 10000;
    order.seed = 9;
    request = mapped_ask(&end, &order, &given);
    hg_test_expect_log("there is no such segment");
    HG_CHECK_RET(HG_Bulk_map(given.bulk, 3, &ptr), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Bulk_map(given.bulk, 1, &ptr));
    bulk = given.bulk;
    HG_CHECK_OK(HG_Request_free(request)); /* the handle is not freed yet */
    conform_fill(ptr, 10000, 9);
    mapped_check_look(&end, &order); /* the peer has freed its handle */
    HG_CHECK(mapped_is(MAPPED_SAME, (unsigned char *) ptr, 10000, 9));
    HG_CHECK_OK(HG_Bulk_unmap(bulk, ptr));
    order.push = 0;
    order.flags = HG_BULK_READ_ONLY;
    order.offset = 0;
    request = mapped_ask(&end, &order, &given);
    HG_CHECK_OK(HG_Bulk_map(given.bulk, 0, &ptr));
    HG_CHECK(mapped_is(MAPPED_SAME, (unsigned char *) ptr, 30000, 9));
    HG_CHECK_OK(HG_Bulk_unmap(given.bulk, ptr));
    mapped_check_look(&end, &order);
    hg_test_expect_log("of a peer is not mapped");
    HG_CHECK_RET(HG_Bulk_map(given.bulk, 0, &ptr), HG_NOENTRY);
    HG_CHECK_OK(HG_Request_free(request));
    /* Memory of the peer's application. */
    order.plain = 1;
    request = mapped_ask(&end, &order, &given);
    HG_CHECK_RET(HG_Bulk_map(given.bulk, 0, &ptr), HG_OPNOTSUPPORT);
    HG_CHECK_OK(HG_Request_free(request));
    mapped_check_look(&end, &order);
    rpc_close(&end);
}

/* ---- Memory that is returned ---- */

#define MAPPED_LARGE ((size_t) 8 << 20)

/* Free memory while a peer writes or reads it at some place. The memory that is
 * there afterwards belongs to others and must stay untouched. */
static hg_return_t mapped_withdraw(
    const struct rpc_end *end, bool push, uint64_t *random)
{
    struct mapped_memory memory, next;
    mapped_order_t order;
    mapped_result_t result;
    const volatile unsigned char *at;
    const unsigned char *start;
    hg_status_t status = HG_FALSE;
    hg_request_t request;
    uint64_t turns = hg_test_random(random) % 200;

    memset(&order, 0, sizeof(order));
    order.push = push;
    order.flags = HG_BULK_READWRITE;
    order.pieces = 1;
    order.total = order.size = MAPPED_LARGE;
    order.seed = 1 | hg_test_random(random);
    mapped_offer(&memory, &order);
    start = mapped_start(&memory);
    at = start + hg_test_random(random) % (MAPPED_LARGE - 8);
    order.bulk = memory.bulk;
    request = rpc_start_call(end, mapped_move_id, &order, &result);
    do
        (void) HG_Wait(request, 0, &status);
    while (status != HG_TRUE &&
        (push ? (at[0] | at[1] | at[2]) == 0 : turns-- > 0));
    HG_CHECK_OK(HG_Bulk_handle_free(memory.bulk));
    mapped_make(&next, MAPPED_LARGE, 1, HG_BULK_READWRITE, false);
    HG_CHECK(mapped_start(&next) == start);
    HG_CHECK(mapped_do(MAPPED_ZERO, &next, 0, MAPPED_LARGE, 0));
    (void) mapped_do(MAPPED_FILL, &next, 0, MAPPED_LARGE, 99);
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK(mapped_do(MAPPED_SAME, &next, 0, MAPPED_LARGE, 99));
    mapped_free(&next);
    HG_CHECK(result.ret != HG_SUCCESS || result.same);
    HG_CHECK_EQ_U64(result.vm + result.copied, 0);
    return result.ret;
}

/* Repeat until some transfers were refused and the others succeeded. */
static void mapped_withdraw_often(bool push)
{
    const unsigned rounds = hg_test_is_plain() ? 10 : 6;
    uint64_t random = hg_test_seed();
    unsigned refused = 0;
    struct rpc_end end;
    unsigned i;

    mapped_choose("map");
    mapped_open(&end, "open");
    for (i = 0; i < rounds || refused == 0; i++) {
        hg_return_t ret = mapped_withdraw(&end, push, &random);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_NOENTRY);
        refused += ret == HG_NOENTRY;
    }
    rpc_close(&end);
}

HG_TEST_SECONDS(returned_memory_is_not_written, 120)
{
    mapped_withdraw_often(true);
}

HG_TEST_SECONDS(returned_memory_is_not_read, 120)
{
    mapped_withdraw_often(false);
}

/* ---- Death ---- */

#define MAPPED_MOVES 3
#define MAPPED_BUFFERS 32 /* kept for reuse by handles */

/* A peer that will be killed, and its operation. */
struct mapped_scene {
    struct rpc_end *end;
    uint64_t *random;
    mapped_order_t order;
    hg_request_t kept; /* ends when it dies */
};

/* Rounds of progress before the kill: few, so that the peer can hardly answer,
 * or many. */
static uint64_t mapped_turns(uint64_t *random)
{
    uint64_t pick = hg_test_random(random);

    return (pick >> 8) % (pick % 2 == 0 ? 40 : 4000);
}

static void mapped_keep(struct mapped_scene *scene)
{
    scene->kept =
        rpc_start_call(scene->end, mapped_keep_id, &scene->order, NULL);
}

static void mapped_kill(struct mapped_scene *scene)
{
    hg_test_signal(scene->end->peer, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(scene->end->peer)));
}

/* We have the memory. It can be freed at once, whatever the dead peer was
 * doing: its death is found out before any notification of it, or after. */
static void mapped_kill_initiator(struct mapped_scene *scene)
{
    uint64_t turns = mapped_turns(scene->random);
    struct mapped_memory memory;
    hg_status_t status = HG_FALSE;
    const volatile unsigned char *at;

    scene->order.plain = 0;
    mapped_offer(&memory, &scene->order);
    at = mapped_start(&memory);
    scene->order.bulk = memory.bulk;
    mapped_keep(scene);
    while (scene->order.push && (at[0] | at[1] | at[2]) == 0)
        (void) HG_Wait(scene->kept, 0, &status);
    for (; turns > 0; turns--)
        (void) HG_Wait(scene->kept, 0, &status);
    HG_CHECK_EQ_INT(status, HG_FALSE);
    mapped_kill(scene);
    if (scene->order.seed % 2 == 0) {
        mapped_free(&memory);
        HG_CHECK_RET(rpc_wait(scene->kept), HG_DISCONNECT);
    } else {
        HG_CHECK_RET(rpc_wait(scene->kept), HG_DISCONNECT);
        mapped_free(&memory);
    }
    HG_CHECK_OK(HG_Request_free(scene->kept));
}

/* Wait for a transfer unless it has ended. It may succeed, or fail by the
 * death. */
static void mapped_wait(hg_bulk_request_t *request, unsigned ms)
{
    hg_status_t status = HG_FALSE;
    hg_return_t ret;

    if (*request == HG_BULK_REQUEST_NULL)
        return;
    ret = HG_Bulk_wait(*request, ms, &status);
    if (status == HG_TRUE) {
        HG_CHECK(ret == HG_SUCCESS || ret == HG_DISCONNECT);
        *request = HG_BULK_REQUEST_NULL;
    } else {
        HG_CHECK_RET(ret, HG_TIMEOUT);
    }
}

/* The other process has the memory. */
static void mapped_kill_owner(struct mapped_scene *scene)
{
    const mapped_order_t *order = &scene->order;
    hg_bulk_request_t moves[MAPPED_MOVES];
    struct mapped_memory local[MAPPED_MOVES];
    uint64_t turns = mapped_turns(scene->random);
    mapped_given_t given;
    hg_request_t request;
    unsigned i;

    request = rpc_start_call(scene->end, mapped_give_id, &scene->order, &given);
    HG_CHECK_OK(rpc_wait(request));
    mapped_keep(scene);
    for (i = 0; i < MAPPED_MOVES; i++) {
        mapped_make(
            &local[i], (size_t) order->total, 5, HG_BULK_READWRITE, i % 2 != 0);
        HG_CHECK_OK(HG_Bulk_transfer(order->push ? HG_BULK_PUSH : HG_BULK_PULL,
            scene->end->target, given.bulk, 0, local[i].bulk, 0,
            (size_t) order->total, &moves[i]));
    }
    for (; turns > 0; turns--)
        mapped_wait(&moves[turns % MAPPED_MOVES], 0);
    mapped_kill(scene);
    for (i = 0; i < MAPPED_MOVES; i++) {
        mapped_wait(&moves[i], RPC_TIMEOUT);
        HG_CHECK(moves[i] == HG_BULK_REQUEST_NULL);
        mapped_free(&local[i]);
    }
    HG_CHECK_RET(rpc_wait(scene->kept), HG_DISCONNECT);
    HG_CHECK_OK(HG_Request_free(scene->kept));
    HG_CHECK_OK(HG_Request_free(request));
}

static void mapped_death(
    struct rpc_end *end, struct hg_test_peer *peer, uint64_t *random)
{
    struct mapped_scene scene = {.end = end, .random = random};

    mapped_shape(&scene.order, random, 3 << 20);
    end->peer = peer;
    rpc_find_peer(end);
    if (hg_test_random(random) % 2 == 0)
        mapped_kill_initiator(&scene);
    else
        mapped_kill_owner(&scene);
    HG_CHECK_OK(NA_Addr_free(end->na_class, end->target));
}

/* The resources that a process holds for its peers. */
struct mapped_holds {
    unsigned fds;
    unsigned maps;
    int64_t blocks;
};

static struct mapped_holds mapped_hold(void)
{
    struct mapped_holds holds = {
        hg_test_fd_count(), sm_maps(), hg_test_alloc_live()};

    return holds;
}

HG_TEST_SECONDS(killed_process_leaves_nothing, 400)
{
    const unsigned rounds = getenv("HG_TEST_FULL") != NULL ? 1000
        : hg_test_is_plain()                               ? 30
                                                           : 15;
    uint64_t random = hg_test_seed();
    struct mapped_holds before, after;
    struct mapped_memory memory[2];
    struct rpc_end end;
    unsigned i;

    hg_test_allow_log(""); /* errors of failed operations */
    hg_test_alloc_install();
    mapped_choose("map");
    rpc_start(&end, NULL, false);
    mapped_class = end.na_class;
    /* Arenas stay mapped: they are used again. */
    for (i = 0; i < 2; i++)
        mapped_make(&memory[i], 80 << 20, 1,
            i == 0 ? HG_BULK_READWRITE : HG_BULK_READ_ONLY, false);
    for (i = 0; i < 2; i++)
        mapped_free(&memory[i]);
    for (i = 0; i < 4; i++)
        mapped_death(&end, hg_test_spawn("peer", "open", NULL), &random);
    before = mapped_hold();
    for (i = 0; i < rounds; i++) {
        mapped_death(&end, hg_test_spawn("peer", "open", NULL), &random);
        after = mapped_hold();
        HG_CHECK_EQ_INT(after.fds, before.fds);
        HG_CHECK_EQ_INT(after.maps, before.maps);
        HG_CHECK(after.blocks <= before.blocks + MAPPED_BUFFERS);
    }
    rpc_end(&end);
    HG_CHECK_EQ_INT(sm_maps(), 0);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

/* ---- Memory as an application uses it ---- */

/* Each buffer is zeroed, and lies in an arena. */
HG_TEST(many_buffers_can_be_allocated)
{
    enum { BUFFERS = 10000, LIVE = 64 };
    static const size_t most[] = {100, 8000, 8000, 100000, 1 << 20};
    struct mapped_memory memory[LIVE];
    uint64_t sizes[LIVE] = {0};
    uint64_t random = hg_test_seed();
    struct rpc_end end;
    unsigned made = 0, i;

    mapped_choose("auto");
    rpc_start(&end, NULL, false);
    while (made < BUFFERS) {
        uint64_t pick = hg_test_random(&random);

        i = (unsigned) (pick >> 32) % LIVE;
        if (sizes[i] > 0) {
            mapped_free(&memory[i]);
            sizes[i] = 0;
            continue;
        }
        sizes[i] = 1 + (pick >> 8) % most[pick % 5];
        mapped_make(&memory[i], (size_t) sizes[i], 1,
            pick & 128 ? HG_BULK_READWRITE : HG_BULK_READ_ONLY, false);
        HG_CHECK(mapped_do(
            MAPPED_ZERO, &memory[i], 0, sizes[i] < 512 ? sizes[i] : 512, 0));
        memset(mapped_start(&memory[i]), 1, (size_t) sizes[i]);
        made++;
    }
    for (i = 0; i < LIVE; i++) {
        if (sizes[i] > 0)
            mapped_free(&memory[i]);
    }
    rpc_end(&end);
}

HG_TEST(child_of_fork_frees_nothing_of_its_parent)
{
    uint64_t random = hg_test_seed();
    struct mapped_memory memory;
    mapped_result_t result;
    mapped_order_t order;
    struct rpc_end end;
    int status = -1;
    unsigned i;
    pid_t child;

    hg_test_allow_log("belongs to the process that forked");
    mapped_choose("map");
    mapped_open(&end, "open");
    mapped_shape(&order, &random, 3 << 20);
    order.push = 0;
    order.flags = HG_BULK_READWRITE; /* blocks that leave gaps */
    mapped_offer(&memory, &order);
    order.bulk = memory.bulk;
    for (i = 1; i <= 2; i++) {
        HG_CHECK_OK(rpc_call(&end, mapped_move_id, &order, &result));
        HG_CHECK_OK(result.ret);
        HG_CHECK(result.same);
        HG_CHECK_EQ_U64(result.mapped, i * order.size);
        child = fork();
        HG_CHECK(child >= 0);
        if (child == 0) {
            if (HG_Bulk_handle_free(memory.bulk) != HG_FAULT)
                _exit(1);
            (void) raise(SIGKILL); /* its other memory is no leak */
        }
        HG_CHECK(waitpid(child, &status, 0) == child);
        HG_CHECK(WIFSIGNALED(status));
    }
    HG_CHECK(
        mapped_do(MAPPED_SAME, &memory, 0, (size_t) order.total, order.seed));
    mapped_free(&memory);
    rpc_close(&end);
}

/* ---- A full arena ---- */

#define MAPPED_HUGE ((size_t) 600 << 20) /* six nearly fill an arena */
#define MAPPED_FIT 6

/* The peer pulls a few bytes from the middle; returns the counter that grew. */
static void mapped_peek(const struct rpc_end *end, struct mapped_memory *memory,
    size_t total, mapped_result_t *result)
{
    mapped_order_t order;

    memset(&order, 0, sizeof(order));
    order.bulk = memory->bulk;
    order.pieces = 1;
    order.total = total;
    order.offset = total / 2;
    order.size = 8192;
    order.seed = 77;
    (void) mapped_do(
        MAPPED_FILL, memory, total / 2, 8192, order.seed + total / 2);
    HG_CHECK_OK(rpc_call(end, mapped_move_id, &order, result));
    HG_CHECK_OK(result->ret);
    HG_CHECK(result->same);
}

HG_TEST_WHERE(memory_past_the_arena_is_ordinary, hg_test_is_plain)
{
    struct mapped_memory memory[MAPPED_FIT], plain;
    mapped_result_t result;
    struct rpc_end end;
    unsigned i;

    mapped_choose("auto");
    mapped_open(&end, "open");
    for (i = 0; i < MAPPED_FIT; i++) {
        mapped_make(&memory[i], MAPPED_HUGE, 1, HG_BULK_READWRITE, false);
        mapped_peek(&end, &memory[i], MAPPED_HUGE, &result);
        HG_CHECK_EQ_U64(result.mapped, 8192 * (i + UINT64_C(1)));
    }
    HG_CHECK_EQ_U64(result.vm + result.copied, 0);
    mapped_make(&plain, MAPPED_HUGE, 1, HG_BULK_READWRITE, false);
    mapped_peek(&end, &plain, MAPPED_HUGE, &result);
    HG_CHECK_EQ_U64(result.mapped, 8192 * MAPPED_FIT);
    HG_CHECK_EQ_U64(result.vm + result.copied, 8192);
    mapped_free(&plain);
    for (i = 0; i < MAPPED_FIT; i++)
        mapped_free(&memory[i]);
    /* The arena is used again. */
    mapped_make(&plain, MAPPED_HUGE, 1, HG_BULK_READWRITE, false);
    mapped_peek(&end, &plain, MAPPED_HUGE, &result);
    HG_CHECK_EQ_U64(result.mapped, 8192 * (MAPPED_FIT + 1));
    mapped_free(&plain);
    rpc_close(&end);
}
