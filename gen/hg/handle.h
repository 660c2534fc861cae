/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handle: one call, at its origin or at its target.
 *
 * The handles of the origin and the target have the same type. A handle owns
 * the bytes of both messages. It is reference-counted: the application, a send
 * in progress, the fetch of large arguments and a queued step each hold a
 * reference. An outgoing call has one reference, which passes from its creator
 * to its callback. Releasing the last reference returns the handle with its
 * buffers to its context's pool.
 *
 *     origin:  IDLE -> (CLAIMED) -> SENT -> (FETCHING) -> ENDED
 *     target:  (FETCHING) -> QUEUED -> ARRIVED -> ANSWERED
 *                                |        +---> ABANDONED -> (ANSWERED)
 *                                +---> DROPPED
 *
 * A call of the callback model whose last reference is released without a
 * response is abandoned: the library answers it. As in Mercury, the application
 * may release such a call once more. Therefore its handle is parked, without
 * its data: it is free, but no call gets it until HG_HANDLE_PARKED more were
 * parked.
 *
 * A handle at the target counts as a call of its peer until its answer has been
 * sent, and as a refusal of its peer while a refusal cannot be sent (limit.h).
 *
 * A handle is on one of the context's lists from when it leaves the pool until
 * it returns. Both happen with the lock held. A handle that was an outgoing
 * call stays in the table of sequences, even in the pool, but with a new
 * number, so that its old number finds nothing. Lists and table therefore hold
 * handles in any state: check the state of a handle before anything else. A
 * handle is reset with the lock held. With the lock held, any handle on a list
 * may be read, except for its address, without a reference; hg_handle_try_ref
 * gets a reference unless the last one was released.
 *
 * Locking: the class's lock guards lists, tables, counts and the pool. The
 * state is atomic. Only the owner of the current state changes it, without the
 * lock. SENT and FETCHING have several possible ends, so these states change
 * only with the lock held. The buffers belong to the owner of the current
 * state.
 */
#ifndef HG_GEN_HG_HANDLE_H
#define HG_GEN_HG_HANDLE_H

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"
#include "bulk/transfer.h"
#include "hg/class.h"
#include "hg/deadline.h"
#include "hg/header.h"
#include "na/core.h"
#include "proc/proc.h"

struct hg_context;

/* The fields of a handle's reference count. The lowest field counts the
 * library's references. The application's references are counted separately, so
 * that the application cannot release more than it was given; in the request
 * model it has one at most. References that came with decoded arguments also
 * count in the highest field. */
#define HG_HANDLE_GIVEN (UINT64_C(1) << 12)
#define HG_HANDLE_DECODED (UINT64_C(1) << 32)

#define HG_HANDLE_PARKED 16

enum hg_handle_state {
    HG_HANDLE_IDLE = 0,
    HG_HANDLE_CLAIMED,  /* origin, callback model: a thread is changing it */
    HG_HANDLE_SENT,     /* origin: waits for the response */
    HG_HANDLE_FETCHING, /* fetches arguments too large for a message */
    HG_HANDLE_ENDED,    /* origin: the result is set */
    HG_HANDLE_QUEUED,   /* target: an entry of the queue */
    HG_HANDLE_ANSWERED, /* target */
    HG_HANDLE_DROPPED,  /* target: neither executed nor answered */
    /* Those that are no end for the last reference follow. */
    HG_HANDLE_ARRIVED,  /* target: with its handler */
    HG_HANDLE_ABANDONED /* target: answered by the library, and not released
                         once more */
};

enum hg_request_state {
    HG_REQUEST_NONE = 0,  /* it has no ticket */
    HG_REQUEST_UNDER_WAY, /* or ended, but not waited for yet */
    HG_REQUEST_WAITED,    /* a thread waits for it or decodes its output */
    HG_REQUEST_OVER,      /* the result is set and the output is decoded */
    HG_REQUEST_ABANDONED  /* freed before its call ended */
};

