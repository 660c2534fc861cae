/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counts_code: what an address of code means: its function, whether that is of
 * hg.c, what kind of instruction is there, and its place in the source.
 */
#ifndef HG_TESTS_COUNTS_CODE_H
#define HG_TESTS_COUNTS_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Print what failed, with errno's text, and exit. */
void counts_die(const char *what) __attribute__((noreturn));

struct counts_function {
    uintptr_t start, end;
    const char *name;
    bool library;  /* of hg.c */
    bool checksum; /* ... and named hg_crc* */
};

/* Read the symbols of this program; the next two need them. */
void counts_read_program(void);

/* The function that an address is in; NULL: none of this program. */
const struct counts_function *counts_function_of(uintptr_t address);

/* Start addr2line, and read the place of one address after the other from it:
 * its function, file and line, and those that the function is inlined in. The
 * file is closed by pclose. */
FILE *counts_open_places(const uintptr_t *addresses, size_t count);
void counts_read_place(FILE *places, char *place, size_t size);

enum counts_kind {
    COUNTS_OTHER = 0,
    COUNTS_LOCK, /* a locked instruction, or a full barrier */
    COUNTS_SYSCALL,
    COUNTS_CALL, /* or return; as those below, it ends a piece of code */
    COUNTS_CALL_INDIRECT,
    COUNTS_JUMP_INDIRECT
};

/* What the x86-64 instruction at `p` is. */
enum counts_kind counts_kind_of(const unsigned char *p);

#endif
