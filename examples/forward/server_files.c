/* SPDX-License-Identifier: BSD-3-Clause */
/* server_files: see server_files.h. */
#define _GNU_SOURCE 1
#include "server_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "server_locks.h"
#include "server_names.h"
#include "server_path.h"
#include "server_sessions.h"

/* Flags that a client may set; others have no effect. To append, a client uses
 * FWD_APPEND. */
#define FILES_FLAGS \
    (O_ACCMODE | O_TRUNC | O_SYNC | O_DSYNC | O_NOATIME | O_DIRECTORY)

/* ---- The table ---- */

struct file *files_get(struct session *session, uint64_t number)
{
    struct file *file;

    (void) pthread_mutex_lock(&session->lock);
    file = (struct file *) table_get(&session->files, number);
    if (file != NULL)
        file->uses++;
    (void) pthread_mutex_unlock(&session->lock);
    return file;
}

/* Close a file that is in no table, and that nobody uses. */
static void files_close(struct session *session, struct file *file)
{
    struct node *node = file->node;

    locks_end_file(session, file);
    (void) close(file->fd);
    (void) pthread_mutex_destroy(&file->position);
    free(file);
    sessions_give(session);
    nodes_put(session, node);
}

void files_put(struct session *session, struct file *file)
{
    bool over;

    (void) pthread_mutex_lock(&session->lock);
    over = --file->uses == 0 && file->number == 0;
    (void) pthread_mutex_unlock(&session->lock);
    if (over)
        files_close(session, file);
}

void files_free(struct session *session)
{
    uint32_t i;

    for (i = 0; i < session->files.size; i++) {
        struct file *file = (struct file *) session->files.slots[i].item;

        if (file != NULL)
            files_close(session, file);
    }
    table_free(&session->files);
}

/* Enter an open file. Takes `fd`, a count of sessions_take, and the use of the
 * node. 0 or an errno. */
static int files_enter(struct session *session, struct node *node, int fd,
    uint32_t flags, uint64_t *number_p)
{
    struct file *file = (struct file *) calloc(1, sizeof(*file));

    if (file == NULL)
        goto close_fd;
    file->fd = fd;
    file->node = node;
    file->synced = (flags & (O_SYNC | O_DSYNC)) != 0;
    (void) pthread_mutex_init(&file->position, NULL);
    (void) pthread_mutex_lock(&session->lock);
    file->number = table_add(&session->files, file);
    (void) pthread_mutex_unlock(&session->lock);
    if (file->number == 0)
        goto free_file;
    *number_p = file->number;
    return 0;

free_file:
    (void) pthread_mutex_destroy(&file->position);
    free(file);
close_fd:
    (void) close(fd);
    sessions_give(session);
    nodes_put(session, node);
    return ENOMEM;
}

/* ---- release ---- */

/* 0, or FWD_FORGOTTEN. */
static int files_end(struct session *session, uint64_t number)
{
    struct file *file = files_get(session, number);

    if (file == NULL)
        return FWD_FORGOTTEN;
    (void) pthread_mutex_lock(&session->lock);
    if (file->number != 0) /* another thread may have been faster */
        table_remove(&session->files, file->number);
    file->number = 0;
    (void) pthread_mutex_unlock(&session->lock);
    files_put(session, file);
    return 0;
}

int32_t files_release(struct job *job)
{
    return files_end(job->session, job->in.file.file);
}

/* Close a file that was just opened if the client does not wait any more: it
 * does not learn the number. */
static void files_check_wanted(struct job *job, uint64_t number)
{
    if (HG_Is_canceled(job->handle))
        (void) files_end(job->session, number);
}

/* ---- open ---- */

/* 0 or an errno: the server serves for reading only. */
static int files_check_flags(uint32_t flags)
{
    bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;

    return server.read_only && writes ? EROFS : 0;
}

/* Whether close(2) may report errors of writing. On local file systems it does
 * not, and the client need not send fwd.flush. */
static bool files_close_reports(int fd, uint32_t flags)
{
    struct statfs status;

    if ((flags & O_ACCMODE) == O_RDONLY)
        return false;
    if (fstatfs(fd, &status) != 0)
        return true;
    switch ((uint32_t) status.f_type) {
    case EXT4_SUPER_MAGIC: /* also ext2 and ext3 */
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC: return false;
    default: return true;
    }
}

/* Open what a node is; `held`: the client had it open before. A fifo or device
 * is not opened: that could block. */
