/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Races in the transport sm: a step of one side waits until the other side has
 * done something, in an order that rarely happens by chance.
 */
#include "step.h"

#include "conform/conform.h"

#include <sys/wait.h>

struct races_pair {
    struct conform_end owner;
    struct conform_end user;
    na_addr_t addr; /* of the owner, at the user */
};

static void races_turn(struct races_pair *pair)
{
    (void) conform_turn(pair->owner.na_class, pair->owner.context, 0);
    (void) conform_turn(pair->user.na_class, pair->user.context, 0);
}

static void races_open_at(
    struct races_pair *pair, const char *name, const struct na_init_info *info)
{
    struct conform_call call;

    memset(&call, 0, sizeof(call));
    pair->owner.na_class = NA_Initialize_opt(name, NA_TRUE, info);
    pair->user.na_class = NA_Initialize_opt("sm://", NA_FALSE, info);
    HG_CHECK(pair->owner.na_class != NULL && pair->user.na_class != NULL);
    pair->owner.context = NA_Context_create(pair->owner.na_class);
    pair->user.context = NA_Context_create(pair->user.na_class);
    HG_CHECK_OK(NA_Addr_self(pair->owner.na_class, &pair->owner.self));
    HG_CHECK_OK(NA_Addr_self(pair->user.na_class, &pair->user.self));
    HG_CHECK_OK(NA_Addr_lookup(pair->user.na_class, pair->user.context,
        conform_ended, &call, pair->owner.self->name, &call.id));
    while (atomic_load(&call.ends) == 0)
        races_turn(pair);
    HG_CHECK_OK(call.ret);
    pair->addr = call.addr;
}

static void races_open(struct races_pair *pair, const struct na_init_info *info)
{
    races_open_at(pair, "sm://", info);
}

static void races_close(struct races_pair *pair)
{
    HG_CHECK_OK(NA_Addr_free(pair->user.na_class, pair->addr));
    conform_close(&pair->user);
    conform_close(&pair->owner);
}

/* The other side, as the owner has it. */
static struct na_sm_addr *races_user(struct races_pair *pair)
{
    return HG_CONTAINER_OF(
        na_sm_of(pair->owner.na_class)->addrs.next, struct na_sm_addr, link);
}

/* ---- The peer ends while segments are fetched ---- */

static struct na_sm_addr *races_peer;
static _Atomic bool races_fetching;

/* Outside the lock, before the kernel's copy. */
static void races_fetch(const char *function, unsigned line)
{
    struct na_sm_class *self = na_sm_of(races_peer->base.na_class);
    bool dying = false;

    (void) line;
    if (strcmp(function, "na_sm_rma_call") != 0 ||
        hg_is_inside(na_sm_lock(self)) || atomic_load(&races_fetching))
        return;
    atomic_store(&races_fetching, true);
    while (!dying) {
        na_sm_enter(self);
        dying = races_peer->state == NA_SM_DYING;
        na_sm_leave(self);
    }
}

struct races_get {
    struct races_pair *pair;
    na_mem_handle_t local;
    na_mem_handle_t remote;
    struct conform_call call;
};

static void *races_run(void *arg)
{
    struct races_get *get = (struct races_get *) arg;
    struct conform_end *user = &get->pair->user;

    HG_CHECK_OK(NA_Get(user->na_class, user->context, conform_ended, &get->call,
        get->local, 0, get->remote, 0, 65536, get->pair->addr, &get->call.id));
    return NULL;
}

/* The polling thread ends the connection, and waits for a thread that fetches
 * the description of memory: neither deadlocks. */
