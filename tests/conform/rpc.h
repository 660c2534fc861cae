/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rpc: shared by the RPC and bulk conformance programs: an endpoint, and a
 * target to call.
 *
 * If the transport reaches other processes, the target is the role `server` in
 * its own process, which executes calls until it is stopped. Otherwise the
 * target is the process itself, and each wait runs the handlers. Both register
 * the same functions, so most cases need not know the difference. A program
 * defines rpc_register, which both call.
 */
#ifndef HG_TESTS_CONFORM_RPC_H
#define HG_TESTS_CONFORM_RPC_H

#include "hg.h"

#include "harness.h"
#include "support/blob.h"

#include <pthread.h>
#include <stdatomic.h>

#define RPC_TIMEOUT HG_TEST_WAIT_MS

struct rpc_end {
    na_class_t *na_class;
    na_class_t *bulk_class; /* a separate class for bulk data, or NULL */
    na_addr_t target;
    struct hg_test_peer *peer; /* NULL: the target is this process */
};

/* Register the functions of both sides; defined by each program. */
static void rpc_register(void);

static inline na_class_t *rpc_open_class(na_bool_t listen)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char *string = hg_test_listen_string();
    char *end;
    na_class_t *na_class;

    info.force_rma_emulation = hg_test_emulated() ? NA_TRUE : NA_FALSE;
    info.lookup_ms = hg_test_lookup_ms();
    end = strstr(string, "://");
    HG_CHECK(end != NULL);
    if (!listen) /* the scheme alone */
        end[3] = '\0';
    na_class = NA_Initialize_opt(string, listen, &info);
    HG_CHECK(na_class != NULL);
    free(string);
    return na_class;
}

/* Open the layer; with `separate`, bulk data uses its own class. */
static inline void rpc_start(
    struct rpc_end *end, const struct hg_options *options, bool separate)
{
    memset(end, 0, sizeof(*end));
    end->na_class = rpc_open_class(NA_TRUE);
    if (separate) {
        end->bulk_class = rpc_open_class(NA_TRUE);
        HG_CHECK_OK(HG_Bulk_init(end->bulk_class));
    }
    HG_CHECK_OK(HG_Set_options(options));
    HG_CHECK_OK(HG_Init(end->na_class));
    rpc_register();
}

static inline void rpc_end(struct rpc_end *end)
{
    HG_CHECK_OK(HG_Finalize());
    if (end->bulk_class != NULL) {
        HG_CHECK_OK(HG_Bulk_finalize());
        HG_CHECK_OK(NA_Finalize(end->bulk_class));
    }
    HG_CHECK_OK(NA_Finalize(end->na_class));
}

/* Read where our peer listens, and look it up. */
static inline void rpc_find_peer(struct rpc_end *end)
{
    char *address = hg_test_read_peer(end->peer);

    HG_CHECK_OK(
        NA_Addr_lookup_wait(end->na_class, address, RPC_TIMEOUT, &end->target));
    free(address);
}

/* Call rpc_start, and find a target to call. */
static inline void rpc_open_with(
    struct rpc_end *end, const struct hg_options *options, bool separate)
{
    char limit[16];

    rpc_start(end, options, separate);
    if (!hg_test_crosses_processes()) {
        HG_CHECK_OK(NA_Addr_self(end->na_class, &end->target));
        return;
    }
    snprintf(limit, sizeof(limit), "%u",
        options != NULL ? options->max_unanswered : 0);
    end->peer = hg_test_spawn(
        "server", separate ? "separate" : "one", limit, (char *) NULL);
    rpc_find_peer(end);
}

static inline void rpc_open(struct rpc_end *end)
{
    rpc_open_with(end, NULL, false);
}

static inline void rpc_close(struct rpc_end *end)
{
    HG_CHECK_OK(NA_Addr_free(end->na_class, end->target));
    rpc_end(end);
    if (end->peer != NULL)
        hg_test_stop(end->peer);
}

/* ---- The server's process ---- */

static void *rpc_listen_parent(void *arg)
{
    _Atomic bool *stop = (_Atomic bool *) arg;

    free(hg_test_read_parent());
    atomic_store(stop, true);
    return NULL;
}

/* Report the address, and serve until told to stop. */
static void rpc_serve(struct rpc_end *end)
{
    char address[NA_MAX_ADDR_LEN];
    _Atomic bool stop = false;
    pthread_t thread;

    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->target));
    HG_CHECK_OK(NA_Addr_to_string(
        end->na_class, address, sizeof(address), end->target));
    hg_test_write_parent(address);
    HG_CHECK(pthread_create(&thread, NULL, rpc_listen_parent, &stop) == 0);
    while (!atomic_load(&stop)) {
        hg_return_t ret = HG_Handler_process(20, HG_STATUS_IGNORE);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    }
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_OK(NA_Addr_free(end->na_class, end->target));
}

HG_TEST_ROLE(server)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct rpc_end end;

    HG_CHECK_EQ_INT(argc, 2);
    hg_test_allow_log(""); /* the client checks the results it gets */
    options.max_unanswered = (unsigned) strtoul(argv[1], NULL, 10);
    rpc_start(&end, &options, strcmp(argv[0], "separate") == 0);
    rpc_serve(&end);
    rpc_end(&end);
}

/* ---- Calls ---- */

/* Start a call. */
static inline hg_request_t rpc_start_call(
    const struct rpc_end *end, hg_id_t id, void *in, void *out)
{
    hg_request_t request = HG_REQUEST_NULL;

    HG_CHECK_OK(HG_Forward(end->target, id, in, out, &request));
    HG_CHECK(request != HG_REQUEST_NULL);
    return request;
}

/* Wait for its result, which must arrive in time. */
static inline hg_return_t rpc_wait(hg_request_t request)
{
    hg_status_t status = HG_FALSE;
    hg_return_t ret = HG_Wait(request, RPC_TIMEOUT, &status);

    HG_CHECK_EQ_INT(status, HG_TRUE);
    return ret;
}

/* A complete call. Memory allocated by decoding is freed. */
static inline hg_return_t rpc_call(
    const struct rpc_end *end, hg_id_t id, void *in, void *out)
{
    hg_request_t request = rpc_start_call(end, id, in, out);
    hg_return_t ret = rpc_wait(request);

    HG_CHECK_OK(HG_Request_free(request));
    return ret;
}

static inline struct hg_counters rpc_counters(void)
{
    struct hg_counters counters = HG_COUNTERS_INITIALIZER;

    HG_CHECK_OK(HG_Get_counters(&counters));
    return counters;
}

/* ---- A number, and a handler that adds one to it ---- */

MERCURY_GEN_PROC(rpc_one_t, ((int32_t) (value)))

static inline hg_return_t rpc_inc(hg_handle_t handle)
{
    rpc_one_t value;
    hg_return_t ret = HG_Handler_get_input(handle, &value);

    if (ret != HG_SUCCESS)
        return ret;
    value.value++;
    /* On failure the caller gets the error. */
    (void) HG_Handler_start_output(handle, &value);
    return HG_Handler_free(handle);
}

/* ---- Bytes ---- */

/* So many bytes of a pattern, on the heap. */
static inline unsigned char *rpc_new_pattern(size_t size, uint64_t seed)
{
    unsigned char *bytes = (unsigned char *) malloc(size > 0 ? size : 1);
    size_t i;

    HG_CHECK(bytes != NULL);
    for (i = 0; i < size; i++)
        bytes[i] = (unsigned char) ((i * 131 + seed) >> (i % 5));
    return bytes;
}

#endif
