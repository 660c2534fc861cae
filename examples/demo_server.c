/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * demo_server: serves the files of a folder to demo_client, until Ctrl-C.
 *
 *     demo_server ADDRESS FOLDER
 *
 * It prints the address for the clients and nothing else. demo_serve.c has the
 * functions that it serves.
 *
 * The server has one thread: a client that lives but stops in the middle of a
 * transfer holds up the others until the transfer times out, after 10 s.
 */
#include "demo_serve.h"
#include "peer.h"
#include "usage.h"

static const char server_help[] =
    "usage: demo_server ADDRESS FOLDER\n"
    "\n"
    "Listens on ADDRESS, prints the address for the clients, and serves the\n"
    "files of FOLDER until Ctrl-C.\n"
    "\n"
    "Example:\n"
    "  mkdir files\n"
    "  demo_server sm://files files &\n"
    "  demo_client sm://files put README.md name\n";

int main(int argc, char *argv[])
{
    struct peer peer;
    hg_return_t ret;

    if (usage_is_printed(argc, argv, "demo_server", server_help))
        return 0;
    if (argc != 3)
        return usage_error("demo_server", "expects ADDRESS and FOLDER");
    peer_catch_signals();
    ret = peer_listen(&peer, argv[1]);
    if (ret != HG_SUCCESS)
        return 1;
    ret = demo_serve_begin(peer.na_class, argv[2]);
    if (ret != HG_SUCCESS)
        goto close_peer;
    ret = peer_print_address(&peer);
    if (ret == HG_SUCCESS)
        ret = peer_serve();
    demo_serve_end();
close_peer:
    peer_close(&peer);
    return ret != HG_SUCCESS;
}
