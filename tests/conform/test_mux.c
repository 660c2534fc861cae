/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Classes of several transports: counters show which transport carries what;
 * peers with fewer transports; and auto_sm. The other programs also run on such
 * classes, as the transports "mux" and "mux-ofi"; the cases here are only for
 * them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#define HG_NA_PLUGIN_API 1
#include "cb.h"

#include <grp.h>
#include <unistd.h>

#define MUX_BYTES ((size_t) 1 << 20)
#define MUX_NOBODY 65534

MERCURY_GEN_PROC(mux_move_t, ((hg_bulk_t) (bulk)))
MERCURY_GEN_PROC(mux_who_t, ((hg_string_t) (name)))
MERCURY_GEN_PROC(mux_carried_t,
    ((uint64_t) (sent_sm))((uint64_t) (moved_sm))((uint64_t) (sent_net))(
        (uint64_t) (moved_net)))

static hg_id_t mux_inc_id, mux_move_id, mux_who_id, mux_carried_id;
static na_class_t *mux_class; /* the target's; its counters are reported */

/* ---- Functions ---- */

/* Adds 1 to each byte of the caller's memory: pulls it, and pushes it back. */
struct mux_job {
    hg_handle_t handle;
    mux_move_t in;
    hg_bulk_t local;
    unsigned char *bytes;
};

static hg_return_t mux_pushed(const struct hg_cb_info *info)
{
    struct mux_job *job = (struct mux_job *) info->arg;

    HG_CHECK_OK(info->ret);
    HG_CHECK_OK(HG_Respond(job->handle, NULL, NULL, NULL));
    HG_CHECK_OK(HG_Bulk_free(job->local));
    HG_CHECK_OK(HG_Free_input(job->handle, &job->in));
    HG_CHECK_OK(HG_Destroy(job->handle));
    free(job->bytes);
    free(job);
    return HG_SUCCESS;
}

static hg_return_t mux_transfer(
    struct mux_job *job, hg_cb_t callback, hg_bulk_op_t op)
{
    const struct hg_info *info = HG_Get_info(job->handle);

    return HG_Bulk_transfer(info->context, callback, job, op, info->addr,
        job->in.bulk, 0, job->local, 0, MUX_BYTES, HG_OP_ID_IGNORE);
}

static hg_return_t mux_pulled(const struct hg_cb_info *info)
{
    struct mux_job *job = (struct mux_job *) info->arg;
    size_t i;

    HG_CHECK_OK(info->ret);
    for (i = 0; i < MUX_BYTES; i++)
        job->bytes[i]++;
    HG_CHECK_OK(mux_transfer(job, mux_pushed, HG_BULK_PUSH));
    return HG_SUCCESS;
}

static hg_return_t mux_move(hg_handle_t handle)
{
    struct mux_job *job = (struct mux_job *) calloc(1, sizeof(*job));
    hg_size_t size = MUX_BYTES;
    void *bytes = malloc(MUX_BYTES);

    HG_CHECK(job != NULL && bytes != NULL);
    job->handle = handle;
    job->bytes = (unsigned char *) bytes;
    HG_CHECK_OK(HG_Get_input(handle, &job->in));
    HG_CHECK_OK(HG_Bulk_create(HG_Get_info(handle)->hg_class, 1, &bytes, &size,
        HG_BULK_READWRITE, &job->local));
    return mux_transfer(job, mux_pulled, HG_BULK_PULL);
}

