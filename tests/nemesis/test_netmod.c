/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network module for MPICH's Nemesis channel, examples/nemesis, driven by
 * its own small CH3: each function of the Nemesis Network Module API, and each
 * mode of large transfers.
 *
 * Two processes run the same scenario, the case as rank 0 and its peer as
 * rank 1. They exchange their business cards by lines.
 */
#define _POSIX_C_SOURCE 200809L
#include "harness.h"
#include "hg.h"
#include "examples/nemesis/nemesis.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define PKT ((MPIDI_msg_sz_t) sizeof(MPIDI_CH3_Pkt_t))
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static int rank;
static struct hg_test_peer *peer; /* of rank 0 */
static MPIDI_VC_t *vc;            /* to the other rank */

/* ---- What NA answers ---- */

/* From the send `netmod_refuses` on, counted from 1, sends get an answer that
 * the test sets; 0: none. That many sends get it. */
static unsigned netmod_refuses, netmod_refusals;
static na_return_t netmod_answer;
static char netmod_events[8]; /* the last ones: 's'ent, 'r'efused, 'p'rogress */
static time_t netmod_seconds; /* by which each look at the clock turns it on */

static void netmod_refuse(unsigned first, unsigned count, na_return_t answer)
{
    netmod_refuses = first;
    netmod_refusals = count;
    netmod_answer = answer;
}

static void netmod_event(char event)
{
    memmove(netmod_events + 1, netmod_events, sizeof(netmod_events) - 2);
    netmod_events[0] = event;
}

na_return_t __real_NA_Msg_try_sendv_unexpected(na_class_t *na_class,
    na_context_t *context, const struct na_segment *segments, na_size_t count,
    na_addr_t dest, na_tag_t tag);
na_return_t __wrap_NA_Msg_try_sendv_unexpected(na_class_t *na_class,
    na_context_t *context, const struct na_segment *segments, na_size_t count,
    na_addr_t dest, na_tag_t tag);
na_return_t __real_NA_Progress(
    na_class_t *na_class, na_context_t *context, unsigned int timeout);
na_return_t __wrap_NA_Progress(
    na_class_t *na_class, na_context_t *context, unsigned int timeout);
time_t __real_time(time_t *at);
time_t __wrap_time(time_t *at);

na_return_t __wrap_NA_Msg_try_sendv_unexpected(na_class_t *na_class,
    na_context_t *context, const struct na_segment *segments, na_size_t count,
    na_addr_t dest, na_tag_t tag)
{
    na_return_t ret;

    if (netmod_refuses > 1) {
        netmod_refuses--;
    } else if (netmod_refusals > 0) {
        netmod_refusals--;
        netmod_event('r');
        return netmod_answer;
    }
    ret = __real_NA_Msg_try_sendv_unexpected(
        na_class, context, segments, count, dest, tag);
    netmod_event(ret == NA_SUCCESS ? 's' : 'r');
    return ret;
}

na_return_t __wrap_NA_Progress(
    na_class_t *na_class, na_context_t *context, unsigned int timeout)
{
    netmod_event('p');
    return __real_NA_Progress(na_class, context, timeout);
}

time_t __wrap_time(time_t *at)
{
    static time_t turned;

    turned += netmod_seconds;
    return __real_time(at) + turned;
}

/* ---- Both ranks ---- */

/* Give the other rank a line, and return its own. Nobody polls meanwhile. */
static char *netmod_exchange(const char *line)
{
    if (rank == 1) {
        hg_test_write_parent(line);
        return hg_test_read_parent();
    }
    hg_test_write_peer(peer, line);
    return hg_test_read_peer(peer);
}

/* The card of a rank. */
static int netmod_get_card(int of, char card[NEM_CARD_MAX])
{
    return vc->pg->getConnInfo(of, card, NEM_CARD_MAX, vc->pg);
}

static void netmod_exchange_cards(void)
{
    char *card = netmod_exchange(nem_card);

    HG_CHECK(card != NULL);
    nem_set_card(1 - rank, card);
    free(card);
}

/* Rank 1 does not poll until rank 0 comes here, too. */
static void netmod_meet(void)
{
    free(netmod_exchange("here"));
}

static void netmod_set(const char *variable, unsigned value)
{
    char text[16];

    (void) snprintf(text, sizeof(text), "%u", value);
    HG_CHECK(setenv(variable, text, 1) == 0);
}

/* Start the module in a mode, with sections and fragments of that many bytes;
 * 0: the defaults. */
static void netmod_begin(const char *mode, unsigned section, unsigned fragment)
{
    char address[64];

    (void) snprintf(address, sizeof(address), "%s://%s", hg_test_transport(),
        hg_test_crosses_hosts() ? "127.0.0.1" : "");
    HG_CHECK(setenv("HG_NEMESIS_ADDRESS", address, 1) == 0);
    HG_CHECK(setenv("HG_NEMESIS_LMT", mode, 1) == 0);
    netmod_set("HG_NEMESIS_SECTION", section);
    netmod_set("HG_NEMESIS_FRAGMENT", fragment);
    nem_init("group", rank, 2);
    vc = nem_vc(1 - rank);
    netmod_exchange_cards();
}

static void netmod_end(void)
{
    nem_finalize();
    HG_CHECK_EQ_INT(nem_requests, 0);
}

static void netmod_close_and_end(void)
{
    nem_close(vc);
    netmod_end();
}

/* ---- Messages ---- */

static inline unsigned char netmod_byte(unsigned n, MPI_Aint i)
{
    return (unsigned char) (n * 31 + (unsigned) i + ((unsigned) i >> 8));
}

/* Memory for `count` blocks of a type, with message `n`, or with 0xee. */
static unsigned char *netmod_memory(
    unsigned n, MPI_Aint count, MPI_Datatype type, bool filled)
{
    MPI_Aint block = type->block, inside, i = 0, size = count * type->stride;
    unsigned char *buf = (unsigned char *) malloc((size_t) size + 1), *at;

    HG_CHECK(buf != NULL);
    memset(buf, 0xee, (size_t) size + 1);
    for (at = buf; filled && count-- > 0; at += type->stride)
        for (inside = 0; inside < block; inside++)
            at[inside] = netmod_byte(n, i++);
    return buf;
}

/* The first `size` bytes are those of message `n`; no others were written. */
static void netmod_check(const unsigned char *buf, unsigned n, MPI_Aint count,
    MPI_Datatype type, MPIDI_msg_sz_t size)
{
    MPI_Aint block = type->block, stride = type->stride, inside, i = 0;

    for (; count-- > 0; buf += stride) {
        for (inside = 0; inside < block; inside++, i++) {
            if (buf[inside] != (i < size ? netmod_byte(n, i) : 0xee))
                hg_test_fail(HG_TEST_HERE, "message %u of %ld: byte %ld", n,
                    (long) size, (long) i);
        }
        for (; inside < stride; inside++)
            HG_CHECK(buf[inside] == 0xee);
    }
    HG_CHECK_EQ_INT(*buf, 0xee);
}

