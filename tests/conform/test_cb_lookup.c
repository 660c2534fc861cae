/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HG_Addr_lookup2 resolves a name and does not connect: the first use of the
 * address does. Both endpoints are in this process, and make progress only when
 * a case does. On every transport that reaches other processes.
 */
#define HG_NA_PLUGIN_API 1 /* for the counters */
#include "cb.h"

static hg_id_t lookup_inc_id;
static hg_id_t lookup_note_id;
static hg_id_t lookup_blob_id;

/* The values of the calls that arrived, in order. */
static int32_t lookup_noted[64];
static unsigned lookup_noted_count;

static hg_return_t lookup_note(hg_handle_t handle)
{
    cb_one_t value;

    HG_CHECK_OK(HG_Get_input(handle, &value));
    HG_CHECK_OK(HG_Free_input(handle, &value));
    HG_CHECK(lookup_noted_count < 64);
    lookup_noted[lookup_noted_count++] = value.value;
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

static hg_return_t lookup_take_blob(hg_handle_t handle)
{
    hg_return_t ret = HG_Respond(handle, NULL, NULL, NULL);

    HG_CHECK(ret == HG_SUCCESS || ret == HG_DISCONNECT);
    return HG_Destroy(handle);
}

static void cb_register(hg_class_t *hg_class)
{
    lookup_blob_id = HG_Register_name(
        hg_class, "lookup blob", blob_proc, NULL, lookup_take_blob);
    lookup_inc_id =
        MERCURY_REGISTER(hg_class, "lookup inc", cb_one_t, cb_one_t, cb_inc);
    lookup_note_id =
        MERCURY_REGISTER(hg_class, "lookup note", cb_one_t, void, lookup_note);
    HG_CHECK(lookup_inc_id != 0 && lookup_note_id != 0 && lookup_blob_id != 0);
}

static void lookup_self_name(
    const struct cb_end *end, char name[NA_MAX_ADDR_LEN])
{
    hg_size_t size = NA_MAX_ADDR_LEN;
    hg_addr_t self;

    HG_CHECK_OK(HG_Addr_self(end->hg_class, &self));
    HG_CHECK_OK(HG_Addr_to_string(end->hg_class, name, &size, self));
    HG_CHECK_OK(HG_Addr_free(end->hg_class, self));
}

/* Two endpoints; the first has resolved the name of the second. */
static void lookup_open(struct cb_end *end, struct cb_end *other)
{
    char name[NA_MAX_ADDR_LEN];

    cb_start(end, 1);
    cb_start(other, 1);
    lookup_self_name(other, name);
    HG_CHECK_OK(HG_Addr_lookup2(end->hg_class, name, &end->target));
}

static void lookup_close(struct cb_end *end, struct cb_end *other)
{
    HG_CHECK_OK(HG_Addr_free(end->hg_class, end->target));
    cb_end(end);
    cb_end(other);
}

/* Wait for the result of a call; both endpoints make progress. */
static hg_return_t lookup_wait(const struct cb_end *end,
    const struct cb_end *other, const struct cb_call *call)
{
    unsigned turns = 0;

    while (atomic_load(&call->ends) == 0) {
        HG_CHECK(turns++ < CB_TIMEOUT);
        (void) cb_turn(end->context, 1);
        (void) cb_turn(other->context, 0);
    }
    return call->ret;
}

static void lookup_check(const struct cb_end *end, const struct cb_end *other)
{
    cb_one_t one = {5};
    struct cb_call call;

    HG_CHECK_OK(cb_forward(&call, cb_new_handle(end, lookup_inc_id), &one));
    HG_CHECK_OK(lookup_wait(end, other, &call));
    HG_CHECK_OK(HG_Get_output(call.handle, &one));
    HG_CHECK_EQ_INT(one.value, 6);
    HG_CHECK_OK(HG_Free_output(call.handle, &one));
    HG_CHECK_OK(HG_Destroy(call.handle));
}

/* An address without a listener. Over MPI the next class of this process reuses
 * it. */
static void lookup_dead_name(char name[NA_MAX_ADDR_LEN])
{
    struct cb_end gone;

    cb_start(&gone, 1);
    lookup_self_name(&gone, name);
    cb_end(&gone);
}

HG_TEST_WHERE(lookup_of_each_other_needs_no_progress, hg_test_crosses_processes)
{
    struct cb_end ends[2];
    char names[2][NA_MAX_ADDR_LEN];
    char text[NA_MAX_ADDR_LEN];
    hg_addr_t again;
    unsigned i;

    for (i = 0; i < 2; i++) {
        cb_start(&ends[i], 1);
        lookup_self_name(&ends[i], names[i]);
    }
    for (i = 0; i < 2; i++) {
        struct cb_end *end = &ends[i];
        hg_size_t size = sizeof(text);
        hg_addr_t self;

        HG_CHECK_OK(HG_Addr_lookup2(end->hg_class, names[1 - i], &end->target));
        HG_CHECK_OK(HG_Addr_lookup2(end->hg_class, names[1 - i], &again));
        HG_CHECK(again == end->target); /* not a connection for each */
        HG_CHECK_OK(HG_Addr_free(end->hg_class, again));
        HG_CHECK_OK(HG_Addr_to_string(end->hg_class, text, &size, end->target));
        HG_CHECK_EQ_STR(text, names[1 - i]);
        HG_CHECK_OK(HG_Addr_lookup2(end->hg_class, names[i], &self));
        HG_CHECK(NA_Addr_is_self(end->na_class, self) == NA_TRUE);
        HG_CHECK(!HG_Addr_cmp(end->hg_class, self, end->target));
        HG_CHECK_OK(HG_Addr_free(end->hg_class, self));
    }
    lookup_check(&ends[0], &ends[1]);
    lookup_check(&ends[1], &ends[0]);
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(HG_Addr_free(ends[i].hg_class, ends[i].target));
    cb_end(&ends[0]);
    cb_end(&ends[1]);
}

static bool lookup_has_peers(void)
{
    return !hg_test_is_self();
}

HG_TEST_WHERE(lookup_without_a_listener_fails_at_the_first_call,
    hg_test_crosses_processes)
{
    char name[NA_MAX_ADDR_LEN];
    cb_one_t one = {5};
    struct cb_end end;
    hg_addr_t again;
    unsigned i;

    cb_start(&end, 1);
    lookup_dead_name(name);
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &end.target));
    hg_test_expect_log("cannot be reached: ");
    for (i = 0; i < 2; i++) { /* each connects: one line, with the cause */
        HG_CHECK_RET(cb_call(&end, lookup_inc_id, &one, &one), HG_HOSTUNREACH);
        HG_CHECK_EQ_INT(hg_test_log_count("cannot be reached: "), i + 1);
    }
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &again));
    HG_CHECK(again == end.target);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, again));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    cb_end(&end);
}

