/* SPDX-License-Identifier: BSD-3-Clause */
/* socket: see socket.h. */
#include "sm/socket.h"

#if HG_ENABLE_SM

#include "base/clock.h"
#include "base/log.h"

/* ---- Bells ---- */

HG_PRIVATE int na_sm_bell_open(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

HG_PRIVATE bool na_sm_bell_is_one(int fd)
{
    int mode = fcntl(fd, F_GETFL);
    struct stat is;

    /* A descriptor without a file type is neither a file, nor a socket, nor a
     * pipe. Among those, a write of 8 bytes has no effect on a descriptor that
     * is not an eventfd. */
    return mode >= 0 && (mode & O_NONBLOCK) != 0 && fstat(fd, &is) == 0 &&
        (is.st_mode & S_IFMT) == 0;
}

HG_PRIVATE void na_sm_bell_ring(int bell)
{
    static const uint64_t once = 1;
    ssize_t written;

    do
        written = write(bell, &once, sizeof(once));
    while (written < 0 && errno == EINTR);
}

#define NA_SM_MAGIC 0x6d734748u /* "HGsm" */
#define NA_SM_PREFIX "hg/sm/"   /* of abstract names */
#define NA_SM_BACKLOG 4096
#define NA_SM_OWN_NAMES 256u /* PID-0 and so on */
#define NA_SM_PACKET_SIZE offsetof(struct na_sm_packet, fds)

/* ---- Who may ---- */

HG_PRIVATE na_return_t na_sm_policy_parse(
    const char *text, struct na_sm_policy *policy_p)
{
    struct na_sm_policy policy;
    const char *at = text;

    memset(&policy, 0, sizeof(policy));
    if (text != NULL && strcmp(text, "any-user") == 0) {
        policy.anybody = true;
        at = NULL;
    }
    while (at != NULL && *at != '\0') {
        char *end = NULL;
        unsigned long uid = strtoul(at, &end, 10);

        if (*at < '0' || *at > '9' || uid >= UINT32_MAX ||
            policy.count == NA_SM_UIDS || (*end != ',' && *end != '\0') ||
            (*end == ',' && end[1] == '\0')) {
            hg_log_error("sm",
                "auth_key '%s': neither \"any-user\" nor up to %d user ids "
                "with commas between",
                text, NA_SM_UIDS);
            return NA_INVALID_ARG;
        }
        policy.uids[policy.count++] = (uid_t) uid;
        at = *end == ',' ? end + 1 : end;
    }
    *policy_p = policy;
    return NA_SUCCESS;
}

HG_PRIVATE bool na_sm_read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, size - 1) : -1;

    if (fd >= 0)
        (void) close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

HG_PRIVATE bool na_sm_users_are_all(const char *map)
{
    unsigned long count = 0; /* of the first line; one id is "nobody" */

    return sscanf(map, "%*u %*u %lu", &count) == 1 && count >= UINT32_MAX;
}

/* Whether a user id identifies one user: in a user namespace without all users,
 * the missing ones share one id. */
static bool na_sm_user_is_one(uid_t uid)
{
    char text[1024];
    unsigned long nobody = 65534;

    if (na_sm_read_text("/proc/sys/fs/overflowuid", text, sizeof(text)))
        nobody = strtoul(text, NULL, 10);
    return uid != nobody ||
        (na_sm_read_text("/proc/self/uid_map", text, sizeof(text)) &&
            na_sm_users_are_all(text));
}

HG_PRIVATE const char *na_sm_policy_refuses(
    const struct na_sm_policy *policy, int fd, struct na_sm_user *user_p)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    bool allowed, one;
    unsigned i;

    memset(user_p, 0, sizeof(*user_p));
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return "the system does not report its user";
    one = na_sm_user_is_one(peer.uid);
    user_p->pid = peer.pid;
    user_p->uid = peer.uid;
    user_p->same_user = one && peer.uid == geteuid();
    if (one)
        (void) snprintf(user_p->identity, sizeof(user_p->identity),
            "uid:%" PRIu32, (uint32_t) peer.uid);
    allowed = policy->anybody || peer.uid == geteuid();
    for (i = 0; i < policy->count && !allowed; i++)
        allowed = peer.uid == policy->uids[i];
    if (!allowed)
        return "auth_key does not allow it";
    return policy->anybody || one
        ? NULL
        : "in this user namespace its user id may be any user";
}

/* ---- Names ---- */

#define NA_SM_NAME_CHARACTERS \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:"

