/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_forwardd, call by call: what each call does in the folder of the server,
 * and its limits.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>

#include "forward_client.h"

#define ALL_BYTES ((uint64_t) INT64_MAX)

/* ---- Helpers ---- */

/* Make an empty file with the call, and open it. */
static uint64_t make_file(
    struct forward *both, const char *name, uint64_t *node)
{
    fwd_create_out_t out;

    HG_CHECK_EQ_INT(forward_create(&both->client, both->client.root, name,
                        O_RDWR | O_EXCL, &out),
        0);
    if (node != NULL)
        *node = out.entry.node;
    return out.file;
}

/* Look up a name in the root; it must exist. */
static fwd_entry_t look(struct forward *both, const char *name)
{
    fwd_entry_t entry;

    HG_CHECK_EQ_INT(
        forward_lookup(&both->client, both->client.root, name, &entry), 0);
    return entry;
}

static struct stat local_status(struct forward *both, const char *name)
{
    char *path = forward_path(&both->server, name);
    struct stat status;

    HG_CHECK(lstat(path, &status) == 0);
    free(path);
    return status;
}

static void local_chmod(struct forward *both, const char *name, mode_t mode)
{
    char *path = forward_path(&both->server, name);

    HG_CHECK(chmod(path, mode) == 0);
    free(path);
}

static bool local_exists(struct forward *both, const char *name)
{
    char *path = forward_path(&both->server, name);
    bool exists = access(path, F_OK) == 0;

    free(path);
    return exists;
}

/* Memory of the client for bulk data. */
static hg_bulk_t make_memory(
    struct forward_client *client, hg_size_t size, void **data)
{
    hg_bulk_t memory;
    uint32_t count;

    HG_CHECK_OK(HG_Bulk_create(
        client->hg_class, 1, NULL, &size, HG_BULK_READWRITE, &memory));
    HG_CHECK_OK(HG_Bulk_access(
        memory, 0, size, HG_BULK_READWRITE, 1, data, &size, &count));
    return memory;
}

static void fill(void *data, size_t size, unsigned seed)
{
    unsigned char *bytes = (unsigned char *) data;
    size_t i;

    for (i = 0; i < size; i++)
        bytes[i] = (unsigned char) (seed + i + i / 251);
}

/* ---- Data ---- */

HG_TEST(small_data_travels_within_the_calls)
{
    struct forward both;
    static char data[FWD_INLINE_MAX], got[FWD_INLINE_MAX];
    uint64_t file;
    uint32_t size;

    forward_begin_both(&both, NULL);
    file = make_file(&both, "file", NULL);
    fill(data, sizeof(data), 1);
    HG_CHECK_EQ_INT(
        forward_write(&both.client, file, 0, data, sizeof(data), &size), 0);
    HG_CHECK_EQ_U64(size, sizeof(data));
    HG_CHECK_EQ_INT(
        forward_read(&both.client, file, 0, got, sizeof(got), &size), 0);
    HG_CHECK_EQ_U64(size, sizeof(got));
    HG_CHECK_EQ_MEM(got, data, sizeof(got));
    /* Less only at the end of the file. */
    HG_CHECK_EQ_INT(forward_read(&both.client, file, sizeof(data) - 3, got,
                        sizeof(got), &size),
        0);
    HG_CHECK_EQ_U64(size, 3);
    HG_CHECK_EQ_INT(
        forward_read(&both.client, file, 1 << 20, got, 10, &size), 0);
    HG_CHECK_EQ_U64(size, 0);
    HG_CHECK_EQ_INT(forward_read(&both.client, file, 0, got, 0, &size), 0);
    HG_CHECK_EQ_INT(forward_write(&both.client, file, 0, "", 0, &size), 0);
    HG_CHECK_EQ_INT(
        forward_write(&both.client, file, FWD_APPEND, "end", 3, &size), 0);
    HG_CHECK_EQ_U64(
        (uint64_t) local_status(&both, "file").st_size, sizeof(data) + 3);
    forward_end_both(&both);
}

HG_TEST(large_data_goes_by_bulk)
{
    const uint32_t sizes[] = {
        1, 4096, 262144, 262145, FWD_IO_MAX - 1, FWD_IO_MAX};
    struct forward both;
    hg_bulk_t memory;
    uint64_t file;
    uint32_t done;
    void *data;
    size_t i;

    forward_begin_both(&both, NULL);
    file = make_file(&both, "file", NULL);
    memory = make_memory(&both.client, 3 * FWD_IO_MAX, &data);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *from = (char *) data + 100;
        char *to = (char *) data + 100 + FWD_IO_MAX;

        fill(from, sizes[i], (unsigned) i);
        memset(to, 0, FWD_IO_MAX);
        HG_CHECK_EQ_INT(forward_move(&both.client, true, file, 7, memory, 100,
                            sizes[i], &done),
            0);
        HG_CHECK_EQ_U64(done, sizes[i]);
        HG_CHECK_EQ_INT(forward_move(&both.client, false, file, 7, memory,
                            100 + FWD_IO_MAX, FWD_IO_MAX, &done),
            0);
        HG_CHECK_EQ_U64(done, sizes[i]); /* the file ends there */
        HG_CHECK_EQ_MEM(to, from, sizes[i]);
    }
    HG_CHECK_EQ_INT(forward_move(&both.client, true, file, FWD_APPEND, memory,
                        100, FWD_IO_MAX, &done),
        0);
    HG_CHECK_EQ_INT(
        forward_move(&both.client, false, file, 7 + (uint64_t) FWD_IO_MAX,
            memory, 200 + FWD_IO_MAX, FWD_IO_MAX, &done),
        0);
    HG_CHECK_EQ_MEM(
        (char *) data + 200 + FWD_IO_MAX, (char *) data + 100, FWD_IO_MAX);
    HG_CHECK_EQ_U64((uint64_t) local_status(&both, "file").st_size,
        7 + 2 * (uint64_t) FWD_IO_MAX);
    HG_CHECK_OK(HG_Bulk_free(memory));
    forward_end_both(&both);
}

/* More transfers than the server has threads for: the others wait. */
HG_TEST(transfers_wait_for_a_thread)
{
    enum { CALLS = 40 };
    struct forward both;
    struct forward_call calls[CALLS];
    fwd_read_in_t in;
    fwd_read_out_t out;
    hg_bulk_t memory;
    void *data;
    int i;

    forward_begin_both(&both, "--threads", "2", NULL);
    in.session = both.client.session;
    in.file = make_file(&both, "file", NULL);
    in.size = 65536;
    in.memory = make_memory(&both.client, (hg_size_t) CALLS * in.size, &data);
    memory = in.memory;
    HG_CHECK_EQ_INT(
        forward_move(&both.client, true, in.file,
            CALLS / 2 * (uint64_t) in.size, memory, 0, in.size, &out.size),
        0);
    for (i = 0; i < CALLS; i++) {
        in.offset = in.at = (uint64_t) i * in.size;
        forward_begin_call(&both.client, &calls[i], "fwd.read",
            hg_proc_fwd_read_in_t, hg_proc_fwd_read_out_t, &in);
    }
    for (i = 0; i < CALLS; i++) {
        HG_CHECK_OK(forward_await(&both.client, &calls[i], &out));
        HG_CHECK_EQ_INT(out.error, 0);
        HG_CHECK_EQ_U64(out.size, i <= CALLS / 2 ? in.size : 0);
        forward_end_call(&calls[i], &out);
    }
    HG_CHECK_OK(HG_Bulk_free(memory));
    forward_end_both(&both);
}

/* A part of the data is written, as write(2) does; the next call fails. */
HG_TEST(a_write_beyond_the_largest_size_of_a_file_is_cut)
{
    const struct rlimit limit = {524288, 524288}; /* two pieces end there */
    struct forward both;
    hg_bulk_t memory;
    uint64_t file;
    uint32_t done;
    void *data;

    forward_begin_both(&both, NULL);
    file = make_file(&both, "file", NULL);
    memory = make_memory(&both.client, FWD_IO_MAX, &data);
    HG_CHECK(prlimit(both.server.pid, RLIMIT_FSIZE, &limit, NULL) == 0);
    HG_CHECK_EQ_INT(
        forward_move(&both.client, true, file, 0, memory, 0, FWD_IO_MAX, &done),
        0);
    HG_CHECK_EQ_U64(done, limit.rlim_cur);
    HG_CHECK_EQ_INT(forward_move(&both.client, true, file, limit.rlim_cur,
                        memory, 0, FWD_IO_MAX, &done),
        EFBIG);
    HG_CHECK_EQ_INT(
        forward_write(&both.client, file, limit.rlim_cur - 1, "ab", 2, &done),
        0);
    HG_CHECK_EQ_U64(done, 1);
    HG_CHECK_EQ_INT(
        forward_write(&both.client, file, FWD_APPEND, "ab", 2, &done), EFBIG);
    HG_CHECK_EQ_U64(
        (uint64_t) local_status(&both, "file").st_size, limit.rlim_cur);
    HG_CHECK_OK(HG_Bulk_free(memory));
    forward_end_both(&both);
}

/* Without permission to execute for the group, set-group-ID stays. */
HG_TEST(a_write_that_clears_ids_clears_the_mode)
{
    const mode_t modes[][2] = {{06755, 0755}, {04711, 0711}, {06644, 02644}};
    struct forward both;
    fwd_write_in_t in;
    fwd_write_out_t out;
    char *path;
    size_t i;

    forward_begin_both(&both, NULL);
    in = (fwd_write_in_t){both.client.session, make_file(&both, "file", NULL),
        0, 1, 0, HG_BULK_NULL, {1, (void *) (uintptr_t) "x"},
        FWD_WRITE_CLEARS_IDS};
    path = forward_path(&both.server, "file");
    for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        HG_CHECK(chmod(path, modes[i][0]) == 0);
        FORWARD_CALL(&both.client, "write", write, &in, write, &out);
        HG_CHECK_EQ_INT(out.error, 0);
        HG_CHECK_EQ_INT((int) (local_status(&both, "file").st_mode & 07777),
            (int) modes[i][1]);
    }
    free(path);
    forward_end_both(&both);
}

