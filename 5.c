#define HG_API_VERSION 2
#include <poll.h>
#include "hg.h"
void turn(hg_context_t *context);
void loop(hg_context_t *context, const int *ending);

void turn(hg_context_t *context)
{
    unsigned int count = 0;
    (void) HG_Event_progress(context, &count);
    if (count > 0)
        (void) HG_Event_trigger(context, count, NULL);
}
void loop(hg_context_t *context, const int *ending)
{
    struct pollfd fds[1] = {{HG_Event_get_wait_fd(context), POLLIN, 0}};
    while (!*ending) {
        while (HG_Event_ready(context))
            turn(context);
        (void) poll(fds, 1, -1);
        turn(context);
    }
}
