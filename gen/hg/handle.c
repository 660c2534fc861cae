/* SPDX-License-Identifier: BSD-3-Clause */
/* handle: see handle.h. */
#include "hg/handle.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "na/addr.h"
#include "na/context.h"
#include "na/msg.h"
#include "na/progress.h"

/* The number of free handles kept, and the largest buffer that a free handle
 * keeps. Larger than small buffers are kept only while their total in the pool
 * is within the limit. */
#define HG_HANDLE_POOL_MAX 1024
#define HG_HANDLE_BUF_MAX ((size_t) 64 << 10)
#define HG_HANDLE_BUF_SMALL ((size_t) 4 << 10)
#define HG_HANDLE_POOL_BYTES ((size_t) 4 << 20)

static struct hg_handle *hg_handle_new(struct hg_context *context)
{
    struct hg_handle *handle =
        (struct hg_handle *) hg_mem_calloc(1, sizeof(*handle));

    if (handle == NULL) {
        hg_log_error("rpc", "no memory for a call");
        return NULL;
    }
    handle->context = context;
    handle->rpc = &hg_rpc_none;
    hg_list_init(&handle->link);
    return handle;
}

/* Total size of the handle's buffers that exceed the small size. */
static HG_HOT size_t hg_handle_large_bytes(const struct hg_handle *handle)
{
    size_t in = handle->in.capacity;
    size_t out = handle->out.capacity;

    if (HG_LIKELY((in | out) < HG_HANDLE_BUF_SMALL)) /* both are small */
        return 0;
    return (in > HG_HANDLE_BUF_SMALL ? in : 0) +
        (out > HG_HANDLE_BUF_SMALL ? out : 0);
}

/* Count such bytes into or out of the pool. The lock is held; the count is read
 * without it. */
static HG_HOT void hg_handle_count_large(
    struct hg_context *context, size_t change)
{
    size_t bytes;

    if (HG_LIKELY(change == 0))
        return;
    bytes = atomic_load_explicit(&context->pool_bytes, memory_order_relaxed);
    atomic_store_explicit(
        &context->pool_bytes, bytes + change, memory_order_relaxed);
}

/* A free handle, or NULL. The lock is held. */
static struct hg_handle *hg_handle_reuse(struct hg_context *context)
{
    struct hg_handle *handle;

    if (context->pool_count == 0)
        return NULL;
    handle =
        HG_CONTAINER_OF(hg_list_pop(&context->pool), struct hg_handle, link);
    context->pool_count--;
    hg_handle_count_large(context, 0 - hg_handle_large_bytes(handle));
    return handle;
}

HG_PRIVATE HG_HOT struct hg_handle *hg_handle_get(struct hg_context *context)
{
    struct hg_handle *handle;

    hg_handle_collect(context);
    handle = hg_handle_reuse(context);
    context->live++;
    if (handle == NULL) {
        hg_leave(context->lock);
        handle = hg_handle_new(context);
        hg_enter(context->lock);
    }
    if (handle == NULL) {
        context->live--;
        return NULL;
    }
    HG_ASSERT(handle->state == HG_HANDLE_IDLE && handle->addr == NULL);
    atomic_store_explicit(&handle->refs, 1, memory_order_relaxed);
    return handle;
}

HG_PRIVATE void hg_handle_ref(struct hg_handle *handle)
{
    uint64_t before =
        atomic_fetch_add_explicit(&handle->refs, 1, memory_order_relaxed);

    HG_ASSERT(before > 0);
    (void) before;
}

static void hg_handle_trim(struct hg_buf *buf)
{
    if (buf->capacity > HG_HANDLE_BUF_SMALL)
        hg_buf_fini(buf);
}

/* Whether the pool may keep the handle's buffers as they are. */
static HG_HOT bool hg_handle_may_keep_buffers(const struct hg_handle *handle)
{
    size_t bytes = hg_handle_large_bytes(handle);

    return HG_LIKELY(bytes == 0) ||
        (handle->in.capacity <= HG_HANDLE_BUF_MAX &&
            handle->out.capacity <= HG_HANDLE_BUF_MAX &&
            atomic_load_explicit(
                &handle->context->pool_bytes, memory_order_relaxed) +
                    bytes <=
                HG_HANDLE_POOL_BYTES);
}

/* Forget arguments outside of messages. */
static void hg_handle_clear_large(struct hg_overflow *large)
{
    HG_ASSERT(
        large->mem == NULL && large->remote == NULL && large->counted == 0);
    hg_mem_free(large->data);
    memset(large, 0, sizeof(*large));
}

static void hg_handle_delete(struct hg_handle *handle)
{
    hg_buf_fini(&handle->in);
    hg_buf_fini(&handle->out);
    hg_mem_free(handle);
}

/* A later call of the same peer may have replaced the entry. */
static void hg_handle_leave_index(struct hg_handle *handle)
{
    struct hg_map *map = &handle->context->by_call;
    uint64_t key = hg_handle_call_key(handle);

    if (hg_map_get(map, key) == handle)
        (void) hg_map_remove(map, key);
}

/* Reset the handle to what hg_handle_new made, except for the buffers, and for
 * the fields that others may read: state, list and number. The handle has no
 * data to free, and the lock is held. */
