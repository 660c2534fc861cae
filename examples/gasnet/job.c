/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job: gasnet_init(), gasnet_attach(), and what they set up. See gasnet.h.
 *
 *     start of `memory`     page: slots of barriers (struct gasnet_hg_page)
 *     + GASNET_PAGESIZE     the segment, which the client sees
 *
 * Page and segment are one allocation of the library, so that peers on this
 * host map them. If that is not possible they are ordinary memory, which peers
 * reach with NA. With GASNET_SEGMENT_EVERYTHING, `memory` is all memory.
 *
 * State: constants after gasnet_attach(), which one thread calls.
 */
#define _GNU_SOURCE
#include "gasnet_hg.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The card of a node, which it sends to all others in gasnet_attach(). */
struct job_card {
    uint64_t start; /* of the handle's memory */
    uint64_t base;  /* of the segment */
    uint64_t size;  /* of the segment */
    uint32_t handle_size;
    unsigned char handle[1004]; /* serialized */
};

/* A call before gasnet_init() is checked. */
struct gasnet_hg gasnet_hg = {.checked = true};
gasnet_node_t gasnet_hg_rank, gasnet_hg_size = 1;
size_t gasnet_hg_max_medium, gasnet_hg_max_long_reply;
const intptr_t *gasnet_hg_shifts;
static intptr_t *job_shifts; /* the same array */
static bool job_page_is_own; /* not NA's: it stays until the process ends */

/* ---- Words ---- */

static void job_say(const char *format, va_list args)
{
    char text[512];

    (void) vsnprintf(text, sizeof(text), format, args);
    (void) fprintf(stderr, "gasnet: node %u: %s\n", gasnet_hg_rank, text);
    (void) fflush(stderr);
}

void gasnet_hg_fatal(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    job_say(format, args);
    va_end(args);
    /* Providers of libfabric may catch it, to end with another code. */
    (void) signal(SIGABRT, SIG_DFL);
    abort();
}

void gasnet_hg_warn(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    job_say(format, args);
    va_end(args);
}

/* Say what failed, and return the code of gasnet. */
static int job_fail(const char *what, na_return_t ret)
{
    gasnet_hg_warn("%s: %s", what, NA_Error_to_string(ret));
    return GASNET_ERR_RESOURCE;
}

static const struct {
    int code;
    const char *name, *text;
} job_errors[] = {{GASNET_OK, "GASNET_OK", "no error"},
    {GASNET_ERR_NOT_INIT, "GASNET_ERR_NOT_INIT",
        "gasnet_init() or gasnet_attach() was not called, or called twice"},
    {GASNET_ERR_RESOURCE, "GASNET_ERR_RESOURCE",
        "a resource of the network or the system is missing"},
    {GASNET_ERR_BAD_ARG, "GASNET_ERR_BAD_ARG", "an argument is wrong"},
    {GASNET_ERR_NOT_READY, "GASNET_ERR_NOT_READY",
        "the operation is not complete"},
    {GASNET_ERR_BARRIER_MISMATCH, "GASNET_ERR_BARRIER_MISMATCH",
        "nodes passed different ids to a barrier"}};

#define JOB_ERRORS (sizeof(job_errors) / sizeof(job_errors[0]))

const char *gasnet_hg_error_name(int code)
{
    size_t i;

    for (i = 0; i < JOB_ERRORS; i++)
        if (job_errors[i].code == code)
            return job_errors[i].name;
    return "unknown";
}

const char *gasnet_hg_error_text(int code)
{
    size_t i;

    for (i = 0; i < JOB_ERRORS; i++)
        if (job_errors[i].code == code)
            return job_errors[i].text;
    return "no code of GASNet";
}

/* ---- Init ---- */

static bool job_is_near_wanted(void)
{
    const char *text = getenv("GASNET_HG_NEAR");

    return text == NULL || strcmp(text, "0") != 0;
}

