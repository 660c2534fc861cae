/* SPDX-License-Identifier: BSD-3-Clause */
/* The hook around libfabric: it demands what its words say, detects broken
 * rules, and accepts correct use. */
#define _GNU_SOURCE 1
#include "ofi/bare.h"
#include "ofi/hook.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOOK_ALL \
    "local,rawkey,virt,allocated,endpoint,context,inject=0,iov=1,msg=4096," \
    "mriov=1,again=3,cqagain=3,order,manual,nodc,authkey"
#define HOOK_MESSAGES 64
#define HOOK_LENGTH 64
#define HOOK_RECEIVE 4096 /* size of the receive buffer */

static struct bare hook_a, hook_b;

/* ---- Traffic ---- */

static struct fi_context2 hook_contexts[2 * HOOK_MESSAGES + 1];

static void hook_receive(struct bare *bare, void *context)
{
    struct iovec iov = {bare->memory, HOOK_RECEIVE};
    void *desc = fi_mr_desc(bare->mr);
    struct fi_msg msg;
    size_t least = HOOK_LENGTH;

    memset(&msg, 0, sizeof msg);
    msg.msg_iov = &iov;
    msg.desc = &desc;
    msg.iov_count = 1;
    msg.addr = FI_ADDR_UNSPEC;
    msg.context = context;
    HG_CHECK_EQ_INT(fi_setopt(&bare->ep->fid, FI_OPT_ENDPOINT,
                        FI_OPT_MIN_MULTI_RECV, &least, sizeof least),
        0);
    BARE_POST(bare, bare, fi_recvmsg(bare->ep, &msg, FI_MULTI_RECV));
}

/* Messages from a to b fill a multi-receive buffer of b. */
static void hook_send_all(void)
{
    char *bytes = hook_a.memory;
    unsigned i;

    hook_receive(&hook_b, &hook_contexts[2 * HOOK_MESSAGES]);
    for (i = 0; i < HOOK_MESSAGES; i++) {
        memset(bytes + i * HOOK_LENGTH, (int) i, HOOK_LENGTH);
        BARE_POST(&hook_a, &hook_b,
            fi_send(hook_a.ep, bytes + i * HOOK_LENGTH, HOOK_LENGTH,
                fi_mr_desc(hook_a.mr), hook_a.peer, &hook_contexts[i]));
    }
    while (hook_a.sends < HOOK_MESSAGES || hook_b.receives < HOOK_MESSAGES ||
        hook_b.releases == 0)
        bare_progress(&hook_a, &hook_b);
    HG_CHECK_EQ_MEM(hook_b.memory, hook_a.memory, HOOK_MESSAGES * HOOK_LENGTH);
}

/* b's memory in the form that a uses. */
static void hook_name(uint64_t *base_p, uint64_t *key_p)
{
    int mode = hook_b.info->domain_attr->mr_mode;
    uint8_t raw[24];
    size_t size = 0;

    *base_p = (mode & FI_MR_VIRT_ADDR) != 0 ? (uintptr_t) hook_b.memory : 0;
    *key_p = fi_mr_key(hook_b.mr);
    if ((mode & FI_MR_RAW) == 0)
        return;
    HG_CHECK_EQ_U64(*key_p, FI_KEY_NOTAVAIL);
    HG_CHECK_EQ_INT(
        fi_mr_raw_attr(hook_b.mr, base_p, raw, &size, 0), -FI_ETOOSMALL);
    HG_CHECK_EQ_U64(size, sizeof raw);
    HG_CHECK_EQ_INT(fi_mr_raw_attr(hook_b.mr, base_p, raw, &size, 0), 0);
    HG_CHECK_EQ_INT(
        fi_mr_map_raw(hook_a.domain, *base_p, raw, size, key_p, 0), 0);
    raw[3] ^= 1;
    HG_CHECK(fi_mr_map_raw(hook_a.domain, *base_p, raw, size, key_p, 0) < 0);
    if ((mode & FI_MR_VIRT_ADDR) == 0)
        *base_p = 0;
}

