/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets: split into pieces that the provider supports, a few of which
 * are in flight at a time.
 *
 * Part of the libfabric transport; see ofi.h.
 *
 * The limits of the provider determine the pieces: the number of local and
 * remote segments, the size of a message. One thread at a time starts pieces of
 * an operation, without a lock; each end of a piece lets it continue.
 * Operations that cannot continue at once wait in endpoint->due for the next
 * poll.
 *
 * A target that refuses a transfer, because the memory was withdrawn, breaks
 * the connection on many providers (tcp, tcp;ofi_rxm, verbs), with everything
 * in it. Therefore transfers use connections without messages: a separate
 * endpoint on the initiator's side. When one breaks, each transfer that had
 * pieces in flight is a suspect. It is restarted alone: no other transfer to
 * that peer is in flight meanwhile. A transfer that breaks the connection
 * repeatedly was refused. This module does not decide whether the peer is dead:
 * a suspect waits until it can be started, or until keep-alives have found the
 * peer dead.
 *
 * Over TCP, a peer that looked up this class makes that connection: a firewall
 * or an address translation may let it connect, but not be connected to. When
 * the first put or get to it starts, WELCOME names the endpoints for puts and
 * gets, to which the peer's first endpoint sends LINK, as often as it gets such
 * a WELCOME. The providers use a connection in both directions. If no LINK
 * comes within lookup_ms, this class connects.
 *
 * Not every provider ends operations in flight to a dead peer, or supports
 * canceling them:
 *
 * - Over TCP the connections to a dead peer are broken, which ends them. A
 *   canceled transfer ends when its data has arrived, or with its peer: the
 *   endpoint must not be closed meanwhile (na_ofi_is_tcp).
 * - Elsewhere closing the endpoint ends them. So the endpoint is closed if a
 *   transfer's peer is dead, or if a canceled transfer does not end within a
 *   second, and all other transfers of the endpoint are restarted. The time
 *   until this is repeated doubles, up to five minutes, so that silent peers
 *   cannot prevent long transfers of others from ending.
 * - If the provider is hardware, transfers share the endpoint of the messages:
 *   the provider ends them.
 */
#include "ofi/ofi.h"

/* Attempts of a transfer that breaks the connection. */
#define NA_OFI_RMA_TRIES 6
/* The pause after the second attempt; each later pause is longer by this. */
#define NA_OFI_RMA_RETRY (5 * NA_OFI_MS)
#define NA_OFI_PIECE_MAX ((na_size_t) 4 << 20) /* ends soon if canceled */
/* How long an ended transfer may take. */
#define NA_OFI_RMA_STUCK (1000 * NA_OFI_MS)
#define NA_OFI_RMA_PAUSE_MAX (300000 * NA_OFI_MS)

/* ---- Pieces ---- */

static size_t na_ofi_limit(size_t limit)
{
    return limit < 1 ? 1 : limit < NA_OFI_IOV_MAX ? limit : NA_OFI_IOV_MAX;
}

/* The position of an offset, at most the size of the memory, found by a walk:
 * the core's handle does not expose where segments start. */
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

/* The position in a peer's memory, which contains that byte. */
static struct na_ofi_place na_ofi_place_remote(
    const struct na_ofi_mem *mem, na_offset_t offset)
{
    struct na_ofi_place place = {0, 0};
    na_size_t end = mem->base.segment_count;

    HG_ASSERT(offset < mem->base.size);
    while (end - place.segment > 1) {
        na_size_t middle = place.segment + (end - place.segment) / 2;

        if (mem->there[middle].start <= offset)
            place.segment = middle;
        else
            end = middle;
    }
    place.within = offset - mem->there[place.segment].start;
    HG_ASSERT(place.within < mem->there[place.segment].size);
    return place;
}

/* The bytes of a segment from a position on, up to `limit`; advances the
 * position. */
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

/* List local segments from the next byte on, up to `*size` bytes, which becomes
 * the listed size; returns their number, and the position after them. */
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

        HG_ASSERT(place.segment < mem->base.segment_count);
        if (segment->size == 0) {
            place.segment++;
            continue;
        }
        iov[n].iov_base = (char *) segment->address + place.within;
        desc[n] = na_ofi_mem_desc(op, place.segment);
        iov[n].iov_len = na_ofi_place_pass(&place, segment->size, left);
        left -= iov[n].iov_len;
        n++;
    }
    *size -= left;
    *behind_p = place;
    return n;
}

