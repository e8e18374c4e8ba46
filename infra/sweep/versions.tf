# SPDX-License-Identifier: Apache-2.0
terraform {
  required_version = ">= 1.7, < 2.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "= 5.100.0"
    }
  }
}

provider "aws" {
  region      = var.region
  max_retries = var.max_retries

  skip_credentials_validation = var.skip_checks
  skip_metadata_api_check     = var.skip_checks
  skip_region_validation      = var.skip_checks

  endpoints {
    ec2                      = lookup(var.endpoints, "ec2", null)
    iam                      = lookup(var.endpoints, "iam", null)
    resourcegroupstaggingapi = lookup(var.endpoints, "tagging", null)
    sts                      = lookup(var.endpoints, "sts", null)
  }
}
