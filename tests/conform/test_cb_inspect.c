/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inspection in the callback model: what HG_Dump prints about operations in
 * flight, and the built-in functions that every class serves. The target is
 * another process where the transport reaches one, else this process.
 */
#define _GNU_SOURCE 1
#include "cb.h"

#include <unistd.h>

#define INSPECT_BULK ((size_t) 8 << 20)

static hg_id_t inspect_keep;
static hg_id_t inspect_free;
static hg_id_t inspect_dump;
static hg_id_t inspect_block;

static hg_id_t inspect_ping;
static hg_id_t inspect_version;
static hg_id_t inspect_list;
static hg_id_t inspect_stats;

/* ---- The target ---- */

MERCURY_GEN_PROC(inspect_text_t, ((hg_string_t) (text)))

static hg_handle_t inspect_kept;
static _Atomic unsigned inspect_inside;
static _Atomic unsigned inspect_go_on;

/* The output of HG_Dump; the caller frees it. */
static char *inspect_at(hg_class_t *hg_class, hg_return_t want)
{
    size_t size = 0;
    char *text = NULL;
    FILE *stream = open_memstream(&text, &size);

    HG_CHECK(stream != NULL);
    HG_CHECK_RET(HG_Dump(hg_class, stream), want);
    HG_CHECK(fclose(stream) == 0 && text != NULL && size > 0);
    return text;
}

/* Keeps the call until inspect_free is called. */
static hg_return_t inspect_on_keep(hg_handle_t handle)
{
    HG_CHECK(inspect_kept == HG_HANDLE_NULL);
    inspect_kept = handle;
    return HG_SUCCESS;
}

