/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk data that is checked (the option bulk_checksum). Owner and mover are two
 * classes of one process, so that a hook of the mover's, which runs between the
 * transfer and the question, can flip a bit of the owner's memory: for both
 * sides it is as if it had been flipped on the way. On every transport that
 * reaches other classes; what must not be checked also on the others.
 */
#include "cb.h"

static void cb_register(hg_class_t *hg_class)
{
    (void) hg_class;
}

/* ---- Owner and mover ---- */

#define CRC_SEGMENTS 8u

/* Memory in segments, with a byte between them. */
struct crc_memory {
    uint32_t count;
    size_t size; /* of all */
    hg_size_t sizes[CRC_SEGMENTS];
    void *ptrs[CRC_SEGMENTS];
    unsigned char *bytes;
    hg_bulk_t bulk;
};

struct crc_pair {
    struct cb_end owner;
    struct cb_end mover;
    hg_addr_t addr; /* the owner, to the mover */
    struct crc_memory theirs;
    struct crc_memory ours;
    hg_bulk_t remote; /* theirs, to the mover */
};

/* What the mover's hook has seen, and is to do. */
static unsigned crc_asked;
static unsigned char *crc_byte; /* NULL: none */
static unsigned char crc_mask;
static hg_bulk_t crc_doomed;           /* to be freed */
static uint8_t crc_context_id;         /* of the owner's */
static const hg_op_id_t *crc_unwanted; /* to be canceled; NULL: none */

static hg_return_t crc_hook(const struct hg_hook_info *info, void *arg)
{
    (void) arg;
    if (info->point != HG_HOOK_FORWARD)
        return HG_SUCCESS;
    HG_CHECK_EQ_STR(info->name, HG_BUILTIN_BULK_CHECK);
    if (info->handle != HG_HANDLE_NULL) { /* not in the request model */
        const struct hg_info *call = HG_Get_info(info->handle);

        HG_CHECK(call->hg_class != NULL && call->context != NULL);
        HG_CHECK(call->addr == info->addr && call->id == info->id);
        HG_CHECK_EQ_INT(call->context_id, crc_context_id);
    }
    crc_asked++;
    if (crc_byte != NULL)
        *crc_byte ^= crc_mask;
    if (crc_doomed != HG_BULK_NULL)
        HG_CHECK_OK(HG_Bulk_free(crc_doomed));
    crc_doomed = HG_BULK_NULL;
    if (crc_unwanted != NULL)
        HG_CHECK_OK(HG_Bulk_cancel(*crc_unwanted));
    crc_unwanted = NULL;
    return HG_SUCCESS;
}

static void crc_start(struct cb_end *end, bool checked, bool builtins)
{
    struct na_init_info na_info = NA_INIT_INFO_INITIALIZER;
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    char *string = hg_test_listen_string();

    memset(end, 0, sizeof(*end));
    na_info.force_rma_emulation = hg_test_emulated() ? NA_TRUE : NA_FALSE;
    end->na_class = NA_Initialize_opt(string, NA_TRUE, &na_info);
    HG_CHECK(end->na_class != NULL);
    free(string);
    info.na_class = end->na_class;
    info.bulk_checksum = checked;
    info.no_builtins = !builtins;
    end->hg_class = HG_Init_opt2(NULL, HG_TRUE, HG_VERSION(2, 4), &info);
    HG_CHECK(end->hg_class != NULL);
    end->contexts[0] = HG_Context_create(end->hg_class);
    HG_CHECK(end->contexts[0] != NULL);
    end->count = 1;
    end->context = end->contexts[0];
}

static void crc_fill(const struct crc_memory *memory, uint64_t seed)
{
    size_t k;
    uint32_t i;

    for (i = 0; i < memory->count; i++) {
        unsigned char *bytes = (unsigned char *) memory->ptrs[i];

        for (k = 0; k < memory->sizes[i]; k++)
            bytes[k] = (unsigned char) hg_test_random(&seed);
    }
}

