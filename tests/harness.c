/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * harness: main, checks, log expectations, peers and the failing allocator.
 *
 * It uses only the public hg.h, so that it can be linked with any test program,
 * whether that includes hg.c or links hg.o.
 *
 * Checks, log lines and allocations may come from any thread: expectations
 * have a mutex, the counters are atomics. Cases, peers and the rest belong to
 * the main thread.
 */
#define _GNU_SOURCE 1
#include "harness.h"

#include "hg.h"
#include "mpi/ranks.h"
#include "ofi/faults.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TEST_CHANNEL 3   /* of a role started by fork and exec */
#define TEST_MAX_FD 4096 /* descriptors a role closes after fork */
#define TEST_MAX_PEERS 64
#define TEST_MAX_EXPECTS 64

struct hg_test_peer {
    pid_t pid;
    int channel; /* -1 once closed */
    const char *role;
};

struct test_expect {
    const char *part;
    bool required;
    unsigned count;
};

static struct hg_test_case *test_cases;
static struct hg_test_case **test_cases_tail = &test_cases;
static struct hg_test_role *test_roles;
static const char *test_program; /* argv[0], for exec */
static const char *test_running; /* name of the case or role */
/* A role's end of its parent's channel. */
static int test_channel = TEST_CHANNEL;
static _Atomic(const char *) test_place = "(start)";

static struct hg_test_peer *test_peers[TEST_MAX_PEERS];

static pthread_mutex_t test_log_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct test_expect test_expects[TEST_MAX_EXPECTS];
static unsigned test_expect_count;
static unsigned test_unexpected_logs;

static atomic_int_fast64_t test_alloc_live;
static atomic_int_fast64_t test_alloc_bytes;
static atomic_uint_fast64_t test_alloc_countdown;
static atomic_bool test_alloc_has_failed;

/* ---- Cases ---- */

void hg_test_add_case(struct hg_test_case *entry)
{
    *test_cases_tail = entry;
    test_cases_tail = &entry->next;
}

void hg_test_add_role(struct hg_test_role *entry)
{
    entry->next = test_roles;
    test_roles = entry;
}

void hg_test_at(const char *here)
{
    atomic_store_explicit(&test_place, here, memory_order_relaxed);
}

void hg_test_fail(const char *here, const char *format, ...)
{
    va_list args;

    flockfile(stderr);
    fprintf(stderr, "%s: %s: check failed: ", here, test_running);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
    _exit(1);
}

void hg_test_skip(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "skip: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
    if (hg_test_is_mpi())
        ranks_skip();
    _exit(77);
}

void hg_test_eq_int(
    const char *here, const char *text, intmax_t got, intmax_t want)
{
    hg_test_at(here);
    if (got != want)
        hg_test_fail(
            here, "%s is %" PRIdMAX ", want %" PRIdMAX, text, got, want);
}

void hg_test_eq_u64(
    const char *here, const char *text, uint64_t got, uint64_t want)
{
    hg_test_at(here);
    if (got != want)
        hg_test_fail(here,
            "%s is %" PRIu64 " (0x%" PRIx64 "), want %" PRIu64 " (0x%" PRIx64
            ")",
            text, got, got, want, want);
}

void hg_test_eq_str(
    const char *here, const char *text, const char *got, const char *want)
{
    hg_test_at(here);
    if (got == want || (got != NULL && want != NULL && !strcmp(got, want)))
        return;
    hg_test_fail(here, "%s is \"%s\", want \"%s\"", text,
        got != NULL ? got : "(NULL)", want != NULL ? want : "(NULL)");
}

void hg_test_eq_mem(const char *here, const char *text, const void *got,
    const void *want, size_t size)
{
    const unsigned char *g = (const unsigned char *) got;
    const unsigned char *w = (const unsigned char *) want;
    size_t i = 0;

    hg_test_at(here);
    if (size == 0 || memcmp(got, want, size) == 0)
        return;
    while (i + 1 < size && g[i] == w[i])
        i++;
    hg_test_fail(here, "%s: byte %zu of %zu is 0x%02x, want 0x%02x", text, i,
        size, g[i], w[i]);
}

void hg_test_eq_ret(const char *here, const char *text, int got, int want)
{
    hg_test_at(here);
    if (got != want)
        hg_test_fail(here, "%s is %d (%s), want %d (%s)", text, got,
            HG_Error_to_string(got), want, HG_Error_to_string(want));
}

