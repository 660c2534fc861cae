/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dynamic mode: processes that connect at the same time, and processes that
 * lack a requirement: thread support, or a way to connect jobs. The conformance
 * suite runs in this mode, too, as the transport mpi+dynamic.
 */
#define _GNU_SOURCE 1
#include <mpi.h>

#include "conform/conform.h"
#include "conform/rpc.h"
#include "mpi/ranks.h"

#include <pthread.h>
#include <unistd.h>

#define DYNAMIC_TIMEOUT HG_TEST_WAIT_MS
#define DYNAMIC_CLIENTS 6u /* in a job */
#define DYNAMIC_PEERS 3u   /* in a job */

HG_TEST_ROLE(serialized)
{
    int level;

    (void) argc;
    (void) argv;
    HG_CHECK_EQ_INT(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level),
        MPI_SUCCESS);
    HG_CHECK_EQ_INT(level, MPI_THREAD_SERIALIZED);
    hg_test_expect_log("mpi+dynamic needs MPI_THREAD_MULTIPLE");
    HG_CHECK(NA_Initialize("mpi+dynamic://", NA_FALSE) == NULL);
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}

HG_TEST(dynamic_needs_all_threads)
{
    HG_CHECK_EQ_INT(ranks_run(1, "serialized"), 0);
}

static hg_id_t dynamic_inc_id;
static hg_id_t dynamic_done_id;
static _Atomic unsigned dynamic_done_count;

static hg_return_t dynamic_done(hg_handle_t handle)
{
    (void) atomic_fetch_add(&dynamic_done_count, 1);
    return HG_Handler_start_output(handle, NULL) != HG_SUCCESS
        ? HG_OTHER_ERROR
        : HG_Handler_free(handle);
}

static void rpc_register(void)
{
    dynamic_inc_id =
        MERCURY_REGISTER("dynamic inc", rpc_one_t, rpc_one_t, rpc_inc);
    dynamic_done_id =
        MERCURY_REGISTER("dynamic done", void, void, dynamic_done);
}

#ifdef OPEN_MPI
/* ---- Many connections ---- */

/* The file through which address `n` of a case is passed to other jobs. */
static void dynamic_file(char file[256], const char *path, unsigned n)
{
    HG_CHECK(snprintf(file, 256, "%s-%u", path, n) < 256);
}

static void dynamic_report(const char *path, unsigned n, const char *name)
{
    char file[256], part[256];
    FILE *stream;

    dynamic_file(file, path, n);
    dynamic_file(part, path, n + 100);
    stream = fopen(part, "w");
    HG_CHECK(stream != NULL && fputs(name, stream) >= 0);
    HG_CHECK(fclose(stream) == 0 && rename(part, file) == 0);
}

static void dynamic_receive(const char *path, unsigned n, char *name)
{
    char file[256];
    FILE *stream;

    dynamic_file(file, path, n);
    while ((stream = fopen(file, "r")) == NULL)
        (void) usleep(5000);
    HG_CHECK(fgets(name, NA_MAX_ADDR_LEN, stream) != NULL);
    HG_CHECK(fclose(stream) == 0);
}

static unsigned dynamic_lookup_ms; /* 0: the default */

static na_class_t *dynamic_open(na_bool_t listen, char *name)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;
    na_addr_t self;

    info.lookup_ms =
        dynamic_lookup_ms != 0 ? dynamic_lookup_ms : DYNAMIC_TIMEOUT;
    na_class = NA_Initialize_opt("mpi+dynamic://", listen, &info);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(HG_Init(na_class));
    rpc_register();
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, name, NA_MAX_ADDR_LEN, self));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    return na_class;
}

static void dynamic_close(na_class_t *na_class)
{
    HG_CHECK_OK(HG_Drain(NULL, RPC_TIMEOUT));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
}

static void dynamic_serve(unsigned clients)
{
    while (atomic_load(&dynamic_done_count) < clients) {
        hg_return_t ret = HG_Handler_process(20, HG_STATUS_IGNORE);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
    }
}

