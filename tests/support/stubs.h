/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stubs: functions of every kind that MERCURY_GEN_RPC_STUB supports, for the
 * programs of either model, which include hg.h first. tests/lint also compiles
 * it as C99 and as C++11.
 */
#ifndef HG_TESTS_SUPPORT_STUBS_H
#define HG_TESTS_SUPPORT_STUBS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A user-defined type, and one that points to memory. */
/* clang-format off */
MERCURY_GEN_PROC(stubs_point_t, ((int32_t)(x))((int32_t)(y)))
MERCURY_GEN_PROC(stubs_named_t, ((hg_string_t)(name))((stubs_point_t)(at)))

MERCURY_GEN_RPC_STUB(int32_t, stubs_add, ((int32_t)(a))((int32_t)(b)), )
MERCURY_GEN_RPC_STUB(int32_t, stubs_divide,
    ((int32_t)(a))((int32_t)(b)), ((int32_t)(rest)))
MERCURY_GEN_RPC_STUB(void, stubs_nothing, , )
MERCURY_GEN_RPC_STUB(uint32_t, stubs_count, , )
MERCURY_GEN_RPC_STUB(void, stubs_set, ((uint32_t)(count)), )
MERCURY_GEN_RPC_STUB(void, stubs_get, , ((uint32_t)(count)))
MERCURY_GEN_RPC_STUB(hg_string_t, stubs_say,
    ((hg_const_string_t)(name)),
    ((hg_const_string_t)(same))((hg_const_string_t)(constant))
    ((hg_string_t)(none)))
MERCURY_GEN_PROC(stubs_label_t, ((hg_const_string_t)(text))((uint32_t)(id)))
MERCURY_GEN_RPC_STUB(hg_const_string_t, stubs_color,
    ((uint32_t)(id)), ((stubs_label_t)(label)))
MERCURY_GEN_RPC_STUB(stubs_point_t, stubs_move,
    ((stubs_named_t)(from))((stubs_point_t)(by)), ((stubs_named_t)(to)))
MERCURY_GEN_RPC_STUB(double, stubs_many,
    ((int8_t)(a))((uint8_t)(b))((int16_t)(c))((uint16_t)(d))
    ((int32_t)(e))((uint32_t)(f))((int64_t)(g))((uint64_t)(h))((double)(i)),
    ((int8_t)(a_p))((uint8_t)(b_p))((int16_t)(c_p))((uint16_t)(d_p))
    ((int32_t)(e_p))((uint32_t)(f_p))((int64_t)(g_p))((uint64_t)(h_p)))
MERCURY_GEN_RPC_STUB(int32_t, stubs_store,
    ((uint64_t)(from))((hg_memory_in_t)(data)), ((uint64_t)(sum)))
MERCURY_GEN_RPC_STUB(int32_t, stubs_fill,
    ((hg_memory_out_t)(data))((uint8_t)(with)), )
MERCURY_GEN_RPC_STUB(int32_t, stubs_copy,
    ((hg_bulk_t)(from))((hg_memory_out_t)(to)), )
MERCURY_GEN_RPC_STUB(int32_t, stubs_delay, ((hg_memory_in_t)(data)), )
MERCURY_GEN_RPC_STUB(int32_t, stubs_absent, , )
MERCURY_GEN_RPC_STUB(int32_t, stubs_current,
    ((uint32_t)(how)), ((hg_string_t)(id))((uint32_t)(left)))
MERCURY_GEN_RPC_STUB(bool, stubs_plain,
    ((int)(a))((size_t)(b))((bool)(c)), ((int)(a_p))((size_t)(b_p)))

/* Four of these names as another program may declare them: with other types,
 * and with types that mean the same. */
#define stubs_set stubs_other_set
#define stubs_say stubs_other_say
#define stubs_store stubs_other_store
#define stubs_plain stubs_other_plain
MERCURY_GEN_RPC_STUB(void, stubs_set, ((float)(count)), )
MERCURY_GEN_RPC_STUB(hg_const_string_t, stubs_say,
    ((hg_string_t)(name)),
    ((hg_string_t)(same))((hg_string_t)(constant))
    ((hg_const_string_t)(none)))
MERCURY_GEN_RPC_STUB(int32_t, stubs_store,
    ((uint64_t)(from))((hg_bulk_t)(data)), ((uint64_t)(sum)))
