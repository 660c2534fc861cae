/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's log in memory and its counters, which hg does not have. */
#ifndef HG_COMPAT_MERCURY_DLOG_H
#define HG_COMPAT_MERCURY_DLOG_H

#include "mercury_atomic.h"

struct hg_dlog;

#ifdef __cplusplus
extern "C" {
#endif

struct hg_dlog *hg_dlog_alloc(char *name, unsigned int lesize, int leloop)
    HG_ATTR_MISSING("hg has no hg_dlog");
void hg_dlog_mkcount32(struct hg_dlog *d, hg_atomic_int32_t **cptr,
    const char *name, const char *descr) HG_ATTR_MISSING("hg has no hg_dlog");
void hg_dlog_mkcount64(struct hg_dlog *d, hg_atomic_int64_t **cptr,
    const char *name, const char *descr) HG_ATTR_MISSING("hg has no hg_dlog");

#ifdef __cplusplus
}
#endif

#endif
