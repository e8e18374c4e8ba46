// SPDX-License-Identifier: Apache-2.0
// Size and price of a cluster on AWS.
#include "aws/aws_estimate.h"

#include "base/clock.h"
#include "base/str.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HOUR_MS = 3600 * 1000 };

int64_t aws_plan_price_mils(const struct aws_config *aws, const char *type,
                            enum aws_purchase purchase) {
    const struct aws_type *known = aws_instance_types_find(type);
    if (aws->price > 0)
        return (int64_t)(aws->price * 1000 + 0.5);
    return known && purchase != AWS_CAPACITY_BLOCK ? known->price_mils : 0;
}

void aws_plan_make(struct aws_plan *p, const struct aws_config *aws,
                   const struct lease_config *lease, const char *cluster, const char *region,
                   int64_t nodes) {
    *p = (struct aws_plan){.aws = aws, .lease = lease, .cluster = cluster, .region = region};
    p->nodes = nodes;
    p->type = aws_instance_types_find(aws->instance_type);
    int way = aws->fallback.count ? aws_purchase_named(aws->fallback.items[0]) : AWS_ON_DEMAND;
    p->price_given = aws->price > 0;
    aws_plan_bought(p, way < 0 ? AWS_ON_DEMAND : (enum aws_purchase)way);
    p->bought = false;
}

void aws_plan_bought(struct aws_plan *p, enum aws_purchase purchase) {
    p->bought = true;
    p->purchase = purchase;
    p->price_mils = aws_plan_price_mils(p->aws, p->aws->instance_type, purchase);
    p->quota = aws_instance_types_quota(p->aws->instance_type, purchase);
}

int64_t aws_plan_cost_mils(const struct aws_plan *p, int64_t nodes, int64_t ms) {
    return (int64_t)((double)p->price_mils * (double)nodes * (double)ms / HOUR_MS + 0.5);
}

// ---- text ---------------------------------------------------------------------------------------

__attribute__((format(printf, 3, 4))) static void line(struct strbuf *out, const char *what,
                                                       const char *fmt, ...) {
    va_list ap;
    strbuf_addf(out, "  %-10s ", what);
    va_start(ap, fmt);
    strbuf_vaddf(out, fmt, ap);
    va_end(ap);
    strbuf_addc(out, '\n');
}

static void add_list(struct strbuf *out, const struct option_list *list, const char *between) {
    for (size_t i = 0; i < list->count; i++)
        strbuf_addf(out, "%s%s", i ? between : "", list->items[i]);
}

static void format_nodes(const struct aws_plan *p, struct strbuf *out) {
    const struct aws_type *t = p->type;
    if (!t) {
        line(out, "nodes", "%" PRId64 " x %s (not in the table: sizes and list price not known)",
             p->nodes, p->aws->instance_type);
        return;
    }
    line(out, "nodes", "%" PRId64 " x %s", p->nodes, t->name);
    if (t->gpus)
        line(out, "GPUs", "%" PRId64 " x %s with %g GiB, %d per node", p->nodes * t->gpus, t->gpu,
             t->gpu_memory_gib, t->gpus);
    line(out, "CPUs", "%" PRId64 " vCPUs, %d per node, with %d GiB of memory", p->nodes * t->vcpus,
         t->vcpus, t->memory_gib);
    if (t->efa && p->aws->efa == 0)
        line(out, "network", "%s Gb/s per node, EFA on %d interface%s", t->network, t->efa,
             str_plural(t->efa));
    else
        line(out, "network", "%s Gb/s per node, no EFA", t->network);
}

// Several interfaces are created separately and get no public address at launch.
static bool needs_elastic(const struct aws_plan *p) {
    const char *address = aws_config_address[p->aws->public_address];
    return strcmp(address, "elastic") == 0 || (strcmp(address, "auto") == 0 && p->aws->efa == 0 &&
                                               !p->aws->subnet[0] && p->type && p->type->efa > 1);
}

static void format_where(const struct aws_plan *p, struct strbuf *out) {
    struct strbuf zones = {0};
    add_list(&zones, &p->aws->zones, ", then ");
    line(out, "where", "%s, %s", p->region,
         zones.len ? strbuf_cstr(&zones) : "the first zone that has them");
    strbuf_clear(&zones);
    if (p->bought)
        strbuf_adds(&zones, aws_purchase_names[p->purchase]);
    else
        add_list(&zones, &p->aws->fallback, ", then ");
    line(out, "bought", "%s", strbuf_cstr(&zones));
    strbuf_fini(&zones);
    line(out, "egress", "%s", p->aws->egress == 0 ? "open" : "closed but for the cluster and S3");
}

static void format_price(const struct aws_plan *p, struct strbuf *out) {
    char each[STR_MONEY_BYTES_MAX], all[STR_MONEY_BYTES_MAX];
    if (p->price_mils == 0 && p->purchase == AWS_CAPACITY_BLOCK) {
        line(out, "price", "paid with the capacity block");
    } else if (p->price_mils == 0) {
        line(out, "price", "not known; say it with aws.price");
    } else {
        str_money(each, p->price_mils);
        str_money(all, p->price_mils * p->nodes);
        if (p->price_given)
            line(out, "price", "%s per hour, %s per node (aws.price)", all, each);
        else
            line(out, "price", "%s per hour, %s per node (on-demand list price in %s of %s%s)", all,
                 each, AWS_INSTANCE_TYPES_PRICES_REGION, AWS_INSTANCE_TYPES_PRICES_OF,
                 p->purchase == AWS_SPOT ? "; spot is less" : "");
    }
}

