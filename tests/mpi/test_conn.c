/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of MPI whose peer does not poll, and message bodies of several
 * classes.
 *
 * In each case mpirun starts two ranks that run a role. A rank that must not
 * poll waits in MPI_Barrier.
 */
#define _GNU_SOURCE 1
#include <mpi.h>

#define HG_NA_PLUGIN_API 1

#include "conform/conform.h"
#include "mpi/ranks.h"

#include <unistd.h>

#define CONN_SIZE 5000u /* size of a message with a body */
#define CONN_TAGS 8192u /* number of tags for bodies */
#define CONN_BIG ((size_t) 4 << 20)
#define CONN_PACKETS 16384 /* the tag of packets of the first class */

static int conn_rank(void)
{
    int rank;

    HG_CHECK_EQ_INT(MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_SUCCESS);
    return rank;
}

static void conn_barrier(void)
{
    HG_CHECK_EQ_INT(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
}

static void conn_open_queue(
    struct conform_end *end, na_bool_t listen, size_t max_queue_bytes)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    info.max_unexpected_size = CONN_BIG;
    info.lookup_ms = 1000;
    if (max_queue_bytes > 0)
        info.max_queue_bytes = max_queue_bytes;
    end->na_class = NA_Initialize_opt("mpi+static://", listen, &info);
    HG_CHECK(end->na_class != NULL);
    end->context = NA_Context_create(end->na_class);
    HG_CHECK(end->context != NULL);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->self));
}

static void conn_open_as(struct conform_end *end, na_bool_t listen)
{
    conn_open_queue(end, listen, 0);
}

static void conn_open(struct conform_end *end)
{
    conn_open_as(end, NA_TRUE);
}

