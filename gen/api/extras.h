/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Beyond Mercury ==================================================== */
/*
 * What neither the Mercury design report nor Mercury has, for both models: time
 * limits, cancellation that the target hears of, errors with a text,
 * back-pressure, identity, an orderly end, and a look inside.
 *
 * A handle is what HG_Create made (the origin's) or a function that executes a
 * call was given (the target's), in either model. Where a class is asked for,
 * NULL is the layer of HG_Init1.
 */

/* ---- Deadlines ----
 *
 * A call has the time its origin gives it. The time left travels with it, so
 * that clocks need not agree: the origin's call ends with HG_TIMEOUT, never
 * before, at most a turn of progress after; a target drops a call whose time is
 * over before it was executed. One that is being executed goes on. Without a
 * deadline a call to a peer that lives may wait for ever. A call that is made
 * while another is executed has nothing of that one's time unless it is given
 * some: HG_Get_time_left tells how much there is.
 */

#define HG_NO_DEADLINE UINT32_MAX

/* The calls of this handle end `timeout` ms after each HG_Forward at the
 * latest; 0: without a deadline, as at first. HG_BUSY: one is in flight;
 * HG_INVALID_ARG: a target's handle. HG_Reset keeps it. */
HG_EXPORT hg_return_t HG_Set_deadline(hg_handle_t handle, unsigned int timeout);

/* How many ms are left, at either side, a part of one counting as one: 0 when
 * it is over, HG_NO_DEADLINE without one, or for HG_HANDLE_NULL. All of it
 * before HG_Forward. */
HG_EXPORT uint32_t HG_Get_time_left(hg_handle_t handle);

#if !HG_API_STRICT
/* HG_Forward1 with a deadline in `timeout` ms, 0 for none; HG_Wait brings
 * HG_TIMEOUT with *status HG_TRUE when it was over. */
HG_EXPORT hg_return_t HG_Forward_timed(na_addr_t addr, hg_id_t id,
    void *in_struct, void *out_struct, unsigned int timeout,
    hg_request_t *request);
#endif

/* ---- Cancellation ----
 *
 * HG_Cancel, HG_Request_free of a call in flight, a deadline at the origin and
 * the death of the origin tell the target that nobody waits any more. A call
 * that was not executed yet is dropped; one that is, may ask or be told. It is
 * to be answered or freed as ever; the answer goes nowhere, of which only the
 * callback of HG_Respond hears, as HG_CANCELED or HG_DISCONNECT.
 */

/* HG_TRUE once nobody waits for a call that arrived: its origin said so or
 * died, or its time is over. HG_FALSE for HG_HANDLE_NULL, and at the origin. It
 * makes no progress: while the only thread computes, turn HG_Progress(context,
 * 0) now and then to hear of it, which runs nothing. */
HG_EXPORT hg_bool_t HG_Is_canceled(hg_handle_t handle);

/* Runs at most once, where callbacks run, while the call is neither answered
 * nor freed; there it may be answered, but is not to be freed. */
typedef void (*hg_cancel_cb_t)(hg_handle_t handle, void *arg);

/* Have `callback` run when the origin says so or dies, soon if it has; NULL:
 * not any more. Neither this nor what answers or frees the handle waits for one
 * that another thread runs just then. HG_INVALID_ARG: an origin's handle. */
HG_EXPORT hg_return_t HG_Set_cancel_cb(
    hg_handle_t handle, hg_cancel_cb_t callback, void *arg);

/* ---- Errors ---- */

#define HG_ERROR_TEXT_MAX 256 /* with the terminating NUL */

/* Answer with a code and a text (NULL for none; copied, cut where it is longer)
 * in place of an output. HG_INVALID_ARG: HG_SUCCESS, or no code; HG_EXIST:
 * answered already. HG_TIMEOUT and HG_INTR travel as HG_OTHER_ERROR. */
HG_EXPORT hg_return_t HG_Respond_error(
    hg_handle_t handle, hg_return_t code, const char *text);

/* Text of the error with which a call ended, from the target or from this side;
 * "" without a text or while the call is not over; never NULL. `call` is an
 * origin's handle or a request, which owns the text until the handle's next
 * HG_Forward. */
HG_EXPORT const char *HG_Get_error_text(const void *call);

/* ---- Back-pressure ---- */

