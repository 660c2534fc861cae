/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's name for hg.h, see mercury_config.h; and two words of this header
 * that do not begin with hg. */
#ifndef HG_COMPAT_MERCURY_PROC_H
#define HG_COMPAT_MERCURY_PROC_H

#include "mercury_types.h"

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#endif
#ifndef unlikely
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

#endif
