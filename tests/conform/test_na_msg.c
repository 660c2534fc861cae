/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NA on one transport: messages that a class sends to itself, how they are
 * matched with receives, and how they are canceled.
 */
#define HG_NA_PLUGIN_API 1 /* for the counters */
#include "conform.h"

#define MSG_MANY 200u

static na_size_t msg_max(struct conform_end *end, bool expected)
{
    return expected ? NA_Msg_get_max_expected_size(end->na_class)
                    : NA_Msg_get_max_unexpected_size(end->na_class);
}

/* One message of `size` bytes; its receive is posted before or after it. */
static void msg_once(struct conform_end *end, bool expected, bool early,
    na_size_t size, na_tag_t tag)
{
    struct conform_call send, recv;
    char *from = (char *) NA_Msg_buf_alloc(end->na_class, size + 1);
    char *to = (char *) NA_Msg_buf_alloc(end->na_class, size + 1);

    HG_CHECK(from != NULL && to != NULL);
    conform_fill(from, size, tag + size);
    memset(to, 0, size + 1);
    if (early)
        HG_CHECK_OK(conform_recv(end, &recv, expected, to, size, tag));
    HG_CHECK_OK(conform_send(end, &send, expected, from, size, tag));
    if (!early)
        HG_CHECK_OK(conform_recv(end, &recv, expected, to, size, tag));
    HG_CHECK_EQ_INT(send.ends + recv.ends, 0);
    HG_CHECK_OK(conform_wait(end, &recv));
    HG_CHECK_OK(conform_wait(end, &send));
    HG_CHECK_EQ_U64(recv.size, size);
    HG_CHECK_EQ_MEM(to, from, size);
    HG_CHECK_EQ_INT(to[size], 0);
    HG_CHECK_EQ_INT(
        send.type, expected ? NA_CB_SEND_EXPECTED : NA_CB_SEND_UNEXPECTED);
    HG_CHECK_EQ_INT(
        recv.type, expected ? NA_CB_RECV_EXPECTED : NA_CB_RECV_UNEXPECTED);
    if (!expected) {
        HG_CHECK_EQ_U64(recv.tag, tag);
        HG_CHECK(NA_Addr_cmp(end->na_class, recv.addr, end->self) == NA_TRUE);
        conform_free_addr(end, &recv);
    }
    HG_CHECK_OK(NA_Msg_buf_free(end->na_class, from));
    HG_CHECK_OK(NA_Msg_buf_free(end->na_class, to));
}

HG_TEST(messages_of_every_size_arrive_whole)
{
    struct conform_end end;
    na_size_t sizes[6] = {0, 1, 7, 4096, 0, 0};
    unsigned i, plane;

    conform_open(&end, NULL);
    for (plane = 0; plane < 2; plane++) {
        sizes[4] = msg_max(&end, plane == 1) - 1;
        sizes[5] = msg_max(&end, plane == 1);
        for (i = 0; i < 6; i++) {
            if (sizes[i] > sizes[5])
                continue;
            msg_once(&end, plane == 1, true, sizes[i], i);
            msg_once(&end, plane == 1, false, sizes[i], i);
        }
    }
    conform_close(&end);
}

HG_TEST(sizes_asked_for_are_kept_within_limits)
{
    struct na_init_info info;
    struct conform_end end;

    conform_info(&info);
    info.max_unexpected_size = 2000;
    info.max_expected_size = 3000;
    conform_open(&end, &info);
    HG_CHECK(msg_max(&end, false) >= 512 && msg_max(&end, true) >= 512);
    HG_CHECK(msg_max(&end, false) <= 2000 && msg_max(&end, true) <= 3000);
    msg_once(&end, false, true, msg_max(&end, false), 1);
    msg_once(&end, true, true, msg_max(&end, true), 1);
    conform_close(&end);
    info.max_unexpected_size = 1;
    info.max_expected_size = SIZE_MAX;
    conform_open(&end, &info);
    HG_CHECK_EQ_U64(msg_max(&end, false), 512);
    HG_CHECK(msg_max(&end, true) >= 512);
    HG_CHECK(msg_max(&end, true) <= (na_size_t) 16 << 20);
    conform_close(&end);
}

HG_TEST(tags_up_to_the_maximum_are_distinguished)
{
    struct conform_end end;
    na_tag_t max;
    na_tag_t tags[5];
    unsigned i;

    conform_open(&end, NULL);
    max = NA_Msg_get_max_tag(end.na_class);
    HG_CHECK_EQ_U64((uint64_t) max & ((uint64_t) max + 1), 0); /* 2^k - 1 */
    tags[0] = 0;
    tags[1] = 1;
    tags[2] = max / 2;
    tags[3] = max - 1;
    tags[4] = max;
    for (i = 0; i < 5; i++) {
        msg_once(&end, false, (i & 1) != 0, 8, tags[i]);
        msg_once(&end, true, (i & 1) != 0, 8, tags[i]);
    }
    conform_close(&end);
}

