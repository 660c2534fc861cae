/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arenas of the transport sm that peers map: transfers use the mapping, within
 * its bounds; descriptors that are no arena are not mapped.
 */
#include "support/sm_endpoint.h"

#if HG_ENABLE_SM

static uint64_t map_count(struct sm_endpoint *end, const char *name)
{
    return NA_Get_counter(end->na_class, name);
}

struct map_op {
    bool ended;
    na_return_t ret;
};

static na_return_t map_moved(const struct na_cb_info *info)
{
    struct map_op *op = (struct map_op *) info->arg;

    op->ret = info->ret;
    op->ended = true;
    return NA_SUCCESS;
}

static na_return_t map_move(struct sm_endpoint *from, struct sm_endpoint *to,
    bool put, na_mem_handle_t local, na_mem_handle_t remote, na_size_t offset,
    na_size_t size)
{
    struct map_op op = {false, NA_SUCCESS};

    HG_CHECK_OK(
        (put ? NA_Put : NA_Get)(from->na_class, from->context, map_moved, &op,
            local, 0, remote, offset, size, from->peer, NA_OP_ID_IGNORE));
    while (!op.ended) {
        sm_endpoint_turn(from);
        sm_endpoint_turn(to);
    }
    return op.ret;
}

/* Memory of the library is moved through the mapping, completely, in both
 * directions, without a system call; but not once it was withdrawn. */
