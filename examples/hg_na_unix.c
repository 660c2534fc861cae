/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_na_unix: an example of a transport, which gen/transport.md explains. It
 * connects processes of one user on one Linux host by Unix datagram sockets.
 *
 *     cc app.c hg.c hg_na_unix.c -lpthread
 *
 * The application defines HG_NA_PLUGIN_API above its include of hg.h, registers
 * hg_na_unix_plugin, and uses addresses such as unix:///run/user/1000/store.
 * Each class has one socket, bound to the path in its address. There are no
 * connections, which has a price:
 *
 * - Only a send notices that a peer has ended, and only this send fails. So a
 *   call needs a deadline, and a transfer may have to be canceled.
 * - A process that is restarted at the same path is the same peer. It may get a
 *   late response to its predecessor.
 * - A receiver that does not read delays the messages to all peers. Progress
 *   does not sleep meanwhile.
 * - The permissions of the path are the only access control. The file admits
 *   its owner. Its directory should be private, because every user that can
 *   write there can take the path.
 *
 * Locking: `lock` guards the list of addresses, the lock of the class the rest.
 */
#define _POSIX_C_SOURCE 200809L
#define HG_NA_PLUGIN_API 1
#include "hg.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define UNIX_SCHEME "unix://"
#define UNIX_MAGIC 0x31756768u      /* changes with the format of a datagram */
#define UNIX_FRAME NA_MSG_PLANE_MAX /* the `plane` of a frame of bulk data */
#define UNIX_MAX 65536u /* bytes of a message, and of the data of a frame */
#define UNIX_MIN(size) ((size) < UNIX_MAX ? (size) : UNIX_MAX)
#define UNIX_PATH sizeof(((struct sockaddr_un *) NULL)->sun_path) /* 108 */
#define UNIX_PARTS 1024 /* the most pieces of memory that sendmsg takes */
#define UNIX_BATCH 64   /* datagrams received in one poll */
#define UNIX_OF(type, ptr, member) \
    ((struct type *) (void *) ((char *) (ptr) -offsetof(struct type, member)))

struct unix_header {
    uint32_t magic;
    uint8_t plane;
    uint8_t target;
    uint16_t head; /* of a frame: bytes of its own header */
    uint32_t tag;
};

struct unix_addr {
    struct na_addr base;
    struct na_link link; /* class->addrs */
};

struct unix_class {
    struct na_class base;
    pthread_mutex_t lock;
    struct na_link addrs; /* without references */
    struct na_link sends; /* operations that wait until a receiver has read */
    int fd;
    struct iovec parts[UNIX_PARTS];    /* of the datagram being sent */
    unsigned char in[UNIX_MAX + 1024]; /* the datagram received last */
};

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

/* ---- Addresses ---- */

static struct sockaddr_un unix_place(const struct na_addr *addr)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    const char *path = addr->name + strlen(UNIX_SCHEME);

    memcpy(place.sun_path, path, strlen(path) + 1);
    return place;
}

/* Find or create the address of a name. The first of a class is its own. */
static na_return_t unix_addr_resolve(struct na_class *na_class,
    const char *name, na_bool_t from_peer, struct na_addr **addr_p)
{
    struct unix_class *self = UNIX_OF(unix_class, na_class, base);
    const struct na_core *core = na_class->core;
    struct na_addr *addr = NULL;
    struct na_link *link;

    if (strncmp(name, UNIX_SCHEME "/", sizeof(UNIX_SCHEME)) != 0 ||
        strlen(name) >= strlen(UNIX_SCHEME) + UNIX_PATH) {
        core->log(from_peer ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR, "unix",
            "%s: not " UNIX_SCHEME " and an absolute path of at most 107 bytes",
            name);
        return NA_INVALID_ARG;
    }
    pthread_mutex_lock(&self->lock);
    for (link = self->addrs.next; link != &self->addrs; link = link->next) {
        addr = &UNIX_OF(unix_addr, link, link)->base;
        if (strcmp(addr->name, name) == 0 && !core->addr_is_dead(addr) &&
            core->addr_try_ref(addr))
            break;
    }
    if (link == &self->addrs) {
        addr = core->addr_create(na_class, name, na_class->self_addr == NULL);
        if (addr != NULL)
            unix_push(link, &UNIX_OF(unix_addr, addr, base)->link);
    }
    pthread_mutex_unlock(&self->lock);
    *addr_p = addr;
    return addr != NULL ? NA_SUCCESS : NA_NOMEM;
}

