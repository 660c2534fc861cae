/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faulty: cases that fail in every way that the runner and the harness must
 * detect, and a few that succeed. tests/selftest runs each and checks the
 * result.
 */
#define _GNU_SOURCE 1
#include "harness.h"
#include "hg.h"

#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

HG_TEST(passes)
{
    HG_CHECK(1 + 1 == 2);
    HG_CHECK_EQ_INT(-1, -1);
    HG_CHECK_EQ_U64(UINT64_MAX, UINT64_MAX);
    HG_CHECK_EQ_STR("a", "a");
    HG_CHECK_EQ_STR(NULL, NULL);
    HG_CHECK_EQ_MEM("abc", "abd", 2);
    HG_CHECK_OK(HG_SUCCESS);
    HG_CHECK(hg_test_seed() == hg_test_seed());
    HG_CHECK(hg_test_fd_count() >= 3);
}

HG_TEST(check_fails)
{
    int one = 1;

    HG_CHECK_EQ_INT(one, 2);
}

HG_TEST(string_differs)
{
    HG_CHECK_EQ_STR("a", "b");
}

HG_TEST(memory_differs)
{
    HG_CHECK_EQ_MEM("ab", "ac", 2);
}

HG_TEST(code_differs)
{
    HG_CHECK_RET(HG_SUCCESS, HG_NOMEM);
}

HG_TEST(skips)
{
    hg_test_skip("for the reason %s", "given");
}

static bool faulty_is_elsewhere(void)
{
    return !strcmp(hg_test_transport(), "elsewhere");
}

HG_TEST_WHERE(applies_elsewhere, faulty_is_elsewhere)
{
    HG_CHECK(faulty_is_elsewhere());
}

HG_TEST(dies_of_a_signal)
{
    raise(SIGSEGV);
}

HG_TEST(hangs)
{
    HG_CHECK(true);
    for (;;)
        pause();
}

/* A call to oneself is executed only during a wait. */
HG_TEST(stuck_in_a_call)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    hg_request_t request;
    na_addr_t addr;
    hg_id_t id;

    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(HG_Init(na_class));
    HG_CHECK_OK(NA_Addr_self(na_class, &addr));
    id = HG_Register("never done", NULL, NULL, NULL);
    HG_CHECK_OK(HG_Forward(addr, id, NULL, NULL, &request));
    for (;;)
        pause();
}

HG_TEST(peer_is_stuck)
{
    hg_test_stop(hg_test_spawn("bad", "hang", (char *) NULL));
}

HG_TEST(ignores_sigterm)
{
    const char *path = getenv("FAULTY_PID_FILE");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;

    signal(SIGTERM, SIG_IGN);
    if (file != NULL) {
        fprintf(file, "%ld", (long) getpid());
        fclose(file);
    }
    for (;;)
        pause();
}

/* Computes for 1.2 s, but tests/selftest keeps the processor busy: this case
 * gets little of it. */
HG_TEST(waits_for_a_processor)
{
    struct timespec now, begun;
    cpu_set_t all, first;
    size_t i = 0;

    HG_CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
    while (!CPU_ISSET(i, &all))
        i++;
    CPU_ZERO(&first);
    CPU_SET(i, &first);
    HG_CHECK(sched_setaffinity(0, sizeof(first), &first) == 0);
    HG_CHECK(nice(19) == 19);
    HG_CHECK(clock_gettime(CLOCK_MONOTONIC, &begun) == 0);
    do
        HG_CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    while ((now.tv_sec - begun.tv_sec) * 1000 +
            (now.tv_nsec - begun.tv_nsec) / 1000000 <
        1200);
}

/* A child that outlives the case, in its process group or in its own
 * session. */