/* a writes to the end of b's memory, and reads that back. */
static void hook_rma(void)
{
    const unsigned to = BARE_SIZE - HOOK_MESSAGES * HOOK_LENGTH;
    const unsigned back = to - HOOK_MESSAGES * HOOK_LENGTH;
    struct fi_context2 *contexts = hook_contexts;
    uint64_t base, key;
    unsigned i, at;

    hook_name(&base, &key);
    for (i = 0; i < HOOK_MESSAGES; i++) {
        at = i * HOOK_LENGTH;
        memset(hook_a.memory + at, (int) (i + 100), HOOK_LENGTH);
        BARE_POST(&hook_a, &hook_b,
            fi_write(hook_a.ep, hook_a.memory + at, HOOK_LENGTH,
                fi_mr_desc(hook_a.mr), hook_a.peer, base + to + at, key,
                &contexts[i]));
    }
    while (hook_a.writes < HOOK_MESSAGES)
        bare_progress(&hook_a, &hook_b);
    for (i = 0; i < HOOK_MESSAGES; i++) {
        at = i * HOOK_LENGTH;
        BARE_POST(&hook_a, &hook_b,
            fi_read(hook_a.ep, hook_a.memory + back + at, HOOK_LENGTH,
                fi_mr_desc(hook_a.mr), hook_a.peer, base + to + at, key,
                &contexts[HOOK_MESSAGES + i]));
    }
    while (hook_a.reads < HOOK_MESSAGES)
        bare_progress(&hook_a, &hook_b);
    HG_CHECK_EQ_MEM(
        hook_a.memory + back, hook_a.memory, HOOK_MESSAGES * HOOK_LENGTH);
    HG_CHECK_EQ_INT(hook_a.errors + hook_b.errors, 0);
    if ((hook_a.info->domain_attr->mr_mode & FI_MR_RAW) != 0)
        HG_CHECK_EQ_INT(fi_mr_unmap_key(hook_a.domain, key), 0);
}

static void hook_traffic(const char *words)
{
    fprintf(stderr, "words: %s\n", words);
    hg_test_ofi_configure(words);
    bare_open_two(&hook_a, &hook_b);
    hook_send_all();
    hook_rma();
    bare_close(&hook_a);
    bare_close(&hook_b);
}

HG_TEST(hook_accepts_correct_use)
{
    static const char *const words[] = {"", "plain", "local", "provkey",
        "provkey,virt", "rawkey", "rawkey,virt", "offset", "allocated",
        "endpoint", "context", "again=3", "cqagain=3", "order", "nowait",
        "manual", "nodc", "authkey", HOOK_ALL, HOOK_ALL ",nowait"};
    size_t i;

    for (i = 0; i < sizeof words / sizeof words[0]; i++)
        hook_traffic(words[i]);
}

HG_TEST(hook_counts_its_actions)
{
    static const char *const names[] = {"send", "recv", "read", "write", "desc",
        "again", "cqagain", "shuffled", "split", "keys", "mapped", "unmapped",
        "translated", "enabled"};
    size_t i;

    hook_traffic("");
    for (i = 0; i < sizeof names / sizeof names[0]; i++)
        HG_CHECK_EQ_U64(hg_test_ofi_count(names[i]), 0);
    hook_traffic(HOOK_ALL);
    for (i = 0; i < sizeof names / sizeof names[0]; i++)
        if (hg_test_ofi_count(names[i]) == 0)
            hg_test_fail(HG_TEST_HERE, "%s did not happen", names[i]);
    HG_CHECK_EQ_U64(hg_test_ofi_count("send"), HOOK_MESSAGES);
    HG_CHECK(hg_test_ofi_count("desc") >= 3 * HOOK_MESSAGES + 1);
    HG_CHECK_EQ_U64(hg_test_ofi_count("fault"), 0);
}

