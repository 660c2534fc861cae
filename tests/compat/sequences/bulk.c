/* SPDX-License-Identifier: BSD-3-Clause */
/* Bulk handles and transfers. */
#include "sequences.h"

MERCURY_GEN_PROC(move_t, ((hg_bulk_t) (bulk))((uint32_t) (what)))

static char bytes[64] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ";

static void handles_refused(hg_class_t *hg_class)
{
    void *ptr = bytes;
    hg_size_t size = 16;
    hg_bulk_t bulk = HG_BULK_NULL;

    say("no class",
        HG_Bulk_create(NULL, 1, &ptr, &size, HG_BULK_READWRITE, &bulk));
    say("no segments",
        HG_Bulk_create(hg_class, 0, &ptr, &size, HG_BULK_READWRITE, &bulk));
    say("no sizes",
        HG_Bulk_create(hg_class, 1, &ptr, NULL, HG_BULK_READWRITE, &bulk));
    say("no flags", HG_Bulk_create(hg_class, 1, &ptr, &size, 0, &bulk));
    say("unknown flags", HG_Bulk_create(hg_class, 1, &ptr, &size, 0x80, &bulk));
    say("no attributes",
        HG_Bulk_create_attr(
            hg_class, 1, &ptr, &size, HG_BULK_READWRITE, NULL, &bulk));
    say_number("handle set", bulk != HG_BULK_NULL);
    say("free", HG_Bulk_free(HG_BULK_NULL));
    say("reference", HG_Bulk_ref_incr(HG_BULK_NULL));
    say_number("address", HG_Bulk_get_addr(HG_BULK_NULL) != HG_ADDR_NULL);
    say_number("size of bytes",
        (long long) HG_Bulk_get_serialize_size(HG_BULK_NULL, 0));
    say("bytes", HG_Bulk_serialize(bytes, 64, 0, HG_BULK_NULL));
    say("access",
        HG_Bulk_access(
            HG_BULK_NULL, 0, 1, HG_BULK_READWRITE, 1, NULL, NULL, NULL));
    say("from nowhere", HG_Bulk_deserialize(hg_class, NULL, bytes, 64));
}

static void accessed(const char *step, hg_bulk_t bulk, hg_size_t offset,
    hg_size_t size, uint32_t max)
{
    void *ptrs[4] = {NULL};
    hg_size_t sizes[4] = {0};
    uint32_t i, count = 9;

    say_values(step,
        HG_Bulk_access(
            bulk, offset, size, HG_BULK_READWRITE, max, ptrs, sizes, &count),
        "%u", count);
    for (i = 0; count <= 4 && i < count; i++)
        printf("  at %d, %" PRIu64 " bytes\n", (int) ((char *) ptrs[i] - bytes),
            sizes[i]);
}

static void handles_accessed(hg_class_t *hg_class)
{
    void *ptrs[3] = {bytes, bytes + 20, bytes + 40};
    hg_size_t sizes[3] = {10, 10, 10};
    uint32_t count = 9;
    hg_bulk_t bulk = HG_BULK_NULL;

    say("three segments",
        HG_Bulk_create(hg_class, 3, ptrs, sizes, HG_BULK_READ_ONLY, &bulk));
    say_number("segments", HG_Bulk_get_segment_count(bulk));
    say_number("size", (long long) HG_Bulk_get_size(bulk));
    say_number("flags", HG_Bulk_get_flags(bulk) & HG_BULK_READWRITE);
    accessed("all", bulk, 0, 30, 4);
    accessed("all, one at most", bulk, 0, 30, 1);
    accessed("in the middle", bulk, 5, 10, 4);
    accessed("at an edge", bulk, 10, 10, 4);
    accessed("no bytes", bulk, 5, 0, 4);
    accessed("none at most", bulk, 5, 10, 0);
    say_values("count only",
        HG_Bulk_access(bulk, 5, 10, HG_BULK_READWRITE, 4, NULL, NULL, &count),
        "%u", count);
    say("nothing asked for",
        HG_Bulk_access(bulk, 5, 10, HG_BULK_READWRITE, 4, NULL, NULL, NULL));
    say("reference", HG_Bulk_ref_incr(bulk));
    say("free", HG_Bulk_free(bulk));
    say_number("segments", HG_Bulk_get_segment_count(bulk));
    say("free", HG_Bulk_free(bulk));
}