static void crc_make(struct crc_memory *memory, const struct cb_end *end,
    const size_t *sizes, uint32_t count, uint8_t flags)
{
    size_t at = 0;
    uint32_t i;

    HG_CHECK(count <= CRC_SEGMENTS);
    memory->count = count;
    memory->size = 0;
    for (i = 0; i < count; i++)
        memory->size += sizes[i];
    memory->bytes = (unsigned char *) calloc(1, memory->size + count);
    HG_CHECK(memory->bytes != NULL);
    for (i = 0; i < count; i++) {
        memory->sizes[i] = sizes[i];
        memory->ptrs[i] = memory->bytes + at;
        at += sizes[i] + 1;
    }
    crc_fill(memory, count);
    HG_CHECK_OK(HG_Bulk_create(end->hg_class, count, memory->ptrs,
        memory->sizes, flags, &memory->bulk));
}

static unsigned char *crc_at(const struct crc_memory *memory, size_t offset)
{
    uint32_t i = 0;

    while (offset >= memory->sizes[i])
        offset -= (size_t) memory->sizes[i++];
    return (unsigned char *) memory->ptrs[i] + offset;
}

static void crc_drop(struct crc_memory *memory)
{
    HG_CHECK_OK(HG_Bulk_free(memory->bulk));
    free(memory->bytes);
}

/* Theirs as the mover gets to know it. */
static void *crc_describe(const struct crc_memory *memory, hg_size_t *size_p)
{
    hg_size_t size = HG_Bulk_get_serialize_size(memory->bulk, 0);
    void *bytes = malloc((size_t) size);

    HG_CHECK(bytes != NULL);
    HG_CHECK_OK(HG_Bulk_serialize(bytes, size, 0, memory->bulk));
    *size_p = size;
    return bytes;
}

static void crc_turn(const struct crc_pair *pair)
{
    (void) cb_turn(pair->mover.context, 0);
    (void) cb_turn(pair->owner.context, 0);
}

struct crc_lookup {
    unsigned ends;
    hg_addr_t addr;
};

static hg_return_t crc_found(const struct hg_cb_info *info)
{
    struct crc_lookup *lookup = (struct crc_lookup *) info->arg;

    HG_CHECK_OK(info->ret);
    lookup->addr = info->info.lookup.addr;
    lookup->ends++;
    return HG_SUCCESS;
}

static void crc_find(struct crc_pair *pair)
{
    struct crc_lookup lookup = {0, HG_ADDR_NULL};
    char name[NA_MAX_ADDR_LEN];
    hg_size_t size = sizeof(name);
    hg_addr_t self;

    HG_CHECK_OK(HG_Addr_self(pair->owner.hg_class, &self));
    HG_CHECK_OK(HG_Addr_to_string(pair->owner.hg_class, name, &size, self));
    HG_CHECK_OK(HG_Addr_free(pair->owner.hg_class, self));
    HG_CHECK_OK(HG_Addr_lookup1(
        pair->mover.context, crc_found, &lookup, name, HG_OP_ID_IGNORE));
    while (lookup.ends == 0)
        crc_turn(pair);
    pair->addr = lookup.addr;
}

static void crc_lend(struct crc_pair *pair)
{
    hg_size_t size;
    void *bytes = crc_describe(&pair->theirs, &size);

    HG_CHECK_OK(
        HG_Bulk_deserialize(pair->mover.hg_class, &pair->remote, bytes, size));
    free(bytes);
}

static const size_t crc_theirs[] = {5, 0, 8, 3, 17, 1};
static const size_t crc_ours[] = {7, 11, 0, 16};

/* `owner` and `mover` tell which of them has the option; `builtins` tells
 * whether the owner serves functions of the library's own. */
static void crc_open_with(
    struct crc_pair *pair, bool owner, bool mover, bool builtins)
{
    memset(pair, 0, sizeof(*pair));
    crc_asked = 0;
    crc_start(&pair->owner, owner, builtins);
    crc_start(&pair->mover, mover, true);
    HG_CHECK_OK(HG_Set_hook(pair->mover.hg_class, crc_hook, NULL));
    crc_find(pair);
    crc_make(&pair->theirs, &pair->owner, crc_theirs, 6, HG_BULK_READWRITE);
    crc_make(&pair->ours, &pair->mover, crc_ours, 4, HG_BULK_READWRITE);
    crc_lend(pair);
}

static void crc_open(struct crc_pair *pair)
{
    crc_open_with(pair, true, true, true);
}

static void crc_close(struct crc_pair *pair)
{
    HG_CHECK_OK(HG_Bulk_free(pair->remote));
    crc_drop(&pair->ours);
    crc_drop(&pair->theirs);
    HG_CHECK_OK(HG_Addr_free(pair->mover.hg_class, pair->addr));
    cb_end(&pair->mover);
    cb_end(&pair->owner);
}

