# SPDX-License-Identifier: Apache-2.0
# Every validation and precondition refuses what it is there for.

mock_provider "aws" {
  mock_data "aws_ec2_instance_type" {
    defaults = {
      supported_architectures        = ["x86_64"]
      supported_placement_strategies = ["cluster"]
      maximum_network_cards          = 1
      efa_maximum_interfaces         = 0
      default_vcpus                  = 4
      gpus                           = [{ count = 1, manufacturer = "NVIDIA", memory_size = 22888, name = "L4" }]
    }
  }
  mock_data "aws_ec2_instance_type_offerings" {
    defaults = { locations = ["us-east-1b", "us-east-1a"] }
  }
  mock_data "aws_ssm_parameter" {
    defaults = { insecure_value = "ami-0123456789abcdef0" }
  }
  mock_data "aws_ami" {
    defaults = { architecture = "x86_64" }
  }
  mock_data "aws_region" {
    defaults = { name = "us-east-1" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
}

variables {
  cluster        = "demo"
  owner          = "ann"
  expires        = "2026-01-02T03:04:05Z"
  region         = "us-east-1"
  nodes          = 2
  instance_type  = "g6.xlarge"
  ssh_public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHVudXNlZHVudXNlZHVudXNlZHVudXNlZHVudXNl ann"
  operator_cidrs = ["198.51.100.7/32"]
}

run "every_variable_refuses_nonsense" {
  command = plan

  variables {
    cluster                 = "-demo"
    owner                   = "ann/bob"
    run                     = "a\tb"
    expires                 = "tomorrow"
    tags                    = { "dtctl-owner" = "bob" }
    region                  = "Virginia"
    az                      = "us-east-1"
    nodes                   = 0
    node_names              = ["a.b"]
    instance_type           = "g6"
    ami_id                  = "ubuntu"
    ami_ssm_parameter       = "latest"
    root_gb                 = 4
    root_iops               = 100
    root_throughput         = 2000
    purchase                = "auction"
    spot_max_price          = "cheap"
    capacity_reservation_id = "block"
    placement_group         = "yes"
    vpc_id                  = "default"
    subnet_id               = "default"
    vpc_cidr                = "10.0.0.0/8"
    operator_cidrs          = []
    egress                  = "none"
    public_address          = "yes"
    efa                     = "on"
    ssh_user                = "Root"
    ssh_public_key          = "-----BEGIN OPENSSH PRIVATE KEY-----"
    s3_bucket               = "s3://data"
    s3_prefix               = "/data"
    instance_profile        = "arn:aws:iam::123456789012:instance-profile/x"
    permissions_boundary    = "PowerUser"
    ttl_s                   = -1
    idle_s                  = 0.5
    max_retries             = 100
    endpoints               = { ec2 = "localhost" }
  }

  expect_failures = [
    var.cluster, var.owner, var.run, var.expires, var.tags, var.region, var.az, var.nodes,
    var.node_names, var.instance_type, var.ami_id, var.ami_ssm_parameter, var.root_gb,
    var.root_iops, var.root_throughput, var.purchase, var.spot_max_price,
    var.capacity_reservation_id, var.placement_group, var.vpc_id, var.subnet_id, var.vpc_cidr,
    var.operator_cidrs, var.egress, var.public_address, var.efa, var.ssh_user, var.ssh_public_key,
    var.s3_bucket, var.s3_prefix, var.instance_profile, var.permissions_boundary, var.ttl_s,
    var.idle_s, var.max_retries, var.endpoints,
  ]
}

run "the_other_end_of_each_range" {
  command = plan

  variables {
    cluster         = "a23456789012345678901234567890123456789012345678901234567890abcde"
    owner           = ""
    expires         = "2026-01-02"
    tags            = { "a#b" = "" }
    region          = "us-east-1a"
    az              = "../x"
    nodes           = 1001
    node_names      = ["a", "a"]
    root_gb         = 20000
    root_iops       = 20000
    root_throughput = 100
    vpc_cidr        = "10.0.0.256/16"
    operator_cidrs  = ["198.51.100.7"]
    ssh_public_key  = "ssh-ed25519 AAAA ann\nssh-ed25519 BBBB bob"
    s3_prefix       = "data/*"
    ttl_s           = 31536001
    idle_s          = 31536001
    max_retries     = -1
    endpoints       = { s3 = "http://localhost" }
  }

  expect_failures = [
    var.cluster, var.owner, var.expires, var.tags, var.region, var.az, var.nodes, var.node_names,
    var.root_gb, var.root_iops, var.root_throughput, var.vpc_cidr, var.operator_cidrs,
    var.ssh_public_key, var.s3_prefix, var.ttl_s, var.idle_s, var.max_retries, var.endpoints,
  ]
}

run "fractions" {
  command = plan

  variables {
    nodes       = 1.5
    root_gb     = 10.5
    ttl_s       = 0.5
    max_retries = 1.5
  }

  expect_failures = [var.nodes, var.root_gb, var.ttl_s, var.max_retries]
}

run "reserved_tags" {
  command = plan

  variables {
    tags = { Name = "x" }
  }

  expect_failures = [var.tags]
}

run "ssh_from_everywhere" {
  command = plan

  variables {
    operator_cidrs = ["0.0.0.0/0"]
  }

  expect_failures = [terraform_data.zone]
}

run "ssh_from_everywhere_ipv6" {
  command = plan

  variables {
    operator_cidrs = ["198.51.100.7/32", "::/0"]
  }

  expect_failures = [terraform_data.zone]
}

run "ssh_from_half_of_everywhere" {
  command = plan

  variables {
    operator_cidrs = ["0.0.0.0/1", "128.0.0.0/1"]
  }

  expect_failures = [terraform_data.zone]
}

run "ssh_from_everywhere_on_purpose" {
  command = plan

  variables {
    operator_cidrs = ["0.0.0.0/0"]
    allow_open_ssh = true
  }
}

run "zone_without_the_type" {
  command = plan

  variables {
    az = "us-east-1f"
  }

  expect_failures = [terraform_data.zone]
}

run "provider_of_another_region" {
  command = plan

  override_data {
    target = data.aws_region.here
    values = { name = "us-west-2" }
  }

  expect_failures = [terraform_data.zone]
}

run "region_without_the_type" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type_offerings.node
    values = { locations = [] }
  }

  expect_failures = [terraform_data.zone]
}

