/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log outlets of a program. The functions here that set the level, the print
 * function and the streams also set them for the library's log. Subsystems are
 * separate: hg_log_set_subsys lists outlets, HG_Set_log_subsys subsystems of
 * the library. Both logs read HG_LOG_LEVEL and HG_LOG_SUBSYS.
 *
 * A listed outlet writes lines up to the level, an unlisted one behaves as its
 * parent, and "~name" silences one. By default only "hg_all" is listed, which
 * is the parent of the outlets that HG_LOG_DECL_REGISTER makes, and the level
 * is fatal.
 */
#ifndef HG_COMPAT_MERCURY_LOG_H
#define HG_COMPAT_MERCURY_LOG_H

#include "mercury_config.h"
#include "mercury_dlog.h"
#include "mercury_queue.h"
#include "mercury_time.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HG_UTIL_CAT(x, y) x##y
#define HG_UTIL_CATU(x, y) x##_##y
#define HG_UTIL_STRINGIFY(x) #x
#define HG_UTIL_CONSTRUCTOR HG_ATTR_CONSTRUCTOR
#define HG_UTIL_DESTRUCTOR HG_ATTR_DESTRUCTOR

enum hg_log_level {
    HG_LOG_LEVEL_NONE,
    HG_LOG_LEVEL_FATAL,
    HG_LOG_LEVEL_ERROR,
    HG_LOG_LEVEL_WARNING,
    HG_LOG_LEVEL_MIN_DEBUG,
    HG_LOG_LEVEL_INFO,
    HG_LOG_LEVEL_DEBUG,
    HG_LOG_LEVEL_MAX
};

/* Like its parent, never, always. */
enum hg_log_state { HG_LOG_PASS, HG_LOG_OFF, HG_LOG_ON };

struct hg_log_outlet {
    const char *name;
    enum hg_log_state state;
    enum hg_log_level level;
    struct hg_log_outlet *parent; /* or NULL */
    struct hg_dlog *debug_log;    /* unused */
    bool registered;
    struct hg_log_outlet *next;
};

typedef int (*hg_log_func_t)(FILE *stream, const char *format, ...);

/* ---- Declaring outlets ---- */

#define HG_LOG_OUTLET_ROOT_NAME hg_all
#define HG_LOG_OUTLET(name) HG_UTIL_CATU(name, log_outlet_g)
#define HG_LOG_OUTLET_DECL(name) struct hg_log_outlet HG_LOG_OUTLET(name)
#define HG_LOG_OUTLET_SUBSYS_DECL(name, parent_name) \
    struct hg_log_outlet HG_LOG_OUTLET(HG_UTIL_CATU(parent_name, name))
#define HG_LOG_OUTLET_INITIALIZER(name, state, parent, debug_log) \
    { \
        HG_UTIL_STRINGIFY(name), state, HG_LOG_LEVEL_NONE, parent, debug_log, \
            false, NULL \
    }
#define HG_LOG_OUTLET_SUBSYS_STATE_INITIALIZER(name, parent_name, state) \
    HG_LOG_OUTLET_INITIALIZER(name, state, &HG_LOG_OUTLET(parent_name), NULL)
#define HG_LOG_OUTLET_SUBSYS_INITIALIZER(name, parent_name) \
    HG_LOG_OUTLET_SUBSYS_STATE_INITIALIZER(name, parent_name, HG_LOG_PASS)

/* The prototype at the end needs the semicolon. */
#define HG_LOG_REGISTER(name) \
    static void HG_UTIL_CATU(hg_log_outlet_reg, name)(void) \
        HG_ATTR_CONSTRUCTOR; \
    static void HG_UTIL_CATU(hg_log_outlet_reg, name)(void) \
    { \
        hg_log_outlet_register(&HG_LOG_OUTLET(name)); \
    } \
    static void HG_UTIL_CATU(hg_log_outlet_dereg, name)(void) \
        HG_ATTR_DESTRUCTOR; \
    static void HG_UTIL_CATU(hg_log_outlet_dereg, name)(void) \
    { \
        hg_log_outlet_deregister(&HG_LOG_OUTLET(name)); \
    } \
    void hg_log_outlet_##name##_unused(void)
