# SPDX-License-Identifier: Apache-2.0
# One GPU on a spot instance, reachable from one address, gone after two hours:
#   terraform init && terraform apply -var operator=198.51.100.7/32 -var "key=$(cat ~/.ssh/id_ed25519.pub)"

variable "operator" {
  type        = string
  description = "Where SSH comes from, such as 198.51.100.7/32"
}

variable "key" {
  type        = string
  description = "Public SSH key"
}

module "cluster" {
  source = "../.."

  cluster        = "one-node"
  owner          = "me"
  expires        = timeadd(plantimestamp(), "2h")
  region         = "us-east-1"
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
