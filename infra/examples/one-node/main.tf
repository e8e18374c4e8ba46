# SPDX-License-Identifier: Apache-2.0
# One GPU on a spot instance, reachable from one address, gone after two hours:
#   terraform init && terraform apply -var operator=198.51.100.7/32 -var "key=$(cat ~/.ssh/id_ed25519.pub)"

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

# Every plan has another time; that of the first one is kept.
resource "terraform_data" "begun" {
  input = plantimestamp()

  lifecycle {
    ignore_changes = [input]
  }
}

module "cluster" {
  source = "../.."

  cluster        = "one-node"
  owner          = "me"
  expires        = timeadd(terraform_data.begun.output, "2h")
  region         = var.region
  nodes          = 1
  instance_type  = "g6.xlarge"
  purchase       = "spot"
  ttl_s          = 7200
  operator_cidrs = [var.operator]
  ssh_public_key = var.key
}

output "nodes" {
  description = "The node"
  value       = module.cluster.facts.nodes
}
