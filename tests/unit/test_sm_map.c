/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arenas of the transport sm that peers map: transfers use the mapping, within
 * its bounds; descriptors that are no arena are not mapped. Pointers of
 * NA_Mem_map outlive all else, and are refused if the description or the owner
 * contradicts the memory.
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

/* ---- Pointers ---- */

/* Memory of an owner, and its handle at a user, which is connected. */
struct map_pair {
    struct sm_endpoint owner, user;
    unsigned char *memory;
    na_mem_handle_t mem, remote;
    unsigned char wire[NA_SM_MEM_HANDLE];
};

static void map_describe(struct map_pair *pair, struct na_segment *segments,
    na_size_t count, unsigned long flags)
{
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        pair->owner.na_class, segments, count, flags, &pair->mem));
    HG_CHECK_OK(NA_Mem_register(pair->owner.na_class, pair->mem));
    HG_CHECK_OK(NA_Mem_handle_serialize(
        pair->owner.na_class, pair->wire, sizeof(pair->wire), pair->mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair->user.na_class, &pair->remote, pair->wire, sizeof(pair->wire)));
}

static void map_forget(struct map_pair *pair)
{
    HG_CHECK_OK(NA_Mem_handle_free(pair->user.na_class, pair->remote));
    HG_CHECK_OK(NA_Mem_handle_free(pair->owner.na_class, pair->mem));
}

static void map_open(struct map_pair *pair, na_size_t size, unsigned long flags)
{
    struct na_segment segment = {NULL, size};

    sm_endpoint_open(&pair->owner);
    sm_endpoint_open(&pair->user);
    sm_endpoint_meet(&pair->user, &pair->owner);
    pair->memory = (unsigned char *) NA_Mem_alloc(pair->owner.na_class, size);
    HG_CHECK(pair->memory != NULL);
    segment.address = pair->memory;
    map_describe(pair, &segment, 1, flags);
}

static void map_close(struct map_pair *pair)
{
    map_forget(pair);
    HG_CHECK_OK(NA_Mem_free(pair->owner.na_class, pair->memory));
    sm_endpoint_close(&pair->user);
    sm_endpoint_close(&pair->owner);
}

static na_return_t map_it(struct map_pair *pair, unsigned char **ptr_p)
{
    void *ptr = NULL;
    na_return_t ret =
        NA_Mem_map(pair->user.na_class, pair->remote, pair->user.peer, &ptr);

    HG_CHECK((ptr != NULL) == (ret == NA_SUCCESS));
    *ptr_p = (unsigned char *) ptr;
    return ret;
}

/* As map_open, if the system can map memory twice. */
static void map_open_to_map(
    struct map_pair *pair, na_size_t size, unsigned long flags)
{
    if (hg_test_is_valgrind())
        hg_test_skip("valgrind refuses the system call");
    map_open(pair, size, flags);
}

/* The rights of the mapping of an address, as "rw-s"; "": none. */
static const char *map_rights(const void *at)
{
    static char rights[5];
    uintptr_t first, end;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");

    HG_CHECK(maps != NULL);
    rights[0] = '\0';
    while (rights[0] == '\0' && fgets(line, sizeof(line), maps) != NULL) {
        HG_CHECK_EQ_INT(
            sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &first, &end), 2);
        if ((uintptr_t) at >= first && (uintptr_t) at < end)
            memcpy(rights, strchr(line, ' ') + 1, 4);
    }
    (void) fclose(maps);
    return rights;
}

/* A pointer of its own, to any bytes of the arena: with a lead in a page, and
 * past a page. It is mapped twice, and each mapping ends alone. */
