/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * class: opens and closes classes, NA_Initialize to NA_Finalize.
 *
 * Opening a class creates what the other modules need: the transport's table
 * with all slots filled; the options with their defaults and copied strings;
 * the emulation of RMA if the transport has none or the application asks for
 * it; the progress thread. Closing releases in reverse order: the thread, the
 * handles, the transport, the emulation, queued messages, addresses. This
 * module also contains the table of functions that transports call, and the
 * named counters. No other module includes this one.
 *
 * Locking: none of its own; live knows which classes are open. Counters are
 * atomic.
 */
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/addr.h"
#include "na/context.h"
#include "emul/emul.h"
#include "na/live.h"
#include "na/msg.h"
#include "mux/mux.h"
#include "na/op.h"
#include "na/plugins.h"
#include "na/progress.h"
#include "na/rma.h"
#include "na/shared.h"
#include "na/uri.h"

#define NA_CLASS_LINGER_MS 1000
#define NA_CLASS_SPIN_US 200

/* The default maximum size of a message, and the smallest maximum that can be
 * set. */
#define NA_CLASS_MSG_DEFAULT ((size_t) 64 << 10)
#define NA_CLASS_MSG_MIN ((size_t) 512)
#define NA_CLASS_MSG_MAX ((size_t) 16 << 20)

/* ---- What the core offers a transport ---- */

static void na_class_log(int level, const char *subsys, const char *format, ...)
    HG_PRINTF_LIKE(3, 4);

static void na_class_log(int level, const char *subsys, const char *format, ...)
{
    va_list args;

    if (level != HG_LOG_LEVEL_ERROR && !hg_log_on(level))
        return;
    va_start(args, format);
    hg_log_vline(level, subsys, format, args);
    va_end(args);
}

static void na_class_count(
    struct na_class *na_class, const char *name, uint64_t n)
{
    na_counter_add(na_class_counter(na_class_core_of(na_class), name), n);
}

/* core->addr_dead: mark the address as dead, then fail pending operations. */
static void na_class_addr_dead(struct na_addr *addr, na_return_t ret)
{
    struct na_class_core *core = na_class_core_of(addr->na_class);

    if (!na_addr_mark_dead(addr, ret))
        return;
    na_addr_ref(addr);
    na_msg_addr_ended(addr, ret, true, true);
    if (core->emul != NULL)
        na_emul_addr_dead(addr, ret);
    na_addr_unref_locked(addr);
}

static void na_class_addr_parted(struct na_addr *addr)
{
    na_msg_addr_ended(addr, NA_DISCONNECT, false, true);
}

/* core->addr_unreached: no call to the peer was sent; each call ends with its
 * send. */
static void na_class_addr_unreached(struct na_addr *addr, na_return_t ret)
{
    struct na_class_core *core = na_class_core_of(addr->na_class);

    na_msg_addr_ended(addr, ret, true, false);
    if (core->emul != NULL)
        na_emul_addr_dead(addr, ret);
}

static void na_class_enter(struct na_class *na_class)
{
    hg_enter(na_class_core_of(na_class)->lock);
}

static void na_class_leave(struct na_class *na_class)
{
    hg_leave(na_class_core_of(na_class)->lock);
}

static const struct na_core na_class_core_table = {
    sizeof(struct na_core),
    na_op_complete,
    na_op_id_of,
    na_msg_arrived,
    na_emul_frame_arrived,
    na_addr_create,
    na_addr_set_name,
    na_addr_ref,
    na_addr_drop,
    na_class_addr_dead,
    na_addr_is_dead,
    na_progress_wake,
    hg_mem_alloc,
    hg_mem_realloc,
    hg_mem_free,
    na_class_log,
    hg_clock_now,
    hg_clock_random,
    na_class_count,
    na_class_addr_parted,
    na_addr_try_ref,
    na_class_addr_unreached,
    na_emul_frame_place,
    na_emul_frame_unplace,
    na_msg_addr_connected,
    na_msg_last,
    na_class_enter,
    na_class_leave,
};

HG_PRIVATE const char *na_class_counter_at(
    struct na_class *na_class, unsigned number, uint64_t *value_p)
{
    struct na_counter *counter;

