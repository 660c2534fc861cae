/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conform: shared by the NA conformance programs: an endpoint, a record for
 * every operation, and progress until an operation has ended.
 *
 * Every record checks the rules that hold on any transport: its callback runs
 * inside NA_Trigger, at most once, and gets the type that was started. By
 * default the endpoint belongs to the thread that opened it; records that
 * several threads use are atomic.
 */
#ifndef HG_TESTS_CONFORM_H
#define HG_TESTS_CONFORM_H

#include "hg.h"

#include "harness.h"

#include <stdatomic.h>

#define CONFORM_TIMEOUT HG_TEST_WAIT_MS

struct conform_end {
    na_class_t *na_class;
    na_context_t *context;
    na_addr_t self;
};

struct conform_call {
    _Atomic unsigned ends;
    na_return_t ret;
    na_cb_type_t type;
    na_size_t size;
    na_tag_t tag;
    na_addr_t addr; /* of a lookup, or the source: freed by the test */
    na_op_id_t id;
};

/* How many calls of NA_Trigger this thread is in. */
static _Thread_local unsigned conform_triggering;

static inline na_return_t conform_ended(const struct na_cb_info *info)
{
    struct conform_call *call = (struct conform_call *) info->arg;

    HG_CHECK(conform_triggering > 0);
    call->ret = info->ret;
    call->type = info->type;
    if (info->ret == NA_SUCCESS) {
        switch (info->type) {
        case NA_CB_LOOKUP: call->addr = info->info.lookup.addr; break;
        case NA_CB_RECV_UNEXPECTED:
            call->addr = info->info.recv_unexpected.source;
            call->size = info->info.recv_unexpected.actual_buf_size;
            call->tag = info->info.recv_unexpected.tag;
            break;
        case NA_CB_RECV_EXPECTED:
            call->size = info->info.recv_expected.actual_buf_size;
            break;
        default: break;
        }
    }
    HG_CHECK_EQ_INT(atomic_fetch_add(&call->ends, 1), 0);
    return NA_SUCCESS;
}

static inline unsigned conform_trigger(
    na_context_t *context, unsigned timeout, unsigned max)
{
    unsigned count = 0;
    na_return_t ret;

    conform_triggering++;
    ret = NA_Trigger(context, timeout, max, &count);
    conform_triggering--;
    HG_CHECK_RET(ret, count > 0 ? NA_SUCCESS : NA_TIMEOUT);
    return count;
}

/* Make progress once, for at most `ms`. */
static inline unsigned conform_turn(
    na_class_t *na_class, na_context_t *context, unsigned ms)
{
    na_return_t ret = NA_Progress(na_class, context, ms);

    HG_CHECK(ret == NA_SUCCESS || ret == NA_TIMEOUT);
    return conform_trigger(context, 0, 1000);
}

/* Make progress until `call` has ended; returns its result. */
static inline na_return_t conform_wait(
    struct conform_end *end, struct conform_call *call)
{
    unsigned ms = 0;

    while (atomic_load(&call->ends) == 0) {
        HG_CHECK(ms++ < CONFORM_TIMEOUT);
        (void) conform_turn(end->na_class, end->context, 1);
    }
    return call->ret;
}

/* Make progress a few times, in which nothing may end. */
static inline void conform_idle(struct conform_end *end)
{
    unsigned i;

    for (i = 0; i < 5; i++)
        HG_CHECK_EQ_INT(conform_turn(end->na_class, end->context, 1), 0);
}

static inline void conform_info(struct na_init_info *info)
{
    static const struct na_init_info fresh = NA_INIT_INFO_INITIALIZER;

    *info = fresh;
    info->force_rma_emulation = hg_test_emulated() ? NA_TRUE : NA_FALSE;
    info->lookup_ms = hg_test_lookup_ms();
}

static inline na_class_t *conform_class(const struct na_init_info *info)
{
    struct na_init_info plain;
    char *string = hg_test_listen_string();
    na_class_t *na_class;

    if (info == NULL) {
        conform_info(&plain);
        info = &plain;
    }
    na_class = NA_Initialize_opt(string, NA_TRUE, info);
    free(string);
    HG_CHECK(na_class != NULL);
    return na_class;
}

static inline void conform_open(
    struct conform_end *end, const struct na_init_info *info)
{
    end->na_class = conform_class(info);
    end->context = NA_Context_create(end->na_class);
    HG_CHECK(end->context != NULL);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->self));
}

static inline void conform_close(struct conform_end *end)
{
    HG_CHECK_OK(NA_Addr_free(end->na_class, end->self));
    HG_CHECK_OK(NA_Context_destroy(end->na_class, end->context));
    HG_CHECK_OK(NA_Finalize(end->na_class));
}

static inline void conform_free_addr(
    struct conform_end *end, struct conform_call *call)
{
    HG_CHECK(call->addr != NA_ADDR_NULL);
    HG_CHECK_OK(NA_Addr_free(end->na_class, call->addr));
    call->addr = NA_ADDR_NULL;
}

/* Start messages: `call` is cleared first. */
static inline na_return_t conform_send(struct conform_end *end,
    struct conform_call *call, bool expected, const void *buf, na_size_t size,
    na_tag_t tag)
{
    memset(call, 0, sizeof(*call));
    return (expected ? NA_Msg_send_expected : NA_Msg_send_unexpected)(
        end->na_class, end->context, conform_ended, call, buf, size, end->self,
        tag, &call->id);
}

static inline na_return_t conform_recv(struct conform_end *end,
    struct conform_call *call, bool expected, void *buf, na_size_t size,
    na_tag_t tag)
{
    memset(call, 0, sizeof(*call));
    if (!expected)
        return NA_Msg_recv_unexpected(end->na_class, end->context,
            conform_ended, call, buf, size, &call->id);
    return NA_Msg_recv_expected(end->na_class, end->context, conform_ended,
        call, buf, size, end->self, tag, &call->id);
}

static inline na_mem_handle_t conform_memory(
    struct conform_end *end, void *buf, na_size_t size, unsigned long flags)
{
    na_mem_handle_t mem;

    HG_CHECK_OK(NA_Mem_handle_create(end->na_class, buf, size, flags, &mem));
    return mem;
}

/* Registered memory as a peer sees it. */
static inline na_mem_handle_t conform_remote(
    struct conform_end *end, na_mem_handle_t mem)
{
    na_size_t size = NA_Mem_handle_get_serialize_size(end->na_class, mem);
    void *bytes = malloc(size);
    na_mem_handle_t remote;

    HG_CHECK(size > 0 && bytes != NULL);
    HG_CHECK_OK(NA_Mem_handle_serialize(end->na_class, bytes, size, mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(end->na_class, &remote, bytes, size));
    free(bytes);
    return remote;
}

static inline void conform_fill(void *buf, size_t size, uint64_t seed)
{
    unsigned char *bytes = (unsigned char *) buf;
    size_t i;

    for (i = 0; i < size; i++)
        bytes[i] = (unsigned char) ((seed + i) * UINT64_C(0x9e3779b1) >> 13);
}

#endif
