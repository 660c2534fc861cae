/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arenas of the transport sm reach a peer: asked for once, granted once,
 * mapped as they may be, unmapped when the pair parts; transfers go through
 * them; and what a peer says that makes no sense does nothing.
 */
#include "support/sm_end.h"

#if HG_ENABLE_SM

static enum na_sm_reach reach_try(struct sm_end *from, uint32_t id,
    uint64_t offset, uint64_t size, bool write, unsigned char **at_p)
{
    struct na_sm_addr *addr = na_sm_addr_of(from->peer);
    enum na_sm_reach reach;

    na_sm_enter(na_sm_of(addr->base.na_class));
    reach = na_sm_reach(addr, id, offset, size, write, at_p);
    na_sm_leave(na_sm_of(addr->base.na_class));
    return reach;
}

/* Turn until it is not "asked" any more. */
static enum na_sm_reach reach_until(struct sm_end *from, struct sm_end *to,
    uint32_t id, uint64_t offset, uint64_t size, bool write,
    unsigned char **at_p)
{
    enum na_sm_reach reach;

    for (;;) {
        reach = reach_try(from, id, offset, size, write, at_p);
        if (reach != NA_SM_REACH_ASKED)
            return reach;
        sm_end_turn(from);
        sm_end_turn(to);
    }
}

static uint32_t reach_where(
    struct sm_end *end, const struct na_mem_block *block, uint64_t *offset_p)
{
    struct na_segment segment = {block->memory, block->size};

    return na_sm_arena_find(
        na_sm_of(end->na_class)->arenas, &segment, 1, offset_p);
}

/* Mappings of arenas in this process. */
static unsigned reach_maps(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned count = 0;

    HG_CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, "memfd:hg-arena") != NULL;
    (void) fclose(file);
    return count;
}

static uint64_t reach_count(struct sm_end *end, const char *name)
{
    return NA_Get_counter(end->na_class, name);
}

HG_TEST(reach_maps_an_arena_once)
{
    struct sm_end owner, user;
    struct na_mem_block block, second;
    unsigned char *at = NULL;
    uint64_t offset;
    uint32_t id;
    unsigned fds, i;

    sm_end_open(&owner);
    sm_end_open(&user);
    sm_end_meet(&user, &owner);
    HG_CHECK_OK(na_rma_alloc(owner.na_class, 10000, NA_MEM_READWRITE, &block));
    HG_CHECK_OK(na_rma_alloc(owner.na_class, 50, NA_MEM_WRITE_ONLY, &second));
    HG_CHECK_EQ_INT(reach_maps(), 1);
    fds = hg_test_fd_count();
    id = reach_where(&owner, &block, &offset);
    HG_CHECK_EQ_INT(id, 1);
    for (i = 0; i < 3; i++) /* it does not wait, and asks once */
        HG_CHECK_EQ_INT(
            reach_try(&user, id, offset, 10000, true, &at), NA_SM_REACH_ASKED);
    HG_CHECK_EQ_INT(reach_until(&user, &owner, id, offset, 10000, true, &at),
        NA_SM_REACH_HERE);
    HG_CHECK(at != block.memory);
    at[9999] = 77;
    HG_CHECK_EQ_INT(((unsigned char *) block.memory)[9999], 77);
    ((unsigned char *) block.memory)[0] = 78;
    HG_CHECK_EQ_INT(at[0], 78);
    HG_CHECK_EQ_INT(reach_where(&owner, &second, &offset), 1);
    HG_CHECK_EQ_INT(
        reach_try(&user, 1, offset, 50, false, &at), NA_SM_REACH_HERE);
    HG_CHECK_EQ_U64(reach_count(&owner, "sm_arena_granted"), 1);
    HG_CHECK_EQ_U64(reach_count(&owner, "sm_arena_refused"), 0);
    HG_CHECK_EQ_INT(reach_maps(), 2);
    HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
    na_rma_free(&block);
    na_rma_free(&second);
    sm_end_close(&user);
    HG_CHECK_EQ_INT(reach_maps(), 1);
    sm_end_close(&owner);
    HG_CHECK_EQ_INT(reach_maps(), 0);
}

