# SPDX-License-Identifier: Apache-2.0
# One cluster: a network or an existing one, one shared security group, N instances.

locals {
  name  = "dtctl-${var.cluster}"
  names = length(var.node_names) > 0 ? var.node_names : [for r in range(var.nodes) : "node${r}"]

  tags = merge(var.tags, {
    dtctl-cluster = var.cluster
    dtctl-owner   = var.owner
    Name          = local.name
  }, var.run == "" ? {} : { dtctl-run = var.run })

  # Nothing but these ranges may be this wide, so that a typing error does not open the cluster.
  wide_cidrs = [for c in var.operator_cidrs : c
  if tonumber(split("/", c)[1]) < (strcontains(c, ":") ? 16 : 8)]
}

# ---- what the type is ---------------------------------------------------------------------------
data "aws_ec2_instance_type" "node" {
  instance_type = var.instance_type
}

data "aws_ec2_instance_type_offerings" "node" {
  location_type = "availability-zone"

  filter {
    name   = "instance-type"
    values = [var.instance_type]
  }
}

locals {
  # A Local or Wavelength Zone (us-west-2-lax-1a) is for those who name it.
  all_zones = sort(data.aws_ec2_instance_type_offerings.node.locations)
  zones     = tolist([for z in local.all_zones : z if length(z) == length(var.region) + 1])

  cards = coalesce(data.aws_ec2_instance_type.node.maximum_network_cards, 1)
  efas  = var.efa == "off" ? 0 : coalesce(data.aws_ec2_instance_type.node.efa_maximum_interfaces, 0)
  gpus  = sum(concat([0], [for g in data.aws_ec2_instance_type.node.gpus : g.count]))

  # With one card, one interface is both. With several, card 0 carries IP, and every card that can
  # has an EFA without IP beside that; where there is one EFA less than cards, card 0 has none.
  interfaces = local.efas == 0 ? [] : local.cards < 2 ? [
    { card = 0, device = 0, type = "efa" }
    ] : concat([{ card = 0, device = 0, type = "interface" }], [
      for c in range(local.efas < local.cards ? 1 : 0, local.cards) :
      { card = c, device = c == 0 ? 1 : 0, type = "efa-only" }
      if c < local.efas + (local.efas < local.cards ? 1 : 0)
  ])

  # A reservation is used without a group, or with its own (placement_group_name), and a capacity
  # block places its instances itself.
  grouped = var.placement_group_name == null && (var.placement_group == "on" || (
    var.placement_group == "auto" && var.capacity_reservation_id == null &&
  contains(data.aws_ec2_instance_type.node.supported_placement_strategies, "cluster")))

  # The group makes capacity scarcer: it is for several nodes, or for EFA.
  enters = var.placement_group == "on" || (!var.outside_group && (local.efas > 0 || var.nodes > 1))
}

data "aws_region" "here" {}

# Resources of another state with this name: the tags could not tell the two clusters apart.
data "aws_instances" "same_name" {
  count = var.new_cluster ? 1 : 0

  instance_state_names = ["pending", "running", "stopping", "stopped"]
  instance_tags = {
    dtctl-cluster = var.cluster
    dtctl-owner   = var.owner
  }
}

# ---- what is chosen once and kept ---------------------------------------------------------------
# A command with a stale copy of a shared state would change and revert the work of others: another
# command may apply between its reading of the state and its locking.
resource "terraform_data" "made" {
  input = var.made

  lifecycle {
    ignore_changes = [input]

    postcondition {
      condition     = self.output == var.made
      error_message = "cluster ${var.cluster} runs already: it was made from another folder that shares this state."
    }
  }
}

# A zone that begins to offer the type, or a newer image, must not replace a cluster that trains.
resource "terraform_data" "zone" {
  input            = var.az != null ? var.az : try(local.zones[0], "none")
  triggers_replace = [var.az, var.instance_type]

  lifecycle {
    ignore_changes = [input]

    precondition {
      condition     = length(flatten(data.aws_instances.same_name[*].ids)) == 0
      error_message = "cluster ${var.cluster} of ${var.owner} runs already (${join(", ", flatten(data.aws_instances.same_name[*].ids))}), made from another folder, which has its key and its state."
    }
    precondition {
      condition     = data.aws_region.here.name == var.region
      error_message = "region: the provider is for ${data.aws_region.here.name}, not ${var.region}."
    }
    precondition {
      condition     = length(local.zones) > 0
      error_message = "${var.instance_type} is not offered in ${var.region}; choose another region or type."
    }
    precondition {
      condition     = var.az == null || contains(local.all_zones, coalesce(var.az, "none"))
      error_message = "${var.instance_type} is not offered in ${coalesce(var.az, "none")}; it is in: ${join(", ", local.all_zones)}."
    }
    precondition {
      condition     = !contains(data.aws_ec2_instance_type.node.supported_architectures, "arm64")
      error_message = "instance_type: ${var.instance_type} is for arm64, and what runs on nodes for x86_64; choose another type."
    }
    precondition {
      condition     = var.allow_open_ssh || length(local.wide_cidrs) == 0
      error_message = "operator_cidrs: ${join(", ", local.wide_cidrs)} would let the world try SSH; give your own address, or set allow_open_ssh."
    }
    precondition {
      condition     = var.vpc_id == null || var.subnet_id != null
      error_message = "vpc_id: subnet_id is needed with it."
    }
    precondition {
      condition     = length(local.names) == var.nodes
      error_message = "node_names: ${length(local.names)} names for ${var.nodes} nodes."
    }
    precondition {
      condition     = contains([0, var.nodes], nonsensitive(length(var.bootstrap_host_keys)))
      error_message = "bootstrap_host_keys: none, or one for each of the ${var.nodes} nodes, belong here."
    }
    precondition {
      condition     = contains(["reservation", "capacity-block"], var.purchase) == (var.capacity_reservation_id != null)
      error_message = "capacity_reservation_id: belongs with purchase = reservation or capacity-block, and with them alone."
    }
    precondition {
      condition     = var.capacity_reservation_id == null || var.az != null || var.subnet_id != null
      error_message = "capacity_reservation_id: it is in one zone; name it in az, or give a subnet_id."
    }
    precondition {
      condition     = var.spot_max_price == null || var.purchase == "spot"
      error_message = "spot_max_price: belongs with purchase = spot."
    }
    precondition {
      condition     = var.s3_bucket == null || var.instance_profile == null
      error_message = "s3_bucket: with an instance_profile of your own no role is made; leave one of the two away."
    }
    precondition {
      condition     = !(var.purchase == "capacity-block" && (var.placement_group == "on" || var.placement_group_name != null))
      error_message = "placement_group: a capacity block places its instances itself; set auto or off."
    }
    precondition {
      condition     = var.placement_group_name == null || var.placement_group == "auto"
      error_message = "placement_group_name: belongs with placement_group = auto."
    }
  }
}

