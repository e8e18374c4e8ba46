// SPDX-License-Identifier: Apache-2.0
// The tables [aws] and [lease]: which instances provider aws makes, and how long they live.
#ifndef CONF_AWS_CONFIG_H
#define CONF_AWS_CONFIG_H

#include "conf/option.h"

#include <stdbool.h>
#include <stdint.h>

enum { AWS_CONFIG_METADATA_AUTO, AWS_CONFIG_METADATA_ON, AWS_CONFIG_METADATA_OFF };

// Strings are "" and lists empty when not given. Choices that Terraform takes as words are indices
// into the lists below.
struct aws_config {
    const char *region, *profile, *owner;
    struct option_list zones; // in the order to try
    const char *instance_type;
    const char *image;           // "ami-…", or "/…", the name of a public SSM parameter
    struct option_list fallback; // ways to buy, in the order to try
    double spot_max_price;       // USD per node and hour; 0: the on-demand price
    const char *capacity_reservation;
    const char *ssh_user;
    struct option_list operator_cidrs;
    bool allow_open_ssh;
    const char *vpc, *subnet, *vpc_cidr;
    int egress, efa, placement_group, public_address; // indices into the lists below
    const char *placement_group_name;                 // existing
    int64_t root_gb, root_iops, root_throughput;      // 0: gp3's own
    const char *s3;                                   // "s3://bucket[/prefix]"
    const char *instance_profile, *permissions_boundary, *kms_key;
    int closed_metadata;        // AWS_CONFIG_METADATA_…
    const char *sagemaker_type; // instance_type as it was given, with "ml."; NULL: without
    struct option_map tags;
    double price;             // USD per node and hour; 0: the list price
    const char *endpoint_url; // of an API server other than AWS
    const char *terraform;    // program; "": terraform or tofu on PATH
    const char *state;        // "s3://bucket/prefix"; "": in the cluster's folder
    const char *state_region; // of that bucket; "": the cluster's
    int64_t boot_timeout_ms;  // 0: by the type
    bool keep_failed, ssh_include;
    const char *replace; // nodes to make anew, as a node set
};

struct lease_config {
    int64_t ttl_ms, idle_ms; // 0: none
};

// The words behind the indices, NULL-terminated.
extern const char *const aws_config_egress[], *const aws_config_efa[];
extern const char *const aws_config_placement[], *const aws_config_address[];
extern const char *const aws_config_metadata[];

// The bits of a range of addresses, such as 24 of 10.0.0.0/24; -1: the text is none.
int aws_config_range_bits(const char *text);

#endif
