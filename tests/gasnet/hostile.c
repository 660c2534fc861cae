/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile: messages that no node sends. A class that is not that of a node
 * sends them. Each is ignored with a line; a right message after it is handled.
 */
#define GASNET_PAR 1
#include "jobs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gasnet_hg.h"

/* The message that am.c describes. */
struct hostile_message {
    uint8_t kind, handler, nargs, zero;
    uint16_t returns, source;
    uint64_t length, dest; /* not of a short message */
    unsigned char rest[80];
};
#define HOSTILE_RIGHT 8u  /* bytes of a short message without arguments */
#define HOSTILE_FRONT 32u /* of another one, without a payload */
#define HOSTILE_SLOT 20u  /* of a slot */

static volatile int hostile_handled;

static void hostile_handler(gasnet_token_t token)
{
    (void) token;
    hostile_handled++;
}

static na_class_t *hostile_class;
static na_context_t *hostile_context;
static na_addr_t hostile_target;

/* Open a class of the transport of this address. */
static void hostile_open(const char *target, bool listens)
{
    char scheme[32] = "";

    CHECK(strstr(target, "://") != NULL);
    (void) snprintf(scheme, sizeof(scheme), "%.*s",
        (int) (strstr(target, "://") + 3 - target), target);
    hostile_class = NA_Initialize(scheme, listens);
    CHECK(hostile_class != NULL);
    hostile_context = NA_Context_create(hostile_class);
    CHECK(hostile_context != NULL);
}

static void hostile_close(void)
{
    CHECK(NA_Addr_free(hostile_class, hostile_target) == NA_SUCCESS);
    CHECK(NA_Context_destroy(hostile_class, hostile_context) == NA_SUCCESS);
    CHECK(NA_Finalize(hostile_class) == NA_SUCCESS);
}

static void hostile_poll(void)
{
    (void) NA_Progress(hostile_class, hostile_context, 0);
    (void) NA_Trigger(hostile_context, 0, 1, NULL);
    (void) gasnet_AMPoll();
}

/* Connect with node 0, which may be this process. */
static void hostile_connect(const char *target)
{
    hostile_open(target, false);
    while (NA_Addr_lookup_wait(hostile_class, target, 10, &hostile_target) ==
        NA_TIMEOUT)
        hostile_poll();
}

static na_return_t hostile_sent(const struct na_cb_info *info)
{
    *(bool *) info->arg = true;
    return info->ret;
}

static void hostile_send(const void *bytes, size_t size, na_tag_t tag)
{
    bool sent = false;

    CHECK(NA_Msg_send_unexpected(hostile_class, hostile_context, hostile_sent,
              &sent, bytes, size, hostile_target, tag,
              NA_OP_ID_IGNORE) == NA_SUCCESS);
    while (!sent)
        hostile_poll();
}

/* ---- Active messages ---- */

/* A wrong message is followed by a right one: the count of handlers tells that
 * the wrong one ran none. */
static void hostile_try(const struct hostile_message *wrong, size_t size)
{
    const struct hostile_message right = {.handler = 200, .source = 1};
    int before = hostile_handled;

    hostile_send(wrong, size, GASNET_HG_TAG_AM);
    hostile_send(&right, HOSTILE_RIGHT, GASNET_HG_TAG_AM);
    while (hostile_handled == before)
        hostile_poll();
    CHECK(hostile_handled == before + 1);
}

