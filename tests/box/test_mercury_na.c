/* SPDX-License-Identifier: BSD-3-Clause */
/* Mercury's network layer as gen/compat/na.h offers it, in one process. */
#include "gen/compat/mercury_core.h"
#include "gen/compat/na.h"

#include "harness.h"

/* An endpoint, and the last results of its callbacks. */
struct net_end {
    na_class_t *na_class;
    na_context_t *context;
    int calls;
    struct na_cb_info last;
};

static void net_done(const struct na_cb_info *info)
{
    struct net_end *end = (struct net_end *) info->arg;

    end->last = *info;
    end->calls++;
}

static void net_open(struct net_end *end, const char *url, bool listen)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    memset(end, 0, sizeof(*end));
    info.max_contexts = 1;
    info.thread_mode = NA_THREAD_MODE_SINGLE;
    end->na_class = NA_Initialize_opt2(
        url, listen, NA_VERSION(NA_VERSION_MAJOR, NA_VERSION_MINOR), &info);
    HG_CHECK(end->na_class != NULL);
    HG_CHECK(NA_Is_listening(end->na_class) == listen);
    end->context = NA_Context_create_id(end->na_class, 0);
    HG_CHECK(end->context != NULL);
}

static void net_close(struct net_end *end)
{
    HG_CHECK_OK(NA_Context_destroy(end->na_class, end->context));
    HG_CHECK_OK(NA_Finalize(end->na_class));
}

/* Make progress on both until `end` had `calls` callbacks. */
static void net_until(struct net_end *end, struct net_end *other, int calls)
{
    while (end->calls < calls) {
        struct net_end *ends[2] = {end, other};
        unsigned int count, i;

        for (i = 0; i < 2; i++) {
            na_return_t ret =
                NA_Poll_wait(ends[i]->na_class, ends[i]->context, 1, &count);

            HG_CHECK(ret == NA_SUCCESS || ret == NA_TIMEOUT);
            do {
                HG_CHECK_OK(NA_Trigger(ends[i]->context, 1, &count));
            } while (count > 0);
        }
    }
    HG_CHECK_EQ_INT(end->calls, calls);
}

/* `from` looks `to` up by its string. */
static na_addr_t *net_lookup(struct net_end *from, struct net_end *to)
{
    na_addr_t *self = NA_ADDR_NULL, *addr = NA_ADDR_NULL;
    char text[NA_MAX_ADDR_LEN];
    size_t size = 3, needed = 0;

    HG_CHECK_OK(NA_Addr_self(to->na_class, &self));
    HG_CHECK(NA_Addr_is_self(to->na_class, self));
    HG_CHECK_OK(NA_Addr_to_string(to->na_class, NULL, &needed, self));
    HG_CHECK_RET(
        NA_Addr_to_string(to->na_class, text, &size, self), NA_OVERFLOW);
    HG_CHECK_EQ_U64(size, needed);
    size = sizeof(text);
    HG_CHECK_OK(NA_Addr_to_string(to->na_class, text, &size, self));
    HG_CHECK_EQ_U64(size, strlen(text) + 1);
    HG_CHECK_EQ_U64(size, needed);
    (void) NA_Addr_free(to->na_class, self);
    HG_CHECK_OK(NA_Addr_lookup(from->na_class, text, &addr));
    return addr;
}

