/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stub_late: memory that does not come, for the programs of both models.
 *
 * The origin is a class of the callback model in this process which makes no
 * progress while the target, whatever its model, executes the call and waits
 * for the origin's memory: until the call's time is over. Where the transport
 * moves memory without its owner, it comes all the same.
 */
#ifndef HG_TESTS_CONFORM_STUB_LATE_H
#define HG_TESTS_CONFORM_STUB_LATE_H

#include "support/stubs.h"

#define LATE_SIZE ((size_t) 4 << 20)

struct late {
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t target;
    bool ended;
    hg_return_t ret;
};

static hg_return_t late_found(const struct hg_cb_info *info)
{
    struct late *late = (struct late *) info->arg;

    HG_CHECK_OK(info->ret);
    late->target = info->info.lookup.addr;
    return HG_SUCCESS;
}

static hg_return_t late_ended(const struct hg_cb_info *info)
{
    struct late *late = (struct late *) info->arg;

    late->ret = info->ret;
    late->ended = true;
    return HG_SUCCESS;
}

static void late_turn(const struct late *late)
{
    (void) HG_Progress(late->context, 1);
    while (HG_Trigger(late->context, 0, 10, NULL) == HG_SUCCESS) {
    }
}

/* One call to `address`, whose target `turn` drives, for a moment each. */
static void late_run(na_class_t *na_class, const char *address,
    void (*turn)(void *arg), void *arg)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct late late = {NULL, NULL, HG_ADDR_NULL, false, HG_SUCCESS};
    void *data = stubs_new_pattern(LATE_SIZE, 1);
    hg_size_t size = LATE_SIZE;
    stubs_store_in_t in = {0, HG_BULK_NULL};
    hg_handle_t handle;
    hg_id_t id;

    info.na_class = na_class;
    late.hg_class = HG_Init_opt(NULL, HG_FALSE, &info);
    HG_CHECK(late.hg_class != NULL);
    late.context = HG_Context_create(late.hg_class);
    HG_CHECK(late.context != NULL);
    HG_CHECK_OK(HG_Addr_lookup1(
        late.context, late_found, &late, address, HG_OP_ID_IGNORE));
    while (late.target == HG_ADDR_NULL) { /* or the watchdog */
        turn(arg);
        late_turn(&late);
    }
    HG_CHECK_OK(HG_Bulk_create(
        late.hg_class, 1, &data, &size, HG_BULK_READ_ONLY, &in.data));
    id = HG_Register_name(late.hg_class, "stubs_store",
        hg_proc_stubs_store_in_t, hg_proc_stubs_store_out_t, NULL);
    HG_CHECK_OK(HG_Create(late.context, late.target, id, &handle));
    HG_CHECK_OK(HG_Set_deadline(handle, 50));
    HG_CHECK_OK(HG_Forward2(handle, late_ended, &late, &in));
    while (stubs_pulls == 0)
        turn(arg);
    if (stubs_pulled != HG_SUCCESS) /* it did come */
        HG_CHECK_RET(stubs_pulled, HG_CANCELED);
    while (!late.ended) {
        turn(arg);
        late_turn(&late);
    }
    HG_CHECK(late.ret == HG_TIMEOUT || stubs_pulled == HG_SUCCESS);
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(HG_Bulk_free(in.data));
    HG_CHECK_OK(HG_Addr_free(late.hg_class, late.target));
    HG_CHECK_OK(HG_Context_destroy(late.context));
    HG_CHECK_OK(HG_Finalize2(late.hg_class));
    HG_CHECK_OK(NA_Finalize(na_class));
    free(data);
}

#endif
