/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork, while other threads use classes of the callback model. The parent is
 * not affected, and each attempt of the child to use its parent's objects is
 * refused at once, without a lock.
 */
#include "cb.h"
#include "support/forked.h"

#include <sys/wait.h>
#include <unistd.h>

#define FORK_SECONDS 50u /* a child that takes longer hangs */

static hg_id_t fork_inc_id, fork_keep_id;
static _Atomic(hg_handle_t) fork_kept;

static hg_return_t fork_keep(hg_handle_t handle)
{
    atomic_store(&fork_kept, handle);
    return HG_SUCCESS;
}

static void cb_register(hg_class_t *hg_class)
{
    fork_inc_id =
        MERCURY_REGISTER(hg_class, "fork inc", cb_one_t, cb_one_t, cb_inc);
    fork_keep_id =
        MERCURY_REGISTER(hg_class, "fork keep", cb_one_t, cb_one_t, fork_keep);
}

struct fork_ends {
    struct cb_end end; /* its context 1 is triggered only here */
    hg_addr_t self;
    struct forked_objects objects;
    struct cb_call kept;
    hg_bulk_t bulk;
    _Atomic bool stop;
    _Atomic unsigned turns[2]; /* of the threads */
};

/* ---- The parent ---- */

static hg_return_t fork_moved(const struct hg_cb_info *info)
{
    _Atomic unsigned *moved = (_Atomic unsigned *) info->arg;

    atomic_fetch_add(moved, 1);
    return HG_SUCCESS;
}

static void fork_move(struct fork_ends *ends)
{
    _Atomic unsigned moved = 0;
    hg_op_id_t op_id;

    HG_CHECK_OK(
        HG_Bulk_transfer(ends->end.context, fork_moved, &moved, HG_BULK_PULL,
            ends->self, ends->bulk, 0, ends->objects.bulk, 0, 8, &op_id));
    HG_CHECK_OK(HG_Bulk_cancel(op_id));
    cb_turn_until(ends->end.context, &moved);
}

/* HG_Dump in the other thread holds references meanwhile. */
static void fork_call_once(struct fork_ends *ends)
{
    hg_handle_t handle = HG_HANDLE_NULL;
    struct cb_call call;
    cb_one_t one = {1};

    HG_CHECK_OK(
        HG_Create(ends->end.context, ends->end.target, fork_inc_id, &handle));
    HG_CHECK_OK(cb_forward(&call, handle, &one));
    HG_CHECK_OK(cb_wait(&ends->end, &call));
    HG_CHECK_OK(HG_Get_output(handle, &one));
    HG_CHECK_EQ_INT(one.value, 2);
    HG_CHECK_OK(HG_Free_output(handle, &one));
    HG_CHECK_OK(HG_Destroy(handle));
}

/* Calls, and what belongs to them. */
static void *fork_call(void *arg)
{
    struct fork_ends *ends = (struct fork_ends *) arg;
    struct hg_diag_counters counters;

    while (!atomic_load(&ends->stop)) {
        fork_call_once(ends);
        fork_move(ends);
        HG_CHECK_OK(HG_Class_get_counters(ends->end.hg_class, &counters));
        atomic_fetch_add(&ends->turns[0], 1);
    }
    return NULL;
}

/* Some of everything else that takes a lock. */
static void fork_stir_once(struct fork_ends *ends, FILE *stream)
{
    hg_class_t *cls = ends->end.hg_class;
    char name[NA_MAX_ADDR_LEN];
    hg_size_t size = sizeof(name);
    hg_context_t *context;
    hg_return_t ret;
    hg_addr_t addr;
    hg_class_t *own;
    uint8_t flag;

    ret = HG_Dump(NULL, stream);
    HG_CHECK(ret == HG_SUCCESS || ret == HG_AGAIN);
    rewind(stream);
    HG_Diag_dump_counters();
    HG_CHECK_OK(HG_Registered(cls, fork_inc_id, &flag));
    HG_CHECK_OK(HG_Addr_dup(cls, ends->self, &addr));
    HG_CHECK_OK(HG_Addr_to_string(cls, name, &size, addr));
    HG_CHECK_OK(HG_Addr_free(cls, addr));
    own = HG_Init("self://", HG_TRUE);
    HG_CHECK(own != NULL);
    context = HG_Context_create(own);
    HG_CHECK(context != NULL);
    HG_CHECK_OK(HG_Context_destroy(context));
    HG_CHECK_OK(HG_Finalize(own));
    atomic_fetch_add(&ends->turns[1], 1);
}

static void *fork_stir(void *arg)
{
    struct fork_ends *ends = (struct fork_ends *) arg;
    FILE *stream = tmpfile();

    HG_CHECK(stream != NULL);
    while (!atomic_load(&ends->stop))
        fork_stir_once(ends, stream);
    fclose(stream);
    return NULL;
}

