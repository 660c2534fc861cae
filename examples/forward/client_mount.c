/* SPDX-License-Identifier: BSD-3-Clause */
/* client_mount: see client_mount.h. */
#define _GNU_SOURCE
#include "client_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "client_ops.h"

#define MOUNT_BATCH 16u        /* requests to read before responses are sent */
#define MOUNT_WINDOW_NS 50000u /* the maximum */
#define MOUNT_LOOK 4u          /* turns between two looks for a request */
#define MOUNT_SIGNALS 256u     /* turns between two looks for a signal */
/* If a yield takes longer than this, another thread had the processor. The loop
 * then does not spin for MOUNT_LOSS times as long. */
#define MOUNT_BUSY_NS 100000u
#define MOUNT_LOSS 64u
#define MOUNT_AHEAD_KIB "1024"
#define MOUNT_BACKGROUND 64u /* readahead and other requests at a time */

struct mount_options mount_options = {.timeout = 30,
    .attr_timeout = 1.0,
    .entry_timeout = 1.0,
    .uid = -1,
    .gid = -1};

static struct {
    struct fuse_session *session;
    const char *point;
    int fuse_fd;
    int epoll_fd;
    bool reading;        /* the loop polls fuse_fd */
    uint64_t window;     /* ns to spin */
    uint64_t busy_until; /* no spinning before this time */
    bool log_to_system;
} mount;

/* ---- Messages ---- */

void mount_log_to_system(void)
{
    mount.log_to_system = true;
    openlog("hg_forward", LOG_PID, LOG_DAEMON);
}

void mount_log(const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    (void) vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (mount.log_to_system)
        syslog(LOG_NOTICE, "%s", line);
    else
        (void) fprintf(stderr, "hg_forward: %s\n", line);
}

/* ---- The kernel ---- */

void mount_attr_changed(struct node *node)
{
    node->attr_known = false;
    (void) fuse_lowlevel_notify_inval_inode(
        mount.session, node_ino(node), -1, 0);
}

void mount_data_changed(struct node *node)
{
    if ((node->attr.mode & (S_ISUID | S_ISGID)) != 0)
        mount_attr_changed(node);
}

static void mount_want(struct fuse_conn_info *conn, unsigned wanted)
{
    conn->want |= conn->capable & wanted;
}

static void mount_init(void *unused, struct fuse_conn_info *conn)
{
    (void) unused;
    conn->want = 0;
    mount_want(conn,
        FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_POSIX_LOCKS |
            FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_ATOMIC_O_TRUNC |
            FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
            FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_AUTO_INVAL_DATA);
    if (mount_options.writeback)
        mount_want(conn, FUSE_CAP_WRITEBACK_CACHE);
    conn->max_write = FWD_IO_MAX;
    conn->max_read = mount_options.max_read;
    conn->max_background = MOUNT_BACKGROUND;
}

bool mount_prepare(struct fuse_args *args)
{
    static struct fuse_lowlevel_ops table;

    table.init = mount_init;
    if (!ops_names_init(&table) || !ops_attr_init(&table) ||
        !ops_files_init(&table) || !ops_data_init(&table) ||
        !ops_dir_init(&table) || !ops_lock_init(&table))
        return false;
    mount.session = fuse_session_new(args, &table, sizeof(table), NULL);
    return mount.session != NULL;
}

void mount_end(void)
{
    fuse_session_exit(mount.session);
    slot_fini();
    file_free_all(dir_end_listing);
    fuse_session_unmount(mount.session);
}

void mount_free(void)
{
    fuse_session_destroy(mount.session);
}

/* ---- Requests ---- */

/* Let the kernel read ahead as much as one call can move, if this process may.
 * The kernel's own limit is an eighth of that. AT_STATX_DONT_SYNC sends no
 * request, which this thread could not serve now. */
static void mount_read_ahead(void)
{
    struct statx status;
    char path[64];
    int fd;

    if (statx(AT_FDCWD, mount.point, AT_STATX_DONT_SYNC, 0, &status) != 0)
        return;
    (void) snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb",
        status.stx_dev_major, status.stx_dev_minor);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void) !write(fd, MOUNT_AHEAD_KIB, strlen(MOUNT_AHEAD_KIB));
    (void) close(fd);
}

/* Read one request and begin it. Returns false if no request has come, or on
 * out-of-memory. */
static bool mount_read(void)
{
    struct buffer *buffer = slot_current_buffer();
    struct fuse_buf request = {0};
    ssize_t size;

    if (buffer == NULL)
        return false;
    size = read(mount.fuse_fd, buffer->memory, SLOT_BUFFER_SIZE);
    if (size < 0) {
        if (errno == ENODEV) /* unmounted */
            fuse_session_exit(mount.session);
        return errno == ENOENT || errno == EINTR; /* was interrupted */
    }
    request.mem = buffer->memory;
    request.size = (size_t) size;
    fuse_session_process_buf(mount.session, &request);
    return true;
}

