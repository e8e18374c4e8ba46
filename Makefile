# SPDX-License-Identifier: Apache-2.0
# dtctl. `make help` lists the targets; objects go to $(BUILD)/<mode>/, programs to $(BIN)/.
# Parts: lib/third_party/deps.mk (pinned libraries), tests/tests.mk, tests/lint/lint.mk.

VERSION ?= 0.1.0

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
SHELL := /bin/bash
HASH := \#

override BUILD := $(or $(BUILD),build)
BIN ?= $(if $(filter build,$(BUILD)),bin,$(BUILD)/bin)
PREFIX ?= /usr/local
SHARE = $(PREFIX)/share
MANDIR ?= $(SHARE)/man
MODE ?= release
O := $(BUILD)/$(MODE)

Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' '$(1)' '$(2)';)

all: programs ## Build bin/dtctl, dtrun, dttrain, dtdata and dttrain-cuda (default)

# ---- compilers: one set per mode; the user's CFLAGS and LDFLAGS come after ours --------------
CC_release := musl-gcc
CC_debug := gcc
CC_san := clang
CC_fuzz := clang
AR := ar
TOOL := $(CC_$(MODE))
LINK := $(if $(filter release,$(MODE)),gcc -specs $(O)/gen/static-pie.specs,$(TOOL))
$(if $(TOOL),,$(error MODE=$(MODE): choose release, debug, san or fuzz))

WARN := -Wall -Wextra -Wvla -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings \
    -Wformat=2 -Wdouble-promotion
WARN_lib := -Wconversion -Wno-sign-conversion
MODE_CFLAGS_release := -O2 -fPIE -fstack-protector-strong -idirafter $(O)/linux-headers
MODE_CFLAGS_debug := -O1 -g
MODE_CFLAGS_san := -O1 -gline-tables-only -fsanitize=address,undefined \
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer
MODE_CFLAGS_fuzz := $(MODE_CFLAGS_san) -fsanitize=fuzzer-no-link
MODE_LDFLAGS_release := -Wl,-z,relro,-z,now,-z,noexecstack
MODE_LDFLAGS_debug :=
MODE_LDFLAGS_san := -fsanitize=address,undefined
MODE_LDFLAGS_fuzz := $(MODE_LDFLAGS_san)
FINAL_CFLAGS = -std=gnu11 -D_GNU_SOURCE= -Ilib -I. -I$(O)/gen $(WARN) -fno-common -pthread \
    -ffunction-sections -fdata-sections -ffile-prefix-map=$(CURDIR)=. -MMD -MP \
    $(MODE_CFLAGS_$(MODE)) $(DEPS_CFLAGS) $(CFLAGS)
FINAL_LDFLAGS = -pthread -Wl,--gc-sections -Wl,--build-id=none $(MODE_LDFLAGS_$(MODE)) \
    $(DEPS_LDFLAGS) $(LDFLAGS)

# Kernels: optimised in every mode but san; instruction sets by the end of the file's name, and the
# choice between them is made at run time. These flags come after the user's: the bits of a result
# must not depend on them. Kernels parse nothing, so they go without the stack protector.
KERNEL_CFLAGS := $(if $(filter san fuzz,$(MODE)),-O1,-O3) -ffp-contract=off -fno-fast-math \
    -fno-stack-protector
AVX512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma
isa = $(if $(filter %_avx2,$*),-mavx2 -mfma,$(if $(filter %_avx512,$*),$(AVX512),$(if \
    $(filter %_bf16,$*),$(AVX512) -mavx512bf16,$(if \
    $(filter %_amx,$*),$(AVX512) -mavx512bf16 -mamx-tile -mamx-bf16))))
# UBSan in unrolled vector code takes clang a minute. So kernels for an instruction set go without
# it. isa_base.c has the same bodies with it, without its checks of pointers, which ASan covers.
VECTOR_CFLAGS := $(if $(filter san fuzz,$(MODE)),-fno-sanitize=undefined)
LOOPS_CFLAGS := $(if $(filter san fuzz,$(MODE)),$(patsubst %,-fno-sanitize=%,\
    null object-size pointer-overflow))

