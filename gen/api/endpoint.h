/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== Endpoints and addresses =========================================== */

/* How a context that has nothing to do waits. */
enum {
    NA_WAIT_ADAPTIVE = 0, /* spin or yield briefly, then sleep */
    NA_WAIT_SPIN = 1,     /* never sleep: lowest latency, a core each */
    NA_WAIT_BLOCK = 2     /* sleep at once: lowest use of the processor */
};

enum na_addr_format {
    NA_ADDR_UNSPEC = 0,
    NA_ADDR_IPV4 = 1,
    NA_ADDR_IPV6 = 2,
    NA_ADDR_NATIVE = 3
};

/* progress_mode; NA_NO_BLOCK is another word for NA_WAIT_SPIN. */
#define NA_NO_BLOCK 0x01
#define NA_NO_RETRY 0x02

/* Options of NA_Initialize_opt. Start from NA_INIT_INFO_INITIALIZER; 0 and
 * NULL choose the default everywhere. The strings are copied. A member that
 * a transport has no use for is ignored, but for auth_key and curve_...: no
 * class is opened with a transport, alone or in a list, that cannot honour
 * these. sm and some providers of libfabric honour auth_key; no transport here
 * honours curve_... . "libfabric over IP" are its providers tcp, tcp;ofi_rxm,
 * verbs, sockets and udp. */
struct na_init_info {
    size_t size; /* sizeof(struct na_init_info) */
    /* Members with the names of Mercury 2.4. */
    const char *ip_subnet;           /* zmq+tcp, libfabric over IP:
                                        "192.0.2.0/24", "192.0.2" or
                                        "fd00::/64". Where the address string
                                        names no host, or all, the interface
                                        with an address in it is used; zmq+tcp
                                        binds all if all are named. No class
                                        is opened if there is none. NULL, "":
                                        as "Address strings" says */
    const char *auth_key;            /* sm: who else may connect: "any-user",
                                        or user ids with commas between;
                                        NULL, "": only the same user. Both
                                        ends must allow. libfabric: the key of
                                        the provider, the same at both ends:
                                        "service:vni" for cxi, 16 characters
                                        for psm2 and psm3, up to 64 for others
                                        that have keys. One that has none, as
                                        tcp, tcp;ofi_rxm and shm, refuses the
                                        class. Other transports: NULL or "" */
    size_t max_unexpected_size;      /* bytes, clamped to 512 to 16 MiB;
                                        64 KiB. sm has at most 32 KiB,
                                        libfabric's ofi_rxm 16 KiB */
    size_t max_expected_size;        /* the same */
    uint8_t progress_mode;           /* NA_NO_BLOCK; none */
    enum na_addr_format addr_format; /* zmq+tcp, libfabric over IP: the family
                                        of a host name, of no host, and of *;
                                        NA_ADDR_IPV4, over libfabric IPv6 where
                                        there is no other */
    uint8_t max_contexts;            /* the application's; 256 with the
                                        library's own */
    uint8_t thread_mode;             /* no effect */
    na_bool_t request_mem_device;    /* no effect */
    int traffic_class;               /* no effect */
    /* Members of hg. */
    uint8_t wait_mode;         /* NA_WAIT_...; NA_WAIT_ADAPTIVE */
    unsigned int spin_us;      /* adaptive: microseconds to spin at most, fewer
                                  while news take longer than that; 200. At
                                  least 2,000 where the transport has no
                                  descriptor to sleep on (MPI, some of
                                  libfabric's) */
    na_bool_t progress_thread; /* a thread of the library serves peers'
                                  RMA while the application computes */
    size_t max_queue_bytes;    /* messages without a receive, about 80 bytes
                                  more for each, in the class; 64 MiB. Peers
                                  share it: one alone may use all, all
                                  together at most twice as much. Past it self
                                  and sm hold the sender back, others drop and
                                  count ("msg_dropped"), as sm does with what
                                  a dead peer left */
    unsigned int lookup_ms;    /* until a silent peer is unreachable; 5000.
                                  Over most providers of libfabric one that
                                  refuses is silent, too. ZeroMQ closes an
                                  accepted connection that says no HELLO
                                  within lookup_ms and half a second */
    unsigned int death_ms;     /* until a silent connection is dead; 5000;
                                  over libfabric at least 1000. sm and ZeroMQ
                                  notice at once when a peer's process ends,
                                  libfabric only by this silence. Over sm
                                  nothing is said to tell the living: a peer
                                  lives as long as its process */
    size_t rma_frame_size;     /* emulated RMA: bytes in a frame; 512 KiB.
                                  Over MPI at most 16 MiB */
    size_t rma_window;         /* emulated RMA: bytes on their way to and
                                  from a peer; 8 frames */
    na_bool_t force_rma_emulation; /* also where the transport has RMA */
    const char *curve_secret_key;  /* keys, in files */
    const char *curve_server_key;
    const char *curve_allow_dir;
};

#define NA_INIT_INFO_INITIALIZER \
    { \
        sizeof(struct na_init_info), HG_NULLPTR, HG_NULLPTR, 0, 0, 0, \
            NA_ADDR_UNSPEC, 0, 0, NA_FALSE, 0, NA_WAIT_ADAPTIVE, 0, NA_FALSE, \
            0, 0, 0, 0, 0, NA_FALSE, HG_NULLPTR, HG_NULLPTR, HG_NULLPTR \
    }

/* ---- Classes and contexts ---- */

