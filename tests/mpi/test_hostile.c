/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that no correct peer sends. Rank 0 has a class of hg. Rank 1 talks to
 * it with plain MPI in the packet format of gen/mpi/wire.c, and sends one wrong
 * packet on each connection. Rank 2 sends some of them in place of rank 1. In
 * half of the cases rank 0 has called, in the others it was called.
 */
#include "mpi/raw.h"

#include <ctype.h>
#include <limits.h>
#include <unistd.h>

#define FORWARD 3
#define ANY UINT_MAX

/* The state of the connection after the wrong packet. */
enum after {
    GOES_ON,    /* it continues as if the packet had not arrived */
    IS_RESET,   /* hg closes it with an error */
    ENDS,       /* hg closes it */
    BEGINS_ANEW /* it was closed, and there is a new one */
};

enum where { EVERYWHERE, IN_STATIC, IN_DYNAMIC, CALLING_IN_DYNAMIC };

struct wrong {
    const char *what;
    const char *why; /* the log line of the refusal; NULL: not refused */
    struct packet packet;
    void (*act)(struct raw *raw); /* called instead of sending one packet */
    /* Packets that are dropped as of an unknown peer. */
    unsigned stale;
    bool early;       /* before the connection is established */
    bool turned_away; /* which ends then */
    bool offered;     /* hg has offered us a body */
    bool closing;     /* and then closes the connection */
    bool lost;        /* and learns that the body is lost */
    bool again;       /* and then sends once more */
    bool other;       /* rank 2 sends it */
    enum after after;
    enum where where;
};

/* ---- Rank 1 ---- */

static void raw_forward(struct raw *raw, const struct packet *packet)
{
    unsigned char bytes[2 * PACKET];
    size_t size = raw_make(raw, packet, bytes);

    HG_CHECK_EQ_INT(
        MPI_Send(bytes, (int) size, MPI_BYTE, 2, FORWARD, MPI_COMM_WORLD),
        MPI_SUCCESS);
}

/* In dynamic mode: leave the former communicator, as hg has done. MPI may give
 * its number to the next one, so hg must not have freed its end: the packets
 * would arrive at the next connection. */
static void raw_leave(struct raw *raw)
{
    int none;

    if (!raw->apart || raw->comm == MPI_COMM_WORLD)
        return;
    while (raw_next(raw, &none) != GONE)
        continue;
    raw_say(raw, MESSAGE, GREETING);
    raw_say(raw, MESSAGE, GREETING);
    raw_say(raw, GONE, 0);
    HG_CHECK_EQ_INT(MPI_Comm_free(&raw->comm), MPI_SUCCESS);
    raw->comm = MPI_COMM_WORLD;
}

/* In dynamic mode: establish the communicator. */
static void raw_meet(struct raw *raw)
{
    char turn[RANKS_TURN_LEN];

    if (!raw->apart)
        return;
    raw_leave(raw);
    if (raw->calls)
        ranks_take_turn(raw->port, turn);
    else
        ranks_offer_turn(raw->port, ++raw->turns, turn);
    HG_CHECK_EQ_INT((raw->calls ? MPI_Comm_connect : MPI_Comm_accept)(
                        turn, MPI_INFO_NULL, 0, MPI_COMM_SELF, &raw->comm),
        MPI_SUCCESS);
}

static void raw_connect(struct raw *raw, const struct wrong *wrong)
{
    raw_meet(raw);
    if (!raw->calls)
        (void) raw_await(raw, HELLO);
    if (wrong->early)
        raw_send(raw, &wrong->packet);
    if (wrong->turned_away)
        raw_meet(raw); /* after a GONE of hg */
    if (raw->calls) {
        raw_say(raw, HELLO, 0);
        (void) raw_await(raw, WELCOME);
        raw_say(raw, MESSAGE, GREETING);
    } else {
        raw_say(raw, WELCOME, 0);
    }
}

static void raw_row(struct raw *raw, const struct wrong *wrong, unsigned index)
{
    raw->from += 2;
    raw_connect(raw, wrong);
    if (wrong->offered)
        (void) raw_await(raw, MESSAGE);
    raw_wait();
    if (wrong->act != NULL)
        wrong->act(raw);
    else if (wrong->other)
        raw_forward(raw, &wrong->packet);
    else if (!wrong->early)
        raw_send(raw, &wrong->packet);
    if (wrong->after == IS_RESET)
        (void) raw_await(raw, RESET);
    if (wrong->after == GOES_ON || wrong->after == BEGINS_ANEW) {
        raw_say(raw, MESSAGE, index);
        raw_wait();
        raw_say(raw, RESET, 0);
    }
}