HG_TEST(reach_keeps_to_bounds_and_permission)
{
    struct sm_end owner, user;
    struct na_mem_block block;
    unsigned char *at = NULL;
    uint64_t offset, size = NA_SM_ARENA_UNIT;

    sm_end_open(&owner);
    sm_end_open(&user);
    sm_end_meet(&user, &owner);
    HG_CHECK_OK(na_rma_alloc(owner.na_class, 100, NA_MEM_READ_ONLY, &block));
    HG_CHECK_EQ_INT(reach_where(&owner, &block, &offset), 1);
    HG_CHECK_EQ_INT(reach_until(&user, &owner, 1, offset, 100, false, &at),
        NA_SM_REACH_HERE);
    HG_CHECK_EQ_INT(at[99], 0);
    HG_CHECK_EQ_INT(
        reach_try(&user, 1, offset, 100, true, &at), NA_SM_REACH_NEVER);
    HG_CHECK(mprotect(at, 4096, PROT_READ | PROT_WRITE) != 0);
    HG_CHECK_EQ_INT(reach_try(&user, 1, 0, size, false, &at), NA_SM_REACH_HERE);
    HG_CHECK_EQ_INT(reach_try(&user, 1, size, 0, false, &at), NA_SM_REACH_HERE);
    HG_CHECK_EQ_INT(
        reach_try(&user, 1, 1, size, false, &at), NA_SM_REACH_NEVER);
    HG_CHECK_EQ_INT(
        reach_try(&user, 1, size + 1, 0, false, &at), NA_SM_REACH_NEVER);
    HG_CHECK_EQ_INT(
        reach_try(&user, 1, 1, UINT64_MAX, false, &at), NA_SM_REACH_NEVER);
    HG_CHECK_EQ_INT(reach_try(&user, 0, 0, 1, false, &at), NA_SM_REACH_NEVER);
    HG_CHECK_EQ_INT(reach_try(&user, NA_SM_ARENAS + 1, 0, 1, false, &at),
        NA_SM_REACH_NEVER);
    na_rma_free(&block);
    sm_end_close(&user);
    sm_end_close(&owner);
}

HG_TEST(reach_hears_no_for_what_there_is_not)
{
    struct sm_end owner, user;
    unsigned char *at = NULL;

    sm_end_open(&owner);
    sm_end_open(&user);
    sm_end_meet(&user, &owner);
    HG_CHECK_EQ_INT(reach_until(&user, &owner, NA_SM_ARENAS, 0, 1, false, &at),
        NA_SM_REACH_NEVER);
    HG_CHECK_EQ_U64(reach_count(&owner, "sm_arena_refused"), 1);
    HG_CHECK_EQ_U64(reach_count(&owner, "sm_arena_granted"), 0);
    sm_end_close(&user);
    sm_end_close(&owner);
}

static bool reach_ended;

static na_return_t reach_terminated(const struct na_cb_info *info)
{
    HG_CHECK_OK(info->ret);
    reach_ended = true;
    return NA_SUCCESS;
}

/* The next connection begins anew. */
HG_TEST(reach_ends_with_the_connection)
{
    struct sm_end owner, user;
    struct na_mem_block block, second; /* in an arena each */
    unsigned char *at = NULL;
    unsigned i;

    sm_end_open(&owner);
    sm_end_open(&user);
    HG_CHECK_OK(na_rma_alloc(owner.na_class, 100, NA_MEM_READWRITE, &block));
    HG_CHECK_OK(na_rma_alloc(owner.na_class, 100, NA_MEM_READ_ONLY, &second));
    sm_end_meet(&user, &owner);
    for (i = 0; i < 2; i++) {
        HG_CHECK_EQ_INT(
            reach_until(&user, &owner, 1, 0, 100, true, &at), NA_SM_REACH_HERE);
        HG_CHECK_EQ_INT(reach_until(&user, &owner, 2, 0, 100, false, &at),
            NA_SM_REACH_HERE);
        HG_CHECK_EQ_U64(reach_count(&owner, "sm_arena_granted"), 2 * i + 2);
        HG_CHECK_EQ_INT(reach_maps(), 4);
        reach_ended = false;
        HG_CHECK_OK(NA_Addr_terminate(user.na_class, user.context,
            reach_terminated, NULL, user.peer, NA_OP_ID_IGNORE));
        while (!reach_ended || reach_maps() > 2) {
            sm_end_turn(&user);
            sm_end_turn(&owner);
        }
        HG_CHECK_OK(NA_Addr_free(user.na_class, user.peer));
        user.peer = NA_ADDR_NULL;
        sm_end_meet(&user, &owner);
    }
    /* The owner dies: what is mapped of it goes with the address. */
    HG_CHECK_EQ_INT(
        reach_until(&user, &owner, 1, 0, 100, true, &at), NA_SM_REACH_HERE);
    HG_CHECK_EQ_INT(
        reach_until(&user, &owner, 2, 0, 100, false, &at), NA_SM_REACH_HERE);
    na_rma_free(&block);
    na_rma_free(&second);
    sm_end_close(&owner);
    HG_CHECK_EQ_INT(reach_maps(), 2);
    while (reach_maps() > 0)
        sm_end_turn(&user);
    HG_CHECK_EQ_INT(reach_try(&user, 1, 0, 100, true, &at), NA_SM_REACH_ASKED);
    sm_end_close(&user);
}

