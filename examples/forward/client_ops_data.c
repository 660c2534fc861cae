/* SPDX-License-Identifier: BSD-3-Clause */
/* client_ops_data: requests that read, write and arrange the data of files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stddef.h>
#include <string.h>

#include "client_mount.h"
#include "client_ops.h"

/* Larger data moves by bulk, without a copy. */
#define DATA_INLINE_MAX ((size_t) 16384)

/* ---- Read ---- */

static void read_done(struct slot *slot, union slot_out *out)
{
    const fwd_read_out_t *in = &out->read;
    size_t size = slot->in.read.size;

    if (slot->in.read.memory == HG_BULK_NULL)
        (void) fuse_reply_buf(slot->req, (const char *) in->data.bytes,
            in->data.size < size ? in->data.size : size);
    else
        (void) fuse_reply_buf(slot->req, (const char *) slot->buffer->memory,
            in->size < size ? in->size : size);
}

static void read_prepare(struct slot *slot)
{
    if (slot->receives)
        slot->in.read.memory = slot_share_buffer(slot);
}

static struct op read_op = {
    {"fwd.read", hg_proc_fwd_read_in_t, hg_proc_fwd_read_out_t, 0},
    read_prepare, read_done, NULL, OP_READS, 0};

static void data_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
    struct fuse_file_info *fi)
{
    struct slot *slot = slot_begin(req, &read_op, NULL, file_of(fi));

    (void) ino;
    if (slot == NULL)
        return;
    slot->in.read.offset = (uint64_t) offset;
    slot->in.read.size = size < FWD_IO_MAX ? (uint32_t) size : FWD_IO_MAX;
    slot->receives = size > DATA_INLINE_MAX;
    slot_run(slot);
}

/* ---- Write ---- */

static void write_done(struct slot *slot, union slot_out *out)
{
    size_t size = slot->in.write.size;

    mount_data_changed(slot->files[0]->node);
    (void) fuse_reply_write(
        slot->req, out->write.size < size ? out->write.size : size);
}

static struct op write_op = {
    {"fwd.write", hg_proc_fwd_write_in_t, hg_proc_fwd_write_out_t, 0}, NULL,
    write_done, NULL, 0, 0};

/* Programs that append get a place at the end from the server, where other
 * clients append, too. */
static uint64_t data_write_offset(off_t offset, const struct fuse_file_info *fi)
{
    bool appends = (fi->flags & O_APPEND) != 0 && !mount_options.writeback;

    return appends ? FWD_APPEND : (uint64_t) offset;
}

/* The header before the data tells whether the write clears set-user-ID bits.
 * With direct I/O the kernel does not clear them itself. */
