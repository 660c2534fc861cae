/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of the callback model: looked up in both ways, counted, compared
 * and printed. On every transport.
 */
#include "cb.h"

static hg_id_t addr_inc_id;
static hg_id_t addr_keep_id;
static hg_id_t addr_drop_id;

/* Calls that are not answered. */
static hg_handle_t addr_kept[8];
static unsigned addr_kept_count;

static hg_return_t addr_keep(hg_handle_t handle)
{
    HG_CHECK(addr_kept_count < sizeof(addr_kept) / sizeof(addr_kept[0]));
    addr_kept[addr_kept_count++] = handle;
    return HG_SUCCESS;
}

/* Report how many of them were canceled by their caller; if that is the number
 * wanted, destroy all. */
static hg_return_t addr_drop(hg_handle_t handle)
{
    cb_one_t want;
    cb_one_t count = {0};
    unsigned i;

    HG_CHECK_OK(HG_Get_input(handle, &want));
    HG_CHECK_OK(HG_Free_input(handle, &want));
    for (i = 0; i < addr_kept_count; i++)
        count.value += HG_Is_canceled(addr_kept[i]) ? 1 : 0;
    while (count.value == want.value && addr_kept_count > 0)
        HG_CHECK_OK(HG_Destroy(addr_kept[--addr_kept_count]));
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &count));
    return HG_Destroy(handle);
}

static void cb_register(hg_class_t *hg_class)
{
    addr_inc_id =
        MERCURY_REGISTER(hg_class, "addr inc", cb_one_t, cb_one_t, cb_inc);
    addr_keep_id =
        MERCURY_REGISTER(hg_class, "addr keep", cb_one_t, void, addr_keep);
    addr_drop_id =
        MERCURY_REGISTER(hg_class, "addr drop", cb_one_t, cb_one_t, addr_drop);
    HG_CHECK(addr_inc_id != 0 && addr_keep_id != 0 && addr_drop_id != 0);
}

/* The name of the target. */
static void addr_name(
    const struct cb_end *end, hg_addr_t addr, char name[NA_MAX_ADDR_LEN])
{
    hg_size_t size = NA_MAX_ADDR_LEN;

    HG_CHECK_OK(HG_Addr_to_string(end->hg_class, name, &size, addr));
    HG_CHECK_EQ_U64(size, strlen(name) + 1);
}

struct addr_found {
    _Atomic unsigned ends;
    hg_return_t ret;
    hg_addr_t addr;
};

static hg_return_t addr_found(const struct hg_cb_info *info)
{
    struct addr_found *found = (struct addr_found *) info->arg;

    HG_CHECK(cb_triggering > 0);
    HG_CHECK_EQ_INT(info->type, HG_CB_LOOKUP);
    found->ret = info->ret;
    found->addr = info->info.lookup.addr;
    HG_CHECK_EQ_INT(atomic_fetch_add(&found->ends, 1), 0);
    return HG_OTHER_ERROR; /* its value is ignored */
}

/* Look up with a callback; returns the result. */
static hg_return_t addr_look_up(
    const struct cb_end *end, const char *name, struct addr_found *found)
{
    char copy[NA_MAX_ADDR_LEN];
    hg_return_t ret;

    memset(found, 0, sizeof(*found));
    snprintf(copy, sizeof(copy), "%s", name);
    ret =
        HG_Addr_lookup1(end->context, addr_found, found, copy, HG_OP_ID_IGNORE);
    memset(copy, 0, sizeof(copy)); /* it was copied */
    if (ret != HG_SUCCESS)
        return ret;
    HG_CHECK_EQ_INT(found->ends, 0);
    cb_turn_until(end->context, &found->ends);
    return found->ret;
}

HG_TEST(cb_addr_lookup_callback_returns_a_reference)
{
    struct addr_found found;
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end;

    cb_open(&end);
    addr_name(&end, end.target, name);
    HG_CHECK_OK(addr_look_up(&end, name, &found));
    HG_CHECK(HG_Addr_cmp(end.hg_class, found.addr, end.target));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, found.addr));
    /* Without a callback nothing is kept. */
    HG_CHECK_OK(
        HG_Addr_lookup1(end.context, NULL, NULL, name, HG_OP_ID_IGNORE));
    (void) cb_turn(end.context, 1);
    cb_close(&end);
}

