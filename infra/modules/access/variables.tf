# SPDX-License-Identifier: Apache-2.0
variable "name" {
  type        = string
  description = "Name of what is made"
}

variable "tags" {
  type        = map(string)
  description = "Tags of everything that is made"
}

variable "owner" {
  type        = string
  description = "Owner, in the path of the role"
}

variable "cluster" {
  type        = string
  description = "Cluster, in the path of the role"
}

variable "region" {
  type        = string
  description = "Region, in the path of the role"
}

variable "vpc_id" {
  type        = string
  description = "VPC of the security group"
}

variable "vpc_cidrs" {
  type        = list(string)
  description = "Address ranges of the VPC"
}

variable "s3_prefix_list_id" {
  type        = string
  description = "The addresses of S3 in this region"
}

variable "operator_cidrs" {
  type        = list(string)
  description = "Where SSH may come from"
}

variable "closed" {
  type        = bool
  description = "Let nothing out but to the cluster, the VPC and S3"
}

variable "ssh_public_key" {
  type        = string
  description = "Public key of the operator"
}

variable "s3_bucket" {
  type        = string
  description = "Bucket that the role may use; null for no role"
}

variable "s3_prefix" {
  type        = string
  description = "Folder of the bucket that the role may use"
}

variable "permissions_boundary" {
  type        = string
  description = "ARN of a policy that limits the role, or null"
}
