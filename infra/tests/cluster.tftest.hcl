# SPDX-License-Identifier: Apache-2.0
# The root module: what it looks up, chooses, and hands to its parts.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  cluster        = "demo"
  owner          = "ann"
  run            = "resnet 18"
  expires        = "2026-01-02T03:04:05Z"
  region         = "us-east-1"
  nodes          = 2
  instance_type  = "g6.xlarge"
  ssh_public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHVudXNlZHVudXNlZHVudXNlZHVudXNlZHVudXNl ann"
  operator_cidrs = ["198.51.100.7/32"]
  tags           = { team = "vision" }
}

run "plain" {
  assert {
    condition     = output.facts.az == "us-east-1b" && output.facts.zones == tolist(["us-east-1b", "us-east-1c"])
    error_message = "the first zone in order is chosen: ${jsonencode(output.facts)}"
  }
  assert {
    condition     = [for n in output.facts.nodes : n.private_ip] == ["10.77.1.10", "10.77.1.11"]
    error_message = "each rank has its address: ${jsonencode(output.facts.nodes)}"
  }
  assert {
    condition     = [for n in output.facts.nodes : n.name] == ["node0", "node1"]
    error_message = "nodes have names: ${jsonencode(output.facts.nodes)}"
  }
  assert {
    condition     = output.facts.ami_id == "ami-0123456789abcdef0" && output.facts.efa_count == 0 && output.facts.gpus == 1
    error_message = "image and devices: ${jsonencode(output.facts)}"
  }
  assert {
    condition     = nonsensitive(output.variables) == jsonencode({ az = null, bootstrap_host_keys = [], cluster = "demo", expires = "2026-01-02T03:04:05Z", idle_s = 3600, made = "", node_names = ["node0", "node1"], operator_cidrs = ["198.51.100.7/32"], outside_group = false, owner = "ann", purchase = "on-demand", region = "us-east-1", ssh_public_key = var.ssh_public_key, ttl_s = 43200 })
    error_message = "what another folder goes on from: ${nonsensitive(output.variables)}"
  }
  assert {
    condition     = length(data.aws_ssm_parameter.image) == 1 && strcontains(data.aws_ssm_parameter.image[0].name, "/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/")
    error_message = "an image with a driver for a type with a GPU"
  }
  assert {
    condition     = output.inventory == <<-EOT
      # The nodes of this cluster.
      format = 1
      name = "demo"
      provider = "aws"

      [[node]]
      name = "node0"
      transport = "ssh"
      user = "ubuntu"
      host = "203.0.113.9"
      port = 22
      address = "10.77.1.10"
      root = ".dtctl"
      instance_id = "i-0123456789abcdef0"
      instance_type = "g6.xlarge"
      zone = "us-east-1b"
      purchase = "on-demand"
      config_hash = "${output.facts.config_hash}"

      [[node]]
      name = "node1"
      transport = "ssh"
      user = "ubuntu"
      host = "203.0.113.9"
      port = 22
      address = "10.77.1.11"
      root = ".dtctl"
      instance_id = "i-0123456789abcdef0"
      instance_type = "g6.xlarge"
      zone = "us-east-1b"
      purchase = "on-demand"
      config_hash = "${output.facts.config_hash}"
    EOT
    error_message = "the inventory: ${output.inventory}"
  }
  assert {
    condition = jsonencode(local.tags) == jsonencode({
      Name          = "dtctl-demo"
      dtctl-cluster = "demo"
      dtctl-owner   = "ann"
      dtctl-run     = "resnet 18"
      team          = "vision"
    })
    error_message = "tags: ${jsonencode(local.tags)}"
  }
}

run "a_new_image_and_a_new_zone_do_not_replace_a_cluster" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type_offerings.node
    values = { locations = ["us-east-1a", "us-east-1b", "us-east-1c"] }
  }
  override_data {
    target = data.aws_ssm_parameter.image
    values = { insecure_value = "ami-0fedcba9876543210" }
  }

  assert {
    condition     = output.facts.ami_id == "ami-0123456789abcdef0" && output.facts.az == "us-east-1b"
    error_message = "what was chosen is kept: ${jsonencode(output.facts)}"
  }
}

run "another_set_up_is_for_new_nodes" {
  command = plan

  variables {
    ssh_user = "admin"
    nodes    = 3
  }

  assert {
    condition = (output.facts.nodes[0].config_hash == run.plain.facts.config_hash &&
      output.facts.nodes[1].config_hash == run.plain.facts.config_hash &&
    output.facts.nodes[2].config_hash == output.facts.config_hash && output.facts.config_hash != run.plain.facts.config_hash)
    error_message = "a node says what it was set up with: ${jsonencode(output.facts.nodes)}"
  }
  assert {
    condition     = output.facts.nodes[0].id == "i-0123456789abcdef0" && output.facts.nodes[2].private_ip == "10.77.1.12"
    error_message = "a cluster grows in place: ${jsonencode(output.facts.nodes)}"
  }
}

run "another_lease_is_not_another_set_up" {
  command = plan

  variables {
    ttl_s  = 60
    idle_s = 0
  }

  assert {
    condition     = output.facts.config_hash == run.plain.facts.config_hash
    error_message = "when nodes end can be changed while they run: ${output.facts.config_hash}"
  }
}