/* Sizes around those of a header, of what is copied, and of a message of NA. */
static MPIDI_msg_sz_t netmod_size(unsigned n)
{
    static const MPIDI_msg_sz_t sizes[] = {0, 1, 7, PKT - 1, PKT, PKT + 1,
        16384 - PKT, 16385 - PKT, 32768 - PKT - 16, 32768 - PKT - 15, 65536,
        65537, 30000, 100002, 3};

    return sizes[n % LENGTH(sizes)];
}

static MPID_Datatype netmod_holes = {3, 8};

/* Message `n` of a row is sent in one of three ways. */
struct netmod_sent {
    MPID_Request *req; /* NULL: it was sent */
    unsigned char *buf;
};

static struct netmod_sent netmod_send(unsigned n, MPIDI_msg_sz_t size)
{
    MPI_Datatype type = n % 3 == 2 && size % 3 == 0 ? &netmod_holes : MPI_BYTE;
    struct netmod_sent sent;

    sent.buf = netmod_memory(n, size / type->block, type, true);
    sent.req = n % 3 == 1 ? nem_start(vc, 1, sent.buf, size)
                          : nem_send(vc, 1, sent.buf, size / type->block, type);
    return sent;
}

static void netmod_sent(struct netmod_sent *sent)
{
    if (sent->req != NULL)
        HG_CHECK_EQ_INT(nem_wait(sent->req), MPI_SUCCESS);
    free(sent->buf);
}

static void netmod_receive(unsigned n, MPIDI_msg_sz_t size)
{
    unsigned char *buf = netmod_memory(n, size, MPI_BYTE, false);

    HG_CHECK_EQ_INT(
        nem_wait(nem_recv(vc, 1, buf, size, MPI_BYTE)), MPI_SUCCESS);
    netmod_check(buf, n, size, MPI_BYTE, size);
    free(buf);
}

/* Send `count` messages from `first` on, and receive those of the other rank,
 * in order. */
static void netmod_rows(unsigned first, unsigned count)
{
    struct netmod_sent sent[64];
    unsigned n;

    HG_CHECK(count <= LENGTH(sent));
    for (n = 0; n < count; n++)
        sent[n] = netmod_send(first + n, netmod_size(first + n));
    for (n = 0; n < count; n++)
        netmod_receive(first + n, netmod_size(first + n));
    for (n = 0; n < count; n++)
        netmod_sent(&sent[n]);
}

/* Look the other rank up. Its receive does not matter. */
static void netmod_connect_vc(void)
{
    struct netmod_sent sent = netmod_send(1, 1);

    netmod_sent(&sent);
}

/* ---- N1: the life cycle ---- */

/* The sends of a VC wait while the other rank does not read. Terminating it
 * returns at once, and all of them arrive. Then the VC is used again. */
static void netmod_terminate(void)
{
    struct netmod_sent sent[300];
    unsigned n, round;

    nem_eager_max = 1 << 20;
    netmod_begin("null", 0, 0);
    for (round = 1; round <= 3; round++) {
        if (rank == 1) {
            netmod_meet(); /* does not read until then */
            for (n = 0; n < LENGTH(sent); n++)
                netmod_receive(n, 6000);
            netmod_meet();
            continue;
        }
        for (n = 0; n < LENGTH(sent); n++)
            sent[n] = netmod_send(n, 6000);
        vc->state = MPIDI_VC_STATE_CLOSED;
        HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_terminate(vc), MPI_SUCCESS);
        HG_CHECK_EQ_INT(vc->terminated, round - 1);
        netmod_meet();
        while (vc->terminated < round)
            nem_poll();
        HG_CHECK_EQ_INT(vc->state, MPIDI_VC_STATE_INACTIVE);
        for (n = 0; n < LENGTH(sent); n++) {
            HG_CHECK(sent[n].req == NULL || sent[n].req->is_complete);
            netmod_sent(&sent[n]);
        }
        netmod_meet();
    }
    netmod_rows(0, 20);
    netmod_close_and_end();
}

/* Both ranks close the VC, as CH3 does, and use it again. */
static void netmod_reuse(void)
{
    unsigned round;

    netmod_begin("get", 0, 0);
    for (round = 1; round <= 10; round++) {
        netmod_rows(round, 16);
        nem_close(vc);
        HG_CHECK_EQ_INT(vc->terminated, round);
    }
    netmod_end();
}

/* A process that saved its state starts with another address. Sends that have
 * begun fail, others are sent later. */
static void netmod_checkpoint(void)
{
    struct netmod_sent sent[4];
    unsigned n;

    nem_eager_max = 1 << 20;
    netmod_begin("get", 0, 0);
    netmod_rows(0, 16);
    nem_close(vc);
    for (n = 0; n < LENGTH(sent); n++) /* the lookup is in progress */
        sent[n] = netmod_send(n, 20000);
    netmod_meet();
    HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.ckpt_shutdown(), MPI_SUCCESS);
    HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.poll(MPID_NEM_POLL_IN), MPI_SUCCESS);
    nem_start_again();
    netmod_exchange_cards();
    for (n = 0; n < LENGTH(sent); n++)
        netmod_receive(n, 20000);
    for (n = 0; n < LENGTH(sent); n++)
        netmod_sent(&sent[n]);
    netmod_rows(0, 16);
    nem_close(vc);
    if (rank == 1) {
        netmod_receive(1, 1);
        netmod_meet();
    } else {
        netmod_connect_vc();
        netmod_refuse(2, UINT_MAX, NA_AGAIN);
        sent[0] = netmod_send(0, 100000); /* two messages: one is sent */
        netmod_seconds = 1;
    }
    HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.ckpt_shutdown(), MPI_SUCCESS);
    if (rank == 0) {
        netmod_meet();
        netmod_seconds = 0;
        HG_CHECK_EQ_INT(nem_wait(sent[0].req), MPIX_ERR_PROC_FAILED);
        HG_CHECK_EQ_INT(vc->terminated, 3);
        free(sent[0].buf);
    }
    nem_finalize(); /* rank 1 has a part of the message */
}

#define NETMOD_GROUP_SIZE 2000000

