/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_forwardd and clients that lie, stop or die. Each bad request gets an
 * errno, nothing outside the folder is touched, the server serves others
 * meanwhile, and it keeps no descriptor of a client that is gone.
 */
#define _GNU_SOURCE
#include "forward_client.h"

#include <sys/sysmacros.h>
#include <time.h>

#define ALL_BYTES ((uint64_t) INT64_MAX)

/* ---- A server, a good client and a bad one ---- */

struct hostile {
    struct forward_server server;
    struct forward_client good;
    struct forward_client bad;
    unsigned descriptors; /* of the server, before the bad client came */
    char outside[4200];   /* a file beside the folder */
};

/* The folder has a file, a link out of it, and a directory, which has another
 * one with both. */
static void hostile_fill(struct hostile *all)
{
    char *path = forward_path(&all->server, "out");
    char target[4096];

    (void) snprintf(target, sizeof(target), "%s", hg_test_dir());
    HG_CHECK(symlink(target, path) == 0);
    free(path);
    path = forward_path(&all->server, "d");
    HG_CHECK(mkdir(path, 0755) == 0);
    free(path);
    path = forward_path(&all->server, "d/e");
    HG_CHECK(mkdir(path, 0755) == 0);
    free(path);
    path = forward_path(&all->server, "d/e/up");
    HG_CHECK(symlink("../../..", path) == 0);
    free(path);
    forward_put(&all->server, "file", "text", 4);
    forward_put(&all->server, "d/e/file", "text", 4);
    forward_put(&all->server, "../secret", "secret", 6);
    (void) snprintf(
        all->outside, sizeof(all->outside), "%s/secret", hg_test_dir());
}

static int hostile_refused; /* the errno of openat2 at the server, or 0 */

static void hostile_open(struct hostile *all, const char *address)
{
    fwd_entry_t entry;

    memset(all, 0, sizeof(*all));
    all->server.refused = hostile_refused;
    forward_make_folder(&all->server);
    hostile_fill(all);
    forward_start_at(&all->server, address, "--threads", "8", NULL);
    forward_open(&all->good, &all->server);
    HG_CHECK_EQ_INT(
        forward_lookup(&all->good, all->good.root, "file", &entry), 0);
    all->descriptors = forward_descriptors(&all->server);
}

static void hostile_begin(struct hostile *all)
{
    char address[64];

    (void) snprintf(
        address, sizeof(address), "sm://forward-%ld", (long) getpid());
    hostile_open(all, address);
    forward_open(&all->bad, &all->server);
}

/* Beside the folder nothing has changed. */
static void hostile_check_outside(const struct hostile *all)
{
    struct dirent *entry;
    struct stat status;
    unsigned count = 0;
    DIR *folder = opendir(hg_test_dir());

    HG_CHECK(folder != NULL);
    while ((entry = readdir(folder)) != NULL)
        count += entry->d_name[0] != '.';
    (void) closedir(folder);
    HG_CHECK_EQ_INT((int) count, 2); /* export and secret */
    HG_CHECK(stat(all->outside, &status) == 0);
    HG_CHECK(status.st_size == 6 && status.st_nlink == 1);
    HG_CHECK_EQ_INT((int) (status.st_mode & 07777), 0644);
}

/* The good client is served, and the descriptors of the bad one are closed. */
static void hostile_check(struct hostile *all)
{
    fwd_attr_t attr;

    HG_CHECK_EQ_INT(forward_getattr(&all->good, all->good.root, 0, &attr), 0);
    forward_await_descriptors(&all->server, all->descriptors);
    hostile_check_outside(all);
}

static void hostile_close(struct hostile *all)
{
    hostile_check(all);
    forward_close(&all->good);
    forward_stop(&all->server);
}

static void hostile_end(struct hostile *all)
{
    forward_close(&all->bad);
    hostile_close(all);
}

/* ---- Names ---- */

/* All calls with a name. Each must fail with `error`. */
static void try_name(
    struct hostile *all, uint64_t parent, const char *name, int error)
{
    struct forward_client *bad = &all->bad;
    fwd_create_out_t created;
    fwd_open_out_t opened;
    fwd_entry_t entry;

