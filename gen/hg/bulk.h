/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk: memory that others may move.
 *
 * A bulk handle is memory of this process or a description of somebody
 * else's. Handles are counted: a transfer in flight keeps those it uses. Those
 * references that the application has are counted apart, since memory is
 * withdrawn with the last of them. A local handle is published when it is first
 * serialized: its memory is registered and it gets a random id, by which a
 * description that comes back to this process turns into an alias: a handle
 * that shares the memory of the first one, and is of no more use once that one
 * was freed.
 *
 * A peer's handle keeps its description, and is passed on as it came. The
 * description of a bound handle has the owner's address, so that the process
 * which gets it in the end can move the memory. An owner that does not listen
 * has no address for others; a process that got the description from the owner
 * knows it as the peer of that call. The owner's address of an unbound handle
 * is told with each transfer.
 *
 * Locking: the layer's lock guards its list, ids, publication and binding;
 * counts are atomics, that of holds with the mark of withdrawal; an owner's
 * address is set once, as is the mark of being bound; everything else of a
 * handle is constant.
 */
#ifndef HG_GEN_HG_BULK_H
#define HG_GEN_HG_BULK_H

#include "base/list.h"
#include "base/map.h"
#include "na/core.h"

/* Memory exposed on one NA class. */
struct hg_bulk_layer {
    struct na_class *na_class;
    struct hg_monitor *lock; /* the NA class's */
    pthread_cond_t released; /* somebody let go of memory */
    struct na_link handles;
    struct hg_map ids;           /* published handles by id */
    uint64_t incarnation;        /* random: this life of the layer */
    char owner[NA_MAX_ADDR_LEN]; /* own address where it must travel, or "" */
    bool mute; /* it must travel, but there is none: nothing is exposed */
    _Atomic uint64_t bytes_pulled;
    _Atomic uint64_t bytes_pushed;
    _Atomic uint64_t transfers_done;
    _Atomic uint64_t transfers_damaged;
};

#define HG_BULK_WITHDRAWN 0x80000000u

struct hg_bulk {
    struct na_link link;
    struct hg_bulk_layer *layer; /* NULL once the layer ended */
    _Atomic uint32_t refs;
    _Atomic uint32_t given; /* those of them that the application has */
    unsigned long flags;
    bool remote;
    bool published;
    _Atomic bool bound; /* of an alias, its original's */
    uint8_t context_id; /* if so: of the owner's context */
    /* Of its memory; and HG_BULK_WITHDRAWN: it is not to be touched, for its
     * owner freed it. From then on holds end under the layer's lock. */
    _Atomic uint32_t holds;
    struct hg_bulk *original; /* of an alias, which shares what follows */
    uint64_t id;
    size_t size;
    size_t segment_count;
    struct na_segment *segments; /* local */
    struct na_mem_block memory;  /* allocated by the library, or zeros */
    struct na_mem_handle **mems;
    size_t mem_count;
    /* Remote only. */
    char *owner; /* its address where the memory is; NULL: the caller's */
    _Atomic(struct na_addr *) addr; /* the owner's, of a bound one; NULL */
    uint64_t incarnation;           /* of the owner's layer */
    size_t bytes_size;
    unsigned char bytes[]; /* its description, to be passed on */
};

HG_PRIVATE hg_return_t hg_bulk_layer_create(
    struct na_class *na_class, struct hg_bulk_layer **layer_p);

/* How many handles there are, and size and owner of the first one. */
HG_PRIVATE unsigned hg_bulk_describe_left(
    struct hg_bulk_layer *layer, char *first, size_t size);

/* Withdraw every handle's memory; handles left are the application's to free.
 * No context is left whose transfers look at them. */
HG_PRIVATE void hg_bulk_layer_destroy(struct hg_bulk_layer *layer);

/* Whether the RPC layer runs on another class: then descriptions carry the
 * owner's address. Where the class does not listen, and such classes are not
 * found by their address (finds_callers), making or serializing a handle of our
 * memory is HG_OPNOTSUPPORT. */
HG_PRIVATE hg_return_t hg_bulk_layer_set_separate(
    struct hg_bulk_layer *layer, bool separate);

/* See HG_Bulk_handle_create. */
HG_PRIVATE hg_return_t hg_bulk_create(struct hg_bulk_layer *layer, size_t count,
    void *const *buf_ptrs, const size_t *buf_sizes, unsigned long flags,
    struct hg_bulk **bulk_p);

HG_PRIVATE void hg_bulk_ref(struct hg_bulk *bulk);
HG_PRIVATE void hg_bulk_unref(struct hg_bulk *bulk);

