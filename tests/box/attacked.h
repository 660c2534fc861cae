/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attacked: a class under attack, and a good client that the class must serve
 * meanwhile. Both run in the thread of the test.
 */
#ifndef HG_TESTS_ATTACKED_H
#define HG_TESTS_ATTACKED_H

#include "endpoints.h"

struct attacked {
    struct conform_end end;
    struct conform_end good;
    na_addr_t addr; /* address of the class, for the good client */
    char name[NA_MAX_ADDR_LEN];
};

static inline void attacked_turn(void *arg)
{
    struct attacked *server = (struct attacked *) arg;

    (void) conform_turn(server->end.na_class, server->end.context, 1);
}

/* Open the class, and a good client that looks it up. */
static inline void attacked_open_info(struct attacked *server,
    const char *string, const struct na_init_info *info)
{
    endpoint_open_info(&server->end, string, NA_TRUE, info);
    endpoint_name(&server->end, server->end.self, server->name);
    endpoint_open_client(&server->good, &server->end, NULL);
    server->addr =
        endpoint_lookup_both(&server->good, &server->end, server->name);
}

static inline void attacked_open(struct attacked *server, const char *string)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    info.death_ms = 2000;
    attacked_open_info(server, string, &info);
}

static inline void attacked_close(struct attacked *server)
{
    HG_CHECK_OK(NA_Addr_free(server->good.na_class, server->addr));
    conform_close(&server->good);
    conform_close(&server->end);
}

/* The good client's message arrives; all other messages are dropped. */
static inline void attacked_serve(struct attacked *server)
{
    static const char want[] = "may I have a word";
    struct conform_call recv, send;
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    char got[70000];
    bool came = false;

    memset(&send, 0, sizeof(send));
    HG_CHECK_OK(NA_Msg_send_unexpected(server->good.na_class,
        server->good.context, conform_ended, &send, want, sizeof(want),
        server->addr, 99, &send.id));
    while (!came) {
        HG_CHECK_OK(
            conform_recv(&server->end, &recv, false, got, sizeof(got), 0));
        while (recv.ends == 0) {
            HG_CHECK(endpoint_ms() < end);
            attacked_turn(server);
        }
        HG_CHECK_OK(recv.ret);
        came = recv.tag == 99 && recv.size == sizeof(want) &&
            memcmp(got, want, sizeof(want)) == 0;
        conform_free_addr(&server->end, &recv);
    }
    while (send.ends == 0)
        (void) conform_turn(server->good.na_class, server->good.context, 1);
    HG_CHECK_OK(send.ret);
}

#endif
