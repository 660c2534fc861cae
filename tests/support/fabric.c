/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric: the functions of libfabric for test programs; the first call loads
 * the library. Debian's libfabric is linked with libraries that take 0.2 s when
 * a process loads them, and most cases need none of them.
 */
#define _GNU_SOURCE 1
#if defined(__has_include)
#if __has_include(<rdma/fabric.h>)

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>

static void *fabric_library;

static void fabric_open(void)
{
    fabric_library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (fabric_library == NULL)
        abort();
}

/* Store the address of a function in the pointer at `function_p`. */
static void fabric_find(const char *name, void *function_p)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void) pthread_once(&once, fabric_open);
    *(void **) function_p = dlsym(fabric_library, name);
    if (*(void **) function_p == NULL)
        abort();
}

uint32_t fi_version(void)
{
    uint32_t (*function)(void);

    fabric_find("fi_version", (void *) &function);
    return function();
}

const char *fi_strerror(int error)
{
    const char *(*function)(int);

    fabric_find("fi_strerror", (void *) &function);
    return function(error);
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    struct fi_info *(*function)(const struct fi_info *);

    fabric_find("fi_dupinfo", (void *) &function);
    return function(info);
}

void fi_freeinfo(struct fi_info *info)
{
    void (*function)(struct fi_info *);

    fabric_find("fi_freeinfo", (void *) &function);
    function(info);
}

int fi_getinfo(uint32_t version, const char *node, const char *service,
    uint64_t flags, const struct fi_info *hints, struct fi_info **info)
{
    int (*function)(uint32_t, const char *, const char *, uint64_t,
        const struct fi_info *, struct fi_info **);

    fabric_find("fi_getinfo", (void *) &function);
    return function(version, node, service, flags, hints, info);
}

int fi_fabric(
    struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *arg)
{
    int (*function)(struct fi_fabric_attr *, struct fid_fabric **, void *);

    fabric_find("fi_fabric", (void *) &function);
    return function(attr, fabric, arg);
}

/* The provider verbs reads all kernel symbols, twice, to detect the features of
 * a card. There is no card, and it takes 0.1 s in each process. */
FILE *fopen(const char *path, const char *mode)
{
    return strcmp(path, "/proc/kallsyms") != 0 ? fopen64(path, mode) : NULL;
}

#endif
#endif
