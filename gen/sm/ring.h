/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_ring: records from one producer to one consumer, through memory that the
 * other side may scribble on.
 *
 * A ring is a control block and a power of two of bytes, both in memory that
 * two processes map. Places are counts of bytes since the beginning and never
 * wrap; the place in the ring is such a count modulo its size. A record is a
 * header of 8 bytes and a payload, padded to 8 bytes; it never wraps: a SKIP
 * record fills what is left before the end. The first `extra` bytes of a
 * payload are not the caller's: the tag of a message, unless that is 0, or the
 * header of a frame.
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
 * The producer alone writes `tail`, the consumer alone `head`. Each keeps its
 * own count in private memory, publishes it, and never reads it back; what it
 * reads of the other's is checked before use. A header is read once, into
 * private memory. So whatever the other side writes, and whenever, this side
 * touches nothing outside the ring, and says NA_PROTOCOL_ERROR once it meets
 * something that cannot be. What the payload says is the reader's to mistrust:
 * it is copied before it is looked at.
 *
 * The consumer publishes its head only after a quarter of the ring, or where
 * it is told to: an empty ring has three quarters free as the producer sees
 * it, and the largest record needs, with a SKIP in front, no more. A producer
 * that finds no room raises `starved` and looks again; a consumer that has
 * published its head lowers it and, if it was up, tells the producer.
 *
 * Memory order: publishing (a tail, a head, `starved`) and looking for what was
 * published are sequentially consistent, so that users of a ring may build on
 * "I published before I looked". (Fences would do, and thread sanitizers do
 * not know them.)
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
#define NA_SM_RING_HEADER 8 /* bytes in front of a payload, and its unit */
#define NA_SM_HAZARDS 8     /* memories of the other side's in use at a time */

enum na_sm_kind {
    NA_SM_SKIP = 0,
    NA_SM_MESSAGE, /* plane, target */
    NA_SM_FRAME,   /* of emulated RMA */
    NA_SM_BYE,     /* the last record: the producer has closed the connection */
    NA_SM_KIND_MAX
};

/* One direction's words, on lines of their own but for what is rare. */
struct na_sm_control {
    _Alignas(NA_SM_RING_LINE) _Atomic uint64_t tail;
    _Alignas(NA_SM_RING_LINE) _Atomic uint64_t head;
    _Alignas(NA_SM_RING_LINE) _Atomic uint32_t starved;
    /* The producing side has left the connection: it ignores hazards that the
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
    uint64_t tail; /* ours */
    uint64_t head; /* the consumer's, as last seen */
};

/* The consumer's side. */
struct na_sm_in {
    struct na_sm_control *control;
    const unsigned char *data;
    uint32_t size;
    uint64_t head;      /* ours */
    uint64_t published; /* what of it the producer knows */
    uint64_t tail;      /* the producer's, as last seen */
};

/* Begin with zeroed memory. `size` is a power of two from 4 KiB to 2^30. */
HG_PRIVATE void na_sm_out_init(struct na_sm_out *out,
    struct na_sm_control *control, void *data, uint32_t size);
HG_PRIVATE void na_sm_in_init(struct na_sm_in *in,
    struct na_sm_control *control, const void *data, uint32_t size);

/* The largest payload of a ring of that size. */
static inline uint32_t na_sm_ring_max(uint32_t size)
{
    return size / 8 * 3 - NA_SM_RING_HEADER;
}

/* Room for a record of `size` bytes of payload, at most na_sm_ring_max: where
 * to write them. NA_AGAIN: none now, and `starved` is up, so that the consumer
 * tells when there is; NA_PROTOCOL_ERROR: the consumer's head is impossible. */
HG_PRIVATE na_return_t na_sm_out_reserve(
    struct na_sm_out *out, uint32_t size, unsigned char **payload_p);

/* Publish the record that was reserved last, whose size is record->size. */
HG_PRIVATE void na_sm_out_commit(
    struct na_sm_out *out, const struct na_sm_record *record);

/* The next record, with its payload in the ring until na_sm_in_take. NA_AGAIN:
 * there is none; NA_PROTOCOL_ERROR: what is there is no record. */
HG_PRIVATE na_return_t na_sm_in_peek(struct na_sm_in *in,
    struct na_sm_record *record_p, const unsigned char **payload_p);

/* Give back the record that was peeked last. True: the producer waits for
 * room, and is to be told that there is some. */
HG_PRIVATE bool na_sm_in_take(
    struct na_sm_in *in, const struct na_sm_record *record);

/* Publish the head as it is; the result as above. */
HG_PRIVATE bool na_sm_in_publish(struct na_sm_in *in);

/* Whether there is something to peek at, be it nonsense. */
static inline bool na_sm_in_has(const struct na_sm_in *in)
{
    return atomic_load(&in->control->tail) != in->head;
}

#endif
#endif
