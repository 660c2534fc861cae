/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log: one line for each error, from whoever saw it first.
 *
 * A line is put together in a buffer on the stack, prefix first, and reaches
 * stderr in a single write(2), so that lines of several threads or processes
 * do not mix; the sink gets the text behind the prefix. Texts may quote what
 * a peer sent: control characters become '?', so that one call is one line.
 *
 * Peers can cause lines. Therefore lines are counted by call site, and most of
 * a flood is left out; and a line is dropped if stderr is a pipe, socket or
 * terminal that takes no more. O_NONBLOCK is not set, since stderr is shared
 * with other processes.
 *
 * Invariants: the environment is read once, before anything else counts; a
 * setter called later wins over it. A write to a closed stderr raises no
 * SIGPIPE, and errno survives.
 *
 * Locking: the level and the counts are atomics; the filter and the sink are
 * guarded by hg_log_mutex, which is not held while a line is written or a sink
 * runs. Other locks may be held when a line is logged, so fork takes
 * hg_log_mutex last: see hg_log_atfork.
 * Allocates nothing, so that running out of memory can be logged.
 *
 * Must not know: who logs, but for the names that a filter may hold.
 */
#include "base/log.h"

/* A whole line: prefix, text and newline. */
#define HG_LOG_LINE_MAX 1000
/* Size of the text of HG_Get_last_error_text, with its terminator. */
#define HG_LOG_TEXT_MAX 512
/* Call sites whose lines are counted apart; a power of two. */
#define HG_LOG_SITES 1024
/* Errors that a call site may log before only doublings are logged. */
#define HG_LOG_ERROR_BURST 64

static const char *const hg_log_level_names[] = {
    "none", "error", "warning", "info", "debug"};

/* The subsystems of hg and its transports. A plugin of the application's may
 * have a name of its own. */
static const char *const hg_log_names[] = {"addr", "bulk", "checksum", "clock",
    "cls", "ctx", "lock", "log", "mem", "msg", "op", "proc", "rma", "rpc", "sm",
    "waker", "zmq", "ofi", "mpi"};

/* A call site is known by its format string. */
struct hg_log_site {
    _Atomic(const char *) format; /* compared, never read */
    atomic_uint count;
};

static pthread_once_t hg_log_once = PTHREAD_ONCE_INIT;
static atomic_int hg_log_level = -1; /* -1: the environment is not read yet */
static pthread_mutex_t hg_log_mutex = PTHREAD_MUTEX_INITIALIZER;
static char hg_log_filter[HG_LOG_FILTER_MAX]; /* guard: hg_log_mutex */
static hg_log_func_t *hg_log_func;            /* guard: hg_log_mutex */
static void *hg_log_func_arg;                 /* guard: hg_log_mutex */
static struct hg_log_site hg_log_sites[HG_LOG_SITES];
static atomic_uint hg_log_lost; /* lines that stderr did not take */
static _Thread_local unsigned hg_log_counts[HG_LOG_LEVEL_DEBUG + 1];
static _Thread_local char hg_log_text[HG_LOG_TEXT_MAX];
static _Thread_local const char *hg_log_keeper; /* see hg_log_keep_errors */

/* ---- The lock ---- */

HG_PRIVATE void hg_log_lock(void)
{
    pthread_mutex_lock(&hg_log_mutex);
}

HG_PRIVATE void hg_log_unlock(void)
{
    pthread_mutex_unlock(&hg_log_mutex);
}

/* ---- Writing a line ---- */

/* Write without blocking; false: stderr did not take the line. */
static bool hg_log_try_write(const char *line, size_t size)
{
    struct pollfd out = {STDERR_FILENO, POLLOUT, 0};
    ssize_t written = -1;

#ifdef RWF_NOWAIT /* pipes and sockets have it, files and terminals do not */
    struct iovec part = {(void *) line, size};

    written = pwritev2(STDERR_FILENO, &part, 1, -1, RWF_NOWAIT);
    if (written >= 0 || errno == EPIPE)
        return true;
#endif
    if (poll(&out, 1, 0) <= 0)
        return false;
    do
        written = write(STDERR_FILENO, line, size);
    while (written < 0 && errno == EINTR);
    return written >= 0 || errno != EAGAIN;
}

