// SPDX-License-Identifier: Apache-2.0
// The order of attempts to create instances.
#include "aws/aws_fallback.h"

#include "base/str.h"

#include <string.h>

void aws_tries_init(struct aws_tries *t, const char *const *zones, size_t zone_count,
                    const char *const *purchases, size_t purchase_count) {
    *t = (struct aws_tries){.purchases = purchases, .purchase_count = purchase_count};
    for (size_t i = 0; i < zone_count && i < AWS_TRIES_ZONES_MAX; i++)
        t->zones[t->zone_count++] = zones[i];
    t->purchase = purchases[0];
    if (t->zone_count) {
        t->zone = t->zones[0];
        t->tried[0] = true;
    }
}

void aws_tries_learn(struct aws_tries *t, const char *region, const char *const *zones,
                     size_t zone_count, const char *chosen) {
    if (t->zone_count)
        return;
    for (size_t i = 0; i < zone_count && t->zone_count < AWS_TRIES_ZONES_MAX; i++) {
        // Local Zones (us-west-2-lax-1a) are used only on request.
        if (strlen(zones[i]) != strlen(region) + 1)
            continue;
        t->tried[t->zone_count] = str_eq(zones[i], chosen);
        t->zones[t->zone_count++] = zones[i];
    }
}

static bool take_zone(struct aws_tries *t, size_t i) {
    t->tried[i] = true;
    t->zone = t->zones[i];
    return true;
}

static bool next_zone(struct aws_tries *t, const struct aws_refusal *r) {
    for (size_t k = 0; k < r->zone_count; k++)
        for (size_t i = 0; i < t->zone_count; i++)
            if (!t->tried[i] && strcmp(t->zones[i], r->zones[k]) == 0)
                return take_zone(t, i);
    for (size_t i = 0; i < t->zone_count; i++)
        if (!t->tried[i])
            return take_zone(t, i);
    return false;
}

static void begin_again(struct aws_tries *t) {
    memset(t->tried, 0, sizeof t->tried);
    if (t->zone_count)
        take_zone(t, 0);
}

// A reservation is in a group, or in none, whatever the nodes would like.
static bool may_leave_group(const struct aws_tries *t) {
    return t->grouped && !t->outside && t->full &&
           (str_eq(t->purchase, "on-demand") || str_eq(t->purchase, "spot"));
}

bool aws_tries_next(struct aws_tries *t, const struct aws_refusal *r) {
    if (r->kind == AWS_REFUSAL_THROTTLE || r->kind == AWS_REFUSAL_DUPLICATE)
        return ++t->again <= AWS_TRIES_AGAIN_MAX;
    if (r->everywhere || !aws_refusal_is_local(r->kind))
        return false;
    t->full |= r->kind == AWS_REFUSAL_CAPACITY;
    if (r->kind != AWS_REFUSAL_QUOTA && next_zone(t, r))
        return true;
    if (r->kind != AWS_REFUSAL_QUOTA && may_leave_group(t)) {
        t->outside = true;
        begin_again(t);
        return true;
    }
    if (t->purchase_at + 1 >= t->purchase_count)
        return false;
    t->purchase = t->purchases[++t->purchase_at];
    t->outside = t->full = false;
    t->zone = NULL;
    begin_again(t);
    return true;
}
