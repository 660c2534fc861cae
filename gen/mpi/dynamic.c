/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dynamic mode: the port of the process, threads that connect and accept, and
 * connections, each an inter-communicator of two processes.
 *
 * MPI_Comm_accept and MPI_Comm_connect block, some for minutes. Connecting to
 * the own port to end an accept hangs in Open MPI 4.1. So a process has one
 * port and one accepting thread for all its classes until MPI_Finalize. Each
 * connect has its own thread, which is abandoned if its result is no longer
 * needed. A connector sends its HELLO with the tag of the class that it wants:
 * that class finds it among the accepted connections. One process at a time may
 * connect to a port: see mpi/permit.c.
 *
 * A connection is freed, not disconnected, because disconnecting would wait for
 * the peer. Open MPI gives the number of a freed communicator to the next one,
 * and delivers packets there that arrive late. So each end of a connection
 * sends GONE as its last packet, and is freed when it has received the GONE of
 * the other end. If that never arrives, because the peer has died, it is freed
 * by MPI_Finalize.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

#define NA_MPI_PREFIX "mpi+dynamic://"
/* An accept that fails sooner did not reach a time limit of MPI. */
#define NA_MPI_ACCEPT_MS ((uint64_t) 1000)
#define NA_MPI_ACCEPT_TRIES 10u
#define NA_MPI_ENDS_MS 2000u /* how long MPI_Finalize waits for threads */
/* A permit that is held longer than this was taken by a process that died. */
#define NA_MPI_PERMIT_MS ((uint64_t) 2000)
/* Pauses of a process that waits for a permit. */
#define NA_MPI_PAUSE_MIN ((uint64_t) 2000000)
#define NA_MPI_PAUSE_MAX ((uint64_t) 100000000)

/* ---- Threads ---- */

/* Create a communicator of this process alone, for one thread. In Open MPI this
 * waits for connections that are being made: call it without the lock. */
static int na_mpi_alone(MPI_Comm *comm_p)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int error;

    (void) pthread_mutex_lock(&lock);
    error = MPI_Comm_dup(MPI_COMM_SELF, comm_p);
    (void) pthread_mutex_unlock(&lock);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_set_errhandler(*comm_p, MPI_ERRORS_RETURN);
    return error;
}

/* Start a detached thread. It blocks signals, which are for the application. */
static bool na_mpi_thread(void *(*run)(void *arg), void *arg)
{
    sigset_t all;
    sigset_t before;
    pthread_t thread;
    int rc;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, NULL, run, arg);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        (void) pthread_detach(thread);
    return rc == 0;
}

/* ---- The port ---- */

/* A connection that no class has taken yet. */
struct na_mpi_accepted {
    struct na_link link;
    MPI_Comm comm;
    uint64_t since;
};

/* The port of the process, and its accepting thread. */
struct na_mpi_port {
    const struct na_core *core;
    char name[MPI_MAX_PORT_NAME]; /* "": not open */
    MPI_Comm home;                /* between the classes of this process */
    bool has_local;
    struct na_link accepted;
    struct na_link over;           /* na_mpi_channel that no class uses */
    struct na_mpi_connect *leader; /* the one that may publish PORT:to */
    _Atomic unsigned turn;         /* number of the last permit */
    _Atomic bool accepts;          /* the accepting thread runs */
    _Atomic unsigned threads;      /* threads that connect */
    _Atomic bool ends;             /* MPI_Finalize was called: no thread begins
                                 another call of MPI */
};

static struct na_mpi_port na_mpi_port;

/* Hand a connection to the classes. Without the lock. */
static void na_mpi_accepted_push(MPI_Comm comm)
{
    const struct na_core *core = na_mpi_port.core;
    struct na_mpi_accepted *accepted =
        (struct na_mpi_accepted *) core->alloc(sizeof(*accepted));
    struct na_link *link;

    na_mpi_lock();
    if (accepted != NULL) {
        na_plug_list_init(&accepted->link);
        accepted->comm = comm;
        accepted->since = core->now_ns();
        na_plug_list_push(&na_mpi_port.accepted, &accepted->link);
    } else {
        (void) MPI_Comm_free(&comm);
    }
    for (link = na_mpi_job.classes.next; link != &na_mpi_job.classes;
         link = link->next)
        core->wake(&NA_MPI_OF(link, struct na_mpi_class, link)->base);
    na_mpi_unlock();
}

