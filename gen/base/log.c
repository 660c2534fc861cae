/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log: one line for each error, the last error of a thread, and the texts of
 * return codes.
 *
 * A line is formatted in a buffer on the stack and reaches stderr in a single
 * write(2), so that lines of several threads or processes do not mix. Control
 * characters of a line become '?': a peer's text cannot forge a second line.
 *
 * Peers can cause lines. Therefore lines are counted for each call site, and
 * most lines of a flood are left out. A line is dropped if stderr is a pipe,
 * socket or terminal that is full. O_NONBLOCK is not set, because other
 * processes share stderr.
 *
 * The words for levels and subsystems are the log's own and Mercury's, in the
 * environment and in each setter.
 *
 * Invariants: the environment is read once, before the first line and the first
 * setter. A write to a closed stderr raises no SIGPIPE. errno is kept.
 *
 * Locking: the level and the counts are atomics. hg_log_mutex guards the filter
 * and the outlet; it is not held while a line is written or a sink runs. Other
 * locks may be held when a line is logged, so fork takes hg_log_mutex last: see
 * hg_log_atfork. Allocates nothing, so that lack of memory can be logged.
 */
#include "base/log.h"

/* A whole line: prefix, text and newline. */
#define HG_LOG_LINE_MAX 1000
/* Size of the list of subsystems, including the NUL. */
#define HG_LOG_FILTER_MAX 256
/* Call sites whose lines are counted separately; a power of two. */
#define HG_LOG_SITES 1024
/* Errors that a call site logs before only each doubling of the count is
 * logged. */
#define HG_LOG_ERROR_BURST 64

static const char *const hg_log_level_names[] = {
    "none", "error", "warning", "info", "debug"};

/* Mercury's alternative words for each level. */
static const char *const hg_log_level_words[] = {
    "", "fatal ftl err", "warn", "min_debug trace inf", "dbg"};

/* The subsystems of hg and its transports. A plugin of the application may have
 * a name of its own. */
static const char hg_log_subsystems[] =
    "addr, bulk, checksum, clock, cls, ctx, lock, log, mem, msg, op, proc, "
    "rma, rpc, sm, waker, zmq, ofi, mpi";
/* Mercury's names for all of them, and of subsystems that only Mercury has. */
static const char hg_log_all[] = "hg na hg_all na_all all hg_util util";
static const char hg_log_absent[] =
    "poll poll_loop perf diag rpc_ref ip libfabric ucx event fatal";

/* A call site is known by its format string. */
struct hg_log_site {
    _Atomic(const char *) format; /* compared, never read */
    atomic_uint count;
};

static pthread_once_t hg_log_once = PTHREAD_ONCE_INIT;
static atomic_int hg_log_level = -1; /* -1: the environment is not read yet */
static pthread_mutex_t hg_log_mutex = PTHREAD_MUTEX_INITIALIZER;
static char hg_log_filter[HG_LOG_FILTER_MAX]; /* guard: hg_log_mutex */

typedef int hg_log_print_t(FILE *stream, const char *format, ...);

/* Where lines go: to `func`; otherwise, if any of these is set, to `print` and
 * the stream of the level; otherwise to stderr. */
struct hg_log_outlet {
    void (*func)(int level, const char *subsys, const char *line, void *arg);
    void *arg;
    hg_log_print_t *print;
    FILE *streams[HG_LOG_LEVEL_DEBUG + 1];
};

static struct hg_log_outlet hg_log_outlet; /* guard: hg_log_mutex */
static struct hg_log_site hg_log_sites[HG_LOG_SITES];
static atomic_uint hg_log_lost; /* lines dropped because stderr was full */
static _Thread_local unsigned hg_log_counts[HG_LOG_LEVEL_DEBUG + 1];
static _Thread_local char hg_log_text[HG_LOG_TEXT_MAX];
static _Thread_local char hg_log_last[HG_LOG_TEXT_MAX];
static _Thread_local const char *hg_log_keeper; /* see hg_log_keep_errors */
/* A hash of the last error that was kept; 0: none. */
static _Thread_local uint32_t hg_log_kept;