/* The part of an outgoing call that belongs to the module request. */
struct hg_request_part {
    /* OVER and NONE are set without the lock. */
    _Atomic enum hg_request_state state;
    _Atomic bool ended;
    void *out_struct; /* NULL: no decoded output, or none to free */
};

/* The part of a handle of the callback model; used by call.c. */
struct hg_call_part {
    bool used;     /* the rest is not all zeros */
    bool answered; /* origin: the last call returned an output */
    /* The application has the bytes of the received message: it may decode them
     * itself, and free the struct once. */
    bool own_decode;
    /* The application owns the bytes in front of the arguments. */
    bool own_area;
    bool dropped; /* target: the request message was freed */
    uint8_t target_context;
    hg_cb_t callback; /* of the current operation */
    void *arg;
    /* Queues the callback when the answer was sent. */
    struct na_completion left;
    hg_return_t left_ret;
    struct hg_info info;
    void *data;
    void (*free_data)(void *data);
};

/* The part of an incoming call that belongs to the module cancel; guarded by
 * the class's lock. */
struct hg_cancel_part {
    bool used;                   /* the rest is not all zeros */
    bool queued;                 /* `notice` is queued */
    struct na_completion notice; /* the origin no longer waits */
    /* NULL: none. Written with the lock held. */
    _Atomic(hg_cancel_cb_t) callback;
    void *arg;
};

/* The part that belongs to the module watch, in a class that is watched. */
struct hg_watch_part {
    uint64_t began;    /* when it was forwarded or arrived */
    uint64_t executed; /* target: when its handler started */
    bool counted;      /* target: its time was counted */
};

/* Arguments that do not fit a message. */
struct hg_overflow {
    /* Local memory: a peer fetches from it, or it receives a fetch. */
    struct na_mem_handle *mem;
    struct na_mem_handle *remote; /* the peer's memory that is being fetched */
    unsigned char *data; /* fetched bytes; kept as long as the handle */
    size_t size;
    size_t got;       /* fetched so far; class's lock */
    uint64_t crc;     /* from the description; 0: not checked */
    uint64_t got_crc; /* of the bytes fetched so far */
    size_t counted;   /* target: bytes counted for the peer; class's lock */
    na_op_id_t op_id; /* of the current piece; class's lock */
    void (*fetched)(struct hg_handle *handle, hg_return_t ret);
};

/* Encoded arguments. */
struct hg_args {
    const unsigned char *data;
    size_t size;
    bool raw; /* trailing bytes may be ignored */
};

/* Called when a message was sent or could not be sent. An outgoing handle of
 * the callback model may already have another call, with another number. The
 * lock is held. */
typedef void (*hg_handle_left_t)(
    struct hg_handle *handle, uint64_t sequence, hg_return_t ret);

