/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mux_wire: what a class of several transports shows to others: a list of
 * addresses in one string, and a list of descriptions in one memory handle.
 *
 *     zmq+tcp://10.0.0.1:5000;zmq+ipc:///run/a;sm://NAME
 *
 * A semicolon separates where a scheme and "://" stand behind it, so that it
 * may be part of a path. A memory handle:
 *
 *     0    1    2    3      4        8      9
 *     +----+----+----+------+--------+------+------+-------+----
 *     |0x68|0x58| 1  |parts | length | tag# | tag  | bytes | ...
 *     +----+----+----+------+--------+------+------+-------+----
 *      'h'  'X'              one part, and so on
 *
 * `tag` names the transport, "zmq+tcp" or "sm", `length` counts the bytes of
 * its own description. Classes of one transport read such lists too, and take
 * what is theirs.
 *
 * Locking: none.
 */
#ifndef HG_GEN_NA_MUX_WIRE_H
#define HG_GEN_NA_MUX_WIRE_H

#include "na/core.h"
#include "na/uri.h"

#define NA_MUX_WIRE_TAG_MAX (2 * NA_URI_NAME_MAX)

/* Whether a string lists several addresses. */
HG_PRIVATE bool na_mux_wire_is_list(const char *string);

/* Copy the first address of *at_p, and step behind it. False: there is none,
 * or it is as long as no address is. */
HG_PRIVATE bool na_mux_wire_next(const char **at_p, char part[NA_MAX_ADDR_LEN]);

/* What descriptions of a class's memory are tagged with. */
HG_PRIVATE void na_mux_wire_tag(
    const struct na_class *na_class, char tag[NA_MUX_WIRE_TAG_MAX]);

/* How many bytes a list takes before its parts, and a part besides its own
 * bytes; writing both. */
#define NA_MUX_WIRE_HEAD 4
HG_PRIVATE size_t na_mux_wire_part_size(const char *tag);
HG_PRIVATE void na_mux_wire_put_head(void *buf, unsigned parts);
HG_PRIVATE void na_mux_wire_put_part(void *buf, const char *tag, uint32_t size);

/* Whether the bytes are such a list at all. */
HG_PRIVATE bool na_mux_wire_is_mem(const void *buf, na_size_t size);

/* Find a transport's part: where it begins, and its size; NULL: it has none,
 * or the list is malformed before it. */
HG_PRIVATE const void *na_mux_wire_find(
    const void *buf, na_size_t size, const char *tag, na_size_t *size_p);

#endif
