/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of the design report that precedes Mercury's, with which the
 * function shipper and the bulk data shipper began. Each of its 43 functions
 * exists with its prototype and works, and a client and a server that follow
 * its figures run. hg.h declares the names with HG_SEED_NAMES. tests/lint also
 * compiles this file as C99 and as C++11 to C++20.
 */
#define _POSIX_C_SOURCE 200809L
#define HG_SEED_NAMES 1
#include "hg.h"

#include "harness.h"

#include <sys/wait.h>
#include <unistd.h>

#define REPORT_MS HG_TEST_WAIT_MS
#define REPORT_FUNCTIONS 43

/* ---- Prototypes ---- */

/* A name has the type of a pointer to the function that the report prints. */
#define REPORT_HAS(result, name, arguments) \
    do { \
        result(*function) arguments = name; \
        report_found += function != HG_NULLPTR; \
    } while (0)

static int report_found;

static void report_network(void)
{
    REPORT_HAS(na_network_class_t *, na_mpi_init, (void *, int) );
    REPORT_HAS(int, na_finalize, (na_network_class_t *) );
    REPORT_HAS(na_size_t, na_get_unexpected_size, (na_network_class_t *) );
    REPORT_HAS(int, na_addr_lookup,
        (na_network_class_t *, const char *, na_addr_t *) );
    REPORT_HAS(int, na_addr_free, (na_network_class_t *, na_addr_t));
    REPORT_HAS(int, na_send_unexpected,
        (na_network_class_t *, const void *, na_size_t, na_addr_t, na_tag_t,
            na_request_t *, void *) );
    REPORT_HAS(int, na_recv_unexpected,
        (na_network_class_t *, void *, na_size_t *, na_addr_t *, na_tag_t *,
            na_request_t *, void *) );
    REPORT_HAS(int, na_send,
        (na_network_class_t *, const void *, na_size_t, na_addr_t, na_tag_t,
            na_request_t *, void *) );
    REPORT_HAS(int, na_recv,
        (na_network_class_t *, void *, na_size_t, na_addr_t, na_tag_t,
            na_request_t *, void *) );
    REPORT_HAS(int, na_mem_register,
        (na_network_class_t *, void *, na_size_t, unsigned long,
            na_mem_handle_t *) );
    REPORT_HAS(int, na_mem_deregister, (na_network_class_t *, na_mem_handle_t));
    REPORT_HAS(int, na_mem_handle_serialize,
        (na_network_class_t *, void *, na_size_t, na_mem_handle_t));
    REPORT_HAS(int, na_mem_handle_deserialize,
        (na_network_class_t *, na_mem_handle_t *, const void *, na_size_t));
    REPORT_HAS(
        int, na_mem_handle_free, (na_network_class_t *, na_mem_handle_t));
    REPORT_HAS(int, na_put,
        (na_network_class_t *, na_mem_handle_t, na_offset_t, na_mem_handle_t,
            na_offset_t, na_size_t, na_addr_t, na_request_t *) );
    REPORT_HAS(int, na_get,
        (na_network_class_t *, na_mem_handle_t, na_offset_t, na_mem_handle_t,
            na_offset_t, na_size_t, na_addr_t, na_request_t *) );
    REPORT_HAS(int, na_wait,
        (na_network_class_t *, na_request_t, unsigned int, na_status_t *) );
}

static void report_shipper(void)
{
    REPORT_HAS(int, fs_init, (na_network_class_t *) );
    REPORT_HAS(int, fs_finalize, (void) );
    REPORT_HAS(fs_id_t, fs_register,
        (const char *, int (*)(fs_proc_t, void *), int (*)(fs_proc_t, void *)));
    REPORT_HAS(int, fs_forward,
        (na_addr_t, fs_id_t, const void *, void *, fs_request_t *) );
    REPORT_HAS(int, fs_wait, (fs_request_t, unsigned int, fs_status_t *) );
    REPORT_HAS(
        int, fs_wait_all, (int, fs_request_t[], unsigned int, fs_status_t[]));
    REPORT_HAS(int, fs_handler_init, (na_network_class_t *) );
    REPORT_HAS(int, fs_handler_finalize, (void) );
    REPORT_HAS(void, fs_handler_register,
        (const char *, int (*)(fs_handle_t), int (*)(fs_proc_t, void *),
            int (*)(fs_proc_t, void *)));
    REPORT_HAS(int, fs_handler_get_input, (fs_handle_t, void *) );
    REPORT_HAS(na_addr_t, fs_handler_get_addr, (fs_handle_t));
    REPORT_HAS(int, fs_handler_process, (unsigned int) );
    REPORT_HAS(int, fs_handler_complete, (fs_handle_t, const void *) );
}

