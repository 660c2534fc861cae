/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts: two network namespaces connected by a veth pair. The case is one host,
 * the role `host` is the other.
 *
 *     here                               there
 *       192.0.2.1/24  === veth pair ===    192.0.2.2/24
 *       calls, owns memory                 serves, pulls and pushes
 *
 * The namespaces end with their processes. They need root, ip(8), and for the
 * packet loss iptables(8): few kernels have netem of tc(8).
 */
#ifndef HG_TESTS_CONFORM_HOSTS_H
#define HG_TESTS_CONFORM_HOSTS_H

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
#define HOSTS_LATE 20 /* times the time that something should take */
#define HOSTS_BYTES ((size_t) 4 << 20)

MERCURY_GEN_PROC(hosts_move_t, ((hg_bulk_t) (bulk))((uint32_t) (rounds)))

static hg_id_t hosts_inc_id, hosts_keep_id, hosts_move_id;

/* ---- Hosts ---- */

/* Whether the command succeeded. */
__attribute__((format(printf, 1, 2))) static inline bool hosts_try(
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
static inline void hosts_leave(void)
{
    if (hg_test_is_valgrind())
        hg_test_skip("valgrind also checks ip(8), which leaks");
    if (geteuid() != 0)
        hg_test_skip("only root can create network namespaces");
    if (!hosts_try("ip link >/dev/null 2>&1"))
        hg_test_skip("ip(8) is not installed");
    if (unshare(CLONE_NEWNET) != 0)
        hg_test_skip("network namespaces are not available");
}

/* Our end of the veth pair. */
static inline void hosts_plug(const char *device, const char *address)
{
    HG_CHECK(hosts_try("ip link set lo up && ip addr add %s/24 dev %s && "
                       "ip link set %s up",
        address, device, device));
}

/* Drop packets of a device, which need not exist yet. */
static inline void hosts_drop(const char *device)
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
static inline unsigned long hosts_lost(const char *prefix)
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

static inline uint64_t hosts_now_ms(void)
{
    struct timespec now;

    HG_CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* ---- Functions ---- */

static inline hg_return_t hosts_keep(hg_handle_t handle)
{
    (void) handle; /* HG_Finalize answers it */
    return HG_SUCCESS;
}

/* Report to the case how a transfer ended, and how long it took. */
static inline void hosts_report(hg_return_t ret, uint64_t started)
{
    char line[64];

    (void) snprintf(
        line, sizeof(line), "%d %" PRIu64, (int) ret, hosts_now_ms() - started);
    hg_test_write_parent(line);
}

/* Add 1 to each byte of the caller's memory, so many times; 0: until it fails.
 * The first round and the failure are reported to the case. */
static inline hg_return_t hosts_move(hg_handle_t handle)
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

static inline void rpc_register(void)
{
    hosts_inc_id = MERCURY_REGISTER("inc", rpc_one_t, rpc_one_t, rpc_inc);
    hosts_keep_id = MERCURY_REGISTER("keep", rpc_one_t, void, hosts_keep);
    hosts_move_id = MERCURY_REGISTER("move", hosts_move_t, void, hosts_move);
}

/* ---- Endpoints ---- */

static inline void hosts_start(
    struct rpc_end *end, const char *host, na_bool_t listen)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char string[128];

    info.death_ms = HOSTS_DEATH_MS;
    info.lookup_ms = HOSTS_LOOKUP_MS;
    (void) snprintf(
        string, sizeof(string), "%s://%s:0", hg_test_transport(), host);
    end->na_class = NA_Initialize_opt(string, listen, &info);
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
    hosts_start(&end, HOSTS_THERE, NA_TRUE);
    rpc_serve(&end);
    rpc_end(&end);
}

/* Both hosts are connected; the other one listens at `address`. */
static inline void hosts_join(
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
}

/* Both hosts; the address of the other is kept for later lookups. */
static inline void hosts_open(
    struct rpc_end *end, bool lossy, char address[NA_MAX_ADDR_LEN])
{
    hosts_join(end, lossy, address);
    hosts_start(end, HOSTS_HERE, NA_TRUE);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end->na_class, address, RPC_TIMEOUT, &end->target));
}

static inline void hosts_call(const struct rpc_end *end)
{
    rpc_one_t one = {41};

    HG_CHECK_OK(rpc_call(end, hosts_inc_id, &one, &one));
    HG_CHECK_EQ_INT(one.value, 42);
}

/* Many calls at once. */
static inline void hosts_call_many(const struct rpc_end *end)
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

static inline unsigned char *hosts_describe(hosts_move_t *move, uint32_t rounds)
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
static inline void hosts_exchange(const struct rpc_end *end)
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

#endif
