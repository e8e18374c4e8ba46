# SPDX-License-Identifier: Apache-2.0
# Access to the nodes, access from the nodes, and permissions of the nodes.

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

# ---- security group -----------------------------------------------------------------------------
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
  ip_protocol                  = "-1"
  referenced_security_group_id = aws_security_group.cluster.id
  tags                         = merge(var.tags, { Name = "${var.name}-cluster" })
}

# EFA traffic is matched by rules that name a group only: a rule for all addresses does not do.
resource "aws_vpc_security_group_egress_rule" "cluster" {
  security_group_id            = aws_security_group.cluster.id
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
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  prefix_list_id    = var.s3_prefix_list_id
  tags              = merge(var.tags, { Name = "${var.name}-s3" })
}

# ---- key pair -----------------------------------------------------------------------------------
resource "aws_key_pair" "operator" {
  key_name_prefix = "${var.name}-"
  public_key      = var.ssh_public_key
  tags            = merge(var.tags, { Name = var.name })
}

# ---- role ---------------------------------------------------------------------------------------
data "aws_partition" "here" {}

locals {
  role   = var.s3_bucket != null
  bucket = "arn:${data.aws_partition.here.partition}:s3:::${coalesce(var.s3_bucket, "none")}"

  # The sweep finds roles by this path, and the operator's policy is limited to it.
  path = "/dtctl/${var.owner}/${var.cluster}/${var.region}/"
}

resource "aws_iam_role" "node" {
  count = local.role ? 1 : 0

  name_prefix           = "dtctl-"
  path                  = local.path
  description           = "dtctl cluster ${var.cluster}: one folder of ${var.s3_bucket}"
  permissions_boundary  = var.permissions_boundary
  force_detach_policies = true
  max_session_duration  = 3600
  tags                  = merge(var.tags, { Name = var.name })

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy" "s3" {
  count = local.role ? 1 : 0

  name_prefix = "s3-"
  role        = aws_iam_role.node[0].name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "Objects"
        Effect   = "Allow"
        Action   = ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"]
        Resource = "${local.bucket}/${var.s3_prefix}/*"
      },
      {
        Sid       = "List"
        Effect    = "Allow"
        Action    = "s3:ListBucket"
        Resource  = local.bucket
        Condition = { StringLike = { "s3:prefix" = ["${var.s3_prefix}", "${var.s3_prefix}/*"] } }
      },
    ]
  })
}

resource "aws_iam_instance_profile" "node" {
  count = local.role ? 1 : 0

  name_prefix = "dtctl-"
  path        = local.path
  role        = aws_iam_role.node[0].name
  tags        = merge(var.tags, { Name = var.name })
}
