/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules by which the transport sm withdraws memory, one step at a time: the
 * test acts as a peer between two steps. And invalid handles.
 */
#include "support/library.h"
#include "unit/locked.h"

#include "harness.h"
#include "support/golden.h"

#if HG_ENABLE_SM

#include <sys/wait.h>

struct srma_pair {
    na_class_t *owner, *user;
    na_context_t *owners, *users;
    na_addr_t addr; /* of the owner, at the user */
    unsigned char bytes[4096], got[4096];
    na_mem_handle_t mem, local, remote;
    unsigned ends;
    na_return_t ret;
};

static na_return_t srma_ended(const struct na_cb_info *info)
{
    struct srma_pair *pair = (struct srma_pair *) info->arg;

    if (info->type == NA_CB_LOOKUP)
        pair->addr = info->info.lookup.addr;
    pair->ret = info->ret;
    pair->ends++;
    return NA_SUCCESS;
}

static void srma_turn(struct srma_pair *pair)
{
    unsigned count;

    (void) NA_Progress(pair->owner, pair->owners, 0);
    (void) NA_Progress(pair->user, pair->users, 0);
    (void) NA_Trigger(pair->users, 0, 10, &count);
}

#define SRMA_DEATH_MS 100u

/* Describe memory, as for a peer. */
static void srma_describe(na_class_t *owner, na_mem_handle_t mem)
{
    unsigned char bytes[NA_SM_MEM_HANDLE];

    HG_CHECK_OK(NA_Mem_handle_serialize(owner, bytes, sizeof(bytes), mem));
}

/* A user, with a handle of the owner's memory. */
static void srma_open_user(struct srma_pair *pair)
{
    unsigned char bytes[NA_SM_MEM_HANDLE];

    pair->user = NA_Initialize("sm://", NA_FALSE);
    HG_CHECK(pair->user != NULL);
    pair->users = NA_Context_create(pair->user);
    HG_CHECK_OK(NA_Addr_lookup(pair->user, pair->users, srma_ended, pair,
        pair->owner->self_addr->name, NA_OP_ID_IGNORE));
    while (pair->ends == 0)
        srma_turn(pair);
    HG_CHECK_OK(pair->ret);
    HG_CHECK_OK(
        NA_Mem_handle_serialize(pair->owner, bytes, sizeof(bytes), pair->mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair->user, &pair->remote, bytes, sizeof(bytes)));
    HG_CHECK_OK(NA_Mem_handle_create(pair->user, pair->got, sizeof(pair->got),
        NA_MEM_READWRITE, &pair->local));
}

static void srma_close_user(struct srma_pair *pair)
{
    HG_CHECK_OK(NA_Mem_handle_free(pair->user, pair->local));
    HG_CHECK_OK(NA_Mem_handle_free(pair->user, pair->remote));
    HG_CHECK_OK(NA_Addr_free(pair->user, pair->addr));
    HG_CHECK_OK(NA_Context_destroy(pair->user, pair->users));
    HG_CHECK_OK(NA_Finalize(pair->user));
}

static void srma_open(struct srma_pair *pair)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    info.death_ms = SRMA_DEATH_MS;
    memset(pair, 0, sizeof(*pair));
    pair->owner = NA_Initialize_opt("sm://", NA_TRUE, &info);
    HG_CHECK(pair->owner != NULL);
    pair->owners = NA_Context_create(pair->owner);
    HG_CHECK_OK(NA_Mem_handle_create(pair->owner, pair->bytes,
        sizeof(pair->bytes), NA_MEM_READWRITE, &pair->mem));
    HG_CHECK_OK(NA_Mem_register(pair->owner, pair->mem));
    srma_open_user(pair);
}

static void srma_close(struct srma_pair *pair)
{
    HG_CHECK_OK(NA_Mem_handle_free(pair->owner, pair->mem));
    srma_close_user(pair);
    HG_CHECK_OK(NA_Context_destroy(pair->owner, pair->owners));
    HG_CHECK_OK(NA_Finalize(pair->owner));
}

static na_return_t srma_move(struct srma_pair *pair, bool put)
{
    pair->ends = 0;
    HG_CHECK_OK((put ? NA_Put : NA_Get)(pair->user, pair->users, srma_ended,
        pair, pair->local, 0, pair->remote, 0, sizeof(pair->got), pair->addr,
        NA_OP_ID_IGNORE));
    while (pair->ends == 0)
        srma_turn(pair);
    return pair->ret;
}

static na_return_t srma_now(struct srma_pair *pair, bool put, na_size_t size)
{
    struct hg_monitor *lock = na_class_core_of(pair->user)->lock;
    na_return_t ret;

    hg_enter(lock);
    ret = na_rma_now(pair->users, put ? NA_CB_PUT : NA_CB_GET, pair->local, 0,
        pair->remote, 0, size, pair->addr);
    hg_leave(lock);
    return ret;
}

/* A small transfer is done within the call, and leaves nothing behind; any
 * other must be started. */
