/* SPDX-License-Identifier: BSD-3-Clause */
/* See hook.h. Words, counts, faults; fabrics and domains. */
#define _GNU_SOURCE 1
#include "ofi/hook_parts.h"

#include "harness.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#define HOOK_NAMES 32

pthread_mutex_t hook_lock = PTHREAD_MUTEX_INITIALIZER;
struct hook_words hook_words;

static struct {
    const char *name;
    uint64_t count;
} hook_counts[HOOK_NAMES];
static uint64_t hook_faults; /* calls so far of the kind that must fail */
static uint64_t hook_state;  /* state of the random numbers */
static bool hook_started;
static unsigned hook_open; /* fabrics */
static pid_t hook_process; /* the process that started the hook, not a child */

void hook_violation(const char *format, ...)
{
    va_list args;

    flockfile(stderr);
    fprintf(stderr, "ofi-hook: violation: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
    signal(SIGABRT, SIG_DFL); /* a library of the provider may handle it */
    abort();
}

void *hook_alloc(size_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL)
        hg_test_fail("ofi-hook", "out of memory");
    return memory;
}

/* ---- Counters and random numbers ---- */

void hook_count(const char *name)
{
    unsigned i = 0;

    while (i + 1 < HOOK_NAMES && hook_counts[i].name != NULL &&
        strcmp(hook_counts[i].name, name) != 0)
        i++;
    hook_counts[i].name = name;
    hook_counts[i].count++;
}

uint64_t hg_test_ofi_count(const char *name)
{
    uint64_t count = 0;
    unsigned i;

    pthread_mutex_lock(&hook_lock);
    for (i = 0; i < HOOK_NAMES && hook_counts[i].name != NULL; i++)
        if (!strcmp(hook_counts[i].name, name))
            count = hook_counts[i].count;
    pthread_mutex_unlock(&hook_lock);
    return count;
}

void hook_opened(unsigned *children, int n)
{
    pthread_mutex_lock(&hook_lock);
    *children += (unsigned) n;
    pthread_mutex_unlock(&hook_lock);
}

uint64_t hook_random(void)
{
    return hg_test_random(&hook_state);
}

bool hook_chance(uint64_t n)
{
    return n != 0 && hook_random() % n == 0;
}

int hook_fault(const char *kind)
{
    bool any = !strcmp(hook_words.fault, "any") && strcmp(kind, "send") != 0 &&
        strcmp(kind, "short") != 0 && strcmp(kind, "rma") != 0;
    bool fails = false;

    if (!any && strcmp(hook_words.fault, kind) != 0)
        return 0;
    pthread_mutex_lock(&hook_lock);
    if (++hook_faults == hook_words.fault_at) {
        hook_count("fault");
        fails = true;
    }
    pthread_mutex_unlock(&hook_lock);
    return fails ? -hook_words.fault_errno : 0;
}

/* ---- Words ---- */

static uint64_t hook_number(const char *word, const char *text, char **end)
{
    uint64_t value = strtoull(text, end, 10);

    if (*end == text)
        hg_test_fail("ofi-hook", "no number in the word %s", word);
    return value;
}

/* KIND:N or KIND:N:ERRNO. */
static void hook_parse_fault(const char *word, const char *text)
{
    size_t length = strcspn(text, ":");
    char *end;

    if (text[length] != ':' || length >= sizeof hook_words.fault)
        hg_test_fail("ofi-hook", "%s is not KIND:N", word);
    memcpy(hook_words.fault, text, length);
    hook_words.fault_at = hook_number(word, text + length + 1, &end);
    hook_words.fault_errno = ENOMEM;
    if (*end == ':')
        hook_words.fault_errno = (int) hook_number(word, end + 1, &end);
}

static bool hook_parse_flag(const char *word)
{
    const struct {
        const char *word;
        uint64_t mr_mode;
        bool *flag;
    } known[] = {
        {"plain", 0, &hook_words.on},
        {"local", FI_MR_LOCAL, &hook_words.on},
        {"provkey", FI_MR_PROV_KEY, &hook_words.on},
        {"rawkey", FI_MR_RAW | FI_MR_PROV_KEY, &hook_words.on},
        {"virt", FI_MR_VIRT_ADDR, &hook_words.on},
        {"allocated", FI_MR_ALLOCATED, &hook_words.on},
        {"endpoint", FI_MR_ENDPOINT, &hook_words.on},
        {"offset", 0, &hook_words.offset},
        {"context", 0, &hook_words.context},
        {"order", 0, &hook_words.order},
        {"nowait", 0, &hook_words.nowait},
        {"manual", 0, &hook_words.manual},
        {"nodc", 0, &hook_words.nodc},
        {"authkey", 0, &hook_words.authkey},
    };
    size_t i;

    for (i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(known[i].word, word)) {
            hook_words.mr_mode |= known[i].mr_mode;
            *known[i].flag = true;
            return true;
        }
    return false;
}

