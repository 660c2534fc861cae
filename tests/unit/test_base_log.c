/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: levels, filter, log function, rate limits, lines on stderr, the
 * environment.
 */
#include "support/library.h"

#include "harness.h"

#include <sys/socket.h>

#define LOG_SUBSYSTEMS \
    "addr, bulk, checksum, clock, cls, ctx, lock, log, mem, msg, op, proc, " \
    "rma, rpc, sm, waker, zmq, ofi, mpi"

struct log_seen {
    unsigned count;
    int level;
    char subsys[32];
    char line[1200];
};

static void log_sink(int level, const char *subsys, const char *line, void *arg)
{
    struct log_seen *seen = (struct log_seen *) arg;

    seen->count++;
    seen->level = level;
    snprintf(seen->subsys, sizeof(seen->subsys), "%s", subsys);
    snprintf(seen->line, sizeof(seen->line), "%s", line);
    errno = EDOM; /* a log function may change it */
}

static int log_evaluated(unsigned *count)
{
    return (int) ++*count;
}

HG_TEST(log_levels_are_obeyed)
{
    static const char *const names[] = {
        "none", "error", "warning", "info", "debug"};
    struct log_seen seen = {0};
    unsigned evaluated = 0;
    unsigned i;

    HG_Set_log_func(log_sink, &seen);
    for (i = 0; i < 5; i++) {
        HG_CHECK_OK(HG_Set_log_level(names[i]));
        seen.count = 0;
        evaluated = 0;
        hg_log_error("rpc", "e%d", log_evaluated(&evaluated));
        hg_log_warning("rpc", "w%d", log_evaluated(&evaluated));
        hg_log_info("rpc", "i%d", log_evaluated(&evaluated));
        hg_log_debug("rpc", "d%d", log_evaluated(&evaluated));
        HG_CHECK_EQ_U64(seen.count, i);
        /* For a disabled level not even the arguments are evaluated, except
         * those of errors. */
        HG_CHECK_EQ_U64(evaluated, i > 0 ? i : 1);
        /* The plugins' log function checks the level, too. */
        seen.count = 0;
        hg_log_line(HG_LOG_LEVEL_DEBUG, "rpc", "late");
        HG_CHECK_EQ_U64(seen.count, i == 4);
    }
    HG_CHECK_EQ_INT(seen.level, HG_LOG_LEVEL_DEBUG);
    HG_CHECK_EQ_STR(seen.subsys, "rpc");
    HG_CHECK_EQ_STR(seen.line, "late");
}

HG_TEST(log_default_level_is_error)
{
    struct log_seen seen = {0};

    HG_CHECK(unsetenv("HG_LOG_LEVEL") == 0);
    hg_log_read_environment(); /* the harness sets another level */
    HG_Set_log_func(log_sink, &seen);
    hg_log_warning("rpc", "no");
    HG_CHECK_EQ_U64(seen.count, 0);
    hg_log_error("rpc", "%s %d", "yes", 42);
    HG_CHECK_EQ_U64(seen.count, 1);
    HG_CHECK_EQ_STR(seen.line, "yes 42");
}

HG_TEST(log_setter_refuses_unknown_levels)
{
    struct log_seen seen = {0};

    HG_Set_log_func(log_sink, &seen);
    HG_CHECK_OK(HG_Set_log_level("info"));
    HG_CHECK_RET(HG_Set_log_level("loud"), HG_INVALID_ARG);
    HG_CHECK_EQ_STR(seen.line, "HG_Set_log_level: no level \"loud\"");
    HG_CHECK_RET(HG_Set_log_level(""), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Set_log_level(NULL), HG_INVALID_ARG);
    HG_CHECK_EQ_STR(seen.line, "HG_Set_log_level: the level is NULL");
    HG_CHECK_EQ_U64(seen.count, 3);
    hg_log_info("rpc", "the level stands");
    HG_CHECK_EQ_U64(seen.count, 4);
}

