/* SPDX-License-Identifier: BSD-3-Clause */
/* client_file: see client_file.h. */
#include "client_file.h"

#include <stdlib.h>

#include "client_lock.h"

struct file *file_make(struct node *node, uint32_t flags)
{
    struct file *file = (struct file *) calloc(1, sizeof(*file));

    if (file == NULL)
        return NULL;
    file->node = node;
    file->flags = flags;
    node_ref(node);
    return file;
}

void file_free(struct file *file)
{
    lock_file_ends(file);
    node_unref(file->node);
    free(file);
}
