/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw: rank 1 talks plain MPI to rank 0, which has a class of hg, in the packet
 * format of gen/mpi/wire.c.
 */
#ifndef HG_TESTS_MPI_RAW_H
#define HG_TESTS_MPI_RAW_H

#define _GNU_SOURCE 1
#define HG_NA_PLUGIN_API 1
#include <mpi.h>

#include "conform/conform.h"
#include "mpi/ranks.h"

#define HEADER 40u
#define PACKET 4000u
#define TAG 16384
#define BODY_TAG 24576
#define MIB ((uint32_t) 1 << 20)
#define BODY 5000 /* size of a message that has a body */
#define FRAMES_LANE 1
#define QUEUE (9 * MIB)  /* more than MPI keeps of one peer */
#define GREETING 1000000 /* tag of the first message of a caller */
#define GO 1             /* tags between the ranks, not used by hg */
#define PORT 2
#define PREFIX "mpi+dynamic://"
#define SILENT_MS 1000 /* half of the time until it is closed */

enum { HELLO = 1, WELCOME, MESSAGE, FRAME, PULL, BYE, GONE, RESET };

/* The fields of a header; a field that ends in _xor is XORed into the correct
 * value. */
struct packet {
    uint8_t magic_xor[2];
    uint8_t version_xor;
    uint8_t kind;
    uint8_t plane;
    uint16_t number;
    uint32_t tag;
    uint32_t size;
    uint32_t id;
    uint64_t to_xor;
    uint64_t from_xor;
    bool to_nobody; /* incarnation 0 */
    bool from_nobody;
    unsigned cut; /* missing bytes of the header */
    size_t head;
    const char *text; /* the header begins with it */
};

struct raw {
    MPI_Comm comm; /* communicator with hg */
    bool apart;    /* dynamic mode */
    bool calls;
    uint64_t to;
    uint64_t from;
    char port[MPI_MAX_PORT_NAME]; /* dynamic mode: hg's port, or ours */
    unsigned turns;               /* of our port */
};

/* ---- Rank 1 ---- */

static inline void put(unsigned char *p, uint64_t value, unsigned count)
{
    while (count-- > 0) {
        *p++ = (unsigned char) value;
        value >>= 8;
    }
}

static inline uint64_t get(const unsigned char *p, unsigned count)
{
    uint64_t value = 0;

    while (count-- > 0)
        value = value << 8 | p[count];
    return value;
}

static inline size_t raw_make(const struct raw *raw,
    const struct packet *packet, unsigned char bytes[2 * PACKET])
{
    memset(bytes, 'a', 2 * PACKET);
    memset(bytes, 0, HEADER);
    bytes[0] = 'h' ^ packet->magic_xor[0];
    bytes[1] = 'm' ^ packet->magic_xor[1];
    bytes[2] = 2 ^ packet->version_xor;
    bytes[3] = packet->kind;
    bytes[4] = packet->plane;
    put(bytes + 6, packet->number, 2);
    put(bytes + 8, packet->tag, 4);
    put(bytes + 12, packet->size, 4);
    put(bytes + 16, packet->id, 4);
    put(bytes + 24, packet->to_nobody ? 0 : raw->to ^ packet->to_xor, 8);
    put(bytes + 32, packet->from_nobody ? 0 : raw->from ^ packet->from_xor, 8);
    if (packet->text != NULL)
        memcpy(bytes + HEADER, packet->text, strlen(packet->text));
    return HEADER - packet->cut + packet->head;
}

static inline void raw_send(struct raw *raw, const struct packet *packet)
{
    unsigned char bytes[2 * PACKET];
    size_t size = raw_make(raw, packet, bytes);

    HG_CHECK_EQ_INT(
        MPI_Send(bytes, (int) size, MPI_BYTE, 0, TAG, raw->comm), MPI_SUCCESS);
}

static inline void raw_say(struct raw *raw, uint8_t kind, uint32_t tag)
{
    const struct packet packet = {.kind = kind, .tag = tag};

    raw_send(raw, &packet);
}

