/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dialling, and the events of the monitor.
 *
 * Part of the ZeroMQ transport; see zmq.h.
 */
#include "zmq/zmq.h"

static bool na_zmq_set(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof(value)) == 0;
}

/* End an attempt to dial within `share` ns from now. libzmq ends it slightly
 * earlier. False: an error of libzmq. */
static bool na_zmq_set_deadline(
    struct na_zmq_class *self, struct na_zmq_addr *addr, uint64_t share)
{
    uint64_t ms = share / NA_ZMQ_MS + NA_ZMQ_GIVE_UP_MS;
    int wait = ms < INT32_MAX / 2 ? (int) ms : INT32_MAX / 2;

    if (addr->deadline != NA_ZMQ_NEVER)
        addr->deadline =
            self->base.core->now_ns() + share + NA_ZMQ_DIAL_MS * NA_ZMQ_MS;
    if (addr->deadline < self->tick)
        self->tick = addr->deadline;
    return na_zmq_set(self->socket, ZMQ_CONNECT_TIMEOUT, wait) &&
        na_zmq_set(self->socket, ZMQ_HANDSHAKE_IVL, wait);
}

/* Connect to addr->dialled within `share` ns, and send HELLO. */
static void na_zmq_connect(
    struct na_zmq_class *self, struct na_zmq_addr *addr, uint64_t share)
{
    const struct na_core *core = self->base.core;
    unsigned char body[16 + NA_MAX_ADDR_LEN];
    size_t size = 16;

    na_zmq_enter(self, addr, NA_ZMQ_BY_DIALLED);
    memset(addr->unread, 0, sizeof(addr->unread));
    memset(addr->received, 0, sizeof(addr->received));
    memset(addr->taken, 0, sizeof(addr->taken));
    /* New each time, and unpredictable: another peer that used this id would be
     * taken for the peer, or make libzmq abort. */
    na_plug_put64(addr->id, core->random());
    na_plug_put64(addr->id + 8, core->random());
    addr->id[0] |= 1; /* ids that begin with 0 belong to libzmq */
    addr->id_size = NA_ZMQ_ID;
    addr->nonce = core->random();
    if (addr->nonce == 0 || !na_zmq_set_deadline(self, addr, share) ||
        !na_zmq_set(self->socket, ZMQ_IPV6,
            addr->dialled[6 + strlen(self->source)] == '[') ||
        zmq_setsockopt(self->socket, ZMQ_CONNECT_ROUTING_ID, addr->id,
            addr->id_size) != 0 ||
        zmq_connect(self->socket, addr->dialled) != 0) {
        int error = errno;

        addr->id_size = 0;
        na_zmq_lose(self, addr, NA_HOSTUNREACH);
        addr->why = zmq_strerror(error);
        return;
    }
    self->touched = true;
    na_zmq_enter(self, addr, NA_ZMQ_BY_ID);
    na_plug_put64(body, self->base.incarnation);
    na_plug_put64(body + 8, addr->nonce);
    if (self->base.listen) {
        size_t name_size = strlen(self->base.self_addr->name);

        memcpy(body + size, self->base.self_addr->name, name_size);
        size += name_size;
    }
    if (na_zmq_control(self, addr, NA_ZMQ_HELLO, body, size) != NA_SUCCESS)
        na_zmq_lose(self, addr, NA_HOSTUNREACH);
}

/* Set the text that libzmq gets to dial a number of addr's host. It must be of
 * this attempt alone: zmq_disconnect and the monitor know nothing else, and
 * other names may have the same number. So the port gets leading zeros. False:
 * no memory. */
static bool na_zmq_set_dialled(struct na_zmq_class *self,
    struct na_zmq_addr *addr, const struct sockaddr_storage *number)
{
    const char *port = strrchr(addr->endpoint, ':') + 1;
    char host[NA_ZMQ_NUMBER];
    char text[2 * NA_MAX_ADDR_LEN + NA_ZMQ_ALIKE];
    unsigned i = 0;
    size_t size;

    na_zmq_put_number(number, host);
    do
        size = (size_t) snprintf(text, sizeof(text), "tcp://%s%s:%0*d%s",
            self->source, host, (int) (1 + self->attempts++ % NA_ZMQ_ALIKE), 0,
            port);
    while (na_zmq_find(self, NA_ZMQ_BY_DIALLED, text, size) != NULL &&
        ++i < NA_ZMQ_ALIKE);
    addr->dialled =
        i < NA_ZMQ_ALIKE ? (char *) self->base.core->alloc(size + 1) : NULL;
    if (addr->dialled != NULL)
        memcpy(addr->dialled, text, size + 1);
    return addr->dialled != NULL;
}

