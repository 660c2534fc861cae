/* SPDX-License-Identifier: BSD-3-Clause */
/* nemesis: see nemesis.h. */
#include "nemesis.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEM_REQUESTS 65536
#define NEM_TAG "tag"

MPID_Datatype nem_byte = {1, 1};
MPIDI_msg_sz_t nem_eager_max = 1024;
char nem_card[NEM_CARD_MAX];
unsigned nem_requests;
int nem_dir = -1;

static MPIDI_PG_t nem_pg;
static int nem_rank;
static char (*nem_cards)[NEM_CARD_MAX];
static MPID_Request *nem_table[NEM_REQUESTS]; /* by handle */
static int nem_last;                          /* handle */
/* Receives without a message, and messages without a receive, in order. */
static MPID_Request *nem_posted, *nem_unexpected;
static MPIDI_VC_t *nem_accepting; /* for nem_accept() */

static void nem_check(int mpi_errno, const char *what)
{
    if (mpi_errno == MPI_SUCCESS)
        return;
    (void) fprintf(
        stderr, "nemesis: rank %d: %s: %d\n", nem_rank, what, mpi_errno);
    exit(1);
}

static void *nem_alloc(size_t size)
{
    void *memory = calloc(1, size > 0 ? size : 1);

    nem_check(memory == NULL ? MPI_ERR_OTHER : MPI_SUCCESS, "out of memory");
    return memory;
}

/* ---- Datatypes ---- */

MPID_Segment *MPID_Segment_alloc(void)
{
    return (MPID_Segment *) malloc(sizeof(MPID_Segment));
}

void MPID_Segment_free(MPID_Segment *segment)
{
    free(segment);
}

int MPID_Segment_init(const void *buf, MPI_Aint count, MPI_Datatype type,
    MPID_Segment *segment, int flag)
{
    (void) flag;
    segment->buf = (char *) (uintptr_t) buf;
    segment->count = count;
    segment->type = type;
    return MPI_SUCCESS;
}

/* The memory of the byte `at`, and in *run how many follow it there. */
static char *nem_locate(
    const MPID_Segment *segment, MPI_Aint at, MPI_Aint last, MPI_Aint *run)
{
    const MPID_Datatype *type = segment->type;
    MPI_Aint inside = at % type->block;

    *run = last - at;
    if (type->block == type->stride)
        return segment->buf + at;
    if (*run > type->block - inside)
        *run = type->block - inside;
    return segment->buf + at / type->block * type->stride + inside;
}

static void nem_convert(
    MPID_Segment *segment, MPI_Aint first, MPI_Aint last, char *data, bool pack)
{
    MPI_Aint run;

    for (; first < last; first += run, data += run) {
        char *memory = nem_locate(segment, first, last, &run);

        memcpy(pack ? data : memory, pack ? memory : data, (size_t) run);
    }
}

void MPID_Segment_pack(
    MPID_Segment *segment, MPI_Aint first, MPI_Aint *last, void *data)
{
    nem_convert(segment, first, *last, (char *) data, true);
}

void MPID_Segment_unpack(
    MPID_Segment *segment, MPI_Aint first, MPI_Aint *last, void *data)
{
    nem_convert(segment, first, *last, (char *) data, false);
}

/* ---- Requests ---- */

MPID_Request *MPID_Request_create(void)
{
    MPID_Request *req = (MPID_Request *) nem_alloc(sizeof(*req));

    do
        nem_last = (nem_last + 1) % NEM_REQUESTS;
    while (nem_table[nem_last] != NULL || nem_last == 0);
    nem_table[nem_last] = req;
    req->handle = nem_last;
    req->ref_count = 1;
    nem_requests++;
    return req;
}

void MPID_Request_release(MPID_Request *req)
{
    assert(req->ref_count > 0);
    if (--req->ref_count > 0)
        return;
    MPID_Segment_free(req->dev.segment_ptr);
    free(req->early);
    nem_table[req->handle] = NULL;
    nem_requests--;
    free(req);
}

int MPID_Request_complete(MPID_Request *req)
{
    assert(!req->is_complete);
    req->is_complete = 1;
    MPID_Request_release(req);
    return MPI_SUCCESS;
}

static MPID_Request *nem_request(MPI_Request handle)
{
    MPID_Request *req =
        handle > 0 && handle < NEM_REQUESTS ? nem_table[handle] : NULL;

    nem_check(req == NULL ? MPI_ERR_OTHER : MPI_SUCCESS,
        "a packet for an unknown request");
    return req;
}

