/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== A transport ======================================================= */
/*
 * Visible with HG_NA_PLUGIN_API defined above the include. A transport is
 * one constant `struct na_plugin`: sizes, capabilities, and slots grouped by
 * noun. The core of NA owns every object and embeds the transport's part in
 * it: a transport extends `struct na_addr`, say, by a struct whose first
 * member is a struct na_addr, and names its size in the table; there is no
 * allocation per operation. The core keeps what concerns no transport
 * (reference counts, states, queues) in front of the object, out of sight.
 *
 * What a slot need not think about, because the core sees to it: arguments
 * are checked, messages fit the maximum, addresses are alive and of this
 * class, object parts are zeroed when created (an operation's part: when
 * first made).
 *
 * Rules for every slot, unless its line says otherwise
 *   - It does not block and may be called from any thread. The thread may hold
 *     the lock of the class, which the core's functions take, too. The
 *     transport guards its own state, with a lock that comes after that one.
 *   - It returns a code of its own cause and has logged that cause. A slot
 *     that starts an operation either returns an error and never completes
 *     it, or returns NA_SUCCESS and completes it exactly once through
 *     core->complete, from any thread, also before the slot returns.
 *   - A slot left NULL is filled with one that returns NA_OPNOTSUPPORT, or
 *     with the core's own way of doing it where its line names one.
 *   - core->... functions are called without a lock that a slot takes: the
 *     core may call any slot from inside them.
 *
 * The required slots are open, close, msg_send, poll and addr_resolve.
 * Modelled on the requirements of the Nemesis Network Module API.
 */
#if defined(HG_NA_PLUGIN_API)

#define NA_PLUGIN_ABI 1u

struct na_core;

/* A link of an intrusive ring; points at itself while on no list. */
struct na_link {
    struct na_link *prev;
    struct na_link *next;
};

/* An entry of a context's completion queue. `run` is called with the lock of
 * the class held, and returns so; it releases the lock around code of the
 * application. */
struct na_completion {
    struct na_completion *next;
    void (*run)(struct na_completion *completion);
};

/* An endpoint. The transport sets what is marked (open) in its open slot. */
struct na_class {
    const struct na_core *core;
    struct na_init_info *info; /* defaults filled in; (open): wait_mode */
    const char *protocol;      /* "tcp", without the plugin's name */
    na_bool_t listen;
    na_size_t max_unexpected_size; /* (open) */
    na_size_t max_expected_size;   /* (open) */
    na_tag_t max_tag;              /* (open) 2^k - 1 */
    struct na_addr *self_addr;     /* (open) by core->addr_create */
    uint64_t incarnation;          /* random: which life of this address */
    na_bool_t finds_callers; /* (open) addr_resolve also finds a class that
                                      does not listen, by its own address, if
                                      that class has connected to this one */
};

struct na_context {
    struct na_class *na_class;
    uint8_t id;       /* of the context in its class; 0 is the first */
    na_bool_t helper; /* it serves one lookup, or the progress thread: it can
                         share what another context has */
};

/* A peer. `name` is its address string, NULL while unknown. */
struct na_addr {
    struct na_class *na_class;
    const char *name;
    na_bool_t self;
};

/* Memory described; local, or remote and deserialized. */
struct na_mem_handle {
    struct na_class *na_class;
    struct na_segment *segments; /* NULL for remote memory */
    na_size_t segment_count;
    na_size_t size; /* of all segments */
    unsigned long flags;
    na_bool_t remote;
    uint64_t key; /* for the transport: how peers name it */
};

/* Memory that a transport gave for a handle, of the library's own. */
struct na_mem_block {
    void *memory;
    na_size_t size;
    void *owner; /* the transport's business */
    /* Takes the block back, from any thread, perhaps after the class was
     * closed. */
    void (*release)(struct na_mem_block *block);
};

/* Three planes of messages that never meet: the two of the NA interface,
 * and the RPC engine's, which finds its own receiver. */