/* Wait for the other rank, and make progress. */
static void conn_meet(struct conform_end *end)
{
    MPI_Request request;
    unsigned ms = 0;
    int done = 0;

    HG_CHECK_EQ_INT(MPI_Ibarrier(MPI_COMM_WORLD, &request), MPI_SUCCESS);
    while (!done) {
        HG_CHECK(ms++ < CONFORM_TIMEOUT);
        (void) conform_turn(end->na_class, end->context, 1);
        HG_CHECK_EQ_INT(
            MPI_Test(&request, &done, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
}

static void conn_send(struct conform_end *end, bool expected, na_addr_t dest,
    const void *buf, na_size_t size, na_tag_t tag)
{
    struct conform_call call;

    memset(&call, 0, sizeof(call));
    HG_CHECK_OK((expected ? NA_Msg_send_expected : NA_Msg_send_unexpected)(
        end->na_class, end->context, conform_ended, &call, buf, size, dest, tag,
        NA_OP_ID_IGNORE));
    HG_CHECK_OK(conform_wait(end, &call));
}

/* Receive the next unexpected message into `buf`; returns its tag, and its
 * source. */
static na_tag_t conn_receive(
    struct conform_end *end, void *buf, na_addr_t *from_p)
{
    struct conform_call call;

    HG_CHECK_OK(conform_recv(end, &call, false, buf, CONN_SIZE, 0));
    HG_CHECK_OK(conform_wait(end, &call));
    HG_CHECK_EQ_U64(call.size, CONN_SIZE);
    *from_p = call.addr;
    return call.tag;
}

/* Wait until rank 0 answers. */
static void conn_await(struct conform_end *end, na_addr_t peer)
{
    struct conform_call call;
    char byte;

    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Msg_recv_expected(end->na_class, end->context, conform_ended,
        &call, &byte, 1, peer, 7, NA_OP_ID_IGNORE));
    HG_CHECK_OK(conform_wait(end, &call));
}

static na_addr_t conn_look_for(struct conform_end *end, const char *name)
{
    na_addr_t addr;

    HG_CHECK_OK(
        NA_Addr_lookup_wait(end->na_class, name, CONFORM_TIMEOUT, &addr));
    return addr;
}

static na_addr_t conn_look(struct conform_end *end)
{
    return conn_look_for(end, "mpi+static://0");
}

/* ---- Tags of bodies ---- */

/* One class of rank 1 offers a body and is not polled, while another one sends
 * more bodies than there are tags. */
HG_TEST_ROLE(bodies)
{
    static char want[CONN_SIZE], late[CONN_SIZE], got[CONN_SIZE];
    struct conform_end end, slow;
    na_addr_t peer, slow_peer;
    unsigned i;

    (void) argc;
    (void) argv;
    conform_fill(want, sizeof(want), 1);
    conform_fill(late, sizeof(late), 2);
    conn_open(&end);
    if (conn_rank() == 0) {
        for (i = 0; i < CONN_TAGS + 100; i++) {
            HG_CHECK_EQ_U64(conn_receive(&end, got, &peer), 1);
            HG_CHECK_EQ_MEM(got, want, sizeof(got));
            if (i == CONN_TAGS + 99)
                conn_send(&end, true, peer, "x", 1, 7);
            HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
        }
        HG_CHECK_EQ_U64(conn_receive(&end, got, &peer), 2);
        HG_CHECK_EQ_MEM(got, late, sizeof(got));
        conn_send(&end, true, peer, "x", 1, 7);
        HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
    } else {
        conn_open(&slow);
        slow_peer = conn_look(&slow);
        conn_send(&slow, false, slow_peer, late, sizeof(late), 2);
        peer = conn_look(&end);
        for (i = 0; i < CONN_TAGS + 100; i++)
            conn_send(&end, false, peer, want, sizeof(want), 1);
        conn_await(&end, peer);
        conn_await(&slow, slow_peer);
        HG_CHECK_OK(NA_Addr_free(slow.na_class, slow_peer));
        HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
        conform_close(&slow);
    }
    conform_close(&end);
}

HG_TEST_SECONDS(body_goes_to_its_receive, 60)
{
    HG_CHECK_EQ_INT(ranks_run(2, "bodies"), 0);
}

/* ---- Packets ---- */

#define EDGE 3850u /* to 4010: about the size of a packet */

/* Rank 1 gets and puts data that fits in a packet, and data that just does
 * not. */
HG_TEST_ROLE(edges)
{
    static unsigned char want[4010], memory[4010];
    unsigned char handle[64];
    struct conform_end end;
    struct conform_call call;
    na_mem_handle_t local, remote;
    na_addr_t peer;
    na_size_t size;
    unsigned put;

    (void) argc;
    (void) argv;
    conn_open(&end);
    local = conform_memory(&end, memory, sizeof(memory), NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, local));
    if (conn_rank() == 0) {
        conform_fill(memory, sizeof(memory), 1);
        HG_CHECK_OK(NA_Mem_handle_serialize(end.na_class, handle,
            NA_Mem_handle_get_serialize_size(end.na_class, local), local));
        HG_CHECK_EQ_INT(
            MPI_Send(handle, sizeof(handle), MPI_BYTE, 1, 1, MPI_COMM_WORLD),
            MPI_SUCCESS);
        HG_CHECK_OK(conform_recv(&end, &call, false, want, 1, 0));
        HG_CHECK_OK(conform_wait(&end, &call));
        conn_send(&end, true, call.addr, "x", 1, 7);
        HG_CHECK_OK(NA_Addr_free(end.na_class, call.addr));
    } else {
        peer = conn_look(&end);
        HG_CHECK_EQ_INT(MPI_Recv(handle, sizeof(handle), MPI_BYTE, 0, 1,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            MPI_SUCCESS);
        HG_CHECK_OK(NA_Mem_handle_deserialize(end.na_class, &remote, handle,
            NA_Mem_handle_get_serialize_size(end.na_class, local)));
        for (size = EDGE; size <= sizeof(memory); size++) {
            conform_fill(want, sizeof(want), size);
            memcpy(memory, want, sizeof(memory));
            for (put = 2; put-- > 0;) {
                memset(&call, 0, sizeof(call));
                HG_CHECK_OK((put ? NA_Put : NA_Get)(end.na_class, end.context,
                    conform_ended, &call, local, 0, remote, 0, size, peer,
                    NA_OP_ID_IGNORE));
                HG_CHECK_OK(conform_wait(&end, &call));
                if (put)
                    memset(memory, 0, sizeof(memory));
            }
            HG_CHECK_EQ_MEM(memory, want, size);
        }
        conn_send(&end, false, peer, "x", 1, 1);
        conn_await(&end, peer);
        HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
        HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
    }
    HG_CHECK_OK(NA_Mem_deregister(end.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, local));
    conform_close(&end);
}

HG_TEST(data_that_just_fits_in_a_packet_moves)
{
    HG_CHECK_EQ_INT(ranks_run(2, "edges"), 0);
}

/* ---- Out of memory ---- */

/* Rank 0 has no memory at first for the messages of rank 1: they arrive later,
 * in order. */
HG_TEST_ROLE(later)
{
    static char want[CONN_SIZE], got[2][CONN_SIZE];
    struct conform_end end;
    struct conform_call calls[2];
    na_addr_t peer;
    unsigned i, ms = 0;

    (void) argc;
    (void) argv;
    hg_test_alloc_install();
    conform_fill(want, sizeof(want), 1);
    conn_open(&end);
    if (conn_rank() == 0) {
        hg_test_expect_log("no memory to keep a packet");
        HG_CHECK_EQ_U64(conn_receive(&end, got[0], &peer), 1);
        conn_send(&end, true, peer, "x", 1, 7);
        for (i = 0; i < 2; i++)
            HG_CHECK_OK(conform_recv(
                &end, &calls[i], false, got[i], sizeof(got[i]), 0));
        conn_barrier();
        hg_test_alloc_fail_at(1);
        while (!hg_test_alloc_failed()) {
            HG_CHECK(ms++ < CONFORM_TIMEOUT);
            (void) conform_turn(end.na_class, end.context, 1);
        }
        hg_test_alloc_fail_at(0);
        for (i = 0; i < 2; i++) {
            HG_CHECK_OK(conform_wait(&end, &calls[i]));
            HG_CHECK_EQ_U64(calls[i].tag, i + 2);
            HG_CHECK_EQ_MEM(got[i], want, (size_t) calls[i].size);
            HG_CHECK_OK(NA_Addr_free(end.na_class, calls[i].addr));
        }
        HG_CHECK_EQ_U64(calls[0].size, CONN_SIZE);
        HG_CHECK_EQ_U64(calls[1].size, 1);
        conn_send(&end, true, peer, "x", 1, 7);
    } else {
        peer = conn_look(&end);
        conn_send(&end, false, peer, want, sizeof(want), 1);
        conn_await(&end, peer);
        conn_send(&end, false, peer, want, sizeof(want), 2);
        conn_send(&end, false, peer, want, 1, 3);
        conn_barrier();
        conn_await(&end, peer);
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
    conform_close(&end);
}

HG_TEST(messages_without_memory_arrive_later_in_order)
{
    HG_CHECK_EQ_INT(ranks_run(2, "later"), 0);
}

/* Nothing receives the messages of rank 1 at first. Some are queued, the others
 * are held back, and there is no memory for one of them, each in turn. */
HG_TEST_ROLE(held)
{
    enum { COUNT = 12, SIZE = 600 };
    static char bytes[SIZE], got[CONN_SIZE];
    struct conform_end end;
    struct conform_call call;
    na_addr_t peer;
    unsigned i, nth, ms = 0;

    (void) argc;
    (void) argv;
    hg_test_alloc_install();
    hg_test_allow_log("no memory to keep a packet");
    conn_open_queue(&end, NA_TRUE, 4096);
    if (conn_rank() == 0) {
        HG_CHECK_EQ_U64(conn_receive(&end, got, &peer), 1);
        conn_send(&end, true, peer, "x", 1, 7);
    } else {
        peer = conn_look(&end);
        conn_send(&end, false, peer, got, CONN_SIZE, 1);
        conn_await(&end, peer);
    }
    for (nth = 1; nth <= COUNT; nth++) {
        conn_barrier(); /* from here on rank 0 does not poll */
        for (i = 0; conn_rank() == 1 && i < COUNT; i++)
            conn_send(&end, false, peer, bytes, SIZE, i);
        conn_barrier();
        if (conn_rank() == 0) {
            hg_test_alloc_fail_at(nth);
            while (!hg_test_alloc_failed()) {
                HG_CHECK(ms++ < CONFORM_TIMEOUT);
                (void) conform_turn(end.na_class, end.context, 1);
            }
            hg_test_alloc_fail_at(0);
        }
        for (i = 0; conn_rank() == 0 && i < COUNT; i++) {
            HG_CHECK_OK(conform_recv(&end, &call, false, got, sizeof(got), 0));
            HG_CHECK_OK(conform_wait(&end, &call));
            HG_CHECK(call.tag == i && call.size == SIZE);
            HG_CHECK_OK(NA_Addr_free(end.na_class, call.addr));
        }
        conn_meet(&end);
    }
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "msg_dropped"), 0);
    HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
    conform_close(&end);
}

HG_TEST(messages_held_back_without_memory_arrive_later_in_order)
{
    HG_CHECK_EQ_INT(ranks_run(2, "held"), 0);
}

/* ---- A peer that does not receive ---- */

enum { CONN_MANY = 1200, CONN_SIZES = 2, CONN_WINDOW = 1 << 20 };

/* Rank 0 does not poll while rank 1 sends messages, first in packets and then
 * in bodies: most of them wait, and arrive in order when it polls. */
HG_TEST_ROLE(slow)
{
    static const na_size_t sizes[CONN_SIZES] = {3000, CONN_SIZE};
    static char bytes[CONN_SIZE];
    static struct conform_call calls[CONN_MANY];
    struct conform_end end;
    na_addr_t peer;
    unsigned i, j, sent;

    (void) argc;
    (void) argv;
    conn_open(&end);
    if (conn_rank() == 0) {
        HG_CHECK_EQ_U64(conn_receive(&end, bytes, &peer), 1);
        conn_send(&end, true, peer, "x", 1, 7);
    } else {
        peer = conn_look(&end);
        conn_send(&end, false, peer, bytes, CONN_SIZE, 1);
        conn_await(&end, peer);
    }
    for (j = 0; j < CONN_SIZES; j++) {
        conn_barrier(); /* from here on rank 0 does not poll */
        if (conn_rank() == 0)
            conn_barrier();
        for (i = 0; i < CONN_MANY; i++) {
            if (conn_rank() == 0) {
                HG_CHECK_OK(conform_recv(
                    &end, &calls[i], false, bytes, sizeof(bytes), 0));
                HG_CHECK_OK(conform_wait(&end, &calls[i]));
                HG_CHECK_EQ_U64(calls[i].size, sizes[j]);
                HG_CHECK_EQ_INT(calls[i].tag, i);
                HG_CHECK_OK(NA_Addr_free(end.na_class, calls[i].addr));
            } else {
                memset(&calls[i], 0, sizeof(calls[i]));
                HG_CHECK_OK(NA_Msg_send_unexpected(end.na_class, end.context,
                    conform_ended, &calls[i], bytes, sizes[j], peer, i,
                    &calls[i].id));
            }
        }
        for (i = 0; i < 10; i++)
            (void) conform_turn(end.na_class, end.context, 1);
        for (sent = 0, i = 0; i < CONN_MANY; i++)
            sent += calls[i].ends != 0;
        if (conn_rank() == 1) {
            /* With half a window before the first body, and that body. */
            HG_CHECK(sent <= CONN_WINDOW / sizes[j] * 3 / 2 + 2);
            HG_CHECK(sent >= CONN_WINDOW / sizes[j] / 2);
            conn_barrier();
        }
        for (i = 0; conn_rank() == 1 && i < CONN_MANY; i++)
            HG_CHECK_OK(conform_wait(&end, &calls[i]));
        HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "msg_dropped"), 0);
        conn_meet(&end);
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
    conform_close(&end);
}

HG_TEST(messages_wait_at_the_sender_until_the_peer_polls)
{
    HG_CHECK_EQ_INT(ranks_run(2, "slow"), 0);
}

/* ---- Ends ---- */

/* A send to a class that does not exist on rank 0. */
HG_TEST_ROLE(missing_class)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct conform_call call, other;
    struct conform_end end;
    na_addr_t peer;
    char byte = 'x';

    (void) argc;
    (void) argv;
    info.lookup_ms = 200;
    end.na_class = NA_Initialize_opt("mpi+static://", NA_TRUE, &info);
    HG_CHECK(end.na_class != NULL);
    end.context = NA_Context_create(end.na_class);
    HG_CHECK(end.context != NULL);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.self));
    hg_test_expect_log("mpi+static://0:9 cannot be reached: no answer");
    HG_CHECK_OK(NA_Addr_resolve(end.na_class, "mpi+static://0:9", &peer));
    memset(&call, 0, sizeof(call));
    memset(&other, 0, sizeof(other));
    HG_CHECK_OK(NA_Msg_recv_expected(end.na_class, end.context, conform_ended,
        &other, &byte, 1, peer, 7, NA_OP_ID_IGNORE));
    HG_CHECK_OK(NA_Msg_send_unexpected(end.na_class, end.context, conform_ended,
        &call, &byte, 1, peer, 7, NA_OP_ID_IGNORE));
    HG_CHECK_RET(conform_wait(&end, &call), NA_HOSTUNREACH);
    HG_CHECK_RET(conform_wait(&end, &other), NA_HOSTUNREACH);
    HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
    conform_close(&end);
}