/* A context is not destroyed before the callback of a lookup has run. */
HG_TEST(cb_addr_lookup_completes_before_its_context_ends)
{
    struct addr_found found;
    char name[NA_MAX_ADDR_LEN];
    hg_context_t *context;
    struct cb_end end;

    cb_open(&end);
    addr_name(&end, end.target, name);
    context = HG_Context_create_id(end.hg_class, 1);
    HG_CHECK(context != NULL);
    memset(&found, 0, sizeof(found));
    HG_CHECK_OK(
        HG_Addr_lookup1(context, addr_found, &found, name, HG_OP_ID_IGNORE));
    cb_triggering++; /* it runs callbacks, too */
    HG_CHECK_OK(HG_Context_destroy(context));
    cb_triggering--;
    HG_CHECK_EQ_INT(found.ends, 1);
    HG_CHECK_OK(found.ret);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, found.addr));
    cb_close(&end);
}

HG_TEST(cb_addr_lookup_without_a_listener_fails)
{
    struct addr_found found;
    struct cb_end end;
    char *string;
    hg_addr_t addr = HG_ADDR_NULL;
    hg_return_t ret;

    hg_test_allow_log("");
    cb_open(&end);
    HG_CHECK(addr_look_up(&end, "nosuch://x", &found) != HG_SUCCESS);
    HG_CHECK_EQ_INT(found.ends, 0);
    HG_CHECK(HG_Addr_lookup2(end.hg_class, "no address", &addr) != HG_SUCCESS);
    string = hg_test_listen_string(); /* an address without a listener */
    if (!hg_test_is_self() && strstr(string, ":0") == NULL) {
        ret = addr_look_up(&end, string, &found);
        HG_CHECK(ret != HG_SUCCESS);
        HG_CHECK(found.addr == HG_ADDR_NULL);
    }
    free(string);
    HG_CHECK(addr == HG_ADDR_NULL);
    cb_close(&end);
}

/* As Mercury's own test does. */
HG_TEST(cb_addr_lookup_call_and_free_repeatedly)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end;
    hg_handle_t handle;
    unsigned i;

    cb_open(&end);
    addr_name(&end, end.target, name);
    handle = cb_new_handle(&end, addr_inc_id);
    for (i = 0; i < 32; i++) {
        cb_one_t value = {(int32_t) i};
        hg_addr_t addr;

        HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &addr));
        HG_CHECK_OK(HG_Reset(handle, addr, addr_inc_id));
        HG_CHECK_OK(cb_do(&end, handle, &value, &value));
        HG_CHECK_EQ_INT(value.value, (int) i + 1);
        HG_CHECK_OK(HG_Free_output(handle, &value));
        HG_CHECK_OK(HG_Addr_set_remove(end.hg_class, addr));
        HG_CHECK_OK(HG_Addr_free(end.hg_class, addr));
    }
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

/* A live peer is removed: operations in flight end on both sides. The next
 * lookup gives the same peer over another connection. */
HG_TEST(cb_addr_set_remove_ends_calls_and_allows_a_new_lookup)
{
    enum { COUNT = 5 };
    struct cb_call calls[COUNT];
    struct cb_call late;
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end;
    cb_one_t one = {1};
    hg_addr_t before, again;
    hg_return_t want;
    unsigned turns = 0;
    unsigned i;

    hg_test_allow_log("");
    cb_open(&end);
    want = end.peer != NULL ? HG_DISCONNECT : HG_CANCELED;
    addr_name(&end, end.target, name);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(
            cb_forward(&calls[i], cb_new_handle(&end, addr_keep_id), &one));
    HG_CHECK_OK(cb_call(&end, addr_inc_id, &one, &one)); /* all are there */
    HG_CHECK_OK(HG_Addr_set_remove(end.hg_class, end.target));
    HG_CHECK_OK(HG_Addr_set_remove(end.hg_class, end.target));
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &again));
    HG_CHECK_EQ_INT(again == end.target, end.peer == NULL);
    if (end.peer != NULL) {
        for (i = 0; i < COUNT; i++)
            HG_CHECK_RET(cb_wait(&end, &calls[i]), HG_DISCONNECT);
        HG_CHECK_OK(cb_forward(&late, calls[0].handle, &one));
        HG_CHECK_RET(cb_wait(&end, &late), HG_DISCONNECT);
    }
    before = end.target;
    end.target = again;
    HG_CHECK_OK(cb_call(&end, addr_inc_id, &one, &one));
    HG_CHECK(HG_Addr_cmp(end.hg_class, again, before));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, before));
    /* At the peer they end as well. */
    do {
        one.value = end.peer != NULL ? COUNT : 0;
        HG_CHECK_OK(cb_call(&end, addr_drop_id, &one, &one));
        HG_CHECK(turns++ < CB_TIMEOUT);
    } while (one.value != (end.peer != NULL ? COUNT : 0));
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_RET(cb_wait(&end, &calls[i]), want);
        HG_CHECK_OK(HG_Destroy(calls[i].handle));
    }
    cb_close(&end);
}

