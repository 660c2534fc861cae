/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf: measures calls and bulk transfers, and compares them with a bare
 * program of the same transport. gen/man/hg_perf.1.md describes its options
 * and figures.
 *
 * Processes. Our server and the bare server run all the time and sleep while
 * the other one is measured. The client is one process for both.
 *
 * Rounds. Ours and each waiting mode of the bare program alternate, round by
 * round, with the same bytes, the same number of calls in flight and the same
 * processors. The result is the median of the rounds' ratios, against the
 * waiting mode that is best for the bare program (hg_perf_stats.c).
 *
 * Data is compared with what was sent, outside the measured time. A difference
 * ends the program with an error; a missed target does not.
 *
 * The bare programs: over zmq+tcp:// libzmq alone; over sm:// two processes
 * that spin on shared memory, and process_vm_readv for bulk data; over
 * ofi+...:// libfabric alone, spinning or sleeping, and fi_read for bulk data;
 * over mpi+static:// MPI alone.
 */
#if defined(__linux__)
#define _GNU_SOURCE /* sched_setaffinity */
#else
#define _POSIX_C_SOURCE 200809L
#endif

#include "hg_perf.h"

#include "../../examples/usage.h"

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
    fprintf(stderr, "hg_perf: %s: %s%s\n", what, HG_Error_to_string(ret),
        ret == HG_NOENTRY ? ": no hg_perf server of this version runs there"
                          : "");
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

/* Bind this process to one processor. */
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

/* Keep blocks as large as a frame in the heap, instead of mapping and unmapping
 * them each time. Only an application may decide this, not the library. */
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

static void perf_catch_signals(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = perf_on_signal; /* no SA_RESTART: waits end */
    (void) sigaction(SIGTERM, &action, NULL);
    (void) sigaction(SIGINT, &action, NULL);
}

/* The server process. */
static int perf_be_server(const char *url, enum perf_kind kind, int fd,
    const struct perf_options *options)
{
    perf_catch_signals();
#if defined(__linux__)
    (void) prctl(PR_SET_PDEATHSIG, SIGTERM); /* it ends with the client */
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

/* Signal the server until it has exited: it does not see a signal that arrives
 * just before it blocks. */
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
        return perf_fail("the server process failed", HG_IO_ERROR);
    }
    (void) fclose(file);
    process.address[strcspn(process.address, "\n")] = '\0';
    *process_p = process;
    return 0;
}

/* ---- Runs ---- */

static int perf_run_self(const struct perf_options *options)
{
    struct perf_client client;
    na_return_t ret;
    int rc;

    memset(&client, 0, sizeof(client));
    client.options = options;
    if (perf_start("self://", NA_TRUE, options, &client.na_class) != 0)
        return -1;
    perf_register(PERF_SERVES_ALL, &client.ids);
    ret = NA_Addr_self(client.na_class, &client.addr);
    rc = ret != NA_SUCCESS ? perf_fail("NA_Addr_self", ret)
                           : perf_figures_self(&client);
    if (ret == NA_SUCCESS)
        (void) NA_Addr_free(client.na_class, client.addr);
    perf_finish(client.na_class);
    return rc;
}

/* Start the bare program on the same protocol, if there is one. Its server is
 * *process_p, or belongs to the field of the client that is set. */
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
        printf("# no bare program for %s: no ratios\n", url);
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
    perf_register(PERF_SERVES_NONE, &client->ids);
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
    perf_pin(options, 1); /* inherited by the next fork */
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

/* The figures of sm:// that start processes of their own. */
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

/* ---- A server that runs elsewhere ---- */

static int perf_run_server(
    const char *address, const struct perf_options *options)
{
    struct perf_options own = *options;

    own.standalone = 1;
    perf_catch_signals();
    perf_pin(options, 1);
    perf_keep_heap(options);
    return perf_serve(address, STDOUT_FILENO, &own, &perf_stopped);
}

/* Get what a client opens to reach an address: the scheme, and the other
 * addresses of a list. */
static int perf_schemes(const char *address, char schemes[NA_MAX_ADDR_LEN])
{
    const char *end = strstr(address, "://");
    const char *others;

    if (end == NULL)
        return perf_fail(address, HG_INVALID_ARG);
    others = strchr(end, ';');
    (void) snprintf(schemes, NA_MAX_ADDR_LEN, "%.*s%s",
        (int) (end + 3 - address), address, others != NULL ? others : "");
    return 0;
}