/* The address that the call came from. */
static hg_return_t mux_who(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    char name[NA_MAX_ADDR_LEN];
    hg_size_t size = sizeof(name);
    mux_who_t out;

    HG_CHECK_OK(HG_Addr_to_string(info->hg_class, name, &size, info->addr));
    out.name = name;
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

/* A counter of the part that is not sm. */
static uint64_t mux_counter(na_class_t *na_class, const char *what)
{
    char name[64];

    (void) snprintf(name, sizeof(name), "%s%s", what, hg_test_transport());
    return NA_Get_counter(na_class, name);
}

static mux_carried_t mux_count(na_class_t *na_class)
{
    mux_carried_t carried;

    carried.sent_sm = NA_Get_counter(na_class, "mux_sent_sm");
    carried.moved_sm = NA_Get_counter(na_class, "mux_moved_sm");
    carried.sent_net = mux_counter(na_class, "mux_sent_");
    carried.moved_net = mux_counter(na_class, "mux_moved_");
    return carried;
}

static hg_return_t mux_carried(hg_handle_t handle)
{
    mux_carried_t out = mux_count(mux_class);

    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

static void cb_register(hg_class_t *hg_class)
{
    hg_class_t *c = hg_class;

    mux_inc_id = MERCURY_REGISTER(c, "inc", cb_one_t, cb_one_t, cb_inc);
    mux_move_id = MERCURY_REGISTER(c, "move", mux_move_t, void, mux_move);
    mux_who_id = MERCURY_REGISTER(c, "who", void, mux_who_t, mux_who);
    mux_carried_id =
        MERCURY_REGISTER(c, "carried", void, mux_carried_t, mux_carried);
}

/* ---- Endpoints ---- */

/* An endpoint that listens or not, on any string; with options, or NULL for a
 * class whose counters are needed. */
static void mux_start(struct cb_end *end, const char *string, uint8_t listen,
    const struct hg_init_info *given)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    memset(end, 0, sizeof(*end));
    if (given == NULL) {
        end->na_class = NA_Initialize(string, listen);
        HG_CHECK(end->na_class != NULL);
        mux_class = end->na_class;
        info.na_class = end->na_class;
        given = &info;
    }
    end->hg_class = HG_Init_opt(string, listen, given);
    HG_CHECK(end->hg_class != NULL);
    end->contexts[0] = HG_Context_create(end->hg_class);
    end->context = end->contexts[0];
    end->count = 1;
    HG_CHECK(end->context != NULL);
    cb_register(end->hg_class);
}

static void mux_end(struct cb_end *end)
{
    if (end->target != HG_ADDR_NULL)
        HG_CHECK_OK(HG_Addr_free(end->hg_class, end->target));
    HG_CHECK_OK(HG_Context_destroy(end->context));
    HG_CHECK_OK(HG_Finalize(end->hg_class));
    if (end->na_class != NULL)
        HG_CHECK_OK(NA_Finalize(end->na_class));
}

/* A server on any string until it is stopped; with "auto", by auto_sm. */
HG_TEST_ROLE(listener)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    char name[NA_MAX_ADDR_LEN];
    hg_size_t size = sizeof(name);
    _Atomic unsigned stop = 0;
    pthread_t thread;
    struct cb_end end;

    HG_CHECK_EQ_INT(argc, 3);
    hg_test_allow_log("");
    info.auto_sm = strcmp(argv[1], "auto") == 0;
    info.sm_info_string = argv[2][0] != '\0' ? argv[2] : NULL;
    mux_start(&end, argv[0], HG_TRUE, info.auto_sm ? &info : NULL);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    HG_CHECK_OK(HG_Addr_to_string(end.hg_class, name, &size, end.target));
    hg_test_write_parent(name);
    HG_CHECK(pthread_create(&thread, NULL, cb_listen_parent, &stop) == 0);
    while (atomic_load(&stop) == 0)
        (void) cb_turn(end.context, 20);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    mux_end(&end);
}

/* A listener in its own process, its name, and the target of `end`. */
static void mux_find(struct cb_end *end, const char *string, const char *how,
    const char *sm_name, char name[NA_MAX_ADDR_LEN])
{
    char *text;

    end->peer = hg_test_spawn("listener", string, how, sm_name, (char *) NULL);
    text = hg_test_read_peer(end->peer);
    (void) snprintf(name, NA_MAX_ADDR_LEN, "%s", text);
    free(text);
    HG_CHECK_OK(HG_Addr_lookup2(end->hg_class, name, &end->target));
}

static void mux_close(struct cb_end *end)
{
    mux_end(end);
    hg_test_stop(end->peer);
}

/* A call, and bulk data in both directions. */
static void mux_use(struct cb_end *end)
{
    void *bytes = malloc(MUX_BYTES);
    hg_size_t size = MUX_BYTES;
    cb_one_t one = {41};
    mux_move_t move;
    size_t i;

    HG_CHECK(bytes != NULL);
    for (i = 0; i < MUX_BYTES; i++)
        ((unsigned char *) bytes)[i] = (unsigned char) (i * 7);
    HG_CHECK_OK(cb_call(end, mux_inc_id, &one, &one));
    HG_CHECK_EQ_INT(one.value, 42);
    HG_CHECK_OK(HG_Bulk_create(
        end->hg_class, 1, &bytes, &size, HG_BULK_READWRITE, &move.bulk));
    HG_CHECK_OK(cb_call(end, mux_move_id, &move, NULL));
    HG_CHECK_OK(HG_Bulk_free(move.bulk));
    for (i = 0; i < MUX_BYTES; i++)
        HG_CHECK(((unsigned char *) bytes)[i] == (unsigned char) (i * 7 + 1));
    free(bytes);
}

