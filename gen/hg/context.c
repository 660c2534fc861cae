/* SPDX-License-Identifier: BSD-3-Clause */
/* context: see context.h. */
#include "hg/context.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "hg/cancel.h"
#include "hg/forward.h"
#include "hg/overflow.h"
#include "hg/serve.h"
#include "na/addr.h"
#include "na/context.h"
#include "na/live.h"
#include "na/msg.h"
#include "na/progress.h"

/* ---- Messages in ---- */

/* Queue a message that arrived, or that a call to the own process handed over;
 * `header` is its header. `ret` is the result of decoding it. Answers and
 * refusals are sent later, from the internal lane. NA_NOMEM: it could not be
 * queued; a caller in this process gets that from HG_Forward(). */
static na_return_t hg_context_file(struct hg_context *context,
    struct na_addr *source, const struct hg_header *header, hg_return_t ret)
{
    if (header->type == HG_HEADER_REQUEST)
        return hg_serve_request(context, source, header, ret);
    if (header->type == HG_HEADER_RESPONSE)
        hg_forward_answer(context, source, header, ret);
    else if (header->type == HG_HEADER_CANCEL && ret == HG_SUCCESS)
        hg_cancel_arrived(context, source, header);
    else if (ret == HG_SUCCESS)
        hg_handle_count(context, HG_COUNT_REFUSED);
    return NA_SUCCESS;
}

/* A message of a peer that this class, which does not listen, has not looked
 * up. */
static hg_return_t hg_context_refuse_stranger(struct hg_context *context,
    const struct na_addr *source, const struct hg_header *header)
{
    if (header->type != HG_HEADER_REQUEST)
        return HG_SUCCESS;
    hg_handle_count(context, HG_COUNT_REFUSED);
    hg_log_warning("rpc",
        "refused a call of %s: this class does not listen, and has not looked "
        "it up",
        source->name != NULL ? source->name : "a peer");
    return HG_PERMISSION;
}

/* Sink of the RPC plane. */
static na_return_t hg_context_arrived(void *arg, struct na_addr *source,
    na_tag_t tag, const void *data, na_size_t size)
{
    struct hg_context *context = (struct hg_context *) arg;
    struct hg_header header;
    bool answerable;
    hg_return_t ret;

    (void) tag;
    ret = hg_header_decode(&header, data, (size_t) size, &answerable);
    if (ret != HG_SUCCESS) {
        hg_handle_count(context, HG_COUNT_REFUSED);
        hg_log_warning("rpc", "a %s message of %" PRIu64 " bytes from %s",
            ret == HG_CHECKSUM_ERROR ? "damaged" : "malformed", size,
            source->name != NULL ? source->name : "a peer");
        if (!answerable)
            return NA_SUCCESS;
    } else if (HG_UNLIKELY(source->stranger))
        ret = hg_context_refuse_stranger(context, source, &header);
    return hg_context_file(context, source, &header, ret);
}

static void hg_context_peer_dead(
    void *arg, struct na_addr *addr, na_return_t ret)
{
    struct hg_context *context = (struct hg_context *) arg;

    hg_forward_end_all(context, addr, ret);
    hg_cancel_peer(context, addr);
    if (context->quota_waits > 0)
        na_queue_raise(context->queue, &context->quota_changed);
}

static void hg_context_end_input(struct hg_handle *handle)
{
    hg_overflow_end(handle, &handle->in_large);
}

/* ---- Time ---- */

static uint64_t hg_context_run_some_timers(struct hg_context *context)
{
    struct hg_timer *timer;

    HG_ASSERT(hg_is_inside(context->lock));
    while (context->deadline.count > 0 &&
        (timer = hg_deadline_pop(&context->deadline, hg_clock_now())) != NULL) {
        struct hg_handle *handle =
            HG_CONTAINER_OF(timer, struct hg_handle, timer);

        hg_handle_ref(handle);
        if (!handle->target)
            hg_forward_expired(handle);
        else
            hg_overflow_expired(handle);
        hg_handle_unref_locked(handle);
    }
    return hg_deadline_next(&context->deadline);
}

/* Run expired timers. Returns when the next timer expires. The lock is held. */
static inline uint64_t hg_context_run_timers(struct hg_context *context)
{
    return context->deadline.count > 0 ? hg_context_run_some_timers(context)
                                       : HG_CLOCK_NEVER;
}

/* ---- Progress ---- */

/* Whether bulk data uses its own NA class. */
static bool hg_context_is_separate(const struct hg_context *context)
{
    return context->transfers.context != context->na_context;
}

