/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checksum: checksums as objects, for applications.
 *
 * The Mercury design report's abstract checksum: a method chosen by name,
 * then any number of updates. The one method is "crc64". The library's own
 * messages use base/crc64 directly and do not know this room.
 *
 * Locking: none, a checksum belongs to one thread at a time.
 */
#include "base/crc64.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wire.h"

#define HG_CHECKSUM_SIZE 8

struct hg_checksum {
    uint64_t crc;
    bool finalized; /* takes no update before a reset */
};

/* One log line, and what all functions but get_size return with it. */
static int hg_checksum_refuse(const char *function, const char *cause)
{
    (void) hg_log_misuse("checksum", function, cause);
    return -1;
}

int hg_checksum_init(const char *hash_method, hg_checksum_t *checksum)
{
    hg_checksum_t made;

    if (hash_method == NULL || checksum == NULL)
        return hg_checksum_refuse("hg_checksum_init", "a NULL");
    if (strcmp(hash_method, "crc64") != 0)
        return hg_checksum_refuse(
            "hg_checksum_init", "the method is not \"crc64\"");
    made = (hg_checksum_t) hg_mem_calloc(1, sizeof(*made));
    if (made == NULL)
        return hg_checksum_refuse("hg_checksum_init", "no memory");
    *checksum = made;
    return 0;
}

int hg_checksum_destroy(hg_checksum_t checksum)
{
    if (checksum == NULL)
        return hg_checksum_refuse("hg_checksum_destroy", "a NULL");
    hg_mem_free(checksum);
    return 0;
}

int hg_checksum_reset(hg_checksum_t checksum)
{
    if (checksum == NULL)
        return hg_checksum_refuse("hg_checksum_reset", "a NULL");
    checksum->crc = 0;
    checksum->finalized = false;
    return 0;
}

size_t hg_checksum_get_size(hg_checksum_t checksum)
{
    if (checksum == NULL) {
        (void) hg_checksum_refuse("hg_checksum_get_size", "a NULL");
        return 0;
    }
    return HG_CHECKSUM_SIZE;
}

int hg_checksum_get(
    hg_checksum_t checksum, void *buf, size_t size, int finalize)
{
    if (checksum == NULL || buf == NULL)
        return hg_checksum_refuse("hg_checksum_get", "a NULL");
    if (size < HG_CHECKSUM_SIZE)
        return hg_checksum_refuse(
            "hg_checksum_get", "the buffer has fewer than 8 bytes");
    hg_wire_store64(buf, checksum->crc);
    if (finalize != 0)
        checksum->finalized = true;
    return 0;
}

int hg_checksum_update(hg_checksum_t checksum, const void *data, size_t size)
{
    if (checksum == NULL || (data == NULL && size > 0))
        return hg_checksum_refuse("hg_checksum_update", "a NULL");
    if (checksum->finalized)
        return hg_checksum_refuse(
            "hg_checksum_update", "finalized; reset it first");
    checksum->crc = hg_crc64_update(checksum->crc, data, size);
    return 0;
}
