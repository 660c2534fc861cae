/* SPDX-License-Identifier: BSD-3-Clause */
/* client_slot: see client_slot.h. */
#define _GNU_SOURCE
#include "client_slot.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "client_signal.h"

#define SLOT_BUFFERS 128u  /* of a pool; what needs more waits */
#define SLOT_ABANDONED 64u /* buffers; with so many, the session is lost */
#define SLOT_PAUSE_MS 100u /* before a refused call is repeated */
#define SLOT_TICK_MS 100u  /* while slots wait for a session */
#define SLOT_TRY_MS 2000u  /* how long a request waits after a long outage */
#define SLOT_SLOW_MS 2000u /* no signal ends faster calls */
#define SLOT_END_MS 1000u  /* for the calls in flight at the end */

static TAILQ_HEAD(slot_queue, slot) slot_waiting = TAILQ_HEAD_INITIALIZER(
    slot_waiting);
static struct slot_queue slot_calls = TAILQ_HEAD_INITIALIZER(slot_calls);
static struct slot *slot_free_list;
static bool slot_ending;
static bool slot_any_signaled; /* maybe; a call in flight is interrupted */
static unsigned slot_timeout;

struct pool {
    size_t size;    /* of a buffer */
    uint8_t access; /* of the server: HG_BULK_... */
    unsigned count;
    struct buffer *current;
    struct buffer *free; /* the last one used is the first */
};
/* A server that lies cannot change a request. */
static struct pool slot_requests = {
    SLOT_BUFFER_SIZE, HG_BULK_READ_ONLY, 0, NULL, NULL};
static struct pool slot_reads = {FWD_IO_MAX, HG_BULK_WRITE_ONLY, 0, NULL, NULL};
static struct buffer *slot_abandoned; /* a server may still access them */
static unsigned slot_abandoned_count;

static struct remote_call slot_find_call = {
    "fwd.find", hg_proc_fwd_find_in_t, hg_proc_fwd_entry_out_t, 0};
static struct remote_call slot_lookup_call = {
    "fwd.lookup", hg_proc_fwd_name_in_t, hg_proc_fwd_entry_out_t, 0};
static struct remote_call slot_open_call = {
    "fwd.open", hg_proc_fwd_open_in_t, hg_proc_fwd_open_out_t, 0};

bool slot_init(unsigned timeout)
{
    slot_timeout = timeout;
    return remote_register(&slot_find_call) &&
        remote_register(&slot_lookup_call) && remote_register(&slot_open_call);
}

/* ---- Buffers ---- */

static struct buffer *slot_make_buffer(struct pool *pool)
{
    struct buffer *buffer;

    if (pool->count == SLOT_BUFFERS)
        return NULL;
    buffer = (struct buffer *) calloc(1, sizeof(*buffer));
    if (buffer == NULL)
        return NULL;
    if (remote_memory(pool->size, pool->access, &buffer->bulk,
            &buffer->memory) != HG_SUCCESS) {
        free(buffer);
        return NULL;
    }
    buffer->pool = pool;
    pool->count++;
    return buffer;
}

static struct buffer *slot_current(struct pool *pool)
{
    if (pool->current != NULL)
        return pool->current;
    pool->current = pool->free;
    if (pool->current != NULL)
        pool->free = pool->current->next;
    else
        pool->current = slot_make_buffer(pool);
    return pool->current;
}

struct buffer *slot_current_buffer(void)
{
    return slot_current(&slot_requests);
}

static void slot_take_buffer(struct slot *slot, struct pool *pool)
{
    slot->buffer = slot_current(pool);
    pool->current = NULL;
}

void slot_keep_buffer(struct slot *slot)
{
    slot_take_buffer(slot, &slot_requests);
}

hg_bulk_t slot_share_buffer(struct slot *slot)
{
    slot->shares = true;
    return slot->buffer->bulk;
}

/* A server that has not responded may still access this memory. To free it
 * could wait for that server, so it is freed when the server responds again.
 * Without a session, no more calls are sent that could end like that, and in a
 * new session the server responds before a call shares memory. So besides
 * SLOT_ABANDONED, only the calls in flight then, at most SLOT_BUFFERS of each
 * pool, can add to the list. */
