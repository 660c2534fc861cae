/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log: one line for each error, logged where it is first detected.
 *
 * A line has a level and a subsystem ("cls", "addr", "msg", "rma", "rpc",
 * "bulk", "proc", "zmq", ...). By default only errors are logged. HG_LOG_LEVEL
 * and HG_LOG_SUBSYS in the environment are read once, at the first line or the
 * first setter. A disabled level costs one relaxed load: nothing is formatted,
 * and the arguments of the macros below are not evaluated. Errors are always
 * formatted, because HG_Get_last_error_text() needs them at any level. Lines,
 * of at most 1,000 bytes, go to stderr or to the sink of HG_Set_log_func.
 *
 * Levels: an error is something that this process did wrong or can no longer
 * do. Lines that a peer causes are at most warnings, and are counted.
 *
 * Rate: each format string writes its 1st, 2nd, 4th, 8th ... line, with the
 * count, and of errors also the first 64. Statements that share a format string
 * share its count. At level debug, and with hg_log_misuse, every line is
 * written. Callers need no limit of their own.
 *
 * Locking: levels are atomic. The sink and the subsystem filter have a private
 * mutex, which is not held while the sink runs. It is the innermost lock.
 */
#ifndef HG_GEN_BASE_LOG_H
#define HG_GEN_BASE_LOG_H

#include "base/os.h"

/* Whether a line of this level may be written; cheap, no lock. */
HG_COLD HG_PRIVATE bool hg_log_on(int level);

/* Format and deliver one line (no newline at its end). errno is kept. */
HG_COLD HG_PRIVATE void hg_log_line(int level, const char *subsys,
    const char *format, ...) HG_PRINTF_LIKE(3, 4);

/* Deliver a line regardless of level and filter. */
HG_COLD HG_PRIVATE void hg_log_emit_line(int level, const char *subsys,
    const char *format, ...) HG_PRINTF_LIKE(3, 4);

/* Log wrong use of `function` by the application, as an error without a rate
 * limit. Returns HG_INVALID_ARG. */
HG_COLD HG_PRIVATE hg_return_t hg_log_misuse(
    const char *subsys, const char *function, const char *what);

/* hg_log_line with a va_list, for the plugins' core table. */
HG_PRIVATE void hg_log_vline(
    int level, const char *subsys, const char *format, va_list args);

/* How many lines of this level, which is enabled, or of a more severe one this
 * thread has started, written or not. */
HG_PRIVATE unsigned hg_log_begun(int level);

/* Log, as an error, why the system did not provide a descriptor or other
 * resource for `what`, from errno. HG_AGAIN, with the name of the limit: the
 * limit of descriptors is reached; HG_NOMEM; HG_IO_ERROR. */
HG_PRIVATE hg_return_t hg_log_no_fd(const char *subsys, const char *what);

/* Occupy the free ones of the descriptors 0 to 2, so that none of the library
 * is stderr, which the log and others write to. Called before anything opens.
 * Logged; codes as above. */
HG_PRIVATE hg_return_t hg_log_occupy_fds(void);

/* pthread_atfork for handlers that take locks that may be held while logging:
 * fork takes these before the log's own. */
HG_PRIVATE void hg_log_atfork(
    void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* Set or clear this thread's text of HG_Get_last_error_text(); a long text is
 * truncated. */
HG_COLD HG_PRIVATE void hg_log_keep_text(const char *format, ...)
    HG_PRINTF_LIKE(1, 2);
HG_PRIVATE void hg_log_drop_text(void);

/* Clear the text, and store there what this thread logs as an error from now
 * on, at any log level, after the name of the function. NULL: stop. An error
 * with the same text as the last one that was stored and logged is logged as
 * information, until hg_log_forget_error is called. */
HG_PRIVATE void hg_log_keep_errors(const char *function);
HG_PRIVATE void hg_log_forget_error(void);

/* The last error that this thread has logged, at any level. The size is that of
 * its longest text, and of that of HG_Get_last_error_text(), with the NUL. */
#define HG_LOG_TEXT_MAX 512
HG_PRIVATE const char *hg_log_last_error(void);

/* Store a line that another thread has logged, as hg_log_keep_errors does.
 * Without a function the line alone is stored; "" clears the text. */
HG_PRIVATE void hg_log_adopt_error(const char *line);

#define HG_LOG_AT(level, ...) \
    ((level) == HG_LOG_LEVEL_ERROR || hg_log_on(level) \
            ? hg_log_line((level), __VA_ARGS__) \
            : (void) 0)
#define hg_log_error(...) HG_LOG_AT(HG_LOG_LEVEL_ERROR, __VA_ARGS__)
#define hg_log_warning(...) HG_LOG_AT(HG_LOG_LEVEL_WARNING, __VA_ARGS__)
#define hg_log_info(...) HG_LOG_AT(HG_LOG_LEVEL_INFO, __VA_ARGS__)
#define hg_log_debug(...) HG_LOG_AT(HG_LOG_LEVEL_DEBUG, __VA_ARGS__)

/* Log, and keep the text for HG_Get_last_error_text() at any level. */
#define HG_LOG_EXPLAIN(level, subsys, ...) \
    (hg_log_keep_text(__VA_ARGS__), HG_LOG_AT(level, subsys, __VA_ARGS__))

#endif
