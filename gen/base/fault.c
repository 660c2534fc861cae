/* SPDX-License-Identifier: BSD-3-Clause */
/* fault: see fault.h. */
#include "base/fault.h"

#define HG_FAULT_PAGE ((uintptr_t) 4096) /* pages are at least that large */

#ifndef MADV_POPULATE_READ /* Linux 5.14; older kernels return an error */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* Make pages accessible. False: they are not, or the kernel cannot tell. */
static bool hg_fault_populate(const void *memory, size_t size, bool write)
{
#ifdef SYS_process_vm_readv
    uintptr_t within = (uintptr_t) memory % (uintptr_t) sysconf(_SC_PAGESIZE);

    return madvise((void *) ((uintptr_t) memory - within), size + within,
               write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
#else
    (void) memory;
    (void) size;
    (void) write;
    return false;
#endif
}

/* Copy within this process by the kernel. */
static ssize_t hg_fault_move(void *to, const void *from, size_t size)
{
#ifdef SYS_process_vm_readv
    struct iovec local = {to, size};
    struct iovec remote = {(void *) (uintptr_t) from, size};

    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
#else
    (void) to;
    (void) from;
    (void) size;
    errno = ENOSYS;
    return -1;
#endif
}

/* A byte of the next page; NULL: `at` is in the last one. */
static const char *hg_fault_next(const char *at, const char *end)
{
    uintptr_t left = HG_FAULT_PAGE - (uintptr_t) at % HG_FAULT_PAGE;

    return (uintptr_t) (end - at) > left ? at + left : NULL;
}

/* Make the kernel read at that place. If process_vm_readv is denied, it reads a
 * set of signals, and then finds that it is not told what to do with it. */
static bool hg_fault_can_read_at(const char *at)
{
    enum { SET = 8 }; /* bytes of the kernel's set; elsewhere an error, too */
    const char *set = at - (uintptr_t) at % SET; /* in the same page */
    char byte;

    if (hg_fault_move(&byte, at, 1) >= 0)
        return true;
#ifdef SYS_rt_sigprocmask
    if (errno != EFAULT)
        (void) syscall(SYS_rt_sigprocmask, -1, set, NULL, SET);
#endif
    return errno != EFAULT;
}

HG_PRIVATE bool hg_fault_can_read(const void *memory, size_t size)
{
    const char *at = (const char *) memory;
    const char *end = at + size;

    if (size == 0 || hg_fault_populate(memory, size, false))
        return true;
    while (at != NULL && hg_fault_can_read_at(at))
        at = hg_fault_next(at, end);
    return at == NULL;
}

/* Copy a byte onto itself. */
static bool hg_fault_can_write_at(const char *at)
{
    return hg_fault_move((void *) (uintptr_t) at, at, 1) >= 0 ||
        errno != EFAULT;
}

HG_PRIVATE bool hg_fault_can_write(void *memory, size_t size)
{
    const char *at = (const char *) memory;
    const char *end = at + size;

    if (size == 0 || hg_fault_populate(memory, size, true))
        return true;
    while (at != NULL && hg_fault_can_write_at(at))
        at = hg_fault_next(at, end);
    return at == NULL;
}

HG_PRIVATE bool hg_fault_copy(void *to, const void *from, size_t size)
{
    char *target = (char *) to;
    const char *source = (const char *) from;

    while (size > 0) {
        ssize_t moved = hg_fault_move(target, source, size);

        if (moved < 0 && errno == EFAULT)
            return false;
        if (moved <= 0) { /* the system denies it, or has no such call */
            if (!hg_fault_can_read(source, size) ||
                !hg_fault_can_read(target, size))
                return false;
            memcpy(target, source, size);
            return true;
        }
        target += moved;
        source += moved;
        size -= (size_t) moved;
    }
    return true;
}

HG_PRIVATE bool hg_fault_copy_run(
    void *to, const void *from, size_t size, const void *run, uintptr_t *page_p)
{
    uintptr_t first = (uintptr_t) run / HG_FAULT_PAGE;
    uintptr_t last = ((uintptr_t) run + size - 1) / HG_FAULT_PAGE;

    assert(size > 0 && (run == to || run == from));
    if ((first == *page_p && last == first) ||
        hg_fault_populate(run, size, run == to)) {
        memcpy(to, from, size);
        *page_p = last;
        return true;
    }
    *page_p = last;
    return hg_fault_copy(to, from, size);
}
