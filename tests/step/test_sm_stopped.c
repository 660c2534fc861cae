/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process is stopped halfway through copying another's memory. The other one
 * terminates the connection, which succeeds, and deregisters the memory, which
 * waits until the process continues and its copy is complete. Then: a copy that
 * begins just at that moment.
 */
#include "step.h"

#include "conform/conform.h"

#include <signal.h>
#include <sys/wait.h>

#define STOPPED_SIZE ((size_t) 100000)

/* A copy has begun: stop here. */
static void stopped_take(const char *function, unsigned line)
{
    (void) line;
    if (strcmp(function, "na_sm_rma_call") != 0)
        return;
    step_hook = NULL;
    (void) raise(SIGSTOP);
}

/* Get memory that is full of 7, and stop halfway through the copy. Arguments:
 * the name of its owner and its handle. */
HG_TEST_ROLE(stopped)
{
    static unsigned char got[STOPPED_SIZE];
    unsigned char bytes[NA_SM_MEM_HANDLE];
    na_mem_handle_t local, remote;
    struct conform_call call;
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    size_t i;

    HG_CHECK_EQ_INT(argc, 2);
    hg_test_allow_log("");
    HG_CHECK_EQ_U64(strlen(argv[1]), 2 * sizeof(bytes));
    for (i = 0; i < sizeof(bytes); i++) {
        char digits[3] = {argv[1][2 * i], argv[1][2 * i + 1], 0};

        bytes[i] = (unsigned char) strtoul(digits, NULL, 16);
    }
    memset(&end, 0, sizeof(end));
    step_hook = stopped_take;
    end.na_class = NA_Initialize("sm://", NA_FALSE);
    HG_CHECK(end.na_class != NULL);
    end.context = NA_Context_create(end.na_class);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.self));
    HG_CHECK_OK(
        NA_Addr_lookup_wait(end.na_class, argv[0], CONFORM_TIMEOUT, &addr));
    HG_CHECK_OK(
        NA_Mem_handle_deserialize(end.na_class, &remote, bytes, sizeof(bytes)));
    HG_CHECK_OK(NA_Mem_handle_create(
        end.na_class, got, sizeof(got), NA_MEM_READWRITE, &local));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Get(end.na_class, end.context, conform_ended, &call, local,
        0, remote, 0, sizeof(got), addr, &call.id));
    HG_CHECK_OK(conform_wait(&end, &call));
    HG_CHECK(step_hook == NULL);
    for (i = 0; i < sizeof(got); i++)
        HG_CHECK(got[i] == 7);
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
}

struct stopped_owner {
    struct conform_end end;
    unsigned char *memory;
    na_mem_handle_t mem;
    _Atomic bool withdrawn;
};

static void *stopped_withdraw(void *arg)
{
    struct stopped_owner *owner = (struct stopped_owner *) arg;

    HG_CHECK_OK(NA_Mem_deregister(owner->end.na_class, owner->mem));
    atomic_store(&owner->withdrawn, true);
    return NULL;
}

static bool stopped_has_stopped(struct hg_test_peer *peer)
{
    siginfo_t info;

    memset(&info, 0, sizeof(info));
    HG_CHECK(waitid(P_PID, (id_t) hg_test_peer_pid(peer), &info,
                 WSTOPPED | WNOHANG | WNOWAIT) == 0);
    return info.si_pid != 0;
}

/* An owner whose memory is full of 7, and a process that copies it. */
static struct hg_test_peer *stopped_begin(struct stopped_owner *owner)
{
    static unsigned char memory[STOPPED_SIZE];
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    unsigned char bytes[NA_SM_MEM_HANDLE];
    char hex[2 * sizeof(bytes) + 1];
    size_t i;

    memset(owner, 0, sizeof(*owner));
    memset(memory, 7, sizeof(memory));
    owner->memory = memory;
    info.death_ms = 200;
    owner->end.na_class = NA_Initialize_opt("sm://", NA_TRUE, &info);
    HG_CHECK(owner->end.na_class != NULL);
    owner->end.context = NA_Context_create(owner->end.na_class);
    HG_CHECK_OK(NA_Addr_self(owner->end.na_class, &owner->end.self));
    HG_CHECK_OK(NA_Mem_handle_create(owner->end.na_class, memory,
        sizeof(memory), NA_MEM_READWRITE, &owner->mem));
    HG_CHECK_OK(NA_Mem_register(owner->end.na_class, owner->mem));
    HG_CHECK_OK(NA_Mem_handle_serialize(
        owner->end.na_class, bytes, sizeof(bytes), owner->mem));
    for (i = 0; i < sizeof(bytes); i++)
        (void) snprintf(hex + 2 * i, 3, "%02x", (unsigned) bytes[i]);
    return hg_test_spawn("stopped", owner->end.self->name, hex, NULL);
}

