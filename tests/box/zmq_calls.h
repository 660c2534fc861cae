/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zmq_calls: a server of the RPC layer over ZeroMQ; a raw peer whose messages
 * are written by hand from the wire format (gen/wire.md); and a good client
 * in its own process, which calls all the time with small and with large
 * arguments, and must be answered correctly and in time.
 */
#ifndef HG_TESTS_ZMQ_CALLS_H
#define HG_TESTS_ZMQ_CALLS_H

#include "zmq_raw_peer.h"

#include "support/blob.h"

enum { /* types of the RPC layer's messages */
    REQUEST = 1,
    RESPONSE,
    CANCEL,
    TYPE_END
};

#define CALLS_CPU_MS 2000u /* the most that six good calls take */

enum { HEAD = 48, LARGE = 1, PLANE_RPC = 2 };

/* ---- The good client ---- */

static unsigned calls_served; /* calls of the good client */

static inline hg_return_t calls_echo(hg_handle_t handle)
{
    struct blob blob = {0, NULL};
    hg_return_t ret = HG_Handler_get_input(handle, &blob);

    if (ret != HG_SUCCESS)
        return ret;
    (void) HG_Handler_start_output(handle, &blob);
    (void) HG_Handler_free_input(handle, &blob);
    return HG_Handler_free(handle);
}

static inline hg_return_t calls_good(hg_handle_t handle)
{
    calls_served++;
    return calls_echo(handle);
}

static inline hg_id_t calls_register_good(void)
{
    hg_id_t id = HG_Register("good", blob_proc, blob_proc, calls_good);

    HG_CHECK(id != 0);
    return id;
}

/* Calls the server at the given address until told to stop. */
HG_TEST_ROLE(caller)
{
    static unsigned char bytes[150000];
    struct pollfd channel = {ENDPOINT_CHANNEL, POLLIN, 0};
    na_class_t *na_class;
    na_addr_t addr = NA_ADDR_NULL;
    hg_id_t id;
    unsigned i;

    HG_CHECK_EQ_INT(argc, 2);
    na_class = NA_Initialize(argv[0], NA_FALSE);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(HG_Init(na_class));
    id = calls_register_good();
    conform_fill(bytes, sizeof(bytes), 5);
    HG_CHECK_OK(NA_Addr_lookup_wait(na_class, argv[1], CONFORM_TIMEOUT, &addr));
    for (i = 0; poll(&channel, 1, 0) == 0; i++) {
        struct blob in = {i % 4 == 3 ? sizeof(bytes) : i % 100, bytes};
        struct blob out = {0, NULL};
        hg_request_t request = HG_REQUEST_NULL;

        HG_CHECK_OK(HG_Forward(addr, id, &in, &out, &request));
        HG_CHECK_OK(HG_Wait(request, CONFORM_TIMEOUT, HG_STATUS_IGNORE));
        HG_CHECK_EQ_U64(out.size, in.size);
        HG_CHECK_EQ_MEM(out.bytes, in.bytes, in.size);
        HG_CHECK_OK(HG_Request_free(request));
    }
    HG_CHECK_OK(NA_Addr_free(na_class, addr));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* ---- The server ---- */

struct calls_server {
    na_class_t *na_class;
    struct hg_test_peer *good;
    struct raw_peer stranger;
    char name[NA_MAX_ADDR_LEN];
};

static inline void calls_turn(void *arg)
{
    hg_return_t ret = HG_Handler_process(1, HG_STATUS_IGNORE);

    (void) arg;
    HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
}

static inline struct hg_counters calls_counters(void)
{
    struct hg_counters counters;

    counters.size = sizeof(counters);
    HG_CHECK_OK(HG_Get_counters(&counters));
    return counters;
}

/* Six calls of the good client begin: by then five were answered, a large one
 * among them. Messages of others take a limited time of the processor before
 * them. */
static inline void calls_serve(void)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    clock_t begun = clock();
    unsigned before = calls_served;

    while (calls_served < before + 6) {
        HG_CHECK(endpoint_ms() < end);
        HG_CHECK((clock() - begun) / (CLOCKS_PER_SEC / 1000) <
            (clock_t) hg_test_scaled_ms(CALLS_CPU_MS));
        calls_turn(NULL);
    }
}

/* The server's memory may grow by this much more than is counted.
 * AddressSanitizer keeps a quarter of a GiB of freed memory. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CALLS_SLACK ((uint64_t) 512 << 20)
#else
#define CALLS_SLACK ((uint64_t) 48 << 20)
#endif

/* The peak memory of this process. */
static inline uint64_t calls_peak(void)
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

static unsigned calls_death_ms; /* of the server; 0: the default */

/* Listen on `string`, with a good client, and a raw peer that has confirmed.
 * `more` registers further functions. */
