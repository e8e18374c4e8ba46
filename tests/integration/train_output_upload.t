#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# outputs.every with outputs.s3: files that the nodes have finished are in the bucket while the run
# is active. A failed upload is tried again, and the end sends the rest alone.
# shellcheck disable=SC2016,SC2317 # the workers' shell expands; functions are called by name
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

s3_start PAGE=1000
patient=heartbeat=2,silence=30 # a busy machine is no loss
id_of() { basename "$(compgen -G ".dtctl/default/runs/$1-*")"; }
at() { echo "public/r/$1/runs/$(id_of "$1")"; } # NAME: bucket and key of its results
objects() { # NAME PATTERN: paths of its objects
    dtdata list "s3://$(at "$1")" 2>/dev/null | grep -oE '"path":"[^"]*"' | cut -d'"' -f4 |
        grep -v '^logs/' | grep -E "$2" | LC_ALL=C sort
}
there() { [ -n "$(objects "$1" "^$2\$")" ]; }                # NAME KEY
content() { s3_ask "/$(at "$1")/$2" 2>/dev/null; }           # NAME KEY
holds() { [ "$(content "$1" "$2")" = "$3" ]; }               # NAME KEY TEXT
cat >work.sh <<'E2'
cd "$DTCTL_OUTPUT_DIR" || exit 1
mkdir -p sub
if [ "$RANK" = 0 ]; then yes big | head -c 9000000 >sub/big; fi
echo "of $RANK" >same
echo first >changes
echo x >temp
echo m >"$DTCTL_MODEL_DIR/weights"
exec 5>open
echo half >&5
until [ -e "$GO.1" ]; do sleep 0.2; done
rm temp
echo second >changes
until [ -e "$GO.2" ]; do sleep 0.2; done
exec 5>&-
echo last >late
E2
start() { # NAME
    rm -f go.1 go.2
    dtctl train --name "$1" --rdzv-conf "$patient" --env "GO=$WORK/go" --file work.sh \
        --set outputs.every=1s --set outputs.s3=s3://public/r -- sh work.sh \
        >"$1.out" 2>"$1.err" &
    pid=$!
}
run dtctl up --nodes 2
is "$status" 0 'two nodes are up'

# ---- while the run is active --------------------------------------------------------------------
start each
for key in node0/output/sub/big node0/model/weights node1/output/changes node1/output/temp; do
    ok "$key is in the bucket" wait_for 60 there each live/$key
done
is "$(content each live/node1/output/changes)" first 'with its content'
is "$(content each live/node0/output/sub/big | cksum)" \
    "$(yes big | head -c 9000000 | { cat; echo; } | cksum)" 'a file in parts has its content'
is "$(objects each '/open$|\.dtctl|/disk$|/list$')" '' \
    'a file that is open, and files of dtctl, are not'
s3_fault denied '*/live/node0/output/changes' 99
touch go.1
ok 'a failed upload is a warning with its name' wait_for 60 \
    grep -q "not in the bucket yet.*/live/node0/output/changes.*AccessDenied" each.err
s3_fault denied '*/live/node0/output/changes' 0
ok 'dtctl tries again' wait_for 60 holds each live/node0/output/changes second
gone() { [ -z "$(objects each 'live/.*/temp$')" ]; }
ok 'a file that is removed goes' wait_for 60 gone
noted() {
    grep '"output-uploaded"' .dtctl/default/runs/each-*/events.jsonl | tail -n 1 |
        grep -q '"to":"s3://public/r/each/runs/each-[^"]*/live","files":"7"'
}
ok 'an event has the files' wait_for 60 noted

# ---- the end ------------------------------------------------------------------------------------
touch go.2
wait "$pid"
is $? 0 'the run ends well' || diag "$(tail -n 20 each.err)"
is "$(objects each . | xargs)" 'model/weights output/changes output/late output/node0/same '\
'output/node1/same output/open output/sub/big' 'the bucket has the results, and nothing else'
is "$(content each output/node1/same)" 'of 1' 'each node has its own file'
is "$(s3_ask /-/copied | sed 's,.*/runs/[^/]*/,,' | LC_ALL=C sort | xargs)" \
    'model/weights output/changes output/node0/same output/node1/same output/sub/big' \
    'the server has copied what was there'
like "$(cat each.err)" 'uploaded [0-9]+ files to .* \([0-9.]+ k?B sent, 5 of them were there\)' \
    'the end has sent the rest alone'
sed -i 's/^uploaded = true/uploaded = false/' .dtctl/default/runs/each-*/run.toml
s3_ask /-/forget >/dev/null
run dtctl fetch "$(id_of each)"
is "$status $(s3_ask /-/log | grep -c '^PUT')" '0 0' 'another upload sends nothing'