/* Wait until a small call to `addr` is below the limits of this process and, as
 * far as the peer's answers have shown, of the peer. With no call to the peer
 * outstanding, the wait ends after 10 ms. The next call can still be refused
 * with HG_AGAIN: it may be larger, or another thread may be faster. Makes
 * progress, with several contexts in each in turn, 10 ms at a time;
 * HG_Context_destroy of the one in which the thread is returns HG_BUSY. Runs no
 * handler and no callback of the callback model, so a wait for calls to oneself
 * does not end by itself.
 *
 * HG_SUCCESS; HG_TIMEOUT: not within `timeout` ms; HG_INTR: a signal came;
 * HG_DISCONNECT: the peer is gone; HG_INVALID_ARG (logged): `addr` is not an
 * address, or its class has no context, or only one that is being destroyed;
 * HG_BUSY (logged): this thread makes progress already, as in HG_Wait. */
HG_EXPORT hg_return_t HG_Wait_room(na_addr_t addr, unsigned int timeout);

/* ---- Identity ---- */

/* Identity of the caller of a call that arrived, as the transport has proved
 * it: "uid:1000" over sm://, the name of its key with CURVE; "" where the
 * transport proves nothing, for outgoing calls and for HG_HANDLE_NULL; never
 * NULL. The handle owns the string. */
HG_EXPORT const char *HG_Get_peer_id(hg_handle_t handle);

/* ---- An orderly end ---- */

/* Refuse new calls to the class with HG_AGAIN, for good, and wait for at most
 * `timeout` ms until all accepted calls have ended: the answer was sent and the
 * handle destroyed. Signals do not end the wait. Then it refuses the calls that
 * have arrived meanwhile, until none arrives for 10 ms, for 100 ms at most, so
 * that their callers know that they were not executed. A call that arrives
 * later ends with HG_DISCONNECT when the class ends, and its caller cannot
 * know. HG_Get_error_text distinguishes this HG_AGAIN ("it is ending") from
 * that of a limit.
 *
 * Makes progress and runs handlers and callbacks of all contexts of the class,
 * of which none is created or destroyed meanwhile; other threads may do the
 * same. A timeout of 0 begins the drain and checks, but runs nothing; this is
 * allowed everywhere.
 *
 * HG_SUCCESS; HG_TIMEOUT: some calls are left, and another HG_Drain goes on
 * waiting. With a timeout above 0 in the request model HG_BUSY: inside a
 * handler, or where HG_Wait is HG_BUSY. */
HG_EXPORT hg_return_t HG_Drain(hg_class_t *hg_class, unsigned int timeout);

/* ---- A look inside ---- */

/* Write what is in flight in a class, NULL: in all there are, of both models,
 * and the layer of HG_Init1. First a line for the class and for each context,
 * then one for each call and each bulk transfer that may take its time: the
 * function, the peer, the state, the age. The text is for people. It may be
 * called at any time, also while other threads hang: a class whose lock is not
 * free gets a note instead. The class must not end meanwhile.
 *
 * HG_SUCCESS; HG_AGAIN: something is missing, for such a lock or for lack of
 * memory. */
HG_EXPORT hg_return_t HG_Dump(hg_class_t *hg_class, FILE *stream);

/* Every class serves a few functions of the library's own, which tell whoever
 * has its address what is there (options can switch that off: no_builtins). A
 * client registers them by name, with no callback, and calls them like others:
 *
 *     id = HG_Register(HG_BUILTIN_PING, hg_proc_hg_builtin_t,
 *         hg_proc_hg_builtin_t, NULL);
 *
 * Question and answer are a number and a text; of the text, which may be NULL
 * in a question, at most HG_BUILTIN_TEXT_MAX bytes with its NUL, else
 * HG_MSGSIZE. They are answered by whoever makes progress there, while the
 * application's functions hang, too, and are no calls that HG_Trigger runs.
 * Names that begin with HG_BUILTIN_PREFIX may not be registered with a
 * callback (HG_EXIST, or an id of 0); what is registered with one under such a
 * number comes before them. */
#define HG_BUILTIN_PREFIX "hg:"
#define HG_BUILTIN_TEXT_MAX 4096

/* The question comes back. */
#define HG_BUILTIN_PING HG_BUILTIN_PREFIX "ping"
/* Lines "hg 1.2.3": what it is, the version of Mercury whose interface it has,
 * that of the wire, its transport. The number is (1 << 16) | (2 << 8) | 3. */
#define HG_BUILTIN_VERSION HG_BUILTIN_PREFIX "version"
/* The functions that are served, a line each, the id and the name ("-": none).
 * The first question's number is 0; if the answer's is not, that asks for
 * more. A function registered meanwhile may be listed twice, or not at all. */
#define HG_BUILTIN_LIST HG_BUILTIN_PREFIX "list"
/* Without a text the counters of the class, a line each, as struct hg_counters
 * names them, and those of its transport, as NA_Get_counter does. With the name
 * of a function how long its calls took, as struct hg_histogram has it: with
 * the number 0 of those executed there, with 1 of those made from there.
 * HG_NOENTRY; HG_OPNOTSUPPORT: that is not counted. */
