/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules of hg_perf and what they declare to each other. hg_perf.c says
 * how the program measures.
 *
 *   hg_perf.c          options, processes
 *   hg_perf_figures.c  the figures of every transport
 *   hg_perf_node.c     the figures of sm:// and its bare program
 *   hg_perf_ofi.c      the figures of ofi+...:// and its bare program
 *   hg_perf_mpi.c      the figures of mpi+static:// and its bare program
 *   hg_perf_clients.c  one server with 1 to 16 clients
 *   hg_perf_contexts.c several contexts of one class
 *   hg_perf_rounds.c   one round of each kind, at the client
 *   hg_perf_server.c   the functions that the rounds call
 *   hg_perf_stats.c    medians of paired ratios, and their output
 *   hg_perf_data.c     clock, byte patterns, peak memory
 */
#ifndef HG_TESTS_PERF_HG_PERF_H
#define HG_TESTS_PERF_HG_PERF_H

#define HG_NA_PLUGIN_API 1
#include "hg.h"

#include <signal.h>

#ifndef HG_NA_ZMQ
#define HG_NA_ZMQ 0
#endif
#ifndef HG_NA_OFI
#define HG_NA_OFI 0
#endif
#ifndef HG_NA_MPI
#define HG_NA_MPI 0
#endif

/* The bare program of sm:// exists where sm:// does. */
#if defined(__linux__)
#define PERF_RAW_SM 1
#else
#define PERF_RAW_SM 0
#endif

struct raw_zmq;
struct raw_sm;
struct raw_ofi;
struct raw_mpi;

/* ---- Calls ---- */

/* Input and output of an echo of 64 bytes. */
MERCURY_GEN_PROC(perf_echo_t,
    ((uint64_t) (a))((uint64_t) (b))((uint64_t) (c))((uint64_t) (d))(
        (uint64_t) (e))((uint64_t) (f))((uint64_t) (g))((uint64_t) (h)))

/* Input and output of an echo of any size. */
#define PERF_PAGE_MAX 65536

typedef struct {
    uint32_t size;
    unsigned char bytes[PERF_PAGE_MAX];
} perf_page_t;

static inline hg_return_t hg_proc_perf_page_t(hg_proc_t proc, void *data)
{
    perf_page_t *page = (perf_page_t *) data;
    hg_return_t ret = hg_proc_uint32_t(proc, &page->size);

    if (ret == HG_SUCCESS && page->size > PERF_PAGE_MAX)
        ret = HG_OVERFLOW;
    return ret != HG_SUCCESS ? ret : hg_proc_raw(proc, page->bytes, page->size);
}

/*
 * Transfers between memory of the client and of the server. The server repeats
 * one transfer until `ms` milliseconds have passed, at least once. A transfer
 * is `size` bytes in pieces of `piece` bytes; `buffers` pieces are in flight,
 * each in a buffer of its own. With piece == size it is one piece.
 */
MERCURY_GEN_PROC(perf_move_in_t,
    ((hg_bulk_t) (bulk))((uint64_t) (size))((uint64_t) (piece))(
        (uint64_t) (buffers))((uint64_t) (ms))((uint64_t) (flags)))

enum {
    PERF_MOVE_PUSH = 0x01,   /* to the client; else from it */
    PERF_MOVE_VERIFY = 0x02, /* compare every byte that arrives */
    PERF_MOVE_COPY = 0x04,   /* memcpy each piece that arrives */
    PERF_MOVE_TRUST = 0x08   /* do not clear the buffers, do not compare */
};

/* `wrong`: the number of pieces whose bytes are not those of the pattern.
 * Without VERIFY the server compares only the last pieces, which are still in
 * the buffers, after it measured `ns`. */
MERCURY_GEN_PROC(
    perf_move_out_t, ((uint64_t) (ops))((uint64_t) (ns))((uint64_t) (wrong)))

MERCURY_GEN_PROC(perf_name_t, ((hg_const_string_t) (name)))
MERCURY_GEN_PROC(perf_value_t, ((uint64_t) (value)))

struct perf_ids {
    hg_id_t echo;
    hg_id_t page;
    hg_id_t move;       /* the handler waits for the transfer */
    hg_id_t background; /* the server executes other calls meanwhile */
    hg_id_t counter;    /* NA_Get_counter at the server */
    hg_id_t die;        /* the server kills itself at that time */
    hg_id_t keep;       /* no response before the next call arrives */
    hg_id_t raw;        /* the server runs a round of the bare program */
    hg_id_t end;        /* the server ends */
};