struct lookup_caller {
    struct cb_end *end;
    _Atomic unsigned ends;
};

enum { LOOKUP_CALLS = 10000 };

static hg_return_t lookup_failed(const struct hg_cb_info *info)
{
    struct lookup_caller *caller = (struct lookup_caller *) info->arg;

    HG_CHECK_RET(info->ret, HG_HOSTUNREACH);
    HG_CHECK_OK(HG_Destroy(info->info.forward.handle));
    (void) atomic_fetch_add(&caller->ends, 1);
    return HG_SUCCESS;
}

static void *lookup_call_nobody(void *arg)
{
    struct lookup_caller *caller = (struct lookup_caller *) arg;
    cb_one_t one = {5};
    unsigned i;

    for (i = 0; i < LOOKUP_CALLS; i++)
        HG_CHECK_OK(HG_Forward(cb_new_handle(caller->end, lookup_inc_id),
            lookup_failed, caller, &one));
    return NULL;
}

/* One thread calls while another one ends failed connection attempts: each call
 * starts an attempt or joins one, and ends. */
HG_TEST_WHERE(
    lookup_without_a_listener_during_calls_of_another_thread, lookup_has_peers)
{
    struct lookup_caller caller;
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end;
    unsigned turns = 0;
    pthread_t thread;

    hg_test_expect_log("cannot be reached: ");
    cb_start(&end, 1);
    lookup_dead_name(name);
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &end.target));
    caller.end = &end;
    atomic_init(&caller.ends, 0);
    HG_CHECK(pthread_create(&thread, NULL, lookup_call_nobody, &caller) == 0);
    while (atomic_load(&caller.ends) < LOOKUP_CALLS) {
        HG_CHECK(turns++ < CB_TIMEOUT);
        (void) cb_turn(end.context, 1);
    }
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    cb_end(&end);
}

