/* SPDX-License-Identifier: BSD-3-Clause */
/* live: see live.h. */
#include "na/live.h"

#include "base/lock.h"
#include "base/log.h"

static pthread_mutex_t na_live_lock = PTHREAD_MUTEX_INITIALIZER;

/* Open addressing: from the place that its hash names, an object lies before
 * the first empty entry. */
#define NA_LIVE_EMPTY ((uintptr_t) 0)
#define NA_LIVE_REMOVED ((uintptr_t) 7)
#define NA_LIVE_KIND ((uintptr_t) 7)

static _Atomic uintptr_t na_live_table[NA_LIVE_MAX];

static pthread_once_t na_live_once = PTHREAD_ONCE_INIT;

/* ---- Fork ---- */

static void na_live_fork_prepare(void)
{
    hg_lock(&na_live_lock);
}

static void na_live_fork_parent(void)
{
    hg_unlock(&na_live_lock);
}

static void na_live_fork_child(void)
{
    unsigned i;

    for (i = 0; i < NA_LIVE_MAX; i++) {
        uintptr_t entry = atomic_load(&na_live_table[i]);

        if ((entry & NA_LIVE_KIND) == NA_LIVE_NA_CLASS)
            atomic_store(
                &na_class_core_of((struct na_class *) (entry & ~NA_LIVE_KIND))
                     ->forked,
                true);
    }
    hg_unlock(&na_live_lock);
}

static void na_live_begin(void)
{
    hg_log_atfork(
        na_live_fork_prepare, na_live_fork_parent, na_live_fork_child);
}

/* NA_FAULT; said once. */
static na_return_t na_live_refuse_forked(
    const struct na_class *na_class, const char *function)
{
    if (!atomic_exchange(&na_class_core_of(na_class)->fork_told, true))
        hg_log_error("cls",
            "%s: the class belongs to the process that forked this one: open "
            "another",
            function);
    return NA_FAULT;
}

/* ---- The table ---- */

static uintptr_t na_live_entry_of(enum na_live_kind kind, const void *object)
{
    assert(((uintptr_t) object & NA_LIVE_KIND) == 0);
    return (uintptr_t) object | (uintptr_t) kind;
}

static unsigned na_live_place_of(const void *object)
{
    uint64_t hash = ((uint64_t) (uintptr_t) object >> 4) * 0x9e3779b97f4a7c15u;

    return (unsigned) (hash >> 32) % NA_LIVE_MAX;
}

/* The place of an object; NA_LIVE_MAX: it is not there. NULL never is. */
static unsigned na_live_find(enum na_live_kind kind, const void *object)
{
    unsigned place = na_live_place_of(object);
    uintptr_t wanted;
    unsigned i;

    /* A pointer read from memory that was freed may be anything. */
    if (((uintptr_t) object & NA_LIVE_KIND) != 0)
        return NA_LIVE_MAX;
    wanted = na_live_entry_of(kind, object);
    for (i = 0; i < NA_LIVE_MAX; i++) {
        uintptr_t entry =
            atomic_load_explicit(&na_live_table[place], memory_order_acquire);

        if (HG_LIKELY(entry == wanted))
            return place;
        if (entry == NA_LIVE_EMPTY)
            break;
        place = (place + 1) % NA_LIVE_MAX;
    }
    return NA_LIVE_MAX;
}

HG_PRIVATE na_return_t na_live_add(enum na_live_kind kind, const void *object)
{
    unsigned place = na_live_place_of(object);
    unsigned i;

    assert(object != NULL);
    (void) pthread_once(&na_live_once, na_live_begin);
    hg_lock(&na_live_lock);
    for (i = 0; i < NA_LIVE_MAX; i++) {
        uintptr_t entry = atomic_load(&na_live_table[place]);

        if (entry == NA_LIVE_EMPTY || entry == NA_LIVE_REMOVED) {
            atomic_store(&na_live_table[place], na_live_entry_of(kind, object));
            break;
        }
        place = (place + 1) % NA_LIVE_MAX;
    }
    hg_unlock(&na_live_lock);
    if (i < NA_LIVE_MAX)
        return NA_SUCCESS;
    hg_log_error(
        "cls", "no more than %d classes and contexts can be open", NA_LIVE_MAX);
    return NA_AGAIN;
}

