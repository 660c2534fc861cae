/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== A transport ======================================================= */
#if defined(HG_NA_PLUGIN_API)
/**
 * @defgroup hg_plugin Writing a transport
 *
 * Visible with HG_NA_PLUGIN_API defined above the include. gen/transport.md
 * explains how to write a transport, with an example.
 *
 * A transport is one constant struct na_plugin: sizes, capabilities and slots,
 * which are functions. The core of NA owns every object, with the transport's
 * part inside it. For its own part of an address, for example, a transport
 * declares a struct whose first member is a struct na_addr, and puts its size
 * into the table. No memory is allocated for an operation. The core keeps its
 * own part (reference counts, states, queues) in front of the object.
 *
 * The core checks arguments before it calls a slot: messages fit the maximum,
 * addresses are alive and of this class. Parts of objects are zeroed when they
 * are created, the part of an operation when it is allocated first.
 *
 * Rules for every slot, unless its contract says otherwise:
 *
 * - It does not block, and is called from any thread.
 * - The lock of the class is held, except around open, close, context_create,
 *   context_destroy, list_devices, mem_deregister, mem_serialize_size,
 *   mem_serialize, mem_deserialize, mem_alloc, mem_map, mem_end_local and
 *   reclaim. It may be held around addr_release, addr_cmp, addr_identity and
 *   mem_release. A transport that is entered without it guards its own state
 *   with its own lock, which it takes after that one.
 * - It logs the cause of an error that it detects, and returns the code.
 * - A slot that starts an operation either returns an error and never completes
 *   it, or returns NA_SUCCESS and completes it exactly once with
 *   core->complete, perhaps before the slot returns.
 * - A slot that is NULL gets a default, which its contract names, or else
 *   returns NA_OPNOTSUPPORT.
 * - Functions of the core need the lock of the class, which is not recursive:
 *   they are called inside a slot that has it, mostly in `poll`, or between
 *   core->enter and core->leave. These may be called by any thread, with the
 *   lock or without: addr_create, addr_set_name, addr_ref, addr_try_ref,
 *   addr_unref, addr_is_dead, frame_unplace, op_id, wake, count, log, alloc,
 *   realloc, free, now_ns, random.
 * - Functions of the core are called without a lock that a slot takes: the core
 *   may call any slot from inside them.
 *
 * Required slots: `open`, `close`, `msg_send`, `poll`, `addr_resolve`.
 *
 * Modelled on the requirements of the Nemesis Network Module API.
 * @{
 */

/** The version of this interface. */
#define NA_PLUGIN_ABI 1u

struct na_core;

/** A link of an intrusive ring; it points at itself while it is on no list. */
struct na_link {
    struct na_link *prev;
    struct na_link *next;
};

/** An entry of a context's completion queue. */
struct na_completion {
    struct na_completion *next;
    /** Run it. The lock of the class is held before and after; it is released
     * around code of the application. */
    void (*run)(struct na_completion *completion);
};

/** An endpoint. The transport sets the members marked (open) in `open`. */
struct na_class {
    const struct na_core *core;
    struct na_init_info *info; /**< with defaults; (open): wait_mode */
    const char *protocol;      /**< "tcp", without the plugin's name */
    na_bool_t listen;
    na_size_t max_unexpected_size; /**< (open) */
    na_size_t max_expected_size;   /**< (open) */
    na_tag_t max_tag;              /**< (open) 2^k - 1 */
    struct na_addr *self_addr;     /**< (open) of core->addr_create */
    uint64_t incarnation;          /**< random; tells apart two processes that
                                        had one address in turn */
    na_bool_t finds_callers; /**< (open) `addr_resolve` also reaches a class
                                  that does not listen, by its own address,
                                  after its `addr_expose` */
};

/** A context. */
struct na_context {
    struct na_class *na_class;
    uint8_t id;       /**< of the context in its class; 0 is the first */
    na_bool_t helper; /**< it serves one lookup, or the progress thread, and
                           may share what another context has */
};

/** A peer. */
struct na_addr {
    struct na_class *na_class;
    const char *name; /**< its address string; NULL while unknown */
    na_bool_t self;   /**< it is the class itself */
    /** The class does not listen, and has not looked up this peer: its calls
     * are refused, and its other messages are dropped. The transport sets it
     * for a peer that connected, before its first message arrives. The core
     * sets it for a peer whose name came only from other peers. */
    na_bool_t stranger;
};

