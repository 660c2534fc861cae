/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forward_client: starts hg_forwardd, and makes its calls one by one. Each
 * client has a class of the callback model of its own, and so its own
 * connection: a case can have several.
 */
#ifndef HG_TESTS_FORWARD_CLIENT_H
#define HG_TESTS_FORWARD_CLIENT_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "support/refuse.h"

#define HG_API_VERSION 2
#include "../../examples/forward/forward.h"

#define FORWARD_WAIT_MS HG_TEST_WAIT_MS

/* ---- The server ---- */

struct forward_server {
    pid_t pid;
    rlim_t descriptors; /* the hard limit; 0: that of the test */
    int refused;        /* the errno of openat2 there; 0: it works */
    int out;            /* what it prints */
    char folder[4096];
    char address[NA_MAX_ADDR_LEN];
};

/* The program of the same build as this test: .../examples/hg_forwardd. */
static inline void forward_program(char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    int up;

    HG_CHECK(length > 0);
    path[length] = '\0';
    for (up = 0; up < 3; up++) {
        char *slash = strrchr(path, '/');

        HG_CHECK(slash != NULL);
        *slash = '\0';
    }
    length = (ssize_t) strlen(path);
    HG_CHECK(snprintf(path + length, size - (size_t) length,
                 "/examples/hg_forwardd") < (int) (size - (size_t) length));
}

/* Read "hg_forwardd: serving DIR at ADDRESS". */
static inline void forward_read_address(struct forward_server *server)
{
    char line[2 * NA_MAX_ADDR_LEN + 4096];
    size_t length = 0;
    char *at;

    while (length < sizeof(line) - 1 &&
        read(server->out, line + length, 1) == 1 && line[length] != '\n')
        length++;
    line[length] = '\0';
    at = strstr(line, " at ");
    HG_CHECK(strncmp(line, "hg_forwardd: serving ", 21) == 0 && at != NULL);
    HG_CHECK(snprintf(server->address, sizeof(server->address), "%s", at + 4) <
        (int) sizeof(server->address));
}

/* Start the server for `server->folder` with options up to NULL. It ends when
 * this process ends. */
static inline void forward_start_at(
    struct forward_server *server, const char *address, ...)
{
    char *words[16] = {NULL};
    char program[4096];
    va_list more;
    int fds[2];
    int i = 4;

    forward_program(program, sizeof(program));
    words[0] = program;
    words[1] = (char *) (uintptr_t) address;
    words[2] = (char *) (uintptr_t) "--export";
    words[3] = server->folder;
    va_start(more, address);
    while ((words[i] = va_arg(more, char *)) != NULL)
        i++;
    va_end(more);
    HG_CHECK(pipe2(fds, O_CLOEXEC) == 0);
    server->pid = fork();
    HG_CHECK(server->pid >= 0);
    if (server->pid == 0) {
        struct rlimit limit = {server->descriptors, server->descriptors};

        if (server->descriptors > 0)
            (void) setrlimit(RLIMIT_NOFILE, &limit);
        if (server->refused != 0 && !refuse_openat2(server->refused))
            _exit(126);
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) dup2(fds[1], 1);
        (void) execv(program, words);
        _exit(127);
    }
    (void) close(fds[1]);
    server->out = fds[0];
    forward_read_address(server);
}

static inline void forward_make_folder(struct forward_server *server)
{
    HG_CHECK(snprintf(server->folder, sizeof(server->folder), "%s/export",
                 hg_test_dir()) < (int) sizeof(server->folder));
    HG_CHECK(mkdir(server->folder, 0755) == 0);
}

/* Over sm, for a new folder. */
#define forward_start(server, ...) \
    do { \
        char forward_name_[64]; \
        (void) snprintf(forward_name_, sizeof(forward_name_), \
            "sm://forward-%ld", (long) getpid()); \
        forward_make_folder(server); \
        forward_start_at(server, forward_name_, __VA_ARGS__); \
    } while (0)

/* Returns the wait status. */
static inline int forward_end(struct forward_server *server, int signal_number)
{
    int status = 0;

    HG_CHECK(kill(server->pid, signal_number) == 0);
    HG_CHECK(waitpid(server->pid, &status, 0) == server->pid);
    (void) close(server->out);
    return status;
}

/* The server ends on SIGTERM, with the status 0. */
static inline void forward_stop(struct forward_server *server)
{
    int status = forward_end(server, SIGTERM);

    HG_CHECK(WIFEXITED(status));
    HG_CHECK_EQ_INT(WEXITSTATUS(status), 0);
}