    HG_CHECK_EQ_INT(forward_lookup(bad, parent, name, &entry), error);
    HG_CHECK_EQ_INT(
        forward_make(bad, parent, name, S_IFDIR | 0755, NULL, &entry), error);
    HG_CHECK_EQ_INT(
        forward_make(bad, parent, name, S_IFLNK | 0777, "x", &entry), error);
    HG_CHECK_EQ_INT(
        forward_create(bad, parent, name, O_RDWR | O_TRUNC, &created), error);
    HG_CHECK_EQ_INT(
        forward_create(bad, parent, name, O_RDWR | O_EXCL, &created), error);
    HG_CHECK_EQ_INT(forward_remove(bad, parent, name, 0, 0), error);
    HG_CHECK_EQ_INT(forward_remove(bad, parent, name, 1, 0), error);
    HG_CHECK_EQ_INT(
        forward_link(bad, bad->root, parent, name, 0, &entry), error);
    HG_CHECK_EQ_INT(forward_rename(bad, parent, name, "new", 0, 0), error);
    HG_CHECK_EQ_INT(forward_rename(bad, parent, "file", name, 0, 0), error);
    if (error != ENOTDIR && (name == NULL || name[0] != '\0')) {
        fwd_open_in_t in = {bad->session, bad->root, parent, name, O_RDONLY, 0};

        FORWARD_CALL(bad, "open", open, &in, open, &opened);
        HG_CHECK_EQ_INT(opened.error, error);
    }
}

static void try_bad_names(void)
{
    static const char *const names[] = {NULL, "", ".", "..", "/", "a/b",
        "../secret", "/etc/passwd", "d/../../secret", "./file"};
    struct hostile all;
    char longest[FWD_NAME_MAX + 2];
    fwd_entry_t entry;
    size_t i;

    hostile_begin(&all);
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        try_name(&all, all.bad.root, names[i], EINVAL);
    memset(longest, 'x', sizeof(longest));
    longest[FWD_NAME_MAX + 1] = '\0';
    try_name(&all, all.bad.root, longest, ENAMETOOLONG);
    longest[FWD_NAME_MAX] = '\0'; /* the longest good one */
    HG_CHECK_EQ_INT(forward_make(&all.bad, all.bad.root, longest,
                        S_IFREG | 0600, NULL, &entry),
        0);
    hostile_end(&all);
}

static void try_paths(void)
{
    static const char *const paths[] = {"..", "../secret", "/etc/passwd",
        "d/../../secret", "/", "out/secret", "out/.", "d/../out/secret",
        "file/", "none/x", "d/e/../../../secret", "d/e/up/secret"};
    static const char *const good[] = {"", "d", "d/e", "d/e/file", "d/e/up"};
    struct hostile all;
    char *longest = (char *) malloc(100000);
    fwd_entry_t entry;
    size_t i;

    HG_CHECK(longest != NULL);
    hostile_begin(&all);
    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        HG_CHECK_EQ_INT(forward_find(&all.bad, good[i], &entry), 0);
    for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        HG_CHECK(forward_find(&all.bad, paths[i], &entry) > 0);
    HG_CHECK_EQ_INT(forward_find(&all.bad, NULL, &entry), EINVAL);
    memset(longest, 'x', 99999);
    longest[99999] = '\0';
    HG_CHECK_EQ_INT(forward_find(&all.bad, longest, &entry), ENAMETOOLONG);
    longest[FWD_PATH_MAX] = '\0'; /* a single name */
    HG_CHECK_EQ_INT(forward_find(&all.bad, longest, &entry), ENAMETOOLONG);
    for (i = 1; i < 99999; i += 2)
        longest[i] = '/';
    longest[FWD_PATH_MAX] = '\0';
    HG_CHECK(forward_find(&all.bad, longest, &entry) > 0);
    free(longest);
    hostile_end(&all);
}

/* A link out of the folder is a node like others; nothing is done to what it
 * leads to. */
static void try_links(void)
{
    struct hostile all;
    struct forward_client *bad = &all.bad;
    fwd_entry_t link, entry;
    fwd_create_out_t created;
    fwd_setattr_in_t set;
    fwd_attr_out_t attr;
    uint64_t file;

    hostile_begin(&all);
    HG_CHECK_EQ_INT(forward_make(bad, bad->root, "secret", S_IFLNK | 0777,
                        "../secret", &link),
        0);
    HG_CHECK(S_ISLNK(link.attr.mode));
    HG_CHECK_EQ_INT(forward_open_file(bad, link.node, O_RDWR, &file), ELOOP);
    HG_CHECK_EQ_INT(
        forward_create(bad, bad->root, "secret", O_RDWR | O_TRUNC, &created),
        ESTALE);
    memset(&set, 0, sizeof(set));
    set.session = bad->session;
    set.node = link.node;
    set.valid = FWD_SET_SIZE;
    FORWARD_CALL(bad, "setattr", setattr, &set, attr, &attr);
    HG_CHECK(attr.error > 0);
    set.valid = FWD_SET_MODE;
    FORWARD_CALL(bad, "setattr", setattr, &set, attr, &attr);
    HG_CHECK_EQ_INT(attr.error, EOPNOTSUPP);
    HG_CHECK_EQ_INT(forward_lookup(bad, bad->root, "out", &link), 0);
    try_name(&all, link.node, "secret", ENOTDIR);
    HG_CHECK_EQ_INT(
        forward_link(bad, link.node, bad->root, "out2", 0, &entry), 0);
    HG_CHECK(S_ISLNK(entry.attr.mode)); /* of the link itself */
    hostile_end(&all);
}

