/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: a wait that makes progress by the program's two functions. */
#ifndef HG_COMPAT_MERCURY_REQUEST_H
#define HG_COMPAT_MERCURY_REQUEST_H

#include "mercury_atomic.h"
#include "mercury_time.h"

#include <stdlib.h>

/* Both return HG_UTIL_SUCCESS or HG_UTIL_FAIL; `flag` tells whether a callback
 * ran. */
typedef int (*hg_request_progress_func_t)(unsigned int timeout, void *arg);
typedef int (*hg_request_trigger_func_t)(
    unsigned int timeout, unsigned int *flag, void *arg);

typedef struct hg_request_class {
    hg_request_progress_func_t progress;
    hg_request_trigger_func_t trigger;
    void *arg;
} hg_request_class_t;

typedef struct hg_request {
    hg_request_class_t *request_class;
    void *data;
    hg_atomic_int32_t completed;
} hg_request_t;

#ifdef __cplusplus
extern "C" {
#endif

static HG_UTIL_INLINE hg_request_class_t *hg_request_init(
    hg_request_progress_func_t progress, hg_request_trigger_func_t trigger,
    void *arg)
{
    hg_request_class_t *request_class =
        (hg_request_class_t *) malloc(sizeof(*request_class));

    if (request_class != NULL) {
        request_class->progress = progress;
        request_class->trigger = trigger;
        request_class->arg = arg;
    }
    return request_class;
}

/* `arg`, if not NULL, gets the `arg` of hg_request_init. */
static HG_UTIL_INLINE void hg_request_finalize(
    hg_request_class_t *request_class, void **arg)
{
    if (request_class != NULL && arg != NULL)
        *arg = request_class->arg;
    free(request_class);
}

static HG_UTIL_INLINE hg_request_t *hg_request_create(
    hg_request_class_t *request_class)
{
    hg_request_t *request = (hg_request_t *) malloc(sizeof(*request));

    if (request != NULL) {
        request->request_class = request_class;
        request->data = NULL;
        hg_atomic_init32(&request->completed, 0);
    }
    return request;
}

static HG_UTIL_INLINE void hg_request_destroy(hg_request_t *request)
{
    free(request);
}

static HG_UTIL_INLINE void hg_request_reset(hg_request_t *request)
{
    hg_atomic_set32(&request->completed, 0);
}

static HG_UTIL_INLINE void hg_request_complete(hg_request_t *request)
{
    hg_atomic_set32(&request->completed, 1);
}

/* Make progress and trigger until the request is completed or `timeout` ms have
 * passed; with 0, once. `flag`, if not NULL, tells whether it is completed.
 * Another thread may trigger the callback meanwhile, so progress waits for at
 * most half a second at a time. */
static HG_UTIL_INLINE int hg_request_wait(
    hg_request_t *request, unsigned int timeout, unsigned int *flag)
{
    hg_request_class_t *rc = request->request_class;
    hg_time_t now, deadline;
    unsigned int left = timeout, triggered;
    bool completed, over = false;

    (void) hg_time_get_current(&now);
    deadline = hg_time_add(now, hg_time_from_ms(timeout));
    for (;;) {
        do
            triggered = 0;
        while (rc->trigger(0, &triggered, rc->arg) == HG_UTIL_SUCCESS &&
            triggered > 0);
        completed = hg_atomic_get32(&request->completed) != 0;
        if (completed || over)
            break;
        (void) rc->progress(left < 500 ? left : 500, rc->arg);
        (void) hg_time_get_current(&now);
        over = timeout == 0 || !hg_time_less(now, deadline);
        if (!over)
            left = hg_time_to_ms(hg_time_subtract(deadline, now));
    }
    if (flag != NULL)
        *flag = completed;
    return HG_UTIL_SUCCESS;
}

/* Wait for each request in turn, up to `timeout` ms each; `flag` is that of the
 * last one. */
static HG_UTIL_INLINE int hg_request_waitall(int count, hg_request_t *request[],
    unsigned int timeout, unsigned int *flag)
{
    int i;

    for (i = 0; i < count; i++)
        (void) hg_request_wait(request[i], timeout, flag);
    return HG_UTIL_SUCCESS;
}

static HG_UTIL_INLINE void hg_request_set_data(
    hg_request_t *request, void *data)
{
    request->data = data;
}

static HG_UTIL_INLINE void *hg_request_get_data(hg_request_t *request)
{
    return request->data;
}

#ifdef __cplusplus
}
#endif

#endif