/* ---- Sequences of packets ---- */

static const struct packet with_body = {
    .kind = MESSAGE, .size = BODY, .id = 1, .tag = 77};

/* A body is announced and not sent. */
static void flood(struct raw *raw)
{
    const struct packet full = {.kind = MESSAGE, .head = PACKET - HEADER};
    unsigned i;
    int tag;

    raw_send(raw, &with_body);
    tag = raw_await(raw, PULL);
    for (i = 0; i < 8 * MIB / (PACKET - HEADER) + 1; i++)
        raw_send(raw, &full);
    (void) raw_await(raw, RESET);
    raw_send_body(raw, tag, BODY);
}

/* More than the queue holds, although nobody is to receive it, and a BYE. */
static void part_from_a_queue(struct raw *raw)
{
    const struct packet full = {
        .kind = MESSAGE, .plane = 1, .head = PACKET - HEADER};
    unsigned i;

    for (i = 0; i < QUEUE / (PACKET - HEADER) + 10; i++)
        raw_send(raw, &full);
    raw_say(raw, BYE, 0);
    (void) raw_await(raw, BYE);
}

/* Bodies are requested eight at a time. */
static void nine_bodies(struct raw *raw)
{
    struct packet packet = {.kind = MESSAGE, .plane = 1, .size = BODY};
    int tags[9];
    unsigned i;
    int none;

    for (packet.id = 1; packet.id <= 9; packet.id++)
        raw_send(raw, &packet);
    for (i = 0; i < 8; i++)
        tags[i] = raw_await(raw, PULL);
    raw_say(raw, HELLO, 0); /* is answered after the requests before it */
    HG_CHECK_EQ_INT(raw_next(raw, &none), WELCOME);
    raw_send_body(raw, tags[0], BODY);
    tags[8] = raw_await(raw, PULL);
    for (i = 1; i < 9; i++)
        raw_send_body(raw, tags[i], BODY);
}

static void short_body(struct raw *raw)
{
    raw_send(raw, &with_body);
    raw_send_body(raw, raw_await(raw, PULL), BODY - 1);
}

#ifndef OPEN_MPI
static void long_body(struct raw *raw)
{
    raw_send(raw, &with_body);
    raw_send_body(raw, raw_await(raw, PULL), BODY + 1);
}
#endif

/* The largest body that is allowed, for a message and for a frame. The
 * connection ends before the frame arrives, and perhaps the message, for which
 * there is no receive. */
static void largest(struct raw *raw)
{
    struct packet packet = {.kind = MESSAGE, .plane = 1, .size = 16 * MIB};
    int tags[2];

    raw_send(raw, &packet);
    tags[0] = raw_await(raw, PULL);
    packet.kind = FRAME;
    raw_send(raw, &packet);
    tags[1] = raw_await(raw, PULL);
    raw_say(raw, RESET, 0);
    raw_send_body(raw, tags[0], 16 * MIB);
    raw_send_body(raw, tags[1], 16 * MIB);
}

static const struct packet ask = {.kind = PULL, .tag = BODY_TAG, .id = 1};

static void receive(struct raw *raw)
{
    unsigned char bytes[BODY];
    MPI_Status status;
    int size;

    HG_CHECK_EQ_INT(
        MPI_Recv(bytes, BODY, MPI_BYTE, 0, BODY_TAG, raw->comm, &status),
        MPI_SUCCESS);
    HG_CHECK_EQ_INT(MPI_Get_count(&status, MPI_BYTE, &size), MPI_SUCCESS);
    HG_CHECK_EQ_INT(size, BODY);
}

static void pull(struct raw *raw)
{
    raw_send(raw, &ask);
    receive(raw);
}

static void pull_twice(struct raw *raw)
{
    pull(raw);
    raw_send(raw, &ask);
}

/* hg sends BYE after the messages it had offered. */
static void close_in_order(struct raw *raw)
{
    pull(raw);
    (void) raw_await(raw, BYE);
    raw_say(raw, BYE, 0);
}

/* Messages that hg sends after its BYE use the next connection. */
static void come_again(struct raw *raw)
{
    close_in_order(raw);
    (void) raw_await(raw, HELLO);
    raw_say(raw, WELCOME, 0);
    HG_CHECK_EQ_INT(raw_await(raw, MESSAGE), 8);
}

static void send_more(struct raw *raw)
{
    close_in_order(raw);
    raw_say(raw, MESSAGE, 0);
}

