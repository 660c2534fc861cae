/* SPDX-License-Identifier: BSD-3-Clause */
/* ==== NA: the network layer ============================================= */
/**
 * @defgroup hg_na NA: the network layer
 *
 * Messages and remote memory without calls. Most programs do not need this
 * section: they open a class, look peers up, and call functions.
 *
 * A class is an endpoint of one transport. A context is a queue of
 * completions. NA_Progress() moves data and queues completions. NA_Trigger()
 * runs their callbacks, with no lock of the library held.
 *
 * A function that starts an operation returns NA_SUCCESS or the code of its
 * failure. After NA_SUCCESS the callback runs exactly once, inside
 * NA_Trigger() on the context of the operation, never inside the function that
 * started it. After a failure no callback runs. The callback may be NULL. Only
 * NA_Msg_multi_recv_unexpected() has a callback that runs more than once.
 *
 * An operation holds its own references of addresses. Its buffers and memory
 * handles must stay valid until its callback runs. `*op_id` is written before
 * the callback can run; it is NA_OP_ID_NULL after a failure.
 *
 * Every function may be called from any thread. The last use of an object must
 * not run at the same time as another use of it. Wrong arguments (NULL, an
 * object of another class, a destroyed class or context) give NA_INVALID_ARG.
 * Functions that return no code return NULL, 0 or NA_FALSE. NA_AGAIN also means
 * that the process has no descriptor left (RLIMIT_NOFILE). In a child of fork,
 * everything of the parent gives NA_FAULT.
 *
 * The library does not detect the use of a freed memory handle, of an address
 * without references, or of a destroyed context in NA_Trigger().
 *
 * Callbacks come from the Mercury design report, "Network Abstraction Layer
 * API"; the requirements on a transport from the Nemesis Network Module API.
 * @{
 */

/** Access of peers: they may read the memory. */
#define NA_MEM_READ_ONLY 0x01
/** Access of peers: they may write the memory. */
#define NA_MEM_WRITE_ONLY 0x02
/** Access of peers: they may read and write the memory. */
#define NA_MEM_READWRITE 0x03

/** One contiguous piece of memory. */
struct na_segment {
    void *address;  /**< where it begins */
    na_size_t size; /**< bytes */
};

/** The kind of a completed operation. */
typedef enum na_cb_type {
    NA_CB_LOOKUP,
    NA_CB_SEND_UNEXPECTED,
    NA_CB_RECV_UNEXPECTED,
    NA_CB_SEND_EXPECTED,
    NA_CB_RECV_EXPECTED,
    NA_CB_PUT,
    NA_CB_GET,
    NA_CB_TERMINATE,
    NA_CB_PUT_NOTIFY,
    NA_CB_MULTI_RECV_UNEXPECTED
} na_cb_type_t;

/** The result of NA_Addr_lookup(). */
struct na_cb_info_lookup {
    na_addr_t addr; /**< a reference; the callback frees it, now or later */
};

/** The result of NA_Msg_recv_unexpected(). */
struct na_cb_info_recv_unexpected {
    na_size_t actual_buf_size; /**< bytes received */
    na_addr_t source; /**< a reference; the callback frees it, now or later */
    na_tag_t tag;     /**< the tag that the sender gave */
};

/** A result of NA_Msg_multi_recv_unexpected(). */
struct na_cb_info_multi_recv_unexpected {
    na_size_t actual_buf_size; /**< bytes received */
    na_addr_t source; /**< valid until the callback returns; NA_Addr_dup() */
    na_tag_t tag;     /**< the tag that the sender gave */
    void *actual_buf; /**< the message, in the buffer of the receive */
    na_bool_t last;   /**< the receive has ended; set for all codes */
};

/** The result of NA_Msg_recv_expected(). */
struct na_cb_info_recv_expected {
    na_size_t actual_buf_size; /**< bytes received */
};

/** The argument of a callback; valid until the callback returns. */
struct na_cb_info {
    void *arg;         /**< as it was given to the operation */
    na_return_t ret;   /**< the result of the operation */
    na_cb_type_t type; /**< the kind of operation */
    union {
        struct na_cb_info_lookup lookup;
        struct na_cb_info_recv_unexpected recv_unexpected;
        struct na_cb_info_multi_recv_unexpected multi_recv_unexpected;
        struct na_cb_info_recv_expected recv_expected;
    } info; /**< set if `ret` is NA_SUCCESS */
};

/**
 * Receive the result of an operation.
 *
 * The return value is ignored. A callback may start operations, make progress
 * and free what it owns. It must not call NA_Trigger() or NA_Context_destroy()
 * for the context it runs on.
 */
typedef na_return_t (*na_cb_t)(const struct na_cb_info *info);

/* ---- Contexts ---- */

/**
 * Create a context: a queue of completions.
 *
 * @param na_class  the class.
 * @return the context, or NULL on failure; the log has the cause.
 * @lifetime until NA_Context_destroy(), which comes before NA_Finalize().
 */
