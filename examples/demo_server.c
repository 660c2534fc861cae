/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * demo_server ADDRESS FOLDER: serves the files of a folder to the demo's
 * clients, until Ctrl-C. Prints the address that clients use, then nothing.
 */
#include "demo_serve.h"
#include "peer.h"
#include "stop.h"

int main(int argc, char *argv[])
{
    struct peer peer;
    hg_return_t ret;

    if (argc != 3) {
        (void) fprintf(stderr, "usage: demo_server ADDRESS FOLDER\n");
        return 2;
    }
    stop_on_signals();
    ret = peer_listen(&peer, argv[1]);
    if (ret != HG_SUCCESS)
        return 1;
    ret = demo_serve_begin(peer.na_class, argv[2]);
    if (ret != HG_SUCCESS)
        goto close_peer;
    ret = peer_announce(&peer);
    if (ret == HG_SUCCESS)
        ret = stop_serve();
    demo_serve_end();
close_peer:
    peer_close(&peer);
    return ret != HG_SUCCESS;
}