HG_TEST(holes_are_found_and_files_are_copied)
{
    struct forward both;
    uint64_t file, copy;
    fwd_offset_out_t at;
    fwd_error_out_t out;
    uint32_t done;
    char got[4];

    forward_begin_both(&both, NULL);
    file = make_file(&both, "file", NULL);
    copy = make_file(&both, "copy", NULL);
    HG_CHECK_EQ_INT(
        forward_write(&both.client, file, 1 << 20, "data", 4, &done), 0);
    {
        fwd_seek_in_t in = {both.client.session, file, 0, SEEK_DATA};

        FORWARD_CALL(&both.client, "seek", seek, &in, offset, &at);
        HG_CHECK_EQ_INT(at.error, 0);
        HG_CHECK(at.offset <= 1 << 20);
        in.offset = 2 << 20;
        FORWARD_CALL(&both.client, "seek", seek, &in, offset, &at);
        HG_CHECK_EQ_INT(at.error, ENXIO);
        in.whence = SEEK_SET;
        FORWARD_CALL(&both.client, "seek", seek, &in, offset, &at);
        HG_CHECK_EQ_INT(at.error, EINVAL);
    }
    {
        fwd_copy_in_t in = {both.client.session, file, 1 << 20, copy, 2, 100};

        FORWARD_CALL(&both.client, "copy", copy, &in, offset, &at);
        HG_CHECK_EQ_INT(at.error, 0);
        HG_CHECK_EQ_U64(at.offset, 4);
    }
    HG_CHECK_EQ_INT(forward_read(&both.client, copy, 2, got, 4, &done), 0);
    HG_CHECK_EQ_MEM(got, "data", 4);
    {
        fwd_fallocate_in_t in = {both.client.session, copy, 0, 1 << 20, 0};
        fwd_fsync_in_t sync = {both.client.session, copy, 0};

        FORWARD_CALL(&both.client, "fallocate", fallocate, &in, error, &out);
        HG_CHECK_EQ_INT(out.error, 0);
        HG_CHECK(local_status(&both, "copy").st_size == 1 << 20);
        FORWARD_CALL(&both.client, "fsync", fsync, &sync, error, &out);
        HG_CHECK_EQ_INT(out.error, 0);
        sync.data_only = 1;
        FORWARD_CALL(&both.client, "fsync", fsync, &sync, error, &out);
        HG_CHECK_EQ_INT(out.error, 0);
    }
    forward_end_both(&both);
}

/* ---- Names ---- */

HG_TEST(nodes_of_each_kind_are_made_and_removed)
{
    struct forward both;
    struct forward_client *client = &both.client;
    fwd_entry_t directory, entry, found;
    struct forward_call call;
    fwd_data_out_t target;

    (void) umask(022); /* of the server, too, which must not use it */
    forward_begin_both(&both, NULL);
    HG_CHECK_EQ_INT(forward_make(client, client->root, "d", S_IFDIR | 0773,
                        NULL, &directory),
        0);
    HG_CHECK_EQ_INT((int) directory.attr.mode, S_IFDIR | 0773);
    HG_CHECK_EQ_INT(forward_make(client, directory.node, "fifo", S_IFIFO | 0600,
                        NULL, &entry),
        0);
    HG_CHECK(S_ISFIFO(local_status(&both, "d/fifo").st_mode));
    HG_CHECK_EQ_INT(forward_make(client, directory.node, "file",
                        S_IFREG | 04711, NULL, &entry),
        0);
    HG_CHECK_EQ_INT((int) entry.attr.mode, S_IFREG | 04711);
    HG_CHECK_EQ_INT(forward_make(client, directory.node, "link", S_IFLNK | 0777,
                        "../../etc", &entry),
        0);
    {
        fwd_node_in_t in = {client->session, entry.node};

        forward_begin_call(client, &call, "fwd.readlink", hg_proc_fwd_node_in_t,
            hg_proc_fwd_data_out_t, &in);
        HG_CHECK_OK(forward_await(client, &call, &target));
        HG_CHECK_EQ_U64(target.data.size, 9);
        HG_CHECK_EQ_MEM(target.data.bytes, "../../etc", 9);
        forward_end_call(&call, &target);
        in.node = directory.node;
        FORWARD_CALL(client, "readlink", node, &in, data, &target);
        HG_CHECK_EQ_INT(target.error, EINVAL);
    }
    HG_CHECK_EQ_INT(forward_find(client, "d/link", &found), 0);
    HG_CHECK_EQ_U64(found.node, entry.node); /* the link itself */
    HG_CHECK_EQ_INT(forward_find(client, "", &found), 0);
    HG_CHECK_EQ_U64(found.node, client->root);
    HG_CHECK_EQ_INT(forward_remove(client, client->root, "d", 1, 0), ENOTEMPTY);
    HG_CHECK_EQ_INT(forward_remove(client, client->root, "d", 0, 0), EISDIR);
    HG_CHECK_EQ_INT(forward_remove(client, directory.node, "fifo", 0, 0), 0);
    HG_CHECK_EQ_INT(forward_remove(client, directory.node, "file", 0, 0), 0);
    HG_CHECK_EQ_INT(forward_remove(client, directory.node, "link", 0, 0), 0);
    HG_CHECK_EQ_INT(forward_remove(client, client->root, "d", 1, 0), 0);
    HG_CHECK(!local_exists(&both, "d"));
    forward_end_both(&both);
}

HG_TEST(a_node_stays_the_same_under_other_names)
{
    struct forward both;
    struct forward_client *client = &both.client;
    fwd_entry_t entry, other;
    fwd_attr_t attr;

    forward_begin_both(&both, NULL);
    forward_put(&both.server, "a", "1", 1);
    forward_put(&both.server, "b", "22", 2);
    entry = look(&both, "a");
    HG_CHECK_EQ_INT(
        forward_link(client, entry.node, client->root, "c", 0, &other), 0);
    HG_CHECK_EQ_U64(other.node, entry.node);
    HG_CHECK_EQ_U64(other.attr.links, 2);
    HG_CHECK_EQ_INT(
        forward_rename(client, client->root, "a", "b", RENAME_NOREPLACE, 0),
        EEXIST);
    HG_CHECK_EQ_INT(
        forward_rename(client, client->root, "a", "b", RENAME_EXCHANGE, 0), 0);
    HG_CHECK_EQ_U64(look(&both, "b").node, entry.node);
    HG_CHECK_EQ_INT(forward_rename(client, client->root, "b", "x", 0, 0), 0);
    HG_CHECK_EQ_INT(forward_remove(client, client->root, "x", 0, 0), 0);
    HG_CHECK_EQ_INT(forward_remove(client, client->root, "c", 0, 0), 0);
    HG_CHECK_EQ_INT(forward_getattr(client, entry.node, 0, &attr), 0);
    HG_CHECK_EQ_U64(attr.links, 0); /* removed, and still there */
    /* Three lookups: a, the link, and b. More than are left count as these. */
    HG_CHECK_EQ_INT(forward_forget(client, entry.node, 2), 0);
    HG_CHECK_EQ_INT(forward_getattr(client, entry.node, 0, &attr), 0);
    HG_CHECK_EQ_INT(forward_forget(client, entry.node, 2), 0);
    HG_CHECK_EQ_INT(
        forward_getattr(client, entry.node, 0, &attr), FWD_FORGOTTEN);
    HG_CHECK_EQ_INT(forward_forget(client, entry.node, 1), 0);
    forward_end_both(&both);
}

/* A new file may have the inode number of one that was removed. */
HG_TEST(nodes_have_the_time_of_their_birth)
{
    struct forward both;
    struct statx status;
    char *path;

    forward_begin_both(&both, NULL);
    forward_put(&both.server, "file", "", 0);
    path = forward_path(&both.server, "file");
    HG_CHECK(statx(AT_FDCWD, path, 0, STATX_BTIME, &status) == 0);
    free(path);
    if ((status.stx_mask & STATX_BTIME) == 0)
        hg_test_skip("the file system has no times of birth");
    HG_CHECK_EQ_U64(look(&both, "file").id.born,
        (uint64_t) status.stx_btime.tv_sec * 1000000000u +
            status.stx_btime.tv_nsec);
    forward_end_both(&both);
}

/* Make the file "f". */
static fwd_entry_t repeat_create(struct forward_client *client)
{
    fwd_create_in_t create;
    fwd_create_out_t created;
    fwd_entry_t entry;
    uint32_t done;

    create = (fwd_create_in_t){client->session, client->root, "f",
        O_RDWR | O_EXCL, 0600, 0, 0, 123456789, 0};
    FORWARD_CALL(client, "create", create, &create, create, &created);
    HG_CHECK_EQ_INT(created.error, 0);
    entry = created.entry;
    FORWARD_CALL(client, "create", create, &create, create, &created);
    HG_CHECK_EQ_INT(created.error, EEXIST);
    create.again = 1;
    FORWARD_CALL(client, "create", create, &create, create, &created);
    HG_CHECK_EQ_INT(created.error, 0);
    HG_CHECK_EQ_U64(created.entry.node, entry.node);
    /* Another client may have written meanwhile. */
    HG_CHECK_EQ_INT(
        forward_write(client, created.file, 0, "data", 4, &done), 0);
    create.flags = O_WRONLY | O_TRUNC; /* each new file has the mark */
    FORWARD_CALL(client, "create", create, &create, create, &created);
    HG_CHECK_EQ_INT(created.error, 0);
    HG_CHECK_EQ_U64(created.entry.attr.size, 4);
    create.mark = 5; /* of another call */
    create.uid = 12345;
    FORWARD_CALL(client, "create", create, &create, create, &created);
    HG_CHECK_EQ_INT(created.error, ESTALE);
    create.flags = O_WRONLY | O_EXCL;
    FORWARD_CALL(client, "create", create, &create, create, &created);
    HG_CHECK_EQ_INT(created.error, EEXIST);
    create.mark = 1000000000;
    FORWARD_CALL(client, "create", create, &create, create, &created);
    HG_CHECK_EQ_INT(created.error, EINVAL);
    return entry;
}

