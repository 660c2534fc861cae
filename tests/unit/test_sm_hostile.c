/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport sm with a peer that was accepted and then writes anything over
 * everything it can map: the rings, the words beside them, the hints. The peer
 * is a class in this process whose internals the test accesses.
 */
#include "support/sm_endpoint.h"
#include "unit/locked.h"

#if HG_ENABLE_SM

static na_return_t hostile_keep(const struct na_cb_info *info)
{
    HG_CHECK_OK(info->ret);
    *(na_addr_t *) info->arg = info->info.recv_unexpected.source;
    return NA_SUCCESS;
}

/* Send a byte from `from` to `to` as an unexpected message. */
static void hostile_pass(struct sm_endpoint *from, struct sm_endpoint *to)
{
    na_addr_t source = NA_ADDR_NULL;
    char got = 0, byte = 'g';

    HG_CHECK_OK(NA_Msg_recv_unexpected(to->na_class, to->context, hostile_keep,
        &source, &got, 1, NA_OP_ID_IGNORE));
    HG_CHECK_OK(NA_Msg_send_unexpected(from->na_class, from->context, NULL,
        NULL, &byte, 1, from->peer, 5, NA_OP_ID_IGNORE));
    while (source == NA_ADDR_NULL) {
        sm_endpoint_turn(from);
        sm_endpoint_turn(to);
    }
    HG_CHECK_EQ_INT(got, 'g');
    HG_CHECK_OK(NA_Addr_free(to->na_class, source));
}

/* Write a record unchanged. */
static void hostile_write(struct sm_endpoint *from,
    const struct na_sm_record *record, const void *payload)
{
    struct na_sm_addr *addr = na_sm_addr_of(from->peer);
    unsigned char *at;

    HG_CHECK_OK(na_sm_out_reserve(&addr->out, record->size, &at));
    memcpy(at, payload, record->size);
    na_sm_out_commit(&addr->out, record);
    na_sm_hint_set(addr->peer_hints, addr->peer_slot);
}

/* Make progress until the victim has ended the connection. `side`: the hostile
 * side. */
static void hostile_expect_broken(
    struct sm_endpoint *victim, struct sm_endpoint *side, uint64_t before)
{
    while (NA_Get_counter(victim->na_class, "sm_broken") == before)
        sm_endpoint_turn(victim);
    HG_CHECK_EQ_U64(NA_Get_counter(victim->na_class, "sm_broken"), before + 1);
    while (na_sm_of(side->na_class)->pairs > 0) {
        sm_endpoint_turn(victim);
        sm_endpoint_turn(side);
    }
    if (victim->peer != NA_ADDR_NULL)
        HG_CHECK_OK(NA_Addr_free(victim->na_class, victim->peer));
    victim->peer = NA_ADDR_NULL;
}

/* A file on the right file system that is no memfd has no seals: there the
 * result is -1. */
HG_TEST(sm_hostile_descriptors_without_seals_are_not_mapped)
{
    static const char *const paths[] = {"/dev/shm", "/dev/null", "/dev"};
    size_t i;

    for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);

        if (fd < 0)
            continue;
        HG_CHECK(!na_sm_page_is_safe(fd));
        (void) close(fd);
    }
}