/* Another class of rank 1, with the number of the former one. */
static void begin_anew(struct raw *raw)
{
    raw->from++;
    raw_say(raw, HELLO, 0);
    (void) raw_await(raw, WELCOME);
}

/* hg handles packets after the end of a connection together with those
 * before. */
static void begin_too_late(struct raw *raw)
{
    const struct packet dropped = {.kind = MESSAGE, .to_xor = 1};
    unsigned i;

    for (i = 0; i < 1000; i++)
        raw_send(raw, &dropped);
    raw_say(raw, RESET, 0);
    raw->from++;
    raw_say(raw, HELLO, 0);
}

/* ---- The table ---- */

#define SHORT "it is shorter than a header"
#define MAGIC "it does not begin with"
#define VERSION "it has another version"
#define KIND "there is no such kind"
#define CLASS "there is no such class"
#define SECOND "a second HELLO on this connection"
#define PLANE "there is no such plane"
#define OFFER "no body was offered"
#define OTHER_BODY "it requests a body out of order"
#define BEHIND "too much waits behind a body"
#define SIZE "its size is wrong"
#define LONG_PACKET "cannot receive a packet"
#define SHORT_BODY "sent 4999 bytes of a body of 5000"
#define LONG_BODY "cannot receive from"
#define TAGS "it names no lane or no tag for a body"
#define SILENT "it sent no HELLO"
#define NAME "not a name that a listener can have"

/* Kinds of rows: refused, and the connection is reset; refused, and it
 * continues; dropped as of an unknown peer. */
#define RESETS(what_, why_, ...) \
    { \
        .what = what_, .why = why_, .after = IS_RESET, .packet = { \
            __VA_ARGS__ \
        } \
    }
#define REFUSED(what_, why_, ...) \
    { \
        .what = what_, .why = why_, .packet = { __VA_ARGS__ } \
    }
#define STALE(what_, ...) \
    { \
        .what = what_, .stale = 1, .packet = { __VA_ARGS__ } \
    }
#define EARLY(what_, ...) \
    { \
        .what = what_, .stale = 1, .early = true, .packet = { __VA_ARGS__ } \
    }
#define OTHER(what_, ...) \
    { \
        .what = what_, .stale = 1, .other = true, .where = IN_STATIC, \
        .packet = { \
            __VA_ARGS__ \
        } \
    }
#define MISNAMED(what_, text_, head_) \
    { \
        .what = what_, .why = NAME, .early = true, .turned_away = true, \
        .where = CALLING_IN_DYNAMIC, .packet = { \
            .kind = HELLO, \
            .text = text_, \
            .head = head_ \
        } \
    }

