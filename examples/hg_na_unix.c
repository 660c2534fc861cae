/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_na_unix: an example of a transport. It connects processes of one user on
 * one Linux host by sockets of type SOCK_SEQPACKET.
 *
 *     cc app.c hg.c hg_na_unix.c -lpthread
 *
 * The application defines HG_NA_PLUGIN_API above its include of hg.h, declares
 * and registers the table, and then uses addresses such as unix://store:
 *
 *     extern const struct na_plugin hg_na_unix_plugin;
 *     NA_Register_plugin(&hg_na_unix_plugin);
 *
 * gen/transport.md explains this file step by step. Such a socket does much of
 * the work: a record arrives whole or not at all, records keep their order, and
 * a connection reads as ended when its peer closes it or dies. There is no
 * remote memory access here: the library emulates it with frames.
 *
 * A connection belongs to one address, and holds a reference to it. Only the
 * process that connects sends HELLO, its first record, with its own name. The
 * kernel proves that both processes have the same user.
 *
 * Locking: the lock of the class is held in the slots that send, look up,
 * cancel and poll. Other threads may resolve, abandon and release addresses
 * meanwhile: `lock` guards the list of addresses, and is held when the
 * connection of an address changes. No function of the core that can call a
 * slot runs under it.
 */
#define _GNU_SOURCE 1
#define HG_NA_PLUGIN_API 1
#include "hg.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define UNIX_SCHEME "unix://"
#define UNIX_VERSION 1u
#define UNIX_MAX 65536u /* bytes of a message, and of the data of a frame */
#define UNIX_RECORD (UNIX_MAX + 512u) /* ... and with headers */
#define UNIX_BATCH 16 /* limit of events, and of records of a peer, in a poll */
#define UNIX_OF(ptr, type, member) \
    ((type *) (void *) ((char *) (ptr) -offsetof(type, member)))

enum { UNIX_HELLO = 1, UNIX_MESSAGE, UNIX_FRAME };

/* The header of a record. Both ends are on one host and share a byte order. */
struct unix_header {
    uint8_t kind;
    uint8_t plane; /* MESSAGE */
    uint8_t target;
    uint8_t head; /* FRAME: bytes of the header of emulated RMA */
    uint32_t tag; /* MESSAGE; HELLO: the version */
};

struct unix_addr {
    struct na_addr base;
    struct na_link link;  /* class->addrs */
    struct na_link sends; /* operations that wait until the peer reads */
    int fd;               /* the connection, or -1 */
};

struct unix_class {
    struct na_class base;
    pthread_mutex_t lock;
    struct na_link addrs;
    int epoll;
    int listener;
    unsigned char *in;  /* the record received last */
    unsigned char *out; /* the record sent last */
};

static struct unix_class *unix_of(const struct na_class *na_class)
{
    return (struct unix_class *) (uintptr_t) na_class;
}

static struct unix_addr *unix_addr_of(const struct na_addr *addr)
{
    return (struct unix_addr *) (uintptr_t) addr;
}

