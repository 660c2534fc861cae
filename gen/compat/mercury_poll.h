/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of descriptors to wait for, by epoll. */
#ifndef HG_COMPAT_MERCURY_POLL_H
#define HG_COMPAT_MERCURY_POLL_H

#include "mercury_atomic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define HG_POLLIN (1 << 0)
#define HG_POLLOUT (1 << 1)
#define HG_POLLERR (1 << 2)
#define HG_POLLHUP (1 << 3)
#define HG_POLLINTR (1 << 4) /* a signal ended the wait */

typedef union hg_poll_data {
    void *ptr;
    int fd;
    uint32_t u32;
    uint64_t u64;
} hg_poll_data_t;

struct hg_poll_event {
    uint32_t events; /* HG_POLL... */
    hg_poll_data_t data;
};

typedef struct hg_poll_set {
    int fd;
    hg_atomic_int32_t count; /* number of descriptors */
} hg_poll_set_t;

#ifdef __cplusplus
extern "C" {
#endif

static HG_UTIL_INLINE hg_poll_set_t *hg_poll_create(void)
{
    hg_poll_set_t *poll_set = (hg_poll_set_t *) malloc(sizeof(*poll_set));

    if (poll_set == NULL)
        return NULL;
    poll_set->fd = epoll_create1(0);
    if (poll_set->fd == -1) {
        free(poll_set);
        return NULL;
    }
    hg_atomic_init32(&poll_set->count, 0);
    return poll_set;
}

/* HG_UTIL_FAIL: the set is not empty. */
static HG_UTIL_INLINE int hg_poll_destroy(hg_poll_set_t *poll_set)
{
    if (poll_set == NULL)
        return HG_UTIL_SUCCESS;
    if (hg_atomic_get32(&poll_set->count) > 0 || close(poll_set->fd) == -1)
        return HG_UTIL_FAIL;
    free(poll_set);
    return HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_poll_get_fd(const hg_poll_set_t *poll_set)
{
    return poll_set->fd;
}

static HG_UTIL_INLINE int hg_poll_add(
    hg_poll_set_t *poll_set, int fd, struct hg_poll_event *event)
{
    struct epoll_event ev;

    memset(&ev, 0, sizeof(ev));
    if (event->events & HG_POLLIN)
        ev.events |= EPOLLIN;
    if (event->events & HG_POLLOUT)
        ev.events |= EPOLLOUT;
    ev.data.u64 = event->data.u64;
    if (epoll_ctl(poll_set->fd, EPOLL_CTL_ADD, fd, &ev) == -1)
        return HG_UTIL_FAIL;
    (void) hg_atomic_incr32(&poll_set->count);
    return HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE int hg_poll_remove(hg_poll_set_t *poll_set, int fd)
{
    if (epoll_ctl(poll_set->fd, EPOLL_CTL_DEL, fd, NULL) == -1)
        return HG_UTIL_FAIL;
    (void) hg_atomic_decr32(&poll_set->count);
    return HG_UTIL_SUCCESS;
}

/* The first `max_events` events, at most 64, within `timeout` ms. A signal is
 * one event, HG_POLLINTR. */
static HG_UTIL_INLINE int hg_poll_wait(hg_poll_set_t *poll_set,
    unsigned int timeout, unsigned int max_events,
    struct hg_poll_event events[], unsigned int *actual_events)
{
    struct epoll_event got[64];
    int i,
        count = epoll_wait(poll_set->fd, got,
            max_events < 64 ? (int) max_events : 64, (int) timeout);

    if (count == -1 && errno == EINTR) {
        events[0].events = HG_POLLINTR;
        events[0].data.u64 = 0;
        *actual_events = 1;
        return HG_UTIL_SUCCESS;
    }
    if (count == -1)
        return HG_UTIL_FAIL;
    for (i = 0; i < count; i++) {
        events[i].events = 0;
        events[i].data.u64 = got[i].data.u64;
        if (got[i].events & EPOLLIN)
            events[i].events |= HG_POLLIN;
        if (got[i].events & EPOLLOUT)
            events[i].events |= HG_POLLOUT;
        if (got[i].events & EPOLLERR)
            events[i].events |= HG_POLLERR;
        else if (got[i].events & EPOLLHUP)
            events[i].events |= HG_POLLHUP;
    }
    *actual_events = (unsigned int) count;
    return HG_UTIL_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif
