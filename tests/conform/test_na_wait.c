/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NA on one transport: progress, sleeping and waking, threads, and out of
 * memory.
 */
#include "conform.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WAIT_LONG 60000u /* ms: longer than the watchdog */
#define WAIT_THREADS 4u
#define WAIT_WINDOW_NS 3000u /* about the time it takes to go to sleep */

static void wait_nap(unsigned us)
{
    struct timespec nap = {0, (long) us * 1000};

    (void) nanosleep(&nap, NULL);
}

static uint64_t wait_now_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

HG_TEST(progress_and_trigger_report_what_is_available)
{
    struct conform_end end;
    struct conform_call calls[3];
    unsigned count = 9, i;
    uint64_t before;

    conform_open(&end, NULL);
    HG_CHECK_RET(NA_Progress(end.na_class, end.context, 0), NA_TIMEOUT);
    before = wait_now_ms();
    HG_CHECK_RET(NA_Progress(end.na_class, end.context, 20), NA_TIMEOUT);
    HG_CHECK(wait_now_ms() - before >= 19);
    HG_CHECK_RET(NA_Trigger(end.context, 0, 1, &count), NA_TIMEOUT);
    HG_CHECK_EQ_INT(count, 0);
    before = wait_now_ms();
    HG_CHECK_RET(NA_Trigger(end.context, 20, 1, &count), NA_TIMEOUT);
    HG_CHECK(wait_now_ms() - before >= 19);
    for (i = 0; i < 3; i++)
        HG_CHECK_OK(conform_send(&end, &calls[i], true, "x", 1, i));
    HG_CHECK_OK(NA_Progress(end.na_class, end.context, WAIT_LONG));
    /* It stays so until a thread triggers. */
    HG_CHECK_OK(NA_Progress(end.na_class, end.context, WAIT_LONG));
    for (i = 0; i < 3; i++) {
        HG_CHECK_OK(NA_Progress(end.na_class, end.context, WAIT_LONG));
        HG_CHECK_EQ_INT(conform_trigger(end.context, 0, 1), 1);
    }
    HG_CHECK_RET(NA_Progress(end.na_class, end.context, 0), NA_TIMEOUT);
    for (i = 0; i < 3; i++)
        HG_CHECK_EQ_INT(calls[i].ends, 1);
    HG_CHECK_OK(conform_send(&end, &calls[0], true, "x", 1, 9));
    HG_CHECK_OK(NA_Progress(end.na_class, end.context, WAIT_LONG));
    conform_triggering++;
    HG_CHECK_OK(NA_Trigger(end.context, 0, 5, NULL));
    conform_triggering--;
    HG_CHECK_EQ_INT(calls[0].ends, 1);
    conform_close(&end);
}

/* ---- Wakeups ---- */

/* Busy-wait: a sleep of a few microseconds would last ten times as long, and
 * always end when the other side is asleep. */
static void wait_delay(uint64_t ns)
{
    struct timespec start, now;

    (void) clock_gettime(CLOCK_MONOTONIC, &start);
    do
        (void) clock_gettime(CLOCK_MONOTONIC, &now);
    while ((uint64_t) (now.tv_sec - start.tv_sec) * 1000000000 +
            (uint64_t) now.tv_nsec - (uint64_t) start.tv_nsec <
        ns);
}

struct wait_sender {
    struct conform_end *end;
    unsigned count;
    unsigned nap_us; /* at most */
    bool in_turn;    /* send each only after the one before was received */
    _Atomic unsigned taken;
    uint64_t random;
    _Atomic bool done;
};

/* Send without a callback. */
static void *wait_send(void *arg)
{
    struct wait_sender *sender = (struct wait_sender *) arg;
    struct conform_end *end = sender->end;
    unsigned i;

    for (i = 0; i < sender->count; i++) {
        uint64_t dice = hg_test_random(&sender->random);

        if (sender->nap_us > 0 && dice % 4 != 0)
            wait_nap((unsigned) (dice >> 8) % sender->nap_us);
        if (sender->in_turn) { /* just when the other side goes to sleep */
            unsigned spins = 0;

            while (atomic_load(&sender->taken) != i) {
                if (++spins > 1000)
                    (void) sched_yield();
            }
            wait_delay((dice >> 8) % WAIT_WINDOW_NS);
        }
        HG_CHECK_OK(NA_Msg_send_expected(end->na_class, end->context, NULL,
            NULL, "x", 1, end->self, 1, NA_OP_ID_IGNORE));
    }
    atomic_store(&sender->done, true);
    return NULL;
}