static void unix_push(struct na_link *head, struct na_link *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static void unix_remove(struct na_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = link;
}

/* Log why a call of the system failed. */
static na_return_t unix_failed(
    const struct unix_class *self, const char *what, const char *name)
{
    na_return_t ret = errno == EADDRINUSE ? NA_ADDRINUSE : NA_IO_ERROR;

    self->base.core->log(
        HG_LOG_LEVEL_ERROR, "unix", "%s: %s: %s", name, what, strerror(errno));
    return ret;
}

/* ---- Addresses ---- */

static na_bool_t unix_is_name(const char *name, size_t size)
{
    size_t scheme = strlen(UNIX_SCHEME);

    return size > scheme && memcmp(name, UNIX_SCHEME, scheme) == 0 &&
        memchr(name, '\0', size) == NULL &&
        size < sizeof(((struct sockaddr_un *) NULL)->sun_path);
}

/* A new address, or the one that `name` has already: a reference. */
static struct unix_addr *unix_addr_get(
    struct unix_class *self, const char *name, na_bool_t is_self)
{
    const struct na_core *core = self->base.core;
    struct unix_addr *addr =
        unix_addr_of(core->addr_create(&self->base, name, is_self));
    struct unix_addr *found = NULL;
    struct na_link *link;

    if (addr == NULL)
        return NULL;
    addr->link.prev = addr->link.next = &addr->link;
    addr->sends.prev = addr->sends.next = &addr->sends;
    addr->fd = -1;
    pthread_mutex_lock(&self->lock);
    link = name != NULL && !is_self ? self->addrs.next : &self->addrs;
    for (; link != &self->addrs && found == NULL; link = link->next) {
        found = UNIX_OF(link, struct unix_addr, link);
        if (found->base.name == NULL || strcmp(found->base.name, name) != 0 ||
            core->addr_is_dead(&found->base) ||
            !core->addr_try_ref(&found->base))
            found = NULL;
    }
    if (found == NULL)
        unix_push(&self->addrs, &addr->link);
    pthread_mutex_unlock(&self->lock);
    if (found != NULL)
        core->addr_unref(&addr->base);
    return found != NULL ? found : addr;
}

static void unix_addr_release(struct na_addr *addr)
{
    struct unix_class *self = unix_of(addr->na_class);

    pthread_mutex_lock(&self->lock);
    unix_remove(&unix_addr_of(addr)->link);
    pthread_mutex_unlock(&self->lock);
}

static na_return_t unix_addr_resolve(struct na_class *na_class,
    const char *name, na_bool_t from_peer, struct na_addr **addr_p)
{
    struct unix_addr *addr;

    if (!unix_is_name(name, strlen(name))) {
        na_class->core->log(
            from_peer ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR, "unix",
            "%s: not " UNIX_SCHEME " and a name of 1 to 100 characters", name);
        return NA_INVALID_ARG;
    }
    addr = unix_addr_get(unix_of(na_class), name, NA_FALSE);
    if (addr == NULL)
        return NA_NOMEM;
    *addr_p = &addr->base;
    return NA_SUCCESS;
}

/* ---- Connections ---- */

/* The name of an address is also that of its socket, in Linux's abstract
 * namespace. */
static socklen_t unix_place(struct sockaddr_un *place, const char *name)
{
    size_t size = strlen(name);

    memset(place, 0, sizeof(*place));
    place->sun_family = AF_UNIX;
    memcpy(place->sun_path + 1, name, size);
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + size);
}

static na_bool_t unix_is_same_user(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
        peer.uid == geteuid();
}

/* Have epoll report events of a descriptor. An address of NULL stands for the
 * listening socket. */
static int unix_watch(const struct unix_class *self, int how, int fd,
    struct unix_addr *addr, unsigned events)
{
    struct epoll_event event;

    memset(&event, 0, sizeof(event));
    event.events = events;
    event.data.ptr = addr;
    return epoll_ctl(self->epoll, how, fd, &event);
}

/* Make `fd` the connection of an address. It is closed on failure. */
static na_return_t unix_attach(
    struct unix_class *self, struct unix_addr *addr, int fd)
{
    if (unix_watch(self, EPOLL_CTL_ADD, fd, addr, EPOLLIN) != 0) {
        (void) unix_failed(self, "epoll_ctl", self->base.self_addr->name);
        (void) close(fd);
        return NA_IO_ERROR;
    }
    self->base.core->addr_ref(&addr->base);
    pthread_mutex_lock(&self->lock);
    addr->fd = fd;
    pthread_mutex_unlock(&self->lock);
    return NA_SUCCESS;
}

/* The connection of an address has ended: the peer closed its class, or died.
 * An epoll set keeps a closed socket while a child of fork has it open. */