HG_TEST(bad_names_get_an_errno)
{
    try_bad_names();
}

HG_TEST(paths_do_not_leave_the_folder)
{
    try_paths();
}

HG_TEST(links_are_not_followed)
{
    try_links();
}

/* A container refuses openat2, or the kernel does not have it. */
HG_TEST(bad_names_get_an_errno_without_openat2)
{
    hostile_refused = EPERM;
    try_bad_names();
}

HG_TEST(paths_do_not_leave_the_folder_without_openat2)
{
    hostile_refused = ENOSYS;
    try_paths();
}

HG_TEST(links_are_not_followed_without_openat2)
{
    hostile_refused = EPERM;
    try_links();
}

/* ---- Bytes that no client of this library sends ---- */

struct raw {
    const void *bytes;
    size_t size;
};

static hg_return_t raw_proc(hg_proc_t proc, void *data)
{
    const struct raw *raw = (const struct raw *) data;

    return hg_proc_raw(proc, (void *) (uintptr_t) raw->bytes, raw->size);
}

static hg_return_t raw_call(struct forward_client *client, const char *name,
    hg_proc_cb_t out_proc, const void *bytes, size_t size, void *out)
{
    struct raw raw = {bytes, size};
    struct forward_call call;
    hg_return_t ret;

    forward_begin_call(client, &call, name, raw_proc, out_proc, &raw);
    ret = forward_await(client, &call, out);
    forward_end_call(&call, ret == HG_SUCCESS ? out : NULL);
    return ret;
}

HG_TEST(a_name_with_a_nul_is_no_name)
{
    static const char name[] = "file\0/../../secret";
    struct hostile all;
    uint64_t head[3];
    unsigned char bytes[sizeof(head) + sizeof(name) + 2];
    fwd_entry_out_t out;
    hg_return_t ret;

    hostile_begin(&all);
    hg_test_allow_log("fwd.lookup");
    head[0] = all.bad.session;
    head[1] = all.bad.root;
    head[2] = sizeof(name);
    memset(bytes, 0, sizeof(bytes));
    memcpy(bytes, head, sizeof(head));
    memcpy(bytes + sizeof(head), name, sizeof(name));
    ret = raw_call(&all.bad, "fwd.lookup", hg_proc_fwd_entry_out_t, bytes,
        sizeof(bytes), &out);
    HG_CHECK(ret != HG_SUCCESS || out.error != 0 || out.entry.attr.size == 4);
    /* Shorter than it says, and longer than all that can be. */
    HG_CHECK(raw_call(&all.bad, "fwd.lookup", hg_proc_fwd_entry_out_t, bytes,
                 sizeof(bytes) - 9, &out) != HG_SUCCESS);
    head[2] = UINT64_MAX;
    memcpy(bytes, head, sizeof(head));
    HG_CHECK(raw_call(&all.bad, "fwd.lookup", hg_proc_fwd_entry_out_t, bytes,
                 sizeof(bytes), &out) != HG_SUCCESS);
    HG_CHECK(raw_call(&all.bad, "fwd.lookup", hg_proc_fwd_entry_out_t, bytes, 0,
                 &out) != HG_SUCCESS);
    hostile_end(&all);
}

/* ---- Numbers ---- */

/* All inputs of the calls, and all outputs, begin alike. */
union any_in {
    uint64_t session;
    unsigned char bytes[512];
};

union any_out {
    int32_t error;
    unsigned char bytes[1024];
};

#define ANY(name, in, out) \
    { \
        "fwd." name, hg_proc_fwd_##in##_in_t, hg_proc_fwd_##out##_out_t \
    }

static const struct any_call {
    const char *name;
    hg_proc_cb_t in, out;
} any_calls[] = {ANY("lookup", name, entry), ANY("find", find, entry),
    ANY("forget", forget, error), ANY("make", make, make),
    ANY("link", link, entry), ANY("remove", remove, remove),
    ANY("rename", rename, error), ANY("readlink", node, data),
    ANY("getattr", getattr, attr), ANY("setattr", setattr, attr),
    ANY("getxattr", getxattr, getxattr), ANY("setxattr", setxattr, error),
    ANY("removexattr", removexattr, error), ANY("statfs", node, statfs),
    ANY("open", open, open), ANY("create", create, create),
    ANY("release", file, error), ANY("read", read, read),
    ANY("write", write, write), ANY("fsync", fsync, error),
    ANY("readdir", readdir, readdir), ANY("fallocate", fallocate, error),
    ANY("copy", copy, offset), ANY("seek", seek, offset),
    ANY("lock", lock, lock), ANY("flush", file, error),
    ANY("watch", watch, error)};

