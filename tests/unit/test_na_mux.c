/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A class of several transports: the lists it writes and reads, in strings and
 * in memory handles, and its behavior when memory runs out.
 */
#include "support/library.h"
#include "unit/locked.h"

#include "engine.h"

/* ---- Strings ---- */

HG_TEST(mux_lists_are_parsed)
{
    static const struct {
        const char *string;
        const char *parts[5];
    } lists[] = {
        {"sm://", {"sm://"}},
        {"zmq+tcp", {"zmq+tcp"}},
        {"zmq+tcp://h:1;sm://", {"zmq+tcp://h:1", "sm://"}},
        {"a://x;y;b+c.d-e_f://;z", {"a://x;y", "b+c.d-e_f://;z"}},
        {"a://;b;c://d;://e", {"a://;b", "c://d;://e"}},
        {"ofi+tcp;ofi_rxm://h", {"ofi+tcp;ofi_rxm://h"}},
        {"ofi+tcp://;ofi+tcp;ofi_rxm://h;udp;ofi_rxd://;sm://",
            {"ofi+tcp://", "ofi+tcp;ofi_rxm://h", "udp;ofi_rxd://", "sm://"}},
        {"", {NULL}},
    };
    char part[NA_MAX_ADDR_LEN];
    size_t i, n;

    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const char *at = lists[i].string;

        HG_CHECK(na_uri_is_list(at) == (lists[i].parts[1] != NULL));
        for (n = 0; lists[i].parts[n] != NULL; n++) {
            HG_CHECK(na_uri_next(&at, part));
            HG_CHECK_EQ_STR(part, lists[i].parts[n]);
        }
        HG_CHECK(!na_uri_next(&at, part));
    }
}

/* An address with its NUL has at most NA_MAX_ADDR_LEN bytes. */
HG_TEST(mux_lists_with_an_address_too_long_are_refused)
{
    char list[NA_MAX_ADDR_LEN + 8];
    char part[NA_MAX_ADDR_LEN];
    size_t size;

    for (size = NA_MAX_ADDR_LEN - 1; size <= NA_MAX_ADDR_LEN; size++) {
        const char *at = list;

        memset(list, 'a', sizeof(list));
        memcpy(list + size, ";sm://", 7);
        HG_CHECK(na_uri_is_list(at));
        HG_CHECK(na_uri_next(&at, part) == (size < NA_MAX_ADDR_LEN));
        HG_CHECK_EQ_STR(at, size < NA_MAX_ADDR_LEN ? "sm://" : list);
    }
}

/* ---- Memory handles ---- */

/* Begin a list of so many parts. */
static void mux_head(unsigned char *buf, unsigned parts)
{
    memcpy(buf, "hX\1", 3);
    buf[3] = (unsigned char) parts;
}

/* A part of a list; returns its size. */
static size_t mux_write(
    unsigned char *buf, const char *tag, const void *bytes, size_t size)
{
    struct hg_wire wire =
        hg_wire_writer(buf, NA_RMA_LIST_PART + strlen(tag) + size);

    hg_wire_put32(&wire, (uint32_t) size);
    hg_wire_put8(&wire, (uint8_t) strlen(tag));
    hg_wire_put_bytes(&wire, tag, strlen(tag));
    hg_wire_put_bytes(&wire, bytes, size);
    HG_CHECK(!wire.failed && hg_wire_left(&wire) == 0);
    return NA_RMA_LIST_PART + strlen(tag) + size;
}

/* In the format described in rma.c. */
static const unsigned char mux_list[] = {0x68, 0x58, 1, 2, /* two parts */
    3, 0, 0, 0, 7, 'z', 'm', 'q', '+', 't', 'c', 'p', 'o', 'n', 'e', /* */
    5, 0, 0, 0, 2, 's', 'm', 't', 'h', 'r', 'e', 'e'};

