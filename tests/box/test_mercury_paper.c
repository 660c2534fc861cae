/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mercury_paper: the programs printed in the design documents, as printed, with
 * the ellipses filled in, run to their result.
 *
 * The two listings are from the Mercury paper (2013), Section IV-A. Corrected
 * in them: `HG_Foward`; `block_handle` for `block_handle[p]` where the next
 * read starts; the declarations of i, p and fd; and the remaining piece, which
 * the listing leaves to a comment and which the second server implements. The
 * macro lines are from the Mercury design report (Function Shipper milestone),
 * "Generic Processor Macros", and from its forerunner, under its older name.
 */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "harness.h"
#include "hg.h"

/* ---- Generated procs, line for line ---- */

/* clang-format off */
MERCURY_GEN_PROC( function_in_t, ((int32_t)(func_param1)) )
/* clang-format on */

/* The older document uses the same struct name. */
#define function_in_t older_function_in_t
#define hg_proc_function_in_t hg_proc_older_function_in_t
/* clang-format off */
IOFSL_SHIPPER_GEN_PROC( function_in_t, ((int32_t)(func_param1)) )
/* clang-format on */
#undef function_in_t
#undef hg_proc_function_in_t

MERCURY_GEN_PROC(write_in_t, ((hg_bulk_t) (bulk_handle)))
MERCURY_GEN_PROC(write_out_t, ((int32_t) (ret)))

/* "More complex structures require definition of the substructures." */
MERCURY_GEN_PROC(outer_t,
    ((function_in_t) (first))((hg_string_t) (name))((function_in_t) (second)))

HG_TEST(generated_proc_carries_its_integer)
{
    function_in_t in = {-5}, out = {0};
    unsigned char wire[4];
    hg_proc_t proc;

    HG_CHECK_OK(hg_proc_create(wire, sizeof(wire), HG_ENCODE, &proc));
    HG_CHECK_OK(hg_proc_function_in_t(proc, &in));
    HG_CHECK_EQ_U64(hg_proc_get_size_used(proc), 4);
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_EQ_MEM(wire, "\xfb\xff\xff\xff", 4);
    HG_CHECK_OK(hg_proc_create(wire, sizeof(wire), HG_DECODE, &proc));
    HG_CHECK_OK(hg_proc_function_in_t(proc, &out));
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_EQ_INT(out.func_param1, -5);
}

HG_TEST(older_macro_name_generates_the_same_bytes)
{
    function_in_t one = {77};
    older_function_in_t two = {77};
    unsigned char wire[2][4];
    hg_proc_t proc;

    HG_CHECK_OK(hg_proc_create(wire[0], 4, HG_ENCODE, &proc));
    HG_CHECK_OK(hg_proc_function_in_t(proc, &one));
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_OK(hg_proc_create(wire[1], 4, HG_ENCODE, &proc));
    HG_CHECK_OK(hg_proc_older_function_in_t(proc, &two));
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_EQ_MEM(wire[0], wire[1], 4);
}

HG_TEST(substructures_are_generated_from_their_procs)
{
    char name[] = "between";
    outer_t in = {{1}, name, {2}}, out;
    unsigned char wire[64];
    hg_proc_t proc;

    memset(&out, 0, sizeof(out));
    HG_CHECK_OK(hg_proc_create(wire, sizeof(wire), HG_ENCODE, &proc));
    HG_CHECK_OK(hg_proc_outer_t(proc, &in));
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_OK(hg_proc_create(wire, sizeof(wire), HG_DECODE, &proc));
    HG_CHECK_OK(hg_proc_outer_t(proc, &out));
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_EQ_INT(out.first.func_param1, 1);
    HG_CHECK_EQ_STR(out.name, "between");
    HG_CHECK_EQ_INT(out.second.func_param1, 2);
    HG_CHECK_OK(hg_proc_create(NULL, 0, HG_FREE, &proc));
    HG_CHECK_OK(hg_proc_outer_t(proc, &out));
    HG_CHECK_OK(hg_proc_free(proc));
}

/* ---- The server's listing ---- */

#define PIPELINE_BUFFER_SIZE 256
#define PIPELINE_SIZE 4

