/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counts: the cost of one warm echo of 64 bytes, in events that can be counted.
 *
 *     counts                  prints the table
 *     counts --steps [MODEL]  lists each event of an echo, in order, and its
 *                             place; MODEL is sm, self or sm-callback
 *     counts CASE             compares the table with counts.txt, for tests/run
 *
 * Client and server are two children (one, over self) that run in turns: the
 * client calls, the server serves, the client reads the response. After
 * COUNTS_WARM echoes the children are executed instruction by instruction
 * (PTRACE_SINGLESTEP), and each instruction is examined before it is executed.
 * All three processes are forks of one program, so an address means the same in
 * each. The library is unchanged, and compiled without HG_DEBUG.
 *
 * These are counted:
 * - mutex pairs: pthread_mutex_unlock is entered. The lock of a class is no
 *   mutex: entering it is a locked instruction.
 * - locked instructions: those with a lock prefix, xchg with memory, mfence;
 *   everywhere, so also those inside of a mutex.
 * - payload moves: places of memory where the 64 bytes of this request, or of
 *   this response, are found. Each echo has bytes of its own. In the last
 *   round all memory is searched at each call and return of hg.c, which takes
 *   long. In the others it is searched after each step. The place where the
 *   application made the bytes is left out. Memory that both sides map counts
 *   once.
 * - checksum passes: a function hg_crc* is entered from another function.
 * - indirect calls: calls through a register or memory, and jumps to the
 *   beginning of a function, in code of hg.c. Calls of libc are direct ones.
 * - ring lines: of 64 bytes, from one request to the next in the ring.
 * - clock reads, allocations: clock_gettime, malloc and its like are entered.
 * - instructions: of hg.c itself; all: also those of libc and of the
 *   application's procs. libc chooses its code by the processor.
 *
 * sm-8B is an echo of 8 bytes, sm-64 has 64 calls in flight. There, of each
 * step the first and the second one are counted, and the second one stands for
 * the rest.
 *
 * Each process has another thread, which sleeps: with a single thread libc
 * omits lock prefixes. The clock is simulated and advances by 100 ns with each
 * read, so that slowness has no effect, and random numbers are constant.
 */
#define _GNU_SOURCE 1

#include "counts.h"
#include "counts_code.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COUNTS_CASE "an_echo_costs_what_is_written"
#define COUNTS_PATIENCE 300 /* s; it takes 10 */
#define COUNTS_SKIPPED 77   /* what tests/run takes for skipped */

uint64_t counts_request_words[COUNTS_WORDS];
uint64_t counts_response_words[COUNTS_WORDS];

bool counts_in_turns;

void counts_must(const char *function, int64_t ret)
{
    if (ret == 0)
        return;
    fprintf(stderr, "counts: %s: %lld\n", function, (long long) ret);
    _exit(1);
}

#if defined(__x86_64__)

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

/* Echoes before the first that is counted; with several in flight these are
 * fewer rounds. */
#define COUNTS_WARM 300u
#define COUNTS_WARM_IN_FLIGHT 640u
/* Rounds that are counted; the median is shown, and the payload moves of the
 * last. The first one uses no known header, and in one the ring may wrap
 * around. */
#define COUNTS_ROUNDS 3
/* Payloads are not searched in larger mappings: those of bulk data, which takes
 * most of the time. */
#define COUNTS_MAPPING ((uintptr_t) 1 << 20)

/* How a round is run. Each way includes those before it. */
enum counts_depth {
    COUNTS_RUNNING,
    COUNTS_COUNTING,
    COUNTS_SEARCHING, /* for payloads, at each call and return of hg.c */
    COUNTS_LISTING    /* the place of each event */
};

/* ---- Figures ---- */

