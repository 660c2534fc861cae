/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names: address strings, and the provider's bytes for them.
 *
 *     ofi+tcp://192.0.2.1:1234    a socket address, FI_SOCKADDR_IN or _IN6
 *     ofi+shm://name              a string, FI_ADDR_STR: "fi_ns://name"
 *     ofi+cxi://0x0a0b0c...       other formats: the bytes, in hexadecimal
 *
 * Part of the libfabric transport; see ofi.h.
 */
#include "ofi/ofi.h"

#include "plug/net.h"

#define NA_OFI_SHM "/dev/shm/" /* where libfabric's shm keeps its memory */

/* Prefix of names of FI_ADDR_STR. libfabric's shm uses what follows unchanged;
 * with its other prefix, "fi_shm://", it appends numbers. */
#define NA_OFI_STR "fi_ns://"
/* Maximum length of a class's name after the prefix. */
#define NA_OFI_HOST_MAX 92
#define NA_OFI_STR_MAX 104 /* ... of an endpoint, with ":" and a number */
/* Size of an address of FI_ADDR_STR, padded with zeros: all endpoints in an
 * introduction have addresses of one size. */
#define NA_OFI_STR_SIZE (sizeof(NA_OFI_STR) + NA_OFI_STR_MAX)
#define NA_OFI_NO_STR "not a name of 1 to 92 bytes, without blanks and slashes"
#define NA_OFI_PROVIDERS 3
#define NA_OFI_NAMES 1024  /* names that a process remembers */
#define NA_OFI_SLASHES 100 /* in front of a name, at most */

/* A protocol name that an application may use, and the providers that serve it:
 * the first available one is used. The native RDM provider over TCP is "net" in
 * libfabric 1.17, and "tcp" since 1.18. */
struct na_ofi_protocol {
    const char *name;
    const char *providers[NA_OFI_PROVIDERS];
    int format; /* of addresses; FI_FORMAT_UNSPEC: the provider's own */
};

static const struct na_ofi_protocol na_ofi_table[] = {
    {"tcp", {"net", "tcp", "tcp;ofi_rxm"}, FI_SOCKADDR},
    {"tcp;ofi_rxm", {"tcp;ofi_rxm"}, FI_SOCKADDR},
    {"shm", {"shm"}, FI_ADDR_STR},
    {"sockets", {"sockets"}, FI_SOCKADDR},
    {"udp;ofi_rxd", {"udp;ofi_rxd"}, FI_SOCKADDR},
    {"verbs;ofi_rxm", {"verbs;ofi_rxm"}, FI_SOCKADDR},
    {"cxi", {"cxi"}, FI_FORMAT_UNSPEC},
    {"psm3", {"psm3"}, FI_FORMAT_UNSPEC},
    {"psm2", {"psm2"}, FI_FORMAT_UNSPEC},
    {"efa", {"efa"}, FI_FORMAT_UNSPEC},
    {"opx", {"opx"}, FI_FORMAT_UNSPEC},
    {"gni", {"gni"}, FI_FORMAT_UNSPEC},
    /* Other names of those above. */
    {"net", {"net", "tcp"}, FI_SOCKADDR},
    {"udp", {"udp;ofi_rxd"}, FI_SOCKADDR},
    {"verbs", {"verbs;ofi_rxm"}, FI_SOCKADDR},
};

/* The names of the table, for the table of slots. */
static const char *const na_ofi_protocols[] = {"tcp", "tcp;ofi_rxm", "shm",
    "sockets", "udp;ofi_rxd", "verbs;ofi_rxm", "cxi", "psm3", "psm2", "efa",
    "opx", "gni", "net", "udp", "verbs", NULL};

_Static_assert(sizeof(na_ofi_protocols) / sizeof(na_ofi_protocols[0]) ==
        sizeof(na_ofi_table) / sizeof(na_ofi_table[0]) + 1,
    "the names of the table");

/* The entry of a protocol of the first `size` bytes of `name`, or NULL. */
static const struct na_ofi_protocol *na_ofi_protocol(
    const char *name, size_t size)
{
    size_t i;

    for (i = 0; i < sizeof(na_ofi_table) / sizeof(na_ofi_table[0]); i++) {
        if (strlen(na_ofi_table[i].name) == size &&
            memcmp(na_ofi_table[i].name, name, size) == 0)
            return &na_ofi_table[i];
    }
    return NULL;
}

/* `from_peer`, here and below: as in plug/net.h. */
static na_return_t na_ofi_bad_name(const struct na_ofi_class *self,
    na_bool_t from_peer, const char *rest, const char *why)
{
    return na_plug_bad_name(&self->base, "ofi", from_peer, rest, why);
}