HG_TEST(sizes_and_tags_past_the_limit_are_refused)
{
    struct conform_end end;
    struct conform_call call;
    char *buf;
    na_tag_t max_tag;
    unsigned plane;

    conform_open(&end, NULL);
    max_tag = NA_Msg_get_max_tag(end.na_class);
    hg_test_expect_log("larger than the maximum");
    for (plane = 0; plane < 2; plane++) {
        na_size_t max = msg_max(&end, plane == 1);

        buf = (char *) calloc(1, max + 1);
        HG_CHECK(buf != NULL);
        HG_CHECK_RET(
            conform_send(&end, &call, plane == 1, buf, max + 1, 1), NA_MSGSIZE);
        HG_CHECK_RET(conform_send(&end, &call, plane == 1, buf, UINT64_MAX, 1),
            NA_MSGSIZE);
        free(buf);
        if (max_tag < UINT32_MAX) {
            hg_test_allow_log("exceeds the maximum");
            HG_CHECK_RET(
                conform_send(&end, &call, plane == 1, "x", 1, max_tag + 1),
                NA_INVALID_ARG);
        }
    }
    conform_idle(&end);
    conform_close(&end);
}

HG_TEST(bad_arguments_are_refused)
{
    struct conform_end a, b;
    struct conform_call call;
    struct na_segment segment = {NULL, 1};
    char buf[8];

    conform_open(&a, NULL);
    conform_open(&b, NULL);
    hg_test_expect_log("NA_Msg_send_unexpected: a buffer is NULL");
    HG_CHECK_RET(conform_send(&a, &call, false, NULL, 1, 1), NA_INVALID_ARG);
    hg_test_expect_log("NA_Msg_send_expected: a buffer is NULL");
    HG_CHECK_RET(conform_send(&a, &call, true, NULL, 1, 1), NA_INVALID_ARG);
    hg_test_expect_log("NA_Msg_send_expected: the address is of another");
    HG_CHECK_RET(NA_Msg_send_expected(a.na_class, a.context, conform_ended,
                     &call, buf, 1, b.self, 1, &call.id),
        NA_INVALID_ARG);
    hg_test_expect_log("NA_Msg_send_unexpected: ");
    HG_CHECK_RET(NA_Msg_send_unexpected(a.na_class, b.context, conform_ended,
                     &call, buf, 1, a.self, 1, &call.id),
        NA_INVALID_ARG);
    HG_CHECK_RET(NA_Msg_send_unexpected(NULL, a.context, conform_ended, &call,
                     buf, 1, a.self, 1, &call.id),
        NA_INVALID_ARG);
    HG_CHECK_RET(NA_Msg_send_unexpected(a.na_class, NULL, conform_ended, &call,
                     buf, 1, a.self, 1, &call.id),
        NA_INVALID_ARG);
    HG_CHECK_RET(NA_Msg_send_unexpected(a.na_class, a.context, conform_ended,
                     &call, buf, 1, NA_ADDR_NULL, 1, &call.id),
        NA_INVALID_ARG);
    hg_test_expect_log("NA_Msg_sendv_expected: segments is NULL");
    HG_CHECK_RET(NA_Msg_sendv_expected(a.na_class, a.context, conform_ended,
                     &call, NULL, 2, a.self, 1, &call.id),
        NA_INVALID_ARG);
    hg_test_expect_log("NA_Msg_sendv_unexpected: a buffer is NULL");
    HG_CHECK_RET(NA_Msg_sendv_unexpected(a.na_class, a.context, conform_ended,
                     &call, &segment, 1, a.self, 1, &call.id),
        NA_INVALID_ARG);
    hg_test_expect_log("NA_Msg_recv_unexpected: the buffer is NULL");
    HG_CHECK_RET(conform_recv(&a, &call, false, NULL, 1, 1), NA_INVALID_ARG);
    hg_test_expect_log("NA_Msg_recv_expected: the address is of another");
    HG_CHECK_RET(NA_Msg_recv_expected(a.na_class, a.context, conform_ended,
                     &call, buf, 8, b.self, 1, &call.id),
        NA_INVALID_ARG);
    hg_test_expect_log("NA_Msg_buf_free: an argument is NULL");
    HG_CHECK_RET(NA_Msg_buf_free(a.na_class, NULL), NA_INVALID_ARG);
    hg_test_expect_log("NA_Msg_buf_alloc: the class is NULL");
    HG_CHECK(NA_Msg_buf_alloc(NULL, 8) == NULL);
    conform_idle(&a);
    conform_close(&a);
    conform_close(&b);
}

