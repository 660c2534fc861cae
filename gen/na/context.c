/* SPDX-License-Identifier: BSD-3-Clause */
/* context: see context.h. */
#include "na/context.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "emul/emul.h"
#include "na/live.h"
#include "na/msg.h"
#include "na/notify.h"
#include "na/op.h"
#include "na/progress.h"

/* Add the context to its class with the first free id. */
static na_return_t na_context_number(
    struct na_class_core *core, struct na_context_core *context)
{
    unsigned limit = core->info.max_contexts;
    unsigned others = 0;
    unsigned i;

    hg_lock(&core->list_lock);
    for (i = 0; i < NA_CORE_CONTEXTS; i++)
        others += core->contexts[i] != NULL && !core->contexts[i]->own;
    for (i = 0; i < NA_CORE_CONTEXTS && core->contexts[i] != NULL; i++)
        continue;
    if (i < NA_CORE_CONTEXTS &&
        (context->own || limit == 0 || others < limit)) {
        context->pub.id = (uint8_t) i;
        core->contexts[i] = context;
        if (i >= core->context_high)
            core->context_high = i + 1;
    } else {
        i = NA_CORE_CONTEXTS;
    }
    hg_unlock(&core->list_lock);
    if (i < NA_CORE_CONTEXTS)
        return NA_SUCCESS;
    hg_log_error("ctx", "no more than %u contexts in this class",
        limit != 0 ? limit : NA_CORE_CONTEXTS);
    return NA_AGAIN;
}

static void na_context_remove(struct na_context_core *context)
{
    struct na_class_core *core = na_class_core_of(context->pub.na_class);

    hg_lock(&core->list_lock);
    HG_ASSERT(core->contexts[context->pub.id] == context);
    core->contexts[context->pub.id] = NULL;
    hg_unlock(&core->list_lock);
}

/* ---- Parts ---- */

/* Allocate the context of one part, zeroed except for the fields that the
 * transport reads. NULL: out of memory (logged). */
static struct na_context_core *na_context_new(
    struct na_class_core *part, uint8_t id, bool helper)
{
    struct na_context_core *context = (struct na_context_core *) na_core_alloc(
        offsetof(struct na_context_core, pub), sizeof(struct na_context),
        part->ops.context_size);

    if (context == NULL) {
        hg_log_error("ctx", "no memory for a context");
        return NULL;
    }
    context->epoll_fd = -1;
    context->timer_fd = -1;
    context->pub.na_class = &part->pub;
    context->pub.id = id;
    context->pub.helper = helper;
    return context;
}

/* Close the context in each transport. */
static void na_context_close_parts(struct na_context_core *context)
{
    for (; context != NULL; context = context->next)
        na_class_ops(context->pub.na_class)->context_destroy(&context->pub);
}

/* Free the memory of all parts. */
static void na_context_free(struct na_context_core *context)
{
    while (context != NULL) {
        struct na_context_core *next = context->next;

        hg_mem_free(context);
        context = next;
    }
}

/* Open the context for the transport of each part. */
static na_return_t na_context_open_parts(struct na_context_core *context)
{
    struct na_class_core *core = na_class_core_of(context->pub.na_class);
    na_return_t ret = core->ops.context_create(&context->pub);
    struct na_context_core **next_p = &context->next;
    struct na_context_core *part;

    if (ret != NA_SUCCESS)
        return ret;
    for (core = core->next; core != NULL; core = core->next) {
        part = na_context_new(core, context->pub.id, context->pub.helper);
        ret = part != NULL ? core->ops.context_create(&part->pub) : NA_NOMEM;
        if (ret != NA_SUCCESS) {
            hg_mem_free(part);
            na_context_close_parts(context);
            return ret;
        }
        *next_p = part;
        next_p = &part->next;
    }
    return NA_SUCCESS;
}

/* ---- Life ---- */

HG_PRIVATE na_return_t na_context_create(struct na_class *na_class,
    enum na_context_use use, struct na_context **context_p)
{
    struct na_class_core *core = na_class_core_of(na_class);
    struct na_context_core *context =
        na_context_new(core, 0, use == NA_CONTEXT_HELPER);
    na_return_t ret;

