/* SPDX-License-Identifier: BSD-3-Clause */
/* class: see class.h. */
#include "hg/class.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "hg/header.h"
#include "emul/emul.h"
#include "na/live.h"

/* A larger size limit means no limit: sums would overflow. */
#define HG_CLASS_SIZE_MAX (SIZE_MAX / 8)

/* Limit of refusals that wait to be sent. */
#define HG_CLASS_REFUSALS_MAX 65536u

/* All classes of this process. */
static pthread_mutex_t hg_class_lock = PTHREAD_MUTEX_INITIALIZER;
static struct na_link hg_classes = {&hg_classes, &hg_classes};

static pthread_once_t hg_class_once = PTHREAD_ONCE_INIT;

/* A child of fork starts with an empty list. Another thread of the parent may
 * have held the lock at fork. */
static void hg_class_fork_child(void)
{
    (void) pthread_mutex_init(&hg_class_lock, NULL);
    hg_list_init(&hg_classes);
}

static void hg_class_begin(void)
{
    hg_log_atfork(NULL, NULL, hg_class_fork_child);
}

static size_t hg_class_bound(size_t size, size_t least)
{
    if (size < least)
        size = least;
    return size < HG_CLASS_SIZE_MAX ? size : HG_CLASS_SIZE_MAX;
}

HG_PRIVATE void hg_class_fill_options(
    struct hg_options *mine, const struct hg_options *options)
{
    *mine = *options;
    if (mine->max_in_flight == 0)
        mine->max_in_flight = 65536;
    if (mine->max_in_flight_bytes == 0)
        mine->max_in_flight_bytes = (size_t) 40 << 20;
    mine->max_in_flight_bytes = hg_class_bound(mine->max_in_flight_bytes, 0);
    if (mine->max_unanswered == 0)
        mine->max_unanswered = 4096;
    if (mine->output_hold_ms == 0)
        mine->output_hold_ms = 30000;
    if (mine->drain_ms == 0)
        mine->drain_ms = 1000;
    if (mine->bulk_ms == 0)
        mine->bulk_ms = 30000;
    if (mine->max_args_size == 0)
        mine->max_args_size = (size_t) 1 << 30;
    mine->max_args_size = hg_class_bound(mine->max_args_size, 0);
    /* One call of maximum size is always possible. */
    mine->max_fetched_bytes =
        hg_class_bound(mine->max_fetched_bytes, mine->max_args_size);
    mine->max_held_bytes =
        hg_class_bound(mine->max_held_bytes, mine->max_args_size);
}

static void hg_class_set_limits(struct hg_class *hg_class)
{
    const struct hg_options *options = &hg_class->options;
    struct hg_limit *limits = hg_class->limits;

    limits[HG_LIMIT_CALLS].max = options->max_unanswered;
    limits[HG_LIMIT_REFUSALS].max = HG_CLASS_REFUSALS_MAX;
    limits[HG_LIMIT_FETCHED].max = options->max_fetched_bytes;
    limits[HG_LIMIT_HELD].max = options->max_held_bytes;
    limits[HG_LIMIT_IN_FLIGHT].max = options->max_in_flight_bytes;
}

HG_PRIVATE hg_return_t hg_class_set_options(
    struct hg_class *hg_class, const struct hg_options *options)
{
    struct na_class *bulk_class = hg_class->layer->na_class;

    if (na_emul_sum_frames(bulk_class, options->bulk_checksum) != HG_SUCCESS) {
        hg_log_error("cls",
            "bulk_checksum: %s+%s moves bulk data without a checksum",
            na_class_ops(bulk_class)->name, bulk_class->protocol);
        return HG_OPNOTSUPPORT;
    }
    hg_class_fill_options(&hg_class->options, options);
    hg_class_set_limits(hg_class);
    hg_class->registry.timed = options->histograms;
    hg_class->watched = hg_class->hook != NULL || options->histograms;
    return HG_SUCCESS;
}

HG_PRIVATE size_t hg_class_input_eager(const struct hg_class *hg_class)
{
    return (size_t) hg_class->na_class->max_unexpected_size - HG_HEADER_MIN;
}

HG_PRIVATE size_t hg_class_output_eager(const struct hg_class *hg_class)
{
    return (size_t) hg_class->na_class->max_expected_size - HG_HEADER_MIN;
}

HG_PRIVATE hg_return_t hg_class_create(struct na_class *na_class,
    struct hg_bulk_layer *layer, const struct hg_options *options,
    struct hg_class **hg_class_p)
{
    struct hg_class *hg_class =
        (struct hg_class *) hg_mem_calloc(1, sizeof(*hg_class));
    hg_return_t ret;

    if (hg_class == NULL) {
        hg_log_error("cls", "no memory for the RPC layer");
        return HG_NOMEM;
    }
    hg_class->na_class = na_class;
    hg_class->layer = layer;
    hg_class->trace_base = hg_clock_random();
    hg_clock_pair_init(&hg_class->born);
    hg_list_init(&hg_class->contexts);
    hg_class->lock = na_class_core_of(na_class)->lock;
    hg_registry_init(&hg_class->registry, hg_class->lock);
    ret = hg_class_set_options(hg_class, options);
    if (ret == HG_SUCCESS)
        ret = hg_bulk_layer_set_separate(layer, layer->na_class != na_class);
    if (ret != HG_SUCCESS)
        goto free_class;
    ret = na_live_add(NA_LIVE_CLASS, hg_class);
    if (ret != HG_SUCCESS)
        goto free_class;
    (void) pthread_once(&hg_class_once, hg_class_begin);
    hg_lock(&hg_class_lock);
    hg_list_push(&hg_classes, &hg_class->link);
    hg_unlock(&hg_class_lock);
    *hg_class_p = hg_class;
    return HG_SUCCESS;

free_class:
    hg_registry_fini(&hg_class->registry);
    hg_mem_free(hg_class);
    return ret;
}

HG_PRIVATE bool hg_class_each(
    bool wait, void (*see)(struct hg_class *hg_class, void *arg), void *arg)
{
    struct na_link *link;

    if (wait)
        hg_lock(&hg_class_lock);
    else if (!hg_lock_try(&hg_class_lock))
        return false;
    for (link = hg_classes.next; link != &hg_classes; link = link->next)
        see(HG_CONTAINER_OF(link, struct hg_class, link), arg);
    hg_unlock(&hg_class_lock);
    return true;
}

HG_PRIVATE void hg_class_destroy(struct hg_class *hg_class)
{
    hg_lock(&hg_class_lock);
    hg_list_remove(&hg_class->link);
    hg_unlock(&hg_class_lock);
    na_live_remove(NA_LIVE_CLASS, hg_class);
    if (hg_class->leaked)
        return;
    HG_ASSERT(hg_list_is_empty(&hg_class->contexts));
    hg_registry_fini(&hg_class->registry);
    hg_mem_free(hg_class);
}