static void dynamic_visit(na_class_t *na_class, const char *name)
{
    struct rpc_end end;
    rpc_one_t one = {1};

    memset(&end, 0, sizeof(end));
    end.na_class = na_class;
    HG_CHECK_OK(
        NA_Addr_lookup_wait(na_class, name, DYNAMIC_TIMEOUT, &end.target));
    HG_CHECK_OK(rpc_call(&end, dynamic_inc_id, &one, &one));
    HG_CHECK_EQ_INT(one.value, 2);
    HG_CHECK_OK(rpc_call(&end, dynamic_done_id, NULL, NULL));
    HG_CHECK_OK(NA_Addr_free(na_class, end.target));
}

static void dynamic_host(const char *path, unsigned clients)
{
    char name[NA_MAX_ADDR_LEN];
    na_class_t *na_class = dynamic_open(NA_TRUE, name);

    dynamic_report(path, 0, name);
    dynamic_serve(clients);
    dynamic_close(na_class);
}

static void dynamic_client(const char *path, unsigned n)
{
    char name[NA_MAX_ADDR_LEN];
    na_class_t *na_class = dynamic_open(NA_FALSE, name);

    dynamic_receive(path, n, name);
    dynamic_visit(na_class, name);
    dynamic_close(na_class);
}

HG_TEST_ROLE(host)
{
    HG_CHECK(argc == 1);
    dynamic_host(argv[0], 2 * DYNAMIC_CLIENTS);
}

HG_TEST_ROLE(clients)
{
    HG_CHECK(argc == 1);
    dynamic_client(argv[0], 0);
}

HG_TEST_SECONDS(ranks_of_two_jobs_look_up_one_server_at_once, 60)
{
    const struct ranks_job jobs[] = {{1, "host"}, {DYNAMIC_CLIENTS, "clients"},
        {DYNAMIC_CLIENTS, "clients"}};

    HG_CHECK_EQ_INT(ranks_run_apart(jobs, 3), 0);
}

HG_TEST_ROLE(host_of_one)
{
    HG_CHECK(argc == 1);
    dynamic_host(argv[0], 1);
}

/* Enter the queue of the port in address 0, then publish the address as number
 * 1, and die. */
HG_TEST_ROLE(queue_holder)
{
    char name[NA_MAX_ADDR_LEN], turn[RANKS_TURN_LEN];
    const char *port = name + sizeof("mpi+dynamic://") - 1;
    int level;

    HG_CHECK(argc == 1);
    HG_CHECK_EQ_INT(
        MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level), MPI_SUCCESS);
    dynamic_receive(argv[0], 0, name);
    ranks_take_turn(port, turn);
    dynamic_report(argv[0], 1, name);
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}

HG_TEST_ROLE(late_client)
{
    HG_CHECK(argc == 1);
    dynamic_client(argv[0], 1);
}

HG_TEST_SECONDS(process_that_died_in_the_queue_is_skipped, 60)
{
    const struct ranks_job jobs[] = {
        {1, "host_of_one"}, {1, "queue_holder"}, {1, "late_client"}};

    HG_CHECK_EQ_INT(ranks_run_apart(jobs, 3), 0);
}

static void *dynamic_serve_peers(void *arg)
{
    (void) arg;
    dynamic_serve(2 * DYNAMIC_PEERS - 1);
    return NULL;
}

/* One of the processes of two jobs that all look each other up at once; the
 * first one of this job has the number `first`. */
static void dynamic_peer(const char *path, unsigned first)
{
    char name[NA_MAX_ADDR_LEN];
    na_class_t *na_class = dynamic_open(NA_TRUE, name);
    unsigned count = 2 * DYNAMIC_PEERS;
    pthread_t thread;
    unsigned me, i;
    int rank;

    HG_CHECK_EQ_INT(MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_SUCCESS);
    me = first + (unsigned) rank;
    dynamic_report(path, me, name);
    for (i = 0; i < count; i++)
        dynamic_receive(path, i, name);
    HG_CHECK_EQ_INT(
        pthread_create(&thread, NULL, dynamic_serve_peers, NULL), 0);
    for (i = 1; i < count; i++) {
        dynamic_receive(path, (me + i) % count, name);
        dynamic_visit(na_class, name);
    }
    HG_CHECK_EQ_INT(pthread_join(thread, NULL), 0);
    dynamic_close(na_class);
}