HG_TEST(gathered_sends_arrive_as_one)
{
    struct conform_end end;
    struct conform_call send, recv;
    struct na_segment segments[100];
    char from[1000], to[1001];
    uint64_t random = hg_test_seed();
    static const unsigned counts[] = {0, 1, 2, 4, 5, 16, 100};
    unsigned i, k, plane;

    conform_open(&end, NULL);
    conform_fill(from, sizeof(from), random);
    for (plane = 0; plane < 2; plane++) {
        for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
            na_size_t used = 0;

            for (i = 0; i < counts[k]; i++) {
                na_size_t size = hg_test_random(&random) % 6; /* some empty */

                segments[i].address = size > 0 ? from + used : NULL;
                segments[i].size = size;
                used += size;
            }
            HG_CHECK_OK(conform_recv(
                &end, &recv, plane == 1, to, sizeof(to), counts[k]));
            memset(&send, 0, sizeof(send));
            HG_CHECK_OK(
                (plane == 1 ? NA_Msg_sendv_expected : NA_Msg_sendv_unexpected)(
                    end.na_class, end.context, conform_ended, &send,
                    counts[k] > 0 ? segments : NULL, counts[k], end.self,
                    counts[k], &send.id));
            memset(segments, 0xee, sizeof(segments)); /* it was copied */
            HG_CHECK_OK(conform_wait(&end, &recv));
            HG_CHECK_OK(conform_wait(&end, &send));
            HG_CHECK_EQ_U64(recv.size, used);
            HG_CHECK_EQ_MEM(to, from, used);
            if (plane == 0)
                conform_free_addr(&end, &recv);
        }
    }
    conform_close(&end);
}

HG_TEST(messages_of_one_tag_keep_their_order)
{
    struct conform_end end;
    struct conform_call sends[MSG_MANY], recvs[MSG_MANY];
    uint32_t from[MSG_MANY], to[MSG_MANY];
    unsigned i, plane, early;

    conform_open(&end, NULL);
    for (plane = 0; plane < 2; plane++) {
        for (early = 0; early <= MSG_MANY; early += MSG_MANY / 2) {
            for (i = 0; i < early; i++)
                HG_CHECK_OK(
                    conform_recv(&end, &recvs[i], plane == 1, &to[i], 4, 5));
            for (i = 0; i < MSG_MANY; i++) {
                from[i] = i;
                HG_CHECK_OK(
                    conform_send(&end, &sends[i], plane == 1, &from[i], 4, 5));
            }
            for (i = early; i < MSG_MANY; i++)
                HG_CHECK_OK(
                    conform_recv(&end, &recvs[i], plane == 1, &to[i], 4, 5));
            for (i = 0; i < MSG_MANY; i++) {
                HG_CHECK_OK(conform_wait(&end, &recvs[i]));
                HG_CHECK_OK(conform_wait(&end, &sends[i]));
                HG_CHECK_EQ_U64(to[i], i);
                if (plane == 0)
                    conform_free_addr(&end, &recvs[i]);
            }
        }
    }
    conform_close(&end);
}

HG_TEST(expected_messages_find_their_tag)
{
    struct conform_end end;
    struct conform_call sends[MSG_MANY], recvs[MSG_MANY];
    uint32_t from[MSG_MANY], to[MSG_MANY];
    unsigned i;

    conform_open(&end, NULL);
    for (i = 0; i < MSG_MANY; i += 2)
        HG_CHECK_OK(conform_recv(&end, &recvs[i], true, &to[i], 4, i));
    for (i = 0; i < MSG_MANY; i++) {
        from[i] = 1000 + i;
        HG_CHECK_OK(conform_send(&end, &sends[i], true, &from[i], 4, i));
    }
    for (i = MSG_MANY; i-- > 0;) {
        if ((i & 1) != 0)
            HG_CHECK_OK(conform_recv(&end, &recvs[i], true, &to[i], 4, i));
    }
    for (i = 0; i < MSG_MANY; i++) {
        HG_CHECK_OK(conform_wait(&end, &recvs[i]));
        HG_CHECK_OK(conform_wait(&end, &sends[i]));
        HG_CHECK_EQ_U64(to[i], 1000 + i);
    }
    conform_close(&end);
}

