#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train --up lists the inputs from a bucket before it makes a node: a wrong one is named while
# nothing runs, and sizes are compared with the disks of the nodes. Terraform is a stand-in.
source "${0%/*}/../lib.sh"
source "$SRC/tests/s3.sh"

s3_start PAGE=1000
mkdir -p bin set
for i in 1 2 3 4; do head -c 3000 /dev/zero >"set/part-$i"; done
dtdata put set s3://bucket/set >put.out || bail_out "$(cat put.out)"
# shellcheck disable=SC2016 # for the stand-in
printf '#!/bin/sh\necho "$*" >>"%s/terraform.log"\n%s\n' "$WORK" \
    'case $1 in version) echo "{\"terraform_version\": \"1.11.4\"}" ;; *) exit 1 ;; esac' \
    >bin/terraform
chmod +x bin/terraform
PATH=$WORK/bin:$PATH
printf '[cluster]\nprovider = "aws"\n[aws]\nregion = "us-east-1"\n' >aws.toml
made() { [ ! -e terraform.log ] || grep -cE '^(init|plan|apply)' terraform.log; }
refused() { # DESCRIPTION REGEX ARGUMENTS…
    run dtctl train -f aws.toml -y --up "${@:3}" -- true
    like "$status $err" "^[12] .*$2" "$1"
    is "$(grep -c '' <<<"$err")" 1 '  in one sentence'
    is "$(made)" '' '  before a node is made'
}

# ---- sources ------------------------------------------------------------------------------------
refused 'an absent bucket is named' "input 'x': .*NoSuchBucket" --input x=s3://absent/set
refused 'a prefix without objects is named' "input 'x': s3://bucket/none/ has no object" \
    --input x=s3://bucket/none
s3_ask '/-/refuse?peer=127.0.0.1' >/dev/null
refused 'a refusal of the server is named' "input 'x': .*403 AccessDenied" --input x=s3://bucket/set
s3_ask /-/refuse >/dev/null
refused 'an object that is to be sharded is named' "one object; mode = sharded is for a folder" \
    --input x=s3://bucket/set/part-1:sharded
refused 'a pattern without a file is named' "no file of 's3://bucket/set' matches include" \
    --input x=s3://bucket/set --set 'inputs.x.include=*.tar'

mkdir gz && touch gz/a.tar.gz
dtdata put gz s3://bucket/gz >put.out || bail_out "$(cat put.out)"
refused 'archives of a bucket that cannot be unpacked are refused' \
    "input 'x': 'a.tar.gz': deliver = extract unpacks .tar and .tar.zst, not .tar.gz .try: gzip" \
    --input x=s3://bucket/gz --set inputs.x.deliver=extract
refused 'and those of this computer' "input 'x': 'a.tar.gz': deliver = extract unpacks" \
    --input x=gz --set inputs.x.deliver=extract
run dtctl train -f aws.toml -y --up --input x=set --set inputs.x.deliver=extract
like "$status $err" "^2 .*input 'x': deliver = extract is for commands: the native trainer" \
    'the native trainer does not unpack'
is "$(made)" '' '  before a node is made'

# ---- disks --------------------------------------------------------------------------------------
truncate -s 9000000000 set/big
refused 'inputs that exceed the disk of a node are refused' \
    'aws.root_gb.*the disk of a node has 8.6 GB, and its inputs have 9.0 GB' \
    --set aws.root_gb=8 --input x=set
refused 'an archive and its tree need at least twice its size' \
    'aws.root_gb.*the disk of a node has 17.2 GB, and its inputs have 18.0 GB' \
    --set aws.root_gb=16 --input x=set --set inputs.x.deliver=extract
run dtctl train -f aws.toml -y --up --dry-run --set aws.root_gb=64 --input x=set -- true
like "$status $err" '^0 .*may not fit on its disk.*disk="68.7 GB" inputs="9.0 GB"' \
    'inputs beside which the system may not fit are a warning'
mv set/big big-1
truncate -s 5000000000 set/big set/big-2
run dtctl train -f aws.toml -y --up --dry-run --set aws.root_gb=8 --nodes 2 --input x=set:sharded \
    -- true
is "$status" 0 'of a sharded input a share has to fit' || diag "$err"
rm set/big* big-1

# ---- the plan, and a run ------------------------------------------------------------------------
run dtctl train --up --dry-run --input set=s3://bucket/set:sharded \
    --input one=s3://bucket/set/part-1 --input here=set -- true
is "$status" 0 '--up --dry-run without a cluster' || diag "$err"
like "$err" 'input    set: 4 files, 12.0 kB, a share to every node' 'the plan has the sharded input'
like "$err" 'input    one: 1 file, 3.0 kB, all to every node' 'the plan has the other input'
like "$err" 'input    here: 4 files, 12.0 kB, all to every node' 'the plan has a folder, too'
ok 'a dry run makes no cluster' test ! -e .dtctl/default/cluster.toml
s3_ask /-/forget >/dev/null
# shellcheck disable=SC2016 # the worker expands
run dtctl train --up --down --nodes 2 --input set=s3://bucket/set:sharded -- \
    sh -c 'ls "$DTCTL_INPUT_SET" >"$DTCTL_OUTPUT_DIR/of-$RANK"'
is "$status $(cat "$(dtctl path)"/of-* | sort | xargs)" '0 part-1 part-2 part-3 part-4' \
    'a run with the list from before its nodes'
is "$(s3_ask /-/log | grep -c 'GET /bucket -')" 2 'the bucket is listed once'
s3_stop
done_testing