static int any_error(struct forward_client *client, const struct any_call *call,
    union any_in *in)
{
    union any_out out;

    forward_call(client, call->name, call->in, call->out, in, &out);
    return out.error;
}

HG_TEST(numbers_of_others_are_unknown)
{
    struct hostile all;
    uint64_t sessions[4], nodes[5], file;
    fwd_entry_t entry;
    union any_in in;
    fwd_attr_t attr;
    char data[10];
    uint32_t done;
    size_t i, j;

    hostile_begin(&all);
    sessions[0] = 0;
    sessions[1] = all.good.session; /* of the other client */
    sessions[2] = all.bad.session ^ ((uint64_t) 1 << 40);
    sessions[3] = UINT64_MAX;
    for (i = 0; i < 4; i++) {
        for (j = 0; j < sizeof(any_calls) / sizeof(any_calls[0]); j++) {
            memset(&in, 0, sizeof(in));
            in.session = sessions[i];
            HG_CHECK_EQ_INT(
                any_error(&all.bad, &any_calls[j], &in), FWD_FORGOTTEN);
        }
    }
    /* Zeros in place of nodes, files and names. */
    for (j = 0; j < sizeof(any_calls) / sizeof(any_calls[0]); j++) {
        if (strcmp(any_calls[j].name, "fwd.forget") == 0)
            continue;
        memset(&in, 0, sizeof(in));
        in.session = all.bad.session;
        HG_CHECK(any_error(&all.bad, &any_calls[j], &in) > 0);
    }
    HG_CHECK_EQ_INT(forward_lookup(&all.good, all.good.root, "d", &entry), 0);
    nodes[0] = entry.node; /* the bad client has no such node */
    nodes[1] = all.bad.root + ((uint64_t) 1 << 32);
    nodes[2] = all.bad.root + 1;
    nodes[3] = UINT64_MAX;
    nodes[4] = 0;
    for (i = 0; i < 5; i++) {
        HG_CHECK_EQ_INT(
            forward_getattr(&all.bad, nodes[i], 0, &attr), FWD_FORGOTTEN);
        HG_CHECK_EQ_INT(forward_open_file(&all.bad, nodes[i], O_RDONLY, &file),
            FWD_FORGOTTEN);
        HG_CHECK_EQ_INT(
            forward_getattr(&all.bad, all.bad.root, nodes[i] | 7, &attr),
            FWD_FORGOTTEN);
        HG_CHECK_EQ_INT(forward_forget(&all.bad, nodes[i], UINT64_MAX), 0);
    }
    HG_CHECK_EQ_INT(
        forward_open_file(&all.good, entry.node, O_RDONLY, &file), 0);
    HG_CHECK_EQ_INT(forward_release(&all.bad, file), FWD_FORGOTTEN);
    HG_CHECK_EQ_INT(
        forward_read(&all.bad, file, 0, data, 10, &done), FWD_FORGOTTEN);
    HG_CHECK_EQ_INT(forward_release(&all.good, file), 0);
    HG_CHECK_EQ_INT(forward_forget(&all.good, entry.node, 1), 0);
    /* The root does not end, however often it is forgotten. */
    HG_CHECK_EQ_INT(forward_forget(&all.bad, all.bad.root, UINT64_MAX), 0);
    HG_CHECK_EQ_INT(forward_getattr(&all.bad, all.bad.root, 0, &attr), 0);
    hostile_end(&all);
}

/* ---- Offsets and sizes ---- */

