/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * array: procs written by hand, for what MERCURY_GEN_PROC has no word for: an
 * array with its length, and a field that may be absent.
 *
 * One function encodes, decodes and frees, so its steps stand in the order of
 * the wire, and only what differs asks which of the three it is. Two rules
 * make a decoder safe against whoever sent the bytes:
 *
 *   - a count is compared with hg_proc_get_size_left before memory is
 *     allocated by it: four bytes must not cost four gigabytes;
 *   - memory comes from hg_proc_alloc: if a later step fails, the library
 *     frees it.
 *
 * The program sends samples to itself and prints their sum.
 */
#include <inttypes.h>
#include <stdbool.h>

#include "hg.h"
#include "peer.h"
#include "stop.h"

#define ARRAY_COUNT 1000

/* ---- An array with a length ---- */

typedef struct {
    uint32_t count;
    double *values;
} array_t;

/* On the wire: the count, then the values, 8 bytes each. */
static hg_return_t hg_proc_array_t(hg_proc_t proc, void *data)
{
    array_t *array = (array_t *) data;
    hg_proc_op_t op = hg_proc_get_op(proc);
    hg_return_t ret;
    uint32_t i;

    if (op == HG_FREE) {
        hg_proc_release(proc, array->values);
        array->values = NULL;
        return HG_SUCCESS;
    }
    ret = hg_proc_uint32_t(proc, &array->count);
    if (ret != HG_SUCCESS)
        return ret;
    if (op == HG_DECODE) {
        if (array->count > hg_proc_get_size_left(proc) / sizeof(double))
            return HG_OVERFLOW; /* it claims more than arrived */
        array->values = NULL;
        if (array->count == 0)
            return HG_SUCCESS;
        array->values = (double *) hg_proc_alloc(
            proc, array->count * sizeof(array->values[0]));
        if (array->values == NULL)
            return HG_NOMEM;
    }
    for (i = 0; i < array->count && ret == HG_SUCCESS; i++)
        ret = hg_proc_double(proc, &array->values[i]);
    return ret;
}

/* ---- A field that may be absent ---- */

typedef struct {
    hg_bool_t present;
    int64_t value;
} optional_t;

/* On the wire: one byte, and the value only if that byte says so. */
static hg_return_t hg_proc_optional_t(hg_proc_t proc, void *data)
{
    optional_t *optional = (optional_t *) data;
    hg_return_t ret = hg_proc_hg_bool_t(proc, &optional->present);

    if (ret != HG_SUCCESS || !optional->present)
        return ret;
    return hg_proc_int64_t(proc, &optional->value);
}

/* ---- From here on they are types like any other ---- */

MERCURY_GEN_PROC(samples_in_t,
    ((hg_const_string_t) (name))((array_t) (samples))((optional_t) (offset)))
MERCURY_GEN_PROC(samples_out_t, ((uint32_t) (count))((double) (sum)))

static hg_return_t samples_serve(hg_handle_t handle)
{
    samples_in_t in;
    samples_out_t out = {0, 0};
    hg_return_t ret;
    uint32_t i;

    ret = HG_Handler_get_input(handle, &in);
    if (ret != HG_SUCCESS)
        return ret;
    for (i = 0; i < in.samples.count; i++)
        out.sum += in.samples.values[i];
    if (in.offset.present)
        out.sum += (double) in.offset.value;
    out.count = in.samples.count;
    (void) HG_Handler_free_input(handle, &in);
    (void) HG_Handler_start_output(handle, &out);
    return HG_Handler_free(handle);
}

/* Send `count` of the samples, with an offset or without. */
static hg_return_t samples_call(
    na_addr_t server, hg_id_t id, double *values, uint32_t count, bool shifted)
{
    samples_in_t in = {"ramp", {count, values}, {shifted, -1000}};
    samples_out_t out;
    hg_request_t request;
    hg_return_t ret;

    ret = HG_Forward(server, id, &in, &out, &request);
    if (ret != HG_SUCCESS)
        return ret;
    ret = peer_say("samples", stop_wait(request));
    if (ret == HG_SUCCESS)
        printf("%" PRIu32 " samples, sum %.0f\n", out.count, out.sum);
    (void) HG_Request_free(request);
    return ret;
}

int main(void)
{
    double values[ARRAY_COUNT];
    struct peer peer;
    hg_return_t ret;
    hg_id_t id;
    int i;

    for (i = 0; i < ARRAY_COUNT; i++)
        values[i] = i;
    stop_on_signals();
    ret = peer_listen(&peer, "self://");
    if (ret != HG_SUCCESS)
        return 1;
    id =
        MERCURY_REGISTER("samples", samples_in_t, samples_out_t, samples_serve);
    ret = id == 0 ? HG_OTHER_ERROR : HG_SUCCESS;
    if (ret == HG_SUCCESS)
        ret = samples_call(peer.addr, id, values, ARRAY_COUNT, false);
    if (ret == HG_SUCCESS)
        ret = samples_call(peer.addr, id, values, ARRAY_COUNT, true);
    if (ret == HG_SUCCESS)
        ret = samples_call(peer.addr, id, NULL, 0, true);
    peer_close(&peer);
    return ret != HG_SUCCESS;
}
