/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives of many messages: messages that no peer should send, and memory that
 * runs out. The rest is in tests/conform/test_na_multi.c.
 */
#include "support/library.h"

#include "harness.h"
#include "unit/locked.h"

#define MANY_LEFT 1024u /* bytes of the buffer beyond one message */

struct many {
    na_class_t *na_class;
    na_context_t *context;
    char *buf;
    na_size_t max;
    na_op_id_t id;
    unsigned count, too_long;
    bool last;
};

static na_return_t many_came(const struct na_cb_info *info)
{
    struct many *many = (struct many *) info->arg;

    HG_CHECK(!many->last);
    many->last = info->info.multi_recv_unexpected.last;
    many->too_long += info->ret == NA_MSGSIZE;
    many->count++;
    if (info->ret != NA_SUCCESS)
        HG_CHECK(info->info.multi_recv_unexpected.source == NULL);
    else
        HG_CHECK_EQ_MEM(info->info.multi_recv_unexpected.actual_buf, "x", 1);
    return NA_SUCCESS;
}

static void many_open(struct many *many)
{
    memset(many, 0, sizeof(*many));
    hg_test_alloc_install();
    many->na_class = NA_Initialize("self://", NA_TRUE);
    HG_CHECK(many->na_class != NULL);
    many->context = NA_Context_create(many->na_class);
    HG_CHECK(many->context != NULL);
    many->max = NA_Msg_get_max_unexpected_size(many->na_class);
    many->buf = (char *) malloc(many->max + MANY_LEFT);
    HG_CHECK(many->buf != NULL);
    HG_CHECK_OK(NA_Msg_multi_recv_unexpected(many->na_class, many->context,
        many_came, many, many->buf, many->max + MANY_LEFT, &many->id));
}

static void many_arrive(struct many *many, const void *data, na_size_t size)
{
    HG_CHECK_OK(locked_arrived(many->na_class, many->na_class->self_addr,
        NA_MSG_UNEXPECTED, 0, 1, data, size));
}

static void many_trigger(struct many *many, unsigned count)
{
    unsigned ran = 0;

    HG_CHECK_OK(NA_Trigger(many->context, 0, 1000, &ran));
    HG_CHECK_EQ_INT(ran, count);
    HG_CHECK_EQ_INT(many->count, count);
}

static void many_close(struct many *many)
{
    HG_CHECK_OK(NA_Context_destroy(many->na_class, many->context));
    HG_CHECK_OK(NA_Finalize(many->na_class));
    free(many->buf);
}

/* A message larger than what is left is lost. Each uses a place, so that a
 * flood of them ends the receive. */
HG_TEST(messages_past_the_end_of_a_buffer_are_lost)
{
    struct many many;
    unsigned i;
    char *large;

    many_open(&many);
    large = (char *) calloc(1, many.max + MANY_LEFT + 1);
    HG_CHECK(large != NULL);
    hg_test_allow_log("is too long for a receive of");
    many_arrive(&many, "x", 1);
    many_arrive(&many, large, many.max + MANY_LEFT - 15);
    many_arrive(&many, "x", 1);
    HG_CHECK_EQ_U64(NA_Get_counter(many.na_class, "msg_too_long"), 1);
    for (i = 3; i < MANY_LEFT / 16 + 1; i++)
        many_arrive(&many, large, many.max + MANY_LEFT);
    many_arrive(&many, "x", 1); /* waits for another receive */
    many_trigger(&many, i);
    HG_CHECK_EQ_INT(many.too_long, i - 2);
    HG_CHECK(many.last);
    HG_CHECK(hg_list_is_empty(
        &na_class_core_of(many.na_class)->inbox.receives[NA_INBOX_UNEXPECTED]));
    free(large);
    many_close(&many);
}

/* A message larger than usual that fits is received. */
HG_TEST(large_message_that_fits_is_the_last)
{
    struct many many;
    char *large;

    many_open(&many);
    large = (char *) calloc(1, many.max + MANY_LEFT);
    HG_CHECK(large != NULL);
    large[0] = 'x';
    many_arrive(&many, large, many.max + MANY_LEFT);
    many_trigger(&many, 1);
    HG_CHECK(many.last);
    free(large);
    many_close(&many);
}

/* Out of memory the receive ends early, with a message; none is lost. */
HG_TEST(receive_of_many_ends_early_without_memory)
{
    struct many many;
    unsigned i;

    many_open(&many);
    for (i = 0; i < 3; i++)
        many_arrive(&many, "x", 1);
    hg_test_alloc_fail_at(1);
    many_arrive(&many, "x", 1);
    HG_CHECK(hg_test_alloc_failed());
    hg_test_alloc_fail_at(0);
    HG_CHECK_RET(NA_Cancel(many.na_class, many.context, many.id), NA_NOENTRY);
    many_arrive(&many, "x", 1); /* waits for another receive */
    many_trigger(&many, 4);
    HG_CHECK(many.last && many.too_long == 0);
    many_close(&many);
}

/* The source of a message stays until its callback has run. */
HG_TEST(receive_of_many_keeps_the_source_of_a_message)
{
    struct na_addr *peer;
    struct many many;

    many_open(&many);
    peer = na_addr_create(many.na_class, "self://b", NA_FALSE);
    HG_CHECK(peer != NULL);
    HG_CHECK_OK(
        locked_arrived(many.na_class, peer, NA_MSG_UNEXPECTED, 0, 1, "x", 1));
    locked_addr_dead(peer, NA_HOSTUNREACH);
    HG_CHECK_EQ_U64(atomic_load(&na_addr_core_of(peer)->refs), 2);
    many_trigger(&many, 1);
    HG_CHECK_EQ_U64(atomic_load(&na_addr_core_of(peer)->refs), 1);
    HG_CHECK_OK(
        locked_arrived(many.na_class, peer, NA_MSG_UNEXPECTED, 0, 1, "x", 1));
    HG_CHECK_OK(NA_Context_destroy(many.na_class, many.context));
    HG_CHECK_EQ_U64(atomic_load(&na_addr_core_of(peer)->refs), 1);
    na_addr_unref(peer);
    HG_CHECK_OK(NA_Finalize(many.na_class));
    free(many.buf);
}
