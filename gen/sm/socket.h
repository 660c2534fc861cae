/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bell: the doorbell of a class: an eventfd that its peers write to.
 *
 * A byte on the pair's socket would do, and does for peers of other users. But
 * the kernel takes who writes to a socket for somebody about to sleep, and has
 * the sleeper run on the same processor, where it waits for whoever rings to
 * stop spinning; and a byte is to be read again. An eventfd wakes it on a free
 * processor, and is never read: its owner watches for edges, one for each
 * write.
 *
 *     class            peers
 *     eventfd <------- write, once for each of the owner's sleeps
 *        | edge
 *     epoll -- poll(): the sleeper
 *
 * All descriptors of it share their mode and their count: whoever has one can
 * have a write to it block. So a class gives its bell to processes of its own
 * user alone, which can stop it anyway, and rings no other.
 *
 * Locking: none.
 */
/*
 * socket: how two processes find each other and agree: names, sockets,
 * credentials, and the one question and answer that pass between them.
 *
 * The meeting point is a Unix socket of kind SOCK_SEQPACKET: in the abstract
 * namespace ("sm://NAME"), where nothing stays behind, or a path ("sm:///p"),
 * for processes without a common network namespace. Such a file outlives a
 * killed process; whoever finds one that nobody listens on takes it over.
 *
 *     dialler                                        acceptor
 *       connect; looks at the acceptor's credentials
 *       HELLO + descriptors ------------------->  looks at the dialler's
 *       <------------------- WELCOME + descriptors
 *     or
 *       <------------ REFUSE: why
 *
 * All packets have one shape, struct na_sm_packet but for its last member.
 * `what` tells the descriptors that come with the packet, a bit for each of
 * enum na_sm_fd. `slot` is the bit that the other side sets in our hint page;
 * `name`, of HELLO, is the dialler's own address, also of one that does not
 * listen: the acceptor finds the connection by it. A process gives its bell to
 * processes of its own user alone; a peer without it sends one byte on the
 * socket instead. After WELCOME nothing else passes on the socket. Its end is
 * the news of the peer's death.
 *
 * Sockets are their owners', who make and close each under a lock that fork
 * takes: a child that kept one would hide the end of its parent.
 *
 * Locking: none. Must not know: addresses, rings.
 */
#ifndef HG_GEN_SM_SOCKET_H
#define HG_GEN_SM_SOCKET_H

#include "sm/memory.h"

#if HG_ENABLE_SM

/* A fresh bell, or -1 with errno. */
HG_PRIVATE int na_sm_bell_open(void);

/* Whether a peer's descriptor will do as a bell: a write to it neither waits,
 * nor reaches a file or a socket, nor raises a signal. */
HG_PRIVATE bool na_sm_bell_is_one(int fd);

HG_PRIVATE void na_sm_bell_ring(int bell);

#define NA_SM_VERSION 5
#define NA_SM_UIDS 16     /* users that a policy can name */
#define NA_SM_NAME_MAX 64 /* of an abstract name */

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
    NA_SM_FD_ARENA, /* two: see memory.h; either may be missing */
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
    /* -1: none. Received, they are the packet's until na_sm_packet_close. */
    int fds[NA_SM_FD_MAX];
};

/* A name as the system wants it. */
struct na_sm_name {
    struct sockaddr_un where;
    socklen_t size;
    bool is_path;
};

/* Which users may meet us. */
struct na_sm_policy {
    bool anybody;
    unsigned count;
    uid_t uids[NA_SM_UIDS]; /* besides our own */
};

/* Read na_init_info.auth_key: NULL or "": the own user; "any-user"; or user
 * ids, separated by commas. NA_INVALID_ARG, logged. */
HG_PRIVATE na_return_t na_sm_policy_parse(
    const char *text, struct na_sm_policy *policy_p);

/* Read a small text file of the kernel's, or as much of it as there is room
 * for; false: there is none. */
HG_PRIVATE bool na_sm_read_text(const char *path, char *text, size_t size);

/* Whether a user namespace's map (/proc/self/uid_map) has every user. */
HG_PRIVATE bool na_sm_users_are_all(const char *map);

/* The process at the other end of a connection, and its user. */
#define NA_SM_IDENTITY 16
struct na_sm_user {
    pid_t pid;
    uid_t uid;
    bool same_user;                /* our own user, and nobody else */
    char identity[NA_SM_IDENTITY]; /* "uid:1000"; "": it may be any user */
};

/* Why the other end of a connection may not meet us, for the log: its user is
 * not allowed, or the number of that tells nothing. NULL: it may. Who it is,
 * as far as that is known, in *user_p. */
HG_PRIVATE const char *na_sm_policy_refuses(
    const struct na_sm_policy *policy, int fd, struct na_sm_user *user_p);

/* What stands behind "sm://". NA_INVALID_ARG, logged at `level`. */
HG_PRIVATE na_return_t na_sm_name_parse(
    int level, const char *rest, struct na_sm_name *name_p);

/* The name of a class that does not listen: a random one, with a mark that no
 * listener's name has. */
HG_PRIVATE void na_sm_caller_name(char name[NA_MAX_ADDR_LEN]);
HG_PRIVATE bool na_sm_is_caller_name(const char *name);

/* A fresh socket, or -1 with errno. */
HG_PRIVATE int na_sm_socket(void);

/* Listen with a fresh socket, which stays the caller's. NA_ADDRINUSE: somebody
 * does already, or the path is another file; NA_ADDRNOTAVAIL: no such place;
 * NA_ACCESS; NA_IO_ERROR. All logged. */
HG_PRIVATE na_return_t na_sm_listen(const struct na_sm_name *name,
    const struct na_sm_policy *policy, int fd, struct stat *made_p);

/* Stop listening: remove the file that na_sm_listen made, if it is there. */
HG_PRIVATE void na_sm_unlisten(
    const struct na_sm_name *name, const struct stat *made, int fd);

/* Connect a fresh socket, without waiting. NA_BUSY: too many do, try again
 * later; NA_HOSTUNREACH: nobody listens; NA_ACCESS; errno tells why. Not
 * logged. */
HG_PRIVATE na_return_t na_sm_connect(const struct na_sm_name *name, int fd);

/* A packet of that kind without descriptors. */
HG_PRIVATE void na_sm_packet_init(
    struct na_sm_packet *packet, enum na_sm_packet_kind kind);

/* Send a packet with its descriptors, which stay the caller's. NA_AGAIN: the
 * user has as many descriptors in flight as may be, try later;
 * NA_DISCONNECT. */
HG_PRIVATE na_return_t na_sm_packet_send(
    int fd, const struct na_sm_packet *packet);

/* Receive one. NA_AGAIN: none yet; NA_DISCONNECT: the other end is gone;
 * NA_PROTOCOL_ERROR: malformed, or of another version, which it has then;
 * NA_OVERFLOW: this process has no descriptor left. */
HG_PRIVATE na_return_t na_sm_packet_recv(int fd, struct na_sm_packet *packet_p);

/* Take a descriptor of a packet, which is the caller's then; or -1. */
HG_PRIVATE int na_sm_packet_take(
    struct na_sm_packet *packet, enum na_sm_fd which);

/* Close the descriptors that came with a packet, and were not taken. */
HG_PRIVATE void na_sm_packet_close(struct na_sm_packet *packet);

#endif
#endif
