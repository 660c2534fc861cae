/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives: slots for packets, and inboxes of packets that wait for a body.
 *
 * Part of the MPI transport; see mpi.h.
 */
#include "mpi/mpi.h"

/* ---- Packets. The lock is held in all of these. ---- */

/* Post the receive of a slot. */
static na_return_t na_mpi_slot_post(struct na_mpi_class *self,
    struct na_mpi_channel *channel, struct na_mpi_slot *slot)
{
    int error;

    HG_ASSERT(slot->request == MPI_REQUEST_NULL);
    error = MPI_Irecv(slot->bytes, (int) NA_MPI_PACKET, MPI_BYTE,
        MPI_ANY_SOURCE, channel->tag, channel->comm, &slot->request);

    if (error == MPI_SUCCESS)
        return NA_SUCCESS;
    slot->request = MPI_REQUEST_NULL;
    return na_mpi_failed(self, "cannot receive", "packets", error);
}

/* Open a channel. NA_NOMEM, or an error of MPI's (logged). */
static na_return_t na_mpi_channel_open(struct na_mpi_class *self,
    struct na_mpi_channel *channel, MPI_Comm comm, int tag)
{
    na_return_t ret = NA_SUCCESS;
    unsigned i;

    channel->comm = comm;
    channel->tag = tag;
    channel->next = 0;
    channel->batch = 1;
    channel->used = NULL;
    HG_ASSERT(channel->count > 0 && channel->count <= NA_MPI_SLOTS);
    channel->bytes = (unsigned char *) self->base.core->alloc(
        (size_t) channel->count * NA_MPI_PACKET);
    if (channel->bytes == NULL) {
        self->base.core->log(
            HG_LOG_LEVEL_ERROR, "mpi", "no memory to receive packets");
        return NA_NOMEM;
    }
    for (i = 0; i < channel->count; i++) {
        channel->slots[i].bytes = channel->bytes + (size_t) i * NA_MPI_PACKET;
        channel->slots[i].request = MPI_REQUEST_NULL;
        channel->slots[i].held = false;
    }
    for (i = 0; i < channel->count && ret == NA_SUCCESS; i++)
        ret = na_mpi_slot_post(self, channel, &channel->slots[i]);
    return ret;
}

/* Whether an unneeded receive has ended. */
static bool na_mpi_is_over(MPI_Request *request)
{
    int done = 0;

    return *request == MPI_REQUEST_NULL ||
        MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done;
}

static void na_mpi_channel_cancel(struct na_mpi_channel *channel)
{
    unsigned i;

    for (i = 0; i < channel->count; i++) {
        if (channel->bytes != NULL &&
            channel->slots[i].request != MPI_REQUEST_NULL)
            (void) MPI_Cancel(&channel->slots[i].request);
    }
}

/* After na_mpi_channel_cancel: free the slots. False: not yet. */
static bool na_mpi_channel_free(
    const struct na_core *core, struct na_mpi_channel *channel)
{
    unsigned i;

    if (channel->bytes == NULL)
        return true;
    for (i = 0; i < channel->count; i++) {
        if (!na_mpi_is_over(&channel->slots[i].request))
            return false;
    }
    core->free(channel->bytes);
    channel->bytes = NULL;
    return true;
}

/* The slot of the next packet, which must be posted again, or held; NULL: no
 * packet. */
static struct na_mpi_slot *na_mpi_channel_take(
    struct na_mpi_class *self, struct na_mpi_channel *channel)
{
    struct na_mpi_slot *slot = &channel->slots[channel->next];
    MPI_Status status;
    int done = 0;
    int size = 0;
    int error;

    if (channel->used != NULL)
        (void) na_mpi_slot_post(self, channel, channel->used);
    channel->used = NULL;
    if (slot->held) {
        slot->held = false;
        channel->next = (channel->next + 1) % channel->count;
        return slot;
    }
    if (slot->request == MPI_REQUEST_NULL) { /* could not be posted */
        (void) na_mpi_slot_post(self, channel, slot);
        channel->next = (channel->next + 1) % channel->count;
        return NULL;
    }
    error = MPI_Test(&slot->request, &done, &status);
    if (error == MPI_SUCCESS && !done)
        return NULL;
    channel->next = (channel->next + 1) % channel->count;
    if (error == MPI_SUCCESS)
        error = MPI_Get_count(&status, MPI_BYTE, &size);
    if (error != MPI_SUCCESS || size < 0) {
        (void) na_mpi_failed(self, "cannot receive", "a packet", error);
        if (slot->request == MPI_REQUEST_NULL)
            (void) na_mpi_slot_post(self, channel, slot);
        return NULL;
    }
    slot->source = status.MPI_SOURCE;
    slot->size = (size_t) size;
    return slot;
}

