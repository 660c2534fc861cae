/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bare: a libfabric endpoint without hg, for tests of the hook.
 *
 * Two of them in one process exchange messages over the loopback interface.
 * Functions that open an object return libfabric's code; all other calls must
 * succeed.
 */
#ifndef HG_TESTS_OFI_BARE_H
#define HG_TESTS_OFI_BARE_H

#include "harness.h"

#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define BARE_SIZE 65536
#define BARE_AUTH 16
#define BARE_MR_MODE \
    (FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | \
        FI_MR_PROV_KEY | FI_MR_ENDPOINT)

struct bare {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    int fd; /* of the completion queue; -1: none */
    fi_addr_t peer;
    struct fid_mr *mr; /* of memory */
    char memory[BARE_SIZE];
    /* Completions so far. */
    unsigned sends, receives, reads, writes, releases, errors;
    int error;          /* error of the last one */
    void *place;        /* address of the last message that arrived */
    unsigned backwards; /* messages reported after a later one */
    bool unordered;     /* asks for no FI_ORDER_SAS */
};

static inline struct fi_info *bare_hints(const char *key, uint64_t op_flags)
{
    struct fi_info *hints = fi_allocinfo();

    HG_CHECK(hints != NULL);
    hints->caps = FI_MSG | FI_RMA | FI_MULTI_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = BARE_MR_MODE;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->tx_attr->op_flags = op_flags;
    if (key != NULL) {
        hints->domain_attr->auth_key_size = strlen(key);
        hints->domain_attr->auth_key = (uint8_t *) strdup(key);
    }
    return hints;
}

/* The provider of reliable datagrams over TCP has two names. */
static inline int bare_getinfo(
    struct fi_info *hints, const char *node, struct fi_info **info_p)
{
    const uint64_t flags = node != NULL ? FI_SOURCE : 0;
    int ret;

    hints->fabric_attr->prov_name = strdup("net");
    ret = fi_getinfo(FI_VERSION(1, 9), node, NULL, flags, hints, info_p);
    if (ret == -FI_ENODATA) {
        free(hints->fabric_attr->prov_name);
        hints->fabric_attr->prov_name = strdup("tcp");
        ret = fi_getinfo(FI_VERSION(1, 9), node, NULL, flags, hints, info_p);
    }
    fi_freeinfo(hints);
    return ret;
}

static inline int bare_open_queue(struct bare *bare)
{
    struct fi_cq_attr attr;
    int ret;

    memset(&attr, 0, sizeof attr);
    attr.format = FI_CQ_FORMAT_DATA;
    attr.wait_obj = FI_WAIT_FD;
    bare->fd = -1;
    ret = fi_cq_open(bare->domain, &attr, &bare->cq, NULL);
    if (ret == 0)
        return fi_control(&bare->cq->fid, FI_GETWAIT, &bare->fd);
    if (ret != -FI_ENOSYS)
        return ret;
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(bare->domain, &attr, &bare->cq, NULL);
}

/* Register memory, and enable the region where that is required. */
static inline int bare_register(struct bare *bare, void *memory, size_t size,
    uint64_t access, struct fid_mr **mr_p)
{
    static uint64_t key; /* for providers that require one */
    int ret =
        fi_mr_reg(bare->domain, memory, size, access, 0, ++key, 0, mr_p, NULL);

    if (ret != 0 || (bare->info->domain_attr->mr_mode & FI_MR_ENDPOINT) == 0)
        return ret;
    HG_CHECK_EQ_INT(fi_mr_bind(*mr_p, &bare->ep->fid, 0), 0);
    return fi_mr_enable(*mr_p);
}

/* Open an endpoint; `bare` is zero, except for `unordered`. `key`: 16 bytes, or
 * NULL. On failure the objects opened so far stay open. */
static inline int bare_open_key(struct bare *bare, const char *key)
{
    struct fi_av_attr attr;
    int ret;

    ret = bare_getinfo(bare_hints(key, 0), "127.0.0.1", &bare->info);
    if (ret == 0)
        ret = fi_fabric(bare->info->fabric_attr, &bare->fabric, NULL);
    if (ret == 0)
        ret = fi_domain(bare->fabric, bare->info, &bare->domain, NULL);
    memset(&attr, 0, sizeof attr);
    if (ret == 0)
        ret = fi_av_open(bare->domain, &attr, &bare->av, NULL);
    if (ret == 0)
        ret = bare_open_queue(bare);
    if (ret == 0 && bare->unordered)
        bare->info->rx_attr->msg_order = FI_ORDER_NONE;
    if (ret == 0)
        ret = fi_endpoint(bare->domain, bare->info, &bare->ep, NULL);
    if (ret == 0)
        ret = fi_ep_bind(bare->ep, &bare->av->fid, 0);
    if (ret == 0)
        ret = fi_ep_bind(bare->ep, &bare->cq->fid, FI_TRANSMIT | FI_RECV);
    if (ret == 0)
        ret = fi_enable(bare->ep);
    if (ret == 0)
        ret = bare_register(bare, bare->memory, sizeof bare->memory,
            FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
                FI_REMOTE_WRITE,
            &bare->mr);
    return ret;
}

