/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== RPC: the callback model =========================================== */
/*
 * For event loops and threads. A class is an endpoint, a context a place where
 * things complete, a handle one call; all of them are the application's, and a
 * process may have several. Every operation takes a callback. HG_Progress moves
 * data, HG_Trigger runs what became of it: callbacks, and the functions
 * registered for calls that arrived.
 *
 * Names, signatures and behaviour are those of Mercury 2.4: a program written
 * for Mercury 2.x compiles under HG_API_VERSION 2. The Mercury design report
 * leaves this model open, its user's manual is Mercury's.
 *
 * Callbacks: what starts an operation and returns HG_SUCCESS has its callback
 * run exactly once, by HG_Trigger on the operation's context, never inside the
 * function that started it, and with no lock of the library held; what returns
 * a code has none. A NULL callback means that nobody wants to hear. What a
 * callback returns is ignored. A callback, and a function that executes a call,
 * may call everything but HG_Context_destroy and HG_Finalize of where it runs.
 * The struct it is given is borrowed.
 *
 * Lifetimes: a handle counts references. HG_Create gives one; so does a call
 * that arrives to the function that executes it; HG_Ref_incr and HG_Get_input
 * and HG_Get_output add one each, HG_Destroy and HG_Free_input and
 * HG_Free_output drop one. An operation holds its own until its callback has
 * run, so a handle may be destroyed right after HG_Forward or HG_Respond. An
 * address counts likewise, and so does a bulk handle, which the transfers it is
 * in hold.
 *
 * After the end: a function that is given a destroyed class or context returns
 * HG_INVALID_ARG and logs a line, unless a new one has got the address of the
 * old one. A handle whose last reference was dropped gives HG_INVALID_ARG until
 * it serves another call or its context ends; later use is not detected. Use of
 * a freed address or bulk handle is not detected.
 *
 * fork: in a child every function that is given a class, context, handle,
 * address, bulk handle or operation of the parent's returns HG_FAULT at once
 * (or NULL, 0, false or -1), also to free it. One line is logged for each
 * class. Sizes, flags and memory of bulk handles may be looked at. The child
 * may open classes of its own.
 *
 * Wrong arguments, NULL first of all, are HG_INVALID_ARG; where no code is
 * returned, NULL, 0, false or -1. To free nothing is no mistake: a NULL class,
 * handle, address, bulk handle or proc is freed with HG_SUCCESS.
 * Output arguments are set only on success. Whatever fails is told in one line
 * of the log.
 *
 * Threads: as everywhere in the library, every function may be called from any
 * thread at any time, but for what ends an object: nobody else may be using it
 * then. Any number of threads may progress and trigger one context; one
 * progresses at a time, and callbacks run in whichever thread triggers.
 */

/* ---- Types ---- */

typedef uint64_t hg_size_t;
typedef struct hg_class hg_class_t;
typedef struct hg_context hg_context_t;
#if HG_API_VERSION == 2 && HG_API_STRICT
typedef struct hg_addr *hg_addr_t; /* Mercury's tag, which programs declare */
#else
typedef na_addr_t hg_addr_t;
#endif
typedef struct hg_op_id *hg_op_id_t;

#define HG_ADDR_NULL HG_CAST(hg_addr_t, HG_NULLPTR)
#define HG_OP_ID_NULL HG_CAST(hg_op_id_t, HG_NULLPTR)
#define HG_OP_ID_IGNORE \
    HG_CAST(hg_op_id_t *, HG_NULLPTR) /* where one is returned */
#define HG_SIZE_MAX UINT64_MAX

/* What a handle stands for. `addr` is the target's at the origin, the caller's
 * at the target; it is the handle's: HG_Addr_dup keeps it. */
struct hg_info {
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t addr;
    hg_id_t id;
    uint8_t context_id; /* at the other side, of HG_Context_create_id */
};

typedef enum hg_cb_type {
    HG_CB_LOOKUP,
    HG_CB_FORWARD,
    HG_CB_RESPOND,
    HG_CB_BULK
} hg_cb_type_t;

/* The two messages of a call. */
typedef enum { HG_UNDEF, HG_INPUT, HG_OUTPUT } hg_op_t;

struct hg_cb_info_lookup {
    hg_addr_t addr; /* a reference of the application's */
};

struct hg_cb_info_forward {
    hg_handle_t handle;
};

struct hg_cb_info_respond {
    hg_handle_t handle;
};

struct hg_cb_info_bulk {
    hg_bulk_t origin_handle;
    hg_bulk_t local_handle;
    hg_bulk_op_t op;
    hg_size_t size; /* of the transfer */
};

