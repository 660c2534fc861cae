/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forward_meta: how many files a second a file system makes, finds and removes.
 *
 *     forward_meta FOLDER COUNT
 *
 * It makes COUNT empty files in FOLDER, calls stat(2) on each, and removes
 * them. Before the calls of stat it waits until the kernel's copies of names
 * and attributes are too old, so that each call reaches the file system. It
 * prints three lines: "create RATE", "stat RATE" and "unlink RATE".
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Longer than the attr_timeout and entry_timeout of the mounts. */
static const struct timespec meta_pause = {1, 200000000};

static double meta_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static int meta_create(const char *name)
{
    const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);

    return fd < 0 ? -1 : close(fd);
}

static int meta_stat(const char *name)
{
    struct stat st;

    return stat(name, &st);
}

/* Call `work` on each file and print the rate. */
static void meta_measure(const char *what, int (*work)(const char *), int count)
{
    const double start = meta_now();

    for (int i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "file.%d", i);
        if (work(name) == 0)
            continue;
        fprintf(
            stderr, "forward_meta: %s %s: %s\n", what, name, strerror(errno));
        exit(1);
    }
    printf("%s %.0f\n", what, (double) count / (meta_now() - start));
}

int main(int argc, char *argv[])
{
    const int count = argc == 3 ? (int) strtol(argv[2], NULL, 10) : 0;

    if (count <= 0) {
        fprintf(stderr, "usage: forward_meta FOLDER COUNT\n");
        return 2;
    }
    if (chdir(argv[1]) != 0) {
        fprintf(stderr, "forward_meta: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    meta_measure("create", meta_create, count);
    nanosleep(&meta_pause, NULL);
    meta_measure("stat", meta_stat, count);
    meta_measure("unlink", unlink, count);
    return 0;
}