/* Write a line, and how many were dropped before it. */
static void hg_log_write_counted(const char *line, size_t size)
{
    unsigned lost =
        atomic_exchange_explicit(&hg_log_lost, 0, memory_order_relaxed);
    char note[100];
    int n;

    if (lost > 0) {
        n = snprintf(note, sizeof(note),
            "hg: warning: log: stderr took no more: %u line%s dropped\n", lost,
            lost == 1 ? " was" : "s were");
        if (hg_log_try_write(note, (size_t) n))
            lost = 0;
    }
    if (lost > 0 || !hg_log_try_write(line, size))
        atomic_fetch_add_explicit(&hg_log_lost, lost + 1, memory_order_relaxed);
}

/* SIGPIPE cannot be turned off for one write(2): it is blocked on this thread
 * meanwhile, and taken away if this write raised it. */
static void hg_log_write(const char *line, size_t size)
{
    static const struct timespec at_once = {0, 0};
    sigset_t pipe_set;
    sigset_t old_set;
    sigset_t pending;

    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    sigemptyset(&pending);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_set, &old_set);
    errno = 0;
    hg_log_write_counted(line, size);
    if (errno == EPIPE && !sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe_set, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &old_set, NULL);
}

/* Format and deliver, whatever the level and the filter say; `count` is shown
 * unless it is 1. */
static void hg_log_emit(int level, const char *subsys, unsigned count,
    const char *format, va_list args)
{
    char line[HG_LOG_LINE_MAX + 1];
    char times[32] = "";
    hg_log_func_t *func;
    void *func_arg;
    size_t start;
    size_t size;
    size_t i;
    int n;

    if (count != 1)
        (void) snprintf(times, sizeof(times), " (%u times so far)", count);
    /* Without the newline, a line has up to HG_LOG_LINE_MAX - 1 bytes. */
    n = snprintf(line, HG_LOG_LINE_MAX / 2,
        "hg: %s: %s: ", hg_log_level_names[level], subsys);
    start = n < 0 ? 0 : strlen(line);
    n = vsnprintf(
        line + start, HG_LOG_LINE_MAX - strlen(times) - start, format, args);
    if (n < 0)
        line[start] = '\0';
    size = start + strlen(line + start);
    if (n > 0 && (size_t) n > size - start)
        memcpy(line + size - 3, "...", 3);
    memcpy(line + size, times, strlen(times) + 1);
    size += strlen(times);
    for (i = start; i < size; i++)
        if ((unsigned char) line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    assert(size < HG_LOG_LINE_MAX);

    hg_log_lock();
    func = hg_log_func;
    func_arg = hg_log_func_arg;
    hg_log_unlock();
    if (func != NULL) {
        func(level, subsys, line + start, func_arg);
        return;
    }
    line[size] = '\n';
    hg_log_write(line, size + 1);
}

HG_PRIVATE void hg_log_emit_line(
    int level, const char *subsys, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    hg_log_emit(level, subsys, 1, format, args);
    va_end(args);
}

/* ---- Levels and filter ---- */

/* The level named `name`, or -1. */
static int hg_log_level_of(const char *name)
{
    int level;

    for (level = HG_LOG_LEVEL_NONE; level <= HG_LOG_LEVEL_DEBUG; level++)
        if (strcmp(name, hg_log_level_names[level]) == 0)
            return level;
    return -1;
}

/* Whether a subsystem of hg has this name of `size` bytes. */
static bool hg_log_is_known(const char *name, size_t size)
{
    size_t i;

    for (i = 0; i < sizeof(hg_log_names) / sizeof(hg_log_names[0]); i++)
        if (strlen(hg_log_names[i]) == size &&
            memcmp(name, hg_log_names[i], size) == 0)
            return true;
    return false;
}

/* Whether `list` lets `subsys` log. The last mention of `subsys` decides. One
 * that is not mentioned logs unless the list switches on a known subsystem: a
 * misspelled name does not silence the others. */
static bool hg_log_filter_admits(const char *list, const char *subsys)
{
    size_t subsys_size = strlen(subsys);
    bool exclusive = false;
    bool mentioned = false;
    bool on = false;

    while (*list != '\0') {
        bool negated;
        size_t size;

        list += strspn(list, " ,");
        negated = *list == '~';
        if (negated)
            list++;
        size = strcspn(list, " ,");
        if (size == subsys_size && memcmp(list, subsys, size) == 0) {
            mentioned = true;
            on = !negated;
        }
        if (!negated && hg_log_is_known(list, size))
            exclusive = true;
        list += size;
    }
    return mentioned ? on : !exclusive;
}

static bool hg_log_filter_set(const char *list)
{
    size_t size = strlen(list) + 1;

    if (size > HG_LOG_FILTER_MAX)
        return false;
    hg_log_lock();
    memcpy(hg_log_filter, list, size);
    hg_log_unlock();
    return true;
}

/* Write the names of all subsystems, with commas between them. */
static void hg_log_list_names(char *text, size_t size)
{
    size_t used = 0;
    size_t i;

    for (i = 0; i < sizeof(hg_log_names) / sizeof(hg_log_names[0]); i++) {
        int n = snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "",
            hg_log_names[i]);

        assert(n > 0 && (size_t) n < size - used);
        used += (size_t) n;
    }
}