    if (number >= NA_CORE_COUNTERS)
        return NULL;
    counter = &na_class_core_of(na_class)->counters[number];
    *value_p = atomic_load(&counter->value);
    return atomic_load(&counter->name);
}

NA_EXPORT uint64_t NA_Get_counter(na_class_t *na_class, const char *name)
{
    struct na_class_core *core;
    unsigned i;

    if (na_live_check(na_class, "NA_Get_counter") != NA_SUCCESS)
        return 0;
    if (name == NULL) {
        hg_log_error("cls", "NA_Get_counter: the name is NULL");
        return 0;
    }
    core = na_class_core_of(na_class);
    for (i = 0; i < NA_CORE_COUNTERS; i++) {
        const char *there = atomic_load(&core->counters[i].name);

        if (there != NULL && strcmp(there, name) == 0)
            return atomic_load(&core->counters[i].value);
    }
    return 0;
}

/* ---- Options ---- */

/* Replace the strings of the options with copies owned by the class. */
static na_return_t na_class_keep_strings(struct na_class_core *core)
{
    struct na_init_info *info = &core->info;
    const char **const strings[NA_CORE_STRINGS] = {&info->ip_subnet,
        &info->auth_key, &info->curve_secret_key, &info->curve_server_key,
        &info->curve_allow_dir};
    unsigned i;

    for (i = 0; i < NA_CORE_STRINGS; i++) {
        if (*strings[i] == NULL)
            continue;
        core->strings[i] = hg_mem_strdup(*strings[i]);
        if (core->strings[i] == NULL) {
            hg_log_error("cls", "no memory for the option '%s'", *strings[i]);
            return NA_NOMEM;
        }
        *strings[i] = core->strings[i];
    }
    return NA_SUCCESS;
}

static size_t na_class_msg_size(size_t wanted)
{
    if (wanted == 0)
        return NA_CLASS_MSG_DEFAULT;
    if (wanted < NA_CLASS_MSG_MIN)
        return NA_CLASS_MSG_MIN;
    return wanted > NA_CLASS_MSG_MAX ? NA_CLASS_MSG_MAX : wanted;
}

/* Options about access control must not be ignored. */
static na_return_t na_class_check_access(const struct na_class_core *core)
{
    const struct na_init_info *info = &core->info;
    bool key = info->auth_key != NULL && info->auth_key[0] != '\0';
    bool curve = info->curve_secret_key != NULL ||
        info->curve_server_key != NULL || info->curve_allow_dir != NULL;
    const char *option = key && (core->ops.caps & NA_CAP_AUTH_KEY) == 0
        ? "auth_key"
        : curve && (core->ops.caps & NA_CAP_CURVE) == 0 ? "curve_..."
                                                        : NULL;

    if (option == NULL)
        return NA_SUCCESS;
    hg_log_error("cls",
        "the transport %s does not support %s, which must be NULL",
        core->ops.name, option);
    return NA_OPNOTSUPPORT;
}

/* Copy the application's options and fill in the defaults. */
static na_return_t na_class_set_info(
    struct na_class_core *core, const struct na_init_info *given)
{
    struct na_init_info *info = &core->info;