static HG_HOT void hg_handle_clear(struct hg_handle *handle)
{
    HG_ASSERT(handle->timer.index == 0);
    HG_ASSERT(
        !handle->large && handle->call.data == NULL && handle->sends == 0);
    if (HG_UNLIKELY(handle->call.used))
        memset(&handle->call, 0, sizeof(handle->call));
    if (HG_UNLIKELY(handle->cancel.used))
        memset(&handle->cancel, 0, sizeof(handle->cancel));
    if (HG_UNLIKELY(handle->indexed))
        hg_handle_leave_index(handle);
    memset(&handle->target, 0,
        hg_mem_unknown(offsetof(struct hg_handle, in) -
            offsetof(struct hg_handle, target)));
}

/* Put the handle into the pool. Returns the handle that the pool has no space
 * for, or NULL. The lock is held. */
static HG_HOT struct hg_handle *hg_handle_put(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    size_t bytes;

    HG_ASSERT(!handle->in_flight && handle->request.state == HG_REQUEST_NONE);
    hg_list_remove(&handle->link);
    if (atomic_load_explicit(&handle->state, memory_order_relaxed) ==
        HG_HANDLE_ANSWERED) /* an outgoing call has ended */
        hg_handle_count_locked(context, HG_COUNT_RESPONSES_SENT, 1);
    else if (handle->number != 0)
        handle->number = hg_slots_renew(&context->sequences, handle->number);
    atomic_store_explicit(&handle->state, HG_HANDLE_IDLE, memory_order_relaxed);
    HG_ASSERT(context->live > 0);
    context->live--;
    if (HG_UNLIKELY(context->pool_count >= HG_HANDLE_POOL_MAX)) {
        if (handle->number != 0)
            (void) hg_slots_remove(&context->sequences, handle->number);
        return handle;
    }
    bytes = hg_handle_large_bytes(handle);
    /* Large buffers are used again first. */
    hg_list_push(
        bytes > 0 ? context->pool.next : &context->pool, &handle->link);
    hg_handle_count_large(context, bytes);
    context->pool_count++;
    return NULL;
}

/* Whether the reference being released is the last one. A handle with one
 * reference gets no other, except from the module cancel. */
static HG_HOT bool hg_handle_is_last(struct hg_handle *handle)
{
    uint64_t before = atomic_load_explicit(&handle->refs, memory_order_acquire);

    if (HG_LIKELY(before == 1 && !hg_handle_wants_cancel(handle))) {
        atomic_store_explicit(&handle->refs, 0, memory_order_relaxed);
        return true;
    }
    before = atomic_fetch_sub_explicit(&handle->refs, 1, memory_order_acq_rel);
    HG_ASSERT(before > 0);
    return before % HG_HANDLE_DECODED == 1;
}

HG_PRIVATE bool hg_handle_try_ref(struct hg_handle *handle)
{
    uint64_t before = atomic_load_explicit(&handle->refs, memory_order_relaxed);

    while (before % HG_HANDLE_DECODED > 0) {
        if (atomic_compare_exchange_weak_explicit(&handle->refs, &before,
                before + 1, memory_order_acq_rel, memory_order_relaxed))
            return true;
    }
    return false;
}

/* Whether the application has set data or decoded values that are not freed. */
static HG_HOT bool hg_handle_has_values(const struct hg_handle *handle)
{
    return ((uintptr_t) handle->call.data |
               (uintptr_t) atomic_load_explicit(
                   &handle->decoded, memory_order_relaxed)) != 0;
}

/* Whether the handle has nothing to free. Freeing takes too long with the lock
 * held. */
static HG_HOT bool hg_handle_is_light(const struct hg_handle *handle)
{
    return !handle->large && !hg_handle_has_values(handle) &&
        hg_handle_large_bytes(handle) == 0;
}

/* Free what the application has set and decoded. */
static HG_NOINLINE void hg_handle_free_values(struct hg_handle *handle)
{
    if (handle->call.data != NULL && handle->call.free_data != NULL)
        handle->call.free_data(handle->call.data);
    handle->call.data = NULL;
    hg_proc_record_settle(
        atomic_exchange(&handle->decoded, NULL), HG_PROC_RELEASE);
}

/* The lock is not held. */
static void hg_handle_free_data(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;

    if (handle->large) {
        context->end_input(handle);
        hg_handle_clear_large(&handle->in_large);
        hg_handle_clear_large(&handle->out_large);
    }
    handle->large = false;
    if (hg_handle_has_values(handle))
        hg_handle_free_values(handle);
    if (!hg_handle_may_keep_buffers(handle)) {
        hg_handle_trim(&handle->in);
        hg_handle_trim(&handle->out);
    }
}

static HG_HOT void hg_handle_leave_addr(struct na_addr *addr)
{
    if (addr != NULL && !addr->self)
        na_addr_unuse(addr);
}

/* Put a handle without references into the pool. The lock is held. */
static HG_HOT void hg_handle_take_in(struct hg_handle *handle)
{
    struct na_addr *addr = handle->addr;
    struct hg_handle *excess;

    hg_handle_discount_locked(handle);
    hg_handle_clear(handle);
    excess = hg_handle_put(handle);
    hg_handle_leave_addr(addr);
    if (HG_UNLIKELY(excess != NULL))
        hg_handle_delete(excess);
}

