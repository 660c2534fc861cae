/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bell: the doorbell of a class: an eventfd that its peers write to.
 *
 * A byte on the pair's socket would also wake the owner, and is used for peers
 * of other users. But the kernel assumes that a process that writes to a socket
 * is about to sleep, and makes the sleeper run on the same processor, where it
 * waits until the writer stops spinning; and the byte must be read. An eventfd
 * wakes the sleeper on a free processor, and is never read: its owner watches
 * for edges, one for each write.
 *
 *     class            peers
 *     eventfd <------- write, once for each of the owner's sleeps
 *        | edge
 *     epoll -- poll(): the sleeper
 *
 * All descriptors of an eventfd share its mode and its count: any process that
 * has one can make writes to it block. So a class gives its bell only to
 * processes of its own user, which could stop it anyway, and rings only bells
 * of its own user.
 *
 * Locking: none.
 */
/*
 * socket: how two processes find each other: names, Unix sockets, credentials,
 * and the handshake packets.
 *
 * A class listens on a Unix socket of type SOCK_SEQPACKET: in the abstract
 * namespace ("sm://NAME"), which leaves no files, or at a path ("sm:///p"), for
 * processes without a common network namespace. Such a file remains when its
 * process is killed; a process that finds a file on which no process listens
 * takes it over. A class that does not listen has a random name,
 * "sm://~NUMBER". It gets a socket there when it binds bulk memory, for peers
 * that got the name from others.
 *
 *     dialler                                        acceptor
 *       connect; checks the acceptor's credentials
 *       HELLO + descriptors ------------------->  checks the dialler's
 *       <------------------- WELCOME + descriptors
 *     or
 *       <------------ REFUSE: why
 *
 * All packets have the layout of struct na_sm_packet without its last member.
 * `what` has a bit of enum na_sm_fd for each descriptor that is sent with the
 * packet. `slot` is the bit that the other side sets in the sender's hint page.
 * `name` in HELLO is the dialler's own address, even if it does not listen: the
 * acceptor finds the connection by it. A process gives its bell only to
 * processes of its own user; a peer without it sends one byte on the socket
 * instead. After WELCOME nothing else is sent on the socket. When the socket
 * ends, the peer is dead.
 *
 * The owner of a socket creates and closes it with a lock held that fork takes:
 * a child that kept a socket open would hide the end of its parent.
 *
 * Locking: none. Must not know: addresses, rings.
 */
#ifndef HG_GEN_SM_SOCKET_H
#define HG_GEN_SM_SOCKET_H

#include "sm/memory.h"

#if HG_ENABLE_SM

/* A fresh bell, or -1 with errno. */
HG_PRIVATE int na_sm_bell_open(void);

/* Whether a peer's descriptor can be used as a bell: a write to it must not
 * block, reach a file or a socket, or raise a signal. */
HG_PRIVATE bool na_sm_bell_is_one(int fd);

HG_PRIVATE void na_sm_bell_ring(int bell);

#define NA_SM_VERSION 6
#define NA_SM_UIDS 16     /* users that a policy can name */
#define NA_SM_NAME_MAX 64 /* of an abstract name */
/* Begins the name of a class that does not listen. */
#define NA_SM_CALLER_MARK '~'

enum na_sm_packet_kind {
    NA_SM_NOTHING, /* not received */
    NA_SM_HELLO,
    NA_SM_WELCOME,
    NA_SM_REFUSE
};

/* The descriptors of a packet, in this order: a bit in `what` for each. */
enum na_sm_fd {
    NA_SM_FD_PUBLIC,
    NA_SM_FD_HINTS,
    NA_SM_FD_PAIR,  /* of HELLO */
    NA_SM_FD_ARENA, /* two: see memory.h; each may be missing */
    NA_SM_FD_BELL = NA_SM_FD_ARENA + NA_SM_ARENAS, /* may be missing */
    NA_SM_FD_MAX
};

struct na_sm_packet {
    uint32_t magic;
    uint16_t version;
    uint8_t kind;
    uint8_t what; /* set by na_sm_packet_send: the descriptors */
    uint64_t incarnation;
    uint32_t slot;
    uint32_t reason;
    char name[NA_MAX_ADDR_LEN]; /* and zeros */
    /* -1: none. Of a received packet, until na_sm_packet_close. */
    int fds[NA_SM_FD_MAX];
};

/* A name as a socket address. */
struct na_sm_name {
    struct sockaddr_un where;
    socklen_t size;
    bool is_path;
};

