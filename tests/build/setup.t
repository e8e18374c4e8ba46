#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lib/third_party/setup on a machine of stand-ins, which only note what they are asked to do: on a
# terminal nothing is installed without the answer yes.
# shellcheck disable=SC2016 # the stand-ins expand it
source "${0%/*}/../lib.sh"
unset CI DTCTL_PYTHON
answer() { run "$SRC/tests/tools/answer.py" 30 "$@"; }

# ---- the machine --------------------------------------------------------------------------------
mkdir -p tree/lib/third_party bin
cp "$SRC/lib/third_party/setup" tree/lib/third_party/
setup=$PWD/tree/lib/third_party/setup
echo "build $PWD/compiler a-compiler" >tree/lib/third_party/packages
stand_in() { # NAME, with the script at standard input
    { echo '#!/bin/sh' && cat; } >"bin/$1"
    chmod 755 "bin/$1"
}
stand_in id <<<'echo 1000'
stand_in dpkg-query <<<'exit 1'
stand_in apt-cache <<<'[ "$3" = a-compiler ]'
stand_in apt-get <<<'case "$*" in *--assume-no*) echo "Need to get 52.3 MB of archives." ;; esac'
stand_in clang <<<'exit 1'
stand_in python3 <<<"echo \"python3 \$*\" >>'$PWD/asked'; exit 1"
stand_in sudo <<END
case "\$*" in
    '-n true') ;;
    *'apt-get '*' install '*) echo "install \${*##* }" >>'$PWD/asked' && : >'$PWD/compiler' ;;
    *) cat >/dev/null </dev/null ;;
esac
END
machine() { # ARGUMENT…: the command in $setup_line, on a machine without the compiler
    rm -rf compiler asked cache
    setup_line=(env PATH="$PWD/bin:$PATH" DTCTL_CACHE="$PWD/cache" "$setup" "$@")
}
installed() { cat asked 2>/dev/null; }
question='install this\? \[y/N\]'

# ---- packages -----------------------------------------------------------------------------------
for no in 'n\n' '\n' '\x04'; do
    machine build
    answer 'install this?' "$no" -- "${setup_line[@]}"
    is "$status:$(installed)" '1:' "the answer '$no' installs nothing, and the build is not ready"
    like "$out" "to be installed: a-compiler.*52.3 MB.*$question" \
        'the question names packages and size'
    like "$out" 'needed to build: a-compiler' 'the end names what is lacking'
done
machine build
answer 'install this?' 'y\n' -- "${setup_line[@]}"
is "$status:$(installed)" '0:install a-compiler' "the answer 'y' installs it" || diag "$out$err"
machine -y build
answer -- "${setup_line[@]}"
is "$status:$(installed)" '0:install a-compiler' '-y installs it on a terminal'
unlike "$out" "$question" '-y asks nothing'
machine build
answer -- env CI=true "${setup_line[@]}"
is "$status:$(installed)" '0:install a-compiler' 'CI=true installs it on a terminal'
unlike "$out" "$question" 'CI=true asks nothing'
machine build
run "${setup_line[@]}" </dev/null
is "$status:$(installed)" '0:install a-compiler' 'without a terminal it is listed and installed'
unlike "$out" "$question" 'without a terminal there is no question'
machine build
: >compiler
answer -- "${setup_line[@]}"
is "$status:$(installed)" '0:' 'a machine that lacks nothing is not asked about'

# ---- what comes from the Python package index ---------------------------------------------------
machine test
: >compiler
answer 'install this?' 'n\n' -- "${setup_line[@]}"
is "$status:$(installed)" '0:' "the answer 'n' makes no Python"
like "$out" "PyTorch.*$question" 'the question names PyTorch'
ok 'there is no cache' test ! -e cache
machine test
: >compiler
answer 'install this?' 'y\n' -- "${setup_line[@]}"
like "$(installed)" "python3 -m venv $PWD/cache/python" "the answer 'y' makes one"
done_testing
