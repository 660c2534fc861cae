/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that uses libzmq alone: a server, or a client that runs rounds of
 * one kind and prints a line for each; see raw_zmq.h for its purpose.
 *
 * cc -O2 tests/perf/raw_zmq.c tests/perf/raw_zmq_main.c -lzmq
 *
 * hg_perf links raw_zmq.c without this file.
 */
#define _POSIX_C_SOURCE 200809L

#include "raw_zmq.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t raw_zmq_signaled;

static void raw_zmq_on_signal(int number)
{
    (void) number;
    raw_zmq_signaled = 1;
}

static void raw_zmq_print_ready(const char *endpoint, void *arg)
{
    (void) arg;
    printf("raw_zmq listening %s\n", endpoint);
    fflush(stdout);
}

static int raw_zmq_main_server(const char *endpoint)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = raw_zmq_on_signal; /* no SA_RESTART: receives end */
    (void) sigaction(SIGINT, &action, NULL);
    (void) sigaction(SIGTERM, &action, NULL);
    return raw_zmq_serve(
        endpoint, raw_zmq_print_ready, NULL, &raw_zmq_signaled);
}

static void raw_zmq_print(
    const struct raw_zmq_round *round, const struct raw_zmq_result *result)
{
    const double per_op = result->seconds / (double) result->ops;

    printf("raw_zmq %s size=%zu window=%u wait=%s ops=%llu seconds=%.4f "
           "us_per_op=%.3f",
        raw_zmq_kind_name(round->kind), round->size, round->window,
        raw_zmq_wait_name(round->wait), (unsigned long long) result->ops,
        result->seconds, per_op * 1e6);
    if (round->kind == RAW_ZMQ_ECHO)
        printf(" ops_per_s=%.0f\n", 1.0 / per_op);
    else
        printf(" frame=%zu gb_per_s=%.3f\n", round->frame,
            (double) round->size / per_op * 1e-9);
    fflush(stdout);
}

/* The index of a name in a list of n, or -1. */
static int raw_zmq_choice(const char *name, const char *(*nth)(int), int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (strcmp(name, nth(i)) == 0)
            return i;
    return -1;
}

static const char *raw_zmq_nth_kind(int i)
{
    return raw_zmq_kind_name((enum raw_zmq_kind) i);
}

static const char *raw_zmq_nth_wait(int i)
{
    return raw_zmq_wait_name((enum raw_zmq_wait) i);
}

/* A positive number, with K, M or G for powers of 1024; 0 if it is none. */
static size_t raw_zmq_number(const char *text)
{
    char *end;
    unsigned long long number;
    unsigned shift = 0;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (*end == 'K')
        shift = 10;
    else if (*end == 'M')
        shift = 20;
    else if (*end == 'G')
        shift = 30;
    if (shift != 0)
        end++;
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' ||
        number > (SIZE_MAX >> 1 >> shift))
        return 0;
    return (size_t) number << shift;
}

struct raw_zmq_args {
    const char *server;
    const char *client;
    int stop;
    size_t rounds;
    struct raw_zmq_round round;
};

static int raw_zmq_usage(void)
{
    fprintf(stderr,
        "usage: raw_zmq --server ENDPOINT\n"
        "       raw_zmq --client ENDPOINT [--mode echo|pull|push]\n"
        "               [--wait block|yield|spin|follow] [--size BYTES]\n"
        "               [--frame BYTES] [--window N] [--seconds S]\n"
        "               [--rounds N] [--stop]\n"
        "Sizes take K, M and G.  --stop ends the server afterwards.\n");
    return -1;
}

/* Apply one option with its value; -1 if either is unknown. */
static int raw_zmq_option(
    struct raw_zmq_args *args, const char *name, const char *value)
{
    struct raw_zmq_round *round = &args->round;
    int choice = 0;
    size_t number = 1;
    char *end;

    if (strcmp(name, "--server") == 0)
        args->server = value;
    else if (strcmp(name, "--client") == 0)
        args->client = value;
    else if (strcmp(name, "--mode") == 0) {
        choice = raw_zmq_choice(value, raw_zmq_nth_kind, RAW_ZMQ_PUSH + 1);
        round->kind = (enum raw_zmq_kind) choice;
    } else if (strcmp(name, "--wait") == 0) {
        choice = raw_zmq_choice(value, raw_zmq_nth_wait, RAW_ZMQ_FOLLOW + 1);
        round->wait = (enum raw_zmq_wait) choice;
    } else if (strcmp(name, "--size") == 0)
        number = round->size = raw_zmq_number(value);
    else if (strcmp(name, "--frame") == 0)
        number = round->frame = raw_zmq_number(value);
    else if (strcmp(name, "--rounds") == 0)
        number = args->rounds = raw_zmq_number(value);
    else if (strcmp(name, "--window") == 0) {
        number = raw_zmq_number(value);
        number = number > 65536 ? 0 : number;
        round->window = (unsigned) number;
    } else if (strcmp(name, "--seconds") == 0) {
        round->seconds = strtod(value, &end);
        if (end == value || *end != '\0' || !(round->seconds > 0) ||
            round->seconds > 3600)
            return -1;
    } else
        return -1;
    return choice < 0 || number == 0 ? -1 : 0;
}

static int raw_zmq_parse(int argc, char **argv, struct raw_zmq_args *args)
{
    int i;

    memset(args, 0, sizeof(*args));
    args->rounds = 1;
    args->round.wait = RAW_ZMQ_BLOCK;
    args->round.seconds = 0.3;
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--stop") == 0)
            args->stop = 1;
        else if (i + 1 >= argc ||
            raw_zmq_option(args, argv[i], argv[i + 1]) != 0)
            return raw_zmq_usage();
        else
            i++;
    }
    if ((args->server == NULL) == (args->client == NULL))
        return raw_zmq_usage();
    if (args->round.size == 0)
        args->round.size =
            args->round.kind == RAW_ZMQ_ECHO ? 64 : (size_t) 64 << 20;
    if (args->round.frame == 0)
        args->round.frame = (size_t) 1 << 20;
    if (args->round.window == 0)
        args->round.window = args->round.kind == RAW_ZMQ_ECHO ? 1 : 8;
    return 0;
}

static int raw_zmq_main_client(const struct raw_zmq_args *args)
{
    struct raw_zmq *client;
    struct raw_zmq_result result;
    size_t i;
    int rc;

    if (raw_zmq_open(args->client, &client) != 0)
        return -1;
    rc = 0;
    for (i = 0; rc == 0 && i < args->rounds; i++) {
        rc = raw_zmq_run(client, &args->round, &result);
        if (rc == 0)
            raw_zmq_print(&args->round, &result);
    }
    if (rc == 0 && args->stop)
        rc = raw_zmq_stop(client);
    raw_zmq_close(client);
    return rc;
}

int main(int argc, char **argv)
{
    struct raw_zmq_args args;
    int rc = raw_zmq_parse(argc, argv, &args);

    if (rc == 0)
        rc = args.server != NULL ? raw_zmq_main_server(args.server)
                                 : raw_zmq_main_client(&args);
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
