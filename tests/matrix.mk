# SPDX-License-Identifier: BSD-3-Clause
#
# The matrix of tests: which programs there are, on which transports they run,
# and what of that `make check` runs in each flavour. PROGRAM@TRANSPORT is a case
# for tests/run. The Makefile includes this, and has the rules that build them.
#

# ---- All programs, and where they can run ----

# Libfabric's, but for the native tcp.
PROVIDERS  := ofi+rxm ofi+shm ofi+rxd ofi+sockets
# ... and ofi+tcp with the decorator of tests/ofi.
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
           $(if $(SM),,$(BUILD)/tests/box/test_sm_%)
# Tests that have libfabric demand more, where that is installed.
OFI     := $(if $(filter ofi,$(FOUND)),$(call names,ofi))
BOX     := $(filter-out $(WITHOUT),$(call names,box))
MPI     := $(call names,mpi)
CONFORM := $(call names,conform)
# What remote memory is to them, when the kernel will not copy it.
COPIES  := $(addprefix $(BUILD)/tests/conform/, \
             test_na_rma test_na_target test_bulk)
# What a class of several transports has a part in.
MUXED   := $(addprefix $(BUILD)/tests/conform/test_, mux na_msg na_rma bulk \
             rpc_calls rpc_restart cb_calls cb_crc cb_identity cb_drain \
             cb_pass cb_lookup rpc_pass)
CASES   := $(UNIT) $(STEPS) $(BOX) $(OFI) \
           $(foreach t,$(TRANSPORTS) $(HOOKED),$(CONFORM:%=%@$t)) \
           $(if $(and $(SM),$(filter zmq,$(FOUND))),$(MUXED:%=%@mux)) \
           $(if $(and $(SM),$(filter ofi,$(FOUND))),$(MUXED:%=%@mux-ofi)) \
           $(if $(SM),$(COPIES:%=%@sm-copy))
SCRIPTS := tests/lint tests/generator tests/selftest tests/install tests/pair \
           tests/demo tests/mercury $(if $(filter ofi,$(FOUND)),tests/faults)

cases_of = $(CASES:$(BUILD)/%=$(BUILD)/$1/%)
programs_of = $(sort $(foreach c,$1,$(firstword $(subst @, ,$c))))

# Nothing is suppressed where neither libzmq nor libfabric is.
FOREIGN := %@zmq+tcp %@zmq+ipc %@zmq+inproc %@mux %@mux-ofi \
    $(addprefix %@,ofi+tcp $(PROVIDERS) $(HOOKED)) \
    $(OFI:$(BUILD)/%=$(BUILD)/tsan/%) \
    $(addprefix $(BUILD)/tsan/tests/box/,$(notdir $(filter \
        $(addprefix $(BUILD)/tests/box/,test_zmq_% test_ofi_%),$(BOX))) \
        test_paper test_demo_serve)

# ---- What make check runs ----
#
# A suite that shows the same on several transports, or in several flavours, runs
# where it shows most. check-full runs all of everything.

box     = $(addprefix $(BUILD)/tests/box/test_,$1)
conform = $(addprefix $(BUILD)/tests/conform/test_,$1)
# $(call on,TRANSPORTS,PROGRAMS): these programs there, if these are here.
on      = $(filter $(foreach t,$1,$(addsuffix @$t,$2)),$(CASES))
# What uses NA by itself, and the first calls and transfers above it.
NEAR_NA := $(filter $(call conform,na_% bulk fork rpc_calls cb_calls),$(CONFORM))

# With ASan and UBSan: all rooms, all that users and strangers can do, and all
# of conformance on sm. On zmq+tcp, what is about what ends or lacks: a peer, a
# class, quota, memory; on mux, what is about its parts.
BOX_ASAN   := $(filter-out $(call box,ofi_% sm_asleep sm_mapped),$(BOX)) \
    $(filter $(call box,ofi_handshake),$(BOX))