/* The part of an address string behind "://"; the part before it must name the
 * class's provider. NA_INVALID_ARG, NA_PROTONOSUPPORT. */
static na_return_t na_ofi_rest_of(const struct na_ofi_class *self,
    const char *string, na_bool_t from_peer, const char **rest_p)
{
    const char *scheme = strncmp(string, "ofi+", 4) == 0 ? string + 4 : string;
    const char *mark = strstr(string, "://");
    const struct na_ofi_protocol *ours =
        na_ofi_protocol(self->base.protocol, strlen(self->base.protocol));
    const struct na_ofi_protocol *theirs;

    if (mark == NULL)
        return na_ofi_bad_name(self, from_peer, string, "no \"://\" in it");
    theirs = na_ofi_protocol(scheme, (size_t) (mark - scheme));
    HG_ASSERT(ours != NULL);
    if (theirs == NULL ||
        strcmp(theirs->providers[0], ours->providers[0]) != 0) {
        self->base.core->log(
            from_peer ? HG_LOG_LEVEL_WARNING : HG_LOG_LEVEL_ERROR, "ofi",
            "'%s': this class was opened for ofi+%s", string,
            self->base.protocol);
        return NA_PROTONOSUPPORT;
    }
    *rest_p = mark + 3;
    return NA_SUCCESS;
}

/* ---- Socket addresses ---- */

static bool na_ofi_is_inet(const struct na_ofi_class *self)
{
    return self->info->addr_format == FI_SOCKADDR ||
        self->info->addr_format == FI_SOCKADDR_IN ||
        self->info->addr_format == FI_SOCKADDR_IN6;
}

static bool na_ofi_is_str(const struct na_ofi_class *self)
{
    return self->info->addr_format == FI_ADDR_STR;
}

/* The family of internet addresses. */
static int na_ofi_af(const struct na_ofi_family *family)
{
    return family->info->addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET;
}

/* The family of the class's own addresses. */
static int na_ofi_own_af(const struct na_ofi_class *self)
{
    return na_ofi_af(&self->families[0]);
}

/* Whether the class reaches addresses of its own family only. */
static bool na_ofi_has_one_af(const struct na_ofi_class *self)
{
    return atomic_load(&self->other) == NA_OFI_OTHER_NEVER;
}

static size_t na_ofi_sockaddr_size(int family)
{
    HG_ASSERT(family == AF_INET || family == AF_INET6);
    return family == AF_INET6 ? sizeof(struct sockaddr_in6)
                              : sizeof(struct sockaddr_in);
}

/* The port, in network byte order, is at the same position in both. */
static unsigned na_ofi_port(const struct sockaddr_storage *address)
{
    HG_ASSERT(offsetof(struct sockaddr_in, sin_port) ==
        offsetof(struct sockaddr_in6, sin6_port));
    return ntohs(((const struct sockaddr_in *) address)->sin_port);
}

static void na_ofi_set_port(struct sockaddr_storage *address, unsigned port)
{
    ((struct sockaddr_in *) address)->sin_port = htons((uint16_t) port);
}

/* With a host name, the size is 0. */
static na_return_t na_ofi_raw_of_inet(const struct na_ofi_class *self,
    const char *rest, na_bool_t from_peer, unsigned char *raw, size_t *size_p)
{
    char host[NA_MAX_ADDR_LEN];
    struct sockaddr_storage address;
    unsigned port = 0;
    na_return_t ret =
        na_plug_split(&self->base, "ofi", from_peer, rest, host, &port);

    if (ret != NA_SUCCESS)
        return ret;
    if (port == 0)
        return na_ofi_bad_name(self, from_peer, rest, "no port to connect to");
    if (host[0] == '\0')
        (void) snprintf(host, sizeof(host),
            na_ofi_own_af(self) == AF_INET6 ? "::1" : "127.0.0.1");
    *size_p = 0;
    if (!na_plug_number(host, &address))
        return na_plug_check_named(&self->base, "ofi", from_peer, host);
    if (address.ss_family != na_ofi_own_af(self) && na_ofi_has_one_af(self))
        return na_ofi_bad_name(self, from_peer, rest,
            na_ofi_own_af(self) == AF_INET6
                ? "it is of IPv4, and " NA_PLUG_ONLY_V6
                : "it is of IPv6, and " NA_PLUG_ONLY_V4);
    if (!na_plug_is_of_one(&address))
        return na_ofi_bad_name(
            self, from_peer, rest, "not the address of a single host");
    na_ofi_set_port(&address, port);
    *size_p = na_ofi_sockaddr_size(address.ss_family);
    memcpy(raw, &address, *size_p);
    return NA_SUCCESS;
}