# Under sanitizers a unit test takes clang longer than it then runs; the tested code is optimised.
UNIT_CFLAGS := $(if $(filter san fuzz,$(MODE)),-O0)

# ---- sources: every .c under lib/<layer>/ is that layer's library ----------------------------
LAYERS := $(filter-out third_party,$(sort $(patsubst lib/%/,%,$(dir $(wildcard lib/*/*.c)))))
# REACH_<layer>: itself, what the table in lib/README.md lets it include, and what those may.
$(foreach row,$(shell awk -v closure=1 -f lib/layers.awk lib/README.md | tr ' ' :),\
    $(eval REACH_$(firstword $(subst :, ,$(row))) := $(wordlist 2,99,$(subst :, ,$(row)))))
# The table in provider/provider.c names every provider, also those in layers above it.
linked = $(sort $(1) $(if $(filter provider,$(1)),$(REACH_aws)))
KERNELS := $(wildcard kernels/cpu/*.c kernels/cuda/*.c)
objects = $(patsubst %.c,$(O)/%.o,$(1))
archive = $(patsubst %,$(O)/libdt_%.a,$(1))
LIBS_ALL := $(LAYERS) $(if $(KERNELS),kernels)

# An archive is made again also when a file has left it.
define layer_rule
$(call archive,$(1)): $(2) $(if $(filter-out $(2),$(file <$(O)/libdt_$(1).list)),FORCE)
endef
$(foreach l,$(LAYERS),$(eval $(call layer_rule,$(l),$(call objects,$(sort \
    $(wildcard lib/$(l)/*.c lib/$(l)/*/*.c))))))
$(eval $(call layer_rule,kernels,$(call objects,$(sort $(KERNELS)))))

$(O)/libdt_%.a:
	$(call say,AR,$@)mkdir -p $(@D) && rm -f $@ && $(AR) rcsD $@ $(filter %.o,$^) && \
	    echo $(filter %.o,$^) > $(@:.a=.list)

$(O)/kernels/%.o: kernels/%.c $(O)/.flags
	$(call say,CC,$<)mkdir -p $(@D) && $(TOOL) $(FINAL_CFLAGS) $(KERNEL_CFLAGS) $(isa) \
	    $(if $(isa),$(VECTOR_CFLAGS),$(LOOPS_CFLAGS)) -c -o $@ $<

$(O)/tests/%.o: tests/%.c $(O)/.flags
	$(call say,CC,$<)mkdir -p $(@D) && $(TOOL) $(FINAL_CFLAGS) \
	    $(if $(filter unit/kernels/%,$*),$(LOOPS_CFLAGS),$(if $(filter unit/%,$*),$(UNIT_CFLAGS))) \
	    -c -o $@ $<

$(O)/%.o: %.c $(O)/.flags
	$(call say,CC,$<)mkdir -p $(@D) && $(TOOL) $(FINAL_CFLAGS) $(WARN_lib) -c -o $@ $<

# ---- programs -------------------------------------------------------------------------------
# A program is linked with the layers that its row in lib/README.md reaches (static archives: only
# what it uses gets in), and with these third-party libraries.
THIRD_dtctl := ssh2 crypto zstd pcre2-8 jpeg yaml
THIRD_dtrun := crypto zstd
THIRD_dttrain := jpeg zstd crypto
THIRD_dtdata := curl ssl crypto

