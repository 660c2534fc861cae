/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf: what the library costs, beside a bare program of its transport.
 *
 *   hg_perf                  all figures: two processes, then self://
 *   hg_perf --self           those of self:// only
 *   hg_perf --url sm://      another transport between the two processes
 *   hg_perf --only =pull     the figures of this name; or
 *   hg_perf --only p99       figures with this in their name: echo page
 *                            in_flight pull push write p99_pull p99_push
 *                            memory copied late self_echo self_in_flight;
 *                            grid or grid_4k_8 (only if asked for);
 *                            of sm:// also pages sizes mapped modes crowd
 *                            deaths contexts handlers; of ofi+...:// sizes
 *   hg_perf clients          one server, 1 to 16 clients: calls and bulk data
 *   mpirun -n 2 hg_perf --url mpi+static:// --pair
 *   mpirun -n 17 hg_perf clients --url mpi+static://
 *   hg_perf --help           other options
 *
 * How it measures. Two processes each: a server of ours and a raw server live
 * all the time and sleep while they have no round; the client is one process
 * for both. Ours and each of the raw program's waiting modes alternate, round
 * by round, with the same bytes, the same number in flight and the same
 * processors; the median of the rounds' ratios counts (hg_perf_stats.c), and
 * the raw program's best waiting mode is what ours is compared with. Data is
 * compared with what was sent, outside the measured time; a difference ends
 * the program. Ours waits in its default, adaptive mode unless --wait says
 * otherwise.
 *
 * Over sm:// the raw program is two processes that share a mapping and spin,
 * and process_vm_readv for bulk. Over ofi+...:// it is bare libfabric on the
 * same provider, spinning or sleeping, and fi_read for bulk.
 *
 * Figures. echo: one call of 64 bytes at a time; page: of 4 KiB; pages: of 2 to
 * 16 KiB. grid: of 64 bytes to 64 KiB with 1, 8 and 64 in flight; sleeps: how
 * often the caller's thread slept for each call. asleep: of 64 bytes after a
 * nap of 2 ms, so that the server sleeps.
 * in_flight: 64 of 64 bytes under way. sizes: pulls of 64 KiB, 1 and 16 MiB,
 * and over ofi+...:// 4 MiB;
 * mapped: of 1 MiB of the library's own memory, against a memcpy. modes: echo
 * with both sides spinning, against bare; in the default mode, against that.
 * crowd: 64 clients at once, against the same always asleep. deaths: from the
 * moment that a server kills itself to the end of the call that somebody sleeps
 * in. contexts: two threads of the callback model that call themselves, against
 * one; handlers: two that call two threads of another process, whose handlers
 * take 5 us, against one of each. pull, push: 64 MiB. write: 512 MiB pulled by
 * a handler through a pipeline of buffers, against one pull of the same size;
 * write_copy: each piece is also copied. p99_*: 64-byte calls alone, beside
 * short transfers, beside long ones (the base of each is the one before it).
 * memory_*: how far a pull of 1 GiB raises either side's peak. copied_*:
 * payload bytes copied at the source. late_*: from the deadline of a call that
 * nobody answers to its end. self_*: no peer to compare with, watched for
 * regressions.
 *
 * Each line "hg_perf figure=..." is for programs, the table for people. A
 * missed aim does not change the exit code, changed data does.
 */
#if defined(__linux__)
#define _GNU_SOURCE /* sched_setaffinity */
#else
#define _POSIX_C_SOURCE 200809L
#endif

#include "hg_perf.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/prctl.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#if HG_NA_ZMQ
#include "raw_zmq.h"
#endif
#if PERF_RAW_SM
#include "raw_sm.h"
#endif
#if HG_NA_OFI
#include "raw_ofi.h"
#endif

#define PERF_CLIENTS 16

static volatile sig_atomic_t perf_stopped;

static void perf_on_signal(int number)
{
    (void) number;
    perf_stopped = 1;
}