HG_TEST(offsets_and_sizes_are_checked)
{
    static const uint64_t large[] = {(uint64_t) INT64_MAX + 1,
        ((uint64_t) INT64_MAX) + 4096, UINT64_MAX - 1, UINT64_MAX - 4096};
    struct hostile all;
    struct forward_client *bad = &all.bad;
    fwd_create_out_t created;
    fwd_lock_out_t locked;
    fwd_error_out_t out;
    fwd_offset_out_t at;
    fwd_attr_out_t attr;
    fwd_readdir_out_t names;
    uint64_t file, folder;
    uint32_t done;
    char data[16] = "";
    size_t i;

    hostile_begin(&all);
    HG_CHECK_EQ_INT(
        forward_create(bad, bad->root, "new", O_RDWR | O_EXCL, &created), 0);
    file = created.file;
    HG_CHECK_EQ_INT(
        forward_open_file(bad, bad->root, O_RDONLY | O_DIRECTORY, &folder), 0);
    for (i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        fwd_fallocate_in_t allocate = {
            bad->session, file, large[i], large[i], 0};
        fwd_copy_in_t copy = {
            bad->session, file, large[i], file, large[i], large[i]};
        fwd_seek_in_t seek = {bad->session, file, large[i], SEEK_DATA};
        fwd_readdir_in_t readdir = {bad->session, folder, large[i], 10, 1};
        fwd_setattr_in_t set;

        HG_CHECK_EQ_INT(
            forward_read(bad, file, large[i], data, 16, &done), EINVAL);
        HG_CHECK_EQ_INT(
            forward_write(bad, file, large[i], data, 16, &done), EINVAL);
        FORWARD_CALL(bad, "fallocate", fallocate, &allocate, error, &out);
        HG_CHECK(out.error > 0);
        FORWARD_CALL(bad, "copy", copy, &copy, offset, &at);
        HG_CHECK(at.error > 0);
        FORWARD_CALL(bad, "seek", seek, &seek, offset, &at);
        HG_CHECK(at.error > 0);
        FORWARD_CALL(bad, "readdir", readdir, &readdir, readdir, &names);
        HG_CHECK(names.error > 0);
        memset(&set, 0, sizeof(set));
        set.session = bad->session;
        set.node = created.entry.node;
        set.valid = FWD_SET_SIZE;
        set.size = large[i];
        FORWARD_CALL(bad, "setattr", setattr, &set, attr, &attr);
        HG_CHECK_EQ_INT(attr.error, EFBIG);
        HG_CHECK_EQ_INT(forward_lock(bad, file, 1, FWD_LOCK_SET, F_WRLCK,
                            large[i], large[i], &locked),
            EINVAL);
        HG_CHECK_EQ_INT(
            forward_lock(bad, file, 1, FWD_LOCK_SET, 77, 0, 1, &locked),
            EINVAL);
        HG_CHECK_EQ_INT(forward_lock(bad, file, 1, 1000 + (uint32_t) i, F_WRLCK,
                            0, 1, &locked),
            EINVAL);
    }
    hostile_end(&all);
}

HG_TEST(sizes_and_kinds_of_files_are_checked)
{
    struct hostile all;
    struct forward_client *bad = &all.bad;
    fwd_create_out_t created;
    fwd_readdir_out_t names;
    uint64_t file, folder;
    uint32_t done;
    char data[16] = "";

    hostile_begin(&all);
    HG_CHECK_EQ_INT(
        forward_create(bad, bad->root, "new", O_RDWR | O_EXCL, &created), 0);
    file = created.file;
    HG_CHECK_EQ_INT(
        forward_open_file(bad, bad->root, O_RDONLY | O_DIRECTORY, &folder), 0);
    HG_CHECK_EQ_INT(
        forward_read(bad, file, UINT64_MAX, data, 16, &done), EINVAL);
    /* The last byte that a file can have. */
    HG_CHECK(forward_write(bad, file, INT64_MAX, data, 16, &done) > 0);
    {
        fwd_read_in_t in = {
            bad->session, file, 0, FWD_INLINE_MAX + 1, 0, HG_BULK_NULL};
        fwd_read_out_t got;

        FORWARD_CALL(bad, "read", read, &in, read, &got);
        HG_CHECK_EQ_INT(got.error, EINVAL);
        in.size = UINT32_MAX;
        FORWARD_CALL(bad, "read", read, &in, read, &got);
        HG_CHECK_EQ_INT(got.error, EINVAL);
    }
    /* Files of the wrong kind. */
    HG_CHECK_EQ_INT(forward_read(bad, folder, 0, data, 16, &done), EISDIR);
    HG_CHECK(forward_write(bad, folder, 0, data, 16, &done) > 0);
    {
        fwd_readdir_in_t in = {bad->session, file, 0, 10, 0};

        FORWARD_CALL(bad, "readdir", readdir, &in, readdir, &names);
        HG_CHECK_EQ_INT(names.error, ENOTDIR);
    }
    hostile_end(&all);
}

HG_TEST(arguments_are_limited)
{
    static char much[2 << 20];
    struct hostile all;
    fwd_create_out_t created;
    fwd_write_in_t in;
    fwd_write_out_t out;
    struct forward_call call;
    uint32_t done;

    hostile_begin(&all);
    hg_test_allow_log("fwd.write");
    HG_CHECK_EQ_INT(forward_create(&all.bad, all.bad.root, "new",
                        O_RDWR | O_EXCL, &created),
        0);
    HG_CHECK_EQ_INT(forward_write(&all.bad, created.file, 0, much,
                        FWD_INLINE_MAX + 1, &done),
        EINVAL);
    in = (fwd_write_in_t){all.bad.session, created.file, 0, 0, 0, HG_BULK_NULL,
        {sizeof(much), much}, 0};
    forward_begin_call(&all.bad, &call, "fwd.write", hg_proc_fwd_write_in_t,
        hg_proc_fwd_write_out_t, &in);
    HG_CHECK_RET(forward_await(&all.bad, &call, &out), HG_MSGSIZE);
    forward_end_call(&call, NULL);
    hostile_end(&all);
}

