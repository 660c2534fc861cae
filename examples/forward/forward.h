/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forward: the calls between hg_forward, which mounts a folder of another node,
 * and hg_forwardd, which serves it. Included by both.
 *
 * Sessions. fwd.begin opens a session, whose number is an input of all other
 * calls. The server keeps a table of nodes and one of open files for each
 * session. fwd.watch has no response while both sides work: the client learns
 * from its end that the server is gone or stops, and the server learns from its
 * cancellation that the client is gone. Then the session ends: its files are
 * closed, its locks are released.
 *
 * Nodes. A node is a file, directory or link that the client has looked up. Its
 * number counts in its session only. The server holds a descriptor of each, so
 * a node stays the same when it is renamed or removed. Two names of one file
 * have one node. Each fwd_entry_t in an output adds 1 to the lookups of its
 * node; fwd.forget subtracts; at 0 the node ends, as in the protocol of FUSE.
 *
 * Errors. `error` is 0, an errno of Linux, or FWD_FORGOTTEN. The return code of
 * the call is about the transport, as always.
 *
 * After a restart of the server no session exists. Each call gets FWD_FORGOTTEN
 * then. The client begins a new session, finds its nodes again by their paths
 * with fwd.find, and opens its files again. A node is the same one if its
 * device, inode and birth time are: fwd_id_t. The server may also end nodes
 * that were not used for long to save descriptors.
 *
 * Repeated calls. If a connection ends, the client cannot know whether a call
 * was executed. It sends the call again with `again` set. The server then takes
 * the state that the call would have left, such as EEXIST after fwd.make, for
 * its success. Nodes have a mark of the call that has made them, so that a call
 * does not take the node of another one for its own.
 */
#ifndef HG_EXAMPLES_FORWARD_H
#define HG_EXAMPLES_FORWARD_H

#include "hg.h"

#define FWD_VERSION 2
#define FWD_IO_MAX ((uint32_t) 1 << 20) /* bytes of a read or write */
#define FWD_INLINE_MAX 65536u /* bytes of data within a call or response */
#define FWD_NAME_MAX 255      /* bytes of a name */
#define FWD_PATH_MAX 4095     /* bytes of a path or the target of a link */
#define FWD_XATTR_MAX 65536u  /* bytes of an extended attribute, or a list */
#define FWD_ENTRIES_MAX 1024u /* entries of one fwd.readdir */
#define FWD_COPY_MAX ((uint64_t) 64 << 20) /* bytes of one fwd.copy */
#define FWD_MARK_MAX 999999999u            /* the largest mark of a new node */

/* The `offset` of fwd.write that appends to the file, as O_APPEND does. */
#define FWD_APPEND UINT64_MAX

/* The server does not know the session, node or file. Not an errno. */
#define FWD_FORGOTTEN 1000

/* ---- Types ---- */

/* Bytes within a message. When decoded, `bytes` points into memory that lives
 * as long as the other inputs or outputs of the call. */
typedef struct {
    uint32_t size;
    void *bytes;
} fwd_data_t;
hg_return_t hg_proc_fwd_data_t(hg_proc_t proc, void *data);

/* The identity of a node, which a restart of the server does not change. `born`
 * is the time of birth in nanoseconds, or 0 where the file system has none: it
 * tells a file from an earlier one with the same inode number. */
MERCURY_GEN_PROC(
    fwd_id_t, ((uint64_t) (device))((uint64_t) (inode))((uint64_t) (born)))

MERCURY_GEN_PROC(fwd_time_t, ((int64_t) (seconds))((int64_t) (nanoseconds)))

/* `unused` is padding: a struct without a hole travels as one piece. */
MERCURY_GEN_PROC(fwd_attr_t,
    ((uint64_t) (size))((uint64_t) (blocks))((uint64_t) (rdev))(
        (uint32_t) (mode))((uint32_t) (links))((uint32_t) (uid))(
        (uint32_t) (gid))((uint32_t) (block_size))((uint32_t) (unused))(
        (fwd_time_t) (atime))((fwd_time_t) (mtime))((fwd_time_t) (ctime)))

/* A node that a call has looked up or made. */
MERCURY_GEN_PROC(
    fwd_entry_t, ((uint64_t) (node))((fwd_id_t) (id))((fwd_attr_t) (attr)))

/* One name in a directory. The entry is valid, and counts as a lookup, if its
 * node is not 0. */
typedef struct {
    uint64_t cookie; /* where fwd.readdir continues after this entry */
    uint64_t inode;
    uint32_t type; /* DT_REG, ... */
    hg_const_string_t name;
    fwd_entry_t entry;
} fwd_name_t;
hg_return_t hg_proc_fwd_name_t(hg_proc_t proc, void *data);

