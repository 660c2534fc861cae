/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm: see sm.h.
 *
 * Locking: na_sm_live_lock is taken before any other lock, and guards the list
 * of the process's classes; see peer.h for the rest.
 */
#include "sm/sm.h"

#if HG_ENABLE_SM

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "na/progress.h"
#include "sm/flow.h"
#include "sm/peer.h"
#include "sm/rma.h"

#define NA_SM_LOOK_NS HG_CLOCK_MS /* between two checks of the sockets */
#define NA_SM_SCAN_NS (1000u * HG_CLOCK_MS) /* ... of all rings */
#define NA_SM_LOOK_POLLS 64u                /* ... of the clock, when busy */
#define NA_SM_IDLE_POLLS 16u                /* ... when idle */
#define NA_SM_EVENTS 64

static pthread_mutex_t na_sm_live_lock = PTHREAD_MUTEX_INITIALIZER;
static struct na_link na_sm_live = {&na_sm_live, &na_sm_live};
static pthread_once_t na_sm_fork_once = PTHREAD_ONCE_INIT;

struct na_sm_context {
    struct na_context base;
    bool sleeping; /* counted in class->sleepers */
    bool slept;    /* it may have slept since wait_begin */
};

/* ---- Fork ---- */

/* Take all locks, so that their data is consistent in the child. */
static void na_sm_fork_prepare(void)
{
    struct na_link *link;

    hg_lock(&na_sm_live_lock);
    for (link = na_sm_live.next; link != &na_sm_live; link = link->next)
        na_sm_enter(HG_CONTAINER_OF(link, struct na_sm_class, live));
}

static void na_sm_fork_parent(void)
{
    struct na_link *link;

    for (link = na_sm_live.next; link != &na_sm_live; link = link->next)
        hg_leave(na_sm_lock(HG_CONTAINER_OF(link, struct na_sm_class, live)));
    hg_unlock(&na_sm_live_lock);
}

static void na_sm_close_fd(int *fd)
{
    if (*fd >= 0)
        (void) close(*fd);
    *fd = -1;
}

/* In the child: only close the sockets, which leaves the parent's epoll
 * unchanged. The core refuses every call with such a class. */
static void na_sm_fork_child(void)
{
    struct na_link *link, *at;

    for (link = na_sm_live.next; link != &na_sm_live; link = link->next) {
        struct na_sm_class *self =
            HG_CONTAINER_OF(link, struct na_sm_class, live);

        for (at = self->addrs.next; at != &self->addrs; at = at->next)
            na_sm_close_fd(&HG_CONTAINER_OF(at, struct na_sm_addr, link)->fd);
        na_sm_close_fd(&self->listen_fd);
    }
    na_sm_fork_parent();
}

static void na_sm_fork_begin(void)
{
    hg_log_atfork(na_sm_fork_prepare, na_sm_fork_parent, na_sm_fork_child);
}

/* ---- Life ---- */

static na_size_t na_sm_msg_size(size_t wanted)
{
    return wanted < NA_SM_MSG_MAX ? wanted : NA_SM_MSG_MAX;
}

/* Initialize what na_sm_shut undoes. */
static void na_sm_prepare(struct na_sm_class *self)
{
    self->listen_fd = -1;
    self->epoll_fd = -1;
    self->bell_fd = -1;
    self->spare_fd = -1;
    self->public_fd = -1;
    self->hints_fd = -1;
    self->tick = NA_SM_NEVER;
    hg_list_init(&self->live);
    hg_list_init(&self->addrs);
    hg_list_init(&self->dialling);
    hg_list_init(&self->closing);
    hg_list_init(&self->dying);
    hg_map_init(&self->names);
    hg_list_init(&self->loop);
}

