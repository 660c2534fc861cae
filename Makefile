# SPDX-License-Identifier: BSD-3-Clause
#
# hg: two generated files, hg.h and hg.c, and one file for each transport with
# a dependency. An application needs none of this: cc app.c hg.c -lpthread.
# `make help` lists the targets. Everything built goes under $(BUILD).
#

CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
BUILD  ?= build
NA     ?=
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
Q      := $(if $(filter 1,$(V)),,@)

VERSION  := $(shell cat gen/VERSION)
SONAME   := libhg.so.$(firstword $(subst ., ,$(VERSION)))
# For misleading indentation gcc reads hg.c again at each "if", which takes a
# quarter of the time without optimization. Clang looks for it (make lint).
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wconversion \
            -Wc++-compat -Wno-misleading-indentation
HG_FLAGS := -std=c11 $(WARNINGS) -pthread -I.

# What each transport adds: its define, and the package that pkg-config knows.
zmq_DEFINE := -DHG_NA_ZMQ=1
zmq_PKG    := libzmq
ofi_DEFINE := -DHG_NA_OFI=1
ofi_PKG    := libfabric
mpi_DEFINE := -DHG_NA_MPI=1
# Open MPI, or the MPI of the compiler, such as CC=mpicc.mpich. Linking libhg.a
# with another compiler needs its libraries.
mpi_PKG    := $(if $(findstring mpicc,$(CC)),,ompi)
mpi_LIBS   := $(if $(findstring mpicc,$(CC)),$(filter -L% -l%, \
    $(shell $(CC) -show)))
pkgs        = $(strip $(foreach na,$1,$($(na)_PKG)))
defines     = $(foreach na,$1,$($(na)_DEFINE))
na_cflags   = $(defines) $(if $(pkgs),$(shell pkg-config --cflags $(pkgs)))
na_libs     = $(if $(pkgs),$(shell pkg-config --libs $(pkgs))) \
    $(if $(filter mpi,$1),$(mpi_LIBS))

# Check that the transports of NA and their libraries are available.
HERE := $(patsubst hg_na_%.c,%,$(wildcard hg_na_*.c))
ifneq ($(filter-out $(HERE),$(NA)),)
$(error NA=$(NA): there is no $(patsubst %,hg_na_%.c,$(filter-out \
    $(HERE),$(NA))) here; transports: $(HERE))
endif
ifneq ($(call pkgs,$(NA)),)
ifneq ($(shell pkg-config --exists $(call pkgs,$(NA)) 2>/dev/null && echo y),y)
$(error NA=$(NA): needs pkg-config, and $(call pkgs,$(NA)) that it knows)
endif
endif

# Tests run on every transport whose file and library are available. A program
# uses one implementation of MPI: each has its own flavour, with FOUND=mpi.
FOUND := $(strip $(foreach na,$(filter-out mpi,$(HERE)), \
    $(shell pkg-config --exists $($(na)_PKG) 2>/dev/null && echo $(na))) \
    $(filter mpi,$(NA)))
ompi_CC  := mpicc.openmpi
mpich_CC := mpicc.mpich
MPIS     := $(foreach mpi,$(if $(filter mpi,$(HERE)),ompi mpich), \
    $(shell pkg-config --exists $(mpi) 2>/dev/null && \
        command -v $($(mpi)_CC:mpicc.%=mpirun.%) >/dev/null && echo $(mpi)))
# The transport between the processes of one node is compiled in on Linux.
SM         := $(filter Linux,$(shell uname -s))

# ---- Forwarding ----
#
# Both programs need Linux, and hg_forward needs libfuse3.

FUSE     := $(if $(SM),$(shell pkg-config --exists fuse3 2>/dev/null && \
    echo fuse3))
