/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk: handles of memory that peers may read or write, and their serialized
 * form.
 *
 * A bulk handle describes memory of this process, or a peer's memory. It is
 * reference-counted, because a transfer holds the handles it uses. The
 * references of the application are counted separately: releasing the last of
 * these withdraws the memory.
 *
 * A local handle is published when it is first serialized: its memory is
 * registered, and it gets a random id. A description that comes back to this
 * process becomes an alias: a handle that shares the memory of the original,
 * and becomes invalid when the original is freed. If it comes back later, it
 * becomes the handle of a peer's memory that was withdrawn.
 *
 * The handle of a peer's memory keeps its description, and is passed on
 * unchanged. The description of a bound handle contains the owner's address, so
 * that any process that receives it can move the data. Over ZeroMQ and
 * mpi+dynamic an owner that does not listen has no such address: then the peer
 * of the call that carried the handle is the owner. For an unbound handle each
 * transfer specifies the owner's address.
 *
 *     serialized handle
 *     0     4   5   6      8      16        24            32   40   44      45
 *     +-----+---+---+------+------+---------+-------------+----+----+-------+
 *     |magic|ver|flg|owner#| size | segments| incarnation | id |mem#|context|
 *     +-----+---+---+------+------+---------+-------------+----+----+-------+
 *     | owner's address, owner# bytes | memory handle, mem# bytes |
 *     +-------------------------------+---------------------------+
 *
 * `flg` contains the access flags and the flags below. The owner's address is
 * empty unless bulk data uses its own class, or the handle is bound and its
 * owner can be reached by it. `context` is the owner's context of a bound
 * handle. Later versions may append bytes. A bound handle that is passed on
 * gets the flag PASSED, so that its receiver does not take the sender for the
 * owner.
 *
 * Locking: the lock of the bulk class guards everything that changes in a layer
 * and its handles. Accessing local memory takes no lock, so that a child of
 * fork may do it. A handle that outlives its layer belongs to the application
 * alone.
 */
#ifndef HG_GEN_BULK_BULK_H
#define HG_GEN_BULK_BULK_H

#include "base/list.h"
#include "base/map.h"
#include "na/core.h"
#include "proc/proc.h"

enum hg_bulk_wire_flags {
    HG_BULK_WIRE_ACCESS = 0x03, /* a mask: 1 read, 2 write, 3 both */
    HG_BULK_WIRE_BOUND = 0x04,  /* bound to a context of the owner */
    HG_BULK_WIRE_PASSED = 0x08  /* not sent by its owner */
};

/* Memory exposed on one NA class. */
struct hg_bulk_layer {
    struct na_class *na_class;
    struct hg_monitor *lock; /* the NA class's */
    struct na_link handles;
    struct hg_map ids;    /* published handles by id */
    uint64_t incarnation; /* random; different for each layer */
    /* Own address, or "": in all descriptions, and in those of bound
     * handles. */
    char owner[NA_MAX_ADDR_LEN];
    char bound_owner[NA_MAX_ADDR_LEN];
    bool mute; /* descriptions need an address, but there is none: nothing is
                 exposed */
    uint64_t bytes_pulled;
    uint64_t bytes_pushed;
    uint64_t transfers_done;
    uint64_t transfers_damaged;
};

struct hg_bulk {
    struct na_link link;
    struct hg_bulk_layer *layer; /* NULL when the layer has ended */
    unsigned refs;  /* all references of the application count as one */
    unsigned given; /* references of the application */
    bool recorded;  /* by the handle of the call that brought it: it is not
                      deleted meanwhile */
    unsigned long flags;
    bool remote;
    bool published;
    bool bound;             /* of an alias: that of its original */
    uint8_t context_id;     /* if bound: the owner's context */
    _Atomic bool withdrawn; /* its owner, this process, freed it: no copy
                               starts */
    unsigned holds;         /* copies in progress */
    /* Of an alias; the members that follow are shared. */
    struct hg_bulk *original;
    uint64_t id;
    size_t size;
    size_t segment_count;
    struct na_segment *segments; /* local */
    struct na_mem_block memory;  /* allocated by the library, or zeros */
    struct na_mem_handle *mem;   /* of all segments */
    /* Remote only. */
    const char *owner; /* owner's address on the bulk class; NULL: none */
    _Atomic(struct na_addr *) addr; /* the owner's address, when known */
    size_t bytes_size;
    unsigned char *bytes;      /* the description, to pass on */
    struct na_segment space[]; /* for segments, or for bytes and owner */
};

