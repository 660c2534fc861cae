/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== RPC: the callback model =========================================== */
/**
 * @defgroup hg_callback RPC: the callback model
 *
 * Remote procedure calls for event loops and threads, with the names,
 * signatures and behaviour of Mercury 2.4. Programs written for Mercury 2.x
 * compile with HG_API_VERSION 2: see hg-from-mercury(7).
 *
 * A class is an endpoint. A context is a completion queue of a class. A handle
 * is one call. The application owns all of them, and can have several of each.
 * Every operation takes a callback. HG_Progress() moves data. HG_Trigger() runs
 * the callbacks of completed operations, and the functions registered for calls
 * that arrived.
 *
 * A function whose name ends with a digit has the plain name with
 * HG_API_VERSION 2: HG_Init() is then HG_Init2().
 *
 * **Callbacks.** If a function that starts an operation returns HG_SUCCESS, its
 * callback runs exactly once. If it returns another code, the callback does not
 * run. HG_Trigger() on the operation's context runs it, never the function that
 * started the operation. No lock of the library is held. A NULL callback is
 * allowed. The return value of a callback is ignored. A callback, or a function
 * that executes a call, may call every function, except HG_Context_destroy()
 * of its context and HG_Finalize2() of its class. The struct that it gets is
 * borrowed.
 *
 * **Lifetime.** Handles, addresses and bulk handles count references. An
 * operation holds references until its callback has run. The application can
 * drop its references as soon as it has started the operation.
 *
 * **Destroyed objects.** A function that gets a destroyed class or context
 * returns HG_INVALID_ARG and logs a line, unless a new object has the same
 * address. A destroyed handle gives HG_INVALID_ARG until the library uses it
 * for another call, or its context is destroyed. Later use is not detected. The
 * use of a freed address or bulk handle is not detected.
 *
 * **Errors.** NULL and other wrong arguments give HG_INVALID_ARG. Functions
 * that return no code give NULL, 0, false or -1. To free a NULL class, handle,
 * address, bulk handle or proc does nothing. Output arguments are set only on
 * success. The log has a line for each mistake of this process.
 *
 * **Fork.** In a child of fork() the objects of the parent cannot be used, nor
 * freed: functions return HG_FAULT (or NULL, 0, false, -1) at once. One line is
 * logged for each class. The sizes, flags and memory of bulk handles can be
 * read. The child can open new classes. See hg-threads(7).
 *
 * **Threads.** Any thread can call any function at any time. A function that
 * destroys an object is called when no other thread uses the object. Several
 * threads can progress and trigger one context. One of them makes progress at a
 * time. A callback runs on the thread that triggers.
 *
 * @source Mercury 2.4; the Mercury design report leaves this model open
 * @{
 */

/* ---- Types ---- */

/** The address of a peer, of HG_Addr_lookup2(). */
#if HG_API_VERSION == 2 && HG_API_STRICT
typedef struct hg_addr *hg_addr_t; /* Mercury's tag, which programs declare */
#else
typedef na_addr_t hg_addr_t;
#endif
/** An operation that can be canceled. */
typedef struct hg_op_id *hg_op_id_t;

/** No address. */
#define HG_ADDR_NULL HG_CAST(hg_addr_t, HG_NULLPTR)
/** No operation. */
#define HG_OP_ID_NULL HG_CAST(hg_op_id_t, HG_NULLPTR)
/** For an `op_id` argument: the id is not needed. */
#define HG_OP_ID_IGNORE HG_CAST(hg_op_id_t *, HG_NULLPTR)
/** The largest hg_size_t. */
#define HG_SIZE_MAX UINT64_MAX

/** The properties of a handle. */
struct hg_info {
    hg_class_t *hg_class;  /**< the class */
    hg_context_t *context; /**< the context */
    hg_addr_t addr;        /**< the peer: in the client the server, in the
                              server the caller; HG_Addr_dup() keeps it */
    hg_id_t id;            /**< the function */
    uint8_t context_id;    /**< the context at the peer */
};

/** The kinds of operations. */
typedef enum hg_cb_type {
    HG_CB_LOOKUP,  /**< HG_Addr_lookup1() */
    HG_CB_FORWARD, /**< HG_Forward2() */
    HG_CB_RESPOND, /**< HG_Respond() */
    HG_CB_BULK     /**< HG_Bulk_transfer2() and the like */
} hg_cb_type_t;

/** The two messages of a call. */
typedef enum {
    HG_UNDEF, /**< none */
    HG_INPUT, /**< the request */
    HG_OUTPUT /**< the response */
} hg_op_t;

