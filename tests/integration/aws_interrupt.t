#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# up that is interrupted, or killed, while instances are being made: nothing stays unrecorded. After
# SIGINT and after SIGKILL `down` finds them by their tags and ends them. A role of aws.s3 is found
# by its path.
source "${0%/*}/../lib.sh"
source "$SRC/tests/cloud/cloud.sh" || exit 1
cloud_start --no-nodes

# shellcheck disable=SC2317 # called through wait_for
role_made() {
    cloud_roles | grep -q RoleName
}
# shellcheck disable=SC2317 # called through wait_for
two_made() {
    [ "$(cloud_instances | wc -l)" -eq 2 ]
}

begin() { # CLUSTER [own]: up, until the API has started both instances and has not yet said so
    mkdir -p "$1"
    cd "$1" || exit 1
    cloud_config "$1" 'nodes = 2' -- 'zones = ["us-east-1a"]'
    cloud_fault hang seconds=12
    CLOUD_PROVIDER=${2-} cloud_run dtctl up -y >up.out 2>up.err &
    up=$!
    ok "$1: up has started two instances" wait_for 300 two_made
}

dtctl_of() { # the dtctl that `up` runs, below env
    pgrep -P "$up" -x dtctl || echo "$up"
}

empty() { # WHAT
    is "$(cloud_instances)" '' "$1: no instance is left"
    is "$(cloud_things)" '' "$1: nothing else is left"
}

# ---- SIGINT -------------------------------------------------------------------------------------
begin interrupted own
kill -INT "$(dtctl_of)"
wait "$up"
code=$?
result "$((code != 0))" 'interrupted: up ends with an error' || diag "$(cat up.out up.err)"
like "$(cat up.err)" 'down' 'interrupted: the error names the next step'
is "$(pgrep -cx terraform)" 0 'terraform has ended'
cloud_fault none
run cloud_run dtctl down -y
is "$status" 0 'interrupted: down succeeds' || cloud_diag
empty interrupted
cd ..

# ---- SIGKILL ------------------------------------------------------------------------------------
begin killed
# shellcheck disable=SC2046 # one word for each process; this process namespace has no others
kill -9 "$(dtctl_of)" $(pgrep -x terraform)
wait "$up" 2>/dev/null
cloud_fault none
is "$(cloud_instances | wc -l)" 2 'killed: two instances run that are in no state'
run cloud_run dtctl down -y
is "$status" 0 'killed: down succeeds' || cloud_diag
empty killed
cd ..

# The role has been under way for long enough (Terraform says so every ten seconds), and whatever
# was begun beside it is recorded.
# shellcheck disable=SC2317 # wait_for calls it
makes_a_role_alone() { # CLUSTER
    local log=.dtctl/$1/terraform/terraform.log
    grep '"type":"apply_progress"' "$log" | grep -q 'aws_iam_role\.' || return 1
    [ $(($(grep -c '"type":"apply_start"' "$log") - 1)) = \
        "$(grep -c '"type":"apply_complete"' "$log")" ]
}

# ---- SIGKILL while a role is made ----------------------------------------------------------------
kill_at_role() { # CLUSTER: up is killed when its role is made and not recorded
    mkdir -p "$1"
    cd "$1" || exit 1
    cloud_config "$1" 'nodes = 1' -- 'zones = ["us-east-1a"]' 's3 = "s3://data-of-ann/x"'
    cloud_fault hang action=CreateRole seconds=120
    cloud_run dtctl up -y >up.out 2>up.err &
    up=$!
    ok "$1: up has made a role" wait_for 300 role_made
    ok "$1: it makes nothing else" wait_for 60 makes_a_role_alone "$1"
    # The provider, which lives on, gets the answer for a Terraform that is gone.
    # shellcheck disable=SC2046 # as above
    kill -9 "$(dtctl_of)" $(pgrep -x terraform)
    wait "$up" 2>/dev/null
    cloud_fault none
}
kill_at_role role
run cloud_run dtctl down -y
is "$status" 0 'role: down succeeds' || cloud_diag
like "$err" 'an earlier command left an unrecorded resource.* kind=role id=' \
    'role: the unrecorded role is named' || cloud_diag
is "$(cloud_roles)" '' 'role: no role is left'
empty role
cd ..

# The search at the end of `down` finds a role as well.
kill_at_role profile
rm .dtctl/profile/terraform/unclean
run cloud_run dtctl down -y
is "$status" 0 'profile: down succeeds' || cloud_diag
like "$err" 'removing an unrecorded resource.* kind=role id=' \
    'profile: down looks for roles before it ends' || cloud_diag
is "$(cloud_roles)" '' 'profile: no role is left'
empty profile
cd ..

cloud_stop
done_testing
