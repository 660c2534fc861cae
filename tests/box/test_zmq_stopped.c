/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client is stopped while it fetches a large output. The server's transport
 * holds frames of that output as long as the client counts as alive. The server
 * does not wait for them: neither when the output's hold time is over, nor to
 * finalize.
 */
#include "endpoints.h"

#include "support/blob.h"

/* Longer than any wait here. */
#define STOPPED_DEATH_MS 20000u

/* No wait of 50 ms or of drain_ms takes so long, but a wait for a death
 * does. */
#define STOPPED_LONG_MS 5000u

#define STOPPED_OUTPUT ((size_t) 48 << 20)

/* The client allocates memory for all of it when it begins to fetch the first
 * piece of 16 MiB, which is more than a socket holds. */
#define STOPPED_ROOM ((size_t) 30 << 20)

static na_class_t *stopped_open(const char *string, na_bool_t listen)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;

    info.death_ms = STOPPED_DEATH_MS;
    info.rma_window = 64u << 20;
    na_class = NA_Initialize_opt(string, listen, &info);
    HG_CHECK(na_class != NULL);
    return na_class;
}

/* ---- The client ---- */

static bool stopped_fetches;

static void *stopped_malloc(size_t size, void *arg)
{
    (void) arg;
    stopped_fetches = stopped_fetches || size >= STOPPED_ROOM;
    return malloc(size);
}

static void stopped_free(void *memory, void *arg)
{
    (void) arg;
    free(memory);
}

static void *stopped_realloc(void *memory, size_t size, void *arg)
{
    (void) arg;
    return realloc(memory, size);
}

HG_TEST_ROLE(client)
{
    static const struct hg_allocator allocator = {
        sizeof(allocator), stopped_malloc, stopped_realloc, stopped_free, NULL};
    na_addr_t addr = NA_ADDR_NULL;
    struct blob out = {0, NULL};
    hg_request_t request = HG_REQUEST_NULL;
    na_class_t *na_class;
    hg_id_t id;

    HG_CHECK_EQ_INT(argc, 1);
    HG_CHECK_OK(HG_Set_allocator(&allocator));
    na_class = stopped_open("zmq+tcp://", NA_FALSE);
    HG_CHECK_OK(HG_Init(na_class));
    id = HG_Register("large", NULL, blob_proc, NULL);
    HG_CHECK_OK(NA_Addr_lookup_wait(na_class, argv[0], CONFORM_TIMEOUT, &addr));
    HG_CHECK_OK(HG_Forward(addr, id, NULL, &out, &request));
    while (!stopped_fetches)
        (void) HG_Handler_process(1, HG_STATUS_IGNORE);
    endpoint_sleep(1); /* the request is sent */
    hg_test_write_parent("fetching");
    for (;;) /* stopped from now on, then killed */
        HG_CHECK(raise(SIGSTOP) == 0);
}

/* ---- The server ---- */

static hg_return_t stopped_large(hg_handle_t handle)
{
    static unsigned char bytes[STOPPED_OUTPUT];
    struct blob blob = {sizeof(bytes), bytes};

    HG_CHECK_OK(HG_Handler_start_output(handle, &blob));
    return HG_Handler_free(handle);
}

/* Make progress once; returns how long that took. */
static uint64_t stopped_turn(void)
{
    uint64_t begin = endpoint_ms();
    hg_return_t ret = HG_Handler_process(50, HG_STATUS_IGNORE);

    HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    return endpoint_ms() - begin;
}

static uint64_t stopped_held(void)
{
    struct hg_counters counters;

    counters.size = sizeof(counters);
    HG_CHECK_OK(HG_Get_counters(&counters));
    return counters.held_bytes;
}

/* A server that holds an output, and a client that is stopped. */
static struct hg_test_peer *stopped_begin(
    unsigned output_hold_ms, na_class_t **na_class_p)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hg_test_peer *client;
    na_addr_t self = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN];
    unsigned i;

    options.output_hold_ms = output_hold_ms;
    options.drain_ms = 100;
    HG_CHECK_OK(HG_Set_options(&options));
    *na_class_p = stopped_open("zmq+tcp://127.0.0.1", NA_TRUE);
    HG_CHECK_OK(HG_Init(*na_class_p));
    HG_CHECK(HG_Register("large", NULL, blob_proc, stopped_large) != 0);
    HG_CHECK_OK(NA_Addr_self(*na_class_p, &self));
    HG_CHECK_OK(NA_Addr_to_string(*na_class_p, name, sizeof(name), self));
    HG_CHECK_OK(NA_Addr_free(*na_class_p, self));
    client = hg_test_spawn("client", name, (char *) NULL);
    while (stopped_held() == 0)
        (void) stopped_turn();
    for (i = 0; i < 6; i++) /* everything that can be sent is sent */
        (void) stopped_turn();
    return client;
}

static void stopped_end(struct hg_test_peer *client, na_class_t *na_class)
{
    uint64_t begin = endpoint_ms();

    HG_CHECK_OK(HG_Finalize());
    HG_CHECK(endpoint_ms() - begin < STOPPED_LONG_MS);
    hg_test_signal(client, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(client)));
    HG_CHECK_OK(NA_Finalize(na_class));
    HG_CHECK_OK(HG_Set_options(NULL));
}

HG_TEST(stopped_client_does_not_stop_the_server)
{
    na_class_t *na_class;
    struct hg_test_peer *client = stopped_begin(1000, &na_class);
    uint64_t longest = 0;

    while (stopped_held() > 0) {
        uint64_t took = stopped_turn();

        longest = took > longest ? took : longest;
    }
    HG_CHECK(longest < STOPPED_LONG_MS);
    stopped_end(client, na_class);
}

HG_TEST(stopped_client_does_not_delay_finalize)
{
    na_class_t *na_class;
    struct hg_test_peer *client = stopped_begin(60000, &na_class);

    HG_CHECK(stopped_held() > 0);
    stopped_end(client, na_class);
}
