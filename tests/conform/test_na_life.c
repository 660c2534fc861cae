/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NA on one transport: classes, contexts, addresses and lookups, valid and
 * invalid.
 */
#include "conform.h"

#include <poll.h>

#include <pthread.h>

/* ---- Classes ---- */

HG_TEST(bad_init_strings_are_refused)
{
    static const struct {
        const char *string;
        const char *log;
    } bad[] = {
        {"://", "'://' is not"},
        {"nothing-speaks-this://",
            "no transport here speaks nothing-speaks-this; here: "},
        {"nobody+self://", "no transport here speaks nobody+self"},
        {"bmi+ipc://", "no transport here speaks bmi+ipc"},
        {"+self://", "'+self://' is not"},
        {"self+://", "'self+://' is not"},
        {"a b://", "'a b://' is not"},
        {"self\n://", "control characters"},
        {"an-endless-scheme-of-more-than-31-bytes://", "an-endless-scheme"},
        {"self://somebody", "takes no name"},
    };
    char *too_long = (char *) malloc(400);
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        hg_test_expect_log(bad[i].log);
        HG_CHECK(NA_Initialize(bad[i].string, NA_TRUE) == NULL);
        HG_CHECK_EQ_INT(hg_test_log_count(bad[i].log), 1);
    }
    HG_CHECK(too_long != NULL);
    memset(too_long, 'x', 399);
    too_long[399] = '\0';
    memcpy(too_long, "self://", 7);
    HG_CHECK(NA_Initialize(too_long, NA_TRUE) == NULL);
    free(too_long);
}

HG_TEST(null_and_empty_name_the_default_transport)
{
    na_class_t *a = NA_Initialize(NULL, NA_TRUE);
    na_class_t *b = NA_Initialize("", NA_FALSE);

    HG_CHECK(a != NULL && b != NULL);
    HG_CHECK_EQ_STR(NA_Get_class_name(a), NA_Get_class_name(b));
    HG_CHECK_OK(NA_Finalize(a));
    HG_CHECK_OK(NA_Finalize(b));
}

static void life_refuse(const char *string, const struct na_init_info *info)
{
    unsigned before = hg_test_log_count("does not support");

    HG_CHECK(NA_Initialize_opt(string, NA_TRUE, info) == NULL);
    HG_CHECK_EQ_INT(hg_test_log_count("does not support"), before + 1);
}

/* Options about access are honored, or the open fails. */
HG_TEST(options_about_access_are_not_ignored)
{
    bool sm = strncmp(hg_test_transport(), "sm", 2) == 0;
    na_class_t *na_class;
    char *string = hg_test_listen_string();
    struct na_init_info info;
    unsigned i;

    hg_test_expect_log("does not support");
    for (i = 0; i < 3; i++) {
        conform_info(&info);
        info.curve_secret_key = i == 0 ? "key" : NULL;
        info.curve_server_key = i == 1 ? "key" : NULL;
        info.curve_allow_dir = i == 2 ? "keys" : NULL;
        life_refuse(string, &info);
    }
    conform_info(&info);
    info.auth_key = "any-user";
    if (!sm) {
        life_refuse(string, &info);
        info.auth_key = "";
    }
    na_class = NA_Initialize_opt(string, NA_TRUE, &info);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Finalize(na_class));
    free(string);
}

HG_TEST(options_are_checked)
{
    struct na_init_info info;
    na_class_t *na_class;
    char *string = hg_test_listen_string();

    conform_info(&info);
    info.size = 3;
    hg_test_expect_log("start from NA_INIT_INFO_INITIALIZER");
    HG_CHECK(NA_Initialize_opt(string, NA_TRUE, &info) == NULL);
    conform_info(&info);
    info.size += 8;
    HG_CHECK(NA_Initialize_opt(string, NA_TRUE, &info) == NULL);
    conform_info(&info);
    info.wait_mode = 9;
    hg_test_expect_log("wait_mode 9");
    HG_CHECK(NA_Initialize_opt(string, NA_TRUE, &info) == NULL);
    conform_info(&info);
    info.addr_format = (enum na_addr_format) 77;
    hg_test_expect_log("addr_format 77 is unknown");
    HG_CHECK(NA_Initialize_opt(string, NA_TRUE, &info) == NULL);
    /* A caller built with Mercury's members only. */
    conform_info(&info);
    info.size = offsetof(struct na_init_info, wait_mode);
    info.wait_mode = 9;
    na_class = NA_Initialize_opt(string, NA_TRUE, &info);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Finalize(na_class));
    free(string);
}