/* A request of the user: one reference is the user's. */
static MPID_Request *nem_new(MPIDI_VC_t *vc, MPID_Request_kind_t kind, int tag,
    const void *buf, MPI_Aint count, MPI_Datatype type)
{
    MPID_Request *req = MPID_Request_create();

    req->ref_count = 2;
    req->kind = kind;
    req->tag = tag;
    req->ch.vc = vc;
    req->dev.user_buf = (void *) (uintptr_t) buf;
    req->dev.user_count = count;
    req->dev.datatype = type;
    req->data_sz = count * type->block;
    return req;
}

static int nem_reload(MPIDI_VC_t *vc, MPID_Request *req, int *complete)
{
    (void) vc;
    req->dev.iov_offset = 0;
    req->dev.iov_count = MPL_IOV_LIMIT;
    *complete = 0;
    return MPIDI_CH3U_Request_load_send_iov(
        req, req->dev.iov, &req->dev.iov_count);
}

/* Also for receiving. */
int MPIDI_CH3U_Request_load_send_iov(MPID_Request *sreq, MPL_IOV *iov, int *n)
{
    MPI_Aint first = sreq->dev.segment_first, run;
    int limit = *n;

    for (*n = 0; *n < limit && first < sreq->dev.segment_size; ++*n) {
        iov[*n].MPL_IOV_BUF = nem_locate(
            sreq->dev.segment_ptr, first, sreq->dev.segment_size, &run);
        iov[*n].MPL_IOV_LEN = (size_t) run;
        first += run;
    }
    sreq->dev.segment_first = first;
    sreq->dev.OnDataAvail =
        first == sreq->dev.segment_size ? sreq->dev.OnFinal : nem_reload;
    return MPI_SUCCESS;
}

static void nem_set_segment(MPID_Request *req, MPIDI_msg_sz_t size)
{
    req->dev.segment_ptr = MPID_Segment_alloc();
    nem_check(req->dev.segment_ptr == NULL ? MPI_ERR_OTHER : MPI_SUCCESS,
        "out of memory");
    (void) MPID_Segment_init(req->dev.user_buf, req->dev.user_count,
        req->dev.datatype, req->dev.segment_ptr, 0);
    req->dev.segment_first = 0;
    req->dev.segment_size = size;
}

/* ---- Virtual connections ---- */

static int nem_get_card(int rank, char *card, int size, MPIDI_PG_t *pg)
{
    (void) pg;
    return snprintf(card, (size_t) size, "%s", nem_cards[rank]) < size
        ? MPI_SUCCESS
        : MPI_ERR_OTHER;
}

int MPIDI_VC_Init(MPIDI_VC_t *vc, MPIDI_PG_t *pg, int rank)
{
    memset(vc, 0, sizeof(*vc));
    vc->pg = pg;
    vc->pg_rank = rank;
    vc->ch.pending_pkt =
        (MPIDI_CH3_Pkt_t *) nem_alloc(sizeof(*vc->ch.pending_pkt));
    nem_check(MPIDI_nem_hg_funcs.vc_init(vc, NULL), "vc_init");
    return MPI_SUCCESS;
}

static void nem_vc_destroy(MPIDI_VC_t *vc)
{
    nem_check(MPIDI_nem_hg_funcs.vc_destroy(vc), "vc_destroy");
    free(vc->ch.pending_pkt);
    vc->ch.pending_pkt = NULL;
}

/* The connection was closed; before the protocol was at its end, the receives
 * of the VC fail. */
int MPIDI_CH3U_Handle_connection(MPIDI_VC_t *vc, MPIDI_VC_Event_t event)
{
    MPID_Request **at = &nem_posted;
    bool closed = vc->state == MPIDI_VC_STATE_CLOSED;

    assert(event == MPIDI_VC_EVENT_TERMINATED);
    (void) event;
    vc->state = closed ? MPIDI_VC_STATE_INACTIVE : MPIDI_VC_STATE_MORIBUND;
    vc->terminated++;
    while (!closed && *at != NULL) {
        MPID_Request *req = *at;

        if (req->ch.vc != vc) {
            at = &req->dev.next;
            continue;
        }
        *at = req->dev.next;
        req->status.MPI_ERROR = MPIX_ERR_PROC_FAILED;
        (void) MPID_Request_complete(req);
    }
    return MPI_SUCCESS;
}

int MPIDI_CH3I_Acceptq_enqueue(MPIDI_VC_t *vc, int port_name_tag)
{
    vc->port_name_tag = port_name_tag;
    vc->next = nem_accepting;
    nem_accepting = vc;
    return MPI_SUCCESS;
}

/* ---- Business cards ---- */

int MPIU_Str_add_string_arg(
    char **text, int *size, const char *key, const char *value)
{
    int n = snprintf(*text, (size_t) *size, "%s#%s$", key, value);

    if (n >= *size)
        return MPIU_STR_NOMEM;
    *text += n;
    *size -= n;
    return MPIU_STR_SUCCESS;
}

