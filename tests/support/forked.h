/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked: the attempts of a child of fork to use its parent's objects of the
 * callback model. Each is refused at once, with HG_FAULT or with no effect.
 *
 * The numbered names are used, which both versions of the interface have.
 */
#ifndef HG_TESTS_SUPPORT_FORKED_H
#define HG_TESTS_SUPPORT_FORKED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Objects of the parent. */
struct forked_objects {
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t addr;
    hg_id_t id;
    hg_handle_t idle;   /* ours, never forwarded */
    hg_handle_t done;   /* ours, answered */
    hg_handle_t target; /* of a call that arrived */
    hg_bulk_t bulk;     /* of at least 8 bytes */
    hg_op_id_t op_id;   /* a transfer whose callback has not run */
    hg_bulk_pipeline_t pipeline;
    FILE *stream; /* for HG_Dump */
};

static unsigned forked_tried; /* attempts of the child so far */
static unsigned forked_wrong; /* the first with a wrong result */
static _Atomic unsigned forked_lines;

/* For HG_Set_log_func2. */
static inline int forked_log(FILE *stream, const char *format, ...)
{
    (void) stream;
    (void) format;
    atomic_fetch_add(&forked_lines, 1);
    return 0;
}

static inline void forked_want(bool right)
{
    forked_tried++;
    if (!right && forked_wrong == 0)
        forked_wrong = forked_tried;
}

static inline void forked_refused(hg_return_t ret)
{
    forked_want(ret == HG_FAULT);
}

static inline hg_return_t forked_never(const struct hg_cb_info *info)
{
    (void) info;
    forked_want(false);
    return HG_SUCCESS;
}

static inline void forked_try_class(const struct forked_objects *parent)
{
    hg_class_t *cls = parent->hg_class;
    struct hg_diag_counters counters;
    struct hg_histogram histogram;
    hg_id_t id = parent->id;
    hg_proc_cb_t proc;
    uint8_t flag;

    histogram.size = sizeof(histogram);
    forked_want(HG_Class_get_name(cls) == NULL);
    forked_want(HG_Class_get_protocol(cls) == NULL);
    forked_want(!HG_Class_is_listening(cls));
    forked_want(HG_Class_get_input_eager_size(cls) == 0);
    forked_want(HG_Class_get_output_eager_size(cls) == 0);
    forked_refused(HG_Class_set_input_offset(cls, 0));
    forked_refused(HG_Class_set_output_offset(cls, 0));
    forked_refused(HG_Class_set_data(cls, cls, NULL));
    forked_want(HG_Class_get_data(cls) == NULL);
    forked_refused(HG_Class_get_counters(cls, &counters));
    forked_refused(HG_Class_set_handle_create_callback(cls, NULL, NULL));
    forked_want(HG_Register_name(cls, "forked", NULL, NULL, NULL) == 0);
    forked_refused(HG_Register2(cls, id, NULL, NULL, NULL));
    forked_refused(HG_Deregister(cls, id));
    forked_refused(HG_Registered_name(cls, "forked", &id, &flag));
    forked_refused(HG_Registered(cls, id, &flag));
    forked_refused(HG_Registered_proc_cb(cls, id, &flag, &proc, &proc));
    forked_refused(HG_Register_data(cls, id, NULL, NULL));
    forked_want(HG_Registered_data(cls, id) == NULL);
    forked_refused(HG_Registered_disable_response(cls, id, HG_FALSE));
    forked_refused(HG_Registered_disabled_response(cls, id, &flag));
    forked_refused(HG_Set_hook(cls, NULL, NULL));
    forked_refused(HG_Get_histogram(cls, id, HG_FALSE, &histogram));
    forked_refused(HG_Drain(cls, 1000));
    forked_refused(HG_Dump(cls, parent->stream));
    /* For all classes, of which this process has none. */
    forked_want(HG_Dump(NULL, parent->stream) == HG_SUCCESS);
    HG_Diag_dump_counters();
    forked_refused(HG_Finalize2(cls));
}

