/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * addr: addresses of peers, with reference counts.
 *
 * The transport creates an address. It lives as long as there is a reference;
 * an operation in flight holds one. It dies at most once: a dead address fails
 * new operations and pending ones.
 *
 * The references of the application are also counted, so that it cannot free a
 * reference of the library.
 *
 * Locking: counts and the dead mark are atomic. The class's list_lock guards
 * the list of its addresses and the setting of a name.
 */
#ifndef HG_GEN_NA_ADDR_H
#define HG_GEN_NA_ADDR_H

#include "base/lock.h"
#include "na/core.h"

/* The functions of struct na_core; see hg.h. */
HG_PRIVATE struct na_addr *na_addr_create(
    struct na_class *na_class, const char *name, na_bool_t self);
HG_PRIVATE na_return_t na_addr_set_name(struct na_addr *addr, const char *name);
/* Set the name that users see. No effect if it is the transport's name or if a
 * name was set before. Copied. NA_NOMEM, logged. */
HG_PRIVATE na_return_t na_addr_set_label(
    struct na_addr *addr, const char *label);

/* Whether users see `name` as the name of the address. */
HG_PRIVATE bool na_addr_is_called(const struct na_addr *addr, const char *name);

HG_PRIVATE void na_addr_ref(struct na_addr *addr);
HG_PRIVATE na_bool_t na_addr_try_ref(struct na_addr *addr);
/* Release a reference. The slot addr_release is called with the lock held;
 * na_addr_unref takes it for the last reference. */
HG_PRIVATE void na_addr_unref(struct na_addr *addr);
HG_PRIVATE void na_addr_unref_locked(struct na_addr *addr);
/* core->addr_unref: a transport releases a reference of its own address, with
 * the lock or without. */
HG_PRIVATE void na_addr_drop(struct na_addr *addr);

/* A reference that is taken and released only with the class's lock held. It is
 * cheap while others of this kind exist: a transport inside hg.c holds one for
 * each connected peer. */
static inline void na_addr_use(struct na_addr *addr)
{
    HG_ASSERT(hg_is_inside(na_class_core_of(addr->na_class)->lock));
    if (na_addr_core_of(addr)->uses++ == 0)
        na_addr_ref(addr);
}

static inline void na_addr_unuse(struct na_addr *addr)
{
    HG_ASSERT(hg_is_inside(na_class_core_of(addr->na_class)->lock));
    HG_ASSERT(na_addr_core_of(addr)->uses > 0);
    if (--na_addr_core_of(addr)->uses == 0)
        na_addr_unref_locked(addr);
}

HG_PRIVATE na_bool_t na_addr_is_dead(const struct na_addr *addr);

/* A name has led to the address. `from_peer`: as in na_lookup_resolve. If only
 * peers have named it and the class does not listen, it is a stranger. The lock
 * is held. */
HG_PRIVATE void na_addr_set_named(struct na_addr *addr, na_bool_t from_peer);

/* Pass a reference to the application, which releases it with
 * NA_Addr_free(). */
HG_PRIVATE void na_addr_give(struct na_addr *addr);

/* The log level for a refused name: an error if the application gave it, a
 * warning if a peer did. */
static inline int na_addr_name_level(na_bool_t from_peer)
{
    return from_peer ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR;
}

/* Write the name of an address, truncated to `size`. Returns its length. A peer
 * without a name is written as a number. */
HG_PRIVATE size_t na_addr_print(
    const struct na_addr *addr, char *buf, size_t size);

/* Mark an address as dead; false if it is already. The class notifies the users
 * of the address. */
HG_PRIVATE bool na_addr_mark_dead(struct na_addr *addr, na_return_t ret);

/* na_addr_state: NA_SUCCESS while alive, else the reason of its death.
 * na_addr_check_alive also logs that, with the name of the operation that
 * fails. */
HG_PRIVATE na_return_t na_addr_state(const struct na_addr *addr);
HG_PRIVATE na_return_t na_addr_check_alive(
    const struct na_addr *addr, const char *function);

/* End the connection to a peer: operations in flight end with NA_DISCONNECT. No
 * effect on the own address and on dead addresses. The lock is held. */
HG_PRIVATE void na_addr_abandon(struct na_addr *addr);

/* Whether a connection has proved which process an address stands for. */
HG_PRIVATE bool na_addr_is_known(const struct na_addr *addr);

/* Whether messages from one address match receives for the other. Names do not
 * count, because a peer may claim any: an address that is not known equals only
 * itself. */
HG_PRIVATE bool na_addr_same(
    const struct na_addr *addr1, const struct na_addr *addr2);

/* Whether a message from `source` comes from the incarnation of the peer that
 * `peer` stands for. Messages of an earlier process with the same name do
 * not. */
HG_PRIVATE bool na_addr_is_from(
    const struct na_addr *peer, const struct na_addr *source);

/* Check the address argument of a public function: NA_INVALID_ARG, logged with
 * the function's name. */
HG_PRIVATE na_return_t na_addr_check(const struct na_class *na_class,
    const struct na_addr *addr, const char *function);

/* The work of NA_Addr_self and NA_Addr_dup, NA_Addr_free, and
 * NA_Addr_to_string, for functions whose name the log should show. */
HG_PRIVATE na_return_t na_addr_hand_out(
    struct na_addr *addr, na_addr_t *addr_p, const char *function);
HG_PRIVATE na_return_t na_addr_take_back(
    na_class_t *na_class, na_addr_t addr, const char *function);
HG_PRIVATE na_return_t na_addr_write(na_class_t *na_class, char *buf,
    na_size_t buf_size, na_addr_t addr, const char *function);

/* Write the address string by which any peer reaches a class, perhaps a list:
 * of a class that does not listen, "" if a part of it cannot be reached so. */
HG_PRIVATE void na_addr_write_reachable(
    const struct na_class *na_class, char name[NA_MAX_ADDR_LEN]);

/* Let peers reach the class by that string, if it does not listen: the slots
 * addr_expose. The lock is held. */
HG_PRIVATE na_return_t na_addr_expose(struct na_class *na_class);

/* The number of addresses that the application did not free, and the name of
 * the first, truncated to `size`. */
HG_PRIVATE unsigned na_addr_count_given(
    struct na_class *na_class, char *first, size_t size);

/* Release the addresses that the application leaked; returns their number. The
 * class is closing. */
HG_PRIVATE unsigned na_addr_release_all(struct na_class *na_class);

#endif