MUXED_ASAN := $(call conform,mux na_rma bulk cb_drain rpc_restart)
ASAN_CASES := $(UNIT) $(BOX_ASAN) $(filter %/ofi/test_open,$(OFI)) \
    $(call on,sm,$(CONFORM)) \
    $(call on,zmq+tcp,$(NEAR_NA)) \
    $(call on,self,$(filter-out %/test_fork,$(NEAR_NA))) \
    $(call on,zmq+tcp,$(call conform,cb_drain cb_ends cb_restart cb_watch \
        rpc_drain rpc_ends rpc_memory rpc_peer rpc_restart rpc_room)) \
    $(call on,mux,$(MUXED_ASAN)) \
    $(call on,self-emul sm-copy,$(COPIES))

# Optimized, as users have it: all of conformance on zmq+tcp, but fork, and on
# self what is above NA. On sm messages, memory, peers and calls. On the other
# transports of ZeroMQ and on mux, what is theirs and not above NA. The native
# tcp of libfabric runs messages, memory, peers and calls, also with bulk data on
# another transport; other providers run messages, and the decorated ones
# (HOOKED) run memory. Death, which libfabric shows only by silence, and
# strangers take minutes: check-full.
CHECK_CASES := $(STEPS) $(OFI) \
    $(filter $(call box,ofi_names ofi_shm_forged sm_asleep sm_mapped),$(BOX)) \
    $(call on,zmq+tcp,$(filter-out %/test_fork,$(CONFORM))) \
    $(call on,self,$(filter-out $(NEAR_NA),$(CONFORM))) \
    $(call on,sm,$(call conform,na_msg na_peer na_rma rpc_calls cb_calls)) \
    $(call on,zmq+ipc zmq+inproc,$(call conform,na_life na_msg na_peer na_rma \
        na_wait bulk)) \
    $(call on,mux,$(filter-out $(MUXED_ASAN),$(MUXED))) \
    $(call on,ofi+tcp,$(call conform,na_life na_msg na_rma na_peer rpc_calls \
        bulk_apart)) \
    $(call on,$(PROVIDERS),$(call conform,na_msg)) \
    $(call on,$(HOOKED),$(call conform,na_rma))

# PORT compiles the modules one by one (SPLIT=1). What it leaves out, and what
# stands in for it: how threads sleep, and CRC64.
PORT_INSIDE := $(patsubst %,tests/unit/test_%.c,base_bytes base_data \
    base_waker hg_checksum hg_engine hg_event hg_header na_core na_mux sm_wake)
PORT_CASES  := $(UNIT) $(filter $(call box,paper),$(BOX)) \
    $(call on,self zmq+tcp,$(call conform,na_msg na_wait rpc_calls)) \
    $(call on,self,$(call conform,bulk cb_crc cb_threads fork rpc_waits)) \
    $(filter $(call box,zmq_hostile zmq_stopped),$(BOX))

# On MPI each case is a job, of three ranks unless its name says 2 or 8. MPICH
# of Debian cannot connect jobs.
MPI_CASES   := $(foreach mpi,$(MPIS),$(foreach t,mpi+static mpi+static-2 \
    mpi+static-8 $(filter mpi+dynamic,$(mpi:ompi=mpi+dynamic)), \
    $(CONFORM:$(BUILD)/%=$(BUILD)/$(mpi)/%@$t)) \
    $(MPI:$(BUILD)/%=$(BUILD)/$(mpi)/%))
CHECK_ompi  := $(call conform,na_msg na_rma na_peer rpc_calls na_target \
    bulk_apart)
CHECK_mpich := $(call conform,na_msg)
CHECK_MPI   := $(if $(filter ompi,$(MPIS)), \
    $(BUILD)/ompi/tests/conform/test_na_peer@mpi+dynamic) \
    $(foreach mpi,$(MPIS), \
    $(CHECK_$(mpi):$(BUILD)/%=$(BUILD)/$(mpi)/%@mpi+static)) \
    $(if $(filter ompi,$(MPIS)),$(MPI:$(BUILD)/%=$(BUILD)/ompi/%)) \
    $(if $(filter mpich,$(MPIS)),$(BUILD)/mpich/tests/mpi/test_job)
