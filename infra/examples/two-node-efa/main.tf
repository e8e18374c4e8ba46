# SPDX-License-Identifier: Apache-2.0
# Two nodes with four EFA cards each, in one placement group; checkpoints go to a folder in S3, and
# nothing else leaves the VPC. Each node gets an elastic address.

terraform {
  required_version = ">= 1.7, < 2.0"
}

provider "aws" {
  region      = var.region
  max_retries = 6 # more would wait for capacity, for an hour
}

variable "region" {
  type        = string
  description = "AWS region"
  default     = "us-east-1"
}

variable "operator" {
  type        = string
  description = "Where SSH comes from, such as 198.51.100.7/32"
}

variable "key" {
  type        = string
  description = "Public SSH key"
}

variable "bucket" {
  type        = string
  description = "S3 bucket for checkpoints"
}

# The time differs in every plan; the time of the first apply is kept.
resource "terraform_data" "begun" {
  input = plantimestamp()

  lifecycle {
    ignore_changes = [input]
  }
}

module "cluster" {
  source = "../.."

  cluster         = "two-node-efa"
  owner           = "me"
  expires         = timeadd(terraform_data.begun.output, "12h")
  region          = var.region
  nodes           = 2
  instance_type   = "p4d.24xlarge"
  egress          = "closed"
  s3_bucket       = var.bucket
  root_gb         = 200
  root_throughput = 500
  operator_cidrs  = [var.operator]
  ssh_public_key  = var.key
}

output "nodes" {
  description = "The nodes"
  value       = module.cluster.facts.nodes
}

output "efa_count" {
  description = "EFA interfaces per node"
  value       = module.cluster.facts.efa_count
}
