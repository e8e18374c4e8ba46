# SPDX-License-Identifier: Apache-2.0
# Imports everything found into this state unchanged, so that a destroy removes it. Dependent
# resources are removed first. The arguments are required but unused.

import {
  for_each = local.instances
  to       = aws_instance.found[each.key]
  id       = each.key
}

resource "aws_instance" "found" {
  for_each = local.instances

  ami           = "ami-00000000"
  instance_type = "none"

  lifecycle {
    ignore_changes = all
  }

  depends_on = [
    aws_placement_group.found,
    aws_launch_template.found,
    aws_key_pair.found,
    aws_iam_instance_profile.found,
    aws_network_interface.found,
    aws_security_group.found,
    aws_subnet.found,
    aws_internet_gateway.found,
    aws_route_table.found,
    aws_vpc_endpoint.found,
  ]
}

import {
  for_each = local.addresses
  to       = aws_eip.found[each.key]
  id       = each.key
}

resource "aws_eip" "found" {
  for_each = local.addresses

  lifecycle {
    ignore_changes = all
  }

  depends_on = [
    aws_instance.found,
    aws_network_interface.found,
    aws_internet_gateway.found,
  ]
}

import {
  for_each = local.volumes
  to       = aws_ebs_volume.found[each.key]
  id       = each.key
}

resource "aws_ebs_volume" "found" {
  for_each = local.volumes

  availability_zone = "none"
  size              = 1

  lifecycle {
    ignore_changes = all
  }
}

import {
  for_each = local.interfaces
  to       = aws_network_interface.found[each.key]
  id       = each.key
}

resource "aws_network_interface" "found" {
  for_each = local.interfaces

  subnet_id = "none"

  lifecycle {
    ignore_changes = all
  }

  depends_on = [
    aws_security_group.found,
    aws_subnet.found,
  ]
}

import {
  for_each = local.groups
  to       = aws_security_group.found[each.key]
  id       = each.key
}

resource "aws_security_group" "found" {
  for_each = local.groups

  lifecycle {
    ignore_changes = all
  }

  depends_on = [
    aws_vpc.found,
  ]
}

import {
  for_each = local.listed["vpc-endpoint"]
  to       = aws_vpc_endpoint.found[each.key]
  id       = each.key
}

resource "aws_vpc_endpoint" "found" {
  for_each = local.listed["vpc-endpoint"]

  vpc_id = "none"

  lifecycle {
    ignore_changes = all
  }

  depends_on = [
    aws_route_table.found,
  ]
}

import {
  for_each = local.route_tables
  to       = aws_route_table.found[each.key]
  id       = each.key
}

resource "aws_route_table" "found" {
  for_each = local.route_tables

  vpc_id = "none"

  lifecycle {
    ignore_changes = all
  }

  depends_on = [
    aws_subnet.found,
    aws_internet_gateway.found,
  ]
}

import {
  for_each = local.subnets
  to       = aws_subnet.found[each.key]
  id       = each.key
}

resource "aws_subnet" "found" {
  for_each = local.subnets

  vpc_id = "none"

  lifecycle {
    ignore_changes = all
  }

  depends_on = [
    aws_vpc.found,
  ]
}

import {
  for_each = local.listed["internet-gateway"]
  to       = aws_internet_gateway.found[each.key]
  id       = each.key
}

resource "aws_internet_gateway" "found" {
  for_each = local.listed["internet-gateway"]

  lifecycle {
    ignore_changes = all
  }

  depends_on = [
    aws_vpc.found,
  ]
}

import {
  for_each = local.vpcs
  to       = aws_vpc.found[each.key]
  id       = each.key
}

resource "aws_vpc" "found" {
  for_each = local.vpcs

  lifecycle {
    ignore_changes = all
  }
}

import {
  for_each = local.key_pairs
  to       = aws_key_pair.found[each.key]
  id       = each.key
}

resource "aws_key_pair" "found" {
  for_each = local.key_pairs

  public_key = "none"

  lifecycle {
    ignore_changes = all
  }
}

import {
  for_each = local.listed["launch-template"]
  to       = aws_launch_template.found[each.key]
  id       = each.key
}

resource "aws_launch_template" "found" {
  for_each = local.listed["launch-template"]

  lifecycle {
    ignore_changes = all
  }
}

import {
  for_each = local.listed["placement-group"]
  to       = aws_placement_group.found[each.key]
  id       = each.key
}

resource "aws_placement_group" "found" {
  for_each = local.listed["placement-group"]

  name     = each.key
  strategy = "cluster"

  lifecycle {
    ignore_changes = all
  }
}

import {
  for_each = local.profiles
  to       = aws_iam_instance_profile.found[each.key]
  id       = each.key
}

resource "aws_iam_instance_profile" "found" {
  for_each = local.profiles

  lifecycle {
    ignore_changes = all
  }

  depends_on = [
    aws_iam_role.found,
  ]
}

import {
  for_each = local.roles
  to       = aws_iam_role.found[each.key]
  id       = each.key
}

resource "aws_iam_role" "found" {
  for_each = local.roles

  assume_role_policy = "{}"

  lifecycle {
    ignore_changes = all
  }
}
