/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * harness: the functions and macros that every test program uses.
 *
 * A program holds several cases:
 *
 *     HG_TEST(map_finds_what_it_stored)
 *     {
 *         HG_CHECK_EQ_INT(1 + 1, 2);
 *     }
 *
 * harness.c has main: `prog --list` names the cases, `prog NAME` runs one, in
 * this process; tests/run runs each in its own process with a watchdog. A check
 * that fails prints its place and values and ends the process at once. When a
 * case returns, the harness checks that every peer it spawned has succeeded,
 * and that the library logged no unexpected error and no warning about
 * addresses or handles that were not freed.
 *
 * Tests wait for events, never for time: the watchdog ends a test that hangs,
 * and prints the last place that was reached.
 */
#ifndef HG_TESTS_HARNESS_H
#define HG_TESTS_HARNESS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* ---- Cases and roles ---- */

struct hg_allocator;

struct hg_test_case {
    const char *name;
    void (*run)(void);
    unsigned seconds;      /* the watchdog's limit; 0: the default */
    bool (*applies)(void); /* NULL: everywhere */
    struct hg_test_case *next;
};

struct hg_test_role {
    const char *name;
    void (*run)(int argc, char **argv);
    struct hg_test_role *next;
};

void hg_test_add_case(struct hg_test_case *entry);
void hg_test_add_role(struct hg_test_role *entry);

#define HG_TEST(name) HG_TEST_SECONDS(name, 0)

/* A case whose watchdog waits longer (or shorter) than the default 60 s. */
#define HG_TEST_SECONDS(name, seconds) HG_TEST_CASE_(name, seconds, NULL)

/* A case that applies only where `applies`, a bool (*)(void), returns true for
 * the transport and the build; elsewhere it is not listed. A case that applies
 * but lacks something here, such as IPv6, is listed and skipped. */
#define HG_TEST_WHERE(name, applies) HG_TEST_CASE_(name, 0, applies)
#define HG_TEST_WHERE_SECONDS(name, applies, seconds) \
    HG_TEST_CASE_(name, seconds, applies)