/* Two VCs without a group, beside that of the group. */
static void netmod_connect(void)
{
    MPIDI_VC_t *group, *other[2];
    char port[NEM_CARD_MAX], *line;
    unsigned char *out = netmod_memory(5, NETMOD_GROUP_SIZE, MPI_BYTE, true);
    unsigned char *in = netmod_memory(5, NETMOD_GROUP_SIZE, MPI_BYTE, false);
    MPID_Request *recv, *send, *small[2];
    int i;

    netmod_begin("get", 0, 0);
    group = vc;
    for (i = 0; i < 2; i++) {
        nem_port(5 + i, port);
        line = netmod_exchange(port);
        other[i] = rank == i ? nem_accept(5 + i) : nem_connect(line);
        free(line);
        vc = other[i];
        netmod_rows(0, 16);
    }
    /* Messages match by VC, also if both have the same tag. */
    for (i = 0; i < 2; i++) {
        small[0] = nem_send(i == 0 ? group : other[1], 3, out, 1, MPI_BYTE);
        small[1] = nem_send(i == 1 ? group : other[1], 3, out + 1, 1, MPI_BYTE);
        recv = nem_recv(i == 0 ? group : other[1], 3, in, 1, MPI_BYTE);
        send = nem_recv(i == 1 ? group : other[1], 3, in + 1, 1, MPI_BYTE);
        HG_CHECK_EQ_INT(nem_wait(recv), MPI_SUCCESS);
        HG_CHECK_EQ_INT(nem_wait(send), MPI_SUCCESS);
        HG_CHECK(memcmp(in, out, 2) == 0);
        HG_CHECK_EQ_INT(nem_wait(small[0]), MPI_SUCCESS);
        HG_CHECK_EQ_INT(nem_wait(small[1]), MPI_SUCCESS);
    }
    for (i = 0; i < 2; i++) {
        vc = group;
        recv = nem_recv(vc, 2, in, NETMOD_GROUP_SIZE, MPI_BYTE);
        send = nem_send(vc, 2, out, NETMOD_GROUP_SIZE, MPI_BYTE);
        nem_close(other[i]); /* the others stay open */
        nem_free(other[i]);
        HG_CHECK_EQ_INT(nem_wait(recv), MPI_SUCCESS);
        HG_CHECK_EQ_INT(nem_wait(send), MPI_SUCCESS);
        netmod_check(in, 5, NETMOD_GROUP_SIZE, MPI_BYTE, NETMOD_GROUP_SIZE);
        if (i == 0) { /* so is that of the group */
            nem_close(group);
            vc = other[1];
        }
        netmod_rows(0, 16);
    }
    free(out);
    free(in);
    netmod_close_and_end();
}

static void netmod_bad_cards(void)
{
    MPIDI_VC_t lost;
    char card[8], *text = card;
    int size = sizeof(card);

    netmod_begin("get", 0, 0);
    memset(&lost, 0, sizeof(lost));
    HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.get_business_card(rank, &text, &size),
        MPI_ERR_OTHER); /* does not fit */
    HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_init(&lost, "tag#1$"), MPI_ERR_OTHER);
    HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_init(&lost, nem_card), MPI_SUCCESS);
    HG_CHECK_EQ_INT(
        MPIDI_nem_hg_funcs.connect_to_root("tag#1$", &lost), MPI_ERR_OTHER);
    HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.connect_to_root(nem_card, &lost),
        MPI_ERR_OTHER); /* no tag */
    HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_destroy(&lost), MPI_SUCCESS);
    memset(&lost, 0xee, sizeof(lost)); /* without vc_init, as a local one is */
    lost.ch.is_local = 1;
    HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_destroy(&lost), MPI_SUCCESS);
    netmod_rows(0, 4);
    netmod_close_and_end();
}

/* One variable of the environment is wrong. */
static void netmod_bad_start(void)
{
    static const char *const bad[][2] = {{"HG_NEMESIS_LMT", "sendfile"},
        {"HG_NEMESIS_LMT", ""}, {"HG_NEMESIS_SECTION", "many"},
        {"HG_NEMESIS_FRAGMENT", "1k"}, {"HG_NEMESIS_SILENCE", ""},
        {"HG_NEMESIS_SILENCE", "-1"}, {"HG_NEMESIS_ADDRESS", "nowhere://"}};
    MPIDI_PG_t pg = {"group", 2, NULL, NULL};
    unsigned i;

    hg_test_allow_log("");
    for (i = 0; i < LENGTH(bad); i++) {
        char card[NEM_CARD_MAX], *text = card;
        int size = sizeof(card);

        HG_CHECK(setenv(bad[i][0], bad[i][1], 1) == 0);
        HG_CHECK_EQ_INT(
            MPIDI_nem_hg_funcs.init(&pg, 0, &text, &size), MPI_ERR_OTHER);
        HG_CHECK(unsetenv(bad[i][0]) == 0);
    }
    netmod_begin("get", 0, 0);
    netmod_rows(0, 4);
    netmod_close_and_end();
}

/* A VC is destroyed while its sends wait: they fail. */
static void netmod_destroy(void)
{
    MPIDI_VC_t lost;
    MPID_Request *sent[2];
    unsigned char byte = 1;
    unsigned round, n;
    char card[NEM_CARD_MAX];

    netmod_begin("get", 0, 0);
    netmod_rows(0, 4);
    (void) netmod_get_card(1 - rank, card);
    for (round = 0; round < 2; round++) {
        memset(&lost, 0, sizeof(lost));
        HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_init(&lost, card), MPI_SUCCESS);
        netmod_refuse(1, round == 0 ? 0 : UINT_MAX, NA_AGAIN);
        for (n = 0; n < LENGTH(sent); n++)
            sent[n] = nem_send(&lost, 3, &byte, 1, MPI_BYTE);
        for (n = 0; n < 100 && round > 0; n++)
            nem_poll(); /* the address is found */
        HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_destroy(&lost), MPI_SUCCESS);
        netmod_refuse(1, 0, NA_AGAIN);
        for (n = 0; n < LENGTH(sent); n++)
            HG_CHECK_EQ_INT(nem_wait(sent[n]), MPIX_ERR_PROC_FAILED);
    }
    netmod_rows(0, 4);
    netmod_close_and_end();
}

/* A VC is destroyed while NA moves the data of a large transfer: its request
 * fails when NA has finished with the memory. The other rank gives the VC up,
 * and its request fails, too. */
static void netmod_destroy_moving(void)
{
    static unsigned char buf[5000];
    MPID_Request *recv = NULL, *send = NULL;

    netmod_begin("get", 0, 0);
    if (rank == 1) {
        send = nem_send(vc, 9, buf, sizeof(buf), MPI_BYTE);
        netmod_rows(0, 1);
    } else {
        netmod_rows(0, 1); /* the announcement is here, too */
        recv = nem_recv(vc, 9, buf, sizeof(buf), MPI_BYTE);
        HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_destroy(vc), MPI_SUCCESS);
        HG_CHECK(!recv->is_complete);
        HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_init(vc, NULL), MPI_SUCCESS);
    }
    netmod_meet();
    if (rank == 1)
        HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_terminate(vc), MPI_SUCCESS);
    HG_CHECK_EQ_INT(nem_wait(rank == 0 ? recv : send), MPIX_ERR_PROC_FAILED);
    netmod_end();
}

