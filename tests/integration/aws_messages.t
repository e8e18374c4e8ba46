#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The words of provider aws where Terraform is a stand-in: settings that its module refuses,
# credentials that AWS refuses, the cost of nodes by how they were bought, the end of their lease.
# shellcheck disable=SC2016 # dollars that are money
source "${0%/*}/../lib.sh"
unset "${!AWS_@}"
printf '[cluster]\nprovider = "aws"\n[aws]\nregion = "us-east-1"\n' >dtctl.toml
mkdir bin
cat >bin/terraform <<'END'
#!/bin/sh
[ "$1" != version ] || exec echo '{"terraform_version": "1.11.4"}'
case $* in *init*) exit 0 ;; *state*) exit 0 ;; esac
echo "$*" >>"${0%/*}/../calls"
cat "${0%/*}/../says"
false
END
chmod +x bin/terraform
export PATH=$WORK/bin:$PATH

error() { # SUMMARY DETAIL: what Terraform ends with from now on
    printf '{"@level":"error","@message":"Error: %s","type":"diagnostic","diagnostic":%s}\n' "$1" \
        "{\"severity\":\"error\",\"summary\":\"$1\",\"detail\":\"$2\"}" >says
}
made() { # a cluster of this folder, for Terraform to end
    local vars=.dtctl/default/terraform/infra/terraform.tfvars.json
    mkdir -p "${vars%/*}"
    echo '{"region": "us-east-1", "owner": "me", "cluster": "default"}' >$vars
}

# ---- settings that the module refuses -----------------------------------------------------------
up() { # [OPTION…]
    run dtctl up -y --operator-cidr 198.51.100.7/32 "$@"
}
rule='This was checked by the validation rule at variables.tf:112,3-13.'
error 'Invalid value for variable' \
    "instance_type: a name such as g6.12xlarge belongs here.\\n\\n$rule"
up --instance-type G6.xlarge
like "$status $err" \
    '^2 .*--instance-type.*: a name such as g6.12xlarge belongs here \(refused before anything' \
    'a variable that the module refuses is named as its option'
unlike "$err" 'refused in us-east|nothing is left|rule at' \
    'the error does not call it a refusal of AWS'
is "$(find .dtctl -name '*.tfvars.json')" '' 'up keeps no refused variables'
error 'Resource precondition failed' 'spot_max_price: belongs with purchase = spot.'
sed -i 's/^region.*/&\nspot_max_price = 2/' dtctl.toml
up
like "$status $err" \
    '^2 .*dtctl.toml:[0-9:]+: aws.spot_max_price: belongs with purchase = spot \(refused bef' \
    'a setting of the file that the module refuses is named with its line'
made
before=$(find .dtctl -name '*.tfvars.json' -exec cat {} +)
up
is "$status $(find .dtctl -name '*.tfvars.json' -exec cat {} +)" "2 $before" \
    'the variables of an existing cluster are put back' || diag "$err"
sed -i '/^spot_max_price/d' dtctl.toml

# ---- credentials --------------------------------------------------------------------------------
# No search is possible with them, so none without some kinds of resources follows.
rm -r .dtctl
expired='https response error StatusCode: 400, api error ExpiredToken'
error 'reading Resource Groups Tagging API Resources' \
    "operation error Resource Groups Tagging API: GetResources, ${expired}Exception: it is expired"
: >calls
run dtctl gc
like "$status $err" '^1 .*it is expired .*; the credentials have expired: log in again' \
    'gc with expired credentials says so, and the next step' || diag "$err"
unlike "$err" 'permission' 'gc does not call expired credentials a missing permission'
is "$(grep -c apply calls)" 1 'gc does not search again with expired credentials'
error 'reading IAM Roles' "operation error IAM: ListRoles, $expired: The token is expired"
run dtctl gc
like "$status $err" '^1 .*credentials have expired' \
    'gc names expired credentials also when roles are refused'