int MPIU_Str_add_int_arg(char **text, int *size, const char *key, int value)
{
    char number[16];

    (void) snprintf(number, sizeof(number), "%d", value);
    return MPIU_Str_add_string_arg(text, size, key, number);
}

int MPIU_Str_get_string_arg(
    const char *text, const char *key, char *value, size_t size)
{
    size_t length = strlen(key);

    while (text != NULL && *text != '\0') {
        const char *end = strchr(text, '$');

        if (end != NULL && strncmp(text, key, length) == 0 &&
            text[length] == '#') {
            text += length + 1;
            length = (size_t) (end - text);
            if (length >= size)
                return MPIU_STR_NOMEM;
            memcpy(value, text, length);
            value[length] = '\0';
            return MPIU_STR_SUCCESS;
        }
        text = end != NULL ? end + 1 : NULL;
    }
    return MPIU_STR_FAIL;
}

int MPIDI_GetTagFromPort(const char *port, int *port_name_tag)
{
    char number[16];

    if (MPIU_Str_get_string_arg(port, NEM_TAG, number, sizeof(number)) !=
        MPIU_STR_SUCCESS)
        return MPI_ERR_OTHER;
    *port_name_tag = (int) strtol(number, NULL, 10);
    return MPI_SUCCESS;
}

/* ---- Sending ---- */

/* Send a header alone, or with a cookie; nobody waits for it. */
static int nem_send_packet(MPIDI_VC_t *vc, MPIDI_CH3_Pkt_t *pkt,
    size_t header_sz, void *data, MPIDI_msg_sz_t size)
{
    MPID_Request *sreq = NULL;
    int mpi_errno = vc->ch.iStartContigMsg(
        vc, pkt, (MPIDI_msg_sz_t) header_sz, data, size, &sreq);

    if (sreq != NULL)
        MPID_Request_release(sreq);
    return mpi_errno;
}

/* Send the data of a request behind a header, as it is described. */
static int nem_send_data(
    MPIDI_VC_t *vc, MPID_Request *sreq, MPIDI_CH3_Pkt_t *pkt)
{
    MPI_Datatype type = sreq->dev.datatype;
    MPIDI_msg_sz_t header_sz = sizeof(pkt->message);

    if (type->block == type->stride || sreq->data_sz == 0)
        return vc->ch.iSendContig(
            vc, sreq, pkt, header_sz, sreq->dev.user_buf, sreq->data_sz);
    nem_set_segment(sreq, sreq->data_sz);
    return vc->sendNoncontig_fn(vc, sreq, pkt, header_sz);
}

MPID_Request *nem_send(
    MPIDI_VC_t *vc, int tag, const void *buf, MPI_Aint count, MPI_Datatype type)
{
    MPID_Request *sreq = nem_new(vc, MPID_REQUEST_SEND, tag, buf, count, type);
    MPIDI_CH3_Pkt_t pkt;

    memset(&pkt, 0, sizeof(pkt));
    if (vc->state == MPIDI_VC_STATE_INACTIVE)
        vc->state = MPIDI_VC_STATE_ACTIVE;
    if (sreq->data_sz > nem_eager_max && vc->ch.lmt_initiate_lmt != NULL) {
        pkt.type = MPIDI_NEM_PKT_LMT_RTS;
        pkt.lmt_rts.tag = tag;
        pkt.lmt_rts.sender_req_id = sreq->handle;
        pkt.lmt_rts.data_sz = sreq->data_sz;
        nem_check(vc->ch.lmt_initiate_lmt(vc, &pkt, sreq), "lmt_initiate_lmt");
        return sreq;
    }
    pkt.message.tag = tag;
    pkt.message.sender_req_id = sreq->handle;
    pkt.message.data_sz = sreq->data_sz;
    if (sreq->data_sz > nem_eager_max) {
        pkt.type = NEM_PKT_RTS;
        nem_check(nem_send_packet(vc, &pkt, sizeof(pkt.message), NULL, 0),
            "iStartContigMsg");
    } else {
        pkt.type = NEM_PKT_EAGER;
        nem_check(nem_send_data(vc, sreq, &pkt), "sending");
    }
    return sreq;
}

MPID_Request *nem_start(MPIDI_VC_t *vc, int tag, void *buf, MPIDI_msg_sz_t size)
{
    MPID_Request *sreq = NULL;
    MPIDI_CH3_Pkt_t pkt;

    memset(&pkt, 0, sizeof(pkt));
    if (vc->state == MPIDI_VC_STATE_INACTIVE)
        vc->state = MPIDI_VC_STATE_ACTIVE;
    pkt.type = NEM_PKT_EAGER;
    pkt.message.tag = tag;
    pkt.message.data_sz = size;
    nem_check(
        vc->ch.iStartContigMsg(vc, &pkt, sizeof(pkt.message), buf, size, &sreq),
        "iStartContigMsg");
    return sreq;
}

