/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nemesis: a small CH3 that drives a network module.
 *
 * hg_netmod.c needs from MPICH what the Nemesis Network Module API names:
 * virtual connections (VC), requests, packets, MPID_nem_handle_pkt(), and the
 * messages of a large message transfer (LMT). This header declares all of it
 * with the names of MPICH, so that the module compiles and runs without MPICH.
 * nemesis.c implements it, with matching by tag, an eager and a rendezvous
 * protocol, and the protocol that closes a VC.
 *
 * It is for tests: one thread, one process group, no communicators. The
 * functions that begin with nem_ are for the test; the others are called by the
 * network module, too.
 */
#ifndef HG_EXAMPLES_NEMESIS_H
#define HG_EXAMPLES_NEMESIS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* ---- Codes and sizes ---- */

enum {
    MPI_SUCCESS = 0,
    MPI_ERR_OTHER = 1,    /* the network module, or NA, failed */
    MPI_ERR_TRUNCATE = 2, /* the message is longer than the receive */
    MPIX_ERR_PROC_FAILED = 3
};

typedef intptr_t MPIDI_msg_sz_t;
typedef intptr_t MPI_Aint;

typedef struct iovec MPL_IOV;
#define MPL_IOV_BUF iov_base
#define MPL_IOV_LEN iov_len
#define MPL_IOV_LIMIT 4 /* few, so that a request has to ask for more */

/* ---- Datatypes ---- */

/* Blocks of `block` bytes, of which each begins `stride` bytes after the one
 * before. */
typedef struct nem_datatype {
    MPIDI_msg_sz_t block;
    MPIDI_msg_sz_t stride;
} MPID_Datatype;
typedef MPID_Datatype *MPI_Datatype;

/* Contiguous bytes. */
#define MPI_BYTE (&nem_byte)
extern MPID_Datatype nem_byte;

#define MPIDI_Datatype_get_info(count, type, contig, size, ptr, true_lb) \
    ((ptr) = (type), (contig) = (type)->block == (type)->stride, \
        (size) = (count) * (type)->block, (true_lb) = 0)

/* `count` blocks of a datatype, as a row of bytes. */
typedef struct MPID_Segment {
    char *buf;
    MPI_Aint count;
    MPI_Datatype type;
} MPID_Segment;

MPID_Segment *MPID_Segment_alloc(void);
void MPID_Segment_free(MPID_Segment *segment);
int MPID_Segment_init(const void *buf, MPI_Aint count, MPI_Datatype type,
    MPID_Segment *segment, int flag);

/* Copy the bytes from `first` to `*last` into `data`, or from there. */
void MPID_Segment_pack(
    MPID_Segment *segment, MPI_Aint first, MPI_Aint *last, void *data);
void MPID_Segment_unpack(
    MPID_Segment *segment, MPI_Aint first, MPI_Aint *last, void *data);

/* ---- Packets ---- */

typedef int MPI_Request; /* the handle of a request */

typedef enum MPIDI_CH3_Pkt_type {
    NEM_PKT_EAGER,
    NEM_PKT_RTS, /* the rendezvous protocol of CH3 */
    NEM_PKT_CTS,
    NEM_PKT_DATA,
    NEM_PKT_CLOSE,
    MPIDI_NEM_PKT_LMT_RTS,
    MPIDI_NEM_PKT_LMT_CTS,
    MPIDI_NEM_PKT_LMT_DONE,
    MPIDI_NEM_PKT_LMT_COOKIE,
    NEM_PKT_TYPES
} MPIDI_CH3_Pkt_type_t;

struct nem_pkt_message { /* NEM_PKT_EAGER to NEM_PKT_DATA */
    MPIDI_CH3_Pkt_type_t type;
    int tag;
    MPI_Request sender_req_id;
    MPI_Request receiver_req_id;
    MPIDI_msg_sz_t data_sz;
};

struct nem_pkt_close {
    MPIDI_CH3_Pkt_type_t type;
    int ack;
};

typedef struct MPID_nem_pkt_lmt_rts {
    MPIDI_CH3_Pkt_type_t type;
    int tag;
    MPI_Request sender_req_id;
    MPIDI_msg_sz_t data_sz;
    MPIDI_msg_sz_t cookie_len;
} MPID_nem_pkt_lmt_rts_t;

typedef struct MPID_nem_pkt_lmt_cts {
    MPIDI_CH3_Pkt_type_t type;
    MPI_Request sender_req_id;
    MPI_Request receiver_req_id;
    MPIDI_msg_sz_t data_sz;
    MPIDI_msg_sz_t cookie_len;
} MPID_nem_pkt_lmt_cts_t;