/* ---- Logs ---- */

static void test_add_expect(const char *part, bool required)
{
    pthread_mutex_lock(&test_log_mutex);
    if (test_expect_count < TEST_MAX_EXPECTS)
        test_expects[test_expect_count++] =
            (struct test_expect){part, required, 0};
    else
        hg_test_fail(HG_TEST_HERE, "too many log expectations");
    pthread_mutex_unlock(&test_log_mutex);
}

void hg_test_expect_log(const char *part)
{
    test_add_expect(part, true);
}

void hg_test_allow_log(const char *part)
{
    test_add_expect(part, false);
}

unsigned hg_test_log_count(const char *part)
{
    unsigned i, count = 0;

    pthread_mutex_lock(&test_log_mutex);
    for (i = 0; i < test_expect_count; i++)
        if (!strcmp(test_expects[i].part, part))
            count = test_expects[i].count;
    pthread_mutex_unlock(&test_log_mutex);
    return count;
}

/* Whether a warning reports objects that were not freed. */
static bool test_is_leak(int level, const char *line)
{
    return level == HG_LOG_LEVEL_WARNING &&
        (strstr(line, "released what was not freed") != NULL ||
            strstr(line, " outlive") != NULL ||
            strstr(line, "which is leaked") != NULL);
}

/* The library's log function: every line is shown, errors and leaks are
 * checked. */
static void test_log_sink(
    int level, const char *subsys, const char *line, void *arg)
{
    bool leak = test_is_leak(level, line);
    bool judged = level == HG_LOG_LEVEL_ERROR || leak;
    bool expected = false;
    unsigned i;

    (void) arg;
    pthread_mutex_lock(&test_log_mutex);
    for (i = 0; i < test_expect_count && !expected; i++) {
        const char *part = test_expects[i].part;

        if (part[0] == '\0' ? level == HG_LOG_LEVEL_ERROR
                            : strstr(line, part) != NULL) {
            test_expects[i].count++;
            expected = true;
        }
    }
    expected = expected || !judged;
    if (!expected)
        test_unexpected_logs++;
    fprintf(stderr, "%s: logged%s: %s: %s\n", test_running,
        expected   ? ""
            : leak ? " an unexpected leak"
                   : " an unexpected error",
        subsys, line);
    pthread_mutex_unlock(&test_log_mutex);
}

static void test_judge_logs(void)
{
    unsigned i;

    pthread_mutex_lock(&test_log_mutex);
    if (test_unexpected_logs != 0)
        hg_test_fail("at its end",
            "%u unexpected error line(s) or leak(s) were logged",
            test_unexpected_logs);
    for (i = 0; i < test_expect_count; i++)
        if (test_expects[i].required && test_expects[i].count == 0)
            hg_test_fail("at its end", "no line with \"%s\" was logged",
                test_expects[i].part);
    pthread_mutex_unlock(&test_log_mutex);
}

/* ---- Time, randomness, names, descriptors ---- */

unsigned hg_test_scaled_ms(unsigned ms)
{
    const char *scale = getenv("HG_TEST_SCALE");

    return scale != NULL ? ms * (unsigned) strtoul(scale, NULL, 10) : ms;
}

unsigned hg_test_lookup_ms(void)
{
    /* In a lookup between jobs four processes take part. */
    if (strcmp(hg_test_transport(), "mpi+dynamic") == 0)
        return hg_test_scaled_ms(5000);
    return hg_test_is_ofi() || hg_test_is_mpi() ? hg_test_scaled_ms(2000) : 0;
}

uint64_t hg_test_seed(void)
{
    static uint64_t seed;
    const char *text = getenv("HG_TEST_SEED");
    struct timespec now;

    if (seed != 0)
        return seed;
    if (text != NULL)
        seed = strtoull(text, NULL, 0);
    if (seed == 0) {
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t) now.tv_sec ^ (uint64_t) now.tv_nsec << 20 ^
            (uint64_t) getpid() << 48;
        hg_test_random(&seed);
    }
    fprintf(stderr, "%s: HG_TEST_SEED=0x%" PRIx64 "\n", test_running, seed);
    return seed;
}

