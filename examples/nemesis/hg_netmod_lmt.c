/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_netmod_lmt: large message transfers of hg_netmod.
 *
 * One side exposes windows of memory, and the other one moves the data. In the
 * mode Get the sender exposes, in Put and Cooperative the receiver.
 *
 *     exposes                                       moves
 *     RTS or CTS with the first window  --------->
 *                                                   NA_Get or NA_Put
 *     (next window)  <--------- COOKIE NETMOD_MOVED
 *     COOKIE NETMOD_WINDOW  --------------------->
 *                                                   ...
 *                     <-------- DONE; in Cooperative the last NETMOD_MOVED
 *
 * A window is a part of the user's memory: all of it if it is contiguous and
 * HG_NEMESIS_SECTION is not set. Each window has a memory handle of its own, so
 * that the cookies change. Noncontiguous data is packed into a buffer, or
 * unpacked from one, window by window. In Cooperative the windows are two such
 * buffers of the receiver: one is emptied while the other one is filled.
 */
#include "hg_netmod.h"

#include <stdlib.h>
#include <string.h>

#define NETMOD_BUFFER ((size_t) 1 << 20) /* a window of packed data */
#define NETMOD_COOKIE_MAX 2048

/* The kind of a cookie, which begins it: in a COOKIE, an RTS or a CTS. */
enum netmod_kind {
    NETMOD_WINDOW, /* exposes `size` bytes from `offset` on; a handle follows */
    NETMOD_SHARED, /* the same, in the mode Cooperative */
    NETMOD_MOVED,  /* a window was filled, or emptied */
    NETMOD_FAILED
};
struct netmod_cookie {
    uint64_t kind;
    uint64_t offset; /* in the data */
    uint64_t size;
};

struct netmod_window {
    char *buffer; /* of packed data; NULL: the memory of the user */
    na_mem_handle_t handle;
    uint64_t offset, size;
};

/* A large transfer. */
struct netmod_lmt {
    struct netmod_lmt *next, **prev; /* of the link */
    struct netmod_link *link;
    MPID_Request *req;
    bool sends;       /* the data, or receives it */
    bool exposes;     /* or moves it */
    bool cooperative; /* exposes two windows */
    char *user;       /* contiguous memory; NULL: the data is packed */
    MPID_Segment *segment;
    uint64_t total;
    uint64_t exposed;                /* bytes that were in a window */
    uint64_t moved;                  /* bytes that have arrived, or were sent */
    struct netmod_window windows[2]; /* own ones, or those of the peer */
    unsigned count;                  /* windows of the peer */
    char *buffer;                    /* of the side that moves packed data */
    na_mem_handle_t local;
    uint64_t piece; /* bytes of the operation in progress */
    int mpi_errno;  /* the transfer ends when the operation has */
};

static int netmod_lmt_move(struct netmod_lmt *lmt);

static struct netmod_lmt *netmod_lmt_of(const MPID_Request *req)
{
    return (struct netmod_lmt *) req->ch.netmod_area.align_helper;
}

static void netmod_lmt_free(struct netmod_lmt *lmt)
{
    unsigned i;

    *lmt->prev = lmt->next;
    if (lmt->next != NULL)
        lmt->next->prev = lmt->prev;
    for (i = 0; i < 2; i++) {
        if (lmt->windows[i].handle != NA_MEM_HANDLE_NULL)
            (void) NA_Mem_handle_free(
                hg_netmod.na_class, lmt->windows[i].handle);
        free(lmt->windows[i].buffer);
    }
    if (lmt->local != NA_MEM_HANDLE_NULL)
        (void) NA_Mem_handle_free(hg_netmod.na_class, lmt->local);
    if (lmt->segment != NULL)
        MPID_Segment_free(lmt->segment);
    free(lmt->buffer);
    hg_netmod_unref(lmt->link);
    free(lmt);
}

