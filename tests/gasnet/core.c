/* SPDX-License-Identifier: BSD-3-Clause */
/* core: codes of errors, handler tables, limits, flow control, exit. */
#define _POSIX_C_SOURCE 200809L
#define GASNET_PAR 1
#include "jobs.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if GASNET_ERR_RESOURCE_FAILURE != GASNET_ERR_RESOURCE || GASNET_OK != 0 || \
    GASNET_VERSION != 1 || GASNET_ALIGNED_SEGMENTS != 0 || \
    SIZEOF_GASNET_REGISTER_T != SIZEOF_GASNET_REGISTER_VALUE_T || \
    SIZEOF_GASNET_REGISTER_T < 4 || GASNET_MAXNODES < 1024
#error "constants of gasnet.h"
#endif

static _Atomic int core_count;

static void core_short(gasnet_token_t token)
{
    (void) token;
    core_count++;
}

static void core_other(gasnet_token_t token)
{
    (void) token;
}

/* ---- Codes ---- */

static void core_before_init(uintptr_t *native_p)
{
    gasnet_seginfo_t info;

    CHECK(gasnet_AMPoll() == GASNET_ERR_NOT_INIT);
    CHECK(gasnet_AMRequestShort0(0, 200) == GASNET_ERR_NOT_INIT);
    CHECK(gasnet_getSegmentInfo(&info, 1) == GASNET_ERR_NOT_INIT);
    CHECK(gasnet_attach(NULL, 0, 0, 0) == GASNET_ERR_NOT_INIT);
    *native_p = gasnet_getMaxNativeSegmentSize();
    CHECK(*native_p >= (1u << 20) && *native_p % GASNET_PAGESIZE == 0);
}

