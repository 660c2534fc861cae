/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call: handles of the callback model.
 *
 * An operation holds a reference of its handle from its start until its
 * callback has run. An outgoing call is over, and its handle idle, before its
 * callback runs: so the callback may forward the handle again. The callback of
 * an answer is queued when the answer was sent.
 *
 *     HG_Forward    hg_forward_claim, a reference; hg_forward_start
 *       ...         the end of the call queues it once (forward)
 *     hg_call_ended makes the handle idle, runs the callback, then releases
 *                   the reference
 *
 *     HG_Respond    with a callback: a reference; hg_serve_respond_notify
 *       ...         the message is sent, at once or later (handle)
 *     hg_call_left  queues the callback, which releases the reference
 *
 * The references of the application are counted separately. When the last one
 * of these is released, an unanswered incoming call is answered (serve).
 *
 * Arguments are checked here; forward and serve do the work. No other module
 * includes this one: it has no header.
 *
 * Locking: none of its own. A thread that forwards, resets or answers a handle
 * has exclusive access, which the states of forward and serve ensure. The
 * application must serialize access to the other members of `call`.
 */
#include "base/lock.h"
#include "base/log.h"
#include "hg/check.h"
#include "hg/forward.h"
#include "hg/overflow.h"
#include "hg/serve.h"
#include "na/addr.h"

/* ---- Life ---- */

/* Check the peer and find the function of a handle; NULL and 0 mean none. */
static hg_return_t hg_call_look_up(struct hg_context *context,
    const struct na_addr *addr, hg_id_t id, const struct hg_rpc **rpc_p,
    const char *function)
{
    hg_return_t ret = HG_SUCCESS;

    *rpc_p = &hg_rpc_none;
    if (addr != NULL)
        ret = na_addr_check(context->hg_class->na_class, addr, function);
    if (ret == HG_SUCCESS && id != 0) {
        *rpc_p = hg_forward_find(context, id, function);
        ret = *rpc_p != NULL ? HG_SUCCESS : HG_NOENTRY;
    }
    return ret;
}

/* Whether its calls are one-way now. */
static bool hg_call_is_one_way(const struct hg_rpc *rpc)
{
    return rpc->entry != NULL &&
        atomic_load_explicit(&rpc->entry->one_way, memory_order_relaxed);
}

hg_return_t HG_Create(
    hg_context_t *context, hg_addr_t addr, hg_id_t id, hg_handle_t *handle_p)
{
    const struct hg_rpc *rpc;
    struct hg_handle *handle;
    hg_return_t ret;

    if (handle_p == NULL)
        return hg_log_misuse("rpc", "HG_Create", "handle_p is NULL");
    ret = hg_check_context(context, "HG_Create");
    if (ret == HG_SUCCESS)
        ret = hg_call_look_up(context, addr, id, &rpc, "HG_Create");
    if (ret != HG_SUCCESS)
        return ret;
    handle = hg_forward_new(context, addr, rpc);
    if (handle == NULL)
        return HG_NOMEM;
    handle->one_way = hg_call_is_one_way(rpc);
    hg_handle_hand_over(handle, false);
    ret = hg_handle_open_call(handle);
    if (ret == HG_SUCCESS)
        *handle_p = handle;
    else
        (void) hg_handle_take_back(handle, false);
    return ret;
}

/* The application has no reference. In Mercury an incoming call has two until
 * its response, so programs that send none destroy it twice. */
static HG_NOINLINE HG_COLD hg_return_t hg_call_destroy_again(
    struct hg_handle *handle)
{
    enum hg_handle_state abandoned = HG_HANDLE_ABANDONED;
    hg_return_t ret;