bool mount_begin(const char *mountpoint)
{
    if (fuse_session_mount(mount.session, mountpoint) != 0)
        return false;
    mount.fuse_fd = fuse_session_fd(mount.session);
    mount.point = mountpoint;
    /* The first request is FUSE_INIT. */
    if (!mount_read() || fuse_session_exited(mount.session) ||
        fcntl(mount.fuse_fd, F_SETFL, O_NONBLOCK) != 0) {
        mount_log("%s: the kernel did not start the mount", mountpoint);
        mount_end();
        return false;
    }
    mount_read_ahead();
    return true;
}

/* Returns whether there was a request. */
static bool mount_read_all(void)
{
    unsigned i = 0;

    while (
        i < MOUNT_BATCH && !fuse_session_exited(mount.session) && mount_read())
        i++;
    return i > 0;
}

static bool mount_watch(int op, int fd, uint32_t events)
{
    struct epoll_event event = {0};

    event.events = events;
    event.data.fd = fd;
    return epoll_ctl(mount.epoll_fd, op, fd, &event) == 0;
}

/* Without a buffer for a request the loop does not watch for one. */
static void mount_watch_requests(void)
{
    bool reads = slot_current_buffer() != NULL;

    if (reads == mount.reading)
        return;
    mount.reading = reads;
    (void) mount_watch(EPOLL_CTL_MOD, mount.fuse_fd, reads ? EPOLLIN : 0);
}

static int mount_earlier(int a, int b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* ---- Spinning ----
 *
 * To sleep and wake up takes longer than a short call. So before it sleeps, the
 * loop looks again and again for a time, the window, whether a request or a
 * response comes. The window is short if the last one came late. */

static uint64_t mount_clock(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* Something came `idle` ns after there was nothing left to do. */
static void mount_adapt(uint64_t idle)
{
    mount.window = idle <= MOUNT_WINDOW_NS ? MOUNT_WINDOW_NS : mount.window / 2;
}

/* Let other threads run. If that takes long, the processors are busy, and the
 * loop does not spin for some time. Returns the time. */
static uint64_t mount_yield(void)
{
    uint64_t before = mount_clock();
    uint64_t now;

    (void) sched_yield();
    now = mount_clock();
    if (now - before > MOUNT_BUSY_NS)
        mount.busy_until = now + MOUNT_LOSS * (now - before);
    return now;
}

/* Returns whether something came. */
static bool mount_spin(uint64_t since)
{
    uint64_t now = since;
    unsigned i;

    if (now < mount.busy_until)
        return false;
    for (i = 1; now - since < mount.window; i++) {
        if (remote_turn() || (i % MOUNT_LOOK == 0 && mount_read_all())) {
            mount_adapt(now - since);
            return true;
        }
        now = i % MOUNT_LOOK == 0 ? mount_yield() : mount_clock();
    }
    return false;
}

/* ---- The loop ---- */

/* Run what is due. Returns the milliseconds to sleep, or -1. */
static int mount_tick(void)
{
    int timeout = mount_earlier(remote_tick(), slot_tick());

    remote_flush_forgets();
    mount_watch_requests();
    return remote_fd() < 0 ? mount_earlier(timeout, 1) : timeout;
}

/* Sleep until something comes. Returns false after a signal. */
static bool mount_sleep(int signals, int timeout)
{
    struct epoll_event events[4];
    int i, n = epoll_wait(mount.epoll_fd, events, 4, timeout);

    for (i = 0; i < n; i++) {
        if (events[i].data.fd == signals)
            return false;
        if (events[i].data.fd == mount.fuse_fd)
            (void) mount_read_all();
    }
    (void) remote_turn();
    return true;
}

static void mount_loop(int signals)
{
    unsigned turns = 0;

    while (!fuse_session_exited(mount.session)) {
        int timeout = mount_tick();
        uint64_t since;
        bool any;

        /* A signal must not wait until there is nothing to do. */
        if (++turns % MOUNT_SIGNALS == 0 && !mount_sleep(signals, 0))
            return;
        any = mount_read_all();
        any = remote_turn() || any;
        if (any || timeout == 0)
            continue;
        since = mount_clock();
        if (mount_spin(since) || !remote_may_sleep())
            continue;
        if (!mount_sleep(signals, timeout))
            return;
        mount_adapt(mount_clock() - since);
    }
}

bool mount_serve(int signals)
{
    int fd = remote_fd();

    mount.reading = true;
    mount.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (mount.epoll_fd < 0 ||
        !mount_watch(EPOLL_CTL_ADD, mount.fuse_fd, EPOLLIN) ||
        !mount_watch(EPOLL_CTL_ADD, signals, EPOLLIN) ||
        (fd >= 0 && !mount_watch(EPOLL_CTL_ADD, fd, EPOLLIN))) {
        mount_log("epoll: %s", strerror(errno));
        return false;
    }
    mount_loop(signals);
    (void) close(mount.epoll_fd);
    return true;
}
