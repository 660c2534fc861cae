/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork, while other threads are inside the library. The parent is not affected.
 * The child lacks those threads and finds their locks as they were: each of its
 * attempts to use an object of the parent is refused at once.
 */
#include "rpc.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORK_SECONDS 50u /* a child that takes longer hangs */
#define FORK_FDS 1024

static hg_id_t fork_inc_id, fork_keep_id;
static _Atomic(hg_handle_t) fork_kept;

static hg_return_t fork_keep(hg_handle_t handle)
{
    atomic_store(&fork_kept, handle);
    return HG_SUCCESS;
}

static void rpc_register(void)
{
    fork_inc_id = MERCURY_REGISTER("fork inc", rpc_one_t, rpc_one_t, rpc_inc);
    fork_keep_id =
        MERCURY_REGISTER("fork keep", rpc_one_t, rpc_one_t, fork_keep);
}

/* The parent's objects, which the child tries to use. */
struct fork_ends {
    struct rpc_end end;
    na_context_t *context;
    na_addr_t self;
    na_mem_handle_t mem;
    na_mem_handle_t remote;
    unsigned char described[256]; /* the memory, serialized */
    na_size_t described_size;
    hg_bulk_t bulk;
    hg_request_t request;
    hg_bulk_request_t transfer; /* not waited for yet */
    char memory[4096];
    _Atomic bool stop;
    _Atomic unsigned turns[2]; /* of the threads */
};

/* ---- The child ---- */

static unsigned fork_tried;          /* attempts of the child so far */
static unsigned fork_wrong;          /* the first with a wrong result */
static _Atomic unsigned fork_logged; /* lines */

static void fork_log(int level, const char *subsys, const char *line, void *arg)
{
    (void) level;
    (void) subsys;
    (void) line;
    (void) arg;
    atomic_fetch_add(&fork_logged, 1);
}

static void fork_want(intmax_t got, intmax_t want)
{
    fork_tried++;
    if (got != want && fork_wrong == 0)
        fork_wrong = fork_tried;
}

static na_return_t fork_never(const struct na_cb_info *info)
{
    (void) info;
    fork_want(0, 1);
    return NA_SUCCESS;
}

static void fork_try_addrs(struct fork_ends *ends)
{
    na_class_t *cls = ends->end.na_class;
    na_addr_t addr = ends->self;
    char name[NA_MAX_ADDR_LEN] = "self://";
    na_addr_t found = NA_ADDR_NULL;

    fork_want(NA_Addr_lookup(
                  cls, ends->context, fork_never, NULL, name, NA_OP_ID_IGNORE),
        NA_FAULT);
    fork_want(NA_Addr_lookup_wait(cls, name, 1000, &found), NA_FAULT);
    fork_want(NA_Addr_resolve(cls, name, &found), NA_FAULT);
    fork_want(NA_Addr_self(cls, &found), NA_FAULT);
    fork_want(NA_Addr_dup(cls, addr, &found), NA_FAULT);
    fork_want(NA_Addr_is_self(cls, addr), NA_FALSE);
    fork_want(NA_Addr_cmp(cls, addr, addr), NA_FALSE);
    fork_want(NA_Addr_to_string(cls, name, sizeof(name), addr), NA_FAULT);
    fork_want((intmax_t) NA_Addr_get_serialize_size(cls, addr), 0);
    fork_want(NA_Addr_serialize(cls, name, sizeof(name), addr), NA_FAULT);
    fork_want(NA_Addr_deserialize(cls, &found, name, sizeof(name)), NA_FAULT);
    fork_want(NA_Addr_terminate(
                  cls, ends->context, fork_never, NULL, addr, NA_OP_ID_IGNORE),
        NA_FAULT);
    fork_want(NA_Addr_free(cls, addr), NA_FAULT);
    fork_want(found == NA_ADDR_NULL, true);
}

