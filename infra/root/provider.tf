# SPDX-License-Identifier: Apache-2.0
# This provider turns the module into a root: dtctl puts this file beside the module's own. Other
# callers of the module configure their own provider.
provider "aws" {
  region = var.region

  # Capacity errors count as retryable: with the provider's own 25 an apply hangs for 50 minutes.
  max_retries = var.max_retries

  skip_credentials_validation = var.skip_checks
  skip_metadata_api_check     = var.skip_checks
  skip_region_validation      = var.skip_checks

  endpoints {
    ec2 = lookup(var.endpoints, "ec2", null)
    iam = lookup(var.endpoints, "iam", null)
    ssm = lookup(var.endpoints, "ssm", null)
    sts = lookup(var.endpoints, "sts", null)
  }
}

variable "max_retries" {
  type        = number
  description = "How often the provider repeats a refused call"
  default     = 6
  nullable    = false

  validation {
    condition     = var.max_retries >= 0 && var.max_retries <= 25 && floor(var.max_retries) == var.max_retries
    error_message = "max_retries: a whole number from 0 to 25 belongs here."
  }
}

variable "endpoints" {
  type        = map(string)
  description = "Addresses of the services ec2, iam, ssm, sts where they are not AWS's public ones"
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for k, v in var.endpoints : contains(["ec2", "iam", "ssm", "sts"], k) && can(regex("^https?://", v))])
    error_message = "endpoints: http(s) addresses of ec2, iam, ssm, sts belong here."
  }
}

variable "skip_checks" {
  type        = bool
  description = "Do not check credentials and region before the first call; for API servers other than AWS"
  default     = false
  nullable    = false
}
