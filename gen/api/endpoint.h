/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Endpoints and addresses =========================================== */
/**
 * @defgroup hg_endpoint Endpoints and addresses
 *
 * A class (na_class_t) is an endpoint of one transport, or of several.
 * NA_Initialize() opens it, and HG_Init1() starts the request model on it. The
 * callback model opens a class by itself, in HG_Init2(). An address (na_addr_t)
 * is a reference to a peer: NA_Addr_lookup_wait() finds it.
 *
 * An address string selects the transport and names an endpoint:
 *
 * @code
 * self://                           this process
 * sm://name, sm:///path             this node, through shared memory
 * zmq+tcp://host:port               ZeroMQ over TCP
 * zmq+ipc:///path                   ZeroMQ over a Unix socket
 * zmq+inproc://name                 ZeroMQ within a process
 * ofi+tcp://host:port, ofi+verbs://interface:port, ofi+cxi://device
 *                                   libfabric
 * mpi+static://RANK                 the processes of one MPI job
 * mpi+dynamic://                    the processes of several MPI jobs
 * zmq+tcp://host:0;sm://            several transports in one class
 * @endcode
 *
 * NULL and "" mean "sm://" where sm is compiled in, else "self://". To open a
 * class, "://" may be omitted if nothing follows it. Without a port, or with
 * port 0, the system chooses one; without a name sm chooses one. Without a host
 * a listener over zmq+tcp and libfabric over IP uses loopback; "0.0.0.0" or "*"
 * is for other hosts. A name of sm has 1 to 64 characters.
 *
 * A class that does not listen needs only the scheme, such as "zmq+tcp://".
 * Over zmq+tcp and libfabric a host selects its interface, and the class is not
 * opened if that host is not found. Over sm, zmq+ipc, zmq+inproc and MPI the
 * name is ignored. See hg-transports(7) for each transport, and for classes
 * with several.
 *
 * These rules hold for all functions of NA and HG:
 *
 * - Every function can be called from any thread at any time, also for one
 *   object in several threads. An exception is a function that ends an object:
 *   no other thread may use the object then.
 * - A wrong argument, such as NULL or an object of another class, gives
 *   NA_INVALID_ARG, or NULL, 0 or NA_FALSE where the function returns no code.
 * - A closed class and a destroyed context are detected: they are wrong
 *   arguments. An address that was freed once too often is detected by
 *   NA_Addr_free() while another reference exists. Not detected are an address
 *   without references or of a closed class, a freed memory handle, and a
 *   destroyed context in NA_Trigger().
 * - A thread leaves a function of the library, and a callback, handler or proc,
 *   only by returning. It may hold locks, so pthread_cancel, pthread_exit and
 *   longjmp are forbidden there. A program that cancels threads disables that
 *   around calls (pthread_setcancelstate).
 * - A signal handler that runs in a thread while it sleeps in a wait ends that
 *   wait with NA_INTR, with or without SA_RESTART. It does not end the wait of
 *   a thread that is awake: with NA_WAIT_SPIN a thread never sleeps, and with
 *   NA_WAIT_ADAPTIVE it spins first. If a signal must not be missed, wait with
 *   a finite timeout.
 * - NA_AGAIN also means that the process or the system has no file descriptor
 *   left. The log line names the limit, nofile. Descriptors of libzmq are not
 *   included.
 * - In a child of fork, every function fails at once with NA_FAULT for a class
 *   of the parent, its contexts, addresses and memory handles. Functions that
 *   free them fail, too. Functions without a code return NULL, 0, NA_FALSE or
 *   -1. The log has one line for each class. The child may open classes of its
 *   own and may call exit. Programs that it executes inherit no descriptor.
 *   Parent and peers do not notice the fork. A callback that forks must not
 *   return in the child. See hg-threads(7).
 * @{
 */

/** How a thread waits in a context that has nothing to do. */
enum {
    NA_WAIT_ADAPTIVE = 0, /**< spin or yield briefly, then sleep */
    NA_WAIT_SPIN = 1,     /**< never sleep: lowest latency, a core each */
    NA_WAIT_BLOCK = 2     /**< sleep at once: least processor time */
};

/** The address family of names and interfaces. */
enum na_addr_format {
    NA_ADDR_UNSPEC = 0, /**< the default of the transport */
    NA_ADDR_IPV4 = 1,   /**< IPv4 */
    NA_ADDR_IPV6 = 2,   /**< IPv6 */
    NA_ADDR_NATIVE = 3  /**< that of the network */
};

