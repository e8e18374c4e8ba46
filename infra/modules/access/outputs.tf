# SPDX-License-Identifier: Apache-2.0
output "security_group_id" {
  description = "The group that all nodes share"
  value       = aws_security_group.cluster.id
}

output "key_name" {
  description = "Name of the key pair"
  value       = aws_key_pair.operator.key_name
}

output "instance_profile" {
  description = "Name of the instance profile, or null"
  value       = local.role ? aws_iam_instance_profile.node[0].name : null
}
