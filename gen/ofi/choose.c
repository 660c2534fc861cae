/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of a provider and an interface: from "ofi+tcp://eth0:1234" and the
 * options of the class to one fi_info.
 *
 * libfabric ignores the requested name of a domain, accepts addresses of other
 * hosts as local ones, and does not know names of interfaces. Therefore
 * interfaces are searched here, and a provider is queried for one of their
 * addresses.
 *
 * Part of the libfabric transport; see ofi.h.
 */
#include "ofi/ofi.h"

#include "plug/iface.h"

/* ---- Questions to libfabric ---- */

/* A query to libfabric. A member that is 0 or NULL matches any. */
struct na_ofi_question {
    const char *provider;
    const char *node; /* a local address, with its port in `service` */
    const char *service;
    uint32_t format;
    const void *key;
    size_t key_size;
};

/* The lower version of headers and library. */
static uint32_t na_ofi_version(void)
{
    uint32_t ours = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    uint32_t theirs = fi_version();

    return ours < theirs ? ours : theirs;
}

/* Query libfabric; returns the answers, or NULL. With FI_DELIVERY_COMPLETE a
 * put ends when its data is in the target's memory. */
static struct fi_info *na_ofi_query(const struct na_ofi_question *question)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_info *list = NULL;

    if (hints == NULL)
        return NULL;
    hints->caps = FI_MSG | FI_RMA | FI_MULTI_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->addr_format = question->format;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
        FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_RAW;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    /* Borrowed: reset before the hints are freed. */
    hints->fabric_attr->prov_name = (char *) (uintptr_t) question->provider;
    hints->ep_attr->auth_key = (uint8_t *) (uintptr_t) question->key;
    hints->ep_attr->auth_key_size = question->key_size;
    hints->domain_attr->auth_key = (uint8_t *) (uintptr_t) question->key;
    hints->domain_attr->auth_key_size = question->key_size;
    if (fi_getinfo(na_ofi_version(), question->node, question->service,
            question->node != NULL || question->service != NULL ? FI_SOURCE : 0,
            hints, &list) != 0)
        list = NULL;
    hints->fabric_attr->prov_name = NULL;
    hints->ep_attr->auth_key = NULL;
    hints->domain_attr->auth_key = NULL;
    fi_freeinfo(hints);
    return list;
}

/* Whether an entry matches a query: for "tcp" libfabric also returns layers
 * over it; and it may omit the key. Memory that is bound to an endpoint and
 * also needed for messages could not be closed in any order. */
static bool na_ofi_answers(const struct fi_info *info,
    const struct na_ofi_question *question, const char *domain)
{
    const int both = FI_MR_ENDPOINT | FI_MR_LOCAL;

    return strcmp(info->fabric_attr->prov_name, question->provider) == 0 &&
        (info->domain_attr->mr_mode & both) != both &&
        (domain == NULL || domain[0] == '\0' ||
            strcmp(info->domain_attr->name, domain) == 0) &&
        (question->key == NULL ||
            info->ep_attr->auth_key_size == question->key_size ||
            info->domain_attr->auth_key_size == question->key_size);
}

/* The first entry that matches a query, to be freed with fi_freeinfo, or NULL.
 * `domain`: NULL or "" for any. */
static struct fi_info *na_ofi_find_info(
    const struct na_ofi_question *question, const char *domain)
{
    struct fi_info *list = na_ofi_query(question);
    struct fi_info *at = list;
    struct fi_info *info = NULL;

    while (at != NULL && !na_ofi_answers(at, question, domain))
        at = at->next;
    if (at != NULL)
        info = fi_dupinfo(at);
    fi_freeinfo(list);
    if (info != NULL)
        info->tx_attr->op_flags = 0; /* puts set it, messages do not */
    return info;
}

/* The first available provider of a protocol, or NULL. */
static const char *na_ofi_find_provider(const struct na_ofi_protocol *protocol)
{
    struct na_ofi_question question;
    size_t i;

    HG_ASSERT(protocol->providers[0] != NULL);
    memset(&question, 0, sizeof(question));
    for (i = 0; i < NA_OFI_PROVIDERS && protocol->providers[i] != NULL; i++) {
        struct fi_info *info;

        question.provider = protocol->providers[i];
        info = na_ofi_find_info(&question, NULL);
        fi_freeinfo(info);
        if (info != NULL)
            return protocol->providers[i];
    }
    return NULL;
}

/* ---- Providers and devices of this host ---- */

