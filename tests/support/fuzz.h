/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz: what drives a fuzz entry function when no fuzzer does.
 *
 * tests/fuzz/fuzz_<name>.c has an entry function of libFuzzer's signature. It
 * is a plain test too: it runs each file of tests/fuzz/corpus/<name>, where
 * inputs that once were trouble stay, and as many inputs again as one likes,
 * made from those by chance, whose seed is printed.
 */
#ifndef HG_TESTS_FUZZ_H
#define HG_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

typedef int (*fuzz_entry_t)(const uint8_t *data, size_t size);

/* Run all files of the corpus; the case fails if there is none. */
void fuzz_run_corpus(const char *name, fuzz_entry_t entry);

/* Run `runs` inputs: some random, most the corpus' with changes. */
void fuzz_run_random(const char *name, fuzz_entry_t entry, unsigned runs);

/* Change `size` bytes by chance: a few bits, bytes, numbers, a piece removed
 * or doubled. Returns the new size, `capacity` at most. */
size_t fuzz_mutate(
    uint8_t *bytes, size_t size, size_t capacity, uint64_t *state);

#endif
