/* SPDX-License-Identifier: BSD-3-Clause */
/* sm_bell: see sm_bell.h. */
#include "na/sm_bell.h"

#if HG_ENABLE_SM

HG_PRIVATE int na_sm_bell_open(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

HG_PRIVATE bool na_sm_bell_watch(int epoll_fd, int bell, void *what)
{
    struct epoll_event event;

    memset(&event, 0, sizeof(event));
    event.events = EPOLLIN | EPOLLET;
    event.data.ptr = what;
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, bell, &event) == 0;
}

/* What has no kind of file is none of the file system's, and no socket, nor a
 * pipe; of these descriptors none but an eventfd takes eight bytes. */
HG_PRIVATE bool na_sm_bell_is_one(int fd)
{
    struct stat is;
    int mode = fcntl(fd, F_GETFL);

    return mode >= 0 && (mode & O_NONBLOCK) != 0 && fstat(fd, &is) == 0 &&
        (is.st_mode & S_IFMT) == 0;
}

HG_PRIVATE void na_sm_bell_ring(int bell)
{
    static const uint64_t once = 1;
    ssize_t written;

    do
        written = write(bell, &once, sizeof(once));
    while (written < 0 && errno == EINTR);
}

#endif