HG_TEST(send_without_a_receiver_ends_unreachable)
{
    HG_CHECK_EQ_INT(ranks_run(1, "missing_class"), 0);
}

/* Rank 0 does not poll, so a window of messages that rank 1 has sent is not
 * received when rank 1 ends the connection. The next one has a new window. */
HG_TEST_ROLE(terminated)
{
    static char bytes[CONN_WINDOW];
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct conform_call call;
    struct conform_end end;
    na_addr_t peer;

    (void) argc;
    (void) argv;
    info.max_unexpected_size = CONN_BIG;
    info.death_ms = 100;
    end.na_class = NA_Initialize_opt("mpi+static://", NA_TRUE, &info);
    HG_CHECK(end.na_class != NULL);
    end.context = NA_Context_create(end.na_class);
    HG_CHECK(end.context != NULL);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.self));
    if (conn_rank() == 0) {
        HG_CHECK_EQ_U64(conn_receive(&end, bytes, &peer), 1);
        HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
        conn_meet(&end);
        conn_barrier(); /* from here on it does not poll */
        conn_barrier();
        HG_CHECK_EQ_U64(conn_receive(&end, bytes, &peer), 3);
        conn_meet(&end);
    } else {
        peer = conn_look(&end);
        conn_send(&end, false, peer, bytes, CONN_SIZE, 1);
        conn_meet(&end);
        conn_barrier();
        conn_send(&end, false, peer, bytes, sizeof(bytes), 2);
        memset(&call, 0, sizeof(call));
        HG_CHECK_OK(NA_Addr_terminate(end.na_class, end.context, conform_ended,
            &call, peer, NA_OP_ID_IGNORE));
        HG_CHECK_RET(conform_wait(&end, &call), NA_DISCONNECT);
        conn_barrier();
        conn_send(&end, false, peer, bytes, CONN_SIZE, 3);
        conn_meet(&end);
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
    conform_close(&end);
}

