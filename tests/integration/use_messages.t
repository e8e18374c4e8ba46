#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Messages of dtctl for mistakes of a first-time user.
source "${0%/*}/../lib.sh"

# ---- failures in a row ---------------------------------------------------------------------------
run dtctl train --nodes 1 --max-restarts 5 -- false
is "$status" 1 'a command that fails at once is reported'
like "$out" 'not started again: crash loop: 3 times in a row within 5 s; .*crash_loop=0' \
    'a command that fails at once is not restarted for ever, and dtctl says so'
like "$out" '2 more failures came after it' 'dtctl counts the failures'
run dtctl train --nodes 1 --max-restarts 3 --rdzv-conf crash_loop=0 -- false
like "$out" '3 restarts' 'crash_loop=0 uses up all restarts'
unlike "$out" 'crash loop' 'crash_loop=0 prints nothing of a crash loop'
run dtctl train --rdzv-conf crash_loop=often -- true
is "$status" 2 'a count that is no number is refused here'
like "$err" "crash_loop: 'often' is not a number of failures" 'the error has the reason'

# ---- keys of another provider --------------------------------------------------------------------
printf '[lease]\nttl = "40d"\n' >dtctl.toml
run dtctl up
is "$status" 0 'a lease with provider local stops nothing'
like "$err" 'dtctl.toml:2:7: lease.ttl has no effect: it is for provider aws, and this is local' \
    'dtctl warns with the place in the file'
run dtctl config check
like "$err" 'lease.ttl has no effect' 'config check warns, too'
printf '[lease]\nttl = "400d"\n' >dtctl.toml
run dtctl up
is "$status" 2 'a lease above the limit is refused with any provider'
like "$err" 'dtctl.toml:2:7: lease.ttl: 400d is above the maximum 365d' \
    'the error has the limit and the place'
cat >dtctl.toml <<EOF
[cluster]
provider = "hosts"
nodes = 3
[hosts]
list = ["a"]
[aws]
region = "eu-west-1"
EOF
run dtctl plan
like "$err" 'dtctl.toml:3:9: cluster.nodes has no effect: it is for provider local and aws, and' \
    'a number of nodes beside a list of hosts is refused'
like "$err" 'and 1 more such key\)' 'one line names all such keys'
run dtctl plan --provider local
unlike "$err" 'no effect' 'a provider that a flag chooses may find the tables of others'
run dtctl plan --provider local --ttl 3h
like "$err" '--ttl: lease.ttl has no effect' 'flags of other providers have a warning'
rm dtctl.toml
run dtctl plan
unlike "$err" 'no effect' 'default values have no warning'

# ---- one sentence each ---------------------------------------------------------------------------
# says STATUS REGEX COMMAND…: the status, and what its last line has.
says() {
    local want=$1 words=$2
    shift 2
    run "$@"
    like "$status $(tail -n 1 <<<"$err")" "^$want .*$words" "${*@Q}"
}
printf '[cluster]\nname = ""\n' >dtctl.toml
says 2 'dtctl.toml:2:8: cluster.name: the name of a cluster is not empty' dtctl status
rm dtctl.toml
mkdir data
says 2 "--input: input 'x': '/dev/zero' is neither a file nor a folder" \
    dtctl train --input x=/dev/zero -- true
says 2 "--input: input 'x': .*':sharted' is no mode \(did you mean 'sharded'\?\)" \
    dtctl train --input x=data:sharted -- true
says 2 "--name: 'a b' is not a valid name: use letters" dtctl train --name 'a b' -- true
says 2 'choose bash, zsh or fish' dtctl completion csh
says 2 "'\[' without '\]'" dtctl up --provider hosts --host '[::1'
says 2 'error: hosts.list is empty: name your hosts there .*--host' \
    dtctl up -c none --provider hosts
