/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets: cut into pieces that the provider can do, a few of which are
 * in flight together.
 *
 * Part of the libfabric transport; see ofi.h.
 *
 * A piece ends where the provider's limits say so: the number of local and of
 * remote segments, the bytes of a message. One thread at a time starts pieces
 * of an operation, without a lock; the end of each is another reason to do so.
 * What did not go at once waits in endpoint->due, for the next poll.
 */
#include "ofi/ofi.h"

/* ---- Pieces ---- */

static size_t na_ofi_limit(size_t limit)
{
    return limit < 1 ? 1 : limit < NA_OFI_IOV_MAX ? limit : NA_OFI_IOV_MAX;
}

/* Where an offset is, at most the size of the memory: by a walk, because the
 * handle is the core's, which does not tell where segments start. */
static struct na_ofi_place na_ofi_place_local(
    const struct na_mem_handle *mem, na_offset_t offset)
{
    struct na_ofi_place place = {0, offset};

    while (place.segment < mem->segment_count &&
        place.within >= mem->segments[place.segment].size) {
        place.within -= mem->segments[place.segment].size;
        place.segment++;
    }
    return place;
}

/* The same of a peer's memory, which has that byte. */
static struct na_ofi_place na_ofi_place_remote(
    const struct na_ofi_mem *mem, na_offset_t offset)
{
    struct na_ofi_place place = {0, 0};
    na_size_t end = mem->base.segment_count;

    assert(offset < mem->base.size);
    while (end - place.segment > 1) {
        na_size_t middle = place.segment + (end - place.segment) / 2;

        if (mem->there[middle].start <= offset)
            place.segment = middle;
        else
            end = middle;
    }
    place.within = offset - mem->there[place.segment].start;
    assert(place.within < mem->there[place.segment].size);
    return place;
}

/* Bytes of a segment from a place on, up to `limit`; the place passes them. */
static size_t na_ofi_place_pass(
    struct na_ofi_place *place, na_size_t size, na_size_t limit)
{
    na_size_t run = size - place->within < limit ? size - place->within : limit;

    place->within += run;
    if (place->within == size) {
        place->segment++;
        place->within = 0;
    }
    return (size_t) run;
}

/* Segments of ours from the next byte on, `*size` bytes in all or fewer, and
 * then those: their number, and the place behind them. */
static size_t na_ofi_list_local(const struct na_ofi_op *op, na_size_t *size,
    struct iovec iov[NA_OFI_IOV_MAX], void *desc[NA_OFI_IOV_MAX],
    struct na_ofi_place *behind_p)
{
    const struct na_ofi_mem *mem = na_ofi_mem_of(op->base.local);
    const struct fi_info *info = op->end->na_class->info;
    size_t limit = na_ofi_limit(info->tx_attr->iov_limit);
    struct na_ofi_place place = op->local;
    na_size_t left = *size;
    size_t n = 0;

    while (left > 0 && n < limit) {
        const struct na_segment *segment = &mem->base.segments[place.segment];

        assert(place.segment < mem->base.segment_count);
        if (segment->size == 0) {
            place.segment++;
            continue;
        }
        iov[n].iov_base = (char *) segment->address + place.within;
        desc[n] = na_ofi_mem_desc(mem, place.segment);
        iov[n].iov_len = na_ofi_place_pass(&place, segment->size, left);
        left -= iov[n].iov_len;
        n++;
    }
    *size -= left;
    *behind_p = place;
    return n;
}

/* The same of the peer's. */
static size_t na_ofi_list_remote(const struct na_ofi_op *op, na_size_t *size,
    struct fi_rma_iov iov[NA_OFI_IOV_MAX], struct na_ofi_place *behind_p)
{
    const struct na_ofi_mem *mem = na_ofi_mem_of(op->base.remote);
    const struct fi_info *info = op->end->na_class->info;
    size_t limit = na_ofi_limit(info->tx_attr->rma_iov_limit);
    struct na_ofi_place place = op->remote;
    na_size_t left = *size;
    size_t n = 0;

