#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make install, make dist and make help do what they say.
source "${0%/*}/../lib.sh"
home=$(getent passwd "$(id -u)" | cut -d: -f6)
# shellcheck disable=SC2317 # called through ok and run
build() { # TARGET…
    env HOME="$home" make --no-print-directory -C "$SRC" BUILD="$BUILD" BIN="$BIN" MAKEFLAGS= "$@"
}

ok 'make install' build install DESTDIR="$WORK/stage" PREFIX=/opt/dtctl
ok 'dtctl is installed below DESTDIR and PREFIX' cmp "$WORK/stage/opt/dtctl/bin/dtctl" "$BIN/dtctl"
run "$WORK/stage/opt/dtctl/bin/dtctl" version
is "$status" 0 'the installed dtctl runs'
run cat "$WORK/stage/opt/dtctl/share/man/man1/dtctl.1"
like "$out" '\.TH "DTCTL"' 'the manual page of dtctl is installed'
ok 'the manual page of dtctl.toml is installed' \
    grep -q '^\.TH' "$WORK/stage/opt/dtctl/share/man/man5/dtctl.toml.5"
ok 'the documents are installed' \
    cmp "$WORK/stage/opt/dtctl/share/doc/dtctl/docs/hosts.md" "$SRC/docs/hosts.md"
ok 'bash takes the completions' \
    bash -n "$WORK/stage/opt/dtctl/share/bash-completion/completions/dtctl"
completions=$WORK/stage/opt/dtctl/share
for shell in zsh fish; do
    case $shell in
    zsh) file=$completions/zsh/site-functions/_dtctl ;;
    fish) file=$completions/fish/vendor_completions.d/dtctl.fish ;;
    esac
    if command -v $shell >/dev/null; then
        ok "$shell takes the completions" $shell -n "$file"
    else
        skip 1 "$shell is not installed"
    fi
done
if command -v groff >/dev/null; then
    run groff -man -Kutf8 -Tutf8 -wall "$WORK/stage/opt/dtctl/share/man/man1/dtctl.1"
    is "$err" '' 'groff lays the manual page out without a warning'
else
    skip 1 'groff is not installed'
fi
run find "$WORK/stage" -type f -not -path '*/opt/dtctl/*'
is "$out" '' 'nothing goes elsewhere'

run build install DESTDIR="$WORK/none" BIN="$WORK/nothing-built"
is "$status:$(grep -c 'is not built yet (try: make)' <<<"$err")" 2:1 'make install builds nothing'
run make --no-print-directory -n -C "$SRC" clean BUILD=
unlike "$out" ' /(release|bin|san)' 'make clean with an empty BUILD= stays in the tree'

if git -C "$SRC" rev-parse HEAD >/dev/null 2>&1; then
    ok 'make dist' build dist DIST="$WORK/one"
    ok 'make dist, again' build dist DIST="$WORK/two"
    ok 'two archives are equal, byte for byte' diff -r "$WORK/one" "$WORK/two"
    ok 'SHA256SUMS holds' bash -c "cd '$WORK/one' && sha256sum -c SHA256SUMS"
    mkdir unpacked
    tar -xzf "$WORK"/one/dtctl-*.tar.gz -C unpacked
    ok 'the archive has the sources' test -f unpacked/dtctl-*/Makefile
    run cat unpacked/dtctl-*/.version
    like "$out" '^[0-9]+\.[0-9]+\.[0-9]+' 'the archive has its version'
else
    skip 6 'make dist needs a git checkout'
fi

run build -n help
unlike "$out" '\.d ' 'help reads makefiles alone, however many objects there are'
run build help
for target in all deps setup demo test bench lint fuzz install docs dist hosts clean; do
    like "$out" "make $target " "help names $target"
done
done_testing