enum counts_figure {
    COUNTS_MUTEX,
    COUNTS_LOCKED,
    COUNTS_MOVES,
    COUNTS_CHECKSUMS,
    COUNTS_INDIRECT,
    COUNTS_LINES,
    COUNTS_CLOCK,
    COUNTS_ALLOCATIONS,
    COUNTS_SYSCALLS,
    COUNTS_CLIENT, /* instructions; those below, too */
    COUNTS_SERVER,
    COUNTS_CLIENT_ALL,
    COUNTS_SERVER_ALL,
    COUNTS_FIGURES
};

static const char *const counts_figure_names[COUNTS_FIGURES] = {"mutex pairs",
    "locked instructions", "payload moves", "checksum passes", "indirect calls",
    "ring lines", "clock reads", "allocations", "system calls",
    "instructions, client", "instructions, server", "all, client",
    "all, server"};

static const char *const counts_mark_names[COUNTS_MARKS] = {"", "",
    "HG_Forward", "HG_Wait", "HG_Request_free", "HG_Handler_process",
    "HG_Progress", "HG_Trigger"};

struct counts_model {
    const char *name;
    counts_side_t *client;
    counts_side_t *server; /* NULL: the client is the server */
    unsigned window;
    unsigned words;
};

#define COUNTS_MODELS 5
static const struct counts_model counts_models[COUNTS_MODELS] = {
    {"sm", counts_request_client, counts_request_server, 1, COUNTS_WORDS},
    {"self", counts_request_self, NULL, 1, COUNTS_WORDS},
    {"sm-callback", counts_callback_client, counts_callback_server, 1,
        COUNTS_WORDS},
    {"sm-8B", counts_request_client, counts_request_server, 1, 1},
    {"sm-64", counts_request_client, counts_request_server, COUNTS_WINDOW,
        COUNTS_WORDS}};

/* Whether payloads are searched: there is one, and no register has it. */
static bool counts_searches(const struct counts_model *model)
{
    return model->window == 1 && model->words == COUNTS_WORDS;
}

/* A figure that the model does not have. */
#define COUNTS_NONE (-1)

/* ---- Replacements of libc functions in the children ---- */

static uint64_t counts_now;
static uint64_t counts_random = 1;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!counts_in_turns) {
        (void) syscall(SYS_clock_gettime, clock, now);
        counts_now =
            (uint64_t) now->tv_sec * 1000000000 + (uint64_t) now->tv_nsec;
        return 0;
    }
    counts_now += 100;
    now->tv_sec = (time_t) (counts_now / 1000000000);
    now->tv_nsec = (long) (counts_now % 1000000000);
    return 0;
}

int getentropy(void *buf, size_t size)
{
    size_t done;

    for (done = 0; done < size; done += 8) {
        uint64_t word = counts_word(counts_random++, 0);

        memcpy((char *) buf + done, &word, size - done < 8 ? size - done : 8);
    }
    return 0;
}

/* ---- Functions that are events ---- */

/* Functions of libc, and clock_gettime: the event is their entry. */
static struct counts_entry {
    const char *name;
    enum counts_figure figure;
    uintptr_t address;
} counts_entries[] = {{"pthread_mutex_unlock", COUNTS_MUTEX, 0},
    {"clock_gettime", COUNTS_CLOCK, 0}, {"malloc", COUNTS_ALLOCATIONS, 0},
    {"calloc", COUNTS_ALLOCATIONS, 0}, {"realloc", COUNTS_ALLOCATIONS, 0},
    {"posix_memalign", COUNTS_ALLOCATIONS, 0},
    {"aligned_alloc", COUNTS_ALLOCATIONS, 0},
    /* Named in the list only. */
    {"pthread_mutex_lock", COUNTS_FIGURES, 0},
    {"pthread_mutex_trylock", COUNTS_FIGURES, 0}};

#define COUNTS_ENTRIES (sizeof(counts_entries) / sizeof(counts_entries[0]))