HG_TEST(map_gives_pointers)
{
    static const na_size_t places[][2] = {
        {0, 1}, {100, 4096}, {4095, 2}, {8192, 12288}, {12287, 8194}};
    struct map_pair pair;
    unsigned char *one, *two;
    size_t i;

    map_open_to_map(&pair, 20480 + 1, NA_MEM_READWRITE);
    for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        na_size_t size = places[i][1];
        unsigned char *at = pair.memory + places[i][0];
        struct na_segment segment = {at, size};

        map_forget(&pair);
        map_describe(&pair, &segment, 1, NA_MEM_READWRITE);
        at[0] = 1;
        at[size - 1] = (unsigned char) (i + 2);
        HG_CHECK_OK(map_it(&pair, &one));
        HG_CHECK_OK(map_it(&pair, &two));
        HG_CHECK(one != two && one != at);
        HG_CHECK(one[0] == (size == 1 ? i + 2 : 1) && one[size - 1] == i + 2);
        one[size - 1] = 77; /* a store is a store */
        HG_CHECK(at[size - 1] == 77 && two[size - 1] == 77);
        HG_CHECK_EQ_STR(map_rights(one), "rw-s");
        HG_CHECK_OK(NA_Mem_unmap(pair.user.na_class, one));
        HG_CHECK_EQ_STR(map_rights(one), "");
        at[size - 1] = 78;
        HG_CHECK(two[size - 1] == 78);
        HG_CHECK_OK(NA_Mem_unmap(pair.user.na_class, two));
        HG_CHECK_EQ_STR(map_rights(two), "");
    }
    HG_CHECK_EQ_U64(map_count(&pair.user, "rma_refused"), 0);
    map_close(&pair);
}

HG_TEST(map_of_a_read_only_handle_is_read_only)
{
    struct na_mem_block block;
    struct na_segment segment;
    struct map_pair pair;
    unsigned char *ptr;

    map_open_to_map(&pair, 100, NA_MEM_READ_ONLY);
    pair.memory[99] = 5;
    HG_CHECK_OK(map_it(&pair, &ptr));
    HG_CHECK_EQ_INT(ptr[99], 5);
    HG_CHECK_EQ_STR(map_rights(ptr), "r--s");
    HG_CHECK_OK(NA_Mem_unmap(pair.user.na_class, ptr));
    map_forget(&pair);
    /* In the other arena, where the owner forbids to write. */
    HG_CHECK_OK(
        na_rma_alloc(pair.owner.na_class, 100, NA_MEM_READ_ONLY, &block));
    segment.address = block.memory;
    segment.size = 100;
    map_describe(&pair, &segment, 1, NA_MEM_READ_ONLY);
    memset(block.memory, 6, 100);
    HG_CHECK_OK(map_it(&pair, &ptr));
    HG_CHECK_EQ_INT(ptr[99], 6);
    HG_CHECK_EQ_STR(map_rights(ptr), "r--s");
    HG_CHECK_OK(NA_Mem_unmap(pair.user.na_class, ptr));
    map_forget(&pair);
    map_describe(&pair, &segment, 1, NA_MEM_READWRITE);
    HG_CHECK_RET(map_it(&pair, &ptr), NA_OPNOTSUPPORT);
    na_rma_free(&block);
    map_close(&pair);
}

/* The memory can be accessed after it was deregistered and freed, and after
 * both handles, the connection, and the owner have ended. */
HG_TEST(map_outlives_its_owner)
{
    enum { SIZE = 2 << 20 }; /* freeing it returns it to the system */
    struct map_pair pair;
    unsigned char *ptr;

    map_open_to_map(&pair, SIZE, NA_MEM_READWRITE);
    memset(pair.memory, 3, SIZE);
    HG_CHECK_OK(map_it(&pair, &ptr));
    HG_CHECK_OK(NA_Mem_deregister(pair.owner.na_class, pair.mem));
    HG_CHECK(ptr[0] == 3 && ptr[SIZE - 1] == 3);
    map_forget(&pair);
    HG_CHECK(ptr[0] == 3 && ptr[SIZE - 1] == 3);
    HG_CHECK_OK(NA_Mem_free(pair.owner.na_class, pair.memory));
    HG_CHECK(ptr[0] == 0 && ptr[SIZE - 1] == 0);
    ptr[0] = 4;
    sm_endpoint_close(&pair.owner);
    do {
        sm_endpoint_turn(&pair.user);
    } while (na_sm_addr_of(pair.user.peer)->shared != NULL);
    HG_CHECK(ptr[0] == 4 && ptr[SIZE - 1] == 0);
    HG_CHECK_OK(NA_Mem_unmap(pair.user.na_class, ptr));
    HG_CHECK_EQ_STR(map_rights(ptr), "");
    sm_endpoint_close(&pair.user);
}