static void *na_mpi_accept(void *arg)
{
    const struct na_core *core = na_mpi_port.core;
    const struct timespec pause = {0, 100000000};
    char name[NA_MPI_PERMIT_LEN];
    unsigned failures = 0;
    MPI_Comm alone;
    int error = na_mpi_alone(&alone);

    (void) arg;
    while (error == MPI_SUCCESS && failures < NA_MPI_ACCEPT_TRIES) {
        unsigned turn = atomic_fetch_add(&na_mpi_port.turn, 1) + 1;
        uint64_t begin = core->now_ns();
        MPI_Comm comm;

        if (atomic_load(&na_mpi_port.ends))
            break;
        if (na_mpi_permit_offer(na_mpi_port.name, turn, name) == MPI_SUCCESS &&
            MPI_Comm_accept(name, MPI_INFO_NULL, 0, alone, &comm) ==
                MPI_SUCCESS) {
            failures = 0;
            na_mpi_accepted_push(comm);
        } else if (core->now_ns() - begin < NA_MPI_ACCEPT_MS * NA_MPI_MS) {
            failures++;
            (void) nanosleep(&pause, NULL);
        }
    }
    if (!atomic_load(&na_mpi_port.ends))
        core->log(HG_LOG_LEVEL_WARNING, "mpi",
            "MPI_Comm_accept fails: no more connections are accepted");
    atomic_store(&na_mpi_port.accepts, false);
    return NULL;
}

/* Free a connection that is over: the peer has sent its last packet, or MPI
 * ends. If its receives have not ended, the next call frees it. The lock is
 * held. */
static void na_mpi_over_free(struct na_mpi_channel *channel)
{
    const struct na_core *core = na_mpi_port.core;

    if (!channel->canceled)
        na_mpi_channel_cancel(channel);
    channel->canceled = true;
    if (!na_mpi_channel_free(core, channel))
        return;
    (void) MPI_Comm_free(&channel->comm);
    na_plug_list_remove(&channel->link);
    core->free(channel);
}

/* The name server may never answer. */
static void *na_mpi_port_close(void *arg)
{
    (void) arg;
    if (!na_mpi_permit_close(na_mpi_port.name, atomic_load(&na_mpi_port.turn)))
        atomic_store(&na_mpi_port.accepts, false); /* it is left behind */
    (void) atomic_fetch_sub(&na_mpi_port.threads, 1);
    return NULL;
}

/* MPI_Finalize must not meet a thread of ours in a call of MPI. */
HG_PRIVATE void na_mpi_port_end(void)
{
    const struct timespec pause = {0, 1000000};
    bool accepts = atomic_load(&na_mpi_port.accepts);
    unsigned i;

    if (atomic_exchange(&na_mpi_port.ends, true))
        return;
    if (accepts) {
        (void) atomic_fetch_add(&na_mpi_port.threads, 1);
        if (!na_mpi_thread(na_mpi_port_close, NULL))
            (void) atomic_fetch_sub(&na_mpi_port.threads, 1);
    }
    for (i = 0; i < NA_MPI_ENDS_MS; i++) {
        if (!atomic_load(&na_mpi_port.accepts) &&
            atomic_load(&na_mpi_port.threads) == 0)
            break;
        (void) nanosleep(&pause, NULL);
    }
    na_mpi_lock();
    while (na_mpi_port.has_local && !na_plug_list_empty(&na_mpi_port.over))
        na_mpi_over_free(
            NA_MPI_OF(na_mpi_port.over.next, struct na_mpi_channel, link));
    na_mpi_unlock();
}

/* Open the port of the process, unless it is open. NA_OPNOTSUPPORT: this MPI
 * has none (logged). The lock is held. */
