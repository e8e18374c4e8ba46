# SPDX-License-Identifier: Apache-2.0
# A cluster with every part, which tests/infra/infra_rules.t looks through.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  cluster        = "demo"
  owner          = "ann"
  run            = "resnet"
  expires        = "2026-01-02T03:04:05Z"
  region         = "us-east-1"
  nodes          = 2
  instance_type  = "g6.xlarge"
  ssh_public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHVudXNlZHVudXNlZHVudXNlZHVudXNlZHVudXNl ann"
  operator_cidrs = ["198.51.100.7/32"]
}

run "everything" {
  command = plan

  variables {
    egress    = "closed"
    s3_bucket = "data-of-ann"
    purchase  = "spot"
  }
  override_data {
    target = data.aws_ec2_instance_type.node
    values = { maximum_network_cards = 4, efa_maximum_interfaces = 4 }
  }
}
