/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Classes and contexts of the callback model: their creation and end, the
 * objects they hold, event loops, and peers that die. On every transport.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* CPU_SET */
#endif
#include "cb.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

static hg_id_t life_inc_id, life_keep_id, life_where_id, life_one_id;
static hg_id_t life_barrier_id, life_end_id;

/* Handles that stay unanswered until they are released. */
static hg_handle_t life_kept[64];
static unsigned life_kept_count;

static hg_return_t life_keep(hg_handle_t handle)
{
    HG_CHECK(life_kept_count < 64);
    life_kept[life_kept_count++] = handle;
    return HG_SUCCESS;
}

/* The id of the context that executes it. */
static hg_return_t life_where(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    cb_one_t out = {HG_Context_get_id(info->context)};

    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, &out));
    return HG_Destroy(handle);
}

/* Calls that are all answered when the last one has arrived. */
#define LIFE_BARRIER 28000

static hg_return_t life_barrier(hg_handle_t handle)
{
    static hg_handle_t *kept;
    static unsigned count;

    if (kept == NULL)
        kept = (hg_handle_t *) calloc(LIFE_BARRIER, sizeof(*kept));
    HG_CHECK(kept != NULL && count < LIFE_BARRIER);
    kept[count++] = handle;
    if (count < LIFE_BARRIER)
        return HG_SUCCESS;
    while (count > 0) {
        HG_CHECK_OK(HG_Respond(kept[--count], NULL, NULL, NULL));
        HG_CHECK_OK(HG_Destroy(kept[count]));
    }
    free(kept);
    kept = NULL;
    return HG_SUCCESS;
}

static hg_return_t life_one(hg_handle_t handle)
{
    return HG_Destroy(handle);
}

/* Neither a function nor a callback can destroy the context that runs it. */
static hg_return_t life_end(hg_handle_t handle)
{
    HG_CHECK_RET(HG_Context_destroy(HG_Get_info(handle)->context), HG_BUSY);
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

static hg_return_t life_ended(const struct hg_cb_info *info)
{
    HG_CHECK_OK(info->ret);
    HG_CHECK_RET(
        HG_Context_destroy(HG_Get_info(info->info.forward.handle)->context),
        HG_BUSY);
    atomic_store((_Atomic unsigned *) info->arg, 1);
    return HG_SUCCESS;
}

static void cb_register(hg_class_t *hg_class)
{
    hg_class_t *c = hg_class;

    life_inc_id = MERCURY_REGISTER(c, "inc", cb_one_t, cb_one_t, cb_inc);
    life_keep_id = MERCURY_REGISTER(c, "keep", cb_one_t, cb_one_t, life_keep);
    life_where_id = MERCURY_REGISTER(c, "where", void, cb_one_t, life_where);
    life_one_id = MERCURY_REGISTER(c, "one", void, void, life_one);
    HG_CHECK_OK(HG_Registered_disable_response(c, life_one_id, HG_TRUE));
    life_barrier_id = MERCURY_REGISTER(c, "barrier", void, void, life_barrier);
    life_end_id = MERCURY_REGISTER(c, "end", void, void, life_end);
    HG_CHECK(life_where_id != 0 && life_barrier_id != 0 && life_end_id != 0);
}

static hg_class_t *life_init(uint8_t listen)
{
    char *string = hg_test_listen_string();
    hg_class_t *hg_class = HG_Init(string, listen);

    HG_CHECK(hg_class != NULL);
    free(string);
    return hg_class;
}

/* ---- Creating and destroying ---- */

HG_TEST(init_and_finalize_are_repeated_in_one_process)
{
    unsigned fds = 0;
    int i;

    for (i = 0; i < 5; i++) {
        struct cb_end end;
        cb_one_t one = {i};
        hg_class_t *hg_class = life_init(HG_TRUE);
        hg_context_t *context = HG_Context_create(hg_class);

        HG_CHECK(context != NULL);
        HG_CHECK(HG_Class_is_listening(hg_class));
        HG_CHECK(HG_Class_get_name(hg_class) != NULL);
        HG_CHECK(HG_Class_get_protocol(hg_class) != NULL);
        HG_CHECK(HG_Context_get_class(context) == hg_class);
        HG_CHECK_OK(HG_Context_destroy(context));
        HG_CHECK_OK(HG_Finalize(hg_class));

        cb_open(&end);
        HG_CHECK_OK(cb_call(&end, life_inc_id, &one, &one));
        HG_CHECK_EQ_INT(one.value, i + 1);
        cb_close(&end);
        if (i == 1)
            fds = hg_test_fd_count();
    }
    HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
    HG_CHECK_OK(HG_Finalize(NULL));
    hg_test_expect_log("HG_Context_destroy: the context is NULL");
    HG_CHECK_RET(HG_Context_destroy(NULL), HG_INVALID_ARG);
}

HG_TEST(class_needs_an_address_and_options_a_version)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    hg_test_expect_log("the address string is NULL");
    hg_test_expect_log("options of an unknown version");
    HG_CHECK(HG_Init(NULL, HG_TRUE) == NULL);
    HG_CHECK(HG_Init_opt2("self://", HG_TRUE, 0, &info) == NULL);
    HG_CHECK(
        HG_Init_opt2("self://", HG_TRUE, HG_VERSION(2, 99), &info) == NULL);
}

/* A program may have been built with an older, shorter struct: memory behind it
 * must not be read, and cannot be here. */
HG_TEST(options_are_read_up_to_the_size_of_their_version)
{
    static const struct {
        unsigned version;
        size_t size;
    } layouts[] = {{HG_VERSION(2, 2), offsetof(struct hg_init_info, stats) + 1},
        {HG_VERSION(2, 3),
            offsetof(struct hg_init_info, release_input_early) + 1},
        {HG_VERSION(2, 4), offsetof(struct hg_init_info, bulk_checksum) + 1}};
    const struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    size_t page = (size_t) sysconf(_SC_PAGESIZE);
    unsigned char *pages = (unsigned char *) mmap(NULL, 2 * page,
        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned i;

    HG_CHECK(pages != MAP_FAILED);
    HG_CHECK(mprotect(pages + page, page, PROT_NONE) == 0);
    for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        size_t unit = sizeof(void *);
        size_t size = (layouts[i].size + unit - 1) / unit * unit;
        void *from = memcpy(pages + page - size, &info, size);
        hg_class_t *hg_class = HG_Init_opt2("self://", HG_TRUE,
            layouts[i].version, (const struct hg_init_info *) from);

        HG_CHECK(hg_class != NULL);
        HG_CHECK_OK(HG_Finalize(hg_class));
    }
    HG_CHECK(munmap(pages, 2 * page) == 0);
}

/* Two classes of one process call each other, each making progress on its
 * own. */
