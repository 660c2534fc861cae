/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * addr: peers, counted.
 *
 * An address is created by the transport, lives as long as anybody holds a
 * reference (an operation in flight does) and dies at most once: death is a
 * mark that makes new operations fail, and it fails those that wait.
 *
 * How many of the references the application has is counted too, so that it
 * cannot free what it has not, such as the library's own.
 *
 * Locking: counts and the mark are atomics; the class's list_lock guards the
 * list of its addresses and the setting of a name.
 */
#ifndef HG_GEN_NA_ADDR_H
#define HG_GEN_NA_ADDR_H

#include "base/lock.h"
#include "na/core.h"

/* The functions of struct na_core; see hg.h. */
HG_PRIVATE struct na_addr *na_addr_create(
    struct na_class *na_class, const char *name, na_bool_t self);
HG_PRIVATE na_return_t na_addr_set_name(struct na_addr *addr, const char *name);
/* What users see from now on instead of the name, unless that is the same or
 * they see something else already. Copied. NA_NOMEM, logged. */
HG_PRIVATE na_return_t na_addr_set_label(
    struct na_addr *addr, const char *label);

/* Whether users see that as its name. */
HG_PRIVATE bool na_addr_is_called(const struct na_addr *addr, const char *name);

HG_PRIVATE void na_addr_ref(struct na_addr *addr);
HG_PRIVATE na_bool_t na_addr_try_ref(struct na_addr *addr);
HG_PRIVATE void na_addr_unref(struct na_addr *addr);

/* A reference that is only taken and given back under the lock of the class,
 * which is cheap while there are others of the kind: a transport inside hg.c
 * has one of each peer that is connected. */
static inline void na_addr_use(struct na_addr *addr)
{
    assert(hg_is_inside(na_class_core_of(addr->na_class)->lock));
    if (na_addr_core_of(addr)->uses++ == 0)
        na_addr_ref(addr);
}

static inline void na_addr_unuse(struct na_addr *addr)
{
    assert(hg_is_inside(na_class_core_of(addr->na_class)->lock));
    assert(na_addr_core_of(addr)->uses > 0);
    if (--na_addr_core_of(addr)->uses == 0)
        na_addr_unref(addr);
}

HG_PRIVATE na_bool_t na_addr_is_dead(const struct na_addr *addr);

/* A reference goes over to the application, which gives it back by
 * NA_Addr_free. */
HG_PRIVATE void na_addr_give(struct na_addr *addr);

/* The level of a line about a name that is refused: an error if the application
 * gave it, a warning if a peer did. */
static inline int na_addr_name_level(na_bool_t from_peer)
{
    return from_peer ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR;
}

/* Write the name of an address, as far as there is room; its length. A peer
 * that told none is known by its number. */
HG_PRIVATE size_t na_addr_print(
    const struct na_addr *addr, char *buf, size_t size);

/* Mark an address as dead; false when it is already. Its mourners are the
 * class's to tell. */
HG_PRIVATE bool na_addr_mark_dead(struct na_addr *addr, na_return_t ret);

/* NA_SUCCESS while alive, else how it died. The second one logs that, with the
 * name of what is therefore not done. */
HG_PRIVATE na_return_t na_addr_state(const struct na_addr *addr);
HG_PRIVATE na_return_t na_addr_check_alive(
    const struct na_addr *addr, const char *function);

/* Give a peer up, be it alive or not: what is in flight to it ends with
 * NA_DISCONNECT. Oneself, and who is dead, stay as they are. */
HG_PRIVATE void na_addr_abandon(struct na_addr *addr);

/* Whether a message of the one is a message of the other. Names do not count:
 * an address without a connection is the same as itself only. */
HG_PRIVATE bool na_addr_same(
    const struct na_addr *addr1, const struct na_addr *addr2);

/* Whether what comes from `source` is the peer's, in the life of it that `peer`
 * stands for: what an earlier one has left behind, under the same name, is
 * not. */
HG_PRIVATE bool na_addr_is_from(
    const struct na_addr *peer, const struct na_addr *source);

/* Check the arguments of a function that takes an address: NA_INVALID_ARG,
 * logged with the function's name. */
HG_PRIVATE na_return_t na_addr_check(const struct na_class *na_class,
    const struct na_addr *addr, const char *function);

/* NA_Addr_self or _dup of `addr`, NA_Addr_free and NA_Addr_to_string for other
 * functions, which the log is to name. */
HG_PRIVATE na_return_t na_addr_hand_out(
    struct na_addr *addr, na_addr_t *addr_p, const char *function);
HG_PRIVATE na_return_t na_addr_take_back(
    na_class_t *na_class, na_addr_t addr, const char *function);
HG_PRIVATE na_return_t na_addr_write(na_class_t *na_class, char *buf,
    na_size_t buf_size, na_addr_t addr, const char *function);

/* How many addresses the application has yet to free, and the name of the first
 * one, which is cut where it is longer than `size`. */
HG_PRIVATE unsigned na_addr_count_given(
    struct na_class *na_class, char *first, size_t size);

/* Release what the application leaked; the number. The class is closing. */
HG_PRIVATE unsigned na_addr_release_all(struct na_class *na_class);

#endif