static void format_lease(const struct aws_plan *p, struct strbuf *out) {
    char all[STR_MONEY_BYTES_MAX], time[STR_HUMAN_BYTES_MAX], stamp[CLOCK_ISO_BYTES];
    if (p->until_ms && p->price_mils)
        line(out, "lease",
             "ends in %s (%.16sZ), at most %s until then, without volumes and traffic",
             str_human_ms(time, p->left_ms), clock_iso(stamp, p->until_ms),
             str_money(all, aws_plan_cost_mils(p, p->nodes, p->left_ms)));
    else if (p->until_ms)
        line(out, "lease", "ends in %s (%.16sZ)", str_human_ms(time, p->left_ms),
             clock_iso(stamp, p->until_ms));
    else if (p->lease->ttl_ms == 0)
        line(out, "lease", "none: the nodes run, and cost, until dtctl down");
    else if (p->price_mils)
        line(out, "lease", "%s, at most %s in it, without volumes and traffic",
             str_human_ms(time, p->lease->ttl_ms),
             str_money(all, aws_plan_cost_mils(p, p->nodes, p->lease->ttl_ms)));
    else
        line(out, "lease", "%s", str_human_ms(time, p->lease->ttl_ms));
    if (p->lease->idle_ms)
        line(out, "idle", "nodes end after %s without use", str_human_ms(time, p->lease->idle_ms));
}

void aws_plan_format(const struct aws_plan *p, struct strbuf *out) {
    format_nodes(p, out);
    format_where(p, out);
    format_price(p, out);
    format_lease(p, out);
    if (needs_elastic(p))
        line(out, "addresses", "%" PRId64 " elastic (quota L-0263D0A3, at first 5 per region)",
             p->nodes);
    if (p->quota.code[0] && p->type)
        line(out, "quota", "%" PRId64 " vCPUs of '%s' (%s)", p->nodes * p->type->vcpus,
             p->quota.name, p->quota.code);
    else if (p->quota.code[0])
        line(out, "quota", "'%s' (%s)", p->quota.name, p->quota.code);
}

void aws_plan_json(const struct aws_plan *p, struct json_out *j) {
    json_str(j, "region", p->region);
    json_str(j, "instance_type", p->aws->instance_type);
    json_int(j, "nodes", p->nodes);
    json_str(j, "purchase", aws_purchase_names[p->purchase]);
    if (p->type) {
        json_int(j, "gpus", p->nodes * p->type->gpus);
        json_int(j, "vcpus", p->nodes * p->type->vcpus);
        json_int(j, "efa", p->type->efa);
    }
    if (p->price_mils) {
        json_num(j, "price_per_hour", (double)(p->price_mils * p->nodes) / 1000);
        json_str(j, "price_of", p->price_given ? "aws.price" : AWS_INSTANCE_TYPES_PRICES_OF);
        if (p->until_ms || p->lease->ttl_ms)
            json_num(j, "price_of_lease",
                     (double)aws_plan_cost_mils(p, p->nodes,
                                                p->until_ms ? p->left_ms : p->lease->ttl_ms) /
                         1000);
    }
    if (p->until_ms)
        json_int(j, "until_ms", p->until_ms);
    json_int(j, "ttl_ms", p->lease->ttl_ms);
    json_int(j, "idle_ms", p->lease->idle_ms);
    json_str(j, "quota_code", p->quota.code);
    json_str(j, "quota_name", p->quota.name);
}

// ---- ~/.aws/config ------------------------------------------------------------------------------

// Returns the text between the two positions without surrounding white space.
static const char *trimmed(struct arena *a, const char *from, const char *to) {
    while (from < to && isspace((unsigned char)*from))
        from++;
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    return arena_strndup(a, from, (size_t)(to - from));
}

// The end of a value in a line; a blank and '#' or ';' begin a comment.
static const char *value_end(const char *from, const char *to) {
    for (const char *p = from; p < to; p++)
        if (isblank((unsigned char)p[0]) && (p[1] == '#' || p[1] == ';'))
            return p;
    return to;
}

const char *aws_plan_profile_region(struct arena *a, const char *text, const char *profile) {
    const char *want = *profile && strcmp(profile, "default") != 0
                           ? arena_printf(a, "profile %s", profile)
                           : "default";
    bool inside = false;
    while (*text) {
        size_t len = strcspn(text, "\n");
        const char *end = text + len, *equals = memchr(text, '=', len);
        if (text[0] == '[') {
            const char *close = memchr(text, ']', len);
            const char *name = trimmed(a, text + 1, close ? close : end);
            inside = strcmp(name, want) == 0 ||
                     (strcmp(want, "default") == 0 && strcmp(name, "profile default") == 0);
        } else if (inside && equals && strcmp(trimmed(a, text, equals), "region") == 0) {
            return trimmed(a, equals + 1, value_end(equals + 1, end));
        }
        text = end + (*end == '\n');
    }
    return NULL;
}