/* ---- N2, N3: order and sends ---- */

static void netmod_order(void)
{
    struct netmod_sent sent[400];
    unsigned n, waiting = 0;
    int ordering = 0;

    nem_eager_max = 1 << 20;
    netmod_begin("null", 0, 0);
    HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.get_ordering(&ordering), MPI_SUCCESS);
    HG_CHECK_EQ_INT(ordering, 1);
    netmod_rows(0, 1);
    /* A small message is sent at once. While the other rank does not read,
     * there are messages that need a request. */
    if (rank == 0) {
        for (n = 0; n < LENGTH(sent); n++) {
            sent[n] = netmod_send(n, netmod_size(n));
            waiting += n % 3 == 1 && sent[n].req != NULL;
            HG_CHECK(n != 1 || sent[n].req == NULL);
        }
        HG_CHECK(waiting > 0);
    }
    netmod_meet();
    for (n = 0; n < LENGTH(sent); n++) {
        if (rank == 1)
            netmod_receive(n, netmod_size(n));
        else
            netmod_sent(&sent[n]);
    }
    netmod_close_and_end();
}

static void netmod_directions(void)
{
    unsigned n;

    nem_eager_max = 1 << 20;
    netmod_begin("null", 0, 0);
    for (nem_dir = MPID_NEM_POLL_IN; nem_dir <= MPID_NEM_POLL_OUT; nem_dir++) {
        netmod_rows(0, 4);
        for (n = 0; n < 3; n++) { /* each way to send is refused once */
            struct netmod_sent sent;

            netmod_refuse(1, 1, NA_AGAIN);
            sent = netmod_send(n, 12); /* one message */
            HG_CHECK(sent.req != NULL && !sent.req->is_complete);
            HG_CHECK_EQ_INT(netmod_events[0], 'r');
            nem_poll();
            HG_CHECK(netmod_events[nem_dir == MPID_NEM_POLL_IN] == 'p');
            HG_CHECK(netmod_events[nem_dir == MPID_NEM_POLL_OUT] == 's');
            netmod_sent(&sent);
        }
        for (n = 0; n < 3; n++)
            netmod_receive(n, 12);
    }
    nem_dir = -1;
    netmod_close_and_end();
}

/* Any message of a send may be refused, and the next ones, too. Later sends
 * wait behind it. */
static void netmod_refused(void)
{
    struct netmod_sent sent[4];
    unsigned first, n;

    nem_eager_max = 1 << 20;
    netmod_begin("null", 0, 7000);
    netmod_rows(0, 4);
    for (first = 1; first <= 12; first++) {
        netmod_refuse(first, first % 3 + 1, NA_AGAIN);
        for (n = 0; n < LENGTH(sent); n++)
            sent[n] = netmod_send(first + n, 15000 + (MPIDI_msg_sz_t) n * 30);
        for (n = 0; n < LENGTH(sent); n++)
            netmod_receive(first + n, 15000 + (MPIDI_msg_sz_t) n * 30);
        for (n = 0; n < LENGTH(sent); n++)
            netmod_sent(&sent[n]);
    }
    netmod_close_and_end();
}

/* NA says that a send has failed: the VC fails, once, also if it was being
 * closed. */
static void netmod_broken(void)
{
    struct netmod_sent sent[3];
    unsigned char byte;
    unsigned n;

    nem_eager_max = 1 << 20;
    netmod_begin("null", 0, 0);
    netmod_rows(0, 4);
    if (rank == 0) {
        netmod_refuse(1, UINT_MAX, NA_AGAIN);
        for (n = 0; n < LENGTH(sent); n++)
            sent[n] = netmod_send(n, 6000);
        vc->state = MPIDI_VC_STATE_CLOSED;
        HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_terminate(vc), MPI_SUCCESS);
        HG_CHECK_EQ_INT(vc->terminated, 0);
        netmod_refuse(1, 1, NA_DISCONNECT);
        for (n = 0; n < LENGTH(sent); n++) {
            HG_CHECK_EQ_INT(nem_wait(sent[n].req), MPIX_ERR_PROC_FAILED);
            free(sent[n].buf);
        }
        for (n = 0; n < 50; n++)
            nem_poll();
        HG_CHECK_EQ_INT(vc->terminated, 1);
        vc->state = MPIDI_VC_STATE_ACTIVE;
        netmod_refuse(1, 1, NA_NOMEM);
        HG_CHECK_EQ_INT(nem_wait(nem_send(vc, 1, &byte, 1, MPI_BYTE)),
            MPIX_ERR_PROC_FAILED);
        HG_CHECK_EQ_INT(vc->state, MPIDI_VC_STATE_MORIBUND);
        /* CH3 gives a VC up. */
        sent[0].req = nem_recv(vc, 9, &byte, 1, MPI_BYTE);
        HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_terminate(vc), MPI_SUCCESS);
        HG_CHECK_EQ_INT(nem_wait(sent[0].req), MPIX_ERR_PROC_FAILED);
        HG_CHECK_EQ_INT(vc->terminated, 3);
    }
    netmod_meet();
    netmod_end();
}

/* ---- N4: fragments ---- */

/* The number in front of a word of the counters. */
static unsigned long netmod_counter(const char *file, const char *word)
{
    char line[1024], key[32], *at;
    FILE *stats = fopen(file, "r");

    HG_CHECK(stats != NULL && fgets(line, sizeof(line), stats) != NULL);
    (void) fclose(stats);
    (void) snprintf(key, sizeof(key), " %s", word);
    at = strstr(line, key);
    HG_CHECK(at != NULL);
    while (at > line && at[-1] != ' ')
        at--;
    return strtoul(at, NULL, 10);
}

/* The number of messages of NA in which one of `size` bytes is sent, with those
 * that close the VC. */
static unsigned long netmod_messages(MPIDI_msg_sz_t size)
{
    struct netmod_sent sent;
    char stats[256];

    (void) snprintf(stats, sizeof(stats), "%s/messages-%ld-%d", hg_test_dir(),
        (long) size, rank);
    HG_CHECK(setenv("HG_NEMESIS_STATS", stats, 1) == 0);
    netmod_begin("null", 0, 0);
    sent.buf = netmod_memory(0, size, MPI_BYTE, true);
    sent.req = nem_start(vc, 1, sent.buf, size);
    netmod_receive(0, size);
    netmod_sent(&sent);
    netmod_close_and_end();
    HG_CHECK(unsetenv("HG_NEMESIS_STATS") == 0);
    return netmod_counter(stats, "messages");
}

