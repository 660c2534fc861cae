/* SPDX-License-Identifier: BSD-3-Clause */
/* op: see op.h. */
#include "na/op.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"

/* An identifier is a generation above a number of 24 bits, counted from 1. On
 * 32-bit machines the public identifier has 8 bits of the generation. */
#define NA_OP_NUMBERS 0xffffffu

HG_PRIVATE uint32_t na_op_table_pending(const struct na_context_core *context)
{
    uint32_t pending = 0;
    uint32_t i;

    HG_ASSERT(hg_is_inside(context->queue.lock));
    for (i = 0; i < context->op_count; i++)
        pending += context->ops[i]->state == NA_OP_PENDING;
    return pending;
}

/* Add a new operation to the end of the table. */
static struct na_op_core *na_op_grow(struct na_context_core *context)
{
    struct na_op_core *op;

    if (context->op_count >= NA_OP_NUMBERS)
        return NULL;
    if (context->op_count == context->op_capacity) {
        uint32_t capacity =
            context->op_capacity == 0 ? 16 : 2 * context->op_capacity;
        void *grown =
            hg_mem_realloc(context->ops, capacity * sizeof(context->ops[0]));

        if (grown == NULL)
            return NULL;
        context->ops = (struct na_op_core **) grown;
        context->op_capacity = capacity;
    }
    op = (struct na_op_core *) na_core_alloc(offsetof(struct na_op_core, pub),
        sizeof(struct na_op), na_class_ops(context->pub.na_class)->op_size);
    if (op == NULL)
        return NULL;
    context->ops[context->op_count] = op;
    op->id = (uint64_t) context->op_count + 1;
    context->op_count++;
    return op;
}

/* Fill in the argument of the callback. */
static void na_op_fill_info(
    const struct na_op_core *op, struct na_cb_info *info)
{
    memset(info, 0, sizeof(*info));
    info->arg = op->arg;
    info->ret = op->ret;
    info->type = op->pub.type;
    if (op->ret != NA_SUCCESS)
        return;
    switch (op->pub.type) {
    case NA_CB_LOOKUP: info->info.lookup.addr = op->pub.result_addr; break;
    case NA_CB_RECV_UNEXPECTED:
        info->info.recv_unexpected.actual_buf_size = op->pub.result_size;
        info->info.recv_unexpected.source = op->pub.result_addr;
        info->info.recv_unexpected.tag = op->pub.result_tag;
        break;
    case NA_CB_RECV_EXPECTED:
        info->info.recv_expected.actual_buf_size = op->pub.result_size;
        break;
    default: break;
    }
}

/* Whether a line of the log is about the host or the name that was looked
 * up. */
static bool na_op_is_about(const char *line, const char *name)
{
    const char *mark = strstr(name, "://");
    const char *rest = mark != NULL ? mark + 3 : name;
    size_t size = rest[0] == '[' ? strlen(rest) : strcspn(rest, ":");

    while (*line != '\0' && strncmp(line, rest, size) != 0)
        line++;
    return *line != '\0' && size > 0;
}

/* A lookup has failed, perhaps in another thread than the one that waits for
 * it: keep the line that this thread has logged about it. */
static void na_op_keep_error(struct na_op_core *op)
{
    const char *line = hg_log_last_error();
    bool is = op->pub.name != NULL && na_op_is_about(line, op->pub.name);

    if (op->name != NULL)
        (void) snprintf(op->name, HG_LOG_TEXT_MAX, "%s", is ? line : "");
    op->pub.name = NULL;
}

/* A lookup ends: mark and label its address, or tell the thread why it failed.
 * A thread that waits for its lookup keeps what it knows already. */
static void na_op_end_lookup(struct na_op_core *op)
{
    if (op->ret != NA_SUCCESS && op->name != NULL)
        hg_log_adopt_error(op->name);
    if (op->ret != NA_SUCCESS)
        return;
    na_addr_set_named(op->pub.result_addr, NA_FALSE);
    if (na_class_core_of(op->home->pub.na_class)->next != NULL)
        (void) na_addr_set_label(op->pub.result_addr, op->name);
}

