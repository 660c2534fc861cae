/* SPDX-License-Identifier: BSD-3-Clause */
/* usage: see usage.h. */
#include "usage.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hg.h"

bool usage_is_printed(
    int argc, char *argv[], const char *program, const char *help)
{
    int i;

    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            (void) fputs(help, stdout);
            return true;
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("%s %d.%d.%d\n", program, HG_VERSION_MAJOR, HG_VERSION_MINOR,
                HG_VERSION_PATCH);
            return true;
        }
    }
    return false;
}

int usage_error(const char *program, const char *cause, ...)
{
    va_list args;

    va_start(args, cause);
    (void) fprintf(stderr, "%s: ", program);
    (void) vfprintf(stderr, cause, args);
    (void) fprintf(stderr, "; see %s --help\n", program);
    va_end(args);
    return USAGE_ERROR;
}

int usage_wrong_option(const char *program, char *argv[], int result)
{
    const char *last = argv[optind - 1];

    if (result == ':')
        return usage_error(program, "%s needs a value", last);
    if (optopt == 0 || strncmp(last, "--", 2) == 0)
        return usage_error(program, "wrong option %s", last);
    return usage_error(program, "wrong option -%c", optopt);
}

unsigned long usage_number(const char *text, unsigned long max)
{
    char *end;
    unsigned long number;

    if (text[0] < '0' || text[0] > '9')
        return 0;
    errno = 0;
    number = strtoul(text, &end, 10);
    return *end == '\0' && errno == 0 && number <= max ? number : 0;
}