HG_TEST(hook_keeps_message_order_on_request)
{
    hg_test_ofi_configure("order");
    bare_open_two(&hook_a, &hook_b);
    hook_send_all();
    HG_CHECK(hg_test_ofi_count("shuffled") > 0);
    HG_CHECK_EQ_INT(hook_b.backwards, 0);
    bare_close(&hook_a);
    bare_close(&hook_b);

    hook_b.unordered = true;
    bare_open_two(&hook_a, &hook_b);
    hook_send_all();
    HG_CHECK(hook_b.backwards > 0);
    bare_close(&hook_a);
    bare_close(&hook_b);
}

HG_TEST(hook_reports_limits_and_modes)
{
    const struct fi_info *info;

    hg_test_ofi_configure(HOOK_ALL);
    bare_open(&hook_a);
    info = hook_a.info;
    HG_CHECK_EQ_INT(info->domain_attr->mr_mode,
        FI_MR_LOCAL | FI_MR_RAW | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR |
            FI_MR_ALLOCATED | FI_MR_ENDPOINT);
    HG_CHECK_EQ_U64(info->domain_attr->mr_key_size, 24);
    HG_CHECK_EQ_U64(info->domain_attr->mr_iov_limit, 1);
    HG_CHECK_EQ_INT(info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
    HG_CHECK_EQ_U64(info->mode & FI_CONTEXT2, FI_CONTEXT2);
    HG_CHECK_EQ_U64(info->tx_attr->inject_size, 0);
    HG_CHECK_EQ_U64(info->tx_attr->iov_limit, 1);
    HG_CHECK_EQ_U64(info->tx_attr->rma_iov_limit, 1);
    HG_CHECK_EQ_U64(info->ep_attr->max_msg_size, 4096);
    HG_CHECK_EQ_U64(info->tx_attr->comp_order, 0);
    bare_close(&hook_a);
}

/* fi_getinfo's result for a caller that cannot meet the demands. */
static int hook_ask(const char *words, int mr_mode, uint64_t mode,
    uint64_t op_flags, const char *key)
{
    struct fi_info *hints, *info = NULL;
    int ret;

    hg_test_ofi_configure(words);
    hints = bare_hints(key, op_flags);
    hints->domain_attr->mr_mode = mr_mode;
    hints->mode = mode;
    ret = bare_getinfo(hints, NULL, &info);
    fi_freeinfo(info);
    return ret;
}

HG_TEST(hook_offers_nothing_if_hints_lack_its_demands)
{
    const int all = BARE_MR_MODE, none = -FI_ENODATA;
    const uint64_t context = FI_CONTEXT2, dc = FI_DELIVERY_COMPLETE;

    HG_CHECK_EQ_INT(hook_ask("local", all, 0, 0, NULL), 0);
    HG_CHECK_EQ_INT(hook_ask("local", all & ~FI_MR_LOCAL, 0, 0, NULL), none);
    HG_CHECK_EQ_INT(hook_ask("rawkey", all & ~FI_MR_RAW, 0, 0, NULL), none);
    HG_CHECK_EQ_INT(hook_ask("context", all, context, 0, NULL), 0);
    HG_CHECK_EQ_INT(hook_ask("context", all, 0, 0, NULL), none);
    HG_CHECK_EQ_INT(hook_ask("plain", all, 0, dc, NULL), 0);
    HG_CHECK_EQ_INT(hook_ask("nodc", all, 0, 0, NULL), 0);
    HG_CHECK_EQ_INT(hook_ask("nodc", all, 0, dc, NULL), none);
    /* Two names of one provider. */
    HG_CHECK_EQ_U64(hg_test_ofi_count("nodc"), 2);
    HG_CHECK_EQ_INT(hook_ask("authkey", all, 0, 0, "sixteen bytes ..."), none);
    HG_CHECK_EQ_INT(hook_ask("authkey", all, 0, 0, "sixteen bytes .."), 0);
}

/* ---- Rules ---- */

/* A child with these words must abort with a line that contains `part`. */
static void hook_expect(const char *words, void (*run)(void), const char *part)
{
    char text[4096];
    size_t size = 0;
    ssize_t got;
    int ends[2], status;
    pid_t pid;

    HG_CHECK_EQ_INT(pipe(ends), 0);
    pid = fork();
    HG_CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        hg_test_ofi_configure(words);
        bare_open_two(&hook_a, &hook_b);
        run();
        _exit(0);
    }
    close(ends[1]);
    while (size < sizeof text - 1 &&
        (got = read(ends[0], text + size, sizeof text - 1 - size)) > 0)
        size += (size_t) got;
    text[size] = '\0';
    close(ends[0]);
    HG_CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
    fprintf(stderr, "%s: %s", words, text);
    HG_CHECK(WIFSIGNALED(status));
    HG_CHECK_EQ_INT(WTERMSIG(status), SIGABRT);
    HG_CHECK(strstr(text, "ofi-hook: violation: ") != NULL);
    if (strstr(text, part) == NULL)
        hg_test_fail(HG_TEST_HERE, "no \"%s\"", part);
}

