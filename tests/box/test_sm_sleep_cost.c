/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of sleeping over the transport sm while nothing happens. A process
 * waits in NA_Progress, in HG_Wait, or in a loop over the descriptor, with one
 * silent peer and with a hundred. All its threads together may use one clock
 * tick of processor time and 20 context switches in 10 s.
 *
 * make check measures 2 s and allows fewer switches; with HG_TEST_FULL it is 10
 * s. A busy machine adds switches, so the best of three measurements counts.
 */
#include "endpoints.h"

#include <dirent.h>

#define SLEEP_CLASSES 100u
#define SLEEP_LOOKS 3
#define SLEEP_TICKS 1u

/* The resources a process has used so far. */
struct sleep_use {
    uint64_t ticks;
    uint64_t switches;
};

static unsigned sleep_seconds(void)
{
    return getenv("HG_TEST_FULL") != NULL ? 10 : 2;
}

/* Context switches allowed: a few at the beginning and the end, and for the
 * check of all rings once a second, which may be interrupted. */
static unsigned sleep_most(void)
{
    return sleep_seconds() * 3 / 2 + 5;
}

/* ---- Measuring ---- */

static FILE *sleep_open_file(const char *thread, const char *name)
{
    char path[320];
    FILE *file;

    (void) snprintf(path, sizeof(path), "/proc/self/task/%s/%s", thread, name);
    file = fopen(path, "r");
    HG_CHECK(file != NULL);
    return file;
}

static void sleep_add_thread(const char *thread, struct sleep_use *use)
{
    FILE *file = sleep_open_file(thread, "stat");
    uint64_t user = 0, system = 0, count = 0;
    char line[1024];
    const char *rest;

    HG_CHECK(fgets(line, sizeof(line), file) != NULL);
    (void) fclose(file);
    rest = strrchr(line, ')'); /* the name may contain any character */
    HG_CHECK(rest != NULL);
    HG_CHECK_EQ_INT(
        sscanf(rest + 1,
            " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
            &user, &system),
        2);
    use->ticks += user + system;
    file = sleep_open_file(thread, "status");
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &count) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %" SCNu64, &count) == 1)
            use->switches += count;
    }
    (void) fclose(file);
}

/* Sum over all threads. */
static struct sleep_use sleep_use_now(void)
{
    struct sleep_use use = {0, 0};
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;

    HG_CHECK(threads != NULL);
    while ((entry = readdir(threads)) != NULL) {
        if (entry->d_name[0] != '.')
            sleep_add_thread(entry->d_name, &use);
    }
    (void) closedir(threads);
    return use;
}

/* ---- Ways to wait ---- */

static _Atomic(hg_handle_t) sleep_kept;

/* A call that is never answered. */
static hg_return_t sleep_keep(hg_handle_t handle)
{
    atomic_store(&sleep_kept, handle);
    return HG_SUCCESS;
}

struct sleep_end {
    struct conform_end end;
    hg_request_t request; /* for HG_Wait */
};

static void sleep_in_progress(struct sleep_end *sleeper, unsigned ms)
{
    HG_CHECK_RET(NA_Progress(sleeper->end.na_class, sleeper->end.context, ms),
        NA_TIMEOUT);
}

static void sleep_in_loop(struct sleep_end *sleeper, unsigned ms)
{
    na_class_t *na_class = sleeper->end.na_class;
    na_context_t *context = sleeper->end.context;
    struct pollfd fd = {NA_Poll_get_fd(na_class, context), POLLIN, 0};
    const uint64_t end = endpoint_ms() + ms;
    uint64_t now;

    while ((now = endpoint_ms()) < end) {
        if (NA_Poll_try_wait(na_class, context) == NA_TRUE)
            HG_CHECK(poll(&fd, 1, (int) (end - now)) >= 0);
        (void) conform_turn(na_class, context, 0);
    }
}

static void sleep_in_wait(struct sleep_end *sleeper, unsigned ms)
{
    HG_CHECK_RET(HG_Wait(sleeper->request, ms, HG_STATUS_IGNORE), HG_TIMEOUT);
}

struct sleep_way {
    const char *name;
    void (*wait)(struct sleep_end *sleeper, unsigned ms);
};

static const struct sleep_way sleep_ways[] = {
    {"NA_Progress", sleep_in_progress}, {"loop", sleep_in_loop},
    {"HG_Wait", sleep_in_wait}};

#define SLEEP_WAYS (sizeof(sleep_ways) / sizeof(sleep_ways[0]))

/* ---- Processes ---- */

