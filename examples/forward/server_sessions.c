/* SPDX-License-Identifier: BSD-3-Clause */
/* server_sessions: see server_sessions.h. */
#define _GNU_SOURCE 1
#include "server_sessions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "server_files.h"
#include "server_path.h"

/* A number holds the index of its slot; the rest of it is random. */
#define SESSIONS_MAX 256u

/* Each node also keeps memory of the kernel in use, about 1 KiB. */
#define SESSIONS_NODES_MAX 65536u
#define SESSIONS_NODES_MIN 64u

static struct {
    pthread_mutex_t lock; /* of all but the atomic members, and of `refs` */
    struct session *slots[SESSIONS_MAX];
    unsigned count;
    bool stopping;
    _Atomic(struct session *) ended; /* canceled; sessions_reap frees them */
    atomic_uint_least64_t held;      /* descriptors of files and locks */
    atomic_uint share;               /* nodes of a session */
} sessions = {.lock = PTHREAD_MUTEX_INITIALIZER, .share = SESSIONS_NODES_MIN};

static time_t sessions_now(void)
{
    struct timespec now = {0, 0};

    (void) clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec;
}

/* ---- Shares ---- */

bool sessions_take(struct session *session)
{
    uint64_t all = atomic_fetch_add(&sessions.held, 1);
    bool taken;

    (void) pthread_mutex_lock(&session->lock);
    taken = session->held + all < server.descriptors / 2;
    session->held += taken;
    (void) pthread_mutex_unlock(&session->lock);
    if (!taken)
        (void) atomic_fetch_sub(&sessions.held, 1);
    return taken;
}

void sessions_give(struct session *session)
{
    (void) pthread_mutex_lock(&session->lock);
    session->held--;
    (void) pthread_mutex_unlock(&session->lock);
    (void) atomic_fetch_sub(&sessions.held, 1);
}

uint32_t sessions_share(void)
{
    return atomic_load_explicit(&sessions.share, memory_order_relaxed);
}

/* Divide the nodes among the sessions. The lock is held. */
static void sessions_divide(void)
{
    uint64_t share = server.descriptors / 2;

    if (sessions.count > 0)
        share /= sessions.count;
    if (share > SESSIONS_NODES_MAX)
        share = SESSIONS_NODES_MAX;
    if (share < SESSIONS_NODES_MIN)
        share = SESSIONS_NODES_MIN;
    atomic_store(&sessions.share, (unsigned) share);
}

/* Take back the nodes of sessions whose share became smaller. */
static void sessions_trim(void)
{
    unsigned i;

    for (i = 0; i < SESSIONS_MAX; i++) {
        struct session *session;

        (void) pthread_mutex_lock(&sessions.lock);
        session = sessions.slots[i];
        if (session != NULL)
            session->refs++;
        (void) pthread_mutex_unlock(&sessions.lock);
        if (session == NULL)
            continue;
        nodes_trim(session, sessions_share());
        sessions_put(session);
    }
}

/* ---- References ---- */

static void sessions_destroy(struct session *session)
{
    files_free(session);
    nodes_free(session);
    (void) pthread_mutex_destroy(&session->lock);
    (void) pthread_mutex_destroy(&session->locking);
    (void) NA_Addr_free(server.na_class, session->owner);
    free(session);
}

struct session *sessions_get(uint64_t number, hg_handle_t handle)
{
    na_addr_t caller = HG_Handler_get_addr(handle);
    struct session *session;

    (void) pthread_mutex_lock(&sessions.lock);
    session = sessions.slots[number % SESSIONS_MAX];
    if (session != NULL && session->number == number &&
        NA_Addr_cmp(server.na_class, session->owner, caller))
        session->refs++;
    else
        session = NULL;
    (void) pthread_mutex_unlock(&sessions.lock);
    return session;
}