/* SplitMix64, after Steele, Lea and Flood (2014). */
uint64_t hg_test_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Transport names that are no schemes: they can be used in make and shells. The
 * words are for tests/ofi/hook.h. */
static const struct {
    const char *name, *scheme, *words;
} test_names[] = {
    {"mux", "zmq+tcp", NULL},
    {"mux-ofi", "ofi+tcp", NULL},
    {"mpi+static-2", "mpi+static", NULL},
    {"mpi+static-8", "mpi+static", NULL},
    {"ofi+rxm", "ofi+tcp;ofi_rxm", NULL},
    {"ofi+rxd", "ofi+udp;ofi_rxd", NULL},
    /* The demands of hardware providers, and more. */
    {"ofi-hard", "ofi+tcp",
        "local,provkey,virt,allocated,inject=0,iov=1,msg=65536,order,"
        "again=20"},
    {"ofi-cxi", "ofi+tcp",
        "provkey,endpoint,allocated,inject=192,iov=1,mriov=1,manual,order,"
        "authkey"},
    {"ofi-raw", "ofi+tcp",
        "local,rawkey,virt,allocated,context,mriov=1,cqagain=4,nowait"},
};

/* A variable that the library or the hook reads. setenv takes a lock, which may
 * be locked in a child of fork. */
static void test_setenv(const char *name, const char *value)
{
    const char *now = getenv(name);

    if (now == NULL || strcmp(now, value) != 0)
        HG_CHECK(setenv(name, value, 1) == 0);
}

static const char *test_scheme(const char *transport)
{
    size_t i;

    for (i = 0; i < sizeof(test_names) / sizeof(test_names[0]); i++)
        if (!strcmp(transport, test_names[i].name)) {
            if (test_names[i].words != NULL)
                test_setenv("HG_TEST_OFI", test_names[i].words);
            return test_names[i].scheme;
        }
    return transport;
}

const char *hg_test_transport(void)
{
    const char *transport = getenv("HG_TEST_TRANSPORT");

    if (transport == NULL || *transport == '\0' || hg_test_emulated())
        return "self";
    if (!strncmp(transport, "sm-", 3)) {
        test_setenv("HG_SM_RMA", transport + 3);
        return "sm";
    }
    return test_scheme(transport);
}

bool hg_test_is_mux(void)
{
    const char *transport = getenv("HG_TEST_TRANSPORT");

    return transport != NULL && !strncmp(transport, "mux", 3);
}

bool hg_test_is_ofi(void)
{
    return !strncmp(hg_test_transport(), "ofi+", 4);
}

bool hg_test_is_mpi(void)
{
    return !strncmp(hg_test_transport(), "mpi+", 4);
}

/* How many processes mpirun starts: "mpi+static-8" has eight, others three. */
static unsigned test_rank_count(void)
{
    const char *count = strchr(getenv("HG_TEST_TRANSPORT"), '-');

    return count != NULL ? (unsigned) strtoul(count + 1, NULL, 10) : 3;
}

bool hg_test_crosses_hosts(void)
{
    const char *transport = hg_test_transport();

    return strstr(transport, "tcp") != NULL ||
        strstr(transport, "udp") != NULL ||
        strstr(transport, "sockets") != NULL;
}

bool hg_test_emulated(void)
{
    const char *transport = getenv("HG_TEST_TRANSPORT");

    return transport != NULL && !strcmp(transport, "self-emul");
}

bool hg_test_moves_in_messages(void)
{
    const char *scheme = hg_test_transport();

    return hg_test_emulated() ||
        (!hg_test_is_mux() &&
            (!strncmp(scheme, "zmq", 3) || !strncmp(scheme, "mpi", 3)));
}

bool hg_test_is_self(void)
{
    return !strcmp(hg_test_transport(), "self");
}

bool hg_test_finds_callers(void)
{
    const char *transport = hg_test_transport();

    return hg_test_crosses_processes() && strncmp(transport, "zmq", 3) != 0 &&
        strcmp(transport, "mux") != 0 && strcmp(transport, "unix") != 0 &&
        strcmp(transport, "mpi+dynamic") != 0;
}

bool hg_test_holds_back(void)
{
    return strcmp(hg_test_transport(), "unix") != 0;
}

bool hg_test_crosses_processes(void)
{
    return !hg_test_is_self() && strstr(hg_test_transport(), "inproc") == NULL;
}

