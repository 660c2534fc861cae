/* SPDX-License-Identifier: BSD-3-Clause */
/* See hook.h. Completion queues: a window of the provider's completions, out of
 * which they are read. */
#define _GNU_SOURCE 1
#include "ofi/hook_parts.h"

#include "harness.h"

#include <stdatomic.h>

#define HOOK_WINDOW 4
#define HOOK_TIMEOUT 3 /* reads for which an incomplete window is held back */

static _Atomic bool hook_holds;

void hg_test_ofi_hold(bool hold)
{
    atomic_store(&hook_holds, hold);
}

/* ---- The window, with the queue's lock held ---- */

static void hook_cq_push(
    struct hook_cq *cq, const struct fi_cq_err_entry *entry, bool error)
{
    if (cq->count == cq->capacity) {
        size_t capacity = cq->capacity * 2 + HOOK_WINDOW;
        struct hook_entry *grown = (struct hook_entry *) realloc(
            cq->entries, capacity * sizeof grown[0]);

        if (grown == NULL)
            hg_test_fail("ofi-hook", "out of memory");
        cq->entries = grown;
        cq->capacity = capacity;
    }
    cq->entries[cq->count].entry = *entry;
    cq->entries[cq->count++].error = error;
}

static struct hook_entry hook_cq_take(struct hook_cq *cq, size_t i)
{
    struct hook_entry taken = cq->entries[i];

    cq->count--;
    memmove(&cq->entries[i], &cq->entries[i + 1],
        (cq->count - i) * sizeof cq->entries[0]);
    return taken;
}

/* Report the end of a multi-receive buffer after its last message. */
static void hook_cq_push_split(
    struct hook_cq *cq, struct fi_cq_err_entry *entry)
{
    struct fi_cq_err_entry end;

    if (!hook_words.order || (entry->flags & FI_MULTI_RECV) == 0 ||
        (entry->flags & FI_RECV) == 0) {
        hook_cq_push(cq, entry, false);
        return;
    }
    memset(&end, 0, sizeof end);
    end.op_context = entry->op_context;
    end.flags = FI_MULTI_RECV;
    entry->flags &= ~FI_MULTI_RECV;
    hook_cq_push(cq, entry, false);
    hook_cq_push(cq, &end, false);
    pthread_mutex_lock(&hook_lock);
    hook_count("split");
    pthread_mutex_unlock(&hook_lock);
}

static void hook_cq_count_held(const struct fi_cq_err_entry *entry)
{
    const struct hook_op *op;

    pthread_mutex_lock(&hook_lock);
    op = hook_op_find(entry->op_context);
    if (op != NULL && (op->flags & FI_RMA) != 0)
        hook_count("held");
    pthread_mutex_unlock(&hook_lock);
}

/* Fill the window from the provider; returns 0, or its error. */
static ssize_t hook_cq_pull(struct hook_cq *cq)
{
    bool holds = atomic_load(&hook_holds);
    size_t window = holds ? SIZE_MAX : hook_words.order ? HOOK_WINDOW : 1;
    struct fi_cq_err_entry entry;
    ssize_t ret;

    while (cq->count < window) {
        memset(&entry, 0, sizeof entry);
        ret = fi_cq_read(cq->real, &entry, 1); /* as fi_cq_data_entry */
        if (ret == 1) {
            hook_cq_push_split(cq, &entry);
            if (holds)
                hook_cq_count_held(&entry);
        } else if (ret == -FI_EAVAIL) {
            memset(&entry, 0, sizeof entry);
            ret = fi_cq_readerr(cq->real, &entry, 0);
            if (ret < 0)
                return ret;
            hook_cq_push(cq, &entry, true);
        } else
            return ret;
    }
    return 0;
}

struct hook_side {
    bool known, receives, ordered, ends;
};

static struct hook_side hook_cq_side(const struct hook_entry *entry)
{
    const struct hook_op *op = hook_op_find(entry->entry.op_context);
    struct hook_side side = {op != NULL, true, true, true};

    if (op != NULL) {
        side.receives = op->receives;
        side.ordered = op->ordered;
        side.ends = op->multi &&
            (entry->error || (entry->entry.flags & FI_MULTI_RECV) != 0);
    }
    return side;
}

/* Whether the later entry may be read first. */
static bool hook_cq_may_overtake(
    const struct hook_entry *later, const struct hook_entry *earlier)
{
    struct hook_side side1 = hook_cq_side(later);
    struct hook_side side2 = hook_cq_side(earlier);

    if (!side1.known || !side2.known)
        return false;
    if (!side1.receives || !side2.receives)
        return true;
    return !side1.ordered && !side1.ends && !side2.ends;
}