static void fork_try_messages(struct fork_ends *ends)
{
    na_class_t *cls = ends->end.na_class;
    na_context_t *context = ends->context;
    na_addr_t addr = ends->self;
    struct na_segment segment = {ends->memory, 8};
    char *buf = ends->memory;

    fork_want((intmax_t) NA_Msg_get_max_expected_size(cls), 0);
    fork_want((intmax_t) NA_Msg_get_max_unexpected_size(cls), 0);
    fork_want((intmax_t) NA_Msg_get_max_tag(cls), 0);
    fork_want(NA_Msg_buf_alloc(cls, 8) == NULL, true);
    fork_want(NA_Msg_buf_free(cls, buf), NA_FAULT);
    fork_want(NA_Msg_send_unexpected(cls, context, fork_never, NULL, buf, 8,
                  addr, 1, NA_OP_ID_IGNORE),
        NA_FAULT);
    fork_want(NA_Msg_send_expected(cls, context, fork_never, NULL, buf, 8, addr,
                  1, NA_OP_ID_IGNORE),
        NA_FAULT);
    fork_want(NA_Msg_sendv_unexpected(cls, context, fork_never, NULL, &segment,
                  1, addr, 1, NA_OP_ID_IGNORE),
        NA_FAULT);
    fork_want(NA_Msg_sendv_expected(cls, context, fork_never, NULL, &segment, 1,
                  addr, 1, NA_OP_ID_IGNORE),
        NA_FAULT);
    fork_want(NA_Msg_recv_unexpected(
                  cls, context, fork_never, NULL, buf, 8, NA_OP_ID_IGNORE),
        NA_FAULT);
    fork_want(NA_Msg_recv_expected(cls, context, fork_never, NULL, buf, 8, addr,
                  1, NA_OP_ID_IGNORE),
        NA_FAULT);
}

static void fork_try_memory(struct fork_ends *ends)
{
    na_class_t *cls = ends->end.na_class;
    struct na_segment segment = {ends->memory, 8};
    na_mem_handle_t made = NULL;

    fork_want(
        NA_Mem_handle_create(cls, ends->memory, 8, NA_MEM_READWRITE, &made),
        NA_FAULT);
    fork_want(NA_Mem_handle_create_segments(
                  cls, &segment, 1, NA_MEM_READWRITE, &made),
        NA_FAULT);
    fork_want(NA_Mem_register(cls, ends->mem), NA_FAULT);
    fork_want((intmax_t) NA_Mem_handle_get_serialize_size(cls, ends->mem), 0);
    fork_want(NA_Mem_handle_serialize(
                  cls, ends->described, sizeof(ends->described), ends->mem),
        NA_FAULT);
    fork_want(NA_Mem_handle_deserialize(
                  cls, &made, ends->described, ends->described_size),
        NA_FAULT);
    fork_want(NA_Put(cls, ends->context, fork_never, NULL, ends->mem, 0,
                  ends->remote, 0, 8, ends->self, NA_OP_ID_IGNORE),
        NA_FAULT);
    fork_want(NA_Get(cls, ends->context, fork_never, NULL, ends->mem, 0,
                  ends->remote, 0, 8, ends->self, NA_OP_ID_IGNORE),
        NA_FAULT);
    fork_want(NA_Mem_deregister(cls, ends->mem), NA_FAULT);
    fork_want(NA_Mem_handle_free(cls, ends->mem), NA_FAULT);
}

static void fork_try_class(struct fork_ends *ends)
{
    na_class_t *cls = ends->end.na_class;
    unsigned count = 0;

    fork_want(NA_Get_class_name(cls) == NULL, true);
    fork_want(NA_Get_class_protocol(cls) == NULL, true);
    fork_want(NA_Is_listening(cls), NA_FALSE);
    fork_want(NA_Get_ordering(cls), 0);
    fork_want(NA_Progress(cls, ends->context, 1000), NA_FAULT);
    fork_want(NA_Trigger(ends->context, 1000, 1, &count), NA_FAULT);
    fork_want(NA_Cancel(cls, ends->context, NA_OP_ID_NULL), NA_FAULT);
    fork_want(NA_Poll_get_fd(cls, ends->context), -1);
    fork_want(NA_Poll_try_wait(cls, ends->context), NA_FALSE);
    fork_want(NA_Context_create(cls) == NULL, true);
    fork_want(NA_Context_destroy(cls, ends->context), NA_FAULT);
    fork_want(NA_Finalize(cls), NA_FAULT);
}

