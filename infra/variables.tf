# SPDX-License-Identifier: Apache-2.0
# The inputs of the module. infra/tables makes the tables of README.md from this file and
# outputs.tf.

# ---- who and where ------------------------------------------------------------------------------
variable "cluster" {
  type        = string
  description = "Name of the cluster; part of the names and tags of everything that is made"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", var.cluster))
    error_message = "cluster: 1 to 64 letters, digits, '.', '_', '-', the first one a letter or digit."
  }
}

variable "owner" {
  type        = string
  description = "Owner of the cluster; the sweep finds leftovers by owner and cluster"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$", var.owner))
    error_message = "owner: 1 to 64 letters, digits, '.', '_', '@', '-', the first one a letter or digit."
  }
}

variable "run" {
  type        = string
  description = "Purpose of the cluster, as a tag; empty for none"
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9._:/=+@ -]{0,256}$", var.run))
    error_message = "run: at most 256 letters, digits, spaces and _ . : / = + - @ fit into a tag."
  }
}

variable "expires" {
  type        = string
  description = "When the lease ends, RFC 3339, as a tag of the instances; the nodes themselves go by ttl_s"
  nullable    = false

  validation {
    condition     = can(timeadd(var.expires, "0s"))
    error_message = "expires: a time such as 2026-01-02T03:04:05Z belongs here."
  }
}

variable "tags" {
  type        = map(string)
  description = "Further tags for everything"
  default     = {}
  nullable    = false

  validation {
    condition = alltrue([for k, v in var.tags :
      can(regex("^[A-Za-z0-9._:/=+@ -]{1,128}$", k)) && length(v) <= 256
      && !startswith(k, "aws:") && !startswith(k, "dtctl-") && k != "Name"
    ]) && length(var.tags) <= 40
    error_message = "tags: at most 40; keys of letters, digits, spaces and . _ : / = + @ -, none of 'Name', 'aws:…', 'dtctl-…'; values of at most 256 bytes."
  }
}

variable "region" {
  type        = string
  description = "AWS region that the provider is for, such as us-east-1"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "region: a name such as us-east-1 belongs here."
  }
}

variable "az" {
  type        = string
  description = "Availability zone; null for the first one that offers the type, which is then kept"
  default     = null

  validation {
    condition     = var.az == null || can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]([a-z]|-[a-z0-9-]+)$", var.az))
    error_message = "az: a name such as us-east-1a belongs here, or null."
  }
}

# ---- nodes --------------------------------------------------------------------------------------
variable "nodes" {
  type        = number
  description = "How many nodes"
  nullable    = false

  validation {
    condition     = var.nodes >= 1 && var.nodes <= 1000 && floor(var.nodes) == var.nodes
    error_message = "nodes: a whole number from 1 to 1000 belongs here."
  }
}

variable "node_names" {
  type        = list(string)
  description = "Names in the order of ranks; empty for node0, node1, …"
  default     = []
  nullable    = false

  validation {
    condition = alltrue([for n in var.node_names :
      can(regex("^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$", n))
    ]) && length(distinct(var.node_names)) == length(var.node_names)
    error_message = "node_names: each one different, fit for a host name: letters, digits, '-', at most 63."
  }
}

variable "instance_type" {
  type        = string
  description = "EC2 instance type, such as g6.12xlarge"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9-]+[.][a-z0-9-]+$", var.instance_type))
    error_message = "instance_type: a name such as g6.12xlarge belongs here."
  }
}

variable "ami_id" {
  type        = string
  description = "Machine image; null to look one up"
  default     = null

  validation {
    condition     = var.ami_id == null || can(regex("^ami-[0-9a-f]{8,17}$", var.ami_id))
    error_message = "ami_id: an id such as ami-0123456789abcdef0 belongs here, or null."
  }
}

variable "ami_ssm_parameter" {
  type        = string
  description = "Public SSM parameter that holds the image's id; null for AWS's base image with NVIDIA driver (Ubuntu 22.04), or plain Ubuntu 24.04 where the type has no GPU. Resolved once and kept"
  default     = null

  validation {
    condition     = var.ami_ssm_parameter == null || can(regex("^/[A-Za-z0-9._/-]+$", var.ami_ssm_parameter))
    error_message = "ami_ssm_parameter: a path such as /aws/service/… belongs here, or null."
  }
}

variable "root_gb" {
  type        = number
  description = "Root volume in GiB (gp3, encrypted)"
  default     = 100
  nullable    = false

  validation {
    condition     = var.root_gb >= 8 && var.root_gb <= 16384 && floor(var.root_gb) == var.root_gb
    error_message = "root_gb: a whole number from 8 to 16384 belongs here."
  }
}

