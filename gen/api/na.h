/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== NA: the network abstraction ======================================= */
/*
 * A class is an endpoint of one transport; a context is a place where
 * operations complete. Every operation takes a callback that runs exactly
 * once, inside NA_Trigger on the operation's context, never inside the call
 * that started it. NA_Progress moves data and queues completions; NA_Trigger
 * runs their callbacks, with no lock of the library held.
 *
 * A function that starts an operation returns NA_SUCCESS, and the callback
 * comes; or the code of its failure, and no callback comes. A NULL callback is
 * allowed: nobody wants to hear. An operation keeps references of its own to
 * addresses; buffers and memory handles must stay until its callback. *op_id
 * is written before the callback can run, and holds nothing of use on failure.
 *
 * Wrong arguments (NULL, an object of another class) are NA_INVALID_ARG, or
 * NULL, 0 or NA_FALSE where no code is returned. Whatever fails is told in one
 * line of the log; waits that end by their time or a signal, and an NA_Cancel
 * that comes too late, have not failed. Other output arguments are set only on
 * success. Sizes are bytes, times milliseconds.
 *
 * Where the system gives no descriptor since there are as many as may be,
 * functions of NA and HG that return a code return NA_AGAIN; the line in the
 * log names the limit, nofile. (libzmq keeps descriptors of its own, and tells
 * in its own way.)
 *
 * Every function may be called from any thread at any time, also for one
 * object from several, but for what ends an object: nobody else may be using
 * it then. A thread that is in a function of NA or HG, or in what that calls
 * (a callback, handler or proc), is not to leave it but by returning: not
 * canceled (pthread_cancel), which locks that it holds would outlive, nor by
 * pthread_exit or longjmp. A program that cancels threads disables that
 * around calls (pthread_setcancelstate).
 *
 * Use after the end: classes, contexts and memory handles that are gone are
 * told from those that live, in every function that takes the class with them:
 * wrong arguments. So is, by NA_Addr_free, an address that was freed as often
 * as it was given. Not detected are an address whose last reference is gone,
 * or whose class is closed, and a context that is gone in NA_Trigger.
 *
 * Signals: a signal handler that runs on a thread while it sleeps in a wait of
 * this library ends that wait with NA_INTR, SA_RESTART or not, whatever other
 * threads do. While the thread is awake (NA_WAIT_SPIN never sleeps, adaptive
 * waiting begins so) it does not; who must not miss one waits with a finite
 * timeout.
 *
 * Address strings: [plugin+]protocol://[host][:port] or
 * [plugin+]protocol://name.
 *
 *   self://                             this process only
 *   sm://name, sm:///path               this node, by shared memory (Linux)
 *   na+sm://...                         the same, as Mercury calls it
 *   tcp://host:port, zmq+tcp://...      ZeroMQ over TCP (hg_na_zmq.c)
 *   zmq+ipc:///path, zmq+inproc://name  ZeroMQ, one node or one process
 *   mpi+static://RANK                   MPI, one job (hg_na_mpi.c)
 *   mpi+dynamic://                      MPI, several jobs; the library picks
 *   ofi+tcp://host:port, ofi+verbs://interface:port, ofi+cxi://device, ...
 *                                       libfabric (hg_na_ofi.c): the README,
 *                                       "Clusters", lists the providers
 *
 * NULL or "" names the default transport: "sm://" where there is one, else
 * "self://". Opening a class, "://" may be left out with all behind it: "sm",
 * "zmq+tcp". sm:// alone: the library picks a name. A class opened as na+sm has
 * addresses that begin with na+sm://, as in Mercury; lookups accept both. A
 * class that does not listen ignores the name. No port or port 0: the
 * system picks one. Over ZeroMQ, no host is loopback, and 0.0.0.0, * and [::]
 * bind every interface. Over libfabric, each of these is the first interface
 * that others can reach, a host may be the name of an interface, and a class
 * that does not listen uses the interface that is named. zmq+ipc://path is
 * relative to the working directory, @name is one of Linux's abstract names;
 * without a path a listener makes hg-<process>-<random> in $TMPDIR, if that
 * begins with '/', else in /tmp. NA_Finalize removes the socket. A process that
 * is killed leaves it; who listens there next takes its place. Over ofi+shm it
 * leaves files of 16 MiB in /dev/shm.
 *
 * Several in one class: "zmq+tcp://host:0;sm://", up to four, each of another
 * protocol. A semicolon separates where a scheme and "://" stand behind it. The
 * class listens on all of them, its address string names them all, and classes
 * of any one of them can look that up. A class of several that looks a peer up
 * goes by sm where the peer is on this node, is a class of several as well, and
 * listens there; else by the first of the peer's addresses that it speaks. It
 * does not try another when that one fails. sm://
 * without a name need not be told: it is found by each of the other addresses
 * as NA_Addr_self writes them, and is not in the string. Two addresses of one
 * peer by different protocols do not compare as equal.
 *
 * Over sm:// peers map memory that the library allocates for bulk handles, all
 * blocks at a time: READ_ONLY ones to read, the others to write, too. The
 * application's own they copy by the kernel's process_vm_readv and writev.
 * Where Yama (ptrace_scope 1) lets only ancestors do that, a process with
 * HG_SM_RMA=vm in its environment lets in all processes of its user
 * (PR_SET_PTRACER) when it opens a class, and an info line tells.
 *
 * Callbacks come from the Mercury design report, "Network Abstraction Layer
 * API"; what a transport must offer, from the Nemesis Network Module API.
 */