/* An unexpected request, and an expected response. */
static void net_messages(struct net_end *client, struct net_end *server)
{
    na_op_id_t *ops[4];
    na_addr_t *addr = net_lookup(client, server), *source;
    void *plugin_data = &client;
    char *buf =
        (char *) NA_Msg_buf_alloc(client->na_class, 64, NA_SEND, &plugin_data);
    char request[64], answer[64];
    int i;

    HG_CHECK(buf != NULL && plugin_data == NULL);
    for (i = 0; i < 4; i++) {
        ops[i] = NA_Op_create(client->na_class, NA_OP_SINGLE);
        HG_CHECK(ops[i] != NULL);
    }
    memset(buf, 0, 64);
    memcpy(buf, "question", sizeof("question"));
    HG_CHECK_OK(NA_Msg_init_unexpected(client->na_class, buf, 64));
    HG_CHECK_EQ_U64(NA_Msg_get_unexpected_header_size(client->na_class), 0);
    HG_CHECK_OK(NA_Msg_recv_unexpected(server->na_class, server->context,
        net_done, server, request, sizeof(request), NULL, ops[0]));
    HG_CHECK_OK(NA_Msg_send_unexpected(client->na_class, client->context, NULL,
        NULL, buf, 64, plugin_data, addr, 0, 7, ops[1]));
    net_until(server, client, 1);
    HG_CHECK_OK(server->last.ret);
    HG_CHECK(server->last.type == NA_CB_RECV_UNEXPECTED);
    HG_CHECK_EQ_U64(server->last.info.recv_unexpected.actual_buf_size, 64);
    HG_CHECK_EQ_U64(server->last.info.recv_unexpected.tag, 7);
    HG_CHECK_EQ_STR(request, "question");
    source = server->last.info.recv_unexpected.source;

    HG_CHECK_OK(NA_Msg_recv_expected(client->na_class, client->context,
        net_done, client, answer, sizeof(answer), NULL, addr, 0, 8, ops[2]));
    memcpy(request, "answer", sizeof("answer"));
    HG_CHECK_OK(NA_Msg_send_expected(server->na_class, server->context, NULL,
        NULL, request, 16, NULL, source, 0, 8, ops[3]));
    i = client->calls;
    net_until(client, server, client == server ? i + 1 : 1);
    HG_CHECK(client->last.type == NA_CB_RECV_EXPECTED);
    HG_CHECK_EQ_U64(client->last.info.recv_expected.actual_buf_size, 16);
    HG_CHECK_EQ_STR(answer, "answer");

    (void) NA_Addr_free(server->na_class, source);
    (void) NA_Addr_free(client->na_class, addr);
    NA_Msg_buf_free(client->na_class, buf, plugin_data);
    for (i = 0; i < 4; i++)
        NA_Op_destroy(client->na_class, ops[i]);
}

/* Memory in two pieces: its handle is serialized, then put and get use it. */
static void net_memory(struct net_end *client, struct net_end *server)
{
    char first[] = "....", second[] = "....", local[] = "12345678";
    struct na_segment segments[2] = {{first, 4}, {second, 4}};
    na_mem_handle_t *owned, *remote, *mine;
    na_addr_t *addr = net_lookup(client, server);
    na_op_id_t *op = NA_Op_create(client->na_class, NA_OP_SINGLE);
    char bytes[512];
    size_t size;
    int calls = client->calls;

    HG_CHECK(NA_Mem_handle_get_max_segments(server->na_class) > 1);
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        server->na_class, segments, 2, NA_MEM_READWRITE, &owned));
    HG_CHECK_RET(NA_Mem_register(server->na_class, owned, NA_MEM_TYPE_CUDA, 0),
        NA_OPNOTSUPPORTED);
    HG_CHECK_OK(NA_Mem_register(server->na_class, owned, NA_MEM_TYPE_HOST, 0));
    size = NA_Mem_handle_get_serialize_size(server->na_class, owned);
    HG_CHECK(size <= sizeof(bytes));
    HG_CHECK_RET(
        NA_Mem_handle_serialize(server->na_class, bytes, size - 1, owned),
        NA_OVERFLOW);
    HG_CHECK_OK(NA_Mem_handle_serialize(server->na_class, bytes, size, owned));
    HG_CHECK_RET(
        NA_Mem_handle_deserialize(client->na_class, &remote, bytes, size - 1),
        NA_PROTOCOL_ERROR);
    HG_CHECK_RET(NA_Mem_handle_deserialize(client->na_class, &remote, bytes, 3),
        NA_PROTOCOL_ERROR);
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        client->na_class, &remote, bytes, sizeof(bytes)));
    HG_CHECK_OK(NA_Mem_handle_create(
        client->na_class, local, 8, NA_MEM_READWRITE, &mine));
    HG_CHECK_OK(NA_Mem_register(client->na_class, mine, NA_MEM_TYPE_HOST, 0));
    HG_CHECK_OK(NA_Put(client->na_class, client->context, net_done, client,
        mine, 0, remote, 2, 4, addr, 0, op));
    net_until(client, server, calls + 1);
    HG_CHECK_OK(client->last.ret);
    HG_CHECK(client->last.type == NA_CB_PUT);
    HG_CHECK_EQ_STR(first, "..12");
    HG_CHECK_EQ_STR(second, "34..");
    HG_CHECK_OK(NA_Get(client->na_class, client->context, net_done, client,
        mine, 4, remote, 0, 4, addr, 0, op));
    net_until(client, server, calls + 2);
    HG_CHECK(client->last.type == NA_CB_GET);
    HG_CHECK_EQ_STR(local, "1234..12");

    HG_CHECK_OK(NA_Mem_deregister(client->na_class, mine));
    (void) NA_Mem_handle_free(client->na_class, mine);
    (void) NA_Mem_handle_free(client->na_class, remote);
    (void) NA_Mem_handle_free(server->na_class, owned);
    (void) NA_Addr_free(client->na_class, addr);
    NA_Op_destroy(client->na_class, op);
}