static uint32_t data_write_flags(
    const char *data, const struct fuse_file_info *fi)
{
    struct fuse_write_in in;
    uint32_t flags = fi->writepage ? FWD_WRITE_ALL : 0;

    memcpy(&in, data - sizeof(in), sizeof(in));
    if ((in.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0)
        flags |= FWD_WRITE_CLEARS_IDS;
    return flags;
}

static void data_write(fuse_req_t req, fuse_ino_t ino, const char *data,
    size_t size, off_t offset, struct fuse_file_info *fi)
{
    struct slot *slot = slot_begin(req, &write_op, NULL, file_of(fi));

    (void) ino;
    if (slot == NULL)
        return;
    slot_keep_buffer(slot);
    slot->in.write.offset = data_write_offset(offset, fi);
    slot->in.write.size = (uint32_t) size;
    slot->in.write.flags = data_write_flags(data, fi);
    if (size > DATA_INLINE_MAX) {
        slot->in.write.memory = slot_share_buffer(slot);
        slot->in.write.at =
            (uint64_t) (data - (const char *) slot->buffer->memory);
    } else {
        slot->in.write.data.bytes = (void *) (uintptr_t) data;
        slot->in.write.data.size = (uint32_t) size;
    }
    slot_run(slot);
}

/* ---- Sync ---- */

static struct op fsync_op = {
    {"fwd.fsync", hg_proc_fwd_fsync_in_t, hg_proc_fwd_error_out_t, 0}, NULL,
    ops_done, NULL, 0, 0};

static void data_fsync(
    fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
    struct slot *slot = slot_begin(req, &fsync_op, NULL, file_of(fi));

    (void) ino;
    if (slot == NULL)
        return;
    slot->in.fsync.data_only = data_only != 0;
    slot_run(slot);
}

/* ---- Space ---- */

static struct op fallocate_op = {
    {"fwd.fallocate", hg_proc_fwd_fallocate_in_t, hg_proc_fwd_error_out_t, 0},
    NULL, ops_done, NULL, 0, 0};

static void data_fallocate(fuse_req_t req, fuse_ino_t ino, int mode,
    off_t offset, off_t size, struct fuse_file_info *fi)
{
    struct slot *slot = slot_begin(req, &fallocate_op, NULL, file_of(fi));

    (void) ino;
    if (slot == NULL)
        return;
    slot->in.fallocate.offset = (uint64_t) offset;
    slot->in.fallocate.size = (uint64_t) size;
    slot->in.fallocate.mode = (uint32_t) mode;
    slot_run(slot);
}

static void copy_done(struct slot *slot, union slot_out *out)
{
    uint64_t size = slot->in.copy.size;

    (void) fuse_reply_write(slot->req,
        (size_t) (out->offset.offset < size ? out->offset.offset : size));
}

static void copy_prepare(struct slot *slot)
{
    slot->in.copy.to_file = slot->files[1]->remote;
}

static struct op copy_op = {
    {"fwd.copy", hg_proc_fwd_copy_in_t, hg_proc_fwd_offset_out_t, 0},
    copy_prepare, copy_done, NULL, 0, 0};

static void data_copy(fuse_req_t req, fuse_ino_t ino, off_t offset,
    struct fuse_file_info *fi, fuse_ino_t to_ino, off_t to_offset,
    struct fuse_file_info *to_fi, size_t size, int flags)
{
    struct slot *slot = slot_begin(req, &copy_op, NULL, file_of(fi));

    (void) ino;
    (void) to_ino;
    (void) flags;
    if (slot == NULL)
        return;
    slot->files[1] = file_of(to_fi);
    slot->in.copy.offset = (uint64_t) offset;
    slot->in.copy.to_offset = (uint64_t) to_offset;
    slot->in.copy.size = size < FWD_COPY_MAX ? size : FWD_COPY_MAX;
    slot_run(slot);
}

static void seek_done(struct slot *slot, union slot_out *out)
{
    (void) fuse_reply_lseek(slot->req, (off_t) out->offset.offset);
}

static struct op seek_op = {
    {"fwd.seek", hg_proc_fwd_seek_in_t, hg_proc_fwd_offset_out_t, 0}, NULL,
    seek_done, NULL, OP_READS, 0};

static void data_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
    struct fuse_file_info *fi)
{
    struct slot *slot = slot_begin(req, &seek_op, NULL, file_of(fi));

    (void) ino;
    if (slot == NULL)
        return;
    slot->in.seek.offset = (uint64_t) offset;
    slot->in.seek.whence = (uint32_t) whence;
    slot_run(slot);
}

bool ops_data_init(struct fuse_lowlevel_ops *table)
{
    static struct op *const ops[] = {
        &read_op, &write_op, &fsync_op, &fallocate_op, &copy_op, &seek_op};

    table->read = data_read;
    table->write = data_write;
    table->fsync = data_fsync;
    table->fsyncdir = data_fsync;
    table->fallocate = data_fallocate;
    table->copy_file_range = data_copy;
    table->lseek = data_lseek;
    return ops_register(ops, sizeof(ops) / sizeof(ops[0]));
}