/* A string that no class accepts gives one line, which ends with `why`. */
static void life_ask_nobody(na_class_t *na_class, const char *why)
{
    unsigned asked = 0;

    hg_test_expect_log(why);
    HG_CHECK(NA_Get_class_name(na_class) == NULL);
    HG_CHECK_EQ_INT(hg_test_log_count(why), ++asked);
    HG_CHECK(NA_Get_class_protocol(na_class) == NULL);
    HG_CHECK_EQ_INT(hg_test_log_count(why), ++asked);
    HG_CHECK(NA_Is_listening(na_class) == NA_FALSE);
    HG_CHECK_EQ_INT(hg_test_log_count(why), ++asked);
    HG_CHECK_EQ_INT(NA_Get_ordering(na_class), 0);
    HG_CHECK_EQ_INT(hg_test_log_count(why), ++asked);
    HG_CHECK_EQ_U64(NA_Msg_get_max_unexpected_size(na_class), 0);
    HG_CHECK_EQ_INT(hg_test_log_count(why), ++asked);
    HG_CHECK_EQ_U64(NA_Msg_get_max_expected_size(na_class), 0);
    HG_CHECK_EQ_INT(hg_test_log_count(why), ++asked);
    HG_CHECK_EQ_U64(NA_Msg_get_max_tag(na_class), 0);
    HG_CHECK_EQ_INT(hg_test_log_count(why), ++asked);
}

/* Whether the transport keeps the order of messages and RMA: where memory is
 * moved by messages, transfers may overtake each other. */
static int life_ordering(void)
{
    static const char *const ordered[] = {"self"};
    unsigned i;

    for (i = 0; i < sizeof(ordered) / sizeof(ordered[0]); i++) {
        if (strcmp(hg_test_transport(), ordered[i]) == 0)
            return 1;
    }
    return 0;
}

HG_TEST(class_reports_its_properties)
{
    na_class_t *na_class = conform_class(NULL);
    const char *transport = hg_test_transport();
    const char *plus = strchr(transport, '+');
    const char *protocol = plus != NULL ? plus + 1 : transport;

    HG_CHECK(!strncmp(transport, NA_Get_class_name(na_class),
        strlen(NA_Get_class_name(na_class))));
    HG_CHECK_EQ_STR(NA_Get_class_protocol(na_class), protocol);
    HG_CHECK(NA_Is_listening(na_class) == NA_TRUE);
    HG_CHECK_EQ_INT(NA_Get_ordering(na_class), life_ordering());
    HG_CHECK(NA_Msg_get_max_unexpected_size(na_class) >= 512);
    HG_CHECK(NA_Msg_get_max_expected_size(na_class) >= 512);
    HG_CHECK(NA_Msg_get_max_tag(na_class) >= 0xff);
    HG_CHECK_OK(NA_Finalize(na_class));
    life_ask_nobody(NULL, "the class is NULL");
    life_ask_nobody(na_class, "no such class is open");
}

