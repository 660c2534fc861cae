/* SPDX-License-Identifier: BSD-3-Clause */
/* bulk_check: see bulk_check.h. */
#include "hg/bulk_check.h"

#include "base/crc64.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/builtin.h"
#include "hg/forward.h"
#include "hg/serve.h"
#include "na/addr.h"

/* What is asked: is that the sum of this memory of yours? */
struct hg_bulk_check {
    uint64_t incarnation; /* of the owner's layer */
    uint64_t id;
    uint64_t offset;
    uint64_t size;
    uint64_t crc;
    uint8_t op; /* the transfer's */
};

HG_PRIVATE hg_return_t hg_bulk_check_proc(hg_proc_t proc, void *data)
{
    struct hg_bulk_check *check = (struct hg_bulk_check *) data;
    hg_return_t ret = hg_proc_uint64_t(proc, &check->incarnation);

    if (ret == HG_SUCCESS)
        ret = hg_proc_uint64_t(proc, &check->id);
    if (ret == HG_SUCCESS)
        ret = hg_proc_uint64_t(proc, &check->offset);
    if (ret == HG_SUCCESS)
        ret = hg_proc_uint64_t(proc, &check->size);
    if (ret == HG_SUCCESS)
        ret = hg_proc_uint64_t(proc, &check->crc);
    return ret == HG_SUCCESS ? hg_proc_uint8_t(proc, &check->op) : ret;
}

/* The owner reads so many bytes in a turn of progress: about 100 us. */
#define HG_BULK_CHECK_TURN ((size_t) 1 << 20)

/* The CRC of a range of memory of ours, which is held, behind bytes that have
 * `crc`. */
static uint64_t hg_bulk_check_sum(
    const struct hg_bulk *bulk, size_t offset, size_t size, uint64_t crc)
{
    size_t segment = 0;
    size_t length;
    void *ptr;

    assert(!bulk->remote);
    assert(offset <= bulk->size && size <= bulk->size - offset);
    while (hg_bulk_next_run(bulk, &segment, &offset, &size, &ptr, &length))
        crc = hg_crc64_update(crc, ptr, length);
    return crc;
}

/* ---- At the owner ---- */

/* What is wrong with a question about memory that is there; and the code for
 * it. NULL: nothing. */
static const char *hg_bulk_check_judge(const struct hg_bulk *bulk,
    const struct hg_bulk_check *check, hg_return_t *ret_p)
{
    unsigned long flag =
        check->op == HG_BULK_PULL ? HG_BULK_READ_ONLY : HG_BULK_WRITE_ONLY;

    if (check->op != HG_BULK_PULL && check->op != HG_BULK_PUSH) {
        *ret_p = HG_INVALID_ARG;
        return "an unknown operation";
    }
    if (check->offset > bulk->size ||
        check->size > bulk->size - check->offset) {
        *ret_p = HG_OVERFLOW;
        return "past the end of the memory";
    }
    if ((bulk->flags & flag) == 0) {
        *ret_p = HG_PERMISSION;
        return "the memory may not be moved so";
    }
    return NULL;
}

/* Read the next part; `done` has how many bytes were read, and their CRC.
 * HG_AGAIN: that is not all yet. Otherwise the code, and its words. */
static hg_return_t hg_bulk_check_compare(struct hg_bulk *bulk,
    const struct hg_bulk_check *check, struct hg_args *done,
    const char **text_p)
{
    hg_return_t ret = HG_SUCCESS;
    size_t size;

    *text_p = hg_bulk_check_judge(bulk, check, &ret);
    if (*text_p != NULL)
        return ret;
    if (!hg_bulk_hold(bulk)) {
        *text_p = "the memory was freed";
        return HG_NOENTRY;
    }
    assert(done->size <= check->size);
    size = (size_t) check->size - done->size;
    if (size > HG_BULK_CHECK_TURN)
        size = HG_BULK_CHECK_TURN;
    done->crc = hg_bulk_check_sum(
        bulk, (size_t) check->offset + done->size, size, done->crc);
    hg_bulk_release(bulk);
    done->size += size;
    if (done->size < check->size)
        return HG_AGAIN;
    if (done->crc == check->crc)
        return HG_SUCCESS;
    *text_p = "the memory has another CRC64 there";
    return HG_CHECKSUM_ERROR;
}

/* Until it answers, out_args holds how far it is. */
HG_PRIVATE hg_return_t hg_bulk_check_serve(hg_handle_t handle)
{
    struct hg_bulk_layer *layer = handle->context->hg_class->layer;
    static const struct hg_args none = {NULL, 0, 0, false};
    const char *text = "the memory is not there";
    struct hg_bulk_check check;
    struct hg_bulk *bulk = NULL;
    hg_return_t ret = hg_handle_decode(handle, &check);

    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_NOENTRY;
    if (check.incarnation == layer->incarnation)
        ret = hg_bulk_find_own(layer, check.id, &bulk);
    if (ret == HG_SUCCESS) {
        ret = hg_bulk_check_compare(bulk, &check, &handle->out_args, &text);
        hg_bulk_unref(bulk);
    }
    if (ret == HG_AGAIN)
        return HG_AGAIN;
    handle->out_args = none;
    if (ret == HG_SUCCESS)
        return hg_serve_respond(handle, HG_SUCCESS, NULL);
    (void) hg_serve_respond_error(handle, ret, text);
    return ret;
}

