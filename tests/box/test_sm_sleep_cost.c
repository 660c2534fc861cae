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

#define ASLEEP_CLASSES 100u
#define ASLEEP_LOOKS 3
#define ASLEEP_TICKS 1u

/* The resources a process has used so far. */
struct asleep_use {
    uint64_t ticks;
    uint64_t switches;
};

static unsigned asleep_seconds(void)
{
    return getenv("HG_TEST_FULL") != NULL ? 10 : 2;
}

/* Context switches allowed: a few at the beginning and the end, and for the
 * check of all rings once a second, which may be interrupted. */
static unsigned asleep_most(void)
{
    return asleep_seconds() * 3 / 2 + 5;
}

/* ---- Measuring ---- */

static FILE *asleep_open_file(const char *thread, const char *name)
{
    char path[320];
    FILE *file;

    (void) snprintf(path, sizeof(path), "/proc/self/task/%s/%s", thread, name);
    file = fopen(path, "r");
    HG_CHECK(file != NULL);
    return file;
}

static void asleep_add_thread(const char *thread, struct asleep_use *use)
{
    FILE *file = asleep_open_file(thread, "stat");
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
    file = asleep_open_file(thread, "status");
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &count) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %" SCNu64, &count) == 1)
            use->switches += count;
    }
    (void) fclose(file);
}

/* Sum over all threads. */
static struct asleep_use asleep_use_now(void)
{
    struct asleep_use use = {0, 0};
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;

    HG_CHECK(threads != NULL);
    while ((entry = readdir(threads)) != NULL) {
        if (entry->d_name[0] != '.')
            asleep_add_thread(entry->d_name, &use);
    }
    (void) closedir(threads);
    return use;
}

/* ---- Ways to wait ---- */

static _Atomic(hg_handle_t) asleep_kept;

/* A call that is never answered. */
static hg_return_t asleep_keep(hg_handle_t handle)
{
    atomic_store(&asleep_kept, handle);
    return HG_SUCCESS;
}

struct asleep_end {
    struct conform_end end;
    hg_request_t request; /* for HG_Wait */
};

static void asleep_in_progress(struct asleep_end *sleeper, unsigned ms)
{
    HG_CHECK_RET(NA_Progress(sleeper->end.na_class, sleeper->end.context, ms),
        NA_TIMEOUT);
}

static void asleep_in_loop(struct asleep_end *sleeper, unsigned ms)
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

static void asleep_in_wait(struct asleep_end *sleeper, unsigned ms)
{
    HG_CHECK_RET(HG_Wait(sleeper->request, ms, HG_STATUS_IGNORE), HG_TIMEOUT);
}

struct asleep_way {
    const char *name;
    void (*wait)(struct asleep_end *sleeper, unsigned ms);
};

static const struct asleep_way asleep_ways[] = {
    {"NA_Progress", asleep_in_progress}, {"loop", asleep_in_loop},
    {"HG_Wait", asleep_in_wait}};

#define ASLEEP_WAYS (sizeof(asleep_ways) / sizeof(asleep_ways[0]))

/* ---- Processes ---- */

