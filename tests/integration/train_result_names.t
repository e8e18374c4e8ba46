#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Names in the output of a run that are dtctl's own in the results, or that the layout gives to
# files of other nodes; leftovers of a killed fetch; a results folder with files of the user.
# shellcheck disable=SC2016,SC2012,SC2119,SC2120 # the workers' shell expands; plain names; defaults
source "${0%/*}/../lib.sh"

dtctl up --nodes 2 >made.log 2>&1 || bail_out "no cluster: $(cat made.log)"
train() { # FLAGS… SHELL: a run; sets dir and o
    run dtctl train --resume never "${@:1:$#-1}" -- sh -c "cd \$DTCTL_OUTPUT_DIR; ${*: -1}"
    dir=$(ls -d .dtctl/default/runs/* -t | head -n 1)
    o=$dir/output
}
files() { (cd "${1:-$o}" && find . -type f ! -name .dtctl-run | LC_ALL=C sort | paste -sd' '); }
at() { (cd "$o" && cat "$@" | paste -sd' '); }

# ---- names of dtctl's own -----------------------------------------------------------------------
train 'echo file >model; echo file >state; mkdir work; echo f >work/new; echo own >.dtctl-run
    echo part >.dtctl-part; echo m >$DTCTL_MODEL_DIR/m; echo $RANK >$DTCTL_STATE_DIR/x'
is "$status" 0 'output files with names of dtctl come' || diag "$err"
is "$(files)" './.dtctl-part ./.dtctl-run_ ./model/m ./model_ ./state/node0/x ./state/node1/x '`
    `'./state_ ./work_/new' 'they have an underscore more, and the model and state have their place'
like "$err" "node node1: '.*' of its output is a name of dtctl's own" 'a note says so'
is "$(dtctl path)/.dtctl-run_" "$(realpath "$o")/.dtctl-run_" 'path knows the results'
is "$(dtctl fetch | grep -c 'are here')" 1 'fetch knows them, too'

train --set outputs.work=true 'mkdir model state work; echo o >model/m; echo o >state/evil
    echo o >work/new; mkdir .dtctl-run model_; echo m >$DTCTL_MODEL_DIR/m; echo w >$OLDPWD/new
    echo it >>$DTCTL_STATE_DIR/ck; echo u >model_/m'
is "$status" 0 'output folders with names of dtctl come' || diag "$err"
is "$(files)" './model/m ./model_/m ./model__/m ./state/node0/ck ./state/node1/ck '`
    `'./state_/evil ./work/new ./work_/new' 'each name keeps its own folder'
is "$(at model/m model_/m model__/m work/new work_/new)" 'm o u w o' 'each folder has its content'

train --merge by-node 'echo file >model; echo m >$DTCTL_MODEL_DIR/m'
is "$status:$(files)" '0:./node0/model/m ./node0/model_ ./node1/model/m ./node1/model_' \
    'by-node has the same names'
train --merge rank0 --fetch logs 'echo $RANK >model; echo m >$DTCTL_MODEL_DIR/m'
dtctl fetch --fetch model >/dev/null 2>&1
run dtctl fetch --fetch output
is "$status:$(files):$(at model_)" '0:./model/m ./model_:0' \
    'kinds can be fetched one by one, too' || diag "$err"

# ---- names of nodes -----------------------------------------------------------------------------
train 'if [ $RANK = 1 ]; then echo f >node0; fi; echo $RANK >differ'
is "$status" 0 'an output file with the name of another node comes' || diag "$err"
is "$(files)" './node0/differ ./node1/differ ./node1/node0' 'the file is apart'
is "$(at node0/differ node1/differ node1/node0)" '0 1 f' 'nothing is exchanged'
train 'mkdir q node0; if [ $RANK = 1 ]; then echo n >node0/n; mkdir node0/q; echo s >node0/q/n; fi
    echo $RANK >q/n'
is "$status" 0 'a folder with the name of another node comes' || diag "$err"
is "$(files)" './node0/n ./node0/q/n ./node1/node0/q/n ./node1/q/n' 'differing files are apart'
is "$(at node0/q/n node1/q/n node1/node0/q/n)" '0 1 s' 'a path below a node is of that node'
like "$out" 'apart .*node0/q/n' 'the last screen names a file that is there'
ok 'no empty folder stays' test ! -e "$o/q"

# ---- leftovers of a killed fetch ----------------------------------------------------------------
train --fetch logs 'echo $RANK >f; echo m >$DTCTL_MODEL_DIR/m'
mkdir -p "$dir/incoming/node0/"{.dtctl-part/tmp,output,whole/old}
touch "$dir/incoming/node0/"{.dtctl-part/tmp/abc.part,output/f,whole/old/f}
run dtctl fetch --fetch model
is "$status:$(files)" '0:./model/m' 'a fetch publishes what it has asked for alone' || diag "$err"
run dtctl fetch
is "$status:$(files)" '0:./model/m ./node0/f ./node1/f' 'the rest comes later' || diag "$err"

# ---- files of the user --------------------------------------------------------------------------
mkdir u1
echo precious | tee u1/f >u1/output.tar.zst
train --output u1 --set outputs.archive=tar.zst 'echo x >f'
is "$status" 0 'a run into a folder of the user succeeds' || diag "$err"
like "$err" "'u1' holds files that are no results" 'a note says where the results go'
is "$(cat u1/f u1/output.tar.zst | paste -sd' ')" 'precious precious' 'files of the user stay'
is "$(files "u1/${dir##*/}")" './f ./output.tar.zst' 'the results and their archive are in a folder'
is "$(dtctl path)" "$(realpath "u1/${dir##*/}")" 'path prints it'
for kinds in logs logs,output,model,state; do
    train --output "to-$kinds" --fetch "$kinds" 'echo x >f'
    rm -rf "to-$kinds"
    mkdir "to-$kinds"
    echo user >"to-$kinds/f"
    run dtctl fetch
    is "$status:$(cat "to-$kinds/f" "to-$kinds/${dir##*/}/f" | paste -sd' ')" '0:user x' \
        "fetch overwrites nothing (--fetch $kinds)"
done
done_testing
