/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * demo_serve: the demo's server does not trust its clients. A client that sends
 * what the demo's client never sends gets an error of the file system, and the
 * server continues.
 */
#include "../../examples/demo_serve.c"

#include "harness.h"

#define SERVE_WAIT_MS HG_TEST_WAIT_MS
#define SERVE_SIZE 100000

/* A client, in the server's process or in its own. */
struct serve {
    na_class_t *na_class;
    na_addr_t server;
};

static char serve_data[SERVE_SIZE];

/* A directory for the server, created once a case. */
static void serve_folder(char *path, size_t size)
{
    HG_CHECK(snprintf(path, size, "%s", hg_test_dir()) < (int) size);
}

/* Server and client in this process. */
static struct serve serve_begin(void)
{
    struct serve serve = {NA_Initialize("self://", NA_TRUE), NA_ADDR_NULL};
    char folder[4096];

    serve_folder(folder, sizeof(folder));
    HG_CHECK(serve.na_class != NULL);
    HG_CHECK_OK(HG_Init(serve.na_class));
    HG_CHECK_OK(NA_Addr_self(serve.na_class, &serve.server));
    HG_CHECK_OK(demo_serve_begin(serve.na_class, folder));
    return serve;
}

static void serve_end(struct serve *serve)
{
    demo_serve_end();
    HG_CHECK_OK(NA_Addr_free(serve->na_class, serve->server));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(serve->na_class));
}

static void serve_call(
    const struct serve *serve, hg_id_t id, void *in, void *out)
{
    hg_request_t request;

    HG_CHECK(id != 0);
    HG_CHECK_OK(HG_Forward(serve->server, id, in, out, &request));
    HG_CHECK_OK(HG_Wait(request, SERVE_WAIT_MS, HG_STATUS_IGNORE));
    HG_CHECK_OK(HG_Request_free(request));
}

static demo_open_out_t serve_open(
    const struct serve *serve, const char *name, uint32_t mode)
{
    demo_open_in_t in = {name, mode};
    demo_open_out_t out = {-1, 0};

    serve_call(serve,
        MERCURY_REGISTER("demo.open", demo_open_in_t, demo_open_out_t, NULL),
        &in, &out);
    return out;
}

static int32_t serve_close(
    const struct serve *serve, uint64_t file, hg_bool_t keep)
{
    demo_close_in_t in = {file, keep};
    demo_close_out_t out = {-1};

    serve_call(serve,
        MERCURY_REGISTER("demo.close", demo_close_in_t, demo_close_out_t, NULL),
        &in, &out);
    return out.error;
}

/* Returns an errno. */
static int32_t serve_stat(
    const struct serve *serve, const char *name, uint64_t *size)
{
    demo_stat_in_t in = {name};
    demo_stat_out_t out = {-1, 0};

    serve_call(serve,
        MERCURY_REGISTER("demo.stat", demo_stat_in_t, demo_stat_out_t, NULL),
        &in, &out);
    *size = out.size;
    return out.error;
}

static demo_move_out_t serve_move(const struct serve *serve, const char *call,
    uint64_t file, uint64_t offset, uint64_t size, hg_bulk_t memory)
{
    demo_move_in_t in = {file, offset, size, memory};
    demo_move_out_t out = {-1, 0, 0, 0};

    serve_call(serve,
        MERCURY_REGISTER(call, demo_move_in_t, demo_move_out_t, NULL), &in,
        &out);
    return out;
}

static hg_bulk_t serve_memory(size_t size)
{
    hg_bulk_t memory;
    void *data = serve_data;

    HG_CHECK(size <= sizeof(serve_data));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &data, &size, HG_BULK_READWRITE, &memory));
    return memory;
}

/* The file can be written, and the server answers correctly. */
static void serve_check_alive(const struct serve *serve, uint64_t file)
{
    hg_bulk_t memory = serve_memory(100);
    demo_move_out_t out;

    memset(serve_data, 'x', 100);
    out = serve_move(serve, "demo.write", file, 0, 100, memory);
    HG_CHECK_EQ_INT(out.error, 0);
    HG_CHECK_EQ_U64(out.moved, 100);
    HG_CHECK_OK(HG_Bulk_handle_free(memory));
}