/* ---- Transfers ---- */

struct crc_move {
    unsigned ends;
    hg_return_t ret;
    hg_op_id_t op_id;
};

static hg_return_t crc_moved(const struct hg_cb_info *info)
{
    struct crc_move *move = (struct crc_move *) info->arg;

    HG_CHECK(cb_triggering > 0);
    HG_CHECK_EQ_INT(info->type, HG_CB_BULK);
    HG_CHECK_EQ_INT(move->ends++, 0);
    move->ret = info->ret;
    return HG_SUCCESS;
}

static void crc_begin(struct crc_pair *pair, struct crc_move *move,
    hg_bulk_op_t op, size_t origin_offset, size_t local_offset, size_t size)
{
    memset(move, 0, sizeof(*move));
    HG_CHECK_OK(HG_Bulk_transfer(pair->mover.context, crc_moved, move, op,
        pair->addr, pair->remote, origin_offset, pair->ours.bulk, local_offset,
        size, &move->op_id));
}

static hg_return_t crc_do(struct crc_pair *pair, hg_bulk_op_t op,
    size_t origin_offset, size_t local_offset, size_t size)
{
    struct crc_move move;

    crc_begin(pair, &move, op, origin_offset, local_offset, size);
    while (move.ends == 0)
        crc_turn(pair);
    return move.ret;
}

/* The same with one bit of the owner's flipped on the way. */
static hg_return_t crc_do_flipped(struct crc_pair *pair, hg_bulk_op_t op,
    size_t origin_offset, size_t local_offset, size_t size, size_t bit)
{
    hg_return_t ret;

    crc_byte = crc_at(&pair->theirs, bit / 8);
    crc_mask = (unsigned char) (1u << bit % 8);
    ret = crc_do(pair, op, origin_offset, local_offset, size);
    *crc_byte ^= crc_mask;
    crc_byte = NULL;
    return ret;
}

/* ---- Cases ---- */

HG_TEST_WHERE(crc_of_every_shape_is_right, hg_test_crosses_processes)
{
    struct crc_pair pair;
    unsigned asked = 0;
    size_t size;

    crc_open(&pair);
    for (size = 0; size <= 34; size++) {
        size_t there = (34 - size) * size % 7 % (35 - size);
        size_t here = size % (35 - size);
        size_t i;

        crc_fill(&pair.theirs, size);
        HG_CHECK_OK(crc_do(&pair, HG_BULK_PULL, there, here, size));
        for (i = 0; i < size; i++)
            HG_CHECK_EQ_INT(*crc_at(&pair.ours, here + i),
                *crc_at(&pair.theirs, there + i));
        crc_fill(&pair.ours, size + 100);
        HG_CHECK_OK(crc_do(&pair, HG_BULK_PUSH, there, here, size));
        for (i = 0; i < size; i++)
            HG_CHECK_EQ_INT(*crc_at(&pair.theirs, there + i),
                *crc_at(&pair.ours, here + i));
        asked += size > 0 ? 2 : 0;
        HG_CHECK_EQ_INT(crc_asked, asked);
    }
    crc_close(&pair);
}

HG_TEST_WHERE(crc_finds_every_single_bit, hg_test_crosses_processes)
{
    const size_t from = 3;
    const size_t size = 27;
    struct crc_pair pair;
    size_t bit;

    HG_Set_log_level("debug"); /* all lines */
    hg_test_expect_log("changed on the way: the memory has another CRC64");
    crc_open(&pair);
    for (bit = 0; bit < 34 * 8; bit++) {
        bool inside = bit / 8 >= from && bit / 8 < from + size;
        hg_return_t want = inside ? HG_CHECKSUM_ERROR : HG_SUCCESS;

        HG_CHECK_RET(
            crc_do_flipped(&pair, HG_BULK_PULL, from, 5, size, bit), want);
        HG_CHECK_RET(
            crc_do_flipped(&pair, HG_BULK_PUSH, from, 5, size, bit), want);
    }
    crc_close(&pair);
}

