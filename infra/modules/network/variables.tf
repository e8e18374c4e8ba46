# SPDX-License-Identifier: Apache-2.0
variable "name" {
  type        = string
  description = "Name of what is made"
}

variable "tags" {
  type        = map(string)
  description = "Tags of everything that is made"
}

variable "region" {
  type        = string
  description = "AWS region"
}

variable "az" {
  type        = string
  description = "Zone of an own subnet"
}

variable "nodes" {
  type        = number
  description = "How many addresses are needed, of an own subnet from the tenth on"
}

variable "vpc_id" {
  type        = string
  description = "Existing VPC that subnet_id has to be in, or null"
}

variable "subnet_id" {
  type        = string
  description = "Existing subnet, or null to make one with its own VPC"
}

variable "vpc_cidr" {
  type        = string
  description = "Addresses of an own VPC"
}

variable "s3_only" {
  type        = string
  description = "The only bucket that may be reached through the endpoint of an own VPC; null for any"
}