static inline void forked_try_context(const struct forked_objects *parent)
{
    hg_context_t *context = parent->context;
    unsigned count = 0;

    forked_want(HG_Context_create(parent->hg_class) == NULL);
    forked_want(HG_Context_create_id(parent->hg_class, 9) == NULL);
    forked_refused(HG_Context_unpost(context));
    forked_want(HG_Context_get_class(context) == NULL);
    forked_want(HG_Context_get_id(context) == 0);
    forked_refused(HG_Context_set_data(context, NULL, NULL));
    forked_want(HG_Context_get_data(context) == NULL);
    forked_refused(HG_Progress(context, 1000));
    forked_refused(HG_Trigger(context, 1000, 1, &count));
    forked_want(HG_Event_get_wait_fd(context) == -1);
    forked_want(!HG_Event_ready(context));
    forked_refused(HG_Event_progress(context, &count));
    forked_refused(HG_Event_trigger(context, 1, &count));
    forked_refused(HG_Context_destroy(context));
}

static inline void forked_try_addr(const struct forked_objects *parent)
{
    hg_class_t *cls = parent->hg_class;
    hg_addr_t addr = parent->addr;
    char name[NA_MAX_ADDR_LEN] = "self://";
    hg_size_t size = sizeof(name);
    hg_op_id_t op_id;
    hg_addr_t found;

    forked_refused(
        HG_Addr_lookup1(parent->context, forked_never, NULL, name, &op_id));
    forked_refused(HG_Addr_lookup2(cls, name, &found));
    forked_refused(HG_Addr_set_remove(cls, addr));
    forked_refused(HG_Addr_self(cls, &found));
    forked_refused(HG_Addr_dup(cls, addr, &found));
    forked_want(HG_Addr_cmp(cls, addr, addr) == HG_FALSE);
    forked_refused(HG_Addr_to_string(cls, name, &size, addr));
    forked_refused(HG_Wait_room(addr, 1000));
    forked_refused(HG_Addr_free(cls, addr));
}

/* Use a handle of the parent, of either side of a call. */
static inline void forked_try_handle(hg_handle_t handle)
{
    hg_size_t size;
    void *buf;

    forked_refused(HG_Ref_incr(handle));
    forked_want(HG_Ref_get(handle) == -1);
    forked_want(HG_Get_info(handle) == NULL);
    forked_refused(HG_Set_data(handle, NULL, NULL));
    forked_want(HG_Get_data(handle) == NULL);
    forked_want(HG_Get_input_payload_size(handle) == 0);
    forked_want(HG_Get_output_payload_size(handle) == 0);
    forked_refused(HG_Get_input_buf(handle, &buf, &size));
    forked_refused(HG_Get_output_buf(handle, &buf, &size));
    forked_refused(HG_Get_input_extra_buf(handle, &buf, &size));
    forked_refused(HG_Get_output_extra_buf(handle, &buf, &size));
    forked_refused(HG_Cancel(handle));
    forked_want(HG_Get_time_left(handle) == HG_NO_DEADLINE);
    forked_want(HG_Get_trace_id(handle) == 0);
    forked_want(HG_Get_error_text(handle)[0] == '\0');
    forked_want(HG_Get_peer_id(handle)[0] == '\0');
    forked_want(HG_Is_canceled(handle) == HG_FALSE);
    forked_refused(HG_Destroy(handle));
}

static inline void forked_try_origin(
    const struct forked_objects *parent, hg_handle_t handle)
{
    uint64_t value[8] = {0};

    forked_refused(HG_Forward2(handle, forked_never, NULL, value));
    forked_refused(HG_Forward_wait(handle, value));
    forked_refused(HG_Reset(handle, parent->addr, parent->id));
    forked_refused(HG_Set_target_id(handle, 1));
    forked_refused(HG_Get_output(handle, value));
    forked_refused(HG_Free_output(handle, value));
    forked_refused(HG_Set_deadline(handle, 1000));
    forked_refused(HG_Set_trace_id(handle, 1));
    forked_try_handle(handle);
}

static inline hg_return_t forked_no_piece(
    void *arg, void *data, size_t *size, size_t offset)
{
    (void) arg;
    (void) data;
    (void) size;
    (void) offset;
    forked_want(false);
    return HG_SUCCESS;
}

