/* SPDX-License-Identifier: BSD-3-Clause */
/* server_path: see server_path.h. */
#define _GNU_SOURCE 1
#include "server_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

int path_check(const char *name)
{
    size_t length = name == NULL ? 0 : strlen(name);

    if (length > FWD_NAME_MAX)
        return -ENAMETOOLONG;
    if (length == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        strchr(name, '/') != NULL)
        return -EINVAL;
    return 0;
}

/* There is no openat2. Set before threads start. */
static bool path_walks;

static int path_open_at_once(
    int dir, const char *path, uint64_t flags, uint32_t mode)
{
    struct open_how how;

    memset(&how, 0, sizeof(how));
    how.flags = flags;
    how.mode = mode;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return (int) syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/* Open a name, which may be empty, of `length` bytes. */
static int path_step(
    int dir, const char *at, size_t length, uint64_t flags, uint32_t mode)
{
    char name[FWD_NAME_MAX + 1];

    if (length > FWD_NAME_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(name, at, length);
    name[length] = '\0';
    if (strcmp(name, "..") == 0) {
        errno = EXDEV;
        return -1;
    }
    return openat(dir, name, (int) flags, mode);
}

/* Without openat2: each folder is opened beneath the one before, and is no
 * link. So a link or folder that another program moves into the path does not
 * lead outside. */
static int path_walk(int dir, const char *path, uint64_t flags, uint32_t mode)
{
    const uint64_t folder = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    int at = dir;

    for (;;) {
        size_t length = strcspn(path, "/");
        bool last = path[length] == '\0';
        int next = path_step(at, path, length, last ? flags : folder, mode);
        int error = errno;

        if (at != dir)
            (void) close(at);
        errno = error;
        if (last || next < 0)
            return next;
        at = next;
        path += length + 1;
    }
}

int path_open(int dir, const char *path, uint64_t flags, uint32_t mode)
{
    int fd;

    flags |= O_CLOEXEC | O_NOFOLLOW;
    do
        fd = (path_walks ? path_walk : path_open_at_once)(
            dir, path, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

int path_check_root(int root)
{
    int fd = path_open(root, ".", O_PATH, 0);

    if (fd == -ENOSYS || fd == -EPERM) {
        path_walks = true;
        fd = path_open(root, ".", O_PATH, 0);
    }
    if (fd >= 0)
        (void) close(fd);
    return fd < 0 ? fd : 0;
}

int path_reopen(int fd, int flags)
{
    char path[PATH_PROC_SIZE];
    int again;

    path_of(fd, path);
    do
        again = open(path, flags | O_CLOEXEC | O_NOCTTY);
    while (again < 0 && errno == EINTR);
    return again < 0 ? -errno : again;
}

/* While it is held, only path_reopen_own changes modes. */
static pthread_mutex_t path_modes = PTHREAD_MUTEX_INITIALIZER;

int path_set_mode(int fd, uint32_t mode)
{
    char path[PATH_PROC_SIZE];
    int error = 0;

    path_of(fd, path);
    (void) pthread_mutex_lock(&path_modes);
    if (chmod(path, (mode_t) (mode & 07777)) != 0)
        error = -errno;
    (void) pthread_mutex_unlock(&path_modes);
    return error;
}

int path_reopen_own(int fd, int flags)
{
    char path[PATH_PROC_SIZE];
    struct stat status;
    int again = path_reopen(fd, flags);

    if (again != -EACCES || server.read_only)
        return again;
    path_of(fd, path);
    (void) pthread_mutex_lock(&path_modes);
    if (stat(path, &status) == 0 && status.st_uid == geteuid() &&
        chmod(path, (status.st_mode & 07777) | S_IRUSR | S_IWUSR) == 0) {
        again = path_reopen(fd, flags);
        (void) chmod(path, status.st_mode & 07777);
    }
    (void) pthread_mutex_unlock(&path_modes);
    return again;
}

void path_of(int fd, char path[PATH_PROC_SIZE])
{
    (void) snprintf(path, PATH_PROC_SIZE, "/proc/self/fd/%d", fd);
}

static fwd_time_t path_time(const struct statx_timestamp *time)
{
    fwd_time_t copy = {time->tv_sec, time->tv_nsec};

    return copy;
}

/* The inode number does not identify a file for ever: the file system gives the
 * number of a removed file to a new one. The time of birth tells them apart. */
static fwd_id_t path_id(const struct statx *status)
{
    fwd_id_t id = {makedev(status->stx_dev_major, status->stx_dev_minor),
        status->stx_ino, 0};

    if ((status->stx_mask & STATX_BTIME) != 0)
        id.born = (uint64_t) status->stx_btime.tv_sec * 1000000000u +
            status->stx_btime.tv_nsec;
    return id;
}

int path_status(int fd, const char *name, fwd_attr_t *attr, fwd_id_t *id)
{
    struct statx status;

    if (statx(fd, name,
            AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT |
                (name[0] == '\0' ? AT_EMPTY_PATH : 0),
            STATX_BASIC_STATS | STATX_BTIME, &status) != 0)
        return -errno;
    attr->size = status.stx_size;
    attr->blocks = status.stx_blocks;
    attr->rdev = makedev(status.stx_rdev_major, status.stx_rdev_minor);
    attr->mode = status.stx_mode;
    attr->links = status.stx_nlink;
    attr->uid = status.stx_uid;
    attr->gid = status.stx_gid;
    attr->block_size = status.stx_blksize;
    attr->unused = 0;
    attr->atime = path_time(&status.stx_atime);
    attr->mtime = path_time(&status.stx_mtime);
    attr->ctime = path_time(&status.stx_ctime);
    if (id != NULL)
        *id = path_id(&status);
    return 0;
}

void path_set_mark(int fd, const char *name, uint32_t mark)
{
    struct timespec times[2] = {{0, 0}, {0, UTIME_OMIT}};

    (void) clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_nsec = (long) mark;
    if (name == NULL)
        (void) futimens(fd, times);
    else
        (void) utimensat(fd, name, times, AT_SYMLINK_NOFOLLOW);
}