/* Client and server register the same functions; a server also their
 * handlers. A standalone server has no handlers for `die`, `raw` and `end`. */
enum perf_serving { PERF_SERVES_NONE, PERF_SERVES_ANY, PERF_SERVES_ALL };

void perf_register(enum perf_serving serving, struct perf_ids *ids_p);

/* ---- Options ---- */

#define PERF_ROUNDS_MAX 1000

struct perf_options {
    unsigned rounds;
    double seconds; /* the least time of a round */
    size_t bulk_size;
    size_t write_size;
    size_t large_size; /* of memory and of the long transfers */
    size_t piece;
    unsigned buffers;
    unsigned window; /* calls in flight */
    unsigned wait_mode;
    int pin;
    int keep_heap;
    int alone;        /* without the bare program */
    int standalone;   /* a server whose clients are not ours */
    const char *only; /* a part of the figures' names; NULL: all */
};

/* Whether the options select the group of figures of that name. */
int perf_is_asked(const struct perf_options *options, const char *name);

/* Open a class in the waiting mode of the options, and start the RPC layer. */
int perf_start(const char *url, na_bool_t listen,
    const struct perf_options *options, na_class_t **na_class_p);
void perf_finish(na_class_t *na_class);

/* Print a line to stderr. Returns -1. */
int perf_fail(const char *what, hg_return_t ret);

/* ---- Server ---- */

/*
 * Listen on `url`, write "ADDRESS\n" to the descriptor unless it is negative,
 * and serve until *stop is set or a client calls `end`. 0, or -1 after a line
 * on stderr.
 */
int perf_serve(const char *url, int ready_fd,
    const struct perf_options *options, const volatile sig_atomic_t *stop);

/* ---- Client ---- */

struct perf_client {
    const struct perf_options *options;
    na_class_t *na_class;
    na_addr_t addr;
    struct perf_ids ids;
    /* The bare program; at most one of these is not NULL. */
    struct raw_zmq *raw;
    struct raw_sm *raw_sm;
    struct raw_ofi *raw_ofi;
    struct raw_mpi *raw_mpi;
    long server_pid; /* 0: this process, or one that runs elsewhere */
};

/* Measure the figures of self://, and those of two processes. */
int perf_figures_self(struct perf_client *client);
int perf_figures_pair(struct perf_client *client);

/* A server process. It is forked before any class exists. */
enum perf_kind {
    PERF_OURS,
    PERF_RAW, /* the bare program */
    PERF_POOL /* perf_contexts_serve */
};

struct perf_process {
    pid_t pid;
    char address[NA_MAX_ADDR_LEN];
};

int perf_start_server(const char *url, enum perf_kind kind,
    const struct perf_options *options, struct perf_process *process_p);
void perf_stop_server(const struct perf_process *process);

/* Open a class and look the server up; close it. */
int perf_meet(struct perf_client *client, const char *url,
    const struct perf_process *ours);
void perf_part(struct perf_client *client);

/* ---- Statistics ---- */

/* One value per round. */
struct perf_series {
    const char *name;
    unsigned count;
    double values[PERF_ROUNDS_MAX];
};

void perf_series_add(struct perf_series *series, double value);
double perf_series_median(const struct perf_series *series);

/* The quantile p (0..1) of sorted values, interpolated. */
double perf_quantile(const double *sorted, unsigned count, double p);
void perf_sort(double *values, unsigned count);

/* A figure and its target: at most or at least this; 0: there is none. */
struct perf_figure {
    const char *name;
    const char *unit;
    double scale; /* a value of a series times this is in `unit` */
    int inverse;  /* if set, this divided by the value is in `unit` */
    double at_most;
    double at_least;
};

/*
 * Print a figure's line and add it to the table: both medians, and the median
 * and quartiles of the rounds' ratios ours / base. `base` is NULL if there is
 * nothing to compare with. With `inverse` the values are seconds and the unit
 * is a rate; the ratio is then that of the rates.
 */
void perf_report(const struct perf_figure *figure,
    const struct perf_series *ours, const struct perf_series *base);

/* Print a figure of one value, which is in the unit of the figure. */
void perf_report_value(const struct perf_figure *figure, double value);

