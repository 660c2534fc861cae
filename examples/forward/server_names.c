/* SPDX-License-Identifier: BSD-3-Clause */
/* server_names: see server_names.h. */
#define _GNU_SOURCE 1
#include "server_names.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server_path.h"
#include "server_sessions.h"
#include "server_workers.h"

#define NAMES_RENAME_FLAGS \
    ((uint32_t) (RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))

/* ---- lookup and find ---- */

/* Enter the node of a descriptor. Takes `fd`. 0 or an errno. */
static int names_enter_fd(struct session *session, int fd, fwd_entry_t *entry)
{
    int error;

    if (fd < 0)
        return -fd;
    error = -path_status(fd, "", &entry->attr, &entry->id);
    if (error == 0)
        return nodes_enter(session, fd, entry);
    (void) close(fd);
    return error;
}

int names_enter(struct session *session, const struct node *parent,
    const char *name, fwd_entry_t *entry)
{
    int error = -path_status(parent->fd, name, &entry->attr, &entry->id);

    if (error != 0)
        return error;
    if (nodes_known(session, entry))
        return 0;
    return names_enter_fd(
        session, path_open(parent->fd, name, O_PATH, 0), entry);
}

int32_t names_lookup(struct job *job)
{
    const fwd_name_in_t *in = &job->in.name;
    int error = -path_check(in->name);
    struct node *parent;

    if (error != 0)
        return error;
    parent = nodes_get(job->session, in->parent);
    if (parent == NULL)
        return FWD_FORGOTTEN;
    error = names_enter(job->session, parent, in->name, &job->out.entry.entry);
    nodes_put(job->session, parent);
    return error;
}

int32_t names_find(struct job *job)
{
    const char *path = job->in.find.path;

    if (path == NULL)
        return EINVAL;
    if (strlen(path) > FWD_PATH_MAX)
        return ENAMETOOLONG;
    return names_enter_fd(job->session,
        path_open(server.root, path[0] == '\0' ? "." : path, O_PATH, 0),
        &job->out.entry.entry);
}

int32_t names_forget(struct job *job)
{
    const fwd_data_t *nodes = &job->in.forget.nodes;
    uint32_t at;

    if (nodes->size % (2 * sizeof(uint64_t)) != 0)
        return EINVAL;
    for (at = 0; at < nodes->size; at += 2 * sizeof(uint64_t)) {
        uint64_t pair[2]; /* a node and its lookups */

        memcpy(pair, (const char *) nodes->bytes + at, sizeof(pair));
        nodes_forget(job->session, pair[0], pair[1]);
    }
    return 0;
}

/* ---- make and link ---- */

int names_become(uint32_t uid, uint32_t gid)
{
    if (!server.is_root)
        return 0;
    (void) setfsgid(gid);
    (void) setfsuid(uid);
    /* They do not report errors; each returns the value before. */
    return (uint32_t) setfsgid((gid_t) -1) == gid &&
            (uint32_t) setfsuid((uid_t) -1) == uid
        ? 0
        : EINVAL;
}

static int names_make_as(const struct node *parent, const fwd_make_in_t *in)
{
    mode_t mode = (mode_t) (in->mode & 07777);

    switch (in->mode & S_IFMT) {
    case S_IFDIR: return mkdirat(parent->fd, in->name, mode);
    case S_IFLNK: return symlinkat(in->target, parent->fd, in->name);
    case S_IFREG:
    case S_IFIFO:
    case S_IFSOCK: return mknodat(parent->fd, in->name, (mode_t) in->mode, 0);
    case S_IFCHR:
    case S_IFBLK:
        if (server.is_root)
            return mknodat(
                parent->fd, in->name, (mode_t) in->mode, (dev_t) in->rdev);
        errno = EPERM;
        return -1;
    default: errno = EINVAL; return -1;
    }
}

