/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Features around arguments in the callback model: a proc can ask for its
 * handle; the application's own header before the arguments; classes that
 * forbid arguments too large for a message, or release the message early. On
 * every transport.
 */
#include "cb.h"

#define ARGS_AREA 24u /* bytes of the application's header */

/* The number of bytes, which each side generates itself, and what the server
 * saw. */
MERCURY_GEN_PROC(args_in_t, ((hg_string_t) (text))((uint64_t) (want)))
MERCURY_GEN_PROC(args_out_t,
    ((hg_string_t) (text))((uint64_t) (payload))((uint64_t) (extra))(
        (uint8_t) (area)))

static hg_id_t args_id, args_raw_id, args_owned_id, args_twice_id;
static hg_id_t args_given_id;

static char *args_text(size_t size)
{
    char *text = (char *) malloc(size + 1);

    HG_CHECK(text != NULL);
    memset(text, 'a', size);
    text[size] = '\0';
    return text;
}

/* ---- The application's header ---- */

/* The result of HG_Get_input_payload_size for arguments: as in Mercury, our
 * header counts too, if both fit into one message. */
static hg_size_t args_payload(hg_size_t size, hg_size_t eager)
{
    return size + ARGS_AREA <= eager ? size + ARGS_AREA : size;
}

/* Respond with a text of the requested size after our header, which is the
 * input's header with one added to each byte. */
static hg_return_t args_echo(hg_handle_t handle)
{
    args_in_t in;
    args_out_t out;
    void *area;
    void *there;
    hg_size_t size;
    hg_size_t extra;
    unsigned i;

    HG_CHECK_OK(HG_Get_input(handle, &in));
    HG_CHECK_OK(HG_Get_input_buf(handle, &area, &size));
    HG_CHECK(size >= ARGS_AREA);
    HG_CHECK_OK(HG_Get_output_buf(handle, &there, NULL));
    for (i = 0; i < ARGS_AREA; i++)
        ((unsigned char *) there)[i] =
            (unsigned char) (((unsigned char *) area)[i] + 1);
    out.area = ((unsigned char *) area)[ARGS_AREA - 1];
    out.text = args_text((size_t) in.want);
    out.payload = HG_Get_input_payload_size(handle);
    HG_CHECK_OK(HG_Get_input_extra_buf(handle, &area, &extra));
    HG_CHECK((area != NULL) == (extra != 0));
    out.extra = extra;
    HG_CHECK_OK(HG_Free_input(handle, &in));
    size = 8 + in.want + 1 + 2 + 8 + 8 + 1;
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    HG_CHECK_EQ_U64(HG_Get_output_payload_size(handle),
        args_payload(size,
            HG_Class_get_output_eager_size(HG_Get_info(handle)->hg_class)));
    free(out.text);
    return HG_Destroy(handle);
}

/* Only bytes of the application. */
static hg_return_t args_raw(hg_handle_t handle)
{
    void *in;
    void *out;
    hg_size_t size;

    HG_CHECK_EQ_U64(HG_Get_input_payload_size(handle), ARGS_AREA);
    HG_CHECK_OK(HG_Get_input_buf(handle, &in, &size));
    HG_CHECK_EQ_U64(size, ARGS_AREA);
    HG_CHECK_OK(HG_Get_output_buf(handle, &out, &size));
    HG_CHECK(size >= ARGS_AREA);
    memcpy(out, in, ARGS_AREA);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

/* ---- A proc that asks for its handle ---- */

static _Thread_local hg_handle_t args_owner;
static _Thread_local unsigned args_asked;

/* A number whose proc asks for its handle. */
typedef struct {
    uint32_t value;
} args_owned_t;

static hg_return_t hg_proc_args_owned_t(hg_proc_t proc, void *data)
{
    hg_handle_t handle = hg_proc_get_handle(proc);
    args_owned_t *owned = (args_owned_t *) data;

    HG_CHECK(handle == args_owner);
    HG_CHECK(hg_proc_get_class(proc) == HG_Get_info(handle)->hg_class);
    args_asked |= 1u << hg_proc_get_op(proc);
    return hg_proc_uint32_t(proc, &owned->value);
}

static hg_return_t args_owned(hg_handle_t handle)
{
    args_owned_t owned = {0};

    args_owner = handle;
    HG_CHECK_OK(HG_Get_input(handle, &owned));
    HG_CHECK_OK(HG_Free_input(handle, &owned));
    owned.value++;
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &owned));
    return HG_Destroy(handle);
}