static int paper_fd = -1; /* the file the server writes */
static bool paper_finalized;

static int rpc_write(hg_handle_t handle)
{
    write_in_t in_struct;
    write_out_t out_struct;
    hg_bulk_t bulk_handle;
    hg_bulk_block_t block_handle[PIPELINE_SIZE];
    hg_bulk_request_t bulk_request[PIPELINE_SIZE];
    void *buf[PIPELINE_SIZE];
    size_t nbytes, nbytes_read = 0;
    size_t start_offset = 0;
    na_addr_t client_addr = HG_Handler_get_addr(handle);
    int fd = paper_fd, ret = 0;
    size_t p;

    /* Get input parameters and bulk handle */
    HG_CHECK_OK(HG_Handler_get_input(handle, &in_struct));
    bulk_handle = in_struct.bulk_handle;

    /* Get size of data and allocate buffer */
    nbytes = HG_Bulk_handle_get_size(bulk_handle);
    HG_CHECK(nbytes % (PIPELINE_SIZE * PIPELINE_BUFFER_SIZE) == 0);

    /* Initialize pipeline and start reads */
    for (p = 0; p < PIPELINE_SIZE; p++) {
        size_t offset = p * PIPELINE_BUFFER_SIZE;
        buf[p] = malloc(PIPELINE_BUFFER_SIZE);
        HG_CHECK(buf[p] != NULL);

        /* Create block handle to read data */
        HG_CHECK_OK(HG_Bulk_block_handle_create(
            buf[p], PIPELINE_BUFFER_SIZE, HG_BULK_READWRITE, &block_handle[p]));

        /* Start read of data chunk */
        HG_CHECK_OK(HG_Bulk_read(client_addr, bulk_handle, offset,
            block_handle[p], 0, PIPELINE_BUFFER_SIZE, &bulk_request[p]));
    }

    while (nbytes_read != nbytes) {
        for (p = 0; p < PIPELINE_SIZE; p++) {
            size_t offset = start_offset + p * PIPELINE_BUFFER_SIZE;

            /* Wait for data chunk */
            HG_CHECK_OK(HG_Bulk_wait(
                bulk_request[p], HG_MAX_IDLE_TIME, HG_STATUS_IGNORE));
            nbytes_read += PIPELINE_BUFFER_SIZE;

            /* Do work (write data chunk) */
            HG_CHECK_EQ_INT(
                write(fd, buf[p], PIPELINE_BUFFER_SIZE), PIPELINE_BUFFER_SIZE);
            ret += PIPELINE_BUFFER_SIZE;

            /* Start another read */
            offset += PIPELINE_BUFFER_SIZE * PIPELINE_SIZE;
            if (offset < nbytes) {
                HG_CHECK_OK(HG_Bulk_read(client_addr, bulk_handle, offset,
                    block_handle[p], 0, PIPELINE_BUFFER_SIZE,
                    &bulk_request[p]));
            }
        }
        start_offset += PIPELINE_BUFFER_SIZE * PIPELINE_SIZE;
    }

    /* Finalize pipeline */
    for (p = 0; p < PIPELINE_SIZE; p++) {
        HG_CHECK_OK(HG_Bulk_block_handle_free(block_handle[p]));
        free(buf[p]);
    }

    /* Start sending response back */
    HG_CHECK_OK(HG_Handler_free_input(handle, &in_struct));
    out_struct.ret = ret;
    HG_CHECK_OK(HG_Handler_start_output(handle, &out_struct));
    paper_finalized = true;
    return HG_Handler_free(handle);
}

/* For a size that is no multiple of the buffer size: "Start read with remaining
 * piece". */