run "image_without_gpu" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.node
    values = { gpus = [] }
  }

  assert {
    condition     = strcontains(data.aws_ssm_parameter.image[0].name, "/canonical/ubuntu/server/24.04/stable/current/amd64/")
    error_message = "plain Ubuntu: ${data.aws_ssm_parameter.image[0].name}"
  }
}

run "image_by_id" {
  command = plan

  variables {
    ami_id = "ami-0fedcba9876543210"
  }

  assert {
    condition     = length(data.aws_ssm_parameter.image) == 0
    error_message = "nothing is looked up"
  }
}

run "image_by_parameter" {
  command = plan

  variables {
    ami_ssm_parameter = "/my/image"
  }

  assert {
    condition     = data.aws_ssm_parameter.image[0].name == "/my/image"
    error_message = "the given one"
  }
}

run "one_card" { # g6.8xlarge: one interface is both
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.node
    values = { maximum_network_cards = 1, efa_maximum_interfaces = 1 }
  }

  assert {
    condition     = jsonencode(local.interfaces) == jsonencode([{ card = 0, device = 0, type = "efa" }])
    error_message = jsonencode(local.interfaces)
  }
}

run "as_many_cards_as_efas" { # p4d.24xlarge
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.node
    values = { maximum_network_cards = 4, efa_maximum_interfaces = 4 }
  }

  assert {
    condition = jsonencode(local.interfaces) == jsonencode([
      { card = 0, device = 0, type = "interface" },
      { card = 0, device = 1, type = "efa-only" },
      { card = 1, device = 0, type = "efa-only" },
      { card = 2, device = 0, type = "efa-only" },
      { card = 3, device = 0, type = "efa-only" },
    ])
    error_message = jsonencode(local.interfaces)
  }
}

run "first_card_without_efa" { # p6-b300.48xlarge
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.node
    values = { maximum_network_cards = 17, efa_maximum_interfaces = 16 }
  }

  assert {
    condition = (length(local.interfaces) == 17 && length([for i in local.interfaces : i if i.card == 0]) == 1 &&
    length([for i in local.interfaces : i if i.type == "efa-only" && i.device == 0]) == 16)
    error_message = jsonencode(local.interfaces)
  }
}

run "no_card_with_efa" { # g6.xlarge: the provider leaves the number null
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.node
    values = { maximum_network_cards = 1, efa_maximum_interfaces = null }
  }

  assert {
    condition     = length(local.interfaces) == 0 && output.facts.efa_count == 0
    error_message = jsonencode(local.interfaces)
  }
}

run "efa_off" {
  command = plan

  variables {
    efa = "off"
  }
  override_data {
    target = data.aws_ec2_instance_type.node
    values = { maximum_network_cards = 4, efa_maximum_interfaces = 4 }
  }

  assert {
    condition     = length(local.interfaces) == 0 && output.facts.efa_count == 0
    error_message = jsonencode(local.interfaces)
  }
}

run "placement_where_it_helps" {
  command = plan

  assert {
    condition     = local.grouped && local.enters
    error_message = "this type can be placed"
  }
}

run "placement_of_one_node" {
  command = plan

  variables {
    nodes = 1
  }

  assert {
    condition     = !local.enters
    error_message = "one node without EFA stands anywhere"
  }
}

run "placement_outside_of_a_full_group" {
  command = plan

  variables {
    outside_group = true
  }

  assert {
    condition     = local.grouped && !local.enters
    error_message = "the group stays, and new nodes stand anywhere"
  }
}

run "placement_of_a_reservation" {
  command = plan

  variables {
    purchase                = "reservation"
    capacity_reservation_id = "cr-0123456789abcdef0"
    az                      = "us-east-1b"
  }

  assert {
    condition     = !local.grouped
    error_message = "a new group cannot hold a reservation"
  }
}

run "metadata" {
  command = plan

  assert {
    condition     = local.closed_metadata
    error_message = "nothing in it is for runs"
  }
}

run "metadata_with_a_role" {
  command = plan

  variables {
    s3_bucket = "data-of-ann"
  }

  assert {
    condition     = !local.closed_metadata
    error_message = "the role is for runs"
  }
}

run "metadata_with_a_profile" {
  command = plan

  variables {
    instance_profile = "theirs"
  }

  assert {
    condition     = !local.closed_metadata
    error_message = "the profile is for runs"
  }
}

run "metadata_closed_all_the_same" {
  command = plan

  variables {
    instance_profile = "theirs"
    closed_metadata  = true
  }

  assert {
    condition     = local.closed_metadata
    error_message = "who says so has it closed"
  }
}

run "local_zone" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type_offerings.node
    values = { locations = ["us-east-1-atl-1a", "us-east-1b"] }
  }

  assert {
    condition     = local.zones == tolist(["us-east-1b"])
    error_message = "one that was opted in to is for those who name it: ${jsonencode(local.zones)}"
  }
}

run "arm" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.node
    values = { supported_architectures = ["arm64"] }
  }

  expect_failures = [terraform_data.zone]
}

run "placement_where_it_cannot" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.node
    values = { supported_placement_strategies = ["partition", "spread"] }
  }

  assert {
    condition     = !local.grouped
    error_message = "this type cannot be placed"
  }
}

run "placement_off" {
  command = plan

  variables {
    placement_group = "off"
  }

  assert {
    condition     = !local.grouped
    error_message = "off is off"
  }
}