static na_return_t na_sm_name_bad(int level, const char *rest, const char *why)
{
    HG_LOG_AT(level, "sm", "sm://%s: %s", rest, why);
    return NA_INVALID_ARG;
}

HG_PRIVATE na_return_t na_sm_name_parse(
    int level, const char *rest, struct na_sm_name *name_p)
{
    struct na_sm_name name;
    size_t length = strlen(rest);
    size_t start;

    memset(&name, 0, sizeof(name));
    name.where.sun_family = AF_UNIX;
    name.is_path = rest[0] == '/';
    if (name.is_path) {
        if (length >= sizeof(name.where.sun_path))
            return na_sm_name_bad(level, rest, "longer than a socket's path");
        memcpy(name.where.sun_path, rest, length + 1);
        name.size =
            (socklen_t) (offsetof(struct sockaddr_un, sun_path) + length + 1);
        *name_p = name;
        return NA_SUCCESS;
    }
    if (length == 0 || length > NA_SM_NAME_MAX)
        return na_sm_name_bad(level, rest, "a name has 1 to 64 characters");
    start = rest[0] == NA_SM_CALLER_MARK;
    if (start + strspn(rest + start, NA_SM_NAME_CHARACTERS) != length)
        return na_sm_name_bad(level, rest,
            "neither letters, digits, '.', '_', '-', ':' nor /path");
    memcpy(name.where.sun_path + 1, NA_SM_PREFIX, sizeof(NA_SM_PREFIX) - 1);
    memcpy(name.where.sun_path + sizeof(NA_SM_PREFIX), rest, length);
    name.size = (socklen_t) (offsetof(struct sockaddr_un, sun_path) +
        sizeof(NA_SM_PREFIX) + length);
    *name_p = name;
    return NA_SUCCESS;
}

HG_PRIVATE void na_sm_caller_name(char name[NA_MAX_ADDR_LEN])
{
    (void) snprintf(name, NA_MAX_ADDR_LEN, "sm://%c%016" PRIx64,
        NA_SM_CALLER_MARK, hg_clock_random());
}

HG_PRIVATE bool na_sm_is_caller_name(const char *name)
{
    return strncmp(name, "sm://", 5) == 0 && name[5] == NA_SM_CALLER_MARK;
}

/* For the log. */
static const char *na_sm_name_text(const struct na_sm_name *name)
{
    return name->is_path ? name->where.sun_path
                         : name->where.sun_path + sizeof(NA_SM_PREFIX);
}

/* ---- Listening ---- */

HG_PRIVATE int na_sm_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Remove the file of a socket on which no process listens; `fd` is used to find
 * out. False: a process listens, or it is not a socket. */
static bool na_sm_clear_path(const struct na_sm_name *name, int fd)
{
    const struct sockaddr *where = (const struct sockaddr *) &name->where;
    struct stat there;

    if (lstat(name->where.sun_path, &there) != 0 || !S_ISSOCK(there.st_mode))
        return false;
    return connect(fd, where, name->size) != 0 && errno == ECONNREFUSED &&
        unlink(name->where.sun_path) == 0;
}

/* Lock the folder of a path, so that of several processes that find a stale
 * file only one takes it over. Any process can lock a folder, so this waits for
 * a second and then continues without the lock. -1: the folder cannot be
 * opened. */
static int na_sm_lock_folder(const struct na_sm_name *name)
{
    char folder[sizeof(name->where.sun_path) + 2];
    char *slash;
    int tries = 100;
    int fd;

    memcpy(folder, name->where.sun_path, sizeof(name->where.sun_path));
    folder[sizeof(name->where.sun_path)] = '\0';
    slash = strrchr(folder, '/');
    HG_ASSERT(slash != NULL);
    slash[slash == folder] = '\0';
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0 && tries-- > 0)
        (void) poll(NULL, 0, 10);
    return fd;
}

/* Needed even if a child of fork has the descriptor. */
static void na_sm_unlock_folder(int fd)
{
    if (fd < 0)
        return;
    (void) flock(fd, LOCK_UN);
    (void) close(fd);
}

static na_return_t na_sm_bind(const struct na_sm_name *name, int fd)
{
    const struct sockaddr *where = (const struct sockaddr *) &name->where;
    int error;

    if (bind(fd, where, name->size) == 0)
        return NA_SUCCESS;
    error = errno;
    if (error == EADDRINUSE && name->is_path && na_sm_clear_path(name, fd)) {
        if (bind(fd, where, name->size) == 0)
            return NA_SUCCESS;
        error = errno;
    }
    hg_log_error("sm", "cannot listen on sm://%s: %s", na_sm_name_text(name),
        strerror(error));
    return error == EADDRINUSE ? NA_ADDRINUSE
        : error == EACCES      ? NA_ACCESS
                               : NA_ADDRNOTAVAIL;
}

