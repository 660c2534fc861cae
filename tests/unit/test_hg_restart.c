/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages left over from an earlier incarnation of a peer. A transport that
 * knows peers only by their names, as the loop does here, may deliver them when
 * the peer's next incarnation already has calls.
 */
#include "support/library.h"
#include "unit/locked.h"

#include "engine.h"

/* Another address with the peer's name: of another incarnation. */
static struct na_addr *restart_other(struct engine *engine)
{
    struct na_addr *addr =
        na_addr_create(engine->a.na_class, engine->a.peer->name, NA_FALSE);

    HG_CHECK(addr != NULL && na_addr_same(addr, engine->a.peer));
    return addr;
}

static uint64_t restart_late(const struct engine_end *end)
{
    struct hg_counters counters;

    hg_context_sum(end->hg_class, &counters);
    return counters.late;
}

/* A response to the call, from there. */
static void restart_answer(struct engine *engine,
    const struct engine_call *call, struct na_addr *source)
{
    unsigned char bytes[HG_HEADER_MIN];
    struct hg_header header;

    memset(&header, 0, sizeof(header));
    header.type = HG_HEADER_RESPONSE;
    header.code = HG_BUSY;
    header.sequence = call->handle->sequence;
    header.rpc_id = call->handle->id;
    hg_header_encode(&header, bytes, true);
    loop_inject(engine->a.na_class, source, bytes, sizeof(bytes));
    engine_settle(engine);
}

static hg_return_t restart_keep(hg_handle_t handle)
{
    (void) handle;
    return HG_SUCCESS;
}

HG_TEST(restart_drops_responses_of_an_earlier_incarnation)
{
    struct blob in = {0, NULL};
    struct engine_call call;
    struct engine engine;
    struct na_addr *before;
    hg_id_t id;

    hg_test_expect_log("were never answered");
    engine_begin(&engine, 4096, NULL);
    id = engine_register(&engine, "keep", restart_keep);
    before = restart_other(&engine);
    HG_CHECK_OK(engine_start(&engine, id, &in, &call));
    engine_settle(&engine);
    HG_CHECK(na_addr_mark_dead(before, NA_DISCONNECT));
    restart_answer(&engine, &call, before);
    HG_CHECK_EQ_INT(call.ends, 0);
    HG_CHECK_EQ_U64(restart_late(&engine.a), 1);
    /* From the live peer it is a response. */
    restart_answer(&engine, &call, engine.a.peer);
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_BUSY);
    engine_forget(&call);
    na_addr_unref(before);
    engine_close(&engine);
}

static enum loop_fate restart_meet(
    void *arg, na_class_t *from, unsigned char *data, size_t *size)
{
    unsigned *met = (unsigned *) arg;

    (void) from;
    (void) data;
    (void) size;
    return (*met)++ > 0 ? LOOP_STUCK : LOOP_PASS;
}

/* A connection is lost, but not the peer: calls sent over it get no response
 * any more; calls not sent yet use the next connection. */
HG_TEST(restart_of_a_connection_ends_calls_that_were_sent)
{
    struct blob in = {0, NULL};
    struct engine_call calls[2];
    struct engine engine;
    unsigned met = 0;
    unsigned i;
    hg_id_t id;

    hg_test_expect_log("were never answered");
    loop_register();
    HG_CHECK_OK(engine_open(&engine, 4096, NULL));
    id = engine_register(&engine, "keep", restart_keep);
    loop_set_tap(restart_meet, &met);
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(engine_start(&engine, id, &in, &calls[i]));
    HG_CHECK_EQ_INT(atomic_load(&calls[1].handle->sends), 1);
    locked_addr_parted(engine.a.peer);
    engine_turn(&engine.a);
    HG_CHECK_EQ_INT(calls[0].ends, 1);
    HG_CHECK_RET(calls[0].ret, HG_DISCONNECT);
    HG_CHECK_EQ_INT(calls[1].ends, 0);
    locked_unstick(); /* it cannot be sent at all */
    engine_settle(&engine);
    HG_CHECK_EQ_INT(calls[1].ends, 1);
    loop_set_tap(NULL, NULL);
    for (i = 0; i < 2; i++)
        engine_forget(&calls[i]);
    engine_close(&engine);
}