HG_TEST(class_need_not_listen)
{
    char string[64];
    na_class_t *na_class;
    na_addr_t self;
    char name[NA_MAX_ADDR_LEN];

    (void) snprintf(string, sizeof(string), "%s://", hg_test_transport());
    na_class = NA_Initialize(string, NA_FALSE);
    HG_CHECK(na_class != NULL);
    HG_CHECK(NA_Is_listening(na_class) == NA_FALSE);
    HG_CHECK_OK(NA_Addr_self(na_class, &self));
    HG_CHECK(NA_Addr_is_self(na_class, self) == NA_TRUE);
    HG_CHECK_OK(NA_Addr_to_string(na_class, name, sizeof(name), self));
    HG_CHECK_OK(NA_Addr_free(na_class, self));
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(classes_leave_no_descriptor)
{
    unsigned before;
    unsigned i;
    struct conform_end end;

    conform_open(&end, NULL);
    conform_close(&end);
    before = hg_test_fd_count();
    for (i = 0; i < 20; i++) {
        conform_open(&end, NULL);
        HG_CHECK(NA_Poll_get_fd(end.na_class, end.context) >= -1);
        conform_close(&end);
    }
    HG_CHECK_EQ_INT(hg_test_fd_count(), before);
}

static void *life_thread(void *arg)
{
    struct conform_end end;
    unsigned i;

    (void) arg;
    for (i = 0; i < 10; i++) {
        conform_open(&end, NULL);
        conform_close(&end);
    }
    return NULL;
}

HG_TEST(classes_open_and_close_in_threads)
{
    pthread_t threads[4];
    unsigned i;

    /* The names of listeners come from a counter without a lock. */
    if (!strcmp(hg_test_transport(), "self")) {
        for (i = 0; i < 4; i++)
            HG_CHECK(!pthread_create(&threads[i], NULL, life_thread, NULL));
        for (i = 0; i < 4; i++)
            HG_CHECK(!pthread_join(threads[i], NULL));
    } else {
        (void) life_thread(NULL);
    }
}

HG_TEST(finalizing_waits_for_contexts_and_happens_once)
{
    na_class_t *na_class = conform_class(NULL);
    na_context_t *context = NA_Context_create(na_class);

    HG_CHECK(context != NULL);
    hg_test_expect_log("NA_Finalize: 1 context is alive");
    HG_CHECK_RET(NA_Finalize(na_class), NA_BUSY);
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
    hg_test_expect_log("NA_Finalize: no such class is open");
    HG_CHECK_RET(NA_Finalize(na_class), NA_INVALID_ARG);
    hg_test_expect_log("NA_Finalize: the class is NULL");
    HG_CHECK_RET(NA_Finalize(NULL), NA_INVALID_ARG);
}

static unsigned life_warnings;
static char life_line[512]; /* the warning that is expected */

static void life_sink(
    int level, const char *subsys, const char *line, void *arg)
{
    (void) subsys;
    (void) arg;
    HG_CHECK_EQ_INT(level, HG_LOG_LEVEL_WARNING);
    HG_CHECK_EQ_STR(line, life_line);
    life_warnings++;
}

HG_TEST(leaked_objects_are_released_with_one_line)
{
    struct conform_end end;
    na_mem_handle_t mem[2];
    na_addr_t addr;
    static char buf[100];
    char name[NA_MAX_ADDR_LEN];

    conform_open(&end, NULL);
    HG_CHECK_OK(NA_Addr_to_string(end.na_class, name, sizeof(name), end.self));
    (void) snprintf(life_line, sizeof(life_line),
        "released what was not freed: addresses 1, memory handles 2 "
        "(first address: %s)",
        name);
    HG_CHECK_OK(NA_Addr_dup(end.na_class, end.self, &addr));
    HG_CHECK_OK(NA_Mem_handle_create(
        end.na_class, buf, sizeof(buf), NA_MEM_READWRITE, &mem[0]));
    HG_CHECK_OK(NA_Mem_handle_create(
        end.na_class, buf, sizeof(buf), NA_MEM_READWRITE, &mem[1]));
    HG_CHECK_OK(NA_Mem_register(end.na_class, mem[1]));
    HG_CHECK_OK(NA_Context_destroy(end.na_class, end.context));
    HG_CHECK_OK(HG_Set_log_level("warning"));
    HG_Set_log_func(life_sink, NULL);
    HG_CHECK_OK(NA_Finalize(end.na_class));
    HG_CHECK_EQ_INT(life_warnings, 1);
}

#define LIFE_REFUSED(call, line) \
    do { \
        unsigned life_before = hg_test_log_count(line); \
        HG_CHECK_RET(call, NA_INVALID_ARG); \
        HG_CHECK_EQ_INT(hg_test_log_count(line), life_before + 1); \
    } while (0)

/* Use of a destroyed object is refused, with one line each time, and its memory
 * is not read. */
HG_TEST(finalized_objects_are_refused)
{
    static const char class_line[] = ": no such class is open";
    static const char context_line[] = ": the class has no such context";
    static const char trigger_line[] = "NA_Trigger: there is no such context";
    static const char addr_line[] = "NA_Addr_free: it was freed more often";
    struct conform_end end;
    struct conform_call call;
    na_mem_handle_t mem;
    na_addr_t addr;
    char buf[64];

    hg_test_expect_log(class_line);
    hg_test_expect_log(context_line);
    hg_test_expect_log(trigger_line);
    hg_test_expect_log(addr_line);
    conform_open(&end, NULL);
    HG_CHECK_OK(NA_Addr_dup(end.na_class, end.self, &addr));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.self));
    LIFE_REFUSED(NA_Addr_free(end.na_class, end.self), addr_line);
    LIFE_REFUSED(NA_Addr_free(end.na_class, end.self), addr_line);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.self));
    HG_CHECK_OK(NA_Context_destroy(end.na_class, end.context));
    LIFE_REFUSED(NA_Context_destroy(end.na_class, end.context), context_line);
    LIFE_REFUSED(NA_Progress(end.na_class, end.context, 0), context_line);
    LIFE_REFUSED(NA_Trigger(end.context, 0, 1, NULL), trigger_line);
    LIFE_REFUSED(
        NA_Cancel(end.na_class, end.context, NA_OP_ID_NULL), context_line);
    LIFE_REFUSED(conform_send(&end, &call, false, "x", 1, 1), context_line);
    LIFE_REFUSED(conform_recv(&end, &call, true, buf, 1, 1), context_line);
    LIFE_REFUSED(NA_Addr_lookup(end.na_class, end.context, conform_ended, &call,
                     "self://", NA_OP_ID_IGNORE),
        context_line);
    HG_CHECK_EQ_INT(NA_Poll_get_fd(end.na_class, end.context), -1);
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.self));
    HG_CHECK_OK(NA_Finalize(end.na_class));
    LIFE_REFUSED(NA_Finalize(end.na_class), class_line);
    LIFE_REFUSED(NA_Progress(end.na_class, end.context, 0), class_line);
    LIFE_REFUSED(NA_Context_destroy(end.na_class, end.context), class_line);
    LIFE_REFUSED(NA_Addr_self(end.na_class, &addr), class_line);
    LIFE_REFUSED(NA_Addr_free(end.na_class, end.self), class_line);
    LIFE_REFUSED(
        NA_Addr_lookup_wait(end.na_class, "self://", 1, &addr), class_line);
    LIFE_REFUSED(NA_Addr_resolve(end.na_class, "self://", &addr), class_line);
    LIFE_REFUSED(
        NA_Mem_handle_create(end.na_class, buf, 1, 3, &mem), class_line);
    LIFE_REFUSED(NA_Msg_buf_free(end.na_class, buf), class_line);
    LIFE_REFUSED(conform_send(&end, &call, false, "x", 1, 1), class_line);
    HG_CHECK(NA_Context_create(end.na_class) == NULL);
    HG_CHECK(NA_Msg_buf_alloc(end.na_class, 1) == NULL);
}

