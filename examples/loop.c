/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loop: client and server in one event loop of epoll, with one thread and no
 * polling, in the callback model. Linux only.
 *
 *     loop ADDRESS    listens on ADDRESS, prints its address, executes calls,
 *                     and reads lines from its standard input:
 *                     "ADDRESS word" calls that address and prints the answer;
 *                     "wakeups" prints how often the loop woke up.
 *                     It ends at the end of the input or on Ctrl-C.
 *
 * For example:
 *
 *     echo "sm://one hello" | loop sm://one
 *
 * The loop watches three descriptors: the library's, the input, and one for
 * signals. It sleeps without a timeout: a timer of the library, such as a
 * deadline, makes the library's descriptor readable. While nothing happens, the
 * process does not run.
 */
#define _GNU_SOURCE
#include "endpoint.h"
#include "usage.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define LOOP_TIMEOUT_MS 5000 /* of a call */
#define LOOP_LINE 1024

static const char loop_help[] =
    "usage: loop ADDRESS\n"
    "\n"
    "Listens on ADDRESS, prints its address and executes calls. Each line\n"
    "\"ADDRESS word\" of its standard input calls that address; the answer is\n"
    "printed. The line \"wakeups\" prints how often the loop woke up. Ends at\n"
    "the end of the input or on Ctrl-C.\n"
    "\n"
    "Example:\n"
    "  echo \"sm://one hello\" | loop sm://one\n";

MERCURY_GEN_RPC_STUB(hg_string_t, loop_shout, ((hg_const_string_t) (word)), )

/* A descriptor, and the function that runs when it is readable. */
struct loop_watch {
    int fd;
    void (*ready)(struct loop_watch *watch);
};

static struct loop {
    struct endpoint endpoint;
    int epoll_fd;
    unsigned long wakeups;
    unsigned in_flight; /* calls that this process made */
    bool ending;        /* the loop makes no more calls */
    char line[LOOP_LINE];
    size_t length; /* of the part of a line that was read */
} loop;

/* ---- The function that others call ---- */

/* The library frees the returned string. */
hg_string_t loop_shout(hg_const_string_t word)
{
    size_t size = word != NULL ? strlen(word) : 0;
    char *text = (char *) hg_proc_alloc(HG_PROC_NULL, size + 2);
    size_t i;

    if (text == NULL)
        return NULL;
    for (i = 0; i < size; i++)
        text[i] =
            word[i] >= 'a' && word[i] <= 'z' ? (char) (word[i] - 32) : word[i];
    text[size] = '!';
    return text;
}

/* ---- Calls of this process ---- */

/* A call, from the input line to the answer. */
struct loop_call {
    loop_shout_call_t call;
    char word[LOOP_LINE];
};

static void loop_print(const char *word, const char *what)
{
    printf("%s: %s\n", word, what);
    (void) fflush(stdout);
}

/* `what` is the answer or the cause of an error. */
static void loop_finish(struct loop_call *call, const char *what)
{
    loop_print(call->word, what);
    loop.in_flight--;
    free(call);
}

static void loop_answered(loop_shout_call_t *shout, hg_return_t ret)
{
    struct loop_call *call = (struct loop_call *) shout->arg;
    const char *text = HG_Get_error_text(shout->handle);
    char what[LOOP_LINE + 2];

    (void) snprintf(what, sizeof(what), "%s",
        ret == HG_SUCCESS   ? shout->out.ret
            : *text != '\0' ? text
                            : HG_Error_to_string(ret));
    (void) loop_shout_end(shout);
    loop_finish(call, what);
}

/* The lookup ended: call the peer. The call keeps its own reference to the
 * address. */
static hg_return_t loop_found(const struct hg_cb_info *info)
{
    struct loop_call *call = (struct loop_call *) info->arg;
    hg_addr_t addr = info->info.lookup.addr;
    hg_return_t ret = info->ret;

    if (ret == HG_SUCCESS) {
        ret = loop_shout_start(&call->call, loop.endpoint.context, addr,
            LOOP_TIMEOUT_MS, call->word, loop_answered, call);
        (void) HG_Addr_free(loop.endpoint.hg_class, addr);
    }
    if (ret != HG_SUCCESS)
        loop_finish(call, HG_Error_to_string(ret));
    return HG_SUCCESS;
}

static void loop_call_peer(const char *address, const char *word)
{
    struct loop_call *call = (struct loop_call *) calloc(1, sizeof(*call));
    hg_return_t ret;

    if (call == NULL) {
        loop_print(word, "out of memory");
        return;
    }
    (void) snprintf(call->word, sizeof(call->word), "%s", word);
    loop.in_flight++;
    ret = HG_Addr_lookup1(
        loop.endpoint.context, loop_found, call, address, HG_OP_ID_IGNORE);
    if (ret != HG_SUCCESS)
        loop_finish(call, HG_Error_to_string(ret));
}