static uint64_t names_time(const fwd_time_t *time)
{
    return (uint64_t) time->seconds * 1000000000u +
        (uint64_t) time->nanoseconds;
}

static bool names_has_target(const struct node *parent, const fwd_make_in_t *in)
{
    char *target = (char *) workers_buffer();
    ssize_t size =
        readlinkat(parent->fd, in->name, target, WORKERS_BUFFER_SIZE);

    return in->target != NULL && size == (ssize_t) strlen(in->target) &&
        memcmp(target, in->target, (size_t) size) == 0;
}

/* Whether a server that was killed before it set the mark can have made this
 * node for the call. It is older than this server, is what the call makes, and
 * nothing has used or changed it since: its times are equal. A node of another
 * call has a mark, but another program can have made such a node. */
static bool names_is_left(
    const struct node *parent, const fwd_make_in_t *in, const fwd_attr_t *attr)
{
    uint64_t changed = names_time(&attr->ctime);

    return changed <= server.started && names_time(&attr->atime) == changed &&
        names_time(&attr->mtime) == changed &&
        ((attr->mode ^ in->mode) & (S_IFMT | S_ISVTX | 0777)) == 0 &&
        attr->uid == (server.is_root ? in->uid : (uint32_t) geteuid()) &&
        attr->rdev == in->rdev && (!S_ISREG(attr->mode) || attr->size == 0) &&
        (!S_ISLNK(attr->mode) || names_has_target(parent, in));
}

bool names_claim(const struct node *parent, const fwd_make_in_t *in)
{
    static pthread_mutex_t claims = PTHREAD_MUTEX_INITIALIZER;
    fwd_attr_t attr;
    bool made = false;

    (void) pthread_mutex_lock(&claims);
    if (path_status(parent->fd, in->name, &attr, NULL) == 0) {
        made = ((attr.mode ^ in->mode) & S_IFMT) == 0 &&
            attr.atime.nanoseconds == in->mark;
        if (!made && names_is_left(parent, in, &attr)) {
            path_set_mark(parent->fd, in->name, in->mark);
            made = true;
        }
    }
    (void) pthread_mutex_unlock(&claims);
    return made;
}

/* 0 or an errno. */
static int names_make_in(const struct node *parent, const fwd_make_in_t *in)
{
    int error;

    if (S_ISLNK(in->mode) && in->target == NULL)
        return EINVAL;
    error = names_become(in->uid, in->gid);
    if (error == 0 && names_make_as(parent, in) != 0)
        error = errno;
    (void) names_become(0, 0);
    if (error == 0)
        path_set_mark(parent->fd, in->name, in->mark);
    return error;
}

int32_t names_make(struct job *job)
{
    const fwd_make_in_t *in = &job->in.make;
    fwd_entry_t *entry = &job->out.make.entry;
    struct node *parent;
    int error = -path_check(in->name);

    if (error == 0 && in->mark > FWD_MARK_MAX)
        error = EINVAL;
    if (error != 0)
        return error;
    parent = nodes_get(job->session, in->parent);
    if (parent == NULL)
        return FWD_FORGOTTEN;
    error = names_make_in(parent, in);
    if (error == EEXIST && in->again != 0 && names_claim(parent, in))
        error = 0;
    if (error == 0)
        error = names_enter(job->session, parent, in->name, entry);
    if (error == 0)
        (void) path_status(parent->fd, "", &job->out.make.parent, NULL);
    nodes_put(job->session, parent);
    return error;
}

/* Make another name for a node. 0 or an errno. */
static int names_link_in(
    const struct node *node, const struct node *parent, const char *name)
{
    char path[PATH_PROC_SIZE];

    path_of(node->fd, path);
    return linkat(AT_FDCWD, path, parent->fd, name, AT_SYMLINK_FOLLOW) == 0
        ? 0
        : errno;
}

