/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's headers on the wire; those of hg are its own. */
#ifndef HG_COMPAT_MERCURY_CORE_HEADER_H
#define HG_COMPAT_MERCURY_CORE_HEADER_H

#include "mercury_core_types.h"

#define HG_HEADER_TEXT "hg's headers on the wire are not Mercury's"

#ifdef __cplusplus
extern "C" {
#endif

size_t hg_core_header_request_get_size(void) HG_ATTR_MISSING(HG_HEADER_TEXT);
size_t hg_core_header_response_get_size(void) HG_ATTR_MISSING(HG_HEADER_TEXT);
HG_MISSING(hg_core_header_request_init, HG_HEADER_TEXT);
HG_MISSING(hg_core_header_request_finalize, HG_HEADER_TEXT);
HG_MISSING(hg_core_header_request_reset, HG_HEADER_TEXT);
HG_MISSING(hg_core_header_request_proc, HG_HEADER_TEXT);
HG_MISSING(hg_core_header_request_verify, HG_HEADER_TEXT);
HG_MISSING(hg_core_header_response_init, HG_HEADER_TEXT);
HG_MISSING(hg_core_header_response_finalize, HG_HEADER_TEXT);
HG_MISSING(hg_core_header_response_reset, HG_HEADER_TEXT);
HG_MISSING(hg_core_header_response_proc, HG_HEADER_TEXT);
HG_MISSING(hg_core_header_response_verify, HG_HEADER_TEXT);

#ifdef __cplusplus
}
#endif

#endif
