/* SPDX-License-Identifier: BSD-3-Clause */
/* sm_window: see sm_window.h. */
#include "na/sm_window.h"

#if HG_ENABLE_SM

#include "base/log.h"
#include "base/mem.h"

HG_PRIVATE na_return_t na_sm_window_open(struct na_sm_window *window, int fd)
{
    struct stat there;
    void *base;

    assert(window->state == NA_SM_WINDOW_ASKED && window->base == NULL);
    window->state = NA_SM_WINDOW_SHUT;
    if (!na_sm_page_is_safe(fd) || fstat(fd, &there) != 0 ||
        there.st_size <= 0 || (uint64_t) there.st_size > NA_SM_ARENA_MAX ||
        (uint64_t) there.st_size % NA_SM_ARENA_UNIT != 0) {
        hg_log_warning("sm", "a peer sent what is no arena");
        return NA_PROTOCOL_ERROR;
    }
    window->writable = true;
    base = mmap(NULL, (size_t) there.st_size, PROT_READ | PROT_WRITE,
        MAP_SHARED, fd, 0);
    if (base == MAP_FAILED && (errno == EPERM || errno == EACCES)) {
        window->writable = false;
        base = mmap(NULL, (size_t) there.st_size, PROT_READ, MAP_SHARED, fd, 0);
    }
    if (base == MAP_FAILED) {
        hg_log_info("sm", "cannot map %" PRIu64 " bytes of a peer's: %s",
            (uint64_t) there.st_size, strerror(errno));
        return NA_NOMEM;
    }
    window->base = (unsigned char *) base;
    window->size = (uint64_t) there.st_size;
    window->state = NA_SM_WINDOW_OPEN;
    return NA_SUCCESS;
}

HG_PRIVATE unsigned char *na_sm_window_at(const struct na_sm_window *window,
    uint64_t offset, uint64_t size, bool write)
{
    assert(window->state == NA_SM_WINDOW_OPEN);
    if (offset > window->size || size > window->size - offset ||
        (write && !window->writable))
        return NULL;
    return window->base + offset;
}

HG_PRIVATE void na_sm_windows_free(struct na_sm_windows *windows)
{
    unsigned i;

    for (i = 0; windows != NULL && i < NA_SM_ARENAS; i++)
        na_sm_page_unmap(
            windows->window[i].base, (size_t) windows->window[i].size);
    hg_mem_free(windows);
}

#endif
