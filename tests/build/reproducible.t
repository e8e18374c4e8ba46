#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same sources in another folder give the same programs, byte for byte.
#
# Here a part of the objects is compiled once more: a source whose checksum divides by EVERY (8), so
# each change of a source draws anew, and one fat binary. All archives and programs are linked once
# more. EVERY=1 compiles and compresses everything, as `make release` does.
source "${0%/*}/../lib.sh"
EVERY=${EVERY:-8} FATBIN=step

copy=$WORK/another/folder/of/another/length
mkdir -p "$copy/build"
sources() { # the files that git knows or would take, or everything that make did not write
    if ! git ls-files -co --exclude-standard 2>/dev/null; then
        find . -type f -not -path './build/*' -not -path './bin/*'
    fi
}
(cd "$SRC" && sources | while read -r file; do [ ! -f "$file" ] || echo "$file"; done |
    tar -cf - -T -) | tar -xf - -C "$copy"
sed -n 's/#define DTCTL_VERSION "\(.*\)"/\1/p' "$BUILD/release/gen/build_info.h" >"$copy/.version"

# With their times, since make compiles what is older than its source.
tar -C "$BUILD" --exclude=release/tests --exclude="libdt_*.a" --exclude='embed/embed.*' -cf - \
    release |
    tar -xf - -C "$copy/build"
[ "$EVERY" -gt 1 ] || rm -rf "$copy/build/release/embed"
cd "$copy" || exit 1
# The flags name the folder, whose name the compiler leaves out of the objects.
flags=build/release/.flags
sed -i "s|=$SRC=|=$copy=|" $flags && touch -d "@$(stat -c %Y "$BUILD/release/.flags")" $flags
again=0
while read -r sum _ source; do
    object=build/release/${source%.c}.o
    if [ $((sum % EVERY)) -eq 0 ] && [ -e "$object" ]; then
        rm "$object" && again=$((again + 1))
    fi
done < <(find lib cmd kernels -name '*.c' -exec cksum {} +)
[ "$EVERY" -gt 1 ] || rm -f build/release/fatbin/*
rm -f "build/release/fatbin/$FATBIN".*
kept=$(find build/release -name '*.o' | wc -l)
diag "$again objects are compiled again, $kept are not"
ok 'objects are compiled again' test "$again" -gt 50

run env HOME="$(getent passwd "$(id -u)" | cut -d: -f6)" make -j2 BUILD=build BIN=bin V=0 MAKEFLAGS=
is "$status" 0 'the copy builds' || diag "$out" "$err"
compiled=$(grep -c '^  CC ' <<<"$out")
# Headers of the copy are as old as those of the build, so nothing but what is missing is compiled.
ok "only those: $compiled" test "$compiled" -lt $((again + 20))
for program in dtctl dtrun dttrain dtdata dttrain-cuda; do
    if [ "$program" = dttrain-cuda ] && [ ! -e "$BIN/$program" ]; then
        skip 1 'dttrain-cuda is not built: the compiler of CUDA is missing'
        continue
    fi
    ok "$program is the same" cmp "$BIN/$program" "bin/$program"
done
done_testing