FUSE_CFLAGS = $(if $(FUSE),$(shell pkg-config --cflags fuse3))
FUSE_LIBS   = $(if $(FUSE),$(shell pkg-config --libs fuse3))
FORWARDS := $(if $(SM),hg_forwardd) $(if $(FUSE),hg_forward)
FORWARD  := $(FORWARDS:%=$(BUILD)/examples/%)
FORWARD_HEADERS := $(wildcard examples/forward/*.h) examples/usage.h
hg_forwardd_sources := examples/forward/hg_forwardd.c \
    examples/forward/forward.c $(wildcard examples/forward/server_*.c) \
    examples/usage.c
hg_forward_sources := examples/forward/hg_forward.c \
    examples/forward/forward.c $(wildcard examples/forward/client_*.c) \
    examples/usage.c

# ---- GASNet ----
#
# The conduit, its launcher and its programs need Linux.

GASNET_HEADERS  := $(wildcard examples/gasnet/*.h)
GASNET_PROGRAMS := $(if $(SM),$(basename $(notdir $(wildcard \
    $(addprefix examples/gasnet/,gasnetrun_hg.c gasnet_perf.c)))))
GASNET_SOURCES  := $(if $(SM),$(filter-out \
    $(GASNET_PROGRAMS:%=examples/gasnet/%.c),$(wildcard examples/gasnet/*.c)))
GASNET_OBJS     := $(GASNET_SOURCES:%.c=$(BUILD)/%.o)
GASNET          := $(GASNET_PROGRAMS:%=$(BUILD)/examples/gasnet/%)
GASNET_JOBS     := $(if $(SM),$(BUILD)/tests/gasnet/jobs)

# ---- Nemesis ----
#
# The network module, and the small CH3 that drives it in tests.

NEMESIS_HEADERS := $(wildcard examples/nemesis/*.h)
NEMESIS_OBJS    := $(patsubst %.c,$(BUILD)/%.o,$(wildcard examples/nemesis/*.c))

.DELETE_ON_ERROR:
.PHONY: all lib tools check check-programs check-run check-full asan ubsan tsan valgrind coverage \
        fuzz fuzz-regress soak amalgamate lint format docs install \
        install-man install-mercury-compat uninstall dist clean help deps programs checked \
        install-gasnet gasnet-programs ranked mpi demo demo-forward examples bench bench-forward counts FORCE

all: lib ## the library (the default)

# ---- The pair ----

PAIR := hg.h hg.c

amalgamate: ## write hg.h, hg.c and hg_na_*.c from gen/
	$(Q)mkdir -p $(BUILD)
	$(Q)for t in h:hg.h c:hg.c zmq:hg_na_zmq.c ofi:hg_na_ofi.c \
	    mpi:hg_na_mpi.c; do \
	    file=$${t#*:}; \
	    LC_ALL=C awk -f gen/amalgamate.awk -v target=$${t%:*} gen/manifest \
	        > $(BUILD)/$$file.new || exit 1; \
	    cmp -s $(BUILD)/$$file.new $$file || cp $(BUILD)/$$file.new $$file; \
	done

# ---- The library ----

LIB      := $(BUILD)/lib
LIB_OBJS := $(LIB)/hg.o $(NA:%=$(LIB)/hg_na_%.o)

lib: $(LIB)/libhg.a $(LIB)/$(SONAME) ## libhg.a and libhg.so, with NA="..." in it
	$(Q)echo 'lib: $(LIB)/libhg.a, $(LIB)/libhg.so'

# Objects depend on their flags, so that another NA or CFLAGS rebuilds them.
FLAGS = $(CC) $(CFLAGS) $(NA), $(FOUND)
$(BUILD)/flags $(LIB)/flags: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@
FORCE:

LIB_FLAGS = $(HG_FLAGS) -fPIC -fvisibility=hidden $(CFLAGS) \
            $(call na_cflags,$(NA))

$(LIB)/%.o: %.c hg.h $(LIB)/flags
	$(Q)$(CC) $(LIB_FLAGS) -c -o $@ $<

$(LIB)/libhg.a: $(LIB_OBJS)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(LIB)/libhg.so.$(VERSION): $(LIB_OBJS)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -pthread -Wl,-soname,$(SONAME) \
	    -Wl,-z,defs -o $@ $^ $(call na_libs,$(NA))

$(LIB)/$(SONAME): $(LIB)/libhg.so.$(VERSION)
	$(Q)ln -sf $(<F) $@ && ln -sf $(@F) $(LIB)/libhg.so

# The tools contain the library, so they run wherever they are copied.
TOOLS := hg_tool hg_info hg_perf $(FORWARDS)

# hg_perf has the bare program of each transport that the library has.
perf_sources = $(wildcard tests/perf/hg_perf*.c) examples/usage.c \
    $(patsubst %,tests/perf/raw_%.c,$1 $(if $(SM),sm))

tools: $(TOOLS:%=$(LIB)/%) ## hg_tool, hg_forward and others, with NA="..."
	$(Q)echo 'tools: $^'

define link_tool
	$(Q)$(CC) $(HG_FLAGS) $(CFLAGS) $(LDFLAGS) $(call na_cflags,$(NA)) \
	    $(TOOL_FLAGS) -o $@ $(filter %.c %.o,$^) $(call na_libs,$(NA)) \
	    $(TOOL_LIBS)
endef

$(LIB)/hg_tool $(LIB)/hg_info: $(LIB)/%: examples/%.c examples/peer.c \
        examples/usage.c $(wildcard examples/*.h) $(LIB_OBJS)
	$(link_tool)

$(LIB)/hg_perf: $(call perf_sources,$(NA)) $(wildcard tests/perf/*.h) \
        examples/usage.h $(LIB_OBJS)
	$(link_tool)

$(FORWARDS:%=$(LIB)/%): $(LIB_OBJS) $(FORWARD_HEADERS)
	$(link_tool)
$(LIB)/hg_forward: private TOOL_FLAGS = $(FUSE_CFLAGS)
$(LIB)/hg_forward: private TOOL_LIBS = $(FUSE_LIBS)
$(foreach tool,$(FORWARDS),$(eval $(LIB)/$(tool): $($(tool)_sources)))

MAN       := $(BUILD)/man
MAN_PAGES := $(wildcard gen/man/*.[17].md)
MAN_NAMES := $(basename $(notdir $(MAN_PAGES)))
DOC_PAGES := README.md $(MAN_PAGES) $(wildcard gen/*.md)
DOC_TOOLS := doxygen pandoc xsltproc
NO_DOCS    = $(strip $(foreach tool,$(DOC_TOOLS), \
    $(shell command -v $(tool) >/dev/null || echo $(tool))))

DEST = $(DESTDIR)$(PREFIX)

HG_CMAKE = $(DEST)/lib/cmake/hg

install: lib tools ## lib, bin, hg.h, hg.pc, CMake's hg, man: to $(DESTDIR)$(PREFIX)
	$(Q)printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$${prefix}/lib' \
	    'includedir=$${prefix}/include' '' 'Name: hg' \
	    'Description: remote procedure calls and their bulk data' \
	    'Version: $(VERSION)' 'Libs: -L$${libdir} -lhg' \
	    '# What libhg.a needs with the shared libraries of its transports.' \
	    'Libs.private: $(strip $(call na_libs,$(NA)) -pthread)' \
	    'Cflags: -I$${includedir}' > $(LIB)/hg.pc
	$(Q)install -d $(DEST)/include $(DEST)/lib/pkgconfig
	$(Q)install -m 644 hg.h $(DEST)/include
	$(Q)install -m 644 $(LIB)/libhg.a $(DEST)/lib
	$(Q)install -m 755 $(LIB)/libhg.so.$(VERSION) $(DEST)/lib
	$(Q)ln -sf libhg.so.$(VERSION) $(DEST)/lib/$(SONAME)
	$(Q)ln -sf $(SONAME) $(DEST)/lib/libhg.so
	$(Q)install -m 644 $(LIB)/hg.pc $(DEST)/lib/pkgconfig
	$(Q)install -d $(DEST)/bin
	$(Q)install -m 755 $(TOOLS:%=$(LIB)/%) $(DEST)/bin
	$(Q)install -d $(HG_CMAKE)
	$(Q)for file in hg-config hg-config-version; do \
	    sed -e 's,@LIBS@,$(strip $(call na_libs,$(NA))),' \
	        -e 's,@SONAME@,$(SONAME),' -e 's,@VERSION@,$(VERSION),' \
	        gen/cmake/$$file.cmake.in > $(LIB)/$$file.cmake && \
	    install -m 644 $(LIB)/$$file.cmake $(HG_CMAKE) || exit 1; \
	done
	$(if $(NO_DOCS),@echo 'install: no man pages: they need $(NO_DOCS)', \
	    +$(Q)$(MAKE) --no-print-directory install-man)

DEST_MAN = $(DEST)/share/man
DEST_DOC = $(DEST)/share/doc/hg

install-man: $(MAN)/made
	$(Q)for section in 1 3 7; do \
	    install -d $(DEST_MAN)/man$$section && install -m 644 \
	        $(MAN)/man$$section/* $(DEST_MAN)/man$$section || exit 1; \
	done
	$(Q)install -d $(DEST_DOC) && install -m 644 LICENSE $(DEST_DOC)
	$(Q)rm -rf $(DEST_DOC)/html && \
	    cp -R $(dir $(MAN))docs/html $(DEST_DOC)/html && \
	    chmod -R u=rwX,go=rX $(DEST_DOC)/html

# hg under the names of Mercury: its headers, libraries, .pc files, and its CMake
# package, in the same places. Each library is a link to libhg.
COMPAT := $(notdir $(wildcard gen/compat/*.h))
MERCURY_LIBS  = mercury:2.4.1 na:6.0.0 mercury_util:4.1.0
MERCURY_NAMES = $(foreach lib,$(MERCURY_LIBS),$(firstword $(subst :, ,$(lib))))
MERCURY_CMAKE = $(DEST)/share/cmake/mercury

install-mercury-compat: install ## what programs written for Mercury 2.x look for
	$(Q)install -m 644 gen/compat/*.h $(DEST)/include
	$(Q)umask 022 && sed -e '' $(foreach na,$(NA),-e 's,^/\* $(na): \(.*\) \*/,#define \1,') \
	    gen/compat/na_config.h > $(DEST)/include/na_config.h
	$(Q)umask 022 && for lib in $(MERCURY_LIBS); do \
	    name=$${lib%:*}; \
	    ln -sf libhg.so $(DEST)/lib/lib$$name.so && \
	    ln -sf libhg.a $(DEST)/lib/lib$$name.a && \
	    sed -e 's,@PREFIX@,$(PREFIX),' -e "s,@NAME@,$$name," \
	        -e "s,@VERSION@,$${lib#*:}," gen/compat/mercury.pc.in \
	        > $(DEST)/lib/pkgconfig/$$name.pc || exit 1; \
	done
	$(Q)install -d $(MERCURY_CMAKE)
	$(Q)umask 022 && sed -e 's,@LIBS@,$(strip $(call na_libs,$(NA))),' \
	    -e 's,@SONAME@,$(SONAME),' gen/compat/mercury-config.cmake.in \
	    > $(MERCURY_CMAKE)/mercury-config.cmake
	$(Q)install -m 644 gen/compat/mercury-config-version.cmake.in \
	    $(MERCURY_CMAKE)/mercury-config-version.cmake

# A conduit for programs of GASNet, where they look for one: one library under
# three names, since a program says itself how it uses threads.
GASNET_MODES     := seq par parsync
GASNET_INSTALLED := $(filter-out %/gasnet_hg.h,$(GASNET_HEADERS)) \
    $(wildcard examples/gasnet/install/gasnet_config.h)
GASNET_LIB_OBJS  := $(GASNET_SOURCES:examples/gasnet/%.c=$(LIB)/gasnet/%.o)
GASNET_CONDUIT    = $(DEST)/include/hg-conduit

$(GASNET_LIB_OBJS): $(LIB)/gasnet/%.o: examples/gasnet/%.c hg.h \
        $(GASNET_HEADERS) $(LIB)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LIB_FLAGS) -c -o $@ $<

