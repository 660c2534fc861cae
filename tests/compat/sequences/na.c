/* SPDX-License-Identifier: BSD-3-Clause */
/* The network layer: addresses, messages, remote memory. */
#include "sequences.h"

#include <na.h>

#include <unistd.h>

static na_class_t *classes[2];
static na_context_t *contexts[2];
static na_addr_t *addr; /* the second class, for the first */

static struct ended {
    int count;
    struct na_cb_info info;
} sent, received, other;

static void on_ended(const struct na_cb_info *info)
{
    struct ended *ended = info->arg;

    ended->count++;
    ended->info = *info;
}

static void na_step(void)
{
    unsigned int i, count;

    for (i = 0; i < 2; i++) {
        count = 0;
        (void) NA_Poll(classes[i], contexts[i], &count);
        (void) NA_Trigger(contexts[i], 10, &count);
    }
}

static void na_until(const int *count)
{
    int i;

    for (i = 0; *count == 0 && i < 100000; i++) {
        na_step();
        if (i > 1000)
            (void) usleep(50);
    }
    if (*count == 0)
        printf("nothing happens\n");
}

static void na_say(const char *step, na_return_t ret)
{
    say(step, (hg_return_t) ret);
}

static void na_open(const char *info)
{
    char text[256];
    size_t size = sizeof(text);
    na_addr_t *self;
    int i;

    for (i = 0; i < 2; i++) {
        classes[i] = NA_Initialize(info, true);
        contexts[i] = NA_Context_create(classes[i]);
    }
    (void) NA_Addr_self(classes[1], &self);
    (void) NA_Addr_to_string(classes[1], text, &size, self);
    na_say("lookup", NA_Addr_lookup(classes[0], text, &addr));
    say_number("self", NA_Addr_is_self(classes[1], self));
    say_number("not self", NA_Addr_is_self(classes[0], addr));
    NA_Addr_free(classes[1], self);
}

static void na_addresses(void)
{
    char text[256], buf[512];
    size_t size = sizeof(text), exact = 0, room;
    na_addr_t *dup = NULL, *copy = NULL;

    na_say("size of text", NA_Addr_to_string(classes[0], NULL, &exact, addr));
    size = exact - 1;
    na_say("too small", NA_Addr_to_string(classes[0], text, &size, addr));
    size = exact;
    na_say("exact", NA_Addr_to_string(classes[0], text, &size, addr));
    na_say("dup", NA_Addr_dup(classes[0], addr, &dup));
    say_number("equal", NA_Addr_cmp(classes[0], addr, dup));
    NA_Addr_free(classes[0], dup);
    room = NA_Addr_get_serialize_size(classes[0], addr);
    na_say("serialize", NA_Addr_serialize(classes[0], buf, room, addr));
    na_say("too small", NA_Addr_serialize(classes[0], buf, 1, addr));
    na_say("deserialize", NA_Addr_deserialize(classes[0], &copy, buf, room, 0));
    say_number("equal", NA_Addr_cmp(classes[0], addr, copy));
    NA_Addr_set_remove(classes[0], copy);
    NA_Addr_free(classes[0], copy);
}

struct message {
    char *buf;
    void *data;
    na_op_id_t *op;
    size_t size;
};

static struct message message_of(int i, size_t size, unsigned long flags)
{
    struct message m;

    m.size = size;
    m.buf = NA_Msg_buf_alloc(classes[i], size, flags, &m.data);
    m.op = NA_Op_create(classes[i], NA_OP_SINGLE);
    return m;
}

static void message_end(int i, struct message *m)
{
    NA_Msg_buf_free(classes[i], m->buf, m->data);
    NA_Op_destroy(classes[i], m->op);
}