static void wait_be_woken(uint8_t mode, bool trigger)
{
    struct na_init_info info;
    struct conform_end end;
    struct conform_call recv;
    struct wait_sender sender;
    pthread_t thread;
    char got;
    unsigned i;

    conform_info(&info);
    info.wait_mode = mode;
    conform_open(&end, &info);
    memset(&sender, 0, sizeof(sender));
    sender.end = &end;
    sender.count = 1;
    sender.nap_us = 3000;
    sender.random = hg_test_seed();
    for (i = 0; i < 50; i++) {
        HG_CHECK_OK(conform_recv(&end, &recv, true, &got, 1, 1));
        HG_CHECK(!pthread_create(&thread, NULL, wait_send, &sender));
        while (recv.ends == 0) {
            if (!trigger)
                HG_CHECK_OK(NA_Progress(end.na_class, end.context, WAIT_LONG));
            (void) conform_trigger(end.context, trigger ? WAIT_LONG : 0, 1);
        }
        HG_CHECK(!pthread_join(thread, NULL));
    }
    conform_close(&end);
}

HG_TEST(send_wakes_a_thread_in_progress)
{
    wait_be_woken(NA_WAIT_ADAPTIVE, false);
}

HG_TEST(send_wakes_a_thread_that_blocks)
{
    wait_be_woken(NA_WAIT_BLOCK, false);
}

HG_TEST(send_wakes_a_thread_that_spins)
{
    wait_be_woken(NA_WAIT_SPIN, false);
}

/* Only on self does a send complete its receive; elsewhere another thread has
 * to make progress. */
HG_TEST_WHERE(send_wakes_a_thread_in_trigger, hg_test_is_self)
{
    wait_be_woken(NA_WAIT_ADAPTIVE, true);
}

static void wait_on_signal(int number)
{
    (void) number;
}

struct wait_target {
    pthread_t thread;
    _Atomic bool stop;
};

static void *wait_signal_often(void *arg)
{
    struct wait_target *target = (struct wait_target *) arg;

    while (!atomic_load(&target->stop)) {
        HG_CHECK(!pthread_kill(target->thread, SIGUSR1));
        wait_nap(2000);
    }
    return NULL;
}

HG_TEST(signal_ends_a_wait)
{
    struct na_init_info info;
    struct conform_end end;
    struct sigaction action;
    struct wait_target target;
    pthread_t thread;

    memset(&action, 0, sizeof(action));
    action.sa_handler = wait_on_signal; /* without SA_RESTART */
    HG_CHECK(!sigaction(SIGUSR1, &action, NULL));
    conform_info(&info);
    info.wait_mode = NA_WAIT_BLOCK;
    conform_open(&end, &info);
    target.thread = pthread_self();
    atomic_init(&target.stop, false);
    HG_CHECK(!pthread_create(&thread, NULL, wait_signal_often, &target));
    HG_CHECK_RET(NA_Progress(end.na_class, end.context, WAIT_LONG), NA_INTR);
    atomic_store(&target.stop, true);
    HG_CHECK(!pthread_join(thread, NULL));
    conform_close(&end);
}

struct wait_listener {
    struct conform_end *end;
    const char *name; /* to look up, or NULL */
    bool trigger;     /* else it makes progress */
    pthread_t thread;
    _Atomic bool ended;
    na_return_t ret;
};

static void *wait_receive_signals(void *arg)
{
    struct wait_listener *mine = (struct wait_listener *) arg;
    struct conform_end *end = mine->end;
    unsigned count = 7;
    na_addr_t addr;

    if (mine->name != NULL) {
        mine->ret =
            NA_Addr_lookup_wait(end->na_class, mine->name, WAIT_LONG, &addr);
    } else if (mine->trigger) {
        mine->ret = NA_Trigger(end->context, WAIT_LONG, 1, &count);
        HG_CHECK_EQ_INT(count, 0);
    } else {
        mine->ret = NA_Progress(end->na_class, end->context, WAIT_LONG);
    }
    atomic_store(&mine->ended, true);
    return NULL;
}

/* Send signals to one thread until it has ended its wait: that thread, and no
 * other. */
static void wait_interrupt(struct wait_listener *hearers, int which)
{
    struct wait_listener *target = &hearers[which];
    int i;

    while (!atomic_load(&target->ended)) {
        HG_CHECK(!pthread_kill(target->thread, SIGUSR1));
        wait_nap(2000);
    }
    HG_CHECK(!pthread_join(target->thread, NULL));
    HG_CHECK_RET(target->ret, NA_INTR);
    for (i = 0; i < which; i++)
        HG_CHECK(!atomic_load(&hearers[i].ended));
}

/* One thread makes progress for the context; others wait for it, or in trigger.
 * A signal reaches each of them in its sleep. */
HG_TEST(signal_ends_the_wait_of_its_thread)
{
    enum { HEARERS = 5 };
    struct wait_listener hearers[HEARERS];
    struct na_init_info info;
    struct conform_end end;
    struct sigaction action;
    int i;

    memset(&action, 0, sizeof(action));
    action.sa_handler = wait_on_signal;
    HG_CHECK(!sigaction(SIGUSR1, &action, NULL));
    conform_info(&info);
    info.wait_mode = NA_WAIT_BLOCK;
    conform_open(&end, &info);
    memset(hearers, 0, sizeof(hearers));
    for (i = 0; i < HEARERS; i++) {
        hearers[i].end = &end;
        hearers[i].trigger = i % 2 != 0;
        HG_CHECK(!pthread_create(
            &hearers[i].thread, NULL, wait_receive_signals, &hearers[i]));
    }
    for (i = HEARERS - 1; i >= 0; i--)
        wait_interrupt(hearers, i);
    conform_close(&end);
}

