/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport sm with peers that die, say BYE, or fork.
 */
#include "sm_sockets.h"

#include <sys/prctl.h>

HG_TEST_ROLE(peer)
{
    HG_CHECK_EQ_INT(argc, 1);
    endpoint_serve(argv[0], 1000);
}

/* Start a process that echoes; returns its name, which the caller frees. */
static struct hg_test_peer *death_start(const char *string, char **name_p)
{
    struct hg_test_peer *process = hg_test_spawn("peer", string, NULL);

    *name_p = hg_test_read_peer(process);
    return process;
}

static void death_listen_string(char string[64])
{
    static unsigned count;

    (void) snprintf(
        string, 64, "sm://hg-death-%ld-%u", (long) getpid(), count++);
}

static void death_kill(struct hg_test_peer *process)
{
    hg_test_signal(process, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(process)));
}

/* ---- Killed at any moment ---- */

enum { DEATH_CALLS = 6 };

/* The operations in flight with a peer that will be killed. */
struct death_scene {
    struct conform_end *end;
    na_mem_handle_t local;
    struct conform_call lookup;
    struct conform_call answer; /* its handle */
    struct conform_call calls[DEATH_CALLS];
    unsigned started;
    unsigned char bytes[256];
    char got[4096];
    na_mem_handle_t remote;
};

static void death_start_call(struct death_scene *scene, na_return_t ret)
{
    if (ret == NA_SUCCESS)
        scene->started++;
    else
        HG_CHECK_RET(ret, NA_DISCONNECT);
}

/* Advance one step, as far as the peer allows. */
static void death_go_on(struct death_scene *scene)
{
    struct conform_end *end = scene->end;
    struct conform_call *call = &scene->calls[scene->started];
    na_addr_t addr = scene->lookup.addr;

    if (scene->lookup.ends == 0 || scene->lookup.ret != NA_SUCCESS ||
        scene->started == DEATH_CALLS)
        return;
    switch (scene->started) {
    case 0:
        death_start_call(scene,
            endpoint_post(end, call, scene->got, sizeof(scene->got), addr, 77));
        if (scene->started == 1) /* this one is never answered */
            (void) endpoint_post(end, &scene->answer, scene->bytes,
                sizeof(scene->bytes), addr, 2);
        break;
    case 1:
        death_start_call(scene,
            NA_Msg_send_unexpected(end->na_class, end->context, conform_ended,
                call, "?", 2, addr, 2, &call->id));
        break;
    case 2:
    case 3:
        if (scene->answer.ends == 0 || scene->answer.ret != NA_SUCCESS)
            return;
        if (scene->remote == NA_MEM_HANDLE_NULL)
            HG_CHECK_OK(NA_Mem_handle_deserialize(end->na_class, &scene->remote,
                scene->bytes, scene->answer.size));
        death_start_call(scene,
            (scene->started == 2 ? NA_Get : NA_Put)(end->na_class, end->context,
                conform_ended, call, scene->local, 0, scene->remote, 0,
                ENDPOINT_MEMORY, addr, &call->id));
        break;
    default:
        death_start_call(scene,
            NA_Msg_send_expected(end->na_class, end->context, conform_ended,
                call, scene->got, sizeof(scene->got), addr, 9, &call->id));
        break;
    }
}

/* Everything completes once; unanswered operations complete with
 * NA_DISCONNECT. */
static void death_settle(struct death_scene *scene)
{
    unsigned i;

    (void) conform_wait(scene->end, &scene->lookup);
    if (scene->lookup.ret != NA_SUCCESS) {
        HG_CHECK_RET(scene->lookup.ret, NA_HOSTUNREACH);
        HG_CHECK_EQ_INT(scene->started, 0);
        return;
    }
    for (i = 0; i < scene->started; i++) {
        na_return_t ret = conform_wait(scene->end, &scene->calls[i]);

        if (i == 0)
            HG_CHECK_RET(ret, NA_DISCONNECT);
        else
            HG_CHECK(ret == NA_SUCCESS || ret == NA_DISCONNECT);
    }
    if (scene->started > 0)
        (void) conform_wait(scene->end, &scene->answer);
    if (scene->remote != NA_MEM_HANDLE_NULL)
        HG_CHECK_OK(NA_Mem_handle_free(scene->end->na_class, scene->remote));
    conform_idle(scene->end);
    conform_free_addr(scene->end, &scene->lookup);
}

