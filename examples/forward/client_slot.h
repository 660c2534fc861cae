/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client_slot: requests of the kernel in flight.
 *
 * A slot carries a request from the kernel to the server and back. Its inputs
 * stay in the slot, so that the call can be repeated: after the loss of a
 * session, or after its nodes and files were found again in a new session. It
 * ends with EIO when its time is over.
 *
 * A buffer is memory in which a request arrives from the kernel. A slot keeps
 * the buffer while it needs the names and data in it. The server pulls the data
 * of a write from there by bulk. It pushes the data of a read into another
 * buffer.
 */
#ifndef HG_EXAMPLES_CLIENT_SLOT_H
#define HG_EXAMPLES_CLIENT_SLOT_H

#include <sys/queue.h>

#include "client_file.h"
#include "client_remote.h"

#define SLOT_BUFFER_SIZE (FWD_IO_MAX + 4096u) /* of a request */

struct pool;

struct buffer {
    struct buffer *next;
    struct pool *pool;
    hg_bulk_t bulk;
    void *memory;
};

/* The inputs of all calls. All but fwd.forget begin with these members: the
 * session, the node or file, and a second one for some. */
union slot_in {
    struct {
        uint64_t session;
        uint64_t first;
        uint64_t second;
    } common;
    fwd_find_in_t find;
    fwd_name_in_t name;
    fwd_make_in_t make;
    fwd_link_in_t link;
    fwd_remove_in_t remove;
    fwd_rename_in_t rename;
    fwd_node_in_t node;
    fwd_getattr_in_t getattr;
    fwd_setattr_in_t setattr;
    fwd_getxattr_in_t getxattr;
    fwd_setxattr_in_t setxattr;
    fwd_removexattr_in_t removexattr;
    fwd_open_in_t open;
    fwd_create_in_t create;
    fwd_file_in_t file;
    fwd_read_in_t read;
    fwd_write_in_t write;
    fwd_fsync_in_t fsync;
    fwd_readdir_in_t readdir;
    fwd_fallocate_in_t fallocate;
    fwd_copy_in_t copy;
    fwd_seek_in_t seek;
    fwd_lock_in_t lock;
};

/* The outputs of all calls. */
union slot_out {
    int32_t error;
    fwd_attr_out_t attr;
    fwd_entry_out_t entry;
    fwd_data_out_t data;
    fwd_offset_out_t offset;
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
};

struct slot;

enum {
    OP_READS = 1,     /* to end it without its result loses nothing */
    OP_OF_SESSION = 2 /* its result holds only in its session: has numbers of
                       * nodes or files, or is a lock */
};

/* A kind of request. */
struct op {
    struct remote_call call;
    /* Set inputs that depend on the session and are not in `common`; NULL if
     * there are none. */
    void (*prepare)(struct slot *slot);
    /* Respond to the kernel. */
    void (*done)(struct slot *slot, union slot_out *out);
    /* Respond to the kernel after a failure; NULL: fuse_reply_err. Returns
     * true if the slot goes on: it was given to slot_retry. */
    bool (*failed)(struct slot *slot, int error);
    unsigned flags; /* OP_... */
    size_t again;   /* offset of the member `again` of the input; 0: none */
};

struct slot {
    TAILQ_ENTRY(slot) queue; /* of those that wait, or of calls in flight */
    struct slot *next_free;
    const struct op *op;
    fuse_req_t req; /* NULL: the kernel waits for no response */
    struct buffer *buffer;
    bool receives;         /* the data of a read: it needs a buffer */
    bool shares;           /* the server may access the buffer */
    struct node *nodes[2]; /* referenced; the call needs their numbers */
    struct file *files[2]; /* with a file it needs no number of a node */
    union slot_in in;
    struct fuse_file_info fi; /* of an open or create */
    size_t size;              /* that the kernel has for entries */
    pid_t pid;                /* of a lock */
    bool waits;               /* for a lock */
    bool after_unlocks;       /* it waits until node->unlocking is 0 */
    struct node *unlocks; /* of a release: its `unlocking` counts the slot */
    uint64_t only_epoch;  /* not 0: end the slot in another session */

    /* The call in flight. */
    hg_handle_t handle;
    uint64_t epoch;       /* of its session */
    uint64_t used[2];     /* the numbers of nodes that it was sent with */
    struct node *finding; /* not NULL: the call finds this node; referenced */
    struct file *opening; /* not NULL: it is fwd.open for this file */

    uint64_t deadline;
    uint64_t retry_at;  /* while it waits */
    unsigned pause;     /* of a lock */
    bool lost;          /* the server did not know the session of the call */
    bool again;         /* the call may have been executed before */
    bool interrupted;   /* by a signal of the program */
    bool canceled;      /* for that reason */
    bool interruptible; /* the kernel can tell so */
    bool output_taken;  /* `done` keeps the decoded output and the handle */
};

/* Register the functions that slots call by themselves. `timeout` in ms. */
bool slot_init(unsigned timeout);

/* End all slots, and free all memory. */
void slot_fini(void);

/* Begin a request that has arrived in the current buffer. Each node and file
 * may be NULL. Returns NULL without memory: the kernel got ENOMEM. */
struct slot *slot_begin(
    fuse_req_t req, const struct op *op, struct node *node, struct file *file);

/* Set nodes[i], which may be NULL. */
void slot_set_node(struct slot *slot, unsigned i, struct node *node);

/* Keep the current buffer until the end of the slot. */
void slot_keep_buffer(struct slot *slot);

/* The server may access the buffer. Returns the handle for it. */
hg_bulk_t slot_share_buffer(struct slot *slot);

/* Send the call, once all its nodes and files are known in this session. */
void slot_run(struct slot *slot);

/* Send the call after `pause` ms. */
void slot_retry(struct slot *slot, unsigned pause);

/* Begin to count the time of a slot again. */
void slot_extend(struct slot *slot);

/* End a slot with an error, before it runs or after its call has ended. */
void slot_fail(struct slot *slot, int error);

/* Run slots whose time has come. Returns the milliseconds until the next call
 * of this function, or -1. */
int slot_tick(void);

/* The buffer for the next request; NULL: too many are in use. */
struct buffer *slot_current_buffer(void);

#endif