static na_return_t addr_parted(const struct na_cb_info *info)
{
    HG_CHECK_OK(info->ret);
    *(bool *) info->arg = true;
    return NA_SUCCESS;
}

/* A terminated peer, whether that is complete or not: its address, which could
 * be used again, is unusable after the removal. */
HG_TEST_WHERE(
    cb_addr_set_remove_of_an_unconnected_address, hg_test_crosses_processes)
{
    char name[NA_MAX_ADDR_LEN];
    cb_one_t one = {1};
    na_context_t *context;
    struct cb_call call;
    struct cb_end end;
    unsigned way;

    cb_open(&end);
    addr_name(&end, end.target, name);
    context = NA_Context_create(end.na_class);
    HG_CHECK(context != NULL);
    for (way = 0; way < 2; way++) {
        bool parted = false;
        hg_addr_t again;

        HG_CHECK_OK(cb_call(&end, addr_inc_id, &one, &one));
        HG_CHECK_OK(NA_Addr_terminate(end.na_class, context, addr_parted,
            &parted, end.target, NA_OP_ID_IGNORE));
        if (way == 1)
            HG_CHECK_OK(HG_Addr_set_remove(end.hg_class, end.target));
        while (!parted) {
            (void) NA_Progress(end.na_class, context, 10);
            (void) NA_Trigger(context, 0, 1, NULL);
        }
        if (way == 0)
            HG_CHECK_OK(HG_Addr_set_remove(end.hg_class, end.target));
        HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, addr_inc_id), &one));
        HG_CHECK_RET(cb_wait(&end, &call), HG_DISCONNECT);
        HG_CHECK_OK(HG_Destroy(call.handle));
        HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &again));
        HG_CHECK(again != end.target);
        HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
        end.target = again;
    }
    HG_CHECK_OK(cb_call(&end, addr_inc_id, &one, &one));
    HG_CHECK_OK(NA_Context_destroy(end.na_class, context));
    cb_close(&end);
}

HG_TEST(cb_addr_references_are_counted)
{
    struct cb_end end;
    hg_addr_t self = HG_ADDR_NULL;
    hg_addr_t again = HG_ADDR_NULL;
    hg_handle_t handle;

    cb_open(&end);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    HG_CHECK_OK(HG_Addr_dup(end.hg_class, end.target, &again));
    HG_CHECK(HG_Addr_cmp(end.hg_class, again, end.target));
    HG_CHECK_EQ_INT(HG_Addr_cmp(end.hg_class, self, end.target),
        end.peer == NULL ? HG_TRUE : HG_FALSE);
    HG_CHECK_EQ_INT(
        HG_Addr_cmp(end.hg_class, HG_ADDR_NULL, HG_ADDR_NULL), HG_TRUE);
    HG_CHECK_EQ_INT(HG_Addr_cmp(end.hg_class, HG_ADDR_NULL, self), HG_FALSE);
    HG_CHECK_EQ_INT(HG_Addr_cmp(end.hg_class, self, HG_ADDR_NULL), HG_FALSE);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, HG_ADDR_NULL));
    /* A handle keeps its own reference. */
    HG_CHECK_OK(HG_Create(end.context, again, addr_inc_id, &handle));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, again));
    HG_CHECK(HG_Get_info(handle)->addr == again);
    HG_CHECK(HG_Addr_cmp(end.hg_class, HG_Get_info(handle)->addr, end.target));
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

