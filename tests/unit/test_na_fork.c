/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork at the worst moment: another thread holds every lock of the library. In
 * the child they stay locked, so it must take none.
 */
#include "support/library.h"

#include "harness.h"
#include "support/forked.h"

#include <sys/syscall.h>
#include <sys/wait.h>

#define FORKED_SECONDS 50u /* a child that takes longer hangs */

struct forked_parent {
    na_class_t *na_class;
    na_context_t *context;
    struct hg_bulk *bulk;
    hg_request_t request;
    char memory[8];
    pthread_mutex_t *lock; /* for forked_hold_one */
    _Atomic int step;      /* 1: all are locked; 2: unlock */
};

/* Every mutex that the forking thread does not hold, outermost first; the lock
 * of the class comes after the first. */
static unsigned forked_locks(
    struct forked_parent *parent, pthread_mutex_t *locks[])
{
    struct na_class_core *core = na_class_core_of(parent->na_class);
    unsigned n = 0;

    locks[n++] = &hg_layer_mutex;
    locks[n++] = &core->list_lock;
    return n;
}

static void *forked_hold(void *arg)
{
    struct forked_parent *parent = (struct forked_parent *) arg;
    struct hg_monitor *lock = na_class_core_of(parent->na_class)->lock;
    pthread_mutex_t *locks[32];
    unsigned count = forked_locks(parent, locks);
    unsigned i;

    for (i = 0; i < count; i++) {
        hg_lock(locks[i]);
        if (i == 0)
            hg_enter(lock);
    }
    atomic_store(&parent->step, 1);
    while (atomic_load(&parent->step) == 1)
        (void) sched_yield();
    hg_leave(lock);
    while (i > 0)
        hg_unlock(locks[--i]);
    return NULL;
}

/* An object for each lock that its use takes. */
static void forked_be_child(struct forked_parent *parent)
{
    na_class_t *cls = parent->na_class;
    char name[NA_MAX_ADDR_LEN];
    na_mem_handle_t mem;
    na_class_t *own;

    (void) alarm(FORKED_SECONDS);
    HG_Set_log_func(NULL, NULL);
    (void) HG_Set_log_level("none");
    forked_want(
        NA_Addr_to_string(cls, name, sizeof(name), cls->self_addr) == NA_FAULT);
    forked_want(NA_Mem_handle_create(cls, parent->memory, 8, NA_MEM_READWRITE,
                    &mem) == NA_FAULT);
    forked_want(NA_Msg_recv_unexpected(cls, parent->context, NULL, NULL,
                    parent->memory, 8, NA_OP_ID_IGNORE) == NA_FAULT);
    forked_want(NA_Cancel(cls, parent->context, (na_op_id_t) (uintptr_t) 1) ==
        NA_FAULT);
    forked_want(NA_Poll_try_wait(cls, parent->context) == NA_FALSE);
    forked_want(NA_Progress(cls, parent->context, 100) == NA_FAULT);
    forked_want(NA_Trigger(parent->context, 100, 1, NULL) == NA_FAULT);
    forked_want(NA_Context_create(cls) == NULL);
    forked_want(NA_Context_destroy(cls, parent->context) == NA_FAULT);
    forked_want(NA_Finalize(cls) == NA_FAULT);
    forked_want(HG_Register("forked", NULL, NULL, NULL) == 0);
    forked_want(HG_Wait(parent->request, 100, NULL) == HG_FAULT);
    forked_want(HG_Request_free(parent->request) == HG_FAULT);
    forked_want(HG_Bulk_wait((hg_bulk_request_t) 1, 100, NULL) == HG_FAULT);
    forked_want(HG_Bulk_handle_free(parent->bulk) == HG_FAULT);
    forked_want(HG_Handler_process(100, NULL) == HG_FAULT);
    forked_want(HG_Init(cls) == HG_FAULT);
    forked_want(HG_Finalize() == HG_FAULT);
    forked_want(HG_Bulk_finalize() == HG_FAULT);
    forked_want(NA_Register_plugin(na_self_table()) == NA_SUCCESS);
    own = NA_Initialize("self://", NA_TRUE);
    forked_want(own != NULL);
    forked_want(HG_Init(own) == HG_SUCCESS);
    forked_want(HG_Bulk_handle_free(parent->bulk) == HG_FAULT);
    forked_want(HG_Finalize() == HG_SUCCESS);
    forked_want(NA_Finalize(own) == NA_SUCCESS);
    /* Bypasses the thread sanitizer, which takes the parent's thread for a
     * leak. */
    (void) syscall(SYS_exit_group, (int) forked_wrong);
    _exit(127);
}

