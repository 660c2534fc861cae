/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk: handles of memory that peers may move, and their bytes on the wire.
 *
 * A bulk handle is memory of this process, or a description of a peer's. It
 * counts references, since a transfer keeps the handles it uses, and counts
 * those of the application apart: the last of these withdraws the memory.
 *
 * A local handle is published when it is first serialized: its memory is
 * registered, and it gets a random id. A description that comes back to this
 * process becomes an alias: a handle that shares the memory of the original,
 * and is of no more use once that was freed.
 *
 * A peer's handle keeps its description, and is passed on as it came. In the
 * description of a bound handle is the owner's address, so that any process
 * that gets it can move the memory. An owner that does not listen has no such
 * address: then the peer of the call that brought the handle is the owner. The
 * owner's address of an unbound handle comes with each transfer.
 *
 *      serialized handle
 *      0     4   5   6      8      16        24            32   40   44      45
 *      +-----+---+---+------+------+---------+-------------+----+----+-------+
 *      |magic|ver|flg|owner#| size | segments| incarnation | id |mem#|context|
 *      +-----+---+---+------+------+---------+-------------+----+----+-------+
 *      | owner's address, owner# bytes | memory handle, mem# bytes |
 *      +-------------------------------+---------------------------+
 *
 * `flg` is what may be done with the memory, and the flags below. The owner's
 * address is empty unless bulk has a class of its own, or the handle is bound
 * and its owner listens. The context is the owner's, of a bound handle. Bytes
 * behind that are for later versions. A bound handle that is passed on gets the
 * flag PASSED, so that its receiver does not take the sender for the owner.
 *
 * Locking: the lock of the bulk class guards all that changes in a layer and
 * its handles. Looking at local memory takes no lock: a child of fork may. A
 * handle that outlives its layer is the application's alone.
 */
#ifndef HG_GEN_BULK_BULK_H
#define HG_GEN_BULK_BULK_H

#include "base/list.h"
#include "base/map.h"
#include "na/core.h"

enum hg_bulk_wire_flags {
    HG_BULK_WIRE_ACCESS = 0x03, /* a mask: 1 read, 2 written, 3 both */
    HG_BULK_WIRE_BOUND = 0x04,  /* to a context of the owner's */
    HG_BULK_WIRE_PASSED = 0x08  /* sent by another process than the owner */
};

/* Memory exposed on one NA class. */
struct hg_bulk_layer {
    struct na_class *na_class;
    struct hg_monitor *lock; /* the NA class's */
    struct na_link handles;
    struct hg_map ids;           /* published handles by id */
    uint64_t incarnation;        /* random: this life of the layer */
    char owner[NA_MAX_ADDR_LEN]; /* own address where it must travel, or "" */
    bool mute; /* it must travel, but there is none: nothing is exposed */
    uint64_t bytes_pulled;
    uint64_t bytes_pushed;
    uint64_t transfers_done;
    uint64_t transfers_damaged;
};

struct hg_bulk {
    struct na_link link;
    struct hg_bulk_layer *layer; /* NULL once the layer ended */
    unsigned refs;               /* one for all of the application's together */
    unsigned given;              /* the application's */
    unsigned long flags;
    bool remote;
    bool published;
    bool bound;               /* an alias: see its original's */
    uint8_t context_id;       /* if so: of the owner's context */
    _Atomic bool withdrawn;   /* its owner freed it: no copy begins */
    unsigned holds;           /* copies under way */
    struct hg_bulk *original; /* of an alias, which shares what follows */
    uint64_t id;
    size_t size;
    size_t segment_count;
    struct na_segment *segments; /* local */
    struct na_mem_block memory;  /* allocated by the library, or zeros */
    struct na_mem_handle *mem;   /* of all segments */
    /* Remote only. */
    const char *owner; /* its address where the memory is; NULL: none */
    _Atomic(struct na_addr *) addr; /* the owner's, once known */
    size_t bytes_size;
    unsigned char *bytes;      /* its description, to be passed on */
    struct na_segment space[]; /* for segments, or for bytes and owner */
};

/* ---- The layer ---- */

HG_PRIVATE hg_return_t hg_bulk_layer_create(
    struct na_class *na_class, struct hg_bulk_layer **layer_p);

/* How many handles there are, and size and owner of the first one. */
HG_PRIVATE unsigned hg_bulk_describe_left(
    struct hg_bulk_layer *layer, char *first, size_t size);

/* Withdraw every handle's memory. Handles left are the application's to free.
 * No context is left whose transfers use them. */
HG_PRIVATE void hg_bulk_layer_destroy(struct hg_bulk_layer *layer);

/* Whether the RPC layer runs on another class: then descriptions carry the
 * owner's address. Where the class does not listen, and such classes are not
 * found by their address (finds_callers), making or serializing a handle of our
 * memory is HG_OPNOTSUPPORT. */
HG_PRIVATE hg_return_t hg_bulk_layer_set_separate(
    struct hg_bulk_layer *layer, bool separate);

/* The layer of the process: the request model's, for procs of no class. */
HG_PRIVATE struct hg_bulk_layer *hg_bulk_current(void);
HG_PRIVATE void hg_bulk_set_current(struct hg_bulk_layer *layer);