/** The result of a lookup. */
struct hg_cb_info_lookup {
    hg_addr_t addr; /**< a reference, for HG_Addr_free() */
};

/** The result of a call. */
struct hg_cb_info_forward {
    hg_handle_t handle; /**< the handle that was forwarded */
};

/** The result of a response. */
struct hg_cb_info_respond {
    hg_handle_t handle; /**< the handle of the response */
};

/** The result of a bulk transfer. */
struct hg_cb_info_bulk {
    hg_bulk_t origin_handle; /**< as passed */
    hg_bulk_t local_handle;  /**< as passed */
    hg_bulk_op_t op;         /**< as passed */
    hg_size_t size;          /**< bytes of the transfer */
};

/** The argument of a callback. */
struct hg_cb_info {
    /** One member, selected by `type`. */
    union {
        struct hg_cb_info_lookup lookup;   /**< HG_CB_LOOKUP */
        struct hg_cb_info_forward forward; /**< HG_CB_FORWARD */
        struct hg_cb_info_respond respond; /**< HG_CB_RESPOND */
        struct hg_cb_info_bulk bulk;       /**< HG_CB_BULK */
    } info;
    void *arg;         /**< as passed to the function that started it */
    hg_cb_type_t type; /**< the kind of operation */
    hg_return_t ret;   /**< the result of the operation */
};

/**
 * Runs when an operation has completed: see HG_Trigger().
 *
 * It runs exactly once if the operation was started with HG_SUCCESS, and never
 * inside the function that starts the operation. It may call every function,
 * except HG_Context_destroy() of its context and HG_Finalize2() of its class.
 * See hg-threads(7).
 *
 * @param callback_info  the operation and its result, borrowed.
 * @return anything: the library ignores it.
 */
typedef hg_return_t (*hg_cb_t)(const struct hg_cb_info *callback_info);

/* ---- Options ---- */
/**
 * @defgroup hg_callback_options Options of a class
 *
 * struct hg_init_info has Mercury's options in Mercury's order. Some have no
 * effect. hg-from-mercury(7) says why, and which environment variables have an
 * effect.
 * @{
 */

/** Traffic classes of Mercury, without effect. */
enum na_traffic_class {
    NA_TC_UNSPEC = 0,           /**< no effect */
    NA_TC_BEST_EFFORT = 1,      /**< no effect */
    NA_TC_LOW_LATENCY = 2,      /**< no effect */
    NA_TC_BULK_DATA = 3,        /**< no effect */
    NA_TC_DEDICATED_ACCESS = 4, /**< no effect */
    NA_TC_SCAVENGER = 5,        /**< no effect */
    NA_TC_NETWORK_CTRL = 6      /**< no effect */
};

#define NA_THREAD_MODE_SINGLE_CLS 0x01 /**< thread_mode: no effect */
#define NA_THREAD_MODE_SINGLE_CTX 0x02 /**< thread_mode: no effect */
#define NA_THREAD_MODE_SINGLE 0x03     /**< thread_mode: no effect */

/** Options of the network layer, as Mercury 2.4 has them. */
struct na_init_info_4_0 {
    const char *ip_subnet;           /**< as in struct na_init_info */
    const char *auth_key;            /**< as in struct na_init_info */
    size_t max_unexpected_size;      /**< as in struct na_init_info */
    size_t max_expected_size;        /**< as in struct na_init_info */
    uint8_t progress_mode;           /**< as in struct na_init_info */
    enum na_addr_format addr_format; /**< as in struct na_init_info */
    /** Contexts of the class, beyond which HG_Context_create() returns NULL. 0
     * and 1, the value of the initializer, select the default; 256. */
    uint8_t max_contexts;
    uint8_t thread_mode;     /**< no effect */
    bool request_mem_device; /**< no effect */
};

/**
 * The checks that a class computes for the messages that it sends.
 *
 * A receiver checks what a message has, at every level, and accepts a message
 * without a CRC64. A call whose request or response changed on the way ends
 * with HG_CHECKSUM_ERROR. A call from a class to itself has no CRC64. Over sm
 * messages have one if the level asks for it.
 *
 * At the receiver the level decides what happens if a proc function decodes
 * only a part of the arguments: with HG_CHECKSUM_RPC_PAYLOAD decoding returns
 * HG_CHECKSUM_ERROR, else HG_SUCCESS.
 *
 * The request model has HG_CHECKSUM_RPC_PAYLOAD, but no CRC64 over sm without
 * the option checksum_always, or HG_CHECKSUM_NONE with the option no_checksum.
 */
