/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handle: one call, at its origin or at its target.
 *
 * The origin's handle and the target's are the same struct in two roles. A
 * handle owns the bytes of both messages; it is counted, and whoever uses it
 * across a call holds a reference: the application, a send under way, an
 * overflow transfer, a step in the queue. A call of ours has one, which goes
 * from who makes it to its callback. The last one returns the handle, buffers
 * and all, to its context's pool.
 *
 *     origin:  IDLE -> (CLAIMED) -> SENT -> (FETCHING) -> ENDED
 *     target:  (FETCHING) -> QUEUED -> ARRIVED -> ANSWERED
 *                                +---> DROPPED
 *
 * A target's handle counts as one of its peer's calls until its answer has
 * left, and as one of its refusals while that cannot leave (limit.h).
 *
 * A handle is on one of the context's lists from the moment it leaves the pool
 * until it is back there: both happen under the lock anyhow. Once it was a call
 * of ours it is in the table of sequences as well, in the pool, too: under
 * another number from then on, so that the one it had names nothing. So lists
 * and table hold handles in any state, and who finds one looks at its state
 * first, before anything else of it. A handle is cleared under the lock; so who
 * holds that may look at it, but not at its address, without a reference, and
 * get one unless the last has gone.
 *
 * Locking: the class's lock guards lists, tables, counts and the pool. A
 * state is an atomic. Whoever drives the current one leaves it, and needs no
 * lock for that; but SENT and FETCHING, which several may want to end, are left
 * under the lock. The buffers belong to whoever drives the current state.
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

/* The fields of a handle's references. Below the first are the library's. Those
 * of the application are counted apart, as it gives back no more than it was
 * given; in the request model it has one at most. Those that came with decoded
 * arguments count in the last field, too. */
#define HG_HANDLE_GIVEN (UINT64_C(1) << 12)
#define HG_HANDLE_DECODED (UINT64_C(1) << 32)

enum hg_handle_state {
    HG_HANDLE_IDLE = 0,
    HG_HANDLE_CLAIMED,  /* origin, callback model: a thread changes it */
    HG_HANDLE_SENT,     /* origin: waits for the answer */
    HG_HANDLE_FETCHING, /* pulls arguments too large for a message */
    HG_HANDLE_ENDED,    /* origin: the result stands */
    HG_HANDLE_QUEUED,   /* target: an entry of the queue */
    HG_HANDLE_ARRIVED,  /* target: with its handler */
    HG_HANDLE_ANSWERED, /* target */
    HG_HANDLE_DROPPED   /* target: neither executed nor answered */
};

enum hg_request_state {
    HG_REQUEST_NONE = 0,  /* no ticket names it */
    HG_REQUEST_UNDER_WAY, /* or ended, and nobody has asked */
    HG_REQUEST_WAITED,    /* a thread waits for it, or decodes its output */
    HG_REQUEST_OVER,      /* the result stands, and the output is decoded */
    HG_REQUEST_ABANDONED  /* freed under way */
};

/* What the module request keeps of a call of ours; nobody else looks at it. */
struct hg_request_part {
    _Atomic enum hg_request_state state; /* OVER and NONE without the lock */
    _Atomic bool ended;
    void *out_struct; /* NULL: nothing is decoded, or to be released */
};

/* State of a handle of the callback model; used by call.c. */
struct hg_call_part {
    bool used;     /* the rest is not all zeros */
    bool answered; /* origin: the last call brought an output */
    bool own_area; /* the application owns what precedes the arguments */
    bool dropped;  /* target: the message it came with is gone */
    uint8_t target_context;
    hg_cb_t callback; /* of the operation under way */
    void *arg;
    struct na_completion left; /* the answer has left: the callback is queued */
    hg_return_t left_ret;
    struct hg_info info;
    void *data;
    void (*free_data)(void *data);
};

/* What the module cancel keeps of a call to us; under the class's lock. */
struct hg_cancel_part {
    bool used;                   /* the rest is not all zeros */
    bool queued;                 /* `notice` is queued */
    struct na_completion notice; /* that nobody waits any more */
    /* NULL: nobody wants to hear. Written under the lock. */
    _Atomic(hg_cancel_cb_t) callback;
    void *arg;
};

/* What the module watch keeps of a call in a class that is watched. */
struct hg_watch_part {
    uint64_t began;    /* when it was forwarded, or arrived */
    uint64_t executed; /* target: when that began */
    bool counted;      /* target: how long it took */
};

