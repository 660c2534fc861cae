/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_perf: the figures of sm:// against its bare program (raw_sm.h), and their
 * targets.
 *
 * Each waiting mode is measured with processes of its own, one pair at a time:
 * a server that spins would take a processor from the others.
 */
#define _POSIX_C_SOURCE 200809L

#include "hg_perf.h"

#if PERF_RAW_SM

#include "raw_sm.h"

#include <stdlib.h>
#include <string.h>

#define PERF_NODE_SPIN 3.0       /* an echo that spins, against bare */
#define PERF_NODE_DEFAULT 1.2    /* the default mode, against that */
#define PERF_NODE_PAGE 2.0       /* echoes of some KiB, against bare */
#define PERF_NODE_IN_FLIGHT 0.35 /* rate, against bare */
#define PERF_NODE_BULK 0.95      /* against process_vm_readv */
#define PERF_NODE_MAPPED 0.75    /* against memcpy */
#define PERF_NODE_CROWD 64       /* clients */
#define PERF_NODE_CROWDED 0.8    /* their rate, adaptive against blocking */
#define PERF_NODE_MAPPED_SIZE ((size_t) 1 << 20)

struct perf_node_raw {
    size_t size;
    unsigned window;     /* of an echo; 0: a copy */
    enum raw_sm_way way; /* of the copy */
};

static int perf_node_run_raw(
    struct perf_client *client, void *arg, double *per_op_p)
{
    const struct perf_node_raw *what = (const struct perf_node_raw *) arg;
    const double seconds = client->options->seconds;
    size_t size = what->size;

    if (what->window > 0)
        return raw_sm_echo(
            client->raw_sm, size, what->window, seconds, per_op_p);
    if (size > RAW_SM_REGION)
        size = RAW_SM_REGION;
    if (raw_sm_copy(client->raw_sm, what->way, size, seconds, per_op_p) != 0)
        return -1;
    *per_op_p *= (double) what->size / (double) size;
    return 0;
}

static int perf_node_contest(struct perf_client *client,
    const struct perf_figure *figure, struct perf_contestant *contestants,
    struct perf_node_raw *raw, double aim)
{
    struct perf_figure aimed = *figure;

    if (raw->window > RAW_SM_WINDOW_MAX)
        raw->window = RAW_SM_WINDOW_MAX;
    contestants[1].series.name = raw->window > 0 ? "spin"
        : raw->way == RAW_SM_MEMCPY              ? "memcpy"
                                                 : "vm_read";
    contestants[1].run = perf_node_run_raw;
    contestants[1].arg = raw;
    if (perf_contest(client, contestants, 2) != 0)
        return -1;
    aimed.at_most = figure->inverse ? 0 : aim;
    aimed.at_least = figure->inverse ? aim : 0;
    perf_report(&aimed, &contestants[0].series, &contestants[1].series);
    return 0;
}

int perf_node_echo(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size, unsigned window)
{
    struct perf_node_raw raw = {size, window, RAW_SM_VM_READ};
    const double aim = figure->inverse ? PERF_NODE_IN_FLIGHT
        : size > 64                    ? PERF_NODE_PAGE
        : client->options->wait_mode == NA_WAIT_SPIN
        ? PERF_NODE_SPIN
        : PERF_NODE_SPIN * PERF_NODE_DEFAULT;

    return perf_node_contest(client, figure, contestants, &raw, aim);
}

int perf_node_pull(struct perf_client *client, const struct perf_figure *figure,
    struct perf_contestant *contestants, size_t size)
{
    struct perf_node_raw raw = {size, 0, RAW_SM_VM_READ};

    return perf_node_contest(client, figure, contestants, &raw, PERF_NODE_BULK);
}

int perf_node_pages(struct perf_client *client)
{
    static const char *const names[] = {
        "page_2k", "page_4k", "page_8k", "page_16k"};
    static struct perf_contestant contestants[PERF_CONTESTANTS_MAX];
    unsigned i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct perf_figure figure = {names[i], "us", 1e6, 0, 0, 0};
        struct perf_pages pages = {(size_t) 2048 << i, 1, 0, 0};

        if (client->raw_sm == NULL)
            return 0;
        memset(contestants, 0, sizeof(contestants));
        contestants[0].run = perf_run_page;
        contestants[0].arg = &pages;
        if (perf_node_echo(client, &figure, contestants, pages.size, 1) != 0)
            return -1;
    }
    return 0;
}

