#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# inputs.json of a run has its deal, and the next run of the task compares its own inputs with it.
source "${0%/*}/../lib.sh"
command -v python3 >/dev/null || skip_all 'there is no python3 here'

dtctl up --nodes 3 >made.log 2>&1 || diag "$(cat made.log)"
mkdir set one && echo x >one/file
for i in 1 2 3 4 5 6 7; do head -c $((i * 100)) /dev/zero >"set/part-$i"; done
newest() { find .dtctl/default/runs -maxdepth 1 -name "$1-*" | sort | tail -n 1; }
show() { # FILE: name, mode, files, bytes, digits of the digest, files of the nodes
    python3 -c '
import json, sys
for x in json.load(open(sys.argv[1]))["inputs"]:
    print(x["name"], x["source"][-3:], x["mode"], x["files"], x["bytes"], len(x["digest"]),
          *[":".join(map(str, [*s.values()][:3])) for s in x.get("shares", [])])' "$1"
}
train() { # ARGUMENTS…
    run dtctl train --name job --input set=set:sharded --set inputs.set.shard=key "$@" -- true
}

train --input one=one
is "$status" 0 'a run with two inputs' || diag "$err"
unlike "$err" 'changed since' 'the first run of a task has nothing to compare with'
first=$(newest job)
is "$(show "$first/inputs.json")" \
    'set set sharded 7 2800 64 node0:2:300 node1:2:700 node2:3:1800
one one replicated 1 2 64' 'inputs.json has source, size, digest and the part of each node'
digests() { grep -o '"bytes":[0-9]*,"digest":"[0-9a-f]*"' "$1/inputs.json" | sed -n '2,4p'; }
is "$(digests "$first" | sort -u | wc -l)" 3 'each node has the digest of its files'
train
is "$(digests "$(newest job)")" "$(digests "$first")" 'the same deal has the same digests'
unlike "$status$err" '^[1-9]|changed since' 'the same input has not changed'
train --set inputs.set.on_change=refuse
is "$status" 0 'on_change = refuse starts a run with the same input'

echo more >>set/part-3
last=$(basename "$(newest job)")
train --set inputs.set.on_change=refuse
like "$status $err" \
    "^2 .*input 'set': '.*set' is not what run '$last' had, and on_change = refuse" \
    'on_change = refuse names the changed input and the run'
is "$(basename "$(newest job)")" "$last" 'no run is made'
run dtctl train --dry-run --name job --input set=set -- true
like "$status $err" "^0 .*changed since run $last" 'the plan has the run that had other content'
train
is "$status" 0 'on_change = resend starts the run'
is "$(diff <(digests "$first") <(digests "$(newest job)") | grep -c '^>')" 1 \
    'the digest of one node is another one'
train --set inputs.set.on_change=refuse
is "$status" 0 'the run after it has nothing that changed'
run dtctl train --name other --input set=set --set inputs.set.on_change=refuse -- true
is "$status" 0 'another task has its own inputs'
train --set inputs.set.on_change=keep
like "$status $err" "^2 .*'keep' is none of|^2 .*on_change.*keep" 'a word that is none is refused'
done_testing
