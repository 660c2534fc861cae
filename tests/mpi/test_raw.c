/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of a peer that is correct, but slow, or not known to hg.
 */
#include "mpi/raw.h"

/* ---- A class that does not listen ---- */

/* Rank 1 connects for frames, and sends a message. */
static void deaf_intrude(void)
{
    const struct packet hello = {.kind = HELLO, .plane = FRAMES_LANE};
    struct raw raw = {.comm = MPI_COMM_WORLD, .from = 1000};

    raw_send(&raw, &hello);
    (void) raw_await(&raw, WELCOME);
    raw_say(&raw, MESSAGE, GREETING);
}

HG_TEST_ROLE(deaf)
{
    struct conform_end end;
    int level, rank;
    unsigned ms = 0;

    (void) argc;
    (void) argv;
    HG_CHECK_EQ_INT(
        MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level), MPI_SUCCESS);
    HG_CHECK_EQ_INT(MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_SUCCESS);
    if (rank == 1) {
        deaf_intrude();
    } else {
        end.na_class = NA_Initialize("mpi+static://", NA_FALSE);
        HG_CHECK(end.na_class != NULL);
        end.context = NA_Context_create(end.na_class);
        HG_CHECK(end.context != NULL);
        HG_CHECK_OK(NA_Addr_self(end.na_class, &end.self));
        while (NA_Get_counter(end.na_class, "msg_dropped") == 0) {
            HG_CHECK(ms++ < CONFORM_TIMEOUT);
            (void) conform_turn(end.na_class, end.context, 1);
        }
        conform_close(&end);
    }
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}

HG_TEST(class_that_does_not_listen_takes_no_messages_of_strangers)
{
    HG_CHECK_EQ_INT(ranks_run(2, "deaf"), 0);
}

/* ---- A body that is not delivered ---- */

/* Put bytes into memory of rank 0. Returns the tag of the body. */
static int kept_put(struct raw *raw, const unsigned char handle[24], uint32_t n)
{
    static const unsigned char head[8] = {0x68, 0x52, 2, 2}; /* PUT */
    const struct packet frame = {
        .kind = FRAME, .tag = 48, .size = BODY, .id = n, .head = 48};
    unsigned char bytes[2 * PACKET];
    size_t size = raw_make(raw, &frame, bytes);

    memset(bytes + HEADER, 0, 48);
    memcpy(bytes + HEADER, head, sizeof(head));
    memcpy(bytes + HEADER + 16, handle + 8, 8); /* the key */
    put(bytes + HEADER + 32, BODY, 8);
    HG_CHECK_EQ_INT(
        MPI_Send(bytes, (int) size, MPI_BYTE, 0, TAG, raw->comm), MPI_SUCCESS);
    return raw_await(raw, PULL);
}

/* Rank 1 puts into two memories of rank 0, which asks for the bodies, and does
 * not poll when they arrive. */
static void kept_send(void)
{
    struct raw raw = {.comm = MPI_COMM_WORLD, .from = 1000};
    unsigned char handles[2][24];
    int tags[2];
    unsigned i;

    HG_CHECK_EQ_INT(MPI_Recv(handles, sizeof(handles), MPI_BYTE, 0, PORT,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE),
        MPI_SUCCESS);
    raw_say(&raw, HELLO, 0);
    (void) raw_await(&raw, WELCOME);
    raw_say(&raw, MESSAGE, GREETING);
    for (i = 0; i < 2; i++)
        tags[i] = kept_put(&raw, handles[i], i + 1);
    raw_tell();
    raw_wait();
    for (i = 0; i < 2; i++)
        raw_send_body(&raw, tags[i], BODY);
    raw_tell();
    raw_wait();
    for (i = 0; i < 2; i++)
        (void) raw_await(&raw, FRAME); /* the answers */
    raw_say(&raw, MESSAGE, GREETING);
    raw_wait();
    raw_say(&raw, RESET, 0);
}

static void kept_serve(void)
{
    static char memory[2][BODY];
    struct attack attack = {.apart = false, .called = true};
    struct conform_call watch, call;
    unsigned char handles[2][24];
    na_mem_handle_t mems[2];
    na_addr_t peer;
    unsigned i;

    attack_open_class(&attack);
    for (i = 0; i < 2; i++) {
        mems[i] =
            conform_memory(&attack.end, memory[i], BODY, NA_MEM_READWRITE);
        HG_CHECK_OK(NA_Mem_register(attack.end.na_class, mems[i]));
        HG_CHECK_OK(NA_Mem_handle_serialize(
            attack.end.na_class, handles[i], sizeof(handles[i]), mems[i]));
    }
    HG_CHECK_EQ_INT(
        MPI_Send(handles, sizeof(handles), MPI_BYTE, 1, PORT, MPI_COMM_WORLD),
        MPI_SUCCESS);
    peer = attack_receive(&attack, GREETING);
    attack_watch(&attack, &watch, peer);
    while (!attack_told())
        (void) conform_turn(attack.end.na_class, attack.end.context, 1);
    attack_go();
    while (!attack_told())
        continue; /* MPI receives the bodies */
    HG_CHECK_OK(NA_Mem_handle_free(attack.end.na_class, mems[0]));
    attack_go();
    HG_CHECK_OK(conform_recv(&attack.end, &call, false, NULL, 0, 0));
    while (call.ends == 0) {
        HG_CHECK_EQ_INT(watch.ends, 0); /* the connection goes on */
        (void) conform_turn(attack.end.na_class, attack.end.context, 1);
    }
    for (i = 0; i < BODY; i++) /* all bodies were copied */
        HG_CHECK_EQ_INT(memory[1][i], 'b');
    HG_CHECK_OK(NA_Mem_handle_free(attack.end.na_class, mems[1]));
    attack_go();
    HG_CHECK_RET(conform_wait(&attack.end, &watch), NA_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(attack.end.na_class, call.addr));
    HG_CHECK_OK(NA_Addr_free(attack.end.na_class, peer));
    conform_close(&attack.end);
}

HG_TEST_ROLE(kept)
{
    int level, rank;

    (void) argc;
    (void) argv;
    HG_CHECK_EQ_INT(
        MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level), MPI_SUCCESS);
    HG_CHECK_EQ_INT(MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_SUCCESS);
    if (rank == 1)
        kept_send();
    else
        kept_serve();
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}

HG_TEST(memory_of_a_body_that_arrived_can_be_withdrawn)
{
    HG_CHECK_EQ_INT(ranks_run(2, "kept"), 0);
}