static int perf_run_client(
    const char *address, const struct perf_options *options)
{
    char schemes[NA_MAX_ADDR_LEN];
    struct perf_process server;
    struct perf_client client;
    int rc;

    if (perf_schemes(address, schemes) != 0)
        return -1;
    memset(&server, 0, sizeof(server));
    memset(&client, 0, sizeof(client));
    (void) snprintf(server.address, sizeof(server.address), "%s", address);
    client.options = options;
    perf_pin(options, 0);
    perf_keep_heap(options);
    if (perf_meet(&client, schemes, &server) != 0)
        return -1;
    rc = perf_figures_pair(&client);
    perf_part(&client);
    return rc;
}

/* ---- Options ---- */

static const char perf_help[] =
    "usage: hg_perf [OPTIONS] [ADDRESS]         start server and client\n"
    "       hg_perf [OPTIONS] server ADDRESS    only the server, until Ctrl-C\n"
    "       hg_perf [OPTIONS] client ADDRESS    only the client\n"
    "\n"
    "Measures calls and bulk transfers between two processes, and compares\n"
    "them with a bare program of the same transport. See hg_perf(1).\n"
    "\n"
    "  --only WORD        figures with WORD in their name; =NAME: only NAME\n"
    "  --clients          measure 1 to 16 clients of one server instead\n"
    "  --rounds N         rounds of a figure (9)\n"
    "  --seconds S        seconds of a round (0.3)\n"
    "  --quick            one tiny round of each figure, as a test\n"
    "  --alone            without the bare program\n"
    "  --wait MODE        how hg waits: adaptive, spin or block (adaptive)\n"
    "  --window N         calls in flight of in_flight (64)\n"
    "  --size MIB         size of pull and push (64)\n"
    "  --write-size MIB   size of write (512)\n"
    "  --large-size MIB   size of memory and of the long transfers (1024)\n"
    "  --piece KIB        size of a piece of write (4096)\n"
    "  --buffers N        buffers of write (4)\n"
    "  --pin              client on processor 0, server on processor 1\n"
    "  --keep-heap        keep freed memory in the process\n"
    "  -h, --help         print this text\n"
    "  --version          print the version\n"
    "\n"
    "Examples:\n"
    "  hg_perf sm://\n"
    "  hg_perf --only pull zmq+tcp://127.0.0.1\n";