static inline void bare_open(struct bare *bare)
{
    HG_CHECK_EQ_INT(bare_open_key(bare, NULL), 0);
}

static inline void bare_close_fid(struct fid *fid)
{
    HG_CHECK_EQ_INT(fi_close(fid), 0);
}

/* Memory regions bound to an endpoint are closed before it, others after it. */
static inline void bare_close(struct bare *bare)
{
    bool bound = bare->info != NULL &&
        (bare->info->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0;

    if (bare->mr != NULL && bound)
        bare_close_fid(&bare->mr->fid);
    if (bare->ep != NULL)
        bare_close_fid(&bare->ep->fid);
    if (bare->mr != NULL && !bound)
        bare_close_fid(&bare->mr->fid);
    if (bare->cq != NULL)
        bare_close_fid(&bare->cq->fid);
    if (bare->av != NULL)
        bare_close_fid(&bare->av->fid);
    if (bare->domain != NULL)
        bare_close_fid(&bare->domain->fid);
    if (bare->fabric != NULL)
        bare_close_fid(&bare->fabric->fid);
    fi_freeinfo(bare->info);
    memset(bare, 0, sizeof *bare);
}

static inline void bare_meet(struct bare *bare, struct bare *other)
{
    char name[256];
    size_t size = sizeof name;

    HG_CHECK_EQ_INT(fi_getname(&other->ep->fid, name, &size), 0);
    HG_CHECK_EQ_INT(fi_av_insert(bare->av, name, 1, &bare->peer, 0, NULL), 1);
}

static inline void bare_open_two(struct bare *bare, struct bare *other)
{
    bare_open(bare);
    bare_open(other);
    bare_meet(bare, other);
    bare_meet(other, bare);
}

static inline void bare_take(
    struct bare *bare, const struct fi_cq_data_entry *entry)
{
    if ((entry->flags & FI_RECV) != 0) {
        bare->receives++;
        bare->backwards += (uintptr_t) entry->buf < (uintptr_t) bare->place;
        bare->place = entry->buf;
    } else if ((entry->flags & FI_SEND) != 0)
        bare->sends++;
    else if ((entry->flags & FI_READ) != 0)
        bare->reads++;
    else if ((entry->flags & FI_WRITE) != 0)
        bare->writes++;
    if ((entry->flags & FI_MULTI_RECV) != 0)
        bare->releases++;
}

/* Read completions; returns their number. */
static inline unsigned bare_poll(struct bare *bare)
{
    struct fi_cq_data_entry entries[8];
    struct fi_cq_err_entry error;
    ssize_t ret = fi_cq_read(bare->cq, entries, 8), i;

    for (i = 0; i < ret; i++)
        bare_take(bare, &entries[i]);
    if (ret == -FI_EAVAIL) {
        memset(&error, 0, sizeof error);
        HG_CHECK_EQ_INT(fi_cq_readerr(bare->cq, &error, 0), 1);
        bare->errors++;
        bare->error = error.err;
        return 1;
    }
    HG_CHECK(ret > 0 || ret == -FI_EAGAIN);
    return ret > 0 ? (unsigned) ret : 0;
}

/* Poll both; sleep when neither has a completion, if they can. The sleep is
 * short, because the descriptors do not report new connections. */
static inline void bare_progress(struct bare *bare, struct bare *other)
{
    struct fid *fids[2] = {&bare->cq->fid, &other->cq->fid};
    struct pollfd fds[2] = {{bare->fd, POLLIN, 0}, {other->fd, POLLIN, 0}};

    hg_test_at(HG_TEST_HERE);
    if (bare_poll(bare) + bare_poll(other) > 0 || bare->fd < 0)
        return;
    if (fi_trywait(bare->fabric, fids, 1) == 0 &&
        fi_trywait(other->fabric, fids + 1, 1) == 0)
        HG_CHECK(poll(fds, 2, 1) >= 0);
}

/* Post until the provider accepts. */
#define BARE_POST(bare, other, call) \
    do { \
        ssize_t bare_ret; \
        while ((bare_ret = (call)) == -FI_EAGAIN) \
            bare_progress(bare, other); \
        HG_CHECK_EQ_INT(bare_ret, 0); \
    } while (0)

#endif
