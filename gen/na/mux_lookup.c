/* SPDX-License-Identifier: BSD-3-Clause */
/* mux_lookup: see mux_lookup.h. */
#include "na/mux_lookup.h"

#include "base/crc64.h"
#include "base/lock.h"
#include "base/log.h"
#include "na/addr.h"
#include "na/context.h"
#include "na/lookup.h"
#include "na/mux_addr.h"
#include "na/op.h"
#include "sm/sm.h"

/* The part that was opened for what an address is; NA_MUX_PARTS: none. */
static unsigned na_mux_lookup_part(
    const struct na_mux_class *mux, const char *string)
{
    unsigned i = 0;

    while (i < mux->count && !na_lookup_is_for(mux->parts[i].na_class, string))
        i++;
    return i < mux->count ? i : NA_MUX_PARTS;
}

/* What nobody else in this network namespace has at the same time as who
 * listens at an address: that itself, but a file's name, which means another
 * file to others, and the name of something in one process. */
static bool na_mux_lookup_place(const char *string, char place[NA_MAX_ADDR_LEN])
{
    static const char ipc[] = "ipc://", inproc[] = "inproc://";
    const char *plus = strchr(string, '+');
    const char *mark = strstr(string, "://");
    struct stat is;

    if (plus != NULL && mark != NULL && plus < mark)
        string = plus + 1;
    if (strncmp(string, inproc, sizeof(inproc) - 1) == 0)
        return false;
    (void) snprintf(place, NA_MAX_ADDR_LEN, "%s", string);
    string += sizeof(ipc) - 1;
    if (strncmp(place, ipc, sizeof(ipc) - 1) != 0 || string[0] == '@')
        return true;
    /* While a listener exists, no other file has the inode of its socket. */
    if (stat(string, &is) != 0 || !S_ISSOCK(is.st_mode))
        return false;
    (void) snprintf(place, NA_MAX_ADDR_LEN, "ipc:%ju:%ju",
        (uintmax_t) is.st_dev, (uintmax_t) is.st_ino);
    return true;
}

/* The name under which sm is to be had at a listener of another transport, as
 * its address tells. */
HG_PRIVATE bool na_mux_lookup_silent_name(
    const char *string, char name[NA_MAX_ADDR_LEN])
{
    uint64_t hash = (uint64_t) geteuid() << 1;
    char place[NA_MAX_ADDR_LEN];

    if (!na_mux_lookup_place(string, place))
        return false;
    hash = hg_crc64_update(hash, place, strlen(place));
    (void) snprintf(name, NA_MAX_ADDR_LEN, "sm://auto-%016" PRIx64, hash);
    return true;
}

/* Whether sm can be tried at that address: quietly, as most peers are not on
 * this node. */
static bool na_mux_lookup_is_near(
    const struct na_mux_class *mux, const char *name)
{
    const struct na_class *inner = mux->parts[mux->sm].na_class;

    return strcmp(name, inner->self_addr->name) == 0 ||
        na_sm_is_there(inner, strstr(name, "://") + 3);
}

/* The n-th address of a list; false: it has not as many. */
static bool na_mux_lookup_nth(
    const char *list, unsigned n, char name[NA_MAX_ADDR_LEN])
{
    bool found = na_mux_wire_next(&list, name);

    while (found && n > 0) {
        found = na_mux_wire_next(&list, name);
        n--;
    }
    return found;
}

static unsigned na_mux_lookup_length(const char *list)
{
    char name[NA_MAX_ADDR_LEN];
    unsigned n = 0;

    while (na_mux_wire_next(&list, name))
        n++;
    return n;
}

/* Give the address and the part of the n-th attempt of a lookup: first each
 * address of the list by sm, its own or the one derived from it, then each by
 * its own transport. *part_p is NA_MUX_PARTS if this attempt is skipped. False:
 * there are no more attempts. */
static bool na_mux_lookup_turn(const struct na_mux_class *mux, const char *list,
    unsigned n, unsigned *part_p, char name[NA_MAX_ADDR_LEN])
{
    unsigned length = na_mux_lookup_length(list);
    bool by_sm = n < length;
    char address[NA_MAX_ADDR_LEN];
    unsigned part;

    if (n >= 2 * length || !na_mux_lookup_nth(list, n % length, address))
        return false;
    part = na_mux_lookup_part(mux, address);
    *part_p = part;
    memcpy(name, address, sizeof(address));
    if (!by_sm)
        return true;
    *part_p = mux->sm;
    if (mux->sm == NA_MUX_PARTS)
        return true;
    if ((part != mux->sm && !na_mux_lookup_silent_name(address, name)) ||
        !na_mux_lookup_is_near(mux, name))
        *part_p = NA_MUX_PARTS;
    return true;
}