/* The slot: list the domains of a protocol's provider, each once; for internet
 * protocols these are interfaces. */
static void na_ofi_list_devices(
    const char *name, void (*found)(void *arg, const char *device), void *arg)
{
    const struct na_ofi_protocol *protocol =
        na_ofi_protocol(name, strlen(name));
    struct na_ofi_question question;
    struct fi_info *list;
    const struct fi_info *at;
    const struct fi_info *before;

    HG_ASSERT(protocol != NULL && found != NULL);
    memset(&question, 0, sizeof(question));
    question.provider = na_ofi_find_provider(protocol);
    if (question.provider == NULL)
        return;
    list = na_ofi_query(&question);
    for (at = list; at != NULL; at = at->next) {
        if (!na_ofi_answers(at, &question, NULL))
            continue;
        for (before = list; before != at; before = before->next) {
            if (na_ofi_answers(before, &question, at->domain_attr->name))
                break;
        }
        if (before == at)
            found(arg, at->domain_attr->name);
    }
    fi_freeinfo(list);
}

/* Words for the log, with commas between. */
struct na_ofi_words {
    char text[512];
};

/* Append a word, unless it is there. */
static void na_ofi_append(void *arg, const char *word)
{
    struct na_ofi_words *words = (struct na_ofi_words *) arg;
    size_t used = strlen(words->text);
    size_t size = strlen(word);
    const char *at = strstr(words->text, word);

    while (at != NULL) {
        if ((at == words->text || at[-1] == ' ') &&
            (at[size] == '\0' || at[size] == ','))
            return;
        at = strstr(at + 1, word);
    }
    (void) snprintf(words->text + used, sizeof(words->text) - used, "%s%s",
        used > 0 ? ", " : "", word);
}

static void na_ofi_list_providers(struct na_ofi_words *words)
{
    size_t i;

    words->text[0] = '\0';
    for (i = 0; i < sizeof(na_ofi_table) / sizeof(na_ofi_table[0]); i++) {
        const char *provider = na_ofi_find_provider(&na_ofi_table[i]);

        if (provider != NULL)
            na_ofi_append(words, provider);
    }
}

/* ---- Interfaces of the internet's protocols ---- */

/* The search for an address that the provider can use. */
struct na_ofi_search {
    struct na_ofi_question *question;
    const char *domain;
    struct fi_info *info;
};

/* Whether the provider can use an address; its configuration is kept. */
static bool na_ofi_take_host(
    void *arg, const struct sockaddr *address, const char *numeric)
{
    struct na_ofi_search *search = (struct na_ofi_search *) arg;
    struct na_ofi_question *question = search->question;

    HG_ASSERT(question->provider != NULL && question->service == NULL);
    question->node = numeric;
    question->format =
        address->sa_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    search->info = na_ofi_find_info(question, search->domain);
    question->node = NULL;
    return search->info != NULL;
}

/* The provider's configuration for the best of the wanted addresses, or
 * NULL. `prefers_v4`: one of IPv4 if that reaches hosts beyond its link. */
static struct fi_info *na_ofi_try_interfaces(const struct na_ofi_class *self,
    const struct ifaddrs *all, struct na_plug_wanted *wanted, bool prefers_v4,
    struct na_ofi_question *question, const char *domain)
{
    struct na_ofi_search search = {question, domain, NULL};
    const struct ifaddrs *at = NULL;
    unsigned rank;

    if (prefers_v4) {
        HG_ASSERT(wanted->family == 0);
        wanted->family = AF_INET;
        at = na_plug_choose(all, wanted, na_ofi_take_host, &search, &rank);
        wanted->family = 0;
        if (at != NULL && rank >= NA_PLUG_LINK * NA_PLUG_RANK_SCOPE) {
            fi_freeinfo(search.info);
            search.info = NULL;
            at = NULL;
        }
    }
    if (at == NULL)
        at = na_plug_choose(all, wanted, na_ofi_take_host, &search, &rank);
    if (at != NULL && wanted->name == NULL && !wanted->address &&
        !wanted->loopback)
        na_plug_log_choice(&self->base, "ofi", all, at, rank);
    return search.info;
}

/* Parse a host: an interface, a name or number, all ("", "*", any address).
 * Sets which addresses match. NA_INVALID_ARG: the option ip_subnet is
 * malformed; NA_ADDRNOTAVAIL, not logged: none of these, *why_p is why it is
 * not a host's name; any address matches. */
