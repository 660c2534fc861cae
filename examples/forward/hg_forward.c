/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_forward: mounts a folder that hg_forwardd serves on another node.
 *
 *     hg_forward ADDRESS MOUNTPOINT [-f] [-o OPTIONS] [--timeout S]
 *
 * One thread serves the kernel and the server in one loop of epoll, and never
 * waits for either. See client_mount.h for the loop, client_slot.h for the
 * requests in flight, client_remote.h for the session with the server.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../usage.h"
#include "client_mount.h"
#include "client_slot.h"

#define FORWARD_TIMEOUT_MAX 86400u /* seconds */
#define FORWARD_CONNECT_MS 10000u

static const char forward_help[] =
    "usage: hg_forward ADDRESS MOUNTPOINT [-f] [-o OPTIONS] [--timeout S]\n"
    "\n"
    "Mounts the folder that hg_forwardd serves at ADDRESS. To unmount, use\n"
    "fusermount3 -u MOUNTPOINT, or end the program.\n"
    "\n"
    "  -f                   stay in the foreground\n"
    "  --timeout S          fail after S seconds without a response (30);\n"
    "                       -o timeout=S is the same\n"
    "  -h, --help           print this text\n"
    "  --version            print the version\n"
    "  -o OPTIONS           with commas between them:\n"
    "     attr_timeout=S      keep attributes for S seconds (1)\n"
    "     entry_timeout=S     keep names for S seconds (1)\n"
    "     negative_timeout=S  keep missing names for S seconds (0)\n"
    "     direct_io           do not cache file contents\n"
    "     auto_cache          keep data over open(2) if the file is the same\n"
    "     kernel_cache        keep data over open(2) always\n"
    "     writeback           write later: less strict between clients\n"
    "     uid=N, gid=N        all files belong to this user and group\n"
    "     ro, allow_other, nosuid, fsname=NAME and others of mount.fuse3(8)\n"
    "\n"
    "Example:\n"
    "  hg_forward zmq+tcp://192.0.2.1:7701 /mnt -o auto_cache\n";

struct forward {
    char *address;
    char *mountpoint;
    int foreground;
    int report; /* a pipe to the parent process, or -1 */
};

/* ---- Options ---- */

#define FORWARD_OPTION(text, member) \
    { \
        text, offsetof(struct mount_options, member), 1 \
    }

/* FUSE_OPT_KEY, without the conversion that clang warns about. */
#define FORWARD_KEY(text, key) \
    { \
        text, (unsigned long) -1U, key \
    }

static const struct fuse_opt forward_options[] = {
    FORWARD_OPTION("timeout=%s", timeout_text),
    FORWARD_OPTION("attr_timeout=%lf", attr_timeout),
    FORWARD_OPTION("entry_timeout=%lf", entry_timeout),
    FORWARD_OPTION("negative_timeout=%lf", negative_timeout),
    FORWARD_OPTION("direct_io", direct_io),
    FORWARD_OPTION("kernel_cache", kernel_cache),
    FORWARD_OPTION("auto_cache", auto_cache),
    FORWARD_OPTION("writeback", writeback), FORWARD_OPTION("uid=%d", uid),
    FORWARD_OPTION("gid=%d", gid),
    /* libfuse and the kernel read it, too. */
    FORWARD_OPTION("max_read=%u", max_read),
    FORWARD_KEY("max_read=", FUSE_OPT_KEY_KEEP),
    /* For mount(8) and fstab(5). */
    FORWARD_KEY("_netdev", FUSE_OPT_KEY_DISCARD),
    FORWARD_KEY("defaults", FUSE_OPT_KEY_DISCARD), FUSE_OPT_END};

/* Add -oNAMETEXT. Returns 0, or 1 on out-of-memory. */
static int forward_add_option(
    struct fuse_args *args, const char *name, const char *text)
{
    char *option;
    int status;

    if (asprintf(&option, "-o%s%s", name, text) < 0)
        return 1;
    status = fuse_opt_add_arg(args, option) != 0;
    free(option);
    return status;
}

/* Take an option that getopt_long returned. Returns 0, USAGE_ERROR, or 1 on
 * out-of-memory. */
static int forward_take_option(
    struct forward *forward, int option, char *argv[], struct fuse_args *args)
{
    switch (option) {
    case 'f': forward->foreground = 1; return 0;
    case 'o': return forward_add_option(args, "", optarg);
    case 't': return forward_add_option(args, "timeout=", optarg);
    default: return usage_wrong_option("hg_forward", argv, option);
    }
}

/* Read the arguments. Returns as forward_take_option does. */
static int forward_parse(
    struct forward *forward, int argc, char *argv[], struct fuse_args *args)
{
    static const struct option options[] = {
        {"timeout", required_argument, NULL, 't'}, {NULL, 0, NULL, 0}};
    int option, status = 0;

    opterr = 0;
    while (status == 0 &&
        (option = getopt_long(argc, argv, ":fo:", options, NULL)) != -1)
        status = forward_take_option(forward, option, argv, args);
    if (status != 0)
        return status;
    if (argc - optind < 2)
        return usage_error("hg_forward", "expects ADDRESS and MOUNTPOINT");
    if (argc - optind > 2)
        return usage_error(
            "hg_forward", "unexpected argument %s", argv[optind + 2]);
    forward->address = argv[optind];
    forward->mountpoint = argv[optind + 1];
    return 0;
}

static bool forward_is_time(double seconds)
{
    return seconds >= 0 && seconds <= 1000000;
}

/* Add the options that every mount has, and read those of this program. Returns
 * 0 or USAGE_ERROR. */
