# SPDX-License-Identifier: Apache-2.0
locals {
  subnet_cidr = local.own ? local.cidr : data.aws_subnet.given[0].cidr_block
}

output "vpc_id" {
  description = "The VPC"
  value       = local.own ? aws_vpc.own[0].id : data.aws_subnet.given[0].vpc_id
}

output "vpc_cidrs" {
  description = "Address ranges of the VPC"
  value       = local.own ? [var.vpc_cidr] : [for a in data.aws_vpc.given[0].cidr_block_associations : a.cidr_block]
}

output "subnet_id" {
  description = "The subnet of the nodes"
  value       = local.own ? aws_subnet.own[0].id : var.subnet_id
}

output "subnet_cidr" {
  description = "Its addresses"
  value       = local.subnet_cidr

  precondition {
    condition     = var.nodes + (local.own ? 11 : 5) <= pow(2, 32 - tonumber(split("/", local.subnet_cidr)[1]))
    error_message = "nodes: ${var.nodes} do not fit into ${local.subnet_cidr}${local.own ? ", where the tenth address is the first one's" : ""}."
  }
}

output "az" {
  description = "Its zone"
  value       = local.own ? aws_subnet.own[0].availability_zone : data.aws_subnet.given[0].availability_zone
}

output "public" {
  description = "Whether instances get public addresses there by themselves"
  value       = local.own ? true : data.aws_subnet.given[0].map_public_ip_on_launch
}

output "s3_prefix_list_id" {
  description = "The addresses of S3 in this region"
  value       = data.aws_prefix_list.s3.id
}
