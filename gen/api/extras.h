/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Deadlines, cancellation, flow control, inspection ================= */
/**
 * @defgroup hg_extras Deadlines, cancellation, flow control, inspection
 *
 * Functions for both models: deadlines, cancellation that reaches the server,
 * errors with a text, flow control, identity, drain, inspection, traces, hooks
 * and histograms. Mercury and its design report do not have them.
 *
 * A handle (hg_handle_t) is that of a call in the client, of HG_Create(), or in
 * the server, as a handler gets it. Where a function takes a class, NULL means
 * the layer of the request model.
 * @{
 */

/* ---- Deadlines ---- */
/**
 * @defgroup hg_deadline Deadlines
 * @ingroup hg_extras
 *
 * The client of a call may give it a deadline. The remaining time travels with
 * the call, so the clocks of the hosts need not agree.
 *
 * - In the client the call ends with HG_TIMEOUT, never before the deadline, and
 *   as soon as its context makes progress after it.
 * - The server drops a call that it has not executed before the deadline. A
 *   call that is being executed goes on.
 * - Without a deadline, a call to a peer that lives may wait for ever.
 * - A call that a handler makes does not inherit the deadline of the call that
 *   it executes: pass HG_Get_time_left().
 * @{
 */

/** The remaining time of a call without a deadline. */
#define HG_NO_DEADLINE UINT32_MAX

/**
 * Set the time that each later call of a handle may take.
 *
 * HG_Reset() keeps it.
 *
 * @param handle   of the client.
 * @param timeout  milliseconds from HG_Forward() on; 0: no deadline, as at
 *                 first.
 * @retval HG_SUCCESS      the time is set.
 * @retval HG_BUSY         a call of this handle is in flight.
 * @retval HG_INVALID_ARG  NULL, destroyed, or a handle of the server.
 */
HG_EXPORT hg_return_t HG_Set_deadline(hg_handle_t handle, unsigned int timeout);

/**
 * Get the remaining time of a call.
 *
 * @param handle  of the client or the server.
 * @return milliseconds, rounded up: 0 after the deadline, all of the time
 * before HG_Forward(). HG_NO_DEADLINE without one and for HG_HANDLE_NULL.
 */
HG_EXPORT uint32_t HG_Get_time_left(hg_handle_t handle);

#if !HG_API_STRICT
/**
 * Start a call with a deadline, in the request model.
 *
 * When the time is over, HG_Wait() returns HG_TIMEOUT with the status HG_TRUE.
 *
 * In all else it is HG_Forward1().
 *
 * @param addr          the server.
 * @param id            what HG_Register() returned.
 * @param in_struct     the input, borrowed; NULL if the function has none.
 * @param out_struct    HG_Wait() writes the output here; NULL: not needed.
 * @param timeout       milliseconds; 0: no deadline.
 * @param[out] request  the call, for HG_Wait() and HG_Request_free();
 *                      HG_REQUEST_NULL on failure.
 * @retval HG_SUCCESS      the call has begun.
 * @retval HG_NOENTRY      the id is not registered, or the input has a bulk
 *                         handle that was freed.
 * @retval HG_AGAIN        too many calls are in flight: HG_Wait_room().
 * @retval HG_DISCONNECT   the address is dead: look the peer up again.
 * @retval HG_INVALID_ARG  an argument is wrong, or in_struct is NULL and the
 *                         function has an input.
 * @retval HG_MSGSIZE      the input is larger than max_args_size.
 * @retval HG_NOMEM        out of memory.
 * @retval others          the code that the proc of the input, or a hook,
 *                         returned.
 * @lifetime What the output points to lives until HG_Request_free().
 */
HG_EXPORT hg_return_t HG_Forward_timed(na_addr_t addr, hg_id_t id,
    void *in_struct, void *out_struct, unsigned int timeout,
    hg_request_t *request);
#endif
/** @} */

