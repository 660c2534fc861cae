/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of messages: a header, and how two peers introduce themselves.
 *
 * Part of the libfabric transport; see ofi.h.
 *
 * The header. The receiver of a message gave `token` to its sender; 0: none
 * yet. `target` is a context, `source` an endpoint.
 *
 *     0    1    2        3     4      5       6       7  8      16   20  24
 *     +----+----+--------+-----+------+-------+-------+--+------+----+---+----
 *     | h  | f  |version |kind |plane |target |source |0 |token |tag | 0 |body
 *     +----+----+--------+-----+------+-------+-------+--+------+----+---+----
 *
 * The body of HELLO and WELCOME, an introduction. Messages to the sender carry
 * `token`. It is dead when it is silent for `death` ms. Its first endpoint is
 * the first entry. An id that occurs again is that of an endpoint for puts and
 * gets.
 *
 *     0            8      16     20    22     24
 *     +------------+------+------+-----+------+-----------------------------
 *     |incarnation |token |death |size |count |count times: id, size bytes
 *     +------------+------+------+-----+------+-----------------------------
 *
 * The header and HELLO have this layout in every version, so that peers can
 * detect another version.
 */
#include "ofi/ofi.h"

#define NA_OFI_INTRO 24 /* bytes in front of the endpoints */

struct na_ofi_header {
    enum na_ofi_kind kind;
    uint8_t plane;
    uint8_t target;
    uint8_t source;
    uint64_t token;
    na_tag_t tag;
};

/* A peer's introduction; points into its message. */
struct na_ofi_intro {
    uint64_t incarnation;
    uint64_t token;
    uint32_t death_ms;
    size_t raw_size;
    unsigned count;
    const unsigned char *ends;
};

static void na_ofi_put_header(
    unsigned char *p, const struct na_ofi_header *header)
{
    p[0] = 'h';
    p[1] = 'f';
    p[2] = NA_OFI_VERSION;
    p[3] = (unsigned char) header->kind;
    p[4] = header->plane;
    p[5] = header->target;
    p[6] = header->source;
    p[7] = 0;
    na_plug_put64(p + 8, header->token);
    na_plug_put32(p + 16, header->tag);
    na_plug_put32(p + 20, 0);
}

/* False: too short, or not a message of this transport. */
static bool na_ofi_get_header(
    const unsigned char *p, size_t size, struct na_ofi_header *header)
{
    if (size < NA_OFI_HEADER || p[0] != 'h' || p[1] != 'f' || p[3] == 0 ||
        p[3] >= NA_OFI_KIND_MAX)
        return false;
    header->kind = (enum na_ofi_kind) p[3];
    header->plane = p[4];
    header->target = p[5];
    header->source = p[6];
    header->token = na_plug_get64(p + 8);
    header->tag = na_plug_get32(p + 16);
    return true;
}

/* Append the endpoints of one kind to an introduction of `size` bytes, which
 * becomes at most `max`; returns their number. */
static unsigned na_ofi_put_ends(const struct na_ofi_end *first, bool rma,
    unsigned char *p, size_t *size, size_t max)
{
    const struct na_ofi_class *self = first->na_class;
    size_t raw_size = first->raw_size;
    unsigned count = 0;
    unsigned i;

    for (i = 0; i < NA_OFI_ENDS; i++) {
        const struct na_ofi_end *end = self->ends[i];

        /* Peers that do not know an endpoint send to the first one. */
        if (end == NULL || end->family != first->family ||
            end->raw_size != raw_size ||
            (rma && atomic_load(&end->rma) == NULL) ||
            *size + 1 + raw_size > max)
            continue;
        p[*size] = end->id;
        memcpy(p + *size + 1, rma ? end->rma_raw : end->raw, raw_size);
        *size += 1 + raw_size;
        count++;
    }
    return count;
}

/* Write the own introduction for a peer, which puts `token` into its messages;
 * with the endpoints for puts and gets, or without. `first` is the first
 * endpoint of the peer's family. Returns its size, at most `max`. The class's
 * lock is held. */
static size_t na_ofi_put_intro(const struct na_ofi_end *first, uint64_t token,
    bool rma, unsigned char *p, size_t max)
{
    const struct na_ofi_class *self = first->na_class;
    size_t raw_size = first->raw_size;
    size_t size = NA_OFI_INTRO;
    unsigned count = na_ofi_put_ends(first, false, p, &size, max);

    if (rma)
        count += na_ofi_put_ends(first, true, p, &size, max);
    HG_ASSERT(count > 0);
    na_plug_put64(p, self->base.incarnation);
    na_plug_put64(p + 8, token);
    na_plug_put32(p + 16, self->base.info->death_ms);
    na_plug_put32(p + 20, (uint32_t) raw_size | (uint32_t) count << 16);
    return size;
}

/* Decode an introduction that came to an endpoint. False: malformed, or an
 * address that no peer of that endpoint has. */
static bool na_ofi_get_intro(const struct na_ofi_end *end,
    const unsigned char *p, size_t size, struct na_ofi_intro *intro)
{
    unsigned i;

    if (size < NA_OFI_INTRO)
        return false;
    intro->incarnation = na_plug_get64(p);
    intro->token = na_plug_get64(p + 8);
    intro->death_ms = na_plug_get32(p + 16);
    intro->raw_size = na_plug_get32(p + 20) & 0xffff;
    intro->count = na_plug_get32(p + 20) >> 16;
    intro->ends = p + NA_OFI_INTRO;
    if (intro->incarnation == 0 || intro->token == 0 || intro->count == 0 ||
        intro->count > NA_OFI_CONTEXTS ||
        size != NA_OFI_INTRO + intro->count * (1 + intro->raw_size) ||
        intro->ends[0] != 0)
        return false;
    for (i = 0; i < intro->count; i++) {
        if (!na_ofi_raw_ok(end, intro->ends + i * (1 + intro->raw_size) + 1,
                intro->raw_size))
            return false;
    }
    return true;
}
