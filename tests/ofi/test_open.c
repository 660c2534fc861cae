/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening a class and its contexts when libfabric fails: each call of each kind
 * in turn. Objects opened before the failure are closed, which hook.h checks
 * when the process exits, and one error line gives the cause. Further cases:
 * which endpoints are opened, and the codes of errors.
 */
#include "../box/endpoints.h"
#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <rdma/fi_errno.h>

/* An error that no call returns by itself. */
#define OPEN_ERROR "33" /* EDOM */
#define OPEN_CAUSE "Numerical argument out of domain"

/* Open a class with two contexts, and memory, and close all of it. NA_IO_ERROR:
 * an open failed. */
static na_return_t open_play(void)
{
    static char memory[4096];
    na_context_t *contexts[2] = {NULL, NULL};
    na_mem_handle_t mem = NULL;
    na_return_t ret = NA_SUCCESS;
    struct na_init_info info;
    na_class_t *na_class;
    unsigned i;

    conform_info(&info);
    na_class = NA_Initialize_opt("ofi+tcp://127.0.0.1:0", NA_TRUE, &info);
    if (na_class == NULL)
        return NA_IO_ERROR;
    for (i = 0; i < 2 && ret == NA_SUCCESS; i++) {
        contexts[i] = NA_Context_create(na_class);
        if (contexts[i] == NULL)
            ret = NA_IO_ERROR;
    }
    if (ret == NA_SUCCESS)
        ret = NA_Mem_handle_create(
            na_class, memory, sizeof(memory), NA_MEM_READWRITE, &mem);
    if (ret == NA_SUCCESS) {
        ret = NA_Mem_register(na_class, mem);
        if (ret == NA_SUCCESS)
            HG_CHECK_OK(NA_Mem_deregister(na_class, mem));
        HG_CHECK_OK(NA_Mem_handle_free(na_class, mem));
    }
    for (i = 0; i < 2; i++)
        if (contexts[i] != NULL)
            HG_CHECK_OK(NA_Context_destroy(na_class, contexts[i]));
    HG_CHECK_OK(NA_Finalize(na_class));
    return ret;
}

/* Call `n` of a kind fails; returns false if there were fewer. */
static bool open_fail_at(const char *kind, const char *words, unsigned n)
{
    unsigned lines = hg_test_log_count(OPEN_CAUSE);
    char all[128];
    na_return_t ret;

    (void) snprintf(
        all, sizeof(all), "fault=%s:%u:" OPEN_ERROR "%s", kind, n, words);
    hg_test_ofi_configure(all);
    ret = open_play();
    if (hg_test_ofi_count("fault") == 0) {
        HG_CHECK_OK(ret);
        return false;
    }
    HG_CHECK_RET(ret, NA_IO_ERROR);
    HG_CHECK_EQ_INT(hg_test_log_count(OPEN_CAUSE), lines + 1);
    return true;
}

/* Each call of a kind fails in turn; there are `count` of them. */
static void open_fail(const char *kind, const char *words, unsigned count)
{
    unsigned fds = hg_test_fd_count();
    unsigned n = 1;

    while (open_fail_at(kind, words, n))
        n++;
    HG_CHECK_EQ_INT(n - 1, count);
    HG_CHECK_EQ_INT(hg_test_fd_count(), fds);
    HG_CHECK_EQ_INT(hg_test_alloc_live(), 0);
}

static void open_begin(void)
{
    HG_CHECK_OK(HG_Set_log_level("debug")); /* every line */
    hg_test_alloc_install();
    hg_test_ofi_configure("plain");
    HG_CHECK_OK(open_play()); /* objects that libfabric opens once */
    hg_test_expect_log(OPEN_CAUSE);
}

HG_TEST(open_fails_without_fabric_domain_or_address_vector)
{
    open_begin();
    open_fail("fabric", "", 1);
    open_fail("domain", "", 1);
    open_fail("av", "", 1);
}

HG_TEST(open_fails_without_a_completion_queue)
{
    open_begin();
    HG_CHECK(open_fail_at("cq", ",nowait", 2));
    HG_CHECK(open_fail_at("cq", ",nowait", 4)); /* of the second context */
}

