/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * step: hg.c with a hook at each step of the transport sm at which another
 * process could see a difference: each atomic operation and each system call of
 * a function whose name begins with na_sm_. The library is unchanged: the
 * macros below replace these operations in the test program. A test counts the
 * steps, waits there, or dies there.
 *
 * Included first, as support/library.h is.
 */
#ifndef HG_TESTS_STEP_H
#define HG_TESTS_STEP_H

#define _GNU_SOURCE 1

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Called at each step; NULL: nothing. Set it while no class is open. */
static void (*step_hook)(const char *function, unsigned line);

static inline void step_at(const char *function, unsigned line)
{
    if (step_hook != NULL && strncmp(function, "na_sm_", 6) == 0)
        step_hook(function, line);
}

#define STEP_AT(operation) (step_at(__func__, __LINE__), operation)

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_fetch_or
#undef atomic_fetch_and

#ifdef __clang__
#define STEP_OF(name) __c11_##name
#else
#define STEP_OF(name) __##name##_n
#define __atomic_fetch_or_n __atomic_fetch_or
#define __atomic_fetch_and_n __atomic_fetch_and
#endif

#define atomic_load_explicit(at, order) STEP_AT(STEP_OF(atomic_load)(at, order))
#define atomic_load(at) atomic_load_explicit(at, __ATOMIC_SEQ_CST)
#define atomic_store_explicit(at, value, order) \
    STEP_AT(STEP_OF(atomic_store)(at, value, order))
#define atomic_store(at, value) \
    atomic_store_explicit(at, value, __ATOMIC_SEQ_CST)
#define atomic_exchange(at, value) \
    STEP_AT(STEP_OF(atomic_exchange)(at, value, __ATOMIC_SEQ_CST))
#define atomic_fetch_or(at, value) \
    STEP_AT(STEP_OF(atomic_fetch_or)(at, value, __ATOMIC_SEQ_CST))
#define atomic_fetch_and(at, value) \
    STEP_AT(STEP_OF(atomic_fetch_and)(at, value, __ATOMIC_SEQ_CST))

/* Without those that are also slots of a transport: open, close, poll. */
#define bind(...) STEP_AT(bind(__VA_ARGS__))
#define listen(...) STEP_AT(listen(__VA_ARGS__))
#define connect(...) STEP_AT(connect(__VA_ARGS__))
#define accept4(...) STEP_AT(accept4(__VA_ARGS__))
#define sendmsg(...) STEP_AT(sendmsg(__VA_ARGS__))
#define recvmsg(...) STEP_AT(recvmsg(__VA_ARGS__))
#define epoll_ctl(...) STEP_AT(epoll_ctl(__VA_ARGS__))
#define epoll_wait(...) STEP_AT(epoll_wait(__VA_ARGS__))
#define memfd_create(...) STEP_AT(memfd_create(__VA_ARGS__))
#define ftruncate(...) STEP_AT(ftruncate(__VA_ARGS__))
#define mmap(...) STEP_AT(mmap(__VA_ARGS__))
#define munmap(...) STEP_AT(munmap(__VA_ARGS__))
#define fcntl(...) STEP_AT(fcntl(__VA_ARGS__))
#define process_vm_readv(...) STEP_AT(process_vm_readv(__VA_ARGS__))
#define process_vm_writev(...) STEP_AT(process_vm_writev(__VA_ARGS__))

#include "support/library.h"

#include "harness.h"

#endif
