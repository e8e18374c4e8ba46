// SPDX-License-Identifier: Apache-2.0
// EC2 instance types: what they have, what they cost, which quota they count against. Pure tables.
//
// Prices are on-demand list prices of Linux in us-east-1, of the day AWS_TYPES_PRICES_OF; other
// regions and spot differ. Sizes come from AWS's DescribeInstanceTypes. A type that is not listed
// can be used all the same: its price is then what the operator says (aws.price).
#ifndef AWS_AWS_TYPES_H
#define AWS_AWS_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#define AWS_TYPES_PRICES_OF     "2026-02-09"
#define AWS_TYPES_PRICES_REGION "us-east-1"

struct aws_type {
    const char *name;
    int gpus;
    const char *gpu;       // "" without one
    double gpu_memory_gib; // of each
    int vcpus, memory_gib;
    const char *network; // as AWS states it, in Gb/s
    int efa;             // interfaces
    int64_t price_mils;  // thousandths of a dollar per hour; 0: no list price
};

const struct aws_type *aws_types_find(const char *name); // NULL: not listed
const char *aws_types_nearest(const char *name);         // NULL when nothing is near

bool aws_types_is_arm(const char *name); // not x86_64, by its name

// How an instance is paid for; the words of the variable `purchase`.
enum aws_purchase { AWS_ON_DEMAND, AWS_SPOT, AWS_RESERVATION, AWS_CAPACITY_BLOCK };
extern const char *const aws_purchase_names[]; // NULL-terminated
int aws_purchase_named(const char *name);      // -1: none

// The service quota (of vCPUs) that an instance of this type counts against.
struct aws_quota {
    const char *code; // "L-…"; "" when the kind of purchase counts against none
    const char *name;
};
struct aws_quota aws_types_quota(const char *type, enum aws_purchase purchase);

#endif