/* Make a node in the folder, without the server. */
static void leave(struct forward *both, const char *name, mode_t mode)
{
    char *path = forward_path(&both->server, name);

    (void) umask(0);
    HG_CHECK((S_ISDIR(mode)          ? mkdir(path, mode & 07777)
                     : S_ISLNK(mode) ? symlink("target", path)
                                     : mknod(path, mode, 0)) == 0);
    free(path);
}

/* Make nodes such as a server leaves that is killed before it sets marks, and
 * some that differ. */
static void leave_nodes(struct forward *both)
{
    struct timespec times[2] = {{1, 0}, {0, UTIME_OMIT}};
    char *path = forward_path(&both->server, "used");

    leave(both, "dir", S_IFDIR | 0750);
    leave(both, "link", S_IFLNK);
    leave(both, "another", S_IFLNK);
    leave(both, "fifo", S_IFIFO | 0600);
    leave(both, "empty", S_IFREG | 0400);
    leave(both, "lock", S_IFREG | 0600);
    leave(both, "used", S_IFDIR | 0750);
    HG_CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
    free(path);
    forward_put(&both->server, "full", "x", 1);
}

/* Make a folder without the server, after it was started. */
static void leave_later(struct forward *both, const char *name)
{
    char *path = forward_path(&both->server, name);
    struct timespec now, made;

    (void) clock_gettime(CLOCK_REALTIME, &now);
    for (;;) {
        leave(both, name, S_IFDIR | 0750);
        made = local_status(both, name).st_ctim;
        if (made.tv_sec > now.tv_sec ||
            (made.tv_sec == now.tv_sec && made.tv_nsec > now.tv_nsec))
            break;
        HG_CHECK(rmdir(path) == 0); /* the file system's clock ticks slowly */
    }
    free(path);
}

static int make_again(struct forward *both, const char *name, uint32_t mode,
    const char *target, uint32_t mark)
{
    fwd_make_in_t in = {both->client.session, both->client.root, name, target,
        0, mode, geteuid(), getegid(), mark, 1};
    fwd_make_out_t out;

    FORWARD_CALL(&both->client, "make", make, &in, make, &out);
    return out.error;
}

static int create_again(
    struct forward *both, const char *name, uint32_t flags, uint32_t mode)
{
    fwd_create_in_t in = {both->client.session, both->client.root, name,
        flags | O_EXCL, mode, geteuid(), getegid(), 5, 1};
    fwd_create_out_t out;

    FORWARD_CALL(&both->client, "create", create, &in, create, &out);
    return out.error;
}

/* A call that comes again takes the node that the killed server has made for
 * it. Only one call does so, and only if the node is what it makes. */
