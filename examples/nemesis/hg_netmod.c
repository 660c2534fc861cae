/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_netmod: a network module for MPICH's Nemesis channel, on NA.
 *
 * It has the functions of the Nemesis Network Module API, by their names;
 * hg_netmod_lmt.c has those of large transfers. With HG_NEMESIS_MPICH it
 * compiles against mpid_nem_impl.h of MPICH 3.2.1, as the module "hg"; else
 * against nemesis.h. hg-nemesis(7) is its manual.
 *
 * - What CH3 sends on a virtual connection (VC) is a stream of bytes. The
 *   module cuts it into unexpected messages of NA. Each has a header that says
 *   which VC it belongs to, and its number there: NA keeps their order, and a
 *   gap is an error instead of a stream that is shifted.
 * - A VC sends to an address that it looked up itself, from the business card.
 *   The lookup starts with the first send, and sends wait for it in a queue.
 * - NA sends a message now or not at all. What it refuses waits in the queue of
 *   its VC, and each poll tries it again. NA itself holds no message.
 * - A request with OnDataAvail may have more data, which must follow at once.
 *   So later sends of its VC wait until it is complete.
 * - A connection that has failed is marked, and the next poll without an event
 *   ends it: what the peer sent before is received first.
 * - CH3 calls the module by one thread at a time. Callbacks of NA run in
 *   netmod_progress() alone, which CH3's handlers do not enter again.
 */
#include "hg_netmod.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NETMOD_KEY "hg" /* of the address in a business card */
#define NETMOD_CARD_MAX 4096
#define NETMOD_RECVS 32   /* receives posted */
#define NETMOD_COPY 16384 /* bytes of a send that are copied while it waits */
#define NETMOD_PIECES (MPL_IOV_LIMIT + 2) /* pieces of memory of a send */
#define NETMOD_LINGER 2 /* seconds that ending waits for sends */
/* Data of this size travels in one message, with its headers. */
#define NETMOD_DATA ((size_t) 64 << 10)
/* Seconds that a peer may compute, without MPI, before it answers a lookup. */
#define NETMOD_SILENCE 600
/* Polls without an event before it yields, and before it sleeps. A poll can
 * move a part of a large transfer without an event: a sleep that early would
 * delay it. */
#define NETMOD_YIELD 100
#define NETMOD_SLEEP 1000

/* The `rank` of messages of a VC without a group: to the side that accepted, to
 * the side that connected, and the first one, with a business card. */
#define NETMOD_TO_ROOT UINT32_MAX
#define NETMOD_TO_CLIENT (UINT32_MAX - 1)
#define NETMOD_CONNECT (UINT32_MAX - 2)

/* A send that waits. */
struct netmod_send {
    struct netmod_send *next;
    MPID_Request *sreq;                    /* NULL: nobody waits for it */
    struct na_segment rest[NETMOD_PIECES]; /* what was not sent */
    unsigned first, count;
    char copy[]; /* what was copied */
};

struct hg_netmod hg_netmod;

/* ---- Helpers ---- */

#undef FCNAME
#define FCNAME "hg_netmod"

int hg_netmod_lost(const MPIDI_VC_t *vc)
{
#ifdef HG_NEMESIS_MPICH
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERR_SET1(mpi_errno, MPIX_ERR_PROC_FAILED, "**comm_fail",
        "**comm_fail %d", vc != NULL ? vc->pg_rank : -1);
    return mpi_errno;
#else
    (void) vc;
    return MPIX_ERR_PROC_FAILED;
#endif
}

int hg_netmod_error(const char *what)
{
    int mpi_errno = MPI_ERR_OTHER;

    (void) fprintf(stderr, "hg_netmod: rank %d: %s\n", hg_netmod.rank, what);
#ifdef HG_NEMESIS_MPICH
    mpi_errno = MPI_SUCCESS;
    MPIR_ERR_SET1(mpi_errno, MPI_ERR_OTHER, "**intern", "**intern %s", what);
#endif
    return mpi_errno;
}

void hg_netmod_note(int mpi_errno)
{
    if (hg_netmod.mpi_errno == MPI_SUCCESS)
        hg_netmod.mpi_errno = mpi_errno;
}

static uint64_t netmod_hash(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char) *text) * UINT64_C(1099511628211);
    return hash;
}

/* The number in a variable of the environment; else `*value_p` stays. */
static int netmod_number(const char *variable, size_t *value_p)
{
    const char *text = getenv(variable);
    char what[128], *end = NULL;

    if (text == NULL)
        return MPI_SUCCESS;
    *value_p = (size_t) strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == '\0')
        return MPI_SUCCESS;
    (void) snprintf(what, sizeof(what), "%s=%s is no number", variable, text);
    return hg_netmod_error(what);
}

struct netmod_link *hg_netmod_link_of(MPIDI_VC_t *vc)
{
    return (struct netmod_link *) vc->ch.netmod_area.align_helper;
}

static void netmod_free_addr(struct netmod_link *link)
{
    if (link->watch != NA_OP_ID_NULL)
        (void) NA_Cancel(hg_netmod.na_class, hg_netmod.context, link->watch);
    if (link->addr != NA_ADDR_NULL)
        (void) NA_Addr_free(hg_netmod.na_class, link->addr);
    link->watch = NA_OP_ID_NULL;
    link->addr = NA_ADDR_NULL;
}

