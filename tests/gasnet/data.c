/* SPDX-License-Identifier: BSD-3-Clause */
/* data: segments, and many operations in flight. */
#define GASNET_PAR 1
#include "jobs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define DATA_HANDLES 65535
#define DATA_TRIED 3                /* of them in a short list */
#define DATA_MOST ((size_t) 200000) /* bytes of one operation */

static gasnet_seginfo_t *data_segments;

static void data_start(int argc, char *argv[], uintptr_t size)
{
    START(NULL, 0, size);
    data_segments =
        (gasnet_seginfo_t *) calloc(gasnet_nodes(), sizeof(*data_segments));
    CHECK(data_segments != NULL);
    CHECK(gasnet_getSegmentInfo(data_segments, (int) gasnet_nodes()) == 0);
    BARRIER();
}

/* The segment of the next node. */
static char *data_there(gasnet_node_t *peer_p)
{
    *peer_p = (gasnet_mynode() + 1) % gasnet_nodes();
    return (char *) data_segments[*peer_p].addr;
}

/* ---- Segments ---- */

static size_t data_resident_kib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    size_t kib = 0;

    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtoul(line + 6, NULL, 10);
    CHECK(fclose(file) == 0 && kib > 0);
    return kib;
}

/* A large segment costs no memory until it is used, and its last byte is
 * reached. Sizes differ; that of node 0 is 0. */
static void data_sparse(int argc, char *argv[])
{
    gasnet_node_t peer;
    uintptr_t size;
    char *there;

    CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
    size = gasnet_mynode() == 0 ? 0
        : gasnet_mynode() == 1  ? (uintptr_t) 64 << 30
                                : (uintptr_t) 1 << 30;
    CHECK(gasnet_attach(NULL, 0, size, 0) == GASNET_OK);
    data_segments =
        (gasnet_seginfo_t *) calloc(gasnet_nodes(), sizeof(*data_segments));
    CHECK(data_segments != NULL);
    CHECK(gasnet_getSegmentInfo(data_segments, (int) gasnet_nodes()) == 0);
    CHECK(data_segments[gasnet_mynode()].size == size);
    CHECK(data_segments[0].size == 0);
    BARRIER();
    there = data_there(&peer);
    size = data_segments[peer].size;
    if (size > 0) {
        gasnet_put_val(peer, there + size - 8, 12345, 8);
        CHECK(gasnet_get_val(peer, there + size - 8, 8) == 12345);
        CHECK(gasnet_get_val(peer, there + size / 2, 8) == 0);
    }
    CHECK(data_resident_kib() < 512 * 1024);
    BARRIER();
    gasnet_exit(0);
}

/* ---- Operations in flight ---- */

/* As many handles as a client may have, in a short test some of them, and
 * operations without handles; then the list of all handles, with holes. */
static void data_in_flight(int argc, char *argv[])
{
    gasnet_handle_t *handles =
        (gasnet_handle_t *) calloc(DATA_HANDLES, sizeof(*handles));
    int i, rounds = jobs_is_full() ? 1000000 : 5000;
    int first = jobs_is_full() ? 0 : DATA_HANDLES - 5000;
    gasnet_register_value_t here = 0;
    gasnet_node_t peer;
    uint32_t *there;

    data_start(argc, argv, 1 << 20);
    there = (uint32_t *) (void *) data_there(&peer);
    CHECK(handles != NULL);
    for (i = first; i < DATA_HANDLES; i++)
        if (i % 3 != 0)
            handles[i] =
                gasnet_put_nb_val(peer, &there[i], (uint32_t) i + 1, 4);
    gasnet_wait_syncnb_some(handles, DATA_HANDLES);
    gasnet_wait_syncnb_all(handles, DATA_HANDLES);
    for (i = 0; i < DATA_HANDLES; i++)
        CHECK(handles[i] == GASNET_INVALID_HANDLE);
    for (i = 0; i < DATA_TRIED; i++)
        handles[i] = gasnet_put_nb_val(peer, &there[i], 0, 4);
    while (gasnet_try_syncnb_all(handles, DATA_TRIED) != GASNET_OK)
        continue;
    for (i = 0; i < DATA_TRIED; i++)
        CHECK(handles[i] == GASNET_INVALID_HANDLE);
    CHECK(gasnet_try_syncnb_all(handles, DATA_HANDLES) == GASNET_OK);
    CHECK(gasnet_try_syncnb_some(handles, 0) == GASNET_OK);
    CHECK(gasnet_get_val(peer, &there[DATA_HANDLES - 1], 4) == DATA_HANDLES);
    CHECK(gasnet_get_val(peer, &there[3], 4) == 0);
    gasnet_begin_nbi_accessregion();
    for (i = 0; i < rounds; i++)
        gasnet_put_nbi(peer, &there[i % DATA_HANDLES], &i, 4);
    handles[0] = gasnet_end_nbi_accessregion();
    gasnet_get_nbi(&here, peer, &there[3], 4);
    gasnet_wait_syncnbi_all();
    gasnet_wait_syncnb(handles[0]);
    CHECK(gasnet_get_val(peer, &there[(rounds - 1) % DATA_HANDLES], 4) ==
        (uint32_t) rounds - 1);
    BARRIER();
    free(handles);
    gasnet_exit(0);
}

