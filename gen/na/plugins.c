/* SPDX-License-Identifier: BSD-3-Clause */
/* plugins: see plugins.h. */
#include "na/plugins.h"

#include "base/log.h"
#include "emul/emul.h"
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

/* Registered transports, in order; NULL behind the last. None is removed. */
static _Atomic(const struct na_plugin *) na_plugins_registered[NA_PLUGINS_MAX];

/* The i-th transport compiled in, in order of preference; NULL past the
 * last. */
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

/* The transport that serves what Mercury's transport of that name does. */
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

/* Registered ones first, the latest in front. */
HG_PRIVATE const struct na_plugin *na_plugins_get(unsigned i)
{
    unsigned count = 0;

    while (count < NA_PLUGINS_MAX &&
        atomic_load(&na_plugins_registered[count]) != NULL)
        count++;
    return i < count ? na_plugins_registered[count - 1 - i]
                     : na_plugins_builtin(i - count);
}

/* Append what one may type for a transport, as far as there is room. */
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

/* The file that has the transport of an address string; "": nobody knows. */
static const char *na_plugins_file(const struct na_uri *uri)
{
    static const char *const ofi[] = {"cxi", "efa", "gni", "opx", "psm", "psm2",
        "psm3", "shm", "sockets", "verbs", NULL};
    static const char *const mpi[] = {"dynamic", "static", NULL};
    static const char *const zmq[] = {"inproc", "ipc", "tcp", NULL};
    const char *plugin = na_plugins_alias(uri->plugin);

    if (strcmp(plugin, "ofi") == 0 || strstr(uri->protocol, ";ofi_") != NULL)
        return "ofi";
    if (strcmp(plugin, "mpi") == 0 || strcmp(plugin, "zmq") == 0)
        return plugin;
    if (plugin[0] != '\0')
        return "";
    if (na_plugins_has(ofi, uri->protocol))
        return "ofi";
    if (na_plugins_has(mpi, uri->protocol))
        return "mpi";
    return na_plugins_has(zmq, uri->protocol) ? "zmq" : "";
}

/* What to do about an address string that no transport here speaks. */
static void na_plugins_advise(
    const struct na_uri *uri, char *advice, size_t size)
{
    const char *file = na_plugins_file(uri);
    bool there = (HG_NA_ZMQ && strcmp(file, "zmq") == 0) ||
        (HG_NA_OFI && strcmp(file, "ofi") == 0) ||
        (HG_NA_MPI && strcmp(file, "mpi") == 0);

    assert(file[0] == '\0' || strlen(file) == 3);
    advice[0] = '\0';
    if (!HG_ENABLE_SM && strcmp(uri->protocol, "sm") == 0)
        (void) snprintf(advice, size, " (sm was left out of hg.c)");
    else if (file[0] != '\0' && !there)
        (void) snprintf(advice, size,
            "; if you have hg_na_%s.c, add it and compile hg.c with "
            "-DHG_NA_%c%c%c=1",
            file, file[0] - 'a' + 'A', file[1] - 'a' + 'A',
            file[2] - 'a' + 'A');
}

/* Nobody speaks that: say what is spoken here. */
static void na_plugins_tell_none(const struct na_uri *uri)
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
        na_plugins_tell_none(uri);
    return found;
}

/* Whether a table moves memory with all it takes, or not at all. */
static bool na_plugins_has_rma_whole(const struct na_plugin *plugin)
{
    if (plugin->put == NULL || plugin->get == NULL)
        return plugin->put == plugin->get;
    return plugin->mem_register != NULL && plugin->mem_deregister != NULL &&
        plugin->mem_serialize_size != NULL && plugin->mem_serialize != NULL &&
        plugin->mem_deserialize != NULL;
}

static bool na_plugins_finds_peers(const struct na_plugin *plugin)
{
    return plugin->addr_lookup != NULL ||
        (plugin->size > offsetof(struct na_plugin, addr_resolve) &&
            plugin->addr_resolve != NULL);
}

