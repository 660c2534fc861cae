/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NA on one transport: a function that cannot start an operation leaves no
 * identifier, and nothing completes. Each allocation of each such function
 * fails in turn, and each gets a wrong argument.
 */
#include "conform.h"

enum { OOM_TAG = 7, OOM_PIECES = 5, OOM_SIZE = 100000 };

struct oom_case {
    struct conform_end end;
    na_mem_handle_t local, target, remote;
    char name[NA_MAX_ADDR_LEN];
    char got[64];
    char *message; /* the largest */
};

typedef na_return_t (*oom_start_t)(struct oom_case *c, na_context_t *context,
    struct conform_call *call, na_op_id_t *id);

static na_return_t oom_send_unexpected(struct oom_case *c,
    na_context_t *context, struct conform_call *call, na_op_id_t *id)
{
    return NA_Msg_send_unexpected(c->end.na_class, context, conform_ended, call,
        "1", 2, c->end.self, OOM_TAG, id);
}

static na_return_t oom_send_expected(struct oom_case *c, na_context_t *context,
    struct conform_call *call, na_op_id_t *id)
{
    return NA_Msg_send_expected(c->end.na_class, context, conform_ended, call,
        "2", 2, c->end.self, OOM_TAG, id);
}

static na_return_t oom_sendv_unexpected(struct oom_case *c,
    na_context_t *context, struct conform_call *call, na_op_id_t *id)
{
    static char byte = '3';
    const struct na_segment segments[] = {{&byte, 1}, {&byte, 1}};

    return NA_Msg_sendv_unexpected(c->end.na_class, context, conform_ended,
        call, segments, 2, c->end.self, OOM_TAG, id);
}

static na_return_t oom_sendv_expected(struct oom_case *c, na_context_t *context,
    struct conform_call *call, na_op_id_t *id)
{
    static char byte = '4';
    const struct na_segment segments[] = {{&byte, 1}, {&byte, 1}};

    return NA_Msg_sendv_expected(c->end.na_class, context, conform_ended, call,
        segments, 2, c->end.self, OOM_TAG, id);
}

static na_return_t oom_recv_unexpected(struct oom_case *c,
    na_context_t *context, struct conform_call *call, na_op_id_t *id)
{
    return NA_Msg_recv_unexpected(c->end.na_class, context, conform_ended, call,
        c->got, sizeof(c->got), id);
}

/* A buffer for one message ends with it. */
static na_return_t oom_multi_recv(struct oom_case *c, na_context_t *context,
    struct conform_call *call, na_op_id_t *id)
{
    return NA_Msg_multi_recv_unexpected(c->end.na_class, context, conform_ended,
        call, c->message, NA_Msg_get_max_unexpected_size(c->end.na_class), id);
}

static na_return_t oom_recv_expected(struct oom_case *c, na_context_t *context,
    struct conform_call *call, na_op_id_t *id)
{
    return NA_Msg_recv_expected(c->end.na_class, context, conform_ended, call,
        c->got, sizeof(c->got), c->end.self, OOM_TAG, id);
}

static na_return_t oom_put(struct oom_case *c, na_context_t *context,
    struct conform_call *call, na_op_id_t *id)
{
    return NA_Put(c->end.na_class, context, conform_ended, call, c->local, 0,
        c->remote, 0, OOM_SIZE, c->end.self, id);
}

static na_return_t oom_get(struct oom_case *c, na_context_t *context,
    struct conform_call *call, na_op_id_t *id)
{
    return NA_Get(c->end.na_class, context, conform_ended, call, c->local, 0,
        c->remote, 0, OOM_SIZE, c->end.self, id);
}

static na_return_t oom_lookup(struct oom_case *c, na_context_t *context,
    struct conform_call *call, na_op_id_t *id)
{
    return NA_Addr_lookup(
        c->end.na_class, context, conform_ended, call, c->name, id);
}

static na_return_t oom_terminate(struct oom_case *c, na_context_t *context,
    struct conform_call *call, na_op_id_t *id)
{
    return NA_Addr_terminate(
        c->end.na_class, context, conform_ended, call, c->end.self, id);
}

/* Each is followed by what makes it complete: a send by its receive, a receive
 * by its send. */
static const struct {
    oom_start_t start, then;
} oom_kinds[] = {{oom_send_unexpected, oom_recv_unexpected},
    {oom_send_expected, oom_recv_expected},
    {oom_sendv_unexpected, oom_recv_unexpected},
    {oom_sendv_expected, oom_recv_expected},
    {oom_recv_unexpected, oom_send_unexpected},
    {oom_multi_recv, oom_send_unexpected},
    {oom_send_unexpected, oom_multi_recv},
    {oom_recv_expected, oom_send_expected}, {oom_put, NULL}, {oom_get, NULL},
    {oom_lookup, NULL}, {oom_terminate, NULL}};

/* An identifier that no operation has. */
static na_op_id_t oom_no_operation(void)
{
    return (na_op_id_t) (uintptr_t) 0x5a5a5a;
}

