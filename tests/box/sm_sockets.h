/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sm_sockets: shared by the tests of the transport sm: the resources that a
 * connection holds, and plain sockets for peers that break the protocol.
 */
#ifndef HG_TESTS_SM_SOCKETS_H
#define HG_TESTS_SM_SOCKETS_H

#include "endpoints.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Mappings of this process that the transport made. */
static inline unsigned sm_maps(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned count = 0;

    HG_CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, "memfd:hg-") != NULL;
    (void) fclose(file);
    return count;
}

/* A socket connected to the listener of an abstract name, "sm://NAME". */
static inline int sm_connect(const char *name)
{
    static const char prefix[] = "hg/sm/";
    struct sockaddr_un where;
    size_t length = strlen(name) - 5;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    HG_CHECK(fd >= 0 && strncmp(name, "sm://", 5) == 0);
    HG_CHECK(length + sizeof(prefix) < sizeof(where.sun_path));
    memset(&where, 0, sizeof(where));
    where.sun_family = AF_UNIX;
    memcpy(where.sun_path + 1, prefix, sizeof(prefix) - 1);
    memcpy(where.sun_path + sizeof(prefix), name + 5, length);
    HG_CHECK(connect(fd, (struct sockaddr *) &where,
                 (socklen_t) (offsetof(struct sockaddr_un, sun_path) +
                     sizeof(prefix) + length)) == 0);
    return fd;
}

/* Make progress on both until `call` has ended. */
static inline na_return_t sm_wait(
    struct conform_end *one, struct conform_end *two, struct conform_call *call)
{
    unsigned turns = 0;

    while (call->ends == 0) {
        HG_CHECK(turns++ < 5 * CONFORM_TIMEOUT);
        (void) conform_turn(one->na_class, one->context, 0);
        (void) conform_turn(two->na_class, two->context, turns > 1000);
    }
    return call->ret;
}

/* `from` looks `to` up, in the same process. */
static inline na_return_t sm_meet(struct conform_end *from,
    struct conform_end *to, const char *name, na_addr_t *addr_p)
{
    struct conform_call call;
    na_return_t ret;

    memset(&call, 0, sizeof(call));
    ret = NA_Addr_lookup(
        from->na_class, from->context, conform_ended, &call, name, &call.id);
    if (ret == NA_SUCCESS)
        ret = sm_wait(from, to, &call);
    if (ret == NA_SUCCESS)
        *addr_p = call.addr;
    return ret;
}

#endif
