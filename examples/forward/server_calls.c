/* SPDX-License-Identifier: BSD-3-Clause */
/* server_calls: see server_calls.h. */
#define _GNU_SOURCE 1
#include "server_calls.h"

#include <errno.h>
#include <string.h>

#include "server_attributes.h"
#include "server_data.h"
#include "server_directories.h"
#include "server_files.h"
#include "server_locks.h"
#include "server_long.h"
#include "server_names.h"
#include "server_sessions.h"
#include "server_workers.h"

struct call {
    const char *name;
    hg_proc_cb_t in;
    hg_proc_cb_t out;
    int32_t (*run)(struct job *job); /* an errno, or CALLS_LATER */
    bool changes;                    /* refused by --read-only */
    bool is_plain;                   /* not by long_try */
    atomic_bool slow;                /* the last one was: see server_long */
    hg_id_t id;
};

/* clang-format off */
#define CALL_AS(name, in, out, run, changes, is_plain) \
    {"fwd." name, hg_proc_fwd_##in##_in_t, hg_proc_fwd_##out##_out_t, run, \
        changes, is_plain, false, 0}
#define CALL(name, in, out, run, changes) \
    CALL_AS(name, in, out, run, changes, false)
#define PLAIN(name, in, out, run, changes) \
    CALL_AS(name, in, out, run, changes, true)

static struct call calls[] = {
    PLAIN("read", read, read, data_read, false),
    PLAIN("write", write, write, data_write, true),
    CALL("getattr", getattr, attr, attributes_get, false),
    CALL("lookup", name, entry, names_lookup, false),
    CALL("forget", forget, error, names_forget, false),
    CALL("open", open, open, files_open, false),
    CALL("release", file, error, files_release, false),
    CALL("create", create, create, files_create, true),
    CALL("readdir", readdir, readdir, directories_read, false),
    CALL("setattr", setattr, attr, attributes_set, true),
    CALL("make", make, make, names_make, true),
    CALL("remove", remove, remove, names_remove, true),
    CALL("rename", rename, error, names_rename, true),
    CALL("link", link, entry, names_link, true),
    CALL("readlink", node, data, names_readlink, false),
    CALL("lock", lock, lock, locks_lock, false),
    PLAIN("fsync", fsync, error, data_fsync, false),
    CALL("seek", seek, offset, data_seek, false),
    PLAIN("fallocate", fallocate, error, data_fallocate, true),
    PLAIN("copy", copy, offset, data_copy, true),
    CALL("getxattr", getxattr, getxattr, attributes_getxattr, false),
    CALL("setxattr", setxattr, error, attributes_setxattr, true),
    CALL("removexattr", removexattr, error, attributes_removexattr, true),
    CALL("statfs", node, statfs, attributes_statfs, false),
    CALL("find", find, entry, names_find, false),
    PLAIN("begin", begin, begin, sessions_begin, false),
    PLAIN("watch", watch, error, sessions_watch, false),
    PLAIN("flush", file, error, data_flush, false),
};
/* clang-format on */

#define CALLS_COUNT (sizeof(calls) / sizeof(calls[0]))

/* A handler gets nothing but its handle. */
static struct call *calls_find(hg_id_t id)
{
    size_t i = 0;

    while (i < CALLS_COUNT - 1 && calls[i].id != id)
        i++;
    return &calls[i];
}

static int32_t calls_run(struct call *call, struct job *job)
{
    if (call->run == sessions_begin)
        return sessions_begin(job);
    job->session = sessions_get(job->in.session, job->handle);
    if (job->session == NULL)
        return FWD_FORGOTTEN;
    if (call->changes && server.read_only)
        return EROFS;
    return call->is_plain ? call->run(job)
                          : long_try(job, call->run, &call->slow);
}

void calls_finish(struct job *job, int32_t error)
{
    if (error != 0)
        memset(&job->out, 0, sizeof(job->out));
    job->out.error = error;
    if (job->file != NULL)
        files_put(job->session, job->file);
    (void) HG_Handler_start_output(job->handle, &job->out);
    (void) HG_Handler_free_input(job->handle, &job->in);
    (void) HG_Handler_free(job->handle);
    if (job->session != NULL)
        sessions_put(job->session);
}

static hg_return_t calls_serve(hg_handle_t handle)
{
    struct call *call = calls_find(HG_Handler_get_id(handle));
    struct job job;
    hg_return_t ret;
    int32_t error;

    memset(&job, 0, sizeof(job));
    job.handle = handle;
    ret = HG_Handler_get_input(handle, &job.in);
    if (ret != HG_SUCCESS) {
        (void) HG_Respond_error(handle, ret, NULL);
        return HG_Handler_free(handle);
    }
    workers_enter();
    error = calls_run(call, &job);
    if (error != CALLS_LATER)
        calls_finish(&job, error);
    workers_leave();
    return HG_SUCCESS;
}

hg_return_t calls_register(void)
{
    size_t i;

    for (i = 0; i < CALLS_COUNT; i++) {
        calls[i].id =
            HG_Register(calls[i].name, calls[i].in, calls[i].out, calls_serve);
        if (calls[i].id == 0)
            return HG_NOMEM;
    }
    return HG_SUCCESS;
}
