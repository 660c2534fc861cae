/* SPDX-License-Identifier: BSD-3-Clause */
/* server_nodes: see server_nodes.h. */
#define _GNU_SOURCE 1
#include "server_nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server_sessions.h"

#define NODES_BUCKETS_FIRST 64u

/* ---- Buckets ---- */

static uint64_t nodes_hash(const fwd_id_t *id)
{
    uint64_t hash = (id->inode ^ id->born) * UINT64_C(0x9e3779b97f4a7c15);

    return (hash ^ id->device) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

static struct node **nodes_bucket(const struct nodes *nodes, const fwd_id_t *id)
{
    return &nodes->buckets[nodes_hash(id) & (nodes->bucket_count - 1)];
}

static bool nodes_is_same(const fwd_id_t *a, const fwd_id_t *b)
{
    return a->inode == b->inode && a->device == b->device && a->born == b->born;
}

static struct node *nodes_find(const struct nodes *nodes, const fwd_id_t *id)
{
    struct node *node = NULL;

    if (nodes->bucket_count > 0)
        node = *nodes_bucket(nodes, id);
    while (node != NULL && !nodes_is_same(&node->id, id))
        node = node->next;
    return node;
}

static void nodes_link(struct nodes *nodes, struct node *node)
{
    struct node **bucket = nodes_bucket(nodes, &node->id);

    node->next = *bucket;
    *bucket = node;
}

static void nodes_unlink(struct nodes *nodes, struct node *node)
{
    struct node **link = nodes_bucket(nodes, &node->id);

    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
}

/* Have at least as many buckets as nodes. False: there are no buckets. */
static bool nodes_spread(struct nodes *nodes)
{
    uint32_t count =
        nodes->bucket_count == 0 ? NODES_BUCKETS_FIRST : nodes->table.count * 2;
    struct node **old = nodes->buckets;
    uint32_t old_count = nodes->bucket_count;
    struct node **buckets;
    uint32_t i;

    if (nodes->table.count < old_count)
        return true;
    buckets = (struct node **) calloc(count, sizeof(buckets[0]));
    if (buckets == NULL)
        return old_count > 0;
    nodes->buckets = buckets;
    nodes->bucket_count = count;
    for (i = 0; i < old_count; i++) {
        while (old[i] != NULL) {
            struct node *node = old[i];

            old[i] = node->next;
            nodes_link(nodes, node);
        }
    }
    free(old);
    return true;
}

/* ---- The end of nodes ---- */

/* Take a node out of the table; nodes_close frees it. */
static void nodes_remove(struct nodes *nodes, struct node *node)
{
    nodes_unlink(nodes, node);
    table_remove(&nodes->table, node->number);
}

static void nodes_close(struct node *node)
{
    if (node == NULL)
        return;
    (void) close(node->fd);
    free(node);
}

/* Take a node out of the table that was not used since the last time this
 * search came by. NULL: all are in use. */
static struct node *nodes_evict(struct nodes *nodes)
{
    uint64_t steps = 2 * (uint64_t) nodes->table.size;

    while (steps-- > 0) {
        struct node *node;

        nodes->hand = (nodes->hand + 1) % nodes->table.size;
        node = (struct node *) nodes->table.slots[nodes->hand].item;
        if (node == NULL || node->uses > 0)
            continue;
        if (!node->recent) {
            nodes_remove(nodes, node);
            return node;
        }
        node->recent = false;
    }
    return NULL;
}

void nodes_trim(struct session *session, uint32_t max)
{
    struct node *evicted;

    do {
        (void) pthread_mutex_lock(&session->lock);
        evicted = session->nodes.table.count > max
            ? nodes_evict(&session->nodes)
            : NULL;
        (void) pthread_mutex_unlock(&session->lock);
        nodes_close(evicted);
    } while (evicted != NULL);
}

void nodes_free(struct session *session)
{
    struct nodes *nodes = &session->nodes;
    uint32_t i;

    for (i = 0; i < nodes->table.size; i++)
        nodes_close((struct node *) nodes->table.slots[i].item);
    table_free(&nodes->table);
    free(nodes->buckets);
    nodes->buckets = NULL;
    nodes->bucket_count = 0;
}

/* ---- Use ---- */

struct node *nodes_get(struct session *session, uint64_t number)
{
    struct node *node;

    (void) pthread_mutex_lock(&session->lock);
    node = (struct node *) table_get(&session->nodes.table, number);
    if (node != NULL) {
        node->uses++;
        node->recent = true;
    }
    (void) pthread_mutex_unlock(&session->lock);
    return node;
}

/* Whether nothing holds the node any more; then it is out of the table. */
static bool nodes_is_over(struct nodes *nodes, struct node *node)
{
    if (node->lookups > 0 || node->uses > 0)
        return false;
    nodes_remove(nodes, node);
    return true;
}

void nodes_put(struct session *session, struct node *node)
{
    bool over;

    (void) pthread_mutex_lock(&session->lock);
    node->uses--;
    over = nodes_is_over(&session->nodes, node);
    (void) pthread_mutex_unlock(&session->lock);
    if (over)
        nodes_close(node);
}

void nodes_forget(struct session *session, uint64_t number, uint64_t lookups)
{
    struct node *node;

    (void) pthread_mutex_lock(&session->lock);
    node = (struct node *) table_get(&session->nodes.table, number);
    if (node != NULL) {
        node->lookups -= lookups < node->lookups ? lookups : node->lookups;
        if (!nodes_is_over(&session->nodes, node))
            node = NULL;
    }
    (void) pthread_mutex_unlock(&session->lock);
    nodes_close(node);
}

/* The lock is held. */
static bool nodes_count_lookup(struct nodes *nodes, fwd_entry_t *entry)
{
    struct node *node = nodes_find(nodes, &entry->id);

    if (node == NULL)
        return false;
    node->lookups++;
    node->recent = true;
    entry->node = node->number;
    return true;
}

bool nodes_known(struct session *session, fwd_entry_t *entry)
{
    bool known;

    (void) pthread_mutex_lock(&session->lock);
    known = nodes_count_lookup(&session->nodes, entry);
    (void) pthread_mutex_unlock(&session->lock);
    return known;
}

/* Enter a new node. The lock is held. 0 or an errno. */
static int nodes_add(
    struct nodes *nodes, struct node *node, struct node **evicted_p, bool full)
{
    if (full)
        *evicted_p = nodes_evict(nodes);
    if (full && *evicted_p == NULL)
        return ENFILE;
    if (!nodes_spread(nodes))
        return ENOMEM;
    node->number = table_add(&nodes->table, node);
    if (node->number == 0)
        return ENOMEM;
    nodes_link(nodes, node);
    return 0;
}

int nodes_enter(struct session *session, int fd, fwd_entry_t *entry)
{
    struct nodes *nodes = &session->nodes;
    struct node *node = (struct node *) calloc(1, sizeof(*node));
    struct node *evicted = NULL;
    int error = 0;

    if (node == NULL) {
        (void) close(fd);
        return ENOMEM;
    }
    node->id = entry->id;
    node->type = entry->attr.mode & S_IFMT;
    node->fd = fd;
    node->lookups = 1;
    (void) pthread_mutex_lock(&session->lock);
    if (!nodes_count_lookup(nodes, entry)) {
        error = nodes_add(
            nodes, node, &evicted, nodes->table.count >= sessions_share());
        entry->node = node->number;
        if (error == 0)
            node = NULL;
    }
    (void) pthread_mutex_unlock(&session->lock);
    nodes_close(evicted);
    nodes_close(node);
    return error;
}