HG_TEST(sm_rma_may_complete_at_once)
{
    struct srma_pair pair;
    struct na_mem_handle *small = NULL;
    struct na_context_core *core;
    void *large;
    na_size_t size = 300 << 10;

    srma_open(&pair);
    core = na_context_core_of(pair.users);
    memset(pair.bytes, 3, sizeof(pair.bytes));
    HG_CHECK_OK(srma_move(&pair, false));
    memset(pair.got, 4, sizeof(pair.got));
    HG_CHECK_OK(srma_now(&pair, false, 100));
    HG_CHECK(pair.got[0] == 3 && pair.got[99] == 3 && pair.got[100] == 4);
    HG_CHECK_OK(srma_now(&pair, true, 200));
    HG_CHECK(pair.bytes[199] == 4 && pair.bytes[200] == 3);
    HG_CHECK_OK(srma_now(&pair, false, 0));
    na_context_enter(core);
    HG_CHECK_EQ_INT(na_op_table_pending(core), 0);
    na_context_leave(core);
    HG_CHECK(
        na_queue_count(&core->queue, NA_LANES_ALL | NA_LANES_INTERNAL) == 0);
    hg_test_expect_log("are out of range");
    HG_CHECK_RET(srma_now(&pair, false, sizeof(pair.got) + 1), NA_OVERFLOW);
    /* A memory that is large according to its description. */
    large = hg_mem_calloc(1, (size_t) size);
    HG_CHECK(large != NULL);
    small = pair.local;
    HG_CHECK_OK(NA_Mem_handle_create(
        pair.user, large, size, NA_MEM_READWRITE, &pair.local));
    pair.remote->size = size;
    HG_CHECK_RET(srma_now(&pair, false, size), NA_AGAIN);
    HG_CHECK_RET(srma_now(&pair, false, size / 2), NA_OVERFLOW);
    HG_CHECK_OK(NA_Mem_handle_free(pair.user, pair.local));
    hg_mem_free(large);
    pair.local = small;
    HG_CHECK_OK(NA_Mem_deregister(pair.owner, pair.mem));
    HG_CHECK_RET(srma_now(&pair, false, 100), NA_NOENTRY);
    HG_CHECK_EQ_U64(NA_Get_counter(pair.user, "rma_refused"), 2);
    srma_close(&pair);
}

/* A transfer to a dead peer, or one that uses frames, does not complete at once
 * either. */
HG_TEST(sm_rma_does_not_always_complete_at_once)
{
    struct srma_pair pair;

    HG_CHECK(setenv("HG_SM_RMA", "copy", 1) == 0);
    srma_open(&pair);
    HG_CHECK_OK(srma_move(&pair, false));
    HG_CHECK_RET(srma_now(&pair, false, 100), NA_AGAIN);
    HG_CHECK(na_addr_mark_dead(pair.addr, NA_DISCONNECT));
    HG_CHECK_RET(srma_now(&pair, false, 100), NA_DISCONNECT);
    srma_close(&pair);
    HG_CHECK(unsetenv("HG_SM_RMA") == 0);
}

/* If the kernel refuses the copy, the transfer must be started, and uses
 * frames. */
HG_TEST(sm_rma_that_is_denied_does_not_complete_at_once)
{
    struct srma_pair pair;

    srma_open(&pair);
    memset(pair.bytes, 3, sizeof(pair.bytes));
    HG_CHECK_OK(srma_move(&pair, false));
    HG_CHECK_OK(srma_now(&pair, false, 100));
    na_sm_addr_of(pair.addr)->vm = NA_SM_VM_DENIED;
    memset(pair.got, 4, sizeof(pair.got));
    HG_CHECK_RET(srma_now(&pair, false, 100), NA_AGAIN);
    HG_CHECK(pair.got[0] == 4);
    HG_CHECK_OK(srma_move(&pair, false));
    HG_CHECK(pair.got[0] == 3 && pair.got[sizeof(pair.got) - 1] == 3);
    srma_close(&pair);
}

struct srma_leaver {
    struct srma_pair *pair;
    _Atomic bool left;
};

static void *srma_deregister(void *arg)
{
    struct srma_leaver *leaver = (struct srma_leaver *) arg;

    HG_CHECK_OK(NA_Mem_deregister(leaver->pair->owner, leaver->pair->mem));
    atomic_store(&leaver->left, true);
    return NULL;
}

/* The owner withdraws during a piece, after the user read the slot. It waits
 * for the hazard word, whichever that is. */
HG_TEST(sm_rma_withdrawing_waits_for_a_piece)
{
    unsigned word;

    for (word = 0; word < NA_SM_HAZARDS; word++) {
        struct srma_pair pair;
        struct srma_leaver leaver = {&pair, false};
        struct na_sm_addr *addr;
        const struct na_sm_mem *remote;
        pthread_t thread;
        unsigned i;

        srma_open(&pair);
        HG_CHECK_OK(srma_move(&pair, false));
        addr = na_sm_addr_of(pair.addr);
        remote = na_sm_mem_of(pair.remote);
        atomic_store(&addr->shared->control[0].hazard[word], remote->base.key);
        HG_CHECK(pthread_create(&thread, NULL, srma_deregister, &leaver) == 0);
        /* It has cleared the mark, and checked more than once. */
        while (atomic_load(&addr->peer_public->slots[remote->slot].mark) !=
            NA_SM_SLOT_WITHDRAWN)
            (void) sched_yield();
        for (i = 0; i < 20; i++)
            (void) poll(NULL, 0, 1);
        HG_CHECK(!atomic_load(&leaver.left));
        atomic_store(&addr->shared->control[0].hazard[word], 0);
        HG_CHECK(pthread_join(thread, NULL) == 0);
        /* The user comes later: it reads the slot, and gives up. */
        memset(pair.got, 0x55, sizeof(pair.got));
        HG_CHECK_RET(srma_move(&pair, true), NA_NOENTRY);
        HG_CHECK_EQ_INT(pair.bytes[0], 0);
        HG_CHECK_EQ_U64(atomic_load(&addr->shared->control[0].hazard[word]), 0);
        srma_close(&pair);
    }
}

