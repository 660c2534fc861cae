/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exit: threads, signals, gasnet_exit().
 *
 * The first thread that calls gasnet_exit() ends the process. It closes NA, so
 * that accepted messages leave, unless it or another thread is inside NA, or it
 * is in the handler of a signal, which may have interrupted malloc(): then it
 * ends the process as it is. Threads that enter NA meanwhile stop.
 *
 * The launcher ends the other nodes. Without it, a node whose peer has died
 * gets SIGQUIT after EXIT_GRACE_S, which is the time in which the nodes of a
 * job call gasnet_exit() one after the other.
 *
 * Over MPI a node ends by exit(), also by a return from main(): then the
 * transport calls MPI_Abort() with its code, which ends the job, or for 0
 * MPI_Finalize(), which waits for the other nodes. So a peer that has left
 * while this node runs has left with 0, and that is the code of the job.
 *
 *     SIGQUIT                     gasnet_exit(1), unless the client catches it
 *     SIGINT, TERM, HUP, XCPU     SIGQUIT, unless they are ignored
 */
#define _GNU_SOURCE
#include "gasnet_hg.h"

#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXIT_GRACE_S 2
#define EXIT_LIMIT_S 4     /* gasnet_exit() takes at most that long */
#define EXIT_FLUSH_MS 1000 /* how long messages may take to leave */
#define EXIT_LEAVE_MS 50   /* how long it waits for threads to leave NA */
#define EXIT_DEFAULT_CODE 1

_Thread_local struct gasnet_hg_thread *gasnet_hg_current;

/* All threads, and those whose thread has ended. */
static struct gasnet_hg_thread *exit_threads, *exit_idle;
static pthread_mutex_t exit_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;

static struct gasnet_hg_thread *_Atomic exit_by; /* it ends the process */
static _Atomic int exit_code;
static _Atomic bool exit_timed; /* SIGQUIT is to come */
static bool exit_by_signal;     /* exit_by is in the handler of a signal */

/* They end the process, as SIGQUIT does. */
static const int exit_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU, SIGQUIT};
#define EXIT_SIGNALS (sizeof(exit_signals) / sizeof(exit_signals[0]))

/* ---- Threads ---- */

static void exit_thread_ends(void *arg)
{
    struct gasnet_hg_thread *self = (struct gasnet_hg_thread *) arg;

    (void) pthread_mutex_lock(&exit_lock);
    self->idle = exit_idle;
    exit_idle = self;
    (void) pthread_mutex_unlock(&exit_lock);
    gasnet_hg_current = NULL;
}

static void exit_make_key(void)
{
    if (pthread_key_create(&exit_key, exit_thread_ends) != 0)
        gasnet_hg_fatal("no key for the data of threads");
}

/* The lock is held. */
static struct gasnet_hg_thread *exit_add_thread(void)
{
    struct gasnet_hg_thread *self =
        (struct gasnet_hg_thread *) calloc(1, sizeof(*self));

    if (self == NULL)
        return NULL;
    self->next = exit_threads;
    exit_threads = self;
    return self;
}

struct gasnet_hg_thread *gasnet_hg_new_thread(void)
{
    struct gasnet_hg_thread *self;

    (void) pthread_once(&exit_once, exit_make_key);
    (void) pthread_mutex_lock(&exit_lock);
    self = exit_idle;
    if (self != NULL)
        exit_idle = self->idle;
    else
        self = exit_add_thread();
    (void) pthread_mutex_unlock(&exit_lock);
    if (self == NULL || pthread_setspecific(exit_key, self) != 0)
        gasnet_hg_fatal("out of memory for a thread");
    (void) pthread_sigmask(SIG_BLOCK, NULL, &self->blocked);
    gasnet_hg_current = self;
    return self;
}

void gasnet_hg_park(struct gasnet_hg_thread *self)
{
    self->inside--;
    for (;;)
        (void) pause();
}