/* Entry of the completion queue: call the callback, then recycle the operation.
 * Callbacks in the internal lane belong to the library and run with the lock
 * held. */
static void na_op_run(struct na_completion *done)
{
    struct na_op_core *op = HG_CONTAINER_OF(done, struct na_op_core, done);
    struct hg_monitor *lock = op->home->queue.lock;
    struct na_cb_info info;

    HG_ASSERT(op->state == NA_OP_DONE);
    if (op->pub.type == NA_CB_LOOKUP)
        na_op_end_lookup(op);
    na_op_fill_info(op, &info);
    if (op->ret == NA_SUCCESS && op->pub.result_addr != NULL &&
        op->lane != NA_LANE_INTERNAL)
        na_addr_give(op->pub.result_addr);
    op->pub.result_addr = NULL; /* now owned by the callback */
    if (op->lane == NA_LANE_INTERNAL) {
        (void) op->callback(&info);
    } else {
        hg_leave(lock);
        HG_ASSERT(hg_monitor_entered == 0);
        (void) op->callback(&info);
        hg_enter(lock);
    }
    na_op_put(op);
}

/* ---- Receives of many messages ---- */

/* A message, or the end, of a receive of many: an entry of its own, so that
 * callbacks run in the order in which the messages came. */
struct na_result_core {
    struct na_completion done;
    struct na_op_core *op;
    struct na_result pub; /* its source is a reference */
    struct na_result_core *next_free;
    struct na_result_core *older; /* all of the context */
};

/* A free one; NULL: out of memory. */
static struct na_result_core *na_result_get(struct na_context_core *context)
{
    struct na_result_core *result = context->result_free;

    if (result != NULL) {
        context->result_free = result->next_free;
        return result;
    }
    result = (struct na_result_core *) hg_mem_calloc(1, sizeof(*result));
    if (result != NULL) {
        result->older = context->results;
        context->results = result;
    }
    return result;
}

static void na_result_put(
    struct na_context_core *context, struct na_result_core *result)
{
    if (result->pub.source != NULL)
        na_addr_unuse(result->pub.source);
    result->pub.source = NULL;
    result->next_free = context->result_free;
    context->result_free = result;
}

/* Entry of the completion queue: call the callback. The last one waits for the
 * others of its receive: the thread that runs these queues it again. */
static void na_result_run(struct na_completion *done)
{
    struct na_result_core *result =
        HG_CONTAINER_OF(done, struct na_result_core, done);
    struct na_op_core *op = result->op;
    struct na_queue *queue = &op->home->queue;
    struct na_cb_info info;

    if (HG_UNLIKELY(result->pub.last && op->running > 0)) {
        op->last = result;
        op->home->put_off = true;
        op->home->flags++; /* until na_context_trigger sees it */
        return;
    }
    memset(&info, 0, sizeof(info));
    info.arg = op->arg;
    info.ret = result->pub.ret;
    info.type = op->pub.type;
    info.info.multi_recv_unexpected.actual_buf_size = result->pub.size;
    info.info.multi_recv_unexpected.source = result->pub.source;
    info.info.multi_recv_unexpected.tag = result->pub.tag;
    info.info.multi_recv_unexpected.actual_buf = result->pub.buf;
    info.info.multi_recv_unexpected.last = result->pub.last;
    op->running++;
    hg_leave(queue->lock);
    HG_ASSERT(hg_monitor_entered == 0);
    if (op->callback != NULL)
        (void) op->callback(&info);
    hg_enter(queue->lock);
    op->running--;
    if (HG_UNLIKELY(result->pub.last))
        na_op_put(op);
    else if (HG_UNLIKELY(op->last != NULL && op->running == 0))
        na_queue_push(queue, op->lane, &op->last->done);
    na_result_put(op->home, result);
}

