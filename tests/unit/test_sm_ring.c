/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of the transport sm: the consumer reads what the producer wrote, in
 * order, wherever the ring wraps around. Whatever a hostile process writes,
 * nothing outside the ring is accessed: it lies between two pages that fault.
 */
#include "support/library.h"

#include "harness.h"

#if HG_ENABLE_SM

#include <sys/mman.h>

#define RING_SIZE 4096u

/* A ring with inaccessible pages before and after it. */
struct ring_pair {
    struct na_sm_control *control;
    unsigned char *map;
    unsigned char *data;
    size_t map_size;
    struct na_sm_out out;
    struct na_sm_in in;
};

static void ring_open(struct ring_pair *ring, uint32_t size)
{
    const size_t page = 4096;

    ring->map_size = size + 3 * page;
    ring->map = (unsigned char *) mmap(
        NULL, ring->map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HG_CHECK(ring->map != MAP_FAILED);
    HG_CHECK(mprotect(ring->map, page, PROT_READ | PROT_WRITE) == 0);
    HG_CHECK(mprotect(ring->map + 2 * page, size, PROT_READ | PROT_WRITE) == 0);
    ring->control = (struct na_sm_control *) (void *) ring->map;
    ring->data = ring->map + 2 * page;
    na_sm_out_init(&ring->out, ring->control, ring->data, size);
    na_sm_in_init(&ring->in, ring->control, ring->data, size);
}

static void ring_close(struct ring_pair *ring)
{
    HG_CHECK(munmap(ring->map, ring->map_size) == 0);
}

static unsigned char ring_byte(uint64_t n, uint32_t at)
{
    return (unsigned char) (n * 31 + at * 7 + (at >> 8));
}

/* Put record `n`, of `size` bytes; returns false if it does not fit. */
static bool ring_put(struct na_sm_out *out, uint64_t n, uint32_t size)
{
    struct na_sm_record record = {
        size, NA_SM_MESSAGE, (uint8_t) (n % 3), (uint8_t) n, (uint8_t) (n * 3)};
    unsigned char *payload;
    na_return_t ret = na_sm_out_reserve(out, size, &payload);
    uint32_t i;

    if (ret == NA_AGAIN)
        return false;
    HG_CHECK_OK(ret);
    for (i = 0; i < size; i++)
        payload[i] = ring_byte(n, i);
    na_sm_out_commit(out, &record);
    return true;
}

/* Take record `n`; returns false if the ring is empty. */
static bool ring_get(struct na_sm_in *in, uint64_t n, bool *oom_p)
{
    struct na_sm_record record;
    const unsigned char *payload;
    na_return_t ret = na_sm_in_peek(in, &record, &payload);
    uint32_t i;

    if (ret == NA_AGAIN)
        return false;
    HG_CHECK_OK(ret);
    HG_CHECK(record.kind == NA_SM_MESSAGE && record.plane == n % 3);
    HG_CHECK(record.target == (uint8_t) n);
    HG_CHECK(record.extra == (uint8_t) (n * 3));
    for (i = 0; i < record.size; i++)
        if (payload[i] != ring_byte(n, i))
            hg_test_fail(HG_TEST_HERE, "record %" PRIu64 ", byte %u", n, i);
    *oom_p = na_sm_in_take(in, &record);
    return true;
}

HG_TEST(sm_ring_carries_every_size_from_every_offset)
{
    struct ring_pair ring;
    uint32_t max = na_sm_ring_max(RING_SIZE);
    uint64_t n = 0;
    uint32_t size, start;
    bool starved;

    ring_open(&ring, RING_SIZE);
    HG_CHECK(!na_sm_in_has(&ring.in));
    for (start = 0; start < RING_SIZE / NA_SM_RING_LINE; start++) {
        for (size = 0; size <= max; size += size < 40 ? 1 : 97) {
            HG_CHECK(ring_put(&ring.out, n, size));
            HG_CHECK(na_sm_in_has(&ring.in));
            HG_CHECK(ring_get(&ring.in, n, &starved) && !starved);
            HG_CHECK(!ring_get(&ring.in, n, &starved));
            n++;
        }
        /* The largest record fits into an empty ring, at any position. */
        HG_CHECK(ring_put(&ring.out, n, max));
        HG_CHECK(ring_get(&ring.in, n, &starved) && !starved);
        n++;
    }
    ring_close(&ring);
}

HG_TEST(sm_ring_reports_full_and_free_space)
{
    struct ring_pair ring;
    uint64_t put = 0, got = 0;
    unsigned round, told = 0;
    bool starved = false;

    ring_open(&ring, RING_SIZE);
    for (round = 0; round < 500; round++) {
        uint32_t size = (round * 37) % na_sm_ring_max(RING_SIZE);

        while (ring_put(&ring.out, put, size))
            put++;
        HG_CHECK(put - got >= 1);
        HG_CHECK_EQ_INT(atomic_load(&ring.control->starved), 1);
        /* A waiting producer is notified before the ring is empty, and has
         * space then. */
        while (got < put && !starved) {
            HG_CHECK(ring_get(&ring.in, got, &starved));
            got++;
        }
        HG_CHECK(starved);
        starved = false;
        told++;
        while (ring_get(&ring.in, got, &starved)) {
            HG_CHECK(!starved);
            got++;
        }
        HG_CHECK(got == put);
        HG_CHECK(ring_put(&ring.out, put, size));
        put++;
    }
    HG_CHECK_EQ_INT(told, 500);
    ring_close(&ring);
}

/* ---- Two threads ---- */

struct ring_racer {
    struct ring_pair *ring;
    uint64_t count;
    uint64_t seed;
    _Atomic bool *space; /* set by the consumer */
};

static void ring_delay(uint64_t *random)
{
    uint64_t pick = hg_test_random(random) % 64;

    if (pick == 0)
        (void) sched_yield();
    while (pick-- > 32)
        hg_clock_relax();
}

static void *ring_produce(void *arg)
{
    struct ring_racer *racer = (struct ring_racer *) arg;
    uint64_t random = racer->seed;
    uint64_t n;

    for (n = 0; n < racer->count; n++) {
        uint32_t size =
            (uint32_t) (hg_test_random(&random) % na_sm_ring_max(RING_SIZE));

        if (n % 8 != 0)
            size %= 100;
        while (!ring_put(&racer->ring->out, n, size)) {
            /* It must be notified: nothing else ends this wait. */
            while (!atomic_exchange(racer->space, false))
                (void) sched_yield();
        }
        ring_delay(&random);
    }
    return NULL;
}

HG_TEST_SECONDS(sm_ring_between_two_threads_loses_nothing, 180)
{
    struct ring_pair ring;
    _Atomic bool space = false;
    struct ring_racer racer = {
        &ring, hg_test_is_plain() ? 300000 : 30000, hg_test_seed(), &space};
    uint64_t random = racer.seed + 1;
    uint64_t n = 0;
    pthread_t thread;

    ring_open(&ring, RING_SIZE);
    HG_CHECK(pthread_create(&thread, NULL, ring_produce, &racer) == 0);
    while (n < racer.count) {
        bool starved = false;

        if (ring_get(&ring.in, n, &starved))
            n++;
        else
            (void) sched_yield();
        if (starved)
            atomic_store(&space, true);
        ring_delay(&random);
    }
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK(!na_sm_in_has(&ring.in));
    ring_close(&ring);
}

/* ---- A hostile process ---- */

/* Read records until the ring is empty or a record is refused; returns true if
 * refused. Every byte of a payload is read. */
static bool ring_read_all(struct na_sm_in *in)
{
    volatile unsigned sum = 0;
    unsigned count;

    for (count = 0; count < RING_SIZE; count++) {
        struct na_sm_record record;
        const unsigned char *payload;
        na_return_t ret = na_sm_in_peek(in, &record, &payload);
        uint32_t i;

        if (ret == NA_AGAIN)
            return false;
        if (ret != NA_SUCCESS) {
            HG_CHECK_RET(ret, NA_PROTOCOL_ERROR);
            return true;
        }
        HG_CHECK(record.size <= na_sm_ring_max(RING_SIZE));
        HG_CHECK(payload >= in->data + NA_SM_RING_HEADER);
        HG_CHECK(payload + record.size <= in->data + in->size);
        for (i = 0; i < record.size; i++)
            sum += atomic_load_explicit(
                (const _Atomic unsigned char *) &payload[i],
                memory_order_relaxed);
        (void) na_sm_in_take(in, &record);
    }
    (void) sum;
    return false; /* a thread that keeps writing may keep it busy */
}

HG_TEST(sm_ring_refuses_invalid_heads)
{
    static const uint64_t heads[] = {
        1, 4, RING_SIZE * 2, UINT64_MAX, UINT64_MAX - 15, (uint64_t) 1 << 63};
    struct ring_pair ring;
    unsigned char *payload;
    size_t i;

    for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        uint64_t n = 0;

        ring_open(&ring, RING_SIZE);
        while (ring_put(&ring.out, n, 0))
            n++;
        HG_CHECK_EQ_U64(n, RING_SIZE / NA_SM_RING_LINE);
        atomic_store(&ring.control->head, heads[i]);
        HG_CHECK_RET(
            na_sm_out_reserve(&ring.out, 0, &payload), NA_PROTOCOL_ERROR);
        ring_close(&ring);
    }
}