/* clang-format off */
static const struct wrong wrongs[] = {
    {.what = "nothing", .packet = {.kind = MESSAGE, .plane = 1}},
    /* Headers. */
    REFUSED("no byte", SHORT,
        .kind = MESSAGE, .cut = HEADER),
    REFUSED("a byte too few", SHORT,
        .kind = MESSAGE, .cut = 1),
    REFUSED("another first byte", MAGIC,
        .kind = BYE, .magic_xor = {1, 0}),
    REFUSED("another second byte", MAGIC,
        .kind = BYE, .magic_xor = {0, 1}),
    REFUSED("an older version", VERSION,
        .kind = BYE, .version_xor = 3),
    REFUSED("a newer version", VERSION,
        .kind = HELLO, .version_xor = 1, .number = 5),
    REFUSED("kind 0", KIND, .kind = 0),
    REFUSED("the next kind", KIND, .kind = RESET + 1),
    REFUSED("the last kind", KIND, .kind = 255),
    REFUSED("a class that cannot be", CLASS,
        .kind = HELLO, .number = 8192),
    REFUSED("the last class", CLASS,
        .kind = HELLO, .number = 65535),
    /* HELLO. */
    REFUSED("a HELLO of no class", SIZE, .kind = HELLO, .number = 5,
        .from_nobody = true),
    REFUSED("a HELLO with a body", SIZE, .kind = HELLO, .number = 5,
        .size = 1),
    {.what = "a HELLO with a name", .why = SIZE, .where = IN_STATIC,
        .packet = {.kind = HELLO, .number = 5, .head = 1}},
    {.what = "a HELLO that crosses ours", .early = true,
        .packet = {.kind = HELLO}},
    {.what = "a HELLO again", .packet = {.kind = HELLO}},
    {.what = "a HELLO of a new class", .act = begin_anew,
        .after = BEGINS_ANEW, .where = IN_STATIC},
    {.what = "a HELLO of another class", .after = ENDS, .where = IN_DYNAMIC,
        .why = SECOND,
        .packet = {.kind = HELLO, .from_xor = 1}},
    {.what = "a long name", .early = true, .where = CALLING_IN_DYNAMIC,
        .packet = {.kind = HELLO, .text = PREFIX, .head = 255}},
    MISNAMED("a name that is too long", PREFIX, 256),
    MISNAMED("a name of nothing", PREFIX, sizeof(PREFIX) - 1),
    MISNAMED("a name of static mode", "mpi+static://1", 20),
    MISNAMED("a name with a space", PREFIX "a b", 30),
    MISNAMED("a name with a sign of no letter", PREFIX "a\x7f", 30),
    MISNAMED("a name that is no port", PREFIX "%zz", 30),
    MISNAMED("a name without its number", PREFIX "a/", 30),
    /* Other incarnations, and packets without a connection. */
    STALE("a message to another class", .kind = MESSAGE, .to_xor = 1),
    STALE("a message of another class", .kind = MESSAGE, .from_xor = 1),
    STALE("a message of no class", .kind = MESSAGE, .from_nobody = true),
    STALE("a BYE to another class", .kind = BYE, .to_xor = 1),
    STALE("a BYE of another class", .kind = BYE, .from_xor = 1),
    STALE("a RESET to another class", .kind = RESET, .to_xor = 1),
    STALE("a RESET of another class", .kind = RESET, .from_xor = 1),
    STALE("a RESET of another class to none", .kind = RESET,
        .to_nobody = true, .from_xor = 1),
    STALE("a BYE to none", .kind = BYE, .to_nobody = true),
    STALE("a WELCOME to another class", .kind = WELCOME, .to_xor = 1),
    STALE("a WELCOME of no class", .kind = WELCOME, .from_nobody = true),
    {.what = "a WELCOME again", .packet = {.kind = WELCOME, .from_xor = 1}},
    EARLY("a WELCOME to another class, early", .kind = WELCOME, .to_xor = 1),
    EARLY("a WELCOME of no class, early", .kind = WELCOME,
        .from_nobody = true),
    EARLY("a message, early", .kind = MESSAGE),
    EARLY("a message of no class, early", .kind = MESSAGE,
        .from_nobody = true),
    EARLY("a body of no class, early", .kind = MESSAGE, .size = BODY,
        .from_nobody = true),
    EARLY("a BYE of no class, early", .kind = BYE, .from_nobody = true),
    EARLY("a PULL of no class, early", .kind = PULL, .from_nobody = true),
    EARLY("a RESET of no class, early", .kind = RESET, .to_nobody = true,
        .from_nobody = true),
    {.what = "a message of a class that said no HELLO", .stale = 1,
        .where = IN_STATIC, .packet = {.kind = MESSAGE, .number = 5}},
    OTHER("a message of another rank", .kind = MESSAGE),
    OTHER("a BYE of another rank", .kind = BYE),
    OTHER("a RESET of another rank", .kind = RESET),
    /* Sizes. */
    RESETS("a message of no plane", PLANE,
        .kind = MESSAGE, .plane = 3),
    RESETS("a message of the last plane", PLANE,
        .kind = MESSAGE, .plane = 255),
    RESETS("an empty body of no byte", SIZE, .kind = MESSAGE, .plane = 128),
    RESETS("an empty body of two bytes", SIZE, .kind = MESSAGE, .plane = 129,
        .size = 2),
    RESETS("a body of 16 MiB and 1", SIZE, .kind = MESSAGE,
        .size = 16 * MIB + 1),
    RESETS("a body of 4 GiB", SIZE, .kind = MESSAGE, .size = UINT32_MAX),
    RESETS("a body and bytes", SIZE, .kind = MESSAGE, .size = BODY,
        .head = 1),
    RESETS("a frame of 16 MiB and 1", SIZE, .kind = FRAME,
        .size = 16 * MIB + 1),
    RESETS("a frame of 4 GiB", SIZE, .kind = FRAME, .size = UINT32_MAX),
    RESETS("a frame shorter than its header", SIZE, .kind = FRAME,
        .tag = 11, .head = 10),
    RESETS("a frame and part of its data", SIZE, .kind = FRAME,
        .size = BODY, .tag = 9, .head = 10),
    RESETS("a frame and part of its header", SIZE, .kind = FRAME,
        .size = BODY, .tag = 11, .head = 10),
    REFUSED("a packet that is too long", LONG_PACKET, .kind = MESSAGE,
        .head = PACKET - HEADER + 1),
    {.what = "a body that is too short", .act = short_body,
        .why = SHORT_BODY, .after = IS_RESET},
#ifndef OPEN_MPI /* 4.1 writes the rest behind the memory of the receive */
    {.what = "a body that is too long", .act = long_body, .why = LONG_BODY,
        .after = IS_RESET},
#endif
    {.what = "nine bodies", .act = nine_bodies},
    {.what = "the largest bodies", .act = largest, .after = ENDS},
    RESETS("a BYE with a body", SIZE, .kind = BYE, .size = 1),
    RESETS("a BYE with bytes", SIZE, .kind = BYE, .head = 1),
    /* Bodies. */
    {.what = "the body that was offered", .act = pull, .offered = true},
    {.what = "a body twice", .act = pull_twice, .offered = true,
        .why = OFFER, .after = IS_RESET},
    RESETS("a body of nothing", OFFER, .kind = PULL,
        .tag = BODY_TAG, .id = 1),
    {.what = "another body", .offered = true, .after = IS_RESET,
        .why = OTHER_BODY,
        .packet = {.kind = PULL, .tag = BODY_TAG, .id = 2}},
    {.what = "a body of a frame", .offered = true, .after = IS_RESET,
        .why = OFFER,
        .packet = {.kind = PULL, .plane = 1, .tag = BODY_TAG, .id = 1}},
    {.what = "a body of no lane", .offered = true, .after = IS_RESET,
        .why = TAGS,
        .packet = {.kind = PULL, .plane = 2, .tag = BODY_TAG, .id = 1}},
    {.what = "a tag below those", .offered = true, .after = IS_RESET,
        .why = TAGS, .packet = {.kind = PULL, .tag = BODY_TAG - 1, .id = 1}},
    {.what = "a tag above those", .offered = true, .after = IS_RESET,
        .why = TAGS, .packet = {.kind = PULL, .tag = 32768, .id = 1}},
    {.what = "another rank asks", .offered = true, .other = true, .stale = 1,
        .where = IN_STATIC,
        .packet = {.kind = PULL, .tag = BODY_TAG, .id = 1}},
    /* Ends. */
    {.what = "a BYE", .after = ENDS, .packet = {.kind = BYE}},
    {.what = "a RESET of a class that was not answered", .after = ENDS,
        .packet = {.kind = RESET, .to_nobody = true}},
    {.what = "a GONE of a class that was not answered", .after = ENDS,
        .packet = {.kind = GONE, .to_nobody = true}},
    {.what = "a body before the end", .act = close_in_order, .offered = true,
        .closing = true, .after = ENDS},
    {.what = "a message after both ends", .act = send_more, .stale = 1,
        .offered = true, .closing = true, .after = ENDS, .where = IN_STATIC},
    {.what = "a message after our BYE", .act = come_again, .offered = true,
        .closing = true, .again = true, .after = BEGINS_ANEW,
        .where = IN_STATIC},
    {.what = "a BYE that crosses ours", .after = ENDS, .lost = true,
        .offered = true, .closing = true, .packet = {.kind = BYE}},
    {.what = "a RESET that crosses our BYE", .after = ENDS, .lost = true,
        .offered = true, .closing = true, .packet = {.kind = RESET}},
    {.what = "a HELLO of a new class that crosses our BYE", .offered = true,
        .act = begin_anew, .closing = true, .lost = true, .after = BEGINS_ANEW,
        .where = IN_STATIC},
    {.what = "a HELLO after the end", .act = begin_too_late, .stale = ANY,
        .after = ENDS, .where = IN_DYNAMIC},
    {.what = "a message that crosses our BYE", .offered = true,
        .closing = true, .lost = true, .packet = {.kind = MESSAGE, .plane = 1}},
    {.what = "a BYE after messages that are held", .act = part_from_a_queue,
        .after = ENDS},
    /* This row is the last, since more packets are in flight when it is
     * refused. */
    {.what = "messages after a body", .act = flood, .stale = ANY,
        .why = BEHIND, .after = ENDS},
};
/* clang-format on */