/* Prints all figures that were reported; -1 if there are none. */
int perf_print_table(void);

/* ---- Rounds ---- */

/* Calls of 64 bytes, `window` of them in flight; the seconds of one. */
int perf_echo_round(
    struct perf_client *client, unsigned window, double *per_op_p);

/* Calls, each after a pause; the seconds of one without its pause. */
int perf_nap_round(
    struct perf_client *client, unsigned nap_us, double *per_op_p);

/* Calls of `size` bytes, 16 to PERF_PAGE_MAX, `window` of them in flight. Each
 * round adds the number of its calls and how often the calling thread slept. */
#define PERF_PAGE_WINDOW_MAX 64

struct perf_pages {
    size_t size;
    unsigned window; /* 1 to PERF_PAGE_WINDOW_MAX */
    uint64_t calls;
    uint64_t sleeps; /* 0 if the system does not count them */
};

int perf_page_round(
    struct perf_client *client, struct perf_pages *pages, double *per_op_p);

/* Latencies of calls, in nanoseconds. */
struct perf_samples {
    unsigned count;
    double *ns;
};

#define PERF_SAMPLES_MAX 1000000

/* Calls, one after the other, until `job` has ended (NULL: for one round). */
int perf_echo_sample(
    struct perf_client *client, hg_request_t job, struct perf_samples *samples);

/* The client's memory for transfers. */
struct perf_source {
    unsigned char *buf;
    size_t size;
    hg_bulk_t bulk;
    int given; /* the library allocated it */
};

/* Allocate the memory here, or let the library allocate it. */
int perf_source_make(struct perf_source *source, size_t size);
int perf_source_take(struct perf_source *source, size_t size);
void perf_source_free(struct perf_source *source);

perf_move_in_t perf_move_order(const struct perf_client *client, size_t size,
    size_t piece, unsigned buffers, unsigned flags);

/* A round of transfers; the seconds of one. If `in->ms` is 0, it is one. */
int perf_move_round(struct perf_client *client,
    const struct perf_source *source, perf_move_in_t *in, double *per_op_p);
int perf_judge_move(const perf_move_in_t *in, const perf_move_out_t *out,
    const struct perf_source *source);

/* One side of a comparison: `run` measures the seconds of one operation. */
struct perf_contestant {
    struct perf_series series;
    int (*run)(struct perf_client *client, void *arg, double *per_op_p);
    void *arg;
};

#define PERF_CONTESTANTS_MAX 4

/* Run all rounds. The first contestant is ours. */
int perf_contest(struct perf_client *client,
    struct perf_contestant *contestants, unsigned count);

/* Contestants of ours. `arg` points to the window, to a struct perf_pages, or
 * to this. */
struct perf_move_arg {
    const struct perf_source *source;
    perf_move_in_t in;
};

int perf_run_echo(struct perf_client *client, void *arg, double *per_op_p);
int perf_run_page(struct perf_client *client, void *arg, double *per_op_p);
int perf_run_move(struct perf_client *client, void *arg, double *per_op_p);

/* ---- One node ---- */

#if PERF_RAW_SM
/* Compare ours, prepared by the caller, with two processes that spin: echoes of
 * `size` bytes. */
int perf_node_echo(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size, unsigned window);

/* Compare ours, prepared by the caller, with copies by process_vm_readv. */
int perf_node_pull(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size);

/* Echoes of 2 to 16 KiB; echoes of processes that sleep, against an eventfd;
 * transfers of 64 KiB to 16 MiB; transfers of the library's memory. */
int perf_node_pages(struct perf_client *client);
int perf_node_asleep(struct perf_client *client);
int perf_node_sizes(struct perf_client *client);
int perf_node_mapped(struct perf_client *client);

/* Compare the waiting modes, each in processes of its own. No class may exist
 * when one of these functions is called. */
int perf_node_modes(const char *url, const struct perf_options *options);

/* 64 clients of one server: adaptive waiting against blocking. */
int perf_node_crowd(const char *url, const struct perf_options *options);

/* The time from the death of a server to the end of a call to it. */
int perf_node_deaths(const char *url, const struct perf_options *options);

/* Two threads with contexts of their own, against one thread. */
int perf_contexts(const char *url, const struct perf_options *options);

/* Two threads that call two threads of a server, against one thread each. */
int perf_contexts_handlers(const char *url, const struct perf_options *options);