static struct na_sm_addr *stopped_user(const struct stopped_owner *owner)
{
    return HG_CONTAINER_OF(
        na_sm_of(owner->end.na_class)->addrs.next, struct na_sm_addr, link);
}

static void stopped_end(struct stopped_owner *owner)
{
    while (na_sm_of(owner->end.na_class)->pairs > 0)
        (void) conform_turn(owner->end.na_class, owner->end.context, 1);
    HG_CHECK_OK(NA_Mem_handle_free(owner->end.na_class, owner->mem));
    conform_close(&owner->end);
}

HG_TEST(sm_memory_stays_in_use_by_a_stopped_peer_until_it_continues)
{
    struct stopped_owner owner;
    struct conform_call call;
    struct hg_test_peer *peer = stopped_begin(&owner);
    pthread_t thread;

    hg_test_expect_log("deregistering memory waits for process");
    while (!stopped_has_stopped(peer))
        (void) conform_turn(owner.end.na_class, owner.end.context, 1);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_terminate(owner.end.na_class, owner.end.context,
        conform_ended, &call, &stopped_user(&owner)->base, &call.id));
    HG_CHECK_OK(conform_wait(&owner.end, &call));
    HG_CHECK(pthread_create(&thread, NULL, stopped_withdraw, &owner) == 0);
    /* The owner waits for it, without a time limit. */
    while (hg_test_log_count("deregistering memory waits for process") == 0)
        (void) conform_turn(owner.end.na_class, owner.end.context, 1);
    HG_CHECK_EQ_INT(stopped_user(&owner)->state, NA_SM_CLOSING);
    HG_CHECK(!atomic_load(&owner.withdrawn));
    hg_test_signal(peer, SIGCONT);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    memset(owner.memory, 9, STOPPED_SIZE); /* the application owns it again */
    HG_CHECK_EQ_INT(hg_test_wait(peer), 0);
    stopped_end(&owner);
}

/* ---- Between two steps of a copy that begins ---- */

#define STOPPED_LARGE ((size_t) 1 << 20) /* too large to be copied at once */

struct stopped_pair {
    struct conform_end owner, user;
    na_addr_t addr; /* of the owner */
    na_mem_handle_t mem, remote, local;
    struct conform_call call;
};

static struct stopped_pair stopped_pair;
static unsigned stopped_steps; /* steps left; 0: never */
static bool stopped_touched;

static bool stopped_is_now(const char *function)
{
    return (strcmp(function, "na_sm_rma_piece") == 0 ||
               strcmp(function, "na_sm_rma_find") == 0 ||
               strcmp(function, "na_sm_slot_read") == 0) &&
        stopped_steps > 0 && --stopped_steps == 0;
}

/* The step may be inside or outside the lock. */
static void stopped_locked(struct na_class *na_class, void (*work)(void))
{
    struct hg_monitor *lock = na_class_core_of(na_class)->lock;
    bool inside = hg_is_inside(lock);

    if (!inside)
        hg_enter(lock);
    work();
    if (!inside)
        hg_leave(lock);
}

static void stopped_do_retract(void)
{
    stopped_touched = na_sm_mem_retract(stopped_pair.mem) != NA_FALSE;
}

static void stopped_do_cancel(void)
{
    HG_CHECK_OK(
        na_context_cancel(stopped_pair.user.context, stopped_pair.call.id));
}

static void stopped_retract(const char *function, unsigned line)
{
    (void) line;
    if (stopped_is_now(function))
        stopped_locked(stopped_pair.mem->na_class, stopped_do_retract);
}

static void stopped_cancel(const char *function, unsigned line)
{
    (void) line;
    if (stopped_is_now(function))
        stopped_locked(stopped_pair.user.na_class, stopped_do_cancel);
}