NA_EXPORT na_return_t NA_Register_plugin(const struct na_plugin *plugin)
{
    unsigned i;

    if (plugin == NULL || plugin->abi != NA_PLUGIN_ABI ||
        plugin->size < offsetof(struct na_plugin, poll_fd) ||
        plugin->name == NULL || plugin->protocols == NULL ||
        plugin->open == NULL || plugin->close == NULL ||
        !na_plugins_finds_peers(plugin) || plugin->msg_send == NULL ||
        plugin->poll == NULL || !na_plugins_has_rma_whole(plugin)) {
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

/* Nothing to connect: the address is found at once. */
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
            strcmp(addr1->name, addr2->name) == 0
        ? NA_TRUE
        : NA_FALSE;
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

static na_return_t na_plugins_rma_later(const struct na_op *op)
{
    (void) op;
    return NA_AGAIN;
}

static na_return_t na_plugins_mem_refuse(struct na_mem_handle *mem)
{
    hg_log_error("rma", "the transport %s has no remote memory access",
        na_class_ops(mem->na_class)->name);
    return NA_OPNOTSUPPORT;
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

static na_size_t na_plugins_mem_no_size(const struct na_mem_handle *mem)
{
    (void) mem;
    return 0;
}

static void na_plugins_mem_no_bytes(const struct na_mem_handle *mem, void *buf)
{
    (void) mem;
    (void) buf;
}

static na_return_t na_plugins_mem_no_handle(
    struct na_mem_handle *mem, const void *buf, na_size_t buf_size)
{
    (void) buf;
    (void) buf_size;
    return na_plugins_mem_refuse(mem);
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

HG_PRIVATE void na_plugins_fill(
    const struct na_plugin *plugin, struct na_plugin *ops_p)
{
    size_t size = plugin->size;

    if (size > sizeof(*ops_p))
        size = sizeof(*ops_p);
    memset(ops_p, 0, sizeof(*ops_p));
    memcpy(ops_p, plugin, size);
    if (ops_p->context_create == NULL)
        ops_p->context_create = na_plugins_context_create;
    if (ops_p->context_destroy == NULL)
        ops_p->context_destroy = na_plugins_context_ignore;
    if (ops_p->addr_lookup == NULL)
        ops_p->addr_lookup = na_plugins_addr_lookup;
    if (ops_p->addr_release == NULL)
        ops_p->addr_release = na_plugins_addr_release;
    if (ops_p->addr_cmp == NULL)
        ops_p->addr_cmp = na_plugins_addr_cmp;
    if (ops_p->addr_terminate == NULL)
        ops_p->addr_terminate = na_plugins_op_refuse;
    if (ops_p->addr_abandon == NULL)
        ops_p->addr_abandon = na_plugins_addr_abandon;
    if (ops_p->poll_fd == NULL)
        ops_p->poll_fd = na_plugins_poll_fd;
    if (ops_p->wait_begin == NULL)
        ops_p->wait_begin = na_plugins_wait_begin;
    if (ops_p->wait_end == NULL)
        ops_p->wait_end = na_plugins_context_ignore;
    if (ops_p->cancel == NULL)
        ops_p->cancel = na_plugins_cancel;
    if (ops_p->reclaim == NULL)
        ops_p->reclaim = na_plugins_reclaim;
    if (ops_p->mem_alloc == NULL)
        ops_p->mem_alloc = na_plugins_mem_ordinary;
    if (ops_p->rma_now == NULL)
        ops_p->rma_now = na_plugins_rma_later;
    if (ops_p->addr_identity == NULL)
        ops_p->addr_identity = na_plugins_addr_nobody;
    if (ops_p->mem_release == NULL)
        ops_p->mem_release = na_plugins_mem_ignore;
}

HG_PRIVATE void na_plugins_emulate(struct na_plugin *ops)
{
    bool frames = ops->frame_send != NULL;

    ops->caps &= ~(uint64_t) NA_CAP_HANDS_OVER;
    ops->max_segments = 0;
    ops->mem_register = frames ? na_emul_mem_register : na_plugins_mem_refuse;
    ops->mem_deregister =
        frames ? na_emul_mem_deregister : na_plugins_mem_ignore;
    ops->mem_serialize_size =
        frames ? na_emul_mem_serialize_size : na_plugins_mem_no_size;
    ops->mem_serialize =
        frames ? na_emul_mem_serialize : na_plugins_mem_no_bytes;
    ops->mem_deserialize =
        frames ? na_emul_mem_deserialize : na_plugins_mem_no_handle;
    ops->put = frames ? na_emul_put : na_plugins_op_refuse;
    ops->get = frames ? na_emul_get : na_plugins_op_refuse;
    ops->rma_now = na_plugins_rma_later;
}