/* A head that was valid before is invalid after a later one was seen. */
HG_TEST(sm_ring_refuses_a_head_that_moves_back)
{
    struct ring_pair ring;
    unsigned char *payload;
    uint64_t n = 0;
    bool starved;
    unsigned i;

    ring_open(&ring, RING_SIZE);
    while (ring_put(&ring.out, n, 0))
        n++;
    for (i = 0; i < 8; i++)
        HG_CHECK(ring_get(&ring.in, i, &starved));
    (void) na_sm_in_publish(&ring.in);
    for (i = 0; i < 4; i++)
        HG_CHECK(ring_put(&ring.out, n + i, 0));
    HG_CHECK_RET(na_sm_out_reserve(&ring.out, 300, &payload), NA_AGAIN);
    atomic_store(&ring.control->head, 7 * NA_SM_RING_LINE);
    HG_CHECK_RET(
        na_sm_out_reserve(&ring.out, 300, &payload), NA_PROTOCOL_ERROR);
    ring_close(&ring);
}

HG_TEST(sm_ring_refuses_invalid_records)
{
    static const struct na_sm_record bad[] = {
        {UINT32_MAX, NA_SM_MESSAGE, 0, 0, 0}, /* its span wraps */
        {UINT32_MAX - 7, NA_SM_FRAME, 0, 0, 0},
        {RING_SIZE, NA_SM_MESSAGE, 0, 0, 0},
        {RING_SIZE / 8 * 3, NA_SM_MESSAGE, 0, 0, 0}, /* above the largest */
        {0, NA_SM_KIND_MAX, 0, 0, 0},
        {0, 255, 0, 0, 0},
        {16, NA_SM_SKIP, 0, 0, 0}, /* not to the end */
        {RING_SIZE, NA_SM_SKIP, 0, 0, 0},
        {UINT32_MAX, NA_SM_SKIP, 0, 0, 0},
    };
    struct ring_pair ring;
    struct na_sm_record record;
    const unsigned char *payload;
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ring_open(&ring, RING_SIZE);
        na_sm_ring_write(ring.data, &bad[i]);
        HG_CHECK_RET(
            na_sm_in_peek(&ring.in, &record, &payload), NA_PROTOCOL_ERROR);
        ring_close(&ring);
    }
}

