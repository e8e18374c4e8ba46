#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every Terraform root is laid out, and valid without a warning.
source "${0%/*}/../lib.sh"
source "$SRC/tests/infra/terraform.sh"
terraform_needed
terraform_copy
ok 'formatted' "$TERRAFORM" fmt -check -recursive -diff
for root in . sweep examples/one-node examples/two-node-efa; do
    ok "$root: init from the mirror" "$TERRAFORM" -chdir="$root" init -no-color -input=false
    run "$TERRAFORM" -chdir="$root" validate -json
    is "$status" 0 "$root: valid" || diag "$out"
    like "$out" '"warning_count": 0' "$root: without warnings" || diag "$out"
done
done_testing