/* The users that may connect. */
struct na_sm_policy {
    bool anybody;
    unsigned count;
    uid_t uids[NA_SM_UIDS]; /* in addition to the own user */
};

/* Parse na_init_info.auth_key: NULL or "": the own user; "any-user"; or user
 * ids, separated by commas. NA_INVALID_ARG, logged. */
HG_PRIVATE na_return_t na_sm_policy_parse(
    const char *text, struct na_sm_policy *policy_p);

/* Read a small text file of the kernel, as much of it as fits; false: there is
 * none. */
HG_PRIVATE bool na_sm_read_text(const char *path, char *text, size_t size);

/* Whether a user namespace's map (/proc/self/uid_map) has every user. */
HG_PRIVATE bool na_sm_users_are_all(const char *map);

/* The process at the other end of a connection, and its user. */
#define NA_SM_IDENTITY 16
struct na_sm_user {
    pid_t pid;
    uid_t uid;
    bool same_user;                /* certainly the own user */
    char identity[NA_SM_IDENTITY]; /* "uid:1000"; "": it may be any user */
};

/* Why the other end of a connection may not connect, for the log: its user is
 * not allowed, or its user id is ambiguous. NULL: it may. *user_p gets its
 * identity, as far as known. */
HG_PRIVATE const char *na_sm_policy_refuses(
    const struct na_sm_policy *policy, int fd, struct na_sm_user *user_p);

/* Parse the part behind "sm://". NA_INVALID_ARG, logged at `level`. */
HG_PRIVATE na_return_t na_sm_name_parse(
    int level, const char *rest, struct na_sm_name *name_p);

/* Make a name for a class that does not listen: random, with a first character
 * that no listener's name has. */
HG_PRIVATE void na_sm_caller_name(char name[NA_MAX_ADDR_LEN]);
HG_PRIVATE bool na_sm_is_caller_name(const char *name);

/* A fresh socket, or -1 with errno. */
HG_PRIVATE int na_sm_socket(void);

/* Listen with a new socket, which the caller still owns. NA_ADDRINUSE: a
 * process listens already, or the path is another file; NA_ADDRNOTAVAIL: no
 * such place; NA_ACCESS; NA_IO_ERROR. All are logged. */
HG_PRIVATE na_return_t na_sm_listen(const struct na_sm_name *name,
    const struct na_sm_policy *policy, int fd, struct stat *made_p);

/* Listen at the first free name PID-N of this process, N from 0, which is
 * written to `text`. Names in use are not logged. NA_ADDRNOTAVAIL (logged). */
HG_PRIVATE na_return_t na_sm_listen_own(
    struct na_sm_name *name_p, char text[NA_SM_NAME_MAX + 1], int fd);

/* Stop listening: remove the file that na_sm_listen created, if it still
 * exists. */
HG_PRIVATE void na_sm_unlisten(
    const struct na_sm_name *name, const struct stat *made, int fd);

/* Connect a new socket, without waiting. NA_BUSY: too many connections are
 * pending, try again later; NA_HOSTUNREACH: no process listens; NA_ACCESS;
 * errno has the reason. Not logged. */
HG_PRIVATE na_return_t na_sm_connect(const struct na_sm_name *name, int fd);

/* A packet of that kind without descriptors. */
HG_PRIVATE void na_sm_packet_init(
    struct na_sm_packet *packet, enum na_sm_packet_kind kind);

/* Send a packet with its descriptors, which the caller still owns. NA_AGAIN:
 * the user's limit of descriptors in flight is reached, try again later;
 * NA_DISCONNECT. */
HG_PRIVATE na_return_t na_sm_packet_send(
    int fd, const struct na_sm_packet *packet);

/* Receive a packet. NA_AGAIN: none yet; NA_DISCONNECT: the other end is closed;
 * NA_PROTOCOL_ERROR: malformed, or of another version, which is then in the
 * packet; NA_OVERFLOW: this process has no descriptor left. */
HG_PRIVATE na_return_t na_sm_packet_recv(int fd, struct na_sm_packet *packet_p);

/* Take a descriptor of a packet, which the caller then owns; or -1. */
HG_PRIVATE int na_sm_packet_take(
    struct na_sm_packet *packet, enum na_sm_fd which);

/* Close the descriptors of a received packet that were not taken. */
HG_PRIVATE void na_sm_packet_close(struct na_sm_packet *packet);

#endif
#endif