static void slot_lose_buffer(struct slot *slot)
{
    if (!slot->shares)
        return;
    slot->buffer->pool->count--;
    slot->buffer->next = slot_abandoned;
    slot_abandoned = slot->buffer;
    slot->buffer = NULL;
    slot->shares = false;
    if (++slot_abandoned_count >= SLOT_ABANDONED && remote_epoch() != 0)
        remote_lose("it does not respond");
}

static void slot_free_buffers_of(struct buffer **list)
{
    struct buffer *buffer;

    while ((buffer = *list) != NULL) {
        *list = buffer->next;
        (void) HG_Bulk_free(buffer->bulk);
        free(buffer);
    }
}

/* ---- Begin and end ---- */

void slot_set_node(struct slot *slot, unsigned i, struct node *node)
{
    slot->nodes[i] = node;
    if (node == NULL)
        return;
    node_ref(node);
    if ((slot->op->flags & OP_READS) == 0)
        node_change_begins(node);
}

struct slot *slot_begin(
    fuse_req_t req, const struct op *op, struct node *node, struct file *file)
{
    struct slot *slot = slot_free_list;
    hg_handle_t handle = HG_HANDLE_NULL;

    if (slot != NULL) {
        slot_free_list = slot->next_free;
        handle = slot->handle;
    } else {
        slot = (struct slot *) malloc(sizeof(*slot));
        if (slot == NULL) {
            if (req != NULL)
                (void) fuse_reply_err(req, ENOMEM);
            return NULL;
        }
    }
    memset(slot, 0, sizeof(*slot));
    slot->handle = handle;
    slot->req = req;
    slot->op = op;
    slot->files[0] = file;
    slot_set_node(slot, 0, node);
    slot->deadline = remote_now() + slot_timeout;
    return slot;
}

static void slot_set_finding(struct slot *slot, struct node *node)
{
    struct node *before = slot->finding;

    if (node != NULL)
        node_ref(node);
    slot->finding = node;
    if (before != NULL)
        node_unref(before);
}

static void slot_end(struct slot *slot)
{
    unsigned i;

    slot_set_finding(slot, NULL);
    for (i = 0; i < 2; i++)
        if (slot->nodes[i] != NULL)
            node_unref(slot->nodes[i]);
    if (slot->buffer != NULL) {
        slot->buffer->next = slot->buffer->pool->free;
        slot->buffer->pool->free = slot->buffer;
    }
    slot->next_free = slot_free_list;
    slot_free_list = slot;
}

void slot_fail(struct slot *slot, int error)
{
    if (slot->op->failed != NULL) {
        if (slot->op->failed(slot, error))
            return;
    } else {
        (void) fuse_reply_err(slot->req, error);
    }
    slot_end(slot);
}

void slot_extend(struct slot *slot)
{
    slot->deadline = remote_now() + slot_timeout;
}

/* ---- Waiting ---- */

static void slot_signaled(fuse_req_t req, void *arg)
{
    struct slot *slot = (struct slot *) arg;

    (void) req;
    slot->interrupted = true;
    slot_any_signaled = true;
}

static void slot_watch_signals(struct slot *slot)
{
    if (slot->req == NULL || slot->interruptible)
        return;
    slot->interruptible = true;
    fuse_req_interrupt_func(slot->req, slot_signaled, slot);
}

/* The kernel reports only the first signal, which may be one that the program
 * catches. That ends only the wait for a lock. */
static bool slot_is_killed(const struct slot *slot)
{
    return slot->interrupted &&
        (slot->waits || signal_ends(fuse_req_ctx(slot->req)->pid));
}

/* Cancel calls that the server does not respond to, and whose programs end.
 * With a server that responds, no call ends with EINTR, as with a local file
 * system. */
static void slot_cancel_signaled(uint64_t now)
{
    struct slot *slot;

    slot_any_signaled = false;
    TAILQ_FOREACH(slot, &slot_calls, queue)
    {
        if (!slot->interrupted || slot->canceled ||
            (slot->op->flags & OP_READS) == 0)
            continue;
        slot->canceled = now + slot_timeout >= slot->deadline + SLOT_SLOW_MS &&
            slot_is_killed(slot);
        if (slot->canceled)
            (void) HG_Cancel(slot->handle);
        else
            slot_any_signaled = true;
    }
}

void slot_retry(struct slot *slot, unsigned pause)
{
    if (slot_ending) {
        slot_fail(slot, EIO);
        return;
    }
    slot->retry_at = remote_now() + pause;
    TAILQ_INSERT_TAIL(&slot_waiting, slot, queue);
    slot_watch_signals(slot);
}