HG_TEST(map_carries_transfers)
{
    enum { SIZE = 3 << 20, HALF = SIZE / 2 };
    unsigned char *bytes = (unsigned char *) malloc(SIZE);
    struct na_segment segments[2] = {{bytes + HALF, HALF}, {bytes, HALF}};
    struct sm_endpoint owner, user;
    struct na_mem_block block;
    na_mem_handle_t local, mem, remote;
    unsigned char wire[128];
    unsigned char *memory;
    na_size_t size, i;

    HG_CHECK(bytes != NULL);
    sm_endpoint_open(&owner);
    sm_endpoint_open(&user);
    sm_endpoint_meet(&user, &owner);
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
    HG_CHECK_OK(map_move(&user, &owner, false, local, remote, 0, SIZE));
    HG_CHECK(memcmp(bytes + HALF, memory, HALF) == 0);
    HG_CHECK(memcmp(bytes, memory + HALF, HALF) == 0);
    HG_CHECK_EQ_U64(map_count(&user, "sm_rma_mapped"), SIZE);
    memset(bytes, 0xab, SIZE);
    HG_CHECK_OK(map_move(&user, &owner, true, local, remote, 10, 5000));
    HG_CHECK(memory[9] == (9 * 7 >> 8 ^ 9) && memory[10] == 0xab);
    HG_CHECK(memory[5009] == 0xab &&
        memory[5010] == (unsigned char) (5010 * 7 >> 8 ^ 5010));
    HG_CHECK_EQ_U64(map_count(&user, "sm_rma_mapped"), SIZE + 5000);
    HG_CHECK_EQ_U64(map_count(&user, "sm_rma_calls"), 0);
    HG_CHECK_EQ_U64(map_count(&user, "sm_rma_copied"), 0);
    HG_CHECK_EQ_U64(map_count(&owner, "sm_rma_copied"), 0);
    /* Withdrawn, it stays mapped, and is not touched. */
    HG_CHECK_OK(NA_Mem_deregister(owner.na_class, mem));
    memset(memory, 1, SIZE);
    HG_CHECK_RET(
        map_move(&user, &owner, true, local, remote, 0, SIZE), NA_NOENTRY);
    for (i = 0; i < SIZE; i++)
        HG_CHECK(memory[i] == 1);
    HG_CHECK_OK(NA_Mem_handle_free(owner.na_class, mem));
    HG_CHECK_OK(NA_Mem_handle_free(user.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(user.na_class, local));
    na_rma_free(&block);
    sm_endpoint_close(&user);
    sm_endpoint_close(&owner);
    free(bytes);
}

/* If an owner gives a place past the end of its arena, or one that is not
 * mapped writable, the kernel's copy decides. */
HG_TEST(map_checks_bounds_and_permission)
{
    static const uint64_t offsets[] = {NA_SM_ARENA_SIZE - 99, NA_SM_ARENA_SIZE,
        NA_SM_ARENA_SIZE + 1, UINT64_MAX, UINT64_MAX - 99};
    unsigned char bytes[100], wire[NA_SM_MEM_HANDLE];
    struct sm_endpoint owner, user;
    struct na_mem_block block;
    na_mem_handle_t local, mem, remote;
    struct na_sm_slot *slot;
    size_t i;

    sm_endpoint_open(&owner);
    sm_endpoint_open(&user);
    sm_endpoint_meet(&user, &owner);
    HG_CHECK_OK(na_rma_alloc(owner.na_class, 100, NA_MEM_READWRITE, &block));
    HG_CHECK_OK(NA_Mem_handle_create(
        owner.na_class, block.memory, 100, NA_MEM_READWRITE, &mem));
    HG_CHECK_OK(NA_Mem_register(owner.na_class, mem));
    HG_CHECK_OK(
        NA_Mem_handle_serialize(owner.na_class, wire, sizeof(wire), mem));
    HG_CHECK_OK(
        NA_Mem_handle_deserialize(user.na_class, &remote, wire, sizeof(wire)));
    HG_CHECK_OK(NA_Mem_handle_create(
        user.na_class, bytes, 100, NA_MEM_READWRITE, &local));
    memset(block.memory, 7, 100);
    slot = &na_sm_of(owner.na_class)->public_page->slots[0];
    for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        atomic_store(&slot->arena_offset, offsets[i]);
        memset(bytes, 0, sizeof(bytes));
        HG_CHECK_OK(map_move(&user, &owner, false, local, remote, 0, 100));
        HG_CHECK(bytes[0] == 7 && bytes[99] == 7);
    }
    HG_CHECK_EQ_U64(map_count(&user, "sm_rma_mapped"), 0);
    atomic_store(&slot->arena_offset, 0);
    for (i = 1; i < 256; i++) { /* the other arena, and none */
        atomic_store(&slot->arena, (uint8_t) i);
        HG_CHECK_OK(map_move(&user, &owner, true, local, remote, 0, 100));
    }
    HG_CHECK_EQ_U64(map_count(&user, "sm_rma_mapped"), 0);
    HG_CHECK_OK(NA_Mem_handle_free(owner.na_class, mem));
    HG_CHECK_OK(NA_Mem_handle_free(user.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(user.na_class, local));
    na_rma_free(&block);
    sm_endpoint_close(&user);
    sm_endpoint_close(&owner);
}

static int map_memory(off_t size, int seals)
{
    int fd = memfd_create("hg-arena-forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    HG_CHECK(fd >= 0 && ftruncate(fd, size) == 0);
    HG_CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

/* Whether a descriptor that a peer sent is mapped as an arena. */
static bool map_forge(int fd)
{
    struct na_sm_packet packet;
    struct na_sm_addr addr;
    void *arena;
    bool mapped;

    HG_CHECK(fd >= 0);
    memset(&addr, 0, sizeof(addr));
    na_sm_packet_init(&packet, NA_SM_WELCOME);
    packet.fds[NA_SM_FD_ARENA] = fd;
    HG_CHECK_OK(na_sm_conn_map(&addr, &packet));
    na_sm_packet_close(&packet);
    arena = addr.maps[NA_SM_FD_ARENA];
    mapped = arena != NULL &&
        na_sm_arena_open((unsigned char *) arena, &addr.peer_open[0], 4096,
            PROT_READ | PROT_WRITE);
    na_sm_page_unmap(arena, NA_SM_ARENA_SIZE);
    HG_CHECK(addr.maps[NA_SM_FD_ARENA + 1] == NULL);
    return mapped;
}

HG_TEST(map_refuses_descriptors_that_are_no_arena)
{
    enum { GOOD = F_SEAL_SHRINK | F_SEAL_GROW };
    off_t size = (off_t) NA_SM_ARENA_SIZE;
    int fd;

    HG_CHECK(!map_forge(map_memory(size, 0)));
    HG_CHECK(!map_forge(map_memory(size, F_SEAL_GROW)));
    HG_CHECK(!map_forge(map_memory(size, F_SEAL_SHRINK)));
    HG_CHECK(!map_forge(map_memory(0, GOOD)));
    HG_CHECK(!map_forge(map_memory(size - 4096, GOOD)));
    HG_CHECK(!map_forge(map_memory(size + 1, GOOD)));
    HG_CHECK(!map_forge(map_memory(size, GOOD | F_SEAL_WRITE)));
    HG_CHECK(!map_forge(open("/dev/zero", O_RDWR | O_CLOEXEC)));
    /* A hole in huge pages faults if none are left. */
    fd = memfd_create(
        "hg-arena-forged", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fd >= 0) { /* else this kernel has no huge pages */
        HG_CHECK(ftruncate(fd, size) == 0);
        HG_CHECK(fcntl(fd, F_ADD_SEALS, GOOD) == 0);
        HG_CHECK(!map_forge(fd));
    }
    HG_CHECK(map_forge(map_memory(size, GOOD)));
}

#endif