    while (left > 0 && n < limit) {
        const struct na_ofi_piece *piece = &mem->there[place.segment];

        assert(place.segment < mem->base.segment_count);
        iov[n].addr = piece->base + place.within;
        iov[n].key = piece->key;
        iov[n].len = na_ofi_place_pass(&place, piece->size, left);
        left -= iov[n].len;
        n++;
    }
    *size -= left;
    *behind_p = place;
    return n;
}

/* The endpoint that serves the peer's memory: where only one can, that one;
 * else the one that the peer's last message came from, since somebody makes
 * progress there. */
static fi_addr_t na_ofi_rma_target(const struct na_ofi_op *op)
{
    struct na_ofi_addr *addr = na_ofi_addr_of(op->base.addr);
    uint8_t id = na_ofi_mem_of(op->base.remote)->endpoint;

    return na_ofi_target(addr,
        id != NA_OFI_ANY
            ? id
            : atomic_load_explicit(&addr->context, memory_order_relaxed));
}

/* Start the next piece. NA_AGAIN: the provider has no room for it.
 *
 * A put that completes must be visible before any later message. With
 * FI_DELIVERY_COMPLETE it is. A provider that has not got that completes a
 * write, by default, when the peer has received it reliably
 * (FI_TRANSMIT_COMPLETE); messages follow it by the same connection. */
static na_return_t na_ofi_rma_post(
    struct na_ofi_op *op, struct na_ofi_part *part)
{
    struct na_ofi_class *self = op->end->na_class;
    na_size_t max = self->info->ep_attr->max_msg_size;
    na_size_t size = max > 0 && max < op->left ? max : op->left;
    struct na_ofi_place local, remote;
    struct iovec iov[NA_OFI_IOV_MAX];
    struct fi_rma_iov rma_iov[NA_OFI_IOV_MAX];
    void *desc[NA_OFI_IOV_MAX];
    struct fi_msg_rma msg;
    na_size_t tried;
    ssize_t rc;

    memset(&msg, 0, sizeof(msg));
    msg.iov_count = na_ofi_list_local(op, &size, iov, desc, &local);
    tried = size;
    msg.rma_iov_count = na_ofi_list_remote(op, &size, rma_iov, &remote);
    if (size < tried)
        msg.iov_count = na_ofi_list_local(op, &size, iov, desc, &local);
    msg.msg_iov = iov;
    msg.desc = desc;
    msg.rma_iov = rma_iov;
    msg.addr = na_ofi_rma_target(op);
    part->op = op;
    part->request.work = NA_OFI_RMA;
    msg.context = &part->request.provider;
    if (op->base.type == NA_CB_PUT)
        rc = fi_writemsg(op->end->ep, &msg, FI_DELIVERY_COMPLETE);
    else
        rc = fi_readmsg(op->end->ep, &msg, 0);
    if (rc == -FI_EAGAIN)
        return NA_AGAIN;
    if (rc != 0)
        return na_ofi_failed(self,
            op->base.type == NA_CB_PUT ? "fi_writemsg" : "fi_readmsg",
            op->base.addr->name, (int) rc);
    op->local = local;
    op->remote = remote;
    op->left -= size;
    return NA_SUCCESS;
}

/* ---- Operations ---- */

/* Whether the peer can be reached; NA_AGAIN: it is being asked. The first use
 * of an address asks; what comes of that is the operation's fate. */
static na_return_t na_ofi_rma_ready(struct na_ofi_op *op)
{
    struct na_ofi_class *self = op->end->na_class;
    struct na_ofi_addr *addr = na_ofi_addr_of(op->base.addr);
    int state = atomic_load(&addr->state);
    na_return_t ret;

    if (state == NA_OFI_READY)
        return NA_SUCCESS;
    if (state == NA_OFI_DEAD || self->base.core->addr_is_dead(&addr->base))
        return NA_DISCONNECT;
    if (state == NA_OFI_IDLE && op->asked)
        return NA_HOSTUNREACH;
    ret = na_ofi_want(self, addr, op->end->id);
    op->asked = ret == NA_AGAIN;
    return ret;
}

