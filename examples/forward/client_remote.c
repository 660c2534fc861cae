/* SPDX-License-Identifier: BSD-3-Clause */
/* client_remote: see client_remote.h. */
#define _GNU_SOURCE
#include "client_remote.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client_lock.h"
#include "client_mount.h"
#include "client_node.h"

#define REMOTE_BEGIN_MS 5000u /* for fwd.begin */
#define REMOTE_PAUSE_MIN 100u /* between attempts to connect */
#define REMOTE_PAUSE_MAX 1000u
#define REMOTE_FORGETS ((size_t) 512) /* nodes of one fwd.forget */

enum remote_state {
    REMOTE_DOWN,       /* the next attempt is at `retry_at` */
    REMOTE_CONNECTING, /* a lookup or fwd.begin is in flight */
    REMOTE_UP
};

static struct {
    const char *address;
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t server; /* HG_ADDR_NULL: not looked up */
    hg_handle_t watch;
    enum remote_state state;
    bool reported; /* the loss of the session was logged */
    char cause[512];
    uint64_t retry_at;
    uint64_t began_at; /* the session */
    uint64_t lost_at;
    unsigned pause;
    uint64_t epoch; /* of the session, or of the last one */
    uint64_t session;
    uint64_t forgets[2 * REMOTE_FORGETS];
    size_t forget_count;
} remote;

static struct remote_call remote_begin_call = {
    "fwd.begin", hg_proc_fwd_begin_in_t, hg_proc_fwd_begin_out_t, 0};
static struct remote_call remote_watch_call = {
    "fwd.watch", hg_proc_fwd_watch_in_t, hg_proc_fwd_error_out_t, 0};
static struct remote_call remote_forget_call = {
    "fwd.forget", hg_proc_fwd_forget_in_t, hg_proc_fwd_error_out_t, 0};