/* ---- Input and signals ---- */

static void loop_take_line(char *line)
{
    char *word = strchr(line, ' ');

    if (strcmp(line, "wakeups") == 0) {
        printf("wakeups: %lu\n", loop.wakeups);
        (void) fflush(stdout);
    } else if (word != NULL) {
        *word = '\0';
        loop_call_peer(line, word + 1);
    } else {
        (void) fprintf(stderr, "'%s': expected \"ADDRESS word\"\n", line);
    }
}

/* Collect the pieces that a read returns into lines. A line that is too long is
 * truncated. */
static void loop_read(struct loop_watch *watch)
{
    char bytes[LOOP_LINE];
    ssize_t n = read(watch->fd, bytes, sizeof(bytes));
    ssize_t i;

    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0)
        loop.ending = true;
    for (i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            loop.line[loop.length] = '\0';
            loop.length = 0;
            loop_take_line(loop.line);
        } else if (loop.length < sizeof(loop.line) - 1) {
            loop.line[loop.length++] = bytes[i];
        }
    }
    if (loop.ending)
        (void) epoll_ctl(loop.epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
}

static void loop_signaled(struct loop_watch *watch)
{
    struct signalfd_siginfo info;

    if (read(watch->fd, &info, sizeof(info)) == (ssize_t) sizeof(info))
        loop.ending = true;
}

/* ---- The loop ---- */

/* Make progress and run the callbacks that became ready. */
static void loop_turn(void)
{
    unsigned count = 0;

    (void) HG_Event_progress(loop.endpoint.context, &count);
    if (count > 0)
        (void) HG_Event_trigger(loop.endpoint.context, count, NULL);
}

static void loop_woken(struct loop_watch *watch)
{
    (void) watch;
    loop_turn();
}

static int loop_watch_fd(struct loop_watch *watch)
{
    struct epoll_event event = {0};

    event.events = EPOLLIN;
    event.data.ptr = watch;
    return epoll_ctl(loop.epoll_fd, EPOLL_CTL_ADD, watch->fd, &event);
}

static int loop_run(struct loop_watch *watches, int count)
{
    struct epoll_event events[4];
    int i;

    for (i = 0; i < count; i++) {
        if (loop_watch_fd(&watches[i]) != 0) {
            (void) fprintf(stderr, "epoll: %s\n", strerror(errno));
            return 1;
        }
    }
    for (;;) {
        int n;

        /* Only after this returns false does the descriptor signal events. */
        while (HG_Event_ready(loop.endpoint.context))
            loop_turn();
        if (loop.ending && loop.in_flight == 0)
            return 0;
        n = epoll_wait(loop.epoll_fd, events, 4, -1);
        loop.wakeups++;
        for (i = 0; i < n; i++) {
            struct loop_watch *watch = (struct loop_watch *) events[i].data.ptr;

            watch->ready(watch);
        }
    }
}

int main(int argc, char *argv[])
{
    struct loop_watch watches[3] = {
        {-1, loop_woken}, {STDIN_FILENO, loop_read}, {-1, loop_signaled}};
    sigset_t signals;
    int status = 1;

    if (usage_is_printed(argc, argv, "loop", loop_help))
        return 0;
    if (argc != 2)
        return usage_error("loop", "expects ADDRESS");
    (void) sigemptyset(&signals);
    (void) sigaddset(&signals, SIGINT);
    (void) sigaddset(&signals, SIGTERM);
    (void) sigprocmask(SIG_BLOCK, &signals, NULL);
    if (endpoint_listen(&loop.endpoint, argv[1]) != HG_SUCCESS)
        return 1;
    watches[0].fd = HG_Event_get_wait_fd(loop.endpoint.context);
    watches[2].fd = signalfd(-1, &signals, SFD_CLOEXEC);
    loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (watches[0].fd < 0)
        (void) fprintf(stderr,
            "%s: this transport has no descriptor to wait on; wait in "
            "HG_Progress instead, as the example pool does\n",
            argv[1]);
    else if (loop_shout_provide(loop.endpoint.hg_class) != 0 &&
        endpoint_print_address(&loop.endpoint) == HG_SUCCESS)
        status = loop_run(watches, 3);
    endpoint_close(&loop.endpoint);
    (void) close(watches[2].fd);
    (void) close(loop.epoll_fd);
    return status;
}
