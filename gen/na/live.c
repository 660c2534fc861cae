/* SPDX-License-Identifier: BSD-3-Clause */
/* live: see live.h. */
#include "na/live.h"

#include "base/log.h"

/* Open addressing: an object is at the first position, from its hash on, that
 * was free when it was added. */
#define NA_LIVE_FREE ((uintptr_t) 0)
#define NA_LIVE_KIND ((uintptr_t) 7)

static _Atomic uintptr_t na_live_table[NA_LIVE_MAX];

static pthread_once_t na_live_once = PTHREAD_ONCE_INIT;

/* ---- Fork ---- */

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
}

static void na_live_begin(void)
{
    hg_log_atfork(NULL, NULL, na_live_fork_child);
}

/* NA_FAULT; logged once. */
static na_return_t na_live_refuse_forked(
    const struct na_class *na_class, const char *function)
{
    hg_log_keep_text("%s: the class belongs to the parent process", function);
    if (!atomic_exchange(&na_class_core_of(na_class)->fork_logged, true))
        hg_log_error("cls",
            "%s: the class belongs to the parent process: open "
            "a new one",
            function);
    return NA_FAULT;
}

/* ---- The table ---- */

static uintptr_t na_live_entry_of(enum na_live_kind kind, const void *object)
{
    HG_ASSERT(((uintptr_t) object & NA_LIVE_KIND) == 0);
    return (uintptr_t) object | (uintptr_t) kind;
}

/* The first position from the object's hash on that holds `entry`, or NULL. */
static _Atomic uintptr_t *na_live_find(const void *object, uintptr_t entry)
{
    uint64_t hash = ((uint64_t) (uintptr_t) object >> 4) * 0x9e3779b97f4a7c15u;
    unsigned place = (unsigned) (hash >> 32);
    unsigned i;

    for (i = 0; i < NA_LIVE_MAX; i++, place++) {
        _Atomic uintptr_t *at = &na_live_table[place % NA_LIVE_MAX];

        if (HG_LIKELY(atomic_load_explicit(at, memory_order_acquire) == entry))
            return at;
    }
    return NULL;
}

HG_PRIVATE na_return_t na_live_add(enum na_live_kind kind, const void *object)
{
    _Atomic uintptr_t *at;

    HG_ASSERT(object != NULL);
    (void) pthread_once(&na_live_once, na_live_begin);
    while ((at = na_live_find(object, NA_LIVE_FREE)) != NULL) {
        uintptr_t none = NA_LIVE_FREE;

        if (atomic_compare_exchange_strong(
                at, &none, na_live_entry_of(kind, object)))
            return NA_SUCCESS;
    }
    hg_log_error(
        "cls", "no more than %d classes and contexts can be open", NA_LIVE_MAX);
    return NA_AGAIN;
}

HG_PRIVATE bool na_live_remove(enum na_live_kind kind, const void *object)
{
    uintptr_t entry = na_live_entry_of(kind, object);
    _Atomic uintptr_t *at = na_live_find(object, entry);

    return at != NULL &&
        atomic_compare_exchange_strong(at, &entry, NA_LIVE_FREE);
}

HG_PRIVATE bool na_live_has(enum na_live_kind kind, const void *object)
{
    /* A pointer read from freed memory may have any value. */
    return ((uintptr_t) object & NA_LIVE_KIND) == 0 &&
        na_live_find(object, na_live_entry_of(kind, object)) != NULL;
}

/* ---- What public functions begin with ---- */

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