static void core_wrong_tables(void)
{
    gasnet_handlerentry_t low = HANDLER(127, core_short);
    gasnet_handlerentry_t none = {200, NULL};
    gasnet_handlerentry_t twice[] = {
        HANDLER(200, core_short), HANDLER(200, core_other)};
    gasnet_handlerentry_t many[129];
    int i;

    CHECK(gasnet_attach(&low, 1, 0, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_attach(&none, 1, 0, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_attach(twice, 2, 0, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_attach(NULL, 1, 0, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_attach(NULL, -1, 0, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_attach(NULL, 0, GASNET_PAGESIZE + 1, 0) == GASNET_ERR_BAD_ARG);
    for (i = 0; i < 129; i++) {
        many[i].index = 0;
        many[i].fnptr = (void (*)()) core_short;
    }
    CHECK(gasnet_attach(many, 129, 0, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_AMPoll() == GASNET_ERR_NOT_INIT);
}

/* Indices that the library chooses: free ones, the same on all nodes. */
static void core_right_table(void)
{
    gasnet_handlerentry_t table[] = {HANDLER(0, core_short),
        HANDLER(255, core_other), HANDLER(128, core_other),
        HANDLER(0, core_other)};

    CHECK(gasnet_attach(table, 4, GASNET_PAGESIZE, 0) == GASNET_OK);
    CHECK(table[1].index == 255 && table[2].index == 128);
    CHECK(table[0].index > 128 && table[0].index < 255);
    CHECK(table[3].index > 128 && table[3].index < 255);
    CHECK(table[0].index != table[3].index);
    CHECK(gasnet_attach(NULL, 0, 0, 0) == GASNET_ERR_NOT_INIT);
    BARRIER();
    CHECK(gasnet_AMRequestShort0((gasnet_mynode() + 1) % gasnet_nodes(),
              table[0].index) == GASNET_OK);
    GASNET_BLOCKUNTIL(core_count == 1);
}

static void core_wrong_arguments(void)
{
    gasnet_node_t peer = (gasnet_mynode() + 1) % gasnet_nodes(), node;
    char byte = 0;

    CHECK(gasnet_AMRequestShort0(gasnet_nodes(), 200) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_AMRequestMedium0(peer, 200, &byte, gasnet_AMMaxMedium() + 1) ==
        GASNET_ERR_BAD_ARG);
    CHECK(gasnet_AMRequestLong0(peer, 200, &byte, gasnet_AMMaxLongRequest() + 1,
              &byte) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_AMGetMsgSource(NULL, &node) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_AMReplyShort0(NULL, 200) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_set_waitmode(99) == GASNET_ERR_BAD_ARG);
    CHECK(gasnet_set_waitmode(GASNET_WAIT_BLOCK) == GASNET_OK);
    CHECK(gasnet_set_waitmode(GASNET_WAIT_SPINBLOCK) == GASNET_OK);
    CHECK(gasnet_AMMaxArgs() >= 16 && gasnet_AMMaxMedium() >= 512);
    CHECK(gasnet_AMMaxLongRequest() >= 512 && gasnet_AMMaxLongReply() >= 512);
    CHECK(strcmp(gasnet_ErrorName(GASNET_ERR_BAD_ARG), "GASNET_ERR_BAD_ARG") ==
        0);
    CHECK(*gasnet_ErrorDesc(GASNET_ERR_NOT_READY) != '\0');
    CHECK(*gasnet_ErrorDesc(12345) != '\0');
    CHECK(gasnet_getenv("PATH") == getenv("PATH"));
    CHECK(gasnet_getenv("GASNET_HG_NO_SUCH") == NULL);
}

/* A table of another length than the job. */
static void core_tables_of_nodes(void)
{
    gasnet_seginfo_t segments[2] = {{NULL, 1}, {NULL, 1}};
    gasnet_nodeinfo_t nodes[9] = {{7, 7}};

    CHECK(gasnet_getSegmentInfo(segments, 1) == GASNET_OK);
    CHECK(segments[0].size == GASNET_PAGESIZE && segments[1].size == 1);
    CHECK((uintptr_t) segments[0].addr % GASNET_PAGESIZE == 0);
    CHECK(gasnet_getSegmentInfo(NULL, 1) == GASNET_ERR_BAD_ARG);
    nodes[8].host = 7;
    CHECK(gasnet_getNodeInfo(nodes, 9) == GASNET_OK);
    CHECK(nodes[0].host == 0 && nodes[0].supernode == 0 && nodes[8].host == 7);
    CHECK(nodes[gasnet_nodes() - 1].host == 0); /* all are here */
}

static void core_codes(int argc, char *argv[])
{
    uintptr_t native;

    core_before_init(&native);
    CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
    CHECK(gasnet_init(&argc, &argv) == GASNET_ERR_NOT_INIT);
    CHECK(gasnet_getMaxNativeSegmentSize() == native);
    CHECK(gasnet_getMaxLocalSegmentSize() >= gasnet_getMaxGlobalSegmentSize());
    core_wrong_tables();
    core_right_table();
    core_wrong_arguments();
    core_tables_of_nodes();
    BARRIER();
    gasnet_exit(0);
}

/* A segment that is too large; a client may then ask for a smaller one. */
static void core_too_large(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {HANDLER(200, core_short)};

    CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
    CHECK(
        gasnet_attach(table, 1, (uintptr_t) 1 << 62, 0) == GASNET_ERR_RESOURCE);
    CHECK(gasnet_attach(table, 1, (uintptr_t) 0 - GASNET_PAGESIZE, 0) ==
        GASNET_ERR_RESOURCE);
    CHECK(gasnet_attach(table, 1, GASNET_PAGESIZE, 0) == GASNET_OK);
    BARRIER();
    gasnet_exit(0);
}

/* The library has another gasnet.h than the program. */
static void core_version(int argc, char *argv[])
{
    struct gasnet_hg_config other = gasnet_hg_config;

    other.size++;
    CHECK(gasnet_hg_init2(&other, &argc, &argv) == GASNET_ERR_BAD_ARG);
    gasnet_exit(0);
}

/* ---- Handlers ---- */

/* Node 0 uses an index that nobody has registered. */
static void core_unregistered(int argc, char *argv[])
{
    START(NULL, 0, 0);
    BARRIER();
    if (gasnet_mynode() == 0)
        CHECK(gasnet_AMRequestShort0(gasnet_nodes() - 1, 234) == GASNET_OK);
    GASNET_BLOCKUNTIL(0);
}

/* Requests without replies to a node that computes: none is lost, and the
 * sender waits. */
static void core_flood(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {HANDLER(200, core_short)};
    const struct timespec computes = {jobs_is_full() ? 5 : 0, 200000000};
    int i, count = jobs_is_full() ? 1000000 : 20000;
    gasnet_node_t last;

    START(table, 1, 0);
    last = gasnet_nodes() - 1;
    BARRIER();
    if (gasnet_mynode() == last) {
        (void) nanosleep(&computes, NULL);
        GASNET_BLOCKUNTIL(core_count == count * (int) last);
    } else
        for (i = 0; i < count; i++)
            CHECK(gasnet_AMRequestShort0(last, 200) == GASNET_OK);
    BARRIER();
    gasnet_exit(0);
}

static int *core_sent; /* in the segment of node 1 */

/* Node 1 polls for the first time: how many requests were sent by then? */
static void core_note(gasnet_token_t token)
{
    (void) token;
    core_sent[1] = core_sent[0];
}

static void core_answer(gasnet_token_t token)
{
    CHECK(gasnet_AMReplyShort0(token, 202) == GASNET_OK);
}

static void core_drop(gasnet_token_t token, void *payload, size_t size)
{
    (void) token;
    (void) payload;
    (void) size;
}

/* The credits of requests without replies come back with the reply to another
 * one, and all those of a large request: a node that lost one in each round
 * would wait for ever. */
static void core_get_credits_back(void)
{
    size_t medium = gasnet_AMMaxMedium();
    char *bytes = (char *) calloc(1, medium);
    int i;

    CHECK(bytes != NULL);
    for (i = 0; i < 200; i++) {
        CHECK(gasnet_AMRequestShort0(0, 202) == GASNET_OK);
        CHECK(gasnet_AMRequestShort0(0, 203) == GASNET_OK);
        CHECK(gasnet_AMRequestMedium0(0, 204, bytes, medium) == GASNET_OK);
    }
    free(bytes);
}

/* A node that does not poll gets 64 requests. Both segments are mapped. */
static void core_credits(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {HANDLER(200, core_short),
        HANDLER(201, core_note), HANDLER(202, core_other),
        HANDLER(203, core_answer), HANDLER(204, core_drop)};
    enum { CREDITS = 64, COUNT = 1000 };
    gasnet_seginfo_t info[2];
    int i, sent = 0;

    START(table, 5, GASNET_PAGESIZE);
    CHECK(gasnet_getSegmentInfo(info, 2) == GASNET_OK);
    core_sent = (int *) info[1].addr;
    BARRIER();
    if (gasnet_mynode() == 1) {
        for (i = 0; i < COUNT; i++) {
            __atomic_store_n(core_sent, i, __ATOMIC_RELEASE);
            CHECK(gasnet_AMRequestShort0(0, 200) == GASNET_OK);
        }
        GASNET_BLOCKUNTIL(core_sent[1] != 0);
        core_get_credits_back();
    } else {
        while ((int) gasnet_get_val(1, core_sent, sizeof(int)) < CREDITS)
            ;
        CHECK(gasnet_AMRequestShort0(1, 201) == GASNET_OK);
        do
            sent = (int) gasnet_get_val(1, core_sent + 1, sizeof(int));
        while (sent == 0);
        CHECK(sent == CREDITS);
        GASNET_BLOCKUNTIL(core_count == COUNT);
    }
    BARRIER();
    gasnet_exit(0);
}

/* ---- Payloads ---- */

#define CORE_SEGMENT ((uintptr_t) 1 << 20) /* requests, then replies */

static gasnet_seginfo_t core_segments[8];
static char *core_bytes; /* CORE_SEGMENT */
static _Atomic unsigned core_replies;

static int core_is_right(const void *payload, size_t size)
{
    return memcmp(payload, core_bytes, size) == 0;
}

static void core_medium(gasnet_token_t token, void *payload, size_t size)
{
    CHECK(core_is_right(payload, size));
    CHECK(gasnet_AMReplyMedium0(token, 201, payload, size) == GASNET_OK);
    CHECK(core_is_right(payload, size)); /* a reply has a copy of its own */
}

static void core_long(gasnet_token_t token, void *payload, size_t size)
{
    size_t back = size <= gasnet_AMMaxLongReply() ? size : 0;
    gasnet_node_t source;

    CHECK(core_is_right(payload, size));
    CHECK(payload == core_segments[gasnet_mynode()].addr);
    CHECK(gasnet_AMGetMsgSource(token, &source) == GASNET_OK);
    CHECK(gasnet_AMReplyLong0(token, 201, payload, back,
              (char *) core_segments[source].addr + CORE_SEGMENT / 2) ==
        GASNET_OK);
    /* A second reply is refused; GASNET_DEBUG ends the job. */
    CHECK(gasnet_AMReplyShort0(token, 201) == GASNET_ERR_BAD_ARG);
}

/* A payload belongs to its handler. */
static void core_reply(gasnet_token_t token, void *payload, size_t size)
{
    CHECK(core_is_right(payload, size));
    memset(payload, 0xff, size);
    CHECK(gasnet_AMReplyShort0(token, 201) == GASNET_ERR_BAD_ARG);
    core_replies++;
}

static void core_short_request(gasnet_token_t token)
{
    CHECK(gasnet_AMReplyMedium0(token, 201, core_bytes, 1) == GASNET_OK);
}

static void core_payloads_start(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {HANDLER(200, core_medium),
        HANDLER(201, core_reply), HANDLER(202, core_long),
        HANDLER(203, core_short_request)};
    size_t i;

    START(table, 4, CORE_SEGMENT);
    CHECK(gasnet_getSegmentInfo(core_segments, 8) == GASNET_OK);
    core_bytes = (char *) malloc(CORE_SEGMENT);
    CHECK(core_bytes != NULL);
    for (i = 0; i < CORE_SEGMENT; i++)
        core_bytes[i] = (char) (i * 7 + i / 256);
    BARRIER();
}

/* Payloads of no byte, around the limits, and long ones of half a segment. */
static void core_payloads(int argc, char *argv[])
{
    static const size_t sizes[] = {0, 1, 200, 224, 232, 233, 256, 257, 16384};
    size_t medium, i, all[14] = {0};
    gasnet_node_t peer;
    unsigned sent = 0;

    core_payloads_start(argc, argv);
    peer = (gasnet_mynode() + 1) % gasnet_nodes();
    medium = gasnet_AMMaxMedium();
    CHECK(gasnet_AMMaxLongReply() ==
        (gasnet_hg_shifts[peer] == GASNET_HG_FAR ? medium
                                                 : gasnet_AMMaxLongRequest()));
    memcpy(all, sizes, sizeof(sizes));
    all[9] = medium - 1;
    all[10] = medium;
    all[11] = medium + 1;
    all[12] = gasnet_AMMaxLongReply() < CORE_SEGMENT / 2
        ? gasnet_AMMaxLongReply()
        : CORE_SEGMENT / 2;
    all[13] = CORE_SEGMENT / 2;
    for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i] <= medium) {
            CHECK(gasnet_AMRequestMedium0(peer, 200, core_bytes, all[i]) ==
                GASNET_OK);
            sent++;
        }
        CHECK(gasnet_AMRequestLong0(peer, 202, core_bytes, all[i],
                  core_segments[peer].addr) == GASNET_OK);
        sent++;
        GASNET_BLOCKUNTIL(core_replies == sent);
        CHECK(gasnet_AMRequestLongAsync0(peer, 202, core_bytes, all[i],
                  core_segments[peer].addr) == GASNET_OK);
        sent++;
        GASNET_BLOCKUNTIL(core_replies == sent);
    }
    BARRIER();
    gasnet_exit(0);
}

#define CORE_THREADS 4

static void *core_send(void *arg)
{
    gasnet_node_t peer = (gasnet_mynode() + 1) % gasnet_nodes();
    unsigned i, count = jobs_is_full() ? 100000 : 500;

    for (i = 0; i < count; i++) {
        CHECK(gasnet_AMRequestShort0(peer, 203) == GASNET_OK);
        CHECK(gasnet_AMRequestMedium0(peer, 200, core_bytes, i % 600) ==
            GASNET_OK);
    }
    *(unsigned *) arg += 2 * count;
    return NULL;
}

/* Threads that send requests at the same time run each other's handlers. */
static void core_senders(int argc, char *argv[])
{
    pthread_t threads[CORE_THREADS];
    unsigned sent[CORE_THREADS] = {0}, all = 0, i;

    core_payloads_start(argc, argv);
    for (i = 0; i < CORE_THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, core_send, &sent[i]) == 0);
    for (i = 0; i < CORE_THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        all += sent[i];
    }
    GASNET_BLOCKUNTIL(core_replies == all);
    BARRIER();
    gasnet_exit(0);
}

/* ---- Exit ---- */

static void core_echo(gasnet_token_t token)
{
    core_count++;
    CHECK(gasnet_AMReplyShort0(token, 201) == GASNET_OK);
}

static void core_print_left(void)
{
    (void) printf("left\n");
}

/* The last node calls gasnet_exit() while requests arrive. */
static void core_leaves(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {
        HANDLER(200, core_echo), HANDLER(201, core_other)};
    gasnet_node_t last;

    START(table, 2, 0);
    last = gasnet_nodes() - 1;
    BARRIER();
    if (gasnet_mynode() == last) {
        CHECK(atexit(core_print_left) == 0);
        GASNET_BLOCKUNTIL(core_count > 0);
        gasnet_exit(0x1c7); /* of which a process has 8 bits */
    }
    for (;;)
        CHECK(gasnet_AMRequestShort0(last, 200) == GASNET_OK);
}

static _Atomic int core_ended;

static void *core_poll(void *arg)
{
    while (!core_ended)
        CHECK(gasnet_AMPoll() == GASNET_OK);
    return arg;
}

static void core_count_medium(gasnet_token_t token, void *payload, size_t size)
{
    (void) token, (void) payload, (void) size;
    core_count++;
}

/* Messages that the last node sends before gasnet_exit() arrive, also if the
 * program was started with blocked signals. */
static void core_flushes(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {HANDLER(200, core_count_medium)};
    enum { COUNT = 60, SIZE = 8000 };
    static char bytes[SIZE];
    sigset_t set;
    int i;

    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGHUP) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    START(table, 1, 0);
    BARRIER();
    if (gasnet_mynode() == 0) {
        CHECK(signal(SIGQUIT, SIG_IGN) != SIG_ERR); /* of the launcher */
        GASNET_BLOCKUNTIL(core_count == COUNT);
        (void) printf("all\n");
    } else
        for (i = 0; i < COUNT; i++)
            CHECK(gasnet_AMRequestMedium0(0, 200, bytes, SIZE) == GASNET_OK);
    gasnet_exit(0);
}

static void core_stay(gasnet_token_t token)
{
    (void) token;
    core_count++;
    for (;;)
        ;
}

/* gasnet_exit() while another thread stays in a handler: the process ends as it
 * is, and runs no function of atexit(). */
static void core_stays(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {HANDLER(200, core_stay)};
    pthread_t thread;

    START(table, 1, 0);
    BARRIER();
    if (gasnet_mynode() != 0) {
        CHECK(gasnet_AMRequestShort0(0, 200) == GASNET_OK);
        GASNET_BLOCKUNTIL(0);
    }
    CHECK(atexit(core_print_left) == 0);
    CHECK(pthread_create(&thread, NULL, core_poll, NULL) == 0);
    while (core_count == 0)
        ;
    gasnet_exit(5);
}

static void *core_exit(void *arg)
{
    (void) pthread_barrier_wait((pthread_barrier_t *) arg);
    gasnet_exit(7);
    return NULL;
}

/* Several threads of all nodes call gasnet_exit(), others poll. */
static void core_exits(int argc, char *argv[])
{
    static pthread_barrier_t together;
    pthread_t threads[2 * CORE_THREADS];
    int i;

    START(NULL, 0, 0);
    CHECK(pthread_barrier_init(&together, NULL, 1 + CORE_THREADS) == 0);
    for (i = 0; i < 2 * CORE_THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL,
                  i % 2 == 0 ? core_exit : core_poll, &together) == 0);
    BARRIER();
    (void) core_exit(&together);
}

