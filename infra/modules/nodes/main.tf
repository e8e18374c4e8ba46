# SPDX-License-Identifier: Apache-2.0
# The instances. In a subnet of the cluster's own rank n has the (10 + n)th address, whatever instance
# it is; in one that others use, too, EC2 chooses.

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

locals {
  nodes = length(var.names)

  # Interfaces that are made one by one get no public address at launch. A single one that is not the
  # usual kind is made with its instance from a template, where alone its kind can be said.
  plain     = length(var.interfaces) == 0
  templates = length(var.interfaces) == 1 ? local.nodes : 0
  apart     = length(var.interfaces) > 1
  elastic   = var.public_address == "elastic" || (var.public_address == "auto" && local.apart)

  interfaces = merge([for rank, name in var.names : {
    for i in var.interfaces : "${rank}-${i.card}-${i.device}" => merge(i, { rank = rank, node = name })
    if local.apart
  }]...)

  # EC2's limit is 16 KB before base64, which makes four bytes of three.
  user_data_base64_bytes_max = 16384 / 3 * 4
}

# Its name is free again only when it is gone, so it is as new as the security group.
resource "aws_placement_group" "cluster" {
  count = var.grouped ? 1 : 0

  name     = "${var.name}-${trimprefix(var.security_group_id, "sg-")}"
  strategy = "cluster"
  tags     = merge(var.tags, { Name = var.name })
}

resource "aws_network_interface" "node" {
  for_each = local.interfaces

  subnet_id       = var.subnet_id
  security_groups = [var.security_group_id]
  interface_type  = each.value.type == "interface" ? null : each.value.type
  private_ips = (each.value.type == "efa-only" || !var.fixed_addresses ? null :
  [cidrhost(var.subnet_cidr, 10 + each.value.rank)])
  description = "${var.name} ${each.value.node} card ${each.value.card} device ${each.value.device}"
  tags        = merge(var.tags, { Name = "${var.name}-${each.value.node}" })
}

resource "aws_eip" "node" {
  count = local.elastic ? local.nodes : 0

  domain            = "vpc"
  network_interface = local.apart ? aws_network_interface.node["${count.index}-0-0"].id : null
  instance          = local.apart ? null : aws_instance.node[count.index].id
  tags              = merge(var.tags, { Name = "${var.name}-${var.names[count.index]}" })
}

resource "aws_launch_template" "node" {
  count = local.templates

  name = "${var.name}-${var.names[count.index]}-${trimprefix(var.security_group_id, "sg-")}"
  tags = merge(var.tags, { Name = "${var.name}-${var.names[count.index]}" })

  network_interfaces {
    device_index                = var.interfaces[0].device
    interface_type              = var.interfaces[0].type
    subnet_id                   = var.subnet_id
    security_groups             = [var.security_group_id]
    private_ip_address          = var.fixed_addresses ? cidrhost(var.subnet_cidr, 10 + count.index) : null
    associate_public_ip_address = local.elastic ? null : var.public_address == "auto"
    delete_on_termination       = true
  }
}

# Another type is another node: the provider would stop it, and lose what is on its own disks.
resource "terraform_data" "shape" {
  input = var.instance_type
}

resource "terraform_data" "placement" {
  input = var.placement
}

# Settings of a template that describe its instance. No other setting replaces a node.
resource "terraform_data" "template" {
  input = local.templates == 0 ? "" : join(",", [var.subnet_id, var.security_group_id, var.public_address])
}

resource "aws_instance" "node" {
  count = local.nodes

  ami                  = var.ami_id
  instance_type        = var.instance_type
  key_name             = var.key_name
  iam_instance_profile = var.instance_profile
  placement_group      = !var.grouped ? var.placement_group_name : var.enters ? aws_placement_group.cluster[0].name : null
  user_data_base64     = var.user_data_base64[count.index]

  # With interfaces of its own, an instance takes address and group from them. With an elastic address
  # it reads as public: false would replace it in the next plan.
  subnet_id                   = local.plain ? var.subnet_id : null
  private_ip                  = local.plain && var.fixed_addresses ? cidrhost(var.subnet_cidr, 10 + count.index) : null
  vpc_security_group_ids      = local.plain ? [var.security_group_id] : null
  associate_public_ip_address = local.plain && !local.elastic ? var.public_address == "auto" : null

  # `poweroff` on the node ends it, which needs no permission: the lease and idle units rely on it.
  instance_initiated_shutdown_behavior = "terminate"
  disable_api_termination              = false

  tags = merge(var.tags, {
    Name          = "${var.name}-${var.names[count.index]}"
    dtctl-node    = var.names[count.index]
    dtctl-config  = var.config_hash
    dtctl-expires = var.expires
  })
  volume_tags = merge(var.tags, { Name = "${var.name}-${var.names[count.index]}" })

  root_block_device {
    volume_type           = "gp3"
    volume_size           = var.root_gb
    iops                  = var.root_iops
    throughput            = var.root_throughput
    encrypted             = true
    kms_key_id            = var.kms_key_id
    delete_on_termination = true
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
    instance_metadata_tags      = "disabled" # it would forbid tags with spaces or "/"
  }

  # A metal type may be pending, and one with GPUs shutting down, for a long time.
  timeouts {
    create = "40m"
    delete = "60m"
  }

  dynamic "launch_template" {
    for_each = local.templates > 0 ? [aws_launch_template.node[count.index]] : []

    content {
      id      = launch_template.value.id
      version = launch_template.value.latest_version
    }
  }

  dynamic "network_interface" {
    for_each = local.apart ? var.interfaces : []

    content {
      network_interface_id = aws_network_interface.node["${count.index}-${network_interface.value.card}-${network_interface.value.device}"].id
      network_card_index   = network_interface.value.card
      device_index         = network_interface.value.device
    }
  }

  dynamic "instance_market_options" {
    for_each = var.purchase == "spot" ? [1] : []

    content {
      market_type = "spot"

      spot_options {
        max_price                      = var.spot_max_price
        spot_instance_type             = "one-time"
        instance_interruption_behavior = "terminate"
      }
    }
  }

  dynamic "instance_market_options" {
    for_each = var.purchase == "capacity-block" ? [1] : []

    content {
      market_type = "capacity-block"
    }
  }

  dynamic "capacity_reservation_specification" {
    for_each = var.capacity_reservation_id == null ? [] : [var.capacity_reservation_id]

    content {
      capacity_reservation_target {
        capacity_reservation_id = capacity_reservation_specification.value
      }
    }
  }

  lifecycle {
    # A newer image or another set-up is for new nodes; the tag says what a node was set up with.
    # No instance can enter or leave a group while the cluster grows from one node, or back to one.
    ignore_changes       = [placement_group, launch_template, ami, user_data_base64, tags["dtctl-config"], tags_all["dtctl-config"], metadata_options[0].instance_metadata_tags]
    replace_triggered_by = [terraform_data.shape, terraform_data.placement, terraform_data.template]

    precondition {
      condition     = length(var.user_data_base64[count.index]) <= local.user_data_base64_bytes_max
      error_message = "user data: ${var.names[count.index]}'s is larger than EC2's 16384 bytes."
    }
  }
}
