/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run: the test runner.
 *
 *     run [-j jobs] [-s scale] [-t seconds] [-w wrapper] [-k part] [-v]
 *         program[@transport]...
 *
 * A program, compiled or script, answers `--list` with its cases, one a line,
 * each with the seconds it may take (0 or none: the default), and runs the case
 * given as its argument: status 0 is passed, 77 skipped, anything else failed.
 * It finds the transport in HG_TEST_TRANSPORT, also when it lists: a case that
 * does not apply there is not listed. A wrapper, such as valgrind, goes before
 * the program.
 *
 * Each case has a supervisor: a process which leads no group, makes a directory
 * for the case's files and starts the case in its own process group. It adopts
 * orphans, so every process that the case leaves is found, reported and killed,
 * as is the whole group after its timeout. A case that leaves one fails, unless
 * it is skipped. Only processes started here are ever signalled. The same holds
 * for files of shared memory that libfabric leaves, whose names contain the
 * process id of the case. The case writes into one file, which is shown only
 * when it fails.
 *
 * The time of a case is the processor time of its processes, and the time in
 * which all their threads sleep. The time in which they wait for a processor
 * does not count: a busy machine stops no case.
 *
 * A long run prints how far it is. The last line is
 * `N passed, N failed, N skipped`.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#define RUN_SKIPPED 77
#define RUN_MAX_JOBS 64
#define RUN_MAX_WORDS 32
#define RUN_GRACE_SECS 2   /* between SIGTERM and SIGKILL */
#define RUN_TICK_SECS 1.0  /* between two looks at the time of a case */
#define RUN_MIN_SECS 0.02  /* the shortest */
#define RUN_TELL_SECS 10.0 /* between two lines about the progress */

struct run_case {
    const char *program;
    const char *transport; /* NULL: none given */
    char *name;
    unsigned seconds;
};

struct run_slot {
    const struct run_case *entry; /* NULL: idle */
    pid_t supervisor;
    FILE *output;
    double started;
};

static struct {
    unsigned jobs, scale, seconds;
    const char *wrapper, *part;
    bool verbose;
} run_options = {0, 1, 60, NULL, NULL, false};

static struct run_case *run_cases;
static size_t run_case_count;
static struct run_slot run_slots[RUN_MAX_JOBS];
static unsigned run_passed, run_failed, run_skipped, run_faults;
static double run_begun, run_told; /* when cases began, and the last line */