/* ---- Contexts ---- */

HG_TEST(contexts_are_limited_on_request)
{
    struct na_init_info info;
    na_class_t *na_class;
    na_context_t *contexts[3];

    conform_info(&info);
    info.max_contexts = 2;
    info.progress_thread = NA_TRUE; /* its own context does not count */
    na_class = conform_class(&info);
    contexts[0] = NA_Context_create(na_class);
    contexts[1] = NA_Context_create(na_class);
    HG_CHECK(contexts[0] != NULL && contexts[1] != NULL);
    hg_test_expect_log("no more than 2 contexts");
    HG_CHECK(NA_Context_create(na_class) == NULL);
    HG_CHECK_OK(NA_Context_destroy(na_class, contexts[0]));
    contexts[0] = NA_Context_create(na_class);
    HG_CHECK(contexts[0] != NULL);
    HG_CHECK_OK(NA_Context_destroy(na_class, contexts[0]));
    HG_CHECK_OK(NA_Context_destroy(na_class, contexts[1]));
    HG_CHECK_OK(NA_Finalize(na_class));
}

HG_TEST(contexts_of_other_classes_and_null_are_refused)
{
    struct conform_end a, b;
    unsigned count = 7;

    conform_open(&a, NULL);
    conform_open(&b, NULL);
    hg_test_expect_log("NA_Context_create: the class is NULL");
    HG_CHECK(NA_Context_create(NULL) == NULL);
    hg_test_expect_log("NA_Context_destroy: ");
    HG_CHECK_RET(NA_Context_destroy(a.na_class, b.context), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Context_destroy(a.na_class, NULL), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Context_destroy(NULL, a.context), NA_INVALID_ARG);
    hg_test_expect_log("NA_Progress: ");
    HG_CHECK_RET(NA_Progress(NULL, a.context, 0), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Progress(a.na_class, NULL, 0), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Progress(a.na_class, b.context, 0), NA_INVALID_ARG);
    hg_test_expect_log("NA_Trigger: the context is NULL");
    HG_CHECK_RET(NA_Trigger(NULL, 0, 1, &count), NA_INVALID_ARG);
    HG_CHECK_EQ_INT(count, 7);
    hg_test_expect_log("NA_Cancel: ");
    HG_CHECK_RET(
        NA_Cancel(a.na_class, b.context, NA_OP_ID_NULL), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Cancel(NULL, NULL, NA_OP_ID_NULL), NA_INVALID_ARG);
    hg_test_expect_log("NA_Poll_get_fd: ");
    HG_CHECK_EQ_INT(NA_Poll_get_fd(a.na_class, b.context), -1);
    hg_test_expect_log("NA_Poll_try_wait: ");
    HG_CHECK(NA_Poll_try_wait(a.na_class, NULL) == NA_FALSE);
    conform_close(&a);
    conform_close(&b);
}

static na_return_t life_destroy_me(const struct na_cb_info *info)
{
    struct conform_end *end = (struct conform_end *) info->arg;

    HG_CHECK_RET(NA_Context_destroy(end->na_class, end->context), NA_BUSY);
    end->self = NA_ADDR_NULL;
    return NA_SUCCESS;
}

HG_TEST(context_is_not_destroyed_by_its_own_callback)
{
    struct conform_end end;
    na_addr_t self;

    conform_open(&end, NULL);
    self = end.self;
    hg_test_expect_log("the context is in use by a thread or a callback");
    HG_CHECK_OK(NA_Msg_send_unexpected(end.na_class, end.context,
        life_destroy_me, &end, "x", 1, self, 1, NA_OP_ID_IGNORE));
    while (end.self != NA_ADDR_NULL)
        (void) conform_turn(end.na_class, end.context, 1);
    end.self = self;
    conform_close(&end);
}

HG_TEST(destroying_a_context_abandons_its_operations)
{
    struct conform_end end;
    struct conform_call recvs[3], send;
    char buf[3][16];
    unsigned i;

    conform_open(&end, NULL);
    for (i = 0; i < 3; i++)
        HG_CHECK_OK(conform_recv(
            &end, &recvs[i], i > 0, buf[i], sizeof(buf[i]), i + 100));
    HG_CHECK_OK(conform_send(&end, &send, true, "done", 4, 101));
    conform_close(&end);
    for (i = 0; i < 3; i++)
        HG_CHECK_EQ_INT(recvs[i].ends, 0);
}

/* ---- Addresses ---- */

