/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk_call: bulk data of the callback model.
 *
 * Handles are those of the room bulk, in the layer of a class; a transfer is
 * one of bulk_transfer, on its context. Here arguments are checked, in the
 * order in which Mercury does, so that of two mistakes the same one is told;
 * and a transfer gets a ticket, by which the application may cancel it: that of
 * one which has ended names nothing.
 *
 *     HG_Bulk_transfer   hg_transfer_create, a ticket, hg_transfer_begin
 *       ...              whatever ends it queues it once (bulk_transfer)
 *     hg_bulk_call_ended takes the ticket back, runs the callback
 *
 * A handle may be one of the request model's, whose layer may be ending: it is
 * freed as there.
 *
 * Nothing above includes this room: it has no header.
 *
 * Locking: one mutex guards the tickets, of all classes: it is held for a few
 * instructions, and by whoever asks for a ticket only. A transfer's own lock is
 * taken inside. A process that forks holds it, so that HG_Bulk_cancel can tell
 * a parent's transfer in the child.
 */
#include "base/lock.h"
#include "base/log.h"
#include "hg/bulk_wire.h"
#include "hg/check.h"
#include "hg/context.h"
#include "hg/ticket.h"
#include "na/addr.h"
#include "na/live.h"
#include "na/lookup.h"

/* As many segments as need no memory to be told. */
#define HG_BULK_CALL_FEW 16

/* A transfer under way. */
struct hg_bulk_call {
    hg_cb_t callback; /* NULL: nobody wants to hear */
    uintptr_t ticket; /* 0: none */
    struct hg_cb_info info;
};

/* Of transfers, each until its callback runs. */
static pthread_mutex_t hg_bulk_call_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hg_tickets hg_bulk_call_tickets;

static pthread_once_t hg_bulk_call_once = PTHREAD_ONCE_INIT;

/* ---- Fork ---- */

/* A child finds its parent's tickets whole. */
static void hg_bulk_call_fork_prepare(void)
{
    hg_lock(&hg_bulk_call_lock);
}

static void hg_bulk_call_fork_end(void)
{
    hg_unlock(&hg_bulk_call_lock);
}

static void hg_bulk_call_begin(void)
{
    hg_log_atfork(hg_bulk_call_fork_prepare, hg_bulk_call_fork_end,
        hg_bulk_call_fork_end);
}

/* ---- Arguments ---- */

/* Whether the handle can be used. HG_INVALID_ARG; HG_FAULT: its layer has
 * ended, or is the parent's of a child of fork. All logged. */
static hg_return_t hg_bulk_call_check(
    const struct hg_bulk *bulk, const char *function)
{
    if (bulk == NULL)
        return hg_log_misuse("bulk", function, "the handle is NULL");
    if (bulk->layer != NULL)
        return na_live_check(bulk->layer->na_class, function);
    (void) hg_log_misuse(
        "bulk", function, "the bulk layer of a handle has ended");
    return HG_FAULT;
}

/* ---- Handles ---- */

/* The sizes as the module bulk has them: in `few`, or on the heap. NULL: no
 * memory (logged). */
static size_t *hg_bulk_call_sizes(
    uint32_t count, const hg_size_t *buf_sizes, size_t *few)
{
    size_t *sizes = few;
    uint32_t i;

    assert(buf_sizes != NULL);
    few[0] = 0; /* no segments: it is refused later */
    if (count > HG_BULK_CALL_FEW)
        sizes = (size_t *) hg_mem_alloc(count * sizeof(sizes[0]));
    if (sizes == NULL) {
        hg_log_error("bulk", "no memory for %" PRIu32 " segments", count);
        return NULL;
    }
    /* What no memory has is refused like any other size. */
    for (i = 0; i < count; i++)
        sizes[i] = buf_sizes[i] <= SIZE_MAX ? (size_t) buf_sizes[i] : SIZE_MAX;
    return sizes;
}

static hg_return_t hg_bulk_call_create(hg_class_t *hg_class, uint32_t count,
    void **buf_ptrs, const hg_size_t *buf_sizes, uint8_t flags,
    hg_bulk_t *handle)
{
    size_t few[HG_BULK_CALL_FEW];
    size_t *sizes;
    hg_return_t ret;

    ret = hg_check_class(hg_class, "HG_Bulk_create");
    if (ret != HG_SUCCESS)
        return ret;
    if (handle == NULL || buf_sizes == NULL)
        return hg_log_misuse("bulk", "HG_Bulk_create", "an argument is NULL");
    sizes = hg_bulk_call_sizes(count, buf_sizes, few);
    if (sizes == NULL)
        return HG_NOMEM;
    ret =
        hg_bulk_create(hg_class->layer, count, buf_ptrs, sizes, flags, handle);
    if (sizes != few)
        hg_mem_free(sizes);
    return ret;
}