static na_return_t na_mpi_port_open(struct na_mpi_class *self)
{
    int error;

    if (na_mpi_port.name[0] != '\0')
        return NA_SUCCESS;
    na_mpi_errhandler_change(true);
    error = MPI_Open_port(MPI_INFO_NULL, na_mpi_port.name);
    na_mpi_errhandler_change(false);
    if (error != MPI_SUCCESS) {
        na_mpi_port.name[0] = '\0';
        (void) na_mpi_failed(self,
            "this MPI cannot accept connections (mpi+static can be used):",
            "MPI_Open_port", error);
        return NA_OPNOTSUPPORT;
    }
    atomic_store(&na_mpi_port.accepts, true);
    if (na_mpi_thread(na_mpi_accept, NULL))
        return NA_SUCCESS;
    atomic_store(&na_mpi_port.accepts, false);
    (void) MPI_Close_port(na_mpi_port.name);
    na_mpi_port.name[0] = '\0';
    return na_mpi_failed(
        self, "cannot start", "the accepting thread", MPI_ERR_NO_MEM);
}

/* Get the communicator between the classes of this process. The lock is
 * held. */
static na_return_t na_mpi_local_comm(
    struct na_mpi_class *self, MPI_Comm *comm_p)
{
    int error = MPI_SUCCESS;

    if (na_mpi_job.level < MPI_THREAD_MULTIPLE) {
        self->base.core->log(HG_LOG_LEVEL_ERROR, "mpi",
            "MPI was initialized with %s: mpi+dynamic needs "
            "MPI_THREAD_MULTIPLE (MPI_Init_thread)",
            na_mpi_level_name(na_mpi_job.level));
        return NA_OPNOTSUPPORT;
    }
    if (!na_mpi_port.has_local) {
        na_mpi_port.core = self->base.core;
        na_plug_list_init(&na_mpi_port.accepted);
        na_plug_list_init(&na_mpi_port.over);
        error = na_mpi_alone(&na_mpi_port.home);
    }
    if (error != MPI_SUCCESS)
        return na_mpi_failed(self, "cannot copy", "MPI_COMM_SELF", error);
    na_mpi_port.has_local = true;
    *comm_p = na_mpi_port.home;
    return self->base.listen ? na_mpi_port_open(self) : NA_SUCCESS;
}

/* ---- Names: the port, with %XX for most signs, then "/N" ---- */

/* NA_OVERFLOW (logged): longer than an address string may be. */
static na_return_t na_mpi_port_name(const struct na_mpi_class *self,
    const char *port, unsigned number, char name[NA_MAX_ADDR_LEN])
{
    size_t used = strlen(NA_MPI_PREFIX);
    char tail[16] = "";
    const char *p;

    if (number > 0)
        (void) snprintf(tail, sizeof(tail), "/%u", number);
    memcpy(name, NA_MPI_PREFIX, used + 1);
    for (p = port; *p != '\0'; p++) {
        bool plain = (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') ||
            (*p >= 'A' && *p <= 'Z') || strchr(".:_-", *p) != NULL;

        if (used + 3 + sizeof(tail) >= NA_MAX_ADDR_LEN) {
            self->base.core->log(HG_LOG_LEVEL_ERROR, "mpi",
                "the port of this MPI is too long for an address: %s", port);
            return NA_OVERFLOW;
        }
        used += (size_t) snprintf(name + used, 4, plain ? "%c" : "%%%02X",
            plain ? *p : (unsigned char) *p);
    }
    memcpy(name + used, tail, strlen(tail) + 1);
    return NA_SUCCESS;
}

static int na_mpi_hex(char digit)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *at = digit != '\0' ? strchr(digits, digit) : NULL;

    return at != NULL ? (int) (at - digits) : -1;
}