    /* ARRIVED may become ABANDONED meanwhile: it is tried first. */
    if (!na_class_is_forked(handle->context->hg_class->na_class) &&
        (atomic_load(&handle->state) == HG_HANDLE_ARRIVED ||
            atomic_compare_exchange_strong(
                &handle->state, &abandoned, HG_HANDLE_ANSWERED)))
        return HG_SUCCESS;
    ret = hg_check_handle(handle, "HG_Destroy");
    return ret != HG_SUCCESS
        ? ret
        : hg_log_misuse("rpc", "HG_Destroy",
              "it was destroyed more often than referenced");
}

hg_return_t HG_Destroy(hg_handle_t handle)
{
    if (handle == NULL)
        return HG_SUCCESS;
    if (HG_LIKELY(!na_class_is_forked(handle->context->hg_class->na_class) &&
            hg_handle_take_back(handle, false)))
        return HG_SUCCESS;
    return hg_call_destroy_again(handle);
}

hg_return_t HG_Reset(hg_handle_t handle, hg_addr_t addr, hg_id_t id)
{
    const struct hg_rpc *rpc;
    hg_return_t ret = hg_check_side(handle, false, "HG_Reset");

    if (ret == HG_SUCCESS)
        ret = hg_call_look_up(handle->context, addr, id, &rpc, "HG_Reset");
    if (ret == HG_SUCCESS)
        ret = hg_forward_claim(handle, "HG_Reset");
    if (ret != HG_SUCCESS)
        return ret;
    hg_handle_renew(handle);
    if (addr != NULL)
        hg_handle_change_addr(handle, addr);
    if (id != 0) {
        handle->id = id;
        handle->rpc = rpc;
    }
    handle->one_way = hg_call_is_one_way(handle->rpc);
    handle->call.answered = false;
    handle->call.own_decode = false;
    handle->call.target_context = 0;
    handle->deadline = 0; /* the deadline of the last call */
    hg_handle_set_info(handle);
    hg_enter(handle->context->lock);
    hg_forward_forget(handle);
    hg_leave(handle->context->lock);
    return HG_SUCCESS;
}

hg_return_t HG_Ref_incr(hg_handle_t handle)
{
    hg_return_t ret = hg_check_handle(handle, "HG_Ref_incr");

    if (ret == HG_SUCCESS)
        hg_handle_give(handle, false);
    return ret;
}

int32_t HG_Ref_get(hg_handle_t handle)
{
    uint32_t sends;
    uint64_t refs;

    if (handle == NULL || hg_check_handle(handle, "HG_Ref_get") != HG_SUCCESS)
        return -1;
    do {
        sends = atomic_load(&handle->sends);
        refs = atomic_load(&handle->refs);
    } while (atomic_load(&handle->sends) != sends);
    /* A message that waits to be sent, such as CANCEL, has a reference that the
     * application does not know. */
    return (int32_t) (refs % HG_HANDLE_DECODED / HG_HANDLE_GIVEN +
        refs % HG_HANDLE_GIVEN - sends);
}

const struct hg_info *HG_Get_info(hg_handle_t handle)
{
    return handle != NULL &&
            hg_check_handle(handle, "HG_Get_info") == HG_SUCCESS
        ? &handle->call.info
        : NULL;
}

hg_return_t HG_Set_data(
    hg_handle_t handle, void *data, void (*free_callback)(void *))
{
    hg_return_t ret = hg_check_handle(handle, "HG_Set_data");

    if (ret != HG_SUCCESS)
        return ret;
    handle->call.used = true;
    handle->call.data = data;
    handle->call.free_data = free_callback;
    return HG_SUCCESS;
}

void *HG_Get_data(hg_handle_t handle)
{
    return handle != NULL &&
            hg_check_handle(handle, "HG_Get_data") == HG_SUCCESS
        ? handle->call.data
        : NULL;
}

hg_return_t HG_Set_target_id(hg_handle_t handle, uint8_t id)
{
    hg_return_t ret = hg_check_side(handle, false, "HG_Set_target_id");

    if (ret != HG_SUCCESS)
        return ret;
    handle->call.target_context = id;
    handle->call.info.context_id = id;
    return HG_SUCCESS;
}

