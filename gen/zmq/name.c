/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names: hosts and ports as libzmq, and as other processes, want them.
 *
 * A room of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

/* `from_peer`, here and below: a peer gave the name. That is no error of this
 * process, and must not block it: no name server is asked. */
static na_return_t na_zmq_bad_name(const struct na_zmq_class *self,
    na_bool_t from_peer, const char *rest, const char *why)
{
    self->base.core->log(from_peer ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR,
        "zmq", "%s://%s: %s", self->base.protocol, rest, why);
    return NA_INVALID_ARG;
}

/* A host name as a numeric address: of the family that was asked for, else
 * IPv4 before IPv6. Asks a name server if it must, and so may block. */
static na_return_t na_zmq_resolve(const struct na_zmq_class *self,
    na_bool_t from_peer, const char *host, char *numeric, size_t numeric_size,
    bool *v6_p)
{
    int wanted =
        self->base.info->addr_format == NA_ADDR_IPV6 ? AF_INET6 : AF_INET;
    struct addrinfo hints;
    struct addrinfo *found = NULL;
    const struct addrinfo *at;
    const struct addrinfo *best;
    int rc;

    memset(&hints, 0, sizeof(hints));
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = from_peer ? AI_NUMERICHOST : 0;
    rc = getaddrinfo(host, NULL, &hints, &found);
    if (rc == 0) {
        best = found;
        for (at = found; at != NULL; at = at->ai_next) {
            if (at->ai_family == wanted) {
                best = at;
                break;
            }
        }
        *v6_p = best->ai_family == AF_INET6;
        rc = getnameinfo(best->ai_addr, best->ai_addrlen, numeric,
            (socklen_t) numeric_size, NULL, 0, NI_NUMERICHOST);
        freeaddrinfo(found);
    }
    if (rc == 0)
        return NA_SUCCESS;
    if (from_peer)
        return na_zmq_bad_name(self, from_peer, host,
            "a peer's address must have a number, not a name, as its host");
    self->base.core->log(
        HG_LOG_LEVEL_ERROR, "zmq", "host %s: %s", host, gai_strerror(rc));
    return NA_HOSTUNREACH;
}

/* "host:port", "[v6]:port" or less, as "1.2.3.4" or "[::1]" and a port, 0
 * where none is given. */
static na_return_t na_zmq_parse_tcp(const struct na_zmq_class *self,
    na_bool_t from_peer, const char *rest, char *host_p, size_t host_size,
    unsigned *port_p)
{
    char name[NA_MAX_ADDR_LEN];
    char numeric[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
    const char *start = rest[0] == '[' ? rest + 1 : rest;
    const char *end = rest[0] == '[' ? strchr(rest, ']') : strrchr(rest, ':');
    const char *port;
    char *stop = NULL;
    unsigned long number = 0;
    bool wants_v6;
    bool v6 = false;
    na_return_t ret;

    if (rest[0] == '[' && end == NULL)
        return na_zmq_bad_name(self, from_peer, rest, "no closing bracket");
    if (end == NULL)
        end = rest + strlen(rest);
    port = rest[0] == '[' ? end + 1 : end;
    assert((size_t) (end - start) < sizeof(name)); /* as are all names */
    if (rest[0] != '[' && memchr(start, ':', (size_t) (end - start)) != NULL)
        return na_zmq_bad_name(self, from_peer, rest, "not host:port");
    memcpy(name, start, (size_t) (end - start));
    name[end - start] = '\0';
    if (port[0] == ':' && strcmp(port, ":*") != 0 && port[1] != '\0') {
        number = strtoul(port + 1, &stop, 10);
        if (port[1] < '0' || *stop != '\0' || number > 65535)
            return na_zmq_bad_name(
                self, from_peer, rest, "no port from 0 to 65535");
    } else if (port[0] != '\0' && port[0] != ':') {
        return na_zmq_bad_name(self, from_peer, rest, "not host:port");
    }
    wants_v6 = self->base.info->addr_format == NA_ADDR_IPV6;
    if (name[0] == '\0' && rest[0] != '[')
        (void) snprintf(name, sizeof(name), wants_v6 ? "::1" : "127.0.0.1");
    if (strcmp(name, "*") == 0)
        (void) snprintf(name, sizeof(name), wants_v6 ? "::" : "0.0.0.0");
    ret = na_zmq_resolve(self, from_peer, name, numeric, sizeof(numeric), &v6);
    if (ret != NA_SUCCESS)
        return ret;
    (void) snprintf(host_p, host_size, v6 ? "[%s]" : "%s", numeric);
    *port_p = (unsigned) number;
    return NA_SUCCESS;
}

/* The path of an ipc name, absolute. */
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
    assert(path_size >= sizeof(((struct sockaddr_un *) 0)->sun_path));
    if (used + strlen(rest) >= sizeof(((struct sockaddr_un *) 0)->sun_path))
        return na_zmq_bad_name(
            self, from_peer, rest, "longer than a socket's path");
    memcpy(path_p + used, rest, strlen(rest) + 1);
    return NA_SUCCESS;
}

/* What stands behind "://" as an endpoint of libzmq's to dial. */
static na_return_t na_zmq_endpoint(const struct na_zmq_class *self,
    const char *rest, na_bool_t from_peer, char endpoint[NA_MAX_ADDR_LEN])
{
    char text[NA_MAX_ADDR_LEN];
    unsigned port = 0;
    na_return_t ret = NA_SUCCESS;
    int n = 0;

    if (self->protocol == NA_ZMQ_TCP) {
        ret =
            na_zmq_parse_tcp(self, from_peer, rest, text, sizeof(text), &port);
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
