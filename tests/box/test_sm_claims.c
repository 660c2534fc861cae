/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport sm: what a process claims to be in its HELLO is not believed if
 * the kernel knows better. And receives from an address whose peer does not
 * make progress.
 */
#include "sm_packets.h"

#include <inttypes.h>

#define CLAIMS_LOOKUP_MS 50

/* Connect to argv[0] with the name argv[1]. */
HG_TEST_ROLE(claimer)
{
    unsigned char bytes[SM_PACKET_MAX];
    struct sm_packet packet;
    int fds[SM_FDS_MAX];
    unsigned count;
    size_t size;

    HG_CHECK_EQ_INT(argc, 2);
    memset(&packet, 0, sizeof(packet));
    packet.name = argv[1];
    size = sm_bytes(&packet, SM_HELLO, bytes);
    count = sm_make_fds(&packet, SM_HELLO, fds);
    sm_send(sm_connect(argv[0]), bytes, size, fds, count);
    hg_test_write_parent("sent");
    free(hg_test_read_parent());
}

/* A third process claims the name of a client that has bound memory. A
 * lookup of that name reaches the client. */
HG_TEST(claimed_name_of_a_client_does_not_lead_to_the_claimer)
{
    struct conform_end server, client;
    char string[64], name[NA_MAX_ADDR_LEN];
    size_t size = sizeof(name);
    struct hg_test_peer *other;
    void *memory = name;
    na_addr_t addr;
    hg_bulk_t bulk;

    (void) snprintf(string, sizeof(string), "sm://claims-%ld", (long) getpid());
    endpoint_open(&server, string, 1000);
    endpoint_open(&client, "sm://", 1000);
    endpoint_name(&client, client.self, name);
    HG_CHECK_OK(HG_Init(client.na_class));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &memory, &size, HG_BULK_READWRITE, &bulk));
    HG_CHECK_OK(HG_Bulk_handle_bind(bulk));
    other = hg_test_spawn("claimer", string, name, NULL);
    free(hg_test_read_peer(other));
    while (NA_Get_counter(server.na_class, "sm_met") == 0)
        conform_idle(&server);
    HG_CHECK_OK(sm_meet(&server, &client, name, &addr));
    HG_CHECK_EQ_U64(NA_Get_counter(client.na_class, "sm_met"), 1);
    HG_CHECK_OK(NA_Addr_free(server.na_class, addr));
    hg_test_stop(other);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    HG_CHECK_OK(HG_Finalize());
    conform_close(&client);
    conform_close(&server);
}

/* Send argv[0] a message from a process that claims the incarnation argv[1]. */
HG_TEST_ROLE(forger)
{
    struct conform_end end;
    na_addr_t addr;

    HG_CHECK_EQ_INT(argc, 2);
    endpoint_open(&end, "sm://", 1000);
    end.na_class->incarnation = strtoull(argv[1], NULL, 16);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end.na_class, argv[0], CONFORM_TIMEOUT, &addr));
    HG_CHECK_OK(endpoint_send(&end, addr, true, "forged", 7, 7));
    HG_CHECK_OK(endpoint_send(&end, addr, false, "end", 4, 0));
    hg_test_write_parent("sent");
    free(hg_test_read_parent());
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
}

/* Each peer of a listener knows its incarnation, and can claim it. */
HG_TEST(claimed_incarnation_is_not_matched)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct conform_call recv, last;
    struct conform_end one, two;
    char name[NA_MAX_ADDR_LEN], text[32], got[2][8];
    struct hg_test_peer *other;
    na_addr_t addr;

    info.progress_thread = NA_TRUE;
    endpoint_open_info(&one, "sm://", NA_TRUE, &info);
    endpoint_open_info(&two, "sm://", NA_TRUE, &info);
    endpoint_name(&one, one.self, name);
    HG_CHECK_OK(NA_Addr_resolve(two.na_class, name, &addr));
    memset(&recv, 0, sizeof(recv));
    HG_CHECK_OK(NA_Msg_recv_expected(two.na_class, two.context, conform_ended,
        &recv, got[0], sizeof(got[0]), addr, 7, &recv.id));
    HG_CHECK_OK(conform_recv(&two, &last, false, got[1], sizeof(got[1]), 0));
    endpoint_name(&two, two.self, name);
    (void) snprintf(text, sizeof(text), "%" PRIx64, one.na_class->incarnation);
    other = hg_test_spawn("forger", name, text, NULL);
    HG_CHECK_OK(conform_wait(&two, &last));
    HG_CHECK_EQ_INT(recv.ends, 0);
    HG_CHECK(!NA_Addr_cmp(two.na_class, last.addr, addr));
    conform_free_addr(&two, &last);
    free(hg_test_read_peer(other));
    hg_test_stop(other);
    HG_CHECK_OK(NA_Cancel(two.na_class, two.context, recv.id));
    HG_CHECK_RET(conform_wait(&two, &recv), NA_CANCELED);
    HG_CHECK_OK(NA_Addr_free(two.na_class, addr));
    conform_close(&two);
    conform_close(&one);
}

