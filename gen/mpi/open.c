/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and closing the class, and the table of slots.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

/* The communicator for the class that this thread opens with NA_MPI_Init(), or
 * NULL. */
static _Thread_local const MPI_Comm *na_mpi_given;

static void na_mpi_prepare(struct na_mpi_class *self)
{
    unsigned i;

    na_plug_list_init(&self->link);
    na_plug_list_init(&self->channels);
    na_plug_list_init(&self->connects);
    na_plug_list_init(&self->addrs);
    na_plug_list_init(&self->timed);
    na_plug_list_init(&self->receiving);
    na_plug_list_init(&self->sending);
    na_plug_list_init(&self->orphans);
    na_plug_list_init(&self->spare);
    for (i = 0; i < NA_MPI_BUCKETS; i++)
        na_plug_list_init(&self->buckets[i]);
}

/* Choose the number of the class: the one in `host`, or the next one, so that
 * the number of a closed class is not reused soon. NA_ADDRNOTAVAIL,
 * NA_ADDRINUSE, NA_INVALID_ARG (logged). The lock is held. */
static na_return_t na_mpi_number(struct na_mpi_class *self, const char *host)
{
    const struct na_core *core = self->base.core;
    char port[NA_MAX_ADDR_LEN];
    unsigned number = 0;
    int rank = 0;

    if (host[0] == '\0' || !self->base.listen) {
        do
            number = na_mpi_job.numbers++ % NA_MPI_CLASSES;
        while (na_mpi_job_has(number));
    } else if (self->dynamic) {
        if (!na_mpi_port_parse(host, port, &number) ||
            strcmp(port, na_mpi_port.name) != 0) {
            core->log(HG_LOG_LEVEL_ERROR, "mpi",
                "mpi+dynamic://%s: MPI chooses the port, which is %s", host,
                na_mpi_port.name);
            return NA_ADDRNOTAVAIL;
        }
    } else {
        na_return_t ret = na_mpi_parse(self, NA_FALSE, host, &rank, &number);

        if (ret != NA_SUCCESS)
            return ret;
        if (rank != self->rank) {
            core->log(HG_LOG_LEVEL_ERROR, "mpi",
                "mpi+static://%s: this process has rank %d", host, self->rank);
            return NA_ADDRNOTAVAIL;
        }
    }
    if (na_mpi_job_has(number)) {
        core->log(HG_LOG_LEVEL_ERROR, "mpi",
            "mpi+%s://%s: another class of this process has that address",
            self->base.protocol, host);
        return NA_ADDRINUSE;
    }
    HG_ASSERT(number < NA_MPI_CLASSES);
    self->number = number;
    return NA_SUCCESS;
}

/* Find the communicator, and the own rank in it. The lock is held. */
static na_return_t na_mpi_enter_comm(
    struct na_mpi_class *self, MPI_Comm comm, const char *host)
{
    na_return_t ret;
    int between = 0;
    int error;

    if (comm == MPI_COMM_NULL) { /* MPI might abort the job */
        self->base.core->log(
            HG_LOG_LEVEL_ERROR, "mpi", "the communicator is MPI_COMM_NULL");
        return NA_INVALID_ARG;
    }
    error = MPI_Comm_test_inter(comm, &between);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_rank(comm, &self->rank);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_size(comm, &self->ranks);
    if (error != MPI_SUCCESS)
        return na_mpi_failed(self, "cannot use", "the communicator", error);
    if (between) {
        self->base.core->log(HG_LOG_LEVEL_ERROR, "mpi",
            "the communicator is an inter-communicator: an intra-communicator "
            "is needed");
        return NA_INVALID_ARG;
    }
    ret = na_mpi_number(self, host);
    if (ret != NA_SUCCESS)
        return ret;
    return na_mpi_channel_open(
        self, &self->channel, comm, NA_MPI_TAG + (int) self->number);
}

/* Wait up to `linger_ms` for accepted messages to be sent, and for bodies that
 * peers are sending. Packets are still read, because they request bodies. */
