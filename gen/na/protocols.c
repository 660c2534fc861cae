/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * protocols: what this program can speak, as a list for who asks before
 * opening anything.
 *
 * An entry and its strings are one block, the strings behind it, so that a
 * list is freed entry by entry and nothing else.
 *
 * Locking: none; transports are only ever added.
 */
#include "base/log.h"
#include "base/mem.h"
#include "na/plugins.h"

/* Copy a string with its NUL to *at_p, and move that behind it. */
static char *na_protocols_copy(char **at_p, const char *str)
{
    size_t size = strlen(str) + 1;
    char *copy = *at_p;

    memcpy(copy, str, size);
    *at_p += size;
    return copy;
}

/* A list that grows at its end. */
struct na_protocols_list {
    struct na_protocol_info *first;
    struct na_protocol_info **last;
    const struct na_plugin *plugin; /* of the entries that are added now */
    const char *protocol;
    bool no_memory; /* logged */
};

/* Add an entry, in Mercury's words. */
static void na_protocols_add(void *arg, const char *device)
{
    struct na_protocols_list *list = (struct na_protocols_list *) arg;
    const char *transport = na_plugins_mercury_name(list->plugin->name);
    size_t size =
        strlen(transport) + 1 + strlen(list->protocol) + 1 + strlen(device) + 1;
    struct na_protocol_info *entry;
    char *at;

    assert(transport[0] != '\0' && list->protocol[0] != '\0');
    if (list->no_memory)
        return;
    entry = (struct na_protocol_info *) hg_mem_alloc(sizeof(*entry) + size);
    if (entry == NULL) {
        hg_log_error("cls", "no memory for a list of protocols");
        list->no_memory = true;
        return;
    }
    at = (char *) (entry + 1);
    entry->next = NULL;
    entry->class_name = na_protocols_copy(&at, transport);
    entry->protocol_name = na_protocols_copy(&at, list->protocol);
    entry->device_name = na_protocols_copy(&at, device);
    *list->last = entry;
    list->last = &entry->next;
}

/* Add the devices of a protocol. */
static void na_protocols_add_devices(struct na_protocols_list *list)
{
    if (list->plugin->size > offsetof(struct na_plugin, list_devices) &&
        list->plugin->list_devices != NULL)
        list->plugin->list_devices(list->protocol, na_protocols_add, list);
    else
        na_protocols_add(
            list, strcmp(list->protocol, "sm") == 0 ? "shm" : "any");
}

static bool na_protocols_wanted(const struct na_uri *uri,
    const struct na_plugin *plugin, const char *protocol)
{
    return uri == NULL ||
        (na_plugins_named(plugin, uri) && strcmp(uri->protocol, protocol) == 0);
}

HG_EXPORT hg_return_t HG_Get_na_protocol_info(
    const char *info_string, struct na_protocol_info **na_protocol_info_p)
{
    struct na_protocols_list list = {NULL, NULL, NULL, NULL, false};
    const char *const *protocol;
    struct na_uri uri;
    unsigned i;

    if (na_protocol_info_p == NULL) {
        hg_log_error("cls", "HG_Get_na_protocol_info: nowhere to put it");
        return HG_INVALID_ARG;
    }
    if (info_string != NULL && na_uri_parse(info_string, &uri) != NA_SUCCESS)
        return HG_INVALID_ARG;
    list.last = &list.first;
    for (i = 0; (list.plugin = na_plugins_get(i)) != NULL; i++) {
        for (protocol = list.plugin->protocols; *protocol != NULL; protocol++) {
            list.protocol = *protocol;
            if (na_protocols_wanted(
                    info_string != NULL ? &uri : NULL, list.plugin, *protocol))
                na_protocols_add_devices(&list);
        }
    }
    if (list.no_memory) {
        HG_Free_na_protocol_info(list.first);
        return HG_NOMEM;
    }
    *na_protocol_info_p = list.first;
    return HG_SUCCESS;
}

HG_EXPORT void HG_Free_na_protocol_info(
    struct na_protocol_info *na_protocol_info)
{
    while (na_protocol_info != NULL) {
        struct na_protocol_info *next = na_protocol_info->next;

        hg_mem_free(na_protocol_info);
        na_protocol_info = next;
    }
}

HG_EXPORT void HG_Cleanup(void)
{
}
