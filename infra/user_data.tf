# SPDX-License-Identifier: Apache-2.0
# The configuration of a node: one data-only cloud-init file, rendered per node. The host key in it
# is trusted for one login; dtctl then makes the node generate its own and remove this one.

locals {
  boot     = "${path.module}/../cloud-init"
  template = "${local.boot}/node.yaml.tftpl"
  files    = { for f in fileset("${local.boot}/files", "*") : f => file("${local.boot}/files/${f}") }

  # Runs are the login user's: a role is for them.
  closed_metadata = (var.closed_metadata != null ? var.closed_metadata :
  var.s3_bucket == null && var.instance_profile == null)

  configuration = {
    ssh_user        = var.ssh_user
    ssh_public_key  = var.ssh_public_key
    closed_metadata = local.closed_metadata
    files           = local.files
  }

  # The same for every node: what is configured, not who the node is, nor when it ends, which can be
  # changed while it runs. No key goes into it.
  config_hash = sha256(jsonencode([file(local.template), local.configuration]))

  user_data_base64 = [for rank, name in local.names : base64gzip(templatefile(local.template, merge(
    local.configuration, {
      node_name        = name
      ttl_s            = var.ttl_s
      idle_s           = var.idle_s
      host_key_private = try(var.bootstrap_host_keys[rank].private, "")
      host_key_public  = try(var.bootstrap_host_keys[rank].public, "")
      config_hash      = local.config_hash
    })))
  ]
}
