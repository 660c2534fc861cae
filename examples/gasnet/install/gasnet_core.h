/* SPDX-License-Identifier: BSD-3-Clause */
/* gasnet_core: tells programs that look for a conduit that this is one. All
 * that it has is in gasnet.h. */
#ifndef GASNET_CORE_H
#define GASNET_CORE_H
#endif