/* Warn about each name in `list` that no subsystem of hg has; `from` says where
 * the list was given. */
static void hg_log_filter_judge(const char *from, const char *list)
{
    char names[HG_LOG_FILTER_MAX];

    hg_log_list_names(names, sizeof(names));
    while (*list != '\0') {
        size_t size;

        list += strspn(list, " ,~");
        size = strcspn(list, " ,");
        if (size > 0 && !hg_log_is_known(list, size))
            hg_log_emit_line(HG_LOG_LEVEL_WARNING, "log",
                "%s: \"%.*s\" is none of %s; ignoring it", from, (int) size,
                list, names);
        list += size;
    }
}

/* ---- Mercury's words ---- */

HG_PRIVATE const char *hg_log_word_of(const char *name)
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

/* Whether the word of `size` bytes is in `list`, with a space behind each. */
static bool hg_log_is_among(const char *list, const char *word, size_t size)
{
    while (*list != '\0') {
        size_t length = strcspn(list, " ");

        if (length == size && memcmp(list, word, size) == 0)
            return true;
        list += length + 1;
    }
    return false;
}

/* Append a word, with its ~, to a list, unless it does not fit. */
static void hg_log_append(
    char *list, size_t list_size, bool negated, const char *word, size_t size)
{
    size_t used = strlen(list);
    int n = snprintf(list + used, list_size - used, "%s%s%.*s",
        used > 0 ? "," : "", negated ? "~" : "", (int) size, word);

    if (n < 0 || (size_t) n >= list_size - used)
        list[used] = '\0';
}

HG_PRIVATE void hg_log_translate(
    const char *subsys, char *list, size_t list_size)
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
                everything |= !negated && hg_log_is_among(all, at, size);
            else if (size > 0 && (negated || !everything) &&
                !hg_log_is_among(all, at, size) &&
                !hg_log_is_among(absent, at, size))
                hg_log_append(list, list_size, negated, at, size);
            at += size;
        }
    }
}

/* Read the environment, once. Its mistakes are told at any level: who wrote
 * a level wants to see lines. */