HG_TEST(sizes_and_offsets_are_checked)
{
    struct serve serve = serve_begin();
    hg_bulk_t memory = serve_memory(1000);
    uint64_t file = serve_open(&serve, "file", DEMO_MODE_WRITE).file;
    static const char *const calls[] = {"demo.write", "demo.read"};
    int i;

    HG_CHECK(file != 0);
    for (i = 0; i < 2; i++) {
        const char *call = calls[i];

        /* Larger than the memory, and empty. */
        HG_CHECK_EQ_INT(
            serve_move(&serve, call, file, 0, 1001, memory).error, EINVAL);
        HG_CHECK_EQ_INT(
            serve_move(&serve, call, file, 0, UINT64_MAX, memory).error,
            EINVAL);
        HG_CHECK_EQ_INT(
            serve_move(&serve, call, file, 0, 1, HG_BULK_NULL).error, EINVAL);
        /* Past the largest file, and past the largest number. */
        HG_CHECK_EQ_INT(
            serve_move(&serve, call, file, DEMO_FILE_MAX, 1, memory).error,
            EFBIG);
        HG_CHECK_EQ_INT(
            serve_move(&serve, call, file, UINT64_MAX, 1000, memory).error,
            EFBIG);
        /* Numbers of files that are not open. */
        HG_CHECK_EQ_INT(serve_move(&serve, call, 0, 0, 1, memory).error, EBADF);
        HG_CHECK_EQ_INT(
            serve_move(&serve, call, file + 1, 0, 1, memory).error, EBADF);
    }
    HG_CHECK_EQ_INT(serve_open(&serve, "file", 2).error, EINVAL);
    HG_CHECK_EQ_INT(serve_open(&serve, NULL, 0).error, EINVAL);
    serve_check_alive(&serve, file);
    HG_CHECK_OK(HG_Bulk_handle_free(memory));
    HG_CHECK_EQ_INT(serve_close(&serve, file, HG_TRUE), 0);
    HG_CHECK_EQ_INT(serve_close(&serve, file, HG_FALSE), EBADF);
    serve_end(&serve);
}

HG_TEST(pieces_above_the_limit_are_refused)
{
    struct serve serve = serve_begin();
    uint64_t file = serve_open(&serve, "file", DEMO_MODE_WRITE).file;
    size_t size = (size_t) DEMO_PIECE_MAX + 1;
    hg_bulk_t memory;

    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READ_ONLY, &memory));
    HG_CHECK_EQ_INT(
        serve_move(&serve, "demo.write", file, 0, size, memory).error,
        EMSGSIZE);
    HG_CHECK_OK(HG_Bulk_handle_free(memory));
    serve_check_alive(&serve, file);
    serve_end(&serve);
}

HG_TEST(read_ends_where_the_file_ends)
{
    struct serve serve = serve_begin();
    uint64_t file = serve_open(&serve, "file", DEMO_MODE_WRITE).file;
    hg_bulk_t memory = serve_memory(1000);
    demo_move_out_t out;

    serve_check_alive(&serve, file);
    memset(serve_data, 0, 1000);
    out = serve_move(&serve, "demo.read", file, 40, 1000, memory);
    HG_CHECK_EQ_INT(out.error, 0);
    HG_CHECK_EQ_U64(out.moved, 60);
    HG_CHECK_EQ_INT(serve_data[59], 'x');
    HG_CHECK_EQ_INT(serve_data[60], 0);
    out = serve_move(&serve, "demo.read", file, 100, 1000, memory);
    HG_CHECK_EQ_INT(out.error, 0);
    HG_CHECK_EQ_U64(out.moved, 0);
    HG_CHECK_OK(HG_Bulk_handle_free(memory));
    serve_end(&serve);
}

/* ---- Names ---- */

/* Files in the server's directory, hidden ones included. */
static unsigned serve_count(void)
{
    DIR *folder = opendir(hg_test_dir());
    unsigned count = 0;
    struct dirent *entry;

    HG_CHECK(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            count++;
    }
    (void) closedir(folder);
    return count;
}

static void serve_leave(const char *name)
{
    char path[4096];
    FILE *file;

    (void) snprintf(path, sizeof(path), "%s/%s", hg_test_dir(), name);
    file = fopen(path, "w");
    HG_CHECK(file != NULL);
    HG_CHECK(fputs("left", file) >= 0 && fclose(file) == 0);
}