HG_TEST(sm_hostile_records_break_their_own_connection)
{
    static const struct na_sm_record bad[] = {
        {100, NA_SM_MESSAGE, NA_MSG_PLANE_MAX, 0, 4},
        {100, NA_SM_MESSAGE, 255, 255, 0},
        {NA_SM_MSG_MAX + 1, NA_SM_MESSAGE, 0, 0, 0},
        {100, NA_SM_MESSAGE, 0, 0, 3}, /* a part of a tag */
        {3, NA_SM_MESSAGE, 0, 0, 4},
        {100, NA_SM_FRAME, 0, 0, 101},
        {1000, NA_SM_FRAME, 0, 0, NA_SM_FRAME_HEADER + 1},
        {0, NA_SM_FRAME, 0, 0, UINT8_MAX},
    };
    static const unsigned char payload[NA_SM_MSG_MAX + 1] = {0};
    struct sm_endpoint victim, good, hostile, side;
    unsigned way;
    uint64_t broken = 0;
    size_t i;

    hg_test_expect_log("wrote invalid data into its ring");
    sm_endpoint_open(&victim);
    sm_endpoint_open(&good);
    sm_endpoint_meet(&good, &victim);
    for (way = SM_END_CALLS; way < SM_END_WAYS; way++) {
        for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            sm_endpoint_open(&hostile);
            side = sm_endpoint_attack(&hostile, &victim, way);
            hostile_pass(&side, &victim);
            hostile_write(&side, &bad[i], payload);
            hostile_expect_broken(&victim, &side, broken++);
            sm_endpoint_close(&hostile);
            hostile_pass(&good, &victim);
        }
    }
    sm_endpoint_close(&good);
    sm_endpoint_close(&victim);
}

/* Packets of a wrong length, and a name that is one byte too long. */
HG_TEST(sm_hostile_packets_are_not_read_past_their_end)
{
    struct na_sm_packet packet;
    size_t length;

    na_sm_packet_init(&packet, NA_SM_HELLO);
    packet.incarnation = 1;
    memset(packet.name, 'a', NA_MAX_ADDR_LEN - 1);
    HG_CHECK_OK(na_sm_packet_check(&packet, NA_SM_PACKET_SIZE));
    for (length = 1; length < NA_SM_PACKET_SIZE; length++)
        HG_CHECK_RET(na_sm_packet_check(&packet, length), NA_PROTOCOL_ERROR);
    packet.name[NA_MAX_ADDR_LEN - 1] = 'a';
    HG_CHECK_RET(
        na_sm_packet_check(&packet, NA_SM_PACKET_SIZE), NA_PROTOCOL_ERROR);
}

/* A BYE that arrives while ours waits for a copy ends the connection in order,
 * once; so does one that arrives after the end. */
HG_TEST(sm_hostile_bye_crosses_ours)
{
    static const struct na_sm_record bye = {0, NA_SM_BYE, 0, 0, 0};
    struct sm_endpoint victim, hostile;
    struct na_sm_class *self;
    struct na_sm_addr *addr;
    unsigned i, way;

    for (way = 0; way < 2; way++) {
        sm_endpoint_open(&victim);
        sm_endpoint_open(&hostile);
        sm_endpoint_meet(&victim, &hostile);
        self = na_sm_of(victim.na_class);
        addr = na_sm_addr_of(victim.peer);
        hostile = sm_endpoint_accepted(&hostile);
        na_sm_enter(self);
        addr->copies = 1; /* so that it stays open */
        if (way == 0) {
            na_sm_leave(self);
            HG_CHECK_OK(NA_Addr_terminate(victim.na_class, victim.context, NULL,
                NULL, &addr->base, NA_OP_ID_IGNORE));
            na_sm_enter(self);
            HG_CHECK_EQ_INT(addr->state, NA_SM_CLOSING);
        } else {
            na_sm_peer_lose(self, addr, NA_DISCONNECT);
        }
        for (i = 0; i < 2; i++) {
            hostile_write(&hostile, &bye, "");
            (void) na_sm_flow_visit(self, addr);
            HG_CHECK_EQ_INT(addr->state, NA_SM_DYING);
            HG_CHECK(addr->again == (way == 0));
        }
        addr->copies = 0;
        na_sm_leave(self);
        while (self->pairs > 0 || na_sm_of(hostile.na_class)->pairs > 0) {
            sm_endpoint_turn(&victim);
            sm_endpoint_turn(&hostile);
        }
        HG_CHECK_EQ_INT(addr->state, way == 0 ? NA_SM_IDLE : NA_SM_DEAD);
        hostile.peer = NA_ADDR_NULL;
        sm_endpoint_close(&hostile);
        sm_endpoint_close(&victim);
    }
}

