/* SPDX-License-Identifier: BSD-3-Clause */
/* See hook.h. fi_getinfo's result, changed to demand more. */
#include "ofi/hook_parts.h"

#include "harness.h"

/* Each provider's own description of each domain: fi_domain and fi_endpoint
 * pass it on. */
static struct fi_info *hook_originals;

static bool hook_info_same_text(const char *text1, const char *text2)
{
    return text1 == text2 ||
        (text1 != NULL && text2 != NULL && !strcmp(text1, text2));
}

static bool hook_info_same(
    const struct fi_info *info1, const struct fi_info *info2)
{
    return info1->addr_format == info2->addr_format &&
        info1->ep_attr->type == info2->ep_attr->type &&
        info1->ep_attr->protocol == info2->ep_attr->protocol &&
        hook_info_same_text(
            info1->fabric_attr->prov_name, info2->fabric_attr->prov_name) &&
        hook_info_same_text(info1->domain_attr->name, info2->domain_attr->name);
}

static const struct fi_info *hook_info_original(const struct fi_info *info)
{
    const struct fi_info *original = hook_originals;

    while (original != NULL && !hook_info_same(original, info))
        original = original->next;
    return original;
}

static void hook_info_remember(const struct fi_info *info)
{
    struct fi_info *copy;

    if (hook_info_original(info) != NULL)
        return;
    copy = fi_dupinfo(info);
    if (copy == NULL)
        hg_test_fail("ofi-hook", "out of memory");
    copy->next = hook_originals;
    hook_originals = copy;
}

static void hook_info_drop_keys(struct fi_info *info)
{
    free(info->domain_attr->auth_key);
    info->domain_attr->auth_key = NULL;
    info->domain_attr->auth_key_size = 0;
    free(info->ep_attr->auth_key);
    info->ep_attr->auth_key = NULL;
    info->ep_attr->auth_key_size = 0;
}

struct fi_info *hook_info_real(const struct fi_info *info)
{
    const struct fi_info *original;
    struct fi_info *real = fi_dupinfo(info);

    pthread_mutex_lock(&hook_lock);
    original = hook_info_original(info);
    pthread_mutex_unlock(&hook_lock);
    if (original == NULL || real == NULL)
        hook_violation("a fi_info that fi_getinfo did not return");
    real->mode = original->mode;
    real->domain_attr->mr_mode = original->domain_attr->mr_mode;
    real->domain_attr->mr_key_size = original->domain_attr->mr_key_size;
    real->domain_attr->mr_iov_limit = original->domain_attr->mr_iov_limit;
    real->domain_attr->data_progress = original->domain_attr->data_progress;
    real->domain_attr->control_progress =
        original->domain_attr->control_progress;
    real->ep_attr->max_msg_size = original->ep_attr->max_msg_size;
    real->tx_attr->mode = original->tx_attr->mode;
    real->rx_attr->mode = original->rx_attr->mode;
    real->tx_attr->inject_size = original->tx_attr->inject_size;
    real->tx_attr->iov_limit = original->tx_attr->iov_limit;
    real->tx_attr->rma_iov_limit = original->tx_attr->rma_iov_limit;
    real->rx_attr->iov_limit = original->rx_attr->iov_limit;
    real->tx_attr->comp_order = original->tx_attr->comp_order;
    real->rx_attr->comp_order = original->rx_attr->comp_order;
    if (hook_words.authkey)
        hook_info_drop_keys(real);
    return real;
}

/* ---- Hints ---- */

static bool hook_info_key_fits(size_t size)
{
    return size == 0 || size == HOOK_AUTH;
}

/* Whether a caller with these hints can use such a provider. */
static bool hook_info_can_have(const struct fi_info *hints)
{
    const struct fi_domain_attr *domain = hints->domain_attr;
    const struct fi_ep_attr *ep = hints->ep_attr;
    const struct fi_tx_attr *tx = hints->tx_attr;
    bool delivery = (tx->op_flags & FI_DELIVERY_COMPLETE) != 0;
    bool automatic = domain->data_progress == FI_PROGRESS_AUTO ||
        domain->control_progress == FI_PROGRESS_AUTO;

    if (hook_words.nodc && delivery) {
        pthread_mutex_lock(&hook_lock);
        hook_count("nodc");
        pthread_mutex_unlock(&hook_lock);
        return false;
    }
    if (hook_words.authkey &&
        (!hook_info_key_fits(domain->auth_key_size) ||
            !hook_info_key_fits(ep->auth_key_size)))
        return false;
    if (hook_words.order &&
        (tx->comp_order != 0 || hints->rx_attr->comp_order != 0))
        return false;
    return (hook_words.mr_mode & ~(uint64_t) domain->mr_mode) == 0 &&
        !(hook_words.manual && automatic) &&
        !(hook_words.context && (hints->mode & FI_CONTEXT2) == 0) &&
        ep->max_msg_size <= hook_words.msg &&
        tx->inject_size <= hook_words.inject &&
        tx->iov_limit <= hook_words.iov && tx->rma_iov_limit <= hook_words.iov;
}

