/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that lacks what processes usually have: the descriptors 0 to 2,
 * getrandom, /dev/urandom and /dev/null. Classes open and work, or opening them
 * is refused with one line.
 *
 * This program intercepts open, for the library and for the C library's stdio.
 */
#define _GNU_SOURCE 1 /* syscall */
#include "conform.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

/* ---- The machine ---- */

/* A path that does not exist; NULL: all do. `system_other` is opened in its
 * place, unless it is NULL. */
static const char *_Atomic system_absent;
static const char *_Atomic system_other;
static _Atomic unsigned system_asked; /* attempts to open that path */

/* O_CREAT and O_TMPFILE have the only third argument. */
int open(const char *path, int flags, ...)
{
    const char *absent = atomic_load(&system_absent);
    int mode = 0;
    va_list args;

    va_start(args, flags);
    if ((flags & O_CREAT) != 0)
        mode = va_arg(args, int);
    va_end(args);
    if (absent != NULL && strcmp(path, absent) == 0) {
        atomic_fetch_add(&system_asked, 1);
        path = atomic_load(&system_other);
    }
    if (path == NULL) {
        errno = ENOENT;
        return -1;
    }
    return openat(AT_FDCWD, path, flags, mode);
}

static void system_hide(const char *path)
{
    atomic_store(&system_asked, 0);
    atomic_store(&system_absent, path);
}

#ifdef __linux__
static void system_filter(struct sock_filter *lines, size_t count)
{
    struct sock_fprog program = {(unsigned short) count, lines};

    HG_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        hg_test_skip("the kernel has no seccomp: %s", strerror(errno));
}
#endif

/* The kernel refuses getrandom from now on. */
static void system_refuse_getrandom(int error)
{
#ifdef __linux__
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned) error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    char byte;

    system_filter(lines, sizeof(lines) / sizeof(lines[0]));
    HG_CHECK(syscall(SYS_getrandom, &byte, sizeof(byte), 0) == -1);
    HG_CHECK_EQ_INT(errno, error);
#else
    (void) error; /* the library does not call it */
#endif
}

/* The kernel refuses sockets of AF_UNIX from now on, as RestrictAddressFamilies
 * of systemd does. */
static void system_refuse_local_sockets(void)
{
#ifdef __linux__
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        /* The low half of the first argument, on either byte order. */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
            offsetof(struct seccomp_data, args) +
                (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    system_filter(lines, sizeof(lines) / sizeof(lines[0]));
    HG_CHECK(socket(AF_UNIX, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT);
#else
    hg_test_skip("needs seccomp of Linux");
#endif
}

/* MPI itself needs more. */
static bool system_is_ours(void)
{
    return !hg_test_is_mpi();
}

/* ---- Descriptors ---- */

static int system_saved[3]; /* what 0 to 2 were */

static void system_close_stdio(int first)
{
    int fd;

    (void) fflush(NULL);
    for (fd = 0; fd <= 2; fd++) {
        system_saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
        HG_CHECK(system_saved[fd] >= 100);
    }
    for (fd = first; fd <= 2; fd++)
        HG_CHECK(close(fd) == 0);
}

/* Restore them, and check that they were useless: a descriptor that cannot be
 * written and that no program inherits. */
static void system_open_stdio(int first)
{
    struct stat is[3];
    int fd, got[3], flags[3];

    for (fd = first; fd <= 2; fd++) {
        memset(&is[fd], 0, sizeof(is[fd]));
        (void) fstat(fd, &is[fd]);
        flags[fd] = fcntl(fd, F_GETFD);
        got[fd] = write(fd, "lost\n", 5) == -1 ? errno : 0;
        (void) dup2(system_saved[fd], fd);
    }
    for (fd = first; fd <= 2; fd++) {
        HG_CHECK_EQ_INT(flags[fd], FD_CLOEXEC);
        HG_CHECK_EQ_INT(got[fd], EBADF);
        HG_CHECK(S_ISCHR(is[fd].st_mode) || S_ISDIR(is[fd].st_mode));
    }
}

/* Lines on the way to stderr. */
static void system_log_lines(void)
{
    unsigned i;

    HG_Set_log_func(NULL, NULL);
    for (i = 0; i < 20; i++)
        (void) HG_Version_get(NULL, NULL, NULL);
}

static void system_try_stdio(int first)
{
    size_t size = 1 << 20;
    unsigned char *want = (unsigned char *) malloc(size);
    hg_bulk_t bulk = HG_BULK_NULL;
    struct conform_end end;
    unsigned count;
    size_t got_size;
    void *got;

    HG_CHECK(want != NULL);
    system_close_stdio(first);
    conform_open(&end, NULL);
    HG_CHECK_OK(HG_Bulk_init(end.na_class));
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &bulk));
    HG_CHECK_OK(HG_Bulk_handle_access(
        bulk, 0, size, HG_BULK_READWRITE, 1, &got, &got_size, &count));
    HG_CHECK_EQ_U64(got_size, size);
    conform_fill(want, size, 1);
    memcpy(got, want, size);
    system_log_lines();
    HG_CHECK_EQ_MEM(got, want, size);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    HG_CHECK_OK(HG_Bulk_finalize());
    conform_close(&end);
    system_open_stdio(first);
    free(want);
}