static void fork_try_bulk(struct fork_ends *ends)
{
    void *ptr = ends->memory;
    size_t size = 8;
    char bytes[256];
    hg_bulk_t made = HG_BULK_NULL;
    hg_bulk_request_t request = HG_BULK_REQUEST_NULL;
    hg_bulk_pipeline_t pipeline;
    unsigned count = 0;

    fork_want(HG_Bulk_init(ends->end.na_class), HG_FAULT);
    fork_want(HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READWRITE, &made),
        HG_FAULT);
    fork_want(HG_Bulk_handle_access(
                  ends->bulk, 0, 8, HG_BULK_READWRITE, 1, &ptr, &size, &count),
        HG_SUCCESS);
    fork_want((intmax_t) HG_Bulk_handle_get_size(ends->bulk), 4096);
    fork_want((intmax_t) HG_Bulk_handle_get_segment_count(ends->bulk), 1);
    fork_want((intmax_t) HG_Bulk_handle_get_serialize_size(ends->bulk), 0);
    fork_want(
        HG_Bulk_handle_serialize(bytes, sizeof(bytes), ends->bulk), HG_FAULT);
    fork_want(
        HG_Bulk_handle_deserialize(&made, bytes, sizeof(bytes)), HG_FAULT);
    fork_want(HG_Bulk_transfer(HG_BULK_PULL, ends->self, ends->bulk, 0,
                  ends->bulk, 0, 8, &request),
        HG_FAULT);
    fork_want(HG_Bulk_wait(request, 1000, HG_STATUS_IGNORE), HG_FAULT);
    fork_want(HG_Bulk_handle_bind(ends->bulk), HG_FAULT);
    fork_want(HG_Bulk_pipeline_create(NULL, 1, 8, &pipeline), HG_FAULT);
    fork_want(HG_Bulk_handle_free(ends->bulk), HG_FAULT);
    fork_want(HG_Bulk_finalize(), HG_FAULT);
}

static void fork_try_proc(hg_bulk_t bulk, hg_proc_op_t op, hg_return_t want)
{
    char bytes[256];
    hg_proc_t proc;

    fork_want(hg_proc_create(bytes, sizeof(bytes), op, &proc), HG_SUCCESS);
    fork_want(hg_proc_hg_bulk_t(proc, &bulk), want);
    fork_want(hg_proc_free(proc), HG_SUCCESS);
}

static void fork_try_handle(hg_handle_t handle)
{
    rpc_one_t value = {1};
    size_t size = 0;
    void *buf;

    fork_want(HG_Handler_get_addr(handle) == NA_ADDR_NULL, true);
    fork_want((intmax_t) HG_Handler_get_id(handle), 0);
    fork_want(HG_Handler_get_input(handle, &value), HG_FAULT);
    fork_want(HG_Handler_free_input(handle, &value), HG_FAULT);
    fork_want(HG_Handler_get_input_buf(handle, &buf, &size), HG_FAULT);
    fork_want(HG_Handler_get_output_buf(handle, &buf, &size), HG_FAULT);
    fork_want(HG_Handler_start_output(handle, &value), HG_FAULT);
    fork_want(HG_Handler_start_response(handle, NULL, 0), HG_FAULT);
    fork_want(HG_Handler_free(handle), HG_FAULT);
}

static void fork_try_calls(struct fork_ends *ends)
{
    rpc_one_t value = {1};
    hg_request_t request = HG_REQUEST_NULL;
    struct hg_counters counters;

    counters.size = sizeof(counters);
    fork_want(HG_Init(ends->end.na_class), HG_FAULT);
    fork_want(HG_Register("fork no", NULL, NULL, NULL) == 0, true);
    fork_want(HG_Forward(ends->self, fork_inc_id, &value, &value, &request),
        HG_FAULT);
    fork_want(
        strncmp(HG_Get_last_error_text(), "HG_Forward: the layer", 21), 0);
    fork_want(HG_Wait(ends->request, 1000, HG_STATUS_IGNORE), HG_FAULT);
    fork_want(HG_Wait_all(1, &ends->request, 1000, NULL), HG_FAULT);
    fork_want(HG_Request_free(ends->request), HG_FAULT);
    fork_want(HG_Handler_process(1000, HG_STATUS_IGNORE), HG_FAULT);
    fork_want(HG_Get_counters(&counters), HG_FAULT);
    if (atomic_load(&fork_kept) != HG_HANDLE_NULL)
        fork_try_handle(atomic_load(&fork_kept));
    fork_want(HG_Finalize(), HG_FAULT);
}