void sessions_put(struct session *session)
{
    bool last;

    (void) pthread_mutex_lock(&sessions.lock);
    last = --session->refs == 0;
    (void) pthread_mutex_unlock(&sessions.lock);
    if (last)
        sessions_destroy(session);
}

/* Take a session out of the table, so that no call finds it; the caller then
 * has the reference and the watch of the table. The lock is held. */
static void sessions_remove(struct session *session)
{
    sessions.slots[session->number % SESSIONS_MAX] = NULL;
    sessions.count--;
    sessions_divide();
}

/* End a session that was taken out of the table. */
static void sessions_end(struct session *session, int32_t error)
{
    fwd_error_out_t out = {error};

    if (session->watch != NULL) {
        (void) HG_Handler_start_output(session->watch, &out);
        (void) HG_Handler_free(session->watch);
    }
    sessions_put(session);
}

/* ---- begin ---- */

/* End the session that the caller of a call has already. */
static void sessions_replace(hg_handle_t handle)
{
    na_addr_t caller = HG_Handler_get_addr(handle);
    struct session *old = NULL;
    unsigned i;

    (void) pthread_mutex_lock(&sessions.lock);
    for (i = 0; i < SESSIONS_MAX && old == NULL; i++) {
        if (sessions.slots[i] != NULL &&
            NA_Addr_cmp(server.na_class, sessions.slots[i]->owner, caller))
            old = sessions.slots[i];
    }
    if (old != NULL)
        sessions_remove(old);
    (void) pthread_mutex_unlock(&sessions.lock);
    if (old != NULL)
        sessions_end(old, FWD_FORGOTTEN);
}

/* Enter the root as the first node. It never ends. 0 or an errno. */
static int sessions_enter_root(struct session *session, fwd_entry_t *root)
{
    int fd = path_open(server.root, ".", O_PATH, 0);
    int error;

    if (fd < 0)
        return -fd;
    error = -path_status(fd, "", &root->attr, &root->id);
    if (error != 0)
        (void) close(fd);
    else
        error = nodes_enter(session, fd, root);
    if (error == 0)
        (void) nodes_get(session, root->node);
    return error;
}

/* Enter a session into the table. 0 or an errno. */
static int sessions_add(struct session *session)
{
    unsigned i = 0;
    int error = EUSERS;

    (void) pthread_mutex_lock(&sessions.lock);
    while (i < SESSIONS_MAX && sessions.slots[i] != NULL)
        i++;
    if (i < SESSIONS_MAX && !sessions.stopping) {
        session->number -= session->number % SESSIONS_MAX;
        session->number += i;
        sessions.slots[i] = session;
        sessions.count++;
        sessions_divide();
        error = 0;
    }
    (void) pthread_mutex_unlock(&sessions.lock);
    return error;
}

/* Whether a session is one of sm. */
static bool sessions_is_near(na_addr_t owner)
{
    char text[NA_MAX_ADDR_LEN];

    return NA_Addr_to_string(server.na_class, text, sizeof(text), owner) ==
        NA_SUCCESS &&
        strncmp(text, "sm:", 3) == 0;
}

/* A session that is not in the table. NULL: out of memory. */
static struct session *sessions_create(hg_handle_t handle)
{
    struct session *session = (struct session *) calloc(1, sizeof(*session));

    if (session == NULL)
        return NULL;
    if (getrandom(&session->number, sizeof(session->number), 0) !=
            (ssize_t) sizeof(session->number) ||
        NA_Addr_dup(server.na_class, HG_Handler_get_addr(handle),
            &session->owner) != NA_SUCCESS) {
        free(session);
        return NULL;
    }
    session->refs = 1;
    session->waiting_end = &session->waiting;
    session->began = sessions_now();
    session->near = sessions_is_near(session->owner);
    (void) pthread_mutex_init(&session->lock, NULL);
    (void) pthread_mutex_init(&session->locking, NULL);
    return session;
}