NA_EXPORT na_context_t *NA_Context_create(
    na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/**
 * Destroy a context.
 *
 * Operations in flight are dropped: their callbacks never run. Their buffers
 * may be used again when the function returns.
 *
 * @param na_class  the class of the context.
 * @param context   the context.
 * @retval NA_SUCCESS      the context is gone.
 * @retval NA_BUSY         a thread makes progress on it, or runs its callbacks.
 * @retval NA_INVALID_ARG  it is NULL, destroyed, or of another class.
 */
NA_EXPORT na_return_t NA_Context_destroy(
    na_class_t *na_class, na_context_t *context);

/* ---- Addresses ---- */

/**
 * Start to look a peer up.
 *
 * The callback gets a reference of the address, or one of these codes:
 * NA_HOSTUNREACH, the peer refuses, or was silent for a little more than
 * `lookup_ms`; NA_PROTOCOL_ERROR, it speaks another version, or claims to be
 * this class; NA_ACCESS, the operating system denies it; NA_PERMISSION, over
 * sm, one of the two users does not allow the other; NA_AGAIN, one side has no
 * descriptor left, or over sm 8,192 peers.
 *
 * A peer that computes and makes no progress is silent. Most providers of
 * libfabric do not report a refusal: there the lookup of an address without a
 * listener takes `lookup_ms`.
 *
 * @param na_class    the class.
 * @param context     where the operation completes.
 * @param callback    runs with the result; may be NULL.
 * @param arg         passed to the callback.
 * @param name        an address string; copied.
 * @param[out] op_id  for NA_Cancel(); NA_OP_ID_IGNORE if it is not needed.
 * @retval NA_SUCCESS           the lookup has started.
 * @retval NA_INVALID_ARG       an argument is NULL, or the name is malformed.
 * @retval NA_PROTONOSUPPORT    the name is of another transport.
 * @retval NA_NOMEM             out of memory.
 */
NA_EXPORT na_return_t NA_Addr_lookup(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const char *name,
    na_op_id_t *op_id);

/**
 * Return the size of a serialized address.
 *
 * @param na_class  the class.
 * @param addr      the address.
 * @return bytes; 0 on failure.
 */
NA_EXPORT na_size_t NA_Addr_get_serialize_size(
    na_class_t *na_class, na_addr_t addr);

/**
 * Write an address as bytes, which are its address string.
 *
 * @param na_class  the class.
 * @param[out] buf  where the bytes go.
 * @param buf_size  bytes at `buf`; at least NA_Addr_get_serialize_size().
 * @param addr      the address.
 * @retval NA_SUCCESS      the bytes are at `buf`.
 * @retval NA_MSGSIZE      the buffer is too small.
 * @retval NA_INVALID_ARG  an argument is NULL.
 */
NA_EXPORT na_return_t NA_Addr_serialize(
    na_class_t *na_class, void *buf, na_size_t buf_size, na_addr_t addr);

/**
 * Look up the peer whose address was serialized.
 *
 * This is NA_Addr_lookup_wait() with a timeout of `lookup_ms`, and returns its
 * codes.
 *
 * @param na_class   the class, of the transport that wrote the bytes.
 * @param[out] addr  a reference of the address.
 * @param buf        the bytes.
 * @param buf_size   their number.
 * @retval NA_SUCCESS         the peer was found.
 * @retval NA_PROTOCOL_ERROR  the bytes are no string.
 * @retval NA_HOSTUNREACH     the peer cannot be reached.
 * @retval NA_TIMEOUT         the peer did not respond in time.
 * @retval NA_INVALID_ARG     an argument is NULL, or the name is malformed.
 */
NA_EXPORT na_return_t NA_Addr_deserialize(
    na_class_t *na_class, na_addr_t *addr, const void *buf, na_size_t buf_size);

/**
 * Close the connection to a peer.
 *
 * Accepted messages are sent first; then NA_CB_TERMINATE completes. The next
 * use of an address that was looked up connects again, if the transport can.
 * Other addresses of the peer are dead. Until then, a lookup of the name may
 * find another address of the same peer. Calls that used the connection end
 * with HG_DISCONNECT. The callback gets NA_DISCONNECT if the peer did not
 * request accepted messages within `death_ms` (MPI): they are lost.
 *
 * @param na_class    the class.
 * @param context     where the operation completes.
 * @param callback    runs when the connection is closed; may be NULL.
 * @param arg         passed to the callback.
 * @param addr        the address.
 * @param[out] op_id  for NA_Cancel(); NA_OP_ID_IGNORE if it is not needed.
 * @retval NA_SUCCESS       closing has started.
 * @retval NA_OPNOTSUPPORT  the transport has no connections.
 * @retval NA_INVALID_ARG   an argument is NULL, or of another class.
 * @source Nemesis Network Module API, "vc_terminate"
 */
NA_EXPORT na_return_t NA_Addr_terminate(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, na_addr_t addr,
    na_op_id_t *op_id);

/* ---- Messages ---- */

/**
 * Return the size of the largest expected message.
 *
 * @param na_class  the class.
 * @return bytes; 0 for NULL.
 */
NA_EXPORT na_size_t NA_Msg_get_max_expected_size(
    na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/**
 * Return the size of the largest unexpected message.
 *
 * @param na_class  the class.
 * @return bytes; 0 for NULL.
 */
NA_EXPORT na_size_t NA_Msg_get_max_unexpected_size(
    na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/**
 * Return the largest tag.
 *
 * @param na_class  the class.
 * @return the tag, 2^k - 1; 0 for NULL.
 */
NA_EXPORT na_tag_t NA_Msg_get_max_tag(
    na_class_t *na_class) NA_WARN_UNUSED_RESULT;

/**
 * Allocate a message buffer.
 *
 * The transport sends from it and receives into it without registering it
 * first.
 *
 * @param na_class  the class.
 * @param size      bytes.
 * @return the buffer, or NULL: out of memory.
 * @lifetime until NA_Msg_buf_free().
 */
NA_EXPORT void *NA_Msg_buf_alloc(na_class_t *na_class, na_size_t size);

/**
 * Free a message buffer.
 *
 * @param na_class  the class.
 * @param buf       a buffer of NA_Msg_buf_alloc().
 * @retval NA_SUCCESS      the buffer is gone.
 * @retval NA_INVALID_ARG  an argument is NULL.
 */
NA_EXPORT na_return_t NA_Msg_buf_free(na_class_t *na_class, void *buf);

/**
 * Send a message that needs no matching receive at the destination.
 *
 * The callback reports that `buf` may be used again, not that the message has
 * arrived. Its result is NA_DISCONNECT if the peer died first. After NA_SUCCESS
 * the message arrives, behind earlier ones, or the connection ends. A receiver
 * that takes no messages makes the send wait: see hg-transports(7), "Messages
 * that are not taken".
 *
 * @param na_class    the class.
 * @param context     where the operation completes.
 * @param callback    runs when the buffer is free; may be NULL.
 * @param arg         passed to the callback.
 * @param buf         the message; borrowed until the callback.
 * @param buf_size    bytes; at most NA_Msg_get_max_unexpected_size().
 * @param dest        the receiver.
 * @param tag         passed to the receiver; at most NA_Msg_get_max_tag().
 * @param[out] op_id  for NA_Cancel(); NA_OP_ID_IGNORE if it is not needed.
 * @retval NA_SUCCESS      the operation has started.
 * @retval NA_MSGSIZE      the message is too large.
 * @retval NA_DISCONNECT   the peer was reached and is gone.
 * @retval NA_HOSTUNREACH  the peer cannot be reached.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, of another class, or the tag is
 *                         too large.
 */
NA_EXPORT na_return_t NA_Msg_send_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const void *buf,
    na_size_t buf_size, na_addr_t dest, na_tag_t tag, na_op_id_t *op_id);

/**
 * Receive an unexpected message from any source, with any tag.
 *
 * The receives of a context are served in the order in which they were posted.
 * A message larger than the buffer is lost, and the callback gets NA_MSGSIZE.
 *
 * @param na_class    the class.
 * @param context     where the operation completes.
 * @param callback    runs with a struct na_cb_info_recv_unexpected.
 * @param arg         passed to the callback.
 * @param[out] buf    where the message goes; borrowed until the callback.
 * @param buf_size    bytes at `buf`.
 * @param[out] op_id  for NA_Cancel(); NA_OP_ID_IGNORE if it is not needed.
 * @retval NA_SUCCESS      the receive is posted.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, or of another class.
 */
NA_EXPORT na_return_t NA_Msg_recv_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    na_size_t buf_size, na_op_id_t *op_id);

/**
 * Receive unexpected messages from any source, with any tag, into one buffer.
 *
 * A message lies behind the one before it, at a multiple of 16 bytes from the
 * start of the buffer. The callback runs for each. It may use the message after
 * it has returned: the buffer belongs to the receive until the callback whose
 * `last` is true. That one comes with the first message that leaves less than
 * NA_Msg_get_max_unexpected_size() of the buffer, or with NA_CANCELED. It runs
 * after the other callbacks of the receive have returned, and may post the
 * buffer again.
 *
 * The receive has its place among those of NA_Msg_recv_unexpected(), and keeps
 * it until it has ended. A message larger than what is left of the buffer is
 * lost: the callback gets NA_MSGSIZE, and the receive goes on. Out of memory
 * it ends early, with a message. NA_Cancel() ends it, behind the messages that
 * have arrived.
 *
 * Give it a buffer of several times NA_Msg_get_max_unexpected_size(): a buffer
 * of just this size ends with each message. `max_unexpected_size` of struct
 * na_init_info makes that size smaller; its default is 64 KiB.
 *
 * @param na_class    the class.
 * @param context     where the messages complete.
 * @param callback    runs with a struct na_cb_info_multi_recv_unexpected.
 * @param arg         passed to the callback.
 * @param[out] buf    where the messages go; borrowed until the last callback.
 * @param buf_size    bytes at `buf`; at least NA_Msg_get_max_unexpected_size().
 * @param[out] op_id  for NA_Cancel(); NA_OP_ID_IGNORE if it is not needed.
 * @retval NA_SUCCESS      the receive is posted.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, or of another class, or the
 *                         buffer is too small.
 * @threads Several threads in NA_Trigger() may run callbacks of one receive at
 *          the same time, except the last one.
 */
NA_EXPORT na_return_t NA_Msg_multi_recv_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    na_size_t buf_size, na_op_id_t *op_id);

