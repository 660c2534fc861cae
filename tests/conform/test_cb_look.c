/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A look inside, in the callback model: what HG_Dump tells of what is in
 * flight. The target is a process of its own where the transport reaches one,
 * else oneself.
 */
#define _GNU_SOURCE 1
#include "cb.h"

#include <unistd.h>

#define LOOK_BULK ((size_t) 8 << 20)

static hg_id_t look_keep;
static hg_id_t look_free;
static hg_id_t look_dump;
static hg_id_t look_block;

/* ---- The target ---- */

MERCURY_GEN_PROC(look_text_t, ((hg_string_t) (text)))

static hg_handle_t look_kept;
static _Atomic unsigned look_inside;
static _Atomic unsigned look_go_on;

/* What HG_Dump writes; the caller frees it. */
static char *look_at(hg_class_t *hg_class, hg_return_t want)
{
    size_t size = 0;
    char *text = NULL;
    FILE *stream = open_memstream(&text, &size);

    HG_CHECK(stream != NULL);
    HG_CHECK_RET(HG_Dump(hg_class, stream), want);
    HG_CHECK(fclose(stream) == 0 && text != NULL && size > 0);
    return text;
}

/* Executes nothing: the call stays until look_free comes. */
static hg_return_t look_on_keep(hg_handle_t handle)
{
    HG_CHECK(look_kept == HG_HANDLE_NULL);
    look_kept = handle;
    return HG_SUCCESS;
}