typedef struct {
    uint32_t count; /* at most FWD_ENTRIES_MAX */
    fwd_name_t *names;
} fwd_names_t;
hg_return_t hg_proc_fwd_names_t(hg_proc_t proc, void *data);

/* Many outputs are an error alone. */
MERCURY_GEN_PROC(fwd_error_out_t, ((int32_t) (error)))
MERCURY_GEN_PROC(fwd_attr_out_t, ((int32_t) (error))((fwd_attr_t) (attr)))
MERCURY_GEN_PROC(fwd_entry_out_t, ((int32_t) (error))((fwd_entry_t) (entry)))
MERCURY_GEN_PROC(fwd_data_out_t, ((int32_t) (error))((fwd_data_t) (data)))
MERCURY_GEN_PROC(fwd_offset_out_t, ((int32_t) (error))((uint64_t) (offset)))

/* Inputs that several calls share. */
MERCURY_GEN_PROC(fwd_node_in_t, ((uint64_t) (session))((uint64_t) (node)))
MERCURY_GEN_PROC(fwd_file_in_t, ((uint64_t) (session))((uint64_t) (file)))
MERCURY_GEN_PROC(fwd_name_in_t,
    ((uint64_t) (session))((uint64_t) (parent))((hg_const_string_t) (name)))

/* ---- Sessions ---- */

/* fwd.begin: begin a session of this connection. */
MERCURY_GEN_PROC(fwd_begin_in_t, ((uint32_t) (version)))
MERCURY_GEN_PROC(fwd_begin_out_t,
    ((int32_t) (error))((uint64_t) (session))((fwd_entry_t) (root)))

/* fwd.watch: the response comes when the server stops. */
MERCURY_GEN_PROC(fwd_watch_in_t, ((uint64_t) (session)))
/* -> fwd_error_out_t */

/* ---- Names ----
 *
 * The output `parent` has the attributes of the folder afterwards: the kernel
 * of the client asks for them next. */

/* fwd.lookup: fwd_name_in_t -> fwd_entry_out_t */

/* fwd.find: look up a path of several names below the root; "" is the root.
 * Symbolic links in it are not followed. */
MERCURY_GEN_PROC(
    fwd_find_in_t, ((uint64_t) (session))((hg_const_string_t) (path)))
/* -> fwd_entry_out_t */

/* fwd.forget: `nodes` holds pairs of uint64_t, a node and its lookups. */
MERCURY_GEN_PROC(fwd_forget_in_t, ((uint64_t) (session))((fwd_data_t) (nodes)))
/* -> fwd_error_out_t */

/* fwd.make: a directory, link, fifo, socket, device or file, as `mode` says.
 * `target` is that of a symbolic link. The node belongs to uid and gid if the
 * server is root. `mark` as for fwd.create. */
MERCURY_GEN_PROC(fwd_make_in_t,
    ((uint64_t) (session))((uint64_t) (parent))((hg_const_string_t) (name))(
        (hg_const_string_t) (target))((uint64_t) (rdev))((uint32_t) (mode))(
        (uint32_t) (uid))((uint32_t) (gid))((uint32_t) (mark))(
        (uint32_t) (again)))
MERCURY_GEN_PROC(fwd_make_out_t,
    ((int32_t) (error))((fwd_entry_t) (entry))((fwd_attr_t) (parent)))

/* fwd.link: another name for a node. */
MERCURY_GEN_PROC(fwd_link_in_t,
    ((uint64_t) (session))((uint64_t) (node))((uint64_t) (parent))(
        (hg_const_string_t) (name))((uint32_t) (again)))
/* -> fwd_entry_out_t */

/* fwd.remove: a name; `directory`: as rmdir(2), else as unlink(2). */
MERCURY_GEN_PROC(fwd_remove_in_t,
    ((uint64_t) (session))((uint64_t) (parent))((hg_const_string_t) (name))(
        (uint32_t) (directory))((uint32_t) (again)))
MERCURY_GEN_PROC(fwd_remove_out_t, ((int32_t) (error))((fwd_attr_t) (parent)))

/* fwd.rename: `flags` of renameat2(2). */
MERCURY_GEN_PROC(fwd_rename_in_t,
    ((uint64_t) (session))((uint64_t) (parent))((uint64_t) (new_parent))(
        (hg_const_string_t) (name))((hg_const_string_t) (new_name))(
        (uint32_t) (flags))((uint32_t) (again)))
/* -> fwd_error_out_t */

/* fwd.readlink: fwd_node_in_t -> fwd_data_out_t */

/* ---- Attributes ---- */

/* fwd.getattr: of a node, or of an open file if `file` is not 0. */
MERCURY_GEN_PROC(fwd_getattr_in_t,
    ((uint64_t) (session))((uint64_t) (node))((uint64_t) (file)))
