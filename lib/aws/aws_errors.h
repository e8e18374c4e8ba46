// SPDX-License-Identifier: Apache-2.0
// What AWS's refusals mean and what to do next: a table from error codes to words. Pure.
//
// Terraform passes on the API's words: "… api error InsufficientInstanceCapacity: We currently do
// not have …". A message without such a code is AWS_REFUSAL_OTHER.
#ifndef AWS_AWS_ERRORS_H
#define AWS_AWS_ERRORS_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

enum aws_refusal_kind {
    AWS_REFUSAL_NONE,
    AWS_REFUSAL_CAPACITY,    // none left there now: another zone or way to buy may have some
    AWS_REFUSAL_QUOTA,       // the account's limit: another zone does not help
    AWS_REFUSAL_UNSUPPORTED, // not offered there: another zone may offer it
    AWS_REFUSAL_PLACEMENT,   // the group or the subnet cannot take it: another zone may
    AWS_REFUSAL_PRICE,       // the spot price is above the limit
    AWS_REFUSAL_PERMISSION,  // credentials or rights: nothing else helps
    AWS_REFUSAL_ACCOUNT,     // the account itself is not ready: terms, a subscription, verification
    AWS_REFUSAL_THROTTLE,    // too many calls: later
    AWS_REFUSAL_DUPLICATE,   // there already, such as by a call whose answer was lost
    AWS_REFUSAL_OTHER,
};

enum { AWS_REFUSAL_CODE_BYTES_MAX = 64, AWS_REFUSAL_ZONES_MAX = 16 };

struct aws_refusal {
    enum aws_refusal_kind kind;
    char code[AWS_REFUSAL_CODE_BYTES_MAX]; // AWS's, "" when none was found
    const char *action;                    // "ec2:RunInstances", where it is about one call, or ""
    const char *request;                   // AWS's id of the call, for its support; "" without
    const char *words;                     // what AWS said after the code
    const char *next;                      // one next step
    const char *quota;                     // code and name; "" when it is none, or one of vCPUs
    bool everywhere;                       // no other zone and no other way to buy can help
    const char *zones[AWS_REFUSAL_ZONES_MAX]; // that the message recommends
    size_t zone_count;
};

// Strings in the arena. text is what Terraform said; it may be anything.
struct aws_refusal aws_refusal_of(struct arena *a, const char *text);
// Of several things that went wrong in one attempt, which one to tell: whether `one` says more
// than `other`, which came before.
bool aws_refusal_outranks(const struct aws_refusal *one, const struct aws_refusal *other);
const char *aws_refusal_name(enum aws_refusal_kind kind); // "capacity"
// Whether a further attempt, elsewhere or in another way, can end better.
bool aws_refusal_is_local(enum aws_refusal_kind kind);

#endif