static na_return_t na_ofi_read_host(const struct na_ofi_class *self,
    const struct ifaddrs *all, const char *host, struct na_plug_wanted *wanted,
    const char **why_p)
{
    enum na_addr_format format = self->base.info->addr_format;
    na_return_t ret;

    memset(wanted, 0, sizeof(*wanted));
    wanted->family = format == NA_ADDR_IPV6 ? AF_INET6
        : format == NA_ADDR_IPV4            ? AF_INET
                                            : 0;
    if (strcmp(host, "::") == 0)
        wanted->family = AF_INET6;
    if (strcmp(host, "0.0.0.0") == 0)
        wanted->family = AF_INET;
    if (host[0] == '\0' || strcmp(host, "*") == 0 ||
        strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) {
        ret = na_plug_subnet_option(
            &self->base, "ofi", &wanted->subnet, &wanted->within);
        if (wanted->within)
            wanted->family = wanted->subnet.family;
        /* The devices of verbs do not reach loopback. */
        wanted->loopback = host[0] == '\0' && self->base.listen &&
            !wanted->within && strncmp(self->base.protocol, "verbs", 5) != 0;
        return ret;
    }
    while (all != NULL && strcmp(all->ifa_name, host) != 0)
        all = all->ifa_next;
    if (all != NULL) {
        wanted->name = all->ifa_name;
        return NA_SUCCESS;
    }
    if (!na_plug_number(host, &wanted->there)) {
        const char *why = na_plug_resolve(self->resolver, "ofi", host,
            wanted->family != 0 ? wanted->family : AF_INET, &wanted->there);

        if (why != NULL) {
            *why_p = why;
            return NA_ADDRNOTAVAIL;
        }
    }
    wanted->address = true;
    wanted->family = wanted->there.ss_family;
    return NA_SUCCESS;
}

/* Log that no interface matches, and list the interfaces. `why`: why there is
 * no host of that name; NULL: that was not asked for. */
static na_return_t na_ofi_no_interface(const struct na_ofi_class *self,
    const char *provider, const struct ifaddrs *all, const char *host,
    bool within, const char *why)
{
    char here[512];

    na_plug_list_hosts(all, here, sizeof(here));
    self->base.core->log(HG_LOG_LEVEL_ERROR, "ofi",
        "ofi+%s://%s%s%s: libfabric's %s has no interface, domain or address "
        "of that name%s%s%s; here: %s",
        self->base.protocol, host, within ? " with ip_subnet " : "",
        within ? self->base.info->ip_subnet : "", provider,
        why != NULL ? " (as a host name: " : "", why != NULL ? why : "",
        why != NULL ? ")" : "", here);
    return NA_ADDRNOTAVAIL;
}

static void na_ofi_set_src(
    struct na_ofi_family *family, const struct fi_info *info, unsigned port)
{
    struct sockaddr_storage src;

    HG_ASSERT(info->src_addrlen <= sizeof(src));
    memcpy(&src, info->src_addr, info->src_addrlen);
    na_ofi_set_port(&src, port);
    family->src_size = info->src_addrlen;
    memcpy(family->src, &src, family->src_size);
}

/* All addresses of the family that self->info does not have. */
static void na_ofi_want_family(
    const struct na_ofi_class *self, struct na_plug_wanted *wanted)
{
    memset(wanted, 0, sizeof(*wanted));
    wanted->family =
        self->info->addr_format == FI_SOCKADDR_IN6 ? AF_INET : AF_INET6;
}

/* Whether a class that names no host may open the other family. Peers do not
 * know an endpoint of it, so it must not listen. Its memory must have the keys
 * that it has already, and nothing else must be done for it. */
static bool na_ofi_may_open_other(const struct na_ofi_class *self,
    const struct na_ofi_question *question, const struct ifaddrs *all)
{
    struct na_plug_wanted wanted;
    unsigned rank;

    na_ofi_want_family(self, &wanted);
    return !self->base.listen && question->key_size == 0 &&
        self->info->domain_attr->mr_mode == 0 &&
        na_plug_choose(all, &wanted, NULL, NULL, &rank) != NULL;
}

/* Choose from "domain/host:port" or a part of it; the domain is one of
 * libfabric, and needs no host. */
