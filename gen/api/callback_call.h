/* SPDX-License-Identifier: BSD-3-Clause */
/* ---- Contexts ---- */
/**
 * @defgroup hg_callback_context Contexts
 * @ingroup hg_callback
 *
 * Operations of a context complete on it. A context has an id from 0 to 255. A
 * call goes to the context whose id the client selected with
 * HG_Set_target_id().
 * @{
 */

/**
 * Create a context with the first free id.
 *
 * The id is 0 if the class has no other context. Callers that select no id call
 * context 0.
 *
 * @param hg_class  the class.
 * @return the context, for HG_Context_destroy(); NULL on failure: the class has
 *         max_contexts, or the process has 4,096 NA classes and contexts, of
 *         which each class and each context of this model takes two.
 * @lifetime Until HG_Context_destroy(), before HG_Finalize2().
 */
HG_EXPORT hg_context_t *HG_Context_create(
    hg_class_t *hg_class) HG_WARN_UNUSED_RESULT;

/**
 * Create a context with a given id.
 *
 * @param hg_class  the class.
 * @param id        the id.
 * @return the context, for HG_Context_destroy(); NULL on failure: another
 *         context of the class has the id, or as for HG_Context_create().
 */
HG_EXPORT hg_context_t *HG_Context_create_id(
    hg_class_t *hg_class, uint8_t id) HG_WARN_UNUSED_RESULT;

/**
 * Accept no more calls in a context.
 *
 * Callers get HG_CANCELED. It cannot be undone.
 *
 * @param context  the context.
 * @retval HG_SUCCESS      the context accepts no calls.
 * @retval HG_INVALID_ARG  the context is NULL or destroyed.
 */
HG_EXPORT hg_return_t HG_Context_unpost(hg_context_t *context);

/**
 * Destroy a context.
 *
 * The context accepts no more calls. The calls that it has started end with
 * HG_CANCELED. For at most 5 s the function makes progress and runs callbacks,
 * until all handles of the context are destroyed. Then it frees the context and
 * the data that was set. It stops earlier if the handles that are left are all
 * of HG_Create() and without a call in flight: it waits for no other thread to
 * destroy them. The log line names the first handle and what is missing.
 *
 * @param context  the context.
 * @retval HG_SUCCESS      the context is destroyed.
 * @retval HG_BUSY         a thread makes progress or waits in the context, also
 *                         in HG_Wait_room(), or a callback runs: nothing has
 *                         changed; or handles are left: the context exists, and
 *                         accepts no calls. Destroy them, and call it again.
 * @retval HG_INVALID_ARG  the context is NULL or destroyed.
 * @retval HG_FAULT        the context belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Context_destroy(hg_context_t *context);

/**
 * Get the class of a context.
 *
 * @param context  the context.
 * @return the class; NULL if the context is NULL or destroyed.
 */
HG_EXPORT hg_class_t *HG_Context_get_class(
    const hg_context_t *context) HG_WARN_UNUSED_RESULT;

/**
 * Get the id of a context.
 *
 * @param context  the context.
 * @return the id; 0 if the context is NULL or destroyed.
 */
HG_EXPORT uint8_t HG_Context_get_id(
    const hg_context_t *context) HG_WARN_UNUSED_RESULT;

/**
 * Attach data of the application to a context.
 *
 * @param context        the context.
 * @param data           the data; it replaces earlier data, which is not freed.
 * @param free_callback  HG_Context_destroy() calls it with the data; NULL is
 *                       allowed.
 * @retval HG_SUCCESS      the data is set.
 * @retval HG_INVALID_ARG  the context is NULL or destroyed.
 */
HG_EXPORT hg_return_t HG_Context_set_data(
    hg_context_t *context, void *data, void (*free_callback)(void *));

/**
 * Get the data of HG_Context_set_data().
 *
 * @param context  the context.
 * @return the data; NULL if none was set.
 */
HG_EXPORT void *HG_Context_get_data(
    const hg_context_t *context) HG_WARN_UNUSED_RESULT;

/** @} */

/* ---- Registration ---- */
/**
 * @defgroup hg_callback_register Registration of functions
 * @ingroup hg_callback
 *
 * Both sides of a call register the function. The id of a name is the same on
 * both sides and in both models.
 * @{
 */

/**
 * Register a function by its name.
 *
 * To register the name again replaces the proc functions and the callback.
 *
 * @param hg_class     the class.
 * @param func_name    the name, copied.
 * @param in_proc_cb   the proc function of the input; NULL: no input.
 * @param out_proc_cb  the proc function of the output; NULL: no output.
 * @param rpc_cb       executes the calls; NULL at a client.
 * @return the id; 0 if out of memory, if an argument is NULL, if another name
 *         has the id, or if the name is reserved for the library.
 */
HG_EXPORT hg_id_t HG_Register_name(hg_class_t *hg_class, const char *func_name,
    hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb,
    hg_rpc_cb_t rpc_cb) HG_WARN_UNUSED_RESULT;