/**
 * Send a message to a receive of the same tag and source.
 *
 * A message that arrives before its receive was posted waits at the
 * destination, and beyond `max_queue_bytes` at the sender. Everything else is
 * as with NA_Msg_send_unexpected().
 *
 * @param na_class    the class.
 * @param context     where the operation completes.
 * @param callback    runs when the buffer is free; may be NULL.
 * @param arg         passed to the callback.
 * @param buf         the message; borrowed until the callback.
 * @param buf_size    bytes; at most NA_Msg_get_max_expected_size().
 * @param dest        the receiver.
 * @param tag         the tag of the receive; at most NA_Msg_get_max_tag().
 * @param[out] op_id  for NA_Cancel(); NA_OP_ID_IGNORE if it is not needed.
 * @retval NA_SUCCESS      the operation has started.
 * @retval NA_MSGSIZE      the message is too large.
 * @retval NA_DISCONNECT   the peer was reached and is gone.
 * @retval NA_HOSTUNREACH  the peer cannot be reached.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, of another class, or the tag is
 *                         too large.
 */
NA_EXPORT na_return_t NA_Msg_send_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, const void *buf,
    na_size_t buf_size, na_addr_t dest, na_tag_t tag, na_op_id_t *op_id);

/**
 * Receive the next message from one source with one tag.
 *
 * The source is a process: it may send by any connection, its own or one that
 * this class made. A receive from an address that is not connected connects it,
 * because only an answer from there proves which process it names: the name
 * that a sender claims does not count. Messages that arrive before the proof
 * wait in the queue. Over ZeroMQ and `mpi+dynamic` the peer answers only while
 * it makes progress; over sm, too, if it is in another process namespace, or
 * its own address has another form. If the address cannot be connected, the
 * receive waits. It tries again when another message with its tag arrives that
 * has no receive. NA_Cancel() ends it.
 *
 * The callback gets NA_DISCONNECT if the source dies first, NA_HOSTUNREACH if
 * another operation could not reach the source, and NA_MSGSIZE if the message
 * was larger than the buffer; that message is lost.
 *
 * @param na_class    the class.
 * @param context     where the operation completes.
 * @param callback    runs with a struct na_cb_info_recv_expected.
 * @param arg         passed to the callback.
 * @param[out] buf    where the message goes; borrowed until the callback.
 * @param buf_size    bytes at `buf`.
 * @param source      the sender.
 * @param tag         the tag of the message.
 * @param[out] op_id  for NA_Cancel(); NA_OP_ID_IGNORE if it is not needed.
 * @retval NA_SUCCESS      the receive is posted.
 * @retval NA_DISCONNECT   the source is gone.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, of another class, or the tag is
 *                         too large.
 */
