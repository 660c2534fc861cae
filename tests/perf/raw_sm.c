/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes that share memory, without hg; see raw_sm.h for the purpose.
 *
 * Two rings of slots, one for each direction, and a count of the slots written
 * so far. A round begins with an eventfd, on which the peer sleeps, and ends
 * with a request of size 0, which is answered, too.
 */
#define _GNU_SOURCE /* for process_vm_readv */

#include "raw_sm.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RAW_SM_SLOTS 128 /* of a ring; more than are in flight */

/* One direction. */
struct raw_sm_ring {
    _Alignas(64) _Atomic uint64_t tail; /* slots written so far */
    _Alignas(64) unsigned char slots[RAW_SM_SLOTS][RAW_SM_SIZE_MAX];
};

struct raw_sm_shared {
    struct raw_sm_ring there;
    struct raw_sm_ring back;
    _Alignas(64) _Atomic uint64_t size; /* of a request; 0: the round ends */
    _Atomic bool once;                  /* with each request */
    _Alignas(4096) unsigned char region[RAW_SM_REGION];
};

struct raw_sm {
    struct raw_sm_shared *shared;
    unsigned char *copy; /* RAW_SM_REGION bytes of ours */
    uint64_t asked;      /* since the start */
    pid_t peer;
    int order; /* the eventfd */
};

static int raw_sm_fail(const char *what)
{
    fprintf(stderr, "raw_sm: %s: %s\n", what, strerror(errno));
    return -1;
}

