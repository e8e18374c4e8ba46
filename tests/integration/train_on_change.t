#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# inputs.json of a run has its deal, and the next run of the task compares its own inputs with it.
source "${0%/*}/../lib.sh"
command -v python3 >/dev/null || skip_all 'there is no python3 here'

dtctl up --nodes 3 >made.log 2>&1 || diag "$(cat made.log)"
mkdir set one && echo x >one/file
for i in 1 2 3 4 5 6 7; do head -c $((i * 100)) /dev/zero >"set/part-$i"; done
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
first=$(newest_run job)
is "$(show "$first/inputs.json")" \
    'set set sharded 7 2800 64 node0:2:300 node1:2:700 node2:3:1800
one one replicated 1 2 64' 'inputs.json has source, size, digest and the part of each node'
digests() { grep -o '"bytes":[0-9]*,"digest":"[0-9a-f]*"' "$1/inputs.json" | sed -n '2,4p'; }
is "$(digests "$first" | sort -u | wc -l)" 3 'each node has the digest of its files'
train
is "$(digests "$(newest_run job)")" "$(digests "$first")" 'the same deal has the same digests'
unlike "$status$err" '^[1-9]|changed since' 'the same input has not changed'
train --set inputs.set.on_change=refuse
is "$status" 0 'on_change = refuse starts a run with the same input'

echo more >>set/part-3
last=$(newest_id job)
train --set inputs.set.on_change=refuse
like "$status $err" \
    "^2 .*input 'set': '.*set' is not what run '$last' had, and on_change = refuse" \
    'on_change = refuse names the changed input and the run'
is "$(newest_id job)" "$last" 'no run is made'
run dtctl train --dry-run --name job --input set=set -- true
like "$status $err" "^0 .*changed since run $last" 'the plan has the run that had other content'
train
is "$status" 0 'on_change = resend starts the run'
is "$(diff <(digests "$first") <(digests "$(newest_run job)") | grep -c '^>')" 1 \
    'the digest of one node is another one'
train --set inputs.set.on_change=refuse
is "$status" 0 'the run after it has nothing that changed'
run dtctl train --name other --input set=set --set inputs.set.on_change=refuse -- true
is "$status" 0 'another task has its own inputs'
train --set inputs.set.on_change=leave
like "$status $err" "^2 .*'leave'.* none of|^2 .*on_change.*leave" 'a word that is none is refused'

# ---- keep ---------------------------------------------------------------------------------------
keep() { # ARGUMENTS…: every rank writes the sums of its files
    # shellcheck disable=SC2016 # ranks expand their variables
    run dtctl train --name kept "$@" -- \
        sh -c 'cd $DTCTL_INPUT_SET && sha256sum * >$DTCTL_OUTPUT_DIR/$RANK'
}
sums() { cat "$(newest_run kept)"/output/[0-9]; }
sent() { sed -n 's/.* push [0-9.]* [a-z]* (\([^)]*\)).*/\1/p' <<<"$out$err"; }
always=(--set inputs.set.on_change=keep)
keep --input set=set
old=$(sums) base=$(newest_id kept)
echo change >>set/part-2 && rm set/part-5 && echo other >set/part-9
keep --input set=set "${always[@]}"
is "$status" 0 'on_change = keep starts a run' || diag "$err"
like "$err" "kept as run $base had it; the source has changed" 'the plan has the run'
is "$(sums)" "$old" 'the nodes have the content that the task had before'
is "$(sent)" '0 B' 'nothing is sent'
keep --input set=set "${always[@]}"
is "$(sums)" "$old" 'the run after it has the same content'
like "$(cat "$(newest_run kept)/inputs.json")" '"kept_from":"kept-' 'inputs.json has the run'
rm -rf .dtctl/default/nodes/node1/inputs .dtctl/default/nodes/node1/cas/[0-9a-f]*
keep --input set=set "${always[@]}"
is "$(sums)" "$old" 'a node without the folder has it from its store'
keep --input set=set:sharded --nodes 2 "${always[@]}"
is "$(sums | sort)" "$(head -n 7 <<<"$old" | sort)" 'a node takes its new share from its store'
rm -rf .dtctl/default/nodes/node1/{inputs,cas}
keep --input set=set "${always[@]}"
like "$status $err" "^3 .*'node1': input 'set' is kept as run 'kept-.*, and 2 of its files are \
neither on this node nor here, 'part-2' the first \(try: --set inputs.set.on_change=resend\)" \
    'a node that lacks files which are not here any more fails, by name'
mv set moved
keep --input set=moved "${always[@]}"
is "$status" 0 'another source' || diag "$err"
is "$(sums | sort -u | wc -l)" 7 'another source is no change of the source: it is sent'
keep --input set=one/file
cp one/file here && keep --input set=here "${always[@]}" && echo more >>here
# shellcheck disable=SC2016
run dtctl train --name kept --input set=here "${always[@]}" -- sh -c 'grep -c . $DTCTL_INPUT_SET'
like "$out" ':0\] 1' 'a file that has changed is kept'
rm here && mkdir here && echo x >here/x
keep --input set=here "${always[@]}"
like "$status $err" "^2 .*'here' is a folder now and was a file in run" 'a folder is no file'
keep --input set=moved "${always[@]}" --set inputs.set.deliver=stream
like "$status $err" '^2 .*on_change = keep .*deliver = stream' 'streamed inputs cannot be kept'
keep --input set=moved "${always[@]}"
echo damage >"$(newest_run kept)/inputs/set" && echo again >moved/part-9
keep --input set=moved "${always[@]}"
like "$status $err" "^[1-9] .*inputs/set.*the list of a generation" 'a damaged list is named'
done_testing