static int files_open_node(const struct node *node, uint32_t flags, bool held)
{
    int (*reopen)(int fd, int flags) = held ? path_reopen_own : path_reopen;
    int known = (int) (flags & FILES_FLAGS);
    int fd;

    if (node->type == S_IFLNK)
        return -ELOOP;
    if (node->type != S_IFREG && node->type != S_IFDIR)
        return -ENXIO;
    if (server.read_only)
        known |= O_NOATIME;
    fd = reopen(node->fd, known);
    if (fd == -EPERM && (known & O_NOATIME) != 0)
        fd = reopen(node->fd, known & ~O_NOATIME);
    return fd;
}

/* Whether the node still has this name; "": it need not have one. */
static int files_check_name(
    struct session *session, const struct node *node, const fwd_open_in_t *in)
{
    struct node *parent;
    fwd_attr_t attr;
    fwd_id_t id;
    int error = -path_check(in->name);

    if (in->name != NULL && in->name[0] == '\0')
        return 0;
    if (error != 0)
        return error;
    parent = nodes_get(session, in->parent);
    if (parent == NULL)
        return FWD_FORGOTTEN;
    error = -path_status(parent->fd, in->name, &attr, &id);
    nodes_put(session, parent);
    if (error == 0 && memcmp(&id, &node->id, sizeof(id)) != 0)
        error = ESTALE;
    return error == ENOENT || error == ENOTDIR ? ESTALE : error;
}

/* Open a node. Takes the use of it. 0 or an errno. */
static int files_open_used(struct session *session, struct node *node,
    uint32_t flags, bool held, fwd_open_out_t *out)
{
    int error = EMFILE;
    int fd;

    if (!sessions_take(session))
        goto put_node;
    fd = files_open_node(node, flags, held);
    error = fd < 0 ? -fd : -path_status(fd, "", &out->attr, NULL);
    if (error == 0) {
        out->flush = files_close_reports(fd, flags);
        return files_enter(session, node, fd, flags, &out->file);
    }
    if (fd >= 0)
        (void) close(fd);
    sessions_give(session);
put_node:
    nodes_put(session, node);
    return error;
}

int32_t files_open(struct job *job)
{
    const fwd_open_in_t *in = &job->in.open;
    struct session *session = job->session;
    struct node *node;
    int error = files_check_flags(in->flags);

    if (error != 0)
        return error;
    node = nodes_get(session, in->node);
    if (node == NULL)
        return FWD_FORGOTTEN;
    error = files_check_name(session, node, in);
    if (error == 0)
        error = files_open_used(
            session, node, in->flags, in->reopens != 0, &job->out.open);
    else
        nodes_put(session, node);
    if (error == 0)
        files_check_wanted(job, job->out.open.file);
    return error;
}

/* ---- create ---- */

#define FILES_TRIES 8u /* while others make and remove the file */

/* Make a file with its mark, which has its name only then: if the server is
 * killed meanwhile, the call that comes again finds no file without a mark. */
static int files_make_marked(
    const fwd_create_in_t *in, const struct node *parent, uint64_t flags)
{
    char path[PATH_PROC_SIZE];
    int fd, error;

    fd = -names_become(in->uid, in->gid);
    if (fd == 0)
        fd = path_open(parent->fd, ".", flags | O_TMPFILE, in->mode & 07777);
    (void) names_become(0, 0);
    if (fd < 0)
        return fd;
    path_set_mark(fd, NULL, in->mark);
    path_of(fd, path);
    if (linkat(AT_FDCWD, path, parent->fd, in->name, AT_SYMLINK_FOLLOW) == 0)
        return fd;
    error = errno;
    (void) close(fd);
    return -error;
}

/* If the server was killed before it had marked the file, mark it now. */
static void files_claim(const fwd_create_in_t *in, const struct node *parent)
{
    fwd_make_in_t make = {in->session, in->parent, in->name, NULL, 0,
        S_IFREG | (in->mode & 07777), in->uid, in->gid, in->mark, in->again};

    (void) names_claim(parent, &make);
}

/* Make the file and open it. Returns a descriptor or a negative errno. */
static int files_make(const fwd_create_in_t *in, const struct node *parent)
{
    uint64_t flags = in->flags & FILES_FLAGS & ~(uint32_t) O_DIRECTORY;
    int fd = -EOPNOTSUPP;

    if ((flags & O_ACCMODE) != O_RDONLY)
        fd = files_make_marked(in, parent, flags);
    if (fd != -EOPNOTSUPP)
        return fd;
    fd = -names_become(in->uid, in->gid);
    if (fd == 0)
        fd = path_open(parent->fd, in->name,
            flags | O_CREAT | O_EXCL | O_NOCTTY, in->mode & 07777);
    (void) names_become(0, 0);
    if (fd >= 0)
        path_set_mark(fd, NULL, in->mark);
    else if (fd == -EEXIST && in->again != 0)
        files_claim(in, parent);
    return fd;
}