    if (given != NULL) {
        if (given->size < offsetof(struct na_init_info, wait_mode) ||
            given->size > sizeof(*given)) {
            hg_log_error("cls",
                "na_init_info of %zu bytes, not of %zu: start "
                "from NA_INIT_INFO_INITIALIZER",
                given->size, sizeof(*given));
            return NA_INVALID_ARG;
        }
        memcpy(info, given, given->size);
    }
    info->size = sizeof(*info);
    if (na_class_check_access(core) != NA_SUCCESS)
        return NA_OPNOTSUPPORT;
    if (info->wait_mode > NA_WAIT_BLOCK) {
        hg_log_error("cls", "wait_mode %u is unknown", info->wait_mode);
        return NA_INVALID_ARG;
    }
    if ((unsigned) info->addr_format > NA_ADDR_NATIVE) {
        hg_log_error(
            "cls", "addr_format %u is unknown", (unsigned) info->addr_format);
        return NA_INVALID_ARG;
    }
    if (na_class_keep_strings(core) != NA_SUCCESS)
        return NA_NOMEM;
    info->max_unexpected_size = na_class_msg_size(info->max_unexpected_size);
    info->max_expected_size = na_class_msg_size(info->max_expected_size);
    if ((info->progress_mode & NA_NO_BLOCK) != 0)
        info->wait_mode = NA_WAIT_SPIN;
    if (info->spin_us == 0)
        info->spin_us = NA_CLASS_SPIN_US;
    if (info->max_queue_bytes == 0)
        info->max_queue_bytes = (size_t) 64 << 20;
    if (info->lookup_ms == 0)
        info->lookup_ms = 5000;
    if (info->death_ms == 0)
        info->death_ms = 5000;
    if (info->rma_frame_size == 0)
        info->rma_frame_size = (size_t) 1 << 19;
    if (core->ops.max_frame_size != 0 &&
        info->rma_frame_size > core->ops.max_frame_size)
        info->rma_frame_size = (size_t) core->ops.max_frame_size;
    if (info->rma_window == 0)
        info->rma_window = 8 * info->rma_frame_size;
    return NA_SUCCESS;
}

/* ---- Life ---- */

/* Free everything; the transports are closed already. */
static void na_class_delete(struct na_class_core *core)
{
    unsigned i;

    if (core->next != NULL)
        na_class_delete(core->next); /* at most NA_CORE_PARTS deep */
    if (core->emul != NULL)
        na_emul_destroy(core->emul);
    na_msg_inbox_drop(core);
    pthread_mutex_destroy(&core->list_lock);
    hg_monitor_fini(&core->own_lock);
    for (i = 0; i < NA_CORE_STRINGS; i++)
        hg_mem_free(core->strings[i]);
    hg_mem_free(core);
}

/* Create a class of `plugin`, except for the transport. `head`: the first part
 * of the class that it belongs to, or NULL. */
static struct na_class_core *na_class_new(const struct na_plugin *plugin,
    const char *protocol, na_bool_t listen, const struct na_init_info *info,
    struct na_class_core *head)
{
    struct na_class_core *core = (struct na_class_core *) na_core_alloc(
        offsetof(struct na_class_core, pub), sizeof(struct na_class),
        plugin->class_size);
    bool emulate;

    if (core == NULL) {
        hg_log_error("cls", "no memory for a class");
        return NULL;
    }
    if (hg_lock_init(&core->list_lock) != NA_SUCCESS)
        goto free_core;
    if (hg_monitor_init(&core->own_lock) != NA_SUCCESS)
        goto destroy_lock;
    na_plugins_fill(plugin, &core->ops);
    core->due = HG_CLOCK_NEVER;
    hg_list_init(&core->addrs);
    hg_list_init(&core->mems);
    hg_list_init(&core->blocks);
    hg_list_init(&core->maps);
    na_msg_inbox_init(&core->inbox);
    core->head = head != NULL ? head : core;
    core->lock = head != NULL ? head->lock : &core->own_lock;
    core->pub.core = &na_class_core_table;
    core->pub.info = &core->info;
    if (strcmp(plugin->name, protocol) != 0)
        (void) snprintf(core->tag, sizeof(core->tag), "%.31s+", plugin->name);
    core->pub.protocol = core->tag + strlen(core->tag);
    memcpy(core->tag + strlen(core->tag), protocol, strlen(protocol) + 1);
    core->pub.listen = listen != NA_FALSE ? NA_TRUE : NA_FALSE;
    core->pub.incarnation = hg_clock_random();
    if (core->pub.incarnation == 0 ||
        na_class_set_info(core, info) != NA_SUCCESS)
        goto delete_core;
    emulate = core->info.force_rma_emulation || core->ops.put == NULL;
    if (emulate)
        na_plugins_emulate(&core->ops);
    if (emulate || (core->ops.caps & NA_CAP_HANDS_OVER) != 0) {
        core->emul = na_emul_create(&core->pub);
        if (core->emul == NULL)
            goto delete_core;
    }
    return core;

delete_core:
    na_class_delete(core);
    return NULL;
destroy_lock:
    pthread_mutex_destroy(&core->list_lock);
free_core:
    hg_mem_free(core);
    return NULL;
}