bool hg_test_reports_death(void)
{
    return hg_test_crosses_processes() && strcmp(hg_test_transport(), "unix");
}

bool hg_test_is_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");

    return preload != NULL && strstr(preload, "vgpreload") != NULL;
}

void hg_test_exit_child(int status)
{
    char line[32];

    (void) snprintf(line, sizeof(line), "exit %d", status);
    if (hg_test_is_valgrind())
        (void) execl("/bin/sh", "sh", "-c", line, (char *) NULL);
    _exit(status);
}

bool hg_test_is_plain(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    (defined(HG_ENABLE_EPOLL) && !HG_ENABLE_EPOLL)
    return false;
#else
    return !hg_test_is_valgrind();
#endif
}

bool hg_test_has_epoll(void)
{
#if defined(HG_ENABLE_EPOLL)
    return HG_ENABLE_EPOLL != 0;
#elif defined(__linux__)
    return true;
#else
    return false;
#endif
}

const char *hg_test_dir(void)
{
    const char *dir = getenv("HG_TEST_DIR");

    return dir != NULL ? dir : "/tmp";
}

char *hg_test_listen_string(void)
{
    static _Atomic unsigned serial;
    const char *transport = hg_test_transport();
    size_t length = strlen(transport);
    /* Names left by killed processes, whose ids are reused, may exist: files of
     * libfabric's shm. */
    struct timespec now;
    char *string = NULL;
    int n;

    clock_gettime(CLOCK_REALTIME, &now);
    if ((length >= 3 && !strcmp(transport + length - 3, "ipc")) ||
        !strcmp(transport, "unix"))
        n = asprintf(&string, "%s://%s/%ld-%u", transport, hg_test_dir(),
            (long) getpid(), atomic_fetch_add(&serial, 1));
    else if (hg_test_crosses_hosts())
        n = asprintf(&string, "%s://127.0.0.1:0%s", transport,
            hg_test_is_mux() ? ";sm://" : "");
    else if (!strcmp(transport, "self") || hg_test_is_mpi())
        n = asprintf(&string, "%s://", transport); /* no name */
    else
        n = asprintf(&string, "%s://hg-test-%ld-%u-%lx", transport,
            (long) getpid(), atomic_fetch_add(&serial, 1), now.tv_nsec);
    HG_CHECK(n > 0);
    return string;
}

unsigned hg_test_fd_count(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    HG_CHECK(dir != NULL);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count - 3; /* ".", ".." and the directory's own */
}

/* ---- Peers ---- */

/* Only async-signal-safe calls: other threads may hold any lock. */
static void test_become(int channel, char **argv)
{
    int fd;

    if (channel != TEST_CHANNEL)
        dup2(channel, TEST_CHANNEL);
    else
        fcntl(channel, F_SETFD, 0);
    for (fd = TEST_CHANNEL + 1; fd < TEST_MAX_FD; fd++)
        close(fd);
    execv(test_program, argv);
    _exit(127);
}

/* One line, read byte by byte: nothing after it is consumed. */
static char *test_read_line(int channel)
{
    char *line = NULL;
    size_t length = 0;
    ssize_t n;

    for (;;) {
        line = (char *) realloc(line, length + 1);
        HG_CHECK(line != NULL);
        do
            n = read(channel, line + length, 1);
        while (n < 0 && errno == EINTR);
        if (n <= 0) {
            free(line);
            return NULL;
        }
        if (line[length] == '\n') {
            line[length] = '\0';
            return line;
        }
        length++;
    }
}

static void test_write_line(int channel, const char *line)
{
    char *text = NULL;
    size_t done = 0, size;
    ssize_t n = 0;
    int length = asprintf(&text, "%s\n", line);

    HG_CHECK(length > 0);
    size = (size_t) length;
    while (done < size && (n >= 0 || errno == EINTR)) {
        n = send(channel, text + done, size - done, MSG_NOSIGNAL);
        if (n > 0)
            done += (size_t) n;
    }
    free(text);
}