/* Dial the next number of a host name. */
static void na_zmq_dial_next(
    struct na_zmq_class *self, struct na_zmq_addr *addr)
{
    uint64_t now = self->base.core->now_ns();
    uint64_t share;
    const struct sockaddr_storage *number = na_plug_next(
        addr->query, addr->limit > now ? addr->limit - now : 0, &share);

    if (na_zmq_set_dialled(self, addr, number)) {
        na_zmq_connect(self, addr, share);
        return;
    }
    self->base.core->log(HG_LOG_LEVEL_ERROR, "zmq",
        "cannot connect to %s: no memory, or %u other names of that host are "
        "in use",
        addr->base.name, NA_ZMQ_ALIKE);
    na_zmq_lose(self, addr, NA_NOMEM);
}

/* Ask for the numbers of the host. */
static void na_zmq_ask(struct na_zmq_class *self, struct na_zmq_addr *addr)
{
    const char *start =
        addr->endpoint + strlen("tcp://") + strlen(self->source);
    char host[NA_MAX_ADDR_LEN];

    (void) snprintf(
        host, sizeof(host), "%.*s", (int) (strrchr(start, ':') - start), start);
    addr->deadline = addr->limit + NA_ZMQ_GIVE_UP_MS * NA_ZMQ_MS;
    if (addr->deadline < self->tick)
        self->tick = addr->deadline;
    addr->query = na_plug_ask(
        self->resolver, "zmq", host, na_zmq_family(self), false, addr);
    if (addr->query == NULL)
        na_zmq_lose(self, addr, NA_NOMEM);
}

/* Handle the answers of name servers; the lock is held. */
static void na_zmq_take_answers(struct na_zmq_class *self)
{
    struct na_plug_query *query;

    while ((query = na_plug_answer(self->resolver)) != NULL) {
        struct na_zmq_addr *addr = (struct na_zmq_addr *) query->owner;

        HG_ASSERT(addr->query == query);
        if (addr->state != NA_ZMQ_DIALLING)
            continue; /* the query took too long */
        if (na_plug_has_next(query))
            na_zmq_dial(self, addr);
        else
            na_zmq_lose(self, addr, NA_HOSTUNREACH);
    }
}

/* Connect, and send HELLO. */
HG_PRIVATE void na_zmq_dial(struct na_zmq_class *self, struct na_zmq_addr *addr)
{
    HG_ASSERT(addr->endpoint != NULL && addr->dialled == NULL && addr->fd < 0);
    na_zmq_adopt(self, addr);
    addr->state = NA_ZMQ_DIALLING;
    addr->why = NULL;
    /* libzmq would say nothing, or abort where it dials from a given host. */
    if (self->protocol != NA_ZMQ_INPROC && !na_plug_has_fds(1)) {
        na_zmq_lose(self, addr, NA_AGAIN);
        addr->why = NA_PLUG_NO_FD;
        return;
    }
    if (na_plug_has_next(addr->query)) {
        na_zmq_dial_next(self, addr);
        return;
    }
    addr->limit =
        self->base.core->now_ns() + self->base.info->lookup_ms * NA_ZMQ_MS;
    if (addr->named) {
        na_zmq_ask(self, addr);
        return;
    }
    if (self->protocol == NA_ZMQ_INPROC) {
        atomic_store(&addr->incarnation, na_zmq_inproc_find(addr->endpoint, 0));
        addr->deadline = NA_ZMQ_NEVER; /* possibly busy, but alive */
        if (atomic_load(&addr->incarnation) == 0) {
            na_zmq_lose(self, addr, NA_HOSTUNREACH);
            return;
        }
    }
    addr->dialled = addr->endpoint;
    na_zmq_connect(self, addr, self->base.info->lookup_ms * NA_ZMQ_MS);
}

/* Get the record of a descriptor; NULL: out of memory. */
static struct na_zmq_fd *na_zmq_fd_of(struct na_zmq_class *self, int fd)
{
    size_t count = self->fd_count;
    struct na_zmq_fd *fds;

    if (fd < 0)
        return NULL;
    if ((size_t) fd < count)
        return &self->fds[fd];
    count = (size_t) fd + 64;
    fds = (struct na_zmq_fd *) self->base.core->realloc(
        self->fds, count * sizeof(*fds));
    if (fds == NULL)
        return NULL;
    memset(fds + self->fd_count, 0, (count - self->fd_count) * sizeof(*fds));
    self->fds = fds;
    self->fd_count = count;
    return &fds[fd];
}

/* The connection of a descriptor ended, and so did all addresses that claim it:
 * usually one, otherwise the list of all addresses is searched. */
