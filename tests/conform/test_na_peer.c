/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NA between two processes: messages, memory, and a peer that dies.
 *
 * The other process is the role `target`. It listens, reports its address, and
 * answers unexpected messages, until the test closes the channel:
 *
 *     tag 1   sends it back as an expected message of the same tag
 *     tag 2   the serialized handle of its memory
 *     tag 3   none; it is counted
 *     tag 4   the number of messages with tag 3
 *     tag 5   the serialized handle of its memory of NA_Mem_alloc
 *     tag 6   the bytes of that memory
 *     tag 7   the bytes of its memory at the offset in the message
 */
#include "conform.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define PEER_MEMORY 300000u

#define PEER_SHARED 10000u
#define PEER_PIECE 200u

static char peer_memory[PEER_MEMORY];

/* The memory of the target: its own, and of the library. */
struct peer_mems {
    na_mem_handle_t own;
    na_mem_handle_t shared;
    char *allocated;
};

static na_size_t peer_handle(
    struct conform_end *end, na_mem_handle_t mem, void *bytes, na_size_t space)
{
    na_size_t size = NA_Mem_handle_get_serialize_size(end->na_class, mem);

    HG_CHECK(size > 0 && size <= space);
    HG_CHECK_OK(NA_Mem_handle_serialize(end->na_class, bytes, size, mem));
    return size;
}

/* Answer the message that `recv` received. */
static void peer_answer(struct conform_end *end, const struct peer_mems *mems,
    struct conform_call *recv, const char *got)
{
    static uint32_t counted;
    struct conform_call send;
    char bytes[256];
    const char *answer = recv->tag == 1 ? got : bytes;
    na_size_t size = recv->size;
    na_return_t ret;

    if (recv->tag == 2 || recv->tag == 5)
        size = peer_handle(end, recv->tag == 2 ? mems->own : mems->shared,
            bytes, sizeof(bytes));
    if (recv->tag == 7) {
        uint32_t offset;

        memcpy(&offset, got, sizeof(offset));
        HG_CHECK(offset <= PEER_MEMORY - PEER_PIECE);
        answer = peer_memory + offset;
        size = PEER_PIECE;
    }
    if (recv->tag == 6) {
        answer = mems->allocated;
        size = PEER_SHARED;
    }
    counted += recv->tag == 3;
    if (recv->tag == 4) {
        size = sizeof(counted);
        memcpy(bytes, &counted, sizeof(counted));
    }
    if (recv->tag == 3) {
        conform_free_addr(end, recv);
        return;
    }
    memset(&send, 0, sizeof(send));
    ret = NA_Msg_send_expected(end->na_class, end->context, conform_ended,
        &send, answer, size, recv->addr, recv->tag, NA_OP_ID_IGNORE);
    if (ret == NA_SUCCESS)
        (void) conform_wait(end, &send);
    conform_free_addr(end, recv);
}

HG_TEST_ROLE(target)
{
    struct pollfd channel = {hg_test_parent_fd(), POLLIN, 0};
    struct conform_end end;
    struct conform_call recv;
    struct peer_mems mems;
    char name[NA_MAX_ADDR_LEN], got[4096];

    (void) argc;
    (void) argv;
    hg_test_allow_log(""); /* caused by a caller that disappears */
    conform_open(&end, NULL);
    conform_fill(peer_memory, PEER_MEMORY, 77);
    mems.own = conform_memory(&end, peer_memory, PEER_MEMORY, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, mems.own));
    mems.allocated = (char *) NA_Mem_alloc(end.na_class, PEER_SHARED);
    HG_CHECK(mems.allocated != NULL);
    conform_fill(mems.allocated, PEER_SHARED, 88);
    mems.shared =
        conform_memory(&end, mems.allocated, PEER_SHARED, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, mems.shared));
    HG_CHECK_OK(NA_Addr_to_string(end.na_class, name, sizeof(name), end.self));
    HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    hg_test_write_parent(name);
    while (poll(&channel, 1, 0) == 0) {
        (void) conform_turn(end.na_class, end.context, 10);
        if (recv.ends == 0)
            continue;
        HG_CHECK_OK(recv.ret);
        peer_answer(&end, &mems, &recv, got);
        HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    }
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, mems.own));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, mems.shared));
    HG_CHECK_OK(NA_Mem_free(end.na_class, mems.allocated));
    conform_close(&end);
}

