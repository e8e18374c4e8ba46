# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# terraform.sh: Terraform (or OpenTofu) and the AWS provider as they lie on this machine; nothing is
# downloaded. For scripts that sourced lib.sh:
#
#     source "$SRC/tests/infra/terraform.sh"
#     terraform_needed              # sets TERRAFORM, TERRAFORM_PROVIDER (the program, or nothing
#                                   # where it is packed), TF_CLI_CONFIG_FILE, or ends the script
#     "$TERRAFORM" -chdir=… init

# terraform_find RC_FILE: finds the program and a folder with the provider, writes the CLI's
# configuration to RC_FILE and exports it; prints what is missing and how to get it, and fails.
terraform_find() {
    local rc=$1 version host mirror
    version=$(sed -n 's/.*version = "= \([0-9.]*\)".*/\1/p' "$SRC/infra/versions.tf")
    TERRAFORM=$(command -v terraform || command -v tofu) || {
        echo 'terraform or tofu is not on PATH: install Terraform 1.7 or OpenTofu 1.7, or newer'
        return 1
    }
    host=registry.terraform.io
    [ "${TERRAFORM##*/}" = terraform ] || host=registry.opentofu.org
    mirror=$(terraform_mirrors "$host/hashicorp/aws" "$version" | head -n 1)
    [ -n "$mirror" ] || {
        echo "the AWS provider $version is in no mirror on this machine: make one with" \
            "'${TERRAFORM##*/} -chdir=infra providers mirror /usr/local/share/terraform/plugins'"
        return 1
    }
    # shellcheck disable=SC2034 # for cloud.sh
    TERRAFORM_PROVIDER=$(compgen -G \
        "$mirror/$host/hashicorp/aws/$version/*/terraform-provider-aws_*")
    cat >"$rc" <<-END
		disable_checkpoint = true
		provider_installation {
		  filesystem_mirror {
		    path = "$mirror"
		  }
		}
	END
    # Terraform and providers collect their garbage less often: a quarter less of a processor.
    export TF_CLI_CONFIG_FILE=$rc CHECKPOINT_DISABLE=1 TF_IN_AUTOMATION=1 GOGC=400
    unset TF_PLUGIN_CACHE_DIR
}

# terraform_mirrors SOURCE VERSION: folders that hold the provider, unpacked or packed.
terraform_mirrors() {
    local home folder
    home=$(getent passwd "$(id -u)" | cut -d: -f6)
    {
        printf '%s\n' "${TF_PLUGIN_CACHE_DIR-}" "$home/.terraform.d/plugins" \
            "$home/.terraform.d/plugin-cache" "$home/.local/share/terraform/plugins" \
            /usr/local/share/terraform/plugins /usr/share/terraform/plugins
        find /opt /usr/local /usr/share -maxdepth 7 -type d -path "*/$1" -prune 2>/dev/null |
            sed "s|/$1\$||"
    } | while read -r folder; do
        for found in "$folder/$1/$2"/*/terraform-provider-aws_* \
            "$folder/$1/terraform-provider-aws_$2"_*.zip; do
            [ ! -e "$found" ] || { echo "$folder" && break; }
        done
    done
}

# terraform_needed: with DTCTL_TEST_AWS=off every test that needs Terraform is a skip with that
# name; otherwise a machine without it fails.
terraform_needed() {
    local missing
    [ "${DTCTL_TEST_AWS-}" != off ] || skip_all 'switched off by DTCTL_TEST_AWS=off'
    terraform_find "$WORK/terraform.rc" >"$WORK/out/terraform" && return
    missing=$(cat "$WORK/out/terraform")
    result 0 'Terraform and the AWS provider are there' ||
        diag "  $missing; or switch these tests off: DTCTL_TEST_AWS=off"
    done_testing
}

# terraform_provider FOLDER [VARIABLE=VALUE…]: starts a provider that Terraforms share
# (provider.py), with these variables; leaves the value of TF_REATTACH_PROVIDERS in FOLDER/attach.
# Fails where the provider is packed, or `make setup` has made no Python for it.
PROVIDER_SECONDS_MAX=60
terraform_provider() {
    local python folder=$1
    python=$("$SRC/tests/cloud/prepare" python)
    [ -x "$TERRAFORM_PROVIDER" ] && [ -x "$python" ] || return
    mkdir -p "$folder"
    env "${@:2}" "$python" "$SRC/tests/cloud/provider.py" \
        "$TERRAFORM_PROVIDER" "$SRC/infra" "$BUILD/provider" "$folder/socket" "$folder/attach" \
        >"$folder/log" 2>&1 </dev/null &
    # shellcheck disable=SC2034 # for cloud.sh
    TERRAFORM_PROVIDER_PID=$!
    disown
    wait_for $PROVIDER_SECONDS_MAX test -s "$folder/attach" ||
        bail_out "the AWS provider does not start: $(tail -n 3 "$folder/log")"
}

# terraform_copy: infra and cloud-init below $WORK, so that nothing is written to the sources.
terraform_copy() {
    mkdir -p "$WORK/tree"
    tar -C "$SRC" --exclude=.terraform --exclude='*.tfstate*' -c infra cloud-init |
        tar -C "$WORK/tree" -x
    cd "$WORK/tree/infra" || exit 1
}