/* Create memory and descriptors. */
static na_return_t na_sm_open_parts(struct na_sm_class *self)
{
    void *pages = NULL;
    void *hints = NULL;
    na_return_t ret;

    self->slots =
        (struct na_sm_addr **) hg_mem_calloc(NA_SM_PEERS, sizeof(*self->slots));
    if (self->slots == NULL) {
        hg_log_error("sm", "no memory for a class");
        return NA_NOMEM;
    }
    self->arenas = na_sm_arenas_create();
    if (self->arenas == NULL)
        return NA_NOMEM;
    ret = na_sm_page_create(
        "hg-public", NA_SM_PUBLIC_SIZE, true, &pages, &self->public_fd);
    if (ret != NA_SUCCESS)
        return ret;
    self->public_page = (struct na_sm_public *) pages;
    atomic_store(&self->public_page->incarnation_at,
        (uintptr_t) &self->base.incarnation);
    ret = na_sm_page_create(
        "hg-hints", NA_SM_HINTS_SIZE, false, &hints, &self->hints_fd);
    if (ret != NA_SUCCESS)
        return ret;
    self->hints = (struct na_sm_hints *) hints;
    self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    self->bell_fd = na_sm_bell_open();
    self->spare_fd = na_sm_bell_open();
    if (self->epoll_fd < 0 || self->bell_fd < 0 || self->spare_fd < 0)
        return hg_log_no_fd("sm", "a class");
    return na_sm_watch(self, self->bell_fd, EPOLLET, NULL);
}

/* Listen at `host`, or at a name of this process; `name` is the address
 * string. */
static na_return_t na_sm_open_listener(
    struct na_sm_class *self, const char *host, char name[NA_MAX_ADDR_LEN])
{
    char own[NA_SM_NAME_MAX + 1];
    na_return_t ret = NA_SUCCESS;

    if (host[0] != '\0')
        ret = na_sm_name_parse(HG_LOG_LEVEL_ERROR, host, &self->where);
    if (ret != NA_SUCCESS)
        return ret;
    self->listen_fd = na_sm_socket();
    if (self->listen_fd < 0)
        return hg_log_no_fd("sm", "a listening socket");
    if (host[0] == '\0') {
        ret = na_sm_listen_own(&self->where, own, self->listen_fd);
        host = own;
    } else {
        ret = na_sm_listen(
            &self->where, &self->policy, self->listen_fd, &self->made);
    }
    if (ret != NA_SUCCESS)
        return ret;
    (void) snprintf(name, NA_MAX_ADDR_LEN, "sm://%s", host);
    return na_sm_watch(self, self->listen_fd, 0, self);
}

/* The slot addr_expose: listen at the name that the class has already. Peers
 * that connect are strangers. */
static na_return_t na_sm_expose(struct na_class *na_class)
{
    struct na_sm_class *self = na_sm_of(na_class);
    const char *own = na_class->self_addr->name + sizeof("sm://") - 1;
    char name[NA_MAX_ADDR_LEN];
    na_return_t ret = NA_SUCCESS;

    HG_ASSERT(!na_class->listen && hg_is_inside(na_sm_lock(self)));
    if (self->listen_fd < 0) {
        ret = na_sm_open_listener(self, own, name);
        if (ret != NA_SUCCESS)
            na_sm_close_fd(&self->listen_fd);
    }
    return ret;
}

/* Undo a complete or partial open. */
static void na_sm_shut(struct na_sm_class *self)
{
    hg_lock(&na_sm_live_lock);
    hg_list_remove(&self->live);
    if (self->listen_fd >= 0)
        na_sm_unlisten(&self->where, &self->made, self->listen_fd);
    na_sm_close_fd(&self->epoll_fd);
    na_sm_close_fd(&self->bell_fd);
    na_sm_close_fd(&self->spare_fd);
    na_sm_close_fd(&self->public_fd);
    na_sm_close_fd(&self->hints_fd);
    na_sm_arenas_close(self->arenas);
    hg_unlock(&na_sm_live_lock);
    na_sm_page_unmap(self->public_page, NA_SM_PUBLIC_SIZE);
    na_sm_page_unmap(self->hints, NA_SM_HINTS_SIZE);
    self->closed = true;
    hg_mem_free((void *) self->slots);
    hg_map_fini(&self->names);
    HG_ASSERT(hg_list_is_empty(&self->loop));
}

