/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host names, which threads resolve.
 *
 * A query to a name server may block for longer than any time limit, and cannot
 * be interrupted. Therefore each class has a resolver: a few threads, which
 * start with the first name and end with the last. A thread may outlive its
 * class, so closing a class does not wait for the name server. That is why all
 * memory here comes from malloc: the allocator of the application may be gone.
 *
 * An address with a host name asks when it connects, then tries the numbers one
 * after the other:
 *
 *     na_plug_ask      the query waits for a thread
 *       (a thread)     calls getaddrinfo, then `wake` of the class
 *     na_plug_answer   the class takes the query when it polls
 *     na_plug_next     a number to try, and for how long; again if that fails
 *     na_plug_drop     the query is not needed any more, answered or not
 *
 * The functions may be called with a lock of the transport, but one that `wake`
 * does not take.
 */
#ifndef HG_GEN_PLUG_HOST_H
#define HG_GEN_PLUG_HOST_H

#include "plug/list.h"
#include "plug/net.h"

#include <dlfcn.h>

/* Before glibc 2.34 these are in -ldl. Without it they are NULL in a program
 * that contains this file; no dlclose removes the code of a program. */
#pragma weak dladdr
#pragma weak dlopen
#pragma weak dlclose

#define NA_PLUG_THREADS 64 /* maximum of a class */
#define NA_PLUG_NUMBERS 16 /* of a host; the others are not tried */
/* The first attempt of a number ends after this time if others are left: a host
 * that drops packets must not take the time of those after it. */
#define NA_PLUG_TRY_NS UINT64_C(250000000)

#define NA_PLUG_QUERY_OF(ptr) \
    ((struct na_plug_query *) (void *) ((char *) (ptr) -offsetof( \
        struct na_plug_query, link)))

struct na_plug_resolver {
    pthread_mutex_t lock;
    struct na_class *na_class; /* NULL: closed */
    void (*wake)(struct na_class *na_class);
    struct na_link waiting;
    struct na_link answered;
    _Atomic bool news; /* `answered` may have some */
    unsigned threads;
};

enum na_plug_state { NA_PLUG_WAITING, NA_PLUG_RUNNING, NA_PLUG_ANSWERED };

/* A query for the numbers of a host. */
struct na_plug_query {
    struct na_plug_resolver *resolver;
    /* Guarded by the resolver's lock: */
    struct na_link link; /* in `waiting`, or in `answered` */
    enum na_plug_state state;
    bool dropped; /* the thread frees it */
    /* Of the class: */
    void *owner;
    bool taken; /* na_plug_answer has returned it */
    unsigned tried;
    /* Of the class, while no thread runs the query: */
    int family; /* these numbers first ... */
    bool only;  /* ... and no others */
    bool other; /* the host has others, which `only` leaves out */
    int error;  /* of getaddrinfo */
    unsigned count;
    struct sockaddr_storage numbers[NA_PLUG_NUMBERS];
    char host[NA_MAX_ADDR_LEN];
};

/* ---- The threads ---- */

/* Resolve a host; no lock is held. */
static inline void na_plug_run_query(struct na_plug_query *query)
{
    struct addrinfo hints;
    struct addrinfo *found = NULL;
    const struct addrinfo *at;
    struct sockaddr_storage number;
    int round;

    memset(&hints, 0, sizeof(hints));
    hints.ai_socktype = SOCK_STREAM;
    query->error = getaddrinfo(query->host, NULL, &hints, &found);
    if (query->error != 0)
        return;
    for (round = 0; round < 2; round++) {
        for (at = found; at != NULL; at = at->ai_next) {
            if ((at->ai_family == query->family) != (round == 0) ||
                query->count == NA_PLUG_NUMBERS)
                continue;
            memset(&number, 0, sizeof(number));
            memcpy(&number, at->ai_addr, at->ai_addrlen);
            if (!na_plug_is_of_one(&number))
                continue;
            if (round == 0 || !query->only)
                query->numbers[query->count++] = number;
            else
                query->other = true;
        }
    }
    freeaddrinfo(found);
}

static inline void na_plug_resolver_free(struct na_plug_resolver *resolver)
{
    (void) pthread_mutex_destroy(&resolver->lock);
    free(resolver);
}