/* Nodes that spin on fewer processors would wait for each other's time slice.
 * All processors count, since each node may be bound to one of its own. */
static int job_wait_mode(const struct gasnet_boot *boot)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    long here = 0;
    uint32_t i;

    for (i = 0; i < boot->size; i++)
        here += boot->hosts[i] == boot->hosts[boot->rank];
    return here > processors ? GASNET_WAIT_BLOCK : GASNET_WAIT_SPIN;
}

static int job_make_peers(void)
{
    const struct gasnet_boot *boot = &gasnet_hg.boot;
    uint32_t i;

    job_shifts = (intptr_t *) malloc(boot->size * sizeof(*job_shifts));
    gasnet_hg.peers =
        (struct gasnet_hg_peer *) calloc(boot->size, sizeof(*gasnet_hg.peers));
    if (gasnet_hg.peers == NULL || job_shifts == NULL)
        return job_fail("gasnet_init", NA_NOMEM);
    for (i = 0; i < boot->size; i++) {
        gasnet_hg.peers[i].addr = boot->addrs[i];
        job_shifts[i] = i == boot->rank ? 0 : GASNET_HG_FAR;
    }
    gasnet_hg.peers[boot->rank].apart = true;
    gasnet_hg_shifts = job_shifts;
    return GASNET_OK;
}

int gasnet_hg_init2(
    const struct gasnet_hg_config *config, int *argc, char ***argv)
{
    int ret;

    (void) argc, (void) argv;
    if (gasnet_hg.started)
        return GASNET_ERR_NOT_INIT;
    if (config->size != sizeof(*config)) {
        gasnet_hg_warn("the program was compiled with the gasnet.h of another "
                       "version; compile it again");
        return GASNET_ERR_BAD_ARG;
    }
    gasnet_hg_catch_signals();
    gasnet_hg.threaded = config->mode == 2;
    ret = gasnet_boot_start(&gasnet_hg.boot);
    if (ret != GASNET_OK)
        return ret;
    gasnet_hg_rank = gasnet_hg.boot.rank;
    gasnet_hg_size = gasnet_hg.boot.size;
    gasnet_hg.whole = config->segment == 2;
    gasnet_hg.checked = config->checked != 0;
    gasnet_hg.strict = config->spec == 4;
    gasnet_hg.wait_mode = job_wait_mode(&gasnet_hg.boot);
    ret = job_make_peers();
    if (ret != GASNET_OK)
        return ret;
    gasnet_hg.started = true;
    return gasnet_hg_watch_peers();
}

uintptr_t gasnet_hg_max_segment(const struct gasnet_hg_config *config)
{
    return config->segment == 2 ? UINTPTR_MAX : GASNET_HG_MAX_SEGMENT;
}

int gasnet_set_waitmode(int wait_mode)
{
    if (wait_mode < GASNET_WAIT_SPIN || wait_mode > GASNET_WAIT_SPINBLOCK)
        return GASNET_ERR_BAD_ARG;
    gasnet_hg.wait_mode = wait_mode;
    return GASNET_OK;
}

char *gasnet_getenv(const char *name)
{
    return getenv(name);
}

/* ---- Handlers ---- */

static int job_wrong_entry(int i, unsigned index, const char *why)
{
    gasnet_hg_warn(
        "gasnet_attach: entry %d of the table, handler %u: %s", i, index, why);
    return GASNET_ERR_BAD_ARG;
}

/* Enter the handlers with an index first: the others get what is free, from the
 * top, in the order of the table. Those of a call that failed are removed. */