/* Opening a fifo or a device could block, or do something. */
HG_TEST(fifos_and_devices_are_not_opened)
{
    struct hostile all;
    struct forward_client *bad = &all.bad;
    fwd_make_in_t make;
    fwd_make_out_t made;
    fwd_create_out_t created;
    fwd_entry_t entry;
    uint64_t file;

    hostile_begin(&all);
    HG_CHECK_EQ_INT(
        forward_make(bad, bad->root, "fifo", S_IFIFO | 0666, NULL, &entry), 0);
    HG_CHECK_EQ_INT(forward_open_file(bad, entry.node, O_RDONLY, &file), ENXIO);
    HG_CHECK_EQ_INT(forward_open_file(bad, entry.node, O_WRONLY, &file), ENXIO);
    HG_CHECK_EQ_INT(
        forward_create(bad, bad->root, "fifo", O_RDWR, &created), ESTALE);
    HG_CHECK_EQ_INT(
        forward_make(bad, bad->root, "socket", S_IFSOCK | 0666, NULL, &entry),
        0);
    HG_CHECK_EQ_INT(forward_open_file(bad, entry.node, O_RDWR, &file), ENXIO);
    make = (fwd_make_in_t){bad->session, bad->root, "null", NULL, makedev(1, 3),
        S_IFCHR | 0666, 0, 0, 0, 0};
    FORWARD_CALL(bad, "make", make, &make, make, &made);
    if (geteuid() != 0)
        HG_CHECK_EQ_INT(made.error, EPERM);
    if (made.error == 0)
        HG_CHECK_EQ_INT(
            forward_open_file(bad, made.entry.node, O_RDWR, &file), ENXIO);
    make.mode = 0170000; /* no kind at all */
    FORWARD_CALL(bad, "make", make, &make, make, &made);
    HG_CHECK_EQ_INT(made.error, EINVAL);
    hostile_end(&all);
}

/* ---- Bulk handles ---- */

static hg_bulk_t small_memory(
    struct forward_client *client, hg_size_t size, uint8_t flags)
{
    hg_bulk_t memory;

    HG_CHECK_OK(
        HG_Bulk_create(client->hg_class, 1, NULL, &size, flags, &memory));
    return memory;
}

/* The client frees its memory before the server moves it: the bytes of the
 * handle are those of a freed one. */
static int move_freed(struct forward_client *client, uint64_t file)
{
    hg_bulk_t memory = small_memory(client, 4096, HG_BULK_READWRITE);
    hg_size_t size = HG_Bulk_get_serialize_size(memory, 0);
    unsigned char bytes[1024];
    uint64_t head[3] = {client->session, file, 0};
    uint32_t count = 4096, handle_size = (uint32_t) size;
    uint64_t at = 0;
    fwd_read_out_t out;

    HG_CHECK(size < 512);
    memcpy(bytes, head, 24);
    memcpy(bytes + 24, &count, 4);
    memcpy(bytes + 28, &at, 8);
    memcpy(bytes + 36, &handle_size, 4);
    HG_CHECK_OK(HG_Bulk_serialize(bytes + 40, size, 0, memory));
    HG_CHECK_OK(HG_Bulk_free(memory));
    HG_CHECK_OK(raw_call(client, "fwd.read", hg_proc_fwd_read_out_t, bytes,
        40 + (size_t) size, &out));
    return out.error;
}