/* Arguments that travel outside a message. */
struct hg_overflow {
    struct na_mem_handle *mem;    /* ours: a peer's get or our own is at it */
    struct na_mem_handle *remote; /* theirs: being fetched */
    unsigned char *data;          /* fetched bytes, for the handle's life */
    size_t size;
    size_t got;       /* of it; class's lock */
    uint64_t crc;     /* as described; 0: nothing is checked */
    uint64_t got_crc; /* of what has come */
    size_t counted;   /* target: for the peer; class's lock */
    na_op_id_t op_id; /* of the piece under way; class's lock */
    void (*fetched)(struct hg_handle *handle, hg_return_t ret);
};

/* Encoded arguments, wherever they are. */
struct hg_args {
    const unsigned char *data;
    size_t size;
    bool raw; /* need not be decoded to the end */
};

/* What became of a message. Its handle may have another call by now, of another
 * number: in the callback model, and if it is ours. */
typedef void (*hg_handle_left_t)(
    struct hg_handle *handle, uint64_t sequence, hg_return_t ret);

struct hg_handle {
    struct na_completion done;  /* a step or a callback of it, queued */
    struct na_link link;        /* in flight or unanswered; the pool */
    struct hg_handle *returned; /* before this one; hg_context.returned */
    struct hg_context *context;
    _Atomic uint64_t refs; /* three fields: see HG_HANDLE_GIVEN */
    _Atomic enum hg_handle_state state;
    bool counted;    /* target: in its peer's share; who sends, and the last */
    bool in_flight;  /* origin: counted as such; class's lock */
    uint64_t number; /* its place among sequences; 0: none; class's lock.
                        Another one for each call */
    /* From here to `in` the pool's handles are all zeros. */
    bool target;
    bool one_way;       /* nobody waits for an answer */
    bool ack_fetch;     /* target: ... but to hear that its input was fetched */
    bool large;         /* something is, or was, in in_large or out_large */
    bool refused;       /* target: not to be executed */
    bool mistyped;      /* target: refused, as its origin has other types */
    bool refused_early; /* target: ... from the start; class's lock */
    bool held;          /* target: a large output waits; class's lock */
    bool canceled;      /* the fetch was canceled; class's lock */
    bool indexed;       /* target: entered in by_call; class's lock */
    /* Target: the thread that runs its handler, as in a monitor; NULL. */
    _Atomic(const void *) executed;
    _Atomic bool unwanted;         /* target: nobody waits for its answer */
    enum hg_limit_kind counted_as; /* if so */
    uint64_t weight; /* origin: in flight, bytes it counts for; class's lock */
    uint64_t deadline; /* of this one; 0: none */
    uint64_t began;    /* when it was forwarded, or arrived; in ticks */
    uint64_t trace_id;
    uint64_t trace_set; /* origin: by the application; 0: not */
    struct hg_watch_part watch;
    uint32_t timeout; /* origin: what each of its calls has, ms; 0: all time */
    hg_return_t why;  /* origin: if `canceled`, how it ends; class's lock */
    const char *text; /* origin: how it ended, in words; NULL: none */
    struct na_addr *addr;
    struct hg_rpc rpc;
    uint64_t sequence; /* of the call, as its origin numbers it */
    /* Which of the peer's has the call; first 0. An answer may come, and set
     * it, while the send of the call still looks at it. */
    _Atomic uint8_t peer_context;
    hg_return_t ret;
    _Atomic hg_return_t misread; /* why what came was not decoded */
    struct hg_args in_args;
    struct hg_args out_args;
    size_t raw_size; /* target: of the buffer given for raw output */
    struct hg_timer timer;
    /* The message of the call numbered so could not be sent after all; NULL:
     * nobody minds. */
    hg_handle_left_t unsent;
    /* It has left, or could not; once. NULL: nobody asks. */
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
    _Atomic uint32_t sends;   /* of its messages under way */
    _Atomic(na_op_id_t) late; /* the last one that was queued, or NULL */
};