/** A memory handle, of local or of remote memory. */
struct na_mem_handle {
    struct na_class *na_class;
    struct na_segment *segments; /**< NULL for remote memory */
    na_size_t segment_count;
    na_size_t size; /**< of all segments */
    unsigned long flags;
    na_bool_t remote;
    uint64_t key; /**< for the transport: how peers name the memory */
};

/** Memory of the library's own that a transport allocated. */
struct na_mem_block {
    void *memory;
    na_size_t size;
    void *owner; /**< for the transport */
    /** Free the block, from any thread, perhaps after the class was closed. */
    void (*release)(struct na_mem_block *block);
};

/** Three independent planes of messages. */
enum na_msg_plane {
    NA_MSG_UNEXPECTED = 0, /**< NA_Msg_send_unexpected() */
    NA_MSG_EXPECTED = 1,   /**< NA_Msg_send_expected() */
    NA_MSG_RPC = 2,        /**< the RPC engine, which finds its own receiver */
    NA_MSG_PLANE_MAX = 3
};

/** A message to send: the concatenation of its segments. */
struct na_msg {
    struct na_addr *addr;
    const struct na_segment *segments;
    na_size_t segment_count;
    na_size_t size;
    na_tag_t tag;
    uint8_t plane;
    uint8_t target; /**< context id at the destination */
};

/** An operation in flight. */
struct na_op {
    struct na_link link; /**< for the transport; on no list at the start */
    struct na_context *context;
    na_cb_type_t type;
    struct na_addr *addr; /**< destination, source or peer; a reference */
    const char *name;     /**< lookup */
    na_bool_t quiet;      /**< lookup: it is tried again, so that the line
                               about its failure has the level `info` */
    struct na_msg msg;    /**< send; its segments live as long as the op */
    void *buf;            /**< receive */
    na_size_t buf_size;
    struct na_mem_handle *local; /**< put, get */
    struct na_mem_handle *remote;
    na_offset_t local_offset;
    na_offset_t remote_offset;
    na_size_t size;
    /* Results, set before completing with NA_SUCCESS. */
    struct na_addr *result_addr; /**< lookup: a reference, handed over */
    na_size_t result_size;       /**< receive */
    na_tag_t result_tag;         /**< receive */
};

/** Capabilities of a transport. */
enum na_plugin_caps {
    NA_CAP_ORDERED = 0x01,      /**< messages, puts and gets to one peer take
                                   effect in the order they were started */
    NA_CAP_HOLDS_BACK = 0x02,   /**< obeys NA_AGAIN of core->msg_arrived */
    NA_CAP_HANDS_OVER = 0x10,   /**< moves memory itself, and hands operations
                                   over to the emulation where it cannot; only
                                   for transports inside hg.c */
    NA_CAP_AUTH_KEY = 0x20,     /**< auth_key decides who may connect. A class
                                   is not opened with an option that its
                                   transport has no bit for */
    NA_CAP_CURVE = 0x40,        /**< curve_... decide that, and encrypt */
    NA_CAP_FRAMES_FIRST = 0x80, /**< a message that is sent after a frame is
                                     delivered after it */
    NA_CAP_IN_MEMORY = 0x100    /**< bytes are copied within the memory of this
                                     host, where they cannot be damaged: calls
                                     need no checksum */
};

/** Values of `poll_fd` that are no descriptor. */
enum {
    NA_POLL_FD_NONE = -1, /**< none: the core polls every millisecond */
    NA_POLL_FD_IDLE = -2  /**< poll only after core->wake */
};

/**
 * A transport.
 *
 * Required are `open`, `close`, `addr_resolve`, `msg_send` and `poll`.
 * NA_Register_plugin() registers the table. See hg-plugin(3) for the rules of
 * all functions.
 */
