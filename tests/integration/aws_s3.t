#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A cluster with its state in a bucket, and two operators with a folder each. The second one waits,
# continues with the nodes of the first one, and may take the cluster down. Leftovers of a killed
# command (instances, the lock) are found. An unusable bucket is reported in one sentence.
# shellcheck disable=SC2317,SC2119 # called by wait_for; without arguments
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start "$@"
bucket=team-state
key=gpu/both/terraform.tfstate
state='state = "s3://team-state/gpu"'

object() { # KEY: its text, or nothing
    cloud_s3 GET "$bucket/$1" 2>/dev/null
}
is_locked() { object "$key.tflock" | grep -q OperationTypeApply; }
is_free() { ! is_locked; }
running() { [ "$(cloud_instances | wc -l)" -eq "$1" ]; }
says() { grep -q "$2" "$1"; }
says_once() { # FILE REGEX DESCRIPTION: the error, and nothing of Terraform beside it
    like "$(cat "$1")" "$2" "$3" || diag "$(cat "$1")"
    is "$(grep -c '' "$1")" 1 'the error is one sentence' || diag "$(cat "$1")"
}

mkdir ann bob

# ---- buckets that cannot be used ----------------------------------------------------------------
cd ann || exit 1
cloud_config both 'nodes = 1' -- "$state" 'owner = "ann"'
cloud_run dtctl up -y >../up.out 2>../up.err
result $(($? == 2)) 'a missing bucket is a configuration error'
says_once ../up.err "aws\.state.*there is no bucket 'team-state'; make it" \
    'the error names the bucket'
cloud_s3 PUT $bucket >/dev/null
for action in GetObject PutObject; do
    cloud_fault deny action=$action
    cloud_run dtctl up -y >../up.out 2>../up.err
    result $(($? != 0)) "up without the right to $action in the bucket fails"
    says_once ../up.err "aws\.state.*'team-state' may not be used .[A-Za-z]+: s3:$action" \
        'the error has the refused action and the right that is needed'
    cloud_fault none
done
is "$(cloud_calls RunInstances)" 0 'nothing was started'

# ---- two at once --------------------------------------------------------------------------------
cloud_fault hang seconds=120 times=1
cloud_run dtctl up -y >../ann.out 2>../ann.err &
ann=$!
ok 'up locks the state in the bucket' wait_for 120 is_locked
cd ../bob || exit 1
cloud_config both 'nodes = 1' -- "$state" 'owner = "bob"'
mkdir -p .dtctl/both
cp ../ann/.dtctl/both/id_ed25519 .dtctl/both/
cloud_run dtctl up -y >../bob.out 2>../bob.err &
bob=$!
ok 'a second operator waits' wait_for 120 says ../bob.err 'another command works on this cluster'
like "$(cat ../bob.err)" "$(id -un)@$(hostname) \(apply, since 20" \
    'the second operator sees the owner of the lock'
like "$(cat ../bob.err)" 'force-unlock [0-9a-f-]{36}' \
    'the second operator sees how to remove a stale lock'
cloud_fault none
wait "$bob"
result $(($? != 0)) 'up from another folder fails'
like "$(cat ../bob.err)" 'copy known_hosts from there to' \
    'the error says where to copy the host keys from' ||
    diag "$(cat ../bob.err)"
wait "$ann"
is $? 0 'the first one is not disturbed' || diag "$(cat ../ann.err)"
is "$(cloud_calls RunInstances)" 1 'one instance was started'
ok 'the lock is gone' is_free

# ---- where the state is -------------------------------------------------------------------------
is "$(cloud_objects $bucket)" $key 'the bucket has the state, and nothing else'
like "$(object $key)" '"aws_instance"' 'the state in the bucket has the instance'
is "$(find ../ann -name '*.tfstate' ! -path '*/.terraform/*')" '' 'the folder has none'
is "$(grep -c 'OPENSSH PRIVATE' ../ann/.dtctl/both/terraform/terraform.log <(object $key) |
    grep -v ':0$')" '' 'no private key is in the log, or in plain words in the state'
