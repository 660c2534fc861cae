/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * write: the program of the Mercury paper (2013), Section IV-A: a remote
 * write() of non-contiguous memory, through a pipeline of the server's buffers.
 *
 *     write                        calls itself, over self://
 *     write server ADDRESS FILE    listens, prints its address, appends to FILE
 *                                  what clients write, until Ctrl-C
 *     write client ADDRESS         writes the inside of a matrix
 *
 * For example, in two terminals:
 *
 *     write server sm://write matrix
 *     write client sm://write
 *
 * The client describes the inside of the matrix, all but its border: one memory
 * segment for each row. It sends this bulk handle with the call. The server
 * pulls the bytes piece by piece, and writes one piece to the file while the
 * next ones are in flight. If server and client are one process, it compares
 * the file with the matrix at the end.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hg.h"
#include "peer.h"
#include "usage.h"

#define ROWS 1000
#define COLUMNS 1021 /* makes the last piece shorter than the others */
#define BUFFERS 4
#define BUFFER_SIZE ((size_t) 64 << 10)
#define WRITE_MAX ((size_t) 1 << 30) /* bytes of one call */
#define WRITE_TIMEOUT_MS 60000       /* of its transfer */

static const char write_help[] =
    "usage: write [server ADDRESS FILE | client ADDRESS]\n"
    "\n"
    "A remote write of non-contiguous memory. The client sends the inside of\n"
    "a matrix; the server appends it to FILE. Without arguments, server and\n"
    "client are this process.\n"
    "\n"
    "Examples:\n"
    "  write\n"
    "  write server sm://write matrix &\n"
    "  write client sm://write\n";

MERCURY_GEN_PROC(write_in_t, ((hg_bulk_t) (bulk_handle)))
MERCURY_GEN_PROC(write_out_t, ((int32_t) (error))((uint64_t) (written)))

/* ---- Server ---- */

/* A handler gets nothing but its handle, so the server's state is global. */
static struct write_server {
    int fd;
    hg_bulk_pipeline_t pipeline;
} write_server = {.fd = -1};

/* Write a whole piece; 0 or an errno. */
static int write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        data += n;
        size -= (size_t) n;
    }
    return 0;
}

static hg_return_t write_piece(
    void *arg, void *data, size_t *size, size_t offset)
{
    write_out_t *out = (write_out_t *) arg;

    (void) offset; /* pieces arrive in order */
    out->error = write_all(write_server.fd, (const char *) data, *size);
    if (out->error != 0)
        return HG_IO_ERROR;
    out->written += *size;
    return HG_SUCCESS;
}

static hg_return_t rpc_write(hg_handle_t handle)
{
    write_in_t in;
    write_out_t out = {0, 0};
    hg_return_t ret;
    size_t size;

    ret = HG_Handler_get_input(handle, &in);
    if (ret != HG_SUCCESS)
        return ret;
    size = HG_Bulk_handle_get_size(in.bulk_handle);
    if (size > WRITE_MAX)
        ret = HG_MSGSIZE;
    else
        ret = HG_Bulk_pipeline_pull(write_server.pipeline, handle,
            in.bulk_handle, 0, size, write_piece, &out, WRITE_TIMEOUT_MS);
    (void) HG_Handler_free_input(handle, &in);
    /* A failed write to the file is an output; a failed transfer is an error
     * of the call. */
    if (ret != HG_SUCCESS && out.error == 0)
        return ret;
    (void) HG_Handler_start_output(handle, &out);
    return HG_Handler_free(handle);
}

static hg_return_t write_serve(const struct peer *peer)
{
    hg_return_t ret;

    if (HG_HANDLER_REGISTER("write", rpc_write, write_in_t, write_out_t) == 0)
        return HG_OTHER_ERROR;
    ret = HG_Bulk_pipeline_create(
        NULL, BUFFERS, BUFFER_SIZE, &write_server.pipeline);
    if (ret != HG_SUCCESS)
        return ret;
    ret = peer_print_address(peer);
    if (ret == HG_SUCCESS)
        ret = peer_serve();
    (void) HG_Bulk_pipeline_free(write_server.pipeline);
    return ret;
}

/* ---- Client ---- */

typedef int matrix_t[ROWS + 2][COLUMNS + 2];

static void write_fill(matrix_t matrix)
{
    int i, j;

    for (i = 0; i < ROWS + 2; i++)
        for (j = 0; j < COLUMNS + 2; j++)
            matrix[i][j] = i * 10000 + j;
}