struct hg_context {
    struct hg_class *hg_class;
    struct na_link sibling; /* the class's lock */
    _Atomic uint64_t counts[HG_COUNTS];
    /* Of the callback model: threads progress and trigger as they like, and the
     * application counts its references of handles. */
    bool callbacks;
    uint8_t id;
    void *data;
    void (*free_data)(void *data);
    struct na_context *na_context;
    struct na_queue *queue; /* of na_context: the one queue */
    struct hg_transfer_list transfers;
    struct hg_monitor *lock; /* the NA class's */
    /* Handles without a reference that somebody outside gave back. Who is
     * inside next puts them into the pool: hg_handle_collect. */
    _Atomic(struct hg_handle *) returned;
    struct na_link pool; /* free handles */
    unsigned pool_count;
    _Atomic size_t pool_bytes; /* of large buffers there; written under lock */
    struct na_link origins;    /* calls of ours */
    struct na_link targets;    /* calls to us */
    struct hg_map by_call;     /* of these, by origin and number; cancel.h */
    struct hg_slots sequences; /* origins by sequence, and what was one */
    struct hg_deadline deadline;
    unsigned waits;             /* threads in hg_wait_until */
    unsigned quota_waits;       /* those of them in HG_Wait_room */
    _Atomic bool quota_changed; /* a call has ended, for these */
    bool ending;                /* it is being destroyed: none may begin */
    _Atomic bool raised;      /* a flag was, since somebody set this to false */
    uint32_t live;            /* handles out of the pool */
    _Atomic uint32_t sending; /* sends under way */
    _Atomic uint32_t lookups; /* of the callback model, under way */
    _Atomic bool closing;     /* refuses what arrives */
    /* Takes in a message that came from the network, or from ourselves. */
    na_return_t (*file)(struct hg_context *context, struct na_addr *source,
        const struct hg_header *header, hg_return_t ret);
    /* When a handle's last reference goes: frees what is left of a large input,
     * and answers a call that nobody answered. */
    void (*end_input)(struct hg_handle *handle);
    void (*abandon)(struct hg_handle *handle);
    unsigned char apart[HG_APART];
};

static inline void hg_handle_count(
    struct hg_context *context, enum hg_count count)
{
    atomic_fetch_add_explicit(&context->counts[count], 1, memory_order_relaxed);
}

/* The same, or less, where the lock keeps other writers away. */
static inline void hg_handle_count_locked(
    struct hg_context *context, enum hg_count count, int change)
{
    _Atomic uint64_t *counter = &context->counts[count];
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);

    assert(count <= HG_COUNT_RESPONSES_SENT);
    atomic_store_explicit(
        counter, before + (uint64_t) change, memory_order_relaxed);
}

/* The key in by_call of a call to us. A peer that does not know the secret
 * cannot take the key of another peer's call on purpose. */
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

/* Calls to us that are there, answered or not; the lock is held. */
HG_PRIVATE unsigned hg_handle_count_targets(
    struct hg_context *context, bool answered);

/* Whether the application is to hear that the call is canceled. */
static inline bool hg_handle_wants_cancel(const struct hg_handle *handle)
{
    return atomic_load_explicit(
               &handle->cancel.callback, memory_order_acquire) != NULL;
}

/* Whether nobody but this thread has it, which runs its handler and has the one
 * reference of the application's: its steps need not be atomic. */
static inline bool hg_handle_is_mine(const struct hg_handle *handle)
{
    /* First the callback: who takes it away has a reference then. */
    return atomic_load_explicit(&handle->executed, memory_order_relaxed) ==
        &hg_monitor_entered &&
        !hg_handle_wants_cancel(handle) &&
        atomic_load_explicit(&handle->refs, memory_order_acquire) ==
        HG_HANDLE_GIVEN + 1;
}

/* A handle with one reference, idle, without an address. NULL: no memory
 * (logged). The lock is held, but free while a new one is made. */
HG_PRIVATE struct hg_handle *hg_handle_get(struct hg_context *context);
HG_PRIVATE void hg_handle_ref(struct hg_handle *handle);
/* The same of a handle that was found; the lock is held. False: nobody has one
 * any more. */
HG_PRIVATE bool hg_handle_try_ref(struct hg_handle *handle);
/* With the last reference it goes back to the pool: at once where the lock is
 * held, which is free then while data of the application's are freed. */
HG_PRIVATE void hg_handle_unref(struct hg_handle *handle);

/* Put into the pool what was given back without the lock. Inside. */
HG_PRIVATE void hg_handle_collect_some(struct hg_context *context);

static inline void hg_handle_collect(struct hg_context *context)
{
    if (atomic_load_explicit(&context->returned, memory_order_relaxed) != NULL)
        hg_handle_collect_some(context);
}

/* The application gets a reference, one more than there are; `decoded`: with
 * arguments. Or it gets the caller's, which is the only one; with `keep` the
 * caller has one, too. */
HG_PRIVATE void hg_handle_give(struct hg_handle *handle, bool decoded);
HG_PRIVATE void hg_handle_hand_over(struct hg_handle *handle, bool keep);
/* It gives one back. False: it has none; as many who try get true as it has. */
HG_PRIVATE bool hg_handle_take_back(struct hg_handle *handle, bool decoded);

/* Fill in what the application may ask of a handle of the callback model, and
 * show it to whoever asked to see them; what that returns. And fill in again
 * what changed. */
HG_PRIVATE hg_return_t hg_handle_open_call(struct hg_handle *handle);
HG_PRIVATE void hg_handle_set_info(struct hg_handle *handle);

/* Forget the last call of an idle handle of ours, but for function and peer. */
HG_PRIVATE void hg_handle_renew(struct hg_handle *handle);