static void death_round(
    struct conform_end *end, na_mem_handle_t local, uint64_t *random)
{
    struct death_scene scene;
    struct hg_test_peer *process;
    uint64_t pick = hg_test_random(random);
    uint64_t until;
    char string[64];
    char *name;

    memset(&scene, 0, sizeof(scene));
    scene.end = end;
    scene.local = local;
    death_listen_string(string);
    process = death_start(string, &name);
    HG_CHECK_OK(NA_Addr_lookup(end->na_class, end->context, conform_ended,
        &scene.lookup, name, &scene.lookup.id));
    /* Mostly early, seldom late: the interesting moments are short. */
    until = pick >> 8;
    for (until %= pick % 4 == 0 ? 4000 : 40; until > 0; until--) {
        (void) conform_turn(end->na_class, end->context, 0);
        death_go_on(&scene);
    }
    death_kill(process);
    death_settle(&scene);
    free(name);
}

HG_TEST_SECONDS(process_killed_at_any_moment_leaves_nothing, 200)
{
    struct conform_end end;
    unsigned char *memory = endpoint_map(ENDPOINT_MEMORY);
    uint64_t random = hg_test_seed();
    unsigned rounds = getenv("HG_TEST_FULL") != NULL ? 1000
        : hg_test_is_plain()                         ? 100
                                                     : 20;
    na_mem_handle_t local;
    unsigned fds, maps, i;

    hg_test_allow_log(""); /* errors of failed operations */
    endpoint_open(&end, "sm://", 1000);
    local = endpoint_register(&end, memory, ENDPOINT_MEMORY);
    death_round(&end, local, &random);
    fds = hg_test_fd_count();
    maps = sm_maps();
    for (i = 0; i < rounds; i++) {
        death_round(&end, local, &random);
        HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
        HG_CHECK_EQ_INT(sm_maps(), maps);
    }
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, local));
    endpoint_unmap(memory, ENDPOINT_MEMORY);
    conform_close(&end);
}