/* ---- Cancellation ---- */
/**
 * @defgroup hg_cancel Cancellation
 * @ingroup hg_extras
 *
 * The server learns that nobody waits for a call any more: after HG_Cancel(),
 * after HG_Request_free() of a call in flight, after the deadline, and after
 * the death of the client.
 *
 * A call that was not executed yet is dropped. A handler that runs can check
 * HG_Is_canceled(), or set a callback. It still has to respond, or free the
 * handle. The response is dropped; only a callback of HG_Respond() gets
 * HG_CANCELED or HG_DISCONNECT.
 * @{
 */

/**
 * Test whether nobody waits for a call that has arrived.
 *
 * The end of the deadline needs no progress. A cancellation, or the death of
 * the client, arrives while another thread makes progress, or that of the
 * option progress_thread: this function makes none. In the callback model a
 * handler can also call HG_Progress() with a timeout of 0 from time to time,
 * which runs no callback and no handler. See hg-errors(7).
 *
 * @param handle  of the server.
 * @return HG_TRUE if the client canceled the call or died, or the deadline is
 * over; HG_FALSE for a handle of the client and for HG_HANDLE_NULL.
 */
HG_EXPORT hg_bool_t HG_Is_canceled(hg_handle_t handle);

/**
 * Tells a server that nobody waits for its call any more.
 *
 * It runs at most once, in a thread that makes progress, where callbacks run,
 * and only while the call has no response and its handle is not freed. It may
 * respond, but must not free the handle.
 *
 * @param handle  the call.
 * @param arg     the argument of HG_Set_cancel_cb().
 */
typedef void (*hg_cancel_cb_t)(hg_handle_t handle, void *arg);

/**
 * Set a callback for the cancellation of a call.
 *
 * It runs when the client cancels the call, the time of the call is over, or
 * the client dies. If that has happened, it runs soon.
 *
 * Neither this function nor one that responds or frees the handle waits for a
 * callback that runs in another thread.
 *
 * @param handle    of the server.
 * @param callback  NULL: none from now on.
 * @param arg       passed to it.
 * @retval HG_SUCCESS      the callback is set.
 * @retval HG_INVALID_ARG  NULL, destroyed, or a handle of the client.
 */
HG_EXPORT hg_return_t HG_Set_cancel_cb(
    hg_handle_t handle, hg_cancel_cb_t callback, void *arg);
/** @} */

/* ---- Errors ---- */

/** The longest error text, with its terminating NUL. */
#define HG_ERROR_TEXT_MAX 256

/**
 * Respond to a call with an error and a text, without an output.
 *
 * @param handle  of the server.
 * @param code    an error; HG_TIMEOUT and HG_INTR travel as HG_OTHER_ERROR.
 * @param text    copied; cut after HG_ERROR_TEXT_MAX bytes; NULL: none.
 * @retval HG_SUCCESS      the response is sent, or queued.
 * @retval HG_EXIST        the call has a response already.
 * @retval HG_INVALID_ARG  `code` is HG_SUCCESS or no code, or the handle is
 *                         wrong.
 */
HG_EXPORT hg_return_t HG_Respond_error(
    hg_handle_t handle, hg_return_t code, const char *text);

/**
 * Get the text of the error that a call ended with.
 *
 * The text comes from the server, or from this side if it ended the call.
 *
 * @param call  a handle of the client, or a request.
 * @return the text, never NULL; "" without one, or while the call goes on.
 * @lifetime Until the request is freed, or the next HG_Forward() of the handle.
 */
HG_EXPORT const char *HG_Get_error_text(const void *call);

/* ---- Flow control ---- */

/**
 * Wait until a small call to a peer is within the limits.
 *
 * The limits are those of this process, and of the peer as far as its refusals
 * have shown them. If no call to the peer is in flight, no response can show
 * that its limit allows a call again. The peer's limit is then ignored after 10
 * ms, but not those of this process. HG_Forward() may still return HG_AGAIN: a
 * call may be larger, or another thread faster.
 *
 * It makes progress in all contexts of the class in turn, 10 ms at a time.
 * HG_Context_destroy() returns HG_BUSY for the context in which the thread is.
 * It runs no handler, and no callback of the callback model. So calls of this
 * process to itself end only if another thread runs their handlers.
 *
 * @param addr     the peer.
 * @param timeout  milliseconds; 0 tests without waiting.
 * @retval HG_SUCCESS      a small call is within the limits.
 * @retval HG_TIMEOUT      not within this time.
 * @retval HG_INTR         a signal ended the wait.
 * @retval HG_DISCONNECT   the connection to the peer is lost.
 * @retval HG_INVALID_ARG  `addr` is no address, or its class has no context, or
 *                         only one that is being destroyed (logged).
 * @retval HG_BUSY         this thread is in a function that must not wait
 *                         (logged): see hg-threads(7).
 */