static na_return_t na_ofi_choose_inet(struct na_ofi_class *self,
    struct na_ofi_question *question, const char *host,
    const struct ifaddrs *all)
{
    const char *slash = strchr(host, '/');
    char domain[NA_MAX_ADDR_LEN] = "";
    char name[NA_MAX_ADDR_LEN];
    struct na_plug_wanted wanted;
    const char *why = NULL;
    unsigned port = 0;
    na_return_t ret;

    if (slash != NULL)
        (void) snprintf(
            domain, sizeof(domain), "%.*s", (int) (slash - host), host);
    ret = na_plug_split(&self->base, "ofi", NA_FALSE,
        slash != NULL ? slash + 1 : host, name, &port);
    if (ret == NA_SUCCESS)
        ret = na_ofi_read_host(self, all, name, &wanted, &why);
    if (ret == NA_ADDRNOTAVAIL && slash == NULL) {
        memcpy(domain, name, sizeof(domain)); /* as in "mlx5_0:1234" */
        ret = NA_SUCCESS;
    }
    if (slash != NULL)
        wanted.loopback = false; /* the domain chooses the device */
    /* Most servers have IPv4. */
    if (ret == NA_SUCCESS)
        self->info = na_ofi_try_interfaces(self, all, &wanted,
            !self->base.listen && name[0] == '\0' && wanted.family == 0,
            question, domain);
    if (ret == NA_INVALID_ARG)
        return ret;
    if (self->info == NULL)
        return na_ofi_no_interface(
            self, question->provider, all, host, wanted.within, why);
    na_ofi_set_src(
        &self->families[0], self->info, self->base.listen ? port : 0);
    if (slash == NULL && wanted.name == NULL && !wanted.address &&
        wanted.family == 0 && na_ofi_may_open_other(self, question, all))
        atomic_store(&self->other, NA_OFI_OTHER_CLOSED);
    return NA_SUCCESS;
}

/* Choose an interface of the other family, as if the class had only that. */
static na_return_t na_ofi_choose_other(struct na_ofi_class *self)
{
    struct na_ofi_family *family = &self->families[1];
    struct na_ofi_question question;
    struct na_plug_wanted wanted;
    struct ifaddrs *all = NULL;

    memset(&question, 0, sizeof(question));
    question.provider = self->info->fabric_attr->prov_name;
    na_ofi_want_family(self, &wanted);
    if (getifaddrs(&all) != 0)
        return na_ofi_failed(self, "cannot list", "interfaces", errno);
    family->info =
        na_ofi_try_interfaces(self, all, &wanted, false, &question, "");
    if (family->info == NULL)
        (void) na_ofi_no_interface(self, question.provider, all,
            wanted.family == AF_INET6 ? "[::]" : "0.0.0.0", false, NULL);
    freeifaddrs(all);
    if (family->info == NULL)
        return NA_ADDRNOTAVAIL;
    na_ofi_set_src(family, family->info, 0);
    return NA_SUCCESS;
}

/* ---- Other providers ---- */

/* Reserve a name of shared memory while the class is open: if libfabric's shm
 * finds a name in use, it removes the memory of its owner. The kernel frees a
 * name in the abstract namespace when its process ends. */
static na_return_t na_ofi_guard(struct na_ofi_class *self, const char *host)
{
#ifdef __linux__
    char shown[NA_MAX_ADDR_LEN];
    struct sockaddr_un name;
    int n;

    memset(&name, 0, sizeof(name));
    name.sun_family = AF_UNIX;
    n = snprintf(
        name.sun_path + 1, sizeof(name.sun_path) - 1, "hg-ofi+shm/%s", host);
    HG_ASSERT(n > 0 && (size_t) n < sizeof(name.sun_path) - 1);
    self->guard = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (self->guard < 0 ||
        bind(self->guard, (const struct sockaddr *) &name,
            (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1) +
                (socklen_t) n) != 0) {
        n = errno;
        (void) snprintf(shown, sizeof(shown), "ofi+shm://%s", host);
        return na_ofi_failed(self, "cannot listen on", shown, n);
    }
#endif
    if (!na_ofi_had(host))
        return NA_SUCCESS;
    self->base.core->log(HG_LOG_LEVEL_ERROR, "ofi",
        "ofi+shm://%s: libfabric's shm cannot open a name again in the process "
        "that closed it: take another name",
        host);
    return NA_ADDRINUSE;
}

/* Choose from a name, or "". */
static na_return_t na_ofi_choose_str(struct na_ofi_class *self,
    struct na_ofi_question *question, const char *host)
{
    char name[NA_OFI_HOST_MAX + 1];
    na_return_t ret = NA_SUCCESS;