static void netmod_one_message(void)
{
    unsigned long messages = netmod_messages(65536);

    /* A message of sm has at most 32 KiB, with its headers. */
    HG_CHECK_EQ_INT((int) messages - (int) netmod_messages(1),
        hg_test_crosses_hosts() ? 0 : 2);
}

static void netmod_fragments(void)
{
    static const unsigned fragments[] = {1, 7,
        (unsigned) sizeof(MPIDI_CH3_Pkt_t) - 1,
        (unsigned) sizeof(MPIDI_CH3_Pkt_t),
        (unsigned) sizeof(MPIDI_CH3_Pkt_t) + 1, 1000};
    static const MPIDI_msg_sz_t sizes[] = {0, 1, PKT - 1, PKT, PKT + 1, 300};
    struct netmod_sent sent[LENGTH(sizes)];
    unsigned i, n;

    for (i = 0; i < LENGTH(fragments); i++) {
        netmod_begin("null", 0, fragments[i]);
        for (n = 0; n < LENGTH(sizes); n++)
            sent[n] = netmod_send(n, sizes[n]);
        for (n = 0; n < LENGTH(sizes); n++)
            netmod_receive(n, sizes[n]);
        for (n = 0; n < LENGTH(sizes); n++)
            netmod_sent(&sent[n]);
        netmod_close_and_end();
    }
}

/* ---- N5: large transfers ---- */

static MPID_Datatype netmod_pairs = {2, 5};

/* Each rank sends message `n`, and receives that of the other one into a row of
 * `count` blocks. */
static void netmod_transfer(unsigned n, MPIDI_msg_sz_t size, MPI_Datatype from,
    MPI_Datatype to, MPI_Aint count, bool early)
{
    unsigned char *out = netmod_memory(n, size / from->block, from, true);
    unsigned char *in = netmod_memory(n, count, to, false);
    MPIDI_msg_sz_t room = count * to->block;
    MPID_Request *recv = NULL, *send;
    int ret;

    if (!early)
        recv = nem_recv(vc, 2, in, count, to);
    send = nem_send(vc, 2, out, size / from->block, from);
    if (early) { /* the announcement comes before the receive */
        netmod_rows(0, 2);
        recv = nem_recv(vc, 2, in, count, to);
    }
    ret = nem_wait(recv);
    HG_CHECK_EQ_INT(ret, size > room ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    HG_CHECK_EQ_INT(nem_wait(send), MPI_SUCCESS);
    netmod_check(in, n, count, to, size < room ? size : room);
    free(out);
    free(in);
}

static void netmod_mode(const char *mode, unsigned section)
{
    char stats[256];
    bool get = strcmp(mode, "get") == 0, put = strcmp(mode, "put") == 0;
    bool cooperative = strcmp(mode, "cooperative") == 0;
    MPIDI_msg_sz_t big = 1100000; /* more than a buffer */

    (void) snprintf(stats, sizeof(stats), "%s/%s-%u-%d", hg_test_dir(), mode,
        section, rank);
    HG_CHECK(setenv("HG_NEMESIS_STATS", stats, 1) == 0);
    netmod_begin(mode, section, 0);
    HG_CHECK((vc->ch.lmt_initiate_lmt == NULL) == (strcmp(mode, "null") == 0));
    netmod_transfer(1, 1025, MPI_BYTE, MPI_BYTE, 1025, false);
    netmod_transfer(2, big, MPI_BYTE, MPI_BYTE, big, false);
    netmod_transfer(3, 120000, MPI_BYTE, MPI_BYTE, 150000, true);
    netmod_transfer(4, 120000, &netmod_holes, MPI_BYTE, 120000, true);
    netmod_transfer(5, 120000, MPI_BYTE, &netmod_holes, 40000, false);
    /* Without windows each message has as many blocks as an iov. */
    netmod_transfer(6, vc->ch.lmt_initiate_lmt != NULL ? 2200002 : 60000,
        &netmod_holes, &netmod_pairs, 1100001, false);
    netmod_transfer(7, 120000, MPI_BYTE, MPI_BYTE, 119999, true);
    netmod_transfer(8, 120000, &netmod_holes, &netmod_pairs, 100, false);
    netmod_transfer(9, 120000, MPI_BYTE, MPI_BYTE, 0, false);
    netmod_close_and_end();
    HG_CHECK((netmod_counter(stats, "gets") > 0) == get);
    HG_CHECK((netmod_counter(stats, "puts") > 0) == (put || cooperative));
    HG_CHECK(
        (netmod_counter(stats, "done") > 0) == (get || put || cooperative));
    if (section > 0 || cooperative) /* the cookies change */
        HG_CHECK(netmod_counter(stats, "cookies") >= 10);
    HG_CHECK(unsetenv("HG_NEMESIS_STATS") == 0);
}

static void netmod_get(void)
{
    netmod_mode("get", 0);
    netmod_mode("get", 100000);
}

static void netmod_put(void)
{
    netmod_mode("put", 0);
    netmod_mode("put", 100000);
}

static void netmod_cooperative(void)
{
    netmod_mode("cooperative", 0);
    netmod_mode("cooperative", 100000);
}

static void netmod_null(void)
{
    netmod_mode("null", 0);
}

/* ---- N6: OnDataAvail ---- */

struct netmod_pieces {
    unsigned left, nests; /* pieces, and where the handler sends */
    MPIDI_msg_sz_t size, at;
    unsigned char *buf;
    MPID_Request *nested; /* sent by the handler */
    unsigned char *nested_buf;
};

/* Describe the next piece, of another size each time. The handler also sends a
 * message of its own on the VC, and makes progress, once. */
static int netmod_next_piece(MPIDI_VC_t *to, MPID_Request *req, int *complete)
{
    struct netmod_pieces *pieces = (struct netmod_pieces *) req->arg;
    MPIDI_msg_sz_t size = 1 + (pieces->at * 7) % 20000;

    if (pieces->left == pieces->nests) {
        pieces->nested_buf = netmod_memory(77, 5000, MPI_BYTE, true);
        pieces->nested = nem_start(to, 1, pieces->nested_buf, 5000);
        nem_poll();
    }
    if (pieces->at == pieces->size) {
        *complete = 1;
        return MPID_Request_complete(req);
    }
    if (--pieces->left == 0 || size > pieces->size - pieces->at)
        size = pieces->size - pieces->at;
    req->dev.iov_offset = 0;
    req->dev.iov_count = 1;
    req->dev.iov[0].MPL_IOV_BUF = pieces->buf + pieces->at;
    req->dev.iov[0].MPL_IOV_LEN = (size_t) size;
    pieces->at += size;
    *complete = 0;
    return MPI_SUCCESS;
}

static void netmod_more_of(unsigned nests)
{
    struct netmod_pieces pieces;
    struct netmod_sent sent[8];
    MPID_Request *req;
    unsigned n;

    memset(&pieces, 0, sizeof(pieces));
    pieces.size = 300000;
    pieces.left = 50;
    pieces.nests = nests;
    pieces.buf = netmod_memory(0, pieces.size, MPI_BYTE, true);
    req = nem_send_by(vc, 1, pieces.size, netmod_next_piece, &pieces);
    /* These follow the last piece. That of the handler is the first, or comes
     * between them. */
    for (n = 0; n < LENGTH(sent); n++)
        sent[n] = netmod_send(n + 1, 100);
    netmod_receive(0, pieces.size);
    if (nests == 49)
        netmod_receive(77, 5000);
    for (n = 0; n < LENGTH(sent); n++)
        netmod_receive(n + 1, 100);
    if (nests != 49)
        netmod_receive(77, 5000);
    for (n = 0; n < LENGTH(sent); n++)
        netmod_sent(&sent[n]);
    HG_CHECK_EQ_INT(nem_wait(req), MPI_SUCCESS);
    HG_CHECK(pieces.nested_buf != NULL);
    if (pieces.nested != NULL)
        HG_CHECK_EQ_INT(nem_wait(pieces.nested), MPI_SUCCESS);
    free(pieces.nested_buf);
    free(pieces.buf);
}

/* First while the address is looked up: everything waits in the queue. Then the
 * first pieces are copied at once, and the handler sends between them. */
static void netmod_more(void)
{
    netmod_begin("get", 0, 0);
    netmod_more_of(20);
    netmod_more_of(49);
    netmod_close_and_end();
}

/* ---- Bad input ---- */

/* The peer is killed: what was started ends with an error. */
static void netmod_death(void)
{
    struct netmod_sent sent[4];
    unsigned char buf[10];
    char card[NEM_CARD_MAX];
    MPID_Request *recv;
    MPIDI_VC_t late;
    unsigned n;

    netmod_set("HG_NEMESIS_SILENCE", 2); /* libfabric reports no refusal */
    netmod_begin("get", 0, 0);
    netmod_rows(0, 4);
    if (rank == 1) {
        netmod_meet();
        (void) raise(SIGKILL);
    }
    hg_test_allow_log("");
    recv = nem_recv(vc, 99, buf, sizeof(buf), MPI_BYTE);
    netmod_meet();
    HG_CHECK(WIFSIGNALED(hg_test_wait(peer)));
    for (n = 0; n < LENGTH(sent); n++)
        sent[n] = netmod_send(12 + n % 2, 30000); /* by turns in both ways */
    HG_CHECK_EQ_INT(nem_wait(recv), MPIX_ERR_PROC_FAILED);
    HG_CHECK_EQ_INT(vc->state, MPIDI_VC_STATE_MORIBUND);
    for (n = 0; n < LENGTH(sent); n++) {
        int ret = sent[n].req != NULL ? nem_wait(sent[n].req) : MPI_SUCCESS;

        /* A message may have left; a large transfer has not ended. */
        HG_CHECK(ret == MPIX_ERR_PROC_FAILED || (n % 2 == 1 && ret == 0));
        free(sent[n].buf);
    }
    /* Nobody listens there any more. */
    (void) netmod_get_card(1, card);
    memset(&late, 0, sizeof(late));
    HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_init(&late, card), MPI_SUCCESS);
    HG_CHECK_EQ_INT(nem_wait(nem_send(&late, 1, buf, sizeof(buf), MPI_BYTE)),
        MPIX_ERR_PROC_FAILED);
    HG_CHECK_EQ_INT(late.terminated, 1);
    HG_CHECK_EQ_INT(MPIDI_nem_hg_funcs.vc_destroy(&late), MPI_SUCCESS);
    nem_finalize();
}