static void unix_addr_release(struct na_addr *addr)
{
    struct unix_class *self = UNIX_OF(unix_class, addr->na_class, base);

    pthread_mutex_lock(&self->lock);
    unix_remove(&UNIX_OF(unix_addr, addr, base)->link);
    pthread_mutex_unlock(&self->lock);
}

/* ---- Sending ---- */

/* Send one datagram. NA_AGAIN: a receiver must read first. */
static na_return_t unix_send(const struct na_addr *addr,
    struct unix_header *header, const struct na_segment *data, na_size_t count)
{
    struct unix_class *self = UNIX_OF(unix_class, addr->na_class, base);
    const struct na_core *core = addr->na_class->core;
    struct sockaddr_un place = unix_place(addr);
    struct msghdr msg = {.msg_name = &place, .msg_namelen = sizeof(place)};
    na_size_t i;

    if (core->addr_is_dead(addr))
        return NA_DISCONNECT; /* the application gave the peer up */
    header->magic = UNIX_MAGIC;
    self->parts[0] = (struct iovec){header, sizeof(*header)};
    for (i = 0; i < count && i < UNIX_PARTS - 1; i++)
        self->parts[i + 1] = (struct iovec){data[i].address, data[i].size};
    msg.msg_iov = self->parts;
    msg.msg_iovlen = count + 1; /* if there are too many, sendmsg fails */
    if (sendmsg(self->fd, &msg, 0) >= 0)
        return NA_SUCCESS;
    if (errno == EAGAIN || errno == ENOBUFS)
        return NA_AGAIN;
    core->log(HG_LOG_LEVEL_WARNING, "unix", "cannot send to %s: %s", addr->name,
        strerror(errno));
    return NA_HOSTUNREACH;
}

static na_return_t unix_send_msg(const struct na_msg *msg)
{
    struct unix_header header = {
        .plane = msg->plane, .target = msg->target, .tag = msg->tag};

    return unix_send(msg->addr, &header, msg->segments, msg->segment_count);
}

static na_return_t unix_msg_send(
    struct na_context *context, const struct na_msg *msg, struct na_op *op)
{
    struct unix_class *self = UNIX_OF(unix_class, context->na_class, base);

    if (op == NULL) /* after those that wait, to keep the order */
        return self->sends.next == &self->sends ? unix_send_msg(msg) : NA_AGAIN;
    unix_push(&self->sends, &op->link);
    self->base.core->wake(&self->base); /* poll sends it */
    return NA_SUCCESS;
}

static na_return_t unix_frame_send(struct na_addr *addr, const void *header,
    size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    struct unix_header frame = {
        .plane = UNIX_FRAME, .head = (uint16_t) header_size};
    struct na_segment parts[2] = {{(void *) (uintptr_t) header, header_size},
        {(void *) (uintptr_t) data, size}};
    na_return_t ret = unix_send(addr, &frame, parts, 2);

    if (ret == NA_SUCCESS)
        release(arg); /* the kernel has copied the data */
    return ret;
}

static na_return_t unix_cancel(struct na_op *op, uint64_t op_id)
{
    (void) op_id; /* the lock of the class is held: `op` is still the same */
    if (op->link.next == &op->link)
        return NA_NOENTRY;
    unix_remove(&op->link);
    op->context->na_class->core->complete(op, NA_CANCELED);
    return NA_SUCCESS;
}

/* ---- Receiving ---- */

/* Receive and deliver one datagram. False: none has arrived. */
static na_bool_t unix_receive(struct unix_class *self)
{
    const struct na_core *core = self->base.core;
    struct sockaddr_un from = {.sun_family = AF_UNIX};
    socklen_t from_size = sizeof(from);
    /* MSG_TRUNC: the size of the datagram, not of the part received. */
    ssize_t got = recvfrom(self->fd, self->in, sizeof(self->in), MSG_TRUNC,
        (struct sockaddr *) &from, &from_size);
    size_t size = (size_t) got - sizeof(struct unix_header);
    unsigned char *body = self->in + sizeof(struct unix_header);
    char name[NA_MAX_ADDR_LEN];
    struct unix_header header;
    struct na_addr *addr;

    if (got < 0)
        return NA_FALSE;
    memcpy(&header, self->in, sizeof(header));
    (void) snprintf(
        name, sizeof(name), UNIX_SCHEME "%.*s", (int) UNIX_PATH, from.sun_path);
    if ((size_t) got < sizeof(header) || (size_t) got > sizeof(self->in) ||
        header.magic != UNIX_MAGIC || header.plane > UNIX_FRAME ||
        header.head > size ||
        unix_addr_resolve(&self->base, name, NA_TRUE, &addr) != NA_SUCCESS) {
        core->count(&self->base, "unix_malformed", 1);
        core->log(HG_LOG_LEVEL_WARNING, "unix",
            "%s: malformed datagram of %zd bytes", name, got);
        return NA_TRUE;
    }
    if (header.plane == UNIX_FRAME)
        core->frame_arrived(&self->base, addr, body, header.head,
            body + header.head, size - header.head);
    else
        (void) core->msg_arrived(&self->base, addr, header.plane, header.target,
            header.tag, body, size);
    core->addr_unref(addr);
    return NA_TRUE;
}

