/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's name for hg.h: see mercury_config.h. */
#ifndef HG_COMPAT_MERCURY_CORE_TYPES_H
#define HG_COMPAT_MERCURY_CORE_TYPES_H

#include "na_types.h"

#endif