HG_PRIVATE HG_HOT void hg_handle_collect_some(struct hg_context *context)
{
    struct hg_handle *handle = atomic_exchange_explicit(
        &context->returned, NULL, memory_order_acquire);

    while (handle != NULL) {
        struct hg_handle *next = handle->returned;

        HG_ASSERT(atomic_load(&handle->refs) % HG_HANDLE_DECODED == 0);

        hg_handle_take_in(handle);
        handle = next;
    }
}

/* Park an abandoned handle without references. The one that was parked for the
 * longest time goes to the pool. */
static HG_NOINLINE HG_COLD void hg_handle_park(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    struct hg_handle *oldest;

    hg_handle_free_data(handle);
    hg_handle_trim(&handle->in);
    hg_handle_trim(&handle->out);
    hg_enter(context->lock);
    hg_handle_discount_locked(handle);
    if (handle->indexed)
        hg_handle_leave_index(handle);
    handle->indexed = false;
    hg_handle_leave_addr(handle->addr);
    handle->addr = NULL;
    hg_list_remove(&handle->link);
    hg_list_push(&context->parked, &handle->link);
    hg_handle_count_locked(context, HG_COUNT_RESPONSES_SENT, 1);
    if (context->parked_count == HG_HANDLE_PARKED) {
        oldest = HG_CONTAINER_OF(context->parked.next, struct hg_handle, link);
        atomic_store(&oldest->state, HG_HANDLE_IDLE);
        hg_handle_take_in(oldest); /* `live` counts it for this one */
    } else {
        context->parked_count++;
        context->live--;
    }
    /* From here on the context and the class may be freed. */
    hg_leave(context->lock);
}

/* The last reference was released while an incoming call was with its handler:
 * answer the call. False: the handle has a reference again, until the answer
 * has been sent. */
static HG_NOINLINE bool hg_handle_abandon(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;

    atomic_store(&handle->refs, 1);
    context->abandon(handle);
    return hg_handle_is_last(handle);
}

/* The last reference was released of a call without a response. True: nothing
 * is left to do. */
static HG_NOINLINE bool hg_handle_end_unanswered(struct hg_handle *handle)
{
    if (atomic_load(&handle->state) == HG_HANDLE_ARRIVED &&
        !hg_handle_abandon(handle))
        return true;
    if (atomic_load(&handle->state) != HG_HANDLE_ABANDONED)
        return false;
    hg_handle_park(handle);
    return true;
}

/* The last reference was released. The lock is not held. */
static HG_HOT void hg_handle_end(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;
    bool light;

    if (HG_UNLIKELY(atomic_load_explicit(&handle->state,
                        memory_order_relaxed) >= HG_HANDLE_ARRIVED) &&
        hg_handle_end_unanswered(handle))
        return;
    light = hg_handle_is_light(handle) && !handle->counted;
    if (HG_UNLIKELY(!light))
        hg_handle_free_data(handle);
    if (!light) {
        hg_enter(context->lock);
        hg_handle_take_in(handle);
        /* From here on the context and the class may be freed. */
        hg_leave(context->lock);
        return;
    }
    handle->returned =
        atomic_load_explicit(&context->returned, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&context->returned,
        &handle->returned, handle, memory_order_release, memory_order_relaxed))
        ;
}

HG_PRIVATE HG_HOT void hg_handle_unref(struct hg_handle *handle)
{
    if (hg_handle_is_last(handle))
        hg_handle_end(handle);
}

HG_PRIVATE void hg_handle_unref_locked(struct hg_handle *handle)
{
    struct hg_monitor *lock = handle->context->lock;

    HG_ASSERT(hg_is_inside(lock));
    if (!hg_handle_is_last(handle))
        return;
    if (HG_LIKELY(atomic_load_explicit(&handle->state, memory_order_relaxed) <
                HG_HANDLE_ARRIVED &&
            hg_handle_is_light(handle))) {
        hg_handle_take_in(handle);
        return;
    }
    hg_leave(lock);
    hg_handle_end(handle);
    hg_enter(lock);
}

HG_PRIVATE void hg_handle_give(struct hg_handle *handle, bool decoded)
{
    uint64_t before = atomic_fetch_add_explicit(&handle->refs,
        HG_HANDLE_GIVEN + (decoded ? HG_HANDLE_DECODED : 0),
        memory_order_relaxed);

    HG_ASSERT(before > 0);
    (void) before;
}

HG_PRIVATE void hg_handle_hand_over(struct hg_handle *handle, bool keep)
{
    HG_ASSERT(atomic_load(&handle->refs) == 1);
    atomic_store_explicit(
        &handle->refs, HG_HANDLE_GIVEN + (keep ? 1 : 0), memory_order_relaxed);
}

HG_PRIVATE bool hg_handle_take_back(struct hg_handle *handle, bool decoded)
{
    uint64_t what = HG_HANDLE_GIVEN + (decoded ? HG_HANDLE_DECODED : 0);
    uint64_t before = atomic_load_explicit(&handle->refs, memory_order_relaxed);

    if (HG_LIKELY(!decoded && hg_handle_is_mine(handle))) {
        atomic_store_explicit(&handle->refs, 1, memory_order_release);
        return true;
    }
    do {
        if (before % HG_HANDLE_DECODED < HG_HANDLE_GIVEN || before < what)
            return false;
    } while (
        !atomic_compare_exchange_weak(&handle->refs, &before, before - what));
    if ((before - what) % HG_HANDLE_DECODED == 0)
        hg_handle_end(handle);
    return true;
}

