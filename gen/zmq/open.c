/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and closing the class, and the table of slots.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

/* The best address of this host in the subnet, or, if that is NULL, of the
 * family. False: there is none. */
static bool na_zmq_host_address(const struct na_zmq_class *self, int family,
    const struct na_plug_subnet *subnet, char *host, size_t size)
{
    char numeric[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
    struct na_plug_wanted wanted;
    struct ifaddrs *all = NULL;
    const struct ifaddrs *at;
    unsigned rank;

    memset(&wanted, 0, sizeof(wanted));
    wanted.family = family;
    wanted.within = subnet != NULL;
    if (wanted.within)
        wanted.subnet = *subnet;
    if (getifaddrs(&all) != 0)
        return false;
    at = na_plug_choose(all, &wanted, NULL, NULL, &rank);
    if (at != NULL && na_plug_numeric(at->ifa_addr, numeric, sizeof(numeric))) {
        na_plug_log_choice(&self->base, "zmq", all, at, rank);
        (void) snprintf(
            host, size, family == AF_INET6 ? "[%s]" : "%s", numeric);
    }
    freeifaddrs(all);
    return at != NULL;
}

/* With the option ip_subnet, `host` becomes an address in it, of the given
 * family (0: any). NA_INVALID_ARG: malformed; NA_ADDRNOTAVAIL: there is none
 * (both logged). */
static na_return_t na_zmq_subnet_address(
    const struct na_zmq_class *self, int family, char *host, size_t size)
{
    struct na_plug_subnet subnet;
    bool given;
    na_return_t ret =
        na_plug_subnet_option(&self->base, "zmq", &subnet, &given);

    if (ret != NA_SUCCESS || !given)
        return ret;
    if ((family == 0 || family == subnet.family) &&
        na_zmq_host_address(self, subnet.family, &subnet, host, size))
        return NA_SUCCESS;
    self->base.core->log(HG_LOG_LEVEL_ERROR, "zmq",
        "ip_subnet \"%s\": no interface has an address in it",
        self->base.info->ip_subnet);
    return NA_ADDRNOTAVAIL;
}

/* The public address of a listener on all interfaces: in ip_subnet if that
 * option is set; loopback if there is none. */
static na_return_t na_zmq_public_address(
    const struct na_zmq_class *self, char *host, size_t size)
{
    int family = host[0] == '[' ? AF_INET6 : AF_INET;
    const char *subnet = self->base.info->ip_subnet;

    if (subnet != NULL && subnet[0] != '\0')
        return na_zmq_subnet_address(self, family, host, size);
    if (!na_zmq_host_address(self, family, NULL, host, size))
        (void) snprintf(
            host, size, "%s", family == AF_INET6 ? "[::1]" : "127.0.0.1");
    return NA_SUCCESS;
}

/* Bind to `endpoint`, and read the endpoint that it became. */
static na_return_t na_zmq_bind(struct na_zmq_class *self, const char *endpoint)
{
    size_t size = sizeof(self->endpoint);

    if (!na_zmq_set(self->socket, ZMQ_IPV6, endpoint[6] == '[') ||
        zmq_bind(self->socket, endpoint) != 0)
        return na_zmq_failed(self, "cannot listen on", endpoint);
    if (zmq_getsockopt(
            self->socket, ZMQ_LAST_ENDPOINT, self->endpoint, &size) != 0)
        return na_zmq_failed(self, "cannot ask for the endpoint of", endpoint);
    return NA_SUCCESS;
}

/* The host and port to listen on. Blocks if a name server must be asked.
 * NA_ADDRNOTAVAIL: no such host (logged). */
static na_return_t na_zmq_own_address(struct na_zmq_class *self,
    const char *rest, char number[NA_ZMQ_NUMBER], unsigned *port_p)
{
    struct sockaddr_storage address;
    char host[NA_MAX_ADDR_LEN];
    const char *why = NULL;
    bool named;
    na_return_t ret =
        na_zmq_parse_tcp(self, NA_FALSE, rest, host, &address, &named, port_p);

    if (ret != NA_SUCCESS)
        return ret;
    if (named)
        why = na_plug_resolve(
            self->resolver, "zmq", host, na_zmq_family(self), &address);
    if (why == NULL) {
        na_zmq_put_number(&address, number);
        return NA_SUCCESS;
    }
    self->base.core->log(HG_LOG_LEVEL_ERROR, "zmq", "host %s: %s", host, why);
    return NA_ADDRNOTAVAIL;
}

static na_return_t na_zmq_open_tcp(
    struct na_zmq_class *self, const char *rest, char name[NA_MAX_ADDR_LEN])
{
    char endpoint[NA_MAX_ADDR_LEN];
    char host[NA_ZMQ_NUMBER] = "";
    char given[NA_MAX_ADDR_LEN];
    const char *port;
    unsigned number;
    na_return_t ret = NA_SUCCESS;

    self->resolver = na_plug_resolver_open(&self->base, self->base.core->wake);
    if (self->resolver == NULL)
        return NA_NOMEM;
    if (rest[0] == '\0' || rest[0] == ':')
        ret = na_zmq_subnet_address(self, 0, host, sizeof(host));
    if (ret != NA_SUCCESS)
        return ret;
    if (!self->base.listen && rest[0] == '\0' && host[0] == '\0')
        return NA_SUCCESS;
    if (snprintf(given, sizeof(given), "%s%s", host, rest) >=
        (int) sizeof(given))
        return na_zmq_bad_name(self, NA_FALSE, rest, "too long");
    ret = na_zmq_own_address(self, given, host, &number);
    if (ret != NA_SUCCESS)
        return ret;
    if (!self->base.listen) {
        (void) snprintf(self->source, sizeof(self->source), "%s:0;", host);
        return NA_SUCCESS;
    }
    (void) snprintf(endpoint, sizeof(endpoint), "tcp://%s:%u", host, number);
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "[::]") == 0)
        ret = na_zmq_public_address(self, host, sizeof(host));
    if (ret == NA_SUCCESS)
        ret = na_zmq_bind(self, endpoint);
    if (ret != NA_SUCCESS)
        return ret;
    port = strrchr(self->endpoint, ':');
    HG_ASSERT(port != NULL);
    (void) snprintf(name, NA_MAX_ADDR_LEN, "zmq+tcp://%s%s", host, port);
    return NA_SUCCESS;
}