/* Under the lock: another thread may change it. */
static enum na_sm_state srma_state(const struct na_sm_addr *addr)
{
    struct hg_monitor *lock = na_class_core_of(addr->base.na_class)->lock;
    enum na_sm_state state;

    hg_enter(lock);
    state = addr->state;
    hg_leave(lock);
    return state;
}

/* The user, as the owner has it. */
static struct na_sm_addr *srma_user(struct srma_pair *pair)
{
    return HG_CONTAINER_OF(
        na_sm_of(pair->owner)->addrs.next, struct na_sm_addr, link);
}

/* A user that is stopped during a piece does not answer a BYE. The connection
 * ends all the same, and the memory is in use until the piece is done. */
HG_TEST(sm_rma_bye_leaves_memory_in_use)
{
    struct srma_pair pair;
    struct srma_leaver leaver = {&pair, false};
    struct na_sm_addr *addr, *user;
    pthread_t thread;
    unsigned i, count;

    srma_open(&pair);
    HG_CHECK_OK(srma_move(&pair, false));
    addr = na_sm_addr_of(pair.addr);
    user = srma_user(&pair);
    atomic_store(&addr->shared->control[0].hazard[3], pair.remote->key);
    for (i = 0; i < 2; i++) { /* and it can be sent again */
        pair.ends = 0;
        HG_CHECK_OK(NA_Addr_terminate(pair.owner, pair.owners, srma_ended,
            &pair, &user->base, NA_OP_ID_IGNORE));
        while (pair.ends == 0) {
            (void) NA_Progress(pair.owner, pair.owners, 5);
            (void) NA_Trigger(pair.owners, 0, 10, &count);
        }
        HG_CHECK_OK(pair.ret);
        HG_CHECK_EQ_INT(srma_state(user), NA_SM_CLOSING);
        HG_CHECK_EQ_INT(atomic_load(&user->shared->control[1].over), 1);
    }
    HG_CHECK(pthread_create(&thread, NULL, srma_deregister, &leaver) == 0);
    while (
        atomic_load(&addr->peer_public->slots[0].mark) > NA_SM_SLOT_WITHDRAWN)
        (void) sched_yield();
    for (i = 0; i < 20; i++)
        (void) NA_Progress(pair.owner, pair.owners, 1);
    HG_CHECK(!atomic_load(&leaver.left));
    atomic_store(&addr->shared->control[0].hazard[3], 0);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    while (na_sm_of(pair.owner)->pairs > 0)
        (void) NA_Progress(pair.owner, pair.owners, 5);
    srma_close(&pair);
}

/* A transfer that starts after the owner gave up a BYE does not touch the
 * memory. */
HG_TEST(sm_rma_over_message_is_handled)
{
    struct srma_pair pair;

    srma_open(&pair);
    HG_CHECK_OK(srma_move(&pair, false));
    HG_CHECK_EQ_U64(NA_Get_counter(pair.user, "sm_rma_vm"), sizeof(pair.got));
    atomic_store(&na_sm_addr_of(pair.addr)->shared->control[1].over, 1);
    HG_CHECK_OK(srma_move(&pair, false));
    HG_CHECK_EQ_U64(NA_Get_counter(pair.user, "sm_rma_vm"), sizeof(pair.got));
    HG_CHECK_EQ_U64(
        NA_Get_counter(pair.user, "sm_rma_copied"), sizeof(pair.got));
    srma_close(&pair);
}

/* A BYE promises that no memory of the peer is accessed any more: it waits for
 * the piece in progress. */
HG_TEST(sm_rma_bye_waits_for_a_piece)
{
    struct srma_pair pair;
    unsigned i;

    srma_open(&pair);
    HG_CHECK_OK(srma_move(&pair, false));
    na_sm_addr_of(pair.addr)->copies = 1u << 3;
    pair.ends = 0;
    HG_CHECK_OK(NA_Addr_terminate(
        pair.user, pair.users, srma_ended, &pair, pair.addr, NA_OP_ID_IGNORE));
    for (i = 0; i < 20; i++) {
        (void) NA_Progress(pair.owner, pair.owners, 0);
        HG_CHECK_EQ_INT(srma_user(&pair)->state, NA_SM_READY);
        srma_turn(&pair);
    }
    HG_CHECK_EQ_INT(pair.ends, 0);
    na_sm_addr_of(pair.addr)->copies = 0;
    while (pair.ends == 0)
        srma_turn(&pair);
    HG_CHECK_OK(pair.ret);
    srma_close(&pair);
}

/* A transfer that waits for a connection also ends when its local memory is
 * withdrawn. */
HG_TEST(sm_rma_withdrawing_ends_transfers_that_wait_for_a_connection)
{
    struct srma_pair pair;
    unsigned count;

    srma_open(&pair);
    HG_CHECK_OK(srma_move(&pair, false));
    pair.ends = 0;
    HG_CHECK_OK(NA_Addr_terminate(
        pair.user, pair.users, srma_ended, &pair, pair.addr, NA_OP_ID_IGNORE));
    while (pair.ends == 0)
        srma_turn(&pair);
    HG_CHECK_OK(pair.ret);
    memset(pair.bytes, 7, sizeof(pair.bytes));
    pair.ends = 0;
    HG_CHECK_OK(NA_Get(pair.user, pair.users, srma_ended, &pair, pair.local, 0,
        pair.remote, 0, sizeof(pair.got), pair.addr, NA_OP_ID_IGNORE));
    na_emul_end_local(pair.local);
    HG_CHECK_OK(NA_Trigger(pair.users, 0, 10, &count));
    HG_CHECK_EQ_INT(pair.ends, 1);
    HG_CHECK_RET(pair.ret, NA_CANCELED);
    HG_CHECK_EQ_INT(pair.got[0], 0);
    HG_CHECK_OK(srma_move(&pair, false));
    HG_CHECK_EQ_INT(pair.got[0], 7);
    srma_close(&pair);
}