#define WRONGS (sizeof(wrongs) / sizeof(wrongs[0]))

/* In dynamic mode connecting takes long: only rows that may differ there. */
static bool wrong_applies(const struct wrong *wrong, bool apart, bool calls)
{
    switch (wrong->where) {
    case IN_STATIC: return !apart;
    case IN_DYNAMIC: return apart;
    case CALLING_IN_DYNAMIC: return apart && calls;
    default: return !apart || wrong->early || wrong->closing;
    }
}

/* ---- Rank 0 ---- */

static void attack_close(
    struct attack *attack, struct conform_call *call, na_addr_t addr)
{
    memset(call, 0, sizeof(*call));
    HG_CHECK_OK(NA_Addr_terminate(attack->end.na_class, attack->end.context,
        conform_ended, call, addr, NA_OP_ID_IGNORE));
}

static na_addr_t attack_connect(struct attack *attack)
{
    struct conform_call call;

    if (attack->called)
        return attack_receive(attack, GREETING);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_lookup(attack->end.na_class, attack->end.context,
        conform_ended, &call, attack->name, NA_OP_ID_IGNORE));
    HG_CHECK_OK(conform_wait(&attack->end, &call));
    return call.addr;
}

/* Send a message whose body rank 1 can ask for. */
static void attack_offer(
    struct attack *attack, struct conform_call *call, na_addr_t addr)
{
    static char bytes[BODY];