enum na_msg_plane {
    NA_MSG_UNEXPECTED = 0,
    NA_MSG_EXPECTED = 1,
    NA_MSG_RPC = 2,
    NA_MSG_PLANE_MAX = 3
};

/* A message to send: the segments' concatenation. */
struct na_msg {
    struct na_addr *addr;
    const struct na_segment *segments;
    na_size_t segment_count;
    na_size_t size;
    na_tag_t tag;
    uint8_t plane;
    uint8_t target; /* context id at the destination */
};

/* An operation in flight. */
struct na_op {
    struct na_link link; /* for whoever executes it, on no list at the start */
    struct na_context *context;
    na_cb_type_t type;
    struct na_addr *addr; /* destination, source or peer; a reference */
    const char *name;     /* lookup */
    struct na_msg msg;    /* send; its segments live as long as the op */
    void *buf;            /* receive */
    na_size_t buf_size;
    struct na_mem_handle *local; /* put, get */
    struct na_mem_handle *remote;
    na_offset_t local_offset;
    na_offset_t remote_offset;
    na_size_t size;
    /* Set before completing with NA_SUCCESS. */
    struct na_addr *result_addr; /* lookup: a reference, handed over */
    na_size_t result_size;       /* receive */
    na_tag_t result_tag;         /* receive */
};

enum na_plugin_caps {
    NA_CAP_ORDERED = 0x01,    /* messages, puts and gets to one peer take
                                 effect in the order they were started */
    NA_CAP_HOLDS_BACK = 0x02, /* obeys NA_AGAIN of msg_arrived */
    NA_CAP_HANDS_OVER = 0x10, /* moves memory itself, and hands operations
                                  over to the emulation where it cannot: only
                                  for transports inside hg.c */
    NA_CAP_AUTH_KEY = 0x20,   /* auth_key decides who may connect */
    NA_CAP_CURVE = 0x40       /* curve_... decide that, and encrypt. A class
                                   is not opened with options of these two
                                   kinds that its transport has no bit for */
};

enum { NA_POLL_FD_NONE = -1, NA_POLL_FD_IDLE = -2 };

struct na_plugin {
    uint32_t abi;                 /* NA_PLUGIN_ABI */
    uint32_t size;                /* sizeof(struct na_plugin) */
    const char *name;             /* "zmq" */
    const char *const *protocols; /* "tcp", "ipc", ..., NULL */
    uint64_t caps;
    /* Sizes of the transport's objects with the core's part first; 0: it adds
     * nothing. */
    size_t class_size;
    size_t context_size;
    size_t addr_size;
    size_t op_size;
    size_t mem_size;

    /* ---- life ---- */
    /* Open the endpoint: `host` is what stands behind "://" ("" if nothing).
     * May block briefly (name resolution). */
    na_return_t (*open)(struct na_class *na_class, const char *host);
    /* Close it. Every context is gone, and no memory is registered; accepted
     * sends get until `linger_ms` to leave. Completes nothing. Blocks at most
     * that long. Only addr_release is called later. */
    void (*close)(struct na_class *na_class, unsigned linger_ms);
    na_return_t (*context_create)(struct na_context *context);
    void (*context_destroy)(struct na_context *context);

    /* ---- addr ---- */
    /* Start NA_CB_LOOKUP of op->name, the whole address string, whose protocol
     * is one of the transport's: connect to the peer. NA_INVALID_ARG for a
     * malformed name. Default: addr_resolve, which finds it at once. */
    na_return_t (*addr_lookup)(struct na_op *op);
    /* The last reference is gone, and the object goes after this. Also called
     * for what is left once the class is closed. */
    void (*addr_release)(struct na_addr *addr);
    /* Whether connections prove that both are of the same peer: false, even of
     * an address and itself, as long as its peer is unknown. Messages are
     * matched by it; NA_Addr_cmp compares names of unknown peers. Default:
     * names are equal. */
    na_bool_t (*addr_cmp)(
        const struct na_addr *addr1, const struct na_addr *addr2);
    /* Start NA_CB_TERMINATE of op->addr. */
    na_return_t (*addr_terminate)(struct na_op *op);