NA_EXPORT na_return_t NA_Msg_recv_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg, void *buf,
    na_size_t buf_size, na_addr_t source, na_tag_t tag, na_op_id_t *op_id);

/**
 * Send several segments as one unexpected message.
 *
 * The message is the concatenation of the segments. Everything else is as with
 * NA_Msg_send_unexpected().
 *
 * @param na_class    the class.
 * @param context     where the operation completes.
 * @param callback    runs when the memory is free; may be NULL.
 * @param arg         passed to the callback.
 * @param segments    the array is copied; the memory is borrowed until the
 *                    callback.
 * @param count       segments in the array.
 * @param dest        the receiver.
 * @param tag         passed to the receiver.
 * @param[out] op_id  for NA_Cancel(); NA_OP_ID_IGNORE if it is not needed.
 * @retval NA_SUCCESS      the operation has started.
 * @retval NA_MSGSIZE      the message is too large.
 * @retval NA_DISCONNECT   the peer was reached and is gone.
 * @retval NA_HOSTUNREACH  the peer cannot be reached.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, of another class, or the tag is
 *                         too large.
 */
NA_EXPORT na_return_t NA_Msg_sendv_unexpected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg,
    const struct na_segment *segments, na_size_t count, na_addr_t dest,
    na_tag_t tag, na_op_id_t *op_id);

/**
 * Send several segments as one expected message.
 *
 * The message is the concatenation of the segments. Everything else is as with
 * NA_Msg_send_expected().
 *
 * @param na_class    the class.
 * @param context     where the operation completes.
 * @param callback    runs when the memory is free; may be NULL.
 * @param arg         passed to the callback.
 * @param segments    the array is copied; the memory is borrowed until the
 *                    callback.
 * @param count       segments in the array.
 * @param dest        the receiver.
 * @param tag         the tag of the receive.
 * @param[out] op_id  for NA_Cancel(); NA_OP_ID_IGNORE if it is not needed.
 * @retval NA_SUCCESS      the operation has started.
 * @retval NA_MSGSIZE      the message is too large.
 * @retval NA_DISCONNECT   the peer was reached and is gone.
 * @retval NA_HOSTUNREACH  the peer cannot be reached.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, of another class, or the tag is
 *                         too large.
 */
NA_EXPORT na_return_t NA_Msg_sendv_expected(na_class_t *na_class,
    na_context_t *context, na_cb_t callback, void *arg,
    const struct na_segment *segments, na_size_t count, na_addr_t dest,
    na_tag_t tag, na_op_id_t *op_id);

/**
 * Send an unexpected message now, or not at all.
 *
 * After NA_SUCCESS the message has left `buf`: the memory may be used again at
 * once, and the message arrives behind all sends to `dest` that were started
 * before. No operation is started, and no callback runs.
 *
 * After NA_AGAIN nothing was sent: earlier sends to the peer wait, it has not
 * taken enough of them, or its address is not connected. Make progress and try
 * again, or call NA_Msg_send_unexpected(), which also connects an address of
 * NA_Addr_resolve() and says why that fails: this function need not connect it.
 * NA_Progress() does not end its wait when the message could be sent: call it
 * with a short timeout.
 *
 * @param na_class  the class.
 * @param context   the context that would complete a send.
 * @param buf       the message; borrowed until the return.
 * @param buf_size  bytes; at most NA_Msg_get_max_unexpected_size().
 * @param dest      the receiver.
 * @param tag       passed to the receiver; at most NA_Msg_get_max_tag().
 * @retval NA_SUCCESS      the message was sent.
 * @retval NA_AGAIN        not now; not logged.
 * @retval NA_MSGSIZE      the message is too large.
 * @retval NA_DISCONNECT   the peer was reached and is gone.
 * @retval NA_HOSTUNREACH  the peer cannot be reached.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, of another class, or the tag is
 *                         too large.
 * @source Nemesis Network Module API, "iStartContigMsg"
 */
NA_EXPORT na_return_t NA_Msg_try_send_unexpected(na_class_t *na_class,
    na_context_t *context, const void *buf, na_size_t buf_size, na_addr_t dest,
    na_tag_t tag);

/**
 * Send an expected message now, or not at all.
 *
 * As NA_Msg_try_send_unexpected(), for a message of NA_Msg_send_expected().
 *
 * @param na_class  the class.
 * @param context   the context that would complete a send.
 * @param buf       the message; borrowed until the return.
 * @param buf_size  bytes; at most NA_Msg_get_max_expected_size().
 * @param dest      the receiver.
 * @param tag       the tag of the receive; at most NA_Msg_get_max_tag().
 * @retval NA_SUCCESS      the message was sent.
 * @retval NA_AGAIN        not now; not logged.
 * @retval NA_MSGSIZE      the message is too large.
 * @retval NA_DISCONNECT   the peer was reached and is gone.
 * @retval NA_HOSTUNREACH  the peer cannot be reached.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, of another class, or the tag is
 *                         too large.
 */