static bool wait_is_tcp(void)
{
    return strstr(hg_test_transport(), "tcp") != NULL;
}

/* A listener accepts and stays silent: a lookup ends at its timeout, or by a
 * signal. */
HG_TEST_WHERE(blocking_lookup_ends_in_time_and_by_a_signal, wait_is_tcp)
{
    struct wait_listener hearer;
    struct sockaddr_in here;
    struct conform_end end;
    struct sigaction action;
    socklen_t size = sizeof(here);
    char name[64];
    static char line[128];
    na_addr_t addr;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    memset(&here, 0, sizeof(here));
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    HG_CHECK(fd >= 0);
    HG_CHECK(!bind(fd, (struct sockaddr *) &here, sizeof(here)));
    HG_CHECK(!listen(fd, 5));
    HG_CHECK(!getsockname(fd, (struct sockaddr *) &here, &size));
    snprintf(name, sizeof(name), "%s://127.0.0.1:%u", hg_test_transport(),
        ntohs(here.sin_port));
    memset(&action, 0, sizeof(action));
    action.sa_handler = wait_on_signal;
    HG_CHECK(!sigaction(SIGUSR1, &action, NULL));
    conform_open(&end, NULL);
    snprintf(line, sizeof(line),
        "no response from '%s' in 50 ms: a timeout longer than lookup_ms",
        name);
    hg_test_expect_log(line);
    HG_CHECK_RET(
        NA_Addr_lookup_wait(end.na_class, name, 50, &addr), NA_TIMEOUT);
    HG_CHECK_EQ_INT(hg_test_log_count(line), 1);
    memset(&hearer, 0, sizeof(hearer));
    hearer.end = &end;
    hearer.name = name;
    HG_CHECK(
        !pthread_create(&hearer.thread, NULL, wait_receive_signals, &hearer));
    wait_interrupt(&hearer, 0);
    conform_close(&end);
    HG_CHECK(!close(fd));
}

static bool wait_sleeps_on_frames(void)
{
    return hg_test_has_epoll() && hg_test_is_self() && hg_test_emulated();
}

/* The descriptor of a context that need not be polled meanwhile. MPI and some
 * providers of libfabric have none. */
static int wait_descriptor(struct conform_end *end)
{
    int fd = NA_Poll_get_fd(end->na_class, end->context);

    if (fd < 0 && (hg_test_is_ofi() || hg_test_is_mpi()))
        hg_test_skip("no descriptor to sleep on");
    HG_CHECK(fd >= 0);
    return fd;
}

HG_TEST_WHERE_SECONDS(
    sleeping_on_the_descriptor_loses_no_wakeup, hg_test_has_epoll, 60)
{
    const unsigned count = getenv("HG_TEST_FULL") != NULL ? 10000 : 3000;
    struct conform_end end;
    struct conform_call recv;
    struct wait_sender sender;
    struct pollfd fd;
    pthread_t thread;
    char got;
    uint64_t random = 1;
    unsigned i, waits = 0;

    conform_open(&end, NULL);
    fd.fd = wait_descriptor(&end);
    fd.events = POLLIN;
    HG_CHECK_EQ_INT(fd.fd, NA_Poll_get_fd(end.na_class, end.context));
    memset(&sender, 0, sizeof(sender));
    sender.end = &end;
    sender.count = count;
    sender.in_turn = true;
    sender.random = hg_test_seed();
    HG_CHECK_OK(conform_recv(&end, &recv, true, &got, 1, 1));
    HG_CHECK(!pthread_create(&thread, NULL, wait_send, &sender));
    /* One message at a time: with several, the next one would hide a lost
     * wakeup. */
    for (i = 0; i < count;) {
        if (NA_Poll_try_wait(end.na_class, end.context) == NA_TRUE) {
            HG_CHECK_EQ_INT(poll(&fd, 1, (int) CONFORM_TIMEOUT), 1);
            waits++;
        }
        (void) conform_turn(end.na_class, end.context, 0);
        if (recv.ends == 1) {
            HG_CHECK_OK(recv.ret);
            HG_CHECK_OK(conform_recv(&end, &recv, true, &got, 1, 1));
            atomic_store(&sender.taken, ++i);
            wait_delay(hg_test_random(&random) % WAIT_WINDOW_NS);
        }
    }
    HG_CHECK(!pthread_join(thread, NULL));
    HG_CHECK(waits > 100);
    /* With nothing to do it is not readable. */
    while (NA_Poll_try_wait(end.na_class, end.context) == NA_FALSE)
        (void) conform_turn(end.na_class, end.context, 0);
    HG_CHECK_EQ_INT(poll(&fd, 1, 0), 0);
    conform_close(&end);
}

