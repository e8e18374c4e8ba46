#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Push and fetch over real SSH: what arrives, what travels, what is left alone.
# shellcheck disable=SC2016,SC2088,SC2317 # the node expands; functions are called by name
source "${0%/*}/../lib.sh"
hosts_up 2 ada
source "$SRC/tests/integration/push_remote.sh"
N1=10.77.0.1 N2=10.77.0.2

# ---- bootstrap
run drive hello "$N1" "$DTRUN" '~/.dtctl'
is "$status" 0 'the agent gets there'
is "$(field uploaded)" true 'the program is sent because it was not there'
is "$(field program)" "/root/.dtctl/bin/dtrun-$(sha256sum "$DTRUN" | cut -c1-16)" \
    'the program is installed under its name'
is "$(field hostname)" node1 'the installed program reports its host'
run drive hello "$N1,$N2" "$DTRUN" '~/.dtctl'
is "$(grep -c '"uploaded":false' <<<"$out") $(grep -c '"uploaded":true' <<<"$out")" '1 1' \
    'the program is uploaded only where it is missing'
on 1 sh -c 'truncate -s 1000 /root/.dtctl/bin/dtrun-*'
run drive hello "$N1" "$DTRUN" '~/.dtctl'
is "$status $(field uploaded)" '0 true' 'a damaged one is replaced'
is "$(on 1 sh -c 'ls -A /root/.dtctl/bin | wc -l')" 1 'the folder of programs has no other file'
run drive --user ada hello "$N1" "$DTRUN" '~/my folder/x'
is "$(field program)" "/home/ada/my folder/x/bin/dtrun-$(sha256sum "$DTRUN" | cut -c1-16)" \
    'another user and a folder with a space are possible'

# ---- a tree of all kinds
mkdir -p src/a/deep/er src/.git src/logs src/empty
printf 'x' >src/a/one && printf '#!/bin/sh\n' >src/run.sh && chmod 755 src/run.sh
: >src/nothing
cp src/a/one src/a/deep/er/copy
head -c 3000000 /dev/urandom >src/middle
head -c 20000000 /dev/urandom >src/big
chmod 444 src/big # large files share their bytes with the store and are read-only there
echo secret >src/.git/config
echo noise >src/logs/today.log
printf '*.log\n!keep.log\n' >src/.dtctlignore
echo kept >src/keep.log
ln -s a/one src/link
printf 'strange' >"src/a/ name with 'quotes' and ümlaut"
mkdir expected && cp -a src/. expected/ && rm -rf expected/.git expected/logs/today.log
run drive --replace push "$N1,$N2" "$DTRUN" '~/.dtctl' work src/
is "$status" 0 'a tree goes to two nodes at once'
ok 'the first node has the tree' same expected 1 /root/.dtctl/work
ok 'the second node has the tree' same expected 2 /root/.dtctl/work
ok 'folders without files are pushed, too' on 1 test -d /root/.dtctl/work/empty
ok '.git stays at home' on 1 test ! -e /root/.dtctl/work/.git
run drive --replace push "$N1" "$DTRUN" '~/.dtctl' work src/
is "$status $(field bytes_total)" '0 0' 'nothing travels the second time'
echo more >>src/a/one
echo more >>expected/a/one
rm src/nothing expected/nothing
run drive --replace push "$N1" "$DTRUN" '~/.dtctl' work src/
is "$status $(field files_total)" '0 1' 'a second push sends the changed file only'
ok 'a deleted file is deleted on the node' same expected 1 /root/.dtctl/work
run drive --replace push "$N1" "$DTRUN" '~/.dtctl' other src/
is "$status $(field bytes_total)" '0 0' 'a second folder needs no bytes: the content is there'
ok 'the second folder is equal' same expected 1 /root/.dtctl/other

# ---- one content with two modes and times
mkdir twice && cp src/big twice/data && cp src/big twice/program
chmod 644 twice/data && chmod 755 twice/program
touch -d @1000000000 twice/program && touch -d @1100000000 twice/data
for dest in twice again; do
    run drive push "$N1" "$DTRUN" '~/.dtctl' $dest twice/
done
is "$(on 1 sh -c 'cd /root/.dtctl && stat -c "%a %Y" twice/* again/*' | paste -sd,)" \
    '644 1100000000,755 1000000000,644 1100000000,755 1000000000' \
    'files that share their bytes have modes and times of their own'