HG_TEST(bad_memory_gets_an_errno)
{
    struct hostile all;
    struct forward_client *bad = &all.bad;
    hg_bulk_t only_read, only_write, memory;
    fwd_create_out_t created;
    static char data[8192];
    uint64_t file;
    uint32_t done;

    hostile_begin(&all);
    HG_CHECK_EQ_INT(
        forward_create(bad, bad->root, "new", O_RDWR | O_EXCL, &created), 0);
    file = created.file;
    HG_CHECK_EQ_INT(forward_write(bad, file, 0, data, sizeof(data), &done), 0);
    only_read = small_memory(bad, 4096, HG_BULK_READ_ONLY);
    only_write = small_memory(bad, 4096, HG_BULK_WRITE_ONLY);
    memory = small_memory(bad, 4096, HG_BULK_READWRITE);
    HG_CHECK_EQ_INT(
        forward_move(bad, false, file, 0, only_read, 0, 4096, &done), EFAULT);
    HG_CHECK_EQ_INT(
        forward_move(bad, true, file, 0, only_write, 0, 4096, &done), EFAULT);
    HG_CHECK_EQ_INT(
        forward_move(bad, false, file, 0, memory, 0, 4097, &done), EFAULT);
    HG_CHECK_EQ_INT(
        forward_move(bad, true, file, 0, memory, 1, 4096, &done), EFAULT);
    HG_CHECK_EQ_INT(
        forward_move(bad, true, file, 0, memory, UINT64_MAX, 4096, &done),
        EFAULT);
    HG_CHECK_EQ_INT(
        forward_move(bad, true, file, FWD_APPEND, memory, 4000, 97, &done),
        EFAULT);
    HG_CHECK_EQ_INT(
        forward_move(bad, true, file, 0, memory, 0, FWD_IO_MAX + 1, &done),
        EINVAL);
    HG_CHECK_EQ_INT(
        forward_move(bad, false, file, 0, memory, 0, UINT32_MAX, &done),
        EINVAL);
    HG_CHECK_EQ_INT(forward_move(bad, true, file, (uint64_t) INT64_MAX + 1,
                        memory, 0, 4096, &done),
        EINVAL);
    HG_CHECK_EQ_INT(
        forward_move(bad, true, 77, 0, memory, 0, 4096, &done), FWD_FORGOTTEN);
    HG_CHECK_EQ_INT(move_freed(bad, file), EFAULT);
    /* No memory and no data: nothing is written. */
    HG_CHECK_EQ_INT(
        forward_move(bad, true, file, 0, HG_BULK_NULL, 0, 4096, &done), 0);
    HG_CHECK_EQ_U64(done, 0);
    HG_CHECK_OK(HG_Bulk_free(only_read));
    HG_CHECK_OK(HG_Bulk_free(only_write));
    HG_CHECK_OK(HG_Bulk_free(memory));
    hostile_end(&all);
}

/* ---- Clients that stop or die ---- */

/* A client that locks the file, begins several transfers, and then stops
 * without serving its memory. */
HG_TEST_ROLE(stopping_client)
{
    enum { CALLS = 24 };
    struct forward_client client;
    struct forward_call calls[CALLS];
    hg_bulk_t memory;
    fwd_entry_t entry;
    fwd_lock_out_t locked;
    uint64_t file;
    int i;

    HG_CHECK_EQ_INT(argc, 1);
    forward_connect(&client, argv[0]);
    forward_begin(&client);
    forward_watch(&client);
    HG_CHECK_EQ_INT(forward_lookup(&client, client.root, "file", &entry), 0);
    HG_CHECK_EQ_INT(forward_open_file(&client, entry.node, O_RDWR, &file), 0);
    HG_CHECK_EQ_INT(forward_lock(&client, file, 1, FWD_LOCK_SET, F_WRLCK, 0,
                        ALL_BYTES, &locked),
        0);
    memory = small_memory(&client, FWD_IO_MAX, HG_BULK_READWRITE);
    for (i = 0; i < CALLS; i++) {
        fwd_write_in_t in = {
            client.session, file, 0, FWD_IO_MAX, 0, memory, {0, NULL}, 0};

        forward_begin_call(&client, &calls[i], "fwd.write",
            hg_proc_fwd_write_in_t, hg_proc_fwd_write_out_t, &in);
    }
    hg_test_write_parent("begun");
    (void) raise(SIGSTOP);
    (void) hg_test_read_parent();
}

/* The good client does some of all, without waiting for the other one. */
static void serve_meanwhile(struct hostile *all)
{
    struct timespec begin, end;
    fwd_create_out_t created;
    hg_bulk_t memory;
    uint32_t done;
    char name[20];
    int i;

    memory = small_memory(&all->good, 65536, HG_BULK_READWRITE);
    (void) clock_gettime(CLOCK_MONOTONIC, &begin);
    for (i = 0; i < 10; i++) {
        (void) snprintf(name, sizeof(name), "good%d", i);
        HG_CHECK_EQ_INT(forward_create(&all->good, all->good.root, name,
                            O_RDWR | O_EXCL, &created),
            0);
        HG_CHECK_EQ_INT(forward_move(&all->good, true, created.file, 0, memory,
                            0, 65536, &done),
            0);
        HG_CHECK_EQ_INT(forward_release(&all->good, created.file), 0);
        HG_CHECK_EQ_INT(forward_forget(&all->good, created.entry.node, 1), 0);
        HG_CHECK_EQ_INT(
            forward_remove(&all->good, all->good.root, name, 0, 0), 0);
    }
    (void) clock_gettime(CLOCK_MONOTONIC, &end);
    HG_CHECK_OK(HG_Bulk_free(memory));
    HG_CHECK((end.tv_sec - begin.tv_sec) * 1000 <
        (long) hg_test_scaled_ms(3000)); /* a transfer times out later */
}