/* Our side: an endpoint, listening or not, that knows the target. */
struct peer_pair {
    struct conform_end end;
    struct hg_test_peer *process;
    na_addr_t target;
    char name[NA_MAX_ADDR_LEN];
};

static void peer_meet(struct peer_pair *pair)
{
    char *name;

    pair->process = hg_test_spawn("target", NULL);
    name = hg_test_read_peer(pair->process);
    (void) snprintf(pair->name, sizeof(pair->name), "%s", name);
    free(name);
    HG_CHECK_OK(NA_Addr_lookup_wait(
        pair->end.na_class, pair->name, CONFORM_TIMEOUT, &pair->target));
    HG_CHECK(NA_Addr_is_self(pair->end.na_class, pair->target) == NA_FALSE);
}

static void peer_open_info(
    struct peer_pair *pair, bool listen, struct na_init_info *info)
{
    char scheme[64];

    if (listen) {
        conform_open(&pair->end, info);
    } else {
        (void) snprintf(scheme, sizeof(scheme), "%s://", hg_test_transport());
        pair->end.na_class = NA_Initialize_opt(scheme, NA_FALSE, info);
        HG_CHECK(pair->end.na_class != NULL);
        pair->end.context = NA_Context_create(pair->end.na_class);
        HG_CHECK(pair->end.context != NULL);
        HG_CHECK_OK(NA_Addr_self(pair->end.na_class, &pair->end.self));
    }
    peer_meet(pair);
}

static void peer_open_with(
    struct peer_pair *pair, bool listen, unsigned death_ms)
{
    struct na_init_info info;

    conform_info(&info);
    info.death_ms = death_ms;
    peer_open_info(pair, listen, &info);
}

static void peer_open(struct peer_pair *pair, bool listen)
{
    peer_open_with(pair, listen, 2000);
}

static void peer_close(struct peer_pair *pair)
{
    HG_CHECK_OK(NA_Addr_free(pair->end.na_class, pair->target));
    conform_close(&pair->end);
}

/* Ask and wait for the answer; returns its size, and its bytes in `got`. */
static na_size_t peer_ask(struct peer_pair *pair, const void *buf,
    na_size_t size, na_tag_t tag, void *got, na_size_t space)
{
    struct conform_end *end = &pair->end;
    struct conform_call send, recv;

    memset(&send, 0, sizeof(send));
    memset(&recv, 0, sizeof(recv));
    HG_CHECK_OK(NA_Msg_recv_expected(end->na_class, end->context, conform_ended,
        &recv, got, space, pair->target, tag, &recv.id));
    HG_CHECK_OK(NA_Msg_send_unexpected(end->na_class, end->context,
        conform_ended, &send, buf, size, pair->target, tag, &send.id));
    HG_CHECK_OK(conform_wait(end, &recv));
    HG_CHECK_OK(conform_wait(end, &send));
    return recv.size;
}

static void peer_talk(bool listen)
{
    struct peer_pair pair;
    char from[4096], to[4096];
    uint64_t random = hg_test_seed();
    unsigned i;

    peer_open(&pair, listen);
    for (i = 0; i < 300; i++) {
        na_size_t size = hg_test_random(&random) % sizeof(from);

        if (size > NA_Msg_get_max_unexpected_size(pair.end.na_class))
            size = 512;
        conform_fill(from, size, i);
        HG_CHECK_EQ_U64(peer_ask(&pair, from, size, 1, to, sizeof(to)), size);
        HG_CHECK_EQ_MEM(to, from, size);
    }
    hg_test_stop(pair.process);
    peer_close(&pair);
}

HG_TEST_WHERE(processes_exchange_messages, hg_test_crosses_processes)
{
    peer_talk(true);
}

HG_TEST_WHERE(class_that_does_not_listen_is_answered, hg_test_crosses_processes)
{
    peer_talk(false);
}