static void counts_find_entries(void)
{
    size_t i;

    for (i = 0; i < COUNTS_ENTRIES; i++) {
        struct counts_entry *entry = &counts_entries[i];

        entry->address = strcmp(entry->name, "clock_gettime") == 0
            ? (uintptr_t) clock_gettime
            : (uintptr_t) dlsym(RTLD_DEFAULT, entry->name);
        if (entry->address == 0)
            counts_die(entry->name);
    }
}

/* ---- Children ---- */

struct counts_child {
    const char *name;
    pid_t pid;
    int memory; /* /proc/PID/mem */
    enum counts_mark mark;
};

static void *counts_sleep(void *unused)
{
    for (;;)
        (void) pause();
    return unused;
}

static void counts_start(struct counts_child *child, const char *name,
    counts_side_t *side, struct counts_shared *shared)
{
    char path[64];
    int status;

    child->name = name;
    child->mark = COUNTS_OUTSIDE;
    child->pid = fork();
    if (child->pid < 0)
        counts_die("fork");
    if (child->pid == 0) {
        pthread_attr_t small; /* all of its stack would be searched */
        pthread_t thread;

        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(COUNTS_SKIPPED);
        (void) raise(SIGSTOP);
        counts_random = name[0] == 'c' ? 1 : UINT64_C(1) << 32;
        counts_must("pthread_attr_init", pthread_attr_init(&small));
        counts_must("pthread_attr_setstacksize",
            pthread_attr_setstacksize(&small, 65536));
        counts_must("pthread_create",
            pthread_create(&thread, &small, counts_sleep, NULL));
        side(shared);
        _exit(1);
    }
    if (waitpid(child->pid, &status, 0) != child->pid)
        counts_die("waitpid");
    if (WIFEXITED(status) && WEXITSTATUS(status) == COUNTS_SKIPPED) {
        printf("skip: ptrace is not permitted here\n");
        exit(COUNTS_SKIPPED);
    }
    if (ptrace(PTRACE_SETOPTIONS, child->pid, NULL,
            (void *) PTRACE_O_EXITKILL) != 0)
        counts_die("PTRACE_SETOPTIONS");
    snprintf(path, sizeof(path), "/proc/%ld/mem", (long) child->pid);
    child->memory = open(path, O_RDONLY | O_CLOEXEC);
    if (child->memory < 0)
        counts_die(path);
}

static void counts_end(struct counts_child *child)
{
    if (child->pid == 0)
        return;
    (void) kill(child->pid, SIGKILL);
    (void) waitpid(child->pid, NULL, 0);
    (void) close(child->memory);
    child->pid = 0;
}

/* Continue a child, or execute one instruction of it. */
static void counts_resume(struct counts_child *child, bool step)
{
    if (ptrace(step ? PTRACE_SINGLESTEP : PTRACE_CONT, child->pid, NULL,
            NULL) != 0)
        counts_die("ptrace");
}

/* Wait until a child that runs stops at a breakpoint, or after a step. */
static void counts_await(void)
{
    int status;

    if (waitpid(-1, &status, 0) < 0)
        counts_die("waitpid");
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) {
        fprintf(
            stderr, "counts: a child ended, status 0x%x\n", (unsigned) status);
        exit(1);
    }
}

static uint64_t counts_register(const struct counts_child *child, size_t place)
{
    errno = 0;
    return (uint64_t) ptrace(PTRACE_PEEKUSER, child->pid, (void *) place, NULL);
}

#define COUNTS_RIP offsetof(struct user, regs.rip)
#define COUNTS_RDI offsetof(struct user, regs.rdi)

/* The place where it stopped at a breakpoint. */
static void counts_read_mark(struct counts_child *child)
{
    child->mark = (enum counts_mark) counts_register(child, COUNTS_RDI);
    if ((unsigned) child->mark >= COUNTS_MARKS)
        counts_die("an unknown breakpoint");
}

static struct counts_shared *counts_shared;

/* ---- Events ---- */