static int rpc_write_any(hg_handle_t handle)
{
    write_in_t in_struct;
    write_out_t out_struct = {0};
    hg_bulk_block_t block_handle[PIPELINE_SIZE];
    hg_bulk_request_t bulk_request[PIPELINE_SIZE];
    char buf[PIPELINE_SIZE][PIPELINE_BUFFER_SIZE];
    size_t started = 0, nbytes, p, chunk;
    na_addr_t client_addr = HG_Handler_get_addr(handle);
    size_t size[PIPELINE_SIZE] = {0};

    HG_CHECK_OK(HG_Handler_get_input(handle, &in_struct));
    nbytes = HG_Bulk_handle_get_size(in_struct.bulk_handle);
    for (p = 0; p < PIPELINE_SIZE; p++)
        HG_CHECK_OK(HG_Bulk_block_handle_create(
            buf[p], PIPELINE_BUFFER_SIZE, HG_BULK_READWRITE, &block_handle[p]));
    for (p = 0; (size_t) out_struct.ret < nbytes; p = (p + 1) % PIPELINE_SIZE) {
        if (size[p] > 0) {
            HG_CHECK_OK(HG_Bulk_wait(
                bulk_request[p], HG_MAX_IDLE_TIME, HG_STATUS_IGNORE));
            HG_CHECK_EQ_INT(
                write(paper_fd, buf[p], size[p]), (intmax_t) size[p]);
            out_struct.ret += (int32_t) size[p];
            size[p] = 0;
        }
        chunk = nbytes - started < PIPELINE_BUFFER_SIZE ? nbytes - started
                                                        : PIPELINE_BUFFER_SIZE;
        if (chunk == 0)
            continue;
        HG_CHECK_OK(HG_Bulk_read(client_addr, in_struct.bulk_handle, started,
            block_handle[p], 0, chunk, &bulk_request[p]));
        size[p] = chunk;
        started += chunk;
    }
    for (p = 0; p < PIPELINE_SIZE; p++)
        HG_CHECK_OK(HG_Bulk_block_handle_free(block_handle[p]));
    HG_CHECK_OK(HG_Handler_free_input(handle, &in_struct));
    HG_CHECK_OK(HG_Handler_start_output(handle, &out_struct));
    paper_finalized = true;
    return HG_Handler_free(handle);
}

/* The paper's main of the server, writing to the file `path`. */
static void paper_serve(const char *path, hg_rpc_cb_t rpc_cb, const char *info)
{
    na_class_t *na_class = NA_Initialize(info, NA_TRUE);
    char text[NA_MAX_ADDR_LEN];
    na_addr_t self;
    FILE *file = fopen(path, "wb");

    HG_CHECK(na_class != NULL && file != NULL);
    HG_CHECK_OK(HG_Init(na_class));
    HG_CHECK(
        HG_HANDLER_REGISTER("write", rpc_cb, write_in_t, write_out_t) != 0);
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, text, sizeof(text), self));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    paper_fd = fileno(file);
    hg_test_write_parent(text);
    while (!paper_finalized) {
        /* Process RPC requests (nonblocking) */
        HG_Handler_process(0, HG_STATUS_IGNORE);
    }
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
    HG_CHECK_EQ_INT(fclose(file), 0);
}

/* ---- The client's listing ---- */

#define BULK_NX 16
#define BULK_NY 128

static int paper_buf[BULK_NX][BULK_NY];

static void paper_fill(void)
{
    int i, j;

    for (i = 0; i < BULK_NX; i++)
        for (j = 0; j < BULK_NY; j++)
            paper_buf[i][j] = i * 1000 + j;
}

/* From registering to freeing the bulk handle; rows of `ny` integers. */
static void paper_write(na_addr_t server_addr, size_t ny)
{
    hg_id_t rpc_id;
    write_in_t in_struct;
    write_out_t out_struct;
    hg_request_t rpc_request;
    hg_bulk_segment_t segments[BULK_NX];
    hg_bulk_t bulk_handle = HG_BULK_NULL;
    int i, ret;

    /* Register RPC call */
    rpc_id = HG_REGISTER("write", write_in_t, write_out_t);
    HG_CHECK(rpc_id != 0);

    /* Provide data layout information */
    for (i = 0; i < BULK_NX; i++) {
        segments[i].address = paper_buf[i];
        segments[i].size = ny * sizeof(int);
    }

    /* Create bulk handle with segment info */
    HG_CHECK_OK(HG_Bulk_handle_create_segments(
        segments, BULK_NX, HG_BULK_READ_ONLY, &bulk_handle));

    /* Attach bulk handle to input parameters */
    in_struct.bulk_handle = bulk_handle;

    /* Send RPC request */
    HG_CHECK_OK(
        HG_Forward(server_addr, rpc_id, &in_struct, &out_struct, &rpc_request));

    /* Wait for RPC completion and response */
    HG_CHECK_OK(HG_Wait(rpc_request, HG_MAX_IDLE_TIME, HG_STATUS_IGNORE));

    /* Get output parameters */
    ret = out_struct.ret;
    HG_CHECK_EQ_INT(ret, (intmax_t) (BULK_NX * ny * sizeof(int)));
    HG_CHECK_OK(HG_Request_free(rpc_request));

    /* Free bulk handle */
    HG_CHECK_OK(HG_Bulk_handle_free(bulk_handle));
}