ok 'a refused command makes no folder' test ! -e .dtctl/none
says 2 "behind '--' \(try: dtctl train -- python3 'a b.py'\)" dtctl train python3 'a b.py'
says 2 "behind '--' \(try: dtctl ssh node0 -- hostname\)" dtctl ssh node0 hostname
run dtctl data inspect absent
is "$err" "dtctl: error: data set 'absent' does not exist; the built-in one is called shapes" \
    'a data set that is not there has one line'
for verb in stop logs fetch report path status; do
    says 2 "argument 1 of '$verb' is empty \(is a variable not set\?\)" dtctl "$verb" ''
done
while read -r word ours; do
    says 2 "no command '$word' \(did you mean '$ours'\?\)" dtctl "$word"
done <<EOF
launch train
attach logs -f
list ps
cancel stop
destroy down
cp push
get fetch
lgs logs
EOF
says 2 '--gpus: unknown flag \(did you mean .--nproc-per-node.\?\)' dtctl train --gpus 8
says 2 'after --: the name of the program is empty \(is a variable not set\?\)' dtctl train -- ''
for words in '--env A=x -- true' '-- echo x' '--shell x' '--hp a=x -- true' '--output x -- true'; do
    # shellcheck disable=SC2086 # words
    says 2 "'.*\\\\xff' is not UTF-8, as records of runs are" dtctl train ${words//x/$'x\xff'}
done
mkdir $'dir\xff'
cd $'dir\xff' || exit 1
says 2 "the path of this folder is not UTF-8: '.*dir\\\\xff/.dtctl/default' \(try: rename" \
    dtctl train -- true
cd .. || exit 1
is "$(echo dir*/.dtctl)" 'dir*/.dtctl' 'a refused folder gets no file'
run dtctl --version
is "$status $out" "0 $(dtctl version)" '--version prints the version'
run dtctl train --dry-run --nproc_per_node=2 -- true
like "$status $err" '^0 .*2 processes each' "torchrun's spelling of a flag is taken"
run dtctl -c fresh ps
is "$err" 'no runs yet (try: dtctl train)' 'ps says that nothing ever ran'
run dtctl train --nodes 1 --max-restarts 0 -- /no/such/program
like "$out$err" "cannot start '/no/such/program': No such file or directory" \
    'a program that is not there is named once'
run dtctl train -d --nodes 1 -- true
like "$err" 'has started on 1 node[^s]' 'one node is counted in the singular'
dtctl fetch >fetch.log 2>&1 || diag "$(cat fetch.log)"
run dtctl ps -a
like "$out" 'RUNNING .*true-[^ ]* +finished +1 +- ' 'ps counts no ranks of a run that is over'

# ---- commands that do not do what was meant ------------------------------------------------------
touch here.py
run dtctl train --dry-run -- torchrun --nproc-per-node 2 here.py
like "$status $err" '^0 .*every rank starts a launcher.* launcher=torchrun' \
    'a launcher in a run of two nodes has a warning'
run dtctl train --dry-run --nodes 1 -- torchrun --nproc-per-node 2 here.py
unlike "$err" launcher= 'a launcher on one node has none'
run dtctl train --dry-run -- data/../here.py
like "$err" 'which is not sent path=data/../here.py try="--file data/../here.py -- here.py"' \
    'a program outside of the current folder has a warning with the next step'
run dtctl train --dry-run -- python3 absent.py
like "$err" 'not in the current folder path=absent.py' 'a program that is not there has one, too'
run dtctl train --dry-run -- here.py absent.py
unlike "$err" warning: 'a program of the current folder has none'

# ---- tasks ---------------------------------------------------------------------------------------
printf '[tasks.a]\nafter = ["b"]\n[tasks.b]\nafter = ["a"]\n' >tasks.toml
says 2 "tasks wait for each other: 'a' after 'b' after 'a'" dtctl -f tasks.toml config check
printf '[tasks.a.train]\nepochs = "x"\n[tasks.b]\ncommand = [""]\n' >tasks.toml
run dtctl -f tasks.toml config check
is "$status/$(grep -c "error: task '[ab]': " <<<"$err")" 2/2 \
    'config check finds wrong settings of all tasks'
done_testing