/* The kernel makes several requests for some system calls, which would each
 * wait. So those that come when the session was lost for long fail soon. */
static bool slot_is_late(const struct slot *slot, uint64_t now)
{
    return now >= slot->deadline ||
        (remote_epoch() == 0 && now >= remote_lost_at() + slot_timeout &&
            now >= slot->retry_at + SLOT_TRY_MS);
}

/* Run or end one slot that waits. Returns false if it goes on waiting. */
static bool slot_wake(struct slot *slot, uint64_t now)
{
    bool runs = remote_epoch() != 0 && now >= slot->retry_at;
    bool killed = slot_is_killed(slot);
    bool late = slot_is_late(slot, now);

    if (!runs && !killed && !late)
        return false;
    TAILQ_REMOVE(&slot_waiting, slot, queue);
    if (killed)
        slot_fail(slot, EINTR);
    else if (late)
        slot_fail(slot, EIO);
    else
        slot_run(slot);
    return true;
}

int slot_tick(void)
{
    struct slot *slot, *next, *last = TAILQ_LAST(&slot_waiting, slot_queue);
    uint64_t now, soon;
    bool more = last != NULL;

    if (!more && !slot_any_signaled)
        return -1;
    now = remote_now();
    soon = now + SLOT_TICK_MS;
    if (slot_any_signaled)
        slot_cancel_signaled(now);
    for (slot = TAILQ_FIRST(&slot_waiting); more; slot = next) {
        next = TAILQ_NEXT(slot, queue);
        more = slot != last; /* those behind it have begun to wait just now */
        if (!slot_wake(slot, now) && remote_epoch() != 0 &&
            slot->retry_at < soon)
            soon = slot->retry_at;
    }
    return TAILQ_EMPTY(&slot_waiting) && !slot_any_signaled
        ? -1
        : (int) (soon - now);
}

/* ---- What a lost session takes away ---- */

static void slot_find_again(struct node *node, uint64_t used)
{
    if (node != NULL && node->remote == used)
        node->epoch = 0;
}

/* The server does not know a number that was sent. It may have ended a node.
 * Otherwise it does not know the session. */
static void slot_forgotten(struct slot *slot)
{
    if (slot->only_epoch != 0) {
        slot_fail(slot, EIO);
        return;
    }
    if (slot->opening != NULL) {
        slot_find_again(slot->opening->node, slot->used[0]);
    } else if (slot->finding != NULL && slot->used[0] != 0) {
        slot_find_again(slot->finding->parent, slot->used[0]);
    } else if (slot->finding == NULL && slot->files[0] == NULL) {
        slot_find_again(slot->nodes[0], slot->used[0]);
        slot_find_again(slot->nodes[1], slot->used[1]);
    } else if (slot->lost) {
        slot_fail(slot, EIO); /* a new session was of no help */
        return;
    } else if (slot->epoch == remote_epoch()) {
        slot->lost = true;
        remote_lose("the server does not know it");
    }
    slot_retry(slot, 0);
}

/* Send the call again, after it or a call that prepares it has ended. */
static void slot_repeat(struct slot *slot, unsigned pause)
{
    if (slot->finding == NULL && slot->opening == NULL)
        slot->again = true;
    slot_retry(slot, pause);
}

/* The call ended without a response. */
static void slot_unanswered(struct slot *slot, hg_return_t ret)
{
    if (slot->canceled) {
        slot_lose_buffer(slot);
        slot_fail(slot, EINTR);
        return;
    }
    switch (ret) {
    case HG_DISCONNECT:
    case HG_HOSTUNREACH:
        if (slot->epoch == remote_epoch())
            remote_lose("the connection is lost");
        slot_repeat(slot, 0);
        return;
    case HG_AGAIN: slot_retry(slot, SLOT_PAUSE_MS); return;
    case HG_CANCELED:
    case HG_CHECKSUM_ERROR: slot_repeat(slot, SLOT_PAUSE_MS); return;
    default: break;
    }
    if (ret == HG_TIMEOUT)
        slot_lose_buffer(slot);
    slot_fail(slot, EIO);
}

/* ---- Calls ---- */

