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

/* In Mercury's words. NULL: out of memory, logged. */
static struct na_protocol_info *na_protocols_entry(
    const struct na_plugin *plugin, const char *protocol)
{
    const char *transport = na_plugins_mercury_name(plugin->name);
    const char *device = strcmp(protocol, "sm") == 0 ? "shm" : "any";
    struct na_protocol_info *entry =
        (struct na_protocol_info *) hg_mem_alloc(sizeof(*entry) +
            strlen(transport) + 1 + strlen(protocol) + 1 + strlen(device) + 1);
    char *at;

    assert(transport[0] != '\0' && protocol[0] != '\0');
    if (entry == NULL) {
        hg_log_error("cls", "no memory for a list of protocols");
        return NULL;
    }
    at = (char *) (entry + 1);
    entry->next = NULL;
    entry->class_name = na_protocols_copy(&at, transport);
    entry->protocol_name = na_protocols_copy(&at, protocol);
    entry->device_name = na_protocols_copy(&at, device);
    return entry;
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
    struct na_protocol_info *first = NULL;
    struct na_protocol_info **last = &first;
    const struct na_plugin *plugin;
    struct na_uri uri;
    unsigned i;

    if (na_protocol_info_p == NULL) {
        hg_log_error("cls", "HG_Get_na_protocol_info: nowhere to put it");
        return HG_INVALID_ARG;
    }
    if (info_string != NULL && na_uri_parse(info_string, &uri) != NA_SUCCESS)
        return HG_INVALID_ARG;
    for (i = 0; (plugin = na_plugins_get(i)) != NULL; i++) {
        const char *const *protocol;

        for (protocol = plugin->protocols; *protocol != NULL; protocol++) {
            if (!na_protocols_wanted(
                    info_string != NULL ? &uri : NULL, plugin, *protocol))
                continue;
            *last = na_protocols_entry(plugin, *protocol);
            if (*last == NULL) {
                HG_Free_na_protocol_info(first);
                return HG_NOMEM;
            }
            last = &(*last)->next;
        }
    }
    *na_protocol_info_p = first;
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