/**
 * Register a function by an id of the application.
 *
 * To register the id again replaces the proc functions and the callback. With
 * HG_API_VERSION 2 the name is HG_Register.
 *
 * @param hg_class     the class.
 * @param id           the id, the same on both sides; not 0.
 * @param in_proc_cb   the proc function of the input; NULL: no input.
 * @param out_proc_cb  the proc function of the output; NULL: no output.
 * @param rpc_cb       executes the calls; NULL at a client.
 * @retval HG_SUCCESS      the function is registered.
 * @retval HG_INVALID_ARG  the id is 0, or the class is NULL or closed.
 * @retval HG_NOMEM        out of memory.
 */
HG_EXPORT hg_return_t HG_Register2(hg_class_t *hg_class, hg_id_t id,
    hg_proc_cb_t in_proc_cb, hg_proc_cb_t out_proc_cb, hg_rpc_cb_t rpc_cb);

/**
 * Remove a function, and free its data.
 *
 * Calls of the function end with HG_NOENTRY: those of peers, and those that
 * this class would start.
 *
 * @param hg_class  the class.
 * @param id        the id; its handles must be destroyed before.
 * @retval HG_SUCCESS      the function is removed.
 * @retval HG_NOENTRY      the id is not registered.
 * @retval HG_INVALID_ARG  the class is NULL or closed.
 */
HG_EXPORT hg_return_t HG_Deregister(hg_class_t *hg_class, hg_id_t id);

/**
 * Test whether a name is registered.
 *
 * @param hg_class     the class.
 * @param func_name    the name.
 * @param[out] id_p    the id, also if it is not registered; NULL is allowed.
 * @param[out] flag_p  HG_TRUE if it is registered.
 * @retval HG_SUCCESS      `flag_p` is set.
 * @retval HG_INVALID_ARG  an argument is NULL.
 */
HG_EXPORT hg_return_t HG_Registered_name(hg_class_t *hg_class,
    const char *func_name, hg_id_t *id_p, uint8_t *flag_p);

/**
 * Test whether an id is registered.
 *
 * @param hg_class     the class.
 * @param id           the id.
 * @param[out] flag_p  HG_TRUE if it is registered.
 * @retval HG_SUCCESS      `flag_p` is set.
 * @retval HG_INVALID_ARG  an argument is NULL.
 */
HG_EXPORT hg_return_t HG_Registered(
    hg_class_t *hg_class, hg_id_t id, uint8_t *flag_p);

/**
 * Get the proc functions of an id.
 *
 * @param hg_class            the class.
 * @param id                  the id.
 * @param[out] flag_p         HG_TRUE if it is registered; only then the others
 *                            are set.
 * @param[out] in_proc_cb_p   that of the input; NULL is allowed.
 * @param[out] out_proc_cb_p  that of the output; NULL is allowed.
 * @retval HG_SUCCESS      `flag_p` is set.
 * @retval HG_INVALID_ARG  the class is NULL or closed, or `flag_p` is NULL.
 */
HG_EXPORT hg_return_t HG_Registered_proc_cb(hg_class_t *hg_class, hg_id_t id,
    uint8_t *flag_p, hg_proc_cb_t *in_proc_cb_p, hg_proc_cb_t *out_proc_cb_p);

/**
 * Attach data of the application to a function.
 *
 * @param hg_class       the class.
 * @param id             the id.
 * @param data           the data; it replaces earlier data, which is not freed.
 * @param free_callback  HG_Deregister() or HG_Finalize2() calls it with the
 *                       data; NULL is allowed.
 * @retval HG_SUCCESS      the data is set.
 * @retval HG_NOENTRY      the id is not registered.
 * @retval HG_INVALID_ARG  the class is NULL or closed.
 */
HG_EXPORT hg_return_t HG_Register_data(hg_class_t *hg_class, hg_id_t id,
    void *data, void (*free_callback)(void *));

/**
 * Get the data of HG_Register_data().
 *
 * @param hg_class  the class.
 * @param id        the id.
 * @return the data; NULL if none was set, or the id is not registered.
 */
HG_EXPORT void *HG_Registered_data(
    hg_class_t *hg_class, hg_id_t id) HG_WARN_UNUSED_RESULT;

/**
 * Make calls of a function one-way, or not.
 *
 * A one-way call has no response. The client decides: its call completes when
 * the input has left. In the server HG_Respond() returns HG_OPNOTSUPPORT. A
 * handle gets the setting when it is created or reset.
 *
 * @param hg_class  the class.
 * @param id        the id.
 * @param disable   true: one-way.
 * @retval HG_SUCCESS      it is set.
 * @retval HG_NOENTRY      the id is not registered.
 * @retval HG_INVALID_ARG  the class is NULL or closed.
 */
HG_EXPORT hg_return_t HG_Registered_disable_response(
    hg_class_t *hg_class, hg_id_t id, uint8_t disable);

/**
 * Test whether calls of a function are one-way.
 *
 * @param hg_class         the class.
 * @param id               the id.
 * @param[out] disabled_p  HG_TRUE if they are.
 * @retval HG_SUCCESS      `disabled_p` is set.
 * @retval HG_NOENTRY      the id is not registered.
 * @retval HG_INVALID_ARG  an argument is NULL.
 */
HG_EXPORT hg_return_t HG_Registered_disabled_response(
    hg_class_t *hg_class, hg_id_t id, uint8_t *disabled_p);