static int job_register(gasnet_handlerentry_t *table, int numentries)
{
    int i, next = GASNET_HG_HANDLERS - 1;

    memset(gasnet_hg.handlers, 0, sizeof(gasnet_hg.handlers));
    for (i = 0; i < numentries; i++) {
        unsigned index = table[i].index;

        if (table[i].fnptr == NULL)
            return job_wrong_entry(i, index, "no function");
        if (index != 0 && index < GASNET_HG_CLIENT_HANDLERS)
            return job_wrong_entry(i, index, "clients have 128 to 255");
        if (index != 0 && gasnet_hg.handlers[index] != NULL)
            return job_wrong_entry(i, index, "another entry has this index");
        if (index != 0)
            gasnet_hg.handlers[index] = (void (*)(void)) table[i].fnptr;
    }
    for (i = 0; i < numentries; i++) {
        if (table[i].index != 0)
            continue;
        while (next >= GASNET_HG_CLIENT_HANDLERS &&
            gasnet_hg.handlers[next] != NULL)
            next--;
        if (next < GASNET_HG_CLIENT_HANDLERS)
            return job_wrong_entry(i, 0, "no index is free");
        gasnet_hg.handlers[next] = (void (*)(void)) table[i].fnptr;
        table[i].index = (gasnet_handler_t) next;
    }
    return GASNET_OK;
}

/* ---- The segment ---- */

/* The pages that a client named exist. */
static bool job_is_usable(void *base, uintptr_t size)
{
    return base != GASNET_SEGBASE_ANY && base != NULL && size > 0 &&
        (uintptr_t) base % GASNET_PAGESIZE == 0 &&
        msync(base, size, MS_ASYNC) == 0;
}

/* Get memory of NA, if peers may map it. A larger segment reserves no memory:
 * it may be larger than the memory of this host. Over MPI gasnet_exit() closes
 * NA, which frees its memory, while other threads may use the segment. */
static void *job_alloc(size_t size)
{
    void *memory;

    if (size <= GASNET_HG_MAX_SEGMENT + GASNET_PAGESIZE && !gasnet_hg_is_mpi())
        return NA_Mem_alloc(gasnet_hg.boot.na_class, size);
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    job_page_is_own = memory != MAP_FAILED;
    return job_page_is_own ? memory : NULL;
}

/* Make page and segment, and fill in the card. *start_p is the memory that
 * peers reach. */
static int job_make_segment(
    void *base, uintptr_t size, struct job_card *card, void **start_p)
{
    bool given = job_is_usable(base, size);
    bool alone = given || gasnet_hg.whole;
    char *memory = size > SIZE_MAX - GASNET_PAGESIZE && !alone
        ? NULL
        : (char *) job_alloc(GASNET_PAGESIZE + (alone ? 0 : size));

    if (memory == NULL)
        return job_fail("gasnet_attach: the segment", NA_NOMEM);
    gasnet_hg.page = (struct gasnet_hg_page *) (void *) memory;
    if (gasnet_hg.whole) {
        gasnet_hg.segment.addr = NULL;
        gasnet_hg.segment.size = UINTPTR_MAX;
        *start_p = (void *) (uintptr_t) GASNET_HG_ALL_START;
    } else {
        gasnet_hg.segment.addr = given ? base : memory + GASNET_PAGESIZE;
        gasnet_hg.segment.size = size;
        *start_p = given ? base : memory;
    }
    card->start = (uintptr_t) *start_p;
    card->base = (uintptr_t) gasnet_hg.segment.addr;
    card->size = gasnet_hg.segment.size;
    return GASNET_OK;
}