/* Check that the target sees us as a peer of that scheme. */
static void mux_check_seen(const struct cb_end *end, const char *scheme)
{
    hg_handle_t handle = cb_new_handle(end, mux_who_id);
    mux_who_t who;

    HG_CHECK_OK(cb_do(end, handle, NULL, &who));
    if (strncmp(who.name, scheme, strlen(scheme)) != 0)
        hg_test_fail(HG_TEST_HERE, "seen as %s", who.name);
    HG_CHECK_OK(HG_Free_output(handle, &who));
    HG_CHECK_OK(HG_Destroy(handle));
}

/* Check that either everything or nothing was carried by sm, on both sides. */
static void mux_check_carried(struct cb_end *end, bool sm)
{
    mux_carried_t there, here;

    HG_CHECK_OK(cb_call(end, mux_carried_id, NULL, &there));
    HG_CHECK((there.sent_sm > 0) == sm && (there.sent_net > 0) == !sm);
    HG_CHECK_EQ_U64(there.moved_sm, sm ? 2 * MUX_BYTES : 0);
    HG_CHECK_EQ_U64(there.moved_net, sm ? 0 : 2 * MUX_BYTES);
    if (end->na_class == NULL)
        return;
    here = mux_count(end->na_class);
    HG_CHECK((here.sent_sm > 0) == sm && (here.sent_net > 0) == !sm);
    /* The target is the initiator. */
    HG_CHECK_EQ_U64(here.moved_sm + here.moved_net, 0);
}

/* A string of the transport that is not sm, with `rest` after its scheme. The
 * last four strings stay valid. For the main thread only. */
static const char *mux_net(const char *rest)
{
    static char strings[4][256];
    static unsigned next;
    char *string = strings[next++ % 4];

    (void) snprintf(
        string, sizeof(strings[0]), "%s%s", hg_test_transport(), rest);
    return string;
}

#define MUX_BOTH mux_net("://127.0.0.1:0;sm://")
#define MUX_PLAIN mux_net("://127.0.0.1:0")

/* With ZeroMQ some parts listen at a path, or within the process. */
static bool mux_is_zmq(void)
{
    return hg_test_is_mux() && !hg_test_is_ofi();
}

/* ---- One node ---- */

HG_TEST_WHERE(mux_uses_sm_on_one_node, hg_test_is_mux)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end;
    hg_addr_t again;

    mux_start(&end, MUX_BOTH, HG_TRUE, NULL);
    mux_find(&end, MUX_BOTH, "", "", name);
    /* A peer gets the address of the network. */
    HG_CHECK(strstr(name, mux_net("://127.0.0.1:")) == name);
    HG_CHECK(strchr(name, ';') == NULL);
    mux_use(&end);
    mux_check_carried(&end, true);
    mux_check_seen(&end, "sm://");

    /* However it is called, it is the same peer. */
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &again));
    HG_CHECK(HG_Addr_cmp(end.hg_class, again, end.target));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, again));
    HG_CHECK_OK(HG_Addr_lookup2(
        end.hg_class, hg_test_is_ofi() ? name : name + 4, &again));
    HG_CHECK(HG_Addr_cmp(end.hg_class, again, end.target));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, again));
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &again));
    HG_CHECK(!HG_Addr_cmp(end.hg_class, again, end.target));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, again));
    mux_close(&end);
}

/* A listener at a path is identified by its file. */
HG_TEST_WHERE(mux_at_a_path_uses_sm, mux_is_zmq)
{
    char string[NA_MAX_ADDR_LEN], name[NA_MAX_ADDR_LEN];
    struct cb_end end;

    (void) snprintf(
        string, sizeof(string), "zmq+ipc://%s/a;sm://", hg_test_dir());
    mux_start(&end, "zmq+ipc://;sm://", HG_FALSE, NULL);
    mux_find(&end, string, "", "", name);
    HG_CHECK(strchr(name, ';') == NULL);
    mux_check_seen(&end, "sm://");
    mux_close(&end);
}