HG_TEST_WHERE(crc_finds_bits_of_large_data, hg_test_crosses_processes)
{
    static const size_t theirs[] = {(size_t) 1 << 20, 1000003, 12345};
    static const size_t ours[] = {70000, (size_t) 2 << 20};
    uint64_t state = hg_test_seed();
    struct crc_pair pair;
    size_t size;
    unsigned i;

    hg_test_expect_log("changed on the way");
    crc_open(&pair);
    HG_CHECK_OK(HG_Bulk_free(pair.remote));
    crc_drop(&pair.theirs);
    crc_drop(&pair.ours);
    crc_make(&pair.theirs, &pair.owner, theirs, 3, HG_BULK_READWRITE);
    crc_make(&pair.ours, &pair.mover, ours, 2, HG_BULK_READWRITE);
    crc_lend(&pair);
    size = pair.theirs.size - 100;
    for (i = 0; i < 20; i++) {
        hg_bulk_op_t op = i % 2 == 0 ? HG_BULK_PULL : HG_BULK_PUSH;
        size_t bit = (size_t) (hg_test_random(&state) % (size * 8));

        HG_CHECK_RET(crc_do_flipped(&pair, op, 99, 7, size, 99 * 8 + bit),
            HG_CHECKSUM_ERROR);
        HG_CHECK_OK(crc_do(&pair, op, 99, 7, size));
    }
    crc_close(&pair);
}

/* What may only be written can be checked, and what may only be read. */
HG_TEST_WHERE(crc_of_memory_with_one_direction, hg_test_crosses_processes)
{
    static const uint8_t flags[] = {HG_BULK_WRITE_ONLY, HG_BULK_READ_ONLY};
    struct crc_pair pair;
    unsigned i;

    hg_test_expect_log("changed on the way");
    crc_open(&pair);
    for (i = 0; i < 2; i++) {
        hg_bulk_op_t op = i == 0 ? HG_BULK_PUSH : HG_BULK_PULL;

        HG_CHECK_OK(HG_Bulk_free(pair.remote));
        crc_drop(&pair.theirs);
        crc_make(&pair.theirs, &pair.owner, crc_theirs, 6, flags[i]);
        crc_lend(&pair);
        HG_CHECK_OK(crc_do(&pair, op, 1, 2, 20));
        HG_CHECK_RET(
            crc_do_flipped(&pair, op, 1, 2, 20, 77), HG_CHECKSUM_ERROR);
    }
    crc_close(&pair);
}

HG_TEST_WHERE(crc_is_not_asked_without_the_option, hg_test_crosses_processes)
{
    struct crc_pair pair;

    crc_open_with(&pair, true, false, true);
    HG_CHECK_OK(crc_do(&pair, HG_BULK_PULL, 0, 0, 34));
    HG_CHECK_OK(crc_do(&pair, HG_BULK_PUSH, 0, 0, 34));
    HG_CHECK_EQ_INT(crc_asked, 0);
    crc_close(&pair);
}

/* An owner without the option, or without functions of the library's own. */
HG_TEST_WHERE(crc_of_who_does_not_tell, hg_test_crosses_processes)
{
    struct crc_pair pair;
    unsigned way;

    hg_test_expect_log("is not served by");
    for (way = 0; way < 2; way++) {
        crc_open_with(&pair, way == 0, true, way == 1);
        HG_CHECK_RET(crc_do(&pair, HG_BULK_PULL, 0, 0, 34), HG_NOENTRY);
        HG_CHECK_OK(crc_do(&pair, HG_BULK_PULL, 0, 0, 0));
        crc_close(&pair);
    }
}

HG_TEST_WHERE(crc_of_memory_freed_meanwhile, hg_test_crosses_processes)
{
    struct crc_pair pair;

    hg_test_expect_log("was freed");
    crc_open(&pair);
    crc_doomed = pair.theirs.bulk;
    HG_CHECK_RET(crc_do(&pair, HG_BULK_PULL, 0, 0, 34), HG_NOENTRY);
    HG_CHECK_EQ_INT(crc_asked, 1);
    free(pair.theirs.bytes);
    crc_make(&pair.theirs, &pair.owner, crc_theirs, 6, HG_BULK_READWRITE);
    crc_close(&pair);
}

HG_TEST_WHERE(crc_of_an_owner_that_drains, hg_test_crosses_processes)
{
    struct crc_pair pair;

    crc_open(&pair);
    HG_CHECK_OK(HG_Drain(pair.owner.hg_class, 0));
    HG_CHECK_OK(crc_do(&pair, HG_BULK_PULL, 0, 0, 34));
    HG_CHECK_EQ_INT(crc_asked, 1);
    crc_close(&pair);
}