/* Work that the calling thread itself has left must prevent sleep, too. */
HG_TEST_WHERE(own_operations_make_the_descriptor_readable, hg_test_has_epoll)
{
    enum { SIZE = 300000 };
    struct na_init_info info;
    struct conform_end end;
    struct conform_call get, sends[100], recv;
    struct pollfd fd;
    static char a[SIZE], b[SIZE];
    na_mem_handle_t local, target, remote;
    unsigned count = 100;
    unsigned i;
    char got;

    conform_info(&info);
    info.max_queue_bytes = 2048;
    info.rma_frame_size = 8192;
    conform_open(&end, &info);
    fd.events = POLLIN;
    local = conform_memory(&end, a, SIZE, NA_MEM_READWRITE);
    target = conform_memory(&end, b, SIZE, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    conform_fill(b, SIZE, 5);
    memset(&get, 0, sizeof(get));
    HG_CHECK_OK(NA_Get(end.na_class, end.context, conform_ended, &get, local, 0,
        remote, 0, SIZE, end.self, NA_OP_ID_IGNORE));
    fd.fd = wait_descriptor(&end);
    while (get.ends == 0) {
        if (NA_Poll_try_wait(end.na_class, end.context) == NA_TRUE)
            HG_CHECK_EQ_INT(poll(&fd, 1, (int) CONFORM_TIMEOUT), 1);
        (void) conform_turn(end.na_class, end.context, 0);
    }
    HG_CHECK_OK(get.ret);
    HG_CHECK_EQ_MEM(a, b, SIZE);
    /* Sends that were held back continue when a receive frees space; other
     * transports drop messages that do not fit. */
    if (!hg_test_holds_back())
        count = 10;
    for (i = 0; i < count; i++)
        HG_CHECK_OK(conform_send(&end, &sends[i], true, "x", 1, 1));
    for (i = 0; i < count; i++) {
        while (NA_Poll_try_wait(end.na_class, end.context) == NA_FALSE)
            (void) conform_turn(end.na_class, end.context, 0);
        HG_CHECK_OK(conform_recv(&end, &recv, true, &got, 1, 1));
        while (recv.ends == 0) {
            if (NA_Poll_try_wait(end.na_class, end.context) == NA_TRUE)
                HG_CHECK_EQ_INT(poll(&fd, 1, (int) CONFORM_TIMEOUT), 1);
            (void) conform_turn(end.na_class, end.context, 0);
        }
        HG_CHECK_OK(recv.ret);
    }
    for (i = 0; i < count; i++)
        HG_CHECK_OK(conform_wait(&end, &sends[i]));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, target));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, local));
    conform_close(&end);
}

/* A second call gets the same answer: it must not allow the thread to sleep. */
HG_TEST_WHERE(
    asking_for_sleep_again_gets_the_same_answer, wait_sleeps_on_frames)
{
    struct conform_end end;
    struct conform_call get;
    static char a[8], b[8];
    na_mem_handle_t local, target, remote;

    conform_open(&end, NULL);
    local = conform_memory(&end, a, sizeof(a), NA_MEM_READWRITE);
    target = conform_memory(&end, b, sizeof(b), NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    memset(&get, 0, sizeof(get));
    HG_CHECK_OK(NA_Get(end.na_class, end.context, conform_ended, &get, local, 0,
        remote, 0, sizeof(a), end.self, NA_OP_ID_IGNORE));
    /* Its request is a frame that only a poll delivers. */
    HG_CHECK(NA_Poll_try_wait(end.na_class, end.context) == NA_FALSE);
    HG_CHECK(NA_Poll_try_wait(end.na_class, end.context) == NA_FALSE);
    HG_CHECK_OK(conform_wait(&end, &get));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, target));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, local));
    conform_close(&end);
}

/* ---- Threads ---- */

struct wait_worker {
    struct conform_end end;
    unsigned number;
    unsigned rounds;
};

static void *wait_work(void *arg)
{
    struct wait_worker *worker = (struct wait_worker *) arg;
    struct conform_end *end = &worker->end;
    struct conform_call send, recv;
    unsigned i;

    for (i = 0; i < worker->rounds; i++) {
        uint32_t from = worker->number << 16 | i, to = 0;
        na_tag_t tag = worker->number;
        bool early = (i & 1) != 0;

        if (early)
            HG_CHECK_OK(conform_recv(end, &recv, true, &to, 4, tag));
        HG_CHECK_OK(conform_send(end, &send, true, &from, 4, tag));
        if (!early)
            HG_CHECK_OK(conform_recv(end, &recv, true, &to, 4, tag));
        /* Another thread may run our callbacks. */
        HG_CHECK_OK(conform_wait(end, &recv));
        HG_CHECK_OK(conform_wait(end, &send));
        HG_CHECK_EQ_U64(to, from);
    }
    return NULL;
}