    memset(call, 0, sizeof(*call));
    HG_CHECK_OK(NA_Msg_send_expected(attack->end.na_class, attack->end.context,
        conform_ended, call, bytes, BODY, addr, 8, NA_OP_ID_IGNORE));
}

static void attack_row(
    struct attack *attack, const struct wrong *wrong, unsigned index)
{
    na_class_t *na_class = attack->end.na_class;
    uint64_t malformed = NA_Get_counter(na_class, "mpi_malformed");
    uint64_t stale = NA_Get_counter(na_class, "mpi_stale") + wrong->stale;
    unsigned lines = wrong->why != NULL ? hg_test_log_count(wrong->why) : 0;
    struct conform_call first, second;
    na_addr_t addr, again;
    unsigned ms;

    attack_go();
    addr = attack_connect(attack);
    if (wrong->offered) {
        attack_offer(attack, &second, addr);
        HG_CHECK_OK(conform_wait(&attack->end, &second));
    }
    if (wrong->closing)
        attack_close(attack, &first, addr);
    else
        attack_watch(attack, &first, addr);
    if (wrong->again)
        attack_offer(attack, &second, addr);
    attack_go();
    if (wrong->again)
        HG_CHECK_OK(conform_wait(&attack->end, &second));
    if (wrong->after == GOES_ON || wrong->after == BEGINS_ANEW) {
        again = attack_receive(attack, index);
        HG_CHECK_EQ_INT(first.ends, wrong->after == BEGINS_ANEW);
        HG_CHECK(NA_Addr_cmp(na_class, addr, again) ==
            (wrong->after == GOES_ON || wrong->again));
        attack_watch(attack, &second, again);
        attack_go();
        HG_CHECK_RET(conform_wait(&attack->end, &second), NA_DISCONNECT);
        HG_CHECK_OK(NA_Addr_free(na_class, again));
    }
    HG_CHECK_RET(conform_wait(&attack->end, &first),
        wrong->closing && !wrong->lost ? NA_SUCCESS : NA_DISCONNECT);
    for (ms = 0;
         wrong->stale != ANY && NA_Get_counter(na_class, "mpi_stale") < stale;
         ms++) {
        HG_CHECK(ms < CONFORM_TIMEOUT);
        (void) conform_turn(na_class, attack->end.context, 1);
    }
    HG_CHECK_OK(NA_Addr_free(na_class, addr));
    if (wrong->why != NULL)
        HG_CHECK_EQ_INT(hg_test_log_count(wrong->why), lines + 1);
    HG_CHECK_EQ_U64(NA_Get_counter(na_class, "mpi_malformed"),
        malformed + (wrong->why != NULL));
    if (wrong->stale != ANY)
        HG_CHECK_EQ_U64(NA_Get_counter(na_class, "mpi_stale"), stale);
}

/* Special characters are written as %XX. */
static void attack_name(struct attack *attack, const char *port)
{
    size_t used = strlen(PREFIX);

    memcpy(attack->name, PREFIX, used);
    for (; *port != '\0'; port++)
        used +=
            (size_t) snprintf(attack->name + used, sizeof(attack->name) - used,
                isalnum(*port) ? "%c" : "%%%02X", *port);
    HG_CHECK(used < sizeof(attack->name));
}