MPID_Request *nem_send_by(
    MPIDI_VC_t *vc, int tag, MPIDI_msg_sz_t size, nem_on_data_t next, void *arg)
{
    MPID_Request *sreq = nem_new(vc, MPID_REQUEST_SEND, tag, NULL, 0, MPI_BYTE);
    MPIDI_CH3_Pkt_t pkt;
    int complete = 0;

    memset(&pkt, 0, sizeof(pkt));
    pkt.type = NEM_PKT_EAGER;
    pkt.message.tag = tag;
    pkt.message.data_sz = size;
    if (vc->state == MPIDI_VC_STATE_INACTIVE)
        vc->state = MPIDI_VC_STATE_ACTIVE;
    sreq->arg = arg;
    nem_check(next(vc, sreq, &complete), "the first data");
    sreq->dev.OnDataAvail = next;
    nem_check(vc->ch.iSendContig(vc, sreq, &pkt, sizeof(pkt.message),
                  sreq->dev.iov[0].MPL_IOV_BUF,
                  (MPIDI_msg_sz_t) sreq->dev.iov[0].MPL_IOV_LEN),
        "iSendContig");
    return sreq;
}

int nem_lmt_send_rts(MPIDI_VC_t *vc, MPID_nem_pkt_lmt_rts_t *rts_pkt,
    void *cookie, MPIDI_msg_sz_t cookie_len)
{
    rts_pkt->cookie_len = cookie_len;
    return nem_send_packet(vc, (MPIDI_CH3_Pkt_t *) (void *) rts_pkt,
        sizeof(*rts_pkt), cookie, cookie_len);
}

int nem_lmt_send_cts(
    MPIDI_VC_t *vc, MPID_Request *rreq, void *cookie, MPIDI_msg_sz_t cookie_len)
{
    MPIDI_CH3_Pkt_t pkt;

    memset(&pkt, 0, sizeof(pkt));
    pkt.type = MPIDI_NEM_PKT_LMT_CTS;
    pkt.lmt_cts.sender_req_id = rreq->ch.lmt_req_id;
    pkt.lmt_cts.receiver_req_id = rreq->handle;
    pkt.lmt_cts.data_sz = rreq->ch.lmt_data_sz;
    pkt.lmt_cts.cookie_len = cookie_len;
    return nem_send_packet(vc, &pkt, sizeof(pkt.lmt_cts), cookie, cookie_len);
}

int nem_lmt_send_done(MPIDI_VC_t *vc, MPID_Request *req)
{
    MPIDI_CH3_Pkt_t pkt;

    memset(&pkt, 0, sizeof(pkt));
    pkt.type = MPIDI_NEM_PKT_LMT_DONE;
    pkt.lmt_done.req_id = req->ch.lmt_req_id;
    return nem_send_packet(vc, &pkt, sizeof(pkt.lmt_done), NULL, 0);
}

int MPID_nem_lmt_send_COOKIE(
    MPIDI_VC_t *vc, MPID_Request *req, void *cookie, MPI_Aint cookie_len)
{
    bool sends = req->kind == MPID_REQUEST_SEND;
    MPIDI_CH3_Pkt_t pkt;

    memset(&pkt, 0, sizeof(pkt));
    pkt.type = MPIDI_NEM_PKT_LMT_COOKIE;
    pkt.lmt_cookie.from_sender = sends;
    pkt.lmt_cookie.sender_req_id = sends ? req->handle : req->ch.lmt_req_id;
    pkt.lmt_cookie.receiver_req_id = sends ? req->ch.lmt_req_id : req->handle;
    pkt.lmt_cookie.cookie_len = cookie_len;
    return nem_send_packet(
        vc, &pkt, sizeof(pkt.lmt_cookie), cookie, cookie_len);
}

/* ---- Matching ---- */

/* Take the first request of a list with this VC and tag; NULL: none. */
static MPID_Request *nem_take(MPID_Request **at, MPIDI_VC_t *vc, int tag)
{
    MPID_Request *req;

    while (*at != NULL && ((*at)->ch.vc != vc || (*at)->tag != tag))
        at = &(*at)->dev.next;
    req = *at;
    if (req != NULL)
        *at = req->dev.next;
    return req;
}

static void nem_append(MPID_Request **at, MPID_Request *req)
{
    while (*at != NULL)
        at = &(*at)->dev.next;
    *at = req;
    req->dev.next = NULL;
}

/* A receive matches a message of `size` bytes. */
static void nem_match(MPID_Request *rreq, MPIDI_msg_sz_t size)
{
    if (size > rreq->data_sz)
        rreq->status.MPI_ERROR = MPI_ERR_TRUNCATE;
    else
        rreq->data_sz = size;
}

