/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults: cases that fail because of a fault of a libfabric provider. Each is
 * skipped for that transport and that version of libfabric, and the runner
 * counts it. tests/ofi/fault_*.c shows the fault with libfabric alone.
 */
#ifndef HG_TESTS_OFI_FAULTS_H
#define HG_TESTS_OFI_FAULTS_H

static const struct test_fault {
    const char *transport; /* as returned by hg_test_transport() */
    unsigned major, minor; /* of libfabric */
    const char *name;      /* of the case */
    const char *program;   /* and its argument */
} test_faults[] = {
    {"ofi+tcp", 1, 17, "executed_program_inherits_no_descriptor",
        "fault_cloexec net"},
    {"ofi+tcp;ofi_rxm", 1, 17, "executed_program_inherits_no_descriptor",
        "fault_cloexec tcp;ofi_rxm"},
    {"ofi+udp;ofi_rxd", 1, 17, "executed_program_inherits_no_descriptor",
        "fault_cloexec udp;ofi_rxd"},
    {"ofi+sockets", 1, 17, "executed_program_inherits_no_descriptor",
        "fault_cloexec sockets"},
    {"ofi+tcp", 1, 17, "child_opens_a_class_while_others_open_and_close",
        "fault_fork net"},
    {"ofi+tcp;ofi_rxm", 1, 17,
        "child_opens_a_class_while_others_open_and_close",
        "fault_fork tcp;ofi_rxm"},
    {"ofi+shm", 1, 17, "child_opens_a_class_while_others_open_and_close",
        "fault_fork shm"},
    {"ofi+shm", 1, 17, "memory_withdrawn_is_refused_by_the_target",
        "fault_key shm"},
    {"ofi+shm", 1, 17, "bulk_handle_may_be_freed_too_early", "fault_key shm"},
    {"ofi+shm", 1, 17, "withdrawn_memory_can_be_unmapped_during_transfers",
        "fault_key shm"},
    {"ofi+udp;ofi_rxd", 1, 17, "memory_withdrawn_is_refused_by_the_target",
        "fault_key udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17, "bulk_handle_may_be_freed_too_early",
        "fault_key udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17,
        "transfers_can_be_canceled_and_their_memory_freed",
        "fault_key udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17,
        "withdrawn_memory_can_be_unmapped_during_transfers",
        "fault_key udp;ofi_rxd"},
    {"ofi+tcp", 1, 17, "withdrawn_memory_can_be_unmapped_during_transfers",
        "fault_withdrawn net"},
    {"ofi+tcp;ofi_rxm", 1, 17,
        "withdrawn_memory_can_be_unmapped_during_transfers",
        "fault_withdrawn tcp;ofi_rxm"},
    {"ofi+sockets", 1, 17, "withdrawn_memory_can_be_unmapped_during_transfers",
        "fault_withdrawn sockets"},
    {"ofi+tcp;ofi_rxm", 1, 17, "every_allocation_may_fail",
        "fault_leak tcp;ofi_rxm"},
    {"ofi+shm", 1, 17, "third_party_of_freed_memory_fails", "fault_key shm"},
    {"ofi+shm", 1, 17, "third_party_with_a_wrong_address_fails",
        "fault_key shm"},
    {"ofi+shm", 1, 17, "third_party_with_forged_handles_fails",
        "fault_key shm"},
    {"ofi+shm", 1, 17, "stub_bulk_transfer_times_out", "fault_key shm"},
    {"ofi+shm", 1, 17, "pipeline_ends_when_the_caller_frees_the_memory",
        "fault_key shm"},
    {"ofi+shm", 1, 17, "chain_needs_a_bound_handle", "fault_key shm"},
    {"ofi+shm", 1, 17, "third_party_follows_the_address_it_is_given",
        "fault_key shm"},
    {"ofi+udp;ofi_rxd", 1, 17, "third_party_follows_the_address_it_is_given",
        "fault_key udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17, "pipeline_ends_when_the_caller_frees_the_memory",
        "fault_key udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17, "chain_needs_a_bound_handle",
        "fault_key udp;ofi_rxd"},
    {"ofi+shm", 1, 17, "lookup_of_a_restarted_owner", "fault_key shm"},
    {"ofi+udp;ofi_rxd", 1, 17, "third_party_of_freed_memory_fails",
        "fault_key udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17, "third_party_with_a_wrong_address_fails",
        "fault_key udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17, "third_party_with_forged_handles_fails",
        "fault_key udp;ofi_rxd"},
    {"ofi+shm", 1, 17, "lookup_of_a_server_that_starts_later",
        "fault_name shm"},
    {"ofi+shm", 1, 17, "crc_of_bound_memory", "fault_closed shm"},
    {"ofi+shm", 1, 17, "hundred_thousand_calls_at_once", "fault_full shm"},
    {"ofi+udp;ofi_rxd", 1, 17, "lookup_of_a_restarted_owner",
        "fault_restart udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17, "killed_and_restarted_server_can_be_called",
        "fault_restart udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17,
        "server_that_exits_during_calls_can_be_called_again",
        "fault_restart udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17,
        "restarted_caller_gets_no_responses_to_earlier_calls",
        "fault_restart udp;ofi_rxd"},
    {"ofi+sockets", 1, 17, "barrier_of_28000_calls", "fault_flood sockets"},
    /* In tests/box: the case itself chooses the transport. */
    {"self", 1, 17, "process_killed_while_it_sends_affects_no_other_on_shm",
        "fault_killed shm"},
};

#endif
