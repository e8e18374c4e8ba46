// SPDX-License-Identifier: Apache-2.0
// Size, price and quota of a cluster on AWS, shown and not checked (AWS refuses: aws_errors.h),
// from the configuration and the tables of aws_instance_types.h, as text and as JSON. Pure; AWS is
// not queried.
#ifndef AWS_AWS_ESTIMATE_H
#define AWS_AWS_ESTIMATE_H

#include "aws/aws_instance_types.h"
#include "base/json.h"
#include "base/str.h"
#include "conf/aws_config.h"

#include <stdbool.h>
#include <stdint.h>

struct aws_plan {
    const struct aws_config *aws;
    const struct lease_config *lease;
    const char *cluster, *region;
    int64_t nodes;
    const struct aws_type *type; // NULL: not in the table
    enum aws_purchase purchase;  // the first purchase option, or that of nodes that exist
    bool bought;                 // nodes exist, and further ones are bought as they were
    int64_t price_mils;          // per node and hour; 0: unknown
    bool price_given;            // set by aws.price
    int64_t until_ms, left_ms;   // end of the lease of nodes that exist; 0: it begins with them
    struct aws_quota quota;
};

void aws_plan_make(struct aws_plan *p, const struct aws_config *aws,
                   const struct lease_config *lease, const char *cluster, const char *region,
                   int64_t nodes);
// Nodes exist that were bought in this way.
void aws_plan_bought(struct aws_plan *p, enum aws_purchase purchase);
// Formats lines "  name      value".
void aws_plan_format(const struct aws_plan *p, struct strbuf *out);
void aws_plan_json(const struct aws_plan *p, struct json_out *j); // members of an open object

// Price per hour of a node of this type, bought in this way; 0: unknown. A capacity block is paid
// in advance at its own price.
int64_t aws_plan_price_mils(const struct aws_config *aws, const char *type,
                            enum aws_purchase purchase);
// Cost of `nodes` nodes over `ms` milliseconds, in thousandths of a dollar.
int64_t aws_plan_cost_mils(const struct aws_plan *p, int64_t nodes, int64_t ms);

// The region of a profile in the text of ~/.aws/config; NULL when it has none. profile "": default.
const char *aws_plan_profile_region(struct arena *a, const char *text, const char *profile);

#endif