#define HG_TEST_CASE_(name, seconds, applies) \
    static void hg_test_run_##name(void); \
    static struct hg_test_case hg_test_case_##name = { \
        #name, hg_test_run_##name, seconds, applies, NULL}; \
    __attribute__((constructor)) static void hg_test_enter_##name(void) \
    { \
        hg_test_add_case(&hg_test_case_##name); \
    } \
    static void hg_test_run_##name(void)

/* hg_test_spawn("name", ...) runs this in its own process; `argc` and `argv`
 * are the strings given there. Returning means success. */
#define HG_TEST_ROLE(name) \
    static void hg_test_role_run_##name(int argc, char **argv); \
    static struct hg_test_role hg_test_role_##name = { \
        #name, hg_test_role_run_##name, NULL}; \
    __attribute__((constructor)) static void hg_test_role_enter_##name(void) \
    { \
        hg_test_add_role(&hg_test_role_##name); \
    } \
    static void hg_test_role_run_##name(int argc, char **argv)

/* ---- Checks: (value, expected value) ---- */

#define HG_TEST_TEXT_(x) #x
#define HG_TEST_TEXT(x) HG_TEST_TEXT_(x)
#define HG_TEST_HERE __FILE__ ":" HG_TEST_TEXT(__LINE__)

#define HG_CHECK(cond) \
    (hg_test_at(HG_TEST_HERE), \
        (cond) ? (void) 0 : hg_test_fail(HG_TEST_HERE, "%s", #cond))
#define HG_CHECK_EQ_INT(got, want) \
    hg_test_eq_int(HG_TEST_HERE, #got, (got), (want))
#define HG_CHECK_EQ_U64(got, want) \
    hg_test_eq_u64(HG_TEST_HERE, #got, (got), (want))
#define HG_CHECK_EQ_STR(got, want) \
    hg_test_eq_str(HG_TEST_HERE, #got, (got), (want))
#define HG_CHECK_EQ_MEM(got, want, size) \
    hg_test_eq_mem(HG_TEST_HERE, #got, (got), (want), (size))
/* Two return codes of hg.h, printed with their texts. */
#define HG_CHECK_RET(got, want) \
    hg_test_eq_ret(HG_TEST_HERE, #got, (int) (got), (int) (want))
#define HG_CHECK_OK(got) HG_CHECK_RET(got, 0)

void hg_test_at(const char *here);
__attribute__((noreturn, format(printf, 2, 3))) void hg_test_fail(
    const char *here, const char *format, ...);
void hg_test_eq_int(
    const char *here, const char *text, intmax_t got, intmax_t want);
void hg_test_eq_u64(
    const char *here, const char *text, uint64_t got, uint64_t want);
void hg_test_eq_str(
    const char *here, const char *text, const char *got, const char *want);
void hg_test_eq_mem(const char *here, const char *text, const void *got,
    const void *want, size_t size);
void hg_test_eq_ret(const char *here, const char *text, int got, int want);

/* End the case as skipped; the reason is printed. */
__attribute__((noreturn, format(printf, 1, 2))) void hg_test_skip(
    const char *format, ...);

/* ---- Log lines of the library ---- */

/* A line containing `part` must be logged, at least once, before the case (or
 * role) ends. An error line, or one that reports a leak, fails the case unless
 * it was expected or allowed. `part` is borrowed: use a string literal. */
void hg_test_expect_log(const char *part);

/* Like hg_test_expect_log, but the line is optional. "" allows any error, but
 * no leak. */
void hg_test_allow_log(const char *part);

/* How many lines matched the expectation given as `part`. The library omits
 * lines when a call site logs many; at the level debug it writes all. */
unsigned hg_test_log_count(const char *part);

/* ---- Time, randomness, names, descriptors ---- */

/* `ms` milliseconds, multiplied under a checker by the runner's -s. For time
 * limits of things that must happen, not for things that must not. */
unsigned hg_test_scaled_ms(unsigned ms);

/* How long a test waits, in ms, for what must happen: long enough for a busy
 * machine, and less than the watchdog's limit. */
#define HG_TEST_WAIT_MS hg_test_scaled_ms(50000u)

/* A value for the option lookup_ms: libfabric and MPI do not report an address
 * without a listener, so a lookup there takes all of it. 0: the default. */
unsigned hg_test_lookup_ms(void);

/* The case's seed: HG_TEST_SEED, else fresh; printed on first use. */
uint64_t hg_test_seed(void);

/* The next number of a generator whose state is the caller's. */
uint64_t hg_test_random(uint64_t *state);

/* The scheme that a conformance or box test runs on, such as "self" or
 * "zmq+tcp": HG_TEST_TRANSPORT, else "self". The transports called "sm-copy"
 * and "sm-map" are "sm" with HG_SM_RMA=copy and map. "mux" is "zmq+tcp" with sm
 * in the same class, which then carries everything between the processes of a
 * test, and "mux-ofi" is "ofi+tcp" with sm. "ofi+rxm" and "ofi+rxd" are
 * "ofi+tcp;ofi_rxm" and "ofi+udp;ofi_rxd". "ofi-hard", "ofi-cxi" and "ofi-raw"
 * are "ofi+tcp" with a provider that demands more (tests/ofi/hook.h).
 * "mpi+static-2" and "mpi+static-8" are "mpi+static" with two and eight ranks
 * instead of three; over "mpi+dynamic" each of three ranks is its own job. */
const char *hg_test_transport(void);
bool hg_test_is_mux(void);
bool hg_test_is_ofi(void);
bool hg_test_is_mpi(void);

/* Whether remote memory is emulated (force_rma_emulation): the transport called
 * "self-emul" is "self" with that option. */
bool hg_test_emulated(void);

/* Whether all bulk data travels in messages, by the emulation of any
 * transport. */
bool hg_test_moves_in_messages(void);

/* For HG_TEST_WHERE: whether the transport reaches other processes; whether it
 * reaches other hosts over IP; and whether it is "self". */
bool hg_test_crosses_processes(void);
bool hg_test_crosses_hosts(void);
bool hg_test_is_self(void);

/* Whether any process can reach a class that does not listen, by its address,
 * to move its bulk data. */
bool hg_test_finds_callers(void);

/* Whether the transport holds a message that finds the receiver full, and makes
 * the sender wait, rather than dropping it. */
bool hg_test_holds_back(void);

/* Whether the transport reports that another process has ended. */
bool hg_test_reports_death(void);

/* Whether the library waits with epoll, which NA_Poll_get_fd needs. */
bool hg_test_has_epoll(void);

/* Whether valgrind runs this program. */
bool hg_test_is_valgrind(void);

/* _exit() of a child of fork. Valgrind would look for leaks there, and take the
 * memory of the parent's threads for some. */
__attribute__((noreturn)) void hg_test_exit_child(int status);

/* Whether this is the plain build without a checker. Cases that take seconds,
 * and of which a sanitizer, fallback or valgrind would see no more, run only
 * there. */
bool hg_test_is_plain(void);

/* A new info string for a listening class on hg_test_transport(): port 0, or a
 * name with the process id. The caller frees it. */
char *hg_test_listen_string(void);

/* A directory for this case's files; the runner removes it. */
const char *hg_test_dir(void);

/* Open descriptors of this process. */
unsigned hg_test_fd_count(void);

/* ---- Other processes of the same program ---- */

struct hg_test_peer; /* freed by hg_test_wait and hg_test_stop */

/* Start `role` (a HG_TEST_ROLE of this program) with the strings up to NULL, by
 * fork and exec. The process inherits only stdio and one channel. Under MPI a
 * rank runs the role (tests/mpi/ranks.h); a case that needs more ranks than
 * there are, or kills one, is skipped. */
struct hg_test_peer *hg_test_spawn(const char *role, ...);

pid_t hg_test_peer_pid(const struct hg_test_peer *peer);

/* The next line that a peer writes, without its newline; the case fails if the
 * peer ends instead. The caller frees it. */
char *hg_test_read_peer(struct hg_test_peer *peer);

/* Write a line to a peer, which may be dead. */
void hg_test_write_peer(struct hg_test_peer *peer, const char *line);

/* Send a signal to a peer. */
void hg_test_signal(struct hg_test_peer *peer, int signal_number);

/* Stop a peer by SIGSTOP, and wait until it has stopped; SIGCONT continues
 * it. */
void hg_test_freeze(struct hg_test_peer *peer);

/* Wait until the peer ends by itself; returns its wait status. */
int hg_test_wait(struct hg_test_peer *peer);

/* Close the channel, so that the peer reads NULL, and wait; the case fails
 * unless the peer succeeds. */
void hg_test_stop(struct hg_test_peer *peer);

/* In a role: the other end of the channel. NULL: the parent has closed it. */
char *hg_test_read_parent(void);
void hg_test_write_parent(const char *line);
int hg_test_parent_fd(void); /* to poll for a line, or for the end */

/* ---- Out of memory ---- */

/* Give the library the counting allocator. Call before its first use. */
void hg_test_alloc_install(void);

/* The counting allocator itself. */
const struct hg_allocator *hg_test_allocator(void);

/* Make the `nth` allocation from now fail, 1 being the next; 0: none. */
void hg_test_alloc_fail_at(uint64_t nth);

/* Whether the allocation chosen last was reached, and so failed. */
bool hg_test_alloc_failed(void);

/* Blocks the library holds now, and their total size in bytes. */
int64_t hg_test_alloc_live(void);
int64_t hg_test_alloc_bytes(void);

/* Run `body` once without failures (it must return 0), then with its first,
 * second, ... allocation failing, until no allocation fails any more. In every
 * round all memory must be freed when it returns; error lines are allowed.
 * Returns the number of rounds in which an allocation failed. */
unsigned hg_test_oom_loop(int (*body)(void *arg), void *arg);

#endif