/* Each size of values, and each argument once. */
static void data_values(int argc, char *argv[])
{
    gasnet_register_value_t value =
        (gasnet_register_value_t) 0x1122334455667788;
    unsigned size;
    gasnet_node_t peer;
    char *there, *at;

    data_start(argc, argv, GASNET_PAGESIZE);
    there = data_there(&peer);
    for (size = 1; size <= sizeof(value); size++) {
        gasnet_register_value_t low = size == sizeof(value)
            ? value
            : value & (((gasnet_register_value_t) 1 << 8 * size) - 1);
        gasnet_valget_handle_t handle;
        gasnet_node_t node = peer;

        at = there;
        gasnet_put_val(node, at++, value, size);
        CHECK(at == there + 1);
        handle = gasnet_get_nb_val(node, there, size);
        CHECK(gasnet_get_val(node, there, size) == low);
        CHECK(gasnet_wait_syncnb_valget(handle) == low);
        gasnet_wait_syncnb(gasnet_put_nb_val(node, there + 16, value, size));
        gasnet_put_nbi_val(node, there + 32, value, size);
        gasnet_wait_syncnbi_puts();
        CHECK(gasnet_get_val(node, there + 16, size) == low);
        CHECK(gasnet_get_val(node, there + 32, size) == low);
    }
    BARRIER();
    gasnet_exit(0);
}

/* ---- Sizes ---- */

/* The bytes at `at` are those that data_fill() wrote. */
static int data_is(const unsigned char *at, size_t size, unsigned seed)
{
    size_t i;

    for (i = 0; i < size; i++)
        if (at[i] != (unsigned char) (i * 7 + seed))
            return 0;
    return 1;
}

static void data_fill(unsigned char *at, size_t size, unsigned seed)
{
    size_t i;

    for (i = 0; i < size; i++)
        at[i] = (unsigned char) (i * 7 + seed);
}

/* The three puts whose source may change when they return. */
static gasnet_handle_t data_put(int way, gasnet_node_t peer,
    unsigned char *there, unsigned char *here, size_t size)
{
    gasnet_handle_t handle = GASNET_INVALID_HANDLE;

    if (way == 0)
        gasnet_put(peer, there, here, size);
    else if (way == 1)
        handle = gasnet_put_nb(peer, there, here, size);
    else
        gasnet_put_nbi(peer, there, here, size);
    memset(here, 0xee, size);
    return handle;
}

static void data_put_bulk(int way, gasnet_node_t peer, unsigned char *there,
    unsigned char *here, size_t size)
{
    if (way == 0)
        gasnet_put_bulk(peer, there, here, size);
    else if (way == 1)
        gasnet_wait_syncnb(gasnet_put_nb_bulk(peer, there, here, size));
    else
        gasnet_put_nbi_bulk(peer, there, here, size);
    while (gasnet_try_syncnbi_puts() != GASNET_OK)
        continue;
}

