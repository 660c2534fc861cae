/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_raw_peer: a bare libfabric endpoint for the tests of the libfabric
 * transport. It sends any bytes to a class and receives what the class sends.
 * The messages are built here from the wire format in gen/ofi/wire.c, without
 * the library.
 */
#ifndef HG_TESTS_OFI_RAW_PEER_H
#define HG_TESTS_OFI_RAW_PEER_H

#include "attacked.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

enum { /* kinds of message */
    KIND_HELLO = 1,
    KIND_WELCOME,
    KIND_MESSAGE,
    KIND_BYE,
    KIND_LINK, /* to an endpoint for puts and gets */
    KIND_GRANT,
    KIND_END
};

enum {
    HEADER = 24,
    INTRO = 24,                      /* size, in HELLO and WELCOME */
    RAW = sizeof(struct sockaddr_in) /* an endpoint's address */
};

#define RAW_PEER_ROOM ((size_t) 8 << 10)  /* the largest message we receive */
#define RAW_PEER_LARGE ((size_t) 1 << 20) /* the largest message we send */

struct raw_peer {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fi_context2 receiving;
    struct fi_context2 sending;
    fi_addr_t at;           /* address of the class */
    unsigned char raw[RAW]; /* our address */
    uint64_t incarnation;   /* incarnation we claim */
    uint64_t ours;          /* token that the class must send us */
    uint64_t token;         /* token that the class gave us; 0: none yet */
    uint64_t random;
    unsigned sends; /* sends that completed */
    size_t got;     /* size of the message that arrived; 0: none */
    unsigned char arrived[RAW_PEER_ROOM];
    unsigned char *leaving;  /* RAW_PEER_LARGE */
    void (*turn)(void *arg); /* lets the class make progress */
    void *arg;
};

static inline uint64_t raw_peer_random(struct raw_peer *stranger)
{
    return hg_test_random(&stranger->random);
}

static inline void raw_peer_noise(
    struct raw_peer *stranger, unsigned char *bytes, size_t size)
{
    size_t i;

    for (i = 0; i < size; i++)
        bytes[i] = (unsigned char) raw_peer_random(stranger);
}

/* ---- The endpoint ---- */

/* The native RDM provider: "net", and "tcp" since 1.18. */
static inline struct fi_info *raw_peer_info(void)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_info *list = NULL;
    struct fi_info *found;
    struct fi_info *info;

    HG_CHECK(hints != NULL);
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    HG_CHECK(fi_getinfo(FI_VERSION(1, 9), "127.0.0.1", NULL, FI_SOURCE, hints,
                 &list) == 0);
    fi_freeinfo(hints);
    for (found = list; found != NULL; found = found->next)
        if (strcmp(found->fabric_attr->prov_name, "net") == 0 ||
            strcmp(found->fabric_attr->prov_name, "tcp") == 0)
            break;
    HG_CHECK(found != NULL);
    info = fi_dupinfo(found);
    fi_freeinfo(list);
    return info;
}

static inline void raw_peer_receive(struct raw_peer *stranger)
{
    HG_CHECK(fi_recv(stranger->ep, stranger->arrived, RAW_PEER_ROOM, NULL,
                 FI_ADDR_UNSPEC, &stranger->receiving) == 0);
}

static inline void raw_peer_init(
    struct raw_peer *stranger, void (*turn)(void *arg), void *arg)
{
    struct fi_cq_attr cq;
    struct fi_av_attr av;
    size_t size = RAW;

    memset(stranger, 0, sizeof(*stranger));
    memset(&cq, 0, sizeof(cq));
    memset(&av, 0, sizeof(av));
    cq.format = FI_CQ_FORMAT_DATA;
    stranger->random = hg_test_seed();
    stranger->incarnation = raw_peer_random(stranger);
    stranger->ours = raw_peer_random(stranger);
    stranger->turn = turn;
    stranger->arg = arg;
    stranger->leaving = (unsigned char *) malloc(RAW_PEER_LARGE);
    HG_CHECK(stranger->leaving != NULL);
    stranger->info = raw_peer_info();
    HG_CHECK(!fi_fabric(stranger->info->fabric_attr, &stranger->fabric, NULL) &&
        !fi_domain(stranger->fabric, stranger->info, &stranger->domain, NULL) &&
        !fi_av_open(stranger->domain, &av, &stranger->av, NULL) &&
        !fi_cq_open(stranger->domain, &cq, &stranger->cq, NULL) &&
        !fi_endpoint(stranger->domain, stranger->info, &stranger->ep, NULL) &&
        !fi_ep_bind(stranger->ep, &stranger->av->fid, 0) &&
        !fi_ep_bind(stranger->ep, &stranger->cq->fid, FI_TRANSMIT | FI_RECV) &&
        !fi_enable(stranger->ep) &&
        !fi_getname(&stranger->ep->fid, stranger->raw, &size));
    HG_CHECK_EQ_U64(size, RAW);
    raw_peer_receive(stranger);
}

