/* SPDX-License-Identifier: BSD-3-Clause */
/* plugins: see plugins.h. */
#include "na/plugins.h"

#include "base/log.h"
#include "base/mem.h"
#include "emul/emul.h"
#include "na/addr.h"
#include "na/self.h"
#include "sm/sm.h"

#define NA_PLUGINS_MAX 32

#if HG_NA_ZMQ
extern const struct na_plugin hg_na_zmq_plugin;
#endif
#if HG_NA_OFI
extern const struct na_plugin hg_na_ofi_plugin;
#endif
#if HG_NA_MPI
extern const struct na_plugin hg_na_mpi_plugin;
#endif

/* Registered transports, in order; NULL after the last. None is ever
 * removed. */
static _Atomic(const struct na_plugin *) na_plugins_registered[NA_PLUGINS_MAX];

/* The i-th built-in transport, in order of preference; NULL after the last. */
static const struct na_plugin *na_plugins_builtin(unsigned i)
{
    const struct na_plugin *const tables[] = {
#if HG_ENABLE_SM
        na_sm_table(),
#endif
        na_self_table(),
#if HG_NA_ZMQ
        &hg_na_zmq_plugin,
#endif
#if HG_NA_OFI
        &hg_na_ofi_plugin,
#endif
#if HG_NA_MPI
        &hg_na_mpi_plugin,
#endif
        NULL,
    };

    return tables[i];
}

HG_PRIVATE const char *na_plugins_default(void)
{
#if HG_ENABLE_SM
    return "sm://";
#else
    return "self://";
#endif
}

HG_PRIVATE const char *na_plugins_mercury_name(const char *name)
{
    return strcmp(name, "sm") == 0 ? "na" : name;
}

/* Whether a NULL-terminated list of names has that one. */
static bool na_plugins_has(const char *const *names, const char *name)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* The transport that replaces Mercury's transport of that name. */
static const char *na_plugins_alias(const char *name)
{
    static const char *const by_ofi[] = {"ucx", "bmi", "psm", "psm2", NULL};

    if (strcmp(name, "na") == 0)
        return "sm";
    return na_plugins_has(by_ofi, name) ? "ofi" : name;
}

HG_PRIVATE bool na_plugins_named(
    const struct na_plugin *plugin, const struct na_uri *uri)
{
    return uri->plugin[0] == '\0' || strcmp(uri->plugin, plugin->name) == 0 ||
        strcmp(na_plugins_alias(uri->plugin), plugin->name) == 0;
}

HG_PRIVATE bool na_plugins_speaks(
    const struct na_plugin *plugin, const struct na_uri *uri)
{
    return na_plugins_named(plugin, uri) &&
        na_plugins_has(plugin->protocols, uri->protocol);
}

/* Registered transports first, the latest before the others. */
HG_PRIVATE const struct na_plugin *na_plugins_get(unsigned i)
{
    unsigned count = 0;

    while (count < NA_PLUGINS_MAX &&
        atomic_load(&na_plugins_registered[count]) != NULL)
        count++;
    return i < count ? na_plugins_registered[count - 1 - i]
                     : na_plugins_builtin(i - count);
}

/* Append the address prefixes of a transport, as far as space permits. */
static void na_plugins_list(
    const struct na_plugin *plugin, char *names, size_t room)
{
    const char *const *protocol;
    size_t size = strlen(names);

    for (protocol = plugin->protocols; *protocol != NULL; protocol++) {
        bool same = strcmp(plugin->name, *protocol) == 0;
        int n = snprintf(names + size, room - size, "%s%s%s%s://",
            size > 0 ? ", " : "", same ? "" : plugin->name, same ? "" : "+",
            *protocol);

        if (n < 0 || (size_t) n >= room - size) {
            names[size] = '\0';
            return;
        }
        size += (size_t) n;
    }
}

/* Transports in separate files: whether they are compiled in, and the names of
 * plugins and protocols they serve. */
struct na_plugins_absent {
    bool here;
    const char *file;
    const char *macro;
    const char *speaks[12];
};

static const struct na_plugins_absent na_plugins_absent[] = {
    {HG_NA_OFI, "ofi", "OFI",
        {"ofi", "cxi", "efa", "gni", "opx", "psm", "psm2", "psm3", "shm",
            "sockets", "verbs", NULL}},
    {HG_NA_MPI, "mpi", "MPI", {"mpi", "dynamic", "static", NULL}},
    {HG_NA_ZMQ, "zmq", "ZMQ", {"zmq", "inproc", "ipc", "tcp", NULL}},
};

