/* SPDX-License-Identifier: BSD-3-Clause */
/* client_signal: see client_signal.h. */
#define _GNU_SOURCE
#include "client_signal.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIGNAL_BIT(number) ((uint64_t) 1 << ((number) -1))

/* Those that stop or continue a program, or do nothing, by default. */
#define SIGNAL_HARMLESS \
    (SIGNAL_BIT(SIGCHLD) | SIGNAL_BIT(SIGCONT) | SIGNAL_BIT(SIGSTOP) | \
        SIGNAL_BIT(SIGTSTP) | SIGNAL_BIT(SIGTTIN) | SIGNAL_BIT(SIGTTOU) | \
        SIGNAL_BIT(SIGURG) | SIGNAL_BIT(SIGWINCH))

/* Add the signals of a line such as "SigPnd:\t0000000000000100". */
static void signal_take(const char *line, const char *name, uint64_t *signals)
{
    size_t length = strlen(name);

    if (strncmp(line, name, length) == 0)
        *signals |= strtoull(line + length, NULL, 16);
}

bool signal_ends(pid_t thread)
{
    uint64_t pending = 0, handled = SIGNAL_HARMLESS;
    char path[64], line[128];
    FILE *status;

    (void) snprintf(path, sizeof(path), "/proc/%ld/status", (long) thread);
    status = fopen(path, "re");
    if (status == NULL)
        return true; /* a thread of another namespace of processes is 0 */
    while (fgets(line, sizeof(line), status) != NULL) {
        signal_take(line, "SigPnd:", &pending);
        signal_take(line, "ShdPnd:", &pending);
        signal_take(line, "SigBlk:", &handled);
        signal_take(line, "SigIgn:", &handled);
        signal_take(line, "SigCgt:", &handled);
    }
    (void) fclose(status);
    return (pending & ~handled) != 0;
}
