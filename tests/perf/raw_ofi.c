/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that uses libfabric alone; see raw_ofi.h for its purpose.
 *
 * For each round the client sends the order to the peer over a socket pair.
 * Both open an endpoint and exchange their addresses and memory keys there. The
 * peer sends every message back until the client writes to the socket again.
 *
 * Messages are untagged, as in the library. A message that fits is sent with
 * fi_inject, a longer one with fi_send; the peer sends it from the memory where
 * it was received, without a copy.
 */
#define _GNU_SOURCE /* for strdup */

#include "raw_ofi.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define RAW_OFI_BATCH 16 /* completions read at once */
/* Rounds after which a spinning loop checks the socket. */
#define RAW_OFI_TURNS 1024
#define RAW_OFI_SLEEP_MS 20   /* time after which a sleeping loop checks it */
#define RAW_OFI_PATIENCE 20.0 /* seconds without a completion */
#define RAW_OFI_NAME_MAX 256
#define RAW_OFI_KEY 1 /* if the application chooses it */

struct raw_ofi {
    const char *protocol;
    const char *host;
    int socket;
    pid_t peer; /* 0: this is the peer */
};

/* Each side sends this to the other before a round; name_size 0: it failed. */
struct raw_ofi_card {
    uint64_t base;
    uint64_t key;
    size_t name_size;
    unsigned char name[RAW_OFI_NAME_MAX];
};

/* A message. At the client the first `window` slots send, the others
 * receive. */
struct raw_ofi_slot {
    unsigned char *bytes;
    uint64_t serial;
    unsigned pending; /* the echo, and the completion of fi_send */
};

/* An endpoint, open for one round. `memory` is registered; the data of
 * transfers comes first in it, then the messages. */
struct raw_ofi_end {
    struct raw_ofi_round round;
    const struct raw_ofi *raw;
    int sleeps;  /* 0: it spins, or yields instead of sleeping */
    double stop; /* the client's time limit; 0: not waiting */
    unsigned turn;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_mr *mr;
    unsigned char *memory;
    size_t message; /* size of one message */
    struct raw_ofi_slot slots[3 * RAW_OFI_WINDOW_MAX];
    fi_addr_t other;
    struct raw_ofi_card card; /* of the other side */
};

/* `rc` is a negative error code, as libfabric returns it. */
static int raw_ofi_fail(const char *what, ssize_t rc)
{
    fprintf(stderr, "raw_ofi: %s: %s\n", what, fi_strerror((int) -rc));
    return -1;
}