static void na_mpi_linger(struct na_mpi_class *self, unsigned linger_ms)
{
    uint64_t until = self->base.core->now_ns() + linger_ms * NA_MPI_MS;
    struct na_link bodies;
    struct na_link *link;
    bool busy = true;
    unsigned lane;

    na_plug_list_init(&bodies);
    while (busy) {
        na_mpi_lock();
        (void) na_mpi_poll_packets(self, &self->channel);
        (void) na_mpi_poll_connections(self);
        (void) na_mpi_reap(self, &bodies);
        for (lane = 0; lane < NA_MPI_LANES; lane++)
            na_mpi_inbox_clear(
                self, &na_mpi_addr_of(self->base.self_addr)->inboxes[lane]);
        na_mpi_orphans_free(self);
        busy = false;
        for (link = self->addrs.next; link != &self->addrs; link = link->next) {
            struct na_mpi_addr *addr =
                NA_MPI_OF(link, struct na_mpi_addr, link);

            na_mpi_divert_all(self, addr);
            for (lane = 0; lane < NA_MPI_LANES; lane++)
                na_mpi_inbox_clear(self, &addr->inboxes[lane]);
            if (!na_mpi_is_connected(addr))
                continue;
            na_mpi_send_bye(self, addr);
            busy = busy || !addr->bye_sent;
        }
        busy = busy || !na_plug_list_empty(&self->sending) ||
            !na_plug_list_empty(&self->orphans);
        na_mpi_unlock();
        na_mpi_return(self, &bodies);
        if (self->base.core->now_ns() >= until)
            return;
        if (busy)
            (void) sched_yield();
    }
}

/* Send BYE to the peers, and free the slots. */
static void na_mpi_shut(struct na_mpi_class *self)
{
    const struct na_core *core = self->base.core;
    struct na_link bodies;
    struct na_link *link;

    na_plug_list_init(&bodies);
    na_mpi_lock();
    na_mpi_channel_cancel(&self->channel);
    for (link = self->channels.next; link != &self->channels; link = link->next)
        NA_MPI_OF(link, struct na_mpi_channel, link)->over = true;
    /* A canceled receive ends regardless of the peers (MPI 3.1, 3.8.4). */
    while (!na_mpi_channel_free(core, &self->channel))
        continue;
    na_mpi_channels_part(self);
    na_plug_list_remove(&self->link);
    /* Memory that MPI still uses is not freed: that of a send that is not
     * received, and of a receive whose tag was sent to a peer. Frames are
     * returned to the core. */
    while ((link = na_plug_list_pop(&self->sending)) != NULL) {
        struct na_mpi_out *out = NA_MPI_OF(link, struct na_mpi_out, link);

        if (out->packet == NULL && out->release != NULL)
            na_plug_list_push(&bodies, link);
    }
    while ((link = na_plug_list_pop(&self->orphans)) != NULL)
        na_mpi_unplace(self, NA_MPI_OF(link, struct na_mpi_in, link));
    na_mpi_unlock();
    na_mpi_return(self, &bodies);
    while ((link = na_plug_list_pop(&self->spare)) != NULL)
        core->free(NA_MPI_OF(link, struct na_mpi_out, link));
}

static void na_mpi_close(struct na_class *na_class, unsigned linger_ms)
{
    struct na_mpi_class *self = na_mpi_of(na_class);
    struct na_link *link;
    struct na_mpi_end end;

    HG_ASSERT(self->channel.bytes != NULL && !self->closing);
    self->closing = true;
    na_class->core->enter(na_class); /* for messages that still arrive */
    na_mpi_linger(self, linger_ms);
    na_class->core->leave(na_class);
    na_mpi_end_init(&end);
    for (;;) {
        struct na_mpi_addr *addr;

        na_mpi_lock();
        link = na_plug_list_pop(&self->addrs);
        if (link == NULL)
            break;
        addr = NA_MPI_OF(link, struct na_mpi_addr, link);
        if (!addr->bye_sent && addr->channel != NULL) /* its answer is late */
            (void) na_mpi_control(self, addr, NA_MPI_RESET);
        na_mpi_clear(self, addr, &end);
        addr->state = NA_MPI_DEAD;
        na_mpi_unlock();
        na_mpi_return(self, &end.bodies);
        na_class->core->addr_unref(&addr->base);
    }
    na_mpi_clear(self, na_mpi_addr_of(na_class->self_addr), &end);
    na_mpi_unlock();
    na_mpi_return(self, &end.bodies);
    na_mpi_shut(self);
}

