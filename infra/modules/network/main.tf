# SPDX-License-Identifier: Apache-2.0
# An own VPC with one subnet, or an existing subnet.

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

data "aws_partition" "here" {}

locals {
  own = var.subnet_id == null

  # Room for rank n at 10 + n below the last address, which AWS keeps.
  vpc_bits = tonumber(split("/", var.vpc_cidr)[1])
  bits     = max(local.vpc_bits, var.nodes > 240 ? 20 : 24)
  cidr     = cidrsubnet(var.vpc_cidr, local.bits - local.vpc_bits, local.bits > local.vpc_bits ? 1 : 0)
}

# ---- own ----------------------------------------------------------------------------------------
resource "aws_vpc" "own" {
  count = local.own ? 1 : 0

  cidr_block           = var.vpc_cidr
  enable_dns_support   = true
  enable_dns_hostnames = false
  tags                 = merge(var.tags, { Name = var.name })
}

resource "aws_internet_gateway" "own" {
  count = local.own ? 1 : 0

  vpc_id = aws_vpc.own[0].id
  tags   = merge(var.tags, { Name = var.name })
}

resource "aws_subnet" "own" {
  count = local.own ? 1 : 0

  vpc_id            = aws_vpc.own[0].id
  cidr_block        = local.cidr
  availability_zone = var.az
  tags              = merge(var.tags, { Name = var.name })
}

resource "aws_route_table" "own" {
  count = local.own ? 1 : 0

  vpc_id = aws_vpc.own[0].id
  tags   = merge(var.tags, { Name = var.name })
}

resource "aws_route" "out" {
  count = local.own ? 1 : 0

  route_table_id         = aws_route_table.own[0].id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.own[0].id
}

resource "aws_route_table_association" "own" {
  count = local.own ? 1 : 0

  subnet_id      = aws_subnet.own[0].id
  route_table_id = aws_route_table.own[0].id
}

# Free of charge, and checkpoints do not count as traffic to the internet.
resource "aws_vpc_endpoint" "s3" {
  count = local.own ? 1 : 0

  vpc_id            = aws_vpc.own[0].id
  service_name      = "com.amazonaws.${var.region}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = [aws_route_table.own[0].id]
  tags              = merge(var.tags, { Name = var.name })

  policy = var.s3_only == null ? null : jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "OneBucket"
      Effect    = "Allow"
      Principal = "*"
      Action    = ["s3:AbortMultipartUpload", "s3:GetObject", "s3:ListBucket", "s3:PutObject"]
      Resource = [
        "arn:${data.aws_partition.here.partition}:s3:::${var.s3_only}",
        "arn:${data.aws_partition.here.partition}:s3:::${var.s3_only}/*",
      ]
    }]
  })
}

# ---- existing -----------------------------------------------------------------------------------
data "aws_subnet" "given" {
  count = local.own ? 0 : 1

  id = var.subnet_id

  lifecycle {
    postcondition {
      condition     = var.vpc_id == null || self.vpc_id == var.vpc_id
      error_message = "vpc_id: ${var.subnet_id} is not in it but in ${self.vpc_id}."
    }
  }
}

data "aws_vpc" "given" {
  count = local.own ? 0 : 1

  id = data.aws_subnet.given[0].vpc_id
}

data "aws_prefix_list" "s3" {
  name = "com.amazonaws.${var.region}.s3"
}