    if (context == NULL)
        return NA_NOMEM;
    context->own = use != NA_CONTEXT_USER;
    context->timer_set = HG_CLOCK_NEVER;
    context->window = (uint64_t) core->info.spin_us * 1000;
    ret = na_queue_init(&context->queue, core->lock);
    if (ret != NA_SUCCESS)
        goto free_context;
    ret = na_context_number(core, context);
    if (ret != NA_SUCCESS)
        goto fini_queue;
    ret = na_context_open_parts(context);
    if (ret != NA_SUCCESS)
        goto remove_context;
    ret = na_live_add(NA_LIVE_NA_CONTEXT, &context->pub);
    if (ret != NA_SUCCESS)
        goto destroy_context;
    *context_p = &context->pub;
    return NA_SUCCESS;

destroy_context:
    na_context_close_parts(context);
remove_context:
    na_context_remove(context);
fini_queue:
    na_context_enter(context);
    na_op_table_fini(context);
    na_context_leave(context);
    na_queue_fini(&context->queue);
free_context:
    na_context_free(context);
    return ret;
}

static void na_context_cancel_pending(struct na_context_core *context)
{
    uint32_t i;

    for (i = 0; i < context->op_count; i++) {
        if (context->ops[i]->state == NA_OP_PENDING)
            (void) na_context_cancel(
                &context->pub, na_op_public_id(context->ops[i]));
    }
}

HG_PRIVATE void na_context_cancel_all(struct na_context *context)
{
    struct na_context_core *core = na_context_core_of(context);

    na_context_enter(core);
    na_context_cancel_pending(core);
    na_context_leave(core);
}

/* Make progress until no operation is pending. False: some still are. */
static bool na_context_drain(struct na_context_core *context, unsigned ms)
{
    uint64_t deadline = hg_clock_after_ms(ms);
    struct na_context_core *part;
    uint32_t left;

    na_context_enter(context);
    na_context_cancel_pending(context);
    while (na_op_table_pending(context) > 0 && hg_clock_now() < deadline)
        (void) na_progress(&context->pub, 0, NULL, hg_clock_after_ms(1));
    for (part = context; part != NULL; part = part->next) {
        if (na_class_emul(part->pub.na_class) != NULL)
            na_emul_context_gone(&part->pub);
    }
    if (na_op_table_pending(context) > 0) /* of which steps have ended */
        (void) na_queue_run(
            &context->queue, NA_LANES_INTERNAL, UINT_MAX, HG_CLOCK_NEVER);
    left = na_op_table_pending(context);
    na_context_leave(context);
    if (left > 0 && ms > 0)
        hg_log_error("ctx",
            "%" PRIu32 " operations did not end with their context", left);
    return left == 0;
}

HG_PRIVATE bool na_context_is_busy(struct na_context *context)
{
    struct na_context_core *core = na_context_core_of(context);

    HG_ASSERT(hg_is_inside(core->queue.lock));
    return core->progressing || core->flags > 0 ||
        na_queue_is_running(&core->queue) ||
        !hg_list_is_empty(&core->queue.sleepers);
}

HG_PRIVATE na_return_t na_context_destroy(
    struct na_context *context, unsigned drain_ms)
{
    struct na_context_core *core = na_context_core_of(context);
    bool quiet;
    bool busy;

    na_context_enter(core);
    busy = na_context_is_busy(context);
    na_context_leave(core);
    if (busy) {
        hg_log_error("ctx", "the context is in use by a thread or a callback");
        return NA_BUSY;
    }
    quiet = na_context_drain(core, drain_ms);
    na_context_enter(core);
    if (core->poll_armed)
        na_progress_disarm(core);
    na_context_leave(core);
    na_live_remove(NA_LIVE_NA_CONTEXT, context);
    na_context_close_parts(core);
    na_context_remove(core);
    if (core->epoll_fd >= 0) {
        (void) close(core->epoll_fd);
        (void) close(core->timer_fd);
    }
    if (!quiet)
        return NA_SUCCESS;
    na_context_enter(core);
    na_op_table_fini(core);
    na_context_leave(core);
    na_queue_fini(&core->queue);
    na_context_free(core);
    return NA_SUCCESS;
}

/* Cancel a put or get. The transport may hand it over to the emulation, but
 * never the reverse. */
static na_return_t na_context_cancel_rma(struct na_op *op)
{
    const struct na_plugin *ops = na_class_ops(op->context->na_class);
    bool emulated = na_class_emul(op->context->na_class) != NULL;
    na_return_t ret = NA_NOENTRY;

    if (!emulated || (ops->caps & NA_CAP_HANDS_OVER) != 0)
        ret = ops->cancel(op, na_op_id_of(op));
    if (ret == NA_NOENTRY && emulated)
        ret = na_emul_cancel(op, na_op_id_of(op));
    return ret;
}