/* End a transfer, and its request. */
static void netmod_lmt_end(struct netmod_lmt *lmt, int mpi_errno)
{
    MPID_Request *req = lmt->req;

    lmt->mpi_errno = mpi_errno;
    if (lmt->piece > 0 && hg_netmod.context != NULL)
        return; /* NA uses the memory: netmod_lmt_moved() ends it */
    req->ch.netmod_area.align_helper = NULL;
    netmod_lmt_free(lmt);
    if (mpi_errno != MPI_SUCCESS)
        req->status.MPI_ERROR = mpi_errno;
    hg_netmod_note(MPID_Request_complete(req));
}

/* Begin a transfer of `total` bytes of the memory of a request. */
static struct netmod_lmt *netmod_lmt_new(MPIDI_VC_t *vc, MPID_Request *req,
    bool sends, bool exposes, bool cooperative, MPIDI_msg_sz_t total)
{
    struct netmod_lmt *lmt = (struct netmod_lmt *) calloc(1, sizeof(*lmt));
    struct netmod_link *link = hg_netmod_link_of(vc);
    MPID_Datatype *type;
    MPIDI_msg_sz_t size;
    MPI_Aint true_lb;
    int contig;

    if (lmt == NULL)
        return NULL;
    MPIDI_Datatype_get_info(
        req->dev.user_count, req->dev.datatype, contig, size, type, true_lb);
    (void) type;
    (void) size;
    lmt->link = hg_netmod_ref(link);
    lmt->req = req;
    lmt->sends = sends;
    lmt->exposes = exposes;
    lmt->cooperative = cooperative;
    lmt->total = (uint64_t) total;
    lmt->next = link->lmts;
    lmt->prev = &link->lmts;
    if (lmt->next != NULL)
        lmt->next->prev = &lmt->next;
    link->lmts = lmt;
    if (contig && !(exposes && cooperative)) {
        lmt->user = (char *) req->dev.user_buf + true_lb;
    } else {
        lmt->segment = MPID_Segment_alloc();
        if (lmt->segment == NULL) {
            netmod_lmt_free(lmt);
            return NULL;
        }
        (void) MPID_Segment_init(req->dev.user_buf, req->dev.user_count,
            req->dev.datatype, lmt->segment, 0);
    }
    req->ch.netmod_area.align_helper = lmt;
    return lmt;
}

/* Pack data into a buffer, or unpack it from there. */
static void netmod_lmt_pack(
    struct netmod_lmt *lmt, uint64_t offset, uint64_t size, char *buffer)
{
    MPI_Aint last = (MPI_Aint) (offset + size);

    if (lmt->sends)
        MPID_Segment_pack(lmt->segment, (MPI_Aint) offset, &last, buffer);
    else
        MPID_Segment_unpack(lmt->segment, (MPI_Aint) offset, &last, buffer);
}

static int netmod_lmt_send_cookie(
    struct netmod_lmt *lmt, uint64_t kind, uint64_t offset, uint64_t size)
{
    struct netmod_cookie cookie = {kind, offset, size};

    hg_netmod.count.cookies++;
    return MPID_nem_lmt_send_COOKIE(
        lmt->link->vc, lmt->req, &cookie, sizeof(cookie));
}

static int netmod_lmt_send_done(MPIDI_VC_t *vc, MPID_Request *req)
{
    int mpi_errno = MPI_SUCCESS;

    MPID_nem_lmt_send_DONE(vc, req);
fn_fail:
    return mpi_errno;
}

/* Expose the next window, and write a cookie for it. Returns its length, or 0:
 * there is no memory. */
static MPIDI_msg_sz_t netmod_lmt_expose(struct netmod_lmt *lmt,
    struct netmod_window *window, struct netmod_cookie *cookie)
{
    na_size_t limit = lmt->user == NULL ? NETMOD_BUFFER : lmt->total, size = 0;
    char *memory;

