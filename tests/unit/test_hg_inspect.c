/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HG_Dump blocks no other thread: the application's stream and its free
 * function are used without a lock.
 */
#include "support/library.h"

#include "engine.h"

static hg_class_t *inspect_class;
static hg_context_t *inspect_context;
static unsigned inspect_count;

/* Called where application code runs. */
static void inspect_check_locks(void)
{
    HG_CHECK(pthread_mutex_trylock(&hg_class_lock) == 0);
    hg_unlock(&hg_class_lock);
    HG_CHECK_EQ_INT(hg_monitor_entered, 0);
    inspect_count++;
}

static ssize_t inspect_write(void *cookie, const char *buf, size_t size)
{
    (void) cookie;
    (void) buf;
    inspect_check_locks();
    return (ssize_t) size;
}

static void inspect_free(void *data)
{
    HG_CHECK(data == &inspect_count);
    inspect_check_locks();
}

static hg_return_t inspect_ended(const struct hg_cb_info *info)
{
    return HG_Destroy(info->info.forward.handle);
}

static void inspect_begin(void)
{
    inspect_class = HG_Init2("self://", HG_TRUE);
    HG_CHECK(inspect_class != NULL);
    inspect_context = HG_Context_create(inspect_class);
    HG_CHECK(inspect_context != NULL);
    inspect_count = 0;
}

/* A call that waits to be executed, and its handle, which belongs to its
 * callback. */
static hg_handle_t inspect_call(void)
{
    hg_id_t id = HG_Register_name(
        inspect_class, "look", blob_proc, blob_proc, engine_echo);
    struct blob in = {0, NULL};
    hg_handle_t handle;
    hg_addr_t self = HG_ADDR_NULL;

    HG_CHECK_OK(HG_Addr_self(inspect_class, &self));
    HG_CHECK_OK(HG_Create(inspect_context, self, id, &handle));
    HG_CHECK_OK(HG_Addr_free(inspect_class, self));
    HG_CHECK_OK(HG_Set_data(handle, &inspect_count, inspect_free));
    HG_CHECK_OK(HG_Forward2(handle, inspect_ended, NULL, &in));
    return handle;
}

/* A transfer whose callback has not run yet. */
static hg_bulk_t inspect_move(void)
{
    hg_size_t size = 64;
    hg_addr_t self = HG_ADDR_NULL;
    hg_bulk_t bulk = HG_BULK_NULL;

    HG_CHECK_OK(HG_Addr_self(inspect_class, &self));
    HG_CHECK_OK(HG_Bulk_create(
        inspect_class, 1, NULL, &size, HG_BULK_READWRITE, &bulk));
    HG_CHECK_OK(HG_Bulk_transfer2(inspect_context, NULL, NULL, HG_BULK_PULL,
        self, bulk, 0, bulk, 0, size, HG_OP_ID_IGNORE));
    HG_CHECK_OK(HG_Addr_free(inspect_class, self));
    return bulk;
}

static void inspect_turn(void)
{
    unsigned count = 0;

    do {
        (void) HG_Progress(inspect_context, 0);
        (void) HG_Trigger(inspect_context, 0, 1, &count);
    } while (count > 0);
}

static void inspect_end(void)
{
    HG_CHECK_OK(HG_Context_destroy(inspect_context));
    HG_CHECK_OK(HG_Finalize2(inspect_class));
}

#ifdef __GLIBC__
HG_TEST(dump_writes_without_a_lock)
{
    static const cookie_io_functions_t io = {NULL, inspect_write, NULL, NULL};
    FILE *stream = fopencookie(NULL, "w", io);

    HG_CHECK(stream != NULL && setvbuf(stream, NULL, _IONBF, 0) == 0);
    inspect_begin();
    (void) inspect_call();
    HG_CHECK_OK(HG_Dump(NULL, stream));
    HG_CHECK(inspect_count > 0);
    inspect_turn();
    inspect_end();
    HG_CHECK(fclose(stream) == 0);
}
#endif

/* On out-of-memory lines are missing: HG_AGAIN. */
static int inspect_dump(void *arg)
{
    hg_return_t ret = HG_Dump(inspect_class, (FILE *) arg);

    HG_CHECK(ret == HG_SUCCESS || ret == HG_AGAIN);
    return ret;
}

HG_TEST(dump_survives_every_failing_allocation)
{
    size_t size = 0;
    char *text = NULL;
    FILE *stream = open_memstream(&text, &size);
    hg_bulk_t bulk;

    HG_CHECK(stream != NULL);
    hg_test_alloc_install();
    inspect_begin();
    (void) inspect_call();
    bulk = inspect_move();
    HG_CHECK(hg_test_oom_loop(inspect_dump, stream) >= 1);
    HG_CHECK(fclose(stream) == 0);
    HG_CHECK(strstr(text, "\"look\" to") != NULL);
    HG_CHECK(strstr(text, "bulk pull from") != NULL);
    free(text);
    inspect_turn();
    HG_CHECK_OK(HG_Bulk_free(bulk));
    inspect_end();
}
