/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk memory that cannot be accessed: a mapped file that was cut short, pages
 * without permission, addresses without memory. It is the caller's, or the
 * local memory of the server that moves the data. The transfer ends with
 * HG_FAULT, both processes live, and the next transfer succeeds.
 */
#define _GNU_SOURCE 1
#include "rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum fault_kind {
    FAULT_NOT, /* good memory */
    FAULT_CUT,
    FAULT_PROTECTED,
    FAULT_NOWHERE,
    FAULT_READ_ONLY,
    FAULT_FULL
};

#define FAULT_MAX 300000u
#define FAULT_LIMIT 50000u /* bytes of FAULT_NOWHERE */
#define FAULT_PIECES 20u
#define FAULT_MS hg_test_scaled_ms(20000u)

/* clang-format off */
MERCURY_GEN_PROC(fault_job_t, ((uint8_t)(push))((uint8_t)(kind)))
MERCURY_GEN_RPC_STUB(int32_t, fault_move,
    ((fault_job_t)(job))((hg_bulk_t)(memory)), )
/* clang-format on */

static void rpc_register(void)
{
    HG_CHECK_OK(HG_Set_log_level("debug")); /* no line is omitted */
    HG_CHECK(fault_move_provide() != 0);
}

static unsigned char fault_pattern[FAULT_MAX];

/* Where a process copies data of its own memory, it says what is wrong. */
static const char fault_line[] = "bulk memory of this process cannot be";

/* Where the kernel copies, the server says that the memory is the caller's. */
static const char fault_far_line[] = "bulk memory of process ";
#define FAULT_NAMED 0x1000 /* added to the result of such a transfer */

/* In every process of this program. */
__attribute__((constructor)) static void fault_begin(void)
{
    unsigned i;

    hg_test_allow_log(fault_line); /* first, so that it is counted */
    hg_test_allow_log(fault_far_line);
    for (i = 0; i < FAULT_MAX; i++)
        fault_pattern[i] = (unsigned char) (i * 131 >> i % 5);
}

/* The file has not more than a page left, none if it was small. */
static void *fault_cut(size_t size)
{
    long page = sysconf(_SC_PAGESIZE);
    int fd = memfd_create("fault", MFD_CLOEXEC);
    void *memory;

    HG_CHECK(fd >= 0 && ftruncate(fd, (off_t) size) == 0);
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    HG_CHECK(memory != MAP_FAILED);
    HG_CHECK(ftruncate(fd, size > (size_t) page ? page : 0) == 0);
    HG_CHECK(close(fd) == 0);
    return memory;
}

/* The name of a file on a small disk, or of the folder where it is mounted. */
static const char *fault_disk(const char *file)
{
    static char name[4096];

    (void) snprintf(name, sizeof(name), "%s/disk%s", hg_test_dir(), file);
    return name;
}

