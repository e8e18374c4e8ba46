# SPDX-License-Identifier: Apache-2.0
# make lint: each file is checked when it, or a header it includes, has changed since it last
# passed.

LINT := $(BUILD)/lint
LINT_C := $(sort $(wildcard lib/*/*.c lib/*/*/*.c kernels/*/*.c cmd/*/*.c tests/*/*.c \
    tests/*/*/*.c benchmarks/*.c))
LINT_H := $(sort $(wildcard lib/*/*.h lib/*/*/*.h kernels/*.h kernels/*/*.h cmd/*/*.h tests/*.h \
    tests/*/*.h tests/*/*/*.h))
LINT_H := $(filter-out lib/third_party/%,$(LINT_H))
# Every tracked or new text file whose first line asks for a shell, and the libraries they source,
# but for scripts that are the input of a test.
LINT_SH := $(shell { git ls-files -co --exclude-standard 2>/dev/null || find . -type f; } | sort | \
    grep -vE '^(\./)?tests/(fuzz/corpus|integration/use_import)/|\.(c|h|cuh?|py|md|tf|json)$$' | \
    xargs -d '\n' awk 'FNR == 1 && /^$(HASH)!.*(bash|\/sh|env sh)/ { print FILENAME } \
    FNR == 2 && /shellcheck shell=/ { print FILENAME } FNR == 3 { nextfile }' 2>/dev/null)
CLANG_FORMAT := $(firstword $(shell command -v clang-format-14 clang-format))

LINT_FLAGS = -std=gnu11 -D_GNU_SOURCE= -Ilib -I. -I$(LINT)/gen -fno-common -pthread $(WARN) \
    -Werror $(if $(filter lib/% cmd/%,$<),$(WARN_lib)) $(if $(filter kernels/%,$<),$(isa))

$(LINT)/lib/object/%.ok: LINT_FLAGS += -isystem $(CURL_DEPS)/include

formatted = { $(CLANG_FORMAT) --dry-run -Werror $< 2>/dev/null || \
    { echo '$<: is not formatted; run make format'; false; }; }

# States of the code that clang's analyzer visits in a function. Its own limit of 225,000 takes four
# times as long.
LINT_NODES ?= 30000
analyzer = -Xclang -analyzer-config -Xclang max-nodes=$(LINT_NODES)
analyzed = $(analyzer) $(if $(filter-out lib/base/err.c,$<),-include tests/lint/analyzer.h)

# Left out of cppcheck: what it guesses across files and functions, where it was wrong each time.
CPPCHECK_OFF := missingInclude ctuuninitvar ctunullpointer uninitvar invalidFunctionArg \
    identicalInnerCondition arrayIndexOutOfBoundsCond nullPointerRedundantCheck \
    nullPointerArithmeticRedundantCheck

lint: ## Check format, warnings, layers, sizes, words, calls, headers, shell; clang-tidy, cppcheck
	+$(Q)$(MAKE) --no-print-directory -s -k -j2 lint-all && echo 'lint: clean'

format: ## Lay out all C files as .clang-format says
	$(Q)$(CLANG_FORMAT) -i $(LINT_C) $(LINT_H)

lint-all: lint-rules lint-terraform lint-cppcheck \
    $(patsubst %,$(LINT)/%.ok,$(LINT_C) $(LINT_H) $(LINT_SH))

# Rules about the text of all files, in a second; each one says what it finds.
lint-rules: $(LINT)/measure
	$(Q)bad=0; for rule in layers names prefixes waits words 'calls $(LINT_C) $(LINT_H)'; do \
	    tests/lint/$$rule || bad=1; done; $(LINT)/measure $(LINT_C) $(LINT_H) \
	    $(sort $(LINT_SH) Makefile $(wildcard */*.mk */*/*.mk)) || bad=1; exit $$bad

$(LINT)/measure: tests/lint/measure.c
	$(Q)mkdir -p $(@D) && gcc -O1 -Wall -Wextra -Werror -o $@ $<

$(LINT)/gen/build_info.h: lib/third_party/build_info.sh
	$(Q)mkdir -p $(@D) && $< $(VERSION) > $@

# A file that passed is checked again when it, a header, or the flags have changed.
$(LINT)/.flags: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(value LINT_FLAGS) $(value analyzer) $(LINT_NODES)' \
	    '$(WARN) $(WARN_lib) $(CPPCHECK_OFF)' > $@.new && \
	    if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(LINT)/%.c.ok: %.c $(LINT)/.flags .clang-format .clang-tidy tests/lint/analyzer.h | \
    $(LINT)/gen/build_info.h
	$(Q)mkdir -p $(@D) && $(formatted) && \
	    gcc $(LINT_FLAGS) -O2 -MMD -MP -MF $@.d -MT $@ -c -o $@.o $< && rm -f $@.o && \
	    clang $(LINT_FLAGS) -Wno-string-conversion -fsyntax-only $< && \
	    clang-tidy --quiet $< -- $(LINT_FLAGS) $(analyzed) 2>/dev/null && touch $@

$(LINT)/%.h.ok: %.h .clang-format | $(LINT)/gen/build_info.h
	$(Q)mkdir -p $(@D) && $(formatted) && \
	    printf '#include "%s"\n' $< | gcc $(LINT_FLAGS) -Wno-unused-macros -MMD -MP -MF $@.d \
	    -MT $@ -fsyntax-only -x c - && touch $@

$(LINT)/%.ok: %
	$(Q)mkdir -p $(@D) && shellcheck -x $< && touch $@

lint-cppcheck:
	$(Q)mkdir -p $(LINT)/cppcheck && cppcheck --quiet --std=c11 --platform=unix64 -j2 \
	    --enable=warning,performance --error-exitcode=1 --cppcheck-build-dir=$(LINT)/cppcheck \
	    --library=tests/lint/cppcheck.cfg $(addprefix --suppress=,$(CPPCHECK_OFF)) -Ilib -I. \
	    --template='{file}:{line}: {id}: {message}' -D__x86_64__ \
	    $(filter-out tests/% benchmarks/%,$(LINT_C))

# Laid out as `terraform fmt` does it, where that is installed.
lint-terraform:
	$(Q)for t in terraform tofu; do command -v $$t > /dev/null || continue; \
	    CHECKPOINT_DISABLE=1 TF_CLI_CONFIG_FILE= $$t fmt -check -recursive -diff infra; exit; done

-include $(shell find $(LINT) -name '*.ok.d' 2>/dev/null)
.PHONY: lint format lint-all lint-rules lint-terraform lint-cppcheck