/* A peer that claims to have read more than was written. */
HG_TEST(sm_hostile_heads_break_their_own_connection)
{
    static const uint64_t heads[] = {
        NA_SM_RING, NA_SM_RING + 16, UINT64_MAX - 15, 4, UINT64_C(1) << 40};
    static const char bytes[NA_SM_MSG_MAX] = {0};
    struct sm_endpoint victim, hostile, side;
    struct na_sm_addr *addr;
    unsigned way;
    uint64_t broken = 0;
    size_t i, n;

    hg_test_expect_log("wrote invalid data into its ring");
    hg_test_allow_log("");
    sm_endpoint_open(&victim);
    for (way = SM_END_CALLS; way < SM_END_WAYS; way++) {
        for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
            sm_endpoint_open(&hostile);
            side = sm_endpoint_attack(&hostile, &victim, way);
            addr = sm_endpoint_attacker(&victim, way);
            atomic_store(&addr->out.control->head, heads[i]);
            for (n = 0; n < 2 * NA_SM_RING / NA_SM_MSG_MAX; n++)
                (void) NA_Msg_send_unexpected(victim.na_class, victim.context,
                    NULL, NULL, bytes, sizeof(bytes), &addr->base, 1,
                    NA_OP_ID_IGNORE);
            hostile_expect_broken(&victim, &side, broken++);
            sm_endpoint_close(&hostile);
        }
    }
    sm_endpoint_close(&victim);
}

/* The peer changes its head after our ring is full: sending a queued message,
 * or a frame, detects it. */
HG_TEST(sm_hostile_heads_break_a_connection_that_is_full)
{
    static const char bytes[NA_SM_MSG_MAX] = {0};
    struct sm_endpoint victim, hostile, side;
    struct na_sm_addr *addr;
    unsigned way;
    uint64_t broken = 0;
    na_return_t ret;

    hg_test_expect_log("wrote invalid data into its ring");
    hg_test_allow_log("");
    sm_endpoint_open(&victim);
    for (way = 0; way < 2 * SM_END_WAYS; way++) {
        bool frame = way >= SM_END_WAYS;

        sm_endpoint_open(&hostile);
        side = sm_endpoint_attack(&hostile, &victim, way % SM_END_WAYS);
        addr = sm_endpoint_attacker(&victim, way % SM_END_WAYS);
        do {
            if (frame)
                LOCKED(locked_class(victim.na_class),
                    ret = na_sm_flow_frame_send(&addr->base, bytes, 24, bytes,
                        sizeof(bytes), NULL, NULL));
            else
                ret = NA_Msg_send_unexpected(victim.na_class, victim.context,
                    NULL, NULL, bytes, sizeof(bytes), &addr->base, 1,
                    NA_OP_ID_IGNORE);
        } while (ret == NA_SUCCESS && !addr->full);
        na_sm_enter(na_sm_of(victim.na_class));
        HG_CHECK_RET(ret, frame ? NA_AGAIN : NA_SUCCESS);
        atomic_store(&addr->out.control->head, 4);
        atomic_store(&addr->out.control->starved, 0);
        (void) na_sm_flow_visit(na_sm_of(victim.na_class), addr);
        if (frame)
            HG_CHECK_RET(na_sm_flow_frame_send(&addr->base, bytes, 24, bytes,
                             sizeof(bytes), NULL, NULL),
                NA_DISCONNECT);
        na_sm_leave(na_sm_of(victim.na_class));
        HG_CHECK_EQ_U64(
            NA_Get_counter(victim.na_class, "sm_broken"), broken + 1);
        hostile_expect_broken(&victim, &side, broken++);
        sm_endpoint_close(&hostile);
    }
    sm_endpoint_close(&victim);
}

