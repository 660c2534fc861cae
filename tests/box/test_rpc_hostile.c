/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RPC layer over ZeroMQ and a peer that says nothing wrong, and leaves it
 * at that: it announces arguments and never sends them, has outputs made and
 * never fetches them, calls without end and takes no answer. What it can make
 * the server hold is limited, and a good client, in a process of its own, is
 * answered all the while, and soon. (What a peer can say wrong is
 * test_zmq_forged_calls.c's.)
 */
#include "zmq_stranger.h"

enum { REQUEST = 1, LARGE = 1, PLANE_RPC = 2, HEAD = 76 };

/* The longest a good call may take: it takes a millisecond, but the machine
 * may be busy. */
#define HOSTILE_SLOWEST_MS 2000u

#define HOSTILE_OUTPUT ((size_t) 1 << 18)

/* What the server's memory may grow by beyond what is counted. An address
 * sanitizer keeps a quarter of a GiB of what was freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HOSTILE_SLACK ((uint64_t) 512 << 20)
#else
#define HOSTILE_SLACK ((uint64_t) 48 << 20)
#endif

struct hostile_blob {
    uint32_t size;
    unsigned char *bytes;
};

static hg_return_t hostile_proc_blob(hg_proc_t proc, void *data)
{
    struct hostile_blob *blob = (struct hostile_blob *) data;
    hg_return_t ret = hg_proc_uint32_t(proc, &blob->size);

    if (ret != HG_SUCCESS)
        return ret;
    if (hg_proc_get_op(proc) == HG_FREE) {
        hg_proc_release(proc, blob->bytes);
        blob->bytes = NULL;
        return HG_SUCCESS;
    }
    if (hg_proc_get_op(proc) == HG_DECODE) {
        if (blob->size > hg_proc_get_size_left(proc))
            return HG_OVERFLOW;
        blob->bytes = (unsigned char *) hg_proc_alloc(proc, blob->size + 1u);
        if (blob->bytes == NULL)
            return HG_NOMEM;
    }
    return hg_proc_raw(proc, blob->bytes, blob->size);
}

static unsigned hostile_served; /* of the good client's */

static hg_return_t hostile_good(hg_handle_t handle)
{
    struct hostile_blob blob = {0, NULL};
    hg_return_t ret = HG_Handler_get_input(handle, &blob);

    if (ret != HG_SUCCESS)
        return ret;
    hostile_served++;
    HG_CHECK_OK(HG_Handler_start_output(handle, &blob));
    HG_CHECK_OK(HG_Handler_free_input(handle, &blob));
    return HG_Handler_free(handle);
}

/* An output too large for a message. */
static hg_return_t hostile_large(hg_handle_t handle)
{
    static unsigned char bytes[HOSTILE_OUTPUT];
    struct hostile_blob blob = {sizeof(bytes), bytes};
    hg_return_t ret = HG_Handler_start_output(handle, &blob);

    HG_CHECK(ret == HG_SUCCESS || ret == HG_AGAIN);
    return HG_Handler_free(handle);
}

/* Answers nobody until the case is over. */
static hg_handle_t hostile_kept[8192];
static unsigned hostile_kept_count;

static hg_return_t hostile_keep(hg_handle_t handle)
{
    HG_CHECK(hostile_kept_count < 8192);
    hostile_kept[hostile_kept_count++] = handle;
    return HG_SUCCESS;
}

static hg_id_t hostile_good_id, hostile_large_id, hostile_keep_id;

static void hostile_register(void)
{
    hostile_good_id =
        HG_Register("good", hostile_proc_blob, hostile_proc_blob, hostile_good);
    hostile_large_id =
        HG_Register("large", NULL, hostile_proc_blob, hostile_large);
    hostile_keep_id = HG_Register("keep", NULL, NULL, hostile_keep);
    HG_CHECK(hostile_good_id != 0 && hostile_large_id != 0);
}

/* Calls until told to stop; each must be answered rightly and soon. */
HG_TEST_ROLE(caller)
{
    static unsigned char bytes[150000];
    struct pollfd channel = {ENDS_CHANNEL, POLLIN, 0};
    na_class_t *na_class = NA_Initialize("zmq+tcp://", NA_FALSE);
    na_addr_t addr = NA_ADDR_NULL;
    unsigned i;

    HG_CHECK_EQ_INT(argc, 1);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(HG_Init(na_class));
    hostile_register();
    conform_fill(bytes, sizeof(bytes), 5);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(na_class, argv[0], CONFORM_PATIENCE, &addr));
    for (i = 0; poll(&channel, 1, 0) == 0; i++) {
        struct hostile_blob in = {i % 4 == 3 ? sizeof(bytes) : i % 100, bytes};
        struct hostile_blob out = {0, NULL};
        hg_request_t request = HG_REQUEST_NULL;

        HG_CHECK_OK(HG_Forward(addr, hostile_good_id, &in, &out, &request));
        HG_CHECK_OK(HG_Wait(request, HOSTILE_SLOWEST_MS, HG_STATUS_IGNORE));
        HG_CHECK_EQ_U64(out.size, in.size);
        HG_CHECK_EQ_MEM(out.bytes, in.bytes, in.size);
        HG_CHECK_OK(HG_Request_free(request));
    }
    HG_CHECK_OK(NA_Addr_free(na_class, addr));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* ---- The server ---- */

struct hostile_server {
    na_class_t *na_class;
    struct hg_test_peer *good;
    struct stranger stranger;
    uint64_t resident; /* bytes, at first */
};

static void hostile_turn(void *arg)
{
    hg_return_t ret = HG_Handler_process(1, HG_STATUS_IGNORE);

    (void) arg;
    HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
}

static struct hg_counters hostile_counters(void)
{
    struct hg_counters counters;

    counters.size = sizeof(counters);
    HG_CHECK_OK(HG_Get_counters(&counters));
    return counters;
}

/* Some calls of the good client's begin, so all but the last are answered. */
static void hostile_serve(void)
{
    uint64_t end = ends_ms() + CONFORM_PATIENCE;
    unsigned before = hostile_served;

    while (hostile_served < before + 9) {
        HG_CHECK(ends_ms() < end);
        hostile_turn(NULL);
    }
}

/* The most memory this process ever had. */
static uint64_t hostile_resident(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    uint64_t peak = 0;
    char line[128];

    HG_CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL)
        (void) sscanf(line, "VmHWM: %" SCNu64, &peak);
    HG_CHECK(fclose(file) == 0 && peak > 0);
    return peak * 1024;
}

