/* SPDX-License-Identifier: BSD-3-Clause */
/* names: the 119 names of active messages; each argument is evaluated once. */
#define GASNET_PAR 1
#include "jobs.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_BYTES 100u /* of a payload */

/* Requests of M arguments go to NAMES_REQUEST + M, their replies to
 * NAMES_REPLY + M; those of medium and long messages are 17 and 34 above. */
enum { NAMES_REQUEST = 128, NAMES_REPLY = 128 + 51, NAMES_M = 17 };

static char names_payload[NAMES_BYTES];
static gasnet_seginfo_t *names_segments;
static int names_evaluated, names_requests, names_replies, names_wrong;

/* Argument `i`, from 0, is 100 + i. */
static gasnet_handlerarg_t names_arg(int i)
{
    names_evaluated++;
    return 100 + i;
}

static void names_check(unsigned count, const gasnet_handlerarg_t *args)
{
    unsigned i;

    for (i = 0; i < count; i++)
        names_wrong += args[i] != 100 + (int) i;
}

static void names_check_payload(const void *payload, size_t size)
{
    names_wrong +=
        size != NAMES_BYTES || memcmp(payload, names_payload, NAMES_BYTES) != 0;
}

static void *names_there(gasnet_node_t node)
{
    names_evaluated++;
    return names_segments[node].addr;
}

static gasnet_node_t names_source(gasnet_token_t token)
{
    gasnet_node_t source = 0;

    names_wrong += gasnet_AMGetMsgSource(token, &source) != GASNET_OK;
    return source;
}

/* Other arguments of a call: each counts. */
static gasnet_node_t names_number(gasnet_node_t number)
{
    names_evaluated++;
    return number;
}

static gasnet_handler_t names_index(int index)
{
    names_evaluated++;
    return (gasnet_handler_t) index;
}

static void *names_pointer(void *pointer)
{
    names_evaluated++;
    return pointer;
}

#define CALL_0
#define CALL_1 , names_arg(0)
#define CALL_2 CALL_1, names_arg(1)
#define CALL_3 CALL_2, names_arg(2)
#define CALL_4 CALL_3, names_arg(3)
#define CALL_5 CALL_4, names_arg(4)
#define CALL_6 CALL_5, names_arg(5)
#define CALL_7 CALL_6, names_arg(6)
#define CALL_8 CALL_7, names_arg(7)
#define CALL_9 CALL_8, names_arg(8)
#define CALL_10 CALL_9, names_arg(9)
#define CALL_11 CALL_10, names_arg(10)
#define CALL_12 CALL_11, names_arg(11)
#define CALL_13 CALL_12, names_arg(12)
#define CALL_14 CALL_13, names_arg(13)
#define CALL_15 CALL_14, names_arg(14)
#define CALL_16 CALL_15, names_arg(15)

/* A call with M + `more` arguments that all count. */
#define NAMES_CALL(call, M, more) \
    do { \
        names_evaluated = 0; \
        names_wrong += (call) != GASNET_OK; \
        names_wrong += names_evaluated != (M) + (more); \
    } while (0)