/* What a peer (and the local side of a transfer) may do to memory. */
#define NA_MEM_READ_ONLY 0x01  /* it can only be the source of data */
#define NA_MEM_WRITE_ONLY 0x02 /* it can only be the destination */
#define NA_MEM_READWRITE 0x03

struct na_segment {
    void *address;
    na_size_t size;
};

typedef enum na_cb_type {
    NA_CB_LOOKUP,
    NA_CB_SEND_UNEXPECTED,
    NA_CB_RECV_UNEXPECTED,
    NA_CB_SEND_EXPECTED,
    NA_CB_RECV_EXPECTED,
    NA_CB_PUT,
    NA_CB_GET,
    NA_CB_TERMINATE
} na_cb_type_t;

struct na_cb_info_lookup {
    na_addr_t addr;
};

struct na_cb_info_recv_unexpected {
    na_size_t actual_buf_size;
    na_addr_t source;
    na_tag_t tag;
};

struct na_cb_info_recv_expected {
    na_size_t actual_buf_size;
};

/* The argument of a callback. `info` holds values only when ret is NA_SUCCESS.
 * The struct is borrowed; `lookup.addr` and `recv_unexpected.source` are
 * references that the callback's owner frees with NA_Addr_free. */
struct na_cb_info {
    void *arg;
    na_return_t ret;
    na_cb_type_t type;
    union {
        struct na_cb_info_lookup lookup;
        struct na_cb_info_recv_unexpected recv_unexpected;
        struct na_cb_info_recv_expected recv_expected;
    } info;
};

/* The return value is ignored. A callback may start operations, progress and
 * free what it owns; NA_Trigger and NA_Context_destroy are not for the context
 * it runs on. */
typedef na_return_t (*na_cb_t)(const struct na_cb_info *info);

/* ---- Contexts ---- */