/* So it does for who grants, and dials anew. */
HG_TEST(reach_is_granted_anew_by_who_dials_again)
{
    struct sm_end owner, user, asker;
    struct na_mem_block block;
    unsigned char *at = NULL;
    unsigned i;

    sm_end_open(&owner);
    sm_end_open(&user);
    HG_CHECK_OK(na_rma_alloc(owner.na_class, 100, NA_MEM_READWRITE, &block));
    for (i = 0; i < 2; i++) {
        sm_end_meet(&owner, &user);
        asker = sm_end_accepted(&user);
        HG_CHECK_EQ_INT(reach_until(&asker, &owner, 1, 0, 100, true, &at),
            NA_SM_REACH_HERE);
        HG_CHECK_EQ_U64(reach_count(&owner, "sm_arena_granted"), i + 1);
        reach_ended = false;
        HG_CHECK_OK(NA_Addr_terminate(owner.na_class, owner.context,
            reach_terminated, NULL, owner.peer, NA_OP_ID_IGNORE));
        while (!reach_ended || reach_maps() > 1) {
            sm_end_turn(&owner);
            sm_end_turn(&user);
        }
        HG_CHECK_OK(NA_Addr_free(owner.na_class, owner.peer));
        owner.peer = NA_ADDR_NULL;
    }
    na_rma_free(&block);
    sm_end_close(&owner);
    sm_end_close(&user);
}

/* An owner with too many descriptors under way is asked once more. */
HG_TEST(reach_asks_again_after_not_now)
{
    struct sm_end owner, user, granter;
    struct na_mem_block block;
    unsigned char *at = NULL;
    const struct na_sm_window *window;
    struct na_sm_addr *addr;

    sm_end_open(&owner);
    sm_end_open(&user);
    sm_end_meet(&user, &owner);
    HG_CHECK_OK(na_rma_alloc(owner.na_class, 100, NA_MEM_READWRITE, &block));
    HG_CHECK_EQ_INT(reach_try(&user, 1, 0, 100, true, &at), NA_SM_REACH_ASKED);
    window = &na_sm_addr_of(user.peer)->windows->window[0];
    granter = sm_end_accepted(&owner);
    addr = na_sm_addr_of(granter.peer);
    na_sm_enter(na_sm_of(addr->base.na_class));
    HG_CHECK_OK(na_sm_reach_say(addr, NA_SM_GRANT, 1, NA_AGAIN, -1));
    na_sm_leave(na_sm_of(addr->base.na_class));
    while (window->state == NA_SM_WINDOW_ASKED)
        sm_end_turn(&user);
    HG_CHECK_EQ_INT(
        reach_until(&user, &owner, 1, 0, 100, true, &at), NA_SM_REACH_HERE);
    na_rma_free(&block);
    sm_end_close(&user);
    sm_end_close(&owner);
}

/* Become a user for whom the kernel limits the descriptors under way, which no
 * other test is. */
static void reach_drop(void)
{
    enum { USER = 64123 };

    if (geteuid() == 0) {
        HG_CHECK(setresuid(USER, USER, USER) == 0);
        HG_CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0); /* for LSan */
    }
}

/* Send descriptors that nobody receives until the kernel takes no more. */
static void reach_fill(int fd)
{
    struct na_sm_packet packet;
    na_return_t ret = NA_SUCCESS;
    unsigned i;

    memset(&packet, 0, sizeof(packet));
    packet.kind = NA_SM_GRANT;
    for (i = 0; i < NA_SM_FDS; i++)
        packet.fds[i] = STDERR_FILENO;
    for (i = 0; i < 1000 && ret == NA_SUCCESS; i++)
        ret = na_sm_packet_send(fd, &packet, NA_SM_FDS);
    if (ret == NA_SUCCESS || errno != ETOOMANYREFS)
        hg_test_skip("the kernel does not limit descriptors under way");
    HG_CHECK_RET(ret, NA_AGAIN);
}

/* The owner cannot send the arena's descriptor, because as many as may be are
 * under way to peers that do not receive them. It says so, and grants the
 * arena when it is asked again. */
HG_TEST(reach_is_granted_when_descriptors_may_be_sent)
{
    struct sm_end owner, user;
    struct na_mem_block block;
    const struct na_sm_window *window;
    struct rlimit limit, low;
    unsigned char *at = NULL;
    unsigned turn;
    int ends[2];

    reach_drop();
    sm_end_open(&owner);
    sm_end_open(&user);
    sm_end_meet(&user, &owner);
    HG_CHECK_OK(na_rma_alloc(owner.na_class, 100, NA_MEM_READWRITE, &block));
    HG_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    HG_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = limit;
    low.rlim_cur = 64;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    reach_fill(ends[0]);
    HG_CHECK_EQ_INT(reach_try(&user, 1, 0, 100, true, &at), NA_SM_REACH_ASKED);
    window = &na_sm_addr_of(user.peer)->windows->window[0];
    for (turn = 1; turn < 3; turn++) {
        HG_CHECK_EQ_INT(window->state, NA_SM_WINDOW_ASKED);
        while (window->state == NA_SM_WINDOW_ASKED) {
            sm_end_turn(&user);
            sm_end_turn(&owner);
        }
        HG_CHECK_EQ_INT(window->state, NA_SM_WINDOW_UNKNOWN);
        HG_CHECK_EQ_U64(reach_count(&owner, "sm_arena_refused"), turn);
        HG_CHECK_EQ_INT(
            reach_try(&user, 1, 0, 100, true, &at), NA_SM_REACH_ASKED);
    }
    HG_CHECK_EQ_U64(reach_count(&owner, "sm_arena_granted"), 0);
    HG_CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    HG_CHECK_EQ_INT(
        reach_until(&user, &owner, 1, 0, 100, true, &at), NA_SM_REACH_HERE);
    HG_CHECK_EQ_U64(reach_count(&owner, "sm_arena_refused"), 2);
    HG_CHECK_EQ_U64(reach_count(&owner, "sm_arena_granted"), 1);
    na_rma_free(&block);
    sm_end_close(&user);
    sm_end_close(&owner);
}

