/* SPDX-License-Identifier: BSD-3-Clause */
/* demo_serve: see demo_serve.h. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include "demo_serve.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEMO_FILES 64
#define DEMO_IDLE_SECONDS 60
#define DEMO_BUFFERS 4
#define DEMO_BUFFER_SIZE ((size_t) 1 << 20)
#define DEMO_TIMEOUT_MS 60000                /* of a call's transfer */
#define DEMO_HIDDEN_MAX (DEMO_NAME_MAX + 24) /* .NAME.NUMBER */

struct demo_file {
    uint64_t number; /* the client sends it; 0: this entry is free */
    int fd;
    na_addr_t owner;
    time_t used;  /* the last time */
    bool written; /* opened for writing, as a hidden file */
    char name[DEMO_NAME_MAX + 1];
};

struct demo_server {
    na_class_t *na_class;
    int folder;
    uint64_t numbers; /* the last number of a file */
    struct demo_file files[DEMO_FILES];
    hg_bulk_pipeline_t pipeline;
    demo_counts_t counts;
};

static struct demo_server demo_server;

/* One call of demo.read or demo.write. */
struct demo_job {
    int fd;
    uint64_t offset; /* in the file */
    uint64_t moved;
    uint64_t file_ns;
    int error;
};

/* ---- Clock ---- */

