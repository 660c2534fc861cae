/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's ids of hosts, which hg does not have. */
#ifndef HG_COMPAT_NA_SM_H
#define HG_COMPAT_NA_SM_H

#include "na_types.h"

typedef unsigned long na_sm_id_t;
#define NA_SM_HOST_ID_LEN 11

#ifdef __cplusplus
extern "C" {
#endif

na_return_t NA_SM_Host_id_get(na_sm_id_t *id_p)
    HG_ATTR_MISSING("hg has no NA_SM_Host_id_get: use gethostid");

#ifdef __cplusplus
}
#endif

#endif
