/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that decode messages themselves, as the RPC layer of DAOS does: they
 * get the bytes of a call, decode them with a proc of their own, and call only
 * HG_Free_input() or HG_Free_output() afterwards. On every transport.
 */
#include "cb.h"

#define RAW_SIZE 65536u
#define RAW_LARGE 200000u /* exceeds a message of each transport */

/* Additional actions of the server. */
enum raw_how {
    RAW_PLAIN = 0,
    RAW_RELEASE = 1, /* release the message when the response was sent */
    RAW_TWICE = 2,   /* free the input a second time */
    RAW_BOTH = 3,    /* let the library decode the input, too */
    RAW_GONE = 4     /* free the input after HG_Destroy() */
};

MERCURY_GEN_PROC(raw_fields_t,
    ((hg_string_t) (text))((hg_bulk_t) (bulk))((uint64_t) (want))(
        (uint8_t) (how)))
MERCURY_GEN_PROC(
    raw_answer_t, ((hg_string_t) (text))((int32_t) (ret))((uint64_t) (sum)))

static hg_id_t raw_id;
static unsigned raw_inputs_freed; /* here, by the registered proc */
static unsigned raw_outputs_freed;

static hg_return_t raw_in_proc(hg_proc_t proc, void *data)
{
    if (hg_proc_get_op(proc) == HG_FREE)
        raw_inputs_freed++;
    return hg_proc_raw_fields_t(proc, data);
}

static hg_return_t raw_out_proc(hg_proc_t proc, void *data)
{
    if (hg_proc_get_op(proc) == HG_FREE)
        raw_outputs_freed++;
    return hg_proc_raw_answer_t(proc, data);
}

static char *raw_text(size_t size)
{
    char *text = (char *) malloc(size + 1);

    HG_CHECK(text != NULL);
    memset(text, 'r', size);
    text[size] = '\0';
    return text;
}

/* Decode received bytes with a proc that no call has. */
static void raw_decode(hg_handle_t handle, void *bytes, hg_size_t size,
    hg_proc_cb_t proc_cb, void *data)
{
    hg_proc_t proc = HG_PROC_NULL;

    HG_CHECK(bytes != NULL);
    HG_CHECK_OK(hg_proc_create_set(HG_Get_info(handle)->hg_class, bytes, size,
        HG_DECODE, HG_CRC32, &proc));
    HG_CHECK_OK(proc_cb(proc, data));
    HG_CHECK_OK(hg_proc_flush(proc));
    HG_CHECK_OK(hg_proc_free(proc));
}

/* ---- The server ---- */

struct raw_job {
    hg_handle_t handle;
    raw_fields_t in;
    hg_bulk_t local;
    unsigned char *memory;
};