static na_return_t na_mpi_open(struct na_class *na_class, const char *host)
{
    struct na_mpi_class *self = na_mpi_of(na_class);
    const struct na_init_info *info = na_class->info;
    char name[NA_MAX_ADDR_LEN];
    struct na_mpi_addr *addr;
    MPI_Comm comm = MPI_COMM_NULL;
    na_return_t ret;

    na_class->max_unexpected_size = info->max_unexpected_size;
    na_class->max_expected_size = info->max_expected_size;
    na_class->max_tag = UINT32_MAX;
    if (na_mpi_job_is_forked(self))
        return NA_FAULT;
    na_mpi_prepare(self);
    self->dynamic = na_class->protocol[0] == 'd';
    na_class->finds_callers = self->dynamic ? NA_FALSE : NA_TRUE;
    self->channel.count = NA_MPI_SLOTS;
    na_mpi_lock();
    ret = na_mpi_job_begin(self);
    if (ret == NA_SUCCESS)
        comm = na_mpi_given != NULL ? *na_mpi_given : MPI_COMM_WORLD;
    if (ret == NA_SUCCESS && self->dynamic)
        ret = na_mpi_local_comm(self, &comm);
    if (ret == NA_SUCCESS)
        ret = na_mpi_enter_comm(self, comm, host);
    if (ret == NA_SUCCESS)
        na_plug_list_push(&na_mpi_job.classes, &self->link);
    na_mpi_unlock();
    if (ret != NA_SUCCESS)
        goto shut;
    ret = na_mpi_make_name(
        self, na_class->listen != NA_FALSE, self->rank, self->number, name);
    if (ret != NA_SUCCESS)
        goto shut;
    addr = na_mpi_addr_new(
        self, name, NA_TRUE, &self->channel, self->rank, self->number);
    if (addr == NULL) {
        ret = NA_NOMEM;
        goto shut;
    }
    addr->state = NA_MPI_READY;
    atomic_store(&addr->incarnation, na_class->incarnation);
    na_mpi_lock();
    na_mpi_enter(self, addr);
    na_mpi_unlock();
    na_class->self_addr = &addr->base;
    return NA_SUCCESS;

shut:
    na_mpi_shut(self);
    return ret;
}

static const char *const na_mpi_protocols[] = {"static", "dynamic", NULL};

extern const struct na_plugin hg_na_mpi_plugin;

const struct na_plugin hg_na_mpi_plugin = {
    .abi = NA_PLUGIN_ABI,
    .size = sizeof(struct na_plugin),
    .name = "mpi",
    .protocols = na_mpi_protocols,
    .caps = NA_CAP_HOLDS_BACK,
    .class_size = sizeof(struct na_mpi_class),
    .addr_size = sizeof(struct na_mpi_addr),
    .open = na_mpi_open,
    .close = na_mpi_close,
    .addr_lookup = na_mpi_addr_lookup,
    .addr_release = na_mpi_addr_release,
    .addr_cmp = na_mpi_addr_cmp,
    .addr_connect = na_mpi_addr_connect,
    .addr_terminate = na_mpi_addr_terminate,
    .addr_abandon = na_mpi_addr_abandon,
    .msg_send = na_mpi_msg_send,
    .frame_send = na_mpi_frame_send,
    .poll = na_mpi_poll,
    .cancel = na_mpi_cancel,
    .reclaim = na_mpi_reclaim,
    .addr_resolve = na_mpi_addr_resolve,
    .max_frame_size = NA_MPI_MSG_MAX,
};

na_class_t *NA_MPI_Init_opt(
    MPI_Comm *intra_comm, int flags, const struct na_init_info *info)
{
    na_class_t *na_class;

    na_mpi_given = intra_comm;
    na_class = NA_Initialize_opt("mpi+static://",
        (flags & NA_MPI_LISTEN) != 0 ? NA_TRUE : NA_FALSE, info);
    na_mpi_given = NULL;
    return na_class;
}

na_class_t *NA_MPI_Init(MPI_Comm *intra_comm, int flags)
{
    return NA_MPI_Init_opt(intra_comm, flags, NULL);
}