static void report_bulk(void)
{
    REPORT_HAS(int, bds_init, (na_network_class_t *) );
    REPORT_HAS(int, bds_finalize, (void) );
    REPORT_HAS(int, bds_handle_create,
        (void *, size_t, unsigned long, bds_handle_t *) );
    REPORT_HAS(int, bds_handle_free, (bds_handle_t));
    REPORT_HAS(size_t, bds_handle_get_size, (bds_handle_t));
    REPORT_HAS(int, bds_handle_serialize, (void *, size_t, bds_handle_t));
    REPORT_HAS(
        int, bds_handle_deserialize, (bds_handle_t *, const void *, size_t));
    REPORT_HAS(int, bds_write, (bds_handle_t, na_addr_t, bds_block_handle_t));
    REPORT_HAS(int, bds_read, (bds_handle_t, na_addr_t, bds_block_handle_t));
    REPORT_HAS(int, bds_wait, (bds_block_handle_t, unsigned int) );
    REPORT_HAS(int, bds_block_handle_create,
        (void *, size_t, unsigned long, bds_block_handle_t *) );
    REPORT_HAS(int, bds_block_handle_free, (bds_block_handle_t));
    REPORT_HAS(size_t, bds_block_handle_get_size, (bds_block_handle_t));
}

HG_TEST(names_have_the_prototypes_of_the_design_report)
{
    na_cb_info_lookup lookup = {NA_ADDR_NULL};

    report_network();
    report_shipper();
    report_bulk();
    HG_CHECK_EQ_INT(report_found, REPORT_FUNCTIONS);
    HG_CHECK(lookup.addr == NA_ADDR_NULL);
}

/* ---- The macro ---- */

/* clang-format off */
IOFSL_SHIPPER_GEN_PROC( function_in_t, ((int32_t)(func_param1)) )
/* clang-format on */
IOFSL_SHIPPER_GEN_PROC(
    outer_t, ((function_in_t) (inner))((fs_string_t) (name))((uint8_t) (last)))
/* The proc has Mercury's name as well. */
MERCURY_GEN_PROC(around_t, ((outer_t) (outer))((uint16_t) (behind)))

/* The struct of the report's first line, under another name. */
typedef struct {
    int32_t func_param1;
} printed_in_t;

static inline int fs_proc_printed_in_t(fs_proc_t proc, void *data)
{
    int ret = S_SUCCESS;
    printed_in_t *struct_data = HG_CAST(printed_in_t *, data);

    ret = fs_proc_int32_t(proc, &struct_data->func_param1);
    if (ret != S_SUCCESS) {
        S_ERROR_DEFAULT("Proc error");
        ret = S_FAIL;
        return ret;
    }

    return ret;
}

static size_t report_encode(
    int (*proc_cb)(fs_proc_t proc, void *data), void *data, void *wire)
{
    fs_proc_t proc;
    size_t size;

    HG_CHECK_OK(hg_proc_create(wire, 64, HG_ENCODE, &proc));
    HG_CHECK_OK(proc_cb(proc, data));
    size = hg_proc_get_size_used(proc);
    HG_CHECK_OK(hg_proc_free(proc));
    return size;
}

