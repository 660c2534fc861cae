/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing of hg_forwardd: any inputs of its calls, in a scratch folder. After
 * each input a good call must succeed, nothing beside the folder has changed,
 * and the descriptors of the session are closed.
 *
 * An input is a list of calls. Each has a byte for the call, one for what is
 * put before and behind its bytes, one for their number, and the bytes. The
 * second byte: 1: not the number of the session; 2: then the number of a node;
 * 4: then that of an open file; 8: a bulk handle behind the bytes. The bits
 * above choose the node or file among those that earlier calls returned. Built
 * with -DHG_FUZZER=1 and clang's -fsanitize=fuzzer it is a fuzzer; otherwise a
 * test.
 */
#include "support/library.h"

#ifndef HG_FUZZER
#define HG_FUZZER 0
#endif

#if HG_FUZZER
#include "support/fuzz_alone.h"
#endif

#if defined(__linux__)
#include "../../examples/forward/forward.c"
#include "../../examples/forward/server_attributes.c"
#include "../../examples/forward/server_calls.c"
#include "../../examples/forward/server_data.c"
#include "../../examples/forward/server_directories.c"
#include "../../examples/forward/server_files.c"
#include "../../examples/forward/server_locks.c"
#include "../../examples/forward/server_long.c"
#include "../../examples/forward/server_names.c"
#include "../../examples/forward/server_nodes.c"
#include "../../examples/forward/server_path.c"
#include "../../examples/forward/server_sessions.c"
#include "../../examples/forward/server_table.c"
#include "../../examples/forward/server_workers.c"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

#include "harness.h"

int hg_fuzz_forward(const uint8_t *data, size_t size);

enum {
    FUZZ_NO_SESSION = 1,
    FUZZ_NODE = 2,
    FUZZ_FILE = 4,
    FUZZ_MEMORY = 8,
    FUZZ_CHOICE = 16 /* and the bits above */
};

#define FUZZ_CALLS_MAX 32 /* of an input */
#define FUZZ_NUMBERS 16   /* nodes and files to choose from */
#define FUZZ_MEMORY_SIZE 65536u
#define FUZZ_FILE_MAX (1 << 24) /* bytes */

static struct {
    na_addr_t self;
    char folder[4096]; /* the scratch folder, with "export" and "secret" */
    unsigned opened;   /* descriptors without a session */
    hg_bulk_t memory;
    uint64_t session;
    uint64_t nodes[FUZZ_NUMBERS];
    uint64_t files[FUZZ_NUMBERS];
    unsigned node_count, file_count;
} fuzz;

struct server server = {NULL, -1, false, false, 0, 0};

/* The handlers run in this thread. */
static struct worker fuzz_worker;

/* ---- Calls with any bytes ---- */

struct fuzz_bytes {
    const void *bytes;
    size_t size;
};

/* The call in progress. */
static const struct call *fuzz_call;

/* Encodes bytes as they are, and decodes them as the call does. */
static hg_return_t fuzz_proc(hg_proc_t proc, void *data)
{
    const struct fuzz_bytes *bytes = (const struct fuzz_bytes *) data;

    return hg_proc_get_op(proc) == HG_ENCODE
        ? hg_proc_raw(proc, (void *) (uintptr_t) bytes->bytes, bytes->size)
        : fuzz_call->in(proc, data);
}

/* Add a number that a call has returned. */
static void fuzz_keep(uint64_t *numbers, unsigned *count, uint64_t number)
{
    if (number != 0)
        numbers[(*count)++ % FUZZ_NUMBERS] = number;
}

static uint64_t fuzz_choose(
    const uint64_t *numbers, unsigned count, unsigned choice)
{
    unsigned known = count < FUZZ_NUMBERS ? count : FUZZ_NUMBERS;

    return known == 0 ? 0 : numbers[choice % known];
}

static void fuzz_learn(const struct job *job)
{
    if (fuzz_call->out == hg_proc_fwd_entry_out_t)
        fuzz_keep(fuzz.nodes, &fuzz.node_count, job->out.entry.entry.node);
    if (fuzz_call->out == hg_proc_fwd_open_out_t)
        fuzz_keep(fuzz.files, &fuzz.file_count, job->out.open.file);
    if (fuzz_call->out == hg_proc_fwd_create_out_t) {
        fuzz_keep(fuzz.nodes, &fuzz.node_count, job->out.create.entry.node);
        fuzz_keep(fuzz.files, &fuzz.file_count, job->out.create.file);
    }
}