$(LIB)/libgasnet-hg.a: $(GASNET_LIB_OBJS) $(LIB_OBJS)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(LIB)/gasnetrun_hg: examples/gasnet/gasnetrun_hg.c examples/usage.c \
        examples/usage.h hg.h $(LIB)/flags
	$(Q)$(CC) $(HG_FLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.c,$^)

install-gasnet: $(LIB)/libgasnet-hg.a $(LIB)/gasnetrun_hg ## a conduit of GASNet, with NA="...": to $(DESTDIR)$(PREFIX)
	$(Q)install -d $(DEST)/lib $(DEST)/bin $(GASNET_CONDUIT)
	$(Q)install -m 644 $(GASNET_INSTALLED) $(DEST)/include
	$(Q)install -m 644 examples/gasnet/install/gasnet_core.h $(GASNET_CONDUIT)
	$(Q)install -m 755 $(LIB)/gasnetrun_hg $(DEST)/bin
	$(Q)install -m 644 $(LIB)/libgasnet-hg.a $(DEST)/lib
	$(Q)umask 022 && for mode in $(GASNET_MODES); do \
	    ln -sf libgasnet-hg.a $(DEST)/lib/libgasnet-hg-$$mode.a && \
	    sed -e 's,@PREFIX@,$(PREFIX),' -e 's,@CC@,$(CC),' -e "s,@mode@,$$mode," \
	        -e "s,@MODE@,$$(echo $$mode | tr a-z A-Z)," \
	        -e 's,@LIBS@,$(strip $(call na_libs,$(NA))),' \
	        examples/gasnet/install/conduit.mak.in \
	        > $(GASNET_CONDUIT)/hg-$$mode.mak || exit 1; \
	done

uninstall: ## remove what install put there
	$(Q)rm -f $(DEST)/include/hg.h $(DEST)/lib/libhg.a $(DEST)/lib/libhg.so \
	    $(DEST)/lib/$(SONAME) $(DEST)/lib/libhg.so.$(VERSION) \
	    $(DEST)/lib/pkgconfig/hg.pc $(COMPAT:%=$(DEST)/include/%) \
	    $(MERCURY_NAMES:%=$(DEST)/lib/lib%.so) \
	    $(MERCURY_NAMES:%=$(DEST)/lib/lib%.a) $(TOOLS:%=$(DEST)/bin/%) \
	    $(MERCURY_NAMES:%=$(DEST)/lib/pkgconfig/%.pc)
	$(Q)rm -f $(addprefix $(DEST)/include/,$(notdir $(GASNET_INSTALLED))) \
	    $(DEST)/lib/libgasnet-hg.a $(DEST)/bin/gasnetrun_hg \
	    $(GASNET_MODES:%=$(DEST)/lib/libgasnet-hg-%.a)
	$(Q)rm -rf $(MERCURY_CMAKE) $(HG_CMAKE) $(DEST_DOC) $(GASNET_CONDUIT)
	$(Q)rm -f $(addprefix $(DEST_MAN)/man,$(join $(subst .,,$(suffix \
	    $(MAN_NAMES))),$(addprefix /,$(MAN_NAMES))))
	$(Q)grep -oE '\b(HG|NA|MERCURY|hg|na)_[A-Za-z0-9_]+' hg.h | sort -u | \
	    sed 'p; y/_/-/' | sed 's,.*,$(DEST_MAN)/man3/&.3,' | xargs rm -f

