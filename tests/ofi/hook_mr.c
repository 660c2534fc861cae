/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See hook.h. Memory regions and their keys.
 *
 * With provkey and rawkey the hook chooses the key that the provider is asked
 * for, so that it contains the base address of the region: base << 16 | a
 * random number, scrambled. So a peer's hook can turn a virtual address into
 * the offset that the provider expects. A raw key consists of that key, a check
 * of it and of the base address, and a random number.
 */
#define _GNU_SOURCE 1
#include "ofi/hook_parts.h"

#include "harness.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define HOOK_SCRAMBLE UINT64_C(0x9d5c3a7f162be48d)
#define HOOK_ATTEMPTS 1000 /* to find a key that is not in use */

struct hook_raw_key {
    uint64_t key, check, random;
};

_Static_assert(sizeof(struct hook_raw_key) == HOOK_RAW_KEY, "the raw key");

static uint64_t hook_mr_raw_check(uint64_t key, uint64_t base)
{
    uint64_t state = key ^ base << 1;

    return hg_test_random(&state);
}

static uint64_t hook_mr_base(const struct hook_mr *mr)
{
    return (uintptr_t) mr->iov[0].iov_base;
}

static struct hook_mr **hook_mr_bucket(
    struct hook_domain *domain, const void *mr)
{
    return &domain->mrs[((uintptr_t) mr >> 6) % HOOK_BUCKETS];
}

static struct hook_mapping **hook_mr_key_bucket(
    struct hook_domain *domain, uint64_t key)
{
    return &domain->mappings[key % HOOK_BUCKETS];
}

static bool hook_mr_chooses_keys(void)
{
    return (hook_words.mr_mode & FI_MR_PROV_KEY) != 0;
}

/* ---- Registration ---- */

static int hook_mr_register(struct hook_mr *mr)
{
    struct fid_domain *real = mr->domain->real;
    struct fi_mr_attr attr;
    unsigned attempt;
    int ret = -FI_ENOKEY;

    memset(&attr, 0, sizeof attr);
    attr.mr_iov = mr->iov;
    attr.iov_count = mr->iov_count;
    attr.access = mr->access;
    attr.requested_key = mr->requested_key;
    attr.context = mr->fid.fid.context;
    for (attempt = 0; ret == -FI_ENOKEY && attempt < HOOK_ATTEMPTS; attempt++) {
        if (hook_mr_chooses_keys()) {
            pthread_mutex_lock(&hook_lock);
            attr.requested_key = hook_random() & 0xffff;
            pthread_mutex_unlock(&hook_lock);
            attr.requested_key |= hook_mr_base(mr) << 16;
            attr.requested_key ^= HOOK_SCRAMBLE;
        }
        ret = fi_mr_regattr(real, &attr, mr->flags, &mr->real);
        if (!hook_mr_chooses_keys())
            break;
    }
    if (ret != 0)
        return ret;
    if (hook_mr_chooses_keys() && fi_mr_key(mr->real) != attr.requested_key)
        hg_test_fail("ofi-hook", "the provider chooses keys itself");
    mr->fid.key = (mr->domain->mr_mode & FI_MR_RAW) != 0 ? FI_KEY_NOTAVAIL
                                                         : fi_mr_key(mr->real);
    if ((mr->domain->mr_mode & FI_MR_LOCAL) == 0)
        mr->fid.mem_desc = fi_mr_desc(mr->real);
    return 0;
}

static int hook_mr_close(struct fid *fid)
{
    struct hook_mr *mr = (struct hook_mr *) fid, **link;
    int ret = 0;

    pthread_mutex_lock(&hook_lock);
    if (mr->users != 0)
        hook_violation("a memory region is closed with %u operations in flight",
            mr->users);
    for (link = hook_mr_bucket(mr->domain, mr); *link != mr;)
        link = &(*link)->next;
    *link = mr->next;
    mr->domain->mr_count--;
    if (mr->ep != NULL)
        mr->ep->mrs--;
    pthread_mutex_unlock(&hook_lock);
    if (mr->real != NULL)
        ret = fi_close(&mr->real->fid);
    free(mr);
    return ret;
}

static int hook_mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct hook_mr *mr = (struct hook_mr *) fid;

    if (other->fclass != FI_CLASS_EP || flags != 0)
        hook_violation("fi_mr_bind with flags, or with no endpoint");
    if ((mr->domain->mr_mode & FI_MR_ENDPOINT) == 0)
        return -FI_ENOSYS;
    if (mr->ep != NULL)
        hook_violation("a memory region is bound twice");
    pthread_mutex_lock(&hook_lock);
    mr->ep = (struct hook_ep *) other;
    mr->ep->mrs++;
    pthread_mutex_unlock(&hook_lock);
    return 0;
}