/* Make a call, whatever comes of it. A watch is given up. */
static hg_return_t fuzz_send(
    const struct call *call, const void *bytes, size_t size, struct job *job)
{
    struct fuzz_bytes in = {bytes, size};
    bool watch = call->run == sessions_watch;
    hg_request_t request;
    hg_return_t ret;

    memset(job, 0, sizeof(*job));
    fuzz_call = call;
    HG_CHECK_OK(HG_Forward(fuzz.self, call->id, &in, &job->out, &request));
    ret = HG_Wait(request, watch ? 1 : 10000, HG_STATUS_IGNORE);
    if (ret == HG_SUCCESS && job->out.error == 0)
        fuzz_learn(job);
    HG_CHECK(watch || ret != HG_TIMEOUT);
    HG_CHECK_OK(HG_Request_free(request));
    return ret;
}

/* ---- The server ---- */

/* How many descriptors lead to the scratch folder or into it. */
static unsigned fuzz_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    unsigned count = 0;
    char target[4200];

    HG_CHECK(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        ssize_t size = readlinkat(
            dirfd(folder), entry->d_name, target, sizeof(target) - 1);

        target[size > 0 ? size : 0] = '\0';
        count += strncmp(target, fuzz.folder, strlen(fuzz.folder)) == 0;
    }
    (void) closedir(folder);
    return count;
}

static void fuzz_make_folder(void)
{
    char path[4200];
    int fd;

    HG_CHECK(snprintf(fuzz.folder, sizeof(fuzz.folder), "%s/hg-fuzz-XXXXXX",
                 getenv("HG_TEST_DIR") != NULL ? getenv("HG_TEST_DIR")
                                               : "/tmp") > 0);
    HG_CHECK(mkdtemp(fuzz.folder) != NULL);
    (void) snprintf(path, sizeof(path), "%s/secret", fuzz.folder);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    HG_CHECK(fd >= 0 && write(fd, "secret", 6) == 6);
    (void) close(fd);
    (void) snprintf(path, sizeof(path), "%s/export", fuzz.folder);
    HG_CHECK(mkdir(path, 0755) == 0);
    server.root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    HG_CHECK(server.root >= 0);
}

/* Nothing beside the folder has changed. */
static void fuzz_check_outside(void)
{
    char path[4200];
    struct stat status;

    (void) snprintf(path, sizeof(path), "%s/secret", fuzz.folder);
    HG_CHECK(lstat(path, &status) == 0);
    HG_CHECK(S_ISREG(status.st_mode) && status.st_nlink == 1);
    HG_CHECK_EQ_INT((int) status.st_size, 6);
    HG_CHECK_EQ_INT((int) (status.st_mode & 07777), 0600);
    HG_CHECK(lstat(fuzz.folder, &status) == 0);
    HG_CHECK_EQ_INT((int) status.st_nlink, 3); /* one directory */
}

static void fuzz_start(void)
{
    /* No call fills the disk. */
    struct rlimit limit = {FUZZ_FILE_MAX, FUZZ_FILE_MAX};
    size_t size = FUZZ_MEMORY_SIZE;
    size_t i;

    (void) HG_Set_log_level("none");
    HG_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    (void) signal(SIGXFSZ, SIG_IGN);
    fuzz_make_folder();
    server.descriptors = 1024;
    server.na_class = NA_Initialize("self://", NA_TRUE);
    HG_CHECK(server.na_class != NULL);
    HG_CHECK_OK(HG_Init(server.na_class));
    HG_CHECK_OK(NA_Addr_self(server.na_class, &fuzz.self));
    HG_CHECK_OK(calls_register());
    for (i = 0; i < CALLS_COUNT; i++)
        HG_CHECK(HG_Register(calls[i].name, fuzz_proc, calls[i].out,
                     calls_serve) == calls[i].id);
    workers_self = &fuzz_worker;
    HG_CHECK_OK(
        HG_Bulk_handle_create(1, NULL, &size, HG_BULK_READWRITE, &fuzz.memory));
}

