#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Terraform sources are laid out, and valid without a warning.
source "${0%/*}/../lib.sh"
source "$SRC/tests/infra/terraform.sh"
terraform_needed
terraform_copy
ok 'all files are formatted' "$TERRAFORM" fmt -check -recursive -diff
# The examples, and with them the module, as parts of one configuration; then the sweep.
mkdir ../examples
cat >../examples/main.tf <<'END'
module "one" {
  source   = "../infra/examples/one-node"
  operator = "198.51.100.7/32"
  key      = "ssh-ed25519 AAAA"
}
module "two" {
  source   = "../infra/examples/two-node-efa"
  operator = "198.51.100.7/32"
  key      = "ssh-ed25519 AAAA"
  bucket   = "data-of-ann"
}
END
for root in ../examples sweep; do
    ok \
    "$root: init from the mirror succeeds" "$TERRAFORM" -chdir="$root" init -no-color -input=false
done
if terraform_provider "$WORK/provider"; then
    TF_REATTACH_PROVIDERS=$(cat "$WORK/provider/attach")
    export TF_REATTACH_PROVIDERS
fi
for root in ../examples sweep; do
    run "$TERRAFORM" -chdir="$root" validate -json
    is "$status" 0 "$root: the module is valid" || diag "$out"
    like "$out" '"warning_count": 0' "$root: the module has no warnings" || diag "$out"
done

# An unchanged configuration plans the same end of the lease at any later time.
# shellcheck disable=SC2317 # called by wait_for
later() {
    [ "$(date +%s)" -gt "$applied" ]
}
cd ../examples || exit 1
target=(-target=module.{one,two}.terraform_data.begun -no-color -input=false)
ok 'the examples are begun' "$TERRAFORM" apply -auto-approve "${target[@]}"
applied=$(date +%s)
wait_for 10 later
ok 'a later plan is clean' "$TERRAFORM" plan -detailed-exitcode "${target[@]}"
done_testing