/* Whether `subsys` is logged under the filter `list`. */
static bool log_admits(const char *list, const char *subsys)
{
    /* The log function stays set when this returns. */
    static struct log_seen seen;

    HG_Set_log_func(log_sink, &seen);
    HG_CHECK_OK(HG_Set_log_subsys(list));
    seen.count = 0; /* warnings about the list */
    hg_log_error(subsys, "heard");
    return seen.count == 1;
}

HG_TEST(log_filter_chooses_subsystems)
{
    char list[300];

    HG_CHECK(log_admits(NULL, "rpc"));
    HG_CHECK(log_admits("", "rpc"));
    HG_CHECK(log_admits(",", "rpc"));
    HG_CHECK(log_admits("rpc", "rpc"));
    HG_CHECK(!log_admits("rpc", "bulk"));
    HG_CHECK(log_admits("cls, bulk,rpc", "bulk"));
    /* An unknown name does not disable the others. */
    HG_CHECK(log_admits("rpcx", "rpc"));
    HG_CHECK(log_admits("rp", "rpc"));
    HG_CHECK(log_admits("nosuch,~zmq", "rpc"));
    HG_CHECK(!log_admits("nosuch,~zmq", "zmq"));
    HG_CHECK(!log_admits("nosuch,bulk", "rpc"));
    HG_CHECK(log_admits("plugin,bulk", "plugin"));
    HG_CHECK(!log_admits("~plugin", "plugin"));
    HG_CHECK(!log_admits("~zmq", "zmq"));
    HG_CHECK(log_admits("~zmq", "rpc"));
    HG_CHECK(!log_admits("~zmq,~rpc", "rpc"));
    HG_CHECK(!log_admits("rpc,~zmq", "bulk"));
    HG_CHECK(!log_admits("rpc,~rpc", "rpc"));
    HG_CHECK(log_admits("~rpc,rpc", "rpc"));
    HG_CHECK(log_admits("~", "rpc"));

    HG_CHECK(!log_admits("bulk", "rpc"));
    memset(list, 'x', sizeof(list));
    list[256] = '\0';
    HG_CHECK_RET(HG_Set_log_subsys(list), HG_OVERFLOW);
    list[255] = '\0';
    HG_CHECK_OK(HG_Set_log_subsys(list));
}

/* Lines suppressed by the filter or the rate limit count as written, so that
 * callers do not log a second one. */
HG_TEST(log_suppressed_lines_count_as_written)
{
    struct log_seen seen = {0};
    unsigned errors, warnings, i;

    HG_Set_log_func(log_sink, &seen);
    HG_CHECK_OK(HG_Set_log_level("warning"));
    errors = hg_log_begun(HG_LOG_LEVEL_ERROR);
    warnings = hg_log_begun(HG_LOG_LEVEL_WARNING);
    HG_CHECK_OK(HG_Set_log_subsys("bulk"));
    hg_log_error("rpc", "filtered");
    HG_CHECK_EQ_U64(hg_log_begun(HG_LOG_LEVEL_ERROR), errors + 1);
    hg_log_warning("rpc", "filtered");
    hg_log_info("rpc", "off");
    HG_CHECK_EQ_U64(hg_log_begun(HG_LOG_LEVEL_ERROR), errors + 1);
    HG_CHECK_EQ_U64(hg_log_begun(HG_LOG_LEVEL_WARNING), warnings + 2);
    HG_CHECK_EQ_U64(seen.count, 0);
    for (i = 0; i < 100; i++)
        hg_log_warning("bulk", "many");
    HG_CHECK_EQ_U64(hg_log_begun(HG_LOG_LEVEL_WARNING), warnings + 102);
    HG_CHECK(seen.count < 100);
}