#define SRMA_LARGE ((na_size_t) 32 << 20)

struct srma_large {
    struct srma_pair pair;
    na_mem_handle_t local, mem, remote;
    na_op_id_t id;
    _Atomic bool over;
};

static void *srma_get_large(void *arg)
{
    struct srma_large *large = (struct srma_large *) arg;
    struct srma_pair *pair = &large->pair;

    pair->ends = 0;
    HG_CHECK_OK(NA_Get(pair->user, pair->users, srma_ended, pair, large->local,
        0, large->remote, 0, SRMA_LARGE, pair->addr, &large->id));
    while (pair->ends == 0)
        srma_turn(pair);
    atomic_store(&large->over, true);
    return NULL;
}

/* Cancel the transfer during a piece that is not the last one. Returns false if
 * it completed before. */
static bool srma_cancel_a_piece(struct srma_large *large)
{
    na_class_t *na_class = large->pair.user;
    struct hg_monitor *lock = na_class_core_of(na_class)->lock;
    bool canceled = false;

    while (!canceled && !atomic_load(&large->over)) {
        const struct na_op *op;

        hg_enter(lock);
        op = na_sm_of(na_class)->moving;
        if (op != NULL && op->size > SRMA_LARGE / 2) {
            HG_CHECK_OK(na_context_cancel(large->pair.users, large->id));
            canceled = true;
        }
        hg_leave(lock);
    }
    return canceled;
}

/* A transfer that is canceled during a piece ends with that piece. */
HG_TEST(sm_rma_is_canceled_during_a_piece)
{
    struct srma_large large;
    struct srma_pair *pair = &large.pair;
    unsigned char bytes[NA_SM_MEM_HANDLE];
    void *from = hg_mem_calloc(1, (size_t) SRMA_LARGE);
    void *to = hg_mem_calloc(1, (size_t) SRMA_LARGE);
    bool canceled = false;

    HG_CHECK(from != NULL && to != NULL);
    srma_open(pair);
    HG_CHECK_OK(srma_move(pair, false));
    HG_CHECK_OK(NA_Mem_handle_create(
        pair->owner, from, SRMA_LARGE, NA_MEM_READWRITE, &large.mem));
    HG_CHECK_OK(NA_Mem_register(pair->owner, large.mem));
    HG_CHECK_OK(
        NA_Mem_handle_serialize(pair->owner, bytes, sizeof(bytes), large.mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair->user, &large.remote, bytes, sizeof(bytes)));
    HG_CHECK_OK(NA_Mem_handle_create(
        pair->user, to, SRMA_LARGE, NA_MEM_READWRITE, &large.local));
    while (!canceled) {
        pthread_t thread;

        atomic_store(&large.over, false);
        HG_CHECK(pthread_create(&thread, NULL, srma_get_large, &large) == 0);
        canceled = srma_cancel_a_piece(&large);
        HG_CHECK(pthread_join(thread, NULL) == 0);
        HG_CHECK_RET(pair->ret, canceled ? NA_CANCELED : NA_SUCCESS);
    }
    HG_CHECK_OK(NA_Mem_handle_free(pair->user, large.local));
    HG_CHECK_OK(NA_Mem_handle_free(pair->user, large.remote));
    HG_CHECK_OK(NA_Mem_handle_free(pair->owner, large.mem));
    srma_close(pair);
    hg_mem_free(from);
    hg_mem_free(to);
}

/* The library's own memory is kept for a peer that copies it, and freed
 * afterwards; at the latest when the class is closed. */
HG_TEST(sm_rma_does_not_wait_for_its_own_memory)
{
    unsigned round;

    for (round = 0; round < 2; round++) {
        void *buf = hg_mem_calloc(1, 5000);
        struct srma_pair pair;
        _Atomic uint64_t *hazard;
        struct na_sm_addr *user;
        na_mem_handle_t mem;
        unsigned i;

        HG_CHECK(buf != NULL);
        srma_open(&pair);
        HG_CHECK_OK(srma_move(&pair, false)); /* its hazard words count now */
        user = srma_user(&pair);
        HG_CHECK_OK(NA_Mem_handle_create(
            pair.owner, buf, 5000, NA_MEM_READ_ONLY, &mem));
        HG_CHECK_OK(NA_Mem_register(pair.owner, mem));
        srma_describe(pair.owner, mem);
        hazard = &na_sm_addr_of(pair.addr)->shared->control[0].hazard[7];
        atomic_store(hazard, mem->key);
        HG_CHECK(na_emul_withdraw(mem, buf, &user->base));
        HG_CHECK_EQ_U64(NA_Get_counter(pair.owner, "rma_touched"), 1);
        for (i = 0; i < 20; i++)
            (void) NA_Progress(pair.owner, pair.owners, 2);
        HG_CHECK_EQ_U64(na_emul_lingering(&user->base), 5000);
        if (round == 0) {
            atomic_store(hazard, 0);
            while (na_emul_lingering(&user->base) > 0)
                (void) NA_Progress(pair.owner, pair.owners, 5);
            /* No peer copies: it stays with the caller. */
            buf = hg_mem_calloc(1, 50);
            HG_CHECK_OK(NA_Mem_handle_create(
                pair.owner, buf, 50, NA_MEM_READ_ONLY, &mem));
            HG_CHECK_OK(NA_Mem_register(pair.owner, mem));
            srma_describe(pair.owner, mem);
            HG_CHECK(!na_emul_withdraw(mem, buf, &user->base));
            hg_mem_free(buf);
        }
        srma_close(&pair);
    }
}

