/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An orderly shutdown of a class of the callback model with HG_Drain: new calls
 * are refused, accepted calls are completed, alone and under load. On every
 * transport; under load, where it reaches other processes.
 */
#include "cb.h"

#include <signal.h>

#define DRAIN_CLIENTS 3u
#define DRAIN_WINDOW 16u /* calls of a client in flight */
#define DRAIN_WARM 200u  /* calls of each before the signal */
/* calls that the server holds back until the case continues it */
#define DRAIN_BACK 8u
#define DRAIN_BIG 100000u /* bytes; more than any message */

static hg_id_t drain_inc_id, drain_keep_id, drain_quit_id;
static hg_id_t drain_work_id, drain_big_id;

/* ---- Functions ---- */

static hg_handle_t drain_kept;

static hg_return_t drain_keep(hg_handle_t handle)
{
    HG_CHECK(drain_kept == HG_HANDLE_NULL);
    drain_kept = handle;
    return HG_SUCCESS;
}

/* Starts the drain of its own class. */
static hg_return_t drain_quit(hg_handle_t handle)
{
    cb_one_t out;

    out.value = (int32_t) HG_Drain(HG_Get_info(handle)->hg_class, 0);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

/* Calls that wait for their own thread, which answers them oldest first: all
 * but the last few, and these when the parent says so. */
struct drain_work {
    pthread_mutex_t lock;
    pthread_cond_t news;
    hg_handle_t handles[DRAIN_CLIENTS * DRAIN_WINDOW];
    unsigned first, count;
    unsigned keep;
    bool stop;
    unsigned answered;
};

static struct drain_work drain_work = {PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_COND_INITIALIZER, {NULL}, 0, 0, DRAIN_BACK, false, 0};

static hg_return_t drain_take(hg_handle_t handle)
{
    struct drain_work *work = &drain_work;
    unsigned size = DRAIN_CLIENTS * DRAIN_WINDOW;

    HG_CHECK(pthread_mutex_lock(&work->lock) == 0);
    HG_CHECK(work->count < size && !work->stop);
    work->handles[(work->first + work->count++) % size] = handle;
    HG_CHECK(pthread_cond_signal(&work->news) == 0);
    HG_CHECK(pthread_mutex_unlock(&work->lock) == 0);
    return HG_SUCCESS;
}

static void drain_answer(hg_handle_t handle)
{
    static unsigned char bytes[DRAIN_BIG];
    struct blob blob = {DRAIN_BIG, bytes};
    bool big = HG_Get_info(handle)->id == drain_big_id;
    cb_one_t one = {77};

    HG_CHECK_OK(
        HG_Respond(handle, NULL, NULL, big ? (void *) &blob : (void *) &one));
    HG_CHECK_OK(HG_Destroy(handle));
}

static void *drain_run_work(void *arg)
{
    struct drain_work *work = (struct drain_work *) arg;
    unsigned size = DRAIN_CLIENTS * DRAIN_WINDOW;
    hg_handle_t handle;

    HG_CHECK(pthread_mutex_lock(&work->lock) == 0);
    for (;;) {
        while (work->count <= work->keep && !work->stop)
            HG_CHECK(pthread_cond_wait(&work->news, &work->lock) == 0);
        if (work->stop)
            break;
        handle = work->handles[work->first];
        work->first = (work->first + 1) % size;
        work->count--;
        work->answered++;
        HG_CHECK(pthread_mutex_unlock(&work->lock) == 0);
        drain_answer(handle);
        HG_CHECK(pthread_mutex_lock(&work->lock) == 0);
    }
    HG_CHECK(pthread_mutex_unlock(&work->lock) == 0);
    return NULL;
}

static void drain_report_work(unsigned keep, bool stop)
{
    HG_CHECK(pthread_mutex_lock(&drain_work.lock) == 0);
    drain_work.keep = keep;
    drain_work.stop = stop;
    HG_CHECK(pthread_cond_signal(&drain_work.news) == 0);
    HG_CHECK(pthread_mutex_unlock(&drain_work.lock) == 0);
}

static void cb_register(hg_class_t *hg_class)
{
    hg_class_t *c = hg_class;

    drain_inc_id = MERCURY_REGISTER(c, "inc", cb_one_t, cb_one_t, cb_inc);
    drain_keep_id = MERCURY_REGISTER(c, "keep", void, cb_one_t, drain_keep);
    drain_quit_id = MERCURY_REGISTER(c, "quit", void, cb_one_t, drain_quit);
    drain_work_id = MERCURY_REGISTER(c, "work", void, cb_one_t, drain_take);
    drain_big_id = HG_Register_name(c, "big", NULL, blob_proc, drain_take);
    HG_CHECK(drain_big_id != 0);
}

/* HG_Drain runs callbacks as HG_Trigger does. */
static hg_return_t drain_for(struct cb_end *end, unsigned ms)
{
    hg_return_t ret;

    cb_triggering++;
    ret = HG_Drain(end->hg_class, ms);
    cb_triggering--;
    return ret;
}

/* ---- A class that calls itself ---- */

static void drain_open(struct cb_end *end, unsigned contexts)
{
    cb_start(end, contexts);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->target));
}

