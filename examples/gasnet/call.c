/* SPDX-License-Identifier: BSD-3-Clause */
/* call: a handler of an active message, with any number of arguments. */
#include "gasnet_hg.h"

/* A handler with M arguments. */
#define CALL_VALUES_0
#define CALL_VALUES_1 , args[0]
#define CALL_VALUES_2 CALL_VALUES_1, args[1]
#define CALL_VALUES_3 CALL_VALUES_2, args[2]
#define CALL_VALUES_4 CALL_VALUES_3, args[3]
#define CALL_VALUES_5 CALL_VALUES_4, args[4]
#define CALL_VALUES_6 CALL_VALUES_5, args[5]
#define CALL_VALUES_7 CALL_VALUES_6, args[6]
#define CALL_VALUES_8 CALL_VALUES_7, args[7]
#define CALL_VALUES_9 CALL_VALUES_8, args[8]
#define CALL_VALUES_10 CALL_VALUES_9, args[9]
#define CALL_VALUES_11 CALL_VALUES_10, args[10]
#define CALL_VALUES_12 CALL_VALUES_11, args[11]
#define CALL_VALUES_13 CALL_VALUES_12, args[12]
#define CALL_VALUES_14 CALL_VALUES_13, args[13]
#define CALL_VALUES_15 CALL_VALUES_14, args[14]
#define CALL_VALUES_16 CALL_VALUES_15, args[15]
#define CALL_EACH(X) \
    X(0) \
    X(1) \
    X(2) \
    X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
#define CALL_SHORT(M) \
    static void call_short_##M(gasnet_token_t token, void (*function)(void), \
        const gasnet_handlerarg_t *args) \
    { \
        (void) args; \
        ((void (*)(gasnet_token_t t GASNET_HG_PARAMS_##M)) function)( \
            token CALL_VALUES_##M); \
    }
#define CALL_LONG(M) \
    static void call_long_##M(gasnet_token_t token, void *payload, \
        size_t nbytes, void (*function)(void), \
        const gasnet_handlerarg_t *args) \
    { \
        (void) args; \
        ((void (*)(gasnet_token_t t, void *b, \
            size_t n GASNET_HG_PARAMS_##M)) function)( \
            token, payload, nbytes CALL_VALUES_##M); \
    }
#define CALL_SHORT_NAME(M) call_short_##M,
#define CALL_LONG_NAME(M) call_long_##M,

CALL_EACH(CALL_SHORT)
CALL_EACH(CALL_LONG)

const gasnet_hg_call_short_t gasnet_hg_short_calls[GASNET_HG_MAX_ARGS + 1] = {
    CALL_EACH(CALL_SHORT_NAME)};
const gasnet_hg_call_t gasnet_hg_calls[GASNET_HG_MAX_ARGS + 1] = {
    CALL_EACH(CALL_LONG_NAME)};
