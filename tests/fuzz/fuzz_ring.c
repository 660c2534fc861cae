/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing of the ring of sm: a consumer and a producer of ours, and between
 * them memory in which the other side writes anything at any time. Nothing
 * outside the ring may be accessed (it lies between pages that fault), no
 * record may extend past its end, and a side that detects invalid data reports
 * so and stops.
 *
 * An input is a program of bytes, each followed by its arguments,
 * little-endian:
 *
 *     0 place16 word64   write a word into the ring
 *     1 word64           write a word at our consumer's position
 *     2 word64           write the consumer's head
 *     3                  our consumer reads a record
 *     4 size16           our producer writes a record
 *     5 kind8 size16     a header at our consumer's position
 *     6 delta16          a SKIP there, of that much less than is left
 *     7 delta16          write the head, relative to our producer's position
 *
 * Built with -DHG_FUZZER=1 and clang's -fsanitize=fuzzer it is a fuzzer;
 * otherwise a test.
 */
#include "support/library.h"

#ifndef HG_FUZZER
#define HG_FUZZER 0
#endif

#if HG_FUZZER
#include "support/fuzz_alone.h"
#else
#include "harness.h"
#include "support/fuzz.h"
#endif

#if HG_ENABLE_SM

#include <sys/mman.h>

int hg_fuzz_ring(const uint8_t *data, size_t size);

enum { FUZZ_RING_SIZE = 4096, FUZZ_RING_PAGE = 4096 };

struct fuzz_ring {
    struct na_sm_control *of_in; /* shared by our consumer */
    struct na_sm_control *of_out;
    unsigned char *in_data;
    unsigned char *out_data;
    struct na_sm_in in;
    struct na_sm_out out;
    bool in_broken;
    bool out_broken;
};

/* For all inputs. */
static unsigned fuzz_ring_taken, fuzz_ring_refused;
static unsigned fuzz_ring_written, fuzz_ring_full, fuzz_ring_given_up;

/* The rest of an input. */
struct fuzz_ring_input {
    const uint8_t *data;
    size_t size;
};

/* A number of so many bytes; missing bytes are 0. */
static uint64_t fuzz_ring_number(struct fuzz_ring_input *input, unsigned bytes)
{
    uint64_t number = 0;
    unsigned i;

    for (i = 0; i < bytes && input->size > 0; i++) {
        number |= (uint64_t) *input->data++ << 8 * i;
        input->size--;
    }
    return number;
}

