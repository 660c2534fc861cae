/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== RPC: the request model ============================================ */
/*
 * Functions are registered by name on both sides. A client forwards a call
 * and waits for its request; a server runs HG_Handler_process in a loop,
 * which runs the registered callback for each call that arrived. Mercury
 * design report, "Mercury API (client)" and "Mercury handler API (server)".
 *
 * Threads: every function may be called from any thread at any time, with one
 * rule: an object (a request, a bulk request, a handle of a call) is freed
 * once, and not used by anybody after that or meanwhile. For requests and bulk
 * requests that is checked. Not detected are: a handle of a call that is used
 * after HG_Handler_free, after its handler failed, or after the next HG_Init
 * (the library uses its memory again, so that it may end a call that came later
 * with HG_CANCELED), or freed while another thread uses it.
 *
 * HG_Finalize frees the requests and handles there are. No other thread may
 * call a function of this layer at the same time; but while a thread waits or
 * runs a handler, HG_Finalize returns HG_BUSY. Afterwards every function does
 * nothing and returns HG_FAULT (0 or NULL where it returns no code) with one
 * log line. Requests and handles of one HG_Init must not be used after the next
 * one.
 *
 * Five functions carry a number, because the callback model gives their
 * plain names another meaning; HG_API_VERSION 1 (the default) makes the
 * plain names mean this section.
 */
#if HG_API_VERSION == 1
#define HG_Init HG_Init1
#define HG_Finalize HG_Finalize1
#define HG_Register HG_Register1
#define HG_Forward HG_Forward1
#define HG_Bulk_transfer HG_Bulk_transfer1
#else
#define HG_Init HG_Init2
#define HG_Finalize HG_Finalize2
#define HG_Register HG_Register2
#define HG_Forward HG_Forward2
#define HG_Bulk_transfer HG_Bulk_transfer2
#endif

#if !HG_API_STRICT

/* Limits of the RPC layer, all with defaults (0).
 *
 * They hold for all contexts of a class together. Peers share the limits of
 * what they have here (max_unanswered, max_fetched_bytes, max_held_bytes) and
 * of what is under way to them (max_in_flight_bytes). A peer is a connection
 * here, and a process may have several. A peer may use at most half of what is
 * free: what it uses and what all use are together at most twice the limit. So
 * nothing is refused while all use no more than the limit; one peer alone gets
 * to the limit, a second one to half of it then, and nobody locks others out.
 * What is past that gets HG_AGAIN; if it was an output, the handler has run,
 * and its HG_Handler_start_output returns HG_AGAIN, too. A peer that takes no
 * answers gets its refusals once it does; when 65,536 of them wait for it, its
 * connection ends (logged).
 *
 * A large input counts from when it is announced until the call's handle is
 * freed. Each 16 MiB of it has output_hold_ms to come, or the call ends with
 * HG_CANCELED. */
struct hg_options {
    size_t size;                 /* sizeof(struct hg_options) */
    unsigned int max_in_flight;  /* calls of ours; 65,536; beyond it, or past
                                    max_in_flight_bytes, HG_Forward returns
                                    HG_AGAIN */
    unsigned int max_unanswered; /* calls to us, arrived and not answered;
                                    4,096, callback model 65,536; beyond it
                                    callers get HG_AGAIN */
    unsigned int output_hold_ms; /* how long a large output waits to be
                                    fetched, or a piece of a large input
                                    to come; 30,000 */
    unsigned int drain_ms;       /* HG_Finalize: for sends to leave; 1,000 */
    size_t max_args_size;        /* of a call's input or output; 1 GiB */
    size_t max_fetched_bytes;    /* of all large inputs of calls to us; at
                                    least, and by default, max_args_size */
    size_t max_held_bytes;       /* of all large outputs of ours that wait to
                                    be fetched; the same */
    size_t max_in_flight_bytes;  /* that calls of ours take, each 1.5 KiB, and
                                    more if its message is not small, without
                                    arguments too large for one; 40 MiB,
                                    callback model 128 MiB; a call alone may
                                    have more */
    bool no_builtins;     /* HG_BUILTIN_PING and its like are not served */
    bool histograms;      /* count how long calls take: HG_Get_histogram */
    bool bulk_checksum;   /* a CRC64 in each message of bulk data */
    bool no_checksum;     /* messages travel without a CRC64, and a proc may
                             leave some arguments undecoded */
    unsigned int bulk_ms; /* how long HG_Bulk_pull and HG_Bulk_push may take;
                             30,000; HG_NO_DEADLINE: without a limit */
};

#define HG_OPTIONS_INITIALIZER \
    { \
        sizeof(struct hg_options), 0, 0, 0, 0, 0, 0, 0, 0, false, false, \
            false, false, 0 \
    }