/* Parse the part behind "://". False: malformed. */
static bool na_mpi_port_parse(
    const char *rest, char port[NA_MAX_ADDR_LEN], unsigned *number_p)
{
    unsigned long number = 0;
    size_t used = 0;

    for (; *rest != '\0' && *rest != '/'; rest++) {
        if (used + 1 >= NA_MAX_ADDR_LEN || used + 1 >= MPI_MAX_PORT_NAME)
            return false;
        if (*rest == '%') {
            int high = na_mpi_hex(rest[1]);
            int low = high >= 0 ? na_mpi_hex(rest[2]) : -1;

            if (low < 0 || (high == 0 && low == 0))
                return false;
            port[used++] = (char) (high << 4 | low);
            rest += 2;
        } else {
            port[used++] = *rest;
        }
    }
    port[used] = '\0';
    if (*rest == '/')
        rest = na_mpi_digits(rest + 1, NA_MPI_CLASSES - 1, &number);
    *number_p = (unsigned) number;
    return used > 0 && rest != NULL && *rest == '\0';
}

/* The name of a listening class, or of a peer that sent none. */
static na_return_t na_mpi_make_name(const struct na_mpi_class *self,
    bool listens, int rank, unsigned number, char name[NA_MAX_ADDR_LEN])
{
    if (self->dynamic && listens)
        return na_mpi_port_name(self, na_mpi_port.name, number, name);
    if (self->dynamic)
        (void) snprintf(name, NA_MAX_ADDR_LEN, NA_MPI_PREFIX "peer-%016" PRIx64,
            self->base.core->random());
    else
        na_mpi_name(name, rank, number);
    return NA_SUCCESS;
}

/* The name in a HELLO; false: there is no valid one. */
static bool na_mpi_hello_name(
    const unsigned char *head, size_t size, char name[NA_MAX_ADDR_LEN])
{
    char port[NA_MAX_ADDR_LEN];
    unsigned number;
    size_t i;

    if (size >= NA_MAX_ADDR_LEN || size <= strlen(NA_MPI_PREFIX) ||
        memcmp(head, NA_MPI_PREFIX, strlen(NA_MPI_PREFIX)) != 0)
        return false;
    for (i = 0; i < size; i++) {
        if (head[i] < 0x21 || head[i] > 0x7e)
            return false;
    }
    memcpy(name, head, size);
    name[size] = '\0';
    return na_mpi_port_parse(name + strlen(NA_MPI_PREFIX), port, &number);
}

/* Set the port of the address from its name. Without the lock. NA_NOMEM. */
static na_return_t na_mpi_set_port(struct na_mpi_addr *addr)
{
    char port[NA_MAX_ADDR_LEN];
    unsigned number;

    if (!na_mpi_port_parse(
            addr->base.name + strlen(NA_MPI_PREFIX), port, &number))
        return NA_SUCCESS;
    addr->port = (char *) addr->base.na_class->core->alloc(strlen(port) + 1);
    if (addr->port == NULL)
        return NA_NOMEM;
    memcpy(addr->port, port, strlen(port) + 1);
    return NA_SUCCESS;
}

/* ---- Connecting ---- */

/* A thread that connects. `self` is NULL when its result is no longer needed:
 * then it frees this struct. */
struct na_mpi_connect {
    struct na_link link; /* class->connects */
    struct na_mpi_class *self;
    struct na_mpi_addr *addr;
    const struct na_core *core;
    MPI_Comm comm;
    int error;
    bool done;
    bool listens;   /* this process has a port, too */
    bool announced; /* ... and PORT:to was published */
    char port[NA_MAX_ADDR_LEN];
};

/* Whether the connection is still needed; `why` is the reason that has delayed
 * it. Without the lock. */
static bool na_mpi_connect_goes_on(
    struct na_mpi_connect *connect, const char *why)
{
    bool wanted;

    na_mpi_lock();
    wanted = connect->self != NULL;
    if (wanted)
        connect->addr->why = why;
    na_mpi_unlock();
    return wanted && !atomic_load(&na_mpi_port.ends);
}

/* Only one connect of a process with a port may publish PORT:to. False: another
 * one does. Without the lock. */
static bool na_mpi_connect_leads(struct na_mpi_connect *connect)
{
    bool leads;

    na_mpi_lock();
    if (na_mpi_port.leader == NULL && na_mpi_port.name[0] != '\0')
        na_mpi_port.leader = connect;
    leads = na_mpi_port.name[0] == '\0' || na_mpi_port.leader == connect;
    connect->listens = na_mpi_port.name[0] != '\0';
    na_mpi_unlock();
    return leads;
}