/* Register what peers reach, and write its handle on the card. */
static int job_register_memory(struct job_card *card, void *start)
{
    na_class_t *na_class = gasnet_hg.boot.na_class;
    struct gasnet_hg_peer *self = &gasnet_hg.peers[gasnet_hg_rank];
    uint64_t size = gasnet_hg.whole ? GASNET_HG_ALL_SIZE
                                    : card->base + card->size - card->start;
    na_size_t bytes;
    na_return_t ret;

    ret =
        NA_Mem_handle_create(na_class, (void *) (uintptr_t) GASNET_HG_ALL_START,
            GASNET_HG_ALL_SIZE, NA_MEM_READWRITE, &gasnet_hg.everything);
    if (ret == NA_SUCCESS)
        ret = NA_Mem_handle_create(
            na_class, start, size, NA_MEM_READWRITE, &self->memory);
    if (ret == NA_SUCCESS)
        ret = NA_Mem_register(na_class, self->memory);
    if (ret != NA_SUCCESS)
        return job_fail("gasnet_attach: the segment", ret);
    bytes = NA_Mem_handle_get_serialize_size(na_class, self->memory);
    if (bytes == 0 || bytes > sizeof(card->handle))
        return job_fail("gasnet_attach: the handle", NA_MSGSIZE);
    card->handle_size = (uint32_t) bytes;
    ret = NA_Mem_handle_serialize(na_class, card->handle, bytes, self->memory);
    return ret == NA_SUCCESS ? GASNET_OK
                             : job_fail("gasnet_attach: the handle", ret);
}

/* Map page and segment of a node of this host, if the transport can. */
static void job_map_peer(uint32_t node, intptr_t *shift_p)
{
    struct gasnet_hg_peer *peer = &gasnet_hg.peers[node];
    void *here;

    if (NA_Mem_map(gasnet_hg.boot.na_class, peer->memory, peer->addr, &here) !=
        NA_SUCCESS)
        return;
    if (peer->start + GASNET_PAGESIZE == peer->base)
        peer->page = (struct gasnet_hg_page *) here;
    peer->mapped = here;
    *shift_p = (intptr_t) ((uintptr_t) here - peer->start);
}

static int job_read_card(uint32_t node, const struct job_card *card)
{
    struct gasnet_hg_peer *peer = &gasnet_hg.peers[node];
    na_return_t ret;

    peer->start = (uintptr_t) card->start;
    peer->base = (uintptr_t) card->base;
    peer->size = (uintptr_t) card->size;
    atomic_init(&peer->credits, GASNET_HG_CREDITS);
    if (node == gasnet_hg_rank)
        return GASNET_OK;
    if (card->handle_size > sizeof(card->handle))
        return job_fail("gasnet_attach: the handle of a node", NA_MSGSIZE);
    ret = NA_Mem_handle_deserialize(gasnet_hg.boot.na_class, &peer->memory,
        card->handle, card->handle_size);
    if (ret != NA_SUCCESS)
        return job_fail("gasnet_attach: the handle of a node", ret);
    if (!gasnet_hg.whole && job_is_near_wanted())
        job_map_peer(node, &job_shifts[node]);
    return GASNET_OK;
}

/* Exchange the cards; then wait until all nodes have read theirs. */
static int job_exchange(const struct job_card *mine)
{
    struct job_card *cards =
        (struct job_card *) calloc(gasnet_hg_size, sizeof(*cards));
    char read[1] = {0}, *all = (char *) calloc(gasnet_hg_size, sizeof(read));
    uint32_t i, near = 0;
    int ret = GASNET_OK;

    if (cards == NULL || all == NULL)
        return job_fail("gasnet_attach", NA_NOMEM);
    if (gasnet_boot_exchange(&gasnet_hg.boot, mine, sizeof(*mine), cards) !=
        GASNET_OK)
        gasnet_hg_wait_for_end();
    for (i = 0; ret == GASNET_OK && i < gasnet_hg_size; i++) {
        ret = job_read_card(i, &cards[i]);
        near += job_shifts[i] != GASNET_HG_FAR;
    }
    gasnet_hg.all_near = near == gasnet_hg_size;
    if (ret == GASNET_OK &&
        gasnet_boot_exchange(&gasnet_hg.boot, read, sizeof(read), all) !=
            GASNET_OK)
        gasnet_hg_wait_for_end();
    free(cards);
    free(all);
    return ret;
}

