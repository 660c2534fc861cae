/* SPDX-License-Identifier: BSD-3-Clause */
/* main: runs the case that the command line names; see jobs.h. */
#define GASNET_SEQ 1
#include "jobs.h"

#include <stdlib.h>
#include <string.h>

void jobs_fail(const char *file, int line, const char *condition)
{
    (void) fprintf(stderr, "%s:%d: node %u: not true: %s\n", file, line,
        gasnet_mynode(), condition);
    gasnet_exit(1);
}

int jobs_is_full(void)
{
    return getenv("HG_TEST_FULL") != NULL;
}

int main(int argc, char *argv[])
{
    static const struct jobs_case *const files[] = {jobs_core, jobs_names,
        jobs_data, jobs_every, jobs_old, jobs_checks, jobs_hostile, jobs_ends,
        jobs_steps};
    const struct jobs_case *one;
    size_t i;

    for (i = 0; argc > 1 && i < sizeof(files) / sizeof(files[0]); i++)
        for (one = files[i]; one->name != NULL; one++)
            if (strcmp(one->name, argv[1]) == 0) {
                one->run(argc - 1, argv + 1);
                return 0;
            }
    (void) fprintf(stderr, "jobs: no such case\n");
    return 2;
}
