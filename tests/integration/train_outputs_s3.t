#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Results that go to a bucket: their layout, what is refused before a run, and uploads that fail.
# shellcheck disable=SC2016 # workers expand their own variables
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

s3_start PAGE=1000
dtctl up --nodes 2 >made.log 2>&1 || diag "$(cat made.log)"
cat >work.sh <<'END'
mkdir -p $DTCTL_OUTPUT_DIR/sub
echo "$RANK" >"$DTCTL_OUTPUT_DIR/sub/r$RANK =+ü"
[ $RANK != 0 ] || head -c 20000000 /dev/zero | tr '\0' x >$DTCTL_OUTPUT_DIR/big
[ $RANK != 0 ] || ln -s sub $DTCTL_OUTPUT_DIR/link
echo m >$DTCTL_MODEL_DIR/m
echo s$RANK >$DTCTL_STATE_DIR/s
echo line
END
go() { run dtctl train --set "outputs.s3=$1" "${@:2}" -- sh work.sh; }
runs() { find .dtctl/default/runs -maxdepth 1 -name "$1-*" | sort | tail -n 1; }
puts() { s3_ask /-/log | grep -cE "PUT .*$1"; }

# ---- refused before anything starts -------------------------------------------------------------
go https://x/y --name bad
like "$status:$err" "2:.*'https://x/y' is not s3://BUCKET/PREFIX" 'another scheme is refused'
go s3://absent/p --name bad
like "$status:$err" "^[1-9].*outputs.s3.*'s3://absent/p'.*NoSuchBucket" \
    'a bucket that is not there is reported'
AWS_SECRET_ACCESS_KEY=wrong go s3://bucket/p --name bad
like "$status:$err" '^[1-9].*outputs.s3.*SignatureDoesNotMatch' 'a wrong key is reported'
s3_fault denied '*/.dtctl-check' 9
go s3://bucket/p --name bad
like "$status:$err" '^[1-9].*outputs.s3.*AccessDenied' 'a key that may not write'
s3_fault denied '*/.dtctl-check' 0
is "$(runs bad)" '' 'none of them made a run'
s3_ask /-/forget >/dev/null
go s3://bucket/p --name dry --dry-run
like "$err" 'uploads  s3://bucket/p/dry/runs/dry-' 'a dry run shows the address'

# ---- a run --------------------------------------------------------------------------------------
go s3://bucket/p/ --name good
is "$status" 0 'a run uploads its results'
id=$(basename "$(runs good)")
is "$(dtctl path good --s3)" "s3://bucket/p/good/runs/$id" \
    'path --s3 prints the address'
dtdata list "s3://bucket/p/good/runs/$id" >objects
paths() { grep -oE '"path":"[^"]*"' objects | cut -d'"' -f4 | grep -v ^logs/ | LC_ALL=C sort; }
is "$(paths | tr '\n' ' ')" \
    'model/m output/big output/sub/r0 =+ü output/sub/r1 =+ü state/node0/s state/node1/s ' \
    'every part has its place'
like "$(cat objects)" '"path":"logs/node0/' 'logs are there'
like "$err" 'upload +bucket +2[0-9.]+ MB in' 'the upload has a row of progress'
like "$err" '1 symbolic link of the results is only here' 'links are named'
dtctl up --nodes 2 >made.log 2>&1
run dtctl train --input "in=$(dtctl path good --s3)/output" --name back -- \
    sh -c 'cp $DTCTL_INPUT_IN/big $DTCTL_OUTPUT_DIR/$RANK'
ok 'the bytes are those of the results' cmp "$(dtctl path good)/big" "$(dtctl path back)/1"

# ---- kinds that stay, and archives --------------------------------------------------------------
run dtctl train --set outputs.s3=s3://bucket/part --set outputs.archive=tar.zst --fetch model \
    --name part -- sh work.sh
is "$status" 0 'a run of which only the model comes succeeds' || diag "$err"
id=$(basename "$(runs part)")
listed() { dtdata list "s3://bucket/part/part/runs/$id" >objects && paths | tr '\n' ' '; }
is "$(listed)" 'model/m output/model.tar.zst ' 'the model alone is uploaded'
run dtctl fetch "$id"
is "$status" 0 'fetch brings the rest' || diag "$err"
is "$(listed)" 'model/m output/big output/model.tar.zst output/output.tar.zst output/sub/r0 =+ü '\
'output/sub/r1 =+ü state/node0/s state/node1/s ' 'the rest is uploaded, too'
ok 'logs are uploaded, too' grep -q '"path":"logs/node0/' objects

# ---- an upload that fails -----------------------------------------------------------------------
s3_fault denied '*/state/node1/s' 99
go s3://bucket/q --name late
is "$status" 1 'a failed upload is status 1'
like "$err" 'are here and not in s3://bucket/q.*AccessDenied.*' \
    'the error says where the results are'
like "$err" 'try: dtctl fetch late-' 'the error has the next step'
like "$(dtctl path late --json)" '"state":"finished".*"here":true.*"uploaded":false' \
    'the run is finished, and its results are here'
run dtctl path late --s3
like "$status:$err" '^[1-9].*are not in s3://bucket/q' \
    'path --s3 does not print what is not there'
run dtctl fetch "$(basename "$(runs late)")"
ok 'fetch fails as long as the server refuses' test "$status" != 0
s3_fault denied '*/state/node1/s' 0
s3_ask /-/forget >/dev/null
run dtctl fetch "$(basename "$(runs late)")"
is "$status" 0 'fetch continues'
is "$(puts output/big)" 0 'fetch does not send what is there'
like "$(dtctl path late --s3)" '^s3://bucket/q/late/runs/late-' \
    'path --s3 prints the address after that'

# ---- dtctl ends during an upload ----------------------------------------------------------------
# shellcheck disable=SC2317 # called through wait_for
is_sending() { s3_ask /-/log | grep -q "$1-.*output/big"; }
for signal in INT KILL; do
    s3_fault slow '*/output/big' 99
    dtctl train --set outputs.s3=s3://bucket/end --name $signal -- sh work.sh >end.out 2>end.err &
    ok "$signal: the upload has begun" wait_for 20 is_sending $signal
    kill -$signal $!
    { wait $!; } 2>/dev/null
    ok "$signal: the command fails" test $? -ne 0
    id=$(basename "$(runs $signal)")
    like "$(dtctl path "$id" --json)" '"state":"finished".*"here":true.*"uploaded":false' \
        "$signal: the record says what is where"
    s3_fault slow '*/output/big' 0
    run dtctl fetch "$id"
    is "$status" 0 "$signal: fetch completes the upload" || diag "$err"
    is "$(dtctl path "$id" --s3)" "s3://bucket/end/$signal/runs/$id" \
        "$signal: path prints the address then"
done
s3_stop
done_testing