/* A hazard word that is not the memory's key causes no wait: a peer cannot name
 * memory that was not described to it. */
HG_TEST(sm_rma_ignores_hazards_of_other_memory)
{
    struct srma_pair pair;
    struct na_sm_addr *addr;
    unsigned i;

    srma_open(&pair);
    HG_CHECK_OK(srma_move(&pair, false)); /* now its hazard words count */
    addr = na_sm_addr_of(pair.addr);
    for (i = 0; i < NA_SM_HAZARDS; i++)
        atomic_store(&addr->shared->control[0].hazard[i], i + 1);
    atomic_store(&addr->shared->control[0].hazard[7], pair.remote->key + 1);
    /* The direction of the owner's own copies. */
    atomic_store(&addr->shared->control[1].hazard[0], pair.remote->key);
    LOCKED(locked_class(pair.owner),
        HG_CHECK_EQ_INT(na_sm_mem_retract(pair.mem), NA_FALSE));
    HG_CHECK_OK(NA_Mem_deregister(pair.owner, pair.mem));
    HG_CHECK_EQ_INT(srma_user(&pair)->state, NA_SM_READY);
    srma_close(&pair);
}

/* A hazard word of a peer, at the owner. */
static _Atomic uint64_t *srma_hazard(const struct na_sm_addr *addr)
{
    return &addr->shared->control[addr->dialled ? 1 : 0].hazard[0];
}

/* A peer that got the key and does not clear its hazard word is waited for, and
 * named in the log. */
static void srma_keep(bool ends)
{
    struct srma_pair pair;
    struct srma_leaver leaver = {&pair, false};
    pthread_t thread;

    srma_open(&pair);
    HG_CHECK_OK(srma_move(&pair, false));
    atomic_store(srma_hazard(srma_user(&pair)), pair.mem->key);
    hg_test_expect_log("deregistering memory waits for process");
    HG_CHECK(pthread_create(&thread, NULL, srma_deregister, &leaver) == 0);
    while (hg_test_log_count("deregistering memory waits for process") == 0)
        (void) poll(NULL, 0, 1);
    HG_CHECK(!atomic_load(&leaver.left));
    HG_CHECK_EQ_INT(srma_state(srma_user(&pair)), NA_SM_READY);
    if (ends)
        na_sm_close_fd(&na_sm_addr_of(pair.addr)->fd);
    else
        atomic_store(srma_hazard(srma_user(&pair)), 0);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK(atomic_load(&leaver.left));
    srma_close(&pair);
}

HG_TEST(sm_rma_waits_for_a_peer_that_keeps_memory)
{
    srma_keep(false);
}

HG_TEST(sm_rma_peer_that_ends_keeps_no_memory)
{
    srma_keep(true);
}

static struct na_sm_slot *srma_slot(const struct srma_pair *pair)
{
    return &na_sm_of(pair->owner)
                ->public_page->slots[na_sm_mem_of(pair->mem)->slot];
}

/* Slots are reused, with another mark. */
HG_TEST(sm_rma_slots_are_reused)
{
    struct srma_pair pair;
    unsigned i;

    srma_open(&pair);
    for (i = 0; i < 10; i++) {
        uint32_t slot = na_sm_mem_of(pair.mem)->slot;
        uint64_t mark = atomic_load(&srma_slot(&pair)->mark);

        HG_CHECK_OK(NA_Mem_deregister(pair.owner, pair.mem));
        HG_CHECK_OK(NA_Mem_register(pair.owner, pair.mem));
        HG_CHECK_EQ_U64(na_sm_mem_of(pair.mem)->slot, NA_SM_SLOTS);
        srma_describe(pair.owner, pair.mem);
        HG_CHECK_EQ_U64(na_sm_mem_of(pair.mem)->slot, slot);
        HG_CHECK(atomic_load(&srma_slot(&pair)->mark) != mark);
    }
    HG_CHECK_RET(srma_move(&pair, false), NA_NOENTRY);
    HG_CHECK_EQ_U64(NA_Get_counter(pair.user, "rma_refused"), 1);
    srma_close(&pair);
}

/* If an owner gives a size other than that of the segments it described, no
 * peer accesses memory past them. */
HG_TEST(sm_rma_changed_size_is_refused)
{
    struct srma_pair pair;
    struct na_segment segments[2];
    unsigned char bytes[NA_SM_MEM_HANDLE];
    struct na_sm_slot *slot;

    srma_open(&pair);
    HG_CHECK_OK(NA_Mem_handle_free(pair.user, pair.remote));
    HG_CHECK_OK(NA_Mem_handle_free(pair.owner, pair.mem));
    segments[0].address = pair.bytes + 2048;
    segments[1].address = pair.bytes;
    segments[0].size = segments[1].size = 2048;
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        pair.owner, segments, 2, NA_MEM_READWRITE, &pair.mem));
    HG_CHECK_OK(NA_Mem_register(pair.owner, pair.mem));
    HG_CHECK_OK(
        NA_Mem_handle_serialize(pair.owner, bytes, sizeof(bytes), pair.mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair.user, &pair.remote, bytes, sizeof(bytes)));
    HG_CHECK_OK(srma_move(&pair, false));
    slot = srma_slot(&pair);
    atomic_store(&slot->size, 2 * sizeof(pair.bytes));
    HG_CHECK_RET(srma_move(&pair, false), NA_PROTOCOL_ERROR);
    atomic_store(&slot->size, sizeof(pair.bytes));
    HG_CHECK_OK(srma_move(&pair, false));
    srma_close(&pair);
}