/* ---- Results ---- */

static void hook_info_limit(size_t *value, size_t limit)
{
    if (*value > limit)
        *value = limit;
}

static void hook_info_copy_key(
    uint8_t **key_p, size_t *size_p, const uint8_t *key, size_t size)
{
    if (size == 0)
        return;
    *key_p = (uint8_t *) hook_alloc(size);
    memcpy(*key_p, key, size);
    *size_p = size;
}

static void hook_info_decorate(
    struct fi_info *info, const struct fi_info *hints)
{
    struct fi_domain_attr *domain = info->domain_attr;

    domain->mr_mode |= (int) hook_words.mr_mode;
    if (hook_words.mr_mode & FI_MR_RAW)
        domain->mr_key_size = HOOK_RAW_KEY;
    else if (hook_words.mr_mode & FI_MR_PROV_KEY)
        domain->mr_key_size = sizeof(uint64_t);
    hook_info_limit(&domain->mr_iov_limit, HOOK_IOV);
    hook_info_limit(&domain->mr_iov_limit, hook_words.mriov);
    if (hook_words.manual) {
        domain->data_progress = FI_PROGRESS_MANUAL;
        domain->control_progress = FI_PROGRESS_MANUAL;
    }
    hook_info_limit(&info->ep_attr->max_msg_size, hook_words.msg);
    hook_info_limit(&info->tx_attr->inject_size, hook_words.inject);
    hook_info_limit(&info->tx_attr->iov_limit, HOOK_IOV);
    hook_info_limit(&info->tx_attr->iov_limit, hook_words.iov);
    hook_info_limit(&info->tx_attr->rma_iov_limit, HOOK_IOV);
    hook_info_limit(&info->tx_attr->rma_iov_limit, hook_words.iov);
    hook_info_limit(&info->rx_attr->iov_limit, HOOK_IOV);
    hook_info_limit(&info->rx_attr->iov_limit, hook_words.iov);
    if (hook_words.context) {
        info->mode |= FI_CONTEXT2;
        info->tx_attr->mode |= FI_CONTEXT2;
        info->rx_attr->mode |= FI_CONTEXT2;
    }
    if (hook_words.order) {
        info->tx_attr->comp_order = FI_ORDER_NONE;
        info->rx_attr->comp_order = FI_ORDER_NONE;
    }
    if (hook_words.authkey) {
        hook_info_copy_key(&domain->auth_key, &domain->auth_key_size,
            hints->domain_attr->auth_key, hints->domain_attr->auth_key_size);
        hook_info_copy_key(&info->ep_attr->auth_key,
            &info->ep_attr->auth_key_size, hints->ep_attr->auth_key,
            hints->ep_attr->auth_key_size);
    }
}

int __real_fi_getinfo(uint32_t version, const char *node, const char *service,
    uint64_t flags, const struct fi_info *hints, struct fi_info **info_p);
int __wrap_fi_getinfo(uint32_t version, const char *node, const char *service,
    uint64_t flags, const struct fi_info *hints, struct fi_info **info_p);

int __wrap_fi_getinfo(uint32_t version, const char *node, const char *service,
    uint64_t flags, const struct fi_info *hints, struct fi_info **info_p)
{
    struct fi_info *real, *info;
    int ret;

    hook_start();
    if (!hook_words.on || hints == NULL)
        return __real_fi_getinfo(version, node, service, flags, hints, info_p);
    ret = hook_fault("getinfo");
    if (ret != 0)
        return ret;
    if (hints->domain_attr == NULL || hints->ep_attr == NULL ||
        hints->tx_attr == NULL || hints->rx_attr == NULL)
        hook_violation("hints that fi_allocinfo did not allocate");
    if ((hints->caps & FI_TAGGED) != 0)
        hook_violation("FI_TAGGED, which the hook does not support");
    if (!hook_info_can_have(hints))
        return -FI_ENODATA;
    real = fi_dupinfo(hints);
    if (real == NULL)
        return -FI_ENOMEM;
    if (hook_words.authkey)
        hook_info_drop_keys(real);
    if (hook_words.offset)
        real->domain_attr->mr_mode &= ~FI_MR_VIRT_ADDR;
    ret = __real_fi_getinfo(version, node, service, flags, real, info_p);
    fi_freeinfo(real);
    for (info = ret == 0 ? *info_p : NULL; info != NULL; info = info->next) {
        pthread_mutex_lock(&hook_lock);
        hook_info_remember(info);
        pthread_mutex_unlock(&hook_lock);
        hook_info_decorate(info, hints);
    }
    return ret;
}