/* The receive has its data; what is longer is dropped. */
static int nem_drop(MPIDI_VC_t *vc, MPID_Request *rreq, int *complete)
{
    static char sink[256];
    MPIDI_msg_sz_t size = rreq->dev.drop_sz;

    (void) vc;
    *complete = size == 0;
    if (*complete)
        return MPID_Request_complete(rreq);
    if (size > (MPIDI_msg_sz_t) sizeof(sink))
        size = (MPIDI_msg_sz_t) sizeof(sink);
    rreq->dev.drop_sz -= size;
    rreq->dev.iov[0].MPL_IOV_BUF = sink;
    rreq->dev.iov[0].MPL_IOV_LEN = (size_t) size;
    rreq->dev.iov_count = 1;
    rreq->dev.OnDataAvail = nem_drop;
    return MPI_SUCCESS;
}

/* Prepare a receive for the `size` bytes of a message. False: there are
 * none, and it is complete. */
static bool nem_receive_into(MPID_Request *rreq, MPIDI_msg_sz_t size)
{
    MPIDI_msg_sz_t fit = size < rreq->data_sz ? size : rreq->data_sz;
    int complete = 0;

    rreq->dev.drop_sz = size - fit;
    rreq->dev.OnFinal = size > fit ? nem_drop : NULL;
    if (fit == 0)
        return nem_drop(rreq->ch.vc, rreq, &complete) == MPI_SUCCESS &&
            !complete;
    nem_set_segment(rreq, fit);
    return nem_reload(rreq->ch.vc, rreq, &complete) == MPI_SUCCESS;
}

/* A receive and an RTS have met: answer it. */
static int nem_answer_rts(MPID_Request *rreq, MPIDI_CH3_Pkt_type_t type,
    MPIDI_msg_sz_t size, MPL_IOV cookie)
{
    MPIDI_VC_t *vc = rreq->ch.vc;
    MPIDI_CH3_Pkt_t pkt;

    nem_match(rreq, size);
    rreq->ch.lmt_data_sz = rreq->data_sz;
    if (type == MPIDI_NEM_PKT_LMT_RTS)
        return vc->ch.lmt_start_recv(vc, rreq, cookie);
    memset(&pkt, 0, sizeof(pkt));
    pkt.type = NEM_PKT_CTS;
    pkt.message.sender_req_id = rreq->ch.lmt_req_id;
    pkt.message.receiver_req_id = rreq->handle;
    return nem_send_packet(vc, &pkt, sizeof(pkt.message), NULL, 0);
}

/* All of an early message is here: if its receive is, too, hand it over. */
static int nem_early(MPIDI_VC_t *vc, MPID_Request *early, int *complete)
{
    MPID_Request *rreq = early->target;
    MPI_Aint last = early->data_sz;
    int mpi_errno = MPI_SUCCESS;

    (void) vc;
    early->is_complete = 1;
    *complete = 1;
    if (rreq == NULL)
        return MPI_SUCCESS;
    if (early->came == NEM_PKT_EAGER) {
        nem_match(rreq, early->data_sz);
        if (last > rreq->data_sz)
            last = rreq->data_sz;
        nem_set_segment(rreq, last);
        MPID_Segment_unpack(rreq->dev.segment_ptr, 0, &last, early->early);
        mpi_errno = MPID_Request_complete(rreq);
    } else {
        rreq->ch.lmt_req_id = early->ch.lmt_req_id;
        mpi_errno = nem_answer_rts(
            rreq, early->came, early->ch.lmt_data_sz, early->ch.lmt_tmp_cookie);
    }
    MPID_Request_release(early);
    return mpi_errno;
}

MPID_Request *nem_recv(
    MPIDI_VC_t *vc, int tag, void *buf, MPI_Aint count, MPI_Datatype type)
{
    MPID_Request *rreq = nem_new(vc, MPID_REQUEST_RECV, tag, buf, count, type);
    MPID_Request *early = nem_take(&nem_unexpected, vc, tag);
    int complete;

    if (early == NULL) {
        nem_append(&nem_posted, rreq);
        return rreq;
    }
    early->target = rreq;
    if (early->is_complete)
        nem_check(nem_early(vc, early, &complete), "receiving");
    return rreq;
}

/* ---- Packets ---- */

/* A message or a cookie of `size` bytes for which there is no receive, or that
 * only a request of its own can hold until it is whole. */
