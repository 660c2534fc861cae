/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forward_ops: system calls for tests/forward that a shell cannot make.
 *
 * It reads commands, one a line, and answers each with one line: `ok` and the
 * result, or the text of errno. Words are separated by one space. ID is 0 to 9,
 * the number of an open file; PATH is relative to the working directory.
 *
 *     open ID PATH MODE   r, w or +, then any of c(reate) x(clusive) t(runcate)
 *                         a(ppend) d(irectory) n(ofollow) o (O_DIRECT)
 *                         s (O_SYNC)
 *     close ID            size ID            sync ID            datasync ID
 *     map ID AT TEXT      writes by a shared mapping
 *     lock ID TYPE AT SIZE    fcntl(2): r, w or u(nlock); R or W waits
 *     ofd ID TYPE AT SIZE     the same with a lock of the open file
 *     test ID TYPE AT SIZE    whether such a lock is free
 *     holder ID TYPE AT SIZE  the process that has another lock there
 *     flock ID TYPE           flock(2): s, x or u; S or X waits
 *     seek ID WHENCE AT       d(ata) or h(ole)
 *     allocate ID MODE AT SIZE    fallocate(2)
 *     copy ID AT ID AT SIZE   copy_file_range(2)
 *     stat PATH    mkdir PATH MODE    mknod PATH MODE    chmod PATH MODE
 *     link PATH PATH    symlink TARGET PATH    readlink PATH
 *     rename PATH PATH FLAGS    unlink PATH    rmdir PATH    cut PATH SIZE
 *     times PATH ATIME MTIME    seconds.nanoseconds, now or omit
 *     access PATH MODE    owner PATH UID GID    enter PATH
 *     setx PATH NAME VALUE FLAGS    getx PATH NAME SIZE    listx PATH
 *     removex PATH NAME    list PATH    statfs PATH
 *     entries PATH SIZE   how many, read with a buffer of SIZE bytes
 *     catch NUMBER FLAGS  a signal, which then does nothing
 *     reads ID COUNT SIZE     of COUNT processes, which end after a second
 *     names PATH          makes, lists and removes names of all bytes but '/'
 *     lines ID COUNT TEXT     appends COUNT lines, one a write(2)
 *     count ID COUNT TYPE     adds 1 COUNT times to the number in a file, each
 *                             time under a lock: f(cntl) or l, flock(2)
 *
 * `forward_ops refuse ERRNO PROGRAM...` starts a program in which openat2(2)
 * fails with ERRNO, a number.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "support/refuse.h"

#define OPS_WORDS 8
#define OPS_FILES 10

static int ops_files[OPS_FILES] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
static char ops_data[1 << 16];
static char ops_answer[sizeof(ops_data) + 64];

/* ---- Words ---- */

static long long ops_number(const char *word)
{
    return strtoll(word, NULL, 0);
}

/* The descriptor of an ID, or one that is not open. */
static int ops_file(const char *word)
{
    long long id = ops_number(word);

    return id >= 0 && id < OPS_FILES ? ops_files[id] : -1;
}

/* The answer to a call that returns a number, or -1 and errno. */
static void ops_result(long long got)
{
    if (got < 0)
        (void) snprintf(ops_answer, sizeof(ops_answer), "%s", strerror(errno));
    else
        (void) snprintf(ops_answer, sizeof(ops_answer), "ok %lld", got);
}

/* The answer to a call that returns 0, or -1 and errno. */
static void ops_done(int got)
{
    ops_result(got);
    if (got >= 0)
        (void) snprintf(ops_answer, sizeof(ops_answer), "ok");
}

/* The answer to a call that returns the size of text in ops_data, or -1 and
 * errno. */
static void ops_text(long long size)
{
    ops_result(size);
    if (size >= 0)
        (void) snprintf(
            ops_answer, sizeof(ops_answer), "ok %.*s", (int) size, ops_data);
}

/* ---- Open files ---- */

static int ops_flags(const char *mode)
{
    int flags = O_CLOEXEC;

    for (; *mode != '\0'; mode++)
        switch (*mode) {
        case 'w': flags |= O_WRONLY; break;
        case '+': flags |= O_RDWR; break;
        case 'c': flags |= O_CREAT; break;
        case 'x': flags |= O_EXCL; break;
        case 't': flags |= O_TRUNC; break;
        case 'a': flags |= O_APPEND; break;
        case 'd': flags |= O_DIRECTORY; break;
        case 'n': flags |= O_NOFOLLOW; break;
        case 'o': flags |= O_DIRECT; break;
        case 's': flags |= O_SYNC; break;
        default: break;
        }
    return flags;
}