static unsigned unix_poll(struct na_context *context)
{
    struct unix_class *self = UNIX_OF(unix_class, context->na_class, base);
    unsigned n = 0;

    while (n < UNIX_BATCH && unix_receive(self))
        n++;
    while (self->sends.next != &self->sends) {
        struct na_op *op = UNIX_OF(na_op, self->sends.next, link);
        na_return_t ret = unix_send_msg(&op->msg);

        if (ret == NA_AGAIN)
            break;
        unix_remove(&op->link);
        self->base.core->complete(op, ret);
        n++;
    }
    return n;
}

static int unix_poll_fd(struct na_context *context)
{
    return UNIX_OF(unix_class, context->na_class, base)->fd;
}

/* No descriptor reports that a receiver has read: do not sleep until then. */
static na_bool_t unix_wait_begin(struct na_context *context)
{
    struct unix_class *self = UNIX_OF(unix_class, context->na_class, base);

    return self->sends.next == &self->sends;
}

/* ---- The class ---- */

static na_return_t unix_open(struct na_class *na_class, const char *host)
{
    struct unix_class *self = UNIX_OF(unix_class, na_class, base);
    const struct na_init_info *info = na_class->info;
    struct sockaddr_un place;
    char name[NA_MAX_ADDR_LEN];
    struct stat file;
    na_return_t ret;

    pthread_mutex_init(&self->lock, NULL);
    self->addrs.prev = self->addrs.next = &self->addrs;
    self->sends.prev = self->sends.next = &self->sends;
    na_class->max_unexpected_size = UNIX_MIN(info->max_unexpected_size);
    na_class->max_expected_size = UNIX_MIN(info->max_expected_size);
    na_class->max_tag = UINT32_MAX;
    na_class->finds_callers = NA_TRUE; /* each class has a path */
    if (na_class->listen && host[0] != '\0')
        (void) snprintf(name, sizeof(name), UNIX_SCHEME "%s", host);
    else
        (void) snprintf(name, sizeof(name), UNIX_SCHEME "/tmp/hg-%" PRIx64,
            na_class->incarnation);
    ret = unix_addr_resolve(na_class, name, NA_FALSE, &na_class->self_addr);
    if (ret != NA_SUCCESS)
        return ret;
    place = unix_place(na_class->self_addr);
    self->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* Remove the socket that a killed process has left, but no other file. */
    if (self->fd >= 0 && lstat(place.sun_path, &file) == 0 &&
        S_ISSOCK(file.st_mode) &&
        connect(self->fd, (struct sockaddr *) &place, sizeof(place)) != 0 &&
        errno == ECONNREFUSED)
        (void) unlink(place.sun_path);
    if (self->fd >= 0 && fchmod(self->fd, S_IRUSR | S_IWUSR) == 0 &&
        bind(self->fd, (struct sockaddr *) &place, sizeof(place)) == 0)
        return NA_SUCCESS;
    ret = errno == EADDRINUSE ? NA_ADDRINUSE : NA_IO_ERROR;
    na_class->core->log(
        HG_LOG_LEVEL_ERROR, "unix", "%s: %s", name, strerror(errno));
    (void) close(self->fd);
    na_class->core->addr_unref(na_class->self_addr);
    return ret;
}

static void unix_close(struct na_class *na_class, unsigned linger_ms)
{
    (void) linger_ms; /* the kernel delivers what it has taken */
    (void) unlink(na_class->self_addr->name + strlen(UNIX_SCHEME));
    (void) close(UNIX_OF(unix_class, na_class, base)->fd);
    /* The mutex stays, since addr_release comes later. */
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
    .addr_release = unix_addr_release,
    .msg_send = unix_msg_send,
    .frame_send = unix_frame_send,
    .cancel = unix_cancel,
    .poll = unix_poll,
    .poll_fd = unix_poll_fd,
    .wait_begin = unix_wait_begin,
};
