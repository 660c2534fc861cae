/* SPDX-License-Identifier: BSD-3-Clause */
/* counts_code: see counts_code.h. */
#define _GNU_SOURCE 1

#include "counts_code.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void counts_die(const char *what)
{
    fprintf(stderr, "counts: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- Functions of this program ---- */

static struct counts_function *counts_functions; /* sorted by address */
static size_t counts_function_count;
static uintptr_t counts_base; /* difference from addresses in the file */

static int counts_by_start(const void *left, const void *right)
{
    const struct counts_function *a = (const struct counts_function *) left;
    const struct counts_function *b = (const struct counts_function *) right;

    return a->start < b->start ? -1 : a->start > b->start;
}

static int counts_find_base(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void) size;
    (void) arg;
    counts_base = info->dlpi_addr;
    return 1; /* the first entry is the program */
}

/* Functions in a symbol table. Those of hg.c are the local ones after its name,
 * and the global ones with the prefixes of hg.h. */
static void counts_read_symbols(
    const Elf64_Sym *symbols, size_t count, const char *names)
{
    bool library = false;
    size_t i;

    counts_functions =
        (struct counts_function *) calloc(count, sizeof(*counts_functions));
    if (counts_functions == NULL)
        counts_die("calloc");
    for (i = 0; i < count; i++) {
        const char *name = names + symbols[i].st_name;
        struct counts_function *function =
            &counts_functions[counts_function_count];

        if (ELF64_ST_TYPE(symbols[i].st_info) == STT_FILE)
            library = strcmp(name, "hg.c") == 0;
        if (ELF64_ST_TYPE(symbols[i].st_info) != STT_FUNC ||
            symbols[i].st_size == 0)
            continue;
        function->start = counts_base + symbols[i].st_value;
        function->end = function->start + symbols[i].st_size;
        function->name = name;
        function->library = ELF64_ST_BIND(symbols[i].st_info) == STB_LOCAL
            ? library
            : strncmp(name, "HG_", 3) == 0 || strncmp(name, "NA_", 3) == 0 ||
                strncmp(name, "hg_", 3) == 0 || strncmp(name, "na_", 3) == 0;
        function->checksum =
            function->library && strncmp(name, "hg_crc", 6) == 0;
        counts_function_count++;
    }
    qsort(counts_functions, counts_function_count, sizeof(*counts_functions),
        counts_by_start);
}

void counts_read_program(void)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    const Elf64_Shdr *sections;
    const Elf64_Ehdr *header;
    struct stat stat;
    const char *file;
    unsigned i;

    if (fd < 0 || fstat(fd, &stat) != 0)
        counts_die("/proc/self/exe");
    file = (const char *) mmap(
        NULL, (size_t) stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED)
        counts_die("mmap");
    (void) dl_iterate_phdr(counts_find_base, NULL);
    header = (const Elf64_Ehdr *) (const void *) file;
    sections = (const Elf64_Shdr *) (const void *) (file + header->e_shoff);
    for (i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type == SHT_SYMTAB)
            counts_read_symbols((const Elf64_Sym *) (const void *) (file +
                                    sections[i].sh_offset),
                sections[i].sh_size / sizeof(Elf64_Sym),
                file + sections[sections[i].sh_link].sh_offset);
    }
}

const struct counts_function *counts_function_of(uintptr_t address)
{
    size_t low = 0;
    size_t high = counts_function_count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (counts_functions[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < counts_function_count && counts_functions[low].start <= address
        ? &counts_functions[low]
        : NULL;
}

/* ---- Instructions ---- */

static bool counts_is_prefix(unsigned char byte)
{
    return byte == 0x66 || byte == 0x67 || byte == 0x2e || byte == 0x36 ||
        byte == 0x3e || byte == 0x26 || byte == 0x64 || byte == 0x65 ||
        byte == 0xf2 || byte == 0xf3;
}

/* The relevant forms have no prefix but these and the lock prefix. */
enum counts_kind counts_kind_of(const unsigned char *p)
{
    while (counts_is_prefix(*p))
        p++;
    if (*p == 0xf0)
        return COUNTS_LOCK;
    if ((*p & 0xf0) == 0x40) /* REX */
        p++;
    switch (p[0]) {
    case 0x86:
    case 0x87: /* xchg; with memory it locks */
        return p[1] < 0xc0 ? COUNTS_LOCK : COUNTS_OTHER;
    case 0x0f:
        if (p[1] == 0x05)
            return COUNTS_SYSCALL;
        return p[1] == 0xae && p[2] >= 0xf0 && p[2] < 0xf8 ? COUNTS_LOCK
                                                           : COUNTS_OTHER;
    case 0xff: /* chosen by the middle bits of the next byte */
        if ((p[1] & 0x38) == 0x10 || (p[1] & 0x38) == 0x18)
            return COUNTS_CALL_INDIRECT;
        return (p[1] & 0x38) == 0x20 ? COUNTS_JUMP_INDIRECT : COUNTS_OTHER;
    case 0xe8:
    case 0xc3: return COUNTS_CALL;
    default: return COUNTS_OTHER;
    }
}

/* ---- Places ---- */

FILE *counts_open_places(const uintptr_t *addresses, size_t count)
{
    const size_t size = 512 + count * 20;
    char *command = (char *) malloc(size);
    char program[256];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    FILE *places;
    size_t used;
    size_t i;

    if (length < 0 || command == NULL)
        counts_die("/proc/self/exe");
    program[length] = '\0';
    used =
        (size_t) snprintf(command, size, "addr2line -apfis -e '%s'", program);
    for (i = 0; i < count; i++)
        used += (size_t) snprintf(command + used, size - used, " 0x%lx",
            (unsigned long) (addresses[i] - counts_base));
    places = popen(command, "r");
    if (places == NULL)
        counts_die("addr2line");
    free(command);
    return places;
}

/* For each address there is a line "0x...: function at file:line", and one for
 * each function it is inlined in. */
void counts_read_place(FILE *places, char *place, size_t size)
{
    static const char inlined[] = " (inlined by) ";
    char line[512];
    size_t used = 0;
    int next;

    place[0] = '\0';
    while (fgets(line, sizeof(line), places) != NULL) {
        const char *text = strstr(line, ": ");

        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, inlined, sizeof(inlined) - 1) == 0)
            text = line + sizeof(inlined) - 1;
        else
            text = text != NULL ? text + 2 : line;
        if (used < size)
            used += (size_t) snprintf(
                place + used, size - used, "%s%s", used > 0 ? " < " : "", text);
        next = getc(places);
        (void) ungetc(next, places);
        if (next != ' ')
            return;
    }
}