/* ---- Transfers ---- */

struct reach_op {
    bool ended;
    na_return_t ret;
};

static na_return_t reach_moved(const struct na_cb_info *info)
{
    struct reach_op *op = (struct reach_op *) info->arg;

    op->ret = info->ret;
    op->ended = true;
    return NA_SUCCESS;
}

static na_return_t reach_move(struct sm_end *from, struct sm_end *to, bool put,
    na_mem_handle_t local, na_mem_handle_t remote, na_size_t offset,
    na_size_t size)
{
    struct reach_op op = {false, NA_SUCCESS};

    HG_CHECK_OK(
        (put ? NA_Put : NA_Get)(from->na_class, from->context, reach_moved, &op,
            local, 0, remote, offset, size, from->peer, NA_OP_ID_IGNORE));
    while (!op.ended) {
        sm_end_turn(from);
        sm_end_turn(to);
    }
    return op.ret;
}

/* Memory of the library's goes through the mapping, whole, in both directions,
 * with no call of the kernel; and not once it was withdrawn. */
HG_TEST(reach_carries_transfers)
{
    enum { SIZE = 3 << 20, HALF = SIZE / 2 };
    unsigned char *bytes = (unsigned char *) malloc(SIZE);
    struct na_segment segments[2] = {{bytes + HALF, HALF}, {bytes, HALF}};
    struct sm_end owner, user;
    struct na_mem_block block;
    na_mem_handle_t local, mem, remote;
    unsigned char wire[128];
    unsigned char *memory;
    na_size_t size, i;

    HG_CHECK(bytes != NULL);
    HG_CHECK(setenv("HG_SM_RMA", "map", 1) == 0);
    sm_end_open(&owner);
    sm_end_open(&user);
    sm_end_meet(&user, &owner);
    HG_CHECK_OK(na_rma_alloc(owner.na_class, SIZE, NA_MEM_READWRITE, &block));
    memory = (unsigned char *) block.memory;
    for (i = 0; i < SIZE; i++)
        memory[i] = (unsigned char) (i * 7 >> 8 ^ i);
    HG_CHECK_OK(NA_Mem_handle_create(
        owner.na_class, memory, SIZE, NA_MEM_READWRITE, &mem));
    HG_CHECK_OK(NA_Mem_register(owner.na_class, mem));
    size = NA_Mem_handle_get_serialize_size(owner.na_class, mem);
    HG_CHECK(size <= sizeof(wire));
    HG_CHECK_OK(NA_Mem_handle_serialize(owner.na_class, wire, size, mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(user.na_class, &remote, wire, size));
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        user.na_class, segments, 2, NA_MEM_READWRITE, &local));
    HG_CHECK_OK(reach_move(&user, &owner, false, local, remote, 0, SIZE));
    HG_CHECK(memcmp(bytes + HALF, memory, HALF) == 0);
    HG_CHECK(memcmp(bytes, memory + HALF, HALF) == 0);
    HG_CHECK_EQ_U64(reach_count(&user, "sm_rma_mapped"), SIZE);
    memset(bytes, 0xab, SIZE);
    HG_CHECK_OK(reach_move(&user, &owner, true, local, remote, 10, 5000));
    HG_CHECK(memory[9] == (9 * 7 >> 8 ^ 9) && memory[10] == 0xab);
    HG_CHECK(memory[5009] == 0xab &&
        memory[5010] == (unsigned char) (5010 * 7 >> 8 ^ 5010));
    HG_CHECK_EQ_U64(reach_count(&user, "sm_rma_mapped"), SIZE + 5000);
    HG_CHECK_EQ_U64(reach_count(&user, "sm_rma_calls"), 0);
    HG_CHECK_EQ_U64(reach_count(&user, "sm_rma_copied"), 0);
    HG_CHECK_EQ_U64(reach_count(&owner, "sm_rma_copied"), 0);
    /* Withdrawn, it is mapped as before, and not touched. */
    HG_CHECK_OK(NA_Mem_deregister(owner.na_class, mem));
    memset(memory, 1, SIZE);
    HG_CHECK_RET(
        reach_move(&user, &owner, true, local, remote, 0, SIZE), NA_NOENTRY);
    for (i = 0; i < SIZE; i++)
        HG_CHECK(memory[i] == 1);
    HG_CHECK_OK(NA_Mem_handle_free(owner.na_class, mem));
    HG_CHECK_OK(NA_Mem_handle_free(user.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(user.na_class, local));
    na_rma_free(&block);
    sm_end_close(&user);
    sm_end_close(&owner);
    free(bytes);
}

/* ---- The permit ---- */

