/* SPDX-License-Identifier: BSD-3-Clause */
/* Procs that no call runs: sizes, growth, reset, checksums, strings. */
#include "sequences.h"

static void sizes(const char *step, hg_proc_t proc)
{
    printf("%s: size %" PRIu64 ", used %" PRIu64 ", left %" PRIu64
           ", extra %d %" PRIu64 "\n",
        step, hg_proc_get_size(proc), hg_proc_get_size_used(proc),
        hg_proc_get_size_left(proc), hg_proc_get_extra_buf(proc) != NULL,
        hg_proc_get_extra_size(proc));
}

static void procs_made(hg_class_t *hg_class, char *room)
{
    hg_proc_t proc = HG_PROC_NULL;

    say("no class", hg_proc_create(NULL, HG_NOHASH, &proc));
    say("create", hg_proc_create(hg_class, HG_NOHASH, &proc));
    say("reset", hg_proc_reset(proc, room, 16, HG_ENCODE));
    say_number("its class", hg_proc_get_class(proc) == hg_class);
    say_number("its handle", hg_proc_get_handle(proc) == HG_HANDLE_NULL);
    say_number("its op", hg_proc_get_op(proc));
    say_number("its flags", hg_proc_get_flags(proc));
    hg_proc_set_flags(proc, 3);
    say_number("its flags", hg_proc_get_flags(proc));
    say("reset without room", hg_proc_reset(proc, NULL, 0, HG_ENCODE));
    say("reset to free", hg_proc_reset(proc, NULL, 0, HG_FREE));
    say_number("its op", hg_proc_get_op(proc));
    say_number("its flags", hg_proc_get_flags(proc));
    sizes("to free", proc);
    say("free", hg_proc_free(proc));
    say("free nothing", hg_proc_free(HG_PROC_NULL));
    say("reset nothing", hg_proc_reset(HG_PROC_NULL, room, 16, HG_ENCODE));
    say("flush nothing", hg_proc_flush(HG_PROC_NULL));
    say("size of nothing", hg_proc_set_size(HG_PROC_NULL, 1));
}

static void procs_grown(hg_class_t *hg_class, char *room)
{
    hg_proc_t proc;
    char bytes[5000] = {'x'};
    uint32_t value = 7;
    void *place;

    (void) hg_proc_create_set(hg_class, room, 16, HG_ENCODE, HG_NOHASH, &proc);
    sizes("encode", proc);
    say("a number", hg_proc_uint32_t(proc, &value));
    sizes("one number", proc);
    say("no bytes", hg_proc_bytes(proc, bytes, 0));
    place = hg_proc_save_ptr(proc, 0);
    say_number("a place of no bytes", place == room + 4);
    place = hg_proc_save_ptr(proc, 8);
    say_number("a place", place == room + 4);
    memset(place, 'y', 8);
    say("kept", hg_proc_restore_ptr(proc, place, 8));
    sizes("a place taken", proc);
    say("no extra buffer is mine", hg_proc_set_extra_buf_is_mine(proc, 1));
    say("bytes past the end", hg_proc_bytes(proc, bytes, 100));
    sizes("grown", proc);
    say_number(
        "same bytes", memcmp(hg_proc_get_extra_buf(proc), room, 12) == 0);
    say("many bytes", hg_proc_bytes(proc, bytes, 5000));
    sizes("grown again", proc);
    say("a smaller size", hg_proc_set_size(proc, 10));
    say("a larger size", hg_proc_set_size(proc, 50000));
    sizes("larger", proc);
    say("flush", hg_proc_flush(proc));
    say("reset", hg_proc_reset(proc, room, 16, HG_DECODE));
    sizes("decode", proc);
    value = 0;
    say("a number", hg_proc_uint32_t(proc, &value));
    say_number("the number", value);
    say("free", hg_proc_free(proc));
}

static void procs_kept(hg_class_t *hg_class, char *room)
{
    hg_proc_t proc;
    char bytes[64] = {'z'};
    void *extra;

    (void) hg_proc_create_set(hg_class, room, 8, HG_ENCODE, HG_NOHASH, &proc);
    say("size before data", hg_proc_set_size(proc, 100));
    sizes("size before data", proc);
    say("bytes", hg_proc_bytes(proc, bytes, 64));
    extra = hg_proc_get_extra_buf(proc);
    say("extra buffer is theirs", hg_proc_set_extra_buf_is_mine(proc, 1));
    say("free", hg_proc_free(proc));
    say_number("still there", ((char *) extra)[0] == 'z');
    free(extra);
}