HG_TEST(two_classes_in_one_process)
{
    struct cb_end a;
    struct cb_end b;
    struct cb_call call;
    cb_one_t one = {1};
    hg_handle_t handle;

    hg_test_expect_log("the address is of another class");
    cb_start(&a, 1);
    cb_start(&b, 1);
    HG_CHECK(a.hg_class != b.hg_class);
    if (hg_test_is_self()) { /* it reaches no other class */
        HG_CHECK_OK(NA_Addr_self(a.na_class, &a.target));
        HG_CHECK_OK(NA_Addr_self(b.na_class, &b.target));
        HG_CHECK_OK(cb_call(&a, life_inc_id, &one, &one));
        HG_CHECK_OK(cb_call(&b, life_inc_id, &one, &one));
    } else {
        cb_find(&a, &b);
        HG_CHECK_OK(NA_Addr_self(b.na_class, &b.target));
        HG_CHECK_OK(cb_forward(&call, cb_new_handle(&a, life_inc_id), &one));
        while (call.ends == 0) {
            (void) cb_turn(a.context, 1);
            (void) cb_turn(b.context, 1);
        }
        HG_CHECK_OK(call.ret);
        HG_CHECK_OK(HG_Get_output(call.handle, &one));
        HG_CHECK_OK(HG_Free_output(call.handle, &one));
        HG_CHECK_OK(HG_Destroy(call.handle));
        HG_CHECK_OK(cb_call(&b, life_inc_id, &one, &one));
    }
    HG_CHECK_EQ_INT(one.value, 3);
    /* An address of one is invalid for the other. */
    HG_CHECK_RET(
        HG_Create(b.context, a.target, life_inc_id, &handle), HG_INVALID_ARG);
    cb_close(&a);
    HG_CHECK_OK(cb_call(&b, life_inc_id, &one, &one));
    cb_close(&b);
}

static void life_count_free(void *data)
{
    (*(int *) data)++;
}

HG_TEST(data_is_freed_with_its_object)
{
    int freed[6] = {0, 0, 0, 0, 0, 0};
    hg_proc_cb_t procs[2] = {NULL, NULL};
    struct cb_end end;
    uint8_t flag = 7;
    hg_id_t id = 0;

    hg_test_expect_log("is not registered");
    hg_test_expect_log("HG_Registered_name: an argument is NULL");
    cb_start(&end, 1);
    HG_CHECK_OK(HG_Class_set_data(end.hg_class, &freed[4], life_count_free));
    HG_CHECK_OK(HG_Class_set_data(end.hg_class, &freed[0], life_count_free));
    HG_CHECK(HG_Class_get_data(end.hg_class) == &freed[0]);
    HG_CHECK_OK(HG_Context_set_data(end.context, &freed[1], life_count_free));
    HG_CHECK(HG_Context_get_data(end.context) == &freed[1]);
    HG_CHECK_OK(HG_Register_data(
        end.hg_class, life_inc_id, &freed[5], life_count_free));
    HG_CHECK_OK(HG_Register_data(
        end.hg_class, life_inc_id, &freed[2], life_count_free));
    HG_CHECK_OK(HG_Register_data(
        end.hg_class, life_keep_id, &freed[3], life_count_free));
    HG_CHECK(HG_Registered_data(end.hg_class, life_inc_id) == &freed[2]);
    HG_CHECK(HG_Registered_data(end.hg_class, 12345) == NULL);
    HG_CHECK_RET(HG_Register_data(end.hg_class, 12345, NULL, NULL), HG_NOENTRY);

    HG_CHECK_OK(HG_Registered_name(end.hg_class, "inc", &id, &flag));
    HG_CHECK_EQ_INT(flag, HG_TRUE);
    HG_CHECK_EQ_U64(id, life_inc_id);
    HG_CHECK_RET(
        HG_Registered_name(end.hg_class, "inc", &id, NULL), HG_INVALID_ARG);
    flag = HG_FALSE;
    HG_CHECK_OK(HG_Registered_proc_cb(
        end.hg_class, life_inc_id, &flag, &procs[0], &procs[1]));
    HG_CHECK(flag == HG_TRUE && procs[0] != NULL && procs[0] == procs[1]);
    HG_CHECK_OK(
        HG_Registered_proc_cb(end.hg_class, 12345, &flag, &procs[0], NULL));
    HG_CHECK_EQ_INT(flag, HG_FALSE);
    hg_test_expect_log("HG_Registered_proc_cb: an argument is NULL");
    HG_CHECK_RET(HG_Registered_proc_cb(
                     end.hg_class, life_inc_id, NULL, &procs[0], &procs[1]),
        HG_INVALID_ARG);
    HG_CHECK_OK(HG_Deregister(end.hg_class, life_inc_id));
    HG_CHECK_EQ_INT(freed[2], 1);
    HG_CHECK_RET(HG_Deregister(end.hg_class, life_inc_id), HG_NOENTRY);
    HG_CHECK_OK(HG_Registered(end.hg_class, life_inc_id, &flag));
    HG_CHECK_EQ_INT(flag, HG_FALSE);
    HG_CHECK_EQ_INT(freed[0] + freed[1] + freed[3], 0);
    cb_end(&end);
    HG_CHECK_EQ_INT(freed[0], 1);
    HG_CHECK_EQ_INT(freed[1], 1);
    HG_CHECK_EQ_INT(freed[3], 1);
    /* The replaced data belongs to the application. */
    HG_CHECK_EQ_INT(freed[4], 0);
    HG_CHECK_EQ_INT(freed[5], 0);
}

/* Registering again after HG_Deregister starts from scratch. */
HG_TEST(function_registered_again_starts_from_scratch)
{
    hg_class_t *hg_class = life_init(HG_TRUE);
    uint8_t disabled = 7;
    int data = 0;
    hg_id_t id;

    id = MERCURY_REGISTER(hg_class, "anew", cb_one_t, cb_one_t, cb_inc);
    HG_CHECK_OK(HG_Registered_disable_response(hg_class, id, HG_TRUE));
    HG_CHECK_OK(HG_Register_data(hg_class, id, &data, NULL));
    HG_CHECK_OK(HG_Deregister(hg_class, id));
    HG_CHECK(
        MERCURY_REGISTER(hg_class, "anew", cb_one_t, cb_one_t, cb_inc) == id);
    HG_CHECK_OK(HG_Registered_disabled_response(hg_class, id, &disabled));
    HG_CHECK_EQ_INT(disabled, HG_FALSE);
    HG_CHECK(HG_Registered_data(hg_class, id) == NULL);
    HG_CHECK_OK(HG_Finalize(hg_class));
}