NA_EXPORT na_return_t NA_Msg_try_send_expected(na_class_t *na_class,
    na_context_t *context, const void *buf, na_size_t buf_size, na_addr_t dest,
    na_tag_t tag);

/**
 * Send several segments as one unexpected message now, or not at all.
 *
 * The message is the concatenation of the segments. Everything else is as with
 * NA_Msg_try_send_unexpected().
 *
 * @param na_class  the class.
 * @param context   the context that would complete a send.
 * @param segments  the array and its memory are borrowed until the return.
 * @param count     segments in the array.
 * @param dest      the receiver.
 * @param tag       passed to the receiver.
 * @retval NA_SUCCESS  the message was sent.
 * @retval NA_AGAIN    not now; not logged.
 */
NA_EXPORT na_return_t NA_Msg_try_sendv_unexpected(na_class_t *na_class,
    na_context_t *context, const struct na_segment *segments, na_size_t count,
    na_addr_t dest, na_tag_t tag);

/**
 * Send several segments as one expected message now, or not at all.
 *
 * The message is the concatenation of the segments. Everything else is as with
 * NA_Msg_try_send_expected().
 *
 * @param na_class  the class.
 * @param context   the context that would complete a send.
 * @param segments  the array and its memory are borrowed until the return.
 * @param count     segments in the array.
 * @param dest      the receiver.
 * @param tag       the tag of the receive.
 * @retval NA_SUCCESS  the message was sent.
 * @retval NA_AGAIN    not now; not logged.
 */
NA_EXPORT na_return_t NA_Msg_try_sendv_expected(na_class_t *na_class,
    na_context_t *context, const struct na_segment *segments, na_size_t count,
    na_addr_t dest, na_tag_t tag);

/* ---- Remote memory ---- */

/**
 * Describe contiguous memory.
 *
 * The memory stays the application's. A size of 0 is allowed.
 *
 * One handle can stand for all memory of the process, as the local side of
 * NA_Put() and NA_Get(): `buf` is the address 1, `buf_size` is 2^64 - 2. The
 * offset of an object is then its address minus 1. It works over every
 * transport. Providers of libfabric that require registration of local memory
 * (hardware) register the bytes of each put or get, which takes time: create a
 * handle for memory that is used often.
 *
 * @param na_class         the class.
 * @param buf              the memory; must outlive the handle.
 * @param buf_size         bytes.
 * @param flags            what peers may do: one of NA_MEM_...
 * @param[out] mem_handle  the handle.
 * @retval NA_SUCCESS      the handle exists.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, or `flags` is another value.
 * @lifetime until NA_Mem_handle_free().
 */
NA_EXPORT na_return_t NA_Mem_handle_create(na_class_t *na_class, void *buf,
    na_size_t buf_size, unsigned long flags, na_mem_handle_t *mem_handle);

/**
 * Describe memory of several segments.
 *
 * Offsets into the handle count through the segments as if they were
 * contiguous.
 *
 * @param na_class         the class.
 * @param segments         the array is copied, its memory must outlive the
 *                         handle.
 * @param segment_count    segments in the array.
 * @param flags            what peers may do: one of NA_MEM_...
 * @param[out] mem_handle  the handle.
 * @retval NA_SUCCESS       the handle exists.
 * @retval NA_OPNOTSUPPORT  the transport does not take so many segments.
 * @retval NA_NOMEM         out of memory.
 * @retval NA_INVALID_ARG   an argument is NULL, or `flags` is another value.
 * @lifetime until NA_Mem_handle_free().
 */
NA_EXPORT na_return_t NA_Mem_handle_create_segments(na_class_t *na_class,
    struct na_segment *segments, na_size_t segment_count, unsigned long flags,
    na_mem_handle_t *mem_handle);

/**
 * Free a memory handle, and deregister it first if it is registered.
 *
 * @param na_class    the class.
 * @param mem_handle  the handle, of local or remote memory.
 * @retval NA_SUCCESS      the handle is gone.
 * @retval NA_BUSY         an operation of this process uses it.
 * @retval NA_INVALID_ARG  it is NULL, or of another class.
 * @lifetime A freed handle must not be used: it is not detected.
 */
NA_EXPORT na_return_t NA_Mem_handle_free(
    na_class_t *na_class, na_mem_handle_t mem_handle);

/**
 * Let peers reach the memory of a handle.
 *
 * @param na_class    the class.
 * @param mem_handle  a handle of local memory.
 * @retval NA_SUCCESS      peers with the serialized handle reach the memory.
 * @retval NA_EXIST        it is registered already.
 * @retval NA_NOMEM        out of memory, or of what the network registers.
 * @retval NA_INVALID_ARG  it is NULL, of another class, or of remote memory.
 */
NA_EXPORT na_return_t NA_Mem_register(
    na_class_t *na_class, na_mem_handle_t mem_handle);

/**
 * End the access of peers to memory.
 *
 * When the function returns, no operation of a peer reads or writes the memory,
 * and the application may unmap it. Operations under way and later ones end
 * with NA_NOENTRY at the peer. The function waits for data that is already in
 * the network. A peer that does not take that data within 1 s loses its
 * connection.
 *
 * Over sm the peers copy themselves. The function waits for a copy under way,
 * without a limit: a stopped process (SIGSTOP, a debugger) finishes its copy
 * when it continues. After `death_ms` a line in the log names that process.
 * Only peers to which the memory was described are waited for.
 *
 * @param na_class    the class.
 * @param mem_handle  a registered handle.
 * @retval NA_SUCCESS      no peer reaches the memory.
 * @retval NA_NOENTRY      it is not registered, or of remote memory.
 * @retval NA_INVALID_ARG  it is NULL, or of another class.
 */