HG_TEST(message_planes_are_separate)
{
    struct conform_end end;
    struct conform_call send, expected, unexpected;
    char got[2][8];

    conform_open(&end, NULL);
    HG_CHECK_OK(conform_recv(&end, &expected, true, got[0], 8, 4));
    HG_CHECK_OK(conform_send(&end, &send, false, "un", 3, 4));
    HG_CHECK_OK(conform_wait(&end, &send));
    conform_idle(&end);
    HG_CHECK_EQ_INT(expected.ends, 0);
    HG_CHECK_OK(conform_recv(&end, &unexpected, false, got[1], 8, 4));
    HG_CHECK_OK(conform_wait(&end, &unexpected));
    conform_free_addr(&end, &unexpected);
    HG_CHECK_OK(conform_send(&end, &send, true, "ex", 3, 4));
    HG_CHECK_OK(conform_wait(&end, &expected));
    HG_CHECK_OK(conform_wait(&end, &send));
    HG_CHECK_EQ_STR(got[0], "ex");
    HG_CHECK_EQ_STR(got[1], "un");
    conform_close(&end);
}

HG_TEST(message_too_large_for_its_receive_is_dropped)
{
    struct conform_end end;
    struct conform_call send, recv;
    char got[8];
    unsigned plane, early;

    conform_open(&end, NULL);
    hg_test_expect_log("is too long for a receive of 7");
    for (plane = 0; plane < 2; plane++) {
        for (early = 0; early < 2; early++) {
            memset(got, 'z', sizeof(got));
            if (early == 1)
                HG_CHECK_OK(conform_recv(&end, &recv, plane == 1, got, 7, 4));
            HG_CHECK_OK(
                conform_send(&end, &send, plane == 1, "12345678", 8, 4));
            if (early == 0)
                HG_CHECK_OK(conform_recv(&end, &recv, plane == 1, got, 7, 4));
            HG_CHECK_RET(conform_wait(&end, &recv), NA_MSGSIZE);
            HG_CHECK_OK(conform_wait(&end, &send));
            HG_CHECK_EQ_INT(got[7], 'z');
            msg_once(&end, plane == 1, true, 8, 4);
        }
    }
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "msg_too_long"), 4);
    conform_close(&end);
}

HG_TEST(canceled_receives_complete_once_and_take_no_message)
{
    struct conform_end end;
    struct conform_call first, second, send;
    char got[2][8];
    unsigned plane;

    conform_open(&end, NULL);
    for (plane = 0; plane < 2; plane++) {
        HG_CHECK_OK(conform_recv(&end, &first, plane == 1, got[0], 8, 4));
        HG_CHECK_OK(conform_recv(&end, &second, plane == 1, got[1], 8, 4));
        HG_CHECK(first.id != NA_OP_ID_NULL && first.id != second.id);
        HG_CHECK_OK(NA_Cancel(end.na_class, end.context, first.id));
        HG_CHECK_EQ_INT(first.ends, 0);
        HG_CHECK_RET(
            NA_Cancel(end.na_class, end.context, first.id), NA_NOENTRY);
        HG_CHECK_RET(conform_wait(&end, &first), NA_CANCELED);
        HG_CHECK_OK(conform_send(&end, &send, plane == 1, "second", 7, 4));
        HG_CHECK_OK(conform_wait(&end, &second));
        HG_CHECK_OK(conform_wait(&end, &send));
        HG_CHECK_EQ_STR(got[1], "second");
        if (plane == 0)
            conform_free_addr(&end, &second);
        HG_CHECK_RET(
            NA_Cancel(end.na_class, end.context, first.id), NA_NOENTRY);
        HG_CHECK_RET(
            NA_Cancel(end.na_class, end.context, second.id), NA_NOENTRY);
        HG_CHECK_RET(NA_Cancel(end.na_class, end.context, send.id), NA_NOENTRY);
    }
    HG_CHECK_RET(
        NA_Cancel(end.na_class, end.context, NA_OP_ID_NULL), NA_NOENTRY);
    HG_CHECK_RET(NA_Cancel(end.na_class, end.context,
                     (na_op_id_t) (uintptr_t) 0x123456789abc),
        NA_NOENTRY);
    conform_idle(&end);
    conform_close(&end);
}

HG_TEST(stale_ids_never_hit_a_new_operation)
{
    struct conform_end end;
    struct conform_call recv;
    na_op_id_t old[MSG_MANY];
    char got[8];
    unsigned i, j;

    conform_open(&end, NULL);
    for (i = 0; i < MSG_MANY; i++) {
        HG_CHECK_OK(conform_recv(&end, &recv, true, got, 8, 4));
        for (j = 0; j < i; j++) {
            HG_CHECK(old[j] != recv.id);
            HG_CHECK_RET(
                NA_Cancel(end.na_class, end.context, old[j]), NA_NOENTRY);
        }
        HG_CHECK_OK(NA_Cancel(end.na_class, end.context, recv.id));
        HG_CHECK_RET(conform_wait(&end, &recv), NA_CANCELED);
        old[i] = recv.id;
    }
    conform_close(&end);
}

