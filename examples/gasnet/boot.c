/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot: see gasnet_hg.h.
 *
 * The environment says which node this is, and how it finds node 0:
 *
 *     GASNET_HG_RANK, _SIZE   rank and size; else the variables of mpirun, srun
 *     GASNET_HG_NA            where a node listens, such as "zmq+tcp://0.0.0.0"
 *     GASNET_HG_ROOT          the address of node 0
 *     GASNET_HG_FD            node 0: a descriptor that takes its address
 *     GASNET_HG_FILE          a new file that takes the address of node 0
 *     GASNET_HG_BOOT_MS       how long a node waits for the others
 *
 *     node 0                            nodes 1 to N - 1
 *       listen
 *       write FD or FILE -----------> ROOT, or FILE
 *       N - 1 cards     <------------ unexpected: rank, size, own address
 *       table of addresses ---------> expected, in pieces
 *                look all peers up
 *                exchange the names of the hosts
 *
 * Node 0 sends the table when it has all cards, and it receives nothing then.
 * So an active message of a fast node cannot be taken for a card. Over
 * mpi+static the addresses are the ranks: there are no cards.
 */
#define _GNU_SOURCE
#include "gasnet_hg.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BOOT_MS 60000u     /* default of GASNET_HG_BOOT_MS */
#define BOOT_READ_MS 1000u /* how often a file is read again */
#define BOOT_RETRY_MS 50u
#define BOOT_STEP_MS 100u /* one wait for progress */
/* A node may be stopped, or may compute for long. Its launcher notices its end
 * at once. */
#define BOOT_DEATH_MS 60000u
#define BOOT_QUEUE_BYTES (2u << 20) /* for each node */
#define BOOT_NODE_FDS 4u            /* descriptors that a peer takes */

/* The card that a node sends to node 0. All numbers are little endian. */
#define BOOT_MAGIC "GHB1"
#define BOOT_CARD_HEADER 12u /* magic, rank, size; the address follows */
#define BOOT_CARD_SIZE (BOOT_CARD_HEADER + NA_MAX_ADDR_LEN)

/* Operations in flight. */
struct boot_wait {
    size_t pending;
    na_return_t failure; /* of the last one that failed */
};

/* A message that is being received. */
struct boot_recv {
    na_class_t *na_class;
    na_return_t ret; /* NA_BUSY until it is there */
    size_t size;
    na_tag_t tag;
};

/* One lookup. */
struct boot_lookup {
    struct boot_wait *wait;
    na_addr_t *addr_p;
};

/* A start. It lives until the context is destroyed, since operations that did
 * not end in time refer to it. */
struct boot_run {
    struct gasnet_boot *boot;
    uint64_t end_ms;
    struct boot_wait wait;
    struct boot_recv recv;
    size_t most;                    /* bytes of the largest message */
    char (*table)[NA_MAX_ADDR_LEN]; /* the address of each node */
    struct boot_lookup *lookups;    /* of each node */
    uint64_t *names;                /* of the host of each node */
    uint64_t name;                  /* of this host */
    unsigned char card[BOOT_CARD_SIZE];
    char listen[NA_MAX_ADDR_LEN]; /* the address string of the class */
};

/* Where node 0 is. */
struct boot_root {
    const char *address; /* GASNET_HG_ROOT, or NULL */
    const char *path;    /* GASNET_HG_FILE, or NULL */
    int fd;              /* GASNET_HG_FD, or -1 */
};

/* ---- Words and time ---- */

static int boot_fail(const struct gasnet_boot *boot, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One line, in one write, so that the lines of several nodes stay whole. */
static int boot_fail(const struct gasnet_boot *boot, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void) vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void) fprintf(
        stderr, "gasnet: node %u of %u: %s\n", boot->rank, boot->size, text);
    return GASNET_ERR_RESOURCE;
}

static uint64_t boot_now_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static void boot_pause(void)
{
    const struct timespec pause = {0, BOOT_RETRY_MS * 1000000L};

    (void) nanosleep(&pause, NULL);
}

