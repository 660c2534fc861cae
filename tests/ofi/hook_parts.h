/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hook_parts: shared by the files of the hook.
 *
 * Each object of the hook starts with libfabric's public struct and has the
 * provider's object in `real`. One mutex, hook_lock, guards the words, the
 * counters and the lists. A completion queue has its own mutex, which is locked
 * before hook_lock. The provider is never called under hook_lock, except to
 * register memory.
 */
#ifndef HG_TESTS_OFI_HOOK_PARTS_H
#define HG_TESTS_OFI_HOOK_PARTS_H

#include "ofi/hook.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#define HOOK_IOV 8        /* segments supported, at most */
#define HOOK_AUTH 16      /* bytes of an authorization key */
#define HOOK_RAW_KEY 24   /* bytes of a raw key */
#define HOOK_BUCKETS 4096 /* of each hash table */

struct hook_words {
    uint64_t mr_mode; /* mode bits that are demanded */
    bool on, offset, context, order, nowait, manual, nodc, authkey;
    size_t inject, iov, msg, mriov; /* SIZE_MAX: the provider's limit */
    uint64_t again, cqagain;        /* 0: never */
    char fault[16];
    uint64_t fault_at;
    int fault_errno;
};

struct hook_fabric {
    struct fid_fabric fid;
    struct fid_fabric *real;
    unsigned open; /* domains */
};

/* A raw key that was mapped. */
struct hook_mapping {
    struct hook_mapping *next;
    uint64_t key, real_key, base;
};

struct hook_domain {
    struct fid_domain fid;
    struct fid_domain *real;
    struct hook_fabric *fabric;
    struct hook_mr *mrs[HOOK_BUCKETS];           /* by address */
    struct hook_mapping *mappings[HOOK_BUCKETS]; /* by key */
    unsigned open; /* endpoints, queues, vectors */
    unsigned mr_count, mapping_count;
    uint64_t mr_mode, real_mr_mode;
    size_t mr_iov_limit;
    uint8_t auth[HOOK_AUTH];
};

/* An address in a vector. */
struct hook_peer {
    struct hook_peer *next;
    fi_addr_t addr;
    unsigned inserted; /* how many times */
    unsigned users;    /* operations in flight */
    uint64_t name;     /* hash of the address */
};

struct hook_av {
    struct fid_av fid;
    struct fid_av *real;
    struct hook_domain *domain;
    struct hook_peer *peers;
};

struct hook_mr {
    struct fid_mr fid;
    struct fid_mr *real; /* NULL: not enabled */
    struct hook_mr *next;
    struct hook_domain *domain;
    struct hook_ep *ep; /* the endpoint it is bound to */
    struct iovec iov[HOOK_IOV];
    size_t iov_count;
    uint64_t access, requested_key, flags;
    unsigned users; /* operations in flight */
};

/* A completion that waits to be read; op_context is the provider's. */
struct hook_entry {
    struct fi_cq_err_entry entry;
    bool error;
};

struct hook_cq {
    struct fid_cq fid;
    struct fid_cq *real;
    struct hook_domain *domain;
    pthread_mutex_t lock;
    size_t format_size;
    struct hook_entry *entries;
    size_t count, capacity;
    unsigned held; /* reads for which entries were held back */
    bool failed;   /* entries[0] is an error that was reported */
    bool nudge;    /* do not sleep now */
    bool waits;    /* has a wait object */
};

struct hook_ep {
    struct fid_ep fid;
    struct fid_ep *real;
    struct hook_domain *domain;
    struct hook_av *av;
    struct hook_cq *tx, *rx;
    bool enabled, ordered; /* FI_ORDER_SAS of receives */
    unsigned mrs;          /* regions bound to it */
    size_t inject, tx_iov, rx_iov, rma_iov, msg;
    uint64_t tx_flags, rx_flags;
    uint64_t name; /* hash of the address, once enabled with authkey */
};

/* An operation in flight: the provider has it as its context. */
struct hook_op {
    struct fi_context2 buffer; /* used by the provider */
    struct hook_op *next;      /* next in its bucket */
    struct hook_ep *ep;        /* NULL once the endpoint is closed */
    struct hook_cq *cq;
    struct hook_peer *peer; /* NULL: of a receive */
    struct hook_mr *mrs[HOOK_IOV];
    void *context; /* the caller's context */
    uint64_t flags;
    bool multi, receives, ordered;
};

extern pthread_mutex_t hook_lock;
extern struct hook_words hook_words;

/* ---- hook.c ---- */

__attribute__((noreturn, format(printf, 1, 2))) void hook_violation(
    const char *format, ...);
void *hook_alloc(size_t size);

/* An object was opened (1) or closed (-1): counts it for its parent, too. */
void hook_opened(unsigned *children, int n);

/* With hook_lock held. */
void hook_count(const char *name);
bool hook_chance(uint64_t n);
uint64_t hook_random(void);

/* 0, or a negative errno if this call is the one that must fail. */
int hook_fault(const char *kind);

/* Read the words unless that was done. */
void hook_start(void);

/* ---- hook_info.c ---- */

/* The provider's own info for one of the hook's; the caller frees it. */
struct fi_info *hook_info_real(const struct fi_info *info);

/* ---- hook_mr.c ---- */

extern struct fi_ops_mr hook_mr_domain_ops;

/* FI_MAP_RAW_MR and FI_UNMAP_KEY of a domain. */
int hook_mr_control(struct hook_domain *domain, int command, void *arg);

/* With hook_lock held: the region of a descriptor that covers `iov`, or a
 * violation. `real_p` gets the provider's descriptor. */
struct hook_mr *hook_mr_check(struct hook_ep *ep, const struct iovec *iov,
    void *desc, uint64_t access, void **real_p);

/* With hook_lock held: remote memory in the form that the provider expects. */
void hook_mr_remote(struct hook_domain *domain, struct fi_rma_iov *iov);

/* ---- hook_cq.c ---- */

int hook_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr,
    struct fid_cq **cq_p, void *context);

/* Whether the queue has something to read. */
bool hook_cq_busy(struct hook_cq *cq);

/* Make the caller read again instead of sleeping. */
void hook_cq_nudge(struct hook_cq *cq);

/* An operation ends with an error. */
void hook_cq_fail(struct hook_op *op, int error);

/* ---- hook_ep.c ---- */

int hook_ep_open(struct fid_domain *domain, struct fi_info *info,
    struct fid_ep **ep_p, void *context);

/* With hook_lock held. NULL: not an operation of the hook, or it has ended. */
struct hook_op *hook_op_find(const void *op);
void hook_op_end(struct hook_op *op);
void hook_op_check(const struct hook_op *op);

/* With hook_lock held: free the operations that a queue left. */
void hook_op_forget(const struct hook_cq *cq);

/* ---- hook_av.c ---- */

int hook_av_open(struct fid_domain *domain, struct fi_av_attr *attr,
    struct fid_av **av_p, void *context);

/* With hook_lock held. NULL: not in the vector. */
struct hook_peer *hook_av_find(struct hook_av *av, fi_addr_t addr);

/* The authorization keys of endpoints. */
bool hook_av_is_deaf(struct hook_domain *domain, uint64_t name);
void hook_av_publish(struct hook_ep *ep);
void hook_av_retract(struct hook_ep *ep);

#endif
