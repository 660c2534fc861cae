/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client_ops: the functions that libfuse calls for each request of the kernel.
 */
#ifndef HG_EXAMPLES_CLIENT_OPS_H
#define HG_EXAMPLES_CLIENT_OPS_H

#include "client_slot.h"

/* Each adds its functions to the table, and its calls. */
bool ops_names_init(struct fuse_lowlevel_ops *table);
bool ops_attr_init(struct fuse_lowlevel_ops *table);
bool ops_files_init(struct fuse_lowlevel_ops *table);
bool ops_data_init(struct fuse_lowlevel_ops *table);
bool ops_dir_init(struct fuse_lowlevel_ops *table);
bool ops_lock_init(struct fuse_lowlevel_ops *table);

/* Register the calls of an array of `count` kinds of requests. */
bool ops_register(struct op *const ops[], size_t count);

/* Respond to the kernel with an error. */
void ops_reply_error(struct slot *slot, int error);

/* Describe an entry for the kernel, which gets it under this name. Returns the
 * node, or NULL without memory. */
struct node *ops_entry(const fwd_entry_t *entry, struct node *parent,
    const char *name, struct fuse_entry_param *param);

/* Drop the entries of an open directory that the kernel has not taken. */
void dir_end_listing(struct file *file);

/* Respond with success alone. */
void ops_done(struct slot *slot, union slot_out *out);

#endif