static void faulty_leave(bool session)
{
    int ready[2];
    char byte = 0;

    HG_CHECK(pipe(ready) == 0);
    if (fork() == 0) {
        if (session)
            setsid();
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    HG_CHECK(read(ready[0], &byte, 1) == 1);
}

HG_TEST(is_left_out_with_a_child)
{
    faulty_leave(false);
    hg_test_skip("a process is left");
}

HG_TEST(leaves_a_process)
{
    faulty_leave(false);
}

HG_TEST(leaves_memory)
{
    char path[64];
    FILE *file;

    (void) snprintf(
        path, sizeof(path), "/dev/shm/hg-faulty-%ld-1", (long) getpid());
    file = fopen(path, "w");
    HG_CHECK(file != NULL && fclose(file) == 0);
}

HG_TEST(leaves_a_session)
{
    faulty_leave(true);
}

/* A call that fails, and so logs one error line. */
static void faulty_log(void)
{
    HG_CHECK_RET(HG_Set_log_level("very loud"), HG_INVALID_ARG);
}

HG_TEST(logs_the_unexpected)
{
    faulty_log();
}

/* An address that is not freed: the library releases it, and warns. */
static void faulty_leak(void)
{
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    na_addr_t addr;

    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Addr_self(na_class, &addr));
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(leaks_an_address)
{
    hg_test_allow_log(""); /* any error, but no leak */
    faulty_leak();
}

HG_TEST(expects_a_leak)
{
    hg_test_expect_log("what was not freed: addresses 1");
    faulty_leak();
}

HG_TEST(logs_to_stderr)
{
    HG_Set_log_func(NULL, NULL);
    faulty_log();
}

HG_TEST(expects_a_log)
{
    hg_test_expect_log("very loud");
    faulty_log();
    faulty_log();
    HG_CHECK_EQ_U64(hg_test_log_count("very loud"), 2);
}

HG_TEST(expects_a_missing_log)
{
    hg_test_expect_log("something else");
    hg_test_allow_log("very loud");
    faulty_log();
}

HG_TEST_ROLE(echo)
{
    char *line;

    HG_CHECK_EQ_INT(argc, 2);
    HG_CHECK_EQ_STR(argv[1], "second word");
    while ((line = hg_test_read_parent()) != NULL) {
        hg_test_write_parent(line);
        free(line);
    }
}

HG_TEST_ROLE(bad)
{
    HG_CHECK(argc == 1);
    if (!strcmp(argv[0], "fail"))
        HG_CHECK_EQ_INT(1, 2);
    if (!strcmp(argv[0], "crash"))
        raise(SIGSEGV);
    if (!strcmp(argv[0], "log"))
        faulty_log();
    while (!strcmp(argv[0], "hang"))
        pause();
}

HG_TEST(peer_answers)
{
    struct hg_test_peer *peer =
        hg_test_spawn("echo", "first", "second word", (char *) NULL);
    char *line;

    hg_test_write_peer(peer, "hello");
    hg_test_write_peer(peer, "again");
    line = hg_test_read_peer(peer);
    HG_CHECK_EQ_STR(line, "hello");
    free(line);
    line = hg_test_read_peer(peer);
    HG_CHECK_EQ_STR(line, "again");
    free(line);
    hg_test_stop(peer);
}

HG_TEST(peer_is_killed)
{
    struct hg_test_peer *peer =
        hg_test_spawn("echo", "first", "second word", (char *) NULL);

    hg_test_signal(peer, SIGKILL);
    HG_CHECK_EQ_INT(hg_test_wait(peer), SIGKILL);
}

HG_TEST(peers_are_three)
{
    unsigned i;

    for (i = 0; i < 3; i++)
        hg_test_spawn("bad", "nothing", (char *) NULL);
}

HG_TEST(peer_fails)
{
    hg_test_spawn("bad", "fail", (char *) NULL);
}

HG_TEST(peer_crashes)
{
    hg_test_stop(hg_test_spawn("bad", "crash", (char *) NULL));
}

HG_TEST(peer_is_silent)
{
    free(hg_test_read_peer(hg_test_spawn("bad", "nothing", (char *) NULL)));
}

HG_TEST(peer_logs_an_error)
{
    hg_test_spawn("bad", "log", (char *) NULL);
}

/* Two blocks; `leak`: the first is leaked if the second fails. */
static int faulty_two_blocks(void *leak)
{
    const struct hg_allocator *heap = hg_test_allocator();
    void *one = heap->malloc_fn(10, heap->arg);
    void *two = one != NULL ? heap->malloc_fn(10, heap->arg) : NULL;

    heap->free_fn(two, heap->arg);
    if (two != NULL || leak == NULL)
        heap->free_fn(one, heap->arg);
    return two != NULL ? 0 : 1;
}

HG_TEST(oom_loop_clean)
{
    hg_test_alloc_install();
    HG_CHECK_EQ_U64(hg_test_oom_loop(faulty_two_blocks, NULL), 2);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

HG_TEST(oom_loop_leaks)
{
    int leak;

    hg_test_alloc_install();
    hg_test_oom_loop(faulty_two_blocks, &leak);
}
