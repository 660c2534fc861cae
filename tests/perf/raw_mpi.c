/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that uses MPI alone; see raw_mpi.h for its purpose.
 *
 * Receives and sends of a pair of ranks keep their order, so echoes in flight
 * are waited for one after the other, in a ring of slots. The client ends an
 * echo round with a message with the serial RAW_MPI_LAST, and begins each
 * transfer with a word that announces it.
 */
#define _POSIX_C_SOURCE 200809L

#include "raw_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

#define RAW_MPI_LAST UINT64_MAX
#define RAW_MPI_SLOTS (2 * RAW_MPI_WINDOW_MAX)

enum raw_mpi_tag { RAW_MPI_TAG_ROUND, RAW_MPI_TAG_DATA };

struct raw_mpi {
    MPI_Comm comm;
    int other; /* rank of the round */
    struct raw_mpi_round round;
    MPI_Request announced;
    /* One for each slot. A slot is used to send, or to receive. */
    MPI_Request recvs[RAW_MPI_SLOTS];
    MPI_Request sends[RAW_MPI_SLOTS];
    unsigned char *slots[RAW_MPI_SLOTS];
    unsigned char *data; /* used by transfers */
    size_t data_size;
};

static int raw_mpi_fail(const char *what)
{
    fprintf(stderr, "raw_mpi: %s\n", what);
    return -1;
}

