#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The computer that brought a cluster up is gone in mid-run; what is left of it is a copy of the
# cluster's key. `dtctl adopt` makes the cluster another folder's: its run is followed and fetched,
# Terraform's state fits, and `down` leaves nothing.
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start "$@"

mkdir first
cd first || exit 1
cloud_config lost 'nodes = 2'
cloud_up
unlike "$err" 'record' 'there is nothing to say of records'
# shellcheck disable=SC2016 # for the nodes
run cloud_run dtctl train --detach --name long --metric 'step=step ([0-9]+)' -- sh -c '
    echo begun $RANK; until [ -e /tmp/go ]; do sleep 0.1; done
    echo result $RANK >"$DTCTL_OUTPUT_DIR/r$RANK"; echo ended $RANK'
is "$status" 0 'a run continues without dtctl' || cloud_diag
id=$(tail -n 1 <<<"$out")
run cloud_run dtctl extend --shorten 5h
is "$status" 0 'extend succeeds' || cloud_diag
lease=$(cat .dtctl/lost/terraform/lease)
address=$(sed -n 's/^host = "\(.*\)"/\1/p' .dtctl/lost/cluster.toml | tail -n 1)
login=$(sed -n 's/^user = "\(.*\)"/\1/p' .dtctl/lost/cluster.toml | head -n 1)@$address
home=$(cloud_on node1 sh -c "getent passwd ${login%@*} | cut -d: -f6")

# ---- files on the nodes --------------------------------------------------------------------------
for node in node0 node1; do
    record=$(cloud_on $node cat "$home/.dtctl/record")
    like "$record" '^dtctl-record-1 cluster [A-Za-z0-9+/=]{1000,}$' "$node has a record"
    modes=$(cloud_on $node stat -c %a "$home/.dtctl/record" "$home/.dtctl/runs/$id/record")
    is "$(xargs <<<"$modes")" '600 600' \
        "$node: the records of the cluster and of the run are readable by the login alone"
done
record=$(cut -d ' ' -f 4 <<<"$record" | base64 -d | strings)
unlike "$record" 'PRIVATE|instance|terraform|cluster' \
    "$node: the record is unreadable without the key"

# ---- the folder is lost -------------------------------------------------------------------------
cp .dtctl/lost/id_ed25519 ../key
cp dtctl.toml ../
cd .. || exit 1
rm -r first
mkdir second
mv dtctl.toml second/
cd second || exit 1
run cloud_run dtctl adopt "$login"
is "$status" 2 'adopt without a key is refused'
like "$err" '--key FILE' 'the error names --key'
ssh-keygen -q -t ed25519 -N '' -f ../stranger
run cloud_run dtctl adopt "$login" --key ../stranger
is "$status" 1 'adopt with another key fails'
like "$err" "$address.*(refused|denied|publickey|accepted)" 'the node does not let it in' ||
    diag "$err"
run cloud_run dtctl adopt "$login" --key ../key -c found
is "$status" 2 'adopt under another name is refused'
like "$err" "it is of cluster 'lost', not 'found'; say -c lost" \
    'adopt under another name names the cluster'
cloud_on node1 cp -p "$home/.dtctl/record" "$home/kept"
cloud_on node1 sed -i 's/.\{4\}$/AAAA/' "$home/.dtctl/record"
run cloud_run dtctl adopt "$login" --key ../key
is "$status" 1 'a record that was changed is refused'
like "$err" "node $address cannot be opened with '../key'.*changed" \
    'a record that was changed is refused' || cloud_diag
cloud_on node1 rm "$home/.dtctl/record"
run cloud_run dtctl adopt "$login" --key ../key
is "$status" 1 'adopt without a record fails'
like "$err" "$address has no record of a cluster" 'a node without a record is named'
cloud_on node1 mv "$home/kept" "$home/.dtctl/record"
is "$(find .dtctl -type f ! -name lock ! -name .gitignore)" '' 'nothing was written by all that'

# ---- adopted ------------------------------------------------------------------------------------
run cloud_run dtctl adopt "$login" --key ../key
is "$status" 0 'adopt succeeds' || cloud_diag
like "$err" 'cluster lost is this folder.s now: 2 nodes, 1 run; next: dtctl ps' \
    'adopt names the nodes and the runs'
is "$(find .dtctl -type f -perm /077 ! -name .gitignore)" '' \
    'the adopted files are readable by the operator alone'
rm -r .dtctl/lost/runs/"$id"
run cloud_run dtctl adopt "$login" --key ../stranger
is "$status" 1 'a second adopt with another key is refused'
like "$err" "known in this folder already" 'a second adopt with another key is refused'
run cloud_run dtctl adopt "$login" --key ../key
is "$status" 0 'a second adopt succeeds' || cloud_diag
like "$err" 'cluster lost is this folder.s already: 2 nodes, 1 more run; next: dtctl ps' \
    'a second adopt brings a run that was not here'
run cloud_run dtctl adopt "$login" --key ../key
like "$err" 'already: 2 nodes, 0 more runs;' 'a third adopt finds nothing more' || cloud_diag
run cloud_run dtctl ps
like "$out" "$id +running +2 +2" 'ps shows the adopted run as running' || cloud_diag
cloud_on node0 touch /tmp/go
cloud_on node1 touch /tmp/go
run cloud_run timeout 60 dtctl logs -f "$id"
is "$status" 0 'the logs of the adopted run are followed' || cloud_diag
is "$(grep -cE '(begun|ended) [01]' <<<"$out")" 4 'the logs are complete from the start to the end'
run cloud_run dtctl fetch "$id"
is "$status" 0 'fetch succeeds' || cloud_diag
is "$(cat .dtctl/lost/runs/"$id"/output/r[01] | xargs)" 'result 0 result 1' \
    'fetch brings the files of both nodes'
run cloud_run dtctl plan
unlike "$out" 'create|delete|replace' 'a plan has tags at most to change, for the new lease'
run cloud_run dtctl status
like "$out" 'lease: ends in [45]:[0-9]+:[0-9]+;' 'the plan shows the lease' || cloud_diag
is "$(cat .dtctl/lost/terraform/lease)" "$lease" \
    'the lease is the one that was set before the adoption'
run cloud_run dtctl up -y
is "$status" 0 'up after the adoption' || cloud_diag
run cloud_run dtctl plan
like "$out" 'nothing to change' 'a plan after up changes nothing' || cloud_diag
run cloud_run dtctl train --name short -- true
is "$status" 0 'a run from here succeeds' || cloud_diag
cloud_down
done_testing