HG_TEST(log_setter_warns_about_unknown_subsystems)
{
    struct log_seen seen = {0};

    HG_Set_log_func(log_sink, &seen);
    HG_CHECK_OK(HG_Set_log_subsys("rpc,~zmq"));
    HG_CHECK_EQ_U64(seen.count, 0);
    HG_CHECK_OK(HG_Set_log_subsys("rpc,nope"));
    HG_CHECK_EQ_U64(seen.count, 1);
    HG_CHECK_EQ_INT(seen.level, HG_LOG_LEVEL_WARNING);
    HG_CHECK_EQ_STR(seen.line,
        "HG_Set_log_subsys: \"nope\" is not one of " LOG_SUBSYSTEMS
        "; ignored");
}

HG_TEST(log_keeps_errno)
{
    struct log_seen seen = {0};

    HG_Set_log_func(log_sink, &seen);
    errno = ENOTTY;
    hg_log_error("rpc", "%s", strerror(errno));
    HG_CHECK_EQ_INT(errno, ENOTTY);
    HG_CHECK_EQ_STR(seen.line, strerror(ENOTTY));
    HG_CHECK_OK(HG_Set_log_subsys("bulk"));
    errno = ENOTTY;
    hg_log_error("rpc", "filtered");
    HG_CHECK_EQ_INT(errno, ENOTTY);
    HG_CHECK_EQ_U64(seen.count, 1);
}

HG_TEST(log_call_is_one_line)
{
    struct log_seen seen = {0};

    HG_Set_log_func(log_sink, &seen);
    hg_log_error("rpc", "name \"%s\"", "a\nhg: error: rpc: forged\x7f\x1b[2J");
    HG_CHECK_EQ_STR(seen.line, "name \"a?hg: error: rpc: forged??[2J\"");
}

HG_TEST(log_warnings_are_written_at_doublings)
{
    struct log_seen seen = {0};
    unsigned i;

    HG_Set_log_func(log_sink, &seen);
    HG_CHECK_OK(HG_Set_log_level("warning"));
    for (i = 1; i <= 1000; i++) {
        hg_log_warning("rpc", "one site: %u", i);
        if (i == 1)
            HG_CHECK_EQ_STR(seen.line, "one site: 1");
    }
    HG_CHECK_EQ_U64(seen.count, 10);
    HG_CHECK_EQ_STR(seen.line, "one site: 512 (512 times so far)");
    hg_log_warning("rpc", "another site");
    HG_CHECK_EQ_STR(seen.line, "another site");
    /* A transport's lines are counted, too. */
    for (i = 1; i <= 1000; i++)
        na_class_log(HG_LOG_LEVEL_WARNING, "zmq", "a third site: %u", i);
    HG_CHECK_EQ_STR(seen.line, "a third site: 512 (512 times so far)");
    HG_CHECK_EQ_U64(seen.count, 21);
    HG_CHECK_OK(HG_Set_log_level("debug"));
    for (i = 1; i <= 100; i++)
        hg_log_warning("rpc", "at level debug: %u", i);
    HG_CHECK_EQ_U64(seen.count, 121);
}

HG_TEST(log_errors_are_written_at_doublings_after_64)
{
    struct log_seen seen = {0};
    unsigned i;

    HG_Set_log_func(log_sink, &seen);
    for (i = 1; i <= 1000; i++) {
        hg_log_error("rpc", "error %u", i);
        if (i == 64)
            HG_CHECK_EQ_STR(seen.line, "error 64");
    }
    HG_CHECK_EQ_STR(seen.line, "error 512 (512 times so far)");
    HG_CHECK_EQ_U64(seen.count, 67);
}

