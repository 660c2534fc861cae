/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring: records from one producer to one consumer, in memory that the other
 * side may overwrite at any time.
 *
 * A ring is a control block and a power of two of bytes, both in memory that
 * two processes map. Positions are counts of bytes since the start and never
 * wrap; the position in the ring is the count modulo its size. A record is a
 * header of 8 bytes and a payload, padded to lines of 64 bytes. It never wraps:
 * a SKIP record stands for the rest before the end. The first `extra` bytes of
 * a payload are not the caller's: the tag of a message, unless that is 0, or
 * the header of a frame.
 *
 *     0        4      5       6        7       8
 *     +--------+------+-------+--------+-------+---------+-----+
 *     | size   | kind | plane | target | extra | payload | pad |
 *     +--------+------+-------+--------+-------+---------+-----+
 *
 *     0          head                         tail               size
 *     +----------+------+--------+------+-----+------------------+
 *     | free     |record|record  |SKIP  |     | free             |
 *     +----------+------+--------+------+-----+------------------+
 *
 * The header is the word that publishes a record. The consumer polls it: 0
 * means that there is no record yet. The first word of each free line is 0,
 * since the memory was zeroed, and the consumer clears the lines of a record
 * before it publishes its head. So a small message moves between two cores as
 * one or two lines, and the line that the consumer polls is written last and in
 * one burst: the header after the rest of its line, and that after the lines
 * behind it.
 *
 * Only the consumer writes `head`. Each side keeps its own count in private
 * memory and never reads it back. The producer checks the consumer's head
 * before use; the consumer checks each header against the ring. A header is
 * read once, into private memory. So whatever the other side writes, and at any
 * time, this side accesses nothing outside the ring, and returns
 * NA_PROTOCOL_ERROR when it finds something invalid. Readers must not trust the
 * payload: they copy it before they check it. A producer that overwrites
 * records only damages what it sends itself.
 *
 * The consumer publishes its head only after a quarter of the ring, or when
 * na_sm_in_publish is called. An empty ring has at least three quarters free as
 * the producer sees it, and the largest record with a SKIP in front needs no
 * more. A producer that finds no space sets `starved` and checks again. A
 * consumer that has published its head clears `starved` and, if it was set,
 * notifies the producer.
 *
 * Memory order: a header is stored with release, and a fence follows; the head
 * and `starved` are stored, and all of them are read, in a sequentially
 * consistent order. So users of a ring can rely on "published before checked".
 * The fence delays only what the producer does next, where an exchange would
 * delay the record, too.
 *
 * Locking: none. A side of a ring belongs to one thread at a time.
 *
 * Must not know: sockets, peers, what a record means.
 */
#ifndef HG_GEN_SM_RING_H
#define HG_GEN_SM_RING_H

#include "base/os.h"

#if HG_ENABLE_SM

#define NA_SM_RING_LINE 64  /* bytes that move together between cores */
#define NA_SM_RING_HEADER 8 /* bytes in front of a payload */
/* Bytes of a payload in the line of its header. */
#define NA_SM_RING_FIRST (NA_SM_RING_LINE - NA_SM_RING_HEADER)
/* Maximum of the other side's memories in use at a time. */
#define NA_SM_HAZARDS 8

enum na_sm_kind {
    NA_SM_SKIP = 0,
    NA_SM_MESSAGE, /* plane, target */
    NA_SM_FRAME,   /* of emulated RMA */
    NA_SM_BYE,     /* the last record: the producer has closed the connection */
    NA_SM_KIND_MAX
};

/* The words of one direction, on separate cache lines except for rarely used
 * ones. */
struct na_sm_control {
    _Alignas(NA_SM_RING_LINE) _Atomic uint64_t head;
    _Alignas(NA_SM_RING_LINE) _Atomic uint32_t starved;
    /* The producing side has closed the connection: it ignores hazards that the
     * other side sets later. */
    _Atomic uint32_t over;
    /* Keys of memory of the consuming side that the producing side's RMA
     * copies to or from; 0: none. See rma.h. */
    _Alignas(NA_SM_RING_LINE) _Atomic uint64_t hazard[NA_SM_HAZARDS];
};

/* The header as it lies in the ring. */
struct na_sm_record {
    uint32_t size; /* of the payload */
    uint8_t kind;
    uint8_t plane;
    uint8_t target;
    uint8_t extra;
};

_Static_assert(
    sizeof(struct na_sm_record) == NA_SM_RING_HEADER, "a word is a header");

/* The producer's side. */
struct na_sm_out {
    struct na_sm_control *control;
    unsigned char *data;
    uint32_t size;
    uint32_t skip; /* bytes in front of the reserved record, not yet skipped */
    uint64_t tail; /* own count */
    uint64_t head; /* the consumer's count when last read */
};

/* The consumer's side. */
struct na_sm_in {
    struct na_sm_control *control;
    unsigned char *data;
    uint32_t size;
    uint64_t head;      /* own count */
    uint64_t published; /* published part of head */
};

/* Initialize one side; the memory is zeroed. `size` is a power of two from 4
 * KiB to 2^30. */
HG_PRIVATE void na_sm_out_init(struct na_sm_out *out,
    struct na_sm_control *control, void *data, uint32_t size);
HG_PRIVATE void na_sm_in_init(struct na_sm_in *in,
    struct na_sm_control *control, void *data, uint32_t size);

/* The largest payload of a ring of that size. */
static inline uint32_t na_sm_ring_max(uint32_t size)
{
    return size / 8 * 3 - NA_SM_RING_HEADER;
}

/* Reserve a record with `size` bytes of payload, at most na_sm_ring_max;
 * returns the payload's address. Its first NA_SM_RING_FIRST bytes, or all if it
 * has fewer, are best written last. NA_AGAIN: no space now, and `starved` is
 * set, so that the consumer will notify; NA_PROTOCOL_ERROR: the consumer's head
 * is invalid. */
HG_PRIVATE na_return_t na_sm_out_reserve(
    struct na_sm_out *out, uint32_t size, unsigned char **payload_p);

/* Publish the record reserved last; its size is record->size. */
HG_PRIVATE void na_sm_out_commit(
    struct na_sm_out *out, const struct na_sm_record *record);

/* Read the next record, with its payload in the ring until na_sm_in_take.
 * NA_AGAIN: there is none; NA_PROTOCOL_ERROR: it is invalid. */
HG_PRIVATE na_return_t na_sm_in_peek(struct na_sm_in *in,
    struct na_sm_record *record_p, const unsigned char **payload_p);

/* Release the record that was read last. True: the producer waits for space,
 * and must be notified. */
HG_PRIVATE bool na_sm_in_take(
    struct na_sm_in *in, const struct na_sm_record *record);

/* Publish the head; returns true as na_sm_in_take does. */
HG_PRIVATE bool na_sm_in_publish(struct na_sm_in *in);

/* The word that the consumer polls. */
static inline const _Atomic uint64_t *na_sm_in_word(const struct na_sm_in *in)
{
    const void *at = in->data + (in->head & (in->size - 1));

    return (const _Atomic uint64_t *) at;
}

/* Whether there is a record to read, valid or not. */
static inline bool na_sm_in_has(const struct na_sm_in *in)
{
    return atomic_load(na_sm_in_word(in)) != 0;
}

#endif
#endif