/* The owner cannot make an access fault. */
HG_TEST(map_cannot_be_taken_back)
{
    struct map_pair pair;
    unsigned char *ptr;
    int fd;

    map_open_to_map(&pair, 8192, NA_MEM_READWRITE);
    HG_CHECK_OK(map_it(&pair, &ptr));
    fd = na_sm_arena_fd(
        na_sm_of(pair.owner.na_class)->arenas, NA_SM_ARENA_READ_WRITE);
    HG_CHECK_EQ_INT(ftruncate(fd, 0), -1);
    HG_CHECK_EQ_INT(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    /* A hole reads as zeros. */
    pair.memory[4096] = 1;
    HG_CHECK_EQ_INT(madvise(pair.memory + 4096, 4096, MADV_REMOVE), 0);
    HG_CHECK_EQ_INT(ptr[4096], 0);
    ptr[4096] = 2;
    HG_CHECK_EQ_INT(pair.memory[4096], 2);
    HG_CHECK_OK(NA_Mem_unmap(pair.user.na_class, ptr));
    map_close(&pair);
}

/* Descriptions that claim more than the memory has: the user's bytes are
 * forged. */
HG_TEST(map_refuses_forged_handles)
{
    static const struct {
        size_t at; /* byte of the serialized handle */
        unsigned char flip;
        na_return_t ret;
    } cases[] = {
        {3, NA_MEM_WRITE_ONLY, NA_PERMISSION},       /* flags */
        {8, 1, NA_NOENTRY},                          /* key */
        {16, 1, NA_OVERFLOW},                        /* size: 101 */
        {22, 128, NA_OVERFLOW}, {24, 1, NA_NOENTRY}, /* incarnation */
        {32, 3, NA_NOENTRY},                         /* slot 2, which is free */
    };
    struct map_pair pair;
    unsigned char *ptr;
    size_t i;

    map_open(&pair, 100, NA_MEM_READ_ONLY);
    hg_test_expect_log("a handle of 100 bytes of a peer is not mapped");
    hg_test_allow_log("bytes of a peer is not mapped");
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        HG_CHECK_OK(NA_Mem_handle_free(pair.user.na_class, pair.remote));
        pair.wire[cases[i].at] ^= cases[i].flip;
        HG_CHECK_OK(NA_Mem_handle_deserialize(
            pair.user.na_class, &pair.remote, pair.wire, sizeof(pair.wire)));
        pair.wire[cases[i].at] ^= cases[i].flip;
        HG_CHECK_RET(map_it(&pair, &ptr), cases[i].ret);
        HG_CHECK_EQ_U64(map_count(&pair.user, "rma_refused"), i + 1);
    }
    map_close(&pair);
}

/* A handle of one process is not that of another, and not of memory that was
 * withdrawn. */
HG_TEST(map_refuses_memory_of_another_peer)
{
    struct na_sm_slot *slots[2];
    struct sm_endpoint other;
    struct map_pair pair;
    unsigned char *ptr;
    na_addr_t peer;

    map_open(&pair, 100, NA_MEM_READWRITE);
    peer = pair.user.peer;
    pair.user.peer = NA_ADDR_NULL;
    sm_endpoint_open(&other);
    sm_endpoint_meet(&pair.user, &other);
    hg_test_expect_log("a handle of 100 bytes of a peer is not mapped");
    HG_CHECK_RET(map_it(&pair, &ptr), NA_NOENTRY);
    /* It claims to have the memory. */
    slots[0] = &na_sm_of(pair.owner.na_class)->public_page->slots[0];
    slots[1] = &na_sm_of(other.na_class)->public_page->slots[0];
    atomic_store(&slots[1]->size, 100);
    atomic_store(&slots[1]->count, 1);
    atomic_store(&slots[1]->flags, NA_MEM_READWRITE);
    atomic_store(&slots[1]->mark, atomic_load(&slots[0]->mark));
    HG_CHECK_RET(map_it(&pair, &ptr), NA_NOENTRY);
    atomic_store(&slots[1]->mark, 0);
    HG_CHECK_OK(NA_Addr_free(pair.user.na_class, pair.user.peer));
    pair.user.peer = peer;
    HG_CHECK_OK(NA_Mem_deregister(pair.owner.na_class, pair.mem));
    HG_CHECK_RET(map_it(&pair, &ptr), NA_NOENTRY);
    HG_CHECK_EQ_U64(map_count(&pair.user, "rma_refused"), 3);
    sm_endpoint_close(&other);
    map_close(&pair);
}