/* Receive the next packet; returns its kind. */
static inline uint8_t raw_next(struct raw *raw, int *tag_p)
{
    unsigned char bytes[PACKET];

    HG_CHECK_EQ_INT(
        MPI_Recv(bytes, PACKET, MPI_BYTE, 0, TAG, raw->comm, MPI_STATUS_IGNORE),
        MPI_SUCCESS);
    raw->to = get(bytes + 32, 8);
    *tag_p = (int) get(bytes + 8, 4);
    return bytes[3];
}

/* Receive the next packet of this kind; returns its tag. Others are skipped. */
static inline int raw_await(struct raw *raw, uint8_t kind)
{
    uint8_t got;
    int tag;

    while ((got = raw_next(raw, &tag)) != kind)
        HG_CHECK(got != RESET);
    return tag;
}

static inline void raw_tell(void)
{
    HG_CHECK_EQ_INT(
        MPI_Send(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD), MPI_SUCCESS);
}

/* Wait until rank 0 reports so. */
static inline void raw_wait(void)
{
    HG_CHECK_EQ_INT(
        MPI_Recv(NULL, 0, MPI_BYTE, 0, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
        MPI_SUCCESS);
}

static inline void raw_send_body(struct raw *raw, int tag, size_t size)
{
    void *bytes = malloc(size);

    HG_CHECK(bytes != NULL);
    memset(bytes, 'b', size);
    HG_CHECK_EQ_INT(
        MPI_Send(bytes, (int) size, MPI_BYTE, 0, tag, raw->comm), MPI_SUCCESS);
    free(bytes);
}

/* ---- Rank 0 ---- */

struct attack {
    struct conform_end end;
    bool apart;
    bool called;
    char name[NA_MAX_ADDR_LEN]; /* of rank 1, which rank 0 has not called */
    char byte;
};

static inline void attack_go(void)
{
    HG_CHECK_EQ_INT(
        MPI_Send(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD), MPI_SUCCESS);
}

/* Whether rank 1 has reported. */
static inline bool attack_told(void)
{
    int flag = 0;

    HG_CHECK_EQ_INT(MPI_Iprobe(1, GO, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE),
        MPI_SUCCESS);
    if (flag)
        HG_CHECK_EQ_INT(MPI_Recv(NULL, 0, MPI_BYTE, 1, GO, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE),
            MPI_SUCCESS);
    return flag != 0;
}

/* A receive that ends with the connection. */
static inline void attack_watch(
    struct attack *attack, struct conform_call *call, na_addr_t addr)
{
    memset(call, 0, sizeof(*call));
    HG_CHECK_OK(NA_Msg_recv_expected(attack->end.na_class, attack->end.context,
        conform_ended, call, &attack->byte, 1, addr, 9, NA_OP_ID_IGNORE));
}

static inline na_addr_t attack_receive(struct attack *attack, na_tag_t tag)
{
    static char bytes[BODY];
    struct conform_call call;

    HG_CHECK_OK(
        conform_recv(&attack->end, &call, false, bytes, sizeof(bytes), 0));
    HG_CHECK_OK(conform_wait(&attack->end, &call));
    HG_CHECK_EQ_U64(call.tag, tag);
    return call.addr;
}

static inline void attack_open_class(struct attack *attack)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    if (attack->apart)
        info.lookup_ms = attack->called ? SILENT_MS : CONFORM_TIMEOUT;
    info.max_queue_bytes = QUEUE;
    attack->end.na_class = NA_Initialize_opt(
        attack->apart ? PREFIX : "mpi+static://", NA_TRUE, &info);
    HG_CHECK(attack->end.na_class != NULL);
    attack->end.context = NA_Context_create(attack->end.na_class);
    HG_CHECK(attack->end.context != NULL);
    HG_CHECK_OK(NA_Addr_self(attack->end.na_class, &attack->end.self));
}

#endif
