# SPDX-License-Identifier: Apache-2.0
# Test programs. tests/unit/<layer>/test_*.c and tests/sim/*.c each become one TAP program;
# tests/tools/*.c are helper programs for scripts; tests/fuzz/fuzz_*.c are libFuzzer targets;
# executable *.t files under tests/ are test scripts (*.sh are libraries for them).

TEST_C := $(sort $(wildcard tests/unit/*/test_*.c tests/sim/test_*.c tests/sim/sim_*.c))
TOOL_C := $(sort $(wildcard tests/tools/*.c))
FUZZ_C := $(sort $(wildcard tests/fuzz/fuzz_*.c))

# A test is linked with the layers that it includes and those that they reach, so one layer that
# does not compile stops only the tests that need it.
TEST_USES := $(shell grep -H '^[[:space:]]*\#[[:space:]]*include[[:space:]]*"' \
    $(TEST_C) $(TOOL_C) $(FUZZ_C) $(wildcard benchmarks/bench_*.c tests/*.h tests/*/*.h \
    tests/*/*/*.h) | awk -f tests/uses.awk | sort)
uses = $(patsubst $(1):%,%,$(filter $(1):%,$(TEST_USES)))
test_programs_used = $(patsubst cmd/%,%,$(filter cmd/%,$(call uses,$(1))))
test_layers = $(call linked,$(foreach l,$(filter-out cmd/%,$(call uses,$(1))),$(REACH_$(l))) \
    $(foreach p,$(test_programs_used),$(REACH_cmd/$(p))))
