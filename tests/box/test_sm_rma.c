/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get of the transport sm between processes: by the kernel's copy, and
 * through the rings where the kernel denies it. Unprivileged processes try what
 * depends on user rights; each denial is first confirmed by a bare system call.
 */
#include "sm_sockets.h"

#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define RMA_NOBODY 65534
#define RMA_SIZE ((size_t) 3 << 20) /* several pieces */
#define RMA_RUNS 600u               /* segments of scattered memory */

/* Drop all rights; other processes may read our memory, or may not. */
static void rma_drop(bool dumpable)
{
    HG_CHECK(setgroups(0, NULL) == 0);
    HG_CHECK(setresgid(RMA_NOBODY, RMA_NOBODY, RMA_NOBODY) == 0);
    HG_CHECK(setresuid(RMA_NOBODY, RMA_NOBODY, RMA_NOBODY) == 0);
    HG_CHECK(prctl(PR_SET_DUMPABLE, dumpable ? 1 : 0, 0, 0, 0) == 0);
}

static void rma_need_root(void)
{
    if (geteuid() != 0)
        hg_test_skip("only root can change its user");
}

/* Simulate a system without process_vm_readv. */
static void rma_forget_calls(void)
{
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(lines) / sizeof(lines[0]), lines};

    HG_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    HG_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* The result of a bare system call; 0: the kernel would copy if memory existed
 * at that address. EFAULT is returned only to a process that has the right. */
static int rma_bare(pid_t pid)
{
    char got[8];
    struct iovec near = {got, sizeof(got)}, far = {got, sizeof(got)};

    return process_vm_readv(pid, &near, 1, &far, 1, 0) < 0 && errno != EFAULT
        ? errno
        : 0;
}

/* ---- The owner ---- */

/* An unprivileged owner whose memory can be read or not. */
HG_TEST_ROLE(rma_owner)
{
    HG_CHECK(argc == 2);
    if (strcmp(argv[1], "root") != 0)
        rma_drop(strcmp(argv[1], "open") == 0);
    endpoint_serve(argv[0], 1000);
}

static struct hg_test_peer *rma_spawn_owner(const char *rights)
{
    char *string;
    struct hg_test_peer *owner;

    HG_CHECK(asprintf(&string, "sm://rma-%ld", (long) getpid()) > 0);
    owner = hg_test_spawn("rma_owner", string, rights, NULL);
    free(string);
    return owner;
}

/* ---- The initiator ---- */

static na_return_t rma_move(struct conform_end *end, bool put,
    na_mem_handle_t local, na_mem_handle_t remote, na_offset_t offset,
    na_size_t size, na_addr_t addr)
{
    struct conform_call call;
    na_return_t ret;

    memset(&call, 0, sizeof(call));
    ret = (put ? NA_Put : NA_Get)(end->na_class, end->context, conform_ended,
        &call, local, 0, remote, offset, size, addr, &call.id);
    return ret == NA_SUCCESS ? conform_wait(end, &call) : ret;
}

/* Get what the owner has, put it to another place, get it from there; small,
 * and in pieces. */
static void rma_there_and_back(const char *name, const char *way)
{
    const char *other =
        strcmp(way, "sm_rma_vm") == 0 ? "sm_rma_copied" : "sm_rma_vm";
    unsigned char *model = endpoint_map(ENDPOINT_MEMORY);
    unsigned char *bytes = endpoint_map(RMA_SIZE);
    na_mem_handle_t local, remote;
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    unsigned turn;

    conform_fill(model, ENDPOINT_MEMORY, 7);
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    remote = endpoint_remote(&end, addr);
    HG_CHECK_OK(NA_Mem_handle_create(
        end.na_class, bytes, RMA_SIZE, NA_MEM_READWRITE, &local));
    for (turn = 0; turn < 2; turn++) {
        size_t size = turn == 0 ? 5000 : RMA_SIZE;
        uint64_t before = NA_Get_counter(end.na_class, way);

        HG_CHECK_OK(rma_move(&end, false, local, remote, 77, size, addr));
        HG_CHECK_EQ_MEM(bytes, model + 77, size);
        HG_CHECK_OK(rma_move(
            &end, true, local, remote, ENDPOINT_MEMORY / 2, size, addr));
        memset(bytes, 0, size);
        HG_CHECK_OK(rma_move(
            &end, false, local, remote, ENDPOINT_MEMORY / 2, size, addr));
        HG_CHECK_EQ_MEM(bytes, model + 77, size);
        HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, way) - before, 3 * size);
    }
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, other), 0);
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
    endpoint_unmap(bytes, RMA_SIZE);
    endpoint_unmap(model, ENDPOINT_MEMORY);
}

