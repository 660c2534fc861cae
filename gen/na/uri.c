/* SPDX-License-Identifier: BSD-3-Clause */
/* uri: see uri.h. The grammar is small enough to read from left to right. */
#include "na/uri.h"

#include "base/log.h"

/* Whether libfabric's name of a layer over a provider stands there, as in
 * "tcp;ofi_rxm". */
static bool na_uri_is_layer(const char *from, size_t size)
{
    assert(size > 0);
    return size > 5 && strncmp(from, ";ofi_", 5) == 0;
}

/* Copy a scheme part: letters, digits, '-', '_', '.', 1 to 31 of them, with
 * the name of a layer. */
static bool na_uri_take(const char *from, size_t size, char *to)
{
    size_t i;

    if (size == 0 || size >= NA_URI_NAME_MAX)
        return false;
    for (i = 0; i < size; i++) {
        char c = from[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
                na_uri_is_layer(from + i, size - i)))
            return false;
        to[i] = c;
    }
    to[size] = '\0';
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
    const char *mark;
    const char *plus;
    const char *protocol = string;
    size_t scheme_size;

    memset(uri, 0, sizeof(*uri));
    if (!na_uri_printable(string)) {
        HG_LOG_AT(level, "addr",
            "address string with control characters, or of "
            "%d bytes and more",
            NA_MAX_ADDR_LEN);
        return NA_INVALID_ARG;
    }
    mark = strstr(string, "://");
    scheme_size = mark != NULL ? (size_t) (mark - string) : strlen(string);
    uri->rest = mark != NULL ? mark + 3 : string + scheme_size;
    plus = (const char *) memchr(string, '+', scheme_size);
    if (plus != NULL) {
        if (!na_uri_take(string, (size_t) (plus - string), uri->plugin))
            goto malformed;
        protocol = plus + 1;
        scheme_size -= (size_t) (protocol - string);
    }
    if (!na_uri_take(protocol, scheme_size, uri->protocol))
        goto malformed;
    return NA_SUCCESS;

malformed:
    HG_LOG_AT(level, "addr", "'%s' is not [plugin+]protocol://...%s", string,
        memchr(string, ';', (size_t) (uri->rest - string)) != NULL
            ? " (of layers, there are ;ofi_rxm and ;ofi_rxd)"
            : "");
    return NA_INVALID_ARG;
}
