/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of an address of this host, for a class to which the application
 * gave no host, or all.
 *
 * The first address in this order is chosen:
 *
 *     1. of an interface that is up and running (it has a carrier),
 *     2. that other hosts can use: neither link-local in IPv6, whose form
 *        contains the name of an interface here, nor of loopback,
 *     3. global before site (RFC 1918, RFC 6598, RFC 4193) before link-local,
 *     4. not of a bridge, which often belongs to virtual machines,
 *     5. IPv4 before IPv6, unless one of them is asked for,
 *     6. as the system lists them.
 */
#ifndef HG_GEN_PLUG_IFACE_H
#define HG_GEN_PLUG_IFACE_H

#include "plug/net.h"

#ifdef __linux__
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#endif

/* Which addresses of this host are wanted. */
struct na_plug_wanted {
    const char *name; /* of an interface, or NULL */
    bool address;     /* the one in `there` */
    bool within;      /* one in `subnet` */
    bool loopback;    /* one that no other host reaches */
    struct sockaddr_storage there;
    struct na_plug_subnet subnet;
    int family; /* 0: any */
};

/* Tries an address; true: it is taken. */
typedef bool (*na_plug_take_t)(
    void *arg, const struct sockaddr *address, const char *numeric);

/* A rank is the sum of these. */
#define NA_PLUG_RANK_DOWN 48u     /* the interface is not running */
#define NA_PLUG_RANK_LOOPBACK 32u /* ... is loopback */
#define NA_PLUG_RANK_SCOPED 16u   /* IPv6, link-local */
#define NA_PLUG_RANK_SCOPE 4u
#define NA_PLUG_RANK_BRIDGE 2u
#define NA_PLUG_RANK_V6 1u
#define NA_PLUG_RANK_END 64u /* neither up nor internet */

enum na_plug_scope {
    NA_PLUG_GLOBAL,
    NA_PLUG_SITE,
    NA_PLUG_LINK,
    NA_PLUG_HOST /* loopback */
};

static inline NA_PLUG_PERHAPS enum na_plug_scope na_plug_scope_v4(uint32_t ip)
{
    if (ip >> 24 == 127)
        return NA_PLUG_HOST;
    if (ip >> 16 == 0xa9fe) /* 169.254.0.0/16 */
        return NA_PLUG_LINK;
    /* 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10 */
    return ip >> 24 == 10 || ip >> 20 == 0xac1 || ip >> 16 == 0xc0a8 ||
            ip >> 22 == 0x191
        ? NA_PLUG_SITE
        : NA_PLUG_GLOBAL;
}

static inline NA_PLUG_PERHAPS enum na_plug_scope na_plug_scope_of(
    const struct sockaddr *address)
{
    const struct in6_addr *ip;

    if (address->sa_family == AF_INET)
        return na_plug_scope_v4(
            ntohl(((const struct sockaddr_in *) address)->sin_addr.s_addr));
    ip = &((const struct sockaddr_in6 *) address)->sin6_addr;
    if (IN6_IS_ADDR_LOOPBACK(ip))
        return NA_PLUG_HOST;
    if (IN6_IS_ADDR_LINKLOCAL(ip))
        return NA_PLUG_LINK;
    return (ip->s6_addr[0] & 0xfe) == 0xfc || IN6_IS_ADDR_SITELOCAL(ip)
        ? NA_PLUG_SITE
        : NA_PLUG_GLOBAL;
}

/* The rank of an interface's address: the lower, the better. */
static inline NA_PLUG_PERHAPS unsigned na_plug_rank(
    const struct sockaddr *address, unsigned flags, bool bridge)
{
    enum na_plug_scope scope;
    unsigned rank;

    if (address == NULL || (flags & IFF_UP) == 0 ||
        (address->sa_family != AF_INET && address->sa_family != AF_INET6))
        return NA_PLUG_RANK_END;
    scope = na_plug_scope_of(address);
    rank = (unsigned) scope * NA_PLUG_RANK_SCOPE;
    if (bridge)
        rank += NA_PLUG_RANK_BRIDGE;
    if (address->sa_family == AF_INET6)
        rank += NA_PLUG_RANK_V6;
    if ((flags & IFF_RUNNING) == 0)
        return rank + NA_PLUG_RANK_DOWN;
    if ((flags & IFF_LOOPBACK) != 0)
        return rank + NA_PLUG_RANK_LOOPBACK;
    return address->sa_family == AF_INET6 && scope == NA_PLUG_LINK
        ? rank + NA_PLUG_RANK_SCOPED
        : rank;
}

/* Whether an interface is a bridge. The file system /sys may show the
 * interfaces of another network namespace, so the driver is asked. */