NA_EXPORT na_return_t NA_Mem_deregister(
    na_class_t *na_class, na_mem_handle_t mem_handle);

/**
 * Return the size of a serialized memory handle.
 *
 * @param na_class    the class.
 * @param mem_handle  a registered handle.
 * @return bytes; 0 on failure.
 */
NA_EXPORT na_size_t NA_Mem_handle_get_serialize_size(
    na_class_t *na_class, na_mem_handle_t mem_handle) NA_WARN_UNUSED_RESULT;

/**
 * Write a registered handle as bytes for a peer.
 *
 * @param na_class    the class.
 * @param[out] buf    where the bytes go.
 * @param buf_size    bytes at `buf`; at least
 *                    NA_Mem_handle_get_serialize_size().
 * @param mem_handle  a registered handle.
 * @retval NA_SUCCESS      the bytes are at `buf`.
 * @retval NA_MSGSIZE      the buffer is too small.
 * @retval NA_INVALID_ARG  an argument is NULL, or the handle is not registered.
 */
NA_EXPORT na_return_t NA_Mem_handle_serialize(na_class_t *na_class, void *buf,
    na_size_t buf_size, na_mem_handle_t mem_handle);

/**
 * Make a handle of remote memory from the bytes of a peer.
 *
 * The bytes are checked.
 *
 * @param na_class         the class.
 * @param[out] mem_handle  the handle of remote memory.
 * @param buf              the bytes.
 * @param buf_size         their number.
 * @retval NA_SUCCESS         the handle exists.
 * @retval NA_PROTOCOL_ERROR  the bytes are malformed.
 * @retval NA_NOMEM           out of memory.
 * @retval NA_INVALID_ARG     an argument is NULL.
 * @lifetime until NA_Mem_handle_free().
 */
NA_EXPORT na_return_t NA_Mem_handle_deserialize(na_class_t *na_class,
    na_mem_handle_t *mem_handle, const void *buf, na_size_t buf_size);

/**
 * Write local memory to remote memory.
 *
 * The callback runs when the data is in the memory of the peer. It is visible
 * there before any message that is sent later. After a failure, a part of the
 * data may have been written.
 *
 * The callback may get NA_OVERFLOW and NA_PERMISSION, decided by the peer;
 * NA_NOENTRY, the memory is not registered any more; NA_FAULT, memory of one
 * side cannot be accessed; NA_AGAIN, the peer has too many transfers of this
 * process; NA_DISCONNECT, the peer is gone. Over libfabric a transfer of 0
 * bytes succeeds without asking the peer. Over sm, where the kernel does not
 * copy, it waits behind messages that the peer does not take.
 *
 * @param na_class           the class.
 * @param context            where the operation completes.
 * @param callback           runs with the result; may be NULL.
 * @param arg                passed to the callback.
 * @param local_mem_handle   local memory; need not be registered.
 * @param local_offset       bytes from its begin.
 * @param remote_mem_handle  of NA_Mem_handle_deserialize().
 * @param remote_offset      bytes from its begin.
 * @param data_size          bytes to move.
 * @param remote_addr        the peer that owns the remote memory.
 * @param[out] op_id         for NA_Cancel(); NA_OP_ID_IGNORE if not needed.
 * @retval NA_SUCCESS      the operation has started.
 * @retval NA_OVERFLOW     it reaches past the end of a handle.
 * @retval NA_PERMISSION   the flags of a handle forbid it.
 * @retval NA_DISCONNECT   the peer was reached and is gone.
 * @retval NA_HOSTUNREACH  the peer cannot be reached.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, of another class, or a handle is
 *                         of the wrong side.
 */
NA_EXPORT na_return_t NA_Put(na_class_t *na_class, na_context_t *context,
    na_cb_t callback, void *arg, na_mem_handle_t local_mem_handle,
    na_offset_t local_offset, na_mem_handle_t remote_mem_handle,
    na_offset_t remote_offset, na_size_t data_size, na_addr_t remote_addr,
    na_op_id_t *op_id);

/**
 * Read remote memory into local memory.
 *
 * The codes of the callback are those of NA_Put().
 *
 * @param na_class           the class.
 * @param context            where the operation completes.
 * @param callback           runs when the data is in local memory.
 * @param arg                passed to the callback.
 * @param local_mem_handle   local memory; need not be registered.
 * @param local_offset       bytes from its begin.
 * @param remote_mem_handle  of NA_Mem_handle_deserialize().
 * @param remote_offset      bytes from its begin.
 * @param data_size          bytes to move.
 * @param remote_addr        the peer that owns the remote memory.
 * @param[out] op_id         for NA_Cancel(); NA_OP_ID_IGNORE if not needed.
 * @retval NA_SUCCESS      the operation has started.
 * @retval NA_OVERFLOW     it reaches past the end of a handle.
 * @retval NA_PERMISSION   the flags of a handle forbid it.
 * @retval NA_DISCONNECT   the peer was reached and is gone.
 * @retval NA_HOSTUNREACH  the peer cannot be reached.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, of another class, or a handle is
 *                         of the wrong side.
 */
NA_EXPORT na_return_t NA_Get(na_class_t *na_class, na_context_t *context,
    na_cb_t callback, void *arg, na_mem_handle_t local_mem_handle,
    na_offset_t local_offset, na_mem_handle_t remote_mem_handle,
    na_offset_t remote_offset, na_size_t data_size, na_addr_t remote_addr,
    na_op_id_t *op_id);

