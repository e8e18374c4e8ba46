#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make check finds what is wrong with a change, make hooks brings it to every commit, .ci/run says
# its stages, and make cuda is never silent.
source "${0%/*}/../lib.sh"
export GIT_CONFIG_GLOBAL=$WORK/gitconfig GIT_CONFIG_NOSYSTEM=1
git config --file "$GIT_CONFIG_GLOBAL" user.name tester
git config --file "$GIT_CONFIG_GLOBAL" user.email tester@example.org
git config --file "$GIT_CONFIG_GLOBAL" init.defaultBranch main
unset MAKEFLAGS MAKELEVEL DTCTL_BUILD

mkdir repo
(cd "$SRC" && { git ls-files -co --exclude-standard 2>/dev/null || find . -type f \
    -not -path './build/*' -not -path './bin/*'; } | while read -r f; do [ ! -f "$f" ] ||
    echo "$f"; done | tar -cf - -T -) | tar -xf - -C repo
cd repo || exit 1
git init -q && git add -A && git commit -qm 'all: as it is'
check() { run env HOME="$(getent passwd "$(id -u)" | cut -d: -f6)" make -s check "$@"; }

# ---- flags of the user --------------------------------------------------------------------------
run make -n BUILD=other MODE=debug CFLAGS='-O0 -ffast-math' other/debug/kernels/cpu/gemm.o
like "$out" '-O0 -ffast-math.* -O3 -ffp-contract=off -fno-fast-math' \
    "the results of kernels do not depend on the user's flags"

# ---- tests by name ------------------------------------------------------------------------------
chosen() { run make -n test SUBMAKE=echo T="$1"; }
chosen 'habits lint'
unlike "$out" 'MODE=san' 'two scripts build nothing with sanitizers'
chosen 'habits toml'
like "$out" 'MODE=san .*unit/conf/test_toml' 'a unit test is built with sanitizers' || diag "$err"
chosen 'absent gone'
like "$err" "no test is called 'absent gone'" 'two names that no test has are refused'

# ---- make check ---------------------------------------------------------------------------------
check
is "$status" 0 'make check: nothing has changed' || diag "$out"
like "$out" '0 files differ from' 'make check counts no file'
echo '// A remark at the end.' >>lib/base/hostlist.c
check
is "$status" 0 'a good change is accepted' || diag "$out"
like "$out" 'format +ok.*rules +ok.*units +ok.*check: good, [0-9]+ s' \
    'make check shows the verdict of each stage'
refused() { # STAGE PATTERN DESCRIPTION
    check
    is "$status" 2 "$3"
    like "$out" "$1 +FAILED.*$2" 'the stage refuses the change'
    git checkout -q . && git clean -qfd lib tests
}
printf 'int   hostlist_odd;\n' >>lib/base/hostlist.c
refused format 'make format' 'a file that is not laid out'
sed -i '2a #include "sys/loop.h"' lib/base/hostlist.c
refused rules 'base must not include sys' 'an include that no row grants'
echo '// TO''DO: more' >>lib/base/hostlist.c
refused rules 'unfinished work' 'a mark of unfinished work'
cp lib/base/hostlist.h lib/sys/
refused rules 'two headers of one name: hostlist.h' 'a second header of one name'
printf '# %0100d\n' 0 >>tests/demo.sh && git commit -qam 'tests: a long line'
refused rules 'demo.sh:[0-9]+: columns: 102' 'a line that is too long, in a file that is committed'
git reset -q --hard HEAD~
sed -i 's/is_str(strbuf_cstr(&b), want/is_str("odd", want/' tests/unit/base/test_hostlist.c
refused units 'test_hostlist' 'a unit test that fails'
check BASE=nosuch
is "$status:$err" "2:$err" 'a base that is no commit is an error'
like "$out$err" "'nosuch' is no commit" 'the error names the commit'

# ---- hooks --------------------------------------------------------------------------------------
ok 'make hooks' make -s hooks
is "$(git config core.hooksPath)" .ci/hooks 'make hooks sets the path of the hooks'
subject() { # TEXT
    printf '%s\n' "$1" >"$WORK/message"
    run .ci/hooks/commit-msg "$WORK/message"
}
for good in 'store: a value may be empty' 'lib/base, tests: one name' 'Merge branch x' \
    $'store: with a body\n\nWhy.' 'Revert "store: x"' "docs: $(printf 'é%.0s' {1..66})"; do
    subject "$good"
    is "$status:$err" 0: "the subject is accepted: ${good%%$'\n'*}"
done
for bad in 'Fix it' 'store:no blank' "docs: $(printf 'x%.0s' {1..67})" 'store: a full stop.' \
    $'store: a body\nwithout a blank line' ''; do
    subject "$bad"
    is "$status" 1 "the subject is refused: ${bad%%$'\n'*}"
done
cat >>"$WORK/fake.mk" <<'END'
check: ; @echo "checked $(BASE)" >>$(CURDIR)/checked
END
cp Makefile "$WORK/" && cp "$WORK/fake.mk" Makefile
echo x >>NOTES && git add NOTES
run git commit -qm 'notes: one more'
is "$status:$(cat checked)" '0:checked HEAD' 'a commit runs the check of what is not committed yet'
echo x >>NOTES
run git commit -qam 'one more'
is "$status" 1 'a subject without an area is refused'
printf 'check: ; @exit 1\n' >Makefile
run git commit -qam 'notes: one more'
is "$status" 1 'a commit that does not pass is refused'
git checkout -q . && git config --unset core.hooksPath

# ---- .ci/run ------------------------------------------------------------------------------------
mkdir -p "$WORK/fake"
printf '#!/bin/sh\ncase "$*" in *lint*) exit 1 ;; esac\n' >"$WORK/fake/make"
printf '#!/bin/sh\n' >lib/third_party/setup
chmod +x "$WORK/fake/make"
run env PATH="$WORK/fake:$PATH" .ci/run
is "$status" 1 '.ci/run ends with the stage that fails'
like "$out" '==== stages.*setup +ok.*check +ok.*lint +FAILED' \
    '.ci/run lists the stages with verdicts'
unlike "$out" 'test +ok' 'later ones do not run'
git checkout -q .

# ---- make cuda ----------------------------------------------------------------------------------
cuda() { run make -s cuda MODE=debug BUILD=build "$@"; }
rm -rf kernels/cuda
cuda
is "$status" 2 'make cuda without sources fails'
like "$err" 'kernels/cuda has no sources' 'the error names the missing sources'
mkdir kernels/cuda && echo '// a kernel' >kernels/cuda/add.cu
cuda NVCC=nosuch-nvcc
is "$status" 2 'make cuda without a compiler fails'
like "$err" "'nosuch-nvcc' is not installed" 'the error names the missing compiler'
done_testing