typedef struct MPID_nem_pkt_lmt_done {
    MPIDI_CH3_Pkt_type_t type;
    MPI_Request req_id;
} MPID_nem_pkt_lmt_done_t;

typedef struct MPID_nem_pkt_lmt_cookie {
    MPIDI_CH3_Pkt_type_t type;
    int from_sender;
    MPI_Request sender_req_id;
    MPI_Request receiver_req_id;
    MPIDI_msg_sz_t cookie_len;
} MPID_nem_pkt_lmt_cookie_t;

/* Every header has this size. */
typedef union MPIDI_CH3_Pkt {
    MPIDI_CH3_Pkt_type_t type;
    struct nem_pkt_message message;
    struct nem_pkt_close close;
    MPID_nem_pkt_lmt_rts_t lmt_rts;
    MPID_nem_pkt_lmt_cts_t lmt_cts;
    MPID_nem_pkt_lmt_done_t lmt_done;
    MPID_nem_pkt_lmt_cookie_t lmt_cookie;
} MPIDI_CH3_Pkt_t;

/* ---- Requests ---- */

struct MPIDI_VC;
struct MPID_Request;

/* Called when the data that `iov` describes was sent or received. It completes
 * the request and sets *complete, or describes more data. */
typedef int (*nem_on_data_t)(
    struct MPIDI_VC *vc, struct MPID_Request *req, int *complete);

typedef enum { MPID_REQUEST_SEND, MPID_REQUEST_RECV } MPID_Request_kind_t;

typedef struct MPID_Request {
    MPI_Request handle;
    MPID_Request_kind_t kind;
    int ref_count;
    int is_complete;
    struct {
        int MPI_ERROR;
    } status;
    struct {
        nem_on_data_t OnDataAvail;
        nem_on_data_t OnFinal; /* OnDataAvail of the last data */
        MPL_IOV iov[MPL_IOV_LIMIT];
        int iov_count;
        int iov_offset;
        MPIDI_msg_sz_t drop_sz; /* the rest of a message that was truncated */
        MPIDI_CH3_Pkt_t pending_pkt;
        void *ext_hdr_ptr; /* sent between the header and the data */
        MPI_Aint ext_hdr_sz;
        void *user_buf;
        MPI_Aint user_count;
        MPI_Datatype datatype;
        MPID_Segment *segment_ptr;
        MPIDI_msg_sz_t segment_first;
        MPIDI_msg_sz_t segment_size;
        struct MPID_Request *next; /* in a list of receives */
    } dev;
    struct {
        struct MPIDI_VC *vc;
        MPI_Request lmt_req_id;     /* the request of the peer */
        MPIDI_msg_sz_t lmt_data_sz; /* after truncation */
        MPL_IOV lmt_tmp_cookie;
        union {
            char padding[192];
            void *align_helper;
        } netmod_area; /* for the network module */
    } ch;
    /* For the test. */
    int tag;
    MPIDI_msg_sz_t data_sz;      /* of the message */
    MPIDI_CH3_Pkt_type_t came;   /* unexpected: the packet that came */
    char *early;                 /* unexpected: its data */
    struct MPID_Request *target; /* the one for which this one receives */
    void *arg;
} MPID_Request;

MPID_Request *MPID_Request_create(void);
void MPID_Request_release(MPID_Request *req);
int MPID_Request_complete(MPID_Request *req);

#define MPIU_Object_set_ref(req, count) ((void) ((req)->ref_count = (count)))

/* Describe the next data of a segment in `iov`, which has *n elements. Sets
 * OnDataAvail: to OnFinal if it is the last data. */
int MPIDI_CH3U_Request_load_send_iov(MPID_Request *sreq, MPL_IOV *iov, int *n);

/* ---- Process groups and virtual connections ---- */

typedef struct MPIDI_PG {
    const char *id;
    int size;
    struct MPIDI_VC *vct; /* one for each rank */
    int (*getConnInfo)(int rank, char *card, int size, struct MPIDI_PG *pg);
} MPIDI_PG_t;

typedef enum MPIDI_VC_State {
    MPIDI_VC_STATE_INACTIVE,
    MPIDI_VC_STATE_ACTIVE,
    MPIDI_VC_STATE_LOCAL_CLOSE,
    MPIDI_VC_STATE_REMOTE_CLOSE,
    MPIDI_VC_STATE_CLOSE_ACKED,
    MPIDI_VC_STATE_CLOSED,
    MPIDI_VC_STATE_MORIBUND
} MPIDI_VC_State_t;

typedef enum { MPIDI_VC_EVENT_TERMINATED } MPIDI_VC_Event_t;