/* Wait until no thread but this one is inside NA. False: one stays there. */
static bool exit_others_left(const struct gasnet_hg_thread *self)
{
    const struct timespec pause_ms = {0, 1000000};
    const struct gasnet_hg_thread *thread;
    int tries;

    if (gasnet_hg.threaded &&
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        return false;
    if (pthread_mutex_trylock(&exit_lock) != 0)
        return false;
    thread = exit_threads;
    (void) pthread_mutex_unlock(&exit_lock);
    for (tries = 0; thread != NULL;) {
        if (thread == self || thread->inside == 0)
            thread = thread->next;
        else if (tries++ < EXIT_LEAVE_MS)
            (void) nanosleep(&pause_ms, NULL);
        else
            return false;
    }
    return true;
}

/* ---- gasnet_exit() ---- */

static void exit_at_limit(int number)
{
    (void) number;
    _exit(exit_code);
}

/* Whatever hangs below, the process ends. Other signals wait. A signal that the
 * thread does not always block is blocked while its handler runs, also if the
 * handler is the client's. */
static void exit_limit_time(const struct gasnet_hg_thread *self)
{
    struct sigaction action = {0};
    sigset_t set, old;
    size_t i;

    action.sa_handler = exit_at_limit;
    (void) sigfillset(&set);
    (void) sigdelset(&set, SIGALRM);
    (void) sigdelset(&set, SIGSEGV);
    (void) sigdelset(&set, SIGABRT);
    (void) sigemptyset(&old);
    (void) pthread_sigmask(SIG_SETMASK, &set, &old);
    for (i = 0; i < EXIT_SIGNALS; i++)
        if (sigismember(&old, exit_signals[i]) == 1 &&
            sigismember(&self->blocked, exit_signals[i]) == 0)
            exit_by_signal = true;
    (void) sigaction(SIGALRM, &action, NULL);
    (void) alarm(EXIT_LIMIT_S);
}

static na_return_t exit_flushed(const struct na_cb_info *info)
{
    --*(unsigned *) info->arg;
    return NA_SUCCESS;
}

/* Let accepted messages leave. Closing NA would do it, too, but it frees the
 * segments, which other threads may be using. Messages to mapped nodes need no
 * time. */
static void exit_flush(void)
{
    const struct gasnet_boot *boot = &gasnet_hg.boot;
    static unsigned pending;
    unsigned i;

    for (i = 0; i < boot->size; i++)
        if (gasnet_hg_shifts[i] == GASNET_HG_FAR &&
            NA_Addr_terminate(boot->na_class, boot->context, exit_flushed,
                &pending, boot->addrs[i], NA_OP_ID_IGNORE) == NA_SUCCESS)
            pending++;
    for (i = 0; i < EXIT_FLUSH_MS && pending > 0; i++)
        if (NA_Progress(boot->na_class, boot->context, 1) == NA_SUCCESS)
            (void) NA_Trigger(boot->context, 0, UINT_MAX, NULL);
}

bool gasnet_hg_is_mpi(void)
{
    return gasnet_hg.boot.na_class != NULL &&
        strcmp(NA_Get_class_name(gasnet_hg.boot.na_class), "mpi") == 0;
}

/* Be the thread that ends the process, or return false: it is that already, or
 * stop: another one is. */
static bool exit_begin(int exitcode)
{
    /* A signal handler must not wait for memory, or for exit_lock. */
    static _Thread_local struct gasnet_hg_thread unknown;
    struct gasnet_hg_thread *self = gasnet_hg_current, *nobody = NULL;

    if (self == NULL)
        self = &unknown;
    if (!atomic_compare_exchange_strong(&exit_by, &nobody, self)) {
        if (nobody == self)
            return false;
        for (;;)
            (void) pause();
    }
    exit_code = exitcode & 0xff;
    if (atomic_load(&exit_timed) && gasnet_hg_is_mpi())
        exit_code = 0;
    exit_limit_time(self);
    (void) fflush(NULL);
    atomic_store(&gasnet_hg.closing, true);
    return true;
}

/* Close NA, if no thread is inside it. MPI_Abort() needs no closing. */
static bool exit_close(void)
{
    const struct gasnet_hg_thread *self = atomic_load(&exit_by);

    if (exit_code != 0 && gasnet_hg_is_mpi())
        return false;
    if (exit_by_signal && !gasnet_hg_is_mpi())
        return false;
    if (!gasnet_hg.started || self->inside != 0 || !exit_others_left(self))
        return false;
    if (gasnet_hg_is_mpi()) { /* the segments stay: see job_alloc() */
        gasnet_boot_stop(&gasnet_hg.boot);
    } else if (gasnet_hg.threaded) {
        exit_flush();
    } else {
        gasnet_hg_detach();
        gasnet_boot_stop(&gasnet_hg.boot);
    }
    return true;
}

void gasnet_exit(int exitcode)
{
    bool is_mpi = gasnet_hg_is_mpi();

    if (!exit_begin(exitcode)) /* a function that exit() runs has called it */
        _exit(exit_code);
    if (!exit_close() && !is_mpi)
        _exit(exit_code);
    exit(exit_code);
}

/* Over MPI: a node that calls exit() tells its peers, too. */
static void exit_on_return(int status, void *arg)
{
    (void) arg;
    if (exit_begin(status))
        (void) exit_close();
}

/* ---- Signals ---- */

static void exit_on_quit(int number)
{
    (void) number;
    gasnet_exit(EXIT_DEFAULT_CODE);
}

static void exit_on_end(int number)
{
    (void) number;
    (void) raise(SIGQUIT);
}

/* gasnet_init() comes first, so an earlier handler is not of the client but of
 * a library that is linked: some providers of libfabric have one. A signal that
 * is ignored stays so, for nohup; but GASNet needs SIGQUIT, which a program in
 * the background of a shell script ignores. */
static void exit_catch(int number, void (*handler)(int))
{
    struct sigaction action;

    if (sigaction(number, NULL, &action) != 0 ||
        (action.sa_handler == SIG_IGN && number != SIGQUIT))
        return;
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    (void) sigemptyset(&action.sa_mask);
    (void) sigaction(number, &action, NULL);
}

/* SIGQUIT comes after EXIT_GRACE_S. */
static void exit_start_grace(void)
{
    struct sigevent event = {0};
    struct itimerspec grace = {{0, 0}, {EXIT_GRACE_S, 0}};
    timer_t timer;

    if (atomic_exchange(&exit_timed, true))
        return;
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGQUIT;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &grace, NULL) != 0)
        (void) raise(SIGQUIT);
}