/** @} */

/* ---- Addresses ---- */
/**
 * @defgroup hg_callback_addr Addresses
 * @ingroup hg_callback
 *
 * An address stands for a peer. HG_Addr_lookup2() makes one from a string. A
 * server has that of the caller in HG_Get_info(). See hg-transports(7) for the
 * form of address strings.
 * @{
 */

/**
 * Look up a peer and connect to it.
 *
 * The callback gets an address, or the code of the failure: HG_HOSTUNREACH if
 * the peer refuses, hangs up or is silent, HG_AGAIN, HG_ACCESS, HG_PERMISSION,
 * HG_PROTOCOL_ERROR or HG_NOMEM as NA_Addr_lookup_wait() returns them. With
 * HG_API_VERSION 2 the name is HG_Addr_lookup, unless the program defines a
 * macro of that name.
 *
 * @param context        the context.
 * @param callback       called with HG_CB_LOOKUP.
 * @param arg            passed to the callback.
 * @param name           the address string, copied.
 * @param[out] op_id_p   HG_OP_ID_NULL: a lookup cannot be canceled; NULL is
 *                       allowed.
 * @retval HG_SUCCESS      the lookup is started.
 * @retval HG_NODEV        this class cannot read the address string.
 * @retval HG_INVALID_ARG  the address string has no "://", or an argument is
 *                         NULL.
 * @retval HG_NOMEM        out of memory.
 */
HG_EXPORT hg_return_t HG_Addr_lookup1(hg_context_t *context, hg_cb_t callback,
    void *arg, const char *name, hg_op_id_t *op_id_p);

/**
 * Make an address of a name, without connecting.
 *
 * The first call or transfer connects. If that fails, it ends with the code
 * that HG_Addr_lookup1() passes to its callback, and the next one connects
 * again: the address works as soon as the peer listens. Until it is connected,
 * HG_Addr_cmp() compares the address by its name. The function makes no
 * progress and does not block: a host name is resolved by the first call, and
 * again by each new connection.
 *
 * @param hg_class     the class.
 * @param name         the address string.
 * @param[out] addr_p  the address, for HG_Addr_free().
 * @retval HG_SUCCESS      the address is usable.
 * @retval HG_NODEV        this class cannot read the address string.
 * @retval HG_INVALID_ARG  the address string has no "://", or an argument is
 *                         NULL.
 * @retval HG_NOMEM        out of memory.
 * @lifetime Until HG_Addr_free(), before HG_Finalize2().
 */
HG_EXPORT hg_return_t HG_Addr_lookup2(
    hg_class_t *hg_class, const char *name, hg_addr_t *addr_p);

/**
 * Drop a reference to an address.
 *
 * @param hg_class  the class.
 * @param addr      the address; HG_ADDR_NULL does nothing.
 * @retval HG_SUCCESS      the reference is dropped.
 * @retval HG_INVALID_ARG  the application has no reference, as to an address of
 *                         HG_Get_info(), or the address is of another class.
 * @retval HG_FAULT        the class belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Addr_free(hg_class_t *hg_class, hg_addr_t addr);

/**
 * Treat a peer as gone.
 *
 * Use it to act before the library notices the end of a peer (death_ms), or
 * although the peer lives. Calls in flight to it end with HG_DISCONNECT, and so
 * do later calls by this address: free it. A later lookup connects again.
 *
 * It has no effect on the address of the class itself. While an address is
 * being connected it has no effect either: the calls wait for the connection,
 * and HG_Cancel() ends them.
 *
 * @param hg_class  the class.
 * @param addr      the address.
 * @retval HG_SUCCESS      done.
 * @retval HG_INVALID_ARG  the address is NULL or of another class.
 */
HG_EXPORT hg_return_t HG_Addr_set_remove(hg_class_t *hg_class, hg_addr_t addr);

/**
 * Get the address of the class itself.
 *
 * @param hg_class     the class.
 * @param[out] addr_p  a reference, for HG_Addr_free().
 * @retval HG_SUCCESS      `addr_p` is set.
 * @retval HG_INVALID_ARG  an argument is NULL.
 */
HG_EXPORT hg_return_t HG_Addr_self(hg_class_t *hg_class, hg_addr_t *addr_p);

/**
 * Get another reference to an address.
 *
 * @param hg_class         the class.
 * @param addr             the address.
 * @param[out] new_addr_p  a reference, for HG_Addr_free().
 * @retval HG_SUCCESS      `new_addr_p` is set.
 * @retval HG_INVALID_ARG  an argument is NULL, or the address is of another
 *                         class.
 */
HG_EXPORT hg_return_t HG_Addr_dup(
    hg_class_t *hg_class, hg_addr_t addr, hg_addr_t *new_addr_p);

/**
 * Test whether two addresses are of the same peer.
 *
 * A peer is one process, by any name or connection. While one of the addresses
 * is not connected, their names are compared.
 *
 * @param hg_class  the class.
 * @param addr1     an address or HG_ADDR_NULL.
 * @param addr2     another address or HG_ADDR_NULL.
 * @return HG_TRUE if they are, or both are HG_ADDR_NULL.
 */
