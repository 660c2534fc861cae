/* SPDX-License-Identifier: BSD-3-Clause */
/* HG_LIST_... of Mercury 2.0 to 2.3: a list linked both ways, from a head. */
#ifndef HG_COMPAT_MERCURY_LIST_H
#define HG_COMPAT_MERCURY_LIST_H

#include "mercury_util_config.h"

#define HG_LIST_HEAD(type) \
    struct { \
        struct type *head; \
    }
#define HG_LIST_HEAD_DECL(name, type) \
    struct name { \
        struct type *head; \
    }
#define HG_LIST_HEAD_INITIALIZER(name) \
    { \
        NULL \
    }
#define HG_LIST_HEAD_INIT(name, variable) \
    struct name variable = HG_LIST_HEAD_INITIALIZER(variable)
/* `prev` points to the pointer to the entry. */
#define HG_LIST_ENTRY(type) \
    struct { \
        struct type *next; \
        struct type **prev; \
    }
#define HG_LIST_INIT(list) ((void) ((list)->head = NULL))
#define HG_LIST_IS_EMPTY(list) ((list)->head == NULL)
#define HG_LIST_FIRST(list) ((list)->head)
#define HG_LIST_NEXT(entry, field) ((entry)->field.next)
#define HG_LIST_INSERT_HEAD(list, entry, field) \
    do { \
        (entry)->field.next = (list)->head; \
        if ((list)->head != NULL) \
            (list)->head->field.prev = &(entry)->field.next; \
        (list)->head = (entry); \
        (entry)->field.prev = &(list)->head; \
    } while (0)
#define HG_LIST_INSERT_AFTER(other, entry, field) \
    do { \
        (entry)->field.next = (other)->field.next; \
        if ((entry)->field.next != NULL) \
            (entry)->field.next->field.prev = &(entry)->field.next; \
        (other)->field.next = (entry); \
        (entry)->field.prev = &(other)->field.next; \
    } while (0)
#define HG_LIST_INSERT_BEFORE(other, entry, field) \
    do { \
        (entry)->field.prev = (other)->field.prev; \
        (entry)->field.next = (other); \
        *(other)->field.prev = (entry); \
        (other)->field.prev = &(entry)->field.next; \
    } while (0)
#define HG_LIST_REMOVE(entry, field) \
    do { \
        if ((entry)->field.next != NULL) \
            (entry)->field.next->field.prev = (entry)->field.prev; \
        *(entry)->field.prev = (entry)->field.next; \
    } while (0)
#define HG_LIST_FOREACH(entry, list, field) \
    for ((entry) = (list)->head; (entry) != NULL; (entry) = (entry)->field.next)

#endif
