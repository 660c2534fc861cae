/* SPDX-License-Identifier: BSD-3-Clause */
/* See hook.h. Endpoints, and the operations posted and in flight. */
#define _GNU_SOURCE 1
#include "ofi/hook_parts.h"

#include "harness.h"

#define HOOK_ENDED 1   /* posted and complete: the provider is not called */
#define HOOK_SHORT 24u /* the header of a message of hg */

/* Operations in flight, by their address. */
static struct hook_op *hook_ops[HOOK_BUCKETS];

/* ---- Operations, with hook_lock held ---- */

static struct hook_op **hook_op_bucket(const void *op)
{
    return &hook_ops[((uintptr_t) op >> 6) % HOOK_BUCKETS];
}

struct hook_op *hook_op_find(const void *op)
{
    struct hook_op *entry = *hook_op_bucket(op);

    while (entry != NULL && entry != op)
        entry = entry->next;
    return entry;
}

/* The mark in a context of the caller while the provider has it. */
static uint64_t hook_op_mark(const struct hook_op *op, unsigned i)
{
    uint64_t state = (uintptr_t) op + i;

    return hg_test_random(&state);
}

static void hook_op_write(const struct hook_op *op)
{
    uint64_t mark;
    unsigned i;

    if (op->context == NULL)
        hook_violation(
            "an operation without a context, although FI_CONTEXT2 is set");
    for (i = 0; i < sizeof(struct fi_context2) / sizeof mark; i++) {
        mark = hook_op_mark(op, i);
        memcpy((char *) op->context + i * sizeof mark, &mark, sizeof mark);
    }
}

void hook_op_check(const struct hook_op *op)
{
    uint64_t mark, found;
    unsigned i;

    if (!hook_words.context || op->ep == NULL)
        return;
    for (i = 0; i < sizeof(struct fi_context2) / sizeof mark; i++) {
        mark = hook_op_mark(op, i);
        memcpy(&found, (char *) op->context + i * sizeof mark, sizeof mark);
        if (mark != found)
            hook_violation("a context was used while its operation ran");
    }
}

/* Release the objects that an operation used. */
static void hook_op_release(struct hook_op *op)
{
    unsigned i;

    for (i = 0; i < HOOK_IOV && op->ep != NULL; i++)
        if (op->mrs[i] != NULL)
            op->mrs[i]->users--;
    if (op->peer != NULL && op->ep != NULL)
        op->peer->users--;
    op->ep = NULL;
}

void hook_op_end(struct hook_op *op)
{
    struct hook_op **link = hook_op_bucket(op);

    while (*link != op)
        link = &(*link)->next;
    *link = op->next;
    hook_op_release(op);
    free(op);
}

void hook_op_forget(const struct hook_cq *cq)
{
    struct hook_op *op, *next;
    unsigned i;

    for (i = 0; i < HOOK_BUCKETS; i++)
        for (op = hook_ops[i]; op != NULL; op = next) {
            next = op->next;
            if (op->cq == cq)
                hook_op_end(op);
        }
}

/* ---- Posting ---- */

struct hook_post {
    const char *kind; /* "send", "recv", "read" or "write" */
    uint64_t access;  /* access that local memory must allow */
    const struct iovec *iov;
    void **desc;
    size_t count;
    fi_addr_t addr;
    const struct fi_rma_iov *rma;
    size_t rma_count;
    void *context;
    uint64_t flags;
    bool inject; /* by fi_inject: no completion */
    /* For the provider. */
    void *real_desc[HOOK_IOV];
    struct fi_rma_iov real_rma[HOOK_IOV];
    struct hook_op *op;
};

static bool hook_post_is_receive(const struct hook_post *post)
{
    return post->access == FI_RECV;
}

