/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option bulk_checksum. Where bulk data travels in messages, transfers of a
 * class with the option succeed whether or not the other side has it; elsewhere
 * the option is refused. Owner and initiator are two classes of one process.
 * tests/unit/test_na_emul.c shows that damage is detected, since it can damage
 * frames.
 */
#include "cb.h"

static void cb_register(hg_class_t *hg_class)
{
    (void) hg_class;
}

static bool crc_is_refused(void)
{
    return !hg_test_moves_in_messages() && !hg_test_is_self();
}

static bool crc_travels(void)
{
    return hg_test_moves_in_messages() && hg_test_crosses_processes();
}

/* ---- Owner and initiator ---- */

struct crc_memory {
    unsigned char *bytes;
    size_t size;
    hg_bulk_t bulk;
};

struct crc_pair {
    struct cb_end owner;
    struct cb_end mover;
    hg_addr_t addr; /* the owner's address, at the initiator */
    struct crc_memory theirs;
    struct crc_memory ours;
    hg_bulk_t remote; /* the owner's memory, at the initiator */
};

static na_class_t *crc_open_class(void)
{
    struct na_init_info na_info = NA_INIT_INFO_INITIALIZER;
    char *string = hg_test_listen_string();
    na_class_t *na_class;

    na_info.force_rma_emulation = hg_test_emulated() ? NA_TRUE : NA_FALSE;
    na_class = NA_Initialize_opt(string, NA_TRUE, &na_info);
    HG_CHECK(na_class != NULL);
    free(string);
    return na_class;
}

static hg_class_t *crc_init(na_class_t *na_class, bool checked)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    info.na_class = na_class;
    info.bulk_checksum = checked;
    return HG_Init_opt2(NULL, HG_TRUE, HG_VERSION(2, 4), &info);
}

static void crc_start(struct cb_end *end, bool checked)
{
    memset(end, 0, sizeof(*end));
    end->na_class = crc_open_class();
    end->hg_class = crc_init(end->na_class, checked);
    HG_CHECK(end->hg_class != NULL);
    end->contexts[0] = HG_Context_create(end->hg_class);
    HG_CHECK(end->contexts[0] != NULL);
    end->count = 1;
    end->context = end->contexts[0];
}

static void crc_fill(const struct crc_memory *memory, uint64_t seed)
{
    size_t i;

    for (i = 0; i < memory->size; i++)
        memory->bytes[i] = (unsigned char) hg_test_random(&seed);
}

/* In two segments, the second of which has the lower address. */
static void crc_make(
    struct crc_memory *memory, const struct cb_end *end, size_t size)
{
    hg_size_t sizes[2] = {size / 3, size - size / 3};
    void *ptrs[2];

    memory->size = size;
    memory->bytes = (unsigned char *) malloc(size);
    HG_CHECK(memory->bytes != NULL);
    ptrs[0] = memory->bytes + sizes[1];
    ptrs[1] = memory->bytes;
    crc_fill(memory, size);
    HG_CHECK_OK(HG_Bulk_create(
        end->hg_class, 2, ptrs, sizes, HG_BULK_READWRITE, &memory->bulk));
}

static unsigned char crc_at(const struct crc_memory *memory, size_t offset)
{
    size_t second = memory->size - memory->size / 3;

    return memory->bytes[(offset + second) % memory->size];
}