/*
 * fork: a child has no part in its parent's classes, whatever their transport,
 * whichever threads were inside, and the parent and its peers do not notice it.
 * In the child, whatever is tried with them, with their contexts, addresses and
 * memory handles, also to free them, is NA_FAULT at once, with one line in the
 * log for each class (or NULL, 0, NA_FALSE, -1, as the function fails). It may
 * open classes of its own, may end with exit, and what it executes inherits no
 * descriptor. A callback that forks does not return in the child.
 */

/* Open the transport that `info_string` names. With `listen` peers can look
 * the class up; without, it can only call others (who can answer, and move
 * its memory). NULL on failure, with the cause in the log. Repeatable: up to
 * 256 are open at a time. */
NA_EXPORT na_class_t *NA_Initialize(
    const char *info_string, na_bool_t listen) NA_WARN_UNUSED_RESULT;

/* The same with options (copied, NULL for none). */
NA_EXPORT na_class_t *NA_Initialize_opt(const char *info_string,
    na_bool_t listen, const struct na_init_info *info) NA_WARN_UNUSED_RESULT;

/* Open mpi+static:// in a communicator of one group; NULL: MPI_COMM_WORLD. No
 * other process is waited for. The communicator must stay until NA_Finalize.
 * In it, and in MPI_COMM_WORLD if mpi+static:// is opened by other functions,
 * the application uses no tags from 16384 on, and does not receive with
 * MPI_ANY_TAG. `flags` is 0 or NA_MPI_LISTEN. For programs that include mpi.h
 * before hg.h, and are built with hg_na_mpi.c. From the design of 2013
 * (na_mpi_init). NA_MPI_Init_opt takes options, as NA_Initialize_opt does; in
 * the callback model struct hg_init_info takes the class. */
#define NA_MPI_LISTEN 0x01
#ifdef MPI_VERSION
NA_EXPORT na_class_t *NA_MPI_Init(
    MPI_Comm *intra_comm, int flags) NA_WARN_UNUSED_RESULT;
NA_EXPORT na_class_t *NA_MPI_Init_opt(MPI_Comm *intra_comm, int flags,
    const struct na_init_info *info) NA_WARN_UNUSED_RESULT;
#endif

/* Close a class. NA_BUSY while the application's own contexts live, or the RPC
 * or bulk layer is on it: HG_Finalize comes first. NA_INVALID_ARG for one that
 * is closed already. Leaked addresses and memory handles are released, with
 * one warning. Blocks while accepted sends leave, briefly. */
NA_EXPORT na_return_t NA_Finalize(na_class_t *na_class);

/* "self", "zmq", ... and "self", "tcp", ...; owned by the class. NULL for
 * a NULL class. */
NA_EXPORT const char *NA_Get_class_name(const na_class_t *na_class);
NA_EXPORT const char *NA_Get_class_protocol(const na_class_t *na_class);
NA_EXPORT na_bool_t NA_Is_listening(const na_class_t *na_class);

/* 1: messages and RMA operations to one peer take effect in the order they
 * were started. 0: RMA operations in flight together may overtake each other;
 * messages of one plane and one tag keep their order all the same. */
NA_EXPORT int NA_Get_ordering(const na_class_t *na_class);

/* ---- Addresses ---- */

/* An address whose peer was lost (NA_DISCONNECT) is dead for good, even if the
 * peer is back or was only cut off: it is freed, and the peer looked up
 * again. An address that was never connected stays usable: each use connects
 * anew. Until it is connected only NA_Addr_cmp compares it by its name; no
 * message of another address is taken for one of its peer. */

/* The same, blocking for at most timeout_ms (NA_TIMEOUT, logged) or until a
 * signal (NA_INTR); needs no context, and runs no callback of the
 * application's. So who stays silent is NA_TIMEOUT with lookup_ms or less,
 * and NA_HOSTUNREACH with half a second more; sooner, if an earlier lookup has
 * begun to wait for the same peer. */
NA_EXPORT na_return_t NA_Addr_lookup_wait(na_class_t *na_class,
    const char *name, unsigned int timeout_ms, na_addr_t *addr);

/* Resolve a name, without connecting: the first use of the address connects,
 * and fails with the code that NA_Addr_lookup would give. A host's name may
 * need a name server. Returns NA_SUCCESS with a reference in *addr;
 * NA_HOSTUNREACH: no such host; NA_INVALID_ARG and NA_PROTONOSUPPORT as
 * NA_Addr_lookup. */
NA_EXPORT na_return_t NA_Addr_resolve(
    na_class_t *na_class, const char *name, na_addr_t *addr);

/* Drop a reference. Operations in flight keep theirs. NA_INVALID_ARG: the
 * application has none, as of what HG_Handler_get_addr gives. */
NA_EXPORT na_return_t NA_Addr_free(na_class_t *na_class, na_addr_t addr);

/* A reference to the class's own address, listening or not. */
NA_EXPORT na_return_t NA_Addr_self(na_class_t *na_class, na_addr_t *addr);

/* Another reference. */
NA_EXPORT na_return_t NA_Addr_dup(
    na_class_t *na_class, na_addr_t addr, na_addr_t *new_addr);

NA_EXPORT na_bool_t NA_Addr_is_self(na_class_t *na_class, na_addr_t addr);

/* Whether both are of the same peer: one process, by whatever name or
 * connection. A process that listens where a peer died is another
 * peer. */
NA_EXPORT na_bool_t NA_Addr_cmp(
    na_class_t *na_class, na_addr_t addr1, na_addr_t addr2);

/* Write the address as a string with its NUL. NA_MSGSIZE: buf_size is too
 * small; NA_MAX_ADDR_LEN always suffices. */
NA_EXPORT na_return_t NA_Addr_to_string(
    na_class_t *na_class, char *buf, na_size_t buf_size, na_addr_t addr);
