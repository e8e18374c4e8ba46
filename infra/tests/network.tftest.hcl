# SPDX-License-Identifier: Apache-2.0
mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_prefix_list" {
    defaults = { id = "pl-63a5400a" }
  }
  mock_data "aws_subnet" {
    defaults = {
      vpc_id                  = "vpc-0123456789abcdef0"
      cidr_block              = "10.1.2.0/26"
      availability_zone       = "us-east-1d"
      map_public_ip_on_launch = false
    }
  }
  mock_data "aws_vpc" {
    defaults = { cidr_block_associations = [
      { association_id = "a", cidr_block = "10.1.0.0/16", state = "associated" },
      { association_id = "b", cidr_block = "10.2.0.0/16", state = "associated" },
    ] }
  }
}

variables {
  name      = "dtctl-demo"
  tags      = { dtctl-cluster = "demo", dtctl-owner = "ann" }
  region    = "us-east-1"
  az        = "us-east-1a"
  nodes     = 2
  vpc_id    = null
  subnet_id = null
  vpc_cidr  = "10.77.0.0/16"
  s3_only   = null
}

run "own" {
  command = plan

  module {
    source = "./modules/network"
  }

  assert {
    condition     = aws_vpc.own[0].cidr_block == "10.77.0.0/16" && aws_subnet.own[0].cidr_block == "10.77.1.0/24" && aws_subnet.own[0].availability_zone == "us-east-1a"
    error_message = "one subnet in one zone"
  }
  assert {
    condition     = aws_vpc_endpoint.s3[0].service_name == "com.amazonaws.us-east-1.s3" && aws_vpc_endpoint.s3[0].vpc_endpoint_type == "Gateway"
    error_message = "S3 by a gateway endpoint"
  }
  assert {
    condition     = aws_route.out[0].destination_cidr_block == "0.0.0.0/0" && output.public && output.vpc_cidrs == ["10.77.0.0/16"]
    error_message = "a way out"
  }
}

run "large" {
  command = plan

  module {
    source = "./modules/network"
  }
  variables {
    nodes = 241
  }

  assert {
    condition     = aws_subnet.own[0].cidr_block == "10.77.16.0/20"
    error_message = aws_subnet.own[0].cidr_block
  }
}

run "small_vpc" {
  command = plan

  module {
    source = "./modules/network"
  }
  variables {
    vpc_cidr = "192.168.7.0/27"
    nodes    = 21
  }

  assert {
    condition     = aws_subnet.own[0].cidr_block == "192.168.7.0/27"
    error_message = aws_subnet.own[0].cidr_block
  }
}

run "too_many_for_it" {
  command = plan

  module {
    source = "./modules/network"
  }
  variables {
    vpc_cidr = "192.168.7.0/27"
    nodes    = 22
  }

  expect_failures = [output.subnet_cidr]
}

run "one_bucket" {
  command = apply

  module {
    source = "./modules/network"
  }
  variables {
    s3_only = "data-of-ann"
  }

  assert {
    condition     = jsondecode(aws_vpc_endpoint.s3[0].policy).Statement[0].Resource == ["arn:aws:s3:::data-of-ann", "arn:aws:s3:::data-of-ann/*"]
    error_message = aws_vpc_endpoint.s3[0].policy
  }
}

run "existing" {
  command = plan

  module {
    source = "./modules/network"
  }
  variables {
    subnet_id = "subnet-0123456789abcdef0"
  }

  assert {
    condition     = length(aws_vpc.own) + length(aws_subnet.own) + length(aws_internet_gateway.own) + length(aws_vpc_endpoint.s3) == 0
    error_message = "nothing is made"
  }
  assert {
    condition     = output.vpc_id == "vpc-0123456789abcdef0" && output.subnet_cidr == "10.1.2.0/26" && output.az == "us-east-1d" && !output.public
    error_message = "all from the subnet"
  }
  assert {
    condition     = jsonencode(output.vpc_cidrs) == jsonencode(["10.1.0.0/16", "10.2.0.0/16"])
    error_message = jsonencode(output.vpc_cidrs)
  }
}

run "existing_but_elsewhere" {
  command = plan

  module {
    source = "./modules/network"
  }
  variables {
    subnet_id = "subnet-0123456789abcdef0"
    vpc_id    = "vpc-0fedcba9876543210"
  }

  expect_failures = [data.aws_subnet.given]
}

run "existing_and_full" {
  command = plan

  module {
    source = "./modules/network"
  }
  variables {
    subnet_id = "subnet-0123456789abcdef0"
    nodes     = 60
  }

  expect_failures = [output.subnet_cidr]
}