static na_return_t na_sm_open(struct na_class *na_class, const char *host)
{
    struct na_sm_class *self = na_sm_of(na_class);
    const struct na_init_info *info = na_class->info;
    char name[NA_MAX_ADDR_LEN];
    struct na_sm_addr *addr;
    na_return_t ret;

    if (na_class->listen && host[0] == NA_SM_CALLER_MARK) {
        hg_log_error("sm",
            "sm://%s: a listener's name does not begin with '%c'", host,
            NA_SM_CALLER_MARK);
        return NA_INVALID_ARG;
    }
    na_sm_prepare(self);
    (void) pthread_once(&na_sm_fork_once, na_sm_fork_begin);
    na_class->max_unexpected_size = na_sm_msg_size(info->max_unexpected_size);
    na_class->max_expected_size = na_sm_msg_size(info->max_expected_size);
    na_class->max_tag = UINT32_MAX;
    na_class->finds_callers = NA_TRUE;
    self->look = true;
    hg_lock(&na_sm_live_lock);
    hg_list_push(&na_sm_live, &self->live);
    hg_unlock(&na_sm_live_lock);
    ret = na_sm_policy_parse(info->auth_key, &self->policy);
    if (ret == NA_SUCCESS)
        ret = na_sm_rma_init(self);
    /* With the lock held, so that a child of fork finds the descriptors. */
    na_sm_enter(self);
    if (ret == NA_SUCCESS)
        ret = na_sm_open_parts(self);
    if (ret == NA_SUCCESS && na_class->listen)
        ret = na_sm_open_listener(self, host, name);
    else
        na_sm_caller_name(name);
    na_sm_leave(self);
    if (ret != NA_SUCCESS)
        goto shut;
    addr = na_sm_peer_new(self, name, NA_TRUE, NULL);
    if (addr == NULL) {
        ret = NA_NOMEM;
        goto shut;
    }
    atomic_store(&addr->incarnation, na_class->incarnation);
    atomic_store(&addr->pid, getpid());
    addr->user.pid = getpid();
    na_class->self_addr = &addr->base;
    return NA_SUCCESS;

shut:
    na_sm_shut(self);
    return ret;
}

/* Accepted messages are in rings that the peers map: they read them after this
 * class has ended, so there is nothing to wait for. */
static void na_sm_close(struct na_class *na_class, unsigned linger_ms)
{
    struct na_sm_class *self = na_sm_of(na_class);
    struct na_link *link;

    (void) linger_ms;
    na_sm_enter(self);
    while ((link = hg_list_pop(&self->addrs)) != NULL) {
        struct na_sm_addr *addr =
            HG_CONTAINER_OF(link, struct na_sm_addr, link);

        HG_ASSERT(hg_list_is_empty(&addr->sends));
        HG_ASSERT(hg_list_is_empty(&addr->lookups));
        na_sm_peer_part(self, addr);
        addr->state = NA_SM_DEAD;
        hg_list_remove(&addr->turn);
        na_addr_unuse(&addr->base);
    }
    na_sm_leave(self);
    na_sm_shut(self);
}

/* ---- Addresses ---- */

/* Whether a name is the class's own, by any path of its file. */
static bool na_sm_is_own_name(const struct na_sm_class *self, const char *name,
    const struct na_sm_name *where)
{
    struct stat there;

    if (strcmp(name, self->base.self_addr->name) == 0)
        return true;
    return where->is_path && self->where.is_path && self->base.listen &&
        stat(where->where.sun_path, &there) == 0 &&
        there.st_ino == self->made.st_ino && there.st_dev == self->made.st_dev;
}

/* Find or create the address of a name, with a reference; NULL: out of memory,
 * logged. A class that does not listen is found by the connection that it made,
 * or else dialled. With `ask` a connection is checked for its end. */
