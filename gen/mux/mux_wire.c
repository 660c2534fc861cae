/* SPDX-License-Identifier: BSD-3-Clause */
/* mux_wire: see mux_wire.h. */
#include "mux/mux_wire.h"

#include "base/wire.h"

#define NA_MUX_WIRE_MAGIC 0x5868u
#define NA_MUX_WIRE_VERSION 1
#define NA_MUX_WIRE_FIXED 5 /* of a part, before its tag */

/* ---- Strings ---- */

/* Whether a scheme and "://" stand there. The name of a layer of libfabric's
 * belongs to the scheme in front of it: "ofi+tcp;ofi_rxm://". */
static bool na_mux_wire_begins(const char *string)
{
    size_t i = 0;
    char c = string[0];

    if (strncmp(string, "ofi_", 4) == 0)
        return false;
    while ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
        (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '_' ||
        c == '.' || (i > 0 && strncmp(string + i, ";ofi_", 5) == 0))
        c = string[++i];
    return i > 0 && strncmp(string + i, "://", 3) == 0;
}

/* The semicolon that ends the first address; NULL: it is the last one. */
static const char *na_mux_wire_end(const char *string)
{
    const char *end = strchr(string, ';');

    while (end != NULL && !na_mux_wire_begins(end + 1))
        end = strchr(end + 1, ';');
    return end;
}

HG_PRIVATE bool na_mux_wire_is_list(const char *string)
{
    return na_mux_wire_end(string) != NULL;
}

HG_PRIVATE bool na_mux_wire_next(const char **at_p, char part[NA_MAX_ADDR_LEN])
{
    const char *at = *at_p;
    const char *end = na_mux_wire_end(at);
    size_t size = end != NULL ? (size_t) (end - at) : strlen(at);

    if (size == 0 || size >= NA_MAX_ADDR_LEN)
        return false;
    memcpy(part, at, size);
    part[size] = '\0';
    *at_p = end != NULL ? end + 1 : at + size;
    return true;
}

HG_PRIVATE void na_mux_wire_tag(
    const struct na_class *na_class, char tag[NA_MUX_WIRE_TAG_MAX])
{
    const char *name = na_class_ops(na_class)->name;
    bool same = strcmp(name, na_class->protocol) == 0;

    (void) snprintf(tag, NA_MUX_WIRE_TAG_MAX, "%s%s%s", same ? "" : name,
        same ? "" : "+", na_class->protocol);
}

/* ---- Memory handles ---- */

HG_PRIVATE size_t na_mux_wire_part_size(const char *tag)
{
    return NA_MUX_WIRE_FIXED + strlen(tag);
}

HG_PRIVATE void na_mux_wire_put_head(void *buf, unsigned parts)
{
    struct hg_wire wire = hg_wire_writer(buf, NA_MUX_WIRE_HEAD);

    hg_wire_put16(&wire, NA_MUX_WIRE_MAGIC);
    hg_wire_put8(&wire, NA_MUX_WIRE_VERSION);
    hg_wire_put8(&wire, (uint8_t) parts);
    assert(!wire.failed && hg_wire_left(&wire) == 0);
}

HG_PRIVATE void na_mux_wire_put_part(void *buf, const char *tag, uint32_t size)
{
    struct hg_wire wire = hg_wire_writer(buf, na_mux_wire_part_size(tag));

    hg_wire_put32(&wire, size);
    hg_wire_put8(&wire, (uint8_t) strlen(tag));
    hg_wire_put_bytes(&wire, tag, strlen(tag));
    assert(!wire.failed && hg_wire_left(&wire) == 0);
}

HG_PRIVATE bool na_mux_wire_is_mem(const void *buf, na_size_t size)
{
    const unsigned char *bytes = (const unsigned char *) buf;

    return size >= NA_MUX_WIRE_HEAD &&
        hg_wire_load16(bytes) == NA_MUX_WIRE_MAGIC &&
        bytes[2] == NA_MUX_WIRE_VERSION;
}

HG_PRIVATE const void *na_mux_wire_find(
    const void *buf, na_size_t size, const char *tag, na_size_t *size_p)
{
    struct hg_wire wire = hg_wire_reader(buf, (size_t) size);
    unsigned parts;

    if (!na_mux_wire_is_mem(buf, size))
        return NULL;
    hg_wire_skip(&wire, NA_MUX_WIRE_HEAD - 1);
    for (parts = hg_wire_get8(&wire); parts > 0; parts--) {
        uint32_t length = hg_wire_get32(&wire);
        uint8_t tag_size = hg_wire_get8(&wire);
        const void *name = hg_wire_get_bytes(&wire, tag_size);
        const void *bytes = hg_wire_get_bytes(&wire, length);

        if (bytes == NULL || tag_size != strlen(tag) ||
            memcmp(name, tag, tag_size) != 0)
            continue;
        *size_p = length;
        return bytes;
    }
    return NULL;
}
