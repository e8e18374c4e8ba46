#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Options of `up` from flags or variables hold for later commands, until `down` or another value;
# and the discoveries of `init`.
source "${0%/*}/../lib.sh"

printf '[cluster]\nnodes = 2\n' >dtctl.toml
kept=.dtctl/default/up.toml

run dtctl up --nodes 3
is "$status" 0 'up --nodes 3 succeeds' || diag "$err"
is "$(grep -v '^#' "$kept")" 'cluster.nodes = 3' 'the flag is kept'
run dtctl plan
like "$out" 'nothing to change' 'plan without it takes nothing away'
like "$err" 'cluster.nodes is 3.*dtctl.toml:2:[0-9]+ says 2 .*--nodes' \
    'plan warns that the file says 2'
run dtctl up
is "$status" 0 'up without the flag succeeds' || diag "$err"
like "$err" 'cluster.nodes is 3' 'up warns that the file says 2'
is "$(grep -c '\[\[node' .dtctl/default/cluster.toml)" 3 'three nodes are left'
run dtctl config show --given
like "$out" "nodes = 3 .*up.toml:2" 'config show names up.toml'
run env DTCTL_CLUSTER_NODES=2 dtctl plan
like "$out" '- node2' 'a variable goes before what is kept'
run dtctl up -y --nodes 2 --provider local
is "$status" 0 'up --nodes 2 succeeds' || diag "$err"
unlike "$err" 'says 2' 'equal settings give no warning'
is "$(grep -c '\[\[node' .dtctl/default/cluster.toml)" 2 'up --nodes 2 removes a node'
is "$(grep -v '^#' "$kept" | xargs)" 'cluster.provider = local cluster.nodes = 2' \
    'the new number is kept'
run dtctl up --provider hosts --host x
is "$status" 1 'another provider is refused'
like "$(cat "$kept")" '"local"' 'a refused provider is not kept'
run dtctl down
is "$status" 0 'down succeeds' || diag "$err"
ok 'forgets it' test ! -e "$kept"
echo 'cluster.nodes = "x"' >"$kept"
run dtctl plan
is "$status" 2 'a kept value that makes no sense is an error'
like "$err" 'up.toml:1:' 'the error has file and line'
rm "$kept"
rm -r .dtctl
run dtctl up --provider hosts --host root@127.0.0.1:1
is "$status" 3 'a cluster of which nothing answers is reported' || diag "$err"
is "$(find .dtctl -mindepth 1)" .dtctl/.gitignore 'a failed cluster leaves no folder'
mkdir -p .dtctl/default/runs
run dtctl up --provider hosts --host root@127.0.0.1:1
ok 'a folder that existed before stays' test -d .dtctl/default/runs

run dtctl up -c other --provider hosts --host root@127.0.0.1:1 --json
is "$status" 3 'another cluster with unreachable hosts fails'
ok 'a failed cluster keeps no files' \
    test ! -e .dtctl/other/up.toml -a ! -e .dtctl/other/cluster.toml

# ---- init ---------------------------------------------------------------------------------------
region_of() { # VARIABLE=VALUE…: the line of the file that init writes
    rm -f init.toml
    run env -u AWS_REGION -u AWS_DEFAULT_REGION -u AWS_PROFILE AWS_CONFIG_FILE="$WORK/config" "$@" \
        dtctl init -f init.toml --provider aws -y </dev/null
    [ "$status" = 0 ] || diag "$err"
    grep -E '^#?region = ' init.toml
}
is "$(region_of HOME="$WORK")" '#region = ""' 'init: no region is known'
printf '[default]\nregion = eu-north-1\n[profile lab]\nregion = eu-west-3\n' >config
is "$(region_of HOME="$WORK")" 'region = "eu-north-1"' \
    'init takes the region of the default profile'
is "$(region_of AWS_PROFILE=lab)" 'region = "eu-west-3"' 'init takes the region of AWS_PROFILE'
is "$(region_of AWS_DEFAULT_REGION=eu-west-1)" 'region = "eu-west-1"' \
    'init takes AWS_DEFAULT_REGION'
is "$(region_of AWS_REGION=eu-west-2)" 'region = "eu-west-2"' 'init takes AWS_REGION'
run dtctl config check -f init.toml
is "$status" 0 'the file is good'
done_testing