HG_TEST(registered_with_a_null_is_invalid_arg)
{
    hg_class_t *hg_class = life_init(HG_TRUE);
    uint8_t flag = 7;
    hg_id_t id = 7;

    hg_test_expect_log("HG_Registered: an argument is NULL");
    hg_test_expect_log("HG_Registered: the class is NULL");
    hg_test_allow_log("HG_Registered");
    hg_test_allow_log("HG_Deregister: the class is NULL");
    hg_test_allow_log("HG_Register");
    cb_register(hg_class);
    HG_CHECK_RET(HG_Registered(hg_class, life_inc_id, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Registered(NULL, life_inc_id, &flag), HG_INVALID_ARG);
    HG_CHECK_RET(
        HG_Registered_name(hg_class, NULL, &id, &flag), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Registered_name(NULL, "inc", &id, &flag), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Registered_proc_cb(NULL, life_inc_id, &flag, NULL, NULL),
        HG_INVALID_ARG);
    HG_CHECK_RET(HG_Registered_disable_response(NULL, life_inc_id, HG_TRUE),
        HG_INVALID_ARG);
    HG_CHECK_RET(HG_Registered_disabled_response(NULL, life_inc_id, &flag),
        HG_INVALID_ARG);
    HG_CHECK_RET(HG_Registered_disabled_response(hg_class, life_inc_id, NULL),
        HG_INVALID_ARG);
    HG_CHECK(HG_Registered_data(NULL, life_inc_id) == NULL);
    HG_CHECK_RET(HG_Register_data(NULL, id, NULL, NULL), HG_INVALID_ARG);
    HG_CHECK(HG_Register_name(hg_class, NULL, NULL, NULL, NULL) == 0);
    HG_CHECK(HG_Register_name(NULL, "inc", NULL, NULL, NULL) == 0);
    HG_CHECK_RET(HG_Register(hg_class, 0, NULL, NULL, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Deregister(NULL, life_inc_id), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(flag, 7);
    HG_CHECK_EQ_U64(id, 7);
    HG_CHECK_OK(
        HG_Registered_proc_cb(hg_class, life_inc_id, &flag, NULL, NULL));
    HG_CHECK_EQ_INT(flag, HG_TRUE);
    HG_CHECK_OK(HG_Finalize(hg_class));
}

/* ---- Options ---- */

static hg_class_t *life_init_with(const struct hg_init_info *info)
{
    char *string = hg_test_listen_string();
    hg_class_t *hg_class =
        HG_Init_opt2(string, HG_TRUE, HG_VERSION(2, 4), info);

    HG_CHECK(hg_class != NULL);
    free(string);
    return hg_class;
}

/* 1 is the initializer's value, and programs create more all the same. */
HG_TEST(max_contexts_is_a_limit_if_2_or_more)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_context_t *contexts[3];
    hg_class_t *hg_class;
    unsigned i;

    hg_test_expect_log("HG_Context_create: the class has max_contexts, 2");
    hg_test_expect_log("HG_Context_create_id: the class has max_contexts, 2");
    for (info.na_init_info.max_contexts = 0; info.na_init_info.max_contexts < 3;
         info.na_init_info.max_contexts++) {
        bool limited = info.na_init_info.max_contexts == 2;

        hg_class = life_init_with(&info);
        for (i = 0; i < 3; i++) {
            contexts[i] = HG_Context_create(hg_class);
            HG_CHECK((contexts[i] == NULL) == (limited && i == 2));
        }
        if (limited) {
            HG_CHECK(HG_Context_create_id(hg_class, 9) == NULL);
            HG_CHECK_OK(HG_Context_destroy(contexts[0]));
            contexts[0] = HG_Context_create_id(hg_class, 9);
            HG_CHECK(contexts[0] != NULL);
        }
        for (i = 0; i < 3; i++)
            if (contexts[i] != NULL)
                HG_CHECK_OK(HG_Context_destroy(contexts[i]));
        HG_CHECK_OK(HG_Finalize(hg_class));
    }
}

struct life_creator {
    pthread_t thread;
    hg_class_t *hg_class;
    _Atomic unsigned *ready;
    hg_context_t *context;
};

static void *life_create(void *arg)
{
    struct life_creator *creator = (struct life_creator *) arg;

    atomic_fetch_sub(creator->ready, 1);
    while (atomic_load(creator->ready) > 0)
        continue;
    creator->context = HG_Context_create(creator->hg_class);
    return NULL;
}

/* Of three threads, two can create a context. */
HG_TEST(max_contexts_is_a_limit_for_all_threads)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct life_creator creators[3];
    hg_class_t *hg_class;
    unsigned round, i;

    hg_test_expect_log("HG_Context_create: the class has max_contexts, 2");
    info.na_init_info.max_contexts = 2;
    hg_class = life_init_with(&info);
    for (round = 0; round < 100; round++) {
        _Atomic unsigned ready = 3;
        unsigned created = 0;

        for (i = 0; i < 3; i++) {
            creators[i].hg_class = hg_class;
            creators[i].ready = &ready;
            HG_CHECK(pthread_create(&creators[i].thread, NULL, life_create,
                         &creators[i]) == 0);
        }
        for (i = 0; i < 3; i++) {
            HG_CHECK(pthread_join(creators[i].thread, NULL) == 0);
            created += creators[i].context != NULL;
        }
        HG_CHECK_EQ_INT(created, 2);
        for (i = 0; i < 3; i++)
            if (creators[i].context != NULL)
                HG_CHECK_OK(HG_Context_destroy(creators[i].context));
    }
    HG_CHECK_OK(HG_Finalize(hg_class));
}

HG_TEST(class_takes_the_limits_of_hg_options)
{
    struct hg_options options = HG_OPTIONS_INITIALIZER;
    struct hg_options had = HG_OPTIONS_INITIALIZER;
    struct cb_end end;
    struct cb_call calls[2];
    cb_one_t one = {1};

    hg_test_expect_log("HG_Class_set_options: the class has a context");
    hg_test_allow_log("HG_Class_");
    hg_test_allow_log("no more than 1 calls may be in flight");
    hg_test_allow_log("hg:ping");
    cb_start(&end, 0);
    HG_CHECK_OK(HG_Class_get_options(end.hg_class, &had));
    HG_CHECK_EQ_U64(had.max_in_flight, 65536);
    options.max_in_flight = 1;
    options.no_builtins = true;
    HG_CHECK_OK(HG_Class_set_options(end.hg_class, &options));
    HG_CHECK_OK(HG_Class_get_options(end.hg_class, &had));
    HG_CHECK_EQ_U64(had.max_in_flight, 1);
    HG_CHECK_EQ_U64(had.max_unanswered, 65536);
    HG_CHECK_EQ_U64(had.max_in_flight_bytes, (size_t) 128 << 20);
    options.size--;
    HG_CHECK_RET(HG_Class_set_options(end.hg_class, &options), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Class_get_options(end.hg_class, &options), HG_INVALID_ARG);
    options.size++;
    HG_CHECK_RET(HG_Class_set_options(end.hg_class, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Class_set_options(NULL, &options), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Class_get_options(NULL, &options), HG_INVALID_ARG);
    end.contexts[0] = end.context = HG_Context_create(end.hg_class);
    end.count = 1;
    HG_CHECK(end.context != NULL);
    HG_CHECK_RET(HG_Class_set_options(end.hg_class, &options), HG_BUSY);

    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    HG_CHECK_OK(cb_forward(&calls[0], cb_new_handle(&end, life_inc_id), &one));
    HG_CHECK_RET(cb_forward(&calls[1], cb_new_handle(&end, life_inc_id), &one),
        HG_AGAIN);
    HG_CHECK_OK(cb_wait(&end, &calls[0]));
    HG_CHECK_OK(cb_do(&end, calls[1].handle, &one, NULL));
    HG_CHECK_OK(HG_Destroy(calls[0].handle));
    HG_CHECK_OK(HG_Destroy(calls[1].handle));
    HG_CHECK_RET(cb_call(&end,
                     MERCURY_REGISTER(end.hg_class, HG_BUILTIN_PING,
                         hg_builtin_t, hg_builtin_t, NULL),
                     NULL, NULL),
        HG_INVALID_ARG);
    cb_close(&end);
}

/* Lines of HG_Diag_dump_counters. */
static char life_lines[4][256];
static unsigned life_line_count;

static int life_log(FILE *stream, const char *format, ...)
{
    char line[256];
    va_list args;
    int size;

    (void) stream;
    va_start(args, format);
    size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (strstr(line, "requests ") != NULL) {
        HG_CHECK(life_line_count < 4);
        (void) snprintf(life_lines[life_line_count++], sizeof(life_lines[0]),
            "%s", strstr(line, "requests "));
    }
    return size;
}

/* How many calls to a class may be unanswered by default. */
static unsigned life_limit(uint32_t init, int32_t incr)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct hg_options had = HG_OPTIONS_INITIALIZER;
    char *string = hg_test_listen_string();
    unsigned limit;
    hg_class_t *c;

    info.request_post_init = init;
    info.request_post_incr = incr;
    c = HG_Init_opt2(string, HG_TRUE, HG_VERSION(2, 4), &info);
    HG_CHECK(c != NULL);
    HG_CHECK_OK(HG_Class_get_options(c, &had));
    limit = had.max_unanswered;
    had.max_unanswered = 0;
    HG_CHECK_OK(HG_Class_set_options(c, &had));
    HG_CHECK_OK(HG_Class_get_options(c, &had));
    HG_CHECK_EQ_U64(had.max_unanswered, limit);
    HG_CHECK_OK(HG_Finalize(c));
    free(string);
    return limit;
}

HG_TEST(request_post_init_and_incr_choose_how_many_calls_may_be_unanswered)
{
    HG_CHECK_EQ_U64(life_limit(0, 0), 65536);
    HG_CHECK_EQ_U64(life_limit(512, 512), 65536);
    HG_CHECK_EQ_U64(life_limit(100000, 0), 100000);
    HG_CHECK_EQ_U64(life_limit(0, -1), 4096);
    HG_CHECK_EQ_U64(life_limit(6000, -1), 6000);
}

/* More calls than the limits of the request model allow, on both sides. */
HG_TEST(barrier_of_28000_calls)
{
    struct cb_call *calls =
        (struct cb_call *) calloc(LIFE_BARRIER, sizeof(*calls));
    struct cb_end end;
    unsigned i;

    HG_CHECK(calls != NULL);
    cb_open(&end);
    for (i = 0; i < LIFE_BARRIER; i++) {
        HG_CHECK_OK(
            cb_forward(&calls[i], cb_new_handle(&end, life_barrier_id), NULL));
        if (i % 64 == 0)
            (void) cb_turn(end.context, 0);
    }
    for (i = 0; i < LIFE_BARRIER; i++) {
        HG_CHECK_OK(cb_wait(&end, &calls[i]));
        HG_CHECK_OK(HG_Destroy(calls[i].handle));
    }
    free(calls);
    cb_close(&end);
}

/* One line for each class. The option stats writes the line of its class at the
 * end, at any level. */
HG_TEST(diag_dump_prints_the_counters_of_each_class)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    hg_class_t *other;
    struct cb_end end;
    cb_one_t one = {1};
    unsigned busy = 0;
    unsigned i;

    info.stats = 1;
    cb_start(&end, 1);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    for (i = 0; i < 3; i++)
        HG_CHECK_OK(cb_call(&end, life_inc_id, &one, &one));
    other = life_init_with(&info);
    HG_Set_log_func(life_log);
    HG_Set_log_level("info");
    HG_Diag_dump_counters();
    HG_CHECK_EQ_INT(life_line_count, 2);
    for (i = 0; i < 2; i++) {
        bool none = strstr(life_lines[i],
                        "requests 0 sent, 0 received; answers 0 sent, 0 "
                        "received; transfers 0") != NULL;

        busy += strstr(life_lines[i],
                    "requests 3 sent, 3 received; answers 3 sent, 3 received; "
                    "transfers 0") != NULL;
        HG_CHECK(none || busy == 1);
    }
    HG_CHECK_EQ_INT(busy, 1);
    HG_Set_log_level("none");
    HG_Diag_dump_counters();
    HG_CHECK_EQ_INT(life_line_count, 2);
    HG_CHECK_OK(HG_Finalize(other));
    HG_CHECK_EQ_INT(life_line_count, 3);
    HG_CHECK(strstr(life_lines[2], "requests 0 sent, 0 received") != NULL);
    HG_Set_log_level("error");
    HG_Set_log_func(NULL);
    cb_close(&end);
}