static uint64_t demo_now_ns(void)
{
    struct timespec now = {0, 0};

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

static time_t demo_now(void)
{
    return (time_t) (demo_now_ns() / 1000000000u);
}

/* ---- The table of files ---- */

static bool demo_file_is_idle(const struct demo_file *file)
{
    return demo_now() - file->used >= DEMO_IDLE_SECONDS;
}

/* The name of a file while it is written. */
static void demo_file_hidden(
    const struct demo_file *file, char hidden[DEMO_HIDDEN_MAX])
{
    (void) snprintf(
        hidden, DEMO_HIDDEN_MAX, ".%s.%" PRIu64, file->name, file->number);
}

/* Close a file and free its entry. A written file gets its name if `keep` is
 * set, else it is removed. 0 or an errno. */
static int demo_file_close(struct demo_file *file, bool keep)
{
    int error = close(file->fd) == 0 ? 0 : errno;
    char hidden[DEMO_HIDDEN_MAX];

    if (file->written) {
        demo_file_hidden(file, hidden);
        if (keep && error == 0 &&
            renameat(demo_server.folder, hidden, demo_server.folder,
                file->name) != 0)
            error = errno;
        if (!keep || error != 0)
            (void) unlinkat(demo_server.folder, hidden, 0);
    }
    (void) NA_Addr_free(demo_server.na_class, file->owner);
    memset(file, 0, sizeof(*file));
    return error;
}

/* Close all files of a client that died. */
static void demo_files_forget(na_addr_t owner)
{
    int i;

    for (i = 0; i < DEMO_FILES; i++) {
        struct demo_file *file = &demo_server.files[i];

        if (file->number != 0 &&
            NA_Addr_cmp(demo_server.na_class, file->owner, owner))
            (void) demo_file_close(file, false);
    }
}

/* Find the caller's file of that number; NULL: not found. */
static struct demo_file *demo_file_find(hg_handle_t handle, uint64_t number)
{
    na_addr_t caller = HG_Handler_get_addr(handle);
    int i;

    for (i = 0; i < DEMO_FILES; i++) {
        struct demo_file *file = &demo_server.files[i];

        if (number != 0 && file->number == number &&
            NA_Addr_cmp(demo_server.na_class, file->owner, caller)) {
            file->used = demo_now();
            return file;
        }
    }
    return NULL;
}

/* Find a free entry. In a full table, close the file that was unused for the
 * longest time. NULL: all files are in use. */
static struct demo_file *demo_file_entry(void)
{
    struct demo_file *oldest = &demo_server.files[0];
    int i;

    for (i = 0; i < DEMO_FILES; i++) {
        struct demo_file *file = &demo_server.files[i];

        if (file->number == 0)
            return file;
        if (file->used < oldest->used)
            oldest = file;
    }
    if (!demo_file_is_idle(oldest))
        return NULL;
    (void) demo_file_close(oldest, false);
    return oldest;
}

/* ---- open, stat, close ---- */

/* Whether a name is that of a file in the folder: no slash, not hidden. */
static bool demo_name_is_good(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";

    return name != NULL && name[0] != '\0' && name[0] != '.' &&
        strlen(name) <= DEMO_NAME_MAX && strspn(name, allowed) == strlen(name);
}

/* Whether `hidden` is a hidden file of that name which an earlier server left
 * behind. */
static bool demo_hidden_is_stale(const char *hidden, const char *name)
{
    size_t length = strlen(name);
    const char *number = hidden + length + 2;
    char open_one[DEMO_HIDDEN_MAX];
    int i;

    if (hidden[0] != '.' || strncmp(hidden + 1, name, length) != 0 ||
        hidden[length + 1] != '.' || number[0] == '\0' ||
        number[strspn(number, "0123456789")] != '\0')
        return false;
    for (i = 0; i < DEMO_FILES; i++) {
        if (!demo_server.files[i].written)
            continue;
        demo_file_hidden(&demo_server.files[i], open_one);
        if (strcmp(open_one, hidden) == 0)
            return false;
    }
    return true;
}

/* Remove unfinished files of that name. */
static void demo_remove_stale(const char *name)
{
    int fd =
        openat(demo_server.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int i;

    for (i = 0; i < DEMO_FILES; i++) {
        struct demo_file *file = &demo_server.files[i];

        if (file->written && strcmp(file->name, name) == 0 &&
            demo_file_is_idle(file))
            (void) demo_file_close(file, false);
    }
    if (folder == NULL) {
        if (fd >= 0)
            (void) close(fd);
        return; /* they stay until the next time */
    }
    while ((entry = readdir(folder)) != NULL) {
        if (demo_hidden_is_stale(entry->d_name, name))
            (void) unlinkat(demo_server.folder, entry->d_name, 0);
    }
    (void) closedir(folder);
}

/* Check that a file of that name does not exist or is a regular file. 0 or an
 * errno. */
static int demo_name_check(const char *name)
{
    struct stat status;

    if (fstatat(demo_server.folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : errno;
    return S_ISREG(status.st_mode) ? 0 : EINVAL;
}

/* Open the file of an entry. Returns its descriptor or a negative errno. */
static int demo_open_entry(const struct demo_file *file)
{
    char hidden[DEMO_HIDDEN_MAX];
    struct stat status;
    int fd;

    if (file->written) {
        demo_file_hidden(file, hidden);
        fd = openat(demo_server.folder, hidden,
            O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        return fd < 0 ? -errno : fd;
    }
    fd = openat(demo_server.folder, file->name,
        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        return fd;
    (void) close(fd);
    return -EINVAL;
}

/* Open a file for the caller; 0 or an errno. */
static int demo_open(
    hg_handle_t handle, const demo_open_in_t *in, uint64_t *number_p)
{
    struct demo_file fresh = {0};
    struct demo_file *file;
    int error;

    if (in->mode > DEMO_MODE_WRITE || !demo_name_is_good(in->name))
        return EINVAL;
    fresh.written = in->mode == DEMO_MODE_WRITE;
    memcpy(fresh.name, in->name, strlen(in->name));
    if (fresh.written) {
        error = demo_name_check(fresh.name);
        if (error != 0)
            return error;
        demo_remove_stale(fresh.name);
    }
    file = demo_file_entry();
    if (file == NULL)
        return EMFILE;
    if (NA_Addr_dup(demo_server.na_class, HG_Handler_get_addr(handle),
            &fresh.owner) != NA_SUCCESS)
        return ENOMEM;
    fresh.number = ++demo_server.numbers;
    fresh.used = demo_now();
    fresh.fd = demo_open_entry(&fresh);
    if (fresh.fd < 0) {
        (void) NA_Addr_free(demo_server.na_class, fresh.owner);
        return -fresh.fd;
    }
    *number_p = fresh.number;
    *file = fresh;
    return 0;
}

static hg_return_t demo_serve_open(hg_handle_t handle)
{
    demo_open_in_t in;
    demo_open_out_t out = {0, 0};
    hg_return_t ret;

    ret = HG_Handler_get_input(handle, &in);
    if (ret != HG_SUCCESS)
        return ret;
    out.error = demo_open(handle, &in, &out.file);
    demo_server.counts.opens++;
    (void) HG_Handler_free_input(handle, &in);
    (void) HG_Handler_start_output(handle, &out);
    return HG_Handler_free(handle);
}

static hg_return_t demo_serve_stat(hg_handle_t handle)
{
    demo_stat_in_t in;
    demo_stat_out_t out = {0, 0};
    struct stat status;
    hg_return_t ret;

    ret = HG_Handler_get_input(handle, &in);
    if (ret != HG_SUCCESS)
        return ret;
    if (!demo_name_is_good(in.name))
        out.error = EINVAL;
    else if (fstatat(demo_server.folder, in.name, &status,
                 AT_SYMLINK_NOFOLLOW) != 0)
        out.error = errno;
    else if (!S_ISREG(status.st_mode))
        out.error = EINVAL;
    else
        out.size = (uint64_t) status.st_size;
    demo_server.counts.stats++;
    (void) HG_Handler_free_input(handle, &in);
    (void) HG_Handler_start_output(handle, &out);
    return HG_Handler_free(handle);
}

static hg_return_t demo_serve_close(hg_handle_t handle)
{
    demo_close_in_t in;
    demo_close_out_t out = {0};
    struct demo_file *file;
    hg_return_t ret;

    ret = HG_Handler_get_input(handle, &in);
    if (ret != HG_SUCCESS)
        return ret;
    file = demo_file_find(handle, in.file);
    out.error =
        file == NULL ? EBADF : demo_file_close(file, in.keep != HG_FALSE);
    demo_server.counts.closes++;
    (void) HG_Handler_free_input(handle, &in);
    (void) HG_Handler_start_output(handle, &out);
    return HG_Handler_free(handle);
}

/* ---- write, read ---- */

/* The pipeline calls this with a piece that has arrived from the client. */
static hg_return_t demo_write_piece(
    void *arg, void *data, size_t *size, size_t offset)
{
    struct demo_job *job = (struct demo_job *) arg;
    uint64_t start = demo_now_ns();
    size_t done = 0;

    while (done < *size) {
        ssize_t n = pwrite(job->fd, (const char *) data + done, *size - done,
            (off_t) (job->offset + offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            job->error = errno;
            return HG_IO_ERROR;
        }
        done += (size_t) n;
        job->moved += (size_t) n;
    }
    job->file_ns += demo_now_ns() - start;
    return HG_SUCCESS;
}

/* The pipeline calls this to fill a piece for the client. At the end of the
 * file the piece is shorter, and the last one. */
static hg_return_t demo_read_piece(
    void *arg, void *data, size_t *size, size_t offset)
{
    struct demo_job *job = (struct demo_job *) arg;
    uint64_t start = demo_now_ns();
    size_t done = 0;

    while (done < *size) {
        ssize_t n = pread(job->fd, (char *) data + done, *size - done,
            (off_t) (job->offset + offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            job->error = errno;
            return HG_IO_ERROR;
        }
        if (n == 0)
            break;
        done += (size_t) n;
    }
    *size = done;
    job->moved += done;
    job->file_ns += demo_now_ns() - start;
    return HG_SUCCESS;
}

/* Check the sizes that the client sent. 0 or an errno. */
static int demo_move_check(const demo_move_in_t *in)
{
    if (in->size > HG_Bulk_handle_get_size(in->memory))
        return EINVAL;
    if (in->size > DEMO_PIECE_MAX)
        return EMSGSIZE;
    if (in->offset > DEMO_FILE_MAX - in->size)
        return EFBIG;
    return 0;
}

/* Both directions: find the file, check the sizes, move the data, respond. */
static hg_return_t demo_move(hg_handle_t handle, hg_bulk_op_t op)
{
    na_addr_t caller = HG_Handler_get_addr(handle);
    hg_bulk_pipeline_t pipeline = demo_server.pipeline;
    demo_move_in_t in;
    demo_move_out_t out = {0, 0, 0, 0};
    struct demo_job job = {-1, 0, 0, 0, 0};
    struct demo_file *file;
    uint64_t start;
    hg_return_t ret;

    ret = HG_Handler_get_input(handle, &in);
    if (ret != HG_SUCCESS)
        return ret;
    start = demo_now_ns();
    file = demo_file_find(handle, in.file);
    job.error = file == NULL ? EBADF : demo_move_check(&in);
    if (job.error == 0) {
        job.fd = file->fd;
        job.offset = in.offset;
        if (op == HG_BULK_PULL)
            ret = HG_Bulk_pipeline_pull(pipeline, handle, in.memory, 0,
                (size_t) in.size, demo_write_piece, &job, DEMO_TIMEOUT_MS);
        else
            ret = HG_Bulk_pipeline_push(pipeline, handle, in.memory, 0,
                (size_t) in.size, demo_read_piece, &job, DEMO_TIMEOUT_MS);
    }
    (void) HG_Handler_free_input(handle, &in);
    if (ret == HG_DISCONNECT)
        demo_files_forget(caller);
    if (ret != HG_SUCCESS && job.error == 0)
        return ret; /* the transfer failed: the client gets this code */
    out.error = job.error;
    out.moved = job.moved;
    out.file_ns = job.file_ns;
    out.hg_ns = demo_now_ns() - start - job.file_ns;
    if (op == HG_BULK_PULL)
        demo_server.counts.bytes_in += job.moved;
    else
        demo_server.counts.bytes_out += job.moved;
    (void) HG_Handler_start_output(handle, &out);
    return HG_Handler_free(handle);
}

static hg_return_t demo_serve_write(hg_handle_t handle)
{
    demo_server.counts.writes++;
    return demo_move(handle, HG_BULK_PULL);
}

static hg_return_t demo_serve_read(hg_handle_t handle)
{
    demo_server.counts.reads++;
    return demo_move(handle, HG_BULK_PUSH);
}

/* ---- counts ---- */

static hg_return_t demo_serve_counts(hg_handle_t handle)
{
    struct hg_counters counters = HG_COUNTERS_INITIALIZER;
    demo_counts_t out = demo_server.counts;
    hg_return_t ret;

    ret = HG_Get_counters(&counters);
    if (ret != HG_SUCCESS)
        return ret;
    out.requests = counters.requests_received;
    out.errors = counters.errors_sent;
    out.bulk_in = counters.bulk_bytes_pulled;
    out.bulk_out = counters.bulk_bytes_pushed;
    (void) HG_Handler_start_output(handle, &out);
    return HG_Handler_free(handle);
}

/* ---- Start and end ---- */

static bool demo_serve_register(void)
{
    return MERCURY_REGISTER("demo.open", demo_open_in_t, demo_open_out_t,
               demo_serve_open) != 0 &&
        MERCURY_REGISTER("demo.write", demo_move_in_t, demo_move_out_t,
            demo_serve_write) != 0 &&
        MERCURY_REGISTER("demo.read", demo_move_in_t, demo_move_out_t,
            demo_serve_read) != 0 &&
        MERCURY_REGISTER("demo.stat", demo_stat_in_t, demo_stat_out_t,
            demo_serve_stat) != 0 &&
        MERCURY_REGISTER("demo.close", demo_close_in_t, demo_close_out_t,
            demo_serve_close) != 0 &&
        MERCURY_REGISTER(
            "demo.counts", void, demo_counts_t, demo_serve_counts) != 0;
}

hg_return_t demo_serve_begin(na_class_t *na_class, const char *folder)
{
    hg_return_t ret;

    memset(&demo_server, 0, sizeof(demo_server));
    demo_server.na_class = na_class;
    demo_server.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (demo_server.folder < 0) {
        (void) fprintf(stderr, "%s: %s\n", folder, strerror(errno));
        return HG_IO_ERROR;
    }
    ret = HG_Bulk_pipeline_create(
        NULL, DEMO_BUFFERS, DEMO_BUFFER_SIZE, &demo_server.pipeline);
    if (ret == HG_SUCCESS && !demo_serve_register())
        ret = HG_OTHER_ERROR;
    if (ret != HG_SUCCESS)
        demo_serve_end();
    return ret;
}

void demo_serve_end(void)
{
    int i;

    for (i = 0; i < DEMO_FILES; i++) {
        if (demo_server.files[i].number != 0)
            (void) demo_file_close(&demo_server.files[i], false);
    }
    if (demo_server.pipeline != NULL)
        (void) HG_Bulk_pipeline_free(demo_server.pipeline);
    (void) close(demo_server.folder);
}
