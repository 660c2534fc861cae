/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room: how much of ours may be in flight, and what we know of others' room.
 *
 * Who forwards calls without ever waiting is told HG_AGAIN, before all memory
 * is full of them. A call counts for what it takes here from when it is
 * numbered until it is taken out of the table of calls, or does not begin: for
 * as much as a small one takes, and for more once it turns out to be larger.
 * The limit is divided among peers as in share: a peer may have as much as
 * leaves as much again for others. A call alone always has room.
 *
 * A target without room says so. What it had of ours then, without what it
 * refused, is what it has room for: that stands in its address, and grows
 * slowly with answers that come while it has nearly as much.
 *
 *     take    before a call begins: false, there is none
 *     give    it was taken out, or did not begin; who waits looks again
 *     heard   an answer came, before that
 *
 * Locking: the lock of the class guards all of it. A waiter's `wake` is called
 * with it.
 */
#ifndef HG_GEN_HG_ROOM_H
#define HG_GEN_HG_ROOM_H

#include "hg/handle.h"

/* Largest memory of a small call: handle, operation, answer, and a message of
 * HG_ROOM_SMALL bytes. */
#define HG_ROOM_SMALL 256u
#define HG_ROOM_CALL (1280u + HG_ROOM_SMALL)

/* The limit of the peer is not known. */
#define HG_ROOM_UNKNOWN UINT64_MAX

struct hg_room_waiter {
    struct na_link link;
    struct hg_context *context; /* where the thread waits */
    /* There may be room. It only notes that, and wakes the thread. */
    void (*wake)(struct hg_room_waiter *waiter);
};

/* Count a call of ours for so much, more. False: no room, and nothing was
 * counted. The lock is held. */
HG_PRIVATE bool hg_room_take(struct hg_handle *handle, uint64_t weight);

/* Tell those who wait to look again; also after a peer died. */
HG_PRIVATE void hg_room_tell(struct na_class *na_class);

/* The same, where somebody waits. */
static inline void hg_room_news(struct na_class *na_class)
{
    if (HG_UNLIKELY(!hg_list_is_empty(&na_class_core_of(na_class)->waiters)))
        hg_room_tell(na_class);
}

/* Bytes of our calls to the peer in flight: to ourselves those of the context,
 * to others those of all contexts. The lock is held. */
HG_PRIVATE uint64_t hg_room_asked(
    const struct hg_context *context, const struct na_addr *addr);

/* A call of ours was taken out, or does not begin. The lock is held. */
static inline void hg_room_give(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;

    if (handle->addr->self)
        context->asked_self -= handle->weight;
    else
        na_addr_core_of(handle->addr)->asked -= handle->weight;
    context->asked -= handle->weight;
    handle->weight = 0;
    hg_room_news(na_addr_class(handle->addr));
}

/* The peer has room for the call, or not, which is in flight still. The lock is
 * held. */
HG_PRIVATE void hg_room_learn(const struct hg_handle *handle, bool refused);

/* The answer to such a call came. The same. */
static inline void hg_room_heard(
    const struct hg_handle *handle, const struct hg_header *header)
{
    bool refused =
        header->code == HG_AGAIN && (header->flags & HG_HEADER_REFUSED) != 0;

    if (HG_UNLIKELY(
            refused || na_addr_core_of(handle->addr)->room != HG_ROOM_UNKNOWN))
        hg_room_learn(handle, refused);
}

/* is_there: whether a small call is below the limits of the context and, as far
 * as known, of the peer. is_silent: whether the peer was at its limit and will
 * send no news, since no call to it is outstanding. Without the lock. */
HG_PRIVATE bool hg_room_is_there(
    struct hg_context *context, const struct na_addr *addr);
HG_PRIVATE bool hg_room_is_silent(
    struct hg_context *context, const struct na_addr *addr);

/* Assume that the peer is below its limit again. */
HG_PRIVATE void hg_room_hope(const struct na_addr *addr);

/* Join the threads that wait in the context of that number, if it is one of the
 * callback model, or `layer`, and is not being destroyed. False: it is none.
 * The caller owns `waiter`, and holds no lock. */
HG_PRIVATE bool hg_room_join(struct na_class *na_class, unsigned number,
    const struct hg_context *layer, struct hg_room_waiter *waiter);
HG_PRIVATE void hg_room_part(
    struct na_class *na_class, struct hg_room_waiter *waiter);

/* Set transfers.ending, so that no thread joins. False: a thread waits in the
 * context, and nothing was changed. The caller holds no lock. */
HG_PRIVATE bool hg_room_close(struct hg_context *context);

#endif