/* Let an operation complete. If an allocation failed, the message of a send may
 * have been dropped on arrival: then its receive is canceled. */
static void oom_finish(struct oom_case *c, struct conform_call *call,
    oom_start_t then, bool failed)
{
    struct conform_call other;
    na_return_t ret;

    memset(&other, 0, sizeof(other));
    if (then != NULL)
        HG_CHECK_OK(then(c, c->end.context, &other, &other.id));
    ret = conform_wait(&c->end, call);
    HG_CHECK(ret == NA_SUCCESS || (failed && ret == NA_NOMEM));
    if (then != NULL && failed) {
        (void) conform_turn(c->end.na_class, c->end.context, 20);
        (void) NA_Cancel(c->end.na_class, c->end.context, other.id);
    }
    if (then != NULL) {
        ret = conform_wait(&c->end, &other);
        HG_CHECK(ret == NA_SUCCESS || (failed && ret == NA_CANCELED));
    }
    if (call->addr != NA_ADDR_NULL)
        conform_free_addr(&c->end, call);
    if (other.addr != NA_ADDR_NULL)
        conform_free_addr(&c->end, &other);
}

/* Start an operation whose `nth` allocation fails. Returns whether one did. */
static bool oom_try(
    struct oom_case *c, oom_start_t start, oom_start_t then, unsigned nth)
{
    static struct conform_call call;
    na_op_id_t id = oom_no_operation();
    bool failed;
    na_return_t ret;

    memset(&call, 0, sizeof(call));
    hg_test_alloc_fail_at(nth);
    ret = start(c, c->end.context, &call, &id);
    failed = hg_test_alloc_failed();
    hg_test_alloc_fail_at(0);
    if (ret == NA_SUCCESS) {
        HG_CHECK(id != NA_OP_ID_NULL && id != oom_no_operation());
        oom_finish(c, &call, then, failed);
    } else {
        HG_CHECK(failed || ret == NA_OPNOTSUPPORT); /* addr_terminate */
        HG_CHECK(id == NA_OP_ID_NULL);
        conform_idle(&c->end);
        HG_CHECK_EQ_INT(call.ends, 0);
    }
    return failed;
}

static void oom_open(struct oom_case *c)
{
    static char spaces[2][OOM_SIZE];
    struct na_segment pieces[OOM_PIECES];
    unsigned i;

    for (i = 0; i < OOM_PIECES; i++) {
        pieces[i].address = spaces[1] + i * (OOM_SIZE / OOM_PIECES);
        pieces[i].size = OOM_SIZE / OOM_PIECES;
    }
    conform_open(&c->end, NULL);
    c->message =
        (char *) malloc(NA_Msg_get_max_unexpected_size(c->end.na_class));
    HG_CHECK(c->message != NULL);
    HG_CHECK_OK(NA_Addr_to_string(
        c->end.na_class, c->name, sizeof(c->name), c->end.self));
    c->local = conform_memory(&c->end, spaces[0], OOM_SIZE, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        c->end.na_class, pieces, OOM_PIECES, NA_MEM_READWRITE, &c->target));
    HG_CHECK_OK(NA_Mem_register(c->end.na_class, c->target));
    c->remote = conform_remote(&c->end, c->target);
}

/* Look up a name that no address can have. */
static void oom_misname(struct oom_case *c)
{
    static struct conform_call call;
    na_op_id_t id = oom_no_operation();

    HG_CHECK_RET(NA_Addr_lookup(c->end.na_class, c->end.context, conform_ended,
                     &call, "no name", &id),
        NA_INVALID_ARG);
    HG_CHECK(id == NA_OP_ID_NULL);
}

HG_TEST(operation_that_does_not_start_leaves_no_identifier)
{
    const unsigned kinds = sizeof(oom_kinds) / sizeof(oom_kinds[0]);
    static struct conform_call call;
    struct oom_case c;
    unsigned failures = 0;
    unsigned kind, nth;

    hg_test_alloc_install();
    hg_test_allow_log("");
    for (kind = 0; kind < kinds; kind++) {
        na_op_id_t id = oom_no_operation();

        /* A class of its own, whose pools are empty. */
        oom_open(&c);
        HG_CHECK_RET(
            oom_kinds[kind].start(&c, NULL, &call, &id), NA_INVALID_ARG);
        HG_CHECK(id == NA_OP_ID_NULL);
        if (oom_kinds[kind].start == oom_lookup)
            oom_misname(&c);
        nth = 1;
        while (oom_try(&c, oom_kinds[kind].start, oom_kinds[kind].then, nth))
            nth++;
        failures += nth - 1;
        HG_CHECK_OK(NA_Mem_handle_free(c.end.na_class, c.remote));
        HG_CHECK_OK(NA_Mem_handle_free(c.end.na_class, c.target));
        HG_CHECK_OK(NA_Mem_handle_free(c.end.na_class, c.local));
        conform_close(&c.end);
        free(c.message);
    }
    HG_CHECK(failures >= kinds - 1); /* each has an operation to allocate */
}