/* NAME COUNT: COUNT classes that look it up, and then stay silent. */
HG_TEST_ROLE(silent)
{
    na_class_t *classes[ASLEEP_CLASSES];
    na_addr_t addrs[ASLEEP_CLASSES];
    unsigned count, i;

    HG_CHECK_EQ_INT(argc, 2);
    count = (unsigned) strtoul(argv[1], NULL, 10);
    HG_CHECK(count <= ASLEEP_CLASSES);
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

static void asleep_open(struct asleep_end *sleeper)
{
    hg_id_t id;

    sleeper->end.na_class = NA_Initialize("sm://", NA_TRUE);
    HG_CHECK(sleeper->end.na_class != NULL);
    sleeper->end.context = NA_Context_create(sleeper->end.na_class);
    HG_CHECK(sleeper->end.context != NULL);
    HG_CHECK_OK(NA_Addr_self(sleeper->end.na_class, &sleeper->end.self));
    HG_CHECK_OK(HG_Init(sleeper->end.na_class));
    id = HG_Register("asleep keep", NULL, NULL, asleep_keep);
    HG_CHECK_OK(
        HG_Forward(sleeper->end.self, id, NULL, NULL, &sleeper->request));
    while (atomic_load(&asleep_kept) == HG_HANDLE_NULL)
        (void) HG_Handler_process(100, HG_STATUS_IGNORE);
}

static void asleep_close(struct asleep_end *sleeper)
{
    HG_CHECK_OK(HG_Handler_free(atomic_load(&asleep_kept)));
    HG_CHECK_RET(HG_Wait(sleeper->request, CONFORM_TIMEOUT, HG_STATUS_IGNORE),
        HG_CANCELED);
    HG_CHECK_OK(HG_Request_free(sleeper->request));
    HG_CHECK_OK(HG_Finalize());
    conform_close(&sleeper->end);
}

/* WAY COUNT: with COUNT peers; reports the best measurement. */
HG_TEST_ROLE(sleeper)
{
    struct asleep_use best = {UINT64_MAX, UINT64_MAX};
    const struct asleep_way *way;
    struct asleep_end sleeper;
    struct hg_test_peer *silent;
    char name[NA_MAX_ADDR_LEN], line[64];
    unsigned count, i;

    HG_CHECK_EQ_INT(argc, 2);
    way = &asleep_ways[strtoul(argv[0], NULL, 10)];
    count = (unsigned) strtoul(argv[1], NULL, 10);
    asleep_open(&sleeper);
    endpoint_name(&sleeper.end, sleeper.end.self, name);
    silent = hg_test_spawn("silent", name, argv[1], NULL);
    while (NA_Get_counter(sleeper.end.na_class, "sm_met") < count)
        (void) conform_turn(sleeper.end.na_class, sleeper.end.context, 1);
    free(hg_test_read_peer(silent));
    way->wait(&sleeper, 100);
    for (i = 0; i < ASLEEP_LOOKS &&
         (best.ticks > ASLEEP_TICKS || best.switches > asleep_most());
         i++) {
        struct asleep_use before = asleep_use_now();

        way->wait(&sleeper, asleep_seconds() * 1000);
        best = asleep_use_now();
        best.ticks -= before.ticks;
        best.switches -= before.switches;
    }
    (void) snprintf(
        line, sizeof(line), "%" PRIu64 " %" PRIu64, best.ticks, best.switches);
    hg_test_write_parent(line);
    hg_test_stop(silent);
    asleep_close(&sleeper);
}

/* All of them at once. */
static void asleep_run(const char *peers)
{
    struct hg_test_peer *sleepers[ASLEEP_WAYS];
    char number[4];
    unsigned i;

    for (i = 0; i < ASLEEP_WAYS; i++) {
        (void) snprintf(number, sizeof(number), "%u", i);
        sleepers[i] = hg_test_spawn("sleeper", number, peers, NULL);
    }
    for (i = 0; i < ASLEEP_WAYS; i++) {
        char *line = hg_test_read_peer(sleepers[i]);
        uint64_t ticks = 0, switches = 0;

        HG_CHECK_EQ_INT(
            sscanf(line, "%" SCNu64 " %" SCNu64, &ticks, &switches), 2);
        printf("# %s, %s peers, %u s: %" PRIu64 " ticks, %" PRIu64
               " switches\n",
            asleep_ways[i].name, peers, asleep_seconds(), ticks, switches);
        HG_CHECK(ticks <= ASLEEP_TICKS);
        HG_CHECK(switches <= asleep_most());
        free(line);
        hg_test_stop(sleepers[i]);
    }
}

HG_TEST_WHERE_SECONDS(
    sleep_costs_no_processor_time_with_peers, hg_test_is_plain, 60)
{
    asleep_run("1");
}

HG_TEST_WHERE_SECONDS(
    sleep_costs_nothing_with_a_hundred_peers, hg_test_is_plain, 60)
{
    asleep_run("100");
}
