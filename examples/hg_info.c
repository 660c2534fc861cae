/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_info: what the library is, and what it can do here.
 *
 *     hg_info             its version, transports, environment variables
 *     hg_info ADDRESS     and what a class has that listens there, such as
 *                         "sm://" or "zmq+tcp://127.0.0.1"
 */
#include "hg.h"
#include "info.h"

int main(int argc, char *argv[])
{
    hg_return_t ret;

    if (argc > 2) {
        (void) fprintf(stderr, "usage: hg_info [ADDRESS]\n");
        return 2;
    }
    ret = info_print();
    if (ret == HG_SUCCESS && argc == 2)
        ret = info_print_class(argv[1]);
    return ret != HG_SUCCESS;
}
