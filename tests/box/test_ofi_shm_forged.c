/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libfabric transport over shared memory, with introductions that carry
 * names no endpoint has. None is passed to libfabric, which would open files
 * with that name.
 */
#include "ofi_raw_peer.h"

#define SHM_RAW 113u /* bytes of a name, padded with zeros */
#define SHM_PREFIX "fi_ns://"

/* A bare endpoint of libfabric's shm that sends to a class. */
struct forger {
    struct conform_end server;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t at;
};

static void forger_open(struct forger *forger)
{
    struct fi_info *hints = fi_allocinfo();
    char name[NA_MAX_ADDR_LEN], raw[NA_MAX_ADDR_LEN + sizeof(SHM_PREFIX)];
    struct fi_cq_attr cq;
    struct fi_av_attr av;

    HG_CHECK_OK(HG_Set_log_level("debug")); /* so that every line is written */
    endpoint_open(&forger->server, "ofi+shm://*", 2000);
    endpoint_name(&forger->server, forger->server.self, name);
    (void) snprintf(raw, sizeof(raw), SHM_PREFIX "%s", strstr(name, "://") + 3);
    memset(&cq, 0, sizeof(cq));
    memset(&av, 0, sizeof(av));
    cq.format = FI_CQ_FORMAT_DATA;
    HG_CHECK(hints != NULL);
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->addr_format = FI_ADDR_STR;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("shm");
    HG_CHECK(
        !fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &forger->info));
    fi_freeinfo(hints);
    HG_CHECK(!fi_fabric(forger->info->fabric_attr, &forger->fabric, NULL) &&
        !fi_domain(forger->fabric, forger->info, &forger->domain, NULL) &&
        !fi_av_open(forger->domain, &av, &forger->av, NULL) &&
        !fi_cq_open(forger->domain, &cq, &forger->cq, NULL) &&
        !fi_endpoint(forger->domain, forger->info, &forger->ep, NULL) &&
        !fi_ep_bind(forger->ep, &forger->av->fid, 0) &&
        !fi_ep_bind(forger->ep, &forger->cq->fid, FI_TRANSMIT | FI_RECV) &&
        !fi_enable(forger->ep));
    HG_CHECK(fi_av_insert(forger->av, raw, 1, &forger->at, 0, NULL) == 1);
}

static void forger_close(struct forger *forger)
{
    HG_CHECK(!fi_close(&forger->ep->fid) && !fi_close(&forger->cq->fid) &&
        !fi_close(&forger->av->fid) && !fi_close(&forger->domain->fid) &&
        !fi_close(&forger->fabric->fid));
    fi_freeinfo(forger->info);
    conform_close(&forger->server);
}

static void forger_turn(struct forger *forger, uint64_t end, const char *what)
{
    struct fi_cq_data_entry entry;

    if (endpoint_ms() > end)
        hg_test_fail(HG_TEST_HERE, "%s is not refused", what);
    (void) fi_cq_read(forger->cq, &entry, 1);
    (void) conform_turn(forger->server.na_class, forger->server.context, 1);
}

/* A HELLO from an endpoint with these bytes as its address is refused. */
static void forger_refused(struct forger *forger, const unsigned char *raw,
    size_t size, const char *what)
{
    uint64_t before = NA_Get_counter(forger->server.na_class, "ofi_malformed");
    uint64_t end = endpoint_ms() + CONFORM_TIMEOUT;
    unsigned char bytes[HEADER + INTRO + 1 + 2 * SHM_RAW];
    struct fi_context2 context;

    memset(bytes, 0, sizeof(bytes));
    (void) raw_peer_header(bytes, KIND_HELLO, 0);
    raw_peer_put(bytes + HEADER, 8, 1 + before); /* incarnation */
    raw_peer_put(bytes + HEADER + 8, 8, 1);      /* token */
    raw_peer_put(bytes + HEADER + 16, 4, 2000);
    raw_peer_put(bytes + HEADER + 20, 2, size);
    raw_peer_put(bytes + HEADER + 22, 2, 1);
    memcpy(bytes + HEADER + INTRO + 1, raw, size);
    while (fi_send(forger->ep, bytes, HEADER + INTRO + 1 + size, NULL,
               forger->at, &context) == -FI_EAGAIN)
        forger_turn(forger, end, what);
    while (NA_Get_counter(forger->server.na_class, "ofi_malformed") == before)
        forger_turn(forger, end, what);
}

HG_TEST(forged_shm_names_are_refused)
{
    static const char *const names[] = {"", "fi_ns://", "nobody",
        "fi_xx://nobody", "fi_shm://nobody", "fi_ns:///nobody",
        "fi_ns://../nobody", "fi_ns://no body", "fi_ns://no\nbody",
        "fi_ns://nobod\x7f"};
    unsigned char raw[2 * SHM_RAW];
    struct forger forger;
    size_t i;

    hg_test_expect_log("its introduction is malformed");
    forger_open(&forger);
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        memset(raw, 0, sizeof(raw));
        memcpy(raw, names[i], strlen(names[i]));
        forger_refused(&forger, raw, SHM_RAW, names[i]);
    }
    memset(raw, 0, sizeof(raw));
    memcpy(raw, "fi_ns://nobody", 14);
    forger_refused(&forger, raw, SHM_RAW - 1, "a size that is small");
    forger_refused(&forger, raw, SHM_RAW + 1, "a size that is large");
    raw[SHM_RAW - 1] = 'x';
    forger_refused(&forger, raw, SHM_RAW, "an address without a last zero");
    memset(raw + 14, 'x', SHM_RAW - 14);
    forger_refused(&forger, raw, SHM_RAW, "a name without an end");
    raw[SHM_RAW - 1] = '\0';
    raw[8] = '/'; /* otherwise the longest valid name */
    forger_refused(&forger, raw, SHM_RAW, "a long name with a slash");
    HG_CHECK_EQ_U64(hg_test_log_count("its introduction is malformed"),
        NA_Get_counter(forger.server.na_class, "ofi_malformed"));
    forger_close(&forger);
}