/* The child's own lines are ignored. */
static void forked_run(struct forked_parent *parent, void *(*hold)(void *) )
{
    pthread_t thread;
    int status = -1;
    pid_t child;

    atomic_store(&parent->step, 0);
    HG_CHECK(pthread_create(&thread, NULL, hold, parent) == 0);
    while (atomic_load(&parent->step) == 0)
        (void) sched_yield();
    child = fork();
    HG_CHECK(child >= 0);
    if (child == 0)
        forked_be_child(parent);
    HG_CHECK(waitpid(child, &status, 0) == child);
    atomic_store(&parent->step, 2);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_EQ_INT(status, 0);
}

static void forked_open(struct forked_parent *parent)
{
    size_t size = 8;
    void *ptr = parent->memory;

    parent->na_class = NA_Initialize("self://", NA_TRUE);
    HG_CHECK(parent->na_class != NULL);
    HG_CHECK_OK(HG_Init(parent->na_class));
    parent->context = NA_Context_create(parent->na_class);
    HG_CHECK(parent->context != NULL);
    HG_CHECK_OK(HG_Bulk_handle_create(
        1, &ptr, &size, HG_BULK_READWRITE, &parent->bulk));
}

static void forked_close(struct forked_parent *parent)
{
    HG_CHECK_OK(HG_Bulk_handle_free(parent->bulk));
    HG_CHECK_OK(NA_Context_destroy(parent->na_class, parent->context));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(parent->na_class));
}

HG_TEST(na_fork_child_takes_no_lock_of_the_parent)
{
    static struct forked_parent parent;

    forked_open(&parent);
    forked_run(&parent, forked_hold);
    forked_close(&parent);
}

/* ---- The callback model ---- */

struct forked_callbacks {
    struct forked_objects objects;
    hg_handle_t other; /* the origin's handle for `target` */
    _Atomic int step;  /* as in struct forked_parent */
};

static _Atomic(hg_handle_t) forked_kept;

static hg_return_t forked_keep(hg_handle_t handle)
{
    atomic_store(&forked_kept, handle);
    return HG_SUCCESS;
}