/* The optional progress thread: it serves RMA of peers while the application
 * computes, and receives messages for its contexts. */
static void *na_class_thread(void *arg)
{
    struct na_class_core *core = (struct na_class_core *) arg;

    hg_enter(core->lock);
    while (!core->thread_stop)
        (void) na_progress(
            core->thread_context, 0, &core->thread_stop, HG_CLOCK_NEVER);
    hg_leave(core->lock);
    return NULL;
}

static na_return_t na_class_start_thread(struct na_class_core *core)
{
    sigset_t all;
    sigset_t before;
    na_return_t ret;
    int rc;

    if (!core->info.progress_thread)
        return NA_SUCCESS;
    ret =
        na_context_create(&core->pub, NA_CONTEXT_HELPER, &core->thread_context);
    if (ret != NA_SUCCESS)
        return ret;
    /* Only the application's threads handle signals. */
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&core->thread, NULL, na_class_thread, core);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        hg_log_error("cls", "no progress thread: %s", strerror(rc));
        (void) na_context_destroy(core->thread_context, NA_CONTEXT_DRAIN_MS);
        return NA_AGAIN;
    }
    core->thread_runs = true;
    return NA_SUCCESS;
}

static void na_class_stop_thread(struct na_class_core *core)
{
    if (!core->thread_runs)
        return;
    hg_enter(core->lock);
    na_queue_raise(
        &na_context_core_of(core->thread_context)->queue, &core->thread_stop);
    hg_leave(core->lock);
    (void) pthread_join(core->thread, NULL);
    core->thread_runs = false;
    (void) na_context_destroy(core->thread_context, NA_CONTEXT_DRAIN_MS);
}

/* Close the transports, the last one first: an sm name that is derived from
 * another address is removed before that address. */
static void na_class_close_parts(struct na_class_core *core)
{
    if (core->next != NULL)
        na_class_close_parts(core->next); /* at most NA_CORE_PARTS deep */
    core->ops.close(&core->pub, NA_CLASS_LINGER_MS);
    if (core->emul != NULL)
        na_emul_destroy(core->emul); /* it holds references to addresses */
    core->emul = NULL;
}

/* Close a class and free it, including what the application leaked. */
static void na_class_end(struct na_class_core *core)
{
    char first[NA_MAX_ADDR_LEN] = "none";
    struct na_class_core *part;
    unsigned addrs = 0;
    unsigned mems, memories;

    na_class_stop_thread(core);
    (void) na_addr_count_given(&core->pub, first, sizeof(first));
    mems = na_rma_release_all(&core->pub);
    memories = na_shared_release_all(&core->pub);
    na_class_close_parts(core);
    na_msg_inbox_drop(core);
    for (part = core; part != NULL; part = part->next) {
        na_addr_unref(part->pub.self_addr);
        addrs += na_addr_release_all(&part->pub);
    }
    if (addrs > 0 || mems > 0)
        hg_log_warning("cls",
            "released what was not freed: addresses %u, memory handles %u "
            "(first address: %s)",
            addrs, mems, first);
    if (memories > 0)
        hg_log_warning("cls",
            "released what was not freed: allocations and mapped pointers %u",
            memories);
    na_class_delete(core);
}

/* ---- Several transports ---- */

/* Open one transport; `head` is the class of the first one, or NULL. Returns
 * NULL on failure, logged. */
static struct na_class_core *na_class_open(const char *info_string,
    na_bool_t listen, const struct na_init_info *info,
    struct na_class_core *head)
{
    const struct na_plugin *plugin;
    struct na_class_core *core;
    struct na_uri uri;
    unsigned begun = hg_log_begun(HG_LOG_LEVEL_ERROR);
    na_return_t ret;