/* 0 or an errno. */
static int names_link_nodes(
    struct job *job, const struct node *node, const struct node *parent)
{
    const fwd_link_in_t *in = &job->in.link;
    fwd_entry_t *entry = &job->out.entry.entry;
    int error = names_link_in(node, parent, in->name);
    bool again = error == EEXIST && in->again != 0;

    if (error == 0 || again)
        error = names_enter(job->session, parent, in->name, entry);
    if (error == 0 && again && entry->node != node->number) {
        nodes_forget(job->session, entry->node, 1);
        error = EEXIST;
    }
    return error;
}

/* Run `act` with two nodes. */
static int32_t names_act_on_two(struct job *job, uint64_t first_number,
    uint64_t second_number,
    int (*act)(
        struct job *job, const struct node *first, const struct node *second))
{
    struct node *first = nodes_get(job->session, first_number);
    struct node *second = nodes_get(job->session, second_number);
    int error = FWD_FORGOTTEN;

    if (first != NULL && second != NULL)
        error = act(job, first, second);
    if (second != NULL)
        nodes_put(job->session, second);
    if (first != NULL)
        nodes_put(job->session, first);
    return error;
}

int32_t names_link(struct job *job)
{
    const fwd_link_in_t *in = &job->in.link;
    int error = -path_check(in->name);

    return error != 0
        ? error
        : names_act_on_two(job, in->node, in->parent, names_link_nodes);
}

/* ---- remove and rename ---- */

int32_t names_remove(struct job *job)
{
    const fwd_remove_in_t *in = &job->in.remove;
    struct node *parent;
    int error = -path_check(in->name);

    if (error != 0)
        return error;
    parent = nodes_get(job->session, in->parent);
    if (parent == NULL)
        return FWD_FORGOTTEN;
    if (unlinkat(parent->fd, in->name, in->directory ? AT_REMOVEDIR : 0) != 0)
        error = errno;
    if (error == ENOENT && in->again != 0)
        error = 0;
    if (error == 0)
        (void) path_status(parent->fd, "", &job->out.remove.parent, NULL);
    nodes_put(job->session, parent);
    return error;
}

/* 0 or an errno. */
static int names_rename_nodes(
    struct job *job, const struct node *parent, const struct node *new_parent)
{
    const fwd_rename_in_t *in = &job->in.rename;
    struct stat status;
    int error;

    /* Nothing tells whether the first call has done it: both names exist. */
    if (in->again != 0 &&
        (in->flags & (RENAME_EXCHANGE | RENAME_WHITEOUT)) != 0)
        return EIO;
    if (renameat2(
            parent->fd, in->name, new_parent->fd, in->new_name, in->flags) == 0)
        return 0;
    error = errno;
    if (error == ENOENT && in->again != 0 &&
        fstatat(new_parent->fd, in->new_name, &status, AT_SYMLINK_NOFOLLOW) ==
            0)
        return 0;
    return error;
}

int32_t names_rename(struct job *job)
{
    const fwd_rename_in_t *in = &job->in.rename;
    int error = -path_check(in->name);

    if (error == 0)
        error = -path_check(in->new_name);
    if (error == 0 && (in->flags & ~NAMES_RENAME_FLAGS) != 0)
        error = EINVAL;
    return error != 0
        ? error
        : names_act_on_two(job, in->parent, in->new_parent, names_rename_nodes);
}

/* ---- readlink ---- */

int32_t names_readlink(struct job *job)
{
    fwd_data_t *target = &job->out.data.data;
    struct node *node = nodes_get(job->session, job->in.node.node);
    ssize_t size;
    int error = 0;

    if (node == NULL)
        return FWD_FORGOTTEN;
    target->bytes = workers_buffer();
    size =
        readlinkat(node->fd, "", (char *) target->bytes, WORKERS_BUFFER_SIZE);
    if (size >= 0)
        target->size = (uint32_t) size;
    else /* the kernel says ENOENT of a node that is no link */
        error = errno == ENOENT ? EINVAL : errno;
    nodes_put(job->session, node);
    return error;
}