# ---- Tests ----
#
# tests/unit/test_*.c     see private functions: one program that includes hg.c
# tests/fuzz/fuzz_*.c     the same; a fuzzer can also run them
# tests/step/test_*.c     the same, with an hg.c that stops at the steps of sm
# tests/box/test_*.c      link the library and see hg.h only
# tests/conform/test_*.c  the same, run once for each transport
# tests/nemesis/test_*.c  the same, with the network module for MPICH
# tests/ofi/hook*.c       a decorator for libfabric that adds requirements
# tests/mpi/test_*.c      link the library with MPI, and start several ranks
# tests/support/*.c       code shared by several of them
#
# A flavour (asan, tsan, ...) is a folder under $(BUILD) with other CFLAGS.

include tests/matrix.mk

# Four times the number of processors, since many cases wait.
RUN      = $(BUILD)/run -j $(shell expr $(JOBS) \* 4) $(if $(Q),,-v) $(RUNFLAGS)
WERROR  := -Werror

# Lines are enough to find a failure. For a debugger: CFLAGS='-O0 -g3'.
TEST_FLAGS   = $(HG_FLAGS) -DHG_DEBUG $(WERROR) -Itests \
               $(patsubst -g,-g1,$(CFLAGS))
# Tests are not optimized: compiling them takes longer than running them.
TEST_QUICKLY = $(TEST_FLAGS) -O0
# Links in half the time of the default one, where it is installed.
TEST_LINKER := $(if $(shell command -v ld.gold),-fuse-ld=gold)
TEST_HEADERS = hg.h $(wildcard tests/*.h tests/*/*.h)
TEST_OBJS    = $(BUILD)/tests/harness.o \
               $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))
TEST_LIB     = $(BUILD)/libtest.a

# With SPLIT=1 the modules are compiled one by one instead of hg.c.
MODULES := $(shell awk '/^c .*\.c$$/ { print $$2 }' gen/manifest)
HG_O  ?= $(BUILD)/hg.o
OBJS  := $(if $(SPLIT),$(MODULES:%.c=$(BUILD)/modules/%.o),$(HG_O)) \
         $(FOUND:%=$(BUILD)/hg_na_%.o)

# make check compiles the objects of the conformance suites once for all
# flavours.
SUITES  ?= $(BUILD)
SUITE_OBJS = $(CONFORM:$(BUILD)/%=$(SUITES)/%.o)

$(BUILD)/run: tests/run.c
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_FLAGS) -o $@ $<

$(BUILD)/%.o: %.c hg.h $(BUILD)/flags
	$(Q)$(CC) $(TEST_FLAGS) $(call na_cflags,$(FOUND)) -c -o $@ $<