/* ---- Use after the end ---- */

/* Everything is refused with a line that names the function. */
HG_TEST(finalized_class_is_refused)
{
    hg_class_t *gone = life_init(HG_TRUE);
    struct hg_diag_counters counters;
    hg_size_t size = 8;
    hg_addr_t addr;
    hg_bulk_t bulk;
    uint8_t flag;

    hg_test_expect_log("HG_Finalize: no such class is open");
    hg_test_expect_log("HG_Context_create: no such class is open");
    hg_test_allow_log("no such class is open");
    HG_CHECK_OK(HG_Finalize(gone));
    HG_CHECK_RET(HG_Finalize(gone), HG_INVALID_ARG);
    HG_CHECK(HG_Context_create(gone) == NULL);
    HG_CHECK(HG_Class_get_name(gone) == NULL);
    HG_CHECK(HG_Class_get_data(gone) == NULL);
    HG_CHECK_RET(HG_Class_get_counters(gone, &counters), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Registered(gone, life_inc_id, &flag), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_self(gone, &addr), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Addr_lookup2(gone, "self://", &addr), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_create(gone, 1, NULL, &size, HG_BULK_READWRITE, &bulk),
        HG_INVALID_ARG);
    HG_CHECK_RET(HG_Drain(gone, 0), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Dump(gone, stderr), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Set_hook(gone, NULL, NULL), HG_INVALID_ARG);
}

