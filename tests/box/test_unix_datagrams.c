/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The example of a transport, examples/hg_na_unix.c: malformed datagrams,
 * receivers that do not read, peers that have ended, and paths that are in use.
 * The conformance suites test the rest.
 */
#include "endpoints.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

extern const struct na_plugin hg_na_unix_plugin;

__attribute__((constructor)) static void unix_register(void)
{
    if (NA_Register_plugin(&hg_na_unix_plugin) != NA_SUCCESS)
        abort();
}

/* A path in the directory of this case. */
static struct sockaddr_un unix_path(const char *file)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    int n = snprintf(
        place.sun_path, sizeof(place.sun_path), "%s/%s", hg_test_dir(), file);

    HG_CHECK(n > 0 && (size_t) n < sizeof(place.sun_path));
    return place;
}

static void unix_open_at(struct conform_end *end, const char *file)
{
    struct sockaddr_un place = unix_path(file);
    char string[NA_MAX_ADDR_LEN];

    (void) snprintf(string, sizeof(string), "unix://%s", place.sun_path);
    endpoint_open(end, string, 1000);
}

static na_addr_t unix_lookup_at(struct conform_end *end, const char *file)
{
    struct sockaddr_un place = unix_path(file);
    char string[NA_MAX_ADDR_LEN];
    na_addr_t addr = NA_ADDR_NULL;

    (void) snprintf(string, sizeof(string), "unix://%s", place.sun_path);
    HG_CHECK_OK(endpoint_lookup(end, string, &addr));
    return addr;
}

/* A socket that is not the library's, bound to a path; "": to none. */
static int unix_socket(const char *file)
{
    struct sockaddr_un place = unix_path(file);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    HG_CHECK(fd >= 0);
    if (file[0] != '\0')
        HG_CHECK(bind(fd, (struct sockaddr *) &place, sizeof(place)) == 0);
    return fd;
}

/* ---- Malformed datagrams ---- */

struct unix_bad {
    bool bound;
    size_t size;
    size_t at; /* where the byte `value` replaces that of a correct message */
    unsigned char value;
};

HG_TEST(malformed_datagrams_are_counted_and_logged)
{
    static const struct unix_bad bad[] = {
        {true, 0, 0, 0x68},     /* nothing */
        {true, 11, 0, 0x68},    /* a part of the header */
        {true, 16, 0, 0x69},    /* another magic number */
        {true, 16, 4, 4},       /* no such plane */
        {true, 16, 7, 1},       /* a header of 256 bytes in a frame of 4 */
        {true, 16, 6, 5},       /* a header of 5 bytes */
        {true, 70000, 0, 0x68}, /* larger than any message */
        {false, 16, 0, 0x68},   /* from nobody */
    };
    static unsigned char bytes[70000];
    struct sockaddr_un place = unix_path("server");
    struct conform_end server;
    struct conform_call recv;
    char got[8];
    int fds[2] = {unix_socket(""), unix_socket("raw")};
    unsigned i;

    hg_test_expect_log("malformed datagram");
    hg_test_expect_log("not unix:// and an absolute path of");
    unix_open_at(&server, "server");
    HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
    for (i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
        const struct unix_bad *now = &bad[i % (sizeof(bad) / sizeof(bad[0]))];
        bool last = i == sizeof(bad) / sizeof(bad[0]);
        size_t size = last ? 16 : now->size;

        HG_CHECK_EQ_INT(recv.ends, 0);
        HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "unix_malformed"), i);
        memset(bytes, 0, sizeof(bytes));
        memcpy(bytes, &(uint32_t){0x31756768u}, 4);
        if (!last)
            bytes[now->at] = now->value;
        HG_CHECK(
            sendto(fds[last || now->bound], bytes, size, 0,
                (struct sockaddr *) &place, sizeof(place)) == (ssize_t) size);
        (void) conform_turn(server.na_class, server.context, 0);
    }
    /* The last one is correct. */
    HG_CHECK_OK(conform_wait(&server, &recv));
    HG_CHECK_EQ_U64(recv.size, 4);
    conform_free_addr(&server, &recv);
    (void) close(fds[0]);
    (void) close(fds[1]);
    conform_close(&server);
}

