/* SPDX-License-Identifier: BSD-3-Clause */
/* bswap_16, bswap_32 and bswap_64. */
#ifndef HG_COMPAT_MERCURY_BYTESWAP_H
#define HG_COMPAT_MERCURY_BYTESWAP_H

#include "mercury_util_config.h"

#include <byteswap.h>

#endif
