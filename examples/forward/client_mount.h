/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client_mount: the session with the kernel, and the loop that serves it.
 */
#ifndef HG_EXAMPLES_CLIENT_MOUNT_H
#define HG_EXAMPLES_CLIENT_MOUNT_H

#include "client_node.h"

struct mount_options {
    double attr_timeout; /* seconds */
    double entry_timeout;
    double negative_timeout;
    int direct_io;
    int kernel_cache;
    int auto_cache;
    int writeback;
};
extern struct mount_options mount_options;

/* Mount. `args` are options for libfuse. Returns false if it failed; libfuse
 * has printed the cause. */
bool mount_begin(struct fuse_args *args, const char *mountpoint);

/* Serve the kernel until the mount ends or a signal of `signals` comes. Returns
 * false if the loop itself failed. */
bool mount_serve(int signals);
void mount_end(void);

/* Log lines go to stderr, or to the system's log. */
void mount_log_to_system(void);
void mount_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Tell the kernel that the attributes of a node have changed. */
void mount_attr_changed(struct node *node);

#endif