/* A session of its own for each input. */
static void fuzz_begin(void)
{
    const uint32_t version = FWD_VERSION;
    struct job job;
    size_t i = CALLS_COUNT;

    while (calls[--i].run != sessions_begin) {
    }
    HG_CHECK_OK(fuzz_send(&calls[i], &version, sizeof(version), &job));
    HG_CHECK_EQ_INT(job.out.error, 0);
    fuzz.session = job.out.begin.session;
    fuzz.node_count = fuzz.file_count = 0;
    fuzz_keep(fuzz.nodes, &fuzz.node_count, job.out.begin.root.node);
}

/* ---- An input ---- */

/* Put together the message of one call. Returns its size. */
static size_t fuzz_compose(const struct call *call, unsigned what,
    const uint8_t *bytes, size_t size, unsigned char *message)
{
    uint32_t memory_size =
        (uint32_t) HG_Bulk_handle_get_serialize_size(fuzz.memory);
    unsigned choice = what / FUZZ_CHOICE;
    size_t at = 0;

    if ((what & FUZZ_NO_SESSION) == 0 && call->run != sessions_begin) {
        memcpy(message, &fuzz.session, 8);
        at = 8;
    }
    if ((what & FUZZ_NODE) != 0) {
        uint64_t node = fuzz_choose(fuzz.nodes, fuzz.node_count, choice);

        memcpy(message + at, &node, 8);
        at += 8;
    }
    if ((what & FUZZ_FILE) != 0) {
        uint64_t file = fuzz_choose(fuzz.files, fuzz.file_count, choice);

        memcpy(message + at, &file, 8);
        at += 8;
    }
    memcpy(message + at, bytes, size);
    at += size;
    if ((what & FUZZ_MEMORY) != 0) {
        memcpy(message + at, &memory_size, 4);
        HG_CHECK_OK(HG_Bulk_handle_serialize(
            message + at + 4, memory_size, fuzz.memory));
        at += 4 + memory_size;
        if (call->run == data_write) { /* no data, no flags */
            memset(message + at, 0, 8);
            at += 8;
        }
    }
    return at;
}

int hg_fuzz_forward(const uint8_t *data, size_t size)
{
    unsigned count = 0;
    struct job job;

    if (fuzz.self == NA_ADDR_NULL) {
        fuzz_start();
        fuzz_begin();
        fuzz.opened = fuzz_descriptors();
    }
    fuzz_begin();
    while (size >= 3 && count++ < FUZZ_CALLS_MAX) {
        const struct call *call = &calls[data[0] % CALLS_COUNT];
        size_t length = data[2] < size - 3 ? data[2] : size - 3;
        unsigned char message[1024];

        (void) fuzz_send(call, message,
            fuzz_compose(call, data[1], data + 3, length, message), &job);
        data += 3 + length;
        size -= 3 + length;
    }
    fuzz_begin(); /* ends the session of this input */
    sessions_reap();
    fuzz_check_outside();
    HG_CHECK_EQ_INT((int) fuzz_descriptors(), (int) fuzz.opened);
    return 0;
}

#if HG_FUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return hg_fuzz_forward(data, size);
}

#else

#include "support/fuzz.h"

static void fuzz_stop(void)
{
    sessions_free();
    HG_CHECK_OK(HG_Bulk_handle_free(fuzz.memory));
    HG_CHECK_OK(NA_Addr_free(server.na_class, fuzz.self));
    HG_CHECK_OK(HG_Finalize());
    HG_CHECK_OK(NA_Finalize(server.na_class));
    if (fuzz_worker.pipeline != NULL)
        HG_CHECK_OK(HG_Bulk_pipeline_free(fuzz_worker.pipeline));
    free(fuzz_worker.io_buffer);
}

HG_TEST(fuzz_forward_corpus)
{
    fuzz_run_corpus("forward", hg_fuzz_forward);
    fuzz_stop();
}

HG_TEST_SECONDS(fuzz_forward_random, 60)
{
    fuzz_run_random("forward", hg_fuzz_forward, 2000);
    fuzz_stop();
}

#endif
#endif