static void hg_log_read_environment(void)
{
    const char *name = getenv("HG_LOG_LEVEL");
    const char *list = getenv("HG_LOG_SUBSYS");
    char words[HG_LOG_FILTER_MAX];
    int level = HG_LOG_LEVEL_ERROR;

    if (name != NULL && name[0] != '\0') {
        const char *word = hg_log_word_of(name);

        level = word != NULL ? hg_log_level_of(word) : -1;
        if (level < 0) {
            level = HG_LOG_LEVEL_ERROR;
            hg_log_emit_line(HG_LOG_LEVEL_WARNING, "log",
                "HG_LOG_LEVEL: \"%s\" is none of none, error, warning, info, "
                "debug; taking error",
                name);
        }
    }
    if (list != NULL && strlen(list) >= HG_LOG_FILTER_MAX) {
        hg_log_emit_line(HG_LOG_LEVEL_WARNING, "log",
            "HG_LOG_SUBSYS: longer than %d characters; taking all",
            HG_LOG_FILTER_MAX - 1);
    } else if (list != NULL) {
        hg_log_translate(list, words, sizeof(words));
        (void) hg_log_filter_set(words);
        hg_log_filter_judge("HG_LOG_SUBSYS", words);
    }
    atomic_store_explicit(&hg_log_level, level, memory_order_relaxed);
}

static void hg_log_begin(void)
{
    hg_log_read_environment();
    (void) pthread_atfork(hg_log_lock, hg_log_unlock, hg_log_unlock);
}

static void hg_log_init(void)
{
    pthread_once(&hg_log_once, hg_log_begin);
}

HG_PRIVATE void hg_log_atfork(
    void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    hg_log_init();
    (void) pthread_atfork(prepare, parent, child);
}

HG_PRIVATE bool hg_log_on(int level)
{
    int limit = atomic_load_explicit(&hg_log_level, memory_order_relaxed);

    if (HG_UNLIKELY(limit < 0)) {
        int saved_errno = errno;

        hg_log_init();
        errno = saved_errno;
        limit = atomic_load_explicit(&hg_log_level, memory_order_relaxed);
    }
    return level <= limit;
}

/* ---- Lines ---- */

/* How often this format was logged, now included. Formats for which there is
 * no entry left are counted together. */
static unsigned hg_log_count(const char *format)
{
    size_t at = (size_t) ((uintptr_t) format * UINT32_C(2654435761) >> 8);
    struct hg_log_site *site = &hg_log_sites[0];
    unsigned i;

    for (i = 0; i < HG_LOG_SITES; i++, at++) {
        const char *there = NULL;

        if (atomic_compare_exchange_strong(
                &hg_log_sites[at % HG_LOG_SITES].format, &there, format) ||
            there == format) {
            site = &hg_log_sites[at % HG_LOG_SITES];
            break;
        }
    }
    return atomic_fetch_add(&site->count, 1) + 1;
}

/* Whether a call site's line with this count is written. */
static bool hg_log_is_due(unsigned count)
{
    return (count & (count - 1)) == 0 || hg_log_on(HG_LOG_LEVEL_DEBUG);
}

/* Whether level and filter let a line pass. */
static bool hg_log_admits(int level, const char *subsys)
{
    bool admitted;

    assert(level >= HG_LOG_LEVEL_ERROR && level <= HG_LOG_LEVEL_DEBUG);
    if (!hg_log_on(level))
        return false;
    hg_log_lock();
    admitted = hg_log_filter_admits(hg_log_filter, subsys);
    hg_log_unlock();
    return admitted;
}

static void hg_log_keep_error(const char *format, va_list args)
{
    va_list copy;
    int n = snprintf(hg_log_text, sizeof(hg_log_text), "%s: ", hg_log_keeper);

    assert(n > 0 && n < HG_LOG_TEXT_MAX);
    va_copy(copy, args);
    (void) vsnprintf(
        hg_log_text + n, sizeof(hg_log_text) - (size_t) n, format, copy);
    va_end(copy);
}

HG_PRIVATE void hg_log_vline(
    int level, const char *subsys, const char *format, va_list args)
{
    int saved_errno = errno;
    unsigned count;
    bool admitted = hg_log_admits(level, subsys);

    assert(format != NULL);
    if (hg_log_on(level))
        hg_log_counts[level]++;
    errno = saved_errno; /* for %m */
    if (level == HG_LOG_LEVEL_ERROR && hg_log_keeper != NULL)
        hg_log_keep_error(format, args);
    count = admitted ? hg_log_count(format) : 0;
    if (level == HG_LOG_LEVEL_ERROR && count <= HG_LOG_ERROR_BURST)
        count = 1;
    if (admitted && hg_log_is_due(count)) {
        errno = saved_errno;
        hg_log_emit(level, subsys, count, format, args);
    }
    errno = saved_errno;
}

