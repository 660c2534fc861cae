/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order in which addresses of this host are chosen (plug/iface.h), as it is
 * compiled into the shipped hg_na_zmq.c; hg_na_ofi.c has the same. The program
 * contains that file, and gives it lists of addresses that no host has.
 * tests/conform/test_interfaces.c has real interfaces.
 */
#define hg_na_zmq_plugin hosts_plugin /* the library has the other one */
#include "../../hg_na_zmq.c"

#include "harness.h"

enum { HOSTS_RUNS = IFF_UP | IFF_RUNNING };

static void hosts_parse(const char *text, struct sockaddr_storage *address_p)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *) (void *) address_p;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) (void *) address_p;
    bool is_v6 = strchr(text, ':') != NULL;

    memset(address_p, 0, sizeof(*address_p));
    address_p->ss_family = is_v6 ? AF_INET6 : AF_INET;
    HG_CHECK(
        inet_pton(address_p->ss_family, text,
            is_v6 ? (void *) &v6->sin6_addr : (void *) &v4->sin_addr) == 1);
}

static unsigned hosts_rank(const char *text, unsigned flags, bool bridge)
{
    struct sockaddr_storage address;

    hosts_parse(text, &address);
    return na_plug_rank((const struct sockaddr *) &address, flags, bridge);
}

HG_TEST(hosts_are_ranked_by_their_use_to_others)
{
    static const struct {
        const char *text;
        unsigned flags;
        bool bridge;
    } best_first[] = {
        {"192.0.2.1", HOSTS_RUNS, false},
        {"2001:db8::1", HOSTS_RUNS, false},
        {"192.0.2.1", HOSTS_RUNS, true},
        {"2001:db8::1", HOSTS_RUNS, true},
        {"10.0.0.1", HOSTS_RUNS, false},
        {"fd00::1", HOSTS_RUNS, false},
        {"172.17.0.1", HOSTS_RUNS, true},
        {"fd00::1", HOSTS_RUNS, true},
        {"169.254.0.1", HOSTS_RUNS, false},
        {"169.254.0.1", HOSTS_RUNS, true},
        {"fe80::1", HOSTS_RUNS, false},
        {"fe80::1", HOSTS_RUNS, true},
        {"192.0.2.1", HOSTS_RUNS | IFF_LOOPBACK, false},
        {"127.0.0.1", HOSTS_RUNS | IFF_LOOPBACK, false},
        {"::1", HOSTS_RUNS | IFF_LOOPBACK, false},
        {"192.0.2.1", IFF_UP, false},
        {"10.0.0.1", IFF_UP, true},
        {"fe80::1", IFF_UP, true},
        {"127.0.0.1", IFF_UP | IFF_LOOPBACK, false},
        {"::1", IFF_UP | IFF_LOOPBACK, true},
    };
    struct sockaddr_storage none;
    unsigned before = 0, rank, i;

    for (i = 0; i < sizeof(best_first) / sizeof(best_first[0]); i++) {
        rank = hosts_rank(
            best_first[i].text, best_first[i].flags, best_first[i].bridge);
        HG_CHECK(i == 0 ? rank == 0 : rank > before);
        HG_CHECK(rank < NA_PLUG_RANK_END);
        before = rank;
    }
    HG_CHECK_EQ_INT(
        hosts_rank("192.0.2.1", IFF_RUNNING, false), NA_PLUG_RANK_END);
    HG_CHECK_EQ_INT(na_plug_rank(NULL, HOSTS_RUNS, false), NA_PLUG_RANK_END);
    memset(&none, 0, sizeof(none));
    none.ss_family = AF_UNIX;
    HG_CHECK_EQ_INT(
        na_plug_rank((const struct sockaddr *) &none, HOSTS_RUNS, false),
        NA_PLUG_RANK_END);
}