/* Whether a listener of another transport than sm may be at that address: on
 * ipc its socket must be here. */
static bool na_mux_lookup_may_be(const char *name)
{
    char place[NA_MAX_ADDR_LEN];

    return strstr(name, "ipc://") == NULL || na_mux_lookup_place(name, place);
}

/* ---- Without a connection ---- */

/* Resolve by the part of the first turn that may find the peer; NA_MUX_PARTS:
 * there is none. */
static unsigned na_mux_lookup_choose(const struct na_mux_class *mux,
    const char *list, char name[NA_MAX_ADDR_LEN])
{
    unsigned fallback = NA_MUX_PARTS;
    unsigned part = NA_MUX_PARTS;
    char turn[NA_MAX_ADDR_LEN];
    unsigned n;

    for (n = 0; na_mux_lookup_turn(mux, list, n, &part, turn); n++) {
        if (part == NA_MUX_PARTS)
            continue;
        memcpy(name, turn, sizeof(turn));
        if (part == mux->sm || na_mux_lookup_may_be(turn))
            return part;
        fallback = part;
    }
    return fallback;
}

HG_PRIVATE na_return_t na_mux_lookup_resolve(struct na_class *na_class,
    const char *name, na_bool_t from_peer, struct na_addr **addr_p)
{
    struct na_mux_class *mux = na_mux_of(na_class);
    /* Peers name others again and again: do not knock each time. */
    struct na_addr *addr = from_peer ? na_mux_addr_named(mux, name) : NULL;
    char chosen[NA_MAX_ADDR_LEN];
    struct na_addr *inner;
    na_return_t ret;
    unsigned part;

    if (addr == NULL) {
        part = na_mux_lookup_choose(mux, name, chosen);
        if (part == NA_MUX_PARTS) {
            HG_LOG_AT(na_addr_name_level(from_peer), "addr",
                "'%s': this class was opened for %s", name,
                na_class->self_addr->name);
            return NA_PROTONOSUPPORT;
        }
        ret = na_lookup_resolve(
            mux->parts[part].na_class, chosen, from_peer, &inner);
        if (ret != NA_SUCCESS)
            return ret;
        addr = na_mux_addr_above(&mux->parts[part], inner, name);
        na_addr_unref(inner);
    }
    *addr_p = addr;
    return addr != NULL ? NA_SUCCESS : NA_NOMEM;
}

/* ---- A lookup's life ---- */

/* A turn has begun. Whether it is under way: else it has ended meanwhile. */
static bool na_mux_lookup_begun(struct na_mux_class *mux, struct na_op *op)
{
    struct na_mux_op *mux_op = na_mux_op_of(op);
    bool under_way;

    hg_lock(&mux->lock);
    if (mux_op->canceled && !mux_op->ended) {
        hg_unlock(&mux->lock);
        (void) na_context_cancel(
            na_mux_inner_context(op->context, mux_op->part), mux_op->inner);
        hg_lock(&mux->lock);
    }
    under_way = !mux_op->ended;
    mux_op->begins = false;
    hg_unlock(&mux->lock);
    return under_way;
}

/* Begin a turn, unless the lookup was canceled. False: it is over, with the
 * code that the operation has then. */
static bool na_mux_lookup_begin(
    struct na_op *op, unsigned part, const char *name)
{
    struct na_mux_class *mux = na_mux_of(op->context->na_class);
    struct na_mux_op *mux_op = na_mux_op_of(op);
    na_return_t ret;

    hg_lock(&mux->lock);
    assert(mux_op->open && !mux_op->begins);
    if (mux_op->canceled)
        mux_op->ret = NA_CANCELED;
    mux_op->begins = !mux_op->canceled;
    mux_op->ended = false;
    mux_op->part = part;
    hg_unlock(&mux->lock);
    if (mux_op->ret == NA_CANCELED)
        return false;
    ret = na_lookup_start(na_mux_inner_context(op->context, part),
        NA_LANE_INTERNAL, NULL, op, name, &mux_op->inner);
    if (ret == NA_SUCCESS)
        return na_mux_lookup_begun(mux, op);
    hg_lock(&mux->lock);
    mux_op->begins = false;
    mux_op->ret = ret;
    hg_unlock(&mux->lock);
    return false;
}

/* Take turns until one is under way. False: the lookup is over, as the last
 * one says. */