/* Transfers of the whole source, against copies in that way. */
static int perf_node_moves(struct perf_client *client,
    const struct perf_source *source, const char *name, enum raw_sm_way way,
    double aim)
{
    static struct perf_contestant contestants[PERF_CONTESTANTS_MAX];
    struct perf_figure figure = {name, "GB/s", 1e-9, 1, 0, 0};
    struct perf_node_raw raw = {source->size, 0, way};
    struct perf_move_arg move;

    figure.scale *= (double) source->size;
    move.source = source;
    move.in = perf_move_order(client, source->size, source->size, 1, 0);
    memset(contestants, 0, sizeof(contestants));
    contestants[0].run = perf_run_move;
    contestants[0].arg = &move;
    return perf_node_contest(client, &figure, contestants, &raw, aim);
}

/* ---- Processes that sleep ---- */

static int perf_node_run_nap(
    struct perf_client *client, void *arg, double *per_op_p)
{
    (void) arg;
    return perf_nap_round(client, RAW_SM_NAP, per_op_p);
}

static int perf_node_run_wake(
    struct perf_client *client, void *arg, double *per_op_p)
{
    (void) arg;
    return raw_sm_wake(client->raw_sm, client->options->seconds, per_op_p);
}

int perf_node_asleep(struct perf_client *client)
{
    static const struct perf_figure figure = {
        "echo_asleep", "us", 1e6, 0, 0, 0};
    static struct perf_contestant contestants[PERF_CONTESTANTS_MAX];

    if (client->raw_sm == NULL)
        return 0;
    memset(contestants, 0, sizeof(contestants));
    contestants[0].run = perf_node_run_nap;
    contestants[1].series.name = "eventfd";
    contestants[1].run = perf_node_run_wake;
    if (perf_contest(client, contestants, 2) != 0)
        return -1;
    perf_report(&figure, &contestants[0].series, &contestants[1].series);
    return 0;
}

/* ---- Bulk ---- */

int perf_node_sizes(struct perf_client *client)
{
    static const char *const names[] = {"pull_64k", "pull_1m", "pull_16m"};
    unsigned i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct perf_source source;
        int rc;

        if (client->raw_sm == NULL)
            return 0;
        if (perf_source_make(&source, (size_t) 65536 << (4 * i)) != 0)
            return -1;
        rc = perf_node_moves(
            client, &source, names[i], RAW_SM_VM_READ, PERF_NODE_BULK);
        perf_source_free(&source);
        if (rc != 0)
            return -1;
    }
    return 0;
}

int perf_node_mapped(struct perf_client *client)
{
    struct perf_source source;
    int rc;

    if (client->raw_sm == NULL)
        return 0;
    if (perf_source_take(&source, PERF_NODE_MAPPED_SIZE) != 0)
        return -1;
    rc = perf_node_moves(
        client, &source, "pull_mapped_1m", RAW_SM_MEMCPY, PERF_NODE_MAPPED);
    perf_source_free(&source);
    return rc;
}

/* ---- Waiting modes ---- */

struct perf_node_mode {
    const char *url;
    unsigned wait_mode;
};

/* A round of echoes; both processes wait in the given mode. */
static int perf_node_run_mode(
    struct perf_client *client, void *arg, double *per_op_p)
{
    const struct perf_node_mode *mode = (const struct perf_node_mode *) arg;
    struct perf_options options = *client->options;
    struct perf_process server;
    struct perf_client guest;
    int rc;

    options.wait_mode = mode->wait_mode;
    if (perf_start_server(mode->url, PERF_OURS, &options, &server) != 0)
        return -1;
    memset(&guest, 0, sizeof(guest));
    guest.options = &options;
    rc = perf_meet(&guest, mode->url, &server);
    if (rc == 0) {
        rc = perf_echo_round(&guest, 1, per_op_p);
        perf_part(&guest);
    }
    perf_stop_server(&server);
    return rc;
}

int perf_node_modes(const char *url, const struct perf_options *options)
{
    static const struct perf_figure spin = {
        "echo_spin", "us", 1e6, 0, PERF_NODE_SPIN, 0};
    static const struct perf_figure usual = {
        "echo_default", "us", 1e6, 0, PERF_NODE_DEFAULT, 0};
    static struct perf_contestant contestants[PERF_CONTESTANTS_MAX];
    struct perf_node_mode modes[] = {
        {url, NA_WAIT_ADAPTIVE}, {url, NA_WAIT_SPIN}};
    struct perf_node_raw raw = {64, 1, RAW_SM_VM_READ};
    struct perf_client client;
    int rc;

    memset(&client, 0, sizeof(client));
    client.options = options;
    if (raw_sm_open(&client.raw_sm) != 0)
        return -1;
    memset(contestants, 0, sizeof(contestants));
    contestants[0].run = perf_node_run_mode;
    contestants[0].arg = &modes[0];
    contestants[1].run = perf_node_run_mode;
    contestants[1].arg = &modes[1];
    contestants[1].series.name = "spin";
    contestants[2].run = perf_node_run_raw;
    contestants[2].arg = &raw;
    contestants[2].series.name = "bare";
    rc = perf_contest(&client, contestants, 3);
    raw_sm_close(client.raw_sm);
    if (rc != 0)
        return -1;
    perf_report(&spin, &contestants[1].series, &contestants[2].series);
    perf_report(&usual, &contestants[0].series, &contestants[1].series);
    return 0;
}