HG_TEST(drain_refuses_new_calls_and_waits_for_old_ones)
{
    cb_one_t out = {5};
    struct cb_call kept, late;
    hg_handle_t handles[2];
    struct cb_end end;

    drain_open(&end, 2);
    handles[0] = cb_new_handle(&end, drain_keep_id);
    handles[1] = cb_new_handle(&end, drain_inc_id);
    HG_CHECK_OK(HG_Set_target_id(handles[0], 1));
    HG_CHECK_OK(cb_forward(&kept, handles[0], NULL));
    while (drain_kept == HG_HANDLE_NULL)
        (void) cb_turn(end.contexts[1], 10);

    HG_CHECK_RET(drain_for(&end, 0), HG_TIMEOUT);
    HG_CHECK_OK(cb_forward(&late, handles[1], &out));
    HG_CHECK_RET(drain_for(&end, 1), HG_TIMEOUT); /* it runs callbacks */
    HG_CHECK_RET(cb_wait(&end, &late), HG_AGAIN);
    HG_CHECK_EQ_STR(HG_Get_error_text(handles[1]), "it is ending");
    HG_CHECK_EQ_INT(kept.ends, 0);

    /* Answered, but not destroyed. */
    HG_CHECK_OK(HG_Respond(drain_kept, NULL, NULL, &out));
    HG_CHECK_RET(drain_for(&end, 1), HG_TIMEOUT);
    HG_CHECK_OK(HG_Destroy(drain_kept));
    HG_CHECK_OK(drain_for(&end, CB_TIMEOUT));
    HG_CHECK_OK(cb_wait(&end, &kept));
    HG_CHECK_OK(HG_Get_output(handles[0], &out));
    HG_CHECK_EQ_INT(out.value, 5);
    HG_CHECK_OK(HG_Free_output(handles[0], &out));

    /* It stays drained. */
    HG_CHECK_OK(drain_for(&end, 0));
    HG_CHECK_RET(cb_do(&end, handles[1], &out, NULL), HG_AGAIN);
    HG_CHECK_OK(HG_Destroy(handles[0]));
    HG_CHECK_OK(HG_Destroy(handles[1]));
    cb_close(&end);
}

/* The drain itself runs the calls that wait in the queue, in every context. */
HG_TEST(drain_runs_what_is_queued)
{
    enum { COUNT = 12 };
    struct cb_call calls[COUNT];
    struct cb_end end;
    unsigned i;

    drain_open(&end, 3);
    for (i = 0; i < COUNT; i++) {
        hg_handle_t handle = cb_new_handle(&end, drain_inc_id);
        cb_one_t in = {1};

        HG_CHECK_OK(HG_Set_target_id(handle, (uint8_t) (i % 3)));
        HG_CHECK_OK(cb_forward(&calls[i], handle, &in));
    }
    HG_CHECK_OK(drain_for(&end, CB_TIMEOUT));
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_OK(cb_wait(&end, &calls[i]));
        HG_CHECK_OK(HG_Destroy(calls[i].handle));
    }
    cb_close(&end);
}

/* Only the drain reads what a client sent. */
HG_TEST(drain_refuses_calls_that_are_unread)
{
    struct cb_end server;
    struct cb_end client;
    struct cb_call early;
    struct cb_call late;
    cb_one_t one = {1};
    unsigned turns = 0;

    if (hg_test_is_self())
        hg_test_skip("calls to oneself are read at once");
    cb_start(&server, 1);
    cb_start(&client, 1);
    cb_find(&client, &server);
    HG_CHECK_OK(cb_forward(&early, cb_new_handle(&client, drain_inc_id), &one));
    while (early.ends == 0) {
        (void) cb_turn(client.context, 1);
        (void) cb_turn(server.context, 1);
    }
    HG_CHECK_OK(early.ret);
    HG_CHECK_OK(cb_forward(&late, early.handle, &one));
    while (late.ends == 0) {
        HG_CHECK(turns++ < CB_TIMEOUT);
        (void) cb_turn(client.context, 1);
        HG_CHECK_OK(drain_for(&server, CB_TIMEOUT));
    }
    HG_CHECK_RET(late.ret, HG_AGAIN);
    HG_CHECK_EQ_STR(HG_Get_error_text(late.handle), "it is ending");
    HG_CHECK_OK(HG_Destroy(late.handle));
    HG_CHECK_OK(NA_Addr_free(client.na_class, client.target));
    cb_end(&client);
    cb_end(&server);
}