#define NA_NO_BLOCK 0x01 /**< progress_mode: the same as NA_WAIT_SPIN */
#define NA_NO_RETRY 0x02 /**< progress_mode: no effect */

/**
 * Options of NA_Initialize_opt().
 *
 * Start from NA_INIT_INFO_INITIALIZER. 0 and NULL select the default. The
 * strings are copied. A transport ignores members that it has no use for,
 * except auth_key and curve_...: a class is not opened if one of its transports
 * cannot honour these. No transport of this release honours curve_... .
 *
 * "Libfabric over IP" are its providers tcp, tcp;ofi_rxm, verbs, sockets and
 * udp.
 */
struct na_init_info {
    size_t size; /**< sizeof(struct na_init_info) */

    /* Members with the names of Mercury 2.4. */

    /** "192.0.2.0/24", "192.0.2" or "fd00::/64": the interface with an address
     * in this subnet is used if the address string names no host or all hosts.
     * zmq+tcp binds all interfaces if it names all. The class is not opened if
     * there is no such interface. For zmq+tcp and libfabric over IP. NULL or
     * "": as hg-transports(7) says. */
    const char *ip_subnet;
    /** sm: other users that may connect, "any-user" or user ids with commas
     * between them. Both sides must allow the other. NULL or "": the same user
     * only. libfabric: the key of the provider, the same on both sides:
     * "service:vni" for cxi, 16 characters for psm2 and psm3, up to 64 for
     * others. Providers without keys, such as tcp, tcp;ofi_rxm and shm, refuse
     * the class. Other transports: NULL or "". */
    const char *auth_key;
    /** The longest unexpected message, between 512 bytes and 16 MiB. sm has at
     * most 32 KiB, ofi_rxm of libfabric 16 KiB. Default: 64 KiB. */
    size_t max_unexpected_size;
    /** The longest expected message. Default: 64 KiB. */
    size_t max_expected_size;
    uint8_t progress_mode; /**< NA_NO_BLOCK or 0 */
    /** The address family to use if the host is a name, is "*", or is missing:
     * for zmq+tcp and libfabric over IP. A client of zmq+tcp tries the other
     * family, too, after this one. Default: NA_ADDR_IPV4; over libfabric, for
     * "*" the family of the address with the widest scope, and for a client
     * without a host NA_ADDR_IPV6 if only that reaches other hosts. A class of
     * libfabric reaches peers of one family only, but a client without a host
     * and without this option both: see "Host names" in hg-transports(7). */
    enum na_addr_format addr_format;
    /** Contexts of the application. Default: 256, with those of the library. */
    uint8_t max_contexts;
    uint8_t thread_mode;          /**< no effect */
    na_bool_t request_mem_device; /**< no effect */
    int traffic_class;            /**< no effect */

    /* Members of hg. */

    uint8_t wait_mode; /**< NA_WAIT_...; default NA_WAIT_ADAPTIVE */
    /** NA_WAIT_ADAPTIVE: the longest time to spin, in microseconds. While
     * events take longer, threads spin for a shorter time. It is at least
     * 2,000 where the transport has no descriptor to sleep on (MPI, some
     * providers of libfabric). Default: 200. */
    unsigned int spin_us;
    /** A thread of the library serves the RMA of peers and receives messages,
     * such as cancellations, while the application computes. It runs no handler
     * and no callback. */
    na_bool_t progress_thread;
    /** Bytes of messages that wait for a receive, and about 80 more for each.
     * Peers share it: one alone may use all of it, all together at most twice
     * as much. Beyond it the sender waits. The transport then keeps messages
     * for each peer: 1 MiB and one message over ZeroMQ and libfabric; 8 MiB of
     * messages up to 3,960 bytes, and 9 longer ones, over MPI. When a
     * connection ends, in order or not, these messages are added to the queue,
     * past the limit by up to 64 MiB for all such peers. Messages past that are
     * dropped, counted ("msg_dropped") and logged. If space is needed, expected
     * messages of a dead peer are dropped in the same way if the application
     * has no address of it: no receive can get them. Default: 64 MiB. */
    size_t max_queue_bytes;
    /** Milliseconds until a silent peer is unreachable. Over most providers of
     * libfabric a peer that refuses is silent, too. ZeroMQ closes an accepted
     * connection that sends no HELLO within 500 ms more. A name server that
     * does not answer counts as a silent peer; NA_Initialize() waits that long
     * for one. Default: 5,000. */
    unsigned int lookup_ms;
    /** Milliseconds until a silent connection is dead; at least 1,000 over
     * libfabric. A stopped process is silent (SIGSTOP, a debugger). Each side
     * uses its own value for its peers. Over ZeroMQ a shorter value of the peer
     * may count, too. sm and ZeroMQ notice the end of a process at once,
     * libfabric only by this silence. Over sm a peer lives as long as its
     * process. Default: 5,000. */
    unsigned int death_ms;
    /** Emulated RMA: bytes in a frame, at most 16 MiB over MPI. Default: 512
     * KiB. */
    size_t rma_frame_size;
    /** Emulated RMA: bytes in transit to and from a peer. Default: 8 frames. */
    size_t rma_window;
    na_bool_t force_rma_emulation; /**< also where the transport has RMA */
    const char *curve_secret_key;  /**< reserved: keys, in files */
    const char *curve_server_key;  /**< reserved */
    const char *curve_allow_dir;   /**< reserved */
};