/* Calls to a peer that makes no progress wait, in order. */
HG_TEST_WHERE(lookup_first_calls_wait_in_order_and_can_be_canceled,
    hg_test_crosses_processes)
{
    enum { COUNT = 16, CANCELED = 3 };
    struct cb_call calls[COUNT];
    struct cb_end end, other;
    unsigned i;
    int32_t want = 0;

    lookup_open(&end, &other);
    for (i = 0; i < COUNT; i++) {
        cb_one_t value = {(int32_t) i};

        HG_CHECK_OK(
            cb_forward(&calls[i], cb_new_handle(&end, lookup_note_id), &value));
    }
    HG_CHECK_OK(HG_Cancel(calls[CANCELED].handle));
    HG_CHECK_RET(cb_wait(&end, &calls[CANCELED]), HG_CANCELED);
    for (i = 0; i < COUNT; i++) {
        if (i != CANCELED)
            HG_CHECK_OK(lookup_wait(&end, &other, &calls[i]));
        HG_CHECK_OK(HG_Destroy(calls[i].handle));
    }
    for (i = 0; i < lookup_noted_count; i++, want++) {
        want += want == CANCELED;
        HG_CHECK_EQ_INT(lookup_noted[i], want);
    }
    HG_CHECK_EQ_INT(lookup_noted_count, COUNT - 1);
    lookup_close(&end, &other);
}

/* References are freed before, during and after connecting. */
HG_TEST_WHERE(
    lookup_address_may_be_freed_at_any_time, hg_test_crosses_processes)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end, other;
    struct cb_call call;
    cb_one_t one = {5};
    hg_addr_t first;

    lookup_open(&end, &other);
    lookup_self_name(&other, name);
    first = end.target;
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target)); /* never used */
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &first));
    HG_CHECK_OK(HG_Addr_dup(end.hg_class, first, &end.target));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, first));
    HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, lookup_inc_id), &one));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    HG_CHECK_OK(lookup_wait(&end, &other, &call));
    HG_CHECK_OK(HG_Destroy(call.handle));
    /* The connection exists, and is found again. */
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &end.target));
    lookup_check(&end, &other);
    lookup_close(&end, &other);
}

/* An address that was never used is freed: the next lookup gives another
 * one. */
HG_TEST_WHERE(
    lookup_address_freed_before_its_first_use, hg_test_crosses_processes)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end, other;
    struct cb_call call;
    cb_one_t one = {5};
    hg_addr_t again;

    lookup_open(&end, &other);
    lookup_self_name(&other, name);
    HG_CHECK_OK(HG_Addr_set_remove(end.hg_class, end.target));
    HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, lookup_inc_id), &one));
    HG_CHECK_RET(cb_wait(&end, &call), HG_DISCONNECT);
    HG_CHECK_OK(HG_Destroy(call.handle));
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &again));
    HG_CHECK(again != end.target);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    end.target = again;
    lookup_check(&end, &other);
    lookup_close(&end, &other);
}

/* A connection is closed while a message of several kilobytes is in flight and
 * its peer does not poll. That message does not block messages on the next
 * connection. */