static void unix_detach(struct unix_class *self, struct unix_addr *addr)
{
    const struct na_core *core = self->base.core;

    (void) unix_watch(self, EPOLL_CTL_DEL, addr->fd, addr, 0);
    pthread_mutex_lock(&self->lock);
    (void) close(addr->fd);
    addr->fd = -1;
    pthread_mutex_unlock(&self->lock);
    core->addr_dead(&addr->base, NA_DISCONNECT);
    while (addr->sends.next != &addr->sends) {
        struct na_op *op = UNIX_OF(addr->sends.next, struct na_op, link);

        unix_remove(&op->link);
        core->complete(op, NA_DISCONNECT);
    }
    if (self->listener >= 0) /* a descriptor is free: see unix_accept */
        (void) unix_watch(self, EPOLL_CTL_ADD, self->listener, NULL, EPOLLIN);
    core->addr_unref(&addr->base);
}

/* The next poll finds the end of the connection, and so does the peer. */
static void unix_addr_abandon(struct na_addr *addr)
{
    struct unix_class *self = unix_of(addr->na_class);

    pthread_mutex_lock(&self->lock);
    if (unix_addr_of(addr)->fd >= 0)
        (void) shutdown(unix_addr_of(addr)->fd, SHUT_RDWR);
    pthread_mutex_unlock(&self->lock);
    self->base.core->addr_dead(addr, NA_DISCONNECT);
}