struct hg_cb_info {
    union {
        struct hg_cb_info_lookup lookup;
        struct hg_cb_info_forward forward;
        struct hg_cb_info_respond respond;
        struct hg_cb_info_bulk bulk;
    } info;
    void *arg;
    hg_cb_type_t type;
    hg_return_t ret; /* what became of the operation */
};

typedef hg_return_t (*hg_cb_t)(const struct hg_cb_info *callback_info);

/* ---- Options ----
 *
 * Some options of Mercury's are accepted without effect, because there is
 * nothing here that they could change:
 *
 *     no_multi_recv, multi_recv_op_max, multi_recv_copy_threshold
 *                        a transport chooses its own receives: messages are
 *                        taken as they come, and a peer that sends too much
 *                        gets HG_AGAIN
 *     no_bulk_eager      bulk data never travels with a call
 *     no_loopback        a call to oneself succeeds, as in Mercury, but does
 *                        not use the transport
 *     thread_mode        every function is safe between threads
 *     ip_subnet, addr_format
 *                        of transports other than zmq+tcp and libfabric's
 *                        over IP, such as sm
 *     traffic_class, request_mem_device, NA_NO_RETRY
 *                        no transport has them; plugins may read them
 *
 * auth_key is an error where a transport does not honour it. Of Mercury's
 * environment variables HG_LOG_LEVEL and HG_LOG_SUBSYS have an effect.
 * NA_PLUGIN_PATH has none, because a transport is a source file that the
 * program is built with; nor have those of Mercury's plugins (NA_OFI_...), and
 * UCX_.... libfabric reads its own (FI_..., SLINGSHOT_...) where hg_na_ofi.c is
 * used.
 */

enum na_traffic_class {
    NA_TC_UNSPEC = 0,
    NA_TC_BEST_EFFORT = 1,
    NA_TC_LOW_LATENCY = 2,
    NA_TC_BULK_DATA = 3,
    NA_TC_DEDICATED_ACCESS = 4,
    NA_TC_SCAVENGER = 5,
    NA_TC_NETWORK_CTRL = 6
};

/* For thread_mode. */
#define NA_THREAD_MODE_SINGLE_CLS 0x01
#define NA_THREAD_MODE_SINGLE_CTX 0x02
#define NA_THREAD_MODE_SINGLE 0x03

/* Options of the network layer as Mercury lays them out; struct na_init_info
 * says what the members mean. */
struct na_init_info_4_0 {
    const char *ip_subnet;
    const char *auth_key;
    size_t max_unexpected_size;
    size_t max_expected_size;
    uint8_t progress_mode;
    enum na_addr_format addr_format;
    uint8_t max_contexts;    /* beyond it HG_Context_create returns NULL; 0,
                                and 1, the initializer's: no limit but 256 */
    uint8_t thread_mode;     /* no effect */
    bool request_mem_device; /* no effect */
};

/* The checks that a class computes for the messages it sends. A receiver of any
 * level checks what comes with a message, and takes a message without a CRC64.
 * A call whose request or response changed on the way ends with
 * HG_CHECKSUM_ERROR. The level of the receiver decides about a proc that
 * decodes only the front part of its arguments: HG_CHECKSUM_ERROR with
 * RPC_PAYLOAD, HG_SUCCESS with the others. A call to oneself has no CRC64. The
 * request model has RPC_PAYLOAD, or NONE with its option no_checksum. */
typedef enum hg_checksum_level {
    HG_CHECKSUM_NONE,
    HG_CHECKSUM_RPC_HEADERS, /* a CRC64 of each message, with its arguments */
    HG_CHECKSUM_RPC_PAYLOAD  /* also of arguments too large for a message */
} hg_checksum_level_t;

/* Options of a class, in Mercury's order. Start from HG_INIT_INFO_INITIALIZER;
 * 0 and NULL choose the default everywhere. Strings are copied. */