/* Empty a place; the lock is held. It is only marked as removed where objects
 * behind it may have passed it. */
static void na_live_clear(unsigned place)
{
    uintptr_t next = atomic_load(&na_live_table[(place + 1) % NA_LIVE_MAX]);

    assert(place < NA_LIVE_MAX);
    atomic_store(&na_live_table[place],
        next == NA_LIVE_EMPTY ? NA_LIVE_EMPTY : NA_LIVE_REMOVED);
}

HG_PRIVATE void na_live_remove(enum na_live_kind kind, const void *object)
{
    unsigned place;

    hg_lock(&na_live_lock);
    place = na_live_find(kind, object);
    assert(place < NA_LIVE_MAX);
    na_live_clear(place);
    hg_unlock(&na_live_lock);
}

HG_PRIVATE bool na_live_has(enum na_live_kind kind, const void *object)
{
    return na_live_find(kind, object) < NA_LIVE_MAX;
}

/* ---- NA's classes ---- */

HG_PRIVATE bool na_live_hold(struct na_class *na_class)
{
    bool live;

    hg_lock(&na_live_lock);
    live = na_live_has(NA_LIVE_NA_CLASS, na_class) &&
        !na_class_is_forked(na_class);
    if (live)
        na_class_core_of(na_class)->layers++;
    hg_unlock(&na_live_lock);
    return live;
}

HG_PRIVATE void na_live_let_go(struct na_class *na_class)
{
    hg_lock(&na_live_lock);
    assert(na_class_core_of(na_class)->layers > 0);
    na_class_core_of(na_class)->layers--;
    hg_unlock(&na_live_lock);
}

HG_PRIVATE na_return_t na_live_retire(struct na_class *na_class)
{
    na_return_t ret = NA_SUCCESS;
    unsigned place;

    hg_lock(&na_live_lock);
    place = na_live_find(NA_LIVE_NA_CLASS, na_class);
    if (place == NA_LIVE_MAX)
        ret = NA_INVALID_ARG;
    else if (na_class_is_forked(na_class))
        ret = NA_FAULT;
    else if (na_class_core_of(na_class)->layers > 0)
        ret = NA_EXIST;
    else if (na_live_contexts(na_class) > 0)
        ret = NA_BUSY;
    else
        na_live_clear(place);
    hg_unlock(&na_live_lock);
    return ret;
}

HG_PRIVATE na_return_t na_live_check(
    const struct na_class *na_class, const char *function)
{
    if (HG_LIKELY(na_live_has(NA_LIVE_NA_CLASS, na_class)))
        return na_class_is_forked(na_class)
            ? na_live_refuse_forked(na_class, function)
            : NA_SUCCESS;
    return hg_log_misuse("cls", function,
        na_class == NULL ? "the class is NULL" : "no such class is open");
}

/* ---- Contexts ---- */

HG_PRIVATE unsigned na_live_contexts(struct na_class *na_class)
{
    struct na_class_core *core = na_class_core_of(na_class);
    unsigned n = 0;
    unsigned i;

    hg_lock(&core->list_lock);
    for (i = 0; i < core->context_high; i++)
        n += core->contexts[i] != NULL && !core->contexts[i]->own;
    hg_unlock(&core->list_lock);
    return n;
}

HG_PRIVATE na_return_t na_live_check_context(const struct na_class *na_class,
    const struct na_context *context, const char *function)
{
    na_return_t ret = na_live_check(na_class, function);

    if (ret != NA_SUCCESS)
        return ret;
    if (HG_LIKELY(na_live_has(NA_LIVE_NA_CONTEXT, context) &&
            context->na_class == na_class))
        return NA_SUCCESS;
    return hg_log_misuse("ctx", function,
        context == NULL ? "the context is NULL"
                        : "the class has no such context");
}