HG_TEST_WHERE(
    lookup_address_freed_with_an_unread_message, hg_test_crosses_processes)
{
    static unsigned char bytes[10000];
    struct blob blob = {sizeof(bytes), bytes};
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end, other;
    struct cb_call call;

    lookup_open(&end, &other);
    lookup_self_name(&other, name);
    lookup_check(&end, &other);
    HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, lookup_blob_id), &blob));
    HG_CHECK_OK(HG_Addr_set_remove(end.hg_class, end.target));
    HG_CHECK_RET(cb_wait(&end, &call), HG_DISCONNECT);
    HG_CHECK_OK(HG_Destroy(call.handle));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &end.target));
    lookup_check(&end, &other);
    lookup_check(&end, &other);
    lookup_close(&end, &other);
}

/* An address that is connecting stays: a lookup finds it, and its calls
 * succeed. */
HG_TEST_WHERE(lookup_address_freed_while_it_connects, hg_test_crosses_processes)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end, other;
    struct cb_call calls[2];
    cb_one_t one = {5};
    hg_addr_t first;
    unsigned i;

    cb_start(&end, 1);
    for (i = 0; i < 20; i++) {
        cb_start(&other, 1);
        lookup_self_name(&other, name);
        HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &first));
        end.target = first;
        HG_CHECK_OK(
            cb_forward(&calls[0], cb_new_handle(&end, lookup_inc_id), &one));
        HG_CHECK_OK(HG_Addr_set_remove(end.hg_class, first));
        HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &end.target));
        HG_CHECK(end.target == first);
        HG_CHECK_OK(
            cb_forward(&calls[1], cb_new_handle(&end, lookup_inc_id), &one));
        HG_CHECK_OK(lookup_wait(&end, &other, &calls[0]));
        HG_CHECK_OK(lookup_wait(&end, &other, &calls[1]));
        HG_CHECK_OK(HG_Destroy(calls[0].handle));
        HG_CHECK_OK(HG_Destroy(calls[1].handle));
        HG_CHECK_OK(HG_Addr_free(end.hg_class, first));
        HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
        cb_end(&other);
    }
    cb_end(&end);
}

/* A class can be finalized although a peer does not answer, or was never
 * contacted. */
HG_TEST_WHERE(lookup_class_ends_while_it_connects, hg_test_crosses_processes)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end, other;
    struct cb_call call;
    cb_one_t one = {5};
    hg_addr_t never;

    hg_test_expect_log("released what was not freed: addresses 1");
    lookup_open(&end, &other);
    lookup_dead_name(name);
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &never));
    HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, lookup_inc_id), &one));
    HG_CHECK_OK(HG_Destroy(call.handle));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    cb_triggering++; /* destroying the context triggers */
    HG_CHECK_OK(HG_Context_destroy(end.context));
    cb_triggering--;
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    HG_CHECK_OK(HG_Finalize(end.hg_class));
    HG_CHECK_OK(NA_Finalize(end.na_class)); /* this releases `never` */
    cb_end(&other);
}

struct lookup_many {
    const struct cb_end *end;
    const char *name;
};

static void *lookup_again_and_again(void *arg)
{
    const struct lookup_many *crowd = (const struct lookup_many *) arg;
    unsigned i;

    for (i = 0; i < 2000; i++) {
        hg_addr_t addr;

        HG_CHECK_OK(HG_Addr_lookup2(crowd->end->hg_class, crowd->name, &addr));
        HG_CHECK_OK(HG_Addr_free(crowd->end->hg_class, addr));
    }
    return NULL;
}

/* One thread finds the address while another frees its last reference. */
HG_TEST_WHERE(lookup_by_many_threads_at_once, hg_test_crosses_processes)
{
    enum { COUNT = 4 };
    struct cb_end end, other;
    char name[NA_MAX_ADDR_LEN];
    struct lookup_many crowd = {&end, name};
    pthread_t threads[COUNT];
    unsigned i;

    lookup_open(&end, &other);
    lookup_self_name(&other, name);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    for (i = 0; i < COUNT; i++)
        HG_CHECK(pthread_create(
                     &threads[i], NULL, lookup_again_and_again, &crowd) == 0);
    for (i = 0; i < COUNT; i++)
        HG_CHECK(pthread_join(threads[i], NULL) == 0);
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &end.target));
    lookup_check(&end, &other);
    lookup_close(&end, &other);
}

