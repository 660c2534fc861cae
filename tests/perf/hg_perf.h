/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf's own parts and what they say to each other (hg_perf.c says what
 * the program is for).
 *
 *   hg_perf.c         options, processes
 *   hg_perf_figures.c the figures of every transport, at the client
 *   hg_perf_node.c    those of sm://, and its bare program
 *   hg_perf_ofi.c     those of ofi+...://, and its bare program
 *   hg_perf_mpi.c     those of mpi+static://, and its bare program
 *   hg_perf_clients.c one server and more and more clients
 *   hg_perf_contexts.c contexts of one class side by side
 *   hg_perf_rounds.c  what both are made of
 *   hg_perf_server.c  the functions that the rounds call
 *   hg_perf_stats.c   medians of paired ratios, and how they are printed
 *   hg_perf_data.c    clock, byte patterns, peak memory
 */
#ifndef HG_TESTS_PERF_HG_PERF_H
#define HG_TESTS_PERF_HG_PERF_H

#define HG_NA_PLUGIN_API
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

/* Where sm:// is, so is its raw program. */
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

/* 64 bytes there and back. */
MERCURY_GEN_PROC(perf_echo_t,
    ((uint64_t) (a))((uint64_t) (b))((uint64_t) (c))((uint64_t) (d))(
        (uint64_t) (e))((uint64_t) (f))((uint64_t) (g))((uint64_t) (h)))

/* As many bytes as the caller likes, there and back. */
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
 * Transfers between the caller's memory and the server's, the same ones again
 * until `ms` are over, at least once. One transfer is `size` bytes in pieces of
 * `piece`, of which `buffers` are on their way at a time and share so many
 * buffers; with piece == size it is a single one.
 */
MERCURY_GEN_PROC(perf_move_in_t,
    ((hg_bulk_t) (bulk))((uint64_t) (size))((uint64_t) (piece))(
        (uint64_t) (buffers))((uint64_t) (ms))((uint64_t) (flags)))

enum {
    PERF_MOVE_PUSH = 0x01,   /* to the caller; else from it */
    PERF_MOVE_VERIFY = 0x02, /* look at every byte that arrives here */
    PERF_MOVE_COPY = 0x04,   /* "write" each piece that arrives: a memcpy */
    PERF_MOVE_TRUST = 0x08   /* neither clear what pieces go to, nor look */
};

/* `wrong`: pieces whose bytes were not those of the pattern: without VERIFY
 * only what lies in the buffers at the end is looked at, after `ns`. */
MERCURY_GEN_PROC(
    perf_move_out_t, ((uint64_t) (ops))((uint64_t) (ns))((uint64_t) (wrong)))

MERCURY_GEN_PROC(perf_name_t, ((hg_const_string_t) (name)))
MERCURY_GEN_PROC(perf_value_t, ((uint64_t) (value)))