HG_TEST(drain_may_be_called_by_a_handler)
{
    struct cb_end end;
    cb_one_t out = {0};

    drain_open(&end, 1);
    HG_CHECK_OK(cb_call(&end, drain_quit_id, NULL, &out));
    HG_CHECK_EQ_INT(out.value, HG_TIMEOUT); /* its own call was in flight */
    HG_CHECK_RET(cb_call(&end, drain_quit_id, NULL, &out), HG_AGAIN);
    HG_CHECK_OK(drain_for(&end, CB_TIMEOUT));
    cb_close(&end);
}

HG_TEST(drain_of_an_idle_class_takes_no_time)
{
    struct cb_end end;

    cb_start(&end, 0);
    HG_CHECK_OK(HG_Drain(end.hg_class, 0));
    cb_end(&end);
    hg_test_expect_log("HG_Drain: HG_Init was not called");
    HG_CHECK_RET(HG_Drain(NULL, 0), HG_FAULT); /* the request model's */
}

/* ---- Under load ---- */

static volatile sig_atomic_t drain_responded;

static void drain_receive_signal(int signal_number)
{
    (void) signal_number;
    drain_responded = 1;
}

/* The parent says when the held-back calls may be answered. */
static void *drain_listen(void *arg)
{
    char *line = hg_test_read_parent();

    (void) arg;
    HG_CHECK_EQ_STR(line, "go");
    free(line);
    drain_report_work(0, false);
    return NULL;
}

/* Serves two contexts, one of them in its own thread, until SIGTERM. */
HG_TEST_ROLE(drained)
{
    char address[NA_MAX_ADDR_LEN];
    struct sigaction action;
    struct cb_worker worker;
    _Atomic unsigned stop = 0;
    pthread_t threads[3];
    struct cb_end end;
    unsigned i;

    (void) argv;
    HG_CHECK_EQ_INT(argc, 0);
    memset(&action, 0, sizeof(action));
    action.sa_handler = drain_receive_signal;
    HG_CHECK(sigaction(SIGTERM, &action, NULL) == 0);
    drain_open(&end, 2);
    HG_CHECK_OK(
        NA_Addr_to_string(end.na_class, address, sizeof(address), end.target));
    worker.context = end.contexts[1];
    worker.stop = &stop;
    HG_CHECK(pthread_create(&threads[0], NULL, drain_listen, NULL) == 0);
    HG_CHECK(pthread_create(&threads[1], NULL, cb_work, &worker) == 0);
    HG_CHECK(
        pthread_create(&threads[2], NULL, drain_run_work, &drain_work) == 0);
    hg_test_write_parent(address);
    while (!drain_responded)
        (void) cb_turn(end.context, 20);

    HG_CHECK_RET(drain_for(&end, 0), HG_TIMEOUT);
    HG_CHECK_OK(drain_for(&end, CB_TIMEOUT));
    HG_CHECK_EQ_INT(drain_work.count, 0);
    atomic_store(&stop, 1);
    drain_report_work(0, true);
    for (i = 0; i < 3; i++)
        HG_CHECK(pthread_join(threads[i], NULL) == 0);
    snprintf(address, sizeof(address), "%u", drain_work.answered);
    hg_test_write_parent(address);
    cb_close(&end);
}

/* A client that calls without pause until its server is gone. */
struct drain_client {
    struct cb_end end;
    unsigned good;
    unsigned again;
    unsigned gone; /* calls that ended because the server is gone */
};

struct drain_slot {
    struct drain_client *client;
    hg_handle_t handle;
    bool big;
};

static bool drain_is_gone(hg_return_t ret)
{
    return ret == HG_DISCONNECT || ret == HG_HOSTUNREACH;
}

static hg_return_t drain_ended(const struct hg_cb_info *info);

