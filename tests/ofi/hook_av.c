/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See hook.h. Address vectors, and the authorization keys of endpoints.
 *
 * With authkey an endpoint writes its domain's key into a file, named by a hash
 * of the address, in the directory of the test case. A sender reads that file
 * before each operation.
 */
#define _GNU_SOURCE 1
#include "ofi/hook_parts.h"

#include "harness.h"

#include <unistd.h>

static uint64_t hook_av_hash(const void *address, size_t size)
{
    const uint8_t *bytes = (const uint8_t *) address;
    uint64_t hash = 0;
    size_t i;

    for (i = 0; i < size; i++) {
        hash ^= bytes[i];
        hash = hg_test_random(&hash);
    }
    return hash;
}

/* ---- Authorization keys ---- */

static void hook_av_path(uint64_t name, char *path, size_t size)
{
    (void) snprintf(path, size, "%s/ofi-key-%016" PRIx64, hg_test_dir(), name);
}

bool hook_av_is_deaf(struct hook_domain *domain, uint64_t name)
{
    uint8_t key[HOOK_AUTH] = {0};
    char path[512];
    FILE *file;

    hook_av_path(name, path, sizeof path);
    file = fopen(path, "rb");
    if (file != NULL) {
        if (fread(key, sizeof key, 1, file) != 1)
            memset(key, 0, sizeof key);
        (void) fclose(file);
    }
    return memcmp(key, domain->auth, sizeof key) != 0;
}

void hook_av_publish(struct hook_ep *ep)
{
    char path[512], address[256];
    size_t size = sizeof address;
    FILE *file;

    memset(address, 0, sizeof address);
    if (fi_getname(&ep->real->fid, address, &size) != 0)
        hg_test_fail("ofi-hook", "an endpoint without an address");
    ep->name = hook_av_hash(address, size);
    hook_av_path(ep->name, path, sizeof path);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(ep->domain->auth, HOOK_AUTH, 1, file) != 1 ||
        fclose(file) != 0)
        hg_test_fail("ofi-hook", "cannot write %s", path);
}

void hook_av_retract(struct hook_ep *ep)
{
    char path[512];

    if (ep->name == 0)
        return;
    hook_av_path(ep->name, path, sizeof path);
    (void) unlink(path);
}

/* ---- Vectors ---- */

struct hook_peer *hook_av_find(struct hook_av *av, fi_addr_t addr)
{
    struct hook_peer *peer = av->peers;

    while (peer != NULL && peer->addr != addr)
        peer = peer->next;
    return peer;
}

static void hook_av_add(struct hook_av *av, fi_addr_t addr)
{
    char address[256];
    size_t size = sizeof address;
    struct hook_peer *peer;

    memset(address, 0, sizeof address);
    if (fi_av_lookup(av->real, addr, address, &size) != 0 ||
        size > sizeof address)
        size = 0;
    pthread_mutex_lock(&hook_lock);
    peer = hook_av_find(av, addr);
    if (peer == NULL) {
        peer = (struct hook_peer *) hook_alloc(sizeof *peer);
        peer->addr = addr;
        peer->next = av->peers;
        av->peers = peer;
    }
    peer->name = hook_av_hash(address, size);
    peer->inserted++;
    hook_count("inserted");
    pthread_mutex_unlock(&hook_lock);
}

static int hook_av_insert(struct fid_av *fid, const void *addr, size_t count,
    fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    struct hook_av *av = (struct hook_av *) fid;
    int ret = hook_fault("insert");
    size_t i;

    if (ret != 0)
        return ret;
    if (fi_addr == NULL || (flags & FI_EVENT) != 0)
        hook_violation("fi_av_insert without an array for the result");
    ret = fi_av_insert(av->real, addr, count, fi_addr, flags, context);
    for (i = 0; ret > 0 && i < count; i++)
        if (fi_addr[i] != FI_ADDR_NOTAVAIL)
            hook_av_add(av, fi_addr[i]);
    return ret;
}

static int hook_av_insertsvc(struct fid_av *fid, const char *node,
    const char *service, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    struct hook_av *av = (struct hook_av *) fid;
    int ret = hook_fault("insert");

    if (ret == 0)
        ret = fi_av_insertsvc(av->real, node, service, fi_addr, flags, context);
    if (ret > 0)
        hook_av_add(av, *fi_addr);
    return ret;
}

static void hook_av_drop(struct hook_av *av, fi_addr_t addr)
{
    struct hook_peer **link = &av->peers, *peer;

    pthread_mutex_lock(&hook_lock);
    while (*link != NULL && (*link)->addr != addr)
        link = &(*link)->next;
    peer = *link;
    if (peer == NULL)
        hook_violation("an address is removed that is not in the vector");
    if (peer->users != 0)
        hook_violation(
            "an address is removed with %u operations in flight", peer->users);
    hook_count("removed");
    if (--peer->inserted == 0) {
        *link = peer->next;
        free(peer);
    }
    pthread_mutex_unlock(&hook_lock);
}

static int hook_av_remove(
    struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    struct hook_av *av = (struct hook_av *) fid;
    size_t i;

    for (i = 0; i < count; i++)
        hook_av_drop(av, fi_addr[i]);
    return fi_av_remove(av->real, fi_addr, count, flags);
}

static int hook_av_lookup(
    struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
    return fi_av_lookup(((struct hook_av *) fid)->real, fi_addr, addr, addrlen);
}

static const char *hook_av_straddr(
    struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
    return fi_av_straddr(((struct hook_av *) fid)->real, addr, buf, len);
}

static int hook_av_close(struct fid *fid)
{
    struct hook_av *av = (struct hook_av *) fid;
    struct hook_peer *peer;
    int ret = fi_close(&av->real->fid);

    if (ret != 0)
        return ret;
    while ((peer = av->peers) != NULL) {
        av->peers = peer->next;
        free(peer);
    }
    hook_opened(&av->domain->open, -1);
    free(av);
    return 0;
}

static struct fi_ops hook_av_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = hook_av_close,
};

static struct fi_ops_av hook_av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = hook_av_insert,
    .insertsvc = hook_av_insertsvc,
    .remove = hook_av_remove,
    .lookup = hook_av_lookup,
    .straddr = hook_av_straddr,
};

int hook_av_open(struct fid_domain *domain, struct fi_av_attr *attr,
    struct fid_av **av_p, void *context)
{
    struct hook_domain *ours = (struct hook_domain *) domain;
    struct hook_av *av;
    int ret = hook_fault("av");

    if (ret != 0)
        return ret;
    av = (struct hook_av *) hook_alloc(sizeof *av);
    ret = fi_av_open(ours->real, attr, &av->real, context);
    if (ret != 0) {
        free(av);
        return ret;
    }
    av->fid.fid.fclass = FI_CLASS_AV;
    av->fid.fid.context = context;
    av->fid.fid.ops = &hook_av_fid_ops;
    av->fid.ops = &hook_av_ops;
    av->domain = ours;
    hook_opened(&ours->open, 1);
    *av_p = &av->fid;
    return 0;
}