HG_TEST(scopes_end_at_the_last_address_of_their_range)
{
    static const struct {
        const char *text;
        enum na_plug_scope scope;
    } edges[] = {
        {"9.255.255.255", NA_PLUG_GLOBAL},
        {"10.0.0.0", NA_PLUG_SITE},
        {"10.255.255.255", NA_PLUG_SITE},
        {"11.0.0.0", NA_PLUG_GLOBAL},
        {"100.63.255.255", NA_PLUG_GLOBAL},
        {"100.64.0.0", NA_PLUG_SITE},
        {"100.127.255.255", NA_PLUG_SITE},
        {"100.128.0.0", NA_PLUG_GLOBAL},
        {"126.255.255.255", NA_PLUG_GLOBAL},
        {"127.0.0.0", NA_PLUG_HOST},
        {"127.255.255.255", NA_PLUG_HOST},
        {"128.0.0.0", NA_PLUG_GLOBAL},
        {"169.253.255.255", NA_PLUG_GLOBAL},
        {"169.254.0.0", NA_PLUG_LINK},
        {"169.254.255.255", NA_PLUG_LINK},
        {"169.255.0.0", NA_PLUG_GLOBAL},
        {"172.15.255.255", NA_PLUG_GLOBAL},
        {"172.16.0.0", NA_PLUG_SITE},
        {"172.31.255.255", NA_PLUG_SITE},
        {"172.32.0.0", NA_PLUG_GLOBAL},
        {"192.167.255.255", NA_PLUG_GLOBAL},
        {"192.168.0.0", NA_PLUG_SITE},
        {"192.168.255.255", NA_PLUG_SITE},
        {"192.169.0.0", NA_PLUG_GLOBAL},
        {"::1", NA_PLUG_HOST},
        {"::2", NA_PLUG_GLOBAL},
        {"fbff::1", NA_PLUG_GLOBAL},
        {"fc00::1", NA_PLUG_SITE},
        {"fdff::1", NA_PLUG_SITE},
        {"fe00::1", NA_PLUG_GLOBAL},
        {"fe7f::1", NA_PLUG_GLOBAL},
        {"fe80::1", NA_PLUG_LINK},
        {"febf::1", NA_PLUG_LINK},
        {"fec0::1", NA_PLUG_SITE},
        {"feff::1", NA_PLUG_SITE},
        {"ff00::1", NA_PLUG_GLOBAL},
    };
    struct sockaddr_storage address;
    size_t i;

    for (i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        hosts_parse(edges[i].text, &address);
        HG_CHECK_EQ_INT(na_plug_scope_of((const struct sockaddr *) &address),
            edges[i].scope);
    }
}

/* ---- The choice from a list ---- */

enum { HOSTS_MAX = 8 };

struct hosts_list {
    struct ifaddrs at[HOSTS_MAX];
    struct sockaddr_storage addresses[HOSTS_MAX];
    char offered[256]; /* in order, each with a blank behind it */
    const char *accepts;
};

/* Add an address of an interface that does not exist, so it is no bridge. */
static void hosts_add(
    struct hosts_list *list, const char *name, const char *text, unsigned flags)
{
    unsigned n = 0;

    while (list->at[n].ifa_name != NULL)
        n++;
    HG_CHECK(n < HOSTS_MAX);
    hosts_parse(text, &list->addresses[n]);
    list->at[n].ifa_name = (char *) (uintptr_t) name;
    list->at[n].ifa_addr = (struct sockaddr *) &list->addresses[n];
    list->at[n].ifa_flags = flags;
    if (n > 0)
        list->at[n - 1].ifa_next = &list->at[n];
}

static bool hosts_take(
    void *arg, const struct sockaddr *address, const char *numeric)
{
    struct hosts_list *list = (struct hosts_list *) arg;
    size_t used = strlen(list->offered);

    (void) address;
    (void) snprintf(
        list->offered + used, sizeof(list->offered) - used, "%s ", numeric);
    return list->accepts != NULL && strcmp(numeric, list->accepts) == 0;
}

/* Whether these are offered, in this order. */
static void hosts_offers(struct hosts_list *list,
    const struct na_plug_wanted *wanted, const char *accepts, const char *want)
{
    const struct ifaddrs *at;
    unsigned rank = NA_PLUG_RANK_END;
    char numeric[64];

    list->offered[0] = '\0';
    list->accepts = accepts;
    at = na_plug_choose(list->at, wanted, hosts_take, list, &rank);
    HG_CHECK_EQ_STR(list->offered, want);
    HG_CHECK((at != NULL) == (accepts != NULL));
    if (at == NULL)
        return;
    HG_CHECK(na_plug_numeric(at->ifa_addr, numeric, sizeof(numeric)));
    HG_CHECK_EQ_STR(numeric, accepts);
    HG_CHECK_EQ_INT(rank, na_plug_rank(at->ifa_addr, at->ifa_flags, false));
}