HG_TEST_WHERE(mux_that_does_not_listen_uses_sm, hg_test_is_mux)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end;

    mux_start(&end, mux_net("://;sm://"), HG_FALSE, NULL);
    mux_find(&end, MUX_BOTH, "", "", name);
    mux_use(&end);
    mux_check_carried(&end, true);
    mux_close(&end);
}

HG_TEST_WHERE(mux_finds_itself, hg_test_is_mux)
{
    char name[NA_MAX_ADDR_LEN];
    hg_size_t size = sizeof(name);
    struct cb_end end;
    hg_addr_t self;
    cb_one_t one = {1};

    mux_start(&end, MUX_BOTH, HG_TRUE, NULL);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    HG_CHECK_OK(HG_Addr_to_string(end.hg_class, name, &size, self));
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &end.target));
    HG_CHECK(HG_Addr_cmp(end.hg_class, self, end.target));
    HG_CHECK_OK(cb_call(&end, mux_inc_id, &one, &one));
    HG_CHECK_EQ_INT(one.value, 2);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    mux_end(&end);
}

/* ---- Without sm ---- */

/* A client of another user, which sm refuses. */
HG_TEST_ROLE(other_user)
{
    struct cb_end end;

    HG_CHECK_EQ_INT(argc, 1);
    HG_CHECK(setgroups(0, NULL) == 0 && setgid(MUX_NOBODY) == 0);
    HG_CHECK(setuid(MUX_NOBODY) == 0);
    mux_start(&end, mux_net("://;sm://"), HG_FALSE, NULL);
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, argv[0], &end.target));
    mux_use(&end);
    mux_check_carried(&end, false);
    mux_end(&end);
}

HG_TEST_WHERE(mux_of_another_user_uses_the_network, hg_test_is_mux)
{
    struct hg_test_peer *listener, *other;
    char string[128];
    char *name;
    size_t i;

    if (geteuid() != 0)
        hg_test_skip("only root can act as another user");
    for (i = 0; i < 2; i++) { /* with an unknown name, or a known one */
        (void) snprintf(string, sizeof(string), "%s", MUX_BOTH);
        if (i > 0)
            (void) snprintf(string, sizeof(string), "%shg-test-mux-%ld",
                MUX_BOTH, (long) getpid());
        listener = hg_test_spawn("listener", string, "", "", (char *) NULL);
        name = hg_test_read_peer(listener);
        other = hg_test_spawn("other_user", name, (char *) NULL);
        free(name);
        HG_CHECK_EQ_INT(hg_test_wait(other), 0);
        hg_test_stop(listener);
    }
}

HG_TEST_WHERE(mux_is_called_by_a_class_without_sm, hg_test_is_mux)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end;

    mux_start(&end, MUX_PLAIN, HG_TRUE, NULL);
    end.na_class = NULL; /* it has no such counters */
    mux_find(&end, MUX_BOTH, "", "", name);
    mux_use(&end);
    mux_check_carried(&end, false);
    mux_check_seen(&end, mux_net("://"));
    end.na_class = mux_class;
    mux_close(&end);
}

HG_TEST_WHERE(mux_calls_a_class_without_sm, hg_test_is_mux)
{
    char name[NA_MAX_ADDR_LEN];
    mux_carried_t carried;
    struct cb_end end;

    mux_start(&end, MUX_BOTH, HG_TRUE, NULL);
    mux_find(&end, MUX_PLAIN, "", "", name);
    mux_use(&end);
    carried = mux_count(end.na_class);
    HG_CHECK(carried.sent_sm == 0 && carried.sent_net > 0);
    mux_check_seen(&end, mux_net("://"));
    mux_close(&end);
}

static hg_return_t mux_passed(const struct hg_cb_info *info)
{
    HG_CHECK_OK(info->ret);
    atomic_store((_Atomic unsigned *) info->arg, 1);
    return HG_SUCCESS;
}

/* Pull the owner's memory, while another thread makes progress there. */
static void mux_pull(const struct cb_end *end, const struct cb_end *owner,
    hg_bulk_t bulk, void *bytes)
{
    _Atomic unsigned pulled = 0;
    _Atomic unsigned stop = 0;
    struct cb_worker worker;
    hg_size_t size = MUX_BYTES;
    pthread_t thread;
    hg_bulk_t local;

    worker.context = owner->context;
    worker.stop = &stop;
    HG_CHECK(pthread_create(&thread, NULL, cb_work, &worker) == 0);
    HG_CHECK_OK(HG_Bulk_create(
        end->hg_class, 1, &bytes, &size, HG_BULK_WRITE_ONLY, &local));
    HG_CHECK_OK(HG_Bulk_transfer(end->context, mux_passed, &pulled,
        HG_BULK_PULL, end->target, bulk, 0, local, 0, size, HG_OP_ID_IGNORE));
    cb_turn_until(end->context, &pulled);
    HG_CHECK_OK(HG_Bulk_free(local));
    atomic_store(&stop, 1);
    HG_CHECK(pthread_join(thread, NULL) == 0);
}

