/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hook: a decorator around libfabric. It makes a local provider demand what
 * providers of network hardware demand, and checks that the caller complies.
 *
 * A test program is linked with -Wl,--wrap=fi_getinfo,--wrap=fi_fabric and
 * these files. All other calls of libfabric go through tables in the objects,
 * and the hook returns objects and tables of its own.
 *
 * The environment variable HG_TEST_OFI selects the demands, as words separated
 * by commas. If it is not set, libfabric is unchanged. With any words, these
 * rules hold: operations use addresses that are in the address vector, stay
 * within the reported limits, and complete before their memory region or
 * address is removed; each object is closed before the object it was opened
 * from, and before the process exits. If a caller breaks one of these rules, or
 * one of those below, the process aborts with the line "ofi-hook: violation:
 * ...".
 *
 *     plain       nothing else
 *     local       FI_MR_LOCAL: each buffer has the descriptor of a region that
 *                 covers it, with the access that the operation needs
 *     provkey     FI_MR_PROV_KEY: requested keys are ignored; keys are random
 *     rawkey      FI_MR_RAW, too: keys have 24 bytes and must be mapped
 *     virt        FI_MR_VIRT_ADDR: needs provkey or rawkey
 *     offset      no FI_MR_VIRT_ADDR, if the provider works without it
 *     allocated   FI_MR_ALLOCATED: memory without pages is refused
 *     endpoint    FI_MR_ENDPOINT: a region is bound and enabled before its use
 *     context     FI_CONTEXT2: each operation has its own context, which is
 *                 not written to until it completes
 *     inject=N    limits, reported and checked: bytes of an inject,
 *     iov=N       segments of local and of remote memory,
 *     msg=N       bytes of a message or transfer,
 *     mriov=N     segments of a memory region
 *     again=N     one of N posting calls, at random, gives -FI_EAGAIN
 *     cqagain=N   one of N reads of completions gives -FI_EAGAIN
 *     order       completions are out of order, except receives if
 *                 FI_ORDER_SAS is requested; FI_MULTI_RECV is reported as a
 *                 separate completion
 *     nowait      completion queues have no wait object
 *     manual      progress is reported as FI_PROGRESS_MANUAL
 *     nodc        FI_DELIVERY_COMPLETE is not offered
 *     authkey     authorization keys of 16 bytes are supported; messages to an
 *                 endpoint with another key are lost or end with an error
 *     fault=KIND:N or fault=KIND:N:ERRNO
 *                 the Nth call of a kind fails, by default with ENOMEM. Kinds
 *                 are the calls getinfo, fabric, domain, av, cq, ep, bind,
 *                 enable, getname, setopt, getwait, insert, mr, mrenable,
 *                 mapraw and recv, or any for all of them; send, short (a send
 *                 of up to 24 bytes that is not injected) and rma end with an
 *                 error in the completion queue
 *
 * The hook supports the calls that a transport of messages and RMA makes. It
 * does not support tagged messages, counters, remote CQ data, selective
 * completion, and blocking reads of completion queues that are not empty.
 */
#ifndef HG_TESTS_OFI_HOOK_H
#define HG_TESTS_OFI_HOOK_H

#include <stdbool.h>
#include <stdint.h>

/* Use these words from the next fi_getinfo on, instead of HG_TEST_OFI. Faults
 * and counters are reset. No object of the hook may be open. */
void hg_test_ofi_configure(const char *words);

/* How often an event happened in this process. The counters:
 *     inject send recv read write     operations that the provider accepted
 *     desc            buffers whose descriptor was checked
 *     again cqagain   calls that returned -FI_EAGAIN
 *     shuffled        completions that overtook another
 *     split           FI_MULTI_RECV completions made of one with a message
 *     keys mapped unmapped translated
 *     inserted removed  addresses, into and out of an address vector
 *     enabled         regions enabled after they were bound
 *     delivery        endpoints where all sends wait for delivery
 *     nowait nodc     requests for these that were refused
 *     deaf            operations to a peer with another authorization key
 *     held            completions of puts and gets, by hg_test_ofi_hold
 *     fault           calls that failed as configured */
uint64_t hg_test_ofi_count(const char *name);

/* While set, completions are read from the provider but not shown to the
 * caller. */
void hg_test_ofi_hold(bool hold);

#endif
