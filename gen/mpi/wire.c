/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The header of every packet.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

/*
 * Numbers are little-endian. The first four bytes mean the same in every
 * version.
 *
 *     0    1    2        3     4      5       6        8      12     16
 *     +----+----+--------+-----+------+-------+--------+------+------+
 *     | h  | m  |version |kind |plane |target | number | tag  | size |
 *     +----+----+--------+-----+------+-------+--------+------+------+
 *     16     20       24            32              40
 *     +------+--------+-------------+---------------+------
 *     | id   | zero   | to          | from          | head
 *     +------+--------+-------------+---------------+------
 */
static void na_mpi_put_header(
    unsigned char *p, const struct na_mpi_header *header)
{
    memset(p, 0, NA_MPI_HEADER);
    p[0] = 'h';
    p[1] = 'm';
    p[2] = header->version;
    p[3] = header->kind;
    p[4] = header->plane;
    p[5] = header->target;
    p[6] = (unsigned char) header->number;
    p[7] = (unsigned char) (header->number >> 8);
    na_plug_put32(p + 8, header->tag);
    na_plug_put32(p + 12, header->size);
    na_plug_put32(p + 16, header->id);
    na_plug_put64(p + 24, header->to);
    na_plug_put64(p + 32, header->from);
}

/* Returns NULL, or the reason why the packet is refused. */
static const char *na_mpi_get_header(
    const unsigned char *p, size_t size, struct na_mpi_header *header_p)
{
    if (size < NA_MPI_HEADER)
        return "it is shorter than a header";
    if (p[0] != 'h' || p[1] != 'm')
        return "it does not begin with \"hm\"";
    header_p->version = p[2];
    header_p->kind = p[3];
    header_p->plane = p[4];
    header_p->target = p[5];
    header_p->number = (uint16_t) (p[6] | p[7] << 8);
    header_p->tag = na_plug_get32(p + 8);
    header_p->size = na_plug_get32(p + 12);
    header_p->id = na_plug_get32(p + 16);
    header_p->to = na_plug_get64(p + 24);
    header_p->from = na_plug_get64(p + 32);
    if (header_p->number >= NA_MPI_CLASSES)
        return "there is no such class";
    return NULL;
}
