# SPDX-License-Identifier: Apache-2.0
mock_provider "aws" {}

variables {
  name              = "dtctl-demo"
  names             = ["node0", "node1"]
  tags              = { dtctl-cluster = "demo", dtctl-owner = "ann" }
  expires           = "2026-01-02T03:04:05Z"
  instance_type     = "g6.xlarge"
  ami_id            = "ami-0123456789abcdef0"
  subnet_id         = "subnet-0123456789abcdef0"
  subnet_cidr       = "10.77.1.0/24"
  fixed_addresses   = true
  security_group_id = "sg-0123456789abcdef0"
  key_name          = "dtctl-demo-1"
  instance_profile  = null
  public_address    = "auto"
  interfaces        = []
  grouped           = false

  enters                  = true
  placement               = "auto,-"
  placement_group_name    = null
  purchase                = "on-demand"
  spot_max_price          = null
  capacity_reservation_id = null

  root_gb         = 100
  root_iops       = 4000
  root_throughput = 500
  kms_key_id      = null

  user_data_base64 = ["aGVsbG8=", "aGVsbG8="]
  config_hash      = "0123"
}

run "plain" {
  command = plan

  module {
    source = "./modules/nodes"
  }

  assert {
    condition     = [for n in aws_instance.node : n.private_ip] == ["10.77.1.10", "10.77.1.11"]
    error_message = "each rank has its address"
  }
  assert {
    condition = alltrue([for n in aws_instance.node : n.metadata_options[0].http_tokens == "required"
      && n.metadata_options[0].http_endpoint == "enabled" && n.metadata_options[0].http_put_response_hop_limit == 1
    && n.metadata_options[0].instance_metadata_tags == "disabled"])
    error_message = "IMDSv2 only, one hop"
  }
  assert {
    condition = alltrue([for n in aws_instance.node : n.root_block_device[0].encrypted
      && n.root_block_device[0].delete_on_termination && n.root_block_device[0].volume_type == "gp3"
      && n.root_block_device[0].volume_size == 100 && n.root_block_device[0].iops == 4000
    && n.root_block_device[0].throughput == 500])
    error_message = "an encrypted root volume that goes with the node"
  }
  assert {
    condition     = alltrue([for n in aws_instance.node : n.instance_initiated_shutdown_behavior == "terminate" && !n.disable_api_termination])
    error_message = "poweroff ends a node, and so does the API"
  }
  assert {
    condition     = alltrue([for n in aws_instance.node : n.timeouts.create == "40m" && n.timeouts.delete == "60m"])
    error_message = "time for metal types to start, and for GPUs to end"
  }
  assert {
    condition     = alltrue([for n in aws_instance.node : n.associate_public_ip_address && n.vpc_security_group_ids == toset(["sg-0123456789abcdef0"])])
    error_message = "a public address, one group"
  }
  assert {
    condition     = alltrue([for i, n in aws_instance.node : n.volume_tags == tomap({ dtctl-cluster = "demo", dtctl-owner = "ann", Name = "dtctl-demo-node${i}" })])
    error_message = "volumes have tags, too"
  }
  assert {
    condition     = length(aws_placement_group.cluster) + length(aws_eip.node) + length(aws_network_interface.node) == 0
    error_message = "and nothing more"
  }
}

run "group_of_a_reservation" {
  command = plan

  module {
    source = "./modules/nodes"
  }
  variables {
    placement_group_name = "theirs"
  }

  assert {
    condition     = alltrue([for n in aws_instance.node : n.placement_group == "theirs"]) && length(aws_placement_group.cluster) == 0
    error_message = "the group that is there"
  }
}

run "no_public_address" {
  command = plan

  module {
    source = "./modules/nodes"
  }
  variables {
    public_address = "none"
  }

  assert {
    condition     = length(aws_eip.node) == 0 && alltrue([for n in aws_instance.node : !n.associate_public_ip_address])
    error_message = "none is none"
  }
}

run "elastic_address" {
  command = plan

  module {
    source = "./modules/nodes"
  }
  variables {
    public_address = "elastic"
  }

  assert {
    condition     = length(aws_eip.node) == 2
    error_message = "one each"
  }
}

run "grouped_spot" {
  command = plan

  module {
    source = "./modules/nodes"
  }
  variables {
    purchase       = "spot"
    spot_max_price = "1.25"
    grouped        = true
  }

  assert {
    condition     = length(aws_placement_group.cluster) == 1 && aws_placement_group.cluster[0].strategy == "cluster" && alltrue([for n in aws_instance.node : n.placement_group == "dtctl-demo-0123456789abcdef0"])
    error_message = "in one group"
  }
  assert {
    condition = alltrue([for n in aws_instance.node : n.instance_market_options[0].market_type == "spot"
      && n.instance_market_options[0].spot_options[0].max_price == "1.25"
      && n.instance_market_options[0].spot_options[0].spot_instance_type == "one-time"
    && n.instance_market_options[0].spot_options[0].instance_interruption_behavior == "terminate"])
    error_message = "a one-time request"
  }
}