HG_TEST(mux_descriptions_are_found_by_their_tags)
{
    const void *found;
    na_size_t size = 0;
    size_t n = sizeof(mux_list);

    found = na_rma_find_part(mux_list, n, "sm", &size);
    HG_CHECK(found == mux_list + n - 5);
    HG_CHECK_EQ_U64(size, 5);
    found = na_rma_find_part(mux_list, n, "zmq+tcp", &size);
    HG_CHECK(found == mux_list + 16);
    HG_CHECK_EQ_U64(size, 3);
    HG_CHECK(na_rma_find_part(mux_list, n, "zmq+ipc", &size) == NULL);
    HG_CHECK(na_rma_find_part(mux_list, n, "s", &size) == NULL);
    HG_CHECK(na_rma_find_part(mux_list, n, "sm2", &size) == NULL);
    HG_CHECK(na_rma_find_part(mux_list, n, "", &size) == NULL);
}

/* Only bytes that begin as a list of descriptions are one. */
HG_TEST(mux_descriptions_are_known_by_their_first_bytes)
{
    unsigned char bytes[sizeof(mux_list)];
    na_size_t size = 0;
    size_t i;

    for (i = 0; i < 3; i++) {
        memcpy(bytes, mux_list, sizeof(bytes));
        bytes[i] ^= 0x80;
        HG_CHECK(na_rma_find_part(bytes, sizeof(bytes), "sm", &size) == bytes);
        HG_CHECK_EQ_U64(size, sizeof(bytes));
        HG_CHECK(na_rma_find_part(mux_list, i, "sm", &size) == mux_list);
        HG_CHECK_EQ_U64(size, i);
    }
}

/* A truncated or damaged description is not read past its end. */
HG_TEST(mux_descriptions_that_are_damaged_are_refused)
{
    uint64_t random = hg_test_seed();
    na_size_t size = 0;
    unsigned round;
    size_t n;

    for (n = NA_RMA_LIST_HEAD - 1; n < sizeof(mux_list); n++) {
        unsigned char *cut = (unsigned char *) malloc(n > 0 ? n : 1);

        HG_CHECK(cut != NULL);
        memcpy(cut, mux_list, n);
        HG_CHECK(na_rma_find_part(cut, n, "sm", &size) == NULL);
        free(cut);
    }
    for (round = 0; round < 2000; round++) {
        unsigned char *spoiled = (unsigned char *) malloc(sizeof(mux_list));
        const unsigned char *found;

        HG_CHECK(spoiled != NULL);
        memcpy(spoiled, mux_list, sizeof(mux_list));
        for (n = 1 + hg_test_random(&random) % 3; n > 0; n--)
            spoiled[hg_test_random(&random) % sizeof(mux_list)] =
                (unsigned char) hg_test_random(&random);
        found = (const unsigned char *) na_rma_find_part(
            spoiled, sizeof(mux_list), "sm", &size);
        HG_CHECK(found == NULL ||
            (found >= spoiled &&
                size <= (size_t) (spoiled + sizeof(mux_list) - found)));
        free(spoiled);
    }
}

/* ---- Classes ---- */

/* A list without an entry for the transport of a class is refused, also if it
 * has the length of one. */
HG_TEST(mux_descriptions_for_others_are_refused)
{
    unsigned char bytes[NA_EMUL_WIRE_HANDLE_SIZE];
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    na_mem_handle_t remote = NULL;

    hg_test_expect_log("are not a memory handle");
    HG_CHECK(na_class != NULL);
    mux_head(bytes, 1);
    HG_CHECK_EQ_U64(NA_RMA_LIST_HEAD +
            mux_write(bytes + NA_RMA_LIST_HEAD, "sm", "thirteenbytes", 13),
        sizeof(bytes));
    HG_CHECK_RET(
        NA_Mem_handle_deserialize(na_class, &remote, bytes, sizeof(bytes)),
        NA_PROTOCOL_ERROR);
    HG_CHECK(remote == NULL);
    HG_CHECK_OK(NA_Finalize(na_class));
}

#if HG_ENABLE_SM

static const char mux_string[] = "self://;sm://";