HG_TEST(addresses_are_compared_and_printed)
{
    struct conform_end end;
    na_addr_t other, again;
    char name[NA_MAX_ADDR_LEN], text[NA_MAX_ADDR_LEN];
    na_size_t size;

    conform_open(&end, NULL);
    HG_CHECK(NA_Addr_is_self(end.na_class, end.self) == NA_TRUE);
    HG_CHECK_OK(NA_Addr_dup(end.na_class, end.self, &other));
    HG_CHECK(NA_Addr_cmp(end.na_class, end.self, other) == NA_TRUE);
    HG_CHECK_OK(NA_Addr_to_string(end.na_class, name, sizeof(name), end.self));
    HG_CHECK(strstr(name, "://") != NULL);
    size = strlen(name) + 1;
    HG_CHECK_OK(NA_Addr_to_string(end.na_class, text, size, other));
    HG_CHECK_EQ_STR(text, name);
    hg_test_expect_log("NA_Addr_to_string: ");
    hg_test_expect_log("NA_Addr_serialize");
    memset(text, 'z', sizeof(text));
    HG_CHECK_RET(
        NA_Addr_to_string(end.na_class, text, size - 1, other), NA_MSGSIZE);
    HG_CHECK_RET(NA_Addr_to_string(end.na_class, text, 0, other), NA_MSGSIZE);
    HG_CHECK_EQ_INT(text[0], 'z');
    HG_CHECK_RET(
        NA_Addr_to_string(end.na_class, NULL, 100, other), NA_INVALID_ARG);
    HG_CHECK_OK(NA_Addr_free(end.na_class, other));
    size = NA_Addr_get_serialize_size(end.na_class, end.self);
    HG_CHECK(size > 0 && size <= sizeof(text));
    HG_CHECK_RET(
        NA_Addr_serialize(end.na_class, text, size - 1, end.self), NA_MSGSIZE);
    HG_CHECK_OK(NA_Addr_serialize(end.na_class, text, size, end.self));
    HG_CHECK_OK(NA_Addr_deserialize(end.na_class, &again, text, size));
    HG_CHECK(NA_Addr_is_self(end.na_class, again) == NA_TRUE);
    HG_CHECK(NA_Addr_cmp(end.na_class, end.self, again) == NA_TRUE);
    HG_CHECK_OK(NA_Addr_free(end.na_class, again));
    conform_close(&end);
}

HG_TEST(addresses_of_other_classes_and_null_are_refused)
{
    struct conform_end a, b;
    na_addr_t addr;
    char buf[NA_MAX_ADDR_LEN];

    conform_open(&a, NULL);
    conform_open(&b, NULL);
    hg_test_expect_log("NA_Addr_self: ");
    HG_CHECK_RET(NA_Addr_self(NULL, &addr), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Addr_self(a.na_class, NULL), NA_INVALID_ARG);
    hg_test_expect_log("NA_Addr_free: ");
    HG_CHECK_RET(NA_Addr_free(a.na_class, b.self), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Addr_free(a.na_class, NULL), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Addr_free(NULL, a.self), NA_INVALID_ARG);
    hg_test_expect_log("NA_Addr_dup: ");
    HG_CHECK_RET(NA_Addr_dup(a.na_class, b.self, &addr), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Addr_dup(a.na_class, a.self, NULL), NA_INVALID_ARG);
    hg_test_expect_log("NA_Addr_is_self: ");
    HG_CHECK(NA_Addr_is_self(a.na_class, b.self) == NA_FALSE);
    hg_test_expect_log("NA_Addr_cmp: ");
    HG_CHECK(NA_Addr_cmp(a.na_class, a.self, b.self) == NA_FALSE);
    HG_CHECK(NA_Addr_cmp(a.na_class, NULL, a.self) == NA_FALSE);
    hg_test_expect_log("NA_Addr_to_string: ");
    HG_CHECK_RET(
        NA_Addr_to_string(a.na_class, buf, sizeof(buf), NULL), NA_INVALID_ARG);
    hg_test_expect_log("NA_Addr_get_serialize_size: ");
    HG_CHECK_EQ_U64(NA_Addr_get_serialize_size(a.na_class, NULL), 0);
    hg_test_expect_log("NA_Addr_deserialize: ");
    HG_CHECK_RET(
        NA_Addr_deserialize(a.na_class, &addr, NULL, 4), NA_INVALID_ARG);
    HG_CHECK_RET(
        NA_Addr_deserialize(a.na_class, &addr, "abc", 3), NA_PROTOCOL_ERROR);
    HG_CHECK_RET(
        NA_Addr_deserialize(a.na_class, &addr, "abc", 0), NA_PROTOCOL_ERROR);
    conform_close(&a);
    conform_close(&b);
}

HG_TEST(malformed_serialized_addresses_are_refused)
{
    struct conform_end end;
    uint64_t random = hg_test_seed();
    unsigned char buf[64];
    na_addr_t addr;
    unsigned i;
    size_t j;

    conform_open(&end, NULL);
    hg_test_allow_log("");
    for (i = 0; i < 1000; i++) {
        size_t size = hg_test_random(&random) % sizeof(buf);

        for (j = 0; j < size; j++)
            buf[j] = (unsigned char) hg_test_random(&random);
        HG_CHECK(NA_Addr_deserialize(end.na_class, &addr, buf, size) != 0);
    }
    conform_close(&end);
}

/* ---- Lookups ---- */

static na_return_t life_lookup(
    struct conform_end *end, struct conform_call *call, const char *name)
{
    memset(call, 0, sizeof(*call));
    return NA_Addr_lookup(
        end->na_class, end->context, conform_ended, call, name, &call->id);
}