HG_PRIVATE void hg_log_line(
    int level, const char *subsys, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    hg_log_vline(level, subsys, format, args);
    va_end(args);
}

HG_PRIVATE void hg_log_asked(
    int level, const char *subsys, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (hg_log_admits(level, subsys))
        hg_log_emit(level, subsys, 1, format, args);
    va_end(args);
}

HG_PRIVATE hg_return_t hg_log_misuse(
    const char *subsys, const char *function, const char *what)
{
    int saved_errno = errno;

    hg_log_keep_text("%s: %s", function, what);
    if (hg_log_on(HG_LOG_LEVEL_ERROR))
        hg_log_counts[HG_LOG_LEVEL_ERROR]++;
    hg_log_asked(HG_LOG_LEVEL_ERROR, subsys, "%s: %s", function, what);
    errno = saved_errno;
    return HG_INVALID_ARG;
}

HG_PRIVATE unsigned hg_log_begun(int level)
{
    unsigned count = 0;

    for (; level > HG_LOG_LEVEL_NONE; level--)
        count += hg_log_counts[level];
    return count;
}

HG_PRIVATE hg_return_t hg_log_no_fd(const char *subsys, const char *what)
{
    int error = errno;
    struct rlimit limit;

    if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        hg_log_error(subsys, "no descriptor or memory for %s: %s", what,
            strerror(error));
    else
        hg_log_error(subsys,
            "no descriptor for %s: the limit nofile is %" PRIu64
            "; raise it (ulimit -n)",
            what, (uint64_t) limit.rlim_cur);
    return error == EMFILE || error == ENFILE ? HG_AGAIN
        : error == ENOMEM                     ? HG_NOMEM
                                              : HG_IO_ERROR;
}

/* ---- The last error of a thread ---- */

HG_PRIVATE void hg_log_keep_text(const char *format, ...)
{
    int saved_errno = errno;
    va_list args;

    va_start(args, format);
    (void) vsnprintf(hg_log_text, sizeof(hg_log_text), format, args);
    va_end(args);
    errno = saved_errno;
}

HG_PRIVATE void hg_log_keep_errors(const char *function)
{
    if (function != NULL)
        hg_log_drop_text();
    hg_log_keeper = function;
}

HG_PRIVATE void hg_log_drop_text(void)
{
    hg_log_text[0] = '\0';
}

HG_EXPORT const char *HG_Get_last_error_text(void)
{
    return hg_log_text;
}

/* ---- Setters ---- */

HG_EXPORT hg_return_t HG_Set_log_level(const char *level)
{
    int value;

    hg_log_init();
    if (level == NULL) {
        hg_log_error("log", "HG_Set_log_level: the level is NULL");
        return HG_INVALID_ARG;
    }
    value = hg_log_level_of(level);
    if (value < 0) {
        hg_log_error("log", "HG_Set_log_level: no level \"%s\"", level);
        return HG_INVALID_ARG;
    }
    atomic_store_explicit(&hg_log_level, value, memory_order_relaxed);
    return HG_SUCCESS;
}

HG_EXPORT hg_return_t HG_Set_log_subsys(const char *subsys)
{
    hg_log_init();
    if (subsys == NULL)
        subsys = "";
    if (!hg_log_filter_set(subsys)) {
        hg_log_error("log", "HG_Set_log_subsys: longer than %d characters",
            HG_LOG_FILTER_MAX - 1);
        return HG_OVERFLOW;
    }
    hg_log_filter_judge("HG_Set_log_subsys", subsys);
    return HG_SUCCESS;
}

HG_PRIVATE void hg_log_set_func(hg_log_func_t *func, void *arg)
{
    hg_log_func = func;
    hg_log_func_arg = arg;
}

HG_EXPORT void HG_Set_log_func(
    void (*func)(int level, const char *subsys, const char *line, void *arg),
    void *arg)
{
    hg_log_init();
    hg_log_lock();
    hg_log_set_func(func, arg);
    hg_log_unlock();
}