HG_TEST(connection_after_one_that_ended_has_a_window_of_its_own)
{
    HG_CHECK_EQ_INT(ranks_run(2, "terminated"), 0);
}

/* Rank 1 finalizes its class, whose last message rank 0 has not received. */
HG_TEST_ROLE(unread)
{
    static char bytes[CONN_SIZE];
    struct conform_end end;
    struct conform_call call;
    na_addr_t peer;
    char byte;

    (void) argc;
    (void) argv;
    conn_open(&end);
    memset(&call, 0, sizeof(call));
    if (conn_rank() == 0) {
        HG_CHECK_EQ_U64(conn_receive(&end, bytes, &peer), 1);
        conn_send(&end, true, peer, "x", 1, 7);
        HG_CHECK_OK(NA_Msg_recv_expected(end.na_class, end.context,
            conform_ended, &call, &byte, 1, peer, 9, NA_OP_ID_IGNORE));
        conn_barrier();
        HG_CHECK_RET(conform_wait(&end, &call), NA_DISCONNECT);
        HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
        conform_close(&end);
    } else {
        peer = conn_look(&end);
        conn_send(&end, false, peer, bytes, sizeof(bytes), 1);
        conn_await(&end, peer);
        (void) usleep(200000); /* rank 0 waits in the barrier by then */
        conn_send(&end, true, peer, bytes, sizeof(bytes), 8);
        HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
        conform_close(&end);
        conn_barrier();
    }
}

HG_TEST(class_that_ends_with_an_unread_message_is_detected)
{
    HG_CHECK_EQ_INT(ranks_run(2, "unread"), 0);
}