/* Get and put the memory of the process. */
static void peer_move(struct peer_pair *pair)
{
    static char mine[PEER_MEMORY], model[PEER_MEMORY];
    struct conform_end *end = &pair->end;
    struct conform_call call;
    na_mem_handle_t local, remote;
    char bytes[256];
    na_size_t size = peer_ask(pair, "?", 1, 2, bytes, sizeof(bytes));

    HG_CHECK_OK(NA_Mem_handle_deserialize(end->na_class, &remote, bytes, size));
    local = conform_memory(end, mine, PEER_MEMORY, NA_MEM_READWRITE);
    conform_fill(model, PEER_MEMORY, 77);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Get(end->na_class, end->context, conform_ended, &call, local,
        0, remote, 0, PEER_MEMORY, pair->target, &call.id));
    HG_CHECK_OK(conform_wait(end, &call));
    HG_CHECK_EQ_MEM(mine, model, PEER_MEMORY);
    /* Write the middle, and read it back. */
    conform_fill(mine, PEER_MEMORY, 78);
    memcpy(model + 1000, mine, 200000);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Put(end->na_class, end->context, conform_ended, &call, local,
        0, remote, 1000, 200000, pair->target, &call.id));
    HG_CHECK_OK(conform_wait(end, &call));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Get(end->na_class, end->context, conform_ended, &call, local,
        0, remote, 0, PEER_MEMORY, pair->target, &call.id));
    HG_CHECK_OK(conform_wait(end, &call));
    HG_CHECK_EQ_MEM(mine, model, PEER_MEMORY);
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, remote));
}

/* Whether sends wait while the peer does not read: providers of libfabric have
 * limits of their own, or none. */
static bool peer_delays_sends(void)
{
    const char *transport = hg_test_transport();

    return hg_test_reports_death() &&
        (strcmp(transport, "sm") == 0 || strncmp(transport, "zmq+", 4) == 0 ||
            strcmp(transport, "ofi+tcp") == 0);
}

/* The process is stopped while messages are sent to it: most of them wait,
 * although the system buffers some megabytes. None is lost. */
HG_TEST_WHERE(stopped_process_delays_what_is_sent_to_it, peer_delays_sends)
{
    enum { COUNT = 8000, SIZE = 4000 };
    static struct conform_call sends[COUNT];
    static char bytes[SIZE];
    struct peer_pair pair;
    uint32_t counted = 0;
    unsigned i, sent = 0;

    peer_open_with(&pair, true, 20000);
    (void) peer_ask(&pair, "?", 1, 4, &counted, sizeof(counted));
    hg_test_signal(pair.process, SIGSTOP);
    for (i = 0; i < COUNT; i++) {
        memset(&sends[i], 0, sizeof(sends[i]));
        HG_CHECK_OK(NA_Msg_send_unexpected(pair.end.na_class, pair.end.context,
            conform_ended, &sends[i], bytes, SIZE, pair.target, 3,
            &sends[i].id));
    }
    for (i = 0; i < 50; i++)
        (void) conform_turn(pair.end.na_class, pair.end.context, 1);
    for (i = 0; i < COUNT; i++)
        sent += (unsigned) sends[i].ends;
    hg_test_signal(pair.process, SIGCONT);
    HG_CHECK(sent < COUNT * 2 / 3);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(conform_wait(&pair.end, &sends[i]));
    HG_CHECK_EQ_U64(peer_ask(&pair, "?", 1, 4, &counted, sizeof(counted)), 4);
    HG_CHECK_EQ_U64(counted, COUNT);
    hg_test_stop(pair.process);
    peer_close(&pair);
}

/* Messages are tried until they are sent: none is lost, and none is sent
 * twice. */
HG_TEST_WHERE(tried_messages_arrive_once, hg_test_crosses_processes)
{
    enum { COUNT = 1000 };
    static const char bytes[4000] = {0};
    struct peer_pair pair;
    uint32_t counted = 0;
    unsigned i, ms = 0;

    peer_open(&pair, true);
    for (i = 0; i < COUNT;) {
        na_return_t ret = NA_Msg_try_send_unexpected(pair.end.na_class,
            pair.end.context, bytes, sizeof(bytes), pair.target, 3);

        i += ret == NA_SUCCESS;
        if (ret == NA_SUCCESS)
            continue;
        HG_CHECK_RET(ret, NA_AGAIN);
        HG_CHECK(ms++ < CONFORM_TIMEOUT);
        (void) conform_turn(pair.end.na_class, pair.end.context, 1);
    }
    HG_CHECK_EQ_U64(peer_ask(&pair, "?", 1, 4, &counted, sizeof(counted)), 4);
    HG_CHECK_EQ_U64(counted, COUNT);
    hg_test_stop(pair.process);
    peer_close(&pair);
}

/* A context ends although the data of puts with messages is still in the
 * network, where it cannot be taken back: each step of them ends. */