/* ---- Memory ---- */

struct lookup_moved {
    _Atomic unsigned ends;
    hg_return_t ret;
};

static hg_return_t lookup_moved(const struct hg_cb_info *info)
{
    struct lookup_moved *moved = (struct lookup_moved *) info->arg;

    moved->ret = info->ret;
    HG_CHECK_EQ_INT(atomic_fetch_add(&moved->ends, 1), 0);
    return HG_SUCCESS;
}

/* A handle of `size` bytes of `owner`, as `end` would receive it. */
static hg_bulk_t lookup_pass(const struct cb_end *owner,
    const struct cb_end *end, bool bound, hg_size_t size, hg_bulk_t *own_p)
{
    hg_bulk_t remote = HG_BULK_NULL;
    unsigned char bytes[1024];
    hg_uint32_t count;
    hg_size_t length;
    void *memory;

    HG_CHECK_OK(HG_Bulk_create(
        owner->hg_class, 1, NULL, &size, HG_BULK_READWRITE, own_p));
    HG_CHECK_OK(HG_Bulk_access(
        *own_p, 0, size, HG_BULK_READWRITE, 1, &memory, &length, &count));
    memset(memory, 'm', (size_t) size);
    if (bound)
        HG_CHECK_OK(HG_Bulk_bind(*own_p, owner->context));
    length = HG_Bulk_get_serialize_size(*own_p, 0);
    HG_CHECK(length > 0 && length <= sizeof(bytes));
    HG_CHECK_OK(HG_Bulk_serialize(bytes, length, 0, *own_p));
    HG_CHECK_OK(HG_Bulk_deserialize(end->hg_class, &remote, bytes, length));
    return remote;
}

/* Pull all of it into a new buffer, and compare on success. Without an address,
 * use the one in the handle. */
static hg_return_t lookup_pull(const struct cb_end *end,
    const struct cb_end *other, hg_addr_t addr, hg_bulk_t remote)
{
    struct lookup_moved moved = {0, HG_SUCCESS};
    hg_size_t size = HG_Bulk_get_size(remote);
    unsigned char *memory = (unsigned char *) calloc(1, (size_t) size);
    void *buf = memory;
    unsigned turns = 0;
    hg_bulk_t local;
    hg_size_t i;

    HG_CHECK(memory != NULL);
    HG_CHECK_OK(HG_Bulk_create(
        end->hg_class, 1, &buf, &size, HG_BULK_READWRITE, &local));
    if (addr != HG_ADDR_NULL)
        HG_CHECK_OK(HG_Bulk_transfer(end->context, lookup_moved, &moved,
            HG_BULK_PULL, addr, remote, 0, local, 0, size, HG_OP_ID_IGNORE));
    else
        HG_CHECK_OK(HG_Bulk_bind_transfer(end->context, lookup_moved, &moved,
            HG_BULK_PULL, remote, 0, local, 0, size, HG_OP_ID_IGNORE));
    while (atomic_load(&moved.ends) == 0) {
        HG_CHECK(turns++ < CB_TIMEOUT);
        (void) cb_turn(end->context, 1);
        if (other != NULL)
            (void) cb_turn(other->context, 0);
    }
    HG_CHECK_OK(HG_Bulk_free(local));
    for (i = 0; i < size && moved.ret == HG_SUCCESS; i++)
        HG_CHECK_EQ_INT(memory[i], 'm');
    free(memory);
    return moved.ret;
}

HG_TEST_WHERE(lookup_first_use_may_be_a_transfer, hg_test_crosses_processes)
{
    static const hg_size_t sizes[] = {100, 3 << 20};
    struct cb_end end, other;
    hg_bulk_t own, remote;
    unsigned way;

    for (way = 0; way < 4;
         way++) { /* the address: looked up, or the handle's */
        lookup_open(&end, &other);
        remote = lookup_pass(&other, &end, way >= 2, sizes[way % 2], &own);
        HG_CHECK_OK(lookup_pull(
            &end, &other, way < 2 ? end.target : HG_ADDR_NULL, remote));
        HG_CHECK_OK(HG_Bulk_free(remote));
        HG_CHECK_OK(HG_Bulk_free(own));
        lookup_close(&end, &other);
    }
}

