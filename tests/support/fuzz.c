/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz: see fuzz.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "support/fuzz.h"

#include "harness.h"

#include <dirent.h>

#define FUZZ_MAX_FILES 1024
#define FUZZ_MAX_SIZE 65536
#define FUZZ_GROWTH 256

struct fuzz_input {
    uint8_t *bytes;
    size_t size;
};

struct fuzz_corpus {
    struct fuzz_input inputs[FUZZ_MAX_FILES];
    size_t count;
};

static size_t fuzz_below(uint64_t *state, size_t limit)
{
    return (size_t) (hg_test_random(state) % limit);
}

/* ---- Changes ---- */

/* Numbers that break lengths and counts. */
static void fuzz_put_number(uint8_t *bytes, size_t size, uint64_t *state)
{
    static const uint64_t numbers[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff,
        0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
        0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff};
    size_t width = (size_t) 1 << fuzz_below(state, 4);
    size_t at;
    size_t i;
    uint64_t number;

    if (size < width)
        return;
    at = fuzz_below(state, size - width + 1);
    number = numbers[fuzz_below(state, sizeof(numbers) / sizeof(numbers[0]))];
    for (i = 0; i < width; i++)
        bytes[at + i] = (uint8_t) (number >> 8 * i);
}

/* Remove a piece, or insert one a second time. */
static size_t fuzz_cut_or_double(
    uint8_t *bytes, size_t size, size_t capacity, uint64_t *state)
{
    size_t from = fuzz_below(state, size);
    size_t length = 1 + fuzz_below(state, size - from);

    if (fuzz_below(state, 2) == 0) {
        memmove(bytes + from, bytes + from + length, size - from - length);
        return size - length;
    }
    if (length > capacity - size)
        return size;
    memmove(bytes + from + length, bytes + from, size - from);
    return size + length;
}

size_t fuzz_mutate(
    uint8_t *bytes, size_t size, size_t capacity, uint64_t *state)
{
    size_t changes = 1 + fuzz_below(state, 4);

    for (; changes > 0 && size > 0; changes--) {
        size_t at = fuzz_below(state, size);

        switch (fuzz_below(state, 6)) {
        case 0:
        case 1: bytes[at] ^= (uint8_t) (1u << fuzz_below(state, 8)); break;
        case 2: bytes[at] = (uint8_t) hg_test_random(state); break;
        case 3: fuzz_put_number(bytes, size, state); break;
        case 4: size = at; break;
        default: size = fuzz_cut_or_double(bytes, size, capacity, state);
        }
    }
    return size;
}

/* ---- The corpus ---- */

static int fuzz_is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static struct fuzz_input fuzz_read(const char *dir, const char *name)
{
    struct fuzz_input input;
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "rb");
    if (file == NULL)
        hg_test_fail(path, "cannot be read");
    input.bytes = (uint8_t *) malloc(FUZZ_MAX_SIZE);
    HG_CHECK(input.bytes != NULL);
    input.size = fread(input.bytes, 1, FUZZ_MAX_SIZE, file);
    HG_CHECK(!ferror(file) && input.size < FUZZ_MAX_SIZE);
    fclose(file);
    return input;
}

/* The files in the order of their names, which the seed relies on. */
static void fuzz_load(struct fuzz_corpus *corpus, const char *name)
{
    struct dirent **entries;
    char dir[256];
    int count;
    int i;

    snprintf(dir, sizeof(dir), "tests/fuzz/corpus/%s", name);
    count = scandir(dir, &entries, fuzz_is_file, alphasort);
    if (count <= 0 || count > FUZZ_MAX_FILES)
        hg_test_fail(dir, "no corpus; tests run at the top of the tree");
    for (i = 0; i < count; i++) {
        corpus->inputs[i] = fuzz_read(dir, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    corpus->count = (size_t) count;
}

static void fuzz_unload(struct fuzz_corpus *corpus)
{
    while (corpus->count > 0)
        free(corpus->inputs[--corpus->count].bytes);
}

/* Call the entry with memory of exactly that size, so that ASan detects an
 * access past its end. */
static void fuzz_run(fuzz_entry_t entry, const uint8_t *bytes, size_t size)
{
    uint8_t *exact = (uint8_t *) malloc(size > 0 ? size : 1);

    HG_CHECK(exact != NULL);
    if (size > 0)
        memcpy(exact, bytes, size);
    HG_CHECK_EQ_INT(entry(exact, size), 0);
    free(exact);
}

void fuzz_run_corpus(const char *name, fuzz_entry_t entry)
{
    static struct fuzz_corpus corpus;
    size_t i;

    fuzz_load(&corpus, name);
    for (i = 0; i < corpus.count; i++)
        fuzz_run(entry, corpus.inputs[i].bytes, corpus.inputs[i].size);
    fuzz_unload(&corpus);
}

void fuzz_run_random(const char *name, fuzz_entry_t entry, unsigned runs)
{
    static struct fuzz_corpus corpus;
    static uint8_t bytes[FUZZ_MAX_SIZE + FUZZ_GROWTH];
    uint64_t state = hg_test_seed();
    size_t size;
    size_t i;

    fuzz_load(&corpus, name);
    if (getenv("HG_TEST_FULL") == NULL)
        runs /= 4;
    for (; runs > 0; runs--) {
        if (fuzz_below(&state, 16) == 0) {
            size = fuzz_below(&state, FUZZ_GROWTH);
            for (i = 0; i < size; i++)
                bytes[i] = (uint8_t) hg_test_random(&state);
        } else {
            const struct fuzz_input *input =
                &corpus.inputs[fuzz_below(&state, corpus.count)];

            memcpy(bytes, input->bytes, input->size);
            size = fuzz_mutate(
                bytes, input->size, input->size + FUZZ_GROWTH, &state);
        }
        fuzz_run(entry, bytes, size);
    }
    fuzz_unload(&corpus);
}