static void hook_send_one(void *bytes, size_t size, void *desc)
{
    BARE_POST(&hook_a, &hook_b,
        fi_send(hook_a.ep, bytes, size, desc, hook_a.peer, &hook_contexts[0]));
}

static void hook_send_without_desc(void)
{
    hook_send_one(hook_a.memory, 8, NULL);
}

static void hook_send_with_other_desc(void)
{
    hook_send_one(hook_a.memory, 8, fi_mr_desc(hook_b.mr));
}

static void hook_send_beyond_region(void)
{
    hook_send_one(hook_a.memory + BARE_SIZE - 7, 8, fi_mr_desc(hook_a.mr));
}

static void hook_send_from_closed_region(void)
{
    void *desc = fi_mr_desc(hook_a.mr);

    bare_close_fid(&hook_a.mr->fid);
    hook_send_one(hook_a.memory, 8, desc);
}

static void hook_send_without_access(void)
{
    struct fid_mr *mr;

    HG_CHECK_EQ_INT(bare_register(&hook_a, hook_a.memory, 8, FI_RECV, &mr), 0);
    hook_send_one(hook_a.memory, 8, fi_mr_desc(mr));
}

static void hook_receive_without_desc(void)
{
    (void) fi_recv(
        hook_a.ep, hook_a.memory, 8, NULL, FI_ADDR_UNSPEC, &hook_contexts[0]);
}

static void hook_read_without_desc(void)
{
    (void) fi_read(hook_a.ep, hook_a.memory, 8, NULL, hook_a.peer, 0, 0,
        &hook_contexts[0]);
}

static void hook_send_too_much(void)
{
    hook_send_one(hook_a.memory, 4097, fi_mr_desc(hook_a.mr));
}

static void hook_write_too_much(void)
{
    (void) fi_write(hook_a.ep, hook_a.memory, 4097, fi_mr_desc(hook_a.mr),
        hook_a.peer, 0, 0, &hook_contexts[0]);
}

static void hook_inject_too_much(void)
{
    (void) fi_inject(hook_a.ep, hook_a.memory, 9, hook_a.peer);
}

static void hook_send_too_many_pieces(void)
{
    struct iovec iov[2] = {{hook_a.memory, 8}, {hook_a.memory + 8, 8}};
    void *desc[2] = {NULL, NULL};

    (void) fi_sendv(hook_a.ep, iov, desc, 2, hook_a.peer, &hook_contexts[0]);
}

static void hook_read_too_many_pieces(void)
{
    struct iovec iov = {hook_a.memory, 16};
    struct fi_rma_iov rma[2] = {{0, 8, 0}, {8, 8, 0}};
    struct fi_msg_rma msg;

    memset(&msg, 0, sizeof msg);
    msg.msg_iov = &iov;
    msg.iov_count = 1;
    msg.addr = hook_a.peer;
    msg.rma_iov = rma;
    msg.rma_iov_count = 2;
    msg.context = &hook_contexts[0];
    (void) fi_readmsg(hook_a.ep, &msg, 0);
}

static void hook_register_too_many_pieces(void)
{
    struct iovec iov[2] = {{hook_a.memory, 8}, {hook_a.memory + 16, 8}};
    struct fid_mr *mr;

    (void) fi_mr_regv(
        hook_a.domain, iov, 2, FI_REMOTE_READ, 0, 77, 0, &mr, NULL);
}