HG_TEST(log_misuse_is_never_limited)
{
    struct log_seen seen = {0};
    unsigned triggered;
    unsigned i;

    HG_Set_log_func(log_sink, &seen);
    for (i = 0; i < 1000; i++)
        HG_CHECK_RET(HG_Progress(NULL, 0), HG_INVALID_ARG);
    HG_CHECK_EQ_U64(seen.count, 1000);
    HG_CHECK_EQ_STR(seen.line, "HG_Progress: the context is NULL");
    HG_CHECK_RET(HG_Trigger(NULL, 0, 1, &triggered), HG_INVALID_ARG);
    HG_CHECK_EQ_STR(seen.line, "HG_Trigger: the context is NULL");
    HG_CHECK_RET(NA_Addr_free(NULL, NULL), NA_INVALID_ARG);
    HG_CHECK_EQ_STR(seen.line, "NA_Addr_free: the class is NULL");
    HG_CHECK_RET(HG_Bulk_ref_incr(NULL), HG_INVALID_ARG);
    HG_CHECK_EQ_STR(seen.line, "HG_Bulk_ref_incr: the handle is NULL");
    HG_CHECK_EQ_U64(seen.count, 1003);
    errno = ENOTTY;
    HG_CHECK_RET(hg_log_misuse("rpc", "f", "it is wrong"), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(errno, ENOTTY);
    HG_CHECK_OK(HG_Set_log_level("none"));
    HG_CHECK_RET(HG_Progress(NULL, 0), HG_INVALID_ARG);
    HG_CHECK_EQ_U64(seen.count, 1004);
}

/* More call sites than there are entries to count them. */
HG_TEST(log_counts_more_sites_than_it_has_entries)
{
    static char formats[HG_LOG_SITES * 2][4];
    struct log_seen seen = {0};
    unsigned i;

    HG_Set_log_func(log_sink, &seen);
    HG_CHECK_OK(HG_Set_log_level("warning"));
    for (i = 0; i < HG_LOG_SITES * 2; i++) {
        memcpy(formats[i], "x", 2);
        na_class_log(HG_LOG_LEVEL_WARNING, "rpc", formats[i], "");
    }
    HG_CHECK(seen.count >= HG_LOG_SITES);
    HG_CHECK(seen.count <= HG_LOG_SITES + 20);
}

/* ---- On stderr ---- */

/* Redirect stderr to `fd` and restore the default log function; returns the old
 * descriptor. */
static int log_redirect(int fd)
{
    int old = dup(STDERR_FILENO);

    HG_CHECK(old >= 0);
    HG_CHECK(dup2(fd, STDERR_FILENO) == STDERR_FILENO);
    HG_Set_log_func(NULL, NULL);
    return old;
}

static void log_restore(int old)
{
    dup2(old, STDERR_FILENO);
    close(old);
}

/* Log once with stderr a datagram socket: returns the data of one write. */
static size_t log_capture(const char *text, char *buf, size_t size)
{
    int ends[2];
    ssize_t got;
    int old;

    HG_CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    old = log_redirect(ends[1]);
    hg_log_error("rpc", "%s", text);
    log_restore(old);
    got = recv(ends[0], buf, size - 1, MSG_DONTWAIT);
    HG_CHECK(got > 0);
    buf[got] = '\0';
    HG_CHECK(recv(ends[0], buf + got, 1, MSG_DONTWAIT) < 0);
    close(ends[0]);
    close(ends[1]);
    return (size_t) got;
}

HG_TEST(log_line_is_a_single_write)
{
    char buf[2000];

    log_capture("text", buf, sizeof(buf));
    HG_CHECK_EQ_STR(buf, "hg: error: rpc: text\n");
}

HG_TEST(log_lines_are_cut_at_1000_bytes)
{
    static const size_t prefix = sizeof("hg: error: rpc: ") - 1;
    char text[1500];
    char buf[2000];

    memset(text, 'x', sizeof(text));
    text[999 - prefix] = '\0';
    HG_CHECK_EQ_U64(log_capture(text, buf, sizeof(buf)), 1000);
    HG_CHECK_EQ_STR(buf + 995, "xxxx\n");
    text[999 - prefix] = 'x';
    text[1000 - prefix] = '\0';
    HG_CHECK_EQ_U64(log_capture(text, buf, sizeof(buf)), 1000);
    HG_CHECK_EQ_STR(buf + 995, "x...\n");
    text[1000 - prefix] = 'x';
    text[sizeof(text) - 1] = '\0';
    HG_CHECK_EQ_U64(log_capture(text, buf, sizeof(buf)), 1000);
    HG_CHECK_EQ_STR(buf + 995, "x...\n");
}

/* Lines are dropped and counted while no process reads stderr. If a line
 * blocked, the watchdog would end the case. */
static void log_fill(int read_end, int write_end)
{
    char buf[128 * 1024];
    unsigned lines = 0;
    unsigned i;
    ssize_t got;
    int old = log_redirect(write_end);

    HG_CHECK_OK(HG_Set_log_level("debug"));
    for (i = 0; i < 3000; i++)
        hg_log_warning("rpc", "line %0100u", i);
    HG_CHECK(atomic_load(&hg_log_lost) > 0);
    HG_CHECK((fcntl(write_end, F_GETFL) & O_NONBLOCK) == 0);
    HG_CHECK(fcntl(read_end, F_SETFL, O_NONBLOCK) == 0);
    while ((got = read(read_end, buf, sizeof(buf))) > 0)
        for (i = 0; i < (unsigned) got; i++)
            lines += buf[i] == '\n';
    HG_CHECK_EQ_U64(lines, 3000 - atomic_load(&hg_log_lost));
    hg_log_warning("rpc", "the last line");
    log_restore(old);
    got = read(read_end, buf, sizeof(buf) - 1);
    HG_CHECK(got > 0);
    buf[got] = '\0';
    HG_CHECK(strstr(buf, "hg: warning: log: stderr was full: ") == buf);
    HG_CHECK(strstr(buf, "the last line\n") != NULL);
    close(read_end);
    close(write_end);
}

HG_TEST(log_drops_lines_that_a_full_pipe_does_not_take)
{
    int ends[2];

    HG_CHECK(pipe(ends) == 0);
    log_fill(ends[0], ends[1]);
}

HG_TEST(log_drops_lines_that_a_full_socket_does_not_take)
{
    int ends[2];

    HG_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    log_fill(ends[0], ends[1]);
}

/* Several threads, one of which fills the pipe after another has checked it. */
static void *log_flood(void *arg)
{
    unsigned i;

    (void) arg;
    for (i = 0; i < 20000; i++)
        hg_log_warning("rpc", "flood %u", i);
    return NULL;
}

HG_TEST(log_does_not_block_threads_that_write_to_one_pipe)
{
    pthread_t threads[4];
    int ends[2];
    int old;
    int i;

    HG_CHECK(pipe(ends) == 0);
    old = log_redirect(ends[1]);
    HG_CHECK_OK(HG_Set_log_level("debug"));
    for (i = 0; i < 4; i++)
        HG_CHECK(pthread_create(&threads[i], NULL, log_flood, NULL) == 0);
    for (i = 0; i < 4; i++)
        HG_CHECK(pthread_join(threads[i], NULL) == 0);
    log_restore(old);
    close(ends[0]);
    close(ends[1]);
}

HG_TEST(log_survives_a_closed_stderr)
{
    sigset_t pending;
    sigset_t mask;
    int ends[2];
    int old;

    HG_CHECK(pipe(ends) == 0);
    close(ends[0]);
    old = log_redirect(ends[1]);
    close(ends[1]);
    errno = ENOTTY;
    hg_log_error("rpc", "nobody reads");
    log_restore(old);
    HG_CHECK_EQ_INT(errno, ENOTTY);
    HG_CHECK(sigpending(&pending) == 0);
    HG_CHECK(!sigismember(&pending, SIGPIPE));
    HG_CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0);
    HG_CHECK(!sigismember(&mask, SIGPIPE));
}

