/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults: cases that a provider of libfabric cannot pass by its own fault. Each
 * is left out for that transport and that version of libfabric, and the runner
 * counts them. tests/ofi/fault_*.c shows the fault on bare libfabric.
 */
#ifndef HG_TESTS_OFI_FAULTS_H
#define HG_TESTS_OFI_FAULTS_H

static const struct test_fault {
    const char *transport; /* as hg_test_transport() has it */
    unsigned major, minor; /* of libfabric */
    const char *name;      /* of the case */
    const char *program;   /* and its argument */
} test_faults[] = {
    {"ofi+tcp", 1, 17, "a_program_that_is_executed_gets_no_descriptor",
        "fault_cloexec net"},
    {"ofi+tcp;ofi_rxm", 1, 17, "a_program_that_is_executed_gets_no_descriptor",
        "fault_cloexec tcp;ofi_rxm"},
    {"ofi+udp;ofi_rxd", 1, 17, "a_program_that_is_executed_gets_no_descriptor",
        "fault_cloexec udp;ofi_rxd"},
    {"ofi+sockets", 1, 17, "a_program_that_is_executed_gets_no_descriptor",
        "fault_cloexec sockets"},
    {"ofi+tcp", 1, 17, "a_child_opens_a_class_while_others_open_and_close",
        "fault_fork net"},
    {"ofi+tcp;ofi_rxm", 1, 17,
        "a_child_opens_a_class_while_others_open_and_close",
        "fault_fork tcp;ofi_rxm"},
    {"ofi+shm", 1, 17, "a_child_opens_a_class_while_others_open_and_close",
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
    {"ofi+shm", 1, 17, "rpc_pass_of_memory_that_was_returned", "fault_key shm"},
    {"ofi+shm", 1, 17, "rpc_pass_with_a_wrong_address", "fault_key shm"},
    {"ofi+shm", 1, 17, "cb_pass_of_memory_that_was_freed", "fault_key shm"},
    {"ofi+shm", 1, 17, "cb_pass_with_a_wrong_address", "fault_key shm"},
    {"ofi+shm", 1, 17, "cb_pass_of_forged_handles", "fault_key shm"},
    {"ofi+shm", 1, 17, "stub_memory_that_does_not_come_in_time",
        "fault_key shm"},
    {"ofi+shm", 1, 17, "lookup_of_an_owner_that_was_started_anew",
        "fault_key shm"},
    {"ofi+udp;ofi_rxd", 1, 17, "rpc_pass_of_memory_that_was_returned",
        "fault_key udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17, "rpc_pass_with_a_wrong_address",
        "fault_key udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17, "cb_pass_of_memory_that_was_freed",
        "fault_key udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17, "cb_pass_with_a_wrong_address",
        "fault_key udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17, "cb_pass_of_forged_handles",
        "fault_key udp;ofi_rxd"},
    {"ofi+shm", 1, 17, "lookup_of_a_server_that_starts_later",
        "fault_name shm"},
    {"ofi+shm", 1, 17, "crc_of_bound_memory", "fault_closed shm"},
    {"ofi+shm", 1, 17, "a_hundred_thousand_calls_at_once", "fault_full shm"},
    {"ofi+udp;ofi_rxd", 1, 17, "lookup_of_an_owner_that_was_started_anew",
        "fault_restart udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17, "killed_server_started_anew_is_called_again",
        "fault_restart udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17, "server_that_ends_under_calls_is_called_again",
        "fault_restart udp;ofi_rxd"},
    {"ofi+udp;ofi_rxd", 1, 17,
        "caller_started_anew_gets_no_answers_of_its_earlier_life",
        "fault_restart udp;ofi_rxd"},
    {"ofi+sockets", 1, 17, "barrier_of_28000_calls", "fault_flood sockets"},
    /* Of tests/box: the case says over what. */
    {"self", 1, 17, "a_process_killed_while_it_sends_stops_nobody_else_on_shm",
        "fault_killed shm"},
};

#endif
