/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz: calls a fuzz entry function without a fuzzer.
 *
 * tests/fuzz/fuzz_<name>.c has an entry function with libFuzzer's signature. It
 * is a plain test too: it runs each file of tests/fuzz/corpus/<name>, which
 * keeps inputs that once failed, and random changes of these, whose seed is
 * printed.
 */
#ifndef HG_TESTS_FUZZ_H
#define HG_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

typedef int (*fuzz_entry_t)(const uint8_t *data, size_t size);

/* Run all files of the corpus; without a file the case fails. */
void fuzz_run_corpus(const char *name, fuzz_entry_t entry);

/* Run `runs` inputs: some random, most of them files of the corpus with
 * changes. */
void fuzz_run_random(const char *name, fuzz_entry_t entry, unsigned runs);

/* Change `size` bytes at random: a few bits, bytes or numbers, or a piece
 * removed or doubled. Returns the new size, at most `capacity`. */
size_t fuzz_mutate(
    uint8_t *bytes, size_t size, size_t capacity, uint64_t *state);

#endif