/* Memory without a slot is moved by frames. */
HG_TEST(sm_rma_works_when_all_slots_are_taken)
{
    struct srma_pair pair;
    struct na_sm_class *owner;
    unsigned char bytes[NA_SM_MEM_HANDLE];
    unsigned i;

    srma_open(&pair);
    owner = na_sm_of(pair.owner);
    HG_CHECK_OK(NA_Mem_deregister(pair.owner, pair.mem));
    HG_CHECK_OK(NA_Mem_handle_free(pair.user, pair.remote));
    for (i = 0; i < NA_SM_SLOTS; i++)
        atomic_store(&owner->public_page->slots[i].mark, 5);
    HG_CHECK_OK(NA_Mem_register(pair.owner, pair.mem));
    HG_CHECK_OK(
        NA_Mem_handle_serialize(pair.owner, bytes, sizeof(bytes), pair.mem));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair.user, &pair.remote, bytes, sizeof(bytes)));
    memset(pair.bytes, 7, sizeof(pair.bytes));
    HG_CHECK_OK(srma_move(&pair, false));
    HG_CHECK_EQ_MEM(pair.got, pair.bytes, sizeof(pair.got));
    HG_CHECK_EQ_U64(
        NA_Get_counter(pair.user, "sm_rma_copied"), sizeof(pair.got));
    srma_close(&pair);
}

/* The user trusts an owner only about its own memory: it reads no more than its
 * buffer holds, and uses nothing incomplete. */
HG_TEST(sm_rma_slots_may_be_garbage)
{
    uint64_t random = hg_test_seed();
    struct srma_pair pair;
    struct na_sm_slot *slot;
    uint64_t mark;
    unsigned i;

    hg_test_allow_log("");
    srma_open(&pair);
    slot = srma_slot(&pair);
    mark = atomic_load(&slot->mark);
    HG_CHECK_OK(srma_move(&pair, false));
    for (i = 0; i < 400; i++) {
        uint64_t word = hg_test_random(&random);
        const struct na_segment odd = {pair.bytes, 1};

        if (i % 8 == 0)
            atomic_store(&slot->place, word);
        if (i % 8 == 1)
            atomic_store(&slot->size, word % sizeof(pair.got));
        if (i % 8 == 2)
            atomic_store(&slot->count, (uint32_t) word);
        if (i % 8 == 3)
            atomic_store(&slot->count, (uint32_t) (word % 100));
        if (i % 8 == 4) {
            atomic_store(&slot->place, (uintptr_t) &odd);
            atomic_store(&slot->count, (uint32_t) (1 + word % 2));
        }
        if (i % 8 == 5)
            atomic_store(&slot->flags, 0);
        if (i % 8 == 6) {
            atomic_store(&slot->arena, (uint8_t) word);
            atomic_store(&slot->arena_offset, word);
        }
        if (i % 8 == 7)
            atomic_store(&slot->width, (uint8_t) (word & 3));
        /* Such memory is moved by frames, or not at all. */
        (void) srma_move(&pair, false);
        if (i % 8 == 5)
            HG_CHECK_RET(pair.ret, NA_PERMISSION);
        if (i % 8 == 1)
            HG_CHECK_RET(pair.ret, NA_OVERFLOW);
        atomic_store(&slot->mark, 0);
        na_sm_slot_fill(slot,
            &(struct na_sm_slot_info){(uintptr_t) pair.bytes,
                sizeof(pair.bytes), 0, 1, NA_MEM_READWRITE, NA_SM_ARENAS,
                sizeof(void *)},
            mark);
    }
    HG_CHECK_OK(srma_move(&pair, false));
    srma_close(&pair);
}

/* One invalid field of a slot, and the result of a get. NA_AGAIN: frames carry
 * the data. */
struct srma_forgery {
    na_return_t want;
    uint32_t count;
    uint8_t width;
    uint8_t flags;
    uint8_t arena;
    uint64_t arena_offset;
    na_size_t smaller; /* than its real size */
    const void *place;
};

static void srma_report(const struct srma_forgery *lie)
{
    struct srma_pair pair;
    struct na_sm_slot *slot;
    na_return_t want = lie->want == NA_AGAIN ? NA_SUCCESS : lie->want;

    srma_open(&pair);
    memset(pair.bytes, 7, sizeof(pair.bytes));
    slot = srma_slot(&pair);
    atomic_store(&slot->count, lie->count);
    atomic_store(&slot->width, lie->width);
    atomic_store(&slot->flags, lie->flags);
    atomic_store(&slot->arena, lie->arena);
    atomic_store(&slot->arena_offset, lie->arena_offset);
    atomic_store(&slot->size, sizeof(pair.bytes) - lie->smaller);
    if (lie->place != NULL)
        atomic_store(&slot->place, (uintptr_t) lie->place);
    HG_CHECK_RET(srma_move(&pair, false), want);
    HG_CHECK_EQ_INT(pair.got[sizeof(pair.got) - 1], want == NA_SUCCESS ? 7 : 0);
    HG_CHECK_EQ_U64(NA_Get_counter(pair.user, "sm_rma_copied"),
        lie->want == NA_AGAIN ? sizeof(pair.got) : 0);
    HG_CHECK_EQ_U64(
        NA_Get_counter(pair.user, "rma_malformed"), want == NA_PROTOCOL_ERROR);
    srma_close(&pair);
}

