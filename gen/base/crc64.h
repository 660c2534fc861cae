/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc64: cyclic redundancy checks.
 *
 * CRC-64/XZ (reflected polynomial 0xC96C5795D7870F42, all ones in and out;
 * "123456789" gives 0x995DC9BBDF1939FA) covers messages, arguments outside of
 * them and, on request, bulk data. CRC-32C (Castagnoli; "123456789" gives
 * 0xE3069283) is one of those that procs of the application may choose. Each
 * has a table-driven form and one that uses the processor's instructions,
 * chosen once at run time; both give the same value for the same bytes.
 *
 * A running value starts at 0, takes any number of updates and is the check
 * value at every moment: the inversions happen inside.
 */
#ifndef HG_GEN_BASE_CRC64_H
#define HG_GEN_BASE_CRC64_H

#include "base/os.h"

HG_PRIVATE uint64_t hg_crc64_update(
    uint64_t crc, const void *data, size_t size);
HG_PRIVATE uint32_t hg_crc32c_update(
    uint32_t crc, const void *data, size_t size);

/* The table-driven forms, for machines without the instructions and for the
 * test that compares both. */
HG_PRIVATE uint64_t hg_crc64_update_table(
    uint64_t crc, const void *data, size_t size);
HG_PRIVATE uint32_t hg_crc32c_update_table(
    uint32_t crc, const void *data, size_t size);

#endif
