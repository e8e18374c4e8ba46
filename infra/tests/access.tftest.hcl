# SPDX-License-Identifier: Apache-2.0
mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_resource "aws_security_group" {
    defaults = { id = "sg-0123456789abcdef0" }
  }
}

variables {
  name                 = "dtctl-demo"
  tags                 = { dtctl-cluster = "demo", dtctl-owner = "ann" }
  owner                = "ann"
  region               = "us-east-1"
  cluster              = "demo"
  vpc_id               = "vpc-0123456789abcdef0"
  vpc_cidrs            = ["10.77.0.0/16"]
  s3_prefix_list_id    = "pl-63a5400a"
  operator_cidrs       = ["198.51.100.7/32", "2001:db8::/64"]
  closed               = false
  ssh_public_key       = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHVudXNlZHVudXNlZHVudXNlZHVudXNlZHVudXNl ann"
  s3_bucket            = null
  s3_prefix            = "dtctl/demo"
  permissions_boundary = null
}

run "open" {
  command = apply

  module {
    source = "./modules/access"
  }

  assert {
    condition     = aws_security_group.cluster.revoke_rules_on_delete
    error_message = "a group that names itself can be deleted"
  }
  assert {
    condition = (aws_vpc_security_group_ingress_rule.ssh["198.51.100.7/32"].cidr_ipv4 == "198.51.100.7/32" &&
      aws_vpc_security_group_ingress_rule.ssh["2001:db8::/64"].cidr_ipv6 == "2001:db8::/64" &&
      alltrue([for r in aws_vpc_security_group_ingress_rule.ssh :
    r.ip_protocol == "tcp" && r.from_port == 22 && r.to_port == 22]))
    error_message = "port 22 alone, from the operator alone"
  }
  assert {
    condition = (aws_vpc_security_group_ingress_rule.cluster.referenced_security_group_id == "sg-0123456789abcdef0" &&
    aws_vpc_security_group_ingress_rule.cluster.ip_protocol == "-1")
    error_message = "everything from the group itself"
  }
  assert {
    condition = (aws_vpc_security_group_egress_rule.cluster.referenced_security_group_id == "sg-0123456789abcdef0" &&
      aws_vpc_security_group_egress_rule.cluster.ip_protocol == "-1" &&
    aws_vpc_security_group_egress_rule.out[0].cidr_ipv4 == "0.0.0.0/0")
    error_message = "to itself as well as out"
  }
  assert {
    condition     = length(aws_vpc_security_group_egress_rule.vpc) + length(aws_vpc_security_group_egress_rule.s3) == 0
    error_message = "and no further rule"
  }
  assert {
    condition     = length(aws_iam_role.node) == 0 && output.instance_profile == null
    error_message = "no role without a bucket"
  }
}

run "closed" {
  command = apply

  module {
    source = "./modules/access"
  }
  variables {
    closed = true
  }

  assert {
    condition     = length(aws_vpc_security_group_egress_rule.out) == 0
    error_message = "nothing out"
  }
  assert {
    condition = (aws_vpc_security_group_egress_rule.vpc["10.77.0.0/16"].cidr_ipv4 == "10.77.0.0/16" &&
      aws_vpc_security_group_egress_rule.s3[0].prefix_list_id == "pl-63a5400a" &&
      aws_vpc_security_group_egress_rule.s3[0].to_port == 443 &&
    aws_vpc_security_group_egress_rule.cluster.referenced_security_group_id == "sg-0123456789abcdef0")
    error_message = "but to the VPC, S3 and the cluster"
  }
  assert {
    condition = alltrue([for r in flatten([values(aws_vpc_security_group_ingress_rule.ssh),
      values(aws_vpc_security_group_egress_rule.vpc), aws_vpc_security_group_egress_rule.s3,
      aws_vpc_security_group_ingress_rule.cluster, aws_vpc_security_group_egress_rule.cluster]) :
    length(coalesce(r.description, "-")) > 1])
    error_message = "every rule says what it is for"
  }
}

run "role" {
  command = apply

  module {
    source = "./modules/access"
  }
  variables {
    s3_bucket            = "data-of-ann"
    permissions_boundary = "arn:aws:iam::123456789012:policy/limit"
  }

  assert {
    condition     = aws_iam_role.node[0].path == "/dtctl/ann/demo/us-east-1/" && aws_iam_instance_profile.node[0].path == "/dtctl/ann/demo/us-east-1/"
    error_message = "where the sweep looks for it"
  }
  assert {
    condition     = aws_iam_role.node[0].permissions_boundary == "arn:aws:iam::123456789012:policy/limit"
    error_message = "within its boundary"
  }
  assert {
    condition     = jsondecode(aws_iam_role.node[0].assume_role_policy).Statement[0].Principal == { Service = "ec2.amazonaws.com" }
    error_message = aws_iam_role.node[0].assume_role_policy
  }
  assert {
    condition = (jsondecode(aws_iam_role_policy.s3[0].policy).Statement[0].Resource == "arn:aws:s3:::data-of-ann/dtctl/demo/*" &&
      jsondecode(aws_iam_role_policy.s3[0].policy).Statement[0].Action == ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"] &&
      jsondecode(aws_iam_role_policy.s3[0].policy).Statement[1].Resource == "arn:aws:s3:::data-of-ann" &&
    jsondecode(aws_iam_role_policy.s3[0].policy).Statement[1].Condition.StringLike["s3:prefix"] == ["dtctl/demo", "dtctl/demo/*"])
    error_message = aws_iam_role_policy.s3[0].policy
  }
}