/* Let another connect of this process start. Without the lock. */
static void na_mpi_connect_withdraw(struct na_mpi_connect *connect)
{
    if (connect->announced && na_mpi_connect_leads(connect))
        na_mpi_permit_withdraw(na_mpi_port.name);
    connect->announced = false;
    na_mpi_lock();
    if (na_mpi_port.leader == connect)
        na_mpi_port.leader = NULL;
    na_mpi_unlock();
}

/* Try to get a permit, like na_mpi_permit_take. Without the lock. */
static const char *na_mpi_connect_try(
    struct na_mpi_connect *connect, char name[NA_MPI_PERMIT_LEN])
{
    const char *why = NULL;

    name[0] = '\0';
    if (!na_mpi_connect_leads(connect))
        return "this process is connecting to another one";
    if (connect->listens)
        connect->announced =
            na_mpi_permit_announce(na_mpi_port.name, connect->port);
    if (connect->listens && !connect->announced)
        why = "it is connecting to this process, possibly through others";
    if (why == NULL)
        why = na_mpi_permit_take(connect->port, name);
    if (why != NULL)
        na_mpi_connect_withdraw(connect);
    return why;
}

/* Pause before the next attempt, for an eighth of the time waited so far. */
static void na_mpi_connect_pause(const struct na_core *core, uint64_t waited)
{
    struct timespec time = {0, 0};
    uint64_t pause = waited / 8;

    if (pause < NA_MPI_PAUSE_MIN)
        pause = NA_MPI_PAUSE_MIN;
    if (pause > NA_MPI_PAUSE_MAX)
        pause = NA_MPI_PAUSE_MAX;
    time.tv_nsec = (long) (pause / 2 + core->random() % (pause / 2));
    (void) nanosleep(&time, NULL);
}

/* Wait for a permit: `name` is the port to connect to. False: the connection is
 * no longer needed. Without the lock. */
static bool na_mpi_connect_wait(
    struct na_mpi_connect *connect, char name[NA_MPI_PERMIT_LEN])
{
    const struct na_core *core = connect->core;
    uint64_t begin = core->now_ns();
    uint64_t since = begin; /* when the permit in `last` was taken, or before */
    char last[NA_MPI_PERMIT_LEN] = "";
    const char *why = NULL;

    while (na_mpi_connect_goes_on(connect, why)) {
        uint64_t now = core->now_ns();

        if (why != NULL) {
            if (strcmp(name, last) != 0) {
                memcpy(last, name, sizeof(last));
                since = now;
            } else if (name[0] != '\0' &&
                now - since >= NA_MPI_PERMIT_MS * NA_MPI_MS) {
                na_mpi_permit_revoke(name);
                since = now;
            }
            na_mpi_connect_pause(core, now - begin);
        }
        why = na_mpi_connect_try(connect, name);
        if (why == NULL) {
            (void) na_mpi_connect_goes_on(connect, NULL);
            return true; /* a permit that was taken is used */
        }
    }
    return false;
}

/* An error of MPI. Without the lock. */
static int na_mpi_connect_make(struct na_mpi_connect *connect, MPI_Comm *comm_p)
{
    char name[NA_MPI_PERMIT_LEN];
    MPI_Comm alone;
    int error = na_mpi_alone(&alone);
    bool ours;

    if (error != MPI_SUCCESS)
        return error;
    ours = na_mpi_connect_wait(connect, name);
    error = ours ? MPI_Comm_connect(name, MPI_INFO_NULL, 0, alone, comm_p)
                 : MPI_ERR_OTHER;
    if (atomic_load(&na_mpi_port.ends))
        return error;
    if (ours)
        na_mpi_permit_end(name);
    na_mpi_connect_withdraw(connect);
    (void) MPI_Comm_free(&alone);
    return error;
}

