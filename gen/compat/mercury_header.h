/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's headers on the wire; those of hg are its own. */
#ifndef HG_COMPAT_MERCURY_HEADER_H
#define HG_COMPAT_MERCURY_HEADER_H

#include "mercury_core_types.h"

#define HG_HEADER_TEXT "hg's headers on the wire are not Mercury's"

#ifdef __cplusplus
extern "C" {
#endif

size_t hg_header_get_size(hg_op_t op) HG_ATTR_MISSING(HG_HEADER_TEXT);
HG_MISSING(hg_header_init, HG_HEADER_TEXT);
HG_MISSING(hg_header_finalize, HG_HEADER_TEXT);
HG_MISSING(hg_header_reset, HG_HEADER_TEXT);
HG_MISSING(hg_header_proc, HG_HEADER_TEXT);

#ifdef __cplusplus
}
#endif

#endif