static hg_return_t inspect_on_free(hg_handle_t handle)
{
    HG_CHECK(inspect_kept != HG_HANDLE_NULL);
    HG_CHECK_OK(HG_Respond(inspect_kept, NULL, NULL, NULL));
    HG_CHECK_OK(HG_Destroy(inspect_kept));
    inspect_kept = HG_HANDLE_NULL;
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

/* The target's operations in flight. */
static hg_return_t inspect_on_dump(hg_handle_t handle)
{
    inspect_text_t out;

    out.text = inspect_at(HG_Get_info(handle)->hg_class, HG_SUCCESS);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    free(out.text);
    return HG_Destroy(handle);
}

/* A handler that does not return. */
static hg_return_t inspect_on_block(hg_handle_t handle)
{
    atomic_store(&inspect_inside, 1);
    while (atomic_load(&inspect_go_on) == 0)
        (void) usleep(1000);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

static hg_id_t inspect_register_builtin(hg_class_t *hg_class, const char *name)
{
    hg_id_t id = HG_Register_name(
        hg_class, name, hg_proc_hg_builtin_t, hg_proc_hg_builtin_t, NULL);

    HG_CHECK(id != 0);
    return id;
}

static void cb_register(hg_class_t *hg_class)
{
    inspect_keep =
        MERCURY_REGISTER(hg_class, "look keep", void, void, inspect_on_keep);
    inspect_free =
        MERCURY_REGISTER(hg_class, "look free", void, void, inspect_on_free);
    inspect_dump = MERCURY_REGISTER(
        hg_class, "look dump", void, inspect_text_t, inspect_on_dump);
    inspect_block =
        MERCURY_REGISTER(hg_class, "look block", void, void, inspect_on_block);
    inspect_ping = inspect_register_builtin(hg_class, HG_BUILTIN_PING);
    inspect_version = inspect_register_builtin(hg_class, HG_BUILTIN_VERSION);
    inspect_list = inspect_register_builtin(hg_class, HG_BUILTIN_LIST);
    inspect_stats = inspect_register_builtin(hg_class, HG_BUILTIN_STATS);
}

/* ---- Operations in flight ---- */

/* Whether one line of the text has all three parts. */
static bool inspect_has(
    const char *text, const char *one, const char *two, const char *three)
{
    const char *line = text;

    while (line != NULL) {
        size_t size = strcspn(line, "\n");
        char copy[512];

        HG_CHECK(size < sizeof(copy));
        memcpy(copy, line, size);
        copy[size] = '\0';
        if (strstr(copy, one) != NULL && strstr(copy, two) != NULL &&
            strstr(copy, three) != NULL)
            return true;
        line = line[size] != '\0' ? line + size + 1 : NULL;
    }
    fprintf(
        stderr, "no line with '%s', '%s', '%s' in\n%s", one, two, three, text);
    return false;
}

static void inspect_target_name(const struct cb_end *end, char *name)
{
    hg_size_t size = NA_MAX_ADDR_LEN;

    HG_CHECK_OK(HG_Addr_to_string(end->hg_class, name, &size, end->target));
}

HG_TEST(dump_shows_calls)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end;
    struct cb_call kept;
    hg_handle_t handle;
    hg_handle_t asking;
    inspect_text_t out;
    char *text;

    cb_open(&end);
    inspect_target_name(&end, name);
    handle = cb_new_handle(&end, inspect_keep);
    HG_CHECK_OK(cb_forward(&kept, handle, NULL));
    text = inspect_at(end.hg_class, HG_SUCCESS);
    HG_CHECK(
        inspect_has(text, "out \"look keep\" to ", name, " the response, 0."));
    free(text);
    asking = cb_new_handle(&end, inspect_dump);
    HG_CHECK_OK(cb_do(&end, asking, NULL, &out));
    HG_CHECK(
        inspect_has(out.text, "in \"look keep\" from ", "waits to be", " s"));
    HG_CHECK(inspect_has(out.text, "in \"look dump\" from ", "is being", " s"));
    HG_CHECK_OK(HG_Free_output(asking, &out));
    HG_CHECK_OK(HG_Destroy(asking));
    HG_CHECK_OK(cb_call(&end, inspect_free, NULL, NULL));
    HG_CHECK_OK(cb_wait(&end, &kept));
    text = inspect_at(end.hg_class, HG_SUCCESS);
    HG_CHECK(
        inspect_has(text, "context 0", ": 0 calls, 0 transfers", "0 sends"));
    HG_CHECK(strstr(text, "\"look") == NULL);
    free(text);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

static hg_return_t inspect_bulk_ended(const struct hg_cb_info *info)
{
    HG_CHECK_OK(info->ret);
    atomic_store((_Atomic unsigned *) info->arg, 1);
    return HG_SUCCESS;
}

HG_TEST(dump_shows_transfers)
{
    _Atomic unsigned ended = 0;
    hg_bulk_t bulks[2];
    hg_size_t size = INSPECT_BULK;
    struct cb_end end;
    hg_addr_t self;
    char *text;
    int i;

    cb_open(&end);
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(HG_Bulk_create(
            end.hg_class, 1, NULL, &size, HG_BULK_READWRITE, &bulks[i]));
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    HG_CHECK_OK(HG_Bulk_transfer(end.context, inspect_bulk_ended, &ended,
        HG_BULK_PULL, self, bulks[0], 0, bulks[1], 0, size, HG_OP_ID_IGNORE));
    text = inspect_at(end.hg_class, HG_SUCCESS);
    HG_CHECK(inspect_has(text, "bulk pull from ", "8388608", " to run, "));
    HG_CHECK(inspect_has(text, "context 0", " 1 transfers", " wait to run"));
    free(text);
    cb_turn_until(end.context, &ended);
    text = inspect_at(end.hg_class, HG_SUCCESS);
    HG_CHECK(strstr(text, "bulk") == NULL);
    free(text);
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(HG_Bulk_free(bulks[i]));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    cb_close(&end);
}

static void *inspect_turn(void *arg)
{
    struct cb_end *end = (struct cb_end *) arg;

    cb_turn_until(end->context, &inspect_inside);
    return NULL;
}

/* Calls to oneself, one of which blocks the thread that triggers. */
HG_TEST(dump_does_not_wait_for_progress)
{
    struct cb_call calls[2];
    hg_handle_t handles[2];
    struct cb_end end;
    pthread_t thread;
    hg_addr_t self;
    char *text;
    int i;

    cb_open(&end);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(HG_Create(end.context, self, inspect_block, &handles[i]));
        HG_CHECK_OK(cb_forward(&calls[i], handles[i], NULL));
    }
    HG_CHECK(pthread_create(&thread, NULL, inspect_turn, &end) == 0);
    while (atomic_load(&inspect_inside) == 0)
        (void) usleep(1000);
    text = inspect_at(NULL, HG_SUCCESS);
    HG_CHECK(inspect_has(text, "in \"look block\"", "is being executed", " s"));
    HG_CHECK(
        inspect_has(text, "in \"look block\"", "waits to be executed", ""));
    HG_CHECK(
        inspect_has(text, "context 0: 4 calls", "", "; calls wait to run"));
    free(text);
    atomic_store(&inspect_go_on, 1);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(cb_wait(&end, &calls[i]));
        HG_CHECK_OK(HG_Destroy(handles[i]));
    }
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    cb_close(&end);
}

struct inspect_dumper {
    hg_class_t *hg_class;
    _Atomic unsigned stop;
    _Atomic unsigned dumps;
};

