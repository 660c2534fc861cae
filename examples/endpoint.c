/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint: see endpoint.h. */
#include "endpoint.h"

#include <errno.h>

static hg_return_t endpoint_open(
    struct endpoint *endpoint, const char *info, uint8_t listen)
{
    endpoint->hg_class = HG_Init(info, listen);
    if (endpoint->hg_class == NULL)
        return HG_NA_ERROR; /* the library has logged the cause */
    endpoint->context = HG_Context_create(endpoint->hg_class);
    if (endpoint->context != NULL)
        return HG_SUCCESS;
    (void) HG_Finalize(endpoint->hg_class);
    return HG_NOMEM;
}

hg_return_t endpoint_listen(struct endpoint *endpoint, const char *address)
{
    return endpoint_open(endpoint, address, HG_TRUE);
}

hg_return_t endpoint_connect(struct endpoint *endpoint, const char *address)
{
    char scheme[64];
    const char *behind = strstr(address, "://");
    int length = behind != NULL ? (int) (behind - address) + 3 : 0;

    (void) snprintf(scheme, sizeof(scheme), "%.*s", length, address);
    if (behind != NULL)
        return endpoint_open(endpoint, scheme, HG_FALSE);
    (void) fprintf(stderr,
        "'%s' is not an address; an address looks like sm://name\n", address);
    return HG_INVALID_ARG;
}

void endpoint_close(struct endpoint *endpoint)
{
    (void) HG_Context_destroy(endpoint->context);
    (void) HG_Finalize(endpoint->hg_class);
}

hg_return_t endpoint_print_address(const struct endpoint *endpoint)
{
    char text[NA_MAX_ADDR_LEN];
    hg_size_t size = sizeof(text);
    hg_addr_t self;
    hg_return_t ret = HG_Addr_self(endpoint->hg_class, &self);

    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Addr_to_string(endpoint->hg_class, text, &size, self);
    (void) HG_Addr_free(endpoint->hg_class, self);
    if (ret != HG_SUCCESS)
        return ret;
    if (printf("%s\n", text) < 0 || fflush(stdout) != 0) {
        (void) fprintf(stderr, "standard output: %s\n", strerror(errno));
        return HG_IO_ERROR;
    }
    return HG_SUCCESS;
}