    if (!self->base.listen || host[0] == '\0' || strcmp(host, "*") == 0) {
        (void) snprintf(name, sizeof(name), "hg-%ld-%016" PRIx64,
            (long) getpid(), self->base.core->random());
        host = name;
    } else if (!na_ofi_is_str_name(host) || strlen(host) > NA_OFI_HOST_MAX) {
        return na_ofi_bad_name(self, NA_FALSE, host, NA_OFI_NO_STR);
    } else {
        ret = na_ofi_guard(self, host);
    }
    if (ret != NA_SUCCESS)
        return ret;
    self->info = na_ofi_find_info(question, NULL);
    if (self->info == NULL)
        return na_ofi_failed(
            self, "no endpoint of", question->provider, FI_ENODATA);
    return na_ofi_raw_of_str(self, host, NA_FALSE, self->families[0].src,
        &self->families[0].src_size);
}

/* Choose from "domain:port" or a part of it, in the provider's own address
 * format. */
static na_return_t na_ofi_choose_native(struct na_ofi_class *self,
    struct na_ofi_question *question, const char *host)
{
    char domain[NA_MAX_ADDR_LEN];
    char port[16];
    struct na_ofi_words here;
    unsigned number = 0;
    struct fi_info *first;
    na_return_t ret =
        na_plug_split(&self->base, "ofi", NA_FALSE, host, domain, &number);

    if (ret != NA_SUCCESS)
        return ret;
    self->info = na_ofi_find_info(question, domain);
    if (self->info == NULL) {
        here.text[0] = '\0';
        na_ofi_list_devices(self->base.protocol, na_ofi_append, &here);
        self->base.core->log(HG_LOG_LEVEL_ERROR, "ofi",
            "ofi+%s://%s: the provider has no such device; here: %s",
            self->base.protocol, host,
            here.text[0] != '\0' ? here.text : "none");
        return NA_NODEV;
    }
    if (number == 0 || !self->base.listen)
        return NA_SUCCESS;
    (void) snprintf(port, sizeof(port), "%u", number);
    question->node = domain[0] != '\0' ? domain : NULL;
    question->service = port;
    first = na_ofi_find_info(question, domain);
    if (first == NULL || first->src_addr == NULL ||
        first->src_addrlen > sizeof(self->families[0].src)) {
        fi_freeinfo(first);
        return na_ofi_bad_name(
            self, NA_FALSE, host, "the provider does not accept this port");
    }
    HG_ASSERT(first->addr_format == self->info->addr_format);
    self->families[0].src_size = first->src_addrlen;
    memcpy(self->families[0].src, first->src_addr, first->src_addrlen);
    fi_freeinfo(first);
    return NA_SUCCESS;
}

/* ---- All of it ---- */

/* Convert the option auth_key for the provider: for cxi "service:vni", for
 * others its characters. NA_INVALID_ARG. */
static na_return_t na_ofi_read_key(const struct na_ofi_class *self,
    const char *provider, unsigned char key[NA_OFI_KEY_MAX], size_t *size_p)
{
    const char *text = self->base.info->auth_key;
    struct {
        uint32_t service;
        uint16_t vni;
    } cxi;

    *size_p = 0;
    if (text == NULL || text[0] == '\0')
        return NA_SUCCESS;
    if (strcmp(provider, "cxi") == 0) {
        memset(&cxi, 0, sizeof(cxi));
        if (sscanf(text, "%" SCNu32 ":%" SCNu16, &cxi.service, &cxi.vni) == 2) {
            *size_p = sizeof(cxi);
            memcpy(key, &cxi, sizeof(cxi));
            return NA_SUCCESS;
        }
    } else if (strlen(text) <= NA_OFI_KEY_MAX) {
        *size_p = strlen(text);
        memcpy(key, text, *size_p);
        return NA_SUCCESS;
    }
    self->base.core->log(HG_LOG_LEVEL_ERROR, "ofi",
        "auth_key: not of the form that the provider %s wants", provider);
    return NA_INVALID_ARG;
}

/* Choose the provider of the class's protocol, and set the query. `key` has the
 * bytes of the authorization key. */
static na_return_t na_ofi_choose_provider(struct na_ofi_class *self,
    const struct na_ofi_protocol *protocol, unsigned char key[NA_OFI_KEY_MAX],
    struct na_ofi_question *question)
{
    const struct na_core *core = self->base.core;
    struct fi_info *info;
    const char *filter = getenv("FI_PROVIDER");
    struct na_ofi_words here;
    na_return_t ret;