typedef enum hg_checksum_level {
    HG_CHECKSUM_NONE,        /**< no CRC64 */
    HG_CHECKSUM_RPC_HEADERS, /**< a CRC64 of each message with its arguments */
    HG_CHECKSUM_RPC_PAYLOAD  /**< also of arguments too large for a message */
} hg_checksum_level_t;

/**
 * Options of a class.
 *
 * Start from HG_INIT_INFO_INITIALIZER. 0 and NULL select the default, which
 * each member names last. Strings are copied.
 */
struct hg_init_info {
    struct na_init_info_4_0 na_init_info; /**< of the network layer */
    /** Use this NA class, and ignore the address string; NULL. The NA class
     * stays the application's and must outlive the HG class. */
    na_class_t *na_class;
    /** The smallest limit of calls without a response. Default: 65,536. Past it
     * callers get HG_AGAIN. */
    uint32_t request_post_init;
    /** A negative value makes the default of request_post_init 4,096. */
    int32_t request_post_incr;
    /** Reach peers on the same node by sm://, if they have it too; 0. The
     * address string "URL;sm://" does the same. */
    uint8_t auto_sm;
    /** The name of the sm:// endpoint of auto_sm; NULL: peers find it by the
     * other address. */
    const char *sm_info_string;
    hg_checksum_level_t checksum_level; /**< the checks; HG_CHECKSUM_NONE */
    uint8_t no_bulk_eager;              /**< no effect */
    uint8_t no_loopback;                /**< no effect */
    /** Log the counters of the class when it is closed, at any level; 0. */
    uint8_t stats;
    uint8_t no_multi_recv; /**< no effect */
    /** HG_Get_input() releases the message, as HG_Release_input_buf(); 0. */
    uint8_t release_input_early;
    enum na_traffic_class traffic_class; /**< no effect */
    /** Arguments that do not fit a message give HG_OVERFLOW; false. */
    bool no_overflow;
    unsigned int multi_recv_op_max;         /**< no effect */
    unsigned int multi_recv_copy_threshold; /**< no effect */

    /* Members of hg. HG_Init_opt2() reads them, HG_Init_opt() does not. */

    bool no_builtins;   /**< do not serve HG_BUILTIN_PING and the like; false */
    bool histograms;    /**< count how long calls take, for HG_Get_histogram();
                           false */
    bool bulk_checksum; /**< a CRC64 in each message of bulk data; false */
};

/** The default network options, as a value. */
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
/** The default options, as a value: it can also be assigned. */
#define HG_INIT_INFO_INITIALIZER \
    ((struct hg_init_info){ \
        {HG_NULLPTR, HG_NULLPTR, 0, 0, 0, NA_ADDR_UNSPEC, 1, 0, false}, \
        HG_NULLPTR, 0, 0, 0, HG_NULLPTR, HG_CHECKSUM_NONE, 0, 0, 0, 0, 0, \
        NA_TC_UNSPEC, false, 0, 0, false, false, false})
#endif

/** @} */

/* ---- Transports ---- */
/**
 * @defgroup hg_callback_transports Transports of the library
 *
 * A program can list the protocols that it can use on this node. See
 * hg-transports(7).
 * @{
 */

/** A protocol that the library supports. */
struct na_protocol_info {
    struct na_protocol_info *next; /**< the next entry; NULL: the last one */
    char *class_name;    /**< as HG_Class_get_name() gives it: "na", "zmq" */
    char *protocol_name; /**< "sm", "tcp" */
    char *device_name;   /**< "shm" for sm; over libfabric an interface or a
                            device; else "any" */
};

/**
 * List the protocols that work on this node.
 *
 * The order is that in which an address string without a transport finds them.
 * The name of a transport alone ("zmq", "na") selects none, as in Mercury.
 *
 * @param info_string              a protocol to select: "tcp", "zmq+tcp"; NULL
 *                                 selects all.
 * @param[out] na_protocol_info_p  the list, for HG_Free_na_protocol_info();
 *                                 NULL if it is empty.
 * @retval HG_SUCCESS      `na_protocol_info_p` is set.
 * @retval HG_INVALID_ARG  `info_string` is malformed, or `na_protocol_info_p`
 *                         is NULL.
 * @retval HG_NOMEM        out of memory.
 */
HG_EXPORT hg_return_t HG_Get_na_protocol_info(
    const char *info_string, struct na_protocol_info **na_protocol_info_p);

