/* SPDX-License-Identifier: BSD-3-Clause */
/* mux: see mux.h. */
#include "mux/mux.h"

#include "base/crc64.h"
#include "base/log.h"
#include "na/plugins.h"
#include "sm/sm.h"

/* ---- The name of sm ---- */

HG_PRIVATE bool na_mux_is_auto_sm(const char *string)
{
    const char *mark = strstr(string, "://");
    struct na_uri uri;

    return na_uri_parse(string, &uri) == NA_SUCCESS &&
        strcmp(uri.protocol, "sm") == 0 && (mark == NULL || mark[3] == '\0');
}

/* The part of an address that only one listener of this network namespace can
 * have: the address itself, or for a path, the inode. */
static bool na_mux_place(const char *string, char place[NA_MAX_ADDR_LEN])
{
    static const char ipc[] = "ipc://", inproc[] = "inproc://";
    const char *plus = strchr(string, '+');
    const char *mark = strstr(string, "://");
    struct stat is;

    if (plus != NULL && mark != NULL && plus < mark)
        string = plus + 1;
    if (strncmp(string, inproc, sizeof(inproc) - 1) == 0)
        return false;
    (void) snprintf(place, NA_MAX_ADDR_LEN, "%s", string);
    string += sizeof(ipc) - 1;
    if (strncmp(place, ipc, sizeof(ipc) - 1) != 0 || string[0] == '@')
        return true;
    /* While a listener exists, no other file has the inode of its socket. */
    if (stat(string, &is) != 0 || !S_ISSOCK(is.st_mode))
        return false;
    (void) snprintf(place, NA_MAX_ADDR_LEN, "ipc:%ju:%ju",
        (uintmax_t) is.st_dev, (uintmax_t) is.st_ino);
    return true;
}

HG_PRIVATE bool na_mux_derive(const char *address, char name[NA_MAX_ADDR_LEN])
{
    uint64_t hash = (uint64_t) geteuid() << 1;
    char place[NA_MAX_ADDR_LEN];

    if (!na_mux_place(address, place))
        return false;
    hash = hg_crc64_update(hash, place, strlen(place));
    (void) snprintf(name, NA_MAX_ADDR_LEN, "sm://auto-%016" PRIx64, hash);
    return true;
}

HG_PRIVATE void na_mux_auto_sm(
    const char *address, char string[NA_MAX_ADDR_LEN])
{
    if (address != NULL && na_mux_derive(address, string)) {
        if (na_sm_is_free(string + 5))
            return;
        hg_log_warning(
            "cls", "%s is in use: no peer can connect through it", string);
    }
    (void) snprintf(string, NA_MAX_ADDR_LEN, "sm://");
}

/* ---- Which part ---- */

/* The part that was opened for the transport of an address, or NULL. */
static struct na_class *na_mux_part(
    const struct na_class *na_class, const char *address)
{
    struct na_class_core *part = na_class_core_of(na_class);
    struct na_uri uri;

    if (na_uri_read(HG_LOG_LEVEL_DEBUG, address, &uri) != NA_SUCCESS)
        return NULL;
    for (; part != NULL; part = part->next) {
        if (strcmp(uri.protocol, part->pub.protocol) == 0 &&
            na_plugins_named(&part->ops, &uri))
            return &part->pub;
    }
    return NULL;
}

/* Whether sm reaches the peer at an address, and the name to use. Nothing is
 * logged: most peers are on other nodes. */
static bool na_mux_is_local(const struct na_class *sm, bool is_sm,
    const char *address, char name[NA_MAX_ADDR_LEN])
{
    if (is_sm)
        (void) snprintf(name, NA_MAX_ADDR_LEN, "%s", address);
    else if (!na_mux_derive(address, name))
        return false;
    return strcmp(name, sm->self_addr->name) == 0 ||
        na_sm_is_there(sm, strstr(name, "://") + 3);
}

/* Whether a listener may have an address: the socket of a path must exist. */
static bool na_mux_may_be(const char *address)
{
    char place[NA_MAX_ADDR_LEN];

    return strstr(address, "ipc://") == NULL || na_mux_place(address, place);
}

HG_PRIVATE struct na_class *na_mux_choose(const struct na_class *na_class,
    const char *list, char name[NA_MAX_ADDR_LEN])
{
    struct na_class_core *core = na_class_core_of(na_class);
    struct na_class *sm =
        core->next != NULL ? na_mux_part(na_class, "sm://") : NULL;
    char address[NA_MAX_ADDR_LEN];
    struct na_class *part;
    struct na_uri uri;
    const char *at = list;

    while (sm != NULL && na_uri_next(&at, address)) {
        part = na_mux_part(na_class, address);
        if (na_mux_is_local(sm, part == sm, address, name))
            return sm;
    }
    for (at = list; na_uri_next(&at, name);) {
        part = na_mux_part(na_class, name);
        if (part != NULL && (*at == '\0' || na_mux_may_be(name)))
            return part;
    }
    /* The transport logs what is wrong with another protocol of its own. */
    (void) snprintf(name, NA_MAX_ADDR_LEN, "%s", list);
    if (core->next == NULL &&
        na_uri_read(HG_LOG_LEVEL_DEBUG, name, &uri) == NA_SUCCESS &&
        na_plugins_speaks(&core->ops, &uri))
        return &core->pub;
    return NULL;
}