static na_return_t stopped_get(struct stopped_pair *pair)
{
    memset(&pair->call, 0, sizeof(pair->call));
    HG_CHECK_OK(NA_Get(pair->user.na_class, pair->user.context, conform_ended,
        &pair->call, pair->local, 0, pair->remote, 0, STOPPED_LARGE, pair->addr,
        &pair->call.id));
    while (pair->call.ends == 0) {
        (void) conform_turn(pair->user.na_class, pair->user.context, 0);
        (void) conform_turn(pair->owner.na_class, pair->owner.context, 0);
    }
    return pair->call.ret;
}

static void stopped_open_end(struct conform_end *end, na_bool_t listen)
{
    memset(end, 0, sizeof(*end));
    end->na_class = NA_Initialize("sm://", listen);
    HG_CHECK(end->na_class != NULL);
    end->context = NA_Context_create(end->na_class);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->self));
}

/* Two endpoints that have moved memory before. */
static void stopped_open(struct stopped_pair *pair)
{
    static unsigned char memory[2][STOPPED_LARGE];
    unsigned char bytes[NA_SM_MEM_HANDLE];

    memset(pair, 0, sizeof(*pair));
    stopped_open_end(&pair->owner, NA_TRUE);
    stopped_open_end(&pair->user, NA_FALSE);
    HG_CHECK_OK(NA_Addr_lookup(pair->user.na_class, pair->user.context,
        conform_ended, &pair->call, pair->owner.self->name, &pair->call.id));
    while (pair->call.ends == 0) {
        (void) conform_turn(pair->user.na_class, pair->user.context, 0);
        (void) conform_turn(pair->owner.na_class, pair->owner.context, 0);
    }
    pair->addr = pair->call.addr;
    HG_CHECK_OK(NA_Mem_handle_create(pair->owner.na_class, memory[0],
        STOPPED_LARGE, NA_MEM_READWRITE, &pair->mem));
    HG_CHECK_OK(NA_Mem_register(pair->owner.na_class, pair->mem));
    HG_CHECK_OK(NA_Mem_handle_serialize(
        pair->owner.na_class, bytes, sizeof(bytes), pair->mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair->user.na_class, &pair->remote, bytes, sizeof(bytes)));
    HG_CHECK_OK(NA_Mem_handle_create(pair->user.na_class, memory[1],
        STOPPED_LARGE, NA_MEM_READWRITE, &pair->local));
    HG_CHECK_OK(stopped_get(pair));
}

static void stopped_close(struct stopped_pair *pair)
{
    HG_CHECK_OK(NA_Mem_handle_free(pair->user.na_class, pair->local));
    HG_CHECK_OK(NA_Mem_handle_free(pair->user.na_class, pair->remote));
    HG_CHECK_OK(NA_Mem_handle_free(pair->owner.na_class, pair->mem));
    HG_CHECK_OK(NA_Addr_free(pair->user.na_class, pair->addr));
    conform_close(&pair->user);
    conform_close(&pair->owner);
}

/* Either the owner sees that its memory is in use, or the user sees that it is
 * withdrawn. */
HG_TEST(sm_memory_is_withdrawn_or_in_use)
{
    unsigned step;
    bool reached;

    step_hook = stopped_retract;
    for (step = 1;; step++) {
        na_return_t ret;

        stopped_open(&stopped_pair);
        stopped_touched = false;
        stopped_steps = step;
        ret = stopped_get(&stopped_pair);
        reached = stopped_steps == 0;
        stopped_steps = 0;
        stopped_close(&stopped_pair);
        if (!reached)
            break;
        HG_CHECK(stopped_touched || ret == NA_NOENTRY);
    }
    HG_CHECK(step > 2);
    step_hook = NULL;
}

/* A copy is canceled while it is handed over from the kernel, which refuses it,
 * to the rings: the part in the rings ends. */
HG_TEST(sm_copy_is_canceled_during_its_handover)
{
    step_hook = stopped_cancel;
    stopped_open(&stopped_pair);
    na_sm_addr_of(stopped_pair.addr)->vm = NA_SM_VM_DENIED;
    stopped_steps = 1;
    HG_CHECK_RET(stopped_get(&stopped_pair), NA_CANCELED);
    HG_CHECK_EQ_INT(stopped_steps, 0);
    HG_CHECK_OK(stopped_get(&stopped_pair)); /* uncanceled it succeeds */
    stopped_close(&stopped_pair);
    step_hook = NULL;
}