/* Make the call and wait for its output. */
static hg_return_t write_forward(na_addr_t server, hg_bulk_t bulk)
{
    hg_id_t id = HG_REGISTER("write", write_in_t, write_out_t);
    write_in_t in = {bulk};
    write_out_t out;
    hg_request_t request;
    hg_return_t ret;

    if (id == 0)
        return HG_OTHER_ERROR;
    ret = HG_Forward(server, id, &in, &out, &request);
    if (ret != HG_SUCCESS)
        return ret;
    ret = peer_report("write", peer_wait(request));
    (void) HG_Request_free(request);
    if (ret != HG_SUCCESS)
        return ret;
    printf("%" PRIu64 " of %zu bytes written\n", out.written,
        HG_Bulk_handle_get_size(bulk));
    if (out.error == 0)
        return HG_SUCCESS;
    (void) fprintf(stderr, "write at the server: %s\n", strerror(out.error));
    return HG_IO_ERROR;
}

/* Describe the inside of the matrix and make the call. */
static hg_return_t write_matrix(na_addr_t server, matrix_t matrix)
{
    hg_bulk_segment_t segments[ROWS];
    hg_bulk_t bulk = HG_BULK_NULL;
    hg_return_t ret;
    int i;

    for (i = 0; i < ROWS; i++) {
        segments[i].address = &matrix[i + 1][1];
        segments[i].size = COLUMNS * sizeof(int);
    }
    ret = HG_Bulk_handle_create_segments(
        segments, ROWS, HG_BULK_READ_ONLY, &bulk);
    if (ret != HG_SUCCESS)
        return ret;
    ret = write_forward(server, bulk);
    (void) HG_Bulk_handle_free(bulk);
    return ret;
}

/* ---- Server and client in one process ---- */

/* Whether the file holds the inside of the matrix. */
static bool write_is_complete(FILE *file, matrix_t matrix)
{
    int row[COLUMNS];
    int i;

    rewind(file);
    for (i = 0; i < ROWS; i++) {
        if (fread(row, sizeof(row), 1, file) != 1 ||
            memcmp(row, &matrix[i + 1][1], sizeof(row)) != 0)
            return false;
    }
    return fgetc(file) == EOF;
}

static hg_return_t write_alone(const struct peer *peer, matrix_t matrix)
{
    FILE *file = tmpfile(); /* it disappears when it is closed */
    hg_return_t ret;

    if (file == NULL) {
        (void) fprintf(stderr, "a temporary file: %s\n", strerror(errno));
        return HG_IO_ERROR;
    }
    write_server.fd = fileno(file);
    ret = HG_Bulk_pipeline_create(
        NULL, BUFFERS, BUFFER_SIZE, &write_server.pipeline);
    if (ret != HG_SUCCESS)
        goto close_file;
    if (HG_HANDLER_REGISTER("write", rpc_write, write_in_t, write_out_t) == 0)
        ret = HG_OTHER_ERROR;
    else
        ret = write_matrix(peer->addr, matrix);
    if (ret == HG_SUCCESS && !write_is_complete(file, matrix)) {
        (void) fprintf(stderr, "the file differs from what was sent\n");
        ret = HG_CHECKSUM_ERROR;
    }
    (void) HG_Bulk_pipeline_free(write_server.pipeline);
close_file:
    (void) fclose(file);
    return ret;
}

static hg_return_t write_client(const struct peer *peer, bool alone)
{
    matrix_t *matrix = (matrix_t *) malloc(sizeof(*matrix));
    hg_return_t ret;

    if (matrix == NULL) {
        (void) fprintf(stderr, "out of memory\n");
        return HG_NOMEM;
    }
    write_fill(*matrix);
    ret =
        alone ? write_alone(peer, *matrix) : write_matrix(peer->addr, *matrix);
    free(matrix);
    return ret;
}

int main(int argc, char *argv[])
{
    bool server = argc == 4 && strcmp(argv[1], "server") == 0;
    bool client = argc == 3 && strcmp(argv[1], "client") == 0;
    struct peer peer;
    hg_return_t ret;

    if (usage_is_printed(argc, argv, "write", write_help))
        return 0;
    if (argc != 1 && !client && !server)
        return usage_error("write",
            "expects no arguments, server ADDRESS FILE or client ADDRESS");
    peer_catch_signals();
    if (server) {
        write_server.fd = open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0666);
        if (write_server.fd < 0) {
            (void) fprintf(stderr, "%s: %s\n", argv[3], strerror(errno));
            return 1;
        }
    }
    ret = client ? peer_connect(&peer, argv[2])
                 : peer_listen(&peer, server ? argv[2] : "self://");
    if (ret == HG_SUCCESS) {
        ret = server ? write_serve(&peer) : write_client(&peer, !client);
        peer_close(&peer);
    }
    if (server && close(write_server.fd) != 0) {
        (void) fprintf(stderr, "%s: %s\n", argv[3], strerror(errno));
        return 1;
    }
    return ret != HG_SUCCESS;
}