HG_TEST(destroyed_context_is_refused)
{
    hg_class_t *hg_class = life_init(HG_TRUE);
    hg_context_t *gone = HG_Context_create(hg_class);
    unsigned count = 7;
    hg_handle_t handle;
    hg_size_t size = 8;
    hg_addr_t self;
    hg_bulk_t bulk;

    hg_test_expect_log("HG_Event_progress: there is no such context");
    hg_test_expect_log("HG_Create: there is no such context");
    hg_test_allow_log("there is no such context");
    HG_CHECK(gone != NULL);
    HG_CHECK_OK(HG_Addr_self(hg_class, &self));
    HG_CHECK_OK(
        HG_Bulk_create(hg_class, 1, NULL, &size, HG_BULK_READWRITE, &bulk));
    HG_CHECK_OK(HG_Context_destroy(gone));
    HG_CHECK_RET(HG_Context_destroy(gone), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Create(gone, self, 0, &handle), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Progress(gone, 0), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Trigger(gone, 0, 1, &count), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Event_progress(gone, &count), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Event_trigger(gone, 1, &count), HG_INVALID_ARG);
    HG_CHECK(!HG_Event_ready(gone));
    HG_CHECK_EQ_INT(HG_Event_get_wait_fd(gone), -1);
    HG_CHECK_RET(HG_Context_unpost(gone), HG_INVALID_ARG);
    HG_CHECK(HG_Context_get_class(gone) == NULL);
    HG_CHECK_RET(HG_Bulk_bind(bulk, gone), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Bulk_transfer(gone, NULL, NULL, HG_BULK_PULL, self, bulk, 0,
                     bulk, 0, 8, HG_OP_ID_IGNORE),
        HG_INVALID_ARG);
    HG_CHECK_EQ_INT(count, 7);
    HG_CHECK_OK(HG_Bulk_free(bulk));
    HG_CHECK_OK(HG_Addr_free(hg_class, self));
    HG_CHECK_OK(HG_Finalize(hg_class));
}

/* While it waits to be reused. */
HG_TEST(destroyed_handle_is_refused)
{
    struct cb_end end;
    struct cb_call call;
    cb_one_t one = {1};
    hg_handle_t gone;

    hg_test_expect_log("HG_Destroy: the handle was destroyed");
    hg_test_allow_log("the handle was destroyed");
    cb_open(&end);
    gone = cb_new_handle(&end, life_inc_id);
    HG_CHECK_OK(cb_do(&end, gone, &one, NULL));
    HG_CHECK_OK(HG_Destroy(gone));
    HG_CHECK_RET(HG_Destroy(gone), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Ref_incr(gone), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Forward(gone, NULL, NULL, &one), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Get_output(gone, &one), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Reset(gone, end.target, 0), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Set_data(gone, &one, NULL), HG_INVALID_ARG);
    HG_CHECK_RET(HG_Set_deadline(gone, 1), HG_INVALID_ARG);
    HG_CHECK(HG_Get_info(gone) == NULL);
    HG_CHECK_EQ_INT(HG_Ref_get(gone), -1);
    /* A handle whose call held the last reference. */
    gone = cb_new_handle(&end, life_inc_id);
    HG_CHECK_OK(cb_forward(&call, gone, &one));
    HG_CHECK_OK(HG_Destroy(gone));
    HG_CHECK_OK(cb_wait(&end, &call));
    HG_CHECK_RET(HG_Ref_incr(gone), HG_INVALID_ARG);
    HG_CHECK_OK(cb_call(&end, life_inc_id, &one, &one));
    cb_close(&end);
}