# libcurl is built for the shipped programs alone, so other modes have no dtdata.
PROGRAMS := $(filter-out $(if $(filter-out release,$(MODE)),dtdata),\
    $(patsubst cmd/%/main.c,%,$(wildcard cmd/*/main.c)))
EMBEDDED = dtrun dttrain $(filter dtdata,$(PROGRAMS)) $(CUDA_PROGRAM)
BIN_MODE := $(if $(filter release,$(MODE)),$(BIN),$(O)/bin)
archives = $(call archive,$(filter $(LIBS_ALL),$(1)))
group = -Wl,--start-group $(1) -Wl,--end-group

programs: $(patsubst %,$(BIN_MODE)/%,$(PROGRAMS))
	$(Q)[ -n '$(CUDA_PROGRAM)' ] || [ $(MODE) != release ] || \
	    echo 'left out: dttrain-cuda needs the compiler of CUDA (try: make deps)' >&2

define program_rule
$(BIN_MODE)/$(1): \
    $(call objects,$(sort $(filter-out %/train_device_cuda.c,$(wildcard cmd/$(1)/*.c)))) \
    $(call archives,$(call linked,$(REACH_cmd/$(1)))) \
    $(if $(filter dtctl,$(1)),$(O)/embed/embed.o) $(O)/.flags
	$$(call say,LINK,$$@)mkdir -p $$(@D) && $(LINK) -o $$@.new $$(filter %.o,$$^) \
	    $$(call group,$$(filter %.a,$$^)) $$(FINAL_LDFLAGS) $(patsubst %,-l%,$(THIRD_$(1))) -lm && \
	    $(if $(filter release,$(MODE)),tests/build/is-static --symbols $$@.new && \
	    strip -s $$@.new &&) \
	    mv $$@.new $$@
endef
$(foreach p,$(PROGRAMS),$(eval $(call program_rule,$(p))))

# dttrain-cuda is dttrain's objects and some more, linked to start with glibc 2.28 and nothing else:
# only a program of the machine's own C library can load the driver. It is built where the compiler
# of CUDA can be had. Each source of kernels becomes a fat binary (machine code per GPU, PTX for
# newer ones) at the symbol fatbin_SOURCE. Paths are relative: names inside PTX depend on them.
CUDA_SOURCES := $(wildcard kernels/cuda/*.cu)
CUDA_PATH := $(shell lib/third_party/deps path cuda)
NVCC ?= $(addsuffix /bin/nvcc,$(CUDA_PATH))
CUDA_SM := 75 80 86 89 90a 100 120
CUDA_PTX := 75 80 120
comma := ,
NVCC_ALL := -O3 -std=c++17 -Ilib -I. --no-compress --Werror all-warnings
cuda_codes = $(foreach n,$(1),-gencode arch=compute_$(n)$(comma)code=sm_$(n)) \
    $(foreach n,$(2),-gencode arch=compute_$(n)$(comma)code=compute_$(n))
NVCC_FLAGS ?= $(NVCC_ALL) $(call cuda_codes,$(CUDA_SM),$(CUDA_PTX))
# Sources for some GPUs alone (cuda_source_is_for).
NVCC_FLAGS_pack := $(NVCC_ALL) $(call cuda_codes,$(filter-out 75,$(CUDA_SM)),80 120)
NVCC_FLAGS_large := $(NVCC_ALL) $(call cuda_codes,$(filter-out 75 90a,$(CUDA_SM)),80 120)
NVCC_FLAGS_hopper := $(NVCC_ALL) $(call cuda_codes,90a,90a)
CUDA_READY := $(and $(CUDA_SOURCES),$(wildcard $(NVCC)),$(filter release,$(MODE)))
CUDA_PROGRAM := $(if $(CUDA_READY),dttrain-cuda)
CUDA_OBJECTS := $(call objects,$(filter-out %/train_device_cpu.c,$(wildcard cmd/dttrain/*.c)) \
    $(wildcard cmd/dttrain/cuda/*.c)) $(O)/cmd/dttrain/cuda/start.o \
    $(patsubst kernels/cuda/%.cu,$(O)/fatbin/%.o,$(CUDA_SOURCES))

$(O)/fatbin/.flags: FORCE
	$(Q)mkdir -p $(@D) && echo '$(NVCC_FLAGS) $(NVCC_FLAGS_pack) $(NVCC_FLAGS_large)' \
	    '$(NVCC_FLAGS_hopper)' > $@.new && \
	    if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(O)/fatbin/%.fatbin: kernels/cuda/%.cu $(wildcard kernels/cuda/*.h kernels/cuda/*.cuh) \
    $(O)/fatbin/.flags
	$(call say,NVCC,$<)mkdir -p $(@D) && $(NVCC) $(or $(NVCC_FLAGS_$*),$(NVCC_FLAGS)) -fatbin -o $@ $<

$(O)/fatbin/%.o: $(O)/fatbin/%.fatbin
	$(Q)cd $(@D) && printf '%s\n' '.section .rodata,"a"' '.balign 64' '.globl fatbin_$*' \
	    'fatbin_$*: .incbin "$*.fatbin"' '.section .note.GNU-stack,"",@progbits' | \
	    gcc -x assembler -c -o $(@F) -

$(O)/%.o: %.S $(O)/.flags
	$(call say,AS,$<)mkdir -p $(@D) && gcc -c -o $@ $<

$(O)/floor/libc.so: cmd/dttrain/cuda/floor.sh
	$(call say,FLOOR,$(@D))rm -rf $(@D) && cmd/dttrain/cuda/floor.sh $(@D)

$(BIN)/dttrain-cuda: $(CUDA_OBJECTS) $(call archives,$(REACH_cmd/dttrain)) $(O)/floor/libc.so \
    tests/build/is-floor
	$(call say,LINK,$@)mkdir -p $(@D) && gcc -pie -nostdlib -o $@.new $(filter %.o,$^) \
	    $(call group,$(filter %.a,$^)) -Wl,--gc-sections -Wl,--build-id=none \
	    $(MODE_LDFLAGS_release) $(DEPS_LDFLAGS) -Wl,-Bstatic $(patsubst %,-l%,$(THIRD_dttrain)) \
	    -Wl,-Bdynamic -L$(O)/floor -Wl,--no-as-needed -lm -lc -ldl -lpthread -lgcc && \
	    tests/build/is-floor $@.new && strip -s $@.new && mv $@.new $@

programs: $(addprefix $(BIN)/,$(CUDA_PROGRAM))

cuda: ## Build bin/dttrain-cuda, or say what is missing
	$(Q)[ -n '$(CUDA_SOURCES)' ] || { \
	    echo 'cuda: there is nothing to build: kernels/cuda has no sources' >&2; exit 1; }; \
	[ -n '$(wildcard $(NVCC))' ] || { \
	    echo "cuda: '$(or $(NVCC),nvcc)' is not installed (try: make deps, or NVCC=path)" >&2; \
	    exit 1; }; \
	$(MAKE) --no-print-directory MODE=release $(BIN)/dttrain-cuda

# ---- generated files ------------------------------------------------------------------------
# Objects are made again when the flags change, not when the Makefile does. musl-gcc hides the
# kernel's headers; the links show it only linux/, asm/ and asm-generic/. It cannot link a static
# PIE either: its specs, changed in two places, let gcc do that.
$(O)/.flags: FORCE
	$(Q)mkdir -p $(O)/gen $(O)/linux-headers && for d in linux asm asm-generic; do \
	    for p in /usr/include/$$d /usr/include/$$(uname -m)-linux-gnu/$$d; do \
	        if [ -d $$p ]; then ln -sfn $$p $(O)/linux-headers/$$d; break; fi; done; done
	$(if $(filter release,$(MODE)),$(Q)sed -e 's|Scrt1\.o|rcrt1.o|' \
	    -e 's|-dynamic-linker [^ ]*|-static -pie --no-dynamic-linker -z text|' \
	    "$$(musl-gcc -v 2>&1 | sed -n 's/^Reading specs from //p')" > $(O)/gen/static-pie.specs)
	$(Q)echo '$(TOOL) $(KERNEL_CFLAGS) $(LOOPS_CFLAGS) $(UNIT_CFLAGS) $(AVX512) $(FINAL_CFLAGS)' \
	    '$(FINAL_LDFLAGS)' > $@.new && \
	    if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

include lib/third_party/deps.mk
include tests/tests.mk
include tests/gpu/gpu.mk
include tests/lint/lint.mk

# Files embedded in dtctl: name=path pairs, each compressed, named with its size and SHA-256.
# Programs have much in common, so that a frame has another program as its prefix.
EMBED_BASE_dttrain := :dtrun
EMBED_BASE_dtdata := :dtrun
EMBED_BASE_dttrain-cuda := :dttrain
EMBED := $(foreach p,$(EMBEDDED),$(p)=$(BIN_MODE)/$(p)$(EMBED_BASE_$(p)))
EMBED += infra/provider.tf=infra/root/provider.tf
EMBED += $(foreach f,$(filter-out infra/examples/% infra/root/%,$(wildcard infra/*.tf infra/*/*.tf \
    infra/*/*/*.tf) $(wildcard cloud-init/*.tftpl cloud-init/files/* docs/*.md)),$(f)=$(f))
$(O)/embed/embed.S: $(foreach e,$(EMBED),$(word 2,$(subst =, ,$(subst :, ,$(e))))) \
    lib/fleet/embedded_files.sh Makefile
	$(call say,EMBED,$@)mkdir -p $(@D) && LEVEL=$(if $(filter release,$(MODE)),19,1) \
	    lib/fleet/embedded_files.sh $(@D) $(EMBED)
$(O)/embed/embed.o: $(O)/embed/embed.S
	$(Q)cd $(@D) && $(TOOL) -c -o data.o embed.S && $(TOOL) -I$(CURDIR)/lib -std=gnu11 -c -o \
	    table.o embed.c && ld -r -o embed.o data.o table.o

# Only the file that prints the version includes it.
$(O)/gen/build_info.h: FORCE | $(O)/.flags
	$(Q)lib/third_party/build_info.sh $(VERSION) $(DEPS)/versions \
	    $(if $(filter release,$(MODE)),$(CURL_DEPS)/versions $(YAML_DEPS)/versions) > $@.new && \
	    if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
BUILD_INFO_USERS := $(shell grep -rls --include='*.c' 'include "build_info.h"' lib cmd)
$(call objects,$(BUILD_INFO_USERS)): $(O)/gen/build_info.h

# ---- install, dist, demo, housekeeping --------------------------------------------------------
# Copies what is built and compiles nothing: the user who installs has caches of its own, or none.
install: ## Install the built programs, man pages and completions below $(DESTDIR)$(PREFIX)
	$(Q)for p in $(PROGRAMS) $(CUDA_PROGRAM); do [ -x $(BIN)/$$p ] || \
	    { echo "install: $(BIN)/$$p is not built yet (try: make)" >&2; exit 1; }; done
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(patsubst %,$(BIN)/%,$(PROGRAMS) $(CUDA_PROGRAM)) $(DESTDIR)$(PREFIX)/bin
	install -d $(addprefix $(DESTDIR),$(MANDIR)/man1 $(MANDIR)/man5 \
	    $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions \
	    $(SHARE)/fish/vendor_completions.d)
	$(BIN)/dtctl completion man > $(DESTDIR)$(MANDIR)/man1/dtctl.1
	$(BIN)/dtctl completion man5 > $(DESTDIR)$(MANDIR)/man5/dtctl.toml.5
	$(BIN)/dtctl completion bash > $(DESTDIR)$(SHARE)/bash-completion/completions/dtctl
	$(BIN)/dtctl completion zsh > $(DESTDIR)$(SHARE)/zsh/site-functions/_dtctl
	$(BIN)/dtctl completion fish > $(DESTDIR)$(SHARE)/fish/vendor_completions.d/dtctl.fish
	install -d $(DESTDIR)$(SHARE)/doc/dtctl/docs
	install -m 644 README.md CHANGELOG.md LICENSE $(DESTDIR)$(SHARE)/doc/dtctl
	install -m 644 $(wildcard docs/*.md) $(DESTDIR)$(SHARE)/doc/dtctl/docs

docs: $(BUILD)/release/tests/tools/doc_tables ## Write the tables of docs/ and infra/
	$(Q)DTCTL_BUILD=$(BUILD) docs/tables && infra/tables

DIST ?= dist
dist: ## Pack the committed sources into dist/dtctl-VERSION.tar.gz with SHA256SUMS
	$(Q)lib/third_party/dist $(VERSION) $(DIST)

release: ## Tag VERSION=X.Y.Z, build it twice, compare, write dist/ with sums and an SPDX list
	$(Q).ci/release '$(VERSION)' $(DIST)

hooks: ## Check commits before they are made: core.hooksPath is .ci/hooks from then on
	$(Q)git config core.hooksPath .ci/hooks && echo 'hooks: pre-commit and commit-msg are in use'

demo: ## From nothing to two trained nodes: setup, deps, build, up, train, down
	$(SUBMAKE) TIER=build setup
	$(SUBMAKE) MODE=release deps
	$(SUBMAKE) MODE=release programs
	$(Q)tests/demo.sh $(BIN)/dtctl

F ?= test
fresh: ## Both README commands in minimal roots of Debian 12 and 13 (F=demo: one; T=name; root)
	$(Q)tests/fresh $(F)

N ?= 4
hosts: programs ## A shell inside a cluster of N=4 namespace hosts with sshd (needs root)
	$(Q)DTCTL_SRC=$(CURDIR) DTCTL_BIN=$(abspath $(BIN)) tests/hosts $(N)

accept: programs ## Train CIFAR-10 over both providers until it is good (minutes; needs root)
	$(Q)DTCTL_SRC=$(CURDIR) DTCTL_BUILD=$(abspath $(BUILD)) DTCTL_BIN=$(abspath $(BIN)) \
	    prove -v tests/accept/cifar.sh

# Programs and scripts benchmarks/bench_*; each prints JSON lines, which also go to one file.
BENCH_C := $(sort $(wildcard benchmarks/bench_*.c))
BENCH := $(foreach b,$(sort $(wildcard benchmarks/bench_*)),$(if $(filter %.c,$(b)),$(abspath \
    $(O)/$(basename $(b))),$(if $(filter %.sh %.py,$(b)),$(b))))
$(foreach b,$(BENCH_C),$(eval $(call test_rule,$(b))))
bench: programs $(patsubst %.c,$(O)/%,$(BENCH_C)) ## Measure against named peers (B=name for one)
	$(Q)DTCTL_SRC=$(CURDIR) DTCTL_BUILD=$(abspath $(BUILD)) DTCTL_BIN=$(abspath $(BIN)) \
	    tests/bench $(if $(B),$(filter $(foreach b,$(B),%/bench_$(b) %/bench_$(b).sh \
    %/bench_$(b).py),$(BENCH)),\
	    $(BENCH))

compile_commands.json: FORCE ## For editors: how each file is compiled
	$(Q)$(MAKE) --no-print-directory -Bn MODE=debug all test-programs | tests/lint/commands > $@

clean: ## Remove objects and programs (the cache of third-party libraries stays)
	rm -rf $(addprefix $(BUILD)/,release debug san fuzz lint tap provider mutants planted) \
	    $(patsubst %,$(BIN)/%,$(PROGRAMS) dttrain-cuda)

help: ## Show this list
	@sed -n 's/^\([a-z_.-]*\):.*## \(.*\)/  make \1\t\2/p' \
	    $(filter-out %.d,$(MAKEFILE_LIST)) | sort | expand -t 32
	@echo 'Modes: MODE=release (musl, static), debug, san (clang, ASan+UBSan), fuzz; objects in BUILD.'
	@echo 'Tests: tests/*/test_*.c and sim_*.c (TAP by tests/tap.h), tests/*/*.t (tests/lib.sh),'
	@echo '       tests/fuzz/fuzz_*.c with tests/fuzz/corpus/*; make test T=name runs one of them.'

FORCE:
.PHONY: all programs cuda install docs dist release hooks demo fresh hosts accept bench clean \
    help FORCE
-include $(shell find $(O) -name '*.d' 2>/dev/null)