static void hostile_open(
    struct hostile_server *server, const struct hg_options *options)
{
    na_addr_t self = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN];

    memset(server, 0, sizeof(*server));
    HG_CHECK_OK(HG_Set_options(options));
    server->na_class = NA_Initialize("zmq+tcp://127.0.0.1", NA_TRUE);
    HG_CHECK(server->na_class != NULL);
    HG_CHECK_OK(HG_Init(server->na_class));
    hostile_register();
    HG_CHECK_OK(NA_Addr_self(server->na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(server->na_class, name, sizeof(name), self));
    HG_CHECK_OK(NA_Addr_free(server->na_class, self));
    server->good = hg_test_spawn("caller", name, (char *) NULL);
    hostile_serve();
    stranger_init(&server->stranger, hostile_turn, NULL);
    stranger_dial(&server->stranger, name + 4);
    stranger_greet(&server->stranger);
    stranger_confirm(&server->stranger);
    hostile_serve();
    server->resident = hostile_resident();
}

/* The stranger leaves, and so does all that was held for it. */
static void hostile_close(struct hostile_server *server)
{
    struct hg_counters counters;
    siginfo_t info;

    stranger_hang_up(&server->stranger);
    while (hostile_kept_count > 0)
        HG_CHECK_OK(HG_Handler_free(hostile_kept[--hostile_kept_count]));
    hostile_serve();
    hg_test_say(server->good, "stop");
    do {
        memset(&info, 0, sizeof(info));
        hostile_turn(NULL);
    } while (waitid(P_PID, (id_t) hg_test_peer_pid(server->good), &info,
                 WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == 0);
    do {
        hostile_turn(NULL);
        counters = hostile_counters();
    } while (counters.unanswered > 0 || counters.fetched_bytes > 0 ||
        counters.held_bytes > 0);
    HG_CHECK_EQ_U64(counters.refused, 0); /* nothing of it was wrong */
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(server->na_class));
    stranger_fini(&server->stranger);
}

/* ---- The stranger's calls ---- */