static unsigned reach_movers(const struct sm_end *end)
{
    const struct na_link *head = &na_sm_of(end->na_class)->movers;
    const struct na_link *link;
    unsigned n = 0;

    for (link = head->next; link != head; link = link->next)
        n++;
    return n;
}

struct reach_memory {
    unsigned char theirs[4096], ours[4096];
    na_mem_handle_t mem, remote, local;
};

/* `theirs`: where it is. */
static void reach_share(struct reach_memory *memory, struct sm_end *owner,
    struct sm_end *user, void *theirs)
{
    unsigned char wire[NA_SM_MEM_HANDLE];

    HG_CHECK_OK(NA_Mem_handle_create(owner->na_class, theirs,
        sizeof(memory->theirs), NA_MEM_READWRITE, &memory->mem));
    HG_CHECK_OK(NA_Mem_register(owner->na_class, memory->mem));
    HG_CHECK_OK(NA_Mem_handle_serialize(
        owner->na_class, wire, sizeof(wire), memory->mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        user->na_class, &memory->remote, wire, sizeof(wire)));
    HG_CHECK_OK(NA_Mem_handle_create(user->na_class, memory->ours,
        sizeof(memory->ours), NA_MEM_READWRITE, &memory->local));
}

static void reach_unshare(
    struct reach_memory *memory, struct sm_end *owner, struct sm_end *user)
{
    if (owner->na_class != NULL)
        HG_CHECK_OK(NA_Mem_handle_free(owner->na_class, memory->mem));
    HG_CHECK_OK(NA_Mem_handle_free(user->na_class, memory->remote));
    HG_CHECK_OK(NA_Mem_handle_free(user->na_class, memory->local));
}

static void reach_begin(struct reach_memory *memory, struct sm_end *user,
    struct reach_op *op, na_op_id_t *id)
{
    memset(op, 0, sizeof(*op));
    HG_CHECK_OK(
        NA_Get(user->na_class, user->context, reach_moved, op, memory->local, 0,
            memory->remote, 0, sizeof(memory->ours), user->peer, id));
}

/* Who moves memory asks first, and waits asleep; only who did is heeded when
 * memory is withdrawn; until it goes. */
HG_TEST(reach_permits_who_moves_memory)
{
    struct sm_end owner, user, idle;
    struct reach_memory memory;
    struct reach_op op, other;
    na_op_id_t id;
    unsigned i;

    sm_end_open(&owner);
    sm_end_open(&user);
    sm_end_open(&idle);
    sm_end_meet(&user, &owner);
    sm_end_meet(&idle, &owner);
    reach_share(&memory, &owner, &user, memory.theirs);
    HG_CHECK_EQ_INT(reach_movers(&owner), 0);
    reach_begin(&memory, &user, &op, NA_OP_ID_IGNORE);
    reach_begin(&memory, &user, &other, &id);
    for (i = 0; i < 100; i++)
        sm_end_turn(&user);
    HG_CHECK(!op.ended && !other.ended);
    /* It could sleep; and what waits can be canceled. */
    HG_CHECK(!na_sm_rma_has_work(na_sm_of(user.na_class)));
    HG_CHECK_OK(NA_Cancel(user.na_class, user.context, id));
    sm_end_turn(&user);
    HG_CHECK(other.ended);
    HG_CHECK_RET(other.ret, NA_CANCELED);
    while (!op.ended) {
        sm_end_turn(&owner);
        sm_end_turn(&user);
    }
    HG_CHECK_OK(op.ret);
    HG_CHECK_EQ_INT(reach_movers(&owner), 1);
    HG_CHECK_EQ_U64(reach_count(&owner, "sm_rma_permits"), 1);
    reach_begin(&memory, &user, &op, NA_OP_ID_IGNORE);
    sm_end_turn(&user);
    HG_CHECK(op.ended && op.ret == NA_SUCCESS); /* by itself */
    reach_unshare(&memory, &owner, &user);
    sm_end_close(&user);
    while (reach_movers(&owner) > 0)
        sm_end_turn(&owner);
    sm_end_close(&idle);
    sm_end_close(&owner);
}

/* An owner that goes before it answered ends the wait. */
HG_TEST(reach_waits_for_no_permit_of_the_dead)
{
    struct sm_end owner, user;
    struct reach_memory memory;
    struct reach_op op;

    hg_test_allow_log("");
    sm_end_open(&owner);
    sm_end_open(&user);
    sm_end_meet(&user, &owner);
    reach_share(&memory, &owner, &user, memory.theirs);
    reach_begin(&memory, &user, &op, NA_OP_ID_IGNORE);
    sm_end_turn(&user);
    HG_CHECK(!op.ended);
    HG_CHECK_OK(NA_Mem_handle_free(owner.na_class, memory.mem));
    sm_end_close(&owner);
    owner.na_class = NULL;
    while (!op.ended)
        sm_end_turn(&user);
    HG_CHECK_RET(op.ret, NA_DISCONNECT);
    reach_unshare(&memory, &owner, &user);
    sm_end_close(&user);
}