/* Get the lock that the bad client had; wait for it. */
static void take_lock(struct hostile *all)
{
    fwd_entry_t entry;
    fwd_lock_out_t locked;
    uint64_t file;

    HG_CHECK_EQ_INT(
        forward_lookup(&all->good, all->good.root, "file", &entry), 0);
    HG_CHECK_EQ_INT(
        forward_open_file(&all->good, entry.node, O_RDWR, &file), 0);
    while (forward_lock(&all->good, file, 1, FWD_LOCK_SET, F_WRLCK, 0,
               ALL_BYTES, &locked) == EAGAIN)
        forward_turn(&all->good);
    HG_CHECK_EQ_INT(locked.error, 0);
    HG_CHECK_EQ_INT(forward_release(&all->good, file), 0);
}

/* `signal_number` ends the stopped client; 0: it is left alone until the server
 * takes it for dead. */
static void stop_in_the_middle(const char *address, int signal_number)
{
    struct hostile all;
    struct hg_test_peer *peer;
    char *line;

    hostile_open(&all, address);
    peer = hg_test_spawn("stopping_client", all.server.address, NULL);
    line = hg_test_read_peer(peer);
    HG_CHECK_EQ_STR(line, "begun");
    free(line);
    hg_test_freeze(peer);
    serve_meanwhile(&all);
    if (signal_number != 0)
        hg_test_signal(peer, signal_number);
    take_lock(&all);
    hostile_check(&all);
    if (signal_number == 0)
        hg_test_signal(peer, SIGKILL);
    (void) hg_test_wait(peer);
    hostile_close(&all);
}

/* A client that uses all it can, as fast as it can, until it is killed. */
HG_TEST_ROLE(busy_client)
{
    struct forward_client client;
    hg_bulk_t memory;
    char name[32];
    unsigned i;

    HG_CHECK_EQ_INT(argc, 2);
    forward_connect(&client, argv[0]);
    forward_begin(&client);
    forward_watch(&client);
    memory = small_memory(&client, 65536, HG_BULK_READWRITE);
    hg_test_write_parent("begun");
    for (i = 0;; i++) {
        fwd_create_out_t created;
        fwd_lock_out_t locked;
        fwd_entry_t entry;
        uint64_t file;
        uint32_t done;

        (void) snprintf(name, sizeof(name), "busy%s-%u", argv[1], i % 20);
        (void) forward_remove(&client, client.root, name, 0, 0);
        (void) forward_create(&client, client.root, name, O_RDWR, &created);
        (void) forward_lookup(&client, client.root, name, &entry);
        (void) forward_lock(&client, created.file, i, FWD_LOCK_SET, F_WRLCK, 0,
            ALL_BYTES, &locked);
        (void) forward_move(
            &client, true, created.file, 0, memory, 0, 65536, &done);
        (void) forward_open_file(&client, created.entry.node, O_RDONLY, &file);
        (void) forward_release(&client, i % 2 == 0 ? file : created.file);
    }
}

HG_TEST(clients_die_at_any_moment)
{
    enum { CLIENTS = 4, ROUNDS = 4 };
    uint64_t random = hg_test_seed();
    struct hg_test_peer *peers[CLIENTS];
    struct hostile all;
    char address[64], number[20];
    int i, round;

    (void) snprintf(
        address, sizeof(address), "sm://forward-%ld", (long) getpid());
    hostile_open(&all, address);
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < CLIENTS; i++) {
            (void) snprintf(number, sizeof(number), "%d", i);
            peers[i] =
                hg_test_spawn("busy_client", all.server.address, number, NULL);
            free(hg_test_read_peer(peers[i]));
        }
        for (i = 0; i < CLIENTS; i++) {
            (void) usleep((useconds_t) (hg_test_random(&random) % 3000));
            hg_test_signal(peers[i], SIGKILL);
        }
        for (i = 0; i < CLIENTS; i++)
            (void) hg_test_wait(peers[i]);
    }
    hostile_close(&all);
}

static bool has_zmq(void)
{
    na_class_t *na_class;

    hg_test_allow_log("");
    na_class = NA_Initialize("zmq+tcp://127.0.0.1", NA_TRUE);
    if (na_class == NULL)
        return false;
    HG_CHECK_OK(NA_Finalize(na_class));
    return true;
}

HG_TEST(a_client_dies_in_the_middle_of_its_writes)
{
    char address[64];

    (void) snprintf(
        address, sizeof(address), "sm://forward-%ld", (long) getpid());
    stop_in_the_middle(address, SIGKILL);
}

HG_TEST(a_client_of_zmq_dies_in_the_middle_of_its_writes)
{
    if (!has_zmq())
        hg_test_skip("built without ZeroMQ");
    stop_in_the_middle("zmq+tcp://127.0.0.1", SIGKILL);
}

HG_TEST(a_client_of_zmq_stops_in_the_middle_of_its_writes)
{
    if (!has_zmq())
        hg_test_skip("built without ZeroMQ");
    stop_in_the_middle("zmq+tcp://127.0.0.1", 0);
}