/* ---- Inboxes ---- */

/* Choose a tag for a body that no posted receive of the process uses, since a
 * peer's process sends bodies for all its classes. 0: all are in use. The lock
 * is held. */
static int na_mpi_body_tag(void)
{
    unsigned i;

    for (i = 0; i < NA_MPI_BODY_TAGS; i++) {
        unsigned at = na_mpi_job.bodies++ % NA_MPI_BODY_TAGS;

        if (!na_mpi_job.used[at]) {
            na_mpi_job.used[at] = true;
            return NA_MPI_BODY_TAG + (int) at;
        }
    }
    return 0;
}

/* Get memory for a body: data of frames is received at its destination. NULL:
 * out of memory (logged). */
static unsigned char *na_mpi_body_memory(
    struct na_mpi_class *self, struct na_mpi_addr *addr, struct na_mpi_in *in)
{
    const struct na_core *core = self->base.core;
    unsigned char *memory = NULL;

    if (in->header.kind == NA_MPI_FRAME)
        memory = (unsigned char *) core->frame_place(&self->base, &addr->base,
            in->head, in->head_size, in->header.size, &in->place);
    if (memory == NULL)
        memory = (unsigned char *) core->alloc(in->header.size);
    if (memory == NULL)
        core->log(HG_LOG_LEVEL_ERROR, "mpi",
            "no memory to receive %" PRIu32 " bytes", in->header.size);
    return memory;
}

/* Request as many bodies as may be in transit at a time. If there is no memory
 * or no tag for a body, it is requested later. */
static void na_mpi_pull(
    struct na_mpi_class *self, struct na_mpi_addr *addr, enum na_mpi_lane lane)
{
    struct na_mpi_inbox *inbox = &addr->inboxes[lane];
    struct na_link *link;

    for (link = inbox->ins.next;
         link != &inbox->ins && inbox->pulled < NA_MPI_PULLS;
         link = link->next) {
        struct na_mpi_in *in = NA_MPI_OF(link, struct na_mpi_in, link);
        struct na_mpi_out *packet;
        struct na_mpi_header header;
        int error;

        if (in->header.size == 0 || in->body != NULL)
            continue;
        packet = na_mpi_packet(self);
        if (packet == NULL)
            return;
        if (in->tag == 0)
            in->tag = na_mpi_body_tag();
        if (in->tag == 0) {
            na_mpi_packet_put(self, packet);
            return;
        }
        in->body = na_mpi_body_memory(self, addr, in);
        if (in->body == NULL) {
            na_mpi_packet_put(self, packet);
            return;
        }
        error = MPI_Irecv(in->body, (int) in->header.size, MPI_BYTE, addr->rank,
            in->tag, addr->channel->comm, &in->request);
        if (error != MPI_SUCCESS) {
            na_mpi_packet_put(self, packet);
            (void) na_mpi_failed(
                self, "cannot receive from", addr->base.name, error);
            na_mpi_break(self, addr);
            return;
        }
        inbox->pulled++;
        memset(&header, 0, sizeof(header));
        header.kind = NA_MPI_PULL;
        header.plane = (uint8_t) lane;
        header.id = in->header.id;
        header.tag = (uint32_t) in->tag;
        (void) na_mpi_packet_send(self, addr, packet, &header, 0);
    }
}

/* Queue a packet until earlier ones are delivered. NA_NOMEM: not now;
 * NA_OVERFLOW: too many are queued. The lock is held. */
