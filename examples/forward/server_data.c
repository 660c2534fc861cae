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
#include "server_long.h"
#include "server_workers.h"

/* The time that a client may take to move the data of one call. */
#define DATA_BULK_MS 10000u

/* ---- Files ---- */

/* Get the file of a call, until the call ends. False: the number is unknown. */
static bool data_get_file(struct job *job)
{
    job->file = files_get(job->session, job->in.file.file);
    return job->file != NULL;
}

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
 * FWD_WRITE_ALL. An error of a read always counts: with fewer bytes the client
 * would see the end of the file. */
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
 * it, or an errno: EAGAIN if more would block, EOPNOTSUPP if the file system
 * cannot tell. */
static int data_read_cached(struct job *job)
{
    const fwd_read_in_t *in = &job->in.read;
    fwd_read_out_t *out = &job->out.read;
    size_t done = 0;
    ssize_t n = 1;

    if (atomic_load_explicit(&job->file->reads_block, memory_order_relaxed))
        return EOPNOTSUPP;
    out->data.bytes = workers_buffer();
    while (done < in->size && n > 0) {
        struct iovec part = {(char *) out->data.bytes + done, in->size - done};

        n = preadv2(
            job->file->fd, &part, 1, (off_t) (in->offset + done), RWF_NOWAIT);
        if (n < 0 && errno == EOPNOTSUPP)
            atomic_store_explicit(
                &job->file->reads_block, true, memory_order_relaxed);
        if (n < 0)
            return errno;
        done += (size_t) n;
    }
    out->size = out->data.size = (uint32_t) done;
    return 0;
}

static int data_read_inline(struct job *job)
{
    const fwd_read_in_t *in = &job->in.read;
    fwd_read_out_t *out = &job->out.read;
    size_t done = 0;
    int error;

    out->data.bytes = workers_buffer();
    error = data_transfer(
        job->file->fd, false, out->data.bytes, in->size, in->offset, &done);
    out->size = out->data.size = (uint32_t) done;
    return error;
}

static int data_write_inline(struct job *job)
{
    const fwd_write_in_t *in = &job->in.write;
    size_t done = 0;
    int error;

    if (in->data.size > FWD_INLINE_MAX)
        return EINVAL;
    if (in->offset == FWD_APPEND)
        return data_append(
            job->file->fd, in->data.bytes, in->data.size, &job->out.write.size);
    error = data_transfer(
        job->file->fd, true, in->data.bytes, in->data.size, in->offset, &done);
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

static int data_read_bulk(struct job *job)
{
    const fwd_read_in_t *in = &job->in.read;
    struct data_pieces pieces = {job->file->fd, false, in->offset, 0, 0};

    return data_move_pieces(
        job, &pieces, in->memory, in->at, in->size, &job->out.read.size);
}

static int data_write_bulk(struct job *job)
{
    const fwd_write_in_t *in = &job->in.write;
    struct data_pieces pieces = {job->file->fd, true, in->offset, 0, 0};
    int error = data_move_pieces(
        job, &pieces, in->memory, in->at, in->size, &job->out.write.size);

    return data_write_error(job, error);
}

/* Append all bytes at once, so that those of other clients do not come between
 * them. */
static int data_append_bulk(struct job *job)
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
        : data_append(job->file->fd, buffer, in->size, &job->out.write.size);
}

/* ---- read and write ---- */