#define COUNTS_EVENTS 1024
#define COUNTS_PLACES 64

struct counts_event {
    const char *side;
    enum counts_mark mark;
    enum counts_figure figure;
    uintptr_t address; /* the instruction in hg.c */
    const char *via;   /* the function of libc that it called, or NULL */
};

/* A place of memory that holds a payload. */
struct counts_place {
    uint64_t space; /* of a mapped file: the inode; else the process */
    uint64_t offset;
    bool request;
};

/* One round. */
static struct counts_round {
    enum counts_depth depth;
    uint64_t number; /* of its request */
    int64_t figures[COUNTS_FIGURES];
    struct counts_place places[COUNTS_PLACES];
    size_t place_count;
    struct counts_event events[COUNTS_EVENTS];
    size_t event_count;
    uint64_t ring; /* the offset of the request in memory mapped by both */
} counts_round;

/* The state of the child that is executed. */
static struct counts_state {
    struct counts_child *child;
    unsigned weight;       /* steps like this one */
    uintptr_t last_inside; /* the last place in hg.c */
    const char *via;
    bool checksum; /* in a function hg_crc* */
} counts_state;

static void counts_add(enum counts_figure figure)
{
    struct counts_round *round = &counts_round;

    round->figures[figure] += counts_state.weight;
    if (round->depth < COUNTS_LISTING || round->event_count == COUNTS_EVENTS)
        return;
    round->events[round->event_count].side = counts_state.child->name;
    round->events[round->event_count].mark = counts_state.child->mark;
    round->events[round->event_count].figure = figure;
    round->events[round->event_count].address = counts_state.last_inside;
    round->events[round->event_count++].via = counts_state.via;
}

/* ---- Payload moves ---- */

static void counts_add_place(uint64_t space, uint64_t offset, bool request)
{
    struct counts_round *round = &counts_round;
    size_t i;

    for (i = 0; i < round->place_count; i++) {
        if (round->places[i].space == space &&
            round->places[i].offset == offset &&
            round->places[i].request == request)
            return;
    }
    if (round->place_count == COUNTS_PLACES)
        counts_die("too many places");
    round->places[i].space = space;
    round->places[i].offset = offset;
    round->places[i].request = request;
    round->place_count++;
    counts_add(COUNTS_MOVES);
}

/* Search both payloads in a mapping of the child, which begins at `start`. */
static void counts_scan_mapping(struct counts_child *child, uintptr_t start,
    uintptr_t end, uint64_t inode, uint64_t offset)
{
    static char *memory;
    static size_t size;
    unsigned which;
    ssize_t got;

    if (size < end - start) {
        size = end - start;
        free(memory);
        memory = (char *) malloc(size);
        if (memory == NULL)
            counts_die("malloc");
    }
    got = pread(child->memory, memory, end - start, (off_t) start);
    for (which = 0; which < 2; which++) {
        uint64_t words[COUNTS_WORDS];
        const char *at = memory;

        counts_fill(words, counts_round.number + which);
        while (got > 0 &&
            (at = (const char *) memmem(at, (size_t) (memory + got - at), words,
                 counts_shared->words * sizeof(words[0]))) != NULL) {
            uint64_t place = (uint64_t) (at - memory);

            at++;
            if (start + place == (uintptr_t) counts_request_words ||
                start + place == (uintptr_t) counts_response_words)
                continue;
            if (inode != 0 && which == 0)
                counts_round.ring = offset + place;
            if (inode != 0)
                counts_add_place(inode, offset + place, which == 0);
            else
                counts_add_place(
                    (uint64_t) child->pid << 32, start + place, which == 0);
        }
    }
}