static unsigned unix_accept(struct unix_class *self)
{
    int fd = accept4(self->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct unix_addr *addr;

    if (fd < 0 && errno != EAGAIN && errno != EINTR) {
        /* There is no descriptor left: accept no more until one is closed. */
        (void) unix_failed(self, "accept", self->base.self_addr->name);
        (void) unix_watch(self, EPOLL_CTL_DEL, self->listener, NULL, 0);
    }
    if (fd < 0)
        return 0;
    addr = unix_is_same_user(fd) ? unix_addr_get(self, NULL, NA_FALSE) : NULL;
    if (addr == NULL) {
        self->base.core->count(&self->base, "unix_refused", 1);
        (void) close(fd);
        return 1;
    }
    (void) unix_attach(self, addr, fd);
    self->base.core->addr_unref(&addr->base);
    return 1;
}

/* ---- Sending ---- */

/* Send one record. NA_AGAIN: the peer has not read enough; unix_flush will be
 * called when it has. */
static na_return_t unix_write(struct unix_class *self, struct unix_addr *addr,
    const struct unix_header *header, const struct na_segment *segments,
    na_size_t count)
{
    size_t size = sizeof(*header);
    na_size_t i;

    memcpy(self->out, header, size);
    for (i = 0; i < count; i++) {
        if (segments[i].size > 0)
            memcpy(self->out + size, segments[i].address, segments[i].size);
        size += segments[i].size;
    }
    if (send(addr->fd, self->out, size, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return NA_SUCCESS;
    if ((errno == EAGAIN || errno == ENOBUFS) &&
        unix_watch(self, EPOLL_CTL_MOD, addr->fd, addr, EPOLLIN | EPOLLOUT) ==
            0)
        return NA_AGAIN;
    self->base.core->log(HG_LOG_LEVEL_WARNING, "unix", "%s: send: %s",
        addr->base.name, strerror(errno));
    return NA_DISCONNECT; /* the next poll ends the connection */
}

/* Connect an address unless it is connected, and send HELLO. */
static na_return_t unix_connect(struct unix_class *self, struct unix_addr *addr)
{
    static const struct unix_header hello = {UNIX_HELLO, 0, 0, 0, UNIX_VERSION};
    const char *name = self->base.self_addr->name;
    struct na_segment body = {(void *) (uintptr_t) name, strlen(name)};
    struct sockaddr_un place;
    socklen_t size = unix_place(&place, addr->base.name);
    int fd;

    if (addr->fd >= 0)
        return NA_SUCCESS;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return unix_failed(self, "socket", addr->base.name);
    if (connect(fd, (struct sockaddr *) &place, size) != 0 ||
        !unix_is_same_user(fd)) {
        self->base.core->log(HG_LOG_LEVEL_WARNING, "unix",
            "%s cannot be reached: no process of this user listens there",
            addr->base.name);
        (void) close(fd);
        return NA_HOSTUNREACH;
    }
    if (unix_attach(self, addr, fd) != NA_SUCCESS)
        return NA_IO_ERROR;
    return unix_write(self, addr, &hello, &body, 1);
}

static na_return_t unix_addr_lookup(struct na_op *op)
{
    struct unix_class *self = unix_of(op->context->na_class);
    na_return_t ret =
        unix_addr_resolve(&self->base, op->name, NA_FALSE, &op->result_addr);

    if (ret != NA_SUCCESS)
        return ret;
    ret = unix_connect(self, unix_addr_of(op->result_addr));
    self->base.core->complete(op, ret);
    return NA_SUCCESS;
}

static na_return_t unix_write_msg(
    struct unix_class *self, const struct na_msg *msg)
{
    struct unix_header header = {
        UNIX_MESSAGE, msg->plane, msg->target, 0, msg->tag};

    return unix_write(self, unix_addr_of(msg->addr), &header, msg->segments,
        msg->segment_count);
}

static na_return_t unix_msg_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    struct unix_class *self = unix_of(context->na_class);
    struct unix_addr *addr = unix_addr_of(msg->addr);
    na_return_t ret = unix_connect(self, addr);

    if (ret == NA_SUCCESS && addr->sends.next != &addr->sends)
        ret = NA_AGAIN; /* after those that wait */
    else if (ret == NA_SUCCESS)
        ret = unix_write_msg(self, msg);
    if (op != NULL && ret == NA_SUCCESS)
        self->base.core->complete(op, NA_SUCCESS);
    if (op == NULL || ret != NA_AGAIN)
        return ret;
    unix_push(&addr->sends, &op->link);
    return NA_SUCCESS;
}

static na_return_t unix_frame_send(struct na_addr *addr, const void *header,
    size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    struct unix_class *self = unix_of(addr->na_class);
    struct unix_header frame = {UNIX_FRAME, 0, 0, (uint8_t) header_size, 0};
    struct na_segment parts[2] = {{(void *) (uintptr_t) header, header_size},
        {(void *) (uintptr_t) data, size}};
    na_return_t ret = unix_connect(self, unix_addr_of(addr));

    if (ret == NA_SUCCESS)
        ret = unix_write(self, unix_addr_of(addr), &frame, parts, 2);
    if (ret == NA_SUCCESS)
        release(arg); /* the kernel has copied the data */
    return ret;
}

/* The peer has read: send what waits. */
static unsigned unix_flush(struct unix_class *self, struct unix_addr *addr)
{
    unsigned n;

    for (n = 0; addr->sends.next != &addr->sends; n++) {
        struct na_op *op = UNIX_OF(addr->sends.next, struct na_op, link);
        na_return_t ret = unix_write_msg(self, &op->msg);

        if (ret == NA_AGAIN)
            return n;
        unix_remove(&op->link);
        self->base.core->complete(op, ret);
    }
    (void) unix_watch(self, EPOLL_CTL_MOD, addr->fd, addr, EPOLLIN);
    self->base.core->wake(&self->base); /* a frame that was refused may go */
    return n + 1;
}

static na_return_t unix_cancel(struct na_op *op, uint64_t op_id)
{
    (void) op_id; /* with the lock of the class held, nothing ends meanwhile */
    if (op->link.next == &op->link)
        return NA_NOENTRY;
    unix_remove(&op->link);
    op->context->na_class->core->complete(op, NA_CANCELED);
    return NA_SUCCESS;
}

/* ---- Receiving ---- */

/* The first record of an accepted connection names the class that sends. */
static na_bool_t unix_take_hello(struct unix_class *self,
    struct unix_addr *addr, const struct unix_header *header, const char *body,
    size_t size)
{
    char name[NA_MAX_ADDR_LEN];
    na_return_t ret;

    if (header->kind != UNIX_HELLO || header->tag != UNIX_VERSION ||
        !unix_is_name(body, size))
        return NA_FALSE;
    memcpy(name, body, size);
    name[size] = '\0';
    if (strcmp(name, self->base.self_addr->name) == 0)
        return NA_FALSE;
    pthread_mutex_lock(&self->lock);
    ret = self->base.core->addr_set_name(&addr->base, name);
    pthread_mutex_unlock(&self->lock);
    return ret == NA_SUCCESS;
}

/* Deliver the record in `in`. False: it is malformed. */
static na_bool_t unix_take(
    struct unix_class *self, struct unix_addr *addr, size_t size)
{
    const struct na_core *core = self->base.core;
    const unsigned char *body = self->in + sizeof(struct unix_header);
    struct unix_header header;

    if (size < sizeof(header) || size > UNIX_RECORD)
        return NA_FALSE;
    memcpy(&header, self->in, sizeof(header));
    size -= sizeof(header);
    if (addr->base.name == NULL)
        return unix_take_hello(self, addr, &header, (const char *) body, size);
    if (header.kind == UNIX_MESSAGE && header.plane < NA_MSG_PLANE_MAX)
        (void) core->msg_arrived(&self->base, &addr->base, header.plane,
            header.target, header.tag, body, size);
    else if (header.kind == UNIX_FRAME && header.head <= size)
        core->frame_arrived(&self->base, &addr->base, body, header.head,
            body + header.head, size - header.head);
    else
        return NA_FALSE;
    return NA_TRUE;
}

static unsigned unix_read(struct unix_class *self, struct unix_addr *addr)
{
    unsigned n;

    for (n = 0; n < UNIX_BATCH; n++) {
        /* MSG_TRUNC: the size of the record, not of the part received. */
        ssize_t size = recv(addr->fd, self->in, UNIX_RECORD, MSG_TRUNC);

        if (size < 0 && (errno == EINTR || errno == ECONNRESET))
            continue; /* the last records of a peer that ended follow */
        if (size < 0 && errno == EAGAIN)
            break;
        if (size > 0 && unix_take(self, addr, (size_t) size))
            continue;
        if (size > 0) {
            self->base.core->count(&self->base, "unix_malformed", 1);
            self->base.core->log(HG_LOG_LEVEL_WARNING, "unix",
                "%s: malformed record of %zd bytes, connection closed",
                addr->base.name != NULL ? addr->base.name : "a peer", size);
        }
        unix_detach(self, addr);
        return n + 1;
    }
    return n;
}

static unsigned unix_poll(struct na_context *context)
{
    struct unix_class *self = unix_of(context->na_class);
    struct epoll_event events[UNIX_BATCH];
    int count = epoll_wait(self->epoll, events, UNIX_BATCH, 0);
    unsigned n = 0;
    int i;

    for (i = 0; i < count; i++) {
        struct unix_addr *addr = (struct unix_addr *) events[i].data.ptr;

        if (addr == NULL) {
            n += unix_accept(self);
            continue;
        }
        if ((events[i].events & EPOLLOUT) != 0)
            n += unix_flush(self, addr);
        if ((events[i].events & ~(unsigned) EPOLLOUT) != 0)
            n += unix_read(self, addr);
    }
    return n;
}

static int unix_poll_fd(struct na_context *context)
{
    return unix_of(context->na_class)->epoll;
}

/* ---- The class ---- */

static na_return_t unix_listen(struct unix_class *self, const char *name)
{
    struct sockaddr_un place;
    socklen_t size = unix_place(&place, name);

    self->listener =
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (self->listener < 0 ||
        bind(self->listener, (struct sockaddr *) &place, size) != 0 ||
        listen(self->listener, SOMAXCONN) != 0 ||
        unix_watch(self, EPOLL_CTL_ADD, self->listener, NULL, EPOLLIN) != 0)
        return unix_failed(self, "listen", name);
    return NA_SUCCESS;
}

/* A class reaches itself by a pair of sockets: one end belongs to its own
 * address, the other to a second address of the same name. */
static na_return_t unix_connect_self(struct unix_class *self, const char *name)
{
    struct unix_addr *near = unix_addr_get(self, name, NA_TRUE);
    struct unix_addr *far = unix_addr_get(self, name, NA_TRUE);
    na_return_t ret = NA_NOMEM;
    int fds[2];

    if (near == NULL || far == NULL)
        goto unref;
    self->base.self_addr = &near->base;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
            fds) != 0) {
        ret = unix_failed(self, "socketpair", name);
        goto unref;
    }
    ret = unix_attach(self, near, fds[0]);
    if (ret != NA_SUCCESS)
        (void) close(fds[1]);
    else
        ret = unix_attach(self, far, fds[1]);
unref:
    if (far != NULL)
        self->base.core->addr_unref(&far->base);
    if (near != NULL && ret != NA_SUCCESS)
        self->base.core->addr_unref(&near->base);
    return ret;
}