static void slot_found(struct slot *slot, union slot_out *out)
{
    struct node *node = slot->finding;

    if (out->error == ENOENT || out->error == ENOTDIR || out->error == ELOOP) {
        slot_fail(slot, ESTALE);
    } else if (out->error != 0) {
        slot_fail(slot, out->error);
    } else if (memcmp(&out->entry.entry.id, &node->id, sizeof(node->id)) != 0) {
        remote_forget(out->entry.entry.node, 1);
        slot_fail(slot, ESTALE);
    } else {
        (void) node_seen(&out->entry.entry, NULL, NULL);
        slot_retry(slot, 0);
    }
}

static void slot_opened(struct slot *slot, union slot_out *out)
{
    struct file *file = slot->opening;

    if (out->error != 0) {
        slot_fail(slot, out->error);
        return;
    }
    file->epoch = slot->epoch;
    file->remote = out->open.file;
    slot_retry(slot, 0);
}

/* The kernel refuses a response with an errno above 511, and its program would
 * wait for ever. */
static int32_t slot_error(int32_t error)
{
    return (error >= 0 && error < 512) || error == FWD_FORGOTTEN ? error : EIO;
}

/* A server that stops responds to the calls that have begun, after the session
 * has ended. */
static void slot_answered(struct slot *slot, union slot_out *out)
{
    bool prepares = slot->finding != NULL || slot->opening != NULL;
    bool is_of_session =
        prepares || (out->error == 0 && (slot->op->flags & OP_OF_SESSION) != 0);

    if (out->error == FWD_FORGOTTEN) {
        slot_forgotten(slot);
    } else if (is_of_session && slot->epoch != remote_epoch()) {
        slot_repeat(slot, 0);
    } else if (slot->finding != NULL) {
        slot_found(slot, out);
    } else if (slot->opening != NULL) {
        slot_opened(slot, out);
    } else if (out->error != 0) {
        slot_fail(slot, out->error);
    } else {
        slot->op->done(slot, out);
        slot_end(slot);
    }
}

static hg_return_t slot_ended(const struct hg_cb_info *info)
{
    struct slot *slot = (struct slot *) info->arg;
    hg_handle_t handle = slot->handle;
    union slot_out out;
    hg_return_t ret = info->ret;

    TAILQ_REMOVE(&slot_calls, slot, queue);
    if (slot->opening != NULL)
        slot->opening->opening = false;
    if (ret == HG_SUCCESS)
        ret = HG_Get_output(handle, &out);
    if (ret != HG_SUCCESS) {
        slot_unanswered(slot, ret);
        return HG_SUCCESS;
    }
    out.error = slot_error(out.error);
    slot_free_buffers_of(&slot_abandoned);
    slot_abandoned_count = 0;
    slot_answered(slot, &out);
    if (!slot->output_taken)
        (void) HG_Free_output(handle, &out);
    return HG_SUCCESS;
}

static void slot_call(
    struct slot *slot, const struct remote_call *call, void *in)
{
    uint64_t now = remote_now();
    hg_return_t ret;

    slot->epoch = remote_epoch();
    ret = remote_prepare(&slot->handle, call,
        now < slot->deadline ? (unsigned) (slot->deadline - now) : 1);
    if (ret == HG_SUCCESS)
        ret = HG_Forward(slot->handle, slot_ended, slot, in);
    if (ret == HG_SUCCESS) {
        TAILQ_INSERT_TAIL(&slot_calls, slot, queue);
        return;
    }
    if (slot->opening != NULL)
        slot->opening->opening = false;
    slot_unanswered(slot, ret);
}

/* Find a node of an earlier session by its path. If that is too long for one
 * call, find the folder first, and then the name in it. */
static void slot_find(struct slot *slot, struct node *node)
{
    char path[FWD_PATH_MAX + 1];
    fwd_find_in_t in = {remote_session(), path};
    int error;

    while ((error = node_path(node, path)) == ENAMETOOLONG &&
        node->parent->epoch != remote_epoch())
        node = node->parent;
    if (error != 0 && error != ENAMETOOLONG) {
        slot_fail(slot, error);
        return;
    }
    slot_set_finding(slot, node);
    slot->used[0] = 0;
    if (error == 0) {
        slot_call(slot, &slot_find_call, &in);
    } else {
        fwd_name_in_t name = {
            remote_session(), node->parent->remote, node->name};

        slot->used[0] = node->parent->remote;
        slot_call(slot, &slot_lookup_call, &name);
    }
}