/* Another HG_Free_input is refused, and drops no reference. */
static void raw_free_again(struct raw_job *job, unsigned freed)
{
    int32_t refs = HG_Ref_get(job->handle);

    HG_CHECK_RET(HG_Free_input(job->handle, &job->in), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(raw_inputs_freed, freed);
    HG_CHECK_EQ_INT(HG_Ref_get(job->handle), refs);
}

/* The response was sent. Nothing but HG_Free_input drops the reference of the
 * handler. */
static hg_return_t raw_responded(const struct hg_cb_info *info)
{
    struct raw_job *job = (struct raw_job *) info->arg;
    uint8_t how = job->in.how;
    unsigned before = raw_inputs_freed;
    bool again = how == RAW_BOTH || how == RAW_TWICE;
    raw_fields_t copy;

    HG_CHECK_OK(info->ret);
    if (how == RAW_GONE) { /* only the callback has a reference */
        hg_proc_release(HG_PROC_NULL, job->in.text);
        HG_CHECK_OK(HG_Destroy(job->handle));
        raw_free_again(job, before);
        free(job);
        return HG_SUCCESS;
    }
    if (again)
        HG_CHECK_OK(HG_Ref_incr(job->handle));
    if (how == RAW_BOTH) {
        HG_CHECK_OK(HG_Get_input(job->handle, &copy));
        HG_CHECK_OK(HG_Free_input(job->handle, &copy));
        before++;
    }
    HG_CHECK_EQ_INT(raw_inputs_freed, before);
    HG_CHECK_OK(HG_Free_input(job->handle, &job->in));
    HG_CHECK(job->in.text == NULL && job->in.bulk == HG_BULK_NULL);
    HG_CHECK_EQ_INT(raw_inputs_freed, before + 1);
    if (again) {
        raw_free_again(job, before + 1);
        HG_CHECK_OK(HG_Destroy(job->handle)); /* the reference added above */
    }
    free(job);
    return HG_SUCCESS;
}

static void raw_check_released(hg_handle_t handle)
{
    hg_size_t size = 1;
    void *bytes = &size;

    HG_CHECK_RET(HG_Get_input_buf(handle, &bytes, &size), HG_FAULT);
    HG_CHECK(bytes == &size && size == 1);
}

static void raw_respond(struct raw_job *job, hg_return_t ret)
{
    raw_answer_t out = {raw_text((size_t) job->in.want), (int32_t) ret, 0};
    bool release = job->in.how == RAW_RELEASE;

    if (job->local != HG_BULK_NULL) {
        out.sum = blob_sum(job->memory, RAW_SIZE);
        HG_CHECK_OK(HG_Bulk_free(job->local));
        free(job->memory);
    }
    HG_CHECK_OK(HG_Respond(job->handle, raw_responded, job, &out));
    /* The callback runs later: a thread triggers it. */
    if (release) {
        HG_CHECK_OK(HG_Release_input_buf(job->handle));
        raw_check_released(job->handle);
    }
    free(out.text);
}

static hg_return_t raw_pulled(const struct hg_cb_info *info)
{
    raw_respond((struct raw_job *) info->arg, info->ret);
    return HG_SUCCESS;
}

/* Pull from the handle alone: it is bound. */
static hg_return_t raw_pull(struct raw_job *job)
{
    const struct hg_info *info = HG_Get_info(job->handle);
    hg_size_t size = RAW_SIZE;
    void *memory = calloc(1, RAW_SIZE);

    HG_CHECK(memory != NULL);
    job->memory = (unsigned char *) memory;
    HG_CHECK_OK(HG_Bulk_create(
        info->hg_class, 1, &memory, &size, HG_BULK_READWRITE, &job->local));
    return HG_Bulk_bind_transfer(info->context, raw_pulled, job, HG_BULK_PULL,
        job->in.bulk, 0, job->local, 0, size, HG_OP_ID_IGNORE);
}

static hg_return_t raw_called(hg_handle_t handle)
{
    struct raw_job *job = (struct raw_job *) calloc(1, sizeof(*job));
    void *bytes = NULL;
    hg_size_t size = 0;
    hg_return_t ret;

    HG_CHECK(job != NULL);
    job->handle = handle;
    HG_CHECK_OK(HG_Get_input_extra_buf(handle, &bytes, &size));
    if (bytes == NULL)
        HG_CHECK_OK(HG_Get_input_buf(handle, &bytes, &size));
    raw_decode(handle, bytes, size, hg_proc_raw_fields_t, &job->in);
    if (job->in.bulk == HG_BULK_NULL) {
        raw_respond(job, HG_SUCCESS);
        return HG_SUCCESS;
    }
    ret = raw_pull(job);
    if (ret != HG_SUCCESS)
        raw_respond(job, ret);
    return HG_SUCCESS;
}

static void cb_register(hg_class_t *hg_class)
{
    raw_id = HG_Register_name(
        hg_class, "raw call", raw_in_proc, raw_out_proc, raw_called);
    HG_CHECK(raw_id != 0);
}

/* ---- The caller ---- */

/* Decode the output as the server decodes the input. */
static void raw_get_output(hg_handle_t handle, size_t want, raw_answer_t *out)
{
    void *bytes = NULL;
    hg_size_t size = 0;

    HG_CHECK_OK(HG_Get_output_extra_buf(handle, &bytes, &size));
    if (bytes == NULL)
        HG_CHECK_OK(HG_Get_output_buf(handle, &bytes, &size));
    raw_decode(handle, bytes, size, hg_proc_raw_answer_t, out);
    HG_CHECK_EQ_U64(strlen(out->text), want);
}

/* A call whose handle ends with HG_Free_output. Returns the result of pulling
 * from `bulk`. */
static hg_return_t raw_call(const struct cb_end *end, size_t size, size_t want,
    enum raw_how how, hg_bulk_t bulk, uint64_t *sum_p)
{
    raw_fields_t in = {raw_text(size), bulk, want, (uint8_t) how};
    hg_handle_t handle = cb_new_handle(end, raw_id);
    unsigned before = raw_outputs_freed;
    raw_answer_t out;

    HG_CHECK_OK(cb_do(end, handle, &in, NULL));
    raw_get_output(handle, want, &out);
    *sum_p = out.sum;
    HG_CHECK_EQ_INT(raw_outputs_freed, before);
    HG_CHECK_OK(HG_Free_output(handle, &out));
    HG_CHECK(out.text == NULL);
    HG_CHECK_EQ_INT(raw_outputs_freed, before + 1);
    free(in.text);
    return (hg_return_t) out.ret;
}

/* Neither side destroys a handle: that both classes end without one left shows
 * that HG_Free_input and HG_Free_output dropped the last references. */
HG_TEST(cb_raw_arguments_are_freed_once)
{
    struct cb_end end;
    uint64_t sum;

    if (!hg_test_crosses_processes()) {
        hg_test_expect_log("HG_Free_input: there is no decoded struct");
        hg_test_expect_log("HG_Get_input_buf: \"raw call\" has no message");
    }
    cb_open(&end);
    HG_CHECK(HG_Class_get_input_eager_size(end.hg_class) < RAW_LARGE &&
        HG_Class_get_output_eager_size(end.hg_class) < RAW_LARGE);
    HG_CHECK_OK(raw_call(&end, 10, 20, RAW_PLAIN, HG_BULK_NULL, &sum));
    HG_CHECK_OK(raw_call(&end, 0, 0, RAW_RELEASE, HG_BULK_NULL, &sum));
    HG_CHECK_OK(raw_call(&end, RAW_LARGE, 10, RAW_PLAIN, HG_BULK_NULL, &sum));
    HG_CHECK_OK(raw_call(&end, RAW_LARGE, 10, RAW_RELEASE, HG_BULK_NULL, &sum));
    HG_CHECK_OK(raw_call(&end, 10, RAW_LARGE, RAW_PLAIN, HG_BULK_NULL, &sum));
    HG_CHECK_OK(raw_call(&end, 10, 20, RAW_TWICE, HG_BULK_NULL, &sum));
    HG_CHECK_OK(raw_call(&end, RAW_LARGE, 20, RAW_TWICE, HG_BULK_NULL, &sum));
    HG_CHECK_OK(raw_call(&end, 10, 20, RAW_BOTH, HG_BULK_NULL, &sum));
    HG_CHECK_OK(raw_call(&end, 10, 20, RAW_GONE, HG_BULK_NULL, &sum));
    cb_close(&end);
}

/* Each call of a handle is decoded and freed for itself. The buffer of the next
 * input is not a message that arrived. */
HG_TEST(cb_raw_output_of_another_call_is_not_freed)
{
    raw_fields_t in = {raw_text(3), HG_BULK_NULL, 5, RAW_PLAIN};
    raw_answer_t out = {NULL, 0, 0};
    struct cb_end end;
    hg_handle_t handle;
    void *bytes;

    hg_test_expect_log("HG_Free_output: there is no decoded struct");
    hg_test_expect_log("HG_Get_output_buf: \"raw call\" was not answered");
    cb_open(&end);
    handle = cb_new_handle(&end, raw_id);
    HG_CHECK_RET(HG_Get_output_buf(handle, &bytes, NULL), HG_FAULT);
    HG_CHECK_RET(HG_Free_output(handle, &out), HG_INVALID_ARG);
    HG_CHECK_OK(cb_do(&end, handle, &in, NULL));
    HG_CHECK_RET(HG_Free_output(handle, &out), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Get_input_buf(handle, &bytes, NULL));
    HG_CHECK_RET(HG_Free_output(handle, &out), HG_INVALID_ARG);
    raw_get_output(handle, 5, &out);
    HG_CHECK_OK(HG_Ref_incr(handle));
    HG_CHECK_OK(HG_Free_output(handle, &out));
    HG_CHECK_RET(HG_Free_output(handle, &out), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);

    raw_get_output(handle, 5, &out);
    HG_CHECK_OK(cb_do(&end, handle, &in, NULL));
    HG_CHECK_RET(HG_Free_output(handle, &out), HG_INVALID_ARG);
    free(out.text);
    raw_get_output(handle, 5, &out);
    HG_CHECK_OK(HG_Reset(handle, HG_ADDR_NULL, 0));
    HG_CHECK_RET(HG_Free_output(handle, &out), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_output_buf(handle, &bytes, NULL), HG_FAULT);
    free(out.text);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Destroy(handle));
    free(in.text);
    cb_close(&end);
}