static int32_t data_run_read(struct job *job)
{
    return job->in.read.memory == HG_BULK_NULL ? data_read_inline(job)
                                               : data_read_bulk(job);
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

static int32_t data_run_write(struct job *job)
{
    if ((job->in.write.flags & FWD_WRITE_CLEARS_IDS) != 0)
        data_clear_ids(job->file->fd);
    if (job->in.write.memory == HG_BULK_NULL)
        return data_write_inline(job);
    if (job->in.write.offset == FWD_APPEND)
        return data_append_bulk(job);
    return data_write_bulk(job);
}

/* 0 or an errno. preadv2 would take -1 for the position of the file. */
static int data_check_offset(uint64_t offset)
{
    return offset > INT64_MAX ? EINVAL : 0;
}

int32_t data_read(struct job *job)
{
    static atomic_bool slow;
    const fwd_read_in_t *in = &job->in.read;
    int error = data_check_offset(in->offset);

    if (error != 0)
        return error;
    job->bulk = in->memory != HG_BULK_NULL;
    if (!job->bulk && in->size > FWD_INLINE_MAX)
        return EINVAL;
    if (!data_get_file(job))
        return FWD_FORGOTTEN;
    if (job->bulk)
        return long_run(job, data_run_read);
    error = data_read_cached(job);
    if (error == EOPNOTSUPP)
        return long_try(job, data_run_read, &slow);
    return error == EAGAIN ? long_run(job, data_run_read) : error;
}

int32_t data_write(struct job *job)
{
    static atomic_bool slow;
    const fwd_write_in_t *in = &job->in.write;
    int error = in->offset == FWD_APPEND ? 0 : data_check_offset(in->offset);

    if (error != 0)
        return error;
    job->bulk = in->memory != HG_BULK_NULL;
    if (!data_get_file(job))
        return FWD_FORGOTTEN;
    return job->bulk || job->file->synced
        ? long_run(job, data_run_write)
        : long_try(job, data_run_write, &slow);
}

/* ---- Others ---- */

static int32_t data_run_fsync(struct job *job)
{
    int fd = job->file->fd;

    return (job->in.fsync.data_only != 0 ? fdatasync(fd) : fsync(fd)) != 0
        ? errno
        : 0;
}

int32_t data_fsync(struct job *job)
{
    return data_get_file(job) ? long_run(job, data_run_fsync) : FWD_FORGOTTEN;
}

static int32_t data_run_flush(struct job *job)
{
    int fd = dup(job->file->fd);

    return fd < 0 || close(fd) != 0 ? errno : 0;
}

int32_t data_flush(struct job *job)
{
    return data_get_file(job) ? long_run(job, data_run_flush) : FWD_FORGOTTEN;
}

static int32_t data_run_fallocate(struct job *job)
{
    const fwd_fallocate_in_t *in = &job->in.fallocate;

    return fallocate(job->file->fd, (int) in->mode, (off_t) in->offset,
               (off_t) in->size) != 0
        ? errno
        : 0;
}

int32_t data_fallocate(struct job *job)
{
    return data_get_file(job) ? long_run(job, data_run_fallocate)
                              : FWD_FORGOTTEN;
}

static int32_t data_run_copy(struct job *job)
{
    const fwd_copy_in_t *in = &job->in.copy;
    struct file *to = files_get(job->session, in->to_file);
    uint64_t size = in->size < FWD_COPY_MAX ? in->size : FWD_COPY_MAX;
    off_t offset = (off_t) in->offset;
    off_t to_offset = (off_t) in->to_offset;
    int error = 0;
    ssize_t n;

    if (to == NULL)
        return FWD_FORGOTTEN;
    n = copy_file_range(
        job->file->fd, &offset, to->fd, &to_offset, (size_t) size, 0);
    if (n < 0)
        error = errno;
    else
        job->out.offset.offset = (uint64_t) n;
    files_put(job->session, to);
    return error;
}

int32_t data_copy(struct job *job)
{
    return data_get_file(job) ? long_run(job, data_run_copy) : FWD_FORGOTTEN;
}

/* No call depends on the position of a file. */
int32_t data_seek(struct job *job)
{
    const fwd_seek_in_t *in = &job->in.seek;
    off_t offset;
    int error = 0;

    if (in->whence != SEEK_DATA && in->whence != SEEK_HOLE)
        return EINVAL;
    if (!data_get_file(job))
        return FWD_FORGOTTEN;
    (void) pthread_mutex_lock(&job->file->position);
    offset = lseek(job->file->fd, (off_t) in->offset, (int) in->whence);
    if (offset < 0)
        error = errno;
    (void) pthread_mutex_unlock(&job->file->position);
    job->out.offset.offset = (uint64_t) offset;
    return error;
}
