# SPDX-License-Identifier: Apache-2.0
# The key that logs in to the nodes.

resource "aws_key_pair" "operator" {
  key_name_prefix = "${var.name}-"
  public_key      = var.ssh_public_key
  tags            = merge(var.tags, { Name = var.name })
}