# ---- a dtctl that is killed, and a server that removes and copies nothing -----------------------
start lost
ok 'a file is in the bucket' wait_for 60 there lost live/node1/output/same
kill -KILL "$pid"
wait "$pid" 2>/dev/null
touch go.1
ok 'the bucket has what was finished until then' holds lost live/node1/output/same 'of 1'
dtctl logs -f lost >lost.out 2>lost.err &
pid=$!
ok 'the next dtctl continues' wait_for 60 holds lost live/node1/output/changes second ||
    diag "$(cat lost.err)"
s3_fault denied '*/live/node1/output/changes' 99
s3_fault denied '*/output/sub/big' 1
touch go.2
wait "$pid"
is $? 0 'the run ends well' || diag "$(cat lost.err)"
is "$(content lost output/sub/big | wc -c)" 9000001 'a file that the server does not copy is sent'
like "$(cat lost.err)" 'object.* of s3://public/r/lost/runs/.*/live could not be removed' \
    'objects that stay are reported'

# ---- a file that changes while it is sent -------------------------------------------------------
mkdir one
head -c 9000000 /dev/zero >one/f
s3_fault slow x/f 6
dtdata put one s3://public/x >put.out &
pid=$!
is_sent() { s3_ask /-/log | grep -q 'POST /public/x/f - 503'; }
ok 'an upload in parts begins' wait_for 60 is_sent
echo more >>one/f
wait "$pid"
ok 'the upload fails' test $? != 0
like "$(cat put.out)" "s3://public/x/f.*'one/f' has changed while it was sent" 'the error names it'
is "$(dtdata list s3://public/x | grep -c '"path":"f"')" 0 'no part of the file is an object'

# ---- a file that the server refuses -------------------------------------------------------------
mkdir -p two/n/output
mv one/f two/n/output/a
echo b >two/n/output/b
s3_fault denied y/live/n/output/a 9
run dtdata live two s3://public/y/live 0
like "$status $out" "^[1-9].*'s3://public/y/live/n/output/a'.*AccessDenied" \
    'the error names the file'
is "$(s3_ask /public/y/live/n/output/b)" b 'the other files are sent'
run dtdata live two s3://public 0
like "$status $out" "^[1-9].*does not end with '/live'" 'no other place is made a mirror'
is "$(s3_ask /public/y/live/n/output/b)" b 'nothing is removed there'

# ---- a file that goes while the turn runs -------------------------------------------------------
s3_fault denied y/live/n/output/a 0
mkdir two/n/model
for name in output/gone output/old model/m; do echo 1 >"two/n/$name"; done
run dtdata live two s3://public/y/live 0
rm two/n/output/old
echo 2 >two/n/output/next
s3_ask '/-/lists?pause=2&skip=0' >/dev/null
dtdata live two s3://public/y/live 0 >live.out &
pid=$!
sleep 0.7 # the files are known, and the list of the bucket is awaited
rm two/n/output/gone
wait "$pid"
status=$?
s3_ask '/-/lists?pause=0&skip=0' >/dev/null
like "$status $(tail -n 1 live.out)" '^0 .*"changed":1' \
    'a turn without that file succeeds' || diag "$(cat live.out)"
is "$(s3_ask /public/y/live/n/output/next)" 2 'the other files are sent'
is "$(dtdata list s3://public/y | grep -c '"path":"live/n/output/old"')" 0 \
    'a file that went before is removed'

# ---- results that are not fetched whole ---------------------------------------------------------
mkdir -p came/model
echo 1 >came/model/m
run dtdata results came none s3://public/y model
like "$status $out" '^0 .*"copied":1' 'the results that came are in the bucket' || diag "$out"
is "$(dtdata list s3://public/y | grep -oE '"path":"[^"]*"' | cut -d'"' -f4 | sort | xargs)" \
    'live/n/output/a live/n/output/b live/n/output/gone live/n/output/next model/m' \
    'the mirror keeps the kinds that did not come'

# ---- an upload that is stopped ------------------------------------------------------------------
mkdir big && head -c 300000000 /dev/zero >big/f
dtdata put big s3://public/w >stop.out &
pid=$!
is_begun() { s3_ask /-/log | grep -q 'PUT /public/w/f'; }
ok 'an upload in parts is under way' wait_for 60 is_begun
kill "$pid"
wait "$pid"
ok 'a stopped upload fails' test $? != 0
is "$(s3_ask /-/log | grep -c '^DELETE /public/w/f - 204')" 1 \
    'a stopped upload takes back its parts'
s3_stop
done_testing