void gasnet_hg_lost(gasnet_node_t node)
{
    atomic_store(&gasnet_hg.peers[node].lost, true);
    atomic_store(&gasnet_hg.peers[node].apart, true);
    exit_start_grace();
}

void gasnet_hg_wait_for_end(void)
{
    exit_start_grace();
    for (;;)
        (void) pause();
}

/* The receive that no message matches ends when its peer dies. */
static na_return_t exit_on_death(const struct na_cb_info *info)
{
    gasnet_hg_lost((gasnet_node_t) (uintptr_t) info->arg);
    return NA_SUCCESS;
}

void gasnet_hg_catch_signals(void)
{
    size_t i;

    for (i = 0; i < EXIT_SIGNALS; i++)
        exit_catch(exit_signals[i],
            exit_signals[i] == SIGQUIT ? exit_on_quit : exit_on_end);
    (void) syscall(
        SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

int gasnet_hg_watch_peers(void)
{
    static char nothing[1];
    gasnet_node_t i;

    if (gasnet_hg_is_mpi() && on_exit(exit_on_return, NULL) != 0)
        return GASNET_ERR_RESOURCE;

    for (i = 0; i < gasnet_hg_size; i++) {
        na_return_t ret = i == gasnet_hg_rank
            ? NA_SUCCESS
            : NA_Msg_recv_expected(gasnet_hg.boot.na_class,
                  gasnet_hg.boot.context, exit_on_death, (void *) (uintptr_t) i,
                  nothing, sizeof(nothing), gasnet_hg.peers[i].addr,
                  GASNET_HG_TAG_WATCH, NA_OP_ID_IGNORE);
        if (ret != NA_SUCCESS) {
            gasnet_hg_warn("gasnet_init: watching node %u: %s", i,
                NA_Error_to_string(ret));
            return GASNET_ERR_RESOURCE;
        }
    }
    return GASNET_OK;
}
