# SPDX-License-Identifier: Apache-2.0
# Finds resources with the tags of a cluster. Instances and addresses, which cost money, come from
# EC2 itself. Resources that only the tagging API lists may be stale for hours, so they are found
# with the free parts, without those that are known to be gone (gone_ids).

locals {
  # One search for what is wanted, and one for each cluster that is to be kept; what the latter find
  # is taken away from the former.
  searches = merge(
    { wanted = { name = var.cluster == null ? "tag-key" : "tag:dtctl-cluster", value = coalesce(var.cluster, "dtctl-cluster") } },
    { for c in var.keep_clusters : "keep ${c}" => { name = "tag:dtctl-cluster", value = c } },
  )
  free = { for k, s in local.searches : k => s if var.free_parts }
}

# ---- what costs money ---------------------------------------------------------------------------
data "aws_instances" "tagged" {
  for_each = local.searches

  instance_state_names = concat(["pending", "running", "stopping", "stopped"], var.ending ? ["shutting-down"] : [])

  filter {
    name   = "tag:dtctl-owner"
    values = [var.owner]
  }
  filter {
    name   = each.value.name
    values = [each.value.value]
  }
}

data "aws_instance" "found" {
  for_each = local.instances

  instance_id = each.key
}

data "aws_eips" "tagged" {
  for_each = local.searches

  filter {
    name   = "tag:dtctl-owner"
    values = [var.owner]
  }
  filter {
    name   = each.value.name
    values = [each.value.value]
  }
}

# Volumes go with their instances; one that is alone was left by an instance that never started.
data "aws_ebs_volumes" "tagged" {
  for_each = local.searches

  filter {
    name   = "status"
    values = ["available"]
  }
  filter {
    name   = "tag:dtctl-owner"
    values = [var.owner]
  }
  filter {
    name   = each.value.name
    values = [each.value.value]
  }
}

# ---- what is free -------------------------------------------------------------------------------
data "aws_network_interfaces" "tagged" {
  for_each = local.free

  filter {
    name   = "tag:dtctl-owner"
    values = [var.owner]
  }
  filter {
    name   = each.value.name
    values = [each.value.value]
  }
}

data "aws_security_groups" "tagged" {
  for_each = local.free

  # Except default groups with such tags: they are removed with their VPC.
  filter {
    name   = "group-name"
    values = ["dtctl-*"]
  }
  filter {
    name   = "tag:dtctl-owner"
    values = [var.owner]
  }
  filter {
    name   = each.value.name
    values = [each.value.value]
  }
}

data "aws_subnets" "tagged" {
  for_each = local.free

  filter {
    name   = "tag:dtctl-owner"
    values = [var.owner]
  }
  filter {
    name   = each.value.name
    values = [each.value.value]
  }
}

data "aws_route_tables" "tagged" {
  for_each = local.free

  filter {
    name   = "tag:dtctl-owner"
    values = [var.owner]
  }
  filter {
    name   = each.value.name
    values = [each.value.value]
  }
}

data "aws_vpcs" "tagged" {
  for_each = local.free

  filter {
    name   = "tag:dtctl-owner"
    values = [var.owner]
  }
  filter {
    name   = each.value.name
    values = [each.value.value]
  }
}

data "aws_resourcegroupstaggingapi_resources" "tagged" {
  count = var.free_parts ? 1 : 0

  resource_type_filters = ["ec2:internet-gateway", "ec2:key-pair", "ec2:launch-template", "ec2:placement-group", "ec2:vpc-endpoint"]

  tag_filter {
    key    = "dtctl-owner"
    values = [var.owner]
  }
  tag_filter {
    key    = "dtctl-cluster"
    values = var.cluster == null ? [] : [var.cluster]
  }
}

# The tagging API has the id of a key pair, and the import wants its name.
data "aws_key_pair" "found" {
  for_each = lookup(local.listed, "key-pair", toset([]))

  key_pair_id = each.key
}