/* For the next HG_Init. Copied; NULL restores the defaults. HG_BUSY while
 * initialised. */
HG_EXPORT hg_return_t HG_Set_options(const struct hg_options *options);

/* What HG_Init takes, or took, defaults filled in; options->size is set by the
 * caller. HG_INVALID_ARG: NULL, or another size. The callback model has
 * HG_Class_set_options and HG_Class_get_options. */
HG_EXPORT hg_return_t HG_Get_options(struct hg_options *options);

/* Start the layer on a class, which stays the application's and must outlive
 * it: NA_Finalize is NA_BUSY until HG_Finalize. Makes a context of its own on
 * the class; the application may make and drive others. There is one layer in a
 * process. HG_EXIST: started already; HG_INVALID_ARG: NULL; HG_OPNOTSUPPORT:
 * the option bulk_checksum, on a transport that moves bulk data itself.
 *
 * A child of fork has no part in its parent's layer, and can start none: unless
 * the parent had neither this one nor the bulk layer then, every function is
 * HG_FAULT there, also those that end and free. The memory of bulk handles can
 * be looked at (HG_Bulk_handle_access). A handler that forks does not return in
 * the child. */
HG_EXPORT hg_return_t HG_Init1(na_class_t *na_class);

/* Cancel requests in flight, answer unanswered calls with HG_CANCELED, let
 * accepted sends leave, free everything. Requests not yet freed are gone with
 * it. HG_FAULT: not initialised. HG_BUSY: a thread waits or runs a handler, or
 * this one runs a proc of a call; then nothing has changed. Waits for at most
 * twice drain_ms: what a transport does not give back by then is logged and
 * never freed. */
HG_EXPORT hg_return_t HG_Finalize1(void);

/* Register a function; both sides derive the same id from `func_name`. Procs
 * may be NULL where nothing is carried; rpc_cb is NULL on a client. The same
 * name again replaces the procs, and the callback unless NULL. 0: not
 * initialised, a NULL name, or a collision with another name (logged). */
HG_EXPORT hg_id_t HG_Register1(const char *func_name, hg_proc_cb_t in_proc_cb,
    hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb);

/* Start a call. `in_struct` is encoded before the function returns; it, what it
 * points to and `addr` may be freed at once. `out_struct` (NULL: not wanted) is
 * filled by the HG_Wait that ends with the call's result; what decoding
 * allocates in it lives until HG_Request_free. On failure *request is
 * HG_REQUEST_NULL: unlike other outputs it is always written, since a variable
 * used call after call would still name the request before, and be freed twice.
 * HG_NOENTRY: id is not registered; HG_AGAIN: too many in flight;
 * HG_DISCONNECT: the address is dead, for good, so look the peer up again; the
 * code of a failing in-proc. A call to oneself is queued and run by a later
 * wait. */
HG_EXPORT hg_return_t HG_Forward1(na_addr_t addr, hg_id_t id, void *in_struct,
    void *out_struct, hg_request_t *request);

/* Wait for a call: its own result, with *status HG_TRUE once it completed;
 * HG_TIMEOUT (0 ms tests) or HG_INTR while it has not; only a call that ended
 * at its deadline (HG_Forward_timed) has HG_TIMEOUT for a result.
 * HG_INVALID_ARG: NULL, or a request that was freed. HG_BUSY (logged), with
 * *status HG_FALSE: a thread waits for the request already; or called while
 * this thread makes progress, as from a function that frees data. The call goes
 * on. The thread that waits decodes the output.
 *
 * Makes progress for the whole process and runs handlers, also inside a
 * handler, to a depth of 16. Deeper, a call that only this thread could execute
 * is waited for in vain, and a line tells. Of a call that is done it tells at
 * once; else it looks for news at least once, and outlasts its time by no more
 * than the handler that it runs then; with 0 it runs two at most. A signal
 * handler that runs on a thread while that sleeps here, whatever other threads
 * do, ends its wait with HG_INTR; on a thread that is awake it does not, so who
 * must not miss a signal waits with a finite timeout. */
HG_EXPORT hg_return_t HG_Wait(
    hg_request_t request, unsigned int timeout, hg_status_t *status);

/* Wait for several calls, with one timeout. Returns the first error in array
 * order, else HG_TIMEOUT if any is not done, else HG_SUCCESS. At once: HG_INTR,
 * as HG_Wait returns it; HG_BUSY, as HG_Wait returns it. */
HG_EXPORT hg_return_t HG_Wait_all(int count, hg_request_t array_of_requests[],
    unsigned int timeout, hg_status_t array_of_statuses[]);

/* Free a request and what decoding its output allocated; one in flight is
 * canceled, and its out_struct is not touched afterwards. HG_INVALID_ARG:
 * HG_REQUEST_NULL, or a request that was freed already, by HG_Finalize too:
 * a request is no pointer but a number, and not given again. HG_BUSY (logged):
 * a thread is in a wait for it, this one perhaps, which runs a handler there,
 * or decodes its output; then it is not freed. */
