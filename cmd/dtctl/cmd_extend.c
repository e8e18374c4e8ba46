// SPDX-License-Identifier: Apache-2.0
// dtctl extend: nodes that end themselves do so later.
#include "command.h"

#include "base/clock.h"
#include "cluster/aws_plan.h"
#include "job/aws_lease.h"

static int run(struct session *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    (void)flags;
    struct inventory inv;
    struct fleet f;
    struct aws_plan p;
    int64_t for_ms = s->config->lease.ttl_ms;
    char stamp[CLOCK_ISO_BYTES], left[STR_HUMAN_BYTES_MAX], cost[AWS_PLAN_MONEY_BYTES];
    if (rest->count && str_parse_duration_ms(rest->args[0], &for_ms, e) < 0)
        return -1;
    if (for_ms <= 0)
        return err_set(e, ERR_USAGE, "extend needs a time, such as dtctl extend 4h");
    if (cluster_load(&s->cluster, &inv, e) < 0)
        return -1;
    if (!str_eq(inv.provider, "aws"))
        return err_set(e, ERR_USAGE, "cluster '%s' has no lease: dtctl did not make its machines",
                       inv.name);
    int64_t until = clock_wall_ms() + for_ms;
    fleet_open(&f, s, &inv, NULL, 0);
    int result = cluster_lock(&s->cluster, "extend", CLUSTER_LOCK_WAIT_MS_MAX, e);
    if (result == 0)
        result = fleet_connect(&f, false, e);
    if (result == 0)
        result = aws_lease_set(&f, until, e);
    fleet_report(&f);
    if (result == 0)
        result = fleet_verdict(&f, "extend", e);
    fleet_close(&f);
    if (result < 0)
        return -1;
    aws_plan_make(&p, &s->config->aws, &s->config->lease, inv.name, "", (int64_t)inv.count);
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "extend");
    json_str(&j, "cluster", inv.name);
    json_int(&j, "until_ms", until);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "the nodes of %s end themselves in %s (%.16sZ)%s%s\n", inv.name,
               str_human_ms(left, for_ms), clock_iso(stamp, until),
               p.price_mils ? "; until then they cost at most " : "",
               p.price_mils
                   ? aws_plan_money(cost, aws_plan_cost_mils(&p, (int64_t)inv.count, for_ms))
                   : "");
    return 0;
}

const struct command cmd_extend = {
    .verb = {.name = "extend",
             .summary = "let the nodes of provider aws live longer",
             .args = "[TIME]",
             .text = "Moves the moment at which the nodes end themselves: to TIME from now, or, "
                     "without it, to lease.ttl from now. A shorter time moves it forward.",
             .examples = "dtctl extend 4h\n"},
    .args_max = 1,
    .run = run,
};