static void checksum(hg_class_t *hg_class, hg_proc_hash_t hash, size_t size)
{
    char room[64] = {0};
    unsigned char sum[8] = {0};
    uint64_t value = 0x0102030405060708;
    hg_proc_t proc;
    size_t i;

    (void) hg_proc_create_set(hg_class, room, 64, HG_ENCODE, hash, &proc);
    (void) hg_proc_uint64_t(proc, &value);
    memcpy(hg_proc_save_ptr(proc, 9), "123456789", 9);
    (void) hg_proc_restore_ptr(proc, room + 8, 9);
    say("flush", hg_proc_flush(proc));
    say("too small", hg_proc_checksum_get(proc, sum, size - 1));
    say("nowhere", hg_proc_checksum_get(proc, NULL, size));
    say("checksum", hg_proc_checksum_get(proc, sum, size));
    printf("bytes:");
    for (i = 0; i < size; i++)
        printf(" %02x", sum[i]);
    printf("\n");
    (void) hg_proc_reset(proc, room, 64, HG_DECODE);
    (void) hg_proc_uint64_t(proc, &value);
    (void) hg_proc_bytes(proc, room + 32, 9);
    (void) hg_proc_flush(proc);
    say("same", hg_proc_checksum_verify(proc, sum, size));
    say("compared with less", hg_proc_checksum_verify(proc, sum, size - 1));
    say("compared with nothing", hg_proc_checksum_verify(proc, NULL, size));
    sum[0] ^= 1;
    say("other", hg_proc_checksum_verify(proc, sum, size));
    say("free", hg_proc_free(proc));
}

/* A program that writes to the buffer itself adds the bytes to the checksum.
 * `outside`: bytes that are not in the buffer. */
static void checksum_updated(
    hg_class_t *hg_class, const char *step, bool outside)
{
    char room[64] = {0}, other[] = "other";
    unsigned char sum[4] = {0};
    uint64_t value = 0x0102030405060708;
    hg_proc_t proc;

    (void) hg_proc_create_set(hg_class, room, 64, HG_ENCODE, HG_CRC32, &proc);
    (void) hg_proc_uint64_t(proc, &value);
    memcpy(hg_proc_save_ptr(proc, 9), "123456789", 9);
    hg_proc_checksum_update(proc, room + 8, 9);
    if (outside)
        hg_proc_checksum_update(proc, other, sizeof(other));
    (void) hg_proc_flush(proc);
    say_values(step, hg_proc_checksum_get(proc, sum, 4), "%02x %02x %02x %02x",
        sum[0], sum[1], sum[2], sum[3]);
    (void) hg_proc_free(proc);
}

static void no_checksum(hg_class_t *hg_class)
{
    char room[8], sum[8];
    hg_proc_t proc;

    (void) hg_proc_create_set(hg_class, room, 8, HG_ENCODE, HG_NOHASH, &proc);
    hg_proc_checksum_update(proc, room, 8);
    say("flush", hg_proc_flush(proc));
    say("no checksum", hg_proc_checksum_get(proc, sum, 8));
    say("no checksum", hg_proc_checksum_verify(proc, sum, 8));
    say("free", hg_proc_free(proc));
}

static void procs_of_handles(hg_class_t *hg_class)
{
    hg_context_t *context = HG_Context_create(hg_class);
    hg_handle_t handle = HG_HANDLE_NULL;
    char room[8];
    hg_proc_t proc;

    (void) HG_Create(context, HG_ADDR_NULL, 0, &handle);
    (void) hg_proc_create_set(hg_class, room, 8, HG_ENCODE, HG_NOHASH, &proc);
    hg_proc_set_handle(proc, handle);
    say_number("the handle", hg_proc_get_handle(proc) == handle);
    say("reset", hg_proc_reset(proc, room, 8, HG_DECODE));
    say_number("the handle", hg_proc_get_handle(proc) == handle);
    say("free", hg_proc_free(proc));
    say("its end", HG_Destroy(handle));
    (void) hg_proc_create_set(hg_class, room, 8, HG_ENCODE, HG_NOHASH, &proc);
    hg_proc_set_handle(proc, handle);
    hg_proc_set_handle(proc, HG_HANDLE_NULL);
    say_number("no handle", hg_proc_get_handle(proc) == HG_HANDLE_NULL);
    say("free", hg_proc_free(proc));
    say("context", HG_Context_destroy(context));
}