static na_return_t na_mpi_keep(struct na_mpi_class *self,
    struct na_mpi_addr *addr, enum na_mpi_lane lane,
    const struct na_mpi_header *header, const unsigned char *head,
    size_t head_size)
{
    struct na_mpi_inbox *inbox = &addr->inboxes[lane];
    struct na_mpi_in *in;

    /* Frames of a get that this class has begun count there. */
    if (inbox->bytes > NA_MPI_INBOX &&
        (lane == NA_MPI_MESSAGES ||
            inbox->bytes > self->base.info->max_queue_bytes))
        return NA_OVERFLOW;
    in = (struct na_mpi_in *) self->base.core->alloc(sizeof(*in) + head_size);
    if (in == NULL) {
        self->base.core->log(
            HG_LOG_LEVEL_ERROR, "mpi", "no memory to keep a packet");
        return NA_NOMEM;
    }
    memset(in, 0, sizeof(*in));
    na_plug_list_init(&in->link);
    in->header = *header;
    in->request = MPI_REQUEST_NULL;
    in->head_size = head_size;
    if (head_size > 0)
        memcpy(in->head, head, head_size);
    inbox->bytes += sizeof(*in) + head_size;
    na_plug_list_push(&inbox->ins, &in->link);
    if (na_plug_list_empty(&addr->receiving))
        na_plug_list_push(&self->receiving, &addr->receiving);
    if (header->size > 0)
        na_mpi_pull(self, addr, lane);
    return NA_SUCCESS;
}

/* Return memory to the core. */
static void na_mpi_unplace(struct na_mpi_class *self, struct na_mpi_in *in)
{
    if (in->place == NULL)
        return;
    self->base.core->frame_unplace(&self->base, in->place);
    in->place = NULL;
    in->body = NULL;
}

/* Free a packet that MPI does not use. The lock is held. */
static void na_mpi_in_free(struct na_mpi_class *self, struct na_mpi_in *in)
{
    HG_ASSERT(in->request == MPI_REQUEST_NULL);
    if (in->tag != 0)
        na_mpi_job.used[in->tag - NA_MPI_BODY_TAG] = false;
    na_mpi_unplace(self, in);
    self->base.core->free(in->body);
    self->base.core->free(in);
}

/* Receive a requested body in other memory, so that the core gets its memory
 * back although the peer has not sent the body, or no thread delivers it. If
 * the receive does not end at once, it has matched a body, which soon arrives
 * in the original memory: the next call copies it. The lock is held. */
static void na_mpi_divert(
    struct na_mpi_class *self, struct na_mpi_addr *addr, struct na_mpi_in *in)
{
    unsigned char *body;
    MPI_Status status;
    int canceled = 0;
    int done = 0;
    int size = 0;

    if (in->place == NULL || in->request == MPI_REQUEST_NULL)
        return;
    body = (unsigned char *) self->base.core->alloc(in->header.size);
    if (body == NULL)
        return;
    (void) MPI_Cancel(&in->request);
    if (MPI_Test(&in->request, &done, &status) != MPI_SUCCESS || !done) {
        self->base.core->free(body);
        return;
    }
    (void) MPI_Test_cancelled(&status, &canceled);
    if (!canceled) {
        (void) MPI_Get_count(&status, MPI_BYTE, &size);
        in->arrived = (uint32_t) size == in->header.size;
        memcpy(body, in->body, in->header.size);
    }
    na_mpi_unplace(self, in);
    in->body = body;
    if (canceled &&
        MPI_Irecv(body, (int) in->header.size, MPI_BYTE, addr->rank, in->tag,
            addr->channel->comm, &in->request) != MPI_SUCCESS)
        na_mpi_break(self, addr);
}

/* Divert all bodies requested from a peer. The lock is held. */
static void na_mpi_divert_all(
    struct na_mpi_class *self, struct na_mpi_addr *addr)
{
    struct na_link *head = &addr->inboxes[NA_MPI_FRAMES].ins;
    struct na_link *link;

    for (link = head->next; link != head; link = link->next)
        na_mpi_divert(self, addr, NA_MPI_OF(link, struct na_mpi_in, link));
}

/* The peer ends the connection, and named the bodies that it sent: end the
 * receives of others, because their tags will not be used. The lock is held. */
static void na_mpi_unpull(
    struct na_mpi_addr *addr, const struct na_mpi_header *header)
{
    const uint32_t sent[NA_MPI_LANES] = {header->tag, header->id};
    unsigned lane;

