# SPDX-License-Identifier: Apache-2.0
output "found" {
  description = "The leftovers: kind, id, and of an instance also cluster, name, type, zone, state, times of launch and lease"
  value = concat(
    [for id, i in data.aws_instance.found : {
      kind    = "instance"
      id      = id
      cluster = lookup(i.tags, "dtctl-cluster", "")
      name    = lookup(i.tags, "dtctl-node", "")
      type    = i.instance_type
      zone    = i.availability_zone
      state   = i.instance_state
      since   = i.launch_time
      expires = lookup(i.tags, "dtctl-expires", "")
    }],
    flatten([for kind, ids in local.parts : [for id in ids : {
      kind    = kind
      id      = id
      cluster = coalesce(var.cluster, "-")
      name    = ""
      type    = ""
      zone    = ""
      state   = ""
      since   = ""
      expires = ""
    }]]),
  )
}