/* The owner, who has moved the data, does not answer any more. */
HG_TEST_WHERE(crc_is_given_up_with_its_transfer, hg_test_crosses_processes)
{
    struct crc_pair pair;
    struct crc_move move;

    crc_open(&pair);
    crc_begin(&pair, &move, HG_BULK_PULL, 0, 0, 34);
    while (crc_asked == 0) {
        (void) cb_turn(pair.owner.context, 0);
        (void) cb_turn(pair.mover.context, 0);
    }
    HG_CHECK_EQ_INT(move.ends, 0);
    HG_CHECK_OK(HG_Bulk_cancel(move.op_id));
    while (move.ends == 0)
        (void) cb_turn(pair.mover.context, 0);
    HG_CHECK_RET(move.ret, HG_CANCELED);
    HG_CHECK_OK(crc_do(&pair, HG_BULK_PULL, 0, 0, 34));
    crc_close(&pair);
}

/* By another thread, as it seems, which does not find the question yet. */
HG_TEST_WHERE(crc_is_given_up_as_it_is_asked, hg_test_crosses_processes)
{
    struct crc_pair pair;
    struct crc_move move;

    crc_open(&pair);
    crc_unwanted = &move.op_id;
    crc_begin(&pair, &move, HG_BULK_PULL, 0, 0, 34);
    while (crc_asked == 0) {
        (void) cb_turn(pair.owner.context, 0);
        (void) cb_turn(pair.mover.context, 0);
    }
    (void) cb_turn(pair.mover.context, 0);
    HG_CHECK_EQ_INT(move.ends, 1); /* the owner does not answer any more */
    HG_CHECK_RET(move.ret, HG_CANCELED);
    HG_CHECK_OK(crc_do(&pair, HG_BULK_PULL, 0, 0, 34));
    crc_close(&pair);
}

/* The same with the local handle, as the request model's do it. */
HG_TEST_WHERE(crc_is_given_up_with_the_handle, hg_test_crosses_processes)
{
    struct crc_pair pair;
    struct crc_move move;

    crc_open(&pair);
    crc_begin(&pair, &move, HG_BULK_PULL, 0, 0, 34);
    while (crc_asked == 0) {
        (void) cb_turn(pair.owner.context, 0);
        (void) cb_turn(pair.mover.context, 0);
    }
    crc_drop(&pair.ours);
    while (move.ends == 0)
        (void) cb_turn(pair.mover.context, 0);
    HG_CHECK_RET(move.ret, HG_CANCELED);
    crc_make(&pair.ours, &pair.mover, crc_ours, 4, HG_BULK_READWRITE);
    HG_CHECK_OK(crc_do(&pair, HG_BULK_PULL, 0, 0, 34));
    crc_close(&pair);
}

/* The same, and the mover's context ends. */
HG_TEST_WHERE(crc_ends_with_its_context, hg_test_crosses_processes)
{
    struct crc_pair pair;
    struct crc_move move;

    crc_open(&pair);
    crc_begin(&pair, &move, HG_BULK_PUSH, 0, 0, 34);
    while (crc_asked == 0) {
        (void) cb_turn(pair.owner.context, 0);
        (void) cb_turn(pair.mover.context, 0);
    }
    cb_triggering++; /* callbacks run there, too */
    HG_CHECK_OK(HG_Context_destroy(pair.mover.context));
    cb_triggering--;
    HG_CHECK_EQ_INT(move.ends, 1);
    HG_CHECK_RET(move.ret, HG_CANCELED);
    pair.mover.count = 0;
    crc_close(&pair);
}

/* A context that could not end moves memory as before. */
HG_TEST_WHERE(crc_in_a_context_that_was_busy, hg_test_crosses_processes)
{
    struct crc_pair pair;
    hg_handle_t handle;
    hg_id_t id;

    hg_test_expect_log("HG_Context_destroy: handles, or sends, are left");
    crc_open(&pair);
    id = MERCURY_REGISTER(pair.mover.hg_class, "crc none", void, void, NULL);
    HG_CHECK_OK(HG_Create(pair.mover.context, pair.addr, id, &handle));
    HG_CHECK_RET(HG_Context_destroy(pair.mover.context), HG_BUSY);
    HG_CHECK_OK(crc_do(&pair, HG_BULK_PULL, 0, 0, 34));
    HG_CHECK_EQ_INT(crc_asked, 1);
    HG_CHECK_OK(HG_Destroy(handle));
    crc_close(&pair);
}