/* Arguments: the owner's name and process id, and the obstacle. */
HG_TEST_ROLE(rma_initiator)
{
    pid_t owner;
    int error = 0;

    HG_CHECK(argc == 3);
    owner = (pid_t) strtol(argv[1], NULL, 10);
    if (strcmp(argv[2], "namespace") == 0) {
        pid_t child;
        int status = 0;

        HG_CHECK(unshare(CLONE_NEWPID) == 0);
        child = fork();
        HG_CHECK(child >= 0);
        if (child > 0) {
            HG_CHECK(waitpid(child, &status, 0) == child);
            HG_CHECK_EQ_INT(status, 0);
            /* This process cannot create another process, which the test
             * needs. */
            (void) syscall(SYS_exit_group, 0);
        }
        error = ESRCH;
    }
    rma_drop(true);
    if (strcmp(argv[2], "no call") == 0) {
        rma_forget_calls();
        error = ENOSYS;
    }
    if (strcmp(argv[2], "shut") == 0)
        error = EPERM;
    HG_CHECK_EQ_INT(rma_bare(owner), error);
    rma_there_and_back(argv[0], error == 0 ? "sm_rma_vm" : "sm_rma_copied");
    /* No leak checker can inspect a process that /proc does not show. */
    if (strcmp(argv[2], "namespace") == 0)
        (void) syscall(SYS_exit_group, 0);
}

static void rma_between(const char *rights, const char *obstacle)
{
    struct hg_test_peer *owner, *initiator;
    char *name, *pid;

    rma_need_root();
    owner = rma_spawn_owner(rights);
    name = hg_test_read_peer(owner);
    HG_CHECK(asprintf(&pid, "%ld", (long) hg_test_peer_pid(owner)) > 0);
    initiator = hg_test_spawn("rma_initiator", name, pid, obstacle, NULL);
    HG_CHECK_EQ_INT(hg_test_wait(initiator), 0);
    hg_test_stop(owner);
    free(name);
    free(pid);
}

HG_TEST(kernel_copies_between_unprivileged_processes)
{
    rma_between("open", "nothing");
}

HG_TEST(memory_of_an_undumpable_process_is_copied)
{
    rma_between("shut", "shut");
}

HG_TEST(memory_is_copied_without_the_system_call)
{
    rma_between("open", "no call");
}

HG_TEST(memory_in_another_namespace_is_copied)
{
    rma_between("open", "namespace");
}

/* ---- A reused process id ---- */

#define RMA_SMALL ((size_t) 100000)
/* Blocks of 64 KiB, to have memory at the owner's addresses. */
#define RMA_TOP 256

static unsigned char rma_bytes[RMA_SMALL]; /* at one place in all of them */
static char rma_name[64];

static void rma_report(int fd, const void *data, size_t size)
{
    HG_CHECK_EQ_INT(write(fd, data, size), (ssize_t) size);
}

/* A process that will die, and may leave its socket to an unrelated process.
 * The bare system call skips the library's fork handlers. */
static void rma_mortal(int fd, bool keeper)
{
    unsigned char bytes[128], go = 0;
    struct conform_end end;
    na_mem_handle_t mem;
    na_size_t size;

    memset(rma_bytes, 7, RMA_SMALL);
    endpoint_open(&end, rma_name, 1000);
    mem = endpoint_register(&end, rma_bytes, RMA_SMALL);
    size = NA_Mem_handle_get_serialize_size(end.na_class, mem);
    HG_CHECK(size <= sizeof(bytes));
    HG_CHECK_OK(NA_Mem_handle_serialize(end.na_class, bytes, size, mem));
    rma_report(fd, bytes, size);
    while (recv(fd, &go, 1, MSG_DONTWAIT) != 1)
        (void) conform_turn(end.na_class, end.context, 1);
    if (keeper && syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) == 0)
        for (;;)
            (void) pause();
    rma_report(fd, &go, 1);
    for (;;)
        (void) pause();
}

/* Another process with that id, whose memory is `fill`. It ends when the other
 * end of `fd` is written to, successfully if its memory is unchanged. */
