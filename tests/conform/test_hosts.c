/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two hosts: two network namespaces connected by a veth pair, which loses
 * packets or goes down. The case is one host, the role `host` is the other.
 *
 *     here                               there
 *       192.0.2.1/24  === veth pair ===    192.0.2.2/24
 *       calls, owns memory                 serves, pulls and pushes
 *
 * The namespaces end with their processes. They need root, ip(8), and for the
 * packet loss iptables(8): few kernels have netem of tc(8).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "rpc.h"

#include <sched.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#define HOSTS_HERE "192.0.2.1"
#define HOSTS_THERE "192.0.2.2"
#define HOSTS_LOSS "0.02" /* of the packets each host receives */
#define HOSTS_DEATH_MS hg_test_scaled_ms(2000u)
#define HOSTS_LOOKUP_MS hg_test_scaled_ms(1000u)
#define HOSTS_MARGIN_MS hg_test_scaled_ms(1000u)
#define HOSTS_BYTES ((size_t) 4 << 20)

MERCURY_GEN_PROC(hosts_move_t, ((hg_bulk_t) (bulk))((uint32_t) (rounds)))

static hg_id_t hosts_inc_id, hosts_keep_id, hosts_move_id;

/* ---- Hosts ---- */

/* Whether the command succeeded. */
__attribute__((format(printf, 1, 2))) static bool hosts_try(
    const char *format, ...)
{
    char command[512];
    va_list args;

    va_start(args, format);
    (void) vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    return system(command) == 0;
}

/* Move this process into its own namespace. */
static void hosts_leave(void)
{
    if (geteuid() != 0)
        hg_test_skip("only root can create network namespaces");
    if (!hosts_try("ip link >/dev/null 2>&1"))
        hg_test_skip("ip(8) is not installed");
    if (unshare(CLONE_NEWNET) != 0)
        hg_test_skip("network namespaces are not available");
}

/* Our end of the veth pair. */
static void hosts_plug(const char *device, const char *address)
{
    HG_CHECK(hosts_try("ip link set lo up && ip addr add %s/24 dev %s && "
                       "ip link set %s up",
        address, device, device));
}

/* Drop packets of a device, which need not exist yet. */
static void hosts_drop(const char *device)
{
    if (!hosts_try("iptables -A INPUT -i %s -m statistic --mode random "
                   "--probability " HOSTS_LOSS " -j DROP",
            device))
        hg_test_skip("iptables(8) with the match statistic is not installed");
}

/* Run a command on the other host. */
#define HOSTS_THERE_DO(end, command) \
    HG_CHECK(hosts_try( \
        "nsenter -t %ld -n " command, (long) hg_test_peer_pid((end)->peer)))

/* How many packets a host has lost; `prefix` runs a command there. */
static unsigned long hosts_lost(const char *prefix)
{
    unsigned long count = 0;
    char command[128];
    FILE *pipe;

    (void) snprintf(command, sizeof(command),
        "%s iptables -nvxL INPUT | awk '/DROP/ { print $1 }'", prefix);
    pipe = popen(command, "r");
    HG_CHECK(pipe != NULL && fscanf(pipe, "%lu", &count) == 1);
    HG_CHECK(pclose(pipe) == 0);
    return count;
}

static uint64_t hosts_now_ms(void)
{
    struct timespec now;

    HG_CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* ---- Functions ---- */

static hg_return_t hosts_keep(hg_handle_t handle)
{
    (void) handle; /* HG_Finalize answers it */
    return HG_SUCCESS;
}

/* Report to the case how a transfer ended, and how long it took. */
static void hosts_report(hg_return_t ret, uint64_t started)
{
    char line[64];

    (void) snprintf(
        line, sizeof(line), "%d %" PRIu64, (int) ret, hosts_now_ms() - started);
    hg_test_write_parent(line);
}

/* Add 1 to each byte of the caller's memory, so many times; 0: until it fails.
 * The first round and the failure are reported to the case. */
static hg_return_t hosts_move(hg_handle_t handle)
{
    static unsigned char bytes[HOSTS_BYTES];
    hosts_move_t in;
    hg_return_t ret = HG_Handler_get_input(handle, &in);
    uint64_t started = 0;
    uint32_t round;
    size_t i;

    HG_CHECK_OK(ret);
    for (round = 1; ret == HG_SUCCESS; round++) {
        started = hosts_now_ms();
        ret = HG_Bulk_pull(handle, in.bulk, 0, bytes, sizeof(bytes));
        for (i = 0; i < sizeof(bytes); i++)
            bytes[i]++;
        if (ret == HG_SUCCESS)
            ret = HG_Bulk_push(handle, in.bulk, 0, bytes, sizeof(bytes));
        if (in.rounds == 0 && round == 1)
            hosts_report(ret, started);
        if (round == in.rounds)
            break;
    }
    if (ret != HG_SUCCESS)
        hosts_report(ret, started);
    (void) HG_Handler_free_input(handle, &in);
    (void) HG_Handler_start_output(handle, NULL);
    return HG_Handler_free(handle);
}

static void rpc_register(void)
{
    hosts_inc_id = MERCURY_REGISTER("inc", rpc_one_t, rpc_one_t, rpc_inc);
    hosts_keep_id = MERCURY_REGISTER("keep", rpc_one_t, void, hosts_keep);
    hosts_move_id = MERCURY_REGISTER("move", hosts_move_t, void, hosts_move);
}

/* ---- Endpoints ---- */

static void hosts_start(struct rpc_end *end, const char *host)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char string[128];

    info.death_ms = HOSTS_DEATH_MS;
    info.lookup_ms = HOSTS_LOOKUP_MS;
    (void) snprintf(
        string, sizeof(string), "%s://%s:0", hg_test_transport(), host);
    end->na_class = NA_Initialize_opt(string, NA_TRUE, &info);
    HG_CHECK(end->na_class != NULL);
    HG_CHECK_OK(HG_Init(end->na_class));
    rpc_register();
}