# ---- what the node changed
on 1 sh -c 'echo changed >/root/.dtctl/work/keep.log; echo mine >/root/.dtctl/work/mine;
    chmod 644 /root/.dtctl/work/big; echo x >>/root/.dtctl/work/big'
run drive --replace push "$N1" "$DTRUN" '~/.dtctl' work src/
is "$status" 0 'a changed folder is put right'
ok 'a large file that shares its bytes with the store is repaired' same expected 1 /root/.dtctl/work
on 1 sh -c 'echo mine >/root/.dtctl/work/mine'
run drive push "$N1" "$DTRUN" '~/.dtctl' work src/
is "$(on 1 cat /root/.dtctl/work/mine)" mine 'without --replace other files stay'

# ---- links do not lead out
on 1 sh -c 'mkdir /root/outside && cd /root/.dtctl/work && rm -rf a && ln -s /root/outside a'
run drive push "$N1" "$DTRUN" '~/.dtctl' work src/
is "$status $(on 1 sh -c 'ls /root/outside | wc -l')" '0 0' \
    'a link in the way is replaced, not followed'

# ---- fetch
on 1 sh -c 'cd /root/.dtctl && mkdir -p out/logs && echo log >out/logs/0.err && head -c 9000000 \
    /dev/urandom >out/model && echo a >out/same'
on 2 sh -c 'cd /root/.dtctl 2>/dev/null || { mkdir /root/.dtctl; cd /root/.dtctl; }
    mkdir -p out && echo b >out/same'
run drive fetch "$N1" "$DTRUN" '~/.dtctl' got out
is "$status" 0 'a folder is fetched'
ok 'the fetched folder is equal' same got/out 1 /root/.dtctl/out
is "$(ls -A got)" out 'the fetch leaves no temporary file'
run drive fetch "$N1" "$DTRUN" '~/.dtctl' got out
is "$status $(field bytes_total)" '0 0' 'nothing travels the second time'
on 1 sh -c 'echo log >>/root/.dtctl/out/logs/0.err'
run drive fetch "$N1" "$DTRUN" '~/.dtctl' got out
is "$status $(field files_total)" '0 1' 'a second fetch brings the changed file only'
run drive fetch "$N1" "$DTRUN" '~/.dtctl' content out/
ok 'a slash at the end asks for the content' same content 1 /root/.dtctl/out
run drive --exclude '*.err' fetch "$N1" "$DTRUN" '~/.dtctl' without out/
ok 'patterns leave files out' test ! -e without/logs/0.err
run drive fetch "$N1" "$DTRUN" '~/.dtctl' got absent
is "$status" 1 'a missing path is an error'
like "$err" "node 10.77.0.1: '/root/.dtctl/absent': No such file" 'the error names the missing path'
mkdir got2 && ln -s "$WORK/out" got2/out
run drive fetch "$N1" "$DTRUN" '~/.dtctl' got2 out
ok 'a link in the way here is replaced, not followed' test ! -e "$WORK/out/model"

# ---- bad places
run drive --user ada push "$N1" "$DTRUN" '~/.dtctl' /root/x src/
is "$status" 1 'a folder without permission is an error'
like "$err" "node 10.77.0.1: .*/root/x.*Permission denied" 'the error names node and folder'
# Only the check keeps it: the folder above it belongs to ada, too.
on 1 sh -c 'chown ada: /home && echo mine >/home/ada/kept'
for dest in '~' '~/' '~/../ada' /home; do
    run drive --user ada --replace push "$N1" "$DTRUN" '~/.dtctl' "$dest" src/
    like "$status $err" "^1 .*(refusing to replace the whole folder|leads through '..')" \
        "a home folder is not replaced: $dest"
done
ok 'the home folder is unchanged' on 1 sh -c 'test -f /home/ada/kept && test -d /home/ada/.ssh &&
    [ "$(ls /home)" = ada ]'
run drive --user ada --replace push "$N1" "$DTRUN" '~/.dtctl' '~/fine/./place/' src/
is "$status" 0 'a folder of the login is replaced'
ok 'the folder is at its place' same expected 1 /home/ada/fine/place
on 1 sh -c 'mkdir -p /root/small && mount -t tmpfs -o size=8m tmpfs /root/small'
run drive push "$N1" "$DTRUN" /root/small/dtctl work src/
is "$status" 1 'a full disk is an error'
like "$err" 'node 10.77.0.1: .*needs 26.0 MB more, and its disk has .* free .try: dtctl gc' \
    'a full disk is found before a byte is sent'
on 1 umount -l /root/small

done_testing