/* Let a rank run a role: an empty line ends its name and arguments. */
static void test_give_role(struct hg_test_peer *peer, char **words)
{
    peer->channel = ranks_take(&peer->pid);
    if (peer->channel < 0)
        hg_test_skip("needs more ranks than there are");
    for (; *words != NULL; words++) {
        HG_CHECK(**words != '\0' && strchr(*words, '\n') == NULL);
        test_write_line(peer->channel, *words);
    }
    test_write_line(peer->channel, "");
}

/* A child process with a channel at TEST_CHANNEL. */
static void test_fork(struct hg_test_peer *peer, char **argv)
{
    int ends[2];

    HG_CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    peer->pid = fork();
    HG_CHECK(peer->pid >= 0);
    if (peer->pid == 0)
        test_become(ends[1], argv);
    close(ends[1]);
    peer->channel = ends[0];
}

struct hg_test_peer *hg_test_spawn(const char *role, ...)
{
    static char role_option[] = "--role";
    char *argv[RANKS_MAX_WORDS + 3] = {(char *) (uintptr_t) test_program,
        role_option, (char *) (uintptr_t) role};
    struct hg_test_peer *peer = (struct hg_test_peer *) calloc(1, sizeof *peer);
    unsigned slot = 0, argc = 3;
    va_list args;

    HG_CHECK(peer != NULL);
    while (slot < TEST_MAX_PEERS && test_peers[slot] != NULL)
        slot++;
    HG_CHECK(slot < TEST_MAX_PEERS);
    va_start(args, role);
    while ((argv[argc] = va_arg(args, char *)) != NULL) {
        argc++;
        HG_CHECK(argc < sizeof argv / sizeof argv[0]);
    }
    va_end(args);
    peer->role = role;
    if (hg_test_is_mpi())
        test_give_role(peer, argv + 2);
    else
        test_fork(peer, argv);
    test_peers[slot] = peer;
    return peer;
}

pid_t hg_test_peer_pid(const struct hg_test_peer *peer)
{
    return peer->pid;
}

char *hg_test_read_peer(struct hg_test_peer *peer)
{
    char *line = test_read_line(peer->channel);

    if (line == NULL)
        hg_test_fail("hg_test_read_peer",
            "peer %s ended without writing a line", peer->role);
    return line;
}

void hg_test_write_peer(struct hg_test_peer *peer, const char *line)
{
    test_write_line(peer->channel, line);
}

char *hg_test_read_parent(void)
{
    return test_read_line(test_channel);
}

void hg_test_write_parent(const char *line)
{
    test_write_line(test_channel, line);
}

void hg_test_freeze(struct hg_test_peer *peer)
{
    char path[64], state = 0;
    FILE *stat;

    (void) snprintf(path, sizeof(path), "/proc/%ld/stat", (long) peer->pid);
    hg_test_signal(peer, SIGSTOP);
    while (state != 'T') {
        stat = fopen(path, "r");
        HG_CHECK(stat != NULL && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1);
        HG_CHECK(fclose(stat) == 0);
    }
}

int hg_test_parent_fd(void)
{
    return test_channel;
}

void hg_test_signal(struct hg_test_peer *peer, int signal_number)
{
    if (hg_test_is_mpi() && signal_number == SIGKILL)
        hg_test_skip("a rank that dies ends the whole job");
    HG_CHECK(!kill(peer->pid, signal_number));
}

int hg_test_wait(struct hg_test_peer *peer)
{
    unsigned slot = 0;
    int status = 0;
    char *line;

    if (hg_test_is_mpi()) { /* mpirun notices a rank that fails */
        while ((line = test_read_line(peer->channel)) != NULL)
            free(line);
        ranks_return();
    } else
        while (waitpid(peer->pid, &status, 0) < 0)
            HG_CHECK(errno == EINTR);
    while (test_peers[slot] != peer)
        slot++;
    test_peers[slot] = NULL;
    close(peer->channel);
    free(peer);
    return status;
}