/* ---- Strings ---- */

/* Whether a name is valid for shared memory. */
static bool na_ofi_is_str_name(const char *name)
{
    const char *at;

    for (at = name; *at != '\0'; at++) {
        if ((unsigned char) *at <= ' ' || (unsigned char) *at >= 0x7f ||
            *at == '/')
            return false;
    }
    return at > name && at - name <= NA_OFI_STR_MAX;
}

/* Hashes of the latest names that endpoints of this process had; without a
 * lock. libfabric's shm never forgets them: given such a name, it uses the
 * endpoint's memory, even after that was closed and unmapped. */
static _Atomic uint64_t na_ofi_names[NA_OFI_NAMES];
static _Atomic unsigned na_ofi_name_count;

static uint64_t na_ofi_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char) *name) * UINT64_C(0x100000001b3);
    return hash | 1;
}

static void na_ofi_remember(const char *name)
{
    atomic_store(
        &na_ofi_names[atomic_fetch_add(&na_ofi_name_count, 1) % NA_OFI_NAMES],
        na_ofi_hash(name));
}

static bool na_ofi_had(const char *name)
{
    uint64_t hash = na_ofi_hash(name);
    size_t i = 0;

    HG_ASSERT(hash != 0); /* 0 means no name */
    while (i < NA_OFI_NAMES && atomic_load(&na_ofi_names[i]) != hash)
        i++;
    return i < NA_OFI_NAMES;
}

static na_return_t na_ofi_raw_of_str(const struct na_ofi_class *self,
    const char *rest, na_bool_t from_peer, unsigned char *raw, size_t *size_p)
{
    if (!na_ofi_is_str_name(rest))
        return na_ofi_bad_name(self, from_peer, rest, NA_OFI_NO_STR);
    memset(raw, 0, NA_OFI_STR_SIZE);
    (void) snprintf((char *) raw, NA_OFI_STR_SIZE, NA_OFI_STR "%s", rest);
    *size_p = NA_OFI_STR_SIZE;
    return NA_SUCCESS;
}

/* ---- Any bytes ---- */

static int na_ofi_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0'
        : c >= 'a' && c <= 'f'  ? c - 'a' + 10
        : c >= 'A' && c <= 'F'  ? c - 'A' + 10
                                : -1;
}

static na_return_t na_ofi_raw_of_hex(const struct na_ofi_class *self,
    const char *rest, na_bool_t from_peer, unsigned char *raw, size_t *size_p)
{
    size_t size = self->ends[0]->raw_size;
    size_t i;

    HG_ASSERT(size > 0 && size <= NA_OFI_RAW_MAX);
    if (strncmp(rest, "0x", 2) != 0 || strlen(rest + 2) != 2 * size)
        return na_ofi_bad_name(self, from_peer, rest,
            "not \"0x\" and as many digits as the class's own address has");
    for (i = 0; i < size; i++) {
        int high = na_ofi_digit(rest[2 + 2 * i]);
        int low = na_ofi_digit(rest[3 + 2 * i]);

        if (high < 0 || low < 0)
            return na_ofi_bad_name(
                self, from_peer, rest, "not hexadecimal digits");
        raw[i] = (unsigned char) (16 * high + low);
    }
    *size_p = size;
    return NA_SUCCESS;
}

/* ---- Any format ---- */

/* The address string for the provider's bytes, which were checked. */
static void na_ofi_name_of(const struct na_ofi_class *self,
    const unsigned char *raw, size_t size, char name[NA_MAX_ADDR_LEN])
{
    int n = snprintf(name, NA_MAX_ADDR_LEN, "ofi+%s://", self->base.protocol);
    size_t left = NA_MAX_ADDR_LEN - (size_t) n;
    struct sockaddr_storage address;
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "";
    size_t i;

    HG_ASSERT(
        n > 0 && n < NA_MAX_ADDR_LEN && size > 0 && size <= NA_OFI_RAW_MAX);
    name += n;
    if (na_ofi_is_inet(self)) {
        memset(&address, 0, sizeof(address));
        memcpy(&address, raw, size < sizeof(address) ? size : sizeof(address));
        (void) na_plug_numeric(
            (const struct sockaddr *) &address, host, sizeof(host));
        (void) snprintf(name, left,
            address.ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host,
            na_ofi_port(&address));
    } else if (na_ofi_is_str(self)) {
        (void) snprintf(name, left, "%s",
            (const char *) raw +
                (strncmp((const char *) raw, NA_OFI_STR, strlen(NA_OFI_STR)) ==
                            0
                        ? strlen(NA_OFI_STR)
                        : 0));
    } else {
        HG_ASSERT(left > 2 + 2 * size);
        (void) snprintf(name, left, "0x");
        for (i = 0; i < size; i++)
            (void) snprintf(name + 2 + 2 * i, 3, "%02x", raw[i]);
    }
}