static struct na_sm_addr *na_sm_find(struct na_sm_class *self, const char *name,
    const struct na_sm_name *where, bool ask)
{
    struct na_sm_addr *addr = na_sm_peer_find(self, name);
    bool ready = addr != NULL && addr->state == NA_SM_READY;

    if (ready && ask && na_sm_peer_has_ended(addr)) {
        na_sm_peer_lose(self, addr, NA_DISCONNECT);
        na_addr_unref_locked(&addr->base); /* the class has another reference */
        addr = NULL;
    }
    if (addr != NULL &&
        (addr->dialled || (ready && na_sm_conn_owns_name(self, addr, where))))
        return addr;
    if (addr != NULL)
        na_addr_unref_locked(&addr->base);
    addr = na_sm_peer_new(self, name, NA_FALSE, where);
    if (addr == NULL)
        return NULL;
    addr->from_peer = true;
    if (na_sm_peer_enter(self, addr) == NA_SUCCESS)
        return addr;
    na_addr_unref_locked(&addr->base);
    return NULL;
}

/* Find the peer of a name. With `op`, a lookup that waits if the peer is not
 * connected, *addr_p may be NULL. */
static na_return_t na_sm_seek(struct na_class *na_class, const char *string,
    na_bool_t from_peer, struct na_op *op, struct na_addr **addr_p)
{
    struct na_sm_class *self = na_sm_of(na_class);
    const char *mark = strstr(string, "://");
    const char *rest = mark != NULL ? mark + 3 : "";
    char name[NA_MAX_ADDR_LEN + 8];
    struct na_sm_addr *addr;
    struct na_sm_name where;
    na_return_t ret =
        na_sm_name_parse(na_addr_name_level(from_peer), rest, &where);

    if (ret != NA_SUCCESS)
        return ret;
    (void) snprintf(name, sizeof(name), "sm://%s", rest);
    if (na_sm_is_own_name(self, name, &where)) {
        na_addr_ref(na_class->self_addr);
        *addr_p = na_class->self_addr;
        return NA_SUCCESS;
    }
    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    addr = na_sm_find(self, name, &where, !from_peer);
    if (addr == NULL) {
        ret = NA_NOMEM;
    } else {
        addr->from_peer = addr->from_peer && from_peer;
        if (op != NULL && addr->state != NA_SM_READY) {
            na_sm_op_push(&addr->lookups, op);
            na_sm_peer_want(self, addr);
            na_addr_unref_locked(
                &addr->base); /* the class has its own reference */
        } else {
            *addr_p = &addr->base;
        }
    }
    return ret;
}

static na_return_t na_sm_resolve(struct na_class *na_class, const char *name,
    na_bool_t from_peer, struct na_addr **addr_p)
{
    return na_sm_seek(na_class, name, from_peer, NULL, addr_p);
}

/* A receive waits for messages of the address. Its peer may have sent one, and
 * make no progress until it was received. */
static na_bool_t na_sm_addr_connect(struct na_addr *base)
{
    struct na_sm_class *self = na_sm_of(base->na_class);
    struct na_sm_addr *addr = na_sm_addr_of(base);

    if (addr->state == NA_SM_IDLE && addr->dialled) {
        addr->receives = true;
        na_sm_peer_dial(self, addr);
    }
    return addr->state == NA_SM_DIALLING && !na_sm_conn_prove(self, addr)
        ? NA_TRUE
        : NA_FALSE;
}

static na_return_t na_sm_lookup(struct na_op *op)
{
    struct na_addr *addr = NULL;
    na_return_t ret =
        na_sm_seek(op->context->na_class, op->name, NA_FALSE, op, &addr);

    if (addr == NULL) /* the lookup may have ended already */
        return ret;
    op->result_addr = addr;
    na_op_complete(op, NA_SUCCESS);
    return NA_SUCCESS;
}

/* A process is the same peer through any connection. Each peer of a process
 * knows its incarnation, so that another process can claim it. */