/**
 * Free a list of HG_Get_na_protocol_info(), with its strings.
 *
 * @param na_protocol_info  the list; NULL does nothing.
 */
HG_EXPORT void HG_Free_na_protocol_info(
    struct na_protocol_info *na_protocol_info);

/**
 * Do nothing. Mercury removes files of processes that crashed.
 *
 * Over sm:// a process that crashed leaves no files. The next listener replaces
 * a socket file of zmq+ipc://. Files of ofi+shm:// in /dev/shm stay: see
 * hg-cluster(7).
 */
HG_EXPORT void HG_Cleanup(void);

/** @} */

/* ---- Logging as Mercury has it ---- */
/**
 * @defgroup hg_callback_log Logging, codes and versions, as Mercury has them
 *
 * With HG_API_VERSION 2 these functions have the plain names. They change the
 * same log as HG_Set_log_func() and the others of version 1. The last call
 * counts.
 * @{
 */

/**
 * Set the log level, as HG_Set_log_level() does.
 *
 * With HG_API_VERSION 2 the name is HG_Set_log_level.
 *
 * @param level  "none", "error", "warning", "info" or "debug"; NULL is "none".
 */
HG_EXPORT void HG_Set_log_level2(const char *level);

/**
 * Select the subsystems that log, as HG_Set_log_subsys() does.
 *
 * With HG_API_VERSION 2 the name is HG_Set_log_subsys.
 *
 * @param subsys  the list of subsystems; NULL or "" selects all.
 */
HG_EXPORT void HG_Set_log_subsys2(const char *subsys);

/**
 * Pass log lines to a function instead of stderr.
 *
 * The library calls it as fprintf(), with a newline at the end. With
 * HG_API_VERSION 2 the name is HG_Set_log_func.
 *
 * @param log_func  the function; NULL restores the default. It may run on any
 *                  thread, during any call, under locks of the library, and
 *                  must not call the library.
 */
HG_EXPORT void HG_Set_log_func2(
    int (*log_func)(FILE *stream, const char *format, ...));

/**
 * Set the stream for the lines of one level.
 *
 * @param level   "error", "warning" or "debug"; "info" lines go with "debug".
 * @param stream  borrowed for as long as the library logs; NULL: stderr.
 */
HG_EXPORT void HG_Set_log_stream(const char *level, FILE *stream);

/**
 * Get the name of a code: "HG_TIMEOUT".
 *
 * With HG_API_VERSION 2 the name is HG_Error_to_string.
 *
 * @param errnum  the code.
 * @return the name that Mercury gives it; "HG_DISCONNECT" for 23; NULL for a
 *         number that is no code.
 */
HG_EXPORT const char *HG_Error_to_string2(
    hg_return_t errnum) HG_WARN_UNUSED_RESULT;

/**
 * Get the release of Mercury whose interface this is: 2.4.1.
 *
 * With HG_API_VERSION 2 the name is HG_Version_get. The version of this library
 * is HG_Version_get() of HG_API_VERSION 1.
 *
 * @param[out] major_p  2; NULL is allowed.
 * @param[out] minor_p  4; NULL is allowed.
 * @param[out] patch_p  1; NULL is allowed.
 * @retval HG_SUCCESS  always.
 */
HG_EXPORT hg_return_t HG_Version_get2(
    unsigned int *major_p, unsigned int *minor_p, unsigned int *patch_p);

/** @} */

/* ---- Classes ---- */
/**
 * @defgroup hg_callback_class Classes
 *
 * A class is an endpoint: an address, and the functions registered with it. A
 * server opens it to listen. Contexts, addresses, handles and bulk handles
 * belong to a class, and are not used with another one.
 * @{
 */

/**
 * Open a class.
 *
 * With HG_API_VERSION 2 the name is HG_Init.
 *
 * @param na_info_string  the address string, as for NA_Initialize().
 * @param na_listen       true for a server, false for a client.
 * @return the class, for HG_Finalize2(); NULL on failure (the log has the
 *         cause).
 * @lifetime Until HG_Finalize2(), which needs all contexts, addresses and bulk
 * handles of the class to be freed.
 */
HG_EXPORT hg_class_t *HG_Init2(
    const char *na_info_string, uint8_t na_listen) HG_WARN_UNUSED_RESULT;

/**
 * Open a class with the options of programs before Mercury 2.3.
 *
 * @param na_info_string  the address string, as for NA_Initialize().
 * @param na_listen       true for a server, false for a client.
 * @param hg_init_info    the options: members up to `stats` are read; NULL: the
 *                        defaults.
 * @return the class, for HG_Finalize2(); NULL on failure (the log has the
 *         cause).
 */