/* ---- Arguments ---- */

/* Check that a handle is not one of the request model. */
static hg_return_t hg_call_check_model(
    const struct hg_handle *handle, const char *function)
{
    return handle->context->callbacks
        ? HG_SUCCESS
        : hg_log_misuse("rpc", function,
              "the call is of the request model: HG_Handler_... is for it");
}

/* Free the request message. It cannot be decoded again. */
static void hg_call_drop_input(struct hg_handle *handle)
{
    hg_enter(handle->context->lock); /* see hg_handle_find_input */
    handle->in_args.data = NULL;
    handle->in_args.size = 0;
    hg_leave(handle->context->lock);
    handle->call.dropped = true;
    hg_buf_fini(&handle->in);
}

/* Decode the received arguments with the proc of this side, and take a
 * reference, which hg_call_release releases. */
static hg_return_t hg_call_decode(
    struct hg_handle *handle, bool target, void *data, const char *function)
{
    hg_return_t ret = hg_check_side(handle, target, function);
    hg_proc_cb_t proc;

    if (ret != HG_SUCCESS)
        return ret;
    if (data == NULL)
        return hg_log_misuse("rpc", function, "the struct is NULL");
    proc = target ? handle->rpc->in_proc : handle->rpc->out_proc;
    if (proc == NULL ||
        (target ? handle->call.dropped : !handle->call.answered)) {
        hg_log_error("rpc", "%s: \"%s\" %s", function,
            hg_handle_function(handle),
            proc == NULL ? "has no such proc"
                : target ? "has no message: it was released"
                         : "was not answered");
        return HG_FAULT;
    }
    ret = hg_handle_decode(handle, data, NULL);
    if (target && ret == HG_SUCCESS &&
        handle->context->hg_class->release_input_early)
        hg_call_drop_input(handle);
    if (ret == HG_SUCCESS)
        hg_handle_give(handle, true);
    return ret;
}

/* Whether the receiver of arguments frees a struct that it decoded itself: once
 * for each call. The struct has no reference of its own: the one that
 * HG_Destroy() would release is released, as in Mercury. */
static HG_NOINLINE bool hg_call_frees_own(struct hg_handle *handle)
{
    bool may = handle->call.own_decode && hg_handle_given(handle) > 0;

    handle->call.own_decode = false;
    return may;
}

/* Free a struct. The side that decodes frees what was decoded; the side that
 * encodes may free its own struct, as in Mercury. Both release a reference. */
static hg_return_t hg_call_release(
    struct hg_handle *handle, bool input, void *data, const char *function)
{
    hg_return_t ret = hg_check_handle(handle, function);
    hg_proc_cb_t proc;
    bool decodes;
    bool decoded;

    if (ret != HG_SUCCESS)
        return ret;
    if (data == NULL)
        return hg_log_misuse("rpc", function, "the struct is NULL");
    proc = input ? handle->rpc->in_proc : handle->rpc->out_proc;
    if (proc == NULL) {
        hg_log_error("rpc", "%s: \"%s\" has no such proc", function,
            hg_handle_function(handle));
        return HG_FAULT;
    }
    decodes = handle->target == input;
    decoded = decodes && atomic_load(&handle->refs) >= HG_HANDLE_DECODED;
    if (HG_UNLIKELY(decodes && !decoded) && !hg_call_frees_own(handle))
        return hg_log_misuse(
            "rpc", function, "there is no decoded struct, or it was freed");
    ret = hg_handle_release_of(handle, proc, data);
    (void) hg_handle_take_back(handle, decoded);
    return ret;
}

hg_return_t HG_Get_input(hg_handle_t handle, void *in_struct)
{
    return hg_call_decode(handle, true, in_struct, "HG_Get_input");
}

hg_return_t HG_Free_input(hg_handle_t handle, void *in_struct)
{
    return hg_call_release(handle, true, in_struct, "HG_Free_input");
}