$(BUILD)/modules/%.o: gen/%.c hg.h $(wildcard gen/*/*.h) $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_FLAGS) $(call na_cflags,$(FOUND)) -DHG_SPLIT=1 -Igen \
	    -c -o $@ $<

$(TEST_OBJS): $(BUILD)/%.o: %.c $(TEST_HEADERS) $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_QUICKLY) -c -o $@ $<

$(TEST_LIB): $(TEST_OBJS)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# One program, so that hg.c is compiled once for all unit tests. -O2 would take
# three times as long; programs that link the library use the optimized hg.c.
TEST_INSIDE = $(patsubst -O2,-Og,$(TEST_FLAGS))
$(BUILD)/units.c: PASTED = $(INSIDE)
$(BUILD)/steps.c: PASTED = $(STEPPED)
$(BUILD)/units.c $(BUILD)/steps.c: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)printf '#include "%s"\n' $(PASTED) > $@.new
	$(Q)cmp -s $@.new $@ || cp $@.new $@

$(UNIT): $(BUILD)/units.c $(INSIDE) hg.c $(TEST_LIB)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_INSIDE) -o $@ $< $(TEST_LIB)

$(BUILD)/tests/steps: $(BUILD)/steps.c $(STEPPED) hg.c $(TEST_LIB)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_QUICKLY) -o $@ $< $(TEST_LIB)

# The decorator does nothing unless a transport's name asks for it.
HOOK_OBJS  := $(patsubst %.c,$(SUITES)/%.o,$(wildcard tests/ofi/hook*.c))
HOOK_FLAGS := -Wl,--wrap=fi_getinfo,--wrap=fi_fabric
ifneq ($(HOOKED),)
$(CONFORM): HOOK := $(HOOK_OBJS) $(HOOK_FLAGS)
$(CONFORM): $(HOOK_OBJS)
endif

# Starts the ranks of a test under MPI.
RANKS := $(BUILD)/tests/mpi/ranks.o
ifeq ($(FOUND),mpi)
$(CONFORM) $(MPI) $(BUILD)/tests/faulty: HOOK := $(RANKS)
$(CONFORM) $(MPI) $(BUILD)/tests/faulty: $(RANKS)
endif

$(RANKS): $(BUILD)/%.o: %.c $(TEST_HEADERS) $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_QUICKLY) $(call na_cflags,mpi) -c -o $@ $<

ifeq ($(SUITES),$(BUILD))
$(HOOK_OBJS): $(BUILD)/%.o: %.c $(TEST_HEADERS) $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_QUICKLY) $(call na_cflags,ofi) -c -o $@ $<

$(SUITE_OBJS): $(BUILD)/%.o: %.c $(TEST_HEADERS) $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_QUICKLY) -c -o $@ $<
endif

$(OFI): $(BUILD)/%: %.c $(OBJS) $(HOOK_OBJS) $(TEST_LIB)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_QUICKLY) $(TEST_LINKER) $(call na_cflags,ofi) -o $@ $< \
	    $(HOOK_OBJS) $(HOOK_FLAGS) $(TEST_LIB) $(OBJS) \
	    $(call na_libs,$(FOUND) ofi)

define link_test
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_QUICKLY) $(TEST_LINKER) -o $@ $< $(HOOK) $(TEST_LIB) $(OBJS) \
	    $(TEST_LIB) $(call na_libs,$(filter-out ofi,$(FOUND)))
endef

# tests/selftest makes the runner run tests/faulty.c.
$(BOX) $(MPI) $(BUILD)/tests/faulty: $(BUILD)/%: %.c $(OBJS) $(TEST_LIB)
	$(link_test)

# tests/forward runs it.
FORWARD_OPS := $(if $(SM),$(BUILD)/tests/forward_ops)

$(FORWARD_OPS): tests/forward_ops.c $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_QUICKLY) -o $@ $<

# The example of a transport, which these programs register if it is the one
# they run on.
EXAMPLE_NA := $(if $(SM),$(BUILD)/examples/hg_na_unix.o \
    $(BUILD)/tests/conform/register.o)

$(EXAMPLE_NA): $(BUILD)/%.o: %.c hg.h $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_FLAGS) -c -o $@ $<

$(CONFORM): HOOK += $(EXAMPLE_NA)
$(BUILD)/tests/box/test_unix_datagrams: $(firstword $(EXAMPLE_NA))
$(BUILD)/tests/box/test_unix_datagrams: HOOK += $(firstword $(EXAMPLE_NA))
$(CONFORM): $(BUILD)/%: $(SUITES)/%.o $(OBJS) $(EXAMPLE_NA) $(TEST_LIB)
	$(link_test)

# ---- Examples ----

SHIPS        := hello array write stub pool cluster demo_server demo_client \
                hg_tool hg_info loop
# The example of an event loop needs Linux.
EXAMPLES     := $(patsubst %,$(BUILD)/examples/%,$(if $(SM),$(SHIPS), \
    $(filter-out loop,$(SHIPS))))
EXAMPLE_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out \
    $(SHIPS:%=examples/%.c) examples/hg_na_%.c,$(wildcard examples/*.c)))

$(EXAMPLE_OBJS): $(BUILD)/%.o: %.c hg.h $(wildcard examples/*.h) $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_FLAGS) -c -o $@ $<

# These programs load libfabric when they use it, as tests do.
LAZY_FABRIC  := $(if $(filter ofi,$(FOUND)),$(BUILD)/tests/support/fabric.o)
LAZY_LIBS     = $(LAZY_FABRIC) $(call na_libs,$(filter-out ofi,$(FOUND)))

$(EXAMPLES): $(BUILD)/%: %.c $(EXAMPLE_OBJS) $(OBJS) $(LAZY_FABRIC)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_FLAGS) -o $@ $< $(EXAMPLE_OBJS) $(OBJS) $(LAZY_LIBS)

# These sources are compiled for hg_forwardd and hg_forward alone.
$(patsubst %.c,$(BUILD)/%.o,$(filter examples/forward/%, \
        $(sort $(foreach tool,$(FORWARDS),$($(tool)_sources))))): \
        $(BUILD)/%.o: %.c hg.h $(FORWARD_HEADERS) $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_FLAGS) $(FUSE_CFLAGS) -c -o $@ $<

$(foreach tool,$(FORWARDS),$(eval $(BUILD)/examples/$(tool): \
    $($(tool)_sources:%.c=$(BUILD)/%.o)))
$(FORWARD): $(OBJS) $(LAZY_FABRIC)
	$(Q)$(CC) $(TEST_FLAGS) -o $@ $(filter-out $(LAZY_FABRIC),$^) \
	    $(LAZY_LIBS) $(if $(filter %/hg_forward,$@),$(FUSE_LIBS))

# A fuzz entry includes the server.
$(UNIT): $(hg_forwardd_sources) $(FORWARD_HEADERS)

# These start hg_forwardd.
FORWARD_TESTS := $(addprefix $(BUILD)/tests/box/test_forward_,calls hostile)
$(FORWARD_TESTS): HOOK := $(BUILD)/examples/forward/forward.o
$(FORWARD_TESTS): $(FORWARD) $(FORWARD_HEADERS) tests/box/forward_client.h

$(GASNET_OBJS) $(GASNET:%=%.o): $(BUILD)/%.o: %.c hg.h $(GASNET_HEADERS) \
        $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_FLAGS) -c -o $@ $<

# The launcher does not use the conduit.
$(BUILD)/examples/gasnet/gasnetrun_hg: %: %.o $(BUILD)/examples/usage.o
	$(Q)$(CC) $(TEST_FLAGS) -o $@ $^

$(BUILD)/examples/gasnet/gasnet_perf: %: %.o $(GASNET_OBJS) $(OBJS) \
        $(EXAMPLE_OBJS) $(LAZY_FABRIC)
	$(Q)$(CC) $(TEST_FLAGS) -o $@ $(filter-out $(LAZY_FABRIC),$^) $(LAZY_LIBS)

# tests/gasnet_jobs runs it with the launcher.
GASNET_JOBS_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/gasnet/*.c))
GASNET_JOBS_CODE := $(BUILD)/tests/perf/counts_code.o

$(GASNET_JOBS_OBJS): $(BUILD)/%.o: %.c hg.h $(GASNET_HEADERS) \
        tests/gasnet/jobs.h $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_FLAGS) -I. -Iexamples/gasnet -c -o $@ $<

$(GASNET_JOBS): $(GASNET_JOBS_OBJS) $(GASNET_JOBS_CODE) $(GASNET_OBJS) $(OBJS) $(LAZY_FABRIC)
	$(Q)$(CC) $(TEST_FLAGS) -o $@ $(filter-out $(LAZY_FABRIC),$^) $(LAZY_LIBS)

examples: $(EXAMPLES) $(FORWARD) $(GASNET) ## hello, stub, demo_*, hg_tool and more, into $(BUILD)/examples

$(NEMESIS_OBJS): $(BUILD)/%.o: %.c hg.h $(NEMESIS_HEADERS) $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_FLAGS) -c -o $@ $<

# The test refuses sends, and turns the clock on.
$(NEMESIS): HOOK := $(NEMESIS_OBJS) \
    -Wl,--wrap=NA_Msg_try_sendv_unexpected,--wrap=NA_Progress,--wrap=time
$(NEMESIS): $(BUILD)/%: %.c $(NEMESIS_OBJS) $(OBJS) $(TEST_LIB)
	$(link_test)

# This one includes sources of the demo.
$(BUILD)/tests/box/test_demo_serve: $(wildcard examples/*.[ch])

# These include the headers of Mercury's names.
$(addprefix $(BUILD)/tests/box/test_mercury_,util na): $(wildcard gen/compat/*.h)

# Knobs of demo: where the server listens, the file shipped, or its size.
TRANSPORT = $(or $(if $(SM),sm://),$(if $(filter \
    zmq,$(FOUND)),zmq+tcp://127.0.0.1))
FILE      =
SIZE      = 256M

# For these targets warnings of a newer compiler are not errors.
demo demo-forward examples bench counts: WERROR :=

# Over MPI: with mpicc, or the one that CC names, and the mpirun beside it.
MPICC = $(if $(findstring mpicc,$(CC)),$(CC),mpicc)

ifeq ($(if $(filter mpi,$(FOUND)),,$(filter mpi+%,$(TRANSPORT))),)
demo: $(filter %/demo_server %/demo_client,$(EXAMPLES)) ## ship a file to a server and back: TRANSPORT=, FILE=, SIZE=
	$(Q)examples/demo $(BUILD)/examples '$(TRANSPORT)' '$(FILE)' '$(SIZE)'
else
demo:
	+$(Q)MPIRUN='$(subst mpicc,mpirun,$(MPICC))' $(MAKE) --no-print-directory \
	    BUILD=$(BUILD)/mpi CC=$(MPICC) FOUND=mpi demo
endif

demo-forward: $(FORWARD) ## serve and mount a folder, and use it: TRANSPORT=
	$(Q)examples/demo-forward $(BUILD)/examples '$(TRANSPORT)'

# ---- Figures ----

PERF_OBJS    := $(patsubst %.c,$(BUILD)/%.o,$(call perf_sources,$(FOUND)))
PERF         := $(BUILD)/tests/perf/hg_perf

# Figures are those of the library as users compile it, without HG_DEBUG.
PLAIN_OBJS   := $(BUILD)/plain/hg.o $(FOUND:%=$(BUILD)/plain/hg_na_%.o)

$(PLAIN_OBJS): $(BUILD)/plain/%.o: %.c hg.h $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -DHG_DEBUG,$(TEST_FLAGS)) \
	    $(call na_cflags,$(FOUND)) -c -o $@ $<

# The events of an echo. The figures of counts.txt are those of gcc 12 and -O2.
COUNTS       := $(if $(SM),$(BUILD)/tests/perf/counts)
COUNTS_OBJS  := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/perf/counts*.c))

$(COUNTS_OBJS) $(filter $(BUILD)/tests/%,$(PERF_OBJS)): $(BUILD)/%.o: %.c hg.h \
        examples/usage.h $(wildcard tests/perf/*.h) $(BUILD)/flags
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_FLAGS) $(call na_cflags,$(FOUND)) -c -o $@ $<

$(BUILD)/tests/perf/counts.o: private TEST_FLAGS += \
    -DCOUNTS_KNOWN=$(if $(filter-out -O2 -g%,$(CFLAGS)),0,1)

$(PERF): $(PERF_OBJS) $(PLAIN_OBJS)
	$(Q)$(CC) $(TEST_FLAGS) -o $@ $^ $(call na_libs,$(FOUND))

$(COUNTS): $(COUNTS_OBJS) $(PLAIN_OBJS) $(LAZY_FABRIC)
	$(Q)$(CC) $(TEST_FLAGS) -o $@ $(filter-out $(LAZY_FABRIC),$^) \
	    $(LAZY_LIBS) -ldl

counts: $(COUNTS) ## what an echo costs: locks, copies, instructions, ...
	$(Q)$(or $<,echo 'counts: needs Linux')

# hg_perf with libhg.so, as programs of Mercury use the library.
PERF_LIB := $(BUILD)/shared/lib

$(PERF)_shared: $(PERF_OBJS) FORCE
	+$(Q)$(MAKE) --no-print-directory lib BUILD=$(BUILD)/shared NA='$(FOUND)'
	$(Q)$(CC) $(TEST_FLAGS) -o $@ $(PERF_OBJS) -L$(PERF_LIB) -lhg \
	    -Wl,-rpath,$(abspath $(PERF_LIB)) $(call na_libs,$(FOUND))

bench: $(PERF)$(if $(SHARED),_shared) ## the figures, about two minutes; BENCHFLAGS=, SHARED=1
	$(Q)$< $(BENCHFLAGS)

FORWARD_PERF := $(patsubst %,$(BUILD)/examples/forward_%,meta listen)

$(FORWARD_PERF): $(BUILD)/examples/%: tests/perf/%.c
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_FLAGS) -o $@ $<

bench-forward: $(FORWARD_PERF) $(FORWARD) ## hg_forward compared with sshfs; BENCHFLAGS='-p passthrough_ll'
	$(Q)tests/perf/forward $(BUILD)/examples $(BENCHFLAGS)

ranked: $(CONFORM) $(MPI)
programs: checked $(STEPS) $(EXAMPLES) $(FORWARD)
gasnet-programs: $(GASNET) $(GASNET_JOBS)
checked: $(UNIT) $(BOX) $(OFI) $(CONFORM) $(NEMESIS)

# If the compiler supports both: each process then takes less time.
STATIC_UBSAN = $(shell echo 'int main(void) { return 0; }' | $(CC) -x c - \
    -o /dev/null -fsanitize=undefined -static-libubsan -no-pie 2>/dev/null && \
    echo -static-libubsan -no-pie)
ASAN  = -Og -g1 -fsanitize=address,undefined -fno-sanitize-recover=all \
    $(STATIC_UBSAN)
UBSAN := -O1 -g -fsanitize=undefined -fno-sanitize-recover=all
TSAN   = -O1 -g -fsanitize=thread $(shell echo | $(CC) -Wno-tsan -Werror -E - \
    >/dev/null 2>&1 && echo -Wno-tsan)
PORT  := -O0 -g -DHG_ENABLE_EPOLL=0 -DHG_ENABLE_CRC_SIMD=0
export ASAN_OPTIONS  ?= detect_leaks=1:abort_on_error=0
export LSAN_OPTIONS  ?= suppressions=$(CURDIR)/tests/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS ?= print_stacktrace=1
export TSAN_OPTIONS  ?= halt_on_error=1:suppressions=$(CURDIR)/tests/tsan.supp
export CC BUILD

# $(call make_flavour,name,CFLAGS,target): build the target in that flavour.
make_flavour = +$(Q)$(MAKE) --no-print-directory BUILD=$(BUILD)/$1 \
    CFLAGS='$2' $3
# $(call run_gasnet,FLAVOUR,OPTIONS): the tests of GASNet over sm, with the
# programs of that flavour, and without their long versions.
run_gasnet = $(if $(SM),env -u HG_TEST_FULL BUILD=$(BUILD)/$1 $(RUN) $2 \
    tests/gasnetrun tests/gasnet_jobs@sm)
# Separate makes: they find what deps installed, and use all cores. While the
# first one compiles, each command prints a dot.
CHECK_MAKE = $(MAKE) --no-print-directory \
    $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))
check: $(filter deps,$(MAKECMDGOALS))
check: ## lint and all tests, also under ASan+UBSan; about 5 minutes
	@echo 'check: about 5 minutes on 2 cores; the first two compile:'
	+$(Q)$(CHECK_MAKE) $(if $(Q),-s Q='@printf .;') check-programs
	+$(Q)$(CHECK_MAKE) check-run

# The longest compiles come first.
check-programs: $(BUILD)/run check-asan-programs \
        $(call programs_of,$(CHECK_CASES)) \
        $(EXAMPLES) $(FORWARD) $(PERF) $(COUNTS) $(BUILD)/tests/faulty \
        $(FORWARD_OPS) $(GASNET) $(GASNET_JOBS) \
        check-port-programs $(MPIS:%=check-%-programs)
	@echo

check-run:
	$(Q)$(RUN) $(SCRIPTS) $(COUNTS) $(CHECK_CASES) \
	    $(ASAN_CASES:$(BUILD)/%=$(BUILD)/asan/%) \
	    $(PORT_CASES:$(BUILD)/%=$(BUILD)/port/%) $(CHECK_MPI)

.PHONY: check-asan-programs check-port-programs check-ompi-programs \
        check-mpich-programs all-ompi-programs all-mpich-programs \
        port-objects modules
CHECK_FLAVOURS := asan port $(MPIS)
$(CHECK_FLAVOURS:%=check-%-programs): $(SUITE_OBJS) $(HOOK_OBJS)
check-asan-programs:
	$(call make_flavour,asan,$(ASAN),SUITES=$(BUILD) \
	    $(call programs_of,$(ASAN_CASES:$(BUILD)/%=$(BUILD)/asan/%)))
check-port-programs:
	$(call make_flavour,port,$(PORT),SUITES=$(BUILD) SPLIT=1 \
	    INSIDE='$(PORT_INSIDE)' \
	    $(call programs_of,$(PORT_CASES:$(BUILD)/%=$(BUILD)/port/%)))
# tests/lint looks at these.
port-objects:
	$(call make_flavour,port,$(PORT),SPLIT=1 modules)
modules: $(OBJS)
check-ompi-programs check-mpich-programs: check-%-programs: $(BUILD)/mpi.o
	$(call make_flavour,$*,-O0 -g,CC=$($*_CC) FOUND=mpi SUITES=$(BUILD) \
	    HG_O=$(BUILD)/mpi.o \
	    $(call programs_of,$(filter $(BUILD)/$*/%,$(CHECK_MPI))) \
	    $(addprefix $(BUILD)/$*/,tests/faulty $(addprefix examples/, \
	        demo_server demo_client cluster loop)))