HG_EXPORT hg_class_t *HG_Init_opt(const char *na_info_string, uint8_t na_listen,
    const struct hg_init_info *hg_init_info) HG_WARN_UNUSED_RESULT;

/**
 * Open a class with options.
 *
 * The version selects the members that are read: up to `stats` before 2.3, up
 * to `release_input_early` before 2.4, up to `bulk_checksum` from 2.4 on. The
 * members of a version never change. A program works with a later library that
 * has more options.
 *
 * @param na_info_string  the address string, as for NA_Initialize().
 * @param na_listen       true for a server, false for a client.
 * @param version         the version of Mercury of the options:
 *                        HG_VERSION(major, minor).
 * @param hg_init_info    the options; NULL: the defaults, with any version.
 * @return the class, for HG_Finalize2(); NULL on failure (the log has the
 *         cause): also if the version is 0 or later than this header's, or
 *         `bulk_checksum` is set and the transport moves bulk data itself (see
 *         HG_Bulk_transfer1()).
 */
HG_EXPORT hg_class_t *HG_Init_opt2(const char *na_info_string,
    uint8_t na_listen, unsigned int version,
    const struct hg_init_info *hg_init_info) HG_WARN_UNUSED_RESULT;

/**
 * Close a class.
 *
 * It frees the registered functions and the data that was set. A process can
 * close and open classes as often as it likes. With HG_API_VERSION 2 the name
 * is HG_Finalize.
 *
 * @param hg_class  the class; NULL does nothing.
 * @retval HG_SUCCESS      the class is closed.
 * @retval HG_BUSY         the class has a context, an address, or a bulk handle
 *                         left: nothing has changed, and the log has the first.
 * @retval HG_INVALID_ARG  no such class is open.
 * @retval HG_FAULT        the class belongs to the parent process.
 * @threads No other thread uses the class meanwhile or afterwards.
 */
HG_EXPORT hg_return_t HG_Finalize2(hg_class_t *hg_class);

#if !HG_API_STRICT
/**
 * Set the limits and options of a class.
 *
 * They replace those of HG_Init_opt2(). Start from HG_Class_get_options(). Its
 * `no_checksum` is true unless checksum_level is HG_CHECKSUM_RPC_PAYLOAD, its
 * `checksum_always` unless that is HG_CHECKSUM_NONE. 0 selects the default: 128
 * MiB for max_in_flight_bytes, and request_post_init for max_unanswered.
 * Histograms count only functions that are registered later.
 *
 * HG_API_STRICT hides this function, HG_Class_get_options() and the struct: a
 * program that includes mercury.h calls them in a source file that includes
 * only hg.h.
 *
 * @param hg_class  the class; it has no context yet.
 * @param options   the options, copied.
 * @retval HG_SUCCESS       the options are set.
 * @retval HG_BUSY          the class has a context.
 * @retval HG_INVALID_ARG   an argument is NULL, or options->size is
 *                          not sizeof(struct hg_options).
 * @retval HG_OPNOTSUPPORT  bulk_checksum is set, and the transport moves bulk
 *                          data itself.
 */
HG_EXPORT hg_return_t HG_Class_set_options(
    hg_class_t *hg_class, const struct hg_options *options);

/**
 * Get the options of a class, with the defaults filled in.
 *
 * @param hg_class         the class.
 * @param[in,out] options  the caller sets options->size to sizeof(*options).
 * @retval HG_SUCCESS      `options` is set.
 * @retval HG_INVALID_ARG  an argument is NULL, or options->size is
 *                         not sizeof(struct hg_options).
 */
HG_EXPORT hg_return_t HG_Class_get_options(
    const hg_class_t *hg_class, struct hg_options *options);
#endif

/**
 * Get the name of the transport: "na", "zmq", "ofi", "mpi", "self".
 *
 * The transport of the protocol sm is "na", as in Mercury.
 *
 * @param hg_class  the class.
 * @return the name, owned by the class; NULL if the class is NULL or closed.
 */