/* The parent's objects, while the child has a layer of its own. */
static void fork_try_strange(struct fork_ends *ends)
{
    rpc_one_t value = {1};
    hg_request_t request = HG_REQUEST_NULL;
    hg_bulk_request_t transfer = HG_BULK_REQUEST_NULL;
    char bytes[256];

    fork_try_proc(ends->bulk, HG_ENCODE, HG_FAULT);
    fork_try_proc(ends->bulk, HG_FREE, HG_SUCCESS);
    if (atomic_load(&fork_kept) != HG_HANDLE_NULL)
        fork_try_handle(atomic_load(&fork_kept));
    fork_want(HG_Forward(ends->self, fork_inc_id, &value, &value, &request),
        HG_INVALID_ARG);
    fork_want(HG_Wait(ends->request, 1000, HG_STATUS_IGNORE), HG_INVALID_ARG);
    fork_want(HG_Wait_all(1, &ends->request, 1000, NULL), HG_INVALID_ARG);
    fork_want(HG_Request_free(ends->request), HG_INVALID_ARG);
    fork_want(
        HG_Bulk_wait(ends->transfer, 1000, HG_STATUS_IGNORE), HG_INVALID_ARG);
    fork_want((intmax_t) HG_Bulk_handle_get_serialize_size(ends->bulk), 0);
    fork_want(
        HG_Bulk_handle_serialize(bytes, sizeof(bytes), ends->bulk), HG_FAULT);
    fork_want(HG_Bulk_handle_free(ends->bulk), HG_FAULT);
    fork_want(HG_Bulk_transfer(HG_BULK_PULL, ends->self, ends->bulk, 0,
                  ends->bulk, 0, 8, &transfer),
        HG_INVALID_ARG);
}

/* Calls and bulk data of the child's own layer. `name` is the address of a
 * server; NULL: the child itself. */
static void fork_use_own(na_class_t *own, const char *name)
{
    hg_bulk_t from = HG_BULK_NULL, to = HG_BULK_NULL;
    hg_bulk_request_t transfer = HG_BULK_REQUEST_NULL;
    hg_request_t request = HG_REQUEST_NULL;
    na_addr_t self = NA_ADDR_NULL, server = NA_ADDR_NULL;
    rpc_one_t in = {1}, out = {0};
    size_t size = 70000;

    rpc_register();
    fork_want(NA_Addr_self(own, &self), NA_SUCCESS);
    fork_want(name != NULL
            ? NA_Addr_lookup_wait(own, name, RPC_TIMEOUT, &server)
            : NA_Addr_dup(own, self, &server),
        NA_SUCCESS);
    fork_want(HG_Forward(server, fork_inc_id, &in, &out, &request), HG_SUCCESS);
    fork_want(HG_Wait(request, RPC_TIMEOUT, HG_STATUS_IGNORE), HG_SUCCESS);
    fork_want(out.value, 2);
    fork_want(HG_Request_free(request), HG_SUCCESS);
    fork_want(HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &from),
        HG_SUCCESS);
    fork_want(HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &to),
        HG_SUCCESS);
    fork_want(
        HG_Bulk_transfer(HG_BULK_PULL, self, from, 0, to, 0, size, &transfer),
        HG_SUCCESS);
    fork_want(
        HG_Bulk_wait(transfer, RPC_TIMEOUT, HG_STATUS_IGNORE), HG_SUCCESS);
    fork_want(HG_Bulk_handle_free(from), HG_SUCCESS);
    fork_want(HG_Bulk_handle_free(to), HG_SUCCESS);
    fork_want(NA_Addr_free(own, server), NA_SUCCESS);
    fork_want(NA_Addr_free(own, self), NA_SUCCESS);
}

/* The child's own layer, opened twice: on self, or with the address of a server
 * on the transport. */
static void fork_try_own(struct fork_ends *ends, const char *name)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        struct na_init_info info = NA_INIT_INFO_INITIALIZER;
        na_class_t *own;

        info.lookup_ms = hg_test_lookup_ms();
        info.progress_thread = i == 1 ? NA_TRUE : NA_FALSE;
        own = NA_Initialize_opt(
            name != NULL ? hg_test_listen_string() : "self://", NA_TRUE, &info);
        fork_want(own != NULL, true);
        fork_want(HG_Init(own), HG_SUCCESS);
        fork_want(HG_Init(own), HG_EXIST);
        fork_use_own(own, name);
        if (ends != NULL)
            fork_try_strange(ends);
        fork_want(HG_Handler_process(0, HG_STATUS_IGNORE), HG_TIMEOUT);
        fork_want(HG_Finalize(), HG_SUCCESS);
        fork_want(HG_Finalize(), HG_FAULT);
        fork_want(NA_Finalize(own), NA_SUCCESS);
    }
}

/* Try everything; exits the child with the number of the first wrong result, or
 * 0. With a sanitizer the child allocates no memory, since another thread may
 * have locked the sanitizer's allocator, and exits at once, since memory would
 * seem leaked. */