static hg_return_t look_on_free(hg_handle_t handle)
{
    HG_CHECK(look_kept != HG_HANDLE_NULL);
    HG_CHECK_OK(HG_Respond(look_kept, NULL, NULL, NULL));
    HG_CHECK_OK(HG_Destroy(look_kept));
    look_kept = HG_HANDLE_NULL;
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

/* What the target has in flight. */
static hg_return_t look_on_dump(hg_handle_t handle)
{
    look_text_t out;

    out.text = look_at(HG_Get_info(handle)->hg_class, HG_SUCCESS);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    free(out.text);
    return HG_Destroy(handle);
}

/* A function that hangs. */
static hg_return_t look_on_block(hg_handle_t handle)
{
    atomic_store(&look_inside, 1);
    while (atomic_load(&look_go_on) == 0)
        (void) usleep(1000);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

static void cb_register(hg_class_t *hg_class)
{
    look_keep =
        MERCURY_REGISTER(hg_class, "look keep", void, void, look_on_keep);
    look_free =
        MERCURY_REGISTER(hg_class, "look free", void, void, look_on_free);
    look_dump = MERCURY_REGISTER(
        hg_class, "look dump", void, look_text_t, look_on_dump);
    look_block =
        MERCURY_REGISTER(hg_class, "look block", void, void, look_on_block);
}

/* ---- What is in flight ---- */

/* Whether a line of the text has all three. */
static bool look_has(
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

static void look_target_name(const struct cb_end *end, char *name)
{
    hg_size_t size = NA_MAX_ADDR_LEN;

    HG_CHECK_OK(HG_Addr_to_string(end->hg_class, name, &size, end->target));
}

HG_TEST(dump_tells_of_calls)
{
    char name[NA_MAX_ADDR_LEN];
    struct cb_end end;
    struct cb_call kept;
    hg_handle_t handle;
    hg_handle_t asking;
    look_text_t out;
    char *text;

    cb_open(&end);
    look_target_name(&end, name);
    handle = cb_new_handle(&end, look_keep);
    HG_CHECK_OK(cb_forward(&kept, handle, NULL));
    text = look_at(end.hg_class, HG_SUCCESS);
    HG_CHECK(look_has(text, "out \"look keep\" to ", name, " the answer, 0."));
    free(text);
    asking = cb_new_handle(&end, look_dump);
    HG_CHECK_OK(cb_do(&end, asking, NULL, &out));
    HG_CHECK(look_has(out.text, "in \"look keep\" from ", "is to be", " s"));
    HG_CHECK(look_has(out.text, "in \"look dump\" from ", "is being", " s"));
    HG_CHECK_OK(HG_Free_output(asking, &out));
    HG_CHECK_OK(HG_Destroy(asking));
    HG_CHECK_OK(cb_call(&end, look_free, NULL, NULL));
    HG_CHECK_OK(cb_wait(&end, &kept));
    text = look_at(end.hg_class, HG_SUCCESS);
    HG_CHECK(look_has(text, "context 0", ": 0 calls, 0 transfers", "0 sends"));
    HG_CHECK(strstr(text, "\"look") == NULL);
    free(text);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

static hg_return_t look_bulk_ended(const struct hg_cb_info *info)
{
    HG_CHECK_OK(info->ret);
    atomic_store((_Atomic unsigned *) info->arg, 1);
    return HG_SUCCESS;
}

HG_TEST(dump_tells_of_transfers)
{
    _Atomic unsigned ended = 0;
    hg_bulk_t bulks[2];
    hg_size_t size = LOOK_BULK;
    struct cb_end end;
    hg_addr_t self;
    char *text;
    int i;

    cb_open(&end);
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(HG_Bulk_create(
            end.hg_class, 1, NULL, &size, HG_BULK_READWRITE, &bulks[i]));
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    HG_CHECK_OK(HG_Bulk_transfer(end.context, look_bulk_ended, &ended,
        HG_BULK_PULL, self, bulks[0], 0, bulks[1], 0, size, HG_OP_ID_IGNORE));
    text = look_at(end.hg_class, HG_SUCCESS);
    HG_CHECK(look_has(text, "bulk pull from ", "8388608", ", 0."));
    HG_CHECK(look_has(text, "context 0", " 1 transfers", " to be run"));
    free(text);
    cb_turn_until(end.context, &ended);
    text = look_at(end.hg_class, HG_SUCCESS);
    HG_CHECK(strstr(text, "bulk") == NULL);
    free(text);
    for (i = 0; i < 2; i++)
        HG_CHECK_OK(HG_Bulk_free(bulks[i]));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    cb_close(&end);
}

static void *look_turn(void *arg)
{
    struct cb_end *end = (struct cb_end *) arg;

    cb_turn_until(end->context, &look_inside);
    return NULL;
}

/* Calls to oneself, one of which hangs in the thread that triggers. */
HG_TEST(dump_waits_for_nobody)
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
        HG_CHECK_OK(HG_Create(end.context, self, look_block, &handles[i]));
        HG_CHECK_OK(cb_forward(&calls[i], handles[i], NULL));
    }
    HG_CHECK(pthread_create(&thread, NULL, look_turn, &end) == 0);
    while (atomic_load(&look_inside) == 0)
        (void) usleep(1000);
    text = look_at(NULL, HG_SUCCESS);
    HG_CHECK(look_has(text, "in \"look block\"", "is being executed", " s"));
    HG_CHECK(look_has(text, "in \"look block\"", "waits to be executed", ""));
    HG_CHECK(look_has(text, "context 0: 4 calls", "", "; calls to be run"));
    free(text);
    atomic_store(&look_go_on, 1);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(cb_wait(&end, &calls[i]));
        HG_CHECK_OK(HG_Destroy(handles[i]));
    }
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    cb_close(&end);
}

/* NULL is every class there is; no stream is an error. */
HG_TEST(dump_of_all_classes)
{
    struct cb_end ends[2];
    char *text;
    char *second;
    int i;

    for (i = 0; i < 2; i++)
        cb_start(&ends[i], 1);
    text = look_at(NULL, HG_SUCCESS);
    second = strstr(text, "\nclass ");
    HG_CHECK(strncmp(text, "class ", 6) == 0 && second != NULL);
    HG_CHECK(strstr(second + 1, "\nclass ") == NULL);
    free(text);
    hg_test_expect_log("the stream is NULL");
    HG_CHECK_RET(HG_Dump(ends[0].hg_class, NULL), HG_INVALID_ARG);
    for (i = 0; i < 2; i++)
        cb_end(&ends[i]);
}