HG_TEST(macro_makes_a_proc_of_the_older_name)
{
    function_in_t in = {-5};
    printed_in_t printed = {-5};
    around_t around = {{{7}, "name", 8}, 9};
    around_t got;
    unsigned char wire[2][64];
    fs_proc_t proc;
    size_t size;

    HG_CHECK_EQ_U64(report_encode(fs_proc_function_in_t, &in, wire[0]), 4);
    HG_CHECK_EQ_U64(report_encode(fs_proc_printed_in_t, &printed, wire[1]), 4);
    HG_CHECK_EQ_MEM(wire[0], wire[1], 4);
    HG_CHECK_EQ_U64(report_encode(hg_proc_function_in_t, &in, wire[1]), 4);
    HG_CHECK_EQ_MEM(wire[0], wire[1], 4);

    memset(&got, 0, sizeof(got));
    size = report_encode(hg_proc_around_t, &around, wire[0]);
    HG_CHECK_OK(hg_proc_create(wire[0], size, HG_DECODE, &proc));
    HG_CHECK_OK(hg_proc_around_t(proc, &got));
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_EQ_INT(got.outer.inner.func_param1, 7);
    HG_CHECK_EQ_STR(got.outer.name, "name");
    HG_CHECK(got.outer.last == 8 && got.behind == 9);
    HG_CHECK_OK(hg_proc_create(NULL, 0, HG_FREE, &proc));
    HG_CHECK_OK(hg_proc_around_t(proc, &got));
    HG_CHECK_OK(hg_proc_free(proc));

    hg_test_expect_log("a proc's data is NULL");
    HG_CHECK_OK(hg_proc_create(wire[0], size, HG_DECODE, &proc));
    HG_CHECK_RET(fs_proc_function_in_t(proc, NULL), HG_INVALID_ARG);
    HG_CHECK_OK(hg_proc_free(proc));
}

/* ---- Calls: one of metadata, one that writes, one that reads ---- */

IOFSL_SHIPPER_GEN_PROC(
    report_open_in_t, ((fs_string_t) (name))((int32_t) (mode)))
IOFSL_SHIPPER_GEN_PROC(
    report_open_out_t, ((int32_t) (ret))((fs_string_t) (opened)))
IOFSL_SHIPPER_GEN_PROC(
    report_data_in_t, ((fs_string_t) (name))((bds_handle_t) (data)))
IOFSL_SHIPPER_GEN_PROC(report_data_out_t, ((uint64_t) (size)))

#define REPORT_FILE_MAX ((size_t) 1 << 20)

static char report_file[REPORT_FILE_MAX]; /* the server's only file */
static size_t report_file_size;
static bool report_over;

/* A negative mode marks the last call. */
static int report_open(fs_handle_t handle)
{
    report_open_in_t in;
    report_open_out_t out;

    HG_CHECK_OK(fs_handler_get_input(handle, &in));
    HG_CHECK(fs_handler_get_addr(handle) != NA_ADDR_NULL);
    out.ret = in.mode + 1;
    out.opened = in.name; /* it lives until this function has returned */
    report_over = in.mode < 0;
    HG_CHECK_OK(fs_handler_complete(handle, &out));
    HG_CHECK(in.name != NULL && strlen(in.name) > 0);
    return S_SUCCESS;
}

static int report_write(fs_handle_t handle)
{
    report_data_in_t in;
    report_data_out_t out;
    bds_block_handle_t block;
    na_addr_t source = fs_handler_get_addr(handle);

    HG_CHECK_OK(fs_handler_get_input(handle, &in));
    report_file_size = bds_handle_get_size(in.data);
    HG_CHECK(report_file_size <= REPORT_FILE_MAX);
    HG_CHECK_OK(
        bds_block_handle_create(report_file, report_file_size, 0, &block));
    HG_CHECK_EQ_U64(bds_block_handle_get_size(block), report_file_size);
    HG_CHECK_OK(bds_wait(block, 0)); /* no transfer yet */
    HG_CHECK_OK(bds_read(in.data, source, block));
    HG_CHECK_RET(bds_read(in.data, source, block), HG_BUSY);
    HG_CHECK_OK(bds_wait(block, REPORT_MS));
    out.size = report_file_size;
    HG_CHECK_OK(fs_handler_complete(handle, &out));
    HG_CHECK_OK(bds_block_handle_free(block));
    return S_SUCCESS;
}

