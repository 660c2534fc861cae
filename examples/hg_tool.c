/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_tool: queries a running server, given only its address.
 *
 *     hg_tool ADDRESS ping [COUNT]
 *     hg_tool ADDRESS version
 *     hg_tool ADDRESS list
 *     hg_tool ADDRESS stats [FUNCTION]
 *     hg_tool ADDRESS calls FUNCTION
 *
 * It calls the functions that the library itself serves in every program
 * (HG_BUILTIN_PING, ...), unless the program sets the option `no_builtins`.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "hg.h"
#include "peer.h"
#include "usage.h"

#define TOOL_MS 5000 /* for each call */
#define TOOL_PINGS 10
#define TOOL_PINGS_MAX 1000000

static const char tool_help[] =
    "usage: hg_tool ADDRESS COMMAND\n"
    "\n"
    "Queries a running server that uses the library.\n"
    "\n"
    "  ping [COUNT]       measure the time of COUNT calls (10)\n"
    "  version            print the version of the server's library\n"
    "  list               list the functions that the server serves\n"
    "  stats              print the counters of the server's library\n"
    "  stats FUNCTION     print how long calls of FUNCTION took at the server\n"
    "  calls FUNCTION     print how long calls of FUNCTION took that the\n"
    "                     server itself made to others\n"
    "\n"
    "  -h, --help         print this text\n"
    "  --version          print the version of hg_tool\n"
    "\n"
    "The server counts call times only if it sets the option histograms of\n"
    "struct hg_options or struct hg_init_info.\n"
    "Each call has a timeout of 5 seconds.\n"
    "\n"
    "Examples:\n"
    "  hg_tool zmq+tcp://127.0.0.1:7701 ping 1000\n"
    "  hg_tool sm://hello list\n";

/* Print why a call failed. */
static hg_return_t tool_fail(hg_return_t ret, const char *text)
{
    if (text[0] == '\0')
        return peer_report("hg_tool", ret);
    (void) fprintf(stderr, "hg_tool: %s\n", text);
    return ret;
}

static const char tool_off[] =
    "the server does not respond to hg_tool: it sets the option no_builtins of "
    "struct hg_options or struct hg_init_info";

/* Whether the server does not have the built-in function itself. */
static bool tool_is_unknown(hg_id_t id, hg_return_t ret, const char *text)
{
    char number[17];

    (void) snprintf(number, sizeof(number), "%016" PRIx64, id);
    return ret == HG_NOENTRY && strstr(text, number) != NULL;
}

/* Make one call. If it succeeds, the caller frees the request; the text of the
 * answer lives until then. */
static hg_return_t tool_ask(const struct peer *peer, hg_id_t id,
    hg_builtin_t *question, hg_builtin_t *answer, hg_request_t *request)
{
    hg_return_t ret =
        HG_Forward_timed(peer->addr, id, question, answer, TOOL_MS, request);

    if (ret != HG_SUCCESS)
        return tool_fail(ret, HG_Get_last_error_text());
    ret = peer_wait(*request);
    if (ret != HG_SUCCESS) {
        const char *text = HG_Get_error_text(*request);

        ret = tool_fail(ret, tool_is_unknown(id, ret, text) ? tool_off : text);
        (void) HG_Request_free(*request);
    }
    return ret;
}

/* Call and print the text. An answer in parts holds the number with which to
 * ask for the next part; 0: it is the last part. */
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
        if (next <= question->number) /* it would not end */
            next = 0;
        question->number = next;
    } while (next != 0);
    return HG_SUCCESS;
}

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
            ret = tool_fail(HG_PROTOCOL_ERROR, "the answer is wrong");
        (void) HG_Request_free(request);
        if (ret != HG_SUCCESS)
            return ret;
    }
    printf("%" PRIu64 " answers; us: min %.1f, mean %.1f, p99 %.1f, max %.1f\n",
        times.count, tool_us(times.min_ns), tool_us(times.sum_ns / times.count),
        tool_us(HG_Histogram_percentile(&times, 99)), tool_us(times.max_ns));
    return HG_SUCCESS;
}

/* The commands, and how many arguments each takes. */
static const struct {
    const char *name;
    const char *function;
    int args_min;
    int args_max;
} tool_commands[] = {{"ping", HG_BUILTIN_PING, 0, 1},
    {"version", HG_BUILTIN_VERSION, 0, 0}, {"list", HG_BUILTIN_LIST, 0, 0},
    {"stats", HG_BUILTIN_STATS, 0, 1}, {"calls", HG_BUILTIN_STATS, 1, 1}};

#define TOOL_COMMANDS (sizeof(tool_commands) / sizeof(tool_commands[0]))

/* Run a command at a server; `word` is its argument or NULL. */
static hg_return_t tool_run(
    const struct peer *peer, size_t command, char *word, unsigned long count)
{
    hg_builtin_t question = {0, NULL};
    const char *name = tool_commands[command].name;
    hg_id_t id = HG_Register(tool_commands[command].function,
        hg_proc_hg_builtin_t, hg_proc_hg_builtin_t, NULL);

    if (id == 0)
        return HG_OTHER_ERROR;
    if (strcmp(name, "ping") == 0)
        return tool_ping(peer, id, count);
    question.number = strcmp(name, "calls") == 0 ? 1 : 0;
    question.text = word;
    return tool_print(peer, id, &question, strcmp(name, "list") == 0);
}

/* Find the command and check its arguments; 0 or USAGE_ERROR. */
static int tool_parse(
    int argc, char *argv[], size_t *command_p, unsigned long *count_p)
{
    size_t i = 0;

    if (argc > 1 && argv[1][0] == '-')
        return usage_error("hg_tool", "unknown option '%s'", argv[1]);
    if (argc < 3)
        return usage_error("hg_tool", "expects ADDRESS and COMMAND");
    while (i < TOOL_COMMANDS && strcmp(argv[2], tool_commands[i].name) != 0)
        i++;
    if (i == TOOL_COMMANDS)
        return usage_error("hg_tool", "unknown command '%s'", argv[2]);
    if (argc - 3 < tool_commands[i].args_min)
        return usage_error("hg_tool", "%s expects FUNCTION", argv[2]);
    if (argc - 3 > tool_commands[i].args_max)
        return usage_error("hg_tool", "too many arguments of %s", argv[2]);
    *count_p = TOOL_PINGS;
    if (argc == 4 && strcmp(argv[2], "ping") == 0)
        *count_p = usage_number(argv[3], TOOL_PINGS_MAX);
    if (*count_p == 0)
        return usage_error(
            "hg_tool", "COUNT is a number from 1 to %d", TOOL_PINGS_MAX);
    *command_p = i;
    return 0;
}

int main(int argc, char *argv[])
{
    unsigned long count;
    struct peer peer;
    size_t command = 0;
    hg_return_t ret;

    if (usage_is_printed(argc, argv, "hg_tool", tool_help))
        return 0;
    if (tool_parse(argc, argv, &command, &count) != 0)
        return USAGE_ERROR;
    peer_catch_signals();
    ret = peer_connect(&peer, argv[1]);
    if (ret != HG_SUCCESS)
        return 1;
    ret = tool_run(&peer, command, argv[3], count);
    peer_close(&peer);
    return ret != HG_SUCCESS;
}