struct na_plugin {
    uint32_t abi;                 /**< NA_PLUGIN_ABI */
    uint32_t size;                /**< sizeof(struct na_plugin) */
    const char *name;             /**< "zmq" */
    const char *const *protocols; /**< "tcp", "ipc", ..., NULL */
    uint64_t caps;                /**< bits of enum na_plugin_caps */
    /* Sizes of the transport's objects, which begin with the public struct. 0:
     * the transport adds nothing to it. */
    size_t class_size;   /**< of its struct that begins with struct na_class */
    size_t context_size; /**< of that with struct na_context */
    size_t addr_size;    /**< of that with struct na_addr */
    size_t op_size;      /**< of that with struct na_op */
    size_t mem_size;     /**< of that with struct na_mem_handle */

    /* ---- Classes and contexts ---- */

    /** Open the endpoint. Required. `host` is the part of the address string
     * behind "://", or "". May block for `lookup_ms`, to resolve a name. */
    na_return_t (*open)(struct na_class *na_class, const char *host);
    /** Close the endpoint. Required. No context and no registered memory is
     * left. Accepted sends get `linger_ms` to leave; the slot blocks for that
     * long at most. It completes nothing. Only `addr_release` is called
     * later. */
    void (*close)(struct na_class *na_class, unsigned linger_ms);
    /** Set up the transport's part of a context. */
    na_return_t (*context_create)(struct na_context *context);
    /** Undo `context_create`. */
    void (*context_destroy)(struct na_context *context);

    /* ---- Addresses ---- */

    /** Start the lookup of op->name: connect to the peer. The name is a whole
     * address string with a protocol of the transport. NA_INVALID_ARG: the name
     * is malformed. Default: `addr_resolve`, which completes at once. */
    na_return_t (*addr_lookup)(struct na_op *op);
    /** Release the transport's part of an address: its last reference is gone.
     * Also called for what is left when the class is closed. */
    void (*addr_release)(struct na_addr *addr);
    /** Return whether connections prove that both addresses are of one peer.
     * False while a peer is unknown, even for an address and itself. Receives
     * are matched by it; NA_Addr_cmp() compares the names of unknown peers.
     * Default: the names are equal, and neither peer is dead. */
    na_bool_t (*addr_cmp)(
        const struct na_addr *addr1, const struct na_addr *addr2);
    /** Start to close the connection of op->addr. */
    na_return_t (*addr_terminate)(struct na_op *op);

    /* ---- Messages ---- */

    /** Send a message. Required. With `op` NULL: copy and send it if that is
     * possible at once, else return NA_AGAIN. With `op`: start to send it, in
     * order; its payload stays valid until completion. Errors: NA_DISCONNECT,
     * NA_HOSTUNREACH, NA_NOMEM. */
    na_return_t (*msg_send)(
        struct na_context *context, const struct na_msg *msg, struct na_op *op);
    /** Send a frame of emulated RMA.
     *
     * `header` is copied. `data`, which may be empty, is borrowed until
     * `release` is called: exactly once, from any thread, also inside a slot
     * and with locks of the transport held; never after an error. The release
     * must not depend on a later poll: deregistration waits for it, and calls
     * `reclaim`.
     *
     * Frames between two addresses keep their order and are delivered one at a
     * time. Results come from the address object that was asked. NA_AGAIN: not
     * now; progress tries again after 2 ms, or earlier if the transport calls
     * core->wake. If this slot, `put` and `get` are all NULL, only memory of
     * the class itself can be reached. */
    na_return_t (*frame_send)(struct na_addr *addr, const void *header,
        size_t header_size, const void *data, size_t size,
        void (*release)(void *arg), void *arg);

    /* ---- Memory: given together with put and get, else emulated ---- */

    /** Let peers reach the memory. */
    na_return_t (*mem_register)(struct na_mem_handle *mem);
    /** End their access. Blocks until no peer's operation touches it. */
    void (*mem_deregister)(struct na_mem_handle *mem);
    /** Return the bytes of a serialized handle. */
    na_size_t (*mem_serialize_size)(const struct na_mem_handle *mem);
    /** Write a handle as bytes. */
    void (*mem_serialize)(const struct na_mem_handle *mem, void *buf);
    /** Fill a remote handle. NA_PROTOCOL_ERROR: the bytes are malformed. */
    na_return_t (*mem_deserialize)(
        struct na_mem_handle *mem, const void *buf, na_size_t buf_size);
    /** The most segments of a handle; more give HG_OPNOTSUPPORT. 0: any. */
    na_size_t max_segments;

    /* ---- Remote memory: both, or emulated over frames ---- */