/* Rank 1 finalizes its class while rank 0 has not answered its HELLO. */
HG_TEST_ROLE(unanswered)
{
    struct conform_end end;
    struct conform_call call;
    unsigned ms = 0;

    (void) argc;
    (void) argv;
    conn_open(&end);
    conn_barrier();
    if (conn_rank() == 0) {
        HG_Set_log_level("info");
        hg_test_expect_log("lost the peer mpi+static://1");
        conn_barrier();
        while (hg_test_log_count("lost the peer mpi+static://1") == 0) {
            HG_CHECK(ms++ < CONFORM_TIMEOUT);
            (void) conform_turn(end.na_class, end.context, 1);
        }
        conform_close(&end);
    } else {
        memset(&call, 0, sizeof(call));
        HG_CHECK_OK(NA_Addr_lookup(end.na_class, end.context, conform_ended,
            &call, "mpi+static://0", &call.id));
        HG_CHECK_OK(NA_Cancel(end.na_class, end.context, call.id));
        HG_CHECK_RET(conform_wait(&end, &call), NA_CANCELED);
        conform_close(&end);
        conn_barrier();
    }
}

HG_TEST(class_that_ends_while_it_connects_is_forgotten)
{
    HG_CHECK_EQ_INT(ranks_run(2, "unanswered"), 0);
}

/* Rank 1 finalizes its class without sending the bodies it has offered to rank
 * 0: of a message, or of the frames of a get. Rank 0 then asks for them.
 * */
static void conn_withdraw(bool frames)
{
    static char bytes[CONN_BIG];
    na_mem_handle_t mem = NA_MEM_HANDLE_NULL, remote = NA_MEM_HANDLE_NULL;
    struct conform_end end;
    struct conform_call call;
    char described[CONN_SIZE];
    na_size_t size;
    unsigned ms = 0;
    na_addr_t peer;

    hg_test_alloc_install();
    conn_open(&end);
    memset(&call, 0, sizeof(call));
    memset(described, 0, sizeof(described));
    mem = conform_memory(&end, bytes, sizeof(bytes), NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, mem));
    if (conn_rank() == 0) {
        HG_CHECK_EQ_U64(conn_receive(&end, described, &peer), 1);
        HG_CHECK_OK(NA_Mem_handle_deserialize(
            end.na_class, &remote, described + 1, (na_size_t) described[0]));
        conn_send(&end, true, peer, "x", 1, 7);
        if (frames)
            HG_CHECK_OK(NA_Get(end.na_class, end.context, conform_ended, &call,
                mem, 0, remote, 0, sizeof(bytes), peer, &call.id));
        else
            HG_CHECK_OK(NA_Msg_recv_expected(end.na_class, end.context,
                conform_ended, &call, bytes, 1, peer, 9, &call.id));
        conn_barrier();
        conn_barrier();
        HG_CHECK_RET(conform_wait(&end, &call), NA_DISCONNECT);
        while (hg_test_alloc_bytes() > (int64_t) CONN_BIG / 8) {
            HG_CHECK(ms++ < CONFORM_TIMEOUT / 2);
            (void) conform_turn(end.na_class, end.context, 1);
        }
        HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
        HG_CHECK_OK(NA_Mem_handle_free(end.na_class, mem));
    } else {
        size = NA_Mem_handle_get_serialize_size(end.na_class, mem);
        HG_CHECK(size < 128);
        described[0] = (char) size;
        HG_CHECK_OK(
            NA_Mem_handle_serialize(end.na_class, described + 1, size, mem));
        peer = conn_look(&end);
        conn_send(&end, false, peer, described, sizeof(described), 1);
        conn_await(&end, peer);
        conn_barrier();
        if (!frames)
            conn_send(&end, false, peer, bytes, sizeof(bytes), 1);
        conform_idle(&end); /* reads the get */
        HG_CHECK_OK(NA_Mem_handle_free(end.na_class, mem));
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
    conform_close(&end);
    if (conn_rank() == 1)
        conn_barrier();
}

HG_TEST_ROLE(withdrawn_message)
{
    (void) argc;
    (void) argv;
    conn_withdraw(false);
}

HG_TEST_ROLE(withdrawn_frames)
{
    (void) argc;
    (void) argv;
    conn_withdraw(true);
}

HG_TEST(missing_body_is_not_waited_for)
{
    HG_CHECK_EQ_INT(ranks_run(2, "withdrawn_message"), 0);
    HG_CHECK_EQ_INT(ranks_run(2, "withdrawn_frames"), 0);
}

/* ---- Classes that do not listen ---- */