/* Advice about an address string that no transport here serves. */
static void na_plugins_advise(
    const struct na_uri *uri, char *advice, size_t size)
{
    bool plain = uri->plugin[0] == '\0';
    const char *name = strstr(uri->protocol, ";ofi_") != NULL ? "ofi"
        : plain                                               ? uri->protocol
                : na_plugins_alias(uri->plugin);
    const struct na_plugins_absent *absent = na_plugins_absent;
    unsigned i;

    advice[0] = '\0';
    if (!HG_ENABLE_SM && strcmp(uri->protocol, "sm") == 0)
        (void) snprintf(advice, size, " (sm was left out of hg.c)");
    for (i = 0; i < 3; i++, absent++) {
        if (!absent->here && na_plugins_has(absent->speaks, name))
            (void) snprintf(advice, size,
                "; if you have hg_na_%s.c, add it and compile hg.c with "
                "-DHG_NA_%s=1",
                absent->file, absent->macro);
    }
}

/* Log that no transport serves the address, and list those that exist. */
static void na_plugins_log_none(const struct na_uri *uri)
{
    const struct na_plugin *plugin;
    char advice[128];
    char names[256];
    unsigned i;

    names[0] = '\0';
    for (i = 0; (plugin = na_plugins_get(i)) != NULL; i++)
        na_plugins_list(plugin, names, sizeof(names));
    na_plugins_advise(uri, advice, sizeof(advice));
    hg_log_error("cls", "%s: no transport here speaks %s%s%s; here: %s%s",
        NA_Error_to_string(NA_PROTONOSUPPORT), uri->plugin,
        uri->plugin[0] != '\0' ? "+" : "", uri->protocol, names, advice);
}

HG_PRIVATE const struct na_plugin *na_plugins_find(const struct na_uri *uri)
{
    const struct na_plugin *found = NULL;
    const struct na_plugin *plugin;
    unsigned i;

    for (i = 0; found == NULL && (plugin = na_plugins_get(i)) != NULL; i++) {
        if (na_plugins_speaks(plugin, uri))
            found = plugin;
    }
    if (found == NULL)
        na_plugins_log_none(uri);
    return found;
}

/* Whether a table has all slots of RMA; otherwise it is emulated. */
static bool na_plugins_has_rma(const struct na_plugin *plugin)
{
    if (plugin->put == NULL || plugin->get == NULL)
        return plugin->put == plugin->get;
    return plugin->mem_register != NULL && plugin->mem_deregister != NULL &&
        plugin->mem_serialize_size != NULL && plugin->mem_serialize != NULL &&
        plugin->mem_deserialize != NULL;
}

NA_EXPORT na_return_t NA_Register_plugin(const struct na_plugin *plugin)
{
    unsigned i;

    if (plugin == NULL || plugin->abi != NA_PLUGIN_ABI ||
        plugin->size < offsetof(struct na_plugin, list_devices) ||
        plugin->name == NULL || plugin->protocols == NULL ||
        plugin->open == NULL || plugin->close == NULL ||
        plugin->addr_resolve == NULL || plugin->msg_send == NULL ||
        plugin->poll == NULL || !na_plugins_has_rma(plugin)) {
        hg_log_error("cls",
            "NA_Register_plugin: not a table of this version, "
            "or a required slot is missing");
        return NA_INVALID_ARG;
    }
    for (i = 0; i < NA_PLUGINS_MAX; i++) {
        const struct na_plugin *none = NULL;

        if (atomic_compare_exchange_strong(
                &na_plugins_registered[i], &none, plugin))
            return NA_SUCCESS;
    }
    hg_log_error(
        "cls", "no more than %d transports can be registered", NA_PLUGINS_MAX);
    return NA_AGAIN;
}

/* ---- What stands in empty slots ---- */

static na_return_t na_plugins_context_create(struct na_context *context)
{
    (void) context;
    return NA_SUCCESS;
}

static void na_plugins_context_ignore(struct na_context *context)
{
    (void) context;
}

/* No connection is needed: the address is found at once. */
static na_return_t na_plugins_addr_lookup(struct na_op *op)
{
    struct na_class *na_class = op->context->na_class;
    na_return_t ret = na_class_ops(na_class)->addr_resolve(
        na_class, op->name, NA_FALSE, &op->result_addr);

    if (ret != NA_SUCCESS && ret != NA_HOSTUNREACH)
        return ret;
    na_class->core->complete(op, ret);
    return NA_SUCCESS;
}

