# SPDX-License-Identifier: Apache-2.0
mock_provider "aws" {
  mock_data "aws_instances" {
    defaults = { ids = [] }
  }
  mock_data "aws_eips" {
    defaults = { allocation_ids = [] }
  }
  mock_data "aws_ebs_volumes" {
    defaults = { ids = [] }
  }
  mock_data "aws_security_groups" {
    defaults = { ids = [] }
  }
  mock_data "aws_resourcegroupstaggingapi_resources" {
    defaults = { resource_tag_mapping_list = [] }
  }
}

variables {
  region = "us-east-1"
  owner  = "ann"
}

run "nothing_is_found" {
  command = plan

  assert {
    condition     = length(output.found) == 0
    error_message = jsonencode(output.found)
  }
  assert {
    condition     = one([for f in data.aws_instances.tagged["wanted"].filter : f.name if f.name != "tag:dtctl-owner"]) == "tag-key"
    error_message = "every cluster of this owner"
  }
}

run "one_cluster" {
  command = plan

  variables {
    cluster    = "demo"
    free_parts = false
  }

  assert {
    condition = toset([for f in data.aws_instances.tagged["wanted"].filter : "${f.name}=${join(",", f.values)}"]) == toset([
    "tag:dtctl-owner=ann", "tag:dtctl-cluster=demo"])
    error_message = jsonencode(data.aws_instances.tagged["wanted"].filter)
  }
  assert {
    condition     = length(data.aws_vpcs.tagged) == 0 && length(data.aws_resourcegroupstaggingapi_resources.tagged) == 0 && length(data.aws_iam_roles.path) == 0
    error_message = "only what costs money"
  }
}

run "gone" { # and a role of another region's cluster
  command = plan

  override_data {
    target = data.aws_resourcegroupstaggingapi_resources.tagged
    values = { resource_tag_mapping_list = [
      { resource_arn = "arn:aws:ec2:us-east-1:123456789012:internet-gateway/igw-0a", compliance_details = [], tags = {} },
      { resource_arn = "arn:aws:ec2:us-east-1:123456789012:key-pair/key-0b", compliance_details = [], tags = {} },
    ] }
  }
  override_data {
    target = data.aws_subnets.tagged
    values = { ids = ["subnet-0c"] }
  }
  override_data {
    target = data.aws_iam_roles.path
    values = { arns = ["arn:aws:iam::123456789012:role/dtctl/ann/demo/us-west-2/dtctl-1"] }
  }
  variables {
    gone_ids = ["igw-0a", "key-0b", "subnet-0c"]
    roles    = true
  }

  assert {
    condition     = length(output.found) == 0
    error_message = jsonencode(output.found)
  }
}

run "keep" {
  command = plan

  variables {
    keep_clusters = ["demo", "other"]
  }

  assert {
    condition     = toset(keys(data.aws_instances.tagged)) == toset(["wanted", "keep demo", "keep other"])
    error_message = "what is kept is looked for, too"
  }
}

run "refused" {
  command = plan

  variables {
    owner         = "*"
    cluster       = "*"
    keep_clusters = ["*"]
    endpoints     = { ec2 = "localhost" }
  }

  expect_failures = [var.owner, var.cluster, var.keep_clusters, var.endpoints]
}
