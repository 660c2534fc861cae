/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw_sm: two processes that share memory, without hg; see raw_sm.h for the
 * purpose. Prints one line for each figure.
 *
 * cc -O2 tests/perf/raw_sm.c tests/perf/raw_sm_main.c -o raw_sm
 * raw_sm [SECONDS]
 *
 * hg_perf links raw_sm.c without this file.
 */
#include "raw_sm.h"

#include <stdio.h>
#include <stdlib.h>

static int raw_sm_echoes(struct raw_sm *raw, double seconds)
{
    static const size_t sizes[] = {64, 4096};
    double per_op;
    size_t i;

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (raw_sm_echo(raw, sizes[i], 1, seconds, &per_op) != 0)
            return -1;
        printf("raw_sm echo size=%zu us_per_op=%.3f\n", sizes[i], per_op * 1e6);
    }
    if (raw_sm_echo(raw, 64, RAW_SM_WINDOW_MAX, seconds, &per_op) != 0)
        return -1;
    printf("raw_sm echo size=64 window=%d ops_per_s=%.0f\n", RAW_SM_WINDOW_MAX,
        1 / per_op);
    return 0;
}

static int raw_sm_copies(
    struct raw_sm *raw, enum raw_sm_way way, double seconds)
{
    double per_op;
    size_t size;

    for (size = (size_t) 64 << 10; size <= RAW_SM_REGION; size *= 4) {
        if (raw_sm_copy(raw, way, size, seconds, &per_op) != 0)
            return -1;
        printf("raw_sm %s size=%zu gb_per_s=%.3f\n",
            way == RAW_SM_MEMCPY ? "memcpy" : "vm_read", size,
            (double) size / per_op * 1e-9);
    }
    return 0;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 1.0;
    struct raw_sm *raw;
    int rc;

    if (raw_sm_open(&raw) != 0)
        return 1;
    rc = raw_sm_echoes(raw, seconds);
    if (rc == 0) /* if the system denies it, the other way is still measured */
        (void) raw_sm_copies(raw, RAW_SM_VM_READ, seconds / 4);
    if (rc == 0)
        rc = raw_sm_copies(raw, RAW_SM_MEMCPY, seconds / 4);
    raw_sm_close(raw);
    return rc == 0 ? 0 : 1;
}