static void handles_allocated(hg_class_t *hg_class)
{
    struct hg_bulk_attr attributes = {HG_MEM_TYPE_HOST, 0};
    hg_size_t sizes[3] = {8, 0, 8}, none = 0;
    void *ptr = NULL;
    hg_size_t size = 0;
    uint32_t count = 9;
    hg_bulk_t bulk = HG_BULK_NULL;

    say("memory of its own, one segment empty",
        HG_Bulk_create_attr(
            hg_class, 3, NULL, sizes, HG_BULK_READWRITE, &attributes, &bulk));
    say_number("segments", HG_Bulk_get_segment_count(bulk));
    say_number("size", (long long) HG_Bulk_get_size(bulk));
    say_values("access",
        HG_Bulk_access(bulk, 0, 4, HG_BULK_READWRITE, 1, &ptr, &size, &count),
        "%d %" PRIu64 " %u", ptr != NULL && *(char *) ptr == 0, size, count);
    say("free", HG_Bulk_free(bulk));
    say("an empty segment",
        HG_Bulk_create(hg_class, 1, &ptr, &none, HG_BULK_READWRITE, &bulk));
    ptr = NULL;
    say("free", HG_Bulk_free(bulk));
    say("an empty segment nowhere",
        HG_Bulk_create(hg_class, 1, &ptr, &none, HG_BULK_READWRITE, &bulk));
    say("free", HG_Bulk_free(bulk));
    say("an empty handle",
        HG_Bulk_create(hg_class, 1, NULL, &none, HG_BULK_READWRITE, &bulk));
    say_number("size", (long long) HG_Bulk_get_size(bulk));
    say("free", HG_Bulk_free(bulk));
}

static void handles_serialized(hg_class_t *hg_class, hg_context_t *context)
{
    void *ptr = bytes;
    hg_size_t size = 50, room;
    char *buf;
    hg_bulk_t bulk = HG_BULK_NULL, copy = HG_BULK_NULL;

    (void) HG_Bulk_create(hg_class, 1, &ptr, &size, HG_BULK_READ_ONLY, &bulk);
    room = HG_Bulk_get_serialize_size(bulk, 0);
    buf = malloc(room + 100);
    say("bytes", HG_Bulk_serialize(buf, room, 0, bulk));
    say("deserialize", HG_Bulk_deserialize(hg_class, &copy, buf, room));
    say_number("segments", HG_Bulk_get_segment_count(copy));
    say_number("size", (long long) HG_Bulk_get_size(copy));
    say_number("flags", HG_Bulk_get_flags(copy) & HG_BULK_READWRITE);
    say_number("address", HG_Bulk_get_addr(copy) != HG_ADDR_NULL);
    say("free", HG_Bulk_free(copy));
    say("with more room", HG_Bulk_serialize(buf, room + 100, 0, bulk));
    say("deserialize", HG_Bulk_deserialize(hg_class, &copy, buf, room + 100));
    say("free", HG_Bulk_free(copy));
    say_number("address", HG_Bulk_get_addr(bulk) != HG_ADDR_NULL);
    say("bind to nothing", HG_Bulk_bind(bulk, NULL));
    say("bind nothing", HG_Bulk_bind(HG_BULK_NULL, context));
    say("bind", HG_Bulk_bind(bulk, context));
    say_number("address", HG_Bulk_get_addr(bulk) != HG_ADDR_NULL);
    say_number("context", HG_Bulk_get_context_id(bulk));
    say("bind again", HG_Bulk_bind(bulk, context));
    say_number("larger", HG_Bulk_get_serialize_size(bulk, 0) > room);
    free(buf);
    room = HG_Bulk_get_serialize_size(bulk, 0);
    buf = malloc(room);
    say("bytes", HG_Bulk_serialize(buf, room, 0, bulk));
    say("deserialize", HG_Bulk_deserialize(hg_class, &copy, buf, room));
    say_number("address", HG_Bulk_get_addr(copy) != HG_ADDR_NULL);
    say("free", HG_Bulk_free(copy));
    say("free", HG_Bulk_free(bulk));
    free(buf);
}