static void hook_post_check_limits(
    const struct hook_ep *ep, const struct hook_post *post)
{
    size_t most = hook_post_is_receive(post) ? ep->rx_iov : ep->tx_iov;
    size_t size = 0, rma_size = 0, i;

    if (!ep->enabled)
        hook_violation("%s on an endpoint that is not enabled", post->kind);
    if (post->count > most)
        hook_violation(
            "%s of %zu pieces, of %zu at most", post->kind, post->count, most);
    if (post->rma_count > ep->rma_iov)
        hook_violation("%s of %zu remote pieces, of %zu at most", post->kind,
            post->rma_count, ep->rma_iov);
    for (i = 0; i < post->count; i++)
        size += post->iov[i].iov_len;
    for (i = 0; i < post->rma_count; i++)
        rma_size += post->rma[i].len;
    if (post->rma_count != 0 && rma_size != size)
        hook_violation(
            "%s of %zu local and %zu remote bytes", post->kind, size, rma_size);
    if ((post->inject || (post->flags & FI_INJECT) != 0) && size > ep->inject)
        hook_violation(
            "%zu bytes are injected, of %zu at most", size, ep->inject);
    if (!hook_post_is_receive(post) && size > ep->msg)
        hook_violation(
            "%s of %zu bytes, of %zu at most", post->kind, size, ep->msg);
}

/* With hook_lock held. */
static void hook_post_check_memory(
    struct hook_ep *ep, struct hook_post *post, struct hook_mr *mrs[HOOK_IOV])
{
    size_t i;

    for (i = 0; i < post->count && !post->inject; i++) {
        void *desc = post->desc != NULL ? post->desc[i] : NULL;

        if ((post->flags & FI_INJECT) == 0)
            mrs[i] = hook_mr_check(
                ep, &post->iov[i], desc, post->access, &post->real_desc[i]);
    }
    for (i = 0; i < post->rma_count; i++) {
        post->real_rma[i] = post->rma[i];
        hook_mr_remote(ep->domain, &post->real_rma[i]);
    }
}

/* With hook_lock held. */
static void hook_post_make_op(struct hook_ep *ep, struct hook_post *post,
    struct hook_peer *peer, struct hook_mr *mrs[HOOK_IOV])
{
    struct hook_op *op = (struct hook_op *) hook_alloc(sizeof *op);
    struct hook_op **bucket = hook_op_bucket(op);
    unsigned i;

    op->next = *bucket;
    *bucket = op;
    op->ep = ep;
    op->cq = hook_post_is_receive(post) ? ep->rx : ep->tx;
    op->peer = peer;
    op->context = post->context;
    op->flags = post->access == FI_SEND || post->access == FI_RECV
        ? FI_MSG | post->access
        : FI_RMA | post->access;
    op->multi = (post->flags & FI_MULTI_RECV) != 0;
    op->receives = hook_post_is_receive(post);
    op->ordered = ep->ordered;
    if (peer != NULL)
        peer->users++;
    for (i = 0; i < HOOK_IOV; i++) {
        op->mrs[i] = mrs[i];
        if (mrs[i] != NULL)
            mrs[i]->users++;
    }
    if (hook_words.context)
        hook_op_write(op);
    post->op = op;
}

/* 0: call the provider. Otherwise the return code for the caller. */
static int hook_post_refuse(struct hook_ep *ep, const struct hook_post *post)
{
    bool receives = hook_post_is_receive(post);
    bool again;

    pthread_mutex_lock(&hook_lock);
    again = hook_chance(hook_words.again);
    if (again)
        hook_count("again");
    pthread_mutex_unlock(&hook_lock);
    if (again) {
        hook_cq_nudge(receives ? ep->rx : ep->tx);
        return -FI_EAGAIN;
    }
    if ((post->flags & FI_DELIVERY_COMPLETE) != 0 && hook_words.nodc)
        return -FI_EOPNOTSUPP;
    return receives ? hook_fault("recv") : 0;
}

/* Whether a send or a transfer must fail; returns as hook_fault. */
static int hook_post_fault(const struct hook_post *post)
{
    int ret = hook_fault(post->access == FI_SEND ? "send" : "rma");

    if (ret == 0 && post->access == FI_SEND && !post->inject &&
        post->count == 1 && post->iov[0].iov_len <= HOOK_SHORT)
        ret = hook_fault("short");
    return ret;
}

