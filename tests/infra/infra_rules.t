#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The rules of the Terraform module: its own tests with a mocked provider, and a review of what it
# would make, by policies that a careful operator has.
source "${0%/*}/../lib.sh"
source "$SRC/tests/infra/terraform.sh"
terraform_needed
terraform_copy
cp root/provider.tf . # as dtctl does
if terraform_provider "$WORK/provider"; then
    TF_REATTACH_PROVIDERS=$(cat "$WORK/provider/attach")
    export TF_REATTACH_PROVIDERS
fi

for root in . sweep; do
    "$TERRAFORM" -chdir="$root" init -no-color -input=false >"$WORK/out/init" 2>&1 ||
        diag "$(cat "$WORK/out/init")"
    run "$TERRAFORM" -chdir="$root" test -no-color
    is "$status" 0 \
        "$root: the tests with a mocked provider succeed: $(sed -n 's/^Success! //p' <<<"$out")" ||
        diag "$(grep -A15 -E '\.\.\. fail$|^Error' <<<"$out")" "$err"
done

# The plan, with the schemas of the provider left out, which are 13 MB.
"$TERRAFORM" test -json -verbose -filter=tests/review.tftest.hcl 2>"$WORK/out/review.err" |
    python3 "$SRC/tests/infra/review.py" --extract >"$WORK/plans.jsonl"
is "$(wc -l <"$WORK/plans.jsonl")" 1 'one plan is reviewed' ||
    diag "$(cat "$WORK/out/review.err")"
run python3 "$SRC/tests/infra/review.py" "$WORK/plans.jsonl"
is "$status" 0 "the review finds nothing: $out" || diag "$err"

# The review sees what it is there for.
refused() { # SED_EXPRESSION REGEX WHAT
    sed -E "$1" "$WORK/plans.jsonl" >"$WORK/bad.jsonl"
    run python3 "$SRC/tests/infra/review.py" "$WORK/bad.jsonl"
    like "$status $err" "^1 .*$2" "the review finds $3"
}
refused 's|198.51.100.7/32|0.0.0.0/0|g' 'open to' 'SSH from everywhere'
refused 's|"to_port": 22|"to_port": 2222|g' 'more than port 22' 'further ports'
refused 's|"description": "SSH from[^"]*"|"description": null|g' 'not what' \
    'a rule without a description'
refused 's|"http_tokens": "required"|"http_tokens": "optional"|g' 'IMDSv1' 'IMDSv1'
refused 's|"http_put_response_hop_limit": 1|"http_put_response_hop_limit": 2|g' 'hop' 'a longer way'
refused 's|"encrypted": true|"encrypted": false|g' 'not encrypted' 'a volume that is not encrypted'
refused 's|"disable_api_termination": false|"disable_api_termination": true|g' 'cannot be ended' \
    'termination protection'
refused 's|("instance_initiated_shutdown_behavior"): "terminate"|\1: "stop"|g' 'poweroff' \
    'nodes that only stop'
refused 's|s3:PutObject|s3:*|g' 'wildcard action' 'a wildcard action'
refused 's|arn:aws:s3:::data-of-ann/dtctl/demo/\*|*|g' 'wildcard resource' 'a wildcard resource'
refused 's|"revoke_rules_on_delete": true|"revoke_rules_on_delete": false|g' 'cannot be deleted' \
    'a group that keeps itself'
refused 's|"volume_tags": \{[^}]*\}|"volume_tags": null|g' 'volume' 'volumes without tags'
refused 's|("tags": \{[^}]*)"dtctl-owner": "[^"]*"|\1"x": ""|' 'lacks tags' 'a thing without tags'
done_testing