HG_TEST(a_repeated_call_finds_its_node_without_a_mark)
{
    struct forward both;
    fwd_make_in_t make;
    fwd_make_out_t made;
    int fd;

    memset(&both, 0, sizeof(both));
    forward_make_folder(&both.server);
    leave_nodes(&both);
    forward_start_at(&both.server, "sm://forward-left", NULL);
    forward_open(&both.client, &both.server);
    leave_later(&both, "later");

    make = (fwd_make_in_t){both.client.session, both.client.root, "dir", "", 0,
        S_IFDIR | 0750, geteuid(), getegid(), 1, 0};
    FORWARD_CALL(&both.client, "make", make, &make, make, &made);
    HG_CHECK_EQ_INT(made.error, EEXIST);
    HG_CHECK_EQ_INT(make_again(&both, "dir", S_IFDIR | 0700, "", 1), EEXIST);
    HG_CHECK_EQ_INT(make_again(&both, "dir", S_IFREG | 0750, "", 1), EEXIST);
    HG_CHECK_EQ_INT(make_again(&both, "dir", S_IFDIR | 0750, "", 1), 0);
    HG_CHECK_EQ_INT(make_again(&both, "dir", S_IFDIR | 0750, "", 2), EEXIST);
    HG_CHECK_EQ_INT(make_again(&both, "dir", S_IFDIR | 0750, "", 1), 0);
    HG_CHECK_EQ_INT(make_again(&both, "later", S_IFDIR | 0750, "", 1), EEXIST);
    HG_CHECK_EQ_INT(make_again(&both, "used", S_IFDIR | 0750, "", 1), EEXIST);
    HG_CHECK_EQ_INT(make_again(&both, "full", S_IFREG | 0644, "", 1), EEXIST);
    HG_CHECK_EQ_INT(make_again(&both, "fifo", S_IFIFO | 0600, "", 1), 0);
    HG_CHECK_EQ_INT(
        make_again(&both, "another", S_IFLNK | 0777, "other", 1), EEXIST);
    HG_CHECK_EQ_INT(make_again(&both, "link", S_IFLNK | 0777, "target", 1), 0);

    HG_CHECK_EQ_INT(create_again(&both, "empty", O_RDONLY, 0400), 0);
    /* A file that is opened for writing has its mark before its name. */
    fd = open(both.server.folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    HG_CHECK_EQ_INT(
        create_again(&both, "lock", O_RDWR, 0600), fd < 0 ? 0 : EEXIST);
    if (fd >= 0)
        (void) close(fd);
    forward_end_both(&both);
}

/* A call that comes again finds the state that it left before. */
HG_TEST(repeated_calls_succeed)
{
    struct forward both;
    struct forward_client *client = &both.client;
    fwd_make_in_t make;
    fwd_make_out_t made;
    fwd_entry_t entry;

    forward_begin_both(&both, NULL);
    make = (fwd_make_in_t){client->session, client->root, "d", NULL, 0,
        S_IFDIR | 0755, 0, 0, 0, 0};
    FORWARD_CALL(client, "make", make, &make, make, &made);
    HG_CHECK_EQ_INT(made.error, 0);
    FORWARD_CALL(client, "make", make, &make, make, &made);
    HG_CHECK_EQ_INT(made.error, EEXIST);
    make.again = 1;
    FORWARD_CALL(client, "make", make, &make, make, &made);
    HG_CHECK_EQ_INT(made.error, 0);
    entry = made.entry;
    make.mark = 5; /* of another call */
    FORWARD_CALL(client, "make", make, &make, make, &made);
    HG_CHECK_EQ_INT(made.error, EEXIST);
    make.mark = 0;
    make.mode = S_IFIFO | 0600; /* not what is there */
    FORWARD_CALL(client, "make", make, &make, make, &made);
    HG_CHECK_EQ_INT(made.error, EEXIST);
    /* The calls that failed count no lookup. */
    HG_CHECK_EQ_INT(forward_forget(client, entry.node, 2), 0);
    HG_CHECK_EQ_INT(
        forward_getattr(client, entry.node, 0, &entry.attr), FWD_FORGOTTEN);

    HG_CHECK_EQ_INT(forward_remove(client, client->root, "d", 1, 0), 0);
    HG_CHECK_EQ_INT(forward_remove(client, client->root, "d", 1, 0), ENOENT);
    HG_CHECK_EQ_INT(forward_remove(client, client->root, "d", 1, 1), 0);
    entry = repeat_create(client);
    HG_CHECK_EQ_INT(
        forward_link(client, entry.node, client->root, "g", 0, &made.entry), 0);
    HG_CHECK_EQ_INT(
        forward_link(client, entry.node, client->root, "g", 0, &made.entry),
        EEXIST);
    HG_CHECK_EQ_INT(
        forward_link(client, entry.node, client->root, "g", 1, &made.entry), 0);
    forward_put(&both.server, "other", "", 0);
    HG_CHECK_EQ_INT(
        forward_link(client, entry.node, client->root, "other", 1, &made.entry),
        EEXIST);

    HG_CHECK_EQ_INT(forward_rename(client, client->root, "g", "h", 0, 0), 0);
    HG_CHECK_EQ_INT(
        forward_rename(client, client->root, "g", "h", 0, 0), ENOENT);
    HG_CHECK_EQ_INT(forward_rename(client, client->root, "g", "h", 0, 1), 0);
    /* Neither name exists: the first call did not succeed. */
    HG_CHECK_EQ_INT(
        forward_rename(client, client->root, "g", "none", 0, 1), ENOENT);
    HG_CHECK_EQ_INT(
        forward_rename(client, client->root, "h", "f", RENAME_EXCHANGE, 1),
        EIO);
    forward_end_both(&both);
}

/* ---- Attributes ---- */

static int set_attributes(
    struct forward_client *client, fwd_setattr_in_t *in, fwd_attr_t *attr)
{
    fwd_attr_out_t out;

    in->session = client->session;
    FORWARD_CALL(client, "setattr", setattr, in, attr, &out);
    *attr = out.attr;
    return out.error;
}

HG_TEST(attributes_are_set)
{
    struct forward both;
    fwd_setattr_in_t in;
    fwd_attr_t attr;
    uint64_t node, file;
    fwd_entry_t link;

    forward_begin_both(&both, NULL);
    file = make_file(&both, "file", &node);
    memset(&in, 0, sizeof(in));
    in.node = node;
    in.valid = FWD_SET_SIZE | FWD_SET_MODE | FWD_SET_ATIME | FWD_SET_MTIME;
    in.size = 12345;
    in.mode = 0444;
    in.atime = (fwd_time_t){1000000000, 123456789};
    in.mtime = (fwd_time_t){-5, 999999999};
    HG_CHECK_EQ_INT(set_attributes(&both.client, &in, &attr), 0);
    HG_CHECK_EQ_U64(attr.size, 12345);
    HG_CHECK_EQ_INT((int) attr.mode, S_IFREG | 0444);
    HG_CHECK_EQ_INT(attr.atime.nanoseconds, 123456789);
    HG_CHECK_EQ_INT(attr.mtime.seconds, -5);
    HG_CHECK_EQ_INT(attr.mtime.nanoseconds, 999999999);
    /* The open file can be changed, and without a name as well. */
    HG_CHECK_EQ_INT(
        forward_remove(&both.client, both.client.root, "file", 0, 0), 0);
    in.valid = FWD_SET_SIZE | FWD_SET_MTIME_NOW;
    in.file = file;
    in.size = 3;
    HG_CHECK_EQ_INT(set_attributes(&both.client, &in, &attr), 0);
    HG_CHECK_EQ_U64(attr.size, 3);
    HG_CHECK(attr.mtime.seconds > 1000000000);
    in.valid = FWD_SET_ATIME | FWD_SET_MTIME;
    HG_CHECK_EQ_INT(set_attributes(&both.client, &in, &attr), 0);
    in.valid = FWD_SET_MTIME_NOW;
    HG_CHECK_EQ_INT(set_attributes(&both.client, &in, &attr), 0);
    HG_CHECK(attr.mtime.seconds > 1000000000);
    HG_CHECK_EQ_INT(attr.atime.seconds, 1000000000);
    in.valid = FWD_SET_ATIME_NOW;
    HG_CHECK_EQ_INT(set_attributes(&both.client, &in, &attr), 0);
    HG_CHECK(attr.atime.seconds > 1000000000);
    HG_CHECK_EQ_INT(forward_getattr(&both.client, 0, file, &attr), 0);
    HG_CHECK_EQ_U64(attr.size, 3);
    in.valid = FWD_SET_MTIME;
    in.mtime.nanoseconds = 1000000000;
    HG_CHECK_EQ_INT(set_attributes(&both.client, &in, &attr), EINVAL);

    HG_CHECK_EQ_INT(forward_make(&both.client, both.client.root, "link",
                        S_IFLNK | 0777, "/etc/passwd", &link),
        0);
    memset(&in, 0, sizeof(in));
    in.node = link.node;
    in.valid = FWD_SET_MODE;
    HG_CHECK_EQ_INT(set_attributes(&both.client, &in, &attr), EOPNOTSUPP);
    in.valid = FWD_SET_MTIME;
    in.mtime = (fwd_time_t){77, 7};
    HG_CHECK_EQ_INT(set_attributes(&both.client, &in, &attr), 0);
    HG_CHECK_EQ_INT(local_status(&both, "link").st_mtim.tv_sec, 77);
    in.valid = FWD_SET_SIZE;
    HG_CHECK(set_attributes(&both.client, &in, &attr) != 0);
    forward_end_both(&both);
}

HG_TEST(new_files_belong_to_the_caller_if_the_server_is_root)
{
    struct forward both;
    fwd_create_in_t create;
    fwd_create_out_t created;
    fwd_make_in_t make;
    fwd_make_out_t made;
    fwd_setattr_in_t in;
    fwd_attr_t attr;

    if (geteuid() != 0)
        hg_test_skip("needs root");
    forward_begin_both(&both, NULL);
    create = (fwd_create_in_t){both.client.session, both.client.root, "f",
        O_RDWR | O_EXCL, 0600, 1234, 5678, 0, 0};
    FORWARD_CALL(&both.client, "create", create, &create, create, &created);
    HG_CHECK_EQ_INT(created.error, 0);
    HG_CHECK_EQ_U64(created.entry.attr.uid, 1234);
    HG_CHECK_EQ_U64(created.entry.attr.gid, 5678);
    make = (fwd_make_in_t){both.client.session, both.client.root, "d", NULL, 0,
        S_IFDIR | 0700, 1234, 5678, 0, 0};
    FORWARD_CALL(&both.client, "make", make, &make, make, &made);
    HG_CHECK_EQ_INT(made.error, 0);
    HG_CHECK_EQ_U64(made.entry.attr.uid, 1234);
    HG_CHECK_EQ_U64(made.entry.attr.gid, 5678);
    memset(&in, 0, sizeof(in));
    in.node = made.entry.node;
    in.valid = FWD_SET_UID;
    in.uid = 99;
    HG_CHECK_EQ_INT(set_attributes(&both.client, &in, &attr), 0);
    HG_CHECK_EQ_U64(attr.uid, 99);
    HG_CHECK_EQ_U64(attr.gid, 5678);
    /* A user that the kernel of the server does not accept. */
    create.name = "nobody's";
    create.uid = UINT32_MAX;
    FORWARD_CALL(&both.client, "create", create, &create, create, &created);
    HG_CHECK_EQ_INT(created.error, EINVAL);
    create.flags = O_RDONLY;
    create.uid = 0;
    create.gid = UINT32_MAX;
    FORWARD_CALL(&both.client, "create", create, &create, create, &created);
    HG_CHECK_EQ_INT(created.error, EINVAL);
    make.name = "nobody's";
    make.uid = UINT32_MAX;
    FORWARD_CALL(&both.client, "make", make, &make, make, &made);
    HG_CHECK_EQ_INT(made.error, EINVAL);
    HG_CHECK(!local_exists(&both, "nobody's"));
    make.uid = 1234;
    FORWARD_CALL(&both.client, "make", make, &make, make, &made);
    HG_CHECK_EQ_INT(made.error, 0);
    forward_end_both(&both);
}

static int get_xattr(struct forward *both, uint64_t node, const char *name,
    uint32_t limit, void *data, uint32_t *size)
{
    fwd_getxattr_in_t in = {both->client.session, node, name, limit};
    struct forward_call call;
    fwd_getxattr_out_t out;
    int error;

    forward_begin_call(&both->client, &call, "fwd.getxattr",
        hg_proc_fwd_getxattr_in_t, hg_proc_fwd_getxattr_out_t, &in);
    HG_CHECK_OK(forward_await(&both->client, &call, &out));
    HG_CHECK(out.data.size <= limit);
    if (out.data.size > 0)
        memcpy(data, out.data.bytes, out.data.size);
    *size = out.size;
    error = out.error;
    forward_end_call(&call, &out);
    return error;
}

HG_TEST(extended_attributes_and_the_file_system)
{
    struct forward both;
    fwd_setxattr_in_t set;
    fwd_removexattr_in_t name;
    fwd_node_in_t root;
    fwd_statfs_out_t status;
    fwd_error_out_t out;
    struct statvfs local;
    char value[100];
    uint64_t node;
    uint32_t size;

    forward_begin_both(&both, NULL);
    (void) make_file(&both, "file", &node);
    set = (fwd_setxattr_in_t){both.client.session, node, "user.color",
        {3, (void *) (uintptr_t) "r\0d"}, 0, 0};
    FORWARD_CALL(&both.client, "setxattr", setxattr, &set, error, &out);
    if (out.error == EOPNOTSUPP)
        hg_test_skip("the file system has no extended attributes");
    HG_CHECK_EQ_INT(out.error, 0);
    HG_CHECK_EQ_INT(get_xattr(&both, node, "user.color", 0, value, &size), 0);
    HG_CHECK_EQ_U64(size, 3);
    HG_CHECK_EQ_INT(
        get_xattr(&both, node, "user.color", 2, value, &size), ERANGE);
    HG_CHECK_EQ_INT(get_xattr(&both, node, "user.color", 100, value, &size), 0);
    HG_CHECK_EQ_MEM(value, "r\0d", 3);
    set.flags = XATTR_CREATE;
    set.again = 1;
    FORWARD_CALL(&both.client, "setxattr", setxattr, &set, error, &out);
    HG_CHECK_EQ_INT(out.error, 0);
    set.value.bytes = (void *) (uintptr_t) "red"; /* of another call */
    FORWARD_CALL(&both.client, "setxattr", setxattr, &set, error, &out);
    HG_CHECK_EQ_INT(out.error, EEXIST);
    HG_CHECK_EQ_INT(get_xattr(&both, node, "", 100, value, &size), 0);
    HG_CHECK_EQ_MEM(value, "user.color", 11);
    HG_CHECK_EQ_INT(
        get_xattr(&both, node, "user.none", 100, value, &size), ENODATA);
    name = (fwd_removexattr_in_t){both.client.session, node, "user.color", 0};
    FORWARD_CALL(&both.client, "removexattr", removexattr, &name, error, &out);
    HG_CHECK_EQ_INT(out.error, 0);
    FORWARD_CALL(&both.client, "removexattr", removexattr, &name, error, &out);
    HG_CHECK_EQ_INT(out.error, ENODATA);
    name.again = 1;
    FORWARD_CALL(&both.client, "removexattr", removexattr, &name, error, &out);
    HG_CHECK_EQ_INT(out.error, 0);
    root = (fwd_node_in_t){both.client.session, both.client.root};
    FORWARD_CALL(&both.client, "statfs", node, &root, statfs, &status);
    HG_CHECK_EQ_INT(status.error, 0);
    HG_CHECK(status.blocks > 0 && status.name_max == FWD_NAME_MAX);
    /* Other programs change the numbers. */
    HG_CHECK(statvfs(both.server.folder, &local) == 0);
    HG_CHECK((status.blocks_available == status.blocks_free) ==
        (local.f_bavail == local.f_bfree));
    forward_end_both(&both);
}

/* The kernel of a client may not check who sets these. */
HG_TEST(access_control_lists_are_not_changed)
{
    /* The version 2, then for each entry what it is for, rwx bits, a number. */
    static const unsigned char list[] = {2, 0, 0, 0, 1, 0, 6, 0, 0xff, 0xff,
        0xff, 0xff, 4, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, 0x20, 0, 4, 0, 0xff,
        0xff, 0xff, 0xff};
    const char *name = "system.posix_acl_access";
    struct forward both;
    fwd_setxattr_in_t set;
    fwd_removexattr_in_t removed;
    fwd_error_out_t out;
    uint64_t node;

    forward_begin_both(&both, NULL);
    (void) make_file(&both, "file", &node);
    set = (fwd_setxattr_in_t){both.client.session, node, name,
        {sizeof(list), (void *) (uintptr_t) list}, 0, 0};
    FORWARD_CALL(&both.client, "setxattr", setxattr, &set, error, &out);
    HG_CHECK_EQ_INT(out.error, EOPNOTSUPP);
    removed = (fwd_removexattr_in_t){both.client.session, node, name, 0};
    FORWARD_CALL(
        &both.client, "removexattr", removexattr, &removed, error, &out);
    HG_CHECK_EQ_INT(out.error, EOPNOTSUPP);
    forward_end_both(&both);
}

/* ---- Open files ---- */

HG_TEST(open_checks_that_the_name_is_still_that_of_the_node)
{
    struct forward both;
    fwd_entry_t entry;
    fwd_open_in_t in;
    fwd_open_out_t out;

    forward_begin_both(&both, NULL);
    forward_put(&both.server, "file", "old", 3);
    forward_put(&both.server, "new", "newer", 5);
    entry = look(&both, "file");
    in = (fwd_open_in_t){
        both.client.session, entry.node, both.client.root, "file", O_RDONLY, 0};
    FORWARD_CALL(&both.client, "open", open, &in, open, &out);
    HG_CHECK_EQ_INT(out.error, 0);
    HG_CHECK_EQ_U64(out.attr.size, 3);
    HG_CHECK_EQ_INT(
        forward_rename(&both.client, both.client.root, "new", "file", 0, 0), 0);
    FORWARD_CALL(&both.client, "open", open, &in, open, &out);
    HG_CHECK_EQ_INT(out.error, ESTALE);
    in.node = look(&both, "file").node;
    FORWARD_CALL(&both.client, "open", open, &in, open, &out);
    HG_CHECK_EQ_INT(out.error, 0);
    HG_CHECK_EQ_U64(out.attr.size, 5);
    HG_CHECK_EQ_INT(
        forward_remove(&both.client, both.client.root, "file", 0, 0), 0);
    FORWARD_CALL(&both.client, "open", open, &in, open, &out);
    HG_CHECK_EQ_INT(out.error, ESTALE);
    in.name = ""; /* the node itself, without a name */
    FORWARD_CALL(&both.client, "open", open, &in, open, &out);
    HG_CHECK_EQ_INT(out.error, 0);
    forward_end_both(&both);
}

/* The kernel of the client must check who may open what is there. */
/* Call fwd.create for a user. Returns the error. */
static int create_as(struct forward *both, const char *name, uint32_t flags,
    uint32_t user, uint32_t group)
{
    fwd_create_in_t in = {both->client.session, both->client.root, name, flags,
        0600, user, group, 123, 0};
    fwd_create_out_t out;

    FORWARD_CALL(&both->client, "create", create, &in, create, &out);
    HG_CHECK(out.error != 0 || out.file != 0);
    return out.error;
}

/* The kernel of the client checks nothing for fwd.create. */
HG_TEST(create_opens_what_the_caller_may_open)
{
    struct forward both;
    struct stat status;
    fwd_entry_t entry;
    uint64_t file;
    uint32_t owner, group, other;

    forward_begin_both(&both, NULL);
    forward_put(&both.server, "file", "text", 4);
    status = local_status(&both, "file");
    owner = (uint32_t) status.st_uid;
    group = (uint32_t) status.st_gid;
    other = owner + group + 1000;
    HG_CHECK_EQ_INT(
        create_as(&both, "file", O_RDWR | O_EXCL, owner, other), EEXIST);
    local_chmod(&both, "file", 0604);
    HG_CHECK_EQ_INT(create_as(&both, "file", O_RDWR, owner, other), 0);
    HG_CHECK_EQ_INT(create_as(&both, "file", O_RDONLY, other, other), 0);
    HG_CHECK_EQ_INT(create_as(&both, "file", O_WRONLY, other, other), ESTALE);
    HG_CHECK_EQ_INT(create_as(&both, "file", O_RDWR, other, other), ESTALE);
    HG_CHECK_EQ_INT(
        create_as(&both, "file", O_RDONLY | O_TRUNC, other, other), ESTALE);
    local_chmod(&both, "file", 0660);
    HG_CHECK_EQ_INT(create_as(&both, "file", O_RDWR, other, other), ESTALE);
    HG_CHECK_EQ_INT(create_as(&both, "file", O_RDWR, other, group), 0);
    HG_CHECK(local_status(&both, "file").st_size == 4);
    HG_CHECK_EQ_INT(
        create_as(&both, "file", O_RDWR | O_TRUNC, owner, other), 0);
    HG_CHECK(local_status(&both, "file").st_size == 0);
    HG_CHECK_EQ_INT(forward_make(&both.client, both.client.root, "d",
                        S_IFDIR | 0755, NULL, &entry),
        0);
    HG_CHECK_EQ_INT(create_as(&both, "d", O_RDWR, owner, other), ESTALE);
    HG_CHECK_EQ_INT(
        forward_open_file(&both.client, entry.node, O_RDWR, &file), EISDIR);
    forward_end_both(&both);
}

/* Also where it is not a file without a name first, as with O_RDONLY. */
HG_TEST(a_new_file_has_all_bits_of_its_mode)
{
    const uint32_t flags[] = {O_RDONLY, O_WRONLY, O_RDWR};
    struct forward both;
    size_t i;

    forward_begin_both(&both, NULL);
    for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        fwd_create_in_t in = {both.client.session, both.client.root, "file",
            flags[i], 07751, 0, 0, 0, 0};
        fwd_create_out_t out;

        FORWARD_CALL(&both.client, "create", create, &in, create, &out);
        HG_CHECK_EQ_INT(out.error, 0);
        HG_CHECK_EQ_INT((int) out.entry.attr.mode, S_IFREG | 07751);
        HG_CHECK_EQ_INT(
            forward_remove(&both.client, both.client.root, "file", 0, 0), 0);
    }
    forward_end_both(&both);
}

