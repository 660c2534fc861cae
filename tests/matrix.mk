# SPDX-License-Identifier: BSD-3-Clause
#
# The test matrix: the test programs, the transports each runs on, and what
# `make check` runs in each build. PROGRAM@TRANSPORT is a case of tests/run.
# The Makefile includes this file and builds the programs.

# ---- All programs, and the transports they can run on ----

# Providers of libfabric besides the native tcp.
PROVIDERS  := ofi+rxm ofi+shm ofi+rxd ofi+sockets
# ofi+tcp with the decorator of tests/ofi/hook.h.
HOOKED     := $(if $(filter ofi,$(FOUND)),ofi-hard ofi-cxi ofi-raw)
TRANSPORTS := self self-emul $(if $(SM),sm) \
    $(if $(filter zmq,$(FOUND)),zmq+tcp zmq+ipc zmq+inproc) \
    $(if $(filter ofi,$(FOUND)),ofi+tcp $(PROVIDERS))

names   = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/$1/test_*.c))
INSIDE  := $(wildcard tests/unit/test_*.c tests/fuzz/fuzz_*.c)
STEPPED := $(wildcard tests/step/test_*.c)
UNIT    := $(BUILD)/tests/units
STEPS   := $(if $(SM),$(BUILD)/tests/steps)
WITHOUT := $(if $(filter zmq,$(FOUND)),,$(BUILD)/tests/box/test_zmq_%) \
           $(if $(filter ofi,$(FOUND)),,$(BUILD)/tests/box/test_ofi_%) \
           $(if $(SM),,$(BUILD)/tests/box/test_sm_% \
               $(BUILD)/tests/box/test_unix_% $(BUILD)/tests/box/test_forward_%)
# Tests of the decorator, and of the transport under it.
OFI     := $(if $(filter ofi,$(FOUND)),$(call names,ofi))
BOX     := $(filter-out $(WITHOUT),$(call names,box))
MPI     := $(call names,mpi)
# Tests of examples/nemesis, between two processes.
NEMESIS := $(if $(SM),$(call names,nemesis))
CONFORM := $(call names,conform)
# Tests of remote memory, which also run where the kernel does not copy it.
COPIES  := $(addprefix $(BUILD)/tests/conform/, \
             test_na_rma test_na_target test_bulk test_rpc_fault)
# Tests that run on the example of a transport, examples/hg_na_unix.c. It has no
# connections: it passes no suite about the end of peers, nor the cases of
# na_peer about that, and has no addr_terminate.
EXAMPLE := $(addprefix $(BUILD)/tests/conform/test_, \
             na_msg na_peer na_rma na_target na_wait rpc_calls bulk)
# Tests that also run on a class of several transports.
MUXED   := $(addprefix $(BUILD)/tests/conform/test_, mux na_msg na_rma bulk \
             rpc_calls rpc_restart cb_calls cb_crc cb_identity cb_drain \
             cb_third_party cb_lookup rpc_third_party rpc_pipeline)
CASES   := $(UNIT) $(STEPS) $(BOX) $(OFI) \
           $(foreach t,$(TRANSPORTS) $(HOOKED),$(CONFORM:%=%@$t)) \
           $(if $(and $(SM),$(filter zmq,$(FOUND))),$(MUXED:%=%@mux)) \
           $(if $(and $(SM),$(filter ofi,$(FOUND))),$(MUXED:%=%@mux-ofi)) \
           $(if $(SM),$(COPIES:%=%@sm-copy) $(EXAMPLE:%=%@unix)) \
           $(foreach t,$(filter sm zmq+tcp ofi+tcp,$(TRANSPORTS)),$(NEMESIS:%=%@$t))
SCRIPTS := tests/lint tests/generator tests/selftest tests/install tests/pair \
           tests/demo tests/docs tests/mercury $(if $(filter ofi,$(FOUND)),tests/faults) \
           $(patsubst %,tests/forward@%,$(filter sm zmq+tcp ofi+tcp,$(TRANSPORTS)) \
               $(if $(SM),sm-asan)) \
           $(if $(SM),tests/gasnetrun $(patsubst %,tests/gasnet_jobs@%,$(filter sm zmq+tcp \
               $(if $(HG_TEST_FULL),ofi+tcp),$(TRANSPORTS))))

cases_of = $(CASES:$(BUILD)/%=$(BUILD)/$1/%)
programs_of = $(sort $(foreach c,$1,$(firstword $(subst @, ,$c))))

# Programs that use libzmq or libfabric. Only these run with tests/tsan.supp.
FOREIGN := %@zmq+tcp %@zmq+ipc %@zmq+inproc %@mux %@mux-ofi \
    $(addprefix %@,ofi+tcp $(PROVIDERS) $(HOOKED)) \
    $(OFI:$(BUILD)/%=$(BUILD)/tsan/%) \
    $(addprefix $(BUILD)/tsan/tests/box/,$(notdir $(filter \
        $(addprefix $(BUILD)/tests/box/,test_zmq_% test_ofi_%),$(BOX))) \
        test_mercury_na test_mercury_paper test_demo_serve test_forward_hostile)

# ---- What make check runs ----
#
# A suite that checks the same on several transports, or in several builds, runs
# where it finds most. check-full runs every suite everywhere.

box     = $(addprefix $(BUILD)/tests/box/test_,$1)
conform = $(addprefix $(BUILD)/tests/conform/test_,$1)
# $(call on,TRANSPORTS,PROGRAMS): these programs on these transports, as far as
# CASES has them.
on      = $(filter $(foreach t,$1,$(addsuffix @$t,$2)),$(CASES))
# Suites that use NA directly, and the basic calls and transfers above NA.
NEAR_NA := $(filter $(call conform,na_% bulk fork rpc_calls cb_calls),$(CONFORM))

