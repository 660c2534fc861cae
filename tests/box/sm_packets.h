/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_packets: HELLO and WELCOME of the transport sm as bytes, with possible
 * mistakes, for tests that act as a caller or a listener.
 */
#ifndef HG_TESTS_SM_PACKETS_H
#define HG_TESTS_SM_PACKETS_H

#include "sm_sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>

enum { SM_HELLO = 1, SM_WELCOME, SM_REFUSE };
enum { SM_FDS_WELCOME = 3, SM_FDS_HELLO = 7, SM_FDS_BELL = 32 }; /* bits */
enum { SM_PACKET_HEAD = 24, SM_PACKET_SIZE = 280, SM_PACKET_MAX = 400 };
enum { SM_FDS_MAX = 9 };
enum { SM_SEALED = F_SEAL_SHRINK | F_SEAL_GROW };

/* The descriptor that is sent in place of the wakeup descriptor. */
enum sm_bell {
    SM_BELL_NONE,
    SM_BELL_GOOD,
    SM_BELL_BLOCKING,
    SM_BELL_SOCKET,
    SM_BELL_FILE
};

/* The mistakes of a HELLO or WELCOME. All zero: no mistake. */
struct sm_packet {
    unsigned at; /* if not 0, the byte here is `value` */
    unsigned char value;
    int longer;       /* surplus bytes */
    const char *name; /* NULL: none */
    int more;         /* surplus descriptors */
    enum sm_bell bell;
    unsigned after; /* descriptors after the wakeup descriptor */
    /* Mistakes of descriptor `only` (counted from 1), or of all: missing or
     * surplus seals; surplus bytes; huge pages; a descriptor that cannot
     * write. */
    unsigned only;
    int missing;
    int seal;
    long grow;
    bool huge;
    bool read_only;
    uint64_t incarnation; /* 0: another process */
};

/* Current sizes of the two pages and of a pair. */
static const size_t sm_sizes[3] = {2097152, 4096, 266240};

/* A packet without a mistake, as gen/sm/socket.h defines it. */
static inline void sm_head(unsigned char bytes[SM_PACKET_HEAD],
    unsigned char kind, uint64_t incarnation)
{
    static const unsigned char head[6] = {'H', 'G', 's', 'm', 6, 0};
    unsigned i;

    memset(bytes, 0, SM_PACKET_HEAD);
    memcpy(bytes, head, sizeof(head));
    bytes[6] = kind;
    for (i = 0; i < 8; i++)
        bytes[8 + i] = (unsigned char) (incarnation >> (8 * i));
}

/* The bytes of a packet; returns their number. */
static inline size_t sm_bytes(const struct sm_packet *packet,
    unsigned char kind, unsigned char bytes[SM_PACKET_MAX])
{
    size_t length = packet->name != NULL ? strlen(packet->name) : 0;
    long size = SM_PACKET_SIZE + packet->longer;

    HG_CHECK(size >= 0 && size <= SM_PACKET_MAX);
    memset(bytes, 0, SM_PACKET_MAX);
    sm_head(bytes, kind, packet->incarnation != 0 ? packet->incarnation : 99);
    if (length > 0)
        memcpy(bytes + SM_PACKET_HEAD, packet->name, length);
    bytes[7] = (unsigned char) (kind == SM_HELLO ? SM_FDS_HELLO
            : kind == SM_WELCOME                 ? SM_FDS_WELCOME
                                                 : 0);
    if (packet->bell != SM_BELL_NONE)
        bytes[7] |= SM_FDS_BELL;
    if (packet->at > 0)
        bytes[packet->at] = packet->value;
    return (size_t) size;
}

static inline int sm_memory(size_t size, int seals, bool huge)
{
    int fd = memfd_create("stranger",
        MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0u));

    HG_CHECK(fd >= 0 && ftruncate(fd, (off_t) size) == 0);
    if (seals != 0)
        HG_CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

/* Replace a descriptor by one for the same memory that cannot write. */
static inline int sm_read_only(int fd)
{
    char path[64];
    int other;

    (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    other = open(path, O_RDONLY | O_CLOEXEC);
    HG_CHECK(other >= 0 && close(fd) == 0);
    return other;
}

static inline bool sm_has_huge_pages(void)
{
    int fd = memfd_create("stranger", MFD_CLOEXEC | MFD_HUGETLB);

    if (fd < 0)
        return false;
    (void) close(fd);
    return true;
}

static inline int sm_bell(enum sm_bell bell)
{
    int fd = bell == SM_BELL_GOOD  ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        : bell == SM_BELL_BLOCKING ? eventfd(0, EFD_CLOEXEC)
        : bell == SM_BELL_SOCKET
        ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
        : open("/dev/null", O_WRONLY | O_CLOEXEC | O_NONBLOCK);

    HG_CHECK(fd >= 0);
    return fd;
}

/* The descriptors of a packet of `kind`; returns their number. */
static inline unsigned sm_make_fds(
    const struct sm_packet *packet, unsigned char kind, int fds[SM_FDS_MAX])
{
    unsigned count = (unsigned) ((kind == SM_HELLO ? 3 : 2) + packet->more);
    unsigned i;

    for (i = 0; i < count; i++) {
        bool bad = packet->only == 0 || packet->only == i + 1;
        long grow = bad ? packet->grow : 0;
        int seals = SM_SEALED | (bad ? packet->seal : 0);

        fds[i] = sm_memory((size_t) ((long) sm_sizes[i % 3] + grow),
            bad ? seals & ~packet->missing : seals, bad && packet->huge);
        if (bad && packet->read_only)
            fds[i] = sm_read_only(fds[i]);
    }
    if (packet->bell != SM_BELL_NONE)
        fds[count++] = sm_bell(packet->bell);
    for (i = 0; i < packet->after; i++)
        fds[count++] = sm_bell(SM_BELL_GOOD);
    HG_CHECK(count <= SM_FDS_MAX);
    return count;
}

/* Send bytes with descriptors. */
static inline void sm_send(
    int fd, const void *bytes, size_t size, const int *fds, unsigned count)
{
    struct iovec part = {(void *) (uintptr_t) bytes, size};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(SM_FDS_MAX * sizeof(int))];
    } control;
    struct msghdr message;

    memset(&message, 0, sizeof(message));
    memset(&control, 0, sizeof(control));
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (count > 0) {
        struct cmsghdr *header;

        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, count * sizeof(int));
    }
    (void) sendmsg(fd, &message, MSG_NOSIGNAL);
}

/* Make progress until this process has as many descriptors, and mappings of sm,
 * as before. */
static inline void sm_settle(
    struct conform_end *end, unsigned fds, unsigned maps)
{
    unsigned ms = 0;

    while (hg_test_fd_count() != fds || sm_maps() != maps) {
        HG_CHECK(ms++ < CONFORM_TIMEOUT);
        (void) conform_turn(end->na_class, end->context, 1);
    }
}

#endif