/* The peer ends without closing its VC: what it sent before is received, and
 * the next receive fails. More than the module has receives for. */
static void netmod_leave(void)
{
    struct netmod_sent sent[100];
    unsigned char byte;
    MPID_Request *recv;
    unsigned n;

    netmod_begin("get", 0, 0);
    netmod_rows(0, 4);
    netmod_meet(); /* both have confirmed the connection */
    for (n = 0; rank == 1 && n < LENGTH(sent); n++) {
        sent[n] = netmod_send(1, 100);
        netmod_sent(&sent[n]);
    }
    if (rank == 1) {
        netmod_end();
        return;
    }
    recv = nem_recv(vc, 9, &byte, 1, MPI_BYTE);
    hg_test_stop(peer);
    for (n = 0; n < LENGTH(sent); n++)
        netmod_receive(1, 100);
    HG_CHECK(!recv->is_complete); /* the end comes last */
    HG_CHECK_EQ_INT(nem_wait(recv), MPIX_ERR_PROC_FAILED);
    netmod_end();
}

/* Messages that no module sends. */
struct netmod_forged {
    uint64_t id;
    uint32_t from, number;
    char data[300];
};

static const struct netmod_bad {
    bool group; /* the id is that of the group */
    uint32_t from, number;
    size_t size;
    char fill; /* of the data */
} netmod_bad[] = {
    {true, 1, 0, 4, 0},                 /* a part of a header */
    {true, 1, 0, 16, 0},                /* no data */
    {false, 1, 0, 40, 0},               /* no such group */
    {true, 2, 0, 40, 0},                /* no such rank */
    {true, 1, 1000, 40, 0},             /* messages are missing */
    {true, UINT32_MAX, 1, 40, 0},       /* no such connection */
    {true, UINT32_MAX - 1, 1, 40, 0},   /* the same */
    {true, UINT32_MAX - 2, 0, 20, 0},   /* a connection without a card */
    {true, UINT32_MAX - 2, 0, 40, 'x'}, /* a card that does not end */
    {true, UINT32_MAX - 2, 0, 300, 0},  /* a card that is too long */
    {true, 0, 0, 40, 0},                /* a part of a packet, then */
    {true, 0, 0, 40, 0},                /* a new stream: one is lost */
};
#define NETMOD_PART (LENGTH(netmod_bad) - 2) /* this one is correct */

static na_return_t netmod_left(const struct na_cb_info *info)
{
    *(bool *) info->arg = true;
    HG_CHECK_OK(info->ret);
    return NA_SUCCESS;
}