# Suites about the arguments, the procs and the state of a call, which are the
# same on each transport: they run with ASan on sm, and optimized on self.
CALL_ONLY := $(call conform,cb_addr cb_args cb_identity cb_inspect cb_life cb_oom \
    cb_raw cb_stub cb_twice rpc_inputs rpc_inspect rpc_life rpc_stub)

# With ASan and UBSan: the unit tests, the box tests, and all conformance suites
# on sm, except host_names, which has a free() of its own and no case there. On
# zmq+tcp the suites about failure: of a peer, a class, quota, memory. On mux the
# suites about its parts. On unix, the example of a transport, the suites that it
# passes.
BOX_ASAN   := $(filter-out $(call box,ofi_% sm_sleep_cost sm_mapped),$(BOX)) \
    $(filter $(call box,ofi_handshake),$(BOX))
MUXED_ASAN := $(call conform,mux na_rma bulk cb_drain rpc_restart)
ZMQ_ASAN   := $(NEAR_NA) $(call conform,cb_drain cb_call_ends cb_restart \
    cb_hooks rpc_drain rpc_call_ends rpc_memory rpc_peer rpc_restart \
    rpc_wait_room)
ASAN_CASES := $(UNIT) $(BOX_ASAN) \
    $(call on,sm,$(filter-out %/test_host_names,$(CONFORM))) \
    $(call on,zmq+tcp,$(ZMQ_ASAN)) \
    $(call on,self,$(filter-out %/test_fork,$(NEAR_NA))) \
    $(call on,mux,$(MUXED_ASAN)) \
    $(call on,self-emul sm-copy,$(COPIES)) \
    $(call on,unix,$(EXAMPLE)) $(call on,sm,$(NEMESIS))

# Optimized, as users build it:
# - sm: messages, memory, peers and calls;
# - zmq+tcp: the suites that do not run with ASan there, except CALL_ONLY;
# - self: the suites above NA;
# - the other transports of ZeroMQ, and mux: the suites about themselves;
# - ofi+tcp: messages, memory, peers, calls, bulk data on another transport, and
#   clients behind a firewall; senders that are faster than their receiver;
# - the other providers: messages; the decorated ones (HOOKED): memory.
# The tests of libfabric about dead peers, which only a timeout reveals, and
# about hostile peers take minutes: only check-full runs them.
CHECK_CASES := $(STEPS) $(OFI) \
    $(filter $(call box,ofi_names ofi_clock ofi_shm_forged ofi_window \
        sm_sleep_cost sm_mapped), $(BOX)) \
    $(call on,zmq+tcp,$(filter-out $(ZMQ_ASAN) $(CALL_ONLY),$(CONFORM))) \
    $(call on,self,$(filter-out $(NEAR_NA),$(CONFORM))) \
    $(call on,sm,$(call conform,na_msg na_peer na_rma rpc_calls cb_calls)) \
    $(call on,zmq+ipc zmq+inproc,$(call conform,na_life na_msg na_peer \
        na_wait)) \
    $(call on,mux,$(filter-out $(MUXED_ASAN),$(MUXED))) \
    $(call on,ofi+tcp,$(call conform,na_flood na_life na_msg na_rma na_peer \
        na_source rpc_calls rpc_client bulk_class system host_names interfaces \
        firewall)) \
    $(call on,$(PROVIDERS),$(call conform,na_msg)) \
    $(call on,$(HOOKED),$(call conform,na_rma))

# PORT compiles the modules one by one (SPLIT=1), with the portable replacements
# of epoll and of the processor's CRC64. These tests depend on one of the two.
PORT_INSIDE := $(patsubst %,tests/unit/test_%.c,base_bytes base_data \
    base_waker hg_checksum hg_engine hg_event hg_header na_core na_mux sm_wake)
PORT_CASES  := $(UNIT) $(filter $(call box,mercury_paper),$(BOX)) \
    $(call on,self zmq+tcp,$(call conform,na_msg na_wait rpc_calls)) \
    $(call on,self,$(call conform,bulk cb_crc cb_threads fork rpc_waits)) \
    $(filter $(call box,zmq_hostile zmq_stopped),$(BOX))

# On MPI each case is a job of three ranks, or of 2 or 8 if its name says so.
# Debian's MPICH cannot connect jobs. Only MPICH runs na_msg in check: the suites
# of Open MPI send messages, too. Calls are those of bulk_class and the demo. The
# tests of jobs are those of Open MPI, if it is here.
MPI_CASES   := $(foreach mpi,$(MPIS),$(foreach t,mpi+static mpi+static-2 \
    mpi+static-8 $(filter mpi+dynamic,$(mpi:ompi=mpi+dynamic)), \
    $(CONFORM:$(BUILD)/%=$(BUILD)/$(mpi)/%@$t)) \
    $(MPI:$(BUILD)/%=$(BUILD)/$(mpi)/%))
CHECK_ompi  := $(call conform,na_rma na_target bulk_class)
CHECK_mpich := $(call conform,na_msg)
CHECK_MPI   := $(if $(filter ompi,$(MPIS)), \
    $(BUILD)/ompi/tests/conform/test_na_peer@mpi+dynamic) \
    $(foreach mpi,$(MPIS), \
    $(CHECK_$(mpi):$(BUILD)/%=$(BUILD)/$(mpi)/%@mpi+static)) \
    $(if $(filter ompi,$(MPIS)),$(MPI:$(BUILD)/%=$(BUILD)/ompi/%)) \
    $(if $(filter ompi,$(MPIS)),,$(MPIS:%=$(BUILD)/%/tests/mpi/test_job))
