#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same sources in another folder give the same programs, byte for byte.
source "${0%/*}/../lib.sh"

copy=$WORK/another/folder/of/another/length
mkdir -p "$copy"
sources() { # the files that git knows or would take, or everything that make did not write
    if ! git ls-files -co --exclude-standard 2>/dev/null; then
        find . -type f -not -path './build/*' -not -path './bin/*'
    fi
}
(cd "$SRC" && sources | while read -r file; do [ ! -f "$file" ] || echo "$file"; done |
    tar -cf - -T -) | tar -xf - -C "$copy"
sed -n 's/#define DTCTL_VERSION "\(.*\)"/\1/p' "$BUILD/release/gen/build_info.h" >"$copy/.version"
ok 'the copy builds' env HOME="$(getent passwd "$(id -u)" | cut -d: -f6)" \
    make -C "$copy" -j2 BUILD=build BIN=bin MAKEFLAGS=
for program in dtctl dtrun dttrain dtdata; do
    ok "$program is the same" cmp "$BIN/$program" "$copy/bin/$program"
done
done_testing