/* A daemon: no descriptor of the library becomes its stderr. */
HG_TEST(closed_stdio_is_not_used_by_the_library)
{
    system_try_stdio(0);
}

HG_TEST(closed_stderr_is_not_used_by_the_library)
{
    system_try_stdio(2);
}

HG_TEST(a_list_of_protocols_does_not_use_closed_stdio)
{
    struct na_protocol_info *list = NULL;
    hg_return_t ret;

    system_close_stdio(0);
    ret = HG_Get_na_protocol_info(NULL, &list);
    system_open_stdio(0);
    HG_CHECK_OK(ret);
    HG_Free_na_protocol_info(list);
}

/* In a chroot without devices. */
HG_TEST_WHERE(closed_stdio_needs_no_device, system_is_ours)
{
    system_hide("/dev/null");
    system_try_stdio(0);
    HG_CHECK(atomic_load(&system_asked) > 0);
}

HG_TEST_WHERE(a_class_opens_without_devices, system_is_ours)
{
    struct conform_end end;

    system_hide("/dev/null");
    conform_open(&end, NULL);
    conform_close(&end);
}

/* The library counts free descriptors with a socket of AF_UNIX. */
HG_TEST_WHERE(a_filter_of_local_sockets_is_no_lack, hg_test_crosses_hosts)
{
    char name[NA_MAX_ADDR_LEN];
    struct conform_end end, other;
    struct conform_call lookup;

    system_refuse_local_sockets();
    conform_open(&end, NULL);
    conform_open(&other, NULL);
    HG_CHECK_OK(
        NA_Addr_to_string(other.na_class, name, sizeof(name), other.self));
    memset(&lookup, 0, sizeof(lookup));
    HG_CHECK_OK(NA_Addr_lookup(
        end.na_class, end.context, conform_ended, &lookup, name, &lookup.id));
    while (lookup.ends == 0) {
        (void) conform_turn(end.na_class, end.context, 1);
        (void) conform_turn(other.na_class, other.context, 0);
    }
    HG_CHECK_OK(lookup.ret);
    conform_free_addr(&end, &lookup);
    conform_close(&other);
    conform_close(&end);
}

/* ---- Random numbers ---- */

/* A class with a message to itself and registered memory. */
static void system_use_class(void)
{
    struct conform_call send, recv;
    struct conform_end end;
    char bytes[64] = "moved", got[64];
    na_mem_handle_t mem;

    conform_open(&end, NULL);
    HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(conform_send(&end, &send, false, "text", 5, 3));
    HG_CHECK_OK(conform_wait(&end, &recv));
    HG_CHECK_EQ_STR(got, "text");
    conform_free_addr(&end, &recv);
    mem = conform_memory(&end, bytes, sizeof(bytes), NA_MEM_READWRITE);
    HG_CHECK_OK(NA_Mem_register(end.na_class, mem));
    HG_CHECK_OK(NA_Mem_deregister(end.na_class, mem));
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, mem));
    conform_close(&end);
}

