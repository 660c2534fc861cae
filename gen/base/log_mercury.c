/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_mercury: the log's controls as Mercury has them.
 *
 * Mercury knows levels and subsystems by other words, one stream for each
 * level, and a function that prints as fprintf does. Words are translated;
 * streams and function become a sink of the log, which is set as soon as there
 * is one and taken back with the last.
 *
 * Locking: the log's lock guards streams and function; it is not held while a
 * line is printed.
 */
#include "base/log.h"

typedef int hg_log_mercury_func_t(FILE *stream, const char *format, ...);

static hg_log_mercury_func_t *hg_log_mercury_func; /* guard: the log's lock */
static FILE *hg_log_mercury_streams[HG_LOG_LEVEL_DEBUG + 1]; /* likewise */

/* ---- Levels ---- */

/* The log's word for a level of Mercury's; NULL: there is none. */
static const char *hg_log_mercury_level(const char *name)
{
    static const char *const words[][2] = {{"none", "none"}, {"fatal", "error"},
        {"ftl", "error"}, {"error", "error"}, {"err", "error"},
        {"warning", "warning"}, {"warn", "warning"}, {"min_debug", "info"},
        {"trace", "info"}, {"info", "info"}, {"inf", "info"},
        {"debug", "debug"}, {"dbg", "debug"}};
    size_t i;

    if (name == NULL)
        return "none";
    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(name, words[i][0]) == 0)
            return words[i][1];
    }
    return NULL;
}

HG_EXPORT void HG_Set_log_level2(const char *level)
{
    const char *word = hg_log_mercury_level(level);

    /* What is unknown to both is told by the log. */
    (void) HG_Set_log_level(word != NULL ? word : level);
}

/* ---- Subsystems ---- */

/* Whether the word of `size` bytes is in `list`, a space behind each. */
static bool hg_log_mercury_among(
    const char *list, const char *word, size_t size)
{
    while (*list != '\0') {
        size_t length = strcspn(list, " ");

        if (length == size && memcmp(list, word, size) == 0)
            return true;
        list += length + 1;
    }
    return false;
}

/* Append a word, with its ~, to a list of `room` bytes, as far as it fits. */
static void hg_log_mercury_append(
    char *list, size_t room, bool negated, const char *word, size_t size)
{
    size_t used = strlen(list);
    int n = snprintf(list + used, room - used, "%s%s%.*s", used > 0 ? "," : "",
        negated ? "~" : "", (int) size, word);

    if (n < 0 || (size_t) n >= room - used)
        list[used] = '\0';
}

/* What the words of `subsys` are for the log: those that name all of it make
 * every other that is switched on superfluous. */
static void hg_log_mercury_translate(
    const char *subsys, char *list, size_t room)
{
    static const char all[] = "hg na hg_all na_all all hg_util util ";
    static const char absent[] =
        "poll poll_loop perf diag rpc_ref ip libfabric ucx event fatal ";
    bool everything = false;
    int pass;

    list[0] = '\0';
    for (pass = 0; pass < 2; pass++) {
        const char *at = subsys;

        while (*at != '\0') {
            bool negated;
            size_t size;

            at += strspn(at, " ,");
            negated = *at == '~';
            at += negated ? 1 : 0;
            size = strcspn(at, " ,");
            if (pass == 0)
                everything |= !negated && hg_log_mercury_among(all, at, size);
            else if (size > 0 && (negated || !everything) &&
                !hg_log_mercury_among(all, at, size) &&
                !hg_log_mercury_among(absent, at, size))
                hg_log_mercury_append(list, room, negated, at, size);
            at += size;
        }
    }
}

HG_EXPORT void HG_Set_log_subsys2(const char *subsys)
{
    char list[256];

    hg_log_mercury_translate(subsys != NULL ? subsys : "", list, sizeof(list));
    (void) HG_Set_log_subsys(list);
}

/* ---- Lines ---- */

static void hg_log_mercury_sink(
    int level, const char *subsys, const char *line, void *arg)
{
    static const char *const names[] = {
        "none", "error", "warning", "info", "debug"};
    hg_log_mercury_func_t *func;
    FILE *stream;

    (void) arg;
    assert(level >= HG_LOG_LEVEL_ERROR && level <= HG_LOG_LEVEL_DEBUG);
    hg_log_lock();
    func = hg_log_mercury_func;
    stream = hg_log_mercury_streams[level];
    hg_log_unlock();
    if (func == NULL)
        func = fprintf;
    if (stream == NULL)
        stream = stderr;
    (void) func(stream, "hg: %s: %s: %s\n", names[level], subsys, line);
}

/* Set the sink, or remove it if nothing needs it. The lock is held. */
static void hg_log_mercury_install(void)
{
    bool wanted = hg_log_mercury_func != NULL;
    int level;

    for (level = HG_LOG_LEVEL_ERROR; level <= HG_LOG_LEVEL_DEBUG; level++)
        wanted |= hg_log_mercury_streams[level] != NULL;
    hg_log_set_func(wanted ? hg_log_mercury_sink : NULL, NULL);
}

HG_EXPORT void HG_Set_log_func2(
    int (*log_func)(FILE *stream, const char *format, ...))
{
    hg_log_lock();
    hg_log_mercury_func = log_func;
    hg_log_mercury_install();
    hg_log_unlock();
}

HG_EXPORT void HG_Set_log_stream(const char *level, FILE *stream)
{
    const char *word = hg_log_mercury_level(level);

    if (word == NULL || strcmp(word, "none") == 0) {
        hg_log_error("log", "HG_Set_log_stream: no level \"%s\" has a stream",
            level != NULL ? level : "(null)");
        return;
    }
    hg_log_lock();
    if (strcmp(word, "error") == 0) {
        hg_log_mercury_streams[HG_LOG_LEVEL_ERROR] = stream;
    } else if (strcmp(word, "warning") == 0) {
        hg_log_mercury_streams[HG_LOG_LEVEL_WARNING] = stream;
    } else {
        hg_log_mercury_streams[HG_LOG_LEVEL_INFO] = stream;
        hg_log_mercury_streams[HG_LOG_LEVEL_DEBUG] = stream;
    }
    hg_log_mercury_install();
    hg_log_unlock();
}
