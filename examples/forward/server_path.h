/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server_path: names that clients send, and the descriptors of nodes.
 *
 * Functions return 0, a descriptor, or a negative errno, like the kernel.
 */
#ifndef HG_EXAMPLES_SERVER_PATH_H
#define HG_EXAMPLES_SERVER_PATH_H

#include "server.h"

#define PATH_PROC_SIZE 32 /* "/proc/self/fd/N" */

/* 0 if `name` is one component that a directory can hold. */
int path_check(const char *name);

/* Open the node at `path` below the directory `dir`, without following links.
 * `path` is a checked name, or several of them. */
int path_open(int dir, const char *path, uint64_t flags, uint32_t mode);

/* Check that path_open can open the folder that is served, and choose how: by
 * openat2, or name by name. Linux before 5.6 does not have openat2, and filters
 * of containers refuse it. Call before threads start. */
int path_check_root(int root);

/* Open the file behind a descriptor again, with other flags. */
int path_reopen(int fd, int flags);

/* Like path_reopen, but also if the mode forbids it. The file must belong to
 * the user of this process. Its mode changes for a moment. */
int path_reopen_own(int fd, int flags);

/* Change the mode, of anything but a symbolic link. */
int path_set_mode(int fd, uint32_t mode);

/* A path that leads to the file behind a descriptor. */
void path_of(int fd, char path[PATH_PROC_SIZE]);

/* Read the attributes of a descriptor, if `name` is "", or of a name in the
 * directory `fd`. `id` may be NULL. */
int path_status(int fd, const char *name, fwd_attr_t *attr, fwd_id_t *id);

/* Mark a node that was just made: the nanoseconds of its access time tell which
 * call has made it. It is that of the descriptor, if `name` is NULL, or of a
 * name in the directory `fd`. */
void path_set_mark(int fd, const char *name, uint32_t mark);

#endif