    if (hg_netmod.section > 0 && limit > hg_netmod.section)
        limit = hg_netmod.section;
    window->offset = lmt->exposed;
    window->size = lmt->total - lmt->exposed;
    if (window->size > limit)
        window->size = limit;
    lmt->exposed += window->size;
    if (lmt->user != NULL && window->handle != NA_MEM_HANDLE_NULL) {
        (void) NA_Mem_handle_free(hg_netmod.na_class, window->handle);
        window->handle = NA_MEM_HANDLE_NULL;
    }
    if (lmt->user == NULL && window->buffer == NULL)
        window->buffer = (char *) malloc((size_t) limit);
    memory = lmt->user != NULL ? lmt->user + window->offset : window->buffer;
    if (memory == NULL)
        return 0;
    if (lmt->sends && lmt->user == NULL)
        netmod_lmt_pack(lmt, window->offset, window->size, memory);
    if (window->handle == NA_MEM_HANDLE_NULL &&
        (NA_Mem_handle_create(hg_netmod.na_class, memory,
             lmt->user != NULL ? window->size : limit,
             lmt->sends ? NA_MEM_READ_ONLY : NA_MEM_WRITE_ONLY,
             &window->handle) != NA_SUCCESS ||
            NA_Mem_register(hg_netmod.na_class, window->handle) != NA_SUCCESS))
        return 0;
    size = NA_Mem_handle_get_serialize_size(hg_netmod.na_class, window->handle);
    if (size == 0 || size > NETMOD_COOKIE_MAX - sizeof(*cookie) ||
        NA_Mem_handle_serialize(
            hg_netmod.na_class, cookie + 1, size, window->handle) != NA_SUCCESS)
        return 0;
    cookie->kind = lmt->cooperative ? NETMOD_SHARED : NETMOD_WINDOW;
    cookie->offset = window->offset;
    cookie->size = window->size;
    return (MPIDI_msg_sz_t) (sizeof(*cookie) + size);
}

/* Expose the next window in the middle of a transfer. */
static int netmod_lmt_go_on(
    struct netmod_lmt *lmt, struct netmod_window *window)
{
    struct netmod_cookie
        cookie[NETMOD_COOKIE_MAX / sizeof(struct netmod_cookie)];
    MPIDI_msg_sz_t size = netmod_lmt_expose(lmt, window, cookie);

    if (size == 0) {
        (void) netmod_lmt_send_cookie(lmt, NETMOD_FAILED, 0, 0);
        netmod_lmt_end(lmt, hg_netmod_error("no memory for a large transfer"));
        return MPI_SUCCESS;
    }
    hg_netmod.count.cookies++;
    return MPID_nem_lmt_send_COOKIE(lmt->link->vc, lmt->req, cookie, size);
}

/* The side that moves has all data, or has sent it. */
static int netmod_lmt_finish(struct netmod_lmt *lmt)
{
    MPIDI_VC_t *vc = lmt->link->vc;
    MPID_Request *req = lmt->req;
    int mpi_errno;

    if (lmt->cooperative && lmt->total > 0)
        mpi_errno = MPI_SUCCESS; /* the last NETMOD_MOVED has ended it */
    else
        mpi_errno = netmod_lmt_send_done(vc, req);
    netmod_lmt_end(lmt, mpi_errno);
    return MPI_SUCCESS;
}

/* NA has moved a piece. */
static na_return_t netmod_lmt_moved(const struct na_cb_info *info)
{
    struct netmod_lmt *lmt = (struct netmod_lmt *) info->arg;
    struct netmod_window *window = &lmt->windows[0];
    uint64_t piece = lmt->piece;
    int mpi_errno = MPI_SUCCESS;

    lmt->piece = 0;
    if (lmt->mpi_errno != MPI_SUCCESS) {
        netmod_lmt_end(lmt, lmt->mpi_errno);
        return NA_SUCCESS;
    }
    if (info->ret == NA_AGAIN) { /* the peer has too many transfers */
        hg_netmod.stalled = true;
        return NA_SUCCESS;
    }
    if (info->ret != NA_SUCCESS) {
        (void) netmod_lmt_send_cookie(lmt, NETMOD_FAILED, 0, 0);
        netmod_lmt_end(lmt, hg_netmod_error(NA_Error_to_string(info->ret)));
        return NA_SUCCESS;
    }
    hg_netmod.count.moved += piece;
    if (!lmt->sends && lmt->user == NULL)
        netmod_lmt_pack(lmt, lmt->moved, piece, lmt->buffer);
    lmt->moved += piece;
    if (lmt->moved == window->offset + window->size ||
        lmt->moved == lmt->total) {
        uint64_t offset = window->offset, size = window->size;

        (void) NA_Mem_handle_free(hg_netmod.na_class, window->handle);
        lmt->windows[0] = lmt->windows[1];
        memset(&lmt->windows[1], 0, sizeof(lmt->windows[1]));
        lmt->count--;
        if (lmt->moved < lmt->total || lmt->cooperative)
            mpi_errno = netmod_lmt_send_cookie(lmt, NETMOD_MOVED, offset, size);
    }
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = lmt->moved == lmt->total ? netmod_lmt_finish(lmt)
                                             : netmod_lmt_move(lmt);
    hg_netmod_note(mpi_errno);
    return NA_SUCCESS;
}