struct hg_init_info {
    struct na_init_info_4_0 na_init_info;
    na_class_t *na_class;       /* use this one, which stays the application's
                                   and outlives the class; the address string is
                                   ignored then */
    uint32_t request_post_init; /* calls to a class that may be unanswered, at
                                   least; 65,536, beyond which callers get
                                   HG_AGAIN */
    int32_t request_post_incr;  /* below 0 the default of request_post_init is
                                   4,096 */
    uint8_t auto_sm;            /* reach peers on the same node by sm://, if
                                   they have it as well: "URL;sm://" */
    const char *sm_info_string; /* the name of that endpoint; NULL: one that
                                   peers find by the other address */
    hg_checksum_level_t checksum_level;  /* HG_CHECKSUM_NONE */
    uint8_t no_bulk_eager;               /* no effect */
    uint8_t no_loopback;                 /* no effect */
    uint8_t stats;                       /* write the counters of the class when
                                           it ends, at any level of the log */
    uint8_t no_multi_recv;               /* no effect */
    uint8_t release_input_early;         /* HG_Get_input drops the message */
    enum na_traffic_class traffic_class; /* no effect */
    bool no_overflow; /* arguments that do not fit a message are HG_OVERFLOW */
    unsigned int multi_recv_op_max;         /* no effect */
    unsigned int multi_recv_copy_threshold; /* no effect */
    /* Not in Mercury. HG_Init_opt2 reads them, HG_Init_opt does not. */
    bool no_builtins;   /* HG_BUILTIN_PING and its like are not served */
    bool histograms;    /* count how long calls take: HG_Get_histogram */
    bool bulk_checksum; /* a CRC64 in each message of bulk data */
};

/* A value, as in Mercury: it can be assigned, too. */
#ifdef __cplusplus
#define NA_INIT_INFO_INITIALIZER_4_0 \
    na_init_info_4_0 \
    { \
        HG_NULLPTR, HG_NULLPTR, 0, 0, 0, NA_ADDR_UNSPEC, 1, 0, false \
    }
#define HG_INIT_INFO_INITIALIZER \
    hg_init_info \
    { \
        NA_INIT_INFO_INITIALIZER_4_0, HG_NULLPTR, 0, 0, 0, HG_NULLPTR, \
            HG_CHECKSUM_NONE, 0, 0, 0, 0, 0, NA_TC_UNSPEC, false, 0, 0, false, \
            false, false \
    }
#else
#define NA_INIT_INFO_INITIALIZER_4_0 \
    ((struct na_init_info_4_0){ \
        HG_NULLPTR, HG_NULLPTR, 0, 0, 0, NA_ADDR_UNSPEC, 1, 0, false})
#define HG_INIT_INFO_INITIALIZER \
    ((struct hg_init_info){ \
        {HG_NULLPTR, HG_NULLPTR, 0, 0, 0, NA_ADDR_UNSPEC, 1, 0, false}, \
        HG_NULLPTR, 0, 0, 0, HG_NULLPTR, HG_CHECKSUM_NONE, 0, 0, 0, 0, 0, \
        NA_TC_UNSPEC, false, 0, 0, false, false, false})
#endif

/* ---- Transports ---- */

/* One protocol that this program can speak; the strings are the list's. */
struct na_protocol_info {
    struct na_protocol_info *next;
    char *class_name; /* as HG_Class_get_name gives it: "na", "zmq" */
    char *protocol_name;
    char *device_name; /* "shm" of na+sm; over libfabric a domain, which is
                          an interface or a device; else "any" */
};

/* The protocols that work here, all or those that `info_string` names ("tcp",
 * "zmq+tcp"), in the order in which strings without a transport find them. The
 * name of a transport alone ("zmq", "na") names none, as in Mercury. A list
 * without an entry is NULL. Freed with HG_Free_na_protocol_info, where NULL is
 * allowed. HG_INVALID_ARG: not of that form. */
HG_EXPORT hg_return_t HG_Get_na_protocol_info(
    const char *info_string, struct na_protocol_info **na_protocol_info_p);
HG_EXPORT void HG_Free_na_protocol_info(
    struct na_protocol_info *na_protocol_info);

/* Remove what runs that crashed have left behind. This does nothing: the place
 * of a socket of zmq+ipc is taken by the next one, and which files of ofi+shm
 * in /dev/shm are still used is not known. */
HG_EXPORT void HG_Cleanup(void);

/* ---- Logging as Mercury has it ----
 *
 * The plain names under version 2. They set the same log that HG_Set_log_func
 * and its like set under version 1; the last call wins. */

/* HG_Set_log_level; NULL is "none". */
HG_EXPORT void HG_Set_log_level2(const char *level);

/* HG_Set_log_subsys. */
HG_EXPORT void HG_Set_log_subsys2(const char *subsys);

/* Deliver lines by `log_func`, which is called as fprintf is, with a newline at
 * the end of what it prints; NULL restores the usual way. It may run on any
 * thread, during any call, under locks of the library: it must not call the
 * library back. */
HG_EXPORT void HG_Set_log_func2(
    int (*log_func)(FILE *stream, const char *format, ...));

