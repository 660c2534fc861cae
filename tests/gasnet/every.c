/* SPDX-License-Identifier: BSD-3-Clause */
/* every: all memory of a node is its segment; and what version 1.8 ignores,
 * where 0.4 ends the job. */
#define GASNET_SEQ 1
#define GASNET_DEBUG 1
#define GASNET_SEGMENT_EVERYTHING 1
#include "jobs.h"

#include <stdlib.h>
#include <string.h>

#define EVERY_KINDS 3

/* Where the memory of a node is: static, heap, stack. */
struct every_places {
    char *at[EVERY_KINDS];
};

static struct every_places every_peer;
static int every_known, every_long;
static char every_static[256];

static void every_tell(gasnet_token_t token, void *buf, size_t size)
{
    (void) token;
    if (size == sizeof(every_peer))
        memcpy(&every_peer, buf, size);
    every_known++;
}

static void every_arrived(gasnet_token_t token, void *buf, size_t size)
{
    (void) token;
    every_long += size == 256 && buf == (void *) every_static;
}

static void every_holds(gasnet_token_t token)
{
    (void) token;
    gasnet_hold_interrupts();
    gasnet_resume_interrupts();
    gasnet_resume_interrupts();
}

/* No-interrupt sections in a handler, and while a lock is held. */
static void every_ignored(int argc, char *argv[])
{
    static gasnet_hsl_t hsl = GASNET_HSL_INITIALIZER;
    gasnet_handlerentry_t table[] = {HANDLER(200, every_holds)};

    START(table, 1, 0);
    gasnet_hold_interrupts();
    gasnet_hsl_lock(&hsl);
    gasnet_resume_interrupts();
    gasnet_hold_interrupts();
    gasnet_hsl_unlock(&hsl);
    gasnet_resume_interrupts();
    CHECK(gasnet_AMRequestShort0(gasnet_mynode(), 200) == GASNET_OK);
    gasnet_exit(0);
}

/* Each node writes to the memory of the next one, which tells it where. */
static void every_memory(int argc, char *argv[])
{
    gasnet_handlerentry_t table[] = {
        HANDLER(200, every_tell), HANDLER(201, every_arrived)};
    char stack[256] = "", back[256], *heap = (char *) malloc(256);
    struct every_places mine = {{every_static, heap, stack}};
    gasnet_node_t peer, i;
    gasnet_seginfo_t info;

    CHECK(heap != NULL);
    START(table, 2, 0);
    CHECK(gasnet_getMaxLocalSegmentSize() == (uintptr_t) -1);
    CHECK(gasnet_getSegmentInfo(&info, 1) == GASNET_OK);
    CHECK(info.addr == NULL && info.size == (uintptr_t) -1);
    peer = (gasnet_mynode() + 1) % gasnet_nodes();
    BARRIER();
    CHECK(gasnet_AMRequestMedium0(
              (gasnet_mynode() + gasnet_nodes() - 1) % gasnet_nodes(), 200,
              &mine, sizeof(mine)) == GASNET_OK);
    GASNET_BLOCKUNTIL(every_known == 1);
    for (i = 0; i < EVERY_KINDS; i++) {
        gasnet_memset(peer, every_peer.at[i], (int) i + 1, 256);
        gasnet_get(back, peer, every_peer.at[i], 256);
        CHECK(back[0] == (char) i + 1 && back[255] == (char) i + 1);
    }
    CHECK(gasnet_AMRequestLong0(peer, 201, back, 256, every_peer.at[0]) ==
        GASNET_OK);
    GASNET_BLOCKUNTIL(every_long == 1);
    BARRIER();
    CHECK(every_static[9] == 3 && heap[9] == 2 && stack[9] == 3);
    free(heap);
    gasnet_exit(0);
}

const struct jobs_case jobs_every[] = {
    {"everything", every_memory}, {"ignored", every_ignored}, {NULL, NULL}};
