#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Terraform sources: layout, validity of every root, the tables of their manual, and what must not
# be in them. What the rules do: infra_rules.t.
source "${0%/*}/../lib.sh"
source "$SRC/tests/infra/terraform.sh"

is "$("$SRC/infra/tables" --check 2>&1)" '' "the tables of infra/README.md are current"
cp -r "$SRC/infra" "$WORK/stale"
printf 'variable "more" {\n  type        = string\n  description = "More"\n}\n' >>"$WORK/stale/variables.tf"
run "$WORK/stale/tables" --check
is "$status" 1 'a variable without a row in them is found'
like "$err" 'infra/tables' 'and how to make it'

sources=$(find "$SRC/infra" -name '*.tf' -exec grep -vhE '^ *#' {} +)
unlike "$sources" 'prevent_destroy|deletion_protection|skip_destroy|retain_on_delete' \
    'nothing is kept from being deleted'
unlike "$sources" '(Action|Resource) *= *"\*"|:\*"' 'no wildcard permission'
unlike "$sources" 'http_tokens *= *"optional"' 'no IMDSv1'
like "$(cat "$SRC/infra/versions.tf")" 'default_tags' 'tags for everything'
is "$(git -C "$SRC" ls-files '*.terraform.lock.hcl' '*.tfstate' 2>/dev/null)" '' \
    'neither lock file nor state among the sources'
missing=$(find "$SRC/infra" \( -name '*.tf' -o -name '*.hcl' \) \
    -exec grep -L 'SPDX-License-Identifier: Apache-2.0' {} +)
is "$missing" '' 'every file names its licence'

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
