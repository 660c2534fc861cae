/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoints: what the box tests of one transport share on top of the endpoint
 * of the conformance suite: classes opened by string, lookups, and requests to
 * an echoing process.
 */
#ifndef HG_TESTS_ENDPOINTS_H
#define HG_TESTS_ENDPOINTS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#define HG_NA_PLUGIN_API 1
#include "conform/conform.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ENDPOINT_CHANNEL 3 /* a role's end of the channel; see harness.c */

static inline uint64_t endpoint_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* Sleep without progress: to the library the process is busy. */
static inline void endpoint_sleep(unsigned ms)
{
    struct timespec left = {(time_t) (ms / 1000), (long) (ms % 1000) * 1000000};

    while (nanosleep(&left, &left) != 0)
        continue;
}

static inline void endpoint_open_info(struct conform_end *end,
    const char *string, na_bool_t listen, const struct na_init_info *info)
{
    end->na_class = NA_Initialize_opt(string, listen, info);
    HG_CHECK(end->na_class != NULL);
    end->context = NA_Context_create(end->na_class);
    HG_CHECK(end->context != NULL);
    HG_CHECK_OK(NA_Addr_self(end->na_class, &end->self));
}

/* Open a class; it listens unless `string` is a scheme alone. */
static inline void endpoint_open_with(struct conform_end *end,
    const char *string, unsigned death_ms, unsigned lookup_ms)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    const char *rest = strstr(string, "://");

    info.death_ms = death_ms;
    info.lookup_ms = lookup_ms;
    endpoint_open_info(end, string,
        rest != NULL && rest[3] != '\0' ? NA_TRUE : NA_FALSE, &info);
}

/* A lookup may take long on a busy machine. */
static inline void endpoint_open(
    struct conform_end *end, const char *string, unsigned death_ms)
{
    endpoint_open_with(end, string, death_ms, 10000);
}

/* Open a class that does not listen, with the server's protocol. */
static inline void endpoint_open_client(struct conform_end *client,
    const struct conform_end *server, const struct na_init_info *info)
{
    char name[NA_MAX_ADDR_LEN];
    na_size_t size = sizeof(name);

    HG_CHECK_OK(NA_Addr_to_string(server->na_class, name, size, server->self));
    *(strstr(name, "://") + 3) = '\0';
    endpoint_open_info(client, name, NA_FALSE, info);
}

/* Make progress on two endpoints of one process until `call` has ended. */
static inline na_return_t endpoint_wait_both(
    struct conform_end *one, struct conform_end *two, struct conform_call *call)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;

    while (call->ends == 0) {
        HG_CHECK(endpoint_ms() < end);
        (void) conform_turn(one->na_class, one->context, 0);
        (void) conform_turn(two->na_class, two->context, 0);
    }
    return call->ret;
}

/* Look up `name`, which is in the same process. */
static inline na_addr_t endpoint_lookup_both(
    struct conform_end *from, struct conform_end *to, const char *name)
{
    struct conform_call call;

    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_lookup(
        from->na_class, from->context, conform_ended, &call, name, &call.id));
    HG_CHECK_OK(endpoint_wait_both(from, to, &call));
    return call.addr;
}

static inline na_return_t endpoint_lookup(
    struct conform_end *end, const char *name, na_addr_t *addr_p)
{
    struct conform_call call;
    na_return_t ret;

    memset(&call, 0, sizeof(call));
    ret = NA_Addr_lookup(
        end->na_class, end->context, conform_ended, &call, name, &call.id);
    if (ret == NA_SUCCESS)
        ret = conform_wait(end, &call);
    if (ret == NA_SUCCESS)
        *addr_p = call.addr;
    return ret;
}

static inline na_return_t endpoint_send(struct conform_end *end, na_addr_t to,
    bool expected, const void *buf, na_size_t size, na_tag_t tag)
{
    struct conform_call call;
    na_return_t ret;

    memset(&call, 0, sizeof(call));
    ret = (expected ? NA_Msg_send_expected : NA_Msg_send_unexpected)(
        end->na_class, end->context, conform_ended, &call, buf, size, to, tag,
        &call.id);
    return ret == NA_SUCCESS ? conform_wait(end, &call) : ret;
}

static inline na_return_t endpoint_post(struct conform_end *end,
    struct conform_call *call, void *buf, na_size_t size, na_addr_t from,
    na_tag_t tag)
{
    memset(call, 0, sizeof(*call));
    return NA_Msg_recv_expected(end->na_class, end->context, conform_ended,
        call, buf, size, from, tag, &call->id);
}