/* The invalid record is in the last two lines of the ring. */
HG_TEST(sm_ring_refuses_invalid_records_at_its_end)
{
    static const struct na_sm_record bad[] = {
        {121, NA_SM_MESSAGE, 0, 0, 0}, /* past the end */
        {119, NA_SM_SKIP, 0, 0, 0},    /* not to the end */
        {121, NA_SM_SKIP, 0, 0, 0},
    };
    const uint32_t head = RING_SIZE - 2 * NA_SM_RING_LINE;
    struct ring_pair ring;
    struct na_sm_record record;
    const unsigned char *payload;
    bool starved;
    uint64_t n;
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ring_open(&ring, RING_SIZE);
        for (n = 0; n < head / NA_SM_RING_LINE; n++)
            HG_CHECK(
                ring_put(&ring.out, n, 0) && ring_get(&ring.in, n, &starved));
        na_sm_ring_write(ring.data + head, &bad[i]);
        HG_CHECK_RET(
            na_sm_in_peek(&ring.in, &record, &payload), NA_PROTOCOL_ERROR);
        ring_close(&ring);
    }
}

/* A producer that always adds one more skip would keep the consumer busy. */
HG_TEST(sm_ring_refuses_to_skip_twice)
{
    static const struct na_sm_record skips[] = {
        {RING_SIZE - NA_SM_RING_LINE - 8, NA_SM_SKIP, 0, 0, 0},
        {RING_SIZE - 8, NA_SM_SKIP, 0, 0, 0}};
    struct ring_pair ring;
    struct na_sm_record record;
    const unsigned char *payload;
    bool starved;

    ring_open(&ring, RING_SIZE);
    HG_CHECK(ring_put(&ring.out, 0, 0));
    na_sm_ring_write(ring.data + NA_SM_RING_LINE, &skips[0]);
    HG_CHECK(ring_get(&ring.in, 0, &starved));
    na_sm_ring_write(ring.data, &skips[1]);
    HG_CHECK_RET(na_sm_in_peek(&ring.in, &record, &payload), NA_PROTOCOL_ERROR);
    ring_close(&ring);
}