/* ---- Many clients ---- */

/* A round of echoes of many clients of one server; seconds per call of all
 * clients together. */
static int perf_node_run_crowd(
    struct perf_client *client, void *arg, double *per_op_p)
{
    const struct perf_node_mode *mode = (const struct perf_node_mode *) arg;
    struct perf_options options = *client->options;
    const struct perf_clients_order order = {
        &options, PERF_CLIENTS_CALLS, PERF_NODE_CROWD};
    struct perf_process server;
    double rate;
    int rc;

    options.wait_mode = mode->wait_mode;
    if (perf_start_server(mode->url, PERF_OURS, &options, &server) != 0)
        return -1;
    rc = perf_clients_fork(&order, mode->url, &server, &rate);
    perf_stop_server(&server);
    if (rc == 0)
        *per_op_p = 1 / rate;
    return rc;
}

int perf_node_crowd(const char *url, const struct perf_options *options)
{
    static const struct perf_figure figure = {
        "crowd", "calls/s", 1, 1, 0, PERF_NODE_CROWDED};
    static struct perf_contestant contestants[PERF_CONTESTANTS_MAX];
    struct perf_node_mode modes[] = {
        {url, NA_WAIT_ADAPTIVE}, {url, NA_WAIT_BLOCK}};
    struct perf_client client;
    unsigned i;

    memset(&client, 0, sizeof(client));
    client.options = options;
    memset(contestants, 0, sizeof(contestants));
    contestants[1].series.name = "block";
    for (i = 0; i < 2; i++) {
        contestants[i].run = perf_node_run_crowd;
        contestants[i].arg = &modes[i];
    }
    if (perf_contest(&client, contestants, 2) != 0)
        return -1;
    perf_report(&figure, &contestants[0].series, &contestants[1].series);
    return 0;
}

/* ---- Death of a server ---- */

#define PERF_NODE_DEATHS 300u
#define PERF_NODE_DEATH_AIM 100.0                       /* ms */
#define PERF_NODE_DEATH_AFTER ((uint64_t) 3 * 1000000u) /* ns; clients sleep */

/* Call a server that dies during the call; the seconds from its death to the
 * end of the call. */
static int perf_node_die(struct perf_client *client, double *seconds_p)
{
    perf_value_t in;
    hg_request_t request;
    hg_return_t ret;

    in.value = perf_now_ns() + PERF_NODE_DEATH_AFTER;
    ret = HG_Forward(client->addr, client->ids.die, &in, NULL, &request);
    if (ret != HG_SUCCESS)
        return perf_fail("HG_Forward(die)", ret);
    ret = HG_Wait(request, HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);
    *seconds_p = 1e-9 * ((double) perf_now_ns() - (double) in.value);
    (void) HG_Request_free(request);
    return ret == HG_DISCONNECT ? 0 : perf_fail("HG_Wait(die)", ret);
}

static int perf_node_death(
    const char *url, const struct perf_options *options, double *seconds_p)
{
    struct perf_process server;
    struct perf_client guest;
    int rc;

    if (perf_start_server(url, PERF_OURS, options, &server) != 0)
        return -1;
    memset(&guest, 0, sizeof(guest));
    guest.options = options;
    rc = perf_meet(&guest, url, &server);
    if (rc == 0) {
        rc = perf_node_die(&guest, seconds_p);
        perf_part(&guest);
    }
    perf_stop_server(&server);
    return rc;
}

int perf_node_deaths(const char *url, const struct perf_options *options)
{
    static const struct perf_figure median = {
        "death_median", "ms", 1e3, 0, PERF_NODE_DEATH_AIM, 0};
    static const struct perf_figure p99 = {
        "death_p99", "ms", 1e3, 0, PERF_NODE_DEATH_AIM, 0};
    static double times[PERF_NODE_DEATHS];
    /* One round: --quick. */
    unsigned count = options->rounds > 1 ? PERF_NODE_DEATHS : 2;
    unsigned i;

    for (i = 0; i < count; i++) {
        if (perf_node_death(url, options, &times[i]) != 0)
            return -1;
    }
    perf_sort(times, count);
    perf_report_value(&median, 1e3 * perf_quantile(times, count, 0.5));
    perf_report_value(&p99, 1e3 * perf_quantile(times, count, 0.99));
    return 0;
}

#endif