/* Whether the path of an ipc endpoint is free. libzmq would remove any file
 * there, or the socket of a listening process, even of one that is stopped with
 * a full queue (EAGAIN). */
static na_return_t na_zmq_probe_path(
    const struct na_zmq_class *self, const char *path)
{
    struct sockaddr_un where;
    struct stat there;
    na_return_t ret = NA_SUCCESS;
    int fd;

    if (path[0] == '@' || lstat(path, &there) != 0)
        return NA_SUCCESS;
    memset(&where, 0, sizeof(where));
    where.sun_family = AF_UNIX;
    memcpy(where.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return na_zmq_failed(self, "cannot make a socket for", path);
    if (!S_ISSOCK(there.st_mode) ||
        connect(fd, (const struct sockaddr *) &where, sizeof(where)) == 0 ||
        errno == EAGAIN) {
        self->base.core->log(HG_LOG_LEVEL_ERROR, "zmq", "%s is in use", path);
        ret = NA_ADDRINUSE;
    }
    (void) close(fd);
    return ret;
}

static na_return_t na_zmq_open_ipc(
    struct na_zmq_class *self, const char *rest, char name[NA_MAX_ADDR_LEN])
{
    char endpoint[NA_MAX_ADDR_LEN];
    char path[NA_MAX_ADDR_LEN - 16];
    const char *folder = getenv("TMPDIR");
    na_return_t ret;

    if (!self->base.listen)
        return NA_SUCCESS;
    if (rest[0] == '\0' || strcmp(rest, "*") == 0) {
        (void) snprintf(endpoint, sizeof(endpoint), "%s/hg-%ld-%016" PRIx64,
            folder != NULL && folder[0] == '/' ? folder : "/tmp",
            (long) getpid(), self->base.core->random());
        rest = endpoint;
    }
    ret = na_zmq_parse_ipc(self, NA_FALSE, rest, path, sizeof(path));
    if (ret == NA_SUCCESS)
        ret = na_zmq_probe_path(self, path);
    if (ret != NA_SUCCESS)
        return ret;
    (void) snprintf(endpoint, sizeof(endpoint), "ipc://%s", path);
    ret = na_zmq_bind(self, endpoint);
    if (ret != NA_SUCCESS)
        return ret;
    self->has_bound = lstat(path, &self->bound) == 0;
    (void) snprintf(name, NA_MAX_ADDR_LEN, "zmq+ipc://%s", path);
    return NA_SUCCESS;
}

static na_return_t na_zmq_open_inproc(
    struct na_zmq_class *self, const char *rest, char name[NA_MAX_ADDR_LEN])
{
    char endpoint[NA_MAX_ADDR_LEN - 8];
    na_return_t ret;

    if (!self->base.listen)
        return NA_SUCCESS;
    if (rest[0] == '\0' || strcmp(rest, "*") == 0)
        (void) snprintf(endpoint, sizeof(endpoint), "inproc://%016" PRIx64,
            self->base.core->random());
    else if (snprintf(endpoint, sizeof(endpoint), "inproc://%s", rest) >=
        (int) sizeof(endpoint))
        return na_zmq_bad_name(self, NA_FALSE, rest, "too long");
    ret = na_zmq_bind(self, endpoint);
    if (ret == NA_SUCCESS)
        (void) snprintf(name, NA_MAX_ADDR_LEN, "zmq+%s", endpoint);
    return ret;
}

/* libzmq numbers accepted connections, and aborts the process if a peer has
 * chosen the next number as its routing id. The first number comes from rand,
 * which libzmq does not seed. Seed it, so that peers cannot guess the number;
 * the application's sequence of random numbers is unchanged.
 *
 * A ZAP handler cannot refuse such peers: libzmq 4.3.4 puts the routing id of
 * the listening socket into the request, not the peer's, and sends the request
 * before it has read the peer's READY. */
static void *na_zmq_open_router(const struct na_zmq_class *self)
{
    static char state[64];
    unsigned seed = (unsigned) self->base.core->random();
    char *old;
    void *router;

    (void) pthread_mutex_lock(&na_zmq_inproc.lock);
    old = initstate(seed, state, sizeof(state));
    router = zmq_socket(self->context, ZMQ_ROUTER);
    if (old != NULL)
        (void) setstate(old);
    (void) pthread_mutex_unlock(&na_zmq_inproc.lock);
    return router;
}

/* Open the sockets, with their options. */
static na_return_t na_zmq_open_sockets(struct na_zmq_class *self)
{
    const struct na_init_info *info = self->base.info;
    static const char monitor[] = "inproc://monitor";
    int death =
        info->death_ms < INT32_MAX / 2 ? (int) info->death_ms : INT32_MAX / 2;
    int lookup =
        info->lookup_ms < INT32_MAX / 2 ? (int) info->lookup_ms : INT32_MAX / 2;
    int64_t largest = (int64_t) (NA_ZMQ_MSG_MAX + NA_ZMQ_HEADERS);
    int ttl = death < 100 ? 100 : death > 60000 ? 60000 : death;

    if (info->rma_frame_size > NA_ZMQ_MSG_MAX)
        largest = (int64_t) (info->rma_frame_size + NA_ZMQ_HEADERS);
    self->death = (uint64_t) death * NA_ZMQ_MS;
    self->hello_limit = (uint64_t) (lookup + NA_ZMQ_DIAL_MS) * NA_ZMQ_MS;
    self->context = self->protocol == NA_ZMQ_INPROC ? na_zmq_inproc_join(self)
                                                    : zmq_ctx_new();
    if (self->context == NULL)
        return na_zmq_failed(self, "no context", "of libzmq");
    self->socket = na_zmq_open_router(self);
    if (self->socket == NULL)
        return na_zmq_failed(self, "no socket", "of libzmq");
    /* No limit on received messages in libzmq: at a limit it stops reading,
     * including heartbeats, and would end the connection of a peer that sends
     * while this process computes. Setting a ZAP domain, though no handler
     * answers, rejects peers with a ZMTP version before 3.0: their routing ids
     * abort the process if they arrive while the socket closes (libzmq 4.3.4,
     * process_routing_id_msg). */
    if (!na_zmq_set(self->socket, ZMQ_LINGER, 0) ||
        !na_zmq_set(self->socket, ZMQ_SNDHWM, 0) ||
        !na_zmq_set(self->socket, ZMQ_RCVHWM, 0) ||
        !na_zmq_set(self->socket, ZMQ_ROUTER_MANDATORY, 1) ||
        !na_zmq_set(self->socket, ZMQ_BACKLOG, 1024) ||
        !na_zmq_set(self->socket, ZMQ_RECONNECT_IVL, NA_ZMQ_RECONNECT_MS) ||
        !na_zmq_set(
            self->socket, ZMQ_HANDSHAKE_IVL, lookup + NA_ZMQ_GIVE_UP_MS) ||
        !na_zmq_set(
            self->socket, ZMQ_CONNECT_TIMEOUT, lookup + NA_ZMQ_GIVE_UP_MS) ||
        !na_zmq_set(self->socket, ZMQ_HEARTBEAT_IVL, death / 4 + 1) ||
        !na_zmq_set(self->socket, ZMQ_HEARTBEAT_TIMEOUT, death) ||
        !na_zmq_set(self->socket, ZMQ_HEARTBEAT_TTL, ttl) ||
        !na_zmq_set(self->socket, ZMQ_TCP_MAXRT, death) ||
        zmq_setsockopt(
            self->socket, ZMQ_MAXMSGSIZE, &largest, sizeof(largest)) != 0 ||
        zmq_setsockopt(self->socket, ZMQ_ZAP_DOMAIN, "hg", 2) != 0)
        return na_zmq_failed(self, "cannot set", "a socket's options");
    if (self->protocol == NA_ZMQ_INPROC)
        return NA_SUCCESS;
    self->monitor = zmq_socket(self->context, ZMQ_PAIR);
    if (self->monitor == NULL || !na_zmq_set(self->monitor, ZMQ_LINGER, 0) ||
        !na_zmq_set(self->monitor, ZMQ_RCVHWM, 0) ||
        zmq_socket_monitor(self->socket, monitor, NA_ZMQ_EVENTS) != 0 ||
        zmq_connect(self->monitor, monitor) != 0)
        return na_zmq_failed(self, "cannot monitor", "the socket");
    return NA_SUCCESS;
}

#if HG_ENABLE_EPOLL
static bool na_zmq_watch(const struct na_zmq_class *self, int fd)
{
    struct epoll_event event;

    memset(&event, 0, sizeof(event));
    event.events = EPOLLIN;
    return fd >= 0 && epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Create one descriptor for the socket, the monitor and the timer. */
static na_return_t na_zmq_open_fds(struct na_zmq_class *self)
{
    int fd = -1;
    size_t size = sizeof(fd);
    bool good;

    self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    self->timer_fd =
        timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    good = self->epoll_fd >= 0 && na_zmq_watch(self, self->timer_fd) &&
        zmq_getsockopt(self->socket, ZMQ_FD, &fd, &size) == 0 &&
        na_zmq_watch(self, fd);
    if (good && self->monitor != NULL)
        good = zmq_getsockopt(self->monitor, ZMQ_FD, &fd, &size) == 0 &&
            na_zmq_watch(self, fd);
    return good ? NA_SUCCESS
                : na_zmq_failed(self, "no descriptor", "to sleep on");
}
#else
static na_return_t na_zmq_open_fds(struct na_zmq_class *self)
{
    self->epoll_fd = NA_POLL_FD_NONE;
    return NA_SUCCESS;
}
#endif

/* Undo a complete or partial open. Accepted sends get up to `linger_ms`. */
static void na_zmq_shut(struct na_zmq_class *self, unsigned linger_ms)
{
    const struct na_core *core = self->base.core;
    struct na_link *link;

    if (self->monitor != NULL) { /* in this order; otherwise libzmq may hang */
        (void) zmq_socket_monitor(self->socket, NULL, 0);
        (void) zmq_close(self->monitor);
    }
    na_plug_list_move(&self->spare, &self->inbox);
    na_plug_list_move(&self->spare, &self->spent);
    while ((link = na_plug_list_pop(&self->spare)) != NULL) {
        struct na_zmq_in *in = NA_ZMQ_OF(link, struct na_zmq_in, link);

        na_zmq_close_parts(self, in);
        core->free(in);
    }
    HG_ASSERT(atomic_load(&self->parts) == 0);
    if (self->socket != NULL) {
        /* libzmq closes in the background: another class may need the name
         * now. */
        if (self->protocol == NA_ZMQ_INPROC && self->endpoint[0] != '\0')
            (void) zmq_unbind(self->socket, self->endpoint);
        (void) na_zmq_set(self->socket, ZMQ_LINGER, (int) linger_ms);
        (void) zmq_close(self->socket);
        /* Addresses released from here on are in no table. */
        self->socket = NULL;
    }
    if (self->protocol == NA_ZMQ_INPROC && self->context != NULL)
        na_zmq_inproc_leave(self);
    else if (self->context != NULL)
        while (zmq_ctx_term(self->context) != 0 && errno == EINTR)
            continue;
    if (self->has_bound) {
        const char *path = self->endpoint + strlen("ipc://");
        struct stat now;

        if (lstat(path, &now) == 0 && now.st_ino == self->bound.st_ino &&
            now.st_dev == self->bound.st_dev)
            (void) unlink(path);
    }
#if HG_ENABLE_EPOLL
    if (self->epoll_fd >= 0)
        (void) close(self->epoll_fd);
    if (self->timer_fd >= 0)
        (void) close(self->timer_fd);
#endif
    core->free(self->fds);
    core->free(self->tables[NA_ZMQ_BY_ID].buckets);
    core->free(self->tables[NA_ZMQ_BY_ENDPOINT].buckets);
    core->free(self->tables[NA_ZMQ_BY_DIALLED].buckets);
    na_plug_resolver_close(self->resolver);
    (void) pthread_mutex_destroy(&self->lock);
}

static void na_zmq_close(struct na_class *na_class, unsigned linger_ms)
{
    struct na_zmq_class *self = na_zmq_of(na_class);
    struct na_link *link;

    for (link = self->addrs.next; link != &self->addrs; link = link->next) {
        struct na_zmq_addr *addr = NA_ZMQ_OF(link, struct na_zmq_addr, link);

        HG_ASSERT(na_plug_list_empty(&addr->sends));
        na_plug_drop(addr->query);
        addr->query = NULL;
        /* Messages that wait for a dial, or for a dead peer, are not sent. */
        if (addr->state < NA_ZMQ_READY || addr->state == NA_ZMQ_DYING)
            na_zmq_hang_up(self, addr);
    }
    while ((link = na_plug_list_pop(&self->holding)) != NULL)
        na_plug_list_move(
            &self->inbox, &NA_ZMQ_OF(link, struct na_zmq_addr, holding)->held);
    na_zmq_shut(self, linger_ms);
    while ((link = na_plug_list_pop(&self->addrs)) != NULL) {
        struct na_zmq_addr *addr = NA_ZMQ_OF(link, struct na_zmq_addr, link);

        addr->state = NA_ZMQ_DEAD;
        na_class->core->addr_unref(&addr->base);
    }
}

/* Initialize lists, tables and the lock, so that na_zmq_shut can be called. */
static na_return_t na_zmq_prepare(struct na_zmq_class *self)
{
    na_plug_list_init(&self->addrs);
    na_plug_list_init(&self->dying);
    na_plug_list_init(&self->inbox);
    na_plug_list_init(&self->spent);
    na_plug_list_init(&self->holding);
    na_plug_list_init(&self->spare);
    na_plug_list_init(&self->live);
    self->batch = 1;
    self->tick = NA_ZMQ_NEVER;
    self->hello_check = NA_ZMQ_NEVER;
    self->timer = NA_ZMQ_NEVER;
    self->epoll_fd = -1;
    self->timer_fd = -1;
    if (pthread_mutex_init(&self->lock, NULL) != 0)
        return NA_NOMEM;
    na_zmq_table_grow(self, NA_ZMQ_BY_ID);
    na_zmq_table_grow(self, NA_ZMQ_BY_ENDPOINT);
    na_zmq_table_grow(self, NA_ZMQ_BY_DIALLED);
    return NA_SUCCESS;
}

static na_return_t na_zmq_open(struct na_class *na_class, const char *host)
{
    static na_return_t (*const binders[])(
        struct na_zmq_class *, const char *, char[NA_MAX_ADDR_LEN]) = {
        na_zmq_open_tcp, na_zmq_open_ipc, na_zmq_open_inproc};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct na_zmq_class *self = na_zmq_of(na_class);
    const struct na_init_info *info = na_class->info;
    char name[NA_MAX_ADDR_LEN];
    struct na_zmq_addr *addr;
    na_return_t ret;

    self->protocol = na_class->protocol[0] == 't' ? NA_ZMQ_TCP
        : na_class->protocol[1] == 'p'            ? NA_ZMQ_IPC
                                                  : NA_ZMQ_INPROC;
    na_class->max_unexpected_size = info->max_unexpected_size;
    na_class->max_expected_size = info->max_expected_size;
    na_class->max_tag = UINT32_MAX;
    (void) pthread_once(&once, na_zmq_fork_begin);
    ret = na_plug_check_needs(na_class, "zmq",
        self->protocol == NA_ZMQ_INPROC ? NA_ZMQ_INPROC_FDS : NA_ZMQ_FDS,
        NA_ZMQ_THREADS);
    if (ret == NA_SUCCESS)
        ret = na_zmq_prepare(self);
    if (ret != NA_SUCCESS)
        return ret;
    ret = self->tables[NA_ZMQ_BY_ID].size > 0 &&
            self->tables[NA_ZMQ_BY_ENDPOINT].size > 0 &&
            self->tables[NA_ZMQ_BY_DIALLED].size > 0
        ? na_zmq_open_sockets(self)
        : NA_NOMEM;
    if (ret == NA_SUCCESS)
        ret = na_zmq_open_fds(self);
    na_zmq_unique_name(self, name);
    if (ret == NA_SUCCESS)
        ret = binders[self->protocol](self, host, name);
    if (ret != NA_SUCCESS)
        goto shut;
    addr = na_zmq_addr_new(self, name, NA_TRUE, NULL);
    if (addr == NULL) {
        ret = NA_NOMEM;
        goto shut;
    }
    addr->state = NA_ZMQ_READY;
    addr->open = true;
    atomic_store(&addr->incarnation, na_class->incarnation);
    na_class->self_addr = &addr->base;
    if (self->protocol == NA_ZMQ_INPROC)
        na_zmq_inproc_enter(self);
    return NA_SUCCESS;

shut:
    na_zmq_shut(self, 0);
    return ret;
}

static const char *const na_zmq_protocols[] = {"tcp", "ipc", "inproc", NULL};

extern const struct na_plugin hg_na_zmq_plugin;

const struct na_plugin hg_na_zmq_plugin = {
    .abi = NA_PLUGIN_ABI,
    .size = sizeof(struct na_plugin),
    .name = "zmq",
    .protocols = na_zmq_protocols,
    .caps = NA_CAP_HOLDS_BACK | NA_CAP_FRAMES_FIRST,
    .class_size = sizeof(struct na_zmq_class),
    .context_size = sizeof(struct na_zmq_context),
    .addr_size = sizeof(struct na_zmq_addr),
    .open = na_zmq_open,
    .close = na_zmq_close,
    .addr_lookup = na_zmq_addr_lookup,
    .addr_release = na_zmq_addr_release,
    .addr_cmp = na_zmq_addr_cmp,
    .addr_connect = na_zmq_addr_connect,
    .addr_terminate = na_zmq_addr_terminate,
    .addr_abandon = na_zmq_addr_abandon,
    .msg_send = na_zmq_msg_send,
    .frame_send = na_zmq_frame_send,
    .poll = na_zmq_poll,
    .poll_fd = na_zmq_poll_fd,
    .wait_begin = na_zmq_wait_begin,
    .wait_end = na_zmq_wait_end,
    .cancel = na_zmq_cancel,
    .reclaim = na_zmq_reclaim,
    .addr_resolve = na_zmq_addr_resolve,
};