HG_EXPORT hg_return_t HG_Wait_room(na_addr_t addr, unsigned int timeout);

/* ---- The current call ---- */

/**
 * Get the call that this thread executes.
 *
 * It is for the function of a stub, which has no other way to its call: to its
 * caller (HG_Handler_get_addr(), HG_Get_peer_id()), its time
 * (HG_Get_time_left(), HG_Is_canceled()), and HG_Respond_error(). In a handler
 * it is the handle that the handler got.
 *
 * If a function waits and another one runs inside the wait, each has its own
 * handle. A callback that runs inside a wait gets the handle of the function
 * that waits.
 *
 * The function of a stub may respond with the handle. The stub then does not
 * respond: it ignores the outputs and the return value, and frees what an
 * output of type hg_string_t points to. The stub frees the handle: the function
 * does not call HG_Handler_free() or HG_Destroy().
 *
 * @code
 * int32_t fs_delete(hg_const_string_t path)
 * {
 *     hg_handle_t call = HG_Handler_current();
 *     if (strcmp(HG_Get_peer_id(call), "uid:0") != 0)
 *         return (void) HG_Respond_error(call, HG_PERMISSION, "not root"), 0;
 *     return path != NULL && unlink(path) == 0 ? 0 : -1;
 * }
 * @endcode
 *
 * @return the handle; HG_HANDLE_NULL outside of a function of a stub and of a
 * handler, and after the handle was freed.
 * @lifetime Until the function or the handler returns, or frees the handle.
 */
HG_EXPORT hg_handle_t HG_Handler_current(void);

/* ---- Identity ---- */

/**
 * Get the identity of a caller, as the transport has proved it.
 *
 * Over other transports than sm no identity is proved. NA_Addr_to_string() of
 * HG_Handler_get_addr() then distinguishes the connections, for a log. Over
 * zmq+tcp that string has the host of the caller: see hg-security(7).
 *
 * @param handle  of the server.
 * @return "uid:1000" over sm; "" over other transports, for a handle of the
 * client and for HG_HANDLE_NULL; never NULL.
 * @lifetime Until the handle is freed, which owns the string.
 */
HG_EXPORT const char *HG_Get_peer_id(hg_handle_t handle);

/* ---- Waking ---- */

/**
 * Make the threads return that wait for events.
 *
 * HG_Handler_process(), HG_Progress() and HG_Event_progress() return as if
 * their time were over, in each thread that is in one of them, in this context.
 * A thread that is not in one of them, such as one that runs a handler, does
 * not wait when it calls one the next time. So no wake is lost between a test
 * of a flag and the wait. A function may also return early for another context.
 * If bulk data has a class of its own, a function may wait up to 100 ms longer.
 *
 * HG_Wait(), HG_Trigger() and other functions that wait for something go on. An
 * event loop is woken: the descriptor of HG_Event_get_wait_fd() is readable.
 *
 * @code
 * static volatile sig_atomic_t ending;
 * static void end(int number) { ending = number; HG_Wake(NULL); }
 * ...
 * while (!ending) HG_Handler_process(HG_MAX_IDLE_TIME, HG_STATUS_IGNORE);
 * @endcode
 *
 * @param context  the context; NULL: the layer of the request model. It is not
 *                 checked, and must not be destroyed meanwhile: HG_Finalize()
 *                 waits for no signal handler of another thread.
 * @threads Any thread, and signal handlers: it is async-signal-safe.
 */
HG_EXPORT void HG_Wake(hg_context_t *context);