/* Ask the echoing role; returns the code of the first step that failed. */
static inline na_return_t endpoint_ask(struct conform_end *end, na_addr_t to,
    na_tag_t tag, void *got, na_size_t space, na_size_t *size_p)
{
    struct conform_call recv;
    na_return_t ret = endpoint_post(end, &recv, got, space, to, tag);

    if (ret == NA_SUCCESS)
        ret = endpoint_send(end, to, false, "?", 2, tag);
    if (ret == NA_SUCCESS)
        ret = conform_wait(end, &recv);
    if (ret == NA_SUCCESS && size_p != NULL)
        *size_p = recv.size;
    return ret;
}

static inline void endpoint_name(
    const struct conform_end *end, na_addr_t addr, char name[NA_MAX_ADDR_LEN])
{
    HG_CHECK_OK(NA_Addr_to_string(
        (na_class_t *) end->na_class, name, NA_MAX_ADDR_LEN, addr));
}

/* Memory of `size` bytes that faults after endpoint_unmap. */
static inline unsigned char *endpoint_map(size_t size)
{
    void *memory = mmap(
        NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    HG_CHECK(memory != MAP_FAILED);
    return (unsigned char *) memory;
}

static inline void endpoint_unmap(unsigned char *memory, size_t size)
{
    HG_CHECK(munmap(memory, size) == 0);
}

static inline na_mem_handle_t endpoint_register(
    const struct conform_end *end, void *memory, size_t size)
{
    na_mem_handle_t handle;

    HG_CHECK_OK(NA_Mem_handle_create(
        end->na_class, memory, size, NA_MEM_READWRITE, &handle));
    HG_CHECK_OK(NA_Mem_register(end->na_class, handle));
    return handle;
}

/* ---- The echoing process ---- */

#define ENDPOINT_MEMORY ((size_t) 16 << 20)

/*
 * Open `string`, report the address, and answer unexpected messages until the
 * channel closes. Tag 1: send the message back. Tag 2: send a handle of
 * ENDPOINT_MEMORY bytes. Tag 3: send a handle whose memory is withdrawn and
 * unmapped at once. A line "sleep N" from the parent means N ms without
 * progress.
 */
static inline void endpoint_serve(const char *string, unsigned death_ms)
{
    struct pollfd channel = {ENDPOINT_CHANNEL, POLLIN, 0};
    struct conform_end end;
    struct conform_call recv;
    unsigned char *memory = endpoint_map(ENDPOINT_MEMORY);
    na_mem_handle_t mem;
    char name[NA_MAX_ADDR_LEN], got[256];
    unsigned char bytes[256];

    hg_test_allow_log("");
    endpoint_open(&end, string, death_ms);
    conform_fill(memory, ENDPOINT_MEMORY, 7);
    mem = endpoint_register(&end, memory, ENDPOINT_MEMORY);
    endpoint_name(&end, end.self, name);
    HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    hg_test_write_parent(name);
    for (;;) {
        char *line;

        if (poll(&channel, 1, 0) > 0) {
            line = hg_test_read_parent();
            if (line == NULL)
                break;
            if (strncmp(line, "sleep ", 6) == 0) {
                hg_test_write_parent("asleep");
                endpoint_sleep((unsigned) strtoul(line + 6, NULL, 10));
            }
            free(line);
        }
        (void) conform_turn(end.na_class, end.context, 10);
        if (recv.ends == 0)
            continue;
        HG_CHECK_OK(recv.ret);
        if (recv.tag == 2) {
            na_size_t size =
                NA_Mem_handle_get_serialize_size(end.na_class, mem);

            HG_CHECK(size <= sizeof(bytes));
            HG_CHECK_OK(NA_Mem_handle_serialize(
                end.na_class, bytes, sizeof(bytes), mem));
            (void) endpoint_send(&end, recv.addr, true, bytes, size, 2);
        } else
            (void) endpoint_send(
                &end, recv.addr, true, got, recv.size, recv.tag);
        conform_free_addr(&end, &recv);
        HG_CHECK_OK(conform_recv(&end, &recv, false, got, sizeof(got), 0));
    }
    HG_CHECK_OK(NA_Mem_handle_free(end.na_class, mem));
    endpoint_unmap(memory, ENDPOINT_MEMORY);
    conform_close(&end);
}

/* Ask the echoing process for its memory. */
static inline na_mem_handle_t endpoint_remote(
    struct conform_end *end, na_addr_t to)
{
    unsigned char bytes[256];
    na_mem_handle_t remote;
    na_size_t size = 0;

    HG_CHECK_OK(endpoint_ask(end, to, 2, bytes, sizeof(bytes), &size));
    HG_CHECK_OK(NA_Mem_handle_deserialize(end->na_class, &remote, bytes, size));
    return remote;
}

#endif
