/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * demo_client: ships a file to the demo's server, or fetches one.
 *
 *     demo_client ADDRESS put FILE NAME     FILE becomes NAME at the server
 *     demo_client ADDRESS get NAME FILE     and the other way round
 *
 * ADDRESS is what the server printed. With self://FOLDER there is no other
 * process: the client serves the files of that folder to itself. Nothing has
 * its name before it is whole, neither there nor here.
 *
 * A file travels in pieces, several of them in flight. Each has a slot: a
 * buffer, described to the library once, and the call that moves it.
 */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "demo_serve.h"
#include "peer.h"
#include "usage.h"

#define CLIENT_SLOTS 4       /* pieces in flight */
#define CLIENT_CLOSE_MS 2000 /* closing goes on after Ctrl-C, but not long */
#define CLIENT_BAR 40

static const char client_help[] =
    "usage: demo_client ADDRESS put FILE NAME\n"
    "       demo_client ADDRESS get NAME FILE\n"
    "\n"
    "Copies FILE to a demo_server, where it is called NAME; or copies NAME\n"
    "from the server into FILE. With self://FOLDER as ADDRESS, the client\n"
    "itself serves the files of FOLDER.\n"
    "\n"
    "Examples:\n"
    "  demo_client sm://files put README.md name\n"
    "  demo_client sm://files get name copy\n";

struct client {
    struct peer peer;
    bool alone; /* its own server */
    hg_id_t open_id, write_id, read_id, stat_id, close_id, counts_id;
};

struct slot {
    void *data;
    hg_bulk_t memory;
    hg_request_t request; /* HG_REQUEST_NULL: free */
    uint64_t offset;
    uint64_t size;
    demo_move_out_t out;
};

/* A file on its way. */
struct ship {
    struct client *client;
    bool put;
    int fd; /* here */
    const char *path;
    uint64_t file; /* there */
    bool lost;     /* calls get no answer any more */
    uint64_t size;
    uint64_t done;
    double started;
    struct slot slots[CLIENT_SLOTS];
};

/* ---- Calls ---- */

static bool client_register(struct client *client)
{
    client->open_id =
        MERCURY_REGISTER("demo.open", demo_open_in_t, demo_open_out_t, NULL);
    client->write_id =
        MERCURY_REGISTER("demo.write", demo_move_in_t, demo_move_out_t, NULL);
    client->read_id =
        MERCURY_REGISTER("demo.read", demo_move_in_t, demo_move_out_t, NULL);
    client->stat_id =
        MERCURY_REGISTER("demo.stat", demo_stat_in_t, demo_stat_out_t, NULL);
    client->close_id =
        MERCURY_REGISTER("demo.close", demo_close_in_t, demo_close_out_t, NULL);
    client->counts_id =
        MERCURY_REGISTER("demo.counts", void, demo_counts_t, NULL);
    return client->open_id != 0 && client->write_id != 0 &&
        client->read_id != 0 && client->stat_id != 0 && client->close_id != 0 &&
        client->counts_id != 0;
}

/* What the server's file system said, as our code. */
static hg_return_t client_answer(const char *what, int error)
{
    if (error == 0)
        return HG_SUCCESS;
    (void) fprintf(stderr, "the server's %s: %s\n", what, strerror(error));
    return HG_IO_ERROR;
}

/* One call from start to end; `error` is that of the output, or NULL. Outputs
 * of the demo hold no pointers, so they outlive the request. */
static hg_return_t client_call(struct client *client, const char *what,
    hg_id_t id, void *in, void *out, const int32_t *error)
{
    hg_request_t request;
    hg_return_t ret;

    ret = HG_Forward(client->peer.addr, id, in, out, &request);
    if (ret != HG_SUCCESS)
        return peer_report(what, ret);
    ret = peer_report(what, peer_wait(request));
    (void) HG_Request_free(request);
    if (ret == HG_SUCCESS && error != NULL)
        ret = client_answer(what, *error);
    return ret;
}

static hg_return_t client_open(
    struct client *client, const char *name, uint32_t mode, uint64_t *file)
{
    demo_open_in_t in = {name, mode};
    demo_open_out_t out = {0, 0};
    hg_return_t ret =
        client_call(client, "open", client->open_id, &in, &out, &out.error);

    if (ret == HG_SUCCESS)
        *file = out.file;
    return ret;
}

static hg_return_t client_stat(
    struct client *client, const char *name, uint64_t *size)
{
    demo_stat_in_t in = {name};
    demo_stat_out_t out = {0, 0};
    hg_return_t ret =
        client_call(client, "stat", client->stat_id, &in, &out, &out.error);

    if (ret == HG_SUCCESS)
        *size = out.size;
    return ret;
}

