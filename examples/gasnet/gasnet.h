/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gasnet: Global-Address Space Networking on hg.
 *
 *     cc -DGASNET_PAR app.c libgasnet-hg-par.a -lpthread
 *     gasnetrun_hg -n 4 ./a.out
 *
 * The interface of the GASNet specification, version 1.8, and of version 0.4.
 * Where one name has two forms, the number of arguments selects one:
 *
 *     gasnet_init(argc, argv)                                          1.8
 *     gasnet_init(argc, argv, table, n, segbase, segsize, faults)      0.4
 *     gasnet_barrier_notify(id, flags), _wait, _try                    1.8
 *     gasnet_barrier_notify(id), _wait, _try                           0.4
 *
 * A program defines one of GASNET_SEQ, GASNET_PARSYNC and GASNET_PAR. It may
 * define
 *
 *     GASNET_SEGMENT_LARGE, GASNET_SEGMENT_EVERYTHING   else it is _FAST
 *     GASNET_DEBUG        check locks, handlers and addresses; abort with words
 *     GASNET_SPEC=4       where the versions contradict, follow 0.4: gasnet_
 *                         hold_interrupts() in a handler or with a lock held
 *                         is an error, not ignored
 *
 * The object that calls gasnet_init() decides for the program whether several
 * threads call at the same time, what the segment is, and whether the library
 * checks. Objects with other macros may be linked with it. Operations on nodes
 * of the same host, whose segments are mapped here, are inline loads and
 * stores; all others are functions of the library.
 *
 * Threads: with GASNET_PAR any thread may call any function. Handlers run in
 * threads that poll or wait, several at a time.
 */
#ifndef GASNET_H
#define GASNET_H

#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(GASNET_SEQ) + defined(GASNET_PARSYNC) + defined(GASNET_PAR) != 1
#error "define one of GASNET_SEQ, GASNET_PARSYNC and GASNET_PAR"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Constants ---- */

#define GASNET_SPEC_VERSION_MAJOR 1
#define GASNET_SPEC_VERSION_MINOR 8
#define GASNET_VERSION GASNET_SPEC_VERSION_MAJOR
/* The release whose behaviour is followed where the specification is silent. */
#define GASNET_RELEASE_VERSION_MAJOR 1
#define GASNET_RELEASE_VERSION_MINOR 28
#define GASNET_RELEASE_VERSION_PATCH 2

#define GASNET_CONDUIT_HG 1
#define GASNET_CONDUIT_NAME HG
#define GASNET_CONDUIT_NAME_STR "HG"
#define GASNET_CORE_HG 1
#define GASNET_CORE_NAME HG
#define GASNET_CORE_NAME_STR "HG"
#define GASNET_CORE_VERSION 1.0
#define GASNET_EXTENDED_NAME HG
#define GASNET_EXTENDED_VERSION 1.0

#define GASNET_MAXNODES 65535
#define GASNET_ALIGNED_SEGMENTS 0
#define GASNET_PAGESIZE 4096

#define GASNET_OK 0
#define GASNET_ERR_NOT_INIT 10001
#define GASNET_ERR_RESOURCE 10002
#define GASNET_ERR_BAD_ARG 10003
#define GASNET_ERR_NOT_READY 10004
#define GASNET_ERR_BARRIER_MISMATCH 10005
#define GASNET_ERR_RESOURCE_FAILURE GASNET_ERR_RESOURCE /* 0.4 */

#define GASNET_BARRIERFLAG_ANONYMOUS 1
#define GASNET_BARRIERFLAG_MISMATCH 2
/* Of release 1.20 and later: the barrier has no name on any node, and the
 * caller is one of several threads that image a node. */
#define GASNET_BARRIERFLAG_UNNAMED 9
#define GASNET_BARRIERFLAG_IMAGES 4
/* 0.4: the id of a barrier without a name. */
#define GASNET_ANONYMOUS_BARRIER INT_MIN

#define GASNET_WAIT_SPIN 0
#define GASNET_WAIT_BLOCK 1
#define GASNET_WAIT_SPINBLOCK 2

/* 0.4: arguments of gasnet_init(). */
#define GASNET_SEGBASE_ANY ((void *) -1)
#define GASNET_SEGSIZE_EVERYTHING ((uintptr_t) -1)

/* ---- The configuration of an object ---- */

#if defined(GASNET_SEGMENT_EVERYTHING)
#define GASNET_HG_SEGMENT EVERYTHING
#define GASNET_HG_SEGMENT_KIND 2
#elif defined(GASNET_SEGMENT_LARGE)
#define GASNET_HG_SEGMENT LARGE
#define GASNET_HG_SEGMENT_KIND 1
#else
#define GASNET_SEGMENT_FAST 1
#define GASNET_HG_SEGMENT FAST
#define GASNET_HG_SEGMENT_KIND 0
#endif