/* ---- Bulk handles ---- */

static void raw_pull_from(struct cb_end *end)
{
    unsigned char *bytes = (unsigned char *) malloc(RAW_SIZE);
    hg_size_t size = RAW_SIZE;
    void *memory = bytes;
    hg_bulk_t bulk;
    uint64_t sum = 0;
    size_t i;

    hg_test_allow_log("HG_Get_input_buf: \"raw call\" has no message");
    HG_CHECK(bytes != NULL);
    for (i = 0; i < RAW_SIZE; i++)
        bytes[i] = blob_byte(i);
    HG_CHECK_OK(HG_Bulk_create(
        end->hg_class, 1, &memory, &size, HG_BULK_READ_ONLY, &bulk));
    HG_CHECK_OK(HG_Bulk_bind(bulk, end->context));
    HG_CHECK_OK(raw_call(end, 10, 20, RAW_PLAIN, bulk, &sum));
    HG_CHECK_EQ_U64(sum, blob_sum(bytes, RAW_SIZE));
    HG_CHECK_OK(raw_call(end, RAW_LARGE, 20, RAW_RELEASE, bulk, &sum));
    HG_CHECK_EQ_U64(sum, blob_sum(bytes, RAW_SIZE));
    HG_CHECK_OK(HG_Bulk_free(bulk));
    free(bytes);
}