static na_bool_t na_sm_addr_cmp(
    const struct na_addr *base1, const struct na_addr *base2)
{
    uint64_t one = atomic_load_explicit(
        &na_sm_addr_of(base1)->incarnation, memory_order_relaxed);
    uint64_t two = atomic_load_explicit(
        &na_sm_addr_of(base2)->incarnation, memory_order_relaxed);

    return one != 0 && one == two &&
            atomic_load(&na_sm_addr_of(base1)->pid) ==
                atomic_load(&na_sm_addr_of(base2)->pid)
        ? NA_TRUE
        : NA_FALSE;
}

static const char *na_sm_addr_identity(const struct na_addr *addr)
{
    return na_sm_addr_of(addr)->user.identity;
}

static void na_sm_abandon(struct na_addr *base)
{
    struct na_sm_class *self = na_sm_of(base->na_class);
    struct na_sm_addr *addr = na_sm_addr_of(base);

    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    if (addr->state != NA_SM_DIALLING)
        na_sm_peer_give_up(self, addr, NA_DISCONNECT);
}

/* ---- Messages ---- */

static na_return_t na_sm_cancel(struct na_op *op, uint64_t op_id)
{
    struct na_sm_class *self = na_sm_of(op->context->na_class);
    bool found;

    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    if (na_loop_cancel(&self->loop, op) == NA_SUCCESS)
        return NA_SUCCESS;
    found = na_sm_op_of(op)->held && na_op_id_of(op) == op_id;
    if (found) {
        na_sm_op_remove(op);
        na_op_complete(op, NA_CANCELED);
    } else {
        found = na_sm_rma_cancel_running(self, op, op_id);
    }
    return found ? NA_SUCCESS : NA_NOENTRY;
}

/* ---- Memory ---- */

static na_return_t na_sm_mem_alloc(
    struct na_class *na_class, unsigned long flags, struct na_mem_block *block)
{
    return na_sm_arena_alloc(na_sm_of(na_class)->arenas, flags, block);
}

/* ---- Progress ---- */

/* A peer's socket is readable: an answer, its end, or a byte that was sent to
 * wake this process. */
static unsigned na_sm_handle_socket(
    struct na_sm_class *self, struct na_sm_addr *addr)
{
    struct na_sm_packet packet;
    na_return_t ret;

    if (addr->state == NA_SM_DIALLING)
        return na_sm_conn_read(self, addr);
    if (addr->fd < 0 || addr->state >= NA_SM_DYING)
        return 0;
    ret = na_sm_packet_recv(addr->fd, &packet);
    na_sm_packet_close(&packet);
    self->look = self->look || ret != NA_AGAIN; /* there may be more */
    if (ret != NA_DISCONNECT)
        return 0;
    /* Its last records may close the connection. */
    na_sm_flow_drain(self, addr);
    na_sm_peer_lose(self, addr, NA_DISCONNECT);
    return 1;
}

static unsigned na_sm_handle_event(struct na_sm_class *self, void *what)
{
    if (what == NULL) /* the bell needs no action */
        return 0;
    return what == self ? na_sm_conn_accept(self)
                        : na_sm_handle_socket(self, (struct na_sm_addr *) what);
}

/* Check the sockets, and handle timed events. */
static unsigned na_sm_look(struct na_sm_class *self, uint64_t now)
{
    struct epoll_event events[NA_SM_EVENTS];
    unsigned n = 0;
    int count;
    int i;

    self->look_at = now + NA_SM_LOOK_NS;
    self->look = false;
    count = epoll_wait(self->epoll_fd, events, NA_SM_EVENTS, 0);
    /* Sleeping threads must start a new sleep: the consumed bells were for
     * earlier sleeps. */
    if (count > 0 && self->sleepers > 0)
        atomic_store(&self->public_page->asleep, ++self->sleep);
    for (i = 0; i < count; i++)
        n += na_sm_handle_event(self, events[i].data.ptr);
    if (count == NA_SM_EVENTS)
        self->look = true; /* there are more */
    if (now >= self->scan_at) {
        na_sm_flow_hint_all(self);
        self->scan_at = now + NA_SM_SCAN_NS;
    }
    n += na_sm_flow_close_all(self, now);
    n += na_sm_conn_tick(self, now);
    /* A peer that rang a bell has sent something. */
    return count > 0 ? n + na_sm_flow_visit_hinted(self) : n;
}