    for (lane = 0; lane < NA_MPI_LANES; lane++) {
        struct na_link *head = &addr->inboxes[lane].ins;
        struct na_link *link;

        for (link = head->next; link != head; link = link->next) {
            struct na_mpi_in *in = NA_MPI_OF(link, struct na_mpi_in, link);

            if (in->request == MPI_REQUEST_NULL ||
                (int32_t) (in->header.id - sent[lane]) <= 0)
                continue;
            (void) MPI_Cancel(&in->request);
            (void) na_mpi_is_over(&in->request);
        }
    }
}

/* Remove the first packet of an inbox if it is complete; the caller frees it,
 * or returns it. The lock is held. */
static struct na_mpi_in *na_mpi_inbox_take(
    struct na_mpi_class *self, struct na_mpi_addr *addr, enum na_mpi_lane lane)
{
    struct na_mpi_inbox *inbox = &addr->inboxes[lane];
    struct na_mpi_in *in;
    MPI_Status status;
    int done = 1;
    int size = 0;
    int error = MPI_SUCCESS;

    if (na_plug_list_empty(&inbox->ins))
        return NULL;
    in = NA_MPI_OF(inbox->ins.next, struct na_mpi_in, link);
    if (in->header.size > 0 && in->body == NULL)
        return NULL;
    if (in->header.size > 0 && !in->arrived) {
        error = MPI_Test(&in->request, &done, &status);
        if (error == MPI_SUCCESS && !done)
            return NULL;
        if (error == MPI_SUCCESS)
            error = MPI_Get_count(&status, MPI_BYTE, &size);
        in->arrived =
            error == MPI_SUCCESS && (uint32_t) size == in->header.size;
    }
    if (in->header.size > 0) {
        HG_ASSERT(inbox->pulled > 0);
        inbox->pulled--;
    }
    na_plug_list_remove(&in->link);
    HG_ASSERT(inbox->bytes >= sizeof(*in) + in->head_size);
    inbox->bytes -= sizeof(*in) + in->head_size;
    if (in->header.size == 0 || in->arrived)
        return in;
    if (error != MPI_SUCCESS) {
        (void) na_mpi_failed(
            self, "cannot receive from", addr->base.name, error);
    } else {
        self->base.core->count(&self->base, "mpi_malformed", 1);
        self->base.core->log(HG_LOG_LEVEL_WARNING, "mpi",
            "%s sent %d bytes of a body of %" PRIu32, addr->base.name, size,
            in->header.size);
    }
    na_mpi_in_free(self, in);
    na_mpi_break(self, addr);
    return NULL;
}

/* Return a packet that the core does not take yet. Its body counts as one in
 * transit, so that few others are requested meanwhile. The lock is held. */
static void na_mpi_inbox_return(struct na_mpi_class *self,
    struct na_mpi_addr *addr, enum na_mpi_lane lane, struct na_mpi_in *in)
{
    struct na_mpi_inbox *inbox = &addr->inboxes[lane];

    na_plug_list_push(inbox->ins.next, &in->link); /* in front */
    inbox->bytes += sizeof(*in) + in->head_size;
    inbox->pulled += in->header.size > 0;
    if (na_plug_list_empty(&addr->receiving))
        na_plug_list_push(&self->receiving, &addr->receiving);
}

/* Clear an inbox. Receives stay posted: the peer sends requested bodies, and
 * its memory is in use until they are received. The lock is held. */
static void na_mpi_inbox_clear(
    struct na_mpi_class *self, struct na_mpi_inbox *inbox)
{
    struct na_link *link;

    while ((link = na_plug_list_pop(&inbox->ins)) != NULL) {
        struct na_mpi_in *in = NA_MPI_OF(link, struct na_mpi_in, link);

        if (in->request != MPI_REQUEST_NULL)
            na_plug_list_push(&self->orphans, &in->link);
        else
            na_mpi_in_free(self, in);
    }
    inbox->bytes = 0;
    inbox->pulled = 0;
}

/* Free the orphans whose receive has ended. The lock is held. */
static void na_mpi_orphans_free(struct na_mpi_class *self)
{
    struct na_link left;
    struct na_link *link;

    na_plug_list_init(&left);
    while ((link = na_plug_list_pop(&self->orphans)) != NULL) {
        struct na_mpi_in *in = NA_MPI_OF(link, struct na_mpi_in, link);

        if (na_mpi_is_over(&in->request))
            na_mpi_in_free(self, in);
        else
            na_plug_list_push(&left, &in->link);
    }
    na_plug_list_move(&self->orphans, &left);
}