HG_TEST(callback_may_be_null)
{
    struct conform_end end;
    struct conform_call call;
    char got[4][8];
    na_op_id_t id;

    conform_open(&end, NULL);
    memset(got, 0, sizeof(got));
    HG_CHECK_OK(NA_Msg_recv_unexpected(
        end.na_class, end.context, NULL, NULL, got[0], 8, &id));
    HG_CHECK_OK(NA_Msg_recv_expected(end.na_class, end.context, NULL, NULL,
        got[1], 8, end.self, 3, NA_OP_ID_IGNORE));
    HG_CHECK_OK(NA_Msg_send_unexpected(end.na_class, end.context, NULL, NULL,
        "a", 2, end.self, 2, NA_OP_ID_IGNORE));
    HG_CHECK_OK(NA_Msg_send_expected(end.na_class, end.context, NULL, NULL, "b",
        2, end.self, 3, NA_OP_ID_IGNORE));
    /* The last of an ordered sequence shows that the others arrived. */
    HG_CHECK_OK(conform_recv(&end, &call, true, got[2], 8, 4));
    HG_CHECK_OK(NA_Msg_send_expected(end.na_class, end.context, NULL, NULL, "c",
        2, end.self, 4, NA_OP_ID_IGNORE));
    HG_CHECK_OK(conform_wait(&end, &call));
    HG_CHECK_EQ_STR(got[2], "c");
    if (NA_Get_ordering(end.na_class) == 1) {
        HG_CHECK_EQ_STR(got[0], "a");
        HG_CHECK_EQ_STR(got[1], "b");
        HG_CHECK_RET(NA_Cancel(end.na_class, end.context, id), NA_NOENTRY);
    }
    conform_idle(&end);
    HG_CHECK_OK(NA_Msg_recv_unexpected(
        end.na_class, end.context, NULL, NULL, got[3], 8, &id));
    HG_CHECK_OK(NA_Cancel(end.na_class, end.context, id));
    conform_idle(&end);
    conform_close(&end);
}

/* ---- Callbacks that start operations ---- */

struct msg_chain {
    struct conform_end *end;
    uint32_t sent;
    uint32_t got;
    unsigned left;
    bool in_start;
};

static na_return_t msg_chain_sent(const struct na_cb_info *info)
{
    struct msg_chain *chain = (struct msg_chain *) info->arg;

    HG_CHECK(!chain->in_start);
    HG_CHECK_OK(info->ret);
    return NA_SUCCESS;
}

static na_return_t msg_chain_got(const struct na_cb_info *info);

static void msg_chain_start(struct msg_chain *chain)
{
    struct conform_end *end = chain->end;

    chain->in_start = true;
    chain->sent++;
    HG_CHECK_OK(NA_Msg_recv_expected(end->na_class, end->context, msg_chain_got,
        chain, &chain->got, 4, end->self, 7, NA_OP_ID_IGNORE));
    HG_CHECK_OK(NA_Msg_send_expected(end->na_class, end->context,
        msg_chain_sent, chain, &chain->sent, 4, end->self, 7, NA_OP_ID_IGNORE));
    chain->in_start = false;
}

static na_return_t msg_chain_got(const struct na_cb_info *info)
{
    struct msg_chain *chain = (struct msg_chain *) info->arg;

    HG_CHECK(!chain->in_start);
    HG_CHECK_OK(info->ret);
    HG_CHECK_EQ_U64(chain->got, chain->sent);
    if (--chain->left > 0)
        msg_chain_start(chain);
    return NA_SUCCESS;
}

HG_TEST(callbacks_start_operations_and_never_run_inside_a_start)
{
    struct conform_end end;
    struct msg_chain chain = {&end, 0, 0, 500, false};

    conform_open(&end, NULL);
    msg_chain_start(&chain);
    while (chain.left > 0)
        (void) conform_turn(end.na_class, end.context, 1);
    while (conform_turn(end.na_class, end.context, 1) > 0)
        continue;
    conform_close(&end);
}

/* ---- Several contexts ---- */

