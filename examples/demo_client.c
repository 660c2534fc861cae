/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * demo_client: copies a file to the demo's server or from it.
 *
 *     demo_client ADDRESS put FILE NAME     copies FILE to the server as NAME
 *     demo_client ADDRESS get NAME FILE     copies NAME from the server to FILE
 *
 * ADDRESS is the address that demo_server printed. With self://FOLDER there is
 * no other process: the client itself serves the files of that folder. A file
 * gets its name only when it is complete, at the server and at the client.
 *
 * A file is copied in pieces, several of them in flight. A piece in flight has
 * a slot: a buffer, registered for bulk transfers once, and the call that moves
 * it.
 *
 * Times. Both processes have one thread, which works on a file or for hg. The
 * client measures the time in read(2) and write(2); the rest of its time is
 * that of hg, which includes waiting for the server. The server measures the
 * same for its calls. A transfer may make progress during file work: that time
 * counts as files.
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
#define CLIENT_CLOSE_MS 2000 /* limit for closing the file after Ctrl-C */
#define CLIENT_BAR 40

static const char client_help[] =
    "usage: demo_client ADDRESS put FILE NAME\n"
    "       demo_client ADDRESS get NAME FILE\n"
    "\n"
    "Copies FILE to a demo_server, where it is called NAME; or copies NAME\n"
    "from the server into FILE. With self://FOLDER as ADDRESS, the client\n"
    "itself serves the files of FOLDER.\n"
    "\n"
    "Prints how much of the time client and server spent on files and on hg.\n"
    "Transfers that make progress during file work count as files.\n"
    "\n"
    "Examples:\n"
    "  demo_client sm://files put README.md name\n"
    "  demo_client sm://files get name copy\n";