    memset(question, 0, sizeof(*question));
    question->provider = na_ofi_find_provider(protocol);
    if (question->provider == NULL) {
        na_ofi_list_providers(&here);
        core->log(HG_LOG_LEVEL_ERROR, "ofi",
            "ofi+%s: libfabric %u.%u has no provider %s that works here; "
            "these do: %s%s%s",
            protocol->name, FI_MAJOR(fi_version()), FI_MINOR(fi_version()),
            protocol->providers[0], here.text[0] != '\0' ? here.text : "none",
            filter != NULL ? "; FI_PROVIDER is " : "",
            filter != NULL ? filter : "");
        return NA_PROTONOSUPPORT;
    }
    ret = na_ofi_read_key(self, question->provider, key, &question->key_size);
    if (ret != NA_SUCCESS || question->key_size == 0)
        return ret;
    question->key = key;
    info = na_ofi_find_info(question, NULL);
    fi_freeinfo(info);
    if (info != NULL)
        return NA_SUCCESS;
    core->log(HG_LOG_LEVEL_ERROR, "ofi",
        "ofi+%s: the provider %s does not support auth_key, which must be NULL",
        protocol->name, question->provider);
    return NA_OPNOTSUPPORT;
}

/* The thread of the provider sockets spins for 10 ms after each message. It
 * would take the processor from a spinning thread of this class, for a time
 * slice. */
static void na_ofi_choose_wait(struct na_ofi_class *self)
{
    if (strcmp(self->info->fabric_attr->prov_name, "sockets") == 0 &&
        self->base.info->wait_mode == NA_WAIT_ADAPTIVE)
        self->base.info->wait_mode = NA_WAIT_BLOCK;
}

/* Set the maximum size of messages. */
static void na_ofi_set_sizes(struct na_ofi_class *self)
{
    const struct na_init_info *info = self->base.info;
    size_t limit = self->info->ep_attr->max_msg_size;
    size_t unexpected = info->max_unexpected_size;
    size_t expected = info->max_expected_size;

    self->is_rxm =
        strstr(self->info->fabric_attr->prov_name, "ofi_rxm") != NULL;
    if (self->is_rxm && limit > NA_OFI_RXM_MAX)
        limit = NA_OFI_RXM_MAX;
    HG_ASSERT(limit > NA_OFI_HEADER);
    limit -= NA_OFI_HEADER;
    if (unexpected > limit)
        unexpected = limit;
    if (expected > limit)
        expected = limit;
    self->base.max_unexpected_size = unexpected;
    self->base.max_expected_size = expected;
    self->message_size =
        (unexpected > expected ? unexpected : expected) + NA_OFI_HEADER;
}

/* Fill in self->info, which na_ofi_fabric_close frees; where the first endpoint
 * is, and the largest messages. `host` is what stands behind "://":
 *
 *     internet  nothing, an interface, a host name or a number, with :port;
 *               "mlx5_0/..." in front chooses a domain of libfabric's
 *     shm       nothing, or a name
 *     others    nothing, or a domain, with :port
 *
 * Nothing: over the internet a listener takes loopback, but not over verbs. All
 * others take what plug/iface.h chooses. A class that does not listen has no
 * port or name that it asks for. Errors: logged, with what is here instead. */
static na_return_t na_ofi_choose(struct na_ofi_class *self, const char *host)
{
    const struct na_ofi_protocol *protocol =
        na_ofi_protocol(self->base.protocol, strlen(self->base.protocol));
    struct na_ofi_question question;
    unsigned char key[NA_OFI_KEY_MAX];
    struct ifaddrs *all = NULL;
    na_return_t ret;

    HG_ASSERT(protocol != NULL);
    ret = na_ofi_choose_provider(self, protocol, key, &question);
    if (ret != NA_SUCCESS)
        return ret;
    if (protocol->format == FI_ADDR_STR) {
        ret = na_ofi_choose_str(self, &question, host);
    } else if (protocol->format == FI_FORMAT_UNSPEC) {
        ret = na_ofi_choose_native(self, &question, host);
    } else if (getifaddrs(&all) != 0) {
        ret = na_ofi_failed(self, "cannot list", "interfaces", errno);
    } else {
        ret = na_ofi_choose_inet(self, &question, host, all);
        freeifaddrs(all);
    }
    self->families[0].info = self->info;
    if (ret != NA_SUCCESS)
        return ret;
    na_ofi_set_sizes(self);
    na_ofi_choose_wait(self);
    return NA_SUCCESS;
}