/* The application's references: a new handle has one. One more; and one less,
 * of which the last withdraws the memory. HG_INVALID_ARG (logged): it has
 * none. */
HG_PRIVATE void hg_bulk_give(struct hg_bulk *bulk);
HG_PRIVATE hg_return_t hg_bulk_take_back(struct hg_bulk *bulk);

/* Withdraw from peers' reach and from its aliases', waiting for who holds it,
 * and end the transfers that it is the local side of: HG_CANCELED. What
 * HG_Bulk_handle_free does first. Does nothing to an alias. */
HG_PRIVATE void hg_bulk_withdraw(struct hg_bulk *bulk);

/* Around a copy of local memory, and around starting a transfer with it: its
 * owner stays in HG_Bulk_handle_free as long. False: it is freed already. */
HG_PRIVATE bool hg_bulk_hold(struct hg_bulk *bulk);
HG_PRIVATE void hg_bulk_release(struct hg_bulk *bulk);

/* HG_NOENTRY (logged) when the memory, its own or an alias's, was withdrawn. */
HG_PRIVATE hg_return_t hg_bulk_check_there(struct hg_bulk *bulk);

/* Of a handle: the one whose memory it is, an alias's original or itself. */
static inline struct hg_bulk *hg_bulk_source(struct hg_bulk *bulk)
{
    return bulk->original != NULL ? bulk->original : bulk;
}

/* ---- Where memory is ---- */

static inline bool hg_bulk_is_bound(struct hg_bulk *bulk)
{
    return atomic_load(&hg_bulk_source(bulk)->bound);
}

/* Bind memory of ours to a context. HG_INVALID_ARG (logged): it is a peer's, or
 * bound. */
HG_PRIVATE hg_return_t hg_bulk_bind(struct hg_bulk *bulk, uint8_t context_id);

/* The address that a description of our memory tells; "": it needs none, or
 * there is none. */
HG_PRIVATE const char *hg_bulk_own_name(struct hg_bulk *bulk);

/* The owner's address of a remote handle, which has none, is `addr`: a
 * reference is taken. */
HG_PRIVATE void hg_bulk_set_addr(struct hg_bulk *bulk, struct na_addr *addr);

/* The address of the owner, borrowed as long as the handle; NULL: the handle
 * does not know it, or it is dead and may be looked up. */
HG_PRIVATE struct na_addr *hg_bulk_addr(struct hg_bulk *bulk);

/* A description that was passed on came back: learn the owner's address from
 * another handle of the same memory. */
HG_PRIVATE void hg_bulk_recognise(struct hg_bulk *bulk);

/* An empty handle with one reference, in the layer's list, that can keep a
 * description of `capacity` bytes. NULL: out of memory (logged). */
HG_PRIVATE struct hg_bulk *hg_bulk_new(
    struct hg_bulk_layer *layer, size_t capacity);

/* HG_OPNOTSUPPORT (logged) where the layer is mute. */
HG_PRIVATE hg_return_t hg_bulk_check_mute(const struct hg_bulk_layer *layer);

/* Register the memory of a local handle that is no alias and give it an id, if
 * that has not been done. HG_NOENTRY (logged): it was withdrawn. */
HG_PRIVATE hg_return_t hg_bulk_publish(struct hg_bulk *bulk);

/* An alias of the handle published under `id`. HG_NOENTRY (logged): it was
 * freed. */
HG_PRIVATE hg_return_t hg_bulk_find_own(
    struct hg_bulk_layer *layer, uint64_t id, struct hg_bulk **bulk_p);

/* The next run of memory: at most *size bytes of a local handle, at logical
 * offset *offset past the start of segment *segment; these three move on.
 * False: nothing is left. */
HG_PRIVATE bool hg_bulk_next_run(const struct hg_bulk *bulk, size_t *segment,
    size_t *offset, size_t *size, void **ptr_p, size_t *length_p);

/* See HG_Bulk_handle_access. */
HG_PRIVATE hg_return_t hg_bulk_access(struct hg_bulk *bulk, size_t offset,
    size_t size, unsigned long flags, unsigned max_count, void **buf_ptrs,
    size_t *buf_sizes, unsigned *actual_count);

/* The memory handle that holds logical `offset`, which is in range or at the
 * end, and where in it. */
HG_PRIVATE size_t hg_bulk_find_mem(
    const struct hg_bulk *bulk, size_t offset, size_t *within_p);

/* The layer of the process: the request model's, for procs of no class. */
HG_PRIVATE struct hg_bulk_layer *hg_bulk_current(void);
HG_PRIVATE void hg_bulk_set_current(struct hg_bulk_layer *layer);

#endif