void hg_netmod_unref(struct netmod_link *link)
{
    if (--link->refs > 0)
        return;
    netmod_free_addr(link);
    *link->prev = link->next;
    if (link->next != NULL)
        link->next->prev = link->prev;
    free(link);
}

struct netmod_link *hg_netmod_ref(struct netmod_link *link)
{
    link->refs++;
    return link;
}

/* ---- Sending ---- */

/* The connection has failed. The functions that are running go on: a poll ends
 * it. */
static void netmod_break(struct netmod_link *link)
{
    link->broken = hg_netmod.stalled = true;
}

static void netmod_complete(
    struct netmod_link *link, MPID_Request *sreq, bool failed)
{
    if (failed)
        sreq->status.MPI_ERROR = hg_netmod_lost(link->vc);
    hg_netmod_note(MPID_Request_complete(sreq));
}

/* The data that a request described was sent. Returns whether it has more data,
 * which its iov describes now; else it is complete. The handler may send on the
 * VC: those sends wait. */
static bool netmod_more(struct netmod_link *link, MPID_Request *sreq)
{
    int complete = 0, mpi_errno;

    if (sreq->dev.OnDataAvail == NULL) {
        netmod_complete(link, sreq, false);
        return false;
    }
    link->busy = true;
    mpi_errno = sreq->dev.OnDataAvail(link->vc, sreq, &complete);
    link->busy = false;
    if (mpi_errno != MPI_SUCCESS)
        netmod_break(link);
    hg_netmod_note(mpi_errno);
    hg_netmod.count.more += complete == 0;
    return complete == 0;
}

/* Add a piece unless it is empty. */
static void netmod_add(
    struct na_segment *pieces, unsigned *count, void *data, MPI_Aint size)
{
    if (size > 0) {
        pieces[*count].address = data;
        pieces[(*count)++].size = (na_size_t) size;
    }
}

/* Add the iov of a request. */
static void netmod_add_iov(
    struct na_segment *pieces, unsigned *count, const MPL_IOV *iov, int n)
{
    int i;

    for (i = 0; i < n; i++)
        netmod_add(
            pieces, count, iov[i].MPL_IOV_BUF, (MPI_Aint) iov[i].MPL_IOV_LEN);
}

static size_t netmod_size(const struct na_segment *pieces, unsigned count)
{
    size_t size = 0;

    while (count > 0)
        size += (size_t) pieces[--count].size;
    return size;
}

/* Send a message of `size` bytes: `count` pieces from message[1] on. */
static na_return_t netmod_post(struct netmod_link *link,
    struct na_segment *message, unsigned count, size_t size)
{
    na_return_t ret;

    message[0].address = &link->header;
    message[0].size = sizeof(link->header);
    ret = NA_Msg_try_sendv_unexpected(hg_netmod.na_class, hg_netmod.context,
        message, count + 1, link->addr, 0);
    if (ret != NA_SUCCESS)
        return ret;
    link->header.number++;
    hg_netmod.count.messages++;
    hg_netmod.count.bytes += size;
    return NA_SUCCESS;
}

/* Tell the root who connects: the tag of its port and the own address. */
static na_return_t netmod_greet(struct netmod_link *link)
{
    int32_t tag = link->vc->port_name_tag;
    struct na_segment message[3];
    na_return_t ret;

    message[1].address = &tag;
    message[1].size = sizeof(tag);
    message[2].address = hg_netmod.name;
    message[2].size = strlen(hg_netmod.name) + 1;
    link->header.rank = NETMOD_CONNECT;
    ret = netmod_post(link, message, 2, netmod_size(message + 1, 2));
    link->header.rank = NETMOD_TO_ROOT;
    return ret;
}

/* Send the pieces from *first_p on. False: not all of them, but *first_p and
 * its piece tell where to go on. */
static bool netmod_write(struct netmod_link *link, struct na_segment *pieces,
    unsigned count, unsigned *first_p)
{
    struct na_segment message[NETMOD_PIECES + 1];
    na_return_t ret = NA_SUCCESS;

    if (link->state != NETMOD_READY || link->broken)
        return false;
    if (link->header.rank == NETMOD_TO_ROOT && link->header.number == 0)
        ret = netmod_greet(link);
    while (*first_p < count && ret == NA_SUCCESS) {
        size_t left = hg_netmod.part_max;
        struct na_segment *last;
        unsigned n = 0;

        for (; *first_p + n < count && left > 0; n++) {
            message[n + 1] = pieces[*first_p + n];
            if (message[n + 1].size > left)
                message[n + 1].size = left;
            left -= (size_t) message[n + 1].size;
        }
        ret = netmod_post(link, message, n, hg_netmod.part_max - left);
        if (ret != NA_SUCCESS)
            break;
        last = &pieces[*first_p + n - 1]; /* it may be left in part */
        last->address = (char *) last->address + message[n].size;
        last->size -= message[n].size;
        *first_p += last->size > 0 ? n - 1 : n;
    }
    if (ret == NA_AGAIN)
        hg_netmod.stalled = true;
    else if (ret != NA_SUCCESS)
        netmod_break(link);
    return ret == NA_SUCCESS;
}

