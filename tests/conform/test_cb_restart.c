/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server that is killed during calls and restarted at the same address, in
 * the callback model. For transports that reach another process.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "cb.h"

#include <signal.h>
#include <sys/wait.h>

#define RESTART_CALLS 100

static hg_id_t restart_inc_id, restart_keep_id;

/* Handles that are kept until the server ends. */
static hg_handle_t restart_kept[RESTART_CALLS];
static unsigned restart_count;

static hg_return_t restart_keep(hg_handle_t handle)
{
    HG_CHECK(restart_count < RESTART_CALLS);
    restart_kept[restart_count++] = handle;
    return HG_SUCCESS;
}

static void cb_register(hg_class_t *hg_class)
{
    restart_inc_id =
        MERCURY_REGISTER(hg_class, "restart inc", cb_one_t, cb_one_t, cb_inc);
    restart_keep_id = MERCURY_REGISTER(
        hg_class, "restart keep", cb_one_t, cb_one_t, restart_keep);
}

/* A server that listens at the given address. */
HG_TEST_ROLE(server_at)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct cb_end end;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log("");
    memset(&end, 0, sizeof(end));
    end.na_class = NA_Initialize(argv[0], NA_TRUE);
    HG_CHECK(end.na_class != NULL);
    info.na_class = end.na_class;
    end.hg_class = HG_Init_opt(NULL, HG_TRUE, &info);
    HG_CHECK(end.hg_class != NULL);
    end.context = end.contexts[0] = HG_Context_create(end.hg_class);
    HG_CHECK(end.context != NULL);
    end.count = 1;
    cb_register(end.hg_class);
    cb_serve(&end);
    HG_CHECK_EQ_INT(restart_count, 0);
    cb_end(&end);
}

/* Start the server, or restart it if *name_p is not NULL, and look it up. */
static void restart_spawn(struct cb_end *end, char **name_p)
{
    char *string = *name_p != NULL ? *name_p : hg_test_listen_string();
    char *name;

    end->peer = hg_test_spawn("server_at", string, (char *) NULL);
    name = hg_test_read_peer(end->peer);
    if (*name_p != NULL)
        HG_CHECK_EQ_STR(name, *name_p);
    free(string);
    *name_p = name;
    HG_CHECK_OK(HG_Addr_lookup2(end->hg_class, name, &end->target));
}

static void restart_check(const struct cb_end *end, hg_return_t want)
{
    cb_one_t one = {5};

    HG_CHECK_RET(cb_call(end, restart_inc_id, &one, &one), want);
    HG_CHECK_EQ_INT(one.value, want == HG_SUCCESS ? 6 : 5);
}

HG_TEST_WHERE(
    killed_and_restarted_server_can_be_called, hg_test_crosses_processes)
{
    hg_handle_t handles[RESTART_CALLS];
    struct cb_call calls[RESTART_CALLS];
    cb_one_t one = {1};
    hg_addr_t before;
    struct cb_end end;
    char *name = NULL;
    int i;

    hg_test_allow_log("");
    cb_start(&end, 1);
    restart_spawn(&end, &name);
    for (i = 0; i < RESTART_CALLS; i++) {
        handles[i] = cb_new_handle(&end, restart_keep_id);
        HG_CHECK_OK(cb_forward(&calls[i], handles[i], &one));
    }
    restart_check(&end, HG_SUCCESS); /* all have arrived */
    hg_test_signal(end.peer, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(end.peer)));
    for (i = 0; i < RESTART_CALLS; i++) {
        HG_CHECK_RET(cb_wait(&end, &calls[i]), HG_DISCONNECT);
        HG_CHECK_EQ_INT(HG_Ref_get(handles[i]), 1);
    }
    restart_check(&end, HG_DISCONNECT);
    before = end.target;
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, name, &end.target));
    restart_check(&end, HG_HOSTUNREACH);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));

    /* The server is another peer now; handles are reset to it. */
    restart_spawn(&end, &name);
    HG_CHECK(HG_Addr_cmp(end.hg_class, before, end.target) == HG_FALSE);
    for (i = 0; i < RESTART_CALLS; i++) {
        cb_one_t out = {0};

        HG_CHECK_OK(HG_Reset(handles[i], end.target, restart_inc_id));
        HG_CHECK_OK(cb_do(&end, handles[i], &one, &out));
        HG_CHECK_EQ_INT(out.value, 2);
        HG_CHECK_OK(HG_Free_output(handles[i], &out));
        HG_CHECK_EQ_INT(calls[i].ends, 1);
        HG_CHECK_OK(HG_Destroy(handles[i]));
    }
    HG_CHECK_OK(HG_Addr_free(end.hg_class, before));
    restart_check(&end, HG_SUCCESS);
    free(name);
    cb_close(&end);
}
