/* SPDX-License-Identifier: BSD-3-Clause */
/* peer: see peer.h. */
#include "peer.h"

#include <string.h>

void peer_complain(const char *what, hg_return_t ret)
{
    (void) fprintf(stderr, "%s: %s\n", what, HG_Error_to_string(ret));
}

/* Open the transport and start the RPC layer on it. */
static hg_return_t peer_start(
    struct peer *peer, const char *info, na_bool_t listen)
{
    hg_return_t ret;

    peer->na_class = NA_Initialize(info, listen);
    if (peer->na_class == NULL)
        return HG_NA_ERROR; /* the library has said why */
    ret = HG_Init(peer->na_class);
    if (ret != HG_SUCCESS) {
        (void) NA_Finalize(peer->na_class);
        peer->na_class = NULL;
    }
    return ret;
}

hg_return_t peer_listen(struct peer *peer, const char *address)
{
    hg_return_t ret;

    memset(peer, 0, sizeof(*peer));
    ret = peer_start(peer, address, NA_TRUE);
    if (ret != HG_SUCCESS)
        return ret;
    ret = NA_Addr_self(peer->na_class, &peer->addr);
    if (ret != NA_SUCCESS)
        peer_close(peer);
    return ret;
}

/* A client needs no more of the address than its scheme: "zmq+tcp://". */
static hg_return_t peer_scheme(const char *address, char *scheme, size_t size)
{
    const char *end = strstr(address, "://");
    size_t length;

    if (end == NULL)
        return HG_INVALID_ARG;
    length = (size_t) (end - address) + 3;
    if (length >= size)
        return HG_INVALID_ARG;
    memcpy(scheme, address, length);
    scheme[length] = '\0';
    return HG_SUCCESS;
}

hg_return_t peer_connect(struct peer *peer, const char *address)
{
    char scheme[64];
    hg_return_t ret;

    memset(peer, 0, sizeof(*peer));
    ret = peer_scheme(address, scheme, sizeof(scheme));
    if (ret != HG_SUCCESS)
        return ret;
    ret = peer_start(peer, scheme, NA_FALSE);
    if (ret != HG_SUCCESS)
        return ret;
    ret = NA_Addr_lookup_wait(
        peer->na_class, address, PEER_LOOKUP_MS, &peer->addr);
    if (ret != NA_SUCCESS)
        peer_close(peer);
    return ret;
}

void peer_close(struct peer *peer)
{
    hg_return_t ret;

    if (peer->na_class == NULL)
        return;
    if (peer->addr != NA_ADDR_NULL)
        (void) NA_Addr_free(peer->na_class, peer->addr);
    ret = HG_Finalize();
    if (ret != HG_SUCCESS)
        peer_complain("HG_Finalize", ret);
    ret = NA_Finalize(peer->na_class);
    if (ret != NA_SUCCESS)
        peer_complain("NA_Finalize", ret);
    memset(peer, 0, sizeof(*peer));
}

hg_return_t peer_announce(const struct peer *peer)
{
    char text[NA_MAX_ADDR_LEN];
    hg_return_t ret;

    ret = NA_Addr_to_string(peer->na_class, text, sizeof(text), peer->addr);
    if (ret != NA_SUCCESS)
        return ret;
    if (printf("%s\n", text) < 0 || fflush(stdout) != 0)
        return HG_IO_ERROR;
    return HG_SUCCESS;
}