/* Nor does a context that is destroyed wait, or memory that is freed. */
HG_TEST(reach_waits_for_no_permit_at_the_end)
{
    struct sm_end owner, user;
    struct reach_memory memory;
    struct reach_op op;

    sm_end_open(&owner);
    sm_end_open(&user);
    sm_end_meet(&user, &owner);
    reach_share(&memory, &owner, &user, memory.theirs);
    reach_begin(&memory, &user, &op, NA_OP_ID_IGNORE);
    na_sm_rma_end_local(memory.local);
    while (!op.ended)
        sm_end_turn(&user);
    HG_CHECK_RET(op.ret, NA_CANCELED);
    reach_unshare(&memory, &owner, &user);
    sm_end_close(&user);
    sm_end_close(&owner);
}

/* With HG_SM_RMA=map a transfer waits, asleep, until the arena is here, or is
 * canceled, or ended by the owner's death. */
HG_TEST(reach_waits_asleep_for_an_arena)
{
    struct sm_end owner, user;
    struct reach_memory memory;
    struct na_mem_block block;
    struct reach_op ops[3];
    na_op_id_t id;
    unsigned dies, i;

    hg_test_allow_log("");
    HG_CHECK(setenv("HG_SM_RMA", "map", 1) == 0);
    for (dies = 0; dies < 2; dies++) {
        sm_end_open(&owner);
        sm_end_open(&user);
        sm_end_meet(&user, &owner);
        HG_CHECK_OK(na_rma_alloc(
            owner.na_class, sizeof(memory.ours), NA_MEM_READWRITE, &block));
        memset(block.memory, 7, sizeof(memory.ours));
        reach_share(&memory, &owner, &user, block.memory);
        reach_begin(&memory, &user, &ops[0], NA_OP_ID_IGNORE);
        while (atomic_load(&na_sm_addr_of(user.peer)->permit) !=
            NA_SM_PERMIT_HERE) {
            sm_end_turn(&owner);
            sm_end_turn(&user);
        }
        reach_begin(&memory, &user, &ops[1], NA_OP_ID_IGNORE);
        reach_begin(&memory, &user, &ops[2], &id);
        for (i = 0; i < 100; i++)
            sm_end_turn(&user);
        HG_CHECK(!na_sm_rma_has_work(na_sm_of(user.na_class)));
        HG_CHECK_OK(NA_Cancel(user.na_class, user.context, id));
        sm_end_turn(&user);
        HG_CHECK(!ops[0].ended && !ops[1].ended && ops[2].ended);
        HG_CHECK_RET(ops[2].ret, NA_CANCELED);
        if (dies > 0) {
            HG_CHECK_OK(NA_Mem_handle_free(owner.na_class, memory.mem));
            na_rma_free(&block);
            sm_end_close(&owner);
            owner.na_class = NULL;
        }
        while (!ops[0].ended || !ops[1].ended) {
            if (dies == 0)
                sm_end_turn(&owner);
            sm_end_turn(&user);
        }
        for (i = 0; i < 2; i++)
            HG_CHECK_RET(ops[i].ret, dies > 0 ? NA_DISCONNECT : NA_SUCCESS);
        if (dies == 0) {
            HG_CHECK_EQ_INT(memory.ours[sizeof(memory.ours) - 1], 7);
            HG_CHECK_EQ_U64(
                reach_count(&user, "sm_rma_mapped"), 2 * sizeof(memory.ours));
            HG_CHECK_EQ_U64(reach_count(&user, "sm_rma_vm"), 0);
        }
        reach_unshare(&memory, &owner, &user);
        sm_end_close(&user);
        if (dies == 0) {
            na_rma_free(&block);
            sm_end_close(&owner);
        }
    }
    HG_CHECK(unsetenv("HG_SM_RMA") == 0);
}

/* What Yama's file may say; without Yama nothing is opened, and nobody is
 * told. */
HG_TEST(reach_opens_up_where_it_may)
{
    static const struct {
        const char *text;
        bool may;
    } cases[] = {{"0\n", false}, {"1\n", true}, {"1", true}, {"2\n", false},
        {"3\n", false}, {"", false}, {"10\n", false}, {"\n", false}};
    char path[] = "/tmp/hg-yama-XXXXXX";
    int fd = mkstemp(path);
    size_t i;

    HG_CHECK(fd >= 0);
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t size = strlen(cases[i].text);

        HG_CHECK(ftruncate(fd, 0) == 0);
        HG_CHECK(pwrite(fd, cases[i].text, size, 0) == (ssize_t) size);
        HG_CHECK_EQ_INT(na_sm_reach_may_open(path), cases[i].may);
    }
    (void) close(fd);
    HG_CHECK(unlink(path) == 0);
    HG_CHECK(!na_sm_reach_may_open(path));
    na_sm_reach_open_up();
}

/* ---- Who says what nobody would ---- */