HG_PRIVATE void hg_handle_set_info(struct hg_handle *handle)
{
    struct hg_call_part *call = &handle->call;

    call->used = true;
    call->info.hg_class = handle->context->hg_class;
    call->info.context = handle->context;
    call->info.addr = handle->addr;
    call->info.id = handle->id;
    call->info.context_id = call->target_context;
}

HG_PRIVATE hg_return_t hg_handle_open_call(struct hg_handle *handle)
{
    const struct hg_class *hg_class = handle->context->hg_class;

    if (handle->target)
        handle->call.target_context =
            atomic_load_explicit(&handle->peer_context, memory_order_relaxed);
    hg_handle_set_info(handle);
    return hg_class->handle_made != NULL
        ? hg_class->handle_made(handle, hg_class->handle_made_arg)
        : HG_SUCCESS;
}

HG_PRIVATE void hg_handle_renew(struct hg_handle *handle)
{
    static const struct hg_args none = {NULL, 0, false};

    HG_ASSERT(handle->state == HG_HANDLE_CLAIMED && !handle->target);
    if (handle->large) {
        hg_handle_clear_large(&handle->in_large);
        hg_handle_clear_large(&handle->out_large);
    }
    handle->large = false;
    handle->canceled = false;
    handle->text = NULL;
    atomic_store_explicit(&handle->misread, HG_SUCCESS, memory_order_relaxed);
    handle->ret = HG_SUCCESS;
    handle->in_args = none;
    handle->out_args = none;
    handle->unsent = NULL;
    handle->left = NULL;
}

HG_PRIVATE void hg_handle_set_addr(
    struct hg_handle *handle, struct na_addr *addr)
{
    HG_ASSERT(handle->addr == NULL);
    if (!addr->self)
        na_addr_use(addr);
    handle->addr = addr;
}

HG_PRIVATE void hg_handle_change_addr(
    struct hg_handle *handle, struct na_addr *addr)
{
    struct na_addr *before;

    /* Another thread may scan for calls to a dead peer. */
    hg_enter(handle->context->lock);
    before = handle->addr;
    handle->addr = NULL;
    hg_handle_set_addr(handle, addr);
    hg_handle_leave_addr(before);
    hg_leave(handle->context->lock);
}

HG_PRIVATE unsigned hg_handle_count_targets(
    struct hg_context *context, bool answered)
{
    const struct na_link *link;
    unsigned count = 0;

    for (link = context->targets.next; link != &context->targets;
         link = link->next)
        count += answered ==
            (atomic_load(
                 &HG_CONTAINER_OF(link, struct hg_handle, link)->state) ==
                HG_HANDLE_ANSWERED);
    return count;
}

/* Whether the application has the incoming call, and its input contains the
 * byte. Only then the input is read: before, another thread may set it. The
 * lock is held. */
static bool hg_handle_has_input(
    struct hg_handle *handle, const unsigned char *byte)
{
    enum hg_handle_state state = atomic_load(&handle->state);
    uintptr_t first;

    HG_ASSERT(hg_is_inside(handle->context->lock));
    if (state != HG_HANDLE_ARRIVED && state != HG_HANDLE_ANSWERED)
        return false;
    first = (uintptr_t) handle->in_args.data;
    return (uintptr_t) byte - first < handle->in_args.size;
}

HG_PRIVATE struct hg_handle *hg_handle_find_input(
    struct hg_class *hg_class, const unsigned char *byte)
{
    const struct na_link *sibling;
    const struct na_link *link;
    struct hg_handle *found = NULL;

    hg_enter(hg_class->lock);
    for (sibling = hg_class->contexts.next;
         sibling != &hg_class->contexts && found == NULL;
         sibling = sibling->next) {
        struct hg_context *context =
            HG_CONTAINER_OF(sibling, struct hg_context, sibling);

        /* The latest call first. */
        for (link = context->targets.prev;
             link != &context->targets && found == NULL; link = link->prev) {
            struct hg_handle *handle =
                HG_CONTAINER_OF(link, struct hg_handle, link);

            if (hg_handle_has_input(handle, byte) && hg_handle_try_ref(handle))
                found = handle;
        }
    }
    hg_leave(hg_class->lock);
    return found;
}

HG_PRIVATE void hg_handle_drop_pool(struct hg_context *context)
{
    struct na_link *link;

    while ((link = hg_list_pop(&context->pool)) != NULL)
        hg_handle_delete(HG_CONTAINER_OF(link, struct hg_handle, link));
    context->pool_count = 0;
    while ((link = hg_list_pop(&context->parked)) != NULL)
        hg_handle_delete(HG_CONTAINER_OF(link, struct hg_handle, link));
    context->parked_count = 0;
}

HG_PRIVATE HG_HOT void hg_handle_push(struct hg_handle *handle,
    enum na_lane lane, void (*run)(struct na_completion *done))
{
    handle->done.run = run;
    na_queue_push(handle->context->queue, lane, &handle->done);
}

HG_PRIVATE hg_return_t hg_handle_set_timer(
    struct hg_handle *handle, uint64_t when)
{
    struct hg_context *context = handle->context;
    hg_return_t ret = hg_deadline_add(&context->deadline, &handle->timer, when);

