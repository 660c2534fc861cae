/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc64: the cyclic redundancy check of messages, of arguments outside of them
 * and, on request, of bulk data.
 *
 * CRC-64/XZ: reflected polynomial 0xC96C5795D7870F42, initial value and final
 * XOR all ones; "123456789" gives 0x995DC9BBDF1939FA. There are a table form
 * and forms that use instructions of the processor, chosen at run time; all
 * give the same value for the same bytes.
 *
 * A running value starts at 0, takes any number of updates and is the check
 * value at any time: the inversions happen inside.
 */
#ifndef HG_GEN_BASE_CRC64_H
#define HG_GEN_BASE_CRC64_H

#include "base/os.h"

HG_PRIVATE uint64_t hg_crc64_update(
    uint64_t crc, const void *data, size_t size);

/* The table-driven form, for machines without the instructions and for the test
 * that compares all. */
HG_PRIVATE uint64_t hg_crc64_update_table(
    uint64_t crc, const void *data, size_t size);

#endif
