# SPDX-License-Identifier: Apache-2.0
# Third-party libraries for the shipped programs: built by `make deps` into a cache outside the
# tree, in a folder named by the hash of pins, flags and compiler. San and fuzz get libssh2 with our
# patches, under sanitizers, and the rest from the system; debug has all from the system.
# `make setup` and `make deps` download (and `make demo` and `make test`, which call them); no other
# target does. CUDA's compiler may be missing: the CPU programs are built without it.

ifneq ($(filter release san fuzz,$(MODE)),)
DEPS := $(shell lib/third_party/deps path $(if $(filter san fuzz,$(MODE)),san))
DEPS_CFLAGS := -isystem $(DEPS)/include -ffile-prefix-map=$(DEPS)=third_party
DEPS_LDFLAGS := -L$(DEPS)/lib
$(O)/.flags: $(DEPS)/versions
$(DEPS)/versions:
	@echo "the pinned libraries are not built yet: run 'make deps' (or 'make demo')" >&2; exit 1
endif

# libcurl, libssl and libcrypto for dtdata. The headers of libcurl serve every mode.
CURL_DEPS := $(shell lib/third_party/deps path curl)
$(O)/lib/object/%.o: DEPS_CFLAGS += -isystem $(CURL_DEPS)/include
$(BIN_MODE)/dtdata: private DEPS_LDFLAGS := -L$(CURL_DEPS)/lib $(DEPS_LDFLAGS)
ifneq ($(filter release,$(MODE)),)
$(O)/.flags: $(CURL_DEPS)/versions
endif
$(CURL_DEPS)/versions:
	@echo "libcurl is not built yet: run 'make deps'" >&2; exit 1

# libyaml for dtctl and its tests; san, fuzz and debug have the system's.
ifneq ($(filter release,$(MODE)),)
YAML_DEPS := $(shell lib/third_party/deps path yaml)
YAML_LDFLAGS := -L$(YAML_DEPS)/lib
$(O)/lib/convert/%.o: DEPS_CFLAGS += -isystem $(YAML_DEPS)/include
$(BIN_MODE)/dtctl: private DEPS_LDFLAGS += $(YAML_LDFLAGS)
$(O)/.flags: $(YAML_DEPS)/versions
$(YAML_DEPS)/versions:
	@echo "libyaml is not built yet: run 'make deps'" >&2; exit 1
endif

# -y in YES=1 answers the question; TIER is what to install for: build, test or cloud.
TIER ?= cloud
setup: ## Install what this machine lacks for TIER=build, test or cloud (all; asks, YES=1)
	$(Q)lib/third_party/setup $(if $(YES),-y) $(TIER)

setup-quiet:
	$(Q)lib/third_party/setup --quiet $(if $(YES),-y)

deps: ## Fetch, verify and build the pinned libraries (MODE=san: those of the sanitizer build)
	$(Q)lib/third_party/deps build $(if $(filter san fuzz,$(MODE)),san)
	$(if $(filter release,$(MODE)),$(Q)lib/third_party/deps build curl && \
	    lib/third_party/deps build yaml)
	$(if $(filter release,$(MODE)),$(Q)lib/third_party/deps build cuda || \
	    echo 'deps: without the compiler of CUDA; `make cuda` and the tests of kernels need it' >&2)

.PHONY: setup setup-quiet deps