/* NAME COUNT: COUNT classes that look it up, and then stay silent. */
HG_TEST_ROLE(silent)
{
    na_class_t *classes[SLEEP_CLASSES];
    na_addr_t addrs[SLEEP_CLASSES];
    unsigned count, i;

    HG_CHECK_EQ_INT(argc, 2);
    count = (unsigned) strtoul(argv[1], NULL, 10);
    HG_CHECK(count <= SLEEP_CLASSES);
    for (i = 0; i < count; i++) {
        classes[i] = NA_Initialize("sm://", NA_FALSE);
        HG_CHECK(classes[i] != NULL);
        HG_CHECK_OK(NA_Addr_lookup_wait(
            classes[i], argv[0], CONFORM_TIMEOUT, &addrs[i]));
    }
    hg_test_write_parent("here");
    free(hg_test_read_parent());
    for (i = 0; i < count; i++) {
        HG_CHECK_OK(NA_Addr_free(classes[i], addrs[i]));
        HG_CHECK_OK(NA_Finalize(classes[i]));
    }
}

static void sleep_open(struct sleep_end *sleeper)
{
    hg_id_t id;

    sleeper->end.na_class = NA_Initialize("sm://", NA_TRUE);
    HG_CHECK(sleeper->end.na_class != NULL);
    sleeper->end.context = NA_Context_create(sleeper->end.na_class);
    HG_CHECK(sleeper->end.context != NULL);
    HG_CHECK_OK(NA_Addr_self(sleeper->end.na_class, &sleeper->end.self));
    HG_CHECK_OK(HG_Init(sleeper->end.na_class));
    id = HG_Register("asleep keep", NULL, NULL, sleep_keep);
    HG_CHECK_OK(
        HG_Forward(sleeper->end.self, id, NULL, NULL, &sleeper->request));
    while (atomic_load(&sleep_kept) == HG_HANDLE_NULL)
        (void) HG_Handler_process(100, HG_STATUS_IGNORE);
}

static void sleep_close(struct sleep_end *sleeper)
{
    HG_CHECK_OK(HG_Handler_free(atomic_load(&sleep_kept)));
    HG_CHECK_RET(HG_Wait(sleeper->request, CONFORM_TIMEOUT, HG_STATUS_IGNORE),
        HG_CANCELED);
    HG_CHECK_OK(HG_Request_free(sleeper->request));
    HG_CHECK_OK(HG_Finalize());
    conform_close(&sleeper->end);
}

/* WAY COUNT: with COUNT peers; reports the best measurement. */
HG_TEST_ROLE(sleeper)
{
    struct sleep_use best = {UINT64_MAX, UINT64_MAX};
    const struct sleep_way *way;
    struct sleep_end sleeper;
    struct hg_test_peer *silent;
    char name[NA_MAX_ADDR_LEN], line[64];
    unsigned count, i;

    HG_CHECK_EQ_INT(argc, 2);
    way = &sleep_ways[strtoul(argv[0], NULL, 10)];
    count = (unsigned) strtoul(argv[1], NULL, 10);
    sleep_open(&sleeper);
    endpoint_name(&sleeper.end, sleeper.end.self, name);
    silent = hg_test_spawn("silent", name, argv[1], NULL);
    while (NA_Get_counter(sleeper.end.na_class, "sm_met") < count)
        (void) conform_turn(sleeper.end.na_class, sleeper.end.context, 1);
    free(hg_test_read_peer(silent));
    way->wait(&sleeper, 100);
    for (i = 0; i < SLEEP_LOOKS &&
         (best.ticks > SLEEP_TICKS || best.switches > sleep_most());
         i++) {
        struct sleep_use before = sleep_use_now();

        way->wait(&sleeper, sleep_seconds() * 1000);
        best = sleep_use_now();
        best.ticks -= before.ticks;
        best.switches -= before.switches;
    }
    (void) snprintf(
        line, sizeof(line), "%" PRIu64 " %" PRIu64, best.ticks, best.switches);
    hg_test_write_parent(line);
    hg_test_stop(silent);
    sleep_close(&sleeper);
}

/* All of them at once. */
static void sleep_run(const char *peers)
{
    struct hg_test_peer *sleepers[SLEEP_WAYS];
    char number[4];
    unsigned i;

    for (i = 0; i < SLEEP_WAYS; i++) {
        (void) snprintf(number, sizeof(number), "%u", i);
        sleepers[i] = hg_test_spawn("sleeper", number, peers, NULL);
    }
    for (i = 0; i < SLEEP_WAYS; i++) {
        char *line = hg_test_read_peer(sleepers[i]);
        uint64_t ticks = 0, switches = 0;

        HG_CHECK_EQ_INT(
            sscanf(line, "%" SCNu64 " %" SCNu64, &ticks, &switches), 2);
        printf("# %s, %s peers, %u s: %" PRIu64 " ticks, %" PRIu64
               " switches\n",
            sleep_ways[i].name, peers, sleep_seconds(), ticks, switches);
        HG_CHECK(ticks <= SLEEP_TICKS);
        HG_CHECK(switches <= sleep_most());
        free(line);
        hg_test_stop(sleepers[i]);
    }
}

HG_TEST_WHERE_SECONDS(
    sleep_costs_no_processor_time_with_peers, hg_test_is_plain, 60)
{
    sleep_run("1");
}

HG_TEST_WHERE_SECONDS(
    sleep_costs_nothing_with_a_hundred_peers, hg_test_is_plain, 60)
{
    sleep_run("100");
}