test_cmd_objects = $(foreach p,$(test_programs_used),$(call objects,$(filter-out \
    cmd/$(p)/main.c,$(sort $(wildcard cmd/$(p)/*.c)))))
TEST_THIRD := $(YAML_LDFLAGS) -lssh2 -lcrypto -lzstd -ljpeg -lpcre2-8 -lyaml -lm

define test_rule
$(O)/$(basename $(1)): $(O)/$(basename $(1)).o $(test_cmd_objects) $(call archives,$(test_layers))
	$$(call say,LINK,$$@)$(LINK) -o $$@ $$(filter %.o,$$^) $$(call group,$$(filter %.a,$$^)) \
	    $$(FINAL_LDFLAGS) -Wl,--as-needed $(2) $(TEST_THIRD)
endef
$(foreach t,$(TEST_C) $(TOOL_C),$(eval $(call test_rule,$(t))))
$(foreach t,$(FUZZ_C),$(eval $(call test_rule,$(t),-fsanitize=fuzzer)))

test-programs: $(patsubst %.c,$(O)/%,$(TEST_C) $(TOOL_C))
fuzz-programs: $(patsubst %.c,$(O)/%,$(FUZZ_C))

# One name: T=toml runs tests/*/{test_,sim_,fuzz_,}toml.{c,t}; fuzz targets replay their corpus.
ifdef T
TEST_C_CHOSEN := $(strip $(foreach n,$(T),$(filter %/$(n).c %/test_$(n).c %/sim_$(n).c,$(TEST_C))))
FUZZ_C_CHOSEN := $(strip $(foreach n,$(T),$(filter %/$(n).c %/fuzz_$(n).c,$(FUZZ_C))))
SCRIPTS_CHOSEN := $(strip $(foreach n,$(T),$(wildcard tests/*/$(n).t)))
$(if $(TEST_C_CHOSEN)$(FUZZ_C_CHOSEN)$(SCRIPTS_CHOSEN),,\
    $(error no test is called '$(T)'; see tests/))
else
TEST_C_CHOSEN := $(TEST_C)
FUZZ_C_CHOSEN := $(FUZZ_C)
SCRIPTS_CHOSEN := $(sort $(wildcard tests/*/*.t))
endif
names = $(patsubst %.c,$(BUILD)/$(1)/%,$(2))
SUBMAKE = +$(Q)$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))
JOBS := $(shell nproc)

test: $(if $(T),,setup-quiet) ## Run every test (T=name runs one); the last line has the counts
	$(Q)lib/third_party/deps build && lib/third_party/deps build san && \
	    lib/third_party/deps build curl && lib/third_party/deps build yaml
	$(if $(filter tests/gpu/%,$(SCRIPTS_CHOSEN)),$(Q)lib/third_party/deps build cuda || true)
	$(if $(TEST_C_CHOSEN)$(FUZZ_C_CHOSEN),$(SUBMAKE) MODE=san \
	    $(call names,san,$(TEST_C_CHOSEN) $(FUZZ_C_CHOSEN)))
	$(SUBMAKE) MODE=release $(call names,release,$(TEST_C_CHOSEN) tests/tools/reap.c)
	$(if $(SCRIPTS_CHOSEN),$(SUBMAKE) MODE=release programs test-programs)
	$(if $(filter tests/gpu/%,$(SCRIPTS_CHOSEN)),$(SUBMAKE) gpu-programs)
	$(Q)DTCTL_SRC=$(CURDIR) DTCTL_BUILD=$(abspath $(BUILD)) DTCTL_BIN=$(abspath $(BIN)) \
	    tests/run $(call names,san,$(TEST_C_CHOSEN)) $(call names,release,$(TEST_C_CHOSEN)) \
	    $(call names,san,$(FUZZ_C_CHOSEN)) $(SCRIPTS_CHOSEN)

check: ## In a minute: rules of the text; format, unit tests of what changed (BASE=commit)
	$(Q)DTCTL_BUILD=$(BUILD) tests/check $(BASE)

# The generators of tests/soak run in `make test`, too, each for less than a minute with a seed that
# is always the same.
MINUTES ?= 60
SOAK := $(sort $(foreach n,$(or $(T),*),$(wildcard tests/soak/$(n).t)))
soak: ## Run the generators of tests/soak for MINUTES (60) with fresh seeds (SEED=n, T=name)
	$(SUBMAKE) MODE=release programs test-programs
	$(Q)DTCTL_SRC=$(CURDIR) DTCTL_BUILD=$(abspath $(BUILD)) DTCTL_BIN=$(abspath $(BIN)) \
	    SOAK_SEED=$(SEED) tests/soak/run $(MINUTES) $(SOAK)

planted: ## Put back faults that tests must find: one for each generator (T=name), all of kernels
	$(SUBMAKE) MODE=release $(BUILD)/release/tests/tools/reap
	$(Q)DTCTL_BUILD=$(abspath $(BUILD)) tests/soak/plant $(T)
	$(if $(T),,+$(Q)PLANTED=all SWEEP=all TEST_SECONDS_MAX=3600 \
	    $(MAKE) --no-print-directory test T='cuda removed')

# WAYS="twice pairs killed", PAIRS=n, SEED=n; see tests/beside.
beside: ## Does a test leave or share anything of the machine? (T=name, PAIRS=n, SEED=n; root)
	$(if $(TEST_C_CHOSEN),$(SUBMAKE) MODE=release $(call names,release,$(TEST_C_CHOSEN)))
	$(SUBMAKE) MODE=release programs test-programs
	$(if $(filter tests/gpu/%,$(SCRIPTS_CHOSEN)),$(SUBMAKE) gpu-programs)
	$(Q)DTCTL_SRC=$(CURDIR) DTCTL_BUILD=$(abspath $(BUILD)) DTCTL_BIN=$(abspath $(BIN)) \
	    SEED=$(SEED) tests/beside $(call names,release,$(TEST_C_CHOSEN)) $(SCRIPTS_CHOSEN)

N ?= 50
mutants: ## Change N (50) operators and constants; which does no test notice? (SEED=n)
	$(Q)DTCTL_BUILD=$(abspath $(BUILD)) N=$(N) SEED=$(SEED) tests/mutants

FUZZ_SECONDS ?= 30
fuzz: ## Fuzz every target for FUZZ_SECONDS (30) each; T=name for one
	$(SUBMAKE) MODE=fuzz $(call names,fuzz,$(FUZZ_C_CHOSEN))
	$(Q)tests/fuzz/run $(FUZZ_SECONDS) $(call names,fuzz,$(FUZZ_C_CHOSEN))

.PHONY: beside check test test-programs fuzz-programs fuzz soak planted mutants
