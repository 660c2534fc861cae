/* SPDX-License-Identifier: BSD-3-Clause */
/* server_attributes: see server_attributes.h. */
#define _GNU_SOURCE 1
#include "server_attributes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "server_files.h"
#include "server_nodes.h"
#include "server_path.h"
#include "server_workers.h"

int32_t attributes_get(struct job *job)
{
    const fwd_getattr_in_t *in = &job->in.getattr;
    fwd_attr_t *attr = &job->out.attr.attr;
    int error;

    if (in->file != 0) {
        struct file *file = files_get(job->session, in->file);

        if (file == NULL)
            return FWD_FORGOTTEN;
        error = -path_status(file->fd, "", attr, NULL);
        files_put(job->session, file);
    } else {
        struct node *node = nodes_get(job->session, in->node);

        if (node == NULL)
            return FWD_FORGOTTEN;
        error = -path_status(node->fd, "", attr, NULL);
        nodes_put(job->session, node);
    }
    return error;
}

/* ---- setattr ---- */

/* An open file may be written although its mode forbids it now. */
static int attributes_set_size(
    const struct node *node, const struct file *file, uint64_t size)
{
    char path[PATH_PROC_SIZE];

    if (size > INT64_MAX)
        return EFBIG;
    if (file != NULL && ftruncate(file->fd, (off_t) size) == 0)
        return 0;
    if (file != NULL && errno != EINVAL && errno != EBADF)
        return errno;
    path_of(node->fd, path);
    return truncate(path, (off_t) size) == 0 ? 0 : errno;
}

static int attributes_set_owner(
    const struct node *node, const fwd_setattr_in_t *in)
{
    uid_t uid = (in->valid & FWD_SET_UID) != 0 ? (uid_t) in->uid : (uid_t) -1;
    gid_t gid = (in->valid & FWD_SET_GID) != 0 ? (gid_t) in->gid : (gid_t) -1;

    return fchownat(node->fd, "", uid, gid, AT_EMPTY_PATH) == 0 ? 0 : errno;
}

static int attributes_set_mode(const struct node *node, uint32_t mode)
{
    return node->type == S_IFLNK ? EOPNOTSUPP : -path_set_mode(node->fd, mode);
}

static struct timespec attributes_time(
    const fwd_setattr_in_t *in, uint32_t set, uint32_t now, fwd_time_t time)
{
    struct timespec spec = {0, UTIME_OMIT};

    if ((in->valid & now) != 0) {
        spec.tv_nsec = UTIME_NOW;
    } else if ((in->valid & set) != 0) {
        spec.tv_sec = (time_t) time.seconds;
        spec.tv_nsec = (long) time.nanoseconds;
    }
    return spec;
}

/* 0 or an errno. */
static int attributes_set_times(
    const struct node *node, const fwd_setattr_in_t *in)
{
    char path[PATH_PROC_SIZE];
    struct timespec times[2];

    /* The kernel gives special values a meaning. */
    if (in->atime.nanoseconds < 0 || in->atime.nanoseconds > 999999999 ||
        in->mtime.nanoseconds < 0 || in->mtime.nanoseconds > 999999999)
        return EINVAL;
    times[0] = attributes_time(in, FWD_SET_ATIME, FWD_SET_ATIME_NOW, in->atime);
    times[1] = attributes_time(in, FWD_SET_MTIME, FWD_SET_MTIME_NOW, in->mtime);
    path_of(node->fd, path);
    return utimensat(AT_FDCWD, path, times, 0) == 0 ? 0 : errno;
}

/* The size comes first: the new mode may forbid it. The times come last: the
 * others change them. */
static int attributes_set_all(const struct node *node, const struct file *file,
    const fwd_setattr_in_t *in)
{
    int error = 0;

    if ((in->valid & FWD_SET_SIZE) != 0)
        error = attributes_set_size(node, file, in->size);
    if (error == 0 && (in->valid & (FWD_SET_UID | FWD_SET_GID)) != 0)
        error = attributes_set_owner(node, in);
    if (error == 0 && (in->valid & FWD_SET_MODE) != 0)
        error = attributes_set_mode(node, in->mode);
    if (error == 0 &&
        (in->valid &
            (FWD_SET_ATIME | FWD_SET_MTIME | FWD_SET_ATIME_NOW |
                FWD_SET_MTIME_NOW)) != 0)
        error = attributes_set_times(node, in);
    return error;
}