/* Each decoded struct is freed once; references do not change. */
HG_TEST(second_free_of_arguments_is_refused)
{
    struct cb_end end;
    struct cb_call call;
    cb_one_t one = {1};
    hg_handle_t handle;

    hg_test_expect_log(
        "HG_Free_output: there is no decoded struct, or it was freed");
    hg_test_expect_log(
        "HG_Free_input: there is no decoded struct, or it was freed");
    cb_start(&end, 1);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    handle = cb_new_handle(&end, life_keep_id);
    HG_CHECK_OK(cb_forward(&call, handle, &one));
    while (life_kept_count == 0)
        (void) cb_turn(end.context, 1);
    HG_CHECK_RET(HG_Free_input(life_kept[0], &one), HG_INVALID_ARG);
    HG_CHECK_OK(HG_Get_input(life_kept[0], &one));
    HG_CHECK_OK(HG_Free_input(life_kept[0], &one));
    HG_CHECK_RET(HG_Free_input(life_kept[0], &one), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(HG_Ref_get(life_kept[0]), 1);
    HG_CHECK_OK(HG_Respond(life_kept[0], NULL, NULL, &one));
    HG_CHECK_OK(HG_Destroy(life_kept[0]));
    HG_CHECK_OK(cb_wait(&end, &call));
    HG_CHECK_OK(HG_Get_output(handle, &one));
    HG_CHECK_OK(HG_Get_output(handle, &one));
    HG_CHECK_OK(HG_Free_output(handle, &one));
    HG_CHECK_OK(HG_Free_output(handle, &one));
    HG_CHECK_RET(HG_Free_output(handle, &one), HG_INVALID_ARG);
    HG_CHECK_EQ_INT(HG_Ref_get(handle), 1);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

/* ---- Objects left ---- */

/* Checked in this order; none of the refusals changes anything. */
HG_TEST(finalize_is_busy_with_objects_left)
{
    hg_class_t *hg_class = life_init(HG_TRUE);
    hg_context_t *context = HG_Context_create(hg_class);
    hg_size_t size = 8;
    hg_addr_t self;
    hg_addr_t again;
    hg_bulk_t bulk;

    hg_test_expect_log("HG_Finalize: a bulk handle is left: 1, the first of ");
    hg_test_expect_log(
        "HG_Finalize: a context is left: 1, the first has handles: 0");
    hg_test_expect_log("HG_Finalize: an address is left: 1, the first ");
    HG_CHECK_OK(
        HG_Bulk_create(hg_class, 1, NULL, &size, HG_BULK_READWRITE, &bulk));
    HG_CHECK_OK(HG_Addr_self(hg_class, &self));
    HG_CHECK_OK(HG_Addr_dup(hg_class, self, &again));
    HG_CHECK_RET(HG_Finalize(hg_class), HG_BUSY);
    HG_CHECK_EQ_INT(hg_test_log_count(
                        "HG_Finalize: a bulk handle is left: 1, the first of "),
        1);
    HG_CHECK_OK(HG_Bulk_free(bulk));
    HG_CHECK_RET(HG_Finalize(hg_class), HG_BUSY);
    HG_CHECK_EQ_INT(
        hg_test_log_count(
            "HG_Finalize: a context is left: 1, the first has handles: 0"),
        1);
    HG_CHECK_OK(HG_Context_destroy(context));
    HG_CHECK_RET(HG_Finalize(hg_class), HG_BUSY);
    HG_CHECK_OK(HG_Addr_free(hg_class, self));
    HG_CHECK_RET(HG_Finalize(hg_class), HG_BUSY);
    HG_CHECK_EQ_INT(
        hg_test_log_count("HG_Finalize: an address is left: 1, the first "), 2);
    HG_CHECK_OK(HG_Addr_free(hg_class, again));
    HG_CHECK_OK(HG_Finalize(hg_class));
}

/* HG_Finalize() describes what is left of a context. */
static void life_expect_left(hg_class_t *hg_class, const char *missing)
{
    unsigned before = hg_test_log_count(missing);

    hg_test_expect_log(missing);
    HG_CHECK_RET(HG_Finalize(hg_class), HG_BUSY);
    HG_CHECK_EQ_INT(hg_test_log_count(missing), before + 1);
}

HG_TEST(handle_left_is_described_by_what_is_missing)
{
    struct cb_end end;
    struct cb_call call;
    hg_handle_t handle;
    cb_one_t one = {1};

    cb_start(&end, 1);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.target));
    handle = cb_new_handle(&end, life_keep_id);
    life_expect_left(end.hg_class, "; the first was not destroyed");
    HG_CHECK_OK(cb_forward(&call, handle, &one));
    life_expect_left(end.hg_class, "; the call of the first is not over");
    while (life_kept_count == 0)
        (void) cb_turn(end.context, 1);
    HG_CHECK_OK(HG_Get_input(life_kept[0], &one));
    HG_CHECK_OK(HG_Cancel(handle));
    HG_CHECK_RET(cb_wait(&end, &call), HG_CANCELED);
    HG_CHECK_OK(HG_Destroy(handle));
    life_expect_left(end.hg_class, "; the first has no response");
    HG_CHECK_OK(HG_Respond(life_kept[0], NULL, NULL, &one));
    life_expect_left(end.hg_class, "; the input of the first was not freed");
    HG_CHECK_OK(HG_Free_input(life_kept[0], &one));
    HG_CHECK_OK(HG_Destroy(life_kept[0]));
    handle = cb_new_handle(&end, life_inc_id);
    HG_CHECK_OK(cb_do(&end, handle, &one, &one));
    life_expect_left(end.hg_class, "; the output of the first was not freed");
    HG_CHECK_OK(HG_Free_output(handle, &one));
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

HG_TEST(context_destroy_is_busy_with_handles_left)
{
    struct cb_end end;
    hg_handle_t handle;

    hg_test_expect_log("are left: handles of \"inc\" with ");
    cb_open(&end);
    handle = cb_new_handle(&end, life_inc_id);
    HG_CHECK_RET(HG_Context_destroy(end.context), HG_BUSY);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

HG_TEST(handle_without_address_keeps_class_and_context)
{
    hg_class_t *hg_class = life_init(HG_TRUE);
    hg_context_t *context = HG_Context_create(hg_class);
    hg_handle_t handle;

    hg_test_expect_log("HG_Finalize: a context is left: 1, the first has "
                       "handles of \"(unknown)\" with no address: 1, ");
    hg_test_expect_log("HG_Context_destroy: handles, or sends, are left: "
                       "handles of \"(unknown)\" with no address: 1, others: "
                       "0, sends: 0, transfers: 0");
    HG_CHECK_OK(HG_Create(context, HG_ADDR_NULL, 0, &handle));
    HG_CHECK_RET(HG_Finalize(hg_class), HG_BUSY);
    HG_CHECK_RET(HG_Context_destroy(context), HG_BUSY);
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(HG_Context_destroy(context));
    HG_CHECK_OK(HG_Finalize(hg_class));
}

struct life_thread {
    hg_context_t *context;
    _Atomic unsigned stop;
};

static void *life_progress(void *arg)
{
    struct life_thread *thread = (struct life_thread *) arg;

    while (atomic_load(&thread->stop) == 0) {
        hg_return_t ret = HG_Progress(thread->context, CB_TIMEOUT);

        HG_CHECK(ret == HG_SUCCESS || ret == HG_TIMEOUT);
        if (ret == HG_SUCCESS)
            (void) cb_trigger(thread->context, 0, 1);
    }
    return NULL;
}

HG_TEST(context_destroy_is_busy_while_a_thread_progresses)
{
    struct life_thread thread;
    struct cb_end end;
    struct cb_call call;
    hg_handle_t handle;
    pthread_t id;

    hg_test_expect_log("another thread is in the context");
    hg_test_allow_log("handles, or sends, are left");
    hg_test_allow_log("refused \"where\"");
    cb_open(&end);
    thread.context = end.context;
    atomic_init(&thread.stop, 0);
    handle = cb_new_handle(&end, life_where_id);
    HG_CHECK(pthread_create(&id, NULL, life_progress, &thread) == 0);
    HG_CHECK_OK(cb_forward(&call, handle, NULL));
    while (atomic_load(&call.ends) == 0)
        (void) poll(NULL, 0, 1);
    /* The thread goes back to sleep; until then the handle keeps the
     * context. */
    do {
        (void) poll(NULL, 0, 10);
        HG_CHECK_RET(HG_Context_destroy(end.context), HG_BUSY);
    } while (hg_test_log_count("another thread is in the context") == 0);
    /* The thread still serves us. */
    HG_CHECK_OK(cb_forward(&call, handle, NULL));
    while (atomic_load(&call.ends) == 0)
        (void) poll(NULL, 0, 1);
    if (hg_test_log_count("handles, or sends, are left") == 0)
        HG_CHECK_OK(call.ret); /* nothing had changed */
    /* The context is not destroyed while threads wait for quota either. */
    HG_CHECK_OK(HG_Wait_room(HG_Get_info(handle)->addr, CB_TIMEOUT));
    atomic_store(&thread.stop, 1);
    HG_CHECK_OK(HG_Forward(handle, NULL, NULL, NULL)); /* wakes it */
    HG_CHECK(pthread_join(id, NULL) == 0);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

HG_TEST(context_destroy_is_busy_in_a_callback)
{
    struct cb_end end;
    hg_handle_t handle;
    _Atomic unsigned ended;

    atomic_init(&ended, 0);
    hg_test_expect_log("HG_Context_destroy: called from a callback, or ");
    cb_open(&end);
    handle = cb_new_handle(&end, life_end_id);
    HG_CHECK_OK(HG_Forward(handle, life_ended, &ended, NULL));
    cb_turn_until(end.context, &ended);
    HG_CHECK_OK(cb_do(&end, handle, NULL, NULL)); /* nothing had changed */
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

HG_TEST(destroyed_context_cancels_its_calls)
{
    struct cb_end end;
    struct cb_call call;
    cb_one_t one = {1};

    cb_open(&end);
    HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, life_keep_id), &one));
    HG_CHECK_OK(HG_Destroy(call.handle));
    cb_triggering++; /* HG_Context_destroy runs callbacks, too */
    HG_CHECK_OK(HG_Context_destroy(end.context));
    cb_triggering--;
    HG_CHECK_EQ_INT(call.ends, 1);
    HG_CHECK_RET(call.ret, HG_CANCELED);
    end.count = 0;
    if (end.peer != NULL) { /* it has a handle left */
        hg_test_signal(end.peer, SIGKILL);
        HG_CHECK(WIFSIGNALED(hg_test_wait(end.peer)));
        end.peer = NULL;
    }
    cb_close(&end);
}

HG_TEST(unposted_context_cancels_arriving_calls)
{
    struct cb_end end;
    struct cb_end other;
    struct cb_call call;
    cb_one_t one = {1};

    hg_test_allow_log("refused");
    cb_open(&end);
    HG_CHECK_OK(cb_call(&end, life_inc_id, &one, &one));
    if (hg_test_is_self()) {
        HG_CHECK_OK(HG_Context_unpost(end.context));
        HG_CHECK_RET(cb_call(&end, life_inc_id, &one, &one), HG_CANCELED);
    } else { /* a second class of ours acts as the peer */
        cb_start(&other, 1);
        HG_CHECK_OK(NA_Addr_self(other.na_class, &other.target));
        HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));
        cb_find(&end, &other);
        HG_CHECK_OK(HG_Context_unpost(other.context));
        HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, life_inc_id), &one));
        while (call.ends == 0) {
            (void) cb_turn(end.context, 1);
            (void) cb_turn(other.context, 1);
        }
        HG_CHECK_RET(call.ret, HG_CANCELED);
        HG_CHECK_OK(HG_Destroy(call.handle));
        cb_close(&other);
    }
    cb_close(&end);
}

