/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The room room, in the callback model, which has no options for it: the tests
 * set the limits of the class. Over sm where it is, so that threads wait for
 * the wheel of a context that another one turns.
 */
#include "support/house.h"

#include "harness.h"

#define ROOM_PATIENCE \
    hg_test_patience(20000u) /* ms; less than the watchdog's */
#define ROOM_PUSHERS 3u
#define ROOM_CALLS 200u /* of each */

struct room_end {
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t target;
    hg_id_t id;
    _Atomic bool stop;
    _Atomic unsigned ended;
    _Atomic unsigned refused;
};

static hg_return_t room_answer(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

static void room_open(struct room_end *end, const char *string)
{
    memset(end, 0, sizeof(*end));
    end->hg_class = HG_Init2(string, HG_TRUE);
    HG_CHECK(end->hg_class != NULL);
    end->context = HG_Context_create(end->hg_class);
    HG_CHECK(end->context != NULL);
    end->id = HG_Register_name(end->hg_class, "room", NULL, NULL, room_answer);
    HG_CHECK(end->id != 0);
}

static void room_close(struct room_end *end)
{
    HG_CHECK_OK(HG_Addr_free(end->hg_class, end->target));
    HG_CHECK_OK(HG_Context_destroy(end->context));
    HG_CHECK_OK(HG_Finalize2(end->hg_class));
}

/* Turn a wheel for others, in waits that nothing but a poke ends early. */
static void *room_drive(void *arg)
{
    struct room_end *end = (struct room_end *) arg;

    while (!atomic_load(&end->stop)) {
        hg_return_t ret = HG_Progress(end->context, ROOM_PATIENCE);
        unsigned count = 1;

        HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
        while (count > 0)
            (void) HG_Trigger(end->context, 0, 100, &count);
    }
    return NULL;
}

static hg_return_t room_ended(const struct hg_cb_info *info)
{
    struct room_end *end = (struct room_end *) info->arg;

    HG_CHECK_OK(info->ret);
    atomic_fetch_add(&end->ended, 1);
    return HG_Destroy(info->info.forward.handle);
}

static hg_return_t room_forward(struct room_end *end)
{
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_return_t ret;

    HG_CHECK_OK(HG_Create(end->context, end->target, end->id, &handle));
    ret = HG_Forward2(handle, room_ended, end, NULL);
    if (ret != HG_SUCCESS)
        HG_CHECK_OK(HG_Destroy(handle));
    return ret;
}

static void *room_push(void *arg)
{
    struct room_end *end = (struct room_end *) arg;
    unsigned done = 0;

    while (done < ROOM_CALLS) {
        hg_return_t ret = room_forward(end);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_AGAIN);
        done += ret == HG_SUCCESS;
        if (ret != HG_AGAIN)
            continue;
        atomic_fetch_add(&end->refused, 1);
        HG_CHECK_OK(HG_Wait_room(end->target, ROOM_PATIENCE));
    }
    return NULL;
}

/* Stop who drives an end: it looks when something has ended. */
static void room_stop(struct room_end *end, pthread_t thread)
{
    atomic_store(&end->stop, true);
    HG_CHECK_OK(room_forward(end));
    HG_CHECK(pthread_join(thread, NULL) == 0);
}

static void room_push_all(struct room_end *end)
{
    pthread_t threads[ROOM_PUSHERS];
    unsigned i;

    for (i = 0; i < ROOM_PUSHERS; i++)
        HG_CHECK(pthread_create(&threads[i], NULL, room_push, end) == 0);
    for (i = 0; i < ROOM_PUSHERS; i++)
        HG_CHECK(pthread_join(threads[i], NULL) == 0);
    while (atomic_load(&end->ended) < ROOM_PUSHERS * ROOM_CALLS)
        (void) sched_yield();
    HG_CHECK(atomic_load(&end->refused) > 0);
    HG_CHECK_EQ_INT(end->context->in_flight, 0);
    HG_CHECK_EQ_U64(end->context->asked, 0);
    HG_CHECK_EQ_U64(end->context->asked_self, 0);
    HG_CHECK_EQ_U64(atomic_load(&na_addr_core_of(end->target)->asked), 0);
}

/* The target is oneself: who drives executes the calls, too. */
HG_TEST(room_is_told_to_threads_that_do_not_progress)
{
    struct room_end end;
    pthread_t driver;

    room_open(&end, "self://");
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    end.hg_class->options.max_in_flight = 1;
    HG_CHECK(pthread_create(&driver, NULL, room_drive, &end) == 0);
    room_push_all(&end);
    room_stop(&end, driver);
    room_close(&end);
}

#if HG_ENABLE_SM

/* An end, and a server that another thread drives, in one process. */
struct room_pair {
    struct room_end end;
    struct room_end server;
    pthread_t driver;
};