static _Atomic unsigned fork_never_moved;

/* A transfer whose callback has not run yet. */
static void fork_open_transfer(struct fork_ends *ends)
{
    HG_CHECK_OK(HG_Bulk_transfer(ends->end.contexts[1], fork_moved,
        &fork_never_moved, HG_BULK_PULL, ends->self, ends->bulk, 0,
        ends->objects.bulk, 0, 8, &ends->objects.op_id));
}

static void fork_open_calls(struct fork_ends *ends)
{
    struct forked_objects *objects = &ends->objects;
    cb_one_t one = {1};
    hg_handle_t keeping;

    objects->id = fork_inc_id;
    objects->idle = cb_new_handle(&ends->end, fork_inc_id);
    objects->done = cb_new_handle(&ends->end, fork_inc_id);
    HG_CHECK_OK(cb_do(&ends->end, objects->done, &one, &one));
    HG_CHECK_OK(
        HG_Create(ends->end.context, ends->self, fork_keep_id, &keeping));
    HG_CHECK_OK(cb_forward(&ends->kept, keeping, &one));
    while (atomic_load(&fork_kept) == HG_HANDLE_NULL)
        (void) cb_turn(ends->end.context, 1);
    objects->target = atomic_load(&fork_kept);
}

static void fork_open(struct fork_ends *ends)
{
    struct forked_objects *objects = &ends->objects;
    hg_size_t size = 4096;

    memset(ends, 0, sizeof(*ends));
    cb_open_with(&ends->end, 2);
    objects->hg_class = ends->end.hg_class;
    objects->context = ends->end.context;
    HG_CHECK_OK(HG_Addr_self(ends->end.hg_class, &ends->self));
    objects->addr = ends->self;
    HG_CHECK_OK(HG_Bulk_create(
        objects->hg_class, 1, NULL, &size, HG_BULK_READWRITE, &objects->bulk));
    HG_CHECK_OK(
        HG_Bulk_pipeline_create(objects->hg_class, 2, 64, &objects->pipeline));
    HG_CHECK_OK(HG_Bulk_create(
        objects->hg_class, 1, NULL, &size, HG_BULK_READWRITE, &ends->bulk));
    objects->stream = tmpfile();
    HG_CHECK(objects->stream != NULL);
    fork_open_calls(ends);
    fork_open_transfer(ends);
}

static void fork_close(struct fork_ends *ends)
{
    struct forked_objects *objects = &ends->objects;
    cb_one_t one = {1};

    cb_turn_until(ends->end.contexts[1], &fork_never_moved);
    HG_CHECK_OK(HG_Respond(objects->target, NULL, NULL, &one));
    HG_CHECK_OK(HG_Destroy(objects->target));
    HG_CHECK_OK(cb_wait(&ends->end, &ends->kept));
    HG_CHECK_OK(HG_Destroy(ends->kept.handle));
    HG_CHECK_OK(HG_Free_output(objects->done, &one));
    HG_CHECK_OK(HG_Destroy(objects->done));
    HG_CHECK_OK(HG_Destroy(objects->idle));
    HG_CHECK_OK(HG_Bulk_free(objects->bulk));
    HG_CHECK_OK(HG_Bulk_pipeline_free(objects->pipeline));
    HG_CHECK_OK(HG_Bulk_free(ends->bulk));
    HG_CHECK_OK(HG_Addr_free(ends->end.hg_class, ends->self));
    fclose(objects->stream);
    cb_close(&ends->end);
}

/* Exit the child with the number of the first wrong result, or 0. With a
 * sanitizer the child allocates no memory: another thread may have held the
 * lock of the sanitizer's allocator. */
static void fork_be_child(struct fork_ends *ends)
{
    (void) alarm(FORK_SECONDS);
    HG_Set_log_func2(forked_log);
    forked_try(&ends->objects);
    if (!hg_test_is_plain())
        hg_test_exit_child((int) forked_wrong);
    forked_try_own();
    exit((int) forked_wrong);
}

static void fork_once(struct fork_ends *ends)
{
    int status = -1;
    pid_t child;

    (void) fflush(NULL);
    child = fork();
    HG_CHECK(child >= 0);
    if (child == 0)
        fork_be_child(ends);
    HG_CHECK(waitpid(child, &status, 0) == child);
    HG_CHECK(WIFEXITED(status));
    HG_CHECK_EQ_INT(WEXITSTATUS(status), 0);
}

/* Both threads continue after each child. */
HG_TEST_SECONDS(cb_child_is_refused_whatever_other_threads_do, 120)
{
    const unsigned rounds =
        hg_test_is_plain() && hg_test_crosses_processes() ? 100 : 30;
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
