/* SPDX-License-Identifier: BSD-3-Clause */
/* client_ops_lock: requests about locks of fcntl(2) and flock(2). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "client_lock.h"
#include "client_mount.h"
#include "client_ops.h"

#define LOCK_PAUSE_MAX 100u /* ms between attempts */
#define LOCK_PAUSE_CLOSE 8u /* the last pause of an attempt without waiting */

/* ---- Try and wait ---- */

/* The server never waits for a lock, so the client tries again, with pauses
 * that grow. The kernel reports the end of a file only after close(2) has
 * returned, so a lock of flock(2) may be free a moment later. */
static bool lock_waits(struct slot *slot, int error)
{
    bool tries = slot->waits ||
        (slot->in.lock.op == FWD_LOCK_FLOCK && slot->pause < LOCK_PAUSE_CLOSE);

    if (error != EAGAIN || !tries)
        return false;
    slot->pause = slot->pause == 0         ? 1
        : slot->pause * 2 < LOCK_PAUSE_MAX ? slot->pause * 2
                                           : LOCK_PAUSE_MAX;
    slot_extend(slot);
    slot_retry(slot, slot->pause);
    return true;
}

/* A lock of a lost session is gone, so to remove it succeeds. */
static bool lock_failed(struct slot *slot, int error)
{
    if (lock_waits(slot, error))
        return true;
    if (slot->in.lock.type == F_UNLCK && slot->files[0]->broken)
        error = 0;
    ops_reply_error(slot, error);
    return false;
}

static void lock_done(struct slot *slot, union slot_out *out)
{
    struct file *file = slot->files[0];
    const fwd_lock_in_t *in = &slot->in.lock;

    if (in->op == FWD_LOCK_FLOCK) {
        lock_flocked(file, in->type != F_UNLCK);
    } else {
        if (in->type != F_UNLCK)
            (void) lock_owner_begins(file, in->owner, slot->pid);
        lock_changed(
            file->node, in->owner, in->start, in->end, (short) in->type);
    }
    if (in->type != F_UNLCK)
        mount_attr_changed(file->node);
    ops_done(slot, out);
}

static struct op set_op = {
    {"fwd.lock", hg_proc_fwd_lock_in_t, hg_proc_fwd_lock_out_t, 0}, NULL,
    lock_done, lock_failed, OP_OF_SESSION, 0};

static struct slot *lock_begin(fuse_req_t req, const struct op *op,
    const struct fuse_file_info *fi, uint32_t call)
{
    struct slot *slot = slot_begin(req, op, NULL, file_of(fi));

    if (slot == NULL)
        return NULL;
    slot->in.lock.owner = fi->lock_owner;
    slot->in.lock.op = call;
    slot->in.lock.end = LOCK_END_MAX;
    return slot;
}

static void lock_set_range(fwd_lock_in_t *in, const struct flock *lock)
{
    in->start = (uint64_t) lock->l_start;
    if (lock->l_len != 0)
        in->end = in->start + (uint64_t) lock->l_len - 1;
    in->type = (uint32_t) lock->l_type;
}

static void lock_setlk(fuse_req_t req, fuse_ino_t ino,
    struct fuse_file_info *fi, struct flock *lock, int waits)
{
    struct slot *slot = lock_begin(req, &set_op, fi, FWD_LOCK_SET);

    (void) ino;
    if (slot == NULL)
        return;
    lock_set_range(&slot->in.lock, lock);
    slot->waits = waits != 0;
    slot->after_unlocks = true;
    slot->pid = lock->l_pid;
    if (lock->l_type != F_UNLCK &&
        !lock_owner_begins(file_of(fi), fi->lock_owner, lock->l_pid)) {
        slot_fail(slot, ENOLCK);
        return;
    }
    slot_run(slot);
}

static void lock_flock(
    fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op)
{
    struct slot *slot = lock_begin(req, &set_op, fi, FWD_LOCK_FLOCK);

    (void) ino;
    if (slot == NULL)
        return;
    slot->in.lock.type = (uint32_t) ((op & LOCK_EX) != 0 ? F_WRLCK
            : (op & LOCK_SH) != 0                        ? F_RDLCK
                                                         : F_UNLCK);
    slot->waits = (op & LOCK_NB) == 0;
    slot_run(slot);
}

/* ---- Test ---- */

static void test_done(struct slot *slot, union slot_out *out)
{
    const fwd_lock_out_t *in = &out->lock;
    struct flock lock = {0};

    lock.l_type = (short) in->type;
    lock.l_whence = SEEK_SET;
    if (in->type != F_UNLCK) {
        lock.l_start = (off_t) in->start;
        lock.l_len =
            in->end >= LOCK_END_MAX ? 0 : (off_t) (in->end - in->start + 1);
        lock.l_pid = lock_holder(
            slot->files[0]->node, slot->in.lock.owner, in->start, in->end);
    }
    (void) fuse_reply_lock(slot->req, &lock);
}

static struct op test_op = {
    {"fwd.lock", hg_proc_fwd_lock_in_t, hg_proc_fwd_lock_out_t, 0}, NULL,
    test_done, NULL, OP_READS, 0};

static void lock_getlk(fuse_req_t req, fuse_ino_t ino,
    struct fuse_file_info *fi, struct flock *lock)
{
    struct slot *slot = lock_begin(req, &test_op, fi, FWD_LOCK_TEST);

    (void) ino;
    if (slot == NULL)
        return;
    lock_set_range(&slot->in.lock, lock);
    slot_run(slot);
}

bool ops_lock_init(struct fuse_lowlevel_ops *table)
{
    static struct op *const ops[] = {&set_op, &test_op};

    table->setlk = lock_setlk;
    table->getlk = lock_getlk;
    table->flock = lock_flock;
    return ops_register(ops, sizeof(ops) / sizeof(ops[0]));
}