HG_TEST_ROLE(peers)
{
    HG_CHECK(argc == 1);
    dynamic_peer(argv[0], 0);
}

HG_TEST_ROLE(more_peers)
{
    HG_CHECK(argc == 1);
    dynamic_peer(argv[0], DYNAMIC_PEERS);
}

HG_TEST_SECONDS(listeners_of_two_jobs_look_each_other_up_at_once, 60)
{
    const struct ranks_job jobs[] = {
        {DYNAMIC_PEERS, "peers"}, {DYNAMIC_PEERS, "more_peers"}};

    HG_CHECK_EQ_INT(ranks_run_apart(jobs, 2), 0);
}

/* A port that does not exist: of the job after that of `name`. */
static void dynamic_spoil(char *name)
{
    char *digit = strpbrk(name, "0123456789");

    HG_CHECK(digit != NULL);
    *digit = *digit == '9' ? '1' : (char) (*digit + 1);
}

struct dynamic_vain {
    na_class_t *na_class;
    char name[NA_MAX_ADDR_LEN];
    _Atomic bool ended;
};

static void *dynamic_look_in_vain(void *arg)
{
    struct dynamic_vain *vain = (struct dynamic_vain *) arg;
    na_addr_t addr;

    HG_CHECK_RET(
        NA_Addr_lookup_wait(vain->na_class, vain->name, DYNAMIC_TIMEOUT, &addr),
        NA_HOSTUNREACH);
    atomic_store(&vain->ended, true);
    return NULL;
}

/* A listener looks up an address without a listener, and meanwhile the host. */
HG_TEST_ROLE(busy_client)
{
    struct dynamic_vain vain = {.na_class = NULL};
    char name[NA_MAX_ADDR_LEN];
    pthread_t thread;

    HG_CHECK(argc == 1);
    dynamic_lookup_ms = hg_test_scaled_ms(5000u);
    hg_test_expect_log("does not know this port");
    vain.na_class = dynamic_open(NA_TRUE, name);
    dynamic_receive(argv[0], 0, name);
    memcpy(vain.name, name, sizeof(vain.name));
    dynamic_spoil(vain.name);
    HG_CHECK_EQ_INT(
        pthread_create(&thread, NULL, dynamic_look_in_vain, &vain), 0);
    (void) usleep(100000);
    dynamic_visit(vain.na_class, name);
    HG_CHECK(!atomic_load(&vain.ended));
    HG_CHECK_EQ_INT(pthread_join(thread, NULL), 0);
    dynamic_close(vain.na_class);
}

HG_TEST_SECONDS(lookup_without_a_listener_does_not_delay_others, 60)
{
    const struct ranks_job jobs[] = {{1, "host_of_one"}, {1, "busy_client"}};

    HG_CHECK_EQ_INT(ranks_run_apart(jobs, 2), 0);
}

/* ---- A receive by an address that was only resolved ---- */

static void dynamic_start(struct conform_end *end, char name[NA_MAX_ADDR_LEN])
{
    end->na_class = NA_Initialize("mpi+dynamic://", NA_TRUE);
    HG_CHECK(end->na_class != NULL);
    end->context = NA_Context_create(end->na_class);
    HG_CHECK(end->context != NULL);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->self));
    HG_CHECK_OK(
        NA_Addr_to_string(end->na_class, name, NA_MAX_ADDR_LEN, end->self));
}

static void dynamic_send(
    struct conform_end *end, na_addr_t to, bool expected, const char *text)
{
    struct conform_call send;

    memset(&send, 0, sizeof(send));
    HG_CHECK_OK((expected ? NA_Msg_send_expected : NA_Msg_send_unexpected)(
        end->na_class, end->context, conform_ended, &send, text,
        strlen(text) + 1, to, 7, &send.id));
    HG_CHECK_OK(conform_wait(end, &send));
}

