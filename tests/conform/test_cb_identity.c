/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The caller's identity, as the transport has proved it.
 */
#include "cb.h"

#include <unistd.h>

#define IDENTITY_USER 4242 /* an arbitrary user */

static hg_id_t identity_id;

MERCURY_GEN_PROC(identity_out_t, ((hg_const_string_t) (who)))

/* Return the caller's identity to it. */
static hg_return_t identity_report(hg_handle_t handle)
{
    identity_out_t out;

    out.who = HG_Get_peer_id(handle);
    HG_CHECK(out.who == HG_Get_peer_id(handle));
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

static void cb_register(hg_class_t *hg_class)
{
    identity_id = MERCURY_REGISTER(
        hg_class, "identity tell", void, identity_out_t, identity_report);
}

static bool identity_is_sm(void)
{
    return strncmp(hg_test_transport(), "sm", 2) == 0 || hg_test_is_mux();
}

/* Check how the target identifies us. */
static void identity_check(const struct cb_end *end, const char *want)
{
    hg_handle_t handle = cb_new_handle(end, identity_id);
    identity_out_t out;

    HG_CHECK_OK(cb_do(end, handle, NULL, &out));
    HG_CHECK_EQ_STR(out.who, want);
    HG_CHECK_OK(HG_Free_output(handle, &out));
    HG_CHECK_EQ_STR(HG_Get_peer_id(handle), ""); /* a call of ours */
    HG_CHECK_OK(HG_Destroy(handle));
}

HG_TEST(identity_of_the_caller_is_available)
{
    struct cb_end end;
    char want[32] = "";

    cb_open(&end);
    if (identity_is_sm())
        (void) snprintf(
            want, sizeof(want), "uid:%lu", (unsigned long) geteuid());
    identity_check(&end, want);
    identity_check(&end, want);
    HG_CHECK_EQ_STR(HG_Get_peer_id(HG_HANDLE_NULL), "");
    cb_close(&end);
}

HG_TEST(caller_within_the_process_has_no_identity)
{
    struct cb_end end;

    cb_start(&end, 1);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    identity_check(&end, "");
    cb_close(&end);
}

/* ---- Other users ---- */

/* An endpoint that any user may call. */
static void identity_start(struct cb_end *end, const char *string)
{
    struct na_init_info na_info = NA_INIT_INFO_INITIALIZER;
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    memset(end, 0, sizeof(*end));
    na_info.auth_key = "any-user";
    end->na_class = NA_Initialize_opt(string, NA_TRUE, &na_info);
    HG_CHECK(end->na_class != NULL);
    info.na_class = end->na_class;
    end->hg_class = HG_Init_opt(NULL, HG_TRUE, &info);
    HG_CHECK(end->hg_class != NULL);
    end->context = end->contexts[0] = HG_Context_create(end->hg_class);
    HG_CHECK(end->context != NULL);
    end->count = 1;
    cb_register(end->hg_class);
}

/* Run as a user, ask the target at an address for our identity, and report the
 * answer. */
HG_TEST_ROLE(other_user)
{
    char want[32];
    char *string = hg_test_listen_string();
    struct cb_end end;

    HG_CHECK_EQ_INT(argc, 2);
    HG_CHECK(setuid((uid_t) strtoul(argv[0], NULL, 10)) == 0);
    identity_start(&end, string);
    free(string);
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end.na_class, argv[1], CB_TIMEOUT, &end.target));
    (void) snprintf(want, sizeof(want), "uid:%s", argv[0]);
    identity_check(&end, want);
    cb_close(&end);
}

/* Other transports do not prove it, so a class that includes one of them does
 * not admit other users. */
static bool identity_is_sm_alone(void)
{
    return identity_is_sm() && !hg_test_is_mux();
}

HG_TEST_WHERE(identity_of_another_user_is_proved, identity_is_sm_alone)
{
    char *string = hg_test_listen_string();
    struct hg_test_peer *peer;
    struct cb_worker worker;
    _Atomic unsigned stop = 0;
    pthread_t thread;
    struct cb_end end;
    char user[16], name[NA_MAX_ADDR_LEN];

    if (geteuid() != 0)
        hg_test_skip("only root can act as another user");
    identity_start(&end, string);
    free(string);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    HG_CHECK_OK(
        NA_Addr_to_string(end.na_class, name, sizeof(name), end.target));
    worker.context = end.context;
    worker.stop = &stop;
    HG_CHECK(pthread_create(&thread, NULL, cb_work, &worker) == 0);
    (void) snprintf(user, sizeof(user), "%d", IDENTITY_USER);
    peer = hg_test_spawn("other_user", user, name, (char *) NULL);
    hg_test_stop(peer); /* it checks what it gets */
    atomic_store(&stop, 1);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    cb_close(&end);
}