static int forward_complete(
    const struct forward *forward, struct fuse_args *args)
{
    char text[NA_MAX_ADDR_LEN + 64];
    size_t i, n;

    n = (size_t) snprintf(
        text, sizeof(text), "-odefault_permissions,subtype=hg_forward,fsname=");
    for (i = 0; forward->address[i] != '\0' && n + 2 < sizeof(text); i++) {
        if (forward->address[i] == ',' || forward->address[i] == '\\')
            text[n++] = '\\';
        text[n++] = forward->address[i];
    }
    text[n] = '\0';
    /* In front of the options of the user, which win. */
    if (fuse_opt_insert_arg(args, 1, text) != 0 ||
        fuse_opt_parse(args, &mount_options, forward_options, NULL) != 0)
        return USAGE_ERROR;
    if (!forward_is_time(mount_options.attr_timeout) ||
        !forward_is_time(mount_options.entry_timeout) ||
        !forward_is_time(mount_options.negative_timeout))
        return usage_error("hg_forward", "a timeout is 0 to 1000000 seconds");
    if (mount_options.timeout_text != NULL)
        mount_options.timeout = (unsigned) usage_number(
            mount_options.timeout_text, FORWARD_TIMEOUT_MAX);
    if (mount_options.timeout == 0)
        return usage_error("hg_forward", "--timeout expects seconds, 1 to %u",
            FORWARD_TIMEOUT_MAX);
    return 0;
}

/* ---- The life of a mount ---- */

/* Tell the parent process that the mount works, and leave its terminal. */
static void forward_detach(struct forward *forward)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (forward->report < 0)
        return;
    mount_log_to_system();
    (void) chdir("/");
    if (null >= 0) {
        (void) dup2(null, STDIN_FILENO);
        (void) dup2(null, STDOUT_FILENO);
        (void) dup2(null, STDERR_FILENO);
        (void) close(null);
    }
    (void) write(forward->report, "", 1);
    (void) close(forward->report);
}

static int forward_mounted(struct forward *forward, int signals)
{
    bool served;

    forward_detach(forward);
    served = mount_serve(signals);
    mount_end();
    return served ? 0 : 1;
}

/* Connect first: without a server there is nothing to mount. */
static int forward_connect(struct forward *forward, int signals)
{
    const char *cause = remote_connect(FORWARD_CONNECT_MS);

    if (cause != NULL) {
        (void) fprintf(stderr, "hg_forward: %s: %s\n", forward->address, cause);
        return 1;
    }
    if (!slot_init(mount_options.timeout * 1000) ||
        !mount_begin(forward->mountpoint))
        return 1;
    return forward_mounted(forward, signals);
}

static int forward_run(struct forward *forward, struct fuse_args *args)
{
    sigset_t set;
    int signals, status = USAGE_ERROR;

    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGINT);
    (void) sigaddset(&set, SIGTERM);
    (void) sigaddset(&set, SIGHUP);
    (void) sigprocmask(SIG_BLOCK, &set, NULL);
    (void) signal(SIGPIPE, SIG_IGN);
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!remote_open(forward->address))
        return 1;
    if (mount_prepare(args)) {
        status = forward_connect(forward, signals);
        mount_free();
    }
    remote_close();
    (void) close(signals);
    return status;
}

/* Run in a child process. The parent ends when the mount works. */
static int forward_daemon(struct forward *forward, struct fuse_args *args)
{
    int ends[2];
    char byte;
    pid_t child;
    int status;

    if (pipe2(ends, O_CLOEXEC) != 0 || (child = fork()) < 0) {
        (void) fprintf(stderr, "hg_forward: %s\n", strerror(errno));
        return 1;
    }
    if (child == 0) {
        (void) close(ends[0]);
        (void) setsid();
        forward->report = ends[1];
        return forward_run(forward, args);
    }
    (void) close(ends[1]);
    if (read(ends[0], &byte, 1) == 1)
        return 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status)
        ? WEXITSTATUS(status)
        : 1;
}

/* Returns the absolute path of the mount point, allocated, or NULL after a line
 * on stderr. */
static char *forward_find(const char *mountpoint)
{
    char *path = realpath(mountpoint, NULL);
    struct stat st;
    int error = 0;

    if (path == NULL || stat(path, &st) != 0)
        error = errno;
    else if (!S_ISDIR(st.st_mode))
        error = ENOTDIR;
    if (error == 0)
        return path;
    (void) fprintf(stderr, "hg_forward: %s: %s%s\n", mountpoint,
        strerror(error),
        error == ENOTCONN || error == EIO
            ? "; if it is a mount whose server or client is gone, unmount it"
            : "");
    free(path);
    return NULL;
}

int main(int argc, char *argv[])
{
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    struct forward forward = {NULL, NULL, 0, -1};
    unsigned seed;
    char *path;
    int status;

    if (usage_is_printed(argc, argv, "hg_forward", forward_help))
        return 0;
    if (fuse_opt_add_arg(&args, argv[0]) != 0)
        return 1;
    status = forward_parse(&forward, argc, argv, &args);
    if (status == 0)
        status = forward_complete(&forward, &args);
    if (status != 0)
        return status;
    if (access("/dev/fuse", F_OK) != 0) {
        (void) fprintf(stderr,
            "hg_forward: /dev/fuse does not exist: load the module fuse\n");
        return 1;
    }
    path = forward_find(forward.mountpoint);
    if (path == NULL)
        return 1;
    forward.mountpoint = path;
    if (getrandom(&seed, sizeof(seed), 0) == (ssize_t) sizeof(seed))
        srandom(seed); /* marks differ from those of other clients */
    status = forward.foreground ? forward_run(&forward, &args)
                                : forward_daemon(&forward, &args);
    free(path);
    free(mount_options.timeout_text);
    fuse_opt_free_args(&args);
    return status;
}