static void ops_open(char **words)
{
    long long id = ops_number(words[1]);
    int file = open(words[2], ops_flags(words[3]), 0666);

    ops_done(file);
    if (file >= 0 && id >= 0 && id < OPS_FILES)
        ops_files[id] = file;
}

static void ops_close(char **words)
{
    ops_done(close(ops_file(words[1])));
    ops_files[ops_number(words[1]) % OPS_FILES] = -1;
}

static void ops_size(char **words)
{
    struct stat attr;

    ops_result(fstat(ops_file(words[1]), &attr) != 0 ? -1 : attr.st_size);
}

static void ops_sync(char **words)
{
    ops_done(fsync(ops_file(words[1])));
}

static void ops_datasync(char **words)
{
    ops_done(fdatasync(ops_file(words[1])));
}

static void ops_read(char **words)
{
    size_t size = (size_t) ops_number(words[3]);

    ops_text(pread(ops_file(words[1]), ops_data,
        size < sizeof(ops_data) ? size : sizeof(ops_data),
        (off_t) ops_number(words[2])));
}

/* The answer is how many of the reads a signal has ended. */
static void ops_reads(char **words)
{
    long long left = ops_number(words[2]);
    int status, ended = 0;

    for (; left > 0; left--)
        if (fork() == 0) {
            (void) alarm(1);
            _exit(pread(ops_file(words[1]), ops_data,
                      (size_t) ops_number(words[3]), 0) < 0);
        }
    while (wait(&status) > 0)
        ended += WIFSIGNALED(status);
    ops_result(ended);
}

static void ops_write(char **words)
{
    ops_result(pwrite(ops_file(words[1]), words[3], strlen(words[3]),
        (off_t) ops_number(words[2])));
}

static void ops_append(char **words)
{
    ops_result(write(ops_file(words[1]), words[2], strlen(words[2])));
}

static void ops_truncate(char **words)
{
    ops_done(ftruncate(ops_file(words[1]), (off_t) ops_number(words[2])));
}

static void ops_map(char **words)
{
    size_t size = strlen(words[3]), at = (size_t) ops_number(words[2]);
    char *memory = (char *) mmap(NULL, at + size, PROT_READ | PROT_WRITE,
        MAP_SHARED, ops_file(words[1]), 0);

    if (memory == MAP_FAILED) {
        ops_done(-1);
        return;
    }
    memcpy(memory + at, words[3], size);
    ops_done(msync(memory, at + size, MS_SYNC));
    (void) munmap(memory, at + size);
}

static void ops_seek(char **words)
{
    ops_result(lseek(ops_file(words[1]), (off_t) ops_number(words[3]),
        *words[2] == 'd' ? SEEK_DATA : SEEK_HOLE));
}

static void ops_allocate(char **words)
{
    ops_done(fallocate(ops_file(words[1]), (int) ops_number(words[2]),
        (off_t) ops_number(words[3]), (off_t) ops_number(words[4])));
}

static void ops_copy(char **words)
{
    off_t from = (off_t) ops_number(words[2]),
          to = (off_t) ops_number(words[4]);

    ops_result(copy_file_range(ops_file(words[1]), &from, ops_file(words[3]),
        &to, (size_t) ops_number(words[5]), 0));
}

/* ---- Locks ---- */

static struct flock ops_range(char **words)
{
    struct flock lock = {.l_whence = SEEK_SET};
    char type = *words[2];

    lock.l_type = type == 'r' || type == 'R' ? F_RDLCK
        : type == 'u'                        ? F_UNLCK
                                             : F_WRLCK;
    lock.l_start = (off_t) ops_number(words[3]);
    lock.l_len = (off_t) ops_number(words[4]);
    return lock;
}

static void ops_lock(char **words)
{
    struct flock lock = ops_range(words);
    bool waits = *words[2] == 'R' || *words[2] == 'W';

    ops_done(fcntl(ops_file(words[1]), waits ? F_SETLKW : F_SETLK, &lock));
}

static void ops_ofd(char **words)
{
    struct flock lock = ops_range(words);
    bool waits = *words[2] == 'R' || *words[2] == 'W';

    ops_done(
        fcntl(ops_file(words[1]), waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock));
}