data "aws_ssm_parameter" "image" {
  count = var.ami_id == null ? 1 : 0

  name = coalesce(var.ami_ssm_parameter, local.gpus > 0
    ? "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
  : "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id")
}

locals {
  image = var.ami_id == null ? data.aws_ssm_parameter.image[0].insecure_value : var.ami_id
}

# A wrong image ends the plan of a new cluster, before anything is made. An image that is withdrawn
# later does not keep a cluster from being ended.
data "aws_ami" "new" {
  count = var.new_cluster ? 1 : 0

  include_deprecated = true

  filter {
    name   = "image-id"
    values = [local.image]
  }
}

resource "terraform_data" "image" {
  input            = local.image
  triggers_replace = [var.ami_id, var.ami_ssm_parameter, local.gpus > 0]

  lifecycle {
    ignore_changes = [input]

    precondition {
      condition     = alltrue([for a in data.aws_ami.new : a.architecture == "x86_64"])
      error_message = "ami_id: ${local.image} is for ${join(", ", data.aws_ami.new[*].architecture)}, and what runs on nodes for x86_64; choose another image."
    }
  }
}

# ---- the parts ----------------------------------------------------------------------------------
module "network" {
  source = "./modules/network"

  name      = local.name
  tags      = local.tags
  region    = var.region
  az        = terraform_data.zone.output
  nodes     = var.nodes
  vpc_id    = var.vpc_id
  subnet_id = var.subnet_id
  vpc_cidr  = var.vpc_cidr
  s3_only   = var.egress == "closed" ? var.s3_bucket : null
}

module "access" {
  source = "./modules/access"

  name                 = local.name
  tags                 = local.tags
  owner                = var.owner
  cluster              = var.cluster
  region               = var.region
  vpc_id               = module.network.vpc_id
  vpc_cidrs            = module.network.vpc_cidrs
  s3_prefix_list_id    = module.network.s3_prefix_list_id
  operator_cidrs       = var.operator_cidrs
  closed               = var.egress == "closed"
  ssh_public_key       = var.ssh_public_key
  s3_bucket            = var.s3_bucket
  s3_prefix            = var.s3_prefix != null ? var.s3_prefix : "dtctl/${var.cluster}"
  permissions_boundary = var.permissions_boundary
}

module "nodes" {
  source = "./modules/nodes"

  name                    = local.name
  names                   = local.names
  tags                    = local.tags
  expires                 = var.expires
  instance_type           = var.instance_type
  ami_id                  = terraform_data.image.output
  subnet_id               = module.network.subnet_id
  subnet_cidr             = module.network.subnet_cidr
  fixed_addresses         = var.subnet_id == null
  security_group_id       = module.access.security_group_id
  key_name                = module.access.key_name
  instance_profile        = var.instance_profile != null ? var.instance_profile : module.access.instance_profile
  public_address          = var.public_address == "auto" && !module.network.public ? "none" : var.public_address
  interfaces              = local.interfaces
  grouped                 = local.grouped && var.purchase != "capacity-block"
  enters                  = local.enters
  placement               = join(",", [var.placement_group, coalesce(var.placement_group_name, "-")])
  placement_group_name    = var.placement_group_name
  purchase                = var.purchase
  spot_max_price          = var.spot_max_price
  capacity_reservation_id = var.capacity_reservation_id
  root_gb                 = var.root_gb
  root_iops               = var.root_iops
  root_throughput         = var.root_throughput
  kms_key_id              = var.kms_key_id
  user_data_base64        = local.user_data_base64
  config_hash             = local.config_hash

  # Nodes need internet access in their first minute, and the internet gateway cannot be removed
  # while nodes have public addresses.
  depends_on = [module.network, module.access]
}
