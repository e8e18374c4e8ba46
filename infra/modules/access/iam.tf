# SPDX-License-Identifier: Apache-2.0
# The role of the nodes: one folder of one bucket.

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
