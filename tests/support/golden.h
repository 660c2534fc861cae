/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * golden: bytes of the wire, written by hand into a file that no test writes.
 *
 * A line of such a file is `name: bytes # remark`, the bytes in hexadecimal
 * with blanks wherever they help; `name:` may stay away on a line that goes
 * on with the bytes of the one above. Paths begin at the top of the tree,
 * where the runner starts every case. Anything else in the file, and a name
 * twice, fails the case.
 */
#ifndef HG_TESTS_GOLDEN_H
#define HG_TESTS_GOLDEN_H

#include <stddef.h>

struct golden;

struct golden *golden_open(const char *path);

/* The bytes of `name`, which the golden owns. The case fails without them. */
const unsigned char *golden_get(
    struct golden *golden, const char *name, size_t *size_p);

/* The case fails unless every name was asked for. */
void golden_close(struct golden *golden);

#endif