#if defined(GASNET_SEQ)
#define GASNET_HG_THREADS SEQ
#define GASNET_HG_MODE 0
#elif defined(GASNET_PARSYNC)
#define GASNET_HG_THREADS PARSYNC
#define GASNET_HG_MODE 1
#else
#define GASNET_HG_THREADS PAR
#define GASNET_HG_MODE 2
#endif

#ifdef GASNET_DEBUG
#define GASNET_HG_CHECKED 1
#define GASNET_HG_CHECKS "debug"
#else
#define GASNET_HG_CHECKED 0
#define GASNET_HG_CHECKS "nodebug"
#endif

#ifdef GASNET_SPEC
#define GASNET_HG_SPEC GASNET_SPEC
#else
#define GASNET_HG_SPEC 18
#endif

#define GASNET_HG_TEXT_OF(x) #x
#define GASNET_HG_TEXT(x) GASNET_HG_TEXT_OF(x)
#define GASNET_HG_THREADS_TEXT GASNET_HG_TEXT(GASNET_HG_THREADS)
#define GASNET_HG_SEGMENT_TEXT GASNET_HG_TEXT(GASNET_HG_SEGMENT)
#define GASNET_CONFIG_STRING \
    "RELEASE=1.28.2,SPEC=1.8,CONDUIT=HG(HG-1.0/HG-1.0)," \
    "THREADMODEL=" GASNET_HG_THREADS_TEXT ",SEGMENT=" GASNET_HG_SEGMENT_TEXT \
    ",PTR=64bit,noalign," GASNET_HG_CHECKS

/* How the object that calls gasnet_init() was compiled. */
struct gasnet_hg_config {
    uint32_t size;    /* of this struct */
    uint32_t mode;    /* 0 SEQ, 1 PARSYNC, 2 PAR */
    uint32_t segment; /* 0 FAST, 1 LARGE, 2 EVERYTHING */
    uint32_t checked; /* 1: GASNET_DEBUG */
    uint32_t spec;    /* 4: 0.4; else 1.8 */
    const char *text;
};

static const struct gasnet_hg_config gasnet_hg_config = {
    (uint32_t) sizeof(struct gasnet_hg_config), GASNET_HG_MODE,
    GASNET_HG_SEGMENT_KIND, GASNET_HG_CHECKED, GASNET_HG_SPEC,
    GASNET_CONFIG_STRING};

/* ---- Types ---- */

typedef uint32_t gasnet_node_t;
typedef uint8_t gasnet_handler_t;
typedef int32_t gasnet_handlerarg_t;
typedef void *gasnet_token_t;
typedef void *gasnet_threadinfo_t;
typedef struct gasnet_hg_op *gasnet_handle_t;
typedef struct gasnet_hg_op *gasnet_valget_handle_t;
#define GASNET_INVALID_HANDLE ((gasnet_handle_t) 0)

typedef uintptr_t gasnet_register_value_t;
typedef gasnet_register_value_t gasnet_register_t; /* 0.4 */
#if UINTPTR_MAX > 0xffffffffu
#define SIZEOF_GASNET_REGISTER_VALUE_T 8
#else
#define SIZEOF_GASNET_REGISTER_VALUE_T 4
#endif
#define SIZEOF_GASNET_REGISTER_T SIZEOF_GASNET_REGISTER_VALUE_T
#define sizeof_gasnet_REGISTER_VALUE_T SIZEOF_GASNET_REGISTER_VALUE_T

typedef struct {
    gasnet_handler_t index; /* 0: gasnet_attach() chooses and writes it */
    void (*fnptr)();
} gasnet_handlerentry_t;

typedef struct {
    void *addr;
    uintptr_t size;
} gasnet_seginfo_t;

/* Of release 1.14 and later. */
typedef struct {
    gasnet_node_t host;      /* from 0, in the order of their first nodes */
    gasnet_node_t supernode; /* the same number */
} gasnet_nodeinfo_t;

typedef struct {
    void *addr;
    size_t len;
} gasnet_memvec_t;

/* ---- Job control ---- */

#define GASNET_HG_8TH(a, b, c, d, e, f, g, h, ...) h
/* A call of NAME with the number of its arguments in the name. */
#define GASNET_HG_COUNT(...) GASNET_HG_8TH(__VA_ARGS__, 7, 6, 5, 4, 3, 2, 1, 0)
#define GASNET_HG_JOIN_(a, b) a##b
#define GASNET_HG_JOIN(a, b) GASNET_HG_JOIN_(a, b)