static inline void calls_open(struct calls_server *server, const char *string,
    const struct hg_options *options, void (*more)(void))
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_addr_t self = NA_ADDR_NULL;
    char scheme[32];

    memset(server, 0, sizeof(*server));
    HG_CHECK_OK(HG_Set_options(options));
    info.death_ms = calls_death_ms;
    server->na_class = NA_Initialize_opt(string, NA_TRUE, &info);
    HG_CHECK(server->na_class != NULL);
    HG_CHECK_OK(HG_Init(server->na_class));
    (void) calls_register_good();
    more();
    HG_CHECK_OK(NA_Addr_self(server->na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(
        server->na_class, server->name, sizeof(server->name), self));
    HG_CHECK_OK(NA_Addr_free(server->na_class, self));
    (void) snprintf(scheme, sizeof(scheme), "zmq+%s://",
        NA_Get_class_protocol(server->na_class));
    server->good = hg_test_spawn("caller", scheme, server->name, (char *) NULL);
    calls_serve();
    raw_peer_init(&server->stranger, calls_turn, NULL);
    raw_peer_join(&server->stranger, server->name + 4);
    calls_serve();
}

/* The raw peer disconnects, the good client stops, and nothing is left. */
static inline void calls_close(struct calls_server *server)
{
    struct hg_counters counters;
    siginfo_t info;

    raw_peer_hang_up(&server->stranger);
    calls_serve();
    hg_test_write_peer(server->good, "stop");
    do {
        memset(&info, 0, sizeof(info));
        calls_turn(NULL);
    } while (waitid(P_PID, (id_t) hg_test_peer_pid(server->good), &info,
                 WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == 0);
    HG_CHECK_EQ_INT(hg_test_wait(server->good), 0);
    do {
        calls_turn(NULL);
        counters = calls_counters();
    } while (counters.unanswered > 0 || counters.in_flight > 0 ||
        counters.fetched_bytes > 0 || counters.held_bytes > 0);
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(server->na_class));
    raw_peer_fini(&server->stranger);
}

/* ---- Messages ---- */

struct calls_message {
    unsigned type;
    unsigned flags;
    unsigned code;
    uint64_t id;
    uint64_t sequence;
    const unsigned char *payload;
    size_t size; /* of the payload */
    bool no_checksum;
};

/* CRC-64/XZ, bit by bit. */
static inline uint64_t calls_crc(const unsigned char *p, size_t size)
{
    uint64_t crc = UINT64_MAX;
    unsigned i;

    while (size-- > 0) {
        crc ^= *p++;
        for (i = 0; i < 8; i++)
            crc =
                crc >> 1 ^ ((crc & 1) != 0 ? UINT64_C(0xc96c5795d7870f42) : 0);
    }
    return ~crc;
}

/* Correct the message's checksum, if it has one. */
static inline void calls_sign(unsigned char *bytes, size_t size)
{
    if (size >= 8)
        raw_peer_put(bytes, 8, calls_crc(bytes + 8, size - 8));
}

/* The message of the RPC layer, without the transport's header. */
static inline size_t calls_make(
    unsigned char *bytes, const struct calls_message *message)
{
    memset(bytes, 0, HEAD);
    memcpy(bytes + 8, "HG\2", 3);
    bytes[11] = (unsigned char) message->type;
    bytes[12] = (unsigned char) message->flags;
    raw_peer_put(bytes + 14, 2, HEAD);
    raw_peer_put(bytes + 16, 8, message->id);
    raw_peer_put(bytes + 24, 8, message->sequence);
    raw_peer_put(bytes + 32, 4, message->code);
    if (message->size > 0)
        memcpy(bytes + HEAD, message->payload, message->size);
    if (!message->no_checksum)
        calls_sign(bytes, HEAD + message->size);
    return HEAD + message->size;
}

/* The payload that describes `size` bytes of arguments or results, to be
 * fetched from the sender's memory. */
static inline size_t calls_describe(unsigned char *bytes, uint64_t size)
{
    memset(bytes, 0, 20 + 24);
    raw_peer_put(bytes, 8, size);
    raw_peer_put(bytes + 16, 4, 24);
    memcpy(bytes + 20, "hM\1\3", 4);
    raw_peer_put(bytes + 28, 8, 77);
    raw_peer_put(bytes + 36, 8, size);
    return 20 + 24;
}

static inline void calls_send(
    struct calls_server *server, const unsigned char *bytes, size_t size)
{
    unsigned char all[512];
    size_t head = raw_peer_header(all, KIND_MESSAGE);

    HG_CHECK(head + size <= sizeof(all));
    all[4] = PLANE_RPC;
    memcpy(all + head, bytes, size);
    raw_peer_send(&server->stranger, all, head + size, false);
}

static inline void calls_send_message(
    struct calls_server *server, const struct calls_message *message)
{
    unsigned char bytes[400];

    calls_send(server, bytes, calls_make(bytes, message));
}

#endif
