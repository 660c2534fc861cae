/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server: what all modules of hg_forwardd share.
 *
 *     hg_forwardd         options, start, signals, end
 *     server_calls        the list of calls; runs one and responds
 *     server_names        lookup, find, forget, make, link, remove, rename
 *     server_attributes   getattr, setattr, extended attributes, statfs
 *     server_data         read, write, fsync, fallocate, copy, seek
 *     server_directories  readdir
 *     server_locks        lock
 *     server_files        open, create, release; the table of open files
 *     server_nodes        the table of nodes
 *     server_sessions     begin, watch; the clients and what each one holds
 *     server_path         names and descriptors, checked
 *     server_table        numbers of nodes and files
 *     server_workers      the threads
 *
 * Nothing that a client sends is trusted. A name is one component, and is
 * resolved relative to a descriptor of the server, by path_open or with a
 * function that does not follow links. A number is looked up in the tables of
 * the session, and a session belongs to one connection.
 */
#ifndef HG_EXAMPLES_SERVER_H
#define HG_EXAMPLES_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "forward.h"

struct server {
    na_class_t *na_class;
    int root; /* the exported folder, O_PATH */
    bool read_only;
    bool is_root;         /* new files belong to the caller's uid and gid */
    uint64_t descriptors; /* that all sessions together may hold */
    uint64_t started;     /* when, in nanoseconds of the time of day */
};

extern struct server server;

#endif