/* ---- A server without the rights of root ---- */

/* Make `name` in the directory of the test. Then become another user if this
 * one is root. */
static void become_unprivileged(const char *name)
{
    char *path;

    HG_CHECK(asprintf(&path, "%s/%s", hg_test_dir(), name) > 0);
    HG_CHECK(mknod(path, S_IFREG | 0644, 0) == 0);
    free(path);
    if (geteuid() != 0)
        return;
    HG_CHECK(chown(hg_test_dir(), 65534, 65534) == 0);
    HG_CHECK(setgroups(0, NULL) == 0);
    HG_CHECK(setresgid(65534, 65534, 65534) == 0);
    HG_CHECK(setresuid(65534, 65534, 65534) == 0);
    HG_CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
}

/* Move the file of become_unprivileged into the folder. */
static void move_there(const struct forward *both, const char *name)
{
    char *to = forward_path(&both->server, name);
    char *from;

    HG_CHECK(asprintf(&from, "%s/%s", hg_test_dir(), name) > 0);
    HG_CHECK(rename(from, to) == 0);
    free(from);
    free(to);
}

/* Only the owner may open a file with O_NOATIME. */
HG_TEST(files_of_other_users_are_read)
{
    struct forward both;
    uint64_t node, file;

    become_unprivileged("theirs");
    forward_begin_both(&both, NULL);
    move_there(&both, "theirs");
    node = look(&both, "theirs").node;
    HG_CHECK_EQ_INT(
        forward_open_file(&both.client, node, O_RDONLY | O_NOATIME, &file), 0);
    HG_CHECK_EQ_INT(
        forward_open_file(&both.client, node, O_RDWR | O_NOATIME, &file),
        geteuid() == local_status(&both, "theirs").st_uid ? 0 : EACCES);
    forward_end_both(&both);
}

HG_TEST(a_repeated_create_opens_a_file_whose_mode_forbids_it)
{
    struct forward both;
    fwd_create_in_t in;
    fwd_create_out_t out;
    uint64_t file;

    become_unprivileged("none");
    forward_begin_both(&both, NULL);
    in = (fwd_create_in_t){both.client.session, both.client.root, "file",
        O_RDWR | O_EXCL, 0400, geteuid(), getegid(), 5, 0};
    FORWARD_CALL(&both.client, "create", create, &in, create, &out);
    HG_CHECK_EQ_INT(out.error, 0);
    HG_CHECK_EQ_INT(
        forward_open_file(&both.client, out.entry.node, O_RDWR, &file), EACCES);
    in.again = 1;
    FORWARD_CALL(&both.client, "create", create, &in, create, &out);
    HG_CHECK_EQ_INT(out.error, 0);
    HG_CHECK_EQ_INT((int) out.entry.attr.mode, S_IFREG | 0400);
    HG_CHECK_EQ_INT((int) local_status(&both, "file").st_mode, S_IFREG | 0400);
    forward_end_both(&both);
}

/* It cannot open a file again whose mode forbids it now. */
HG_TEST(a_read_only_server_changes_no_mode)
{
    struct forward both;
    fwd_open_in_t in;
    fwd_open_out_t out;
    char *path;

    become_unprivileged("none");
    forward_begin_both(&both, "--read-only", NULL);
    forward_put(&both.server, "file", "text", 4);
    in = (fwd_open_in_t){
        both.client.session, look(&both, "file").node, 0, "", O_RDONLY, 1};
    FORWARD_CALL(&both.client, "open", open, &in, open, &out);
    HG_CHECK_EQ_INT(out.error, 0);
    path = forward_path(&both.server, "file");
    HG_CHECK(chmod(path, 0) == 0);
    free(path);
    FORWARD_CALL(&both.client, "open", open, &in, open, &out);
    HG_CHECK_EQ_INT(out.error, EACCES);
    forward_end_both(&both);
}

/* ---- Directories ---- */

