/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gasnetrun_hg: start the nodes of a GASNet job, collect their output, and end
 * all of them when one ends.
 *
 *     gasnetrun_hg -n 4 PROGRAM            on this host
 *     gasnetrun_hg -n 4 -H a,b PROGRAM     on hosts, with ssh
 *     gasnetrun_hg -n 4 -a mpi+static:// PROGRAM    with mpirun
 *
 * One host. The nodes are children. Node 0 starts first and writes its address
 * to a pipe; the others get it in GASNET_HG_ROOT (see boot.c).
 *
 * Hosts. The children are "ssh HOST gasnetrun_hg --on-host". Each gets its part
 * of the job on stdin, and runs it as a launcher of one host. Its stdin stays
 * open: at its end the part ends. Its stdout carries lines that begin with a
 * letter: o output, p output without a newline, r the address of node 0, x the
 * exit code of the first node that failed.
 *
 *     launcher --- ssh ---> gasnetrun_hg --on-host ---> nodes
 *         stdin: the part of the job, then nothing
 *         <-- stdout: o, p, r, x           <-- pipes
 *         <-- stderr: whole lines
 *
 * The end of a job. A node that a signal has ended, ends the job at once; a
 * status other than 0 ends it after 0.2 s, and 0 after 1.5 s: the others may
 * be about to end, too. Then the others get SIGQUIT, and SIGKILL 3 s later. The
 * exit code is the first that was not 0 before SIGQUIT.
 *
 * If the launcher is killed, the kernel kills the nodes (PR_SET_PDEATHSIG). A
 * node leads a process group, which is killed when the job ends, so that its
 * own children do not survive it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../usage.h"

#define RUN "gasnetrun_hg"
#define RUN_MAX_NODES 65535u
#define RUN_LINE 65536u    /* longest line that is kept whole */
#define RUN_FAILED_MS 200u /* from a failure to SIGQUIT */
/* From the first clean end to SIGQUIT. Nodes by themselves wait 2 s. */
#define RUN_CLEAN_MS 1500u
#define RUN_QUIT_MS 3000u      /* from SIGQUIT to SIGKILL */
#define RUN_HOST_MS 2000u      /* more for the launchers of other hosts */
#define RUN_FDS 4u             /* descriptors for each child */
#define RUN_ERROR 1            /* exit code: the job cannot run */
#define RUN_NOT_EXECUTABLE 126 /* as shells have it */
#define RUN_NOT_FOUND 127

static const char run_help[] =
    "usage: gasnetrun_hg -n NODES [OPTIONS] PROGRAM [ARGUMENT...]\n"
    "\n"
    "Start NODES processes of a GASNet program, print their output in whole\n"
    "lines, and end all of them when one ends. The exit code is that of the\n"
    "first node that fails; 128 and the number of a signal that ended it.\n"
    "\n"
    "  -n NODES      how many, from 1 to 65535\n"
    "  -H HOST[:COUNT][,...]\n"
    "                start them on these hosts, COUNT on each; without COUNT,\n"
    "                the same number on each\n"
    "  -f FILE       the same from a file: a host a line, and its count\n"
    "  -a ADDRESS    where nodes listen; default sm://, and with hosts\n"
    "                \"zmq+tcp://0.0.0.0;sm://\". With mpi+static:// mpirun\n"
    "                starts them\n"
    "  -v            report what is started and how it ends\n"
    "\n"
    "All nodes have the environment of the launcher, no standard input, and\n"
    "its working directory.\n"
    "\n"
    "Environment:\n"
    "  GASNET_HG_NA      as -a\n"
    "  GASNET_HG_SSH     the command of -H, with options; default ssh\n"
    "  GASNET_HG_MPIRUN  the command of mpi+static, with options; default\n"
    "                    mpirun\n";

/* The first line of the part of a host has its size in bytes. */
#define RUN_PART_FORMAT "GHP1 %012zu\n"
#define RUN_PART_HEADER 18u
#define RUN_PART_MOST (16u << 20)

/* Output of a child that is not a whole line yet. */
struct run_stream {
    int fd; /* read end; -1: closed */
    size_t used;
    char *bytes; /* RUN_LINE, two more of a frame, and a NUL */
};

/* A node, or the launcher on a host. */
struct run_child {
    pid_t pid;  /* 0: not started, or reaped */
    bool ended; /* it stays a zombie until the job has ended, so that its pid
                 * names its group */
    struct run_stream out, err;
    const char *host;      /* NULL: a node */
    unsigned first, count; /* its nodes */
    int in;                /* stdin of the launcher on a host; else -1 */
    size_t sent;           /* bytes of the part that it has */
    char *part;            /* its part of the job */
    size_t part_size;
};

/* A host of the list. */
struct run_host {
    char *name;
    unsigned count; /* 0: not given */
};