void steps_of_bulk(const char *info)
{
    hg_class_t *hg_class = HG_Init(info, HG_TRUE);
    hg_context_t *context = HG_Context_create(hg_class);

    handles_refused(hg_class);
    handles_accessed(hg_class);
    handles_allocated(hg_class);
    handles_serialized(hg_class, context);
    say("context", HG_Context_destroy(context));
    say("class", HG_Finalize(hg_class));
}

/* ---- Transfers, which a handler makes ---- */

static struct pair pair;
static char target[64];
static int moved;

/* A transfer that is refused, or that ends. */
static void move(const char *step, hg_handle_t handle, hg_bulk_op_t op,
    hg_bulk_t origin, hg_size_t origin_offset, hg_bulk_t local,
    hg_size_t local_offset, hg_size_t size)
{
    const struct hg_info *info = HG_Get_info(handle);
    struct done done = {0};
    hg_op_id_t id;
    hg_return_t ret = HG_Bulk_transfer(info->context, on_done, &done, op,
        info->addr, origin, origin_offset, local, local_offset, size, &id);

    if (ret != HG_SUCCESS) {
        say(step, ret);
        return;
    }
    (void) pair_until(&pair, &done.count);
    say_values(step, done.ret, "%d, %d %d %d %" PRIu64 ", %.*s",
        (int) done.type, (int) done.info.info.bulk.op,
        done.info.info.bulk.origin_handle == origin,
        done.info.info.bulk.local_handle == local, done.info.info.bulk.size, 20,
        target);
}

static hg_bulk_t local_bulk(hg_class_t *hg_class, uint8_t flags)
{
    void *ptrs[2] = {target, target + 10};
    hg_size_t sizes[2] = {10, 54};
    hg_bulk_t bulk = HG_BULK_NULL;

    (void) HG_Bulk_create(hg_class, 2, ptrs, sizes, flags, &bulk);
    return bulk;
}

static void transfers_refused(
    hg_handle_t handle, hg_bulk_t origin, hg_bulk_t local)
{
    const struct hg_info *info = HG_Get_info(handle);
    hg_op_id_t id;

    move("past the origin", handle, HG_BULK_PULL, origin, 25, local, 0, 10);
    move("past the target", handle, HG_BULK_PULL, origin, 0, local, 60, 10);
    move("no origin", handle, HG_BULK_PULL, HG_BULK_NULL, 0, local, 0, 1);
    move("no target", handle, HG_BULK_PULL, origin, 0, HG_BULK_NULL, 0, 1);
    say("no address",
        HG_Bulk_transfer(info->context, on_done, NULL, HG_BULK_PULL,
            HG_ADDR_NULL, origin, 0, local, 0, 1, &id));
    say("no context",
        HG_Bulk_transfer(NULL, on_done, NULL, HG_BULK_PULL, info->addr, origin,
            0, local, 0, 1, &id));
    say("not bound",
        HG_Bulk_bind_transfer(info->context, on_done, NULL, HG_BULK_PULL,
            origin, 0, local, 0, 1, &id));
    say("cancel nothing", HG_Bulk_cancel(HG_OP_ID_NULL));
}

static hg_return_t on_moved(const struct hg_cb_info *info)
{
    (void) info;
    moved++;
    return HG_SUCCESS;
}