static double raw_ofi_now(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

/* Fill memory with 8-byte words that differ; returns 1 if it held them
 * before. */
static int raw_ofi_fill(unsigned char *bytes, size_t size)
{
    int same = 1;
    size_t at;

    for (at = 0; at < size; at += 8) {
        const uint64_t word = (at + 1) * UINT64_C(0x9e3779b97f4a7c15);

        same = same && memcmp(bytes + at, &word, 8) == 0;
        memcpy(bytes + at, &word, 8);
    }
    return same;
}

/* ---- One side ---- */

/* The provider's first offer. "tcp" is the native provider, which has another
 * name in libfabric before 1.18. */
static struct fi_info *raw_ofi_find(const char *protocol, const char *host)
{
    const char *names[] = {protocol, "net", "tcp;ofi_rxm"};
    const size_t count = strcmp(protocol, "tcp") == 0 ? 3 : 1;
    struct fi_info *hints = fi_allocinfo();
    struct fi_info *found = NULL;
    size_t i;

    if (hints == NULL)
        return NULL;
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    for (i = 0; i < count && found == NULL; i++) {
        struct fi_info *list = NULL;
        const struct fi_info *info;

        free(hints->fabric_attr->prov_name);
        hints->fabric_attr->prov_name = strdup(names[i]);
        (void) fi_getinfo(FI_VERSION(1, 9), host[0] != '\0' ? host : NULL, NULL,
            host[0] != '\0' ? FI_SOURCE : 0, hints, &list);
        for (info = list; info != NULL && found == NULL; info = info->next) {
            if (strcmp(info->fabric_attr->prov_name, names[i]) == 0)
                found = fi_dupinfo(info);
        }
        fi_freeinfo(list);
    }
    fi_freeinfo(hints);
    return found;
}

static int raw_ofi_open_ep(struct raw_ofi_end *end)
{
    struct fi_cq_attr cq_attr;
    struct fi_av_attr av_attr;
    int rc;

    memset(&av_attr, 0, sizeof(av_attr));
    memset(&cq_attr, 0, sizeof(cq_attr));
    cq_attr.format = FI_CQ_FORMAT_MSG;
    cq_attr.wait_obj = end->round.sleeps ? FI_WAIT_FD : FI_WAIT_NONE;
    cq_attr.size = 8 * RAW_OFI_WINDOW_MAX;
    rc = fi_fabric(end->info->fabric_attr, &end->fabric, NULL);
    if (rc == 0)
        rc = fi_domain(end->fabric, end->info, &end->domain, NULL);
    if (rc == 0)
        rc = fi_av_open(end->domain, &av_attr, &end->av, NULL);
    if (rc == 0)
        rc = fi_cq_open(end->domain, &cq_attr, &end->cq, NULL);
    end->sleeps = end->round.sleeps && rc == 0;
    if (rc == -FI_ENOSYS && end->round.sleeps) {
        cq_attr.wait_obj = FI_WAIT_NONE;
        rc = fi_cq_open(end->domain, &cq_attr, &end->cq, NULL);
    }
    if (rc == 0)
        rc = fi_endpoint(end->domain, end->info, &end->ep, NULL);
    if (rc == 0)
        rc = fi_ep_bind(end->ep, &end->av->fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0)
        rc = fi_enable(end->ep);
    return rc == 0 ? 0 : raw_ofi_fail("cannot open an endpoint", rc);
}

static int raw_ofi_make_memory(struct raw_ofi_end *end)
{
    const int echo = end->round.kind == RAW_OFI_ECHO;
    const size_t size = echo ? 0 : (end->round.size + 4095) / 4096 * 4096;
    const size_t all = size + 3 * RAW_OFI_WINDOW_MAX * (size_t) 65536;
    void *memory = NULL;
    size_t i;
    int rc = -posix_memalign(&memory, 4096, all);

    end->message = echo ? end->round.size : 64;
    end->memory = (unsigned char *) memory;
    for (i = 0; i < 3 * RAW_OFI_WINDOW_MAX; i++)
        end->slots[i].bytes =
            end->memory + size + i * ((end->message + 63) / 64 * 64);
    if (rc == 0)
        memset(memory, 0, size);
    if (rc == 0)
        rc = fi_mr_reg(end->domain, memory, all,
            FI_SEND | FI_RECV | FI_READ | FI_REMOTE_READ, 0, RAW_OFI_KEY, 0,
            &end->mr, NULL);
    return rc == 0 ? 0 : raw_ofi_fail("cannot register memory", rc);
}

/* Every object of libfabric begins with its struct fid. */
static void raw_ofi_close_fid(void *object)
{
    if (object != NULL)
        (void) fi_close((struct fid *) object);
}

static void raw_ofi_close_end(struct raw_ofi_end *end)
{
    raw_ofi_close_fid(end->ep);
    raw_ofi_close_fid(end->mr);
    raw_ofi_close_fid(end->cq);
    raw_ofi_close_fid(end->av);
    raw_ofi_close_fid(end->domain);
    raw_ofi_close_fid(end->fabric);
    fi_freeinfo(end->info);
    free(end->memory);
}

static int raw_ofi_post(struct raw_ofi_end *end, struct raw_ofi_slot *slot)
{
    const ssize_t rc = fi_recv(end->ep, slot->bytes, end->message,
        fi_mr_desc(end->mr), FI_ADDR_UNSPEC, slot);

    return rc == 0 ? 0 : raw_ofi_fail("fi_recv", rc);
}

static int raw_ofi_write_card(struct raw_ofi_end *end)
{
    struct raw_ofi_card *card = &end->card;
    int rc;

    card->name_size = sizeof(card->name);
    card->key = fi_mr_key(end->mr);
    if ((end->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0)
        card->base = (uint64_t) (uintptr_t) end->memory;
    rc = fi_getname(&end->ep->fid, card->name, &card->name_size);
    return rc == 0 ? 0 : raw_ofi_fail("fi_getname", rc);
}

/* Open this side and exchange cards with the other. */
static int raw_ofi_open_end(const struct raw_ofi *raw,
    const struct raw_ofi_round *round, struct raw_ofi_end *end)
{
    unsigned i;
    int rc;

    memset(end, 0, sizeof(*end));
    end->round = *round;
    end->raw = raw;
    end->info = raw_ofi_find(raw->protocol, raw->host);
    rc = end->info == NULL ? raw_ofi_fail(raw->protocol, -FI_ENODATA)
                           : raw_ofi_open_ep(end);
    if (rc == 0)
        rc = raw_ofi_make_memory(end);
    for (i = raw->peer == 0 ? 0 : round->window;
         rc == 0 && i < 3 * round->window; i++)
        rc = raw_ofi_post(end, &end->slots[i]);
    if (rc == 0)
        (void) raw_ofi_fill(end->memory, raw->peer == 0 ? round->size : 0);
    if (rc == 0)
        rc = raw_ofi_write_card(end);
    if (rc != 0)
        end->card.name_size = 0;
    if (write(end->raw->socket, &end->card, sizeof(end->card)) < 0 ||
        read(end->raw->socket, &end->card, sizeof(end->card)) <= 0)
        rc = raw_ofi_fail("no other process", -EPIPE);
    if (rc == 0 &&
        (end->card.name_size == 0 ||
            fi_av_insert(end->av, end->card.name, 1, &end->other, 0, NULL) !=
                1))
        rc = raw_ofi_fail("the other process has no endpoint", -EPIPE);
    if (rc != 0)
        raw_ofi_close_end(end);
    return rc;
}

/* ---- Messages ---- */

/* Whether to stop waiting: the other process has written to the socket or has
 * exited, or the time is over. */
static int raw_ofi_is_over(struct raw_ofi_end *end)
{
    struct pollfd fd = {end->raw->socket, POLLIN, 0};
    double now;

    if (!end->sleeps && ++end->turn % RAW_OFI_TURNS != 0)
        return 0;
    now = raw_ofi_now();
    if (end->stop <= 0)
        end->stop = now + RAW_OFI_PATIENCE + end->round.seconds;
    return poll(&fd, 1, 0) > 0 || now > end->stop;
}

/* Wait for completions; 0, at the peer: the round is over. */
static ssize_t raw_ofi_wait(
    struct raw_ofi_end *end, struct fi_cq_msg_entry *entries)
{
    struct fi_cq_err_entry err;
    ssize_t n;

    end->stop = 0;
    do {
        if (end->sleeps)
            n = fi_cq_sread(
                end->cq, entries, RAW_OFI_BATCH, NULL, RAW_OFI_SLEEP_MS);
        else
            n = fi_cq_read(end->cq, entries, RAW_OFI_BATCH);
        if (n > 0)
            return n;
        if (n == -FI_EAVAIL) {
            memset(&err, 0, sizeof(err));
            (void) fi_cq_readerr(end->cq, &err, 0);
            return raw_ofi_fail("a completion", -err.err);
        }
        if (end->round.sleeps && !end->sleeps)
            (void) sched_yield();
    } while (!raw_ofi_is_over(end));
    return end->raw->peer == 0
        ? 0
        : raw_ofi_fail("the peer is gone or silent", -ETIMEDOUT);
}

/* Whether to try again, after progress. */
static int raw_ofi_is_again(struct raw_ofi_end *end, ssize_t rc)
{
    if (rc == -FI_EAGAIN)
        (void) fi_cq_read(end->cq, NULL, 0);
    return rc == -FI_EAGAIN && !raw_ofi_is_over(end);
}

/* Send a message; *pending_p: the number of completions that follow. */
static int raw_ofi_send(
    struct raw_ofi_end *end, struct raw_ofi_slot *slot, unsigned *pending_p)
{
    const int fits = end->message <= end->info->tx_attr->inject_size;
    ssize_t rc;

    do {
        rc = fits ? fi_inject(end->ep, slot->bytes, end->message, end->other)
                  : fi_send(end->ep, slot->bytes, end->message,
                        fi_mr_desc(end->mr), end->other, slot);
    } while (raw_ofi_is_again(end, rc));
    *pending_p = fits ? 0 : 1;
    return rc == 0 ? 0 : raw_ofi_fail("a send", rc);
}

static int raw_ofi_start_echo(
    struct raw_ofi_end *end, struct raw_ofi_slot *slot, uint64_t serial)
{
    slot->serial = serial;
    memcpy(slot->bytes, &serial, sizeof(serial));
    if (raw_ofi_send(end, slot, &slot->pending) != 0)
        return -1;
    slot->pending++;
    return 0;
}

/* A message arrived: returns the slot that sent it, NULL after an error. */
static struct raw_ofi_slot *raw_ofi_end_echo(struct raw_ofi_end *end,
    unsigned window, struct raw_ofi_slot *got, size_t size)
{
    struct raw_ofi_slot *sent;
    uint64_t serial;

    memcpy(&serial, got->bytes, sizeof(serial));
    sent = &end->slots[serial % window];
    if (size != end->message || sent->pending == 0 ||
        memcmp(got->bytes, sent->bytes, size) != 0) {
        (void) raw_ofi_fail("an echo came back changed", -EBADMSG);
        return NULL;
    }
    return raw_ofi_post(end, got) == 0 ? sent : NULL;
}

/* Echoes, `window` in flight; each slot sends one after the other. */
static int raw_ofi_echo(
    struct raw_ofi_end *end, unsigned window, double seconds, double *per_op_p)
{
    struct fi_cq_msg_entry entries[RAW_OFI_BATCH];
    const double begin = raw_ofi_now();
    double now = begin;
    uint64_t count = 0;
    unsigned flying;
    ssize_t n;
    ssize_t i;

    for (flying = 0; flying < window; flying++) {
        (void) raw_ofi_fill(end->slots[flying].bytes, end->message);
        if (raw_ofi_start_echo(end, &end->slots[flying], flying) != 0)
            return -1;
    }
    while (flying > 0) {
        n = raw_ofi_wait(end, entries);
        if (n < 0)
            return -1;
        for (i = 0; i < n; i++) {
            struct raw_ofi_slot *slot =
                (struct raw_ofi_slot *) entries[i].op_context;

            if ((entries[i].flags & FI_RECV) != 0)
                slot = raw_ofi_end_echo(end, window, slot, entries[i].len);
            if (slot == NULL)
                return -1;
            if (--slot->pending > 0)
                continue;
            count++;
            flying--;
            if (now - begin >= seconds)
                continue;
            if (raw_ofi_start_echo(end, slot, slot->serial + window) != 0)
                return -1;
            flying++;
        }
        if (window == 1 || count % 16 < (uint64_t) n)
            now = raw_ofi_now();
    }
    *per_op_p = (raw_ofi_now() - begin) / (double) count;
    return 0;
}

/* The peer sends every message back. */
static int raw_ofi_serve(struct raw_ofi_end *end)
{
    struct fi_cq_msg_entry entries[RAW_OFI_BATCH];
    ssize_t n;
    ssize_t i;

    while ((n = raw_ofi_wait(end, entries)) > 0) {
        for (i = 0; i < n; i++) {
            struct raw_ofi_slot *slot =
                (struct raw_ofi_slot *) entries[i].op_context;
            unsigned pending = 0;

            if ((entries[i].flags & FI_RECV) != 0 &&
                raw_ofi_send(end, slot, &pending) != 0)
                return -1;
            if (pending == 0 && raw_ofi_post(end, slot) != 0)
                return -1;
        }
    }
    return (int) n;
}

/* ---- Transfers ---- */

/* Pull the peer's data once, with `window` pieces in flight. */
static int raw_ofi_pull_once(struct raw_ofi_end *end)
{
    const struct raw_ofi_round *round = &end->round;
    struct fi_cq_msg_entry entries[RAW_OFI_BATCH];
    ssize_t flying = 0;
    size_t at = 0;
    ssize_t n;

    while (at < round->size || flying > 0) {
        while (at < round->size && flying < (ssize_t) round->window) {
            const size_t left = round->size - at;
            const size_t size = left < round->piece ? left : round->piece;

            do {
                n = fi_read(end->ep, end->memory + at, size,
                    fi_mr_desc(end->mr), end->other, end->card.base + at,
                    end->card.key, NULL);
            } while (raw_ofi_is_again(end, n));
            if (n != 0)
                return raw_ofi_fail("fi_read", n);
            flying++;
            at += size;
        }
        n = raw_ofi_wait(end, entries);
        if (n < 0)
            return -1;
        flying -= n;
    }
    return 0;
}

static int raw_ofi_pull(struct raw_ofi_end *end, double *per_op_p)
{
    const double begin = raw_ofi_now();
    double now = begin;
    uint64_t count = 0;

    while (count == 0 || now - begin < end->round.seconds) {
        if (raw_ofi_pull_once(end) != 0)
            return -1;
        count++;
        now = raw_ofi_now();
    }
    *per_op_p = (now - begin) / (double) count;
    return raw_ofi_fill(end->memory, end->round.size)
        ? 0
        : raw_ofi_fail("the data arrived changed", -EBADMSG);
}

/* ---- Both processes ---- */

/* Run the rounds that the client orders. */
static void raw_ofi_be_peer(const struct raw_ofi *raw)
{
    struct raw_ofi_round round;
    struct raw_ofi_end end;
    char byte;

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(raw->socket, &round, sizeof(round)) == sizeof(round)) {
        if (raw_ofi_open_end(raw, &round, &end) != 0)
            continue;
        if (raw_ofi_serve(&end) != 0 || read(raw->socket, &byte, 1) != 1)
            return;
        raw_ofi_close_end(&end);
        if (write(raw->socket, &byte, 1) != 1)
            return;
    }
}

int raw_ofi_run(
    struct raw_ofi *raw, const struct raw_ofi_round *round, double *per_op_p)
{
    struct raw_ofi_end end;
    double per_op;
    char byte = 0;
    int rc;

    if (round->size < 8 || round->size % 8 != 0 || round->window == 0 ||
        round->window > RAW_OFI_WINDOW_MAX || round->piece == 0 ||
        (round->kind == RAW_OFI_ECHO && round->size > 65536))
        return raw_ofi_fail("a round", -EINVAL);
    if (write(raw->socket, round, sizeof(*round)) < 0)
        return raw_ofi_fail("the peer", -errno);
    if (raw_ofi_open_end(raw, round, &end) != 0)
        return -1;
    /* The first echo connects, and is not counted. */
    rc = raw_ofi_echo(&end, 1, 0, &per_op);
    if (rc == 0)
        rc = round->kind == RAW_OFI_ECHO
            ? raw_ofi_echo(&end, round->window, round->seconds, &per_op)
            : raw_ofi_pull(&end, &per_op);
    if (rc == 0 &&
        (write(raw->socket, &byte, 1) != 1 || read(raw->socket, &byte, 1) != 1))
        rc = raw_ofi_fail("the peer", -EPIPE);
    raw_ofi_close_end(&end);
    if (rc == 0)
        *per_op_p = per_op;
    return rc;
}

int raw_ofi_open(const char *protocol, const char *host, struct raw_ofi **raw_p)
{
    struct raw_ofi *raw = (struct raw_ofi *) calloc(1, sizeof(*raw));
    int sockets[2];

    if (raw == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0) {
        free(raw);
        return raw_ofi_fail("cannot start", -errno);
    }
    raw->protocol = protocol;
    raw->host = host;
    raw->peer = fork();
    raw->socket = sockets[raw->peer == 0];
    (void) close(sockets[raw->peer != 0]);
    if (raw->peer == 0) {
        raw_ofi_be_peer(raw);
        _exit(0);
    }
    *raw_p = raw;
    if (raw->peer > 0)
        return 0;
    raw_ofi_close(raw);
    return raw_ofi_fail("fork", -errno);
}

void raw_ofi_close(struct raw_ofi *raw)
{
    if (raw == NULL)
        return;
    (void) close(raw->socket);
    if (raw->peer > 0) {
        (void) kill(raw->peer, SIGKILL);
        (void) waitpid(raw->peer, NULL, 0);
    }
    free(raw);
}