/* A signal that is pending for the application stays pending. */
HG_TEST(log_leaves_a_pending_sigpipe_that_it_did_not_raise)
{
    sigset_t pending;
    sigset_t set;
    sigset_t before;
    int ends[2];
    int got;
    int old;

    HG_CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGPIPE) == 0);
    HG_CHECK(pthread_sigmask(SIG_BLOCK, &set, &before) == 0);
    HG_CHECK(raise(SIGPIPE) == 0);
    HG_CHECK(pipe(ends) == 0);
    close(ends[0]);
    old = log_redirect(ends[1]);
    close(ends[1]);
    hg_log_error("rpc", "nobody reads");
    log_restore(old);
    HG_CHECK(sigpending(&pending) == 0);
    HG_CHECK(sigismember(&pending, SIGPIPE));
    HG_CHECK(sigwait(&set, &got) == 0);
    HG_CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
}

/* ---- The environment ---- */

/* Prints how many lines of the levels error, warning and debug are written. */
HG_TEST_ROLE(log_counter)
{
    struct log_seen seen = {0};
    char text[32];

    (void) argc;
    (void) argv;
    HG_Set_log_func(log_sink, &seen);
    hg_log_error("rpc", "e");
    hg_log_warning("rpc", "w");
    hg_log_debug("bulk", "d");
    snprintf(text, sizeof(text), "%u", seen.count);
    hg_test_write_parent(text);
}

