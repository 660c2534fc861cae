/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile: messages that no node sends. Node 0 has another class, which sends
 * them to node 0 in the name of node 1. Each is ignored with a line; a right
 * message after it is handled.
 */
#define GASNET_PAR 1
#include "jobs.h"

#include <string.h>

#include "gasnet_hg.h"

/* The header that am.c describes. */
struct hostile_message {
    uint8_t kind, handler, nargs, flags;
    uint16_t returns, zero;
    uint32_t source, length;
    uint64_t dest;
    unsigned char rest[64];
};
#define HOSTILE_RIGHT 32u /* bytes of a short message without arguments */

static volatile int hostile_handled;

static void hostile_handler(gasnet_token_t token)
{
    (void) token;
    hostile_handled++;
}

static na_class_t *hostile_class;
static na_context_t *hostile_context;
static na_addr_t hostile_target;

static void hostile_open(void)
{
    char name[NA_MAX_ADDR_LEN], scheme[32] = "";
    na_class_t *target = gasnet_hg.boot.na_class;

    CHECK(NA_Addr_to_string(target, name, sizeof(name),
              gasnet_hg.boot.addrs[0]) == NA_SUCCESS);
    CHECK(strstr(name, "://") != NULL);
    (void) snprintf(scheme, sizeof(scheme), "%.*s",
        (int) (strstr(name, "://") + 3 - name), name);
    hostile_class = NA_Initialize(scheme, NA_FALSE);
    CHECK(hostile_class != NULL);
    hostile_context = NA_Context_create(hostile_class);
    CHECK(hostile_context != NULL);
    while (NA_Addr_lookup_wait(hostile_class, name, 10, &hostile_target) ==
        NA_TIMEOUT)
        CHECK(gasnet_AMPoll() == GASNET_OK);
}

static na_return_t hostile_sent(const struct na_cb_info *info)
{
    *(bool *) info->arg = true;
    return info->ret;
}

static void hostile_send(const void *bytes, size_t size)
{
    bool sent = false;

    CHECK(NA_Msg_send_unexpected(hostile_class, hostile_context, hostile_sent,
              &sent, bytes, size, hostile_target, GASNET_HG_TAG_AM,
              NA_OP_ID_IGNORE) == NA_SUCCESS);
    while (!sent) {
        (void) NA_Progress(hostile_class, hostile_context, 0);
        (void) NA_Trigger(hostile_context, 0, 1, NULL);
        (void) gasnet_AMPoll();
    }
}

/* A wrong message is followed by a right one: the count of handlers tells that
 * the wrong one ran none. */
static void hostile_try(const struct hostile_message *wrong, size_t size)
{
    const struct hostile_message right = {
        .handler = 200, .source = 1, .returns = 0};
    int before = hostile_handled;

    hostile_send(wrong, size);
    hostile_send(&right, HOSTILE_RIGHT);
    while (hostile_handled == before) {
        (void) NA_Progress(hostile_class, hostile_context, 0);
        CHECK(gasnet_AMPoll() == GASNET_OK);
    }
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
    HOSTILE(23, (void) 0);
    HOSTILE(24, (void) 0);
    HOSTILE(HOSTILE_RIGHT + 16, (void) 0);
    HOSTILE(HOSTILE_RIGHT, message.kind = 5);
    HOSTILE(HOSTILE_RIGHT, message.flags = 4);
    HOSTILE(HOSTILE_RIGHT, message.nargs = 17);
    HOSTILE(HOSTILE_RIGHT, message.nargs = 16);
    HOSTILE(HOSTILE_RIGHT, message.returns = GASNET_HG_CREDITS + 1);
    HOSTILE(HOSTILE_RIGHT, message.source = 0);
    HOSTILE(HOSTILE_RIGHT, message.source = 2);
    HOSTILE(HOSTILE_RIGHT, message.length = 1);
    HOSTILE(HOSTILE_RIGHT + 8, message.kind = 1; message.length = 9);
    HOSTILE(HOSTILE_RIGHT + 8, message.kind = 1; message.length = 7);
    HOSTILE(HOSTILE_RIGHT + 8, message.kind = 2; message.length = 8;
            message.dest = segment - 1);
    HOSTILE(HOSTILE_RIGHT + 8, message.kind = 2; message.length = 8;
            message.dest = segment + GASNET_PAGESIZE - 7);
    HOSTILE(HOSTILE_RIGHT, message.kind = 2; message.flags = 2;
            message.length = GASNET_PAGESIZE + 1; message.dest = segment);
    HOSTILE(48, message.kind = 4; message.nargs = 3;
            message.handler = GASNET_HG_ROUNDS);
    HOSTILE(HOSTILE_RIGHT, message.kind = 4; message.nargs = 2);
#undef HOSTILE
}

static void hostile_messages(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {HANDLER(200, hostile_handler)};

    START(table, 1, GASNET_PAGESIZE);
    CHECK(gasnet_nodes() == 2);
    BARRIER();
    if (gasnet_mynode() == 0) {
        hostile_open();
        hostile_all();
        CHECK(NA_Addr_free(hostile_class, hostile_target) == NA_SUCCESS);
        CHECK(NA_Context_destroy(hostile_class, hostile_context) == NA_SUCCESS);
        CHECK(NA_Finalize(hostile_class) == NA_SUCCESS);
    }
    BARRIER();
    gasnet_exit(0);
}

const struct jobs_case jobs_hostile[] = {
    {"hostile", hostile_messages}, {NULL, NULL}};