HG_TEST(sm_race_peer_ends_while_its_segments_are_fetched)
{
    enum { PIECE = 32768 };
    static unsigned char memory[3 * PIECE], got[2 * PIECE];
    struct na_segment segments[2] = {
        {memory, PIECE}, {memory + 2 * PIECE, PIECE}};
    unsigned char bytes[NA_SM_MEM_HANDLE];
    struct races_pair pair;
    struct races_get get;
    na_mem_handle_t mem;
    pthread_t thread;

    hg_test_allow_log("");
    memset(memory, 7, sizeof(memory));
    races_open(&pair, NULL);
    HG_CHECK_OK(NA_Mem_handle_create_segments(
        pair.owner.na_class, segments, 2, NA_MEM_READ_ONLY, &mem));
    HG_CHECK_OK(NA_Mem_register(pair.owner.na_class, mem));
    HG_CHECK_OK(NA_Mem_handle_serialize(
        pair.owner.na_class, bytes, sizeof(bytes), mem));
    memset(&get, 0, sizeof(get));
    get.pair = &pair;
    HG_CHECK_OK(NA_Mem_handle_create(
        pair.user.na_class, got, sizeof(got), NA_MEM_READWRITE, &get.local));
    HG_CHECK_OK(NA_Mem_handle_deserialize(
        pair.user.na_class, &get.remote, bytes, sizeof(bytes)));
    races_peer = na_sm_addr_of(pair.addr);
    step_hook = races_fetch;
    HG_CHECK(pthread_create(&thread, NULL, races_run, &get) == 0);
    while (!atomic_load(&races_fetching))
        (void) sched_yield();
    HG_CHECK(shutdown(races_user(&pair)->fd, SHUT_RDWR) == 0);
    while (na_sm_of(pair.user.na_class)->pairs > 0)
        (void) conform_turn(pair.user.na_class, pair.user.context, 0);
    HG_CHECK(pthread_join(thread, NULL) == 0);
    step_hook = NULL;
    HG_CHECK_OK(conform_wait(&pair.user, &get.call));
    HG_CHECK(got[0] == 7 && got[sizeof(got) - 1] == 7);
    HG_CHECK_OK(NA_Mem_handle_free(pair.user.na_class, get.remote));
    HG_CHECK_OK(NA_Mem_handle_free(pair.user.na_class, get.local));
    HG_CHECK_OK(NA_Mem_handle_free(pair.owner.na_class, mem));
    races_close(&pair);
}

/* ---- A message is held while its hint is lowered ---- */

static struct races_pair *races_now;

static void races_send(struct races_pair *pair)
{
    HG_CHECK_OK(NA_Msg_send_unexpected(pair->user.na_class, pair->user.context,
        NULL, NULL, "x", 1, pair->addr, 1, NA_OP_ID_IGNORE));
}

static void races_lower(const char *function, unsigned line)
{
    (void) line;
    if (strcmp(function, "na_sm_hint_clear") != 0)
        return;
    step_hook = NULL;
    races_send(races_now);
}

static void races_receive(struct races_pair *pair)
{
    struct conform_call recv;
    char got[8];
    unsigned i;

    HG_CHECK_OK(conform_recv(&pair->owner, &recv, false, got, sizeof(got), 0));
    for (i = 0; i < 1000 && atomic_load(&recv.ends) == 0; i++)
        races_turn(pair);
    HG_CHECK_EQ_INT(atomic_load(&recv.ends), 1);
    HG_CHECK_OK(recv.ret);
    conform_free_addr(&pair->owner, &recv);
}

/* The message finds the ring full. It is sent once there is space, not only
 * when all rings are checked. */
HG_TEST(sm_race_message_is_held_while_the_hint_is_lowered)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    struct races_pair pair;
    struct na_sm_class *self;
    struct na_sm_addr *from;
    unsigned held = 0;

    info.max_queue_bytes = 500;
    races_open(&pair, &info);
    self = na_sm_of(pair.owner.na_class);
    from = races_user(&pair);
    races_now = &pair;
    do { /* one more than there is space for, then one less */
        races_send(&pair);
        held++;
        races_turn(&pair);
    } while (!from->held);
    races_receive(&pair);
    held--;
    while (from->held)
        races_turn(&pair);
    step_hook = races_lower;
    while (step_hook != NULL)
        (void) conform_turn(pair.owner.na_class, pair.owner.context, 0);
    held++;
    HG_CHECK(from->held);
    self->scan_at = NA_SM_NEVER;
    for (; held > 0; held--)
        races_receive(&pair);
    races_close(&pair);
}