int perf_fail(const char *what, hg_return_t ret)
{
    fprintf(stderr, "hg_perf: %s: %s\n", what, HG_Error_to_string(ret));
    return -1;
}

int perf_start(const char *url, na_bool_t listen,
    const struct perf_options *options, na_class_t **na_class_p)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;
    hg_return_t ret;

    info.wait_mode = (uint8_t) options->wait_mode;
    na_class = NA_Initialize_opt(url, listen, &info);
    if (na_class == NULL)
        return perf_fail(url, HG_NA_ERROR);
    ret = HG_Init(na_class);
    if (ret != HG_SUCCESS) {
        (void) NA_Finalize(na_class);
        return perf_fail("HG_Init", ret);
    }
    *na_class_p = na_class;
    return 0;
}

void perf_finish(na_class_t *na_class)
{
    hg_return_t ret = HG_Finalize();

    if (ret == HG_SUCCESS)
        ret = NA_Finalize(na_class);
    if (ret != HG_SUCCESS)
        (void) perf_fail("finalizing", ret);
}

/* ---- Processes ---- */

/* All threads of this process on one processor. */
static void perf_pin(const struct perf_options *options, size_t processor)
{
    if (!options->pin)
        return;
#if defined(__linux__)
    {
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(processor, &set);
        if (sched_setaffinity(0, sizeof(set), &set) == 0)
            return;
    }
#endif
    fprintf(stderr, "hg_perf: cannot pin to processor %zu\n", processor);
}

/* Blocks as large as a frame stay in the heap instead of being mapped and
 * unmapped each time: the application's choice, never the library's. */
static void perf_keep_heap(const struct perf_options *options)
{
    if (!options->keep_heap)
        return;
#if defined(__GLIBC__)
    (void) mallopt(M_MMAP_THRESHOLD, 32 << 20);
    (void) mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

#if HG_NA_ZMQ
static void perf_raw_ready(const char *endpoint, void *arg)
{
    dprintf(*(const int *) arg, "%s\n", endpoint);
}
#endif

/* The child's life. */
static int perf_be_server(const char *url, enum perf_kind kind, int fd,
    const struct perf_options *options)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = perf_on_signal; /* no SA_RESTART: waits end */
    (void) sigaction(SIGTERM, &action, NULL);
    (void) sigaction(SIGINT, &action, NULL);
#if defined(__linux__)
    (void) prctl(PR_SET_PDEATHSIG, SIGTERM); /* no server outlives us */
#endif
    perf_pin(options, 1);
    perf_keep_heap(options);
#if HG_NA_ZMQ
    if (kind == PERF_RAW)
        return raw_zmq_serve(url, perf_raw_ready, &fd, &perf_stopped);
#endif
#if PERF_RAW_SM
    if (kind == PERF_POOL)
        return perf_contexts_serve(url, fd, &perf_stopped);
#endif
    (void) kind;
    return perf_serve(url, fd, options, &perf_stopped);
}

/* Asks until it is gone: a signal that comes just before a server blocks is
 * seen only at the next. */
void perf_stop_server(const struct perf_process *process)
{
    const struct timespec pause = {0, 10 * 1000 * 1000};

    if (process->pid <= 0)
        return;
    do {
        (void) kill(process->pid, SIGTERM);
        (void) nanosleep(&pause, NULL);
    } while (waitpid(process->pid, NULL, WNOHANG) == 0);
}