run "reservation" {
  command = plan

  module {
    source = "./modules/nodes"
  }
  variables {
    purchase                = "reservation"
    capacity_reservation_id = "cr-0123456789abcdef0"
  }

  assert {
    condition     = alltrue([for n in aws_instance.node : n.capacity_reservation_specification[0].capacity_reservation_target[0].capacity_reservation_id == "cr-0123456789abcdef0"])
    error_message = "in the reservation"
  }
}

run "capacity_block" {
  command = plan

  module {
    source = "./modules/nodes"
  }
  variables {
    purchase                = "capacity-block"
    capacity_reservation_id = "cr-0123456789abcdef0"
  }

  assert {
    condition = alltrue([for n in aws_instance.node : n.instance_market_options[0].market_type == "capacity-block"
    && n.capacity_reservation_specification[0].capacity_reservation_target[0].capacity_reservation_id == "cr-0123456789abcdef0"])
    error_message = "in the block"
  }
}

run "efa" {
  command = plan

  module {
    source = "./modules/nodes"
  }
  variables {
    interfaces = [
      { card = 0, device = 0, type = "interface" },
      { card = 0, device = 1, type = "efa-only" },
      { card = 1, device = 0, type = "efa-only" },
    ]
  }

  assert {
    condition     = length(aws_network_interface.node) == 6 && length(aws_eip.node) == 2
    error_message = "three interfaces and an elastic address each"
  }
  assert {
    condition     = aws_network_interface.node["1-0-0"].private_ips == toset(["10.77.1.11"]) && aws_network_interface.node["1-1-0"].interface_type == "efa-only"
    error_message = "the address is on the first one"
  }
  assert {
    condition     = alltrue([for i in aws_network_interface.node : i.security_groups == toset(["sg-0123456789abcdef0"])])
    error_message = "all are in the group"
  }
  assert {
    condition = alltrue([for n in aws_instance.node : toset([for i in n.network_interface : "${i.network_card_index} ${i.device_index}"])
    == toset(["0 0", "0 1", "1 0"])])
    error_message = "each on its card"
  }
}

run "efa_of_one_card" {
  command = plan

  module {
    source = "./modules/nodes"
  }
  variables {
    interfaces = [{ card = 0, device = 0, type = "efa" }]
  }

  assert {
    condition     = length(aws_network_interface.node) + length(aws_eip.node) == 0 && length(aws_launch_template.node) == 2
    error_message = "the interface comes with its instance"
  }
  assert {
    condition = [for t in aws_launch_template.node : "${t.network_interfaces[0].interface_type} ${t.network_interfaces[0].private_ip_address} ${t.network_interfaces[0].associate_public_ip_address}"] == [
    "efa 10.77.1.10 true", "efa 10.77.1.11 true"]
    error_message = "it is both, has the rank's address, and a public one that costs nothing more"
  }
  assert {
    condition     = alltrue([for n in aws_instance.node : length(n.launch_template) == 1])
    error_message = "an instance takes its network from the template alone"
  }
}

run "efa_private" {
  command = plan

  module {
    source = "./modules/nodes"
  }
  variables {
    public_address = "none"
    interfaces     = [{ card = 0, device = 0, type = "efa" }]
  }

  assert {
    condition     = length(aws_eip.node) == 0 && alltrue([for t in aws_launch_template.node : t.network_interfaces[0].associate_public_ip_address == "false"])
    error_message = "one interface that is both, without a public address"
  }
}

run "user_data_too_large" {
  command = plan

  module {
    source = "./modules/nodes"
  }
  variables {
    user_data_base64 = [join("", [for i in range(1000) : "0123456789abcdefghijklmn"]), ""]
  }

  expect_failures = [aws_instance.node]
}

run "subnet_of_others" {
  command = apply

  module {
    source = "./modules/nodes"
  }
  variables {
    fixed_addresses = false
  }
  override_resource {
    target = aws_instance.node
    values = { private_ip = "10.77.1.200" }
  }

  assert {
    condition     = [for n in output.nodes : n.private_ip] == ["10.77.1.200", "10.77.1.200"]
    error_message = "addresses are those that EC2 gave: ${jsonencode(output.nodes)}"
  }
}

run "subnet_of_others_with_interfaces" {
  command = apply

  module {
    source = "./modules/nodes"
  }
  variables {
    fixed_addresses = false
    interfaces      = [{ card = 0, device = 0, type = "interface" }, { card = 0, device = 1, type = "efa-only" }]
  }

  assert {
    condition     = length([for i in aws_network_interface.node : i if try(contains(tolist(i.private_ips), "10.77.1.10"), false)]) == 0
    error_message = "nor has an interface a fixed one"
  }
}

run "one_node_of_a_cluster_that_may_grow" {
  command = apply

  module {
    source = "./modules/nodes"
  }
  variables {
    grouped = true
    enters  = false
  }

  assert {
    condition     = alltrue([for n in aws_instance.node : n.placement_group != aws_placement_group.cluster[0].name]) && length(aws_placement_group.cluster) == 1
    error_message = "it stands outside of the group that others would enter"
  }
}