/* Several threads may sleep on the same descriptors. One of them may take the
 * event that another one waits for, which then sleeps at most so long. */
#define HG_CONTEXT_SLEEP_MS 100

/* Sleep on the descriptors of both NA contexts. */
static hg_return_t hg_context_sleep(
    struct hg_context *context, uint64_t deadline)
{
    struct na_context *contexts[2];
    struct pollfd fds[2];
    int timeout = hg_clock_ms_until(deadline);
    int count = 0;
    int i;

    if (timeout > HG_CONTEXT_SLEEP_MS)
        timeout = HG_CONTEXT_SLEEP_MS;
    contexts[0] = context->na_context;
    contexts[1] = context->transfers.context;
    for (i = 0; i < 2; i++) {
        int fd = NA_Poll_get_fd(contexts[i]->na_class, contexts[i]);

        if (!NA_Poll_try_wait(contexts[i]->na_class, contexts[i]))
            return HG_SUCCESS;
        if (fd < 0 && timeout > 1)
            timeout = 1; /* poll once a millisecond */
        if (fd >= 0) {
            fds[count].fd = fd;
            fds[count].events = POLLIN;
            fds[count].revents = 0;
            count++;
        }
    }
    if (poll(fds, (nfds_t) count, timeout) < 0 && errno == EINTR)
        return HG_INTR;
    return HG_SUCCESS;
}

/* Make progress on two NA classes, one for calls and one for bulk data. */
static hg_return_t hg_context_progress_both(struct hg_context *context,
    unsigned lanes, const _Atomic bool *done, uint64_t deadline)
{
    const struct na_init_info *info = context->hg_class->na_class->info;
    uint64_t window =
        info->wait_mode == NA_WAIT_BLOCK ? 0 : (uint64_t) info->spin_us * 1000;
    uint64_t awake_until = hg_clock_now() + window;
    const struct na_context_core *core =
        na_context_core_of(context->na_context);
    unsigned pokes = core->pokes;

    for (;;) {
        uint64_t now;
        hg_return_t ret;

        hg_leave(context->lock);
        hg_enter(context->transfers.layer->lock);
        (void) na_progress(context->transfers.context, 0, NULL, 0);
        hg_leave(context->transfers.layer->lock);
        hg_enter(context->lock);
        ret = na_progress(context->na_context, lanes, done, 0);
        if (ret != HG_TIMEOUT)
            return ret;
        if (deadline == 0)
            return HG_TIMEOUT;
        if (core->pokes != pokes)
            return HG_SUCCESS;
        now = hg_clock_now();
        if (now >= deadline)
            return HG_TIMEOUT;
        if (now < awake_until || info->wait_mode == NA_WAIT_SPIN) {
            hg_leave(context->lock);
            (void) sched_yield();
            hg_enter(context->lock);
            continue;
        }
        hg_leave(context->lock);
        ret = hg_context_sleep(context, deadline);
        hg_enter(context->lock);
        if (ret != HG_SUCCESS)
            return ret;
    }
}

/* Calls of HG_Wake(), and how many of them this thread has noticed. */
static _Atomic unsigned hg_context_wakes;
static _Thread_local unsigned hg_context_seen;

HG_PRIVATE void hg_context_wake(struct hg_context *context)
{
    atomic_fetch_add(&hg_context_wakes, 1);
    if (context != NULL)
        na_progress_ask(context->na_context);
}

HG_PRIVATE bool hg_context_is_woken(void)
{
    unsigned wakes = atomic_load(&hg_context_wakes);

    if (HG_LIKELY(wakes == hg_context_seen))
        return false;
    hg_context_seen = wakes;
    return true;
}

static _Thread_local bool hg_context_driver;

HG_PRIVATE bool hg_context_is_driver(void)
{
    return hg_context_driver;
}

/* Implements hg_context_progress(). */
static HG_HOT hg_return_t hg_context_progress_until(struct hg_context *context,
    unsigned lanes, const _Atomic bool *done, uint64_t deadline)
{
    for (;;) {
        uint64_t next = hg_context_run_timers(context);
        uint64_t until = next < deadline ? next : deadline;
        hg_return_t ret = hg_context_is_separate(context)
            ? hg_context_progress_both(context, lanes, done, until)
            : na_progress(context->na_context, lanes, done, until);

        if (ret == HG_SUCCESS && done == NULL &&
            !na_queue_has(context->queue, lanes)) {
            /* Woken for a timer, or another thread took the entry. */
            if (hg_clock_is_past(deadline) || hg_context_is_woken())
                return HG_TIMEOUT;
        } else if (ret != HG_TIMEOUT || until == deadline) {
            return ret;
        }
    }
}