HG_TEST(sm_rma_invalid_slots_are_refused)
{
    enum { WIDTH = sizeof(void *), BOTH = NA_MEM_READWRITE };
    enum { NONE = NA_SM_ARENAS };
    static unsigned char some[4096];
    static const struct na_segment much[2] = {{some, 4096}, {some, 1}};
    static const struct na_segment little[2] = {{some, 100}, {some, 100}};
    static const struct na_segment wrap[2] = {
        {some, SIZE_MAX - 1}, {some, 4098}};
    const struct srma_forgery lies[] = {
        {NA_SUCCESS, 1, WIDTH, BOTH, NONE, 0, 0, NULL}, /* none */
        {NA_AGAIN, 0, WIDTH, BOTH, NONE, 0, 0, NULL},
        {NA_AGAIN, NA_SM_MEM_SEGMENTS + 1, WIDTH, BOTH, NONE, 0, 0, NULL},
        {NA_AGAIN, UINT32_MAX, WIDTH, BOTH, NONE, 0, 0, NULL},
        {NA_AGAIN, 1, WIDTH / 2, BOTH, NONE, 0, 0, NULL},
        {NA_FAULT, 1, WIDTH, BOTH, NONE, 0, 0, (const void *) 16},
        {NA_FAULT, 2, WIDTH, BOTH, NONE, 0, 0, (const void *) 16},
        {NA_PERMISSION, 1, WIDTH, 0, NONE, 0, 0, NULL},
        {NA_PERMISSION, 1, WIDTH, NA_MEM_WRITE_ONLY, NONE, 0, 0, NULL},
        {NA_OVERFLOW, 1, WIDTH, BOTH, NONE, 0, 1, NULL},
        {NA_OVERFLOW, 1, WIDTH, BOTH, NONE, 0, 4096, NULL},
        {NA_PROTOCOL_ERROR, 2, WIDTH, BOTH, NONE, 0, 0, much},
        {NA_PROTOCOL_ERROR, 2, WIDTH, BOTH, NONE, 0, 0, little},
        {NA_PROTOCOL_ERROR, 2, WIDTH, BOTH, NONE, 0, 0, wrap},
        /* Arenas that do not exist: the kernel copies. */
        {NA_SUCCESS, 1, WIDTH, BOTH, NA_SM_ARENAS, UINT64_MAX, 0, NULL},
        {NA_SUCCESS, 1, WIDTH, BOTH, NA_SM_ARENAS + 1, 0, 0, NULL},
        {NA_SUCCESS, 1, WIDTH, BOTH, 255, UINT64_MAX, 0, NULL}};
    size_t i;

    for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
        srma_report(&lies[i]);
}

/* A get past the total that its owner reports for two segments. */
HG_TEST(sm_rma_offset_past_the_size_is_refused)
{
    static unsigned char some[200];
    static const struct na_segment little[2] = {{some, 100}, {some + 100, 100}};
    struct srma_pair pair;
    struct na_sm_slot *slot;
    unsigned i;

    srma_open(&pair);
    HG_CHECK_OK(srma_move(&pair, false));
    slot = srma_slot(&pair);
    atomic_store(&slot->count, 2);
    atomic_store(&slot->size, sizeof(some));
    atomic_store(&slot->place, (uintptr_t) little);
    for (i = 0; i < 2; i++) { /* the second get knows the segments already */
        pair.ends = 0;
        HG_CHECK_OK(NA_Get(pair.user, pair.users, srma_ended, &pair, pair.local,
            0, pair.remote, sizeof(some) + 1, 8, pair.addr, NA_OP_ID_IGNORE));
        while (pair.ends == 0)
            srma_turn(&pair);
        HG_CHECK_RET(pair.ret, NA_OVERFLOW);
    }
    srma_close(&pair);
}