static void na_zmq_fd_ended(struct na_zmq_class *self, int fd)
{
    struct na_zmq_fd *record = &self->fds[fd];
    struct na_link *link;

    if (record->owner != NULL)
        na_zmq_lose(self, record->owner, NA_HOSTUNREACH);
    if (record->last_hello != NULL)
        na_zmq_lose(self, record->last_hello, NA_HOSTUNREACH);
    for (link = self->addrs.next; record->contested && link != &self->addrs;
         link = link->next) {
        struct na_zmq_addr *addr = NA_ZMQ_OF(link, struct na_zmq_addr, link);

        if (addr->fd == fd)
            na_zmq_lose(self, addr, NA_HOSTUNREACH);
    }
    record->live = false;
    record->contested = false;
    record->last_hello = NULL;
    record->owner = NULL;
}

/* A descriptor has a new connection. */
static struct na_zmq_fd *na_zmq_fd_began(struct na_zmq_class *self, int fd)
{
    struct na_zmq_fd *record = na_zmq_fd_of(self, fd);

    if (record == NULL)
        return NULL;
    na_zmq_fd_ended(self, fd);
    record->generation++;
    record->live = true;
    record->shut = false;
    record->accepted = 0;
    record->hellos = 0;
    return record;
}

/* A dial succeeded. libzmq would reconnect after a loss, but only after days:
 * before that this transport notices the loss and disconnects. */
static void na_zmq_connected(
    struct na_zmq_class *self, const char *endpoint, int fd)
{
    struct na_zmq_addr *addr =
        na_zmq_find(self, NA_ZMQ_BY_DIALLED, endpoint, strlen(endpoint));
    struct na_zmq_fd *record = na_zmq_fd_began(self, fd);

    if (addr == NULL || addr->state != NA_ZMQ_DIALLING || record == NULL) {
        (void) zmq_disconnect(self->socket, endpoint);
        return;
    }
    if (addr->fd >= 0) /* a dial that timed out connected late */
        self->fds[addr->fd].owner = NULL;
    addr->fd = fd;
    record->owner = addr;
}

/* Whether a descriptor of libzmq, which may have been reused since, is a
 * connection that the listener accepted: its local name is the listener's. */
static bool na_zmq_is_accepted(const struct na_zmq_class *self, int fd)
{
    struct sockaddr_storage where;
    socklen_t size = sizeof(where);
    const char *bound = strstr(self->endpoint, "://");
    const char *port = strrchr(self->endpoint, ':');
    int listens = 1;
    socklen_t int_size = sizeof(listens);

    memset(&where, 0, sizeof(where));
    if (bound == NULL ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_size) != 0 ||
        listens != 0 || getsockname(fd, (struct sockaddr *) &where, &size) != 0)
        return false;
    if (self->protocol == NA_ZMQ_IPC) {
        const char *path = ((const struct sockaddr_un *) &where)->sun_path;

        bound += bound[3] == '@' ? 4 : 3; /* an abstract name begins with 0 */
        path += where.ss_family == AF_UNIX && path[0] == '\0';
        return where.ss_family == AF_UNIX && strcmp(path, bound) == 0;
    }
    if (where.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *) &where)->sin6_port) ==
            strtoul(port + 1, NULL, 10);
    return where.ss_family == AF_INET &&
        ntohs(((const struct sockaddr_in *) &where)->sin_port) ==
        strtoul(port + 1, NULL, 10);
}

/* Close an accepted connection whose peer has not said HELLO. */
static void na_zmq_reject(struct na_zmq_class *self, size_t fd)
{
    HG_ASSERT(self->fds[fd].live && self->fds[fd].accepted != 0);
    self->fds[fd].live = false;
    if (na_zmq_is_accepted(self, (int) fd))
        (void) shutdown((int) fd, SHUT_RDWR);
}

/* Whether the process is almost out of descriptors, judged by a connection that
 * got `fd`, the lowest free one. With none left libzmq spins, or on ipc aborts
 * the process. */
static bool na_zmq_is_full(
    const struct na_zmq_class *self, int fd, uint64_t *limit_p)
{
    struct rlimit limit;
    rlim_t used = (rlim_t) fd;
    rlim_t spare;
    size_t i;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY)
        return false;
    for (i = (size_t) fd + 1; i < self->fd_count; i++)
        used += self->fds[i].live;
    spare = limit.rlim_cur / 8 < NA_ZMQ_SPARE_FDS ? limit.rlim_cur / 8
                                                  : NA_ZMQ_SPARE_FDS;
    *limit_p = (uint64_t) limit.rlim_cur;
    return used >= limit.rlim_cur - spare;
}

/* A peer connected. If descriptors are short, close the connection that has
 * waited longest for its HELLO; if all others have sent it, close this one. */
static void na_zmq_accepted(
    struct na_zmq_class *self, const char *endpoint, int fd)
{
    struct na_zmq_fd *record = na_zmq_fd_began(self, fd);
    size_t oldest = (size_t) fd;
    uint64_t limit;
    size_t i;