/* The owner is to blame, not this class: no line at the default level. */
HG_TEST_WHERE(lookup_of_a_dead_owner_is_no_error, hg_test_crosses_processes)
{
    struct cb_end end, other;
    hg_bulk_t own, remote;
    hg_addr_t addr;

    cb_start(&end, 1);
    cb_start(&other, 1);
    remote = lookup_pass(&other, &end, true, 100, &own);
    HG_CHECK_OK(HG_Bulk_free(own));
    cb_end(&other);
    addr = HG_Bulk_get_addr(remote);
    HG_CHECK(addr != HG_ADDR_NULL);
    HG_CHECK_RET(lookup_pull(&end, NULL, HG_ADDR_NULL, remote), HG_HOSTUNREACH);
    HG_CHECK_OK(HG_Bulk_free(remote));
    cb_end(&end);
}

/* A handle for memory of `owner` with `name` as the owner's address. */
static hg_bulk_t lookup_forge(
    const struct cb_end *owner, const struct cb_end *end, const char *name)
{
    enum { START = 45, LENGTH_AT = 6 }; /* see "Bulk handles", gen/wire.md */
    unsigned char bytes[2048], forged[4096];
    hg_size_t size = 100;
    hg_size_t length, old, fresh = strlen(name);
    hg_bulk_t own, remote;

    HG_CHECK_OK(HG_Bulk_create(
        owner->hg_class, 1, NULL, &size, HG_BULK_READWRITE, &own));
    HG_CHECK_OK(HG_Bulk_bind(own, owner->context));
    length = HG_Bulk_get_serialize_size(own, 0);
    HG_CHECK(length <= sizeof(bytes) && fresh < NA_MAX_ADDR_LEN);
    HG_CHECK_OK(HG_Bulk_serialize(bytes, length, 0, own));
    HG_CHECK_OK(HG_Bulk_free(own));
    old = bytes[LENGTH_AT] | (hg_size_t) bytes[LENGTH_AT + 1] << 8;
    memcpy(forged, bytes, START);
    forged[LENGTH_AT] = (unsigned char) fresh;
    forged[LENGTH_AT + 1] = (unsigned char) (fresh >> 8);
    memcpy(forged + START, name, (size_t) fresh);
    memcpy(forged + START + fresh, bytes + START + old,
        (size_t) (length - START - old));
    HG_CHECK_OK(HG_Bulk_deserialize(
        end->hg_class, &remote, forged, length - old + fresh));
    return remote;
}

/* Each bad address from a peer gives a warning and is counted. An error line
 * would fail the case. */