/* ---- Locks ---- */

static void *core_try(void *arg)
{
    gasnet_hsl_t *hsl = (gasnet_hsl_t *) arg;

    if (gasnet_hsl_trylock(hsl) != GASNET_OK)
        return NULL;
    gasnet_hsl_unlock(hsl);
    return arg;
}

/* Whether another thread can lock it. */
static int core_is_free(gasnet_hsl_t *hsl)
{
    pthread_t thread;
    void *locked;

    CHECK(pthread_create(&thread, NULL, core_try, hsl) == 0);
    CHECK(pthread_join(thread, &locked) == 0);
    return locked != NULL;
}

static void core_locks(int argc, char *argv[])
{
    static gasnet_hsl_t fixed = GASNET_HSL_INITIALIZER;
    gasnet_hsl_t made, *all[2] = {&fixed, &made};
    int i;

    START(NULL, 0, 0);
    gasnet_hsl_init(&made);
    for (i = 0; i < 2; i++) {
        CHECK(core_is_free(all[i]));
        gasnet_hsl_lock(all[i]);
        CHECK(!core_is_free(all[i]));
        gasnet_hsl_unlock(all[i]);
        CHECK(gasnet_hsl_trylock(all[i]) == GASNET_OK);
        CHECK(!core_is_free(all[i]));
        gasnet_hsl_unlock(all[i]);
        CHECK(core_is_free(all[i]));
    }
    gasnet_hsl_destroy(&made);
    gasnet_hsl_init(&made);
    gasnet_hsl_destroy(&made);
    gasnet_exit(0);
}

