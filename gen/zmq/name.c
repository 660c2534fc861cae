/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names: hosts and ports in the form for libzmq and for other processes.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

/* `from_peer` here and below: see plug/net.h. */
static na_return_t na_zmq_bad_name(const struct na_zmq_class *self,
    na_bool_t from_peer, const char *rest, const char *why)
{
    return na_plug_bad_name(&self->base, "zmq", from_peer, rest, why);
}

/* The family of addresses to prefer. */
static int na_zmq_family(const struct na_zmq_class *self)
{
    return self->base.info->addr_format == NA_ADDR_IPV6 ? AF_INET6 : AF_INET;
}

/* Write a number as libzmq reads it, such as "1.2.3.4" or "[::1]". */
static void na_zmq_put_number(
    const struct sockaddr_storage *address, char text[NA_ZMQ_NUMBER])
{
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "";
    bool good =
        na_plug_numeric((const struct sockaddr *) address, host, sizeof(host));

    HG_ASSERT(good); /* there are only internet addresses */
    (void) good;
    (void) snprintf(text, NA_ZMQ_NUMBER,
        address->ss_family == AF_INET6 ? "[%s]" : "%s", host);
}

/* Parse "host:port", "[v6]:port" or a part of these into a host, its address
 * unless it is a name (*named_p), and a port; 0: none. */
static na_return_t na_zmq_parse_tcp(const struct na_zmq_class *self,
    na_bool_t from_peer, const char *rest, char host[NA_MAX_ADDR_LEN],
    struct sockaddr_storage *address, bool *named_p, unsigned *port_p)
{
    bool wants_v6 = na_zmq_family(self) == AF_INET6;
    na_return_t ret =
        na_plug_split(&self->base, "zmq", from_peer, rest, host, port_p);

    if (ret != NA_SUCCESS)
        return ret;
    if (host[0] == '\0' && rest[0] != '[')
        (void) snprintf(host, NA_MAX_ADDR_LEN, wants_v6 ? "::1" : "127.0.0.1");
    if (strcmp(host, "*") == 0)
        (void) snprintf(host, NA_MAX_ADDR_LEN, wants_v6 ? "::" : "0.0.0.0");
    *named_p = !na_plug_number(host, address);
    return *named_p ? na_plug_check_named(&self->base, "zmq", from_peer, host)
                    : NA_SUCCESS;
}

/* Make the path of an ipc name absolute. */
static na_return_t na_zmq_parse_ipc(const struct na_zmq_class *self,
    na_bool_t from_peer, const char *rest, char *path_p, size_t path_size)
{
    size_t used = 0;

    if (rest[0] != '/' && rest[0] != '@') {
        if (getcwd(path_p, path_size - 1) == NULL)
            return na_zmq_failed(self, "cannot make absolute", rest);
        used = strlen(path_p);
        path_p[used++] = '/';
    }
    HG_ASSERT(path_size >= sizeof(((struct sockaddr_un *) 0)->sun_path));
    if (used + strlen(rest) >= sizeof(((struct sockaddr_un *) 0)->sun_path))
        return na_zmq_bad_name(
            self, from_peer, rest, "longer than a socket's path");
    memcpy(path_p + used, rest, strlen(rest) + 1);
    return NA_SUCCESS;
}

/* Remove what na_zmq_append_source appended to the name of a peer. Only a peer
 * that listens has a host and a port in front of it. */
static na_return_t na_zmq_strip_source(const struct na_zmq_class *self,
    na_bool_t from_peer, const char *rest, char text[NA_MAX_ADDR_LEN])
{
    const char *end = strchr(rest, '@');
    size_t size = end != NULL ? (size_t) (end - rest) : strlen(rest);

    if (end != NULL && memchr(rest, ':', size) == NULL)
        return na_zmq_bad_name(self, from_peer, rest,
            "a client that does not listen cannot be looked up");
    HG_ASSERT(size < NA_MAX_ADDR_LEN); /* as all names are */
    memcpy(text, rest, size);
    text[size] = '\0';
    return NA_SUCCESS;
}

/* Convert the part behind "://" to an endpoint that libzmq can dial, or that
 * has a host name (*named_p). */
static na_return_t na_zmq_endpoint(const struct na_zmq_class *self,
    const char *rest, na_bool_t from_peer, char endpoint[NA_MAX_ADDR_LEN],
    bool *named_p)
{
    char plain[NA_MAX_ADDR_LEN];
    char text[NA_MAX_ADDR_LEN];
    struct sockaddr_storage address;
    unsigned port = 0;
    na_return_t ret = NA_SUCCESS;
    int n = 0;

    *named_p = false;
    if (self->protocol == NA_ZMQ_TCP) {
        ret = na_zmq_strip_source(self, from_peer, rest, plain);
        if (ret == NA_SUCCESS)
            ret = na_zmq_parse_tcp(
                self, from_peer, plain, text, &address, named_p, &port);
        if (ret == NA_SUCCESS && !*named_p)
            na_zmq_put_number(&address, text);
        if (ret == NA_SUCCESS && port == 0)
            return na_zmq_bad_name(
                self, from_peer, rest, "no port to connect to");
        if (ret == NA_SUCCESS)
            n = snprintf(endpoint, NA_MAX_ADDR_LEN, "tcp://%s%s:%u",
                self->source, text, port);
    } else if (rest[0] == '\0') {
        return na_zmq_bad_name(self, from_peer, rest, "no name to connect to");
    } else if (self->protocol == NA_ZMQ_IPC) {
        ret = na_zmq_parse_ipc(self, from_peer, rest, text, sizeof(text));
        if (ret == NA_SUCCESS)
            n = snprintf(endpoint, NA_MAX_ADDR_LEN, "ipc://%s", text);
    } else
        n = snprintf(endpoint, NA_MAX_ADDR_LEN, "inproc://%s", rest);
    if (ret == NA_SUCCESS && n >= NA_MAX_ADDR_LEN)
        return na_zmq_bad_name(self, from_peer, rest, "too long");
    return ret;
}