/* Open a file of an earlier session again. */
static void slot_open(struct slot *slot, struct file *file)
{
    fwd_open_in_t in = {remote_session(), file->node->remote, 0, "",
        file->flags & ~(uint32_t) (O_TRUNC | O_EXCL | O_CREAT), 1};

    if (file->opening) {
        slot_retry(slot, 1); /* another slot does it */
        return;
    }
    slot->used[0] = file->node->remote;
    slot->opening = file;
    file->opening = true;
    slot_call(slot, &slot_open_call, &in);
}

/* Make what the slot needs known in this session, and take the buffer of a
 * read. Returns true if the slot has all. If not, a call for it is in flight,
 * or the slot waits or has ended. */
static bool slot_is_ready(struct slot *slot)
{
    uint64_t epoch = remote_epoch();
    struct file *file;
    unsigned i;

    slot_set_finding(slot, NULL);
    slot->opening = NULL;
    /* A closed file may still have the lock, or the number of this owner. */
    if (slot->after_unlocks && slot->files[0]->node->unlocking > 0) {
        slot_retry(slot, 1);
        return false;
    }
    for (i = 0; i < 2; i++) {
        file = slot->files[i];
        if (file == NULL || (!file->broken && file->epoch == epoch))
            continue;
        if (file->broken)
            slot_fail(slot, EIO);
        else if (file->node->epoch != epoch)
            slot_find(slot, file->node);
        else
            slot_open(slot, file);
        return false;
    }
    for (i = 0; i < 2; i++)
        if (slot->nodes[i] != NULL && slot->nodes[i]->epoch != epoch) {
            slot_find(slot, slot->nodes[i]);
            return false;
        }
    if (slot->receives && slot->buffer == NULL)
        slot_take_buffer(slot, &slot_reads);
    if (slot->receives && slot->buffer == NULL) {
        slot_retry(slot, 1); /* all are in use */
        return false;
    }
    return true;
}

/* Set the numbers of this session. */
static void slot_number(struct slot *slot)
{
    slot->in.common.session = remote_session();
    slot->in.common.first = slot->files[0] != NULL ? slot->files[0]->remote
        : slot->nodes[0] != NULL                   ? slot->nodes[0]->remote
                                                   : slot->in.common.first;
    if (slot->files[0] == NULL && slot->nodes[1] != NULL)
        slot->in.common.second = slot->nodes[1]->remote;
}

void slot_run(struct slot *slot)
{
    const struct op *op = slot->op;
    unsigned i;

    if (slot_ending) {
        slot_fail(slot, EIO); /* no call begins while others are canceled */
        return;
    }
    if (remote_epoch() == 0) {
        slot_retry(slot, 0);
        return;
    }
    if (slot->only_epoch != 0 && slot->only_epoch != remote_epoch()) {
        slot_fail(slot, EIO);
        return;
    }
    if (!slot_is_ready(slot))
        return;
    slot_number(slot);
    for (i = 0; i < 2; i++)
        slot->used[i] = slot->nodes[i] != NULL ? slot->nodes[i]->remote : 0;
    if (op->prepare != NULL)
        op->prepare(slot);
    if ((op->flags & OP_READS) != 0)
        slot_watch_signals(slot);
    if (op->again != 0 && slot->again)
        *(uint32_t *) (void *) ((char *) &slot->in + op->again) = 1;
    slot_call(slot, &op->call, &slot->in);
}

/* ---- The end ---- */

static void slot_free_pool(struct pool *pool)
{
    if (pool->current != NULL)
        pool->current->next = NULL;
    slot_free_buffers_of(&pool->current);
    slot_free_buffers_of(&pool->free);
}

void slot_fini(void)
{
    struct slot *slot;
    uint64_t end = remote_now() + SLOT_END_MS;

    slot_ending = true;
    while ((slot = TAILQ_FIRST(&slot_waiting)) != NULL) {
        TAILQ_REMOVE(&slot_waiting, slot, queue);
        slot_fail(slot, EIO);
    }
    TAILQ_FOREACH(slot, &slot_calls, queue)
    (void) HG_Cancel(slot->handle);
    while (!TAILQ_EMPTY(&slot_calls) && remote_now() < end)
        remote_turn();
    while ((slot = slot_free_list) != NULL) {
        slot_free_list = slot->next_free;
        (void) HG_Destroy(slot->handle);
        free(slot);
    }
    slot_free_pool(&slot_requests);
    slot_free_pool(&slot_reads);
    slot_free_buffers_of(&slot_abandoned);
}