/* 0: call the provider; HOOK_ENDED; or a negative errno. */
static int hook_post_begin(struct hook_ep *ep, struct hook_post *post)
{
    struct hook_mr *mrs[HOOK_IOV] = {NULL};
    struct hook_peer *peer = NULL;
    bool deaf = false;
    int ret;

    hook_post_check_limits(ep, post);
    ret = hook_post_refuse(ep, post);
    if (ret != 0)
        return ret;
    if (!hook_post_is_receive(post))
        ret = -hook_post_fault(post);
    pthread_mutex_lock(&hook_lock);
    hook_post_check_memory(ep, post, mrs);
    if (!hook_post_is_receive(post)) {
        peer = hook_av_find(ep->av, post->addr);
        if (peer == NULL)
            hook_violation(
                "%s to an address that is not in the vector", post->kind);
        deaf = hook_words.authkey && hook_av_is_deaf(ep->domain, peer->name);
    }
    if (!post->inject)
        hook_post_make_op(ep, post, peer, mrs);
    if (deaf)
        hook_count("deaf");
    pthread_mutex_unlock(&hook_lock);
    if (deaf && ret == 0)
        ret = FI_EHOSTUNREACH;
    if (ret == 0)
        return 0;
    if (!post->inject)
        hook_cq_fail(post->op, ret);
    return post->inject && !deaf ? -ret : HOOK_ENDED;
}

/* Count the operation if the provider accepted it, else end it. */
static ssize_t hook_post_end(struct hook_post *post, ssize_t ret)
{
    pthread_mutex_lock(&hook_lock);
    if (ret == 0)
        hook_count(post->inject ? "inject" : post->kind);
    else if (post->op != NULL)
        hook_op_end(post->op);
    pthread_mutex_unlock(&hook_lock);
    return ret;
}

/* ---- Messages ---- */

static ssize_t hook_ep_message(struct fid_ep *fid, struct hook_post *post)
{
    struct hook_ep *ep = (struct hook_ep *) fid;
    struct fi_msg real;
    ssize_t ret = hook_post_begin(ep, post);

    if (ret != 0)
        return ret == HOOK_ENDED ? 0 : ret;
    memset(&real, 0, sizeof real);
    real.msg_iov = post->iov;
    real.desc = post->desc != NULL ? post->real_desc : NULL;
    real.iov_count = post->count;
    real.addr = post->addr;
    real.context = post->op;
    ret = hook_post_is_receive(post) ? fi_recvmsg(ep->real, &real, post->flags)
                                     : fi_sendmsg(ep->real, &real, post->flags);
    return hook_post_end(post, ret);
}

static ssize_t hook_ep_sendmsg(
    struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct hook_post post = {.kind = "send",
        .access = FI_SEND,
        .iov = msg->msg_iov,
        .desc = msg->desc,
        .count = msg->iov_count,
        .addr = msg->addr,
        .context = msg->context,
        .flags = flags};

    return hook_ep_message(fid, &post);
}

static ssize_t hook_ep_sendv(struct fid_ep *fid, const struct iovec *iov,
    void **desc, size_t count, fi_addr_t addr, void *context)
{
    struct fi_msg msg = {.msg_iov = iov,
        .desc = desc,
        .iov_count = count,
        .addr = addr,
        .context = context};

    return hook_ep_sendmsg(fid, &msg, ((struct hook_ep *) fid)->tx_flags);
}

static ssize_t hook_ep_send(struct fid_ep *fid, const void *buf, size_t len,
    void *desc, fi_addr_t addr, void *context)
{
    struct iovec iov = {(void *) (uintptr_t) buf, len};

    return hook_ep_sendv(fid, &iov, &desc, 1, addr, context);
}

static ssize_t hook_ep_inject(
    struct fid_ep *fid, const void *buf, size_t len, fi_addr_t addr)
{
    struct hook_ep *ep = (struct hook_ep *) fid;
    struct iovec iov = {(void *) (uintptr_t) buf, len};
    struct hook_post post = {.kind = "send",
        .access = FI_SEND,
        .iov = &iov,
        .count = 1,
        .addr = addr,
        .inject = true};
    int ret = hook_post_begin(ep, &post);