HG_TEST_WHERE(context_ends_with_puts_to_a_stopped_process, peer_delays_sends)
{
    enum { COUNT = 100 };
    static struct conform_call puts[COUNT];
    static char mine[PEER_MEMORY];
    struct peer_pair pair;
    struct conform_end *end = &pair.end;
    na_mem_handle_t local, remote;
    char bytes[256];
    na_size_t size;
    unsigned i;

    if (getenv("HG_TEST_FULL") == NULL)
        hg_test_skip("takes 4 s; set HG_TEST_FULL");
    peer_open_with(&pair, true, 20000);
    hg_test_allow_log("closing the connection to");
    size = peer_ask(&pair, "?", 1, 2, bytes, sizeof(bytes));
    HG_CHECK_OK(NA_Mem_handle_deserialize(end->na_class, &remote, bytes, size));
    local = conform_memory(end, mine, PEER_MEMORY, NA_MEM_READWRITE);
    hg_test_freeze(pair.process);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(NA_Put_notify(end->na_class, end->context, conform_ended,
            &puts[i], local, 0, remote, 0, PEER_MEMORY, pair.target, "x", 2, 3,
            &puts[i].id));
    for (i = 0; i < 50; i++)
        (void) conform_turn(end->na_class, end->context, 1);
    HG_CHECK_OK(NA_Context_destroy(end->na_class, end->context));
    end->context = NA_Context_create(end->na_class);
    HG_CHECK(end->context != NULL);
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, remote));
    hg_test_signal(pair.process, SIGCONT);
    hg_test_stop(pair.process);
    peer_close(&pair);
}

/* Stop the process, and free its address. */
static void peer_part(struct peer_pair *pair)
{
    struct conform_end *end = &pair->end;
    struct conform_call recv;
    char got[8];

    memset(&recv, 0, sizeof(recv));
    HG_CHECK_OK(NA_Msg_recv_expected(end->na_class, end->context, conform_ended,
        &recv, got, sizeof(got), pair->target, 1, &recv.id));
    hg_test_stop(pair->process);
    HG_CHECK_RET(conform_wait(end, &recv), NA_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(end->na_class, pair->target));
}

/* Also for clients that connect after others have left. */
HG_TEST_WHERE(memory_moves_between_processes, hg_test_reports_death)
{
    struct peer_pair pair;
    unsigned i;

    peer_open(&pair, false);
    for (i = 0; i < 3; i++) {
        peer_move(&pair);
        peer_part(&pair);
        peer_meet(&pair);
    }
    hg_test_stop(pair.process);
    peer_close(&pair);
}

/* When the message of a put is delivered, the data is there, also where it
 * needs several frames, and more than a window of them. */
HG_TEST_WHERE(put_notify_delivers_the_message_last, hg_test_crosses_processes)
{
    static const na_size_t sizes[] = {PEER_PIECE, 4096, 65536, 290000};
    static char mine[PEER_MEMORY];
    struct na_init_info info;
    struct peer_pair pair;
    struct conform_end *end = &pair.end;
    struct conform_call put, recv;
    na_mem_handle_t local, remote;
    char bytes[256], got[PEER_PIECE];
    na_size_t size, i;
    uint32_t offset;

    conform_info(&info);
    info.rma_frame_size = 16384;
    info.rma_window = 65536;
    peer_open_info(&pair, true, &info);
    size = peer_ask(&pair, "?", 1, 2, bytes, sizeof(bytes));
    HG_CHECK_OK(NA_Mem_handle_deserialize(end->na_class, &remote, bytes, size));
    local = conform_memory(end, mine, PEER_MEMORY, NA_MEM_READWRITE);
    for (i = 0; i < 80; i++) {
        size = sizes[i % 4];
        offset = (uint32_t) (size - PEER_PIECE); /* the last bytes */
        conform_fill(mine, size, i + 1);
        memset(&put, 0, sizeof(put));
        memset(&recv, 0, sizeof(recv));
        HG_CHECK_OK(NA_Msg_recv_expected(end->na_class, end->context,
            conform_ended, &recv, got, sizeof(got), pair.target, 7, &recv.id));
        HG_CHECK_OK(NA_Put_notify(end->na_class, end->context, conform_ended,
            &put, local, 0, remote, 0, size, pair.target, &offset,
            sizeof(offset), 7, &put.id));
        HG_CHECK_OK(conform_wait(end, &put));
        HG_CHECK_EQ_INT(put.type, NA_CB_PUT_NOTIFY);
        HG_CHECK_OK(conform_wait(end, &recv));
        HG_CHECK_EQ_U64(recv.size, PEER_PIECE);
        HG_CHECK_EQ_MEM(got, mine + offset, PEER_PIECE);
    }
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, remote));
    hg_test_stop(pair.process);
    peer_close(&pair);
}