/* All of the job. */
static struct {
    unsigned size;         /* nodes of the job */
    unsigned first, count; /* the nodes here */
    const char *listen;    /* GASNET_HG_NA */
    char *root;            /* the address of node 0; NULL: not known yet */
    char **argv;           /* the program and its arguments */
    bool verbose;
    bool on_host; /* this is the launcher on a host */
    bool stdin_closed;

    struct run_host *hosts;
    unsigned host_count; /* 0: everything runs here */
    struct run_child *children;
    unsigned child_count;
    unsigned started; /* of the children */
    unsigned alive;   /* started and not ended */

    struct run_stream root_pipe; /* node 0 writes its address there */
    int signals;                 /* signalfd */
    sigset_t old_mask;
    int code;         /* exit code */
    bool failed;      /* `code` is final */
    bool root_lost;   /* node 0 has closed the pipe for its address */
    bool quit;        /* SIGQUIT was sent */
    uint64_t quit_ms; /* when to send SIGQUIT; 0: not yet known */
    uint64_t kill_ms; /* when to send SIGKILL */
} run;

/* ---- Words, time, memory ---- */

static void run_say(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* One line to stderr, in one write. */
static void run_say(const char *format, ...)
{
    char text[1024];
    char host[256] = "";
    va_list args;

    va_start(args, format);
    (void) vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (run.on_host)
        (void) gethostname(host, sizeof(host) - 1);
    (void) fprintf(
        stderr, RUN "%s%s: %s\n", run.on_host ? " on " : "", host, text);
}

/* As run_say, and exit. */
#define RUN_FATAL(...) (run_say(__VA_ARGS__), exit(RUN_ERROR))

static uint64_t run_now_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static void *run_alloc(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL)
        RUN_FATAL("out of memory");
    return memory;
}

/* ---- Output ---- */

static void run_write(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t count = write(fd, bytes, size);

        if (count > 0) {
            bytes += count;
            size -= (size_t) count;
        } else if (errno == EAGAIN) {
            struct pollfd ready = {fd, POLLOUT, 0};

            (void) poll(&ready, 1, -1);
        } else if (errno != EINTR)
            return; /* nobody reads it any more */
    }
}

/* Write a line of a frame: a letter, the text, a newline. */
static void run_write_frame(char kind, const char *text, size_t size)
{
    static char frame[RUN_LINE + 2];

    frame[0] = kind;
    memcpy(frame + 1, text, size);
    frame[size + 1] = '\n';
    run_write(STDOUT_FILENO, frame, size + 2);
}

/* Write whole lines, or a piece of one that is too long or the last. */
static void run_put(int fd, const char *bytes, size_t size)
{
    if (!run.on_host || fd != STDOUT_FILENO) {
        run_write(fd, bytes, size);
        return;
    }
    while (size > 0) {
        const char *end = (const char *) memchr(bytes, '\n', size);
        size_t length = end != NULL ? (size_t) (end - bytes) : size;

        run_write_frame(end != NULL ? 'o' : 'p', bytes, length);
        length += end != NULL;
        bytes += length;
        size -= length;
    }
}

static void run_fail(int code, unsigned ms);
static void run_set_root(const char *address, size_t length);

/* Handle the lines that the launcher on a host wrote. */
static void run_take_frames(char *bytes, size_t size)
{
    while (size > 0) {
        char *end = (char *) memchr(bytes, '\n', size);
        size_t length = end != NULL ? (size_t) (end - bytes) : size;
        size_t whole = length + (end != NULL);

        switch (*bytes) {
        case 'o': run_write(STDOUT_FILENO, bytes + 1, whole - 1); break;
        case 'p': run_write(STDOUT_FILENO, bytes + 1, length - 1); break;
        case 'r': run_set_root(bytes + 1, length - 1); break;
        case 'x':
            run_fail((int) strtol(bytes + 1, NULL, 10), RUN_FAILED_MS);
            break;
        default: /* of ssh, or of a profile of the shell */
            run_write(STDERR_FILENO, bytes, whole);
        }
        bytes += whole;
        size -= whole;
    }
}

/* Read what a child wrote. Its whole lines go on; the rest waits. */
static void run_read(struct run_stream *stream, bool frames, int to)
{
    size_t most = frames ? RUN_LINE + 2 : RUN_LINE;
    ssize_t count =
        read(stream->fd, stream->bytes + stream->used, most - stream->used);
    char *end;
    size_t size;

    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count > 0)
        stream->used += (size_t) count;
    end = (char *) memrchr(stream->bytes, '\n', stream->used);
    size = end != NULL ? (size_t) (end - stream->bytes) + 1 : 0;
    if (count <= 0 || (size == 0 && stream->used == most))
        size = stream->used;
    if (frames)
        run_take_frames(stream->bytes, size);
    else
        run_put(to, stream->bytes, size);
    stream->used -= size;
    memmove(stream->bytes, stream->bytes + size, stream->used);
    if (count <= 0) {
        (void) close(stream->fd);
        stream->fd = -1;
    }
}