/* The owner's page is forged: a place outside of the arena, or in none. */
HG_TEST(map_refuses_forged_places)
{
    static const uint64_t offsets[] = {NA_SM_ARENA_SIZE - 99, NA_SM_ARENA_SIZE,
        NA_SM_ARENA_SIZE + 1, UINT64_MAX, UINT64_MAX - 99};
    struct na_sm_slot *slot;
    struct map_pair pair;
    unsigned char *ptr;
    unsigned i;

    map_open(&pair, 100, NA_MEM_READWRITE);
    slot = &na_sm_of(pair.owner.na_class)->public_page->slots[0];
    hg_test_expect_log("a handle of 100 bytes of a peer is not mapped");
    for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        atomic_store(&slot->arena_offset, offsets[i]);
        HG_CHECK_RET(map_it(&pair, &ptr), NA_PROTOCOL_ERROR);
    }
    atomic_store(&slot->arena_offset, 0);
    atomic_store(&slot->size, NA_SM_ARENA_SIZE + 1);
    HG_CHECK_RET(map_it(&pair, &ptr), NA_PROTOCOL_ERROR);
    atomic_store(&slot->size, UINT64_MAX);
    HG_CHECK_RET(map_it(&pair, &ptr), NA_PROTOCOL_ERROR);
    atomic_store(&slot->size, 99);
    HG_CHECK_RET(map_it(&pair, &ptr), NA_OVERFLOW);
    atomic_store(&slot->size, 100);
    atomic_store(&slot->flags, NA_MEM_WRITE_ONLY);
    HG_CHECK_RET(map_it(&pair, &ptr), NA_PERMISSION);
    atomic_store(&slot->flags, NA_MEM_READWRITE);
    HG_CHECK_EQ_U64(map_count(&pair.user, "rma_refused"), i + 4);
    for (i = 1; i < 256; i++) { /* the other arena, and none; not an error */
        atomic_store(&slot->arena, (uint8_t) i);
        HG_CHECK_RET(map_it(&pair, &ptr), NA_OPNOTSUPPORT);
    }
    map_close(&pair);
}

/* A segment is found by the owner's array, which may be forged. */
HG_TEST(map_of_a_segment)
{
    struct na_segment segments[3];
    struct na_sm_slot *slot;
    struct map_pair pair;
    void *ptr;

    map_open_to_map(&pair, 10000, NA_MEM_READWRITE);
    map_forget(&pair);
    segments[0].address = pair.memory;
    segments[1].address = segments[2].address = pair.memory + 5000;
    segments[0].size = segments[2].size = 5000;
    segments[1].size = 0;
    map_describe(&pair, segments, 3, NA_MEM_READWRITE);
    pair.memory[5000] = 9;
    HG_CHECK_OK(na_shared_map(pair.remote, pair.user.peer, 2, &pair, &ptr));
    HG_CHECK_EQ_INT(*(unsigned char *) ptr, 9);
    /* Only its user unmaps it. */
    HG_CHECK_RET(
        na_shared_unmap(pair.user.na_class, ptr, &pair.memory), NA_NOENTRY);
    HG_CHECK_OK(na_shared_unmap(pair.user.na_class, ptr, &pair));
    slot = &na_sm_of(pair.owner.na_class)->public_page->slots[0];
    atomic_store(&slot->width, 4); /* a process with other pointers */
    HG_CHECK_RET(na_shared_map(pair.remote, pair.user.peer, 2, &pair, &ptr),
        NA_OPNOTSUPPORT);
    atomic_store(&slot->width, sizeof(void *));
    hg_test_expect_log("a handle of 10000 bytes of a peer is not mapped");
    HG_CHECK_RET(na_shared_map(pair.remote, pair.user.peer, 3, NULL, &ptr),
        NA_PROTOCOL_ERROR);
    atomic_store(&slot->size, 10001);
    HG_CHECK_RET(na_shared_map(pair.remote, pair.user.peer, 1, NULL, &ptr),
        NA_PROTOCOL_ERROR);
    map_forget(&pair);
    /* Segments that are not contiguous, and none with bytes. */
    segments[2].address = pair.memory + 5001;
    segments[2].size = 4999;
    map_describe(&pair, segments, 3, NA_MEM_READWRITE);
    HG_CHECK_RET(na_shared_map(pair.remote, pair.user.peer, 0, NULL, &ptr),
        NA_OPNOTSUPPORT);
    map_forget(&pair);
    map_describe(&pair, &segments[1], 1, NA_MEM_READWRITE);
    HG_CHECK_RET(na_shared_map(pair.remote, pair.user.peer, 0, NULL, &ptr),
        NA_OPNOTSUPPORT);
    map_close(&pair);
}