/* Enter a file that was made, and its node. Takes `fd` and a count of
 * sessions_take. 0 or an errno. */
static int files_enter_made(
    struct session *session, int fd, uint32_t flags, fwd_create_out_t *out)
{
    int node_fd = path_reopen(fd, O_PATH);
    struct node *node;
    int error = node_fd < 0
        ? -node_fd
        : -path_status(node_fd, "", &out->entry.attr, &out->entry.id);

    if (error == 0)
        error = nodes_enter(session, node_fd, &out->entry);
    else if (node_fd >= 0)
        (void) close(node_fd);
    node = error == 0 ? nodes_get(session, out->entry.node) : NULL;
    out->flush = files_close_reports(fd, flags);
    if (node != NULL)
        return files_enter(session, node, fd, flags, &out->file);
    (void) close(fd);
    sessions_give(session);
    return error != 0 ? error : FWD_FORGOTTEN;
}

/* Whether the bits of the mode let the caller open the file. The kernel of the
 * client has not checked that. It knows more groups of the caller. */
static bool files_may_open(const fwd_create_in_t *in, const fwd_attr_t *attr)
{
    uint32_t wanted = (in->flags & O_ACCMODE) == O_RDONLY ? 4
        : (in->flags & O_ACCMODE) == O_WRONLY             ? 2
                                                          : 6;
    unsigned shift = in->uid == attr->uid ? 6 : in->gid == attr->gid ? 3 : 0;

    if ((in->flags & O_TRUNC) != 0)
        wanted |= 2;
    return S_ISREG(attr->mode) &&
        (in->uid == 0 || (attr->mode >> shift & wanted) == wanted);
}

/* The name exists: open the file that the call has made before, or one that the
 * caller may open. Otherwise the error is EEXIST or ESTALE. */
static int files_open_there(
    struct job *job, const struct node *parent, fwd_create_out_t *out)
{
    const fwd_create_in_t *in = &job->in.create;
    struct session *session = job->session;
    fwd_open_out_t opened = {0};
    struct node *node = NULL;
    int error = names_enter(session, parent, in->name, &out->entry);
    bool made;

    if (error != 0)
        return error;
    made = in->again != 0 && out->entry.attr.atime.nanoseconds == in->mark;
    if (!made && (in->flags & O_EXCL) != 0)
        error = EEXIST;
    else if (!made && !files_may_open(in, &out->entry.attr))
        error = ESTALE;
    else
        node = nodes_get(session, out->entry.node);
    if (node != NULL)
        error = files_open_used(session, node,
            made ? in->flags & ~(uint32_t) O_TRUNC : in->flags, made, &opened);
    else if (error == 0)
        error = FWD_FORGOTTEN;
    if (error != 0)
        nodes_forget(session, out->entry.node, 1);
    out->file = opened.file;
    out->flush = opened.flush;
    out->entry.attr = opened.attr;
    return error;
}

static int files_create_in(struct job *job, const struct node *parent)
{
    const fwd_create_in_t *in = &job->in.create;
    struct session *session = job->session;
    int fd;

    if (!sessions_take(session))
        return EMFILE;
    fd = files_make(in, parent);
    if (fd >= 0)
        return files_enter_made(session, fd, in->flags, &job->out.create);
    sessions_give(session);
    return fd == -EEXIST ? files_open_there(job, parent, &job->out.create)
                         : -fd;
}

int32_t files_create(struct job *job)
{
    const fwd_create_in_t *in = &job->in.create;
    struct node *parent;
    unsigned tries = 0;
    int error = -path_check(in->name);

    if (error == 0 && in->mark > FWD_MARK_MAX)
        error = EINVAL;
    if (error != 0)
        return error;
    parent = nodes_get(job->session, in->parent);
    if (parent == NULL)
        return FWD_FORGOTTEN;
    do
        error = files_create_in(job, parent);
    while (error == ENOENT && ++tries < FILES_TRIES);
    if (error == 0) {
        (void) path_status(parent->fd, "", &job->out.create.parent, NULL);
        files_check_wanted(job, job->out.create.file);
    }
    nodes_put(job->session, parent);
    return error;
}
