/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * locked: functions of the library that need the lock of a class, for tests
 * that call them as a transport or as the library does. Each takes the lock,
 * unless this thread has it.
 */
#ifndef HG_TESTS_UNIT_LOCKED_H
#define HG_TESTS_UNIT_LOCKED_H

#include "support/library.h"
#include "support/loop.h"

static inline struct hg_monitor *locked_class(const struct na_class *na_class)
{
    return na_class_core_of(na_class)->lock;
}

static inline bool locked_enter(struct hg_monitor *lock)
{
    if (hg_is_inside(lock))
        return false;
    hg_enter(lock);
    return true;
}

static inline void locked_leave(struct hg_monitor *lock, bool entered)
{
    if (entered)
        hg_leave(lock);
}

/* Calls `call` with the lock held. */
#define LOCKED(lock, call) \
    do { \
        struct hg_monitor *locked_by = (lock); \
        bool locked_now = locked_enter(locked_by); \
\
        call; \
        locked_leave(locked_by, locked_now); \
    } while (0)

/* ---- NA ---- */

static inline void locked_queue_push(
    struct na_queue *queue, enum na_lane lane, struct na_completion *entry)
{
    LOCKED(queue->lock, na_queue_push(queue, lane, entry));
}

static inline void locked_poke(struct na_context *context)
{
    LOCKED(locked_class(context->na_class), na_progress_poke(context));
}

static inline unsigned locked_poll(struct na_context *context)
{
    unsigned n;

    LOCKED(locked_class(context->na_class),
        n = na_class_ops(context->na_class)->poll(context));
    return n;
}

static inline struct na_op_core *locked_op_get(struct na_context *context,
    na_cb_type_t type, enum na_lane lane, na_cb_t callback, void *arg,
    na_op_id_t *op_id)
{
    struct na_op_core *op;

    LOCKED(locked_class(context->na_class),
        op = na_op_get(context, type, lane, callback, arg, op_id));
    return op;
}

static inline void locked_op_put(struct na_op_core *op)
{
    LOCKED(op->home->queue.lock, na_op_put(op));
}

static inline void locked_complete(struct na_op *op, na_return_t ret)
{
    LOCKED(locked_class(op->context->na_class), na_op_complete(op, ret));
}

static inline na_return_t locked_arrived(struct na_class *na_class,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size)
{
    na_return_t ret;

    LOCKED(locked_class(na_class),
        ret = na_msg_arrived(na_class, source, plane, target, tag, data, size));
    return ret;
}

static inline na_return_t locked_last(struct na_class *na_class,
    struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
    const void *data, na_size_t size)
{
    na_return_t ret;

    LOCKED(locked_class(na_class),
        ret = na_msg_last(na_class, source, plane, target, tag, data, size));
    return ret;
}

static inline void locked_addr_dead(struct na_addr *addr, na_return_t ret)
{
    LOCKED(locked_class(addr->na_class),
        addr->na_class->core->addr_dead(addr, ret));
}

static inline void locked_addr_parted(struct na_addr *addr)
{
    LOCKED(
        locked_class(addr->na_class), addr->na_class->core->addr_parted(addr));
}

static inline void locked_addr_unreached(struct na_addr *addr, na_return_t ret)
{
    LOCKED(locked_class(addr->na_class),
        addr->na_class->core->addr_unreached(addr, ret));
}

static inline void locked_addr_connected(struct na_addr *addr, na_return_t ret)
{
    LOCKED(locked_class(addr->na_class),
        addr->na_class->core->addr_connected(addr, ret));
}

static inline void locked_addr_abandon(struct na_addr *addr)
{
    LOCKED(locked_class(addr->na_class), na_addr_abandon(addr));
}

static inline void locked_addr_set_named(
    struct na_addr *addr, na_bool_t from_peer)
{
    LOCKED(locked_class(addr->na_class), na_addr_set_named(addr, from_peer));
}

/* ---- The emulation ---- */

static inline na_return_t locked_emul_cancel(struct na_op *op, uint64_t id)
{
    na_return_t ret;

    LOCKED(locked_class(op->context->na_class), ret = na_emul_cancel(op, id));
    return ret;
}

static inline na_return_t locked_emul_start(struct na_op *op, bool put)
{
    na_return_t ret;

    LOCKED(locked_class(op->context->na_class),
        ret = put ? na_emul_put(op) : na_emul_get(op));
    return ret;
}

static inline void locked_emul_context_gone(struct na_context *context)
{
    LOCKED(locked_class(context->na_class), na_emul_context_gone(context));
}

static inline void locked_emul_addr_dead(struct na_addr *addr, na_return_t ret)
{
    LOCKED(locked_class(addr->na_class), na_emul_addr_dead(addr, ret));
}

static inline void locked_emul_arrived(struct na_class *na_class,
    struct na_addr *source, const void *header, size_t header_size,
    const void *data, size_t size)
{
    LOCKED(locked_class(na_class),
        na_emul_frame_arrived(
            na_class, source, header, header_size, data, size));
}

/* ---- Calls ---- */

static inline hg_return_t locked_forward_cancel(struct hg_handle *handle)
{
    hg_return_t ret;

    LOCKED(handle->context->lock, ret = hg_forward_cancel(handle));
    return ret;
}

static inline void locked_forward_expired(struct hg_handle *handle)
{
    LOCKED(handle->context->lock, hg_forward_expired(handle));
}

static inline void locked_forward_forget(struct hg_handle *handle)
{
    LOCKED(handle->context->lock, hg_forward_forget(handle));
}

static inline void locked_forward_end_all(
    struct hg_context *context, const struct na_addr *addr, hg_return_t ret)
{
    LOCKED(context->lock, hg_forward_end_all(context, addr, ret));
}

static inline void locked_forward_left(
    struct hg_handle *handle, uint64_t sequence, hg_return_t ret)
{
    LOCKED(handle->context->lock, hg_forward_left(handle, sequence, ret));
}

static inline void locked_forward_unsent(
    struct hg_handle *handle, uint64_t sequence, hg_return_t ret)
{
    LOCKED(handle->context->lock, hg_forward_unsent(handle, sequence, ret));
}

static inline void locked_overflow_expired(struct hg_handle *handle)
{
    LOCKED(handle->context->lock, hg_overflow_expired(handle));
}

static inline void locked_cancel_peer(
    struct hg_context *context, const struct na_addr *addr)
{
    LOCKED(context->lock, hg_cancel_peer(context, addr));
}

static inline void locked_wait_raise(
    struct hg_context *context, _Atomic bool *done)
{
    LOCKED(context->lock, hg_wait_raise(context, done));
}

/* ---- The loop transport ---- */

static inline void locked_kill(na_class_t *na_class, na_addr_t addr)
{
    LOCKED(locked_class(na_class), loop_kill(na_class, addr));
}

static inline void locked_unstick(void)
{
    LOCKED(locked_class(loop_stuck_class()), loop_unstick());
}

#endif
