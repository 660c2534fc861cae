/* SPDX-License-Identifier: BSD-3-Clause */
/* sequences INFO [GROUP]...: runs the groups, each in a process of its own. */
#include "sequences.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(const char *info);
} groups[] = {
    {"library", steps_of_library},
    {"classes", steps_of_classes},
    {"contexts", steps_of_contexts},
    {"registrations", steps_of_registrations},
    {"addresses", steps_of_addresses},
    {"procs", steps_of_procs},
    {"strings", steps_of_strings},
    {"handles", steps_of_handles},
    {"calls", steps_of_calls},
    {"inputs", steps_of_inputs},
    {"buffers", steps_of_buffers},
    {"callbacks", steps_of_callbacks},
    {"self-calls", steps_of_self_calls},
    {"bulk", steps_of_bulk},
    {"transfers", steps_of_transfers},
    {"na", steps_of_na},
};

/* ---- What is printed ---- */

const char *code(hg_return_t ret)
{
    static char number[16];
    const char *name = HG_Error_to_string(ret);

    if (ret == 23)
        return "HOSTFIREWALL";
    if (name != NULL && strncmp(name, "HG_", 3) == 0)
        return name + 3;
    (void) snprintf(number, sizeof(number), "%d", (int) ret);
    return number;
}

void say(const char *step, hg_return_t ret)
{
    printf("%s: %s\n", step, code(ret));
}

void say_with(const char *step, hg_return_t ret, const char *format, ...)
{
    va_list args;

    printf("%s: %s, ", step, code(ret));
    va_start(args, format);
    (void) vprintf(format, args);
    va_end(args);
    printf("\n");
}

void say_number(const char *step, long long value)
{
    printf("%s: %lld\n", step, value);
}

/* ---- The two classes ---- */

static hg_class_t *open_class(
    const char *info, const struct hg_init_info *options)
{
    hg_class_t *hg_class =
        HG_Init_opt2(info, HG_TRUE, HG_VERSION(2, 4), options);

    if (hg_class == NULL) {
        printf("cannot open %s\n", info);
        exit(EXIT_FAILURE);
    }
    return hg_class;
}

void pair_open(
    struct pair *pair, const char *info, const struct hg_init_info *options)
{
    char text[256];
    hg_size_t size = sizeof(text);
    hg_addr_t self;

    pair->info = info;
    pair->server = open_class(info, options);
    pair->client = open_class(info, options);
    pair->server_context = HG_Context_create(pair->server);
    pair->client_context = HG_Context_create(pair->client);
    if (HG_Addr_self(pair->server, &self) != HG_SUCCESS ||
        HG_Addr_to_string(pair->server, text, &size, self) != HG_SUCCESS ||
        HG_Addr_free(pair->server, self) != HG_SUCCESS ||
        HG_Addr_lookup2(pair->client, text, &pair->addr) != HG_SUCCESS) {
        printf("cannot look up the server\n");
        exit(EXIT_FAILURE);
    }
}

void pair_close(struct pair *pair)
{
    pair_settle(pair);
    say("close: the address", HG_Addr_free(pair->client, pair->addr));
    say("close: a context", HG_Context_destroy(pair->client_context));
    say("close: the other", HG_Context_destroy(pair->server_context));
    say("close: a class", HG_Finalize(pair->client));
    say("close: the other", HG_Finalize(pair->server));
}

static unsigned int pair_step(struct pair *pair)
{
    hg_context_t *contexts[2] = {pair->client_context, pair->server_context};
    unsigned int i, count, all = 0;

    for (i = 0; i < 2; i++) {
        (void) HG_Progress(contexts[i], 0);
        while (HG_Trigger(contexts[i], 0, 1, &count) == HG_SUCCESS && count)
            all += count;
    }
    return all;
}

static double seconds(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

bool pair_until(struct pair *pair, const int *done)
{
    double end = seconds() + 10;

    while (*done == 0 && seconds() < end)
        if (pair_step(pair) == 0)
            (void) usleep(20);
    if (*done == 0)
        printf("nothing happens for 10 s\n");
    return *done != 0;
}

void pair_settle(struct pair *pair)
{
    unsigned int idle = 0;

    while (idle++ < 10)
        if (pair_step(pair) > 0)
            idle = 0;
        else
            (void) usleep(200);
}

hg_return_t on_done(const struct hg_cb_info *info)
{
    struct done *done = info->arg;

    done->count++;
    done->ret = info->ret;
    done->type = info->type;
    done->info = *info;
    return HG_SUCCESS;
}

/* ---- Groups ---- */

static void run(unsigned int i, const char *info)
{
    int status;
    pid_t child;

    printf("== %s\n", groups[i].name);
    (void) fflush(stdout);
    child = fork();
    if (child == 0) {
        (void) alarm(60);
        (void) signal(SIGSEGV, SIG_DFL); /* libfabric prints a backtrace */
        (void) setvbuf(stdout, NULL, _IOLBF, 0);
        groups[i].run(info);
        exit(EXIT_SUCCESS);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        printf("cannot run it\n");
    else if (WIFSIGNALED(status))
        printf("signal %d\n", WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        printf("exit status %d\n", WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    unsigned int i;
    int j;

    if (argc < 2)
        return EXIT_FAILURE;
    if (getenv("HG_LOG_LEVEL") == NULL)
        HG_Set_log_level("none");
    for (i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        bool wanted = argc == 2;

        for (j = 2; j < argc; j++)
            wanted = wanted || strcmp(argv[j], groups[i].name) == 0;
        if (wanted)
            run(i, argv[1]);
    }
    return EXIT_SUCCESS;
}