    /* A thread that sleeps in progress must wake up for the first timer. */
    if (ret == HG_SUCCESS && hg_deadline_next(&context->deadline) == when)
        na_progress_poke(context->na_context);
    return ret;
}

/* ---- What is known of it ---- */

HG_PRIVATE const char *hg_handle_peer(const struct hg_handle *handle)
{
    if (handle->addr == NULL)
        return "no address";
    return handle->addr->name != NULL ? handle->addr->name : "a peer";
}

HG_PRIVATE const char *hg_handle_function(const struct hg_handle *handle)
{
    return handle->rpc->name != NULL ? handle->rpc->name : "(unknown)";
}

HG_PRIVATE hg_return_t hg_handle_result(hg_return_t ret)
{
    return ret < 0 || ret >= HG_RETURN_MAX || ret == HG_TIMEOUT ||
            ret == HG_INTR
        ? HG_OTHER_ERROR
        : ret;
}

HG_PRIVATE uint32_t hg_handle_time_left(const struct hg_handle *handle)
{
    uint64_t now;
    uint64_t ms;

    if (handle->deadline == 0)
        return HG_NO_DEADLINE;
    now = hg_clock_now();
    if (now >= handle->deadline)
        return 0;
    ms = (handle->deadline - now - 1) / HG_CLOCK_MS + 1;
    return ms < HG_NO_DEADLINE ? (uint32_t) ms : HG_NO_DEADLINE - 1;
}

HG_PRIVATE HG_HOT bool hg_handle_is_over(struct hg_handle *handle)
{
    return atomic_load_explicit(&handle->unwanted, memory_order_acquire) ||
        (handle->deadline != 0 && hg_clock_now() >= handle->deadline) ||
        (!handle->one_way && na_addr_is_dead(handle->addr));
}

HG_PRIVATE HG_HOT void hg_handle_discount_locked(struct hg_handle *handle)
{
    struct hg_context *context = handle->context;

    HG_ASSERT(hg_is_inside(context->lock));
    if (!handle->counted)
        return;
    handle->counted = false;
    hg_limit_give(
        context->hg_class->limits, handle->addr, handle->counted_as, 1);
}

HG_PRIVATE HG_HOT void hg_handle_discount(struct hg_handle *handle)
{
    if (!handle->counted)
        return;
    hg_enter(handle->context->lock);
    hg_handle_discount_locked(handle);
    hg_leave(handle->context->lock);
}

/* Count a refusal that cannot be sent yet. */
static void hg_handle_count_stuck(struct hg_handle *handle)
{
    HG_ASSERT(hg_is_inside(handle->context->lock));
    if (!handle->target || !handle->refused || handle->counted)
        return;
    handle->counted_as = HG_LIMIT_REFUSALS;
    hg_limit_add(
        handle->context->hg_class->limits, handle->addr, HG_LIMIT_REFUSALS, 1);
    handle->counted = true;
}

/* ---- Sending ---- */

/* The lock is held. */
static void hg_handle_end_sending(struct hg_handle *handle)
{
    uint32_t before = atomic_fetch_sub(&handle->context->sending, 1);
    uint32_t sends = atomic_fetch_sub(&handle->sends, 1);

    HG_ASSERT(before > 0 && sends > 0);
    (void) before;
    (void) sends;
    hg_handle_unref_locked(handle);
}

HG_PRIVATE void hg_handle_notify_left(struct hg_handle *handle, hg_return_t ret)
{
    hg_handle_left_t left = handle->left;

    HG_ASSERT(hg_is_inside(handle->context->lock));
    if (HG_LIKELY(left == NULL))
        return;
    handle->left = NULL;
    left(handle, handle->sequence, ret);
}

/* A message of the handle was sent. The notice that the input of a one-way call
 * was fetched is not its answer: the call still counts. The lock is held. */
static void hg_handle_discount_sent(struct hg_handle *handle)
{
    if (handle->target && (!handle->one_way || handle->refused))
        hg_handle_discount_locked(handle);
}

/* A send that could not complete at once. Its data is not read from the handle
 * when it completes, since the handle may have its next call by then. */
struct hg_handle_late {
    struct hg_handle *handle; /* a reference */
    uint64_t sequence;
    hg_handle_left_t unsent;
    hg_handle_left_t left;
    /* A large answer: the handle's buffer, which counts as held. */
    struct hg_buf taken;
    struct na_segment segment;
    unsigned char data[];
};

/* Whether a message to be queued is an answer whose buffer can be taken from
 * its handle. Smaller ones are copied, and so is a buffer that the application
 * has. */
static bool hg_handle_may_take(
    const struct hg_handle *handle, const struct na_msg *msg)
{
    return handle->target && msg->size > HG_HANDLE_BUF_SMALL &&
        msg->segments[0].address == handle->out.data && !handle->call.own_area;
}

/* Move the handle's buffer to a queued answer, and count it as held. HG_AGAIN
 * (logged): the limit is reached, and the buffer was freed. The lock is
 * held. */
static hg_return_t hg_handle_take_buffer(
    struct hg_handle *handle, struct hg_handle_late *late, size_t size)
{
    struct hg_context *context = handle->context;