/* The first entry that must be read before entries[i], or i. */
static size_t hook_cq_first_before(const struct hook_cq *cq, size_t i)
{
    size_t j = 0;

    while (j < i && hook_cq_may_overtake(&cq->entries[i], &cq->entries[j]))
        j++;
    return j;
}

/* Choose the entry that is read next. */
static size_t hook_cq_choose(const struct hook_cq *cq)
{
    size_t window = cq->count < HOOK_WINDOW ? cq->count : HOOK_WINDOW;
    size_t i, next;

    if (!hook_words.order || cq->failed)
        return 0;
    pthread_mutex_lock(&hook_lock);
    next = (size_t) (hook_random() % window);
    do {
        i = next;
        next = hook_cq_first_before(cq, i);
    } while (next != i);
    if (i > 0)
        hook_count("shuffled");
    pthread_mutex_unlock(&hook_lock);
    return i;
}

/* The caller's context of an entry; ends the operation if this is its last
 * entry. */
static void hook_cq_translate(struct hook_entry *entry)
{
    struct hook_op *op;

    pthread_mutex_lock(&hook_lock);
    op = hook_op_find(entry->entry.op_context);
    if (op != NULL) {
        entry->entry.op_context = op->context;
        hook_op_check(op);
        if (!op->multi || (entry->entry.flags & FI_MULTI_RECV) != 0 ||
            (entry->error && entry->entry.err == FI_ECANCELED))
            hook_op_end(op);
    }
    pthread_mutex_unlock(&hook_lock);
}

/* Whether a read returns nothing although there may be an entry. */
static bool hook_cq_holds_back(struct hook_cq *cq)
{
    bool again, held = false;

    pthread_mutex_lock(&hook_lock);
    again = hook_chance(hook_words.cqagain);
    if (again)
        hook_count("cqagain");
    else if (hook_words.order && cq->count < HOOK_WINDOW &&
        cq->held < HOOK_TIMEOUT)
        held = hook_chance(2);
    pthread_mutex_unlock(&hook_lock);
    cq->held = held ? cq->held + 1 : 0;
    return again || held;
}

/* ---- What the caller sees ---- */

static ssize_t hook_cq_read_locked(struct hook_cq *cq, char *buf, size_t count)
{
    struct hook_entry taken;
    ssize_t done, ret = 0;
    size_t i;

    if (atomic_load(&hook_holds) && !cq->failed) {
        (void) hook_cq_pull(cq);
        return -FI_EAGAIN;
    }
    for (done = 0; (size_t) done < count; done++) {
        if (!cq->failed)
            ret = hook_cq_pull(cq);
        if (cq->count == 0)
            return done > 0 ? done : ret;
        if (done == 0 && !cq->failed && hook_cq_holds_back(cq))
            return -FI_EAGAIN;
        i = hook_cq_choose(cq);
        if (cq->entries[i].error) {
            if (done > 0)
                return done;
            taken = cq->entries[i];
            memmove(&cq->entries[1], &cq->entries[0], i * sizeof taken);
            cq->entries[0] = taken;
            cq->failed = true;
            return -FI_EAVAIL;
        }
        taken = hook_cq_take(cq, i);
        hook_cq_translate(&taken);
        memcpy(buf + (size_t) done * cq->format_size, &taken.entry,
            cq->format_size);
    }
    return done;
}

static ssize_t hook_cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    struct hook_cq *cq = (struct hook_cq *) fid;
    ssize_t ret;

    pthread_mutex_lock(&cq->lock);
    ret = hook_cq_read_locked(cq, (char *) buf, count);
    pthread_mutex_unlock(&cq->lock);
    return ret;
}

/* The error carries no data of the provider. */
static ssize_t hook_cq_readerr(
    struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
    struct hook_cq *cq = (struct hook_cq *) fid;
    struct hook_entry taken;
    ssize_t ret = -FI_EAGAIN;

    (void) flags;
    pthread_mutex_lock(&cq->lock);
    if (cq->failed) {
        taken = hook_cq_take(cq, 0);
        cq->failed = false;
        hook_cq_translate(&taken);
        taken.entry.err_data = NULL;
        taken.entry.err_data_size = 0;
        *buf = taken.entry;
        ret = 1;
    }
    pthread_mutex_unlock(&cq->lock);
    return ret;
}

static int hook_cq_signal(struct fid_cq *fid)
{
    return fi_cq_signal(((struct hook_cq *) fid)->real);
}

/* The provider adds the descriptors of a queue when a thread sleeps on it. */
static ssize_t hook_cq_sread(
    struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
    struct fi_cq_data_entry none;
    ssize_t n =
        fi_cq_sread(((struct hook_cq *) fid)->real, &none, 1, cond, timeout);

    (void) buf;
    (void) count;
    if (n > 0)
        hook_violation("a blocking read while completions are available");
    return n;
}