unlike "$err" 'skipping roles' 'gc skips no kind with expired credentials'
made
error 'deleting EC2 Instance' "operation error EC2: TerminateInstances, $expired: it is expired"
run dtctl down -y
like "$status $err" \
    '^1 .*may still run and cost money.*is expired .*; the credentials have expired' \
    'down with expired credentials says that instances may run, and the next step'
error 'deleting EC2 VPC' 'operation error EC2: DeleteVpc, api error UnauthorizedOperation: No'
run dtctl down -y
like "$status $err" '^1 .*; allow ec2:DeleteVpc to these credentials' \
    'down names an action that is not permitted'

# ---- the cost of nodes --------------------------------------------------------------------------
cat >bin/terraform <<'END'
#!/bin/sh
[ "$1" != version ] || exec echo '{"terraform_version": "1.11.4"}'
case $* in *sweep*apply*) echo '{"type":"outputs","outputs":{"found":{"value":[]}}}' ;; esac
END
echo "echo \"\$*\" >>'$WORK/calls'" >>bin/terraform
: >calls
launched=$(date -u -d '2 hours ago' +%FT%TZ)
nodes() { # PURCHASE…: a cluster with such nodes of g6.xlarge, which are out of reach
    local way rank=0
    rm -rf .dtctl
    made
    printf 'format = 1\nname = "default"\nprovider = "aws"\ncreated = "%s"\n' "$launched" \
        >.dtctl/default/cluster.toml
    for way; do
        printf '[[node]]\nname = "node%d"\ntransport = "ssh"\nhost = "127.0.0.1"\nport = 1\n' $rank
        printf 'address = "10.0.0.%d"\nroot = ".dtctl"\ninstance_id = "i-%d"\n' $rank $rank
        printf 'instance_type = "g6.xlarge"\npurchase = "%s"\nlaunched = "%s"\n' "$way" "$launched"
        rank=$((rank + 1))
    done >>.dtctl/default/cluster.toml
}
cost_of() { # PURCHASE…: such a cluster is ended after two hours
    nodes "$@"
    run dtctl down -y --force --json
}
usd() { # of the last event
    grep -o '"cost_usd":[0-9.]*' <<<"$out" | cut -d: -f2 | cut -c1-4
}
sed -i 's/^region.*/&\nfallback = ["capacity-block", "on-demand"]/' dtctl.toml
cost_of on-demand spot
is "$status $(usd)" '0 3.22' 'nodes have the price of how they were bought, not of the first way' ||
    diag "$out" "$err"
is "$(grep -c 'infra apply.* -parallelism=30' calls)" 1 'thirty things are changed at a time'
is "$(grep -c 'sweep apply.* -parallelism=30' calls)" 1 \
    'thirty things are looked for at a time'
sed -i '/^fallback/d' dtctl.toml
cost_of on-demand capacity-block
is "$status $(usd)" '0 ' 'the cost is not known with a node that was paid with a capacity block'

# ---- the end of down ----------------------------------------------------------------------------
# Terraform finds a resource without cost, or one with cost, that it cannot remove; or may not look.
cat >bin/terraform <<'END'
#!/bin/sh
[ "$1" != version ] || exec echo '{"terraform_version": "1.11.4"}'
problem() { # SUMMARY DETAIL
    printf '{"type":"diagnostic","diagnostic":%s}\n' \
        '{"severity":"error","summary":"'"$1"'","detail":"'"$2"'"}'
    exit 1
}
found=$(cat "${0%/*}/../found")
vars=.dtctl/default/terraform/infra/sweep/terraform.tfvars.json
case $* in
*sweep*state*) cat "${0%/*}/../state" ;;
*sweep*-destroy*) problem 'deleting' 'api error UnauthorizedOperation: no' ;;
*sweep*apply*)
    case $found:$(grep -o '"free_parts":[a-z]*' "${0%/*}/../$vars") in
    denied:*true) problem 'reading' 'GetResources, api error AccessDeniedException: no' ;;
    denied:*) found='' ;;
    esac
    echo '{"type":"outputs","outputs":{"found":{"value":['"$found"']}}}'
    ;;
