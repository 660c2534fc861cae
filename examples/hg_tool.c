/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_tool: ask a running program what there is, by its address alone.
 *
 *     hg_tool ADDRESS ping [COUNT]      how long it takes to answer
 *     hg_tool ADDRESS version           what it is
 *     hg_tool ADDRESS list              which functions it serves
 *     hg_tool ADDRESS stats             what it has done
 *     hg_tool ADDRESS stats FUNCTION    how long those calls took there
 *     hg_tool ADDRESS calls FUNCTION    how long those made from there took
 *     hg_tool info                      about this program: as hg_info
 *
 * It calls what every program with this library serves (HG_BUILTIN_PING, ...),
 * unless it was told not to. Each call has five seconds.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hg.h"
#include "info.h"
#include "peer.h"
#include "stop.h"

#define TOOL_MS 5000
#define TOOL_PINGS 10
#define TOOL_PINGS_MAX 1000000

/* One question. The answer's text lives until the request is freed, which is
 * the caller's if it succeeds. */
static hg_return_t tool_ask(const struct peer *peer, hg_id_t id,
    hg_builtin_t *question, hg_builtin_t *answer, hg_request_t *request)
{
    hg_return_t ret =
        HG_Forward_timed(peer->addr, id, question, answer, TOOL_MS, request);

    if (ret != HG_SUCCESS)
        return ret;
    ret = stop_wait(*request);
    if (ret != HG_SUCCESS) {
        const char *text = HG_Get_error_text(*request);

        if (text[0] != '\0')
            (void) fprintf(stderr, "%s\n", text);
        (void) HG_Request_free(*request);
    }
    return ret;
}

/* Ask, and print the text; as often as the answer says that there is more. */
static hg_return_t tool_print(
    const struct peer *peer, hg_id_t id, hg_builtin_t *question, bool parts)
{
    hg_builtin_t answer;
    hg_request_t request;
    uint64_t next;
    hg_return_t ret;

    do {
        ret = tool_ask(peer, id, question, &answer, &request);
        if (ret != HG_SUCCESS)
            return ret;
        if (answer.text != NULL)
            printf("%s", answer.text);
        next = parts ? answer.number : 0;
        (void) HG_Request_free(request);
        if (next <= question->number) /* no way forward */
            next = 0;
        question->number = next;
    } while (next != 0);
    return HG_SUCCESS;
}

/* The time, in microseconds, of a clock that HG_Histogram_add wants in ns. */
static double tool_us(uint64_t ns)
{
    return (double) ns / 1000.0;
}

static uint64_t tool_now(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

static hg_return_t tool_ping(
    const struct peer *peer, hg_id_t id, unsigned long count)
{
    struct hg_histogram times;
    unsigned long i;

    memset(&times, 0, sizeof(times));
    for (i = 0; i < count; i++) {
        hg_builtin_t question = {i, NULL};
        uint64_t began = tool_now();
        hg_builtin_t answer;
        hg_request_t request;
        hg_return_t ret = tool_ask(peer, id, &question, &answer, &request);

        if (ret != HG_SUCCESS)
            return ret;
        (void) HG_Histogram_add(&times, tool_now() - began);
        if (answer.number != i)
            ret = HG_PROTOCOL_ERROR;
        (void) HG_Request_free(request);
        if (ret != HG_SUCCESS)
            return ret;
    }
    printf("%" PRIu64 " answers; us: min %.1f, mean %.1f, p99 %.1f, max %.1f\n",
        times.count, tool_us(times.min_ns), tool_us(times.sum_ns / times.count),
        tool_us(HG_Histogram_percentile(&times, 99)), tool_us(times.max_ns));
    return HG_SUCCESS;
}

/* The number of pings wanted; 0: that is none. */
static unsigned long tool_count(const char *text)
{
    char *end;
    unsigned long count = strtoul(text, &end, 10);

    return *end == '\0' && text[0] != '-' && count <= TOOL_PINGS_MAX ? count
                                                                     : 0;
}

/* What can be asked, and with how many words. */
static const struct {
    const char *word;
    const char *function;
    int words_min;
    int words_max;
} tool_commands[] = {{"ping", HG_BUILTIN_PING, 0, 1},
    {"version", HG_BUILTIN_VERSION, 0, 0}, {"list", HG_BUILTIN_LIST, 0, 0},
    {"stats", HG_BUILTIN_STATS, 0, 1}, {"calls", HG_BUILTIN_STATS, 1, 1}};

#define TOOL_COMMANDS (sizeof(tool_commands) / sizeof(tool_commands[0]))

/* The command of a line; TOOL_COMMANDS: it is none. */
static size_t tool_find(const char *word, int words)
{
    size_t i = 0;

    while (i < TOOL_COMMANDS && strcmp(word, tool_commands[i].word) != 0)
        i++;
    if (i < TOOL_COMMANDS &&
        (words < tool_commands[i].words_min ||
            words > tool_commands[i].words_max))
        i = TOOL_COMMANDS;
    return i;
}

/* Run a command on a program; `word` may be NULL. */
static hg_return_t tool_run(const struct peer *peer, size_t command, char *word)
{
    hg_builtin_t question = {0, NULL};
    const char *name = tool_commands[command].word;
    hg_id_t id = HG_Register(tool_commands[command].function,
        hg_proc_hg_builtin_t, hg_proc_hg_builtin_t, NULL);

    if (id == 0)
        return HG_OTHER_ERROR;
    if (strcmp(name, "ping") == 0)
        return tool_ping(
            peer, id, word != NULL ? tool_count(word) : TOOL_PINGS);
    question.number = strcmp(name, "calls") == 0 ? 1 : 0;
    question.text = word;
    return tool_print(peer, id, &question, strcmp(name, "list") == 0);
}

static int tool_usage(void)
{
    (void) fprintf(stderr,
        "usage: hg_tool ADDRESS ping [COUNT] | version | list |\n"
        "               stats [FUNCTION] | calls FUNCTION\n"
        "       hg_tool info [ADDRESS]\n");
    return 2;
}

int main(int argc, char *argv[])
{
    struct peer peer;
    size_t command;
    hg_return_t ret;
    int i;

    for (i = 1; i < argc && i < 3; i++)
        if (argv[i][0] == '-') /* no address begins like that */
            return tool_usage();
    if (argc >= 2 && argc <= 3 && strcmp(argv[1], "info") == 0) {
        ret = info_print();
        if (ret == HG_SUCCESS && argc == 3)
            ret = info_print_class(argv[2]);
        return ret != HG_SUCCESS;
    }
    command = argc >= 3 ? tool_find(argv[2], argc - 3) : TOOL_COMMANDS;
    if (command == TOOL_COMMANDS ||
        (argc == 4 && strcmp(argv[2], "ping") == 0 && tool_count(argv[3]) == 0))
        return tool_usage();
    stop_on_signals();
    ret = peer_connect(&peer, argv[1]);
    if (ret != HG_SUCCESS)
        return 1;
    ret = peer_say(argv[2], tool_run(&peer, command, argv[3]));
    peer_close(&peer);
    return ret != HG_SUCCESS;
}