run "vpc_without_subnet" {
  command = plan

  variables {
    vpc_id = "vpc-0123456789abcdef0"
  }

  expect_failures = [terraform_data.zone]
}

run "as_many_names_as_nodes" {
  command = plan

  variables {
    node_names = ["a", "b", "c"]
  }

  expect_failures = [terraform_data.zone]
}

run "as_many_host_keys_as_nodes" {
  command = plan

  variables {
    bootstrap_host_keys = [{ private = "a", public = "b" }]
  }

  expect_failures = [terraform_data.zone]
}

run "reservation_without_an_id" {
  command = plan

  variables {
    purchase = "reservation"
    az       = "us-east-1a"
  }

  expect_failures = [terraform_data.zone]
}

run "id_without_a_reservation" {
  command = plan

  variables {
    capacity_reservation_id = "cr-0123456789abcdef0"
    az                      = "us-east-1a"
  }

  expect_failures = [terraform_data.zone]
}

run "reservation_without_a_zone" {
  command = plan

  variables {
    purchase                = "capacity-block"
    capacity_reservation_id = "cr-0123456789abcdef0"
  }

  expect_failures = [terraform_data.zone]
}

run "price_without_spot" {
  command = plan

  variables {
    spot_max_price = "1.25"
  }

  expect_failures = [terraform_data.zone]
}

run "role_and_profile" {
  command = plan

  variables {
    s3_bucket        = "data-of-ann"
    instance_profile = "training"
  }

  expect_failures = [terraform_data.zone]
}

run "capacity_block_in_a_group" {
  command = plan

  variables {
    purchase                = "capacity-block"
    capacity_reservation_id = "cr-0123456789abcdef0"
    az                      = "us-east-1a"
    placement_group         = "on"
  }

  expect_failures = [terraform_data.zone]
}

run "a_name_that_is_taken" {
  command = plan

  variables {
    new_cluster = true
  }

  override_data {
    target = data.aws_instances.same_name
    values = { ids = ["i-0123456789abcdef0"] }
  }

  expect_failures = [terraform_data.zone]
}

run "an_image_for_arm64" {
  command = plan

  variables {
    new_cluster = true
  }

  override_data {
    target = data.aws_ami.new
    values = { architecture = "arm64" }
  }

  expect_failures = [terraform_data.image]
}

run "an_image_that_was_withdrawn_keeps_nothing_from_being_ended" {
  command = plan

  assert {
    condition     = length(data.aws_ami.new) == 0
    error_message = "the image is looked at for a new cluster only"
  }
}