static inline void forked_try_target(
    const struct forked_objects *parent, hg_handle_t handle)
{
    uint64_t value[8] = {0};

    forked_refused(HG_Get_input(handle, value));
    forked_refused(HG_Free_input(handle, value));
    forked_refused(HG_Release_input_buf(handle));
    forked_refused(HG_Respond(handle, forked_never, NULL, value));
    forked_refused(HG_Respond_error(handle, HG_ACCESS, "no"));
    forked_refused(HG_Set_cancel_cb(handle, NULL, NULL));
    forked_refused(HG_Bulk_pull(handle, parent->bulk, 0, value, 8));
    forked_refused(HG_Bulk_push(handle, parent->bulk, 0, value, 8));
    forked_refused(HG_Bulk_pipeline_pull(parent->pipeline, handle, parent->bulk,
        0, 8, forked_no_piece, NULL, 0));
    forked_refused(HG_Bulk_pipeline_push(parent->pipeline, handle, parent->bulk,
        0, 8, forked_no_piece, NULL, 0));
    forked_try_handle(handle);
}

static inline void forked_try_calls(const struct forked_objects *parent)
{
    hg_handle_t made;

    forked_refused(HG_Create(parent->context, parent->addr, parent->id, &made));
    forked_try_origin(parent, parent->idle);
    forked_try_origin(parent, parent->done);
    if (parent->target != HG_HANDLE_NULL)
        forked_try_target(parent, parent->target);
}

static inline void forked_try_bulk(const struct forked_objects *parent)
{
    hg_bulk_t bulk = parent->bulk;
    hg_size_t size = 8;
    char bytes[256];
    hg_bulk_pipeline_t pipeline;
    hg_op_id_t op_id;
    hg_bulk_t made;

    forked_refused(HG_Bulk_create(
        parent->hg_class, 1, NULL, &size, HG_BULK_READWRITE, &made));
    forked_refused(HG_Bulk_ref_incr(bulk));
    forked_refused(HG_Bulk_bind(bulk, parent->context));
    forked_want(HG_Bulk_get_addr(bulk) == HG_ADDR_NULL);
    forked_want(HG_Bulk_get_serialize_size(bulk, 0) == 0);
    forked_refused(HG_Bulk_serialize(bytes, sizeof(bytes), 0, bulk));
    forked_refused(
        HG_Bulk_deserialize(parent->hg_class, &made, bytes, sizeof(bytes)));
    forked_refused(HG_Bulk_transfer2(parent->context, forked_never, NULL,
        HG_BULK_PULL, parent->addr, bulk, 0, bulk, 0, 8, &op_id));
    forked_refused(HG_Bulk_transfer_id(parent->context, forked_never, NULL,
        HG_BULK_PULL, parent->addr, 0, bulk, 0, bulk, 0, 8, &op_id));
    forked_refused(HG_Bulk_bind_transfer(parent->context, forked_never, NULL,
        HG_BULK_PULL, bulk, 0, bulk, 0, 8, &op_id));
    if (parent->op_id != HG_OP_ID_NULL)
        forked_refused(HG_Bulk_cancel(parent->op_id));
    forked_refused(HG_Bulk_pipeline_create(parent->hg_class, 1, 8, &pipeline));
    forked_refused(HG_Bulk_pipeline_free(parent->pipeline));
    forked_refused(HG_Bulk_free(bulk));
}

/* All attempts. One line is logged, for the class. */
static inline void forked_try(const struct forked_objects *parent)
{
    forked_try_class(parent);
    forked_try_context(parent);
    forked_try_addr(parent);
    forked_try_calls(parent);
    forked_try_bulk(parent);
    forked_want(atomic_load(&forked_lines) == 1);
}

/* Objects that the child creates work. */
static inline void forked_try_own(void)
{
    hg_class_t *own = HG_Init2("self://", HG_TRUE);
    hg_context_t *context;

    forked_want(own != NULL);
    context = HG_Context_create(own);
    forked_want(context != NULL);
    forked_want(HG_Progress(context, 0) == HG_TIMEOUT);
    forked_want(HG_Context_destroy(context) == HG_SUCCESS);
    forked_want(HG_Finalize2(own) == HG_SUCCESS);
}

#endif