HG_EXPORT uint8_t HG_Addr_cmp(hg_class_t *hg_class, hg_addr_t addr1,
    hg_addr_t addr2) HG_WARN_UNUSED_RESULT;

/**
 * Write an address as a string.
 *
 * @param hg_class             the class.
 * @param[out] buf             the string with its terminating NUL; NULL: only
 *                             `buf_size_p` is set.
 * @param[in,out] buf_size_p   in: bytes of `buf`; out: bytes of the string with
 *                             its NUL.
 * @param addr                 the address.
 * @retval HG_SUCCESS      done.
 * @retval HG_OVERFLOW     `buf` is too small; `buf_size_p` is set.
 * @retval HG_INVALID_ARG  an argument is NULL, or the address is of another
 *                         class.
 */
HG_EXPORT hg_return_t HG_Addr_to_string(
    hg_class_t *hg_class, char *buf, hg_size_t *buf_size_p, hg_addr_t addr);

/** @} */

/* ---- Handles ---- */
/**
 * @defgroup hg_callback_handle Handles
 * @ingroup hg_callback
 *
 * A handle stands for a call. HG_Create() makes it in the client. In the server
 * the registered function gets it.
 *
 * A handle counts references. HG_Create() returns a handle with one reference,
 * and the function in the server gets one with one reference. HG_Ref_incr(),
 * HG_Get_input() and HG_Get_output() add a reference. HG_Destroy(),
 * HG_Free_input() and HG_Free_output() drop one. An operation holds a reference
 * until its callback has run: a handle can be destroyed right after
 * HG_Forward2() or HG_Respond().
 * @{
 */

/**
 * Create a handle for calls of a function at a peer.
 *
 * The handle holds a reference to the address. It can be used for one call
 * after another.
 *
 * @param context        the context; the callbacks of the handle run there.
 * @param addr           the peer; HG_ADDR_NULL: HG_Reset() sets it later. An
 *                       address that was freed is not detected: the library may
 *                       still use it, then the handle is valid, or its memory
 *                       was freed.
 * @param id             the function; 0: HG_Reset() sets it later.
 * @param[out] handle_p  the handle with one reference, for HG_Destroy().
 * @retval HG_SUCCESS      the handle is created.
 * @retval HG_NOENTRY      the id is not registered.
 * @retval HG_INVALID_ARG  an argument is NULL, or the address is of another
 *                         class.
 * @retval HG_NOMEM        out of memory.
 * @lifetime Until HG_Destroy() has dropped the last reference.
 */
HG_EXPORT hg_return_t HG_Create(
    hg_context_t *context, hg_addr_t addr, hg_id_t id, hg_handle_t *handle_p);

/**
 * Drop a reference to a handle.
 *
 * The last reference frees the handle with its data and messages. A call that
 * arrived and has no response then ends with HG_CANCELED at the caller. While
 * the function of the call runs, it ends with the code that the function
 * returns instead. One additional HG_Destroy() of such a call does nothing and
 * returns HG_SUCCESS: in Mercury it has two references. After the function has
 * returned, this holds until 16 more calls of the context were destroyed
 * without a response, but not for a call that needs none
 * (HG_Registered_disable_response()). From then on it is a mistake, which may
 * end another call.
 *
 * @param handle  the handle; HG_HANDLE_NULL does nothing.
 * @retval HG_SUCCESS      the reference is dropped.
 * @retval HG_INVALID_ARG  there is no reference to drop.
 * @retval HG_FAULT        the handle belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Destroy(hg_handle_t handle);

/**
 * Prepare a handle for another peer or function.
 *
 * The handle becomes as new, with the context id 0 in the server. Its data
 * stays.
 *
 * @param handle  the handle, of HG_Create().
 * @param addr    the peer; HG_ADDR_NULL: as before.
 * @param id      the function; 0: as before.
 * @retval HG_SUCCESS      the handle is reset.
 * @retval HG_BUSY         its call or its callback is not over.
 * @retval HG_NOENTRY      the id is not registered.
 * @retval HG_INVALID_ARG  the handle is NULL, or of a call that arrived; or the
 *                         address is of another class.
 */
HG_EXPORT hg_return_t HG_Reset(hg_handle_t handle, hg_addr_t addr, hg_id_t id);

/**
 * Add a reference to a handle.
 *
 * @param handle  the handle.
 * @retval HG_SUCCESS      the reference is added.
 * @retval HG_INVALID_ARG  the handle is NULL or destroyed.
 */
HG_EXPORT hg_return_t HG_Ref_incr(hg_handle_t handle);

/**
 * Get the number of references to a handle.
 *
 * After the callback of a call, and after HG_Forward2() has failed, it is 1
 * again if the application took no other.
 *
 * @param handle  the handle.
 * @return the number; -1 for HG_HANDLE_NULL.
 */
