/* SPDX-License-Identifier: BSD-3-Clause */
/* pipeline: see pipeline.h. */
#include "pipeline.h"

#include <string.h>

/* A client that is alive may still not serve a transfer, so a piece has a
 * timeout. */
#define PIPELINE_TIMEOUT_S 10

/* Allocate the memory of a buffer. */
static hg_return_t pipeline_allocate(
    const struct pipeline *pipeline, struct pipeline_buffer *buffer)
{
    unsigned int segments = 0;
    size_t got = 0;
    hg_return_t ret;

    /* Without a pointer the library allocates memory, which some transports
     * access faster. */
    ret = HG_Bulk_handle_create(
        1, NULL, &pipeline->buffer_size, HG_BULK_READWRITE, &buffer->block);
    if (ret != HG_SUCCESS)
        return ret;
    return HG_Bulk_handle_access(buffer->block, 0, pipeline->buffer_size,
        HG_BULK_READWRITE, 1, &buffer->data, &got, &segments);
}

static void pipeline_release(struct pipeline_buffer *buffer)
{
    if (buffer->block != HG_BULK_NULL)
        (void) HG_Bulk_block_handle_free(buffer->block);
    buffer->block = HG_BULK_NULL;
}

hg_return_t pipeline_init(
    struct pipeline *pipeline, size_t count, size_t buffer_size)
{
    hg_return_t ret = HG_SUCCESS;

    memset(pipeline, 0, sizeof(*pipeline));
    if (count == 0 || count > PIPELINE_BUFFERS_MAX || buffer_size == 0)
        return HG_INVALID_ARG;
    pipeline->buffer_size = buffer_size;
    pipeline->timeout_s = PIPELINE_TIMEOUT_S;
    while (pipeline->count < count && ret == HG_SUCCESS)
        ret =
            pipeline_allocate(pipeline, &pipeline->buffers[pipeline->count++]);
    if (ret != HG_SUCCESS)
        pipeline_fini(pipeline);
    return ret;
}

void pipeline_fini(struct pipeline *pipeline)
{
    while (pipeline->count > 0)
        pipeline_release(&pipeline->buffers[--pipeline->count]);
}

/* Wait for the transfer of a buffer. A signal does not end the wait. After the
 * timeout, freeing the local bulk handle cancels the transfer. */
static hg_return_t pipeline_wait(const struct pipeline *pipeline,
    struct pipeline_buffer *buffer, unsigned timeout_s)
{
    hg_status_t done = HG_FALSE;
    hg_return_t ret = HG_TIMEOUT;
    unsigned seconds;

    for (seconds = 0; !done && seconds < timeout_s; seconds++)
        ret = HG_Bulk_wait(buffer->request, 1000, &done);
    if (!done && (ret == HG_TIMEOUT || ret == HG_INTR)) {
        pipeline_release(buffer);
        while (!done && (ret == HG_TIMEOUT || ret == HG_INTR))
            ret = HG_Bulk_wait(buffer->request, HG_MAX_IDLE_TIME, &done);
        (void) pipeline_allocate(pipeline, buffer);
    }
    buffer->size = 0;
    return ret;
}

/* End all transfers in flight: after an error cancel them, else wait for them.
 * Returns `ret` or, if that is HG_SUCCESS, the first error. */
static hg_return_t pipeline_drain(struct pipeline *pipeline, hg_return_t ret)
{
    size_t i;

    for (i = 0; i < pipeline->count; i++) {
        struct pipeline_buffer *buffer = &pipeline->buffers[i];
        hg_return_t late = HG_SUCCESS;

        if (buffer->size > 0)
            late = pipeline_wait(
                pipeline, buffer, ret == HG_SUCCESS ? pipeline->timeout_s : 0);
        if (ret == HG_SUCCESS)
            ret = late;
    }
    return ret;
}

/* The size of the piece at `offset`; 0: `offset` is at the end. */
static size_t pipeline_piece(
    const struct pipeline *pipeline, uint64_t offset, uint64_t size)
{
    if (offset >= size)
        return 0;
    return size - offset < pipeline->buffer_size ? (size_t) (size - offset)
                                                 : pipeline->buffer_size;
}

/* Start the transfer of the piece at `offset`, if there is one. */
static hg_return_t pipeline_start(struct pipeline *pipeline,
    struct pipeline_buffer *buffer, hg_bulk_op_t op, na_addr_t addr,
    hg_bulk_t origin, uint64_t offset, uint64_t size)
{
    size_t piece = pipeline_piece(pipeline, offset, size);
    hg_return_t ret;

    if (piece == 0)
        return HG_SUCCESS;
    if (buffer->block == HG_BULK_NULL) /* pipeline_wait could not allocate */
        return HG_NOMEM;
    ret = HG_Bulk_transfer(op, addr, origin, (size_t) offset, buffer->block, 0,
        piece, &buffer->request);
    if (ret != HG_SUCCESS)
        return ret;
    buffer->size = piece;
    buffer->offset = offset;
    return HG_SUCCESS;
}

hg_return_t pipeline_pull(struct pipeline *pipeline, na_addr_t addr,
    hg_bulk_t origin, uint64_t size, pipeline_work_t work, void *arg)
{
    uint64_t ahead = pipeline->count * (uint64_t) pipeline->buffer_size;
    hg_return_t ret = HG_SUCCESS;
    size_t i;

    for (i = 0; i < pipeline->count && ret == HG_SUCCESS; i++)
        ret = pipeline_start(pipeline, &pipeline->buffers[i], HG_BULK_PULL,
            addr, origin, i * (uint64_t) pipeline->buffer_size, size);
    for (i = 0; ret == HG_SUCCESS; i = (i + 1) % pipeline->count) {
        struct pipeline_buffer *buffer = &pipeline->buffers[i];
        size_t piece = buffer->size;

        if (piece == 0)
            break; /* the last piece is done */
        ret = pipeline_wait(pipeline, buffer, pipeline->timeout_s);
        if (ret == HG_SUCCESS)
            ret = work(arg, buffer->data, piece, buffer->offset);
        if (ret == HG_SUCCESS)
            ret = pipeline_start(pipeline, buffer, HG_BULK_PULL, addr, origin,
                buffer->offset + ahead, size);
    }
    return pipeline_drain(pipeline, ret);
}

hg_return_t pipeline_push(struct pipeline *pipeline, na_addr_t addr,
    hg_bulk_t origin, uint64_t size, pipeline_work_t work, void *arg)
{
    hg_return_t ret = HG_SUCCESS;
    uint64_t offset = 0;
    size_t i;

    for (i = 0; ret == HG_SUCCESS && offset < size;
         i = (i + 1) % pipeline->count) {
        struct pipeline_buffer *buffer = &pipeline->buffers[i];
        size_t piece = pipeline_piece(pipeline, offset, size);

        if (buffer->size > 0)
            ret = pipeline_wait(pipeline, buffer, pipeline->timeout_s);
        if (ret == HG_SUCCESS)
            ret = work(arg, buffer->data, piece, offset);
        if (ret == HG_SUCCESS)
            ret = pipeline_start(
                pipeline, buffer, HG_BULK_PUSH, addr, origin, offset, size);
        offset += piece;
    }
    return pipeline_drain(pipeline, ret);
}