static void fork_be_child(struct fork_ends *ends)
{
    HG_Set_log_func(fork_log, NULL);
    fork_try_class(ends);
    fork_try_addrs(ends);
    fork_try_messages(ends);
    fork_try_memory(ends);
    /* One line for the class. */
    fork_want((intmax_t) atomic_load(&fork_logged), 1);
    fork_try_calls(ends);
    fork_try_bulk(ends);
    /* One line for the layer. */
    fork_want((intmax_t) atomic_load(&fork_logged), 2);
    if (!hg_test_is_plain())
        hg_test_exit_child((int) fork_wrong);
    fork_try_own(ends, NULL);
    exit((int) fork_wrong);
}

/* ---- The parent ---- */

/* Calls, and memory for them. */
static void *fork_call(void *arg)
{
    struct fork_ends *ends = (struct fork_ends *) arg;
    size_t size = 70000;
    hg_bulk_t bulk;

    while (!atomic_load(&ends->stop)) {
        rpc_one_t in = {1};
        rpc_one_t out = {0};

        HG_CHECK_OK(rpc_call(&ends->end, fork_inc_id, &in, &out));
        HG_CHECK_EQ_INT(out.value, 2);
        HG_CHECK_OK(
            HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &bulk));
        HG_CHECK_OK(HG_Bulk_handle_free(bulk));
        (void) rpc_counters();
        atomic_fetch_add(&ends->turns[0], 1);
    }
    return NULL;
}

static na_return_t fork_canceled(const struct na_cb_info *info)
{
    HG_CHECK_RET(info->ret, NA_CANCELED);
    return NA_SUCCESS;
}

/* Some of everything that takes a lock of the lower layers. */
static void fork_stir_once(struct fork_ends *ends, na_context_t *context)
{
    na_class_t *cls = ends->end.na_class;
    char name[NA_MAX_ADDR_LEN], buf[8];
    unsigned char bytes[256];
    na_mem_handle_t mem;
    na_op_id_t id;
    na_addr_t addr;
    na_class_t *own;

    HG_CHECK_OK(NA_Addr_dup(cls, ends->self, &addr));
    HG_CHECK_OK(NA_Addr_to_string(cls, name, sizeof(name), addr));
    HG_CHECK_OK(NA_Mem_handle_create(cls, buf, 8, NA_MEM_READWRITE, &mem));
    HG_CHECK_OK(NA_Mem_register(cls, mem));
    HG_CHECK_OK(NA_Mem_handle_serialize(cls, bytes, sizeof(bytes), mem));
    HG_CHECK_OK(NA_Mem_handle_free(cls, mem));
    HG_CHECK_OK(NA_Msg_recv_expected(
        cls, context, fork_canceled, NULL, buf, 8, addr, 77, &id));
    HG_CHECK_OK(NA_Cancel(cls, context, id));
    HG_CHECK_OK(NA_Trigger(context, 0, 1, NULL));
    HG_CHECK_OK(NA_Addr_free(cls, addr));
    HG_CHECK_OK(HG_Set_log_subsys(""));
    own = NA_Initialize("self://", NA_TRUE);
    HG_CHECK(own != NULL);
    HG_CHECK_OK(NA_Finalize(own));
    atomic_fetch_add(&ends->turns[1], 1);
}

static void *fork_stir(void *arg)
{
    struct fork_ends *ends = (struct fork_ends *) arg;
    na_context_t *context = NA_Context_create(ends->end.na_class);

    HG_CHECK(context != NULL);
    while (!atomic_load(&ends->stop))
        fork_stir_once(ends, context);
    HG_CHECK_OK(NA_Context_destroy(ends->end.na_class, context));
    return NULL;
}

static void fork_open(struct fork_ends *ends)
{
    na_class_t *cls;
    rpc_one_t value = {1};
    void *ptr = ends->memory;
    size_t size = sizeof(ends->memory);

    memset(ends, 0, sizeof(*ends));
    rpc_open(&ends->end);
    cls = ends->end.na_class;
    ends->context = NA_Context_create(cls);
    HG_CHECK(ends->context != NULL);
    HG_CHECK_OK(NA_Addr_self(cls, &ends->self));
    HG_CHECK_OK(NA_Mem_handle_create(
        cls, ends->memory, size, NA_MEM_READWRITE, &ends->mem));
    HG_CHECK_OK(NA_Mem_register(cls, ends->mem));
    ends->described_size = NA_Mem_handle_get_serialize_size(cls, ends->mem);
    HG_CHECK_OK(NA_Mem_handle_serialize(
        cls, ends->described, sizeof(ends->described), ends->mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        cls, &ends->remote, ends->described, ends->described_size));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, &ptr, &size, HG_BULK_READWRITE, &ends->bulk));
    HG_CHECK_OK(HG_Bulk_transfer(HG_BULK_PULL, ends->self, ends->bulk, 0,
        ends->bulk, 0, 8, &ends->transfer));
    HG_CHECK_OK(
        HG_Forward(ends->self, fork_keep_id, &value, &value, &ends->request));
    while (atomic_load(&fork_kept) == HG_HANDLE_NULL)
        (void) HG_Handler_process(100, HG_STATUS_IGNORE);
}