HG_TEST_WHERE(lookup_of_bad_names_of_peers_is_counted, lookup_has_peers)
{
    static const struct {
        const char *transport; /* "": for each transport */
        const char *rest;      /* after the transport's name */
        const char *line;
        hg_return_t ret;
    } names[] = {
        {"", "x://nobody", "this class was opened for", HG_NODEV},
        {"", "/x", "is not [plugin+]protocol://", HG_NODEV},
        {"", "://\t", "with control characters", HG_NODEV},
        {"sm", "://", "a name has 1 to 64 characters", HG_NODEV},
        {"sm", "://no/path", "no/path: neither letters", HG_NODEV},
        {"sm", "://nobody-at-all", "nobody listens there", HG_HOSTUNREACH},
        {"sm", "://~", "sm://~ cannot be reached", HG_HOSTUNREACH},
        {"sm", "://~~nobody", "~~nobody: neither letters", HG_NODEV},
        {"sm", "://~/x", "~/x: neither letters", HG_NODEV},
        {"sm", "://~nobody", "does not listen and is not", HG_HOSTUNREACH},
        {"zmq+tcp", "://some.host:7", "must have a numeric host", HG_NODEV},
        {"zmq+tcp", "://127.0.0.1", "no port to connect to", HG_NODEV},
        {"zmq+tcp", "://127.0.0.1:65536", "the port is not a number from 0",
            HG_NODEV},
        {"zmq+tcp", "://127.0.0.1:1", "cannot be reached", HG_HOSTUNREACH},
        {"zmq+ipc", "://", "no name to connect to", HG_NODEV},
        {"zmq+ipc", "://@", "cannot be reached: Invalid", HG_HOSTUNREACH},
        {"zmq+ipc", ":///none", "cannot be reached: No such", HG_HOSTUNREACH},
        {"zmq+inproc", "://", "no name to connect to", HG_NODEV},
        {"zmq+inproc", "://none", "nobody listens there", HG_HOSTUNREACH},
    };
    const char *transport = hg_test_transport();
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end, other;
    uint64_t count = 0;
    hg_bulk_t remote;
    unsigned i, turn;

    HG_Set_log_level("debug"); /* at which no line is left out */
    cb_start(&end, 1);
    cb_start(&other, 1);
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "bad_names"), 0);
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *mine = names[i].transport;

        if (mine[0] != '\0' && strcmp(mine, transport) != 0)
            continue;
        hg_test_expect_log(names[i].line);
        (void) snprintf(name, sizeof(name), "%s%s", transport, names[i].rest);
        remote = lookup_forge(&other, &end, name);
        for (turn = 0; turn < 2; turn++) {
            unsigned lines = hg_test_log_count(names[i].line);

            HG_CHECK_RET(
                lookup_pull(&end, NULL, HG_ADDR_NULL, remote), names[i].ret);
            HG_CHECK(hg_test_log_count(names[i].line) > lines);
            HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "bad_names"), ++count);
        }
        HG_CHECK_OK(HG_Bulk_free(remote));
    }
    cb_end(&other);
    cb_end(&end);
}

/* The callback of a failed lookup; it finds the cause at any log level. */
static hg_return_t lookup_explains(const struct hg_cb_info *info)
{
    const char *text = HG_Get_last_error_text();

    HG_CHECK_RET(info->ret, HG_HOSTUNREACH);
    if (strncmp(text, "NA_Addr_lookup_wait", 19) == 0 || /* an older one */
        strstr(text, (const char *) info->arg) == NULL ||
        strstr(text, " cannot be reached: ") == NULL)
        hg_test_fail(HG_TEST_HERE, "the text is %s", text);
    return HG_SUCCESS;
}

/* A peer gave an unreachable address: no error line. An address of the
 * application that is unreachable gives an error line, and is not counted. */
HG_TEST_WHERE(lookup_of_a_bad_name_fails_in_both_models, lookup_has_peers)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end, other;
    hg_bulk_t remote;
    na_addr_t none;

    HG_Set_log_level("error");
    hg_test_expect_log("cannot be reached");
    cb_start(&end, 1);
    cb_start(&other, 1);
    lookup_dead_name(name);
    remote = lookup_forge(&other, &end, name);
    HG_CHECK_RET(lookup_pull(&end, NULL, HG_ADDR_NULL, remote), HG_HOSTUNREACH);
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "bad_names"), 1);
    HG_CHECK_EQ_INT(hg_test_log_count("cannot be reached"), 0);
    HG_CHECK_RET(
        NA_Addr_lookup_wait(end.na_class, name, 60000, &none), NA_HOSTUNREACH);
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "bad_names"), 1);
    HG_CHECK_EQ_INT(hg_test_log_count("cannot be reached"), 1);
    HG_Set_log_level("none");
    HG_CHECK_OK(HG_Addr_lookup1(
        end.context, lookup_explains, name, name, HG_OP_ID_IGNORE));
    while (HG_Trigger(end.context, 0, 1, NULL) == HG_TIMEOUT)
        (void) HG_Progress(end.context, 1000);
    HG_CHECK_OK(HG_Bulk_free(remote));
    cb_end(&other);
    cb_end(&end);
}