/* The pages of a sparse file that is larger than the disk. */
static void *fault_fill(size_t size)
{
    int fd = open(fault_disk("/sparse"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory;

    HG_CHECK(fd >= 0 && ftruncate(fd, (off_t) size) == 0);
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    HG_CHECK(memory != MAP_FAILED && close(fd) == 0);
    return memory;
}

/* `size` bytes of a kind, at an address that no other memory gets. */
static unsigned char *fault_make(enum fault_kind kind, size_t size)
{
    int protection = kind == FAULT_PROTECTED ? PROT_NONE
        : kind == FAULT_READ_ONLY            ? PROT_READ
                                             : PROT_READ | PROT_WRITE;
    unsigned char *memory;

    if (kind == FAULT_CUT)
        return (unsigned char *) fault_cut(size);
    if (kind == FAULT_FULL)
        return (unsigned char *) fault_fill(size);
    if (kind == FAULT_NOWHERE) /* Linux maps nothing there */
        return (unsigned char *) (uintptr_t) sysconf(_SC_PAGESIZE);
    memory = (unsigned char *) mmap(
        NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HG_CHECK(memory != MAP_FAILED);
    memcpy(memory, fault_pattern, size);
    HG_CHECK(mprotect(memory, size, protection) == 0);
    return memory;
}

static void fault_free(enum fault_kind kind, unsigned char *memory, size_t size)
{
    if (kind != FAULT_NOWHERE)
        HG_CHECK(munmap(memory, size) == 0);
}

/* Whether memory of a kind can be the source, or the destination. */
static bool fault_is_good(enum fault_kind kind, bool source)
{
    return kind == FAULT_NOT || (kind == FAULT_READ_ONLY && source);
}

/* ---- The server ---- */

int32_t fault_move(fault_job_t job, hg_memory_t memory)
{
    enum fault_kind kind = (enum fault_kind) job.kind;
    unsigned char *bytes = fault_make(kind, memory.size);
    unsigned before = hg_test_log_count(fault_line);
    unsigned far = hg_test_log_count(fault_far_line);
    hg_return_t ret = job.push ? HG_Bulk_push_timed(memory.call, memory.bulk, 0,
                                     bytes, memory.size, FAULT_MS)
                               : HG_Bulk_pull_timed(memory.call, memory.bulk, 0,
                                     bytes, memory.size, FAULT_MS);

    if (ret == HG_SUCCESS && !job.push)
        HG_CHECK_EQ_MEM(bytes, fault_pattern, memory.size);
    /* The process that has the memory logs it. */
    if (ret == HG_FAULT)
        HG_CHECK((hg_test_log_count(fault_line) > before) ==
            !fault_is_good(kind, job.push));
    if (ret == HG_FAULT)
        HG_CHECK(strstr(HG_Get_last_error_text(),
                     fault_is_good(kind, job.push)
                         ? ": memory of the peer"
                         : ": memory of this process") != NULL);
    fault_free(kind, bytes, memory.size);
    if (hg_test_log_count(fault_far_line) > far)
        return (int32_t) ret + FAULT_NAMED;
    return (int32_t) ret;
}

/* ---- The client ---- */

/* One transfer: the kinds of both memories. */
struct fault_case {
    enum fault_kind here, there;
    size_t size;
    unsigned pieces;
    bool push;
};

static hg_return_t fault_call(
    const struct rpc_end *end, const struct fault_case *c)
{
    fault_job_t job = {c->push, (uint8_t) c->there};
    unsigned char *bytes = fault_make(c->here, c->size);
    void *ptrs[FAULT_PIECES];
    size_t sizes[FAULT_PIECES];
    unsigned before = hg_test_log_count(fault_line);
    int32_t moved = -1;
    hg_bulk_t bulk;
    unsigned i;

    for (i = 0; i < c->pieces; i++) {
        sizes[i] = c->size / c->pieces;
        ptrs[i] = bytes + i * sizes[i];
    }
    if (c->here == FAULT_NOT && c->push)
        memset(bytes, 0, c->size);
    HG_CHECK_OK(HG_Bulk_handle_create(c->pieces, ptrs, sizes,
        c->here == FAULT_READ_ONLY && !c->push ? HG_BULK_READ_ONLY
                                               : HG_BULK_READWRITE,
        &bulk));
    HG_CHECK_OK(fault_move_call(end->target, 3 * FAULT_MS, job, bulk, &moved));
    if (c->here == FAULT_NOT && moved == HG_SUCCESS)
        HG_CHECK_EQ_MEM(bytes, fault_pattern, c->size);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    fault_free(c->here, bytes, c->size);
    /* One of the processes has said that the memory is this one's. */
    HG_CHECK((hg_test_log_count(fault_line) > before) +
            ((moved & FAULT_NAMED) != 0) ==
        (moved != HG_SUCCESS && !fault_is_good(c->here, !c->push)));
    return (hg_return_t) (moved & ~FAULT_NAMED);
}

static void fault_need_kernel(void)
{
    if (hg_test_is_valgrind())
        hg_test_skip("valgrind reports each access that the kernel refuses");
}

/* Make this process and its children run on a system that denies
 * process_vm_readv. */
static void fault_restrict(void)
{
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(lines) / sizeof(lines[0]), lines};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        hg_test_skip("the kernel has no seccomp: %s", strerror(errno));
}

static void fault_try(const struct rpc_end *end, struct fault_case c)
{
    bool good =
        fault_is_good(c.here, !c.push) && fault_is_good(c.there, c.push);

    if (c.size > FAULT_LIMIT &&
        (c.here == FAULT_NOWHERE || c.there == FAULT_NOWHERE))
        c.size = FAULT_LIMIT;
    HG_CHECK_RET(fault_call(end, &c), good ? HG_SUCCESS : HG_FAULT);
    c.here = FAULT_NOT;
    c.there = FAULT_NOT;
    HG_CHECK_OK(fault_call(end, &c));
}

/* Each kind, in this process or in the server. */
static void fault_all(bool here)
{
    static const size_t sizes[] = {3000, FAULT_MAX};
    struct rpc_end end;
    unsigned kind, i, pieces, push;

    fault_need_kernel();
    rpc_open(&end);
    for (kind = FAULT_NOT; kind <= (unsigned) FAULT_READ_ONLY; kind++)
        for (i = 0; i < 2; i++)
            for (pieces = 1; pieces <= FAULT_PIECES; pieces += FAULT_PIECES - 1)
                for (push = 0; push < 2; push++) {
                    struct fault_case c = {
                        FAULT_NOT, FAULT_NOT, sizes[i], pieces, push != 0};

                    *(here ? &c.here : &c.there) = (enum fault_kind) kind;
                    fault_try(&end, c);
                }
    rpc_close(&end);
}

/* Within a process, and over libfabric, an access gets a signal. */
static bool fault_is_promised(void)
{
    return hg_test_crosses_processes() && !hg_test_is_ofi();
}

HG_TEST_WHERE(memory_of_the_caller_may_be_inaccessible, fault_is_promised)
{
    fault_all(true);
}

HG_TEST_WHERE(memory_of_the_server_may_be_inaccessible, fault_is_promised)
{
    fault_all(false);
}

HG_TEST_WHERE(
    inaccessible_memory_is_found_without_permission, fault_is_promised)
{
    fault_need_kernel();
    if (hg_test_is_mpi())
        hg_test_skip("Open MPI copies by process_vm_readv itself");
    fault_restrict();
    fault_all(true);
    fault_all(false);
}

/* A push is the first access to the pages. */
HG_TEST_WHERE(full_disk_under_the_memory_is_found, fault_is_promised)
{
    const struct fault_case c = {FAULT_FULL, FAULT_NOT, FAULT_MAX, 1, true};
    struct rpc_end end;

    fault_need_kernel();
    HG_CHECK(mkdir(fault_disk(""), 0700) == 0);
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", fault_disk(""), "tmpfs", 0, "size=64k") != 0)
        hg_test_skip("only root can mount a small disk");
    rpc_open(&end);
    fault_try(&end, c);
    rpc_close(&end);
    HG_CHECK(umount2(fault_disk(""), MNT_DETACH) == 0);
}