    /* ---- msg ---- */
    /* Send. With op NULL: only if it can go out at once, copied, else
     * NA_AGAIN. With op: start it, keeping order; the payload stays in place
     * until completion. Errors: NA_DISCONNECT, NA_HOSTUNREACH, NA_NOMEM. */
    na_return_t (*msg_send)(
        struct na_context *context, const struct na_msg *msg, struct na_op *op);
    /* Send a frame of emulated RMA: `header` is copied; `data`, which may be
     * empty, is borrowed until `release` is called, exactly once and from any
     * thread, also from within a slot and with locks of the transport's held;
     * not at all on error. Release must not depend on anybody calling poll:
     * deregistration waits for it, calling reclaim. The lock of the class is
     * held around this slot, as around poll: a transport takes its own lock
     * after that.
     * Frames between two addresses keep their order and are delivered one at
     * a time, and answers come from the address object that was asked.
     * NA_AGAIN: not now; core->wake when it may go. Absent together with put
     * and get: only memory of the class itself can be reached. */
    na_return_t (*frame_send)(struct na_addr *addr, const void *header,
        size_t header_size, const void *data, size_t size,
        void (*release)(void *arg), void *arg);

    /* ---- mem ---- given together with put and get; default: emulated over
     * frames */
    na_return_t (*mem_register)(struct na_mem_handle *mem);
    /* Blocks until no peer's operation touches the memory. */
    void (*mem_deregister)(struct na_mem_handle *mem);
    na_size_t (*mem_serialize_size)(const struct na_mem_handle *mem);
    void (*mem_serialize)(const struct na_mem_handle *mem, void *buf);
    /* Fill a remote handle. NA_PROTOCOL_ERROR. */
    na_return_t (*mem_deserialize)(
        struct na_mem_handle *mem, const void *buf, na_size_t buf_size);
    /* Of a memory handle, and so of a bulk handle: more are
     * HG_OPNOTSUPPORT. 0: any number. */
    na_size_t max_segments;

    /* ---- rma ---- both or none; default: emulated over frames */
    na_return_t (*put)(struct na_op *op);
    na_return_t (*get)(struct na_op *op);

    /* ---- progress ---- */
    /* Do what can be done now; the number of things done. Called by one thread
     * of the class at a time. */
    unsigned (*poll)(struct na_context *context);
    /* A descriptor that turns readable when poll has work; NA_POLL_FD_NONE:
     * there is none, the core polls once a millisecond (the default);
     * NA_POLL_FD_IDLE: poll needs no call unless core->wake asked for it. */
    int (*poll_fd)(struct na_context *context);
    /* Asked before each sleep on poll_fd, so perhaps again before wait_end:
     * NA_FALSE when there is work now. From then until wait_end the descriptor
     * must tell. Default NA_TRUE. */
    na_bool_t (*wait_begin)(struct na_context *context);
    void (*wait_end)(struct na_context *context);
    /* Take a started operation back: NA_SUCCESS when the slot completes it
     * with NA_CANCELED, now or later; NA_NOENTRY when it cannot. It may end
     * meanwhile: look at core->op_id again under the lock that completing
     * takes. */
    na_return_t (*cancel)(struct na_op *op, uint64_t op_id);
    /* Called now and then by a thread that waits for borrowed frames, while
     * poll may run or not: let go of those of peers that are dead. Completes
     * and delivers nothing. Default: nothing. */
    void (*reclaim)(struct na_class *na_class);
    /* The most data that frame_send takes; 0: any. */
    na_size_t max_frame_size;
    /* Memory for a handle with `flags`, zeroed: block->size bytes that peers
     * reach more easily than others. NA_NOMEM, not logged: the core takes
     * ordinary memory. Default: it always does. */
    na_return_t (*mem_alloc)(struct na_class *na_class, unsigned long flags,
        struct na_mem_block *block);