# hg.c, which is the same with any MPI.
$(BUILD)/mpi.o: hg.c hg.h $(BUILD)/flags
	$(Q)$(CC) $(TEST_QUICKLY) -DHG_NA_MPI=1 -c -o $@ $<

lint: $(BUILD)/run ## only the rules of tests/lint, and the generator's tests
	$(Q)$(RUN) tests/lint tests/generator

asan: $(BUILD)/run ## all compiled tests under AddressSanitizer and UBSan
	$(call make_flavour,asan,$(ASAN),programs gasnet-programs)
	$(Q)$(RUN) $(call cases_of,asan)
	$(Q)$(call run_gasnet,asan,)

ubsan: $(BUILD)/run ## all tests under UBSan
	$(call make_flavour,ubsan,$(UBSAN),programs)
	$(Q)$(RUN) $(call cases_of,ubsan)

tsan: $(BUILD)/run ## all tests under ThreadSanitizer
	$(call make_flavour,tsan,$(TSAN),programs gasnet-programs)
	$(Q)TSAN_OPTIONS=halt_on_error=1 \
	    $(RUN) -s 6 $(filter-out $(FOREIGN),$(call cases_of,tsan))
	$(Q)$(RUN) -s 6 $(filter $(FOREIGN),$(call cases_of,tsan))
	$(Q)$(call run_gasnet,tsan,-s 6)

