/* SPDX-License-Identifier: BSD-3-Clause */
/* layer: see layer.h. */
#include "hg/layer.h"

#include "base/lock.h"
#include "base/log.h"

/* In a gate's word, beside the number inside: closed; to be closed, or not, in
 * a moment, for which who comes waits. */
#define HG_LAYER_CLOSED 0x80000000u
#define HG_LAYER_HELD 0x40000000u

/* What is behind a gate is written while it is closed. */
static _Atomic uint32_t hg_layer_gate = HG_LAYER_CLOSED;
static struct hg_context *hg_layer_context;
static _Atomic uint32_t hg_layer_bulk_gate = HG_LAYER_CLOSED;
static struct hg_bulk_layer *hg_layer_bulk;

static pthread_mutex_t hg_layer_mutex = PTHREAD_MUTEX_INITIALIZER;

static bool hg_layer_forked; /* set while there is one thread */
static _Atomic bool hg_layer_fork_told;

/* ---- Gates ---- */

static bool hg_layer_pass(_Atomic uint32_t *gate)
{
    for (;;) {
        uint32_t before =
            atomic_fetch_add_explicit(gate, 1, memory_order_acquire);

        if ((before & (HG_LAYER_CLOSED | HG_LAYER_HELD)) == 0)
            return true;
        atomic_fetch_sub_explicit(gate, 1, memory_order_relaxed);
        if ((before & HG_LAYER_CLOSED) != 0)
            return false;
        (void) sched_yield();
    }
}

static HG_HOT void hg_layer_go(_Atomic uint32_t *gate)
{
    uint32_t before = atomic_fetch_sub_explicit(gate, 1, memory_order_release);

    assert((before & HG_LAYER_CLOSED) == 0 || hg_layer_forked);
    assert((before & ~HG_LAYER_CLOSED) > 0);
    (void) before;
}

static void hg_layer_unbar(_Atomic uint32_t *gate)
{
    uint32_t before =
        atomic_fetch_and_explicit(gate, ~HG_LAYER_CLOSED, memory_order_release);

    assert((before & HG_LAYER_CLOSED) != 0);
    (void) before;
}

static bool hg_layer_bar(_Atomic uint32_t *gate, uint32_t how)
{
    uint32_t nobody = 0;

    return atomic_compare_exchange_strong(gate, &nobody, how);
}

/* ---- The RPC layer ---- */

/* The gate is closed. */
static HG_NOINLINE struct hg_context *hg_layer_refuse_entry(
    const char *function)
{
    if (function != NULL && !hg_layer_is_forked(function))
        (void) hg_log_misuse(
            "rpc", function, "HG_Init was not called, or HG_Finalize was");
    return NULL;
}

HG_PRIVATE struct hg_context *hg_layer_enter(const char *function)
{
    return HG_LIKELY(hg_layer_pass(&hg_layer_gate))
        ? hg_layer_context
        : hg_layer_refuse_entry(function);
}

HG_PRIVATE HG_HOT hg_return_t hg_layer_leave(hg_return_t ret)
{
    hg_layer_go(&hg_layer_gate);
    return ret;
}

HG_PRIVATE void hg_layer_open(struct hg_context *context)
{
    hg_layer_context = context;
    hg_layer_unbar(&hg_layer_gate);
}

HG_PRIVATE bool hg_layer_close(void)
{
    return hg_layer_bar(&hg_layer_gate, HG_LAYER_CLOSED);
}

/* ---- The bulk layer ---- */

HG_PRIVATE struct hg_bulk_layer *hg_layer_enter_bulk(const char *function)
{
    if (hg_layer_pass(&hg_layer_bulk_gate))
        return hg_layer_bulk;
    if (function != NULL && !hg_layer_is_forked(function))
        (void) hg_log_misuse(
            "bulk", function, "HG_Init was not called, or HG_Finalize was");
    return NULL;
}

HG_PRIVATE hg_return_t hg_layer_leave_bulk(hg_return_t ret)
{
    hg_layer_go(&hg_layer_bulk_gate);
    return ret;
}

HG_PRIVATE void hg_layer_open_bulk(struct hg_bulk_layer *bulk)
{
    hg_layer_bulk = bulk;
    hg_layer_unbar(&hg_layer_bulk_gate);
}

HG_PRIVATE bool hg_layer_close_bulk(void)
{
    return hg_layer_bar(&hg_layer_bulk_gate, HG_LAYER_CLOSED);
}

/* ---- Both ---- */

HG_PRIVATE bool hg_layer_close_both(void)
{
    bool closed;

    if (!hg_layer_bar(&hg_layer_bulk_gate, HG_LAYER_HELD))
        return false;
    closed = hg_layer_close();
    if (closed)
        atomic_fetch_or(&hg_layer_bulk_gate, HG_LAYER_CLOSED);
    atomic_fetch_and(&hg_layer_bulk_gate, ~HG_LAYER_HELD);
    return closed;
}

static void hg_layer_fork_gate(_Atomic uint32_t *gate)
{
    atomic_fetch_or(gate, HG_LAYER_CLOSED);
    atomic_fetch_and(gate, ~HG_LAYER_HELD);
}

HG_PRIVATE void hg_layer_fork(void)
{
    hg_layer_forked = true;
    hg_layer_fork_gate(&hg_layer_gate);
    hg_layer_fork_gate(&hg_layer_bulk_gate);
}

static HG_NOINLINE void hg_layer_tell_forked(const char *function)
{
    if (function != NULL)
        hg_log_keep_text("%s: the layer is of the parent process", function);
    if (function != NULL && !atomic_exchange(&hg_layer_fork_told, true))
        hg_log_error("rpc",
            "%s: the layer belongs to the process that forked this one",
            function);
}

HG_PRIVATE bool hg_layer_is_forked(const char *function)
{
    if (HG_UNLIKELY(hg_layer_forked))
        hg_layer_tell_forked(function);
    return hg_layer_forked;
}

HG_PRIVATE bool hg_layer_try_lock(void)
{
    return pthread_mutex_trylock(&hg_layer_mutex) == 0;
}

HG_PRIVATE void hg_layer_lock(void)
{
    hg_lock(&hg_layer_mutex);
}

HG_PRIVATE void hg_layer_unlock(void)
{
    hg_unlock(&hg_layer_mutex);
}

HG_PRIVATE hg_return_t hg_layer_refuse(const char *function, const char *what)
{
    return hg_log_misuse("rpc", function, what);
}
