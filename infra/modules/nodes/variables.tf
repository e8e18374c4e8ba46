# SPDX-License-Identifier: Apache-2.0
variable "name" {
  type        = string
  description = "Name of the cluster's parts"
}

variable "names" {
  type        = list(string)
  description = "Names of the nodes in the order of ranks"
}

variable "tags" {
  type        = map(string)
  description = "Tags for the volumes, which the provider's default tags do not reach"
}

variable "expires" {
  type        = string
  description = "When the lease ends, as a tag of the instances"
}

variable "instance_type" {
  type        = string
  description = "EC2 instance type"
}

variable "ami_id" {
  type        = string
  description = "Machine image"
}

variable "subnet_id" {
  type        = string
  description = "Subnet of the nodes"
}

variable "subnet_cidr" {
  type        = string
  description = "Its addresses"
}

variable "fixed_addresses" {
  type        = bool
  description = "Give rank n the (10 + n)th address of the subnet, which must be the cluster's alone"
}

variable "security_group_id" {
  type        = string
  description = "The group that all nodes share"
}

variable "key_name" {
  type        = string
  description = "Name of the key pair"
}

variable "instance_profile" {
  type        = string
  description = "Name of an instance profile, or null"
}

variable "public_address" {
  type        = string
  description = "auto (given at launch), elastic, or none"
}

variable "interfaces" {
  type = list(object({
    card   = number
    device = number
    type   = string
  }))
  description = "Network interfaces of a node where they are made one by one; empty for the usual one"
}

variable "grouped" {
  type        = bool
  description = "Make a cluster placement group"
}

variable "enters" {
  type        = bool
  description = "Put nodes that are made now into it"
}

variable "placement" {
  type        = string
  description = "Placement that was asked for; another word makes all nodes anew"
}

variable "placement_group_name" {
  type        = string
  description = "Existing placement group to start in, or null"
}

variable "purchase" {
  type        = string
  description = "on-demand, spot, reservation or capacity-block"
}

variable "spot_max_price" {
  type        = string
  description = "Highest price per node and hour in USD, or null"
}

variable "capacity_reservation_id" {
  type        = string
  description = "Reservation or capacity block to start in, or null"
}

variable "root_gb" {
  type        = number
  description = "Root volume in GiB"
}

variable "root_iops" {
  type        = number
  description = "Operations per second of the root volume, or null"
}

variable "root_throughput" {
  type        = number
  description = "Throughput of the root volume in MiB/s, or null"
}

variable "kms_key_id" {
  type        = string
  description = "Key that encrypts the volumes, or null"
}

variable "user_data_base64" {
  type        = list(string)
  description = "Compressed cloud-init data of each node"
  sensitive   = true
}

variable "config_hash" {
  type        = string
  description = "Hash of what that data configures"
}