static double raw_sm_now(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

static void raw_sm_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void *raw_sm_map(size_t size)
{
    void *memory = mmap(
        NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory != MAP_FAILED)
        return memory;
    (void) raw_sm_fail("mmap");
    return NULL;
}

/* Wait without sleeping until more than `n` slots were written. */
static uint64_t raw_sm_await(struct raw_sm_ring *ring, uint64_t n)
{
    uint64_t tail;

    while (
        (tail = atomic_load_explicit(&ring->tail, memory_order_acquire)) == n)
        raw_sm_relax();
    return tail;
}

/* Wait for a sleeper that was woken: it may be on this processor, so yield. */
static void raw_sm_await_sleeper(struct raw_sm_ring *ring, uint64_t n)
{
    unsigned turns = 0;

    while (atomic_load_explicit(&ring->tail, memory_order_acquire) == n) {
        if (++turns % 32 == 0)
            (void) sched_yield();
        raw_sm_relax();
    }
}

/* ---- The peer ---- */

/* Answer every request with its bytes until the round ends. */
static uint64_t raw_sm_serve_round(struct raw_sm_shared *shared, uint64_t n)
{
    unsigned char mine[RAW_SM_SIZE_MAX];
    size_t size;

    do {
        (void) raw_sm_await(&shared->there, n);
        size =
            (size_t) atomic_load_explicit(&shared->size, memory_order_relaxed);
        memcpy(mine, shared->there.slots[n % RAW_SM_SLOTS], size);
        memcpy(shared->back.slots[n % RAW_SM_SLOTS], mine, size);
        n++;
        atomic_store_explicit(&shared->back.tail, n, memory_order_release);
    } while (size > 0 && !atomic_load(&shared->once));
    return n;
}

static void raw_sm_serve(struct raw_sm_shared *shared, int orders)
{
    uint64_t n = 0;
    eventfd_t order;

    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    memset(shared->region, 6, RAW_SM_REGION);
    while (eventfd_read(orders, &order) == 0)
        n = raw_sm_serve_round(shared, n);
}

/* ---- The client ---- */

static int raw_sm_fork(struct raw_sm *raw)
{
    int order = eventfd(0, 0);

    if (order < 0)
        return raw_sm_fail("eventfd");
    raw->peer = fork();
    if (raw->peer == 0) {
        raw_sm_serve(raw->shared, order);
        _exit(0);
    }
    if (raw->peer < 0) {
        (void) close(order);
        return raw_sm_fail("fork");
    }
    raw->order = order;
    return 0;
}

int raw_sm_open(struct raw_sm **raw_p)
{
    struct raw_sm *raw = (struct raw_sm *) calloc(1, sizeof(*raw));

    if (raw == NULL)
        return raw_sm_fail("calloc");
    raw->order = -1;
    raw->shared = (struct raw_sm_shared *) raw_sm_map(sizeof(*raw->shared));
    raw->copy = (unsigned char *) raw_sm_map(RAW_SM_REGION);
    if (raw->shared == NULL || raw->copy == NULL || raw_sm_fork(raw) != 0) {
        raw_sm_close(raw);
        return -1;
    }
    memset(raw->copy, 1, RAW_SM_REGION);
    *raw_p = raw;
    return 0;
}

void raw_sm_close(struct raw_sm *raw)
{
    if (raw == NULL)
        return;
    if (raw->order >= 0) {
        (void) close(raw->order);
        (void) kill(raw->peer, SIGKILL);
        (void) waitpid(raw->peer, NULL, 0);
    }
    if (raw->shared != NULL)
        (void) munmap(raw->shared, sizeof(*raw->shared));
    if (raw->copy != NULL)
        (void) munmap(raw->copy, RAW_SM_REGION);
    free(raw);
}

static void raw_sm_ask(struct raw_sm *raw, const void *bytes, size_t size)
{
    struct raw_sm_ring *there = &raw->shared->there;

    memcpy(there->slots[raw->asked % RAW_SM_SLOTS], bytes, size);
    raw->asked++;
    atomic_store_explicit(&there->tail, raw->asked, memory_order_release);
}

int raw_sm_echo(struct raw_sm *raw, size_t size, unsigned window,
    double seconds, double *per_op_p)
{
    unsigned char mine[RAW_SM_SIZE_MAX];
    const uint64_t before = raw->asked;
    uint64_t heard = before;
    double begin;
    double now;

    if (size == 0 || size > RAW_SM_SIZE_MAX || window == 0 ||
        window > RAW_SM_WINDOW_MAX) {
        errno = EINVAL;
        return raw_sm_fail("echo");
    }
    memset(mine, 7, sizeof(mine));
    atomic_store(&raw->shared->size, size);
    atomic_store(&raw->shared->once, false);
    if (eventfd_write(raw->order, 1) != 0)
        return raw_sm_fail("cannot begin a round");
    /* The first wakes the peer, and is not counted. */
    raw_sm_ask(raw, mine, size);
    heard = raw_sm_await(&raw->shared->back, heard);
    begin = now = raw_sm_now();
    while (now - begin < seconds || heard < raw->asked) {
        uint64_t there;

        while (raw->asked - heard < window && now - begin < seconds)
            raw_sm_ask(raw, mine, size);
        there = raw_sm_await(&raw->shared->back, heard);
        for (; heard < there; heard++)
            memcpy(mine, raw->shared->back.slots[heard % RAW_SM_SLOTS], size);
        if (heard % 256 < window)
            now = raw_sm_now();
    }
    now = raw_sm_now();
    *per_op_p = (now - begin) / (double) (raw->asked - before - 1);
    atomic_store(&raw->shared->size, 0);
    raw_sm_ask(raw, mine, 0);
    (void) raw_sm_await(&raw->shared->back, heard);
    return 0;
}

int raw_sm_wake(struct raw_sm *raw, double seconds, double *per_op_p)
{
    const struct timespec nap = {0, RAW_SM_NAP * 1000};
    const double until = raw_sm_now() + seconds;
    unsigned char mine[64];
    double spent = 0;
    uint64_t count = 0;

    memset(mine, 7, sizeof(mine));
    atomic_store(&raw->shared->size, sizeof(mine));
    atomic_store(&raw->shared->once, true);
    while (raw_sm_now() < until) {
        uint64_t heard = raw->asked;
        double begin;

        (void) nanosleep(&nap, NULL);
        begin = raw_sm_now();
        raw_sm_ask(raw, mine, sizeof(mine));
        if (eventfd_write(raw->order, 1) != 0)
            return raw_sm_fail("cannot wake the peer");
        raw_sm_await_sleeper(&raw->shared->back, heard);
        memcpy(
            mine, raw->shared->back.slots[heard % RAW_SM_SLOTS], sizeof(mine));
        spent += raw_sm_now() - begin;
        count++;
    }
    *per_op_p = spent / (double) count;
    return 0;
}

int raw_sm_copy(struct raw_sm *raw, enum raw_sm_way way, size_t size,
    double seconds, double *per_op_p)
{
    const double begin = raw_sm_now();
    double now = begin;
    uint64_t count = 0;

    if (size == 0 || size > RAW_SM_REGION) {
        errno = EINVAL;
        return raw_sm_fail("copy");
    }
    while (now - begin < seconds) {
        struct iovec mine = {raw->copy, size};
        struct iovec theirs = {raw->shared->region, size};

        if (way == RAW_SM_MEMCPY)
            memcpy(mine.iov_base, theirs.iov_base, size);
        else if (process_vm_readv(raw->peer, &mine, 1, &theirs, 1, 0) !=
            (ssize_t) size)
            return raw_sm_fail("process_vm_readv");
        count++;
        now = raw_sm_now();
    }
    *per_op_p = (now - begin) / (double) count;
    return 0;
}