static double raw_mpi_now(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/* Fill with 8-byte words, each a hash of its place; returns whether they were
 * so already. */
static int raw_mpi_fill(unsigned char *bytes, size_t size)
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

/* ---- Messages: an error of MPI ends the job ---- */

static void raw_mpi_send(struct raw_mpi *raw, const void *bytes, size_t size)
{
    (void) MPI_Send(
        bytes, (int) size, MPI_BYTE, raw->other, RAW_MPI_TAG_DATA, raw->comm);
}

static void raw_mpi_recv(struct raw_mpi *raw, void *bytes, size_t size)
{
    (void) MPI_Recv(bytes, (int) size, MPI_BYTE, raw->other, RAW_MPI_TAG_DATA,
        raw->comm, MPI_STATUS_IGNORE);
}

static void raw_mpi_post(struct raw_mpi *raw, unsigned slot)
{
    (void) MPI_Irecv(raw->slots[slot], (int) raw->round.size, MPI_BYTE,
        raw->other, RAW_MPI_TAG_DATA, raw->comm, &raw->recvs[slot]);
}

static void raw_mpi_start(struct raw_mpi *raw, unsigned slot)
{
    (void) MPI_Isend(raw->slots[slot], (int) raw->round.size, MPI_BYTE,
        raw->other, RAW_MPI_TAG_DATA, raw->comm, &raw->sends[slot]);
}

static void raw_mpi_wait(MPI_Request *request)
{
    (void) MPI_Wait(request, MPI_STATUS_IGNORE);
}

static uint64_t raw_mpi_serial(const unsigned char *bytes)
{
    uint64_t serial;

    memcpy(&serial, bytes, sizeof(serial));
    return serial;
}

/* ---- Memory ---- */

static int raw_mpi_make_slots(struct raw_mpi *raw)
{
    unsigned i;

    for (i = 0; i < RAW_MPI_SLOTS; i++) {
        raw->recvs[i] = MPI_REQUEST_NULL;
        raw->sends[i] = MPI_REQUEST_NULL;
        raw->slots[i] = (unsigned char *) calloc(1, RAW_MPI_ECHO_MAX);
        if (raw->slots[i] == NULL)
            return raw_mpi_fail("no memory");
        (void) raw_mpi_fill(raw->slots[i], RAW_MPI_ECHO_MAX);
    }
    return 0;
}

/* Memory for the round's transfer, with all pages touched. */
static int raw_mpi_make_data(struct raw_mpi *raw)
{
    const size_t size = (size_t) raw->round.size;

    if (raw->data_size >= size)
        return 0;
    free(raw->data);
    raw->data_size = 0;
    raw->data = (unsigned char *) malloc(size);
    if (raw->data == NULL)
        return raw_mpi_fail("no memory");
    memset(raw->data, 0, size);
    raw->data_size = size;
    return 0;
}

/* ---- Echoes ---- */

/* One at a time. */
static int raw_mpi_echo_blocking(struct raw_mpi *raw, uint64_t *count_p)
{
    const size_t size = (size_t) raw->round.size;
    const double begin = raw_mpi_now();
    uint64_t count = 0;

    do {
        memcpy(raw->slots[0], &count, sizeof(count));
        raw_mpi_send(raw, raw->slots[0], size);
        raw_mpi_recv(raw, raw->slots[1], size);
        if (memcmp(raw->slots[0], raw->slots[1], size) != 0)
            return raw_mpi_fail("an echo came back changed");
        count++;
    } while (raw_mpi_now() - begin < raw->round.seconds);
    *count_p = count;
    return 0;
}

/* `window` in flight: slots below it send, those after it receive. */
static int raw_mpi_echo_started(struct raw_mpi *raw, uint64_t *count_p)
{
    const unsigned window = (unsigned) raw->round.window;
    const size_t size = (size_t) raw->round.size;
    const double begin = raw_mpi_now();
    double now = begin;
    uint64_t sent;
    uint64_t taken = 0;

    for (sent = 0; sent < window; sent++) {
        raw_mpi_post(raw, window + (unsigned) sent);
        memcpy(raw->slots[sent], &sent, sizeof(sent));
        raw_mpi_start(raw, (unsigned) sent);
    }
    while (taken < sent) {
        const unsigned slot = (unsigned) (taken % window);

        raw_mpi_wait(&raw->recvs[window + slot]);
        if (memcmp(raw->slots[slot], raw->slots[window + slot], size) != 0)
            return raw_mpi_fail("an echo came back changed");
        raw_mpi_wait(&raw->sends[slot]);
        taken++;
        if (window == 1 || taken % 16 == 0)
            now = raw_mpi_now();
        if (now - begin >= raw->round.seconds)
            continue;
        raw_mpi_post(raw, window + slot);
        memcpy(raw->slots[slot], &sent, sizeof(sent));
        raw_mpi_start(raw, slot);
        sent++;
    }
    *count_p = taken;
    return 0;
}

static int raw_mpi_echo(struct raw_mpi *raw, double *per_op_p)
{
    const uint64_t last = RAW_MPI_LAST;
    const double begin = raw_mpi_now();
    uint64_t count = 0;
    int rc = raw->round.way == RAW_MPI_BLOCKS
        ? raw_mpi_echo_blocking(raw, &count)
        : raw_mpi_echo_started(raw, &count);

    *per_op_p = (raw_mpi_now() - begin) / (double) count;
    memcpy(raw->slots[0], &last, sizeof(last));
    raw_mpi_send(raw, raw->slots[0], (size_t) raw->round.size);
    return rc;
}

static void raw_mpi_serve_blocking(struct raw_mpi *raw)
{
    const size_t size = (size_t) raw->round.size;

    for (;;) {
        raw_mpi_recv(raw, raw->slots[0], size);
        if (raw_mpi_serial(raw->slots[0]) == RAW_MPI_LAST)
            return;
        raw_mpi_send(raw, raw->slots[0], size);
    }
}

/* Each message is sent back from the slot that received it. Half of the slots
 * are posted. */
static void raw_mpi_serve_started(struct raw_mpi *raw)
{
    const unsigned window = (unsigned) raw->round.window;
    unsigned slot;
    unsigned other;

    for (slot = 0; slot < window; slot++)
        raw_mpi_post(raw, slot);
    for (slot = 0;; slot = (slot + 1) % (2 * window)) {
        raw_mpi_wait(&raw->recvs[slot]);
        if (raw_mpi_serial(raw->slots[slot]) == RAW_MPI_LAST)
            break;
        raw_mpi_start(raw, slot);
        other = (slot + window) % (2 * window);
        raw_mpi_wait(&raw->sends[other]);
        raw_mpi_post(raw, other);
    }
    for (slot = 0; slot < 2 * window; slot++) {
        if (raw->recvs[slot] != MPI_REQUEST_NULL)
            (void) MPI_Cancel(&raw->recvs[slot]);
        raw_mpi_wait(&raw->recvs[slot]);
        raw_mpi_wait(&raw->sends[slot]);
    }
}

/* ---- Transfers ---- */

/* All pieces, in order or at once. */
static void raw_mpi_move(struct raw_mpi *raw, int sends)
{
    const size_t size = (size_t) raw->round.size;
    static MPI_Request requests[RAW_MPI_STREAM_MAX / RAW_MPI_PIECE];
    size_t at;
    int count = 0;

    for (at = 0; at < size; at += RAW_MPI_PIECE) {
        const size_t left = size - at;
        const size_t piece = left < RAW_MPI_PIECE ? left : RAW_MPI_PIECE;

        if (raw->round.way == RAW_MPI_BLOCKS && sends)
            raw_mpi_send(raw, raw->data + at, piece);
        else if (raw->round.way == RAW_MPI_BLOCKS)
            raw_mpi_recv(raw, raw->data + at, piece);
        else if (sends)
            (void) MPI_Isend(raw->data + at, (int) piece, MPI_BYTE, raw->other,
                RAW_MPI_TAG_DATA, raw->comm, &requests[count++]);
        else
            (void) MPI_Irecv(raw->data + at, (int) piece, MPI_BYTE, raw->other,
                RAW_MPI_TAG_DATA, raw->comm, &requests[count++]);
    }
    while (count > 0)
        raw_mpi_wait(&requests[--count]);
}

static int raw_mpi_stream(struct raw_mpi *raw, double *per_op_p)
{
    const double begin = raw_mpi_now();
    double now = begin;
    uint64_t count = 0;
    uint64_t comes = 1;
    uint64_t good;

    (void) raw_mpi_fill(raw->data, (size_t) raw->round.size);
    while (count == 0 || now - begin < raw->round.seconds) {
        raw_mpi_send(raw, &comes, sizeof(comes));
        raw_mpi_move(raw, 1);
        raw_mpi_recv(raw, &good, sizeof(good));
        count++;
        now = raw_mpi_now();
    }
    *per_op_p = (now - begin) / (double) count;
    comes = 0;
    raw_mpi_send(raw, &comes, sizeof(comes));
    raw_mpi_recv(raw, &good, sizeof(good));
    return good ? 0 : raw_mpi_fail("the data arrived changed");
}

static void raw_mpi_serve_stream(struct raw_mpi *raw)
{
    uint64_t comes;
    uint64_t good = 1;

    memset(raw->data, 0, (size_t) raw->round.size);
    for (;;) {
        raw_mpi_recv(raw, &comes, sizeof(comes));
        if (!comes)
            break;
        raw_mpi_move(raw, 0);
        raw_mpi_send(raw, &good, sizeof(good));
    }
    good = (uint64_t) raw_mpi_fill(raw->data, (size_t) raw->round.size);
    raw_mpi_send(raw, &good, sizeof(good));
}

/* ---- Rounds ---- */

int raw_mpi_announce(
    struct raw_mpi *raw, int server, const struct raw_mpi_round *round)
{
    const size_t max =
        round->kind == RAW_MPI_ECHO ? RAW_MPI_ECHO_MAX : RAW_MPI_STREAM_MAX;

    if (round->size < 8 || round->size % 8 != 0 || round->size > max ||
        round->window == 0 || round->window > RAW_MPI_WINDOW_MAX)
        return raw_mpi_fail("a round is not possible");
    raw->other = server;
    raw->round = *round;
    (void) MPI_Issend(&raw->round, (int) sizeof(raw->round), MPI_BYTE, server,
        RAW_MPI_TAG_ROUND, raw->comm, &raw->announced);
    return 0;
}

int raw_mpi_is_taken(struct raw_mpi *raw)
{
    int taken = 0;

    (void) MPI_Test(&raw->announced, &taken, MPI_STATUS_IGNORE);
    return taken;
}

int raw_mpi_run(struct raw_mpi *raw, double *per_op_p)
{
    raw_mpi_wait(&raw->announced);
    if (raw->round.seconds < 0)
        return 0;
    if (raw->round.kind == RAW_MPI_ECHO)
        return raw_mpi_echo(raw, per_op_p);
    if (raw_mpi_make_data(raw) != 0)
        return -1;
    return raw_mpi_stream(raw, per_op_p);
}

int raw_mpi_serve(struct raw_mpi *raw, int client)
{
    raw->other = client;
    (void) MPI_Recv(&raw->round, (int) sizeof(raw->round), MPI_BYTE, client,
        RAW_MPI_TAG_ROUND, raw->comm, MPI_STATUS_IGNORE);
    if (raw->round.seconds < 0)
        return 1;
    if (raw->round.kind == RAW_MPI_STREAM) {
        if (raw_mpi_make_data(raw) != 0)
            return -1;
        raw_mpi_serve_stream(raw);
    } else if (raw->round.way == RAW_MPI_BLOCKS)
        raw_mpi_serve_blocking(raw);
    else
        raw_mpi_serve_started(raw);
    return 0;
}

int raw_mpi_open(struct raw_mpi **raw_p)
{
    struct raw_mpi *raw = (struct raw_mpi *) calloc(1, sizeof(*raw));

    if (raw == NULL)
        return raw_mpi_fail("no memory");
    if (MPI_Comm_dup(MPI_COMM_WORLD, &raw->comm) != MPI_SUCCESS) {
        free(raw);
        return raw_mpi_fail("MPI_Comm_dup");
    }
    if (raw_mpi_make_slots(raw) != 0) {
        raw_mpi_close(raw);
        return -1;
    }
    *raw_p = raw;
    return 0;
}

void raw_mpi_close(struct raw_mpi *raw)
{
    unsigned i;

    if (raw == NULL)
        return;
    (void) MPI_Comm_free(&raw->comm);
    for (i = 0; i < RAW_MPI_SLOTS; i++)
        free(raw->slots[i]);
    free(raw->data);
    free(raw);
}