/* ---- Drain ---- */

/**
 * Stop accepting calls, and wait until the accepted ones have ended.
 *
 * From now on the class refuses new calls with HG_AGAIN, for good. The text of
 * HG_Get_error_text() distinguishes that ("it is ending") from a limit. The
 * caller of a refused call knows that it was not executed.
 *
 * An accepted call has ended when its response was sent and its handle freed.
 * After the last one the function goes on to refuse new calls until none has
 * arrived for 10 ms, for at most 100 ms. A call that arrives later, and that no
 * thread refuses, ends with HG_DISCONNECT when the class is closed. Its caller
 * cannot know whether it was executed.
 *
 * It makes progress and runs handlers and callbacks in all contexts of the
 * class. Other threads may do so at the same time. No context is created or
 * destroyed meanwhile. Signals do not end the wait.
 *
 * @param hg_class  the class; NULL: the layer of the request model.
 * @param timeout   milliseconds. 0 begins the drain and tests, but runs
 *                  nothing: that is allowed everywhere.
 * @retval HG_SUCCESS      no accepted call is left.
 * @retval HG_TIMEOUT      some calls are left: call it again to go on waiting.
 * @retval HG_BUSY         request model, `timeout` above 0: inside a handler,
 *                         or in another function that must not wait: see
 *                         hg-threads(7).
 * @retval HG_INVALID_ARG  there is no such class.
 * @retval HG_FAULT        NULL, and the layer is not running.
 */
HG_EXPORT hg_return_t HG_Drain(hg_class_t *hg_class, unsigned int timeout);

/* ---- Inspection ---- */
/**
 * @defgroup hg_inspect Inspection
 * @ingroup hg_extras
 *
 * See what a process does: HG_Dump() writes its calls and transfers. Built-in
 * functions, traces, hooks and histograms are for other processes and tools.
 *
 * Every class serves some functions of the library, unless the option
 * no_builtins is set. A client registers them by name without a callback, and
 * calls them like others:
 *
 * @code
 * id = HG_Register(HG_BUILTIN_PING, hg_proc_hg_builtin_t,
 *     hg_proc_hg_builtin_t, NULL);
 * @endcode
 *
 * The input and the output are an hg_builtin_t. An input whose text is longer
 * than HG_BUILTIN_TEXT_MAX ends with HG_MSGSIZE. The library responds in any
 * thread of the application that makes progress, also while handlers block in
 * other threads. With a single thread, which is stuck in a handler, it does not
 * respond. HG_Trigger() does not count these calls.
 *
 * Names that begin with HG_BUILTIN_PREFIX cannot be registered with a callback
 * (HG_EXIST, or an id of 0). A callback that is registered under the number of
 * a built-in function replaces it.
 * @{
 */

/**
 * Write the calls and bulk transfers in flight to a stream, for people.
 *
 * A line for the class and for each context, then one for each call and each
 * transfer that may take time: the function, the peer, the state, the age. It
 * can be called in any thread at any time, also while other threads hang, but
 * not in a signal handler. If the lock of a class is not free, the text says so
 * and has no details of the class. The class must not be finalized meanwhile.
 * See hg-debug(7).
 *
 * @param hg_class  the class; NULL: all classes of both models.
 * @param stream    where to write.
 * @retval HG_SUCCESS      everything is written.
 * @retval HG_AGAIN        a part is missing, for lack of a lock or of memory.
 * @retval HG_IO_ERROR     the stream did not take the text (logged).
 * @retval HG_INVALID_ARG  there is no such class, or the stream is NULL.
 */
HG_EXPORT hg_return_t HG_Dump(hg_class_t *hg_class, FILE *stream);

/** The names of built-in functions begin with this. */
#define HG_BUILTIN_PREFIX "hg:"
/** The longest text of a built-in function, with its terminating NUL. */
#define HG_BUILTIN_TEXT_MAX 4096

/** The built-in function that returns the question. */
#define HG_BUILTIN_PING HG_BUILTIN_PREFIX "ping"
/**
 * The built-in function that tells versions.
 *
 * The text has lines like "hg 1.2.3": the version of hg, of Mercury's interface
 * and of the wire, and the transport. The number is (1 << 16) | (2 << 8) | 3.
 */
