/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option auth_key of the libfabric transport: it is passed to the provider,
 * and classes with another key, or with none, cannot communicate. The hook acts
 * as a provider that has authorization keys of 16 bytes.
 */
#include "../box/endpoints.h"
#include "hook.h"

#include <stdio.h>

#define KEYS_OURS "sixteen bytes .."

enum { KEYS_LOOKUP_MS = 300 };

static void keys_open(struct conform_end *end, const char *key)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    info.auth_key = key;
    info.lookup_ms = KEYS_LOOKUP_MS;
    endpoint_open_info(end, "ofi+tcp://127.0.0.1:0", NA_TRUE, &info);
}

/* Whether a client with that key finds a server with the key KEYS_OURS, and the
 * server receives exactly what the client sends. */
static void keys_check(const char *key, bool same)
{
    struct conform_end server, client;
    struct conform_call recv;
    char name[NA_MAX_ADDR_LEN], got[8];
    na_addr_t addr = NA_ADDR_NULL;

    keys_open(&server, KEYS_OURS);
    keys_open(&client, key);
    endpoint_name(&server, server.self, name);
    HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
    HG_CHECK_RET(endpoint_lookup(&client, name, &addr),
        same ? NA_SUCCESS : NA_HOSTUNREACH);
    HG_CHECK((hg_test_ofi_count("deaf") > 0) == !same);
    if (same) {
        HG_CHECK_OK(endpoint_send(&client, addr, false, "x", 1, 1));
        HG_CHECK_OK(conform_wait(&server, &recv));
        HG_CHECK_EQ_U64(recv.size, 1);
        conform_free_addr(&server, &recv);
        HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    } else {
        (void) conform_turn(server.na_class, server.context, 10);
        HG_CHECK_EQ_INT(recv.ends, 0);
    }
    conform_close(&client);
    conform_close(&server);
}

HG_TEST(classes_with_different_keys_cannot_communicate)
{
    static const struct {
        const char *key;
        bool same;
    } clients[] = {{KEYS_OURS, true}, {"of another kind.", false},
        {NULL, false}, {"sixteen bytes ,.", false}};
    size_t i;

    hg_test_expect_log("cannot be reached: ");
    for (i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
        hg_test_ofi_configure("provkey,endpoint,allocated,inject=192,iov=1,"
                              "mriov=1,manual,order,authkey");
        keys_check(clients[i].key, clients[i].same);
    }
    HG_CHECK_EQ_U64(hg_test_log_count("cannot be reached: "), 3);
}

/* The provider requires other keys: no class is opened, in particular not
 * without a key. */
HG_TEST(key_refused_by_the_provider_fails)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    char longest[66];

    hg_test_ofi_configure("authkey");
    hg_test_expect_log("ofi+tcp: the provider net does not support auth_key");
    hg_test_expect_log("auth_key: not of the form that the provider net wants");
    info.auth_key = "fifteen bytes .";
    HG_CHECK(
        NA_Initialize_opt("ofi+tcp://127.0.0.1:0", NA_TRUE, &info) == NULL);
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    info.auth_key = longest;
    HG_CHECK(
        NA_Initialize_opt("ofi+tcp://127.0.0.1:0", NA_TRUE, &info) == NULL);
}