/* Close the connection: the VC is as after vc_init. NA keeps its own one, which
 * other VCs may use, too. */
static void netmod_close(struct netmod_link *link)
{
    netmod_free_addr(link);
    link->state = NETMOD_IDLE;
    link->header.number = 0;
    link->terminating = link->broken = false;
}

static void netmod_closed(struct netmod_link *link)
{
    netmod_close(link);
    if (link->vc == NULL)
        return; /* it was destroyed */
    hg_netmod.count.terminated++;
    hg_netmod_note(
        MPIDI_CH3U_Handle_connection(link->vc, MPIDI_VC_EVENT_TERMINATED));
}

/* Send what waits as far as that is possible. A terminated VC is closed when
 * nothing waits. */
static void netmod_pump(struct netmod_link *link)
{
    struct netmod_send *send;

    while ((send = link->head) != NULL && !link->busy) {
        if (!netmod_write(link, send->rest, send->count, &send->first)) {
            if (link->state == NETMOD_IDLE && !link->broken)
                hg_netmod_resolve(link);
            return;
        }
        if (send->sreq != NULL && netmod_more(link, send->sreq)) {
            send->first = send->count = 0;
            netmod_add_iov(send->rest, &send->count, send->sreq->dev.iov,
                send->sreq->dev.iov_count);
            continue;
        }
        link->head = send->next;
        free(send);
    }
    if (link->terminating && !link->busy && !link->broken &&
        link->state != NETMOD_LOOKUP)
        netmod_closed(link);
}

/* Queue a send, behind the others or in front. A small one is copied: nobody
 * may know when its memory can be used again. */
static int netmod_enqueue(struct netmod_link *link, MPID_Request *sreq,
    const struct na_segment *pieces, unsigned count, bool first)
{
    size_t size = netmod_size(pieces, count);
    bool copies = size <= NETMOD_COPY;
    struct netmod_send *send =
        (struct netmod_send *) malloc(sizeof(*send) + (copies ? size : 0));
    struct netmod_send **at = &link->head;
    char *to;
    unsigned i;

    if (send == NULL)
        return hg_netmod_error("no memory for a send");
    send->sreq = sreq;
    send->first = 0;
    send->count = count;
    for (i = 0, to = send->copy; i < count; i++) {
        send->rest[i] = pieces[i];
        if (!copies)
            continue;
        send->rest[i].address = to;
        memcpy(to, pieces[i].address, (size_t) pieces[i].size);
        to += pieces[i].size;
    }
    if (!first && *at != NULL)
        at = &link->tail->next;
    send->next = *at;
    *at = send;
    if (send->next == NULL)
        link->tail = send;
    if (link->state == NETMOD_IDLE)
        netmod_pump(link);
    return MPI_SUCCESS;
}

/* Whether nothing has to be sent before. */
static bool netmod_is_free(const struct netmod_link *link)
{
    return link->head == NULL && !link->busy;
}

/* Send what the pieces describe, then what OnDataAvail adds. */
static int netmod_send(struct netmod_link *link, MPID_Request *sreq,
    struct na_segment pieces[NETMOD_PIECES], unsigned count)
{
    /* If it waits, it comes before what its OnDataAvail has sent. */
    bool first = netmod_is_free(link);
    unsigned sent = 0;

    while (first && netmod_write(link, pieces, count, &sent)) {
        if (!netmod_more(link, sreq)) {
            netmod_pump(link); /* what the handler sent */
            return MPI_SUCCESS;
        }
        sent = count = 0;
        netmod_add_iov(pieces, &count, sreq->dev.iov, sreq->dev.iov_count);
    }
    return netmod_enqueue(link, sreq, pieces + sent, count - sent, first);
}

/* The header of a send, which all have the same size, in the request. */
static struct na_segment netmod_header_of(
    MPID_Request *sreq, const void *hdr, MPIDI_msg_sz_t hdr_sz)
{
    struct na_segment piece = {
        &sreq->dev.pending_pkt, sizeof(sreq->dev.pending_pkt)};

    if (hdr != piece.address) {
        memset(piece.address, 0, sizeof(sreq->dev.pending_pkt));
        memcpy(piece.address, hdr, (size_t) hdr_sz);
    }
    return piece;
}

static int iSendContig(MPIDI_VC_t *vc, MPID_Request *sreq, void *hdr,
    MPIDI_msg_sz_t hdr_sz, void *data, MPIDI_msg_sz_t data_sz)
{
    struct na_segment pieces[NETMOD_PIECES];
    unsigned count = 1;

    sreq->ch.vc = vc;
    pieces[0] = netmod_header_of(sreq, hdr, hdr_sz);
    netmod_add(pieces, &count, sreq->dev.ext_hdr_ptr, sreq->dev.ext_hdr_sz);
    netmod_add(pieces, &count, data, data_sz);
    return netmod_send(hg_netmod_link_of(vc), sreq, pieces, count);
}