/* Search both payloads in all memory that the child can write. */
static void counts_scan(struct counts_child *child)
{
    char path[64];
    char line[512];
    FILE *maps;

    if (counts_shared->window > 1)
        return; /* then only instructions are shown */
    snprintf(path, sizeof(path), "/proc/%ld/maps", (long) child->pid);
    maps = fopen(path, "r");
    if (maps == NULL)
        counts_die(path);
    while (fgets(line, sizeof(line), maps) != NULL) {
        unsigned long start, end, offset, inode;
        char mode[8];

        if (sscanf(line, "%lx-%lx %7s %lx %*s %lu", &start, &end, mode, &offset,
                &inode) == 5 &&
            strncmp(mode, "rw", 2) == 0 && end - start <= COUNTS_MAPPING)
            counts_scan_mapping(child, (uintptr_t) start, (uintptr_t) end,
                mode[3] == 's' ? (uint64_t) inode : 0, (uint64_t) offset);
    }
    (void) fclose(maps);
}

/* ---- Steps ---- */

/* The child is about to execute the instruction at `address`. */
static void counts_look(uintptr_t address)
{
    const struct counts_function *function = counts_function_of(address);
    enum counts_kind kind =
        counts_kind_of((const unsigned char *) (const void *) address);
    struct counts_state *state = &counts_state;
    bool library = function != NULL && function->library;
    bool came_back = library && state->via != NULL;
    bool client = state->child->name[0] == 'c';
    size_t i;

    if (library) {
        state->last_inside = address;
        state->via = NULL;
    }
    for (i = 0; i < COUNTS_ENTRIES && !library; i++) {
        if (address == counts_entries[i].address) {
            state->via = counts_entries[i].name;
            if (counts_entries[i].figure != COUNTS_FIGURES)
                counts_add(counts_entries[i].figure);
        }
    }
    counts_round.figures[client ? COUNTS_CLIENT_ALL : COUNTS_SERVER_ALL] +=
        state->weight;
    if (library) {
        counts_round.figures[client ? COUNTS_CLIENT : COUNTS_SERVER] +=
            state->weight;
        if (function->checksum && !state->checksum &&
            address == function->start)
            counts_add(COUNTS_CHECKSUMS);
        state->checksum = function->checksum;
    }
    if (kind == COUNTS_LOCK)
        counts_add(COUNTS_LOCKED);
    else if (kind == COUNTS_SYSCALL)
        counts_add(COUNTS_SYSCALLS);
    else if (kind == COUNTS_CALL_INDIRECT && library)
        counts_add(COUNTS_INDIRECT);
    if (counts_round.depth >= COUNTS_SEARCHING &&
        (came_back || (library && kind >= COUNTS_CALL)))
        counts_scan(state->child);
}

/* A jump through a pointer that has arrived at `address`. */
static void counts_look_jump(uintptr_t from, uintptr_t address)
{
    const struct counts_function *left = counts_function_of(from);
    const struct counts_function *entered = counts_function_of(address);

    if (left != NULL && left->library && entered != NULL &&
        entered->start == address)
        counts_add(COUNTS_INDIRECT);
}

/* Execute a child, from one mark to the next, instruction by instruction. */
static void counts_step(struct counts_child *child)
{
    uintptr_t jumped = 0;

    counts_state.child = child;
    counts_state.last_inside = 0;
    counts_state.via = NULL;
    counts_state.checksum = false;
    for (;;) {
        uintptr_t address = (uintptr_t) counts_register(child, COUNTS_RIP);
        const unsigned char *p = (const unsigned char *) (const void *) address;

        if (jumped != 0)
            counts_look_jump(jumped, address);
        if (*p == 0xcc)
            break;
        counts_look(address);
        jumped = counts_kind_of(p) == COUNTS_JUMP_INDIRECT ? address : 0;
        counts_resume(child, true);
        counts_await();
    }
    counts_scan(child);
}

/* How many steps the next one of this kind stands for, if `done` of them are
 * over; 0: the second one stands for it. */
static unsigned counts_weight(unsigned done)
{
    if (done > 1)
        return 0;
    return done == 1 ? counts_shared->window - 1 : 1;
}