/** The default options. */
#define NA_INIT_INFO_INITIALIZER \
    { \
        sizeof(struct na_init_info), HG_NULLPTR, HG_NULLPTR, 0, 0, 0, \
            NA_ADDR_UNSPEC, 0, 0, NA_FALSE, 0, NA_WAIT_ADAPTIVE, 0, NA_FALSE, \
            0, 0, 0, 0, 0, NA_FALSE, HG_NULLPTR, HG_NULLPTR, HG_NULLPTR \
    }

/* ---- Classes ---- */

/**
 * Open a class.
 *
 * With `listen`, peers can look the class up. Without it, the class can only
 * call others; these can respond and move its memory. A process can have 4,096
 * NA classes and contexts. In the callback model each class and each context
 * counts twice.
 *
 * If a descriptor from 0 to 2 is closed, the function opens /dev/null there, or
 * "/", for no access (O_PATH) and closed on exec. It stays open: see
 * hg-debug(7). A process without random numbers cannot open a class: it needs
 * getrandom, or /dev/urandom.
 *
 * @param info_string  the address string; NULL or "": the default transport.
 * @param listen       NA_TRUE for a server, NA_FALSE for a client.
 * @return the class, for NA_Finalize(); NULL on failure (logged).
 */
NA_EXPORT na_class_t *NA_Initialize(
    const char *info_string, na_bool_t listen) NA_WARN_UNUSED_RESULT;

/**
 * Open a class with options.
 *
 * @param info_string  as for NA_Initialize().
 * @param listen       as for NA_Initialize().
 * @param info         the options, copied; NULL: the defaults.
 * @return the class, for NA_Finalize(); NULL on failure (logged).
 */
NA_EXPORT na_class_t *NA_Initialize_opt(const char *info_string,
    na_bool_t listen, const struct na_init_info *info) NA_WARN_UNUSED_RESULT;

/** A flag of NA_MPI_Init(): listen. */
#define NA_MPI_LISTEN 0x01
#ifdef MPI_VERSION
/**
 * Open mpi+static:// in a communicator of one group.
 *
 * It does not wait for another process. Declared if mpi.h is included above
 * hg.h; the program is built with hg_na_mpi.c. In the callback model struct
 * hg_init_info takes the class.
 *
 * In the communicator the application uses no tags from 16384 on, and does not
 * receive with MPI_ANY_TAG. A class opened by NA_Initialize() uses
 * MPI_COMM_WORLD; the same rules hold there.
 *
 * @param intra_comm  borrowed until NA_Finalize(); NULL: MPI_COMM_WORLD.
 * @param flags       0 or NA_MPI_LISTEN.
 * @return the class, for NA_Finalize(); NULL on failure (logged).
 * @source Mercury design report, na_mpi_init
 */
NA_EXPORT na_class_t *NA_MPI_Init(
    MPI_Comm *intra_comm, int flags) NA_WARN_UNUSED_RESULT;

/**
 * Open mpi+static:// in a communicator, with options.
 *
 * @param intra_comm  as for NA_MPI_Init().
 * @param flags       as for NA_MPI_Init().
 * @param info        the options, copied; NULL: the defaults.
 * @return the class, for NA_Finalize(); NULL on failure (logged).
 */
NA_EXPORT na_class_t *NA_MPI_Init_opt(MPI_Comm *intra_comm, int flags,
    const struct na_init_info *info) NA_WARN_UNUSED_RESULT;
#endif

/**
 * Close a class.
 *
 * It waits until accepted sends have left, at most 1 s for each transport.
 * Addresses and memory handles that were not freed are released, with one
 * warning.
 *
 * @param na_class  the class; taken.
 * @retval NA_SUCCESS      the class is closed.
 * @retval NA_BUSY         a context of the application exists, or HG_Finalize()
 *                         or HG_Bulk_finalize() was not called.
 * @retval NA_INVALID_ARG  NULL, or it was closed already.
 * @retval NA_FAULT        the class belongs to the parent process.
 */
