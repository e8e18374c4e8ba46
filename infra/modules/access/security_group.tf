# SPDX-License-Identifier: Apache-2.0
# The one security group of a cluster: SSH from the operator, everything between its nodes, and what
# leaves it.

# One rule per resource and none inline: the two ways of writing rules undo each other.
resource "aws_security_group" "cluster" {
  name_prefix = "${var.name}-"
  description = "dtctl cluster ${var.cluster}"
  vpc_id      = var.vpc_id
  tags        = merge(var.tags, { Name = var.name })

  # Rules that name the group itself would keep it from being deleted.
  revoke_rules_on_delete = true
}

resource "aws_vpc_security_group_ingress_rule" "ssh" {
  for_each = toset(var.operator_cidrs)

  security_group_id = aws_security_group.cluster.id
  description       = "SSH from the operator"
  ip_protocol       = "tcp"
  from_port         = 22
  to_port           = 22
  cidr_ipv4         = strcontains(each.value, ":") ? null : each.value
  cidr_ipv6         = strcontains(each.value, ":") ? each.value : null
  tags              = merge(var.tags, { Name = "${var.name}-ssh" })
}

resource "aws_vpc_security_group_ingress_rule" "cluster" {
  security_group_id            = aws_security_group.cluster.id
  description                  = "Everything from the nodes"
  ip_protocol                  = "-1"
  referenced_security_group_id = aws_security_group.cluster.id
  tags                         = merge(var.tags, { Name = "${var.name}-cluster" })
}

# EFA traffic is matched by rules that name a group only: a rule for all addresses does not do.
resource "aws_vpc_security_group_egress_rule" "cluster" {
  security_group_id            = aws_security_group.cluster.id
  description                  = "Everything to the nodes"
  ip_protocol                  = "-1"
  referenced_security_group_id = aws_security_group.cluster.id
  tags                         = merge(var.tags, { Name = "${var.name}-cluster" })
}

resource "aws_vpc_security_group_egress_rule" "out" {
  count = var.closed ? 0 : 1

  security_group_id = aws_security_group.cluster.id
  description       = "Everything out"
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"
  tags              = merge(var.tags, { Name = "${var.name}-out" })
}

resource "aws_vpc_security_group_egress_rule" "vpc" {
  for_each = toset(var.closed ? var.vpc_cidrs : [])

  security_group_id = aws_security_group.cluster.id
  description       = "Everything to the VPC"
  ip_protocol       = "-1"
  cidr_ipv4         = each.value
  tags              = merge(var.tags, { Name = "${var.name}-vpc" })
}

resource "aws_vpc_security_group_egress_rule" "s3" {
  count = var.closed ? 1 : 0

  security_group_id = aws_security_group.cluster.id
  description       = "HTTPS to S3"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  prefix_list_id    = var.s3_prefix_list_id
  tags              = merge(var.tags, { Name = "${var.name}-s3" })
}