uint64_t remote_now(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

uint64_t remote_epoch(void)
{
    return remote.state == REMOTE_UP ? remote.epoch : 0;
}

uint64_t remote_session(void)
{
    return remote.session;
}

uint64_t remote_lost_at(void)
{
    return remote.lost_at;
}

/* ---- Calls ---- */

bool remote_register(struct remote_call *call)
{
    call->id = HG_Register_name(
        remote.hg_class, call->name, call->in, call->out, NULL);
    return call->id != 0;
}

hg_return_t remote_prepare(
    hg_handle_t *handle, const struct remote_call *call, unsigned timeout)
{
    hg_return_t ret;

    if (*handle == HG_HANDLE_NULL)
        ret = HG_Create(remote.context, remote.server, call->id, handle);
    else
        ret = HG_Reset(*handle, remote.server, call->id);
    if (ret == HG_SUCCESS)
        ret = HG_Set_deadline(*handle, timeout);
    return ret;
}

hg_return_t remote_memory(
    size_t size, uint8_t access, hg_bulk_t *bulk, void **memory)
{
    hg_size_t bytes = size;
    hg_return_t ret =
        HG_Bulk_create(remote.hg_class, 1, NULL, &bytes, access, bulk);

    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Bulk_access(*bulk, 0, bytes, access, 1, memory, NULL, NULL);
    if (ret != HG_SUCCESS)
        (void) HG_Bulk_free(*bulk);
    return ret;
}

/* ---- The session ---- */

/* That a server is away is not logged again at each attempt to connect. */
static void remote_log_library(bool logs)
{
    if (getenv("HG_LOG_LEVEL") == NULL)
        HG_Set_log_level(logs ? "error" : "none");
}

static const char *remote_text(hg_return_t ret)
{
    switch (ret) {
    case HG_HOSTUNREACH:
        return "not a known host, not reachable, or nobody listens there";
    case HG_ACCESS:
    case HG_PERMISSION: return "refused: over sm both need the same user";
    case HG_DISCONNECT: return "the connection is lost";
    case HG_CANCELED: return "the server ends";
    case HG_TIMEOUT: return "no response";
    case HG_NOENTRY: return "no hg_forwardd listens there";
    case HG_INVALID_ARG:
    case HG_NODEV:
        return "not an address, such as sm://name or zmq+tcp://host:port";
    default: return HG_Error_to_string(ret);
    }
}

static void remote_end_watch(void)
{
    if (remote.watch != HG_HANDLE_NULL)
        (void) HG_Cancel(remote.watch);
    (void) HG_Destroy(remote.watch);
    remote.watch = HG_HANDLE_NULL;
}

void remote_lose(const char *cause)
{
    if (remote.state == REMOTE_UP) {
        /* Not at once again if a session ends as soon as it has begun. */
        remote.pause = remote_now() - remote.began_at < REMOTE_PAUSE_MAX
            ? REMOTE_PAUSE_MIN
            : 0;
        remote.lost_at = remote_now();
        lock_all_lost();
        mount_log("%s: the session is lost (%s); connecting again",
            remote.address, cause);
        remote.reported = true;
    }
    remote.state = REMOTE_DOWN;
    (void) snprintf(remote.cause, sizeof(remote.cause), "%s", cause);
    remote.session = 0;
    remote.forget_count = 0;
    remote.retry_at = remote_now() + remote.pause;
    remote.pause = remote.pause < REMOTE_PAUSE_MIN ? REMOTE_PAUSE_MIN
        : remote.pause * 2 < REMOTE_PAUSE_MAX      ? remote.pause * 2
                                                   : REMOTE_PAUSE_MAX;
    remote_end_watch();
    (void) HG_Addr_free(remote.hg_class, remote.server);
    remote.server = HG_ADDR_NULL;
}

/* fwd.watch has ended: the server is gone or stops. */
static hg_return_t remote_watch_ended(const struct hg_cb_info *info)
{
    if (remote.state == REMOTE_UP && info->info.forward.handle == remote.watch)
        remote_lose(info->ret == HG_SUCCESS ? "the server stops"
                                            : remote_text(info->ret));
    return HG_SUCCESS;
}

static void remote_session_began(const fwd_begin_out_t *out)
{
    fwd_watch_in_t in = {out->session};
    hg_return_t ret = remote_prepare(&remote.watch, &remote_watch_call, 0);

    if (ret == HG_SUCCESS)
        ret = HG_Forward(remote.watch, remote_watch_ended, NULL, &in);
    if (ret != HG_SUCCESS) {
        remote_lose(remote_text(ret));
        return;
    }
    remote.session = out->session;
    remote.epoch++;
    remote.state = REMOTE_UP;
    remote.began_at = remote_now();
    remote_log_library(true);
    node_set_root(&out->root);
    if (remote.reported)
        mount_log("%s: a new session has begun", remote.address);
    remote.reported = false;
}

static hg_return_t remote_begin_ended(const struct hg_cb_info *info)
{
    hg_handle_t handle = info->info.forward.handle;
    hg_return_t ret = info->ret;
    fwd_begin_out_t out;

    if (ret == HG_SUCCESS)
        ret = HG_Get_output(handle, &out);
    if (ret != HG_SUCCESS)
        remote_lose(remote_text(ret));
    else if (out.error != 0)
        remote_lose(strerror(out.error));
    else
        remote_session_began(&out);
    if (ret == HG_SUCCESS)
        (void) HG_Free_output(handle, &out);
    return HG_SUCCESS;
}

static void remote_begin(void)
{
    hg_handle_t handle = HG_HANDLE_NULL;
    fwd_begin_in_t in = {FWD_VERSION};
    hg_return_t ret =
        remote_prepare(&handle, &remote_begin_call, REMOTE_BEGIN_MS);

    if (ret == HG_SUCCESS)
        ret = HG_Forward(handle, remote_begin_ended, NULL, &in);
    (void) HG_Destroy(handle);
    if (ret != HG_SUCCESS)
        remote_lose(remote_text(ret));
}

static hg_return_t remote_looked_up(const struct hg_cb_info *info)
{
    const char *why = HG_Get_last_error_text();

    if (info->ret != HG_SUCCESS) {
        remote_lose(info->ret == HG_HOSTUNREACH && why[0] != '\0'
                ? why
                : remote_text(info->ret));
        return HG_SUCCESS;
    }
    remote.server = info->info.lookup.addr;
    remote_begin();
    return HG_SUCCESS;
}

static void remote_start(void)
{
    hg_return_t ret;

    remote_log_library(false);
    remote.state = REMOTE_CONNECTING;
    ret = HG_Addr_lookup1(remote.context, remote_looked_up, NULL,
        remote.address, HG_OP_ID_IGNORE);
    if (ret != HG_SUCCESS)
        remote_lose(remote_text(ret));
}

int remote_tick(void)
{
    uint64_t now;

    if (remote.state != REMOTE_DOWN)
        return -1;
    now = remote_now();
    if (now < remote.retry_at)
        return (int) (remote.retry_at - now);
    remote_start();
    return remote.state == REMOTE_DOWN ? (int) remote.pause : -1;
}

/* ---- Forgets ---- */

static hg_return_t remote_forgotten(const struct hg_cb_info *info)
{
    (void) info; /* if it failed, the session holds some nodes longer */
    return HG_SUCCESS;
}

void remote_flush_forgets(void)
{
    hg_handle_t handle = HG_HANDLE_NULL;
    fwd_forget_in_t in;
    hg_return_t ret;

    if (remote.forget_count == 0)
        return;
    in.session = remote.session;
    in.nodes.bytes = remote.forgets;
    in.nodes.size =
        (uint32_t) (remote.forget_count * 2 * sizeof(remote.forgets[0]));
    remote.forget_count = 0;
    ret = remote_prepare(&handle, &remote_forget_call, 0);
    if (ret == HG_SUCCESS)
        (void) HG_Forward(handle, remote_forgotten, NULL, &in);
    (void) HG_Destroy(handle);
}

void remote_forget(uint64_t node, uint64_t lookups)
{
    if (remote.state != REMOTE_UP || lookups == 0)
        return;
    remote.forgets[2 * remote.forget_count] = node;
    remote.forgets[2 * remote.forget_count + 1] = lookups;
    remote.forget_count++;
    if (remote.forget_count == REMOTE_FORGETS)
        remote_flush_forgets();
}

/* ---- Progress ---- */

int remote_fd(void)
{
    return HG_Event_get_wait_fd(remote.context);
}

bool remote_turn(void)
{
    unsigned count = 0;

    (void) HG_Event_progress(remote.context, &count);
    if (count > 0)
        (void) HG_Event_trigger(remote.context, count, NULL);
    return count > 0;
}

bool remote_may_sleep(void)
{
    return !HG_Event_ready(remote.context);
}

/* ---- Begin and end ---- */

/* Write the schemes of a list of addresses: "zmq+tcp://;sm://". */
static void remote_schemes(const char *address, char *text, size_t size)
{
    const char *behind = strstr(address, "://");
    size_t length = 0;
    int n;

    text[0] = '\0';
    while (behind != NULL && length < size) {
        n = (int) (behind - address) + 3;
        length += (size_t) snprintf(text + length, size - length, "%s%.*s",
            length > 0 ? ";" : "", n, address);
        address = strchr(behind, ';');
        behind = address != NULL ? strstr(++address, "://") : NULL;
    }
}

bool remote_open(const char *address)
{
    static char turned[NA_MAX_ADDR_LEN];
    char schemes[NA_MAX_ADDR_LEN];

    /* An sm:// without a name takes it from the address before. */
    if (strncmp(address, "sm://;", 6) == 0) {
        (void) snprintf(turned, sizeof(turned), "%s;sm://", address + 6);
        address = turned;
    }
    remote_schemes(address, schemes, sizeof(schemes));
    if (schemes[0] == '\0') {
        mount_log("%s: %s", address, remote_text(HG_INVALID_ARG));
        return false;
    }
    remote.address = address;
    remote.hg_class = HG_Init(schemes, HG_FALSE);
    if (remote.hg_class == NULL)
        return false;
    remote.context = HG_Context_create(remote.hg_class);
    if (remote.context != NULL && remote_register(&remote_begin_call) &&
        remote_register(&remote_watch_call) &&
        remote_register(&remote_forget_call))
        return true;
    remote_close();
    return false;
}

const char *remote_connect(unsigned timeout)
{
    uint64_t end = remote_now() + timeout;

    (void) snprintf(remote.cause, sizeof(remote.cause), "no response");
    remote_start();
    while (remote.state == REMOTE_CONNECTING && remote_now() < end) {
        (void) HG_Progress(remote.context, 100);
        remote_turn();
    }
    return remote.state == REMOTE_UP ? NULL : remote.cause;
}

void remote_close(void)
{
    /* The library would wait for the attempt, up to 10 s. */
    if (remote.state == REMOTE_CONNECTING)
        return;
    remote_end_watch();
    remote.state = REMOTE_DOWN;
    (void) HG_Addr_free(remote.hg_class, remote.server);
    if (remote.context != NULL)
        (void) HG_Context_destroy(remote.context);
    (void) HG_Finalize(remote.hg_class);
}