/* The source of an unexpected message, which the caller frees. */
static na_addr_t dynamic_meet(struct conform_end *end)
{
    struct conform_call recv;
    char got[8];

    HG_CHECK_OK(conform_recv(end, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(conform_wait(end, &recv));
    return recv.addr;
}

HG_TEST_ROLE(early_sender)
{
    struct conform_end end;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t to;

    HG_CHECK(argc == 1);
    dynamic_start(&end, name);
    dynamic_report(argv[0], 0, name);
    dynamic_receive(argv[0], 1, name);
    HG_CHECK_OK(NA_Addr_resolve(end.na_class, name, &to));
    dynamic_send(&end, to, true, "one");
    dynamic_send(&end, to, false, "hello");
    HG_CHECK_OK(NA_Addr_free(end.na_class, dynamic_meet(&end)));
    HG_CHECK_OK(NA_Addr_free(end.na_class, to));
    conform_close(&end);
}

HG_TEST_ROLE(late_receiver)
{
    struct conform_call recv;
    struct conform_end end;
    char own[NA_MAX_ADDR_LEN], name[NA_MAX_ADDR_LEN], got[8];
    na_addr_t from, source;

    HG_CHECK(argc == 1);
    memset(&recv, 0, sizeof(recv));
    dynamic_start(&end, own);
    dynamic_receive(argv[0], 0, name);
    HG_CHECK_OK(NA_Addr_resolve(end.na_class, name, &from));
    dynamic_report(argv[0], 1, own); /* now the sender connects */
    source = dynamic_meet(&end);
    HG_CHECK(source != from); /* two connections, not known as one peer */
    HG_CHECK_OK(NA_Msg_recv_expected(end.na_class, end.context, conform_ended,
        &recv, got, sizeof(got), from, 7, &recv.id));
    HG_CHECK_OK(conform_wait(&end, &recv));
    HG_CHECK_EQ_STR(got, "one");
    HG_CHECK(NA_Addr_cmp(end.na_class, source, from));
    dynamic_send(&end, source, false, "bye");
    HG_CHECK_OK(NA_Addr_free(end.na_class, source));
    HG_CHECK_OK(NA_Addr_free(end.na_class, from));
    conform_close(&end);
}

HG_TEST_SECONDS(receive_by_name_gets_a_message_that_came_before, 60)
{
    const struct ranks_job jobs[] = {{1, "early_sender"}, {1, "late_receiver"}};

    HG_CHECK_EQ_INT(ranks_run_apart(jobs, 2), 0);
}

/* ---- Jobs that cannot connect ---- */

/* Names without a port, and a port of a job that this one cannot find. */
HG_TEST_ROLE(unconnected)
{
    static const char *const names[] = {"mpi+dynamic://", "mpi+dynamic:///1",
        "mpi+dynamic://%", "mpi+dynamic://%0", "mpi+dynamic://%zz",
        "mpi+dynamic://%00", "mpi+dynamic://a/", "mpi+dynamic://a/x",
        "mpi+dynamic://a/99999", "mpi+dynamic://a/1/2"};
    na_class_t *na_class = NA_Initialize("mpi+dynamic://", NA_TRUE);
    char name[NA_MAX_ADDR_LEN];
    na_addr_t self, addr;
    na_return_t ret;
    size_t i;

    (void) argc;
    (void) argv;
    HG_CHECK(na_class != NULL);
    hg_test_expect_log("ompi-server");
    hg_test_allow_log("");
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        ret = NA_Addr_lookup_wait(na_class, names[i], DYNAMIC_TIMEOUT, &addr);
        if (ret != NA_INVALID_ARG)
            hg_test_fail(
                HG_TEST_HERE, "%s: %s", names[i], NA_Error_to_string(ret));
    }
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, name, sizeof(name), self));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    dynamic_spoil(name);
    HG_CHECK_RET(NA_Addr_lookup_wait(na_class, name, DYNAMIC_TIMEOUT, &addr),
        NA_HOSTUNREACH);
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(without_a_server_other_jobs_are_unreachable)
{
    HG_CHECK_EQ_INT(ranks_run(1, "unconnected"), 0);
}
#else
/* Debian's MPICH, which is built with ucx, has no ports. */
HG_TEST_ROLE(refused)
{
    (void) argc;
    (void) argv;
    hg_test_expect_log("this MPI cannot accept connections");
    HG_CHECK(NA_Initialize("mpi+dynamic://", NA_TRUE) == NULL);
}

HG_TEST(dynamic_is_refused_where_mpi_has_no_ports)
{
    HG_CHECK_EQ_INT(ranks_run(1, "refused"), 0);
}
#endif