/* A piece begins, or ended. The endpoint's lock is held, as in the next. */
static void na_ofi_part_take(struct na_ofi_part *part, struct na_ofi_op *op)
{
    assert(!part->taken);
    part->taken = true;
    op->flight++;
    op->end->flight++;
}

static void na_ofi_part_give(struct na_ofi_part *part, struct na_ofi_op *op)
{
    assert(part->taken && op->flight > 0 && op->end->flight > 0);
    part->taken = false;
    op->flight--;
    op->end->flight--;
}

/* A place for a piece, where one is to be started. */
static struct na_ofi_part *na_ofi_part_next(struct na_ofi_op *op)
{
    unsigned i = 0;

    if (op->ret != NA_SUCCESS || op->left == 0 || op->flight == NA_OFI_PIECES)
        return NULL;
    while (op->parts[i].taken)
        i++;
    return &op->parts[i];
}

static void na_ofi_rma_fail(struct na_ofi_op *op, na_return_t ret)
{
    if (op->ret == NA_SUCCESS)
        op->ret = ret;
}

/* It waits no more. */
static void na_ofi_rma_resume(struct na_ofi_op *op)
{
    if (op->waiting)
        na_plug_list_remove(&op->due);
    op->waiting = false;
}

/* Start what can be started, and end the operation where nothing is left to
 * do. The caller set `busy`, and holds no lock. */
static void na_ofi_rma_work(struct na_ofi_op *op)
{
    struct na_ofi_end *end = op->end;
    na_return_t ret = op->left > 0 ? na_ofi_rma_ready(op) : NA_SUCCESS;
    struct na_ofi_part *part;
    bool waits;
    bool ended;

    na_ofi_lock(&end->lock);
    while (ret == NA_SUCCESS && (part = na_ofi_part_next(op)) != NULL) {
        na_ofi_part_take(part, op);
        na_ofi_unlock(&end->lock);
        ret = na_ofi_rma_post(op, part);
        na_ofi_lock(&end->lock);
        if (ret != NA_SUCCESS)
            na_ofi_part_give(part, op);
    }
    if (ret != NA_SUCCESS && ret != NA_AGAIN)
        na_ofi_rma_fail(op, ret);
    op->busy = false;
    ended = op->flight == 0 && (op->ret != NA_SUCCESS || op->left == 0);
    waits = ret == NA_AGAIN && op->ret == NA_SUCCESS;
    op->waiting = waits;
    if (waits)
        na_plug_list_push(&end->due, &op->due);
    ret = op->ret;
    na_ofi_unlock(&end->lock);
    if (ended)
        end->na_class->base.core->complete(&op->base, ret);
    if (waits)
        na_ofi_hurry(end->na_class);
}

/* The slots put and get. */
static na_return_t na_ofi_rma_start(struct na_op *base)
{
    struct na_ofi_op *op = (struct na_ofi_op *) base;
    struct na_ofi_end *end = na_ofi_end_of(base->context);
    na_return_t ret;

    if (base->size == 0) {
        end->na_class->base.core->complete(base, NA_SUCCESS);
        return NA_SUCCESS;
    }
    ret = na_ofi_mem_local(base->local);
    if (ret != NA_SUCCESS)
        return ret;
    na_ofi_lock(&end->lock);
    assert(op->flight == 0 && !op->waiting && !op->busy);
    op->end = end;
    op->busy = true;
    op->asked = false;
    op->ret = NA_SUCCESS;
    op->left = base->size;
    na_ofi_unlock(&end->lock);
    na_plug_list_init(&op->due);
    op->local = na_ofi_place_local(base->local, base->local_offset);
    op->remote =
        na_ofi_place_remote(na_ofi_mem_of(base->remote), base->remote_offset);
    na_ofi_rma_work(op);
    return NA_SUCCESS;
}