/* Waits for its address. */
int perf_start_server(const char *url, enum perf_kind kind,
    const struct perf_options *options, struct perf_process *process_p)
{
    struct perf_process process;
    int fds[2];
    FILE *file;

    memset(&process, 0, sizeof(process));
    if (pipe(fds) != 0)
        return perf_fail("pipe", HG_IO_ERROR);
    process.pid = fork();
    if (process.pid == 0) {
        (void) close(fds[0]);
        _exit(perf_be_server(url, kind, fds[1], options) == 0 ? 0 : 1);
    }
    (void) close(fds[1]);
    file = fdopen(fds[0], "r");
    if (process.pid < 0 || file == NULL ||
        fgets(process.address, sizeof(process.address), file) == NULL) {
        perf_stop_server(&process);
        return perf_fail("no server", HG_IO_ERROR);
    }
    (void) fclose(file);
    process.address[strcspn(process.address, "\n")] = '\0';
    *process_p = process;
    return 0;
}

/* ---- Both runs ---- */

static int perf_run_self(const struct perf_options *options)
{
    struct perf_client client;
    na_return_t ret;
    int rc;

    memset(&client, 0, sizeof(client));
    client.options = options;
    if (perf_start("self://", NA_TRUE, options, &client.na_class) != 0)
        return -1;
    perf_register(1, &client.ids);
    ret = NA_Addr_self(client.na_class, &client.addr);
    rc = ret != NA_SUCCESS ? perf_fail("NA_Addr_self", ret)
                           : perf_figures_self(&client);
    if (ret == NA_SUCCESS)
        (void) NA_Addr_free(client.na_class, client.addr);
    perf_finish(client.na_class);
    return rc;
}

/* The raw program runs over the same protocol, if it knows it. Its server is in
 * *process_p, or belongs to what is set in the client. */
static int perf_open_raw(
    const char *url, struct perf_client *client, struct perf_process *process_p)
{
    const struct perf_options *options = client->options;
    const char *tcp = "zmq+tcp://";

    if (options->alone)
        return 0;
#if PERF_RAW_SM
    if (strncmp(url, "sm:", 3) == 0)
        return raw_sm_open(&client->raw_sm);
#endif
#if HG_NA_OFI
    if (strncmp(url, "ofi+", 4) == 0)
        return perf_ofi_open(url, &client->raw_ofi);
#endif
    if (!HG_NA_ZMQ || strncmp(url, tcp, strlen(tcp)) != 0) {
        printf("# no raw program for %s: no ratios to it\n", url);
        return 0;
    }
    return perf_start_server("tcp://127.0.0.1:*", PERF_RAW, options, process_p);
}

int perf_meet(struct perf_client *client, const char *url,
    const struct perf_process *ours)
{
    na_return_t ret;

    if (perf_start(url, NA_FALSE, client->options, &client->na_class) != 0)
        return -1;
    perf_register(0, &client->ids);
    ret = NA_Addr_lookup_wait(
        client->na_class, ours->address, 10000, &client->addr);
    if (ret != NA_SUCCESS) {
        perf_finish(client->na_class);
        return perf_fail(ours->address, ret);
    }
    client->server_pid = (long) ours->pid;
    return 0;
}

void perf_part(struct perf_client *client)
{
    (void) NA_Addr_free(client->na_class, client->addr);
    perf_finish(client->na_class);
}

static int perf_connect(struct perf_client *client, const char *url,
    const struct perf_process *ours, const struct perf_process *raw)
{
    if (perf_meet(client, url, ours) != 0)
        return -1;
#if HG_NA_ZMQ
    if (raw->pid > 0 && raw_zmq_open(raw->address, &client->raw) != 0) {
        perf_part(client);
        return -1;
    }
#else
    (void) raw;
#endif
    return 0;
}