/* A whole number from 1 to max, or 0. */
static size_t perf_number(const char *text, size_t max)
{
    return (size_t) usage_number(text, (unsigned long) max);
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

enum perf_command { PERF_BOTH, PERF_SERVER, PERF_CLIENT };

struct perf_args {
    struct perf_options options;
    enum perf_command command;
    const char *address; /* NULL: the default */
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

/* Take an option without a value. 0: unknown option. */
static int perf_flag(struct perf_args *args, const char *name)
{
    if (strcmp(name, "--clients") == 0)
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

/* Take an option and its value, which may be NULL. 0: unknown option; -1: wrong
 * value. */
static int perf_option(
    struct perf_options *options, const char *name, const char *value)
{
    const char *text = value != NULL ? value : "";
    size_t number = value != NULL;
    char *end;

    if (strcmp(name, "--only") == 0)
        options->only = value;
    else if (strcmp(name, "--wait") == 0)
        return perf_wait_mode(text, &options->wait_mode) == 0 ? 1 : -1;
    else if (strcmp(name, "--rounds") == 0)
        options->rounds =
            (unsigned) (number = perf_number(text, PERF_ROUNDS_MAX));
    else if (strcmp(name, "--window") == 0)
        options->window = (unsigned) (number = perf_number(text, 1024));
    else if (strcmp(name, "--buffers") == 0)
        options->buffers = (unsigned) (number = perf_number(text, 64));
    else if (strcmp(name, "--piece") == 0)
        options->piece = (number = perf_number(text, 1 << 20)) << 10;
    else if (strcmp(name, "--size") == 0)
        options->bulk_size = (number = perf_number(text, 1 << 16)) << 20;
    else if (strcmp(name, "--write-size") == 0)
        options->write_size = (number = perf_number(text, 1 << 16)) << 20;
    else if (strcmp(name, "--large-size") == 0)
        options->large_size = (number = perf_number(text, 1 << 16)) << 20;
    else if (strcmp(name, "--seconds") == 0) {
        options->seconds = strtod(text, &end);
        number = end != text && *end == '\0' && options->seconds > 0.001 &&
            options->seconds < 3600;
    } else
        return 0;
    return number == 0 ? -1 : 1;
}

/* Take an argument that is not an option. 0 or USAGE_ERROR. */
static int perf_word(struct perf_args *args, const char *word)
{
    if (args->address != NULL)
        return usage_error("hg_perf", "unexpected argument '%s'", word);
    if (args->command == PERF_BOTH && strcmp(word, "server") == 0)
        args->command = PERF_SERVER;
    else if (args->command == PERF_BOTH && strcmp(word, "client") == 0)
        args->command = PERF_CLIENT;
    else if (strstr(word, "://") != NULL)
        args->address = word;
    else
        return usage_error("hg_perf",
            "'%s' is not an address; an address looks like sm://name", word);
    return 0;
}

/* 0 or USAGE_ERROR. */
static int perf_parse(struct perf_args *args, int argc, char *argv[])
{
    int i;

    for (i = 1; i < argc; i++) {
        int taken;

        if (argv[i][0] != '-') {
            if (perf_word(args, argv[i]) != 0)
                return USAGE_ERROR;
            continue;
        }
        if (perf_flag(args, argv[i]))
            continue;
        taken = perf_option(&args->options, argv[i], argv[i + 1]);
        if (taken == 0)
            return usage_error("hg_perf", "unknown option '%s'", argv[i]);
        if (taken < 0)
            return usage_error("hg_perf", "wrong or no value of %s", argv[i]);
        i++;
    }
    if (args->command != PERF_BOTH && args->address == NULL)
        return usage_error("hg_perf", "server and client expect ADDRESS");
    if (args->command == PERF_SERVER && args->clients)
        return usage_error("hg_perf", "--clients is an option of the client");
    return 0;
}

/* Both processes. */
static int perf_run_here(const struct perf_args *args)
{
    static const char self[] = "self://";
    const struct perf_options *options = &args->options;
    const char *url = args->address != NULL ? args->address
        : HG_NA_ZMQ                         ? "zmq+tcp://127.0.0.1"
        : PERF_RAW_SM                       ? "sm://"
                                            : self;
    int rc = 0;

    if (args->clients)
        return perf_clients(url, NULL, options, PERF_CLIENTS);
    /* The pair first: its servers are forked before any thread exists. */
    if (strncmp(url, self, strlen(self)) != 0) {
        rc = perf_run_pair(url, options);
        if (rc == 0)
            rc = perf_run_node(url, options);
        if (args->address != NULL)
            return rc;
    }
    return rc == 0 ? perf_run_self(options) : rc;
}

static int perf_run(const struct perf_args *args)
{
    char schemes[NA_MAX_ADDR_LEN];

    if (args->command == PERF_SERVER)
        return perf_run_server(args->address, &args->options);
    if (args->command == PERF_BOTH)
        return perf_run_here(args);
    if (!args->clients)
        return perf_run_client(args->address, &args->options);
    if (perf_schemes(args->address, schemes) != 0)
        return -1;
    return perf_clients(schemes, args->address, &args->options, PERF_CLIENTS);
}

int main(int argc, char **argv)
{
    struct perf_args args = {
        {9, 0.3, (size_t) 64 << 20, (size_t) 512 << 20, (size_t) 1 << 30,
            (size_t) 4 << 20, 4, 64, NA_WAIT_ADAPTIVE, 0, 0, 0, 0, NULL},
        PERF_BOTH, NULL, 0};
    int rc;

    if (usage_is_printed(argc, argv, "hg_perf", perf_help))
        return EXIT_SUCCESS;
    if (perf_parse(&args, argc, argv) != 0)
        return USAGE_ERROR;
#if HG_NA_MPI
    if (args.address != NULL && strncmp(args.address, "mpi+", 4) == 0) {
        if (args.command != PERF_BOTH)
            return usage_error("hg_perf",
                "mpi+...:// starts server and client as ranks of mpirun");
        return perf_mpi_main(args.address, &args.options,
                   args.clients ? PERF_CLIENTS : 0) == 0
            ? EXIT_SUCCESS
            : EXIT_FAILURE;
    }
#endif
    rc = perf_run(&args);
    if (rc == 0 && args.command != PERF_SERVER) {
        rc = perf_print_table();
        if (rc != 0)
            fprintf(stderr, "hg_perf: no such figure here: %s\n",
                args.options.only != NULL ? args.options.only : "");
    }
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
