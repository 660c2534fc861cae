/* SPDX-License-Identifier: BSD-3-Clause */
/* client_lock: see client_lock.h. */
#define _GNU_SOURCE
#include "client_lock.h"

#include <fcntl.h>
#include <stdlib.h>

/* ---- Owners ---- */

static struct owner **lock_find_owner(struct node *node, uint64_t number)
{
    struct owner **at = &node->owners;

    while (*at != NULL && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

bool lock_owner_begins(struct file *file, uint64_t number, pid_t pid)
{
    struct owner **at = lock_find_owner(file->node, number);

    if (*at == NULL) {
        *at = (struct owner *) calloc(1, sizeof(**at));
        if (*at == NULL)
            return false;
        (*at)->number = number;
    }
    (*at)->pid = pid;
    (*at)->file = file;
    return true;
}

bool lock_owner_known(const struct node *node, uint64_t number)
{
    const struct owner *owner = node->owners;

    while (owner != NULL && owner->number != number)
        owner = owner->next;
    return owner != NULL;
}

bool lock_file_owns(const struct file *file)
{
    const struct owner *owner = file->node->owners;

    while (owner != NULL && owner->file != file)
        owner = owner->next;
    return owner != NULL;
}

static void lock_remove_owner(struct owner **at)
{
    struct owner *owner = *at;
    struct range *range;

    *at = owner->next;
    while ((range = owner->ranges) != NULL) {
        owner->ranges = range->next;
        free(range);
    }
    free(owner);
}

void lock_owner_ends(struct node *node, uint64_t number)
{
    struct owner **at = lock_find_owner(node, number);

    if (*at != NULL)
        lock_remove_owner(at);
}

void lock_file_ends(struct file *file)
{
    struct owner **at = &file->node->owners;

    lock_flocked(file, false);
    while (*at != NULL)
        if ((*at)->file == file)
            lock_remove_owner(at);
        else
            at = &(*at)->next;
}

/* ---- Ranges ---- */

/* Without memory the range is not known: F_GETLK and a lost session then do not
 * see it. */
static void lock_add(struct owner *owner, uint64_t start, uint64_t end)
{
    struct range *range = (struct range *) malloc(sizeof(*range));

    if (range == NULL)
        return;
    range->start = start;
    range->end = end;
    range->next = owner->ranges;
    owner->ranges = range;
}

/* Cut a part out of all ranges of an owner. A range that goes on behind the
 * part is split. */
static void lock_cut(struct owner *owner, uint64_t start, uint64_t end)
{
    struct range **at = &owner->ranges;
    struct range *range;

    while ((range = *at) != NULL) {
        if (range->end < start || range->start > end) {
            at = &range->next;
            continue;
        }
        if (range->end > end)
            lock_add(owner, end + 1, range->end);
        if (at == &owner->ranges && *at != range)
            at = &owner->ranges->next; /* the new one is first */
        if (range->start < start) {
            range->end = start - 1;
            at = &range->next;
        } else {
            *at = range->next;
            free(range);
        }
    }
}

void lock_changed(struct node *node, uint64_t number, uint64_t start,
    uint64_t end, short type)
{
    struct owner *owner = *lock_find_owner(node, number);

    if (owner == NULL)
        return;
    lock_cut(owner, start, end);
    if (type != F_UNLCK)
        lock_add(owner, start, end);
}

pid_t lock_holder(
    const struct node *node, uint64_t number, uint64_t start, uint64_t end)
{
    const struct owner *owner;
    const struct range *range;

    for (owner = node->owners; owner != NULL; owner = owner->next)
        for (range = owner->ranges; range != NULL; range = range->next)
            if (owner->number != number && range->start <= end &&
                range->end >= start)
                return owner->pid;
    return 0;
}

/* ---- Lost locks ---- */

/* Files that flock has locked. */
static struct file *lock_flocked_files;

void lock_flocked(struct file *file, bool locked)
{
    struct file **at = &lock_flocked_files;

    if (file->flocked == locked)
        return;
    file->flocked = locked;
    if (locked) {
        file->next_flocked = lock_flocked_files;
        lock_flocked_files = file;
        return;
    }
    while (*at != file)
        at = &(*at)->next_flocked;
    *at = file->next_flocked;
}

static void lock_node_lost(struct node *node)
{
    while (node->owners != NULL) {
        if (node->owners->ranges != NULL)
            node->owners->file->broken = true;
        lock_remove_owner(&node->owners);
    }
}

void lock_all_lost(void)
{
    node_each(lock_node_lost);
    while (lock_flocked_files != NULL) {
        lock_flocked_files->broken = true;
        lock_flocked(lock_flocked_files, false);
    }
}