HG_PRIVATE na_return_t na_op_open_results(struct na_op_core *op)
{
    HG_ASSERT(hg_is_inside(op->home->queue.lock));
    HG_ASSERT(op->spare == NULL && op->running == 0);
    op->last = NULL;
    op->spare = na_result_get(op->home);
    if (op->spare != NULL)
        return NA_SUCCESS;
    hg_log_error("op", "no memory for a receive of many messages");
    return NA_NOMEM;
}

HG_PRIVATE bool na_op_add_result(struct na_op *pub, struct na_result added)
{
    struct na_op_core *op = na_op_core_of(pub);
    struct na_result_core *result = NULL;

    HG_ASSERT(hg_is_inside(op->home->queue.lock));
    HG_ASSERT(op->state == NA_OP_PENDING && op->spare != NULL);
    if (!added.last)
        result = na_result_get(op->home);
    if (result == NULL) {
        result = op->spare;
        op->spare = NULL;
        op->state = NA_OP_DONE;
        added.last = true;
    }
    if (added.source != NULL)
        na_addr_use(added.source);
    result->done.run = na_result_run;
    result->op = op;
    result->pub = added;
    na_queue_push(&op->home->queue, op->lane, &result->done);
    return added.last;
}

HG_PRIVATE void na_op_set_part(
    struct na_op_core *op, const struct na_class *part)
{
    struct na_context *context = na_context_for(&op->home->pub, part);

    /* The transport's part of an operation is as the transport left it, or
     * zero. */
    if (HG_UNLIKELY(op->pub.context != context) && op->pub.context != NULL)
        memset(&op->pub + 1, 0,
            na_class_ops(op->home->pub.na_class)->op_size - sizeof(op->pub));
    op->pub.context = context;
}

HG_PRIVATE struct na_op_core *na_op_get(struct na_context *context,
    na_cb_type_t type, enum na_lane lane, na_cb_t callback, void *arg,
    na_op_id_t *op_id)
{
    struct na_context_core *core = na_context_core_of(context);
    struct na_op_core *op;

    HG_ASSERT(hg_is_inside(core->queue.lock));
    op = core->op_free;
    if (op != NULL)
        core->op_free = op->next_free;
    else
        op = na_op_grow(core);
    if (op == NULL) {
        hg_log_error("op", "no memory for an operation");
        return NULL;
    }
    op->state = NA_OP_PENDING;
    op->done.run = na_op_run;
    op->lane = lane;
    op->callback = callback;
    op->arg = arg;
    op->home = core;
    op->handed = false;
    na_op_set_part(op, context->na_class);
    memset(&op->pub, 0, sizeof(op->pub));
    op->pub.type = type;
    op->pub.context = context;
    hg_list_init(&op->pub.link);
    if (op_id != NA_OP_ID_IGNORE)
        *op_id = na_op_public_id(op);
    return op;
}

/* Release the handles of a put or get. */
static void na_op_drop_mems(struct na_op *op)
{
    uint32_t before;

    if (op->local == NULL)
        return;
    before = atomic_fetch_sub(&na_mem_core_of(op->local)->users, 1);
    HG_ASSERT(before > 0);
    before = atomic_fetch_sub(&na_mem_core_of(op->remote)->users, 1);
    HG_ASSERT(before > 0);
    (void) before;
    op->local = NULL;
    op->remote = NULL;
}

HG_PRIVATE void na_op_put(struct na_op_core *op)
{
    struct na_context_core *core = op->home;

    HG_ASSERT(hg_is_inside(core->queue.lock));
    HG_ASSERT(op->state != NA_OP_FREE);
    na_op_drop_mems(&op->pub);
    if (op->pub.addr != NULL)
        na_addr_unref_locked(op->pub.addr);
    if (op->pub.result_addr != NULL)
        na_addr_unref_locked(op->pub.result_addr);
    hg_mem_free(op->segments);
    op->segments = NULL;
    hg_mem_free(op->name);
    op->name = NULL;
    HG_ASSERT(hg_list_is_empty(&op->pub.link));
    op->state = NA_OP_FREE;
    /* Identifiers returned so far become invalid. */
    op->id += NA_OP_NUMBERS + 1;
    op->next_free = core->op_free;
    core->op_free = op;
}

