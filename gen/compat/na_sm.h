/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's ids of hosts, which hg does not have. */
#ifndef HG_COMPAT_NA_SM_H
#define HG_COMPAT_NA_SM_H

#include "na_types.h"

typedef unsigned long na_sm_id_t;
#define NA_SM_HOST_ID_LEN 11
#define NA_SM_HOST_ID_TEXT "hg has no ids of hosts: use gethostid"

#ifdef __cplusplus
extern "C" {
#endif

na_return_t NA_SM_Host_id_get(na_sm_id_t *id_p)
    HG_ATTR_MISSING(NA_SM_HOST_ID_TEXT);
na_return_t NA_SM_Host_id_to_string(na_sm_id_t id, char *string)
    HG_ATTR_MISSING(NA_SM_HOST_ID_TEXT);
na_return_t NA_SM_String_to_host_id(const char *string, na_sm_id_t *id_p)
    HG_ATTR_MISSING(NA_SM_HOST_ID_TEXT);
void NA_SM_Host_id_copy(na_sm_id_t *dst_p, na_sm_id_t src)
    HG_ATTR_MISSING(NA_SM_HOST_ID_TEXT);
bool NA_SM_Host_id_cmp(na_sm_id_t id1, na_sm_id_t id2)
    HG_ATTR_MISSING(NA_SM_HOST_ID_TEXT);

#ifdef __cplusplus
}
#endif

#endif