static double run_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static void run_die(const char *what)
{
    fprintf(stderr, "run: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* ---- The supervisor of one case ---- */

static void run_exec_case(const struct run_case *entry)
{
    char *argv[RUN_MAX_WORDS + 3], *word = NULL;
    unsigned argc = 0;

    if (run_options.wrapper != NULL)
        word = strdup(run_options.wrapper);
    while (word != NULL && *word != '\0' && argc < RUN_MAX_WORDS) {
        argv[argc++] = word;
        word += strcspn(word, " ");
        while (*word == ' ')
            *word++ = '\0';
    }
    argv[argc++] = strdup(entry->program);
    argv[argc++] = entry->name;
    argv[argc] = NULL;
    if (entry->transport != NULL)
        setenv("HG_TEST_TRANSPORT", entry->transport, 1);
    execvp(argv[0], argv);
    fprintf(stderr, "run: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* ---- The time of a case ---- */

struct run_usage {
    double cpu;    /* seconds */
    bool runnable; /* a thread runs, or waits for a processor */
};

/* Read the state and the times from a file stat(5) of /proc. Returns the
 * state. */
static char run_read_stat(const char *path, double *cpu_p)
{
    unsigned long times[4] = {0}; /* and those of children that have ended */
    char line[1024] = "", state = '?';
    FILE *file = fopen(path, "r");
    const char *rest;

    if (file == NULL)
        return state;
    if (fgets(line, sizeof(line), file) != NULL &&
        (rest = strrchr(line, ')')) != NULL)
        (void) sscanf(rest + 1,
            " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
            &state, &times[0], &times[1], &times[2], &times[3]);
    fclose(file);
    *cpu_p += (double) (times[0] + times[1] + times[2] + times[3]) /
        (double) sysconf(_SC_CLK_TCK);
    return state;
}

static void run_measure(long pid, struct run_usage *usage);

/* Add the children of a thread, and those of its children. */
static void run_measure_children(
    long pid, const char *thread, struct run_usage *usage)
{
    char path[320];
    FILE *children;
    long child;

    (void) snprintf(
        path, sizeof(path), "/proc/%ld/task/%s/children", pid, thread);
    children = fopen(path, "r");
    while (children != NULL && fscanf(children, "%ld", &child) == 1)
        run_measure(child, usage);
    if (children != NULL)
        fclose(children);
}

static void run_measure(long pid, struct run_usage *usage)
{
    char path[320];
    struct dirent *thread;
    double unused = 0;
    DIR *threads;

    (void) snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    (void) run_read_stat(path, &usage->cpu);
    (void) snprintf(path, sizeof(path), "/proc/%ld/task", pid);
    threads = opendir(path);
    while (threads != NULL && (thread = readdir(threads)) != NULL) {
        if (thread->d_name[0] == '.')
            continue;
        (void) snprintf(
            path, sizeof(path), "/proc/%ld/task/%s/stat", pid, thread->d_name);
        if (run_read_stat(path, &unused) == 'R')
            usage->runnable = true;
        run_measure_children(pid, thread->d_name, usage);
    }
    if (threads != NULL)
        closedir(threads);
}

/* The part of the last `seconds` that counts. `cpu` is the processor time of
 * the case before them, and then after them. */
static double run_spent(double seconds, double *cpu)
{
    struct run_usage usage = {0, false};
    char self[32];
    double used;

    (void) snprintf(self, sizeof(self), "%ld", (long) getpid());
    run_measure_children(getpid(), self, &usage);
    used = usage.cpu - *cpu;
    *cpu = usage.cpu;
    if (!usage.runnable || used > seconds)
        return seconds;
    return used > 0 ? used : 0;
}

/* Wait until `pid` ends (true), or until a stop signal comes or the case has
 * used its time (false). The signals are blocked. */
static bool run_wait_until(
    pid_t pid, const sigset_t *signals, double seconds, int *status_p)
{
    double since = run_now(), cpu = 0, tick, left;
    struct timespec pause;
    int got;

    while (waitpid(pid, status_p, WNOHANG) != pid) {
        tick = seconds < RUN_TICK_SECS ? seconds : RUN_TICK_SECS;
        left = since + (tick > RUN_MIN_SECS ? tick : RUN_MIN_SECS) - run_now();
        if (left <= 0) {
            seconds -= run_spent(run_now() - since, &cpu);
            since = run_now();
            if (seconds <= 0)
                return false;
            continue;
        }
        pause.tv_sec = (time_t) left;
        pause.tv_nsec = (long) ((left - (double) pause.tv_sec) * 1e9);
        got = sigtimedwait(signals, NULL, &pause);
        if (got == SIGTERM || got == SIGINT)
            return false;
    }
    return true;
}

/* ---- The end of a case ---- */

/* Kill every child of ours, all orphans of the case, and reap them. Returns how
 * many there were. */
static unsigned run_kill_children(void)
{
    char path[64], command[64];
    FILE *children, *comm;
    unsigned count = 0;
    long pid;

    snprintf(
        path, sizeof path, "/proc/self/task/%ld/children", (long) getpid());
    children = fopen(path, "r");
    while (children != NULL && fscanf(children, "%ld", &pid) == 1) {
        snprintf(path, sizeof path, "/proc/%ld/comm", pid);
        comm = fopen(path, "r");
        if (comm == NULL || fscanf(comm, "%63s", command) != 1)
            snprintf(command, sizeof command, "(unknown)");
        if (comm != NULL)
            fclose(comm);
        fprintf(stderr, "run: left a process behind: %ld %s\n", pid, command);
        kill((pid_t) pid, SIGKILL);
        count++;
    }
    if (children != NULL)
        fclose(children);
    for (pid = 0; pid < (long) count; pid++)
        waitpid(-1, NULL, 0);
    return count;
}

/* Reap dead processes and kill living ones until none is left. */
static unsigned run_clear_orphans(void)
{
    unsigned count = 0, killed;
    pid_t pid;

    for (;;) {
        do
            pid = waitpid(-1, NULL, WNOHANG);
        while (pid > 0);
        if (pid < 0)
            return count;
        killed = run_kill_children();
        count += killed;
        if (killed == 0)
            return count + 1; /* one lives, and the system hides it */
    }
}

/* Remove the files of shared memory that a case has left: "hg-...-PID-...". */
static unsigned run_clear_memory(pid_t pid)
{
    DIR *folder = opendir("/dev/shm");
    const struct dirent *entry;
    unsigned count = 0;
    char own[32];

    (void) snprintf(own, sizeof(own), "-%ld-", (long) pid);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, "hg-", 3) != 0 ||
            strstr(entry->d_name, own) == NULL)
            continue;
        fprintf(
            stderr, "run: left a file behind: /dev/shm/%s\n", entry->d_name);
        (void) unlinkat(dirfd(folder), entry->d_name, 0);
        count++;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

static void run_remove_dir(const char *dir)
{
    pid_t pid;

    if (rmdir(dir) == 0)
        return;
    pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", dir, (char *) NULL);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

/* The result of the case from its wait status. */
static int run_judge(int status)
{
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "run: killed by signal %d (%s)\n", WTERMSIG(status),
            strsignal(WTERMSIG(status)));
        return 1;
    }
    if (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == RUN_SKIPPED)
        return WEXITSTATUS(status);
    fprintf(stderr, "run: ended with status %d\n", WEXITSTATUS(status));
    return 1;
}

/* The case ended by a signal of ours: let the processes it started end, too. */
static void run_wait_for_rest(const sigset_t *signals, double end)
{
    const struct timespec tick = {0, 50000000};

    while (waitpid(-1, NULL, WNOHANG) >= 0 && run_now() < end)
        (void) sigtimedwait(signals, NULL, &tick);
}

/* Runs in its own process, whose stderr is the case's output file. Returns the
 * exit status: 0, 1 or RUN_SKIPPED. */
static int run_supervise(const struct run_case *entry)
{
    unsigned seconds =
        entry->seconds != 0 ? entry->seconds : run_options.seconds;
    char dir[] = "/tmp/hg-test-XXXXXX";
    sigset_t signals, before;
    char scale[16];
    int status = 0, verdict;
    pid_t pid;

#ifdef __linux__
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, &before);
    if (mkdtemp(dir) == NULL)
        run_die(dir);
    (void) snprintf(scale, sizeof(scale), "%u", run_options.scale);
    setenv("HG_TEST_SCALE", scale, 1);
    setenv("HG_TEST_DIR", dir, 1);
    setenv("TMPDIR", dir, 1); /* for files that a killed process leaves */
    /* A library that libfabric may link handles the signals of a crash. */
    setenv("IPATH_NO_BACKTRACE", "1", 1);
    pid = fork();
    if (pid < 0)
        run_die("fork");
    if (pid == 0) {
        setpgid(0, 0);
        sigprocmask(SIG_SETMASK, &before, NULL);
        run_exec_case(entry);
    }
    setpgid(pid, pid);
    if (run_wait_until(
            pid, &signals, (double) (seconds * run_options.scale), &status)) {
        verdict = run_judge(status);
    } else {
        fprintf(
            stderr, "run: stopped after %u s\n", seconds * run_options.scale);
        /* Its peers report their operations in flight, too. */
        kill(-pid, SIGTERM);
        if (!run_wait_until(pid, &signals, RUN_GRACE_SECS, &status)) {
            kill(-pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        run_wait_for_rest(&signals, run_now() + RUN_GRACE_SECS);
        verdict = 1;
    }
    /* A case that is skipped ends at once, and leaves what it has started. */
    if (run_clear_orphans() + run_clear_memory(pid) != 0 &&
        verdict != RUN_SKIPPED)
        verdict = 1;
    run_remove_dir(dir);
    return verdict;
}

/* ---- The runner ---- */

/* The line by which the library's own stderr log, which no harness checks,
 * reports an error. */
static bool run_is_error_line(const char *line)
{
    return !strncmp(line, "hg: error: ", 11);
}

/* Read a case's output: show it on request; otherwise keep the reason of a
 * skip. True if it has an error line that no harness checked. */
static bool run_read_output(FILE *output, bool show, char *reason, size_t size)
{
    bool error = false;
    char line[1024];

    rewind(output);
    while (fgets(line, sizeof line, output) != NULL) {
        if (run_is_error_line(line))
            error = true;
        if (show)
            printf("    %s", line);
        if (!strncmp(line, "skip: ", 6))
            snprintf(reason, size, "%.*s", (int) size - 1, line + 6);
    }
    reason[strcspn(reason, "\n")] = '\0';
    return error;
}

static void run_report(struct run_slot *slot, int status, double cpu)
{
    const struct run_case *entry = slot->entry;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    char reason[256] = "no reason given";
    const char *verdict = "FAIL";

    if (run_read_output(slot->output, false, reason, sizeof reason) &&
        code == 0)
        code = 1;
    if (code == 0) {
        run_passed++;
        verdict = "ok";
    } else if (code == RUN_SKIPPED) {
        run_skipped++;
        run_faults += !strncmp(reason, "fault of libfabric ", 19);
        verdict = "skip";
    } else
        run_failed++;
    if (code != 0 || run_options.verbose)
        printf("%-4s %s%s%s %s (%.2f s, CPU %.2f s)%s%s\n", verdict,
            entry->program, entry->transport != NULL ? "@" : "",
            entry->transport != NULL ? entry->transport : "", entry->name,
            run_now() - slot->started, cpu, code == RUN_SKIPPED ? ": " : "",
            code == RUN_SKIPPED ? reason : "");
    if (code != 0 && code != RUN_SKIPPED)
        run_read_output(slot->output, true, reason, sizeof reason);
    fflush(stdout);
    fclose(slot->output);
    slot->entry = NULL;
}

static void run_start(struct run_slot *slot, const struct run_case *entry)
{
    sigset_t stop, before;
    int null, out;

    slot->output = tmpfile();
    if (slot->output == NULL)
        run_die("tmpfile");
    slot->started = run_now();
    /* A signal finds the slot idle, or with its supervisor. */
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, &before);
    slot->supervisor = fork();
    if (slot->supervisor < 0)
        run_die("fork");
    if (slot->supervisor != 0) {
        slot->entry = entry;
        sigprocmask(SIG_SETMASK, &before, NULL);
        return;
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    null = open("/dev/null", O_RDONLY);
    out = fileno(slot->output);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(2);
    /* The file's position is shared: both streams append to it. */
    fcntl(out, F_SETFL, O_APPEND);
    setvbuf(stderr, NULL, _IOLBF, 0);
    _exit(run_supervise(entry));
}

/* The cases are mixed, so that they take equally long on average. */
static void run_tell(void)
{
    unsigned done = run_passed + run_failed + run_skipped;
    double now = run_now();

    if (now - run_told < RUN_TELL_SECS || done == 0 || done == run_case_count)
        return;
    run_told = now;
    printf("%u of %zu cases, %u failed, about %.0f s left\n", done,
        run_case_count, run_failed,
        (now - run_begun) * (double) (run_case_count - done) / done);
    fflush(stdout);
}

static double run_seconds(const struct timeval *time)
{
    return (double) time->tv_sec + (double) time->tv_usec / 1e6;
}

/* Wait for one supervisor and report its case. */
static void run_finish_one(void)
{
    unsigned i;
    struct rusage used; /* of the case and its waited-for children */
    int status;
    pid_t pid = wait4(-1, &status, 0, &used);

    if (pid < 0 && errno != EINTR)
        run_die("wait");
    for (i = 0; i < run_options.jobs; i++)
        if (run_slots[i].entry != NULL && run_slots[i].supervisor == pid)
            run_report(&run_slots[i], status,
                run_seconds(&used.ru_utime) + run_seconds(&used.ru_stime));
    run_tell();
}

/* Neighbors in the list often all compute, or all wait. Steps of about 0.618 of
 * the list, the golden section, mix them evenly. */
static size_t run_stride(void)
{
    size_t stride = run_case_count * 618 / 1000 + 1, a, b, rest;

    for (;; stride++) {
        for (a = run_case_count, b = stride; b != 0; a = b, b = rest)
            rest = a % b;
        if (a <= 1)
            return stride; /* each case comes once */
    }
}

static void run_all(void)
{
    size_t next = 0, stride = run_stride();
    unsigned i, busy;

    run_begun = run_told = run_now();
    do {
        busy = 0;
        for (i = 0; i < run_options.jobs; i++) {
            if (run_slots[i].entry == NULL && next < run_case_count)
                run_start(&run_slots[i],
                    &run_cases[next++ * stride % run_case_count]);
            if (run_slots[i].entry != NULL)
                busy++;
        }
        if (busy != 0)
            run_finish_one();
    } while (busy != 0);
}

/* Ask one program for its cases. */
static void run_list(const char *program, const char *transport)
{
    char command[512], line[256], name[200];
    struct run_case *grown;
    unsigned seconds;
    FILE *list;

    if (transport != NULL)
        snprintf(command, sizeof command, "HG_TEST_TRANSPORT='%s' '%s' --list",
            transport, program);
    else
        snprintf(command, sizeof command, "'%s' --list", program);
    list = popen(command, "r");
    if (list == NULL)
        run_die(program);
    while (fgets(line, sizeof line, list) != NULL) {
        seconds = 0;
        if (sscanf(line, "%199s %u", name, &seconds) < 1 ||
            (run_options.part != NULL &&
                strstr(program, run_options.part) == NULL &&
                strstr(name, run_options.part) == NULL))
            continue;
        grown = (struct run_case *) realloc(
            run_cases, (run_case_count + 1) * sizeof run_cases[0]);
        if (grown == NULL)
            run_die(program);
        run_cases = grown;
        run_cases[run_case_count++] =
            (struct run_case){program, transport, strdup(name), seconds};
    }
    if (pclose(list) != 0) {
        fprintf(stderr, "run: %s --list fails\n", program);
        exit(2);
    }
}

static void run_usage(void)
{
    fprintf(stderr,
        "usage: run [-j jobs] [-s scale] [-t seconds] "
        "[-w wrapper] [-k part] [-v] program[@transport]...\n");
    exit(2);
}

static unsigned run_number(const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*end != '\0' || value == 0 || value > 100000)
        run_usage();
    return (unsigned) value;
}

static void run_parse(int argc, char **argv)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int option;

    while ((option = getopt(argc, argv, "j:s:t:w:k:v")) != -1)
        switch (option) {
        case 'j': run_options.jobs = run_number(optarg); break;
        case 's': run_options.scale = run_number(optarg); break;
        case 't': run_options.seconds = run_number(optarg); break;
        case 'w': run_options.wrapper = optarg; break;
        case 'k': run_options.part = optarg; break;
        case 'v': run_options.verbose = true; break;
        default: run_usage();
        }
    if (run_options.jobs == 0)
        run_options.jobs = cores > 0 ? (unsigned) cores : 1;
    if (run_options.jobs > RUN_MAX_JOBS)
        run_options.jobs = RUN_MAX_JOBS;
}

/* An interrupted run stops its supervisors, and they their cases; it exits when
 * all of them have exited. */
static void run_on_signal(int signal_number)
{
    unsigned i;

    for (i = 0; i < run_options.jobs; i++)
        if (run_slots[i].entry != NULL)
            kill(run_slots[i].supervisor, SIGTERM);
    for (i = 0; i < run_options.jobs; i++)
        if (run_slots[i].entry != NULL)
            waitpid(run_slots[i].supervisor, NULL, 0);
    _exit(128 + signal_number);
}

int main(int argc, char **argv)
{
    char *at;
    int i;

    run_parse(argc, argv);
    for (i = optind; i < argc; i++) {
        at = strchr(argv[i], '@');
        if (at != NULL)
            *at++ = '\0';
        run_list(argv[i], at);
    }
    signal(SIGINT, run_on_signal);
    signal(SIGTERM, run_on_signal);
    run_all();
    if (run_faults > 0)
        printf("%u left out for faults of libfabric (tests/ofi/faults.h)\n",
            run_faults);
    printf("%u passed, %u failed, %u skipped\n", run_passed, run_failed,
        run_skipped);
    return run_failed != 0 || run_case_count == 0;
}