/* A name keeps its old content, or none, until a whole file is closed to be
 * kept. */
HG_TEST(written_file_gets_its_name_at_the_end)
{
    struct serve serve = serve_begin();
    unsigned before = serve_count();
    uint64_t size = 0;
    uint64_t file = serve_open(&serve, "file", DEMO_MODE_WRITE).file;
    uint64_t second;

    serve_check_alive(&serve, file);
    HG_CHECK_EQ_INT(serve_stat(&serve, "file", &size), ENOENT);
    HG_CHECK_EQ_INT(serve_close(&serve, file, HG_FALSE), 0);
    HG_CHECK_EQ_U64(serve_count(), before);

    /* Two writers at once: the file closed last wins. */
    file = serve_open(&serve, "file", DEMO_MODE_WRITE).file;
    second = serve_open(&serve, "file", DEMO_MODE_WRITE).file;
    serve_check_alive(&serve, second);
    HG_CHECK_EQ_INT(serve_close(&serve, second, HG_TRUE), 0);
    HG_CHECK_EQ_INT(serve_stat(&serve, "file", &size), 0);
    HG_CHECK_EQ_U64(size, 100);
    HG_CHECK_EQ_INT(serve_close(&serve, file, HG_TRUE), 0);
    HG_CHECK_EQ_INT(serve_stat(&serve, "file", &size), 0);
    HG_CHECK_EQ_U64(size, 0);
    HG_CHECK_EQ_U64(serve_count(), before + 1);

    /* A file that is abandoned, idle, or open when the server ends leaves
     * nothing. */
    file = serve_open(&serve, "file", DEMO_MODE_WRITE).file;
    demo_server.files[0].used -= DEMO_IDLE_SECONDS;
    (void) serve_open(&serve, "file", DEMO_MODE_WRITE);
    HG_CHECK_EQ_INT(serve_close(&serve, file, HG_TRUE), EBADF);
    HG_CHECK_EQ_U64(serve_count(), before + 2);
    serve_end(&serve);
    HG_CHECK_EQ_U64(serve_count(), before + 1);
}

/* Files left by a dead server, and files that only look like these. */
HG_TEST(unfinished_file_is_removed)
{
    static const char *const stay[] = {".file.", ".file.x1", ".file.1x",
        ".file.a.1", ".filea.1", "file.1", ".other.1", ".file"};
    struct serve serve = serve_begin();
    unsigned before = serve_count();
    unsigned i;
    uint64_t file;

    for (i = 0; i < sizeof(stay) / sizeof(stay[0]); i++)
        serve_leave(stay[i]);
    serve_leave(".file.1");
    serve_leave(".file.18446744073709551615");
    file = serve_open(&serve, "file", DEMO_MODE_WRITE).file;
    HG_CHECK_EQ_U64(serve_count(), before + i + 1);
    HG_CHECK_EQ_INT(serve_close(&serve, file, HG_FALSE), 0);
    HG_CHECK_EQ_U64(serve_count(), before + i);
    serve_end(&serve);
}

/* A full table refuses; closing a file frees an entry. The server closes open
 * files when it ends. */
HG_TEST(open_files_are_bounded)
{
    unsigned before = hg_test_fd_count();
    struct serve serve = serve_begin();
    uint64_t first = 0;
    int i;

    for (i = 0; i < DEMO_FILES; i++) {
        demo_open_out_t out = serve_open(&serve, "file", DEMO_MODE_WRITE);

        HG_CHECK_EQ_INT(out.error, 0);
        if (i == 0)
            first = out.file;
    }
    for (i = 0; i < DEMO_FILES; i++)
        HG_CHECK_EQ_INT(
            serve_open(&serve, "file", DEMO_MODE_WRITE).error, EMFILE);
    HG_CHECK_EQ_INT(serve_close(&serve, first, HG_TRUE), 0);
    HG_CHECK_EQ_INT(serve_open(&serve, "file", DEMO_MODE_WRITE).error, 0);
    /* An entry that was idle for long enough is reused. */
    for (i = 0; i < DEMO_FILES; i++)
        demo_server.files[i].used -= DEMO_IDLE_SECONDS + 1;
    HG_CHECK_EQ_INT(serve_open(&serve, "file", DEMO_MODE_WRITE).error, 0);
    HG_CHECK_EQ_INT(serve_open(&serve, "file", DEMO_MODE_WRITE).error, 0);
    serve_end(&serve);
    HG_CHECK_EQ_U64(hg_test_fd_count(), before);
}

