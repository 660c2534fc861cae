/* SPDX-License-Identifier: BSD-3-Clause */
/* end: the last part of hg.c. It restores the warnings of the files that follow
 * in a unity build. */
#include "base/os.h"

#if HG_WARNING_OFF
#pragma GCC diagnostic pop
#endif