static void hook_parse_word(const char *word)
{
    const char *value = strchr(word, '=');
    size_t length = value != NULL ? (size_t) (value - word) : 0;
    uint64_t number;
    char *end;

    if (value == NULL) {
        if (!hook_parse_flag(word))
            hg_test_fail("ofi-hook", "unknown word %s", word);
        return;
    }
    if (!strncmp(word, "fault=", 6)) {
        hook_parse_fault(word, value + 1);
        return;
    }
    number = hook_number(word, value + 1, &end);
    if (!strncmp(word, "inject", length))
        hook_words.inject = number;
    else if (!strncmp(word, "iov", length))
        hook_words.iov = number;
    else if (!strncmp(word, "msg", length))
        hook_words.msg = number;
    else if (!strncmp(word, "mriov", length))
        hook_words.mriov = number;
    else if (!strncmp(word, "again", length))
        hook_words.again = number;
    else if (!strncmp(word, "cqagain", length))
        hook_words.cqagain = number;
    else
        hg_test_fail("ofi-hook", "unknown word %s", word);
}

void hg_test_ofi_configure(const char *words)
{
    char word[64];
    size_t length;

    hook_started = true;
    hook_state = hg_test_seed();
    hook_faults = 0;
    memset(hook_counts, 0, sizeof hook_counts);
    memset(&hook_words, 0, sizeof hook_words);
    hook_words.inject = hook_words.iov = SIZE_MAX;
    hook_words.msg = hook_words.mriov = SIZE_MAX;
    while (words != NULL && *words != '\0') {
        length = strcspn(words, ",");
        if (length >= sizeof word)
            hg_test_fail("ofi-hook", "unknown word %s", words);
        memcpy(word, words, length);
        word[length] = '\0';
        hook_parse_word(word);
        hook_words.on = true;
        words += length + (words[length] == ',');
    }
    if (hook_words.mr_mode & FI_MR_VIRT_ADDR &&
        !(hook_words.mr_mode & FI_MR_PROV_KEY))
        hg_test_fail("ofi-hook", "virt without provkey or rawkey");
}

static void hook_at_exit(void)
{
    if (hook_open != 0 && getpid() == hook_process)
        hook_violation("%u fabrics were not closed", hook_open);
}

static void hook_configure_once(void)
{
    hook_process = getpid();
    if (atexit(hook_at_exit) != 0)
        hg_test_fail("ofi-hook", "atexit");
    if (!hook_started)
        hg_test_ofi_configure(getenv("HG_TEST_OFI"));
}

void hook_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, hook_configure_once);
}

/* ---- Domains ---- */

static int hook_domain_close(struct fid *fid)
{
    struct hook_domain *domain = (struct hook_domain *) fid;
    int ret;

    if (domain->mr_count != 0)
        hook_violation("a domain is closed before a memory region");
    if (domain->mapping_count != 0)
        hook_violation("a domain is closed before a raw key is unmapped");
    if (domain->open != 0)
        hook_violation(
            "a domain is closed before %u objects in it", domain->open);
    ret = fi_close(&domain->real->fid);
    if (ret != 0)
        return ret;
    hook_opened(&domain->fabric->open, -1);
    free(domain);
    return 0;
}

static int hook_domain_control(struct fid *fid, int command, void *arg)
{
    return hook_mr_control((struct hook_domain *) fid, command, arg);
}

static int hook_domain_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct hook_domain *domain = (struct hook_domain *) fid;

    return fi_domain_bind(domain->real, other, flags);
}

static struct fi_ops hook_domain_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = hook_domain_close,
    .bind = hook_domain_bind,
    .control = hook_domain_control,
};

static struct fi_ops_domain hook_domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = hook_av_open,
    .cq_open = hook_cq_open,
    .endpoint = hook_ep_open,
};