/* A class that listens where another one listened. */
static void lookup_start_at(struct cb_end *end, const char *name)
{
    struct na_init_info na_info = NA_INIT_INFO_INITIALIZER;
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    memset(end, 0, sizeof(*end));
    na_info.force_rma_emulation = hg_test_emulated() ? NA_TRUE : NA_FALSE;
    end->na_class = NA_Initialize_opt(name, NA_TRUE, &na_info);
    HG_CHECK(end->na_class != NULL);
    info.na_class = end->na_class;
    end->hg_class = HG_Init_opt(NULL, HG_TRUE, &info);
    HG_CHECK(end->hg_class != NULL);
    end->context = end->contexts[0] = HG_Context_create(end->hg_class);
    HG_CHECK(end->context != NULL);
    end->count = 1;
    cb_register(end->hg_class);
}

/* A client that starts before its server: each use of the address fails until
 * the server exists. */
HG_TEST_WHERE(lookup_of_a_server_that_starts_later, hg_test_crosses_processes)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end, other;
    hg_bulk_t own, remote;
    cb_one_t one = {5};
    na_addr_t none;
    unsigned i;

    hg_test_expect_log("cannot be reached: ");
    cb_start(&end, 1);
    cb_start(&other, 1);
    lookup_self_name(&other, name);
    remote = lookup_pass(&other, &end, false, 100, &own);
    HG_CHECK_OK(HG_Bulk_free(own));
    cb_end(&other);
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &end.target));
    for (i = 0; i < (hg_test_lookup_ms() > 0 ? 1 : 3);
         i++) { /* it takes its time */
        HG_CHECK_RET(cb_call(&end, lookup_inc_id, &one, &one), HG_HOSTUNREACH);
        HG_CHECK_RET(
            lookup_pull(&end, NULL, end.target, remote), HG_HOSTUNREACH);
        HG_CHECK_RET(NA_Addr_lookup_wait(end.na_class, name, 60000, &none),
            NA_HOSTUNREACH);
    }
    lookup_start_at(&other, name);
    lookup_check(&end, &other);
    HG_CHECK_OK(HG_Bulk_free(remote));
    /* It was connected and lost: it stays dead. */
    cb_end(&other);
    HG_CHECK_RET(cb_call(&end, lookup_inc_id, &one, &one), HG_DISCONNECT);
    lookup_start_at(&other, name);
    HG_CHECK_RET(cb_call(&end, lookup_inc_id, &one, &one), HG_DISCONNECT);
    lookup_close(&end, &other);
}

/* A handle of the earlier owner still has its address, which is dead. */
HG_TEST_WHERE(lookup_of_a_restarted_owner, hg_test_crosses_processes)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end, other;
    hg_bulk_t own, before, remote;
    unsigned turns = 0;
    hg_return_t ret;

    cb_start(&end, 1);
    cb_start(&other, 1);
    lookup_self_name(&other, name);
    before = lookup_pass(&other, &end, true, 100, &own);
    HG_CHECK_OK(lookup_pull(&end, &other, HG_ADDR_NULL, before));
    HG_CHECK_OK(HG_Bulk_free(own));
    cb_end(&other);
    do {
        ret = lookup_pull(&end, NULL, HG_ADDR_NULL, before);
        HG_CHECK(turns++ < CB_TIMEOUT);
    } while (ret == HG_NOENTRY); /* sm sees this before the disconnect */
    HG_CHECK(ret == HG_DISCONNECT || ret == HG_HOSTUNREACH);
    lookup_start_at(&other, name);
    remote = lookup_pass(&other, &end, true, 100, &own);
    HG_CHECK_OK(lookup_pull(&end, &other, HG_ADDR_NULL, remote));
    HG_CHECK_OK(HG_Bulk_free(remote));
    HG_CHECK_OK(HG_Bulk_free(before));
    HG_CHECK_OK(HG_Bulk_free(own));
    cb_end(&other);
    cb_end(&end);
}