/* What fails in the mover's call ends the transfer, or it does not begin. */
HG_TEST_WHERE(crc_without_memory, hg_test_crosses_processes)
{
    struct crc_pair pair;
    struct crc_move move;
    unsigned rounds = 0;
    hg_return_t ret;
    bool failed;

    hg_test_alloc_install();
    hg_test_allow_log("");
    crc_open(&pair);
    do {
        memset(&move, 0, sizeof(move));
        hg_test_alloc_fail_at(rounds + 1);
        ret =
            HG_Bulk_transfer(pair.mover.context, crc_moved, &move, HG_BULK_PULL,
                pair.addr, pair.remote, 0, pair.ours.bulk, 0, 34, &move.op_id);
        failed = hg_test_alloc_failed();
        hg_test_alloc_fail_at(0);
        while (ret == HG_SUCCESS && move.ends == 0)
            crc_turn(&pair);
        if (ret == HG_SUCCESS)
            ret = move.ret;
        rounds += failed ? 1 : 0;
        HG_CHECK(ret == HG_SUCCESS || (failed && ret == HG_NOMEM));
    } while (failed);
    HG_CHECK_OK(ret);
    HG_CHECK(rounds > 0);
    crc_close(&pair);
}

/* The context is asked that the handle names. */
HG_TEST_WHERE(crc_of_bound_memory, hg_test_crosses_processes)
{
    struct crc_pair pair;
    struct crc_move move;
    hg_context_t *second;

    crc_open(&pair);
    second = HG_Context_create_id(pair.owner.hg_class, 3);
    HG_CHECK(second != NULL);
    HG_CHECK_OK(HG_Bulk_free(pair.remote));
    HG_CHECK_OK(HG_Bulk_bind(pair.theirs.bulk, second));
    crc_lend(&pair);
    crc_context_id = 3;
    memset(&move, 0, sizeof(move));
    HG_CHECK_OK(HG_Bulk_bind_transfer(pair.mover.context, crc_moved, &move,
        HG_BULK_PULL, pair.remote, 4, pair.ours.bulk, 0, 30, &move.op_id));
    while (crc_asked == 0)
        crc_turn(&pair);
    while (move.ends == 0) {
        (void) cb_turn(pair.mover.context, 0);
        (void) cb_turn(second, 0);
    }
    HG_CHECK_OK(move.ret);
    crc_context_id = 0;
    HG_CHECK_OK(HG_Context_destroy(second));
    crc_close(&pair);
}

/* Memory of one class goes nowhere. */
HG_TEST(crc_is_not_asked_of_oneself)
{
    struct cb_end end;
    struct crc_memory from;
    struct crc_memory to;
    struct crc_move move;
    hg_addr_t self;

    crc_asked = 0;
    crc_start(&end, true, true);
    HG_CHECK_OK(HG_Set_hook(end.hg_class, crc_hook, NULL));
    crc_make(&from, &end, crc_theirs, 6, HG_BULK_READ_ONLY);
    crc_make(&to, &end, crc_ours, 4, HG_BULK_WRITE_ONLY);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    memset(&move, 0, sizeof(move));
    HG_CHECK_OK(HG_Bulk_transfer(end.context, crc_moved, &move, HG_BULK_PULL,
        self, from.bulk, 0, to.bulk, 0, 34, HG_OP_ID_IGNORE));
    while (move.ends == 0)
        (void) cb_turn(end.context, 0);
    HG_CHECK_OK(move.ret);
    HG_CHECK_EQ_INT(crc_asked, 0);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    crc_drop(&from);
    crc_drop(&to);
    cb_end(&end);
}

/* ---- The request model moves ---- */

static hg_return_t crc_wait(
    const struct crc_pair *pair, hg_bulk_request_t request)
{
    hg_status_t status = HG_FALSE;
    hg_return_t ret;

    do {
        ret = HG_Bulk_wait(request, 0, &status);
        (void) cb_turn(pair->owner.context, 0);
    } while (status == HG_FALSE);
    return ret;
}