/* Rank 0 does not listen: rank 1 can look it up once rank 0 has called. */
HG_TEST_ROLE(not_listening)
{
    static char bytes[CONN_SIZE];
    struct conform_end end;
    na_addr_t peer, found;
    int level;

    (void) argc;
    (void) argv;
    HG_CHECK_EQ_INT(
        MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level), MPI_SUCCESS);
    conn_open_as(&end, conn_rank() == 1 ? NA_TRUE : NA_FALSE);
    if (conn_rank() == 0) {
        conn_meet(&end);
        HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "mpi_malformed"), 1);
        peer = conn_look_for(&end, "mpi+static://1");
        conn_send(&end, false, peer, bytes, sizeof(bytes), 1);
        conn_meet(&end);
    } else {
        hg_test_expect_log("mpi+static://0 cannot be reached");
        HG_CHECK_RET(NA_Addr_lookup_wait(end.na_class, "mpi+static://0",
                         CONFORM_TIMEOUT, &peer),
            NA_HOSTUNREACH);
        conn_meet(&end);
        HG_CHECK_EQ_U64(conn_receive(&end, bytes, &peer), 1);
        found = conn_look(&end);
        HG_CHECK(found == peer);
        HG_CHECK_OK(NA_Addr_free(end.na_class, found));
        conn_meet(&end);
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
    conform_close(&end);
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}

HG_TEST(class_that_does_not_listen_is_found_by_those_it_called)
{
    HG_CHECK_EQ_INT(ranks_run(2, "not_listening"), 0);
}

/* ---- Packets that are too long ---- */

HG_TEST_ROLE(too_long)
{
    static char bytes[CONN_SIZE];
    struct conform_end end;
    na_addr_t peer;

    (void) argc;
    (void) argv;
    conn_open(&end);
    if (conn_rank() == 0) {
        hg_test_expect_log("cannot receive a packet");
        HG_CHECK_EQ_U64(conn_receive(&end, bytes, &peer), 1);
        HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "mpi_malformed"), 1);
        conn_send(&end, true, peer, "x", 1, 7);
    } else {
        HG_CHECK_EQ_INT(MPI_Send(bytes, CONN_SIZE, MPI_BYTE, 0, CONN_PACKETS,
                            MPI_COMM_WORLD),
            MPI_SUCCESS);
        peer = conn_look(&end);
        conn_send(&end, false, peer, bytes, sizeof(bytes), 1);
        conn_await(&end, peer);
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, peer));
    conform_close(&end);
}

HG_TEST(packet_that_is_too_long_is_refused)
{
    HG_CHECK_EQ_INT(ranks_run(2, "too_long"), 0);
}

/* ---- A rank that claims to be the class ---- */

/* Rank 1 sends the HELLO back, as if rank 0 had called itself, and answers it
 * with the number of rank 0. */
static void conn_claim(void)
{
    enum { HELLO_SIZE = 40, KIND_AT = 3, TO_AT = 24, FROM_AT = 32 };
    unsigned char bytes[HELLO_SIZE];
    unsigned char kind;

    HG_CHECK_EQ_INT(MPI_Recv(bytes, HELLO_SIZE, MPI_BYTE, 0, CONN_PACKETS,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE),
        MPI_SUCCESS);
    for (kind = 1; kind <= 2; kind++) { /* HELLO, WELCOME */
        HG_CHECK_EQ_INT(MPI_Send(bytes, HELLO_SIZE, MPI_BYTE, 0, CONN_PACKETS,
                            MPI_COMM_WORLD),
            MPI_SUCCESS);
        bytes[KIND_AT]++;
        memcpy(bytes + TO_AT, bytes + FROM_AT, 8);
    }
}

HG_TEST_ROLE(impostor)
{
    struct conform_end end;
    struct conform_call call;
    int level;

    (void) argc;
    (void) argv;
    HG_CHECK_EQ_INT(
        MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level), MPI_SUCCESS);
    if (conn_rank() == 1) {
        conn_claim();
    } else {
        hg_test_expect_log("from rank 1: it claims to be this class");
        hg_test_expect_log("cannot be reached: it claims to be this class");
        conn_open(&end);
        memset(&call, 0, sizeof(call));
        HG_CHECK_OK(NA_Addr_lookup(end.na_class, end.context, conform_ended,
            &call, "mpi+static://1", NA_OP_ID_IGNORE));
        HG_CHECK_RET(conform_wait(&end, &call), NA_HOSTUNREACH);
        HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "mpi_malformed"), 1);
        conform_close(&end);
    }
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}

HG_TEST(rank_that_claims_to_be_the_class_is_refused)
{
    HG_CHECK_EQ_INT(ranks_run(2, "impostor"), 0);
}
