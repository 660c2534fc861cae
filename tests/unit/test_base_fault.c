/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault: checks of memory with an inaccessible page, at every place around that
 * page. They leave nothing in the pipe.
 */
#include "support/library.h"

#include "harness.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define FAULT_SECONDS 50u /* a child that takes longer hangs */

enum { FAULT_SMALL = 40 };

struct fault_pages {
    size_t page;
    char *memory; /* three pages: the middle one has another protection */
    char *edges[2];
};

static void fault_open(struct fault_pages *pages, int protection)
{
    if (hg_test_is_valgrind())
        hg_test_skip("valgrind reports each access that the kernel refuses");
    HG_CHECK_OK(hg_fault_open());
    pages->page = (size_t) sysconf(_SC_PAGESIZE);
    pages->memory = (char *) mmap(NULL, 3 * pages->page, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HG_CHECK(pages->memory != MAP_FAILED);
    memset(pages->memory, 'p', 3 * pages->page);
    pages->edges[0] = pages->memory + pages->page;
    pages->edges[1] = pages->memory + 2 * pages->page;
    HG_CHECK(mprotect(pages->edges[0], pages->page, protection) == 0);
}

static void fault_close(struct fault_pages *pages)
{
    int left = -1;

    HG_CHECK(munmap(pages->memory, 3 * pages->page) == 0);
    HG_CHECK(ioctl(hg_fault_pipe[0], FIONREAD, &left) == 0);
    HG_CHECK_EQ_INT(left, 0);
    hg_fault_close();
    HG_CHECK_EQ_INT(hg_fault_pipe[0], -1);
}

/* Whether no byte is in the middle page. */
static bool fault_is_outside(
    const struct fault_pages *pages, const char *at, size_t size)
{
    return size == 0 || at + size <= pages->edges[0] || at >= pages->edges[1];
}

static void fault_try(const struct fault_pages *pages, char *at, size_t size,
    bool reads, bool writes)
{
    char buf[FAULT_SMALL];
    bool outside = fault_is_outside(pages, at, size);
    uintptr_t page = 0;

    memset(buf, 'b', sizeof(buf));
    HG_CHECK_EQ_INT(hg_fault_can_read(at, size), outside || reads);
    if (size > 0)
        HG_CHECK_EQ_INT(
            hg_fault_copy_run(buf, at, size, at, &page), outside || reads);
    if (size > 0 && (outside || reads))
        HG_CHECK(buf[0] == 'p' && buf[size - 1] == 'p');
    HG_CHECK(size == sizeof(buf) || buf[size] == 'b');
    page = 0;
    if (size > 0)
        HG_CHECK_EQ_INT(
            hg_fault_copy_run(at, buf, size, at, &page), outside || writes);
    HG_CHECK_EQ_INT(hg_fault_can_write(at, size), outside || writes);
}

HG_TEST(fault_is_found_at_every_place)
{
    static const struct {
        int protection;
        bool reads, writes;
    } kinds[] = {{PROT_NONE, false, false}, {PROT_READ, true, false},
        {PROT_READ | PROT_WRITE, true, true}};
    struct fault_pages pages;
    size_t size, kind, edge;
    int from;

    for (kind = 0; kind < 3; kind++)
        for (size = 0; size <= FAULT_SMALL; size++)
            for (edge = 0; edge < 2; edge++)
                for (from = -FAULT_SMALL; from <= FAULT_SMALL; from += 5) {
                    fault_open(&pages, kinds[kind].protection);
                    fault_try(&pages, pages.edges[edge] + from, size,
                        kinds[kind].reads, kinds[kind].writes);
                    fault_close(&pages);
                }
}

/* A check looks at each page, also of more than it takes at once. */
HG_TEST(fault_is_found_in_each_page)
{
    enum { COUNT = 2 * HG_FAULT_STEP + 1 };
    struct fault_pages pages;
    char *memory;
    size_t page, i;

    fault_open(&pages, PROT_NONE);
    page = pages.page;
    HG_CHECK(!hg_fault_can_read(pages.memory, 3 * page));
    HG_CHECK(!hg_fault_can_write(pages.memory, 3 * page));
    memory = (char *) mmap(NULL, COUNT * page, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HG_CHECK(memory != MAP_FAILED);
    for (i = 0; i < COUNT; i++) {
        HG_CHECK(mprotect(memory + i * page, page, PROT_NONE) == 0);
        HG_CHECK(!hg_fault_can_read(memory + 1, COUNT * page - 1));
        HG_CHECK(!hg_fault_can_write(memory + 1, COUNT * page - 1));
        HG_CHECK(
            mprotect(memory + i * page, page, PROT_READ | PROT_WRITE) == 0);
    }
    HG_CHECK(hg_fault_can_read(memory, COUNT * page));
    HG_CHECK(hg_fault_can_write(memory, COUNT * page));
    HG_CHECK(munmap(memory, COUNT * page) == 0);
    fault_close(&pages);
}

/* If the pipe is full, nothing is known, and nothing is taken out of it. */
HG_TEST(fault_is_not_found_while_the_pipe_is_full)
{
    static const char more[4096] = {0};
    struct fault_pages pages;
    ssize_t filled = 0, put;
    char bytes[sizeof(more)];

    fault_open(&pages, PROT_NONE);
    while ((put = write(hg_fault_pipe[1], more, sizeof(more))) > 0)
        filled += put;
    HG_CHECK(hg_fault_can_write(pages.edges[0], 1));
    HG_CHECK(hg_fault_can_read(pages.memory, 1));
    for (; filled > 0; filled -= put)
        HG_CHECK((put = read(hg_fault_pipe[0], bytes, sizeof(bytes))) > 0);
    fault_close(&pages);
}

/* Runs of one page need no call of the kernel after the first; the page after
 * it does. */
HG_TEST(fault_is_found_in_the_run_after_a_page)
{
    struct fault_pages pages;
    uintptr_t page = 0;
    char buf[FAULT_SMALL];
    char *at;

    fault_open(&pages, PROT_NONE);
    for (at = pages.memory; at + 32 <= pages.edges[0]; at += 32)
        HG_CHECK(hg_fault_copy_run(buf, at, 32, at, &page));
    HG_CHECK(!hg_fault_copy_run(buf, at, 32, at, &page));
    page = 0;
    for (at = pages.memory; at + 32 <= pages.edges[0]; at += 32)
        HG_CHECK(hg_fault_copy_run(at, buf, 32, at, &page));
    HG_CHECK(!hg_fault_copy_run(at, buf, 32, at, &page));
    fault_close(&pages);
}

/* ---- Fork ---- */

static _Atomic int fault_step; /* 1: the mutex is locked; 2: fork has begun */

static void fault_note_fork(void)
{
    atomic_store(&fault_step, 2);
}

static void *fault_hold(void *arg)
{
    (void) arg;
    hg_lock(&hg_fault_mutex);
    atomic_store(&fault_step, 1);
    while (atomic_load(&fault_step) == 1)
        (void) sched_yield();
    (void) usleep(10000); /* until the fork waits for the mutex */
    hg_unlock(&hg_fault_mutex);
    return NULL;
}

HG_TEST(child_opens_the_pipe_that_another_thread_was_opening)
{
    pthread_t thread;
    pid_t child;
    int status = -1;

    HG_CHECK_OK(hg_fault_open());
    HG_CHECK(pthread_atfork(fault_note_fork, NULL, NULL) == 0);
    HG_CHECK(pthread_create(&thread, NULL, fault_hold, NULL) == 0);
    while (atomic_load(&fault_step) == 0)
        (void) sched_yield();
    child = fork();
    HG_CHECK(child >= 0);
    if (child == 0) {
        (void) alarm(FAULT_SECONDS);
        (void) syscall(SYS_exit_group, hg_fault_open());
    }
    HG_CHECK(waitpid(child, &status, 0) == child);
    HG_CHECK_EQ_INT(status, 0);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    hg_fault_close();
}