#define HG_LOG_REGISTER_EXPANDED(name) HG_LOG_REGISTER(name)
#define HG_LOG_SUBSYS_REGISTER(name, parent_name) \
    HG_LOG_REGISTER_EXPANDED(HG_UTIL_CATU(parent_name, name))
#define HG_LOG_DECL_REGISTER(name) \
    HG_LOG_OUTLET_DECL(name) = \
        HG_LOG_OUTLET_SUBSYS_INITIALIZER(name, HG_LOG_OUTLET_ROOT_NAME); \
    HG_LOG_REGISTER(name)
#define HG_LOG_SUBSYS_DECL_STATE_REGISTER(name, parent_name, state) \
    HG_LOG_OUTLET_SUBSYS_DECL(name, parent_name) = \
        HG_LOG_OUTLET_SUBSYS_STATE_INITIALIZER(name, parent_name, state); \
    HG_LOG_SUBSYS_REGISTER(name, parent_name)
#define HG_LOG_SUBSYS_DECL_REGISTER(name, parent_name) \
    HG_LOG_SUBSYS_DECL_STATE_REGISTER(name, parent_name, HG_LOG_PASS)

/* ---- Writing ---- */

#define HG_LOG_WRITE_FUNC( \
    name, log_level, module, file, line, func, no_return, ...) \
    do { \
        if (HG_LOG_OUTLET(name).level >= (log_level)) \
            hg_log_write(&HG_LOG_OUTLET(name), log_level, module, file, line, \
                func, no_return, __VA_ARGS__); \
    } while (0)
#define HG_LOG_VWRITE_FUNC( \
    name, log_level, module, file, line, func, no_return, message, ap) \
    do { \
        if (HG_LOG_OUTLET(name).level >= (log_level)) \
            hg_log_vwrite(&HG_LOG_OUTLET(name), log_level, module, file, line, \
                func, no_return, message, ap); \
    } while (0)
#define HG_LOG_WRITE(name, log_level, ...) \
    HG_LOG_WRITE_FUNC(name, log_level, NULL, __FILE__, __LINE__, __func__, \
        false, __VA_ARGS__)
#define HG_LOG_SUBSYS_WRITE(name, parent_name, log_level, ...) \
    HG_LOG_WRITE_FUNC(HG_UTIL_CATU(parent_name, name), log_level, NULL, \
        __FILE__, __LINE__, __func__, false, __VA_ARGS__)

/* ---- State ---- */

#ifdef __cplusplus
extern "C" {
#endif

/* One for the whole program and all its libraries: weak. */
struct hg_log_all {
    bool ready;
    enum hg_log_level level;
    char subsys[512]; /* names with a comma before and behind each */
    struct hg_log_outlet *outlets;
    hg_log_func_t func; /* NULL: fprintf */
    FILE *streams[HG_LOG_LEVEL_MAX];
};
extern struct hg_log_all hg_log_all_g;
__attribute__((weak)) struct hg_log_all hg_log_all_g = {false,
    HG_LOG_LEVEL_NONE, "", NULL, NULL,
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL}};

extern HG_LOG_OUTLET_DECL(HG_LOG_OUTLET_ROOT_NAME);
__attribute__((weak)) HG_LOG_OUTLET_DECL(HG_LOG_OUTLET_ROOT_NAME) = {
    "hg_all", HG_LOG_OFF, HG_LOG_LEVEL_NONE, NULL, NULL, false, NULL};

static HG_UTIL_INLINE const char *hg_log_level_to_string(
    enum hg_log_level level)
{
    static const char *const names[] = {
        "", "fatal", "error", "warning", "min_debug", "info", "debug", ""};

    return names[level];
}

/* HG_LOG_LEVEL_NONE: unknown name. */
static HG_UTIL_INLINE enum hg_log_level hg_log_name_to_level(const char *name)
{
    int i;

    for (i = HG_LOG_LEVEL_FATAL; name != NULL && i < HG_LOG_LEVEL_MAX; i++)
        if (strcasecmp(name, hg_log_level_to_string((enum hg_log_level) i)) ==
            0)
            return (enum hg_log_level) i;
    return HG_LOG_LEVEL_NONE;
}

/* Whether "name", or "~name" with a mark of '~', is listed. */
static HG_UTIL_INLINE bool hg_log_listed(const char *mark, const char *name)
{
    char item[128];

    (void) snprintf(item, sizeof(item), ",%s%s,", mark, name);
    return strstr(hg_log_all_g.subsys, item) != NULL;
}

static HG_UTIL_INLINE void hg_log_update(struct hg_log_outlet *outlet)
{
    outlet->level = HG_LOG_LEVEL_NONE;
    if (hg_log_listed("~", outlet->name))
        return;
    if (outlet->state == HG_LOG_ON || hg_log_listed("", outlet->name))
        outlet->level = hg_log_all_g.level;
    else if (outlet->state == HG_LOG_PASS && outlet->parent != NULL)
        outlet->level = outlet->parent->level;
}

/* Parents were registered before their children, at the list's end. */
static HG_UTIL_INLINE void hg_log_update_all(void)
{
    struct hg_log_outlet *outlet;

    for (outlet = hg_log_all_g.outlets; outlet != NULL; outlet = outlet->next)
        hg_log_update(outlet);
}

static HG_UTIL_INLINE void hg_log_init(void)
{
    const char *level = getenv("HG_LOG_LEVEL");
    const char *subsys = getenv("HG_LOG_SUBSYS");

    if (hg_log_all_g.ready)
        return;
    hg_log_all_g.ready = true;
    hg_log_all_g.level = hg_log_name_to_level(level ? level : "fatal");
    (void) snprintf(hg_log_all_g.subsys, sizeof(hg_log_all_g.subsys), ",%s,",
        subsys ? subsys : "hg_all");
}

static HG_UTIL_INLINE void hg_log_outlet_register(struct hg_log_outlet *outlet)
{
    struct hg_log_outlet **end = &hg_log_all_g.outlets;

    hg_log_init();
    if (outlet->registered)
        return;
    if (outlet->parent != NULL)
        hg_log_outlet_register(outlet->parent);
    while (*end != NULL)
        end = &(*end)->next;
    *end = outlet;
    outlet->next = NULL;
    outlet->registered = true;
    hg_log_update(outlet);
}

static HG_UTIL_INLINE void hg_log_outlet_deregister(
    struct hg_log_outlet *outlet)
{
    struct hg_log_outlet **at = &hg_log_all_g.outlets;

    while (*at != NULL && *at != outlet)
        at = &(*at)->next;
    if (*at != NULL)
        *at = outlet->next;
    outlet->registered = false;
}

static HG_UTIL_INLINE void hg_log_set_level(enum hg_log_level log_level)
{
    hg_log_init();
    hg_log_all_g.level = log_level;
    HG_Set_log_level(log_level == HG_LOG_LEVEL_NONE
            ? "none"
            : hg_log_level_to_string(log_level));
    hg_log_update_all();
}

static HG_UTIL_INLINE enum hg_log_level hg_log_get_level(void)
{
    hg_log_init();
    return hg_log_all_g.level;
}

/* Names separated by commas. */
static HG_UTIL_INLINE void hg_log_set_subsys(const char *log_subsys)
{
    hg_log_init();
    (void) snprintf(
        hg_log_all_g.subsys, sizeof(hg_log_all_g.subsys), ",%s,", log_subsys);
    hg_log_update_all();
}

/* Valid in this thread until its next call. */
static HG_UTIL_INLINE const char *hg_log_get_subsys(void)
{
    static __thread char text[sizeof(hg_log_all_g.subsys)];

    hg_log_init();
    (void) snprintf(text, sizeof(text), "%.*s",
        (int) strlen(hg_log_all_g.subsys) - 2, hg_log_all_g.subsys + 1);
    return text;
}

/* Set the level, and list one more subsystem. */
static HG_UTIL_INLINE void hg_log_set_subsys_level(
    const char *subsys, enum hg_log_level log_level)
{
    size_t used;

    hg_log_set_level(log_level);
    used = strlen(hg_log_all_g.subsys);
    if (!hg_log_listed("", subsys) &&
        used + strlen(subsys) + 1 < sizeof(hg_log_all_g.subsys))
        (void) snprintf(hg_log_all_g.subsys + used,
            sizeof(hg_log_all_g.subsys) - used, "%s,", subsys);
    hg_log_update_all();
}