/* ---- The layer ---- */

HG_PRIVATE hg_return_t hg_bulk_layer_create(
    struct na_class *na_class, struct hg_bulk_layer **layer_p);

/* The number of handles, and the size and owner of the first, as text. */
HG_PRIVATE unsigned hg_bulk_describe_left(
    struct hg_bulk_layer *layer, char *first, size_t size);

/* Withdraw the memory of all handles. The application frees the handles that
 * are left. No context with transfers is left. */
HG_PRIVATE void hg_bulk_layer_destroy(struct hg_bulk_layer *layer);

/* Set whether the RPC layer runs on another class: then descriptions contain
 * the owner's address. If there is none, creating or serializing a handle of
 * local memory returns HG_OPNOTSUPPORT. */
HG_PRIVATE hg_return_t hg_bulk_layer_set_separate(
    struct hg_bulk_layer *layer, bool separate);

/* The layer of the request model, for procs without a class. */
HG_PRIVATE struct hg_bulk_layer *hg_bulk_current(void);
HG_PRIVATE void hg_bulk_set_current(struct hg_bulk_layer *layer);

/* ---- Handles ---- */

/* Create a handle of local memory: the caller sets its `count` segments between
 * hg_bulk_begin and hg_bulk_finish. The library allocates memory for segments
 * with a NULL address. Errors as HG_Bulk_handle_create(); if hg_bulk_finish
 * fails, the handle is freed. */
HG_PRIVATE hg_return_t hg_bulk_begin(struct hg_bulk_layer *layer, size_t count,
    unsigned long flags, struct hg_bulk **bulk_p);
HG_PRIVATE hg_return_t hg_bulk_finish(
    struct hg_bulk *bulk, struct hg_bulk **bulk_p);

/* Create a handle from arrays; buf_ptrs may be NULL. */
HG_PRIVATE hg_return_t hg_bulk_create(struct hg_bulk_layer *layer, size_t count,
    void *const *buf_ptrs, const size_t *buf_sizes, unsigned long flags,
    struct hg_bulk **bulk_p);

/* Release a reference; hg_bulk_unref_locked releases the lock to free the
 * handle. */
HG_PRIVATE void hg_bulk_unref(struct hg_bulk *bulk);
HG_PRIVATE void hg_bulk_unref_locked(struct hg_bulk *bulk);

/* Withdraw local memory from peers and aliases: waits for copies, and ends
 * transfers with this handle as the local side (HG_CANCELED). No effect on
 * aliases and peers' handles, nor the second time. */
HG_PRIVATE void hg_bulk_withdraw(struct hg_bulk *bulk);

/* The application's references; a new handle has one. hg_bulk_give adds one,
 * hg_bulk_take_back removes one; removing the last one withdraws the memory.
 * HG_INVALID_ARG (not logged): it has none. */
HG_PRIVATE void hg_bulk_give(struct hg_bulk *bulk);
HG_PRIVATE hg_return_t hg_bulk_take_back(struct hg_bulk *bulk);

/* For hg_proc_keep: the record has one of the application's references, unless
 * the application has freed it. */
HG_PRIVATE void hg_bulk_settle(void *object, enum hg_proc_fate fate);

/* The handle that owns the memory: an alias's original, or the handle
 * itself. */
static inline struct hg_bulk *hg_bulk_source(struct hg_bulk *bulk)
{
    return bulk->original != NULL ? bulk->original : bulk;
}

/* Whether its layer belongs to the parent process. */
static inline bool hg_bulk_is_forked(const struct hg_bulk *bulk)
{
    return bulk->layer != NULL && na_class_is_forked(bulk->layer->na_class);
}

/* HG_NOENTRY (logged): the memory of the handle or of its original was
 * withdrawn. */