static MPID_Request *nem_keep(
    MPIDI_VC_t *vc, MPIDI_CH3_Pkt_type_t came, int tag, MPIDI_msg_sz_t size)
{
    MPID_Request *early = MPID_Request_create();

    early->kind = MPID_REQUEST_RECV;
    early->ch.vc = vc;
    early->tag = tag;
    early->came = came;
    early->data_sz = size;
    early->early = (char *) nem_alloc((size_t) size);
    early->ch.lmt_tmp_cookie.MPL_IOV_BUF = early->early;
    early->ch.lmt_tmp_cookie.MPL_IOV_LEN = (size_t) size;
    early->dev.iov[0] = early->ch.lmt_tmp_cookie;
    early->dev.iov_count = 1;
    early->dev.OnDataAvail = nem_early;
    return early;
}

/* EAGER, RTS, LMT_RTS. *rreqp: what receives the data behind the header. */
static int nem_handle_message(
    MPIDI_VC_t *vc, const MPIDI_CH3_Pkt_t *pkt, MPID_Request **rreqp)
{
    bool lmt = pkt->type == MPIDI_NEM_PKT_LMT_RTS;
    int tag = lmt ? pkt->lmt_rts.tag : pkt->message.tag;
    MPI_Request sender =
        lmt ? pkt->lmt_rts.sender_req_id : pkt->message.sender_req_id;
    MPIDI_msg_sz_t size = lmt ? pkt->lmt_rts.data_sz : pkt->message.data_sz;
    MPIDI_msg_sz_t follows = lmt     ? pkt->lmt_rts.cookie_len
        : pkt->type == NEM_PKT_EAGER ? size
                                     : 0;
    MPID_Request *rreq = nem_take(&nem_posted, vc, tag), *early;
    int complete;

    if (rreq != NULL && pkt->type == NEM_PKT_EAGER) {
        nem_match(rreq, size);
        *rreqp = nem_receive_into(rreq, size) ? rreq : NULL;
        return MPI_SUCCESS;
    }
    early = nem_keep(vc, pkt->type, tag, follows);
    early->target = rreq;
    early->ch.lmt_req_id = sender;
    early->ch.lmt_data_sz = size;
    if (rreq == NULL)
        nem_append(&nem_unexpected, early);
    if (follows == 0)
        return nem_early(vc, early, &complete);
    *rreqp = early;
    return MPI_SUCCESS;
}

/* A whole cookie, of CTS or COOKIE. */
static int nem_got_cookie(MPIDI_VC_t *vc, MPID_Request *early, int *complete)
{
    int (*handle)(MPIDI_VC_t *, MPID_Request *, MPL_IOV) =
        early->came == MPIDI_NEM_PKT_LMT_CTS ? vc->ch.lmt_start_send
                                             : vc->ch.lmt_handle_cookie;
    int mpi_errno = handle(vc, early->target, early->ch.lmt_tmp_cookie);

    *complete = 1;
    MPID_Request_release(early);
    return mpi_errno;
}

static int nem_handle_cookie(MPIDI_VC_t *vc, MPIDI_CH3_Pkt_type_t type,
    MPID_Request *req, MPI_Request peer, MPIDI_msg_sz_t size,
    MPID_Request **rreqp)
{
    MPID_Request *early = nem_keep(vc, type, 0, size);
    int complete;

    req->ch.lmt_req_id = peer;
    early->target = req;
    early->dev.OnDataAvail = nem_got_cookie;
    if (size == 0)
        return nem_got_cookie(vc, early, &complete);
    *rreqp = early;
    return MPI_SUCCESS;
}

/* CTS: send the data. */
static int nem_handle_cts(MPIDI_VC_t *vc, const MPIDI_CH3_Pkt_t *cts)
{
    MPID_Request *sreq = nem_request(cts->message.sender_req_id);
    MPIDI_CH3_Pkt_t pkt;

    memset(&pkt, 0, sizeof(pkt));
    pkt.type = NEM_PKT_DATA;
    pkt.message.receiver_req_id = cts->message.receiver_req_id;
    pkt.message.data_sz = sreq->data_sz;
    return nem_send_data(vc, sreq, &pkt);
}

static int nem_send_close(MPIDI_VC_t *vc, int ack)
{
    MPIDI_CH3_Pkt_t pkt;

    memset(&pkt, 0, sizeof(pkt));
    pkt.type = NEM_PKT_CLOSE;
    pkt.close.ack = ack;
    return nem_send_packet(vc, &pkt, sizeof(pkt.close), NULL, 0);
}

/* Each side sends CLOSE, and answers the other one's. The VC is closed when its
 * own was answered and the other one has come. */
static int nem_handle_close(MPIDI_VC_t *vc, int ack)
{
    int mpi_errno = MPI_SUCCESS;

    if (!ack && vc->state == MPIDI_VC_STATE_ACTIVE) {
        vc->state = MPIDI_VC_STATE_REMOTE_CLOSE;
    } else if (!ack) {
        vc->state = MPIDI_VC_STATE_CLOSE_ACKED;
        mpi_errno = nem_send_close(vc, 1);
    } else if (vc->state == MPIDI_VC_STATE_CLOSE_ACKED) {
        vc->state = MPIDI_VC_STATE_CLOSED;
        mpi_errno = MPIDI_nem_hg_funcs.vc_terminate(vc);
    } else {
        nem_check(MPI_ERR_OTHER, "a CLOSE that was not expected");
    }
    return mpi_errno;
}