HG_TEST(open_fails_without_an_endpoint)
{
    open_begin();
    open_fail("ep", "", 2);
    open_fail("bind", "", 4);
    open_fail("enable", "", 2);
    open_fail("setopt", "", 2);
    open_fail("getname", "", 2);
    hg_test_expect_log("cannot open ofi+tcp://"); /* after a warning */
    open_fail("insert", "", 1);
}

HG_TEST(open_fails_without_a_registered_and_posted_buffer)
{
    open_begin();
    open_fail("mr", ",local", 9);
    open_fail("recv", "", 8);
}

HG_TEST(registration_failure_is_reported)
{
    open_begin();
    open_fail("mr", "", 1);
    open_fail("mr", ",rawkey,virt", 1);
}

/* ---- What is opened and reported ---- */

/* The thread's context is the first, the application's the second: a lookup,
 * which also has a context, opens no third endpoint. */
HG_TEST(contexts_of_the_library_share_the_first_endpoint)
{
    struct na_init_info info;
    struct conform_end end;
    na_addr_t addr;
    char name[NA_MAX_ADDR_LEN];
    na_size_t size = sizeof(name);

    hg_test_ofi_configure("fault=ep:3");
    conform_info(&info);
    info.progress_thread = NA_TRUE;
    end.na_class = NA_Initialize_opt("ofi+tcp://127.0.0.1:0", NA_TRUE, &info);
    HG_CHECK(end.na_class != NULL);
    end.context = NA_Context_create(end.na_class);
    HG_CHECK(end.context != NULL);
    HG_CHECK_OK(NA_Addr_self(end.na_class, &end.self));
    HG_CHECK_OK(NA_Addr_to_string(end.na_class, name, size, end.self));
    HG_CHECK_OK(NA_Addr_lookup_wait(end.na_class, name, 1000, &addr));
    HG_CHECK_OK(NA_Addr_free(end.na_class, addr));
    HG_CHECK_EQ_U64(hg_test_ofi_count("fault"), 0);
    hg_test_expect_log("cannot open an endpoint on");
    HG_CHECK(NA_Context_create(end.na_class) == NULL); /* the third */
    HG_CHECK_EQ_U64(hg_test_ofi_count("fault"), 1);
    conform_close(&end);
}

/* Check that the descriptors in an epoll descriptor are close-on-exec; returns
 * their number. */
static unsigned open_watched(int epoll)
{
    char path[64], line[256];
    unsigned count = 0;
    FILE *file;
    int fd;

    (void) snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
    file = fopen(path, "r");
    HG_CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "tfd: %d", &fd) != 1)
            continue;
        count++;
        HG_CHECK_EQ_INT(fcntl(fd, F_GETFD), FD_CLOEXEC);
    }
    HG_CHECK_EQ_INT(fclose(file), 0);
    return count;
}

/* Other descriptors of libfabric are inherited: see faults.h. */
HG_TEST(descriptor_of_a_queue_is_not_inherited)
{
    static const char *const strings[] = {"ofi+tcp://127.0.0.1:0",
        "ofi+tcp;ofi_rxm://127.0.0.1:0", "ofi+sockets://127.0.0.1:0"};
    size_t i;

    for (i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        na_class_t *na_class = NA_Initialize(strings[i], NA_TRUE);
        na_context_t *context;
        int fd;

        HG_CHECK(na_class != NULL);
        context = NA_Context_create(na_class);
        HG_CHECK(context != NULL);
        fd = NA_Poll_get_fd(na_class, context);
        HG_CHECK(fd >= 0);
        HG_CHECK_EQ_INT(fcntl(fd, F_GETFD), FD_CLOEXEC);
        HG_CHECK_EQ_INT(open_watched(fd), 3); /* waker, timer, queue */
        HG_CHECK_OK(NA_Context_destroy(na_class, context));
        HG_CHECK_OK(NA_Finalize(na_class));
    }
}

/* A provider does not report that it cannot accept connections. The warning is
 * logged each time that happens. */