HG_TEST(cb_addr_string_reports_its_size)
{
    char name[NA_MAX_ADDR_LEN];
    char want[NA_MAX_ADDR_LEN];
    hg_size_t size = 0;
    struct cb_end end;

    cb_open(&end);
    addr_name(&end, end.target, want);
    HG_CHECK_OK(HG_Addr_to_string(end.hg_class, NULL, &size, end.target));
    HG_CHECK_EQ_U64(size, strlen(want) + 1);
    memset(name, 'x', sizeof(name));
    HG_CHECK_OK(HG_Addr_to_string(end.hg_class, name, &size, end.target));
    HG_CHECK_EQ_STR(name, want);
    HG_CHECK_EQ_INT(name[size], 'x');
    size--;
    hg_test_expect_log("HG_Addr_to_string: ");
    HG_CHECK_RET(
        HG_Addr_to_string(end.hg_class, name, &size, end.target), HG_OVERFLOW);
    HG_CHECK_EQ_U64(size, strlen(want) + 1);
    cb_close(&end);
}

/* Both functions return Mercury's codes. */
HG_TEST(cb_addr_malformed_strings_are_refused)
{
    static const char *const wrong[] = {
        "carrier+pigeon://coop", "://", "none://x", "?://"};
    static const char *const no_protocol[] = {
        "", "rubbish", "a\nb", "na+sm:1-1"};
    hg_addr_t addr = HG_ADDR_NULL;
    struct cb_end end;
    size_t i;

    hg_test_allow_log("");
    cb_open(&end);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        HG_CHECK_RET(HG_Addr_lookup2(end.hg_class, wrong[i], &addr), HG_NODEV);
        HG_CHECK_RET(
            HG_Addr_lookup1(end.context, addr_found, NULL, wrong[i], NULL),
            HG_NODEV);
        HG_CHECK_RET(
            HG_Addr_lookup1(end.context, NULL, NULL, wrong[i], NULL), HG_NODEV);
    }
    for (i = 0; i < sizeof(no_protocol) / sizeof(no_protocol[0]); i++)
        HG_CHECK_RET(HG_Addr_lookup2(end.hg_class, no_protocol[i], &addr),
            HG_INVALID_ARG);
    HG_CHECK(addr == HG_ADDR_NULL);
    cb_close(&end);
}

HG_TEST(cb_addr_invalid_arguments_are_refused)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end;
    struct cb_end other;
    hg_addr_t addr = HG_ADDR_NULL;
    hg_size_t size = sizeof(name);

    hg_test_expect_log("HG_Addr_free: the address is of another class");
    hg_test_expect_log("HG_Addr_self: the pointer for the address is NULL");
    hg_test_expect_log("HG_Addr_dup: the pointer for the address is NULL");
    hg_test_allow_log("");
    cb_open(&end);
    cb_start(&other, 1);
    HG_CHECK_RET(
        HG_Addr_lookup1(NULL, addr_found, NULL, "x", NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_lookup1(end.context, addr_found, NULL, NULL, NULL),
        HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_lookup2(NULL, "x", &addr), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_lookup2(end.hg_class, NULL, &addr), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_lookup2(end.hg_class, "x", NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_free(NULL, end.target), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_free(other.hg_class, end.target), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_set_remove(NULL, end.target), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_set_remove(end.hg_class, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_self(NULL, &addr), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_self(end.hg_class, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_dup(NULL, end.target, &addr), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_dup(end.hg_class, NULL, &addr), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_dup(end.hg_class, end.target, NULL), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(HG_Addr_cmp(NULL, end.target, end.target), HG_FALSE);
    HG_CHECK_RET(
        HG_Addr_to_string(NULL, name, &size, end.target), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_to_string(end.hg_class, name, NULL, end.target),
        HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Addr_to_string(end.hg_class, name, &size, NULL), HG_INVALID_ARG);
    HG_CHECK(addr == HG_ADDR_NULL);
    cb_end(&other);
    cb_close(&end);
}