/* A place for completions. NULL on failure. */
NA_EXPORT na_context_t *NA_Context_create(
    na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/* NA_BUSY while a thread progresses it or its callbacks run. Operations still
 * in flight are abandoned: their callbacks never run, and their buffers are
 * the application's again on return. */
NA_EXPORT na_return_t NA_Context_destroy(
    na_class_t *na_class, na_context_t *context);

/* ---- Addresses ---- */

/* Find a peer. NA_CB_LOOKUP completes with a reference to its address;
 * NA_HOSTUNREACH when it refuses, hangs up, or has stayed silent for a little
 * more than lookup_ms, be it a host or a program of another kind. Most
 * providers of libfabric (tcp, tcp;ofi_rxm, udp, ...) do not tell that a peer
 * refuses: there a lookup of nobody always takes lookup_ms. The other codes:
 * NA_PROTOCOL_ERROR when it speaks another version; NA_AGAIN when it, or this
 * process, has no descriptor left, or over sm:// 8,192 peers; NA_ACCESS when
 * the system's rights keep us from it; NA_PERMISSION, over sm://, when one of
 * the two users does not let the other in. A peer that computes is silent
 * meanwhile: it is waited for as long. `name` is copied. A malformed name is
 * NA_INVALID_ARG at once, another transport's NA_PROTONOSUPPORT. */
NA_EXPORT na_return_t NA_Addr_lookup(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const char *name,
    na_op_id_t *op_id);

/* An address as bytes, which are its string, that another process of the same
 * transport turns back into one. Deserializing is NA_Addr_lookup_wait for
 * lookup_ms; NA_PROTOCOL_ERROR: the bytes are no string. */
NA_EXPORT na_size_t NA_Addr_get_serialize_size(
    na_class_t *na_class, na_addr_t addr);
NA_EXPORT na_return_t NA_Addr_serialize(
    na_class_t *na_class, void *buf, na_size_t buf_size, na_addr_t addr);
NA_EXPORT na_return_t NA_Addr_deserialize(
    na_class_t *na_class, na_addr_t *addr, const void *buf, na_size_t buf_size);

/* Close the connection behind an address: sends already accepted leave
 * first, then NA_CB_TERMINATE completes. The next use of an address that was
 * looked up connects anew, where the transport can; any other is dead. Until
 * then a lookup of its name may find another address of the same peer. Calls
 * that went by the old connection end with HG_DISCONNECT. NA_OPNOTSUPPORT: the
 * transport has no connections. Nemesis Network Module API, "vc_terminate". */
NA_EXPORT na_return_t NA_Addr_terminate(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, na_addr_t addr,
    na_op_id_t *op_id);

/* ---- Messages ---- */

NA_EXPORT na_size_t NA_Msg_get_max_expected_size(
    na_class_t *na_class) NA_WARN_UNUSED_RESULT;
NA_EXPORT na_size_t NA_Msg_get_max_unexpected_size(
    na_class_t *na_class) NA_WARN_UNUSED_RESULT;
NA_EXPORT na_tag_t NA_Msg_get_max_tag(
    na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/* A buffer a transport can send from or receive into without registering it
 * first. NULL: out of memory. Freed with NA_Msg_buf_free. */
NA_EXPORT void *NA_Msg_buf_alloc(na_class_t *na_class, na_size_t size);
NA_EXPORT na_return_t NA_Msg_buf_free(na_class_t *na_class, void *buf);

/* Send a message that the destination need not have posted a receive for.
 * `buf` must stay until the callback, which says that it may be used again,
 * not that the message arrived. NA_MSGSIZE: larger than the maximum;
 * NA_DISCONNECT, NA_HOSTUNREACH: the peer is known to be gone. */
NA_EXPORT na_return_t NA_Msg_send_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const void *buf,
    na_size_t buf_size, na_addr_t dest, na_tag_t tag, na_op_id_t *op_id);

/* Receive an unexpected message of any source and tag. A message larger than
 * buf_size completes the receive with NA_MSGSIZE and is lost. Several receives
 * of a context are served in the order they were posted. */
NA_EXPORT na_return_t NA_Msg_recv_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    na_size_t buf_size, na_op_id_t *op_id);

/* Send to a receive that the destination posts for this tag and source; the
 * rest is as above. A message that comes before its receive waits, up to the
 * class's limit. */
NA_EXPORT na_return_t NA_Msg_send_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const void *buf,
    na_size_t buf_size, na_addr_t dest, na_tag_t tag, na_op_id_t *op_id);

/* Receive the next message of `tag` from `source`; NA_DISCONNECT when the
 * source dies first. Too large a message: as above. */
NA_EXPORT na_return_t NA_Msg_recv_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    na_size_t buf_size, na_addr_t source, na_tag_t tag, na_op_id_t *op_id);

/* Send the concatenation of `count` segments; the array is copied, the
 * memory must stay until the callback. */
NA_EXPORT na_return_t NA_Msg_sendv_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg,
    const struct na_segment *segments, na_size_t count, na_addr_t dest,
    na_tag_t tag, na_op_id_t *op_id);
NA_EXPORT na_return_t NA_Msg_sendv_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg,
    const struct na_segment *segments, na_size_t count, na_addr_t dest,
    na_tag_t tag, na_op_id_t *op_id);

/* ---- Remote memory ---- */

/* Describe memory. It stays the application's and must outlive the handle.
 * A buffer of size 0 is allowed. `flags` is one of NA_MEM_..., else
 * NA_INVALID_ARG. The segments array is copied. */
NA_EXPORT na_return_t NA_Mem_handle_create(na_class_t *na_class, void *buf,
    na_size_t buf_size, unsigned long flags, na_mem_handle_t *mem_handle);
NA_EXPORT na_return_t NA_Mem_handle_create_segments(na_class_t *na_class,
    struct na_segment *segments, na_size_t segment_count, unsigned long flags,
    na_mem_handle_t *mem_handle);

/* Free a handle, deregistering it first if need be. NA_BUSY while a local
 * operation uses it. */
NA_EXPORT na_return_t NA_Mem_handle_free(
    na_class_t *na_class, na_mem_handle_t mem_handle);

/* Let peers reach the memory. Registering twice is NA_EXIST. */
NA_EXPORT na_return_t NA_Mem_register(
    na_class_t *na_class, na_mem_handle_t mem_handle);