HG_TEST(expected_messages_complete_where_they_were_posted)
{
    struct conform_end end, other;
    struct conform_call recvs[2], send;
    char got[2][8];

    conform_open(&end, NULL);
    other = end;
    other.context = NA_Context_create(end.na_class);
    HG_CHECK(other.context != NULL);
    HG_CHECK_OK(conform_recv(&other, &recvs[0], true, got[0], 8, 1));
    HG_CHECK_OK(conform_recv(&end, &recvs[1], true, got[1], 8, 2));
    HG_CHECK_OK(conform_send(&end, &send, true, "one", 4, 1));
    HG_CHECK_OK(conform_wait(&end, &send));
    HG_CHECK_OK(conform_send(&other, &send, true, "two", 4, 2));
    /* `other` makes no progress meanwhile. */
    HG_CHECK_OK(conform_wait(&end, &recvs[1]));
    conform_idle(&end);
    HG_CHECK_EQ_INT(recvs[0].ends, 0);
    HG_CHECK_OK(conform_wait(&other, &recvs[0]));
    HG_CHECK_OK(conform_wait(&other, &send));
    HG_CHECK_EQ_STR(got[0], "one");
    HG_CHECK_EQ_STR(got[1], "two");
    HG_CHECK_OK(NA_Context_destroy(end.na_class, other.context));
    conform_close(&end);
}

HG_TEST(unexpected_messages_go_to_a_context_with_a_receive)
{
    struct conform_end end, other;
    struct conform_call recv, send;
    char got[8];

    conform_open(&end, NULL);
    other = end;
    other.context = NA_Context_create(end.na_class);
    HG_CHECK(other.context != NULL);
    HG_CHECK_OK(conform_recv(&other, &recv, false, got, 8, 0));
    HG_CHECK_OK(conform_send(&end, &send, false, "there", 6, 2));
    HG_CHECK_OK(conform_wait(&end, &send));
    HG_CHECK_OK(conform_wait(&other, &recv));
    HG_CHECK_EQ_STR(got, "there");
    conform_free_addr(&end, &recv);
    /* A message that arrived before any receive goes to the first receive, in
     * any context. */
    HG_CHECK_OK(conform_send(&end, &send, false, "later", 6, 2));
    HG_CHECK_OK(conform_wait(&end, &send));
    HG_CHECK_OK(conform_recv(&other, &recv, false, got, 8, 0));
    HG_CHECK_OK(conform_wait(&other, &recv));
    HG_CHECK_EQ_STR(got, "later");
    conform_free_addr(&end, &recv);
    HG_CHECK_OK(NA_Context_destroy(end.na_class, other.context));
    /* A context with receives was destroyed; the next message goes to another's
     * receive. */
    HG_CHECK_OK(conform_recv(&end, &recv, false, got, 8, 0));
    HG_CHECK_OK(conform_send(&end, &send, false, "end", 4, 2));
    HG_CHECK_OK(conform_wait(&end, &recv));
    conform_free_addr(&end, &recv);
    conform_close(&end);
}

/* ---- The limit of queued messages ---- */

/* Whether a send waits as soon as the receiver's queue is full, without a
 * window of its own. */
static bool msg_waits_at_once(void)
{
    return hg_test_is_self() || !strcmp(hg_test_transport(), "sm");
}

HG_TEST(full_queue_holds_back_or_drops)
{
    struct na_init_info info;
    struct conform_end end;
    struct conform_call sends[MSG_MANY], recv;
    uint32_t from[MSG_MANY], to = 0, last = 0;
    uint64_t dropped;
    unsigned i, sent = 0, got = 0;

    conform_info(&info);
    info.max_queue_bytes = 4096;
    conform_open(&end, &info);
    for (i = 0; i < MSG_MANY; i++) {
        from[i] = i + 1;
        HG_CHECK_OK(conform_send(&end, &sends[i], true, &from[i], 4, 9));
    }
    for (i = 0; i < 20; i++)
        (void) conform_turn(end.na_class, end.context, 1);
    for (i = 0; i < MSG_MANY; i++)
        sent += sends[i].ends;
    /* Accepted messages arrive in order, and none twice. */
    while (to < MSG_MANY) {
        HG_CHECK_OK(conform_recv(&end, &recv, true, &to, 4, 9));
        for (i = 0; i < CONFORM_TIMEOUT && recv.ends == 0; i++) {
            dropped = NA_Get_counter(end.na_class, "msg_dropped");
            if (got + dropped == MSG_MANY)
                break;
            (void) conform_turn(end.na_class, end.context, 1);
        }
        if (recv.ends == 0)
            break;
        HG_CHECK_OK(recv.ret);
        HG_CHECK(to > last);
        last = to;
        got++;
    }
    if (recv.ends == 0) {
        HG_CHECK_OK(NA_Cancel(end.na_class, end.context, recv.id));
        HG_CHECK_RET(conform_wait(&end, &recv), NA_CANCELED);
    }
    for (i = 0; i < MSG_MANY; i++)
        HG_CHECK_OK(conform_wait(&end, &sends[i]));
    dropped = NA_Get_counter(end.na_class, "msg_dropped");
    HG_CHECK_EQ_U64(got + dropped, MSG_MANY);
    if (msg_waits_at_once())
        HG_CHECK(sent < MSG_MANY);
    if (hg_test_holds_back()) /* flow control: none is lost */
        HG_CHECK_EQ_U64(dropped, 0);
    else
        HG_CHECK(dropped > 0);
    msg_once(&end, true, false, 8, 10);
    msg_once(&end, false, false, 8, 10);
    conform_close(&end);
}

