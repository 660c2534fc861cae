/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts, ports, interfaces and subnets in address strings and options.
 *
 * `subsys` is the subsystem of the log lines. `from_peer`: a peer gave the
 * name. Then errors are logged as warnings, and no name server is queried.
 */
#ifndef HG_GEN_PLUG_NET_H
#define HG_GEN_PLUG_NET_H

#include "plug/plug.h"

/* A range of addresses. */
struct na_plug_subnet {
    int family;
    unsigned bits; /* length of the prefix */
    unsigned char bytes[sizeof(struct in6_addr)];
};

/* Parse a numeric host. False: it is a name, which the functions of host.h
 * resolve. */
static inline NA_PLUG_PERHAPS bool na_plug_number(
    const char *host, struct sockaddr_storage *address)
{
    struct addrinfo hints;
    struct addrinfo *found = NULL;

    memset(&hints, 0, sizeof(hints));
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST; /* does not block */
    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    memset(address, 0, sizeof(*address));
    memcpy(address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return true;
}

/* Whether a socket address can belong to a single peer. */
static inline NA_PLUG_PERHAPS bool na_plug_is_of_one(
    const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET) {
        uint32_t ip =
            ntohl(((const struct sockaddr_in *) address)->sin_addr.s_addr);

        return ip >> 24 != 0 && ip < UINT32_C(0xe0000000); /* multicast */
    }
    if (address->ss_family == AF_INET6) {
        const struct in6_addr *ip =
            &((const struct sockaddr_in6 *) address)->sin6_addr;

        return !IN6_IS_ADDR_UNSPECIFIED(ip) && !IN6_IS_ADDR_MULTICAST(ip);
    }
    return false;
}

/* Refuse a host name that a peer gave. */
static inline NA_PLUG_PERHAPS na_return_t na_plug_check_named(
    const struct na_class *na_class, const char *subsys, na_bool_t from_peer,
    const char *host)
{
    return from_peer ? na_plug_bad_name(na_class, subsys, from_peer, host,
                           "a peer's address must have a numeric host, not a "
                           "host name")
                     : NA_SUCCESS;
}

/* The numeric host of an address, without its port; false: not an internet
 * address. */
static inline NA_PLUG_PERHAPS bool na_plug_numeric(
    const struct sockaddr *address, char *host, size_t size)
{
    socklen_t length = address->sa_family == AF_INET6
        ? (socklen_t) sizeof(struct sockaddr_in6)
        : (socklen_t) sizeof(struct sockaddr_in);

    return (address->sa_family == AF_INET || address->sa_family == AF_INET6) &&
        getnameinfo(address, length, host, (socklen_t) size, NULL, 0,
            NI_NUMERICHOST) == 0;
}

/* Split "host:port", "[v6]:port", or a part of these. If the host is missing
 * `host` is "", if the port is missing *port_p is 0. NA_INVALID_ARG:
 * malformed. */
static inline NA_PLUG_PERHAPS na_return_t na_plug_split(
    const struct na_class *na_class, const char *subsys, na_bool_t from_peer,
    const char *rest, char host[NA_MAX_ADDR_LEN], unsigned *port_p)
{
    const char *start = rest[0] == '[' ? rest + 1 : rest;
    const char *end = rest[0] == '[' ? strchr(rest, ']') : strrchr(rest, ':');
    const char *port;
    char *stop = NULL;
    unsigned long number = 0;

    if (rest[0] == '[' && end == NULL)
        return na_plug_bad_name(na_class, subsys, from_peer, rest,
            "the closing bracket is missing");
    if (end == NULL)
        end = rest + strlen(rest);
    port = rest[0] == '[' ? end + 1 : end;
    HG_ASSERT((size_t) (end - start) < NA_MAX_ADDR_LEN); /* as all names are */
    if (rest[0] != '[' && memchr(start, ':', (size_t) (end - start)) != NULL)
        return na_plug_bad_name(
            na_class, subsys, from_peer, rest, "not host:port");
    memcpy(host, start, (size_t) (end - start));
    host[end - start] = '\0';
    if (port[0] == ':' && strcmp(port, ":*") != 0 && port[1] != '\0') {
        number = strtoul(port + 1, &stop, 10);
        if (port[1] < '0' || *stop != '\0' || number > 65535)
            return na_plug_bad_name(na_class, subsys, from_peer, rest,
                "the port is not a number from 0 to 65535");
    } else if (port[0] != '\0' && port[0] != ':') {
        return na_plug_bad_name(
            na_class, subsys, from_peer, rest, "not host:port");
    }
    *port_p = (unsigned) number;
    return NA_SUCCESS;
}

/* Parse "192.0.2.0/24", "fd00::/64", or Mercury's form "192.0.2": eight bits
 * for each number, the rest zeros. False: malformed. */
static inline NA_PLUG_PERHAPS bool na_plug_parse_subnet(
    const char *text, struct na_plug_subnet *subnet)
{
    size_t size = strcspn(text, "/");
    char host[INET6_ADDRSTRLEN + sizeof(".0.0.0")];
    unsigned long bits;
    unsigned numbers = 1;
    char *end = NULL;
    size_t i;

    if (size >= INET6_ADDRSTRLEN)
        return false;
    memcpy(host, text, size);
    host[size] = '\0';
    subnet->family = strchr(host, ':') != NULL ? AF_INET6 : AF_INET;
    subnet->bits = 128;
    if (subnet->family == AF_INET) {
        for (i = 0; i < size; i++)
            numbers += host[i] == '.';
        subnet->bits = 8 * numbers;
        for (; numbers < 4; numbers++, size += 2)
            memcpy(host + size, ".0", sizeof(".0"));
    }
    if (inet_pton(subnet->family, host, subnet->bytes) != 1)
        return false;
    text = strchr(text, '/');
    if (text == NULL)
        return true;
    bits = strtoul(text + 1, &end, 10);
    if (text[1] < '0' || text[1] > '9' || *end != '\0' || bits < 1 ||
        bits > (subnet->family == AF_INET ? 32 : 128))
        return false;
    subnet->bits = (unsigned) bits;
    return true;
}

/* Parse the option ip_subnet; *given_p is false if it is not set.
 * NA_INVALID_ARG: malformed. */
static inline NA_PLUG_PERHAPS na_return_t na_plug_subnet_option(
    const struct na_class *na_class, const char *subsys,
    struct na_plug_subnet *subnet, bool *given_p)
{
    const char *text = na_class->info->ip_subnet;

    *given_p = text != NULL && text[0] != '\0';
    if (!*given_p || na_plug_parse_subnet(text, subnet))
        return NA_SUCCESS;
    na_class->core->log(HG_LOG_LEVEL_ERROR, subsys,
        "ip_subnet \"%s\": not of the form \"192.0.2.0/24\"", text);
    return NA_INVALID_ARG;
}

/* Whether an address of the subnet's family is in it. */
static inline NA_PLUG_PERHAPS bool na_plug_is_within(
    const struct sockaddr *address, const struct na_plug_subnet *subnet)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    size_t offset = subnet->family == AF_INET6
        ? offsetof(struct sockaddr_in6, sin6_addr)
        : offsetof(struct sockaddr_in, sin_addr);
    unsigned i;

    HG_ASSERT(address->sa_family == subnet->family);
    memcpy(bytes, (const char *) address + offset,
        subnet->family == AF_INET6 ? 16 : 4);
    for (i = 0; i < subnet->bits; i++) {
        if (((bytes[i / 8] ^ subnet->bytes[i / 8]) >> (7 - i % 8) & 1) != 0)
            return false;
    }
    return true;
}

#endif
