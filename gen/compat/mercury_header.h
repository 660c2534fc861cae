/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's headers on the wire; those of hg are its own. */
#ifndef HG_COMPAT_MERCURY_HEADER_H
#define HG_COMPAT_MERCURY_HEADER_H

#include "mercury_core_types.h"

#ifdef __cplusplus
extern "C" {
#endif

size_t hg_header_get_size(hg_op_t op)
    HG_ATTR_MISSING("hg's headers on the wire are not Mercury's");

#ifdef __cplusplus
}
#endif

#endif
