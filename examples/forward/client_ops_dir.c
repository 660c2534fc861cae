/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client_ops_dir: requests that read directories.
 *
 * A response of the server has more entries than the kernel takes at a time.
 * The rest stays in a listing of the open directory for the next request.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client_mount.h"
#include "client_ops.h"

#define DIR_BUFFER_SIZE ((size_t) 65536) /* of one response to the kernel */

struct listing {
    hg_handle_t handle; /* owns the memory of `out` */
    fwd_readdir_out_t out;
    bool plus;      /* entries have attributes */
    uint64_t epoch; /* of the session in which they count */
    uint64_t from;  /* the cookie that the kernel goes on with */
    uint64_t until; /* when the attributes are too old */
    uint32_t next;  /* entry for the kernel */
};

/* The server has counted a lookup that the kernel does not get. */
static void dir_give_back(const struct listing *listing, const fwd_name_t *name)
{
    if (listing->epoch == remote_epoch())
        remote_forget(name->entry.node, name->entry.node != 0);
}

void dir_end_listing(struct file *file)
{
    struct listing *listing = file->listing;
    uint32_t i;

    if (listing == NULL)
        return;
    for (i = listing->next; i < listing->out.names.count; i++)
        dir_give_back(listing, &listing->out.names.names[i]);
    (void) HG_Free_output(listing->handle, &listing->out);
    (void) HG_Destroy(listing->handle);
    free(listing);
    file->listing = NULL;
}

static bool dir_listing_fits(
    const struct listing *listing, uint64_t from, bool plus)
{
    return listing != NULL && listing->from == from &&
        (listing->plus || !plus) && listing->epoch == remote_epoch() &&
        remote_now() < listing->until &&
        listing->next < listing->out.names.count;
}

/* ---- Responses to the kernel ---- */

static size_t dir_add_plain(
    fuse_req_t req, char *at, size_t left, const fwd_name_t *name)
{
    struct stat st = {0};

    st.st_ino = (ino_t) name->inode;
    st.st_mode = (mode_t) name->type << 12;
    return fuse_add_direntry(
        req, at, left, name->name, &st, (off_t) name->cookie);
}

/* An entry without a node, such as "..", is a plain one for the kernel. */
static size_t dir_add_plus(fuse_req_t req, char *at, size_t left,
    const fwd_name_t *name, struct node *parent)
{
    struct fuse_entry_param param = {0};
    struct node *node = NULL;

    if (fuse_add_direntry_plus(req, NULL, 0, name->name, NULL, 0) > left)
        return left + 1;
    if (name->entry.node != 0)
        node = ops_entry(&name->entry, parent, name->name, &param);
    if (node != NULL)
        node->lookups++;
    param.attr.st_ino = node != NULL ? param.attr.st_ino : (ino_t) name->inode;
    param.attr.st_mode =
        node != NULL ? param.attr.st_mode : (mode_t) name->type << 12;
    return fuse_add_direntry_plus(
        req, at, left, name->name, &param, (off_t) name->cookie);
}

/* The kernel did not take these entries. */
static void dir_undo(const struct listing *listing, uint32_t first)
{
    uint32_t i;

    for (i = first; i < listing->next; i++) {
        const fwd_name_t *name = &listing->out.names.names[i];

        if (name->entry.node != 0 && node_known(&name->entry.id) != NULL)
            node_forget(node_known(&name->entry.id), 1);
    }
}

static void dir_reply(fuse_req_t req, struct file *file, size_t size, bool plus)
{
    static char buffer[DIR_BUFFER_SIZE];
    struct listing *listing = file->listing;
    uint32_t first = listing->next;
    size_t used = 0, n;

    size = size < sizeof(buffer) ? size : sizeof(buffer);
    while (listing->next < listing->out.names.count) {
        const fwd_name_t *name = &listing->out.names.names[listing->next];

        n = plus
            ? dir_add_plus(req, buffer + used, size - used, name, file->node)
            : dir_add_plain(req, buffer + used, size - used, name);
        if (n > size - used)
            break;
        if (!plus)
            dir_give_back(listing, name);
        used += n;
        listing->from = name->cookie;
        listing->next++;
    }
    if (fuse_reply_buf(req, buffer, used) != 0 && plus)
        dir_undo(listing, first);
    if (listing->next == listing->out.names.count)
        dir_end_listing(file);
}

/* ---- Requests ---- */

static void readdir_done(struct slot *slot, union slot_out *out)
{
    struct file *file = slot->files[0];
    struct listing *listing = (struct listing *) malloc(sizeof(*listing));

    if (listing == NULL) {
        ops_reply_error(slot, ENOMEM);
        return;
    }
    dir_end_listing(file);
    listing->handle = slot->handle;
    listing->out = out->readdir;
    slot->handle = HG_HANDLE_NULL;
    slot->output_taken = true;
    listing->plus = slot->in.readdir.plus != 0;
    listing->epoch = slot->epoch;
    listing->from = slot->in.readdir.cookie;
    listing->until =
        remote_now() + (uint64_t) (mount_options.attr_timeout * 1000);
    listing->next = 0;
    file->listing = listing;
    dir_reply(slot->req, file, slot->size, listing->plus);
}

static struct op readdir_op = {
    {"fwd.readdir", hg_proc_fwd_readdir_in_t, hg_proc_fwd_readdir_out_t, 0},
    NULL, readdir_done, NULL, OP_READS | OP_OF_SESSION, 0};

static void dir_read(fuse_req_t req, size_t size, off_t offset,
    const struct fuse_file_info *fi, bool plus)
{
    struct file *file = file_of(fi);
    struct slot *slot;

    if (dir_listing_fits(file->listing, (uint64_t) offset, plus)) {
        dir_reply(req, file, size, plus);
        return;
    }
    slot = slot_begin(req, &readdir_op, NULL, file);
    if (slot == NULL)
        return;
    slot->size = size;
    slot->in.readdir.cookie = (uint64_t) offset;
    slot->in.readdir.count = FWD_ENTRIES_MAX;
    slot->in.readdir.plus = plus;
    slot_run(slot);
}

static void dir_readdir(fuse_req_t req, fuse_ino_t ino, size_t size,
    off_t offset, struct fuse_file_info *fi)
{
    (void) ino;
    dir_read(req, size, offset, fi, false);
}

static void dir_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size,
    off_t offset, struct fuse_file_info *fi)
{
    (void) ino;
    dir_read(req, size, offset, fi, true);
}

bool ops_dir_init(struct fuse_lowlevel_ops *table)
{
    static struct op *const ops[] = {&readdir_op};

    table->readdir = dir_readdir;
    table->readdirplus = dir_readdirplus;
    return ops_register(ops, sizeof(ops) / sizeof(ops[0]));
}