/* ---- Run to their result ---- */

/* The file holds the rows, one after the other. */
static void paper_check_file(const char *path, size_t ny)
{
    FILE *file = fopen(path, "rb");
    int row[BULK_NY];
    int i;

    HG_CHECK(file != NULL);
    for (i = 0; i < BULK_NX; i++) {
        HG_CHECK_EQ_U64(fread(row, sizeof(int), ny, file), ny);
        HG_CHECK_EQ_MEM(row, paper_buf[i], ny * sizeof(int));
    }
    HG_CHECK_EQ_INT(fgetc(file), EOF);
    HG_CHECK_EQ_INT(fclose(file), 0);
}

static void paper_path(char *path, size_t size)
{
    HG_CHECK(snprintf(path, size, "%s/written", hg_test_dir()) < (int) size);
}

/* Client and server in one process: HG_Wait runs the handler. */
static void paper_run_alone(hg_rpc_cb_t rpc_cb, size_t ny)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    char path[4096];
    na_addr_t self;
    FILE *file;

    paper_path(path, sizeof(path));
    paper_fill();
    file = fopen(path, "wb");
    HG_CHECK(na_class != NULL && file != NULL);
    paper_fd = fileno(file);
    HG_CHECK_OK(HG_Init(na_class));
    HG_CHECK(
        HG_HANDLER_REGISTER("write", rpc_cb, write_in_t, write_out_t) != 0);
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    paper_write(self, ny);
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
    HG_CHECK_EQ_INT(fclose(file), 0);
    paper_check_file(path, ny);
}

HG_TEST(listings_run_in_one_process)
{
    paper_run_alone(rpc_write, BULK_NY);
}

HG_TEST(remaining_piece_is_written_in_one_process)
{
    paper_run_alone(rpc_write_any, BULK_NY - 1);
}

HG_TEST_ROLE(server)
{
    HG_CHECK_EQ_INT(argc, 2);
    paper_serve(argv[0],
        strcmp(argv[1], "any") == 0 ? rpc_write_any : rpc_write,
        "zmq+tcp://127.0.0.1");
}

/* Client and server in two processes, as in the paper. */
static void paper_run_apart(const char *how, size_t ny)
{
    struct hg_test_peer *server;
    na_class_t *na_class;
    na_addr_t server_addr;
    char path[4096];
    char *name;

    hg_test_allow_log("no transport");
    na_class = NA_Initialize("zmq+tcp://", NA_FALSE);
    if (na_class == NULL)
        hg_test_skip("ZeroMQ is not compiled in");
    paper_path(path, sizeof(path));
    paper_fill();
    server = hg_test_spawn("server", path, how, NULL);
    name = hg_test_read_peer(server);
    HG_CHECK_OK(HG_Init(na_class));
    HG_CHECK_OK(NA_Addr_lookup_wait(na_class, name, 5000, &server_addr));
    paper_write(server_addr, ny);
    HG_CHECK_EQ_INT(hg_test_wait(server), 0);
    HG_CHECK_OK(NA_Addr_free(na_class, server_addr));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
    free(name);
    paper_check_file(path, ny);
}

HG_TEST(listings_run_in_two_processes)
{
    paper_run_apart("listing", BULK_NY);
}

HG_TEST(remaining_piece_is_written_between_processes)
{
    paper_run_apart("any", BULK_NY - 1);
}