/* An address on this host. */
static inline void raw_peer_raw(unsigned char raw[RAW], unsigned port)
{
    struct sockaddr_in in;

    memset(&in, 0, sizeof(in));
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = htons((uint16_t) port);
    memcpy(raw, &in, RAW);
}

/* The address of the class with that name. */
static inline void raw_peer_raw_of(unsigned char raw[RAW], const char *name)
{
    const char *host = strstr(name, "://") + 3;
    const char *port = strrchr(name, ':');
    struct sockaddr_in in;
    char text[64];

    (void) snprintf(text, sizeof(text), "%.*s", (int) (port - host), host);
    memset(&in, 0, sizeof(in));
    in.sin_family = AF_INET;
    in.sin_port = htons((uint16_t) strtoul(port + 1, NULL, 10));
    HG_CHECK(inet_pton(AF_INET, text, &in.sin_addr) == 1);
    memcpy(raw, &in, RAW);
}

/* The name by which a class knows us. */
static inline void raw_peer_name(
    const struct raw_peer *stranger, char name[NA_MAX_ADDR_LEN])
{
    struct sockaddr_in in;

    memcpy(&in, stranger->raw, RAW);
    (void) snprintf(name, NA_MAX_ADDR_LEN, "ofi+tcp://127.0.0.1:%u",
        (unsigned) ntohs(in.sin_port));
}

static inline fi_addr_t raw_peer_enter(
    struct raw_peer *stranger, const unsigned char raw[RAW])
{
    fi_addr_t at = FI_ADDR_UNSPEC;

    HG_CHECK(fi_av_insert(stranger->av, raw, 1, &at, 0, NULL) == 1);
    return at;
}

/* Send to the class with that name from now on. */
static inline void raw_peer_dial(struct raw_peer *stranger, const char *name)
{
    unsigned char raw[RAW];

    raw_peer_raw_of(raw, name);
    stranger->at = raw_peer_enter(stranger, raw);
}

static inline void raw_peer_fini(struct raw_peer *stranger)
{
    HG_CHECK(!fi_close(&stranger->ep->fid) && !fi_close(&stranger->cq->fid) &&
        !fi_close(&stranger->av->fid) && !fi_close(&stranger->domain->fid) &&
        !fi_close(&stranger->fabric->fid));
    fi_freeinfo(stranger->info);
    free(stranger->leaving);
    memset(stranger, 0, sizeof(*stranger));
}

/* Take completions, and let the class make progress. */
static inline void raw_peer_turn(struct raw_peer *stranger)
{
    struct fi_cq_data_entry entry;
    struct fi_cq_err_entry error;
    ssize_t n = fi_cq_read(stranger->cq, &entry, 1);

    if (n == -FI_EAVAIL) {
        memset(&error, 0, sizeof(error));
        HG_CHECK(fi_cq_readerr(stranger->cq, &error, 0) == 1);
        if (error.op_context == &stranger->receiving)
            raw_peer_receive(stranger);
        else
            stranger->sends++;
    } else if (n == 1 && entry.op_context == &stranger->receiving) {
        stranger->got = entry.len;
    } else if (n == 1) {
        stranger->sends++;
    }
    stranger->turn(stranger->arg);
}

static inline void raw_peer_send(
    struct raw_peer *stranger, const void *bytes, size_t size)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    unsigned before = stranger->sends;
    ssize_t rc;

    HG_CHECK(size <= RAW_PEER_LARGE);
    memcpy(stranger->leaving, bytes, size);
    while ((rc = fi_send(stranger->ep, stranger->leaving, size, NULL,
                stranger->at, &stranger->sending)) == -FI_EAGAIN) {
        HG_CHECK(endpoint_ms() < end);
        raw_peer_turn(stranger);
    }
    HG_CHECK_EQ_INT(rc, 0);
    while (stranger->sends == before) {
        HG_CHECK(endpoint_ms() < end);
        raw_peer_turn(stranger);
    }
}

/* Wait for the next message; returns its size. */
static inline size_t raw_peer_hear(
    struct raw_peer *stranger, unsigned char bytes[RAW_PEER_ROOM])
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    size_t got;

    while (stranger->got == 0) {
        HG_CHECK(endpoint_ms() < end);
        raw_peer_turn(stranger);
    }
    got = stranger->got;
    memcpy(bytes, stranger->arrived, got);
    stranger->got = 0;
    raw_peer_receive(stranger);
    return got;
}

/* Wait for the next message of a kind. Others are dropped. */
static inline size_t raw_peer_receive_kind(struct raw_peer *stranger,
    unsigned kind, unsigned char bytes[RAW_PEER_ROOM])
{
    size_t size;

    do
        size = raw_peer_hear(stranger, bytes);
    while (size < HEADER || bytes[3] != kind);
    return size;
}