    if (!hg_limit_take(
            context->hg_class->limits, handle->addr, HG_LIMIT_HELD, size)) {
        hg_handle_count(context, HG_COUNT_TURNED_AWAY);
        hg_log_warning("rpc",
            "the limit leaves no space for an output of %zu bytes of \"%s\" "
            "with %s, which does not read its responses",
            size, hg_handle_function(handle), hg_handle_peer(handle));
        hg_buf_fini(&handle->out);
        return HG_AGAIN;
    }
    late->taken = handle->out;
    memset(&handle->out, 0, sizeof(handle->out));
    return HG_SUCCESS;
}

/* Free the buffer of a queued answer. The lock is held. */
static void hg_handle_free_taken(
    const struct hg_handle *handle, struct hg_handle_late *late)
{
    if (late->taken.data == NULL)
        return;
    hg_limit_give(handle->context->hg_class->limits, handle->addr,
        HG_LIMIT_HELD, late->segment.size);
    hg_buf_fini(&late->taken);
}

/* The send completed or failed. The lock is held. */
static na_return_t hg_handle_sent(const struct na_cb_info *info)
{
    struct hg_handle_late *late = (struct hg_handle_late *) info->arg;
    struct hg_handle *handle = late->handle;

    hg_handle_free_taken(handle, late);
    /* Another message that is queued by now cannot be withdrawn any more. */
    atomic_store(&handle->late, NA_OP_ID_NULL);
    /* Either callback may end an outgoing call, and the next call may start. */
    if (late->left != NULL)
        late->left(handle, late->sequence, info->ret);
    if (late->unsent != NULL && info->ret != NA_SUCCESS)
        late->unsent(handle, late->sequence, info->ret);
    hg_mem_free(late);
    hg_handle_discount_sent(handle);
    hg_handle_end_sending(handle);
    return NA_SUCCESS;
}

/* Queue a message to be sent, and call `left` when it was sent. The send holds
 * a reference until hg_handle_sent. HG_AGAIN (logged): see max_held_bytes. */
static HG_NOINLINE hg_return_t hg_handle_send_later(
    struct hg_handle *handle, const struct na_msg *now, hg_handle_left_t left)
{
    struct hg_context *context = handle->context;
    struct na_msg msg = *now;
    size_t size = (size_t) msg.size;
    bool takes = hg_handle_may_take(handle, now);
    struct hg_handle_late *late = (struct hg_handle_late *) hg_mem_alloc(
        sizeof(*late) + (takes ? 0 : size));
    hg_return_t ret;

    if (late == NULL)
        return HG_NOMEM;
    memset(&late->taken, 0, sizeof(late->taken));
    if (takes) {
        ret = hg_handle_take_buffer(handle, late, size);
        if (ret != HG_SUCCESS) {
            hg_mem_free(late);
            return ret;
        }
    } else {
        memcpy(late->data, msg.segments[0].address, size);
    }
    late->segment.address = takes ? late->taken.data : late->data;
    late->segment.size = msg.size;
    msg.segments = &late->segment;
    late->handle = handle;
    late->sequence = handle->sequence;
    late->unsent = handle->unsent;
    late->left = left;
    hg_handle_ref(handle);
    atomic_fetch_add(&context->sending, 1);
    atomic_fetch_add(&handle->sends, 1);
    hg_handle_count_stuck(handle);
    ret = na_msg_queue(
        context->na_context, &msg, hg_handle_sent, late, &handle->late);
    if (ret == HG_SUCCESS)
        return HG_SUCCESS;
    hg_handle_free_taken(handle, late);
    hg_mem_free(late);
    hg_handle_end_sending(handle);
    return ret;
}

HG_PRIVATE bool hg_handle_withdraw(struct hg_handle *handle)
{
    na_op_id_t late = atomic_exchange(&handle->late, NA_OP_ID_NULL);

    return late != NA_OP_ID_NULL &&
        na_context_cancel(handle->context->na_context, late) == NA_SUCCESS;
}

HG_PRIVATE HG_HOT void hg_handle_begin_header(const struct hg_handle *handle,
    enum hg_header_type type, struct hg_header *header)
{
    const struct hg_context *context = handle->context;

    memset(header, 0, sizeof(*header));
    header->type = (uint8_t) type;
    header->origin_context = context->id;
    header->rpc_id = handle->id;
    header->sequence = handle->sequence;
}

/* Whether its messages stay in this context. */
static HG_HOT bool hg_handle_is_local(const struct hg_handle *handle)
{
    const struct hg_context *context = handle->context;

    return handle->addr->self &&
        (!context->callbacks ||
            atomic_load_explicit(&handle->peer_context, memory_order_relaxed) ==
                context->id);
}

static HG_NOINLINE void hg_handle_write_header(
    const struct hg_handle *handle, struct hg_handle_message *message)
{
    hg_header_encode(message->header, message->data,
        hg_class_sums_messages(handle->context->hg_class) &&
            hg_handle_is_exposed(handle));
    message->header = NULL;
}

HG_PRIVATE HG_HOT void hg_handle_seal(
    const struct hg_handle *handle, struct hg_handle_message *message)
{
    struct hg_header *header = message->header;

    HG_ASSERT(message->size == HG_HEADER_MIN + header->payload_size);
    if (hg_handle_is_local(handle)) {
        header->payload = message->data + HG_HEADER_MIN;
        return;
    }
    hg_handle_write_header(handle, message);
}