/* Invalid frames of emulated RMA are counted. */
HG_TEST(sm_hostile_frames_are_counted)
{
    struct sm_endpoint victim, hostile;
    uint64_t random = hg_test_seed();
    unsigned i;

    hg_test_allow_log("");
    sm_endpoint_open(&victim);
    sm_endpoint_open(&hostile);
    sm_endpoint_meet(&hostile, &victim);
    for (i = 0; i < 200; i++) {
        unsigned char bytes[NA_SM_FRAME_HEADER + 64];
        struct na_sm_record record = {0, NA_SM_FRAME, 0, 0, 0};
        unsigned k;

        for (k = 0; k < sizeof(bytes); k++)
            bytes[k] = (unsigned char) hg_test_random(&random);
        record.extra =
            (uint8_t) (hg_test_random(&random) % (NA_SM_FRAME_HEADER + 1));
        record.size = record.extra + (uint32_t) (hg_test_random(&random) % 64);
        hostile_write(&hostile, &record, bytes);
        sm_endpoint_turn(&victim);
        sm_endpoint_turn(&hostile);
    }
    hostile_pass(&hostile, &victim);
    HG_CHECK(NA_Get_counter(victim.na_class, "rma_malformed") +
            NA_Get_counter(victim.na_class, "rma_refused") >
        0);
    sm_endpoint_close(&hostile);
    sm_endpoint_close(&victim);
}

/* Corrupt the memory of the pair and the victim's hints, while both
 * continue. */
static void hostile_spoil(struct na_sm_addr *addr, uint64_t *random)
{
    _Atomic uint64_t *words = (_Atomic uint64_t *) (void *) addr->shared;
    _Atomic uint64_t *hints = (_Atomic uint64_t *) (void *) addr->peer_hints;
    unsigned i;

    for (i = 0; i < 20; i++) {
        uint64_t pick = hg_test_random(random);
        uint64_t value = hg_test_random(random) >> pick % 64;
        size_t place = pick % 8 == 0
            ? (size_t) (pick >> 16) % (2 * sizeof(struct na_sm_control) / 8)
            : (size_t) (pick >> 16) % (sizeof(*addr->shared) / 8);

        if (pick % 8 == 1) /* where the next record begins */
            place = (size_t) (addr->out.data - (unsigned char *) words) / 8 +
                (size_t) (addr->out.tail % NA_SM_RING) / 8;

        atomic_store(&words[place], value);
        atomic_store(&hints[(pick >> 40) % (NA_SM_HINTS_SIZE / 8)], value);
    }
}

HG_TEST_SECONDS(sm_hostile_corruption_breaks_only_its_connection, 60)
{
    struct sm_endpoint victim, good, hostile;
    uint64_t random = hg_test_seed();
    unsigned rounds = hg_test_is_plain() ? 400 : 60;
    uint64_t broken = 0;
    unsigned i, k;

    hg_test_allow_log("");
    sm_endpoint_open(&victim);
    sm_endpoint_open(&good);
    sm_endpoint_meet(&good, &victim);
    for (i = 0; i < rounds; i++) {
        sm_endpoint_open(&hostile);
        sm_endpoint_meet(&hostile, &victim);
        for (k = 0; k < 20; k++) {
            static const unsigned char payload[300] = {0};
            struct na_sm_record record = {
                (uint32_t) (hg_test_random(&random) % 300), NA_SM_FRAME, 0, 0,
                0};

            if (na_sm_addr_of(hostile.peer)->out.tail < NA_SM_RING / 2)
                hostile_write(&hostile, &record, payload);
            if (k % 3 == 0)
                hostile_spoil(na_sm_addr_of(hostile.peer), &random);
            sm_endpoint_turn(&victim);
        }
        sm_endpoint_close(&hostile);
        sm_endpoint_turn(&victim);
        /* Hints were corrupted: a message still arrives, within a second. */
        if (i % 100 == 0)
            hostile_pass(&good, &victim);
        broken = NA_Get_counter(victim.na_class, "sm_broken");
    }
    HG_CHECK(broken > rounds / 30); /* 4 of 60 were seen */
    hostile_pass(&good, &victim);
    sm_endpoint_close(&good);
    sm_endpoint_close(&victim);
}