static void reach_say(struct sm_end *from, enum na_sm_packet_kind kind,
    uint32_t id, const int *fds, unsigned count)
{
    struct na_sm_packet packet;
    unsigned i;

    memset(&packet, 0, sizeof(packet));
    packet.version = NA_SM_VERSION;
    packet.kind = (uint8_t) kind;
    packet.incarnation = 1;
    packet.slot = id;
    for (i = 0; i < count; i++)
        packet.fds[i] = fds[i];
    HG_CHECK_OK(
        na_sm_packet_send(na_sm_addr_of(from->peer)->fd, &packet, count));
}

static void reach_turn_until(
    struct sm_end *end, const char *counter, uint64_t value)
{
    while (reach_count(end, counter) < value)
        sm_end_turn(end);
}

HG_TEST(reach_grants_once_however_often_it_is_asked)
{
    struct sm_end owner, hostile;
    struct na_mem_block block;
    unsigned i;

    sm_end_open(&owner);
    sm_end_open(&hostile);
    sm_end_meet(&hostile, &owner);
    HG_CHECK_OK(na_rma_alloc(owner.na_class, 100, NA_MEM_READWRITE, &block));
    for (i = 0; i < 500; i++) {
        reach_say(&hostile, NA_SM_ASK, 1, NULL, 0);
        reach_turn_until(&owner, "sm_arena_refused", i);
        reach_turn_until(&owner, "sm_arena_granted", 1);
    }
    reach_turn_until(&owner, "sm_arena_refused", 499);
    HG_CHECK_EQ_U64(reach_count(&owner, "sm_arena_granted"), 1);
    /* The permit neither. */
    for (i = 0; i < 3; i++)
        reach_say(&hostile, NA_SM_ASK, 0, NULL, 0);
    reach_turn_until(&owner, "sm_arena_refused", 501);
    HG_CHECK_EQ_U64(reach_count(&owner, "sm_rma_permits"), 1);
    HG_CHECK_EQ_INT(reach_movers(&owner), 1);
    /* Nor does it wait for who asks and does not listen. */
    for (i = 0; i < 500; i++) {
        reach_say(&hostile, NA_SM_ASK, 2 + i, NULL, 0);
        reach_turn_until(&owner, "sm_arena_refused", 502 + i);
    }
    sm_end_turn(&hostile); /* a GRANT that it did not ask for */
    reach_turn_until(&hostile, "sm_arena_stray", 1);
    HG_CHECK_EQ_INT(reach_maps(), 1);
    na_rma_free(&block);
    sm_end_close(&hostile);
    sm_end_close(&owner);
}