static void unix_close(struct na_class *na_class, unsigned linger_ms)
{
    struct unix_class *self = unix_of(na_class);

    (void) linger_ms; /* the kernel delivers what it has taken */
    while (self->addrs.next != &self->addrs) {
        struct unix_addr *addr =
            UNIX_OF(self->addrs.next, struct unix_addr, link);

        unix_remove(&addr->link);
        if (addr->fd < 0)
            continue;
        (void) shutdown(addr->fd, SHUT_RDWR); /* in children of fork, too */
        (void) close(addr->fd);
        na_class->core->addr_unref(&addr->base);
    }
    if (self->listener >= 0)
        (void) close(self->listener);
    if (self->epoll >= 0)
        (void) close(self->epoll);
    na_class->core->free(self->in);
    na_class->core->free(self->out);
    /* The mutex stays, since addr_release comes later. */
}

static na_size_t unix_limit(na_size_t wanted)
{
    return wanted < UNIX_MAX ? wanted : UNIX_MAX;
}

static na_return_t unix_open(struct na_class *na_class, const char *host)
{
    struct unix_class *self = unix_of(na_class);
    const struct na_core *core = na_class->core;
    char name[NA_MAX_ADDR_LEN];
    na_return_t ret;
    int n;

    n = na_class->listen && host[0] != '\0'
        ? snprintf(name, sizeof(name), UNIX_SCHEME "%s", host)
        : snprintf(name, sizeof(name), UNIX_SCHEME "%ld-%" PRIx64,
              (long) getpid(), na_class->incarnation);
    if (n < 0 || !unix_is_name(name, (size_t) n)) {
        core->log(HG_LOG_LEVEL_ERROR, "unix", "%s: the name is too long", host);
        return NA_INVALID_ARG;
    }
    pthread_mutex_init(&self->lock, NULL);
    self->addrs.prev = self->addrs.next = &self->addrs;
    self->listener = -1;
    self->epoll = epoll_create1(EPOLL_CLOEXEC);
    self->in = (unsigned char *) core->alloc(UNIX_RECORD);
    self->out = (unsigned char *) core->alloc(UNIX_RECORD);
    if (self->epoll < 0 || self->in == NULL || self->out == NULL)
        ret = unix_failed(self, "open", name);
    else
        ret = na_class->listen ? unix_listen(self, name) : NA_SUCCESS;
    if (ret == NA_SUCCESS)
        ret = unix_connect_self(self, name);
    if (ret != NA_SUCCESS)
        unix_close(na_class, 0);
    na_class->max_unexpected_size =
        unix_limit(na_class->info->max_unexpected_size);
    na_class->max_expected_size = unix_limit(na_class->info->max_expected_size);
    na_class->max_tag = UINT32_MAX;
    return ret;
}

static const char *const unix_protocols[] = {"unix", NULL};

extern const struct na_plugin hg_na_unix_plugin;
const struct na_plugin hg_na_unix_plugin = {
    .abi = NA_PLUGIN_ABI,
    .size = sizeof(struct na_plugin),
    .name = "unix",
    .protocols = unix_protocols,
    .class_size = sizeof(struct unix_class),
    .addr_size = sizeof(struct unix_addr),
    .max_frame_size = UNIX_MAX,
    .open = unix_open,
    .close = unix_close,
    .addr_resolve = unix_addr_resolve,
    .addr_lookup = unix_addr_lookup,
    .addr_release = unix_addr_release,
    .addr_abandon = unix_addr_abandon,
    .msg_send = unix_msg_send,
    .frame_send = unix_frame_send,
    .cancel = unix_cancel,
    .poll = unix_poll,
    .poll_fd = unix_poll_fd,
};