HG_TEST(hosts_are_offered_until_one_is_taken)
{
    struct hosts_list list;
    struct na_plug_wanted wanted;

    memset(&list, 0, sizeof(list));
    memset(&wanted, 0, sizeof(wanted));
    hosts_add(&list, "hg-lo", "127.0.0.1", HOSTS_RUNS | IFF_LOOPBACK);
    hosts_add(&list, "hg-lo", "192.0.2.9", HOSTS_RUNS | IFF_LOOPBACK);
    hosts_add(&list, "hg-off", "198.51.100.1", IFF_RUNNING);
    hosts_add(&list, "hg-dead", "198.51.100.2", IFF_UP);
    hosts_add(&list, "hg-a", "10.0.0.1", HOSTS_RUNS);
    hosts_add(&list, "hg-b", "10.0.0.2", HOSTS_RUNS);
    hosts_add(&list, "hg-b", "203.0.113.1", HOSTS_RUNS);
    hosts_add(&list, "hg-a", "2001:db8::1", HOSTS_RUNS);
    hosts_offers(&list, &wanted, NULL,
        "203.0.113.1 2001:db8::1 10.0.0.1 10.0.0.2 192.0.2.9 127.0.0.1 "
        "198.51.100.2 ");
    hosts_offers(
        &list, &wanted, "10.0.0.1", "203.0.113.1 2001:db8::1 10.0.0.1 ");
    wanted.name = "hg-dead";
    hosts_offers(&list, &wanted, "198.51.100.2", "198.51.100.2 ");
    wanted.name = NULL;
    wanted.family = AF_INET6;
    hosts_offers(&list, &wanted, "2001:db8::1", "2001:db8::1 ");
    wanted.family = 0;
    /* Loopback is what no other host reaches, not what its interface has. */
    wanted.loopback = true;
    hosts_offers(&list, &wanted, "127.0.0.1", "127.0.0.1 ");
    wanted.loopback = false;
    wanted.within = true;
    HG_CHECK(na_plug_parse_subnet("198.51.100.0/24", &wanted.subnet));
    hosts_offers(&list, &wanted, "198.51.100.2", "198.51.100.2 ");
    wanted.within = false;
    wanted.address = true;
    hosts_parse("10.0.0.2", &wanted.there);
    hosts_offers(&list, &wanted, "10.0.0.2", "10.0.0.2 ");
    hosts_parse("10.0.0.3", &wanted.there);
    hosts_offers(&list, &wanted, NULL, "");
}

/* ---- The time of a number ---- */

/* The shares of `count` numbers, in the order in which they are tried. */
static void hosts_check_shares(
    unsigned count, uint64_t left, unsigned attempts, const uint64_t *want)
{
    struct na_plug_query query;
    uint64_t share;
    unsigned i;

    memset(&query, 0, sizeof(query));
    HG_CHECK(!na_plug_has_next(NULL) && !na_plug_has_next(&query));
    query.count = count;
    HG_CHECK(!na_plug_has_next(&query));
    query.taken = true;
    for (i = 0; i < attempts; i++) {
        HG_CHECK(na_plug_has_next(&query));
        HG_CHECK(
            na_plug_next(&query, left, &share) == &query.numbers[i % count]);
        HG_CHECK_EQ_U64(share, want[i]);
        left -= share;
    }
    HG_CHECK(!na_plug_has_next(&query));
    HG_CHECK_EQ_U64(left, 0);
}

/* One that does not answer leaves the others time; the only good one may be
 * slow. */
HG_TEST(numbers_share_the_time_of_a_lookup)
{
    static const uint64_t one[] = {9000};
    static const uint64_t little[] = {100, 100, 100, 100};
    static const uint64_t much[] = {
        NA_PLUG_TRY_NS, NA_PLUG_TRY_NS, 4 * NA_PLUG_TRY_NS, 4 * NA_PLUG_TRY_NS};

    hosts_check_shares(1, 9000, 1, one);
    hosts_check_shares(2, 400, 4, little);
    hosts_check_shares(2, 10 * NA_PLUG_TRY_NS, 4, much);
}