/* Deliver a message within this process, to this context or another. */
static HG_HOT hg_return_t hg_handle_hand_to_self(
    struct hg_handle *handle, const struct hg_handle_message *message)
{
    struct hg_context *context = handle->context;

    HG_ASSERT(hg_is_inside(context->lock));
    if (HG_LIKELY(message->header != NULL))
        return context->file(
            context, handle->addr, message->header, HG_SUCCESS);
    return na_sink_deliver(na_class_core_of(context->na_context->na_class),
        handle->addr,
        atomic_load_explicit(&handle->peer_context, memory_order_relaxed), 0,
        message->data, message->size);
}

/* As hg_handle_hand_to_self, but `left` runs before the caller is notified of
 * the answer, since the caller may free the handle then. An answer succeeds
 * even if the context that called is gone. */
static hg_return_t hg_handle_send_self(
    struct hg_handle *handle, const struct hg_handle_message *message)
{
    if (handle->left == NULL)
        return hg_handle_hand_to_self(handle, message);
    hg_handle_ref(handle);
    hg_handle_notify_left(handle, HG_SUCCESS);
    (void) hg_handle_hand_to_self(handle, message);
    hg_handle_unref_locked(handle);
    return HG_SUCCESS;
}

/* Send a message to another process. */
static hg_return_t hg_handle_send_away(
    struct hg_handle *handle, const struct hg_handle_message *message)
{
    struct hg_context *context = handle->context;
    struct na_segment segment = {message->data, message->size};
    struct na_msg msg = {.addr = handle->addr,
        .segments = &segment,
        .segment_count = 1,
        .size = message->size,
        .plane = NA_MSG_RPC,
        .target =
            atomic_load_explicit(&handle->peer_context, memory_order_relaxed)};
    hg_handle_left_t left = handle->left;
    uint64_t sequence = handle->sequence;
    hg_return_t ret;

    HG_ASSERT(message->header == NULL);
    handle->left = NULL; /* may be reused once the message was sent */
    ret = na_msg_try(context->na_context, &msg);
    if (HG_LIKELY(ret == HG_SUCCESS)) {
        hg_handle_discount_sent(handle);
        if (left != NULL)
            left(handle, sequence, ret);
        return ret;
    }
    if (ret == HG_AGAIN)
        ret = hg_handle_send_later(handle, &msg, left);
    if (ret != HG_SUCCESS) {
        hg_handle_count_stuck(handle);
        handle->left = left;
    }
    return ret;
}

HG_PRIVATE hg_return_t hg_handle_send_locked(
    struct hg_handle *handle, const struct hg_handle_message *message)
{
    HG_ASSERT(hg_is_inside(handle->context->lock));
    return handle->addr->self ? hg_handle_send_self(handle, message)
                              : hg_handle_send_away(handle, message);
}

HG_PRIVATE hg_return_t hg_handle_send(
    struct hg_handle *handle, const struct hg_handle_message *message)
{
    struct hg_monitor *lock = handle->context->lock;
    hg_return_t ret;

    hg_enter(lock);
    ret = hg_handle_send_locked(handle, message);
    hg_leave(lock);
    return ret;
}

HG_PRIVATE void hg_handle_send_control(
    struct hg_handle *handle, struct hg_header *header)
{
    unsigned char control[HG_HEADER_MIN];
    struct hg_handle_message message = {header, control, sizeof(control)};
    hg_return_t ret;

    hg_handle_seal(handle, &message);
    ret = hg_handle_send_locked(handle, &message);
    if (HG_LIKELY(ret == HG_SUCCESS))
        return;
    hg_log_warning("rpc", "cannot send a control message to %s: %s%s",
        hg_handle_peer(handle), HG_Error_to_string(ret),
        ret == HG_NOMEM ? "; the connection ends" : "");
    if (ret == HG_NOMEM)
        na_addr_abandon(handle->addr);
}

/* ---- Arguments ---- */

/* Set what a proc may ask for. Only the callback model gives procs the handle
 * and the class. */
static HG_HOT void hg_handle_lend(
    struct hg_handle *handle, struct hg_proc *proc)
{
    proc->layer = handle->context->hg_class->layer;
    proc->function = handle->rpc->name;
    proc->addr = handle->addr;
    if (!handle->context->callbacks)
        return;
    proc->hg_class = handle->context->hg_class;
    proc->handle = handle;
}

/* Start decoding arguments that follow `area` bytes of the application. */
static hg_return_t hg_handle_begin_decode(const struct hg_handle *handle,
    struct hg_proc *proc, const struct hg_args *args, size_t area)
{
    if (args->size < area) {
        HG_LOG_EXPLAIN(HG_LOG_LEVEL_WARNING, "proc",
            "\"%s\" with %s: %zu bytes arrived, but the arguments follow %zu "
            "bytes of the application",
            hg_handle_function(handle), hg_handle_peer(handle), args->size,
            area);
        return HG_OVERFLOW;
    }
    hg_proc_init_decode(proc, args->data + area, args->size - area);
    return HG_SUCCESS;
}