/* Where lines of one level go: "error", "warning", or "debug", with which
 * "info" goes. NULL is stderr. The stream stays the application's, and open. */
HG_EXPORT void HG_Set_log_stream(const char *level, FILE *stream);

/* The name of a code, as Mercury gives it: "HG_TIMEOUT"; of 23, which is not
 * what it is there, "HG_DISCONNECT"; NULL for other numbers. */
HG_EXPORT const char *HG_Error_to_string2(
    hg_return_t errnum) HG_WARN_UNUSED_RESULT;

/* The release of Mercury whose interface this is, 2.4.1; arguments may be
 * NULL. */
HG_EXPORT hg_return_t HG_Version_get2(
    unsigned int *major_p, unsigned int *minor_p, unsigned int *patch_p);

/* ---- Classes ---- */

/* Open an endpoint by an address string, as NA_Initialize does. NULL on
 * failure, with the cause in the log. HG_Init_opt takes options (NULL for
 * none), of which it knows those up to `stats`, as programs before Mercury 2.3
 * have them. HG_Init_opt2 takes them as the version of Mercury has them that is
 * named by HG_VERSION(major, minor): up to `stats` before 2.3, to
 * `release_input_early` before 2.4, all up to `bulk_checksum` from 2.4 on. A
 * version means that layout for good, and no more is read: a program runs with
 * a later library that has more options. A version of 0 with options, or one
 * past this header's, is refused, and so is `bulk_checksum` where the transport
 * moves bulk data itself (see HG_Bulk_transfer). */
HG_EXPORT hg_class_t *HG_Init2(
    const char *na_info_string, uint8_t na_listen) HG_WARN_UNUSED_RESULT;
HG_EXPORT hg_class_t *HG_Init_opt(const char *na_info_string, uint8_t na_listen,
    const struct hg_init_info *hg_init_info) HG_WARN_UNUSED_RESULT;
HG_EXPORT hg_class_t *HG_Init_opt2(const char *na_info_string,
    uint8_t na_listen, unsigned int version,
    const struct hg_init_info *hg_init_info) HG_WARN_UNUSED_RESULT;

/* Close a class, free what is registered and the data set on it. HG_BUSY: a
 * context, an address, or a bulk handle of it is left; nothing has changed
 * then. May be repeated, in one process and with other classes alive. */
HG_EXPORT hg_return_t HG_Finalize2(hg_class_t *hg_class);

#if !HG_API_STRICT
/* Set the limits of a class, and what else struct hg_options has, in place of
 * what HG_Init was given. Start from HG_Class_get_options: no_checksum is true
 * there unless checksum_level is RPC_PAYLOAD. Copied; 0 chooses a default:
 * 128 MiB for max_in_flight_bytes, and what request_post_init says for
 * max_unanswered. Histograms are kept of functions that are registered later.
 * HG_API_STRICT hides both functions and the struct: a program that includes
 * <mercury.h> calls them in a source file that includes only hg.h.
 * Returns HG_BUSY: the class has a context; HG_INVALID_ARG: a NULL, or
 * options->size is not sizeof(struct hg_options); HG_OPNOTSUPPORT:
 * bulk_checksum on a transport that moves bulk data itself. */
HG_EXPORT hg_return_t HG_Class_set_options(
    hg_class_t *hg_class, const struct hg_options *options);

/* The options of a class, defaults filled in; options->size is set by the
 * caller. HG_INVALID_ARG as above. */
HG_EXPORT hg_return_t HG_Class_get_options(
    const hg_class_t *hg_class, struct hg_options *options);
#endif

/* "na", "zmq", ... and "sm", "tcp", ...; owned by the class. As in Mercury, the
 * protocol sm is of the transport "na". */
