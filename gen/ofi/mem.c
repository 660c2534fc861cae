/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory: registered with the provider, described to peers.
 *
 * Part of the libfabric transport; see ofi.h.
 *
 * Each segment that is not empty has its own registration, with FI_MR_ENDPOINT
 * for the first endpoint. The serialized handle:
 *
 *     0    1    2        3      4         5   8      12   16
 *     +----+----+--------+------+---------+---+------+----+-------
 *     | h  | O  |version |flags |raw size | 0 |count | 0  |segments
 *     +----+----+--------+------+---------+---+------+----+-------
 *
 * A segment, if keys are numbers (raw size 0), and if they are not:
 *
 *     0     8     16   24        0     8     16         24         + raw size
 *     +-----+-----+----+         +-----+-----+----------+---------+
 *     |base |size |key |         |base |size |key's base|raw key  |
 *     +-----+-----+----+         +-----+-----+----------+---------+
 *
 * The initiator of a put or get adds an offset to `base`: it is the address of
 * the segment with FI_MR_VIRT_ADDR, else 0.
 *
 * Local memory of puts and gets is registered by the first of them, if the
 * provider requires that, separately from memory for peers: so memory for peers
 * can be withdrawn at any time. No provider registers all memory of a process:
 * with a local handle of that kind, each put or get registers its own bytes.
 */
#include "ofi/ofi.h"

#define NA_OFI_HANDLE 16  /* bytes in front of the segments */
#define NA_OFI_SEGMENT 24 /* bytes of a segment, without a raw key */
#define NA_OFI_RAW_KEY 64 /* bytes of a raw key, at most */
#define NA_OFI_KEYS 16    /* random keys tried for a registration */

static bool na_ofi_mr_mode(const struct na_ofi_class *self, int bit)
{
    return (self->info->domain_attr->mr_mode & bit) != 0;
}

/* ---- Registrations ---- */

/* Bytes of a raw key; 0: keys are numbers. */
static size_t na_ofi_raw_size(const struct na_ofi_class *self)
{
    return na_ofi_mr_mode(self, FI_MR_RAW)
        ? self->info->domain_attr->mr_key_size
        : 0;
}

static int na_ofi_raw_get(const struct na_ofi_class *self, struct fid_mr *mr,
    uint64_t *base_p, unsigned char key[NA_OFI_RAW_KEY])
{
    size_t size = na_ofi_raw_size(self);

    if (size > NA_OFI_RAW_KEY)
        return -FI_ETOOSMALL;
    memset(key, 0, NA_OFI_RAW_KEY);
    return fi_mr_raw_attr(mr, base_p, key, &size, 0);
}

/* A random key as the provider accepts it; some accept short ones only. */
static uint64_t na_ofi_short_key(const struct na_ofi_class *self, uint64_t key)
{
    size_t size = self->info->domain_attr->mr_key_size;

    return size > 0 && size < sizeof(key)
        ? key & ((UINT64_C(1) << 8 * size) - 1)
        : key;
}

/* Bind the memory to `ep` if the provider requires that, and check that there
 * is a key. */
static int na_ofi_mr_finish(
    const struct na_ofi_class *self, struct fid_ep *ep, struct fid_mr *mr)
{
    unsigned char key[NA_OFI_RAW_KEY];
    uint64_t base;
    int rc = 0;

    if (na_ofi_mr_mode(self, FI_MR_ENDPOINT)) {
        rc = fi_mr_bind(mr, &ep->fid, 0);
        if (rc == 0)
            rc = fi_mr_enable(mr);
    }
    if (rc == 0 && na_ofi_mr_mode(self, FI_MR_RAW))
        rc = na_ofi_raw_get(self, mr, &base, key);
    else if (rc == 0 && fi_mr_key(mr) == FI_KEY_NOTAVAIL)
        rc = -FI_ENOKEY;
    return rc;
}

/* Serialize calls of libfabric that read or change its table of keys, if its
 * provider does not: the native tcp before 1.19. */
static void na_ofi_keys_lock(struct na_ofi_class *self)
{
    if (self->keys_unsafe)
        na_ofi_lock(&self->keys_lock);
}

static void na_ofi_keys_unlock(struct na_ofi_class *self)
{
    if (self->keys_unsafe)
        na_ofi_unlock(&self->keys_lock);
}