/**
 * Write local memory to remote memory, then deliver an unexpected message.
 *
 * The owner of the memory receives the message with NA_Msg_recv_unexpected().
 * When it gets the message, the data is in the memory. Other messages may come
 * before or after. The callback runs when the data is in the memory and the
 * message was sent. It gets the type NA_CB_PUT_NOTIFY.
 *
 * The result is the code of the first failure. If the put fails, the message is
 * not sent. If the message cannot be sent, the data is in the memory. Over
 * ZeroMQ the message follows the data without waiting for the owner's answer,
 * which saves a round trip. There it may also arrive if the owner refuses the
 * data, because it has withdrawn the memory or cannot access it, or after
 * NA_Cancel().
 *
 * The codes of the callback are those of NA_Put() and NA_Msg_send_unexpected().
 * A failure that is known at once is returned instead.
 *
 * @param na_class           the class.
 * @param context            where the operation completes.
 * @param callback           runs with the result; may be NULL.
 * @param arg                passed to the callback.
 * @param local_mem_handle   as for NA_Put().
 * @param local_offset       as for NA_Put().
 * @param remote_mem_handle  as for NA_Put().
 * @param remote_offset      as for NA_Put().
 * @param data_size          as for NA_Put().
 * @param remote_addr        the peer that owns the memory, and receives the
 *                           message.
 * @param buf                the message; borrowed until the callback.
 * @param buf_size           bytes; at most NA_Msg_get_max_unexpected_size().
 * @param tag                passed to the receiver.
 * @param[out] op_id         for NA_Cancel(); NA_OP_ID_IGNORE if not needed.
 * @retval NA_SUCCESS      the operation has started.
 * @retval NA_MSGSIZE      the message is too large.
 * @retval NA_OVERFLOW     it reaches past the end of a handle.
 * @retval NA_PERMISSION   the flags of a handle forbid it.
 * @retval NA_NOENTRY      the memory is not registered any more.
 * @retval NA_FAULT        memory of one side cannot be accessed.
 * @retval NA_DISCONNECT   the peer was reached and is gone.
 * @retval NA_HOSTUNREACH  the peer cannot be reached.
 * @retval NA_NOMEM        out of memory.
 * @retval NA_INVALID_ARG  an argument is NULL, of another class, a handle is of
 *                         the wrong side, or the tag is too large.
 */
NA_EXPORT na_return_t NA_Put_notify(na_class_t *na_class, na_context_t *context,
    na_cb_t callback, void *arg, na_mem_handle_t local_mem_handle,
    na_offset_t local_offset, na_mem_handle_t remote_mem_handle,
    na_offset_t remote_offset, na_size_t data_size, na_addr_t remote_addr,
    const void *buf, na_size_t buf_size, na_tag_t tag, na_op_id_t *op_id);

/* ---- Memory of the library, and pointers to memory of peers ---- */

/**
 * Allocate memory that peers reach faster than other memory.
 *
 * Over sm peers map it: NA_Mem_map() gives them a pointer, and NA_Put() and
 * NA_Get() copy without a system call. **All** peers can read and write it,
 * with or without a handle: see hg-security(7). A class of sm has 4 GiB of such
 * memory. Beyond that, and over other transports, it is ordinary memory.
 *
 * A page takes memory when it is first accessed, so a large segment with few
 * pages in use costs little.
 *
 * @param na_class  the class.
 * @param size      bytes, at least 1.
 * @return zeroed memory, aligned to 4,096 bytes, or NULL: out of memory, or
 * wrong arguments.
 * @lifetime until NA_Mem_free(). NA_Finalize() frees what is left, with a
 * warning.
 */
NA_EXPORT void *NA_Mem_alloc(
    na_class_t *na_class, na_size_t size) NA_WARN_UNUSED_RESULT;

/**
 * Free memory of NA_Mem_alloc().
 *
 * Free its handles first. A pointer that a peer has mapped stays valid, but
 * this class may allocate its pages again. So peers stop to use it before.
 *
 * @param na_class  the class that allocated it.
 * @param memory    the memory.
 * @retval NA_SUCCESS      the memory is gone.
 * @retval NA_INVALID_ARG  it is no memory of this class, or was freed.
 */
NA_EXPORT na_return_t NA_Mem_free(na_class_t *na_class, void *memory);

/**
 * Get a pointer to memory of a peer, to load and store it directly.
 *
 * It works over sm, for memory of the owner's NA_Mem_alloc(), and bulk memory
 * that its library allocated, in one contiguous piece. Memory of this process
 * in one segment is not mapped: the pointer is its address, except over
 * libfabric. In a class with several transports, the one that reaches the owner
 * decides. The owner may be of another user that `auth_key` lets in.
 *
 * A store through the pointer is a plain store. The owner sees it as that of
 * another thread: order stores with atomic operations, or send a message after
 * them.
 *
 * The pointer stays valid until NA_Mem_unmap(), also when a handle is freed, or
 * when the owner deregisters the memory or ends. Accesses never raise SIGBUS,
 * because the owner cannot shrink the memory. When the owner frees it, its
 * content becomes undefined.
 *
 * @param na_class           the class.
 * @param remote_mem_handle  of NA_Mem_handle_deserialize().
 * @param owner              the address of the peer that owns the memory.
 * @param[out] ptr           its first byte.
 * @retval NA_SUCCESS         the pointer is valid. If the handle of a peer has
 *                            the flag NA_MEM_READ_ONLY, a store raises SIGSEGV.
 * @retval NA_OPNOTSUPPORT    the memory cannot be mapped: use NA_Put() and
 *                            NA_Get(). Not logged.
 * @retval NA_AGAIN           the owner is not connected: send it a message, or
 *                            look it up. Not logged.
 * @retval NA_NOENTRY         the owner has not registered such memory.
 * @retval NA_PERMISSION      the handle claims more rights than the memory has.
 * @retval NA_OVERFLOW        the handle is larger than the memory.
 * @retval NA_PROTOCOL_ERROR  the owner's description is malformed.
 * @retval NA_DISCONNECT      the owner is gone.
 * @retval NA_NOMEM           out of memory, or of mappings (vm.max_map_count).
 * @retval NA_INVALID_ARG     an argument is NULL, of another class, or the
 *                            handle was not deserialized.
 * @lifetime until NA_Mem_unmap(). NA_Finalize() unmaps what is left, with a
 * warning.
 */