static bool na_mux_lookup_go_on(struct na_op *op)
{
    struct na_mux_class *mux = na_mux_of(op->context->na_class);
    struct na_mux_op *mux_op = na_mux_op_of(op);
    char name[NA_MAX_ADDR_LEN];
    unsigned part = NA_MUX_PARTS;

    while (mux_op->ret != NA_SUCCESS && mux_op->ret != NA_CANCELED &&
        na_mux_lookup_turn(mux, op->name, mux_op->next, &part, name)) {
        mux_op->next++;
        if (part != NA_MUX_PARTS && na_mux_lookup_begin(op, part, name))
            return true;
    }
    hg_lock(&mux->lock);
    mux_op->open = false;
    mux_op->inner = NA_OP_ID_NULL;
    if (mux_op->canceled && mux_op->ret != NA_SUCCESS)
        mux_op->ret = NA_CANCELED;
    hg_unlock(&mux->lock);
    return false;
}

/* A lookup is over. */
static void na_mux_lookup_complete(struct na_op *op)
{
    struct na_mux_class *mux = na_mux_of(op->context->na_class);
    struct na_mux_op *mux_op = na_mux_op_of(op);
    struct na_addr *found = mux_op->found;
    na_return_t ret = mux_op->ret;

    assert(!mux_op->open && op->result_addr == NULL);
    assert((ret == NA_SUCCESS) == (found != NULL));
    if (found != NULL) {
        op->result_addr =
            na_mux_addr_above(&mux->parts[mux_op->part], found, op->name);
        na_addr_unref(found);
        if (op->result_addr == NULL)
            ret = NA_NOMEM;
    }
    na_op_complete(op, ret);
}

HG_PRIVATE na_return_t na_mux_lookup_start(struct na_op *op)
{
    struct na_mux_class *mux = na_mux_of(op->context->na_class);
    struct na_mux_op *mux_op = na_mux_op_of(op);

    hg_lock(&mux->lock);
    assert(!mux_op->open && !mux_op->begins);
    mux_op->open = true;
    mux_op->canceled = false;
    hg_unlock(&mux->lock);
    mux_op->next = 0;
    mux_op->found = NULL;
    mux_op->ret = NA_PROTONOSUPPORT;
    if (na_mux_lookup_go_on(op))
        return NA_SUCCESS;
    if (mux_op->ret == NA_SUCCESS || mux_op->ret == NA_CANCELED) {
        na_mux_lookup_complete(op);
        return NA_SUCCESS;
    }
    if (mux_op->ret == NA_PROTONOSUPPORT)
        hg_log_error("addr", "'%s': this class was opened for %s", op->name,
            op->context->na_class->self_addr->name);
    return mux_op->ret;
}

HG_PRIVATE bool na_mux_lookup_cancel(struct na_op *op, uint64_t op_id)
{
    struct na_mux_class *mux = na_mux_of(op->context->na_class);
    struct na_mux_op *mux_op = na_mux_op_of(op);
    struct na_context *context = NULL;
    na_op_id_t inner = NA_OP_ID_NULL;
    bool found;

    /* One that is not over has the identifier that it had. */
    hg_lock(&mux->lock);
    found = mux_op->open && na_op_id_of(op) == op_id;
    if (found) {
        mux_op->canceled = true;
        context = na_mux_inner_context(op->context, mux_op->part);
        inner = mux_op->begins ? NA_OP_ID_NULL : mux_op->inner;
    }
    hg_unlock(&mux->lock);
    /* NA_NOENTRY: who ends the turn, or begins one, sees that it was. */
    if (inner != NA_OP_ID_NULL)
        (void) na_context_cancel(context, inner);
    return found;
}

/* One turn of a lookup ended. */
HG_PRIVATE void na_mux_lookup_ended(
    struct na_mux_part *part, struct na_op *inner, na_return_t ret)
{
    struct na_op *op = (struct na_op *) na_op_core_of(inner)->arg;
    struct na_mux_op *mux_op = na_mux_op_of(op);
    struct na_addr *found = inner->result_addr; /* the reference is ours now */
    bool begins;

    assert(op->type == NA_CB_LOOKUP && mux_op->open);
    assert((ret == NA_SUCCESS) == (found != NULL));
    inner->result_addr = NULL;
    na_op_complete(inner, ret);
    hg_lock(&part->mux->lock);
    mux_op->ended = true;
    mux_op->ret = ret;
    mux_op->found = found;
    begins = mux_op->begins;
    hg_unlock(&part->mux->lock);
    if (!begins && !na_mux_lookup_go_on(op))
        na_mux_lookup_complete(op);
}