static bool peer_maps(void)
{
    return (strcmp(hg_test_transport(), "sm") == 0 || hg_test_is_mux()) &&
        getenv("HG_SM_RMA") == NULL && !hg_test_is_valgrind();
}

/* Memory of the library of another process: put and get, and a pointer where
 * the transport has shared memory. The pointer outlives the process. */
HG_TEST_WHERE(library_memory_is_shared_with_a_peer, hg_test_crosses_processes)
{
    static char mine[PEER_SHARED], model[PEER_SHARED];
    struct peer_pair pair;
    struct conform_end *end = &pair.end;
    struct conform_call call;
    na_mem_handle_t local, remote;
    na_return_t ret;
    char bytes[256];
    void *ptr = NULL, *none = NULL;
    na_size_t size;

    peer_open(&pair, true);
    size = peer_ask(&pair, "?", 1, 5, bytes, sizeof(bytes));
    HG_CHECK_OK(NA_Mem_handle_deserialize(end->na_class, &remote, bytes, size));
    local = conform_memory(end, mine, PEER_SHARED, NA_MEM_READWRITE);
    conform_fill(model, PEER_SHARED, 88);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Get(end->na_class, end->context, conform_ended, &call, local,
        0, remote, 0, PEER_SHARED, pair.target, &call.id));
    HG_CHECK_OK(conform_wait(end, &call));
    HG_CHECK_EQ_MEM(mine, model, PEER_SHARED);
    ret = NA_Mem_map(end->na_class, remote, pair.target, &ptr);
    HG_CHECK_RET(ret, peer_maps() ? NA_SUCCESS : NA_OPNOTSUPPORT);
    if (ret == NA_SUCCESS) {
        HG_CHECK_EQ_MEM(ptr, model, PEER_SHARED);
        memset((char *) ptr + 5000, 'x', 10);
        memset(model + 5000, 'x', 10);
        (void) peer_ask(&pair, "?", 1, 6, mine, PEER_SHARED);
        HG_CHECK_EQ_MEM(mine, model, PEER_SHARED);
        hg_test_allow_log("");
        hg_test_signal(pair.process, SIGKILL);
        HG_CHECK(WIFSIGNALED(hg_test_wait(pair.process)));
        for (ret = NA_AGAIN; ret != NA_DISCONNECT;
             ret = NA_Mem_map(end->na_class, remote, pair.target, &none)) {
            HG_CHECK(ret == NA_AGAIN);
            (void) conform_turn(end->na_class, end->context, 1);
        }
        HG_CHECK_EQ_MEM(ptr, model, PEER_SHARED);
        HG_CHECK_OK(NA_Mem_unmap(end->na_class, ptr));
        pair.process = NULL;
    }
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(end->na_class, remote));
    if (pair.process != NULL)
        hg_test_stop(pair.process);
    peer_close(&pair);
}

HG_TEST_WHERE(killed_process_fails_what_waits_for_it, hg_test_reports_death)
{
    struct peer_pair pair;
    struct conform_call recvs[3], send;
    char got[3][8];
    na_addr_t again = NA_ADDR_NULL;
    na_return_t ret;
    unsigned i;

    peer_open(&pair, true);
    hg_test_allow_log("");
    for (i = 0; i < 3; i++) {
        memset(&recvs[i], 0, sizeof(recvs[i]));
        HG_CHECK_OK(NA_Msg_recv_expected(pair.end.na_class, pair.end.context,
            conform_ended, &recvs[i], got[i], 8, pair.target, i + 9,
            &recvs[i].id));
    }
    hg_test_signal(pair.process, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(pair.process)));
    for (i = 0; i < 3; i++)
        HG_CHECK_RET(conform_wait(&pair.end, &recvs[i]), NA_DISCONNECT);
    memset(&send, 0, sizeof(send));
    ret = NA_Msg_send_expected(pair.end.na_class, pair.end.context,
        conform_ended, &send, "x", 1, pair.target, 1, &send.id);
    HG_CHECK_RET(ret, NA_DISCONNECT);
    HG_CHECK_RET(NA_Addr_lookup_wait(
                     pair.end.na_class, pair.name, CONFORM_TIMEOUT, &again),
        NA_HOSTUNREACH);
    peer_close(&pair);
}