    na_return_t (*put)(struct na_op *op); /**< start a put */
    na_return_t (*get)(struct na_op *op); /**< start a get */

    /* ---- Progress ---- */

    /** Do what can be done now, and return how many things were done. Required.
     * One thread of the class at a time calls it. */
    unsigned (*poll)(struct na_context *context);
    /** Return a descriptor that is readable when `poll` has work, or a
     * NA_POLL_FD_... Default: NA_POLL_FD_NONE. */
    int (*poll_fd)(struct na_context *context);
    /** Prepare to sleep on the descriptor. NA_FALSE: there is work now. From
     * here until `wait_end` the descriptor must report work. Called before each
     * sleep, so perhaps again before `wait_end`. Default: NA_TRUE. */
    na_bool_t (*wait_begin)(struct na_context *context);
    /** The sleep is over. */
    void (*wait_end)(struct na_context *context);
    /** Cancel a started operation. NA_SUCCESS: the slot completes it with
     * NA_CANCELED, now or later. NA_NOENTRY: it cannot be canceled. The
     * operation may have ended: compare `op_id` with core->op_id. */
    na_return_t (*cancel)(struct na_op *op, uint64_t op_id);
    /** Release the borrowed frames of dead peers. A thread that waits for them
     * calls it now and then, whether or not `poll` runs. It completes and
     * delivers nothing. Default: nothing. */
    void (*reclaim)(struct na_class *na_class);
    /** The most bytes of data that `frame_send` takes; 0: any number. */
    na_size_t max_frame_size;

    /* ---- Memory of the library's own ---- */

    /** Allocate zeroed memory that peers reach faster than other memory, for a
     * handle with `flags`: block->size bytes. NA_NOMEM, not logged: the core
     * takes ordinary memory. Default: it always does. */
    na_return_t (*mem_alloc)(struct na_class *na_class, unsigned long flags,
        struct na_mem_block *block);

    /* ---- Required with NA_CAP_HANDS_OVER, else not called ---- */

    /** First half of `mem_deregister`: no new operation touches the memory,
     * except those that were handed over. True: some are under way; call it
     * again. It does not wait. */
    na_bool_t (*mem_retract)(struct na_mem_handle *mem);
    /** The local memory of puts and gets is about to be freed, and no thread
     * starts one. They complete with NA_CANCELED, or with the result they have.
     * Nothing touches the memory after the return, except what was handed
     * over. */
    void (*mem_end_local)(const struct na_mem_handle *mem);

    /* ---- More slots, all optional ---- */

    /** Do a put or get (op->type) at once, in this thread.
     *
     * `op` only describes it: it has no part of the transport, and must not be
     * completed or kept. NA_AGAIN: it cannot be done at once, or only a part
     * was done; the core starts it again from the beginning. Other codes are
     * its result. The lock of the class is released during a large copy. It
     * never waits for a peer, and takes no
     * longer than a copy of some 256 KiB. Default: NA_AGAIN. */
    na_return_t (*rma_now)(const struct na_op *op);
    /** Return the identity of the peer that the transport has proved, such as
     * "uid:1000" or the name of its key; "" if nothing was proved. Asked of
     * addresses that messages come from. The string must not change, and must
     * live as long as the address. Default: "". */
    const char *(*addr_identity)(const struct na_addr *addr);
    /** End the connection of a peer as if it had died, soon: the core gives the
     * peer up, although it may be alive. A later lookup makes a new connection.
     * A connection that is being made is left alone. Default: core->addr_dead
     * with NA_DISCONNECT. */
    void (*addr_abandon)(struct na_addr *addr);
    /** Release the transport's part of a memory handle, local or remote, which
     * is deregistered. Default: nothing. */
    void (*mem_release)(struct na_mem_handle *mem);
    /** Find the address of a peer by its address string, without connecting.
     * Required. The caller gets a reference. The first use of the address
     * connects. Two calls with one name give one address, while it has
     * references and is alive. `from_peer`: the name came from a peer; then a
     * host name is malformed, since a peer must not cause queries to name
     * servers, and log lines are warnings. Codes: as `addr_lookup`. */
    na_return_t (*addr_resolve)(struct na_class *na_class, const char *name,
        na_bool_t from_peer, struct na_addr **addr_p);
    /** Call `found` with each device, such as an interface, on which a protocol
     * works here. Any thread, without a class. Default: one device, "any". */
    void (*list_devices)(const char *protocol,
        void (*found)(void *arg, const char *device), void *arg);
    /** Start to connect an address, if it is idle: a receive waits for its
     * messages, and `addr_cmp` does not know its peer. Return whether it is
     * being connected. If that fails and nothing else waits for it, the line in
     * the log is a warning, since the peer may start later. Default:
     * NA_FALSE. */
    na_bool_t (*addr_connect)(struct na_addr *addr);
    /** Let every peer reach the class, which does not listen, by its own
     * address, to move its bulk data: the address is about to be passed on.
     * Peers that connect from now on are strangers. May be called again. Only
     * with `finds_callers`. Errors, logged: NA_AGAIN, NA_ADDRINUSE. Default:
     * nothing needs to be done. */
    na_return_t (*addr_expose)(struct na_class *na_class);
    /** Map memory of a peer: from the start of a segment of the handle to the
     * end of the memory. block->memory is the pointer; block->release unmaps
     * it. The mapping lives on when the memory is deregistered, and when the
     * peer or the connection ends; accesses to it never fault. `owner` NULL:
     * find a connection to the owner by the handle. NA_OPNOTSUPPORT, not
     * logged: this memory cannot be mapped. NA_AGAIN, not logged: the owner is
     * not connected. Errors, logged: NA_NOENTRY, NA_PERMISSION, NA_OVERFLOW, as
     * of a put; NA_NOMEM. Default: NA_OPNOTSUPPORT. */
    na_return_t (*mem_map)(struct na_mem_handle *mem, struct na_addr *owner,
        na_size_t segment, struct na_mem_block *block);
};