static void transfers_made(
    hg_handle_t handle, hg_bulk_t origin, hg_bulk_t local)
{
    const struct hg_info *info = HG_Get_info(handle);
    struct done done = {0};
    hg_op_id_t id;

    memset(target, '.', sizeof(target));
    move("nothing", handle, HG_BULK_PULL, origin, 0, local, 0, 0);
    move("nothing at the end", handle, HG_BULK_PULL, origin, 30, local, 64, 0);
    move("all", handle, HG_BULK_PULL, origin, 0, local, 0, 30);
    move("across both", handle, HG_BULK_PULL, origin, 5, local, 8, 10);
    move("one byte", handle, HG_BULK_PULL, origin, 29, local, 0, 1);
    say("without a callback",
        HG_Bulk_transfer(info->context, NULL, NULL, HG_BULK_PULL, info->addr,
            origin, 0, local, 0, 1, HG_OP_ID_IGNORE));
    pair_settle(&pair);
    moved = 0;
    say("without an id",
        HG_Bulk_transfer(info->context, on_moved, NULL, HG_BULK_PULL,
            info->addr, origin, 0, local, 0, 1, NULL));
    (void) pair_until(&pair, &moved);
    say("with the id of a context",
        HG_Bulk_transfer_id(info->context, on_done, &done, HG_BULK_PULL,
            info->addr, 0, origin, 10, local, 0, 10, &id));
    (void) pair_until(&pair, &done.count);
    say_values("moved", done.ret, "%.10s", target);
    done.count = 0;
    (void) HG_Bulk_transfer(info->context, on_done, &done, HG_BULK_PULL,
        info->addr, origin, 0, local, 0, 30, &id);
    say("cancel", HG_Bulk_cancel(id));
    (void) pair_until(&pair, &done.count);
    say_number("ends", done.ret == HG_SUCCESS || done.ret == HG_CANCELED);
    memset(target, '.', sizeof(target));
}

static void transfers_permitted(
    hg_handle_t handle, hg_bulk_t origin, hg_bulk_t local)
{
    hg_class_t *hg_class = HG_Get_info(handle)->hg_class;
    hg_bulk_t other = local_bulk(hg_class, HG_BULK_READ_ONLY);

    move("push to memory to read", handle, HG_BULK_PUSH, origin, 0, local, 0,
        10);
    move("pull to memory to read", handle, HG_BULK_PULL, origin, 0, other, 0,
        10);
    say("free", HG_Bulk_free(other));
    other = local_bulk(hg_class, HG_BULK_WRITE_ONLY);
    move("pull to memory to write", handle, HG_BULK_PULL, origin, 0, other, 0,
        10);
    say("free", HG_Bulk_free(other));
}

static hg_bulk_t later;

