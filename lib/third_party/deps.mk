# SPDX-License-Identifier: Apache-2.0
# Third-party libraries for the shipped programs: built by `make deps` into a cache outside the
# tree, in a folder named by the hash of pins, flags and compiler. San and fuzz get libssh2 with our
# patches, under sanitizers, and the rest from the system; debug has all from the system.

ifneq ($(filter release san fuzz,$(MODE)),)
DEPS := $(shell lib/third_party/deps path $(if $(filter san fuzz,$(MODE)),san))
DEPS_CFLAGS := -isystem $(DEPS)/include -ffile-prefix-map=$(DEPS)=third_party
DEPS_LDFLAGS := -L$(DEPS)/lib
$(O)/.flags: $(DEPS)/versions
$(DEPS)/versions:
	@echo "the pinned libraries are not built yet: run 'make deps' (or 'make demo')" >&2; exit 1
endif

setup: ## Install the tools that this machine lacks (asks only for what is missing)
	$(Q)lib/third_party/setup

setup-quiet:
	$(Q)lib/third_party/setup --quiet

deps: ## Fetch, verify and build the pinned libraries (the only step that downloads)
	$(Q)lib/third_party/deps build

.PHONY: setup setup-quiet deps
