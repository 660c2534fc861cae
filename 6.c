#define _POSIX_C_SOURCE 200809L /* with -std=c11, above all includes */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "hg.h"

static atomic_bool ending;

static void *work(void *unused)
{
    while (!atomic_load(&ending)) /* looked at every half second, or sooner */
        (void) HG_Handler_process(500, HG_STATUS_IGNORE);
    return unused;
}
static int serve(na_class_t *na) /* after HG_Init and MERCURY_REGISTER */
{
    pthread_t threads[4];
    sigset_t signals;
    int i, started = 0, caught;

    (void) sigemptyset(&signals);
    (void) sigaddset(&signals, SIGINT);
    (void) sigaddset(&signals, SIGTERM);
    (void) pthread_sigmask(SIG_BLOCK, &signals, NULL); /* the threads inherit */
    while (started < 4 && !pthread_create(&threads[started], NULL, work, NULL))
        started++;
    if (started > 0)
        (void) sigwait(&signals, &caught);
    atomic_store(&ending, true);
    for (i = 0; i < started; i++)
        (void) pthread_join(threads[i], NULL);
    return HG_Finalize() || NA_Finalize(na); /* calls unanswered: HG_CANCELED */
}