/* Handle a header. *rreqp: the request for the data behind it, or NULL. */
static int nem_handle(
    MPIDI_VC_t *vc, const MPIDI_CH3_Pkt_t *pkt, MPID_Request **rreqp)
{
    MPID_Request *req;
    bool sends;

    *rreqp = NULL;
    switch (pkt->type) {
    case NEM_PKT_EAGER:
    case NEM_PKT_RTS:
    case MPIDI_NEM_PKT_LMT_RTS: return nem_handle_message(vc, pkt, rreqp);
    case NEM_PKT_CTS: return nem_handle_cts(vc, pkt);
    case NEM_PKT_DATA:
        req = nem_request(pkt->message.receiver_req_id);
        *rreqp = nem_receive_into(req, pkt->message.data_sz) ? req : NULL;
        return MPI_SUCCESS;
    case NEM_PKT_CLOSE: return nem_handle_close(vc, pkt->close.ack);
    case MPIDI_NEM_PKT_LMT_CTS:
        req = nem_request(pkt->lmt_cts.sender_req_id);
        req->ch.lmt_data_sz = pkt->lmt_cts.data_sz;
        return nem_handle_cookie(vc, pkt->type, req,
            pkt->lmt_cts.receiver_req_id, pkt->lmt_cts.cookie_len, rreqp);
    case MPIDI_NEM_PKT_LMT_COOKIE:
        sends = !pkt->lmt_cookie.from_sender; /* the own request */
        req = nem_request(sends ? pkt->lmt_cookie.sender_req_id
                                : pkt->lmt_cookie.receiver_req_id);
        return nem_handle_cookie(vc, pkt->type, req,
            sends ? pkt->lmt_cookie.receiver_req_id
                  : pkt->lmt_cookie.sender_req_id,
            pkt->lmt_cookie.cookie_len, rreqp);
    case MPIDI_NEM_PKT_LMT_DONE:
        req = nem_request(pkt->lmt_done.req_id);
        return req->kind == MPID_REQUEST_SEND ? vc->ch.lmt_done_send(vc, req)
                                              : vc->ch.lmt_done_recv(vc, req);
    default: nem_check(MPI_ERR_OTHER, "a packet of no type");
    }
    return MPI_ERR_OTHER;
}

/* Give bytes to the active request; *used_p: how many it took. */
static int nem_feed(MPIDI_VC_t *vc, const char *buf, MPIDI_msg_sz_t buflen,
    MPIDI_msg_sz_t *used_p)
{
    MPID_Request *req = vc->ch.recv_active;
    MPL_IOV *iov = &req->dev.iov[req->dev.iov_offset];
    MPIDI_msg_sz_t size = (MPIDI_msg_sz_t) iov->MPL_IOV_LEN;
    int complete = 1, mpi_errno;

    assert(req->dev.iov_count > 0 && size > 0);
    if (size > buflen)
        size = buflen;
    *used_p = size;
    memcpy(iov->MPL_IOV_BUF, buf, (size_t) size);
    iov->MPL_IOV_BUF = (char *) iov->MPL_IOV_BUF + size;
    iov->MPL_IOV_LEN -= (size_t) size;
    if (iov->MPL_IOV_LEN > 0)
        return MPI_SUCCESS;
    req->dev.iov_offset++;
    if (--req->dev.iov_count > 0)
        return MPI_SUCCESS;
    req->dev.iov_offset = 0;
    vc->ch.recv_active = NULL;
    mpi_errno = req->dev.OnDataAvail == NULL
        ? MPID_Request_complete(req)
        : req->dev.OnDataAvail(vc, req, &complete);
    if (!complete)
        vc->ch.recv_active = req;
    return mpi_errno;
}