static void drain_forward(struct drain_slot *slot)
{
    hg_return_t ret = HG_Forward(slot->handle, drain_ended, slot, NULL);

    HG_CHECK(ret == HG_SUCCESS || drain_is_gone(ret));
    if (ret != HG_SUCCESS)
        slot->client->gone++;
}

static void drain_check_output(struct drain_slot *slot)
{
    struct blob blob;
    cb_one_t one;

    if (slot->big) {
        HG_CHECK_OK(HG_Get_output(slot->handle, &blob));
        HG_CHECK_EQ_U64(blob.size, DRAIN_BIG);
        HG_CHECK_OK(HG_Free_output(slot->handle, &blob));
        return;
    }
    HG_CHECK_OK(HG_Get_output(slot->handle, &one));
    HG_CHECK_EQ_INT(one.value, 77);
    HG_CHECK_OK(HG_Free_output(slot->handle, &one));
}

static hg_return_t drain_ended(const struct hg_cb_info *info)
{
    struct drain_slot *slot = (struct drain_slot *) info->arg;
    struct drain_client *client = slot->client;

    if (drain_is_gone(info->ret)) {
        client->gone++;
        return HG_SUCCESS;
    }
    if (info->ret == HG_SUCCESS) {
        drain_check_output(slot);
        client->good++;
        if (client->good == DRAIN_WARM)
            hg_test_write_parent("warm");
    } else {
        HG_CHECK_RET(info->ret, HG_AGAIN);
        if (client->again++ == 0)
            hg_test_write_parent("again");
    }
    drain_forward(slot);
    return HG_SUCCESS;
}

HG_TEST_ROLE(client)
{
    struct drain_slot slots[DRAIN_WINDOW];
    struct drain_client client;
    char text[32];
    unsigned i;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log(""); /* the results of its calls are checked */
    memset(&client, 0, sizeof(client));
    cb_start(&client.end, 1);
    HG_CHECK_OK(NA_Addr_lookup_wait(
        client.end.na_class, argv[0], CB_TIMEOUT, &client.end.target));
    for (i = 0; i < DRAIN_WINDOW; i++) {
        slots[i].client = &client;
        slots[i].big = i % 4 == 0;
        slots[i].handle = cb_new_handle(
            &client.end, slots[i].big ? drain_big_id : drain_work_id);
        HG_CHECK_OK(HG_Set_target_id(slots[i].handle, (uint8_t) (i % 2)));
        drain_forward(&slots[i]);
    }
    while (client.gone < DRAIN_WINDOW)
        (void) cb_turn(client.end.context, 1000);
    for (i = 0; i < DRAIN_WINDOW; i++)
        HG_CHECK_OK(HG_Destroy(slots[i].handle));
    snprintf(text, sizeof(text), "%u", client.good);
    hg_test_write_parent(text);
    cb_close(&client.end);
}

static unsigned drain_receive_number(struct hg_test_peer *peer)
{
    char *text = hg_test_read_peer(peer);
    unsigned number = (unsigned) strtoul(text, NULL, 10);

    free(text);
    return number;
}

static void drain_receive(struct hg_test_peer *peer, const char *what)
{
    char *text = hg_test_read_peer(peer);

    HG_CHECK_EQ_STR(text, what);
    free(text);
}

HG_TEST_WHERE(
    drain_on_sigterm_under_load_loses_no_call, hg_test_crosses_processes)
{
    struct hg_test_peer *clients[DRAIN_CLIENTS];
    struct hg_test_peer *server = hg_test_spawn("drained", (char *) NULL);
    char *address = hg_test_read_peer(server);
    unsigned answered;
    unsigned good = 0;
    unsigned i;

    for (i = 0; i < DRAIN_CLIENTS; i++)
        clients[i] = hg_test_spawn("client", address, (char *) NULL);
    free(address);
    for (i = 0; i < DRAIN_CLIENTS; i++)
        drain_receive(clients[i], "warm");
    hg_test_signal(server, SIGTERM);
    for (i = 0; i < DRAIN_CLIENTS; i++)
        drain_receive(clients[i], "again");
    hg_test_write_peer(server, "go");
    answered = drain_receive_number(server);
    HG_CHECK(answered >= DRAIN_CLIENTS * DRAIN_WARM);
    hg_test_stop(server);
    for (i = 0; i < DRAIN_CLIENTS; i++) {
        good += drain_receive_number(clients[i]);
        hg_test_stop(clients[i]);
    }
    HG_CHECK_EQ_INT(good, answered);
}