hg_return_t HG_Bulk_create(hg_class_t *hg_class, uint32_t count,
    void **buf_ptrs, const hg_size_t *buf_sizes, uint8_t flags,
    hg_bulk_t *handle)
{
    return hg_bulk_call_create(
        hg_class, count, buf_ptrs, buf_sizes, flags, handle);
}

hg_return_t HG_Bulk_create_attr(hg_class_t *hg_class, uint32_t count,
    void **buf_ptrs, const hg_size_t *buf_sizes, uint8_t flags,
    const struct hg_bulk_attr *attrs, hg_bulk_t *handle)
{
    if (attrs == NULL)
        return hg_log_misuse(
            "bulk", "HG_Bulk_create_attr", "an argument is NULL");
    if (attrs->mem_type != HG_MEM_TYPE_HOST) {
        hg_log_error(
            "bulk", "HG_Bulk_create_attr: only the host's memory can be moved");
        return HG_OPNOTSUPPORT;
    }
    return hg_bulk_call_create(
        hg_class, count, buf_ptrs, buf_sizes, flags, handle);
}

hg_return_t HG_Bulk_free(hg_bulk_t handle)
{
    hg_return_t ret;

    if (handle == HG_BULK_NULL)
        return HG_SUCCESS;
    if (handle->layer == NULL || handle->layer == hg_bulk_current())
        return HG_Bulk_handle_free(handle);
    ret = hg_bulk_call_check(handle, "HG_Bulk_free");
    return ret == HG_SUCCESS ? hg_bulk_take_back(handle) : ret;
}

hg_return_t HG_Bulk_ref_incr(hg_bulk_t handle)
{
    hg_return_t ret = HG_SUCCESS;

    if (handle == HG_BULK_NULL)
        return hg_log_misuse("bulk", "HG_Bulk_ref_incr", "the handle is NULL");
    if (handle->layer != NULL)
        ret = na_live_check(handle->layer->na_class, "HG_Bulk_ref_incr");
    if (ret == HG_SUCCESS)
        hg_bulk_give(handle);
    return ret;
}

hg_return_t HG_Bulk_bind(hg_bulk_t handle, hg_context_t *context)
{
    hg_return_t ret = hg_bulk_call_check(handle, "HG_Bulk_bind");

    if (ret == HG_SUCCESS)
        ret = hg_check_context(context, "HG_Bulk_bind");
    if (ret != HG_SUCCESS)
        return ret;
    if (context->hg_class->layer != handle->layer)
        return hg_log_misuse("bulk", "HG_Bulk_bind",
            "handle and context are of different classes");
    return hg_bulk_bind(handle, context->id);
}

/* The owner's address of a handle that was passed on. */
static struct na_addr *hg_bulk_call_look_up(struct hg_bulk *bulk)
{
    struct na_addr *addr = NULL;

    assert(bulk->remote && bulk->owner != NULL);
    if (na_lookup_resolve(bulk->layer->na_class, bulk->owner, NA_TRUE, &addr) !=
        NA_SUCCESS)
        return NULL;
    hg_bulk_set_addr(bulk, addr);
    na_addr_unref(addr);
    return atomic_load(&bulk->addr);
}

hg_addr_t HG_Bulk_get_addr(hg_bulk_t handle)
{
    struct na_addr *addr;

    if (hg_bulk_call_check(handle, "HG_Bulk_get_addr") != HG_SUCCESS ||
        !hg_bulk_is_bound(handle))
        return HG_ADDR_NULL;
    if (!handle->remote)
        return handle->layer->na_class->self_addr;
    addr = atomic_load(&handle->addr);
    return addr != NULL || handle->owner == NULL ? addr
                                                 : hg_bulk_call_look_up(handle);
}

uint8_t HG_Bulk_get_context_id(hg_bulk_t handle)
{
    if (handle == HG_BULK_NULL) {
        (void) hg_log_misuse(
            "bulk", "HG_Bulk_get_context_id", "the handle is NULL");
        return 0;
    }
    return hg_bulk_is_bound(handle) ? hg_bulk_source(handle)->context_id : 0;
}

