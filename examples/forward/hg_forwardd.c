/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_forwardd: serves a folder to hg_forward, until Ctrl-C or SIGTERM.
 *
 *     hg_forwardd ADDRESS... --export DIR [--read-only] [--threads N]
 *
 * See server.h for its modules, and forward.h for its calls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../usage.h"
#include "server.h"
#include "server_calls.h"
#include "server_path.h"
#include "server_sessions.h"
#include "server_workers.h"

#define FORWARDD_THREADS 64u
#define FORWARDD_DRAIN_MS 15000u
#define FORWARDD_LOOK_MS 5u     /* between two looks whether calls are left */
#define FORWARDD_REFUSE_MS 100u /* for calls that were sent before the end */

/* Calls that wait for a thread or its end, and bytes of arguments: of one call,
 * and of all. Bulk data does not count. */
#define FORWARDD_CALLS 1024u
#define FORWARDD_ARGS ((size_t) 1 << 20)
#define FORWARDD_ARGS_ALL ((size_t) 64 << 20)

/* More than the kernel allows a process by default. */
#define FORWARDD_DESCRIPTORS_MAX 1048576u

static const char forwardd_help[] =
    "usage: hg_forwardd ADDRESS... --export DIR [OPTIONS]\n"
    "\n"
    "Listens on each ADDRESS, and serves the folder DIR to hg_forward until\n"
    "Ctrl-C or SIGTERM. Whoever can connect has the rights of this user in\n"
    "DIR; see hg_forwardd(1) and hg-security(7).\n"
    "\n"
    "  --export DIR     the folder\n"
    "  --read-only      refuse all changes\n"
    "  --threads N      the most calls that block at a time, 2 to 1024;\n"
    "                   default 64\n"
    "  -h, --help       print this\n"
    "  --version        print the version\n"
    "\n"
    "Examples:\n"
    "  hg_forwardd sm://files --export /srv/files\n"
    "  hg_forwardd zmq+tcp://10.0.0.1:7000 --export /srv/files --read-only\n";

struct server server = {NULL, -1, false, false, 0, 0};

/* ---- Options ---- */

struct forwardd_options {
    char addresses[NA_MAX_ADDR_LEN]; /* joined with ; */
    const char *folder;
    unsigned threads;
};

/* Add an address to the list. 0 or USAGE_ERROR. */
static int forwardd_add_address(
    struct forwardd_options *options, const char *address)
{
    size_t length = strlen(options->addresses);
    size_t left = sizeof(options->addresses) - length;

    if (strstr(address, "://") == NULL)
        return usage_error("hg_forwardd",
            "'%s' is not an address; an address looks like sm://name", address);
    if (snprintf(options->addresses + length, left, "%s%s",
            length > 0 ? ";" : "", address) >= (int) left)
        return usage_error("hg_forwardd", "the addresses are too long");
    return 0;
}

/* Take an option that getopt_long returned. 0 or USAGE_ERROR. */
static int forwardd_take_option(
    struct forwardd_options *options, int option, char *argv[])
{
    switch (option) {
    case 'r': server.read_only = true; return 0;
    case 'e':
        if (options->folder != NULL)
            return usage_error("hg_forwardd", "serves only one --export");
        options->folder = optarg;
        return 0;
    case 't':
        options->threads = (unsigned) usage_number(optarg, WORKERS_MAX);
        if (options->threads >= 2)
            return 0;
        return usage_error(
            "hg_forwardd", "--threads expects 2 to %u", (unsigned) WORKERS_MAX);
    default: return usage_wrong_option("hg_forwardd", argv, option);
    }
}

/* 0 or USAGE_ERROR. */
static int forwardd_parse(
    struct forwardd_options *options, int argc, char *argv[])
{
    static const struct option known[] = {
        {"export", required_argument, NULL, 'e'},
        {"read-only", no_argument, NULL, 'r'},
        {"threads", required_argument, NULL, 't'}, {NULL, 0, NULL, 0}};
    int option, status = 0;

    opterr = 0;
    while (status == 0 &&
        (option = getopt_long(argc, argv, ":", known, NULL)) != -1)
        status = forwardd_take_option(options, option, argv);
    for (; status == 0 && optind < argc; optind++)
        status = forwardd_add_address(options, argv[optind]);
    if (status != 0)
        return status;
    if (options->addresses[0] == '\0' || options->folder == NULL)
        return usage_error("hg_forwardd", "expects ADDRESS and --export DIR");
    return 0;
}

/* ---- Start ---- */

static int forwardd_report(const char *what, int error)
{
    (void) fprintf(stderr, "hg_forwardd: %s: %s\n", what, strerror(error));
    return 1;
}

/* Each node and file of a client needs a descriptor. Some are left for the
 * connections. */
static void forwardd_raise_limit(void)
{
    struct rlimit limit = {1024, 1024};

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max < FORWARDD_DESCRIPTORS_MAX
            ? limit.rlim_max
            : FORWARDD_DESCRIPTORS_MAX;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            (void) getrlimit(RLIMIT_NOFILE, &limit);
    }
    server.descriptors = limit.rlim_cur - limit.rlim_cur / 8;
}