#define HG_BUILTIN_STATS HG_BUILTIN_PREFIX "stats"

typedef struct hg_builtin {
    uint64_t number;
    hg_string_t text;
} hg_builtin_t;

HG_EXPORT hg_return_t hg_proc_hg_builtin_t(hg_proc_t proc, void *data);

/* Which trace a call belongs to: it travels with the call, always, in a field
 * of its own. A call has a new one unless one was set on its handle before
 * HG_Forward (0: no more), which HG_Reset keeps; or unless it is made while a
 * function executes another, in its thread: then it has that one's. A program
 * that answers later, or makes calls in callbacks, sets it. At the origin it is
 * that of the last call, 0 before the first; 0 also for HG_HANDLE_NULL.
 * HG_INVALID_ARG: a target's handle. */
HG_EXPORT uint64_t HG_Get_trace_id(hg_handle_t handle);
HG_EXPORT hg_return_t HG_Set_trace_id(hg_handle_t handle, uint64_t trace_id);

/* The four moments of a call that a hook sees. */
typedef enum hg_hook_point {
    HG_HOOK_FORWARD = 0,  /* origin: before its input is encoded */
    HG_HOOK_COMPLETE = 1, /* origin: before its callback */
    HG_HOOK_HANDLE = 2,   /* target: before it is executed */
    HG_HOOK_RESPOND = 3   /* target: when it is answered, before encoding */
} hg_hook_point_t;

/* What a hook is told; borrowed. */
struct hg_hook_info {
    size_t size; /* sizeof(struct hg_hook_info) of the library */
    hg_hook_point_t point;
    hg_return_t ret;    /* COMPLETE, RESPOND: how; else HG_SUCCESS */
    hg_handle_t handle; /* NULL for calls of the request model's origin */
    const char *name;   /* NULL: registered by an id alone */
    hg_id_t id;
    na_addr_t addr; /* of the other side */
    uint64_t trace_id;
    uint64_t elapsed_ns; /* COMPLETE, RESPOND: since the moment before */
};

/* Runs in the thread that forwards, triggers or answers, with no lock held. It
 * must not wait; what it returns at FORWARD and HANDLE other than HG_SUCCESS
 * ends the call with that code, elsewhere it is ignored. */
typedef hg_return_t (*hg_hook_cb_t)(const struct hg_hook_info *info, void *arg);

/* Have a hook see every call of a class, at all four points; NULL: no more.
 * Not while calls are in flight. A target's sees what the application's
 * functions execute: neither what is refused nor HG_BUILTIN_PING and its like.
 * A call one way is answered, with HG_SUCCESS, when its handle is freed; one
 * that could not be answered, and is answered again, is seen again. FORWARD:
 * what the hook returns is what HG_Forward does, and there is no callback. */
HG_EXPORT hg_return_t HG_Set_hook(
    hg_class_t *hg_class, hg_hook_cb_t hook, void *arg);

/* How long calls of a function took. bucket[i] counts those of 2^i ns up to
 * 2^(i+1) ns, the first also shorter, the last also longer ones. */
#define HG_HISTOGRAM_BUCKETS 40

struct hg_histogram {
    size_t size; /* sizeof(struct hg_histogram), set by the caller */
    uint64_t count;
    uint64_t sum_ns;
    uint64_t min_ns;
    uint64_t max_ns;
    uint64_t bucket[HG_HISTOGRAM_BUCKETS];
};

/* Of the calls to a function (HG_FALSE: from HG_Forward to the callback,
 * however they ended), or of those executed here (HG_TRUE: from arrival to
 * answer). HG_NOENTRY: not registered; HG_OPNOTSUPPORT: the class does not
 * count them, which it does if it was made with the option `histograms`: each
 * call takes two looks at the clock more at its origin, three at its target,
 * of about 50 ns. */
HG_EXPORT hg_return_t HG_Get_histogram(hg_class_t *hg_class, hg_id_t id,
    hg_bool_t target, struct hg_histogram *histogram_p);

/* Count one more in a histogram of the application's own, which begins with
 * zeros. */
HG_EXPORT hg_return_t HG_Histogram_add(
    struct hg_histogram *histogram, uint64_t ns);

/* The time, in ns, that `percent` of the calls did not exceed, as far as the
 * buckets tell: the upper end of one, or max_ns if that is less; 0 without
 * calls, or for a NULL. */
HG_EXPORT uint64_t HG_Histogram_percentile(
    const struct hg_histogram *histogram, double percent);