#define NAMES_HANDLERS(M) \
    static void names_short##M(gasnet_token_t token GASNET_HG_PARAMS_##M) \
    { \
        const gasnet_handlerarg_t args[M + 1] = {GASNET_HG_ARGS_##M 0}; \
        names_check(M, args); \
        names_requests++; \
        NAMES_CALL(gasnet_AMReplyShort##M(names_pointer(token), \
                       names_index(NAMES_REPLY + M) CALL_##M), \
            M, 2); \
    } \
    static void names_medium##M( \
        gasnet_token_t token, void *buf, size_t size GASNET_HG_PARAMS_##M) \
    { \
        const gasnet_handlerarg_t args[M + 1] = {GASNET_HG_ARGS_##M 0}; \
        names_check(M, args); \
        names_check_payload(buf, size); \
        names_wrong += (uintptr_t) buf % 16 != 0; \
        names_requests++; \
        NAMES_CALL( \
            gasnet_AMReplyMedium##M(names_pointer(token), \
                names_index(NAMES_REPLY + NAMES_M + M), names_pointer(buf), \
                names_number((gasnet_node_t) size) CALL_##M), \
            M, 4); \
    } \
    static void names_long##M( \
        gasnet_token_t token, void *buf, size_t size GASNET_HG_PARAMS_##M) \
    { \
        const gasnet_handlerarg_t args[M + 1] = {GASNET_HG_ARGS_##M 0}; \
        gasnet_node_t source = names_source(token); \
        names_check(M, args); \
        names_check_payload(buf, size); \
        names_requests++; \
        NAMES_CALL(gasnet_AMReplyLong##M(names_pointer(token), \
                       names_index(NAMES_REPLY + 2 * NAMES_M + M), \
                       names_pointer(names_payload), \
                       names_number((gasnet_node_t) size), \
                       names_there(source) CALL_##M), \
            M, 5); \
    } \
    static void names_reply_short##M( \
        gasnet_token_t token GASNET_HG_PARAMS_##M) \
    { \
        const gasnet_handlerarg_t args[M + 1] = {GASNET_HG_ARGS_##M 0}; \
        (void) names_source(token); \
        names_check(M, args); \
        names_replies++; \
    } \
    static void names_reply_payload##M( \
        gasnet_token_t token, void *buf, size_t size GASNET_HG_PARAMS_##M) \
    { \
        const gasnet_handlerarg_t args[M + 1] = {GASNET_HG_ARGS_##M 0}; \
        (void) names_source(token); \
        names_check(M, args); \
        names_check_payload(buf, size); \
        names_replies++; \
    }

#define NAMES_TABLE(M) \
    HANDLER(NAMES_REQUEST + M, names_short##M), \
        HANDLER(NAMES_REQUEST + NAMES_M + M, names_medium##M), \
        HANDLER(NAMES_REQUEST + 2 * NAMES_M + M, names_long##M), \
        HANDLER(NAMES_REPLY + M, names_reply_short##M), \
        HANDLER(NAMES_REPLY + NAMES_M + M, names_reply_payload##M), \
        HANDLER(NAMES_REPLY + 2 * NAMES_M + M, names_reply_payload##M),

#define NAMES_SEND(M) \
    NAMES_CALL(gasnet_AMRequestShort##M(names_number(peer), \
                   names_index(NAMES_REQUEST + M) CALL_##M), \
        M, 2); \
    sent++; \
    GASNET_BLOCKUNTIL(names_replies == sent); \
    NAMES_CALL( \
        gasnet_AMRequestMedium##M(names_number(peer), \
            names_index(NAMES_REQUEST + NAMES_M + M), \
            names_pointer(names_payload), names_number(NAMES_BYTES) CALL_##M), \
        M, 4); \
    GASNET_BLOCKUNTIL(names_replies == sent + 1); \
    NAMES_CALL(gasnet_AMRequestLong##M(names_number(peer), \
                   names_index(NAMES_REQUEST + 2 * NAMES_M + M), \
                   names_pointer(names_payload), names_number(NAMES_BYTES), \
                   names_there(peer) CALL_##M), \
        M, 5); \
    GASNET_BLOCKUNTIL(names_replies == sent + 2); \
    NAMES_CALL(gasnet_AMRequestLongAsync##M(names_number(peer), \
                   names_index(NAMES_REQUEST + 2 * NAMES_M + M), \
                   names_pointer(names_payload), names_number(NAMES_BYTES), \
                   names_there(peer) CALL_##M), \
        M, 5); \
    sent += 3; \
    GASNET_BLOCKUNTIL(names_replies == sent);

#define NAMES_EACH(X) \
    X(0) \
    X(1) \
    X(2) \
    X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)

NAMES_EACH(NAMES_HANDLERS)

/* Each node sends all requests to the next one. */
static void names_all(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {NAMES_EACH(NAMES_TABLE)};
    gasnet_node_t peer;
    int sent = 0;

    memset(names_payload, 'p', sizeof(names_payload));
    START(table, sizeof(table) / sizeof(table[0]), GASNET_PAGESIZE);
    names_segments =
        (gasnet_seginfo_t *) calloc(gasnet_nodes(), sizeof(*names_segments));
    CHECK(names_segments != NULL);
    CHECK(gasnet_getSegmentInfo(names_segments, (int) gasnet_nodes()) == 0);
    peer = (gasnet_mynode() + 1) % gasnet_nodes();
    BARRIER();
    NAMES_EACH(NAMES_SEND)
    BARRIER();
    CHECK(sent == 4 * NAMES_M && names_requests == 4 * NAMES_M);
    CHECK(names_wrong == 0);
    gasnet_exit(0);
}

const struct jobs_case jobs_names[] = {{"names", names_all}, {NULL, NULL}};
