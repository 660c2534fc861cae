/* SPDX-License-Identifier: BSD-3-Clause */
/* peer: see peer.h. */
#define _POSIX_C_SOURCE 200809L
#include "peer.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define PEER_WAIT_MS 500 /* after this time a wait looks at the flag */

/* ---- Start and end ---- */

/* The length of "SCHEME://" at the start of an address. Returns 0 after
 * a line on stderr if the address has no scheme. */
static size_t peer_scheme_length(const char *address)
{
    const char *end = strstr(address, "://");

    if (end != NULL)
        return (size_t) (end - address) + 3;
    (void) fprintf(stderr,
        "'%s' is not an address; an address looks like zmq+tcp://host:port\n",
        address);
    return 0;
}

/* Open the transport and start the RPC layer on it. */
static hg_return_t peer_start(
    struct peer *peer, const char *address, na_bool_t listen)
{
    hg_return_t ret;

    peer->na_class = NA_Initialize(address, listen);
    if (peer->na_class == NULL)
        return HG_NA_ERROR; /* the library has logged the cause */
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

hg_return_t peer_open(struct peer *peer, const char *address)
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
    /* A client opens the scheme alone, such as "zmq+tcp://". Of a list it also
     * opens the other addresses; there the library ignores the hosts. */
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

/* ---- Signals and waiting ---- */

static volatile sig_atomic_t peer_stop_flag;

static void peer_on_signal(int signal_number)
{
    (void) signal_number;
    peer_stop_flag = 1;
    HG_Wake(NULL); /* peer_serve looks at the flag */
}

void peer_catch_signals(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = peer_on_signal;
    (void) sigemptyset(&action.sa_mask);
    (void) sigaction(SIGINT, &action, NULL);
    (void) sigaction(SIGTERM, &action, NULL);
}

bool peer_is_stopped(void)
{
    return peer_stop_flag != 0;
}

hg_return_t peer_serve(void)
{
    while (!peer_is_stopped()) {
        hg_return_t ret =
            HG_Handler_process(HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);

        if (ret != HG_SUCCESS && ret != HG_TIMEOUT && ret != HG_INTR)
            return ret;
    }
    return HG_SUCCESS;
}

hg_return_t peer_wait(hg_request_t request)
{
    while (!peer_is_stopped()) {
        hg_status_t done = HG_FALSE;
        hg_return_t ret = HG_Wait(request, PEER_WAIT_MS, &done);

        if (done || (ret != HG_TIMEOUT && ret != HG_INTR))
            return ret;
    }
    return HG_CANCELED;
}

/* ---- Output ---- */

hg_return_t peer_report(const char *what, hg_return_t ret)
{
    const char *cause = HG_Error_to_string(ret);

    switch (ret) {
    case HG_SUCCESS: return ret;
    case HG_CANCELED:
        cause = peer_is_stopped() ? "interrupted" : "the server is stopping";
        break;
    case HG_DISCONNECT: cause = "the connection to the server is lost"; break;
    case HG_NOENTRY: cause = "the server has no such function"; break;
    default: break;
    }
    (void) fprintf(stderr, "%s: %s\n", what, cause);
    return ret;
}

hg_return_t peer_print_address(const struct peer *peer)
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
