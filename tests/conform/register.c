/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * register: has the library know the example of a transport, unix, in programs
 * that run on it.
 */
#define HG_NA_PLUGIN_API 1
#include "hg.h"

#include <stdlib.h>
#include <string.h>

extern const struct na_plugin hg_na_unix_plugin;

__attribute__((constructor)) static void register_transport(void)
{
    const char *transport = getenv("HG_TEST_TRANSPORT");

    if (transport != NULL && strcmp(transport, "unix") == 0 &&
        NA_Register_plugin(&hg_na_unix_plugin) != NA_SUCCESS)
        abort();
}