/* -> fwd_attr_out_t */

/* fwd.setattr: `valid` tells which members count. With FWD_SET_ATIME_NOW and
 * FWD_SET_MTIME_NOW the time is the server's. */
enum {
    FWD_SET_MODE = 1,
    FWD_SET_UID = 2,
    FWD_SET_GID = 4,
    FWD_SET_SIZE = 8,
    FWD_SET_ATIME = 16,
    FWD_SET_MTIME = 32,
    FWD_SET_ATIME_NOW = 64,
    FWD_SET_MTIME_NOW = 128
};
MERCURY_GEN_PROC(fwd_setattr_in_t,
    ((uint64_t) (session))((uint64_t) (node))((uint64_t) (file))(
        (uint64_t) (size))((uint32_t) (valid))((uint32_t) (mode))(
        (uint32_t) (uid))((uint32_t) (gid))((fwd_time_t) (atime))(
        (fwd_time_t) (mtime)))
/* -> fwd_attr_out_t */

/* fwd.getxattr: the value of `name`, or the list of names if it is "". `size`
 * is the caller's limit. 0 asks for the size alone, which is in the output. */
MERCURY_GEN_PROC(fwd_getxattr_in_t,
    ((uint64_t) (session))((uint64_t) (node))((hg_const_string_t) (name))(
        (uint32_t) (size)))
MERCURY_GEN_PROC(fwd_getxattr_out_t,
    ((int32_t) (error))((uint32_t) (size))((fwd_data_t) (data)))

/* fwd.setxattr: `flags` of setxattr(2). */
MERCURY_GEN_PROC(fwd_setxattr_in_t,
    ((uint64_t) (session))((uint64_t) (node))((hg_const_string_t) (name))(
        (fwd_data_t) (value))((uint32_t) (flags))((uint32_t) (again)))
/* -> fwd_error_out_t */

MERCURY_GEN_PROC(fwd_removexattr_in_t,
    ((uint64_t) (session))((uint64_t) (node))((hg_const_string_t) (name))(
        (uint32_t) (again)))
/* -> fwd_error_out_t */

/* fwd.statfs: fwd_node_in_t -> */
MERCURY_GEN_PROC(fwd_statfs_out_t,
    ((int32_t) (error))((uint32_t) (block_size))((uint32_t) (fragment_size))(
        (uint32_t) (name_max))((uint64_t) (blocks))((uint64_t) (blocks_free))(
        (uint64_t) (blocks_available))((uint64_t) (files))(
        (uint64_t) (files_free)))

/* ---- Open files ---- */

/* fwd.open: of a regular file or, with O_DIRECTORY in `flags`, a directory. If
 * `name` is not "", it must still be the name of the node in `parent`, else the
 * error is ESTALE: another client has replaced or removed the file. `reopens`:
 * the client had the file open in an earlier session. Its mode may forbid that
 * now, for example if it was made with the mode 0444. With `flush` in the
 * output, fwd.flush may report errors of writing. */
MERCURY_GEN_PROC(fwd_open_in_t,
    ((uint64_t) (session))((uint64_t) (node))((uint64_t) (parent))(
        (hg_const_string_t) (name))((uint32_t) (flags))((uint32_t) (reopens)))
MERCURY_GEN_PROC(fwd_open_out_t,
    ((int32_t) (error))((uint32_t) (flush))((uint64_t) (file))(
        (fwd_attr_t) (attr)))

/* fwd.create: make and open a regular file. If the name exists, the error is
 * EEXIST with O_EXCL in `flags`. Without O_EXCL the file is opened if its mode
 * allows that to the caller. If not, the error is ESTALE: the kernel of the
 * client then looks the name up and checks the caller's rights itself. `mark`
 * becomes the nanoseconds of the access time. So the server recognizes the file
 * that the same call made before, when the call comes again. */
MERCURY_GEN_PROC(fwd_create_in_t,
    ((uint64_t) (session))((uint64_t) (parent))((hg_const_string_t) (name))(
        (uint32_t) (flags))((uint32_t) (mode))((uint32_t) (uid))(
        (uint32_t) (gid))((uint32_t) (mark))((uint32_t) (again)))
MERCURY_GEN_PROC(fwd_create_out_t,
    ((int32_t) (error))((uint32_t) (flush))((uint64_t) (file))(
        (fwd_entry_t) (entry))((fwd_attr_t) (parent)))

/* fwd.flush: as close(2) of one of several descriptors of the file. Some file
 * systems, such as NFS, report only then what could not be written.
 * fwd_file_in_t -> fwd_error_out_t */