static void data_get(int way, gasnet_node_t peer, unsigned char *there,
    unsigned char *here, size_t size)
{
    gasnet_handle_t handle = GASNET_INVALID_HANDLE;

    memset(here, 0, size);
    if (way == 0)
        gasnet_get(here, peer, there, size);
    else if (way == 1)
        handle = gasnet_get_nb(here, peer, there, size);
    else if (way == 2)
        gasnet_get_nbi(here, peer, there, size);
    else if (way == 3)
        gasnet_get_bulk(here, peer, there, size);
    else if (way == 4)
        handle = gasnet_get_nb_bulk(here, peer, there, size);
    else
        gasnet_get_nbi_bulk(here, peer, there, size);
    while (gasnet_try_syncnb(handle) != GASNET_OK ||
        gasnet_try_syncnbi_gets() != GASNET_OK)
        continue;
}

static void data_memset(
    int way, gasnet_node_t peer, unsigned char *there, int value, size_t size)
{
    if (way == 0)
        gasnet_memset(peer, there, value, size);
    else if (way == 1)
        gasnet_wait_syncnb(gasnet_memset_nb(peer, there, value, size));
    else
        gasnet_memset_nbi(peer, there, value, size);
    gasnet_wait_syncnbi_all();
}

/* Each put, get and memset of one size: at odd addresses, and not a byte more
 * than that. */
static void data_move(
    gasnet_node_t peer, unsigned char *there, unsigned char *here, size_t size)
{
    int way;

    for (way = 0; way < 6; way++) {
        unsigned seed = (unsigned) size + (unsigned) way;

        gasnet_put_val(peer, there + size, 0x5a, 1);
        data_fill(here, size, seed);
        if (way < 3)
            gasnet_wait_syncnb(data_put(way, peer, there, here, size));
        else
            data_put_bulk(way - 3, peer, there, here, size);
        gasnet_wait_syncnbi_puts();
        here[size] = 0xa5;
        data_get(way, peer, there, here, size);
        CHECK(data_is(here, size, seed) && here[size] == 0xa5);
        data_memset(way % 3, peer, there, way + 1, size);
        CHECK(gasnet_get_val(peer, there + size, 1) == 0x5a);
        if (size > 0) {
            CHECK(gasnet_get_val(peer, there, 1) == (unsigned) way + 1);
            CHECK(gasnet_get_val(peer, there + size - 1, 1) ==
                (unsigned) way + 1);
        }
    }
}

static void data_sizes(int argc, char *argv[])
{
    static const size_t sizes[] = {0, 1, 8, 64, 65, 65536, 65537, DATA_MOST};
    unsigned char *here = (unsigned char *) malloc(DATA_MOST + 2);
    gasnet_node_t peer;
    char *there;
    size_t i;

    data_start(argc, argv, (uintptr_t) 1 << 20);
    there = data_there(&peer);
    CHECK(here != NULL);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        data_move(peer, (unsigned char *) there + 3, here + 1, sizes[i]);
    BARRIER();
    free(here);
    gasnet_exit(0);
}

/* ---- Threads ---- */

#define DATA_THREADS 4

/* Each thread has a part of the segment, and synchronizes its own operations
 * alone. */
static void *data_thread(void *arg)
{
    size_t number = (size_t) (uintptr_t) arg;
    gasnet_node_t peer;
    uint64_t *there = (uint64_t *) (void *) data_there(&peer), here[16];
    unsigned i, j, rounds = jobs_is_full() ? 500 : 20;

    there += number * 16;
    for (i = 0; i < rounds; i++) {
        gasnet_handle_t handle = gasnet_put_nb_val(peer, there, i, 8);

        for (j = 1; j < 16; j++)
            gasnet_put_nbi_val(peer, &there[j], i + j, 8);
        gasnet_wait_syncnb(handle);
        gasnet_wait_syncnbi_puts();
        gasnet_get_nbi(here, peer, there, sizeof(here));
        gasnet_wait_syncnbi_gets();
        for (j = 0; j < 16; j++)
            CHECK(here[j] == i + j);
    }
    return NULL;
}

static void data_threads(int argc, char *argv[])
{
    pthread_t threads[DATA_THREADS];
    uintptr_t i;

    data_start(argc, argv, GASNET_PAGESIZE);
    for (i = 0; i < DATA_THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, data_thread, (void *) i) == 0);
    for (i = 0; i < DATA_THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    BARRIER();
    gasnet_exit(0);
}

const struct jobs_case jobs_data[] = {{"sparse", data_sparse},
    {"in_flight", data_in_flight}, {"values", data_values},
    {"sizes", data_sizes}, {"threads", data_threads}, {NULL, NULL}};