/* A thread: answers queries until none waits. */
static NA_PLUG_PERHAPS void *na_plug_resolve_all(void *arg)
{
    struct na_plug_resolver *resolver = (struct na_plug_resolver *) arg;
    struct na_link *link;
    bool last;

    (void) pthread_mutex_lock(&resolver->lock);
    while ((link = na_plug_list_pop(&resolver->waiting)) != NULL) {
        struct na_plug_query *query = NA_PLUG_QUERY_OF(link);

        query->state = NA_PLUG_RUNNING;
        (void) pthread_mutex_unlock(&resolver->lock);
        na_plug_run_query(query);
        (void) pthread_mutex_lock(&resolver->lock);
        if (query->dropped) {
            free(query);
            continue;
        }
        query->state = NA_PLUG_ANSWERED;
        na_plug_list_push(&resolver->answered, &query->link);
        atomic_store(&resolver->news, true);
        HG_ASSERT(resolver->na_class != NULL);
        resolver->wake(resolver->na_class);
    }
    last = --resolver->threads == 0 && resolver->na_class == NULL;
    (void) pthread_mutex_unlock(&resolver->lock);
    if (last)
        na_plug_resolver_free(resolver);
    return NULL;
}

/* A thread returns into this code after any time: the library that contains it
 * stays mapped from now on, even after dlclose. */
static inline void na_plug_pin(void)
{
    void *(*code)(void *arg) = na_plug_resolve_all;
    void *address;
    void *handle;
    Dl_info where;

    memcpy(&address, &code, sizeof(address));
    if (dladdr == NULL || dlopen == NULL || dlclose == NULL ||
        dladdr(address, &where) == 0 || where.dli_fname == NULL)
        return;
    handle = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (handle != NULL)
        (void) dlclose(handle);
}

/* Start a thread; returns 0 or an error number. The resolver's lock is held. */
static inline int na_plug_start_thread(struct na_plug_resolver *resolver)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    int rc;

    (void) pthread_once(&once, na_plug_pin);
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, NULL, na_plug_resolve_all, resolver);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) {
        (void) pthread_detach(thread);
        resolver->threads++;
    }
    return rc;
}

/* ---- The class ---- */

/* Create a resolver of a class; NULL: no memory. `wake` is called by the
 * threads. */
static NA_PLUG_PERHAPS struct na_plug_resolver *na_plug_resolver_open(
    struct na_class *na_class, void (*wake)(struct na_class *na_class))
{
    struct na_plug_resolver *resolver =
        (struct na_plug_resolver *) calloc(1, sizeof(*resolver));

    if (resolver == NULL)
        return NULL;
    if (pthread_mutex_init(&resolver->lock, NULL) != 0) {
        free(resolver);
        return NULL;
    }
    resolver->na_class = na_class;
    resolver->wake = wake;
    na_plug_list_init(&resolver->waiting);
    na_plug_list_init(&resolver->answered);
    return resolver;
}

/* The class closes, and has dropped its queries. NULL is allowed. */
static NA_PLUG_PERHAPS void na_plug_resolver_close(
    struct na_plug_resolver *resolver)
{
    bool last;

    if (resolver == NULL)
        return;
    (void) pthread_mutex_lock(&resolver->lock);
    HG_ASSERT(na_plug_list_empty(&resolver->waiting) &&
        na_plug_list_empty(&resolver->answered));
    resolver->na_class = NULL;
    last = resolver->threads == 0;
    (void) pthread_mutex_unlock(&resolver->lock);
    if (last)
        na_plug_resolver_free(resolver);
}

/* Ask for the numbers of a host: those of `family` first, or `only` those.
 * NULL: no memory, or no thread (logged). */
static NA_PLUG_PERHAPS struct na_plug_query *na_plug_ask(
    struct na_plug_resolver *resolver, const char *subsys, const char *host,
    int family, bool only, void *owner)
{
    const struct na_core *core = resolver->na_class->core;
    struct na_plug_query *query =
        (struct na_plug_query *) calloc(1, sizeof(*query));
    bool started;
    int rc = 0;

    if (query == NULL) {
        core->log(HG_LOG_LEVEL_ERROR, subsys,
            "no memory to resolve the host name %s", host);
        return NULL;
    }
    query->resolver = resolver;
    query->owner = owner;
    query->family = family;
    query->only = only;
    (void) snprintf(query->host, sizeof(query->host), "%s", host);
    na_plug_list_init(&query->link);
    (void) pthread_mutex_lock(&resolver->lock);
    if (resolver->threads < NA_PLUG_THREADS)
        rc = na_plug_start_thread(resolver);
    started = resolver->threads > 0; /* perhaps by an earlier query */
    if (started)
        na_plug_list_push(&resolver->waiting, &query->link);
    (void) pthread_mutex_unlock(&resolver->lock);
    if (started)
        return query;
    free(query);
    core->log(HG_LOG_LEVEL_ERROR, subsys,
        "no thread to resolve the host name %s: %s", host, strerror(rc));
    return NULL;
}

/* End the use of a query. NULL is allowed. */
static NA_PLUG_PERHAPS void na_plug_drop(struct na_plug_query *query)
{
    struct na_plug_resolver *resolver;

    if (query == NULL)
        return;
    resolver = query->resolver;
    (void) pthread_mutex_lock(&resolver->lock);
    na_plug_list_remove(&query->link);
    query->dropped = true;
    if (query->state != NA_PLUG_RUNNING)
        free(query);
    (void) pthread_mutex_unlock(&resolver->lock);
}