static void system_fall_back(int error)
{
    unsigned fds;

    system_hide("/dev/urandom");
    atomic_store(&system_other, "/dev/urandom"); /* counted only */
    system_refuse_getrandom(error);
    fds = hg_test_fd_count();
    system_use_class();
    HG_CHECK(atomic_load(&system_asked) > 0);
    if (!hg_test_is_ofi()) /* libfabric keeps some of its first class */
        HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
}

HG_TEST_WHERE(a_kernel_without_getrandom_has_a_device, system_is_ours)
{
    system_fall_back(ENOSYS);
}

HG_TEST_WHERE(a_filter_of_getrandom_leaves_the_device, system_is_ours)
{
    system_fall_back(EPERM);
}

static void system_have_none(const char *other)
{
    char *string = hg_test_listen_string();
    struct na_init_info info;

    conform_info(&info);
    atomic_store(&system_other, other);
    system_hide("/dev/urandom");
    system_refuse_getrandom(EPERM);
    hg_test_expect_log("no random numbers");
    HG_CHECK(NA_Initialize_opt(string, NA_TRUE, &info) == NULL);
    HG_CHECK(atomic_load(&system_asked) > 0);
    HG_CHECK_EQ_INT(hg_test_log_count("no random numbers"), 1);
    free(string);
}

HG_TEST_WHERE(a_class_without_random_numbers_is_refused, system_is_ours)
{
    system_have_none(NULL);
}

/* Everybody who can read the file knows the numbers. */
HG_TEST_WHERE(a_file_is_no_source_of_random_numbers, system_is_ours)
{
    system_have_none("/proc/self/exe");
}

/* The source goes away while a class is open: registrations fail, messages do
 * not need it. */
HG_TEST_WHERE(keys_without_random_numbers_are_refused, system_is_ours)
{
    size_t size = 64;
    char bytes[64] = {0}, wire[1024], got[8];
    struct conform_call send, recv;
    struct conform_end end;
    hg_bulk_t bulk;
    void *at = bytes;

    conform_open(&end, NULL);
    HG_CHECK_OK(HG_Bulk_init(end.na_class));
    HG_CHECK_OK(HG_Bulk_handle_create(1, &at, &size, HG_BULK_READWRITE, &bulk));
    system_hide("/dev/urandom");
    system_refuse_getrandom(EPERM);
    hg_test_expect_log("no random numbers");
    HG_CHECK_RET(HG_Bulk_handle_serialize(wire, sizeof(wire), bulk), HG_NODEV);
    HG_CHECK_OK(HG_Bulk_handle_free(bulk));
    HG_CHECK_OK(HG_Bulk_finalize());
    /* A provider that demands it registers the memory of messages, too. */
    if (getenv("HG_TEST_OFI") == NULL) {
        HG_CHECK_OK(conform_recv(&end, &recv, true, got, sizeof(got), 3));
        HG_CHECK_OK(conform_send(&end, &send, true, "text", 5, 3));
        HG_CHECK_OK(conform_wait(&end, &recv));
        HG_CHECK_EQ_STR(got, "text");
    }
    conform_close(&end);
}

/* The transports whose connections begin with numbers that nobody may guess. */
static bool system_dials_at_random(void)
{
    return !hg_test_is_mux() &&
        (strncmp(hg_test_transport(), "zmq", 3) == 0 || hg_test_is_ofi());
}

HG_TEST_WHERE(a_lookup_without_random_numbers_ends, system_dials_at_random)
{
    char name[NA_MAX_ADDR_LEN];
    struct conform_end end, other;
    na_addr_t found;

    conform_open(&end, NULL);
    conform_open(&other, NULL);
    HG_CHECK_OK(
        NA_Addr_to_string(other.na_class, name, sizeof(name), other.self));
    system_hide("/dev/urandom");
    system_refuse_getrandom(EPERM);
    hg_test_expect_log("no random numbers");
    hg_test_allow_log("");
    HG_CHECK(NA_Addr_lookup_wait(end.na_class, name, CONFORM_TIMEOUT, &found) !=
        NA_SUCCESS);
    conform_close(&other);
    conform_close(&end);
}