/*
 * Start the node: find the other nodes of the job. The first call of GASNet.
 * GASNET_ERR_NOT_INIT after an earlier call; GASNET_ERR_RESOURCE, printed, if
 * the job cannot be started.
 */
#define gasnet_init(...) \
    GASNET_HG_JOIN(gasnet_hg_init, GASNET_HG_COUNT(__VA_ARGS__)) \
    (&gasnet_hg_config, __VA_ARGS__)
int gasnet_hg_init2(
    const struct gasnet_hg_config *config, int *argc, char ***argv);
/* 0.4: with gasnet_attach() in it. `segbase` is honoured if it is a page's
 * address and all its pages exist; the segment is then ordinary memory. */
int gasnet_hg_init7(const struct gasnet_hg_config *config, int *argc,
    char ***argv, gasnet_handlerentry_t *table, int numentries, void *segbase,
    uintptr_t segsize, int allow_faults);

/*
 * Register handlers and make the segment. Collective, and a barrier.
 * GASNET_ERR_BAD_ARG: an index below 128, used twice, or without a function;
 * more than 128 handlers; a segment that is no multiple of GASNET_PAGESIZE.
 * GASNET_ERR_NOT_INIT: before gasnet_init(), or a second call.
 * GASNET_ERR_RESOURCE: the segment cannot be made, or a node is lost.
 */
int gasnet_attach(gasnet_handlerentry_t *table, int numentries,
    uintptr_t segsize, uintptr_t minheapoffset);

/* The largest segment that peers on this host can map. Larger ones work, and
 * all their transfers use NA. (uintptr_t) -1 with GASNET_SEGMENT_EVERYTHING. */
#define gasnet_getMaxLocalSegmentSize() gasnet_hg_max_segment(&gasnet_hg_config)
#define gasnet_getMaxGlobalSegmentSize() \
    gasnet_hg_max_segment(&gasnet_hg_config)
#define gasnet_getMaxNativeSegmentSize() \
    gasnet_hg_max_segment(&gasnet_hg_config)
uintptr_t gasnet_hg_max_segment(const struct gasnet_hg_config *config);

/* End the job with this code. From any thread, at any time after gasnet_init(),
 * also in a handler or a signal handler. It does not return. */
void gasnet_exit(int exitcode) __attribute__((noreturn));

extern gasnet_node_t gasnet_hg_rank, gasnet_hg_size;

static inline gasnet_node_t gasnet_mynode(void)
{
    return gasnet_hg_rank;
}

static inline gasnet_node_t gasnet_nodes(void)
{
    return gasnet_hg_size;
}

/* Entries past the last node are left alone. */
int gasnet_getSegmentInfo(gasnet_seginfo_t *table, int numentries);
int gasnet_getNodeInfo(gasnet_nodeinfo_t *table, int numentries);

/* A variable of the environment in which the job was started; NULL: unset. */
char *gasnet_getenv(const char *name);

const char *gasnet_hg_error_name(int code);
const char *gasnet_hg_error_text(int code);
#define gasnet_ErrorName(code) ((char *) gasnet_hg_error_name(code))
#define gasnet_ErrorDesc(code) ((char *) gasnet_hg_error_text(code))

/* How this node waits: GASNET_WAIT_...; GASNET_ERR_BAD_ARG: another value. */
int gasnet_set_waitmode(int wait_mode);

/* ---- Threads ---- */

#define GASNET_GET_THREADINFO() ((gasnet_threadinfo_t) 0)
#define GASNET_POST_THREADINFO(info) ((void) (info))
#define GASNET_BEGIN_FUNCTION() ((void) 0)

/* ---- Active messages ---- */

#define gasnet_AMMaxArgs() ((size_t) 16)
extern size_t gasnet_hg_max_medium, gasnet_hg_max_long_reply;
#define gasnet_AMMaxMedium() (gasnet_hg_max_medium)
#define gasnet_AMMaxLongRequest() ((size_t) 1 << 30)
#define gasnet_AMMaxLongReply() (gasnet_hg_max_long_reply)

/* Kinds of messages. With GASNET_HG_REPLY it is a reply, else a request. */
enum {
    GASNET_HG_REPLY = 1,
    GASNET_HG_SHORT = 0,
    GASNET_HG_MEDIUM = 2,
    GASNET_HG_LONG = 4
};

/* The first bytes of each message: see am.c. The library writes returns and
 * source. */
