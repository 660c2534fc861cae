/* SPDX-License-Identifier: BSD-3-Clause */
/* A descriptor that is readable while it is set: an eventfd. */
#ifndef HG_COMPAT_MERCURY_EVENT_H
#define HG_COMPAT_MERCURY_EVENT_H

#include "mercury_util_config.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -1: the system refuses. */
static HG_UTIL_INLINE int hg_event_create(void)
{
    return eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE);
}

static HG_UTIL_INLINE int hg_event_destroy(int fd)
{
    return close(fd) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

static HG_UTIL_INLINE int hg_event_set(int fd)
{
    return eventfd_write(fd, 1) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/* Reset the event after one hg_event_set, if there was one. */
static HG_UTIL_INLINE int hg_event_get(int fd, bool *notified)
{
    eventfd_t count;

    if (eventfd_read(fd, &count) == 0)
        *notified = true;
    else if (errno == EAGAIN)
        *notified = false;
    else
        return HG_UTIL_FAIL;
    return HG_UTIL_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif
