/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_mercury: the log's controls as Mercury has them.
 *
 * Mercury has one stream for each level, and a function that prints as fprintf
 * does. Streams and function become a sink of the log, which is set with the
 * first and removed with the last. The log itself translates Mercury's words
 * for levels and subsystems, because the environment may hold them, too.
 *
 * Locking: the log's lock guards streams and function; it is not held while a
 * line is printed.
 */
#include "base/log.h"

typedef int hg_log_mercury_func_t(FILE *stream, const char *format, ...);

static hg_log_mercury_func_t *hg_log_mercury_func; /* guard: the log's lock */
static FILE *hg_log_mercury_streams[HG_LOG_LEVEL_DEBUG + 1]; /* likewise */

/* ---- Levels and subsystems ---- */

HG_EXPORT void HG_Set_log_level2(const char *level)
{
    const char *word = hg_log_word_of(level);

    /* HG_Set_log_level logs a word that neither knows. */
    (void) HG_Set_log_level(word != NULL ? word : level);
}

HG_EXPORT void HG_Set_log_subsys2(const char *subsys)
{
    char list[HG_LOG_FILTER_MAX];

    hg_log_translate(subsys != NULL ? subsys : "", list, sizeof(list));
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
    const char *word = hg_log_word_of(level);

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
