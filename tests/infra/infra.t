#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Terraform sources as texts: the tables of their manual, what must not be in them, and the
# policies for the operator. Their validity: infra_valid.t; what the rules do: infra_rules.t.
source "${0%/*}/../lib.sh"

is "$("$SRC/infra/tables" --check 2>&1)" '' "the tables of infra/README.md are current"
cp -r "$SRC/infra" "$WORK/stale"
printf 'variable "more" {\n  type        = string\n  description = "More"\n}\n' \
    >>"$WORK/stale/variables.tf"
run "$WORK/stale/tables" --check
is "$status" 1 'a variable without a row in them is found'
like "$err" 'infra/tables' 'the error names infra/tables'

sources=$(find "$SRC/infra" -name '*.tf' -exec grep -vhE '^ *#' {} +)
unlike "$sources" 'prevent_destroy|deletion_protection|skip_destroy|retain_on_delete' \
    'nothing is kept from being deleted'
unlike "$sources" '(Action|Resource) *= *"\*"|:\*"' 'no permission has a wildcard'
unlike "$sources" 'http_tokens *= *"optional"' 'no instance allows IMDSv1'
owners=$(cd "$SRC/infra" && grep -lrE '^provider ' --include='*.tf' | sort | xargs)
is "$owners" \
    'examples/one-node/main.tf examples/two-node-efa/main.tf root/provider.tf sweep/versions.tf' \
    'roots have a provider, modules have none'
is "$(git -C "$SRC" ls-files '*.terraform.lock.hcl' '*.tfstate' 2>/dev/null)" '' \
    'neither lock file nor state is among the sources'
missing=$(find "$SRC/infra" \( -name '*.tf' -o -name '*.hcl' \) \
    -exec grep -L 'SPDX-License-Identifier: Apache-2.0' {} +)
is "$missing" '' 'every file names its licence'

# The permissions of the operator; smoke.t of the test cloud compares them with the calls.
policies=("$SRC/infra/operator-policy.json" "$SRC/infra/operator-policy-s3.json")
review=(python3 "$SRC/tests/infra/policy.py")
ok 'the policies for the operator say nothing that they should not' "${review[@]}" "${policies[@]}"
refused() { # SED_EXPRESSION REGEX WHAT
    sed -E "$1" "${policies[0]}" >"$WORK/policy.json"
    run "${review[@]}" "$WORK/policy.json"
    like "$status $err" "^1 .*$2" "the review would see $3"
}
refused 's/ec2:TerminateInstances/ec2:*/' 'wildcard action' 'a wildcard action'
refused 's|"Resource": "arn:aws:ec2:[^"]*/\*"|"Resource": "*"|' \
    'on everything' 'changes of everything'
refused 's/"Null"/"Bool"/; s/ec2:DescribeAddresses"/ec2:DeleteVpc"/' 'DeleteVpc on everything' \
    'an action among others'
# An instance profile that comes to, changes on or leaves instances that run.
for action in DescribeIamInstanceProfileAssociations AssociateIamInstanceProfile \
    DisassociateIamInstanceProfile ReplaceIamInstanceProfileAssociation; do
    echo "{\"service\": \"ec2\", \"action\": \"$action\"}"
done >"$WORK/calls"
ok 'a later aws.s3 or aws.instance_profile is allowed' "${review[@]}" --calls "$WORK/calls" \
    "${policies[@]}"
echo '{"service": "ec2", "action": "StopInstances"}' >"$WORK/calls"
run "${review[@]}" --calls "$WORK/calls" "${policies[@]}"
like "$status $err" '^1 ec2:StopInstances is not allowed' \
    'the review names a call that is not allowed'
done_testing