esac
END
cat >state <<'END'
{"version": 4, "terraform_version": "1.11.4", "resources": [{"mode": "managed", "name": "found",
 "type": "aws_placement_group", "provider": "provider[\"registry.terraform.io/hashicorp/aws\"]",
 "instances": [{"index_key": "left", "attributes": {"id": "left"}}]}]}
END
ends() { # FOUND: `down` where the search finds this
    echo "$1" >found
    nodes on-demand
    run dtctl down -y --force
}
ends ''
like "$status $out" '^0 .*AWS has no instance, volume, address, network, group or key with the' \
    'down names all kinds that it has looked for' || diag "$err"
ends denied
like "$status $err" '^0 .*skipping networks, groups and keys.*permission=tag:GetResources' \
    'down without the permission to look names it' || diag "$out"
like "$out" 'AWS has no instance, volume or address with.*; networks, groups and keys were not' \
    'down does not claim that what it could not look for is gone'
unlike "$out" 'address, network' 'down names no kind that it has not looked for'
ends '{"kind":"placement-group","id":"left","cluster":"default"}'
like "$status $err" '^0 .*without cost is left; dtctl gc removes it later.*kind=placement-group' \
    'down succeeds with a resource left that costs nothing' || diag "$out"
like "$out" 'AWS has no instance, volume or address with.*; some things that cost nothing are' \
    'down says that something is left'
ok 'down forgets the cluster all the same' test ! -e .dtctl/default/cluster.toml
ends '{"kind":"volume","id":"left","cluster":"default"}'
like "$status $err" '^1 .*removing leftovers.*UnauthorizedOperation' \
    'down fails with a resource left that costs money' || diag "$out"
ok 'down keeps the cluster for another try' test -e .dtctl/default/cluster.toml

# ---- nodes that do not answer -------------------------------------------------------------------
echo >found
nodes on-demand
run dtctl status
like "$err" 'asking AWS about nodes that do not answer' 'status says what it waits for'
like "$status $out" '^3 .*node0 .*gone +AWS has ended it; dtctl up creates another one' \
    'status says that AWS has no such instance' || diag "$err"
echo '{"kind":"instance","id":"i-0","state":"stopped"}' >found
run dtctl status
like "$out" 'node0 .*AWS says that i-0 is stopped' 'status has the state that AWS names' ||
    diag "$err"

# ---- the end of a lease that was moved ----------------------------------------------------------
vars=.dtctl/default/terraform/infra/terraform.tfvars.json
leased() { # TTL_S: the cluster was made with this lease, which ends in ten hours
    nodes on-demand
    printf '{"region": "us-east-1", "owner": "me", "ttl_s": %d, "expires": "%s"}' \
        "$1" "$(date -u -d '10 hours' +%FT%TZ)" >$vars
}
sed -i 's/^provider.*/&\nnodes = 1/' dtctl.toml
echo 'operator_cidrs = ["198.51.100.7/32"]' >>dtctl.toml
leased 43200
run dtctl plan
like "$out" '  lease +ends in 9:59:.* \(20..-..-..T..:..Z\), at most \$8\.0' \
    'plan shows the end of the lease of a cluster that exists' || diag "$err"
date -u -d '3 hours' +%FT%TZ >.dtctl/default/terraform/lease
run dtctl plan
like "$out" '  lease +ends in 2:59:.* \(20..-..-..T..:..Z\), at most \$2\.4.* until then' \
    'plan shows the end that extend has set, and the cost until then' || diag "$err"
run dtctl plan --json
like "$out" '"price_of_lease":2\.4.*"until_ms":1[0-9]+' 'plan --json has that end, too'
run dtctl plan --ttl 6h
like "$out" '  lease +6:00:00, at most \$4\.83 in it' 'another lease.ttl counts from the next up'
run dtctl plan --fallback spot
like "$out" 'bought +on-demand.*L-DB2E81BA' \
    'plan shows how the nodes of a cluster were bought, and that quota'
leased 0
run dtctl plan --ttl 0
like "$out" '  lease +none: the nodes run' 'plan of a cluster without a lease says so'
done_testing
