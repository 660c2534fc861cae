/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of addresses over tcp. The class asks no name server about a host that
 * a peer names, and writes no line at the default level about it. This program
 * has its own getaddrinfo, which records the hosts asked for.
 */
#define _GNU_SOURCE 1
#define HG_API_VERSION 2
#include "hg.h"

#include "harness.h"

#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>

static _Atomic unsigned names_asked;

int getaddrinfo(const char *node, const char *service,
    const struct addrinfo *hints, struct addrinfo **res)
{
    int (*real)(const char *, const char *, const struct addrinfo *,
        struct addrinfo **);
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");

    if (node != NULL && strpbrk(node, "ghijklmnopqrstuvwxyz") != NULL &&
        (hints == NULL || (hints->ai_flags & AI_NUMERICHOST) == 0)) {
        names_asked++;
        return EAI_FAIL; /* instead of blocking for long */
    }
    HG_CHECK(symbol != NULL);
    memcpy(&real, &symbol, sizeof(real));
    return real(node, service, hints, res);
}

struct names_end {
    hg_class_t *hg_class;
    hg_context_t *context;
};

static void names_open(struct names_end *end, const char *string)
{
    end->hg_class = HG_Init(string, HG_TRUE);
    HG_CHECK(end->hg_class != NULL);
    end->context = HG_Context_create(end->hg_class);
    HG_CHECK(end->context != NULL);
}

static void names_close(struct names_end *end)
{
    HG_CHECK_OK(HG_Context_destroy(end->context));
    HG_CHECK_OK(HG_Finalize(end->hg_class));
}

static hg_return_t names_moved(const struct hg_cb_info *info)
{
    *(hg_return_t *) info->arg = info->ret;
    return HG_SUCCESS;
}

/* A forged handle whose owner is at some.host: the name is as long as the
 * number that it replaces. */
static hg_bulk_t names_forge(
    const struct names_end *owner, const struct names_end *end, hg_size_t size)
{
    static const char number[] = "127.0.0.1";
    static const char name[] = "some.host";
    hg_bulk_t own, forged = HG_BULK_NULL;
    unsigned char bytes[1024];
    unsigned char *at;
    hg_size_t length;

    HG_CHECK_OK(HG_Bulk_create(
        owner->hg_class, 1, NULL, &size, HG_BULK_READWRITE, &own));
    HG_CHECK_OK(HG_Bulk_bind(own, owner->context));
    length = HG_Bulk_get_serialize_size(own, 0);
    HG_CHECK(length <= sizeof(bytes));
    HG_CHECK_OK(HG_Bulk_serialize(bytes, length, 0, own));
    at = (unsigned char *) memmem(
        bytes, (size_t) length, number, sizeof(number) - 1);
    HG_CHECK(at != NULL);
    memcpy(at, name, sizeof(name) - 1);
    HG_CHECK_OK(HG_Bulk_deserialize(end->hg_class, &forged, bytes, length));
    HG_CHECK_OK(HG_Bulk_free(own));
    return forged;
}

HG_TEST(host_named_by_a_peer_is_not_resolved)
{
    struct names_end end, owner;
    hg_return_t ret = HG_RETURN_MAX;
    hg_size_t size = 64;
    hg_bulk_t forged, local;
    hg_addr_t addr = HG_ADDR_NULL;
    hg_handle_t handle;
    unsigned turns = 0;
    hg_id_t id;

    names_open(&end, "zmq+tcp://127.0.0.1");
    id = MERCURY_REGISTER(end.hg_class, "names", void, void, NULL);
    names_open(&owner, "zmq+tcp://127.0.0.1");
    forged = names_forge(&owner, &end, size);
    HG_CHECK(HG_Bulk_get_addr(forged) == HG_ADDR_NULL);
    HG_CHECK_OK(HG_Bulk_create(
        end.hg_class, 1, NULL, &size, HG_BULK_READWRITE, &local));
    HG_CHECK_OK(HG_Bulk_bind_transfer(end.context, names_moved, &ret,
        HG_BULK_PULL, forged, 0, local, 0, size, HG_OP_ID_IGNORE));
    while (ret == HG_RETURN_MAX) {
        HG_CHECK(turns++ < HG_TEST_WAIT_MS);
        (void) HG_Progress(end.context, 1);
        (void) HG_Trigger(end.context, 0, 1, NULL);
    }
    HG_CHECK_RET(ret, HG_NODEV);
    HG_CHECK_EQ_INT(names_asked, 0);

    /* The application may name hosts, which the first use resolves. */
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, "zmq+tcp://some.host:7", &addr));
    HG_CHECK_EQ_INT(names_asked, 0);
    hg_test_expect_log("some.host:7 cannot be reached: ");
    ret = HG_RETURN_MAX;
    HG_CHECK_OK(HG_Create(end.context, addr, id, &handle));
    HG_CHECK_OK(HG_Forward(handle, names_moved, &ret, NULL));
    for (turns = 0; ret == HG_RETURN_MAX; turns++) {
        HG_CHECK(turns < HG_TEST_WAIT_MS);
        (void) HG_Progress(end.context, 1);
        (void) HG_Trigger(end.context, 0, 1, NULL);
    }
    HG_CHECK_RET(ret, HG_HOSTUNREACH);
    HG_CHECK_EQ_INT(names_asked, 1);
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, addr));
    HG_CHECK_OK(HG_Bulk_free(local));
    HG_CHECK_OK(HG_Bulk_free(forged));
    names_close(&end);
    names_close(&owner);
}

static hg_return_t names_answer(hg_handle_t handle)
{
    HG_CHECK_OK(HG_Respond(handle, NULL, NULL, NULL));
    return HG_Destroy(handle);
}

/* A class connects to itself if it does not recognize the name as its own. */
HG_TEST(class_is_called_by_another_of_its_names)
{
    hg_return_t ret = HG_RETURN_MAX;
    char name[NA_MAX_ADDR_LEN], other[NA_MAX_ADDR_LEN + 32];
    hg_size_t size = sizeof(name);
    hg_addr_t self, addr;
    hg_handle_t handle;
    struct names_end end;
    unsigned turns = 0;
    hg_id_t id;

    names_open(&end, "zmq+tcp://0.0.0.0");
    id = MERCURY_REGISTER(end.hg_class, "names", void, void, names_answer);
    HG_CHECK_OK(HG_Addr_self(end.hg_class, &self));
    HG_CHECK_OK(HG_Addr_to_string(end.hg_class, name, &size, self));
    (void) snprintf(
        other, sizeof(other), "zmq+tcp://127.0.0.2%s", strrchr(name, ':'));
    HG_CHECK_OK(HG_Addr_lookup2(end.hg_class, other, &addr));
    HG_CHECK(addr != self);
    HG_CHECK_OK(HG_Create(end.context, addr, id, &handle));
    HG_CHECK_OK(HG_Forward(handle, names_moved, &ret, NULL));
    while (ret == HG_RETURN_MAX) {
        HG_CHECK(turns++ < HG_TEST_WAIT_MS);
        (void) HG_Progress(end.context, 1);
        (void) HG_Trigger(end.context, 0, 1, NULL);
    }
    HG_CHECK_OK(ret);
    HG_CHECK(HG_Addr_cmp(end.hg_class, addr, self));
    HG_CHECK_OK(HG_Destroy(handle));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, addr));
    HG_CHECK_OK(HG_Addr_free(end.hg_class, self));
    names_close(&end);
}