hg_return_t HG_Bulk_access(hg_bulk_t handle, hg_size_t offset, hg_size_t size,
    uint8_t flags, uint32_t max_count, void **buf_ptrs, hg_size_t *buf_sizes,
    uint32_t *actual_count)
{
    unsigned none = 0;
    uint32_t count = 0;
    size_t segment = 0;
    size_t at = (size_t) offset;
    size_t left = (size_t) size;
    hg_return_t ret;

    (void) flags;
    if (handle == HG_BULK_NULL)
        return hg_log_misuse("bulk", "HG_Bulk_access", "the handle is NULL");
    if (size == 0 || max_count == 0)
        return HG_SUCCESS;
    if (offset > SIZE_MAX || size > SIZE_MAX) /* past any end */
        at = left = SIZE_MAX;
    ret = hg_bulk_access(handle, at, left, 0, 0, NULL, NULL, &none);
    if (ret != HG_SUCCESS)
        return ret;
    while (count < max_count) {
        void *ptr;
        size_t length;

        if (!hg_bulk_next_run(handle, &segment, &at, &left, &ptr, &length))
            break;
        if (buf_ptrs != NULL)
            buf_ptrs[count] = ptr;
        if (buf_sizes != NULL)
            buf_sizes[count] = length;
        count++;
    }
    if (actual_count != NULL)
        *actual_count = count;
    return HG_SUCCESS;
}

hg_size_t HG_Bulk_get_size(hg_bulk_t handle)
{
    return handle != HG_BULK_NULL ? handle->size : 0;
}

/* A handle of the request model may have more than the type can tell. */
uint32_t HG_Bulk_get_segment_count(hg_bulk_t handle)
{
    if (handle == HG_BULK_NULL)
        return 0;
    return handle->segment_count < UINT32_MAX ? (uint32_t) handle->segment_count
                                              : UINT32_MAX;
}

uint8_t HG_Bulk_get_flags(hg_bulk_t handle)
{
    return handle != HG_BULK_NULL ? (uint8_t) handle->flags : 0;
}

hg_size_t HG_Bulk_get_serialize_size(hg_bulk_t handle, unsigned long flags)
{
    (void) flags;
    return hg_bulk_call_check(handle, "HG_Bulk_get_serialize_size") ==
            HG_SUCCESS
        ? hg_bulk_serialize_size(handle)
        : 0;
}

hg_return_t HG_Bulk_serialize(
    void *buf, hg_size_t buf_size, unsigned long flags, hg_bulk_t handle)
{
    hg_return_t ret = hg_bulk_call_check(handle, "HG_Bulk_serialize");

    (void) flags;
    if (ret != HG_SUCCESS)
        return ret;
    if (buf == NULL)
        return hg_log_misuse("bulk", "HG_Bulk_serialize", "buf is NULL");
    ret = hg_bulk_serialize(
        handle, buf, buf_size <= SIZE_MAX ? (size_t) buf_size : SIZE_MAX);
    return ret == HG_MSGSIZE ? HG_OVERFLOW : ret;
}

hg_return_t HG_Bulk_deserialize(hg_class_t *hg_class, hg_bulk_t *handle,
    const void *buf, hg_size_t buf_size)
{
    hg_return_t ret = hg_check_class(hg_class, "HG_Bulk_deserialize");

    if (ret != HG_SUCCESS)
        return ret;
    if (handle == NULL || buf == NULL)
        return hg_log_misuse(
            "bulk", "HG_Bulk_deserialize", "an argument is NULL");
    return hg_bulk_deserialize(hg_class->layer, buf, (size_t) buf_size, handle);
}

/* ---- Transfers ---- */

/* What one is to do, as the application says it. */
struct hg_bulk_call_args {
    struct hg_context *context;
    hg_bulk_op_t op;
    struct na_addr *addr; /* NULL: the origin's handle is to tell it */
    struct hg_bulk *origin;
    hg_size_t origin_offset;
    struct hg_bulk *local;
    hg_size_t local_offset;
    hg_size_t size;
    uint8_t origin_id; /* the context that is asked of the origin's memory */
};

static bool hg_bulk_call_is_inside(
    const struct hg_bulk *bulk, hg_size_t offset, hg_size_t size)
{
    return offset <= bulk->size && size <= bulk->size - offset;
}