/* ---- Who moved the data ---- */

/* The answer arrived, or the call failed. */
static void hg_bulk_check_ended(struct hg_handle *handle, void *arg)
{
    struct hg_transfer *transfer = (struct hg_transfer *) arg;
    const struct hg_transfer_args *args = hg_transfer_look_at(transfer);
    struct hg_context *context = handle->context;
    hg_return_t ret = handle->ret;

    hg_leave(context->lock);
    if (ret == HG_CHECKSUM_ERROR) {
        hg_handle_count(handle->context, HG_COUNT_BULK_DAMAGED);
        hg_log_warning("bulk",
            "%zu bytes that were %s %s, at %zu there, changed on the way: %s",
            args->size, args->op == HG_BULK_PULL ? "pulled from" : "pushed to",
            hg_handle_peer(handle), args->origin_offset,
            handle->text != NULL ? handle->text : "it says no more");
    }
    hg_forward_forget(handle);
    hg_handle_unref(handle);
    hg_transfer_checked(transfer, ret);
    hg_enter(context->lock);
}

/* Whom to ask; NULL: the owner's address is of another class. */
static struct na_addr *hg_bulk_check_whom(
    const struct hg_transfer *transfer, const struct hg_context *context)
{
    struct na_addr *owner = hg_transfer_owner(transfer);

    if (owner != NULL && owner->na_class == context->hg_class->na_class)
        return owner;
    return hg_transfer_look_at(transfer)->addr;
}

/* The question. HG_CANCELED: the local memory was freed meanwhile. */
static hg_return_t hg_bulk_check_fill(
    struct hg_bulk_check *check, const struct hg_transfer_args *args)
{
    if (!hg_bulk_hold(args->local))
        return HG_CANCELED;
    check->crc =
        hg_bulk_check_sum(args->local, args->local_offset, args->size, 0);
    hg_bulk_release(args->local);
    check->incarnation = args->origin->incarnation;
    check->id = args->origin->id;
    check->offset = args->origin_offset;
    check->size = args->size;
    check->op = (uint8_t) args->op;
    return HG_SUCCESS;
}

/* A handle to ask with. */
static hg_return_t hg_bulk_check_handle(const struct hg_transfer *transfer,
    struct hg_context *context, struct hg_handle **handle_p)
{
    struct na_addr *addr = hg_bulk_check_whom(transfer, context);
    struct hg_rpc rpc;
    hg_return_t ret;

    if (addr == NULL) {
        hg_log_error("bulk",
            "nobody knows the address at which the owner of bulk data can be "
            "asked for its CRC64");
        return HG_OPNOTSUPPORT;
    }
    ret = hg_builtin_find(hg_registry_id(HG_BUILTIN_BULK_CHECK), &rpc);
    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_forward_create_of(context, addr, &rpc, handle_p);
    if (ret != HG_SUCCESS)
        return ret;
    (*handle_p)->call.target_context =
        hg_transfer_look_at(transfer)->origin_context;
    atomic_store_explicit(&(*handle_p)->peer_context,
        (*handle_p)->call.target_context, memory_order_relaxed);
    hg_handle_set_info(*handle_p); /* hooks see it */
    return HG_SUCCESS;
}

/* Ask; one reference of the handle is the answer's, one the transfer's. */
static hg_return_t hg_bulk_check_ask(
    struct hg_transfer *transfer, struct hg_context *context)
{
    struct hg_handle *handle = NULL;
    struct hg_bulk_check check;
    hg_return_t ret;

    ret = hg_bulk_check_fill(&check, hg_transfer_look_at(transfer));
    if (ret == HG_SUCCESS)
        ret = hg_bulk_check_handle(transfer, context, &handle);
    if (ret != HG_SUCCESS)
        return ret;
    hg_handle_ref(handle);
    ret = hg_forward_start(handle, &check, hg_bulk_check_ended, transfer);
    if (ret == HG_SUCCESS) {
        hg_transfer_note_check(transfer, handle);
        return HG_SUCCESS;
    }
    hg_forward_forget(handle);
    hg_handle_unref(handle);
    hg_handle_unref(handle);
    return ret;
}

static void hg_bulk_check_begin(struct hg_transfer *transfer)
{
    struct hg_context *context = HG_CONTAINER_OF(
        hg_transfer_home_of(transfer), struct hg_context, transfers);
    bool held = hg_transfer_hold(transfer); /* it may end meanwhile */
    hg_return_t ret;

    assert(held);
    (void) held;
    ret = hg_bulk_check_ask(transfer, context);
    if (ret != HG_SUCCESS)
        hg_transfer_checked(transfer, ret);
    hg_transfer_let_go(transfer);
}

static void hg_bulk_check_cancel(void *check)
{
    (void) hg_forward_cancel((struct hg_handle *) check);
}

static void hg_bulk_check_end(void *check)
{
    hg_handle_unref((struct hg_handle *) check);
}

HG_PRIVATE const struct hg_transfer_checker *hg_bulk_check_table(void)
{
    static const struct hg_transfer_checker table = {
        hg_bulk_check_begin, hg_bulk_check_cancel, hg_bulk_check_end};

    return &table;
}