struct hg_handle {
    struct na_completion done;  /* entry of the queue: a step or callback */
    struct na_link link;        /* list of calls, or the pool */
    struct hg_handle *returned; /* the next handle of hg_context.returned */
    struct hg_context *context;
    _Atomic uint64_t refs; /* three counts: see HG_HANDLE_GIVEN */
    _Atomic enum hg_handle_state state;
    bool counted;    /* target: counted for its peer; written by the sender or
                    with the last reference */
    bool in_flight;  /* origin: counted as in flight; class's lock */
    uint64_t number; /* its number in the table of sequences, new for each call;
                   0: none; class's lock */
    /* Target, request model: what decoding the input allocated; NULL: nothing,
     * or the application has freed the input. */
    hg_proc_records_t decoded;
    /* The function: of the registry or of the library, else &hg_rpc_none. In
     * the pool it is that of the last call. */
    hg_id_t id;
    const struct hg_rpc *rpc;
    /* From here to `in`, all bytes of a handle in the pool are 0. */
    bool target;
    bool one_way;       /* one-way call: no answer */
    bool ack_fetch;     /* target: one-way, but its fetched input must be
                      acknowledged */
    bool large;         /* in_large or out_large is or was used */
    bool refused;       /* target: refused, will not be executed */
    bool mistyped;      /* target: refused because the types differ */
    bool refused_early; /* target: refused on arrival; class's lock */
    bool held; /* target: a large output waits to be fetched; class's lock */
    bool canceled; /* the fetch was canceled; class's lock */
    bool indexed;  /* target: entered in by_call; class's lock */
    /* Target: the thread that runs its handler (hg_monitor_self), or NULL. */
    _Atomic(const void *) executed;
    _Atomic bool unwanted;         /* target: the origin no longer waits */
    enum hg_limit_kind counted_as; /* if `counted` */
    uint64_t weight;   /* origin: bytes counted as in flight; class's lock */
    uint64_t deadline; /* of this call; 0: none */
    uint64_t began;    /* when it was forwarded, or arrived; in ticks */
    uint64_t trace_id;
    uint64_t trace_set; /* origin: set by the application; 0: not set */
    struct hg_watch_part watch;
    uint32_t timeout; /* origin: timeout of each call, ms; 0: none */
    hg_return_t why;  /* origin: if `canceled`, the result; class's lock */
    const char *text; /* origin: error text; NULL: none */
    struct na_addr *addr;
    uint64_t sequence; /* the origin's number of the call */
    /* The peer's context that has the call; initially 0. An answer may set it
     * while the send of the request still reads it. */
    _Atomic uint8_t peer_context;
    hg_return_t ret;
    _Atomic hg_return_t misread; /* why decoding failed */
    struct hg_args in_args;
    struct hg_args out_args;
    size_t raw_size; /* target: size of the buffer for raw output */
    struct hg_timer timer;
    /* Called when the message of the call with that number could not be sent;
     * or NULL. */
    hg_handle_left_t unsent;
    /* Called once when the message was sent or could not be sent; or NULL. */
    hg_handle_left_t left;
    void (*callback)(struct hg_handle *handle, void *arg);
    void *arg;
    struct hg_request_part request;
    struct hg_buf in;  /* the request message */
    struct hg_buf out; /* the response message */
    struct hg_overflow in_large;
    struct hg_overflow out_large;
    struct hg_call_part call;
    struct hg_cancel_part cancel;
    _Atomic uint32_t sends;   /* messages being sent */
    _Atomic(na_op_id_t) late; /* the last queued message, or NULL */
};

struct hg_context {
    struct hg_class *hg_class;
    struct na_link sibling; /* the class's lock */
    _Atomic uint64_t counts[HG_COUNTS];
    /* Callback model: threads call progress and trigger as they like, and the
     * application counts its references of handles. */
    bool callbacks;
    uint8_t id;
    void *data;
    void (*free_data)(void *data);
    struct na_context *na_context;
    struct na_queue *queue; /* the queue of na_context */
    struct hg_transfer_list transfers;
    struct hg_monitor *lock; /* the NA class's */
    /* Handles without references that were released without the lock. The next
     * thread with the lock moves them to the pool: hg_handle_collect. */
    _Atomic(struct hg_handle *) returned;
    struct na_link pool; /* free handles */
    unsigned pool_count;
    struct na_link parked; /* abandoned ones, which are free */
    unsigned parked_count;
    /* Of large buffers in the pool; written with the lock. */
    _Atomic size_t pool_bytes;
    struct na_link origins; /* outgoing calls */
    struct na_link targets; /* incoming calls */
    /* Of incoming calls, by origin and number; see cancel.h. */
    struct hg_map by_call;
    /* Outgoing calls, current or former, by number. */
    struct hg_slots sequences;
    struct hg_deadline deadline;
    unsigned waits;             /* threads in hg_wait_until */
    unsigned quota_waits;       /* those of them in HG_Wait_room() */
    _Atomic bool quota_changed; /* a call has ended */
    bool ending;                /* it is being destroyed: no call may start */
    /* A flag was raised since this was last set to false. */
    _Atomic bool raised;
    uint32_t live;            /* handles out of the pool */
    _Atomic uint32_t sending; /* sends in progress */
    _Atomic uint32_t lookups; /* lookups of the callback model in progress */
    _Atomic bool closing;     /* refuses incoming calls */
    /* Receives a message from the network or from this process. */
    na_return_t (*file)(struct hg_context *context, struct na_addr *source,
        const struct hg_header *header, hg_return_t ret);
    /* Called when a handle's last reference is released: free a large input;
     * answer an unanswered call. */
    void (*end_input)(struct hg_handle *handle);
    void (*abandon)(struct hg_handle *handle);
    unsigned char apart[HG_APART];
};