/* Open the folder, and check that the kernel can do what the server needs. 0 or
 * 1 after a line on stderr. */
static int forwardd_open_folder(const char *folder)
{
    int fd, error;

    server.root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (server.root < 0)
        return forwardd_report(folder, errno);
    error = path_check_root(server.root);
    if (error != 0)
        return forwardd_report(folder, -error);
    fd = path_reopen(server.root, O_PATH);
    if (fd < 0)
        return forwardd_report("/proc/self/fd", -fd);
    (void) close(fd);
    return 0;
}

static int forwardd_prepare(const char *folder)
{
    struct timespec now = {0, 0};

    (void) clock_gettime(CLOCK_REALTIME, &now);
    server.started =
        (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
    server.is_root = geteuid() == 0;
    (void) umask(0);                 /* the client's kernel applies umasks */
    (void) signal(SIGXFSZ, SIG_IGN); /* a write gets EFBIG */
    (void) signal(SIGPIPE, SIG_IGN);
    forwardd_raise_limit();
    return forwardd_open_folder(folder);
}

/* Scripts read the address from this line. */
static int forwardd_print(const char *folder)
{
    char text[NA_MAX_ADDR_LEN];
    na_addr_t self;
    na_return_t ret = NA_Addr_self(server.na_class, &self);

    if (ret == NA_SUCCESS) {
        ret = NA_Addr_to_string(server.na_class, text, sizeof(text), self);
        (void) NA_Addr_free(server.na_class, self);
    }
    if (ret != NA_SUCCESS)
        return 1;
    if (printf("hg_forwardd: serving %s at %s\n", folder, text) < 0 ||
        fflush(stdout) != 0)
        return forwardd_report("standard output", errno);
    return 0;
}

/* ---- Service ---- */

/* Finish what has begun. Only workers execute calls: with a timeout, HG_Drain
 * would execute those that are left in this thread. */
static void forwardd_drain(void)
{
    const struct timespec pause = {0, FORWARDD_LOOK_MS * 1000000};
    unsigned looks = FORWARDD_DRAIN_MS / FORWARDD_LOOK_MS;
    hg_return_t ret;

    while ((ret = HG_Drain(NULL, 0)) == HG_TIMEOUT && looks-- > 0)
        (void) nanosleep(&pause, NULL);
    if (ret == HG_SUCCESS)
        (void) HG_Drain(NULL, FORWARDD_REFUSE_MS);
}

/* Serve until a signal comes; then finish what has begun. 0 or 1. */
static int forwardd_serve(
    const struct forwardd_options *options, const sigset_t *signals)
{
    const struct timespec pause = {SESSIONS_WATCH_S, 0};

    if (calls_register() != HG_SUCCESS || !workers_start(options->threads))
        return forwardd_report("start", ENOMEM);
    if (forwardd_print(options->folder) != 0) {
        workers_stop();
        return 1;
    }
    while (sigtimedwait(signals, NULL, &pause) < 0)
        sessions_sweep();
    sessions_stop();
    forwardd_drain();
    workers_stop();
    sessions_free();
    return 0;
}

/* Open the class and start the layer, with limits for clients that are not
 * trusted. 0 or 1: the library has logged the cause. */
static int forwardd_open(const char *addresses)
{
    struct hg_options limits = HG_OPTIONS_INITIALIZER;

    limits.max_unanswered = FORWARDD_CALLS;
    limits.max_args_size = FORWARDD_ARGS;
    limits.max_fetched_bytes = FORWARDD_ARGS_ALL;
    limits.max_held_bytes = FORWARDD_ARGS_ALL;
    server.na_class = NA_Initialize(addresses, NA_TRUE);
    if (server.na_class == NULL)
        return 1;
    if (HG_Set_options(&limits) == HG_SUCCESS &&
        HG_Init(server.na_class) == HG_SUCCESS)
        return 0;
    (void) NA_Finalize(server.na_class);
    return 1;
}

int main(int argc, char *argv[])
{
    struct forwardd_options options = {"", NULL, FORWARDD_THREADS};
    sigset_t signals;
    int status;

    if (usage_is_printed(argc, argv, "hg_forwardd", forwardd_help))
        return 0;
    status = forwardd_parse(&options, argc, argv);
    if (status == 0)
        status = forwardd_prepare(options.folder);
    if (status != 0)
        return status;
    (void) sigemptyset(&signals);
    (void) sigaddset(&signals, SIGINT);
    (void) sigaddset(&signals, SIGTERM);
    (void) pthread_sigmask(SIG_BLOCK, &signals, NULL); /* in all threads */
    if (forwardd_open(options.addresses) != 0)
        return 1;
    status = forwardd_serve(&options, &signals);
    (void) HG_Finalize();
    (void) NA_Finalize(server.na_class);
    (void) close(server.root);
    return status;
}