    if (na_uri_parse(info_string, &uri) != NA_SUCCESS)
        return NULL;
    plugin = na_plugins_find(&uri);
    if (plugin == NULL)
        return NULL;
    core = na_class_new(plugin, uri.protocol, listen, info, head);
    if (core == NULL)
        return NULL;
    if (strcmp(uri.plugin, "na") == 0 && strcmp(plugin->name, "sm") == 0)
        memcpy(core->prefix, "na+", sizeof(core->prefix));
    ret = core->ops.open(&core->pub, uri.rest);
    if (ret == NA_SUCCESS) {
        HG_ASSERT(core->pub.self_addr != NULL && core->pub.max_tag != 0);
        return core;
    }
    if (hg_log_begun(HG_LOG_LEVEL_ERROR) ==
        begun) /* unless the transport logged it */
        hg_log_error(
            "cls", "cannot open %s: %s", info_string, NA_Error_to_string(ret));
    na_class_delete(core);
    return NULL;
}

/* Open the next transport of a list. */
static na_return_t na_class_add(struct na_class_core **head_p,
    const char *string, na_bool_t listen, const struct na_init_info *info)
{
    struct na_class_core **end_p = head_p;
    struct na_class_core *part = na_class_open(string, listen, info, *head_p);
    unsigned count = 1;
    bool twice = false;

    if (part == NULL)
        return NA_NODEV;
    for (; *end_p != NULL; end_p = &(*end_p)->next) {
        twice = twice || strcmp(part->tag, (*end_p)->tag) == 0;
        count++;
    }
    *end_p = part;
    if (twice)
        hg_log_error("cls", "%s is in the list twice", part->tag);
    if (count > NA_CORE_PARTS)
        hg_log_error("cls", "a list has %d transports at most", NA_CORE_PARTS);
    return twice || count > NA_CORE_PARTS ? NA_INVALID_ARG : NA_SUCCESS;
}

/* Complete a class of several parts. Its limits are the smallest of all parts.
 * Its address is the list of the parts' addresses, without that of sm if it is
 * derived from the first. */
static na_return_t na_class_join(struct na_class_core *head, bool auto_sm)
{
    char name[NA_CORE_PARTS * (NA_MAX_ADDR_LEN + 4)];
    struct na_class_core *part;
    size_t size = 0;

    for (part = head; part != NULL; part = part->next) {
        struct na_class *pub = &part->pub;

        if (pub->max_unexpected_size < head->pub.max_unexpected_size)
            head->pub.max_unexpected_size = pub->max_unexpected_size;
        if (pub->max_expected_size < head->pub.max_expected_size)
            head->pub.max_expected_size = pub->max_expected_size;
        if (pub->max_tag < head->pub.max_tag)
            head->pub.max_tag = pub->max_tag;
        if (part->ops.max_segments != 0 &&
            (head->ops.max_segments == 0 ||
                part->ops.max_segments < head->ops.max_segments))
            head->ops.max_segments = part->ops.max_segments;
        if (part->ops.op_size > head->ops.op_size)
            head->ops.op_size = part->ops.op_size;
        (void) snprintf(
            part->sent_name, sizeof(part->sent_name), "mux_sent_%s", part->tag);
        (void) snprintf(part->moved_name, sizeof(part->moved_name),
            "mux_moved_%s", part->tag);
        part->sent = na_class_counter(head, part->sent_name);
        part->moved = na_class_counter(head, part->moved_name);
        if (part->next != NULL || !auto_sm)
            size +=
                (size_t) snprintf(name + size, sizeof(name) - size, "%s%s%s",
                    size > 0 ? ";" : "", part->prefix, pub->self_addr->name);
    }
    if (head->ops.op_size < sizeof(struct na_op))
        head->ops.op_size = sizeof(struct na_op);
    if (size < NA_MAX_ADDR_LEN)
        return na_addr_set_label(head->pub.self_addr, name);
    hg_log_error("cls", "the addresses are too long for one string");
    return NA_MSGSIZE;
}

/* Open a list of transports. An sm:// without a name is opened last, because
 * its name is derived from the first address. NULL, logged. */