/* ---- Handles ---- */

/* Make a handle of local memory: fill in its `count` segments between these
 * two. An address of NULL is for memory that the library allocates. Errors are
 * those of HG_Bulk_handle_create; the handle is gone when hg_bulk_finish
 * fails. */
HG_PRIVATE hg_return_t hg_bulk_begin(struct hg_bulk_layer *layer, size_t count,
    unsigned long flags, struct hg_bulk **bulk_p);
HG_PRIVATE hg_return_t hg_bulk_finish(
    struct hg_bulk *bulk, struct hg_bulk **bulk_p);

/* Both, of arrays; buf_ptrs may be NULL. */
HG_PRIVATE hg_return_t hg_bulk_create(struct hg_bulk_layer *layer, size_t count,
    void *const *buf_ptrs, const size_t *buf_sizes, unsigned long flags,
    struct hg_bulk **bulk_p);

HG_PRIVATE void hg_bulk_unref(struct hg_bulk *bulk);

/* Withdraw memory of ours from peers and from aliases: waits for copies, and
 * ends the transfers that it is the local side of (HG_CANCELED). Does nothing
 * to an alias, a peer's handle, and the second time. */
HG_PRIVATE void hg_bulk_withdraw(struct hg_bulk *bulk);

/* The application's references: a new handle has one. One more; and one less,
 * of which the last withdraws the memory. HG_INVALID_ARG (logged): it has
 * none. */
HG_PRIVATE void hg_bulk_give(struct hg_bulk *bulk);
HG_PRIVATE hg_return_t hg_bulk_take_back(struct hg_bulk *bulk);

/* Of a handle: the one whose memory it is, an alias's original or itself. */
static inline struct hg_bulk *hg_bulk_source(struct hg_bulk *bulk)
{
    return bulk->original != NULL ? bulk->original : bulk;
}

/* HG_NOENTRY (logged) when the memory, its own or an alias's, was withdrawn. */
HG_PRIVATE hg_return_t hg_bulk_check_there(struct hg_bulk *bulk);

/* Around the use of local memory without the lock: hg_bulk_withdraw waits
 * meanwhile. The lock is held. */
HG_PRIVATE void hg_bulk_hold(struct hg_bulk *bulk);
HG_PRIVATE void hg_bulk_release(struct hg_bulk *bulk);

/* List the runs of memory behind [offset, offset + size), which lies in a local
 * handle: how many there are, up to max_count. The arrays may be NULL. */
HG_PRIVATE uint32_t hg_bulk_list(const struct hg_bulk *bulk, size_t offset,
    size_t size, uint32_t max_count, void **ptrs, size_t *sizes,
    hg_size_t *wide_sizes);

/* Whether a range of a handle may be used in the ways that `access` names.
 * HG_OVERFLOW, HG_PERMISSION, not logged. */
HG_PRIVATE hg_return_t hg_bulk_allows(const struct hg_bulk *bulk,
    uint64_t offset, uint64_t size, unsigned long access);

/* Whether the range of a handle is the application's to look at, in the ways
 * that `flags` name. HG_NOENTRY, HG_OPNOTSUPPORT (a peer's memory),
 * HG_PERMISSION, HG_OVERFLOW, all logged. */
HG_PRIVATE hg_return_t hg_bulk_check_access(
    struct hg_bulk *bulk, uint64_t offset, uint64_t size, unsigned long flags);

/* ---- Where memory is ---- */

static inline bool hg_bulk_is_bound(struct hg_bulk *bulk)
{
    return hg_bulk_source(bulk)->bound;
}

/* Bind memory of ours to a context. HG_INVALID_ARG (logged): it is a peer's, or
 * bound. */
HG_PRIVATE hg_return_t hg_bulk_bind(struct hg_bulk *bulk, uint8_t context_id);

/* The owner's address of a remote handle is `addr`, of which the handle takes a
 * reference unless it knows one already. */
HG_PRIVATE void hg_bulk_set_addr(struct hg_bulk *bulk, struct na_addr *addr);

/* Resolve the owner's address that a remote handle names: a reference. The lock
 * is not held. Errors are those of na_lookup_resolve. */
HG_PRIVATE hg_return_t hg_bulk_look_up(
    struct hg_bulk *bulk, struct na_addr **addr_p);

/* ---- Bytes ---- */

/* Bytes that hg_bulk_serialize writes. */
HG_PRIVATE size_t hg_bulk_serialize_size(struct hg_bulk *bulk);

/* Publishes memory of ours. HG_MSGSIZE: the buffer is too small; HG_NOENTRY:
 * the memory was withdrawn; HG_OPNOTSUPPORT: see hg_bulk_layer_set_separate;
 * all logged. */
HG_PRIVATE hg_return_t hg_bulk_serialize(
    struct hg_bulk *bulk, void *buf, size_t buf_size);

/* A new handle with one reference. HG_PROTOCOL_ERROR, HG_NOENTRY (memory of
 * ours that was freed), HG_NOMEM, all logged. */
HG_PRIVATE hg_return_t hg_bulk_deserialize(struct hg_bulk_layer *layer,
    const void *buf, size_t buf_size, struct hg_bulk **bulk_p);

#endif