/* Open a pipe whose read end is the stream's. Returns the write end. */
static int run_open_stream(struct run_stream *stream)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        RUN_FATAL("pipe: %s", strerror(errno));
    (void) fcntl(ends[0], F_SETFL, O_NONBLOCK);
    stream->fd = ends[0];
    stream->bytes = (char *) run_alloc(1, RUN_LINE + 3);
    return ends[1];
}

/* ---- Start ---- */

static void run_set_number(const char *name, unsigned value)
{
    char text[16];

    (void) snprintf(text, sizeof(text), "%u", value);
    (void) setenv(name, text, 1);
}

/* In the child: what a node finds in its environment. */
static void run_set_environment(unsigned rank, int root_fd)
{
    run_set_number("GASNET_HG_RANK", rank);
    run_set_number("GASNET_HG_SIZE", run.size);
    (void) setenv("GASNET_HG_NA", run.listen, 1);
    (void) unsetenv("GASNET_HG_FILE");
    (void) unsetenv("GASNET_HG_ROOT");
    (void) unsetenv("GASNET_HG_FD");
    /* Libraries of Omni-Path, which libfabric loads, catch the signals that end
     * a program, and make them an exit with status 1. */
    (void) setenv("IPATH_NO_BACKTRACE", "1", 0);
    (void) setenv("HFI_NO_BACKTRACE", "1", 0);
    if (rank > 0)
        (void) setenv("GASNET_HG_ROOT", run.root, 1);
    else if (root_fd >= 0) {
        (void) fcntl(root_fd, F_SETFD, 0);
        run_set_number("GASNET_HG_FD", (unsigned) root_fd);
    }
}

/* In the child: become `argv`. Returns only if that fails. */
static void run_become(
    char **argv, pid_t parent, int in, int out, int err, bool group)
{
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(RUN_ERROR);
    if (group)
        (void) setpgid(0, 0);
    (void) dup2(in, STDIN_FILENO);
    (void) dup2(out, STDOUT_FILENO);
    (void) dup2(err, STDERR_FILENO);
    (void) sigprocmask(SIG_SETMASK, &run.old_mask, NULL);
    /* A script ignores it for what it starts in the background. */
    (void) signal(SIGQUIT, SIG_DFL);
    (void) execvp(argv[0], argv);
}

/* Fork a child that becomes `argv`. `in` is its stdin, `root_fd` is inherited
 * by a node. Exits with words if the program cannot be executed. */
static void run_spawn(struct run_child *child, char **argv, int in, int root_fd)
{
    int out = run_open_stream(&child->out);
    int err = run_open_stream(&child->err);
    pid_t parent = getpid();
    int failure = 0;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        RUN_FATAL("pipe: %s", strerror(errno));
    child->pid = fork();
    if (child->pid < 0)
        RUN_FATAL("fork: %s", strerror(errno));
    if (child->pid == 0) {
        if (child->host == NULL)
            run_set_environment(child->first, root_fd);
        run_become(argv, parent, in, out, err, child->host == NULL);
        failure = errno;
        (void) !write(ends[1], &failure, sizeof(failure));
        _exit(RUN_NOT_FOUND);
    }
    if (child->host == NULL)
        (void) setpgid(child->pid, child->pid);
    (void) close(out);
    (void) close(err);
    (void) close(ends[1]);
    run.alive++;
    if (read(ends[0], &failure, sizeof(failure)) == sizeof(failure)) {
        run_say("%s: %s", argv[0], strerror(failure));
        run_fail(failure == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE, 0);
    }
    (void) close(ends[0]);
}

/* Start a node. Node 0 inherits the end of a pipe for its address. */
static void run_start_node(struct run_child *child)
{
    bool is_root = child->first == 0 && run.size > 1;
    int root_fd = is_root ? run_open_stream(&run.root_pipe) : -1;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (run.verbose)
        run_say("starting node %u: %s", child->first, run.argv[0]);
    run_spawn(child, run.argv, null, root_fd);
    (void) close(null);
    if (root_fd >= 0)
        (void) close(root_fd);
}

/* The command on a host: the path of this program, quoted for a shell. */
static char *run_host_command(void)
{
    static char command[4 * PATH_MAX + 16];
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    char *to = command;
    ssize_t i;

    if (length < 0)
        RUN_FATAL("/proc/self/exe: %s", strerror(errno));
    *to++ = '\'';
    for (i = 0; i < length; i++)
        if (path[i] == '\'') {
            memcpy(to, "'\\''", 4);
            to += 4;
        } else
            *to++ = path[i];
    (void) snprintf(to, 16, "' --on-host");
    return command;
}

/* Split a command into words at its spaces. `more` words stay free behind. One
 * block, which the caller frees. */