static void fork_close(struct fork_ends *ends)
{
    na_class_t *cls = ends->end.na_class;

    HG_CHECK_OK(HG_Handler_free(atomic_load(&fork_kept)));
    HG_CHECK_RET(rpc_wait(ends->request), HG_CANCELED);
    HG_CHECK_OK(HG_Request_free(ends->request));
    HG_CHECK_OK(HG_Bulk_wait(ends->transfer, RPC_TIMEOUT, HG_STATUS_IGNORE));
    HG_CHECK_OK(HG_Bulk_handle_free(ends->bulk));
    HG_CHECK_OK(NA_Mem_handle_free(cls, ends->remote));
    HG_CHECK_OK(NA_Mem_handle_free(cls, ends->mem));
    HG_CHECK_OK(NA_Addr_free(cls, ends->self));
    HG_CHECK_OK(NA_Context_destroy(cls, ends->context));
    rpc_close(&ends->end);
}

/* Wait for a child that exits with the number of its first wrong result. */
static void fork_join(pid_t child)
{
    int status = -1;

    HG_CHECK(waitpid(child, &status, 0) == child);
    HG_CHECK(WIFEXITED(status));
    HG_CHECK_EQ_INT(WEXITSTATUS(status), 0);
}

static pid_t fork_fork(void)
{
    pid_t child;

    (void) fflush(NULL);
    child = fork();
    HG_CHECK(child >= 0);
    if (child == 0)
        (void) alarm(FORK_SECONDS);
    return child;
}

static void fork_once(struct fork_ends *ends)
{
    pid_t child = fork_fork();

    if (child == 0)
        fork_be_child(ends);
    fork_join(child);
}

/* Both threads continue after each child. */
HG_TEST_SECONDS(child_is_refused_whatever_other_threads_do, 120)
{
    const unsigned rounds =
        hg_test_is_plain() && hg_test_crosses_processes() ? 200 : 30;
    static struct fork_ends ends;
    pthread_t threads[2];
    unsigned i;

    fork_open(&ends);
    HG_CHECK(pthread_create(&threads[0], NULL, fork_call, &ends) == 0);
    HG_CHECK(pthread_create(&threads[1], NULL, fork_stir, &ends) == 0);
    for (i = 0; i < rounds; i++) {
        unsigned calls = atomic_load(&ends.turns[0]);
        unsigned stirs = atomic_load(&ends.turns[1]);

        fork_once(&ends);
        while (atomic_load(&ends.turns[0]) == calls ||
            atomic_load(&ends.turns[1]) == stirs)
            (void) sched_yield();
    }
    atomic_store(&ends.stop, true);
    HG_CHECK(pthread_join(threads[0], NULL) == 0);
    HG_CHECK(pthread_join(threads[1], NULL) == 0);
    fork_close(&ends);
}

/* MPI does not work in a child. With the thread sanitizer no thread can start
 * in the child of a process that has threads, as libzmq and libfabric start. */
static bool fork_may_call(void)
{
#if defined(__SANITIZE_THREAD__)
    return hg_test_is_self() || strcmp(hg_test_transport(), "sm") == 0;
#else
    return !hg_test_is_mpi();
#endif
}

/* A layer of the child on the transport, as a worker of a pool of processes has
 * it; and of its own child. */
static void fork_be_worker(struct fork_ends *ends, const char *name)
{
    na_class_t *own;
    pid_t child;

    HG_Set_log_func(fork_log, NULL);
    fork_try_own(ends, name);
    own = NA_Initialize("self://", NA_TRUE);
    fork_want(own != NULL, true);
    fork_want(HG_Bulk_init(own), HG_SUCCESS);
    child = fork_fork();
    if (child == 0) {
        fork_want(HG_Bulk_finalize(), HG_FAULT);
        fork_try_own(NULL, NULL);
        hg_test_exit_child((int) fork_wrong);
    }
    fork_join(child);
    fork_want(HG_Bulk_finalize(), HG_SUCCESS);
    fork_want(NA_Finalize(own), NA_SUCCESS);
    hg_test_exit_child((int) fork_wrong);
}