static int iStartContigMsg(MPIDI_VC_t *vc, void *hdr, MPIDI_msg_sz_t hdr_sz,
    void *data, MPIDI_msg_sz_t data_sz, MPID_Request **sreq_ptr)
{
    struct netmod_link *link = hg_netmod_link_of(vc);
    struct na_segment pieces[NETMOD_PIECES];
    MPIDI_CH3_Pkt_t pkt;
    unsigned count = 1, sent = 0;
    MPID_Request *sreq;

    *sreq_ptr = NULL;
    memset(&pkt, 0, sizeof(pkt));
    memcpy(&pkt, hdr, (size_t) hdr_sz);
    pieces[0].address = &pkt;
    pieces[0].size = sizeof(pkt);
    netmod_add(pieces, &count, data, data_sz);
    if (netmod_is_free(link) && netmod_write(link, pieces, count, &sent))
        return MPI_SUCCESS;
    sreq = MPID_Request_create();
    if (sreq == NULL)
        return hg_netmod_error("no memory for a request");
    MPIU_Object_set_ref(sreq, 2); /* of the caller, and until it is sent */
    sreq->kind = MPID_REQUEST_SEND;
    sreq->dev.OnDataAvail = NULL;
    sreq->dev.pending_pkt = pkt;
    sreq->ch.vc = vc;
    pieces[0].address = (char *) (&sreq->dev.pending_pkt + 1) - pieces[0].size;
    hg_netmod.count.requests++;
    *sreq_ptr = sreq;
    return netmod_enqueue(link, sreq, pieces + sent, count - sent, false);
}

static int SendNoncontig(
    MPIDI_VC_t *vc, MPID_Request *sreq, void *header, MPIDI_msg_sz_t hdr_sz)
{
    struct na_segment pieces[NETMOD_PIECES];
    MPL_IOV iov[MPL_IOV_LIMIT];
    int mpi_errno, n = MPL_IOV_LIMIT;
    unsigned count = 1;

    sreq->ch.vc = vc;
    pieces[0] = netmod_header_of(sreq, header, hdr_sz);
    netmod_add(pieces, &count, sreq->dev.ext_hdr_ptr, sreq->dev.ext_hdr_sz);
    mpi_errno = MPIDI_CH3U_Request_load_send_iov(sreq, iov, &n);
    if (mpi_errno != MPI_SUCCESS)
        return mpi_errno;
    netmod_add_iov(pieces, &count, iov, n);
    return netmod_send(hg_netmod_link_of(vc), sreq, pieces, count);
}

/* ---- Connections ---- */

/* The address in a business card. */
static int netmod_read_card(const char *card, char name[NA_MAX_ADDR_LEN])
{
    return MPIU_Str_get_string_arg(card, NETMOD_KEY, name, NA_MAX_ADDR_LEN) ==
            MPIU_STR_SUCCESS
        ? MPI_SUCCESS
        : hg_netmod_error("a business card has no address of hg");
}

/* The connection has ended, or the watch was canceled: a later one counts. */
static na_return_t netmod_parted(const struct na_cb_info *info)
{
    struct netmod_link *link = (struct netmod_link *) info->arg;

    if (--link->watches == 0 && link->state == NETMOD_READY) {
        link->watch = NA_OP_ID_NULL;
        netmod_break(link);
    }
    hg_netmod_unref(link);
    return NA_SUCCESS;
}

/* NA reports the end of a peer to a receive from it. Nothing is sent to this
 * one. */
static void netmod_watch(struct netmod_link *link)
{
    if (NA_Msg_recv_expected(hg_netmod.na_class, hg_netmod.context,
            netmod_parted, link, &link->byte, 1, link->addr, 0,
            &link->watch) != NA_SUCCESS) {
        netmod_break(link);
        return;
    }
    link->watches++;
    (void) hg_netmod_ref(link);
}

static na_return_t netmod_found(const struct na_cb_info *info)
{
    struct netmod_link *link = (struct netmod_link *) info->arg;

    if (link->state != NETMOD_LOOKUP) { /* it has failed meanwhile */
        if (info->ret == NA_SUCCESS)
            (void) NA_Addr_free(hg_netmod.na_class, info->info.lookup.addr);
    } else if (info->ret != NA_SUCCESS) {
        link->state = NETMOD_IDLE;
        netmod_break(link);
    } else {
        link->state = NETMOD_READY;
        link->addr = info->info.lookup.addr;
        netmod_watch(link);
        netmod_pump(link);
        hg_netmod_lmt_continue(link);
    }
    hg_netmod_unref(link);
    return NA_SUCCESS;
}

void hg_netmod_resolve(struct netmod_link *link)
{
    char card[NETMOD_CARD_MAX], name[NA_MAX_ADDR_LEN];
    MPIDI_PG_t *pg = link->vc != NULL ? link->vc->pg : NULL;
    int mpi_errno = MPI_SUCCESS;

    memcpy(name, link->name, sizeof(name));
    if (name[0] == '\0' && pg != NULL) {
        mpi_errno = pg->getConnInfo(link->vc->pg_rank, card, sizeof(card), pg);
        if (mpi_errno == MPI_SUCCESS)
            mpi_errno = netmod_read_card(card, name);
    }
    hg_netmod_note(mpi_errno);
    link->state = NETMOD_LOOKUP;
    (void) hg_netmod_ref(link);
    hg_netmod.count.lookups++;
    if (mpi_errno != MPI_SUCCESS ||
        NA_Addr_lookup(hg_netmod.na_class, hg_netmod.context, netmod_found,
            link, name, NA_OP_ID_IGNORE) != NA_SUCCESS) {
        link->state = NETMOD_IDLE;
        netmod_break(link);
        hg_netmod_unref(link);
    }
}