/* Open a class, serialize and deserialize memory, look itself up. */
static int mux_live(void *arg)
{
    na_class_t *na_class = NA_Initialize(mux_string, NA_TRUE);
    na_mem_handle_t mem = NULL, remote = NULL;
    na_context_t *context = NULL;
    char memory[64], name[NA_MAX_ADDR_LEN];
    unsigned char bytes[512];
    na_addr_t self = NULL, found = NULL;
    na_size_t size;
    int failed = 1;

    (void) arg;
    if (na_class == NULL)
        return 1;
    context = NA_Context_create(na_class);
    if (context == NULL ||
        NA_Mem_handle_create(na_class, memory, sizeof(memory), NA_MEM_READWRITE,
            &mem) != NA_SUCCESS ||
        NA_Mem_register(na_class, mem) != NA_SUCCESS)
        goto close;
    size = NA_Mem_handle_get_serialize_size(na_class, mem);
    HG_CHECK(size > 0 && size <= sizeof(bytes));
    HG_CHECK_OK(NA_Mem_handle_serialize(na_class, bytes, size, mem));
    if (NA_Mem_handle_deserialize(na_class, &remote, bytes, size) != NA_SUCCESS)
        goto close;
    HG_CHECK_EQ_U64(remote->size, sizeof(memory));
    HG_CHECK_EQ_U64(NA_Mem_handle_get_serialize_size(na_class, remote), size);
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK_OK(NA_Addr_to_string(na_class, name, sizeof(name), self));
    if (NA_Addr_lookup_wait(na_class, name, 1000, &found) != NA_SUCCESS)
        goto close;
    HG_CHECK(NA_Addr_is_self(na_class, found) == NA_TRUE);
    failed = 0;

close:
    if (found != NULL)
        HG_CHECK_OK(NA_Addr_free(na_class, found));
    if (self != NULL)
        HG_CHECK_OK(NA_Addr_free(na_class, self));
    if (remote != NULL)
        HG_CHECK_OK(NA_Mem_handle_free(na_class, remote));
    if (mem != NULL)
        HG_CHECK_OK(NA_Mem_handle_free(na_class, mem));
    if (context != NULL)
        HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
    return failed;
}

HG_TEST(mux_survives_out_of_memory)
{
    unsigned fds;

    hg_test_alloc_install();
    HG_CHECK_EQ_INT(mux_live(NULL), 0);
    fds = hg_test_fd_count();
    HG_CHECK(hg_test_oom_loop(mux_live, NULL) > 20);
    HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
}

/* A part of a class; the first one is 0. */
static na_class_t *mux_part(na_class_t *na_class, unsigned n)
{
    struct na_class_core *part = na_class_core_of(na_class);

    while (n-- > 0)
        part = part->next;
    return &part->pub;
}

/* A get by a part from memory that `bytes` describe ends with
 * NA_PROTOCOL_ERROR. */
