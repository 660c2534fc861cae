/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counts_code: the meaning of a code address: its function, whether that
 * belongs to hg.c, the kind of its instruction, and its place in the source.
 */
#ifndef HG_TESTS_COUNTS_CODE_H
#define HG_TESTS_COUNTS_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Print the operation that failed, with errno's text, and exit. */
void counts_die(const char *what) __attribute__((noreturn));

struct counts_function {
    uintptr_t start, end;
    const char *name;
    bool library;  /* belongs to hg.c */
    bool checksum; /* and is named hg_crc* */
};

/* Read the symbols of this program; the next two need them. */
void counts_read_program(void);

/* The function that an address is in; NULL: none of this program. */
const struct counts_function *counts_function_of(uintptr_t address);

/* Start addr2line, and read from it the place of one address after the other:
 * its function, file and line, and those it is inlined in. Close the file with
 * pclose. */
FILE *counts_open_places(const uintptr_t *addresses, size_t count);
void counts_read_place(FILE *places, char *place, size_t size);

enum counts_kind {
    COUNTS_OTHER = 0,
    COUNTS_LOCK, /* a locked instruction, or a full barrier */
    COUNTS_SYSCALL,
    COUNTS_CALL, /* or return; it ends a basic block, as those below */
    COUNTS_CALL_INDIRECT,
    COUNTS_JUMP_INDIRECT
};

/* The kind of the x86-64 instruction at `p`. */
enum counts_kind counts_kind_of(const unsigned char *p);

#endif