static hg_return_t on_move(hg_handle_t handle)
{
    move_t in;
    hg_bulk_t local;

    say("input", HG_Get_input(handle, &in));
    local = local_bulk(HG_Get_info(handle)->hg_class, HG_BULK_READWRITE);
    if (in.what == 0) {
        transfers_refused(handle, in.bulk, local);
        transfers_made(handle, in.bulk, local);
        transfers_permitted(handle, in.bulk, local);
    } else if (in.what == 1) {
        memcpy(target, "PUSHED", 6);
        move("push", handle, HG_BULK_PUSH, in.bulk, 12, local, 0, 6);
        move("pull from memory to write", handle, HG_BULK_PULL, in.bulk, 0,
            local, 0, 6);
    } else {
        say("reference", HG_Bulk_ref_incr(in.bulk));
        later = in.bulk;
        say("free input", HG_Free_input(handle, &in));
        move("after the input is freed", handle, HG_BULK_PULL, later, 20, local,
            0, 10);
        say("free", HG_Bulk_free(later));
        (void) HG_Get_input(handle, &in);
    }
    say("free", HG_Bulk_free(local));
    say("free input", HG_Free_input(handle, &in));
    say("respond", HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

/* The client exposes three segments of 10 bytes each and calls. */
static void transfer(hg_id_t id, uint32_t what, uint8_t flags)
{
    void *ptrs[3] = {bytes, bytes + 20, bytes + 40};
    hg_size_t sizes[3] = {10, 10, 10};
    move_t in = {HG_BULK_NULL, what};
    struct done done = {0};
    hg_handle_t handle = HG_HANDLE_NULL;

    (void) HG_Bulk_create(pair.client, 3, ptrs, sizes, flags, &in.bulk);
    (void) HG_Create(pair.client_context, pair.addr, id, &handle);
    say("forward", HG_Forward(handle, on_done, &done, &in));
    (void) pair_until(&pair, &done.count);
    say("callback", done.ret);
    say("free", HG_Bulk_free(in.bulk));
    say("destroy", HG_Destroy(handle));
}

/* The server returns a handle, from which the client pulls. */
static char returned[64] = "of the server";

static hg_return_t on_expose(hg_handle_t handle)
{
    void *ptr = returned;
    hg_size_t size = sizeof(returned);
    move_t out = {HG_BULK_NULL, 0};

    (void) HG_Bulk_create(
        pair.server, 1, &ptr, &size, HG_BULK_READ_ONLY, &out.bulk);
    later = out.bulk;
    say("respond", HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

static void transfers_of_the_client(void)
{
    hg_id_t id =
        MERCURY_REGISTER(pair.server, "expose", void, move_t, on_expose);
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_bulk_t local = local_bulk(pair.client, HG_BULK_READWRITE);
    struct done done = {0};
    move_t out = {HG_BULK_NULL, 0};
    hg_op_id_t op;

    id = MERCURY_REGISTER(pair.client, "expose", void, move_t, NULL);
    (void) HG_Create(pair.client_context, pair.addr, id, &handle);
    say("forward", HG_Forward(handle, on_done, &done, NULL));
    (void) pair_until(&pair, &done.count);
    say("output", HG_Get_output(handle, &out));
    done.count = 0;
    memset(target, '.', sizeof(target));
    say("pull from the server",
        HG_Bulk_transfer(pair.client_context, on_done, &done, HG_BULK_PULL,
            pair.addr, out.bulk, 3, local, 0, 10, &op));
    say("free output", HG_Free_output(handle, &out));
    say("destroy", HG_Destroy(handle));
    (void) pair_until(&pair, &done.count);
    say_values("moved", done.ret, "%.12s", target);
    say("free", HG_Bulk_free(local));
    say("free", HG_Bulk_free(later));
}

/* Within a class, without a call: the handle is freed before the transfer has
 * ended. */
static void transfers_to_oneself(hg_class_t *hg_class, hg_context_t *context)
{
    void *ptr = bytes;
    hg_size_t size = 30;
    struct done done = {0};
    hg_bulk_t origin = HG_BULK_NULL, local;
    hg_addr_t self;
    hg_op_id_t id;

    (void) HG_Addr_self(hg_class, &self);
    (void) HG_Bulk_create(hg_class, 1, &ptr, &size, HG_BULK_READWRITE, &origin);
    local = local_bulk(hg_class, HG_BULK_READWRITE);
    memset(target, '.', sizeof(target));
    say("pull from oneself",
        HG_Bulk_transfer(context, on_done, &done, HG_BULK_PULL, self, origin, 3,
            local, 5, 10, &id));
    say("cancel", HG_Bulk_cancel(id));
    say("free", HG_Bulk_free(origin));
    say("free", HG_Bulk_free(local));
    say("free", HG_Addr_free(hg_class, self));
    (void) pair_until(&pair, &done.count);
    say_values("moved", done.ret, "%.20s", target);
}

/* A handle that is bound, moved to the other class by its bytes. */
static void transfers_bound(void)
{
    void *ptr = bytes;
    hg_size_t size = 30, room;
    struct done done = {0};
    hg_bulk_t origin = HG_BULK_NULL, copy = HG_BULK_NULL, local;
    hg_op_id_t id;
    char *buf;

    (void) HG_Bulk_create(
        pair.client, 1, &ptr, &size, HG_BULK_READ_ONLY, &origin);
    (void) HG_Bulk_bind(origin, pair.client_context);
    room = HG_Bulk_get_serialize_size(origin, 0);
    buf = malloc(room);
    (void) HG_Bulk_serialize(buf, room, 0, origin);
    say("deserialize", HG_Bulk_deserialize(pair.server, &copy, buf, room));
    local = local_bulk(pair.server, HG_BULK_READWRITE);
    memset(target, '.', sizeof(target));
    say("transfer of a bound handle",
        HG_Bulk_transfer(pair.server_context, on_done, &done, HG_BULK_PULL,
            HG_Bulk_get_addr(copy), copy, 0, local, 0, 10, &id));
    say("bound transfer",
        HG_Bulk_bind_transfer(pair.server_context, on_done, &done, HG_BULK_PULL,
            copy, 3, local, 0, 10, &id));
    (void) pair_until(&pair, &done.count);
    say_values("moved", done.ret, "%.20s", target);
    say("free", HG_Bulk_free(local));
    say("free", HG_Bulk_free(copy));
    say("free", HG_Bulk_free(origin));
    free(buf);
}

/* A handle that its owner, this process, frees before it is decoded. */
static void transfers_of_freed(hg_class_t *hg_class, hg_context_t *context)
{
    void *ptr = bytes;
    hg_size_t size = 30, room;
    struct done done = {0};
    hg_bulk_t origin = HG_BULK_NULL, copy = HG_BULK_NULL, local;
    hg_addr_t self;
    char *buf;

    (void) HG_Addr_self(hg_class, &self);
    (void) HG_Bulk_create(hg_class, 1, &ptr, &size, HG_BULK_READ_ONLY, &origin);
    room = HG_Bulk_get_serialize_size(origin, 0);
    buf = malloc(room);
    (void) HG_Bulk_serialize(buf, room, 0, origin);
    say("free", HG_Bulk_free(origin));
    say("deserialize a freed handle",
        HG_Bulk_deserialize(hg_class, &copy, buf, room));
    say_number("size", (long long) HG_Bulk_get_size(copy));
    say_number("segments", HG_Bulk_get_segment_count(copy));
    say_number("flags", HG_Bulk_get_flags(copy));
    local = local_bulk(hg_class, HG_BULK_READWRITE);
    memset(target, '.', sizeof(target));
    say("pull of a freed handle",
        HG_Bulk_transfer(context, on_done, &done, HG_BULK_PULL, self, copy, 0,
            local, 0, 10, HG_OP_ID_IGNORE));
    pair_settle(&pair);
    say_values("moved", done.ret, "%d, %.12s", done.count, target);
    say("free", HG_Bulk_free(local));
    say("free", HG_Bulk_free(copy));
    say("free", HG_Addr_free(hg_class, self));
    free(buf);
}

void steps_of_transfers(const char *info)
{
    hg_id_t id;

    pair_open(&pair, info, NULL);
    id = MERCURY_REGISTER(pair.server, "move", move_t, void, on_move);
    (void) MERCURY_REGISTER(pair.client, "move", move_t, void, NULL);
    transfer(id, 0, HG_BULK_READ_ONLY);
    transfer(id, 1, HG_BULK_WRITE_ONLY);
    printf("pushed: %.10s\n", bytes + 20);
    transfer(id, 2, HG_BULK_READWRITE);
    transfers_of_the_client();
    transfers_to_oneself(pair.client, pair.client_context);
    transfers_bound();
    transfers_of_freed(pair.client, pair.client_context);
    pair_close(&pair);
}