static void *inspect_dump_on(void *arg)
{
    struct inspect_dumper *dumper = (struct inspect_dumper *) arg;

    while (atomic_load(&dumper->stop) == 0) {
        size_t size = 0;
        char *text = NULL;
        FILE *stream = open_memstream(&text, &size);
        hg_return_t ret;

        HG_CHECK(stream != NULL);
        ret = HG_Dump(dumper->hg_class, stream);
        HG_CHECK(ret == HG_SUCCESS || ret == HG_AGAIN);
        HG_CHECK(fclose(stream) == 0);
        free(text);
        atomic_fetch_add(&dumper->dumps, 1);
    }
    return NULL;
}

/* Handles, calls and transfers are created and completed meanwhile. */
HG_TEST(dump_runs_while_calls_run)
{
    struct inspect_dumper dumper = {NULL, 0, 0};
    hg_size_t size = 65536;
    hg_bulk_t bulks[2];
    struct cb_end end;
    pthread_t thread;
    hg_addr_t self;
    int i;

    cb_open(&end);
    dumper.hg_class = end.hg_class;
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(HG_Bulk_create(
            end.hg_class, 1, NULL, &size, HG_BULK_READWRITE, &bulks[i]));
    HG_CHECK(pthread_create(&thread, NULL, inspect_dump_on, &dumper) == 0);
    for (i = 0; i < 300 || atomic_load(&dumper.dumps) < 20; i++) {
        hg_handle_t handle = cb_new_handle(&end, inspect_ping);
        hg_builtin_t ping = {(uint64_t) i, NULL};
        _Atomic unsigned ended = 0;
        struct cb_call calls[2];

        HG_CHECK_OK(HG_Bulk_transfer(end.context, inspect_bulk_ended, &ended,
            HG_BULK_PULL, self, bulks[0], 0, bulks[1], 0, size,
            HG_OP_ID_IGNORE));
        HG_CHECK_OK(cb_forward(&calls[0], handle, &ping));
        HG_CHECK_OK(cb_wait(&end, &calls[0]));
        HG_CHECK_OK(HG_Reset(handle, self, inspect_list));
        HG_CHECK_OK(cb_forward(&calls[1], handle, &ping));
        HG_CHECK_OK(cb_wait(&end, &calls[1]));
        HG_CHECK_OK(HG_Destroy(handle));
        cb_turn_until(end.context, &ended);
    }
    atomic_store(&dumper.stop, 1);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(HG_Bulk_free(bulks[i]));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    cb_close(&end);
}

/* NULL means all classes; a missing stream is an error. */
HG_TEST(dump_covers_all_classes)
{
    struct cb_end ends[2];
    char *text;
    char *second;
    int i;

    for (i = 0; i < 2; i++)
        cb_start(&ends[i], 1);
    text = inspect_at(NULL, HG_SUCCESS);
    second = strstr(text, "\nclass ");
    HG_CHECK(strncmp(text, "class ", 6) == 0 && second != NULL);
    HG_CHECK(strstr(second + 1, "\nclass ") == NULL);
    free(text);
    hg_test_expect_log("the stream is NULL");
    HG_CHECK_RET(HG_Dump(ends[0].hg_class, NULL), HG_INVALID_ARG);
    for (i = 0; i < 2; i++)
        cb_end(&ends[i]);
}

/* The error comes from fwrite, or from fflush if the stream has a buffer. */
HG_TEST(dump_reports_a_full_device)
{
    struct cb_end end;
    int buffered;

    cb_start(&end, 1);
    hg_test_expect_log("HG_Dump: the stream: No space left");
    for (buffered = 0; buffered < 2; buffered++) {
        FILE *stream = fopen("/dev/full", "w");

        if (stream == NULL)
            hg_test_skip("no /dev/full here");
        if (!buffered)
            HG_CHECK(setvbuf(stream, NULL, _IONBF, 0) == 0);
        HG_CHECK_RET(HG_Dump(end.hg_class, stream), HG_IO_ERROR);
        (void) fclose(stream);
    }
    cb_end(&end);
}

/* ---- Built-in functions ---- */

/* The target's response; the caller frees its text. */
static hg_return_t inspect_ask(const struct cb_end *end, hg_id_t id,
    uint64_t number, char *text, hg_builtin_t *answer)
{
    hg_handle_t handle = cb_new_handle(end, id);
    hg_builtin_t question = {number, text};
    hg_return_t ret = cb_do(end, handle, &question, answer);

    if (ret == HG_SUCCESS) {
        text = answer->text != NULL ? strdup(answer->text) : NULL;
        HG_CHECK_OK(HG_Free_output(handle, answer));
        answer->text = text;
    }
    HG_CHECK_OK(HG_Destroy(handle));
    return ret;
}

