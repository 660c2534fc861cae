/* SPDX-License-Identifier: BSD-3-Clause */
/* peer: see peer.h. */
#include "peer.h"

#include <errno.h>
#include <string.h>

#include "stop.h"

hg_return_t peer_say(const char *what, hg_return_t ret)
{
    const char *why = HG_Error_to_string(ret);

    switch (ret) {
    case HG_SUCCESS: return ret;
    case HG_CANCELED:
        why = stop_wanted() ? "interrupted" : "the server is being stopped";
        break;
    case HG_DISCONNECT: why = "the server is gone"; break;
    case HG_NOENTRY: why = "the server knows no such function"; break;
    default: break;
    }
    (void) fprintf(stderr, "%s: %s\n", what, why);
    return ret;
}

/* The part of an address up to "://", which each has; 0 and a line if not. */
static size_t peer_scheme_length(const char *address)
{
    const char *end = strstr(address, "://");

    if (end != NULL)
        return (size_t) (end - address) + 3;
    (void) fprintf(stderr,
        "'%s' is no address: one looks like zmq+tcp://host:port\n", address);
    return 0;
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
    if (peer_scheme_length(address) == 0)
        return HG_INVALID_ARG;
    ret = peer_start(peer, address, NA_TRUE);
    if (ret != HG_SUCCESS)
        return ret;
    ret = NA_Addr_self(peer->na_class, &peer->addr);
    if (ret != NA_SUCCESS)
        peer_close(peer);
    return ret;
}

hg_return_t peer_join(struct peer *peer, const char *address)
{
    memset(peer, 0, sizeof(*peer));
    if (peer_scheme_length(address) == 0)
        return HG_INVALID_ARG;
    return peer_start(peer, address, NA_FALSE);
}

hg_return_t peer_connect(struct peer *peer, const char *address)
{
    size_t length = peer_scheme_length(address);
    const char *others = strchr(address + length, ';');
    char schemes[NA_MAX_ADDR_LEN];
    hg_return_t ret;

    memset(peer, 0, sizeof(*peer));
    if (length == 0)
        return HG_INVALID_ARG;
    /* A client needs no more of the address than its scheme, "zmq+tcp://", and
     * the other addresses of a list, of which the library ignores the hosts. */
    (void) snprintf(schemes, sizeof(schemes), "%.*s%s", (int) length, address,
        others != NULL ? others : "");
    ret = peer_start(peer, schemes, NA_FALSE);
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
    if (peer->na_class == NULL)
        return;
    if (peer->addr != NA_ADDR_NULL)
        (void) NA_Addr_free(peer->na_class, peer->addr);
    (void) HG_Finalize();
    (void) NA_Finalize(peer->na_class);
    memset(peer, 0, sizeof(*peer));
}

hg_return_t peer_announce(const struct peer *peer)
{
    char text[NA_MAX_ADDR_LEN];
    hg_return_t ret;

    ret = NA_Addr_to_string(peer->na_class, text, sizeof(text), peer->addr);
    if (ret != NA_SUCCESS)
        return ret;
    if (printf("%s\n", text) < 0 || fflush(stdout) != 0) {
        (void) fprintf(stderr, "standard output: %s\n", strerror(errno));
        return HG_IO_ERROR;
    }
    return HG_SUCCESS;
}