static void hostile_all(void)
{
    const struct hostile_message right = {.handler = 200, .source = 1};
    struct hostile_message message;
    uint64_t segment = (uint64_t) (uintptr_t) gasnet_hg.segment.addr;

#define HOSTILE(size, ...) \
    do { \
        message = right; \
        __VA_ARGS__; \
        hostile_try(&message, size); \
    } while (0)
    HOSTILE(0, (void) 0);
    HOSTILE(7, (void) 0);
    HOSTILE(9, (void) 0);
    HOSTILE(12, (void) 0);
    HOSTILE(HOSTILE_RIGHT, message.nargs = 1);
    HOSTILE(HOSTILE_RIGHT + 4 * 17, message.nargs = 17);
    HOSTILE(HOSTILE_RIGHT, message.kind = 12);
    HOSTILE(HOSTILE_RIGHT, message.kind = 255);
    HOSTILE(HOSTILE_RIGHT, message.nargs = 17);
    HOSTILE(HOSTILE_RIGHT, message.nargs = 16);
    HOSTILE(HOSTILE_RIGHT, message.returns = GASNET_HG_CREDITS + 1);
    HOSTILE(HOSTILE_RIGHT, message.source = 0);
    HOSTILE(HOSTILE_RIGHT, message.source = 2);
    HOSTILE(HOSTILE_RIGHT, message.kind = 2);
    HOSTILE(23, message.kind = 2);
    HOSTILE(24, message.kind = 2);
    HOSTILE(HOSTILE_FRONT, message.kind = 2; message.nargs = 3);
    HOSTILE(HOSTILE_FRONT + 64, message.kind = 2; message.nargs = 17);
    HOSTILE(HOSTILE_FRONT, message.kind = 2; message.source = 2);
    HOSTILE(HOSTILE_FRONT + 8, message.kind = 2; message.length = 9);
    HOSTILE(HOSTILE_FRONT + 8, message.kind = 2; message.length = 7);
    HOSTILE(HOSTILE_FRONT + 8, message.kind = 4; message.length = 8;
            message.dest = segment - 1);
    HOSTILE(HOSTILE_FRONT + 8, message.kind = 4; message.length = 8;
            message.dest = segment + GASNET_PAGESIZE - 7);
    HOSTILE(HOSTILE_FRONT, message.kind = 6;
            message.length = GASNET_PAGESIZE + 1; message.dest = segment);
    HOSTILE(HOSTILE_RIGHT + 4, message.kind = 8);
    HOSTILE(HOSTILE_SLOT, message.kind = 10; message.nargs = 3;
            message.handler = GASNET_HG_ROUNDS);
    HOSTILE(HOSTILE_SLOT, message.kind = 10; message.nargs = 2);
    HOSTILE(HOSTILE_SLOT + 4, message.kind = 10; message.nargs = 4);
#undef HOSTILE
}

/* Node 0 sends them to itself in the name of node 1. */
static void hostile_messages(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {HANDLER(200, hostile_handler)};
    char self[NA_MAX_ADDR_LEN];

    START(table, 1, GASNET_PAGESIZE);
    CHECK(gasnet_nodes() == 2);
    BARRIER();
    if (gasnet_mynode() == 0) {
        CHECK(NA_Addr_to_string(gasnet_hg.boot.na_class, self, sizeof(self),
                  gasnet_hg.boot.addrs[0]) == NA_SUCCESS);
        hostile_connect(self);
        hostile_all();
        hostile_close();
    }
    BARRIER();
    gasnet_exit(0);
}

/* Node 0 dies, and NA tells node 1, which ignores the signal that follows. */
static void hostile_death(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {HANDLER(200, hostile_handler)};

    START(table, 1, 0);
    if (gasnet_mynode() == 0) {
        GASNET_BLOCKUNTIL(hostile_handled > 0);
        _exit(7);
    }
    CHECK(signal(SIGQUIT, SIG_IGN) != SIG_ERR);
    CHECK(gasnet_AMRequestShort0(0, 200) == GASNET_OK);
    CHECK(gasnet_set_waitmode(GASNET_WAIT_BLOCK) == GASNET_OK);
    GASNET_BLOCKUNTIL(gasnet_hg.peers[0].lost);
    (void) printf("lost\n");
    (void) fflush(stdout);
    _exit(0);
}

/* ---- The start of a job ---- */

/* The message from a node to node 0: see boot.c. */
struct hostile_card {
    char magic[4];
    unsigned char rank[4], size[4];
    char address[NA_MAX_ADDR_LEN + 4];
};
#define HOSTILE_CARD 20u /* bytes of a right one */