/* It frees the handle of its input, which is optional. */
static int report_read(fs_handle_t handle)
{
    report_data_in_t in;
    report_data_out_t out;
    bds_block_handle_t block;

    HG_CHECK_OK(fs_handler_get_input(handle, &in));
    HG_CHECK_OK(
        bds_block_handle_create(report_file, report_file_size, 0, &block));
    HG_CHECK_OK(bds_write(in.data, fs_handler_get_addr(handle), block));
    HG_CHECK_OK(bds_wait(block, REPORT_MS));
    HG_CHECK_OK(bds_block_handle_free(block));
    HG_CHECK_OK(bds_handle_free(in.data));
    out.size = report_file_size;
    HG_CHECK_OK(fs_handler_complete(handle, &out));
    return S_SUCCESS;
}

static void report_serve_begin(na_network_class_t *network_class)
{
    hg_test_expect_log("is in a transfer");
    HG_CHECK_OK(fs_handler_init(network_class));
    HG_CHECK_OK(bds_init(network_class));
    fs_handler_register("open", report_open, fs_proc_report_open_in_t,
        fs_proc_report_open_out_t);
    fs_handler_register("write", report_write, fs_proc_report_data_in_t,
        fs_proc_report_data_out_t);
    fs_handler_register("read", report_read, fs_proc_report_data_in_t,
        fs_proc_report_data_out_t);
}

static void report_serve_end(void)
{
    HG_CHECK_OK(bds_finalize());
    HG_CHECK_OK(fs_handler_finalize());
}

HG_TEST_ROLE(server)
{
    na_network_class_t *network_class = na_mpi_init(NULL, 1);
    char address[NA_MAX_ADDR_LEN];
    na_addr_t self;

    HG_CHECK(argc == 0 || argv != NULL);
    HG_CHECK(network_class != NULL);
    report_serve_begin(network_class);
    HG_CHECK_OK(NA_Addr_self(network_class, &self));
    HG_CHECK_OK(
        NA_Addr_to_string(network_class, address, sizeof(address), self));
    HG_CHECK_OK(na_addr_free(network_class, self));
    hg_test_write_parent(address);
    while (!report_over)
        HG_CHECK_OK(fs_handler_process(100));
    report_serve_end();
    HG_CHECK_OK(na_finalize(network_class));
}

/* ---- The client ---- */

static void report_call_open(na_addr_t addr, fs_id_t id)
{
    report_open_in_t in = {"path", 41};
    report_open_out_t out[3];
    fs_request_t requests[3];
    fs_status_t statuses[3] = {HG_FALSE, HG_FALSE, HG_FALSE};
    int i;

    for (i = 0; i < 3; i++)
        HG_CHECK_OK(fs_forward(addr, id, &in, &out[i], &requests[i]));
    HG_CHECK_OK(fs_wait_all(3, requests, REPORT_MS, statuses));
    for (i = 0; i < 3; i++) {
        HG_CHECK_EQ_INT(statuses[i], HG_TRUE);
        HG_CHECK(requests[i] == HG_REQUEST_NULL);
        HG_CHECK_EQ_INT(out[i].ret, 42);
        HG_CHECK_EQ_STR(out[i].opened, "path");
        hg_proc_release(HG_PROC_NULL, out[i].opened);
    }
    HG_CHECK_OK(fs_wait_all(3, requests, 0, NULL)); /* all have ended */
}

/* Write or read `size` bytes at `data`. */
static void report_call_data(
    na_addr_t addr, fs_id_t id, char *data, size_t size)
{
    report_data_in_t in = {"path", HG_BULK_NULL};
    report_data_out_t out = {0};
    fs_request_t request;
    fs_status_t status = HG_FALSE;

    HG_CHECK_OK(bds_handle_create(data, size, 0, &in.data));
    HG_CHECK_OK(fs_forward(addr, id, &in, &out, &request));
    HG_CHECK_OK(fs_wait(request, REPORT_MS, &status));
    HG_CHECK_EQ_INT(status, HG_TRUE);
    HG_CHECK_EQ_U64(out.size, size);
    HG_CHECK_OK(bds_handle_free(in.data));
}