/* A hint that was erased costs a second, not a message. */
HG_TEST(sm_hostile_hints_cause_a_delay_at_most)
{
    struct sm_endpoint victim, good;
    struct na_sm_addr *addr;
    na_addr_t source = NA_ADDR_NULL;
    char got, byte = 'g';
    unsigned i;

    sm_endpoint_open(&victim);
    sm_endpoint_open(&good);
    sm_endpoint_meet(&good, &victim);
    addr = na_sm_addr_of(good.peer);
    for (i = 0; i < 3; i++)
        hostile_pass(&good, &victim);
    HG_CHECK_OK(NA_Msg_recv_unexpected(victim.na_class, victim.context,
        hostile_keep, &source, &got, 1, NA_OP_ID_IGNORE));
    HG_CHECK_OK(NA_Msg_send_unexpected(good.na_class, good.context, NULL, NULL,
        &byte, 1, good.peer, 5, NA_OP_ID_IGNORE));
    memset((void *) addr->peer_hints, 0, sizeof(*addr->peer_hints));
    HG_CHECK_OK(NA_Progress(victim.na_class, victim.context, 5000));
    while (source == NA_ADDR_NULL)
        sm_endpoint_turn(&victim);
    HG_CHECK_OK(NA_Addr_free(victim.na_class, source));
    sm_endpoint_close(&good);
    sm_endpoint_close(&victim);
}

/* A listener sets the hint of a caller that it has not answered. */
HG_TEST(sm_hostile_hints_arrive_before_the_welcome)
{
    struct sm_endpoint victim, hostile;
    struct na_sm_class *self;
    unsigned i;

    sm_endpoint_open(&victim);
    sm_endpoint_open(&hostile);
    self = na_sm_of(victim.na_class);
    HG_CHECK_OK(
        NA_Addr_lookup(victim.na_class, victim.context, sm_endpoint_found,
            &victim.peer, hostile.na_class->self_addr->name, NA_OP_ID_IGNORE));
    while (self->pairs == 0)
        sm_endpoint_turn(&victim);
    memset((void *) self->hints, 0xff, sizeof(*self->hints));
    HG_CHECK(!na_sm_flow_has_work(self));
    for (i = 0; i < 3; i++)
        sm_endpoint_turn(&victim);
    while (victim.peer == NA_ADDR_NULL) {
        sm_endpoint_turn(&victim);
        sm_endpoint_turn(&hostile);
    }
    sm_endpoint_close(&victim);
    sm_endpoint_close(&hostile);
}

/* A caller whose name is not valid for this transport is not recorded under
 * it. */
HG_TEST(sm_hostile_names_are_refused)
{
    struct sm_endpoint victim, hostile;
    char *name;

    sm_endpoint_open(&victim);
    sm_endpoint_open(&hostile);
    name = (char *) (uintptr_t) hostile.na_class->self_addr->name;
    memcpy(name, "tc", 2);
    sm_endpoint_meet(&hostile, &victim);
    memcpy(name, "sm", 2);
    HG_CHECK(strncmp(sm_endpoint_attacker(&victim, SM_END_CALLS)->base.name,
                 "sm://~", 6) == 0);
    sm_endpoint_close(&hostile);
    sm_endpoint_close(&victim);
}

/* A packet may omit the wakeup descriptor. */
HG_TEST(sm_hostile_packets_without_a_wakeup_descriptor_are_handled)
{
    struct na_sm_addr addr;
    struct na_sm_packet packet;
    void *pages, *hints;

    memset(&addr, 0, sizeof(addr));
    na_sm_packet_init(&packet, NA_SM_WELCOME);
    addr.user.same_user = true;
    addr.peer_bell = -1;
    HG_CHECK(na_sm_page_make("hg-test", NA_SM_PUBLIC_SIZE, true, &pages,
        &packet.fds[NA_SM_FD_PUBLIC]));
    HG_CHECK(na_sm_page_make("hg-test", NA_SM_HINTS_SIZE, false, &hints,
        &packet.fds[NA_SM_FD_HINTS]));
    HG_CHECK_OK(na_sm_conn_map(&addr, &packet));
    HG_CHECK_EQ_INT(addr.peer_bell, -1);
    na_sm_packet_close(&packet);
    na_sm_page_unmap(pages, NA_SM_PUBLIC_SIZE);
    na_sm_page_unmap(hints, NA_SM_HINTS_SIZE);
    na_sm_page_unmap(addr.peer_public, NA_SM_PUBLIC_SIZE);
    na_sm_page_unmap(addr.peer_hints, NA_SM_HINTS_SIZE);
}

