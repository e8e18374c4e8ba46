#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gc: what the stores of the nodes keep of files that are gone, and what they must keep.
source "${0%/*}/../lib.sh"
printf '[cluster]\nnodes = 1\n' >dtctl.toml
node=.dtctl/default/nodes/node0

freed() { sed -n 's/.*"contents":\([0-9]*\).*/\1/p' <<<"$out"; }
sent() { sed -n 's/.*"files_sent":\([0-9]*\).*/\1/p' <<<"$out"; }

run dtctl up
is "$status" 0 'up succeeds'
mkdir -p src
for i in {1..50}; do echo "small $i" >"src/$i"; done
head -c 1000000 /dev/urandom >src/middle   # an object that is copied
head -c 20000000 /dev/urandom >src/large   # an object that shares its bytes
run dtctl push --to work src/
is "$status" 0 'push succeeds'
size=$(du -sk "$node/cas" | cut -f1)
run dtctl --json gc --older-than 0s
is "$status $(freed)" '0 0' 'files that the node uses are kept'
cp -a src here && rm -rf "${node:?}/work"
run dtctl --json gc --older-than 1h
is "$status $(freed)" '0 0' 'files younger than the limit are kept'
run dtctl --json gc --older-than 0s --dry-run
is "$status $(freed)" '0 52' '--dry-run counts what would go'
is "$(du -sk "$node/cas" | cut -f1)" "$size" '--dry-run removes nothing'
run dtctl --json push --to work src/
is "$status $(sent)" '0 0' 'a push after --dry-run sends nothing'

# A folder of a node that the inventory does not have: of an `up` that was killed.
mkdir -p .dtctl/default/nodes/ghost/cas && echo x >.dtctl/default/nodes/ghost/cas/y
run dtctl gc --dry-run
like "$out" 'would remove the folder [^ ]*/nodes/ghost' '--dry-run names the folder'
ok 'the folder is still there' test -e .dtctl/default/nodes/ghost/cas/y
run dtctl gc
is "$status" 0 'gc with such a folder succeeds'
ok 'the folder is gone' test ! -e .dtctl/default/nodes/ghost
ok 'the folder of the node is not' test -d "$node/work"

# Half of it is still in use.
rm "$node/work"/{1,2,3,4,5,middle}
: >"$node/cas/tmp/unfinished.part"
run dtctl --json gc --older-than 0s
is "$status $(freed)" '0 7' 'unused content and an abandoned part are removed'
ok 'the part is gone' test ! -e "$node/cas/tmp/unfinished.part"
run dtctl --json push --to work src/
is "$status $(sent)" '0 6' 'only removed content is sent again'
ok 'the folder is complete' diff -r src "$node/work"
run dtctl --json push --to again src/
is "$status $(sent)" '0 0' 'the rest of the store is whole, too'
ok 'the store makes another complete folder' diff -r src "$node/again"

# Three concurrent pushes of the same new content: the first one finishes it for all.
head -c 60000000 /dev/urandom >src/large
for to in one two three; do
    dtctl push --to $to src/ >push.$to 2>&1 &
done
failed=0
for _ in 1 2 3; do wait -n || failed=$((failed + 1)); done
is "$failed" 0 'three transfers of the same content at once' || diag "$(cat push.*)"
for to in one two three; do ok "the folder '$to' is whole" diff -r src "$node/$to"; done
is "$(ls "$node/cas/tmp")" '' 'no part is left'

# A transfer holds the store.
perl -e 'open(F, "+<", $ARGV[0]) or die; my $l = pack("ssx4qqix4", 0, 0, 0, 0, 0);
    fcntl(F, 37, $l) or die "$!"; print "held\n"; close(STDOUT); sleep 60' \
    "$node/cas/packs/lock" >held &
holder=$!
wait_for 5 grep -q held held
run dtctl gc --older-than 0s
is "$status" 3 'a store in use is left alone'
like "$err" "in use by a transfer; try again later" 'the error says that the store is in use'
kill $holder
run dtctl gc --older-than 0s
is "$status" 0 'gc succeeds after the transfer'
like "$out" 'removed 0 runs and 0 stored contents' 'gc has nothing to remove'
run dtctl down
is "$status" 0 'down succeeds'
done_testing