HG_PRIVATE HG_HOT hg_return_t hg_context_progress(struct hg_context *context,
    unsigned lanes, const _Atomic bool *done, uint64_t deadline)
{
    bool before = hg_context_driver; /* a hook may make progress itself */
    hg_return_t ret;

    hg_context_driver = true;
    ret = hg_context_progress_until(context, lanes, done, deadline);
    hg_context_driver = before;
    return ret;
}

/* ---- Event loops ---- */

HG_PRIVATE int hg_context_event_fd(struct hg_context *context)
{
    return NA_Poll_get_fd(context->na_context->na_class, context->na_context);
}

HG_PRIVATE bool hg_context_event_ready(struct hg_context *context)
{
    bool idle;

    HG_ASSERT(context->callbacks && !hg_context_is_separate(context));
    hg_enter(context->lock);
    idle = na_progress_arm(
        context->na_context, hg_deadline_next(&context->deadline));
    hg_leave(context->lock);
    return !idle;
}

/* ---- Counts ---- */

/* The lock is held, or the context is being destroyed. */
static void hg_context_add_counts(
    const struct hg_context *context, uint64_t counts[HG_COUNTS])
{
    unsigned i;

    for (i = 0; i < HG_COUNTS; i++)
        counts[i] +=
            atomic_load_explicit(&context->counts[i], memory_order_relaxed);
}

/* Add the counters, and the current values of those that are not cumulative. */
static void hg_context_add_now(struct hg_context *context,
    uint64_t counts[HG_COUNTS], struct hg_counters *sum)
{
    HG_ASSERT(hg_is_inside(context->lock));
    hg_handle_collect(context);
    hg_context_add_counts(context, counts);
    counts[HG_COUNT_RESPONSES_SENT] += hg_handle_count_targets(context, true);
    sum->unanswered += hg_handle_count_targets(context, false);
}

HG_PRIVATE void hg_context_sum(
    struct hg_class *hg_class, struct hg_counters *sum_p)
{
    uint64_t counts[HG_COUNTS];
    struct hg_bulk_layer *layer = hg_class->layer;
    struct na_link *link;

    sum_p->unanswered = 0;
    hg_enter(hg_class->lock);
    sum_p->in_flight = hg_class->in_flight;
    sum_p->fetched_bytes = hg_class->limits[HG_LIMIT_FETCHED].used;
    sum_p->held_bytes = hg_class->limits[HG_LIMIT_HELD].used;
    memcpy(counts, hg_class->counted, sizeof(counts));
    for (link = hg_class->contexts.next; link != &hg_class->contexts;
         link = link->next)
        hg_context_add_now(
            HG_CONTAINER_OF(link, struct hg_context, sibling), counts, sum_p);
    hg_leave(hg_class->lock);
    _Static_assert(offsetof(struct hg_counters, canceled) -
                offsetof(struct hg_counters, requests_sent) ==
            HG_COUNT_CANCELED * sizeof(uint64_t),
        "the members have the order of the counts");
    memcpy(
        (unsigned char *) sum_p + offsetof(struct hg_counters, requests_sent),
        counts, sizeof(counts));
    hg_enter(layer->lock);
    sum_p->bulk_damaged = layer->transfers_damaged;
    sum_p->bulk_bytes_pulled = layer->bytes_pulled;
    sum_p->bulk_bytes_pushed = layer->bytes_pushed;
    hg_leave(layer->lock);
}

/* ---- Life ---- */

/* Open the NA context for messages, and a second one if bulk data uses its own
 * class. */
static hg_return_t hg_context_open_na(struct hg_context *context)
{
    struct na_class *na_class = context->hg_class->na_class;
    struct na_class *bulk_class = context->hg_class->layer->na_class;
    hg_return_t ret;

    ret = na_context_create(na_class, NA_CONTEXT_LAYER, &context->na_context);
    if (ret != HG_SUCCESS)
        return ret;
    context->queue = &na_context_core_of(context->na_context)->queue;
    context->transfers.queue = context->queue;
    context->transfers.context = context->na_context;
    if (bulk_class == na_class)
        return HG_SUCCESS;
    ret = na_context_create(
        bulk_class, NA_CONTEXT_LAYER, &context->transfers.context);
    if (ret != HG_SUCCESS)
        (void) na_context_destroy(context->na_context, 0);
    return ret;
}