/* Hints of slots without a peer, and of a peer whose records are no longer
 * read, keep no thread awake. */
HG_TEST(sm_hostile_hints_of_unknown_peers_are_ignored)
{
    static const struct na_sm_record bad = {0, NA_SM_FRAME, 0, 0, 1};
    struct sm_endpoint victim, hostile;
    struct na_sm_class *self;
    struct na_sm_addr *addr;

    hg_test_expect_log("wrote invalid data into its ring");
    sm_endpoint_open(&victim);
    sm_endpoint_open(&hostile);
    sm_endpoint_meet(&hostile, &victim);
    self = na_sm_of(victim.na_class);
    addr = sm_endpoint_attacker(&victim, SM_END_CALLS);
    memset((void *) na_sm_addr_of(hostile.peer)->peer_hints, 0xff,
        sizeof(struct na_sm_hints));
    HG_CHECK(!na_sm_flow_has_work(self));
    na_sm_enter(self);
    addr->copies = 1; /* so that it stays open */
    hostile_write(&hostile, &bad, "");
    HG_CHECK(na_sm_flow_has_work(self));
    (void) na_sm_flow_visit(self, addr);
    HG_CHECK_EQ_INT(addr->state, NA_SM_DYING);
    HG_CHECK(!na_sm_flow_has_work(self));
    addr->copies = 0;
    na_sm_leave(self);
    hostile_expect_broken(&victim, &hostile, 0);
    sm_endpoint_close(&hostile);
    sm_endpoint_close(&victim);
}

/* Pages that peers map read-only cannot be written by them, nor mapped
 * otherwise. */
HG_TEST(sm_hostile_peers_cannot_write_the_public_page)
{
    struct sm_endpoint victim;
    struct na_sm_class *self;
    void *memory;

    sm_endpoint_open(&victim);
    self = na_sm_of(victim.na_class);
    memory = mmap(NULL, NA_SM_PUBLIC_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
        self->public_fd, 0);
    HG_CHECK(memory == MAP_FAILED);
    HG_CHECK_EQ_INT(pwrite(self->public_fd, "x", 1, 0), -1);
    HG_CHECK_EQ_INT(ftruncate(self->public_fd, 0), -1);
    HG_CHECK_EQ_INT(ftruncate(self->hints_fd, 0), -1);
    memory = mmap(
        NULL, NA_SM_PUBLIC_SIZE, PROT_READ, MAP_SHARED, self->public_fd, 0);
    HG_CHECK(memory != MAP_FAILED);
    HG_CHECK(mprotect(memory, 4096, PROT_READ | PROT_WRITE) != 0);
    HG_CHECK(munmap(memory, NA_SM_PUBLIC_SIZE) == 0);
    sm_endpoint_close(&victim);
}

/* A peer that gets memory cannot add seals against its owner, or against later
 * peers. */
HG_TEST(sm_hostile_peers_cannot_add_seals)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        void *memory;
        int fd;

        HG_CHECK(na_sm_page_make("hg-test", 4096, i == 1, &memory, &fd));
        HG_CHECK_EQ_INT(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
        HG_CHECK_EQ_INT(errno, EPERM);
        na_sm_page_unmap(memory, 4096);
        HG_CHECK(close(fd) == 0);
    }
}

/* A process that connects and stays silent times out, although every thread
 * sleeps. */