NA_EXPORT na_return_t NA_Finalize(na_class_t *na_class);

/**
 * Get the name of the transport: "self", "sm", "zmq", "ofi", "mpi".
 *
 * @param na_class  the class.
 * @return the name, owned by the class; NULL if the class is wrong.
 */
NA_EXPORT const char *NA_Get_class_name(const na_class_t *na_class);

/**
 * Get the name of the protocol: "self", "sm", "tcp" and others.
 *
 * @param na_class  the class.
 * @return the name, owned by the class; NULL if the class is wrong.
 */
NA_EXPORT const char *NA_Get_class_protocol(const na_class_t *na_class);

/**
 * Test whether peers can look the class up.
 *
 * @param na_class  the class.
 * @return NA_TRUE if it was opened to listen.
 */
NA_EXPORT na_bool_t NA_Is_listening(const na_class_t *na_class);

/**
 * Test whether operations to one peer keep their order.
 *
 * @param na_class  the class.
 * @return 1: messages and RMA operations take effect in the order in which they
 * were started; 0: RMA operations in flight may overtake each other, but
 * messages of one kind with the same tag keep their order.
 */
NA_EXPORT int NA_Get_ordering(const na_class_t *na_class);

/* ---- Addresses ---- */

/**
 * Find a peer, and wait until it is connected.
 *
 * It needs no context and runs no callback of the application.
 *
 * A peer that makes no progress does not reply. Over most providers of
 * libfabric, an address where nobody listens gives no reply, either. Then the
 * lookup ends when the first of two times is over: timeout_ms gives NA_TIMEOUT,
 * and lookup_ms of the class (up to 500 ms later) gives NA_HOSTUNREACH. If
 * another lookup of the peer is waiting already, lookup_ms counts from its
 * start. Over ZeroMQ a process that computes is connected: only timeout_ms
 * counts then.
 *
 * When the connection to the peer is lost (NA_DISCONNECT), the address is dead,
 * even if the peer returns: free it, and look the peer up again.
 *
 * A host name is resolved by a thread of the library. So a silent name server
 * delays neither other threads nor other operations, except that at most 64
 * names of a class are resolved at a time. If the host has several IP
 * addresses, they are tried one after the other; the first attempt of each
 * takes at most 350 ms. The address keeps the name, which
 * NA_Addr_to_string() writes, and each new connection resolves it again.
 *
 * @param na_class    the class.
 * @param name        the address string of the peer; borrowed.
 * @param timeout_ms  milliseconds.
 * @param[out] addr   a reference, for NA_Addr_free().
 * @retval NA_SUCCESS         the peer is connected.
 * @retval NA_TIMEOUT         not within timeout_ms (logged). The text does not
 *                            say whether the name server or the peer is silent:
 *                            that of NA_HOSTUNREACH does.
 * @retval NA_HOSTUNREACH     it refuses, hangs up, or does not reply within
 *                            lookup_ms; or there is no such host, or its name
 *                            server does not reply within lookup_ms.
 * @retval NA_INVALID_ARG     the name is malformed, or an argument is NULL.
 * @retval NA_PROTONOSUPPORT  the name is for another transport.
 * @retval NA_INTR            a signal ended the wait.
 * @retval NA_PROTOCOL_ERROR  the peer uses another version of the protocol,
 *                            or claims to be this class.
 * @retval NA_AGAIN           one side has no file descriptor left, or 8,192
 *                            peers over sm, or the class has no context left.
 * @retval NA_ACCESS          the operating system denies access to the peer.
 * @retval NA_PERMISSION      sm: the user of one side does not admit the other.
 * @retval NA_NOMEM           out of memory.
 */
NA_EXPORT na_return_t NA_Addr_lookup_wait(na_class_t *na_class,
    const char *name, unsigned int timeout_ms, na_addr_t *addr);

/**
 * Find a peer that may start later: wait until it listens.
 *
 * It is NA_Addr_lookup_wait() that tries again while nobody listens at the
 * address, until timeout_ms is over: for programs that are started together.
 * The first tries follow each other within milliseconds, later ones within
 * 160 ms. They leave no error in the log: one line at the end, at the level
 * `info`, says what was waited for; after NA_TIMEOUT it is an error. Only the
 * codes that follow differ from those of NA_Addr_lookup_wait().
 *
 * @param na_class    the class.
 * @param name        the address string of the peer; borrowed.
 * @param timeout_ms  milliseconds.
 * @param[out] addr   a reference, for NA_Addr_free().
 * @retval NA_SUCCESS  the peer is connected.
 * @retval NA_TIMEOUT  not within timeout_ms (logged): nobody listens there, the
 *                     peer does not respond, or there is no such host. It is
 *                     returned instead of NA_HOSTUNREACH.
 */
