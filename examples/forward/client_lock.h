/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client_lock: what is known here about the locks that programs hold.
 *
 * The server decides about locks. The client knows its own POSIX locks, for
 * three purposes: a close releases the locks of its process, F_GETLK tells the
 * process that holds a lock, and a file whose locks were lost fails.
 */
#ifndef HG_EXAMPLES_CLIENT_LOCK_H
#define HG_EXAMPLES_CLIENT_LOCK_H

#include <sys/types.h>

#include "client_file.h"

#define LOCK_END_MAX (UINT64_MAX / 2) /* the last byte of all files */

/* A lock of a range. */
struct range {
    struct range *next;
    uint64_t start;
    uint64_t end; /* the last byte */
};

/* A process, or an open file, that uses locks of fcntl(2) of a node. */
struct owner {
    struct owner *next;
    uint64_t number; /* of the kernel */
    pid_t pid;
    struct file *file; /* with which it locked last */
    struct range *ranges;
};

/* Note that a process is about to lock. Returns false without memory. */
bool lock_owner_begins(struct file *file, uint64_t number, pid_t pid);

/* Whether an owner locked with this file last. When a file ends, that is mostly
 * the open file itself (F_OFD_SETLK): processes have closed it before. */
bool lock_file_owns(const struct file *file);

/* Whether a process has used locks of the node. */
bool lock_owner_known(const struct node *node, uint64_t number);

/* Note that the server has set or removed (F_UNLCK) a lock of an owner. */
void lock_changed(struct node *node, uint64_t number, uint64_t start,
    uint64_t end, short type);

/* The process of another owner with a lock in this range; 0: none here. */
pid_t lock_holder(
    const struct node *node, uint64_t number, uint64_t start, uint64_t end);

/* The process has closed a file: forget its locks of the node. */
void lock_owner_ends(struct node *node, uint64_t number);

/* A file ends: forget the owners that locked with it. */
void lock_file_ends(struct file *file);

/* The session is lost, and all locks with it: files with locks fail from now
 * on. */
void lock_all_lost(void);

/* Keep account of the files that flock(2) has locked. */
void lock_flocked(struct file *file, bool locked);

#endif