void gasnet_hg_detach(void)
{
    na_class_t *na_class = gasnet_hg.boot.na_class;
    uint32_t i;

    for (i = 0; i < gasnet_hg_size; i++) {
        struct gasnet_hg_peer *peer = &gasnet_hg.peers[i];

        if (peer->mapped != NULL)
            (void) NA_Mem_unmap(na_class, peer->mapped);
        if (peer->memory != NULL)
            (void) NA_Mem_handle_free(na_class, peer->memory);
    }
    if (gasnet_hg.everything != NULL)
        (void) NA_Mem_handle_free(na_class, gasnet_hg.everything);
    if (gasnet_hg.page != NULL && !job_page_is_own)
        (void) NA_Mem_free(na_class, gasnet_hg.page);
}

static int job_attach(
    gasnet_handlerentry_t *table, int numentries, void *base, uintptr_t size)
{
    struct job_card mine = {0};
    void *start = NULL;
    int ret;

    if (!gasnet_hg.started || gasnet_hg.attached)
        return GASNET_ERR_NOT_INIT;
    if (numentries < 0 || (numentries > 0 && table == NULL))
        return GASNET_ERR_BAD_ARG;
    if (size % GASNET_PAGESIZE != 0 && !gasnet_hg.whole) {
        gasnet_hg_warn("gasnet_attach: a segment of %zu bytes is no multiple "
                       "of GASNET_PAGESIZE",
            (size_t) size);
        return GASNET_ERR_BAD_ARG;
    }
    ret = job_register(table, numentries);
    if (ret == GASNET_OK)
        ret = job_make_segment(base, size, &mine, &start);
    if (ret == GASNET_OK)
        ret = job_register_memory(&mine, start);
    if (ret == GASNET_OK)
        ret = job_exchange(&mine);
    if (ret == GASNET_OK)
        ret = gasnet_hg_am_start();
    gasnet_hg.attached = ret == GASNET_OK;
    gasnet_hg.plain = gasnet_hg.attached && !gasnet_hg.checked;
    return ret;
}

int gasnet_attach(gasnet_handlerentry_t *table, int numentries,
    uintptr_t segsize, uintptr_t minheapoffset)
{
    (void) minheapoffset;
    return job_attach(table, numentries, GASNET_SEGBASE_ANY, segsize);
}

int gasnet_hg_init7(const struct gasnet_hg_config *config, int *argc,
    char ***argv, gasnet_handlerentry_t *table, int numentries, void *segbase,
    uintptr_t segsize, int allow_faults)
{
    struct gasnet_hg_config old = *config;
    int ret;

    (void) allow_faults;
    old.spec = 4;
    if (segsize == GASNET_SEGSIZE_EVERYTHING)
        old.segment = 2;
    ret = gasnet_hg_init2(&old, argc, argv);
    if (ret == GASNET_OK)
        ret = job_attach(table, numentries, segbase, segsize);
    return ret;
}

/* ---- Queries ---- */

int gasnet_getSegmentInfo(gasnet_seginfo_t *table, int numentries)
{
    int i;

    if (!gasnet_hg.attached)
        return GASNET_ERR_NOT_INIT;
    if (table == NULL || numentries < 0)
        return GASNET_ERR_BAD_ARG;
    for (i = 0; i < numentries && (uint32_t) i < gasnet_hg_size; i++) {
        table[i].addr = (void *) gasnet_hg.peers[i].base;
        table[i].size = gasnet_hg.peers[i].size;
    }
    return GASNET_OK;
}

/* A host is a supernode, whether or not its segments are mapped. */
int gasnet_getNodeInfo(gasnet_nodeinfo_t *table, int numentries)
{
    const uint32_t *hosts = gasnet_hg.boot.hosts;
    uint32_t i, count = 0;

    if (!gasnet_hg.started)
        return GASNET_ERR_NOT_INIT;
    if (table == NULL || numentries < 0)
        return GASNET_ERR_BAD_ARG;
    for (i = 0; i < (uint32_t) numentries && i < gasnet_hg_size; i++) {
        table[i].host = hosts[i] == i ? count++ : table[hosts[i]].host;
        table[i].supernode = table[i].host;
    }
    return GASNET_OK;
}