static void *na_mpi_connect_run(void *arg)
{
    struct na_mpi_connect *connect = (struct na_mpi_connect *) arg;
    MPI_Comm comm = MPI_COMM_NULL;
    int error = na_mpi_connect_make(connect, &comm);

    na_mpi_lock();
    HG_ASSERT(!connect->done);
    connect->error = error;
    connect->comm = comm;
    connect->done = true;
    if (connect->self != NULL) {
        connect->core->wake(&connect->self->base);
    } else {
        if (error == MPI_SUCCESS && !atomic_load(&na_mpi_port.ends))
            (void) MPI_Comm_free(&comm);
        connect->core->free(connect);
    }
    na_mpi_unlock();
    (void) atomic_fetch_sub(&na_mpi_port.threads, 1);
    return NULL;
}

/* Start to connect to the address's port. On failure poll ends the dial. The
 * lock is held, as below. */
HG_PRIVATE void na_mpi_connect_start(
    struct na_mpi_class *self, struct na_mpi_addr *addr)
{
    const struct na_core *core = self->base.core;
    struct na_mpi_connect *connect =
        (struct na_mpi_connect *) core->alloc(sizeof(*connect));

    HG_ASSERT(addr->port != NULL && addr->connect == NULL);
    addr->error = MPI_ERR_NO_MEM;
    addr->deadline = 0;
    if (connect == NULL)
        return;
    memset(connect, 0, sizeof(*connect));
    na_plug_list_init(&connect->link);
    connect->self = self;
    connect->addr = addr;
    connect->core = core;
    memcpy(connect->port, addr->port, strlen(addr->port) + 1);
    (void) atomic_fetch_add(&na_mpi_port.threads, 1);
    if (!na_mpi_thread(na_mpi_connect_run, connect)) {
        (void) atomic_fetch_sub(&na_mpi_port.threads, 1);
        core->free(connect);
        return;
    }
    addr->error = MPI_SUCCESS;
    addr->connect = connect;
    na_plug_list_push(&self->connects, &connect->link);
    na_mpi_set_deadline(self, addr, self->base.info->lookup_ms);
}

/* The connection is no longer needed. */
HG_PRIVATE void na_mpi_connect_drop(struct na_mpi_addr *addr)
{
    struct na_mpi_connect *connect = addr->connect;

    if (connect == NULL)
        return;
    HG_ASSERT(connect->addr == addr && connect->self != NULL);
    na_plug_list_remove(&connect->link);
    addr->connect = NULL;
    connect->self = NULL;
    if (na_mpi_port.leader == connect)
        na_mpi_port.leader = NULL;
    if (!connect->done)
        return;
    if (connect->error == MPI_SUCCESS)
        (void) MPI_Comm_free(&connect->comm);
    connect->core->free(connect);
}

/* ---- Connections ---- */

/* Create a channel for a connection. NULL: out of memory (logged). */
static struct na_mpi_channel *na_mpi_channel_new(
    struct na_mpi_class *self, MPI_Comm comm)
{
    struct na_mpi_channel *channel =
        (struct na_mpi_channel *) self->base.core->alloc(sizeof(*channel));

    (void) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (channel == NULL)
        return NULL;
    memset(channel, 0, sizeof(*channel));
    na_plug_list_init(&channel->link);
    channel->count = NA_MPI_FEW_SLOTS;
    (void) na_mpi_channel_open(
        self, channel, comm, NA_MPI_TAG + (int) self->number);
    if (channel->bytes == NULL) {
        self->base.core->free(channel);
        return NULL;
    }
    na_plug_list_push(&self->channels, &channel->link);
    return channel;
}

/* The address no longer uses its connection: send the last packet. */
HG_PRIVATE void na_mpi_channel_leave(
    struct na_mpi_class *self, struct na_mpi_addr *addr)
{
    if (addr->channel == NULL || addr->channel == &self->channel)
        return;
    HG_ASSERT(self->dynamic);
    HG_ASSERT(addr->channel->peer == addr || addr->channel->peer == NULL);
    if (!addr->channel->left && !addr->broken && !addr->channel->over)
        (void) na_mpi_control(self, addr, NA_MPI_GONE);
    addr->channel->over = true;
    addr->channel->peer = NULL;
    addr->channel = NULL;
}

