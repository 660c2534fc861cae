/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * array: proc functions written by hand, for types that MERCURY_GEN_PROC cannot
 * generate: an array with its length, and an optional field.
 *
 *     array    sends samples to itself and prints their sum
 *
 * One function encodes, decodes and frees a type. Its steps are in the order of
 * the wire; it asks for the operation only where the three differ. Two rules
 * make a decoder safe against hostile bytes:
 *
 *   - Compare a count with hg_proc_get_size_left before you allocate memory for
 *     it. Otherwise four bytes can make the server allocate gigabytes.
 *   - Allocate with hg_proc_alloc. If a later step fails, the library frees the
 *     memory.
 */
#include <inttypes.h>
#include <stdbool.h>

#include "hg.h"
#include "peer.h"
#include "usage.h"

#define ARRAY_COUNT 1000

static const char array_help[] =
    "usage: array\n"
    "\n"
    "Sends arrays of samples to itself and prints their sums.\n";

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
            return HG_OVERFLOW; /* more values than bytes */
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

/* ---- An optional field ---- */

typedef struct {
    hg_bool_t present;
    int64_t value;
} optional_t;

/* On the wire: one byte, and the value if that byte is not 0. */
static hg_return_t hg_proc_optional_t(hg_proc_t proc, void *data)
{
    optional_t *optional = (optional_t *) data;
    hg_return_t ret = hg_proc_hg_bool_t(proc, &optional->present);

    if (ret != HG_SUCCESS || !optional->present)
        return ret;
    return hg_proc_int64_t(proc, &optional->value);
}

/* ---- MERCURY_GEN_PROC takes both types, like any other ---- */

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
    (void) HG_Handler_start_output(handle, &out);
    return HG_Handler_free(handle); /* frees the name and the array, too */
}

/* Send `count` of the samples, with or without an offset. */
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
    ret = peer_report("samples", peer_wait(request));
    if (ret == HG_SUCCESS)
        printf("%" PRIu32 " samples, sum %.0f\n", out.count, out.sum);
    (void) HG_Request_free(request);
    return ret;
}

int main(int argc, char *argv[])
{
    double values[ARRAY_COUNT];
    struct peer peer;
    hg_return_t ret;
    hg_id_t id;
    int i;

    if (usage_is_printed(argc, argv, "array", array_help))
        return 0;
    if (argc != 1)
        return usage_error("array", "expects no arguments");
    for (i = 0; i < ARRAY_COUNT; i++)
        values[i] = i;
    peer_catch_signals();
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