int MPID_nem_handle_pkt(MPIDI_VC_t *vc, char *buf, MPIDI_msg_sz_t buflen)
{
    const MPIDI_msg_sz_t whole = (MPIDI_msg_sz_t) sizeof(MPIDI_CH3_Pkt_t);

    while (buflen > 0) {
        MPIDI_msg_sz_t size;
        MPIDI_CH3_Pkt_t pkt;
        int mpi_errno;

        if (vc->ch.recv_active != NULL) {
            assert(vc->ch.pending_pkt_len == 0);
            mpi_errno = nem_feed(vc, buf, buflen, &size);
            buf += size;
            buflen -= size;
            if (mpi_errno != MPI_SUCCESS)
                return mpi_errno;
            continue;
        }
        size = whole - vc->ch.pending_pkt_len;
        if (size > buflen)
            size = buflen;
        memcpy((char *) vc->ch.pending_pkt + vc->ch.pending_pkt_len, buf,
            (size_t) size);
        vc->ch.pending_pkt_len += size;
        buf += size;
        buflen -= size;
        if (vc->ch.pending_pkt_len < whole)
            continue;
        vc->ch.pending_pkt_len = 0;
        pkt = *vc->ch.pending_pkt; /* the next one may come inside */
        mpi_errno = nem_handle(vc, &pkt, &vc->ch.recv_active);
        if (mpi_errno != MPI_SUCCESS)
            return mpi_errno;
    }
    return MPI_SUCCESS;
}

/* ---- Progress ---- */

void nem_poll(void)
{
    static int turn;

    turn = !turn;
    nem_check(MPIDI_nem_hg_funcs.poll(
                  (MPID_nem_poll_dir_t) (nem_dir < 0 ? turn : nem_dir)),
        "poll");
}

int nem_wait(MPID_Request *req)
{
    int mpi_errno;

    while (!req->is_complete)
        nem_poll();
    mpi_errno = req->status.MPI_ERROR;
    MPID_Request_release(req);
    return mpi_errno;
}

/* ---- Life cycle ---- */

void nem_start_again(void)
{
    char *text = nem_card;
    int size = (int) sizeof(nem_card);

    nem_check(MPIDI_nem_hg_funcs.init(&nem_pg, nem_rank, &text, &size), "init");
    nem_set_card(nem_rank, nem_card);
}

void nem_init(const char *pg_id, int rank, int size)
{
    int i;

    nem_pg.id = pg_id;
    nem_pg.size = size;
    nem_pg.getConnInfo = nem_get_card;
    nem_pg.vct = (MPIDI_VC_t *) nem_alloc((size_t) size * sizeof(*nem_pg.vct));
    nem_cards =
        (char(*)[NEM_CARD_MAX]) nem_alloc((size_t) size * sizeof(*nem_cards));
    nem_rank = rank;
    nem_start_again();
    for (i = 0; i < size; i++)
        (void) MPIDI_VC_Init(&nem_pg.vct[i], &nem_pg, i);
}

void nem_set_card(int rank, const char *card)
{
    (void) snprintf(nem_cards[rank], NEM_CARD_MAX, "%s", card);
}

MPIDI_VC_t *nem_vc(int rank)
{
    return &nem_pg.vct[rank];
}

void nem_finalize(void)
{
    int i;

    for (i = 0; i < nem_pg.size; i++)
        nem_vc_destroy(nem_vc(i));
    nem_check(MPIDI_nem_hg_funcs.finalize(), "finalize");
    free(nem_pg.vct);
    free(nem_cards);
}

void nem_close_begin(MPIDI_VC_t *vc)
{
    bool asked = vc->state == MPIDI_VC_STATE_REMOTE_CLOSE;

    vc->state = asked ? MPIDI_VC_STATE_CLOSE_ACKED : MPIDI_VC_STATE_LOCAL_CLOSE;
    nem_check(nem_send_close(vc, 0), "sending CLOSE");
    if (asked)
        nem_check(nem_send_close(vc, 1), "sending CLOSE");
}

void nem_close(MPIDI_VC_t *vc)
{
    unsigned before = vc->terminated; /* the peer may use it again at once */

    nem_close_begin(vc);
    while (vc->terminated == before)
        nem_poll();
}

void nem_port(int tag, char port[NEM_CARD_MAX])
{
    char *text = port;
    int size = NEM_CARD_MAX;

    nem_check(
        MPIU_Str_add_int_arg(&text, &size, NEM_TAG, tag) != MPIU_STR_SUCCESS,
        "the port");
    nem_check(MPIDI_nem_hg_funcs.get_business_card(nem_rank, &text, &size),
        "get_business_card");
}

MPIDI_VC_t *nem_accept(int tag)
{
    MPIDI_VC_t **at, *vc;

    for (;;) {
        for (at = &nem_accepting; *at != NULL; at = &(*at)->next) {
            vc = *at;
            if (vc->port_name_tag != tag)
                continue;
            *at = vc->next;
            return vc;
        }
        nem_poll();
    }
}

MPIDI_VC_t *nem_connect(const char *port)
{
    MPIDI_VC_t *vc = (MPIDI_VC_t *) nem_alloc(sizeof(*vc));

    (void) MPIDI_VC_Init(vc, NULL, 0);
    nem_check(MPIDI_nem_hg_funcs.connect_to_root(port, vc), "connect_to_root");
    return vc;
}

void nem_free(MPIDI_VC_t *vc)
{
    nem_vc_destroy(vc);
    free(vc);
}