static void wait_work_together(bool own_contexts)
{
    struct conform_end end;
    struct wait_worker workers[WAIT_THREADS];
    pthread_t threads[WAIT_THREADS];
    unsigned i;

    conform_open(&end, NULL);
    for (i = 0; i < WAIT_THREADS; i++) {
        workers[i].end = end;
        workers[i].number = i;
        workers[i].rounds = 1250; /* 10,000 operations in total */
        if (own_contexts) {
            workers[i].end.context = NA_Context_create(end.na_class);
            HG_CHECK(workers[i].end.context != NULL);
        }
        HG_CHECK(!pthread_create(&threads[i], NULL, wait_work, &workers[i]));
    }
    for (i = 0; i < WAIT_THREADS; i++)
        HG_CHECK(!pthread_join(threads[i], NULL));
    for (i = 0; i < WAIT_THREADS && own_contexts; i++)
        HG_CHECK_OK(NA_Context_destroy(end.na_class, workers[i].end.context));
    conform_idle(&end);
    conform_close(&end);
}

HG_TEST_SECONDS(threads_share_a_context, 60)
{
    wait_work_together(false);
}

HG_TEST_SECONDS(threads_have_a_context_each, 60)
{
    wait_work_together(true);
}

struct wait_canceler {
    struct conform_end *end;
    _Atomic uintptr_t id; /* of the operation in flight */
    _Atomic bool stop;
    unsigned hits;
};

static void *wait_cancel(void *arg)
{
    struct wait_canceler *canceler = (struct wait_canceler *) arg;
    struct conform_end *end = canceler->end;

    while (!atomic_load(&canceler->stop)) {
        na_return_t ret = NA_Cancel(end->na_class, end->context,
            (na_op_id_t) atomic_load(&canceler->id));

        HG_CHECK(ret == NA_SUCCESS || ret == NA_NOENTRY);
        canceler->hits += ret == NA_SUCCESS;
    }
    return NULL;
}

/* ---- A flag that another thread's callback sets ---- */

struct wait_flag {
    struct conform_end *end;
    na_bool_t flag;
    _Atomic unsigned begun, returned; /* calls of NA_Progress_until */
};

static void *wait_until_set(void *arg)
{
    struct wait_flag *wait = (struct wait_flag *) arg;

    while (!__atomic_load_n(&wait->flag, __ATOMIC_ACQUIRE)) {
        atomic_fetch_add(&wait->begun, 1);
        HG_CHECK_OK(NA_Progress_until(wait->end->na_class, wait->end->context,
            &wait->flag, 10 * WAIT_LONG));
        atomic_fetch_add(&wait->returned, 1);
    }
    return NULL;
}

/* Set the flag while the other thread is in a call that began after the queue
 * became empty, or in one that slept through that. */
static na_return_t wait_set_flag(const struct na_cb_info *info)
{
    struct wait_flag *wait = (struct wait_flag *) info->arg;
    unsigned i;

    HG_CHECK_OK(info->ret);
    for (i = 0; i < 20; i++) {
        while (atomic_load(&wait->returned) == atomic_load(&wait->begun))
            wait_nap(10);
        wait_nap(i);
    }
    __atomic_store_n(&wait->flag, NA_TRUE, __ATOMIC_RELEASE);
    return NA_SUCCESS;
}

/* Run the callback that sets the flag, in this thread. */
static void wait_trigger_flag(struct wait_flag *wait)
{
    struct conform_end *end = wait->end;
    unsigned count;

    HG_CHECK_OK(NA_Msg_send_expected(end->na_class, end->context, NULL, NULL,
        "go", 3, end->self, 1, NA_OP_ID_IGNORE));
    do {
        (void) NA_Progress(end->na_class, end->context, 1);
        (void) NA_Trigger(end->context, 0, 1, &count);
    } while (count == 0);
}

/* A thread waits with a long timeout for what the callback of another thread
 * does. It returns at once: else the case takes longer than it may. */
HG_TEST(callback_wakes_a_thread_that_waits_for_its_flag)
{
    struct wait_flag wait;
    struct conform_end end;
    unsigned round;
    pthread_t thread;
    char got[4];

    conform_open(&end, NULL);
    for (round = 0; round < 40; round++) {
        memset(&wait, 0, sizeof(wait));
        wait.end = &end;
        HG_CHECK_OK(NA_Msg_recv_expected(end.na_class, end.context,
            wait_set_flag, &wait, got, 4, end.self, 1, NA_OP_ID_IGNORE));
        HG_CHECK(!pthread_create(&thread, NULL, wait_until_set, &wait));
        while (round % 2 == 0 && atomic_load(&wait.begun) == 0)
            wait_nap(10);
        wait_trigger_flag(&wait);
        HG_CHECK(!pthread_join(thread, NULL));
    }
    hg_test_expect_log("NA_Progress_until: ");
    HG_CHECK_RET(
        NA_Progress_until(end.na_class, end.context, NULL, 1), NA_INVALID_ARG);
    HG_CHECK_RET(
        NA_Progress_until(end.na_class, NULL, &wait.flag, 1), NA_INVALID_ARG);
    HG_CHECK_OK(NA_Progress_until(end.na_class, end.context, &wait.flag, 0));
    wait.flag = NA_FALSE;
    HG_CHECK_RET(NA_Progress_until(end.na_class, end.context, &wait.flag, 1),
        NA_TIMEOUT);
    conform_close(&end);
}