#define HG_BUILTIN_VERSION HG_BUILTIN_PREFIX "version"
/**
 * The built-in function that lists the registered functions.
 *
 * The text has a line for each: the id and the name, or "-" without one. The
 * first input has the number 0. If the number of the output is not 0, a
 * input with this number gets the next functions. A function that is
 * registered meanwhile may be listed twice or not at all.
 */
#define HG_BUILTIN_LIST HG_BUILTIN_PREFIX "list"
/**
 * The built-in function that returns counters or times.
 *
 * Without a text: the counters of the class, named as in struct hg_counters,
 * and those of its transport, as for NA_Get_counter(), a line each.
 *
 * With the name of a function: its times, as in struct hg_histogram. The number
 * 0 selects calls executed there, 1 calls made from there. HG_NOENTRY: it is
 * not registered there. HG_OPNOTSUPPORT: the option histograms is not set
 * there.
 */
#define HG_BUILTIN_STATS HG_BUILTIN_PREFIX "stats"

/** The input and the output of the built-in functions. */
typedef struct hg_builtin {
    uint64_t number;  /**< see each function */
    hg_string_t text; /**< NULL in a question without a text */
} hg_builtin_t;

/**
 * Encode, decode or free an hg_builtin_t.
 *
 * @param proc  the proc object.
 * @param data  the hg_builtin_t.
 * @retval HG_SUCCESS  it is done.
 * @retval others      as hg_proc_hg_string_t().
 */
HG_EXPORT hg_return_t hg_proc_hg_builtin_t(hg_proc_t proc, void *data);

/* ---- Traces and hooks ---- */

/**
 * Get the trace that a call belongs to.
 *
 * A trace id travels with every call. A call gets that of HG_Set_trace_id(), if
 * one was set. Else a call that a handler makes in its thread gets that of the
 * call it executes. All others get a new one.
 *
 * @param handle  of the client or the server.
 * @return the trace id; in the client that of the last call, 0 before the
 * first; 0 for HG_HANDLE_NULL.
 */
HG_EXPORT uint64_t HG_Get_trace_id(hg_handle_t handle);

/**
 * Set the trace that later calls of a handle belong to.
 *
 * A program needs it if it responds later or makes calls in callbacks.
 * HG_Reset() keeps it.
 *
 * @param handle    of the client.
 * @param trace_id  0: none from now on.
 * @retval HG_SUCCESS      the trace is set.
 * @retval HG_INVALID_ARG  NULL, destroyed, or a handle of the server.
 */
HG_EXPORT hg_return_t HG_Set_trace_id(hg_handle_t handle, uint64_t trace_id);

/** The four moments of a call when a hook runs. */
typedef enum hg_hook_point {
    HG_HOOK_FORWARD = 0,  /**< client: before the input is encoded */
    HG_HOOK_COMPLETE = 1, /**< client: before the callback */
    HG_HOOK_HANDLE = 2,   /**< server: before the handler */
    HG_HOOK_RESPOND = 3   /**< server: at the response, before encoding */
} hg_hook_point_t;

/** The argument of a hook; borrowed. */
struct hg_hook_info {
    size_t size;           /**< sizeof(struct hg_hook_info) of the library */
    hg_hook_point_t point; /**< the moment */
    hg_return_t ret;     /**< COMPLETE, RESPOND: the result; else HG_SUCCESS */
    hg_handle_t handle;  /**< NULL in the client in the request model */
    const char *name;    /**< NULL: registered with an id only */
    hg_id_t id;          /**< the id of the function */
    na_addr_t addr;      /**< the other side */
    uint64_t trace_id;   /**< the trace of the call */
    uint64_t elapsed_ns; /**< COMPLETE, RESPOND: since the moment before */
};