/* Whether to read the clock in this poll. Each idle one does after a sleep, and
 * while a connection is made or closed. */
static bool na_sm_is_look_due(struct na_sm_class *self, bool idle)
{
    if (idle &&
        HG_UNLIKELY(self->look || !hg_list_is_empty(&self->dialling) ||
            !hg_list_is_empty(&self->closing)))
        return true;
    return ++self->polls % (idle ? NA_SM_IDLE_POLLS : NA_SM_LOOK_POLLS) == 0;
}

static unsigned na_sm_poll(struct na_context *context)
{
    struct na_sm_class *self = na_sm_of(context->na_class);
    unsigned n;

    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    n = na_loop_poll(&self->loop);
    n += na_sm_flow_visit_hinted(self);
    n += na_sm_rma_poll(self);
    /* Records are found without their bell, which is consumed later, so that
     * their receiver need not wait for that. */
    if (na_sm_is_look_due(self, n == 0)) {
        uint64_t now = hg_clock_now();

        /* The application polls rarely: read it in the next idle poll, too. */
        if (now - self->read_at >= NA_SM_LOOK_NS)
            self->polls = NA_SM_IDLE_POLLS - 1;
        self->read_at = now;
        if (now >= self->look_at || self->look)
            n += na_sm_look(self, now);
    }
    while (HG_UNLIKELY(!hg_list_is_empty(&self->dying))) {
        struct na_sm_addr *addr =
            HG_CONTAINER_OF(self->dying.next, struct na_sm_addr, turn);

        na_sm_flow_drain(self, addr);
        na_sm_peer_end(self, addr);
        n++;
    }
    /* A sleeping thread was woken for this by a bell that is consumed now, and
     * the polling thread may not return soon. */
    if (HG_UNLIKELY(self->more) && self->sleepers > 0)
        na_progress_wake(&self->base);
    self->more = false;
    return n;
}

/* ---- Sleep ---- */

static int na_sm_poll_fd(struct na_context *context)
{
    return na_sm_of(context->na_class)->epoll_fd;
}

static na_bool_t na_sm_wait_begin(struct na_context *base)
{
    struct na_sm_context *context = (struct na_sm_context *) base;
    struct na_sm_class *self = na_sm_of(base->na_class);
    bool busy;

    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    if (!context->sleeping) {
        context->sleeping = true;
        if (self->sleepers++ == 0)
            atomic_store(&self->public_page->asleep, ++self->sleep);
    }
    busy = self->look || na_sm_flow_has_work(self) ||
        !hg_list_is_empty(&self->transfers) ||
        !hg_list_is_empty(&self->dying) || self->tick <= hg_clock_now();
    context->slept = context->slept || !busy;
    return busy ? NA_FALSE : NA_TRUE;
}

static void na_sm_wait_end(struct na_context *base)
{
    struct na_sm_context *context = (struct na_sm_context *) base;
    struct na_sm_class *self = na_sm_of(base->na_class);

    HG_ASSERT(hg_is_inside(na_sm_lock(self)));
    if (context->sleeping && --self->sleepers == 0)
        atomic_store(&self->public_page->asleep, 0);
    context->sleeping = false;
    /* Bells must be consumed before the next sleep. A bell without a sleep ends
     * the next one at once. */
    self->look = self->look || context->slept;
    context->slept = false;
}

static const char *const na_sm_protocols[] = {"sm", NULL};