    if (ret != 0)
        return ret == HOOK_ENDED ? 0 : ret;
    return hook_post_end(&post, fi_inject(ep->real, buf, len, addr));
}

static ssize_t hook_ep_recvmsg(
    struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct hook_post post = {.kind = "recv",
        .access = FI_RECV,
        .iov = msg->msg_iov,
        .desc = msg->desc,
        .count = msg->iov_count,
        .addr = msg->addr,
        .context = msg->context,
        .flags = flags};

    return hook_ep_message(fid, &post);
}

static ssize_t hook_ep_recvv(struct fid_ep *fid, const struct iovec *iov,
    void **desc, size_t count, fi_addr_t addr, void *context)
{
    struct fi_msg msg = {.msg_iov = iov,
        .desc = desc,
        .iov_count = count,
        .addr = addr,
        .context = context};

    return hook_ep_recvmsg(fid, &msg, ((struct hook_ep *) fid)->rx_flags);
}

static ssize_t hook_ep_recv(struct fid_ep *fid, void *buf, size_t len,
    void *desc, fi_addr_t addr, void *context)
{
    struct iovec iov = {buf, len};

    return hook_ep_recvv(fid, &iov, &desc, 1, addr, context);
}

static struct fi_ops_msg hook_ep_msg_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = hook_ep_recv,
    .recvv = hook_ep_recvv,
    .recvmsg = hook_ep_recvmsg,
    .send = hook_ep_send,
    .sendv = hook_ep_sendv,
    .sendmsg = hook_ep_sendmsg,
    .inject = hook_ep_inject,
};

/* ---- RMA ---- */

static ssize_t hook_ep_rma(struct fid_ep *fid, const struct fi_msg_rma *msg,
    uint64_t flags, uint64_t access)
{
    struct hook_ep *ep = (struct hook_ep *) fid;
    struct hook_post post = {.kind = access == FI_READ ? "read" : "write",
        .access = access,
        .iov = msg->msg_iov,
        .desc = msg->desc,
        .count = msg->iov_count,
        .addr = msg->addr,
        .rma = msg->rma_iov,
        .rma_count = msg->rma_iov_count,
        .context = msg->context,
        .flags = flags};
    struct fi_msg_rma real = *msg;
    ssize_t ret = hook_post_begin(ep, &post);

    if (ret != 0)
        return ret == HOOK_ENDED ? 0 : ret;
    real.desc = msg->desc != NULL ? post.real_desc : NULL;
    real.rma_iov = post.real_rma;
    real.context = post.op;
    ret = access == FI_READ ? fi_readmsg(ep->real, &real, flags)
                            : fi_writemsg(ep->real, &real, flags);
    return hook_post_end(&post, ret);
}

static ssize_t hook_ep_rma_pieces(struct fid_ep *fid, const struct iovec *iov,
    void **desc, size_t count, fi_addr_t addr, uint64_t remote, uint64_t key,
    void *context, uint64_t access)
{
    struct fi_rma_iov rma = {remote, 0, key};
    struct fi_msg_rma msg = {.msg_iov = iov,
        .desc = desc,
        .iov_count = count,
        .addr = addr,
        .rma_iov = &rma,
        .rma_iov_count = 1,
        .context = context};
    size_t i;

    for (i = 0; i < count; i++)
        rma.len += iov[i].iov_len;
    return hook_ep_rma(fid, &msg, ((struct hook_ep *) fid)->tx_flags, access);
}

static ssize_t hook_ep_readmsg(
    struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    return hook_ep_rma(fid, msg, flags, FI_READ);
}

static ssize_t hook_ep_readv(struct fid_ep *fid, const struct iovec *iov,
    void **desc, size_t count, fi_addr_t addr, uint64_t remote, uint64_t key,
    void *context)
{
    return hook_ep_rma_pieces(
        fid, iov, desc, count, addr, remote, key, context, FI_READ);
}

