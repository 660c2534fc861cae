/* SPDX-License-Identifier: BSD-3-Clause */
/* client_file: see client_file.h. */
#include "client_file.h"

#include <stdlib.h>

#include "client_lock.h"

static LIST_HEAD(file_list, file) file_all = LIST_HEAD_INITIALIZER(file_all);

struct file *file_make(struct node *node, uint32_t flags)
{
    struct file *file = (struct file *) calloc(1, sizeof(*file));

    if (file == NULL)
        return NULL;
    file->node = node;
    file->flags = flags;
    node_ref(node);
    LIST_INSERT_HEAD(&file_all, file, all);
    return file;
}

void file_free(struct file *file)
{
    LIST_REMOVE(file, all);
    lock_file_ends(file);
    node_unref(file->node);
    free(file);
}

void file_free_all(void (*end_listing)(struct file *file))
{
    struct file *file;

    while ((file = LIST_FIRST(&file_all)) != NULL) {
        end_listing(file);
        file_free(file);
    }
}
