// SPDX-License-Identifier: Apache-2.0
// dtctl extend: moves the end of the nodes' lease.
#include "command.h"

#include "aws/aws_estimate.h"
#include "aws/aws_lease.h"
#include "base/clock.h"
#include "provider/cluster_backup.h"

enum { DAY_S = 86400, SAME_MS = 60000 };

struct extend_flags {
    bool shorten;
};

static const struct option_row ROWS[] = {
    {.flag = "shorten",
     .verbs = "extend",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct extend_flags, shorten),
     .marks = OPTION_NO_ENV,
     .help = "Also move the end forward, so that nodes end sooner."},
};
static const struct option_table TABLE = {"Extend", ROWS, sizeof ROWS / sizeof ROWS[0]};

static int choose(const struct context *s, const struct cli_rest *rest, int64_t *for_ms,
                  struct err *e) {
    *for_ms = s->config->lease.ttl_ms;
    if (rest->count && str_parse_duration_ms(rest->args[0], for_ms, e) < 0) {
        e->code = ERR_USAGE;
        return -1;
    }
    if (*for_ms <= 0)
        return err_set(e, ERR_USAGE, "extend needs a time, such as dtctl extend 4h");
    if (*for_ms > (int64_t)AWS_LEASE_AHEAD_S_MAX * 1000)
        return err_set(e, ERR_USAGE,
                       "nodes take no end that is more than %d days ahead; say dtctl extend %dd, "
                       "and again later",
                       AWS_LEASE_AHEAD_S_MAX / DAY_S, AWS_LEASE_AHEAD_S_MAX / DAY_S);
    return 0;
}

// Prints the new end of the nodes that were reached.
static void tell(struct fleet *f, const struct inventory *inv, int64_t until, int64_t for_ms) {
    struct context *s = f->context;
    struct aws_plan p;
    struct strbuf text = {0};
    struct json_out j;
    char stamp[CLOCK_ISO_BYTES], left[STR_HUMAN_BYTES_MAX], cost[AWS_PLAN_MONEY_BYTES];
    size_t reached = f->count - fleet_failures(f);
    const char *some =
        reached < f->count ? arena_printf(s->arena, "%zu of %zu", reached, f->count) : "the";
    if (reached == 0)
        return;
    screen_event(&text, &j, "extend");
    json_str(&j, "cluster", inv->name);
    json_int(&j, "until_ms", until);
    json_array(&j, "nodes");
    for (size_t i = 0; i < f->count; i++)
        if (!f->nodes[i].failed)
            json_str(&j, NULL, f->nodes[i].info->name);
    json_end(&j);
    screen_event_end(s->screen, &text, &j);
    aws_plan_make(&p, &s->config->aws, &s->config->lease, inv->name, "", (int64_t)reached);
    screen_out(s->screen, "%s nodes of %s end themselves in %s (%.16sZ)%s%s\n", some, inv->name,
               str_human_ms(left, for_ms), clock_iso(stamp, until),
               p.price_mils ? "; until then they cost at most " : "",
               p.price_mils ? aws_plan_money(cost, aws_plan_cost_mils(&p, (int64_t)reached, for_ms))
                            : "");
}

// Warns of a node that was not reached.
static void explain(struct fleet *f, const struct inventory *inv) {
    const bool *gone = aws_lease_gone(f, inv);
    for (size_t i = 0; i < f->count; i++) {
        struct fleet_node *n = &f->nodes[i];
        if (n->failed && !gone[n->info - inv->nodes])
            err_set(&n->err, n->err.code, "%s; it keeps the end that it had",
                    arena_strdup(f->context->arena, n->err.text));
    }
}

static int refuse_shorter(struct fleet *f, int64_t until, struct err *e) {
    char now[STR_HUMAN_BYTES_MAX], wanted[STR_HUMAN_BYTES_MAX];
    int64_t ends = 0, now_ms = clock_wall_ms();
    if (aws_lease_get(f, &ends, e) < 0)
        return -1;
    if (ends <= until + SAME_MS)
        return 0;
    return err_set(e, ERR_USAGE,
                   "the nodes end in %s, and %s would be sooner (try: a longer time, or --shorten)",
                   str_human_ms(now, ends - now_ms), str_human_ms(wanted, until - now_ms));
}

static int extend(struct fleet *f, int64_t until, bool shorten, struct err *e) {
    if (cluster_lock(&f->context->cluster, "extend", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0 ||
        fleet_connect(f, false, e) < 0 || (!shorten && refuse_shorter(f, until, e) < 0))
        return -1;
    return aws_lease_set(f, until, e) < 0 ? -1 : record_leave(f, e);
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct extend_flags *wish = flags;
    struct inventory inv;
    struct fleet f;
    int64_t for_ms;
    if (choose(s, rest, &for_ms, e) < 0 || cluster_load(&s->cluster, &inv, e) < 0)
        return -1;
    if (!str_eq(inv.provider, "aws"))
        return err_set(e, ERR_USAGE, "cluster '%s' has no lease: dtctl did not make its machines",
                       inv.name);
    int64_t until = clock_wall_ms() + for_ms;
    fleet_open(&f, s, &inv, NULL, 0);
    int result = extend(&f, until, wish->shorten, e);
    if (result == 0) {
        tell(&f, &inv, until, for_ms);
        explain(&f, &inv);
        if (fleet_failures(&f) < f.count)
            result = aws_lease_tag(s, until, e);
    }
    fleet_report(&f);
    if (result == 0)
        result = fleet_verdict(&f, "extend", e);
    fleet_close(&f);
    return result;
}

const struct command cmd_extend = {
    .verb = {.name = "extend",
             .summary = "let the nodes of provider aws live longer",
             .args = "[TIME]",
             .text = "Moves the moment at which the nodes end themselves: to TIME from now, or, "
                     "without it, to lease.ttl from now; at most 31 days. A time that ends sooner "
                     "is refused unless --shorten is given. The tag dtctl-expires of the "
                     "instances, which gc in other folders goes by, follows. Nodes that cannot be "
                     "reached are named, with the reason, and the "
                     "exit status is 3; they get the new end from the next up, as nodes do that "
                     "are made later. If none is reached nothing changes.",
             .examples = "dtctl extend 4h\n"},
    .args_max = 1,
    .rows = &TABLE,
    .flags_bytes = sizeof(struct extend_flags),
    .run = run,
};