static void attack_open(struct attack *attack)
{
    char port[MPI_MAX_PORT_NAME];

    attack_open_class(attack);
    (void) snprintf(attack->name, sizeof(attack->name), "mpi+static://1");
    if (attack->apart && attack->called) {
        HG_CHECK_OK(NA_Addr_to_string(attack->end.na_class, attack->name,
            sizeof(attack->name), attack->end.self));
        HG_CHECK_EQ_INT(MPI_Send(attack->name, sizeof(attack->name), MPI_BYTE,
                            1, PORT, MPI_COMM_WORLD),
            MPI_SUCCESS);
    } else if (attack->apart) {
        HG_CHECK_EQ_INT(MPI_Recv(port, sizeof(port), MPI_BYTE, 1, PORT,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            MPI_SUCCESS);
        attack_name(attack, port);
    }
}

/* A connection without a HELLO is closed; one whose HELLO arrived in time is
 * not, although rank 0 did not poll. */
static void attack_silent(struct attack *attack)
{
    na_addr_t addr;
    unsigned ms = 0;

    attack_go();
    while (hg_test_log_count(SILENT) == 0) {
        HG_CHECK(ms++ < CONFORM_TIMEOUT);
        (void) conform_turn(attack->end.na_class, attack->end.context, 1);
    }
    attack_go();
    (void) usleep(5 * SILENT_MS / 2 * 1000);
    addr = attack_connect(attack);
    HG_CHECK_EQ_INT(hg_test_log_count(SILENT), 1);
    HG_CHECK_OK(NA_Addr_free(attack->end.na_class, addr));
}

/* hg closes a connection, and its class before rank 1 has answered. */
static void attack_part(struct attack *attack)
{
    struct conform_call call;
    na_op_id_t op_id;
    na_addr_t addr;

    attack_go();
    addr = attack_connect(attack);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_terminate(attack->end.na_class, attack->end.context,
        conform_ended, &call, addr, &op_id));
    while (!attack_told())
        (void) conform_turn(attack->end.na_class, attack->end.context, 1);
    HG_CHECK_OK(NA_Cancel(attack->end.na_class, attack->end.context, op_id));
    HG_CHECK_RET(conform_wait(&attack->end, &call), NA_CANCELED);
    HG_CHECK_OK(NA_Addr_free(attack->end.na_class, addr));
}

/* Close the class while rank 1 has not received a body that it requested. */
static void attack_end(struct attack *attack)
{
    struct conform_call call;
    na_addr_t addr;

    attack_go();
    addr = attack_connect(attack);
    attack_offer(attack, &call, addr);
    HG_CHECK_OK(conform_wait(&attack->end, &call));
    HG_CHECK_OK(NA_Addr_free(attack->end.na_class, addr));
    HG_CHECK_OK(
        NA_Addr_free(attack->end.na_class, attack_receive(attack, WRONGS)));
    conform_close(&attack->end);
}

/* ---- The ranks ---- */

