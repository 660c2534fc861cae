/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_endpoint: a class of the transport sm with a context, and its address of
 * another class, for tests that access the internals of both and make progress
 * themselves.
 */
#ifndef HG_TESTS_SM_ENDPOINT_H
#define HG_TESTS_SM_ENDPOINT_H

#include "support/library.h"

#include "harness.h"

#if HG_ENABLE_SM

struct sm_endpoint {
    na_class_t *na_class;
    na_context_t *context;
    na_addr_t peer; /* from the lookup; freed by closing */
};

static void sm_endpoint_open(struct sm_endpoint *end)
{
    memset(end, 0, sizeof(*end));
    end->na_class = NA_Initialize("sm://", NA_TRUE);
    HG_CHECK(end->na_class != NULL);
    end->context = NA_Context_create(end->na_class);
    HG_CHECK(end->context != NULL);
}

static void sm_endpoint_close(struct sm_endpoint *end)
{
    if (end->peer != NA_ADDR_NULL)
        HG_CHECK_OK(NA_Addr_free(end->na_class, end->peer));
    HG_CHECK_OK(NA_Context_destroy(end->na_class, end->context));
    HG_CHECK_OK(NA_Finalize(end->na_class));
}

static void sm_endpoint_turn(struct sm_endpoint *end)
{
    na_return_t ret = NA_Progress(end->na_class, end->context, 0);
    unsigned count;

    HG_CHECK(ret == NA_SUCCESS || ret == NA_TIMEOUT);
    (void) NA_Trigger(end->context, 0, 100, &count);
}

static na_return_t sm_endpoint_found(const struct na_cb_info *info)
{
    HG_CHECK_OK(info->ret);
    *(na_addr_t *) info->arg = info->info.lookup.addr;
    return NA_SUCCESS;
}

/* Look up `to`, which makes progress meanwhile. */
static void sm_endpoint_meet(struct sm_endpoint *from, struct sm_endpoint *to)
{
    HG_CHECK_OK(NA_Addr_lookup(from->na_class, from->context, sm_endpoint_found,
        &from->peer, to->na_class->self_addr->name, NA_OP_ID_IGNORE));
    while (from->peer == NA_ADDR_NULL) {
        sm_endpoint_turn(from);
        sm_endpoint_turn(to);
    }
}

/* The class of `end` with the address of a caller that it accepted. The address
 * is borrowed. */
static struct sm_endpoint sm_endpoint_accepted(struct sm_endpoint *end)
{
    struct na_sm_class *self = na_sm_of(end->na_class);
    struct sm_endpoint other = *end;
    struct na_link *link;

    other.peer = NA_ADDR_NULL;
    for (link = self->addrs.next; link != &self->addrs; link = link->next) {
        struct na_sm_addr *peer =
            HG_CONTAINER_OF(link, struct na_sm_addr, link);

        if (!peer->dialled)
            other.peer = &peer->base;
    }
    HG_CHECK(other.peer != NA_ADDR_NULL);
    return other;
}

/* A hostile class and its victim are connected: the hostile one calls, or it
 * listens and the victim calls. */
enum { SM_END_CALLS, SM_END_LISTENS, SM_END_WAYS };

/* The hostile side of a new connection. */
static struct sm_endpoint sm_endpoint_attack(
    struct sm_endpoint *hostile, struct sm_endpoint *victim, unsigned way)
{
    if (way == SM_END_CALLS) {
        sm_endpoint_meet(hostile, victim);
        return *hostile;
    }
    sm_endpoint_meet(victim, hostile);
    return sm_endpoint_accepted(hostile);
}

/* The victim's address for it; borrowed. */
static struct na_sm_addr *sm_endpoint_attacker(
    struct sm_endpoint *victim, unsigned way)
{
    return na_sm_addr_of(way == SM_END_LISTENS
            ? victim->peer
            : sm_endpoint_accepted(victim).peer);
}

#endif
#endif