/* Read a directory; returns the number of names, each of which came once. */
static unsigned read_names(struct forward *both, uint64_t node, uint32_t count,
    uint32_t plus, bool *seen)
{
    fwd_readdir_in_t in = {both->client.session, 0, 0, count, plus};
    unsigned total = 0;
    uint32_t got = 1;

    HG_CHECK_EQ_INT(forward_open_file(
                        &both->client, node, O_RDONLY | O_DIRECTORY, &in.file),
        0);
    while (got > 0) {
        struct forward_call call;
        fwd_readdir_out_t out;
        uint32_t i;

        forward_begin_call(&both->client, &call, "fwd.readdir",
            hg_proc_fwd_readdir_in_t, hg_proc_fwd_readdir_out_t, &in);
        HG_CHECK_OK(forward_await(&both->client, &call, &out));
        HG_CHECK_EQ_INT(out.error, 0);
        got = out.names.count;
        HG_CHECK(got <= count);
        for (i = 0; i < got; i++) {
            const fwd_name_t *name = &out.names.names[i];
            bool dot = name->name[0] == '.';
            unsigned number = (unsigned) strtoul(name->name, NULL, 10);

            in.cookie = name->cookie;
            HG_CHECK_EQ_INT((name->entry.node != 0), (plus != 0 && !dot));
            if (dot)
                continue;
            HG_CHECK(!seen[number]);
            seen[number] = true;
            total++;
        }
        forward_end_call(&call, &out);
    }
    HG_CHECK_EQ_INT(forward_release(&both->client, in.file), 0);
    return total;
}

HG_TEST(directories_are_read_in_pieces)
{
    enum { NAMES = 1500 };
    static bool seen[4][NAMES];
    struct forward both;
    char name[64];
    int i;

    forward_begin_both(&both, NULL);
    for (i = 0; i < NAMES; i++) {
        (void) snprintf(name, sizeof(name), "%d-with-a-longer-name", i);
        forward_put(&both.server, name, "", 0);
    }
    HG_CHECK_EQ_INT(
        (int) read_names(&both, both.client.root, 1024, 0, seen[0]), NAMES);
    HG_CHECK_EQ_INT(
        (int) read_names(&both, both.client.root, 7, 0, seen[1]), NAMES);
    HG_CHECK_EQ_INT(
        (int) read_names(&both, both.client.root, 1024, 1, seen[2]), NAMES);
    HG_CHECK_EQ_INT(
        (int) read_names(&both, both.client.root, 1024, 1, seen[3]), NAMES);
    forward_end_both(&both);
}

/* The server knows the node of .., but does not count a lookup of it. */
HG_TEST(dots_are_not_looked_up)
{
    struct forward both;
    fwd_entry_t outer, inner;
    fwd_attr_t attr;

    forward_begin_both(&both, NULL);
    HG_CHECK_EQ_INT(forward_make(&both.client, both.client.root, "outer",
                        S_IFDIR | 0755, NULL, &outer),
        0);
    HG_CHECK_EQ_INT(forward_make(&both.client, outer.node, "inner",
                        S_IFDIR | 0755, NULL, &inner),
        0);
    HG_CHECK_EQ_INT((int) read_names(&both, inner.node, 10, 1, NULL), 0);
    HG_CHECK_EQ_INT(forward_forget(&both.client, outer.node, 1), 0);
    HG_CHECK_EQ_INT(
        forward_getattr(&both.client, outer.node, 0, &attr), FWD_FORGOTTEN);
    forward_end_both(&both);
}

HG_TEST(an_entry_without_a_name_is_not_decoded)
{
    struct forward both;
    fwd_name_t name = {0}, got;
    hg_proc_t proc;
    char bytes[256];

    forward_begin_both(&both, NULL);
    HG_CHECK_OK(hg_proc_create_set(both.client.hg_class, bytes, sizeof(bytes),
        HG_ENCODE, HG_NOHASH, &proc));
    HG_CHECK_OK(hg_proc_fwd_name_t(proc, &name));
    HG_CHECK_OK(hg_proc_reset(proc, bytes, sizeof(bytes), HG_DECODE));
    HG_CHECK_RET(hg_proc_fwd_name_t(proc, &got), HG_PROTOCOL_ERROR);
    HG_CHECK_OK(hg_proc_free(proc));
    forward_end_both(&both);
}

/* ---- Locks ---- */

HG_TEST(locks_exclude_other_owners_and_clients)
{
    struct forward both;
    struct forward_client other;
    fwd_lock_out_t out;
    fwd_entry_t entry;
    uint64_t file, files;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char *path;
    int fd;

    forward_begin_both(&both, NULL);
    forward_open(&other, &both.server);
    file = make_file(&both, "file", NULL);
    HG_CHECK_EQ_INT(forward_lookup(&other, other.root, "file", &entry), 0);
    HG_CHECK_EQ_INT(forward_open_file(&other, entry.node, O_RDWR, &files), 0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, file, 1, FWD_LOCK_SET, F_WRLCK,
                        10, 19, &out),
        0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, file, 1, FWD_LOCK_TEST, F_WRLCK,
                        0, ALL_BYTES, &out),
        0);
    HG_CHECK_EQ_U64(out.type, F_UNLCK); /* its own */
    /* Another owner, another client, and a program of this node. */
    HG_CHECK_EQ_INT(forward_lock(&both.client, file, 2, FWD_LOCK_SET, F_RDLCK,
                        0, ALL_BYTES, &out),
        EAGAIN);
    HG_CHECK_EQ_INT(
        forward_lock(&other, files, 1, FWD_LOCK_SET, F_RDLCK, 19, 30, &out),
        EAGAIN);
    HG_CHECK_EQ_INT(forward_lock(&other, files, 1, FWD_LOCK_TEST, F_RDLCK, 0,
                        ALL_BYTES, &out),
        0);
    HG_CHECK_EQ_U64(out.type, F_WRLCK);
    HG_CHECK_EQ_U64(out.start, 10);
    HG_CHECK_EQ_U64(out.end, 19);
    path = forward_path(&both.server, "file");
    fd = open(path, O_RDWR | O_CLOEXEC);
    HG_CHECK(fcntl(fd, F_SETLK, &lock) == -1 && errno == EAGAIN);
    (void) close(fd);
    free(path);
    /* Beside it there is no conflict. */
    HG_CHECK_EQ_INT(
        forward_lock(&other, files, 1, FWD_LOCK_SET, F_WRLCK, 20, 30, &out), 0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, file, 1, FWD_LOCK_SET, F_UNLCK,
                        10, 14, &out),
        0);
    HG_CHECK_EQ_INT(
        forward_lock(&other, files, 1, FWD_LOCK_SET, F_WRLCK, 10, 14, &out), 0);
    HG_CHECK_EQ_INT(
        forward_lock(&other, files, 1, FWD_LOCK_SET, F_WRLCK, 10, 15, &out),
        EAGAIN);
    HG_CHECK_EQ_INT(
        forward_lock(&both.client, file, 1, FWD_LOCK_RELEASE, 0, 0, 0, &out),
        0);
    HG_CHECK_EQ_INT(
        forward_lock(&other, files, 1, FWD_LOCK_SET, F_WRLCK, 10, 19, &out), 0);
    /* The last file of a client is closed, and its locks with it. */
    HG_CHECK_EQ_INT(forward_release(&other, files), 0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, file, 2, FWD_LOCK_SET, F_WRLCK,
                        0, ALL_BYTES, &out),
        0);
    forward_close(&other);
    forward_end_both(&both);
}

/* While another file of the node is open. */
HG_TEST(release_ends_the_locks_that_were_set_with_the_file)
{
    struct forward both;
    uint64_t node, first, second;
    fwd_lock_out_t out;

    forward_begin_both(&both, NULL);
    first = make_file(&both, "file", &node);
    HG_CHECK_EQ_INT(forward_open_file(&both.client, node, O_RDWR, &second), 0);
    HG_CHECK_EQ_INT(
        forward_lock(&both.client, first, 1, FWD_LOCK_SET, F_WRLCK, 0, 9, &out),
        0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, first, 2, FWD_LOCK_SET, F_WRLCK,
                        10, 19, &out),
        0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, first, 3, FWD_LOCK_SET, F_WRLCK,
                        20, 29, &out),
        0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, second, 3, FWD_LOCK_SET, F_WRLCK,
                        30, 39, &out),
        0);
    HG_CHECK_EQ_INT(forward_release(&both.client, first), 0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, second, 4, FWD_LOCK_SET, F_WRLCK,
                        0, 19, &out),
        0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, second, 4, FWD_LOCK_SET, F_WRLCK,
                        29, 30, &out),
        EAGAIN);
    forward_end_both(&both);
}

HG_TEST(flock_locks_the_open_file)
{
    struct forward both;
    uint64_t node, first, second;
    fwd_lock_out_t out;

    forward_begin_both(&both, NULL);
    first = make_file(&both, "file", &node);
    HG_CHECK_EQ_INT(
        forward_open_file(&both.client, node, O_RDONLY, &second), 0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, first, 0, FWD_LOCK_FLOCK,
                        F_RDLCK, 0, 0, &out),
        0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, second, 0, FWD_LOCK_FLOCK,
                        F_RDLCK, 0, 0, &out),
        0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, second, 0, FWD_LOCK_FLOCK,
                        F_WRLCK, 0, 0, &out),
        EAGAIN);
    HG_CHECK_EQ_INT(forward_release(&both.client, first), 0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, second, 0, FWD_LOCK_FLOCK,
                        F_WRLCK, 0, 0, &out),
        0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, second, 0, FWD_LOCK_FLOCK,
                        F_UNLCK, 0, 0, &out),
        0);
    forward_end_both(&both);
}

/* ---- Sessions ---- */