HG_TEST(sleeping_thread_is_woken_by_a_death)
{
    struct conform_end end;
    struct conform_call recv;
    struct hg_test_peer *process;
    na_addr_t addr = NA_ADDR_NULL;
    char string[64], got[8];
    char *name;

    death_listen_string(string);
    process = death_start(string, &name);
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    HG_CHECK_OK(endpoint_post(&end, &recv, got, sizeof(got), addr, 5));
    death_kill(process);
    HG_CHECK_OK(NA_Progress(end.na_class, end.context, CONFORM_TIMEOUT));
    HG_CHECK_EQ_INT(conform_trigger(end.context, 0, 10), 1);
    HG_CHECK_RET(recv.ret, NA_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    free(name);
    conform_close(&end);
}

HG_TEST(restarted_server_is_another_peer)
{
    struct conform_end end;
    struct hg_test_peer *process;
    na_addr_t addr = NA_ADDR_NULL, again = NA_ADDR_NULL;
    char string[64], got[8];
    char *name;

    hg_test_allow_log("");
    death_listen_string(string);
    process = death_start(string, &name);
    free(name);
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_OK(endpoint_lookup(&end, string, &addr));
    HG_CHECK_OK(endpoint_ask(&end, addr, 1, got, sizeof(got), NULL));
    death_kill(process);
    HG_CHECK_RET(endpoint_lookup(&end, string, &again), NA_HOSTUNREACH);
    process = death_start(string, &name);
    free(name);
    HG_CHECK_OK(endpoint_lookup(&end, string, &again));
    HG_CHECK(NA_Addr_cmp(end.na_class, again, addr) == NA_FALSE);
    HG_CHECK_OK(endpoint_ask(&end, again, 1, got, sizeof(got), NULL));
    HG_CHECK_RET(
        endpoint_ask(&end, addr, 1, got, sizeof(got), NULL), NA_DISCONNECT);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    HG_CHECK_OK(NA_Addr_free(end.na_class, again));
    hg_test_stop(process);
    conform_close(&end);
}

/* Messages that a peer sent before its end are delivered. */
HG_TEST(messages_sent_before_exit_arrive)
{
    struct conform_end one, two;
    struct conform_call recv, send;
    na_addr_t addr = NA_ADDR_NULL;
    char string[64], got[8];
    unsigned i;

    death_listen_string(string);
    endpoint_open(&one, string, 1000);
    endpoint_open(&two, "sm://", 1000);
    HG_CHECK_OK(sm_meet(&two, &one, string, &addr));
    for (i = 0; i < 100; i++) {
        memset(&send, 0, sizeof(send));
        HG_CHECK_OK(NA_Msg_send_unexpected(two.na_class, two.context,
            conform_ended, &send, &i, sizeof(i), addr, i, NA_OP_ID_IGNORE));
        HG_CHECK_OK(conform_wait(&two, &send));
    }
    HG_CHECK_OK(NA_Addr_free(two.na_class, addr));
    conform_close(&two);
    for (i = 0; i < 100; i++) {
        HG_CHECK_OK(conform_recv(&one, &recv, false, got, sizeof(got), 0));
        HG_CHECK_OK(conform_wait(&one, &recv));
        HG_CHECK_EQ_INT(recv.tag, i);
        conform_free_addr(&one, &recv);
    }
    conform_idle(&one);
    conform_close(&one);
}

/* Messages that the queue has no space for are kept when their sender ends. */
HG_TEST(messages_before_exit_past_the_limit_arrive)
{
    enum { WORDS = 20 };
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct conform_end one, two;
    struct conform_call recv;
    na_addr_t addr = NA_ADDR_NULL;
    char string[64], got[8];
    unsigned fds, i;

    death_listen_string(string);
    info.max_queue_bytes = 500;
    endpoint_open_info(&one, string, NA_TRUE, &info);
    fds = hg_test_fd_count();
    endpoint_open(&two, "sm://", 1000);
    HG_CHECK_OK(sm_meet(&two, &one, string, &addr));
    for (i = 0; i < WORDS; i++)
        HG_CHECK_OK(NA_Msg_send_unexpected(two.na_class, two.context, NULL,
            NULL, "x", 1, addr, i, NA_OP_ID_IGNORE));
    HG_CHECK_OK(NA_Addr_free(two.na_class, addr));
    conform_close(&two);
    while (hg_test_fd_count() > fds) /* the connection has not ended yet */
        (void) conform_turn(one.na_class, one.context, 10);
    for (i = 0; i < WORDS; i++) {
        HG_CHECK_OK(conform_recv(&one, &recv, false, got, sizeof(got), 0));
        HG_CHECK_OK(conform_wait(&one, &recv));
        HG_CHECK_EQ_INT(recv.tag, i);
        conform_free_addr(&one, &recv);
    }
    HG_CHECK_EQ_U64(NA_Get_counter(one.na_class, "msg_dropped"), 0);
    conform_idle(&one);
    conform_close(&one);
}

/* ---- BYE ---- */

HG_TEST(terminated_peer_can_be_called_again)
{
    struct conform_end end;
    struct conform_call term;
    struct hg_test_peer *process;
    na_addr_t addr = NA_ADDR_NULL;
    unsigned fds, round;
    char string[64], got[8];
    char *name;

    death_listen_string(string);
    process = death_start(string, &name);
    endpoint_open(&end, "sm://", 1000);
    fds = hg_test_fd_count();
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    for (round = 0; round < 5; round++) {
        HG_CHECK_OK(endpoint_ask(&end, addr, 1, got, sizeof(got), NULL));
        HG_CHECK_EQ_INT(hg_test_fd_count(), fds + 2); /* two for a peer */
        memset(&term, 0, sizeof(term));
        HG_CHECK_OK(NA_Addr_terminate(end.na_class, end.context, conform_ended,
            &term, addr, NA_OP_ID_IGNORE));
        HG_CHECK_OK(conform_wait(&end, &term));
        HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
        HG_CHECK_EQ_INT(sm_maps(), 4); /* our own memory */
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    free(name);
    hg_test_stop(process);
    conform_close(&end);
}

/* Messages sent while the connection ends use the next connection. */
HG_TEST(peer_being_terminated_can_be_called)
{
    struct conform_end end;
    struct conform_call term;
    struct hg_test_peer *process;
    na_addr_t addr = NA_ADDR_NULL;
    char string[64], got[8];
    char *name;
    unsigned round;

    death_listen_string(string);
    process = death_start(string, &name);
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    for (round = 0; round < 5; round++) {
        memset(&term, 0, sizeof(term));
        HG_CHECK_OK(NA_Addr_terminate(end.na_class, end.context, conform_ended,
            &term, addr, NA_OP_ID_IGNORE));
        HG_CHECK_OK(endpoint_ask(&end, addr, 1, got, sizeof(got), NULL));
        HG_CHECK_OK(conform_wait(&end, &term));
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    free(name);
    hg_test_stop(process);
    conform_close(&end);
}

/* A peer that is stopped, and whose memory is not being copied: no thread waits
 * for it. */
HG_TEST(bye_need_not_be_answered)
{
    struct conform_end end;
    struct conform_call term;
    struct hg_test_peer *process;
    na_addr_t addr = NA_ADDR_NULL;
    unsigned fds;
    char string[64], got[8];
    char *name;
    siginfo_t info;

    death_listen_string(string);
    process = death_start(string, &name);
    endpoint_open(&end, "sm://", 1000000);
    fds = hg_test_fd_count();
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    HG_CHECK_OK(endpoint_ask(&end, addr, 1, got, sizeof(got), NULL));
    hg_test_signal(process, SIGSTOP);
    HG_CHECK(
        waitid(P_PID, (id_t) hg_test_peer_pid(process), &info, WSTOPPED) == 0);
    memset(&term, 0, sizeof(term));
    HG_CHECK_OK(NA_Addr_terminate(end.na_class, end.context, conform_ended,
        &term, addr, NA_OP_ID_IGNORE));
    HG_CHECK_OK(NA_Progress(end.na_class, end.context, CONFORM_TIMEOUT));
    HG_CHECK_EQ_INT(conform_trigger(end.context, 0, 10), 1);
    HG_CHECK_OK(term.ret);
    HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
    HG_CHECK_EQ_INT(sm_maps(), 4); /* our own memory */
    hg_test_signal(process, SIGCONT);
    HG_CHECK_OK(endpoint_ask(&end, addr, 1, got, sizeof(got), NULL));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    free(name);
    hg_test_stop(process);
    conform_close(&end);
}

/* The source address of a message. */
static na_addr_t death_source(
    struct conform_end *server, struct conform_end *end, na_addr_t addr)
{
    struct conform_call recv;
    char got[8];

    HG_CHECK_OK(conform_recv(server, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(NA_Msg_send_unexpected(end->na_class, end->context, NULL, NULL,
        "x", 1, addr, 1, NA_OP_ID_IGNORE));
    HG_CHECK_OK(conform_wait(server, &recv));
    return recv.addr;
}

/* A peer that says BYE and then is busy: a lookup or a send waits for the end
 * of the connection, but not longer than for its death. */
HG_TEST(unfinished_bye_completes)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct conform_end server, end;
    struct conform_call term, wait;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr = NA_ADDR_NULL, source;
    unsigned round;

    info.death_ms = 100;
    info.lookup_ms = 100;
    for (round = 0; round < 2; round++) {
        hg_test_allow_log("");
        death_listen_string(name);
        endpoint_open_info(&server, name, NA_TRUE, &info);
        endpoint_name(&server, server.self, name);
        endpoint_open_info(&end, "sm://", NA_FALSE, &info);
        HG_CHECK_OK(sm_meet(&end, &server, name, &addr));
        source = death_source(&server, &end, addr);
        memset(&term, 0, sizeof(term));
        HG_CHECK_OK(NA_Addr_terminate(server.na_class, server.context,
            conform_ended, &term, source, NA_OP_ID_IGNORE));
        conform_idle(&end); /* it receives the BYE, and agrees */
        memset(&wait, 0, sizeof(wait));
        if (round == 0)
            HG_CHECK_OK(NA_Addr_lookup(end.na_class, end.context, conform_ended,
                &wait, name, &wait.id));
        else
            HG_CHECK_OK(NA_Msg_send_unexpected(end.na_class, end.context,
                conform_ended, &wait, "x", 1, addr, 1, &wait.id));
        HG_CHECK_RET(conform_wait(&end, &wait),
            round == 0 ? NA_HOSTUNREACH : NA_DISCONNECT);
        HG_CHECK_OK(conform_wait(&server, &term));
        HG_CHECK_OK(NA_Addr_free(server.na_class, source));
        HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
        conform_close(&end);
        conform_close(&server);
    }
}

/* A connection that a send has started is being established. The message
 * arrives first. */
HG_TEST(bye_may_arrive_before_the_connection)
{
    struct conform_end server, end;
    struct conform_call term, send, recv;
    char name[NA_MAX_ADDR_LEN], got[8];
    na_addr_t addr = NA_ADDR_NULL;
    unsigned round;

    death_listen_string(name);
    endpoint_open(&server, name, 1000);
    endpoint_name(&server, server.self, name);
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_OK(sm_meet(&end, &server, name, &addr));
    for (round = 0; round < 4; round++) {
        memset(&term, 0, sizeof(term));
        if (round > 0) { /* else there is a connection */
            memset(&send, 0, sizeof(send));
            HG_CHECK_OK(
                conform_recv(&server, &recv, false, got, sizeof(got), 0));
            HG_CHECK_OK(NA_Msg_send_unexpected(end.na_class, end.context,
                conform_ended, &send, "x", 2, addr, 1, NA_OP_ID_IGNORE));
        }
        HG_CHECK_OK(NA_Addr_terminate(end.na_class, end.context, conform_ended,
            &term, addr, NA_OP_ID_IGNORE));
        HG_CHECK_OK(sm_wait(&end, &server, &term));
        if (round == 0)
            continue;
        HG_CHECK_EQ_INT(send.ends, 1);
        HG_CHECK_OK(sm_wait(&end, &server, &recv));
        conform_free_addr(&server, &recv);
    }
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
    conform_close(&server);
}

/* ---- Fork ---- */

/* Runs in the child: 0 if all checks hold. */
static int death_in_child(struct conform_end *end, na_addr_t addr)
{
    struct conform_call call;
    na_class_t *fresh;

    memset(&call, 0, sizeof(call));
    if (sm_maps() == 0)
        return 1;
    if (NA_Msg_send_unexpected(end->na_class, end->context, conform_ended,
            &call, "x", 1, addr, 1, NA_OP_ID_IGNORE) != NA_FAULT)
        return 2;
    if (NA_Addr_lookup(end->na_class, end->context, conform_ended, &call,
            "sm://anybody", NA_OP_ID_IGNORE) != NA_FAULT)
        return 3;
    if (NA_Progress(end->na_class, end->context, 100) != NA_FAULT)
        return 4;
    if (NA_Finalize(end->na_class) != NA_FAULT)
        return 5;
    if (hg_test_log_count("belongs to the parent process") != 1)
        return 6;
    fresh = NA_Initialize("sm://", NA_TRUE);
    if (fresh == NULL || NA_Finalize(fresh) != NA_SUCCESS)
        return 7;
    return 0;
}

HG_TEST(child_of_fork_finds_its_classes_disconnected)
{
    struct conform_end end;
    struct hg_test_peer *process;
    na_addr_t addr = NA_ADDR_NULL;
    char string[64], got[8];
    char *name;
    pid_t child;
    int status;

    hg_test_allow_log("belongs to the parent process");
    death_listen_string(string);
    process = death_start(string, &name);
    death_listen_string(string);
    endpoint_open(&end, string, 1000);
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    HG_CHECK_OK(endpoint_ask(&end, addr, 1, got, sizeof(got), NULL));
    child = fork();
    HG_CHECK(child >= 0);
    if (child == 0)
        _exit(death_in_child(&end, addr));
    HG_CHECK(waitpid(child, &status, 0) == child);
    HG_CHECK_EQ_INT(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
    HG_CHECK_OK(endpoint_ask(&end, addr, 1, got, sizeof(got), NULL));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    free(name);
    hg_test_stop(process);
    conform_close(&end);
}

/* Forks a child that stays until it is killed, and reports its process id. */
HG_TEST_ROLE(parent)
{
    struct conform_end end;
    char line[32];
    pid_t child;

    HG_CHECK_EQ_INT(argc, 1);
    hg_test_allow_log("");
    endpoint_open(&end, argv[0], 1000);
    hg_test_write_parent("open");
    while (NA_Get_counter(end.na_class, "sm_met") == 0)
        (void) conform_turn(end.na_class, end.context, 10);
    child = fork();
    while (child == 0)
        (void) pause();
    (void) snprintf(line, sizeof(line), "%ld", (long) child);
    hg_test_write_parent(line);
    for (;;)
        (void) conform_turn(end.na_class, end.context, 10);
}

HG_TEST(child_of_fork_does_not_hide_its_parents_death)
{
    struct conform_end end;
    struct conform_call recv;
    struct hg_test_peer *process;
    na_addr_t addr = NA_ADDR_NULL;
    char string[64], got[8];
    char *line;
    pid_t child;
    int status;

    /* The child of the dead process becomes ours. */
    HG_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    death_listen_string(string);
    process = hg_test_spawn("parent", string, NULL);
    free(hg_test_read_peer(process));
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_OK(endpoint_lookup(&end, string, &addr));
    line = hg_test_read_peer(process);
    child = (pid_t) strtol(line, NULL, 10);
    free(line);
    HG_CHECK(child > 1);
    HG_CHECK_OK(endpoint_post(&end, &recv, got, sizeof(got), addr, 5));
    death_kill(process);
    HG_CHECK_RET(conform_wait(&end, &recv), NA_DISCONNECT);
    HG_CHECK(kill(child, SIGKILL) == 0);
    HG_CHECK(waitpid(child, &status, 0) == child);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
}

/* A caller that has only just connected also learns of the parent's death. */
HG_TEST(child_of_fork_does_not_keep_connections_open)
{
    struct conform_end end;
    struct pollfd caller = {-1, POLLIN, 0};
    char string[64], byte;
    unsigned fds;
    pid_t child;
    int status;

    death_listen_string(string);
    endpoint_open(&end, string, 1000);
    caller.fd = sm_connect(string);
    fds = hg_test_fd_count();
    while (hg_test_fd_count() == fds) /* it is accepted */
        (void) conform_turn(end.na_class, end.context, 1);
    child = fork();
    HG_CHECK(child >= 0);
    while (child == 0)
        (void) pause();
    conform_close(&end);
    HG_CHECK_EQ_INT(poll(&caller, 1, 5000), 1);
    HG_CHECK_EQ_INT(recv(caller.fd, &byte, 1, MSG_DONTWAIT), 0);
    (void) close(caller.fd);
    HG_CHECK(kill(child, SIGKILL) == 0);
    HG_CHECK(waitpid(child, &status, 0) == child);
}