/* End the connection of a VC: its requests fail. An operation that NA still
 * has ends when NA has finished with it. */
static void netmod_fail(struct netmod_link *link)
{
    struct netmod_send *send;

    while ((send = link->head) != NULL) {
        link->head = send->next;
        if (send->sreq != NULL)
            netmod_complete(link, send->sreq, true);
        free(send);
    }
    hg_netmod_lmt_fail(link);
    netmod_closed(link);
}

/* ---- Receiving ---- */

/* The link of a message: of a rank of a group, or of a connection without. */
static struct netmod_link *netmod_link_from(const struct netmod_header *header)
{
    struct netmod_link *link = hg_netmod.links;
    MPIDI_PG_t *pg = hg_netmod.pg;
    MPIDI_VC_t *vc;

    if (header->rank >= NETMOD_CONNECT) {
        while (link != NULL &&
            (link->vc == NULL || link->from != header->id ||
                link->from_rank != header->rank))
            link = link->next;
        return link;
    }
#ifdef HG_NEMESIS_MPICH
    if (header->id != hg_netmod.id) {
        MPIDI_PG_iterator iterator;

        MPIDI_PG_Get_iterator(&iterator);
        do
            MPIDI_PG_Get_next(&iterator, &pg);
        while (pg != NULL && netmod_hash((const char *) pg->id) != header->id);
    }
#else
    if (header->id != hg_netmod.id)
        pg = NULL;
#endif
    if (pg == NULL || header->rank >= (uint32_t) pg->size)
        return NULL;
    MPIDI_PG_Get_vc_set_active(pg, (int) header->rank, &vc);
    return hg_netmod_link_of(vc);
}

/* Another process connects to a port of this one. */
static int netmod_accept(
    const struct netmod_header *header, const char *data, size_t size)
{
    struct netmod_link *link;
    MPIDI_VC_t *vc;
    int32_t tag;

    if (size <= sizeof(tag) || size - sizeof(tag) > sizeof(link->name) ||
        data[size - 1] != '\0')
        return hg_netmod_error("a request to connect is malformed");
    vc = (MPIDI_VC_t *) malloc(sizeof(*vc));
    if (vc == NULL)
        return hg_netmod_error("no memory for a connection");
    memcpy(&tag, data, sizeof(tag));
    (void) MPIDI_VC_Init(vc, NULL, 0);
    vc->port_name_tag = tag;
    link = hg_netmod_link_of(vc);
    memcpy(link->name, data + sizeof(tag), size - sizeof(tag));
    link->header.id = link->from = header->id;
    link->header.rank = NETMOD_TO_CLIENT;
    link->from_rank = NETMOD_TO_ROOT;
    link->expected = 1;
    MPIDI_CHANGE_VC_STATE(vc, ACTIVE);
    (void) MPIDI_CH3I_Acceptq_enqueue(vc, tag);
#ifdef HG_NEMESIS_MPICH
    MPIDI_CH3I_INCR_PROGRESS_COMPLETION_COUNT;
#endif
    return MPI_SUCCESS;
}

static int netmod_arrived(char *data, size_t size)
{
    struct netmod_header header;
    struct netmod_link *link;

    if (size <= sizeof(header))
        return hg_netmod_error("a message is too short");
    memcpy(&header, data, sizeof(header));
    data += sizeof(header);
    size -= sizeof(header);
    hg_netmod.count.received++;
    hg_netmod.count.received_bytes += size;
    if (header.rank == NETMOD_CONNECT)
        return netmod_accept(&header, data, size);
    link = netmod_link_from(&header);
    if (link == NULL || link->vc == NULL)
        return hg_netmod_error("a message from an unknown process");
    if (header.number != link->expected &&
        (header.number != 0 || link->vc->ch.recv_active != NULL ||
            link->vc->ch.pending_pkt_len > 0))
        return hg_netmod_error("a message was lost");
    link->expected = header.number + 1;
    return MPID_nem_handle_pkt(link->vc, data, (MPIDI_msg_sz_t) size);
}

static na_return_t netmod_post_recv(char *buf);

static na_return_t netmod_received(const struct na_cb_info *info)
{
    char *buf = (char *) info->arg;

    if (info->ret != NA_SUCCESS) {
        hg_netmod_note(hg_netmod_error(NA_Error_to_string(info->ret)));
    } else {
        (void) NA_Addr_free(
            hg_netmod.na_class, info->info.recv_unexpected.source);
        hg_netmod_note(netmod_arrived(
            buf, (size_t) info->info.recv_unexpected.actual_buf_size));
    }
    if (netmod_post_recv(buf) != NA_SUCCESS)
        hg_netmod_note(hg_netmod_error("cannot receive"));
    return NA_SUCCESS;
}

static na_return_t netmod_post_recv(char *buf)
{
    return NA_Msg_recv_unexpected(hg_netmod.na_class, hg_netmod.context,
        netmod_received, buf, buf,
        NA_Msg_get_max_unexpected_size(hg_netmod.na_class), NA_OP_ID_IGNORE);
}

/* ---- Progress ---- */

