#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The native trainer with a data set of which every node has a share of its own, and shares differ:
# in images, in classes, and in whether there is a test image at all.
source "${0%/*}/../lib.sh"

weights() { sha256sum <"$(find "$(newest_run "$1")" -name model.safetensors | sort | head -n 1)"; }
summary() { # NAME KEY
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' \
        "$(newest_run "$1")/output/summary.json" "$2"
}
train() { # NAME FOLDER ARGUMENT…
    run timeout -k 5 120 dtctl train --name "$1" --input "data=$2:sharded" \
        --set train.model=mlp --set train.hidden=32 --set train.threads=1 --set train.batch=16 \
        --set train.epochs=2 "${@:3}"
}
run dtctl up --nodes 3
is "$status" 0 'three nodes are up'
dtctl data make-shapes shapes --images 1500 --test-images 400 -q >/dev/null ||
    bail_out 'no images'
dtctl data pack shapes packed --shard-size 1M -q >/dev/null || bail_out 'no shards'
shards=$(find packed/train -name '*.tar' | wc -l)
ok 'the shards do not go evenly into three' [ $((shards % 3)) -ne 0 ]

# ---- shards of different length -----------------------------------------------------------------
train even packed --set inputs.data.shard=count
is "$status" 0 'nodes with different numbers of images train together' || diag "$err"
like "$out" 'data webdataset, 1500 training and 400 test images' 'the counts are of all nodes'
share='every node has a share of its own: ([0-9]+) to ([0-9]+) training images, '
share+='of which each rank takes ([0-9]+)'
like "$out" "$share" 'the trainer prints how the shares differ'
[[ $out =~ $share ]]
ok 'the shares differ' [ "${BASH_REMATCH[1]}" -lt "${BASH_REMATCH[2]}" ]
is "${BASH_REMATCH[3]}" "${BASH_REMATCH[2]}" 'a rank takes as many as the largest share has'
is "$(summary even train_images):$(summary even test_images)" 1500:400 'the summary has all images'
each=${BASH_REMATCH[2]}
is "$(summary even steps)" $((2 * ((each + 15) / 16))) 'an epoch has the steps of the largest share'
train drop packed --set inputs.data.shard=count --set train.drop_last=true
[[ $out =~ $share ]]
is "$status:${BASH_REMATCH[3]}" "0:${BASH_REMATCH[1]}" \
    'with train.drop_last a rank takes as many as the smallest share has'
train one packed --set inputs.data.shard=count --set train.epochs=1
train two packed --resume one --set inputs.data.shard=count
like "$out$err" 'resum' 'a run of one epoch is resumed'
is "$status $(weights two)" "0 $(weights even)" 'the weights are those of a run without a break' ||
    diag "$err"
train three packed --resume one --set inputs.data.shard=count --set train.epochs=3 --nodes 2
is "$status" 0 'two nodes, with other shares, resume it' || diag "$err"
train local packed --set inputs.data.shard=count --nproc-per-node 2
[[ $out =~ $share ]]
is "$status:${BASH_REMATCH[3]}" "0:$(((${BASH_REMATCH[2]:-0} + 1) / 2))" \
    'ranks of one node share out what the node has'

# ---- classes that not all nodes have ------------------------------------------------------------
train classes shapes --set inputs.data.shard=key --set train.epochs=6
is "$status" 0 'nodes with different classes train together' || diag "$err"
classes=$(find shapes/train -mindepth 1 -maxdepth 1 | wc -l)
like "$out" "parameters, $classes classes" 'the model has the classes of all nodes'
top1=$(summary classes final_acc1)
ok "ids mean the same everywhere: $top1 % of the test images are right" \
    awk -v top1="$top1" -v classes="$classes" 'BEGIN { exit !(top1 > 300 / classes) }'

# ---- test images on one node --------------------------------------------------------------------
mkdir -p single/val && cp -r packed/train single/ && cat >merge.py <<'E2'
import io, glob, tarfile
with tarfile.open("single/val/000000.tar", "w") as out:
    for path in sorted(glob.glob("packed/val/*.tar")):
        with tarfile.open(path) as t:
            for m in t:
                out.addfile(m, t.extractfile(m))
E2
python3 merge.py
cp packed/val/classes.txt single/val/ 2>/dev/null
rm -f single/*/shards.dtindex
train single single --set inputs.data.shard=count
is "$status" 0 'nodes without a test image take part' || diag "$err"
is "$(summary single test_images)" 400 'all test images are evaluated'
train val single --input val=packed --set train.val=val --set inputs.data.shard=count
is "$status:$(summary val test_images)" 0:400 'evaluation data of its own is on every node' ||
    diag "$err"

# ---- a program of one's own ---------------------------------------------------------------------
# shellcheck disable=SC2016 # the workers' shell expands it
run dtctl train --input data=packed:sharded --input all=shapes -- \
    sh -c 'echo "$DTCTL_INPUT_DATA_MODE $DTCTL_INPUT_ALL_MODE"'
is "$(grep -c 'sharded replicated' <<<"$out")" 3 'a variable has the mode of each input'

# ---- what cannot be -----------------------------------------------------------------------------
mkdir -p few/train few/val
cp packed/train/00000[01].tar few/train/ && cp single/val/*.tar few/val/
train few few --set inputs.data.shard=key
is "$status" 1 'a node without training images ends the run'
like "$err" 'the share of node 2 has 0 training images for 1 ranks' 'the error names the node'
train pipe packed --set train.pipeline=3
is "$status" 1 'a pipeline over shares ends the run'
like "$err" 'stages of a pipeline read the same images' 'the error says why'
run dtctl down -y --force
is "$status" 0 'down removes the nodes'
done_testing