/* Whether na_plug_answer may return a query. */
static NA_PLUG_PERHAPS bool na_plug_has_news(
    const struct na_plug_resolver *resolver)
{
    return resolver != NULL && atomic_load(&resolver->news);
}

/* The next query that was answered, or NULL. */
static NA_PLUG_PERHAPS struct na_plug_query *na_plug_answer(
    struct na_plug_resolver *resolver)
{
    struct na_plug_query *query = NULL;
    struct na_link *link;

    if (!na_plug_has_news(resolver))
        return NULL;
    (void) pthread_mutex_lock(&resolver->lock);
    link = na_plug_list_pop(&resolver->answered);
    if (link != NULL) {
        query = NA_PLUG_QUERY_OF(link);
        query->taken = true;
    } else
        atomic_store(&resolver->news, false);
    (void) pthread_mutex_unlock(&resolver->lock);
    return query;
}

/* Texts of a class of one family about an address of the other. */
#define NA_PLUG_ONLY_V4 \
    "this class has only IPv4. For IPv6 open it at [::], or with addr_format " \
    "NA_ADDR_IPV6"
#define NA_PLUG_ONLY_V6 \
    "this class has only IPv6. For IPv4 open it at 0.0.0.0, or with " \
    "addr_format NA_ADDR_IPV4"

/* Why a query gave no number; NULL: it gave one. `answered`: it has ended. */
static NA_PLUG_PERHAPS const char *na_plug_why(
    const struct na_plug_query *query, bool answered)
{
    if (answered && query->count > 0)
        return NULL;
    return !answered        ? "no answer of the name server in time"
        : query->error != 0 ? gai_strerror(query->error)
        : !query->other     ? "the host has no internet address"
        : query->family == AF_INET6
        ? "the host has only IPv4 addresses, and " NA_PLUG_ONLY_V6
        : "the host has only IPv6 addresses, and " NA_PLUG_ONLY_V4;
}

/* The number of attempts: two of each number, so that a slow host that is the
 * only good one gets a long attempt, too. */
static inline unsigned na_plug_attempts(const struct na_plug_query *query)
{
    return query->count > 1 ? 2 * query->count : query->count;
}

/* Whether na_plug_next returns a number. NULL is allowed: none was asked. */
static NA_PLUG_PERHAPS bool na_plug_has_next(const struct na_plug_query *query)
{
    return query != NULL && query->taken &&
        query->tried < na_plug_attempts(query);
}

/* The next number to try, and its part of the `left` ns until the end of the
 * lookup. There is one. */
static NA_PLUG_PERHAPS const struct sockaddr_storage *na_plug_next(
    struct na_plug_query *query, uint64_t left, uint64_t *share_p)
{
    unsigned rest = na_plug_attempts(query) - query->tried;

    HG_ASSERT(na_plug_has_next(query));
    *share_p = left / rest;
    if (rest > query->count && *share_p > NA_PLUG_TRY_NS)
        *share_p = NA_PLUG_TRY_NS;
    return &query->numbers[query->tried++ % query->count];
}

/* Log that the number of the last na_plug_next failed, and others are left. */
static NA_PLUG_PERHAPS void na_plug_log_failed(
    const struct na_plug_query *query, const char *subsys, const char *why)
{
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "";
    unsigned i = (query->tried - 1) % query->count;

    (void) na_plug_numeric(
        (const struct sockaddr *) &query->numbers[i], host, sizeof(host));
    query->resolver->na_class->core->log(HG_LOG_LEVEL_INFO, subsys,
        "host %s: address %u of %u, %s: %s", query->host, i + 1, query->count,
        host, why);
}

/* ---- Blocking: while a class opens ---- */

/* Resolve a host to a number, of `family` if possible. Blocks for lookup_ms at
 * most; no lock is held. Returns NULL, or why there is no number. */
static NA_PLUG_PERHAPS const char *na_plug_resolve(
    struct na_plug_resolver *resolver, const char *subsys, const char *host,
    int family, struct sockaddr_storage *address)
{
    const struct timespec pause = {0, 1000000}; /* rare: no signal is needed */
    const struct na_class *na_class = resolver->na_class;
    uint64_t end = na_class->core->now_ns() +
        (uint64_t) na_class->info->lookup_ms * 1000000;
    struct na_plug_query *query =
        na_plug_ask(resolver, subsys, host, family, false, NULL);
    const char *why;

    if (query == NULL)
        return "out of memory or threads";
    while (na_plug_answer(resolver) == NULL && na_class->core->now_ns() < end)
        (void) nanosleep(&pause, NULL);
    why = na_plug_why(query, query->taken);
    if (why == NULL)
        *address = query->numbers[0];
    na_plug_drop(query);
    return why;
}

#endif