/* Rank 0 counts each message before the next one is sent. */
static void netmod_send_forged(const char *address)
{
    char scheme[64];
    na_class_t *na_class;
    na_context_t *context;
    na_addr_t addr;
    unsigned i;

    (void) snprintf(scheme, sizeof(scheme), "%s://", hg_test_transport());
    na_class = NA_Initialize(scheme, NA_FALSE);
    HG_CHECK(na_class != NULL);
    context = NA_Context_create(na_class);
    HG_CHECK_OK(NA_Addr_lookup_wait(na_class, address, 5000, &addr));
    for (i = 0; i < LENGTH(netmod_bad); i++) {
        struct netmod_forged message = {
            netmod_bad[i].group ? UINT64_C(0xdc57e42946f6e08c) : 1,
            netmod_bad[i].from, netmod_bad[i].number, {0}};
        bool left = false;

        memset(message.data, netmod_bad[i].fill, sizeof(message.data));
        HG_CHECK_OK(NA_Msg_send_unexpected(na_class, context, netmod_left,
            &left, &message, netmod_bad[i].size, addr, 0, NA_OP_ID_IGNORE));
        while (!left) {
            (void) NA_Progress(na_class, context, 10);
            (void) NA_Trigger(context, 0, 1, NULL);
        }
        netmod_meet();
    }
    HG_CHECK_OK(NA_Addr_free(na_class, addr));
    HG_CHECK_OK(NA_Context_destroy(na_class, context));
    HG_CHECK_OK(NA_Finalize(na_class));
}

/* Poll until an error is returned. */
static void netmod_await_error(void)
{
    while (MPIDI_nem_hg_funcs.poll(MPID_NEM_POLL_IN) == MPI_SUCCESS)
        ;
}

static void netmod_hostile(void)
{
    char address[NA_MAX_ADDR_LEN], *line;
    unsigned i;

    netmod_begin("get", 0, 0);
    netmod_rows(0, 4);
    HG_CHECK_EQ_INT(
        MPIU_Str_get_string_arg(nem_card, "hg", address, sizeof(address)),
        MPIU_STR_SUCCESS);
    line = netmod_exchange(address);
    if (rank == 1)
        netmod_send_forged(line);
    for (i = 0; rank == 0 && i < LENGTH(netmod_bad); i++) {
        if (i != NETMOD_PART)
            netmod_await_error();
        netmod_meet();
    }
    free(line);
    netmod_rows(0, 4);
    netmod_close_and_end();
}

/* Announcements of large transfers with cookies that no module sends. */
struct netmod_cookie {
    uint64_t kind, offset, size;
    char handle[512];
};

static const struct {
    uint32_t shorter; /* by how much the handle is cut */
    uint64_t offset, size;
    bool breaks; /* the handle */
} netmod_cookies[] = {
    {1, 0, 5000, false}, /* a part of a handle */
    {0, 9, 5000, false}, /* does not begin at 0 */
    {0, 0, 0, false},    /* an empty window */
    {0, 0, 5000, true},
};

/* Write the handle of some memory; returns its size. */
static uint32_t netmod_handle(char *buf, size_t size)
{
    static char memory[5000];
    char scheme[64];
    na_class_t *na_class;
    na_mem_handle_t handle;
    na_size_t length;

    (void) snprintf(scheme, sizeof(scheme), "%s://", hg_test_transport());
    na_class = NA_Initialize(scheme, NA_TRUE);
    HG_CHECK(na_class != NULL);
    HG_CHECK_OK(NA_Mem_handle_create(
        na_class, memory, sizeof(memory), NA_MEM_READ_ONLY, &handle));
    HG_CHECK_OK(NA_Mem_register(na_class, handle));
    length = NA_Mem_handle_get_serialize_size(na_class, handle);
    HG_CHECK(length > 0 && length < size);
    HG_CHECK_OK(NA_Mem_handle_serialize(na_class, buf, size, handle));
    HG_CHECK_OK(NA_Mem_handle_free(na_class, handle));
    HG_CHECK_OK(NA_Finalize(na_class));
    return (uint32_t) length;
}

static void netmod_send_cookie(unsigned i)
{
    struct netmod_cookie cookie;
    MPIDI_CH3_Pkt_t pkt;
    uint32_t size;

    memset(&cookie, 0, sizeof(cookie));
    memset(&pkt, 0, sizeof(pkt));
    size = netmod_handle(cookie.handle, sizeof(cookie.handle));
    cookie.offset = netmod_cookies[i].offset;
    cookie.size = netmod_cookies[i].size;
    if (netmod_cookies[i].breaks)
        memset(cookie.handle, 0xff, size);
    size -= netmod_cookies[i].shorter;
    pkt.lmt_rts.type = MPIDI_NEM_PKT_LMT_RTS;
    pkt.lmt_rts.tag = 2;
    pkt.lmt_rts.data_sz = 5000;
    HG_CHECK_EQ_INT(
        nem_lmt_send_rts(vc, &pkt.lmt_rts, &cookie,
            (MPIDI_msg_sz_t) offsetof(struct netmod_cookie, handle) +
                (MPIDI_msg_sz_t) size),
        MPI_SUCCESS);
}

static void netmod_bad_cookies(void)
{
    static unsigned char buf[5000];
    unsigned i;

    netmod_begin("get", 0, 0);
    netmod_rows(0, 2);
    hg_test_allow_log("");
    for (i = 0; i < LENGTH(netmod_cookies); i++) {
        if (rank == 0)
            (void) nem_recv(vc, 2, buf, sizeof(buf), MPI_BYTE);
        netmod_meet();
        if (rank == 0)
            netmod_await_error();
        else
            netmod_send_cookie(i);
        netmod_meet();
    }
    netmod_rows(0, 2);
    nem_close(vc);
    nem_finalize(); /* the transfers fail */
}

/* Packets for a receive or for a large send that no module sends. */
static const struct {
    bool send;
    MPIDI_CH3_Pkt_type_t type;
    MPIDI_msg_sz_t data_sz, cookie_len; /* of CTS and COOKIE */
    uint32_t kind;                      /* of the cookie */
} netmod_packets[] = {
    {false, MPIDI_NEM_PKT_LMT_CTS, 0, 0, 0},     /* no transfer has begun */
    {false, MPIDI_NEM_PKT_LMT_DONE, 0, 0, 0},    /* the same */
    {false, MPIDI_NEM_PKT_LMT_COOKIE, 0, 24, 2}, /* the same */
    {true, MPIDI_NEM_PKT_LMT_CTS, 5001, 536, 0}, /* more than was announced */
    {true, MPIDI_NEM_PKT_LMT_CTS, 5000, 0, 0},   /* no window */
    {true, MPIDI_NEM_PKT_LMT_CTS, 5000, 23, 0},  /* a part of one */
    {true, MPIDI_NEM_PKT_LMT_DONE, 0, 0, 0},     /* the other side sends it */
    {true, MPIDI_NEM_PKT_LMT_COOKIE, 0, 23, 2},  /* a part of a cookie */
    {true, MPIDI_NEM_PKT_LMT_COOKIE, 0, 24, 2}, /* of a window: there is none */
};