HG_EXPORT hg_return_t HG_Request_free(hg_request_t request);

/* ---- Handlers ---- */

/* Process for at most `timeout` ms: HG_SUCCESS (*status HG_TRUE) after at
 * least one event, HG_TIMEOUT after none, HG_INTR after a signal, HG_BUSY
 * inside a handler, or where HG_Wait has it. Runs the calls that are queued, 64
 * at most, while there is time, and outlasts it by no more than one handler;
 * with 0 it runs one. */
HG_EXPORT hg_return_t HG_Handler_process(
    unsigned int timeout, hg_status_t *status);

/* The caller's address, freed with the handle; NA_Addr_dup keeps it.
 * NA_ADDR_NULL for HG_HANDLE_NULL. */
HG_EXPORT na_addr_t HG_Handler_get_addr(hg_handle_t handle);

/* The registered id of the call; 0 for HG_HANDLE_NULL. */
HG_EXPORT hg_id_t HG_Handler_get_id(hg_handle_t handle);

/* Decode the input. HG_INVALID_ARG: no input proc; HG_CHECKSUM_ERROR: the proc
 * left some bytes undecoded, which the option no_checksum allows; HG_OVERFLOW:
 * it wanted more than arrived. These two are what happens when both sides do
 * not register the same types, and the log line says so. HG_NOENTRY: a bulk
 * handle of ours is in it, and was freed. Nothing stays allocated on failure.
 * A request that changed on the way does not get here: it is not executed, and
 * the call ends with HG_CHECKSUM_ERROR at its origin. */
HG_EXPORT hg_return_t HG_Handler_get_input(hg_handle_t handle, void *in_struct);

/* Release what decoding allocated. */
HG_EXPORT hg_return_t HG_Handler_free_input(
    hg_handle_t handle, void *in_struct);

/* Encode the output and send it: the answer. `out_struct` may be freed at
 * once; NULL where there is no output proc. Once only: HG_EXIST. Free the
 * handle with HG_Handler_free, before or after the answer has left. */
HG_EXPORT hg_return_t HG_Handler_start_output(
    hg_handle_t handle, void *out_struct);

/* The same by hand. The input as it arrived, and a zeroed buffer of *size
 * bytes for the output (both the handle's); then start_response, which sends
 * that buffer whole (extra_buf NULL, extra_size 0, else HG_INVALID_ARG), or,
 * with extra_buf not NULL, extra_size bytes from there (copied) instead.
 * HG_EXIST, for the buffer too: answered already; HG_MSGSIZE: extra_size is
 * past max_args_size. */
HG_EXPORT hg_return_t HG_Handler_get_input_buf(
    hg_handle_t handle, void **buf, size_t *size);
HG_EXPORT hg_return_t HG_Handler_get_output_buf(
    hg_handle_t handle, void **buf, size_t *size);
HG_EXPORT hg_return_t HG_Handler_start_response(
    hg_handle_t handle, void *extra_buf, size_t extra_size);

/* Done with the handle. If it is not answered, the call ends with HG_CANCELED,
 * or with the code that its callback returns. */
HG_EXPORT hg_return_t HG_Handler_free(hg_handle_t handle);

/* ---- Counters ---- */

/* Counts since HG_Init. The caller sets `size`. */
struct hg_counters {
    size_t size; /* sizeof(struct hg_counters) */
    uint64_t requests_sent;
    uint64_t responses_received; /* errors included */
    uint64_t requests_received;
    uint64_t responses_sent; /* errors included */
    uint64_t errors_sent;    /* answers with a code, not an output */
    uint64_t inputs_fetched; /* too large for a message */
    uint64_t outputs_fetched;
    uint64_t refused;     /* messages and arguments that are malformed */
    uint64_t late;        /* answers nobody waited for any more */
    uint64_t turned_away; /* calls and outputs past a limit: HG_AGAIN */
    uint64_t dropped;     /* calls of a peer that was disconnected for them */
    uint64_t expired;     /* calls whose time was over: neither executed, ... */
    uint64_t canceled;    /* ... nor answered, as those nobody waited for */
    uint64_t bulk_bytes_pulled;
    uint64_t bulk_bytes_pushed;
    uint64_t in_flight;     /* now */
    uint64_t unanswered;    /* now */
    uint64_t fetched_bytes; /* now, of max_fetched_bytes */
    uint64_t held_bytes;    /* now, of max_held_bytes */
    uint64_t bulk_damaged;  /* transfers of ours: HG_CHECKSUM_ERROR */
};

HG_EXPORT hg_return_t HG_Get_counters(struct hg_counters *counters);
#endif