/* One of two threads makes progress, and the other one sleeps: each returns
 * when its own flag is set. */
HG_TEST(callback_wakes_the_one_of_two_threads_whose_flag_it_sets)
{
    struct wait_flag waits[2];
    struct conform_end end;
    pthread_t threads[2];
    unsigned round, i;
    char got[4];

    conform_open(&end, NULL);
    for (round = 0; round < 20; round++) {
        memset(waits, 0, sizeof(waits));
        for (i = 0; i < 2; i++) {
            waits[i].end = &end;
            HG_CHECK(
                !pthread_create(&threads[i], NULL, wait_until_set, &waits[i]));
            while (atomic_load(&waits[i].begun) == 0)
                wait_nap(10);
        }
        for (i = 2; i-- > 0;) {
            HG_CHECK_OK(
                NA_Msg_recv_expected(end.na_class, end.context, wait_set_flag,
                    &waits[i], got, 4, end.self, 1, NA_OP_ID_IGNORE));
            wait_trigger_flag(&waits[i]);
            HG_CHECK(!pthread_join(threads[i], NULL));
        }
    }
    conform_close(&end);
}

HG_TEST(cancel_from_another_thread_works_at_every_moment)
{
    struct conform_end end;
    struct wait_canceler canceler;
    struct conform_call send, recv;
    pthread_t thread;
    unsigned i, canceled = 0;
    char got;

    conform_open(&end, NULL);
    memset(&canceler, 0, sizeof(canceler));
    canceler.end = &end;
    HG_CHECK(!pthread_create(&thread, NULL, wait_cancel, &canceler));
    for (i = 0; i < 3000; i++) {
        HG_CHECK_OK(conform_recv(&end, &recv, true, &got, 1, 1));
        atomic_store(&canceler.id, (uintptr_t) recv.id);
        HG_CHECK_OK(conform_send(&end, &send, true, "x", 1, 1));
        (void) conform_wait(&end, &recv);
        HG_CHECK(recv.ret == NA_SUCCESS || recv.ret == NA_CANCELED);
        if (recv.ret == NA_CANCELED) {
            canceled++;
            atomic_store(&canceler.id, 0);
            HG_CHECK_OK(conform_recv(&end, &recv, true, &got, 1, 1));
            HG_CHECK_OK(conform_wait(&end, &recv));
        }
        HG_CHECK_OK(conform_wait(&end, &send));
    }
    atomic_store(&canceler.stop, true);
    HG_CHECK(!pthread_join(thread, NULL));
    HG_CHECK_EQ_INT(canceler.hits, canceled);
    conform_close(&end);
}

/* ---- The progress thread ---- */

HG_TEST(progress_thread_starts_and_stops)
{
    struct na_init_info info;
    struct conform_end end;
    struct conform_call send, recv;
    char got;
    unsigned i;

    conform_info(&info);
    info.progress_thread = NA_TRUE;
    info.max_contexts = 1; /* its context does not count */
    for (i = 0; i < 20; i++) {
        conform_open(&end, &info);
        HG_CHECK_OK(conform_recv(&end, &recv, true, &got, 1, 1));
        HG_CHECK_OK(conform_send(&end, &send, true, "x", 1, 1));
        HG_CHECK_OK(conform_wait(&end, &recv));
        HG_CHECK_OK(conform_wait(&end, &send));
        conform_close(&end);
    }
}

/* A signal that the application's threads block stays pending for the process:
 * taking it would end the process. */
HG_TEST_WHERE(progress_thread_takes_no_signals, hg_test_is_self)
{
    struct na_init_info info;
    struct conform_end end;
    sigset_t set, before, pending;
    int got;

    conform_info(&info);
    info.progress_thread = NA_TRUE;
    conform_open(&end, &info);
    HG_CHECK(!sigemptyset(&set) && !sigaddset(&set, SIGUSR1));
    HG_CHECK(!pthread_sigmask(SIG_BLOCK, &set, &before));
    /* Starting it did not block the signal. */
    HG_CHECK(!sigismember(&before, SIGUSR1));
    HG_CHECK(kill(getpid(), SIGUSR1) == 0);
    conform_idle(&end);
    HG_CHECK(!sigpending(&pending) && sigismember(&pending, SIGUSR1));
    HG_CHECK(sigwait(&set, &got) == 0);
    HG_CHECK(!pthread_sigmask(SIG_SETMASK, &before, NULL));
    conform_close(&end);
}

/* A context may be destroyed as soon as a callback ran, although the thread
 * that completed the operation has only just queued it. */