struct map_hazard {
    const struct map_pair *pair;
    bool published;
};

/* A line of the map: whether its key is in a hazard word meanwhile. */
static void map_on_line(
    int level, const char *subsys, const char *line, void *arg)
{
    struct map_hazard *hazard = (struct map_hazard *) arg;
    const struct map_pair *pair = hazard->pair;
    const struct na_sm_control *control =
        na_sm_own_control(na_sm_addr_of(pair->user.peer));

    (void) level;
    (void) subsys;
    if (strstr(line, "is not mapped") != NULL)
        hazard->published = atomic_load(&control->hazard[0]) == pair->mem->key;
}

/* The owner does not free the array of segments while it is read. */
HG_TEST(map_publishes_the_key_meanwhile)
{
    const struct na_sm_control *control;
    struct map_hazard hazard = {NULL, false};
    struct map_pair pair;
    unsigned char *ptr;

    map_open_to_map(&pair, 100, NA_MEM_READWRITE);
    hazard.pair = &pair;
    control = na_sm_own_control(na_sm_addr_of(pair.user.peer));
    atomic_store(
        &na_sm_of(pair.owner.na_class)->public_page->slots[0].size, 99);
    HG_Set_log_func(map_on_line, &hazard);
    HG_CHECK_RET(map_it(&pair, &ptr), NA_OVERFLOW);
    HG_Set_log_func(NULL, NULL);
    HG_CHECK(hazard.published);
    HG_CHECK_EQ_U64(atomic_load(&control->hazard[0]), 0);
    map_close(&pair);
}

/* Memory of the application, or that has no slot; a connection that was closed;
 * and the ways of HG_SM_RMA that map nothing. */
HG_TEST(map_where_it_is_not_possible)
{
    static const char *const ways[] = {"vm", "copy"};
    static char own[100];
    struct na_segment segment = {own, sizeof(own)};
    struct map_pair pair;
    unsigned char *ptr;
    unsigned i;

    map_open(&pair, 100, NA_MEM_READWRITE);
    map_forget(&pair);
    map_describe(&pair, &segment, 1, NA_MEM_READWRITE);
    HG_CHECK_RET(map_it(&pair, &ptr), NA_OPNOTSUPPORT);
    HG_CHECK_OK(NA_Mem_handle_free(pair.user.na_class, pair.remote));
    HG_CHECK_EQ_INT(pair.wire[NA_EMUL_WIRE_HANDLE_SIZE + 8], 1);
    pair.wire[NA_EMUL_WIRE_HANDLE_SIZE + 8] = 0; /* it has no slot */
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair.user.na_class, &pair.remote, pair.wire, sizeof(pair.wire)));
    HG_CHECK_RET(map_it(&pair, &ptr), NA_OPNOTSUPPORT);
    HG_CHECK_OK(NA_Mem_handle_free(pair.user.na_class, pair.remote));
    pair.wire[NA_EMUL_WIRE_HANDLE_SIZE + 8] = 1;
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair.user.na_class, &pair.remote, pair.wire, sizeof(pair.wire)));
    HG_CHECK_OK(NA_Addr_terminate(pair.user.na_class, pair.user.context, NULL,
        NULL, pair.user.peer, NA_OP_ID_IGNORE));
    do {
        sm_endpoint_turn(&pair.user);
        sm_endpoint_turn(&pair.owner);
    } while (na_sm_addr_of(pair.user.peer)->state != NA_SM_IDLE);
    HG_CHECK_RET(map_it(&pair, &ptr), NA_AGAIN);
    map_close(&pair);
    for (i = 0; i < 2; i++) {
        HG_CHECK(setenv("HG_SM_RMA", ways[i], 1) == 0);
        map_open(&pair, 100, NA_MEM_READWRITE);
        HG_CHECK_RET(map_it(&pair, &ptr), NA_OPNOTSUPPORT);
        map_close(&pair);
    }
    HG_CHECK(unsetenv("HG_SM_RMA") == 0);
}