/* A receiver that takes one message after the other slows its sender: sends
 * wait, and all messages arrive, in order. */
HG_TEST_WHERE(slow_receiver_slows_its_sender, hg_test_holds_back)
{
    enum { COUNT = 160, SIZE = 16000 }; /* ofi+rxm has a maximum of 16360 */
    static unsigned char bytes[SIZE], got[SIZE];
    static struct conform_call sends[COUNT];
    struct na_init_info info;
    struct conform_end end;
    struct conform_call recv;
    unsigned i, sent = 0;

    conform_info(&info);
    info.max_queue_bytes = 1 << 17;
    conform_open(&end, &info);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(conform_send(&end, &sends[i], false, bytes, SIZE, i));
    for (i = 0; i < 20; i++)
        (void) conform_turn(end.na_class, end.context, 1);
    for (i = 0; i < COUNT; i++)
        sent += (unsigned) sends[i].ends;
    HG_CHECK(sent < COUNT * 4 / 5);
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_OK(conform_recv(&end, &recv, false, got, SIZE, 0));
        HG_CHECK_OK(conform_wait(&end, &recv));
        HG_CHECK_EQ_INT(recv.tag, i);
        conform_free_addr(&end, &recv);
    }
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(conform_wait(&end, &sends[i]));
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "msg_dropped"), 0);
    conform_close(&end);
}

HG_TEST_WHERE(sends_that_are_held_back_can_be_canceled, msg_waits_at_once)
{
    struct na_init_info info;
    struct conform_end end;
    struct conform_call sends[MSG_MANY], recv;
    struct conform_call empty;
    uint32_t from[MSG_MANY], to;
    unsigned i, canceled = 0;

    conform_info(&info);
    info.max_queue_bytes = 2048;
    conform_open(&end, &info);
    for (i = 0; i < MSG_MANY; i++) {
        from[i] = i;
        HG_CHECK_OK(conform_send(&end, &sends[i], true, &from[i], 4, i));
    }
    /* No segment, and more than fit into an operation. */
    memset(&empty, 0, sizeof(empty));
    HG_CHECK_OK(NA_Msg_sendv_expected(end.na_class, end.context, conform_ended,
        &empty, NULL, 0, end.self, MSG_MANY, &empty.id));
    for (i = 0; i < MSG_MANY; i++) {
        na_return_t ret = NA_Cancel(end.na_class, end.context, sends[i].id);

        HG_CHECK(ret == NA_SUCCESS || ret == NA_NOENTRY);
        canceled += ret == NA_SUCCESS;
    }
    for (i = 0; i < MSG_MANY; i++) {
        na_return_t ret;

        if (sends[i].ends == 0)
            (void) conform_wait(&end, &sends[i]);
        ret = sends[i].ret;
        HG_CHECK(ret == NA_SUCCESS || ret == NA_CANCELED);
        if (ret == NA_CANCELED)
            continue;
        HG_CHECK_OK(conform_recv(&end, &recv, true, &to, 4, i));
        HG_CHECK_OK(conform_wait(&end, &recv));
        HG_CHECK_EQ_U64(to, i);
    }
    HG_CHECK(canceled > 0);
    HG_CHECK_OK(conform_recv(&end, &recv, true, &to, 4, MSG_MANY));
    HG_CHECK_OK(conform_wait(&end, &recv));
    HG_CHECK_OK(conform_wait(&end, &empty));
    conform_close(&end);
}

/* ---- Sending now or not at all ---- */

static na_return_t msg_try(
    struct conform_end *end, bool expected, uint32_t number)
{
    static unsigned char bytes[4000];
    struct na_segment parts[2] = {
        {bytes, sizeof(number)}, {bytes + sizeof(number), 3996}};
    na_return_t ret;

