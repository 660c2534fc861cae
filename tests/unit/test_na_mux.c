/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A class of several transports from inside: the lists it writes and reads, in
 * strings and in memory handles, and what it does when memory runs out.
 */
#include "support/house.h"

#include "engine.h"

/* ---- Strings ---- */

HG_TEST(mux_lists_are_taken_apart)
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
HG_TEST(mux_lists_have_no_address_that_is_too_long)
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

static size_t mux_write(unsigned char *buf, const char *tag, const char *bytes)
{
    size_t size = NA_RMA_LIST_PART + strlen(tag);

    na_rma_put_part(buf, tag, (uint32_t) strlen(bytes));
    memcpy(buf + size, bytes, strlen(bytes));
    return size + strlen(bytes);
}

/* As drawn in rma.c. */
static const unsigned char mux_list[] = {0x68, 0x58, 1, 2, /* two parts */
    3, 0, 0, 0, 7, 'z', 'm', 'q', '+', 't', 'c', 'p', 'o', 'n', 'e', /* */
    5, 0, 0, 0, 2, 's', 'm', 't', 'h', 'r', 'e', 'e'};

HG_TEST(mux_descriptions_of_all_parts_are_one)
{
    unsigned char buf[64];
    const void *found;
    na_size_t size = 0;
    size_t n = NA_RMA_LIST_HEAD;

    na_rma_put_head(buf, 2);
    n += mux_write(buf + n, "zmq+tcp", "one");
    n += mux_write(buf + n, "sm", "three");
    HG_CHECK_EQ_U64(n, sizeof(mux_list));
    HG_CHECK_EQ_MEM(buf, mux_list, n);
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
HG_TEST(mux_descriptions_may_be_damaged)
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

/* A list that has nothing for the transport of a class is no description, also
 * where it is as long as one. */
HG_TEST(mux_descriptions_for_others_are_refused)
{
    unsigned char bytes[NA_EMUL_WIRE_HANDLE_SIZE];
    na_class_t *na_class = NA_Initialize("self://", NA_TRUE);
    na_mem_handle_t remote = NULL;

    hg_test_expect_log("are no memory handle");
    HG_CHECK(na_class != NULL);
    na_rma_put_head(bytes, 1);
    HG_CHECK_EQ_U64(NA_RMA_LIST_HEAD +
            mux_write(bytes + NA_RMA_LIST_HEAD, "sm", "thirteenbytes"),
        sizeof(bytes));
    HG_CHECK_RET(
        NA_Mem_handle_deserialize(na_class, &remote, bytes, sizeof(bytes)),
        NA_PROTOCOL_ERROR);
    HG_CHECK(remote == NULL);
    HG_CHECK_OK(NA_Finalize(na_class));
}

#if HG_ENABLE_SM

static const char mux_string[] = "self://;sm://";

/* Opens, describes memory and reads that again, finds itself. */
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

/* A get by a part from memory that is described by `bytes` ends with
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

/* A list with the description for sm in `bytes`, and no other. */
static na_size_t mux_only_sm(
    unsigned char *list, const unsigned char *bytes, na_size_t size)
{
    size_t n = NA_RMA_LIST_HEAD + NA_RMA_LIST_PART + strlen("sm");
    na_size_t part = 0;
    const void *from = na_rma_find_part(bytes, size, "sm", &part);

    HG_CHECK(from != NULL && part > 0);
    na_rma_put_head(list, 1);
    na_rma_put_part(list + NA_RMA_LIST_HEAD, "sm", (uint32_t) part);
    memcpy(list + n, from, part);
    return n + part;
}

/* The transports of one class describe the same memory, of the same size and
 * with the same access. */
HG_TEST(mux_descriptions_that_contradict_are_refused)
{
    static const struct {
        na_size_t size;
        unsigned long flags;
    } mems[3] = {
        {64, NA_MEM_READWRITE}, {32, NA_MEM_READWRITE}, {64, NA_MEM_READ_ONLY}};
    na_class_t *na_class = NA_Initialize(mux_string, NA_TRUE);
    unsigned char bytes[3][512], list[512];
    na_mem_handle_t mem[3];
    na_context_t *context;
    na_size_t size = 0;
    char memory[64];
    unsigned i;

    hg_test_expect_log("descriptions of memory contradict each other");
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
    mux_get_refused(na_class, context, mux_part(na_class, 0), list,
        mux_only_sm(list, bytes[0], size));
    for (i = 1; i < 3; i++) { /* self tells the size, sm contradicts */
        mux_replace(bytes[0], bytes[i], size);
        mux_get_refused(
            na_class, context, mux_part(na_class, 1), bytes[0], size);
    }
    for (i = 0; i < 3; i++)
        HG_CHECK_OK(NA_Mem_handle_free(na_class, mem[i]));
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* Large arguments are for one peer: they are registered with the part that
 * reaches it, so that none of the others keeps anybody from taking them
 * back. */
HG_TEST(mux_shows_large_arguments_by_the_part_of_their_peer)
{
    static const struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct hg_rpc rpc = {0, blob_proc, blob_proc, NULL, NULL, NULL, 0};
    struct blob blob = engine_new_blob((size_t) 1 << 20, 1);
    char name[NA_MAX_ADDR_LEN];
    struct engine engine; /* with one end */
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
    HG_CHECK_OK(hg_forward_cancel(call.handle));
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

/* Somebody calls by sm. */
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
    HG_CHECK_OK(na_msg_try_rpc(context, &msg));
    while (atomic_load(&taken) == 0)
        (void) sched_yield();
    na_sink_close(na_class, number);
    HG_CHECK_OK(NA_Addr_free(caller, msg.addr));
    HG_CHECK_OK(NA_Context_destroy(caller, context));
    HG_CHECK_OK(NA_Context_destroy(na_class, called));
}

/* Who called has an address, also while nobody else has that; it goes with its
 * peer, lest a server keep those of all that ever called. */
HG_TEST(mux_forgets_who_called_once_he_is_dead)
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

/* The name by which sm goes at an address is that of one listener: the same
 * path may be another file to others, or later, and what is inside a process
 * has no name outside. */
HG_TEST(mux_names_of_two_listeners_are_two)
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
    HG_CHECK(!na_mux_derive(string, name[0])); /* nobody is there */
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

/* An address that no other process has: the name that follows from it is the
 * node's. */
static const char *mux_own_address(void)
{
    static char address[32];

    (void) snprintf(address, sizeof(address), "loop://%ld", (long) getpid());
    return address;
}

/* Whoever is faster has the name by which sm goes at an address; the class is
 * opened all the same, and comes by another one. */
HG_TEST(mux_does_without_a_name_that_is_taken)
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

struct mux_lookup {
    unsigned ends;
    na_return_t ret;
    na_addr_t addr;
};

static na_return_t mux_found(const struct na_cb_info *info)
{
    struct mux_lookup *lookup = (struct mux_lookup *) info->arg;

    lookup->ends++;
    lookup->ret = info->ret;
    if (info->ret == NA_SUCCESS)
        lookup->addr = info->info.lookup.addr;
    return NA_SUCCESS;
}

/* A lookup whose time at a silent listener of sm is over tries the network. */
HG_TEST(mux_tries_the_network_after_sm)
{
    struct mux_lookup lookup = {0, NA_SUCCESS, NULL};
    const char *address = mux_own_address();
    na_class_t *silent, *peer, *na_class;
    char name[NA_MAX_ADDR_LEN];
    struct na_sm_class *sm;
    struct na_sm_addr *addr;
    na_context_t *context;

    loop_register();
    na_class = NA_Initialize("loop://b;sm://", NA_FALSE);
    HG_CHECK(na_class != NULL);
    context = NA_Context_create(na_class);
    HG_CHECK(context != NULL);
    HG_CHECK(na_mux_derive(address, name));
    silent = NA_Initialize(name, NA_TRUE);
    peer = NA_Initialize(address, NA_TRUE);
    HG_CHECK(silent != NULL && peer != NULL);
    HG_CHECK_OK(NA_Addr_lookup(
        na_class, context, mux_found, &lookup, address, NA_OP_ID_IGNORE));
    (void) NA_Progress(na_class, context, 0);
    sm = na_sm_of(mux_part(na_class, 1));
    HG_CHECK(!hg_list_is_empty(&sm->dialling));
    addr = HG_CONTAINER_OF(sm->dialling.next, struct na_sm_addr, turn);
    /* As if lookup_ms had passed. */
    hg_test_expect_log("cannot be reached: what listens there gives no answer");
    addr->deadline = 0;
    sm->tick = 0;
    sm->look = true;
    while (lookup.ends == 0) {
        (void) NA_Progress(na_class, context, 0);
        (void) NA_Trigger(context, 0, 1, NULL);
    }
    HG_CHECK_OK(lookup.ret);
    HG_CHECK(lookup.addr->na_class == na_class); /* the first part */
    HG_CHECK_OK(NA_Addr_free(na_class, lookup.addr));
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
    HG_CHECK_OK(NA_Finalize(peer));
    HG_CHECK_OK(NA_Finalize(silent));
}

/* A transport that can only connect: a name that a peer gave must not block
 * progress. */
HG_TEST(lookup_of_a_peer_s_name_does_not_connect)
{
    const char *address = mux_own_address();
    na_class_t *na_class, *peer;
    struct na_addr *addr = NULL;

    loop_register();
    na_class = NA_Initialize("loop://b", NA_FALSE);
    peer = NA_Initialize(address, NA_TRUE);
    HG_CHECK(na_class != NULL && peer != NULL);
    na_class_core_of(na_class)->ops.addr_resolve = NULL;
    HG_CHECK_RET(
        na_lookup_resolve(na_class, address, NA_TRUE, &addr), NA_OPNOTSUPPORT);
    HG_CHECK_OK(na_lookup_resolve(na_class, address, NA_FALSE, &addr));
    na_addr_unref(addr);
    HG_CHECK_OK(NA_Finalize(na_class));
    HG_CHECK_OK(NA_Finalize(peer));
}

/* ---- Lookups that are canceled ---- */

/* What a part's addr_lookup does, and then its cancel. */
enum mux_turn { MUX_WAITS, MUX_ENDS, MUX_REFUSES };

static struct {
    na_class_t *na_class;
    na_context_t *context;
    na_op_id_t lookup;
    struct na_op *turn[2]; /* that is under way */
    unsigned begun[2];
    enum mux_turn fate[2];
    int cancel_in;   /* the beginning of that part's turn; -1: none */
    bool ends_first; /* a turn, before it can be canceled */
    unsigned ends;
    na_return_t ret;
} mux_now;

static unsigned mux_index(const struct na_class *part)
{
    return part != mux_now.na_class;
}

static void mux_end_turn(unsigned part, na_return_t ret)
{
    struct na_op *op = mux_now.turn[part];

    mux_now.turn[part] = NULL;
    op->context->na_class->core->complete(op, ret);
}

static na_return_t mux_begin_turn(struct na_op *op)
{
    unsigned part = mux_index(op->context->na_class);

    mux_now.begun[part]++;
    if (mux_now.fate[part] == MUX_REFUSES)
        return NA_NODEV;
    mux_now.turn[part] = op;
    if (mux_now.cancel_in == (int) part)
        HG_CHECK_OK(
            NA_Cancel(mux_now.na_class, mux_now.context, mux_now.lookup));
    if (mux_now.fate[part] == MUX_ENDS && mux_now.turn[part] != NULL)
        mux_end_turn(part, NA_HOSTUNREACH);
    return NA_SUCCESS;
}

static na_return_t mux_cancel_turn(struct na_op *op, uint64_t op_id)
{
    unsigned part = mux_index(op->context->na_class);

    if (mux_now.turn[part] != op || na_op_id_of(op) != op_id)
        return NA_NOENTRY;
    mux_end_turn(part, mux_now.ends_first ? NA_HOSTUNREACH : NA_CANCELED);
    return mux_now.ends_first ? NA_NOENTRY : NA_SUCCESS;
}

static na_return_t mux_looked_up(const struct na_cb_info *info)
{
    mux_now.ends++;
    mux_now.ret = info->ret;
    return NA_SUCCESS;
}

/* A class whose parts' lookups are ours. */
static void mux_open_turns(enum mux_turn first, enum mux_turn second)
{
    unsigned i;

    memset(&mux_now, 0, sizeof(mux_now));
    mux_now.fate[0] = first;
    mux_now.fate[1] = second;
    mux_now.cancel_in = -1;
    mux_now.na_class = NA_Initialize(mux_string, NA_TRUE);
    HG_CHECK(mux_now.na_class != NULL);
    mux_now.context = NA_Context_create(mux_now.na_class);
    HG_CHECK(mux_now.context != NULL);
    for (i = 0; i < 2; i++) {
        struct na_plugin *ops =
            &na_class_core_of(mux_part(mux_now.na_class, i))->ops;

        ops->addr_lookup = mux_begin_turn;
        ops->cancel = mux_cancel_turn;
    }
}

static na_return_t mux_look_up(void)
{
    return NA_Addr_lookup(mux_now.na_class, mux_now.context, mux_looked_up,
        NULL, "self://nobody;sm://nobody-is-here", &mux_now.lookup);
}

/* What follows the end of a turn. */
static void mux_turn_ended(void)
{
    HG_CHECK(mux_now.ends == 0);
    (void) NA_Progress(mux_now.na_class, mux_now.context, 0);
}

/* The lookup has ended once, and so; it can be canceled no more. */
static void mux_close_turns(na_return_t ret)
{
    mux_turn_ended();
    HG_CHECK_RET(NA_Cancel(mux_now.na_class, mux_now.context, mux_now.lookup),
        NA_NOENTRY);
    HG_CHECK_OK(NA_Trigger(mux_now.context, 0, 1, NULL));
    HG_CHECK_EQ_INT(mux_now.ends, 1);
    HG_CHECK_RET(mux_now.ret, ret);
    HG_CHECK_RET(NA_Cancel(mux_now.na_class, mux_now.context, mux_now.lookup),
        NA_NOENTRY);
    HG_CHECK_RET(NA_Trigger(mux_now.context, 0, 1, NULL), NA_TIMEOUT);
    HG_CHECK(mux_now.turn[0] == NULL && mux_now.turn[1] == NULL);
    HG_CHECK_OK(NA_Context_destroy(mux_now.na_class, mux_now.context));
    HG_CHECK_OK(NA_Finalize(mux_now.na_class));
}

HG_TEST(mux_lookup_is_canceled_in_its_turn)
{
    mux_open_turns(MUX_WAITS, MUX_WAITS);
    HG_CHECK_OK(mux_look_up());
    mux_end_turn(0, NA_HOSTUNREACH);
    mux_turn_ended();
    HG_CHECK_EQ_INT(mux_now.begun[1], 1);
    HG_CHECK_OK(NA_Cancel(mux_now.na_class, mux_now.context, mux_now.lookup));
    mux_close_turns(NA_CANCELED);
}

/* A turn ends while it is being canceled: no other begins. */
HG_TEST(mux_lookup_is_canceled_between_turns)
{
    mux_open_turns(MUX_WAITS, MUX_WAITS);
    HG_CHECK_OK(mux_look_up());
    mux_now.ends_first = true;
    HG_CHECK_OK(NA_Cancel(mux_now.na_class, mux_now.context, mux_now.lookup));
    HG_CHECK_EQ_INT(mux_now.begun[1], 0);
    mux_close_turns(NA_CANCELED);
}

/* Nor is a turn forgotten that began when it was canceled. */
HG_TEST(mux_lookup_is_canceled_as_a_turn_begins)
{
    mux_open_turns(MUX_WAITS, MUX_WAITS);
    mux_now.cancel_in = 1;
    HG_CHECK_OK(mux_look_up());
    mux_end_turn(0, NA_HOSTUNREACH);
    mux_turn_ended();
    mux_close_turns(NA_CANCELED);
    mux_open_turns(MUX_WAITS, MUX_ENDS);
    mux_now.cancel_in = 1;
    HG_CHECK_OK(mux_look_up());
    mux_end_turn(0, NA_HOSTUNREACH);
    mux_turn_ended();
    mux_close_turns(NA_CANCELED);
}

/* Turns may end, or fail, as they begin. */
HG_TEST(mux_lookup_takes_turns_that_end_at_once)
{
    mux_open_turns(MUX_ENDS, MUX_WAITS);
    HG_CHECK_OK(mux_look_up());
    mux_turn_ended();
    mux_end_turn(1, NA_PERMISSION);
    mux_close_turns(NA_PERMISSION);
    mux_open_turns(MUX_WAITS, MUX_REFUSES);
    HG_CHECK_OK(mux_look_up());
    mux_end_turn(0, NA_PERMISSION);
    mux_close_turns(NA_NODEV);
    mux_open_turns(MUX_ENDS, MUX_REFUSES);
    HG_CHECK_OK(mux_look_up());
    mux_close_turns(NA_NODEV);
}

#endif
