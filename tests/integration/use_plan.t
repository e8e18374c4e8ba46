#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train --dry-run: what would go where, and nothing is sent.
# shellcheck disable=SC2016 # workers expand their own variables
source "${0%/*}/../lib.sh"
command -v python3 >/dev/null || skip_all 'there is no python3 here'

dtctl up --nodes 3 >made.log 2>&1 || diag "$(cat made.log)"
mkdir -p set/sub one && echo x >one/file
for i in $(seq 20); do head -c $((i * 1000)) /dev/zero >"set/sub/part-$i"; done

run dtctl train --dry-run --input set=set:sharded --input one=one -- true
is "$status:$out" 0: 'train --dry-run with a sharded input'
like "$err" 'input    set: 20 files, 210 kB, a share to every node' \
    'plan shows the number of files and their size'
is "$(grep -c '^ *node[0-2]: [67] files, .* kB: sub/part-.*, and [23] more$' <<<"$err")" 3 \
    'plan shows the files of each node'
like "$err" 'input    one: 1 file, 2 B, all to every node' 'an input that all get has no deal'
ok 'nothing was sent' test ! -e .dtctl/default/nodes/node0/inputs
run dtctl train --json --dry-run --input set=set:sharded -- true
is "$(python3 -c '
import json, sys
plan = json.loads(sys.stdin.readline())["inputs"][0]["shares"]
print([s["node"] for s in plan], sum(s["files"] for s in plan), sum(s["bytes"] for s in plan))
' <<<"$out")" "['node0', 'node1', 'node2'] 20 210000" 'JSON has every node with its files and bytes'
deal=$(python3 -c '
import json, sys
print(*[s["files"] for s in json.loads(sys.stdin.readline())["inputs"][0]["shares"]])' <<<"$out")
run dtctl train --input set=set:sharded -- sh -c \
    'find $DTCTL_INPUT_SET -type f | wc -l >$DTCTL_OUTPUT_DIR/got-$RANK'
is "$(cat .dtctl/default/runs/sh-*/output/got-[0-2] | paste -sd ' ')" "$deal" \
    'the run deals out the files as planned'
unlike "$err" '^           node0: ' 'the run does not print them again'

run dtctl train --dry-run --set train.recipe=imagenet-resnet --set train.epochs=2
is "$status" 0 'train --dry-run of a recipe'
like "$err" 'setting  train\.lr = 0\.1 \(recipe imagenet-resnet\)' \
    'plan shows the options that the recipe sets'
like "$err" 'setting  train\.epochs = 2 \(--set train\.epochs\)' \
    'plan shows the options that override the recipe'
unlike "$err" 'setting  train\.seed' 'plan does not show default values'
done_testing
