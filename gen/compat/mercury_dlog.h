/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's log in memory and its counters, which hg does not have. */
#ifndef HG_COMPAT_MERCURY_DLOG_H
#define HG_COMPAT_MERCURY_DLOG_H

#include "mercury_atomic.h"

struct hg_dlog;

#ifdef __cplusplus
extern "C" {
#endif

HG_MISSING(hg_dlog_alloc, "hg has no hg_dlog");
HG_MISSING(hg_dlog_free, "hg has no hg_dlog");
HG_MISSING(hg_dlog_mkcount32, "hg has no hg_dlog");
HG_MISSING(hg_dlog_mkcount64, "hg has no hg_dlog");
HG_MISSING(hg_dlog_rmcount32, "hg has no hg_dlog");
HG_MISSING(hg_dlog_rmcount64, "hg has no hg_dlog");
HG_MISSING(hg_dlog_addlog, "hg has no hg_dlog");
HG_MISSING(hg_dlog_setlogstop, "hg has no hg_dlog");
HG_MISSING(hg_dlog_resetlog, "hg has no hg_dlog");
HG_MISSING(hg_dlog_dump, "hg has no hg_dlog");
HG_MISSING(hg_dlog_dump_counters, "hg has no hg_dlog");
HG_MISSING(hg_dlog_dump_file, "hg has no hg_dlog");

#ifdef __cplusplus
}
#endif

#endif