HG_EXPORT int32_t HG_Ref_get(hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/**
 * Get the properties of a handle: the class, the context, the peer, the id.
 *
 * @param handle  the handle.
 * @return the properties, valid as long as the handle; NULL for HG_HANDLE_NULL.
 */
HG_EXPORT const struct hg_info *HG_Get_info(
    hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/**
 * Attach data of the application to a handle.
 *
 * HG_Reset() keeps the data. In a call to oneself, client and server have a
 * handle each, with its own data. `free_callback` runs in the thread that
 * releases the last reference. That may be a thread that makes progress, in
 * which functions that wait return HG_BUSY. No lock is held.
 *
 * @param handle         the handle.
 * @param data           the data; it replaces earlier data, which is not freed.
 * @param free_callback  called with the data when the handle is freed; NULL is
 *                       allowed.
 * @retval HG_SUCCESS      the data is set.
 * @retval HG_INVALID_ARG  the handle is NULL or destroyed.
 */
HG_EXPORT hg_return_t HG_Set_data(
    hg_handle_t handle, void *data, void (*free_callback)(void *));

/**
 * Get the data of HG_Set_data().
 *
 * @param handle  the handle.
 * @return the data; NULL if none was set.
 */
HG_EXPORT void *HG_Get_data(hg_handle_t handle) HG_WARN_UNUSED_RESULT;

/**
 * Select the context of the server that executes the calls of a handle.
 *
 * Call it before HG_Forward2(). A call to a context that does not exist waits
 * in the server until the context is created.
 *
 * @param handle  the handle, of HG_Create().
 * @param id      the id of HG_Context_create_id(); 0 by default.
 * @retval HG_SUCCESS      the id is set.
 * @retval HG_INVALID_ARG  the handle is NULL, or of a call that arrived.
 */
HG_EXPORT hg_return_t HG_Set_target_id(hg_handle_t handle, uint8_t id);

/** @} */

/* ---- Arguments ---- */
/**
 * @defgroup hg_callback_args Arguments
 * @ingroup hg_callback
 *
 * The server decodes the input of a call and encodes its output. The client
 * encodes the input and decodes the output. Each decoded struct is freed with
 * HG_Free_input() or HG_Free_output(). The other functions are for programs
 * that look at the encoded bytes.
 * @{
 */

/**
 * Get the size of the encoded input of a call.
 *
 * The bytes of HG_Class_set_input_offset() count, as in Mercury, unless the
 * input was too large for the message.
 *
 * @param handle  the handle.
 * @return bytes; 0 if there is no input, or it was released.
 */
HG_EXPORT hg_size_t HG_Get_input_payload_size(hg_handle_t handle);

/**
 * Get the size of the encoded output of a call.
 *
 * The bytes of HG_Class_set_output_offset() count, as in Mercury, unless the
 * output was too large for the message.
 *
 * @param handle  the handle.
 * @return bytes; 0 if there is no output.
 */
HG_EXPORT hg_size_t HG_Get_output_payload_size(hg_handle_t handle);

/**
 * Decode the input of a call that arrived.
 *
 * On success the handle has one more reference, until HG_Free_input(). On
 * failure nothing stays allocated.
 *
 * @param handle          the handle, in the server.
 * @param[out] in_struct  the input.
 * @retval HG_SUCCESS         `in_struct` is set.
 * @retval HG_OVERFLOW        the proc function decodes more than arrived: the
 *                            two sides register different types.
 * @retval HG_CHECKSUM_ERROR  the proc function leaves bytes undecoded, and the
 *                            class has HG_CHECKSUM_RPC_PAYLOAD.
 * @retval HG_PROTOCOL_ERROR  the bytes are not a value of their type.
 * @retval HG_FAULT           the function has no input proc, or the message was
 *                            released.
 * @retval HG_NOMEM           out of memory.
 * @retval HG_INVALID_ARG     the handle is of HG_Create(), or an argument is
 *                            NULL.
 * @retval others             the code of a proc function of the application.
 * @lifetime What was decoded lives until HG_Free_input().
 */
HG_EXPORT hg_return_t HG_Get_input(hg_handle_t handle, void *in_struct);

/**
 * Free a decoded input.
 *
 * It frees what decoding allocated, and drops the reference of HG_Get_input().
 *
 * In the server it can also free an input that the application decoded itself,
 * from the bytes of HG_Get_input_buf() or HG_Get_input_extra_buf(), once for
 * each call. In the client it can free an input that the application built. In
 * both cases the registered proc function frees the members, with free() or the
 * allocator of HG_Set_allocator(). A reference of the application is dropped:
 * do not call HG_Destroy() for that reference.
 *
 * @param handle             the handle.
 * @param[in,out] in_struct  the input.
 * @retval HG_SUCCESS      the input is freed.
 * @retval HG_FAULT        the function has no input proc.
 * @retval HG_INVALID_ARG  in the server: every decoded input was freed already,
 *                         or there was none; an argument is NULL. No reference
 *                         is dropped.
 * @retval others          the code of a proc function of the application; the
 *                         reference is dropped.
 */
HG_EXPORT hg_return_t HG_Free_input(hg_handle_t handle, void *in_struct);

/**
 * Decode the output of a call.
 *
 * Call it in the callback of HG_Forward2(), or later. On success the handle has
 * one more reference, until HG_Free_output(). On failure nothing stays
 * allocated.
 *
 * @param handle           the handle, in the client.
 * @param[out] out_struct  the output.
 * @retval HG_SUCCESS         `out_struct` is set.
 * @retval HG_OVERFLOW        the proc function decodes more than arrived: the
 *                            two sides register different types.
 * @retval HG_CHECKSUM_ERROR  the proc function leaves bytes undecoded, and the
 *                            class has HG_CHECKSUM_RPC_PAYLOAD.
 * @retval HG_PROTOCOL_ERROR  the bytes are not a value of their type.
 * @retval HG_FAULT           the function has no output proc, or the call has
 *                            no response.
 * @retval HG_NOMEM           out of memory.
 * @retval HG_INVALID_ARG     the handle is of a call that arrived, or an
 *                            argument is NULL.
 * @retval others             the code of a proc function of the application.
 * @lifetime What was decoded lives until HG_Free_output().
 */
HG_EXPORT hg_return_t HG_Get_output(hg_handle_t handle, void *out_struct);

/**
 * Free a decoded output.
 *
 * It frees what decoding allocated, and drops the reference of HG_Get_output().
 *
 * In the client it can also free an output that the application decoded itself,
 * from the bytes of HG_Get_output_buf() or HG_Get_output_extra_buf(), once for
 * each call. In the server it can free an output that the application built. In
 * both cases the registered proc function frees the members, with free() or the
 * allocator of HG_Set_allocator(). A reference of the application is dropped:
 * do not call HG_Destroy() for that reference.
 *
 * @param handle              the handle.
 * @param[in,out] out_struct  the output.
 * @retval HG_SUCCESS      the output is freed.
 * @retval HG_FAULT        the function has no output proc.
 * @retval HG_INVALID_ARG  in the client: every decoded output was freed
 *                         already, or there was none; an argument is NULL. No
 *                         reference is dropped.
 * @retval others          the code of a proc function of the application; the
 *                         reference is dropped.
 */
HG_EXPORT hg_return_t HG_Free_output(hg_handle_t handle, void *out_struct);

/**
 * Get the message of an input.
 *
 * In the server it is the message that arrived. In the client it is the buffer
 * of the next message, of the eager size. It begins with the bytes of
 * HG_Class_set_input_offset(). A struct that the application decodes from the
 * message that arrived can be freed with HG_Free_input().
 *
 * @param handle              the handle.
 * @param[out] in_buf_p       the message, valid until the handle is reset or
 *                            freed, the message is released, or a larger one is
 *                            encoded.
 * @param[out] in_buf_size_p  bytes; NULL is allowed.
 * @retval HG_SUCCESS      `in_buf_p` is set.
 * @retval HG_FAULT        in the server: the message was released, by
 *                         HG_Release_input_buf() or `release_input_early`.
 * @retval HG_BUSY         in the client: the call is not over, and the buffer
 *                         was not requested before.
 * @retval HG_NOMEM        out of memory.
 * @retval HG_INVALID_ARG  `handle` or `in_buf_p` is NULL.
 */
HG_EXPORT hg_return_t HG_Get_input_buf(
    hg_handle_t handle, void **in_buf_p, hg_size_t *in_buf_size_p);

/**
 * Get the message of an output.
 *
 * In the client it is the message that arrived. In the server it is the buffer
 * of the next message, of the eager size. It begins with the bytes of
 * HG_Class_set_output_offset(). A struct that the application decodes from the
 * message that arrived can be freed with HG_Free_output().
 *
 * @param handle               the handle.
 * @param[out] out_buf_p       the message, valid until the handle is reset or
 *                             freed, or a larger one is encoded.
 * @param[out] out_buf_size_p  bytes; NULL is allowed.
 * @retval HG_SUCCESS      `out_buf_p` is set.
 * @retval HG_FAULT        in the client: there is no response.
 * @retval HG_BUSY         in the server: the response was sent, and the buffer
 *                         was not requested before.
 * @retval HG_NOMEM        out of memory.
 * @retval HG_INVALID_ARG  `handle` or `out_buf_p` is NULL, or the handle is of
 *                         the request model: HG_Handler_get_output_buf() is for
 *                         it.
 */
HG_EXPORT hg_return_t HG_Get_output_buf(
    hg_handle_t handle, void **out_buf_p, hg_size_t *out_buf_size_p);

/**
 * Get an encoded input that was too large for the message.
 *
 * @param handle              the handle.
 * @param[out] in_buf_p       the input, valid as for HG_Get_input_buf(); NULL
 *                            if it was not too large.
 * @param[out] in_buf_size_p  bytes, or 0; NULL is allowed.
 * @retval HG_SUCCESS      `in_buf_p` is set.
 * @retval HG_INVALID_ARG  `handle` or `in_buf_p` is NULL.
 */
HG_EXPORT hg_return_t HG_Get_input_extra_buf(
    hg_handle_t handle, void **in_buf_p, hg_size_t *in_buf_size_p);

/**
 * Get an encoded output that was too large for the message.
 *
 * @param handle               the handle.
 * @param[out] out_buf_p       the output, valid as for HG_Get_output_buf();
 *                             NULL if it was not too large.
 * @param[out] out_buf_size_p  bytes, or 0; NULL is allowed.
 * @retval HG_SUCCESS      `out_buf_p` is set.
 * @retval HG_INVALID_ARG  `handle` or `out_buf_p` is NULL.
 */
HG_EXPORT hg_return_t HG_Get_output_extra_buf(
    hg_handle_t handle, void **out_buf_p, hg_size_t *out_buf_size_p);

/**
 * Release the message of a call that arrived, before the handle is freed.
 *
 * The message of HG_Get_input_buf() is no longer valid, and the input cannot be
 * decoded again.
 *
 * @param handle  the handle; one of HG_Create() keeps its buffer.
 * @retval HG_SUCCESS      the message is released.
 * @retval HG_INVALID_ARG  the handle is NULL, or of the request model.
 */
HG_EXPORT hg_return_t HG_Release_input_buf(hg_handle_t handle);

/** @} */

/* ---- Calls ---- */
/**
 * @defgroup hg_callback_call Calls
 * @ingroup hg_callback
 *
 * The client starts a call with HG_Forward2(). In the server HG_Trigger() runs
 * the registered function, which responds with HG_Respond(), at once or later.
 * See hg-errors(7) for deadlines and cancellation.
 * @{
 */

/**
 * Start the call of a handle.
 *
 * The input is encoded before the function returns. If the peer is this class,
 * a later HG_Trigger() executes the call. With HG_API_VERSION 2 the name is
 * HG_Forward.
 *
 * The callback gets the result of the call:
 *
 * - HG_SUCCESS: the response has arrived; HG_Get_output() decodes it. A one-way
 *   call has left.
 * - HG_NOENTRY: the server has not registered the function. HG_INVALID_ARG: it
 *   has registered it without a callback.
 * - HG_PROTOCOL_ERROR: the two sides register different types.
 * - HG_CANCELED: this side canceled the call, the server destroyed it without a
 *   response, or large arguments took longer than output_hold_ms.
 * - HG_TIMEOUT: the deadline is over.
 * - HG_DISCONNECT: the peer was reached and is gone. The address is dead: free
 *   it, and look the peer up again.
 * - HG_HOSTUNREACH: the peer cannot be reached.
 * - HG_AGAIN: a limit of the server, or it drains.
 * - HG_MSGSIZE: the input or output is larger than max_args_size of one side.
 * - HG_CHECKSUM_ERROR: a message changed on the way.
 * - Another code: that of the function that executed the call, or that of
 *   HG_Addr_lookup1() if the address was not connected.
 *
 * @param handle     the handle, of HG_Create().
 * @param callback   called with HG_CB_FORWARD; NULL is allowed.
 * @param arg        passed to the callback.
 * @param in_struct  the input; NULL: none.
 * @retval HG_SUCCESS      the call is started.
 * @retval HG_BUSY         the call of the handle is not over.
 * @retval HG_AGAIN        too many calls are in flight: see HG_Wait_room().
 * @retval HG_NOENTRY      the function was deregistered, or the input has a
 *                         bulk handle that was freed.
 * @retval HG_OVERFLOW     the input does not fit a message, and the class has
 *                         no_overflow.
 * @retval HG_MSGSIZE      the input exceeds max_args_size.
 * @retval HG_FAULT        the handle has no function.
 * @retval HG_NOMEM        out of memory.
 * @retval HG_INVALID_ARG  the handle is NULL, has no address, or is of a call
 *                         that arrived.
 * @retval others          the code of a proc function or hook of the
 *                         application.
 */
HG_EXPORT hg_return_t HG_Forward2(
    hg_handle_t handle, hg_cb_t callback, void *arg, void *in_struct);

/**
 * Respond to a call that arrived.
 *
 * A call gets one response, from any thread, in its function or later. The
 * callback runs when the response has left. It gets HG_SUCCESS, HG_CANCELED if
 * the caller no longer waits, or the code of the lost connection. After a
 * failure other than HG_EXIST the call still has no response.
 *
 * @param handle      the handle, in the server.
 * @param callback    called with HG_CB_RESPOND; NULL is allowed.
 * @param arg         passed to the callback.
 * @param out_struct  the output, encoded before the function returns; NULL:
 *                    none.
 * @retval HG_SUCCESS       the response is started.
 * @retval HG_EXIST         the call has a response already.
 * @retval HG_OPNOTSUPPORT  the call is one-way.
 * @retval HG_AGAIN         too many large outputs wait to be fetched by the
 *                          caller.
 * @retval HG_OVERFLOW      the output does not fit a message, and the class has
 *                          no_overflow.
 * @retval HG_MSGSIZE       the output exceeds max_args_size.
 * @retval HG_NOENTRY       the output has a bulk handle that was freed.
 * @retval HG_NOMEM         out of memory.
 * @retval HG_INVALID_ARG   the handle is NULL, or of HG_Create().
 * @retval others           the code of a proc function of the application.
 */
HG_EXPORT hg_return_t HG_Respond(
    hg_handle_t handle, hg_cb_t callback, void *arg, void *out_struct);

/**
 * Cancel the call of a handle.
 *
 * The callback runs once, with HG_CANCELED, or with the result if the call
 * completed first. The server gets a message. A handle in the server is not
 * changed.
 *
 * @param handle  the handle.
 * @retval HG_SUCCESS      the call is canceled, or none was in flight.
 * @retval HG_INVALID_ARG  the handle is NULL or destroyed.
 */
HG_EXPORT hg_return_t HG_Cancel(hg_handle_t handle);

/** @} */

/* ---- Progress ---- */
/**
 * @defgroup hg_callback_progress Progress
 * @ingroup hg_callback
 *
 * A thread that drives a context runs this loop:
 *
 * @code
 * while (!stop) {
 *     while (HG_Trigger(context, 0, 1, NULL) == HG_SUCCESS)
 *         ;
 *     (void) HG_Progress(context, 100);
 * }
 * @endcode
 *
 * For an event loop with a poll or epoll of its own there are
 * HG_Event_get_wait_fd() and the other HG_Event functions. HG_Forward_wait()
 * makes one call without a loop.
 * @{
 */

/**
 * Make progress until a callback can run, or the time is over.
 *
 * It returns at once if HG_Trigger() has something to run already.
 *
 * @param context  the context.
 * @param timeout  milliseconds; 0 does not wait.
 * @retval HG_SUCCESS      HG_Trigger() has something to run.
 * @retval HG_TIMEOUT      it has nothing, or a signal ended the wait; call
 *                         HG_Progress() again.
 * @retval HG_INVALID_ARG  the context is NULL or destroyed.
 * @retval HG_FAULT        the context belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Progress(hg_context_t *context, unsigned int timeout);

/**
 * Run the callbacks of completed operations, and calls that arrived.
 *
 * It makes no progress. `actual_count_p` is also set with HG_TIMEOUT, to 0.
 *
 * A callback or handler that it runs may call every
 * function, except HG_Context_destroy() of its context and HG_Finalize2() of
 * its class.
 *
 * @param context              the context.
 * @param timeout              milliseconds to wait for the first one.
 * @param max_count            run at most this number.
 * @param[out] actual_count_p  the number that ran; NULL is allowed.
 * @retval HG_SUCCESS      at least one ran, or `max_count` is 0.
 * @retval HG_TIMEOUT      none ran, or a signal ended the wait.
 * @retval HG_INVALID_ARG  the context is NULL or destroyed.
 * @retval HG_FAULT        the context belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Trigger(hg_context_t *context, unsigned int timeout,
    unsigned int max_count, unsigned int *actual_count_p);

/**
 * Get a file descriptor for an event loop.
 *
 * It is readable when the context has something to do. Call HG_Event_ready()
 * before each sleep on the descriptor.
 *
 * @param context  the context, which owns the descriptor.
 * @return the descriptor; -1 without one: with MPI, with libfabric and
 *         NA_WAIT_SPIN, with some providers of libfabric, or on a system
 *         without epoll. Call HG_Event_progress() every millisecond then.
 */
HG_EXPORT int HG_Event_get_wait_fd(
    const hg_context_t *context) HG_WARN_UNUSED_RESULT;

/**
 * Prepare to sleep on the descriptor of a context.
 *
 * @param context  the context.
 * @return true: there is something to do, so do not sleep, but call
 *         HG_Event_progress(); false: the descriptor becomes readable. Also
 *         false for NULL, a destroyed context, and in a child of fork (logged).
 */
HG_EXPORT bool HG_Event_ready(hg_context_t *context) HG_WARN_UNUSED_RESULT;

/**
 * Make progress without waiting.
 *
 * @param context       the context.
 * @param[out] count_p  how many callbacks and calls HG_Event_trigger() has to
 *                      run; NULL is allowed.
 * @retval HG_SUCCESS      done.
 * @retval HG_INVALID_ARG  the context is NULL or destroyed.
 * @retval HG_FAULT        the context belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Event_progress(
    hg_context_t *context, unsigned int *count_p);

/**
 * Run callbacks and calls, without waiting.
 *
 * @param context              the context.
 * @param max_count            run at most this number.
 * @param[out] actual_count_p  the number that ran; NULL is allowed.
 * @retval HG_SUCCESS      done, also if none ran.
 * @retval HG_INVALID_ARG  the context is NULL or destroyed.
 * @retval HG_FAULT        the context belongs to the parent process.
 */
HG_EXPORT hg_return_t HG_Event_trigger(hg_context_t *context,
    unsigned int max_count, unsigned int *actual_count_p);

/**
 * Start the call of a handle, and wait until it is over.
 *
 * It makes progress and runs callbacks of the handle's context. It also runs
 * calls that arrived, to a depth of 16. Deeper, a call that only this thread
 * could execute ends at its deadline, or never, and a line is logged. Signals
 * do not end the wait.
 *
 * @param handle     the handle, of HG_Create().
 * @param in_struct  the input; NULL: none.
 * @retval HG_SUCCESS  the response has arrived; HG_Get_output() decodes it.
 * @retval HG_BUSY     this thread makes progress already, or the call of the
 *                     handle is not over; nothing was sent.
 * @retval others      a code of HG_Forward2(), or of the result of the call.
 */
HG_EXPORT hg_return_t HG_Forward_wait(hg_handle_t handle, void *in_struct);

/** @} */