HG_TEST(random_datagrams_are_harmless)
{
    struct sockaddr_un place = unix_path("server");
    struct conform_end server;
    uint64_t random = hg_test_seed();
    int fd = unix_socket("raw");
    unsigned i, k;

    hg_test_allow_log("");
    unix_open_at(&server, "server");
    for (i = 0; i < 2000; i++) {
        unsigned char bytes[200];
        size_t size = (size_t) (hg_test_random(&random) % sizeof(bytes));

        for (k = 0; k < sizeof(bytes); k++)
            bytes[k] = (unsigned char) hg_test_random(&random);
        memcpy(bytes, &(uint32_t){0x31756768u}, 4);
        bytes[4] &= 3;
        bytes[7] = 0;
        HG_CHECK(sendto(fd, bytes, size, 0, (struct sockaddr *) &place,
                     sizeof(place)) == (ssize_t) size);
        (void) conform_turn(server.na_class, server.context, 0);
    }
    (void) close(fd);
    conform_close(&server);
}

/* ---- Receivers ---- */

#define UNIX_MANY 2000u

HG_TEST(messages_wait_for_a_receiver_that_does_not_read)
{
    static struct conform_call sends[UNIX_MANY];
    struct conform_end server, client;
    struct conform_call recv;
    na_addr_t addr;
    uint32_t numbers[UNIX_MANY], got;
    unsigned waiting = 0, i;

    unix_open_at(&server, "server");
    endpoint_open(&client, "unix://", 1000);
    addr = unix_lookup_at(&client, "server");
    for (i = 0; i < UNIX_MANY; i++) {
        numbers[i] = i;
        HG_CHECK_OK(NA_Msg_send_unexpected(client.na_class, client.context,
            conform_ended, &sends[i], &numbers[i], 4, addr, 1, &sends[i].id));
    }
    for (i = 0; i < 100; i++)
        (void) conform_turn(client.na_class, client.context, 0);
    for (i = 0; i < UNIX_MANY; i++)
        waiting += sends[i].ends == 0;
    HG_CHECK(waiting > 1); /* the kernel queues fewer */
    HG_CHECK_OK(
        NA_Cancel(client.na_class, client.context, sends[UNIX_MANY - 1].id));
    for (i = 0; i < UNIX_MANY - 1; i++) {
        HG_CHECK_OK(conform_recv(&server, &recv, false, &got, 4, 0));
        HG_CHECK_OK(endpoint_wait_both(&server, &client, &recv));
        HG_CHECK_EQ_U64(got, i);
        conform_free_addr(&server, &recv);
    }
    for (i = 0; i < UNIX_MANY; i++)
        HG_CHECK_RET(conform_wait(&client, &sends[i]),
            i < UNIX_MANY - 1 ? NA_SUCCESS : NA_CANCELED);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

static uint32_t unix_executed;

static hg_return_t unix_execute(hg_handle_t handle)
{
    uint32_t number;

    HG_CHECK_OK(HG_Get_input(handle, &number));
    HG_CHECK_EQ_INT(number, unix_executed);
    unix_executed++;
    HG_CHECK_OK(HG_Free_input(handle, &number));
    return HG_Destroy(handle);
}

static hg_return_t unix_called(const struct hg_cb_info *info)
{
    HG_CHECK_OK(info->ret);
    return HG_Destroy(info->info.forward.handle);
}

static void unix_turn(hg_context_t *context)
{
    unsigned count = 1;

    (void) HG_Progress(context, 0);
    while (count > 0)
        if (HG_Trigger(context, 0, 100, &count) != HG_SUCCESS)
            break;
}

/* A call that could be sent at once waits behind those that wait. */
HG_TEST(calls_stay_in_order_while_a_receiver_does_not_read)
{
    struct sockaddr_un place = unix_path("server");
    hg_class_t *classes[2];
    hg_context_t *contexts[2];
    char string[NA_MAX_ADDR_LEN];
    hg_addr_t addr;
    hg_id_t id = 0;
    uint32_t number;
    unsigned i;

    (void) snprintf(string, sizeof(string), "unix://%s", place.sun_path);
    for (i = 0; i < 2; i++) {
        classes[i] = HG_Init2(i == 0 ? string : "unix://", i == 0);
        HG_CHECK(classes[i] != NULL);
        contexts[i] = HG_Context_create(classes[i]);
        HG_CHECK(contexts[i] != NULL);
        id = HG_Register_name(
            classes[i], "ordered", hg_proc_uint32_t, NULL, unix_execute);
        HG_CHECK_OK(HG_Registered_disable_response(classes[i], id, HG_TRUE));
    }
    HG_CHECK_OK(HG_Addr_lookup2(classes[1], string, &addr));
    for (number = 0; number <= UNIX_MANY; number++) {
        hg_handle_t handle;

        if (number == UNIX_MANY) /* now the receiver has space again */
            unix_turn(contexts[0]);
        HG_CHECK_OK(HG_Create(contexts[1], addr, id, &handle));
        HG_CHECK_OK(HG_Forward2(handle, unix_called, NULL, &number));
    }
    HG_CHECK(unix_executed > 0 && unix_executed < UNIX_MANY);
    while (unix_executed <= UNIX_MANY) {
        unix_turn(contexts[0]);
        unix_turn(contexts[1]);
    }
    unix_turn(contexts[1]);
    HG_CHECK_OK(HG_Addr_free(classes[1], addr));
    for (i = 0; i < 2; i++) {
        HG_CHECK_OK(HG_Context_destroy(contexts[i]));
        HG_CHECK_OK(HG_Finalize2(classes[i]));
    }
}

HG_TEST(sends_fail_while_a_peer_is_absent)
{
    struct conform_end server, client;
    struct conform_call recv;
    na_addr_t addr;
    char got[8];

    hg_test_expect_log("cannot send to unix://");
    endpoint_open(&client, "unix://", 1000);
    addr = unix_lookup_at(&client, "server");
    HG_CHECK_RET(
        endpoint_send(&client, addr, false, "x", 1, 1), NA_HOSTUNREACH);
    unix_open_at(&server, "server");
    HG_CHECK_OK(endpoint_send(&client, addr, false, "y", 1, 1));
    HG_CHECK_OK(conform_recv(&server, &recv, false, got, sizeof(got), 0));
    HG_CHECK_OK(conform_wait(&server, &recv));
    HG_CHECK_EQ_INT(got[0], 'y');
    conform_free_addr(&server, &recv);
    conform_close(&server);
    HG_CHECK_RET(
        endpoint_send(&client, addr, false, "z", 1, 1), NA_HOSTUNREACH);
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
}

/* ---- Paths ---- */

HG_TEST(path_in_use_is_refused_and_that_of_a_killed_process_is_not)
{
    struct sockaddr_un place = unix_path("server");
    struct conform_end server, client;
    char string[NA_MAX_ADDR_LEN];
    na_addr_t addr;
    int fd = unix_socket("server");

    hg_test_expect_log("Address already in use");
    hg_test_expect_log("not unix:// and an absolute path of");
    (void) snprintf(string, sizeof(string), "unix://%s", place.sun_path);
    HG_CHECK(NA_Initialize(string, NA_TRUE) == NULL);
    HG_CHECK(NA_Initialize("unix://server", NA_TRUE) == NULL);
    (void) close(fd); /* the file stays */
    unix_open_at(&server, "server");
    HG_CHECK(NA_Initialize(string, NA_TRUE) == NULL);
    endpoint_open(&client, "unix://", 1000);
    addr = unix_lookup_at(&client, "server");
    HG_CHECK_OK(endpoint_send(&client, addr, false, "x", 1, 1));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
    HG_CHECK(access(place.sun_path, F_OK) != 0);
}

HG_TEST(file_that_is_no_socket_stays)
{
    struct sockaddr_un place = unix_path("server");
    char string[NA_MAX_ADDR_LEN];
    FILE *file = fopen(place.sun_path, "w");

    HG_CHECK(file != NULL && fclose(file) == 0);
    hg_test_expect_log("Address already in use");
    (void) snprintf(string, sizeof(string), "unix://%s", place.sun_path);
    HG_CHECK(NA_Initialize(string, NA_TRUE) == NULL);
    HG_CHECK(access(place.sun_path, F_OK) == 0);
}

HG_TEST(socket_admits_only_its_owner)
{
    struct sockaddr_un place = unix_path("server");
    struct conform_end server;
    struct stat status;

    (void) umask(0);
    unix_open_at(&server, "server");
    HG_CHECK(stat(place.sun_path, &status) == 0);
    HG_CHECK_EQ_INT(status.st_mode & 07777, S_IRUSR | S_IWUSR);
    conform_close(&server);
}