static inline NA_PLUG_PERHAPS bool na_plug_is_bridge(const char *name)
{
#ifdef __linux__
    struct ethtool_drvinfo info;
    struct ifreq request;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is = false;

    memset(&info, 0, sizeof(info));
    memset(&request, 0, sizeof(request));
    info.cmd = ETHTOOL_GDRVINFO;
    (void) snprintf(request.ifr_name, sizeof(request.ifr_name), "%.15s", name);
    request.ifr_data = (char *) &info;
    if (fd >= 0) {
        is = ioctl(fd, SIOCETHTOOL, &request) == 0 &&
            strcmp(info.driver, "bridge") == 0;
        (void) close(fd);
    }
    return is;
#else
    (void) name;
    return false;
#endif
}

static inline NA_PLUG_PERHAPS bool na_plug_is_same(
    const struct sockaddr *one, const struct sockaddr_storage *two)
{
    if (one->sa_family != two->ss_family)
        return false;
    if (one->sa_family == AF_INET)
        return ((const struct sockaddr_in *) one)->sin_addr.s_addr ==
            ((const struct sockaddr_in *) two)->sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *) one)->sin6_addr,
        &((const struct sockaddr_in6 *) two)->sin6_addr);
}

/* Whether an internet address of an interface is wanted. */
static inline NA_PLUG_PERHAPS bool na_plug_is_wanted(
    const struct ifaddrs *at, const struct na_plug_wanted *wanted)
{
    int family = at->ifa_addr->sa_family;

    if (wanted->family != 0 && wanted->family != family)
        return false;
    if (wanted->within &&
        (wanted->subnet.family != family ||
            !na_plug_is_within(at->ifa_addr, &wanted->subnet)))
        return false;
    if (wanted->loopback && na_plug_scope_of(at->ifa_addr) != NA_PLUG_HOST)
        return false;
    if (wanted->name != NULL)
        return strcmp(at->ifa_name, wanted->name) == 0;
    return !wanted->address || na_plug_is_same(at->ifa_addr, &wanted->there);
}

/* Offer the wanted addresses to `take`, the best ones first; NULL takes the
 * first one. Returns the one that was taken, or NULL; its rank in *rank_p. */
static inline NA_PLUG_PERHAPS const struct ifaddrs *na_plug_choose(
    const struct ifaddrs *all, const struct na_plug_wanted *wanted,
    na_plug_take_t take, void *arg, unsigned *rank_p)
{
    char numeric[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
    const struct ifaddrs *at;
    unsigned rank;

    for (rank = 0; rank < NA_PLUG_RANK_END; rank++) {
        for (at = all; at != NULL; at = at->ifa_next) {
            bool bridge = (rank & NA_PLUG_RANK_BRIDGE) != 0;

            if (na_plug_rank(at->ifa_addr, at->ifa_flags, bridge) == rank &&
                na_plug_is_wanted(at, wanted) &&
                na_plug_is_bridge(at->ifa_name) == bridge &&
                na_plug_numeric(at->ifa_addr, numeric, sizeof(numeric)) &&
                (take == NULL || take(arg, at->ifa_addr, numeric))) {
                *rank_p = rank;
                return at;
            }
        }
    }
    return NULL;
}

/* Write the addresses of this host, with commas between, truncated. */
static inline NA_PLUG_PERHAPS void na_plug_list_hosts(
    const struct ifaddrs *all, char *text, size_t size)
{
    char numeric[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
    size_t used = 0;

    text[0] = '\0';
    for (; all != NULL && used < size; all = all->ifa_next) {
        if (all->ifa_addr == NULL || (all->ifa_flags & IFF_UP) == 0 ||
            !na_plug_numeric(all->ifa_addr, numeric, sizeof(numeric)))
            continue;
        (void) snprintf(text + used, size - used, "%s%s %s%s",
            used > 0 ? ", " : "", all->ifa_name, numeric,
            (all->ifa_flags & IFF_RUNNING) == 0 ? " (no carrier)" : "");
        used += strlen(text + used);
    }
    if (used == 0)
        (void) snprintf(text, size, "none");
}

/* Log which address was chosen, of which; a warning if other hosts cannot use
 * the address of a listener. */
static inline NA_PLUG_PERHAPS void na_plug_log_choice(
    const struct na_class *na_class, const char *subsys,
    const struct ifaddrs *all, const struct ifaddrs *chosen, unsigned rank)
{
    bool warns = na_class->listen && rank >= NA_PLUG_RANK_SCOPED;
    char numeric[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "";
    char text[512];

    na_plug_list_hosts(all, text, sizeof(text));
    (void) na_plug_numeric(chosen->ifa_addr, numeric, sizeof(numeric));
    na_class->core->log(warns ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_INFO,
        subsys, "the host of %s+%s is %s (%s)%s, of: %s", subsys,
        na_class->protocol, numeric, chosen->ifa_name,
        warns ? ", which other hosts cannot use" : "", text);
}

#endif