/* A remainder, bit by bit, of the reflected polynomial of CRC-32C. */
static uint32_t hostile_crc(const unsigned char *p, size_t size)
{
    uint32_t crc = UINT32_MAX;
    unsigned i;

    while (size-- > 0) {
        crc ^= *p++;
        for (i = 0; i < 8; i++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* Call `id`; `claim`: with arguments of so many bytes, to be fetched. */
static void hostile_call(struct hostile_server *server, hg_id_t id,
    uint64_t sequence, uint64_t claim)
{
    unsigned char bytes[12 + HEAD + 44];
    size_t start = stranger_header(bytes, KIND_MESSAGE);
    unsigned char *head = bytes + start;
    unsigned char *payload = head + HEAD;
    size_t size = claim > 0 ? 44 : 0;

    bytes[4] = PLANE_RPC;
    memset(head, 0, HEAD + 44);
    memcpy(head, "HGR1\1", 5);
    head[6] = REQUEST;
    head[7] = claim > 0 ? LARGE : 0;
    stranger_put(head + 8, 2, HEAD);
    stranger_put(head + 16, 8, id);
    stranger_put(head + 24, 8, sequence);
    stranger_put(head + 56, 8, size);
    stranger_put(head + HEAD - 4, 4, hostile_crc(head, HEAD - 4));
    stranger_put(payload + 8, 8, claim);
    stranger_put(payload + 16, 4, 24);
    memcpy(payload + 20, "hM\1\1", 4);
    stranger_put(payload + 28, 8, 77);
    stranger_put(payload + 36, 8, claim);
    stranger_send(&server->stranger, bytes, start + HEAD + size, false);
}

/* The server has heard so many calls of the stranger's; the good client is
 * served all the while. */
static void hostile_until(uint64_t turned_away)
{
    uint64_t end = ends_ms() + CONFORM_PATIENCE;

    while (hostile_counters().turned_away < turned_away) {
        HG_CHECK(ends_ms() < end);
        hostile_turn(NULL);
    }
    hostile_serve();
}

/* As much as it may claim at once: 5 TiB in all, and not a byte of it comes. */
HG_TEST(hostile_inputs_never_come)
{
    static const struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hostile_server server;
    uint64_t i;

    hostile_open(&server, &options);
    for (i = 1; i <= 5000; i++) {
        hostile_call(&server, hostile_good_id, i, (uint64_t) 1 << 30);
        if (i % 500 == 0)
            hostile_serve();
    }
    /* As many as it may have calls are begun, but what they claim is nobody's:
     * most of max_fetched_bytes is left. */
    hostile_until(5000 - 4096);
    HG_CHECK(hostile_counters().turned_away < 1000);
    HG_CHECK(hostile_counters().fetched_bytes < (uint64_t) 600 << 20);
    HG_CHECK(hostile_resident() - server.resident < HOSTILE_SLACK);
    hostile_close(&server);
}

/* The same, and it stays: after output_hold_ms nothing is left of it. */
HG_TEST(hostile_inputs_have_their_time)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hostile_server server;
    uint64_t i;

    options.output_hold_ms = 300;
    hostile_open(&server, &options);
    for (i = 1; i <= 20; i++)
        hostile_call(&server, hostile_good_id, i, 100000);
    while (hostile_counters().fetched_bytes < 20 * 100000)
        hostile_turn(NULL);
    while (hostile_counters().fetched_bytes >= 100000)
        hostile_serve();
    HG_CHECK(hostile_counters().errors_sent >= 20);
    hostile_close(&server);
}

/* 150 MiB of outputs that it will never fetch. */
HG_TEST(hostile_outputs_are_never_fetched)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hostile_server server;
    uint64_t held = (uint64_t) 4 << 20;
    uint64_t i;

    options.max_args_size = (size_t) held;
    hostile_open(&server, &options);
    for (i = 1; i <= 600; i++) {
        hostile_call(&server, hostile_large_id, i, 0);
        if (i % 20 == 0)
            hostile_serve();
        HG_CHECK(hostile_counters().held_bytes <= 2 * held);
    }
    hostile_until(600 - 2 * held / HOSTILE_OUTPUT);
    HG_CHECK(hostile_counters().held_bytes <= 2 * held);
    HG_CHECK(hostile_counters().held_bytes > held - 2 * HOSTILE_OUTPUT);
    HG_CHECK(hostile_resident() - server.resident < 2 * held + HOSTILE_SLACK);
    hostile_close(&server);
}

/* More calls than the server is to have unanswered. */
HG_TEST(hostile_calls_are_never_answered)
{
    static const struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hostile_server server;
    uint64_t i;

    hostile_open(&server, &options);
    for (i = 1; i <= 10000; i++) {
        hostile_call(&server, hostile_keep_id, i, 0);
        if (i % 1000 == 0)
            hostile_serve();
    }
    hostile_until(10000 - 4096);
    HG_CHECK(hostile_kept_count <= 4096 && hostile_kept_count >= 4094);
    HG_CHECK(hostile_resident() - server.resident < HOSTILE_SLACK);
    hostile_close(&server);
}