static int hook_domain_open(struct fid_fabric *fabric, struct fi_info *info,
    struct fid_domain **domain_p, void *context)
{
    struct hook_domain *domain;
    struct fi_info *real;
    int ret = hook_fault("domain");

    if (ret != 0)
        return ret;
    if ((hook_words.mr_mode & ~(uint64_t) info->domain_attr->mr_mode) != 0)
        hook_violation("fi_domain without mr_mode bits that were demanded");
    domain = (struct hook_domain *) hook_alloc(sizeof *domain);
    real = hook_info_real(info);
    ret = fi_domain(
        ((struct hook_fabric *) fabric)->real, real, &domain->real, context);
    domain->real_mr_mode = (uint64_t) real->domain_attr->mr_mode;
    fi_freeinfo(real);
    if (ret != 0) {
        free(domain);
        return ret;
    }
    domain->fid.fid.fclass = FI_CLASS_DOMAIN;
    domain->fid.fid.context = context;
    domain->fid.fid.ops = &hook_domain_fid_ops;
    domain->fid.ops = &hook_domain_ops;
    domain->fid.mr = &hook_mr_domain_ops;
    domain->mr_mode = domain->real_mr_mode | hook_words.mr_mode;
    domain->mr_iov_limit = info->domain_attr->mr_iov_limit;
    if (info->domain_attr->auth_key_size == HOOK_AUTH)
        memcpy(domain->auth, info->domain_attr->auth_key, HOOK_AUTH);
    else if (info->ep_attr->auth_key_size == HOOK_AUTH)
        memcpy(domain->auth, info->ep_attr->auth_key, HOOK_AUTH);
    domain->fabric = (struct hook_fabric *) fabric;
    hook_opened(&domain->fabric->open, 1);
    *domain_p = &domain->fid;
    return 0;
}

/* ---- Fabrics ---- */

static int hook_fabric_close(struct fid *fid)
{
    struct hook_fabric *fabric = (struct hook_fabric *) fid;
    int ret;

    if (fabric->open != 0)
        hook_violation("a fabric is closed before %u domains", fabric->open);
    ret = fi_close(&fabric->real->fid);
    if (ret != 0)
        return ret;
    hook_opened(&hook_open, -1);
    free(fabric);
    return 0;
}

static int hook_fabric_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr,
    struct fid_eq **eq_p, void *context)
{
    struct hook_fabric *fabric = (struct hook_fabric *) fid;

    return fi_eq_open(fabric->real, attr, eq_p, context);
}

/* Event queues are the provider's, completion queues are the hook's. */
static int hook_fabric_trywait(
    struct fid_fabric *fid, struct fid **fids, int count)
{
    struct hook_fabric *fabric = (struct hook_fabric *) fid;
    struct fid *real;
    int i, ret;

    for (i = 0; i < count; i++) {
        real = fids[i];
        if (real->fclass == FI_CLASS_CQ) {
            if (hook_cq_busy((struct hook_cq *) fids[i]))
                return -FI_EAGAIN;
            real = &((struct hook_cq *) fids[i])->real->fid;
        }
        ret = fi_trywait(fabric->real, &real, 1);
        if (ret != 0)
            return ret;
    }
    return 0;
}

static struct fi_ops hook_fabric_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = hook_fabric_close,
};

static struct fi_ops_fabric hook_fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = hook_domain_open,
    .eq_open = hook_fabric_eq_open,
    .trywait = hook_fabric_trywait,
};

int __real_fi_fabric(
    struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context);
int __wrap_fi_fabric(
    struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context);

int __wrap_fi_fabric(
    struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context)
{
    struct hook_fabric *fabric;
    int ret;

    hook_start();
    if (!hook_words.on)
        return __real_fi_fabric(attr, fabric_p, context);
    ret = hook_fault("fabric");
    if (ret != 0)
        return ret;
    fabric = (struct hook_fabric *) hook_alloc(sizeof *fabric);
    ret = __real_fi_fabric(attr, &fabric->real, context);
    if (ret != 0) {
        free(fabric);
        return ret;
    }
    fabric->fid.fid.fclass = FI_CLASS_FABRIC;
    fabric->fid.fid.context = context;
    fabric->fid.fid.ops = &hook_fabric_fid_ops;
    fabric->fid.ops = &hook_fabric_ops;
    fabric->fid.api_version = fabric->real->api_version;
    hook_opened(&hook_open, 1);
    *fabric_p = &fabric->fid;
    return 0;
}
