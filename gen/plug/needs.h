/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors and threads that a foreign library is about to need. libzmq, MPI
 * and some providers of libfabric end the process if they get none, so a class
 * is refused before. Other threads of the process may still take them in
 * between.
 */
#ifndef HG_GEN_PLUG_NEEDS_H
#define HG_GEN_PLUG_NEEDS_H

#include "plug/plug.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

/* Why a peer cannot be reached. */
#define NA_PLUG_NO_FD "no descriptor is free; raise the limit (ulimit -n)"
#define NA_PLUG_NEEDS_FDS 16    /* at most */
#define NA_PLUG_NEEDS_THREADS 4 /* at most */

/* Whether so many descriptors are free; if not, errno says why. If a filter of
 * the system forbids the attempt, they are taken for free. */
static inline NA_PLUG_PERHAPS bool na_plug_has_fds(unsigned count)
{
    int fds[NA_PLUG_NEEDS_FDS];
    unsigned n = 0;
    int error;
    bool good;

    HG_ASSERT(count >= 1 && count <= NA_PLUG_NEEDS_FDS);
    do
        fds[n] = n == 0 ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
                        : fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
    while (fds[n] >= 0 && ++n < count);
    error = errno;
    good = n == count ||
        (error != EMFILE && error != ENFILE && error != ENOBUFS &&
            error != ENOMEM);
    while (n > 0)
        (void) close(fds[--n]);
    errno = error;
    return good;
}

/* A thread that only shows that it can exist. */
struct na_plug_probe {
    pthread_t thread;
    pthread_mutex_t *lock; /* held until all of them exist */
    long tid;              /* Linux: the kernel's number */
};

static inline NA_PLUG_PERHAPS void *na_plug_probe_run(void *arg)
{
    struct na_plug_probe *probe = (struct na_plug_probe *) arg;

#ifdef __linux__
    probe->tid = syscall(SYS_gettid);
#endif
    (void) pthread_mutex_lock(probe->lock);
    (void) pthread_mutex_unlock(probe->lock);
    return NULL;
}

/* Linux counts a thread for some time after pthread_join has returned. */
static inline NA_PLUG_PERHAPS void na_plug_probe_end(
    const struct na_plug_probe *probe)
{
    (void) pthread_join(probe->thread, NULL);
#ifdef __linux__
    while (syscall(SYS_tgkill, getpid(), probe->tid, 0) == 0)
        (void) sched_yield();
#endif
}

/* Whether so many threads can exist in addition; if not, errno says why. They
 * block signals, so that no handler of the application runs in them. */
static inline NA_PLUG_PERHAPS bool na_plug_has_threads(unsigned count)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct na_plug_probe probes[NA_PLUG_NEEDS_THREADS];
    sigset_t all, before;
    unsigned n = 0;
    int error = 0;
    bool good;

    HG_ASSERT(count >= 1 && count <= NA_PLUG_NEEDS_THREADS);
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    (void) pthread_mutex_lock(&lock);
    while (n < count && error == 0) {
        probes[n].lock = &lock;
        error = pthread_create(
            &probes[n].thread, NULL, na_plug_probe_run, &probes[n]);
        n += error == 0;
    }
    good = n == count;
    (void) pthread_mutex_unlock(&lock);
    while (n > 0)
        na_plug_probe_end(&probes[--n]);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void) pthread_mutex_destroy(&lock);
    errno = error;
    return good;
}

/* Check what a class is going to need; `threads` may be 0. NA_AGAIN, logged:
 * there are not so many. */
static inline NA_PLUG_PERHAPS na_return_t na_plug_check_needs(
    const struct na_class *na_class, const char *subsys, unsigned fds,
    unsigned threads)
{
    const struct na_core *core = na_class->core;
    struct rlimit limit;
    int error;

    if (!na_plug_has_fds(fds)) {
        error = errno;
        if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0)
            core->log(HG_LOG_LEVEL_ERROR, subsys,
                "no descriptors for a class, which needs %u: %s", fds,
                strerror(error));
        else
            core->log(HG_LOG_LEVEL_ERROR, subsys,
                "no descriptors for a class, which needs %u: the limit nofile "
                "is %" PRIu64 "; raise it (ulimit -n)",
                fds, (uint64_t) limit.rlim_cur);
        return NA_AGAIN;
    }
    if (threads == 0 || na_plug_has_threads(threads))
        return NA_SUCCESS;
    core->log(HG_LOG_LEVEL_ERROR, subsys,
        "no threads for a class, which needs %u: %s; raise the limit of "
        "processes (ulimit -u) or of the cgroup",
        threads, strerror(errno));
    return NA_AGAIN;
}

#endif