static char **run_split(const char *command, unsigned more, unsigned *count_p)
{
    size_t most = strlen(command) / 2 + 2 + more;
    char **words =
        (char **) run_alloc(1, most * sizeof(*words) + strlen(command) + 1);
    char *copy = (char *) (words + most);
    char *word, *rest;

    memcpy(copy, command, strlen(command) + 1);
    *count_p = 0;
    for (word = strtok_r(copy, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest))
        words[(*count_p)++] = word;
    return words;
}

/* An empty variable counts as missing. */
static const char *run_text(const char *name, const char *otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? text : otherwise;
}

/* Append a string and its NUL. */
static void run_append(FILE *file, const char *text)
{
    (void) fwrite(text, 1, strlen(text) + 1, file);
}

/* Write the part of a host: a line with the size, then strings: the numbers,
 * where to listen, the address of node 0, the working directory, the arguments,
 * and the environment. */
static char *run_write_part(const struct run_child *child, size_t *size_p)
{
    char *cwd = getcwd(NULL, 0);
    unsigned arguments = 0, variables = 0;
    char text[128];
    char *part = NULL;
    FILE *file;

    while (run.argv[arguments] != NULL)
        arguments++;
    while (environ[variables] != NULL)
        variables++;
    file = open_memstream(&part, size_p);
    if (cwd == NULL || file == NULL)
        RUN_FATAL("working directory: %s", strerror(errno));
    (void) fprintf(file, RUN_PART_FORMAT, (size_t) 0);
    (void) snprintf(text, sizeof(text), "%u %u %u %u %u %u", run.size,
        child->first, child->count, arguments, variables, run.verbose);
    run_append(file, text);
    run_append(file, run.listen);
    run_append(file, run.root != NULL ? run.root : "");
    run_append(file, cwd);
    for (arguments = 0; run.argv[arguments] != NULL; arguments++)
        run_append(file, run.argv[arguments]);
    for (variables = 0; environ[variables] != NULL; variables++)
        run_append(file, environ[variables]);
    free(cwd);
    if (fclose(file) != 0)
        RUN_FATAL("out of memory");
    (void) snprintf(
        text, sizeof(text), RUN_PART_FORMAT, *size_p - RUN_PART_HEADER);
    memcpy(part, text, RUN_PART_HEADER);
    return part;
}

/* Send the part of a host as far as its connection takes it. */
static void run_send_part(struct run_child *child)
{
    ssize_t count = send(child->in, child->part + child->sent,
        child->part_size - child->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (count > 0)
        child->sent += (size_t) count;
    else if (count < 0 && errno != EAGAIN && errno != EINTR)
        child->sent = child->part_size; /* it has ended, which is seen */
}

/* Start the launcher on a host. */
static void run_start_host(struct run_child *child)
{
    unsigned count;
    char **words = run_split(run_text("GASNET_HG_SSH", "ssh"), 3, &count);
    int ends[2];

    if (count == 0)
        RUN_FATAL("GASNET_HG_SSH has no command");
    words[count] = (char *) (uintptr_t) child->host;
    words[count + 1] = run_host_command();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        RUN_FATAL("socketpair: %s", strerror(errno));
    if (run.verbose)
        run_say("starting nodes %u to %u on %s", child->first,
            child->first + child->count - 1, child->host);
    child->in = ends[0];
    child->part = run_write_part(child, &child->part_size);
    run_spawn(child, words, ends[1], -1);
    (void) close(ends[1]);
    free(words);
}

static void run_start_child(void)
{
    struct run_child *child = &run.children[run.started++];

    if (child->host != NULL)
        run_start_host(child);
    else
        run_start_node(child);
}

/* The address of node 0 is known: start the other children. */
static void run_set_root(const char *address, size_t length)
{
    if (run.root != NULL)
        return;
    run.root = (char *) run_alloc(1, length + 1);
    memcpy(run.root, address, length);
    if (run.on_host)
        run_write_frame('r', run.root, length);
    while (run.started < run.child_count && !run.failed)
        run_start_child();
}

/* Read the address of node 0. */
static void run_read_root(void)
{
    struct run_stream *pipe = &run.root_pipe;
    ssize_t count =
        read(pipe->fd, pipe->bytes + pipe->used, RUN_LINE - pipe->used);
    char *end;

    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count > 0)
        pipe->used += (size_t) count;
    end = (char *) memchr(pipe->bytes, '\n', pipe->used);
    if (end != NULL)
        run_set_root(pipe->bytes, (size_t) (end - pipe->bytes));
    else if (count > 0)
        return;
    else if (!run.failed && run.quit_ms == 0) {
        /* It has ended, most likely: then its status says more. */
        run.root_lost = true;
        run.quit_ms = run_now_ms() + RUN_FAILED_MS;
    }
    (void) close(pipe->fd);
    pipe->fd = -1;
}