/* Try again what NA refused. End the connections that have failed when all that
 * has arrived was handled, so that the end of a peer is its last event. */
static void netmod_push(void)
{
    struct netmod_link *link, *next;

    if (!hg_netmod.stalled)
        return;
    hg_netmod.stalled = false;
    for (link = hg_netmod.links; link != NULL; link = next) {
        (void) hg_netmod_ref(link);
        if (link->broken && (link->busy || hg_netmod.idle == 0))
            hg_netmod.stalled = true;
        else if (link->broken)
            netmod_fail(link);
        netmod_pump(link);
        hg_netmod_lmt_continue(link);
        next = link->next;
        hg_netmod_unref(link);
    }
}

/* Receive, and run callbacks. `waits`: if nothing comes for a while, sleep for
 * a millisecond, or until something comes. */
static void netmod_progress(bool waits)
{
    bool idle = hg_netmod.idle > NETMOD_YIELD;
    unsigned count = 0;

    hg_netmod.progressing = true;
    waits = waits && hg_netmod.idle > NETMOD_SLEEP &&
        !hg_netmod.stalled; /* NA_Progress() does not end then */
    (void) NA_Progress(hg_netmod.na_class, hg_netmod.context, waits ? 1 : 0);
    (void) NA_Trigger(hg_netmod.context, 0, NETMOD_RECVS, &count);
    hg_netmod.progressing = false;
    hg_netmod.idle = count > 0 ? 0 : hg_netmod.idle + 1;
    if (idle && !waits)
        (void) sched_yield(); /* others may need the processor */
}

static int netmod_poll(MPID_nem_poll_dir_t in_or_out, bool waits)
{
    int mpi_errno;

    if (hg_netmod.progressing || hg_netmod.context == NULL)
        return MPI_SUCCESS; /* CH3 polls inside a handler of a packet */
    if (in_or_out == MPID_NEM_POLL_OUT)
        netmod_push();
    netmod_progress(waits);
    if (in_or_out == MPID_NEM_POLL_IN)
        netmod_push();
    mpi_errno = hg_netmod.mpi_errno;
    hg_netmod.mpi_errno = MPI_SUCCESS;
    return mpi_errno;
}

#ifdef HG_NEMESIS_MPICH
/* MPICH 3.2.1 has another argument: whether the caller waits for something. It
 * may wait for other processes of the node, too, or for another thread. */
static int MPID_nem_net_module_poll(int in_blocking_poll)
{
    return netmod_poll(MPID_NEM_POLL_IN,
        in_blocking_poll && MPID_nem_mem_region.num_local == 1 &&
            !MPIR_ThreadInfo.isThreaded);
}
#else
static int MPID_nem_net_module_poll(MPID_nem_poll_dir_t in_or_out)
{
    return netmod_poll(in_or_out, true);
}
#endif

/* ---- Life cycle ---- */

static int MPID_nem_net_module_get_business_card(
    int my_rank, char **bc_val_p, int *val_max_sz_p)
{
    (void) my_rank;
    return MPIU_Str_add_string_arg(bc_val_p, val_max_sz_p, NETMOD_KEY,
               hg_netmod.name) == MPIU_STR_SUCCESS
        ? MPI_SUCCESS
        : hg_netmod_error("the business card is too long");
}

/* Open the class, and post its receives. `silence` is in seconds. */
static na_return_t netmod_open(size_t silence)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    const char *address = getenv("HG_NEMESIS_ADDRESS");
    na_addr_t self = NA_ADDR_NULL;
    na_return_t ret = NA_SUCCESS;
    size_t max;
    unsigned i;

    if (silence == 0 || silence > UINT_MAX / 1000)
        silence = NETMOD_SILENCE;
    info.lookup_ms = (unsigned) silence * 1000;
    info.max_unexpected_size =
        sizeof(struct netmod_header) + sizeof(MPIDI_CH3_Pkt_t) + NETMOD_DATA;
    hg_netmod.na_class =
        NA_Initialize_opt(address != NULL ? address : "sm://", NA_TRUE, &info);
    if (hg_netmod.na_class == NULL)
        return NA_FAULT; /* the log says why */
    hg_netmod.context = NA_Context_create(hg_netmod.na_class);
    if (hg_netmod.context == NULL)
        return NA_FAULT;
    max = (size_t) NA_Msg_get_max_unexpected_size(hg_netmod.na_class);
    if (hg_netmod.part_max == 0 ||
        hg_netmod.part_max > max - sizeof(struct netmod_header))
        hg_netmod.part_max = max - sizeof(struct netmod_header);
    ret = NA_Addr_self(hg_netmod.na_class, &self);
    if (ret == NA_SUCCESS)
        ret = NA_Addr_to_string(
            hg_netmod.na_class, hg_netmod.name, sizeof(hg_netmod.name), self);
    if (self != NA_ADDR_NULL)
        (void) NA_Addr_free(hg_netmod.na_class, self);
    hg_netmod.bufs = (char **) calloc(NETMOD_RECVS, sizeof(*hg_netmod.bufs));
    if (hg_netmod.bufs == NULL)
        ret = NA_NOMEM;
    for (i = 0; i < NETMOD_RECVS && ret == NA_SUCCESS; i++) {
        hg_netmod.bufs[i] = (char *) malloc(max);
        ret = hg_netmod.bufs[i] != NULL ? netmod_post_recv(hg_netmod.bufs[i])
                                        : NA_NOMEM;
    }
    return ret;
}