/**
 * Runs at the four moments of a call: hg_hook_point_t.
 *
 * It runs in the thread that forwards, triggers, executes or responds, with no
 * lock held, and must not wait.
 *
 * @param info  the call.
 * @param arg   the argument of HG_Set_hook().
 * @return at FORWARD and HANDLE anything but HG_SUCCESS ends the call with that
 * code: HG_Forward() returns it, and no callback runs. At COMPLETE and RESPOND
 * it is ignored.
 */
typedef hg_return_t (*hg_hook_cb_t)(const struct hg_hook_info *info, void *arg);

/**
 * Set a hook that runs for every call of a class.
 *
 * In the server it runs for the functions of the application, but not for
 * refused calls and built-in functions. For a one-way call it runs at RESPOND
 * with HG_SUCCESS when its handle is freed. If a response fails and is
 * repeated, the hook runs again.
 *
 * @param hg_class  the class; NULL: the layer of the request model.
 * @param hook      NULL: none from now on.
 * @param arg       passed to it.
 * @retval HG_SUCCESS      the hook is set.
 * @retval HG_INVALID_ARG  there is no such class.
 * @retval HG_FAULT        NULL, and the layer is not running.
 * @threads Not while calls are in flight.
 */
HG_EXPORT hg_return_t HG_Set_hook(
    hg_class_t *hg_class, hg_hook_cb_t hook, void *arg);

/* ---- Histograms ---- */

/** The buckets of a histogram. */
#define HG_HISTOGRAM_BUCKETS 40

/** How long calls of a function took, in nanoseconds. */
struct hg_histogram {
    size_t size; /**< sizeof(struct hg_histogram): HG_HISTOGRAM_INITIALIZER */
    uint64_t count;  /**< calls */
    uint64_t sum_ns; /**< the sum of their times */
    uint64_t min_ns; /**< the shortest time */
    uint64_t max_ns; /**< the longest time */
    /** bucket[i]: calls of 2^i to 2^(i+1) ns. The first one also has shorter,
     * the last one longer calls. */
    uint64_t bucket[HG_HISTOGRAM_BUCKETS];
};

/** A histogram for HG_Get_histogram() to fill, or for HG_Histogram_add(). */
#define HG_HISTOGRAM_INITIALIZER \
    { \
        sizeof(struct hg_histogram), 0, 0, 0, 0, \
        { \
            0 \
        } \
    }

/**
 * Get how long calls of a function took.
 *
 * Classes with the option histograms measure it. Each call then reads the clock
 * twice more in the client and three times more in the server.
 *
 * @param hg_class             the class; NULL: the layer of the request model.
 * @param id                   the function.
 * @param target               HG_FALSE: calls from here, from HG_Forward() to
 *                             the callback, with any result; HG_TRUE: calls
 *                             executed here, from arrival to
 *                             response.
 * @param[in,out] histogram_p  the caller sets the member `size`.
 * @retval HG_SUCCESS       `histogram_p` is filled.
 * @retval HG_NOENTRY       the id is not registered.
 * @retval HG_OPNOTSUPPORT  the option histograms is not set.
 * @retval HG_INVALID_ARG   NULL, the member `size` is wrong, or no such class.
 * @retval HG_FAULT         NULL, and the layer is not running.
 */
HG_EXPORT hg_return_t HG_Get_histogram(hg_class_t *hg_class, hg_id_t id,
    hg_bool_t target, struct hg_histogram *histogram_p);

/**
 * Count a time in a histogram of the application.
 *
 * @param histogram  zeroed before the first time.
 * @param ns         the time.
 * @retval HG_SUCCESS      the time is counted.
 * @retval HG_INVALID_ARG  `histogram` is NULL.
 * @threads One thread at a time for a histogram.
 */
HG_EXPORT hg_return_t HG_Histogram_add(
    struct hg_histogram *histogram, uint64_t ns);

/**
 * Get a percentile: the time that `percent` of the calls did not exceed.
 *
 * @param histogram  the histogram.
 * @param percent    50 for the median.
 * @return nanoseconds: the upper end of a bucket, or max_ns if that is less; 0
 * without calls and for NULL.
 */
HG_EXPORT uint64_t HG_Histogram_percentile(
    const struct hg_histogram *histogram, double percent);
/** @} */
/** @} */