/* ---- Barriers ---- */

static void *core_wait(void *arg)
{
    CHECK(gasnet_barrier_wait(*(int *) arg, 0) == GASNET_OK);
    return NULL;
}

/* Nodes that agree until one waits for another name, or says so itself. */
static void core_mismatches(int id)
{
    gasnet_node_t last = gasnet_nodes() - 1;

    gasnet_barrier_notify(id, 0);
    CHECK(gasnet_barrier_wait(gasnet_mynode() == last ? id + 1 : id, 0) ==
        (gasnet_mynode() == last ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK));
    gasnet_barrier_notify(
        id, gasnet_mynode() == last ? GASNET_BARRIERFLAG_MISMATCH : 0);
    CHECK(gasnet_barrier_wait(id, 0) == GASNET_ERR_BARRIER_MISMATCH);
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_UNNAMED);
    CHECK(gasnet_barrier_wait(
              0, GASNET_BARRIERFLAG_UNNAMED | GASNET_BARRIERFLAG_MISMATCH) ==
        GASNET_ERR_BARRIER_MISMATCH);
}

/* One thread notifies, another one waits; both forms of the calls. */
static void core_barriers(int argc, char *argv[])
{
    int i, id = 0, ret;

    START(NULL, 0, 0);
    for (i = 0; i < 20; i++) {
        pthread_t thread;

        gasnet_barrier_notify(i, 0);
        CHECK(pthread_create(&thread, NULL, core_wait, &i) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(gasnet_barrier_result(&id) == 0 && id == i);
        gasnet_barrier_notify(i);
        CHECK(gasnet_barrier_wait(i) == GASNET_OK);
        gasnet_barrier_notify(GASNET_ANONYMOUS_BARRIER);
        do
            ret = gasnet_barrier_try(GASNET_ANONYMOUS_BARRIER);
        while (ret == GASNET_ERR_NOT_READY);
        CHECK(ret == GASNET_OK && gasnet_barrier_result(&id) == 1);
        /* Node 0 has a name, the others have none. */
        gasnet_barrier_notify(
            gasnet_mynode() == 0 ? 5 : GASNET_ANONYMOUS_BARRIER);
        CHECK(gasnet_barrier_wait(5) == GASNET_OK);
        gasnet_barrier_notify((int) gasnet_mynode());
        ret = gasnet_barrier_wait((int) gasnet_mynode());
        CHECK(ret ==
            (gasnet_nodes() == 1 ? GASNET_OK : GASNET_ERR_BARRIER_MISMATCH));
        core_mismatches(i);
    }
    gasnet_exit(0);
}

/* Threads that poll advance the barrier, too. */
static void core_pollers(int argc, char *argv[])
{
    int i, differs, rounds = jobs_is_full() ? 20000 : 200;
    pthread_t threads[2];

    START(NULL, 0, 0);
    for (i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, core_poll, NULL) == 0);
    for (i = 0; i < rounds; i++) {
        differs = i % 3 == 0 && gasnet_nodes() > 1;
        gasnet_barrier_notify(differs ? (int) gasnet_mynode() : i, 0);
        CHECK(gasnet_barrier_wait(differs ? (int) gasnet_mynode() : i, 0) ==
            (differs ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK));
    }
    core_ended = 1;
    for (i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    gasnet_exit(0);
}

const struct jobs_case jobs_core[] = {{"codes", core_codes},
    {"too_large", core_too_large}, {"version", core_version},
    {"unregistered", core_unregistered}, {"flood", core_flood},
    {"payloads", core_payloads}, {"senders", core_senders},
    {"credits", core_credits}, {"flushes", core_flushes}, {"stays", core_stays},
    {"exits_in_threads", core_exits}, {"locks", core_locks},
    {"leaves", core_leaves}, {"barriers", core_barriers},
    {"pollers", core_pollers}, {NULL, NULL}};