/* Let a child run its turn, and count its steps if `depth` says so. */
static void counts_turn(struct counts_child *child, enum counts_depth depth)
{
    unsigned done[COUNTS_MARKS] = {0};

    if (child->pid == 0)
        return;
    do {
        counts_resume(child, false);
        counts_await();
        counts_read_mark(child);
        if (depth < COUNTS_COUNTING || child->mark < COUNTS_FORWARD)
            continue;
        counts_state.weight =
            counts_shared->window > 1 ? counts_weight(done[child->mark]++) : 1;
        if (counts_state.weight > 0)
            counts_step(child);
    } while (child->mark != COUNTS_YIELD);
}

/* ---- Rounds ---- */

static struct counts_child counts_client, counts_server;

static void counts_open_model(const struct counts_model *model)
{
    static char listen[64];
    static uint64_t models;

    memset(counts_shared, 0, sizeof(*counts_shared));
    /* A child begins with a copy of our memory, which may hold payloads of the
     * model before: numbers are not reused. */
    counts_shared->sent = counts_shared->served = models++ << 32;
    snprintf(listen, sizeof(listen), "sm://counts-%ld", (long) getpid());
    counts_shared->listen = listen;
    counts_shared->window = model->window;
    counts_shared->words = model->words;
    if (model->server != NULL)
        counts_start(&counts_server, "server", model->server, counts_shared);
    counts_start(&counts_client, "client", model->client, counts_shared);
    /* Both run until they have connected. */
    if (model->server != NULL)
        counts_resume(&counts_server, false);
    counts_resume(&counts_client, false);
    counts_await();
    if (model->server != NULL)
        counts_await();
}

static void counts_close_model(void)
{
    counts_end(&counts_client);
    counts_end(&counts_server);
}

/* A round has as many echoes as the model has in flight. */
static void counts_run_round(enum counts_depth depth)
{
    if (depth >= COUNTS_COUNTING) {
        memset(&counts_round, 0, sizeof(counts_round));
        counts_round.depth = depth;
        counts_round.number = 2 * (counts_shared->sent + 1);
    }
    counts_turn(&counts_client, depth);
    counts_turn(&counts_server, depth);
    counts_turn(&counts_client, depth);
}

static int counts_by_value(const void *left, const void *right)
{
    int64_t a = *(const int64_t *) left;
    int64_t b = *(const int64_t *) right;

    return a < b ? -1 : a > b;
}

/* The figures of one echo: the median of several rounds. */
static void counts_measure(const struct counts_model *model, int64_t *figures)
{
    static int64_t rounds[COUNTS_FIGURES][COUNTS_ROUNDS];
    const unsigned count = model->window == 1 ? COUNTS_ROUNDS : 1;
    const unsigned warm =
        model->window == 1 ? COUNTS_WARM : COUNTS_WARM_IN_FLIGHT;
    uint64_t ring = 0; /* the place of the request before */
    unsigned i, j;

    counts_open_model(model);
    for (i = 0; i < warm / model->window; i++)
        counts_run_round(COUNTS_RUNNING);
    for (i = 0; i < count; i++) {
        counts_run_round(i == count - 1 && counts_searches(model)
                ? COUNTS_SEARCHING
                : COUNTS_COUNTING);
        counts_round.figures[COUNTS_LINES] =
            (int64_t) (counts_round.ring - ring) / 64;
        ring = counts_round.ring;
        for (j = 0; j < COUNTS_FIGURES; j++)
            rounds[j][i] = counts_round.figures[j];
    }
    counts_close_model();
    for (j = 0; j < COUNTS_FIGURES; j++) {
        qsort(rounds[j], count, sizeof(rounds[j][0]), counts_by_value);
        figures[j] = rounds[j][count / 2] / model->window;
        if (j == COUNTS_MOVES)
            figures[j] =
                counts_searches(model) ? counts_round.figures[j] : COUNTS_NONE;
        if ((model->window > 1 && j < COUNTS_CLIENT) ||
            (model->server == NULL &&
                (j == COUNTS_LINES || j == COUNTS_SERVER ||
                    j == COUNTS_SERVER_ALL)))
            figures[j] = COUNTS_NONE;
    }
}

