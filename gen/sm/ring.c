/* SPDX-License-Identifier: BSD-3-Clause */
/* ring: see ring.h. */
#include "sm/ring.h"

#if HG_ENABLE_SM

/* A consumed fraction of 1/4 of the ring is published. */
#define NA_SM_RING_LAZY 4

/* ---- Headers: a word, written and read at once ---- */

static uint32_t na_sm_ring_span(uint32_t size)
{
    return (size + NA_SM_RING_HEADER + NA_SM_RING_LINE - 1) &
        ~(uint32_t) (NA_SM_RING_LINE - 1);
}

/* A header is published by a store with release, and a fence. Thread sanitizers
 * do not know fences: for them the store is sequentially consistent instead. */
#if defined(__SANITIZE_THREAD__)
#define NA_SM_RING_RELEASE memory_order_seq_cst
#define na_sm_ring_fence() ((void) 0)
#else
#define NA_SM_RING_RELEASE memory_order_release
#define na_sm_ring_fence() atomic_thread_fence(memory_order_seq_cst)
#endif

static void na_sm_ring_write(
    unsigned char *at, const struct na_sm_record *record)
{
    uint64_t word;

    memcpy(&word, record, sizeof(word));
    atomic_store_explicit(
        (_Atomic uint64_t *) (void *) at, word, NA_SM_RING_RELEASE);
}

/* ---- The producer ---- */

HG_PRIVATE void na_sm_out_init(struct na_sm_out *out,
    struct na_sm_control *control, void *data, uint32_t size)
{
    HG_ASSERT(size >= 4096 && size <= 1u << 30 && (size & (size - 1)) == 0);
    HG_ASSERT((uintptr_t) data % NA_SM_RING_LINE == 0);
    out->control = control;
    out->data = (unsigned char *) data;
    out->size = size;
    out->skip = 0;
    out->tail = 0;
    out->head = 0;
}

/* Read the consumer's head. False: it is invalid. */
static bool na_sm_out_look(struct na_sm_out *out)
{
    uint64_t head = atomic_load(&out->control->head);

    if (out->tail - head > out->size || head - out->head > out->size ||
        head % NA_SM_RING_LINE != 0)
        return false;
    out->head = head;
    return true;
}

/* Whether `need` bytes are free; the consumer's head is read only if they seem
 * not to be. */
static na_return_t na_sm_out_check_free(struct na_sm_out *out, uint64_t need)
{
    if (need <= out->size - (out->tail - out->head))
        return NA_SUCCESS;
    /* An invalid head is an error below. */
    if (na_sm_out_look(out) && need <= out->size - (out->tail - out->head))
        return NA_SUCCESS;
    /* Either the consumer sees `starved` after it has published its head, or
     * that head is seen here: see na_sm_in_publish. */
    atomic_store(&out->control->starved, 1);
    if (!na_sm_out_look(out))
        return NA_PROTOCOL_ERROR;
    if (need > out->size - (out->tail - out->head))
        return NA_AGAIN;
    return NA_SUCCESS;
}

HG_PRIVATE na_return_t na_sm_out_reserve(
    struct na_sm_out *out, uint32_t size, unsigned char **payload_p)
{
    uint32_t span = na_sm_ring_span(size);
    uint32_t at = (uint32_t) (out->tail & (out->size - 1));
    uint32_t left = out->size - at;
    uint32_t skip = span > left ? left : 0;
    na_return_t ret;

    HG_ASSERT(size <= na_sm_ring_max(out->size));
    HG_ASSERT(at % NA_SM_RING_LINE == 0);
    ret = na_sm_out_check_free(out, (uint64_t) span + skip);
    if (ret != NA_SUCCESS)
        return ret;
    out->skip = skip;
    at = (at + skip) & (out->size - 1);
    *payload_p = out->data + at + NA_SM_RING_HEADER;
    return NA_SUCCESS;
}

HG_PRIVATE void na_sm_out_commit(
    struct na_sm_out *out, const struct na_sm_record *record)
{
    uint64_t tail = out->tail + out->skip;
    uint32_t at = (uint32_t) (tail & (out->size - 1));
    uint32_t span = na_sm_ring_span(record->size);

