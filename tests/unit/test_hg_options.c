/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of a class of the callback model: which of them the layout of
 * each version has, and what they affect.
 */
#include "harness.h"
#include "support/library.h"

/* No value equals its default. */
static const struct hg_init_info options_all = {
    .na_init_info = {.ip_subnet = "192.0.2.0/24",
        .max_unexpected_size = 1000,
        .max_expected_size = 2000,
        .progress_mode = NA_NO_BLOCK,
        .addr_format = NA_ADDR_IPV6,
        .max_contexts = 3,
        .thread_mode = NA_THREAD_MODE_SINGLE,
        .request_mem_device = true},
    .request_post_init = 5000,
    .request_post_incr = -1,
    .checksum_level = HG_CHECKSUM_RPC_PAYLOAD,
    .no_bulk_eager = 1,
    .no_loopback = 1,
    .stats = 1,
    .no_multi_recv = 1,
    .release_input_early = 1,
    .traffic_class = NA_TC_BULK_DATA,
    .no_overflow = true,
    .multi_recv_op_max = 2,
    .multi_recv_copy_threshold = 1,
    .no_builtins = true,
    .histograms = true,
    .bulk_checksum = true};

/* The options of the network layer, which each version has. */
static void options_check_na(const struct hg_class *hg_class)
{
    const struct na_init_info *info =
        &na_class_core_of(hg_class->na_class)->info;

    HG_CHECK_EQ_STR(info->ip_subnet, "192.0.2.0/24");
    HG_CHECK_EQ_U64(hg_class->na_class->max_unexpected_size, 1000);
    HG_CHECK_EQ_U64(hg_class->na_class->max_expected_size, 2000);
    HG_CHECK_EQ_INT(info->wait_mode, NA_WAIT_SPIN);
    HG_CHECK_EQ_INT(info->addr_format, NA_ADDR_IPV6);
    HG_CHECK_EQ_INT(info->thread_mode, NA_THREAD_MODE_SINGLE);
    HG_CHECK(info->request_mem_device == NA_TRUE);
}

static void options_check(hg_class_t *hg_class, unsigned version)
{
    bool since_3 = version >= HG_ENDPOINT_VERSION(2, 3);
    bool since_4 = version >= HG_ENDPOINT_VERSION(2, 4);

    options_check_na(hg_class);
    HG_CHECK_EQ_INT(na_class_core_of(hg_class->na_class)->info.traffic_class,
        since_4 ? NA_TC_BULK_DATA : NA_TC_UNSPEC);
    HG_CHECK_EQ_INT(hg_class->max_contexts, 3);
    HG_CHECK(hg_class->stats);
    HG_CHECK_EQ_INT(hg_class->options.max_unanswered, 5000);
    HG_CHECK(!hg_class->options.no_checksum);
    HG_CHECK(hg_class->options.checksum_always);
    HG_CHECK_EQ_INT(hg_class->release_input_early, since_3);
    HG_CHECK_EQ_INT(hg_class->no_overflow, since_4);
    HG_CHECK_EQ_INT(hg_class->options.no_builtins, since_4);
    HG_CHECK_EQ_INT(hg_class->options.histograms, since_4);
    HG_CHECK(!hg_class->options.bulk_checksum);
}

HG_TEST(options_of_each_version_reach_the_class)
{
    static const unsigned versions[] = {HG_ENDPOINT_VERSION(2, 0),
        HG_ENDPOINT_VERSION(2, 2), HG_ENDPOINT_VERSION(2, 3),
        HG_ENDPOINT_VERSION(2, 4)};
    struct hg_init_info info = options_all;
    hg_class_t *hg_class;
    size_t i;

#if HG_ENABLE_SM
    /* The newest version has it: if it cannot be honored, it is refused. */
    hg_test_expect_log("bulk_checksum: ");
    HG_CHECK(HG_Init_opt2("sm://", HG_TRUE, versions[3], &info) == NULL);
#endif
    for (i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        info.bulk_checksum = i < 3;
        hg_class = HG_Init_opt2("self://", HG_TRUE, versions[i], &info);
        HG_CHECK(hg_class != NULL);
        options_check(hg_class, versions[i]);
        HG_CHECK_OK(HG_Finalize2(hg_class));
    }
    hg_class = HG_Init_opt("self://", HG_TRUE, &options_all);
    HG_CHECK(hg_class != NULL);
    options_check(hg_class, HG_ENDPOINT_VERSION(2, 2));
    HG_CHECK_OK(HG_Finalize2(hg_class));
}

/* Options that must be honored reach the transport, too. */
HG_TEST(options_about_access_reach_the_transport)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    info.na_init_info.auth_key = "any-user";
    hg_test_expect_log("does not support auth_key");
    HG_CHECK(HG_Init_opt("self://", HG_TRUE, &info) == NULL);
}