/* Drop the messages received until now. */
static inline void raw_peer_ignore(struct raw_peer *stranger)
{
    unsigned char bytes[RAW_PEER_ROOM];

    raw_peer_turn(stranger);
    while (stranger->got > 0) {
        (void) raw_peer_hear(stranger, bytes);
        raw_peer_turn(stranger);
    }
}

/* ---- Messages ---- */

static inline void raw_peer_put(
    unsigned char *bytes, unsigned size, uint64_t value)
{
    unsigned i;

    for (i = 0; i < size; i++)
        bytes[i] = (unsigned char) (value >> 8 * i);
}

static inline uint64_t raw_peer_get(const unsigned char *bytes, unsigned size)
{
    uint64_t value = 0;

    while (size-- > 0)
        value = value << 8 | bytes[size];
    return value;
}

static inline size_t raw_peer_header(
    unsigned char *bytes, unsigned kind, uint64_t token)
{
    memset(bytes, 0, HEADER);
    bytes[0] = 'h';
    bytes[1] = 'f';
    bytes[2] = 2;
    bytes[3] = (unsigned char) kind;
    raw_peer_put(bytes + 8, 8, token);
    return HEADER;
}

/* A HELLO or WELCOME that names one endpoint. */
static inline size_t raw_peer_introduce(const struct raw_peer *stranger,
    unsigned char *bytes, unsigned kind, const unsigned char raw[RAW])
{
    unsigned char *intro =
        bytes + raw_peer_header(bytes, kind, stranger->token);

    raw_peer_put(intro, 8, stranger->incarnation);
    raw_peer_put(intro + 8, 8, stranger->ours);
    raw_peer_put(intro + 16, 4, 2000); /* death_ms, announced */
    raw_peer_put(intro + 20, 2, RAW);
    raw_peer_put(intro + 22, 2, 1);
    intro[INTRO] = 0;
    memcpy(intro + INTRO + 1, raw, RAW);
    return HEADER + INTRO + 1 + RAW;
}

/* A correct message of a kind, as far as we can make one; at most 128 bytes. */
static inline size_t raw_peer_make(
    struct raw_peer *stranger, unsigned char *bytes, unsigned kind)
{
    size_t size;

    if (kind == KIND_HELLO || kind == KIND_WELCOME)
        return raw_peer_introduce(stranger, bytes, kind, stranger->raw);
    size = raw_peer_header(bytes, kind, stranger->token);
    if (kind == KIND_MESSAGE) {
        size_t extra = raw_peer_random(stranger) % 64;

        bytes[4] = (unsigned char) (raw_peer_random(stranger) % 3);
        raw_peer_noise(stranger, bytes + size, extra);
        size += extra;
    }
    return size;
}

static inline void raw_peer_say(struct raw_peer *stranger, unsigned kind)
{
    unsigned char bytes[128];

    raw_peer_send(stranger, bytes, raw_peer_make(stranger, bytes, kind));
}

/* An empty unexpected message. */
static inline void raw_peer_word(struct raw_peer *stranger)
{
    unsigned char bytes[HEADER];

    raw_peer_send(
        stranger, bytes, raw_peer_header(bytes, KIND_MESSAGE, stranger->token));
}

/* Send HELLO, and learn the token from the WELCOME. */
static inline void raw_peer_greet(struct raw_peer *stranger)
{
    unsigned char bytes[RAW_PEER_ROOM];

    raw_peer_say(stranger, KIND_HELLO);
    HG_CHECK(raw_peer_receive_kind(stranger, KIND_WELCOME, bytes) >=
        HEADER + INTRO + 1 + RAW);
    HG_CHECK_EQ_U64(raw_peer_get(bytes + 8, 8), stranger->ours);
    stranger->token = raw_peer_get(bytes + HEADER + 8, 8);
    HG_CHECK(stranger->token != 0);
}

/* Forget the token, and become another process. */
static inline void raw_peer_start_anew(struct raw_peer *stranger)
{
    stranger->token = 0;
    stranger->incarnation = raw_peer_random(stranger);
    stranger->ours = raw_peer_random(stranger);
}

/* ---- What is refused ---- */

static inline uint64_t raw_peer_refused(const struct attacked *server)
{
    return NA_Get_counter(server->end.na_class, "ofi_malformed");
}

/* Send a message: exactly this one is refused, and once. */
static inline void raw_peer_send_refused(struct raw_peer *stranger,
    const struct attacked *server, const void *bytes, size_t size,
    const char *what)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    uint64_t before = raw_peer_refused(server);

    raw_peer_send(stranger, bytes, size);
    while (raw_peer_refused(server) == before) {
        if (endpoint_ms() > end)
            hg_test_fail(HG_TEST_HERE, "%s is not refused", what);
        raw_peer_turn(stranger);
    }
    if (raw_peer_refused(server) != before + 1)
        hg_test_fail(HG_TEST_HERE, "%s is refused more than once", what);
}

#endif