HG_TEST(sm_ring_survives_random_words)
{
    struct ring_pair ring;
    uint64_t random = hg_test_seed();
    unsigned refused = 0;
    unsigned round;

    ring_open(&ring, RING_SIZE);
    for (round = 0; round < 20000; round++) {
        uint64_t *words = (uint64_t *) (void *) ring.data;
        uint64_t pick = hg_test_random(&random);
        uint64_t n = 0;

        na_sm_in_init(&ring.in, ring.control, ring.data, RING_SIZE);
        na_sm_out_init(&ring.out, ring.control, ring.data, RING_SIZE);
        memset(ring.data, 0, RING_SIZE);
        atomic_store(&ring.control->head, 0);
        while (n < pick % 30 && ring_put(&ring.out, n, (uint32_t) (n * 9)))
            n++;
        for (n = 0; n < 1 + pick / 64 % 4; n++)
            words[hg_test_random(&random) % (RING_SIZE / 8)] =
                hg_test_random(&random) >> (pick % 40);
        refused += ring_read_all(&ring.in);
    }
    HG_CHECK(refused > 1000);
    ring_close(&ring);
}

/* Overwrites everything while the other thread reads and writes. */
static void *ring_corrupt(void *arg)
{
    struct ring_racer *racer = (struct ring_racer *) arg;
    struct ring_pair *ring = racer->ring;
    uint64_t random = racer->seed;

    while (!atomic_load(racer->space)) {
        uint64_t value =
            hg_test_random(&random) >> (hg_test_random(&random) % 64);

        atomic_store_explicit(
            (_Atomic uint64_t *) (void *) (ring->data +
                8 * (hg_test_random(&random) % (RING_SIZE / 8))),
            value, memory_order_relaxed);
        if (value % 5 == 0)
            atomic_store(&ring->control->head,
                atomic_load(&ring->control->head) +
                    NA_SM_RING_LINE * (value % 8));
    }
    return NULL;
}

HG_TEST(sm_ring_survives_a_thread_that_corrupts_it)
{
    struct ring_pair ring;
    _Atomic bool stop = false;
    struct ring_racer racer = {&ring, 0, hg_test_seed(), &stop};
    unsigned rounds = hg_test_is_plain() ? 30000 : 3000;
    unsigned refused = 0;
    pthread_t thread;

    ring_open(&ring, RING_SIZE);
    HG_CHECK(pthread_create(&thread, NULL, ring_corrupt, &racer) == 0);
    while (rounds > 0 || refused < 100) { /* it may start late */
        struct na_sm_record record = {40, NA_SM_MESSAGE, 0, 0, 0};
        unsigned char *payload;
        na_return_t ret = na_sm_out_reserve(&ring.out, 40, &payload);

        rounds -= rounds > 0;
        if (ret == NA_SUCCESS) {
            HG_CHECK(payload + 40 <= ring.data + RING_SIZE);
            na_sm_out_commit(&ring.out, &record);
        } else {
            na_sm_out_init(&ring.out, ring.control, ring.data, RING_SIZE);
            atomic_store(&ring.control->head, 0);
        }
        if (ring_read_all(&ring.in)) {
            refused++;
            na_sm_in_init(&ring.in, ring.control, ring.data, RING_SIZE);
        }
    }
    atomic_store(&stop, true);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    ring_close(&ring);
}

#endif