/* ---- An address that is freed while it is dialed ---- */

/* ---- A fork while sockets are opened and closed ---- */

static const char *races_place;
static int races_sockets; /* that a child may inherit */

static int races_count_sockets(void)
{
    struct stat what;
    int n = 0, fd;

    for (fd = 0; fd < 256; fd++)
        n += fstat(fd, &what) == 0 && S_ISSOCK(what.st_mode);
    return n;
}

/* Fork as another thread does that gets the lock meanwhile. */
static pid_t races_fork_outside(void)
{
    struct hg_monitor *lock = NULL;
    struct na_link *link;
    pid_t child;

    for (link = na_sm_live.next; link != &na_sm_live; link = link->next) {
        const struct na_sm_class *self =
            HG_CONTAINER_OF(link, struct na_sm_class, live);

        if (hg_is_inside(na_sm_lock(self)))
            lock = na_sm_lock(self);
    }
    if (lock != NULL)
        hg_leave(lock);
    child = fork();
    if (lock != NULL)
        hg_enter(lock);
    return child;
}

static void races_fork(const char *function, unsigned line)
{
    int status = 0;
    pid_t child;

    (void) line;
    if (strcmp(function, races_place) != 0)
        return;
    step_hook = NULL;
    child = races_fork_outside();
    HG_CHECK(child >= 0);
    if (child == 0)
        _exit(races_count_sockets() == races_sockets ? 0 : 1);
    HG_CHECK(waitpid(child, &status, 0) == child);
    HG_CHECK_EQ_INT(status, 0);
}

/* A child that inherits it would hide its parent's death. */
HG_TEST(sm_race_fork_between_connecting_and_registering_the_peer)
{
    struct races_pair pair;

    races_sockets = races_count_sockets();
    races_place = "na_sm_conn_map";
    step_hook = races_fork;
    races_open(&pair, NULL);
    HG_CHECK(step_hook == NULL);
    races_close(&pair);
}

/* Whether the forking thread holds a lock that fork takes: a fork is impossible
 * there, except in another thread, which waits. */
static bool races_is_locked(void)
{
    struct na_link *link;
    bool locked = pthread_mutex_trylock(&na_sm_live_lock) != 0;

    if (locked)
        return true;
    for (link = na_sm_live.next; link != &na_sm_live; link = link->next) {
        const struct na_sm_class *self =
            HG_CONTAINER_OF(link, struct na_sm_class, live);

        if (hg_is_inside(na_class_core_of(&self->base)->lock))
            locked = true;
    }
    hg_unlock(&na_sm_live_lock);
    return locked;
}

/* How often a fork happened at a line. */
static unsigned char races_born[65536];
static unsigned races_births;

/* One child at each line, and one more when the line is passed again. */
static void races_fork_at_each(const char *function, unsigned line)
{
    int error = errno;

    HG_CHECK(line < sizeof(races_born));
    if (races_born[line] == 2 || races_is_locked())
        return;
    races_born[line]++;
    races_births++;
    races_place = function;
    races_fork(function, line);
    step_hook = races_fork_at_each;
    errno = error;
}

/* Call a peer while there are no descriptors left for it, and then some. */
static void races_many(struct races_pair *pair)
{
    struct na_sm_class *owner = na_sm_of(pair->owner.na_class);
    uint64_t refused = NA_Get_counter(pair->owner.na_class, "sm_refused");
    struct rlimit limit, low;
    int guest = na_sm_socket();
    int next;

    races_sockets++;
    HG_CHECK_OK(na_sm_connect(&owner->where, guest));
    next = dup(guest);
    HG_CHECK(next > owner->spare_fd && close(next) == 0);
    HG_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    low = limit;
    low.rlim_cur = (rlim_t) next;
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    while (NA_Get_counter(pair->owner.na_class, "sm_refused") == refused)
        races_turn(pair);
    HG_CHECK(owner->spare_fd >= 0); /* for the next one */
    HG_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    HG_CHECK(close(guest) == 0);
    races_sockets--;
}