HG_TEST(builtins_answer)
{
    char word[] = "word";
    char line[64];
    hg_builtin_t answer;
    struct cb_end end;

    cb_open(&end);
    HG_CHECK_OK(inspect_ask(&end, inspect_ping, 77, word, &answer));
    HG_CHECK_EQ_U64(answer.number, 77);
    HG_CHECK_EQ_STR(answer.text, "word");
    free(answer.text);
    HG_CHECK_OK(inspect_ask(&end, inspect_ping, UINT64_MAX, NULL, &answer));
    HG_CHECK_EQ_U64(answer.number, UINT64_MAX);
    HG_CHECK(answer.text == NULL);
    HG_CHECK_OK(inspect_ask(&end, inspect_version, 0, NULL, &answer));
    HG_CHECK(inspect_has(answer.text, "hg ", ".", ""));
    HG_CHECK(inspect_has(answer.text, "mercury 2.4.1", "", ""));
    HG_CHECK(inspect_has(answer.text, "wire 2", "", ""));
    HG_CHECK(inspect_has(answer.text, "transport ",
        HG_Class_get_protocol(end.hg_class),
        strchr(hg_test_transport(), '+') != NULL ? "+" : ""));
    HG_CHECK(strstr(answer.text, "sm+sm") == NULL);
    free(answer.text);
    HG_CHECK_OK(inspect_ask(&end, inspect_stats, 0, NULL, &answer));
    HG_CHECK(inspect_has(answer.text, "requests_received 4", "", ""));
    HG_CHECK(inspect_has(answer.text, "held_bytes 0", "", ""));
    if (strcmp(hg_test_transport(), "sm") == 0)
        HG_CHECK(inspect_has(answer.text, "sm_rma_mapped 0", "", ""));
    free(answer.text);
    HG_CHECK_OK(inspect_ask(&end, inspect_list, 0, NULL, &answer));
    HG_CHECK_EQ_U64(answer.number, 0);
    snprintf(line, sizeof(line), "%016" PRIx64 " look keep", inspect_keep);
    HG_CHECK(inspect_has(answer.text, line, "", ""));
    HG_CHECK(strstr(answer.text, "hg:") == NULL);
    free(answer.text);
    cb_close(&end);
}

