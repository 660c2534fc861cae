/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server_files: the open files and directories of a session, and the calls that
 * open and close them.
 *
 * A file keeps its node in the table. The descriptor is closed when the client
 * has released the file and no handler uses it any more.
 *
 * Locking: session->lock for the table and the counts.
 */
#ifndef HG_EXAMPLES_SERVER_FILES_H
#define HG_EXAMPLES_SERVER_FILES_H

#include <pthread.h>
#include <stdatomic.h>

#include "server_calls.h"

struct file {
    uint64_t number; /* 0: released */
    int fd;
    unsigned uses;
    bool synced;             /* a write waits for the disk */
    atomic_bool reads_block; /* without RWF_NOWAIT, as on tmpfs */
    struct node *node;
    pthread_mutex_t position; /* of a directory: readdir moves it */
};

/* Get an open file; files_put gives it back. NULL: the number is unknown. */
struct file *files_get(struct session *session, uint64_t number);
void files_put(struct session *session, struct file *file);

/* Close all. No other thread uses the session. */
void files_free(struct session *session);

int32_t files_open(struct job *job);
int32_t files_create(struct job *job);
int32_t files_release(struct job *job);

#endif