/* ---- End ---- */

/* Plan SIGQUIT in `ms` milliseconds, unless it comes sooner anyway. */
static void run_plan(unsigned ms)
{
    uint64_t then = run_now_ms() + ms;

    if (run.quit_ms == 0 || then < run.quit_ms)
        run.quit_ms = then;
}

/* The job fails with this exit code, unless it has failed before. */
static void run_fail(int code, unsigned ms)
{
    char text[16];

    if (run.failed || run.quit)
        return;
    run.failed = true;
    run.code = code;
    if (run.on_host) {
        (void) snprintf(text, sizeof(text), "%d", code);
        run_write_frame('x', text, strlen(text));
    }
    run_plan(ms);
}

static void run_kill(const struct run_child *child, int signal_number)
{
    if (child->pid > 0)
        (void) kill(
            child->host != NULL ? child->pid : -child->pid, signal_number);
}

/* Ask all that run to end: SIGQUIT for nodes; the launcher on a host sees the
 * end of its stdin. */
static void run_quit(void)
{
    unsigned i;

    if (run.quit)
        return;
    run.quit = true;
    if (run.root_lost && !run.failed) {
        run_say("node 0 did not report its address: it must not close the "
                "descriptor that GASNET_HG_FD names");
        run.code = RUN_ERROR;
    }
    run.kill_ms =
        run_now_ms() + RUN_QUIT_MS + (run.host_count > 0 ? RUN_HOST_MS : 0);
    for (i = 0; i < run.started; i++) {
        struct run_child *child = &run.children[i];

        if (child->in >= 0)
            (void) close(child->in);
        child->in = -1;
        if (child->host == NULL && !child->ended)
            run_kill(child, SIGQUIT);
    }
}

static void run_kill_all(void)
{
    unsigned i;

    for (i = 0; i < run.started; i++) {
        struct run_child *child = &run.children[i];

        if (child->ended)
            continue;
        if (child->host != NULL)
            run_say("the launcher on %s did not end: killing %s", child->host,
                "its connection");
        else
            run_say(
                "node %u did not end after SIGQUIT: killing it", child->first);
        run_kill(child, SIGKILL);
    }
}

/* Judge how a child ended. */
static void run_judge(const struct run_child *child, int how, int status)
{
    bool signaled = how != CLD_EXITED;
    char name[300];

    if (child->host != NULL)
        (void) snprintf(name, sizeof(name), "the launcher on %s", child->host);
    else
        (void) snprintf(name, sizeof(name), "node %u", child->first);
    if (run.verbose)
        run_say("%s: %s %d", name, signaled ? "signal" : "status", status);
    if (run.failed || run.quit)
        return;
    if (signaled) {
        run_say(
            "%s was ended by signal %d (%s)", name, status, strsignal(status));
        run_fail(128 + status, 0);
    } else if (status != 0) {
        run_say("%s exited with status %d", name, status);
        run_fail(status, RUN_FAILED_MS);
    } else if (run.root == NULL && run.size > 1) {
        run_say("%s exited before it called gasnet_init; is %s a program with "
                "this conduit?",
            name, run.argv[0]);
        run_fail(RUN_ERROR, 0);
    } else
        run_plan(RUN_CLEAN_MS);
}

