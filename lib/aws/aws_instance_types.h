// SPDX-License-Identifier: Apache-2.0
// EC2 instance types: hardware, prices and quotas. Pure tables.
//
// Prices are on-demand list prices of Linux in us-east-1 on the day AWS_INSTANCE_TYPES_PRICES_OF;
// other regions and spot differ. Sizes come from AWS's DescribeInstanceTypes. Other types are
// usable, too; their price is the operator's setting aws.price.
#ifndef AWS_AWS_INSTANCE_TYPES_H
#define AWS_AWS_INSTANCE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#define AWS_INSTANCE_TYPES_PRICES_OF     "2026-02-09"
#define AWS_INSTANCE_TYPES_PRICES_REGION "us-east-1"

struct aws_type {
    const char *name;
    int gpus;
    const char *gpu;       // "" without a GPU
    double gpu_memory_gib; // per GPU
    int vcpus, memory_gib;
    const char *network; // in AWS's words, in Gb/s
    int efa;             // interfaces
    int64_t price_mils;  // thousandths of a dollar per hour; 0: no list price
};

const struct aws_type *aws_instance_types_find(const char *name); // NULL: not listed
const char *aws_instance_types_nearest(const char *name);         // NULL when no name is similar

bool aws_instance_types_is_arm(const char *name);         // not x86_64, by its name
bool aws_instance_types_has_shared_gpu(const char *name); // a part of one, which AWS counts as none
bool aws_instance_types_has_old_gpu(const char *name);    // unknown to the open driver
bool aws_instance_types_is_metal(const char *name);       // a machine without a hypervisor

// Purchase options; the values of the variable `purchase`.
enum aws_purchase { AWS_ON_DEMAND, AWS_SPOT, AWS_RESERVATION, AWS_CAPACITY_BLOCK };
extern const char *const aws_purchase_names[]; // NULL-terminated
int aws_purchase_named(const char *name);      // -1: none

// The service quota, in vCPUs, that an instance of this type counts against.
struct aws_quota {
    const char *code; // "L-…"; "" when the purchase option has no quota
    const char *name;
};
struct aws_quota aws_instance_types_quota(const char *type, enum aws_purchase purchase);

#endif