variable "root_iops" {
  type        = number
  description = "Operations per second of the root volume; null for gp3's own 3000"
  default     = null

  validation {
    condition     = var.root_iops == null ? true : var.root_iops >= 3000 && var.root_iops <= 16000
    error_message = "root_iops: a number from 3000 to 16000 belongs here, or null."
  }
}

variable "root_throughput" {
  type        = number
  description = "Throughput of the root volume in MiB/s; null for gp3's own 125"
  default     = null

  validation {
    condition     = var.root_throughput == null ? true : var.root_throughput >= 125 && var.root_throughput <= 1000
    error_message = "root_throughput: a number from 125 to 1000 belongs here, or null."
  }
}

variable "kms_key_id" {
  type        = string
  description = "Key that encrypts the volumes; null for the account's own key for EBS"
  default     = null
}

# ---- price --------------------------------------------------------------------------------------
variable "purchase" {
  type        = string
  description = "on-demand, spot, reservation (an On-Demand Capacity Reservation) or capacity-block"
  default     = "on-demand"
  nullable    = false

  validation {
    condition     = contains(["on-demand", "spot", "reservation", "capacity-block"], var.purchase)
    error_message = "purchase: on-demand, spot, reservation or capacity-block belongs here."
  }
}

variable "spot_max_price" {
  type        = string
  description = "Highest price per node and hour in USD; null for the on-demand price"
  default     = null

  validation {
    condition     = var.spot_max_price == null || can(regex("^[0-9]+([.][0-9]+)?$", var.spot_max_price))
    error_message = "spot_max_price: a price such as 1.25 belongs here, or null."
  }
}

variable "capacity_reservation_id" {
  type        = string
  description = "Reservation or capacity block to start in; needs az or subnet_id, as it is in one zone"
  default     = null

  validation {
    condition     = var.capacity_reservation_id == null || can(regex("^cr-[0-9a-f]{8,17}$", var.capacity_reservation_id))
    error_message = "capacity_reservation_id: an id such as cr-0123456789abcdef0 belongs here, or null."
  }
}

variable "placement_group" {
  type        = string
  description = "auto: a cluster placement group for several nodes or EFA, where the type can be in one and no reservation is used; on; off"
  default     = "auto"
  nullable    = false

  validation {
    condition     = contains(["auto", "on", "off"], var.placement_group)
    error_message = "placement_group: auto, on or off belongs here."
  }
}

variable "outside_group" {
  type        = bool
  description = "Start new nodes outside of the group of placement_group = auto, where it has no capacity"
  default     = false
  nullable    = false
}

variable "placement_group_name" {
  type        = string
  description = "Existing placement group to start in, such as that of a reservation; null for none"
  default     = null

  validation {
    condition     = var.placement_group_name == null || can(regex("^[ -~]{1,255}$", var.placement_group_name))
    error_message = "placement_group_name: 1 to 255 characters belong here, or null."
  }
}

# ---- network ------------------------------------------------------------------------------------
variable "vpc_id" {
  type        = string
  description = "Existing VPC; null to make one, or to take that of subnet_id"
  default     = null

  validation {
    condition     = var.vpc_id == null || can(regex("^vpc-[0-9a-f]{8,17}$", var.vpc_id))
    error_message = "vpc_id: an id such as vpc-0123456789abcdef0 belongs here, or null."
  }
}

variable "subnet_id" {
  type        = string
  description = "Existing subnet for the nodes; null to make one with its own VPC"
  default     = null

  validation {
    condition     = var.subnet_id == null || can(regex("^subnet-[0-9a-f]{8,17}$", var.subnet_id))
    error_message = "subnet_id: an id such as subnet-0123456789abcdef0 belongs here, or null."
  }
}

variable "vpc_cidr" {
  type        = string
  description = "Addresses of an own VPC; the nodes get a /24 of it (a /20 for more than 240 nodes)"
  default     = "10.77.0.0/16"
  nullable    = false

  validation {
    condition     = can(regex("^[0-9.]+/(1[6-9]|2[0-7])$", var.vpc_cidr)) && can(cidrhost(var.vpc_cidr, 0))
    error_message = "vpc_cidr: IPv4 addresses from /16 to /27, such as 10.77.0.0/16, belong here."
  }
}

variable "operator_cidrs" {
  type        = list(string)
  description = "Where SSH may come from: the operator's own address, such as 198.51.100.7/32"
  nullable    = false

  validation {
    condition     = length(var.operator_cidrs) >= 1 && length(var.operator_cidrs) <= 40 && alltrue([for c in var.operator_cidrs : can(cidrhost(c, 0))])
    error_message = "operator_cidrs: 1 to 40 ranges such as 198.51.100.7/32 belong here."
  }
}

variable "allow_open_ssh" {
  type        = bool
  description = "Accept ranges in operator_cidrs that are wider than /8 (IPv4) or /16 (IPv6)"
  default     = false
  nullable    = false
}