/* Close the NA contexts. `quiet`: no operation is pending; otherwise the drain
 * time has passed. */
static void hg_context_close_na(struct hg_context *context, bool quiet)
{
    unsigned ms = quiet ? NA_CONTEXT_DRAIN_MS : 0;

    if (hg_context_is_separate(context))
        (void) na_context_destroy(context->transfers.context, ms);
    (void) na_context_destroy(context->na_context, ms);
}

HG_PRIVATE hg_return_t hg_context_create(
    struct hg_class *hg_class, int id, struct hg_context **context_p)
{
    struct hg_context *context =
        (struct hg_context *) hg_mem_calloc(1, sizeof(*context));
    hg_return_t ret;

    if (context == NULL) {
        hg_log_error("ctx", "no memory for a context");
        return HG_NOMEM;
    }
    context->lock = hg_class->lock;
    hg_transfer_list_init(&context->transfers, hg_class->layer);
    hg_list_init(&context->pool);
    hg_list_init(&context->parked);
    hg_list_init(&context->origins);
    hg_list_init(&context->targets);
    hg_map_init(&context->by_call);
    hg_slots_init(&context->sequences);
    hg_deadline_init(&context->deadline);
    hg_list_init(&context->sibling);
    context->hg_class = hg_class;
    context->callbacks = id != HG_CONTEXT_OWN;
    context->file = hg_context_file;
    context->end_input = hg_context_end_input;
    context->abandon = hg_serve_abandon;
    ret = na_live_add(NA_LIVE_CONTEXT, context);
    if (ret != HG_SUCCESS)
        goto free_context;
    ret = hg_context_open_na(context);
    if (ret != HG_SUCCESS)
        goto remove;
    ret =
        na_sink_open(context->na_context->na_class, id >= 0 ? id : NA_SINK_ANY,
            hg_context_arrived, hg_context_peer_dead, context, &context->id);
    if (ret != HG_SUCCESS)
        goto close_na;
    hg_enter(hg_class->lock);
    hg_list_push(&hg_class->contexts, &context->sibling);
    hg_leave(hg_class->lock);
    *context_p = context;
    return HG_SUCCESS;

close_na:
    hg_context_close_na(context, true);
remove:
    na_live_remove(NA_LIVE_CONTEXT, context);
free_context:
    hg_mem_free(context);
    return ret;
}

HG_PRIVATE bool hg_context_is_quiet(struct hg_context *context)
{
    bool quiet;

    hg_enter(context->lock);
    hg_handle_collect(context);
    quiet = context->live == 0 && context->sending == 0;
    hg_leave(context->lock);
    return quiet && hg_transfer_list_count(&context->transfers) == 0 &&
        atomic_load(&context->lookups) == 0;
}

/* Whether only idle handles are left, which only the application can free. */
static bool hg_context_is_stuck(struct hg_context *context)
{
    const struct na_link *link;
    uint32_t idle = 0;
    bool stuck;

    hg_enter(context->lock);
    for (link = context->origins.next; link != &context->origins;
         link = link->next)
        idle += HG_CONTAINER_OF(link, struct hg_handle, link)->state ==
            HG_HANDLE_IDLE;
    stuck = idle > 0 && idle == context->live && context->sending == 0 &&
        hg_transfer_list_count(&context->transfers) == 0 &&
        atomic_load(&context->lookups) == 0 &&
        !na_queue_has(context->queue, NA_LANES_ALL);
    hg_leave(context->lock);
    return stuck;
}

HG_PRIVATE bool hg_context_drain(struct hg_context *context, unsigned ms)
{
    uint64_t deadline = hg_clock_after_ms(ms);

    while (!hg_context_is_quiet(context) && !hg_context_is_stuck(context) &&
        hg_clock_now() < deadline) {
        hg_enter(context->lock);
        (void) hg_context_progress(
            context, NA_LANES_ALL, NULL, hg_clock_after_ms(10));
        (void) na_queue_run(context->queue, NA_LANES_ALL, UINT_MAX, deadline);
        hg_leave(context->lock);
        if (!context->callbacks)
            hg_serve_end_all(context);
    }
    return hg_context_is_quiet(context);
}

/* Free the context. No transport uses its memory any more. */
static void hg_context_delete(struct hg_context *context)
{
    hg_handle_drop_pool(context);
    hg_map_fini(&context->by_call);
    hg_slots_fini(&context->sequences);
    hg_deadline_fini(&context->deadline);
    hg_mem_free(context);
}