/* A class listens where another was killed, is looked up, disconnected and
 * looked up again, and has callers that stay silent or are refused for lack of
 * space. */
static void races_live(const char *path)
{
    struct sockaddr_un where;
    struct races_pair pair;
    struct conform_call call;
    char name[NA_MAX_ADDR_LEN];
    int stale = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    memset(&where, 0, sizeof(where));
    where.sun_family = AF_UNIX;
    HG_CHECK(strlen(path) < sizeof(where.sun_path));
    memcpy(where.sun_path, path, strlen(path));
    HG_CHECK(bind(stale, (struct sockaddr *) &where, sizeof(where)) == 0);
    HG_CHECK(close(stale) == 0);
    (void) snprintf(name, sizeof(name), "sm://%s", path);
    races_open_at(&pair, name, NULL);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_terminate(pair.user.na_class, pair.user.context,
        conform_ended, &call, pair.addr, &call.id));
    while (atomic_load(&call.ends) == 0)
        races_turn(&pair);
    HG_CHECK_OK(NA_Msg_send_unexpected(pair.user.na_class, pair.user.context,
        NULL, NULL, "x", 1, pair.addr, 1, NA_OP_ID_IGNORE));
    while (na_sm_of(pair.owner.na_class)->pairs == 0)
        races_turn(&pair);
    memset(&call, 0, sizeof(call));
    HG_CHECK_OK(NA_Addr_lookup(pair.user.na_class, pair.user.context,
        conform_ended, &call, "sm://nobody-is-here", &call.id));
    while (atomic_load(&call.ends) == 0)
        races_turn(&pair);
    HG_CHECK_RET(call.ret, NA_HOSTUNREACH);
    races_many(&pair);
    races_close(&pair);
}

/* Wherever a fork happens, the child keeps no socket: not of a class that is
 * being opened, of a caller that has not sent HELLO, or of a peer that is not
 * connected yet. */
HG_TEST(sm_race_fork_at_every_step)
{
    char path[100];

    hg_test_allow_log("");
    /* The log's descriptor. */
    HG_CHECK_OK(NA_Finalize(NA_Initialize("sm://", NA_TRUE)));
    (void) snprintf(path, sizeof(path), "%s/forks", hg_test_dir());
    races_sockets = races_count_sockets();
    step_hook = races_fork_at_each;
    races_live(path);
    step_hook = NULL;
    printf("%u children\n", races_births);
    HG_CHECK(races_births > 3);
}

static pid_t races_child;
static int races_life[2]; /* a pipe: when it is closed the child exits */

static void races_fork_to_stay(const char *function, unsigned line)
{
    char end;

    (void) line;
    if (strcmp(function, "na_sm_listen") != 0)
        return;
    step_hook = NULL;
    races_child = races_fork_outside();
    HG_CHECK(races_child >= 0);
    if (races_child == 0) {
        (void) close(races_life[1]);
        (void) !read(races_life[0], &end, 1);
        _exit(0);
    }
}

/* A child that inherits a descriptor of the directory and lives on does not
 * keep it locked once the name is bound. */
HG_TEST(sm_race_fork_between_locking_a_directory_and_binding)
{
    char name[NA_MAX_ADDR_LEN];
    na_class_t *na_class;
    int folder;

    HG_CHECK(pipe(races_life) == 0);
    (void) snprintf(name, sizeof(name), "sm://%s/lock", hg_test_dir());
    step_hook = races_fork_to_stay;
    na_class = NA_Initialize(name, NA_TRUE);
    HG_CHECK(na_class != NULL && step_hook == NULL);
    folder = open(hg_test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    HG_CHECK(folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0);
    HG_CHECK(close(folder) == 0);
    HG_CHECK(close(races_life[0]) == 0 && close(races_life[1]) == 0);
    HG_CHECK(waitpid(races_child, NULL, 0) == races_child);
    HG_CHECK_OK(NA_Finalize(na_class));
}