/* A text that is too long; a request of another type. */
HG_TEST(builtins_refuse)
{
    char text[HG_BUILTIN_TEXT_MAX + 1];
    hg_handle_t handle;
    hg_builtin_t answer;
    struct cb_end end;

    cb_open(&end);
    hg_test_allow_log("hg:ping");
    memset(text, 'x', sizeof(text));
    text[HG_BUILTIN_TEXT_MAX] = '\0';
    HG_CHECK_RET(inspect_ask(&end, inspect_ping, 1, text, &answer), HG_MSGSIZE);
    text[HG_BUILTIN_TEXT_MAX - 1] = '\0';
    HG_CHECK_OK(inspect_ask(&end, inspect_ping, 1, text, &answer));
    HG_CHECK_EQ_STR(answer.text, text);
    free(answer.text);
    handle = cb_new_handle(&end, inspect_ping);
    HG_CHECK_RET(cb_do(&end, handle, NULL, NULL), HG_OVERFLOW);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

/* HG_Progress answers them: the first entry to trigger is the callback. */
HG_TEST(builtins_are_not_triggered)
{
    hg_builtin_t ping = {1, NULL};
    hg_handle_t handle;
    hg_addr_t target;
    struct cb_call call;
    struct cb_end end;

    cb_open(&end);
    target = end.target;
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    handle = cb_new_handle(&end, inspect_ping);
    HG_CHECK_OK(cb_forward(&call, handle, &ping));
    HG_CHECK_OK(HG_Progress(end.context, CB_TIMEOUT));
    HG_CHECK_EQ_INT(cb_trigger(end.context, 0, 1), 1);
    HG_CHECK_EQ_INT(atomic_load(&call.ends), 1);
    HG_CHECK_OK(call.ret);
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    end.target = target;
    cb_close(&end);
}

/* Also while a handler of ours does not return. */
HG_TEST(builtins_answer_while_handlers_hang)
{
    struct cb_call call;
    hg_handle_t handle;
    hg_addr_t target;
    struct cb_end end;
    pthread_t thread;
    hg_builtin_t answer;

    cb_open(&end);
    target = end.target;
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    handle = cb_new_handle(&end, inspect_block);
    HG_CHECK_OK(cb_forward(&call, handle, NULL));
    HG_CHECK(pthread_create(&thread, NULL, inspect_turn, &end) == 0);
    while (atomic_load(&inspect_inside) == 0)
        (void) usleep(1000);
    HG_CHECK_OK(inspect_ask(&end, inspect_ping, 5, NULL, &answer));
    HG_CHECK_EQ_U64(answer.number, 5);
    HG_CHECK_EQ_INT(atomic_load(&call.ends), 0);
    atomic_store(&inspect_go_on, 1);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    HG_CHECK_OK(cb_wait(&end, &call));
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    end.target = target;
    cb_close(&end);
}

/* A list in parts: each function appears once, also with a truncated name. */
HG_TEST(builtins_list_all)
{
    enum { COUNT = 300 };
    static unsigned seen[COUNT];
    char name[1200];
    hg_addr_t target;
    hg_builtin_t answer;
    struct cb_end end;
    uint64_t from = 0;
    unsigned parts = 0;
    unsigned i;

    cb_open(&end);
    target = end.target;
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    for (i = 0; i < COUNT; i++) {
        int size = snprintf(name, sizeof(name), "#%u ", i);

        memset(name + size, 'n', sizeof(name) - (size_t) size);
        name[i == 7 ? sizeof(name) - 1 : (size_t) size + 60] = '\0';
        HG_CHECK(HG_Register_name(
                     end.hg_class, name, NULL, NULL, inspect_on_free) != 0);
    }
    do {
        const char *at;

        HG_CHECK_OK(inspect_ask(&end, inspect_list, from, NULL, &answer));
        HG_CHECK(strlen(answer.text) < HG_BUILTIN_TEXT_MAX);
        for (at = answer.text; (at = strchr(at, '#')) != NULL; at++)
            seen[strtoul(at + 1, NULL, 10)]++;
        free(answer.text);
        HG_CHECK(answer.number == 0 || answer.number > from);
        from = answer.number;
        parts++;
    } while (from != 0);
    HG_CHECK(parts > 5);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_EQ_U64(seen[i], 1);
    HG_CHECK_OK(inspect_ask(&end, inspect_list, 100000, NULL, &answer));
    HG_CHECK_EQ_STR(answer.text, "");
    free(answer.text);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    end.target = target;
    cb_close(&end);
}

static hg_return_t inspect_on_own(hg_handle_t handle)
{
    hg_builtin_t answer = {4711, NULL};

    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &answer));
    return HG_Destroy(handle);
}

/* Their names cannot be registered; a function with the same id takes
 * precedence. */
HG_TEST(builtins_do_not_clash)
{
    hg_builtin_t answer;
    hg_addr_t target;
    struct cb_end end;

    cb_open(&end);
    target = end.target;
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    hg_test_expect_log("names that begin with hg: are reserved");
    HG_CHECK_EQ_U64(HG_Register_name(end.hg_class, HG_BUILTIN_PING,
                        hg_proc_hg_builtin_t, NULL, inspect_on_own),
        0);
    HG_CHECK_OK(inspect_ask(&end, inspect_ping, 5, NULL, &answer));
    HG_CHECK_EQ_U64(answer.number, 5);
    HG_CHECK_OK(HG_Register(end.hg_class, inspect_ping, hg_proc_hg_builtin_t,
        hg_proc_hg_builtin_t, inspect_on_own));
    HG_CHECK_OK(inspect_ask(&end, inspect_ping, 5, NULL, &answer));
    HG_CHECK_EQ_U64(answer.number, 4711);
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    end.target = target;
    cb_close(&end);
}

/* With this option a class serves only the application's functions. */
HG_TEST(builtins_can_be_switched_off)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    char *string = hg_test_listen_string();
    hg_builtin_t answer;
    struct cb_end end;

    memset(&end, 0, sizeof(end));
    info.no_builtins = true;
    end.hg_class = HG_Init_opt2(string, HG_TRUE, HG_VERSION(2, 4), &info);
    free(string);
    HG_CHECK(end.hg_class != NULL);
    end.context = HG_Context_create(end.hg_class);
    HG_CHECK(end.context != NULL);
    cb_register(end.hg_class);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &end.target));
    hg_test_expect_log("refused \"hg:ping\"");
    HG_CHECK_RET(
        inspect_ask(&end, inspect_ping, 5, NULL, &answer), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Deregister(end.hg_class, inspect_ping));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, end.target));
    HG_CHECK_OK(HG_Context_destroy(end.context));
    HG_CHECK_OK(HG_Finalize(end.hg_class));
}
