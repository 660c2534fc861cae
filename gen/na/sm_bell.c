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

/* The kernel names what has no path, as nothing that has one is named. Where
 * /proc is not to be had: what has no kind of file is none of the file
 * system's, and no socket, nor a pipe. */
static bool na_sm_bell_is_eventfd(int fd)
{
    char link[48], name[32];
    struct stat is;
    ssize_t size;

    (void) snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", fd);
    size = readlink(link, name, sizeof(name) - 1);
    if (size < 0)
        return fstat(fd, &is) == 0 && (is.st_mode & S_IFMT) == 0;
    name[size] = '\0';
    return strcmp(name, "anon_inode:[eventfd]") == 0;
}

HG_PRIVATE bool na_sm_bell_is_one(int fd)
{
    int mode = fcntl(fd, F_GETFL);

    return (mode & O_NONBLOCK) != 0 && na_sm_bell_is_eventfd(fd);
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
