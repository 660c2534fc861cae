/* SPDX-License-Identifier: BSD-3-Clause */
/* end: see end.h. */
#include "end.h"

#include <errno.h>

static hg_return_t end_open(struct end *end, const char *info, uint8_t listen)
{
    end->hg_class = HG_Init(info, listen);
    if (end->hg_class == NULL)
        return HG_NA_ERROR; /* the library has said why */
    end->context = HG_Context_create(end->hg_class);
    if (end->context != NULL)
        return HG_SUCCESS;
    (void) HG_Finalize(end->hg_class);
    return HG_NOMEM;
}

hg_return_t end_listen(struct end *end, const char *address)
{
    return end_open(end, address, HG_TRUE);
}

hg_return_t end_connect(struct end *end, const char *address)
{
    char scheme[64];
    const char *behind = strstr(address, "://");
    int length = behind != NULL ? (int) (behind - address) + 3 : 0;

    (void) snprintf(scheme, sizeof(scheme), "%.*s", length, address);
    if (behind != NULL)
        return end_open(end, scheme, HG_FALSE);
    (void) fprintf(
        stderr, "'%s' is no address: one looks like sm://name\n", address);
    return HG_INVALID_ARG;
}

void end_close(struct end *end)
{
    (void) HG_Context_destroy(end->context);
    (void) HG_Finalize(end->hg_class);
}

hg_return_t end_announce(const struct end *end)
{
    char text[NA_MAX_ADDR_LEN];
    hg_size_t size = sizeof(text);
    hg_addr_t self;
    hg_return_t ret = HG_Addr_self(end->hg_class, &self);

    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Addr_to_string(end->hg_class, text, &size, self);
    (void) HG_Addr_free(end->hg_class, self);
    if (ret != HG_SUCCESS)
        return ret;
    if (printf("%s\n", text) < 0 || fflush(stdout) != 0) {
        (void) fprintf(stderr, "standard output: %s\n", strerror(errno));
        return HG_IO_ERROR;
    }
    return HG_SUCCESS;
}
