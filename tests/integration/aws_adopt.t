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
unlike "$err" 'record' 'nothing to say of records'
# shellcheck disable=SC2016 # for the nodes
run cloud_run dtctl train --detach --name long --metric 'step=step ([0-9]+)' -- sh -c '
    echo begun $RANK; until [ -e /tmp/go ]; do sleep 0.1; done
    echo result $RANK >"$DTCTL_OUTPUT_DIR/r$RANK"; echo ended $RANK'
is "$status" 0 'a run goes on by itself' || cloud_diag
id=$(tail -n 1 <<<"$out")
run cloud_run dtctl extend --shorten 5h
is "$status" 0 'extend' || cloud_diag
lease=$(cat .dtctl/lost/terraform/lease)
address=$(sed -n 's/^host = "\(.*\)"/\1/p' .dtctl/lost/cluster.toml | tail -n 1)
login=$(sed -n 's/^user = "\(.*\)"/\1/p' .dtctl/lost/cluster.toml | head -n 1)@$address
home=$(cloud_on node1 sh -c "getent passwd ${login%@*} | cut -d: -f6")

# ---- files on the nodes --------------------------------------------------------------------------
for node in node0 node1; do
    record=$(cloud_on $node cat "$home/.dtctl/record")
    like "$record" '^dtctl-record-1 cluster [A-Za-z0-9+/=]{1000,}$' "$node has a record"
    modes=$(cloud_on $node stat -c %a "$home/.dtctl/record" "$home/.dtctl/runs/$id/record")
    is "$(xargs <<<"$modes")" '600 600' "$node: it, and that of the run, are its login's alone"
done
unlike "$(base64 -d <<<"${record##* }" | strings)" 'PRIVATE|instance|terraform|cluster' \
    'and say nothing to who has no key'

# ---- the folder is lost -------------------------------------------------------------------------
cp .dtctl/lost/id_ed25519 ../key
cp dtctl.toml ../
cd .. || exit 1
rm -r first
mkdir second
mv dtctl.toml second/
cd second || exit 1
run cloud_run dtctl adopt "$login"
is "$status" 2 'adopt without a key'
like "$err" '--key FILE' 'asks for it'
ssh-keygen -q -t ed25519 -N '' -f ../stranger
run cloud_run dtctl adopt "$login" --key ../stranger
is "$status" 1 'with another key'
like "$err" "$address.*(refused|denied|publickey|accepted)" 'the node does not let it in' ||
    diag "$err"
run cloud_run dtctl adopt "$login" --key ../key -c found
is "$status" 2 'under another name'
like "$err" "it is of cluster 'lost', not 'found'; say -c lost" 'is told which one it is'
cloud_on node1 cp -p "$home/.dtctl/record" "$home/kept"
cloud_on node1 sed -i 's/.\{4\}$/AAAA/' "$home/.dtctl/record"
run cloud_run dtctl adopt "$login" --key ../key
is "$status" 1 'a record that was changed'
like "$err" "node $address cannot be opened with '../key'.*changed" 'is not believed' || cloud_diag
cloud_on node1 rm "$home/.dtctl/record"
run cloud_run dtctl adopt "$login" --key ../key
is "$status" 1 'no record'
like "$err" "$address has no record of a cluster" 'is said so'
cloud_on node1 mv "$home/kept" "$home/.dtctl/record"
is "$(find .dtctl -type f ! -name lock ! -name .gitignore)" '' 'nothing was written by all that'

# ---- adopted ------------------------------------------------------------------------------------
run cloud_run dtctl adopt "$login" --key ../key
is "$status" 0 'adopt' || cloud_diag
like "$err" 'cluster lost is this folder.s now: 2 nodes, 1 run; next: dtctl ps' 'says what there is'
is "$(find .dtctl -type f -perm /077 ! -name .gitignore)" '' 'its files are the operator'\''s alone'
run cloud_run dtctl adopt "$login" --key ../key
is "$status" 1 'a second time'
like "$err" "known in this folder already" 'is refused'
run cloud_run dtctl ps
like "$out" "$id +running +2 +2" 'the run is known, and goes on' || cloud_diag
cloud_on node0 touch /tmp/go
cloud_on node1 touch /tmp/go
run cloud_run timeout 60 dtctl logs -f "$id"
is "$status" 0 'its logs are followed' || cloud_diag
is "$(grep -cE '(begun|ended) [01]' <<<"$out")" 4 'from their beginning to the end'
run cloud_run dtctl fetch "$id"
is "$status" 0 'fetch' || cloud_diag
is "$(cat .dtctl/lost/runs/"$id"/output/r[01] | xargs)" 'result 0 result 1' 'brings what both wrote'
run cloud_run dtctl plan
unlike "$out" 'create|delete|replace' 'a plan has tags at most to change, for the new lease'
run cloud_run dtctl status
like "$out" 'lease: ends in [45]:[0-9]+:[0-9]+;' 'and so does the lease' || cloud_diag
is "$(cat .dtctl/lost/terraform/lease)" "$lease" 'as it was moved where it was made'
run cloud_run dtctl up -y
is "$status" 0 'up again' || cloud_diag
run cloud_run dtctl plan
like "$out" 'nothing to change' 'and then it fits what is there' || cloud_diag
run cloud_run dtctl train --name short -- true
is "$status" 0 'a run from here' || cloud_diag
cloud_down
done_testing