variable "egress" {
  type        = string
  description = "open, or closed: only to the cluster, the VPC and S3"
  default     = "open"
  nullable    = false

  validation {
    condition     = contains(["open", "closed"], var.egress)
    error_message = "egress: open or closed belongs here."
  }
}

variable "public_address" {
  type        = string
  description = "auto: a public address in an own VPC, and what the subnet says in an existing one; elastic; none. With several network cards a public address is always an elastic one"
  default     = "auto"
  nullable    = false

  validation {
    condition     = contains(["auto", "elastic", "none"], var.public_address)
    error_message = "public_address: auto, elastic or none belongs here."
  }
}

variable "efa" {
  type        = string
  description = "auto: every EFA interface that the type has; off"
  default     = "auto"
  nullable    = false

  validation {
    condition     = contains(["auto", "off"], var.efa)
    error_message = "efa: auto or off belongs here."
  }
}

# ---- access -------------------------------------------------------------------------------------
variable "ssh_user" {
  type        = string
  description = "Login on the nodes, as the image has it"
  default     = "ubuntu"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z_][a-z0-9_-]{0,31}$", var.ssh_user))
    error_message = "ssh_user: a login name belongs here."
  }
}

variable "ssh_public_key" {
  type        = string
  description = "Public key of the operator, as one OpenSSH line; ed25519 or RSA"
  nullable    = false

  validation {
    condition     = can(regex("^(ssh-ed25519|ssh-rsa) [A-Za-z0-9+/=]+( [^\"\n\r]*)?$", var.ssh_public_key))
    error_message = "ssh_public_key: one line, 'ssh-ed25519 AAAA…' or 'ssh-rsa AAAA…', belongs here."
  }
}

variable "made" {
  type        = string
  description = "A random word that was chosen when the cluster was made: with another one nothing of it is changed"
  default     = ""
  nullable    = false
}

variable "bootstrap_host_keys" {
  type = list(object({
    private = string
    public  = string
  }))
  description = "One host key per node in OpenSSH's format, good for the first login only; empty: a node makes its own"
  default     = []
  nullable    = false
  sensitive   = true
}

variable "s3_bucket" {
  type        = string
  description = "Bucket that the nodes may use; null for none, and no role"
  default     = null

  validation {
    condition     = var.s3_bucket == null || can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.s3_bucket))
    error_message = "s3_bucket: the name of a bucket, without 's3://', belongs here, or null."
  }
}

variable "s3_prefix" {
  type        = string
  description = "Folder of the bucket that the nodes may use; null for dtctl/<cluster>"
  default     = null

  validation {
    condition     = var.s3_prefix == null || can(regex("^[A-Za-z0-9._=-]+(/[A-Za-z0-9._=-]+)*$", var.s3_prefix))
    error_message = "s3_prefix: names of letters, digits and . _ = - with '/' between them belong here, or null."
  }
}

variable "instance_profile" {
  type        = string
  description = "Existing instance profile for the nodes, instead of a role made for s3_bucket"
  default     = null

  validation {
    condition     = var.instance_profile == null || can(regex("^[A-Za-z0-9+=,.@_-]{1,128}$", var.instance_profile))
    error_message = "instance_profile: the name (not the ARN) of an instance profile belongs here, or null."
  }
}

variable "permissions_boundary" {
  type        = string
  description = "ARN of a policy that limits the role which is made for s3_bucket"
  default     = null

  validation {
    condition     = var.permissions_boundary == null || can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/", var.permissions_boundary))
    error_message = "permissions_boundary: the ARN of a policy belongs here, or null."
  }
}

# ---- the node's own set-up ----------------------------------------------------------------------
variable "ttl_s" {
  type        = number
  description = "A node ends itself so many seconds after its start; 0 for never"
  default     = 43200
  nullable    = false

  validation {
    condition     = var.ttl_s >= 0 && var.ttl_s <= 31536000 && floor(var.ttl_s) == var.ttl_s
    error_message = "ttl_s: a whole number of seconds from 0 to 31536000 (a year) belongs here."
  }
}

variable "idle_s" {
  type        = number
  description = "A node ends itself after so many seconds without a run, a login or use of its GPUs; 0 for never"
  default     = 3600
  nullable    = false

  validation {
    condition     = var.idle_s >= 0 && var.idle_s <= 31536000 && floor(var.idle_s) == var.idle_s
    error_message = "idle_s: a whole number of seconds from 0 to 31536000 (a year) belongs here."
  }
}

variable "new_cluster" {
  type        = bool
  description = "Nothing of this cluster was made yet: refuse if instances with its tags are there, and look at the image first"
  default     = false
  nullable    = false
}

variable "closed_metadata" {
  type        = bool
  description = "Only root on a node reaches the instance metadata service, and so the role's credentials; null: unless there is a role for runs to use (s3_bucket, instance_profile)"
  default     = null
}
