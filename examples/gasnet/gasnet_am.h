/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gasnet_am: the 119 names of active messages. gasnet.h includes it.
 *
 *     int gasnet_AMRequestShortM(dest, handler, arg0, ...)
 *     int gasnet_AMRequestMediumM(dest, handler, source, nbytes, arg0, ...)
 *     int gasnet_AMRequestLongM(dest, handler, source, nbytes, dest_addr, ...)
 *     int gasnet_AMRequestLongAsyncM(as Long)
 *     int gasnet_AMReplyShortM(token, handler, arg0, ...)
 *     int gasnet_AMReplyMediumM(token, handler, source, nbytes, arg0, ...)
 *     int gasnet_AMReplyLongM(token, handler, source, nbytes, dest_addr, ...)
 *
 * M is the number of arguments, 0 to 16. All return GASNET_OK;
 * GASNET_ERR_BAD_ARG: no such node, or too many bytes; GASNET_ERR_NOT_INIT:
 * before gasnet_attach(). The source may be reused on return, after LongAsync
 * when the reply handler runs. A request waits, and runs handlers meanwhile,
 * while its destination has too many unanswered ones; a reply does not wait.
 */
#ifndef GASNET_AM_H
#define GASNET_AM_H

#include "gasnet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* GASNET_HG_PARAMS_M are M parameters, GASNET_HG_ARGS_M their values. */
#define GASNET_HG_PARAMS_0
#define GASNET_HG_ARGS_0
#define GASNET_HG_PARAMS_1 GASNET_HG_PARAMS_0, gasnet_handlerarg_t a0
#define GASNET_HG_ARGS_1 GASNET_HG_ARGS_0 a0,
#define GASNET_HG_PARAMS_2 GASNET_HG_PARAMS_1, gasnet_handlerarg_t a1
#define GASNET_HG_ARGS_2 GASNET_HG_ARGS_1 a1,
#define GASNET_HG_PARAMS_3 GASNET_HG_PARAMS_2, gasnet_handlerarg_t a2
#define GASNET_HG_ARGS_3 GASNET_HG_ARGS_2 a2,
#define GASNET_HG_PARAMS_4 GASNET_HG_PARAMS_3, gasnet_handlerarg_t a3
#define GASNET_HG_ARGS_4 GASNET_HG_ARGS_3 a3,
#define GASNET_HG_PARAMS_5 GASNET_HG_PARAMS_4, gasnet_handlerarg_t a4
#define GASNET_HG_ARGS_5 GASNET_HG_ARGS_4 a4,
#define GASNET_HG_PARAMS_6 GASNET_HG_PARAMS_5, gasnet_handlerarg_t a5
#define GASNET_HG_ARGS_6 GASNET_HG_ARGS_5 a5,
#define GASNET_HG_PARAMS_7 GASNET_HG_PARAMS_6, gasnet_handlerarg_t a6
#define GASNET_HG_ARGS_7 GASNET_HG_ARGS_6 a6,
#define GASNET_HG_PARAMS_8 GASNET_HG_PARAMS_7, gasnet_handlerarg_t a7
#define GASNET_HG_ARGS_8 GASNET_HG_ARGS_7 a7,
#define GASNET_HG_PARAMS_9 GASNET_HG_PARAMS_8, gasnet_handlerarg_t a8
#define GASNET_HG_ARGS_9 GASNET_HG_ARGS_8 a8,
#define GASNET_HG_PARAMS_10 GASNET_HG_PARAMS_9, gasnet_handlerarg_t a9
#define GASNET_HG_ARGS_10 GASNET_HG_ARGS_9 a9,
#define GASNET_HG_PARAMS_11 GASNET_HG_PARAMS_10, gasnet_handlerarg_t a10
#define GASNET_HG_ARGS_11 GASNET_HG_ARGS_10 a10,
#define GASNET_HG_PARAMS_12 GASNET_HG_PARAMS_11, gasnet_handlerarg_t a11
#define GASNET_HG_ARGS_12 GASNET_HG_ARGS_11 a11,
#define GASNET_HG_PARAMS_13 GASNET_HG_PARAMS_12, gasnet_handlerarg_t a12
#define GASNET_HG_ARGS_13 GASNET_HG_ARGS_12 a12,
#define GASNET_HG_PARAMS_14 GASNET_HG_PARAMS_13, gasnet_handlerarg_t a13
#define GASNET_HG_ARGS_14 GASNET_HG_ARGS_13 a13,
#define GASNET_HG_PARAMS_15 GASNET_HG_PARAMS_14, gasnet_handlerarg_t a14
#define GASNET_HG_ARGS_15 GASNET_HG_ARGS_14 a14,
#define GASNET_HG_PARAMS_16 GASNET_HG_PARAMS_15, gasnet_handlerarg_t a15
#define GASNET_HG_ARGS_16 GASNET_HG_ARGS_15 a15,