static inline void hg_handle_count(
    struct hg_context *context, enum hg_count count)
{
    atomic_fetch_add_explicit(&context->counts[count], 1, memory_order_relaxed);
}

/* Add to a counter, possibly a negative number. The lock keeps other writers
 * out. */
static inline void hg_handle_count_locked(
    struct hg_context *context, enum hg_count count, int change)
{
    _Atomic uint64_t *counter = &context->counts[count];
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);

    HG_ASSERT(count <= HG_COUNT_RESPONSES_SENT);
    atomic_store_explicit(
        counter, before + (uint64_t) change, memory_order_relaxed);
}

/* The key of an incoming call in by_call. A secret keeps peers from choosing
 * the key of another peer's call on purpose. */
static inline uint64_t hg_handle_key(const struct hg_context *context,
    const struct na_addr *addr, uint8_t peer_context, uint64_t sequence)
{
    uint64_t origin = (uintptr_t) addr ^ (uint64_t) peer_context << 56;

    return sequence ^ origin * context->by_call.secret;
}

static inline uint64_t hg_handle_call_key(struct hg_handle *handle)
{
    return hg_handle_key(handle->context, handle->addr,
        atomic_load_explicit(&handle->peer_context, memory_order_relaxed),
        handle->sequence);
}

/* The number of incoming calls in either of the two states; the lock is
 * held. */
HG_PRIVATE unsigned hg_handle_count_targets(
    struct hg_context *context, bool answered);

/* Find the incoming call that the application has and whose input contains the
 * byte; with a new reference. NULL: none. */
HG_PRIVATE struct hg_handle *hg_handle_find_input(
    struct hg_class *hg_class, const unsigned char *byte);

/* Whether the application has set a cancel callback. */
static inline bool hg_handle_wants_cancel(const struct hg_handle *handle)
{
    return atomic_load_explicit(
               &handle->cancel.callback, memory_order_acquire) != NULL;
}

/* Whether only this thread uses the handle: it runs the handler and has the
 * application's only reference. Then its steps need not be atomic. */
static inline bool hg_handle_is_mine(const struct hg_handle *handle)
{
    /* The callback is read first: a thread that clears it holds a reference. */
    return atomic_load_explicit(&handle->executed, memory_order_relaxed) ==
        hg_monitor_self() &&
        !hg_handle_wants_cancel(handle) &&
        atomic_load_explicit(&handle->refs, memory_order_acquire) ==
        HG_HANDLE_GIVEN + 1;
}

/* Get an idle handle with one reference and no address. NULL: out of memory
 * (logged). The lock is held, but released while memory is allocated. */
HG_PRIVATE struct hg_handle *hg_handle_get(struct hg_context *context);
HG_PRIVATE void hg_handle_ref(struct hg_handle *handle);
/* Take a reference of a handle found on a list; the lock is held. False: the
 * last reference was released. */
HG_PRIVATE bool hg_handle_try_ref(struct hg_handle *handle);
/* Release a reference. The last one returns the handle to the pool: at once if
 * the lock is held. hg_handle_unref_locked releases the lock to free data, or
 * to answer a call. */
HG_PRIVATE void hg_handle_unref(struct hg_handle *handle);
HG_PRIVATE void hg_handle_unref_locked(struct hg_handle *handle);