/* ---- The table ---- */

static void counts_write_row(
    char *line, size_t size, const char *name, const int64_t *row)
{
    int used = snprintf(line, size, "%-22s", name);
    unsigned i;

    for (i = 0; i < COUNTS_MODELS; i++)
        used += row[i] == COUNTS_NONE
            ? snprintf(line + used, size - (size_t) used, " %11s", "-")
            : snprintf(line + used, size - (size_t) used, " %11lld",
                  (long long) row[i]);
    (void) snprintf(line + used, size - (size_t) used, "\n");
}

/* Whether the instruction counts in the file are for this build of hg.c. */
static bool counts_knows_instructions(void)
{
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ == 12 && COUNTS_KNOWN
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
#else
    return false;
#endif
}

/* The next figure of a row; COUNTS_NONE for a dash and at the end. */
static int64_t counts_read_figure(const char **at)
{
    char word[24] = "-";
    int used = 0;

    if (sscanf(*at, "%23s%n", word, &used) != 1)
        return COUNTS_NONE;
    *at += used;
    return strcmp(word, "-") == 0 ? COUNTS_NONE : strtoll(word, NULL, 10);
}

/* Whether no figure of a row exceeds that of the file; if a row differs, it is
 * printed beside that of the file. */
static bool counts_check_row(
    const char *path, const char *name, const int64_t *row)
{
    FILE *file = fopen(path, "r");
    char line[256] = "", now[256];
    const char *at = line + strlen(name);
    bool grew = false;
    unsigned i;

    if (file == NULL)
        counts_die(path);
    while (fgets(line, sizeof(line), file) != NULL &&
        strncmp(line, name, strlen(name)) != 0)
        line[0] = '\0';
    (void) fclose(file);
    counts_write_row(now, sizeof(now), name, row);
    if (strcmp(line, now) == 0)
        return true;
    if (line[0] == '\0')
        grew = true;
    for (i = 0; i < COUNTS_MODELS && !grew; i++)
        grew = row[i] > counts_read_figure(&at);
    printf("%s\nwritten: %snow:     %s",
        grew ? "A figure grew:" : "A figure shrank:", line, now);
    return !grew;
}

/* Print the table, or compare it with the one in the file `path`. */
static int counts_make_table(const char *path)
{
    static int64_t rows[COUNTS_FIGURES][COUNTS_MODELS];
    int64_t figures[COUNTS_FIGURES];
    bool good = true;
    char line[256];
    unsigned i, j;

    if (path == NULL) {
        printf("%-22s", "");
        for (i = 0; i < COUNTS_MODELS; i++)
            printf(" %11s", counts_models[i].name);
        printf("\n");
    }
    for (i = 0; i < COUNTS_MODELS; i++) {
        for (j = 0; j < COUNTS_FIGURES; j++)
            figures[j] = COUNTS_NONE;
        /* Calls in flight take as long as all others: check-full has them. */
        if (path == NULL || counts_models[i].window == 1 ||
            getenv("HG_TEST_FULL") != NULL)
            counts_measure(&counts_models[i], figures);
        for (j = 0; j < COUNTS_FIGURES; j++)
            rows[j][i] = figures[j];
    }
    for (j = 0; j < COUNTS_FIGURES; j++) {
        if (path == NULL) {
            counts_write_row(
                line, sizeof(line), counts_figure_names[j], rows[j]);
            printf("%s", line);
        } else if (j < COUNTS_CLIENT || counts_knows_instructions()) {
            good &= counts_check_row(path, counts_figure_names[j], rows[j]);
        }
    }
    if (!good)
        printf(
            "A figure may not grow. To write all: make -s counts > %s\n", path);
    return good ? 0 : 1;
}