HG_TEST(context_ends_while_the_progress_thread_completes)
{
    enum { SIZE = 64 };
    /* libfabric's clock thread polls the context ten times a second. */
    const int rounds = hg_test_is_ofi() ? 30 : 300;
    struct na_init_info info;
    struct conform_end end;
    static char a[SIZE], b[SIZE];
    na_mem_handle_t local, target, remote;
    int i;

    conform_info(&info);
    info.progress_thread = NA_TRUE;
    conform_open(&end, &info);
    local = conform_memory(&end, a, SIZE, NA_MEM_READWRITE);
    target = conform_memory(&end, b, SIZE, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    for (i = 0; i < rounds; i++) {
        na_context_t *context = NA_Context_create(end.na_class);
        struct conform_call get;

        HG_CHECK(context != NULL);
        memset(&get, 0, sizeof(get));
        HG_CHECK_OK(NA_Get(end.na_class, context, conform_ended, &get, local, 0,
            remote, 0, SIZE, end.self, NA_OP_ID_IGNORE));
        while (get.ends == 0)
            (void) conform_trigger(context, CONFORM_TIMEOUT, 1);
        HG_CHECK_OK(get.ret);
        HG_CHECK_OK(NA_Context_destroy(end.na_class, context));
    }
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, target));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, local));
    conform_close(&end);
}

HG_TEST(progress_thread_moves_memory_during_computation)
{
    enum { SIZE = 500000 };
    struct na_init_info info;
    struct conform_end end;
    struct conform_call get;
    static char a[SIZE], b[SIZE];
    na_mem_handle_t local, target, remote;

    conform_info(&info);
    info.progress_thread = NA_TRUE;
    info.rma_frame_size = 8192;
    conform_open(&end, &info);
    local = conform_memory(&end, a, SIZE, NA_MEM_READWRITE);
    target = conform_memory(&end, b, SIZE, NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, target));
    remote = conform_remote(&end, target);
    conform_fill(b, SIZE, 6);
    memset(&get, 0, sizeof(get));
    HG_CHECK_OK(NA_Get(end.na_class, end.context, conform_ended, &get, local, 0,
        remote, 0, SIZE, end.self, NA_OP_ID_IGNORE));
    /* Only trigger: all progress is made by the thread. */
    while (get.ends == 0)
        (void) conform_trigger(end.context, CONFORM_TIMEOUT, 1);
    HG_CHECK_OK(get.ret);
    HG_CHECK_EQ_MEM(a, b, SIZE);
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, target));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, local));
    conform_close(&end);
}

/* ---- Out of memory ---- */

struct wait_scene {
    struct conform_end end;
    struct conform_call calls[16];
    unsigned started;
    na_return_t ret; /* the first error */
};

static struct conform_call *wait_scene_call(struct wait_scene *scene)
{
    HG_CHECK(scene->started < 16);
    return &scene->calls[scene->started++];
}

/* Record the code of a start; one that failed has no completion. */
static void wait_scene_note(struct wait_scene *scene, na_return_t ret)
{
    if (ret == NA_SUCCESS)
        return;
    scene->started--;
    if (scene->ret == NA_SUCCESS)
        scene->ret = ret;
}

static void wait_scene_messages(struct wait_scene *scene, char *got)
{
    struct conform_end *end = &scene->end;
    struct conform_call *call;
    struct na_segment segments[6];
    unsigned i;

    for (i = 0; i < 6; i++) {
        segments[i].address = (void *) (uintptr_t) "abcdef";
        segments[i].size = i;
    }
    for (i = 0; i < 2; i++) {
        call = wait_scene_call(scene);
        wait_scene_note(
            scene, conform_recv(end, call, i == 1, got + 64 * i, 64, 1));
        call = wait_scene_call(scene);
        wait_scene_note(scene, conform_send(end, call, i == 1, "x", 1, 1));
    }
    /* Sent before their receives: they wait in the class, then exceed its
     * limit. */
    for (i = 0; i < 3; i++) {
        call = wait_scene_call(scene);
        memset(call, 0, sizeof(*call));
        wait_scene_note(scene,
            NA_Msg_sendv_expected(end->na_class, end->context, conform_ended,
                call, segments, 6, end->self, 2, NA_OP_ID_IGNORE));
    }
    for (i = 2; i < 5; i++) {
        call = wait_scene_call(scene);
        wait_scene_note(
            scene, conform_recv(end, call, true, got + 64 * i, 64, 2));
    }
}

static void wait_scene_lookup(struct wait_scene *scene)
{
    struct conform_end *end = &scene->end;
    struct conform_call *call = wait_scene_call(scene);
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr;
    na_return_t ret;

    HG_CHECK_OK(
        NA_Addr_to_string(end->na_class, name, sizeof(name), end->self));
    memset(call, 0, sizeof(*call));
    wait_scene_note(scene,
        NA_Addr_lookup(end->na_class, end->context, conform_ended, call, name,
            NA_OP_ID_IGNORE));
    ret = NA_Addr_lookup_wait(end->na_class, name, 1000, &addr);
    if (ret == NA_SUCCESS)
        HG_CHECK_OK(NA_Addr_free(end->na_class, addr));
    else if (scene->ret == NA_SUCCESS)
        scene->ret = ret;
}

/* Wait until everything has ended. Operations lost to a failed allocation do
 * not end: after a failure a few idle rounds suffice, and the rest is abandoned
 * with its context. */