/* The server of perf_contexts_handlers; see perf_serve. */
int perf_contexts_serve(
    const char *url, int ready_fd, const volatile sig_atomic_t *stop);
#endif

/* ---- Clients ---- */

#define PERF_CLIENTS_MAX 64

enum perf_clients_kind {
    PERF_CLIENTS_CALLS, /* of 64 bytes */
    PERF_CLIENTS_PULL,  /* of --size bytes */
    PERF_CLIENTS_WRITE, /* of --size bytes, in pieces */
    PERF_CLIENTS_KINDS
};

/* An order: `count` clients do this at the same time. */
struct perf_clients_order {
    const struct perf_options *options;
    enum perf_clients_kind kind;
    unsigned count; /* 1 to PERF_CLIENTS_MAX */
};

/* The calls or bytes of one client or of all clients, from begin to end. */
struct perf_clients_share {
    double amount;
    uint64_t begin; /* by perf_now_ns */
    uint64_t end;
};

void perf_clients_add(
    struct perf_clients_share *sum, const struct perf_clients_share *share);
double perf_clients_rate(const struct perf_clients_share *sum); /* a second */

/* One client. Prepare: allocate the memory, transfer it once and compare it.
 * Measure: do the work of the order. */
int perf_clients_prepare(struct perf_client *client,
    enum perf_clients_kind kind, struct perf_source *source);
int perf_clients_measure(struct perf_client *client,
    enum perf_clients_kind kind, const struct perf_source *source,
    struct perf_clients_share *share);

/* Fork the clients of an order; calls or bytes per second. Before any class
 * exists. */
int perf_clients_fork(const struct perf_clients_order *order, const char *url,
    const struct perf_process *server, double *rate_p);

/* The table of 1 to `max` clients, 16 at most. `run` executes an order. */
typedef int perf_clients_run_t(
    const struct perf_clients_order *order, void *arg, double *rate_p);

int perf_clients_figures(const char *url, const struct perf_options *options,
    unsigned max, perf_clients_run_t *run, void *arg);

/* The table with forked clients, which open `url`. `address` is that of a
 * server that runs elsewhere; NULL: a server is forked. Before any class
 * exists. */
int perf_clients(const char *url, const char *address,
    const struct perf_options *options, unsigned max);

/* ---- MPI ---- */

#if HG_NA_MPI
/* The whole run of a rank, MPI_Init to MPI_Finalize. Rank 0 is the server, rank
 * 1 measures and prints. `clients` 0: the figures of two processes; else the
 * table of up to that many clients. */
int perf_mpi_main(
    const char *url, const struct perf_options *options, unsigned clients);

/* At the server: run a round of the bare program. */
int perf_mpi_serve_raw(void);

/* As perf_ofi_echo and perf_ofi_pull. For a transfer the bare program sends
 * messages of 1 MiB. */
int perf_mpi_echo(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size, unsigned window);
int perf_mpi_pull(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size);
#endif

/* ---- libfabric ---- */

#if HG_NA_OFI
/* Start the bare program on the provider and host of an address. */
int perf_ofi_open(const char *url, struct raw_ofi **raw_p);

/* Compare ours, prepared by the caller, with the better waiting mode of the
 * bare program: echoes of `size` bytes; transfers, which the bare program
 * pulls. */
int perf_ofi_echo(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size, unsigned window);
int perf_ofi_pull(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size);

/* Transfers from 64 KiB to 16 MiB. */
int perf_ofi_sizes(struct perf_client *client);
#endif

/* ---- Data, clock, memory ---- */

uint64_t perf_now_ns(void);

/* How often the calling thread has slept (voluntary context switches); 0 if the
 * system is not Linux. */
uint64_t perf_sleeps(void);

/* Memory for transfers, aligned to a page; free() frees it. NULL: out of
 * memory. */
void *perf_alloc(size_t size);

/* 8-byte words, each a hash of its place; `offset` is a multiple of 8. */
void perf_fill(void *buf, size_t size, uint64_t offset);
int perf_is_filled(const void *buf, size_t size, uint64_t offset);

/* Peak memory of a process since the last reset, and its present memory, in
 * bytes; -1 if the system is not Linux. */
int perf_memory_reset(long pid);
int perf_memory(long pid, uint64_t *peak_p, uint64_t *now_p);

#endif /* HG_TESTS_PERF_HG_PERF_H */
