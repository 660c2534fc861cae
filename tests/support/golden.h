/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * golden: bytes of the wire format, written by hand into a file that no test
 * writes.
 *
 * A line of such a file is `name: bytes # remark`, the bytes in hexadecimal
 * with blanks anywhere; without `name:` the line continues the one above. Paths
 * begin at the top of the tree, where the runner starts every case. Any other
 * text, and a repeated name, fails the case.
 */
#ifndef HG_TESTS_GOLDEN_H
#define HG_TESTS_GOLDEN_H

#include <stddef.h>

struct golden;

struct golden *golden_open(const char *path);

/* The bytes of `name`, owned by the golden. If they are missing, the case
 * fails. */
const unsigned char *golden_get(
    struct golden *golden, const char *name, size_t *size_p);

/* Unless every name was asked for, the case fails. */
void golden_close(struct golden *golden);

#endif
