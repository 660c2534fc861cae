/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's copy of <sys/queue.h>. */
#ifndef HG_COMPAT_MERCURY_SYS_QUEUE_H
#define HG_COMPAT_MERCURY_SYS_QUEUE_H

#include <sys/queue.h>

#endif