hg_return_t HG_Get_output(hg_handle_t handle, void *out_struct)
{
    return hg_call_decode(handle, false, out_struct, "HG_Get_output");
}

hg_return_t HG_Free_output(hg_handle_t handle, void *out_struct)
{
    return hg_call_release(handle, false, out_struct, "HG_Free_output");
}

/* Maximum size of arguments in a message. */
static size_t hg_call_eager(const struct hg_handle *handle, bool output)
{
    const struct hg_class *hg_class = handle->context->hg_class;

    return output ? hg_class_output_eager(hg_class)
                  : hg_class_input_eager(hg_class);
}

/* Size of the encoded arguments, including what is in front of them if a
 * message holds both, as in Mercury; programs compare it with the eager
 * size. */
static hg_size_t hg_call_payload_size(
    const struct hg_handle *handle, bool output, const char *function)
{
    size_t size;

    if (handle == NULL || hg_check_handle(handle, function) != HG_SUCCESS)
        return 0;
    size = output ? handle->out_args.size : handle->in_args.size;
    return size <= hg_call_eager(handle, output)
        ? size
        : size - hg_handle_area(handle, output);
}

hg_size_t HG_Get_input_payload_size(hg_handle_t handle)
{
    return hg_call_payload_size(handle, false, "HG_Get_input_payload_size");
}

hg_size_t HG_Get_output_payload_size(hg_handle_t handle)
{
    return hg_call_payload_size(handle, true, "HG_Get_output_payload_size");
}

/* Whether the peer may fetch the encoded arguments. */
static bool hg_call_is_offered(struct hg_handle *handle)
{
    return handle->target ? atomic_load(&handle->state) == HG_HANDLE_ANSWERED
                          : hg_forward_is_under_way(handle);
}

/* Give the application the buffer of the next message, with `eager` bytes. From
 * now on, also in later calls, the bytes in front of the arguments belong to
 * the application. HG_BUSY: the call with that buffer is in progress. */
static hg_return_t hg_call_lend_buf(struct hg_handle *handle,
    const struct hg_buf *buf, size_t eager, const char *function)
{
    hg_return_t ret;

    ret = hg_call_check_model(handle, function);
    if (ret != HG_SUCCESS)
        return ret;
    if (buf->capacity < HG_HEADER_MIN + eager && hg_call_is_offered(handle)) {
        hg_log_error("rpc", "the call of \"%s\" is not over",
            hg_handle_function(handle));
        return HG_BUSY;
    }
    ret = hg_handle_open_area(handle, eager);
    if (ret == HG_SUCCESS)
        handle->call.own_area = true;
    return ret;
}

/* The application got the received bytes of a call. A handle of the request
 * model frees its input otherwise. */
static void hg_call_got_bytes(struct hg_handle *handle)
{
    if (handle->context->callbacks)
        handle->call.own_decode = true;
}

/* Check the handle and the output pointer. */
static hg_return_t hg_call_check_buf(
    const struct hg_handle *handle, void **buf_p, const char *function)
{
    return buf_p != NULL ? hg_check_handle(handle, function)
                         : hg_log_misuse("rpc", function, "buf_p is NULL");
}

/* The received message, or the buffer of the one to be sent. */
static hg_return_t hg_call_get_buf(struct hg_handle *handle, bool output,
    void **buf_p, hg_size_t *size_p, const char *function)
{
    const struct hg_args *args;
    const struct hg_buf *buf;
    size_t size;
    hg_return_t ret;

    ret = hg_call_check_buf(handle, buf_p, function);
    if (ret != HG_SUCCESS)
        return ret;
    if (handle->target == output) {
        buf = output ? &handle->out : &handle->in;
        size = hg_call_eager(handle, output);
        ret = hg_call_lend_buf(handle, buf, size, function);
        if (ret != HG_SUCCESS)
            return ret;
        *buf_p = buf->data + HG_HEADER_MIN;
    } else {
        if (handle->target ? handle->call.dropped : !handle->call.answered) {
            hg_log_error("rpc", "%s: \"%s\" %s", function,
                hg_handle_function(handle),
                handle->target ? "has no message: it was released"
                               : "was not answered");
            return HG_FAULT;
        }
        hg_call_got_bytes(handle);
        args = output ? &handle->out_args : &handle->in_args;
        size = args->size;
        *buf_p = (void *) (uintptr_t) args->data;
    }
    if (size_p != NULL)
        *size_p = size;
    return HG_SUCCESS;
}