static void hook_read_by_raw_key(void)
{
    (void) fi_read(hook_a.ep, hook_a.memory, 8, fi_mr_desc(hook_a.mr),
        hook_a.peer, 0, 77, &hook_contexts[0]);
}

static void hook_close_mapped(void)
{
    uint64_t base, key;

    hook_name(&base, &key);
    bare_close(&hook_a);
}

static void hook_close_domain_first(void)
{
    (void) fi_close(&hook_a.domain->fid);
}

static void hook_close_fabric_first(void)
{
    (void) fi_close(&hook_a.fabric->fid);
}

static void hook_exit_before_closing(void)
{
    exit(0);
}

static void hook_close_busy_region(void)
{
    hook_receive(&hook_a, &hook_contexts[0]);
    (void) fi_close(&hook_a.mr->fid);
}

static void hook_close_endpoint_first(void)
{
    (void) fi_close(&hook_a.ep->fid);
}

static void hook_use_unbound_region(void)
{
    struct fid_mr *mr;

    HG_CHECK_EQ_INT(fi_mr_reg(hook_a.domain, hook_a.memory, 8, FI_SEND, 0, 77,
                        0, &mr, NULL),
        0);
    HG_CHECK_EQ_U64(fi_mr_key(mr), FI_KEY_NOTAVAIL);
    hook_send_one(hook_a.memory, 8, fi_mr_desc(mr));
}

static void hook_enable_unbound_region(void)
{
    struct fid_mr *mr;

    HG_CHECK_EQ_INT(fi_mr_reg(hook_a.domain, hook_a.memory, 8, FI_SEND, 0, 77,
                        0, &mr, NULL),
        0);
    (void) fi_mr_enable(mr);
}

static void hook_send_to_removed(void)
{
    HG_CHECK_EQ_INT(fi_av_remove(hook_a.av, &hook_a.peer, 1, 0), 0);
    hook_send_one(hook_a.memory, 8, NULL);
}

/* Two messages that b has not received are in flight. */
static void hook_remove_busy(void)
{
    hook_send_one(hook_a.memory, 8, NULL);
    (void) fi_av_remove(hook_a.av, &hook_a.peer, 1, 0);
}

static void hook_write_to_context(void)
{
    hook_receive(&hook_b, &hook_contexts[1]);
    hook_send_one(hook_a.memory, 8, NULL);
    hook_contexts[0].internal[7] = &hook_a;
    for (;;)
        bare_progress(&hook_a, &hook_b);
}

static void hook_reuse_context(void)
{
    hook_receive(&hook_b, &hook_contexts[0]);
    hook_send_one(hook_a.memory, 8, NULL);
    for (;;)
        bare_progress(&hook_a, &hook_b);
}

HG_TEST(hook_detects_broken_rules)
{
    static const struct {
        const char *words;
        void (*run)(void);
        const char *part;
    } rules[] = {
        {"local", hook_send_without_desc, "without the descriptor"},
        {"local", hook_send_with_other_desc, "without the descriptor"},
        {"local", hook_send_from_closed_region, "without the descriptor"},
        {"local", hook_send_beyond_region, "outside of its descriptor's"},
        {"local", hook_send_without_access, "without the access"},
        {"local", hook_receive_without_desc, "without the descriptor"},
        {"local", hook_read_without_desc, "without the descriptor"},
        {"local,endpoint", hook_use_unbound_region, "region that is not ena"},
        {"endpoint", hook_enable_unbound_region, "enabled before it is bound"},
        {"endpoint", hook_close_endpoint_first, "closed before 1 regions"},
        {"msg=4096", hook_send_too_much, "send of 4097 bytes, of 4096"},
        {"msg=4096", hook_write_too_much, "write of 4097 bytes, of 4096"},
        {"inject=8", hook_inject_too_much, "9 bytes are injected, of 8"},
        {"iov=1", hook_send_too_many_pieces, "send of 2 pieces, of 1"},
        {"iov=1", hook_read_too_many_pieces, "read of 2 remote pieces, of 1"},
        {"mriov=1", hook_register_too_many_pieces, "of 2 pieces, of 1"},
        {"rawkey", hook_read_by_raw_key, "a key that is not mapped"},
        {"rawkey", hook_close_mapped, "before a raw key is unmapped"},
        {"plain", hook_close_domain_first, "a domain is closed before"},
        {"plain", hook_close_fabric_first, "a fabric is closed before 1"},
        {"plain", hook_exit_before_closing, "2 fabrics were not closed"},
        {"local", hook_close_busy_region, "closed with 1 operations in fl"},
        {"plain", hook_send_to_removed, "not in the vector"},
        {"plain", hook_remove_busy, "removed with 1 operations in flight"},
        {"context", hook_write_to_context, "a context was used"},
        {"context", hook_reuse_context, "a context was used"},
    };
    size_t i;

    for (i = 0; i < sizeof rules / sizeof rules[0]; i++)
        hook_expect(rules[i].words, rules[i].run, rules[i].part);
}