HG_TEST(own_address_string_gives_the_self_address)
{
    struct conform_end end;
    struct conform_call call;
    na_addr_t addr;
    char name[NA_MAX_ADDR_LEN];

    conform_open(&end, NULL);
    HG_CHECK_OK(NA_Addr_to_string(end.na_class, name, sizeof(name), end.self));
    HG_CHECK_OK(life_lookup(&end, &call, name));
    memset(name, 'x', sizeof(name) - 1); /* it was copied */
    HG_CHECK_OK(conform_wait(&end, &call));
    HG_CHECK_EQ_INT(call.type, NA_CB_LOOKUP);
    HG_CHECK(NA_Addr_is_self(end.na_class, call.addr) == NA_TRUE);
    HG_CHECK(NA_Addr_cmp(end.na_class, call.addr, end.self) == NA_TRUE);
    conform_free_addr(&end, &call);
    HG_CHECK_OK(NA_Addr_to_string(end.na_class, name, sizeof(name), end.self));
    HG_CHECK_OK(NA_Addr_lookup_wait(end.na_class, name, 5000, &addr));
    HG_CHECK(NA_Addr_is_self(end.na_class, addr) == NA_TRUE);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    HG_CHECK_OK(NA_Addr_resolve(end.na_class, name, &addr));
    HG_CHECK(NA_Addr_is_self(end.na_class, addr) == NA_TRUE);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    /* Without a callback nothing is queued and nothing leaks. */
    HG_CHECK_OK(NA_Addr_lookup(
        end.na_class, end.context, NULL, NULL, name, NA_OP_ID_IGNORE));
    conform_idle(&end);
    conform_close(&end);
}

/* The last blocking lookup has logged why it failed. */
static void life_check_text(const char *part)
{
    const char *text = HG_Get_last_error_text();

    if (strncmp(text, "NA_Addr_lookup_wait: ", 21) != 0 ||
        strstr(text, part) == NULL)
        hg_test_fail(HG_TEST_HERE, "'%s', want %s", text, part);
}

HG_TEST(bad_names_are_refused_at_once)
{
    struct conform_end end;
    struct conform_call call;
    na_addr_t addr = NA_ADDR_NULL;

    conform_open(&end, NULL);
    hg_test_expect_log("'no scheme' is not");
    HG_CHECK_RET(life_lookup(&end, &call, "no scheme"), NA_INVALID_ARG);
    hg_test_expect_log("'://x' is not");
    HG_CHECK_RET(life_lookup(&end, &call, "://x"), NA_INVALID_ARG);
    hg_test_expect_log("pigeon://coop': this class was opened for");
    HG_CHECK_RET(
        life_lookup(&end, &call, "carrier+pigeon://coop"), NA_PROTONOSUPPORT);
    HG_CHECK_RET(
        NA_Addr_lookup_wait(end.na_class, "carrier+pigeon://coop", 9, &addr),
        NA_PROTONOSUPPORT);
    life_check_text("'carrier+pigeon://coop': this class was opened for");
    hg_test_expect_log("NA_Addr_lookup: the name is NULL");
    hg_test_expect_log("NA_Addr_lookup: the context is NULL");
    HG_CHECK_RET(life_lookup(&end, &call, NULL), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Addr_lookup(end.na_class, NULL, conform_ended, &call,
                     "self://", NA_OP_ID_IGNORE),
        NA_INVALID_ARG);
    hg_test_expect_log("NA_Addr_lookup_wait: an argument is NULL");
    HG_CHECK_RET(
        NA_Addr_lookup_wait(end.na_class, NULL, 9, &addr), NA_INVALID_ARG);
    life_check_text("an argument is NULL");
    hg_test_expect_log("NA_Addr_resolve: an argument is NULL");
    HG_CHECK_RET(NA_Addr_resolve(end.na_class, NULL, &addr), NA_INVALID_ARG);
    HG_CHECK_RET(NA_Addr_resolve(end.na_class, "carrier+pigeon://coop", &addr),
        NA_PROTONOSUPPORT);
    HG_CHECK(addr == NA_ADDR_NULL && call.ends == 0);
    conform_idle(&end);
    conform_close(&end);
}

HG_TEST(dead_address_is_unreachable)
{
    struct na_init_info info;
    struct conform_end end, gone;
    struct conform_call call;
    na_addr_t addr = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN];

    conform_info(&info);
    info.lookup_ms = 500;
    conform_open(&end, &info);
    /* The string of a class that was finalized. */
    conform_open(&gone, NULL);
    HG_CHECK_OK(
        NA_Addr_to_string(gone.na_class, name, sizeof(name), gone.self));
    conform_close(&gone);
    hg_test_allow_log("");
    HG_CHECK_OK(life_lookup(&end, &call, name));
    HG_CHECK_RET(conform_wait(&end, &call), NA_HOSTUNREACH);
    HG_CHECK(call.addr == NA_ADDR_NULL);
    HG_CHECK_RET(
        NA_Addr_lookup_wait(end.na_class, name, 5000, &addr), NA_HOSTUNREACH);
    life_check_text(name);
    HG_CHECK(addr == NA_ADDR_NULL);
    conform_close(&end);
}