/* Remove the connections that no address uses. */
static void na_mpi_channels_part(struct na_mpi_class *self)
{
    struct na_link *link;
    struct na_link *next;

    for (link = self->channels.next; link != &self->channels; link = next) {
        next = link->next;
        if (!NA_MPI_OF(link, struct na_mpi_channel, link)->over)
            continue;
        na_plug_list_remove(link);
        na_plug_list_push(&na_mpi_port.over, link);
    }
}

/* Receive what peers still send on connections that are over, and free those
 * where nothing more can arrive. */
static void na_mpi_poll_over(struct na_mpi_class *self)
{
    struct na_link *link;
    struct na_link *next;

    for (link = na_mpi_port.over.next; link != &na_mpi_port.over; link = next) {
        struct na_mpi_channel *channel =
            NA_MPI_OF(link, struct na_mpi_channel, link);
        struct na_mpi_slot *slot;
        struct na_mpi_header header;

        next = link->next;
        while (!channel->ended &&
            (slot = na_mpi_channel_take(self, channel)) != NULL) {
            channel->used = slot;
            channel->ended =
                na_mpi_get_header(slot->bytes, slot->size, &header) == NULL &&
                header.kind == NA_MPI_GONE;
        }
        if (channel->ended)
            na_mpi_over_free(channel);
    }
}

/* Take the accepted connections whose HELLO is for this class. Connections
 * without HELLO are closed in time. */
static unsigned na_mpi_take_accepted(struct na_mpi_class *self)
{
    uint64_t now = self->base.core->now_ns();
    uint64_t limit = 2 * self->base.info->lookup_ms * NA_MPI_MS;
    struct na_link *link;
    struct na_link *next;
    unsigned n = 0;

    for (link = na_mpi_port.accepted.next; link != &na_mpi_port.accepted;
         link = next) {
        struct na_mpi_accepted *accepted =
            NA_MPI_OF(link, struct na_mpi_accepted, link);
        int flag = 0;
        int error;

        next = link->next;
        error = MPI_Iprobe(0, NA_MPI_TAG + (int) self->number, accepted->comm,
            &flag, MPI_STATUS_IGNORE);
        if (error == MPI_SUCCESS && flag) {
            if (na_mpi_channel_new(self, accepted->comm) == NULL)
                continue;
        } else if (error == MPI_SUCCESS && now - accepted->since <= limit) {
            continue;
        } else {
            self->base.core->count(&self->base, "mpi_malformed", 1);
            self->base.core->log(HG_LOG_LEVEL_WARNING, "mpi",
                "refused a connection: it sent no HELLO");
            (void) MPI_Comm_free(&accepted->comm);
        }
        na_plug_list_remove(link);
        self->base.core->free(accepted);
        n++;
    }
    return n;
}

/* Handle connects that ended. */
static unsigned na_mpi_take_connected(struct na_mpi_class *self)
{
    struct na_link *link;
    struct na_link *next;
    unsigned n = 0;

    for (link = self->connects.next; link != &self->connects; link = next) {
        struct na_mpi_connect *connect =
            NA_MPI_OF(link, struct na_mpi_connect, link);
        struct na_mpi_addr *addr = connect->addr;

        next = link->next;
        if (!connect->done)
            continue;
        HG_ASSERT(addr->connect == connect && addr->state == NA_MPI_DIALLING);
        if (connect->error == MPI_SUCCESS)
            addr->channel = na_mpi_channel_new(self, connect->comm);
        if (addr->channel != NULL) {
            addr->channel->peer = addr;
            connect->error = MPI_ERR_OTHER; /* its communicator was taken */
            na_mpi_send_hello(self, addr, NA_MPI_MESSAGES);
        } else {
            addr->error =
                connect->error != MPI_SUCCESS ? connect->error : MPI_ERR_NO_MEM;
            addr->deadline = 0;
        }
        na_mpi_connect_drop(addr);
        n++;
    }
    return n;
}
