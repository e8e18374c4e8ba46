# SPDX-License-Identifier: Apache-2.0
# Mock answers of AWS in the tests of the whole module.

mock_data "aws_ec2_instance_type" {
  defaults = {
    supported_architectures        = ["x86_64"]
    supported_placement_strategies = ["cluster", "partition", "spread"]
    maximum_network_cards          = 1
    efa_maximum_interfaces         = 0
    default_vcpus                  = 4
    gpus                           = [{ count = 1, manufacturer = "NVIDIA", memory_size = 22888, name = "L4" }]
  }
}
mock_data "aws_ec2_instance_type_offerings" {
  defaults = { locations = ["us-east-1c", "us-east-1b"] }
}
mock_data "aws_ssm_parameter" {
  defaults = { insecure_value = "ami-0123456789abcdef0" }
}
mock_data "aws_ami" {
  defaults = { architecture = "x86_64" }
}
mock_data "aws_region" {
  defaults = { name = "us-east-1" }
}
mock_data "aws_partition" {
  defaults = { partition = "aws" }
}
mock_data "aws_prefix_list" {
  defaults = { id = "pl-63a5400a" }
}
mock_resource "aws_instance" {
  defaults = { id = "i-0123456789abcdef0", public_ip = "203.0.113.9" }
}
mock_resource "aws_security_group" {
  defaults = { id = "sg-0123456789abcdef0" }
}
mock_resource "aws_eip" {
  defaults = { public_ip = "203.0.113.10" }
}