static int perf_run_pair(const char *url, const struct perf_options *options)
{
    struct perf_process ours;
    struct perf_process raw;
    struct perf_client client;
    int rc;

    memset(&raw, 0, sizeof(raw));
    memset(&client, 0, sizeof(client));
    client.options = options;
    if (perf_start_server(url, PERF_OURS, options, &ours) != 0)
        return -1;
    perf_pin(options, 1); /* for the process that is forked now */
    rc = perf_open_raw(url, &client, &raw);
    if (rc != 0)
        goto stop_ours;
    perf_pin(options, 0);
    perf_keep_heap(options);
    rc = perf_connect(&client, url, &ours, &raw);
    if (rc != 0)
        goto stop_raw;
    rc = perf_figures_pair(&client);
#if HG_NA_ZMQ
    raw_zmq_close(client.raw);
#endif
    perf_part(&client);

stop_raw:
    perf_stop_server(&raw);
#if PERF_RAW_SM
    raw_sm_close(client.raw_sm);
#endif
#if HG_NA_OFI
    raw_ofi_close(client.raw_ofi);
#endif
stop_ours:
    perf_stop_server(&ours);
    return rc;
}

/* The figures of sm:// whose processes are their own. */
static int perf_run_node(const char *url, const struct perf_options *options)
{
    int rc = 0;

#if PERF_RAW_SM
    if (strncmp(url, "sm:", 3) != 0 || options->alone)
        return 0;
    if (perf_is_asked(options, "modes"))
        rc = perf_node_modes(url, options);
    if (rc == 0 && perf_is_asked(options, "crowd"))
        rc = perf_node_crowd(url, options);
    if (rc == 0 && perf_is_asked(options, "deaths"))
        rc = perf_node_deaths(url, options);
    if (rc == 0 && perf_is_asked(options, "contexts"))
        rc = perf_contexts(url, options);
    if (rc == 0 && perf_is_asked(options, "handlers"))
        rc = perf_contexts_handlers(url, options);
#else
    (void) url;
    (void) options;
#endif
    return rc;
}

/* ---- Options ---- */

static int perf_usage(void)
{
    fprintf(stderr,
        "usage: hg_perf [clients] [--self] [--pair] [--url URL]\n"
        "               [--only WORD]\n"
        "               [--rounds N] [--seconds S] [--quick]\n"
        "               [--wait adaptive|spin|block] [--window CALLS]\n"
        "               [--size MIB] [--write-size MIB] [--large-size MIB]\n"
        "               [--piece KIB] [--buffers N] [--pin] [--keep-heap]\n"
        "               [--alone]\n"
        "clients: only those of 1 to 16 clients of one server.\n"
        "--self, --pair: only the figures of self://, of two processes.\n"
        "--quick: one tiny round of each, to see that everything works.\n"
        "--alone: without the raw program.\n"
        "--pin: the client on processor 0, the servers on 1.\n");
    return -1;
}

/* A whole number from 1 to max, or 0. */
static size_t perf_number(const char *text, size_t max)
{
    char *end;
    unsigned long long number;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' ||
        number > max)
        return 0;
    return (size_t) number;
}

static int perf_wait_mode(const char *name, unsigned *mode_p)
{
    if (strcmp(name, "adaptive") == 0)
        *mode_p = NA_WAIT_ADAPTIVE;
    else if (strcmp(name, "spin") == 0)
        *mode_p = NA_WAIT_SPIN;
    else if (strcmp(name, "block") == 0)
        *mode_p = NA_WAIT_BLOCK;
    else
        return -1;
    return 0;
}

struct perf_args {
    struct perf_options options;
    const char *url;
    int self;
    int pair;
    int clients;
};

static void perf_be_quick(struct perf_options *options)
{
    options->rounds = 1;
    options->seconds = 0.01;
    options->bulk_size = (size_t) 3 << 20;
    options->write_size = (size_t) 9 << 20;
    options->large_size = (size_t) 12 << 20;
    options->piece = (size_t) 1 << 20;
}

/* 1: an option without a value was taken. */
static int perf_flag(struct perf_args *args, const char *name)
{
    if (strcmp(name, "--self") == 0)
        args->self = 1;
    else if (strcmp(name, "--pair") == 0)
        args->pair = 1;
    else if (strcmp(name, "clients") == 0)
        args->clients = 1;
    else if (strcmp(name, "--pin") == 0)
        args->options.pin = 1;
    else if (strcmp(name, "--keep-heap") == 0)
        args->options.keep_heap = 1;
    else if (strcmp(name, "--alone") == 0)
        args->options.alone = 1;
    else if (strcmp(name, "--quick") == 0)
        perf_be_quick(&args->options);
    else
        return 0;
    return 1;
}