/* The number of lines of a process with this environment, and what it wrote to
 * stderr itself. */
static unsigned log_run(
    const char *level, const char *subsys, char *err, size_t size)
{
    struct hg_test_peer *peer;
    char *said;
    unsigned count;
    int ends[2];
    ssize_t got;
    int old;

    HG_CHECK(setenv("HG_LOG_LEVEL", level, 1) == 0);
    HG_CHECK(setenv("HG_LOG_SUBSYS", subsys, 1) == 0);
    HG_CHECK(pipe(ends) == 0);
    old = dup(STDERR_FILENO);
    HG_CHECK(old >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
    peer = hg_test_spawn("log_counter", (char *) NULL);
    log_restore(old);
    said = hg_test_read_peer(peer);
    count = (unsigned) strtoul(said, NULL, 10);
    free(said);
    hg_test_stop(peer);
    got = read(ends[0], err, size - 1);
    HG_CHECK(got >= 0);
    err[got] = '\0';
    close(ends[0]);
    return count;
}

HG_TEST(log_reads_the_environment)
{
    char err[500];

    HG_CHECK_EQ_U64(log_run("", "", err, sizeof(err)), 1);
    HG_CHECK_EQ_STR(err, "");
    HG_CHECK_EQ_U64(log_run("none", "", err, sizeof(err)), 0);
    HG_CHECK_EQ_U64(log_run("debug", "", err, sizeof(err)), 3);
    HG_CHECK_EQ_U64(log_run("debug", "bulk", err, sizeof(err)), 1);
    HG_CHECK_EQ_U64(log_run("debug", "~bulk", err, sizeof(err)), 2);
    HG_CHECK_EQ_STR(err, "");
}

HG_TEST(log_reads_mercury_variables_from_the_environment)
{
    static const char *const levels[] = {"dbg", "DEBUG", "Debug"};
    static const char *const lists[] = {
        "hg", "na,hg_all", "hg,~poll", "poll_loop,perf", "~diag", "all,bulk"};
    char err[500];
    size_t i;

    for (i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        HG_CHECK_EQ_U64(log_run(levels[i], "", err, sizeof(err)), 3);
        HG_CHECK_EQ_STR(err, "");
    }
    HG_CHECK_EQ_U64(log_run("fatal", "", err, sizeof(err)), 1);
    HG_CHECK_EQ_STR(err, "");
    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        HG_CHECK_EQ_U64(log_run("debug", lists[i], err, sizeof(err)), 3);
        HG_CHECK_EQ_STR(err, "");
    }
    HG_CHECK_EQ_U64(log_run("debug", "hg,~bulk", err, sizeof(err)), 2);
    HG_CHECK_EQ_STR(err, "");
}