static int hook_mr_enable(struct hook_mr *mr)
{
    int ret = hook_fault("mrenable");

    if (ret != 0)
        return ret;
    if ((mr->domain->mr_mode & FI_MR_ENDPOINT) == 0)
        return -FI_ENOSYS;
    if (mr->ep == NULL || !mr->ep->enabled)
        hook_violation("a memory region is enabled before it is bound to an "
                       "enabled endpoint");
    if (mr->real != NULL)
        hook_violation("a memory region is enabled twice");
    ret = hook_mr_register(mr);
    pthread_mutex_lock(&hook_lock);
    hook_count("enabled");
    pthread_mutex_unlock(&hook_lock);
    return ret;
}

static int hook_mr_raw(struct hook_mr *mr, struct fi_mr_raw_attr *attr)
{
    struct hook_raw_key raw;
    size_t size = *attr->key_size;

    if ((mr->domain->mr_mode & FI_MR_RAW) == 0)
        return -FI_ENOSYS;
    if (mr->real == NULL)
        hook_violation("the key of a memory region that is not enabled");
    *attr->key_size = sizeof raw;
    if (size < sizeof raw)
        return -FI_ETOOSMALL;
    *attr->base_addr = hook_mr_base(mr);
    raw.key = fi_mr_key(mr->real);
    raw.check = hook_mr_raw_check(raw.key, *attr->base_addr);
    pthread_mutex_lock(&hook_lock);
    raw.random = hook_random();
    hook_count("keys");
    pthread_mutex_unlock(&hook_lock);
    memcpy(attr->raw_key, &raw, sizeof raw);
    return 0;
}

static int hook_mr_fid_control(struct fid *fid, int command, void *arg)
{
    struct hook_mr *mr = (struct hook_mr *) fid;

    switch (command) {
    case FI_ENABLE: return hook_mr_enable(mr);
    case FI_GET_RAW_MR: return hook_mr_raw(mr, (struct fi_mr_raw_attr *) arg);
    default: return -FI_ENOSYS;
    }
}

static struct fi_ops hook_mr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = hook_mr_close,
    .bind = hook_mr_bind,
    .control = hook_mr_fid_control,
};

static bool hook_mr_is_mapped(const struct iovec *iov)
{
    uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t) iov->iov_base & ~(page - 1);
    uintptr_t end = (uintptr_t) iov->iov_base + iov->iov_len;

    if (end - start > PTRDIFF_MAX) /* msync takes it for 0 */
        return false;
    return iov->iov_len == 0 ||
        msync((void *) start, end - start, MS_ASYNC) == 0 || errno != ENOMEM;
}

static int hook_mr_regattr(struct fid *fid, const struct fi_mr_attr *attr,
    uint64_t flags, struct fid_mr **mr_p)
{
    struct hook_domain *domain = (struct hook_domain *) fid;
    struct hook_mr *mr, **bucket;
    int ret = hook_fault("mr");
    size_t i;

    if (ret != 0)
        return ret;
    if (attr->iov_count == 0 || attr->iov_count > domain->mr_iov_limit)
        hook_violation("a memory region of %zu pieces, of %zu at most",
            attr->iov_count, domain->mr_iov_limit);
    mr = (struct hook_mr *) hook_alloc(sizeof *mr);
    mr->fid.fid.fclass = FI_CLASS_MR;
    mr->fid.fid.context = attr->context;
    mr->fid.fid.ops = &hook_mr_fid_ops;
    mr->fid.key = FI_KEY_NOTAVAIL;
    mr->fid.mem_desc = (domain->mr_mode & FI_MR_LOCAL) != 0 ? mr : NULL;
    mr->domain = domain;
    mr->iov_count = attr->iov_count;
    mr->access = attr->access;
    mr->requested_key = attr->requested_key;
    mr->flags = flags;
    for (i = 0; i < attr->iov_count; i++) {
        mr->iov[i] = attr->mr_iov[i];
        if ((domain->mr_mode & FI_MR_ALLOCATED) != 0 &&
            !hook_mr_is_mapped(&mr->iov[i]))
            ret = -FI_EFAULT;
    }
    if (ret == 0 && (domain->mr_mode & FI_MR_ENDPOINT) == 0)
        ret = hook_mr_register(mr);
    if (ret != 0) {
        free(mr);
        return ret;
    }
    pthread_mutex_lock(&hook_lock);
    bucket = hook_mr_bucket(domain, mr);
    mr->next = *bucket;
    *bucket = mr;
    domain->mr_count++;
    pthread_mutex_unlock(&hook_lock);
    *mr_p = &mr->fid;
    return 0;
}

static int hook_mr_regv(struct fid *fid, const struct iovec *iov, size_t count,
    uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
    struct fid_mr **mr_p, void *context)
{
    struct fi_mr_attr attr;

    memset(&attr, 0, sizeof attr);
    attr.mr_iov = iov;
    attr.iov_count = count;
    attr.access = access;
    attr.offset = offset;
    attr.requested_key = requested_key;
    attr.context = context;
    return hook_mr_regattr(fid, &attr, flags, mr_p);
}

static int hook_mr_reg(struct fid *fid, const void *buf, size_t len,
    uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
    struct fid_mr **mr_p, void *context)
{
    struct iovec iov = {(void *) (uintptr_t) buf, len};

    return hook_mr_regv(
        fid, &iov, 1, access, offset, requested_key, flags, mr_p, context);
}