static ssize_t hook_ep_read(struct fid_ep *fid, void *buf, size_t len,
    void *desc, fi_addr_t addr, uint64_t remote, uint64_t key, void *context)
{
    struct iovec iov = {buf, len};

    return hook_ep_readv(fid, &iov, &desc, 1, addr, remote, key, context);
}

static ssize_t hook_ep_writemsg(
    struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    return hook_ep_rma(fid, msg, flags, FI_WRITE);
}

static ssize_t hook_ep_writev(struct fid_ep *fid, const struct iovec *iov,
    void **desc, size_t count, fi_addr_t addr, uint64_t remote, uint64_t key,
    void *context)
{
    return hook_ep_rma_pieces(
        fid, iov, desc, count, addr, remote, key, context, FI_WRITE);
}

static ssize_t hook_ep_write(struct fid_ep *fid, const void *buf, size_t len,
    void *desc, fi_addr_t addr, uint64_t remote, uint64_t key, void *context)
{
    struct iovec iov = {(void *) (uintptr_t) buf, len};

    return hook_ep_writev(fid, &iov, &desc, 1, addr, remote, key, context);
}

static struct fi_ops_rma hook_ep_rma_ops = {
    .size = sizeof(struct fi_ops_rma),
    .read = hook_ep_read,
    .readv = hook_ep_readv,
    .readmsg = hook_ep_readmsg,
    .write = hook_ep_write,
    .writev = hook_ep_writev,
    .writemsg = hook_ep_writemsg,
};

/* ---- Endpoints ---- */

/* The provider has another context for the operation. */
static ssize_t hook_ep_cancel(fid_t fid, void *context)
{
    struct hook_ep *ep = (struct hook_ep *) fid;
    struct hook_op *op = NULL, *entry;
    unsigned i;

    pthread_mutex_lock(&hook_lock);
    for (i = 0; i < HOOK_BUCKETS && op == NULL; i++)
        for (entry = hook_ops[i]; entry != NULL; entry = entry->next)
            if (entry->ep == ep && entry->context == context)
                op = entry;
    pthread_mutex_unlock(&hook_lock);
    return op != NULL ? fi_cancel(&ep->real->fid, op) : -FI_ENOENT;
}

static int hook_ep_getopt(
    fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    struct hook_ep *ep = (struct hook_ep *) fid;

    return fi_getopt(&ep->real->fid, level, optname, optval, optlen);
}

static int hook_ep_setopt(
    fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    struct hook_ep *ep = (struct hook_ep *) fid;
    int ret = hook_fault("setopt");

    return ret != 0 ? ret
                    : fi_setopt(&ep->real->fid, level, optname, optval, optlen);
}

static int hook_ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
    struct hook_ep *ep = (struct hook_ep *) fid;
    int ret = hook_fault("getname");

    return ret != 0 ? ret : fi_getname(&ep->real->fid, addr, addrlen);
}

static int hook_ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct hook_ep *ep = (struct hook_ep *) fid;
    struct fid *real = other;
    int ret;

    if ((flags & FI_SELECTIVE_COMPLETION) != 0)
        hook_violation("selective completion, which the hook does not support");
    if (other->fclass == FI_CLASS_CQ) {
        struct hook_cq *cq = (struct hook_cq *) other;

        real = &cq->real->fid;
        if ((flags & FI_TRANSMIT) != 0)
            ep->tx = cq;
        if ((flags & FI_RECV) != 0)
            ep->rx = cq;
    } else if (other->fclass == FI_CLASS_AV) {
        ep->av = (struct hook_av *) other;
        real = &ep->av->real->fid;
    }
    /* Providers crash when an endpoint without bound objects is closed. */
    ret = fi_ep_bind(ep->real, real, flags);
    return ret != 0 ? ret : hook_fault("bind");
}

static int hook_ep_control(struct fid *fid, int command, void *arg)
{
    struct hook_ep *ep = (struct hook_ep *) fid;
    int ret;

    (void) arg;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    ret = hook_fault("enable");
    if (ret != 0)
        return ret;
    if (ep->av == NULL || ep->tx == NULL || ep->rx == NULL)
        hook_violation(
            "an endpoint is enabled before all objects are bound to it");
    ret = fi_enable(ep->real);
    if (ret != 0)
        return ret;
    ep->enabled = true;
    if (hook_words.authkey)
        hook_av_publish(ep);
    return 0;
}

