/* SPDX-License-Identifier: BSD-3-Clause */
/* fault: see fault.h. */
#include "base/fault.h"

#include "base/lock.h"
#include "base/log.h"

#define HG_FAULT_PAGE ((uintptr_t) 4096) /* pages are at least that large */
/* Pages of a step. A pipe takes so few bytes at once, or none of them. */
#define HG_FAULT_STEP 256

static pthread_mutex_t hg_fault_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned hg_fault_users; /* guarded by the mutex, as is opening */
static int hg_fault_pipe[2] = {-1, -1};
static pthread_once_t hg_fault_once = PTHREAD_ONCE_INIT;

/* ---- Fork ---- */

/* The child needs the mutex, so no other thread may have it. */
static void hg_fault_fork_prepare(void)
{
    hg_lock(&hg_fault_mutex);
}

static void hg_fault_fork_end(void)
{
    hg_unlock(&hg_fault_mutex);
}

static void hg_fault_watch_forks(void)
{
    hg_log_atfork(hg_fault_fork_prepare, hg_fault_fork_end, hg_fault_fork_end);
}

/* ---- The pipe ---- */

HG_PRIVATE hg_return_t hg_fault_open(void)
{
    hg_return_t ret = HG_SUCCESS;
    int i;

    (void) pthread_once(&hg_fault_once, hg_fault_watch_forks);
    hg_lock(&hg_fault_mutex);
    if (hg_fault_users == 0 && pipe(hg_fault_pipe) != 0)
        ret = hg_log_no_fd("rma", "checks of memory");
    else if (hg_fault_users++ == 0) {
        for (i = 0; i < 2; i++) {
            (void) fcntl(hg_fault_pipe[i], F_SETFD, FD_CLOEXEC);
            (void) fcntl(hg_fault_pipe[i], F_SETFL, O_NONBLOCK);
        }
    }
    hg_unlock(&hg_fault_mutex);
    return ret;
}

HG_PRIVATE void hg_fault_close(void)
{
    int i;

    hg_lock(&hg_fault_mutex);
    HG_ASSERT(hg_fault_users > 0);
    if (--hg_fault_users == 0) {
        for (i = 0; i < 2; i++) {
            (void) close(hg_fault_pipe[i]);
            hg_fault_pipe[i] = -1;
        }
    }
    hg_unlock(&hg_fault_mutex);
}

/* ---- Checks ---- */

/* Take bytes out of the pipe that this thread has put in. */
static void hg_fault_drain(ssize_t count)
{
    char bytes[HG_FAULT_STEP];

    HG_ASSERT(count <= HG_FAULT_STEP);
    if (count > 0 && read(hg_fault_pipe[0], bytes, (size_t) count) != count)
        HG_ASSERT(false); /* impossible: they are there */
}

/* Put `count` bytes of the application into the pipe. If it is full, nothing is
 * known. */
static bool hg_fault_put(const struct iovec *bytes, int count)
{
    ssize_t put = writev(hg_fault_pipe[1], bytes, count);

    if (put < 0)
        return errno != EFAULT;
    hg_fault_drain(put);
    return put == count;
}

/* Get `count` bytes of the pipe into memory of the application. */
static bool hg_fault_get(const struct iovec *bytes, int count)
{
    static const char zeros[HG_FAULT_STEP] = {0};
    ssize_t got;

    if (write(hg_fault_pipe[1], zeros, (size_t) count) != count)
        return true;
    got = readv(hg_fault_pipe[0], bytes, count);
    hg_fault_drain(count - (got > 0 ? got : 0));
    return got == count;
}

/* Check a byte of each page. */
static bool hg_fault_check(const void *memory, size_t size, bool writes)
{
    struct iovec bytes[HG_FAULT_STEP];
    const char *at = (const char *) memory;
    bool good = true;

    while (good && size > 0) {
        int count;

        for (count = 0; size > 0 && count < HG_FAULT_STEP; count++) {
            size_t left = HG_FAULT_PAGE - (uintptr_t) at % HG_FAULT_PAGE;

            bytes[count].iov_base = (void *) (uintptr_t) at;
            bytes[count].iov_len = 1;
            if (left > size)
                left = size;
            at += left;
            size -= left;
        }
        good = writes ? hg_fault_get(bytes, count) : hg_fault_put(bytes, count);
    }
    return good;
}

HG_PRIVATE bool hg_fault_can_read(const void *memory, size_t size)
{
    return hg_fault_check(memory, size, false);
}

HG_PRIVATE bool hg_fault_can_write(void *memory, size_t size)
{
    return hg_fault_check(memory, size, true);
}

HG_PRIVATE bool hg_fault_copy_run(
    void *to, const void *from, size_t size, const void *run, uintptr_t *page_p)
{
    uintptr_t first = (uintptr_t) run / HG_FAULT_PAGE;
    uintptr_t last = ((uintptr_t) run + size - 1) / HG_FAULT_PAGE;

    HG_ASSERT(size > 0 && (run == to || run == from));
    if ((first != *page_p || last != first) &&
        !hg_fault_check(run, size, run == to))
        return false;
    *page_p = last;
    memcpy(to, from, size);
    return true;
}