int32_t sessions_begin(struct job *job)
{
    fwd_begin_out_t *out = &job->out.begin;
    struct session *session;
    int error;

    if (job->in.begin.version != FWD_VERSION)
        return EPROTONOSUPPORT;
    sessions_replace(job->handle);
    session = sessions_create(job->handle);
    if (session == NULL)
        return ENOMEM;
    error = sessions_enter_root(session, &out->root);
    if (error == 0)
        error = sessions_add(session);
    if (error != 0) {
        sessions_destroy(session);
        return error;
    }
    sessions_trim();
    out->session = session->number;
    return 0;
}

/* ---- watch ---- */

/* The client of a session is gone. The handle cannot be freed here. */
static void sessions_canceled(hg_handle_t handle, void *arg)
{
    struct session **slot = (struct session **) arg;
    struct session *session;

    (void) pthread_mutex_lock(&sessions.lock);
    session = *slot;
    if (session != NULL && session->watch == handle) {
        sessions_remove(session);
        session->ended = atomic_load(&sessions.ended);
        atomic_store(&sessions.ended, session);
    }
    (void) pthread_mutex_unlock(&sessions.lock);
}

int32_t sessions_watch(struct job *job)
{
    struct session *session = job->session;
    struct session **slot = &sessions.slots[session->number % SESSIONS_MAX];
    int32_t error = CALLS_LATER;

    (void) pthread_mutex_lock(&sessions.lock);
    if (*slot != session)
        error = FWD_FORGOTTEN; /* it has just ended */
    else if (sessions.stopping)
        error = 0;
    else if (session->watch != NULL)
        error = EBUSY;
    else if (HG_Set_cancel_cb(job->handle, sessions_canceled, slot) !=
        HG_SUCCESS)
        error = EIO;
    else
        session->watch = job->handle;
    (void) pthread_mutex_unlock(&sessions.lock);
    if (error == CALLS_LATER)
        sessions_put(session);
    return error;
}

void sessions_reap(void)
{
    struct session *session;

    if (atomic_load_explicit(&sessions.ended, memory_order_relaxed) == NULL)
        return;
    (void) pthread_mutex_lock(&sessions.lock);
    session = atomic_exchange(&sessions.ended, NULL);
    (void) pthread_mutex_unlock(&sessions.lock);
    while (session != NULL) {
        struct session *next = session->ended;

        (void) HG_Handler_free(session->watch);
        sessions_put(session);
        session = next;
    }
}

void sessions_sweep(void)
{
    time_t before = sessions_now() - SESSIONS_WATCH_S;
    struct session *unwatched[SESSIONS_MAX];
    unsigned count = 0;
    unsigned i;

    (void) pthread_mutex_lock(&sessions.lock);
    for (i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = sessions.slots[i];

        if (session == NULL || session->watch != NULL ||
            session->began > before)
            continue;
        sessions_remove(session);
        unwatched[count++] = session;
    }
    (void) pthread_mutex_unlock(&sessions.lock);
    while (count > 0)
        sessions_put(unwatched[--count]);
}

/* ---- The end ---- */

void sessions_stop(void)
{
    hg_handle_t watches[SESSIONS_MAX];
    fwd_error_out_t out = {0};
    unsigned count = 0;
    unsigned i;

    (void) pthread_mutex_lock(&sessions.lock);
    sessions.stopping = true;
    for (i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = sessions.slots[i];

        if (session == NULL || session->watch == NULL)
            continue;
        watches[count++] = session->watch;
        session->watch = NULL;
    }
    (void) pthread_mutex_unlock(&sessions.lock);
    while (count > 0) {
        (void) HG_Handler_start_output(watches[--count], &out);
        (void) HG_Handler_free(watches[count]);
    }
}

void sessions_free(void)
{
    unsigned i;

    sessions_reap();
    for (i = 0; i < SESSIONS_MAX; i++) {
        struct session *session = sessions.slots[i];

        if (session == NULL)
            continue;
        sessions_remove(session);
        sessions_put(session);
    }
}