/* A class with only sm passes on the part of a handle that a class with only
 * TCP needs. */
HG_TEST_WHERE(mux_handle_is_passed_on_with_all_parts, hg_test_is_mux)
{
    const char *const strings[] = {MUX_BOTH, "sm://", MUX_PLAIN};
    unsigned char *got = (unsigned char *) calloc(1, MUX_BYTES);
    void *bytes = malloc(MUX_BYTES);
    hg_size_t size = MUX_BYTES;
    unsigned char wire[2048];
    struct cb_end ends[3];
    hg_bulk_t bulks[3];
    int i;

    HG_CHECK(got != NULL && bytes != NULL);
    memset(bytes, 0x42, MUX_BYTES);
    for (i = 0; i < 3; i++)
        mux_start(&ends[i], strings[i], HG_TRUE, NULL);
    HG_CHECK_OK(HG_Bulk_create(
        ends[0].hg_class, 1, &bytes, &size, HG_BULK_READ_ONLY, &bulks[0]));
    for (i = 0; i < 2; i++) {
        size = HG_Bulk_get_serialize_size(bulks[i], 0);
        HG_CHECK_OK(HG_Bulk_serialize(wire, sizeof(wire), 0, bulks[i]));
        HG_CHECK_OK(HG_Bulk_deserialize(
            ends[i + 1].hg_class, &bulks[i + 1], wire, size));
    }
    cb_find(&ends[2], &ends[0]);
    mux_pull(&ends[2], &ends[0], bulks[2], got);
    HG_CHECK_EQ_MEM(got, bytes, MUX_BYTES);
    for (i = 2; i >= 0; i--) {
        HG_CHECK_OK(HG_Bulk_free(bulks[i]));
        mux_end(&ends[i]);
    }
    free(bytes);
    free(got);
}

/* Options about access must be honored by every transport of the list;
 * otherwise the open fails, and one line says why. */
HG_TEST_WHERE(mux_does_not_ignore_access_options, hg_test_is_mux)
{
    char reversed[64];
    const char *const strings[] = {
        mux_net("://;sm://"), reversed, "sm://;self://"};
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    unsigned i;

    (void) snprintf(
        reversed, sizeof(reversed), "sm://;%s://", hg_test_transport());
    hg_test_expect_log("does not support");
    for (i = 0; i < 6; i++) {
        info.auth_key = i % 2 == 0 ? "any-user" : NULL;
        info.curve_allow_dir = i % 2 == 0 ? NULL : "keys";
        HG_CHECK(NA_Initialize_opt(strings[i / 2], NA_TRUE, &info) == NULL);
        HG_CHECK_EQ_INT(hg_test_log_count("does not support"), i + 1);
    }
}

/* ---- Several networks ---- */

HG_TEST_WHERE(mux_listens_on_all_transports, mux_is_zmq)
{
    static const char *const schemes[] = {
        "zmq+tcp://", "zmq+ipc://", "sm://", "zmq+ipc://;zmq+tcp://"};
    char string[128], name[NA_MAX_ADDR_LEN];
    struct hg_test_peer *listener;
    struct cb_end end;
    char *text;
    size_t i;

    (void) snprintf(string, sizeof(string),
        "zmq+tcp://127.0.0.1:0;zmq+ipc://%s/a;b;sm://hg-test-mux-%ld",
        hg_test_dir(), (long) getpid());
    listener = hg_test_spawn("listener", string, "", "", (char *) NULL);
    text = hg_test_read_peer(listener);
    (void) snprintf(name, sizeof(name), "%s", text);
    free(text);
    HG_CHECK(strstr(name, "/a;b;sm://hg-test-mux-") != NULL);
    for (i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        mux_start(&end, schemes[i], HG_FALSE, NULL);
        HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &end.target));
        mux_use(&end);
        if (i == 3) /* the peer's first address that we support */
            HG_CHECK(NA_Get_counter(end.na_class, "mux_sent_zmq+tcp") > 0);
        mux_end(&end);
    }
    hg_test_stop(listener);
}