static void mux_get_refused(na_class_t *na_class, na_context_t *context,
    const na_class_t *part, const unsigned char *bytes, na_size_t size)
{
    na_mem_handle_t remote, local;
    char memory[64];

    HG_CHECK_OK(NA_Mem_handle_deserialize(na_class, &remote, bytes, size));
    HG_CHECK_EQ_U64(remote->size, 64);
    HG_CHECK_OK(
        NA_Mem_handle_create(na_class, memory, 64, NA_MEM_READWRITE, &local));
    HG_CHECK_RET(NA_Get(na_class, context, NULL, NULL, local, 0, remote, 0, 64,
                     part->self_addr, NA_OP_ID_IGNORE),
        NA_PROTOCOL_ERROR);
    HG_CHECK_OK(NA_Mem_handle_free(na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(na_class, remote));
}

/* Replace the description for sm in `bytes` by that in `other`. */
static void mux_replace(
    unsigned char *bytes, const unsigned char *other, na_size_t size)
{
    na_size_t part = 0;
    const unsigned char *from =
        (const unsigned char *) na_rma_find_part(other, size, "sm", &part);

    HG_CHECK(from != NULL && part > 0);
    memcpy(bytes + (from - other), from, part);
}

/* A list with only the description for sm in `bytes`. */
static na_size_t mux_only_sm(
    unsigned char *list, const unsigned char *bytes, na_size_t size)
{
    na_size_t part = 0;
    const void *from = na_rma_find_part(bytes, size, "sm", &part);

    HG_CHECK(from != NULL && part > 0);
    mux_head(list, 1);
    return NA_RMA_LIST_HEAD +
        mux_write(list + NA_RMA_LIST_HEAD, "sm", from, (size_t) part);
}

/* The transports of one class must describe the same memory, with the same size
 * and access. */
HG_TEST(mux_descriptions_that_contradict_are_refused)
{
    static const struct {
        na_size_t size;
        unsigned long flags;
    } mems[3] = {
        {64, NA_MEM_READWRITE}, {32, NA_MEM_READWRITE}, {64, NA_MEM_READ_ONLY}};
    na_class_t *na_class = NA_Initialize(mux_string, NA_TRUE);
    unsigned char bytes[3][512], list[512];
    na_mem_handle_t mem[3], remote;
    na_context_t *context;
    na_size_t size = 0;
    char memory[64];
    unsigned i;

    hg_test_expect_log("contradict each other");
    hg_test_expect_log("did not describe its memory for self");
    HG_CHECK(na_class != NULL);
    context = NA_Context_create(na_class);
    HG_CHECK(context != NULL);
    for (i = 0; i < 3; i++) {
        HG_CHECK_OK(NA_Mem_handle_create(
            na_class, memory, mems[i].size, mems[i].flags, &mem[i]));
        HG_CHECK_OK(NA_Mem_register(na_class, mem[i]));
        size = NA_Mem_handle_get_serialize_size(na_class, mem[i]);
        HG_CHECK(size <= sizeof(bytes[i]));
        HG_CHECK_OK(NA_Mem_handle_serialize(na_class, bytes[i], size, mem[i]));
    }
    HG_CHECK_EQ_MEM(bytes[0], "hX\1\2", 4);
    mux_get_refused(na_class, context, mux_part(na_class, 0), list,
        mux_only_sm(list, bytes[0], size));
    for (i = 1; i < 3; i++) { /* self gives the size, sm contradicts */
        mux_replace(bytes[0], bytes[i], size);
        HG_CHECK_RET(
            NA_Mem_handle_deserialize(na_class, &remote, bytes[0], size),
            NA_PROTOCOL_ERROR);
        HG_CHECK_EQ_U64(NA_Get_counter(na_class, "rma_malformed"), i + 1);
    }
    for (i = 0; i < 3; i++)
        HG_CHECK_OK(NA_Mem_handle_free(na_class, mem[i]));
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* A handle is not freed while a transfer of any transport uses it. */
HG_TEST(mux_handles_that_one_part_uses_are_not_freed)
{
    na_class_t *na_class = NA_Initialize(mux_string, NA_TRUE);
    na_mem_handle_t mem = NULL;
    char memory[64];
    unsigned i;

    hg_test_expect_log("NA_Mem_handle_free: a transfer uses the handle");
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(
        NA_Mem_handle_create(na_class, memory, 64, NA_MEM_READWRITE, &mem));
    for (i = 0; i < 2; i++) {
        struct na_mem_core *part = na_mem_core_of(mem);

        if (i > 0)
            part = part->next;
        atomic_fetch_add(&part->users, 1); /* as the start of a get does */
        HG_CHECK_RET(NA_Mem_handle_free(na_class, mem), NA_BUSY);
        atomic_fetch_sub(&part->users, 1);
    }
    HG_CHECK_OK(NA_Mem_handle_free(na_class, mem));
    HG_CHECK_OK(NA_Finalize(na_class));
}

static na_return_t mux_register_fails(struct na_mem_handle *mem)
{
    (void) mem;
    return NA_NOMEM;
}

/* Memory that one transport cannot register is registered with none. */
HG_TEST(mux_registers_with_all_parts_or_none)
{
    na_class_t *na_class = NA_Initialize(mux_string, NA_TRUE);
    na_return_t (*works)(struct na_mem_handle *);
    struct na_class_core *sm;
    na_mem_handle_t mem = NULL;
    char memory[64];

    HG_CHECK(na_class != NULL);
    sm = na_class_core_of(mux_part(na_class, 1));
    works = sm->ops.mem_register;
    HG_CHECK_OK(
        NA_Mem_handle_create(na_class, memory, 64, NA_MEM_READWRITE, &mem));
    sm->ops.mem_register = mux_register_fails;
    HG_CHECK_RET(NA_Mem_register(na_class, mem), NA_NOMEM);
    hg_test_expect_log("NA_Mem_deregister: it is not registered");
    HG_CHECK_RET(NA_Mem_deregister(na_class, mem), NA_NOENTRY);
    sm->ops.mem_register = works;
    HG_CHECK_OK(NA_Mem_register(na_class, mem));
    HG_CHECK_OK(NA_Mem_deregister(na_class, mem));
    HG_CHECK_OK(NA_Mem_handle_free(na_class, mem));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* Large arguments are for one peer: they are registered with the part that
 * reaches it, so that no other part delays their release. */
HG_TEST(mux_exposes_large_arguments_through_the_peers_transport)
{
    static const struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct hg_rpc rpc = {0, blob_proc, blob_proc, NULL, NULL, NULL, 0};
    struct blob blob = engine_new_blob((size_t) 1 << 20, 1);
    char name[NA_MAX_ADDR_LEN];
    struct engine engine; /* with one endpoint */
    struct engine_call call;
    na_addr_t self = NULL;
    na_class_t *peer;

    memset(&engine, 0, sizeof(engine));
    info.progress_thread = NA_TRUE;
    peer = NA_Initialize_opt("sm://", NA_TRUE, &info);
    HG_CHECK(peer != NULL);
    HG_CHECK_OK(NA_Addr_self(peer, &self));
    HG_CHECK_OK(NA_Addr_to_string(peer, name, sizeof(name), self));
    HG_CHECK_OK(NA_Addr_free(peer, self));
    HG_CHECK_OK(engine_open_end(&engine.a, mux_string, 0, &options));
    HG_CHECK_OK(
        NA_Addr_lookup_wait(engine.a.na_class, name, 10000, &engine.a.peer));
    HG_CHECK(engine.a.peer->na_class != engine.a.na_class);
    HG_CHECK_OK(engine_start(&engine,
        hg_registry_add(&engine.a.hg_class->registry, "large", NULL, &rpc),
        &blob, &call));
    HG_CHECK(call.handle->in_large.mem != NULL);
    HG_CHECK(call.handle->in_large.mem->na_class == engine.a.peer->na_class);
    HG_CHECK(na_mem_core_of(call.handle->in_large.mem)->next == NULL);
    HG_CHECK_OK(locked_forward_cancel(call.handle));
    while (call.ends == 0)
        engine_turn(&engine.a);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    engine_forget(&call);
    engine_close_end(&engine.a);
    HG_CHECK_OK(NA_Finalize(peer));
    free(blob.bytes);
}

/* How many addresses a part of a class has. */
static unsigned mux_count_addrs(na_class_t *part)
{
    struct na_class_core *core = na_class_core_of(part);
    const struct na_link *link;
    unsigned count = 0;

    hg_lock(&core->list_lock);
    for (link = core->addrs.next; link != &core->addrs; link = link->next)
        count++;
    hg_unlock(&core->list_lock);
    return count;
}

static na_return_t mux_take(void *arg, struct na_addr *source, na_tag_t tag,
    const void *data, na_size_t size)
{
    _Atomic unsigned *taken = (_Atomic unsigned *) arg;

    (void) source;
    (void) tag;
    (void) data;
    (void) size;
    atomic_fetch_add(taken, 1);
    return NA_SUCCESS;
}

/* A process calls over sm. */
static void mux_be_called(na_class_t *na_class, na_class_t *caller)
{
    const char *name = mux_part(na_class, 1)->self_addr->name;
    na_context_t *called = NA_Context_create(na_class);
    na_context_t *context = NA_Context_create(caller);
    _Atomic unsigned taken = 0;
    uint8_t number;
    char call[] = "call";
    struct na_segment segment = {call, sizeof(call)};
    struct na_msg msg;

    HG_CHECK(called != NULL && context != NULL);
    HG_CHECK_OK(na_sink_open(na_class, 0, mux_take, NULL, &taken, &number));
    memset(&msg, 0, sizeof(msg));
    msg.segments = &segment;
    msg.segment_count = 1;
    msg.size = segment.size;
    msg.plane = NA_MSG_RPC;
    HG_CHECK_OK(NA_Addr_lookup_wait(caller, name, 10000, &msg.addr));
    hg_enter(na_class_core_of(caller)->lock);
    HG_CHECK_OK(na_msg_try(context, &msg));
    hg_leave(na_class_core_of(caller)->lock);
    while (atomic_load(&taken) == 0)
        (void) sched_yield();
    na_sink_close(na_class, number);
    HG_CHECK_OK(NA_Addr_free(caller, msg.addr));
    HG_CHECK_OK(NA_Context_destroy(caller, context));
    HG_CHECK_OK(NA_Context_destroy(na_class, called));
}

/* A caller has an address even if no reference to it exists. The address goes
 * with its peer, so that a server does not keep those of all past callers. */
HG_TEST(mux_forgets_a_caller_when_it_dies)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class, *caller;
    na_class_t *sm;

    info.progress_thread = NA_TRUE;
    na_class = NA_Initialize_opt(mux_string, NA_TRUE, &info);
    caller = NA_Initialize("sm://", NA_TRUE);
    HG_CHECK(na_class != NULL && caller != NULL);
    sm = mux_part(na_class, 1);
    HG_CHECK_EQ_INT(mux_count_addrs(sm), 1); /* our own */
    mux_be_called(na_class, caller);
    HG_CHECK_EQ_INT(mux_count_addrs(sm), 2);
    HG_CHECK_OK(NA_Finalize(caller));
    while (mux_count_addrs(sm) > 1)
        (void) sched_yield();
    HG_CHECK_OK(NA_Finalize(na_class));
}

static int mux_listen_at(const char *path)
{
    struct sockaddr_un where;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memset(&where, 0, sizeof(where));
    where.sun_family = AF_UNIX;
    (void) snprintf(where.sun_path, sizeof(where.sun_path), "%s", path);
    HG_CHECK(fd >= 0);
    HG_CHECK(!bind(fd, (const struct sockaddr *) &where, sizeof(where)));
    return fd;
}

/* The name that sm derives from an address belongs to one listener: the same
 * path may be another file for other processes, or later, and a listener within
 * a process has no name outside. */
HG_TEST(mux_derived_names_are_unique)
{
    char path[NA_MAX_ADDR_LEN], string[NA_MAX_ADDR_LEN + 16];
    char name[4][NA_MAX_ADDR_LEN];
    int fds[2];

    HG_CHECK(na_mux_derive("zmq+tcp://127.0.0.1:5000", name[0]));
    HG_CHECK(na_mux_derive("tcp://127.0.0.1:5000", name[1]));
    HG_CHECK_EQ_STR(name[0], name[1]);
    HG_CHECK(na_mux_derive("zmq+ipc://@five", name[2]));
    HG_CHECK(!na_mux_derive("zmq+inproc://five", name[0]));
    HG_CHECK(!na_mux_derive("inproc://five", name[0]));
    (void) snprintf(path, sizeof(path), "%s/a", hg_test_dir());
    (void) snprintf(string, sizeof(string), "zmq+ipc://%s", path);
    HG_CHECK(!na_mux_derive(string, name[0])); /* no listener */
    fds[0] = mux_listen_at(path);
    HG_CHECK(na_mux_derive(string, name[0]));
    (void) snprintf(string, sizeof(string), "zmq+ipc://%s/./a", hg_test_dir());
    HG_CHECK(na_mux_derive(string, name[1]));
    HG_CHECK_EQ_STR(name[0], name[1]);
    HG_CHECK(unlink(path) == 0);
    fds[1] = mux_listen_at(path);
    HG_CHECK(na_mux_derive(string, name[1]));
    HG_CHECK(strcmp(name[0], name[1]) != 0 && strcmp(name[0], name[2]) != 0);
    (void) snprintf(string, sizeof(string), "zmq+ipc://%s", hg_test_dir());
    HG_CHECK(!na_mux_derive(string, name[0])); /* no socket */
    (void) close(fds[0]);
    (void) close(fds[1]);
    HG_CHECK(unlink(path) == 0);
}

/* An address that no other process has: the name derived from it is unique on
 * the node. */
static const char *mux_own_address(void)
{
    static char address[32];

    (void) snprintf(address, sizeof(address), "loop://%ld", (long) getpid());
    return address;
}

/* The first process gets the name that sm derives from an address. The class is
 * opened without it, and sm uses another name. */
HG_TEST(mux_works_without_a_name_that_is_taken)
{
    const char *address = mux_own_address();
    na_class_t *na_class, *taker;
    char string[64];
    char name[NA_MAX_ADDR_LEN];
    uint64_t hash = (uint64_t) geteuid() << 1;

    loop_register();
    (void) snprintf(string, sizeof(string), "%s;sm://", address);
    hash = hg_crc64_update(hash, address, strlen(address));
    (void) snprintf(name, sizeof(name), "sm://auto-%016" PRIx64, hash);
    HG_CHECK(na_sm_is_free(name + 5));
    taker = NA_Initialize(name, NA_TRUE);
    HG_CHECK(taker != NULL && !na_sm_is_free(name + 5));
    na_class = NA_Initialize(string, NA_TRUE);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Finalize(na_class));
    HG_CHECK_OK(NA_Finalize(taker));
    na_class = NA_Initialize(string, NA_TRUE);
    HG_CHECK(na_class != NULL && !na_sm_is_free(name + 5));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* The address that a class chooses from a list. */
static void mux_check_choice(
    na_class_t *na_class, const char *list, na_class_t *part, const char *name)
{
    char chosen[NA_MAX_ADDR_LEN];

    HG_CHECK(na_mux_choose(na_class, list, chosen) == part);
    if (part != NULL)
        HG_CHECK_EQ_STR(chosen, name);
}

/* A path without a socket has no listener: the next address is chosen, and the
 * last one in any case. */
HG_TEST(mux_chooses_a_path_when_a_socket_exists)
{
    char path[NA_MAX_ADDR_LEN], list[NA_MAX_ADDR_LEN];
    char first[NA_MAX_ADDR_LEN / 2], last[NA_MAX_ADDR_LEN / 2];
    na_class_t *na_class;
    int fd;

    loop_register();
    na_class = NA_Initialize("loop://b;sm://", NA_FALSE);
    HG_CHECK(na_class != NULL);
    na_class->protocol = "ipc"; /* as if this class supported it */
    (void) snprintf(path, sizeof(path), "%s/a", hg_test_dir());
    (void) snprintf(first, sizeof(first), "loop+ipc://%s/a", hg_test_dir());
    (void) snprintf(last, sizeof(last), "loop+ipc://%s/b", hg_test_dir());
    (void) snprintf(list, sizeof(list), "%s;%s", first, last);
    mux_check_choice(na_class, list, na_class, last);
    fd = mux_listen_at(path);
    mux_check_choice(na_class, list, na_class, first);
    (void) close(fd);
    HG_CHECK(unlink(path) == 0);
    na_class->protocol = "loop";
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* sm, if a listener has the name derived from an address; else the first
 * address that has a transport here. */
HG_TEST(mux_chooses_sm_for_listeners_on_this_node)
{
    const char *address = mux_own_address();
    char list[NA_MAX_ADDR_LEN], sm[NA_MAX_ADDR_LEN];
    na_class_t *na_class, *peer;

    loop_register();
    na_class = NA_Initialize("loop://b;sm://", NA_FALSE);
    HG_CHECK(na_class != NULL && na_mux_derive(address, sm));
    (void) snprintf(list, sizeof(list), "zmq+nosuch://x;%s;sm://n", address);
    mux_check_choice(na_class, list, na_class, address);
    mux_check_choice(na_class, "sm://n", mux_part(na_class, 1), "sm://n");
    mux_check_choice(na_class, "zmq+nosuch://x;nor+this://", NULL, NULL);
    peer = NA_Initialize(sm, NA_TRUE);
    HG_CHECK(peer != NULL);
    mux_check_choice(na_class, list, mux_part(na_class, 1), sm);
    HG_CHECK_OK(NA_Finalize(peer));
    mux_check_choice(na_class, list, na_class, address);
    HG_CHECK_OK(NA_Finalize(na_class));
}

#endif
