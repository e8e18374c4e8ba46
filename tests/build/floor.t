#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dttrain-cuda starts with glibc 2.28 and nothing else, and the check of that finds what does not.
source "${0%/*}/../lib.sh"
check=$SRC/tests/build/is-floor
[ -x "$BIN/dttrain-cuda" ] || skip_all 'dttrain-cuda is not built: the compiler of CUDA is not here'

ok 'dttrain-cuda starts with glibc 2.28 and no other library' "$check" "$BIN/dttrain-cuda"
run "$BIN/dttrain-cuda" --version
is "$status $out" "0 $("$BIN/dttrain" --version)" 'dttrain-cuda has the version of dttrain'

# linked NAME SOURCE FLAG…: a program of this machine's own library
linked() {
    local name=$1 source=$2
    shift 2
    echo "$source" | gcc -pie -o "$name" -x c - -Wl,-z,now "$@"
}
run "$check" "$BIN/dttrain"
like "$status $err" '^1 .*no symbols of glibc' 'a static program is refused'
linked math '#include <math.h>
int main(int n, char **v) { return (int)cbrt(n) + !v; }' -lm
run "$check" ./math
like "$status $err" '^1 .*needs (libm|glibc)' 'a program of another library is refused'
linked new '#define _GNU_SOURCE
#include <unistd.h>
#include <sched.h>
int main(void) { return gettid() == 0; }'
run "$check" ./new
like "$status $err" '^1 .*needs glibc 2\.[3-9][0-9]; 2.28 must' 'a newer glibc is refused'
linked stack 'int main(void) { return 0; }' -Wl,-z,execstack -nostartfiles -Wl,-e,main
run "$check" ./stack
is "$status" 1 'an executable stack is refused'

bytes=$(stat -c %s "$BIN/dtctl")
ok "dtctl with all programs has $bytes bytes, under 12 MB" [ "$bytes" -lt 12000000 ]
done_testing