static void net_cancel(struct net_end *end, struct net_end *other)
{
    na_op_id_t *op = NA_Op_create(end->na_class, NA_OP_SINGLE);
    int calls = end->calls;
    char buf[8];

    HG_CHECK_OK(NA_Msg_recv_unexpected(end->na_class, end->context, net_done,
        end, buf, sizeof(buf), NULL, op));
    HG_CHECK_OK(NA_Cancel(end->na_class, end->context, op));
    net_until(end, other, calls + 1);
    HG_CHECK_RET(end->last.ret, NA_CANCELED);
    HG_CHECK_OK(NA_Cancel(end->na_class, end->context, op));
    NA_Op_destroy(end->na_class, op);
}

/* Requests that share a buffer: each callback has a reference of its source. */
static void net_many(struct net_end *client, struct net_end *server)
{
    size_t size = NA_Msg_get_max_unexpected_size(server->na_class) + 64;
    na_op_id_t *send = NA_Op_create(client->na_class, NA_OP_SINGLE);
    na_op_id_t *op = NA_Op_create(server->na_class, NA_OP_MULTI);
    na_addr_t *addr = net_lookup(client, server);
    void *plugin_data;
    char *buf = (char *) NA_Msg_buf_alloc(
        server->na_class, size, NA_MULTI_RECV, &plugin_data);
    const struct na_cb_info_multi_recv_unexpected *info =
        &server->last.info.multi_recv_unexpected;
    int calls = server->calls, i;

    HG_CHECK(NA_Has_opt_feature(server->na_class, NA_OPT_MULTI_RECV));
    HG_CHECK(!NA_Has_opt_feature(server->na_class, NA_OPT_FIREWALL_ADDR));
    HG_CHECK(buf != NULL);
    HG_CHECK_OK(NA_Msg_multi_recv_unexpected(server->na_class, server->context,
        net_done, server, buf, size, plugin_data, op));
    for (i = 0; i < 3; i++) {
        HG_CHECK_OK(NA_Msg_send_unexpected(client->na_class, client->context,
            NULL, NULL, "many", 5, NULL, addr, 0, (na_tag_t) (20 + i), send));
        net_until(server, client, calls + i + 1);
        HG_CHECK_OK(server->last.ret);
        HG_CHECK(server->last.type == NA_CB_MULTI_RECV_UNEXPECTED);
        HG_CHECK_EQ_U64(info->actual_buf_size, 5);
        HG_CHECK_EQ_INT(info->tag, 20 + i);
        HG_CHECK((char *) info->actual_buf == buf + 16 * i);
        HG_CHECK_EQ_STR((char *) info->actual_buf, "many");
        HG_CHECK(!info->last);
        (void) NA_Addr_free(server->na_class, info->source);
    }
    HG_CHECK_OK(NA_Cancel(server->na_class, server->context, op));
    net_until(server, client, calls + 4);
    HG_CHECK_RET(server->last.ret, NA_CANCELED);
    HG_CHECK(info->last);
    NA_Msg_buf_free(server->na_class, buf, plugin_data);
    (void) NA_Addr_free(client->na_class, addr);
    NA_Op_destroy(client->na_class, send);
    NA_Op_destroy(server->na_class, op);
}

static void net_all(const char *url)
{
    struct net_end server, client;

    net_open(&server, url, true);
    net_open(&client, url, false);
    net_messages(&client, &server);
    net_memory(&client, &server);
    net_cancel(&server, &client);
    net_many(&client, &server);
    net_close(&client);
    net_close(&server);
}

HG_TEST(mercury_na_to_itself)
{
    struct net_end end;

    net_open(&end, "self://", true);
    net_messages(&end, &end);
    net_memory(&end, &end);
    net_cancel(&end, &end);
    net_many(&end, &end);
    net_close(&end);
}