# ---- roles --------------------------------------------------------------------------------------
data "aws_iam_roles" "path" {
  count = var.roles ? 1 : 0

  path_prefix = "/dtctl/${var.owner}/${var.cluster == null ? "" : "${var.cluster}/${var.region}/"}"
}

data "aws_iam_instance_profiles" "found" {
  for_each = local.roles

  role_name = each.key
}

# ---- the list -----------------------------------------------------------------------------------
locals {
  kept = [for k in keys(local.searches) : k if k != "wanted"]
  gone = tolist(var.gone_ids)

  instances = setsubtract(data.aws_instances.tagged["wanted"].ids, flatten([for k in local.kept : data.aws_instances.tagged[k].ids]))
  addresses = setsubtract(data.aws_eips.tagged["wanted"].allocation_ids, flatten([for k in local.kept : data.aws_eips.tagged[k].allocation_ids]))
  volumes   = setsubtract(data.aws_ebs_volumes.tagged["wanted"].ids, flatten([for k in local.kept : data.aws_ebs_volumes.tagged[k].ids]))

  interfaces   = setsubtract(try(data.aws_network_interfaces.tagged["wanted"].ids, []), concat(flatten([for k in local.kept : try(data.aws_network_interfaces.tagged[k].ids, [])]), local.gone))
  groups       = setsubtract(try(data.aws_security_groups.tagged["wanted"].ids, []), concat(flatten([for k in local.kept : try(data.aws_security_groups.tagged[k].ids, [])]), local.gone))
  subnets      = setsubtract(try(data.aws_subnets.tagged["wanted"].ids, []), concat(flatten([for k in local.kept : try(data.aws_subnets.tagged[k].ids, [])]), local.gone))
  route_tables = setsubtract(try(data.aws_route_tables.tagged["wanted"].ids, []), concat(flatten([for k in local.kept : try(data.aws_route_tables.tagged[k].ids, [])]), local.gone))
  vpcs         = setsubtract(try(data.aws_vpcs.tagged["wanted"].ids, []), concat(flatten([for k in local.kept : try(data.aws_vpcs.tagged[k].ids, [])]), local.gone))

  # From "arn:aws:ec2:REGION:ACCOUNT:KIND/NAME"; by kind.
  listed = { for kind in ["internet-gateway", "key-pair", "launch-template", "placement-group", "vpc-endpoint"] : kind => toset([
    for r in flatten(data.aws_resourcegroupstaggingapi_resources.tagged[*].resource_tag_mapping_list) :
    split("/", r.resource_arn)[1]
    if split("/", split(":", r.resource_arn)[5])[0] == kind
    && !contains(var.keep_clusters, lookup(r.tags, "dtctl-cluster", ""))
    && !contains(local.gone, split("/", r.resource_arn)[1])
  ]) }
  key_pairs = toset([for k in data.aws_key_pair.found : k.key_name])

  # From "arn:aws:iam::ACCOUNT:role/dtctl/OWNER/CLUSTER/REGION/NAME"; roles belong to no region, but
  # a cluster of this name in another one has its own.
  roles = toset([for arn in flatten([for r in data.aws_iam_roles.path : tolist(r.arns)]) :
    split("/", arn)[5] if length(split("/", arn)) == 6 && try(split("/", arn)[4], "") == var.region
    && !contains(var.keep_clusters, try(split("/", arn)[3], ""))
    && !contains(local.gone, try(split("/", arn)[5], ""))
  ])
  profiles = toset(flatten([for p in data.aws_iam_instance_profiles.found : tolist(p.names)]))

  parts = {
    address           = local.addresses
    volume            = local.volumes
    network-interface = local.interfaces
    security-group    = local.groups
    subnet            = local.subnets
    route-table       = local.route_tables
    internet-gateway  = local.listed["internet-gateway"]
    vpc-endpoint      = local.listed["vpc-endpoint"]
    vpc               = local.vpcs
    key-pair          = local.key_pairs
    launch-template   = local.listed["launch-template"]
    placement-group   = local.listed["placement-group"]
    role              = local.roles
    instance-profile  = local.profiles
  }
}
