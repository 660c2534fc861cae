/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Little-endian numbers in bytes, for the transports in files of their own.
 */
#ifndef HG_GEN_PLUG_BYTES_H
#define HG_GEN_PLUG_BYTES_H

#include "plug/plug.h"

static inline void na_plug_put32(unsigned char *p, uint32_t value)
{
    unsigned i;

    for (i = 0; i < 4; i++)
        p[i] = (unsigned char) (value >> 8 * i);
}

static inline uint32_t na_plug_get32(const unsigned char *p)
{
    return (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 |
        (uint32_t) p[3] << 24;
}

static inline void na_plug_put64(unsigned char *p, uint64_t value)
{
    na_plug_put32(p, (uint32_t) value);
    na_plug_put32(p + 4, (uint32_t) (value >> 32));
}

static inline uint64_t na_plug_get64(const unsigned char *p)
{
    return na_plug_get32(p) | (uint64_t) na_plug_get32(p + 4) << 32;
}

#endif