static void rma_become(pid_t pid, int fd, unsigned char fill)
{
    struct clone_args args;
    unsigned char model[1000], go;
    size_t i;
    long ret;

    memset(&args, 0, sizeof(args));
    args.exit_signal = SIGCHLD;
    args.set_tid = (uintptr_t) &pid;
    args.set_tid_size = 1;
    memset(rma_bytes, fill, RMA_SMALL);
    memset(model, fill, sizeof(model));
    ret = syscall(SYS_clone3, &args, sizeof(args));
    HG_CHECK(ret >= 0);
    if (ret > 0)
        return;
    if (read(fd, &go, 1) != 1)
        (void) syscall(SYS_exit_group, 2);
    for (i = 0; i < RMA_SMALL; i += sizeof(model)) {
        if (memcmp(rma_bytes + i, model, sizeof(model)) != 0)
            (void) syscall(SYS_exit_group, 3);
    }
    (void) syscall(SYS_exit_group, 0);
}

/* The first process of its own namespace: uses the memory of a peer, and
 * continues when the peer is dead and its id belongs to another process. */
static void rma_survive(bool keeper)
{
    static unsigned char got[RMA_SMALL];
    unsigned char bytes[128], go = 1;
    na_mem_handle_t local, remote;
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    int fds[2], other[2], status = 0, i;
    ssize_t size;
    pid_t pid;

    HG_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    HG_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, other) == 0);
    pid = fork();
    HG_CHECK(pid >= 0);
    if (pid == 0)
        rma_mortal(fds[1], keeper);
    size = read(fds[0], bytes, sizeof(bytes));
    HG_CHECK(size > 0);
    for (i = 0; i < RMA_TOP; i++) /* kept; has a page of each */
        HG_CHECK(calloc(1, 65536) != NULL);
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_OK(endpoint_lookup(&end, rma_name, &addr));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        end.na_class, &remote, bytes, (na_size_t) size));
    HG_CHECK_OK(NA_Mem_handle_create(
        end.na_class, got, RMA_SMALL, NA_MEM_READWRITE, &local));
    HG_CHECK_OK(rma_move(&end, false, local, remote, 0, RMA_SMALL, addr));
    HG_CHECK(got[0] == 7 && got[RMA_SMALL - 1] == 7);
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "sm_rma_vm"), RMA_SMALL);
    rma_report(fds[0], &go, 1);
    HG_CHECK_EQ_INT(read(fds[0], &go, 1), 1);
    HG_CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    rma_become(pid, other[1], 9);
    /* The peer's socket reveals the death, unless another process keeps it
     * open. */
    memset(got, 5, RMA_SMALL);
    if (!keeper)
        HG_CHECK_RET(rma_move(&end, true, local, remote, 0, RMA_SMALL, addr),
            NA_DISCONNECT);
    HG_CHECK_RET(rma_move(&end, false, local, remote, 0, RMA_SMALL, addr),
        NA_DISCONNECT);
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "sm_rma_vm"), RMA_SMALL);
    rma_report(other[0], &go, 1);
    HG_CHECK(waitpid(pid, &status, 0) == pid);
    HG_CHECK_EQ_INT(status, 0);
    (void) syscall(SYS_exit_group, 0);
}

static void rma_outlive(bool keeper)
{
    int status = 0;
    pid_t child;

    rma_need_root();
    (void) snprintf(
        rma_name, sizeof(rma_name), "sm://mortal-%ld", (long) getpid());
    child = fork();
    HG_CHECK(child >= 0);
    if (child == 0) {
        HG_CHECK(unshare(CLONE_NEWPID) == 0);
        child = fork();
        HG_CHECK(child >= 0);
        if (child == 0)
            rma_survive(keeper);
        HG_CHECK(waitpid(child, &status, 0) == child);
        (void) syscall(SYS_exit_group, status != 0);
    }
    HG_CHECK(waitpid(child, &status, 0) == child);
    HG_CHECK_EQ_INT(status, 0);
}

HG_TEST(process_that_reuses_a_pid_is_not_accessed)
{
    rma_outlive(false);
}

HG_TEST(process_that_reuses_a_pid_is_detected_while_the_socket_lives)
{
    rma_outlive(true);
}