MERCURY_GEN_RPC_STUB(hg_bool_t, stubs_plain,
    ((int32_t)(a))((uint64_t)(b))((hg_bool_t)(c)),
    ((int32_t)(a_p))((uint64_t)(b_p)))
#undef stubs_plain
#undef stubs_set
#undef stubs_say
#undef stubs_store
/* clang-format on */

/* Error text at the caller of stubs_other_set. */
#define STUBS_OTHER_SET_TEXT \
    "\"stubs_set\" has the types (uint32_t) -> (); " \
    "called as (float) -> ()"

int32_t stubs_add(int32_t a, int32_t b)
{
    return a + b;
}

int32_t stubs_divide(int32_t a, int32_t b, int32_t *rest)
{
    *rest = a % b;
    return a / b;
}

static uint32_t stubs_counter;

void stubs_nothing(void)
{
    stubs_counter++;
}

uint32_t stubs_count(void)
{
    return stubs_counter;
}

void stubs_set(uint32_t count)
{
    stubs_counter = count;
}

void stubs_get(uint32_t *count)
{
    *count = stubs_counter;
}

static char *stubs_new_string(const char *text)
{
    size_t size = strlen(text) + 1;
    void *copy = hg_proc_alloc(HG_PROC_NULL, size);

    if (copy != NULL)
        memcpy(copy, text, size);
    return HG_CAST(char *, copy);
}

/* A returned string belongs to the library then; `same` and `constant` do
 * not. */
hg_string_t stubs_say(hg_const_string_t name, hg_const_string_t *same,
    hg_const_string_t *constant, hg_string_t *none)
{
    char text[64];

    (void) snprintf(text, sizeof(text), "hello, %s", name);
    *same = name;
    *constant = "constant";
    *none = NULL;
    return stubs_new_string(text);
}

/* String literals, returned and inside a struct: they are not freed. */
hg_const_string_t stubs_color(uint32_t id, stubs_label_t *label)
{
    label->text = id == 0 ? NULL : "label";
    label->id = id;
    return id == 0 ? "red" : "green";
}

stubs_point_t stubs_move(
    stubs_named_t from, stubs_point_t by, stubs_named_t *to)
{
    to->name = stubs_new_string(from.name);
    to->at.x = from.at.x + by.x;
    to->at.y = from.at.y + by.y;
    return from.at;
}

double stubs_many(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e,
    uint32_t f, int64_t g, uint64_t h, double i, int8_t *a_p, uint8_t *b_p,
    int16_t *c_p, uint16_t *d_p, int32_t *e_p, uint32_t *f_p, int64_t *g_p,
    uint64_t *h_p)
{
    *a_p = a;
    *b_p = b;
    *c_p = c;
    *d_p = d;
    *e_p = e;
    *f_p = f;
    *g_p = g;
    *h_p = h;
    return i;
}