/* ---- Environment ---- */

/* An empty variable counts as missing. */
static const char *boot_text(const char *name)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? text : NULL;
}

static bool boot_number(const char *name, uint32_t *number_p)
{
    const char *text = getenv(name);
    unsigned long number;
    char *behind;

    if (text == NULL || *text < '0' || *text > '9')
        return false;
    errno = 0;
    number = strtoul(text, &behind, 10);
    if (errno != 0 || *behind != '\0' || number > UINT32_MAX)
        return false;
    *number_p = (uint32_t) number;
    return true;
}

/* Find rank and size, and whether mpirun or srun gave them. The order matters:
 * an mpirun inside a Slurm job also passes on Slurm's variables, which describe
 * the step and not the rank. */
static int boot_rank(struct gasnet_boot *boot, bool *foreign_p)
{
    static const char *const launchers[][2] = {
        {"GASNET_HG_RANK", "GASNET_HG_SIZE"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, /* Open MPI */
        {"PMI_RANK", "PMI_SIZE"},                         /* MPICH, Intel */
        {"SLURM_PROCID", "SLURM_NTASKS"}};
    size_t i;

    boot->rank = 0;
    boot->size = 1;
    *foreign_p = false;
    for (i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        /* A shell of Slurm without a step has the number of tasks only. */
        if (getenv(launchers[i][0]) == NULL &&
            (i > 0 || getenv(launchers[i][1]) == NULL))
            continue;
        if (!boot_number(launchers[i][0], &boot->rank) ||
            !boot_number(launchers[i][1], &boot->size))
            return boot_fail(boot, "%s and %s are not both numbers",
                launchers[i][0], launchers[i][1]);
        if (boot->size > GASNET_MAXNODES || boot->rank >= boot->size)
            return boot_fail(boot, "%s is not below %s, or that is above %u",
                launchers[i][0], launchers[i][1], GASNET_MAXNODES);
        *foreign_p = i > 0;
        return GASNET_OK;
    }
    return GASNET_OK;
}

static struct boot_root boot_find_root(void)
{
    struct boot_root root = {
        boot_text("GASNET_HG_ROOT"), boot_text("GASNET_HG_FILE"), -1};
    uint32_t fd;

    if (boot_number("GASNET_HG_FD", &fd) && fd <= INT32_MAX) {
        root.fd = (int) fd;
        /* Programs that this one executes must not keep it open. */
        (void) fcntl(root.fd, F_SETFD, FD_CLOEXEC);
        (void) unsetenv("GASNET_HG_FD");
    }
    return root;
}

/* The address string to listen on. Without GASNET_HG_NA it has the scheme of
 * node 0, and under mpirun it is that of MPI. */
static void boot_listen_string(const struct gasnet_boot *boot,
    const struct boot_root *root, bool foreign, char text[NA_MAX_ADDR_LEN])
{
    const char *given = boot_text("GASNET_HG_NA");
    const char *scheme = "sm://";
    int length;

    if (root->address != NULL && boot->rank == 0 && root->fd < 0)
        given = root->address;
    if (given == NULL && root->address != NULL)
        scheme = root->address;
    else if (given == NULL && foreign && root->path == NULL)
        scheme = "mpi+static://";
    length = (int) strcspn(scheme, ":");
    if (given != NULL)
        (void) snprintf(text, NA_MAX_ADDR_LEN, "%s", given);
    else
        (void) snprintf(text, NA_MAX_ADDR_LEN, "%.*s://", length, scheme);
}

/* ---- Class ---- */

/* Peers take descriptors: allow for all of them, if the hard limit does. */
static void boot_allow_descriptors(const struct gasnet_boot *boot)
{
    rlim_t wanted = 256 + (rlim_t) boot->size * BOOT_NODE_FDS;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    (void) setrlimit(RLIMIT_NOFILE, &limit);
}

void gasnet_boot_stop(struct gasnet_boot *boot)
{
    uint32_t i;

    for (i = 0; boot->addrs != NULL && i < boot->size; i++)
        if (boot->addrs[i] != NA_ADDR_NULL)
            (void) NA_Addr_free(boot->na_class, boot->addrs[i]);
    if (boot->context != NULL)
        (void) NA_Context_destroy(boot->na_class, boot->context);
    if (boot->na_class != NULL)
        (void) NA_Finalize(boot->na_class);
    free(boot->addrs);
    free(boot->hosts);
    memset(boot, 0, sizeof(*boot));
}

/* ---- Waiting ---- */

/* Count an operation that was started with the result `ret`. */
static void boot_started(struct boot_wait *wait, na_return_t ret)
{
    if (ret == NA_SUCCESS)
        wait->pending++;
    else
        wait->failure = ret;
}

static na_return_t boot_on_done(const struct na_cb_info *done)
{
    struct boot_wait *wait = (struct boot_wait *) done->arg;

    wait->pending--;
    if (done->ret != NA_SUCCESS)
        wait->failure = done->ret;
    return NA_SUCCESS;
}

static void boot_progress(struct gasnet_boot *boot)
{
    (void) NA_Progress(boot->na_class, boot->context, BOOT_STEP_MS);
    while (NA_Trigger(boot->context, 0, 1, NULL) == NA_SUCCESS)
        continue;
}

/* Make progress until no operation is in flight, one failed, or the time is
 * over. Returns whether all succeeded. */
static bool boot_wait(
    struct gasnet_boot *boot, struct boot_wait *wait, uint64_t end_ms)
{
    while (wait->pending > 0 && wait->failure == NA_SUCCESS) {
        boot_progress(boot);
        if (wait->pending > 0 && boot_now_ms() >= end_ms)
            wait->failure = NA_TIMEOUT;
    }
    return wait->failure == NA_SUCCESS;
}

static na_return_t boot_on_recv(const struct na_cb_info *done)
{
    struct boot_recv *recv = (struct boot_recv *) done->arg;

    recv->ret = done->ret;
    if (done->ret != NA_SUCCESS)
        return NA_SUCCESS;
    if (done->type == NA_CB_RECV_EXPECTED) {
        recv->size = done->info.recv_expected.actual_buf_size;
        return NA_SUCCESS;
    }
    recv->size = done->info.recv_unexpected.actual_buf_size;
    recv->tag = done->info.recv_unexpected.tag;
    return NA_Addr_free(recv->na_class, done->info.recv_unexpected.source);
}

/* Wait for the message whose receive was started with the result `ret`. */
static na_return_t boot_wait_recv(struct boot_run *run, na_return_t ret)
{
    if (ret != NA_SUCCESS)
        return ret;
    while (run->recv.ret == NA_BUSY) {
        boot_progress(run->boot);
        if (run->recv.ret == NA_BUSY && boot_now_ms() >= run->end_ms)
            return NA_TIMEOUT;
    }
    return run->recv.ret;
}

/* ---- Node 0 becomes known ---- */

/* Write a new file and rename it, so that readers never see a part of it. */
static bool boot_write_file(const char *path, const char *address)
{
    char fresh[4096];
    FILE *file = NULL;
    bool written;

    if (snprintf(fresh, sizeof(fresh), "%s.new", path) < (int) sizeof(fresh))
        file = fopen(fresh, "we");
    else
        errno = ENAMETOOLONG;
    written = file != NULL && fprintf(file, "%s\n", address) > 0;
    if (file != NULL && fclose(file) != 0)
        written = false;
    if (written && rename(fresh, path) == 0)
        return true;
    if (file != NULL)
        (void) unlink(fresh);
    return false;
}

static int boot_publish(
    struct gasnet_boot *boot, const struct boot_root *root, const char *address)
{
    char line[NA_MAX_ADDR_LEN + 1];
    int length = snprintf(line, sizeof(line), "%s\n", address);

    if (root->path != NULL && !boot_write_file(root->path, address))
        return boot_fail(boot, "%s: %s", root->path, strerror(errno));
    if (root->fd < 0)
        return GASNET_OK;
    if (write(root->fd, line, (size_t) length) != length)
        return boot_fail(boot, "cannot write its address to descriptor %d: %s",
            root->fd, strerror(errno));
    (void) close(root->fd);
    return GASNET_OK;
}

static bool boot_read_file(const char *path, char address[NA_MAX_ADDR_LEN])
{
    FILE *file = fopen(path, "re");
    bool read = file != NULL && fgets(address, NA_MAX_ADDR_LEN, file) != NULL;

    if (file != NULL)
        (void) fclose(file);
    if (read)
        address[strcspn(address, "\n")] = '\0';
    return read;
}

/* Look node 0 up. It may start later. A file may be missing, or may have the
 * address of an earlier job, so it is read again and again. */
static int boot_find(struct boot_run *run, const struct boot_root *root)
{
    struct gasnet_boot *boot = run->boot;
    char address[NA_MAX_ADDR_LEN] = "";
    na_return_t ret = NA_TIMEOUT;
    uint64_t now;

    while (ret == NA_TIMEOUT && (now = boot_now_ms()) < run->end_ms) {
        uint64_t wait_ms = run->end_ms - now;

        if (root->address != NULL)
            (void) snprintf(address, sizeof(address), "%s", root->address);
        else if (!boot_read_file(root->path, address)) {
            boot_pause();
            continue;
        } else if (wait_ms > BOOT_READ_MS)
            wait_ms = BOOT_READ_MS;
        ret = NA_Addr_lookup_listener(
            boot->na_class, address, (unsigned int) wait_ms, &boot->addrs[0]);
        if (ret == NA_INTR)
            ret = NA_TIMEOUT;
    }
    if (ret == NA_SUCCESS)
        return GASNET_OK;
    if (*address == '\0')
        return boot_fail(
            boot, "%s: node 0 did not write its address", root->path);
    return boot_fail(boot, "cannot reach node 0 at %s: %s", address,
        NA_Error_to_string(ret));
}

/* ---- Cards and table ---- */

static void boot_put_u32(unsigned char *to, uint32_t value)
{
    unsigned i;

    for (i = 0; i < 4; i++)
        to[i] = (unsigned char) (value >> (8 * i));
}

static uint32_t boot_get_u32(const unsigned char *from)
{
    uint32_t value = 0;
    unsigned i;

    for (i = 0; i < 4; i++)
        value |= (uint32_t) from[i] << (8 * i);
    return value;
}

static int boot_own_address(
    const struct gasnet_boot *boot, char address[NA_MAX_ADDR_LEN])
{
    if (NA_Addr_to_string(boot->na_class, address, NA_MAX_ADDR_LEN,
            boot->addrs[boot->rank]) == NA_SUCCESS)
        return GASNET_OK;
    return boot_fail(boot, "its own address has no text");
}

/* Send this node's card to node 0. */
static int boot_send_card(struct boot_run *run)
{
    struct gasnet_boot *boot = run->boot;
    char *address = (char *) run->card + BOOT_CARD_HEADER;

    memcpy(run->card, BOOT_MAGIC, 4);
    boot_put_u32(run->card + 4, boot->rank);
    boot_put_u32(run->card + 8, boot->size);
    if (boot_own_address(boot, address) != GASNET_OK)
        return GASNET_ERR_RESOURCE;
    boot_started(&run->wait,
        NA_Msg_send_unexpected(boot->na_class, boot->context, boot_on_done,
            &run->wait, run->card, BOOT_CARD_HEADER + strlen(address) + 1,
            boot->addrs[0], GASNET_HG_TAG_BOOT, NA_OP_ID_IGNORE));
    if (boot_wait(boot, &run->wait, run->end_ms))
        return GASNET_OK;
    return boot_fail(boot, "cannot send its address to node 0: %s",
        NA_Error_to_string(run->wait.failure));
}

/* Store the address of a card in the table. A message of a program that is no
 * node of this job is reported and dropped. */
static bool boot_take_card(struct boot_run *run)
{
    const unsigned char *card = run->card;
    size_t size = run->recv.size;
    uint32_t rank, nodes;

    if (size <= BOOT_CARD_HEADER + 1 || run->recv.tag != GASNET_HG_TAG_BOOT ||
        memcmp(card, BOOT_MAGIC, 4) != 0 || card[BOOT_CARD_HEADER] == '\0' ||
        card[size - 1] != '\0') {
        (void) boot_fail(run->boot, "dropped a message of another program");
        return false;
    }
    rank = boot_get_u32(card + 4);
    nodes = boot_get_u32(card + 8);
    if (nodes != run->boot->size || rank >= nodes ||
        run->table[rank][0] != '\0') {
        (void) boot_fail(run->boot,
            "dropped node %u of %u: it is of another job, or started twice; "
            "do two jobs have the same GASNET_HG_ROOT or GASNET_HG_FILE?",
            rank, nodes);
        return false;
    }
    (void) snprintf(run->table[rank], NA_MAX_ADDR_LEN, "%s",
        (const char *) card + BOOT_CARD_HEADER);
    return true;
}

/* Node 0: receive the cards of all other nodes. */
static int boot_collect(struct boot_run *run)
{
    struct gasnet_boot *boot = run->boot;
    uint32_t left = boot->size - 1;
    na_return_t ret = NA_SUCCESS;
    uint32_t first = 0;

    while (left > 0 && (ret == NA_SUCCESS || ret == NA_MSGSIZE)) {
        run->recv.ret = NA_BUSY;
        ret = boot_wait_recv(run,
            NA_Msg_recv_unexpected(boot->na_class, boot->context, boot_on_recv,
                &run->recv, run->card, sizeof(run->card), NA_OP_ID_IGNORE));
        if (ret == NA_MSGSIZE)
            (void) boot_fail(boot, "dropped a message of another program");
        else if (ret == NA_SUCCESS && boot_take_card(run))
            left--;
    }
    if (left == 0)
        return GASNET_OK;
    while (run->table[first][0] != '\0')
        first++;
    return boot_fail(boot, "%u of the nodes did not come, such as node %u: %s",
        left, first, NA_Error_to_string(ret));
}

/* Node 0: send the strings of the table to all, one behind the other. */
static int boot_send_table(struct boot_run *run)
{
    struct gasnet_boot *boot = run->boot;
    char *strings = run->table[0];
    size_t size = 0;
    size_t at, piece;
    uint32_t i;

    for (i = 0; i < boot->size; i++) {
        size_t length = strlen(run->table[i]) + 1;

        memmove(strings + size, run->table[i], length);
        size += length;
    }
    for (at = 0; at < size; at += piece) {
        piece = size - at < run->most ? size - at : run->most;
        for (i = 1; i < boot->size && run->wait.failure == NA_SUCCESS; i++)
            boot_started(&run->wait,
                NA_Msg_send_expected(boot->na_class, boot->context,
                    boot_on_done, &run->wait, strings + at, piece,
                    boot->addrs[i], GASNET_HG_TAG_BOOT, NA_OP_ID_IGNORE));
        if (!boot_wait(boot, &run->wait, run->end_ms))
            return boot_fail(boot, "cannot send the addresses to all nodes: %s",
                NA_Error_to_string(run->wait.failure));
    }
    return GASNET_OK;
}

/* Give each string of `size` bytes its row in the table, if all are there.
 * Returns how many there are; UINT32_MAX: the table is malformed. The strings
 * are at the begin of the table: the last one moves first. */
static uint32_t boot_unpack(struct boot_run *run, size_t size)
{
    const char *strings = run->table[0];
    uint32_t count = 0;
    uint32_t row;
    size_t at;

    for (at = 0; at < size; at++)
        count += strings[at] == '\0';
    if (count < run->boot->size)
        return count;
    if (count > run->boot->size || strings[size - 1] != '\0')
        return UINT32_MAX;
    for (row = count, at = size; row-- > 0;) {
        size_t end = at;

        for (at--; at > 0 && strings[at - 1] != '\0'; at--)
            continue;
        if (end - at > NA_MAX_ADDR_LEN)
            return UINT32_MAX;
        memmove(run->table[row], strings + at, end - at);
    }
    return count;
}

/* Receive the table from node 0. */
static int boot_recv_table(struct boot_run *run)
{
    struct gasnet_boot *boot = run->boot;
    unsigned char *to = (unsigned char *) run->table;
    size_t space = boot->size * sizeof(*run->table);
    size_t size = 0;
    uint32_t count = 0;
    na_return_t ret = NA_SUCCESS;

    while (ret == NA_SUCCESS && count < boot->size && size < space) {
        run->recv.ret = NA_BUSY;
        ret = boot_wait_recv(run,
            NA_Msg_recv_expected(boot->na_class, boot->context, boot_on_recv,
                &run->recv, to + size, space - size, boot->addrs[0],
                GASNET_HG_TAG_BOOT, NA_OP_ID_IGNORE));
        if (ret == NA_SUCCESS) {
            size += run->recv.size;
            count = boot_unpack(run, size);
        }
    }
    if (count == boot->size)
        return GASNET_OK;
    return boot_fail(boot, "no addresses of the other nodes from node 0: %s",
        NA_Error_to_string(ret != NA_SUCCESS ? ret : NA_PROTOCOL_ERROR));
}

/* ---- Peers ---- */

static na_return_t boot_on_lookup(const struct na_cb_info *done)
{
    struct boot_lookup *lookup = (struct boot_lookup *) done->arg;

    lookup->wait->pending--;
    if (done->ret == NA_SUCCESS)
        *lookup->addr_p = done->info.lookup.addr;
    else
        lookup->wait->failure = done->ret;
    return NA_SUCCESS;
}

/* Look up all peers that have no address yet, all at the same time. Each node
 * begins with the one behind it, so that they do not all ask the same one. */
static int boot_look_up(struct boot_run *run)
{
    struct gasnet_boot *boot = run->boot;
    uint32_t i, peer;

    for (i = 1; i < boot->size && run->wait.failure == NA_SUCCESS; i++) {
        peer = (boot->rank + i) % boot->size;
        run->lookups[peer].wait = &run->wait;
        run->lookups[peer].addr_p = &boot->addrs[peer];
        if (boot->addrs[peer] == NA_ADDR_NULL)
            boot_started(&run->wait,
                NA_Addr_lookup(boot->na_class, boot->context, boot_on_lookup,
                    &run->lookups[peer], run->table[peer], NA_OP_ID_IGNORE));
    }
    if (boot_wait(boot, &run->wait, run->end_ms))
        return GASNET_OK;
    for (peer = 0; boot->addrs[peer] != NA_ADDR_NULL; peer++)
        continue;
    return boot_fail(boot, "cannot reach all nodes, such as node %u at %s: %s",
        peer, run->table[peer], NA_Error_to_string(run->wait.failure));
}

/* Start to send `mine` to all, and to receive theirs. */
static void boot_start_exchange(struct gasnet_boot *boot,
    struct boot_wait *wait, const void *mine, size_t size, void *all)
{
    uint32_t i, peer;

    memcpy((char *) all + boot->rank * size, mine, size);
    for (i = 1; i < boot->size && wait->failure == NA_SUCCESS; i++) {
        peer = (boot->rank + i) % boot->size;
        boot_started(wait,
            NA_Msg_recv_expected(boot->na_class, boot->context, boot_on_done,
                wait, (char *) all + peer * size, size, boot->addrs[peer],
                GASNET_HG_TAG_BOOT, NA_OP_ID_IGNORE));
    }
    for (i = 1; i < boot->size && wait->failure == NA_SUCCESS; i++) {
        peer = (boot->rank + i) % boot->size;
        boot_started(wait,
            NA_Msg_send_expected(boot->na_class, boot->context, boot_on_done,
                wait, mine, size, boot->addrs[peer], GASNET_HG_TAG_BOOT,
                NA_OP_ID_IGNORE));
    }
}

int gasnet_boot_exchange(
    struct gasnet_boot *boot, const void *mine, size_t size, void *all)
{
    /* Not on the stack: after a failure, completions still refer to it. */
    static struct boot_wait wait;

    boot_start_exchange(boot, &wait, mine, size, all);
    if (boot_wait(boot, &wait, UINT64_MAX))
        return GASNET_OK;
    return boot_fail(
        boot, "a node was lost: %s", NA_Error_to_string(wait.failure));
}

/* A number for this host: the host's name, and the boot of its kernel. */
static uint64_t boot_host_name(void)
{
    char text[256] = "";
    char boot_id[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    const char *at;

    if (file != NULL && fgets(boot_id, sizeof(boot_id), file) == NULL)
        boot_id[0] = '\0';
    if (file != NULL)
        (void) fclose(file);
    (void) gethostname(text, sizeof(text) - 1);
    for (at = boot_id; *at != '\0'; at++)
        hash = (hash ^ (unsigned char) *at) * 1099511628211u;
    for (at = text; *at != '\0'; at++)
        hash = (hash ^ (unsigned char) *at) * 1099511628211u;
    return hash;
}

/* Learn which nodes have the same host. When it returns, all nodes have found
 * each other. */
static int boot_find_hosts(struct boot_run *run)
{
    struct gasnet_boot *boot = run->boot;
    uint32_t i;

    run->name = boot_host_name();
    boot_start_exchange(
        boot, &run->wait, &run->name, sizeof(run->name), run->names);
    if (!boot_wait(boot, &run->wait, run->end_ms))
        return boot_fail(boot, "not all nodes have found each other: %s",
            NA_Error_to_string(run->wait.failure));
    for (i = 0; i < boot->size; i++)
        while (run->names[boot->hosts[i]] != run->names[i])
            boot->hosts[i]++;
    return GASNET_OK;
}

/* ---- Start ---- */

/* Fill the table with the addresses of all nodes. */
static int boot_join(struct boot_run *run, const struct boot_root *root)
{
    struct gasnet_boot *boot = run->boot;
    uint32_t i;
    int ret;

    if (boot->size == 1)
        return GASNET_OK;
    if (strncmp(run->listen, "mpi+static", 10) == 0) {
        for (i = 0; i < boot->size; i++)
            (void) snprintf(
                run->table[i], NA_MAX_ADDR_LEN, "mpi+static://%u", i);
        return boot_look_up(run);
    }
    if (root->address == NULL && root->path == NULL && root->fd < 0)
        return boot_fail(boot,
            "nothing says where node 0 is: set "
            "GASNET_HG_FILE to a new file that all nodes can read, or start "
            "with gasnetrun_hg");
    if (boot->rank > 0) {
        ret = boot_find(run, root);
        if (ret == GASNET_OK)
            ret = boot_send_card(run);
        if (ret == GASNET_OK)
            ret = boot_recv_table(run);
        return ret == GASNET_OK ? boot_look_up(run) : ret;
    }
    ret = boot_own_address(boot, run->table[0]);
    if (ret == GASNET_OK)
        ret = boot_publish(boot, root, run->table[0]);
    if (ret == GASNET_OK)
        ret = boot_collect(run);
    if (root->path != NULL)
        (void) unlink(root->path);
    if (ret == GASNET_OK)
        ret = boot_look_up(run);
    return ret == GASNET_OK ? boot_send_table(run) : ret;
}

static int boot_open(struct boot_run *run)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct gasnet_boot *boot = run->boot;

    boot->addrs = (na_addr_t *) calloc(boot->size, sizeof(*boot->addrs));
    boot->hosts = (uint32_t *) calloc(boot->size, sizeof(*boot->hosts));
    run->table =
        (char(*)[NA_MAX_ADDR_LEN]) calloc(boot->size, sizeof(*run->table));
    run->names = (uint64_t *) calloc(boot->size, sizeof(*run->names));
    run->lookups =
        (struct boot_lookup *) calloc(boot->size, sizeof(*run->lookups));
    if (boot->addrs == NULL || boot->hosts == NULL || run->table == NULL ||
        run->names == NULL || run->lookups == NULL)
        return boot_fail(boot, "out of memory");
    /* A thread with a processor of its own need not yield it, unless a thread
     * of a network's library needs it, too. */
    info.wait_mode = !gasnet_hg.threaded &&
            strncmp(run->listen, "sm://", 5) == 0 &&
            (long) boot->size <= sysconf(_SC_NPROCESSORS_ONLN)
        ? NA_WAIT_SPIN
        : NA_WAIT_ADAPTIVE;
    info.death_ms = BOOT_DEATH_MS;
    info.max_queue_bytes = (size_t) boot->size * BOOT_QUEUE_BYTES;
    boot->na_class = NA_Initialize_opt(run->listen, NA_TRUE, &info);
    if (boot->na_class == NULL)
        return boot_fail(boot,
            "cannot listen on %s; hg's line above has the cause%s", run->listen,
            strncmp(run->listen, "mpi+", 4) == 0
                ? ". Without MPI in this conduit (make install-gasnet "
                  "NA=\"mpi\") set GASNET_HG_FILE to a new file that all nodes "
                  "can read"
                : "");
    boot->context = NA_Context_create(boot->na_class);
    if (boot->context == NULL ||
        NA_Addr_self(boot->na_class, &boot->addrs[boot->rank]) != NA_SUCCESS)
        return boot_fail(
            boot, "cannot use %s; hg's line above has the cause", run->listen);
    run->recv.na_class = boot->na_class;
    run->most = NA_Msg_get_max_expected_size(boot->na_class);
    return GASNET_OK;
}

int gasnet_boot_start(struct gasnet_boot *boot)
{
    struct boot_run run;
    struct boot_root root;
    uint32_t limit_ms = BOOT_MS;
    bool foreign;
    int ret;

    memset(boot, 0, sizeof(*boot));
    memset(&run, 0, sizeof(run));
    run.boot = boot;
    ret = boot_rank(boot, &foreign);
    if (ret != GASNET_OK)
        return ret;
    if (boot_text("GASNET_HG_BOOT_MS") != NULL &&
        !boot_number("GASNET_HG_BOOT_MS", &limit_ms))
        return boot_fail(boot, "GASNET_HG_BOOT_MS is no number of ms");
    run.end_ms = boot_now_ms() + limit_ms;
    root = boot_find_root();
    boot_listen_string(boot, &root, foreign, run.listen);
    /* mpirun and srun may die without ending their processes. */
    if (foreign)
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
    boot_allow_descriptors(boot);
    if (strstr(run.listen, "mpi+") != NULL && strchr(run.listen, ';') != NULL)
        return boot_fail(boot, "%s: mpi+static:// stands alone", run.listen);
    if (boot->size > 1 && strncmp(run.listen, "self://", 7) == 0 &&
        strchr(run.listen, ';') == NULL)
        return boot_fail(boot, "%s reaches no other node", run.listen);
    ret = boot_open(&run);
    if (ret == GASNET_OK)
        ret = boot_join(&run, &root);
    if (ret == GASNET_OK)
        ret = boot_find_hosts(&run);
    if (ret != GASNET_OK)
        gasnet_boot_stop(boot);
    free(run.table);
    free(run.names);
    free(run.lookups);
    return ret;
}