HG_TEST(cb_raw_bound_handle_is_enough)
{
    struct cb_end end;

    cb_open(&end);
    raw_pull_from(&end);
    cb_close(&end);
}

/* An endpoint that does not listen: only the peers that it called reach it. */
static void raw_open_client(struct cb_end *end)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    char *string = hg_test_listen_string();

    memset(end, 0, sizeof(*end));
    strstr(string, "://")[3] = '\0';
    end->na_class = NA_Initialize(string, NA_FALSE);
    HG_CHECK(end->na_class != NULL);
    free(string);
    info.na_class = end->na_class;
    end->hg_class = HG_Init_opt(NULL, HG_FALSE, &info);
    HG_CHECK(end->hg_class != NULL);
    end->contexts[0] = HG_Context_create(end->hg_class);
    HG_CHECK(end->contexts[0] != NULL);
    end->count = 1;
    end->context = end->contexts[0];
    cb_register(end->hg_class);
}

HG_TEST_WHERE(cb_raw_bound_handle_of_a_class_that_does_not_listen,
    hg_test_crosses_processes)
{
    struct cb_end end;

    raw_open_client(&end);
    end.peer = hg_test_spawn("server", "1", (char *) NULL);
    cb_find_peer(&end);
    raw_pull_from(&end);
    cb_close(&end);
}