/* Withdraw the memory. When the call returns no peer's operation reads or
 * writes it any more, and the application may unmap it; those under way and
 * later ones fail with NA_NOENTRY at the peer. The call waits for data that the
 * network already has. A peer that does not take that data within 1 s loses its
 * connection.
 *
 * Over sm a peer copies by itself, and the call waits for a piece under way,
 * without a limit: a process that is stopped (SIGSTOP, a debugger) finishes its
 * piece when it goes on. After death_ms a line in the log names the process.
 * Only peers to which the memory was described are waited for, until they
 * end. */
NA_EXPORT na_return_t NA_Mem_deregister(
    na_class_t *na_class, na_mem_handle_t mem_handle);

/* A registered handle as bytes for a peer, who deserializes it into a handle
 * of remote memory and frees that with NA_Mem_handle_free. Nothing in the
 * bytes is trusted: NA_PROTOCOL_ERROR when they are malformed. */
NA_EXPORT na_size_t NA_Mem_handle_get_serialize_size(
    na_class_t *na_class, na_mem_handle_t mem_handle) NA_WARN_UNUSED_RESULT;
NA_EXPORT na_return_t NA_Mem_handle_serialize(na_class_t *na_class, void *buf,
    na_size_t buf_size, na_mem_handle_t mem_handle);
NA_EXPORT na_return_t NA_Mem_handle_deserialize(na_class_t *na_class,
    na_mem_handle_t *mem_handle, const void *buf, na_size_t buf_size);

/* Copy data_size bytes from local to remote memory, or back. The local handle
 * need not be registered; the remote one was deserialized. Offsets are
 * logical: into the concatenation of a handle's segments. NA_OVERFLOW: past
 * the end of a handle; NA_PERMISSION: its flags forbid it; both are returned
 * at once where the description tells, else the callback brings the target's
 * verdict, as it does NA_NOENTRY: the memory is not, or no longer, registered;
 * NA_AGAIN: the target has too many transfers of ours; and NA_DISCONNECT. Over
 * libfabric, transfers of 0 bytes succeed without asking the target. A put
 * has completed when the data is in the target's memory and visible to it
 * before any message sent later; one that failed may have written a part. */
NA_EXPORT na_return_t NA_Put(na_class_t *na_class, na_context_t *context,
    na_cb_t callback, void *arg, na_mem_handle_t local_mem_handle,
    na_offset_t local_offset, na_mem_handle_t remote_mem_handle,
    na_offset_t remote_offset, na_size_t data_size, na_addr_t remote_addr,
    na_op_id_t *op_id);
NA_EXPORT na_return_t NA_Get(na_class_t *na_class, na_context_t *context,
    na_cb_t callback, void *arg, na_mem_handle_t local_mem_handle,
    na_offset_t local_offset, na_mem_handle_t remote_mem_handle,
    na_offset_t remote_offset, na_size_t data_size, na_addr_t remote_addr,
    na_op_id_t *op_id);

/* ---- Progress ---- */

/* Move data for at most `timeout` ms, until a completion waits for
 * NA_Trigger: NA_SUCCESS. NA_TIMEOUT: none came; a timeout of 0 only looks.
 * NA_INTR: a signal, as above. Serves peers' RMA and messages for other
 * contexts on the way. One thread progresses a context at a time; a second one
 * waits for its result. */
NA_EXPORT na_return_t NA_Progress(
    na_class_t *na_class, na_context_t *context, unsigned int timeout);

/* Run at most max_count callbacks, waiting up to `timeout` ms for the first.
 * NA_SUCCESS with *actual_count >= 1 (0 if max_count is 0), or NA_TIMEOUT or
 * NA_INTR with 0. actual_count may be NULL. */
NA_EXPORT na_return_t NA_Trigger(na_context_t *context, unsigned int timeout,
    unsigned int max_count, unsigned int *actual_count);

/* Ask an operation to end. NA_SUCCESS: its callback comes, once, with
 * NA_CANCELED or the result that won; NA_NOENTRY, not logged: it has ended
 * already, there never was such a one, or it cannot be taken back and ends by
 * itself. */
NA_EXPORT na_return_t NA_Cancel(
    na_class_t *na_class, na_context_t *context, na_op_id_t op_id);

/* A descriptor for an event loop: when it is readable, call NA_Progress with
 * timeout 0. Before each sleep on it ask NA_Poll_try_wait; sleep only when
 * that says NA_TRUE. -1 where the transport has none (ofi with NA_WAIT_SPIN,
 * or over a provider without), or the system no epoll.
 * Owned by the context. */
NA_EXPORT int NA_Poll_get_fd(na_class_t *na_class, na_context_t *context);
NA_EXPORT na_bool_t NA_Poll_try_wait(
    na_class_t *na_class, na_context_t *context);
