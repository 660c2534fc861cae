/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server_calls: the list of all calls. It decodes the input of a call, finds
 * the session, runs the function of the call, and responds with what that left
 * in the output.
 */
#ifndef HG_EXAMPLES_SERVER_CALLS_H
#define HG_EXAMPLES_SERVER_CALLS_H

#include <stdatomic.h>

#include "server.h"

struct file;
struct session;

/* A call that is executed. */
struct job {
    hg_handle_t handle;
    struct session *session;         /* NULL for fwd.begin */
    struct file *file;               /* that it uses; NULL: none */
    struct job *next;                /* while it waits in its session */
    int32_t (*run)(struct job *job); /* may run later: see server_long */
    atomic_bool *slow;               /* of its kind; NULL: it takes long */
    bool bulk;                       /* it moves bulk data */
    union {
        uint64_t session; /* the first member of all but begin */
        fwd_begin_in_t begin;
        fwd_node_in_t node;
        fwd_file_in_t file;
        fwd_name_in_t name;
        fwd_find_in_t find;
        fwd_forget_in_t forget;
        fwd_make_in_t make;
        fwd_link_in_t link;
        fwd_remove_in_t remove;
        fwd_rename_in_t rename;
        fwd_getattr_in_t getattr;
        fwd_setattr_in_t setattr;
        fwd_getxattr_in_t getxattr;
        fwd_setxattr_in_t setxattr;
        fwd_removexattr_in_t removexattr;
        fwd_open_in_t open;
        fwd_create_in_t create;
        fwd_read_in_t read;
        fwd_write_in_t write;
        fwd_fsync_in_t fsync;
        fwd_readdir_in_t readdir;
        fwd_fallocate_in_t fallocate;
        fwd_copy_in_t copy;
        fwd_seek_in_t seek;
        fwd_lock_in_t lock;
    } in;
    union {
        int32_t error; /* the first member of all */
        fwd_attr_out_t attr;
        fwd_entry_out_t entry;
        fwd_data_out_t data;
        fwd_offset_out_t offset;
        fwd_begin_out_t begin;
        fwd_getxattr_out_t getxattr;
        fwd_statfs_out_t statfs;
        fwd_open_out_t open;
        fwd_create_out_t create;
        fwd_make_out_t make;
        fwd_remove_out_t remove;
        fwd_read_out_t read;
        fwd_write_out_t write;
        fwd_readdir_out_t readdir;
        fwd_lock_out_t lock;
    } out;
};

/* A result of a call that responds later: the function has taken the job's
 * content, and ends it with calls_finish. */
#define CALLS_LATER (-1)

/* Register all calls. */
hg_return_t calls_register(void);

/* Respond with `error` and the output, and free the input and the handle. */
void calls_finish(struct job *job, int32_t error);

#endif