HG_TEST(missing_descriptor_logs_a_warning)
{
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    struct rlimit limit = {200, 200};
    struct conform_end server;
    int fds[200];
    int count = 0;
    unsigned i;

    hg_test_expect_log("cannot accept peers");
    endpoint_open(&server, "ofi+tcp://127.0.0.1:0", 2000);
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (i = 0; i < 2; i++) {
        endpoint_sleep(300);
        HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "ofi_full"), i);
        while ((fds[count] = dup(1)) >= 0)
            count++;
        while (NA_Get_counter(server.na_class, "ofi_full") == i) {
            HG_CHECK(endpoint_ms() < end);
            endpoint_sleep(1);
        }
        endpoint_sleep(300);
        HG_CHECK_EQ_U64(NA_Get_counter(server.na_class, "ofi_full"), i + 1);
        while (count > 0)
            (void) close(fds[--count]);
    }
    conform_close(&server);
}

/* libfabric would open what cannot sleep, or fail with other codes. */
HG_TEST(class_without_a_descriptor_reports_it)
{
    struct rlimit limit = {200, 200};
    unsigned k;

    hg_test_expect_log("no descriptors for a class, which needs 13");
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (k = 1; k <= 13; k++) {
        na_class_t *na_class;
        int fds[200];
        int count = 0;
        unsigned i;

        while ((fds[count] = dup(1)) >= 0)
            count++;
        for (i = 0; i < k; i++)
            (void) close(fds[--count]);
        na_class = NA_Initialize("ofi+tcp://127.0.0.1:0", NA_TRUE);
        HG_CHECK_EQ_INT(na_class != NULL, k == 13);
        while (count > 0)
            (void) close(fds[--count]);
        HG_CHECK_EQ_INT(
            hg_test_log_count("no descriptors for a class, which needs 13"),
            k < 13 ? k : 12);
        if (na_class != NULL)
            HG_CHECK_OK(NA_Finalize(na_class));
    }
}

/* A context that asked twice whether it may sleep sleeps once: later, while it
 * is busy, the clock thread answers a lookup for it. */
HG_TEST(context_that_cannot_sleep_is_polled)
{
    struct conform_end server, client;
    char name[NA_MAX_ADDR_LEN];
    na_addr_t addr;
    unsigned i;

    endpoint_open(&server, "ofi+tcp://127.0.0.1:0", 2000);
    HG_CHECK(NA_Poll_get_fd(server.na_class, server.context) >= 0);
    for (i = 0; i < 3; i++)
        (void) NA_Poll_try_wait(server.na_class, server.context);
    (void) conform_turn(server.na_class, server.context, 0);
    endpoint_name(&server, server.self, name);
    endpoint_open_client(&client, &server, NULL);
    HG_CHECK_OK(endpoint_lookup(&client, name, &addr));
    HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
    conform_close(&client);
    conform_close(&server);
}

/* Polling a queue with a descriptor takes longer. */
HG_TEST(spinning_class_has_no_descriptor)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;
    na_context_t *context;

    info.wait_mode = NA_WAIT_SPIN;
    na_class = NA_Initialize_opt("ofi+tcp://127.0.0.1:0", NA_TRUE, &info);
    HG_CHECK(na_class != NULL);
    context = NA_Context_create(na_class);
    HG_CHECK(context != NULL);
    HG_CHECK_EQ_INT(NA_Poll_get_fd(na_class, context), -1);
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* The provider's thread spins instead of ours. */
HG_TEST(sockets_provider_sleeps_unless_told_to_spin)
{
    static const uint8_t modes[] = {
        NA_WAIT_ADAPTIVE, NA_WAIT_SPIN, NA_WAIT_BLOCK};
    struct na_init_info info;
    unsigned i;

    for (i = 0; i < 3; i++) {
        na_class_t *na_class;

        conform_info(&info);
        info.wait_mode = modes[i];
        na_class = NA_Initialize_opt("ofi+sockets://", NA_FALSE, &info);
        HG_CHECK(na_class != NULL);
        HG_CHECK_EQ_INT(na_class->info->wait_mode,
            modes[i] == NA_WAIT_SPIN ? NA_WAIT_SPIN : NA_WAIT_BLOCK);
        HG_CHECK_OK(NA_Finalize(na_class));
    }
}

/* Without memory for a HELLO or a WELCOME it is sent a little later. Some of
 * the registrations that fail are those of the open, which then fails. */