/* ---- Refusals of providers ---- */

/* RMA to a region fails before it is enabled, and succeeds afterwards. */
HG_TEST(hook_region_is_unreachable_until_enabled)
{
    struct fid_mr *mr;
    unsigned i;

    hg_test_ofi_configure("endpoint");
    bare_open_two(&hook_a, &hook_b);
    HG_CHECK_EQ_INT(fi_mr_reg(hook_b.domain, hook_b.memory, 8, FI_REMOTE_READ,
                        0, 7777, 0, &mr, NULL),
        0);
    for (i = 0; i < 2; i++) {
        BARE_POST(&hook_a, &hook_b,
            fi_read(
                hook_a.ep, hook_a.memory, 8, NULL, hook_a.peer, 0, 7777, NULL));
        while (hook_a.errors + hook_a.reads <= i)
            bare_progress(&hook_a, &hook_b);
        HG_CHECK_EQ_INT(hook_a.errors, 1);
        if (i == 0) {
            HG_CHECK_EQ_INT(fi_mr_bind(mr, &hook_b.ep->fid, 0), 0);
            HG_CHECK_EQ_INT(fi_mr_enable(mr), 0);
        }
    }
    HG_CHECK_EQ_INT(hook_a.reads, 1);
    bare_close_fid(&mr->fid);
    bare_close(&hook_a);
    bare_close(&hook_b);
}