/* ---- A peer that makes no progress ---- */

/* `one` has sent a message to `two`, which waits for one of `one` by another
 * form of its address, so that only the answer of `one` proves it. */
struct claims_pair {
    struct conform_end one, two;
    na_addr_t to_one, to_two;
    char alias[64], got[8];
    struct conform_call recv;
};

static void claims_open(struct claims_pair *pair)
{
    char string[64], name[NA_MAX_ADDR_LEN];

    memset(pair, 0, sizeof(*pair));
    (void) snprintf(
        string, sizeof(string), "sm:///tmp/hg-claims-%ld", (long) getpid());
    (void) snprintf(pair->alias, sizeof(pair->alias),
        "sm:///tmp/./hg-claims-%ld", (long) getpid());
    endpoint_open(&pair->one, string, 1000);
    (void) snprintf(string, sizeof(string), "sm://claims-%ld", (long) getpid());
    endpoint_open_with(&pair->two, string, 1000, CLAIMS_LOOKUP_MS);
    endpoint_name(&pair->two, pair->two.self, name);
    HG_CHECK_OK(sm_meet(&pair->one, &pair->two, name, &pair->to_two));
    HG_CHECK_OK(
        NA_Addr_resolve(pair->two.na_class, pair->alias, &pair->to_one));
    HG_CHECK_OK(endpoint_send(&pair->one, pair->to_two, true, "late", 5, 7));
    HG_CHECK_OK(NA_Msg_recv_expected(pair->two.na_class, pair->two.context,
        conform_ended, &pair->recv, pair->got, sizeof(pair->got), pair->to_one,
        7, &pair->recv.id));
}

static void claims_close(struct claims_pair *pair)
{
    HG_CHECK_OK(NA_Addr_free(pair->two.na_class, pair->to_one));
    HG_CHECK_OK(NA_Addr_free(pair->one.na_class, pair->to_two));
    conform_close(&pair->one);
    conform_close(&pair->two);
}

static void claims_pause(struct claims_pair *pair)
{
    uint64_t end = endpoint_ms() + 4 * CLAIMS_LOOKUP_MS;

    while (endpoint_ms() < end)
        conform_idle(&pair->two);
}

/* The peer makes progress long after lookup_ms. */
HG_TEST(receive_waits_for_a_peer_that_makes_progress_late)
{
    struct claims_pair pair;

    claims_open(&pair);
    claims_pause(&pair);
    HG_CHECK_EQ_INT(pair.recv.ends, 0);
    HG_CHECK_OK(sm_wait(&pair.two, &pair.one, &pair.recv));
    HG_CHECK_EQ_STR(pair.got, "late");
    claims_close(&pair);
}

/* A lookup and a close end after lookup_ms, and the receive ends with them. */
HG_TEST(lookup_and_close_do_not_wait_with_a_receive)
{
    struct claims_pair pair;
    struct conform_call call;
    na_addr_t addr;
    int i;

    for (i = 0; i < 2; i++) {
        hg_test_allow_log("the process that listens there does not answer");
        claims_open(&pair);
        claims_pause(&pair);
        memset(&call, 0, sizeof(call));
        if (i == 0) {
            HG_CHECK_RET(
                endpoint_lookup(&pair.two, pair.alias, &addr), NA_HOSTUNREACH);
        } else {
            HG_CHECK_OK(NA_Addr_terminate(pair.two.na_class, pair.two.context,
                conform_ended, &call, pair.to_one, &call.id));
            HG_CHECK_OK(conform_wait(&pair.two, &call));
        }
        HG_CHECK_RET(conform_wait(&pair.two, &pair.recv), NA_HOSTUNREACH);
        claims_close(&pair);
    }
}