/* ---- The list ---- */

/* Print the name of the step that begins with an event, and its cost. */
static void counts_print_step(const struct counts_event *event)
{
    const struct counts_event *end =
        counts_round.events + counts_round.event_count;
    int sums[COUNTS_FIGURES] = {0};
    const char *comma = "";
    unsigned i;

    printf("%s, %s: ", event->side, counts_mark_names[event->mark]);
    for (i = event->mark; event < end && event->mark == i; event++)
        sums[event->figure]++;
    for (i = 0; i < COUNTS_FIGURES; i++) {
        if (sums[i] > 0)
            printf("%s%s %d", comma, counts_figure_names[i], sums[i]);
        comma = sums[i] > 0 ? ", " : comma;
    }
    printf("\n");
}

/* Print each event of the last round. */
static void counts_print_events(void)
{
    static uintptr_t addresses[COUNTS_EVENTS];
    char place[512];
    FILE *places;
    size_t i;

    for (i = 0; i < counts_round.event_count; i++)
        addresses[i] = counts_round.events[i].address;
    places = counts_open_places(addresses, counts_round.event_count);
    for (i = 0; i < counts_round.event_count; i++) {
        const struct counts_event *event = &counts_round.events[i];

        if (i == 0 || event->mark != event[-1].mark)
            counts_print_step(event);
        counts_read_place(places, place, sizeof(place));
        printf("%4zu %-20s %s%s%s%s\n", i + 1,
            counts_figure_names[event->figure], event->via != NULL ? "(" : "",
            event->via != NULL ? event->via : "",
            event->via != NULL ? ") " : "", place);
    }
    (void) pclose(places);
}

/* List the events of an echo. */
static int counts_list(const char *name)
{
    unsigned i, j;

    for (i = 0; i < COUNTS_MODELS; i++) {
        if (strcmp(counts_models[i].name, name) != 0 ||
            !counts_searches(&counts_models[i]))
            continue;
        counts_open_model(&counts_models[i]);
        for (j = 0; j < COUNTS_WARM; j++)
            counts_run_round(COUNTS_RUNNING);
        counts_run_round(COUNTS_LISTING);
        counts_close_model();
        counts_print_events();
        return 0;
    }
    fprintf(stderr, "counts: no list of %s\n", name);
    return 2;
}

/* Run the children and the tracer on one processor: they run in turns, and
 * switching is faster there. */
static void counts_stay_here(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((unsigned) sched_getcpu(), &set);
    (void) sched_setaffinity(0, sizeof(set), &set);
}

static int counts_main(int argc, char **argv)
{
    (void) alarm(COUNTS_PATIENCE); /* the children end with us */
    counts_read_program();
    counts_find_entries();
    counts_stay_here();
    counts_shared = (struct counts_shared *) mmap(NULL, sizeof(*counts_shared),
        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts_shared == MAP_FAILED)
        counts_die("mmap");
    if (argc > 1 && strcmp(argv[1], "--steps") == 0)
        return counts_list(argc > 2 ? argv[2] : "sm");
    return counts_make_table(argc > 1 ? "tests/perf/counts.txt" : NULL);
}

#else

static int counts_main(int argc, char **argv)
{
    (void) argc;
    (void) argv;
    printf("skip: instructions are counted on x86-64 only\n");
    return COUNTS_SKIPPED;
}

#endif

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        printf("%s %d\n", COUNTS_CASE, COUNTS_PATIENCE);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], COUNTS_CASE) != 0 &&
        strcmp(argv[1], "--steps") != 0) {
        fprintf(stderr, "usage: counts [--steps [sm | self | sm-callback]]\n");
        return 2;
    }
    return counts_main(argc, argv);
}