static hg_return_t forked_answer(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

/* Every mutex of the class and the layers above, as in forked_locks. */
static unsigned forked_callback_locks(
    struct forked_callbacks *parent, pthread_mutex_t *locks[])
{
    struct hg_class *hg_class = parent->objects.hg_class;
    struct na_class_core *core = na_class_core_of(hg_class->na_class);
    unsigned n = 0;

    locks[n++] = &hg_class_lock;
    locks[n++] = &core->list_lock;
    return n;
}

static void *forked_hold_callbacks(void *arg)
{
    struct forked_callbacks *parent = (struct forked_callbacks *) arg;
    struct hg_monitor *lock = parent->objects.hg_class->lock;
    pthread_mutex_t *locks[32];
    unsigned count = forked_callback_locks(parent, locks);
    unsigned i;

    for (i = 0; i < count; i++) {
        hg_lock(locks[i]);
        if (i == 0)
            hg_enter(lock);
    }
    atomic_store(&parent->step, 1);
    while (atomic_load(&parent->step) == 1)
        (void) sched_yield();
    hg_leave(lock);
    while (i > 0)
        hg_unlock(locks[--i]);
    return NULL;
}

static void forked_turn(struct forked_callbacks *parent)
{
    (void) HG_Progress(parent->objects.context, 1);
    (void) HG_Trigger(parent->objects.context, 0, 100, NULL);
}

static void forked_open_calls(struct forked_callbacks *parent)
{
    struct forked_objects *objects = &parent->objects;
    hg_id_t keep = HG_Register_name(
        objects->hg_class, "forked keep", NULL, NULL, forked_keep);

    objects->id = HG_Register_name(
        objects->hg_class, "forked answer", NULL, NULL, forked_answer);
    HG_CHECK(keep != 0 && objects->id != 0);
    HG_CHECK_OK(HG_Create(
        objects->context, objects->addr, objects->id, &objects->idle));
    HG_CHECK_OK(HG_Create(
        objects->context, objects->addr, objects->id, &objects->done));
    HG_CHECK_OK(
        HG_Create(objects->context, objects->addr, keep, &parent->other));
    HG_CHECK_OK(HG_Forward_wait(objects->done, NULL));
    HG_CHECK_OK(HG_Forward2(parent->other, NULL, NULL, NULL));
    while (atomic_load(&forked_kept) == NULL)
        forked_turn(parent);
    objects->target = atomic_load(&forked_kept);
}

static void forked_open_callbacks(struct forked_callbacks *parent)
{
    struct forked_objects *objects = &parent->objects;
    hg_size_t size = 64;

    objects->hg_class = HG_Init2("self://", HG_TRUE);
    HG_CHECK(objects->hg_class != NULL);
    objects->context = HG_Context_create(objects->hg_class);
    HG_CHECK(objects->context != NULL);
    HG_CHECK_OK(HG_Addr_self(objects->hg_class, &objects->addr));
    HG_CHECK_OK(HG_Bulk_create(
        objects->hg_class, 1, NULL, &size, HG_BULK_READWRITE, &objects->bulk));
    HG_CHECK_OK(
        HG_Bulk_pipeline_create(objects->hg_class, 2, 64, &objects->pipeline));
    objects->stream = tmpfile();
    HG_CHECK(objects->stream != NULL);
    forked_open_calls(parent);
    HG_CHECK_OK(HG_Bulk_transfer2(objects->context, NULL, NULL, HG_BULK_PULL,
        objects->addr, objects->bulk, 0, objects->bulk, 0, 8, &objects->op_id));
}

static void forked_close_callbacks(struct forked_callbacks *parent)
{
    struct forked_objects *objects = &parent->objects;

    HG_CHECK_OK(HG_Destroy(objects->idle));
    HG_CHECK_OK(HG_Destroy(objects->done));
    HG_CHECK_OK(HG_Destroy(objects->target));
    HG_CHECK_OK(HG_Destroy(parent->other));
    HG_CHECK_OK(HG_Bulk_free(objects->bulk));
    HG_CHECK_OK(HG_Bulk_pipeline_free(objects->pipeline));
    HG_CHECK_OK(HG_Context_destroy(objects->context));
    HG_CHECK_OK(HG_Addr_free(objects->hg_class, objects->addr));
    HG_CHECK_OK(HG_Finalize2(objects->hg_class));
    fclose(objects->stream);
}

static void forked_be_child_of_callbacks(struct forked_callbacks *parent)
{
    (void) alarm(FORKED_SECONDS);
    HG_Set_log_func2(forked_log);
    forked_try(&parent->objects);
    forked_try_own();
    (void) syscall(SYS_exit_group, (int) forked_wrong);
    _exit(127);
}

static void forked_run_callbacks(
    struct forked_callbacks *parent, void *(*hold)(void *) )
{
    pthread_t thread;
    int status = -1;
    pid_t child;

    atomic_store(&parent->step, 0);
    HG_CHECK(pthread_create(&thread, NULL, hold, parent) == 0);
    while (atomic_load(&parent->step) == 0)
        (void) sched_yield();
    child = fork();
    HG_CHECK(child >= 0);
    if (child == 0)
        forked_be_child_of_callbacks(parent);
    HG_CHECK(waitpid(child, &status, 0) == child);
    atomic_store(&parent->step, 2);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_EQ_INT(status, 0);
}

HG_TEST(na_fork_child_takes_no_lock_of_the_callback_model)
{
    static struct forked_callbacks parent;

    forked_open_callbacks(&parent);
    forked_run_callbacks(&parent, forked_hold_callbacks);
    forked_close_callbacks(&parent);
}

static void *forked_hold_tickets(void *arg)
{
    struct forked_callbacks *parent = (struct forked_callbacks *) arg;
    unsigned i;

    hg_lock(&hg_bulk_call_lock);
    atomic_store(&parent->step, 1);
    for (i = 0; i < 1000; i++)
        (void) sched_yield();
    hg_unlock(&hg_bulk_call_lock);
    return NULL;
}

/* HG_Bulk_cancel looks up a ticket. */
HG_TEST(na_fork_waits_for_the_lock_of_transfers)
{
    static struct forked_callbacks parent;

    forked_open_callbacks(&parent);
    forked_run_callbacks(&parent, forked_hold_tickets);
    forked_close_callbacks(&parent);
}

/* A lock that a child needs for its own objects is free in the child: fork
 * waits for it. */
static void *forked_hold_one(void *arg)
{
    struct forked_parent *parent = (struct forked_parent *) arg;
    unsigned i;

    hg_lock(parent->lock);
    atomic_store(&parent->step, 1);
    for (i = 0; i < 1000; i++) /* a long time for such a lock */
        (void) sched_yield();
    hg_unlock(parent->lock);
    return NULL;
}

HG_TEST(na_fork_waits_for_the_lock_of_the_log)
{
    static struct forked_parent parent;

    forked_open(&parent);
    parent.lock = &hg_log_mutex;
    forked_run(&parent, forked_hold_one);
    forked_close(&parent);
}

#if HG_ENABLE_SM

/* ---- The order of the locks ---- */

static _Atomic int forked_locked;
static _Atomic int forked_begun;

static void forked_note_fork(void)
{
    atomic_store(&forked_begun, 1);
}

/* Log while a lock of sm is held, as a broken connection does. */
static void *forked_log_under_lock(void *arg)
{
    struct na_sm_class *self = (struct na_sm_class *) arg;
    unsigned i;

    na_sm_enter(self);
    atomic_store(&forked_locked, 1);
    while (atomic_load(&forked_begun) == 0)
        (void) sched_yield();
    for (i = 0; i < 1000; i++) { /* until the fork waits for the lock */
        hg_log_error("rpc", "filtered");
        (void) usleep(100);
    }
    na_sm_leave(self);
    return NULL;
}

static void forked_run_early(void)
{
    na_class_t *na_class;
    pthread_t thread;
    int status = -1;
    pid_t child;

    (void) alarm(FORKED_SECONDS);
    na_class = NA_Initialize("sm://", NA_TRUE);
    hg_log_error("rpc", "filtered");
    if (na_class == NULL || pthread_atfork(forked_note_fork, NULL, NULL) != 0 ||
        pthread_create(
            &thread, NULL, forked_log_under_lock, na_sm_of(na_class)) != 0)
        _exit(1);
    while (atomic_load(&forked_locked) == 0)
        (void) sched_yield();
    child = fork();
    if (child == 0)
        (void) syscall(SYS_exit_group, 0);
    if (child < 0 || waitpid(child, &status, 0) != child ||
        pthread_join(thread, NULL) != 0 || NA_Finalize(na_class) != NA_SUCCESS)
        _exit(2);
    (void) syscall(SYS_exit_group, status);
}

/* ---- Forks beside a hostile peer ---- */

enum { FORKED_STORM = 200, FORKED_STORM_MS = 2000 };

static _Atomic int forked_over;

/* A hostile process: connect, write an invalid record, lose the connection, and
 * connect again. The parent ends it. */
static void forked_break_rings(const char *name)
{
    static const struct na_sm_record bad = {
        0, NA_SM_MESSAGE, NA_MSG_PLANE_MAX, 0, 0};
    na_class_t *na_class = NA_Initialize("sm://", NA_FALSE);
    na_context_t *context = NA_Context_create(na_class);
    na_addr_t peer = NA_ADDR_NULL;
    unsigned char *at;

    while (NA_Addr_lookup_wait(na_class, name, 5000, &peer) == NA_SUCCESS) {
        struct na_sm_addr *addr = na_sm_addr_of(peer);

        if (na_sm_out_reserve(&addr->out, 0, &at) != NA_SUCCESS)
            break;
        na_sm_out_commit(&addr->out, &bad);
        na_sm_flow_notify(addr);
        while (addr->state == NA_SM_READY)
            (void) NA_Progress(na_class, context, 1);
        (void) NA_Addr_free(na_class, peer);
    }
    (void) syscall(SYS_exit_group, 3);
}

static pid_t forked_begin_hostile(const char *name, int *go_p)
{
    char byte;
    int ends[2];
    pid_t pid;

    if (pipe(ends) != 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        (void) close(ends[1]);
        if (read(ends[0], &byte, 1) == 1)
            forked_break_rings(name);
        (void) syscall(SYS_exit_group, 4);
    }
    (void) close(ends[0]);
    *go_p = ends[1];
    return pid;
}

static void *forked_progress(void *arg)
{
    na_class_t *na_class = (na_class_t *) arg;
    na_context_t *context = NA_Context_create(na_class);

    while (context != NULL && atomic_load(&forked_over) == 0)
        (void) NA_Progress(na_class, context, 1);
    return context != NULL ? (void *) context : NULL;
}

/* Fork again and again while connections break; each child logs. Returns the
 * status of the first that fails, or 0. */
static int forked_fork_often(na_class_t *na_class)
{
    uint64_t end = hg_clock_after_ms(FORKED_STORM_MS);
    unsigned forks = 0;
    int status = 0;

    while (status == 0 &&
        (forks < FORKED_STORM ||
            NA_Get_counter(na_class, "sm_broken") < FORKED_STORM) &&
        (hg_clock_now() < end || forks == 0 ||
            NA_Get_counter(na_class, "sm_broken") == 0)) {
        pid_t child = fork();

        if (child == 0) {
            (void) alarm(FORKED_SECONDS);
            hg_log_error("rpc", "filtered");
            (void) syscall(SYS_exit_group, 0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            return -1;
        forks++;
    }
    return status;
}

static void forked_run_storm(void)
{
    na_class_t *na_class;
    void *context = NULL;
    pthread_t thread;
    pid_t hostile;
    char name[64];
    int status, go = -1;

    (void) alarm(FORKED_SECONDS);
    (void) snprintf(name, sizeof(name), "sm://hg-storm-%ld", (long) getpid());
    hostile = forked_begin_hostile(name, &go);
    na_class = NA_Initialize(name, NA_TRUE);
    if (hostile < 0 || na_class == NULL ||
        pthread_create(&thread, NULL, forked_progress, na_class) != 0 ||
        write(go, "", 1) != 1)
        _exit(1);
    status = forked_fork_often(na_class);
    (void) kill(hostile, SIGKILL);
    (void) waitpid(hostile, NULL, 0);
    atomic_store(&forked_over, 1);
    if (pthread_join(thread, &context) != 0 || context == NULL ||
        NA_Context_destroy(na_class, (na_context_t *) context) != NA_SUCCESS ||
        NA_Finalize(na_class) != NA_SUCCESS)
        _exit(2);
    (void) syscall(SYS_exit_group, status == 0 ? 0 : 5);
}

/* The harness's main sets a log function, which initializes the log. Here a
 * class of sm is opened first. */
__attribute__((constructor)) static void forked_before_main(void)
{
    const char *how = getenv("HG_TEST_FORK_EARLY");

    if (how != NULL && strcmp(how, "storm") == 0)
        forked_run_storm();
    else if (how != NULL)
        forked_run_early();
}

HG_TEST_ROLE(forked_early)
{
    (void) argc;
    (void) argv;
    hg_test_fail(HG_TEST_HERE, "main was reached");
}

HG_TEST(na_fork_takes_the_lock_of_the_log_last)
{
    struct hg_test_peer *peer;

    HG_CHECK(setenv("HG_TEST_FORK_EARLY", "1", 1) == 0);
    HG_CHECK(setenv("HG_LOG_SUBSYS", "~rpc", 1) == 0);
    peer = hg_test_spawn("forked_early", (char *) NULL);
    HG_CHECK_EQ_INT(hg_test_wait(peer), 0);
}

/* A hang of parent or child ends with SIGALRM. */
HG_TEST(na_fork_beside_a_peer_that_corrupts_its_ring_does_not_hang)
{
    struct hg_test_peer *peer;

    HG_CHECK(setenv("HG_TEST_FORK_EARLY", "storm", 1) == 0);
    HG_CHECK(setenv("HG_LOG_SUBSYS", "~rpc", 1) == 0);
    HG_CHECK(setenv("HG_LOG_LEVEL", "warning", 1) == 0);
    peer = hg_test_spawn("forked_early", (char *) NULL);
    HG_CHECK_EQ_INT(hg_test_wait(peer), 0);
}

#endif
