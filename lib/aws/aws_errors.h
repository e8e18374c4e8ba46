// SPDX-License-Identifier: Apache-2.0
// A table from AWS's error codes to meanings and next steps. Pure.
//
// Terraform passes on the API's message: "… api error InsufficientInstanceCapacity: We currently do
// not have …". A message without such a code is AWS_REFUSAL_OTHER.
#ifndef AWS_AWS_ERRORS_H
#define AWS_AWS_ERRORS_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

enum aws_refusal_kind {
    AWS_REFUSAL_NONE,
    AWS_REFUSAL_CAPACITY,    // no capacity now; another zone or purchase option may have some
    AWS_REFUSAL_QUOTA,       // a limit of the account; another zone does not help
    AWS_REFUSAL_UNSUPPORTED, // not offered in the zone; another zone may offer it
    AWS_REFUSAL_PLACEMENT,   // the group or the subnet is unsuitable; another zone may work
    AWS_REFUSAL_PRICE,       // the spot price is above the limit
    AWS_REFUSAL_PERMISSION,  // rights are missing; retrying does not help
    AWS_REFUSAL_CREDENTIALS, // credentials are missing, invalid or expired
    AWS_REFUSAL_ACCOUNT,     // the account is not ready: terms, subscription, verification
    AWS_REFUSAL_THROTTLE,    // too many calls; retry later
    AWS_REFUSAL_DUPLICATE,   // it exists already, for instance after a lost answer
    AWS_REFUSAL_OTHER,
};

enum { AWS_REFUSAL_CODE_BYTES_MAX = 64, AWS_REFUSAL_ZONES_MAX = 16 };

struct aws_refusal {
    enum aws_refusal_kind kind;
    char code[AWS_REFUSAL_CODE_BYTES_MAX]; // AWS's error code; "" when none was found
    const char *action;                    // "ec2:RunInstances" for an error about one call, or ""
    const char *request;                   // AWS's id of the call, for its support; ""
    const char *words;                     // AWS's message after the code
    const char *next;                      // one next step
    const char *quota;                     // code and name; "" for no quota, or one of vCPUs
    bool everywhere;                       // no other zone or purchase option can help
    const char *zones[AWS_REFUSAL_ZONES_MAX]; // zones that the message recommends
    size_t zone_count;
};

// Parses Terraform's message, which may be any text. Strings are in the arena.
struct aws_refusal aws_refusal_of(struct arena *a, const char *text);
// True when Terraform's message is about a variable that a rule of infra/ refuses, which ends the
// plan before anything is created. Strings are in the arena.
bool aws_refusal_variable(struct arena *a, const char *text, const char **variable,
                          const char **rule);
// True when `one` should be reported instead of `other`, an earlier error of the same attempt.
bool aws_refusal_outranks(const struct aws_refusal *one, const struct aws_refusal *other);
const char *aws_refusal_name(enum aws_refusal_kind kind); // "capacity"
// True when another zone or purchase option may succeed.
bool aws_refusal_is_local(enum aws_refusal_kind kind);

#endif