static void ops_test(char **words)
{
    struct flock lock = ops_range(words);

    if (fcntl(ops_file(words[1]), F_GETLK, &lock) != 0)
        ops_done(-1);
    else if (lock.l_type == F_UNLCK)
        (void) snprintf(ops_answer, sizeof(ops_answer), "ok free");
    else
        (void) snprintf(ops_answer, sizeof(ops_answer), "ok %c %lld %lld",
            lock.l_type == F_RDLCK ? 'r' : 'w', (long long) lock.l_start,
            (long long) lock.l_len);
}

static void ops_holder(char **words)
{
    struct flock lock = ops_range(words);

    ops_result(
        fcntl(ops_file(words[1]), F_GETLK, &lock) != 0 ? -1 : lock.l_pid);
}

static void ops_flock(char **words)
{
    char type = *words[2];
    int op = type == 's' || type == 'S' ? LOCK_SH
        : type == 'u'                   ? LOCK_UN
                                        : LOCK_EX;

    ops_done(flock(
        ops_file(words[1]), type == 'S' || type == 'X' ? op : op | LOCK_NB));
}

/* ---- Signals ---- */

static void ops_caught(int number)
{
    (void) number;
}

static void ops_catch(char **words)
{
    struct sigaction action = {.sa_handler = ops_caught};

    action.sa_flags = (int) ops_number(words[2]);
    ops_done(sigaction((int) ops_number(words[1]), &action, NULL));
}

/* ---- Names ---- */

static void ops_stat(char **words)
{
    struct stat attr;

    if (lstat(words[1], &attr) != 0) {
        ops_done(-1);
        return;
    }
    (void) snprintf(ops_answer, sizeof(ops_answer),
        "ok mode %o links %lu uid %u gid %u size %lld rdev %lu "
        "mtime %lld.%09ld",
        (unsigned) attr.st_mode, (unsigned long) attr.st_nlink, attr.st_uid,
        attr.st_gid, S_ISDIR(attr.st_mode) ? 0 : (long long) attr.st_size,
        (unsigned long) attr.st_rdev, (long long) attr.st_mtim.tv_sec,
        attr.st_mtim.tv_nsec);
}

static void ops_enter(char **words)
{
    ops_done(chdir(words[1]));
}

static void ops_mkdir(char **words)
{
    ops_done(mkdir(words[1], (mode_t) ops_number(words[2])));
}

static void ops_mknod(char **words)
{
    ops_done(mknod(words[1], (mode_t) ops_number(words[2]), 0));
}

static void ops_chmod(char **words)
{
    ops_done(chmod(words[1], (mode_t) ops_number(words[2])));
}

static void ops_owner(char **words)
{
    ops_done(lchown(
        words[1], (uid_t) ops_number(words[2]), (gid_t) ops_number(words[3])));
}

static void ops_access(char **words)
{
    ops_done(access(words[1], (int) ops_number(words[2])));
}

static void ops_link(char **words)
{
    ops_done(link(words[1], words[2]));
}

static void ops_symlink(char **words)
{
    ops_done(symlink(words[1], words[2]));
}

static void ops_readlink(char **words)
{
    ops_text(readlink(words[1], ops_data, sizeof(ops_data)));
}

static void ops_rename(char **words)
{
    ops_done(renameat2(AT_FDCWD, words[1], AT_FDCWD, words[2],
        (unsigned) ops_number(words[3])));
}

static void ops_unlink(char **words)
{
    ops_done(unlink(words[1]));
}

static void ops_rmdir(char **words)
{
    ops_done(rmdir(words[1]));
}

static void ops_cut(char **words)
{
    ops_done(truncate(words[1], (off_t) ops_number(words[2])));
}

static struct timespec ops_time(const char *word)
{
    struct timespec time = {0, 0};
    char *end;

    if (strcmp(word, "now") == 0)
        time.tv_nsec = UTIME_NOW;
    else if (strcmp(word, "omit") == 0)
        time.tv_nsec = UTIME_OMIT;
    else {
        time.tv_sec = (time_t) strtoll(word, &end, 10);
        time.tv_nsec = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    }
    return time;
}

static void ops_times(char **words)
{
    struct timespec times[2] = {ops_time(words[2]), ops_time(words[3])};

    ops_done(utimensat(AT_FDCWD, words[1], times, AT_SYMLINK_NOFOLLOW));
}

static int ops_compare(const void *left, const void *right)
{
    return strcmp(*(char *const *) left, *(char *const *) right);
}

/* The names of a directory, sorted and joined by spaces, in ops_data. A line
 * break in a name becomes a slash. */