HG_TEST_ROLE(host)
{
    struct rpc_end end;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log("");
    memset(&end, 0, sizeof(end));
    hosts_leave();
    hg_test_write_parent("the cable?");
    free(hg_test_read_parent());
    if (strcmp(argv[0], "lossy") == 0)
        hosts_drop("there");
    hosts_plug("there", HOSTS_THERE);
    hosts_start(&end, HOSTS_THERE);
    rpc_serve(&end);
    rpc_end(&end);
}

/* Both hosts; the address of the other is kept for later lookups. */
static void hosts_open(
    struct rpc_end *end, bool lossy, char address[NA_MAX_ADDR_LEN])
{
    char *text;

    hg_test_allow_log(""); /* only codes and times are checked */
    memset(end, 0, sizeof(*end));
    hosts_leave();
    if (lossy)
        hosts_drop("here");
    end->peer = hg_test_spawn("host", lossy ? "lossy" : "", (char *) NULL);
    free(hg_test_read_peer(end->peer));
    if (!hosts_try("ip link add here type veth peer name there netns %ld",
            (long) hg_test_peer_pid(end->peer)))
        hg_test_skip("veth pairs are not available");
    hosts_plug("here", HOSTS_HERE);
    hg_test_write_peer(end->peer, "it is there");
    text = hg_test_read_peer(end->peer);
    (void) snprintf(address, NA_MAX_ADDR_LEN, "%s", text);
    free(text);
    hosts_start(end, HOSTS_HERE);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end->na_class, address, RPC_TIMEOUT, &end->target));
}

static void hosts_call(const struct rpc_end *end)
{
    rpc_one_t one = {41};

    HG_CHECK_OK(rpc_call(end, hosts_inc_id, &one, &one));
    HG_CHECK_EQ_INT(one.value, 42);
}

/* Many calls at once. */
static void hosts_call_many(const struct rpc_end *end)
{
    enum { COUNT = 50 };
    hg_request_t requests[COUNT];
    rpc_one_t numbers[COUNT];
    int i;

    for (i = 0; i < COUNT; i++) {
        numbers[i].value = i;
        requests[i] =
            rpc_start_call(end, hosts_inc_id, &numbers[i], &numbers[i]);
    }
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_OK(rpc_wait(requests[i]));
        HG_CHECK_EQ_INT(numbers[i].value, i + 1);
        HG_CHECK_OK(HG_Request_free(requests[i]));
    }
}

static unsigned char *hosts_describe(hosts_move_t *move, uint32_t rounds)
{
    unsigned char *bytes = rpc_new_pattern(HOSTS_BYTES, rounds);
    void *ptr = bytes;
    size_t size = HOSTS_BYTES;

    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READWRITE, &move->bulk));
    move->rounds = rounds;
    return bytes;
}

/* Memory of ours is pulled and pushed back, twice. */
static void hosts_exchange(const struct rpc_end *end)
{
    hosts_move_t move;
    unsigned char *bytes = hosts_describe(&move, 2);
    unsigned char *wanted = rpc_new_pattern(HOSTS_BYTES, 2);
    size_t i;

    HG_CHECK_OK(rpc_call(end, hosts_move_id, &move, NULL));
    HG_CHECK_OK(HG_Bulk_handle_free(move.bulk));
    for (i = 0; i < HOSTS_BYTES; i++)
        wanted[i] = (unsigned char) (wanted[i] + 2);
    HG_CHECK_EQ_MEM(bytes, wanted, HOSTS_BYTES);
    free(wanted);
    free(bytes);
}

/* Wait for operations that the link failure ends, not longer than
 * documented. */
static void hosts_disconnects(hg_request_t request, uint64_t cut)
{
    uint64_t took;

    HG_CHECK_RET(rpc_wait(request), HG_DISCONNECT);
    took = hosts_now_ms() - cut;
    if (took > HOSTS_DEATH_MS + HOSTS_MARGIN_MS)
        hg_test_fail(HG_TEST_HERE, "%" PRIu64 " ms after the cut", took);
    HG_CHECK_OK(HG_Request_free(request));
}

