/* SPDX-License-Identifier: BSD-3-Clause */
/* server_data: see server_data.h. */
#define _GNU_SOURCE 1
#include "server_data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "server_files.h"
#include "server_sessions.h"
#include "server_workers.h"

/* The time that a client may take to move the data of one call. */
#define DATA_BULK_MS 10000u

/* ---- Files ---- */

/* Read or write `size` bytes, fewer at the end. 0 or an errno, which may come
 * after some bytes; both are set. */
static int data_transfer(int fd, bool writes, void *data, size_t size,
    uint64_t offset, size_t *done_p)
{
    size_t done = 0;
    int error = 0;

    while (done < size) {
        char *rest = (char *) data + done;
        off_t at = (off_t) (offset + done);
        ssize_t n = writes ? pwrite(fd, rest, size - done, at)
                           : pread(fd, rest, size - done, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            error = errno;
        if (n <= 0)
            break;
        done += (size_t) n;
    }
    *done_p = done;
    return error;
}

/* As in write(2), an error does not count after some bytes, except with
 * FWD_WRITE_ALL. One of a read always counts: the client takes fewer bytes for
 * the end of the file. */
static int data_write_error(const struct job *job, int error)
{
    bool all = (job->in.write.flags & FWD_WRITE_ALL) != 0;

    return all || job->out.write.size == 0 ? error : 0;
}

/* Write at the end of a file. 0 or an errno. */
static int data_append(int fd, void *data, size_t size, uint32_t *done_p)
{
    struct iovec part = {data, size};
    ssize_t n;

    do
        n = pwritev2(fd, &part, 1, 0, RWF_APPEND);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno;
    *done_p = (uint32_t) n;
    return 0;
}

/* ---- Data within the call ---- */

/* Read what the page cache has, without blocking. Returns 0 if that is all of
 * it, or an errno: EAGAIN if more would block. */
static int data_read_cached(
    int fd, void *data, size_t size, uint64_t offset, size_t *done_p)
{
    while (*done_p < size) {
        struct iovec part = {(char *) data + *done_p, size - *done_p};
        ssize_t n =
            preadv2(fd, &part, 1, (off_t) (offset + *done_p), RWF_NOWAIT);

        if (n < 0)
            return errno;
        if (n == 0)
            break;
        *done_p += (size_t) n;
    }
    return 0;
}

/* Read where a read cannot stop before it blocks. */
static int data_read_timed(
    int fd, void *data, size_t size, uint64_t offset, size_t *done_p)
{
    static atomic_bool slow;
    uint64_t begun = workers_begin(&slow);
    int error = data_transfer(fd, false, data, size, offset, done_p);

    workers_end(&slow, begun);
    return error;
}

static int data_read_inline(struct job *job, struct file *file)
{
    const fwd_read_in_t *in = &job->in.read;
    fwd_read_out_t *out = &job->out.read;
    void *data = workers_buffer();
    size_t done = 0;
    int error = EOPNOTSUPP;

    if (in->size > FWD_INLINE_MAX)
        return EINVAL;
    if (!atomic_load_explicit(&file->reads_block, memory_order_relaxed)) {
        error = data_read_cached(file->fd, data, in->size, in->offset, &done);
        atomic_store_explicit(
            &file->reads_block, error == EOPNOTSUPP, memory_order_relaxed);
    }
    if (error == EOPNOTSUPP) {
        error = data_read_timed(file->fd, data, in->size, in->offset, &done);
    } else if (error != 0) {
        workers_hand_over();
        error =
            data_transfer(file->fd, false, data, in->size, in->offset, &done);
    }
    out->data.bytes = data;
    out->size = out->data.size = (uint32_t) done;
    return error;
}

static int data_write_inline(struct job *job, const struct file *file)
{
    const fwd_write_in_t *in = &job->in.write;
    size_t done = 0;
    int error;

    if (in->data.size > FWD_INLINE_MAX)
        return EINVAL;
    if (file->synced)
        workers_hand_over();
    if (in->offset == FWD_APPEND)
        return data_append(
            file->fd, in->data.bytes, in->data.size, &job->out.write.size);
    error = data_transfer(
        file->fd, true, in->data.bytes, in->data.size, in->offset, &done);
    job->out.write.size = (uint32_t) done;
    return data_write_error(job, error);
}

/* ---- Bulk data ---- */

/* The errno that the program of the client gets. */
static int data_bulk_error(hg_return_t ret)
{
    switch (ret) {
    case HG_SUCCESS: return 0;
    case HG_OVERFLOW:
    case HG_PERMISSION:
    case HG_NOENTRY:
    case HG_CANCELED: return EFAULT;
    case HG_AGAIN: return EAGAIN;
    case HG_NOMEM: return ENOMEM;
    case HG_TIMEOUT: return ETIMEDOUT;
    default: return EIO;
    }
}

/* A file, and what a pipeline has moved between it and the client. */
struct data_pieces {
    int fd;
    bool writes;
    uint64_t offset;
    size_t moved;
    int error;
};

/* Fill a piece, or write one that has arrived; a short one is the last. */
static hg_return_t data_piece(
    void *arg, void *data, size_t *size, size_t offset)
{
    struct data_pieces *pieces = (struct data_pieces *) arg;

    pieces->error = data_transfer(
        pieces->fd, pieces->writes, data, *size, pieces->offset + offset, size);
    pieces->moved += *size;
    return HG_SUCCESS;
}

/* 0 or an errno. */
static int data_check_bulk(hg_bulk_t memory, uint64_t at, uint32_t size)
{
    size_t all = HG_Bulk_handle_get_size(memory);

    if (size > FWD_IO_MAX)
        return EINVAL;
    return at > all || size > all - at ? EFAULT : 0;
}

/* Move data between the file and the client. 0 or an errno, as of
 * data_transfer. */
static int data_move_pieces(struct job *job, struct data_pieces *pieces,
    hg_bulk_t memory, uint64_t at, uint32_t size, uint32_t *size_p)
{
    hg_bulk_pipeline_t pipeline = workers_pipeline();
    int error = data_check_bulk(memory, at, size);
    hg_return_t ret;

    if (error != 0)
        return error;
    if (pipeline == NULL)
        return ENOMEM;
    ret = (pieces->writes ? HG_Bulk_pipeline_pull : HG_Bulk_pipeline_push)(
        pipeline, job->handle, memory, (size_t) at, size, data_piece, pieces,
        DATA_BULK_MS);
    if (ret != HG_SUCCESS)
        return data_bulk_error(ret);
    *size_p = (uint32_t) pieces->moved;
    return pieces->error;
}

static int data_read_bulk(struct job *job, const struct file *file)
{
    const fwd_read_in_t *in = &job->in.read;
    struct data_pieces pieces = {file->fd, false, in->offset, 0, 0};

    return data_move_pieces(
        job, &pieces, in->memory, in->at, in->size, &job->out.read.size);
}

static int data_write_bulk(struct job *job, const struct file *file)
{
    const fwd_write_in_t *in = &job->in.write;
    struct data_pieces pieces = {file->fd, true, in->offset, 0, 0};
    int error = data_move_pieces(
        job, &pieces, in->memory, in->at, in->size, &job->out.write.size);

    return data_write_error(job, error);
}

/* Append all bytes at once, so that those of other clients do not come between
 * them. */
static int data_append_bulk(struct job *job, const struct file *file)
{
    const fwd_write_in_t *in = &job->in.write;
    int error = data_check_bulk(in->memory, in->at, in->size);
    void *buffer;

    if (error != 0)
        return error;
    buffer = workers_io_buffer();
    if (buffer == NULL)
        return ENOMEM;
    error = data_bulk_error(HG_Bulk_pull_timed(job->handle, in->memory,
        (size_t) in->at, buffer, in->size, DATA_BULK_MS));
    return error != 0
        ? error
        : data_append(file->fd, buffer, in->size, &job->out.write.size);
}

/* ---- read and write ---- */

static int32_t data_run_read(struct job *job)
{
    struct file *file = files_get(job->session, job->in.read.file);
    int error;

    if (file == NULL)
        return FWD_FORGOTTEN;
    error = job->in.read.memory == HG_BULK_NULL ? data_read_inline(job, file)
                                                : data_read_bulk(job, file);
    files_put(job->session, file);
    return error;
}

/* The kernel does this when an unprivileged user writes. It does not do it for
 * this process if that is privileged. */
static void data_clear_ids(int fd)
{
    struct stat status;
    mode_t mode;

    if (fstat(fd, &status) != 0)
        return;
    mode = status.st_mode & ~(mode_t) S_ISUID;
    if ((mode & S_IXGRP) != 0)
        mode &= ~(mode_t) S_ISGID;
    if (mode != status.st_mode)
        (void) fchmod(fd, mode & 07777);
}

static int data_write_file(struct job *job, const struct file *file)
{
    if ((job->in.write.flags & FWD_WRITE_CLEARS_IDS) != 0)
        data_clear_ids(file->fd);
    if (job->in.write.memory == HG_BULK_NULL)
        return data_write_inline(job, file);
    if (job->in.write.offset == FWD_APPEND)
        return data_append_bulk(job, file);
    return data_write_bulk(job, file);
}

static int32_t data_run_write(struct job *job)
{
    struct file *file = files_get(job->session, job->in.write.file);
    int error;

    if (file == NULL)
        return FWD_FORGOTTEN;
    error = data_write_file(job, file);
    files_put(job->session, file);
    return error;
}

/* Calls of all sessions that take long. */
static atomic_uint data_moving;

/* Whether a call may run now; else a copy of it waits. */
static int data_begin(struct job *job)
{
    struct session *session = job->session;
    unsigned all = atomic_load(&data_moving);
    struct job *later = NULL;
    bool now;

    (void) pthread_mutex_lock(&session->lock);
    now = session->moving == 0 || session->moving + all < workers_max() / 2;
    if (now) {
        session->moving++;
        (void) atomic_fetch_add(&data_moving, 1);
    } else {
        later = (struct job *) malloc(sizeof(*later));
    }
    if (later != NULL) {
        *later = *job;
        later->next = NULL;
        *session->waiting_end = later;
        session->waiting_end = &later->next;
    }
    (void) pthread_mutex_unlock(&session->lock);
    if (now)
        return 0;
    return later != NULL ? CALLS_LATER : ENOMEM;
}

/* A call has ended. Returns one that waited and runs now. */
static struct job *data_end(struct session *session)
{
    struct job *next;

    (void) pthread_mutex_lock(&session->lock);
    next = session->waiting;
    if (next != NULL) {
        session->waiting = next->next;
        if (session->waiting == NULL)
            session->waiting_end = &session->waiting;
    } else {
        session->moving--;
        (void) atomic_fetch_sub(&data_moving, 1);
    }
    (void) pthread_mutex_unlock(&session->lock);
    return next;
}

/* Run a call that takes long, and then those that waited for it. */
static int32_t data_run(struct job *job, int32_t (*run)(struct job *job))
{
    struct job *first = job;
    int32_t error;

    job->run = run;
    error = data_begin(job);
    if (error != 0)
        return error;
    if (!job->session->near)
        workers_hand_over();
    while (job != NULL) {
        struct job *next;

        error = job->run(job);
        next = data_end(job->session);
        calls_finish(job, error);
        if (job != first)
            free(job);
        job = next;
    }
    return CALLS_LATER;
}

/* 0 or an errno. preadv2 would take -1 for the position of the file. */
static int data_check_offset(uint64_t offset)
{
    return offset > INT64_MAX ? EINVAL : 0;
}

/* Write data within the call. That takes long with O_SYNC. */
static int32_t data_write_small(struct job *job)
{
    static atomic_bool slow;
    struct file *file = files_get(job->session, job->in.write.file);
    uint64_t begun;
    bool synced;
    int error = 0;

    if (file == NULL)
        return FWD_FORGOTTEN;
    synced = file->synced;
    if (!synced) {
        begun = workers_begin(&slow);
        error = data_write_file(job, file);
        workers_end(&slow, begun);
    }
    files_put(job->session, file);
    return synced ? data_run(job, data_run_write) : error;
}

int32_t data_read(struct job *job)
{
    int error = data_check_offset(job->in.read.offset);

    if (error != 0)
        return error;
    return job->in.read.memory == HG_BULK_NULL ? data_run_read(job)
                                               : data_run(job, data_run_read);
}

int32_t data_write(struct job *job)
{
    uint64_t offset = job->in.write.offset;
    int error = offset == FWD_APPEND ? 0 : data_check_offset(offset);

    if (error != 0)
        return error;
    return job->in.write.memory == HG_BULK_NULL ? data_write_small(job)
                                                : data_run(job, data_run_write);
}

/* ---- Others ---- */

static int32_t data_run_fsync(struct job *job)
{
    const fwd_fsync_in_t *in = &job->in.fsync;
    struct file *file = files_get(job->session, in->file);
    int error = 0;

    if (file == NULL)
        return FWD_FORGOTTEN;
    workers_hand_over();
    if ((in->data_only != 0 ? fdatasync(file->fd) : fsync(file->fd)) != 0)
        error = errno;
    files_put(job->session, file);
    return error;
}

int32_t data_fsync(struct job *job)
{
    return data_run(job, data_run_fsync);
}

static int32_t data_run_flush(struct job *job)
{
    struct file *file = files_get(job->session, job->in.file.file);
    int fd;
    int error = 0;

    if (file == NULL)
        return FWD_FORGOTTEN;
    workers_hand_over();
    fd = dup(file->fd);
    if (fd < 0 || close(fd) != 0)
        error = errno;
    files_put(job->session, file);
    return error;
}

int32_t data_flush(struct job *job)
{
    return data_run(job, data_run_flush);
}

static int32_t data_run_fallocate(struct job *job)
{
    const fwd_fallocate_in_t *in = &job->in.fallocate;
    struct file *file = files_get(job->session, in->file);
    int error = 0;

    if (file == NULL)
        return FWD_FORGOTTEN;
    workers_hand_over();
    if (fallocate(file->fd, (int) in->mode, (off_t) in->offset,
            (off_t) in->size) != 0)
        error = errno;
    files_put(job->session, file);
    return error;
}

int32_t data_fallocate(struct job *job)
{
    return data_run(job, data_run_fallocate);
}

static int data_copy_files(
    struct job *job, const struct file *from, const struct file *to)
{
    const fwd_copy_in_t *in = &job->in.copy;
    uint64_t size = in->size < FWD_COPY_MAX ? in->size : FWD_COPY_MAX;
    off_t offset = (off_t) in->offset;
    off_t to_offset = (off_t) in->to_offset;
    ssize_t n;

    workers_hand_over();
    n = copy_file_range(
        from->fd, &offset, to->fd, &to_offset, (size_t) size, 0);
    if (n < 0)
        return errno;
    job->out.offset.offset = (uint64_t) n;
    return 0;
}

static int32_t data_run_copy(struct job *job)
{
    struct session *session = job->session;
    struct file *from = files_get(session, job->in.copy.file);
    struct file *to = files_get(session, job->in.copy.to_file);
    int error = FWD_FORGOTTEN;

    if (from != NULL && to != NULL)
        error = data_copy_files(job, from, to);
    if (to != NULL)
        files_put(session, to);
    if (from != NULL)
        files_put(session, from);
    return error;
}

int32_t data_copy(struct job *job)
{
    return data_run(job, data_run_copy);
}

/* No call depends on the position of a file. */
int32_t data_seek(struct job *job)
{
    const fwd_seek_in_t *in = &job->in.seek;
    struct file *file;
    off_t offset;
    int error = 0;

    if (in->whence != SEEK_DATA && in->whence != SEEK_HOLE)
        return EINVAL;
    file = files_get(job->session, in->file);
    if (file == NULL)
        return FWD_FORGOTTEN;
    (void) pthread_mutex_lock(&file->position);
    offset = lseek(file->fd, (off_t) in->offset, (int) in->whence);
    if (offset < 0)
        error = errno;
    (void) pthread_mutex_unlock(&file->position);
    job->out.offset.offset = (uint64_t) offset;
    files_put(job->session, file);
    return error;
}
