/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw_ofi: the program that uses libfabric alone; see raw_ofi.h for its
 * purpose.
 *
 * cc -O2 tests/perf/raw_ofi.c tests/perf/raw_ofi_main.c -lfabric -o raw_ofi
 * raw_ofi PROTOCOL HOST [SECONDS]
 *     prints a line for each figure
 * raw_ofi PROTOCOL HOST SECONDS echo|pull spin|sleep SIZE WINDOW [PIECE]
 *     prints one
 *
 * hg_perf links raw_ofi.c without this file.
 */
#include "raw_ofi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int raw_ofi_figure(
    struct raw_ofi *raw, const struct raw_ofi_round *round)
{
    const char *wait = round->sleeps ? "sleep" : "spin";
    double per_op;

    if (raw_ofi_run(raw, round, &per_op) != 0)
        return -1;
    if (round->kind == RAW_OFI_ECHO)
        printf("raw_ofi echo %s size=%zu window=%u us_per_op=%.3f "
               "ops_per_s=%.0f\n",
            wait, round->size, round->window, per_op * 1e6, 1 / per_op);
    else
        printf("raw_ofi pull %s size=%zu window=%u piece=%zu gb_per_s=%.3f\n",
            wait, round->size, round->window, round->piece,
            (double) round->size / per_op * 1e-9);
    (void) fflush(stdout);
    return 0;
}

static int raw_ofi_figures(struct raw_ofi *raw, double seconds)
{
    static const struct raw_ofi_round rounds[] = {
        {RAW_OFI_ECHO, 0, 64, 64, 1, 0}, {RAW_OFI_ECHO, 0, 4096, 4096, 1, 0},
        {RAW_OFI_ECHO, 0, 64, 64, 64, 0}, {RAW_OFI_PULL, 0, 65536, 65536, 1, 0},
        {RAW_OFI_PULL, 0, 1048576, 1048576, 1, 0},
        {RAW_OFI_PULL, 0, 4194304, 4194304, 1, 0},
        {RAW_OFI_PULL, 0, 16777216, 16777216, 1, 0}};
    const size_t count = sizeof(rounds) / sizeof(rounds[0]);
    size_t i;

    for (i = 0; i < 2 * count; i++) {
        struct raw_ofi_round round = rounds[i / 2];

        round.sleeps = i % 2 != 0;
        round.seconds = seconds;
        if (raw_ofi_figure(raw, &round) != 0)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct raw_ofi_round round;
    struct raw_ofi *raw;
    double seconds = argc > 3 ? strtod(argv[3], NULL) : 1.0;
    int rc;

    if (argc != 3 && argc != 4 && argc != 8 && argc != 9) {
        fprintf(stderr,
            "usage: raw_ofi PROTOCOL HOST [SECONDS "
            "[echo|pull spin|sleep SIZE WINDOW [PIECE]]]\n");
        return 1;
    }
    if (raw_ofi_open(argv[1], argv[2], &raw) != 0)
        return 1;
    if (argc < 8)
        rc = raw_ofi_figures(raw, seconds);
    else {
        round.kind = strcmp(argv[4], "pull") == 0 ? RAW_OFI_PULL : RAW_OFI_ECHO;
        round.sleeps = strcmp(argv[5], "sleep") == 0;
        round.size = (size_t) strtoull(argv[6], NULL, 0);
        round.window = (unsigned) strtoul(argv[7], NULL, 0);
        round.piece =
            argc > 8 ? (size_t) strtoull(argv[8], NULL, 0) : round.size;
        round.seconds = seconds;
        rc = raw_ofi_figure(raw, &round);
    }
    raw_ofi_close(raw);
    return rc == 0 ? 0 : 1;
}
