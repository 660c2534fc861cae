/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client_mount: the session with the kernel, and the loop that serves it.
 */
#ifndef HG_EXAMPLES_CLIENT_MOUNT_H
#define HG_EXAMPLES_CLIENT_MOUNT_H

#include "client_node.h"

struct mount_options {
    char *timeout_text;
    unsigned timeout;    /* without the server; seconds */
    double attr_timeout; /* seconds */
    double entry_timeout;
    double negative_timeout;
    int direct_io;
    int kernel_cache;
    int auto_cache;
    int writeback;
    unsigned max_read; /* 0: no limit */
    int uid, gid;      /* of all files; -1: as the server says */
};
extern struct mount_options mount_options;

/* Read the options for libfuse in `args`. mount_begin: mount, and agree with
 * the kernel. Both return false if they fail; libfuse has printed the cause. */
bool mount_prepare(struct fuse_args *args);
bool mount_begin(const char *mountpoint);

/* Serve the kernel until the mount ends or a signal of `signals` comes. Returns
 * false if the loop itself failed. */
bool mount_serve(int signals);
void mount_end(void);

/* Free what mount_prepare has made. */
void mount_free(void);

/* Log lines go to stderr, or to the system's log. */
void mount_log_to_system(void);
void mount_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Tell the kernel that the attributes of a node have changed. */
void mount_attr_changed(struct node *node);

/* A program has written to the file or truncated it, which may have cleared the
 * bits set-user-ID and set-group-ID. The kernel asks for them again. */
void mount_data_changed(struct node *node);

#endif