HG_TEST_WHERE(mux_refuses_malformed_lists, mux_is_zmq)
{
    struct cb_end end;
    hg_addr_t addr;

    hg_test_expect_log("zmq+tcp is in the list twice");
    hg_test_expect_log("no transport here speaks nosuch");
    hg_test_expect_log("a list has 4 transports at most");
    hg_test_expect_log("this class was opened for zmq+tcp, sm");
    hg_test_expect_log("zmq+tcp://127.0.0.1:1 cannot be reached");
    HG_CHECK(NA_Initialize("zmq+tcp://;zmq+tcp://", NA_FALSE) == NULL);
    HG_CHECK(NA_Initialize("zmq+tcp://;nosuch://", NA_FALSE) == NULL);
    HG_CHECK(NA_Initialize("self://;zmq+tcp://;zmq+ipc://;zmq+inproc://;sm://x",
                 NA_TRUE) == NULL);
    mux_start(&end, MUX_BOTH, HG_TRUE, NULL);
    HG_CHECK_RET(
        HG_Addr_lookup2(end.hg_class, "carrier+pigeon://x", &addr), HG_NODEV);
    HG_CHECK_RET(
        NA_Addr_lookup_wait(end.na_class, "zmq+tcp://127.0.0.1:1", 5000, &addr),
        NA_HOSTUNREACH);
    mux_end(&end);
}

/* ---- auto_sm ---- */

HG_TEST_WHERE(auto_sm_makes_a_class_of_two_transports, hg_test_is_mux)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    char name[NA_MAX_ADDR_LEN], sm[64];
    struct cb_end end;

    info.auto_sm = HG_TRUE;
    mux_start(&end, hg_test_transport(), HG_FALSE, &info);
    HG_CHECK_EQ_STR(
        HG_Class_get_name(end.hg_class), hg_test_is_ofi() ? "ofi" : "zmq");
    HG_CHECK_EQ_STR(HG_Class_get_protocol(end.hg_class), "tcp");
    mux_find(&end, MUX_PLAIN, "auto", "", name);
    HG_CHECK(strchr(name, ';') == NULL);
    mux_use(&end);
    mux_check_seen(&end, "sm://");
    mux_close(&end);

    /* If sm has its own name, it is a part of the address. */
    (void) snprintf(sm, sizeof(sm), "hg-test-mux-%ld", (long) getpid());
    mux_start(&end, hg_test_transport(), HG_FALSE, &info);
    mux_find(&end, MUX_PLAIN, "auto", sm, name);
    HG_CHECK(strstr(name, ";sm://hg-test-mux-") != NULL);
    mux_use(&end);
    mux_check_seen(&end, "sm://");
    mux_close(&end);
}

HG_TEST_WHERE(parts_keep_the_prefix_they_were_opened_with, hg_test_is_mux)
{
    char string[128], name[NA_MAX_ADDR_LEN];
    na_addr_t self = NA_ADDR_NULL, found = NA_ADDR_NULL;
    const char *part = string + strlen(MUX_PLAIN);
    na_class_t *na_class;

    (void) snprintf(string, sizeof(string), "%s;na+sm://hg-test-prefix-%ld",
        MUX_PLAIN, (long) getpid());
    na_class = NA_Initialize(string, NA_TRUE);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, name, sizeof(name), self));
    HG_CHECK(strstr(name, mux_net("://")) == name);
    HG_CHECK_EQ_STR(strchr(name, ';'), part);
    HG_CHECK_OK(NA_Addr_lookup_wait(na_class, name, 1000, &found));
    HG_CHECK(NA_Addr_is_self(na_class, found));
    HG_CHECK_OK(NA_Addr_free(na_class, found));
    HG_CHECK_OK(NA_Addr_lookup_wait(na_class, part + 4, 1000, &found));
    HG_CHECK(NA_Addr_is_self(na_class, found));
    HG_CHECK_OK(NA_Addr_free(na_class, found));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST_WHERE(auto_sm_without_another_transport_is_ignored, hg_test_is_mux)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct cb_end end;

    info.auto_sm = HG_TRUE;
    mux_start(&end, "na+sm://", HG_TRUE, &info);
    HG_CHECK_EQ_STR(HG_Class_get_name(end.hg_class), "na");
    mux_end(&end);
    mux_start(&end, "", HG_TRUE, &info);
    mux_end(&end);
}
