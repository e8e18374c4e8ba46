#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The shipped programs: static at an address the kernel chooses, hardened, stripped, no larger than
# promised, and carrying no path of the build.
source "${0%/*}/../lib.sh"
check=$SRC/tests/build/is-static

run "$check" /bin/sh
is "$status" 1 'the check refuses a dynamic program'
like "$err" 'program interpreter' 'the error names the program interpreter'
printf 'int main(void) { return 0; }\n' >main.c
refused() { # REASON FLAG…
    gcc -o program main.c "${@:2}" 2>gcc.log || diag "$(cat gcc.log)"
    run "$check" --symbols program
    like "$status:$err" "^1:.*$1" "a program that $1 is refused"
}
refused 'has a fixed address' -static -no-pie
refused 'is not linked with -z now' -static-pie -Wl,-z,lazy
refused 'has an executable stack' -static-pie -Wl,-z,now,-z,execstack

declare -A bytes_max=([dtctl]=12000000 [dtrun]=4000000 [dttrain]=8000000 [dtdata]=6000000)
for program in dtctl dtrun dttrain dtdata; do
    file=$BIN/$program
    ok "$program is built" test -x "$file" || continue
    ok "$program is static" "$check" "$file"
    run readelf -SW "$file"
    unlike "$out" '\.symtab|\.debug' "$program is stripped"
    size=$(stat -c %s "$file")
    ok "$program has $size bytes, at most ${bytes_max[$program]} are allowed" \
        test "$size" -le "${bytes_max[$program]}"
    run grep -aoE "$SRC/[a-z./_]*|/\.cache/dtctl[a-z./_]*" "$file"
    is "$out" '' "$program holds no path of the machine that built it"
done
# A linker takes the first of two functions of one name.
twice=$(nm -A -g --defined-only "$DTCTL_BUILD"/release/libdt_*.a 2>/dev/null |
    awk -F'[: ]+' '{ print $NF, $2 }' | sort -u | awk '$1 == last { print $1 } { last = $1 }')
ok 'the libraries are there' test -e "$DTCTL_BUILD/release/libdt_base.a"
is "$twice" '' 'no two libraries have a function of one name'
# A flag that the makefile loses shows in what the compiler leaves undefined.
for layer in remote agent data; do
    like "$(nm -u "$DTCTL_BUILD/release/libdt_$layer.a" 2>&1)" 'U __stack_chk_fail' \
        "the layer $layer is built with the stack protector"
done
run chroot "$(mkdir -p root && cp "$BIN/dtctl" root/ && echo root)" /dtctl version
is "$status" 0 'dtctl alone runs in an empty root file system'
done_testing