static uint64_t stubs_sum(const unsigned char *bytes, size_t size)
{
    uint64_t sum = 0;
    size_t i;

    for (i = 0; i < size; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

static unsigned char *stubs_buffer(size_t size)
{
    void *buffer = calloc(1, size + 1);

    if (buffer == NULL)
        abort();
    return HG_CAST(unsigned char *, buffer);
}

/* So many bytes of a pattern, on the heap. */
static inline unsigned char *stubs_new_pattern(size_t size, uint64_t seed)
{
    unsigned char *bytes = stubs_buffer(size);
    size_t i;

    for (i = 0; i < size; i++)
        bytes[i] = (unsigned char) ((i * 131 + seed) >> (i % 5));
    return bytes;
}

/* Calls of stubs_store and stubs_fill, and the result of the last transfer. */
static unsigned stubs_pulls;
static hg_return_t stubs_pulled;
static unsigned stubs_pushes;
static hg_return_t stubs_pushed;

/* Called before memory is moved; may be NULL. */
static void (*stubs_hook)(void);
static int stubs_limit = -1; /* of a transfer, in ms; -1: option bulk_ms */

/* Transfers that failed and left the error text of an earlier failure. */
static unsigned stubs_stale;

static hg_return_t stubs_moved(const char *function, hg_return_t ret)
{
    const char *text = HG_Get_last_error_text();

    if (ret != HG_SUCCESS &&
        (strncmp(text, function, strlen(function)) != 0 ||
            (ret == HG_TIMEOUT) != (strstr(text, "did not end in") != NULL)))
        stubs_stale++;
    return ret;
}

static hg_return_t stubs_pull(hg_memory_t data, size_t at, void *buf, size_t n)
{
    if (stubs_hook != NULL)
        stubs_hook();
    return stubs_moved("HG_Bulk_pull",
        stubs_limit >= 0 ? HG_Bulk_pull_timed(data.call, data.bulk, at, buf, n,
                               (unsigned) stubs_limit)
                         : HG_Bulk_pull(data.call, data.bulk, at, buf, n));
}

static hg_return_t stubs_push(
    hg_memory_t data, size_t at, const void *buf, size_t n)
{
    return stubs_moved("HG_Bulk_push",
        stubs_limit >= 0 ? HG_Bulk_push_timed(data.call, data.bulk, at, buf, n,
                               (unsigned) stubs_limit)
                         : HG_Bulk_push(data.call, data.bulk, at, buf, n));
}

/* The sum of the memory from offset `from` on. No other call is executed while
 * it waits. */
int32_t stubs_store(uint64_t from, hg_memory_t data, uint64_t *sum)
{
    size_t at = HG_CAST(size_t, from);
    size_t size = data.size > at ? data.size - at : 0;
    unsigned char *buffer = stubs_buffer(size);
    static __thread int inside;
    hg_return_t ret = HG_BUSY;

    if (inside++ == 0)
        ret = stubs_pull(data, at, buffer, size);
    inside--;
    stubs_pulled = ret;
    stubs_pulls++;
    *sum = stubs_sum(buffer, size);
    free(buffer);
    return (int32_t) ret;
}

/* Two halves, so that offsets matter. */
int32_t stubs_fill(hg_memory_t data, uint8_t with)
{
    size_t half = data.size / 2;
    unsigned char *buffer = stubs_buffer(data.size);
    hg_return_t ret;

    memset(buffer, with, data.size);
    ret = stubs_push(data, half, buffer, data.size - half);
    if (ret == HG_SUCCESS)
        ret = stubs_push(data, 0, buffer, half);
    stubs_pushed = ret;
    stubs_pushes++;
    free(buffer);
    return (int32_t) ret;
}

int32_t stubs_copy(hg_memory_t from, hg_memory_t to)
{
    unsigned char *buffer = stubs_buffer(from.size);
    hg_return_t ret = HG_Bulk_pull(from.call, from.bulk, 0, buffer, from.size);

    if (ret == HG_SUCCESS)
        ret = HG_Bulk_push(to.call, to.bulk, 0, buffer, from.size);
    free(buffer);
    return (int32_t) ret;
}

/* Until the caller has stopped waiting; then memory is not moved either. */
int32_t stubs_delay(hg_memory_t data)
{
    while (!HG_Is_canceled(data.call)) {
    }
    return HG_SUCCESS;
}

int32_t stubs_absent(void)
{
    return 0;
}

bool stubs_plain(int a, size_t b, bool c, int *a_p, size_t *b_p)
{
    *a_p = a;
    *b_p = b;
    return c;
}

enum { STUBS_TELL, STUBS_REFUSE, STUBS_WAIT };

/* Return 1, the identity of the caller and the time left; respond with an
 * error; or wait until the caller does not wait any more. Without a memory
 * argument the function has no other handle. */
int32_t stubs_current(uint32_t how, hg_string_t *id, uint32_t *left)
{
    hg_handle_t call = HG_Handler_current();

    if (call == HG_HANDLE_NULL)
        return 0;
    *id = stubs_new_string(HG_Get_peer_id(call));
    *left = HG_Get_time_left(call);
    if (how == STUBS_REFUSE &&
        HG_Respond_error(call, HG_PERMISSION, "not for you") != HG_SUCCESS)
        return 0;
    while (how == STUBS_WAIT && !HG_Is_canceled(call)) {
    }
#if HG_API_VERSION == 1
    return HG_Handler_get_addr(call) != NA_ADDR_NULL;
#else
    return HG_Get_info(call)->addr != HG_ADDR_NULL;
#endif
}

#endif