int32_t attributes_set(struct job *job)
{
    const fwd_setattr_in_t *in = &job->in.setattr;
    struct session *session = job->session;
    struct file *file = in->file != 0 ? files_get(session, in->file) : NULL;
    struct node *node;
    int error;

    if (in->file != 0)
        node = file != NULL ? file->node : NULL;
    else
        node = nodes_get(session, in->node);
    if (node == NULL)
        return FWD_FORGOTTEN;
    error = attributes_set_all(node, file, in);
    if (error == 0)
        error = -path_status(node->fd, "", &job->out.attr.attr, NULL);
    if (file != NULL)
        files_put(session, file);
    else
        nodes_put(session, node);
    return error;
}

/* ---- Extended attributes ---- */

/* Read an attribute, or the list of names. A size, or -1 and errno. */
static ssize_t attributes_read(
    const char *path, const char *name, void *buffer, size_t size)
{
    return name[0] == '\0' ? listxattr(path, (char *) buffer, size)
                           : getxattr(path, name, buffer, size);
}

/* Run `act` with a path of the node, if `name` is one. */
static int32_t attributes_act(struct job *job, uint64_t number,
    const char *name, int (*act)(struct job *job, const char *path))
{
    char path[PATH_PROC_SIZE];
    struct node *node;
    int error;

    if (name == NULL)
        return EINVAL;
    node = nodes_get(job->session, number);
    if (node == NULL)
        return FWD_FORGOTTEN;
    path_of(node->fd, path);
    error = act(job, path);
    nodes_put(job->session, node);
    return error;
}

static int attributes_getxattr_at(struct job *job, const char *path)
{
    const fwd_getxattr_in_t *in = &job->in.getxattr;
    fwd_getxattr_out_t *out = &job->out.getxattr;
    size_t size = in->size < FWD_XATTR_MAX ? in->size : FWD_XATTR_MAX;
    ssize_t got = attributes_read(path, in->name, workers_buffer(), size);

    if (got < 0)
        return errno;
    out->size = (uint32_t) got;
    out->data.size = size > 0 ? out->size : 0;
    out->data.bytes = workers_buffer();
    return 0;
}

/* Before Linux 6.2 the kernel of a client checks nothing for these: each user
 * could set an access control list. */
static bool attributes_is_system(const char *name)
{
    return strncmp(name, "system.", 7) == 0;
}

/* Whether the attribute has the value that the call sets. */
static bool attributes_is_set(const char *path, const fwd_setxattr_in_t *in)
{
    ssize_t got =
        getxattr(path, in->name, workers_buffer(), WORKERS_BUFFER_SIZE);

    return got == (ssize_t) in->value.size &&
        (got == 0 ||
            memcmp(workers_buffer(), in->value.bytes, in->value.size) == 0);
}

static int attributes_setxattr_at(struct job *job, const char *path)
{
    const fwd_setxattr_in_t *in = &job->in.setxattr;
    int error = 0;

    if (attributes_is_system(in->name))
        return EOPNOTSUPP;
    if (setxattr(path, in->name, in->value.bytes, in->value.size,
            (int) in->flags) != 0)
        error = errno;
    if (error == EEXIST && in->again != 0 && attributes_is_set(path, in))
        error = 0;
    return error;
}

static int attributes_removexattr_at(struct job *job, const char *path)
{
    const fwd_removexattr_in_t *in = &job->in.removexattr;

    if (attributes_is_system(in->name))
        return EOPNOTSUPP;
    if (removexattr(path, in->name) == 0 ||
        (errno == ENODATA && in->again != 0))
        return 0;
    return errno;
}

int32_t attributes_getxattr(struct job *job)
{
    return attributes_act(job, job->in.getxattr.node, job->in.getxattr.name,
        attributes_getxattr_at);
}

int32_t attributes_setxattr(struct job *job)
{
    return attributes_act(job, job->in.setxattr.node, job->in.setxattr.name,
        attributes_setxattr_at);
}

int32_t attributes_removexattr(struct job *job)
{
    return attributes_act(job, job->in.removexattr.node,
        job->in.removexattr.name, attributes_removexattr_at);
}

/* ---- statfs ---- */

int32_t attributes_statfs(struct job *job)
{
    fwd_statfs_out_t *out = &job->out.statfs;
    struct node *node = nodes_get(job->session, job->in.node.node);
    struct statvfs status;
    int error = 0;

    if (node == NULL)
        return FWD_FORGOTTEN;
    if (fstatvfs(node->fd, &status) != 0) {
        error = errno;
    } else {
        out->block_size = (uint32_t) status.f_bsize;
        out->fragment_size = (uint32_t) status.f_frsize;
        out->name_max = (uint32_t) status.f_namemax;
        out->blocks = status.f_blocks;
        out->blocks_free = status.f_bfree;
        out->blocks_available = status.f_bavail;
        out->files = status.f_files;
        out->files_free = status.f_ffree;
    }
    nodes_put(job->session, node);
    return error;
}