HG_TEST(a_client_that_ends_leaves_nothing_open)
{
    struct forward both;
    struct forward_client other;
    unsigned before;
    fwd_entry_t entry;
    fwd_lock_out_t out;
    uint64_t file;
    char name[20];
    int i;

    forward_begin_both(&both, NULL);
    before = forward_descriptors(&both.server);
    forward_open(&other, &both.server);
    for (i = 0; i < 50; i++) {
        (void) snprintf(name, sizeof(name), "%d", i);
        forward_put(&both.server, name, "", 0);
        HG_CHECK_EQ_INT(forward_lookup(&other, other.root, name, &entry), 0);
        HG_CHECK_EQ_INT(
            forward_open_file(&other, entry.node, O_RDWR, &file), 0);
        HG_CHECK_EQ_INT(forward_lock(&other, file, 7, FWD_LOCK_SET, F_WRLCK, 0,
                            ALL_BYTES, &out),
            0);
    }
    HG_CHECK(forward_descriptors(&both.server) >= before + 150);
    forward_close(&other);
    forward_await_descriptors(&both.server, before);
    HG_CHECK_EQ_INT(
        forward_open_file(&both.client, look(&both, "7").node, O_RDWR, &file),
        0);
    HG_CHECK_EQ_INT(forward_lock(&both.client, file, 1, FWD_LOCK_SET, F_WRLCK,
                        0, ALL_BYTES, &out),
        0);
    forward_end_both(&both);
}

/* A connection has one session. */
HG_TEST(a_second_session_ends_the_first_one)
{
    struct forward both;
    struct forward_client *client = &both.client;
    uint64_t old, old_root;
    fwd_attr_t attr;
    hg_handle_t watch;
    fwd_error_out_t out;

    forward_begin_both(&both, NULL);
    old = client->session;
    old_root = client->root;
    watch = client->watch;
    forward_begin(client);
    HG_CHECK(client->session != old);
    while (!client->watch_ended)
        forward_turn(client);
    HG_CHECK_OK(client->watch_ret);
    HG_CHECK_OK(HG_Get_output(watch, &out));
    HG_CHECK_EQ_INT(out.error, FWD_FORGOTTEN);
    HG_CHECK_OK(HG_Free_output(watch, &out));
    HG_CHECK_OK(HG_Destroy(watch));
    forward_watch(client);
    HG_CHECK_EQ_INT(forward_getattr(client, client->root, 0, &attr), 0);
    {
        fwd_getattr_in_t in = {old, old_root, 0};
        fwd_attr_out_t got;

        FORWARD_CALL(client, "getattr", getattr, &in, attr, &got);
        HG_CHECK_EQ_INT(got.error, FWD_FORGOTTEN);
    }
    forward_end_both(&both);
}

/* The server does not learn of the end of a client that sends no fwd.watch. */
HG_TEST(a_session_without_a_watch_ends)
{
    struct forward both;
    struct forward_client *client = &both.client;
    fwd_attr_t attr;
    unsigned with;

    memset(&both, 0, sizeof(both));
    forward_start(&both.server, NULL);
    forward_connect(client, both.server.address);
    forward_begin(client);
    HG_CHECK_EQ_INT(forward_getattr(client, client->root, 0, &attr), 0);
    with = forward_descriptors(&both.server);
    while (forward_getattr(client, client->root, 0, &attr) == 0)
        (void) usleep(100000); /* the watchdog ends it */
    HG_CHECK_EQ_INT(
        forward_getattr(client, client->root, 0, &attr), FWD_FORGOTTEN);
    forward_await_descriptors(&both.server, with - 1);
    forward_end_both(&both);
}

HG_TEST(an_unknown_version_is_refused)
{
    struct forward both;
    fwd_begin_in_t in = {FWD_VERSION + 1};
    fwd_begin_out_t out;
    fwd_attr_t attr;

    forward_begin_both(&both, NULL);
    FORWARD_CALL(&both.client, "begin", begin, &in, begin, &out);
    HG_CHECK_EQ_INT(out.error, EPROTONOSUPPORT);
    HG_CHECK_EQ_INT(
        forward_getattr(&both.client, both.client.root, 0, &attr), 0);
    forward_end_both(&both);
}

/* With few descriptors, nodes end that were not used for long; open files keep
 * theirs. */
HG_TEST(nodes_end_at_the_limit_of_descriptors)
{
    enum { NAMES = 600 };
    struct forward both;
    fwd_entry_t first, entry;
    fwd_attr_t attr;
    uint64_t node, file;
    unsigned opened = 0;
    char name[20];
    int error = 0;
    int i;

    memset(&both, 0, sizeof(both));
    both.server.descriptors = 512;
    forward_start(&both.server, NULL);
    forward_open(&both.client, &both.server);
    file = make_file(&both, "open", &node);
    for (i = 0; i < NAMES; i++) {
        (void) snprintf(name, sizeof(name), "%d", i);
        forward_put(&both.server, name, "", 0);
        entry = look(&both, name);
        first = i == 0 ? entry : first;
    }
    HG_CHECK(forward_descriptors(&both.server) < 400);
    HG_CHECK_EQ_INT(
        forward_getattr(&both.client, first.node, 0, &attr), FWD_FORGOTTEN);
    HG_CHECK_EQ_INT(forward_getattr(&both.client, entry.node, 0, &attr), 0);
    HG_CHECK_EQ_INT(forward_getattr(&both.client, node, file, &attr), 0);
    HG_CHECK_EQ_INT(
        forward_getattr(&both.client, both.client.root, 0, &attr), 0);
    HG_CHECK_EQ_INT(forward_find(&both.client, "0", &entry), 0);
    HG_CHECK(entry.node != first.node);
    HG_CHECK_EQ_MEM(&entry.id, &first.id, sizeof(entry.id));
    /* Open files are limited, too. */
    while (error == 0) {
        error = forward_open_file(&both.client, node, O_RDONLY, &file);
        opened += error == 0;
    }
    HG_CHECK_EQ_INT(error, EMFILE);
    HG_CHECK(opened > 50 && opened < 400);
    HG_CHECK_EQ_INT(forward_release(&both.client, 0), FWD_FORGOTTEN);
    forward_end_both(&both);
}

HG_TEST(forgotten_nodes_do_not_count)
{
    enum { NAMES = 600 };
    struct forward both;
    fwd_entry_t kept, entry;
    fwd_attr_t attr;
    char name[20];
    int i;

    memset(&both, 0, sizeof(both));
    both.server.descriptors = 512;
    forward_start(&both.server, NULL);
    forward_open(&both.client, &both.server);
    forward_put(&both.server, "kept", "", 0);
    kept = look(&both, "kept");
    for (i = 0; i < NAMES; i++) {
        (void) snprintf(name, sizeof(name), "%d", i);
        forward_put(&both.server, name, "", 0);
        entry = look(&both, name);
        HG_CHECK_EQ_INT(forward_forget(&both.client, entry.node, 1), 0);
    }
    HG_CHECK_EQ_INT(forward_getattr(&both.client, kept.node, 0, &attr), 0);
    forward_end_both(&both);
}

/* The nodes of a session that has ended are those of the others again. */
HG_TEST(sessions_that_end_give_their_share_back)
{
    enum { NAMES = 150 };
    struct forward both;
    struct forward_client other;
    fwd_entry_t first, entry;
    fwd_attr_t attr;
    unsigned before;
    char name[20];
    int i;

    memset(&both, 0, sizeof(both));
    both.server.descriptors = 512;
    forward_start(&both.server, NULL);
    forward_open(&both.client, &both.server);
    before = forward_descriptors(&both.server);
    for (i = 0; i < 4; i++) {
        forward_open(&other, &both.server);
        HG_CHECK_EQ_INT(forward_getattr(&other, other.root, 0, &attr), 0);
        forward_close(&other);
        forward_await_descriptors(&both.server, before);
    }
    for (i = 0; i < NAMES; i++) {
        (void) snprintf(name, sizeof(name), "%d", i);
        forward_put(&both.server, name, "", 0);
        entry = look(&both, name);
        first = i == 0 ? entry : first;
    }
    HG_CHECK_EQ_INT(forward_getattr(&both.client, first.node, 0, &attr), 0);
    forward_end_both(&both);
}

HG_TEST(closed_files_do_not_count)
{
    enum { FILES = 200 };
    struct forward both;
    fwd_lock_out_t locked;
    uint64_t node, file, none;
    fwd_attr_t attr;
    int i;

    memset(&both, 0, sizeof(both));
    both.server.descriptors = 128;
    forward_start(&both.server, NULL);
    forward_open(&both.client, &both.server);
    file = make_file(&both, "file", &node);
    for (i = 0; i < FILES; i++) {
        HG_CHECK_EQ_INT(forward_lock(&both.client, file, 1, FWD_LOCK_SET,
                            F_RDLCK, 0, ALL_BYTES, &locked),
            0);
        HG_CHECK_EQ_INT(forward_lock(&both.client, file, 1, FWD_LOCK_RELEASE, 0,
                            0, 0, &locked),
            0);
        HG_CHECK_EQ_INT(forward_getattr(&both.client, node, file, &attr), 0);
        HG_CHECK_EQ_INT(forward_release(&both.client, file), 0);
        HG_CHECK_EQ_INT(
            forward_open_file(&both.client, node, O_RDONLY, &file), 0);
        HG_CHECK_EQ_INT(forward_open_file(&both.client, both.client.root,
                            O_RDWR, &none), /* a directory */
            EISDIR);
    }
    forward_end_both(&both);
}

static void check_rest_is_read_only(
    struct forward_client *client, uint64_t node, uint64_t file)
{
    fwd_setxattr_in_t set = {client->session, node, "user.a", {0, NULL}, 0, 0};
    fwd_removexattr_in_t name = {client->session, node, "user.a", 0};
    fwd_fallocate_in_t allocate = {client->session, file, 0, 10, 0};
    fwd_copy_in_t copy = {client->session, file, 0, file, 10, 4};
    fwd_offset_out_t copied;
    fwd_error_out_t out;

    FORWARD_CALL(client, "setxattr", setxattr, &set, error, &out);
    HG_CHECK_EQ_INT(out.error, EROFS);
    FORWARD_CALL(client, "removexattr", removexattr, &name, error, &out);
    HG_CHECK_EQ_INT(out.error, EROFS);
    FORWARD_CALL(client, "fallocate", fallocate, &allocate, error, &out);
    HG_CHECK_EQ_INT(out.error, EROFS);
    FORWARD_CALL(client, "copy", copy, &copy, offset, &copied);
    HG_CHECK_EQ_INT(copied.error, EROFS);
}