static int reach_memory(off_t size, int seals)
{
    int fd = memfd_create("hg-arena-forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    HG_CHECK(fd >= 0 && ftruncate(fd, size) == 0);
    HG_CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

/* A victim asks for arena 1, and is given something. */
static enum na_sm_reach reach_forge(const int *fds, unsigned count)
{
    struct sm_end victim, hostile, other;
    unsigned char *at = NULL;
    struct na_sm_addr *addr;
    enum na_sm_reach reach;
    unsigned open_fds;

    sm_end_open(&victim);
    sm_end_open(&hostile);
    sm_end_meet(&hostile, &victim);
    sm_end_meet(&victim, &hostile);
    addr = na_sm_addr_of(victim.peer);
    HG_CHECK_EQ_INT(reach_try(&victim, 1, 0, 1, false, &at), NA_SM_REACH_ASKED);
    open_fds = hg_test_fd_count();
    /* By the connection that was asked, from its other end. */
    other = sm_end_accepted(&hostile);
    reach_say(&other, NA_SM_GRANT, 1, fds, count);
    while (addr->windows->window[0].state == NA_SM_WINDOW_ASKED &&
        reach_count(&victim, "sm_arena_stray") == 0)
        sm_end_turn(&victim);
    HG_CHECK_EQ_INT(hg_test_fd_count(), open_fds);
    reach = reach_try(&victim, 1, 0, 1, false, &at);
    sm_end_close(&hostile);
    sm_end_close(&victim);
    return reach;
}

HG_TEST(reach_maps_nothing_that_is_no_arena)
{
    enum { GOOD = F_SEAL_SHRINK | F_SEAL_GROW };
    off_t unit = (off_t) NA_SM_ARENA_UNIT;
    int fds[2], i;
    struct {
        off_t size;
        int seals;
    } bad[] = {{unit, 0}, {unit, F_SEAL_GROW}, {unit, F_SEAL_SHRINK}, {0, GOOD},
        {unit - 4096, GOOD}, {unit + 1, GOOD},
        {(off_t) NA_SM_ARENA_MAX + unit, GOOD}};

    HG_CHECK_OK(HG_Set_log_level("debug")); /* all lines */
    hg_test_expect_log("a peer sent what is no arena");
    for (i = 0; i < (int) (sizeof(bad) / sizeof(bad[0])); i++) {
        fds[0] = reach_memory(bad[i].size, bad[i].seals);
        HG_CHECK_EQ_INT(reach_forge(fds, 1), NA_SM_REACH_NEVER);
        (void) close(fds[0]);
    }
    fds[0] = open("/dev/zero", O_RDWR | O_CLOEXEC);
    HG_CHECK_EQ_INT(reach_forge(fds, 1), NA_SM_REACH_NEVER);
    (void) close(fds[0]);
    /* A hole in huge pages faults where none is left. */
    fds[0] = memfd_create(
        "hg-arena-forged", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fds[0] >= 0) { /* else this kernel has no such memory */
        HG_CHECK(ftruncate(fds[0], unit) == 0);
        HG_CHECK(fcntl(fds[0], F_ADD_SEALS, GOOD) == 0);
        HG_CHECK_EQ_INT(reach_forge(fds, 1), NA_SM_REACH_NEVER);
        HG_CHECK_EQ_INT(hg_test_log_count("a peer sent what is no arena"),
            2 + sizeof(bad) / sizeof(bad[0]));
        (void) close(fds[0]);
    }
    fds[0] = reach_memory(unit, GOOD);
    fds[1] = reach_memory(unit, GOOD);
    HG_CHECK_EQ_INT(reach_forge(fds, 2), NA_SM_REACH_ASKED);
    HG_CHECK_EQ_INT(reach_forge(fds, 1), NA_SM_REACH_HERE);
    (void) close(fds[0]);
    (void) close(fds[1]);
}

/* Packets that nobody asked for, of every kind, with descriptors and without,
 * from a caller and from a listener: they are counted, no descriptor stays, and
 * nothing is permitted or mapped. */
HG_TEST(reach_ignores_what_nobody_asked_for)
{
    static const uint32_t ids[] = {0, 1, 2, NA_SM_ARENAS, NA_SM_ARENAS + 1,
        NA_SM_ARENAS + 2, NA_SM_PEERS - 1};
    static const uint8_t kinds[] = {
        NA_SM_HELLO, NA_SM_WELCOME, NA_SM_REFUSE, NA_SM_GRANT, 77, 255};
    const size_t all = sizeof(ids) / sizeof(ids[0]) * sizeof(kinds);
    struct sm_end victim, hostile, side;
    unsigned open_fds, way;
    struct na_sm_addr *addr;
    unsigned char *at = NULL;
    int fds[NA_SM_FDS];
    size_t i;

    for (i = 0; i < NA_SM_FDS; i++)
        fds[i] =
            reach_memory((off_t) NA_SM_ARENA_UNIT, F_SEAL_SHRINK | F_SEAL_GROW);
    for (way = 0; way < SM_END_WAYS; way++) {
        sm_end_open(&victim);
        sm_end_open(&hostile);
        side = sm_end_attack(&hostile, &victim, way);
        addr = sm_end_attacker(&victim, way);
        open_fds = hg_test_fd_count();
        for (i = 0; i < 2 * all; i++) {
            /* First of a victim that asked for nothing, then for arena 2. */
            if (i == all) {
                struct sm_end asker = victim;

                asker.peer = &addr->base;
                HG_CHECK_EQ_INT(
                    reach_try(&asker, 2, 0, 1, false, &at), NA_SM_REACH_ASKED);
            }
            if (i >= all && ids[i / sizeof(kinds) % 7] == 2 &&
                kinds[i % sizeof(kinds)] == NA_SM_GRANT)
                reach_say(&side, NA_SM_GRANT, 2, fds, 2); /* one too many */
            else
                reach_say(&side,
                    (enum na_sm_packet_kind) kinds[i % sizeof(kinds)],
                    ids[i / sizeof(kinds) % 7], fds, (unsigned) i % 5);
            reach_turn_until(&victim, "sm_arena_stray", i + 1);
        }
        HG_CHECK_EQ_INT(hg_test_fd_count(), open_fds);
        HG_CHECK_EQ_INT(na_sm_peer_state(addr), NA_SM_READY);
        HG_CHECK_EQ_INT(atomic_load(&addr->permit), NA_SM_PERMIT_NONE);
        for (i = 0; i < NA_SM_ARENAS; i++)
            HG_CHECK_EQ_INT(addr->windows->window[i].state,
                i == 1 ? NA_SM_WINDOW_ASKED : NA_SM_WINDOW_UNKNOWN);
        sm_end_close(&hostile);
        sm_end_close(&victim);
    }
    for (i = 0; i < NA_SM_FDS; i++)
        (void) close(fds[i]);
}

/* The victim has no descriptor left for what it asked for. */
HG_TEST(reach_without_descriptors_is_never)
{
    struct sm_end owner, user;
    struct na_mem_block block;
    struct rlimit limit, low;
    unsigned char *at = NULL;
    int highest;

    hg_test_expect_log("the limit nofile is");
    sm_end_open(&owner);
    sm_end_open(&user);
    sm_end_meet(&user, &owner);
    HG_CHECK_OK(na_rma_alloc(owner.na_class, 100, NA_MEM_READWRITE, &block));
    highest = dup(0);
    HG_CHECK(highest >= 0 && close(highest) == 0);
    HG_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = limit;
    low.rlim_cur = (rlim_t) highest;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    HG_CHECK_EQ_INT(
        reach_until(&user, &owner, 1, 0, 100, true, &at), NA_SM_REACH_NEVER);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    na_rma_free(&block);
    sm_end_close(&user);
    sm_end_close(&owner);
}

#endif
