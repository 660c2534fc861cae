/* SPDX-License-Identifier: BSD-3-Clause */
/* htons, htonl, and htonll and ntohll for 64 bits. */
#ifndef HG_COMPAT_MERCURY_INET_H
#define HG_COMPAT_MERCURY_INET_H

#include "mercury_byteswap.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#ifndef htonll
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define htonll(x) bswap_64(x)
#else
#define htonll(x) (x)
#endif
#endif
#ifndef ntohll
#define ntohll(x) htonll(x)
#endif

#endif