struct gasnet_hg_word {
    uint8_t kind, handler, nargs, zero;
    uint16_t returns, source;
};

/* The header of a message that is not short. The arguments follow it, and
 * GASNET_HG_PADDING zeros. */
struct gasnet_hg_header {
    struct gasnet_hg_word word;
    uint64_t length, dest;
};
#define GASNET_HG_PADDING 4

/* gasnet_AMRequest... and gasnet_AMReply...: gasnet_am.h. A short message has
 * `size` bytes: the word, and the arguments behind it. */
int gasnet_hg_request_short(
    gasnet_node_t dest, struct gasnet_hg_word *word, size_t size);
int gasnet_hg_reply_short(
    gasnet_token_t token, struct gasnet_hg_word *word, size_t size);
int gasnet_hg_request_long(
    gasnet_node_t dest, struct gasnet_hg_header *header, const void *source);
int gasnet_hg_reply_long(
    gasnet_token_t token, struct gasnet_hg_header *header, const void *source);

/* Receive messages and run handlers. */
int gasnet_AMPoll(void);

/* The node that sent the message of this handler. */
int gasnet_AMGetMsgSource(gasnet_token_t token, gasnet_node_t *source);

/* Poll until the condition is true. It is tested after each poll. */
#define GASNET_BLOCKUNTIL(condition) \
    do { \
        unsigned gasnet_hg_tries = 0; \
        while (!(condition)) \
            gasnet_hg_wait(&gasnet_hg_tries); \
        __atomic_thread_fence(__ATOMIC_ACQUIRE); \
    } while (0)
void gasnet_hg_wait(unsigned *tries);

/* ---- No-interrupt sections and handler-safe locks ---- */

/* Handlers never interrupt a thread here, so these only check: GASNET_DEBUG. */
void gasnet_hold_interrupts(void);
void gasnet_resume_interrupts(void);

#define GASNET_HG_HSL_TAG 0x1f2e3d4cu
typedef struct gasnet_hg_hsl {
    uint32_t tag; /* GASNET_HG_HSL_TAG from init to destroy */
    pthread_mutex_t mutex;
    struct gasnet_hg_hsl *outer; /* debug: locked before it, by this thread */
    void *owner;                 /* debug: the thread that holds it */
    uint64_t since;              /* debug: when it was locked, in ns */
} gasnet_hsl_t;
#define GASNET_HSL_INITIALIZER \
    { \
        GASNET_HG_HSL_TAG, PTHREAD_MUTEX_INITIALIZER, NULL, NULL, 0 \
    }

void gasnet_hsl_init(gasnet_hsl_t *hsl);
void gasnet_hsl_destroy(gasnet_hsl_t *hsl);
void gasnet_hsl_lock(gasnet_hsl_t *hsl);
/* GASNET_OK, or GASNET_ERR_NOT_READY: another thread holds it. */
int gasnet_hsl_trylock(gasnet_hsl_t *hsl);
void gasnet_hsl_unlock(gasnet_hsl_t *hsl);

/* ---- Barriers ---- */

#define gasnet_barrier_notify(...) \
    GASNET_HG_JOIN(gasnet_hg_notify, GASNET_HG_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_barrier_wait(...) \
    GASNET_HG_JOIN(gasnet_hg_await, GASNET_HG_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define gasnet_barrier_try(...) \
    GASNET_HG_JOIN(gasnet_hg_try, GASNET_HG_COUNT(__VA_ARGS__))(__VA_ARGS__)

void gasnet_hg_notify2(int id, int flags);
int gasnet_hg_await2(int id, int flags);
int gasnet_hg_try2(int id, int flags);

static inline int gasnet_hg_barrier_flags(int id)
{
    return id == GASNET_ANONYMOUS_BARRIER ? GASNET_BARRIERFLAG_ANONYMOUS : 0;
}

static inline void gasnet_hg_notify1(int id)
{
    gasnet_hg_notify2(id, gasnet_hg_barrier_flags(id));
}

static inline int gasnet_hg_await1(int id)
{
    return gasnet_hg_await2(id, gasnet_hg_barrier_flags(id));
}

static inline int gasnet_hg_try1(int id)
{
    return gasnet_hg_try2(id, gasnet_hg_barrier_flags(id));
}

/* Of release 1.20 and later: notify and wait in one call. */
int gasnet_barrier(int id, int flags);
/* 0: *id is the name of the barrier that ended last; 1: it had none. */
int gasnet_barrier_result(int *id);

#ifdef __cplusplus
}
#endif

#include "gasnet_am.h"
#include "gasnet_extended.h"

#endif