hg_return_t HG_Get_input_buf(
    hg_handle_t handle, void **in_buf_p, hg_size_t *in_buf_size_p)
{
    return hg_call_get_buf(
        handle, false, in_buf_p, in_buf_size_p, "HG_Get_input_buf");
}

hg_return_t HG_Get_output_buf(
    hg_handle_t handle, void **out_buf_p, hg_size_t *out_buf_size_p)
{
    return hg_call_get_buf(
        handle, true, out_buf_p, out_buf_size_p, "HG_Get_output_buf");
}

/* Arguments that were fetched separately; those of a sender are in its message
 * buffer. */
static hg_return_t hg_call_get_extra(struct hg_handle *handle, bool output,
    void **buf_p, hg_size_t *size_p, const char *function)
{
    const struct hg_overflow *large;
    hg_return_t ret;
    size_t area;
    bool there;

    ret = hg_call_check_buf(handle, buf_p, function);
    if (ret != HG_SUCCESS)
        return ret;
    large = output ? &handle->out_large : &handle->in_large;
    area = hg_handle_area(handle, output);
    there = large->data != NULL && large->size >= area;
    if (there)
        hg_call_got_bytes(handle);
    *buf_p = there ? large->data + area : NULL;
    if (size_p != NULL)
        *size_p = there ? large->size - area : 0;
    return HG_SUCCESS;
}

hg_return_t HG_Get_input_extra_buf(
    hg_handle_t handle, void **in_buf_p, hg_size_t *in_buf_size_p)
{
    return hg_call_get_extra(
        handle, false, in_buf_p, in_buf_size_p, "HG_Get_input_extra_buf");
}

hg_return_t HG_Get_output_extra_buf(
    hg_handle_t handle, void **out_buf_p, hg_size_t *out_buf_size_p)
{
    return hg_call_get_extra(
        handle, true, out_buf_p, out_buf_size_p, "HG_Get_output_extra_buf");
}

hg_return_t HG_Release_input_buf(hg_handle_t handle)
{
    hg_return_t ret = hg_check_handle(handle, "HG_Release_input_buf");

    if (ret == HG_SUCCESS)
        ret = hg_call_check_model(handle, "HG_Release_input_buf");
    if (ret == HG_SUCCESS && handle->target)
        hg_call_drop_input(handle);
    return ret;
}

/* ---- Calls ---- */

/* Called by forward from the queue: the call is over. */
static void hg_call_ended(struct hg_handle *handle, void *arg)
{
    struct hg_context *context = handle->context;
    struct hg_call_part *call = &handle->call;
    struct hg_cb_info info;
    hg_cb_t callback = call->callback;

    (void) arg;
    HG_ASSERT(!handle->target && handle->number != 0);
    memset(&info, 0, sizeof(info));
    info.arg = call->arg;
    info.type = HG_CB_FORWARD;
    info.ret = handle->ret;
    info.info.forward.handle = handle;
    call->answered = handle->ret == HG_SUCCESS && !handle->one_way;
    hg_forward_forget(handle);
    hg_leave(context->lock);
    HG_ASSERT(hg_monitor_entered == 0);
    if (callback != NULL)
        (void) callback(&info);
    hg_handle_unref(handle);
    hg_enter(context->lock);
}

/* Set up a call. The handle is claimed. */
static void hg_call_prepare(
    struct hg_handle *handle, const struct hg_rpc *rpc, hg_cb_t cb, void *arg)
{
    struct hg_call_part *call = &handle->call;