/* Whether a connection has begun something that it cannot begin again. */
static bool netmod_has_begun(const struct netmod_link *link)
{
    return link->state == NETMOD_READY &&
        (link->head != NULL || link->lmts != NULL);
}

static bool netmod_have_begun(void)
{
    const struct netmod_link *link = hg_netmod.links;

    while (link != NULL && !netmod_has_begun(link))
        link = link->next;
    return link != NULL;
}

/* Close the network. Sends and transfers that have begun may take
 * NETMOD_LINGER, then they fail. Each VC is as after vc_init, and keeps sends
 * that have not begun.
 * MPID_nem_net_module_init() opens the network again. */
static int MPID_nem_net_module_ckpt_shutdown(void)
{
    time_t end = time(NULL) + NETMOD_LINGER;
    struct netmod_link *link, *next;
    na_return_t ret = NA_SUCCESS;
    unsigned i;

    while (netmod_have_begun() && time(NULL) < end)
        (void) netmod_poll(MPID_NEM_POLL_OUT, true);
    if (hg_netmod.context != NULL)
        (void) NA_Context_destroy(hg_netmod.na_class, hg_netmod.context);
    hg_netmod.context = NULL;
    for (link = hg_netmod.links; link != NULL; link = next) {
        (void) hg_netmod_ref(link);
        link->watch = NA_OP_ID_NULL;
        link->watches = 0;
        if (netmod_has_begun(link))
            netmod_fail(link);
        netmod_close(link);
        next = link->next;
        link->refs = link->vc != NULL ? 2 : 1; /* NA has no operation now */
        hg_netmod_unref(link);
    }
    hg_netmod.stalled = true; /* init() is followed by polls */
    if (hg_netmod.na_class != NULL)
        ret = NA_Finalize(hg_netmod.na_class);
    hg_netmod.na_class = NULL;
    for (i = 0; i < NETMOD_RECVS && hg_netmod.bufs != NULL; i++)
        free(hg_netmod.bufs[i]);
    free(hg_netmod.bufs);
    hg_netmod.bufs = NULL;
    return ret == NA_SUCCESS ? MPI_SUCCESS
                             : hg_netmod_error(NA_Error_to_string(ret));
}

static int MPID_nem_net_module_init(
    MPIDI_PG_t *pg_p, int pg_rank, char **bc_val_p, int *val_max_sz_p)
{
    const char *mode = getenv("HG_NEMESIS_LMT");
    size_t silence = NETMOD_SILENCE;

    hg_netmod.pg = pg_p;
    hg_netmod.id = netmod_hash((const char *) pg_p->id);
    hg_netmod.rank = pg_rank;
    hg_netmod.mode = mode != NULL ? mode[0] : 'g';
    hg_netmod.section = hg_netmod.part_max = 0;
    if (strchr("ngpc", hg_netmod.mode) == NULL || hg_netmod.mode == '\0')
        return hg_netmod_error(
            "HG_NEMESIS_LMT is null, get, put or cooperative");
    if (netmod_number("HG_NEMESIS_SECTION", &hg_netmod.section) !=
            MPI_SUCCESS ||
        netmod_number("HG_NEMESIS_FRAGMENT", &hg_netmod.part_max) !=
            MPI_SUCCESS ||
        netmod_number("HG_NEMESIS_SILENCE", &silence) != MPI_SUCCESS)
        return MPI_ERR_OTHER;
    if (netmod_open(silence) != NA_SUCCESS) {
        (void) MPID_nem_net_module_ckpt_shutdown();
        return hg_netmod_error("cannot open the network");
    }
    return MPID_nem_net_module_get_business_card(
        pg_rank, bc_val_p, val_max_sz_p);
}

/* Append the counters to the file that HG_NEMESIS_STATS names. */
static void netmod_write_stats(void)
{
    const char *path = getenv("HG_NEMESIS_STATS");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;

    if (file == NULL)
        return;
    (void) fprintf(file,
        "hg_netmod: rank %d: %s: sent %" PRIu64 " messages, %" PRIu64
        " bytes, %" PRIu64 " requests, %" PRIu64 " more; received %" PRIu64
        " messages, %" PRIu64 " bytes; moved %" PRIu64 " bytes, %" PRIu64
        " gets, %" PRIu64 " puts, %" PRIu64 " cookies, %" PRIu64
        " done; %" PRIu64 " lookups, %" PRIu64 " terminated\n",
        hg_netmod.rank, hg_netmod.name, hg_netmod.count.messages,
        hg_netmod.count.bytes, hg_netmod.count.requests, hg_netmod.count.more,
        hg_netmod.count.received, hg_netmod.count.received_bytes,
        hg_netmod.count.moved, hg_netmod.count.gets, hg_netmod.count.puts,
        hg_netmod.count.cookies, hg_netmod.count.done, hg_netmod.count.lookups,
        hg_netmod.count.terminated);
    (void) fclose(file);
}