    HG_ASSERT(span <= out->size - at && record->kind < NA_SM_KIND_MAX);
    HG_ASSERT(tail - out->head + span <= out->size);
    na_sm_ring_write(out->data + at, record);
    if (HG_UNLIKELY(out->skip > 0)) { /* published after the record behind it */
        struct na_sm_record filler = {
            out->skip - NA_SM_RING_HEADER, NA_SM_SKIP, 0, 0, 0};

        na_sm_ring_write(out->data + (out->size - out->skip), &filler);
    }
    na_sm_ring_fence();
    out->tail = tail + span;
}

/* ---- The consumer ---- */

HG_PRIVATE void na_sm_in_init(struct na_sm_in *in,
    struct na_sm_control *control, void *data, uint32_t size)
{
    HG_ASSERT(size >= 4096 && size <= 1u << 30 && (size & (size - 1)) == 0);
    HG_ASSERT((uintptr_t) data % NA_SM_RING_LINE == 0);
    in->control = control;
    in->data = (unsigned char *) data;
    in->size = size;
    in->head = 0;
    in->published = 0;
}

/* Whether the header read at `at` describes a valid record. */
static bool na_sm_in_fits(
    const struct na_sm_in *in, uint32_t at, const struct na_sm_record *record)
{
    if (record->kind >= NA_SM_KIND_MAX)
        return false;
    if (record->kind == NA_SM_SKIP) /* stands for the rest of the ring */
        return record->size == in->size - at - NA_SM_RING_HEADER;
    return record->size <= na_sm_ring_max(in->size) &&
        na_sm_ring_span(record->size) <= in->size - at;
}

/* Clear the first words of the lines of a record, and go behind it. */
static void na_sm_in_clear(struct na_sm_in *in, uint32_t lines, uint32_t span)
{
    unsigned char *at = in->data + (in->head & (in->size - 1));
    unsigned char *end = at + lines;

    for (; at != end; at += NA_SM_RING_LINE)
        atomic_store_explicit(
            (_Atomic uint64_t *) (void *) at, 0, memory_order_relaxed);
    in->head += span;
}

HG_PRIVATE na_return_t na_sm_in_peek(struct na_sm_in *in,
    struct na_sm_record *record_p, const unsigned char **payload_p)
{
    unsigned skips;

    for (skips = 0; skips < 2; skips++) {
        uint32_t at = (uint32_t) (in->head & (in->size - 1));
        uint64_t word = atomic_load(na_sm_in_word(in));

        if (word == 0)
            return NA_AGAIN;
        memcpy(record_p, &word, sizeof(*record_p));
        if (!na_sm_in_fits(in, at, record_p))
            return NA_PROTOCOL_ERROR;
        if (HG_LIKELY(record_p->kind != NA_SM_SKIP)) {
            uint32_t next = at + na_sm_ring_span(record_p->size);

            /* Fetched together, not one after the other. */
            __builtin_prefetch(in->data + at + NA_SM_RING_LINE);
            __builtin_prefetch(in->data + (next & (in->size - 1)));
            *payload_p = in->data + at + NA_SM_RING_HEADER;
            return NA_SUCCESS;
        }
        na_sm_in_clear(in, NA_SM_RING_LINE, in->size - at);
    }
    return NA_PROTOCOL_ERROR; /* two SKIP records in a row are invalid */
}

HG_PRIVATE bool na_sm_in_take(
    struct na_sm_in *in, const struct na_sm_record *record)
{
    uint32_t span = na_sm_ring_span(record->size);

    na_sm_in_clear(in, span, span);
    if (in->head - in->published < in->size / NA_SM_RING_LAZY)
        return false;
    return na_sm_in_publish(in);
}

HG_PRIVATE bool na_sm_in_publish(struct na_sm_in *in)
{
    in->published = in->head;
    atomic_store(&in->control->head, in->head);
    return atomic_load(&in->control->starved) != 0 &&
        atomic_exchange(&in->control->starved, 0) != 0;
}

#endif