static void report_client(na_network_class_t *network_class, na_addr_t addr)
{
    fs_id_t open_id, write_id, read_id;
    report_open_in_t last = {"path", -1};
    report_open_out_t out;
    fs_request_t request;
    char *sent = HG_CAST(char *, malloc(REPORT_FILE_MAX));
    char *got = HG_CAST(char *, calloc(1, REPORT_FILE_MAX));
    size_t i;

    HG_CHECK(sent != NULL && got != NULL);
    for (i = 0; i < REPORT_FILE_MAX; i++)
        sent[i] = (char) (i * 7 % 251);
    HG_CHECK_OK(fs_init(network_class));
    HG_CHECK_OK(bds_init(network_class));
    open_id = fs_register(
        "open", fs_proc_report_open_in_t, fs_proc_report_open_out_t);
    write_id = fs_register(
        "write", fs_proc_report_data_in_t, fs_proc_report_data_out_t);
    read_id = fs_register(
        "read", fs_proc_report_data_in_t, fs_proc_report_data_out_t);
    HG_CHECK(open_id != 0 && write_id != 0 && read_id != 0);
    report_call_open(addr, open_id);
    report_call_data(addr, write_id, sent, REPORT_FILE_MAX);
    report_call_data(addr, read_id, got, REPORT_FILE_MAX);
    HG_CHECK_EQ_MEM(got, sent, REPORT_FILE_MAX);
    HG_CHECK_OK(fs_forward(addr, open_id, &last, &out, &request));
    HG_CHECK_OK(fs_wait(request, REPORT_MS, NULL));
    hg_proc_release(HG_PROC_NULL, out.opened);
    HG_CHECK_OK(bds_finalize());
    HG_CHECK_OK(fs_finalize());
    free(sent);
    free(got);
}

/* Client and server as two processes, over the transport `url`. */
static void report_run(const char *url)
{
    na_network_class_t *network_class;
    struct hg_test_peer *server;
    na_addr_t addr;
    char *name;

    HG_CHECK_EQ_INT(setenv("HG_SEED_ADDRESS", url, 1), 0);
    hg_test_allow_log("no transport");
    network_class = na_mpi_init(NULL, 0);
    if (network_class == NULL)
        hg_test_skip("%s is not compiled in", url);
    server = hg_test_spawn("server", HG_CAST(char *, 0));
    name = hg_test_read_peer(server);
    HG_CHECK_OK(na_addr_lookup(network_class, name, &addr));
    report_client(network_class, addr);
    HG_CHECK_EQ_INT(hg_test_wait(server), 0);
    HG_CHECK_OK(na_addr_free(network_class, addr));
    HG_CHECK_OK(na_finalize(network_class));
    free(name);
}

HG_TEST(programs_of_the_design_report_run_over_sm)
{
    report_run("sm://");
}

HG_TEST(programs_of_the_design_report_run_over_zmq)
{
    report_run("zmq+tcp://127.0.0.1");
}

/* One process is client and server: each layer is initialized twice, and ends
 * with the last finalize. */
HG_TEST(client_and_server_share_a_process)
{
    na_network_class_t *network_class;
    na_network_class_t *other;
    na_addr_t self;

    HG_CHECK_EQ_INT(setenv("HG_SEED_ADDRESS", "self://", 1), 0);
    network_class = na_mpi_init(NULL, 1);
    other = na_mpi_init(NULL, 1);
    HG_CHECK(network_class != NULL && other != NULL);
    report_serve_begin(network_class);
    HG_CHECK_OK(NA_Addr_self(network_class, &self));
    report_client(network_class, self);
    hg_test_expect_log("another class");
    HG_CHECK_RET(fs_init(other), HG_EXIST);
    HG_CHECK_RET(bds_init(other), HG_EXIST);
    HG_CHECK(report_over);
    report_serve_end();
    hg_test_expect_log("HG_Finalize: not initialized");
    HG_CHECK_RET(fs_finalize(), HG_FAULT);
    HG_CHECK_RET(bds_finalize(), HG_FAULT);
    HG_CHECK_OK(na_addr_free(network_class, self));
    HG_CHECK_OK(na_finalize(network_class));
    HG_CHECK_OK(na_finalize(other));
}