static bool ops_names_of(const char *path)
{
    char *names[512];
    size_t count = 0, used = 0, i;
    const struct dirent *entry;
    DIR *dir = opendir(path);

    if (dir == NULL)
        return false;
    while ((entry = readdir(dir)) != NULL && count < 512)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            names[count++] = strdup(entry->d_name);
    (void) closedir(dir);
    qsort(names, count, sizeof(names[0]), ops_compare);
    ops_data[0] = '\0';
    for (i = 0; i < count; i++) {
        used += (size_t) snprintf(ops_data + used, sizeof(ops_data) - used,
            "%s%s", i == 0 ? "" : " ", names[i]);
        free(names[i]);
    }
    for (i = 0; i < used; i++)
        if (ops_data[i] == '\n')
            ops_data[i] = '/';
    return true;
}

static void ops_list(char **words)
{
    ops_text(ops_names_of(words[1]) ? (long long) strlen(ops_data) : -1);
}

static void ops_entries(char **words)
{
    int dir = open(words[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t size = (size_t) ops_number(words[2]);
    long long count = 0;
    ssize_t got, at;

    while ((got = getdents64(dir, ops_data,
                size < sizeof(ops_data) ? size : sizeof(ops_data))) > 0)
        for (at = 0; at < got; count++)
            at += ((const struct dirent64 *) (const void *) (ops_data + at))
                      ->d_reclen;
    ops_result(got < 0 ? -1 : count);
    (void) close(dir);
}

static void ops_statfs(char **words)
{
    struct statvfs info;

    ops_result(statvfs(words[1], &info) != 0 ? -1 : (long) info.f_namemax);
}

/* ---- Extended attributes ---- */

static void ops_setx(char **words)
{
    ops_done(setxattr(words[1], words[2], words[3], strlen(words[3]),
        (int) ops_number(words[4])));
}

/* With SIZE 0 the answer is the size. */
static void ops_getx(char **words)
{
    size_t size = (size_t) ops_number(words[3]);
    ssize_t got = getxattr(words[1], words[2], ops_data,
        size < sizeof(ops_data) ? size : sizeof(ops_data));

    if (size == 0)
        ops_result(got);
    else
        ops_text(got);
}

/* The names that begin with `user.`, which end with ';' in the answer. */
static void ops_listx(char **words)
{
    ssize_t size = listxattr(words[1], ops_answer, sizeof(ops_data)), at;
    long long used = 0;

    for (at = 0; at < size; at += (ssize_t) strlen(ops_answer + at) + 1)
        if (strncmp(ops_answer + at, "user.", 5) == 0)
            used += snprintf(ops_data + used, sizeof(ops_data) - (size_t) used,
                "%s;", ops_answer + at);
    ops_text(size < 0 ? -1 : used);
}

static void ops_removex(char **words)
{
    ops_done(removexattr(words[1], words[2]));
}

/* ---- Several calls ---- */

static bool ops_make_file(const char *path)
{
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);

    return file >= 0 && close(file) == 0;
}

/* The path of a name that has the byte `i`; with 0, of one with all bytes. */
static void ops_byte_name(char *path, const char *dir, int i)
{
    size_t used = (size_t) snprintf(path, PATH_MAX, "%s/", dir);
    int byte;

    for (byte = 1; byte < 256; byte++)
        if (byte != '/' && (i == 0 || i == byte))
            path[used++] = (char) byte;
    path[used++] = 'x';
    path[used] = '\0';
}

static void ops_names(char **words)
{
    char path[PATH_MAX];
    struct stat attr;
    int i;

    for (i = 0; i < 256; i++) {
        ops_byte_name(path, words[1], i);
        if (i != '/' && !ops_make_file(path)) {
            ops_done(-1);
            return;
        }
    }
    if (!ops_names_of(words[1])) {
        ops_done(-1);
        return;
    }
    for (i = 0; i < 256; i++) {
        ops_byte_name(path, words[1], i);
        if (i != '/' && (stat(path, &attr) != 0 || unlink(path) != 0)) {
            ops_done(-1);
            return;
        }
    }
    ops_text((long long) strlen(ops_data));
}

static void ops_lines(char **words)
{
    char line[256];
    int size = snprintf(line, sizeof(line), "%s\n", words[3]), i;
    long long count = ops_number(words[2]);

    for (i = 0; i < count; i++)
        if (write(ops_file(words[1]), line, (size_t) size) != size) {
            ops_done(-1);
            return;
        }
    ops_done(0);
}

/* Lock or unlock all of a file. */
static bool ops_hold(int file, bool by_fcntl, bool on)
{
    struct flock lock = {.l_whence = SEEK_SET};

    lock.l_type = on ? F_WRLCK : F_UNLCK;
    return by_fcntl ? fcntl(file, F_SETLKW, &lock) == 0
                    : flock(file, on ? LOCK_EX : LOCK_UN) == 0;
}

static bool ops_add_one(int file)
{
    char text[32] = "";

    if (pread(file, text, sizeof(text) - 1, 0) < 0)
        return false;
    (void) snprintf(text, sizeof(text), "%08lld", strtoll(text, NULL, 10) + 1);
    return pwrite(file, text, strlen(text), 0) == (ssize_t) strlen(text);
}

static void ops_count(char **words)
{
    int file = ops_file(words[1]), i;
    long long count = ops_number(words[2]);
    bool by_fcntl = *words[3] == 'f';

    for (i = 0; i < count; i++)
        if (!ops_hold(file, by_fcntl, true) || !ops_add_one(file) ||
            !ops_hold(file, by_fcntl, false)) {
            ops_done(-1);
            return;
        }
    ops_done(0);
}

/* ---- Commands ---- */

static const struct ops_command {
    const char *name;
    int words; /* with the name */
    void (*run)(char **words);
} ops_commands[] = {
    {"open", 4, ops_open},
    {"close", 2, ops_close},
    {"size", 2, ops_size},
    {"sync", 2, ops_sync},
    {"datasync", 2, ops_datasync},
    {"read", 4, ops_read},
    {"reads", 4, ops_reads},
    {"write", 4, ops_write},
    {"append", 3, ops_append},
    {"truncate", 3, ops_truncate},
    {"map", 4, ops_map},
    {"seek", 4, ops_seek},
    {"allocate", 5, ops_allocate},
    {"copy", 6, ops_copy},
    {"lock", 5, ops_lock},
    {"ofd", 5, ops_ofd},
    {"test", 5, ops_test},
    {"holder", 5, ops_holder},
    {"flock", 3, ops_flock},
    {"catch", 3, ops_catch},
    {"stat", 2, ops_stat},
    {"enter", 2, ops_enter},
    {"mkdir", 3, ops_mkdir},
    {"mknod", 3, ops_mknod},
    {"chmod", 3, ops_chmod},
    {"owner", 4, ops_owner},
    {"access", 3, ops_access},
    {"link", 3, ops_link},
    {"symlink", 3, ops_symlink},
    {"readlink", 2, ops_readlink},
    {"rename", 4, ops_rename},
    {"unlink", 2, ops_unlink},
    {"rmdir", 2, ops_rmdir},
    {"cut", 3, ops_cut},
    {"times", 4, ops_times},
    {"list", 2, ops_list},
    {"entries", 3, ops_entries},
    {"statfs", 2, ops_statfs},
    {"setx", 5, ops_setx},
    {"getx", 4, ops_getx},
    {"listx", 2, ops_listx},
    {"removex", 3, ops_removex},
    {"names", 2, ops_names},
    {"lines", 4, ops_lines},
    {"count", 4, ops_count},
};

static void ops_run(char *line)
{
    char *words[OPS_WORDS] = {NULL}, *end;
    int count = 0;
    size_t i;

    for (; count < OPS_WORDS && *line != '\0'; line = end) {
        words[count++] = line;
        end = line + strcspn(line, " \n");
        if (*end != '\0')
            *end++ = '\0';
    }
    for (i = 0; i < sizeof(ops_commands) / sizeof(ops_commands[0]); i++)
        if (count == ops_commands[i].words &&
            strcmp(words[0], ops_commands[i].name) == 0) {
            ops_commands[i].run(words);
            return;
        }
    (void) snprintf(ops_answer, sizeof(ops_answer), "not a command");
}

static int ops_refuse(char **words)
{
    if (refuse_openat2((int) strtol(words[2], NULL, 10)))
        (void) execvp(words[3], words + 3);
    return 126;
}

int main(int argc, char **argv)
{
    static char line[sizeof(ops_data)];

    if (argc > 3 && strcmp(argv[1], "refuse") == 0)
        return ops_refuse(argv);

    while (fgets(line, sizeof(line), stdin) != NULL) {
        ops_run(line);
        if (puts(ops_answer) < 0 || fflush(stdout) != 0)
            return 1;
    }
    return 0;
}
