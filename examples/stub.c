/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stub: the remote write of write.c, with the code between client and server
 * made by one line.
 *
 *     stub                        both in this process, over self://
 *     stub server ADDRESS FILE    listens, prints its address, appends what
 *                                 clients write to FILE, till Ctrl-C
 *     stub client ADDRESS         writes what it reads on its standard input
 *
 * What is left to write are a C function at the server and its call at the
 * client. The function pulls the caller's memory piece by piece; several pieces
 * at a time, and memory in many pieces, is what write.c shows.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "hg.h"
#include "peer.h"
#include "stop.h"

#define STUB_PIECE ((size_t) 64 << 10)
#define STUB_INPUT ((size_t) 1 << 20)
#define STUB_PATIENCE_MS 10000

/* Returns 0 or an errno. This line stands where client and server see it: in a
 * header, where these are programs of their own. */
MERCURY_GEN_RPC_STUB(
    int32_t, stub_write, ((hg_memory_in_t) (data)), ((uint64_t) (written)))

/* ---- Server ---- */

static int stub_fd = -1;

/* Write all of a piece, however many calls it takes; 0 or an errno. */
static int stub_write_piece(const char *piece, size_t size)
{
    while (size > 0) {
        ssize_t n = write(stub_fd, piece, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        piece += n;
        size -= (size_t) n;
    }
    return 0;
}

int32_t stub_write(hg_memory_t data, uint64_t *written)
{
    static char piece[STUB_PIECE]; /* handlers of one thread do not nest here */
    size_t at;

    for (at = 0; at < data.size; at += STUB_PIECE) {
        size_t left = data.size - at;
        size_t size = left < STUB_PIECE ? left : STUB_PIECE;
        int error;

        if (HG_Bulk_pull(data.call, data.bulk, at, piece, size) != HG_SUCCESS)
            return EIO;
        error = stub_write_piece(piece, size);
        if (error != 0)
            return error;
        *written += size;
    }
    return 0;
}

/* ---- Client ---- */

static hg_return_t stub_ship(na_addr_t server, const char *data, size_t size)
{
    uint64_t written = 0;
    int32_t error = 0;
    hg_return_t ret =
        stub_write_call(server, STUB_PATIENCE_MS, data, size, &written, &error);

    ret = peer_say("write", ret);
    if (ret != HG_SUCCESS)
        return ret;
    printf("%" PRIu64 " of %zu bytes written\n", written, size);
    if (error == 0)
        return HG_SUCCESS;
    (void) fprintf(stderr, "the server's write: %s\n", strerror(error));
    return HG_IO_ERROR;
}

static hg_return_t stub_client(na_addr_t server)
{
    static char data[STUB_INPUT];
    size_t size = fread(data, 1, sizeof(data), stdin);

    return stub_ship(server, data, size);
}

/* ---- Both in one ---- */

static hg_return_t stub_alone(na_addr_t self)
{
    static char data[STUB_INPUT];
    static char back[STUB_INPUT];
    FILE *file = tmpfile(); /* has no name, so that nothing is left behind */
    hg_return_t ret;
    size_t i;

    if (file == NULL) {
        (void) fprintf(stderr, "a temporary file: %s\n", strerror(errno));
        return HG_IO_ERROR;
    }
    for (i = 0; i < sizeof(data); i++)
        data[i] = (char) (i % 251);
    stub_fd = fileno(file);
    ret = stub_ship(self, data, sizeof(data));
    rewind(file);
    if (ret == HG_SUCCESS &&
        (fread(back, 1, sizeof(back), file) != sizeof(back) ||
            memcmp(back, data, sizeof(data)) != 0)) {
        (void) fprintf(stderr, "the file is not what was sent\n");
        ret = HG_CHECKSUM_ERROR;
    }
    (void) fclose(file);
    return ret;
}

static hg_return_t stub_run(const struct peer *peer, bool client, bool server)
{
    hg_return_t ret;

    if ((client ? stub_write_register() : stub_write_provide()) == 0)
        return HG_OTHER_ERROR;
    if (client)
        return stub_client(peer->addr);
    if (!server)
        return stub_alone(peer->addr);
    ret = peer_announce(peer);
    return ret == HG_SUCCESS ? stop_serve() : ret;
}

int main(int argc, char *argv[])
{
    bool server = argc == 4 && strcmp(argv[1], "server") == 0;
    bool client = argc == 3 && strcmp(argv[1], "client") == 0;
    struct peer peer;
    hg_return_t ret;

    if (argc != 1 && !client && !server) {
        (void) fprintf(
            stderr, "usage: stub [server ADDRESS FILE | client ADDRESS]\n");
        return 2;
    }
    stop_on_signals();
    if (server) {
        stub_fd = open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0666);
        if (stub_fd < 0) {
            (void) fprintf(stderr, "%s: %s\n", argv[3], strerror(errno));
            return 1;
        }
    }
    ret = client ? peer_connect(&peer, argv[2])
                 : peer_listen(&peer, server ? argv[2] : "self://");
    if (ret == HG_SUCCESS) {
        ret = stub_run(&peer, client, server);
        peer_close(&peer);
    }
    if (server && close(stub_fd) != 0) {
        (void) fprintf(stderr, "%s: %s\n", argv[3], strerror(errno));
        return 1;
    }
    return ret != HG_SUCCESS;
}