/* Move handles that were released without the lock into the pool. The lock is
 * held. */
HG_PRIVATE void hg_handle_collect_some(struct hg_context *context);

static inline void hg_handle_collect(struct hg_context *context)
{
    if (atomic_load_explicit(&context->returned, memory_order_relaxed) != NULL)
        hg_handle_collect_some(context);
}

/* hg_handle_give: give the application a new reference; `decoded`: along with
 * arguments. hg_handle_hand_over: give it the caller's only reference; with
 * `keep` the caller keeps one, too. */
HG_PRIVATE void hg_handle_give(struct hg_handle *handle, bool decoded);
HG_PRIVATE void hg_handle_hand_over(struct hg_handle *handle, bool keep);
/* The application releases a reference. False: it has none. Exactly as many
 * calls return true as it has references. */
HG_PRIVATE bool hg_handle_take_back(struct hg_handle *handle, bool decoded);

/* hg_handle_open_call: fill in what the application may read from a handle of
 * the callback model, and call the function set for new handles; returns its
 * result. hg_handle_set_info: update what changed. */
HG_PRIVATE hg_return_t hg_handle_open_call(struct hg_handle *handle);
HG_PRIVATE void hg_handle_set_info(struct hg_handle *handle);

/* Reset an idle outgoing handle, but keep its function and its peer. */
HG_PRIVATE void hg_handle_renew(struct hg_handle *handle);

/* Set the peer of a handle that has none, and take a reference of the address
 * until the handle returns to the pool. The own address needs no reference. The
 * lock is held. */
HG_PRIVATE void hg_handle_set_addr(
    struct hg_handle *handle, struct na_addr *addr);
/* Replace the peer. */
HG_PRIVATE void hg_handle_change_addr(
    struct hg_handle *handle, struct na_addr *addr);

/* Free the pool. No handle is in use. */
HG_PRIVATE void hg_handle_drop_pool(struct hg_context *context);

/* Fill in the header of a message to the call's peer, except for the code, the
 * flags, and the fields about arguments. */
HG_PRIVATE void hg_handle_begin_header(const struct hg_handle *handle,
    enum hg_header_type type, struct hg_header *header);

/* Whether bytes may be damaged on the way to its peer, or the application wants
 * checksums anyway. */
static inline bool hg_handle_is_exposed(const struct hg_handle *handle)
{
    const struct na_addr *addr = handle->addr;

    return !addr->self &&
        ((na_class_ops(addr->na_class)->caps & NA_CAP_IN_MEMORY) == 0 ||
            handle->context->hg_class->options.checksum_always);
}

/* A message of `size` bytes, which begins with space for its header. If it must
 * wait, it is copied; `data` is not read after the call. */
struct hg_handle_message {
    struct hg_header *header; /* NULL: already written */
    unsigned char *data;
    size_t size;
};

/* Write the header into the message, unless the message stays in this context,
 * which uses the struct. Afterwards the message is not changed. */
HG_PRIVATE void hg_handle_seal(
    const struct hg_handle *handle, struct hg_handle_message *message);

/* Send a sealed message to the call's context at the peer, or deliver it within
 * this process. A send that must wait holds a reference until it completes. */
HG_PRIVATE hg_return_t hg_handle_send(
    struct hg_handle *handle, const struct hg_handle_message *message);
HG_PRIVATE hg_return_t hg_handle_send_locked(
    struct hg_handle *handle, const struct hg_handle_message *message);

/* Call `left`, if it is set: the message was sent or could not be sent. The
 * lock is held. */
HG_PRIVATE void hg_handle_notify_left(
    struct hg_handle *handle, hg_return_t ret);

/* Send a message without arguments: a cancellation, or an answer without
 * output. If there is no memory to send it, the connection is ended. Failures
 * are logged. The lock is held. */
HG_PRIVATE void hg_handle_send_control(
    struct hg_handle *handle, struct hg_header *header);

