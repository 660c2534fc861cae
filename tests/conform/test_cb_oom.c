/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk transfers that run out of memory, in the callback model. Each allocation
 * of the process that moves the data fails in turn. A transfer that does not
 * start leaves no identifier and has no callback; every other one has exactly
 * one callback. The next transfer succeeds.
 */
#include "cb.h"

#define OOM_SIZE 400000u
#define OOM_SEGMENTS 40u

MERCURY_GEN_PROC(oom_lent_t, ((hg_bulk_t) (memory)))

static hg_id_t oom_lend_id, oom_free_id;

/* In every process of this program, before the library is used. */
__attribute__((constructor)) static void oom_begin(void)
{
    hg_test_alloc_install();
}

static unsigned char oom_byte(size_t offset)
{
    return (unsigned char) (offset * 131 >> offset % 5);
}

static void oom_fill(unsigned char *bytes)
{
    size_t i;

    for (i = 0; i < OOM_SIZE; i++)
        bytes[i] = oom_byte(i);
}

/* ---- The owner ---- */

static hg_bulk_t oom_lent;
static unsigned char *oom_memory;

static hg_return_t oom_lend(hg_handle_t handle)
{
    void *pieces[OOM_SEGMENTS];
    size_t sizes[OOM_SEGMENTS];
    oom_lent_t out;
    unsigned i;

    oom_memory = (unsigned char *) malloc(OOM_SIZE);
    HG_CHECK(oom_memory != NULL);
    oom_fill(oom_memory);
    for (i = 0; i < OOM_SEGMENTS; i++) {
        sizes[i] = OOM_SIZE / OOM_SEGMENTS;
        pieces[i] = oom_memory + i * sizes[i];
    }
    HG_CHECK_OK(HG_Bulk_create(HG_Get_info(handle)->hg_class, OOM_SEGMENTS,
        pieces, sizes, HG_BULK_READWRITE, &oom_lent));
    out.memory = oom_lent;
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

static hg_return_t oom_free(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Bulk_free(oom_lent));
    free(oom_memory);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

static void cb_register(hg_class_t *hg_class)
{
    oom_lend_id =
        MERCURY_REGISTER(hg_class, "oom lend", void, oom_lent_t, oom_lend);
    oom_free_id = MERCURY_REGISTER(hg_class, "oom free", void, void, oom_free);
    HG_CHECK(oom_lend_id != 0 && oom_free_id != 0);
}

/* ---- The process that moves the data ---- */

struct oom_case {
    struct cb_end end;
    hg_handle_t lend;
    oom_lent_t lent;
    unsigned char *bytes;
    hg_bulk_t local;
    unsigned refused; /* transfers that did not start */
    bool failed;      /* an allocation failed in the last transfer */
};

struct oom_move {
    _Atomic unsigned ends;
    hg_return_t ret;
};

static hg_return_t oom_moved(const struct hg_cb_info *info)
{
    struct oom_move *move = (struct oom_move *) info->arg;

    HG_CHECK_EQ_INT(info->type, HG_CB_BULK);
    move->ret = info->ret;
    HG_CHECK_EQ_INT(atomic_fetch_add(&move->ends, 1), 0);
    return HG_SUCCESS;
}

/* An identifier that no transfer has. */
static hg_op_id_t oom_no_operation(void)
{
    return (hg_op_id_t) (uintptr_t) 0x5a5a5a;
}

/* A transfer; the `nth` allocation from its start on fails. */
static hg_return_t oom_transfer(
    struct oom_case *c, hg_bulk_op_t op, unsigned nth, bool cancel)
{
    hg_op_id_t id = oom_no_operation();
    struct oom_move move = {0, HG_SUCCESS};
    hg_return_t ret;

    if (op == HG_BULK_PULL)
        memset(c->bytes, 0, OOM_SIZE);
    else
        oom_fill(c->bytes);
    hg_test_alloc_fail_at(nth);
    ret = HG_Bulk_transfer(c->end.context, oom_moved, &move, op, c->end.target,
        c->lent.memory, 0, c->local, 0, OOM_SIZE, &id);
    if (ret != HG_SUCCESS) {
        c->failed = hg_test_alloc_failed();
        hg_test_alloc_fail_at(0);
        HG_CHECK(id == HG_OP_ID_NULL);
        (void) cb_turn(c->end.context, 5);
        HG_CHECK_EQ_INT(move.ends, 0);
        c->refused++;
        return ret;
    }
    HG_CHECK(id != HG_OP_ID_NULL && id != oom_no_operation());
    if (cancel)
        (void) HG_Bulk_cancel(id);
    cb_turn_until(c->end.context, &move.ends);
    c->failed = hg_test_alloc_failed();
    hg_test_alloc_fail_at(0);
    HG_CHECK(move.ret != HG_CANCELED || cancel);
    HG_CHECK(move.ret == HG_SUCCESS || cancel || c->failed);
    return move.ret;
}

static void oom_succeed(struct oom_case *c, hg_bulk_op_t op)
{
    size_t i = 0;

    HG_CHECK_OK(oom_transfer(c, op, 0, false));
    while (i < OOM_SIZE && c->bytes[i] == oom_byte(i))
        i++;
    HG_CHECK_EQ_U64(i, OOM_SIZE);
}

static void oom_open(struct oom_case *c)
{
    const size_t size = OOM_SIZE;
    void *ptr;

    memset(c, 0, sizeof(*c));
    cb_open(&c->end);
    c->lend = cb_new_handle(&c->end, oom_lend_id);
    HG_CHECK_OK(cb_do(&c->end, c->lend, NULL, &c->lent));
    c->bytes = (unsigned char *) malloc(OOM_SIZE);
    HG_CHECK(c->bytes != NULL);
    ptr = c->bytes;
    HG_CHECK_OK(HG_Bulk_create(
        c->end.hg_class, 1, &ptr, &size, HG_BULK_READWRITE, &c->local));
}

static void oom_close(struct oom_case *c)
{
    HG_CHECK_OK(HG_Bulk_free(c->local));
    free(c->bytes);
    HG_CHECK_OK(HG_Free_output(c->lend, &c->lent));
    HG_CHECK_OK(HG_Destroy(c->lend));
    HG_CHECK_OK(cb_call(&c->end, oom_free_id, NULL, NULL));
    cb_close(&c->end);
}

static void oom_each(hg_bulk_op_t op, bool cancel)
{
    struct oom_case c;
    unsigned nth = 1;
    bool failed;

    hg_test_allow_log("");
    oom_open(&c);
    do {
        (void) oom_transfer(&c, op, nth++, cancel);
        failed = c.failed;
        oom_succeed(&c, op);
    } while (failed);
    HG_CHECK(c.refused > 0);
    HG_CHECK(nth > 2);
    oom_close(&c);
}

HG_TEST(pull_without_memory_ends)
{
    oom_each(HG_BULK_PULL, false);
}

HG_TEST(push_without_memory_ends)
{
    oom_each(HG_BULK_PUSH, false);
}

HG_TEST(pull_without_memory_can_be_canceled)
{
    oom_each(HG_BULK_PULL, true);
}

HG_TEST(push_without_memory_can_be_canceled)
{
    oom_each(HG_BULK_PUSH, true);
}