static void na_ofi_mr_close(struct na_ofi_class *self, struct fid_mr *mr)
{
    int rc;

    na_ofi_keys_lock(self);
    rc = fi_close(&mr->fid);
    na_ofi_keys_unlock(self);
    if (rc != 0)
        (void) na_ofi_failed(self, "fi_close", "of memory", rc);
}

/* Register memory in a domain for `access`, which is bits of libfabric, with a
 * key, or 0: a random one. */
static na_return_t na_ofi_mr_open_as(struct na_ofi_class *self,
    struct fid_domain *domain, struct fid_ep *ep, void *memory, size_t size,
    uint64_t access, uint64_t wanted, struct fid_mr **mr_p)
{
    struct iovec iov = {memory, size};
    struct fi_mr_attr attr;
    struct fid_mr *mr = NULL;
    unsigned tries = NA_OFI_KEYS;
    uint64_t key;
    int rc;

    memset(&attr, 0, sizeof(attr));
    attr.mr_iov = &iov;
    attr.iov_count = 1;
    attr.access = access;
    attr.auth_key_size = self->info->domain_attr->auth_key_size;
    attr.auth_key = self->info->domain_attr->auth_key;
    do {
        key = wanted != 0 ? wanted : self->base.core->random();
        if (key == 0)
            return NA_NODEV;
        attr.requested_key = na_ofi_short_key(self, key);
        na_ofi_keys_lock(self);
        rc = fi_mr_regattr(domain, &attr, 0, &mr);
        na_ofi_keys_unlock(self);
    } while (rc == -FI_ENOKEY && wanted == 0 && --tries > 0);
    if (rc != 0)
        return na_ofi_failed(self, "fi_mr_regattr", "of memory", rc);
    rc = na_ofi_mr_finish(self, ep, mr);
    if (rc != 0) {
        na_ofi_mr_close(self, mr);
        return na_ofi_failed(self, "fi_mr_regattr", "of memory, its key", rc);
    }
    *mr_p = mr;
    return NA_SUCCESS;
}

static na_return_t na_ofi_mr_open(struct na_ofi_class *self, struct fid_ep *ep,
    void *memory, size_t size, uint64_t access, struct fid_mr **mr_p)
{
    return na_ofi_mr_open_as(
        self, self->families[0].domain, ep, memory, size, access, 0, mr_p);
}

/* Close the first `count` of a set, and free it. NULL is allowed. */
static void na_ofi_mrs_close(
    struct na_ofi_class *self, struct fid_mr **mrs, na_size_t count)
{
    na_size_t i;

    for (i = 0; mrs != NULL && i < count; i++)
        if (mrs[i] != NULL)
            na_ofi_mr_close(self, mrs[i]);
    self->base.core->free(mrs);
}

/* Register each segment of a handle, with the keys of other registrations, or
 * NULL: with random ones. */
static na_return_t na_ofi_mrs_open(const struct na_ofi_mem *mem,
    const struct na_ofi_family *family, struct fid_mr *const *keys,
    uint64_t access, struct fid_mr ***mrs_p)
{
    struct na_ofi_class *self = na_ofi_of(mem->base.na_class);
    na_size_t count = mem->base.segment_count;
    struct fid_mr **mrs = (struct fid_mr **) self->base.core->alloc(
        (size_t) count * sizeof(struct fid_mr *));
    na_size_t i;

    if (mrs == NULL) {
        self->base.core->log(HG_LOG_LEVEL_ERROR, "ofi",
            "no memory to register %" PRIu64 " segments", count);
        return NA_NOMEM;
    }
    for (i = 0; i < count; i++) {
        const struct na_segment *segment = &mem->base.segments[i];
        na_return_t ret = NA_SUCCESS;

        mrs[i] = NULL;
        if (segment->size > 0)
            ret = na_ofi_mr_open_as(self, family->domain, self->ends[0]->ep,
                segment->address, (size_t) segment->size, access,
                keys != NULL ? fi_mr_key(keys[i]) : 0, &mrs[i]);
        if (ret != NA_SUCCESS) {
            na_ofi_mrs_close(self, mrs, i);
            return ret;
        }
    }
    *mrs_p = mrs;
    return NA_SUCCESS;
}