HG_PRIVATE na_return_t na_context_cancel(
    struct na_context *context, na_op_id_t op_id)
{
    struct na_context_core *core = na_context_core_of(context);
    na_return_t ret = NA_NOENTRY;
    na_op_id_t put, send;
    struct na_op_core *op;

    HG_ASSERT(hg_is_inside(core->queue.lock));
    op = na_op_find(core, op_id);
    if (op == NULL)
        return NA_NOENTRY;
    switch (op->pub.type) {
    case NA_CB_RECV_UNEXPECTED:
    case NA_CB_MULTI_RECV_UNEXPECTED:
    case NA_CB_RECV_EXPECTED: ret = na_msg_cancel(&op->pub); break;
    case NA_CB_PUT:
    case NA_CB_GET: ret = na_context_cancel_rma(&op->pub); break;
    case NA_CB_PUT_NOTIFY:
        na_notify_steps(op, &put, &send);
        ret = na_context_cancel(context, put); /* one step deep */
        if (ret == NA_NOENTRY)
            ret = na_context_cancel(context, send);
        break;
    default:
        ret = na_class_ops(op->pub.context->na_class)
                  ->cancel(&op->pub, na_op_id_of(&op->pub));
    }
    return ret;
}

NA_EXPORT na_context_t *NA_Context_create(na_class_t *na_class)
{
    struct na_context *context = NULL;

    if (na_live_check(na_class, "NA_Context_create") != NA_SUCCESS ||
        na_context_create(na_class, NA_CONTEXT_USER, &context) != NA_SUCCESS)
        return NULL;
    return context;
}

NA_EXPORT na_return_t NA_Context_destroy(
    na_class_t *na_class, na_context_t *context)
{
    na_return_t ret =
        na_live_check_context(na_class, context, "NA_Context_destroy");

    return ret == NA_SUCCESS ? na_context_destroy(context, NA_CONTEXT_DRAIN_MS)
                             : ret;
}

/* Run up to `max` callbacks. After each, wake the threads whose flags it set:
 * the next one may take long. */
static unsigned na_context_trigger(
    struct na_context_core *context, unsigned max)
{
    unsigned n = 0;

    while (n < max &&
        na_queue_run(&context->queue, NA_LANES_ALL, 1, HG_CLOCK_NEVER) > 0) {
        n++;
        if (HG_UNLIKELY(context->flags > 0)) {
            if (context->put_off) { /* no callback ran */
                context->put_off = false;
                context->flags--;
                n--;
            }
            na_queue_wake_raised(&context->queue);
        }
    }
    return n;
}

NA_EXPORT na_return_t NA_Trigger(na_context_t *context, unsigned int timeout,
    unsigned int max_count, unsigned int *actual_count)
{
    struct na_queue *queue;
    na_return_t ret = NA_SUCCESS;
    uint64_t deadline;
    unsigned n;

    if (!na_live_has(NA_LIVE_NA_CONTEXT, context)) {
        hg_log_error("ctx", "NA_Trigger: %s",
            context == NULL ? "the context is NULL"
                            : "there is no such context");
        return NA_INVALID_ARG;
    }
    if (na_class_is_forked(context->na_class))
        return na_live_check(context->na_class, "NA_Trigger");
    queue = &na_context_core_of(context)->queue;
    hg_enter(queue->lock);
    deadline = timeout == 0 ? 0 : hg_clock_after_ms(timeout);
    for (;;) {
        n = na_context_trigger(na_context_core_of(context), max_count);
        if (n > 0 || max_count == 0 || ret != NA_SUCCESS)
            break;
        ret = na_queue_sleep(queue, NA_LANES_ALL, NULL, deadline);
    }
    hg_leave(queue->lock);
    if (actual_count != NULL)
        *actual_count = n;
    return n > 0 ? NA_SUCCESS : ret;
}

NA_EXPORT na_return_t NA_Cancel(
    na_class_t *na_class, na_context_t *context, na_op_id_t op_id)
{
    na_return_t ret = na_live_check_context(na_class, context, "NA_Cancel");

    if (ret != NA_SUCCESS)
        return ret;
    na_context_enter(na_context_core_of(context));
    ret = na_context_cancel(context, op_id);
    na_context_leave(na_context_core_of(context));
    return ret;
}
