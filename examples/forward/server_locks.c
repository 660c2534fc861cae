/* SPDX-License-Identifier: BSD-3-Clause */
/* server_locks: see server_locks.h. */
#define _GNU_SOURCE 1
#include "server_locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "server_files.h"
#include "server_path.h"
#include "server_sessions.h"

/* A process, or an open file, of the client that has locked the node. */
struct lock_owner {
    uint64_t owner;
    const struct file *file; /* with which it locked last */
    int fd;
    struct lock_owner *next;
};

/* ---- Owners. session->locking is held. ---- */

static struct lock_owner **locks_find(struct node *node, uint64_t owner)
{
    struct lock_owner **link = &node->locks;

    while (*link != NULL && (*link)->owner != owner)
        link = &(*link)->next;
    return link;
}

/* Remove an owner; closing its descriptor releases its locks. */
static void locks_remove(struct session *session, struct lock_owner **link)
{
    struct lock_owner *owner = *link;

    *link = owner->next;
    (void) close(owner->fd);
    free(owner);
    sessions_give(session);
}

/* A lock to write needs a descriptor to write. If the client has one, the mode
 * may forbid another one. */
static int locks_open(const struct file *file)
{
    bool writes = (fcntl(file->fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
    int fd = server.read_only ? -EROFS
        : writes              ? path_reopen_own(file->node->fd, O_RDWR)
                              : path_reopen(file->node->fd, O_RDWR);

    return fd >= 0 ? fd : path_reopen(file->node->fd, O_RDONLY);
}

/* Add an owner. 0 or an errno. */
static int locks_add(struct session *session, struct lock_owner **link,
    const struct file *file, uint64_t number)
{
    struct lock_owner *owner;
    int error = ENOLCK;

    if (!sessions_take(session))
        return ENOLCK;
    owner = (struct lock_owner *) malloc(sizeof(*owner));
    if (owner == NULL)
        goto give;
    owner->owner = number;
    owner->next = NULL;
    owner->fd = locks_open(file);
    if (owner->fd < 0) {
        error = -owner->fd;
        free(owner);
        goto give;
    }
    *link = owner;
    return 0;

give:
    sessions_give(session);
    return error;
}

/* ---- Locks of fcntl. session->locking is held. ---- */

static int locks_describe(const fwd_lock_in_t *in, struct flock *lock)
{
    memset(lock, 0, sizeof(*lock));
    if (in->start > INT64_MAX || in->end < in->start ||
        (in->type != F_RDLCK && in->type != F_WRLCK && in->type != F_UNLCK))
        return EINVAL;
    lock->l_type = (short) in->type;
    lock->l_whence = SEEK_SET;
    lock->l_start = (off_t) in->start;
    if (in->end < INT64_MAX) /* else up to the end, however long the file */
        lock->l_len = (off_t) (in->end - in->start + 1);
    return 0;
}

static int locks_test(struct job *job, struct file *file)
{
    struct lock_owner **link = locks_find(file->node, job->in.lock.owner);
    struct flock lock;
    int error = locks_describe(&job->in.lock, &lock);

    if (error != 0)
        return error;
    if (fcntl(*link != NULL ? (*link)->fd : file->fd, F_OFD_GETLK, &lock) != 0)
        return errno;
    job->out.lock.type = (uint32_t) lock.l_type;
    if (lock.l_type == F_UNLCK)
        return 0;
    job->out.lock.start = (uint64_t) lock.l_start;
    job->out.lock.end = lock.l_len == 0
        ? (uint64_t) INT64_MAX
        : (uint64_t) (lock.l_start + lock.l_len - 1);
    return 0;
}

static int locks_set(struct job *job, struct file *file)
{
    const fwd_lock_in_t *in = &job->in.lock;
    struct lock_owner **link = locks_find(file->node, in->owner);
    struct flock lock;
    int error = locks_describe(in, &lock);

    if (error != 0 || (*link == NULL && in->type == F_UNLCK))
        return error;
    if (*link == NULL)
        error = locks_add(job->session, link, file, in->owner);
    if (error != 0)
        return error;
    (*link)->file = file;
    return fcntl((*link)->fd, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

static int locks_release(struct job *job, struct file *file)
{
    struct lock_owner **link = locks_find(file->node, job->in.lock.owner);

    if (*link != NULL)
        locks_remove(job->session, link);
    return 0;
}

/* ---- flock ---- */

static int locks_flock(const struct file *file, uint32_t type)
{
    int op;

    switch (type) {
    case F_RDLCK: op = LOCK_SH; break;
    case F_WRLCK: op = LOCK_EX; break;
    case F_UNLCK: op = LOCK_UN; break;
    default: return EINVAL;
    }
    return flock(file->fd, op | LOCK_NB) == 0 ? 0 : errno;
}

/* ---- The call ---- */

static int locks_run(struct job *job, struct file *file)
{
    switch (job->in.lock.op) {
    case FWD_LOCK_TEST: return locks_test(job, file);
    case FWD_LOCK_SET: return locks_set(job, file);
    case FWD_LOCK_FLOCK: return locks_flock(file, job->in.lock.type);
    case FWD_LOCK_RELEASE: return locks_release(job, file);
    default: return EINVAL;
    }
}

int32_t locks_lock(struct job *job)
{
    struct session *session = job->session;
    struct file *file = files_get(session, job->in.lock.file);
    int error;

    if (file == NULL)
        return FWD_FORGOTTEN;
    (void) pthread_mutex_lock(&session->locking);
    error = locks_run(job, file);
    (void) pthread_mutex_unlock(&session->locking);
    files_put(session, file);
    return error;
}

void locks_end_file(struct session *session, const struct file *file)
{
    struct lock_owner **link = &file->node->locks;

    (void) pthread_mutex_lock(&session->locking);
    while (*link != NULL)
        if ((*link)->file == file)
            locks_remove(session, link);
        else
            link = &(*link)->next;
    (void) pthread_mutex_unlock(&session->locking);
}
