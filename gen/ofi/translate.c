/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers behind an address translation (NAT).
 *
 * Part of the libfabric transport; see ofi.h.
 *
 * A provider over TCP knows the peer of a connection by the host that the
 * connection came from, and the port that the peer announced. Behind an address
 * translation that host is not the one in the peer's introduction, and
 * libfabric does not report it. It is one of the hosts that are connected with
 * the endpoint: the one for which the provider has such a connection, and so
 * accepts an answer at once.
 */
#include "ofi/ofi.h"

#define NA_OFI_HOSTS 64   /* that are connected */
#define NA_OFI_GUESSES 16 /* each wrong one starts a connection */
/* Searches for the host of one peer: each looks at all descriptors. The first
 * may come too early for the provider. */
#define NA_OFI_SEARCHES 4

struct na_ofi_hosts {
    struct sockaddr_storage host[NA_OFI_HOSTS]; /* with the peer's port */
    bool named[NA_OFI_HOSTS];                   /* another peer announces it */
    unsigned count;
};

/* The address that a peer's introduction contains. */
static void na_ofi_announced(const struct na_ofi_addr *addr, size_t size,
    struct sockaddr_storage *address)
{
    HG_ASSERT(size <= sizeof(*address));
    memset(address, 0, sizeof(*address));
    memcpy(address, addr->raw, size);
}

/* Whether another peer announces a host; the class's lock is held, as below. */
static bool na_ofi_is_named(
    struct na_ofi_class *self, size_t size, const struct sockaddr_storage *host)
{
    struct sockaddr_storage other;
    struct na_link *link;

    for (link = self->addrs.next; link != &self->addrs; link = link->next) {
        na_ofi_announced(
            NA_OFI_OF(link, struct na_ofi_addr, link), size, &other);
        if (other.ss_family == 0)
            continue;
        na_ofi_set_port(&other, na_ofi_port(host));
        if (na_ofi_is_place(&other, host))
            return true;
    }
    return false;
}

/* Add the peer of a socket, if that is connected with the endpoint. True: it is
 * the host `there`. */
static bool na_ofi_add_host(struct na_ofi_end *end, int socket,
    const struct sockaddr_storage *there, struct na_ofi_hosts *hosts)
{
    struct sockaddr_storage own;
    struct sockaddr_storage peer;
    struct sockaddr_storage here;
    socklen_t own_size = sizeof(own);
    socklen_t size = sizeof(peer);
    unsigned i;

    memset(&here, 0, sizeof(here));
    memcpy(&here, end->raw, end->raw_size);
    memset(&peer, 0, sizeof(peer));
    if (getsockname(socket, (struct sockaddr *) &own, &own_size) != 0 ||
        getpeername(socket, (struct sockaddr *) &peer, &size) != 0 ||
        !na_ofi_is_place(&own, &here))
        return false;
    na_ofi_set_port(&peer, na_ofi_port(there));
    for (i = 0; i < hosts->count; i++) {
        if (na_ofi_is_place(&peer, &hosts->host[i]))
            return false;
    }
    if (i < NA_OFI_HOSTS) {
        hosts->host[i] = peer;
        hosts->named[i] = na_ofi_is_named(end->na_class, end->raw_size, &peer);
        hosts->count++;
    }
    return na_ofi_is_place(&peer, there);
}

/* List the connected hosts; none if the host that the peer announces is one of
 * them. */
static void na_ofi_list_hosts(struct na_ofi_end *end,
    const struct sockaddr_storage *there, struct na_ofi_hosts *hosts)
{
    DIR *open_ones = opendir("/dev/fd"); /* on Linux of /proc */
    const struct dirent *entry;

    hosts->count = 0;
    while (open_ones != NULL && (entry = readdir(open_ones)) != NULL) {
        int fd = (int) strtol(entry->d_name, NULL, 10);

        if (na_ofi_add_host(end, fd, there, hosts)) {
            hosts->count = 0;
            break;
        }
    }
    if (open_ones != NULL)
        (void) closedir(open_ones);
}

/* Try to answer a peer as if it were at `host`. */
static bool na_ofi_try_host(struct na_ofi_class *self, struct na_ofi_addr *addr,
    const struct sockaddr_storage *host, const struct na_ofi_intro *intro)
{
    struct na_ofi_far *far;
    fi_addr_t before = addr->at;

    addr->host = *host;
    addr->at = FI_ADDR_UNSPEC;
    if (na_ofi_enter(self, addr, intro->ends + 1, &addr->at) != NA_SUCCESS ||
        na_ofi_send_control(self, addr, NA_OFI_WELCOME) != 0) {
        na_ofi_remove(self, addr->other, &addr->at);
        addr->at = before;
        addr->host.ss_family = 0;
        return false;
    }
    na_ofi_remove(self, addr->other, &before);
    /* Nobody else uses them before the peer is proven. */
    while ((far = atomic_load(&addr->far)) != NULL) {
        atomic_store(&addr->far, far->next);
        na_ofi_remove(self, far->other, &far->at);
        self->base.core->free(far);
    }
    (void) na_ofi_set_ends(self, addr, intro);
    return true;
}

/* Answer a HELLO that arrived at the endpoint, from a peer that is not
 * connected from the host that it announces. False: not possible. */
static bool na_ofi_answer_translated(struct na_ofi_end *end,
    struct na_ofi_addr *addr, const struct na_ofi_intro *intro)
{
    struct na_ofi_class *self = end->na_class;
    struct sockaddr_storage there;
    struct na_ofi_hosts hosts;
    unsigned tries = 0;
    unsigned named;
    unsigned i;

    if (atomic_load(&addr->state) != NA_OFI_ACCEPTED ||
        addr->searches == NA_OFI_SEARCHES || !na_ofi_is_tcp(self))
        return false;
    addr->searches++;
    na_ofi_announced(addr, end->raw_size, &there);
    na_ofi_list_hosts(end, &there, &hosts);
    for (named = 0; named < 2; named++) {
        for (i = 0; i < hosts.count && tries < NA_OFI_GUESSES; i++) {
            if (hosts.named[i] != (named != 0))
                continue;
            tries++;
            if (na_ofi_try_host(self, addr, &hosts.host[i], intro))
                return true;
        }
    }
    return false;
}