HG_TEST(mercury_na_between_classes)
{
#ifdef NA_HAS_SM
    net_all("na+sm://");
#else
    hg_test_skip("sm needs Linux");
#endif
}

HG_TEST(mercury_na_over_zmq)
{
    struct na_protocol_info *list = NULL;

    HG_CHECK_OK(NA_Get_protocol_info("zmq+tcp", &list));
    if (list == NULL)
        hg_test_skip("ZeroMQ is not linked");
    NA_Free_protocol_info(list);
    net_all("zmq+tcp://127.0.0.1");
}

HG_TEST(mercury_na_addresses)
{
    na_class_t *na_class = NA_Initialize("self", true);
    na_addr_t *self, *other;
    char bytes[NA_MAX_ADDR_LEN];
    size_t size;

    HG_CHECK(na_class != NULL && NA_Has_opt_feature(na_class, 1));
    HG_CHECK_EQ_STR(NA_Get_class_protocol(na_class), "self");
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    size = NA_Addr_get_serialize_size(na_class, self);
    HG_CHECK_OK(NA_Addr_serialize(na_class, bytes, size, self));
    HG_CHECK_OK(NA_Addr_deserialize(na_class, &other, bytes, size, 0));
    HG_CHECK(NA_Addr_cmp(na_class, self, other));
    (void) NA_Addr_free(na_class, other);
    HG_CHECK_OK(NA_Addr_deserialize(na_class, &other, bytes, size));
    HG_CHECK_OK(NA_Addr_set_remove(na_class, other));
    (void) NA_Addr_free(na_class, other);
    HG_CHECK_OK(NA_Addr_dup(na_class, self, &other));
    (void) NA_Addr_free(na_class, other);
    (void) NA_Addr_free(na_class, self);
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(mercury_na_reports_class_properties)
{
    struct na_protocol_info *list = NULL;
    struct na_init_info info = {.progress_mode = NA_NO_BLOCK};
    unsigned int major = 0, minor = 9, patch = 9;
    na_class_t *na_class;

    NA_Version_get(&major, &minor, &patch);
    HG_CHECK(NA_VERSION(major, minor) ==
        NA_VERSION(NA_VERSION_MAJOR, NA_VERSION_MINOR));
    HG_CHECK(
        NA_MAJOR(NA_VERSION(3, 4)) == 3 && NA_MINOR(NA_VERSION(3, 4)) == 4);
    NA_Version_get(NULL, NULL, NULL);
    HG_CHECK_OK(NA_Get_protocol_info("self", &list));
    HG_CHECK(list != NULL);
    NA_Free_protocol_info(list);
    NA_Set_log_level("error");
    NA_Cleanup();
    HG_CHECK_EQ_STR(NA_Error_to_string(NA_SUCCESS), "NA_SUCCESS");
    HG_CHECK_EQ_STR(NA_Error_to_string(NA_HOSTFIREWALL), "NA_HOSTFIREWALL");
    HG_CHECK(NA_Error_to_string(NA_RETURN_MAX) == NULL);
    HG_CHECK(NA_Error_to_string((na_return_t) -1) == NULL);
    na_class = NA_Initialize_opt("self", false, &info);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Finalize(na_class));
    na_class = NA_Initialize_opt("self", false, NULL);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* A class of Mercury's network layer below one of its RPC layer. The HG_Core
 * names are the RPC layer under other names. */
HG_TEST(mercury_core_functions_work)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_core_class_t *hg_class;
    hg_core_context_t *context;
    hg_core_addr_t addr = HG_CORE_ADDR_NULL;

    info.na_class = NA_Initialize("self", true);
    hg_class = HG_Core_init_opt(NULL, 1, &info);
    HG_CHECK(hg_class != NULL && HG_Core_class_is_listening(hg_class));
    context = HG_Core_context_create(hg_class);
    HG_CHECK(HG_Core_context_get_class(context) == hg_class);
    HG_CHECK_OK(HG_Core_addr_lookup2(hg_class, "self://", &addr));
    HG_CHECK_OK(HG_Addr_free(hg_class, addr));
    HG_CHECK_OK(HG_Core_context_destroy(context));
    HG_CHECK_OK(HG_Core_finalize(hg_class));
    HG_CHECK_OK(NA_Finalize(info.na_class));
}