static void rank_1_open(struct raw *raw)
{
    char name[NA_MAX_ADDR_LEN];
    char *port = raw->port;
    const char *p;

    raw->comm = MPI_COMM_WORLD;
    if (raw->apart && raw->calls) {
        HG_CHECK_EQ_INT(MPI_Recv(name, sizeof(name), MPI_BYTE, 0, PORT,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            MPI_SUCCESS);
        for (p = name + strlen(PREFIX); *p != '\0'; p++) {
            unsigned value = (unsigned char) *p;

            if (*p == '%') {
                HG_CHECK(sscanf(p + 1, "%2X", &value) == 1);
                p += 2;
            }
            *port++ = (char) value;
        }
    } else if (raw->apart) {
        HG_CHECK_EQ_INT(MPI_Open_port(MPI_INFO_NULL, raw->port), MPI_SUCCESS);
        HG_CHECK_EQ_INT(MPI_Send(raw->port, sizeof(raw->port), MPI_BYTE, 0,
                            PORT, MPI_COMM_WORLD),
            MPI_SUCCESS);
    }
}

static void rank_1(bool apart, bool calls)
{
    struct raw raw = {.apart = apart, .calls = calls, .from = 1000};
    struct raw left = {.comm = MPI_COMM_WORLD};
    unsigned i;

    rank_1_open(&raw);
    for (i = 0; i < WRONGS; i++) {
        if (!wrong_applies(&wrongs[i], apart, calls))
            continue;
        raw_wait();
        hg_test_at(wrongs[i].what);
        raw_row(&raw, &wrongs[i], i);
    }
    if (apart && calls) {
        raw_wait();
        raw_meet(&raw); /* and stay silent */
        raw_wait();
        raw.comm = MPI_COMM_WORLD; /* without leaving the former one */
        raw_connect(&raw, &wrongs[0]);
        raw_wait();
        raw_say(&raw, RESET, 0);
        raw.from += 2;
        raw_connect(&raw, &wrongs[0]);
        (void) raw_await(&raw, BYE);
        raw_tell();
        left = raw;
        raw.comm = MPI_COMM_WORLD;
    }
    raw_wait();
    raw.from += 2;
    raw_connect(&raw, &wrongs[0]);
    (void) raw_await(&raw, MESSAGE);
    raw_send(&raw, &ask);
    raw_say(&raw, MESSAGE, WRONGS);
    (void) usleep(300000); /* hg closes meanwhile */
    receive(&raw);
    raw_leave(&raw);
    raw_leave(&left);
    HG_CHECK_EQ_INT(
        MPI_Send(NULL, 0, MPI_BYTE, 2, FORWARD, MPI_COMM_WORLD), MPI_SUCCESS);
}

/* Sends packets of rank 1 to hg. */
static void rank_2(void)
{
    unsigned char bytes[PACKET];
    MPI_Status status;
    int size;

    for (;;) {
        HG_CHECK_EQ_INT(MPI_Recv(bytes, PACKET, MPI_BYTE, 1, FORWARD,
                            MPI_COMM_WORLD, &status),
            MPI_SUCCESS);
        HG_CHECK_EQ_INT(MPI_Get_count(&status, MPI_BYTE, &size), MPI_SUCCESS);
        if (size == 0)
            return;
        HG_CHECK_EQ_INT(MPI_Send(bytes, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD),
            MPI_SUCCESS);
    }
}

/* In dynamic mode the ends of connections are kept until the peer has left
 * them. Any class of the process frees them. */
static void attack_settle(struct attack *attack, int64_t blocks)
{
    unsigned ms;

    for (ms = 0; attack->apart && hg_test_alloc_live() != blocks; ms++) {
        HG_CHECK(ms < CONFORM_TIMEOUT);
        attack_open_class(attack);
        (void) conform_turn(attack->end.na_class, attack->end.context, 1);
        conform_close(&attack->end);
    }
    HG_CHECK_EQ_INT(hg_test_alloc_live(), blocks);
}

static void rank_0(bool apart, bool calls)
{
    static const char *const lines[] = {SHORT, MAGIC, VERSION, KIND, CLASS,
        SIZE, NAME, SECOND, PLANE, TAGS, OFFER, OTHER_BODY, BEHIND, LONG_PACKET,
        SHORT_BODY, LONG_BODY, SILENT};
    struct attack attack = {.apart = apart, .called = calls};
    int64_t blocks;
    unsigned i;

    HG_Set_log_level("debug"); /* all lines */
    for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        hg_test_allow_log(lines[i]);
    hg_test_alloc_install();
    blocks = hg_test_alloc_live();
    attack_open(&attack);
    for (i = 0; i < WRONGS; i++) {
        if (!wrong_applies(&wrongs[i], apart, calls))
            continue;
        fprintf(stderr, "%s\n", wrongs[i].what);
        attack_row(&attack, &wrongs[i], i);
    }
    if (apart && calls) {
        attack_silent(&attack);
        attack_part(&attack);
    }
    attack_end(&attack);
    attack_settle(&attack, blocks);
}

static void rank_all(bool apart, bool calls)
{
    int level, rank;

    HG_CHECK_EQ_INT(
        MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level), MPI_SUCCESS);
    HG_CHECK_EQ_INT(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
        MPI_SUCCESS);
    HG_CHECK_EQ_INT(MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_SUCCESS);
    switch (rank) {
    case 0: rank_0(apart, calls); break;
    case 1: rank_1(apart, calls); break;
    default: rank_2(); break;
    }
    HG_CHECK_EQ_INT(MPI_Finalize(), MPI_SUCCESS);
}

/* ---- The cases ---- */

HG_TEST_ROLE(caller)
{
    (void) argc;
    (void) argv;
    rank_all(false, true);
}

HG_TEST(packets_of_a_caller_are_refused)
{
    HG_CHECK_EQ_INT(ranks_run(3, "caller"), 0);
}

HG_TEST_ROLE(listener)
{
    (void) argc;
    (void) argv;
    rank_all(false, false);
}

HG_TEST(packets_of_a_listener_are_refused)
{
    HG_CHECK_EQ_INT(ranks_run(3, "listener"), 0);
}

#ifdef OPEN_MPI
HG_TEST_ROLE(caller_apart)
{
    (void) argc;
    (void) argv;
    rank_all(true, true);
}

HG_TEST(packets_of_a_dynamic_caller_are_refused)
{
    HG_CHECK_EQ_INT(ranks_run(3, "caller_apart"), 0);
}

HG_TEST_ROLE(listener_apart)
{
    (void) argc;
    (void) argv;
    rank_all(true, false);
}

HG_TEST(packets_of_a_dynamic_listener_are_refused)
{
    HG_CHECK_EQ_INT(ranks_run(3, "listener_apart"), 0);
}
#endif