/* Sends size bytes behind the header of the class, and answers. */
static void na_messages(size_t size, na_tag_t tag)
{
    size_t head = NA_Msg_get_unexpected_header_size(classes[0]);
    size_t answer_head = NA_Msg_get_expected_header_size(classes[0]);
    struct message out =
        message_of(0, NA_Msg_get_max_unexpected_size(classes[0]), NA_SEND);
    struct message in =
        message_of(1, NA_Msg_get_max_unexpected_size(classes[1]), NA_RECV);
    struct message answer = message_of(1, 64, NA_SEND);
    struct message result = message_of(0, 64, NA_RECV);

    sent.count = received.count = other.count = 0;
    na_say("init", NA_Msg_init_unexpected(classes[0], out.buf, out.size));
    memset(out.buf + head, 'm', size);
    na_say("receive",
        NA_Msg_recv_unexpected(classes[1], contexts[1], on_ended, &received,
            in.buf, in.size, in.data, in.op));
    na_say("receive the answer",
        NA_Msg_recv_expected(classes[0], contexts[0], on_ended, &other,
            result.buf, result.size, result.data, addr, 0, tag, result.op));
    na_say("send",
        NA_Msg_send_unexpected(classes[0], contexts[0], on_ended, &sent,
            out.buf, head + size, out.data, addr, 0, tag, out.op));
    na_until(&received.count);
    na_until(&sent.count);
    say_values("sent", (hg_return_t) sent.info.ret, "%d", (int) sent.info.type);
    say_values("received", (hg_return_t) received.info.ret, "%d %d %u %d",
        (int) received.info.type,
        (int) received.info.info.recv_unexpected.actual_buf_size - (int) head,
        received.info.info.recv_unexpected.tag,
        size == 0 || in.buf[head + size - 1] == 'm');
    (void) NA_Msg_init_expected(classes[1], answer.buf, answer.size);
    memcpy(answer.buf + answer_head, "answer", 7);
    sent.count = 0;
    na_say("answer",
        NA_Msg_send_expected(classes[1], contexts[1], on_ended, &sent,
            answer.buf, answer_head + 7, answer.data,
            received.info.info.recv_unexpected.source, 0, tag, answer.op));
    na_until(&other.count);
    na_until(&sent.count);
    say_values("answered", (hg_return_t) other.info.ret, "%d %s",
        (int) other.info.type, result.buf + answer_head);
    NA_Addr_free(classes[1], received.info.info.recv_unexpected.source);
    message_end(0, &out);
    message_end(1, &in);
    message_end(1, &answer);
    message_end(0, &result);
}

static void na_canceled(void)
{
    struct message in = message_of(1, 64, NA_RECV);

    received.count = 0;
    na_say("receive",
        NA_Msg_recv_unexpected(classes[1], contexts[1], on_ended, &received,
            in.buf, in.size, in.data, in.op));
    na_say("cancel", NA_Cancel(classes[1], contexts[1], in.op));
    na_until(&received.count);
    na_say("canceled", received.info.ret);
    na_say("cancel again", NA_Cancel(classes[1], contexts[1], in.op));
    received.count = 0;
    na_say("receive with the same object",
        NA_Msg_recv_unexpected(classes[1], contexts[1], on_ended, &received,
            in.buf, in.size, in.data, in.op));
    na_say("cancel", NA_Cancel(classes[1], contexts[1], in.op));
    na_until(&received.count);
    na_say("canceled", received.info.ret);
    message_end(1, &in);
}

/* A receive that its callback posts again, with the same object. */
static struct {
    struct message in;
    int count, posted;
} again;

static void on_again(const struct na_cb_info *info)
{
    if (info->ret == NA_SUCCESS)
        NA_Addr_free(classes[1], info->info.recv_unexpected.source);
    if (++again.count < 3)
        again.posted += NA_Msg_recv_unexpected(classes[1], contexts[1],
                            on_again, NULL, again.in.buf, again.in.size,
                            again.in.data, again.in.op) == NA_SUCCESS;
}

