/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client_file: the files and directories that programs have open.
 */
#ifndef HG_EXAMPLES_CLIENT_FILE_H
#define HG_EXAMPLES_CLIENT_FILE_H

#include <sys/queue.h>

#include "client_node.h"

struct listing; /* client_ops_dir.c */

struct file {
    LIST_ENTRY(file) all;
    struct node *node; /* referenced */
    uint64_t epoch;    /* of the session in which `remote` counts */
    uint64_t remote;   /* its number at the server */
    uint32_t flags;    /* of open(2), to open it again */
    bool flocked;      /* by flock(2) */
    bool flush;        /* to close it may report errors: fwd.flush */
    bool opening;      /* a slot opens it again */
    bool broken;       /* its locks were lost: EIO until it is closed */
    struct file *next_flocked;
    struct listing *listing; /* entries that the kernel has not taken yet */
};

/* Returns NULL without memory. */
struct file *file_make(struct node *node, uint32_t flags);
void file_free(struct file *file);

/* Free all files at the end. `end_listing` frees the listing of one. */
void file_free_all(void (*end_listing)(struct file *file));

static inline struct file *file_of(const struct fuse_file_info *fi)
{
    return (struct file *) (uintptr_t) fi->fh;
}

#endif