HG_TEST_WHERE(child_calls_with_its_own_layer, fork_may_call)
{
    static struct fork_ends ends;
    char name[NA_MAX_ADDR_LEN];
    rpc_one_t value = {1};
    pid_t child;

    fork_open(&ends);
    HG_CHECK_OK(NA_Addr_to_string(
        ends.end.na_class, name, sizeof(name), ends.end.target));
    child = fork_fork();
    if (child == 0)
        fork_be_worker(&ends, hg_test_crosses_processes() ? name : NULL);
    fork_join(child);
    HG_CHECK_OK(rpc_call(&ends.end, fork_inc_id, &value, &value));
    HG_CHECK_EQ_INT(value.value, 2);
    fork_close(&ends);
}

/* The options are the parent's. */
HG_TEST(child_keeps_the_options_of_its_parent)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct rpc_end end;
    pid_t child;

    options.max_unanswered = 7;
    rpc_start(&end, &options, false);
    child = fork_fork();
    if (child == 0) {
        na_class_t *own = NA_Initialize("self://", NA_TRUE);
        struct hg_options got = HG_OPTIONS_INITIALIZER;

        fork_want(HG_Init(own), HG_SUCCESS);
        fork_want(HG_Get_options(&got), HG_SUCCESS);
        fork_want((intmax_t) got.max_unanswered, 7);
        hg_test_exit_child((int) fork_wrong);
    }
    fork_join(child);
    rpc_end(&end);
}

/* ---- While another thread starts a layer ---- */

static _Thread_local bool fork_stalls; /* the next allocation of this thread */
static _Atomic bool fork_is_stalled, fork_goes_on;

static void *fork_malloc(size_t size, void *arg)
{
    (void) arg;
    if (fork_stalls) {
        fork_stalls = false;
        atomic_store(&fork_is_stalled, true);
        while (!atomic_load(&fork_goes_on))
            (void) sched_yield();
    }
    return malloc(size);
}

static void *fork_realloc(void *ptr, size_t size, void *arg)
{
    (void) arg;
    return realloc(ptr, size);
}

static void fork_free(void *ptr, void *arg)
{
    (void) arg;
    free(ptr);
}

static void *fork_init(void *arg)
{
    fork_stalls = true;
    HG_CHECK_OK(HG_Init((na_class_t *) arg));
    return NULL;
}

/* The lock of another thread that is in HG_Init is nobody's in the child. */
HG_TEST(child_does_not_wait_for_a_thread_that_starts_a_layer)
{
    static const struct hg_allocator allocator = {
        sizeof(allocator), fork_malloc, fork_realloc, fork_free, NULL};
    struct hg_options got = HG_OPTIONS_INITIALIZER;
    na_class_t *na_class;
    pthread_t thread;
    pid_t child;

    HG_CHECK_OK(HG_Set_allocator(&allocator));
    na_class = NA_Initialize("self://", NA_TRUE);
    HG_CHECK(na_class != NULL);
    HG_CHECK(pthread_create(&thread, NULL, fork_init, na_class) == 0);
    while (!atomic_load(&fork_is_stalled))
        (void) sched_yield();
    child = fork_fork();
    if (child == 0) {
        fork_want(HG_Get_options(&got), HG_SUCCESS);
        if (hg_test_is_plain())
            fork_try_own(NULL, NULL);
        hg_test_exit_child((int) fork_wrong);
    }
    fork_join(child);
    atomic_store(&fork_goes_on, true);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(na_class));
    HG_CHECK_OK(HG_Set_allocator(NULL));
}

static hg_return_t fork_in_handler(hg_handle_t handle)
{
    pid_t child = fork_fork();

    if (child == 0) {
        fork_try_own(NULL, NULL);
        hg_test_exit_child((int) fork_wrong);
    }
    fork_join(child);
    HG_CHECK_OK(HG_Handler_start_output(handle, NULL));
    return HG_Handler_free(handle);
}

/* The child of a handler is not inside a handler. */
HG_TEST_WHERE(child_of_a_handler_serves_with_its_own_layer, fork_may_call)
{
    struct rpc_end end;
    na_addr_t self;
    hg_request_t request;

    rpc_start(&end, NULL, false);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &self));
    HG_CHECK_OK(HG_Forward(self,
        MERCURY_REGISTER("fork here", void, void, fork_in_handler), NULL, NULL,
        &request));
    HG_CHECK_OK(rpc_wait(request));
    HG_CHECK_OK(HG_Request_free(request));
    HG_CHECK_OK(NA_Addr_free(end.na_class, self));
    rpc_end(&end);
}