static uint64_t na_ofi_mem_access(const struct na_ofi_mem *mem)
{
    uint64_t access = 0;

    if ((mem->base.flags & NA_MEM_READ_ONLY) != 0)
        access |= FI_REMOTE_READ;
    if ((mem->base.flags & NA_MEM_WRITE_ONLY) != 0)
        access |= FI_REMOTE_WRITE;
    return access;
}

/* Register memory for the other family, too. mems_lock is held, as below. */
static na_return_t na_ofi_mem_register_other(struct na_ofi_mem *mem)
{
    const struct na_ofi_class *self = na_ofi_of(mem->base.na_class);

    HG_ASSERT(mem->mrs != NULL && mem->others == NULL);
    return na_ofi_mrs_open(mem, &self->families[1], mem->mrs,
        na_ofi_mem_access(mem), &mem->others);
}

static void na_ofi_mem_deregister_other(struct na_ofi_mem *mem)
{
    na_ofi_mrs_close(
        na_ofi_of(mem->base.na_class), mem->others, mem->base.segment_count);
    mem->others = NULL;
}

/* Register all memory for the other family: peers may have its keys already.
 * No lock is held. */
static na_return_t na_ofi_mems_register_other(struct na_ofi_class *self)
{
    na_return_t ret = NA_SUCCESS;
    struct na_link *link;

    na_ofi_lock(&self->mems_lock);
    HG_ASSERT(!self->mems_twice);
    for (link = self->mems.next; link != &self->mems && ret == NA_SUCCESS;
         link = link->next)
        ret =
            na_ofi_mem_register_other(NA_OFI_OF(link, struct na_ofi_mem, link));
    self->mems_twice = ret == NA_SUCCESS;
    for (link = self->mems.next; link != &self->mems && ret != NA_SUCCESS;
         link = link->next)
        na_ofi_mem_deregister_other(NA_OFI_OF(link, struct na_ofi_mem, link));
    na_ofi_unlock(&self->mems_lock);
    return ret;
}

/* The slot. */
static na_return_t na_ofi_mem_register(struct na_mem_handle *base)
{
    struct na_ofi_mem *mem = na_ofi_mem_of(base);
    struct na_ofi_class *self = na_ofi_of(base->na_class);
    na_return_t ret;

    HG_ASSERT(mem->mrs == NULL);
    ret = na_ofi_mrs_open(
        mem, &self->families[0], NULL, na_ofi_mem_access(mem), &mem->mrs);
    if (ret != NA_SUCCESS || na_ofi_has_one_af(self))
        return ret;
    na_plug_list_init(&mem->link);
    na_ofi_lock(&self->mems_lock);
    if (self->mems_twice)
        ret = na_ofi_mem_register_other(mem);
    if (ret == NA_SUCCESS)
        na_plug_list_push(&self->mems, &mem->link);
    na_ofi_unlock(&self->mems_lock);
    if (ret != NA_SUCCESS) {
        na_ofi_mrs_close(self, mem->mrs, base->segment_count);
        mem->mrs = NULL;
    }
    return ret;
}

/* The slot. From now on the provider refuses the key. A provider that moves
 * memory in software (tcp, sockets) completes a transfer that it has started to
 * serve, without reporting when. */
static void na_ofi_mem_deregister(struct na_mem_handle *base)
{
    struct na_ofi_mem *mem = na_ofi_mem_of(base);
    struct na_ofi_class *self = na_ofi_of(base->na_class);

    HG_ASSERT(mem->mrs != NULL);
    if (!na_ofi_has_one_af(self)) {
        na_ofi_lock(&self->mems_lock);
        na_plug_list_remove(&mem->link);
        na_ofi_mem_deregister_other(mem);
        na_ofi_unlock(&self->mems_lock);
    }
    na_ofi_mrs_close(self, mem->mrs, base->segment_count);
    mem->mrs = NULL;
}

/* Whether a segment is larger than any memory that a process can have. */
static bool na_ofi_mem_is_all(const struct na_mem_handle *base)
{
    return base->segment_count == 1 && base->size > PTRDIFF_MAX;
}