static HG_UTIL_INLINE void hg_log_set_func(hg_log_func_t log_func)
{
    hg_log_all_g.func = log_func;
    HG_Set_log_func(log_func);
}

static HG_UTIL_INLINE hg_log_func_t hg_log_get_func(void)
{
    return hg_log_all_g.func != NULL ? hg_log_all_g.func : fprintf;
}

/* stderr for errors, stdout for the rest, unless it was set. */
static HG_UTIL_INLINE FILE *hg_log_stream(enum hg_log_level level)
{
    if (hg_log_all_g.streams[level] != NULL)
        return hg_log_all_g.streams[level];
    return level > HG_LOG_LEVEL_ERROR ? stdout : stderr;
}

static HG_UTIL_INLINE void hg_log_set_stream_error(FILE *stream)
{
    hg_log_all_g.streams[HG_LOG_LEVEL_ERROR] = stream;
    HG_Set_log_stream("error", stream);
}
static HG_UTIL_INLINE FILE *hg_log_get_stream_error(void)
{
    return hg_log_stream(HG_LOG_LEVEL_ERROR);
}
static HG_UTIL_INLINE void hg_log_set_stream_warning(FILE *stream)
{
    hg_log_all_g.streams[HG_LOG_LEVEL_WARNING] = stream;
    HG_Set_log_stream("warning", stream);
}
static HG_UTIL_INLINE FILE *hg_log_get_stream_warning(void)
{
    return hg_log_stream(HG_LOG_LEVEL_WARNING);
}
static HG_UTIL_INLINE void hg_log_set_stream_debug(FILE *stream)
{
    hg_log_all_g.streams[HG_LOG_LEVEL_DEBUG] = stream;
    HG_Set_log_stream("debug", stream);
}
static HG_UTIL_INLINE FILE *hg_log_get_stream_debug(void)
{
    return hg_log_stream(HG_LOG_LEVEL_DEBUG);
}

/* Write one line, regardless of the outlet's level. no_return: without its
 * newline. */
static HG_UTIL_INLINE void hg_log_vwrite(struct hg_log_outlet *outlet,
    enum hg_log_level log_level, const char *module, const char *file,
    unsigned int line, const char *func, bool no_return, const char *format,
    va_list ap) HG_UTIL_PRINTF(8, 0);
static HG_UTIL_INLINE void hg_log_vwrite(struct hg_log_outlet *outlet,
    enum hg_log_level log_level, const char *module, const char *file,
    unsigned int line, const char *func, bool no_return, const char *format,
    va_list ap)
{
    char text[1024];
    hg_time_t now;

    if (log_level <= HG_LOG_LEVEL_NONE || log_level >= HG_LOG_LEVEL_MAX)
        return;
    (void) vsnprintf(text, sizeof(text), format, ap);
    (void) hg_time_get_current(&now);
    (void) hg_log_get_func()(hg_log_stream(log_level),
        "[%.6f] %s %s: %s%s%s:%u %s(): %s%s", hg_time_to_double(now),
        outlet->name, hg_log_level_to_string(log_level), module ? module : "",
        module ? ":" : "", file, line, func, text, no_return ? "" : "\n");
}

static HG_UTIL_INLINE void hg_log_write(struct hg_log_outlet *outlet,
    enum hg_log_level log_level, const char *module, const char *file,
    unsigned int line, const char *func, bool no_return, const char *format,
    ...) HG_UTIL_PRINTF(8, 9);
static HG_UTIL_INLINE void hg_log_write(struct hg_log_outlet *outlet,
    enum hg_log_level log_level, const char *module, const char *file,
    unsigned int line, const char *func, bool no_return, const char *format,
    ...)
{
    va_list ap;

    va_start(ap, format);
    hg_log_vwrite(
        outlet, log_level, module, file, line, func, no_return, format, ap);
    va_end(ap);
}

void hg_log_dump_counters(struct hg_log_outlet *outlet)
    HG_ATTR_MISSING("hg has no hg_dlog");

#ifdef __cplusplus
}
#endif

#endif