/* The provider's bytes for the part behind "://"; none if that is a host name
 * with a port. NA_INVALID_ARG: malformed. */
static na_return_t na_ofi_raw_of(struct na_ofi_class *self, const char *rest,
    na_bool_t from_peer, unsigned char raw[NA_OFI_RAW_MAX], size_t *size_p)
{
    if (na_ofi_is_inet(self))
        return na_ofi_raw_of_inet(self, rest, from_peer, raw, size_p);
    if (na_ofi_is_str(self))
        return na_ofi_raw_of_str(self, rest, from_peer, raw, size_p);
    return na_ofi_raw_of_hex(self, rest, from_peer, raw, size_p);
}

/* 0: an endpoint of this user has that name of shared memory, whose file is
 * *file_p; else a negative error. libfabric's shm does not check: it accepts a
 * name that is not in use, and with a process of another user it hangs or makes
 * that process crash. */
static int na_ofi_is_there(const char *name, ino_t *file_p)
{
    char path[sizeof(NA_OFI_SHM) + NA_OFI_RAW_MAX];
    struct stat status;

    (void) snprintf(path, sizeof(path), NA_OFI_SHM "%s", name);
    if (stat(path, &status) != 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return -FI_ENOENT;
    *file_p = status.st_ino;
    return status.st_uid == geteuid() ? 0 : -FI_EACCES;
}

/* Find out what is at an address now. 0, or a negative error: no endpoint can
 * be reached there. If this process had an endpoint with that name, a slash in
 * front of it makes shm map the memory again; see na_ofi_names. */
static int na_ofi_look(const struct na_ofi_class *self, bool other,
    const unsigned char *raw, struct na_ofi_entry *entry)
{
    const char *name = (const char *) raw + strlen(NA_OFI_STR);

    memset(entry, 0, sizeof(*entry));
    entry->uses = 1;
    if (!na_ofi_is_str(self)) {
        memcpy(entry->raw, raw, self->ends[other ? NA_OFI_OTHER : 0]->raw_size);
        return 0;
    }
    HG_ASSERT(strncmp((const char *) raw, NA_OFI_STR, strlen(NA_OFI_STR)) == 0);
    memcpy(entry->raw, raw, strlen((const char *) raw) + 1);
    entry->slashes = na_ofi_had(name) &&
        memcmp(raw, self->families[0].src, self->families[0].src_size) != 0;
    return na_ofi_is_there(name, &entry->file);
}

/* Insert an entry into the address vector. 1: done. 0 or a negative error: the
 * provider refuses it. */
static int na_ofi_insert_entry(
    struct na_ofi_family *family, struct na_ofi_entry *entry)
{
    char other[NA_OFI_RAW_MAX];
    char slashes[NA_OFI_SLASHES + 1] = "";

    if (entry->slashes == 0)
        return fi_av_insert(family->av, entry->raw, 1, &entry->at, 0, NULL);
    if (entry->slashes > NA_OFI_SLASHES)
        return -FI_ENOSPC;
    memset(slashes, '/', entry->slashes);
    (void) snprintf(other, sizeof(other), NA_OFI_STR "%s%s", slashes,
        (const char *) entry->raw + strlen(NA_OFI_STR));
    return fi_av_insert(family->av, other, 1, &entry->at, 0, NULL);
}

/* Whether an address that a peer sent to an endpoint may be passed to the
 * provider and to na_ofi_name_of. */
static bool na_ofi_raw_ok(
    const struct na_ofi_end *end, const unsigned char *raw, size_t size)
{
    const struct na_ofi_class *self = end->na_class;
    int af = na_ofi_af(end->family);
    struct sockaddr_storage address;

    if (na_ofi_is_inet(self)) {
        if (size != na_ofi_sockaddr_size(af))
            return false;
        memset(&address, 0, sizeof(address));
        memcpy(&address, raw, size);
        return address.ss_family == af && na_ofi_port(&address) != 0 &&
            na_plug_is_of_one(&address);
    }
    if (na_ofi_is_str(self))
        return size == NA_OFI_STR_SIZE && raw[size - 1] == '\0' &&
            strncmp((const char *) raw, NA_OFI_STR, strlen(NA_OFI_STR)) == 0 &&
            na_ofi_is_str_name((const char *) raw + strlen(NA_OFI_STR));
    return size == end->raw_size;
}
