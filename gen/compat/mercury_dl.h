/* SPDX-License-Identifier: BSD-3-Clause */
/* Libraries loaded at run time, by dlopen. */
#ifndef HG_COMPAT_MERCURY_DL_H
#define HG_COMPAT_MERCURY_DL_H

#include "mercury_util_config.h"

#include <dlfcn.h>
#include <string.h>

#define HG_DL_HANDLE void *

#ifdef __cplusplus
extern "C" {
#endif

static HG_UTIL_INLINE const char *hg_dl_error(void)
{
    return dlerror();
}

static HG_UTIL_INLINE HG_DL_HANDLE hg_dl_open(const char *file)
{
    return dlopen(file, RTLD_LAZY);
}

static HG_UTIL_INLINE int hg_dl_close(HG_DL_HANDLE handle)
{
    return dlclose(handle);
}

static HG_UTIL_INLINE void *hg_dl_sym(HG_DL_HANDLE handle, const char *name)
{
    return dlsym(handle, name);
}

/* The file that contains `addr`. dlfcn.h declares what this needs with
 * _GNU_SOURCE. */
#if defined(__USE_GNU) || (defined(_GNU_SOURCE) && !defined(__GLIBC__))
static HG_UTIL_INLINE int hg_dl_get_path(
    const void *addr, char *path, size_t path_size)
{
    Dl_info info;

    if (path_size == 0 || dladdr(addr, &info) == 0 || info.dli_fname == NULL)
        return HG_UTIL_FAIL;
    path[0] = '\0';
    strncat(path, info.dli_fname, path_size - 1);
    return HG_UTIL_SUCCESS;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