#define MPIDI_CHANGE_VC_STATE(vc, new_state) \
    ((void) ((vc)->state = MPIDI_VC_STATE_##new_state))

typedef struct MPIDI_VC {
    MPIDI_VC_State_t state;
    MPIDI_PG_t *pg; /* NULL: of nem_connect() or nem_accept() */
    int pg_rank;
    int port_name_tag;
    int (*sendNoncontig_fn)(struct MPIDI_VC *vc, MPID_Request *sreq,
        void *header, MPIDI_msg_sz_t hdr_sz);
    struct {
        int is_local; /* another part of CH3 sends, through shared memory */
        /* Either a request, or a part of a header, waits for data. */
        MPID_Request *recv_active;
        MPIDI_CH3_Pkt_t *pending_pkt;
        MPIDI_msg_sz_t pending_pkt_len;
        int (*iStartContigMsg)(struct MPIDI_VC *vc, void *hdr,
            MPIDI_msg_sz_t hdr_sz, void *data, MPIDI_msg_sz_t data_sz,
            MPID_Request **sreq_ptr);
        int (*iSendContig)(struct MPIDI_VC *vc, MPID_Request *sreq, void *hdr,
            MPIDI_msg_sz_t hdr_sz, void *data, MPIDI_msg_sz_t data_sz);
        /* All NULL: the rendezvous protocol of CH3 is used. */
        int (*lmt_initiate_lmt)(struct MPIDI_VC *vc,
            union MPIDI_CH3_Pkt *rts_pkt, MPID_Request *req);
        int (*lmt_start_recv)(
            struct MPIDI_VC *vc, MPID_Request *req, MPL_IOV s_cookie);
        int (*lmt_start_send)(
            struct MPIDI_VC *vc, MPID_Request *sreq, MPL_IOV r_cookie);
        int (*lmt_handle_cookie)(
            struct MPIDI_VC *vc, MPID_Request *req, MPL_IOV cookie);
        int (*lmt_done_send)(struct MPIDI_VC *vc, MPID_Request *req);
        int (*lmt_done_recv)(struct MPIDI_VC *vc, MPID_Request *req);
        union {
            char padding[128];
            void *align_helper;
        } netmod_area; /* for the network module */
    } ch;
    unsigned terminated; /* for the test: how often */
    struct MPIDI_VC *next;
} MPIDI_VC_t;

int MPIDI_VC_Init(MPIDI_VC_t *vc, MPIDI_PG_t *pg, int rank);

/* The network module has closed the connection. */
int MPIDI_CH3U_Handle_connection(MPIDI_VC_t *vc, MPIDI_VC_Event_t event);

/* A VC for nem_accept(). */
int MPIDI_CH3I_Acceptq_enqueue(MPIDI_VC_t *vc, int port_name_tag);

#define MPIDI_PG_Get_vc_set_active(group, rank, vcp) \
    do { \
        *(vcp) = &(group)->vct[rank]; \
        if ((*(vcp))->state == MPIDI_VC_STATE_INACTIVE) \
            MPIDI_CHANGE_VC_STATE(*(vcp), ACTIVE); \
    } while (0)

/* ---- Business cards: "key#value$key#value$" ---- */

enum { MPIU_STR_SUCCESS, MPIU_STR_FAIL, MPIU_STR_NOMEM };

/* Both move *text and reduce *size. */
int MPIU_Str_add_string_arg(
    char **text, int *size, const char *key, const char *value);
int MPIU_Str_add_int_arg(char **text, int *size, const char *key, int value);
int MPIU_Str_get_string_arg(
    const char *text, const char *key, char *value, size_t size);
int MPIDI_GetTagFromPort(const char *port, int *port_name_tag);

/* ---- Receiving ---- */

/* Handle bytes that have arrived on a VC: any number of packets, or a part of
 * one. `buf` may be reused when it returns. */
int MPID_nem_handle_pkt(MPIDI_VC_t *vc, char *buf, MPIDI_msg_sz_t buflen);

/* ---- Messages of a large message transfer ----
 *
 * As in MPICH, the first three return from the function by its label fn_fail,
 * and need a variable mpi_errno. */

int nem_lmt_send_rts(MPIDI_VC_t *vc, MPID_nem_pkt_lmt_rts_t *rts_pkt,
    void *cookie, MPIDI_msg_sz_t cookie_len);
int nem_lmt_send_cts(MPIDI_VC_t *vc, MPID_Request *rreq, void *cookie,
    MPIDI_msg_sz_t cookie_len);
int nem_lmt_send_done(MPIDI_VC_t *vc, MPID_Request *req);
int MPID_nem_lmt_send_COOKIE(
    MPIDI_VC_t *vc, MPID_Request *req, void *cookie, MPI_Aint cookie_len);

#define NEM_CHECKED(call) \
    do { \
        mpi_errno = (call); \
        if (mpi_errno != MPI_SUCCESS) \
            goto fn_fail; \
    } while (0)
#define MPID_nem_lmt_send_RTS(vc, rts_pkt, cookie, cookie_len) \
    NEM_CHECKED(nem_lmt_send_rts(vc, rts_pkt, cookie, cookie_len))
#define MPID_nem_lmt_send_CTS(vc, rreq, cookie, cookie_len) \
    NEM_CHECKED(nem_lmt_send_cts(vc, rreq, cookie, cookie_len))
#define MPID_nem_lmt_send_DONE(vc, req) NEM_CHECKED(nem_lmt_send_done(vc, req))

/* ---- The network module ---- */

typedef enum {
    MPID_NEM_POLL_IN, /* receive before sending what waits */
    MPID_NEM_POLL_OUT /* send before receiving */
} MPID_nem_poll_dir_t;

typedef struct MPID_nem_netmod_funcs {
    int (*init)(
        MPIDI_PG_t *pg_p, int pg_rank, char **bc_val_p, int *val_max_sz_p);
    int (*finalize)(void);
    int (*ckpt_shutdown)(void);
    int (*poll)(MPID_nem_poll_dir_t in_or_out);
    int (*get_business_card)(int my_rank, char **bc_val_p, int *val_max_sz_p);
    int (*connect_to_root)(const char *business_card, MPIDI_VC_t *new_vc);
    int (*vc_init)(MPIDI_VC_t *vc, const char *business_card);
    int (*vc_destroy)(MPIDI_VC_t *vc);
    int (*vc_terminate)(MPIDI_VC_t *vc);
    int (*get_ordering)(int *ordering);
} MPID_nem_netmod_funcs_t;

extern MPID_nem_netmod_funcs_t MPIDI_nem_hg_funcs;

/* ---- For the test ----
 *
 * nem_check() ends the process with a line if a function failed. */

#define NEM_CARD_MAX 512

/* Join a group of `size` processes as `rank`. nem_card is then the card of this
 * process. nem_start_again() is for a process that called ckpt_shutdown. */
void nem_init(const char *pg_id, int rank, int size);
void nem_start_again(void);
extern char nem_card[NEM_CARD_MAX];

/* Say what the card of another rank is. Copied. */
void nem_set_card(int rank, const char *card);

/* The VC to a rank. */
MPIDI_VC_t *nem_vc(int rank);

/* Leave: every VC was closed, or has failed. */
void nem_finalize(void);

/* Messages up to this size are sent eagerly. Default: 1,024. */
extern MPIDI_msg_sz_t nem_eager_max;

/* Start to send `count` blocks of a datatype, or to receive them. The request
 * is released by nem_wait(). */
MPID_Request *nem_send(MPIDI_VC_t *vc, int tag, const void *buf, MPI_Aint count,
    MPI_Datatype type);
MPID_Request *nem_recv(
    MPIDI_VC_t *vc, int tag, void *buf, MPI_Aint count, MPI_Datatype type);

/* Send with the header of an eager message by iStartContigMsg. NULL: it was
 * sent. */
MPID_Request *nem_start(
    MPIDI_VC_t *vc, int tag, void *buf, MPIDI_msg_sz_t size);

/* Send an eager message of `size` bytes whose request describes its data in
 * `iov`, set by `next`: first here, and then as OnDataAvail. */
MPID_Request *nem_send_by(MPIDI_VC_t *vc, int tag, MPIDI_msg_sz_t size,
    nem_on_data_t next, void *arg);

/* Wait for a request, release it, and return its status. */
int nem_wait(MPID_Request *req);

/* Make progress once: by turns in both directions, unless nem_dir is set. */
void nem_poll(void);
extern int nem_dir; /* -1, or a MPID_nem_poll_dir_t */

/* Close a VC as CH3 does, until it is terminated; the peer does the same. With
 * nem_close_begin() alone it goes on in nem_poll(). */
void nem_close_begin(MPIDI_VC_t *vc);
void nem_close(MPIDI_VC_t *vc);

/* Connect two processes that share no group. nem_port() writes what the other
 * side connects to. A VC is closed by nem_close() and freed by nem_free(). */
void nem_port(int tag, char port[NEM_CARD_MAX]);
MPIDI_VC_t *nem_accept(int tag);
MPIDI_VC_t *nem_connect(const char *port);
void nem_free(MPIDI_VC_t *vc);

/* Requests that are not released. */
extern unsigned nem_requests;

#endif