/** What the core offers to a transport: na_class->core. */
struct na_core {
    uint32_t size; /**< sizeof(struct na_core) */
    /** Complete an operation. It must not be touched afterwards. */
    void (*complete)(struct na_op *op, na_return_t ret);
    /** Return the identifier of an operation, a new one for each use. */
    uint64_t (*op_id)(const struct na_op *op);
    /** Deliver a message. The data is borrowed. It may lie in memory that its
     * sender can still write: the core copies it once and reads the copy.
     * NA_AGAIN, only with NA_CAP_HOLDS_BACK: there is no space or no memory in
     * the queue: keep the message, and offer it again in each poll. NA_SUCCESS:
     * it was delivered, queued, or dropped and counted. */
    na_return_t (*msg_arrived)(struct na_class *na_class,
        struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
        const void *data, na_size_t size);
    /** Deliver a frame of emulated RMA, which is borrowed. A malformed one is
     * counted. */
    void (*frame_arrived)(struct na_class *na_class, struct na_addr *source,
        const void *header, size_t header_size, const void *data, size_t size);
    /** Create an address with one reference. `name` is copied; NULL: unknown
     * yet. NULL: out of memory (logged). */
    struct na_addr *(*addr_create)(
        struct na_class *na_class, const char *name, na_bool_t self);
    /** Set the name of an address, which had none. Copied. */
    na_return_t (*addr_set_name)(struct na_addr *addr, const char *name);
    void (*addr_ref)(struct na_addr *addr);   /**< add a reference */
    void (*addr_unref)(struct na_addr *addr); /**< drop a reference */
    /** The peer is gone. Operations that wait for it fail with `ret`
     * (NA_DISCONNECT, NA_HOSTUNREACH), and new operations are refused. The
     * transport completes the sends that it holds. Only the first call has an
     * effect. */
    void (*addr_dead)(struct na_addr *addr, na_return_t ret);
    /** Return whether `addr_dead` was called. */
    na_bool_t (*addr_is_dead)(const struct na_addr *addr);
    /** Wake every context of the class that sleeps. */
    void (*wake)(struct na_class *na_class);
    void *(*alloc)(size_t size);              /**< as malloc */
    void *(*realloc)(void *ptr, size_t size); /**< as realloc */
    void (*free)(void *ptr);                  /**< as free */
    /** Write one line to the log. `level` is one of HG_LOG_LEVEL_... Lines that
     * a peer causes are warnings, and are counted with `count`. `format` is a
     * string constant: each writes its 1st, 2nd, 4th, 8th ... line, with the
     * count; as an error also its first 64. */
    void (*log)(int level, const char *subsys, const char *format, ...);
    uint64_t (*now_ns)(void); /**< monotonic time in nanoseconds */
    /** 64 random bits, not 0. 0, logged: the system refuses them. A function
     * that needs a number nobody can guess then fails. */
    uint64_t (*random)(void);
    /** Add to a counter of the class, which NA_Get_counter() reads. `name` is a
     * string constant. A class has 64 names; more are ignored. */
    void (*count)(struct na_class *na_class, const char *name, uint64_t n);
    /** The connection ended in good order, and the address can be used again.
     * Calls that were sent over it and wait for a response end with
     * NA_DISCONNECT. Queued messages use the next connection. */
    void (*addr_parted)(struct na_addr *addr);
    /** Add a reference, unless the last one is gone and the address is about to
     * be released. For a table that holds no references. */
    na_bool_t (*addr_try_ref)(struct na_addr *addr);
    /** The address could not be connected and stays usable. Receives and
     * emulated transfers that wait for it end with `ret`. The transport
     * completes the sends that it holds. */
    void (*addr_unreached)(struct na_addr *addr, na_return_t ret);
    /** Return registered memory for `size` bytes of data of a frame whose
     * header has arrived. NULL: no memory yet; the transport uses memory of
     * its own. `poll` calls it in the order of the frames, perhaps with locks
     * of the transport held. The memory is valid until `frame_unplace` gets
     * `*place_p`. */
    void *(*frame_place)(struct na_class *na_class, struct na_addr *source,
        const void *header, size_t header_size, size_t size, void **place_p);
    /** End the use of that memory: after `frame_arrived` with `data` in it, or
     * without. Any thread, with any lock held. */
    void (*frame_unplace)(struct na_class *na_class, void *place);
    /** NA_SUCCESS: an address that was dialled is connected, and `addr_cmp`
     * knows its peer. The receives that wait for it are matched with the queued
     * messages. Else: what `addr_connect` started has failed, and nothing else
     * waited for it. The core may start it again. This replaces
     * `addr_unreached`: the receives wait further. */
    void (*addr_connected)(struct na_addr *addr, na_return_t ret);
    /** As `msg_arrived`, for the messages that are still kept when their
     * connection has ended, before `addr_dead` or `addr_parted`. Always
     * NA_SUCCESS: a message that the sender's share has no space for is queued,
     * too, up to a limit for all such messages. */
    na_return_t (*msg_last)(struct na_class *na_class, struct na_addr *source,
        uint8_t plane, uint8_t target, na_tag_t tag, const void *data,
        na_size_t size);
    /** Take the lock of the class, in a thread that does not have it, such as
     * one of the transport, and with no lock of the transport held. It is not
     * recursive. */
    void (*enter)(struct na_class *na_class);
    void (*leave)(struct na_class *na_class); /**< release that lock */
};

