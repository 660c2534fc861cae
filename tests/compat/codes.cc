/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Return codes as C++ programs for Mercury use them: each constant has the type
 * of the functions that return it.
 */
#include <mercury.h>
#include <mercury_proc.h>

#include <cstdint>
#include <type_traits>

static_assert(std::is_enum<hg_return_t>::value, "hg_return_t");
static_assert(std::is_enum<na_return_t>::value, "na_return_t");
static_assert(sizeof(hg_return_t) == sizeof(int), "hg.c has an int there");
static_assert(std::is_same<decltype(HG_SUCCESS), hg_return_t>::value, "");
static_assert(std::is_same<decltype(HG_OPNOTSUPPORTED), hg_return_t>::value, "");
static_assert(std::is_same<decltype(HG_INVALID_PARAM), hg_return_t>::value, "");
static_assert(std::is_same<decltype(NA_SUCCESS), na_return_t>::value, "");
static_assert(std::is_same<decltype(NA_HOSTFIREWALL), na_return_t>::value, "");
static_assert(!std::is_convertible<int, hg_return_t>::value, "");
static_assert(
    std::is_same<decltype(hg_proc_uint8_t(HG_PROC_NULL, nullptr)),
        hg_return_t>::value, "");
static_assert(std::is_same<decltype(hg_cb_info::ret), hg_return_t>::value, "");

/* One type is deduced from all returns. */
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

/* Without a default: gcc and clang ask for all values. */
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

    return called(HG_HANDLE_NULL) == HG_INVALID_ARG && chosen(ret) == 2 &&
        chosen(number) == 1 && number == HG_NO_MATCH && named(ret)[3] == 'N'
        ? 0 : 1;
}