/* Whether flags of both sides allow it. An unknown operation is not told
 * here. */
static bool hg_bulk_call_is_allowed(const struct hg_bulk_call_args *args)
{
    bool pull = args->op == HG_BULK_PULL;
    const struct hg_bulk *from = pull ? args->origin : args->local;
    const struct hg_bulk *to = pull ? args->local : args->origin;

    return (from->flags & HG_BULK_READ_ONLY) != 0 &&
        (to->flags & HG_BULK_WRITE_ONLY) != 0;
}

/* What is wrong with the arguments but for flags; NULL: nothing. `bind`: the
 * origin's handle is to be a bound one. */
static const char *hg_bulk_call_judge(
    const struct hg_bulk_call_args *args, bool bind)
{
    const struct hg_bulk_layer *layer;

    if (args->origin == NULL)
        return "the origin's handle is NULL";
    if (!hg_bulk_call_is_inside(args->origin, args->origin_offset, args->size))
        return "past the end of the origin's handle";
    if (hg_bulk_is_bound(args->origin) != bind)
        return bind ? "the origin's handle is not bound"
                    : "the origin's handle is bound: HG_Bulk_bind_transfer is "
                      "for it";
    if (!bind && args->addr == NULL)
        return "the address is NULL";
    if (args->local == NULL)
        return "the local handle is NULL";
    if (!hg_bulk_call_is_inside(args->local, args->local_offset, args->size))
        return "past the end of the local handle";
    layer = args->context->hg_class->layer;
    if (args->origin->layer != layer || args->local->layer != layer ||
        (args->addr != NULL &&
            args->addr->na_class != args->context->hg_class->na_class))
        return "context, handles and address are of different classes";
    return NULL;
}

static hg_return_t hg_bulk_call_check_args(
    const struct hg_bulk_call_args *args, bool bind, const char *function)
{
    hg_return_t ret = hg_check_context(args->context, function);
    const char *wrong;

    if (ret != HG_SUCCESS)
        return ret;
    wrong = hg_bulk_call_judge(args, bind);
    if (wrong != NULL) { /* limited: the origin's handle may be a peer's */
        hg_log_error("bulk", "%s: %s", function, wrong);
        return HG_INVALID_ARG;
    }
    if (!hg_bulk_call_is_allowed(args)) {
        hg_log_error(
            "bulk", "%s: a handle's flags forbid the direction", function);
        return HG_PERMISSION;
    }
    return HG_SUCCESS;
}

/* Its ticket names nothing from now on. With the last one the table goes. */
static void hg_bulk_call_revoke(uintptr_t ticket)
{
    void *transfer;

    hg_lock(&hg_bulk_call_lock);
    transfer = hg_ticket_take(&hg_bulk_call_tickets, ticket);
    assert(transfer != NULL);
    (void) transfer;
    if (hg_bulk_call_tickets.slots.count == 0)
        (void) hg_ticket_take_any(&hg_bulk_call_tickets);
    hg_unlock(&hg_bulk_call_lock);
}

/* From the queue: the transfer is over. */
static void hg_bulk_call_ended(hg_return_t ret, void *arg)
{
    struct hg_bulk_call *call = (struct hg_bulk_call *) arg;

    if (call->ticket != 0)
        hg_bulk_call_revoke(call->ticket);
    assert(call->info.type == HG_CB_BULK);
    call->info.ret = ret;
    if (call->callback != NULL)
        (void) call->callback(&call->info);
    hg_mem_free(call);
}

/* Issue a ticket, with which the transfer can be canceled. */
static hg_return_t hg_bulk_call_issue(
    struct hg_bulk_call *call, struct hg_transfer *transfer)
{
    hg_return_t ret;

    (void) pthread_once(&hg_bulk_call_once, hg_bulk_call_begin);
    hg_lock(&hg_bulk_call_lock);
    ret = hg_ticket_issue(&hg_bulk_call_tickets, transfer, &call->ticket);
    hg_unlock(&hg_bulk_call_lock);
    return ret;
}