static struct na_class_core *na_class_open_list(
    const char *list, na_bool_t listen, const struct na_init_info *info)
{
    struct na_class_core *head = NULL;
    char string[NA_MAX_ADDR_LEN];
    na_return_t ret = NA_SUCCESS;
    bool auto_sm = false;

    while (ret == NA_SUCCESS && na_uri_next(&list, string)) {
        if (na_mux_is_auto_sm(string))
            auto_sm = true;
        else
            ret = na_class_add(&head, string, listen, info);
    }
    auto_sm = auto_sm && head != NULL;
    if (ret == NA_SUCCESS && auto_sm) {
        na_mux_auto_sm(listen ? head->pub.self_addr->name : NULL, string);
        ret = na_class_add(&head, string, listen, info);
    }
    if (ret == NA_SUCCESS)
        ret = na_class_join(head, auto_sm);
    if (ret == NA_SUCCESS)
        return head;
    if (head != NULL)
        na_class_end(head);
    return NULL;
}

NA_EXPORT na_class_t *NA_Initialize_opt(
    const char *info_string, na_bool_t listen, const struct na_init_info *info)
{
    struct na_class_core *core;
    struct na_uri uri;

    if (info_string == NULL || info_string[0] == '\0')
        info_string = na_plugins_default();
    if (na_uri_parse(info_string, &uri) != NA_SUCCESS ||
        hg_log_occupy_fds() != HG_SUCCESS)
        return NULL;
    core = na_uri_is_list(info_string)
        ? na_class_open_list(info_string, listen, info)
        : na_class_open(info_string, listen, info, NULL);
    if (core == NULL)
        return NULL;
    if (na_class_start_thread(core) == NA_SUCCESS &&
        na_live_add(NA_LIVE_NA_CLASS, &core->pub) == NA_SUCCESS)
        return &core->pub;
    na_class_end(core);
    return NULL;
}

NA_EXPORT na_class_t *NA_Initialize(const char *info_string, na_bool_t listen)
{
    return NA_Initialize_opt(info_string, listen, NULL);
}

/* The number of contexts that the application created. */
static unsigned na_class_count_contexts(struct na_class_core *core)
{
    unsigned n = 0;
    unsigned i;

    hg_lock(&core->list_lock);
    for (i = 0; i < core->context_high; i++)
        n += core->contexts[i] != NULL && !core->contexts[i]->own;
    hg_unlock(&core->list_lock);
    return n;
}

NA_EXPORT na_return_t NA_Finalize(na_class_t *na_class)
{
    na_return_t ret = na_live_check(na_class, "NA_Finalize");
    struct na_class_core *core;
    unsigned n;

    if (ret != NA_SUCCESS)
        return ret;
    core = na_class_core_of(na_class);
    if (atomic_load(&core->layers) > 0) {
        hg_log_error("cls",
            "NA_Finalize: HG_Finalize (or HG_Bulk_finalize) "
            "has not been called");
        return NA_BUSY;
    }
    n = na_class_count_contexts(core);
    if (n > 0) {
        hg_log_error("cls", "NA_Finalize: %u context%s alive", n,
            n == 1 ? " is" : "s are");
        return NA_BUSY;
    }
    if (!na_live_remove(
            NA_LIVE_NA_CLASS, na_class)) /* another thread closes it */
        return na_live_check(na_class, "NA_Finalize");
    na_class_end(core);
    return NA_SUCCESS;
}

NA_EXPORT const char *NA_Get_class_name(const na_class_t *na_class)
{
    if (na_live_check(na_class, "NA_Get_class_name") != NA_SUCCESS)
        return NULL;
    return na_class_ops(na_class)->name;
}

NA_EXPORT const char *NA_Get_class_protocol(const na_class_t *na_class)
{
    if (na_live_check(na_class, "NA_Get_class_protocol") != NA_SUCCESS)
        return NULL;
    return na_class->protocol;
}

NA_EXPORT na_bool_t NA_Is_listening(const na_class_t *na_class)
{
    if (na_live_check(na_class, "NA_Is_listening") != NA_SUCCESS)
        return NA_FALSE;
    return na_class->listen;
}

NA_EXPORT int NA_Get_ordering(const na_class_t *na_class)
{
    const struct na_class_core *part;

    if (na_live_check(na_class, "NA_Get_ordering") != NA_SUCCESS)
        return 0;
    for (part = na_class_core_of(na_class); part != NULL; part = part->next) {
        if ((part->ops.caps & NA_CAP_ORDERED) == 0)
            return 0;
    }
    return 1;
}