/* A child of fork opens layers of its own. */
static bool report_child_runs(void)
{
    na_network_class_t *own = NA_Initialize("self://", NA_TRUE);
    na_addr_t self;

    if (own == NULL || fs_finalize() != HG_FAULT || fs_init(own) != 0 ||
        NA_Addr_self(own, &self) != 0)
        return false;
    report_serve_begin(own);
    report_client(own, self);
    report_serve_end();
    return na_addr_free(own, self) == 0 && fs_finalize() == 0 &&
        na_finalize(own) == 0;
}

HG_TEST(child_of_fork_has_layers_of_its_own)
{
    na_network_class_t *network_class = NA_Initialize("self://", NA_TRUE);
    int status = -1;
    pid_t child;

    HG_CHECK(network_class != NULL);
    HG_CHECK_OK(fs_init(network_class));
    HG_CHECK_OK(bds_init(network_class));
    (void) fflush(NULL);
    child = fork();
    HG_CHECK(child >= 0);
    if (child == 0) {
        HG_Set_log_func(NULL, NULL);
        (void) HG_Set_log_level("none");
        _exit(report_child_runs() ? 0 : 1);
    }
    HG_CHECK(waitpid(child, &status, 0) == child);
    HG_CHECK_EQ_INT(status, 0);
    HG_CHECK_OK(bds_finalize());
    HG_CHECK_OK(fs_finalize());
    HG_CHECK_OK(na_finalize(network_class));
}

/* The bulk layer may be initialized first, on its own class, and finalized
 * last. */
HG_TEST(bulk_data_uses_a_separate_class)
{
    na_network_class_t *network_class = NA_Initialize("self://", NA_TRUE);
    na_network_class_t *bulk_class = NA_Initialize("self://", NA_TRUE);
    unsigned char bytes[1024];
    char memory[100] = {1, 2, 3};
    bds_handle_t handle, copy;

    HG_CHECK(network_class != NULL && bulk_class != NULL);
    HG_CHECK_OK(bds_init(bulk_class));
    HG_CHECK_OK(fs_init(network_class));
    HG_CHECK_OK(bds_handle_create(memory, sizeof(memory), 0, &handle));
    HG_CHECK_OK(bds_handle_serialize(bytes, sizeof(bytes), handle));
    HG_CHECK_OK(bds_handle_deserialize(&copy, bytes, sizeof(bytes)));
    HG_CHECK_EQ_U64(bds_handle_get_size(copy), sizeof(memory));
    HG_CHECK_OK(bds_handle_free(copy));
    HG_CHECK_OK(bds_handle_free(handle));
    HG_CHECK_OK(bds_finalize());
    HG_CHECK_OK(fs_finalize());
    HG_CHECK_OK(na_finalize(bulk_class));
    HG_CHECK_OK(na_finalize(network_class));
}

/* ---- The network layer ---- */