static hg_return_t hg_bulk_call_start(const struct hg_bulk_call_args *args,
    hg_cb_t callback, void *arg, hg_op_id_t *op_id)
{
    struct hg_transfer_args what = {args->op, args->addr, args->origin,
        (size_t) args->origin_offset, args->local, (size_t) args->local_offset,
        (size_t) args->size, args->origin_id};
    struct hg_bulk_call *call =
        (struct hg_bulk_call *) hg_mem_calloc(1, sizeof(*call));
    struct hg_transfer *transfer = NULL;
    hg_return_t ret;

    if (call == NULL) {
        hg_log_error("bulk", "no memory for a transfer");
        return HG_NOMEM;
    }
    call->callback = callback;
    call->info.arg = arg;
    call->info.type = HG_CB_BULK;
    call->info.info.bulk.origin_handle = args->origin;
    call->info.info.bulk.local_handle = args->local;
    call->info.info.bulk.op = args->op;
    call->info.info.bulk.size = args->size;
    ret = hg_transfer_create(
        &args->context->transfers, &what, hg_bulk_call_ended, call, &transfer);
    if (ret != HG_SUCCESS)
        goto free_call;
    if (op_id != HG_OP_ID_IGNORE) {
        ret = hg_bulk_call_issue(call, transfer);
        if (ret != HG_SUCCESS)
            goto forget;
        *op_id = (hg_op_id_t) call->ticket;
    }
    hg_transfer_begin(transfer);
    return HG_SUCCESS;

forget:
    hg_transfer_forget(transfer);
free_call:
    hg_mem_free(call);
    return ret;
}

hg_return_t HG_Bulk_transfer2(hg_context_t *context, hg_cb_t callback,
    void *arg, hg_bulk_op_t op, hg_addr_t origin_addr, hg_bulk_t origin_handle,
    hg_size_t origin_offset, hg_bulk_t local_handle, hg_size_t local_offset,
    hg_size_t size, hg_op_id_t *op_id)
{
    return HG_Bulk_transfer_id(context, callback, arg, op, origin_addr, 0,
        origin_handle, origin_offset, local_handle, local_offset, size, op_id);
}

hg_return_t HG_Bulk_bind_transfer(hg_context_t *context, hg_cb_t callback,
    void *arg, hg_bulk_op_t op, hg_bulk_t origin_handle,
    hg_size_t origin_offset, hg_bulk_t local_handle, hg_size_t local_offset,
    hg_size_t size, hg_op_id_t *op_id)
{
    struct hg_bulk_call_args args = {context, op, NULL, origin_handle,
        origin_offset, local_handle, local_offset, size, 0};
    hg_return_t ret =
        hg_bulk_call_check_args(&args, true, "HG_Bulk_bind_transfer");

    if (ret != HG_SUCCESS)
        return ret;
    args.origin_id = HG_Bulk_get_context_id(origin_handle);
    return hg_bulk_call_start(&args, callback, arg, op_id);
}

/* Memory is served by whichever context of the origin makes progress; the one
 * named is asked how it is. */
hg_return_t HG_Bulk_transfer_id(hg_context_t *context, hg_cb_t callback,
    void *arg, hg_bulk_op_t op, hg_addr_t origin_addr, uint8_t origin_id,
    hg_bulk_t origin_handle, hg_size_t origin_offset, hg_bulk_t local_handle,
    hg_size_t local_offset, hg_size_t size, hg_op_id_t *op_id)
{
    struct hg_bulk_call_args args = {context, op, origin_addr, origin_handle,
        origin_offset, local_handle, local_offset, size, origin_id};
    hg_return_t ret = hg_bulk_call_check_args(&args, false, "HG_Bulk_transfer");

    return ret == HG_SUCCESS ? hg_bulk_call_start(&args, callback, arg, op_id)
                             : ret;
}

hg_return_t HG_Bulk_cancel(hg_op_id_t op_id)
{
    const struct na_class *forked = NULL;
    struct hg_transfer *transfer;
    bool held = false;

    if (op_id == HG_OP_ID_NULL)
        return hg_log_misuse(
            "bulk", "HG_Bulk_cancel", "the operation's id is NULL");
    hg_lock(&hg_bulk_call_lock);
    transfer = (struct hg_transfer *) hg_ticket_get(
        &hg_bulk_call_tickets, (uintptr_t) op_id);
    if (transfer != NULL && na_class_is_forked(hg_transfer_class(transfer)))
        forked = hg_transfer_class(transfer);
    else if (transfer != NULL)
        held = hg_transfer_hold(transfer);
    hg_unlock(&hg_bulk_call_lock);
    if (forked != NULL)
        return na_live_check(forked, "HG_Bulk_cancel");
    if (held)
        hg_transfer_cancel(transfer);
    return HG_SUCCESS;
}
