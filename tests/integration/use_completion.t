#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Completion of runs, nodes and clusters, in every shell, from what is on record.
source "${0%/*}/../lib.sh"

run dtctl completion runs
is "$status:$out$err" 0: 'without a cluster, nothing is offered'
{
    dtctl up
    dtctl up -c other --nodes 3
    dtctl train --name quick -- true
} >made.log 2>&1 || diag "$(cat made.log)"
name=$(basename .dtctl/default/runs/quick-*)

run dtctl completion runs
is "$out" "$name" "the completion offers the run's name"
run dtctl completion nodes
is "$out" $'node0\nnode1' 'nodes are listed'
run dtctl completion clusters
is "$out" $'default\nother' 'clusters are listed'
run dtctl completion nodes -- exec -c other -w
is "$out" $'node0\nnode1\nnode2' 'the cluster is that of the line, as far as it is typed'
run env DTCTL_CLUSTER=other dtctl completion runs
is "$status:$out" 0: 'the cluster of the environment is used'
run dtctl completion nodes -- -f none/dtctl.toml ssh
is "$status:$err" 0: 'a file that is not there is no error'
echo '[hosts' >broken.toml
run dtctl completion nodes -- -f broken.toml --no-such-flag ssh
is "$status:$out:$err" $'0:node0\nnode1:' 'a broken file or a wrong flag is no error'
# shellcheck disable=SC2016 # the names are meant as they are
mkdir '.dtctl/default/runs/$(touch hit)' '.dtctl/default/runs/;touch hit'
run dtctl completion runs
is "$out" "$name" 'a folder whose name is no name is not offered'
chmod 000 .dtctl/other/cluster.toml
if [ "$(id -u)" != 0 ]; then
    run dtctl completion nodes -- -c other ssh
    is "$status:$out$err" 0: 'an unreadable folder offers nothing'
else
    skip 1 'root reads everything'
fi
chmod 600 .dtctl/other/cluster.toml

# Bash hands over the line in words; it cuts at '='.
cat >complete.sh <<'EOF'
source <(dtctl completion bash)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_dtctl
printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | paste -sd /
EOF
mkdir 'a b' ac
while IFS='|' read -r line want; do
    eval "run bash complete.sh $line"
    is "$out$err" "$want" "bash completes: $line"
done <<EOF
dtctl logs qu|$name
dtctl fetch qu|$name
dtctl stop qu|$name
dtctl ssh n|node0/node1
dtctl status n|node0/node1
dtctl push -w ''|node0/node1
dtctl exec -c other --node ''|node0/node1/node2
dtctl --cluster = o|other
dtctl --cluster = other ssh n|node0/node1/node2
dtctl -c ''|default/other
dtctl -c up stop --gr|--grace
dtctl --cluster = up stop --gr|--grace
dtctl -f a|a b/ac
dtctl train --resume ''|auto/never/$name
EOF

if command -v fish >/dev/null; then
    run fish -c 'source (dtctl completion fish | psub)
        complete -C "dtctl stop q"; complete -C "dtctl exec -c other -w "
        complete -C "dtctl --cluster="'
    is "$(cut -f 1 <<<"$out" | paste -sd ' ')" \
        "$name node0 node1 node2 --cluster=default --cluster=other" \
    'fish completes nodes and clusters'
else
    skip 1 'fish is not installed'
fi
if command -v zsh >/dev/null && command -v python3 >/dev/null; then
    mkdir zsh site
    dtctl completion zsh >site/_dtctl
    cat >zsh/.zshrc <<EOF
fpath=($WORK/site \$fpath)
autoload -Uz compinit
compinit -u -d $WORK/zsh/dump
PS1='ready> '
EOF
    for line in 'logs ' 'exec -c other -w n'; do
        run env ZDOTDIR="$WORK/zsh" "$SRC/tests/tools/answer.py" 60 \
            'ready> ' "dtctl $line\\t\\t\\x15exit\\n" -- zsh -i
        case $line in
        logs*) like "$out" "$name" "zsh: dtctl $line, with the first key" ;;
        exec*) like "$out" 'node0 +node1 +node2' "zsh: dtctl $line" ;;
        esac
    done
else
    skip 2 'zsh or python3 is not installed'
fi
ok 'nothing was called by a name' test ! -e hit
done_testing