    if (record == NULL) {
        if (na_zmq_is_accepted(self, fd))
            (void) shutdown(fd, SHUT_RDWR);
        return;
    }
    record->accepted = self->base.core->now_ns();
    record->round = self->round;
    if (record->accepted + self->hello_limit < self->hello_check)
        self->hello_check = record->accepted + self->hello_limit;
    if (self->hello_check < self->tick)
        self->tick = self->hello_check;
    if (!na_zmq_is_full(self, fd, &limit))
        return;
    for (i = 0; i < self->fd_count; i++) {
        if (self->fds[i].live && self->fds[i].accepted != 0 &&
            self->fds[i].accepted < self->fds[oldest].accepted)
            oldest = i;
    }
    na_zmq_reject(self, oldest);
    self->base.core->count(&self->base, "zmq_turned_away", 1);
    if (!self->rejecting)
        self->base.core->log(HG_LOG_LEVEL_WARNING, "zmq",
            "new connections are rejected at %s: descriptor %d of %" PRIu64
            " is in use",
            endpoint, fd, limit);
    self->rejecting = true;
}

static void na_zmq_monitored(
    struct na_zmq_class *self, unsigned event, int value, const char *endpoint)
{
    struct na_zmq_addr *addr;

    switch (event) {
    case ZMQ_EVENT_ACCEPTED: na_zmq_accepted(self, endpoint, value); break;
    case ZMQ_EVENT_CONNECTED: na_zmq_connected(self, endpoint, value); break;
    case ZMQ_EVENT_CLOSED:
        addr = na_zmq_find(self, NA_ZMQ_BY_DIALLED, endpoint, strlen(endpoint));
        if (addr != NULL && addr->state == NA_ZMQ_DIALLING)
            na_zmq_lose(self, addr, NA_HOSTUNREACH);
        break;
    case ZMQ_EVENT_DISCONNECTED:
        if (na_zmq_fd_of(self, value) != NULL)
            na_zmq_fd_ended(self, value);
        break;
    default: break;
    }
}

/* Read all events. */
static void na_zmq_read_monitor(struct na_zmq_class *self)
{
    unsigned char number[6];
    char endpoint[NA_MAX_ADDR_LEN];

    if (self->monitor == NULL)
        return;
    for (;;) {
        uint16_t event;
        int32_t value;
        int size =
            zmq_recv(self->monitor, number, sizeof(number), ZMQ_DONTWAIT);

        if (size < 0 && errno == EINTR)
            continue;
        if (size != (int) sizeof(number))
            return;
        do
            size = zmq_recv(
                self->monitor, endpoint, sizeof(endpoint) - 1, ZMQ_DONTWAIT);
        while (size < 0 && errno == EINTR);
        if (size < 0)
            return;
        endpoint[(size_t) size < sizeof(endpoint) ? (size_t) size
                                                  : sizeof(endpoint) - 1] =
            '\0';
        memcpy(&event, number, sizeof(event));
        memcpy(&value, number + 2, sizeof(value));
        na_zmq_monitored(self, event, value, endpoint);
    }
}

/* Close the connection of an address if the listener accepted it: libzmq closes
 * only connections that it dialled. */
static void na_zmq_close_accepted(
    struct na_zmq_class *self, const struct na_zmq_addr *addr)
{
    int fd = addr->fd;

    if (self->protocol == NA_ZMQ_INPROC || addr->dialled)
        return;
    na_zmq_read_monitor(self);
    if (fd >= 0 && self->fds[fd].owner == addr && self->fds[fd].live &&
        na_zmq_is_accepted(self, fd))
        (void) shutdown(fd, SHUT_RDWR);
}

/* Close the accepted connection by which a message came. If its sender has not
 * confirmed, the message may be of an earlier connection with the same
 * descriptor, unless all messages of that were received before. Done once: the
 * connection may have ended already, and another one may get the descriptor at
 * any moment. */
static void na_zmq_close_sender(struct na_zmq_class *self, struct na_zmq_in *in)
{
    const struct na_zmq_addr *addr = in->addr;
    int fd = addr != NULL ? addr->fd : zmq_msg_get(&in->parts[0], ZMQ_SRCFD);
    struct na_zmq_fd *record;
    bool certain;

    na_zmq_read_monitor(self);
    if (fd < 0 || (size_t) fd >= self->fd_count)
        return;
    record = &self->fds[fd];
    certain = record->owner != NULL
        ? record->owner == addr
        : record->last_hello == addr && na_zmq_is_before(record->round, in);
    if (!record->live || record->shut || !certain)
        return;
    record->shut = true;
    if (na_zmq_is_accepted(self, fd))
        (void) shutdown(fd, SHUT_RDWR);
}