/* fwd.release: close a file or directory. fwd_file_in_t -> fwd_error_out_t */

/* fwd.read: into `memory` from `at` on, by bulk; or, if `memory` is
 * HG_BULK_NULL, into `data` of the output, at most FWD_INLINE_MAX bytes. Less
 * than `size` bytes are moved only at the end of the file; an error counts also
 * after some bytes. */
MERCURY_GEN_PROC(fwd_read_in_t,
    ((uint64_t) (session))((uint64_t) (file))((uint64_t) (offset))(
        (uint32_t) (size))((uint64_t) (at))((hg_bulk_t) (memory)))
MERCURY_GEN_PROC(
    fwd_read_out_t, ((int32_t) (error))((uint32_t) (size))((fwd_data_t) (data)))

/* fwd.write: `size` bytes of `memory` from `at` on; or, if `memory` is
 * HG_BULK_NULL, the bytes of `data`. With FWD_WRITE_CLEARS_IDS the file loses
 * the bits set-user-ID and set-group-ID, since an unprivileged user writes.
 * With FWD_WRITE_ALL an error counts also after some bytes: the kernel of the
 * client writes cached pages, and does not look how many bytes were written. */
enum { FWD_WRITE_CLEARS_IDS = 1, FWD_WRITE_ALL = 2 };
MERCURY_GEN_PROC(fwd_write_in_t,
    ((uint64_t) (session))((uint64_t) (file))((uint64_t) (offset))(
        (uint32_t) (size))((uint64_t) (at))((hg_bulk_t) (memory))(
        (fwd_data_t) (data))((uint32_t) (flags)))
MERCURY_GEN_PROC(fwd_write_out_t, ((int32_t) (error))((uint32_t) (size)))

/* fwd.fsync: of a file or directory; `data_only`: as fdatasync(2). */
MERCURY_GEN_PROC(fwd_fsync_in_t,
    ((uint64_t) (session))((uint64_t) (file))((uint32_t) (data_only)))
/* -> fwd_error_out_t */

/* fwd.readdir: names after `cookie`, at most `count` of them; 0 is the start.
 * With `plus` each name but . and .. is also looked up. */
MERCURY_GEN_PROC(fwd_readdir_in_t,
    ((uint64_t) (session))((uint64_t) (file))((uint64_t) (cookie))(
        (uint32_t) (count))((uint32_t) (plus)))
MERCURY_GEN_PROC(fwd_readdir_out_t, ((int32_t) (error))((fwd_names_t) (names)))

/* fwd.fallocate: `mode` of fallocate(2). */
MERCURY_GEN_PROC(fwd_fallocate_in_t,
    ((uint64_t) (session))((uint64_t) (file))((uint64_t) (offset))(
        (uint64_t) (size))((uint32_t) (mode)))
/* -> fwd_error_out_t */

/* fwd.copy: as copy_file_range(2), at most FWD_COPY_MAX bytes. The output has
 * the number of bytes. */
MERCURY_GEN_PROC(fwd_copy_in_t,
    ((uint64_t) (session))((uint64_t) (file))((uint64_t) (offset))(
        (uint64_t) (to_file))((uint64_t) (to_offset))((uint64_t) (size)))
/* -> fwd_offset_out_t */

/* fwd.seek: SEEK_DATA or SEEK_HOLE. */
MERCURY_GEN_PROC(fwd_seek_in_t,
    ((uint64_t) (session))((uint64_t) (file))((uint64_t) (offset))(
        (uint32_t) (whence)))
/* -> fwd_offset_out_t */

/* ---- Locks ---- */

/* fwd.lock: never waits: EAGAIN if another lock is in the way; the client tries
 * again. FWD_LOCK_TEST describes that lock in the output, or sets `type`
 * to F_UNLCK. FWD_LOCK_FLOCK locks the whole open file, as flock(2). `owner` is
 * a process of the client, or an open file with locks of its own. All of its
 * locks of the node are released by FWD_LOCK_RELEASE, and by fwd.release of the
 * file with which it locked last. `end` is the last byte, UINT64_MAX / 2 for
 * all. */
enum {
    FWD_LOCK_TEST = 1,
    FWD_LOCK_SET = 2,
    FWD_LOCK_FLOCK = 3,
    FWD_LOCK_RELEASE = 4
};
MERCURY_GEN_PROC(fwd_lock_in_t,
    ((uint64_t) (session))((uint64_t) (file))((uint64_t) (owner))(
        (uint64_t) (start))((uint64_t) (end))((uint32_t) (op))(
        (uint32_t) (type)))
MERCURY_GEN_PROC(fwd_lock_out_t,
    ((int32_t) (error))((uint32_t) (type))((uint64_t) (start))(
        (uint64_t) (end)))

#endif