/* Operations in flight are ended. The provider may still report them. */
static int hook_ep_close(struct fid *fid)
{
    struct hook_ep *ep = (struct hook_ep *) fid;
    struct hook_op *op;
    unsigned i;
    int ret;

    if (ep->mrs != 0)
        hook_violation(
            "an endpoint is closed before %u regions bound to it", ep->mrs);
    ret = fi_close(&ep->real->fid);
    if (ret != 0)
        return ret;
    hook_av_retract(ep);
    pthread_mutex_lock(&hook_lock);
    for (i = 0; i < HOOK_BUCKETS; i++)
        for (op = hook_ops[i]; op != NULL; op = op->next)
            if (op->ep == ep)
                hook_op_release(op);
    pthread_mutex_unlock(&hook_lock);
    hook_opened(&ep->domain->open, -1);
    free(ep);
    return 0;
}

static struct fi_ops hook_ep_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = hook_ep_close,
    .bind = hook_ep_bind,
    .control = hook_ep_control,
};

static struct fi_ops_ep hook_ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = hook_ep_cancel,
    .getopt = hook_ep_getopt,
    .setopt = hook_ep_setopt,
};

static struct fi_ops_cm hook_ep_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .getname = hook_ep_getname,
};

static size_t hook_ep_limit(size_t value, size_t limit)
{
    return value < limit ? value : limit;
}

static void hook_ep_set_limits(struct hook_ep *ep, const struct fi_info *info)
{
    ep->inject = hook_ep_limit(info->tx_attr->inject_size, hook_words.inject);
    ep->tx_iov = hook_ep_limit(info->tx_attr->iov_limit, HOOK_IOV);
    ep->tx_iov = hook_ep_limit(ep->tx_iov, hook_words.iov);
    ep->rx_iov = hook_ep_limit(info->rx_attr->iov_limit, HOOK_IOV);
    ep->rx_iov = hook_ep_limit(ep->rx_iov, hook_words.iov);
    ep->rma_iov = hook_ep_limit(info->tx_attr->rma_iov_limit, HOOK_IOV);
    ep->rma_iov = hook_ep_limit(ep->rma_iov, hook_words.iov);
    ep->msg = hook_ep_limit(info->ep_attr->max_msg_size, hook_words.msg);
    ep->ordered = (info->rx_attr->msg_order & FI_ORDER_SAS) != 0;
    ep->tx_flags = info->tx_attr->op_flags;
    ep->rx_flags = info->rx_attr->op_flags;
}

int hook_ep_open(struct fid_domain *domain, struct fi_info *info,
    struct fid_ep **ep_p, void *context)
{
    struct hook_domain *ours = (struct hook_domain *) domain;
    struct fi_info *real;
    struct hook_ep *ep;
    int ret = hook_fault("ep");

    if (ret != 0)
        return ret;
    ep = (struct hook_ep *) hook_alloc(sizeof *ep);
    real = hook_info_real(info);
    ret = fi_endpoint(ours->real, real, &ep->real, context);
    fi_freeinfo(real);
    if (ret != 0) {
        free(ep);
        return ret;
    }
    ep->fid.fid.fclass = FI_CLASS_EP;
    ep->fid.fid.context = context;
    ep->fid.fid.ops = &hook_ep_fid_ops;
    ep->fid.ops = &hook_ep_ops;
    ep->fid.cm = &hook_ep_cm_ops;
    ep->fid.msg = &hook_ep_msg_ops;
    ep->fid.rma = &hook_ep_rma_ops;
    ep->domain = ours;
    hook_ep_set_limits(ep, info);
    pthread_mutex_lock(&hook_lock);
    if ((info->tx_attr->op_flags & FI_DELIVERY_COMPLETE) != 0)
        hook_count("delivery");
    pthread_mutex_unlock(&hook_lock);
    hook_opened(&ours->open, 1);
    *ep_p = &ep->fid;
    return 0;
}