static void na_received_again(void)
{
    struct message out = message_of(0, 64, NA_SEND);
    size_t head = NA_Msg_get_unexpected_header_size(classes[0]);
    int i;

    again.in =
        message_of(1, NA_Msg_get_max_unexpected_size(classes[1]), NA_RECV);
    na_say("receive",
        NA_Msg_recv_unexpected(classes[1], contexts[1], on_again, NULL,
            again.in.buf, again.in.size, again.in.data, again.in.op));
    for (i = 0; i < 3; i++) {
        (void) NA_Msg_init_unexpected(classes[0], out.buf, out.size);
        sent.count = 0;
        na_say("send",
            NA_Msg_send_unexpected(classes[0], contexts[0], on_ended, &sent,
                out.buf, head + 8, out.data, addr, 0, 5, out.op));
        na_until(&sent.count);
    }
    for (i = 0; i < 100000 && again.count < 3; i++)
        na_step();
    say_number("received", again.count);
    say_number("posted in callbacks", again.posted);
    message_end(0, &out);
    message_end(1, &again.in);
}

static char exposed[64] = "remote bytes", mine[64];

static void na_memory(void)
{
    na_mem_handle_t *remote = NULL, *local = NULL, *copy = NULL;
    na_op_id_t *op = NA_Op_create(classes[0], NA_OP_SINGLE);
    char buf[512];
    size_t room;

    na_say("expose",
        NA_Mem_handle_create(
            classes[1], exposed, 64, NA_MEM_READWRITE, &remote));
    na_say(
        "register", NA_Mem_register(classes[1], remote, NA_MEM_TYPE_HOST, 0));
    na_say("local",
        NA_Mem_handle_create(classes[0], mine, 64, NA_MEM_READWRITE, &local));
    (void) NA_Mem_register(classes[0], local, NA_MEM_TYPE_HOST, 0);
    room = NA_Mem_handle_get_serialize_size(classes[1], remote);
    na_say("too small", NA_Mem_handle_serialize(classes[1], buf, 1, remote));
    na_say("serialize", NA_Mem_handle_serialize(classes[1], buf, room, remote));
    na_say(
        "deserialize", NA_Mem_handle_deserialize(classes[0], &copy, buf, room));
    sent.count = 0;
    na_say("get",
        NA_Get(classes[0], contexts[0], on_ended, &sent, local, 4, copy, 7, 5,
            addr, 0, op));
    na_until(&sent.count);
    say_values("got", (hg_return_t) sent.info.ret, "%d %s",
        (int) sent.info.type, mine + 4);
    memcpy(mine, "put", 3);
    sent.count = 0;
    na_say("put",
        NA_Put(classes[0], contexts[0], on_ended, &sent, local, 0, copy, 0, 3,
            addr, 0, op));
    na_until(&sent.count);
    say_values("put", (hg_return_t) sent.info.ret, "%d %s",
        (int) sent.info.type, exposed);
    NA_Mem_handle_free(classes[0], copy);
    (void) NA_Mem_deregister(classes[0], local);
    NA_Mem_handle_free(classes[0], local);
    na_say("deregister", NA_Mem_deregister(classes[1], remote));
    NA_Mem_handle_free(classes[1], remote);
    NA_Op_destroy(classes[0], op);
}

/* Get from two pieces of memory behind one handle, over the end of the first.
 * Not every transport of Mercury can. */
static bool na_get_over(na_mem_handle_t *remote)
{
    na_mem_handle_t *local = NULL, *copy = NULL;
    na_op_id_t *op = NA_Op_create(classes[0], NA_OP_SINGLE);
    char buf[512];
    size_t room = NA_Mem_handle_get_serialize_size(classes[1], remote);

    (void) NA_Mem_register(classes[1], remote, NA_MEM_TYPE_HOST, 0);
    (void) NA_Mem_handle_serialize(classes[1], buf, room, remote);
    (void) NA_Mem_handle_deserialize(classes[0], &copy, buf, room);
    memset(mine, 0, sizeof(mine));
    (void) NA_Mem_handle_create(classes[0], mine, 64, NA_MEM_READWRITE, &local);
    (void) NA_Mem_register(classes[0], local, NA_MEM_TYPE_HOST, 0);
    sent.count = 0;
    if (NA_Get(classes[0], contexts[0], on_ended, &sent, local, 0, copy, 6, 12,
            addr, 0, op) == NA_SUCCESS)
        na_until(&sent.count);
    NA_Mem_handle_free(classes[0], copy);
    (void) NA_Mem_deregister(classes[0], local);
    NA_Mem_handle_free(classes[0], local);
    (void) NA_Mem_deregister(classes[1], remote);
    NA_Op_destroy(classes[0], op);
    return sent.count == 1 && sent.info.ret == NA_SUCCESS &&
        strcmp(mine, "piece second") == 0;
}