static void na_plugins_addr_release(struct na_addr *addr)
{
    (void) addr;
}

static na_bool_t na_plugins_addr_cmp(
    const struct na_addr *addr1, const struct na_addr *addr2)
{
    if (addr1->self && addr2->self)
        return NA_TRUE;
    return addr1->name != NULL && addr2->name != NULL &&
            strcmp(addr1->name, addr2->name) == 0 && !na_addr_is_dead(addr1) &&
            !na_addr_is_dead(addr2)
        ? NA_TRUE
        : NA_FALSE;
}

static na_bool_t na_plugins_addr_connect(struct na_addr *addr)
{
    (void) addr;
    return NA_FALSE;
}

static void na_plugins_addr_abandon(struct na_addr *addr)
{
    addr->na_class->core->addr_dead(addr, NA_DISCONNECT);
}

static na_return_t na_plugins_op_refuse(struct na_op *op)
{
    hg_log_error("cls", "the transport %s cannot do that",
        na_class_ops(op->context->na_class)->name);
    return NA_OPNOTSUPPORT;
}

static const char *na_plugins_addr_nobody(const struct na_addr *addr)
{
    (void) addr;
    return "";
}

static na_return_t na_plugins_exposed(struct na_class *na_class)
{
    (void) na_class;
    return NA_SUCCESS;
}

static na_return_t na_plugins_rma_later(const struct na_op *op)
{
    (void) op;
    return NA_AGAIN;
}

static void na_plugins_mem_ignore(struct na_mem_handle *mem)
{
    (void) mem;
}

static na_return_t na_plugins_mem_ordinary(
    struct na_class *na_class, unsigned long flags, struct na_mem_block *block)
{
    (void) na_class;
    (void) flags;
    (void) block;
    return NA_NOMEM;
}

static na_return_t na_plugins_mem_unshared(struct na_mem_handle *mem,
    struct na_addr *owner, na_size_t segment, struct na_mem_block *block)
{
    (void) mem;
    (void) owner;
    (void) segment;
    (void) block;
    return NA_OPNOTSUPPORT;
}

static na_return_t na_plugins_frame_refuse(struct na_addr *addr,
    const void *header, size_t header_size, const void *data, size_t size,
    void (*release)(void *arg), void *arg)
{
    (void) header;
    (void) header_size;
    (void) data;
    (void) size;
    (void) release;
    (void) arg;
    hg_log_error("rma", "the transport %s has no remote memory access",
        na_class_ops(addr->na_class)->name);
    return NA_OPNOTSUPPORT;
}

static int na_plugins_poll_fd(struct na_context *context)
{
    (void) context;
    return NA_POLL_FD_NONE;
}

static na_bool_t na_plugins_wait_begin(struct na_context *context)
{
    (void) context;
    return NA_TRUE;
}

static void na_plugins_reclaim(struct na_class *na_class)
{
    (void) na_class;
}

static na_return_t na_plugins_cancel(struct na_op *op, uint64_t op_id)
{
    (void) op;
    (void) op_id;
    return NA_NOENTRY;
}

static const struct na_plugin na_plugins_defaults = {
    .context_create = na_plugins_context_create,
    .context_destroy = na_plugins_context_ignore,
    .addr_lookup = na_plugins_addr_lookup,
    .addr_release = na_plugins_addr_release,
    .addr_connect = na_plugins_addr_connect,
    .addr_cmp = na_plugins_addr_cmp,
    .addr_terminate = na_plugins_op_refuse,
    .addr_abandon = na_plugins_addr_abandon,
    .addr_identity = na_plugins_addr_nobody,
    .frame_send = na_plugins_frame_refuse,
    .poll_fd = na_plugins_poll_fd,
    .wait_begin = na_plugins_wait_begin,
    .wait_end = na_plugins_context_ignore,
    .cancel = na_plugins_cancel,
    .reclaim = na_plugins_reclaim,
    .mem_alloc = na_plugins_mem_ordinary,
    .mem_release = na_plugins_mem_ignore,
    .rma_now = na_plugins_rma_later,
    .addr_expose = na_plugins_exposed,
    .mem_map = na_plugins_mem_unshared,
};

