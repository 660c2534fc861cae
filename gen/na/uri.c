/* SPDX-License-Identifier: BSD-3-Clause */
/* uri: see uri.h. The grammar is parsed from left to right. */
#include "na/uri.h"

#include "base/log.h"

/* The length of the plugin or protocol name at the start of the string,
 * including layers. */
static size_t na_uri_name(const char *string)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t size = strspn(string, name);

    while (size > 0 && strncmp(string + size, ";ofi_", 5) == 0)
        size += 1 + strspn(string + size + 1, name);
    return size;
}

/* Copy a name from *at_p to `to`, and advance. False: there is none, or it is
 * too long. */
static bool na_uri_take(const char **at_p, char to[NA_URI_NAME_MAX])
{
    size_t size = na_uri_name(*at_p);

    if (size == 0 || size >= NA_URI_NAME_MAX)
        return false;
    memcpy(to, *at_p, size);
    to[size] = '\0';
    *at_p += size;
    return true;
}

static bool na_uri_printable(const char *string)
{
    size_t i;

    for (i = 0; string[i] != '\0'; i++) {
        if ((unsigned char) string[i] < 0x20 || string[i] == 0x7f ||
            i + 1 >= NA_MAX_ADDR_LEN)
            return false;
    }
    return true;
}

HG_PRIVATE na_return_t na_uri_read(
    int level, const char *string, struct na_uri *uri)
{
    const char *at = string;

    memset(uri, 0, sizeof(*uri));
    if (!na_uri_printable(string)) {
        HG_LOG_AT(level, "addr",
            "address string with control characters, or of "
            "%d bytes and more",
            NA_MAX_ADDR_LEN);
        return NA_INVALID_ARG;
    }
    if (at[na_uri_name(at)] == '+' && na_uri_take(&at, uri->plugin))
        at++;
    if (na_uri_take(&at, uri->protocol) &&
        (*at == '\0' || strncmp(at, "://", 3) == 0)) {
        uri->rest = *at == '\0' ? at : at + 3;
        return NA_SUCCESS;
    }
    HG_LOG_AT(level, "addr", "'%s' is not [plugin+]protocol://...%s", string,
        *at == ';' ? " (of layers, there are ;ofi_rxm and ;ofi_rxd)" : "");
    return NA_INVALID_ARG;
}

/* ---- Lists ---- */

/* Whether the string starts with an address, not with the name of a layer. */
static bool na_uri_begins(const char *string)
{
    size_t size = na_uri_name(string);

    if (string[size] == '+')
        size += 1 + na_uri_name(string + size + 1);
    return strncmp(string, "ofi_", 4) != 0 && size > 0 &&
        strncmp(string + size, "://", 3) == 0;
}

/* The semicolon after the first address; NULL: it is the last one. */
static const char *na_uri_end(const char *string)
{
    const char *end = strchr(string, ';');

    while (end != NULL && !na_uri_begins(end + 1))
        end = strchr(end + 1, ';');
    return end;
}

HG_PRIVATE bool na_uri_is_list(const char *string)
{
    return na_uri_end(string) != NULL;
}

HG_PRIVATE bool na_uri_next(const char **at_p, char part[NA_MAX_ADDR_LEN])
{
    const char *at = *at_p;
    const char *end = na_uri_end(at);
    size_t size = end != NULL ? (size_t) (end - at) : strlen(at);

    if (size == 0 || size >= NA_MAX_ADDR_LEN)
        return false;
    memcpy(part, at, size);
    part[size] = '\0';
    *at_p = end != NULL ? end + 1 : at + size;
    return true;
}