struct client {
    struct peer peer;
    bool alone; /* client and server are one process */
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

/* The copy of one file. */
struct copy {
    struct client *client;
    bool put; /* to the server */
    int fd;   /* of the client's file */
    const char *path;
    uint64_t file; /* number of the server's file */
    bool lost;     /* the server does not respond any more */
    uint64_t size;
    uint64_t done;
    /* Times, in seconds. The server's are those of its calls. */
    double started;
    double total;
    double files;
    double server_files;
    double server_hg;
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

/* Report an errno of the server. */
static hg_return_t client_check(const char *what, int error)
{
    if (error == 0)
        return HG_SUCCESS;
    (void) fprintf(stderr, "%s at the server: %s\n", what, strerror(error));
    return HG_IO_ERROR;
}

/* Make a call and wait for it. `error` points to the errno in `out`, or is
 * NULL. Outputs of the demo have no pointers, so `out` stays valid after the
 * request is freed. */
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
        ret = client_check(what, *error);
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

/* Close the server's file, also after Ctrl-C. */
static hg_return_t client_close(struct client *client, uint64_t file, bool keep)
{
    demo_close_in_t in = {file, keep ? HG_TRUE : HG_FALSE};
    demo_close_out_t out = {0};
    hg_request_t request;
    hg_return_t ret;

    ret = HG_Forward(client->peer.addr, client->close_id, &in, &out, &request);
    if (ret != HG_SUCCESS)
        return peer_report("close", ret);
    ret = peer_wait(request);
    if (ret == HG_CANCELED && peer_is_stopped())
        ret = HG_Wait(request, CLIENT_CLOSE_MS, HG_STATUS_IGNORE);
    ret = peer_report("close", ret);
    (void) HG_Request_free(request);
    return ret != HG_SUCCESS ? ret : client_check("close", out.error);
}

/* ---- Output ---- */

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

/* Whether to show a progress bar. */
static bool copy_is_shown(const struct copy *copy)
{
    return copy->size > 0 && isatty(STDERR_FILENO);
}

/* Show the progress, if stderr is a terminal. */
static void copy_show(const struct copy *copy)
{
    char bar[CLIENT_BAR + 1];
    int filled;

    if (!copy_is_shown(copy))
        return;
    filled = (int) (copy->done * CLIENT_BAR / copy->size);
    memset(bar, '.', CLIENT_BAR);
    memset(bar, '#', (size_t) filled);
    bar[CLIENT_BAR] = '\0';
    (void) fprintf(stderr, "\r%s [%s] %3d%%%s",
        copy->put ? "writing" : "reading", bar, filled * 100 / CLIENT_BAR,
        copy->done == copy->size ? "\n" : "");
    (void) fflush(stderr);
}

/* A rate of less than a piece would mean nothing. */
static void copy_report(const struct copy *copy)
{
    double mib = (double) copy->size / (1 << 20);
    const char *what = copy->put ? "wrote" : "read";

    if (copy->size < DEMO_PIECE || copy->total <= 0 || copy->server_hg <= 0) {
        printf("%s %" PRIu64 " byte%s in %.3f s\n", what, copy->size,
            client_plural(copy->size), copy->total);
        return;
    }
    printf("%s %.1f MiB in %.3f s: %.0f MiB/s, files included\n", what, mib,
        copy->total, mib / copy->total);
    printf("  client: %.3f s files, %.3f s hg and waiting for the server\n",
        copy->files, copy->total - copy->files);
    printf("  server: %.3f s files, %.3f s hg transfers (%.0f MiB/s)\n",
        copy->server_files, copy->server_hg, mib / copy->server_hg);
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

/* ---- Copying ---- */

/* Report an error of the client's file. */
static hg_return_t copy_fail(const struct copy *copy, const char *why)
{
    (void) fprintf(stderr, "%s: %s\n", copy->path, why);
    return HG_IO_ERROR;
}

/* Read or write the piece of a slot in the client's file. */
static hg_return_t copy_file_piece(struct copy *copy, struct slot *slot)
{
    double start = client_now();
    uint64_t done = 0;

    while (done < slot->size) {
        char *data = (char *) slot->data + done;
        size_t size = (size_t) (slot->size - done);
        off_t at = (off_t) (slot->offset + done);
        ssize_t n = copy->put ? pread(copy->fd, data, size, at)
                              : pwrite(copy->fd, data, size, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return copy_fail(copy, strerror(errno));
        if (n == 0)
            return copy_fail(copy, "the file became shorter");
        done += (uint64_t) n;
    }
    copy->files += client_now() - start;
    return HG_SUCCESS;
}

/* Start the call that moves the piece at `offset`. */
static hg_return_t copy_start(
    struct copy *copy, struct slot *slot, uint64_t offset)
{
    struct client *client = copy->client;
    demo_move_in_t in;
    hg_return_t ret;

    slot->offset = offset;
    slot->size =
        copy->size - offset < DEMO_PIECE ? copy->size - offset : DEMO_PIECE;
    if (copy->put) {
        ret = copy_file_piece(copy, slot);
        if (ret != HG_SUCCESS)
            return ret;
    }
    in.file = copy->file;
    in.offset = slot->offset;
    in.size = slot->size;
    in.memory = slot->memory;
    ret = HG_Forward(client->peer.addr,
        copy->put ? client->write_id : client->read_id, &in, &slot->out,
        &slot->request);
    copy->lost = ret != HG_SUCCESS;
    return peer_report(copy->put ? "write" : "read", ret);
}

/* Wait for the call of a slot and check its output. */
static hg_return_t copy_finish(struct copy *copy, struct slot *slot)
{
    const char *what = copy->put ? "write" : "read";
    hg_return_t ret = peer_wait(slot->request);

    if (ret != HG_SUCCESS && copy_is_shown(copy))
        (void) fputc('\n', stderr); /* ends the progress bar */
    copy->lost = ret != HG_SUCCESS && !peer_is_stopped();
    (void) peer_report(what, ret);
    (void) HG_Request_free(slot->request);
    slot->request = HG_REQUEST_NULL;
    if (ret == HG_SUCCESS)
        ret = client_check(what, slot->out.error);
    if (ret == HG_SUCCESS && slot->out.moved != slot->size)
        ret = copy_fail(copy, "the server moved only a part of a piece");
    if (ret == HG_SUCCESS) {
        copy->server_files += (double) slot->out.file_ns / 1e9;
        copy->server_hg += (double) slot->out.hg_ns / 1e9;
    }
    if (ret == HG_SUCCESS && !copy->put)
        ret = copy_file_piece(copy, slot);
    if (ret == HG_SUCCESS) {
        copy->done += slot->size;
        copy_show(copy);
    }
    return ret;
}

/* Copy all pieces, in order, each in the next slot. */
static hg_return_t copy_pieces(struct copy *copy)
{
    hg_return_t ret = HG_SUCCESS;
    uint64_t offset;
    size_t next = 0;
    size_t i;

    for (offset = 0; offset < copy->size && ret == HG_SUCCESS;
         offset += DEMO_PIECE) {
        struct slot *slot = &copy->slots[next];

        if (slot->request != HG_REQUEST_NULL)
            ret = copy_finish(copy, slot);
        if (ret == HG_SUCCESS)
            ret = copy_start(copy, slot, offset);
        next = (next + 1) % CLIENT_SLOTS;
    }
    for (i = 0; i < CLIENT_SLOTS && ret == HG_SUCCESS; i++) {
        struct slot *slot = &copy->slots[(next + i) % CLIENT_SLOTS];

        if (slot->request != HG_REQUEST_NULL)
            ret = copy_finish(copy, slot);
    }
    return ret;
}

static hg_return_t copy_slots_create(struct copy *copy)
{
    size_t size = DEMO_PIECE;
    hg_return_t ret;
    int i;

    for (i = 0; i < CLIENT_SLOTS; i++) {
        struct slot *slot = &copy->slots[i];

        slot->data = malloc(size);
        if (slot->data == NULL) {
            (void) fprintf(stderr, "out of memory\n");
            return HG_NOMEM;
        }
        ret = HG_Bulk_handle_create(1, &slot->data, &size,
            copy->put ? HG_BULK_READ_ONLY : HG_BULK_WRITE_ONLY, &slot->memory);
        if (ret != HG_SUCCESS)
            return ret;
    }
    return HG_SUCCESS;
}

/* Give calls in flight some time to end. Freeing a request cancels its call.
 * After the bulk handle is freed, the server cannot access the memory; only
 * then may the memory be freed. */
static void copy_slots_destroy(struct copy *copy)
{
    hg_request_t requests[CLIENT_SLOTS];
    int count = 0;
    int i;

    for (i = 0; i < CLIENT_SLOTS; i++) {
        if (copy->slots[i].request != HG_REQUEST_NULL)
            requests[count++] = copy->slots[i].request;
    }
    if (count > 0 && !copy->lost)
        (void) HG_Wait_all(count, requests, CLIENT_CLOSE_MS, HG_STATUS_IGNORE);
    for (i = 0; i < CLIENT_SLOTS; i++) {
        struct slot *slot = &copy->slots[i];

        if (slot->request != HG_REQUEST_NULL)
            (void) HG_Request_free(slot->request);
        if (slot->memory != HG_BULK_NULL)
            (void) HG_Bulk_handle_free(slot->memory);
        free(slot->data);
    }
}

/* Open the server's file, copy all pieces, close it. */
static hg_return_t copy_all(struct copy *copy, const char *name)
{
    hg_return_t close_ret;
    hg_return_t ret;

    ret = client_open(copy->client, name,
        copy->put ? DEMO_MODE_WRITE : DEMO_MODE_READ, &copy->file);
    if (ret != HG_SUCCESS)
        return ret;
    ret = copy_slots_create(copy);
    copy->started = client_now();
    if (ret == HG_SUCCESS)
        ret = copy_pieces(copy);
    copy->total = client_now() - copy->started;
    copy_slots_destroy(copy);
    if (copy->lost)
        return ret;
    close_ret =
        client_close(copy->client, copy->file, copy->put && ret == HG_SUCCESS);
    return ret != HG_SUCCESS ? ret : close_ret;
}

static hg_return_t client_put(
    struct client *client, const char *path, const char *name)
{
    struct copy copy = {0};
    struct stat status;
    hg_return_t ret;
    uint64_t size;

    copy.client = client;
    copy.put = true;
    copy.path = path;
    copy.fd = open(path, O_RDONLY | O_CLOEXEC);
    if (copy.fd < 0)
        return copy_fail(&copy, strerror(errno));
    if (fstat(copy.fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        ret = copy_fail(&copy, "not a regular file");
        goto close_file;
    }
    copy.size = (uint64_t) status.st_size;
    ret = copy_all(&copy, name);
    if (ret == HG_SUCCESS)
        ret = client_stat(client, name, &size);
    if (ret == HG_SUCCESS && size != copy.size)
        ret = copy_fail(&copy, "the file at the server has another size");
    if (ret == HG_SUCCESS)
        copy_report(&copy);
close_file:
    (void) close(copy.fd);
    return ret;
}

/* Open a new file, which is renamed to `path` when it is complete. Returns its
 * name, which the caller frees; NULL after an error. */
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
    struct copy copy = {0};
    hg_return_t ret;
    char *part;

    copy.client = client;
    copy.path = path;
    ret = client_stat(client, name, &copy.size);
    if (ret != HG_SUCCESS)
        return ret;
    part = client_part(path, &copy.fd);
    if (part == NULL)
        return HG_IO_ERROR;
    ret = copy_all(&copy, name);
    if (close(copy.fd) != 0 && ret == HG_SUCCESS)
        ret = copy_fail(&copy, strerror(errno));
    if (ret == HG_SUCCESS && rename(part, path) != 0)
        ret = copy_fail(&copy, strerror(errno));
    if (ret == HG_SUCCESS)
        copy_report(&copy);
    else
        (void) unlink(part);
    free(part);
    return ret;
}

/* ---- Start and end ---- */

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