/* From poll: try again what did not go. The number tried. */
static unsigned na_ofi_rma_flush(struct na_ofi_end *end)
{
    struct na_link due;
    struct na_link *link;
    unsigned n = 0;

    na_plug_list_init(&due);
    na_ofi_lock(&end->lock);
    na_plug_list_move(&due, &end->due);
    while ((link = na_plug_list_pop(&due)) != NULL) {
        struct na_ofi_op *op = NA_OFI_OF(link, struct na_ofi_op, due);

        op->waiting = false;
        op->busy = true;
        na_ofi_unlock(&end->lock);
        na_ofi_rma_work(op);
        n++;
        na_ofi_lock(&end->lock);
    }
    na_ofi_unlock(&end->lock);
    return n;
}

/* ---- Ends ---- */

/* What an error of a piece means.
 *
 * The description told of bounds and permissions, and they were kept: so a
 * target that refuses has not got that memory any more, whatever its provider
 * calls it. Some (tcp) refuse by closing the connection; that is as if the peer
 * had died, but for memory of this class.
 *
 * A broken connection is FI_ECANCELED of some and FI_EIO of others. Nobody else
 * cancels pieces: those of an endpoint that we close end in silence. */
static na_return_t na_ofi_rma_fate(const struct na_ofi_op *op, int error)
{
    struct na_ofi_class *self = op->end->na_class;
    const struct na_core *core = self->base.core;
    na_return_t ret = na_ofi_code(error);

    switch (error) {
    case FI_EACCES:
    case FI_EPERM:
    case FI_EINVAL:
    case FI_ENOKEY:
    case FI_EKEYREJECTED: ret = NA_NOENTRY; break;
    case FI_ECANCELED:
    case FI_EIO: ret = NA_DISCONNECT; break;
    default: break;
    }
    if (op->base.addr->self && ret == NA_DISCONNECT)
        ret = NA_NOENTRY;
    if (ret == NA_NOENTRY) {
        core->count(&self->base, "rma_refused", 1);
        core->log(HG_LOG_LEVEL_WARNING, "ofi",
            "a transfer was refused by %s: %s", op->base.addr->name,
            fi_strerror(error));
    } else {
        core->log(HG_LOG_LEVEL_WARNING, "ofi", "a transfer with %s failed: %s",
            op->base.addr->name, fi_strerror(error));
    }
    return ret;
}

/* A piece ended; `error` is 0, or positive, of libfabric. No lock is held. */
static void na_ofi_rma_done(
    struct na_ofi_end *end, struct na_ofi_request *request, int error)
{
    struct na_ofi_part *part = NA_OFI_OF(request, struct na_ofi_part, request);
    struct na_ofi_op *op = part->op;
    na_return_t ret = error != 0 ? na_ofi_rma_fate(op, error) : NA_SUCCESS;
    bool busy;

    if (ret == NA_DISCONNECT || ret == NA_HOSTUNREACH)
        na_ofi_lost(end->na_class, na_ofi_addr_of(op->base.addr), ret);
    na_ofi_lock(&end->lock);
    na_ofi_part_give(part, op);
    if (ret != NA_SUCCESS)
        na_ofi_rma_fail(op, ret);
    busy = op->busy;
    if (!busy) {
        na_ofi_rma_resume(op);
        op->busy = true;
    }
    na_ofi_unlock(&end->lock);
    if (!busy)
        na_ofi_rma_work(op);
}

/* For the slot cancel: nothing new is started, and what is in flight ends by
 * itself. */
static na_return_t na_ofi_rma_cancel(struct na_op *base, uint64_t op_id)
{
    struct na_ofi_op *op = (struct na_ofi_op *) base;
    struct na_ofi_end *end = na_ofi_end_of(base->context);
    const struct na_core *core = end->na_class->base.core;
    bool ended;

    na_ofi_lock(&end->lock);
    if (core->op_id(base) != op_id ||
        (!op->busy && !op->waiting && op->flight == 0)) {
        na_ofi_unlock(&end->lock);
        return NA_NOENTRY;
    }
    na_ofi_rma_fail(op, NA_CANCELED);
    na_ofi_rma_resume(op);
    ended = !op->busy && op->flight == 0;
    na_ofi_unlock(&end->lock);
    if (ended)
        core->complete(base, NA_CANCELED);
    return NA_SUCCESS;
}