static int MPID_nem_net_module_finalize(void)
{
    int mpi_errno = MPID_nem_net_module_ckpt_shutdown();

    netmod_write_stats();
    memset(&hg_netmod.count, 0, sizeof(hg_netmod.count));
    return mpi_errno;
}

/* One stream for each VC, and NA keeps the order: packets do not overtake each
 * other. */
static int MPID_nem_net_module_get_ordering(int *ordering)
{
    *ordering = 1;
    return MPI_SUCCESS;
}

/* Without a card, the group of the VC is asked for it when it is needed. */
static int MPID_nem_net_module_vc_init(
    MPIDI_VC_t *vc, const char *business_card)
{
    struct netmod_link *link = (struct netmod_link *) calloc(1, sizeof(*link));

    if (link == NULL)
        return hg_netmod_error("no memory for a connection");
    if (business_card != NULL &&
        netmod_read_card(business_card, link->name) != MPI_SUCCESS) {
        free(link);
        return MPI_ERR_OTHER;
    }
    link->vc = vc;
    link->refs = 1;
    link->header.id = hg_netmod.id;
    link->header.rank = (uint32_t) hg_netmod.rank;
    link->next = hg_netmod.links;
    link->prev = &hg_netmod.links;
    if (link->next != NULL)
        link->next->prev = &link->next;
    hg_netmod.links = link;
#ifdef HG_NEMESIS_MPICH
    /* The limit counts the header: let data of its whole size be eager. */
    if (vc->eager_max_msg_sz <= INT_MAX - (int) sizeof(MPIDI_CH3_Pkt_t))
        vc->eager_max_msg_sz += (int) sizeof(MPIDI_CH3_Pkt_t);
#endif
    vc->sendNoncontig_fn = SendNoncontig;
    vc->ch.iStartContigMsg = iStartContigMsg;
    vc->ch.iSendContig = iSendContig;
    hg_netmod_lmt_init(vc);
    vc->ch.netmod_area.align_helper = link;
    return MPI_SUCCESS;
}

/* Sends and transfers in progress fail; the link is freed when NA has finished
 * with it. There was no vc_init for a process that shares memory with this
 * one. */
static int MPID_nem_net_module_vc_destroy(MPIDI_VC_t *vc)
{
    struct netmod_link *link = hg_netmod_link_of(vc);

    if (vc->ch.is_local)
        return MPI_SUCCESS;
    link->vc = NULL;
    netmod_fail(link);
    hg_netmod_unref(link);
    vc->ch.netmod_area.align_helper = NULL;
    return MPI_SUCCESS;
}

/* CH3 has closed the VC, or gives it up after a failure. */
static int MPID_nem_net_module_vc_terminate(MPIDI_VC_t *vc)
{
    struct netmod_link *link = hg_netmod_link_of(vc);

    link->terminating = true;
    if (vc->state != MPIDI_VC_STATE_CLOSED)
        netmod_break(link);
    netmod_pump(link);
    return MPI_SUCCESS;
}

static int MPID_nem_net_module_connect_to_root(
    const char *business_card, MPIDI_VC_t *new_vc)
{
    struct netmod_link *link = hg_netmod_link_of(new_vc);
    int mpi_errno = netmod_read_card(business_card, link->name);

    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = MPIDI_GetTagFromPort(business_card, &new_vc->port_name_tag);
    if (mpi_errno != MPI_SUCCESS)
        return mpi_errno;
    link->header.id = link->from =
        netmod_hash(hg_netmod.name) + ++hg_netmod.connections;
    link->header.rank = NETMOD_TO_ROOT;
    link->from_rank = NETMOD_TO_CLIENT;
    MPIDI_CHANGE_VC_STATE(new_vc, ACTIVE);
    return netmod_enqueue(link, NULL, NULL, 0, false); /* netmod_greet() */
}

/* ---- The table ---- */

#ifdef HG_NEMESIS_MPICH

static int netmod_vc_init(MPIDI_VC_t *vc)
{
    return MPID_nem_net_module_vc_init(vc, NULL);
}

MPID_nem_netmod_funcs_t MPIDI_nem_hg_funcs = {.init = MPID_nem_net_module_init,
    .finalize = MPID_nem_net_module_finalize,
    .poll = MPID_nem_net_module_poll,
    .get_business_card = MPID_nem_net_module_get_business_card,
    .connect_to_root = MPID_nem_net_module_connect_to_root,
    .vc_init = netmod_vc_init,
    .vc_destroy = MPID_nem_net_module_vc_destroy,
    .vc_terminate = MPID_nem_net_module_vc_terminate,
    .get_ordering = MPID_nem_net_module_get_ordering};

#else

MPID_nem_netmod_funcs_t MPIDI_nem_hg_funcs = {.init = MPID_nem_net_module_init,
    .finalize = MPID_nem_net_module_finalize,
    .ckpt_shutdown = MPID_nem_net_module_ckpt_shutdown,
    .poll = MPID_nem_net_module_poll,
    .get_business_card = MPID_nem_net_module_get_business_card,
    .connect_to_root = MPID_nem_net_module_connect_to_root,
    .vc_init = MPID_nem_net_module_vc_init,
    .vc_destroy = MPID_nem_net_module_vc_destroy,
    .vc_terminate = MPID_nem_net_module_vc_terminate,
    .get_ordering = MPID_nem_net_module_get_ordering};

#endif