HG_PRIVATE na_return_t na_op_started(na_return_t ret, na_op_id_t *op_id)
{
    if (HG_UNLIKELY(ret != NA_SUCCESS) && op_id != NA_OP_ID_IGNORE)
        *op_id = NA_OP_ID_NULL;
    return ret;
}

HG_PRIVATE na_return_t na_op_set_msg(
    struct na_op_core *op, const struct na_msg *msg)
{
    size_t size = msg->segment_count * sizeof(*op->segments);

    op->segments = (struct na_segment *) hg_mem_alloc(size + 1);
    if (op->segments == NULL) {
        hg_log_error(
            "msg", "no memory for %" PRIu64 " segments", msg->segment_count);
        return NA_NOMEM;
    }
    if (size > 0)
        memcpy(op->segments, msg->segments, size);
    op->pub.msg = *msg;
    op->pub.msg.segments = op->segments;
    return NA_SUCCESS;
}

HG_PRIVATE void na_op_set_addr(struct na_op_core *op, struct na_addr *addr)
{
    HG_ASSERT(op->pub.addr == NULL);
    na_addr_ref(addr);
    op->pub.addr = addr;
}

HG_PRIVATE void na_op_set_mems(struct na_op_core *op,
    struct na_mem_handle *local, struct na_mem_handle *remote)
{
    op->pub.local = local;
    op->pub.remote = remote;
    atomic_fetch_add(&na_mem_core_of(local)->users, 1);
    atomic_fetch_add(&na_mem_core_of(remote)->users, 1);
}

HG_PRIVATE na_op_id_t na_op_public_id(const struct na_op_core *op)
{
    return (na_op_id_t) (uintptr_t) op->id;
}

HG_PRIVATE void na_op_complete(struct na_op *op, na_return_t ret)
{
    struct na_op_core *core = na_op_core_of(op);
    struct na_context_core *context = core->home;

    HG_ASSERT(hg_is_inside(context->queue.lock));
    HG_ASSERT(core->state == NA_OP_PENDING);
    core->ret = ret;
    na_op_drop_mems(op);
    if (HG_UNLIKELY(ret != NA_SUCCESS) && op->type == NA_CB_LOOKUP)
        na_op_keep_error(core);
    if (ret != NA_SUCCESS && op->result_addr != NULL) {
        na_addr_unref_locked(op->result_addr);
        op->result_addr = NULL;
    }
    if (core->callback == NULL) {
        na_op_put(core);
    } else {
        core->state = NA_OP_DONE;
        na_queue_push(&context->queue, core->lane, &core->done);
    }
}

HG_PRIVATE struct na_op_core *na_op_find(
    struct na_context_core *context, na_op_id_t op_id)
{
    uint32_t number = (uint32_t) (uintptr_t) op_id & NA_OP_NUMBERS;
    struct na_op_core *op;

    HG_ASSERT(hg_is_inside(context->queue.lock));
    if (number < 1 || number > context->op_count)
        return NULL;
    op = context->ops[number - 1];
    return na_op_public_id(op) == op_id && op->state == NA_OP_PENDING ? op
                                                                      : NULL;
}

HG_PRIVATE void na_op_table_fini(struct na_context_core *context)
{
    struct na_result_core *result;
    uint32_t i;

    HG_ASSERT(hg_is_inside(context->queue.lock));
    for (i = 0; i < context->op_count; i++) {
        if (context->ops[i]->state == NA_OP_DONE)
            na_op_put(context->ops[i]); /* its callback does not run */
        hg_mem_free(context->ops[i]);
    }
    hg_mem_free(context->ops);
    while ((result = context->results) != NULL) {
        context->results = result->older;
        if (result->pub.source != NULL) /* its callback does not run */
            na_addr_unuse(result->pub.source);
        hg_mem_free(result);
    }
}