void hg_test_stop(struct hg_test_peer *peer)
{
    const char *role = peer->role;
    int status;

    shutdown(peer->channel, SHUT_WR);
    status = hg_test_wait(peer);
    if (WIFSIGNALED(status))
        hg_test_fail("hg_test_stop", "peer %s was killed by signal %d", role,
            WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        hg_test_fail("hg_test_stop", "peer %s ended with status %d", role,
            WEXITSTATUS(status));
}

/* ---- Out of memory ---- */

/* Count one allocation; true if it must fail. */
static bool test_alloc_fails(void)
{
    uint_fast64_t left = atomic_load(&test_alloc_countdown);

    while (left != 0)
        if (atomic_compare_exchange_weak(
                &test_alloc_countdown, &left, left - 1)) {
            if (left == 1)
                atomic_store(&test_alloc_has_failed, true);
            return left == 1;
        }
    return false;
}

static void test_count_bytes(void *ptr, int sign)
{
    atomic_fetch_add(
        &test_alloc_bytes, sign * (int64_t) malloc_usable_size(ptr));
}

static void *test_malloc(size_t size, void *arg)
{
    void *ptr = NULL;

    (void) arg;
    if (!test_alloc_fails())
        ptr = malloc(size);
    if (ptr != NULL) {
        atomic_fetch_add(&test_alloc_live, 1);
        test_count_bytes(ptr, 1);
    }
    return ptr;
}

static void *test_realloc(void *old, size_t size, void *arg)
{
    void *ptr = NULL;

    (void) arg;
    if (test_alloc_fails())
        return NULL;
    test_count_bytes(old, -1);
    ptr = realloc(old, size);
    test_count_bytes(ptr != NULL ? ptr : old, 1);
    if (ptr != NULL && old == NULL)
        atomic_fetch_add(&test_alloc_live, 1);
    return ptr;
}

static void test_free(void *ptr, void *arg)
{
    (void) arg;
    if (ptr != NULL)
        atomic_fetch_sub(&test_alloc_live, 1);
    test_count_bytes(ptr, -1);
    free(ptr);
}

const struct hg_allocator *hg_test_allocator(void)
{
    static const struct hg_allocator allocator =
        HG_ALLOCATOR_INITIALIZER(test_malloc, test_realloc, test_free, NULL);

    return &allocator;
}

void hg_test_alloc_install(void)
{
    HG_CHECK_OK(HG_Set_allocator(hg_test_allocator()));
}

void hg_test_alloc_fail_at(uint64_t nth)
{
    atomic_store(&test_alloc_has_failed, false);
    atomic_store(&test_alloc_countdown, nth);
}

bool hg_test_alloc_failed(void)
{
    return atomic_load(&test_alloc_has_failed);
}

int64_t hg_test_alloc_bytes(void)
{
    return atomic_load(&test_alloc_bytes);
}

int64_t hg_test_alloc_live(void)
{
    return atomic_load(&test_alloc_live);
}

unsigned hg_test_oom_loop(int (*body)(void *arg), void *arg)
{
    int64_t live;
    unsigned round;
    int ret;

    HG_CHECK_EQ_INT(body(arg), 0);
    hg_test_allow_log("");
    live = hg_test_alloc_live();
    for (round = 1;; round++) {
        hg_test_alloc_fail_at(round);
        ret = body(arg);
        if (hg_test_alloc_live() != live)
            hg_test_fail("hg_test_oom_loop",
                "%" PRId64 " block(s) leak when allocation %u fails",
                hg_test_alloc_live() - live, round);
        if (!hg_test_alloc_failed())
            break;
    }
    hg_test_alloc_fail_at(0);
    if (ret != 0)
        hg_test_fail("hg_test_oom_loop", "body fails by itself: %d", ret);
    return round - 1;
}

/* ---- main ---- */

/* Print the library's operations in flight. The interrupted thread may hold a
 * lock that this needs, such as malloc's: the runner waits for a limited time
 * only. */
static void test_dump(void)
{
    FILE *stream = fdopen(dup(2), "w");

    if (stream != NULL) {
        fprintf(stream, "watchdog: in flight in %s:\n", test_running);
        (void) HG_Dump(NULL, stream);
    }
}

/* The runner's timeout was reached: print the last place. */
static void test_on_term(int signal_number)
{
    static const char text[] = "watchdog: the last place reached is ";
    const char *place = atomic_load_explicit(&test_place, memory_order_relaxed);

    (void) signal_number;
    if (write(2, text, sizeof text - 1) < 0 ||
        write(2, place, strlen(place)) < 0 || write(2, "\n", 1) < 0)
        _exit(2);
    test_dump();
    _exit(1);
}

static bool test_applies(const struct hg_test_case *entry)
{
    return entry->applies == NULL || entry->applies();
}

/* In libfabric, which not every program is linked with. */
extern uint32_t fi_version(void) __attribute__((weak));

/* Skip a case that fails because of the provider. */
static void test_skip_fault(const char *name)
{
    const char *transport = hg_test_transport();
    size_t i;

    for (i = 0; i < sizeof(test_faults) / sizeof(test_faults[0]); i++) {
        const struct test_fault *fault = &test_faults[i];

        /* fi_version comes last: it may load libfabric, which is slow. */
        if (fi_version != NULL && !strcmp(fault->transport, transport) &&
            !strcmp(fault->name, name) &&
            fi_version() == (fault->major << 16 | fault->minor))
            hg_test_skip("fault of libfabric %u.%u: tests/ofi/%s", fault->major,
                fault->minor, fault->program);
    }
}

static int test_run_case(const char *name)
{
    const struct hg_test_case *entry = test_cases;
    unsigned i;

    while (entry != NULL && strcmp(entry->name, name) != 0)
        entry = entry->next;
    if (entry == NULL) {
        fprintf(stderr, "%s: no case %s\n", test_program, name);
        return 2;
    }
    if (!test_applies(entry)) {
        fprintf(stderr, "%s: %s does not apply to %s\n", test_program, name,
            hg_test_transport());
        return 2;
    }
    test_skip_fault(name);
    entry->run();
    for (i = 0; i < TEST_MAX_PEERS; i++)
        if (test_peers[i] != NULL)
            hg_test_stop(test_peers[i]);
    test_judge_logs();
    return 0;
}

static int test_run_role(const char *name, int argc, char **argv)
{
    const struct hg_test_role *entry = test_roles;

    while (entry != NULL && strcmp(entry->name, name) != 0)
        entry = entry->next;
    if (entry == NULL) {
        fprintf(stderr, "%s: no role %s\n", test_program, name);
        return 2;
    }
    entry->run(argc, argv);
    test_judge_logs();
    return 0;
}

/* On every rank but the first: run one role after the other. */
static int test_run_rank(void)
{
    char *words[RANKS_MAX_WORDS];
    int count, status = 0;

    do {
        test_channel = ranks_join();
        for (count = 0; count < RANKS_MAX_WORDS; count++) {
            words[count] = test_read_line(test_channel);
            if (words[count] == NULL || *words[count] == '\0')
                break;
        }
        HG_CHECK(count < RANKS_MAX_WORDS);
        if (count > 0) {
            test_running = words[0];
            status = test_run_role(words[0], count - 1, words + 1);
            test_expect_count = 0;
        }
        close(test_channel);
    } while (count > 0 && status == 0);
    if (status == 0)
        ranks_leave();
    return status;
}

int main(int argc, char **argv)
{
    const struct hg_test_case *entry;
    int status;

    test_program = argv[0];
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (entry = test_cases; entry != NULL; entry = entry->next)
            if (test_applies(entry))
                printf("%s %u\n", entry->name, entry->seconds);
        fflush(stdout);
        _exit(0); /* a sanitizer would look for leaks */
    }
    if (argc < 2 ||
        (argv[1][0] == '-' && strcmp(argv[1], "--role") != 0 &&
            strcmp(argv[1], "--rank") != 0)) {
        fprintf(stderr, "usage: %s --list | CASE\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGTERM, test_on_term);
    (void) hg_test_transport(); /* sets its variables */
    HG_Set_log_func(test_log_sink, NULL);
    if (getenv("HG_LOG_LEVEL") == NULL) /* leaks are warnings */
        HG_CHECK_OK(HG_Set_log_level("warning"));
    if (argc >= 3 && !strcmp(argv[1], "--role")) {
        test_running = argv[2];
        return test_run_role(argv[2], argc - 3, argv + 3);
    }
    test_running = argv[1];
    if (!hg_test_is_mpi())
        return test_run_case(argv[1]);
    if (ranks_launch == NULL) {
        fprintf(stderr, "%s: is not linked with MPI\n", argv[0]);
        return 2;
    }
    if (!strcmp(argv[1], "--rank"))
        return test_run_rank();
    ranks_launch(argv[0], argv[1], test_rank_count(),
        !strcmp(hg_test_transport(), "mpi+dynamic"));
    status = test_run_case(argv[1]);
    if (status == 0)
        ranks_leave();
    return status;
}