/* List the peer's segments from the next byte on, like na_ofi_list_local. */
static size_t na_ofi_list_remote(const struct na_ofi_op *op, na_size_t *size,
    struct fi_rma_iov iov[NA_OFI_IOV_MAX], struct na_ofi_place *behind_p)
{
    const struct na_ofi_mem *mem = na_ofi_mem_of(op->base.remote);
    const struct fi_info *info = op->end->na_class->info;
    size_t limit = na_ofi_limit(info->tx_attr->rma_iov_limit);
    struct na_ofi_place place = op->remote;
    na_size_t left = *size;
    size_t n = 0;

    /* See na_ofi_rma_post. */
    if (na_ofi_is_str(op->end->na_class))
        limit = 1;
    while (left > 0 && n < limit) {
        const struct na_ofi_piece *piece = &mem->there[place.segment];

        HG_ASSERT(place.segment < mem->base.segment_count);
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

/* The endpoint that serves the peer's memory: the one that sent its last
 * message, since some thread makes progress there; its first one if that
 * failed, if it is linked, or if memory belongs to an endpoint. */
static fi_addr_t na_ofi_rma_target(const struct na_ofi_op *op)
{
    struct na_ofi_addr *addr = na_ofi_addr_of(op->base.addr);

    if (op->tries > 0 || na_ofi_mr_mode(op->end->na_class, FI_MR_ENDPOINT) ||
        na_ofi_is_linked(op->end, addr))
        return addr->at;
    return na_ofi_target(
        addr, atomic_load_explicit(&addr->context, memory_order_relaxed));
}

/* The meaning of a libfabric error at the start or the end of a piece. Bounds
 * and access were checked against the description: a target that refuses no
 * longer has the memory, whatever its provider reports. A broken connection is
 * FI_ECANCELED on some providers, FI_EIO or FI_ENOENT on others:
 * NA_DISCONNECT. */
static na_return_t na_ofi_rma_code(int error)
{
    na_return_t ret;

    switch (error) {
    case FI_EACCES:
    case FI_EPERM:
    case FI_EINVAL:
    case FI_ENOKEY:
    case FI_EKEYREJECTED: return NA_NOENTRY;
    case FI_ECANCELED:
    case FI_EIO:
    case FI_ENOENT: return NA_DISCONNECT;
    default: ret = na_ofi_code(error);
    }
    return ret == NA_HOSTUNREACH ? NA_DISCONNECT : ret;
}

/* Start the next piece. NA_AGAIN: the provider cannot accept it now. A put has
 * ended when it is in the target's memory: FI_DELIVERY_COMPLETE. But with
 * libfabric's shm it is a copy of one segment within this call: the part that
 * the call leaves to the target's process crashes the second process that gets
 * the same entry of the address vector. */
static na_return_t na_ofi_rma_post(
    struct na_ofi_op *op, struct na_ofi_part *part)
{
    struct na_ofi_class *self = op->end->na_class;
    struct fid_ep *ep = atomic_load(&op->end->rma);
    na_size_t max = self->info->ep_attr->max_msg_size;
    na_size_t size = max > 0 && max < NA_OFI_PIECE_MAX ? max : NA_OFI_PIECE_MAX;
    struct na_ofi_place local, remote;
    struct iovec iov[NA_OFI_IOV_MAX];
    struct fi_rma_iov rma_iov[NA_OFI_IOV_MAX];
    void *desc[NA_OFI_IOV_MAX];
    struct fi_msg_rma msg;
    na_size_t tried;
    ssize_t rc;

    if (size > op->left)
        size = op->left;
    memset(&msg, 0, sizeof(msg));
    msg.iov_count = na_ofi_list_local(op, &size, iov, desc, &local);
    tried = size;
    msg.rma_iov_count = na_ofi_list_remote(op, &size, rma_iov, &remote);
    if (size < tried)
        msg.iov_count = na_ofi_list_local(op, &size, iov, desc, &local);
    if (ep == NULL)
        return NA_AGAIN; /* it was closed meanwhile */
    HG_ASSERT(msg.iov_count > 0 && msg.rma_iov_count > 0 && size > 0);
    msg.msg_iov = iov;
    msg.desc = desc;
    msg.rma_iov = rma_iov;
    msg.addr = na_ofi_rma_target(op);
    part->op = op;
    part->request.work = NA_OFI_RMA;
    msg.context = &part->request.provider;
    if (op->base.type == NA_CB_PUT)
        rc = fi_writemsg(
            ep, &msg, na_ofi_is_str(self) ? 0 : FI_DELIVERY_COMPLETE);
    else
        rc = fi_readmsg(ep, &msg, 0);
    if (rc == -FI_EAGAIN)
        return NA_AGAIN;
    if (rc != 0) {
        self->base.core->log(HG_LOG_LEVEL_WARNING, "ofi",
            "a transfer with %s cannot be started: %s", op->base.addr->name,
            fi_strerror((int) -rc));
        return na_ofi_rma_code((int) -rc);
    }
    op->local = local;
    op->remote = remote;
    op->left -= size;
    op->started = true;
    return NA_SUCCESS;
}

/* ---- Operations ---- */

/* Whether the peer can be reached; NA_AGAIN: HELLO was sent. The first use of
 * an address connects it; if that fails, so does the operation. */
static na_return_t na_ofi_rma_ready(struct na_ofi_op *op)
{
    struct na_ofi_class *self = op->end->na_class;
    struct na_ofi_addr *addr = na_ofi_addr_of(op->base.addr);
    int state = atomic_load(&addr->state);
    na_return_t ret;

    if (state == NA_OFI_READY)
        return na_ofi_link(op->end, addr);
    if (state == NA_OFI_DEAD || self->base.core->addr_is_dead(&addr->base))
        return NA_DISCONNECT;
    if (state == NA_OFI_IDLE && op->asked)
        return NA_HOSTUNREACH;
    na_ofi_lock(&self->lock);
    ret = na_ofi_connect(self, addr);
    na_ofi_unlock(&self->lock);
    op->asked = ret == NA_AGAIN;
    return ret;
}

/* Reset the operation to move all of its data. */
static void na_ofi_rma_reset(struct na_ofi_op *op)
{
    op->left = op->base.size;
    op->local = na_ofi_place_local(op->base.local, op->base.local_offset);
    op->remote = na_ofi_place_remote(
        na_ofi_mem_of(op->base.remote), op->base.remote_offset);
}

static void na_ofi_rma_refused(const struct na_ofi_op *op, const char *how)
{
    struct na_ofi_class *self = op->end->na_class;

    self->base.core->count(&self->base, "rma_refused", 1);
    self->base.core->log(HG_LOG_LEVEL_WARNING, "ofi",
        "a transfer was refused by %s: %s", op->base.addr->name, how);
}

/* The connection broke, and no piece of the transfer is in flight: restart it
 * as a suspect. Some providers need a moment until they reconnect, and fail
 * pieces that are started meanwhile. */
static na_return_t na_ofi_rma_suspect(struct na_ofi_op *op)
{
    struct na_ofi_addr *addr = na_ofi_addr_of(op->base.addr);

    if (op->tries == NA_OFI_RMA_TRIES) {
        if (!op->started || atomic_load(&addr->state) == NA_OFI_DEAD)
            return NA_DISCONNECT;
        na_ofi_rma_refused(op, "it broke the connection even alone");
        return NA_NOENTRY;
    }
    if (op->tries > 0)
        op->retry = op->end->na_class->base.core->now_ns() +
            op->tries * NA_OFI_RMA_RETRY;
    else
        atomic_fetch_add(&addr->suspects, 1);
    op->tries++;
    op->started = false;
    na_ofi_rma_reset(op);
    na_ofi_unlink(op->end, addr);
    return NA_SUCCESS;
}

/* The address of an operation was connected, but its endpoint does not reach
 * it: its family was unknown, or not open. NA_AGAIN: it was moved to the one
 * that does. Only the thread that set `busy` moves the
 * operation, and only to the endpoint of the other family, so that those who
 * look for it find it there if they look last. */
static na_return_t na_ofi_rma_move(struct na_ofi_op *op)
{
    struct na_ofi_end *from = op->end;
    struct na_ofi_end *to = from->na_class->ends[NA_OFI_OTHER];

    if (from == to)
        return NA_DISCONNECT; /* its host has changed the family twice */
    na_ofi_lock(&from->lock);
    na_ofi_lock(&to->lock);
    na_plug_list_remove(&op->active);
    na_plug_list_push(&to->active, &op->active);
    atomic_store(&op->end, to);
    na_ofi_unlock(&to->lock);
    na_ofi_unlock(&from->lock);
    return NA_AGAIN;
}

/* Whether the next piece can be started; NA_AGAIN: later. */
static na_return_t na_ofi_rma_prepare(struct na_ofi_op *op, bool anew)
{
    na_return_t ret = anew ? na_ofi_rma_suspect(op) : NA_SUCCESS;

    if (ret == NA_SUCCESS && atomic_load(&op->end->rma) == NULL)
        ret = NA_AGAIN; /* na_ofi_rma_flush opens it */
    if (ret == NA_SUCCESS && op->left > 0)
        ret = na_ofi_rma_ready(op);
    if (ret == NA_SUCCESS && op->left > 0 &&
        op->end !=
            na_ofi_end_to(op->base.context, na_ofi_addr_of(op->base.addr)))
        ret = na_ofi_rma_move(op);
    if (ret == NA_SUCCESS && op->retry != 0 &&
        op->end->na_class->base.core->now_ns() < op->retry)
        ret = NA_AGAIN;
    return ret;
}

/* A piece starts, or ended. The endpoint's lock is held, also in the next
 * function. */
static void na_ofi_part_take(struct na_ofi_part *part, struct na_ofi_op *op)
{
    HG_ASSERT(!part->taken && op->flight < NA_OFI_PIECES);
    part->taken = true;
    op->flight++;
    op->end->flight++;
    atomic_fetch_add(&na_ofi_addr_of(op->base.addr)->flight, 1);
}

static void na_ofi_part_give(
    struct na_ofi_part *part, struct na_ofi_op *op, na_return_t ret)
{
    HG_ASSERT(part->taken && op->flight > 0 && op->end->flight > 0);
    part->taken = false;
    op->flight--;
    op->end->flight--;
    atomic_fetch_sub(&na_ofi_addr_of(op->base.addr)->flight, 1);
    if (ret == NA_DISCONNECT)
        op->broken = true;
    else if (ret != NA_AGAIN && op->ret == NA_SUCCESS)
        op->ret = ret;
}

/* Whether a suspect is the one that is retried, until it ends. */
static bool na_ofi_rma_is_alone(struct na_ofi_op *op)
{
    struct na_ofi_addr *addr = na_ofi_addr_of(op->base.addr);
    struct na_ofi_op *holder = NULL;

    return atomic_compare_exchange_strong(&addr->turn, &holder, op) ||
        holder == op;
}

/* A slot for the next piece; NULL: none. A suspect waits until it is alone,
 * others until there is no suspect. */
static struct na_ofi_part *na_ofi_part_next(struct na_ofi_op *op)
{
    struct na_ofi_addr *addr = na_ofi_addr_of(op->base.addr);
    unsigned i = 0;

    if (op->ret != NA_SUCCESS || op->broken || op->left == 0 ||
        op->flight == NA_OFI_PIECES || op->end->renewing)
        return NULL;
    if (op->tries > 0 ? !na_ofi_rma_is_alone(op) ||
                atomic_load(&addr->flight) != op->flight
                      : atomic_load(&addr->suspects) > 0)
        return NULL;
    while (op->parts[i].taken)
        i++;
    return &op->parts[i];
}

/* Take the right to start its pieces. True: it must be restarted. */
static bool na_ofi_rma_begin_post(struct na_ofi_op *op)
{
    bool anew = op->broken && op->flight == 0;

    HG_ASSERT(!op->busy);
    op->busy = true;
    if (op->waiting)
        na_plug_list_remove(&op->due);
    op->waiting = false;
    if (anew)
        op->broken = false;
    return anew;
}

/* End an operation that is no longer active; no lock is held. */
static void na_ofi_rma_end(struct na_ofi_op *op, na_return_t ret)
{
    HG_ASSERT(op->flight == 0 && !op->busy && !op->waiting);
    if (op->tries > 0) {
        struct na_ofi_addr *addr = na_ofi_addr_of(op->base.addr);
        struct na_ofi_op *holder = op;

        (void) atomic_compare_exchange_strong(&addr->turn, &holder, NULL);
        atomic_fetch_sub(&addr->suspects, 1);
    }
    if (op->own != NULL)
        na_ofi_mr_close(op->end->na_class, op->own);
    op->end->na_class->base.core->complete(&op->base, ret);
}

/* Start pieces, and end the operation if nothing is left to do. The caller has
 * called na_ofi_rma_begin_post, and holds no lock. False: it waits again. */
static bool na_ofi_rma_work(struct na_ofi_op *op, bool anew)
{
    na_return_t ret = na_ofi_rma_prepare(op, anew);
    struct na_ofi_end *end = op->end;
    struct na_ofi_part *part;
    bool ended;
    bool waits;

    na_ofi_lock(&end->lock);
    if (ret != NA_SUCCESS && ret != NA_AGAIN && op->ret == NA_SUCCESS)
        op->ret = ret;
    while (ret == NA_SUCCESS && (part = na_ofi_part_next(op)) != NULL) {
        na_ofi_part_take(part, op);
        end->posting++;
        na_ofi_unlock(&end->lock);
        ret = na_ofi_rma_post(op, part);
        na_ofi_lock(&end->lock);
        end->posting--;
        if (ret != NA_SUCCESS)
            na_ofi_part_give(part, op, ret);
    }
    op->busy = false;
    ended = op->flight == 0 &&
        (op->ret != NA_SUCCESS || (op->left == 0 && !op->broken));
    /* Otherwise the end of a piece continues it. */
    waits = op->flight == 0 && !ended;
    op->waiting = waits;
    if (waits)
        na_plug_list_push(&end->due, &op->due);
    if (ended)
        na_plug_list_remove(&op->active);
    ret = op->ret;
    na_ofi_unlock(&end->lock);
    if (ended)
        na_ofi_rma_end(op, ret);
    else if (waits)
        na_ofi_hurry(end->na_class);
    return !waits;
}

/* The slots put and get. */
static na_return_t na_ofi_rma_start(struct na_op *base)
{
    struct na_ofi_op *op = (struct na_ofi_op *) base;
    struct na_ofi_end *end =
        na_ofi_end_to(base->context, na_ofi_addr_of(base->addr));
    na_return_t ret;
    bool anew;

    if (base->size == 0) {
        end->na_class->base.core->complete(base, NA_SUCCESS);
        return NA_SUCCESS;
    }
    ret = na_ofi_mem_local(op);
    if (ret != NA_SUCCESS)
        return ret;
    na_ofi_lock(&end->lock);
    HG_ASSERT(op->flight == 0 && !op->waiting);
    op->end = end;
    na_plug_list_init(&op->active);
    na_plug_list_push(&end->active, &op->active);
    op->over = 0;
    op->broken = false;
    op->ret = NA_SUCCESS;
    anew = na_ofi_rma_begin_post(op);
    na_ofi_unlock(&end->lock);
    na_plug_list_init(&op->due);
    op->asked = false;
    op->started = false;
    op->tries = 0;
    op->retry = 0;
    na_ofi_rma_reset(op);
    (void) na_ofi_rma_work(op, anew);
    return NA_SUCCESS;
}

/* From poll, whose lock is held: retry waiting operations. Returns the number
 * that continued. */
static unsigned na_ofi_rma_flush(struct na_ofi_end *end)
{
    struct na_link due;
    struct na_link *link;
    na_return_t ret = NA_SUCCESS;
    unsigned n = 0;

    na_plug_list_init(&due);
    na_ofi_lock(&end->lock);
    na_plug_list_move(&due, &end->due);
    if (!na_plug_list_empty(&due)) {
        na_ofi_unlock(&end->lock);
        ret = na_ofi_rma_open(end);
        na_ofi_lock(&end->lock);
    }
    while ((link = na_plug_list_pop(&due)) != NULL) {
        struct na_ofi_op *op = NA_OFI_OF(link, struct na_ofi_op, due);
        bool anew = na_ofi_rma_begin_post(op);

        if (op->ret == NA_SUCCESS)
            op->ret = ret;
        na_ofi_unlock(&end->lock);
        n += na_ofi_rma_work(op, anew) ? 1 : 0;
        na_ofi_lock(&end->lock);
    }
    na_ofi_unlock(&end->lock);
    return n;
}

/* A piece ended; `error` is 0 or a libfabric error of either sign. No lock is
 * held. */
static void na_ofi_rma_done(
    struct na_ofi_end *end, struct na_ofi_request *request, int error)
{
    struct na_ofi_part *part = NA_OFI_OF(request, struct na_ofi_part, request);
    struct na_ofi_op *op = part->op;
    na_return_t ret = error != 0 ? na_ofi_rma_code(abs(error)) : NA_SUCCESS;
    bool anew = false;
    bool busy;

    if (ret == NA_NOENTRY)
        na_ofi_rma_refused(op, fi_strerror(abs(error)));
    else if (ret != NA_SUCCESS)
        end->na_class->base.core->log(HG_LOG_LEVEL_WARNING, "ofi",
            "a transfer with %s failed: %s", op->base.addr->name,
            fi_strerror(abs(error)));
    na_ofi_lock(&end->lock);
    na_ofi_part_give(part, op, ret);
    busy = op->busy;
    if (!busy)
        anew = na_ofi_rma_begin_post(op);
    na_ofi_unlock(&end->lock);
    if (!busy)
        (void) na_ofi_rma_work(op, anew);
}

/* The result of an operation that does not continue. */
static na_return_t na_ofi_rma_result(const struct na_ofi_op *op)
{
    struct na_ofi_addr *addr = na_ofi_addr_of(op->base.addr);

    return atomic_load(&addr->state) == NA_OFI_DEAD ? NA_DISCONNECT
                                                    : NA_CANCELED;
}

/* For the slot cancel: no more pieces are started, and those in flight end by
 * themselves. */
static na_return_t na_ofi_rma_cancel(struct na_op *base, uint64_t op_id)
{
    struct na_ofi_op *op = (struct na_ofi_op *) base;
    struct na_ofi_end *end = op->end;
    bool waited;

    na_ofi_lock(&end->lock);
    while (end != op->end) { /* it was moved */
        na_ofi_unlock(&end->lock);
        end = op->end;
        na_ofi_lock(&end->lock);
    }
    if (end->na_class->base.core->op_id(base) != op_id ||
        (!op->busy && !op->waiting && op->flight == 0)) {
        na_ofi_unlock(&end->lock);
        return NA_NOENTRY;
    }
    if (op->ret == NA_SUCCESS)
        op->ret = na_ofi_rma_result(op);
    waited = op->waiting;
    if (waited)
        (void) na_ofi_rma_begin_post(op);
    na_ofi_unlock(&end->lock);
    if (waited)
        (void) na_ofi_rma_work(op, false);
    return NA_SUCCESS;
}

/* ---- Endpoints ---- */

/* End the pieces in flight by closing their endpoint. Their operations end if
 * they were canceled or their peer is dead, otherwise they restart. */
static void na_ofi_rma_renew(struct na_ofi_end *end)
{
    struct na_link *link;

    na_ofi_lock(&end->poll_lock);
    na_ofi_lock(&end->lock);
    HG_ASSERT(!end->renewing && end->rma != end->ep);
    end->renewing = true;
    while (end->posting > 0) {
        na_ofi_unlock(&end->lock);
        (void) sched_yield();
        na_ofi_lock(&end->lock);
    }
    na_ofi_unlock(&end->lock);
    na_ofi_rma_close(end);
    while (na_ofi_poll_end(end) > 0) /* operations that ended before */
        continue;
    na_ofi_lock(&end->lock);
    end->renewing = false;
    for (link = end->active.next; link != &end->active; link = link->next) {
        struct na_ofi_op *op = NA_OFI_OF(link, struct na_ofi_op, active);
        unsigned i;

        for (i = 0; i < NA_OFI_PIECES; i++)
            if (op->parts[i].taken)
                na_ofi_part_give(&op->parts[i], op, NA_DISCONNECT);
        if (op->broken && !op->busy && !op->waiting) {
            op->waiting = true;
            na_plug_list_push(&end->due, &op->due);
        }
    }
    HG_ASSERT(end->flight == 0);
    na_ofi_unlock(&end->lock);
    (void) na_ofi_rma_flush(end);
    na_ofi_unlock(&end->poll_lock);
}

/* A dead peer whose pieces are in flight, with a reference, for the first time
 * or again after a while; NULL: none. */
static struct na_ofi_addr *na_ofi_rma_find_dead(
    struct na_ofi_end *end, uint64_t now)
{
    const struct na_core *core = end->na_class->base.core;
    struct na_ofi_addr *found = NULL;
    struct na_link *link;

    na_ofi_lock(&end->lock);
    for (link = end->active.next; link != &end->active; link = link->next) {
        struct na_ofi_op *op = NA_OFI_OF(link, struct na_ofi_op, active);
        struct na_ofi_addr *addr = na_ofi_addr_of(op->base.addr);

        if (op->flight == 0 || na_ofi_rma_result(op) != NA_DISCONNECT ||
            (op->over != 0 && now - op->over < NA_OFI_RMA_STUCK) ||
            (found != NULL && found != addr))
            continue;
        op->over = now;
        if (found == NULL)
            core->addr_ref(&addr->base);
        found = addr;
    }
    na_ofi_unlock(&end->lock);
    return found;
}

/* Connections that peers made may be broken: have them made anew. */
static void na_ofi_unlink_all(struct na_ofi_end *end)
{
    struct na_ofi_class *self = end->na_class;
    struct na_link *link;

    na_ofi_lock(&self->lock);
    for (link = self->addrs.next; link != &self->addrs; link = link->next)
        na_ofi_unlink(end, NA_OFI_OF(link, struct na_ofi_addr, link));
    na_ofi_unlock(&self->lock);
}

/* Break the connections to dead peers that pieces are in flight to. */
static void na_ofi_rma_break(struct na_ofi_end *end)
{
    struct na_ofi_class *self = end->na_class;
    uint64_t now = self->base.core->now_ns();
    struct na_ofi_addr *addr;

    while ((addr = na_ofi_rma_find_dead(end, now)) != NULL) {
        const struct na_ofi_far *far;

        self->base.core->count(&self->base, "rma_stuck", 1);
        na_ofi_break(end, addr->at);
        for (far = atomic_load(&addr->far); far != NULL; far = far->next)
            if (far->other == na_ofi_is_other(addr))
                na_ofi_break(end, far->at);
        na_ofi_unlink_all(end);
        self->base.core->addr_unref(&addr->base);
    }
}

/* Whether its pieces must end, but do not. The endpoint's lock is held. */
static bool na_ofi_rma_is_stuck(struct na_ofi_op *op, uint64_t now)
{
    if (op->flight == 0)
        return false;
    if (na_ofi_rma_result(op) == NA_DISCONNECT)
        return true;
    if (op->ret == NA_SUCCESS)
        return false;
    if (op->over == 0)
        op->over = now;
    return now - op->over > NA_OFI_RMA_STUCK;
}

/* From the clock, each tick: ensure that ended operations complete. clock_lock
 * is held. */
static void na_ofi_rma_tick(struct na_ofi_end *end)
{
    struct na_ofi_class *self = end->na_class;
    uint64_t now = self->base.core->now_ns();
    struct na_link *link;
    bool stuck = false;

    if (na_ofi_is_tcp(self)) {
        na_ofi_rma_break(end);
        return;
    }
    if (end->rma == end->ep)
        return; /* the provider ends them */
    na_ofi_lock(&end->lock);
    for (link = end->active.next; link != &end->active; link = link->next)
        stuck |=
            na_ofi_rma_is_stuck(NA_OFI_OF(link, struct na_ofi_op, active), now);
    na_ofi_unlock(&end->lock);
    if (!stuck || now - end->renewed < end->pause)
        return;
    if (now - end->renewed > 4 * end->pause)
        end->pause = NA_OFI_RMA_STUCK;
    else if (end->pause < NA_OFI_RMA_PAUSE_MAX)
        end->pause *= 2;
    end->renewed = now;
    self->base.core->count(&self->base, "rma_stuck", 1);
    na_ofi_rma_renew(end);
}

/* Whether it belongs to a context, or uses local memory. */
static bool na_ofi_rma_is_of(const struct na_ofi_op *op, const void *owner)
{
    return op->base.context == owner || op->base.local == owner;
}

/* Cancel the operations of a context or of local memory. Returns whether some
 * have not ended. */
static bool na_ofi_rma_cancel_of(struct na_ofi_end *end, const void *owner)
{
    struct na_link *link;
    bool found = false;

    na_ofi_lock(&end->lock);
    for (link = end->active.next; link != &end->active; link = link->next) {
        struct na_ofi_op *op = NA_OFI_OF(link, struct na_ofi_op, active);

        if (!na_ofi_rma_is_of(op, owner))
            continue;
        found = true;
        if (op->ret == NA_SUCCESS)
            op->ret = na_ofi_rma_result(op);
    }
    na_ofi_unlock(&end->lock);
    return found;
}

/* Treat peers as dead that prevent operations from ending. */
static void na_ofi_rma_end_peers(struct na_ofi_end *end, const void *owner)
{
    const struct na_core *core = end->na_class->base.core;
    struct na_ofi_addr *addr;
    struct na_link *link;

    do {
        addr = NULL;
        na_ofi_lock(&end->lock);
        for (link = end->active.next; link != &end->active && addr == NULL;
             link = link->next) {
            struct na_ofi_op *op = NA_OFI_OF(link, struct na_ofi_op, active);

            if (na_ofi_rma_is_of(op, owner) &&
                na_ofi_rma_result(op) != NA_DISCONNECT &&
                !op->base.addr->self) {
                addr = na_ofi_addr_of(op->base.addr);
                core->addr_ref(&addr->base);
            }
        }
        na_ofi_unlock(&end->lock);
        if (addr != NULL) {
            na_ofi_lost(end->na_class, addr, NA_DISCONNECT);
            core->addr_unref(&addr->base);
        }
    } while (addr != NULL);
}

/* Make operations end: after a while by closing the endpoint, or by treating
 * their peers as dead. No lock is held. */
static void na_ofi_rma_end_of(
    struct na_ofi_end *end, const void *owner, uint64_t patience)
{
    struct na_class *na_class = &end->na_class->base;
    const struct na_core *core = na_class->core;
    uint64_t start = core->now_ns();

    core->enter(na_class);
    while (na_ofi_rma_cancel_of(end, owner)) {
        uint64_t waited = core->now_ns() - start;
        bool shared = end->rma == end->ep;
        bool idle;

        if (waited > 5 * NA_OFI_RMA_STUCK) {
            core->log(HG_LOG_LEVEL_ERROR, "ofi",
                "puts and gets that were canceled do not end: their memory "
                "stays in use");
            break;
        }
        if (na_ofi_is_tcp(end->na_class)) {
            if (waited > 4 * NA_OFI_RMA_STUCK)
                na_ofi_rma_end_peers(end, owner);
            na_ofi_rma_break(end);
        } else if (waited >= patience && !shared) {
            na_ofi_rma_renew(end);
            continue;
        }
        na_ofi_lock(&end->poll_lock);
        idle = na_ofi_poll_end(end) + na_ofi_rma_flush(end) == 0;
        na_ofi_unlock(&end->poll_lock);
        if (idle) {
            core->leave(na_class);
            (void) sched_yield();
            core->enter(na_class);
        }
    }
    core->leave(na_class);
}

/* The slot. */
static void na_ofi_mem_end_local(const struct na_mem_handle *mem)
{
    struct na_ofi_class *self = na_ofi_of(mem->na_class);
    unsigned id;

    for (id = 0; id < NA_OFI_ENDS; id++) {
        struct na_ofi_end *end;

        na_ofi_lock(&self->lock);
        end = self->ends[id]; /* which stays open until the class closes */
        na_ofi_unlock(&self->lock);
        if (end != NULL)
            na_ofi_rma_end_of(end, mem, NA_OFI_RMA_STUCK);
    }
}