/* ---- Several contexts ---- */

HG_TEST(calls_go_to_the_context_of_the_id)
{
    struct cb_end end;
    hg_handle_t handle;
    cb_one_t one;
    int i;

    cb_open_with(&end, 3);
    for (i = 0; i < 3; i++)
        HG_CHECK_EQ_INT(HG_Context_get_id(end.contexts[i]), i);
    handle = cb_new_handle(&end, life_where_id);
    for (i = 2; i >= 0; i--) {
        struct cb_call call;

        HG_CHECK_OK(HG_Set_target_id(handle, (uint8_t) i));
        HG_CHECK_EQ_INT(HG_Get_info(handle)->context_id, i);
        HG_CHECK_OK(cb_forward(&call, handle, NULL));
        while (call.ends == 0) {
            (void) cb_turn(end.context, 1);
            if (end.peer == NULL && i > 0)
                (void) cb_turn(end.contexts[i], 1);
        }
        HG_CHECK_OK(call.ret);
        HG_CHECK_OK(HG_Get_output(handle, &one));
        HG_CHECK_EQ_INT(one.value, i);
        HG_CHECK_OK(HG_Free_output(handle, &one));
    }
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

HG_TEST(context_ids_are_unique)
{
    struct cb_end end;
    hg_context_t *nine;
    hg_context_t *one;

    hg_test_expect_log("has the id 9");
    cb_start(&end, 1);
    nine = HG_Context_create_id(end.hg_class, 9);
    HG_CHECK(nine != NULL);
    HG_CHECK_EQ_INT(HG_Context_get_id(nine), 9);
    HG_CHECK(HG_Context_create_id(end.hg_class, 9) == NULL);
    one = HG_Context_create(end.hg_class);
    HG_CHECK_EQ_INT(HG_Context_get_id(one), 1);
    HG_CHECK_OK(HG_Context_destroy(nine));
    nine = HG_Context_create_id(end.hg_class, 9);
    HG_CHECK(nine != NULL);
    HG_CHECK_OK(HG_Context_destroy(nine));
    HG_CHECK_OK(HG_Context_destroy(one));
    cb_end(&end);
}

HG_TEST(counters_cover_all_contexts)
{
    struct hg_diag_counters counters;
    struct cb_end end;
    cb_one_t one = {0};
    uint64_t served = 0;
    unsigned i;

    cb_open_with(&end, 3);
    for (i = 0; i < 3; i++) {
        end.context = end.contexts[i];
        if (end.peer == NULL && i > 0) /* calls go to the first context */
            continue;
        HG_CHECK_OK(cb_call(&end, life_inc_id, &one, &one));
        HG_CHECK_OK(cb_call(&end, life_one_id, NULL, NULL));
    }
    end.context = end.contexts[0];
    HG_CHECK_OK(HG_Class_get_counters(end.hg_class, &counters));
    served = end.peer == NULL ? 2 : 0;
    HG_CHECK_EQ_U64(counters.rpc_req_sent_count, served != 0 ? 2 : 6);
    HG_CHECK_EQ_U64(counters.rpc_req_recv_count, served);
    HG_CHECK_EQ_U64(counters.rpc_req_recv_active_count, 0);
    HG_CHECK_OK(HG_Context_destroy(end.contexts[2]));
    end.count = 2; /* its counters stay */
    HG_CHECK_OK(HG_Class_get_counters(end.hg_class, &counters));
    HG_CHECK_EQ_U64(counters.rpc_req_sent_count, served != 0 ? 2 : 6);
    HG_CHECK_EQ_U64(counters.rpc_req_recv_count, served);
    cb_close(&end);
}

/* ---- Progress ---- */

HG_TEST(progress_and_trigger_report_whether_anything_ran)
{
    struct cb_end end;
    struct cb_call call;
    cb_one_t one = {1};
    unsigned count = 7;

    cb_open(&end);
    while (cb_turn(end.context, 1) > 0)
        continue;
    HG_CHECK_RET(HG_Progress(end.context, 0), HG_TIMEOUT);
    HG_CHECK_RET(HG_Trigger(end.context, 0, 1, &count), HG_TIMEOUT);
    HG_CHECK_EQ_INT(count, 0);
    HG_CHECK_RET(HG_Trigger(end.context, 1, 1, NULL), HG_TIMEOUT);
    HG_CHECK_OK(HG_Event_trigger(end.context, 1, &count));
    HG_CHECK_EQ_INT(count, 0);
    HG_CHECK_OK(HG_Event_progress(end.context, &count));
    HG_CHECK_EQ_INT(count, 0);

    HG_CHECK_OK(cb_forward(&call, cb_new_handle(&end, life_inc_id), &one));
    HG_CHECK_OK(HG_Progress(end.context, CB_TIMEOUT));
    HG_CHECK_OK(HG_Progress(end.context, 0)); /* it is still pending */
    HG_CHECK(HG_Event_ready(end.context));
    HG_CHECK_OK(HG_Event_progress(end.context, &count));
    HG_CHECK(count >= 1);
    HG_CHECK_OK(HG_Trigger(end.context, 0, 0, &count));
    HG_CHECK_EQ_INT(count, 0);
    HG_CHECK_OK(cb_wait(&end, &call));
    HG_CHECK_OK(HG_Destroy(call.handle));
    cb_close(&end);
}

static void life_on_alarm(int signal_number)
{
    (void) signal_number;
}

/* As at a timeout, although HG_Wait of the request model returns HG_INTR. */
HG_TEST(progress_ends_with_a_signal)
{
    struct itimerval often = {{0, 20000}, {0, 20000}};
    struct itimerval never = {{0, 0}, {0, 0}};
    struct sigaction action;
    struct cb_end end;
    cb_one_t one = {1};

    cb_open(&end);
    while (cb_turn(end.context, 1) > 0)
        continue;
    memset(&action, 0, sizeof(action));
    action.sa_handler = life_on_alarm; /* without SA_RESTART */
    HG_CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    HG_CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    HG_CHECK_RET(HG_Progress(end.context, CB_TIMEOUT), HG_TIMEOUT);
    HG_CHECK_RET(HG_Trigger(end.context, CB_TIMEOUT, 1, NULL), HG_TIMEOUT);
    HG_CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    HG_CHECK_OK(cb_call(&end, life_inc_id, &one, &one));
    HG_CHECK_EQ_INT(one.value, 2);
    cb_close(&end);
}

/* Canceled calls wait in the queue, one entry each. */
HG_TEST(event_progress_returns_how_many_entries_wait)
{
    enum { COUNT = 7 };
    struct cb_call calls[COUNT];
    struct cb_end end;
    cb_one_t one = {1};
    unsigned want = COUNT;
    unsigned count = 0;
    unsigned i;

    cb_open(&end);
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_OK(
            cb_forward(&calls[i], cb_new_handle(&end, life_where_id), &one));
        HG_CHECK_OK(HG_Cancel(calls[i].handle));
    }
    if (end.peer == NULL) /* the calls wait there, too */
        want += COUNT;
    HG_CHECK_OK(HG_Event_progress(end.context, &count));
    HG_CHECK_EQ_INT(count, want);
    HG_CHECK_EQ_INT(cb_trigger(end.context, 0, 3), 3);
    HG_CHECK_OK(HG_Event_progress(end.context, &count));
    HG_CHECK_EQ_INT(count, want - 3);
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_RET(cb_wait(&end, &calls[i]), HG_CANCELED);
        HG_CHECK_OK(HG_Destroy(calls[i].handle));
    }
    /* Wait until the server has executed those calls, which were sent
     * before. */
    HG_CHECK_OK(cb_call(&end, life_where_id, NULL, &one));
    cb_close(&end);
}