struct perf_ids {
    hg_id_t echo;
    hg_id_t page;
    hg_id_t move;       /* inside the handler, as in the paper's write */
    hg_id_t background; /* beside other calls; one transfer at a time */
    hg_id_t counter;    /* NA_Get_counter at the server */
    hg_id_t die;        /* the server kills itself at that perf_now_ns */
    hg_id_t keep;       /* not answered before the next one comes */
    hg_id_t raw;        /* the server serves a round of the raw program */
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
    double seconds; /* of a round, at least */
    size_t bulk_size;
    size_t write_size;
    size_t large_size; /* of the peak memory figure and the long transfer */
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

/* Whether the options ask for figures of that name. */
int perf_is_asked(const struct perf_options *options, const char *name);

/* A class with the options' waiting mode, and the RPC layer on it. */
int perf_start(const char *url, na_bool_t listen,
    const struct perf_options *options, na_class_t **na_class_p);
void perf_finish(na_class_t *na_class);

/* One line on stderr; -1. */
int perf_fail(const char *what, hg_return_t ret);

/* ---- Server ---- */

/*
 * Listens on `url`, writes "ADDRESS\n" to the descriptor unless that is below
 * 0, and serves until *stop, or until somebody calls `end`. 0, or -1 after a
 * line on stderr.
 */
int perf_serve(const char *url, int ready_fd,
    const struct perf_options *options, const volatile sig_atomic_t *stop);

/* ---- Client ---- */

struct perf_client {
    const struct perf_options *options;
    na_class_t *na_class;
    na_addr_t addr;
    struct perf_ids ids;
    struct raw_zmq *raw;     /* NULL: nothing to compare with */
    struct raw_sm *raw_sm;   /* the same */
    struct raw_ofi *raw_ofi; /* the same */
    struct raw_mpi *raw_mpi; /* the same */
    long server_pid;         /* 0: in this process */
};

/* The figures of a class that talks to itself, and of two processes. */
int perf_figures_self(struct perf_client *client);
int perf_figures_pair(struct perf_client *client);

/* A server in a process of its own. Started before any class exists. */
enum perf_kind {
    PERF_OURS,
    PERF_RAW, /* what ours is compared with */
    PERF_POOL /* perf_contexts_serve */
};

struct perf_process {
    pid_t pid;
    char address[NA_MAX_ADDR_LEN];
};

int perf_start_server(const char *url, enum perf_kind kind,
    const struct perf_options *options, struct perf_process *process_p);
void perf_stop_server(const struct perf_process *process);

/* A class of ours that has found the server, and its end. */
int perf_meet(struct perf_client *client, const char *url,
    const struct perf_process *ours);
void perf_part(struct perf_client *client);

/* ---- Statistics ---- */

/* One value for each round. */
struct perf_series {
    const char *name;
    unsigned count;
    double values[PERF_ROUNDS_MAX];
};

void perf_series_add(struct perf_series *series, double value);
double perf_series_median(const struct perf_series *series);

/* The p-th part (0..1) of sorted values, between neighbours. */
double perf_quantile(const double *sorted, unsigned count, double p);
void perf_sort(double *values, unsigned count);

/* What the figure says, and what it should be at most or at least; 0: it is
 * only watched. */
struct perf_figure {
    const char *name;
    const char *unit;
    double scale; /* a value of a series times this is in `unit` … */
    int inverse;  /* … or this divided by the value */
    double at_most;
    double at_least;
};

/*
 * Prints a figure's line and remembers it for the table: the medians of both
 * and the median and quartiles of the ratios ours / base, round by round.
 * `base` NULL: there is nothing to compare with. With `inverse` values are
 * seconds but the unit is a rate, and so the ratio is one of rates.
 */
void perf_report(const struct perf_figure *figure,
    const struct perf_series *ours, const struct perf_series *base);

/* The same for a single value, in the unit already. */
void perf_report_value(const struct perf_figure *figure, double value);

/* Prints all figures that were reported; -1 if there are none. */
int perf_print_table(void);

/* ---- Rounds ---- */

/* Calls in order, `window` of them in flight; the seconds of one. */
int perf_echo_round(
    struct perf_client *client, unsigned window, double *per_op_p);

/* Calls after naps; the seconds of one without its nap. */
int perf_nap_round(
    struct perf_client *client, unsigned nap_us, double *per_op_p);

/* Calls of `size` bytes, 16 to PERF_PAGE_MAX, `window` of them in flight. Each
 * round adds its calls, and how often the calling thread slept in them. */
#define PERF_PAGE_WINDOW_MAX 64

struct perf_pages {
    size_t size;
    unsigned window; /* 1 to PERF_PAGE_WINDOW_MAX */
    uint64_t calls;
    uint64_t sleeps; /* stays 0 where the system does not count them */
};

int perf_page_round(
    struct perf_client *client, struct perf_pages *pages, double *per_op_p);

/* Latencies of calls, in nanoseconds. */
struct perf_samples {
    unsigned count;
    double *ns;
};

#define PERF_SAMPLES_MAX 1000000

/* One after the other until `job` has ended (NULL: for a round's time). */
int perf_echo_sample(
    struct perf_client *client, hg_request_t job, struct perf_samples *samples);

/* The client's end of transfers. */
struct perf_source {
    unsigned char *buf;
    size_t size;
    hg_bulk_t bulk;
    int given; /* by the library */
};

/* Memory of ours, or the library's. */
int perf_source_make(struct perf_source *source, size_t size);
int perf_source_take(struct perf_source *source, size_t size);
void perf_source_free(struct perf_source *source);

perf_move_in_t perf_move_order(const struct perf_client *client, size_t size,
    size_t piece, unsigned buffers, unsigned flags);

/* A round of transfers at the server; the seconds of one. `in->ms` 0: one. */
int perf_move_round(struct perf_client *client,
    const struct perf_source *source, perf_move_in_t *in, double *per_op_p);
int perf_judge_move(const perf_move_in_t *in, const perf_move_out_t *out,
    const struct perf_source *source);

/* One side of a figure: `run` gives the seconds of one operation. */
struct perf_contestant {
    struct perf_series series;
    int (*run)(struct perf_client *client, void *arg, double *per_op_p);
    void *arg;
};

#define PERF_CONTESTANTS_MAX 4

/* All rounds; the first contestant is ours. */
int perf_contest(struct perf_client *client,
    struct perf_contestant *contestants, unsigned count);

/* Contestants of ours. `arg`: the window, a struct perf_pages, or this. */
struct perf_move_arg {
    const struct perf_source *source;
    perf_move_in_t in;
};

int perf_run_echo(struct perf_client *client, void *arg, double *per_op_p);
int perf_run_page(struct perf_client *client, void *arg, double *per_op_p);
int perf_run_move(struct perf_client *client, void *arg, double *per_op_p);

/* ---- One node ---- */

#if PERF_RAW_SM
/* Contest between ours, prepared by the caller, and two processes that spin:
 * echoes of `size` bytes. */
int perf_node_echo(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size, unsigned window);

/* The same with copies of `size` bytes by process_vm_readv. */
int perf_node_pull(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size);

/* Echoes from 2 to 16 KiB; of sleepers, against an eventfd; transfers from 64
 * KiB to 16 MiB; of memory that the library allocated. */
int perf_node_pages(struct perf_client *client);
int perf_node_asleep(struct perf_client *client);
int perf_node_sizes(struct perf_client *client);
int perf_node_mapped(struct perf_client *client);

/* The waiting modes against each other, each in processes of its own. Without
 * a class. */
int perf_node_modes(const char *url, const struct perf_options *options);

/* 64 clients of one server, adaptive against always asleep. The same. */
int perf_node_crowd(const char *url, const struct perf_options *options);

/* How soon somebody asleep in a call hears of the other side's death. Without
 * a class. */
int perf_node_deaths(const char *url, const struct perf_options *options);

/* Two threads with contexts of their own, against one. Without a class. */
int perf_contexts(const char *url, const struct perf_options *options);

/* Two threads that call two threads of a server, against one. The same. */
int perf_contexts_handlers(const char *url, const struct perf_options *options);

/* That server: as perf_serve. */
int perf_contexts_serve(
    const char *url, int ready_fd, const volatile sig_atomic_t *stop);
#endif

/* ---- Clients ---- */

#define PERF_CLIENTS_MAX 64

enum perf_clients_kind {
    PERF_CLIENTS_CALLS, /* of 64 bytes */
    PERF_CLIENTS_PULL,  /* of --size bytes */
    PERF_CLIENTS_WRITE, /* the same in pieces */
    PERF_CLIENTS_KINDS
};

/* The work of `count` clients at a time. */
struct perf_clients_order {
    const struct perf_options *options;
    enum perf_clients_kind kind;
    unsigned count; /* 1 to PERF_CLIENTS_MAX */
};

/* What one of them, or all, did: calls or bytes, from begin to end. */
struct perf_clients_share {
    double amount;
    uint64_t begin; /* by perf_now_ns */
    uint64_t end;
};

void perf_clients_add(
    struct perf_clients_share *sum, const struct perf_clients_share *share);
double perf_clients_rate(const struct perf_clients_share *sum); /* a second */

/* At one of them: make what is pulled from, all zeros before, and have it
 * pulled and compared; then what is measured. */
int perf_clients_prepare(struct perf_client *client,
    enum perf_clients_kind kind, struct perf_source *source);
int perf_clients_measure(struct perf_client *client,
    enum perf_clients_kind kind, const struct perf_source *source,
    struct perf_clients_share *share);

/* Have an order done by processes that are forked for it; calls or bytes a
 * second. Without a class. */
int perf_clients_fork(const struct perf_clients_order *order, const char *url,
    const struct perf_process *server, double *rate_p);

/* The table of 1 to `max` clients, 16 at most. `run` has an order done. */
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
/* All that a rank does, from MPI's beginning to its end. Rank 0 is the server,
 * rank 1 measures and prints. `clients` 0: the figures of the pair; else the
 * table of so many clients at most. */
int perf_mpi_main(
    const char *url, const struct perf_options *options, unsigned clients);

/* At the server: serve a round of the bare program. */
int perf_mpi_serve_raw(void);

/* As those of ofi+...://, below; of transfers the bare program sends messages
 * of 1 MiB. */
int perf_mpi_echo(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size, unsigned window);
int perf_mpi_pull(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size);
#endif

/* ---- libfabric ---- */

#if HG_NA_OFI
/* Starts the bare program on the provider and host of an address string. */
int perf_ofi_open(const char *url, struct raw_ofi **raw_p);

/* Contests between ours, prepared by the caller, and the better waiting mode
 * of the bare program: echoes of `size` bytes; transfers, which it pulls. */
int perf_ofi_echo(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size, unsigned window);
int perf_ofi_pull(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size);

/* Transfers from 64 KiB to 16 MiB. */
int perf_ofi_sizes(struct perf_client *client);
#endif

/* ---- Data, clock, memory ---- */

uint64_t perf_now_ns(void);

/* How often the calling thread has slept (voluntary context switches); 0 where
 * the system does not tell (only Linux does). */
uint64_t perf_sleeps(void);

/* Memory to move from or to, that begins with a page, for free. NULL: there is
 * none. */
void *perf_alloc(size_t size);

/* 8-byte words, each a hash of its place; `offset` is a multiple of 8. */
void perf_fill(void *buf, size_t size, uint64_t offset);
int perf_is_filled(const void *buf, size_t size, uint64_t offset);

/*
 * Peak memory of a process since the last reset, and its present memory, in
 * bytes; -1 where the system does not tell (only Linux does).
 */
int perf_memory_reset(long pid);
int perf_memory(long pid, uint64_t *peak_p, uint64_t *now_p);

#endif /* HG_TESTS_PERF_HG_PERF_H */
