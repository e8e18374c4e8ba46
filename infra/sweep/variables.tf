# SPDX-License-Identifier: Apache-2.0
variable "region" {
  type        = string
  description = "AWS region to look in"
  nullable    = false
}

variable "owner" {
  type        = string
  description = "Owner of the leftovers to find"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$", var.owner))
    error_message = "owner: 1 to 64 letters, digits, '.', '_', '@', '-', the first one a letter or digit."
  }
}

variable "cluster" {
  type        = string
  description = "Cluster to look for; null for every cluster of this owner"
  default     = null

  validation {
    condition     = var.cluster == null || can(regex("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", var.cluster))
    error_message = "cluster: 1 to 64 letters, digits, '.', '_', '-', the first one a letter or digit."
  }
}

variable "keep_clusters" {
  type        = set(string)
  description = "Clusters of this owner to leave alone"
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for c in var.keep_clusters : can(regex("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", c))])
    error_message = "keep_clusters: names of clusters belong here."
  }
}

variable "free_parts" {
  type        = bool
  description = "Also find what costs nothing: networks, groups, keys. Needs the permission tag:GetResources"
  default     = true
  nullable    = false
}

variable "gone_ids" {
  type        = set(string)
  description = "Ids of free parts that are known to be gone, although AWS may still list them"
  default     = []
  nullable    = false
}

variable "ending" {
  type        = bool
  description = "Also find instances that are shutting down; to look at, as they end anyway"
  default     = false
  nullable    = false
}

variable "roles" {
  type        = bool
  description = "Also find the roles and instance profiles of this region's clusters. Needs iam:ListRoles"
  default     = false
  nullable    = false
}

variable "max_retries" {
  type        = number
  description = "How often the provider repeats a refused call"
  default     = 6
  nullable    = false
}

variable "endpoints" {
  type        = map(string)
  description = "Addresses of the services ec2, iam, sts, tagging where they are not AWS's public ones"
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for k, v in var.endpoints : contains(["ec2", "iam", "ssm", "sts", "tagging"], k) && can(regex("^https?://", v))])
    error_message = "endpoints: http(s) addresses of ec2, iam, sts, tagging belong here."
  }
}

variable "skip_checks" {
  type        = bool
  description = "Do not check credentials and region before the first call; for API servers other than AWS"
  default     = false
  nullable    = false
}