static const char *hook_cq_strerror(struct fid_cq *fid, int prov_errno,
    const void *err_data, char *buf, size_t len)
{
    return fi_cq_strerror(
        ((struct hook_cq *) fid)->real, prov_errno, err_data, buf, len);
}

static int hook_cq_control(struct fid *fid, int command, void *arg)
{
    struct hook_cq *cq = (struct hook_cq *) fid;
    int ret = command == FI_GETWAIT ? hook_fault("getwait") : 0;

    return ret != 0 ? ret : fi_control(&cq->real->fid, command, arg);
}

static int hook_cq_close(struct fid *fid)
{
    struct hook_cq *cq = (struct hook_cq *) fid;
    int ret = fi_close(&cq->real->fid);

    if (ret != 0)
        return ret;
    pthread_mutex_lock(&hook_lock);
    hook_op_forget(cq);
    pthread_mutex_unlock(&hook_lock);
    hook_opened(&cq->domain->open, -1);
    pthread_mutex_destroy(&cq->lock);
    free(cq->entries);
    free(cq);
    return 0;
}

/* ---- For the other files ---- */

bool hook_cq_busy(struct hook_cq *cq)
{
    bool busy;

    pthread_mutex_lock(&cq->lock);
    busy = cq->count > 0 || cq->nudge;
    cq->nudge = false;
    pthread_mutex_unlock(&cq->lock);
    return busy;
}

void hook_cq_nudge(struct hook_cq *cq)
{
    pthread_mutex_lock(&cq->lock);
    cq->nudge = true;
    pthread_mutex_unlock(&cq->lock);
    if (cq->waits)
        (void) fi_cq_signal(cq->real);
}

void hook_cq_fail(struct hook_op *op, int error)
{
    struct hook_cq *cq = op->cq;
    struct fi_cq_err_entry entry;

    memset(&entry, 0, sizeof entry);
    entry.op_context = op;
    entry.flags = op->flags;
    entry.err = error;
    entry.prov_errno = -error;
    pthread_mutex_lock(&cq->lock);
    hook_cq_push(cq, &entry, true);
    pthread_mutex_unlock(&cq->lock);
    hook_cq_nudge(cq);
}

static struct fi_ops hook_cq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = hook_cq_close,
    .control = hook_cq_control,
};

static struct fi_ops_cq hook_cq_ops = {
    .size = sizeof(struct fi_ops_cq),
    .read = hook_cq_read,
    .readerr = hook_cq_readerr,
    .sread = hook_cq_sread,
    .signal = hook_cq_signal,
    .strerror = hook_cq_strerror,
};

static size_t hook_cq_format_size(enum fi_cq_format format)
{
    switch (format) {
    case FI_CQ_FORMAT_CONTEXT: return sizeof(struct fi_cq_entry);
    case FI_CQ_FORMAT_MSG: return sizeof(struct fi_cq_msg_entry);
    case FI_CQ_FORMAT_UNSPEC:
    case FI_CQ_FORMAT_DATA: return sizeof(struct fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED:
    default: hook_violation("a CQ format that the hook does not support");
    }
}

int hook_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr,
    struct fid_cq **cq_p, void *context)
{
    struct hook_domain *ours = (struct hook_domain *) domain;
    struct fi_cq_attr real = *attr;
    struct hook_cq *cq;
    int ret = hook_fault("cq");

    if (ret == 0 && hook_words.nowait && attr->wait_obj != FI_WAIT_NONE) {
        ret = -FI_ENOSYS;
        pthread_mutex_lock(&hook_lock);
        hook_count("nowait");
        pthread_mutex_unlock(&hook_lock);
    }
    if (ret != 0)
        return ret;
    cq = (struct hook_cq *) hook_alloc(sizeof *cq);
    real.format = FI_CQ_FORMAT_DATA;
    ret = fi_cq_open(ours->real, &real, &cq->real, context);
    if (ret != 0) {
        free(cq);
        return ret;
    }
    if (attr->format == FI_CQ_FORMAT_UNSPEC)
        attr->format = FI_CQ_FORMAT_DATA;
    cq->fid.fid.fclass = FI_CLASS_CQ;
    cq->fid.fid.context = context;
    cq->fid.fid.ops = &hook_cq_fid_ops;
    cq->fid.ops = &hook_cq_ops;
    cq->domain = ours;
    cq->format_size = hook_cq_format_size(attr->format);
    cq->waits = attr->wait_obj != FI_WAIT_NONE;
    pthread_mutex_init(&cq->lock, NULL);
    hook_opened(&ours->open, 1);
    *cq_p = &cq->fid;
    return 0;
}