HG_PRIVATE void na_plugins_fill(
    const struct na_plugin *plugin, struct na_plugin *ops_p)
{
    const char *defaults = (const char *) &na_plugins_defaults;
    char *ops = (char *) ops_p;
    void (*slot)(void);
    size_t at;

    memset(ops_p, 0, sizeof(*ops_p));
    memcpy(ops_p, plugin,
        plugin->size < sizeof(*ops_p) ? plugin->size : sizeof(*ops_p));
    /* The members from here on are function pointers and sizes; the defaults
     * have 0 for the sizes. */
    for (at = offsetof(struct na_plugin, open); at < sizeof(*ops_p);
         at += sizeof(slot)) {
        memcpy(&slot, ops + at, sizeof(slot));
        if (slot == NULL)
            memcpy(ops + at, defaults + at, sizeof(slot));
    }
}

HG_PRIVATE void na_plugins_emulate(struct na_plugin *ops)
{
    ops->caps &= ~(uint64_t) NA_CAP_HANDS_OVER;
    ops->max_segments = 0;
    ops->mem_register = na_emul_mem_register;
    ops->mem_deregister = na_emul_mem_deregister;
    ops->mem_serialize_size = na_emul_mem_serialize_size;
    ops->mem_serialize = na_emul_mem_serialize;
    ops->mem_deserialize = na_emul_mem_deserialize;
    ops->put = na_emul_put;
    ops->get = na_emul_get;
    ops->rma_now = na_plugins_rma_later;
    ops->mem_map = na_plugins_mem_unshared;
}

/* ---- The list of protocols ---- */

/* Copy a string with its NUL to *at_p, and move *at_p behind it. */
static char *na_plugins_copy(char **at_p, const char *str)
{
    size_t size = strlen(str) + 1;
    char *copy = *at_p;

    memcpy(copy, str, size);
    *at_p += size;
    return copy;
}

/* A list that grows at its end. */
struct na_plugins_protocols {
    struct na_protocol_info *first;
    struct na_protocol_info **last;
    const struct na_plugin *plugin; /* of the entries being added */
    const char *protocol;
    bool no_memory; /* logged */
};

/* Add an entry, with Mercury's names. */
static void na_plugins_add(void *arg, const char *device)
{
    struct na_plugins_protocols *list = (struct na_plugins_protocols *) arg;
    const char *transport = na_plugins_mercury_name(list->plugin->name);
    size_t size =
        strlen(transport) + 1 + strlen(list->protocol) + 1 + strlen(device) + 1;
    struct na_protocol_info *entry;
    char *at;

    HG_ASSERT(transport[0] != '\0' && list->protocol[0] != '\0');
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
    entry->class_name = na_plugins_copy(&at, transport);
    entry->protocol_name = na_plugins_copy(&at, list->protocol);
    entry->device_name = na_plugins_copy(&at, device);
    *list->last = entry;
    list->last = &entry->next;
}

/* Add the devices of a protocol. */
static void na_plugins_add_devices(struct na_plugins_protocols *list)
{
    if (list->plugin->size > offsetof(struct na_plugin, list_devices) &&
        list->plugin->list_devices != NULL)
        list->plugin->list_devices(list->protocol, na_plugins_add, list);
    else
        na_plugins_add(list, strcmp(list->protocol, "sm") == 0 ? "shm" : "any");
}

static bool na_plugins_wanted(const struct na_uri *uri,
    const struct na_plugin *plugin, const char *protocol)
{
    return uri == NULL ||
        (na_plugins_named(plugin, uri) && strcmp(uri->protocol, protocol) == 0);
}

HG_EXPORT hg_return_t HG_Get_na_protocol_info(
    const char *info_string, struct na_protocol_info **na_protocol_info_p)
{
    struct na_plugins_protocols list = {NULL, NULL, NULL, NULL, false};
    const char *const *protocol;
    struct na_uri uri;
    hg_return_t ret;
    unsigned i;

    if (na_protocol_info_p == NULL) {
        hg_log_error(
            "cls", "HG_Get_na_protocol_info: the pointer for the list is NULL");
        return HG_INVALID_ARG;
    }
    if (info_string != NULL && na_uri_parse(info_string, &uri) != NA_SUCCESS)
        return HG_INVALID_ARG;
    ret = hg_log_occupy_fds(); /* libfabric keeps descriptors */
    if (ret != HG_SUCCESS)
        return ret;
    list.last = &list.first;
    for (i = 0; (list.plugin = na_plugins_get(i)) != NULL; i++) {
        for (protocol = list.plugin->protocols; *protocol != NULL; protocol++) {
            list.protocol = *protocol;
            if (na_plugins_wanted(
                    info_string != NULL ? &uri : NULL, list.plugin, *protocol))
                na_plugins_add_devices(&list);
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