/* Both rings, each between pages that fault; created once. */
static void fuzz_ring_begin(struct fuzz_ring *ring)
{
    static unsigned char *map;
    static struct na_sm_control controls[2];
    const size_t step = FUZZ_RING_SIZE + FUZZ_RING_PAGE;
    unsigned i;

    if (map == NULL) {
        map = (unsigned char *) mmap(NULL, 2 * step + FUZZ_RING_PAGE, PROT_NONE,
            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        HG_CHECK(map != MAP_FAILED);
        for (i = 0; i < 2; i++)
            HG_CHECK(mprotect(map + i * step + FUZZ_RING_PAGE, FUZZ_RING_SIZE,
                         PROT_READ | PROT_WRITE) == 0);
    }
    memset(ring, 0, sizeof(*ring));
    memset(controls, 0, sizeof(controls));
    ring->of_in = &controls[0];
    ring->of_out = &controls[1];
    ring->in_data = map + FUZZ_RING_PAGE;
    ring->out_data = ring->in_data + step;
    memset(ring->in_data, 0, FUZZ_RING_SIZE);
    memset(ring->out_data, 0, FUZZ_RING_SIZE);
    na_sm_in_init(&ring->in, ring->of_in, ring->in_data, FUZZ_RING_SIZE);
    na_sm_out_init(&ring->out, ring->of_out, ring->out_data, FUZZ_RING_SIZE);
}

/* Read a record as the transport does, touching all of it. */
static void fuzz_ring_take(struct fuzz_ring *ring)
{
    static unsigned char copy[FUZZ_RING_SIZE];
    uint64_t head = ring->in.head;
    const unsigned char *payload;
    struct na_sm_record record;
    na_return_t ret;

    if (ring->in_broken)
        return;
    ret = na_sm_in_peek(&ring->in, &record, &payload);
    if (ret == NA_AGAIN)
        return;
    if (ret != NA_SUCCESS) {
        HG_CHECK_RET(ret, NA_PROTOCOL_ERROR);
        ring->in_broken = true;
        fuzz_ring_refused++;
        return;
    }
    HG_CHECK(record.kind != NA_SM_SKIP && record.kind < NA_SM_KIND_MAX);
    HG_CHECK(record.size <= na_sm_ring_max(FUZZ_RING_SIZE));
    memcpy(copy, payload, record.size);
    fuzz_ring_taken++;
    (void) na_sm_in_take(&ring->in, &record);
    HG_CHECK(ring->in.head > head);
    HG_CHECK(ring->in.head % NA_SM_RING_LINE == 0);
    HG_CHECK(atomic_load(&ring->of_in->head) <= ring->in.head);
}

/* Write a record, all of its bytes. */
static void fuzz_ring_put(struct fuzz_ring *ring, uint32_t size)
{
    struct na_sm_record record = {0, NA_SM_MESSAGE, 0, 0, 0};
    unsigned char *payload;
    na_return_t ret;

    if (ring->out_broken)
        return;
    record.size = size % (na_sm_ring_max(FUZZ_RING_SIZE) + 1);
    ret = na_sm_out_reserve(&ring->out, record.size, &payload);
    if (ret == NA_AGAIN) {
        HG_CHECK(atomic_load(&ring->of_out->starved) != 0);
        fuzz_ring_full++;
        return;
    }
    if (ret != NA_SUCCESS) {
        HG_CHECK_RET(ret, NA_PROTOCOL_ERROR);
        ring->out_broken = true;
        fuzz_ring_given_up++;
        return;
    }
    HG_CHECK(ring->out.head <= ring->out.tail &&
        ring->out.head % NA_SM_RING_LINE == 0);
    memset(payload, 0x5a, record.size);
    fuzz_ring_written++;
    na_sm_out_commit(&ring->out, &record);
    HG_CHECK(ring->out.tail - ring->out.head <= FUZZ_RING_SIZE);
}

/* A word at our consumer's position. */
static void fuzz_ring_write_word(struct fuzz_ring *ring, uint64_t word)
{
    memcpy(ring->in_data + (size_t) (ring->in.head % FUZZ_RING_SIZE), &word,
        sizeof(word));
}

static void fuzz_ring_step(
    struct fuzz_ring *ring, struct fuzz_ring_input *input)
{
    uint64_t word, kind;
    size_t at;

    switch (fuzz_ring_number(input, 1) % 8) {
    case 0:
        at = (size_t) fuzz_ring_number(input, 2) * 8 % FUZZ_RING_SIZE;
        word = fuzz_ring_number(input, 8);
        memcpy(ring->in_data + at, &word, sizeof(word));
        memcpy(ring->out_data + at, &word, sizeof(word));
        break;
    case 1: fuzz_ring_write_word(ring, fuzz_ring_number(input, 8)); break;
    case 2:
        atomic_store(&ring->of_out->head, fuzz_ring_number(input, 8));
        break;
    case 3: fuzz_ring_take(ring); break;
    case 4: fuzz_ring_put(ring, (uint32_t) fuzz_ring_number(input, 2)); break;
    case 5:
        kind = fuzz_ring_number(input, 1);
        fuzz_ring_write_word(ring, fuzz_ring_number(input, 2) | kind << 32);
        break;
    case 6:
        word = fuzz_ring_number(input, 2);
        fuzz_ring_write_word(ring,
            (uint32_t) (FUZZ_RING_SIZE - ring->in.head % FUZZ_RING_SIZE -
                NA_SM_RING_HEADER - word));
        break;
    default:
        word = fuzz_ring_number(input, 2);
        atomic_store(&ring->of_out->head, ring->out.tail - word);
    }
}

int hg_fuzz_ring(const uint8_t *data, size_t size)
{
    struct fuzz_ring_input input = {data, size};
    struct fuzz_ring ring;
    unsigned steps;

    fuzz_ring_begin(&ring);
    for (steps = 0; input.size > 0 && steps < 10000; steps++)
        fuzz_ring_step(&ring, &input);
    return 0;
}

#if HG_FUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return hg_fuzz_ring(data, size);
}

#else

/* Each kind of refusal must have occurred, or this tests nothing. */
static void fuzz_ring_check_counters(void)
{
    HG_CHECK(fuzz_ring_taken > 0);
    HG_CHECK(fuzz_ring_refused > 0);
    HG_CHECK(fuzz_ring_written > 0);
    HG_CHECK(fuzz_ring_full > 0);
    HG_CHECK(fuzz_ring_given_up > 0);
}

HG_TEST(fuzz_ring_corpus)
{
    fuzz_run_corpus("ring", hg_fuzz_ring);
    fuzz_ring_check_counters();
}

HG_TEST_SECONDS(fuzz_ring_random, 60)
{
    fuzz_run_random("ring", hg_fuzz_ring, 200000);
    fuzz_ring_check_counters();
}

#endif
#endif