static void report_exchange(na_network_class_t *network_class, na_addr_t self)
{
    char out[] = "unexpected", in[64] = "", more[64] = "";
    na_size_t size = sizeof(in);
    na_addr_t source = NA_ADDR_NULL;
    na_request_t request, other;
    na_status_t status = HG_TRUE;
    na_tag_t tag = 0;

    HG_CHECK(na_get_unexpected_size(network_class) > sizeof(in));
    HG_CHECK_OK(na_recv_unexpected(
        network_class, in, &size, &source, &tag, &request, NULL));
    HG_CHECK_OK(na_wait(network_class, request, 0, &status));
    HG_CHECK_EQ_INT(status, HG_FALSE);
    HG_CHECK_RET(na_wait(network_class, request, 0, NULL), NA_TIMEOUT);
    HG_CHECK_RET(na_finalize(network_class), NA_BUSY);
    HG_CHECK_OK(na_send_unexpected(
        network_class, out, sizeof(out), self, 7, &other, NULL));
    HG_CHECK_OK(na_wait(network_class, other, REPORT_MS, NULL));
    HG_CHECK_OK(na_wait(network_class, request, REPORT_MS, &status));
    HG_CHECK_EQ_INT(status, HG_TRUE);
    HG_CHECK_EQ_STR(in, out);
    HG_CHECK_EQ_U64(size, sizeof(out));
    HG_CHECK_EQ_INT(tag, 7);
    HG_CHECK_OK(
        na_recv(network_class, more, sizeof(more), source, 8, &request, NULL));
    HG_CHECK_OK(na_send(network_class, in, size, source, 8, &other, NULL));
    HG_CHECK_OK(na_wait(network_class, request, REPORT_MS, NULL));
    HG_CHECK_OK(na_wait(network_class, other, REPORT_MS, NULL));
    HG_CHECK_EQ_STR(more, out);
    HG_CHECK_OK(na_addr_free(network_class, source));
    HG_CHECK_RET(
        na_recv_unexpected(network_class, in, NULL, NULL, NULL, &request, NULL),
        NA_INVALID_ARG);
    HG_CHECK_RET(
        na_send(network_class, in, size, self, 8, NULL, NULL), NA_INVALID_ARG);
    HG_CHECK_RET(na_wait(network_class, NULL, 0, NULL), NA_INVALID_ARG);
}

static void report_move(na_network_class_t *network_class, na_addr_t self)
{
    char local[32] = "local", remote[32] = "remote";
    unsigned char bytes[1024];
    na_mem_handle_t mine, theirs, described;
    na_request_t request;

    HG_CHECK_OK(na_mem_register(network_class, local, sizeof(local), 0, &mine));
    HG_CHECK_OK(
        na_mem_register(network_class, remote, sizeof(remote), 0, &theirs));
    HG_CHECK_OK(
        na_mem_handle_serialize(network_class, bytes, sizeof(bytes), theirs));
    HG_CHECK_RET(
        na_mem_handle_serialize(network_class, bytes, 8, theirs), NA_MSGSIZE);
    HG_CHECK_RET(na_mem_handle_deserialize(network_class, &described, bytes, 8),
        NA_PROTOCOL_ERROR);
    HG_CHECK_OK(na_mem_handle_deserialize(
        network_class, &described, bytes, sizeof(bytes)));
    HG_CHECK_OK(
        na_put(network_class, mine, 0, described, 10, 6, self, &request));
    HG_CHECK_OK(na_wait(network_class, request, REPORT_MS, NULL));
    HG_CHECK_EQ_STR(remote + 10, "local");
    HG_CHECK_OK(
        na_get(network_class, mine, 8, described, 0, 7, self, &request));
    HG_CHECK_OK(na_wait(network_class, request, REPORT_MS, NULL));
    HG_CHECK_EQ_STR(local + 8, "remote");
    HG_CHECK_OK(na_mem_handle_free(network_class, described));
    HG_CHECK_OK(na_mem_deregister(network_class, theirs));
    HG_CHECK_OK(na_mem_deregister(network_class, mine));
}

HG_TEST(network_layer_waits_for_requests)
{
    na_network_class_t *network_class = NA_Initialize("self://", NA_TRUE);
    na_addr_t self;

    hg_test_expect_log("na_wait: no request");
    hg_test_allow_log("");
    HG_CHECK(network_class != NULL);
    HG_CHECK_OK(NA_Addr_self(network_class, &self));
    report_exchange(network_class, self);
    report_move(network_class, self);
    HG_CHECK_OK(na_addr_free(network_class, self));
    HG_CHECK_OK(na_finalize(network_class));
}

/* ---- The paper's misspelled name ---- */

HG_TEST(misspelled_name_of_the_paper_exists)
{
    hg_return_t (*function)(
        na_addr_t, hg_id_t, void *, void *, hg_request_t *) = HG_Foward;

    HG_CHECK(function == HG_Forward1);
}