static void crc_drop(struct crc_memory *memory)
{
    HG_CHECK_OK(HG_Bulk_free(memory->bulk));
    free(memory->bytes);
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

/* `owner` and `mover` say which of them has the option. */
static void crc_open(struct crc_pair *pair, bool owner, bool mover, size_t size)
{
    unsigned char bytes[1024];
    hg_size_t length;

    memset(pair, 0, sizeof(*pair));
    crc_start(&pair->owner, owner);
    crc_start(&pair->mover, mover);
    crc_find(pair);
    crc_make(&pair->theirs, &pair->owner, size);
    crc_make(&pair->ours, &pair->mover, size + 7);
    length = HG_Bulk_get_serialize_size(pair->theirs.bulk, 0);
    HG_CHECK(length <= sizeof(bytes));
    HG_CHECK_OK(HG_Bulk_serialize(bytes, length, 0, pair->theirs.bulk));
    HG_CHECK_OK(HG_Bulk_deserialize(
        pair->mover.hg_class, &pair->remote, bytes, length));
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
};

static hg_return_t crc_moved(const struct hg_cb_info *info)
{
    struct crc_move *move = (struct crc_move *) info->arg;

    HG_CHECK_EQ_INT(move->ends++, 0);
    move->ret = info->ret;
    return HG_SUCCESS;
}

static void crc_do(struct crc_pair *pair, hg_bulk_op_t op, size_t there,
    size_t here, size_t size)
{
    struct crc_move move = {0, HG_SUCCESS};
    size_t i;

    crc_fill(op == HG_BULK_PULL ? &pair->theirs : &pair->ours, size + here);
    HG_CHECK_OK(
        HG_Bulk_transfer(pair->mover.context, crc_moved, &move, op, pair->addr,
            pair->remote, there, pair->ours.bulk, here, size, HG_OP_ID_IGNORE));
    while (move.ends == 0)
        crc_turn(pair);
    HG_CHECK_OK(move.ret);
    for (i = 0; i < size; i++)
        HG_CHECK_EQ_INT(
            crc_at(&pair->ours, here + i), crc_at(&pair->theirs, there + i));
}

static void crc_try(bool owner, bool mover, size_t most, size_t step)
{
    struct crc_pair pair;
    size_t size;

    crc_open(&pair, owner, mover, most);
    for (size = 0; size <= most; size += step) {
        crc_do(&pair, HG_BULK_PULL, most - size, size % 7, size);
        crc_do(&pair, HG_BULK_PUSH, most - size, size % 7, size);
    }
    crc_close(&pair);
}

HG_TEST_WHERE(crc_of_every_size_is_right, crc_travels)
{
    crc_try(true, true, 40, 1);
}

/* Frames of all sizes, and more than a window of them. */
HG_TEST_WHERE(crc_of_large_data_is_right, crc_travels)
{
    crc_try(true, true, (size_t) 5 << 20, ((size_t) 5 << 20) / 3);
}

HG_TEST_WHERE(crc_is_an_option_of_the_initiator, crc_travels)
{
    crc_try(false, true, 100000, 33333);
    crc_try(true, false, 100000, 33333);
}

/* Memory of one class is not transmitted. */
HG_TEST_WHERE(crc_covers_transfers_to_oneself, hg_test_moves_in_messages)
{
    struct crc_move move = {0, HG_SUCCESS};
    struct crc_memory from;
    struct crc_memory to;
    struct cb_end end;
    hg_addr_t self;

    crc_start(&end, true);
    crc_make(&from, &end, 30);
    crc_make(&to, &end, 30);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    HG_CHECK_OK(HG_Bulk_transfer(end.context, crc_moved, &move, HG_BULK_PULL,
        self, from.bulk, 0, to.bulk, 0, 30, HG_OP_ID_IGNORE));
    while (move.ends == 0)
        (void) cb_turn(end.context, 0);
    HG_CHECK_OK(move.ret);
    HG_CHECK_EQ_MEM(to.bytes, from.bytes, 30);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    crc_drop(&from);
    crc_drop(&to);
    cb_end(&end);
}

/* ---- Without data to check ---- */

HG_TEST_WHERE(crc_is_refused_where_the_transport_moves_data, crc_is_refused)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    na_class_t *na_class = crc_open_class();
    hg_class_t *hg_class;

    hg_test_expect_log("moves bulk data without a checksum");
    HG_CHECK(crc_init(na_class, true) == NULL);
    hg_class = crc_init(na_class, false);
    HG_CHECK(hg_class != NULL);
    HG_CHECK_OK(HG_Class_get_options(hg_class, &options));
    options.bulk_checksum = true;
    HG_CHECK_RET(HG_Class_set_options(hg_class, &options), HG_OPNOTSUPPORT);
    HG_CHECK_OK(HG_Class_get_options(hg_class, &options));
    HG_CHECK(!options.bulk_checksum);
    HG_CHECK_OK(HG_Finalize(hg_class));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* ---- The request model ---- */

HG_TEST(crc_in_the_request_model)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    na_class_t *na_class = crc_open_class();

    options.bulk_checksum = true;
    HG_CHECK_OK(HG_Set_options(&options));
    if (!crc_is_refused()) {
        HG_CHECK_OK(HG_Init1(na_class));
        HG_CHECK_OK(HG_Finalize1());
    } else {
        hg_test_expect_log("moves bulk data without a checksum");
        HG_CHECK_RET(HG_Init1(na_class), HG_OPNOTSUPPORT);
    }
    HG_CHECK_OK(NA_Finalize(na_class));
}
