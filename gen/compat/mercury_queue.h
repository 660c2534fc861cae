/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists of <sys/queue.h>, as Mercury 2.4 has them, and HG_QUEUE_... of
 * Mercury 2.0 to 2.3: a queue linked one way with a head and a tail.
 */
#ifndef HG_COMPAT_MERCURY_QUEUE_H
#define HG_COMPAT_MERCURY_QUEUE_H

#include "mercury_util_config.h"

#include <sys/queue.h>

#define HG_QUEUE_HEAD(type) \
    struct { \
        struct type *head; \
        struct type **tail; \
    }
#define HG_QUEUE_HEAD_DECL(name, type) \
    struct name { \
        struct type *head; \
        struct type **tail; \
    }
#define HG_QUEUE_HEAD_INITIALIZER(name) \
    { \
        NULL, &(name).head \
    }
#define HG_QUEUE_HEAD_INIT(name, variable) \
    struct name variable = HG_QUEUE_HEAD_INITIALIZER(variable)
#define HG_QUEUE_ENTRY(type) \
    struct { \
        struct type *next; \
    }
#define HG_QUEUE_INIT(queue) \
    do { \
        (queue)->head = NULL; \
        (queue)->tail = &(queue)->head; \
    } while (0)
#define HG_QUEUE_IS_EMPTY(queue) ((queue)->head == NULL)
#define HG_QUEUE_FIRST(queue) ((queue)->head)
#define HG_QUEUE_NEXT(entry, field) ((entry)->field.next)
#define HG_QUEUE_PUSH_TAIL(queue, entry, field) \
    do { \
        (entry)->field.next = NULL; \
        *(queue)->tail = (entry); \
        (queue)->tail = &(entry)->field.next; \
    } while (0)
#define HG_QUEUE_POP_HEAD(queue, field) \
    do { \
        (queue)->head = (queue)->head->field.next; \
        if ((queue)->head == NULL) \
            (queue)->tail = &(queue)->head; \
    } while (0)
#define HG_QUEUE_FOREACH(entry, queue, field) \
    for ((entry) = (queue)->head; (entry) != NULL; \
         (entry) = (entry)->field.next)
#define HG_QUEUE_REMOVE(queue, entry, type, field) \
    do { \
        struct type **hg_queue_at = &(queue)->head; \
        while (*hg_queue_at != (entry)) \
            hg_queue_at = &(*hg_queue_at)->field.next; \
        *hg_queue_at = (entry)->field.next; \
        if (*hg_queue_at == NULL) \
            (queue)->tail = hg_queue_at; \
    } while (0)

#endif
