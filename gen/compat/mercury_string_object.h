/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's name for hg.h: see mercury_config.h. */
#ifndef HG_COMPAT_MERCURY_STRING_OBJECT_H
#define HG_COMPAT_MERCURY_STRING_OBJECT_H

#include "mercury_types.h"

#endif
