# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# render.sh: user data as Terraform makes it of cloud-init/, for tests of what a node does with it.

# render KEY=VALUE…: prints it, plain. Values as infra/user_data.tf passes them; what is not given
# has a default here. A VALUE @FILE is that file's content.
render() {
    local folder=$WORK/render terraform
    terraform=$(command -v terraform || command -v tofu) || return 1
    mkdir -p "$folder"
    cat >"$folder/main.tf" <<'TF'
variable "folder" { type = string }
variable "values" { type = map(string) }
output "plain" {
  value = templatefile("${var.folder}/node.yaml.tftpl", merge(var.values, {
    files = { for f in fileset("${var.folder}/files", "*") : f => file("${var.folder}/files/${f}") }
  }))
}
output "packed" {
  value = base64gzip(templatefile("${var.folder}/node.yaml.tftpl", merge(var.values, {
    files = { for f in fileset("${var.folder}/files", "*") : f => file("${var.folder}/files/${f}") }
  })))
}
TF
    python3 - "$SRC/cloud-init" "$@" >"$folder/terraform.tfvars.json" <<'PYTHON'
import json, sys
values = {"node_name": "node0", "ssh_user": "ubuntu", "ssh_public_key": "", "host_key_private": "",
          "host_key_public": "", "ttl_s": "43200", "idle_s": "3600", "closed_metadata": "true",
          "config_hash": "0" * 64}
for pair in sys.argv[2:]:
    key, value = pair.split("=", 1)
    assert key in values, key
    values[key] = open(value[1:]).read() if value.startswith("@") else value
print(json.dumps({"folder": sys.argv[1], "values": values}))
PYTHON
    terraform_bare "$terraform" apply -auto-approve -input=false >"$folder/log" 2>&1 || {
        cat "$folder/log" >&2
        return 1
    }
    terraform_bare "$terraform" output -raw plain
}

rendered_packed() { # what render printed last, as it is sent: gzip, then base64
    terraform_bare "$(command -v terraform || command -v tofu)" output -raw packed
}

terraform_bare() { # TERRAFORM ARGUMENT…: without the user's configuration; it needs no provider
    (cd "$WORK/render" && env TF_CLI_CONFIG_FILE=/dev/null CHECKPOINT_DISABLE=1 "$@" -no-color)
}
