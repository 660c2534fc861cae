/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and closing the class and its contexts, and the table of slots.
 *
 * Part of the libfabric transport; see ofi.h.
 */
#include "ofi/ofi.h"

/* ---- Endpoints ---- */

/* Open the endpoint `id` if needed, and count one more context that uses it.
 * clock_lock is held, as below. */
static na_return_t na_ofi_end_take(
    struct na_ofi_class *self, uint8_t id, struct na_ofi_end **end_p)
{
    struct na_ofi_end *end = self->ends[id];
    na_return_t ret;

    if (end == NULL) {
        ret = na_ofi_end_open(self, id, &end);
        if (ret != NA_SUCCESS)
            return ret;
        na_ofi_lock(&self->lock);
        self->ends[id] = end;
        atomic_fetch_add(&self->end_count, 1);
        na_ofi_introduce_all(self);
        na_ofi_unlock(&self->lock);
    }
    end->contexts++;
    *end_p = end;
    return NA_SUCCESS;
}

static na_return_t na_ofi_context_create(struct na_context *base)
{
    struct na_ofi_class *self = na_ofi_of(base->na_class);
    struct na_ofi_context *context = (struct na_ofi_context *) base;
    uint8_t id = base->helper ? 0 : base->id;
    na_return_t ret;

    context->joined = NA_POLL_FD_NONE;
    na_ofi_lock(&self->clock_lock);
    ret = na_ofi_end_take(self, id, &context->end);
    na_ofi_unlock(&self->clock_lock);
    return ret;
}

/* The endpoint stays open until the class closes, for the next context with
 * that number: peers know its address. */
static void na_ofi_context_destroy(struct na_context *base)
{
    const struct na_ofi_context *context = (struct na_ofi_context *) base;
    struct na_ofi_class *self = na_ofi_of(base->na_class);
    struct na_ofi_end *end = context->end;

    na_ofi_rma_end_of(end, base, 0);
    if (na_ofi_other_end(self) != NULL)
        na_ofi_rma_end_of(na_ofi_other_end(self), base, 0);
    na_ofi_lock(&self->clock_lock);
    end->contexts--;
    na_ofi_unlock(&self->clock_lock);
    if (context->joined >= 0)
        (void) close(context->joined);
}

/* ---- The class ---- */

static void na_ofi_close(struct na_class *na_class, unsigned linger_ms)
{
    struct na_ofi_class *self = na_ofi_of(na_class);

    unsigned id;

    if (self->opening)
        (void) pthread_join(self->opener, NULL);
    na_ofi_clock_stop(self);
    if (self->ends[0] != NULL)
        na_ofi_send_bye(self, linger_ms);
    for (id = 0; id < NA_OFI_ENDS; id++) {
        if (self->ends[id] != NULL)
            na_ofi_end_close(self->ends[id]);
        self->ends[id] = NULL;
    }
    na_ofi_addrs_drop(self);
    na_plug_resolver_close(self->resolver);
    na_ofi_fabric_close(self, &self->families[1]);
    na_ofi_fabric_close(self, &self->families[0]);
    if (self->guard >= 0)
        (void) close(self->guard);
    na_ofi_unprepare(self);
}

/* Open all objects of a prepared class. */
static na_return_t na_ofi_open_all(struct na_ofi_class *self, const char *host)
{
    struct na_ofi_end *end;
    char name[NA_MAX_ADDR_LEN];
    na_return_t ret;

    self->resolver = na_plug_resolver_open(&self->base, na_ofi_answered);
    if (self->resolver == NULL)
        return NA_NOMEM;
    ret = na_ofi_choose(self, host);
    if (ret == NA_SUCCESS) {
        self->keys_unsafe = na_ofi_has_unsafe_keys(self);
        ret = na_ofi_fabric_open(self, &self->families[0]);
    }
    if (ret == NA_SUCCESS)
        ret = na_ofi_end_take(self, 0, &end);
    if (ret != NA_SUCCESS)
        return ret;
    end->contexts = 0;
    na_ofi_name_of(self, end->raw, end->raw_size, name);
    ret = na_ofi_addr_self(self, name);
    if (ret != NA_SUCCESS)
        return ret;
    self->base.max_tag = UINT32_MAX;
    self->base.finds_callers = NA_TRUE;
    ret = na_ofi_clock_start(self);
    if (ret == NA_SUCCESS)
        return NA_SUCCESS;
    self->base.core->addr_unref(self->base.self_addr);
    self->base.self_addr = NULL;
    return ret;
}

static na_return_t na_ofi_open(struct na_class *na_class, const char *host)
{
    struct na_ofi_class *self = na_ofi_of(na_class);
    sigset_t before;
    na_return_t ret;

    ret = na_plug_check_needs(na_class, "ofi", NA_OFI_FDS, NA_OFI_THREADS);
    if (ret != NA_SUCCESS)
        return ret;
    if (!na_ofi_prepare(self))
        return NA_NOMEM;
    na_ofi_block_signals(&before);
    ret = na_ofi_open_all(self, host);
    na_ofi_restore_signals(&before);
    if (ret != NA_SUCCESS)
        na_ofi_close(na_class, 0);
    return ret;
}

extern const struct na_plugin hg_na_ofi_plugin;

const struct na_plugin hg_na_ofi_plugin = {
    .abi = NA_PLUGIN_ABI,
    .size = sizeof(struct na_plugin),
    .name = "ofi",
    .protocols = na_ofi_protocols,
    .caps = NA_CAP_HOLDS_BACK | NA_CAP_AUTH_KEY,
    .class_size = sizeof(struct na_ofi_class),
    .context_size = sizeof(struct na_ofi_context),
    .addr_size = sizeof(struct na_ofi_addr),
    .op_size = sizeof(struct na_ofi_op),
    .mem_size = sizeof(struct na_ofi_mem),
    .open = na_ofi_open,
    .close = na_ofi_close,
    .context_create = na_ofi_context_create,
    .context_destroy = na_ofi_context_destroy,
    .addr_lookup = na_ofi_addr_lookup,
    .addr_release = na_ofi_addr_release,
    .addr_cmp = na_ofi_addr_cmp,
    .addr_connect = na_ofi_addr_connect,
    .addr_terminate = na_ofi_addr_terminate,
    .addr_abandon = na_ofi_addr_abandon,
    .addr_resolve = na_ofi_addr_resolve,
    .msg_send = na_ofi_msg_send,
    .mem_register = na_ofi_mem_register,
    .mem_deregister = na_ofi_mem_deregister,
    .mem_serialize_size = na_ofi_mem_serialize_size,
    .mem_serialize = na_ofi_mem_serialize,
    .mem_deserialize = na_ofi_mem_deserialize,
    .mem_release = na_ofi_mem_release,
    .mem_end_local = na_ofi_mem_end_local,
    .put = na_ofi_rma_start,
    .get = na_ofi_rma_start,
    .poll = na_ofi_poll,
    .poll_fd = na_ofi_poll_fd,
    .wait_begin = na_ofi_wait_begin,
    .wait_end = na_ofi_wait_end,
    .cancel = na_ofi_cancel,
    .list_devices = na_ofi_list_devices,
};
