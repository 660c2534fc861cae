/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport sm where Yama lets only ancestors copy to and from a process: a
 * process admits its peers only with HG_SM_RMA=vm, when it opens a class. The
 * system need not have Yama: this program intercepts prctl.
 */
#include "sm_sockets.h"

#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define PTRACER_SIZE ((size_t) 8192)

static _Atomic unsigned ptracer_calls;
static _Atomic unsigned ptracer_wrong; /* of those, not for all */

int prctl(int option, ...)
{
    unsigned long arg[4];
    va_list args;
    unsigned i;

    va_start(args, option);
    for (i = 0; i < 4; i++)
        arg[i] = va_arg(args, unsigned long);
    va_end(args);
    if (option != PR_SET_PTRACER)
        return (int) syscall(SYS_prctl, option, arg[0], arg[1], arg[2], arg[3]);
    atomic_fetch_add(&ptracer_calls, 1);
    if (arg[0] != PR_SET_PTRACER_ANY)
        atomic_fetch_add(&ptracer_wrong, 1);
    return 0;
}

/* `user` looks the owner up and gets some of its memory. */
static void ptracer_get(struct conform_end *user, struct conform_end *owner)
{
    static unsigned char memory[PTRACER_SIZE], got[PTRACER_SIZE];
    struct conform_call call;
    na_mem_handle_t mem, local, remote;
    na_addr_t addr = NA_ADDR_NULL;
    unsigned char bytes[256];
    na_size_t size;
    char name[NA_MAX_ADDR_LEN];

    conform_fill(memory, sizeof(memory), 7);
    memset(got, 0, sizeof(got));
    endpoint_name(owner, owner->self, name);
    HG_CHECK_OK(sm_meet(user, owner, name, &addr));
    HG_CHECK_OK(NA_Mem_handle_create(
        owner->na_class, memory, sizeof(memory), NA_MEM_READ_ONLY, &mem));
    HG_CHECK_OK(NA_Mem_register(owner->na_class, mem));
    size = NA_Mem_handle_get_serialize_size(owner->na_class, mem);
    HG_CHECK(size <= sizeof(bytes));
    HG_CHECK_OK(NA_Mem_handle_serialize(owner->na_class, bytes, size, mem));
    HG_CHECK_OK(
        NA_Mem_handle_deserialize(user->na_class, &remote, bytes, size));
    HG_CHECK_OK(NA_Mem_handle_create(
        user->na_class, got, sizeof(got), NA_MEM_READWRITE, &local));
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Get(user->na_class, user->context, conform_ended, &call,
        local, 0, remote, 0, sizeof(got), addr, &call.id));
    HG_CHECK_OK(sm_wait(user, owner, &call));
    HG_CHECK_EQ_MEM(got, memory, sizeof(got));
    HG_CHECK_OK(NA_Mem_handle_free(user->na_class, local));
    HG_CHECK_OK(NA_Mem_handle_free(user->na_class, remote));
    HG_CHECK_OK(NA_Mem_handle_free(owner->na_class, mem));
    HG_CHECK_OK(NA_Addr_free(user->na_class, addr));
}

/* Two owners that move bulk data with HG_SM_RMA=vm, each with memory that two
 * users get. */
static void ptracer_try(const char *way, unsigned calls)
{
    struct conform_end owners[2], users[2];
    unsigned i, n;

    for (i = 0; i < 2; i++) {
        char name[64];

        (void) snprintf(
            name, sizeof(name), "sm://hg-ptracer-%ld-%u", (long) getpid(), i);
        HG_CHECK(setenv("HG_SM_RMA", way, 1) == 0);
        endpoint_open(&owners[i], name, 1000);
        HG_CHECK(unsetenv("HG_SM_RMA") == 0);
        endpoint_open(&users[i], "sm://", 1000);
    }
    for (i = 0; i < 2; i++) {
        for (n = 0; n < 2; n++)
            ptracer_get(&users[n], &owners[i]);
    }
    HG_CHECK_EQ_INT(atomic_load(&ptracer_calls), calls);
    HG_CHECK_EQ_INT(atomic_load(&ptracer_wrong), 0);
    for (i = 0; i < 2; i++) {
        conform_close(&users[i]);
        conform_close(&owners[i]);
    }
}

HG_TEST(ptracer_permission_is_given_on_request)
{
    ptracer_try("vm", 2);
}

HG_TEST(ptracer_permission_is_not_given_by_default)
{
    ptracer_try("auto", 0);
    ptracer_try("map", 0);
    ptracer_try("copy", 0);
}