/* Also after Ctrl-C, so that the server is left tidy. */
static hg_return_t client_close(struct client *client, uint64_t file, bool keep)
{
    demo_close_in_t in = {file, keep ? HG_TRUE : HG_FALSE};
    demo_close_out_t out = {0};
    hg_request_t request;
    hg_return_t ret;

    ret = HG_Forward(client->peer.addr, client->close_id, &in, &out, &request);
    if (ret != HG_SUCCESS)
        return peer_report("close", ret);
    ret = peer_report(
        "close", HG_Wait(request, CLIENT_CLOSE_MS, HG_STATUS_IGNORE));
    (void) HG_Request_free(request);
    return ret != HG_SUCCESS ? ret : client_answer("close", out.error);
}

/* ---- What the user sees ---- */

static double client_now(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        return 0;
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static const char *client_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Whether there is anybody to see a bar, and anything to be seen. */
static bool ship_is_shown(const struct ship *ship)
{
    return ship->size > 0 && isatty(STDERR_FILENO);
}

/* A bar on a terminal; nothing elsewhere. */
static void ship_show(const struct ship *ship)
{
    char bar[CLIENT_BAR + 1];
    int filled;

    if (!ship_is_shown(ship))
        return;
    filled = (int) (ship->done * CLIENT_BAR / ship->size);
    memset(bar, '.', CLIENT_BAR);
    memset(bar, '#', (size_t) filled);
    bar[CLIENT_BAR] = '\0';
    (void) fprintf(stderr, "\r%s [%s] %3d%%%s",
        ship->put ? "writing" : "reading", bar, filled * 100 / CLIENT_BAR,
        ship->done == ship->size ? "\n" : "");
    (void) fflush(stderr);
}

/* Of little, a rate would say nothing. */
static void ship_report(const struct ship *ship)
{
    double seconds = client_now() - ship->started;
    double mib = (double) ship->size / (1 << 20);
    const char *what = ship->put ? "wrote" : "read";

    if (ship->size < DEMO_PIECE || seconds <= 0)
        printf("%s %" PRIu64 " byte%s in %.3f s\n", what, ship->size,
            client_plural(ship->size), seconds);
    else
        printf("%s %.1f MiB in %.3f s: %.0f MiB/s (pieces of %zu MiB, %d in "
               "flight)\n",
            what, mib, seconds, mib / seconds, DEMO_PIECE >> 20, CLIENT_SLOTS);
}

static hg_return_t client_report_counts(struct client *client)
{
    demo_counts_t counts;
    hg_return_t ret;

    memset(&counts, 0, sizeof(counts));
    ret = client_call(client, "counts", client->counts_id, NULL, &counts, NULL);
    if (ret != HG_SUCCESS)
        return ret;
    printf("server: %" PRIu64 " open, %" PRIu64 " write, %" PRIu64
           " read, %" PRIu64 " stat, %" PRIu64 " close; %" PRIu64
           " byte%s in, %" PRIu64 " byte%s out\n",
        counts.opens, counts.writes, counts.reads, counts.stats, counts.closes,
        counts.bytes_in, client_plural(counts.bytes_in), counts.bytes_out,
        client_plural(counts.bytes_out));
    printf("server's library: %" PRIu64 " call%s, %" PRIu64 " error%s, %" PRIu64
           " byte%s pulled, %" PRIu64 " byte%s pushed\n",
        counts.requests, client_plural(counts.requests), counts.errors,
        client_plural(counts.errors), counts.bulk_in,
        client_plural(counts.bulk_in), counts.bulk_out,
        client_plural(counts.bulk_out));
    /* A rank of MPI waits for the others when it exits. */
    return fflush(stdout) == 0 ? HG_SUCCESS : HG_IO_ERROR;
}

/* ---- Shipping ---- */

/* Complain about the file here. */
static hg_return_t ship_fail(const struct ship *ship, const char *why)
{
    (void) fprintf(stderr, "%s: %s\n", ship->path, why);
    return HG_IO_ERROR;
}

/* Move a whole piece between a slot and the file here. */
static hg_return_t ship_file_piece(struct ship *ship, struct slot *slot)
{
    uint64_t done = 0;

    while (done < slot->size) {
        char *data = (char *) slot->data + done;
        size_t size = (size_t) (slot->size - done);
        off_t at = (off_t) (slot->offset + done);
        ssize_t n = ship->put ? pread(ship->fd, data, size, at)
                              : pwrite(ship->fd, data, size, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ship_fail(ship, strerror(errno));
        if (n == 0)
            return ship_fail(ship, "the file is changing");
        done += (uint64_t) n;
    }
    return HG_SUCCESS;
}

/* Start the call that moves the piece at `offset`. */
static hg_return_t ship_start(
    struct ship *ship, struct slot *slot, uint64_t offset)
{
    struct client *client = ship->client;
    demo_move_in_t in;
    hg_return_t ret;

    slot->offset = offset;
    slot->size =
        ship->size - offset < DEMO_PIECE ? ship->size - offset : DEMO_PIECE;
    if (ship->put) {
        ret = ship_file_piece(ship, slot);
        if (ret != HG_SUCCESS)
            return ret;
    }
    in.file = ship->file;
    in.offset = slot->offset;
    in.size = slot->size;
    in.memory = slot->memory;
    ret = HG_Forward(client->peer.addr,
        ship->put ? client->write_id : client->read_id, &in, &slot->out,
        &slot->request);
    ship->lost = ret != HG_SUCCESS;
    return peer_report(ship->put ? "write" : "read", ret);
}

/* Wait for a slot's call and see what came of it. */
static hg_return_t ship_finish(struct ship *ship, struct slot *slot)
{
    const char *what = ship->put ? "write" : "read";
    hg_return_t ret = peer_wait(slot->request);

    if (ret != HG_SUCCESS && ship_is_shown(ship))
        (void) fputc('\n', stderr); /* the bar stays as it is */
    ship->lost = ret != HG_SUCCESS && !peer_is_stopped();
    (void) peer_report(what, ret);
    (void) HG_Request_free(slot->request);
    slot->request = HG_REQUEST_NULL;
    if (ret == HG_SUCCESS)
        ret = client_answer(what, slot->out.error);
    if (ret == HG_SUCCESS && slot->out.moved != slot->size)
        ret = ship_fail(ship, "the server moved less than a piece");
    if (ret == HG_SUCCESS && !ship->put)
        ret = ship_file_piece(ship, slot);
    if (ret == HG_SUCCESS) {
        ship->done += slot->size;
        ship_show(ship);
    }
    return ret;
}

/* All pieces, in order, each in the next slot. */
static hg_return_t ship_pieces(struct ship *ship)
{
    hg_return_t ret = HG_SUCCESS;
    uint64_t offset;
    size_t next = 0;
    size_t i;

    for (offset = 0; offset < ship->size && ret == HG_SUCCESS;
         offset += DEMO_PIECE) {
        struct slot *slot = &ship->slots[next];

        if (slot->request != HG_REQUEST_NULL)
            ret = ship_finish(ship, slot);
        if (ret == HG_SUCCESS)
            ret = ship_start(ship, slot, offset);
        next = (next + 1) % CLIENT_SLOTS;
    }
    for (i = 0; i < CLIENT_SLOTS && ret == HG_SUCCESS; i++) {
        struct slot *slot = &ship->slots[(next + i) % CLIENT_SLOTS];

        if (slot->request != HG_REQUEST_NULL)
            ret = ship_finish(ship, slot);
    }
    return ret;
}

static hg_return_t ship_slots_create(struct ship *ship)
{
    size_t size = DEMO_PIECE;
    hg_return_t ret;
    int i;

    for (i = 0; i < CLIENT_SLOTS; i++) {
        struct slot *slot = &ship->slots[i];

        slot->data = malloc(size);
        if (slot->data == NULL) {
            (void) fprintf(stderr, "no memory for %d pieces\n", CLIENT_SLOTS);
            return HG_NOMEM;
        }
        ret = HG_Bulk_handle_create(1, &slot->data, &size,
            ship->put ? HG_BULK_READ_ONLY : HG_BULK_WRITE_ONLY, &slot->memory);
        if (ret != HG_SUCCESS)
            return ret;
    }
    return HG_SUCCESS;
}

/* What is under way may end, for a moment. Freeing a request takes its call
 * back; after freeing the handle the server does not touch the memory any
 * more; only then may that go. */
static void ship_slots_destroy(struct ship *ship)
{
    hg_request_t requests[CLIENT_SLOTS];
    int count = 0;
    int i;

    for (i = 0; i < CLIENT_SLOTS; i++) {
        if (ship->slots[i].request != HG_REQUEST_NULL)
            requests[count++] = ship->slots[i].request;
    }
    if (count > 0 && !ship->lost)
        (void) HG_Wait_all(count, requests, CLIENT_CLOSE_MS, HG_STATUS_IGNORE);
    for (i = 0; i < CLIENT_SLOTS; i++) {
        struct slot *slot = &ship->slots[i];

        if (slot->request != HG_REQUEST_NULL)
            (void) HG_Request_free(slot->request);
        if (slot->memory != HG_BULK_NULL)
            (void) HG_Bulk_handle_free(slot->memory);
        free(slot->data);
    }
}

/* Everything between opening and closing the file there. */
static hg_return_t ship_all(struct ship *ship, const char *name)
{
    hg_return_t close_ret;
    hg_return_t ret;

    ret = client_open(ship->client, name,
        ship->put ? DEMO_MODE_WRITE : DEMO_MODE_READ, &ship->file);
    if (ret != HG_SUCCESS)
        return ret;
    ret = ship_slots_create(ship);
    ship->started = client_now();
    if (ret == HG_SUCCESS)
        ret = ship_pieces(ship);
    ship_slots_destroy(ship);
    if (ship->lost)
        return ret;
    close_ret =
        client_close(ship->client, ship->file, ship->put && ret == HG_SUCCESS);
    return ret != HG_SUCCESS ? ret : close_ret;
}

static hg_return_t client_put(
    struct client *client, const char *path, const char *name)
{
    struct ship ship = {0};
    struct stat status;
    hg_return_t ret;
    uint64_t size;

    ship.client = client;
    ship.put = true;
    ship.path = path;
    ship.fd = open(path, O_RDONLY | O_CLOEXEC);
    if (ship.fd < 0)
        return ship_fail(&ship, strerror(errno));
    if (fstat(ship.fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        ret = ship_fail(&ship, "not a regular file");
        goto close_file;
    }
    ship.size = (uint64_t) status.st_size;
    ret = ship_all(&ship, name);
    if (ret == HG_SUCCESS)
        ret = client_stat(client, name, &size);
    if (ret == HG_SUCCESS && size != ship.size)
        ret = ship_fail(&ship, "the server's file has another size");
    if (ret == HG_SUCCESS)
        ship_report(&ship);
close_file:
    (void) close(ship.fd);
    return ret;
}

/* Open the file that becomes `path` when it is whole: its name, to be freed;
 * NULL and a line. */
static char *client_part(const char *path, int *fd_p)
{
    size_t size = strlen(path) + sizeof(".part");
    struct stat status;
    char *part;

    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        (void) fprintf(stderr, "%s: not a regular file\n", path);
        return NULL;
    }
    part = (char *) malloc(size);
    if (part == NULL) {
        (void) fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return NULL;
    }
    (void) snprintf(part, size, "%s.part", path);
    *fd_p = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (*fd_p >= 0)
        return part;
    (void) fprintf(stderr, "%s: %s\n", part, strerror(errno));
    free(part);
    return NULL;
}

static hg_return_t client_get(
    struct client *client, const char *name, const char *path)
{
    struct ship ship = {0};
    hg_return_t ret;
    char *part;

    ship.client = client;
    ship.path = path;
    ret = client_stat(client, name, &ship.size);
    if (ret != HG_SUCCESS)
        return ret;
    part = client_part(path, &ship.fd);
    if (part == NULL)
        return HG_IO_ERROR;
    ret = ship_all(&ship, name);
    if (close(ship.fd) != 0 && ret == HG_SUCCESS)
        ret = ship_fail(&ship, strerror(errno));
    if (ret == HG_SUCCESS && rename(part, path) != 0)
        ret = ship_fail(&ship, strerror(errno));
    if (ret == HG_SUCCESS)
        ship_report(&ship);
    else
        (void) unlink(part);
    free(part);
    return ret;
}

/* ---- Life ---- */

static hg_return_t client_begin(struct client *client, const char *address)
{
    static const char self[] = "self://";
    hg_return_t ret;

    memset(client, 0, sizeof(*client));
    client->alone = strncmp(address, self, strlen(self)) == 0;
    ret = client->alone ? peer_listen(&client->peer, self)
                        : peer_connect(&client->peer, address);
    if (ret != HG_SUCCESS)
        return ret;
    if (client->alone)
        ret = demo_serve_begin(client->peer.na_class, address + strlen(self));
    if (ret != HG_SUCCESS)
        goto close_peer;
    if (client_register(client))
        return HG_SUCCESS;
    ret = HG_OTHER_ERROR;
    if (client->alone)
        demo_serve_end();
close_peer:
    peer_close(&client->peer);
    return ret;
}

static void client_end(struct client *client)
{
    if (client->alone)
        demo_serve_end();
    peer_close(&client->peer);
}

int main(int argc, char *argv[])
{
    bool put = argc == 5 && strcmp(argv[2], "put") == 0;
    bool get = argc == 5 && strcmp(argv[2], "get") == 0;
    struct client client;
    hg_return_t ret;

    if (usage_is_printed(argc, argv, "demo_client", client_help))
        return 0;
    if (!put && !get)
        return usage_error("demo_client",
            "expects ADDRESS put FILE NAME, or ADDRESS get NAME FILE");
    peer_catch_signals();
    ret = client_begin(&client, argv[1]);
    if (ret == HG_SUCCESS) {
        ret = put ? client_put(&client, argv[3], argv[4])
                  : client_get(&client, argv[3], argv[4]);
        if (ret == HG_SUCCESS)
            ret = client_report_counts(&client);
        client_end(&client);
    }
    return ret != HG_SUCCESS;
}