/* Move the next piece, if there is a window for it. */
static int netmod_lmt_move(struct netmod_lmt *lmt)
{
    struct netmod_link *link = lmt->link;
    const struct netmod_window *window = &lmt->windows[0];
    bool packed = lmt->user == NULL;
    uint64_t piece;
    na_return_t ret = NA_SUCCESS;

    if (lmt->exposes || lmt->count == 0 || lmt->piece > 0)
        return MPI_SUCCESS;
    if (link->state != NETMOD_READY || link->broken) {
        if (link->state == NETMOD_IDLE && !link->broken)
            hg_netmod_resolve(link);
        return MPI_SUCCESS; /* netmod_found() goes on */
    }
    piece = window->offset + window->size - lmt->moved;
    if (piece > lmt->total - lmt->moved)
        piece = lmt->total - lmt->moved;
    if (packed && piece > NETMOD_BUFFER)
        piece = NETMOD_BUFFER;
    if (packed && lmt->buffer == NULL)
        lmt->buffer = (char *) malloc(NETMOD_BUFFER);
    if (packed && lmt->buffer == NULL)
        ret = NA_NOMEM;
    if (ret == NA_SUCCESS && lmt->local == NA_MEM_HANDLE_NULL)
        ret = NA_Mem_handle_create(hg_netmod.na_class,
            packed ? lmt->buffer : lmt->user,
            packed ? NETMOD_BUFFER : lmt->total, NA_MEM_READWRITE, &lmt->local);
    if (ret == NA_SUCCESS && packed && lmt->sends)
        netmod_lmt_pack(lmt, lmt->moved, piece, lmt->buffer);
    if (ret == NA_SUCCESS) {
        hg_netmod.count.puts += lmt->sends;
        hg_netmod.count.gets += !lmt->sends;
        lmt->piece = piece;
        ret = (lmt->sends ? NA_Put : NA_Get)(hg_netmod.na_class,
            hg_netmod.context, netmod_lmt_moved, lmt, lmt->local,
            packed ? 0 : lmt->moved, window->handle,
            lmt->moved - window->offset, piece, link->addr, NA_OP_ID_IGNORE);
        if (ret != NA_SUCCESS)
            lmt->piece = 0;
    }
    if (ret == NA_AGAIN) {
        hg_netmod.stalled = true;
    } else if (ret != NA_SUCCESS) {
        (void) netmod_lmt_send_cookie(lmt, NETMOD_FAILED, 0, 0);
        netmod_lmt_end(lmt, hg_netmod_error(NA_Error_to_string(ret)));
    }
    return MPI_SUCCESS;
}

/* Take a window that the peer exposes. */
static int netmod_lmt_take(struct netmod_lmt *lmt, const char *buf, size_t size)
{
    struct netmod_cookie cookie;
    struct netmod_window *window = &lmt->windows[lmt->count];

    memcpy(&cookie, buf, sizeof(cookie));
    if (lmt->exposes || lmt->count == 2 || cookie.offset != lmt->exposed ||
        cookie.size == 0 ||
        NA_Mem_handle_deserialize(hg_netmod.na_class, &window->handle,
            buf + sizeof(cookie), size - sizeof(cookie)) != NA_SUCCESS)
        return hg_netmod_error("a cookie with a window is malformed");
    window->offset = cookie.offset;
    window->size = cookie.size;
    lmt->exposed += cookie.size;
    lmt->cooperative = cookie.kind == NETMOD_SHARED;
    lmt->count++;
    return netmod_lmt_move(lmt);
}