    /* ---- mem, required with NA_CAP_HANDS_OVER, else not called ---- */
    /* Half of mem_deregister: nobody begins to touch the memory any more but by
     * what was handed over. True: pieces are under way; to be called again,
     * until they are not. Does not wait. */
    na_bool_t (*mem_retract)(struct na_mem_handle *mem);

    /* ---- mem, required with NA_CAP_HANDS_OVER ---- */
    /* The local memory of puts and gets is being freed, and no thread starts
     * one: they complete with NA_CANCELED, or the result they have, and nothing
     * touches it any more once this returned, but by what was handed over.
     * Default: nothing. */
    void (*mem_end_local)(const struct na_mem_handle *mem);

    /* ---- rma ---- */
    /* Do a put or get (op->type) at once, in this thread: its result. `op`
     * describes it, with what put and get find in one, and is no operation:
     * without the transport's part, and not to be completed or kept. The memory
     * handles stay until this returns. NA_AGAIN: that cannot be, or not all of
     * it; it is to be started: from the beginning, so moving a part twice does
     * no harm. Other codes: those of put and get, which the caller hands on.
     * Any thread, with the lock of the class held, which is left during a copy
     * that is not small. Never waits for a peer; takes no longer than copying
     * as many bytes as the transport chooses, some 100 KiB. Default: never. */
    na_return_t (*rma_now)(const struct na_op *op);

    /* ---- addr ---- */
    /* The identity of the peer as the transport has proved it:
     * "uid:1000", the name of its key. Asked of addresses that messages come
     * from; "" where nothing was proved. The string stays, and stays as it is,
     * as long as the address. Default "". */
    const char *(*addr_identity)(const struct na_addr *addr);

    /* Nobody believes in this peer any more, which may live: end its connection
     * as if it had died, soon, and have a lookup from now on make another. One
     * that is being made is left alone.
     * Default: core->addr_dead with NA_DISCONNECT. */
    void (*addr_abandon)(struct na_addr *addr);

    /* ---- mem ---- */
    /* The handle goes after this, local or remote, deregistered if it was
     * registered. Default: nothing. */
    void (*mem_release)(struct na_mem_handle *mem);

    /* ---- addr ---- */
    /* The address of a peer by its address string, with a reference, without
     * connecting: the first use of the address connects. Two calls with one
     * name give one address, as long as that is referenced and alive.
     * With `from_peer` the name came from a peer: this must not block, so no
     * name server is asked, and log lines are warnings. Codes as of
     * addr_lookup. */
    na_return_t (*addr_resolve)(struct na_class *na_class, const char *name,
        na_bool_t from_peer, struct na_addr **addr_p);

    /* ---- life ---- */
    /* Call `found` with `arg` and the name of each device, such as an
     * interface, on which one of the protocols works here. Any thread, without
     * a class. Default: one device, "any". */
    void (*list_devices)(const char *protocol,
        void (*found)(void *arg, const char *device), void *arg);
};