/* A child of a process whose layer was finalized may initialize one. */
HG_TEST(child_of_a_process_without_a_layer_may_initialize_one)
{
    struct rpc_end end;
    na_class_t *own;
    pid_t child;

    rpc_open(&end);
    rpc_close(&end);
    child = fork_fork();
    if (child == 0) {
        own = NA_Initialize("self://", NA_TRUE);
        fork_want(own != NULL, true);
        fork_want(HG_Init(own), HG_SUCCESS);
        fork_want(HG_Finalize(), HG_SUCCESS);
        fork_want(NA_Finalize(own), NA_SUCCESS);
        hg_test_exit_child((int) fork_wrong);
    }
    fork_join(child);
}

struct fork_opener {
    pthread_t thread;
    _Atomic bool stop;
    _Atomic unsigned turns;
};

/* Each time with another name: a child may hold the last one for a moment. */
static void *fork_open_and_close(void *arg)
{
    struct fork_opener *opener = (struct fork_opener *) arg;

    while (!atomic_load(&opener->stop)) {
        char *string = hg_test_listen_string();
        na_class_t *na_class = NA_Initialize(string, NA_TRUE);

        HG_CHECK(na_class != NULL);
        HG_CHECK_OK(NA_Finalize(na_class));
        free(string);
        atomic_fetch_add(&opener->turns, 1);
    }
    return NULL;
}

/* Fork, and open and close a class in the child. */
static void fork_child_opens(void)
{
    pid_t child = fork_fork();

    if (child == 0) {
        na_class_t *own;

        own = NA_Initialize(hg_test_listen_string(), NA_TRUE);
        fork_want(own != NULL, true);
        fork_want(NA_Finalize(own), NA_SUCCESS);
        hg_test_exit_child((int) fork_wrong);
    }
    fork_join(child);
}

/* MPI does not work in a child: a class of it is refused there. A class of
 * several transports names its sm part after its port, which the system may
 * give to another class before that part is closed. */
static bool fork_may_open(void)
{
    return !hg_test_is_mux() && !hg_test_is_mpi();
}

/* The threads of the parent may be anywhere during the fork. The classes of
 * inproc share a context of libzmq, which frees sockets late: only one thread
 * there. */
HG_TEST_WHERE_SECONDS(
    child_opens_a_class_while_others_open_and_close, fork_may_open, 120)
{
    const unsigned count = hg_test_crosses_processes() ? 2 : 1;
    struct fork_opener openers[2];
    unsigned i;

    if (!hg_test_is_plain())
        hg_test_skip("a child cannot allocate memory under a checker");
    for (i = 0; i < count; i++) {
        atomic_init(&openers[i].stop, false);
        atomic_init(&openers[i].turns, 0);
        HG_CHECK(pthread_create(&openers[i].thread, NULL, fork_open_and_close,
                     &openers[i]) == 0);
    }
    for (i = 0; i < 200; i++) {
        unsigned turns = atomic_load(&openers[i % count].turns);

        fork_child_opens();
        while (atomic_load(&openers[i % count].turns) == turns)
            (void) sched_yield();
    }
    for (i = 0; i < count; i++) {
        atomic_store(&openers[i].stop, true);
        HG_CHECK(pthread_join(openers[i].thread, NULL) == 0);
    }
}

/* ---- Descriptors ---- */

static bool fork_is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* Between two jobs Open MPI has descriptors of its own. */
static bool fork_owns_descriptors(void)
{
    return strcmp(hg_test_transport(), "mpi+dynamic") != 0;
}

HG_TEST_WHERE(executed_program_inherits_no_descriptor, fork_owns_descriptors)
{
    static struct fork_ends ends;
    bool before[FORK_FDS];
    unsigned made = 0;
    int fd;

    for (fd = 0; fd < FORK_FDS; fd++)
        before[fd] = fork_is_open(fd);
    fork_open(&ends);
    (void) NA_Poll_get_fd(ends.end.na_class, ends.context);
    for (fd = 0; fd < FORK_FDS; fd++) {
        if (before[fd] || !fork_is_open(fd))
            continue;
        made++;
        if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0)
            hg_test_fail(HG_TEST_HERE, "descriptor %d is inherited", fd);
    }
    HG_CHECK(made > 0);
    fork_close(&ends);
}
