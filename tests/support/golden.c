/* SPDX-License-Identifier: BSD-3-Clause */
/* golden: see golden.h. */
#include "support/golden.h"

#include "harness.h"

#include <ctype.h>

#define GOLDEN_MAX_NAME 64
#define GOLDEN_MAX_LINE 1024

struct golden_vector {
    char name[GOLDEN_MAX_NAME];
    unsigned char *bytes;
    size_t size;
    bool used;
};

struct golden {
    const char *path;
    struct golden_vector *vectors;
    size_t count;
};

static struct golden_vector *golden_find(
    const struct golden *golden, const char *name, size_t length)
{
    size_t i;

    for (i = 0; i < golden->count; i++)
        if (strlen(golden->vectors[i].name) == length &&
            memcmp(golden->vectors[i].name, name, length) == 0)
            return &golden->vectors[i];
    return NULL;
}

static void golden_add(struct golden *golden, const char *name, size_t length)
{
    struct golden_vector *vector;

    if (length == 0 || length >= GOLDEN_MAX_NAME ||
        golden_find(golden, name, length) != NULL)
        hg_test_fail(golden->path,
            "the name %.*s is empty, too long or repeated", (int) length, name);
    golden->vectors = (struct golden_vector *) realloc(
        golden->vectors, (golden->count + 1) * sizeof(*golden->vectors));
    HG_CHECK(golden->vectors != NULL);
    vector = &golden->vectors[golden->count++];
    memset(vector, 0, sizeof(*vector));
    memcpy(vector->name, name, length);
}

/* Append the bytes spelled in `text` to the latest vector. */
static void golden_bytes(struct golden *golden, const char *text)
{
    struct golden_vector *vector;

    for (; *text != '\0'; text++) {
        char digits[3] = {0, 0, 0};

        if (isspace((unsigned char) *text))
            continue;
        digits[0] = text[0];
        digits[1] = text[1];
        if (golden->count == 0 || !isxdigit((unsigned char) digits[0]) ||
            !isxdigit((unsigned char) digits[1]))
            hg_test_fail(golden->path, "neither a name nor bytes: %s", text);
        vector = &golden->vectors[golden->count - 1];
        vector->bytes =
            (unsigned char *) realloc(vector->bytes, vector->size + 1);
        HG_CHECK(vector->bytes != NULL);
        vector->bytes[vector->size++] =
            (unsigned char) strtoul(digits, NULL, 16);
        text++;
    }
}

struct golden *golden_open(const char *path)
{
    struct golden *golden = (struct golden *) calloc(1, sizeof(*golden));
    char line[GOLDEN_MAX_LINE];
    FILE *file = fopen(path, "r");

    HG_CHECK(golden != NULL);
    if (file == NULL)
        hg_test_fail(path, "cannot be read; tests run at the top of the tree");
    golden->path = path;
    while (fgets(line, sizeof(line), file) != NULL) {
        char *colon;
        char *bytes = line;

        line[strcspn(line, "#\n")] = '\0';
        colon = strchr(line, ':');
        if (colon != NULL) {
            golden_add(golden, line, (size_t) (colon - line));
            bytes = colon + 1;
        }
        golden_bytes(golden, bytes);
    }
    HG_CHECK(!ferror(file));
    fclose(file);
    return golden;
}

const unsigned char *golden_get(
    struct golden *golden, const char *name, size_t *size_p)
{
    struct golden_vector *vector = golden_find(golden, name, strlen(name));

    if (vector == NULL)
        hg_test_fail(golden->path, "has no vector %s", name);
    vector->used = true;
    *size_p = vector->size;
    return vector->bytes;
}

void golden_close(struct golden *golden)
{
    size_t i;

    HG_CHECK(golden->count > 0);
    for (i = 0; i < golden->count; i++) {
        if (!golden->vectors[i].used)
            hg_test_fail(golden->path, "no test compares the vector %s",
                golden->vectors[i].name);
        free(golden->vectors[i].bytes);
    }
    free(golden->vectors);
    free(golden);
}