/* ---- A message that is released early ---- */

static bool args_early;

static hg_return_t args_twice(hg_handle_t handle)
{
    cb_one_t in = {0};
    cb_one_t out;
    void *buf = &in;

    HG_CHECK_OK(HG_Get_input(handle, &in));
    HG_CHECK_RET(HG_Get_input_buf(handle, &buf, NULL),
        args_early ? HG_FAULT : HG_SUCCESS);
    HG_CHECK_EQ_INT(buf == &in, args_early);
    HG_CHECK_OK(HG_Free_input(handle, &in));
    if (!args_early)
        HG_CHECK_OK(HG_Release_input_buf(handle));
    /* In both cases it is gone. */
    out.value = (int32_t) HG_Get_input(handle, &in);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

/* Respond with a struct of ours, and let the library destroy the handle by
 * releasing the reference of the call: nothing calls HG_Destroy. */
static hg_return_t args_given(hg_handle_t handle)
{
    args_out_t out = {args_text(10), 7, 8, 9};

    HG_CHECK_RET(HG_Free_output(handle, NULL), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    HG_CHECK_OK(HG_Free_output(handle, &out));
    return HG_SUCCESS;
}

static void cb_register(hg_class_t *hg_class)
{
    args_given_id = MERCURY_REGISTER(
        hg_class, "args given", args_in_t, args_out_t, args_given);
    args_id =
        MERCURY_REGISTER(hg_class, "args", args_in_t, args_out_t, args_echo);
    args_raw_id = MERCURY_REGISTER(hg_class, "args raw", void, void, args_raw);
    args_owned_id = MERCURY_REGISTER(
        hg_class, "args owned", args_owned_t, args_owned_t, args_owned);
    args_twice_id = MERCURY_REGISTER(
        hg_class, "args twice", cb_one_t, cb_one_t, args_twice);
    HG_CHECK(args_id != 0 && args_raw_id != 0 && args_owned_id != 0 &&
        args_twice_id != 0);
    HG_CHECK_OK(HG_Class_set_input_offset(hg_class, ARGS_AREA));
    HG_CHECK_OK(HG_Class_set_output_offset(hg_class, ARGS_AREA));
}

/* ---- The caller ---- */

static void args_try(
    const struct cb_end *end, hg_handle_t handle, size_t size, size_t want)
{
    args_in_t in = {args_text(size), want};
    args_out_t out;
    unsigned char *area;
    void *buf = NULL;
    hg_size_t space = 0;
    unsigned i;

    HG_CHECK_OK(HG_Get_input_buf(handle, &buf, &space));
    HG_CHECK_EQ_U64(space, HG_Class_get_input_eager_size(end->hg_class));
    area = (unsigned char *) buf;
    for (i = 0; i < ARGS_AREA; i++)
        area[i] = (unsigned char) (size + i);
    HG_CHECK_OK(cb_do(end, handle, &in, &out));
    HG_CHECK_EQ_U64(strlen(out.text), want);
    HG_CHECK_EQ_U64(out.payload, args_payload(8 + size + 1 + 2 + 8, space));
    HG_CHECK_EQ_U64(HG_Get_input_payload_size(handle), out.payload);
    HG_CHECK_EQ_U64(HG_Get_output_payload_size(handle),
        args_payload(8 + want + 1 + 2 + 8 + 8 + 1,
            HG_Class_get_output_eager_size(end->hg_class)));
    HG_CHECK_EQ_INT(out.area, (unsigned char) (size + ARGS_AREA - 1));
    /* To oneself everything fits. */
    if (end->peer != NULL && size > space)
        HG_CHECK_EQ_U64(out.extra, out.payload);
    else
        HG_CHECK_EQ_U64(out.extra, 0);
    HG_CHECK_OK(HG_Get_output_buf(handle, &buf, NULL));
    for (i = 0; i < ARGS_AREA; i++)
        HG_CHECK_EQ_INT(
            ((unsigned char *) buf)[i], (unsigned char) (size + i + 1));
    HG_CHECK_OK(HG_Free_output(handle, &out));
    free(in.text);
}

HG_TEST(cb_args_follow_a_header_of_the_application)
{
    struct cb_end end;
    hg_handle_t handle;

    cb_open(&end);
    handle = cb_new_handle(&end, args_id);
    args_try(&end, handle, 10, 20);
    args_try(&end, handle, 0, 0);
    args_try(&end, handle, 100000, 10);
    args_try(&end, handle, 10, 100000);
    args_try(&end, handle, 3000000, 3000000);
    args_try(&end, handle, 11, 21);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

HG_TEST(cb_args_may_be_only_a_header)
{
    unsigned char want[ARGS_AREA];
    struct cb_end end;
    hg_handle_t handle;
    void *buf;
    hg_size_t size;

    cb_open(&end);
    handle = cb_new_handle(&end, args_id); /* the buffers contain data */
    args_try(&end, handle, 100, 100);
    HG_CHECK_OK(HG_Destroy(handle));
    handle = cb_new_handle(&end, args_raw_id);
    memset(want, 0, sizeof(want)); /* the buffer was not requested */
    HG_CHECK_OK(cb_do(&end, handle, NULL, NULL));
    HG_CHECK_OK(HG_Get_output_buf(handle, &buf, &size));
    HG_CHECK_EQ_U64(size, ARGS_AREA);
    HG_CHECK_EQ_MEM(buf, want, ARGS_AREA);
    HG_CHECK_OK(HG_Get_input_buf(handle, &buf, NULL));
    memset(want, 0x77, sizeof(want));
    memcpy(buf, want, ARGS_AREA);
    HG_CHECK_OK(cb_do(&end, handle, NULL, NULL));
    HG_CHECK_OK(HG_Get_output_buf(handle, &buf, NULL));
    HG_CHECK_EQ_MEM(buf, want, ARGS_AREA);
    HG_CHECK_EQ_U64(HG_Get_input_payload_size(handle), ARGS_AREA);
    HG_CHECK_EQ_U64(HG_Get_output_payload_size(handle), ARGS_AREA);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

HG_TEST(cb_args_offset_fits_a_message)
{
    struct cb_end end;
    hg_size_t in;
    hg_size_t out;

    cb_start(&end, 1);
    in = HG_Class_get_input_eager_size(end.hg_class);
    out = HG_Class_get_output_eager_size(end.hg_class);
    HG_CHECK(in > 1024 && out > 1024);
    HG_CHECK_OK(HG_Class_set_input_offset(end.hg_class, in));
    HG_CHECK_OK(HG_Class_set_output_offset(end.hg_class, out));
    hg_test_expect_log("the offset exceeds the eager size");
    HG_CHECK_RET(
        HG_Class_set_input_offset(end.hg_class, in + 1), HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Class_set_output_offset(end.hg_class, out + 1), HG_INVALID_ARG);
    hg_test_expect_log("the class is NULL");
    HG_CHECK_RET(HG_Class_set_input_offset(NULL, 0), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Class_set_output_offset(NULL, 0), HG_INVALID_ARG);
    cb_end(&end);
}

HG_TEST(cb_args_proc_knows_its_class_and_handle)
{
    args_owned_t owned = {41};
    struct cb_end end;
    struct cb_call call;
    hg_handle_t handle;

    cb_open(&end);
    handle = cb_new_handle(&end, args_owned_id);
    args_owner = handle;
    HG_CHECK_OK(cb_forward(&call, handle, &owned));
    HG_CHECK_OK(cb_wait(&end, &call));
    args_owner = handle;
    HG_CHECK_OK(HG_Get_output(handle, &owned));
    HG_CHECK_EQ_INT(owned.value, 42);
    HG_CHECK_OK(HG_Free_output(handle, &owned));
    HG_CHECK_EQ_INT(
        args_asked, 1u << HG_ENCODE | 1u << HG_DECODE | 1u << HG_FREE);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

/* Memory allocated by the encoding side is freed as in Mercury. */
HG_TEST(cb_args_encoder_frees_its_own_struct)
{
    args_in_t in = {args_text(3), 0};
    args_out_t out;
    struct cb_end end;
    struct cb_call call;
    hg_handle_t handle;

    if (!hg_test_crosses_processes())
        hg_test_expect_log("HG_Free_output: the struct is NULL");
    cb_open(&end);
    handle = cb_new_handle(&end, args_given_id);
    HG_CHECK_OK(cb_forward(&call, handle, &in));
    HG_CHECK_OK(cb_wait(&end, &call));
    HG_CHECK_OK(HG_Get_output(handle, &out));
    HG_CHECK_EQ_STR(out.text, "aaaaaaaaaa");
    HG_CHECK_OK(HG_Free_output(handle, &out));
    HG_CHECK_OK(HG_Ref_incr(handle));
    HG_CHECK_OK(HG_Free_input(handle, &in));
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

HG_TEST(cb_args_message_can_be_released)
{
    cb_one_t value = {1};
    struct cb_end end;

    if (!hg_test_crosses_processes())
        hg_test_expect_log("has no message: it was released");
    cb_open(&end);
    HG_CHECK_OK(cb_call(&end, args_twice_id, &value, &value));
    HG_CHECK_RET(value.value, HG_FAULT);
    cb_close(&end);
}

/* A separate endpoint with these options, which calls itself. */
static void args_open_alone(struct cb_end *end, struct hg_init_info *info)
{
    char *string = hg_test_listen_string();

    memset(end, 0, sizeof(*end));
    end->na_class = NA_Initialize(string, NA_TRUE);
    HG_CHECK(end->na_class != NULL);
    free(string);
    info->na_class = end->na_class;
    end->hg_class = HG_Init_opt2(NULL, HG_TRUE, HG_VERSION(2, 4), info);
    HG_CHECK(end->hg_class != NULL);
    end->contexts[0] = HG_Context_create(end->hg_class);
    HG_CHECK(end->contexts[0] != NULL);
    end->count = 1;
    end->context = end->contexts[0];
    cb_register(end->hg_class);
    HG_CHECK_OK(HG_Addr_self(end->hg_class, &end->target));
}

HG_TEST(cb_args_message_may_go_early)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    cb_one_t value = {1};
    struct cb_end end;

    info.release_input_early = HG_TRUE;
    args_open_alone(&end, &info);
    args_early = true;
    hg_test_expect_log("has no message: it was released");
    HG_CHECK_OK(cb_call(&end, args_twice_id, &value, &value));
    HG_CHECK_RET(value.value, HG_FAULT);
    cb_close(&end);
}

/* A handle that calls has no input to release: the buffer of its next input
 * belongs to the application. */
HG_TEST(cb_args_buffer_of_an_origin_is_not_released)
{
    args_in_t in = {NULL, 10};
    struct cb_end end;
    hg_handle_t handle;
    args_out_t out;
    hg_size_t size = 0;
    void *bytes = NULL, *again = NULL;

    cb_open(&end);
    handle = cb_new_handle(&end, args_id);
    HG_CHECK_OK(HG_Get_input_buf(handle, &bytes, &size));
    HG_CHECK_OK(HG_Release_input_buf(handle));
    memset(bytes, 'b', (size_t) size);
    HG_CHECK_OK(HG_Get_input_buf(handle, &again, NULL));
    HG_CHECK(again == bytes);
    in.text = args_text(100);
    HG_CHECK_OK(cb_do(&end, handle, &in, &out));
    HG_CHECK_OK(HG_Free_output(handle, &out));
    free(in.text);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

/* The output does not fit either: the caller gets the error. */
static hg_return_t args_too_much(hg_handle_t handle)
{
    struct blob out;
    hg_return_t ret;

    out.size =
        (size_t) HG_Class_get_output_eager_size(HG_Get_info(handle)->hg_class);
    out.bytes = (unsigned char *) calloc(1, out.size);
    HG_CHECK(out.bytes != NULL);
    ret = HG_Respond(handle, NULL, NULL, &out);
    free(out.bytes);
    HG_CHECK_RET(ret, HG_OVERFLOW);
    HG_CHECK_OK(HG_Destroy(handle));
    return HG_SUCCESS;
}

HG_TEST(cb_args_overflow_may_be_forbidden)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    args_in_t in = {NULL, 10};
    args_out_t out;
    struct cb_end end;
    struct cb_call call;
    hg_handle_t handle;
    hg_id_t id;
    size_t most;

    info.no_overflow = true;
    args_open_alone(&end, &info);
    most = (size_t) HG_Class_get_input_eager_size(end.hg_class) - ARGS_AREA -
        (8 + 1 + 2) - 8;
    handle = cb_new_handle(&end, args_id);
    in.text = args_text(most);
    HG_CHECK_OK(cb_do(&end, handle, &in, &out));
    HG_CHECK_OK(HG_Free_output(handle, &out));
    free(in.text);
    in.text = args_text(most + 1);
    hg_test_expect_log("larger ones are disabled");
    HG_CHECK_RET(cb_forward(&call, handle, &in), HG_OVERFLOW);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    free(in.text);
    id = HG_Register_name(
        end.hg_class, "args too much", NULL, blob_proc, args_too_much);
    HG_CHECK(id != 0);
    HG_CHECK_OK(HG_Reset(handle, HG_ADDR_NULL, id));
    HG_CHECK(cb_do(&end, handle, NULL, NULL) != HG_SUCCESS);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}