HG_PRIVATE na_return_t na_sm_listen(const struct na_sm_name *name,
    const struct na_sm_policy *policy, int fd, struct stat *made_p)
{
    bool others = policy->anybody || policy->count > 0;
    int folder = -1;
    na_return_t ret;

    if (name->is_path)
        folder = na_sm_lock_folder(name);
    memset(made_p, 0, sizeof(*made_p));
    ret = na_sm_bind(name, fd);
    /* Before any process can connect: the policy decides, not the umask. */
    if (ret == NA_SUCCESS &&
        ((name->is_path &&
             (lstat(name->where.sun_path, made_p) != 0 ||
                 (others && chmod(name->where.sun_path, 0666) != 0))) ||
            listen(fd, NA_SM_BACKLOG) != 0)) {
        ret = NA_IO_ERROR;
        hg_log_error("sm", "cannot listen on sm://%s: %s",
            na_sm_name_text(name), strerror(errno));
        if (name->is_path)
            (void) unlink(name->where.sun_path);
        memset(made_p, 0, sizeof(*made_p)); /* nothing to remove later */
    }
    na_sm_unlock_folder(folder);
    return ret;
}

/* The kernel gives a name of the abstract namespace to one socket: neither
 * another thread nor another process can bind it. Processes of other users may
 * have names of this process, even all: the last attempt uses a random one. */
HG_PRIVATE na_return_t na_sm_listen_own(
    struct na_sm_name *name_p, char text[NA_SM_NAME_MAX + 1], int fd)
{
    na_return_t ret;
    unsigned n = 0;
    int rc;

    do {
        if (n < NA_SM_OWN_NAMES)
            (void) snprintf(
                text, NA_SM_NAME_MAX + 1, "%ld-%u", (long) getpid(), n);
        else
            (void) snprintf(text, NA_SM_NAME_MAX + 1, "%ld-%016" PRIx64,
                (long) getpid(), hg_clock_random());
        ret = na_sm_name_parse(HG_LOG_LEVEL_ERROR, text, name_p);
        HG_ASSERT(ret == NA_SUCCESS);
        rc = bind(fd, (const struct sockaddr *) &name_p->where, name_p->size);
    } while (rc != 0 && errno == EADDRINUSE && n++ < NA_SM_OWN_NAMES);
    if (rc == 0 && listen(fd, NA_SM_BACKLOG) == 0)
        return ret;
    hg_log_error("sm", "cannot listen on sm://%s: %s", text, strerror(errno));
    return NA_ADDRNOTAVAIL;
}

HG_PRIVATE void na_sm_unlisten(
    const struct na_sm_name *name, const struct stat *made, int fd)
{
    struct stat there;

    if (name->is_path && lstat(name->where.sun_path, &there) == 0 &&
        there.st_ino == made->st_ino && there.st_dev == made->st_dev)
        (void) unlink(name->where.sun_path);
    (void) close(fd);
}

HG_PRIVATE na_return_t na_sm_connect(const struct na_sm_name *name, int fd)
{
    if (connect(fd, (const struct sockaddr *) &name->where, name->size) == 0)
        return NA_SUCCESS;
    if (errno == EAGAIN)
        return NA_BUSY;
    return errno == EACCES || errno == EPERM ? NA_ACCESS : NA_HOSTUNREACH;
}

/* ---- Packets ---- */

/* Check a received packet of `size` bytes, followed by zeros. */
static na_return_t na_sm_packet_check(struct na_sm_packet *packet, size_t size)
{
    size_t length = strnlen(packet->name, sizeof(packet->name));
    bool good = packet->magic == NA_SM_MAGIC &&
        packet->version == NA_SM_VERSION && size == NA_SM_PACKET_SIZE &&
        length < sizeof(packet->name) && packet->slot < NA_SM_PEERS &&
        packet->incarnation != 0;
    size_t i;

    for (i = 0; i < length; i++)
        good = good && packet->name[i] >= 0x20 && packet->name[i] < 0x7f;
    if (good)
        return NA_SUCCESS;
    packet->kind = NA_SM_NOTHING;
    if (packet->magic != NA_SM_MAGIC)
        packet->version = 0;
    return NA_PROTOCOL_ERROR;
}

