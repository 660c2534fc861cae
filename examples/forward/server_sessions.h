/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server_sessions: the clients, and what each one holds.
 *
 * A session belongs to the connection that began it: the address of its caller.
 * It ends when its fwd.watch is canceled, since the client died or unmounted;
 * when the same connection begins another one; or if fwd.watch does not come
 * within SESSIONS_WATCH_S. Its files are closed, and its locks released, when
 * the last handler of the session has returned.
 *
 * Descriptors. Half of them are for open files and locks. A session may open
 * one more while what it holds and what all hold add up to less than that: one
 * client alone gets half of it, and no number of clients gets all. The other
 * half is for nodes, with an equal share for each session. A session that has
 * its share ends nodes that it did not use for long.
 */
#ifndef HG_EXAMPLES_SERVER_SESSIONS_H
#define HG_EXAMPLES_SERVER_SESSIONS_H

#include <pthread.h>
#include <time.h>

#include "server_calls.h"
#include "server_nodes.h"

#define SESSIONS_WATCH_S 10

struct session {
    uint64_t number;
    na_addr_t owner;
    unsigned refs;     /* the table and the handlers */
    hg_handle_t watch; /* the call that has no response; or NULL */
    time_t began;      /* monotonic, in seconds */
    bool near; /* over sm: bulk data is copied here, without its client */
    struct session *ended; /* the next in a list */

    pthread_mutex_t lock; /* of all that follows */
    struct nodes nodes;
    struct table files;
    uint32_t held;       /* descriptors of files and locks */
    unsigned long_calls; /* that run: see server_long */
    struct job *waiting; /* such calls that wait, oldest first */
    struct job **waiting_end;

    pthread_mutex_t locking; /* of the locks of its nodes: see server_locks */
};

/* Get the session of a number and the caller of a call; sessions_put gives it
 * back. NULL: unknown, or of another client. */
struct session *sessions_get(uint64_t number, hg_handle_t handle);
void sessions_put(struct session *session);

/* Count a descriptor of an open file or lock, before it is opened. False: the
 * session holds too many. */
bool sessions_take(struct session *session);
void sessions_give(struct session *session);

/* How many nodes a session may hold. */
uint32_t sessions_share(void);

int32_t sessions_begin(struct job *job);
int32_t sessions_watch(struct job *job);

/* Free what the sessions held whose watch was canceled. Any thread calls this
 * outside of handlers. */
void sessions_reap(void);

/* End the sessions that sent no fwd.watch. */
void sessions_sweep(void);

/* Respond to all fwd.watch: the server stops. */
void sessions_stop(void);

/* End all sessions. No handler runs any more. */
void sessions_free(void);

#endif
