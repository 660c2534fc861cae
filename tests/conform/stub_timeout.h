/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stub_timeout: bulk memory that does not arrive in time, for the programs of
 * both models.
 *
 * The origin is a class of the callback model in this process. It makes no
 * progress while the target, of either model, executes the call and waits for
 * the origin's memory: until the call's deadline, or until the time limit of
 * the transfer. If the transport moves memory without its owner, the memory
 * arrives all the same.
 */
#ifndef HG_TESTS_CONFORM_STUB_LATE_H
#define HG_TESTS_CONFORM_STUB_LATE_H

#include "support/stubs.h"

#include <poll.h>
#include <pthread.h>

/* Time limits of a transfer: the option bulk_ms, and the limit given to
 * HG_Bulk_push_timed. */
#define LATE_OPTION_MS 50
#define LATE_TIMED_MS 40

#define LATE_SIZE ((size_t) 4 << 20)

struct late {
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t target;
    _Atomic bool ended;
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

static void late_open(
    struct late *late, na_class_t *na_class, const char *address)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    memset(late, 0, sizeof(*late));
    info.na_class = na_class;
    late->hg_class = HG_Init_opt(NULL, HG_FALSE, &info);
    HG_CHECK(late->hg_class != NULL);
    late->context = HG_Context_create(late->hg_class);
    HG_CHECK(late->context != NULL);
    HG_CHECK_OK(HG_Addr_lookup1(
        late->context, late_found, late, address, HG_OP_ID_IGNORE));
}

static void late_close(struct late *late, na_class_t *na_class)
{
    HG_CHECK_OK(HG_Addr_free(late->hg_class, late->target));
    HG_CHECK_OK(HG_Context_destroy(late->context));
    HG_CHECK_OK(HG_Finalize2(late->hg_class));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* Start a call of the target's stubs_store or stubs_fill. */
static hg_handle_t late_begin(
    struct late *late, const char *function, hg_bulk_t bulk, unsigned deadline)
{
    bool store = strcmp(function, "stubs_store") == 0;
    stubs_store_in_t store_in = {0, bulk};
    stubs_fill_in_t fill_in = {bulk, 9};
    hg_handle_t handle;
    hg_id_t id;

    id = HG_Register_name(late->hg_class, function,
        store ? hg_proc_stubs_store_in_t : hg_proc_stubs_fill_in_t,
        store ? hg_proc_stubs_store_out_t : hg_proc_stubs_fill_out_t, NULL);
    HG_CHECK_OK(HG_Create(late->context, late->target, id, &handle));
    HG_CHECK_OK(HG_Set_deadline(handle, deadline));
    late->ended = false;
    HG_CHECK_OK(HG_Forward2(handle, late_ended, late,
        store ? (void *) &store_in : (void *) &fill_in));
    return handle;
}

/* Call a function of the target. `turn` makes progress at the target once. The
 * origin makes no progress before *calls of that function have returned. With a
 * deadline of 0 the time limit of the transfer is reached first. */
static void late_call(struct late *late, const char *function, hg_bulk_t bulk,
    const unsigned *calls, unsigned deadline, void (*turn)(void *arg),
    void *arg)
{
    hg_handle_t handle = late_begin(late, function, bulk, deadline);

    while (*calls == 0)
        turn(arg);
    while (!late->ended) {
        turn(arg);
        late_turn(late);
    }
    HG_CHECK_OK(HG_Destroy(handle));
}

static void *late_drive(void *arg)
{
    struct late *late = (struct late *) arg;

    (void) poll(NULL, 0, 2 * LATE_OPTION_MS);
    while (!late->ended)
        late_turn(late);
    return NULL;
}

/* A late call with a transfer without a limit: the origin makes progress in its
 * own thread, after the time of the option. */
static void late_call_unlimited(struct late *late, const char *function,
    hg_bulk_t bulk, void (*turn)(void *arg), void *arg)
{
    hg_handle_t handle = late_begin(late, function, bulk, 0);
    pthread_t thread;

    stubs_limit = 0;
    HG_CHECK(pthread_create(&thread, NULL, late_drive, late) == 0);
    while (!late->ended)
        turn(arg);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_OK(HG_Destroy(handle));
}

/* Whether every transport of the class has to ask the owner of the memory. */
static bool late_waits(void)
{
    return strncmp(hg_test_transport(), "zmq", 3) == 0 || hg_test_emulated();
}

/* Check the result of a transfer whose call has a deadline, or which has a time
 * limit. */
static void late_judge(hg_return_t got, hg_return_t want)
{
    if (late_waits() || got != HG_SUCCESS) /* else the memory did arrive */
        HG_CHECK_RET(got, want);
}

/* Frees the memory before the target moves it. */
static hg_bulk_t late_bulk;

static void late_give_back(void)
{
    stubs_hook = NULL;
    HG_CHECK_OK(HG_Bulk_free(late_bulk));
}

/* Calls with a deadline and without one, with transfers that have a time limit
 * or none. The target has the option LATE_OPTION_MS. Returns how many transfers
 * reached their limit. */
static unsigned late_run(na_class_t *na_class, const char *address,
    void (*turn)(void *arg), void *arg)
{
    void *data = stubs_new_pattern(LATE_SIZE, 1);
    hg_size_t size = LATE_SIZE;
    unsigned timeouts = 0;
    hg_bulk_t bulk;
    struct late late;

    late_open(&late, na_class, address);
    while (late.target == HG_ADDR_NULL) { /* the watchdog ends it */
        turn(arg);
        late_turn(&late);
    }
    HG_CHECK_OK(HG_Bulk_create(
        late.hg_class, 1, &data, &size, HG_BULK_READWRITE, &bulk));
    late_call(&late, "stubs_store", bulk, &stubs_pulls, 50, turn, arg);
    late_judge(stubs_pulled, HG_CANCELED);
    /* The response may arrive before the origin notices the deadline. */
    HG_CHECK(late.ret == HG_TIMEOUT || late.ret == HG_SUCCESS);
    stubs_pulls = 0;
    late_call(&late, "stubs_store", bulk, &stubs_pulls, 0, turn, arg);
    late_judge(stubs_pulled, HG_TIMEOUT);
    timeouts += stubs_pulled == HG_TIMEOUT;
    HG_CHECK_OK(late.ret);
    stubs_limit = LATE_TIMED_MS;
    late_call(&late, "stubs_fill", bulk, &stubs_pushes, 0, turn, arg);
    late_judge(stubs_pushed, HG_TIMEOUT);
    timeouts += stubs_pushed == HG_TIMEOUT;
    HG_CHECK_OK(late.ret);
    late_call_unlimited(&late, "stubs_store", bulk, turn, arg);
    HG_CHECK_OK(stubs_pulled);
    late_call_unlimited(&late, "stubs_fill", bulk, turn, arg);
    HG_CHECK_OK(stubs_pushed);
    stubs_limit = -1;
    stubs_pulls = 0;
    stubs_hook = late_give_back;
    late_bulk = bulk;
    late_call(&late, "stubs_store", bulk, &stubs_pulls, 0, turn, arg);
    /* If the owner has to answer, the time limit of the transfer is reached
     * first. */
    if (strcmp(hg_test_transport(), "self") == 0 && !hg_test_emulated())
        HG_CHECK_RET(stubs_pulled, HG_CANCELED);
    else
        HG_CHECK(stubs_pulled == HG_TIMEOUT || stubs_pulled == HG_CANCELED);
    HG_CHECK_EQ_INT(stubs_stale, 0);
    late_close(&late, na_class);
    free(data);
    return timeouts;
}

#endif