mpi: $(BUILD)/run $(MPIS:%=all-%-programs) ## all tests under MPI
	$(Q)$(RUN) $(MPI_CASES)
	$(Q)$(foreach mpi,$(if $(SM),$(MPIS)),BUILD=$(BUILD)/$(mpi) \
	    GASNET_HG_MPIRUN=$($(mpi)_CC:mpicc.%=mpirun.%) \
	    $(RUN) tests/gasnet_jobs@mpi+static && ):

all-ompi-programs all-mpich-programs: all-%-programs:
	$(call make_flavour,$*,-O0 -g,CC=$($*_CC) FOUND=mpi ranked gasnet-programs)

valgrind: $(BUILD)/run programs ## all tests under valgrind
	$(Q)$(RUN) -s 10 -w "valgrind -q --error-exitcode=99 --leak-check=full \
	    --trace-children=yes --suppressions=$(CURDIR)/tests/valgrind.supp" \
	    $(CASES)

check-full: export HG_TEST_FULL := 1
check-full: check ## check, all of every flavour, tsan, valgrind, clang; long
	$(call make_flavour,clang,-O3 -g,CC=clang programs)
	$(call make_flavour,port,$(PORT),SPLIT=1 programs)
	$(call make_flavour,asan,$(ASAN),programs gasnet-programs)
	+$(Q)$(MAKE) --no-print-directory programs
	$(Q)$(RUN) $(filter-out $(CHECK_CASES),$(CASES)) \
	    $(call cases_of,clang) $(call cases_of,port) \
	    $(patsubst $(BUILD)/%,$(BUILD)/asan/%, \
	        $(filter-out $(ASAN_CASES),$(CASES)))
	$(Q)$(call run_gasnet,asan,)
	+$(Q)$(MAKE) --no-print-directory mpi
	+$(Q)$(MAKE) --no-print-directory tsan
	+$(Q)$(MAKE) --no-print-directory valgrind