static void na_segments(void)
{
    static char pieces[2][16] = {"first piece ", "second piece"};
    struct na_segment segments[2] = {{pieces[0], 12}, {pieces[1], 12}};
    size_t limit = NA_Mem_handle_get_max_segments(classes[1]);
    na_mem_handle_t *remote = NULL;

    say_number("segments", limit >= 1);
    na_say("no class",
        NA_Mem_handle_create_segments(
            NULL, segments, 2, NA_MEM_READWRITE, &remote));
    na_say("nothing",
        NA_Mem_handle_create_segments(
            classes[1], NULL, 2, NA_MEM_READWRITE, &remote));
    na_say("no segments",
        NA_Mem_handle_create_segments(
            classes[1], segments, 0, NA_MEM_READWRITE, &remote));
    na_say("one segment",
        NA_Mem_handle_create_segments(
            classes[1], segments, 1, NA_MEM_READWRITE, &remote));
    NA_Mem_handle_free(classes[1], remote);
    remote = NULL;
    if (limit > 1)
        (void) NA_Mem_handle_create_segments(
            classes[1], segments, 2, NA_MEM_READWRITE, &remote);
    say_number("two segments, where they are possible",
        limit == 1 || na_get_over(remote));
    NA_Mem_handle_free(classes[1], remote);
}

static void na_contexts(const char *info)
{
    na_class_t *na_class = NA_Initialize(info, true);
    na_context_t *context = NA_Context_create_id(na_class, 3);

    say_number("a context with an id", context != NULL);
    say_number("of no class", NA_Context_create_id(NULL, 3) == NULL);
    na_say("its end", NA_Context_destroy(na_class, context));
    say_number("no feature", NA_Has_opt_feature(na_class, 0));
    say_number("of no class", NA_Has_opt_feature(NULL, 0xf));
    na_say("class", NA_Finalize(na_class));
}

static void na_protocols(const char *step, const char *string)
{
    struct na_protocol_info *list = NULL;
    na_return_t ret = NA_Get_protocol_info(string, &list);

    say_with(step, (hg_return_t) ret, "%d", list != NULL);
    NA_Free_protocol_info(list);
}

void steps_of_na(const char *info)
{
    unsigned int count = 7;
    int i;

    na_protocols("its protocol", info);
    na_protocols("all protocols", NULL);
    na_protocols("no protocol", "carrier+pigeon");
    NA_Free_protocol_info(NULL);
    na_contexts(info);
    na_open(info);
    na_addresses();
    na_say("no events", NA_Poll(classes[0], contexts[0], &count));
    say_number("count", count);
    count = 7;
    na_say("none to trigger", NA_Trigger(contexts[0], 1, &count));
    say_number("count", count);
    say_number("largest tag", NA_Msg_get_max_tag(classes[0]) >= 0xffff);
    say_number("error 99", NA_Error_to_string((na_return_t) 99) == NULL);
    na_messages(0, 0);
    na_messages(100, 65535);
    na_memory();
    na_segments();
    na_canceled();
    na_received_again();
    say_number("descriptor", NA_Poll_get_fd(classes[0], contexts[0]) >= 0);
    say_number("may wait", NA_Poll_try_wait(classes[0], contexts[0]));
    count = 7;
    na_say(
        "wait for nothing", NA_Poll_wait(classes[0], contexts[0], 0, &count));
    say_number("count", count);
    NA_Addr_free(classes[0], addr);
    for (i = 0; i < 2; i++) {
        na_say("context", NA_Context_destroy(classes[i], contexts[i]));
        na_say("class", NA_Finalize(classes[i]));
    }
}