/* Record in the handle that its arguments cannot be decoded. */
static hg_return_t hg_handle_misread(struct hg_handle *handle, hg_return_t ret)
{
    HG_ASSERT(ret != HG_SUCCESS);
    hg_handle_count(handle->context, HG_COUNT_REFUSED);
    atomic_store_explicit(&handle->misread, ret, memory_order_relaxed);
    return ret;
}

HG_PRIVATE hg_return_t hg_handle_decode(
    struct hg_handle *handle, void *data, hg_proc_records_t *owner)
{
    bool target = handle->target;
    const struct hg_args *args = target ? &handle->in_args : &handle->out_args;
    struct hg_proc proc;
    hg_return_t ret;

    ret = hg_handle_begin_decode(
        handle, &proc, args, hg_handle_area(handle, !target));
    if (ret != HG_SUCCESS)
        return hg_handle_misread(handle, ret);
    proc.owner = owner;
    hg_handle_lend(handle, &proc);
    ret = target ? handle->rpc->in_proc(&proc, data)
                 : handle->rpc->out_proc(&proc, data);
    if (args->raw || handle->context->hg_class->options.no_checksum)
        proc.cursor.pos = proc.cursor.end; /* the proc may leave bytes unread */
    ret = hg_handle_result(hg_proc_finish_decode(&proc, ret));
    return HG_LIKELY(ret == HG_SUCCESS) ? ret : hg_handle_misread(handle, ret);
}

HG_PRIVATE hg_return_t hg_handle_free_input(
    struct hg_handle *handle, void *data)
{
    struct hg_proc_record *record;
    hg_return_t ret;

    if (HG_LIKELY(atomic_load_explicit(
                      &handle->decoded, memory_order_acquire) == NULL))
        return hg_handle_release(handle->rpc->in_proc, data);
    record = atomic_exchange(&handle->decoded, NULL);
    ret = hg_handle_release(handle->rpc->in_proc, data);
    /* Afterwards: a bulk handle that the application has freed before is still
     * there, so the second time is reported. */
    hg_proc_record_settle(record, HG_PROC_DROP);
    return ret;
}

HG_PRIVATE hg_return_t hg_handle_release(hg_proc_cb_t proc_cb, void *data)
{
    struct hg_proc proc;

    hg_proc_init_free(&proc);
    return proc_cb(&proc, data);
}

HG_PRIVATE hg_return_t hg_handle_release_of(
    struct hg_handle *handle, hg_proc_cb_t proc_cb, void *data)
{
    struct hg_proc proc;

    hg_proc_init_free(&proc);
    hg_handle_lend(handle, &proc);
    return proc_cb(&proc, data);
}

HG_PRIVATE hg_return_t hg_handle_open_area(
    struct hg_handle *handle, size_t size)
{
    struct hg_buf *buf = handle->target ? &handle->out : &handle->in;
    size_t area = hg_handle_area(handle, handle->target);
    bool fresh = !handle->call.own_area || buf->capacity < HG_HEADER_MIN + area;
    hg_return_t ret;

    if (size < area)
        size = area;
    HG_ASSERT(handle->context->callbacks);
    ret = hg_buf_reserve(buf, HG_HEADER_MIN + size, HG_HEADER_MIN + size);
    if (ret == HG_SUCCESS && fresh)
        memset(buf->data + HG_HEADER_MIN, 0, area);
    return ret;
}

/* Check the size of arguments to be sent. HG_OVERFLOW, logged: they exceed a
 * message, and larger arguments are disabled. */
static hg_return_t hg_handle_check_size(const struct hg_class *hg_class,
    const char *function, bool output, size_t size)
{
    size_t eager = output ? hg_class_output_eager(hg_class)
                          : hg_class_input_eager(hg_class);

    if (HG_LIKELY(!hg_class->no_overflow || size <= eager))
        return HG_SUCCESS;
    hg_log_error("rpc",
        "the %s of \"%s\" has %zu bytes; the maximum is %zu, since larger ones "
        "are disabled",
        output ? "output" : "input", function, size, eager);
    return HG_OVERFLOW;
}

HG_PRIVATE hg_return_t hg_handle_encode(struct hg_handle *handle, void *data)
{
    bool target = handle->target;
    struct hg_buf *buf = target ? &handle->out : &handle->in;
    struct hg_args *args = target ? &handle->out_args : &handle->in_args;
    hg_proc_cb_t proc_cb =
        target ? handle->rpc->out_proc : handle->rpc->in_proc;
    size_t area = hg_handle_area(handle, target);
    size_t limit =
        HG_HEADER_MIN + area + handle->context->hg_class->options.max_args_size;
    struct hg_proc proc;
    hg_return_t ret = HG_SUCCESS;

    if (HG_UNLIKELY(area > 0))
        ret = hg_handle_open_area(handle, area);
    if (ret != HG_SUCCESS)
        return ret;
    ret = hg_proc_init_encode(&proc, buf, HG_HEADER_MIN + area, limit);
    hg_handle_lend(handle, &proc);
    if (ret == HG_SUCCESS && proc_cb != NULL && data != NULL)
        ret = proc_cb(&proc, data);
    ret = hg_proc_finish_encode(&proc, ret, &args->size);
    if (ret != HG_SUCCESS)
        return ret;
    args->data = buf->data + HG_HEADER_MIN;
    args->size += area;
    return hg_handle_check_size(handle->context->hg_class,
        hg_handle_function(handle), target, args->size);
}
