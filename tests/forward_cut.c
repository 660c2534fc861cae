/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forward_cut: a library for LD_PRELOAD. hg_forwardd then dies as soon as it
 * has made and marked, renamed or removed a node, or set or removed an extended
 * attribute, before it responds. tests/forward uses it.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int cut_after(long got)
{
    if (got == 0)
        (void) kill(getpid(), SIGKILL);
    return (int) got;
}

/* The server marks what it has made. */
int utimensat(
    int dir, const char *name, const struct timespec times[2], int flags)
{
    return cut_after(syscall(SYS_utimensat, dir, name, times, flags));
}

int linkat(
    int dir, const char *name, int new_dir, const char *new_name, int flags)
{
    return cut_after(syscall(SYS_linkat, dir, name, new_dir, new_name, flags));
}

int setxattr(const char *path, const char *name, const void *value, size_t size,
    int flags)
{
    return cut_after(syscall(SYS_setxattr, path, name, value, size, flags));
}

int removexattr(const char *path, const char *name)
{
    return cut_after(syscall(SYS_removexattr, path, name));
}

int renameat2(int dir, const char *name, int new_dir, const char *new_name,
    unsigned flags)
{
    return cut_after(
        syscall(SYS_renameat2, dir, name, new_dir, new_name, flags));
}

int unlinkat(int dir, const char *name, int flags)
{
    return cut_after(syscall(SYS_unlinkat, dir, name, flags));
}