/* Set the peer, and take a reference of the address until the handle is put
 * back. Our own stays for as long as its class does. Inside. */
HG_PRIVATE void hg_handle_set_addr(
    struct hg_handle *handle, struct na_addr *addr);
/* Set another one. */
HG_PRIVATE void hg_handle_change_addr(
    struct hg_handle *handle, struct na_addr *addr);

/* Release the pool. Every handle is back. */
HG_PRIVATE void hg_handle_drop_pool(struct hg_context *context);

/* Begin the header of a message to the call's peer: it lacks the code, the
 * flags, and what concerns arguments. */
HG_PRIVATE void hg_handle_begin_header(const struct hg_handle *handle,
    enum hg_header_type type, struct hg_header *header);

/* A message of `size` bytes, which begins with room for its header. What has to
 * wait is copied: nobody looks at `data` once it was sent. */
struct hg_handle_message {
    struct hg_header *header; /* NULL: it is written */
    unsigned char *data;
    size_t size;
};

/* Write the header in front, unless it stays in this context, which takes it as
 * it is. Then nothing is written to the message any more. */
HG_PRIVATE void hg_handle_seal(
    const struct hg_handle *handle, struct hg_handle_message *message);

/* Send it, sealed, to the call's context at the peer; to oneself, hand it over.
 * What has to wait holds a reference until it has left. */
HG_PRIVATE hg_return_t hg_handle_send(
    struct hg_handle *handle, const struct hg_handle_message *message);

/* Tell who asks that the message has left, or could not. */
HG_PRIVATE void hg_handle_notify_left(
    struct hg_handle *handle, hg_return_t ret);

/* Send a message without arguments: a cancellation, or an answer without an
 * output. Where there is no memory to send it, the connection ends. Failures
 * are logged. */
HG_PRIVATE void hg_handle_send_control(
    struct hg_handle *handle, struct hg_header *header);

/* Take back a message that is queued. True: it does not leave. */
HG_PRIVATE bool hg_handle_withdraw(struct hg_handle *handle);

/* Queue a step or callback of the handle: `run` gets its completion. */
HG_PRIVATE void hg_handle_push(struct hg_handle *handle, enum na_lane lane,
    void (*run)(struct na_completion *done));

/* Let its timer, which is not set, expire at `when`; who drives hears of it.
 * HG_NOMEM (logged). The lock is held. */
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

/* Decode what came, the input at a target and the output at an origin, with
 * its proc, which there is, into `data`. Codes as HG_Handler_get_input; nothing
 * stays allocated on failure. */
HG_PRIVATE hg_return_t hg_handle_decode(struct hg_handle *handle, void *data);

/* Release what decoding allocated. The second one tells the proc whose
 * arguments they were. */
HG_PRIVATE hg_return_t hg_handle_release(hg_proc_cb_t proc_cb, void *data);
HG_PRIVATE hg_return_t hg_handle_release_of(
    struct hg_handle *handle, hg_proc_cb_t proc_cb, void *data);

/* Bytes of the application's in front of the arguments in this direction. */
static inline size_t hg_handle_area(const struct hg_handle *handle, bool output)
{
    const struct hg_class *hg_class = handle->context->hg_class;

    return output ? hg_class->output_offset : hg_class->input_offset;
}

/* Room for the message that is to be sent, of `size` bytes behind its header at
 * least. What the application may write before the arguments is zeros until it
 * has asked for it. HG_NOMEM (logged). */
HG_PRIVATE hg_return_t hg_handle_open_area(
    struct hg_handle *handle, size_t size);

/* Encode what is to be sent, the input at an origin and the output at a target,
 * into its buffer behind room for a header, and for the application's.
 * HG_OVERFLOW: more than a message, where nothing else is allowed. Failures are
 * logged. */
HG_PRIVATE hg_return_t hg_handle_encode(struct hg_handle *handle, void *data);

/* How many ms a call has left, rounded up; HG_NO_DEADLINE. And whether nobody
 * waits any more for a call to us. */
HG_PRIVATE uint32_t hg_handle_time_left(const struct hg_handle *handle);
HG_PRIVATE bool hg_handle_is_over(struct hg_handle *handle);

/* For log lines: the peer's name, and that of the function. */
HG_PRIVATE const char *hg_handle_peer(const struct hg_handle *handle);
HG_PRIVATE const char *hg_handle_function(const struct hg_handle *handle);

/* The code with which a call may end: `ret`, unless it means that a call has
 * not ended, or nothing at all; those are HG_OTHER_ERROR. */
HG_PRIVATE hg_return_t hg_handle_result(hg_return_t ret);

/* Target: the answer has left, so the peer has one call less; nothing when it
 * is not counted. */
HG_PRIVATE void hg_handle_discount(struct hg_handle *handle);

#endif