static void hg_log_lock(void)
{
    pthread_mutex_lock(&hg_log_mutex);
}

static void hg_log_unlock(void)
{
    pthread_mutex_unlock(&hg_log_mutex);
}

/* ---- Writing a line ---- */

/* Write without blocking; false: stderr is full. */
static bool hg_log_try_write(const char *line, size_t size)
{
    struct pollfd out = {STDERR_FILENO, POLLOUT, 0};
    ssize_t written = -1;

#ifdef RWF_NOWAIT /* pipes and sockets support it, files and terminals do not */
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
            "hg: warning: log: stderr was full: %u line%s dropped\n", lost,
            lost == 1 ? " was" : "s were");
        if (hg_log_try_write(note, (size_t) n))
            lost = 0;
    }
    if (lost > 0 || !hg_log_try_write(line, size))
        atomic_fetch_add_explicit(&hg_log_lost, lost + 1, memory_order_relaxed);
}

/* SIGPIPE cannot be disabled for one write(2): it is blocked in this thread
 * meanwhile, and removed if this write raised it. */
static void hg_log_write(const char *line, size_t size)
{
    sigset_t pipe_set;
    sigset_t old_set;
    sigset_t before;
    sigset_t now;
    int signal;

    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    sigemptyset(&before);
    sigpending(&before);
    pthread_sigmask(SIG_BLOCK, &pipe_set, &old_set);
    errno = 0;
    hg_log_write_counted(line, size);
    if (errno == EPIPE && !sigismember(&before, SIGPIPE)) {
        sigemptyset(&now);
        sigpending(&now);
        if (sigismember(&now, SIGPIPE))
            (void) sigwait(&pipe_set, &signal);
    }
    pthread_sigmask(SIG_SETMASK, &old_set, NULL);
}

/* Format and deliver a line, regardless of level and filter; `count` is shown
 * unless it is 1. */