/* Space for a control message with descriptors, correctly aligned. */
union na_sm_packet_control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(NA_SM_FD_MAX * sizeof(int))];
};

HG_PRIVATE void na_sm_packet_init(
    struct na_sm_packet *packet, enum na_sm_packet_kind kind)
{
    unsigned i;

    memset(packet, 0, sizeof(*packet));
    packet->magic = NA_SM_MAGIC;
    packet->version = NA_SM_VERSION;
    packet->kind = (uint8_t) kind;
    for (i = 0; i < NA_SM_FD_MAX; i++)
        packet->fds[i] = -1;
}

HG_PRIVATE na_return_t na_sm_packet_send(
    int fd, const struct na_sm_packet *packet)
{
    struct na_sm_packet copy = *packet;
    struct iovec part = {&copy, NA_SM_PACKET_SIZE};
    union na_sm_packet_control control;
    int fds[NA_SM_FD_MAX];
    size_t size = 0;
    struct msghdr message;
    ssize_t sent;
    unsigned i;

    for (i = 0; i < NA_SM_FD_MAX; i++) {
        if (packet->fds[i] < 0)
            continue;
        copy.what = (uint8_t) (copy.what | 1u << i);
        fds[size / sizeof(int)] = packet->fds[i];
        size += sizeof(int);
    }
    memset(&message, 0, sizeof(message));
    memset(&control, 0, sizeof(control));
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (size > 0) {
        struct cmsghdr *header;

        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(size);
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(header), fds, size);
    }
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno == ETOOMANYREFS)
        return NA_AGAIN;
    return sent == (ssize_t) part.iov_len ? NA_SUCCESS : NA_DISCONNECT;
}

HG_PRIVATE na_return_t na_sm_packet_recv(int fd, struct na_sm_packet *packet_p)
{
    struct iovec part = {packet_p, NA_SM_PACKET_SIZE};
    union na_sm_packet_control control;
    const struct cmsghdr *header;
    int fds[NA_SM_FD_MAX];
    struct msghdr message;
    unsigned resets = 0, count = 0, n = 0, i;
    ssize_t got;
    na_return_t ret;

    na_sm_packet_init(packet_p, NA_SM_NOTHING);
    memset(&message, 0, sizeof(message));
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof(control);
    /* If a peer closed without reading, the first recvmsg fails with a reset;
     * the next one returns what the peer had sent. */
    do
        got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (
        got < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)));
    if (got < 0)
        return errno == EAGAIN ? NA_AGAIN : NA_DISCONNECT;
    /* The kernel delivers all descriptors in one control message, drops those
     * that do not fit, and adds no other: no option asks for one. */
    header = CMSG_FIRSTHDR(&message);
    if (header != NULL) {
        count = (unsigned) ((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        HG_ASSERT(count <= NA_SM_FD_MAX);
        memcpy(fds, CMSG_DATA(header), count * sizeof(int));
    }
    ret = got == 0 ? NA_DISCONNECT : na_sm_packet_check(packet_p, (size_t) got);
    if (ret == NA_SUCCESS && (message.msg_flags & MSG_CTRUNC) != 0 &&
        count < NA_SM_FD_MAX)
        ret = NA_OVERFLOW; /* the process has no descriptor left */
    else if (ret == NA_SUCCESS &&
        ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
            packet_p->what >> NA_SM_FD_MAX != 0 ||
            count != (unsigned) __builtin_popcount(packet_p->what)))
        ret = NA_PROTOCOL_ERROR;
    for (i = 0; i < NA_SM_FD_MAX && ret == NA_SUCCESS; i++) {
        if ((packet_p->what >> i & 1) != 0)
            packet_p->fds[i] = fds[n++];
    }
    while (ret != NA_SUCCESS && count > 0)
        (void) close(fds[--count]);
    return ret;
}

HG_PRIVATE int na_sm_packet_take(
    struct na_sm_packet *packet, enum na_sm_fd which)
{
    int fd = packet->fds[which];

    packet->fds[which] = -1;
    return fd;
}

HG_PRIVATE void na_sm_packet_close(struct na_sm_packet *packet)
{
    unsigned i;

    for (i = 0; i < NA_SM_FD_MAX; i++) {
        int fd = na_sm_packet_take(packet, (enum na_sm_fd) i);

        if (fd >= 0)
            (void) close(fd);
    }
}

#endif
