#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# floor.sh DIR: writes libraries to link against in place of this machine's glibc. They have its
# names and no code; of every symbol they offer the newest version that glibc 2.28 (RHEL 8) has. A
# program linked with them starts there, and one that needs a newer function is not linked. libm.a
# has musl's functions, so that nodes with different glibcs compute the same numbers.
set -euo pipefail
dir=$1 floor=2.28
mkdir -p "$dir"

# symbols FILE: ADDRESS KIND NAME VERSION SIZE BINDING, by address; KIND is data or code
symbols() {
    objdump -T "$1" | awk -v floor="$floor" '
        function number(v,  part) {
            split(v, part, ".")
            return part[1] * 1e6 + part[2] * 1e3 + part[3]
        }
        # ADDRESS, seven letters at 18, section, tab, SIZE, VERSION (in brackets: an old one), NAME
        match($0, /\(?GLIBC_[0-9.]+\)? +[^ ]+$/) && !/ \*UND\*/ && !/\t.*[ (]GLIBC_PRIVATE/ {
            split(substr($0, RSTART), word, " +")
            name = word[2]
            version = word[1]
            gsub(/[()]|GLIBC_/, "", version)
            split(substr($0, 26), rest, /[ \t]+/)
            if (number(version) > number(floor) || number(version) <= best[name] ||
                rest[1] ~ /^\.t(bss|data)|ABS/) next
            best[name] = number(version)
            data = substr($0, 24, 1) == "O"
            row[name] = substr($0, 1, 16) (data ? " data " : " code ") name " " version \
                " 0x" rest[2] (substr($0, 19, 1) == "w" ? " weak" : " globl")
        }
        END { for (name in row) print row[name] }' | LC_ALL=C sort
}

# source: what the assembler makes of them. Names of one address stay names of one address, because
# the linker copies data to the program, once for all its names.
source() {
    awk '
        $2 == "data" && $1 != last {
            print ".bss\n.skip " (room ? room : 64) "\n.balign 64"
            last = $1
        }
        { print "." $6 " s" NR }
        $2 == "data" { room = $5; print ".type s" NR ",@object\n.size s" NR "," $5 "\ns" NR ":" }
        $2 == "code" { print ".type s" NR ",@function\n.set s" NR ",code" }
        { print ".symver s" NR "," $3 "@@GLIBC_" $4 }
        END { if (room) print ".skip " room
              print ".text\ncode: ret\n.section .note.GNU-stack,\"\",@progbits" }'
}

for lib in libc.so.6 libdl.so.2 libpthread.so.0; do
    stub=$dir/$lib
    symbols "$(gcc -print-file-name=$lib)" >"$stub.list"
    source <"$stub.list" >"$stub.s"
    awk '{ print $4 } END { print "2.2.5" }' "$stub.list" | sort -u |
        sed 's/.*/GLIBC_& { local: s[0-9]*; };/' >"$stub.map"
    gcc -c -o "$stub.o" "$stub.s"
    gcc -shared -nostdlib -Wl,-soname,$lib -Wl,--build-id=none -Wl,--version-script="$stub.map" \
        -o "${stub%.so*}.so" "$stub.o"
done

# The members of musl's library that hold the functions of <math.h> in use, and what these need.
math='ceil ceilf cos erfc erff exp expf floor fmax fmin fmod frexp ldexp ldexpf llround log log2
    logf lround pow sin sincosf sqrt sqrtf tanhf'
specs=$(musl-gcc -v 2>&1 | sed -n 's/^Reading specs from //p')
musl=$(sed -n 's|.* \(/[^ ]*\)/crti\.o.*|\1/libc.a|p' "$specs" | head -n 1)
rm -rf "$dir/libm.a" "$dir/math"
mkdir "$dir/math"
# The linker says which members it takes, and no function may bring in more than arithmetic.
# shellcheck disable=SC2046,SC2086 # words
members=$(ld -r -t -t -o "$dir/math.o" $(printf -- '-u %s ' $math) "$musl" |
    sed -n 's/^(.*)//p; s/.*(\(.*\))$/\1/p' | grep -vE '^(memcpy|__stack_chk_fail)\.' | sort -u)
needed=$(nm -u "$dir/math.o" | grep -v _GLOBAL_OFFSET_TABLE_ || true)
[ -z "$needed" ] || { echo "floor.sh: musl's mathematics need $needed" >&2; exit 1; }
# shellcheck disable=SC2086 # words
(cd "$dir/math" && ar x "$musl" $members && ar rcsD ../libm.a ./*o)
