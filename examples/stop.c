/* SPDX-License-Identifier: BSD-3-Clause */
/* stop: see stop.h. */
#define _POSIX_C_SOURCE 200809L
#include "stop.h"

#include <signal.h>
#include <string.h>

#define STOP_LOOK_MS 500

static volatile sig_atomic_t stop_flag;

static void stop_raise(int signal_number)
{
    (void) signal_number;
    stop_flag = 1;
}

void stop_on_signals(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = stop_raise;
    (void) sigemptyset(&action.sa_mask);
    (void) sigaction(SIGINT, &action, NULL);
    (void) sigaction(SIGTERM, &action, NULL);
}

bool stop_wanted(void)
{
    return stop_flag != 0;
}

hg_return_t stop_serve(void)
{
    while (!stop_wanted()) {
        hg_return_t ret = HG_Handler_process(STOP_LOOK_MS, HG_STATUS_IGNORE);

        if (ret != HG_SUCCESS && ret != HG_TIMEOUT && ret != HG_INTR)
            return ret;
    }
    return HG_SUCCESS;
}

hg_return_t stop_wait(hg_request_t request)
{
    while (!stop_wanted()) {
        hg_status_t done = HG_FALSE;
        hg_return_t ret = HG_Wait(request, STOP_LOOK_MS, &done);

        if (done || (ret != HG_TIMEOUT && ret != HG_INTR))
            return ret;
    }
    return HG_CANCELED;
}