NA_EXPORT na_return_t NA_Addr_lookup_listener(na_class_t *na_class,
    const char *name, unsigned int timeout_ms, na_addr_t *addr);

/**
 * Make an address of a name, without connecting.
 *
 * The first use of the address connects. It fails with the code that
 * NA_Addr_lookup() gives, except NA_Msg_recv_expected(), which waits. Until the
 * address was connected, each use tries again, NA_Addr_cmp() compares it by its
 * name, and messages are not recognised as its peer's. This function does not
 * block: a host name is resolved by the first use, and again by each new
 * connection.
 *
 * @param na_class   the class.
 * @param name       the address string of the peer; borrowed.
 * @param[out] addr  a reference, for NA_Addr_free().
 * @retval NA_SUCCESS         the address is usable.
 * @retval NA_INVALID_ARG     the name is malformed, or an argument is NULL.
 * @retval NA_PROTONOSUPPORT  the name is for another transport.
 * @retval NA_NOMEM           out of memory.
 */
NA_EXPORT na_return_t NA_Addr_resolve(
    na_class_t *na_class, const char *name, na_addr_t *addr);

/**
 * Drop a reference to an address.
 *
 * Operations in flight keep references of their own.
 *
 * @param na_class  the class.
 * @param addr      the address; the reference is taken.
 * @retval NA_SUCCESS      the reference is dropped.
 * @retval NA_INVALID_ARG  the application has no reference left, or never had
 *                         one: HG_Handler_get_addr() gives none.
 * @retval NA_FAULT        the class belongs to the parent process.
 */
NA_EXPORT na_return_t NA_Addr_free(na_class_t *na_class, na_addr_t addr);

/**
 * Get the address of the class itself, listening or not.
 *
 * @param na_class   the class.
 * @param[out] addr  a reference, for NA_Addr_free().
 * @retval NA_SUCCESS      `addr` is set.
 * @retval NA_INVALID_ARG  an argument is NULL.
 */
NA_EXPORT na_return_t NA_Addr_self(na_class_t *na_class, na_addr_t *addr);

/**
 * Get another reference to an address.
 *
 * @param na_class       the class.
 * @param addr           the address.
 * @param[out] new_addr  a reference, for NA_Addr_free().
 * @retval NA_SUCCESS      `new_addr` is set.
 * @retval NA_INVALID_ARG  an argument is NULL, or the address is of another
 *                         class.
 */
NA_EXPORT na_return_t NA_Addr_dup(
    na_class_t *na_class, na_addr_t addr, na_addr_t *new_addr);

/**
 * Test whether an address is that of the class itself.
 *
 * @param na_class  the class.
 * @param addr      the address.
 * @return NA_TRUE if it is.
 */
NA_EXPORT na_bool_t NA_Addr_is_self(na_class_t *na_class, na_addr_t addr);

/**
 * Test whether two addresses are of the same peer.
 *
 * A peer is one process, by any name or connection. A process that listens
 * where a peer died is another peer. Two addresses of one peer by different
 * transports of the class do not compare as equal. The result is the one by
 * which expected messages find their receives. But while one of the addresses
 * is not connected, the names are compared, and a sender may claim any name.
 *
 * @param na_class  the class.
 * @param addr1     an address.
 * @param addr2     another address.
 * @return NA_TRUE if they are.
 */
NA_EXPORT na_bool_t NA_Addr_cmp(
    na_class_t *na_class, na_addr_t addr1, na_addr_t addr2);

/**
 * Write an address as a string.
 *
 * @param na_class  the class.
 * @param[out] buf  the string with its terminating NUL.
 * @param buf_size  bytes in `buf`; NA_MAX_ADDR_LEN is always enough.
 * @param addr      the address.
 * @retval NA_SUCCESS      `buf` holds the string.
 * @retval NA_MSGSIZE      `buf` is too small.
 * @retval NA_INVALID_ARG  an argument is NULL, or the address is of another
 *                         class.
 */
NA_EXPORT na_return_t NA_Addr_to_string(
    na_class_t *na_class, char *buf, na_size_t buf_size, na_addr_t addr);
/** @} */
