// SPDX-License-Identifier: Apache-2.0
// Which zone and which way to buy comes next, after a refusal. Pure: no API, no clock.
//
//     aws_tries_init(&t, zones, zone_count, purchases, purchase_count);
//     do { make(t.zone, t.purchase) … } while (refused && aws_tries_next(&t, &refusal));
//
// All zones are tried in one way before the next way; a zone that AWS recommends comes first among
// those left. A quota holds in every zone, so its refusal goes on with the next way at once. A busy
// API, or something that was there already, says nothing of the zone: the same is tried again.
#ifndef AWS_AWS_FALLBACK_H
#define AWS_AWS_FALLBACK_H

#include "aws/aws_errors.h"
#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

enum { AWS_TRIES_ZONES_MAX = 32, AWS_TRIES_AGAIN_MAX = 2 };

struct aws_tries {
    const char *zones[AWS_TRIES_ZONES_MAX]; // empty: not known yet, the module takes the first one
    size_t zone_count;
    bool tried[AWS_TRIES_ZONES_MAX]; // in the present way
    const char *const *purchases;
    size_t purchase_count, purchase_at;
    const char *zone; // NULL: the module chooses
    const char *purchase;
    int again; // how often the same was tried again
};

// zones may be empty; purchases has at least one entry and stays the caller's.
void aws_tries_init(struct aws_tries *t, const char *const *zones, size_t zone_count,
                    const char *const *purchases, size_t purchase_count);
// Zones that were learnt since, when none were given; chosen is the one that was just tried.
void aws_tries_learn(struct aws_tries *t, const char *const *zones, size_t zone_count,
                     const char *chosen);
// True: zone and purchase are the next attempt. False: none is left, or none can help.
bool aws_tries_next(struct aws_tries *t, const struct aws_refusal *r);

#endif
