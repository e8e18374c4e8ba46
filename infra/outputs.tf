# SPDX-License-Identifier: Apache-2.0
output "inventory" {
  description = "The nodes as dtctl's cluster.toml"
  value = join("\n", concat([
    "# The nodes of this cluster.",
    "format = 1",
    "name = ${jsonencode(var.cluster)}",
    "provider = \"aws\"",
    ], [for n in module.nodes.nodes : join("\n", [
      "",
      "[[node]]",
      "name = ${jsonencode(n.name)}",
      "transport = \"ssh\"",
      "user = ${jsonencode(var.ssh_user)}",
      "host = ${jsonencode(n.public_ip != "" ? n.public_ip : n.private_ip)}",
      "port = 22",
      "address = ${jsonencode(n.private_ip)}",
      "root = \".dtctl\"",
      "instance_id = ${jsonencode(n.id)}",
      "instance_type = ${jsonencode(n.type)}",
      "zone = ${jsonencode(module.network.az)}",
      "purchase = ${jsonencode(n.lifecycle)}",
      "config_hash = ${jsonencode(local.config_hash)}",
  ])], [""]))
}

output "facts" {
  description = "All that was made, as one object: cluster, region, az, zones (that offer the type), nodes, sg_id, key_name, vpc_id, subnet_id, efa_count, gpus and vcpus (per node), ami_id, ssh_user, config_hash"
  value = {
    cluster     = var.cluster
    region      = var.region
    az          = module.network.az
    zones       = local.zones
    nodes       = module.nodes.nodes
    sg_id       = module.access.security_group_id
    key_name    = module.access.key_name
    vpc_id      = module.network.vpc_id
    subnet_id   = module.network.subnet_id
    efa_count   = local.efas
    gpus        = local.gpus
    vcpus       = data.aws_ec2_instance_type.node.default_vcpus
    ami_id      = terraform_data.image.output
    ssh_user    = var.ssh_user
    config_hash = local.config_hash
  }
}

output "variables" {
  description = "The choices for this cluster, which hold as long as it lives, as JSON: dtctl in another folder continues from them when both share the state"
  sensitive   = true
  value = jsonencode({
    cluster             = var.cluster
    owner               = var.owner
    expires             = var.expires
    region              = var.region
    az                  = var.az
    purchase            = var.purchase
    outside_group       = var.outside_group
    made                = var.made
    node_names          = local.names
    bootstrap_host_keys = [for k in var.bootstrap_host_keys : { private = "", public = k.public }]
    ssh_public_key      = var.ssh_public_key
    operator_cidrs      = var.operator_cidrs
    ttl_s               = var.ttl_s
    idle_s              = var.idle_s
  })
}