static void hg_log_emit(int level, const char *subsys, unsigned count,
    const char *format, va_list args)
{
    char line[HG_LOG_LINE_MAX + 1];
    char times[32] = "";
    struct hg_log_outlet outlet;
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
    HG_ASSERT(size < HG_LOG_LINE_MAX);

    hg_log_lock();
    outlet = hg_log_outlet;
    hg_log_unlock();
    if (outlet.func != NULL) {
        outlet.func(level, subsys, line + start, outlet.arg);
    } else if (outlet.print != NULL || outlet.streams[level] != NULL) {
        (void) (outlet.print != NULL ? outlet.print : fprintf)(
            outlet.streams[level] != NULL ? outlet.streams[level] : stderr,
            "%s\n", line);
    } else {
        line[size] = '\n';
        hg_log_write(line, size + 1);
    }
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

/* The next word of the list at *at_p, of *size_p bytes, or NULL. A ~ before it
 * sets *negated_p. */
static const char *hg_log_next_word(
    const char **at_p, size_t *size_p, bool *negated_p)
{
    const char *word = *at_p + strspn(*at_p, " ,");

    *negated_p = *word == '~';
    word += *negated_p ? 1 : 0;
    *size_p = strcspn(word, " ,");
    *at_p = word + *size_p;
    return *size_p > 0 || **at_p != '\0' ? word : NULL;
}

/* Whether `list` has this word of `size` bytes, in any case of the letters. */
static bool hg_log_has(const char *list, const char *word, size_t size)
{
    const char *other;
    size_t other_size;
    bool negated;

    while ((other = hg_log_next_word(&list, &other_size, &negated)) != NULL)
        if (other_size == size && strncasecmp(other, word, size) == 0)
            return true;
    return false;
}

/* The level with this name, in any case of the letters, or -1. */
static int hg_log_level_of(const char *name)
{
    int level;

    for (level = HG_LOG_LEVEL_NONE; level <= HG_LOG_LEVEL_DEBUG; level++)
        if (strcasecmp(name, hg_log_level_names[level]) == 0 ||
            hg_log_has(hg_log_level_words[level], name, strlen(name)))
            return level;
    return -1;
}

/* Whether `list` lets `subsys` log. The last mention of `subsys` decides. A
 * subsystem that is not mentioned logs if the list names all, or enables no
 * known subsystem: a misspelled name does not silence the others. */
static bool hg_log_filter_admits(const char *list, const char *subsys)
{
    size_t subsys_size = strlen(subsys);
    bool all = false;
    bool exclusive = false;
    bool mentioned = false;
    bool on = false;
    const char *word;
    size_t size;
    bool negated;

    while ((word = hg_log_next_word(&list, &size, &negated)) != NULL) {
        if (size == subsys_size && strncasecmp(word, subsys, size) == 0) {
            mentioned = true;
            on = !negated;
        }
        if (!negated && hg_log_has(hg_log_all, word, size))
            all = true;
        if (!negated && hg_log_has(hg_log_subsystems, word, size))
            exclusive = true;
    }
    return mentioned ? on : all || !exclusive;
}

/* Set the filter, and warn about each unknown word; `from` says where the list
 * was given. False: it is too long. */
static bool hg_log_filter_set(const char *from, const char *list)
{
    size_t size = strlen(list) + 1;
    const char *word;
    bool negated;

    if (size > HG_LOG_FILTER_MAX)
        return false;
    hg_log_lock();
    memcpy(hg_log_filter, list, size);
    hg_log_unlock();
    while ((word = hg_log_next_word(&list, &size, &negated)) != NULL)
        if (size > 0 && !hg_log_has(hg_log_subsystems, word, size) &&
            !hg_log_has(hg_log_all, word, size) &&
            !hg_log_has(hg_log_absent, word, size))
            hg_log_emit_line(HG_LOG_LEVEL_WARNING, "log",
                "%s: \"%.*s\" is not one of %s; ignored", from, (int) size,
                word, hg_log_subsystems);
    return true;
}

/* Read the environment, once. Its mistakes are logged at any level. */
static void hg_log_read_environment(void)
{
    const char *name = getenv("HG_LOG_LEVEL");
    const char *list = getenv("HG_LOG_SUBSYS");
    int level = HG_LOG_LEVEL_ERROR;

    if (name != NULL && name[0] != '\0')
        level = hg_log_level_of(name);
    if (level < 0) {
        level = HG_LOG_LEVEL_ERROR;
        hg_log_emit_line(HG_LOG_LEVEL_WARNING, "log",
            "HG_LOG_LEVEL: \"%s\" is not one of none, error, warning, info, "
            "debug; using error",
            name);
    }
    if (list != NULL && !hg_log_filter_set("HG_LOG_SUBSYS", list))
        hg_log_emit_line(HG_LOG_LEVEL_WARNING, "log",
            "HG_LOG_SUBSYS: longer than %d characters; using all",
            HG_LOG_FILTER_MAX - 1);
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

/* How often this format was logged, including now. Formats without a free entry
 * are counted together. */
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

/* Whether level and filter admit a line. */
static bool hg_log_admits(int level, const char *subsys)
{
    bool admitted;

    HG_ASSERT(level >= HG_LOG_LEVEL_ERROR && level <= HG_LOG_LEVEL_DEBUG);
    if (!hg_log_on(level))
        return false;
    hg_log_lock();
    admitted = hg_log_filter_admits(hg_log_filter, subsys);
    hg_log_unlock();
    return admitted;
}

/* Keep the text of an error. Returns its level: a program that tries again and
 * again gets the same error each time, and one line. */
static int hg_log_keep_error(const char *format, va_list args)
{
    uint32_t before = hg_log_kept;
    const char *at;
    va_list copy;

    va_copy(copy, args);
    (void) vsnprintf(hg_log_last, sizeof(hg_log_last), format, copy);
    va_end(copy);
    if (hg_log_keeper == NULL)
        return HG_LOG_LEVEL_ERROR;
    hg_log_adopt_error(hg_log_last);
    if (!hg_log_on(HG_LOG_LEVEL_ERROR))
        return HG_LOG_LEVEL_ERROR;
    hg_log_kept = 2166136261u; /* FNV-1a */
    for (at = hg_log_last; *at != '\0'; at++)
        hg_log_kept = (hg_log_kept ^ (unsigned char) *at) * 16777619u;
    return hg_log_kept == before ? HG_LOG_LEVEL_INFO : HG_LOG_LEVEL_ERROR;
}

HG_PRIVATE void hg_log_vline(
    int level, const char *subsys, const char *format, va_list args)
{
    int saved_errno = errno;
    unsigned count;
    bool admitted;

    HG_ASSERT(format != NULL);
    if (level == HG_LOG_LEVEL_ERROR)
        level = hg_log_keep_error(format, args);
    admitted = hg_log_admits(level, subsys);
    if (hg_log_on(level))
        hg_log_counts[level]++;
    errno = saved_errno; /* for %m */
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

HG_PRIVATE hg_return_t hg_log_misuse(
    const char *subsys, const char *function, const char *what)
{
    int saved_errno = errno;

    hg_log_keep_text("%s: %s", function, what);
    if (hg_log_on(HG_LOG_LEVEL_ERROR))
        hg_log_counts[HG_LOG_LEVEL_ERROR]++;
    if (hg_log_admits(HG_LOG_LEVEL_ERROR, subsys))
        hg_log_emit_line(HG_LOG_LEVEL_ERROR, subsys, "%s: %s", function, what);
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

/* Like a closed descriptor, these can be neither read nor written. /dev/null is
 * preferred: a descriptor of the root directory is a way out of a chroot. They
 * are closed on exec, since the new program may use no hg. */
HG_PRIVATE hg_return_t hg_log_occupy_fds(void)
{
#ifdef O_PATH
    const int flags = O_PATH | O_CLOEXEC;
#else
    const int flags = O_RDONLY | O_CLOEXEC;
#endif
    int want, fd;

    for (want = STDIN_FILENO; want <= STDERR_FILENO; want++) {
        if (fcntl(want, F_GETFD) >= 0)
            continue;
        fd = open("/dev/null", flags);
        if (fd < 0)
            fd = open("/", flags);
        if (fd < 0)
            return hg_log_no_fd("log", "the closed descriptors 0 to 2");
        if (fd > STDERR_FILENO) /* another thread was faster */
            (void) close(fd);
    }
    return HG_SUCCESS;
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

HG_PRIVATE const char *hg_log_last_error(void)
{
    return hg_log_last;
}

HG_PRIVATE void hg_log_adopt_error(const char *line)
{
    if (hg_log_keeper == NULL)
        hg_log_keep_text("%s", line);
    else if (line[0] != '\0')
        hg_log_keep_text("%s: %s", hg_log_keeper, line);
}

HG_PRIVATE void hg_log_forget_error(void)
{
    hg_log_kept = 0;
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

HG_EXPORT void HG_Set_log_level2(const char *level)
{
    (void) HG_Set_log_level(level != NULL ? level : "none");
}

HG_EXPORT hg_return_t HG_Set_log_subsys(const char *subsys)
{
    hg_log_init();
    if (hg_log_filter_set("HG_Set_log_subsys", subsys != NULL ? subsys : ""))
        return HG_SUCCESS;
    hg_log_error("log", "HG_Set_log_subsys: longer than %d characters",
        HG_LOG_FILTER_MAX - 1);
    return HG_OVERFLOW;
}

HG_EXPORT void HG_Set_log_subsys2(const char *subsys)
{
    (void) HG_Set_log_subsys(subsys);
}

HG_EXPORT void HG_Set_log_func(
    void (*func)(int level, const char *subsys, const char *line, void *arg),
    void *arg)
{
    hg_log_init();
    hg_log_lock();
    memset(&hg_log_outlet, 0, sizeof(hg_log_outlet));
    hg_log_outlet.func = func;
    hg_log_outlet.arg = arg;
    hg_log_unlock();
}

HG_EXPORT void HG_Set_log_func2(
    int (*log_func)(FILE *stream, const char *format, ...))
{
    hg_log_init();
    hg_log_lock();
    hg_log_outlet.func = NULL;
    hg_log_outlet.print = log_func;
    hg_log_unlock();
}

HG_EXPORT void HG_Set_log_stream(const char *level, FILE *stream)
{
    int value = level != NULL ? hg_log_level_of(level) : HG_LOG_LEVEL_NONE;

    hg_log_init();
    if (value <= HG_LOG_LEVEL_NONE) {
        hg_log_error("log", "HG_Set_log_stream: no level \"%s\" has a stream",
            level != NULL ? level : "(null)");
        return;
    }
    hg_log_lock();
    hg_log_outlet.func = NULL;
    hg_log_outlet.streams[value] = stream;
    if (value >= HG_LOG_LEVEL_INFO) /* Mercury has no level info */
        hg_log_outlet.streams[HG_LOG_LEVEL_INFO] =
            hg_log_outlet.streams[HG_LOG_LEVEL_DEBUG] = stream;
    hg_log_unlock();
}

/* ---- Return codes and versions ---- */

/* The text of each code, and Mercury's name. NA has the first ones. */
static const char *const hg_log_codes[HG_RETURN_MAX][2] = {
    {"success", "HG_SUCCESS"},
    {"operation not permitted", "HG_PERMISSION"},
    {"no such entry", "HG_NOENTRY"},
    {"interrupted by a signal", "HG_INTERRUPT"},
    {"not accepted", "HG_AGAIN"},
    {"out of memory", "HG_NOMEM"},
    {"access denied by the system", "HG_ACCESS"},
    {"object or memory unusable", "HG_FAULT"},
    {"busy", "HG_BUSY"},
    {"exists already", "HG_EXIST"},
    {"no such device", "HG_NODEV"},
    {"invalid argument", "HG_INVALID_ARG"},
    {"protocol error", "HG_PROTOCOL_ERROR"},
    {"out of range", "HG_OVERFLOW"},
    {"size does not fit", "HG_MSGSIZE"},
    {"protocol not supported", "HG_PROTONOSUPPORT"},
    {"operation not supported", "HG_OPNOTSUPPORTED"},
    {"address in use", "HG_ADDRINUSE"},
    {"address not available", "HG_ADDRNOTAVAIL"},
    {"host unreachable", "HG_HOSTUNREACH"},
    {"timed out", "HG_TIMEOUT"},
    {"canceled", "HG_CANCELED"},
    {"input/output error", "HG_IO_ERROR"},
    {"peer disconnected", "HG_DISCONNECT"},
    {"checksum error", "HG_CHECKSUM_ERROR"},
    {"network layer error", "HG_NA_ERROR"},
    {"other error", "HG_OTHER_ERROR"},
};

HG_EXPORT const char *HG_Error_to_string(hg_return_t ret)
{
    if (ret < 0 || ret >= HG_RETURN_MAX)
        return "unknown error";
    return hg_log_codes[ret][0];
}

NA_EXPORT const char *NA_Error_to_string(na_return_t ret)
{
    return HG_Error_to_string((hg_return_t) ret);
}

HG_EXPORT const char *HG_Error_to_string2(hg_return_t errnum)
{
    if (errnum < 0 || errnum >= HG_RETURN_MAX)
        return NULL;
    return hg_log_codes[errnum][1];
}

HG_EXPORT hg_return_t HG_Version_get(
    unsigned int *major_p, unsigned int *minor_p, unsigned int *patch_p)
{
    if (major_p == NULL || minor_p == NULL || patch_p == NULL) {
        hg_log_error("log", "HG_Version_get: an argument is NULL");
        return HG_INVALID_ARG;
    }
    *major_p = HG_VERSION_MAJOR;
    *minor_p = HG_VERSION_MINOR;
    *patch_p = HG_VERSION_PATCH;
    return HG_SUCCESS;
}

HG_EXPORT hg_return_t HG_Version_get2(
    unsigned int *major_p, unsigned int *minor_p, unsigned int *patch_p)
{
    if (major_p != NULL)
        *major_p = HG_MERCURY_MAJOR;
    if (minor_p != NULL)
        *minor_p = HG_MERCURY_MINOR;
    if (patch_p != NULL)
        *patch_p = HG_MERCURY_PATCH;
    return HG_SUCCESS;
}