static void room_open_pair(struct room_pair *pair)
{
    char name[NA_MAX_ADDR_LEN];
    hg_size_t size = sizeof(name);

    room_open(&pair->server, "sm://");
    HG_CHECK_OK(HG_Addr_self(pair->server.hg_class, &pair->server.target));
    HG_CHECK_OK(HG_Addr_to_string(
        pair->server.hg_class, name, &size, pair->server.target));
    HG_CHECK(
        pthread_create(&pair->driver, NULL, room_drive, &pair->server) == 0);
    room_open(&pair->end, "sm://");
    HG_CHECK_OK(HG_Addr_lookup2(pair->end.hg_class, name, &pair->end.target));
}

static void room_close_pair(struct room_pair *pair)
{
    room_close(&pair->end);
    room_stop(&pair->server, pair->driver);
    room_close(&pair->server);
}

/* Waiters that have the wheel, or find it taken. */
HG_TEST(room_is_found_with_another_thread_at_the_wheel)
{
    struct room_pair pair;
    pthread_t driver;

    room_open_pair(&pair);
    pair.end.hg_class->options.max_in_flight = 1;
    HG_CHECK(pthread_create(&driver, NULL, room_drive, &pair.end) == 0);
    room_push_all(&pair.end);
    room_stop(&pair.end, driver);
    room_close_pair(&pair);
}

/* Nobody else turns it, nor runs what has ended. */
HG_TEST(room_is_found_by_who_turns_the_wheel)
{
    struct room_pair pair;
    unsigned count = 1;

    room_open_pair(&pair);
    pair.end.hg_class->options.max_in_flight = 4;
    HG_CHECK(room_push(&pair.end) == NULL);
    HG_CHECK(atomic_load(&pair.end.refused) > 0);
    HG_CHECK_EQ_INT(atomic_load(&pair.end.ended), 0);
    while (atomic_load(&pair.end.ended) < ROOM_CALLS) {
        (void) HG_Progress(pair.end.context, 1);
        (void) HG_Trigger(pair.end.context, 0, 100, &count);
    }
    room_close_pair(&pair);
}

/* A peer alone has the limit; what one has is not there for all others. */
HG_TEST(room_is_shared_among_peers)
{
    struct room_pair pair;
    hg_addr_t other = HG_ADDR_NULL;
    hg_addr_t target;
    unsigned first = 0;
    unsigned second = 0;
    unsigned count = 1;

    room_open_pair(&pair);
    HG_CHECK_OK(HG_Addr_self(pair.end.hg_class, &other));
    pair.end.hg_class->options.max_in_flight_bytes = (size_t) 16 * HG_ROOM_CALL;
    target = pair.end.target;
    atomic_fetch_add(/* as much as a dozen calls, which none of them ends */
        &na_addr_core_of(target)->asked, UINT64_C(12) * HG_ROOM_CALL);
    pair.end.context->asked += UINT64_C(12) * HG_ROOM_CALL;
    while (room_forward(&pair.end) == HG_SUCCESS)
        first++;
    HG_CHECK_EQ_INT(first, 4);
    pair.end.target = other;
    while (room_forward(&pair.end) == HG_SUCCESS)
        second++;
    HG_CHECK_EQ_INT(second, 8);
    pair.end.target = target;
    while (atomic_load(&pair.end.ended) < first + second) {
        (void) HG_Progress(pair.end.context, 1);
        (void) HG_Trigger(pair.end.context, 0, 100, &count);
    }
    HG_CHECK_OK(HG_Addr_free(pair.end.hg_class, other));
    atomic_fetch_sub(
        &na_addr_core_of(target)->asked, UINT64_C(12) * HG_ROOM_CALL);
    room_close_pair(&pair);
}

#endif

/* A call of any size counts for it, whole, and alone has room. */
HG_TEST(room_for_a_call_beyond_32_bits)
{
    struct room_end end;
    hg_handle_t handle;
    uint64_t size = UINT64_C(1) << 33;

    room_open(&end, "self://");
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    HG_CHECK_OK(HG_Create(end.context, end.target, end.id, &handle));
    hg_lock(&end.context->lock);
    HG_CHECK(hg_room_take(handle, HG_ROOM_CALL));
    HG_CHECK(hg_room_take(handle, size));
    HG_CHECK_EQ_U64(end.context->asked, size + HG_ROOM_CALL);
    hg_unlock(&end.context->lock);
    HG_CHECK_RET(room_forward(&end), HG_AGAIN);
    hg_lock(&end.context->lock);
    hg_room_give(handle);
    HG_CHECK_EQ_U64(end.context->asked, 0);
    hg_unlock(&end.context->lock);
    HG_CHECK_OK(HG_Destroy(handle));
    room_close(&end);
}