/* Withdraw a queued message. True: it will not be sent. The lock is held. */
HG_PRIVATE bool hg_handle_withdraw(struct hg_handle *handle);

/* Queue a step or callback of the handle: `run` gets its completion. */
HG_PRIVATE void hg_handle_push(struct hg_handle *handle, enum na_lane lane,
    void (*run)(struct na_completion *done));

/* Start the handle's timer, which is not running. A thread in progress is woken
 * if needed. HG_NOMEM (logged). The lock is held. */
HG_PRIVATE hg_return_t hg_handle_set_timer(
    struct hg_handle *handle, uint64_t when);

/* How many references the application has. */
static inline uint64_t hg_handle_given(const struct hg_handle *handle)
{
    return atomic_load(&handle->refs) % HG_HANDLE_DECODED / HG_HANDLE_GIVEN;
}

static inline struct hg_handle *hg_handle_of(struct na_completion *done)
{
    return HG_CONTAINER_OF(done, struct hg_handle, done);
}

/* Decode the input at a target, or the output at an origin, with its proc into
 * `data`. Returns the codes of HG_Handler_get_input(). Nothing stays allocated
 * on failure. `owner`: what decoding allocates is recorded there; NULL: the
 * caller frees it. */
HG_PRIVATE hg_return_t hg_handle_decode(
    struct hg_handle *handle, void *data, hg_proc_records_t *owner);

/* Free a decoded input. The application keeps what its struct does not contain
 * any more. */
HG_PRIVATE hg_return_t hg_handle_free_input(
    struct hg_handle *handle, void *data);

/* Free what decoding allocated. hg_handle_release_of passes the call's handle
 * to the proc. */
HG_PRIVATE hg_return_t hg_handle_release(hg_proc_cb_t proc_cb, void *data);
HG_PRIVATE hg_return_t hg_handle_release_of(
    struct hg_handle *handle, hg_proc_cb_t proc_cb, void *data);

/* Application bytes in front of the arguments in this direction. */
static inline size_t hg_handle_area(const struct hg_handle *handle, bool output)
{
    const struct hg_class *hg_class = handle->context->hg_class;

    return output ? hg_class->output_offset : hg_class->input_offset;
}

/* Reserve the buffer of the message to be sent, with at least `size` bytes
 * after its header. The application's bytes in front of the arguments are 0
 * until it asks for them. HG_NOMEM (logged). */
HG_PRIVATE hg_return_t hg_handle_open_area(
    struct hg_handle *handle, size_t size);

/* Encode the input at an origin, or the output at a target, into its buffer,
 * behind space for the header and the application's bytes. HG_OVERFLOW: it
 * exceeds a message, and larger arguments are disabled. Failures are logged. */
HG_PRIVATE hg_return_t hg_handle_encode(struct hg_handle *handle, void *data);

/* hg_handle_time_left: ms until the deadline, rounded up; HG_NO_DEADLINE: none.
 * hg_handle_is_over: whether the origin of an incoming call no longer waits. */
HG_PRIVATE uint32_t hg_handle_time_left(const struct hg_handle *handle);
HG_PRIVATE bool hg_handle_is_over(struct hg_handle *handle);

/* Names for log lines: of the peer, and of the function. */
HG_PRIVATE const char *hg_handle_peer(const struct hg_handle *handle);
HG_PRIVATE const char *hg_handle_function(const struct hg_handle *handle);

/* The result code for `ret`: HG_OTHER_ERROR if `ret` means that a call has not
 * ended, or is no code at all; else `ret`. */
HG_PRIVATE hg_return_t hg_handle_result(hg_return_t ret);

/* Target: the answer was sent, so the peer has one call less. No effect if the
 * call is not counted. */
HG_PRIVATE void hg_handle_discount(struct hg_handle *handle);
HG_PRIVATE void hg_handle_discount_locked(struct hg_handle *handle);

#endif