/* Look for children that have ended. They stay zombies. */
static void run_find_ended(void)
{
    unsigned i;

    for (i = 0; i < run.started; i++) {
        struct run_child *child = &run.children[i];
        siginfo_t info;

        info.si_pid = 0;
        if (child->ended || child->pid <= 0 ||
            waitid(P_PID, (id_t) child->pid, &info,
                WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0)
            continue;
        child->ended = true;
        run.alive--;
        run_judge(child, info.si_code, info.si_status);
    }
}

static bool run_is_readable(int fd)
{
    struct pollfd ready = {fd, POLLIN, 0};

    return poll(&ready, 1, 0) > 0;
}

/* Wait until a node and what it has left are dead. This process is the parent
 * of orphans. */
static void run_reap(const struct run_child *child)
{
    while (waitpid(child->host != NULL ? child->pid : -child->pid, NULL, 0) > 0)
        continue;
}

/* The job has ended: kill what its nodes have left, and print the rest. */
static void run_finish(void)
{
    unsigned i;

    for (i = 0; i < run.started; i++) {
        struct run_child *child = &run.children[i];

        run_kill(child, SIGKILL);
        run_reap(child);
        while (child->out.fd >= 0 && run_is_readable(child->out.fd))
            run_read(&child->out, child->host != NULL, STDOUT_FILENO);
        while (child->err.fd >= 0 && run_is_readable(child->err.fd))
            run_read(&child->err, false, STDERR_FILENO);
    }
}

/* ---- Main loop ---- */

/* SIGINT and the like end the job; again, they kill it. */
static void run_on_signal(int signal_number)
{
    if (run.quit)
        run.kill_ms = 1;
    else
        run_fail(128 + signal_number, 0);
}

static void run_read_signals(void)
{
    struct signalfd_siginfo info;

    while (read(run.signals, &info, sizeof(info)) == sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            run_on_signal((int) info.ssi_signo);
    run_find_ended();
}

static void run_catch_signals(void)
{
    static const int caught[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t mask;
    size_t i;

    (void) sigemptyset(&mask);
    for (i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
        (void) sigaddset(&mask, caught[i]);
    (void) sigprocmask(SIG_BLOCK, &mask, &run.old_mask);
    run.signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run.signals < 0)
        RUN_FATAL("signalfd: %s", strerror(errno));
}

/* The purpose of a descriptor of the loop. */
enum run_kind { RUN_SIGNALS, RUN_STDIN, RUN_ROOT, RUN_OUT, RUN_ERR, RUN_PART };

struct run_source {
    enum run_kind kind;
    struct run_child *child;
};

static void run_handle(const struct run_source *source)
{
    struct run_child *child = source->child;
    char byte;

    switch (source->kind) {
    case RUN_SIGNALS: run_read_signals(); break;
    case RUN_STDIN: /* the connection of the launcher has ended */
        if (read(STDIN_FILENO, &byte, 1) <= 0) {
            run.stdin_closed = true;
            run_fail(128 + SIGHUP, 0);
        }
        break;
    case RUN_ROOT: run_read_root(); break;
    case RUN_OUT:
        run_read(&child->out, child->host != NULL, STDOUT_FILENO);
        break;
    case RUN_ERR: run_read(&child->err, false, STDERR_FILENO); break;
    case RUN_PART: run_send_part(child); break;
    }
}

/* The set of descriptors for poll. */
struct run_set {
    struct pollfd *fds;
    struct run_source *sources;
    nfds_t count;
};

static void run_add(struct run_set *set, int fd, short events,
    enum run_kind kind, struct run_child *child)
{
    const struct pollfd entry = {fd, events, 0};
    const struct run_source source = {kind, child};

    if (fd < 0)
        return;
    set->fds[set->count] = entry;
    set->sources[set->count++] = source;
}

/* Signals come last: the address of node 0 is read before its end is seen. */
static void run_fill(struct run_set *set)
{
    unsigned i;

    set->count = 0;
    run_add(set, run.root_pipe.fd, POLLIN, RUN_ROOT, NULL);
    for (i = 0; i < run.started; i++) {
        struct run_child *child = &run.children[i];

        run_add(set, child->out.fd, POLLIN, RUN_OUT, child);
        run_add(set, child->err.fd, POLLIN, RUN_ERR, child);
        if (child->sent < child->part_size)
            run_add(set, child->in, POLLOUT, RUN_PART, child);
    }
    if (run.on_host && !run.stdin_closed)
        run_add(set, STDIN_FILENO, POLLIN, RUN_STDIN, NULL);
    run_add(set, run.signals, POLLIN, RUN_SIGNALS, NULL);
}

/* Send the signals that are due. Returns milliseconds to the next, or -1. */
static int run_next_ms(void)
{
    uint64_t now = run_now_ms();

    if (!run.quit && run.quit_ms != 0 && now >= run.quit_ms)
        run_quit();
    if (run.quit && now >= run.kill_ms) {
        run_kill_all();
        run.kill_ms = UINT64_MAX;
    }
    if (run.quit)
        return run.kill_ms == UINT64_MAX ? -1 : (int) (run.kill_ms - now);
    return run.quit_ms == 0 ? -1 : (int) (run.quit_ms - now);
}

static void run_loop(void)
{
    struct run_set set;
    nfds_t most = 3 + 3 * (nfds_t) run.child_count;
    nfds_t i;

    set.fds = (struct pollfd *) run_alloc(most, sizeof(*set.fds));
    set.sources = (struct run_source *) run_alloc(most, sizeof(*set.sources));
    run_start_child();
    if (run.root != NULL)
        while (run.started < run.child_count && !run.failed)
            run_start_child();
    while (run.alive > 0) {
        int wait_ms = run_next_ms();

        run_fill(&set);
        if (poll(set.fds, set.count, wait_ms) <= 0)
            continue;
        for (i = 0; i < set.count; i++)
            if (set.fds[i].revents != 0)
                run_handle(&set.sources[i]);
    }
    run_finish();
    free(set.fds);
    free(set.sources);
}

/* ---- The children of this launcher ---- */

static void run_allow_descriptors(void)
{
    rlim_t wanted = 64 + (rlim_t) run.child_count * RUN_FDS;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    (void) setrlimit(RLIMIT_NOFILE, &limit);
}

static void run_add_child(const char *host, unsigned first, unsigned count)
{
    struct run_child *child = &run.children[run.child_count++];

    child->out.fd = child->err.fd = child->in = -1;
    child->host = host;
    child->first = first;
    child->count = count;
}

/* Give the nodes to the hosts, in order. */
static void run_distribute(void)
{
    unsigned share = run.size / run.host_count;
    unsigned more = run.size % run.host_count;
    unsigned first = 0;
    unsigned i;

    for (i = 0; i < run.host_count && first < run.size; i++) {
        unsigned count = run.hosts[i].count;

        if (count == 0)
            count = share + (i < more);
        if (count > run.size - first)
            count = run.size - first;
        run_add_child(run.hosts[i].name, first, count);
        first += count;
    }
    if (first < run.size)
        RUN_FATAL("the hosts take %u of the %u nodes", first, run.size);
}

static int run_job(void)
{
    unsigned most = run.host_count > 0 ? run.host_count : run.count;
    unsigned i;

    run.root_pipe.fd = -1;
    run.children = (struct run_child *) run_alloc(most, sizeof(*run.children));
    if (run.host_count > 0)
        run_distribute();
    else
        for (i = 0; i < run.count; i++)
            run_add_child(NULL, run.first + i, 1);
    run_allow_descriptors();
    run_catch_signals();
    (void) prctl(PR_SET_CHILD_SUBREAPER, 1);
    run_loop();
    return run.code;
}

/* ---- A part of a job, on a host ---- */

/* Read `size` bytes from stdin. */
static void run_read_all(char *to, size_t size)
{
    while (size > 0) {
        ssize_t count = read(STDIN_FILENO, to, size);

        if (count <= 0 && (count == 0 || errno != EINTR))
            RUN_FATAL("stdin has no job: --on-host is for gasnetrun_hg itself");
        if (count > 0) {
            to += count;
            size -= (size_t) count;
        }
    }
}

/* The next string of the part. */
static char *run_next(char **at, const char *end)
{
    char *text = *at;

    if (text >= end)
        RUN_FATAL("the job on stdin is too short");
    *at += strlen(text) + 1;
    return text;
}

static int run_on_host(void)
{
    char header[RUN_PART_HEADER + 1] = "";
    unsigned arguments, variables, verbose, i;
    char *part, *at, *cwd;
    const char *end;
    size_t size;

    run_read_all(header, RUN_PART_HEADER);
    if (sscanf(header, "GHP1 %12zu", &size) != 1 || size == 0 ||
        size > RUN_PART_MOST)
        RUN_FATAL("stdin has no job: --on-host is for gasnetrun_hg itself");
    part = (char *) run_alloc(1, size + 1);
    run_read_all(part, size);
    at = part;
    end = part + size;
    if (sscanf(run_next(&at, end), "%u %u %u %u %u %u", &run.size, &run.first,
            &run.count, &arguments, &variables, &verbose) != 6 ||
        run.size > RUN_MAX_NODES || run.count == 0 || run.count > run.size ||
        arguments == 0 || arguments > size || variables > size)
        RUN_FATAL("the job on stdin has wrong numbers");
    run.verbose = verbose != 0;
    run.listen = run_next(&at, end);
    run.root = run_next(&at, end);
    if (*run.root == '\0')
        run.root = NULL;
    cwd = run_next(&at, end);
    run.argv = (char **) run_alloc(arguments + 1, sizeof(*run.argv));
    for (i = 0; i < arguments; i++)
        run.argv[i] = run_next(&at, end);
    environ = (char **) run_alloc(variables + 1, sizeof(*environ));
    for (i = 0; i < variables; i++)
        environ[i] = run_next(&at, end);
    if (chdir(cwd) != 0)
        RUN_FATAL("%s: %s", cwd, strerror(errno));
    return run_job();
}

/* ---- Hosts ---- */

static void run_add_host(char *text)
{
    char *colon = strrchr(text, ':');
    struct run_host *host;
    unsigned count = 0;

    if (colon != NULL) {
        count = (unsigned) usage_number(colon + 1, RUN_MAX_NODES);
        *colon = '\0';
    }
    if (*text == '\0' || *text == '-' || (colon != NULL && count == 0)) {
        (void) usage_error(RUN, "'%s' is no host with a count of nodes", text);
        exit(USAGE_ERROR);
    }
    run.hosts = (struct run_host *) realloc(
        run.hosts, (run.host_count + 1) * sizeof(*run.hosts));
    if (run.hosts == NULL)
        RUN_FATAL("out of memory");
    host = &run.hosts[run.host_count++];
    host->name = text;
    host->count = count;
}

static void run_add_hosts(char *list)
{
    char *host, *rest;

    for (host = strtok_r(list, ",", &rest); host != NULL;
         host = strtok_r(NULL, ",", &rest))
        run_add_host(host);
    if (run.host_count == 0) {
        (void) usage_error(RUN, "-H names no host");
        exit(USAGE_ERROR);
    }
}

/* Read a file of hosts: a name and perhaps a count on each line. */
static void run_read_hosts(const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t space = 0;

    if (file == NULL)
        RUN_FATAL("%s: %s", path, strerror(errno));
    while (getline(&line, &space, file) > 0) {
        char *rest;
        char *host = strtok_r(line, " \t\r\n", &rest);
        char *count = strtok_r(NULL, " \t\r\n", &rest);
        char text[512];

        if (host == NULL || *host == '#')
            continue;
        (void) snprintf(text, sizeof(text), "%s%s%s", host,
            count != NULL ? ":" : "", count != NULL ? count : "");
        run_add_host(strdup(text));
    }
    if (ferror(file) || run.host_count == 0)
        RUN_FATAL("%s: no hosts", path);
    free(line);
    (void) fclose(file);
}

/* ---- Command line ---- */

/* Whether a program can be executed: 0, or the reason. A name without a slash
 * is looked for in PATH, and by some versions of mpirun in this directory. */
static int run_find(const char *name)
{
    const char *folder = run_text("PATH", "/usr/bin:/bin");
    char path[PATH_MAX];

    while (strchr(name, '/') == NULL && *folder != '\0') {
        int length = (int) strcspn(folder, ":");

        (void) snprintf(path, sizeof(path), "%.*s/%s", length, folder, name);
        if (access(path, X_OK) == 0)
            return 0;
        folder += length + (folder[length] == ':');
    }
    return access(name, X_OK) == 0 ? 0 : errno;
}

/* Let mpirun start the job. Its own codes for a program that cannot be executed
 * differ. */
static int run_mpirun(void)
{
    unsigned arguments = 0;
    unsigned count;
    char number[16];
    char **words;
    int failure;

    if (run.host_count > 0)
        return usage_error(RUN,
            "with %s mpirun has the hosts: see "
            "GASNET_HG_MPIRUN",
            run.listen);
    failure = run_find(run.argv[0]);
    if (failure != 0) {
        run_say("%s: %s", run.argv[0], strerror(failure));
        return failure == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
    }
    while (run.argv[arguments] != NULL)
        arguments++;
    words = run_split(
        run_text("GASNET_HG_MPIRUN", "mpirun"), arguments + 3, &count);
    if (count == 0)
        RUN_FATAL("GASNET_HG_MPIRUN has no command");
    (void) snprintf(number, sizeof(number), "%u", run.size);
    words[count++] = (char *) (uintptr_t) "-n";
    words[count++] = number;
    memcpy(words + count, run.argv, arguments * sizeof(*words));
    (void) setenv("GASNET_HG_NA", run.listen, 1);
    (void) unsetenv("GASNET_HG_RANK");
    (void) unsetenv("GASNET_HG_ROOT");
    (void) execvp(words[0], words);
    failure = errno;
    run_say("%s: %s", words[0], strerror(failure));
    free(words);
    return failure == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
}

/* Returns 0, or the exit code of a wrong use. */
static int run_options(int argc, char **argv)
{
    int option;

    opterr = 0;
    while ((option = getopt(argc, argv, "+:n:H:f:a:vh-:")) != -1) {
        switch (option) {
        case 'n':
            run.size = (unsigned) usage_number(optarg, RUN_MAX_NODES);
            if (run.size == 0)
                return usage_error(
                    RUN, "-n %s is not from 1 to %u", optarg, RUN_MAX_NODES);
            break;
        case 'H': run_add_hosts(optarg); break;
        case 'f': run_read_hosts(optarg); break;
        case 'a': run.listen = optarg; break;
        case 'v': run.verbose = true; break;
        default: /* -h, --help, --version; else it is wrong */
            if (optind > 1 &&
                usage_is_printed(2, argv + optind - 2, RUN, run_help))
                exit(0);
            return usage_wrong_option(RUN, argv, option);
        }
    }
    if (run.size == 0)
        return usage_error(RUN, "expects -n NODES");
    if (optind == argc)
        return usage_error(RUN, "expects a PROGRAM");
    run.count = run.size;
    run.argv = argv + optind;
    if (run.listen == NULL)
        run.listen = run_text("GASNET_HG_NA",
            run.host_count > 0 ? "zmq+tcp://0.0.0.0;sm://" : "sm://");
    if (strstr(run.listen, "mpi+") != NULL && strchr(run.listen, ';') != NULL)
        return usage_error(
            RUN, "-a %s: mpi+static:// stands alone", run.listen);
    return 0;
}

int main(int argc, char **argv)
{
    int ret;

    if (argc == 2 && strcmp(argv[1], "--on-host") == 0) {
        run.on_host = true;
        return run_on_host();
    }
    ret = run_options(argc, argv);
    if (ret != 0)
        return ret;
    if (strncmp(run.listen, "mpi+", 4) == 0)
        return run_mpirun();
    return run_job();
}