NA_EXPORT na_return_t NA_Mem_map(na_class_t *na_class,
    na_mem_handle_t remote_mem_handle, na_addr_t owner, void **ptr);

/**
 * Unmap a pointer of NA_Mem_map().
 *
 * @param na_class  the class that mapped it.
 * @param ptr       the pointer.
 * @retval NA_SUCCESS      it is unmapped. Memory of this process stays.
 * @retval NA_INVALID_ARG  it is no pointer of this class, or was unmapped.
 */
NA_EXPORT na_return_t NA_Mem_unmap(na_class_t *na_class, void *ptr);

/* ---- Progress ---- */

/**
 * Move data until a completion is ready for NA_Trigger().
 *
 * It also serves the RMA of peers and messages for other contexts.
 *
 * @param na_class  the class of the context.
 * @param context   the context.
 * @param timeout   milliseconds to wait at most; 0 does not wait.
 * @retval NA_SUCCESS      a completion is ready.
 * @retval NA_TIMEOUT      none came in this time.
 * @retval NA_INTR         a signal handler ran while the thread slept.
 * @retval NA_INVALID_ARG  an argument is NULL, destroyed, or of another class.
 * @threads Any. One thread progresses a context at a time; others wait for its
 * result.
 */
NA_EXPORT na_return_t NA_Progress(
    na_class_t *na_class, na_context_t *context, unsigned int timeout);

/**
 * Move data until a completion is ready, or a flag is set.
 *
 * It is for a thread that waits for an operation, while other threads progress
 * and trigger the context, too. The callback of the operation sets the flag to
 * NA_TRUE with an atomic store. If another thread triggers it, this function
 * returns at once. With NA_Progress(), the thread would wait further.
 *
 * A flag that is set elsewhere than in a callback on this context is noticed
 * late.
 *
 * @code
 * while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
 *     (void) NA_Progress_until(na_class, context, &ended, 1000);
 *     (void) NA_Trigger(context, 0, 1, NULL);
 * }
 * @endcode
 *
 * @param na_class  the class of the context.
 * @param context   the context.
 * @param flag      NA_FALSE or NA_TRUE; read atomically until the return.
 * @param timeout   milliseconds to wait at most; 0 does not wait.
 * @retval NA_SUCCESS      the flag is set, or a completion is ready.
 * @retval NA_TIMEOUT      neither in this time.
 * @retval NA_INTR         a signal handler ran while the thread slept.
 * @retval NA_INVALID_ARG  an argument is NULL, destroyed, or of another class.
 * @threads Any. Several threads may wait, for one flag or for their own.
 */
NA_EXPORT na_return_t NA_Progress_until(na_class_t *na_class,
    na_context_t *context, const na_bool_t *flag, unsigned int timeout);

/**
 * Run callbacks of completed operations.
 *
 * @param context            the context.
 * @param timeout            milliseconds to wait for the first completion.
 * @param max_count          callbacks to run at most.
 * @param[out] actual_count  how many ran; may be NULL.
 * @retval NA_SUCCESS      at least one callback ran, or `max_count` is 0.
 * @retval NA_TIMEOUT      no operation completed in this time.
 * @retval NA_INTR         a signal handler ran while the thread slept.
 * @retval NA_INVALID_ARG  the context is NULL.
 */
NA_EXPORT na_return_t NA_Trigger(na_context_t *context, unsigned int timeout,
    unsigned int max_count, unsigned int *actual_count);

/**
 * Ask an operation to end.
 *
 * The callback runs once in any case, with NA_CANCELED or with the result that
 * came first. That of NA_Msg_multi_recv_unexpected() runs for all messages that
 * have arrived, then with NA_CANCELED.
 *
 * @param na_class  the class of the context.
 * @param context   the context of the operation.
 * @param op_id     the operation.
 * @retval NA_SUCCESS      the callback is to come.
 * @retval NA_NOENTRY      the operation has ended, does not exist, or cannot be
 *                         canceled and ends by itself; not logged.
 * @retval NA_INVALID_ARG  an argument is NULL, destroyed, or of another class.
 */
NA_EXPORT na_return_t NA_Cancel(
    na_class_t *na_class, na_context_t *context, na_op_id_t op_id);

/**
 * Return a descriptor for an event loop.
 *
 * When it is readable, call NA_Progress() with a timeout of 0. Before each
 * sleep on it, call NA_Poll_try_wait().
 *
 * @param na_class  the class of the context.
 * @param context   the context, which owns the descriptor.
 * @return the descriptor, or -1: the transport has none (MPI, libfabric with
 * NA_WAIT_SPIN, some providers), or the system has no epoll.
 */
NA_EXPORT int NA_Poll_get_fd(na_class_t *na_class, na_context_t *context);

/**
 * Ask whether an event loop may sleep on the descriptor of a context.
 *
 * @param na_class  the class of the context.
 * @param context   the context.
 * @return NA_TRUE: it may sleep; NA_FALSE: call NA_Progress() first.
 */
NA_EXPORT na_bool_t NA_Poll_try_wait(
    na_class_t *na_class, na_context_t *context);

/** @} */