static void wait_scene_settle(struct wait_scene *scene)
{
    unsigned ms = hg_test_is_self() ? 0 : 1;
    unsigned i, quiet = 0, ended = 0;

    while (ended < scene->started &&
        quiet < (hg_test_alloc_failed() ? 8u : CONFORM_TIMEOUT)) {
        quiet = conform_turn(scene->end.na_class, scene->end.context, ms) > 0
            ? 0
            : quiet + 1;
        for (ended = 0, i = 0; i < scene->started; i++)
            ended += scene->calls[i].ends;
    }
    for (i = 0; i < scene->started; i++) {
        struct conform_call *call = &scene->calls[i];

        if (call->ends == 0 || call->ret != NA_SUCCESS)
            scene->ret = scene->ret != NA_SUCCESS ? scene->ret : NA_NOMEM;
        if (call->ends == 1 && call->addr != NA_ADDR_NULL)
            HG_CHECK_OK(NA_Addr_free(scene->end.na_class, call->addr));
    }
}

static na_return_t wait_scene_transfer(struct wait_scene *scene,
    na_mem_handle_t local, na_mem_handle_t target, na_mem_handle_t *remote_p)
{
    struct conform_end *end = &scene->end;
    struct conform_call *call;
    unsigned char bytes[256];
    na_size_t size;
    na_return_t ret = NA_Mem_register(end->na_class, target);

    if (ret != NA_SUCCESS)
        return ret;
    size = NA_Mem_handle_get_serialize_size(end->na_class, target);
    HG_CHECK(size <= sizeof(bytes));
    HG_CHECK_OK(NA_Mem_handle_serialize(end->na_class, bytes, size, target));
    ret = NA_Mem_handle_deserialize(end->na_class, remote_p, bytes, size);
    if (ret != NA_SUCCESS)
        return ret;
    call = wait_scene_call(scene);
    memset(call, 0, sizeof(*call));
    wait_scene_note(scene,
        NA_Put(end->na_class, end->context, conform_ended, call, local, 0,
            *remote_p, 0, 5000, end->self, NA_OP_ID_IGNORE));
    call = wait_scene_call(scene);
    memset(call, 0, sizeof(*call));
    wait_scene_note(scene,
        NA_Get(end->na_class, end->context, conform_ended, call, local, 0,
            *remote_p, 0, 5000, end->self, NA_OP_ID_IGNORE));
    return NA_SUCCESS;
}

static void wait_scene_memory(
    struct wait_scene *scene, char *memory, na_mem_handle_t handles[3])
{
    na_class_t *na_class = scene->end.na_class;
    na_return_t ret;

    ret = NA_Mem_handle_create(
        na_class, memory, 5000, NA_MEM_READWRITE, &handles[0]);
    if (ret == NA_SUCCESS)
        ret = NA_Mem_handle_create(
            na_class, memory + 5000, 5000, NA_MEM_READWRITE, &handles[1]);
    if (ret == NA_SUCCESS)
        ret = wait_scene_transfer(scene, handles[0], handles[1], &handles[2]);
    if (scene->ret == NA_SUCCESS)
        scene->ret = ret;
}

static int wait_scene_play(void *arg)
{
    static char got[5 * 64], memory[10000];
    const struct na_init_info *info = (const struct na_init_info *) arg;
    na_mem_handle_t handles[3] = {NULL, NULL, NULL};
    struct wait_scene scene;
    char *string = hg_test_listen_string();
    unsigned i;

    memset(&scene, 0, sizeof(scene));
    scene.end.na_class = NA_Initialize_opt(string, NA_TRUE, info);
    free(string);
    if (scene.end.na_class == NULL)
        return 1;
    scene.end.context = NA_Context_create(scene.end.na_class);
    if (scene.end.context == NULL) {
        HG_CHECK_OK(NA_Finalize(scene.end.na_class));
        return 1;
    }
    HG_CHECK_OK(NA_Addr_self(scene.end.na_class, &scene.end.self));
    wait_scene_messages(&scene, got);
    wait_scene_lookup(&scene);
    wait_scene_memory(&scene, memory, handles);
    wait_scene_settle(&scene);
    HG_CHECK_OK(NA_Addr_free(scene.end.na_class, scene.end.self));
    HG_CHECK_OK(NA_Context_destroy(scene.end.na_class, scene.end.context));
    for (i = 3; i-- > 0;) {
        if (handles[i] != NULL)
            HG_CHECK_OK(NA_Mem_handle_free(scene.end.na_class, handles[i]));
    }
    HG_CHECK_OK(NA_Finalize(scene.end.na_class));
    return scene.ret;
}

HG_TEST_SECONDS(every_allocation_may_fail, 60)
{
    struct na_init_info info;
    unsigned fds;

    hg_test_alloc_install();
    conform_info(&info);
    info.max_queue_bytes = 180; /* the third message is held back */
    info.rma_frame_size = 1024;
    if (strncmp(hg_test_transport(), "sm", 2) == 0)
        info.auth_key = "any-user";
    HG_CHECK_OK(wait_scene_play(&info));
    fds = hg_test_fd_count();
    HG_CHECK(hg_test_oom_loop(wait_scene_play, &info) > 20);
    HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}
