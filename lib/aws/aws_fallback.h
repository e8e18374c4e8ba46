// SPDX-License-Identifier: Apache-2.0
// Chooses the next zone and purchase option after a refusal. Pure: no API, no clock.
//
//     aws_tries_init(&t, zones, zone_count, purchases, purchase_count);
//     do { make(t.zone, t.purchase) … } while (refused && aws_tries_next(&t, &refusal));
//
// All zones are tried with one purchase option before the next option. Among the remaining zones,
// those that AWS recommends come first. A placement group makes capacity scarcer: where a zone had
// none, all zones are tried again outside of the group before the next option. A quota applies to
// every zone, so its refusal moves on to the next option at once. After throttling or a duplicate
// the same attempt is repeated.
#ifndef AWS_AWS_FALLBACK_H
#define AWS_AWS_FALLBACK_H

#include "aws/aws_errors.h"
#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

enum { AWS_TRIES_ZONES_MAX = 32, AWS_TRIES_AGAIN_MAX = 2 };

struct aws_tries {
    const char *zones[AWS_TRIES_ZONES_MAX]; // empty: unknown, the module takes the first zone
    size_t zone_count;
    bool tried[AWS_TRIES_ZONES_MAX]; // with the current purchase option
    const char *const *purchases;
    size_t purchase_count, purchase_at;
    const char *zone; // NULL: the module chooses
    const char *purchase;
    bool grouped; // nodes enter a placement group and may do without it; set by the caller
    bool outside; // the current attempt is outside of the group
    bool full;    // a zone had no capacity with the current purchase option
    int again;    // repetitions of the same attempt
};

// zones may be empty; purchases has at least one entry and stays the caller's.
void aws_tries_init(struct aws_tries *t, const char *const *zones, size_t zone_count,
                    const char *const *purchases, size_t purchase_count);
// Adds zones that were learnt later, when none were given; chosen is the zone just tried. Zones
// that are not the region's own are left out.
void aws_tries_learn(struct aws_tries *t, const char *region, const char *const *zones,
                     size_t zone_count, const char *chosen);
// True: zone, purchase and outside are the next attempt. False: no attempt is left, or none can
// help.
bool aws_tries_next(struct aws_tries *t, const struct aws_refusal *r);

#endif