/* The peer has filled a window, or emptied it. */
static int netmod_lmt_take_back(
    struct netmod_lmt *lmt, const struct netmod_cookie *cookie)
{
    struct netmod_window *window = &lmt->windows[0];

    if (window->offset != cookie->offset || window->size == 0)
        window = &lmt->windows[1];
    if (!lmt->exposes || window->size == 0 ||
        window->offset != cookie->offset || window->size != cookie->size)
        return hg_netmod_error("a cookie has another window");
    if (!lmt->sends && lmt->user == NULL)
        netmod_lmt_pack(lmt, window->offset, window->size, window->buffer);
    lmt->moved += window->size;
    window->size = 0;
    if (lmt->exposed < lmt->total)
        return netmod_lmt_go_on(lmt, window);
    if (lmt->moved == lmt->total && lmt->cooperative)
        netmod_lmt_end(lmt, MPI_SUCCESS);
    return MPI_SUCCESS;
}

static int lmt_initiate_lmt(
    MPIDI_VC_t *vc, union MPIDI_CH3_Pkt *rts_pkt, MPID_Request *req)
{
    MPID_nem_pkt_lmt_rts_t *rts = (MPID_nem_pkt_lmt_rts_t *) rts_pkt;
    struct netmod_cookie
        cookie[NETMOD_COOKIE_MAX / sizeof(struct netmod_cookie)];
    bool exposes = hg_netmod.mode == 'g';
    MPIDI_msg_sz_t size = 0;
    struct netmod_lmt *lmt;
    int mpi_errno = MPI_SUCCESS;

    lmt = netmod_lmt_new(vc, req, true, exposes, false, rts->data_sz);
    if (lmt != NULL && exposes)
        size = netmod_lmt_expose(lmt, &lmt->windows[0], cookie);
    if (lmt == NULL || (exposes && size == 0)) {
        if (lmt != NULL)
            netmod_lmt_free(lmt);
        return hg_netmod_error("no memory for a large transfer");
    }
    MPID_nem_lmt_send_RTS(vc, rts, cookie, size);
fn_fail:
    return mpi_errno;
}

static int netmod_lmt_send_cts(
    MPIDI_VC_t *vc, MPID_Request *rreq, void *cookie, MPIDI_msg_sz_t size)
{
    int mpi_errno = MPI_SUCCESS;

    MPID_nem_lmt_send_CTS(vc, rreq, cookie, size);
fn_fail:
    return mpi_errno;
}

static int lmt_start_recv(MPIDI_VC_t *vc, MPID_Request *req, MPL_IOV s_cookie)
{
    struct netmod_cookie
        cookie[NETMOD_COOKIE_MAX / sizeof(struct netmod_cookie)];
    bool exposes = s_cookie.MPL_IOV_LEN < sizeof(*cookie);
    MPIDI_msg_sz_t size = 0;
    struct netmod_lmt *lmt;
    int mpi_errno;

    lmt = netmod_lmt_new(vc, req, false, exposes,
        exposes && hg_netmod.mode == 'c', req->ch.lmt_data_sz);
    if (lmt == NULL)
        return hg_netmod_error("no memory for a large transfer");
    if (!exposes && lmt->total == 0)
        return netmod_lmt_finish(lmt);
    if (!exposes)
        return netmod_lmt_take(lmt, (const char *) s_cookie.MPL_IOV_BUF,
            (size_t) s_cookie.MPL_IOV_LEN);
    if (lmt->total > 0) {
        size = netmod_lmt_expose(lmt, &lmt->windows[0], cookie);
        if (size == 0)
            return hg_netmod_error("no memory for a large transfer");
    }
    mpi_errno = netmod_lmt_send_cts(vc, req, cookie, size);
    if (mpi_errno == MPI_SUCCESS && lmt->cooperative &&
        lmt->exposed < lmt->total)
        mpi_errno = netmod_lmt_go_on(lmt, &lmt->windows[1]);
    return mpi_errno;
}