static const struct na_plugin na_sm_plugin = {
    .abi = NA_PLUGIN_ABI,
    .size = sizeof(struct na_plugin),
    .name = "sm",
    .protocols = na_sm_protocols,
    .caps = NA_CAP_HOLDS_BACK | NA_CAP_HANDS_OVER | NA_CAP_AUTH_KEY |
        NA_CAP_IN_MEMORY,
    .class_size = sizeof(struct na_sm_class),
    .context_size = sizeof(struct na_sm_context),
    .addr_size = sizeof(struct na_sm_addr),
    .op_size = sizeof(struct na_sm_op),
    .mem_size = sizeof(struct na_sm_mem),
    .open = na_sm_open,
    .close = na_sm_close,
    .context_destroy = na_sm_rma_context_gone,
    .addr_lookup = na_sm_lookup,
    .addr_release = na_sm_peer_release,
    .addr_cmp = na_sm_addr_cmp,
    .addr_connect = na_sm_addr_connect,
    .addr_terminate = na_sm_flow_terminate,
    .addr_abandon = na_sm_abandon,
    .msg_send = na_sm_flow_send,
    .frame_send = na_sm_flow_frame_send,
    .mem_register = na_sm_mem_register,
    .mem_deregister = na_sm_mem_deregister,
    .mem_serialize_size = na_sm_mem_serialize_size,
    .mem_serialize = na_sm_mem_serialize,
    .mem_deserialize = na_sm_mem_deserialize,
    .put = na_sm_rma_start,
    .get = na_sm_rma_start,
    .poll = na_sm_poll,
    .poll_fd = na_sm_poll_fd,
    .wait_begin = na_sm_wait_begin,
    .wait_end = na_sm_wait_end,
    .cancel = na_sm_cancel,
    .max_frame_size = NA_SM_MSG_MAX,
    .mem_alloc = na_sm_mem_alloc,
    .mem_retract = na_sm_mem_retract,
    .mem_end_local = na_sm_rma_end_local,
    .rma_now = na_sm_rma_now,
    .addr_identity = na_sm_addr_identity,
    .addr_resolve = na_sm_resolve,
    .addr_expose = na_sm_expose,
    .mem_map = na_sm_mem_map,
};

HG_PRIVATE const struct na_plugin *na_sm_table(void)
{
    return &na_sm_plugin;
}

HG_PRIVATE bool na_sm_is_there(
    const struct na_class *na_class, const char *name)
{
    const struct na_sm_class *self =
        HG_CONTAINER_OF(na_class, struct na_sm_class, base);
    struct na_sm_name where;
    struct na_sm_user peer;
    bool there = false;
    int fd;

    if (na_sm_name_parse(HG_LOG_LEVEL_DEBUG, name, &where) != NA_SUCCESS)
        return false;
    fd = na_sm_socket();
    if (fd < 0)
        return false;
    /* A class whose queue of connections is full exists. */
    if (connect(fd, (const struct sockaddr *) &where.where, where.size) == 0)
        there = na_sm_policy_refuses(&self->policy, fd, &peer) == NULL;
    else
        there = errno == EAGAIN;
    (void) close(fd);
    return there;
}

HG_PRIVATE bool na_sm_is_free(const char *name)
{
    struct na_sm_name where;
    bool bound;
    int fd;

    if (na_sm_name_parse(HG_LOG_LEVEL_WARNING, name, &where) != NA_SUCCESS)
        return false;
    fd = na_sm_socket();
    if (fd < 0)
        return true;           /* as far as is known */
    HG_ASSERT(!where.is_path); /* which would leave a file */
    bound = bind(fd, (const struct sockaddr *) &where.where, where.size) == 0;
    (void) close(fd);
    return bound;
}

#else

HG_PRIVATE bool na_sm_is_there(
    const struct na_class *na_class, const char *name)
{
    (void) na_class;
    (void) name;
    return false;
}

HG_PRIVATE bool na_sm_is_free(const char *name)
{
    (void) name;
    return true;
}

#endif