static void netmod_send_packet(unsigned i, MPI_Request handle)
{
    struct netmod_cookie cookie;
    MPIDI_msg_sz_t length = netmod_packets[i].cookie_len;
    MPID_Request *sreq = NULL;
    MPIDI_CH3_Pkt_t pkt;

    memset(&cookie, 0, sizeof(cookie));
    memset(&pkt, 0, sizeof(pkt));
    cookie.kind = netmod_packets[i].kind;
    if (length == sizeof(cookie)) { /* a correct window */
        cookie.size = 5000;
        length -= (MPIDI_msg_sz_t) sizeof(cookie.handle);
        length += netmod_handle(cookie.handle, sizeof(cookie.handle));
    }
    pkt.type = netmod_packets[i].type;
    if (pkt.type == MPIDI_NEM_PKT_LMT_CTS) {
        pkt.lmt_cts.sender_req_id = handle;
        pkt.lmt_cts.data_sz = netmod_packets[i].data_sz;
        pkt.lmt_cts.cookie_len = length;
    } else if (pkt.type == MPIDI_NEM_PKT_LMT_DONE) {
        pkt.lmt_done.req_id = handle;
    } else {
        pkt.lmt_cookie.from_sender = !netmod_packets[i].send;
        pkt.lmt_cookie.sender_req_id = pkt.lmt_cookie.receiver_req_id = handle;
        pkt.lmt_cookie.cookie_len = length;
    }
    HG_CHECK_EQ_INT(
        vc->ch.iStartContigMsg(vc, &pkt, sizeof(pkt), &cookie, length, &sreq),
        MPI_SUCCESS);
    if (sreq != NULL)
        MPID_Request_release(sreq);
}

static void netmod_bad_packets(void)
{
    static unsigned char buf[5000];
    MPID_Request *reqs[2];
    char line[32], *other;
    int handles[2];
    unsigned i;

    netmod_begin("put", 0, 0);
    netmod_rows(0, 2);
    reqs[0] = nem_recv(vc, 8, buf, sizeof(buf), MPI_BYTE);
    reqs[1] = nem_send(vc, 9, buf, sizeof(buf), MPI_BYTE);
    (void) snprintf(
        line, sizeof(line), "%d %d", reqs[0]->handle, reqs[1]->handle);
    other = netmod_exchange(line);
    HG_CHECK(sscanf(other, "%d %d", &handles[0], &handles[1]) == 2);
    free(other);
    for (i = 0; i < LENGTH(netmod_packets); i++) {
        if (rank == 0)
            netmod_await_error();
        else
            netmod_send_packet(i, handles[netmod_packets[i].send]);
        netmod_meet();
    }
    nem_close(vc);
    nem_finalize();
}

/* ---- The cases ---- */

static const struct {
    const char *name;
    void (*run)(void);
} netmod_scenarios[] = {
    {"terminate", netmod_terminate},
    {"reuse", netmod_reuse},
    {"checkpoint", netmod_checkpoint},
    {"connect", netmod_connect},
    {"bad_cards", netmod_bad_cards},
    {"bad_start", netmod_bad_start},
    {"destroy", netmod_destroy},
    {"destroy_moving", netmod_destroy_moving},
    {"order", netmod_order},
    {"directions", netmod_directions},
    {"refused", netmod_refused},
    {"broken", netmod_broken},
    {"fragments", netmod_fragments},
    {"one_message", netmod_one_message},
    {"get", netmod_get},
    {"put", netmod_put},
    {"cooperative", netmod_cooperative},
    {"null", netmod_null},
    {"more", netmod_more},
    {"death", netmod_death},
    {"leave", netmod_leave},
    {"hostile", netmod_hostile},
    {"bad_cookies", netmod_bad_cookies},
    {"bad_packets", netmod_bad_packets},
};

static void netmod_run(const char *name)
{
    unsigned i = 0;

    while (strcmp(netmod_scenarios[i].name, name) != 0)
        i++;
    netmod_scenarios[i].run();
}

HG_TEST_ROLE(one)
{
    HG_CHECK_EQ_INT(argc, 1);
    rank = 1;
    netmod_run(argv[0]);
}

static void netmod_case(const char *name)
{
    peer = hg_test_spawn("one", name, NULL);
    netmod_run(name);
    if (strcmp(name, "death") != 0 && strcmp(name, "leave") != 0)
        hg_test_stop(peer);
}

HG_TEST(terminated_vc_sends_what_waits_and_is_used_again)
{
    netmod_case("terminate");
}

HG_TEST(closed_vc_is_used_again)
{
    netmod_case("reuse");
}

HG_TEST(ckpt_shutdown_and_init_keep_the_vcs)
{
    netmod_case("checkpoint");
}

HG_TEST(connect_to_root_needs_no_group)
{
    netmod_case("connect");
}

HG_TEST(bad_cards_are_refused)
{
    netmod_case("bad_cards");
}

HG_TEST(wrong_environment_is_refused)
{
    netmod_case("bad_start");
}

HG_TEST(destroyed_vc_fails_what_waits)
{
    netmod_case("destroy");
}

HG_TEST(destroyed_vc_fails_what_moves)
{
    netmod_case("destroy_moving");
}

HG_TEST(sends_keep_their_order_and_none_is_lost)
{
    netmod_case("order");
}

HG_TEST(both_directions_of_poll_send_and_receive)
{
    netmod_case("directions");
}

HG_TEST(refused_messages_are_sent_later)
{
    netmod_case("refused");
}

HG_TEST(broken_vc_fails_once)
{
    netmod_case("broken");
}

HG_TEST(fragments_have_any_size)
{
    netmod_case("fragments");
}

HG_TEST(data_of_64_kib_is_one_message)
{
    netmod_case("one_message");
}

HG_TEST(large_transfers_by_get)
{
    netmod_case("get");
}

HG_TEST(large_transfers_by_put)
{
    netmod_case("put");
}

HG_TEST(large_transfers_by_both_sides)
{
    netmod_case("cooperative");
}

HG_TEST(large_messages_without_lmt_functions)
{
    netmod_case("null");
}

HG_TEST(request_asks_for_more_data)
{
    netmod_case("more");
}

HG_TEST_WHERE(requests_to_a_dead_rank_fail, hg_test_reports_death)
{
    netmod_case("death");
}

HG_TEST_WHERE(messages_before_the_end_are_received, hg_test_reports_death)
{
    netmod_case("leave");
}

HG_TEST(forged_messages_are_refused)
{
    netmod_case("hostile");
}

HG_TEST(forged_cookies_are_refused)
{
    netmod_case("bad_cookies");
}

HG_TEST(forged_packets_are_refused)
{
    netmod_case("bad_packets");
}