/* A standalone proc moves a handle of its class, also after a reset. */
HG_TEST(cb_raw_proc_moves_bulk_handles)
{
    hg_bulk_t none = HG_BULK_NULL;
    hg_bulk_t bulk, got, also;
    unsigned char bytes[1024];
    hg_size_t size = 100;
    struct cb_end end;
    hg_addr_t self;
    hg_proc_t proc;
    hg_size_t used;

    cb_start(&end, 1);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    HG_CHECK_OK(
        HG_Bulk_create(end.hg_class, 1, NULL, &size, HG_BULK_READWRITE, &bulk));
    HG_CHECK_OK(HG_Bulk_bind(bulk, end.context));
    HG_CHECK_OK(hg_proc_create_set(
        end.hg_class, bytes, sizeof(bytes), HG_ENCODE, HG_CRC64, &proc));
    HG_CHECK_OK(hg_proc_hg_bulk_t(proc, &bulk));
    HG_CHECK_OK(hg_proc_hg_bulk_t(proc, &none));
    used = hg_proc_get_size_used(proc);
    HG_CHECK(used <= sizeof(bytes));
    HG_CHECK_OK(hg_proc_reset(proc, bytes, used, HG_DECODE));
    HG_CHECK_OK(hg_proc_hg_bulk_t(proc, &got));
    HG_CHECK_OK(hg_proc_hg_bulk_t(proc, &also));
    HG_CHECK_EQ_U64(hg_proc_get_size_left(proc), 0);
    HG_CHECK_EQ_U64(HG_Bulk_get_size(got), size);
    HG_CHECK(HG_Addr_cmp(end.hg_class, HG_Bulk_get_addr(got), self));
    HG_CHECK(also == HG_BULK_NULL);
    HG_CHECK_OK(hg_proc_reset(proc, NULL, 0, HG_FREE));
    HG_CHECK_OK(hg_proc_hg_bulk_t(proc, &got));
    HG_CHECK_OK(hg_proc_hg_bulk_t(proc, &also));
    HG_CHECK(got == HG_BULK_NULL && also == HG_BULK_NULL);
    HG_CHECK_OK(HG_Bulk_free(bulk));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    cb_end(&end);

    hg_test_expect_log("no such class is open");
    HG_CHECK_OK(hg_proc_reset(proc, bytes, used, HG_DECODE));
    HG_CHECK_RET(hg_proc_hg_bulk_t(proc, &got), HG_INVALID_ARG);
    HG_CHECK_OK(hg_proc_free(proc));
}

/* The class of the proc tells which of two classes of a process the handle
 * belongs to. The owner is known by its name, also without a call. */
HG_TEST_WHERE(cb_raw_proc_knows_the_owner, hg_test_crosses_processes)
{
    char name[NA_MAX_ADDR_LEN], want[NA_MAX_ADDR_LEN];
    hg_size_t name_size = sizeof(name), want_size = sizeof(want);
    unsigned char bytes[1024];
    hg_size_t size = 100;
    struct cb_end owner, other;
    hg_bulk_t bulk, got;
    hg_addr_t self;
    hg_proc_t proc;

    cb_start(&owner, 1);
    cb_start(&other, 1);
    HG_CHECK_OK(HG_Addr_self(owner.hg_class, &self));
    HG_CHECK_OK(HG_Addr_to_string(owner.hg_class, want, &want_size, self));
    HG_CHECK_OK(HG_Bulk_create(
        owner.hg_class, 1, NULL, &size, HG_BULK_READWRITE, &bulk));
    HG_CHECK_OK(HG_Bulk_bind(bulk, owner.context));
    HG_CHECK_OK(hg_proc_create_set(
        owner.hg_class, bytes, sizeof(bytes), HG_ENCODE, HG_NOHASH, &proc));
    HG_CHECK_OK(hg_proc_hg_bulk_t(proc, &bulk));
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_OK(hg_proc_create_set(
        other.hg_class, bytes, sizeof(bytes), HG_DECODE, HG_NOHASH, &proc));
    HG_CHECK_OK(hg_proc_hg_bulk_t(proc, &got));
    HG_CHECK_OK(hg_proc_free(proc));
    HG_CHECK_OK(HG_Addr_to_string(
        other.hg_class, name, &name_size, HG_Bulk_get_addr(got)));
    HG_CHECK_EQ_STR(name, want);
    HG_CHECK_OK(HG_Bulk_free(got));
    HG_CHECK_OK(HG_Bulk_free(bulk));
    HG_CHECK_OK(HG_Addr_free(owner.hg_class, self));
    cb_end(&other);
    cb_end(&owner);
}