static void basic_types(hg_class_t *hg_class)
{
    char room[64];
    hg_proc_t proc;
    hg_id_t id = 5;
    hg_bool_t yes = HG_TRUE;
    hg_ptr_t pointer = 9;
    hg_size_t size = 11;
    hg_bulk_t bulk = HG_BULK_NULL;

    (void) hg_proc_create_set(hg_class, room, 64, HG_ENCODE, HG_NOHASH, &proc);
    say("id", hg_proc_hg_id_t(proc, &id));
    say_number("used", (long long) hg_proc_get_size_used(proc));
    say("bool", hg_proc_hg_bool_t(proc, &yes));
    say_number("used", (long long) hg_proc_get_size_used(proc));
    say("pointer", hg_proc_hg_ptr_t(proc, &pointer));
    say_number("used", (long long) hg_proc_get_size_used(proc));
    say("size", hg_proc_hg_size_t(proc, &size));
    say_number("used", (long long) hg_proc_get_size_used(proc));
    say("no bulk handle", hg_proc_hg_bulk_t(proc, &bulk));
    say_number("used", (long long) hg_proc_get_size_used(proc));
    (void) hg_proc_reset(proc, room, 64, HG_DECODE);
    id = 0;
    yes = HG_FALSE;
    (void) hg_proc_hg_id_t(proc, &id);
    (void) hg_proc_hg_bool_t(proc, &yes);
    (void) hg_proc_hg_ptr_t(proc, &pointer);
    (void) hg_proc_hg_size_t(proc, &size);
    say("no bulk handle", hg_proc_hg_bulk_t(proc, &bulk));
    say_number("id", (long long) id);
    say_number("bool", yes);
    (void) hg_proc_reset(proc, NULL, 0, HG_FREE);
    say("free a bulk handle", hg_proc_hg_bulk_t(proc, &bulk));
    say("free a number", hg_proc_uint64_t(proc, &size));
    say_number("the number", (long long) size);
    say("free", hg_proc_free(proc));
}

void steps_of_procs(const char *info)
{
    hg_class_t *hg_class = HG_Init(info, HG_FALSE);
    char room[64] = {0};

    procs_made(hg_class, room);
    procs_grown(hg_class, room);
    procs_kept(hg_class, room);
    checksum(hg_class, HG_CRC16, 2);
    checksum(hg_class, HG_CRC32, 4);
    checksum(hg_class, HG_CRC64, 8);
    checksum_updated(hg_class, "bytes of the buffer added", false);
    checksum_updated(hg_class, "other bytes added", true);
    no_checksum(hg_class);
    procs_of_handles(hg_class);
    basic_types(hg_class);
    say("class", HG_Finalize(hg_class));
}

static void string_objects(void)
{
    hg_string_object_t a, b;
    char text[] = "text", other[] = "other";

    say("empty", hg_string_object_init(&a));
    say_number("data", a.data != NULL);
    say("free", hg_string_object_free(&a));
    say("of characters", hg_string_object_init_char(&a, text, 0));
    say_number("the same", a.data == text);
    say_number("owned", a.is_owned);
    say("a copy", hg_string_object_dup(a, &b));
    say_number("copied", b.data != text && strcmp(b.data, "text") == 0);
    say_number("owned", b.is_owned);
    say_number("swap", hg_string_object_swap(&a, other) == text);
    say_number("swapped", a.data == other);
    say("free", hg_string_object_free(&a));
    say("free", hg_string_object_free(&b));
    say("constant", hg_string_object_init_const_char(&a, "constant", 0));
    say_number("constant", a.is_const);
    say("free", hg_string_object_free(&a));
    a.data = NULL;
    a.is_owned = a.is_const = 0;
    say("free of none", hg_string_object_free(&a));
}

static void strings_coded(hg_class_t *hg_class, const char *text, char *room)
{
    hg_const_string_t in = text, out = NULL;
    hg_string_t copy = NULL;
    hg_proc_t proc;

    (void) hg_proc_create_set(hg_class, room, 64, HG_ENCODE, HG_NOHASH, &proc);
    say("encode", hg_proc_hg_const_string_t(proc, &in));
    say_number("used", (long long) hg_proc_get_size_used(proc));
    (void) hg_proc_reset(proc, room, 64, HG_DECODE);
    say("decode", hg_proc_hg_const_string_t(proc, &out));
    printf("text: %s\n", out != NULL ? out : "(none)");
    (void) hg_proc_reset(proc, room, 64, HG_DECODE);
    say("decode", hg_proc_hg_string_t(proc, &copy));
    printf("text: %s\n", copy != NULL ? copy : "(none)");
    (void) hg_proc_reset(proc, NULL, 0, HG_FREE);
    say("free", hg_proc_hg_const_string_t(proc, &out));
    say("free", hg_proc_hg_string_t(proc, &copy));
    say("free", hg_proc_free(proc));
}

void steps_of_strings(const char *info)
{
    hg_class_t *hg_class = HG_Init(info, HG_FALSE);
    char room[64] = {0};

    string_objects();
    strings_coded(hg_class, "a text", room);
    strings_coded(hg_class, "", room);
    strings_coded(hg_class, NULL, room);
    say("class", HG_Finalize(hg_class));
}