/* An event loop as hg.h recommends it. */
static void life_loop(hg_context_t *context, const _Atomic unsigned *flag)
{
    struct pollfd pfd;

    pfd.fd = HG_Event_get_wait_fd(context);
    pfd.events = POLLIN;
    while (atomic_load(flag) == 0) {
        unsigned count = 0;

        if (!HG_Event_ready(context))
            HG_CHECK(pfd.fd < 0 ? poll(NULL, 0, 1) == 0
                                : poll(&pfd, 1, (int) CB_TIMEOUT) == 1);
        HG_CHECK_OK(HG_Event_progress(context, &count));
        cb_triggering++;
        HG_CHECK_OK(HG_Event_trigger(context, count, &count));
        cb_triggering--;
    }
}

HG_TEST(event_loop_sleeps_on_the_descriptor)
{
    struct cb_end end;
    struct cb_call call;
    cb_one_t one = {1};
    hg_handle_t handle;
    int fd;
    int i;

    cb_open(&end);
    fd = HG_Event_get_wait_fd(end.context);
    HG_CHECK_EQ_INT(HG_Event_get_wait_fd(end.context), fd);
    HG_CHECK_EQ_INT(HG_Event_get_wait_fd(NULL), -1);
    HG_CHECK(!HG_Event_ready(NULL));
    handle = cb_new_handle(&end, life_inc_id);
    for (i = 0; i < 20; i++) {
        HG_CHECK_OK(cb_forward(&call, handle, &one));
        life_loop(end.context, &call.ends);
        HG_CHECK_OK(call.ret);
    }
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

/* A rank of MPI was started before the processors were chosen. */
static bool life_shares_its_processor(void)
{
    return !hg_test_is_mpi();
}

/* A loop that never sleeps, on the only processor for all threads and
 * processes: it must yield, or a call would take until the scheduler preempts
 * it. */
HG_TEST_WHERE(
    spinning_event_loop_yields_the_processor, life_shares_its_processor)
{
    enum { CALLS = 20, LOOKS = 1000 };
    struct cb_end end;
    struct cb_call call;
    cb_one_t one = {1};
    hg_handle_t handle;
    cpu_set_t first;
    unsigned looks = 0;
    int i;

    CPU_ZERO(&first);
    CPU_SET((unsigned) sched_getcpu(), &first);
    HG_CHECK(sched_setaffinity(0, sizeof(first), &first) == 0);
    cb_open(&end);
    handle = cb_new_handle(&end, life_inc_id);
    for (i = 0; i < CALLS; i++) {
        HG_CHECK_OK(cb_forward(&call, handle, &one));
        while (call.ends == 0) {
            unsigned count = 0;

            HG_CHECK_OK(HG_Event_progress(end.context, &count));
            cb_triggering++;
            HG_CHECK_OK(HG_Event_trigger(end.context, count, &count));
            cb_triggering--;
            looks++;
        }
        HG_CHECK_OK(call.ret);
    }
    HG_CHECK(looks < CALLS * LOOKS);
    HG_CHECK_OK(HG_Destroy(handle));
    cb_close(&end);
}

/* ---- Peers that die ---- */

HG_TEST_WHERE(call_that_is_never_answered_ends_when_the_peer_dies,
    hg_test_crosses_processes)
{
    enum { COUNT = 20 };
    static struct cb_call calls[COUNT];
    struct cb_end end;
    struct cb_call call;
    cb_one_t one = {1};
    int i;

    hg_test_allow_log("");
    cb_open(&end);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(
            cb_forward(&calls[i], cb_new_handle(&end, life_keep_id), &one));
    HG_CHECK_OK(cb_call(&end, life_inc_id, &one, &one)); /* all have arrived */
    for (i = 0; i < 5; i++)
        (void) cb_turn(end.context, 1);
    hg_test_signal(end.peer, SIGKILL);
    HG_CHECK(WIFSIGNALED(hg_test_wait(end.peer)));
    for (i = 0; i < COUNT; i++) {
        HG_CHECK_RET(cb_wait(&end, &calls[i]), HG_DISCONNECT);
        HG_CHECK_EQ_INT(calls[i].refs, 2);
        HG_CHECK_EQ_INT(HG_Ref_get(calls[i].handle), 1);
    }
    /* The callback also reports that nothing can be sent any more. */
    HG_CHECK_OK(cb_forward(&call, calls[0].handle, &one));
    HG_CHECK_RET(cb_wait(&end, &call), HG_DISCONNECT);
    for (i = 0; i < COUNT; i++)
        HG_CHECK_OK(HG_Destroy(calls[i].handle));
    HG_CHECK_OK(NA_Addr_free(end.na_class, end.target));

    /* A server started later is another peer. */
    end.peer = hg_test_spawn("server", "1", (char *) NULL);
    cb_find_peer(&end);
    one.value = 5;
    HG_CHECK_OK(cb_call(&end, life_inc_id, &one, &one));
    HG_CHECK_EQ_INT(one.value, 6);
    cb_close(&end);
}