struct fi_ops_mr hook_mr_domain_ops = {
    .size = sizeof(struct fi_ops_mr),
    .reg = hook_mr_reg,
    .regv = hook_mr_regv,
    .regattr = hook_mr_regattr,
};

/* ---- Descriptors ---- */

static bool hook_mr_covers(const struct hook_mr *mr, const struct iovec *iov)
{
    uintptr_t start = (uintptr_t) iov->iov_base;
    size_t i;

    for (i = 0; i < mr->iov_count; i++) {
        uintptr_t base = (uintptr_t) mr->iov[i].iov_base;

        if (start >= base && iov->iov_len <= mr->iov[i].iov_len &&
            start - base <= mr->iov[i].iov_len - iov->iov_len)
            return true;
    }
    return false;
}

struct hook_mr *hook_mr_check(struct hook_ep *ep, const struct iovec *iov,
    void *desc, uint64_t access, void **real_p)
{
    struct hook_mr *mr = *hook_mr_bucket(ep->domain, desc);

    *real_p = desc;
    if ((ep->domain->mr_mode & FI_MR_LOCAL) == 0)
        return NULL;
    *real_p = NULL;
    if (iov->iov_len == 0)
        return NULL;
    while (mr != NULL && mr != desc)
        mr = mr->next;
    if (mr == NULL)
        hook_violation("a buffer without the descriptor of an open region");
    if (mr->real == NULL)
        hook_violation("the descriptor of a region that is not enabled");
    if ((mr->domain->mr_mode & FI_MR_ENDPOINT) != 0 && mr->ep != ep)
        hook_violation("the descriptor of another endpoint's region");
    if ((mr->access & access) != access)
        hook_violation("the descriptor of a region without the access needed");
    if (!hook_mr_covers(mr, iov))
        hook_violation("a buffer outside of its descriptor's region");
    hook_count("desc");
    *real_p = fi_mr_desc(mr->real);
    return mr;
}

/* ---- Remote memory ---- */

static int hook_mr_map(struct hook_domain *domain, struct fi_mr_map_raw *map)
{
    struct hook_mapping *mapping, **bucket;
    struct hook_raw_key raw;
    int ret = hook_fault("mapraw");

    if (ret != 0)
        return ret;
    if ((domain->mr_mode & FI_MR_RAW) == 0)
        return -FI_ENOSYS;
    if (map->key_size != sizeof raw)
        return -FI_EINVAL;
    memcpy(&raw, map->raw_key, sizeof raw);
    if (raw.check != hook_mr_raw_check(raw.key, map->base_addr))
        return -FI_EINVAL;
    mapping = (struct hook_mapping *) hook_alloc(sizeof *mapping);
    mapping->real_key = raw.key;
    mapping->base = map->base_addr;
    pthread_mutex_lock(&hook_lock);
    mapping->key = hook_random();
    bucket = hook_mr_key_bucket(domain, mapping->key);
    mapping->next = *bucket;
    *bucket = mapping;
    domain->mapping_count++;
    hook_count("mapped");
    pthread_mutex_unlock(&hook_lock);
    *map->key = mapping->key;
    return 0;
}

static int hook_mr_unmap(struct hook_domain *domain, uint64_t key)
{
    struct hook_mapping **link = hook_mr_key_bucket(domain, key), *mapping;

    if ((domain->mr_mode & FI_MR_RAW) == 0)
        return -FI_ENOSYS;
    pthread_mutex_lock(&hook_lock);
    while (*link != NULL && (*link)->key != key)
        link = &(*link)->next;
    mapping = *link;
    if (mapping == NULL)
        hook_violation("a key is unmapped that is not mapped");
    *link = mapping->next;
    domain->mapping_count--;
    hook_count("unmapped");
    pthread_mutex_unlock(&hook_lock);
    free(mapping);
    return 0;
}

int hook_mr_control(struct hook_domain *domain, int command, void *arg)
{
    switch (command) {
    case FI_MAP_RAW_MR:
        return hook_mr_map(domain, (struct fi_mr_map_raw *) arg);
    case FI_UNMAP_KEY: return hook_mr_unmap(domain, *(uint64_t *) arg);
    default: return fi_control(&domain->real->fid, command, arg);
    }
}

void hook_mr_remote(struct hook_domain *domain, struct fi_rma_iov *iov)
{
    const struct hook_mapping *mapping = *hook_mr_key_bucket(domain, iov->key);
    uint64_t base = (iov->key ^ HOOK_SCRAMBLE) >> 16;

    if ((domain->mr_mode & FI_MR_RAW) != 0) {
        while (mapping != NULL && mapping->key != iov->key)
            mapping = mapping->next;
        if (mapping == NULL)
            hook_violation("a key that is not mapped");
        iov->key = mapping->real_key;
        base = mapping->base;
    }
    if ((domain->mr_mode & FI_MR_VIRT_ADDR) != 0 &&
        (domain->real_mr_mode & FI_MR_VIRT_ADDR) == 0) {
        iov->addr -= base;
        hook_count("translated");
    }
}