/* ---- Two clients ---- */

HG_TEST_ROLE(server)
{
    struct serve serve = {
        NA_Initialize("zmq+tcp://127.0.0.1", NA_TRUE), NA_ADDR_NULL};
    char text[NA_MAX_ADDR_LEN];
    char *line;

    HG_CHECK_EQ_INT(argc, 1);
    HG_CHECK(serve.na_class != NULL);
    HG_CHECK_OK(HG_Init(serve.na_class));
    HG_CHECK_OK(NA_Addr_self(serve.na_class, &serve.server));
    HG_CHECK_OK(
        NA_Addr_to_string(serve.na_class, text, sizeof(text), serve.server));
    HG_CHECK_OK(demo_serve_begin(serve.na_class, argv[0]));
    hg_test_write_parent(text);
    while (demo_server.counts.stats == 0) /* the last call of the test */
        (void) HG_Handler_process(100, HG_STATUS_IGNORE);
    serve_end(&serve);
    line = hg_test_read_parent();
    free(line);
}

static struct serve serve_connect(const char *address)
{
    struct serve serve = {NULL, NA_ADDR_NULL};

    hg_test_allow_log("no transport");
    serve.na_class = NA_Initialize("zmq+tcp://", NA_FALSE);
    if (serve.na_class == NULL)
        hg_test_skip("ZeroMQ is not compiled in");
    if (address == NULL)
        return serve;
    HG_CHECK_OK(HG_Init(serve.na_class));
    HG_CHECK_OK(NA_Addr_lookup_wait(
        serve.na_class, address, SERVE_WAIT_MS, &serve.server));
    return serve;
}

static void serve_disconnect(struct serve *serve)
{
    HG_CHECK_OK(NA_Addr_free(serve->na_class, serve->server));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(serve->na_class));
}

/* Tries every number near another client's file. */
HG_TEST_ROLE(other_client)
{
    struct serve serve = serve_connect(argv[0]);
    hg_bulk_t memory = serve_memory(100);
    uint64_t file;

    HG_CHECK_EQ_INT(argc, 1);
    for (file = 0; file < 10; file++) {
        HG_CHECK_EQ_INT(
            serve_move(&serve, "demo.read", file, 0, 100, memory).error, EBADF);
        HG_CHECK_EQ_INT(
            serve_move(&serve, "demo.write", file, 0, 100, memory).error,
            EBADF);
        HG_CHECK_EQ_INT(serve_close(&serve, file, HG_FALSE), EBADF);
    }
    HG_CHECK_OK(HG_Bulk_handle_free(memory));
    serve_disconnect(&serve);
}

HG_TEST(file_belongs_to_the_client_that_opened_it)
{
    struct serve serve = serve_connect(NULL);
    struct hg_test_peer *server;
    struct hg_test_peer *other;
    char folder[4096];
    char *address;
    uint64_t file;
    uint64_t size = 0;

    HG_CHECK_OK(NA_Finalize(serve.na_class));
    serve_folder(folder, sizeof(folder));
    server = hg_test_spawn("server", folder, NULL);
    address = hg_test_read_peer(server);
    serve = serve_connect(address);
    file = serve_open(&serve, "file", DEMO_MODE_WRITE).file;
    HG_CHECK(file != 0 && file < 10);
    serve_check_alive(&serve, file);
    other = hg_test_spawn("other_client", address, NULL);
    HG_CHECK_EQ_INT(hg_test_wait(other), 0);
    serve_check_alive(&serve, file);
    HG_CHECK_EQ_INT(serve_close(&serve, file, HG_TRUE), 0);
    HG_CHECK_EQ_INT(serve_stat(&serve, "file", &size), 0);
    HG_CHECK_EQ_U64(size, 100);
    serve_disconnect(&serve);
    hg_test_stop(server);
    free(address);
}