HG_EXPORT const char *HG_Class_get_name(
    const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;
HG_EXPORT const char *HG_Class_get_protocol(
    const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;
HG_EXPORT bool HG_Class_is_listening(
    const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/* How many bytes of encoded arguments travel in a message; what is larger moves
 * over bulk, by itself. */
HG_EXPORT hg_size_t HG_Class_get_input_eager_size(
    const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;
HG_EXPORT hg_size_t HG_Class_get_output_eager_size(
    const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/* Leave `offset` bytes in front of every encoded input (output) for headers of
 * the application, which writes and reads them through HG_Get_input_buf and
 * HG_Get_output_buf; zeros, if it asks for no buffer. Both sides set the same.
 * HG_INVALID_ARG: more than the eager size. Not while calls are in flight. */
HG_EXPORT hg_return_t HG_Class_set_input_offset(
    hg_class_t *hg_class, hg_size_t offset);
HG_EXPORT hg_return_t HG_Class_set_output_offset(
    hg_class_t *hg_class, hg_size_t offset);

/* Hang data on a class. `free_callback` (may be NULL) is called on it by
 * HG_Finalize, not when other data takes its place. */
HG_EXPORT hg_return_t HG_Class_set_data(
    hg_class_t *hg_class, void *data, void (*free_callback)(void *));
HG_EXPORT void *HG_Class_get_data(
    const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/* What a class has done. */
struct hg_diag_counters {
    uint64_t rpc_req_sent_count;
    uint64_t rpc_req_recv_count;
    uint64_t rpc_resp_sent_count;
    uint64_t rpc_resp_recv_count;
    uint64_t rpc_req_extra_count;       /* inputs too large for a message */
    uint64_t rpc_resp_extra_count;      /* outputs */
    uint64_t rpc_req_recv_active_count; /* arrived and not answered, now */
    uint64_t rpc_multi_recv_copy_count; /* 0 */
    uint64_t bulk_count;                /* transfers */
};

HG_EXPORT hg_return_t HG_Class_get_counters(
    const hg_class_t *hg_class, struct hg_diag_counters *diag_counters);

/* Write the counters of all classes to the log, at the level info. */
HG_EXPORT void HG_Diag_dump_counters(void);

/* Call `callback` with each handle that is made from now on, by HG_Create or
 * for calls that arrive, before anybody else sees it. A code other than
 * HG_SUCCESS is what HG_Create returns; a call that arrived is answered with
 * it. NULL: no more. */
HG_EXPORT hg_return_t HG_Class_set_handle_create_callback(hg_class_t *hg_class,
    hg_return_t (*callback)(hg_handle_t, void *), void *arg);

/* ---- Contexts ---- */

/* A place where operations complete; on a class that listens, calls for its id
 * arrive there from now on. Callers choose the id by HG_Set_target_id; without
 * one it is 0. HG_Context_create takes the first that is free: 0 in a class
 * that has no other context. NULL on failure: another context has the id, or
 * there are max_contexts. */
HG_EXPORT hg_context_t *HG_Context_create(
    hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;
HG_EXPORT hg_context_t *HG_Context_create_id(
    hg_class_t *hg_class, uint8_t id) HG_WARN_UNUSED_RESULT;

/* Take no more calls, for good: callers get HG_CANCELED. */
HG_EXPORT hg_return_t HG_Context_unpost(hg_context_t *context);

/* End a context: takes no more calls, ends those that it has made with
 * HG_CANCELED, and for at most 5 s makes progress and runs callbacks until its
 * handles are gone; then frees the data set on it.
 * HG_BUSY (logged): a thread makes progress or waits in it, also in
 * HG_Wait_room, and nothing has changed; or handles are left, with the context,
 * which takes no calls any more. */
HG_EXPORT hg_return_t HG_Context_destroy(hg_context_t *context);

HG_EXPORT hg_class_t *HG_Context_get_class(
    const hg_context_t *context) HG_WARN_UNUSED_RESULT;
HG_EXPORT uint8_t HG_Context_get_id(
    const hg_context_t *context) HG_WARN_UNUSED_RESULT;

/* Data, freed by HG_Context_destroy. */
HG_EXPORT hg_return_t HG_Context_set_data(
    hg_context_t *context, void *data, void (*free_callback)(void *));
HG_EXPORT void *HG_Context_get_data(
    const hg_context_t *context) HG_WARN_UNUSED_RESULT;

/* ---- Registration ---- */

/* Register a function by name, with its procs (NULL where nothing is carried)
 * and what executes it (NULL at a client). Both sides, and both models, derive
 * the same id from a name. The same name again replaces all three. 0: out of
 * memory, a NULL, or a collision with another name. */
HG_EXPORT hg_id_t HG_Register_name(hg_class_t *hg_class, const char *func_name,
    hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb,
    hg_rpc_cb_t rpc_cb) HG_WARN_UNUSED_RESULT;

/* The same under an id of the application's. */
HG_EXPORT hg_return_t HG_Register2(hg_class_t *hg_class, hg_id_t id,
    hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb);

/* Forget a function, and free its data: calls of it end with HG_NOENTRY, to it
 * and from here. HG_NOENTRY: not registered. Handles of it must be gone. */
HG_EXPORT hg_return_t HG_Deregister(hg_class_t *hg_class, hg_id_t id);

/* Whether a name, an id is registered; the id (id_p may be NULL) is told in
 * either case, the procs (NULL allowed) if it is. */
HG_EXPORT hg_return_t HG_Registered_name(hg_class_t *hg_class,
    const char *func_name, hg_id_t *id_p, uint8_t *flag_p);
HG_EXPORT hg_return_t HG_Registered(
    hg_class_t *hg_class, hg_id_t id, uint8_t *flag_p);
HG_EXPORT hg_return_t HG_Registered_proc_cb(hg_class_t *hg_class, hg_id_t id,
    uint8_t *flag_p, hg_proc_cb_t *in_proc_cb_p, hg_proc_cb_t *out_proc_cb_p);

/* Data of a function, freed by HG_Deregister or HG_Finalize, not when other
 * data takes its place. HG_NOENTRY, NULL: not registered, or none. */
HG_EXPORT hg_return_t HG_Register_data(hg_class_t *hg_class, hg_id_t id,
    void *data, void (*free_callback)(void *));
HG_EXPORT void *HG_Registered_data(
    hg_class_t *hg_class, hg_id_t id) HG_WARN_UNUSED_RESULT;

/* Whether calls of a function have no answer (one-way). It counts at the
 * origin: such a call ends when its input has left, and the target's HG_Respond
 * is HG_OPNOTSUPPORT. Handles take it over when they are made or reset.
 * HG_NOENTRY: not registered. */
HG_EXPORT hg_return_t HG_Registered_disable_response(
    hg_class_t *hg_class, hg_id_t id, uint8_t disable);
HG_EXPORT hg_return_t HG_Registered_disabled_response(
    hg_class_t *hg_class, hg_id_t id, uint8_t *disabled_p);

/* ---- Addresses ---- */

/* Find a peer, as NA_Addr_lookup does; `name` is copied. The callback gets a
 * reference to the address, or an error code. A wrong name is refused at once:
 * HG_NODEV if it is an address that this class cannot read, HG_INVALID_ARG if
 * it has no "://". No operation id is given: *op_id_p stays as it is. */
HG_EXPORT hg_return_t HG_Addr_lookup1(hg_context_t *context, hg_cb_t callback,
    void *arg, const char *name, hg_op_id_t *op_id_p);

/* Resolve the name of a peer, without connecting and without progress: whether
 * the peer is there is found out by the first call or transfer, which connects
 * and ends with the code that HG_CB_LOOKUP would tell. A host's name may need a
 * name server; HG_HOSTUNREACH: no such host. Other names are refused as by
 * HG_Addr_lookup1. Until it is connected an address is compared by its name.
 * If it cannot be connected, the calls and transfers that wait for it fail, and
 * the next use connects anew: the address works once the peer is there. */
HG_EXPORT hg_return_t HG_Addr_lookup2(
    hg_class_t *hg_class, const char *name, hg_addr_t *addr_p);

/* Drop a reference. HG_INVALID_ARG: the application has none, as of an address
 * that HG_Get_info tells. */
HG_EXPORT hg_return_t HG_Addr_free(hg_class_t *hg_class, hg_addr_t addr);

/* The peer is said to be gone, before the library noticed (death_ms), or if it
 * lives: calls in flight to it end with HG_DISCONNECT, and so do later ones by
 * this address, which is to be freed; a lookup from now on connects anew. It
 * has no effect on one's own address, nor on one that is being connected: its
 * calls wait for that, and HG_Cancel ends them. */
HG_EXPORT hg_return_t HG_Addr_set_remove(hg_class_t *hg_class, hg_addr_t addr);

/* A reference to the class's own address; another reference. */
HG_EXPORT hg_return_t HG_Addr_self(hg_class_t *hg_class, hg_addr_t *addr_p);
HG_EXPORT hg_return_t HG_Addr_dup(
    hg_class_t *hg_class, hg_addr_t addr, hg_addr_t *new_addr_p);

/* HG_TRUE: both are of one peer. Two NULLs are equal, one is not. */
HG_EXPORT uint8_t HG_Addr_cmp(hg_class_t *hg_class, hg_addr_t addr1,
    hg_addr_t addr2) HG_WARN_UNUSED_RESULT;

/* Write the address as a string with its NUL. *buf_size_p is the size of `buf`,
 * and is set to that of the string; with a NULL buf nothing else happens.
 * HG_OVERFLOW: the buffer is too small; *buf_size_p is set. */
HG_EXPORT hg_return_t HG_Addr_to_string(
    hg_class_t *hg_class, char *buf, hg_size_t *buf_size_p, hg_addr_t addr);

/* ---- Handles ---- */

/* A handle for calls of a function at a peer, with one reference. It keeps
 * references to what it needs, and may be used for one call after the other.
 * A NULL address and an id of 0 may be set later by HG_Reset. HG_NOENTRY: the
 * id is not registered. */
HG_EXPORT hg_return_t HG_Create(
    hg_context_t *context, hg_addr_t addr, hg_id_t id, hg_handle_t *handle_p);

/* Drop a reference; the last one frees the handle, its data, and what was left
 * of its messages. A call that arrived and is freed unanswered ends with
 * HG_CANCELED at its caller; while its function runs, with the code that
 * returns, and one more HG_Destroy of it there is HG_SUCCESS and does nothing,
 * because in Mercury such a call has two references. HG_INVALID_ARG (logged):
 * there is no reference to drop. */
HG_EXPORT hg_return_t HG_Destroy(hg_handle_t handle);

/* Point a handle at another peer and function (NULL and 0 keep what it has),
 * and make it as new, but for its data; the target's context is 0 again.
 * HG_BUSY: its operation, or the callback, is not over; HG_NOENTRY. */
HG_EXPORT hg_return_t HG_Reset(hg_handle_t handle, hg_addr_t addr, hg_id_t id);

/* References: one more; how many there are, -1 for HG_HANDLE_NULL. After the
 * callback of a call, and after a failing HG_Forward, it is 1 again if nobody
 * else has taken one. */
HG_EXPORT hg_return_t HG_Ref_incr(hg_handle_t handle);
HG_EXPORT int32_t HG_Ref_get(hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/* Valid as long as the handle; NULL for HG_HANDLE_NULL. */
HG_EXPORT const struct hg_info *HG_Get_info(
    hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/* Data, which survives HG_Reset and is freed with the handle. */
HG_EXPORT hg_return_t HG_Set_data(
    hg_handle_t handle, void *data, void (*free_callback)(void *));
HG_EXPORT void *HG_Get_data(hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/* Which context of the target executes the calls; 0. Before HG_Forward. A call
 * to a context that does not exist waits at the target until it is created. */
HG_EXPORT hg_return_t HG_Set_target_id(hg_handle_t handle, uint8_t id);

/* ---- Arguments ---- */

/* How many bytes the encoded arguments have. The bytes that
 * HG_Class_set_input_offset and HG_Class_set_output_offset reserve count, as in
 * Mercury, unless the arguments were too large for the message. 0: nothing has
 * come, or it was released. */
HG_EXPORT hg_size_t HG_Get_input_payload_size(hg_handle_t handle);
HG_EXPORT hg_size_t HG_Get_output_payload_size(hg_handle_t handle);

/* Decode the input (at the target), the output (at the origin, in the callback
 * or after it), and take a reference to the handle; HG_Free_input and
 * HG_Free_output release what decoding allocated, and drop it. HG_FAULT: no
 * proc, or the handle was never forwarded; HG_CHECKSUM_ERROR and HG_OVERFLOW as
 * HG_Handler_get_input has them, HG_NOENTRY, too; the code of a failing proc.
 * Nothing stays allocated, and no reference taken, on failure.
 * HG_Free_input and HG_Free_output: HG_INVALID_ARG where every decoded struct
 * was freed already; references stay as they are. The other side, which encodes
 * (HG_Free_output where a call arrived), may free its own struct so: the proc
 * frees its members with free(), and a reference is dropped, so that HG_Destroy
 * is not called for that one. */
HG_EXPORT hg_return_t HG_Get_input(hg_handle_t handle, void *in_struct);
HG_EXPORT hg_return_t HG_Free_input(hg_handle_t handle, void *in_struct);
HG_EXPORT hg_return_t HG_Get_output(hg_handle_t handle, void *out_struct);
HG_EXPORT hg_return_t HG_Free_output(hg_handle_t handle, void *out_struct);

/* The message itself, of the eager size where it is to be sent, with the room
 * for the application's header first (HG_Class_set_input_offset). Valid until
 * the handle is reset, released or freed, or a larger message is encoded. The
 * size may be NULL. HG_BUSY: the handle's call is not over, and the message was
 * not asked for before. */
HG_EXPORT hg_return_t HG_Get_input_buf(
    hg_handle_t handle, void **in_buf_p, hg_size_t *in_buf_size_p);
HG_EXPORT hg_return_t HG_Get_output_buf(
    hg_handle_t handle, void **out_buf_p, hg_size_t *out_buf_size_p);

/* Arguments that were too large for the message, else NULL and 0. */
HG_EXPORT hg_return_t HG_Get_input_extra_buf(
    hg_handle_t handle, void **in_buf_p, hg_size_t *in_buf_size_p);
HG_EXPORT hg_return_t HG_Get_output_extra_buf(
    hg_handle_t handle, void **out_buf_p, hg_size_t *out_buf_size_p);

/* Give back the message a call came with, before the handle is freed: what
 * HG_Get_input_buf gave is no longer valid. */
HG_EXPORT hg_return_t HG_Release_input_buf(hg_handle_t handle);

/* ---- Calls ---- */

/* Start the call that a handle stands for. `in_struct` is encoded before the
 * function returns; NULL, or without an input proc, nothing is sent. The
 * callback's `ret` is HG_SUCCESS when the answer is there, and HG_Get_output
 * decodes it; else what ended the call: the code the target answered with,
 * HG_NOENTRY if it does not know the function, HG_CANCELED, HG_TIMEOUT past its
 * deadline, HG_DISCONNECT, HG_HOSTUNREACH.
 * HG_BUSY: the handle's call is not over; HG_INVALID_ARG: it has no address;
 * HG_FAULT: it has no function; HG_NOENTRY: that was deregistered; HG_AGAIN:
 * too many in flight; HG_OVERFLOW: too large, with no_overflow; the code of a
 * failing proc.
 * A call to oneself is run by a later HG_Trigger. */
HG_EXPORT hg_return_t HG_Forward2(
    hg_handle_t handle, hg_cb_t callback, void *arg, void *in_struct);

/* Answer a call that arrived: once, from any thread. The callback tells that
 * the output has left. HG_EXIST: answered already; HG_OPNOTSUPPORT: the caller
 * waits for no answer. On another failure the call is still unanswered. */
HG_EXPORT hg_return_t HG_Respond(
    hg_handle_t handle, hg_cb_t callback, void *arg, void *out_struct);

/* Ask that a handle's call end: its callback comes, once, with HG_CANCELED or
 * with the result that won; the target is told. HG_SUCCESS also when nothing
 * was in flight. */
HG_EXPORT hg_return_t HG_Cancel(hg_handle_t handle);

/* ---- Progress ---- */

/* Move data for at most `timeout` ms, until something waits for HG_Trigger:
 * HG_SUCCESS, at once if something does already. HG_TIMEOUT: nothing came; 0
 * only looks. A signal ends a wait with HG_TIMEOUT, after which HG_Progress may
 * be called again. */
HG_EXPORT hg_return_t HG_Progress(hg_context_t *context, unsigned int timeout);

/* Run at most max_count callbacks and calls, waiting up to `timeout` ms for the
 * first. HG_SUCCESS with *actual_count_p (may be NULL) >= 1, or 0 if max_count
 * is 0; HG_TIMEOUT with 0. It makes no progress by itself. */
HG_EXPORT hg_return_t HG_Trigger(hg_context_t *context, unsigned int timeout,
    unsigned int max_count, unsigned int *actual_count_p);

/* For event loops. A descriptor that is readable when there is something to do;
 * -1 where the transport has none (MPI; ofi with NA_WAIT_SPIN, or over a
 * provider without), or the system no epoll: then call HG_Event_progress every
 * millisecond. The context's.
 * Before each sleep on it, HG_Event_ready: true says that there is something to
 * do now. Then HG_Event_progress, which never waits and tells how much waits
 * for HG_Event_trigger (count_p may be NULL), and that, which runs it and
 * returns HG_SUCCESS whether or not there was any. */
HG_EXPORT int HG_Event_get_wait_fd(
    const hg_context_t *context) HG_WARN_UNUSED_RESULT;
HG_EXPORT bool HG_Event_ready(hg_context_t *context) HG_WARN_UNUSED_RESULT;
HG_EXPORT hg_return_t HG_Event_progress(
    hg_context_t *context, unsigned int *count_p);
HG_EXPORT hg_return_t HG_Event_trigger(hg_context_t *context,
    unsigned int max_count, unsigned int *actual_count_p);

/* HG_Forward of the callback model, and wait until the call is over: its
 * result. Makes progress, runs callbacks of the handle's context and, to a
 * depth of 16, calls; deeper, one that only this thread could execute ends with
 * its deadline, or never, and a line tells. HG_BUSY (logged): this thread makes
 * progress already; nothing was sent. */
HG_EXPORT hg_return_t HG_Forward_wait(hg_handle_t handle, void *in_struct);
