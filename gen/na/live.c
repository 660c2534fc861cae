/* SPDX-License-Identifier: BSD-3-Clause */
/* live: see live.h. */
#include "na/live.h"

#include "base/lock.h"
#include "base/log.h"

static pthread_mutex_t na_live_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct na_class *) na_live_classes[NA_LIVE_CLASSES];
static _Atomic unsigned na_live_high; /* no entry from here on was ever used */

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
    unsigned high = atomic_load(&na_live_high);
    unsigned i;

    for (i = 0; i < high; i++) {
        struct na_class *na_class = atomic_load(&na_live_classes[i]);

        if (na_class != NULL)
            atomic_store(&na_class_core_of(na_class)->forked, true);
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

/* ---- Classes ---- */

/* The entry of a class; NULL. Exact under the lock, and for who knows that the
 * class is neither opened nor closed meanwhile. */
static _Atomic(struct na_class *) *na_live_find(const struct na_class *na_class)
{
    unsigned high = atomic_load_explicit(&na_live_high, memory_order_acquire);
    unsigned i;

    for (i = 0; i < high; i++) {
        if (atomic_load_explicit(&na_live_classes[i], memory_order_acquire) ==
            na_class)
            return &na_live_classes[i];
    }
    return NULL;
}

HG_PRIVATE na_return_t na_live_add(struct na_class *na_class)
{
    unsigned i = 0;

    (void) pthread_once(&na_live_once, na_live_begin);
    hg_lock(&na_live_lock);
    while (i < NA_LIVE_CLASSES && atomic_load(&na_live_classes[i]) != NULL)
        i++;
    if (i < NA_LIVE_CLASSES) {
        atomic_store(&na_live_classes[i], na_class);
        if (i >= atomic_load(&na_live_high))
            atomic_store(&na_live_high, i + 1);
    }
    hg_unlock(&na_live_lock);
    if (i < NA_LIVE_CLASSES)
        return NA_SUCCESS;
    hg_log_error("cls", "no more than %d classes can be open", NA_LIVE_CLASSES);
    return NA_AGAIN;
}

HG_PRIVATE bool na_live_hold(struct na_class *na_class)
{
    bool live;

    hg_lock(&na_live_lock);
    live = na_class != NULL && na_live_find(na_class) != NULL &&
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
    _Atomic(struct na_class *) *entry = NULL;
    na_return_t ret = NA_SUCCESS;

    hg_lock(&na_live_lock);
    if (na_class != NULL)
        entry = na_live_find(na_class);
    if (entry == NULL)
        ret = NA_INVALID_ARG;
    else if (na_class_is_forked(na_class))
        ret = NA_FAULT;
    else if (na_class_core_of(na_class)->layers > 0)
        ret = NA_EXIST;
    else if (na_live_contexts(na_class) > 0)
        ret = NA_BUSY;
    else
        atomic_store(entry, NULL);
    hg_unlock(&na_live_lock);
    return ret;
}

HG_PRIVATE na_return_t na_live_check(
    const struct na_class *na_class, const char *function)
{
    if (HG_LIKELY(na_class != NULL && na_live_find(na_class) != NULL))
        return na_class_is_forked(na_class)
            ? na_live_refuse_forked(na_class, function)
            : NA_SUCCESS;
    hg_log_error("cls", "%s: %s", function,
        na_class == NULL ? "the class is NULL" : "no such class is open");
    return NA_INVALID_ARG;
}

/* ---- Contexts ---- */

HG_PRIVATE unsigned na_live_contexts(struct na_class *na_class)
{
    struct na_class_core *core = na_class_core_of(na_class);
    unsigned n = 0;
    unsigned i;

    hg_lock(&core->context_lock);
    for (i = 0; i < core->context_high; i++)
        n += core->contexts[i] != NULL && !core->contexts[i]->own;
    hg_unlock(&core->context_lock);
    return n;
}

HG_PRIVATE na_return_t na_live_check_context(const struct na_class *na_class,
    const struct na_context *context, const char *function)
{
    na_return_t ret = na_live_check(na_class, function);
    struct na_class_core *core;
    unsigned high;
    unsigned i;

    if (ret != NA_SUCCESS)
        return ret;
    if (context != NULL) {
        core = na_class_core_of(na_class);
        high = atomic_load_explicit(&core->context_high, memory_order_acquire);
        for (i = 0; i < high; i++) {
            if (atomic_load_explicit(&core->contexts[i],
                    memory_order_acquire) == na_context_core_of(context))
                return NA_SUCCESS;
        }
    }
    hg_log_error("ctx", "%s: %s", function,
        context == NULL ? "the context is NULL"
                        : "the class has no such context");
    return NA_INVALID_ARG;
}