HG_TEST(sm_hostile_silent_connection_times_out)
{
    struct sm_endpoint victim;
    struct na_sm_class *self;
    struct na_sm_addr *caller;
    uint64_t deadline;
    int fd = na_sm_socket();

    sm_endpoint_open(&victim);
    self = na_sm_of(victim.na_class);
    HG_CHECK_OK(na_sm_connect(&self->where, fd));
    while (hg_list_is_empty(&self->dialling))
        sm_endpoint_turn(&victim);
    caller = HG_CONTAINER_OF(self->dialling.next, struct na_sm_addr, turn);
    deadline = caller->deadline;
    na_sm_enter(self);
    (void) na_sm_conn_tick(self, hg_clock_now());
    HG_CHECK_EQ_U64(self->tick, deadline);
    HG_CHECK_EQ_INT(na_sm_conn_tick(self, deadline - 1), 0);
    HG_CHECK_EQ_INT(na_sm_conn_tick(self, deadline), 1);
    na_sm_leave(self);
    HG_CHECK(hg_list_is_empty(&self->dialling));
    HG_CHECK_EQ_U64(NA_Get_counter(victim.na_class, "sm_refused"), 1);
    HG_CHECK(close(fd) == 0);
    sm_endpoint_close(&victim);
}

/* ---- Too many connections ---- */

/* Silent callers hold a bounded number of descriptors. */
HG_TEST(sm_hostile_silent_connections_are_limited)
{
    struct sm_endpoint victim;
    struct na_sm_class *self;
    struct na_sm_packet packet;
    int fd = na_sm_socket();
    na_return_t ret;

    sm_endpoint_open(&victim);
    self = na_sm_of(victim.na_class);
    self->callers = NA_SM_CONN_CALLERS; /* as if they existed */
    HG_CHECK_OK(na_sm_connect(&self->where, fd));
    do {
        sm_endpoint_turn(&victim);
        ret = na_sm_packet_recv(fd, &packet);
    } while (ret == NA_AGAIN && hg_list_is_empty(&self->dialling));
    HG_CHECK_OK(ret);
    HG_CHECK_EQ_INT(packet.kind, NA_SM_REFUSE);
    HG_CHECK_EQ_INT(packet.reason, NA_AGAIN);
    HG_CHECK(hg_list_is_empty(&self->dialling));
    self->callers = 0;
    HG_CHECK(close(fd) == 0);
    sm_endpoint_close(&victim);
}

static na_return_t hostile_keep_ret(const struct na_cb_info *info)
{
    *(na_return_t *) info->arg = info->ret;
    if (info->ret == NA_SUCCESS)
        HG_CHECK_OK(NA_Addr_free(
            info->info.lookup.addr->na_class, info->info.lookup.addr));
    return NA_SUCCESS;
}

/* The result of looking up `to`. */
static na_return_t hostile_try(struct sm_endpoint *from, struct sm_endpoint *to)
{
    na_return_t ret = NA_RETURN_MAX;

    HG_CHECK_OK(NA_Addr_lookup(from->na_class, from->context, hostile_keep_ret,
        &ret, to->na_class->self_addr->name, NA_OP_ID_IGNORE));
    while (ret == NA_RETURN_MAX) {
        sm_endpoint_turn(from);
        sm_endpoint_turn(to);
    }
    return ret;
}

/* Give a class a peer that only takes a slot. */
static na_return_t hostile_fill(
    struct na_sm_class *self, struct na_sm_addr **addr_p)
{
    na_return_t ret;

    *addr_p = na_sm_peer_new(self, "sm://filler", NA_FALSE, NULL);
    HG_CHECK(*addr_p != NULL);
    na_sm_enter(self);
    ret = na_sm_peer_take_slot(self, *addr_p);
    na_sm_leave(self);
    return ret;
}

static void hostile_free(struct na_sm_class *self, struct na_sm_addr *addr)
{
    na_sm_enter(self);
    na_sm_peer_part(self, addr);
    na_sm_leave(self);
    na_addr_unref(&addr->base);
}

/* At its maximum of peers a class accepts no more, and continues with the
 * present ones. When one disconnects, another is accepted. */