/* tests/lint checks that the list has each name that gen/ uses. */
HG_TEST(log_knows_its_own_subsystems)
{
    char err[500];

    HG_CHECK_EQ_U64(log_run("error", "sm", err, sizeof(err)), 0);
    HG_CHECK_EQ_STR(err, "");
}

HG_TEST(log_warns_once_about_a_bad_environment)
{
    char list[300];
    char err[500];

    HG_CHECK_EQ_U64(log_run("shout", "", err, sizeof(err)), 1);
    HG_CHECK_EQ_STR(err,
        "hg: warning: log: HG_LOG_LEVEL: \"shout\" is not one of none, error, "
        "warning, info, debug; using error\n");
    memset(list, 'x', sizeof(list));
    list[sizeof(list) - 1] = '\0';
    HG_CHECK_EQ_U64(log_run("debug", list, err, sizeof(err)), 3);
    HG_CHECK_EQ_STR(err,
        "hg: warning: log: HG_LOG_SUBSYS: longer than 255 characters; using "
        "all\n");
    HG_CHECK_EQ_U64(log_run("debug", "~nosuch, rpc,zm", err, sizeof(err)), 2);
    HG_CHECK_EQ_STR(err,
        "hg: warning: log: HG_LOG_SUBSYS: \"nosuch\" "
        "is not one of " LOG_SUBSYSTEMS "; ignored\n"
        "hg: warning: log: HG_LOG_SUBSYS: \"zm\" is not one of " LOG_SUBSYSTEMS
        "; ignored\n");
    /* If no name is known, all subsystems log. */
    HG_CHECK_EQ_U64(log_run("debug", "nosuch", err, sizeof(err)), 3);
}

static int log_levels[8];
static unsigned log_seen;

static void log_note(int level, const char *subsys, const char *line, void *arg)
{
    (void) subsys;
    (void) line;
    (void) arg;
    HG_CHECK(log_seen < 8);
    log_levels[log_seen++] = level;
}

/* A loop that looks up a server that is down: one error, and then information,
 * until the text differs or a lookup succeeds. */
HG_TEST(log_has_one_error_of_a_failure_that_repeats)
{
    static const int want[] = {HG_LOG_LEVEL_ERROR, HG_LOG_LEVEL_INFO,
        HG_LOG_LEVEL_INFO, HG_LOG_LEVEL_ERROR, HG_LOG_LEVEL_ERROR,
        HG_LOG_LEVEL_ERROR, HG_LOG_LEVEL_ERROR, HG_LOG_LEVEL_ERROR};
    unsigned i;

    HG_Set_log_level("debug"); /* no line is omitted */
    HG_Set_log_func(log_note, NULL);
    for (i = 0; i < 6; i++) {
        if (i == 5)
            hg_log_forget_error();
        hg_log_keep_errors("lookup");
        hg_log_error("addr", "no response from %d", i == 3 ? 2 : 1);
        hg_log_keep_errors(NULL);
        HG_CHECK_EQ_STR(HG_Get_last_error_text(),
            i == 3 ? "lookup: no response from 2"
                   : "lookup: no response from 1");
    }
    hg_log_error("addr", "no response from 1");
    hg_log_forget_error();
    /* An error that was not logged does not count as the one before. */
    HG_Set_log_level("none");
    hg_log_keep_errors("lookup");
    hg_log_error("addr", "no response from 3");
    HG_CHECK_EQ_STR(HG_Get_last_error_text(), "lookup: no response from 3");
    HG_Set_log_level("error");
    hg_log_error("addr", "no response from 3");
    hg_log_keep_errors(NULL);
    HG_CHECK_EQ_U64(log_seen, sizeof(want) / sizeof(want[0]));
    HG_CHECK_EQ_MEM(log_levels, want, sizeof(want));
}