static void hostile_all_cards(void)
{
    const struct hostile_card right = {
        {'G', 'H', 'B', '1'}, {1}, {2}, "sm://me"};
    struct hostile_card card;
    na_tag_t tag;

#define CARD(bytes, ...) \
    do { \
        card = right; \
        tag = GASNET_HG_TAG_BOOT; \
        __VA_ARGS__; \
        hostile_send(&card, bytes, tag); \
    } while (0)
    CARD(0, (void) 0);
    CARD(11, (void) 0);
    CARD(12, (void) 0);
    CARD(13, card.address[0] = '\0');
    CARD(HOSTILE_CARD, card.address[0] = '\0');
    CARD(HOSTILE_CARD - 1, (void) 0);
    CARD(sizeof(card), (void) 0);
    CARD(HOSTILE_CARD, card.magic[3] = '2');
    CARD(HOSTILE_CARD, card.rank[0] = 2);
    CARD(HOSTILE_CARD, card.rank[3] = 1);
    CARD(HOSTILE_CARD, card.rank[0] = 0);
    CARD(HOSTILE_CARD, card.size[0] = 3);
    CARD(HOSTILE_CARD, card.size[2] = 1);
    CARD(HOSTILE_CARD, tag = GASNET_HG_TAG_BOOT + 1);
#undef CARD
}

/* Node 1 sends wrong cards to node 0 before it comes itself. */
static void hostile_cards(int argc, char *argv[])
{
    const char *root = getenv("GASNET_HG_ROOT");

    if (root != NULL) {
        hostile_connect(root);
        hostile_all_cards();
        hostile_close();
    }
    CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
    CHECK(gasnet_attach(NULL, 0, 0, 0) == GASNET_OK);
    BARRIER();
    gasnet_exit(0);
}

static na_return_t hostile_card_came(const struct na_cb_info *info)
{
    hostile_target = info->info.recv_unexpected.source;
    return info->ret;
}

/* A class in place of node 0: node 1 gets this table from it. */
static void hostile_serve(const char *table, size_t size)
{
    const char *fd = getenv("GASNET_HG_FD");
    char self[NA_MAX_ADDR_LEN], card[1024];
    na_addr_t addr;
    bool sent = false, gone = false;
    FILE *file;

    hostile_open(getenv("GASNET_HG_NA"), true);
    CHECK(NA_Addr_self(hostile_class, &addr) == NA_SUCCESS);
    CHECK(NA_Addr_to_string(hostile_class, self, sizeof(self), addr) ==
        NA_SUCCESS);
    CHECK(NA_Addr_free(hostile_class, addr) == NA_SUCCESS);
    file = fd != NULL ? fdopen((int) strtol(fd, NULL, 10), "w") : NULL;
    CHECK(file != NULL && fprintf(file, "%s\n", self) > 0);
    CHECK(fclose(file) == 0);
    CHECK(NA_Msg_recv_unexpected(hostile_class, hostile_context,
              hostile_card_came, NULL, card, sizeof(card),
              NA_OP_ID_IGNORE) == NA_SUCCESS);
    while (hostile_target == NA_ADDR_NULL)
        hostile_poll();
    CHECK(NA_Msg_send_expected(hostile_class, hostile_context, hostile_sent,
              &sent, table, size, hostile_target, GASNET_HG_TAG_BOOT,
              NA_OP_ID_IGNORE) == NA_SUCCESS);
    CHECK(NA_Msg_recv_expected(hostile_class, hostile_context, hostile_sent,
              &gone, card, sizeof(card), hostile_target, GASNET_HG_TAG_BOOT,
              NA_OP_ID_IGNORE) == NA_SUCCESS);
    while (!sent || !gone)
        hostile_poll();
    hostile_close();
}

/* table WHICH: node 1 cannot start with a table that is malformed. */
static void hostile_table(int argc, char *argv[])
{
    static const char behind[] = "a\0b\0c", many[] = "a\0b\0c";
    static char longer[NA_MAX_ADDR_LEN + 4];
    long which = argc > 1 ? strtol(argv[1], NULL, 10) : 0;

    memset(longer, 'l', sizeof(longer));
    longer[1] = longer[sizeof(longer) - 1] = '\0';
    if (getenv("GASNET_HG_FD") == NULL) {
        CHECK(gasnet_init(&argc, &argv) == GASNET_ERR_RESOURCE);
        _exit(0);
    }
    if (which == 0)
        hostile_serve(behind, sizeof(behind) - 1);
    else if (which == 1)
        hostile_serve(many, sizeof(many));
    else
        hostile_serve(longer, sizeof(longer));
}

const struct jobs_case jobs_hostile[] = {{"hostile", hostile_messages},
    {"death", hostile_death}, {"cards", hostile_cards},
    {"table", hostile_table}, {NULL, NULL}};