/* Register local memory of a put or get, in any thread. */
static na_return_t na_ofi_mem_local(struct na_ofi_op *op)
{
    const struct na_mem_handle *base = op->base.local;
    struct na_ofi_class *self = na_ofi_of(base->na_class);
    struct na_ofi_mem *mem = na_ofi_mem_of(base);
    struct fid_mr **none = NULL;
    struct fid_mr **mrs;
    uint64_t access = 0;
    na_return_t ret;

    op->own = NULL;
    if (!na_ofi_mr_mode(self, FI_MR_LOCAL) || atomic_load(&mem->local) != NULL)
        return NA_SUCCESS;
    if (na_ofi_mem_is_all(base))
        return na_ofi_mr_open(self, self->ends[0]->ep,
            (char *) base->segments[0].address + op->base.local_offset,
            (size_t) op->base.size,
            op->base.type == NA_CB_PUT ? FI_WRITE : FI_READ, &op->own);
    if ((base->flags & NA_MEM_READ_ONLY) != 0)
        access |= FI_WRITE; /* the source of a put */
    if ((base->flags & NA_MEM_WRITE_ONLY) != 0)
        access |= FI_READ;
    ret = na_ofi_mrs_open(mem, &self->families[0], NULL, access, &mrs);
    if (ret != NA_SUCCESS)
        return ret;
    if (!atomic_compare_exchange_strong(&mem->local, &none, mrs))
        /* Another thread was first. */
        na_ofi_mrs_close(self, mrs, base->segment_count);
    return NA_SUCCESS;
}

/* The provider's descriptor of a local segment of an operation, or NULL. */
static void *na_ofi_mem_desc(const struct na_ofi_op *op, na_size_t segment)
{
    const struct na_ofi_mem *mem = na_ofi_mem_of(op->base.local);
    struct fid_mr **mrs =
        atomic_load_explicit(&mem->local, memory_order_acquire);

    HG_ASSERT(segment < mem->base.segment_count);
    if (op->own != NULL)
        return fi_mr_desc(op->own);
    return mrs != NULL && mrs[segment] != NULL ? fi_mr_desc(mrs[segment])
                                               : NULL;
}

/* ---- Descriptions ---- */

/* The slot. */
static na_size_t na_ofi_mem_serialize_size(const struct na_mem_handle *base)
{
    const struct na_ofi_class *self = na_ofi_of(base->na_class);
    na_size_t size = NA_OFI_HANDLE;
    na_size_t i;

    for (i = 0; i < base->segment_count; i++)
        if (base->segments[i].size > 0)
            size += NA_OFI_SEGMENT + na_ofi_raw_size(self);
    return size;
}

/* The slot. */
static void na_ofi_mem_serialize(const struct na_mem_handle *base, void *buf)
{
    const struct na_ofi_class *self = na_ofi_of(base->na_class);
    const struct na_ofi_mem *mem = na_ofi_mem_of(base);
    unsigned char *bytes = (unsigned char *) buf;
    unsigned char *p = bytes + NA_OFI_HANDLE;
    uint32_t count = 0;
    na_size_t i;

    HG_ASSERT(mem->mrs != NULL && !base->remote);
    for (i = 0; i < base->segment_count; i++) {
        const struct na_segment *segment = &base->segments[i];
        unsigned char key[NA_OFI_RAW_KEY];
        uint64_t key_base;

        if (segment->size == 0)
            continue;
        na_plug_put64(p,
            na_ofi_mr_mode(self, FI_MR_VIRT_ADDR)
                ? (uint64_t) (uintptr_t) segment->address
                : 0);
        na_plug_put64(p + 8, segment->size);
        if (na_ofi_mr_mode(self, FI_MR_RAW)) {
            int rc = na_ofi_raw_get(self, mem->mrs[i], &key_base, key);

            HG_ASSERT(rc == 0); /* as when it was registered */
            (void) rc;
            na_plug_put64(p + 16, key_base);
            memcpy(p + 24, key, na_ofi_raw_size(self));
        } else {
            na_plug_put64(p + 16, fi_mr_key(mem->mrs[i]));
        }
        p += NA_OFI_SEGMENT + na_ofi_raw_size(self);
        count++;
    }
    memset(bytes, 0, NA_OFI_HANDLE);
    bytes[0] = 'h';
    bytes[1] = 'O';
    bytes[2] = NA_OFI_MEM_VERSION;
    bytes[3] = (unsigned char) base->flags;
    bytes[4] = (unsigned char) na_ofi_raw_size(self);
    na_plug_put32(bytes + 8, count);
}

