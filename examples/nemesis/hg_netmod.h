/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hg_netmod: what hg_netmod.c and hg_netmod_lmt.c share; see hg_netmod.c.
 */
#ifndef HG_EXAMPLES_HG_NETMOD_H
#define HG_EXAMPLES_HG_NETMOD_H

#ifdef HG_NEMESIS_MPICH
#include "mpid_nem_impl.h"
typedef int MPID_nem_poll_dir_t; /* of the API, but not of MPICH 3.2.1 */
#else
#include "nemesis.h"
#endif
#include "hg.h"

#include <stdbool.h>
#include <stdint.h>

/* In front of each message. All processes have one byte order, as in MPICH. */
struct netmod_header {
    uint64_t id;     /* a hash of the sender's group, or of a connection */
    uint32_t rank;   /* of the sender in its group */
    uint32_t number; /* counts from 0, which begins a new stream */
};

enum netmod_state {
    NETMOD_IDLE,   /* as after vc_init */
    NETMOD_LOOKUP, /* NA_Addr_lookup() is in progress */
    NETMOD_READY,  /* has an address */
};

/* The module's part of a VC. It outlives the VC while NA uses it. */
struct netmod_link {
    struct netmod_link *next, **prev; /* in hg_netmod.links */
    MPIDI_VC_t *vc;                   /* NULL: the VC was destroyed */
    unsigned refs;                    /* of the VC, and of operations */
    enum netmod_state state;
    bool terminating; /* vc_terminate() waits for sends */
    bool busy;        /* OnDataAvail of a send runs */
    bool broken;      /* a poll calls netmod_fail() */
    na_addr_t addr;
    na_op_id_t watch;            /* a receive that ends with the peer */
    unsigned watches;            /* such receives, with canceled ones */
    char byte;                   /* their memory */
    char name[NA_MAX_ADDR_LEN];  /* "": the group knows it */
    struct netmod_header header; /* of the next message */
    uint64_t from;               /* the id of messages to a VC without group */
    uint32_t from_rank;
    uint32_t expected;               /* the number of the next message */
    struct netmod_send *head, *tail; /* sends that wait */
    struct netmod_lmt *lmts;         /* large transfers */
};

/* The state of the module, for one thread. */
extern struct hg_netmod {
    na_class_t *na_class;
    na_context_t *context;
    char name[NA_MAX_ADDR_LEN];
    MPIDI_PG_t *pg;
    uint64_t id; /* of the group */
    int rank;
    uint32_t connections; /* made by connect_to_root */
    size_t part_max;      /* bytes of a message behind its header */
    size_t section;       /* HG_NEMESIS_SECTION, or 0 */
    char mode;            /* 'n'ull, 'g'et, 'p'ut, 'c'ooperative */
    struct netmod_link *links;
    bool progressing; /* callbacks of NA run */
    bool stalled;     /* NA refused something, or a link is broken */
    unsigned idle;    /* polls without an event */
    int mpi_errno;    /* the first error of a callback */
    char **bufs;      /* of the receives */
    struct {
        uint64_t lookups, terminated, messages, bytes, requests, more;
        uint64_t received, received_bytes, gets, puts, moved, cookies, done;
    } count;
} hg_netmod;

/* The error code of a request whose peer is gone. */
int hg_netmod_lost(const MPIDI_VC_t *vc);

/* The error code of a function, after a line on stderr. */
int hg_netmod_error(const char *what);

/* Keep the first error of a callback: poll returns it. */
void hg_netmod_note(int mpi_errno);

struct netmod_link *hg_netmod_link_of(MPIDI_VC_t *vc);

/* Take and drop a reference: the last one frees the link. */
struct netmod_link *hg_netmod_ref(struct netmod_link *link);
void hg_netmod_unref(struct netmod_link *link);

/* Look the address of an idle link up. hg_netmod_lmt_continue() follows. */
void hg_netmod_resolve(struct netmod_link *link);

/* Set the functions of large transfers in a VC; none in the mode Null. */
void hg_netmod_lmt_init(MPIDI_VC_t *vc);

/* Continue the transfers of a link: it has an address now, or NA refused. */
void hg_netmod_lmt_continue(struct netmod_link *link);

/* End the transfers of a link with an error. One that NA works on ends when NA
 * has finished. */
void hg_netmod_lmt_fail(struct netmod_link *link);

#endif