    memcpy(bytes, &number, sizeof(number));
    if (number % 2 == 0)
        ret = (expected ? NA_Msg_try_send_expected
                        : NA_Msg_try_send_unexpected)(
            end->na_class, end->context, bytes, sizeof(bytes), end->self, 5);
    else
        ret = (expected ? NA_Msg_try_sendv_expected
                        : NA_Msg_try_sendv_unexpected)(
            end->na_class, end->context, parts, 2, end->self, 5);
    memset(bytes, 0xff, sizeof(bytes)); /* the buffer is free again */
    return ret;
}

static void msg_take_next(
    struct conform_end *end, bool expected, uint32_t number)
{
    static unsigned char got[4000];
    struct conform_call recv;

    HG_CHECK_OK(conform_recv(end, &recv, expected, got, sizeof(got), 5));
    HG_CHECK_OK(conform_wait(end, &recv));
    HG_CHECK_EQ_U64(recv.size, sizeof(got));
    HG_CHECK_EQ_MEM(got, &number, sizeof(number));
    if (!expected)
        conform_free_addr(end, &recv);
}

static void msg_try_all(bool expected)
{
    enum { MANY = 2000 };
    static uint32_t queued[1000];
    struct na_init_info info;
    struct conform_end end;
    struct conform_call call;
    uint32_t sent = 0, next;
    unsigned turns;

    conform_info(&info);
    info.max_queue_bytes = 1 << 17;
    conform_open(&end, &info);
    for (turns = 0; turns < 20; turns++) { /* until all is full */
        while (msg_try(&end, expected, sent) == NA_SUCCESS) {
            HG_CHECK(sent++ < MANY);
            turns = 0;
        }
        (void) conform_turn(end.na_class, end.context, 1);
    }
    HG_CHECK(sent > 0);
    HG_CHECK_RET(msg_try(&end, expected, sent), NA_AGAIN);
    /* A send that waits goes first. */
    queued[0] = sent;
    HG_CHECK_OK(conform_send(&end, &call, expected, queued, sizeof(queued), 5));
    HG_CHECK_RET(msg_try(&end, expected, sent + 1), NA_AGAIN);
    for (next = 0; next <= sent; next++)
        msg_take_next(&end, expected, next);
    HG_CHECK_OK(conform_wait(&end, &call));
    /* Nothing more was sent, and it can be tried again. */
    conform_idle(&end);
    HG_CHECK_OK(msg_try(&end, expected, 77));
    msg_take_next(&end, expected, 77);
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "msg_dropped"), 0);
    conform_close(&end);
}

HG_TEST_WHERE(try_sends_unexpected_messages_now_or_not, hg_test_holds_back)
{
    msg_try_all(false);
}

HG_TEST_WHERE(try_sends_expected_messages_now_or_not, hg_test_holds_back)
{
    msg_try_all(true);
}

HG_TEST(try_checks_its_arguments)
{
    struct conform_end end;
    na_size_t max;

    conform_open(&end, NULL);
    max = NA_Msg_get_max_unexpected_size(end.na_class);
    hg_test_expect_log("NA_Msg_try_send_unexpected: the message is larger");
    HG_CHECK_RET(NA_Msg_try_send_unexpected(
                     end.na_class, end.context, "x", max + 1, end.self, 1),
        NA_MSGSIZE);
    hg_test_expect_log("NA_Msg_try_send_expected: a buffer is NULL");
    HG_CHECK_RET(NA_Msg_try_send_expected(
                     end.na_class, end.context, NULL, 1, end.self, 1),
        NA_INVALID_ARG);
    hg_test_expect_log("NA_Msg_try_sendv_unexpected: segments is NULL");
    HG_CHECK_RET(NA_Msg_try_sendv_unexpected(
                     end.na_class, end.context, NULL, 1, end.self, 1),
        NA_INVALID_ARG);
    hg_test_expect_log("NA_Msg_try_sendv_expected: the address is NULL");
    HG_CHECK_RET(
        NA_Msg_try_sendv_expected(end.na_class, end.context, NULL, 0, NULL, 1),
        NA_INVALID_ARG);
    conform_idle(&end);
    conform_close(&end);
}

HG_TEST(class_closes_with_messages_and_sends_waiting)
{
    struct na_init_info info;
    struct conform_end end;
    static struct conform_call sends[MSG_MANY];
    unsigned i;

    conform_info(&info);
    info.max_queue_bytes = 2048;
    conform_open(&end, &info);
    for (i = 0; i < MSG_MANY; i++)
        HG_CHECK_OK(conform_send(&end, &sends[i], (i & 1) != 0, "x", 1, i));
    conform_close(&end);
}
