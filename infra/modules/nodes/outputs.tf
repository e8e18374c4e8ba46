# SPDX-License-Identifier: Apache-2.0
output "nodes" {
  description = "The nodes in the order of ranks"
  value = [for rank, n in aws_instance.node : {
    rank        = rank
    name        = var.names[rank]
    id          = n.id
    private_ip  = var.fixed_addresses ? cidrhost(var.subnet_cidr, 10 + rank) : n.private_ip
    public_ip   = local.elastic ? aws_eip.node[rank].public_ip : n.public_ip
    type        = n.instance_type
    lifecycle   = var.purchase
    state       = n.instance_state
    config_hash = n.tags["dtctl-config"]
  }]
}