/* Convert a peer's key for this process. */
static na_return_t na_ofi_key_open(
    struct na_ofi_class *self, const unsigned char *p, uint64_t *key_p)
{
    unsigned char key[NA_OFI_RAW_KEY];
    size_t size = na_ofi_raw_size(self);
    int rc;

    if (size == 0) {
        *key_p = na_plug_get64(p);
        return NA_SUCCESS;
    }
    memcpy(key, p + 8, size);
    rc = fi_mr_map_raw(
        self->families[0].domain, na_plug_get64(p), key, size, key_p, 0);
    if (rc == 0)
        return NA_SUCCESS;
    self->base.core->log(HG_LOG_LEVEL_WARNING, "ofi",
        "the key of a peer's memory cannot be used: %s", fi_strerror(-rc));
    return rc == -FI_ENOMEM ? NA_NOMEM : NA_PROTOCOL_ERROR;
}

/* The slot: the handle is freed. */
static void na_ofi_mem_release(struct na_mem_handle *base)
{
    struct na_ofi_class *self = na_ofi_of(base->na_class);
    struct na_ofi_mem *mem = na_ofi_mem_of(base);
    na_size_t i;

    HG_ASSERT(mem->mrs == NULL);
    if (!base->remote)
        na_ofi_mrs_close(self, atomic_load(&mem->local), base->segment_count);
    else if (na_ofi_raw_size(self) > 0)
        for (i = 0; i < base->segment_count; i++)
            (void) fi_mr_unmap_key(self->families[0].domain, mem->there[i].key);
    self->base.core->free(mem->there);
}

/* Decode the segments of a description whose size was checked. After an error
 * na_ofi_mem_release releases the decoded ones. */
static na_return_t na_ofi_mem_learn(
    struct na_ofi_mem *mem, const unsigned char *p, uint32_t count)
{
    struct na_ofi_class *self = na_ofi_of(mem->base.na_class);
    uint32_t i;

    for (i = 0; i < count; i++) {
        struct na_ofi_piece *piece = &mem->there[i];
        na_return_t ret;

        piece->base = na_plug_get64(p);
        piece->size = na_plug_get64(p + 8);
        piece->start = mem->base.size;
        /* Neither an offset into a segment nor into all may wrap around. */
        if (piece->size == 0 || piece->size - 1 > UINT64_MAX - piece->base ||
            piece->size > UINT64_MAX - mem->base.size)
            return NA_PROTOCOL_ERROR;
        ret = na_ofi_key_open(self, p + 16, &piece->key);
        if (ret != NA_SUCCESS)
            return ret;
        mem->base.size += piece->size;
        mem->base.segment_count = i + 1;
        p += NA_OFI_SEGMENT + na_ofi_raw_size(self);
    }
    return NA_SUCCESS;
}

/* The slot: from a peer, so all fields are checked. */
static na_return_t na_ofi_mem_deserialize(
    struct na_mem_handle *base, const void *buf, na_size_t buf_size)
{
    struct na_ofi_class *self = na_ofi_of(base->na_class);
    struct na_ofi_mem *mem = na_ofi_mem_of(base);
    const unsigned char *p = (const unsigned char *) buf;
    uint32_t count;

    if (buf_size < NA_OFI_HANDLE || p[0] != 'h' || p[1] != 'O' ||
        p[2] != NA_OFI_MEM_VERSION || p[3] < NA_MEM_READ_ONLY ||
        p[3] > NA_MEM_READWRITE || p[4] != na_ofi_raw_size(self) || p[5] != 0 ||
        p[6] != 0 || p[7] != 0 || na_plug_get32(p + 12) != 0)
        return NA_PROTOCOL_ERROR;
    count = na_plug_get32(p + 8);
    if (count >
        (buf_size - NA_OFI_HANDLE) / (NA_OFI_SEGMENT + na_ofi_raw_size(self)))
        return NA_PROTOCOL_ERROR;
    base->flags = p[3];
    if (count == 0)
        return NA_SUCCESS;
    mem->there = (struct na_ofi_piece *) self->base.core->alloc(
        count * sizeof(*mem->there));
    if (mem->there == NULL) {
        self->base.core->log(HG_LOG_LEVEL_WARNING, "ofi",
            "no memory for %" PRIu32 " segments of a peer", count);
        return NA_NOMEM;
    }
    return na_ofi_mem_learn(mem, p + NA_OFI_HANDLE, count);
}