HG_TEST(sm_hostile_connections_are_limited)
{
    static struct na_sm_addr *fillers[NA_SM_PEERS];
    struct sm_endpoint victim, good, late;
    struct na_sm_class *self;
    unsigned i, n;

    hg_test_expect_log("cannot be a peer: the limit is 8192 peers");
    hg_test_expect_log("its limit of peers or descriptors is reached");
    sm_endpoint_open(&victim);
    sm_endpoint_open(&good);
    sm_endpoint_open(&late);
    sm_endpoint_meet(&good, &victim);
    self = na_sm_of(victim.na_class);
    for (n = 0; hostile_fill(self, &fillers[n]) == NA_SUCCESS; n++)
        HG_CHECK(n < NA_SM_PEERS - 1);
    na_addr_unref(&fillers[n]->base);
    HG_CHECK_EQ_INT(n, NA_SM_PEERS - 1);
    for (i = 0; i < 5; i++) {
        HG_CHECK_RET(hostile_try(&late, &victim), NA_AGAIN);
        HG_CHECK_EQ_U64(NA_Get_counter(victim.na_class, "sm_refused"), i + 1);
        hostile_pass(&good, &victim);
    }
    HG_CHECK_EQ_INT(
        hg_test_log_count("cannot be a peer: the limit is 8192 peers"), 3);
    HG_CHECK_RET(hostile_try(&victim, &late), NA_AGAIN);
    hostile_free(self, fillers[--n]);
    HG_CHECK_OK(hostile_try(&late, &victim));
    hostile_pass(&good, &victim);
    while (n > 0)
        hostile_free(self, fillers[--n]);
    sm_endpoint_close(&late);
    sm_endpoint_close(&good);
    sm_endpoint_close(&victim);
}

/* The lowest unused descriptor number. */
static int hostile_next_fd(void)
{
    int fd = dup(0);

    HG_CHECK(fd >= 0 && close(fd) == 0);
    return fd;
}

/* If the listener's backlog is full, the dialing side tries again and again,
 * and a failed attempt leaves nothing. */
HG_TEST(sm_hostile_backlog_is_waited_for)
{
    enum { CROWD = 8, TRIES = 3 };
    struct sm_endpoint victim, late;
    struct na_sm_class *self;
    struct na_sm_addr *addr;
    na_return_t ret = NA_RETURN_MAX;
    int fds[CROWD];
    int next, n, i;

    sm_endpoint_open(&victim);
    sm_endpoint_open(&late);
    self = na_sm_of(victim.na_class);
    HG_CHECK(listen(self->listen_fd, 0) == 0);
    for (n = 0; n < CROWD; n++) {
        fds[n] = na_sm_socket();
        if (na_sm_connect(&self->where, fds[n]) != NA_SUCCESS)
            break;
    }
    HG_CHECK(n < CROWD);
    HG_CHECK_RET(na_sm_connect(&self->where, fds[n]), NA_BUSY);
    next = hostile_next_fd();
    HG_CHECK_OK(NA_Addr_lookup(late.na_class, late.context, hostile_keep_ret,
        &ret, victim.na_class->self_addr->name, NA_OP_ID_IGNORE));
    addr = HG_CONTAINER_OF(
        na_sm_of(late.na_class)->dialling.next, struct na_sm_addr, turn);
    for (i = 0; i < TRIES; i++) {
        uint64_t before = addr->retry;

        while (addr->retry == before)
            sm_endpoint_turn(&late);
        HG_CHECK(addr->state == NA_SM_DIALLING && addr->fd < 0);
        HG_CHECK_EQ_INT(hostile_next_fd(), next);
    }
    while (ret == NA_RETURN_MAX) {
        sm_endpoint_turn(&late);
        sm_endpoint_turn(&victim);
    }
    HG_CHECK_OK(ret);
    for (i = 0; i <= n; i++)
        HG_CHECK(close(fds[i]) == 0);
    sm_endpoint_close(&late);
    sm_endpoint_close(&victim);
}

/* ---- Users ---- */

HG_TEST(sm_user_namespaces_are_recognized)
{
    static const struct {
        const char *map;
        bool all;
    } maps[] = {
        {"         0          0 4294967295\n", true},
        {"0 100000 65536\n", false},
        {"0 1000 1\n1 100000 65535\n", false},
        {"0 0 2147483648\n2147483648 2147483648 2147483647\n", false},
        {"", false},
        {"0 0", false},
        {"x", false},
    };
    unsigned i;

    for (i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
        HG_CHECK(na_sm_users_are_all(maps[i].map) == maps[i].all);
}

#endif
