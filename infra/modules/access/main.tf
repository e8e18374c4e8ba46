# SPDX-License-Identifier: Apache-2.0
# Access to the nodes, access from the nodes, and permissions of the nodes.

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}
