/* SPDX-License-Identifier: BSD-3-Clause */
/* owed: see owed.h. */
#include "hg/owed.h"

#include "base/lock.h"
#include "base/mem.h"
#include "na/addr.h"
#include "na/msg.h"

#define HG_OWED_NOTES 84  /* a slice is 2 KiB */
#define HG_OWED_LOOKS 256 /* slices looked at for one that has room */

struct hg_owed_note {
    uint64_t sequence;
    uint64_t rpc_id;
    int32_t code;
    uint8_t context; /* of the peer */
};

/* Some refusals to one peer. */
struct hg_owed {
    struct na_link link;
    struct na_addr *addr; /* a reference */
    unsigned count;
    struct hg_owed_note notes[HG_OWED_NOTES];
};

/* A slice of the peer's that has room. As peers call in turns, it need not be
 * the last; but so many others may hide it. NULL: none. The lock is held. */
static struct hg_owed *hg_owed_find(
    struct hg_context *context, const struct na_addr *addr)
{
    const struct na_link *link = context->owed.prev;
    unsigned looks;

    for (looks = 0; looks < HG_OWED_LOOKS && link != &context->owed; looks++) {
        struct hg_owed *owed = HG_CONTAINER_OF(link, struct hg_owed, link);

        if (owed->addr == addr && owed->count < HG_OWED_NOTES)
            return owed;
        link = link->prev;
    }
    return NULL;
}

/* The slice to write to; NULL: no memory. The lock is held. */
static struct hg_owed *hg_owed_open(
    struct hg_context *context, struct na_addr *addr)
{
    struct hg_owed *owed = hg_owed_find(context, addr);

    if (owed != NULL)
        return owed;
    owed = (struct hg_owed *) hg_mem_alloc(sizeof(*owed));
    if (owed == NULL)
        return NULL;
    na_addr_ref(addr);
    owed->addr = addr;
    owed->count = 0;
    hg_list_push(&context->owed, &owed->link);
    atomic_store_explicit(&context->has_timers, true, memory_order_release);
    return owed;
}

HG_PRIVATE bool hg_owed_add(struct hg_context *context, struct na_addr *addr,
    const struct hg_header *header, hg_return_t code)
{
    struct hg_owed_note *note;
    struct hg_owed *owed;

    assert(code != HG_SUCCESS && !addr->self);
    if (!hg_share_take(&context->share, addr, HG_SHARE_OWED, 1))
        return false;
    owed = hg_owed_open(context, addr);
    if (owed == NULL) {
        hg_share_give(&context->share, addr, HG_SHARE_OWED, 1);
        return false;
    }
    note = &owed->notes[owed->count++];
    note->sequence = header->sequence;
    note->rpc_id = header->rpc_id;
    note->code = (int32_t) code;
    note->context = header->origin_context;
    return true;
}

static hg_return_t hg_owed_send(struct hg_context *context,
    struct na_addr *addr, const struct hg_owed_note *note)
{
    unsigned char bytes[HG_HEADER_MIN];
    struct na_segment segment = {bytes, sizeof(bytes)};
    struct na_msg msg = {.addr = addr,
        .segments = &segment,
        .segment_count = 1,
        .size = sizeof(bytes),
        .plane = NA_MSG_RPC,
        .target = note->context};
    struct hg_header header;

    memset(&header, 0, sizeof(header));
    header.type = HG_HEADER_RESPONSE;
    header.flags = HG_HEADER_REFUSED;
    header.origin_context = na_sink_number(context->na_context);
    header.code = (hg_return_t) note->code;
    header.rpc_id = note->rpc_id;
    header.sequence = note->sequence;
    hg_header_encode(&header, bytes, hg_class_sums_messages(context->hg_class));
    return na_msg_try_rpc(context->na_context, &msg);
}

static void hg_owed_end(struct hg_context *context, struct hg_owed *owed)
{
    if (owed->count > 0)
        hg_share_give(&context->share, owed->addr, HG_SHARE_OWED, owed->count);
    na_addr_unref(owed->addr);
    hg_mem_free(owed);
}

/* Pay a slice, the last note first: who calls knows no order. False: the peer
 * does not take all of it yet. */
static bool hg_owed_pay_slice(struct hg_context *context, struct hg_owed *owed)
{
    while (owed->count > 0) {
        hg_return_t ret =
            hg_owed_send(context, owed->addr, &owed->notes[owed->count - 1]);

        if (ret == HG_AGAIN || ret == HG_NOMEM)
            return false;
        if (ret != HG_SUCCESS)
            return true; /* it is gone, and has heard so */
        owed->count--;
        hg_handle_count(context, HG_COUNT_ERRORS_SENT);
        hg_share_give(&context->share, owed->addr, HG_SHARE_OWED, 1);
    }
    return true;
}

HG_PRIVATE bool hg_owed_pay(struct hg_context *context)
{
    const struct na_addr *full = NULL; /* takes no more */
    struct na_link left;
    struct na_link *link;
    bool all;

    hg_list_init(&left);
    hg_enter(context->lock);
    while ((link = hg_list_pop(&context->owed)) != NULL) {
        struct hg_owed *owed = HG_CONTAINER_OF(link, struct hg_owed, link);

        if (owed->addr != full && hg_owed_pay_slice(context, owed)) {
            hg_owed_end(context, owed);
            continue;
        }
        full = owed->addr;
        hg_list_push(&left, &owed->link);
    }
    hg_list_splice(&context->owed, &left);
    all = hg_list_is_empty(&context->owed);
    hg_leave(context->lock);
    return all;
}

HG_PRIVATE void hg_owed_drop(struct hg_context *context)
{
    struct na_link *link;

    hg_enter(context->lock);
    while ((link = hg_list_pop(&context->owed)) != NULL)
        hg_owed_end(context, HG_CONTAINER_OF(link, struct hg_owed, link));
    hg_leave(context->lock);
}