/**
 * Register a transport under its name.
 *
 * See na_plugin(3) for the table, and hg-plugin(3) for the rules.
 *
 * Registering a name again replaces the transport for classes opened later. The
 * table may be shorter than the library's: the missing slots are NULL.
 *
 * @param plugin  the table; borrowed until the process ends.
 * @retval NA_SUCCESS      classes of its protocols can be opened.
 * @retval NA_INVALID_ARG  NULL, another `abi`, a wrong `size`, or a required
 *                         slot is missing.
 * @retval NA_AGAIN        32 transports are registered.
 */
NA_EXPORT na_return_t NA_Register_plugin(const struct na_plugin *plugin);

/**
 * Return the value of a counter of a class.
 *
 * It is declared with HG_NA_PLUGIN_API defined above the include.
 *
 * For tests and tools. The names are those of modules and transports. A class
 * of several transports has two more counters for each transport, such as
 * "mux_sent_zmq+tcp", the bytes of messages sent, and "mux_moved_zmq+tcp", the
 * bytes of puts and gets that were started here.
 *
 * @param na_class  the class.
 * @param name      the name of the counter.
 * @return the value; 0 if nothing was counted.
 */
NA_EXPORT uint64_t NA_Get_counter(na_class_t *na_class, const char *name);

/** @} */
#endif /* HG_NA_PLUGIN_API */