HG_EXPORT const char *HG_Class_get_name(
    const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Get the name of the protocol: "sm", "tcp" and others.
 *
 * @param hg_class  the class.
 * @return the name, owned by the class; NULL if the class is NULL or closed.
 */
HG_EXPORT const char *HG_Class_get_protocol(
    const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Test whether peers can look the class up.
 *
 * @param hg_class  the class.
 * @return true if it was opened to listen.
 */
HG_EXPORT bool HG_Class_is_listening(
    const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Get the largest encoded input that travels in one message.
 *
 * The library moves a larger input by a bulk transfer.
 *
 * @param hg_class  the class.
 * @return bytes.
 */
HG_EXPORT hg_size_t HG_Class_get_input_eager_size(
    const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Get the largest encoded output that travels in one message.
 *
 * The library moves a larger output by a bulk transfer.
 *
 * @param hg_class  the class.
 * @return bytes.
 */
HG_EXPORT hg_size_t HG_Class_get_output_eager_size(
    const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Reserve bytes in front of every encoded input.
 *
 * The application writes and reads a header there, through HG_Get_input_buf().
 * The bytes are zero if it does not write them. Both sides set the same number.
 *
 * @param hg_class  the class; it has no call in flight.
 * @param offset    bytes, at most the eager size.
 * @retval HG_SUCCESS      the offset is set.
 * @retval HG_INVALID_ARG  the offset is larger than the eager size, or the
 *                         class is NULL or closed.
 */
HG_EXPORT hg_return_t HG_Class_set_input_offset(
    hg_class_t *hg_class, hg_size_t offset);

/**
 * Reserve bytes in front of every encoded output.
 *
 * The application writes and reads a header there, through HG_Get_output_buf().
 * The bytes are zero if it does not write them. Both sides set the same number.
 *
 * @param hg_class  the class; it has no call in flight.
 * @param offset    bytes, at most the eager size.
 * @retval HG_SUCCESS      the offset is set.
 * @retval HG_INVALID_ARG  the offset is larger than the eager size, or the
 *                         class is NULL or closed.
 */
HG_EXPORT hg_return_t HG_Class_set_output_offset(
    hg_class_t *hg_class, hg_size_t offset);

/**
 * Attach data of the application to a class.
 *
 * @param hg_class       the class.
 * @param data           the data; it replaces earlier data, which is not freed.
 * @param free_callback  HG_Finalize2() calls it with the data; NULL is allowed.
 * @retval HG_SUCCESS      the data is set.
 * @retval HG_INVALID_ARG  the class is NULL or closed.
 */
HG_EXPORT hg_return_t HG_Class_set_data(
    hg_class_t *hg_class, void *data, void (*free_callback)(void *));

/**
 * Get the data of HG_Class_set_data().
 *
 * @param hg_class  the class.
 * @return the data; NULL if none was set.
 */
HG_EXPORT void *HG_Class_get_data(
    const hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/** Counters of a class. */
struct hg_diag_counters {
    uint64_t rpc_req_sent_count;        /**< requests sent */
    uint64_t rpc_req_recv_count;        /**< requests received */
    uint64_t rpc_resp_sent_count;       /**< responses sent */
    uint64_t rpc_resp_recv_count;       /**< responses received */
    uint64_t rpc_req_extra_count;       /**< inputs too large for a message */
    uint64_t rpc_resp_extra_count;      /**< outputs too large for a message */
    uint64_t rpc_req_recv_active_count; /**< calls now here, without response */
    uint64_t rpc_multi_recv_copy_count; /**< always 0 */
    uint64_t bulk_count;                /**< bulk transfers that ended */
};

/**
 * Get the counters of a class.
 *
 * @param hg_class            the class.
 * @param[out] diag_counters  the counters.
 * @retval HG_SUCCESS      `diag_counters` is set.
 * @retval HG_INVALID_ARG  an argument is NULL.
 */
HG_EXPORT hg_return_t HG_Class_get_counters(
    const hg_class_t *hg_class, struct hg_diag_counters *diag_counters);

/** Log the counters of all classes, at the level info. */
HG_EXPORT void HG_Diag_dump_counters(void);

/**
 * Set a function that is called with each new handle.
 *
 * HG_Create() and the arrival of a call make a handle. The function is called
 * before the handle is used. If it returns another code than HG_SUCCESS,
 * HG_Create() returns that code, and a call that arrived ends with it.
 *
 * @param hg_class  the class.
 * @param callback  the function; NULL: none.
 * @param arg       passed to it.
 * @retval HG_SUCCESS      the function is set.
 * @retval HG_INVALID_ARG  the class is NULL or closed.
 */
HG_EXPORT hg_return_t HG_Class_set_handle_create_callback(hg_class_t *hg_class,
    hg_return_t (*callback)(hg_handle_t, void *), void *arg);

/** @} */

/** @} */