HG_TEST(a_read_only_server_changes_nothing)
{
    struct forward both;
    struct forward_client *client = &both.client;
    fwd_create_out_t created;
    fwd_setattr_in_t set;
    fwd_entry_t entry, made;
    fwd_lock_out_t lock;
    fwd_attr_t attr;
    uint64_t file;
    uint32_t done;
    char got[10];

    forward_begin_both(&both, "--read-only", NULL);
    forward_put(&both.server, "file", "text", 4);
    entry = look(&both, "file");
    HG_CHECK_EQ_INT(
        forward_open_file(client, entry.node, O_RDWR, &file), EROFS);
    HG_CHECK_EQ_INT(
        forward_open_file(client, entry.node, O_RDONLY | O_TRUNC, &file),
        EROFS);
    HG_CHECK_EQ_INT(forward_open_file(client, entry.node, O_RDONLY, &file), 0);
    HG_CHECK_EQ_INT(forward_read(client, file, 0, got, 10, &done), 0);
    HG_CHECK_EQ_U64(done, 4);
    HG_CHECK_EQ_INT(forward_lock(client, file, 1, FWD_LOCK_SET, F_RDLCK, 0,
                        ALL_BYTES, &lock),
        0);
    HG_CHECK_EQ_INT(forward_write(client, file, 0, "x", 1, &done), EROFS);
    HG_CHECK_EQ_INT(
        forward_create(client, client->root, "new", O_RDWR, &created), EROFS);
    HG_CHECK_EQ_INT(
        forward_make(client, client->root, "d", S_IFDIR | 0755, NULL, &made),
        EROFS);
    HG_CHECK_EQ_INT(forward_remove(client, client->root, "file", 0, 0), EROFS);
    HG_CHECK_EQ_INT(
        forward_rename(client, client->root, "file", "x", 0, 0), EROFS);
    HG_CHECK_EQ_INT(
        forward_link(client, entry.node, client->root, "x", 0, &made), EROFS);
    memset(&set, 0, sizeof(set));
    set.node = entry.node;
    set.valid = FWD_SET_ATIME;
    HG_CHECK_EQ_INT(set_attributes(client, &set, &attr), EROFS);
    check_rest_is_read_only(client, entry.node, file);
    HG_CHECK(local_status(&both, "file").st_size == 4);
    forward_end_both(&both);
}

/* A file of which a program of the server's node has a lease: the server's open
 * blocks until it gives the lease back. */
struct leased {
    uint64_t node;
    int lease;
    struct forward_call open;
};

static void lease_file(
    struct forward *both, const char *name, struct leased *leased)
{
    char *path = forward_path(&both->server, name);

    (void) signal(SIGIO, SIG_IGN); /* sent when the server opens the file */
    forward_put(&both->server, name, "", 0);
    leased->node = look(both, name).node;
    leased->lease = open(path, O_RDWR | O_CLOEXEC);
    free(path);
    if (fcntl(leased->lease, F_SETLEASE, F_WRLCK) != 0)
        hg_test_skip("no leases here: %s", strerror(errno));
}

static void begin_open(struct forward_client *client, struct leased *leased)
{
    fwd_open_in_t in = {client->session, leased->node, 0, "", O_RDWR, 0};

    forward_begin_call(client, &leased->open, "fwd.open", hg_proc_fwd_open_in_t,
        hg_proc_fwd_open_out_t, &in);
}

static void end_open(struct forward_client *client, struct leased *leased)
{
    fwd_open_out_t out;

    HG_CHECK(!leased->open.done);
    HG_CHECK(fcntl(leased->lease, F_SETLEASE, F_UNLCK) == 0);
    HG_CHECK_OK(forward_await(client, &leased->open, &out));
    HG_CHECK_EQ_INT(out.error, 0);
    forward_end_call(&leased->open, &out);
    (void) close(leased->lease);
}

HG_TEST(calls_that_block_do_not_hold_up_others)
{
    enum { FILES = 5 };
    struct forward both;
    struct leased files[FILES];
    fwd_attr_t attr;
    char name[20];
    int i;

    forward_begin_both(&both, "--threads", "8", NULL);
    for (i = 0; i < FILES; i++) {
        (void) snprintf(name, sizeof(name), "%d", i);
        lease_file(&both, name, &files[i]);
        begin_open(&both.client, &files[i]);
    }
    for (i = 0; i < 100; i++)
        HG_CHECK_EQ_INT(
            forward_getattr(&both.client, both.client.root, 0, &attr), 0);
    for (i = 0; i < FILES; i++)
        end_open(&both.client, &files[i]);
    forward_end_both(&both);
}

HG_TEST(a_file_whose_open_was_canceled_is_closed)
{
    struct forward both;
    struct leased file;
    fwd_attr_t attr;
    unsigned count;

    forward_begin_both(&both, NULL);
    lease_file(&both, "file", &file);
    count = forward_descriptors(&both.server);
    begin_open(&both.client, &file);
    while (fcntl(file.lease, F_GETLEASE) == F_WRLCK)
        forward_turn(&both.client);
    HG_CHECK_OK(HG_Cancel(file.open.handle));
    while (!file.open.done)
        forward_turn(&both.client);
    HG_CHECK_RET(file.open.ret, HG_CANCELED);
    forward_end_call(&file.open, NULL);
    /* A later call was executed: the server knows of the cancellation. */
    HG_CHECK_EQ_INT(
        forward_getattr(&both.client, both.client.root, 0, &attr), 0);
    HG_CHECK(fcntl(file.lease, F_SETLEASE, F_UNLCK) == 0);
    forward_await_descriptors(&both.server, count);
    (void) close(file.lease);
    forward_end_both(&both);
}

/* ---- The end of the server ---- */

HG_TEST(sigterm_responds_to_the_watch)
{
    struct forward both;
    fwd_error_out_t out;
    fwd_attr_t attr;

    forward_begin_both(&both, NULL);
    /* The server has the watch when it has executed a later call. */
    HG_CHECK_EQ_INT(
        forward_getattr(&both.client, both.client.root, 0, &attr), 0);
    HG_CHECK(kill(both.server.pid, SIGTERM) == 0);
    while (!both.client.watch_ended)
        forward_turn(&both.client);
    HG_CHECK_OK(both.client.watch_ret);
    HG_CHECK_OK(HG_Get_output(both.client.watch, &out));
    HG_CHECK_EQ_INT(out.error, 0);
    HG_CHECK_OK(HG_Free_output(both.client.watch, &out));
    forward_stop(&both.server);
    forward_close(&both.client);
}

/* All threads of the server are blocked, and it has received more calls. */
HG_TEST(sigterm_finishes_the_calls_that_have_begun)
{
    enum { CALLS = 50 };
    struct forward both;
    struct leased files[2];
    struct forward_call calls[CALLS];
    struct forward_client other;
    fwd_getattr_in_t in;
    fwd_attr_out_t out;
    int i;

    forward_begin_both(&both, "--threads", "2", NULL);
    forward_connect(&other, both.server.address);
    forward_begin(&other);
    lease_file(&both, "one", &files[0]);
    lease_file(&both, "two", &files[1]);
    in.session = both.client.session;
    in.node = both.client.root;
    in.file = 0;
    HG_CHECK(kill(both.server.pid, SIGSTOP) == 0);
    begin_open(&both.client, &files[0]);
    begin_open(&both.client, &files[1]);
    for (i = 0; i < CALLS; i++)
        forward_begin_call(&both.client, &calls[i], "fwd.getattr",
            hg_proc_fwd_getattr_in_t, hg_proc_fwd_attr_out_t, &in);
    forward_watch(&other);
    HG_CHECK(kill(both.server.pid, SIGCONT) == 0);
    for (i = 0; i < 2; i++)
        while (fcntl(files[i].lease, F_GETLEASE) == F_WRLCK)
            forward_turn(&both.client);
    HG_CHECK(kill(both.server.pid, SIGTERM) == 0);
    while (!both.client.watch_ended)
        forward_turn(&both.client);
    end_open(&both.client, &files[0]);
    end_open(&both.client, &files[1]);
    for (i = 0; i < CALLS; i++) {
        hg_return_t ret = forward_await(&both.client, &calls[i], &out);

        if (ret != HG_SUCCESS) /* it was refused */
            HG_CHECK_RET(ret, HG_AGAIN);
        else
            HG_CHECK_EQ_INT(out.error, 0);
        forward_end_call(&calls[i], ret == HG_SUCCESS ? &out : NULL);
    }
    while (!other.watch_ended) /* at once, since the server stops */
        forward_turn(&other);
    HG_CHECK(other.watch_ret == HG_SUCCESS || other.watch_ret == HG_AGAIN);
    forward_close(&other);
    forward_stop(&both.server);
    forward_close(&both.client);
}

/* After a restart the same files are found again. */
HG_TEST(a_killed_server_is_noticed_and_another_one_knows_the_files)
{
    struct forward both;
    fwd_entry_t entry, again;
    uint64_t session;
    char address[NA_MAX_ADDR_LEN];

    forward_begin_both(&both, NULL);
    forward_put(&both.server, "file", "text", 4);
    entry = look(&both, "file");
    session = both.client.session;
    (void) snprintf(address, sizeof(address), "%s", both.server.address);
    (void) forward_end(&both.server, SIGKILL);
    while (!both.client.watch_ended)
        forward_turn(&both.client);
    HG_CHECK_RET(both.client.watch_ret, HG_DISCONNECT);
    forward_close(&both.client);
    forward_start_at(&both.server, address, NULL);
    forward_connect(&both.client, both.server.address);
    both.client.session = session;
    HG_CHECK_EQ_INT(forward_find(&both.client, "file", &again), FWD_FORGOTTEN);
    forward_begin(&both.client);
    forward_watch(&both.client);
    HG_CHECK_EQ_INT(forward_find(&both.client, "file", &again), 0);
    HG_CHECK_EQ_MEM(&again.id, &entry.id, sizeof(again.id));
    forward_end_both(&both);
}