/* 0: an option and its value were taken. */
static int perf_option(
    struct perf_args *args, const char *name, const char *value)
{
    struct perf_options *options = &args->options;
    size_t number = 1;
    char *end;

    if (strcmp(name, "--url") == 0)
        args->url = value;
    else if (strcmp(name, "--only") == 0)
        options->only = value;
    else if (strcmp(name, "--wait") == 0)
        return perf_wait_mode(value, &options->wait_mode);
    else if (strcmp(name, "--rounds") == 0)
        options->rounds =
            (unsigned) (number = perf_number(value, PERF_ROUNDS_MAX));
    else if (strcmp(name, "--window") == 0)
        options->window = (unsigned) (number = perf_number(value, 1024));
    else if (strcmp(name, "--buffers") == 0)
        options->buffers = (unsigned) (number = perf_number(value, 64));
    else if (strcmp(name, "--piece") == 0)
        options->piece = (number = perf_number(value, 1 << 20)) << 10;
    else if (strcmp(name, "--size") == 0)
        options->bulk_size = (number = perf_number(value, 1 << 16)) << 20;
    else if (strcmp(name, "--write-size") == 0)
        options->write_size = (number = perf_number(value, 1 << 16)) << 20;
    else if (strcmp(name, "--large-size") == 0)
        options->large_size = (number = perf_number(value, 1 << 16)) << 20;
    else if (strcmp(name, "--seconds") == 0) {
        options->seconds = strtod(value, &end);
        number = end != value && *end == '\0' && options->seconds > 0.001 &&
            options->seconds < 3600;
    } else
        return -1;
    return number == 0 ? -1 : 0;
}

static int perf_run(const struct perf_args *args)
{
    const struct perf_options *options = &args->options;
    int rc = 0;

    if (args->url == NULL && (args->clients || args->pair || !args->self))
        printf("# built without a transport between processes\n");
    if (args->clients)
        return args->url != NULL
            ? perf_clients(args->url, options, PERF_CLIENTS)
            : 0;
    /* The pair first: its servers are forked before any thread exists. */
    if (args->url != NULL && (args->pair || !args->self)) {
        rc = perf_run_pair(args->url, options);
        if (rc == 0)
            rc = perf_run_node(args->url, options);
    }
    if (rc == 0 && (args->self || !args->pair))
        rc = perf_run_self(options);
    return rc;
}

int main(int argc, char **argv)
{
    struct perf_args args = {
        {9, 0.3, (size_t) 64 << 20, (size_t) 512 << 20, (size_t) 1 << 30,
            (size_t) 4 << 20, 4, 64, NA_WAIT_ADAPTIVE, 0, 0, 0, NULL},
        HG_NA_ZMQ         ? "zmq+tcp://127.0.0.1"
            : PERF_RAW_SM ? "sm://"
                          : NULL,
        0, 0, 0};
    int rc = 0;
    int i;

    for (i = 1; i < argc; i++) {
        if (perf_flag(&args, argv[i]))
            continue;
        if (i + 1 >= argc || perf_option(&args, argv[i], argv[i + 1]) != 0) {
            (void) perf_usage();
            return EXIT_FAILURE;
        }
        i++;
    }
#if HG_NA_MPI
    if (args.url != NULL && strncmp(args.url, "mpi+", 4) == 0)
        return perf_mpi_main(args.url, &args.options,
                   args.clients ? PERF_CLIENTS : 0) == 0
            ? EXIT_SUCCESS
            : EXIT_FAILURE;
#endif
    rc = perf_run(&args);
    if (rc == 0)
        perf_print_table();
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