/* The kernel reads only a part of the segments that an owner reports. */
HG_TEST(sm_rma_partially_read_segments_are_not_used)
{
    size_t page = (size_t) sysconf(_SC_PAGESIZE);
    unsigned char *pages = (unsigned char *) mmap(
        NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    const struct srma_forgery lie = {NA_FAULT, 2, sizeof(void *),
        NA_MEM_READWRITE, NA_SM_ARENAS, 0, 0,
        pages + page - sizeof(struct na_segment)};

    HG_CHECK(pages != MAP_FAILED);
    HG_CHECK(mprotect(pages + page, page, PROT_NONE) == 0);
    srma_report(&lie);
    HG_CHECK(munmap(pages, 2 * page) == 0);
}

/* A read gets all of the slot's contents, or nothing. */
HG_TEST(sm_rma_slots_are_read_consistently)
{
    const struct na_sm_slot_info told = {1, 2, 3, 4, 5, 6, 7};
    struct na_sm_slot slot;
    struct na_sm_slot_info got;
    uint64_t mark = na_sm_slot_mark(11, 12);

    memset((void *) &slot, 0, sizeof(slot));
    HG_CHECK(!na_sm_slot_read(&slot, mark, &got));
    na_sm_slot_fill(&slot, &told, mark);
    HG_CHECK(!na_sm_slot_read(&slot, na_sm_slot_mark(11, 13), &got));
    HG_CHECK(!na_sm_slot_read(&slot, na_sm_slot_mark(12, 12), &got));
    HG_CHECK(na_sm_slot_read(&slot, mark, &got));
    HG_CHECK(got.place == 1 && got.size == 2 && got.arena_offset == 3);
    HG_CHECK(got.count == 4 && got.flags == 5 && got.arena == 6);
    HG_CHECK(got.width == 7);
}

/* The bytes of a handle, and the mark that identifies its slot. */
HG_TEST(sm_rma_handles_match_the_golden_bytes)
{
    struct golden *golden = golden_open("tests/golden/sm.hex");
    unsigned char bytes[NA_SM_MEM_HANDLE];
    const unsigned char *want;
    struct na_sm_mem *mem;
    struct srma_pair pair;
    uint64_t key, incarnation;
    uint32_t slot;
    size_t size;

    srma_open(&pair);
    mem = na_sm_mem_of(pair.mem);
    key = pair.mem->key;
    slot = mem->slot;
    incarnation = pair.owner->incarnation;
    want = golden_get(golden, "handle", &size);
    HG_CHECK_EQ_U64(size, NA_SM_MEM_HANDLE);
    HG_CHECK_EQ_U64(
        NA_Mem_handle_get_serialize_size(pair.owner, pair.mem), size);
    pair.mem->key = UINT64_C(0xa8a7a6a5a4a3a2a1);
    pair.owner->incarnation = UINT64_C(0x3837363534333231);
    mem->slot = 0x1233;
    HG_CHECK_OK(
        NA_Mem_handle_serialize(pair.owner, bytes, sizeof(bytes), pair.mem));
    HG_CHECK_EQ_MEM(bytes, want, size);
    mem->slot = NA_SM_SLOTS;
    pair.mem->segment_count = NA_SM_MEM_SEGMENTS + 1; /* too many for a slot */
    want = golden_get(golden, "handle_without_slot", &size);
    HG_CHECK_OK(
        NA_Mem_handle_serialize(pair.owner, bytes, sizeof(bytes), pair.mem));
    pair.mem->segment_count = 1;
    HG_CHECK_EQ_MEM(bytes, want, size);
    pair.mem->key = key;
    pair.owner->incarnation = incarnation;
    mem->slot = slot;
    HG_CHECK_OK(NA_Mem_handle_free(pair.user, pair.remote));
    want = golden_get(golden, "handle", &size);
    HG_CHECK_OK(NA_Mem_handle_deserialize(pair.user, &pair.remote, want, size));
    HG_CHECK_EQ_U64(na_sm_mem_of(pair.remote)->slot, 0x1233);
    HG_CHECK_EQ_U64(
        na_sm_mem_of(pair.remote)->owner, UINT64_C(0x3837363534333231));
    want = golden_get(golden, "mark", &size);
    hg_wire_store64(bytes, na_sm_mem_of(pair.remote)->mark);
    HG_CHECK_EQ_MEM(bytes, want, size);
    srma_close(&pair);
    golden_close(golden);
}

/* Every bit of a handle is flipped, alone and in groups: it is refused when
 * read or when used, without other effects. */
HG_TEST(sm_rma_handles_may_be_garbage)
{
    unsigned char good[NA_SM_MEM_HANDLE], bytes[NA_SM_MEM_HANDLE];
    uint64_t random = hg_test_seed();
    struct srma_pair pair;
    unsigned i, k;

    hg_test_allow_log("");
    srma_open(&pair);
    HG_CHECK_OK(
        NA_Mem_handle_serialize(pair.owner, good, sizeof(good), pair.mem));
    for (i = 0; i < 8 * sizeof(good) + 500; i++) {
        na_return_t ret;

        memcpy(bytes, good, sizeof(good));
        if (i < 8 * sizeof(good))
            bytes[i / 8] ^= (unsigned char) (1u << i % 8);
        for (k = 0; i >= 8 * sizeof(good) && k <= i % 16; k++)
            bytes[hg_test_random(&random) % sizeof(bytes)] =
                (unsigned char) hg_test_random(&random);
        HG_CHECK_OK(NA_Mem_handle_free(pair.user, pair.remote));
        ret = NA_Mem_handle_deserialize(
            pair.user, &pair.remote, bytes, sizeof(bytes));
        if (ret == NA_SUCCESS && pair.remote->size >= sizeof(pair.got) &&
            pair.remote->flags == NA_MEM_READWRITE) {
            (void) srma_move(&pair, false);
        } else if (ret != NA_SUCCESS) {
            HG_CHECK_RET(ret, NA_PROTOCOL_ERROR);
            HG_CHECK_OK(NA_Mem_handle_deserialize(
                pair.user, &pair.remote, good, sizeof(good)));
        }
    }
    for (i = NA_EMUL_WIRE_HANDLE_SIZE + 8; i < sizeof(good); i++) {
        na_mem_handle_t none;

        memcpy(bytes, good, sizeof(good));
        bytes[i] = 0xff; /* an invalid slot, or a nonzero reserved byte */
        if (i != NA_EMUL_WIRE_HANDLE_SIZE + 8)
            HG_CHECK_RET(NA_Mem_handle_deserialize(
                             pair.user, &none, bytes, sizeof(bytes)),
                NA_PROTOCOL_ERROR);
    }
    for (i = 0; i < sizeof(good); i++) {
        na_mem_handle_t none;

        if (i != NA_EMUL_WIRE_HANDLE_SIZE)
            HG_CHECK_RET(NA_Mem_handle_deserialize(pair.user, &none, good, i),
                NA_PROTOCOL_ERROR);
    }
    srma_close(&pair);
}

#endif