HG_PRIVATE hg_return_t hg_bulk_check_there(struct hg_bulk *bulk);

/* Hold local memory while it is used without the lock: hg_bulk_withdraw waits.
 * The lock is held. */
HG_PRIVATE void hg_bulk_hold(struct hg_bulk *bulk);
HG_PRIVATE void hg_bulk_release(struct hg_bulk *bulk);

/* List the contiguous pieces of memory in [offset, offset + size) of a local
 * handle; returns their number, at most max_count. The arrays may be NULL. */
HG_PRIVATE uint32_t hg_bulk_list(const struct hg_bulk *bulk, size_t offset,
    size_t size, uint32_t max_count, void **ptrs, size_t *sizes,
    hg_size_t *wide_sizes);

/* Check the range and the access rights of a handle. HG_OVERFLOW,
 * HG_PERMISSION, not logged. */
HG_PRIVATE hg_return_t hg_bulk_allows(const struct hg_bulk *bulk,
    uint64_t offset, uint64_t size, unsigned long access);

/* Check that the application may access a range of a handle directly with
 * `flags`. HG_NOENTRY, HG_OPNOTSUPPORT (a peer's memory), HG_PERMISSION,
 * HG_OVERFLOW, all logged. */
HG_PRIVATE hg_return_t hg_bulk_check_access(
    struct hg_bulk *bulk, uint64_t offset, uint64_t size, unsigned long flags);

/* Get a pointer to a segment of local memory, or of a peer's memory that can be
 * mapped, and back. The pointer has one of the application's references. Errors
 * as HG_Bulk_map() and HG_Bulk_unmap(). */
HG_PRIVATE hg_return_t hg_bulk_map(
    struct hg_bulk *bulk, uint64_t segment, void **ptr_p);
HG_PRIVATE hg_return_t hg_bulk_unmap(struct hg_bulk *bulk, const void *ptr);

/* ---- Where memory is ---- */

static inline bool hg_bulk_is_bound(struct hg_bulk *bulk)
{
    return hg_bulk_source(bulk)->bound;
}

/* Bind local memory to a context, and let peers reach the class. HG_INVALID_ARG
 * (logged): it is a peer's, or bound. HG_AGAIN, HG_ADDRINUSE: see
 * addr_expose. */
HG_PRIVATE hg_return_t hg_bulk_bind(
    struct hg_bulk *bulk, uint8_t context_id, const char *function);

/* Set the owner's address of a remote handle, with a reference, unless it has
 * one. */
HG_PRIVATE void hg_bulk_set_addr(struct hg_bulk *bulk, struct na_addr *addr);

/* A message of the peer contained the handle: if it is bound and was not passed
 * on, the peer is its owner. `peer` may be NULL. */
HG_PRIVATE void hg_bulk_set_owner_peer(
    struct hg_bulk *bulk, struct na_addr *peer);

/* Resolve the owner's address in a remote handle; returns it with a reference.
 * The lock is not held. Errors as na_lookup_resolve. */
HG_PRIVATE hg_return_t hg_bulk_look_up(
    struct hg_bulk *bulk, struct na_addr **addr_p);

/* ---- Bytes ---- */

/* Bytes that hg_bulk_serialize writes. */
HG_PRIVATE size_t hg_bulk_serialize_size(struct hg_bulk *bulk);

/* Serialize a handle; local memory is published. HG_MSGSIZE: the buffer is too
 * small; HG_NOENTRY: the memory was withdrawn; HG_OPNOTSUPPORT: see
 * hg_bulk_layer_set_separate. All are logged. */
HG_PRIVATE hg_return_t hg_bulk_serialize(
    struct hg_bulk *bulk, void *buf, size_t buf_size);

/* Create a handle from its serialized form, with one reference. If it is of
 * local memory that was freed, the handle is withdrawn. HG_PROTOCOL_ERROR,
 * HG_NOMEM, all logged. */
HG_PRIVATE hg_return_t hg_bulk_deserialize(struct hg_bulk_layer *layer,
    const void *buf, size_t buf_size, struct hg_bulk **bulk_p);

#endif