/* The address is dead, and a lookup of its name fails. */
static void hosts_is_gone(const struct rpc_end *end, const char *address)
{
    uint64_t started = hosts_now_ms();
    na_addr_t addr;
    hg_request_t late;
    rpc_one_t one = {1};

    HG_CHECK_RET(HG_Forward(end->target, hosts_inc_id, &one, NULL, &late),
        HG_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(end->na_class, end->target));
    HG_CHECK_RET(
        NA_Addr_lookup_wait(end->na_class, address, RPC_TIMEOUT, &addr),
        NA_HOSTUNREACH);
    HG_CHECK(hosts_now_ms() - started <= HOSTS_LOOKUP_MS + HOSTS_MARGIN_MS);
}

/* The link is up again. */
static void hosts_is_back(struct rpc_end *end, const char *address)
{
    uint64_t started = hosts_now_ms();

    /* The first packets may be lost before the link is up again. */
    while (NA_Addr_lookup_wait(
               end->na_class, address, RPC_TIMEOUT, &end->target) != NA_SUCCESS)
        HG_CHECK(hosts_now_ms() - started < RPC_TIMEOUT);
    hosts_call(end);
    hosts_exchange(end);
}

/* ---- Cases ---- */

HG_TEST_WHERE(hosts_lose_packets, hg_test_crosses_hosts)
{
    char address[NA_MAX_ADDR_LEN], prefix[32];
    struct rpc_end end;

    hosts_open(&end, true, address);
    (void) snprintf(prefix, sizeof(prefix), "nsenter -t %ld -n",
        (long) hg_test_peer_pid(end.peer));
    do {
        hosts_call_many(&end);
        hosts_exchange(&end);
    } while (hosts_lost("") < 5 || hosts_lost(prefix) < 5);
    rpc_close(&end);
}

HG_TEST_WHERE(hosts_without_a_link_end_their_calls, hg_test_crosses_hosts)
{
    enum { COUNT = 20 };
    char address[NA_MAX_ADDR_LEN];
    hg_request_t requests[COUNT];
    rpc_one_t one = {1};
    struct rpc_end end;
    uint64_t cut;
    int i;

    hosts_open(&end, false, address);
    for (i = 0; i < COUNT; i++)
        requests[i] = rpc_start_call(&end, hosts_keep_id, &one, NULL);
    hosts_call(&end); /* all have arrived */
    HG_CHECK(hosts_try("ip link set here down"));
    cut = hosts_now_ms();
    for (i = 0; i < COUNT; i++)
        hosts_disconnects(requests[i], cut);
    hosts_is_gone(&end, address);
    HG_CHECK(hosts_try("ip link set here up"));
    hosts_is_back(&end, address);
    rpc_close(&end);
}

HG_TEST_WHERE(hosts_without_a_link_end_their_transfers, hg_test_crosses_hosts)
{
    char address[NA_MAX_ADDR_LEN];
    hg_request_t request;
    hosts_move_t move;
    unsigned char *bytes;
    struct rpc_end end;
    char *line, *took;
    uint64_t cut;

    hosts_open(&end, false, address);
    bytes = hosts_describe(&move, 0);
    request = rpc_start_call(&end, hosts_move_id, &move, NULL);
    HG_CHECK_RET(
        HG_Wait(request, HOSTS_DEATH_MS / 4, HG_STATUS_IGNORE), HG_TIMEOUT);
    line = hg_test_read_peer(end.peer); /* the first round has ended */
    HG_CHECK_OK(strtol(line, NULL, 10));
    free(line);
    HOSTS_THERE_DO(&end, "ip link set there down");
    cut = hosts_now_ms();
    hosts_disconnects(request, cut);
    HG_CHECK_OK(HG_Bulk_handle_free(move.bulk));
    free(bytes);
    line = hg_test_read_peer(end.peer);
    HG_CHECK_RET(strtol(line, &took, 10), HG_DISCONNECT);
    HG_CHECK(strtoul(took, NULL, 10) <= HOSTS_DEATH_MS + HOSTS_MARGIN_MS);
    free(line);
    hosts_is_gone(&end, address);
    HOSTS_THERE_DO(&end, "ip link set there up");
    hosts_is_back(&end, address);
    rpc_close(&end);
}

/* A link failure shorter than death_ms ends nothing. */
HG_TEST_WHERE(hosts_survive_a_short_link_failure, hg_test_crosses_hosts)
{
    char address[NA_MAX_ADDR_LEN];
    hg_request_t request;
    rpc_one_t one = {1};
    struct rpc_end end;

    hosts_open(&end, false, address);
    hosts_call(&end);
    HOSTS_THERE_DO(&end, "ip link set there down");
    request = rpc_start_call(&end, hosts_inc_id, &one, &one);
    HG_CHECK_RET(
        HG_Wait(request, HOSTS_DEATH_MS / 4, HG_STATUS_IGNORE), HG_TIMEOUT);
    HOSTS_THERE_DO(&end, "ip link set there up");
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_EQ_INT(one.value, 2);
    HG_CHECK_OK(HG_Request_free(request));
    hosts_exchange(&end);
    rpc_close(&end);
}