static inline unsigned forward_descriptors(const struct forward_server *server)
{
    char path[64];
    unsigned count = 0;
    DIR *folder;

    (void) snprintf(path, sizeof(path), "/proc/%ld/fd", (long) server->pid);
    folder = opendir(path);
    HG_CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    (void) closedir(folder);
    return count;
}

/* Wait until the server has at most `count` descriptors. */
static inline void forward_await_descriptors(
    const struct forward_server *server, unsigned count)
{
    while (forward_descriptors(server) > count)
        (void) usleep(1000);
}

/* A path in the folder of the server; the caller frees it. */
static inline char *forward_path(
    const struct forward_server *server, const char *name)
{
    size_t size = strlen(server->folder) + strlen(name) + 2;
    char *path = (char *) malloc(size);

    HG_CHECK(path != NULL);
    (void) snprintf(path, size, "%s/%s", server->folder, name);
    return path;
}

/* Make a file in the folder, without the server. */
static inline void forward_put(const struct forward_server *server,
    const char *name, const void *data, size_t size)
{
    char *path = forward_path(server, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    HG_CHECK(fd >= 0);
    HG_CHECK(write(fd, data, size) == (ssize_t) size);
    (void) close(fd);
    free(path);
}

/* ---- A client ---- */

struct forward_client {
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t addr;
    uint64_t session;
    uint64_t root;
    hg_handle_t watch;
    bool watch_ended;
    hg_return_t watch_ret;
};

/* A call in flight. */
struct forward_call {
    hg_handle_t handle;
    bool done;
    hg_return_t ret;
};

static inline void forward_turn(struct forward_client *client)
{
    (void) HG_Progress(client->context, 10);
    while (HG_Trigger(client->context, 0, 1, NULL) == HG_SUCCESS) {
    }
}

static inline hg_return_t forward_done(const struct hg_cb_info *info)
{
    struct forward_call *call = (struct forward_call *) info->arg;

    call->done = true;
    call->ret = info->ret;
    return HG_SUCCESS;
}

static inline void forward_begin_call(struct forward_client *client,
    struct forward_call *call, const char *name, hg_proc_cb_t in_proc,
    hg_proc_cb_t out_proc, void *in)
{
    hg_id_t id =
        HG_Register_name(client->hg_class, name, in_proc, out_proc, NULL);

    HG_CHECK(id != 0);
    call->done = false;
    HG_CHECK_OK(HG_Create(client->context, client->addr, id, &call->handle));
    HG_CHECK_OK(HG_Set_deadline(call->handle, FORWARD_WAIT_MS));
    HG_CHECK_OK(HG_Forward(call->handle, forward_done, call, in));
}

static inline hg_return_t forward_await(
    struct forward_client *client, struct forward_call *call, void *out)
{
    while (!call->done)
        forward_turn(client);
    return call->ret != HG_SUCCESS ? call->ret
                                   : HG_Get_output(call->handle, out);
}

static inline void forward_end_call(struct forward_call *call, void *out)
{
    if (out != NULL)
        HG_CHECK_OK(HG_Free_output(call->handle, out));
    HG_CHECK_OK(HG_Destroy(call->handle));
}

/* Make a call whose output has no pointers. */
static inline void forward_call(struct forward_client *client, const char *name,
    hg_proc_cb_t in_proc, hg_proc_cb_t out_proc, void *in, void *out)
{
    struct forward_call call;

    forward_begin_call(client, &call, name, in_proc, out_proc, in);
    HG_CHECK_OK(forward_await(client, &call, out));
    forward_end_call(&call, out);
}

/* FORWARD_CALL(client, "lookup", name, &in, entry, &out) */
#define FORWARD_CALL(client, name, in_type, in, out_type, out) \
    forward_call(client, "fwd." name, hg_proc_fwd_##in_type##_in_t, \
        hg_proc_fwd_##out_type##_out_t, in, out)

static inline void forward_connect(
    struct forward_client *client, const char *address)
{
    const char *end = strstr(address, "://");
    char scheme[64];

    HG_CHECK(end != NULL);
    (void) snprintf(
        scheme, sizeof(scheme), "%.*s", (int) (end + 3 - address), address);
    memset(client, 0, sizeof(*client));
    client->hg_class = HG_Init(scheme, NA_FALSE);
    HG_CHECK(client->hg_class != NULL);
    client->context = HG_Context_create(client->hg_class);
    HG_CHECK(client->context != NULL);
    HG_CHECK_OK(HG_Addr_lookup2(client->hg_class, address, &client->addr));
}

static inline hg_return_t forward_watch_ended(const struct hg_cb_info *info)
{
    struct forward_client *client = (struct forward_client *) info->arg;

    client->watch_ended = true;
    client->watch_ret = info->ret;
    return HG_SUCCESS;
}

static inline void forward_begin(struct forward_client *client)
{
    fwd_begin_in_t in = {FWD_VERSION};
    fwd_begin_out_t out;

    FORWARD_CALL(client, "begin", begin, &in, begin, &out);
    HG_CHECK_EQ_INT(out.error, 0);
    HG_CHECK(out.session != 0 && out.root.node != 0);
    HG_CHECK(S_ISDIR(out.root.attr.mode));
    client->session = out.session;
    client->root = out.root.node;
}

static inline void forward_watch(struct forward_client *client)
{
    fwd_watch_in_t in = {client->session};
    hg_id_t id = HG_Register_name(client->hg_class, "fwd.watch",
        hg_proc_fwd_watch_in_t, hg_proc_fwd_error_out_t, NULL);

    client->watch_ended = false;
    HG_CHECK_OK(HG_Create(client->context, client->addr, id, &client->watch));
    HG_CHECK_OK(HG_Forward(client->watch, forward_watch_ended, client, &in));
}

/* Connect, begin a session and watch it. */
static inline void forward_open(
    struct forward_client *client, const struct forward_server *server)
{
    forward_connect(client, server->address);
    forward_begin(client);
    forward_watch(client);
}

static inline void forward_close(struct forward_client *client)
{
    if (client->watch != NULL) {
        if (!client->watch_ended)
            HG_CHECK_OK(HG_Cancel(client->watch));
        while (!client->watch_ended)
            forward_turn(client);
        HG_CHECK_OK(HG_Destroy(client->watch));
    }
    HG_CHECK_OK(HG_Addr_free(client->hg_class, client->addr));
    HG_CHECK_OK(HG_Context_destroy(client->context));
    HG_CHECK_OK(HG_Finalize(client->hg_class));
}

/* A server for an empty folder, and a client. */
struct forward {
    struct forward_server server;
    struct forward_client client;
};

#define forward_begin_both(both, ...) \
    do { \
        memset(both, 0, sizeof(*(both))); \
        forward_start(&(both)->server, __VA_ARGS__); \
        forward_open(&(both)->client, &(both)->server); \
    } while (0)

static inline void forward_end_both(struct forward *both)
{
    forward_close(&both->client);
    forward_stop(&both->server);
}

/* ---- Calls. Each returns the error of the server. ---- */

static inline int forward_lookup(struct forward_client *client, uint64_t parent,
    const char *name, fwd_entry_t *entry)
{
    fwd_name_in_t in = {client->session, parent, name};
    fwd_entry_out_t out;

    FORWARD_CALL(client, "lookup", name, &in, entry, &out);
    *entry = out.entry;
    return out.error;
}

static inline int forward_open_file(struct forward_client *client,
    uint64_t node, uint32_t flags, uint64_t *file)
{
    fwd_open_in_t in = {client->session, node, 0, "", flags, 0};
    fwd_open_out_t out;

    FORWARD_CALL(client, "open", open, &in, open, &out);
    *file = out.file;
    return out.error;
}

static inline int forward_create(struct forward_client *client, uint64_t parent,
    const char *name, uint32_t flags, fwd_create_out_t *out)
{
    fwd_create_in_t in = {
        client->session, parent, name, flags, 0644, 0, 0, 0, 0};

    FORWARD_CALL(client, "create", create, &in, create, out);
    return out->error;
}

static inline int forward_release(struct forward_client *client, uint64_t file)
{
    fwd_file_in_t in = {client->session, file};
    fwd_error_out_t out;

    FORWARD_CALL(client, "release", file, &in, error, &out);
    return out.error;
}

/* Read within the response. */
static inline int forward_read(struct forward_client *client, uint64_t file,
    uint64_t offset, void *data, uint32_t size, uint32_t *got)
{
    fwd_read_in_t in = {client->session, file, offset, size, 0, HG_BULK_NULL};
    struct forward_call call;
    fwd_read_out_t out;
    int error;

    forward_begin_call(client, &call, "fwd.read", hg_proc_fwd_read_in_t,
        hg_proc_fwd_read_out_t, &in);
    HG_CHECK_OK(forward_await(client, &call, &out));
    HG_CHECK(out.data.size <= size && out.data.size == out.size);
    if (out.data.size > 0)
        memcpy(data, out.data.bytes, out.data.size);
    *got = out.size;
    error = out.error;
    forward_end_call(&call, &out);
    return error;
}

static inline int forward_write(struct forward_client *client, uint64_t file,
    uint64_t offset, const void *data, uint32_t size, uint32_t *done)
{
    fwd_write_in_t in = {client->session, file, offset, size, 0, HG_BULK_NULL,
        {size, (void *) (uintptr_t) data}, 0};
    fwd_write_out_t out;

    FORWARD_CALL(client, "write", write, &in, write, &out);
    *done = out.size;
    return out.error;
}

static inline int forward_make(struct forward_client *client, uint64_t parent,
    const char *name, uint32_t mode, const char *target, fwd_entry_t *entry)
{
    fwd_make_in_t in = {
        client->session, parent, name, target, 0, mode, 0, 0, 0, 0};
    fwd_make_out_t out;

    FORWARD_CALL(client, "make", make, &in, make, &out);
    *entry = out.entry;
    return out.error;
}

static inline int forward_remove(struct forward_client *client, uint64_t parent,
    const char *name, uint32_t directory, uint32_t again)
{
    fwd_remove_in_t in = {client->session, parent, name, directory, again};
    fwd_remove_out_t out;

    FORWARD_CALL(client, "remove", remove, &in, remove, &out);
    return out.error;
}

static inline int forward_link(struct forward_client *client, uint64_t node,
    uint64_t parent, const char *name, uint32_t again, fwd_entry_t *entry)
{
    fwd_link_in_t in = {client->session, node, parent, name, again};
    fwd_entry_out_t out;

    FORWARD_CALL(client, "link", link, &in, entry, &out);
    *entry = out.entry;
    return out.error;
}

static inline int forward_rename(struct forward_client *client, uint64_t parent,
    const char *name, const char *new_name, uint32_t flags, uint32_t again)
{
    fwd_rename_in_t in = {
        client->session, parent, parent, name, new_name, flags, again};
    fwd_error_out_t out;

    FORWARD_CALL(client, "rename", rename, &in, error, &out);
    return out.error;
}

static inline int forward_find(
    struct forward_client *client, const char *path, fwd_entry_t *entry)
{
    fwd_find_in_t in = {client->session, path};
    fwd_entry_out_t out;

    FORWARD_CALL(client, "find", find, &in, entry, &out);
    *entry = out.entry;
    return out.error;
}

static inline int forward_getattr(struct forward_client *client, uint64_t node,
    uint64_t file, fwd_attr_t *attr)
{
    fwd_getattr_in_t in = {client->session, node, file};
    fwd_attr_out_t out;

    FORWARD_CALL(client, "getattr", getattr, &in, attr, &out);
    *attr = out.attr;
    return out.error;
}

static inline int forward_forget(
    struct forward_client *client, uint64_t node, uint64_t lookups)
{
    uint64_t pair[2] = {node, lookups};
    fwd_forget_in_t in = {client->session, {sizeof(pair), pair}};
    fwd_error_out_t out;

    FORWARD_CALL(client, "forget", forget, &in, error, &out);
    return out.error;
}

static inline int forward_lock(struct forward_client *client, uint64_t file,
    uint64_t owner, uint32_t op, uint32_t type, uint64_t start, uint64_t end,
    fwd_lock_out_t *out)
{
    fwd_lock_in_t in = {client->session, file, owner, start, end, op, type};

    FORWARD_CALL(client, "lock", lock, &in, lock, out);
    return out->error;
}

/* Read or write by bulk, from `at` on in the memory. */
static inline int forward_move(struct forward_client *client, bool write,
    uint64_t file, uint64_t offset, hg_bulk_t memory, uint64_t at,
    uint32_t size, uint32_t *done)
{
    if (write) {
        fwd_write_in_t in = {
            client->session, file, offset, size, at, memory, {0, NULL}, 0};
        fwd_write_out_t out;

        FORWARD_CALL(client, "write", write, &in, write, &out);
        *done = out.size;
        return out.error;
    } else {
        fwd_read_in_t in = {client->session, file, offset, size, at, memory};
        fwd_read_out_t out;

        FORWARD_CALL(client, "read", read, &in, read, &out);
        *done = out.size;
        return out.error;
    }
}

#endif