HG_TEST(hook_refuses_memory_without_pages)
{
    size_t size = 1 << 20;
    void *memory = mmap(
        NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct fid_mr *mr;

    HG_CHECK(memory != MAP_FAILED);
    hg_test_ofi_configure("allocated");
    bare_open(&hook_a);
    HG_CHECK_EQ_INT(fi_mr_reg(hook_a.domain, memory, size, FI_REMOTE_READ, 0,
                        77, 0, &mr, NULL),
        0);
    bare_close_fid(&mr->fid);
    HG_CHECK_EQ_INT(munmap(memory, size), 0);
    HG_CHECK_EQ_INT(fi_mr_reg(hook_a.domain, memory, size, FI_REMOTE_READ, 0,
                        77, 0, &mr, NULL),
        -FI_EFAULT);
    bare_close(&hook_a);
}

HG_TEST(hook_separates_authorization_keys)
{
    static const char ours[] = "sixteen bytes ..", other[] = "of another kind.";
    unsigned same;

    for (same = 0; same < 2; same++) {
        hg_test_ofi_configure("authkey");
        HG_CHECK_EQ_INT(bare_open_key(&hook_a, ours), 0);
        HG_CHECK_EQ_INT(bare_open_key(&hook_b, same == 1 ? ours : other), 0);
        HG_CHECK_EQ_U64(hook_a.info->domain_attr->auth_key_size, BARE_AUTH);
        bare_meet(&hook_a, &hook_b);
        hook_receive(&hook_b, NULL);
        hook_send_one(hook_a.memory, 8, NULL);
        while (hook_a.sends + hook_a.errors == 0)
            bare_progress(&hook_a, &hook_b);
        HG_CHECK_EQ_INT(hook_a.errors, 1 - same);
        HG_CHECK_EQ_U64(hg_test_ofi_count("deaf"), 1 - same);
        while (same == 1 && hook_b.receives == 0)
            bare_progress(&hook_a, &hook_b);
        bare_close(&hook_a);
        bare_close(&hook_b);
    }
}

/* ---- Faults ---- */

/* Each open call fails once. */
HG_TEST(hook_fails_each_call_in_turn)
{
    char words[64];
    unsigned n = 0;
    int ret;

    do {
        (void) snprintf(
            words, sizeof words, "endpoint,fault=any:%u:%d", ++n, FI_EPERM);
        hg_test_ofi_configure(words);
        ret = bare_open_key(&hook_a, NULL);
        HG_CHECK_EQ_INT(ret, hg_test_ofi_count("fault") == 1 ? -FI_EPERM : 0);
        bare_close(&hook_a);
    } while (ret != 0);
    /* getinfo, fabric, domain, av, cq, getwait, ep, bind twice, enable, mr,
     * mrenable */
    HG_CHECK_EQ_INT(n - 1, 12);
}

HG_TEST(hook_fails_the_nth_operation)
{
    unsigned i;

    hg_test_ofi_configure("fault=send:2:5");
    bare_open_two(&hook_a, &hook_b);
    hook_receive(&hook_b, NULL);
    for (i = 0; i < 3; i++)
        BARE_POST(&hook_a, &hook_b,
            fi_send(hook_a.ep, hook_a.memory, 8, NULL, hook_a.peer,
                &hook_contexts[i]));
    while (hook_a.sends + hook_a.errors < 3 || hook_b.receives < 2) {
        bare_progress(&hook_a, &hook_b);
        if (hook_a.errors == 1 && hook_a.error != 0) {
            HG_CHECK_EQ_INT(hook_a.error, 5);
            hook_a.error = 0;
        }
    }
    HG_CHECK_EQ_INT(hook_a.errors, 1);
    bare_close(&hook_a);
    bare_close(&hook_b);
}

/* A caller that got -FI_EAGAIN, or has a completion to read, does not sleep. */
HG_TEST(hook_keeps_callers_awake)
{
    struct fid *fid;
    unsigned i;

    hg_test_ofi_configure("again=1");
    bare_open_two(&hook_a, &hook_b);
    fid = &hook_a.cq->fid;
    for (i = 0; i < 3; i++) {
        while (fi_trywait(hook_a.fabric, &fid, 1) != 0)
            (void) bare_poll(&hook_a);
        HG_CHECK_EQ_INT(
            fi_send(hook_a.ep, hook_a.memory, 8, NULL, hook_a.peer, NULL),
            -FI_EAGAIN);
        HG_CHECK_EQ_INT(fi_trywait(hook_a.fabric, &fid, 1), -FI_EAGAIN);
    }
    bare_close(&hook_a);
    bare_close(&hook_b);

    hg_test_ofi_configure("fault=send:1");
    bare_open_two(&hook_a, &hook_b);
    hook_send_one(hook_a.memory, 8, NULL);
    fid = &hook_a.cq->fid;
    for (i = 0; i < 3; i++)
        HG_CHECK_EQ_INT(fi_trywait(hook_a.fabric, &fid, 1), -FI_EAGAIN);
    HG_CHECK_EQ_INT(bare_poll(&hook_a), 1);
    HG_CHECK_EQ_INT(hook_a.errors, 1);
    bare_close(&hook_a);
    bare_close(&hook_b);
}

HG_TEST(hook_has_no_wait_object)
{
    hg_test_ofi_configure("nowait");
    bare_open(&hook_a);
    HG_CHECK_EQ_INT(hook_a.fd, -1);
    HG_CHECK_EQ_U64(hg_test_ofi_count("nowait"), 1);
    bare_close(&hook_a);
}