static int lmt_start_send(MPIDI_VC_t *vc, MPID_Request *sreq, MPL_IOV r_cookie)
{
    struct netmod_lmt *lmt = netmod_lmt_of(sreq);
    uint64_t total = (uint64_t) sreq->ch.lmt_data_sz;

    (void) vc;
    if (lmt == NULL || lmt->exposes || lmt->exposed > 0 || total > lmt->total)
        return hg_netmod_error("a CTS of no transfer");
    lmt->total = total;
    if (total == 0)
        return netmod_lmt_finish(lmt);
    if (r_cookie.MPL_IOV_LEN < sizeof(struct netmod_cookie))
        return hg_netmod_error("a CTS without a window");
    return netmod_lmt_take(lmt, (const char *) r_cookie.MPL_IOV_BUF,
        (size_t) r_cookie.MPL_IOV_LEN);
}

static int lmt_handle_cookie(MPIDI_VC_t *vc, MPID_Request *req, MPL_IOV cookie)
{
    struct netmod_lmt *lmt = netmod_lmt_of(req);
    struct netmod_cookie head;

    (void) vc;
    if (lmt == NULL || cookie.MPL_IOV_LEN < sizeof(head))
        return hg_netmod_error("a cookie of no transfer");
    memcpy(&head, cookie.MPL_IOV_BUF, sizeof(head));
    switch (head.kind) {
    case NETMOD_WINDOW:
    case NETMOD_SHARED:
        return netmod_lmt_take(lmt, (const char *) cookie.MPL_IOV_BUF,
            (size_t) cookie.MPL_IOV_LEN);
    case NETMOD_MOVED: return netmod_lmt_take_back(lmt, &head);
    default:
        netmod_lmt_end(
            lmt, hg_netmod_error("the peer could not move the data"));
        return MPI_SUCCESS;
    }
}

/* DONE. The last window may have packed data that was not unpacked. */
static int netmod_lmt_done(MPIDI_VC_t *vc, MPID_Request *req)
{
    struct netmod_lmt *lmt = netmod_lmt_of(req);
    const struct netmod_window *window;

    (void) vc;
    if (lmt == NULL || !lmt->exposes)
        return hg_netmod_error("a DONE of no transfer");
    window = &lmt->windows[0];
    if (!lmt->sends && lmt->user == NULL && window->size > 0)
        netmod_lmt_pack(lmt, window->offset, window->size, window->buffer);
    hg_netmod.count.done++;
    netmod_lmt_end(lmt, MPI_SUCCESS);
    return MPI_SUCCESS;
}

void hg_netmod_lmt_init(MPIDI_VC_t *vc)
{
    if (hg_netmod.mode == 'n')
        return;
    vc->ch.lmt_initiate_lmt = lmt_initiate_lmt;
    vc->ch.lmt_start_recv = lmt_start_recv;
    vc->ch.lmt_start_send = lmt_start_send;
    vc->ch.lmt_handle_cookie = lmt_handle_cookie;
    vc->ch.lmt_done_send = netmod_lmt_done;
    vc->ch.lmt_done_recv = netmod_lmt_done;
}

void hg_netmod_lmt_continue(struct netmod_link *link)
{
    struct netmod_lmt *lmt, *next;

    for (lmt = link->lmts; lmt != NULL; lmt = next) {
        next = lmt->next;
        hg_netmod_note(netmod_lmt_move(lmt));
    }
}

void hg_netmod_lmt_fail(struct netmod_link *link)
{
    struct netmod_lmt *lmt, *next;

    for (lmt = link->lmts; lmt != NULL; lmt = next) {
        next = lmt->next;
        netmod_lmt_end(lmt, hg_netmod_lost(link->vc));
    }
}