cd ../ann || exit 1
run cloud_run dtctl plan
is "$status" 0 'plan succeeds' || cloud_diag
like "$out" 'nothing to change' 'wants nothing'

# ---- the second operator ------------------------------------------------------------------------
cd ../bob || exit 1
cp ../ann/.dtctl/both/known_hosts .dtctl/both/
run cloud_run dtctl up -y
is "$status" 0 'up of the second operator' || cloud_diag
like "$err" 'is now as recorded in s3://team-state/gpu' 'up reports the cluster in the bucket'
is "$(cloud_calls RunInstances)" 1 'up of the second operator starts nothing'
is "$(cloud_calls TerminateInstances)" 0 'up of the second operator ends nothing'
is "$(cut -d' ' -f1-2 .dtctl/both/id_ed25519.pub)" \
    "$(cut -d' ' -f1-2 ../ann/.dtctl/both/id_ed25519.pub)" 'both operators have the same login key'
run cloud_run dtctl status
is "$status" 0 'status succeeds' || cloud_diag
like "$out" 'node0 .*idle' 'status shows the node'
run cloud_run dtctl plan
like "$out" 'nothing to change' 'plan of the second operator changes nothing' || cloud_diag
cloud_api DescribeInstances us-east-1 >../instances.xml
is "$(grep -c '<value>bob' ../instances.xml)" 0 "the cluster stays ann's"

# ---- the state is not moved by a word -----------------------------------------------------------
cp dtctl.toml shared.toml
grep -v '^state' shared.toml >dtctl.toml
cloud_run dtctl up -y >../up.out 2>../up.err
result $(($? == 2)) 'up without aws.state is refused'
says_once ../up.err 'aws\.state.*the cluster exists, and its state is elsewhere; set it back' \
    'with what to do'
mv shared.toml dtctl.toml

# ---- killed -------------------------------------------------------------------------------------
cd ../ann || exit 1
cloud_fault hang seconds=120 times=1
cloud_run dtctl up -y --nodes 2 >../ann.out 2>../ann.err &
ann=$!
ok 'a larger cluster is being made' wait_for 300 running 2
# shellcheck disable=SC2046 # one word for each process; this process namespace has no others
kill -9 $(pgrep -P "$ann" -x dtctl || echo "$ann") $(pgrep -x terraform)
wait "$ann" 2>/dev/null
cloud_fault none
ok 'a killed up leaves the lock' is_locked
cd ../bob || exit 1
cloud_run dtctl down -y --force >../down.out 2>../down.err &
bob=$!
ok 'down from another folder waits' wait_for 120 says ../down.err 'force-unlock'
cd ../ann || exit 1
run cloud_run dtctl gc
is "$status" 0 'gc where it was killed succeeds' || cloud_diag
like "$err" 'an earlier command left an unrecorded resource.*aws_instance|kind=instance id=i-' \
    'gc ends the unrecorded resource' || cloud_diag
like "$err" 'releasing the lock' 'gc releases the lock'
wait "$bob"
is $? 0 'the waiting down continues' || diag "$(cat ../down.err)"
like "$(cat ../down.out)" 'AWS has no instance' 'down ends when nothing is left'
is "$(cloud_instances)$(cloud_things)" '' 'nothing is left at AWS'
is "$(cloud_objects $bucket)" $key 'the bucket has no lock'
is "$(object $key | grep -c '"aws_instance"')" 0 'the state in the bucket has no instance'
run cloud_run dtctl plan
is "$status" 0 'plan of the first operator succeeds' || cloud_diag
like "$err" 'was taken down from another folder' \
    'plan of the first operator says that the cluster is gone'
like "$out" '\+ node0' 'plan of the first operator would create the node again'
cloud_stop
is "$(cloud_left)" '' 'nothing is left on this machine'
done_testing