/* What the core offers a transport, reached through na_class->core. */
struct na_core {
    uint32_t size; /* sizeof(struct na_core) */
    /* End an operation. The op must not be touched afterwards. */
    void (*complete)(struct na_op *op, na_return_t ret);
    /* The identifier of an operation, a different one each time it is used. */
    uint64_t (*op_id)(const struct na_op *op);
    /* A message came. The data is borrowed, and may lie where its sender can
     * still write: it is copied once, and looked at there. NA_AGAIN, only with
     * NA_CAP_HOLDS_BACK: no room, offer it again; NA_SUCCESS otherwise: the
     * message was delivered, or queued, or dropped and counted. */
    na_return_t (*msg_arrived)(struct na_class *na_class,
        struct na_addr *source, uint8_t plane, uint8_t target, na_tag_t tag,
        const void *data, na_size_t size);
    /* A frame of emulated RMA came. Borrowed; malformed ones are counted. */
    void (*frame_arrived)(struct na_class *na_class, struct na_addr *source,
        const void *header, size_t header_size, const void *data, size_t size);
    /* A new address with one reference. `name` is copied, NULL: unknown yet.
     * NULL: out of memory (logged). */
    struct na_addr *(*addr_create)(
        struct na_class *na_class, const char *name, na_bool_t self);
    na_return_t (*addr_set_name)(struct na_addr *addr, const char *name);
    void (*addr_ref)(struct na_addr *addr);
    void (*addr_unref)(struct na_addr *addr);
    /* The peer is gone: fails what waits for it with `ret` (NA_DISCONNECT,
     * NA_HOSTUNREACH) and refuses new operations. Sends that the transport
     * holds are its own to complete. The first call counts. */
    void (*addr_dead)(struct na_addr *addr, na_return_t ret);
    na_bool_t (*addr_is_dead)(const struct na_addr *addr);
    /* Wake every context of the class that sleeps. */
    void (*wake)(struct na_class *na_class);
    /* The allocator; free(NULL) is allowed. */
    void *(*alloc)(size_t size);
    void *(*realloc)(void *ptr, size_t size);
    void (*free)(void *ptr);
    /* Write one line; `level` is one of HG_LOG_LEVEL_... Lines that a peer
     * causes must be warnings, and be counted by `count`. Each `format`, a
     * string constant, writes its 1st, 2nd, 4th, 8th ... line, with the count;
     * as an error also its first 64. */
    void (*log)(int level, const char *subsys, const char *format, ...);
    uint64_t (*now_ns)(void);
    uint64_t (*random)(void);
    /* Add to a named counter of the class, which NA_Get_counter reads. `name`
     * must be a string constant. A class has 64 names; more are ignored. */
    void (*count)(struct na_class *na_class, const char *name, uint64_t n);
    /* The connection ended in good order, and the address can be used again:
     * what was sent by it, and waits for an answer, ends with NA_DISCONNECT.
     * What is yet to be sent goes by the next. */
    void (*addr_parted)(struct na_addr *addr);
    /* One more reference, unless the last one is gone already: then the address
     * is about to be released. For a table that holds no references. */
    na_bool_t (*addr_try_ref)(struct na_addr *addr);
    /* The address could not be connected and stays usable: ends receives and
     * emulated transfers that wait for it with `ret`. Sends that the transport
     * holds are its own to complete. */
    void (*addr_unreached)(struct na_addr *addr, na_return_t ret);
    /* Where the data of a frame belongs that is about to come, whose header is
     * here: registered memory, for the transport to receive `size` bytes in.
     * NULL: nowhere yet, the transport uses memory of its own. Called in the
     * order of the frames, by poll; it may be called with locks of the
     * transport's held, as poll holds the lock of the class. The memory stays
     * until frame_unplace takes *place_p: after frame_arrived, with `data` what
     * this returned, or without that; any thread, any lock held. */
    void *(*frame_place)(struct na_class *na_class, struct na_addr *source,
        const void *header, size_t header_size, size_t size, void **place_p);
    void (*frame_unplace)(struct na_class *na_class, void *place);
};

/* Make a transport known under its name; a name registered again replaces
 * the former for classes opened later. The table is borrowed for ever. It may
 * be shorter than ours: what it ends before is empty.
 * NA_INVALID_ARG: wrong abi or size, or a slot is missing that is required or
 * that goes with put or get; NA_AGAIN: 32 are registered. */
NA_EXPORT na_return_t NA_Register_plugin(const struct na_plugin *plugin);

/* The value of a counter of a class, 0 if nothing counted. For tests and tools;
 * the names are the transports' and modules' own. A class of several transports
 * has of each, "sm" or "zmq+tcp" or another, mux_sent_zmq+tcp, the bytes of
 * messages that were sent by it, and mux_moved_zmq+tcp, those that were put and
 * got from here. */
NA_EXPORT uint64_t NA_Get_counter(na_class_t *na_class, const char *name);

#endif /* HG_NA_PLUGIN_API */