/* A short message: a word and the arguments. */
#define GASNET_HG_AM_WORDS(kind, handler, M) \
    struct { \
        struct gasnet_hg_word word; \
        gasnet_handlerarg_t args[M + 1]; \
    } front = {{kind, handler, M, 0, 0, 0}, {GASNET_HG_ARGS_##M 0}}
#define GASNET_HG_AM_SIZE(M) \
    (sizeof(struct gasnet_hg_word) + (M) * sizeof(gasnet_handlerarg_t))

/* Another message without its payload. */
#define GASNET_HG_AM_FRONT(kind, handler, nbytes, dest, M) \
    struct { \
        struct gasnet_hg_header header; \
        gasnet_handlerarg_t args[M + GASNET_HG_PADDING]; \
    } front = { \
        {{kind, handler, M, 0, 0, 0}, nbytes, dest}, {GASNET_HG_ARGS_##M 0}}

/* One of the names. */
#define GASNET_HG_AM_SHORT(name, function, flags, M, peer_t) \
    static inline int name##M( \
        peer_t peer, gasnet_handler_t handler GASNET_HG_PARAMS_##M) \
    { \
        GASNET_HG_AM_WORDS(GASNET_HG_SHORT | flags, handler, M); \
        return function##_short(peer, &front.word, GASNET_HG_AM_SIZE(M)); \
    }
#define GASNET_HG_AM_MEDIUM(name, function, flags, M, peer_t) \
    static inline int name##M(peer_t peer, gasnet_handler_t handler, \
        const void *source, size_t nbytes GASNET_HG_PARAMS_##M) \
    { \
        GASNET_HG_AM_FRONT(GASNET_HG_MEDIUM | flags, handler, nbytes, 0, M); \
        return function##_long(peer, &front.header, source); \
    }
#define GASNET_HG_AM_LONG(name, function, flags, M, peer_t) \
    static inline int name##M(peer_t peer, gasnet_handler_t handler, \
        const void *source, size_t nbytes, \
        void *dest_addr GASNET_HG_PARAMS_##M) \
    { \
        GASNET_HG_AM_FRONT(GASNET_HG_LONG | flags, handler, nbytes, \
            (uintptr_t) dest_addr, M); \
        return function##_long(peer, &front.header, source); \
    }
#define GASNET_HG_AM(M) \
    GASNET_HG_AM_SHORT( \
        gasnet_AMRequestShort, gasnet_hg_request, 0, M, gasnet_node_t) \
    GASNET_HG_AM_MEDIUM( \
        gasnet_AMRequestMedium, gasnet_hg_request, 0, M, gasnet_node_t) \
    GASNET_HG_AM_LONG( \
        gasnet_AMRequestLong, gasnet_hg_request, 0, M, gasnet_node_t) \
    GASNET_HG_AM_LONG( \
        gasnet_AMRequestLongAsync, gasnet_hg_request, 0, M, gasnet_node_t) \
    GASNET_HG_AM_SHORT(gasnet_AMReplyShort, gasnet_hg_reply, GASNET_HG_REPLY, \
        M, gasnet_token_t) \
    GASNET_HG_AM_MEDIUM(gasnet_AMReplyMedium, gasnet_hg_reply, \
        GASNET_HG_REPLY, M, gasnet_token_t) \
    GASNET_HG_AM_LONG(gasnet_AMReplyLong, gasnet_hg_reply, GASNET_HG_REPLY, M, \
        gasnet_token_t)

GASNET_HG_AM(0)
GASNET_HG_AM(1)
GASNET_HG_AM(2)
GASNET_HG_AM(3)
GASNET_HG_AM(4)
GASNET_HG_AM(5)
GASNET_HG_AM(6)
GASNET_HG_AM(7)
GASNET_HG_AM(8)
GASNET_HG_AM(9)
GASNET_HG_AM(10)
GASNET_HG_AM(11)
GASNET_HG_AM(12)
GASNET_HG_AM(13)
GASNET_HG_AM(14)
GASNET_HG_AM(15)
GASNET_HG_AM(16)

#ifdef __cplusplus
}
#endif

#endif
