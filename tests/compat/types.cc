/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Types that C++ programs for Mercury see: a return code has the type that the
 * functions return, a flag is an int.
 */
struct hg_addr; /* as in headers that do not include mercury.h */
typedef struct hg_addr *hg_addr_t;

#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_proc.h>

#include <cstdint>
#include <type_traits>

static_assert(std::is_enum<hg_return_t>::value, "hg_return_t");
static_assert(std::is_enum<na_return_t>::value, "na_return_t");
static_assert(sizeof(hg_return_t) == sizeof(int), "hg.c has an int there");
static_assert(std::is_same<decltype(HG_SUCCESS), hg_return_t>::value, "");
static_assert(
    std::is_same<decltype(HG_OPNOTSUPPORTED), hg_return_t>::value, "");
static_assert(std::is_same<decltype(HG_NO_MATCH), hg_return_t>::value, "");
static_assert(std::is_same<decltype(NA_SUCCESS), na_return_t>::value, "");
static_assert(std::is_same<decltype(NA_HOSTFIREWALL), na_return_t>::value, "");
static_assert(!std::is_convertible<int, hg_return_t>::value, "");
static_assert(
    std::is_same<decltype(hg_proc_uint8_t(HG_PROC_NULL, nullptr)),
        hg_return_t>::value, "");
static_assert(std::is_same<decltype(hg_cb_info::ret), hg_return_t>::value, "");

static_assert(std::is_same<decltype(HG_TRUE), int>::value, "");
static_assert(std::is_same<decltype(HG_FALSE), int>::value, "");
static_assert(std::is_same<decltype(HG_MAX_IDLE_TIME), int>::value, "");
static_assert(std::is_same<decltype(HG_CORE_SM), int>::value, "");
static_assert(std::is_same<decltype(HG_PROC_SM), int>::value, "");
static_assert(std::is_same<decltype(HG_PROC_BULK_EAGER), int>::value, "");
static_assert(std::is_same<decltype(NA_NO_RETRY), int>::value, "");
static_assert(std::is_same<decltype(HG_BULK_READWRITE), int>::value, "");

#if !defined(HG_BULK_READ_ONLY) || !defined(HG_BULK_WRITE_ONLY) || \
    !defined(NA_NO_BLOCK) || !defined(NA_THREAD_MODE_SINGLE) || !HG_TRUE
#error "flags are macros, which #if can see"
#endif

/* Tags that Mercury does not use. */
enum hg_op { HG_TEST_OP };
struct hg_proc_op {};
struct hg_proc_hash {};

/* g++ warns about an enumerator beside a number. */
static int mode(bool busy)
{
    return busy ? NA_NO_BLOCK : 0;
}

/* All returns deduce the same type. */
static hg_return_t called(hg_handle_t handle)
{
    auto call = [handle](hg_size_t size) {
        hg_return_t ret;
        if (handle == HG_HANDLE_NULL)
            return HG_INVALID_ARG;
        ret = HG_Forward(handle, nullptr, nullptr, nullptr);
        if (ret != HG_SUCCESS || size == 0)
            return ret;
        return HG_SUCCESS;
    };
    return call(8);
}

/* An enum type can choose an overload. */
static int chosen(int)
{
    return 1;
}
static int chosen(hg_return_t)
{
    return 2;
}

/* No default: gcc and clang then require all values. */
static const char *named(hg_return_t ret)
{
    switch (ret) {
#define X(code) case code: return #code;
        HG_RETURN_VALUES
#undef X
    }
    return "?";
}

int main()
{
    hg_return_t ret = static_cast<hg_return_t>(std::int32_t{2});
    int number = ret;

    if (called(HG_HANDLE_NULL) != HG_INVALID_ARG)
        return 1;
    if (chosen(number) != 1 || chosen(ret) != 2 || mode(true) != NA_NO_BLOCK)
        return 2;
    return number == HG_NO_MATCH && named(ret)[3] == 'N' ? 0 : 3;
}