    HG_ASSERT(handle->context->callbacks);
    hg_handle_renew(handle);
    handle->rpc = rpc;
    atomic_store_explicit(
        &handle->peer_context, call->target_context, memory_order_relaxed);
    call->answered = false;
    call->own_decode = false;
    call->callback = cb;
    call->arg = arg;
}

hg_return_t HG_Forward2(
    hg_handle_t handle, hg_cb_t callback, void *arg, void *in_struct)
{
    const struct hg_rpc *rpc;
    struct hg_monitor *lock;
    hg_return_t ret = hg_check_side(handle, false, "HG_Forward");

    if (ret != HG_SUCCESS)
        return ret;
    if (handle->addr == NULL)
        return hg_log_misuse("rpc", "HG_Forward", "the handle has no address");
    if (handle->id == 0) {
        hg_log_error("rpc", "HG_Forward: the handle has no function");
        return HG_FAULT;
    }
    rpc = hg_forward_find(handle->context, handle->id, "HG_Forward");
    if (rpc == NULL)
        return HG_NOENTRY;
    ret = hg_forward_claim(handle, "HG_Forward");
    if (ret != HG_SUCCESS)
        return ret;
    lock = handle->context->lock;
    hg_call_prepare(handle, rpc, callback, arg);
    hg_handle_ref(handle);
    ret = hg_handle_encode(handle, in_struct);
    hg_enter(lock);
    if (ret == HG_SUCCESS)
        ret = hg_forward_number(handle);
    if (ret == HG_SUCCESS)
        ret = hg_forward_start(handle, &handle->in, hg_call_ended, NULL);
    if (ret != HG_SUCCESS) { /* otherwise the handle may have its next call */
        hg_forward_forget(handle);
        hg_handle_unref_locked(handle);
    }
    hg_leave(lock);
    return ret;
}

static void hg_call_run_left(struct na_completion *done)
{
    struct hg_handle *handle =
        HG_CONTAINER_OF(done, struct hg_handle, call.left);
    struct hg_call_part *call = &handle->call;
    struct hg_monitor *lock = handle->context->lock;
    struct hg_cb_info info;

    HG_ASSERT(handle->target && handle->left == NULL);
    hg_leave(lock);
    memset(&info, 0, sizeof(info));
    info.arg = call->arg;
    info.type = HG_CB_RESPOND;
    info.ret = call->left_ret;
    info.info.respond.handle = handle;
    (void) call->callback(&info);
    hg_handle_unref(handle);
    hg_enter(lock);
}

/* The answer was sent, or could not be sent. */
static void hg_call_left(
    struct hg_handle *handle, uint64_t sequence, hg_return_t ret)
{
    (void) sequence;
    handle->call.left_ret = ret;
    handle->call.left.run = hg_call_run_left;
    na_queue_push(handle->context->queue, NA_LANE_DONE, &handle->call.left);
}

hg_return_t HG_Respond(
    hg_handle_t handle, hg_cb_t callback, void *arg, void *out_struct)
{
    hg_return_t ret = hg_check_side(handle, true, "HG_Respond");

    if (ret != HG_SUCCESS)
        return ret;
    if (handle->one_way) {
        hg_log_error("rpc",
            "HG_Respond: \"%s\" is one-way: its caller does not wait",
            hg_handle_function(handle));
        return HG_OPNOTSUPPORT;
    }
    return hg_serve_respond_notify(
        handle, out_struct, hg_call_left, callback, arg);
}

hg_return_t HG_Cancel(hg_handle_t handle)
{
    hg_return_t ret = hg_check_handle(handle, "HG_Cancel");

    if (ret != HG_SUCCESS || handle->target)
        return ret;
    hg_enter(handle->context->lock);
    (void) hg_forward_cancel(handle);
    hg_leave(handle->context->lock);
    return HG_SUCCESS;
}