static hg_return_t crc_request(const struct crc_pair *pair, na_addr_t addr,
    hg_bulk_op_t op, hg_bulk_t remote, size_t bit)
{
    hg_bulk_request_t request = HG_BULK_REQUEST_NULL;
    hg_return_t ret;

    crc_byte = crc_at(&pair->theirs, bit / 8);
    crc_mask = (unsigned char) (1u << bit % 8);
    HG_CHECK_OK(HG_Bulk_transfer1(
        op, addr, remote, 2, pair->ours.bulk, 3, 30, &request));
    ret = crc_wait(pair, request);
    *crc_byte ^= crc_mask;
    crc_byte = NULL;
    return ret;
}

static void crc_request_moves(struct crc_pair *pair)
{
    struct hg_counters counters;
    hg_bulk_t remote;
    hg_size_t size;
    void *bytes = crc_describe(&pair->theirs, &size);

    HG_CHECK_OK(HG_Bulk_handle_deserialize(&remote, bytes, (size_t) size));
    free(bytes);
    HG_CHECK_RET(crc_request(pair, pair->addr, HG_BULK_PULL, remote, 100),
        HG_CHECKSUM_ERROR);
    HG_CHECK_RET(crc_request(pair, pair->addr, HG_BULK_PUSH, remote, 255),
        HG_CHECKSUM_ERROR);
    HG_CHECK_OK(crc_request(pair, pair->addr, HG_BULK_PULL, remote, 15));
    HG_CHECK_OK(crc_request(pair, pair->addr, HG_BULK_PUSH, remote, 256));
    HG_CHECK_EQ_INT(crc_asked, 4);
    counters.size = sizeof(counters);
    HG_CHECK_OK(HG_Get_counters(&counters));
    HG_CHECK_EQ_U64(counters.bulk_damaged, 2);
    HG_CHECK_OK(HG_Bulk_handle_free(remote));
}

struct crc_wanted {
    na_class_t *na_class;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr;
    _Atomic unsigned found;
};

static void *crc_look_up(void *arg)
{
    struct crc_wanted *wanted = (struct crc_wanted *) arg;

    HG_CHECK_OK(NA_Addr_lookup_wait(
        wanted->na_class, wanted->name, CB_PATIENCE, &wanted->addr));
    atomic_store(&wanted->found, 1);
    return NULL;
}

/* The owner's address, who has to turn for that. */
static na_addr_t crc_find_from(
    const struct crc_pair *pair, na_class_t *na_class)
{
    struct crc_wanted wanted;
    pthread_t thread;
    na_addr_t self;

    memset(&wanted, 0, sizeof(wanted));
    wanted.na_class = na_class;
    HG_CHECK_OK(NA_Addr_self(pair->owner.na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(
        pair->owner.na_class, wanted.name, sizeof(wanted.name), self));
    HG_CHECK_OK(NA_Addr_free(pair->owner.na_class, self));
    HG_CHECK(pthread_create(&thread, NULL, crc_look_up, &wanted) == 0);
    cb_turn_until(pair->owner.context, &wanted.found);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    return wanted.addr;
}

HG_TEST_WHERE(crc_in_the_request_model, hg_test_crosses_processes)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct crc_pair pair;
    na_class_t *na_class;
    char *string = hg_test_listen_string();
    size_t sizes[] = {33};
    void *memory[] = {NULL};

    hg_test_expect_log("changed on the way");
    memset(&pair, 0, sizeof(pair));
    crc_asked = 0;
    crc_start(&pair.owner, true, true);
    crc_make(&pair.theirs, &pair.owner, crc_theirs, 6, HG_BULK_READWRITE);
    na_class = NA_Initialize(string, NA_TRUE);
    HG_CHECK(na_class != NULL);
    free(string);
    options.bulk_checksum = true;
    HG_CHECK_OK(HG_Set_options(&options));
    HG_CHECK_OK(HG_Init1(na_class));
    HG_CHECK_OK(HG_Set_hook(NULL, crc_hook, NULL));
    HG_CHECK_OK(HG_Bulk_handle_create(
        1, memory, sizes, HG_BULK_READWRITE, &pair.ours.bulk));
    pair.addr = crc_find_from(&pair, na_class);
    crc_request_moves(&pair);
    HG_CHECK_OK(HG_Bulk_handle_free(pair.ours.bulk));
    HG_CHECK_OK(NA_Addr_free(na_class, pair.addr));
    HG_CHECK_OK(HG_Finalize1());
    HG_CHECK_OK(NA_Finalize(na_class));
    crc_drop(&pair.theirs);
    cb_end(&pair.owner);
}