HG_TEST(lookup_outlasts_a_lack_of_memory)
{
    unsigned n, met = 0;

    hg_test_allow_log("");
    for (n = 1; n < 40; n++) {
        struct conform_end server, client;
        char name[NA_MAX_ADDR_LEN], words[64];
        na_addr_t addr;

        (void) snprintf(words, sizeof(words), "local,fault=mr:%u:12", n);
        hg_test_ofi_configure(words);
        server.na_class = NA_Initialize("ofi+tcp://127.0.0.1:0", NA_TRUE);
        client.na_class = NA_Initialize("ofi+tcp://", NA_FALSE);
        if (server.na_class != NULL && client.na_class != NULL) {
            server.context = NA_Context_create(server.na_class);
            client.context = NA_Context_create(client.na_class);
            HG_CHECK_OK(NA_Addr_self(server.na_class, &server.self));
            HG_CHECK_OK(NA_Addr_self(client.na_class, &client.self));
            endpoint_name(&server, server.self, name);
            addr = endpoint_lookup_both(&client, &server, name);
            HG_CHECK_OK(NA_Addr_free(client.na_class, addr));
            met += hg_test_ofi_count("fault") > 0;
            if (hg_test_ofi_count("fault") == 0)
                n = 40;
            conform_close(&client);
            conform_close(&server);
        } else {
            if (server.na_class != NULL)
                HG_CHECK_OK(NA_Finalize(server.na_class));
            if (client.na_class != NULL)
                HG_CHECK_OK(NA_Finalize(client.na_class));
        }
    }
    HG_CHECK(met > 0);
}

HG_TEST(each_error_of_libfabric_has_its_code)
{
    static const struct {
        int error;
        na_return_t ret;
    } errors[] = {
        {FI_ENOMEM, NA_NOMEM},
        {FI_EAGAIN, NA_AGAIN},
        {FI_EMFILE, NA_AGAIN},
        {ENFILE, NA_AGAIN},
        {FI_EACCES, NA_ACCESS},
        {FI_EPERM, NA_ACCESS},
        {FI_EKEYREJECTED, NA_PERMISSION},
        {FI_EADDRINUSE, NA_ADDRINUSE},
        {FI_EADDRNOTAVAIL, NA_ADDRNOTAVAIL},
        {FI_ENODEV, NA_NODEV},
        {FI_EINVAL, NA_INVALID_ARG},
        {FI_EMSGSIZE, NA_MSGSIZE},
        {FI_ETRUNC, NA_MSGSIZE},
        {FI_ENOSYS, NA_OPNOTSUPPORT},
        {FI_EOPNOTSUPP, NA_OPNOTSUPPORT},
        {FI_ECONNREFUSED, NA_HOSTUNREACH},
        {FI_EHOSTUNREACH, NA_HOSTUNREACH},
        {FI_EHOSTDOWN, NA_HOSTUNREACH},
        {FI_ENETUNREACH, NA_HOSTUNREACH},
        {FI_ETIMEDOUT, NA_HOSTUNREACH},
        {FI_ECONNRESET, NA_DISCONNECT},
        {FI_ECONNABORTED, NA_DISCONNECT},
        {FI_ENOTCONN, NA_DISCONNECT},
        {FI_ESHUTDOWN, NA_DISCONNECT},
        {EPIPE, NA_DISCONNECT},
        {FI_ECANCELED, NA_CANCELED},
        {FI_EIO, NA_IO_ERROR},
        {FI_EOTHER, NA_IO_ERROR},
    };
    static char memory[4096];
    size_t i;

    hg_test_expect_log("fi_mr_regattr of memory: ");
    for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct conform_end end;
        na_mem_handle_t mem;
        char word[64];

        (void) snprintf(word, sizeof(word), "fault=mr:1:%d", errors[i].error);
        hg_test_ofi_configure(word);
        end.na_class = NA_Initialize("ofi+tcp://127.0.0.1:0", NA_TRUE);
        HG_CHECK(end.na_class != NULL);
        mem = conform_memory(&end, memory, sizeof(memory), NA_MEM_READWRITE);
        HG_CHECK_RET(NA_Mem_register(end.na_class, mem), errors[i].ret);
        HG_CHECK_EQ_U64(hg_test_log_count("fi_mr_regattr of memory: "), i + 1);
        HG_CHECK_OK(NA_Mem_handle_free(end.na_class, mem));
        HG_CHECK_OK(NA_Finalize(end.na_class));
    }
}