HG_TEST(many_segments_take_few_system_calls)
{
    struct hg_test_peer *owner = rma_spawn_owner("root");
    char *name = hg_test_read_peer(owner);
    unsigned char *model = endpoint_map(ENDPOINT_MEMORY);
    unsigned char *bytes = endpoint_map(RMA_RUNS * 64);
    struct na_segment segments[RMA_RUNS];
    na_mem_handle_t local, remote;
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    unsigned i;

    conform_fill(model, ENDPOINT_MEMORY, 7);
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    remote = endpoint_remote(&end, addr);
    for (i = 0; i < RMA_RUNS; i++) {
        segments[i].address = bytes + 64 * (RMA_RUNS - 1 - i);
        segments[i].size = 60;
    }
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        end.na_class, segments, RMA_RUNS, NA_MEM_READWRITE, &local));
    HG_CHECK_OK(rma_move(&end, false, local, remote, 5, RMA_RUNS * 60, addr));
    for (i = 0; i < RMA_RUNS; i++)
        HG_CHECK_EQ_MEM(segments[i].address, model + 5 + 60 * i, 60);
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "sm_rma_calls"), 1);
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
    endpoint_unmap(bytes, RMA_RUNS * 64);
    endpoint_unmap(model, ENDPOINT_MEMORY);
    hg_test_stop(owner);
    free(name);
}

HG_TEST(copy_method_can_be_forced_and_a_wrong_one_is_reported)
{
    struct hg_test_peer *owner = rma_spawn_owner("root");
    char *name = hg_test_read_peer(owner);

    HG_CHECK(setenv("HG_SM_RMA", "copy", 1) == 0);
    rma_there_and_back(name, "sm_rma_copied");
    HG_CHECK(setenv("HG_SM_RMA", "vm", 1) == 0);
    rma_there_and_back(name, "sm_rma_vm");
    HG_CHECK(setenv("HG_SM_RMA", "carrier pigeon", 1) == 0);
    hg_test_expect_log("HG_SM_RMA=carrier pigeon");
    hg_test_allow_log("cannot open");
    HG_CHECK(NA_Initialize("sm://", NA_FALSE) == NULL);
    hg_test_stop(owner);
    free(name);
}

/* An owner dies halfway: operations in flight end with a reason. */
HG_TEST(death_of_the_owner_ends_transfers)
{
    struct hg_test_peer *owner = rma_spawn_owner("root");
    char *name = hg_test_read_peer(owner);
    unsigned char *bytes = endpoint_map(ENDPOINT_MEMORY);
    na_mem_handle_t local, remote;
    struct conform_call calls[8];
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    unsigned i;

    hg_test_allow_log("");
    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    remote = endpoint_remote(&end, addr);
    HG_CHECK_OK(NA_Mem_handle_create(
        end.na_class, bytes, ENDPOINT_MEMORY, NA_MEM_READWRITE, &local));
    memset(calls, 0, sizeof(calls));
    for (i = 0; i < 8; i++)
        HG_CHECK_OK(NA_Get(end.na_class, end.context, conform_ended, &calls[i],
            local, 0, remote, 0, ENDPOINT_MEMORY, addr, &calls[i].id));
    (void) conform_turn(end.na_class, end.context, 0);
    hg_test_signal(owner, SIGKILL);
    (void) hg_test_wait(owner); /* its resources are closed */
    for (i = 0; i < 8; i++)
        HG_CHECK_RET(conform_wait(&end, &calls[i]), NA_DISCONNECT);
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
    endpoint_unmap(bytes, ENDPOINT_MEMORY);
    free(name);
}

/* Cancel between two pieces: the memory is not touched afterwards. */
HG_TEST(transfer_can_be_canceled_between_pieces)
{
    struct hg_test_peer *owner = rma_spawn_owner("root");
    char *name = hg_test_read_peer(owner);
    unsigned char *bytes = endpoint_map(ENDPOINT_MEMORY);
    na_mem_handle_t local, remote;
    struct conform_call call;
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;

    endpoint_open(&end, "sm://", 1000);
    HG_CHECK_OK(endpoint_lookup(&end, name, &addr));
    remote = endpoint_remote(&end, addr);
    HG_CHECK_OK(NA_Mem_handle_create(
        end.na_class, bytes, ENDPOINT_MEMORY, NA_MEM_READWRITE, &local));
    HG_CHECK_OK(rma_move(&end, false, local, remote, 0, 1, addr));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Get(end.na_class, end.context, conform_ended, &call, local,
        0, remote, 0, ENDPOINT_MEMORY, addr, &call.id));
    (void) NA_Progress(end.na_class, end.context, 0); /* one piece */
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "sm_rma_calls"), 2);
    HG_CHECK_OK(NA_Cancel(end.na_class, end.context, call.id));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, local));
    endpoint_unmap(bytes, ENDPOINT_MEMORY);
    HG_CHECK_RET(conform_wait(&end, &call), NA_CANCELED);
    HG_CHECK_EQ_U64(NA_Get_counter(end.na_class, "sm_rma_calls"), 2);
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, remote));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
    hg_test_stop(owner);
    free(name);
}