/* Remove the context from its class, and add its counters to the class's. */
static void hg_context_leave_class(struct hg_context *context)
{
    struct hg_class *hg_class = context->hg_class;

    HG_ASSERT(!hg_list_is_empty(&context->sibling));
    hg_enter(hg_class->lock);
    hg_list_remove(&context->sibling);
    hg_context_add_counts(context, hg_class->counted);
    hg_leave(hg_class->lock);
    na_live_remove(NA_LIVE_CONTEXT, context);
}

HG_PRIVATE void hg_context_refuse(struct hg_context *context)
{
    hg_enter(context->lock);
    context->closing = true;
    hg_leave(context->lock);
}

/* Why a handle that is left is not free, for the log. */
static const char *hg_context_why_left(const struct hg_handle *handle)
{
    enum hg_handle_state state = atomic_load(&handle->state);

    if (state == HG_HANDLE_ARRIVED)
        return "; the first has no response";
    if (atomic_load(&handle->refs) >= HG_HANDLE_DECODED)
        return handle->target ? "; the input of the first was not freed"
                              : "; the output of the first was not freed";
    return hg_handle_given(handle) > 0 &&
            (state == HG_HANDLE_IDLE || state == HG_HANDLE_ANSWERED)
        ? "; the first was not destroyed"
        : "; the call of the first is not over";
}

HG_PRIVATE void hg_context_describe(
    struct hg_context *context, char *text, size_t size)
{
    const struct na_link *lists[2];
    const struct hg_handle *first = NULL;
    unsigned same = 0;
    unsigned others = 0;
    unsigned i;

    HG_ASSERT(hg_is_inside(context->lock));
    hg_handle_collect(context);
    lists[0] = &context->origins;
    lists[1] = &context->targets;
    for (i = 0; i < 2; i++) {
        const struct na_link *link;

        for (link = lists[i]->next; link != lists[i]; link = link->next) {
            const struct hg_handle *handle =
                HG_CONTAINER_OF(link, struct hg_handle, link);

            if (first == NULL)
                first = handle;
            if (handle->id == first->id && handle->addr == first->addr)
                same++;
            else
                others++;
        }
    }
    (void) snprintf(text, size,
        "handles%s%s%s%s: %u, others: %u, sends: %" PRIu32
        ", transfers: %" PRIu32 "%s",
        first != NULL ? " of \"" : "",
        first != NULL ? hg_handle_function(first) : "",
        first != NULL ? "\" with " : "",
        first != NULL ? hg_handle_peer(first) : "", same, others,
        context->sending, hg_transfer_list_count(&context->transfers),
        first != NULL ? hg_context_why_left(first) : "");
}

HG_PRIVATE void hg_context_destroy(struct hg_context *context)
{
    struct hg_class *hg_class = context->hg_class;
    unsigned drain_ms = hg_class->options.drain_ms;
    char left[HG_CONTEXT_TEXT_MAX];
    bool quiet;

    hg_serve_log_unanswered(context);
    hg_context_refuse(context);
    hg_enter(context->lock);
    hg_forward_end_all(context, NULL, HG_CANCELED);
    hg_leave(context->lock);
    hg_serve_end_all(context);
    /* First wait for sends that can still complete, then cancel the rest. */
    quiet = hg_context_drain(context, drain_ms);
    na_sink_close(context->na_context->na_class, context->id);
    if (!quiet) {
        hg_overflow_release_all(context);
        na_context_cancel_all(context->transfers.context);
        na_context_cancel_all(context->na_context);
    }
    /* Needed even if all was quiet: a call may have arrived before the sink was
     * closed. */
    (void) hg_context_drain(context, drain_ms);
    quiet = hg_context_is_quiet(context);
    if (!quiet) {
        hg_transfer_list_leave(&context->transfers);
        hg_enter(context->lock);
        hg_context_describe(context, left, sizeof(left));
        hg_leave(context->lock);
        hg_log_error("ctx",
            "%" PRIu32 " calls, %" PRIu32 " sends and %" PRIu32
            " transfers did not end: their memory is leaked (%s)",
            context->live, context->sending,
            hg_transfer_list_count(&context->transfers), left);
    }
    hg_context_close_na(context, quiet);
    hg_context_leave_class(context);
    if (quiet)
        hg_context_delete(context);
    else
        hg_class->leaked = true;
}