/* ---- A lookup that waits for its listener ---- */

/* Open a listener at the address of a class that was closed, when told to. */
HG_TEST_ROLE(late)
{
    struct na_init_info info;
    struct conform_end end;
    struct pollfd channel = {hg_test_parent_fd(), POLLIN, 0};

    (void) argc;
    free(hg_test_read_parent());
    conform_info(&info);
    end.na_class = NA_Initialize_opt(argv[0], NA_TRUE, &info);
    HG_CHECK(end.na_class != NULL);
    end.context = NA_Context_create(end.na_class);
    HG_CHECK(end.context != NULL);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.self));
    while (poll(&channel, 1, 0) == 0)
        (void) conform_turn(end.na_class, end.context, 1);
    conform_close(&end);
}

static _Atomic(struct hg_test_peer *) life_late;

/* Count errors. The peer is told to listen once the lookup has failed. */
static void life_on_line(
    int level, const char *subsys, const char *line, void *arg)
{
    struct hg_test_peer *late;

    (void) subsys;
    if (level <= HG_LOG_LEVEL_ERROR)
        ++*(_Atomic unsigned *) arg;
    if (level != HG_LOG_LEVEL_INFO || strstr(line, "cannot be reached") == NULL)
        return;
    late = atomic_exchange(&life_late, NULL);
    if (late != NULL)
        hg_test_write_peer(late, "now");
}

/* The address of a class that was closed. */
static void life_free_name(char name[NA_MAX_ADDR_LEN])
{
    struct conform_end gone;

    conform_open(&gone, NULL);
    HG_CHECK_OK(
        NA_Addr_to_string(gone.na_class, name, NA_MAX_ADDR_LEN, gone.self));
    conform_close(&gone);
}

/* Ranks cannot be started later, nor can "self". */
static bool life_starts_later(void)
{
    return hg_test_crosses_processes() && !hg_test_is_mpi();
}

HG_TEST_WHERE(lookup_waits_for_its_listener, life_starts_later)
{
    struct na_init_info info;
    struct conform_end end;
    struct hg_test_peer *late;
    _Atomic unsigned lines = 0;
    na_addr_t addr = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN];

    conform_info(&info);
    info.lookup_ms = 200;
    conform_open(&end, &info);
    life_free_name(name);
    late = hg_test_spawn("late", name, NULL);
    atomic_store(&life_late, late);
    HG_CHECK_OK(HG_Set_log_level("info"));
    HG_Set_log_func(life_on_line, &lines);
    HG_CHECK_OK(
        NA_Addr_lookup_listener(end.na_class, name, CONFORM_TIMEOUT, &addr));
    HG_CHECK(atomic_load(&life_late) == NULL);
    HG_CHECK_EQ_INT(atomic_load(&lines), 0);
    HG_Set_log_func(NULL, NULL);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    hg_test_stop(late);
    conform_close(&end);
}

/* A send to the same address fails with the first try of the lookup. That is an
 * error of the application's, which a lookup alone would not log. */
HG_TEST_WHERE(lookup_that_waits_hides_no_error_of_a_send, life_starts_later)
{
    struct na_init_info info;
    struct conform_end end;
    struct conform_call send;
    na_addr_t addr, none = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN];

    conform_info(&info);
    info.lookup_ms = 50;
    conform_open(&end, &info);
    life_free_name(name);
    HG_CHECK_OK(NA_Addr_resolve(end.na_class, name, &addr));
    hg_test_expect_log("cannot be reached");
    hg_test_expect_log("nobody listens at");
    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(end.na_class, end.context, conform_ended,
        &send, "x", 1, addr, 1, &send.id));
    HG_CHECK_RET(
        NA_Addr_lookup_listener(end.na_class, name, 100, &none), NA_TIMEOUT);
    HG_CHECK_RET(conform_wait(&end, &send), NA_HOSTUNREACH);
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    conform_close(&end);
}

HG_TEST_WHERE(lookup_that_waits_ends_with_its_time, hg_test_crosses_processes)
{
    struct na_init_info info;
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN];

    conform_info(&info);
    info.lookup_ms = 50;
    conform_open(&end, &info);
    life_free_name(name);
    hg_test_expect_log("nobody listens at");
    HG_CHECK_RET(
        NA_Addr_lookup_listener(end.na_class, name, 300, &addr), NA_TIMEOUT);
    HG_CHECK(strstr(HG_Get_last_error_text(), name) != NULL);
    HG_CHECK(strncmp(HG_Get_last_error_text(),
                 "NA_Addr_lookup_listener: ", 25) == 0);
    /* Other codes than that of a missing listener end it at once. */
    hg_test_expect_log("pigeon://coop': this class was opened for");
    HG_CHECK_RET(NA_Addr_lookup_listener(
                     end.na_class, "carrier+pigeon://coop", 60000, &addr),
        NA_PROTONOSUPPORT);
    hg_test_expect_log("NA_Addr_lookup_listener: an argument is NULL");
    HG_CHECK_RET(NA_Addr_lookup_listener(end.na_class, NULL, 60000, &addr),
        NA_INVALID_ARG);
    HG_CHECK_RET(NA_Addr_lookup_listener(end.na_class, name, 60000, NULL),
        NA_INVALID_ARG);
    HG_CHECK(addr == NA_ADDR_NULL);
    conform_close(&end);
}