static void map_open_list(struct sm_endpoint *end)
{
    memset(end, 0, sizeof(*end));
    end->na_class = NA_Initialize("self://;sm://", NA_TRUE);
    HG_CHECK(end->na_class != NULL);
    end->context = NA_Context_create(end->na_class);
    HG_CHECK(end->context != NULL);
}

/* A class of two transports allocates so that sm can map, and maps by the part
 * that reaches the owner, or, without an address, by any part. */
HG_TEST(map_in_a_class_of_two_transports)
{
    struct sm_endpoint owner, user;
    na_mem_handle_t mem, remote;
    void *memory, *ptr = NULL;
    unsigned char wire[256];
    na_size_t size;

    if (hg_test_is_valgrind())
        hg_test_skip("valgrind refuses the system call");
    map_open_list(&owner);
    map_open_list(&user);
    sm_endpoint_meet(&user, &owner);
    memory = NA_Mem_alloc(owner.na_class, 100);
    HG_CHECK(memory != NULL);
    memset(memory, 5, 100);
    HG_CHECK_OK(NA_Mem_handle_create(
        owner.na_class, memory, 100, NA_MEM_READWRITE, &mem));
    HG_CHECK_OK(NA_Mem_register(owner.na_class, mem));
    size = NA_Mem_handle_get_serialize_size(owner.na_class, mem);
    HG_CHECK(size <= sizeof(wire));
    HG_CHECK_OK(NA_Mem_handle_serialize(owner.na_class, wire, size, mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(user.na_class, &remote, wire, size));
    HG_CHECK_OK(NA_Mem_map(user.na_class, remote, user.peer, &ptr));
    HG_CHECK(((unsigned char *) ptr)[99] == 5);
    HG_CHECK_OK(NA_Mem_unmap(user.na_class, ptr));
    HG_CHECK_OK(na_shared_map(remote, NULL, 0, NULL, &ptr));
    HG_CHECK(((unsigned char *) ptr)[99] == 5);
    HG_CHECK_OK(NA_Mem_unmap(user.na_class, ptr));
    HG_CHECK_OK(NA_Mem_handle_free(user.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(owner.na_class, mem));
    HG_CHECK_OK(NA_Mem_free(owner.na_class, memory));
    sm_endpoint_close(&user);
    sm_endpoint_close(&owner);
}

HG_TEST(map_is_released_with_the_class)
{
    struct map_pair pair;
    unsigned char *ptr;

    map_open_to_map(&pair, 100, NA_MEM_READWRITE);
    HG_CHECK_OK(map_it(&pair, &ptr));
    HG_CHECK(NA_Mem_alloc(pair.user.na_class, 5000) != NULL);
    map_forget(&pair);
    HG_CHECK_OK(NA_Mem_free(pair.owner.na_class, pair.memory));
    hg_test_expect_log("allocations and mapped pointers 2");
    sm_endpoint_close(&pair.user);
    HG_CHECK_EQ_STR(map_rights(ptr), "");
    sm_endpoint_close(&pair.owner);
}

/* No memory for a record, and none for a mapping. */
static int map_oom_body(void *arg)
{
    struct map_pair *pair = (struct map_pair *) arg;
    void *memory = NA_Mem_alloc(pair->user.na_class, 100);
    na_return_t ret = NA_NOMEM;
    unsigned char *ptr;

    if (memory != NULL)
        ret = map_it(pair, &ptr);
    if (ret == NA_SUCCESS)
        HG_CHECK_OK(NA_Mem_unmap(pair->user.na_class, ptr));
    if (memory != NULL)
        HG_CHECK_OK(NA_Mem_free(pair->user.na_class, memory));
    HG_CHECK(ret == NA_SUCCESS || ret == NA_NOMEM);
    return ret == NA_SUCCESS ? 0 : 1;
}

HG_TEST(map_without_memory)
{
    struct map_pair pair;

    hg_test_alloc_install();
    map_open_to_map(&pair, 100, NA_MEM_READWRITE);
    hg_test_expect_log("no memory for 18446744073709551615 bytes");
    HG_CHECK(NA_Mem_alloc(pair.user.na_class, UINT64_MAX) == NULL);
    hg_test_allow_log("no memory for the record of");
    HG_CHECK_EQ_INT(hg_test_oom_loop(map_oom_body, &pair), 2);
    map_close(&pair);
}

/* ---- Descriptors ---- */

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