# ---- Longer tests ----

SECONDS      = 60
FUZZ_FLAGS   = $(HG_FLAGS) -Itests -O1 -g -DHG_FUZZER=1 \
               -fsanitize=fuzzer,address,undefined
FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz_*.c)

fuzz: ## libFuzzer on each entry of tests/fuzz, SECONDS= each (needs clang)
	$(Q)for name in $(FUZZ_SOURCES:tests/fuzz/fuzz_%.c=%); do \
	    mkdir -p $(BUILD)/fuzz/$$name; \
	    clang $(FUZZ_FLAGS) -o $(BUILD)/fuzz/fuzz_$$name \
	        tests/fuzz/fuzz_$$name.c \
	        $$([ $$name != message ] || echo tests/support/loop.c) && \
	    $(BUILD)/fuzz/fuzz_$$name -max_total_time=$(SECONDS) \
	        -artifact_prefix=$(BUILD)/fuzz/ $(BUILD)/fuzz/$$name \
	        tests/fuzz/corpus/$$name || exit 1; \
	done

fuzz-regress: $(BUILD)/run $(UNIT) ## the same entries as plain tests
	$(Q)$(RUN) -k fuzz_ $(UNIT)

soak: $(BUILD)/run programs ## all tests with new seeds each time, for SECONDS=
	$(Q)end=$$(($$(date +%s) + $(SECONDS))); \
	while $(RUN) $(CASES) && [ $$(date +%s) -lt $$end ]; do :; done; \
	[ $$(date +%s) -ge $$end ]

coverage: $(BUILD)/run ## lines and branches of gen/ that the tests reach
	$(call make_flavour,coverage,-O0 -g --coverage,programs)
	$(Q)$(RUN) $(call cases_of,coverage)
	$(Q)tests/coverage $(BUILD)/coverage

# ---- Upkeep ----

SOURCES := $(wildcard hg_na_*.c gen/*/*.[ch] tests/*.[ch] tests/*/*.[ch] \
             examples/*.[ch] examples/*/*.[ch])

format: ## clang-format in place: gen, tests, examples, transports
	$(Q)clang-format-14 -i $(SOURCES)

dist: $(PAIR) ## a source archive under $(BUILD)
	$(Q)mkdir -p $(BUILD)
	$(Q)tar --sort=name --owner=0 --group=0 --numeric-owner \
	    --transform='s,^,hg-$(VERSION)/,' -czf $(BUILD)/hg-$(VERSION).tar.gz \
	    $(wildcard hg.h hg.c hg_na_*.c Makefile LICENSE README.md \
	        .clang-format .ci gen tests examples)

# ---- The manual ----
#
# Its tools and pages are listed above, with install.

docs: $(MAN)/made ## the manual: HTML and man pages (doxygen, pandoc, xsltproc)
	$(Q)echo 'docs: $(BUILD)/docs/html/index.html, $(MAN)'

# Section 3 is made of the contracts in hg.h.
$(MAN)/made: hg.h $(DOC_PAGES) $(wildcard gen/man/*)
	$(if $(NO_DOCS),$(error docs: apt-get install $(NO_DOCS)))
	$(Q)rm -rf $(MAN) $(BUILD)/docs && \
	    mkdir -p $(addprefix $(MAN)/man,1 3 7) $(BUILD)/docs
	$(Q)(cat gen/man/Doxyfile && echo 'INPUT = hg.h $(DOC_PAGES)' && \
	    echo 'OUTPUT_DIRECTORY = $(BUILD)/docs' && \
	    echo 'PROJECT_NUMBER = $(VERSION)') | doxygen -
	$(Q)for group in $(BUILD)/docs/xml/group__*.xml; do \
	    xsltproc --stringparam dir $(MAN)/man3 --stringparam version \
	        '$(VERSION)' --stringparam xml $(abspath $(BUILD))/docs/xml \
	        gen/man/man3.xsl $$group || exit 1; \
	done
	$(Q)for page in $(MAN_NAMES); do \
	    pandoc -s -t man --shift-heading-level-by=-1 \
	        --lua-filter gen/man/man.lua -V hyphenate=false -V adjusting=l \
	        -M footer='hg $(VERSION)' -M header='hg manual' \
	        -o $(MAN)/man$${page##*.}/$$page gen/man/$$page.md || exit 1; \
	done
	$(Q)touch $@

clean: ## remove what was built
	$(Q)rm -rf $(BUILD)

deps: ## install what check needs (Debian, Ubuntu); nothing if all is there
	$(Q)tests/deps

help: ## this list
	$(Q)awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' \
	    $(firstword $(MAKEFILE_LIST))
	@echo
	@echo 'Knobs: CC CFLAGS LDFLAGS PREFIX DESTDIR BUILD JOBS'
	@echo '  V=1         show the commands, and the cases that passed'
	@echo '  NA="zmq"    transports that lib and install take in'
	@echo '  TRANSPORT=  FILE=  SIZE=    of demo: where the server listens,'
	@echo '              a file of yours, or how large one is made'
	@echo '  SECONDS=    of soak, and of each entry of fuzz'
	@echo '  RUNFLAGS=   of tests/run: -k PART (only such cases), -s SCALE'
	@echo '  BENCHFLAGS= of hg_perf; --help lists them'
	@echo '  SHARED=1    bench: with libhg.so'