HG_TEST(lookup_can_be_canceled)
{
    struct conform_end end;
    struct conform_call call;
    char name[64];
    na_return_t ret;

    conform_open(&end, NULL);
    hg_test_allow_log("");
    /* No host answers at an address of the documentation network. */
    (void) snprintf(name, sizeof(name), "%s://%s", hg_test_transport(),
        hg_test_crosses_hosts() ? "192.0.2.1:9"
            : hg_test_is_self() ? "1-1"
            : hg_test_is_mpi()  ? "0:9"
                                : "nobody");
    HG_CHECK_OK(life_lookup(&end, &call, name));
    ret = NA_Cancel(end.na_class, end.context, call.id);
    HG_CHECK(ret == NA_SUCCESS || ret == NA_NOENTRY);
    ret = conform_wait(&end, &call);
    HG_CHECK(ret == NA_CANCELED || ret == NA_HOSTUNREACH);
    HG_CHECK_RET(NA_Cancel(end.na_class, end.context, call.id), NA_NOENTRY);
    conform_idle(&end);
    conform_close(&end);
}

HG_TEST(terminating_leaves_an_address_usable)
{
    struct conform_end end;
    struct conform_call send, term, recv;
    char got[8];

    conform_open(&end, NULL);
    HG_CHECK_OK(conform_send(&end, &send, true, "before", 7, 3));
    memset(&term, 0, sizeof(term));
    HG_CHECK_OK(NA_Addr_terminate(
        end.na_class, end.context, conform_ended, &term, end.self, &term.id));
    HG_CHECK_OK(conform_wait(&end, &term));
    HG_CHECK_EQ_INT(term.type, NA_CB_TERMINATE);
    HG_CHECK_OK(conform_recv(&end, &recv, true, got, sizeof(got), 3));
    HG_CHECK_OK(conform_wait(&end, &recv));
    HG_CHECK_EQ_STR(got, "before");
    HG_CHECK_OK(conform_send(&end, &send, true, "after", 6, 3));
    HG_CHECK_OK(conform_recv(&end, &recv, true, got, sizeof(got), 3));
    HG_CHECK_OK(conform_wait(&end, &recv));
    HG_CHECK_EQ_STR(got, "after");
    HG_CHECK_OK(conform_wait(&end, &send));
    hg_test_expect_log("NA_Addr_terminate: ");
    HG_CHECK_RET(NA_Addr_terminate(end.na_class, NULL, conform_ended, &term,
                     end.self, NA_OP_ID_IGNORE),
        NA_INVALID_ARG);
    HG_CHECK_RET(NA_Addr_terminate(end.na_class, end.context, conform_ended,
                     &term, NULL, NA_OP_ID_IGNORE),
        NA_INVALID_ARG);
    conform_close(&end);
}

HG_TEST(every_code_has_a_text)
{
    na_return_t ret;

    for (ret = 0; ret < NA_RETURN_MAX; ret++) {
        HG_CHECK(strcmp(NA_Error_to_string(ret), "unknown error") != 0);
        HG_CHECK_EQ_STR(NA_Error_to_string(ret), HG_Error_to_string(ret));
    }
    HG_CHECK_EQ_STR(NA_Error_to_string(-1), "unknown error");
    HG_CHECK_EQ_STR(NA_Error_to_string(9999), "unknown error");
}

/* ---- Why a lookup fails ---- */

static bool life_has_peers(void)
{
    return hg_test_crosses_processes() && !hg_test_is_mpi();
}

/* The text is complete at each log level, also if the progress thread of the
 * class, or another thread of the transport, has noticed that nobody
 * listens. */
HG_TEST_WHERE(failed_lookup_says_why_whichever_thread_notices, life_has_peers)
{
    unsigned rounds = hg_test_is_ofi() ? 2 : 100; /* each takes lookup_ms */
    struct na_init_info info;
    struct conform_end end;
    na_addr_t addr = NA_ADDR_NULL;
    char name[NA_MAX_ADDR_LEN];

    conform_open(&end, NULL);
    HG_CHECK_OK(NA_Addr_to_string(end.na_class, name, sizeof(name), end.self));
    conform_close(&end); /* its name is free */
    hg_test_expect_log("cannot be reached");
    conform_info(&info);
    info.progress_thread = NA_TRUE;
    info.lookup_ms = hg_test_scaled_ms(250);
    conform_open(&end, &info);
    for (; rounds > 0; rounds--) {
        HG_CHECK_OK(HG_Set_log_level(rounds % 2 == 0 ? "none" : "error"));
        HG_CHECK_RET(
            NA_Addr_lookup_wait(end.na_class, name, CONFORM_TIMEOUT, &addr),
            NA_HOSTUNREACH);
        if (strstr(HG_Get_last_error_text(), " cannot be reached: ") == NULL)
            hg_test_fail(
                HG_TEST_HERE, "the text is %s", HG_Get_last_error_text());
    }
    conform_close(&end);
}
