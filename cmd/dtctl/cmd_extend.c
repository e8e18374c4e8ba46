// SPDX-License-Identifier: Apache-2.0
// dtctl extend: moves the end of the nodes' lease.
#include "command.h"

#include "base/clock.h"
#include "provider/cluster_backup.h"
#include "provider/provider.h"
#include "up_down.h"

enum { DAY_MS = 86400 * 1000, SAME_MS = 60000 };

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
     .help = "Allow an earlier end than the present one."},
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
    return 0;
}

static int check_limit(const struct provider_lease *lease, int64_t for_ms, struct err *e) {
    int days = (int)(lease->ahead_ms_max / DAY_MS);
    if (for_ms > lease->ahead_ms_max)
        return err_set(e, ERR_USAGE,
                       "nodes take no end that is more than %d days ahead; say dtctl extend %dd, "
                       "and again later",
                       days, days);
    return 0;
}

// Prints the new end of the nodes that were reached.
static void show(struct fleet *f, const struct inventory *inv, int64_t until, int64_t for_ms) {
    struct context *s = f->context;
    struct strbuf text = {0};
    struct json_out j;
    char stamp[CLOCK_ISO_BYTES], left[STR_HUMAN_BYTES_MAX], cost[STR_MONEY_BYTES_MAX];
    struct inventory reached = {.provider = inv->provider};
    reached.nodes = arena_new(s->arena, struct inventory_node, f->count + 1);
    for (size_t i = 0; i < f->count; i++)
        if (!f->nodes[i].failed)
            reached.nodes[reached.count++] = *f->nodes[i].info;
    const char *some = reached.count < f->count
                           ? arena_printf(s->arena, "%zu of %zu", reached.count, f->count)
                           : "the";
    if (reached.count == 0)
        return;
    screen_event(&text, &j, "extend");
    json_str(&j, "cluster", inv->name);
    json_int(&j, "until_ms", until);
    json_array(&j, "nodes");
    for (size_t i = 0; i < reached.count; i++)
        json_str(&j, NULL, reached.nodes[i].name);
    json_end(&j);
    screen_event_end(s->screen, &text, &j);
    int64_t mils = provider_cost_mils(s, &reached, for_ms);
    screen_out(s->screen, "%s nodes of %s end themselves in %s (%.16sZ)%s%s\n", some, inv->name,
               str_human_ms(left, for_ms), clock_iso(stamp, until),
               mils >= 0 ? "; until then they cost at most " : "",
               mils >= 0 ? str_money(cost, mils) : "");
}

// Warns of a node that was not reached.
static void explain(struct fleet *f, const struct inventory *inv) {
    const bool *gone = provider_gone(f, inv);
    for (size_t i = 0; i < f->count; i++) {
        struct fleet_node *n = &f->nodes[i];
        if (n->failed && !gone[n->info - inv->nodes])
            err_set(&n->err, n->err.code, "%s; it keeps the end that it had",
                    arena_strdup(f->context->arena, n->err.text));
    }
}

static int refuse_shorter(struct fleet *f, const struct provider_lease *lease, int64_t until,
                          struct err *e) {
    char now[STR_HUMAN_BYTES_MAX], wanted[STR_HUMAN_BYTES_MAX];
    int64_t ends = 0, now_ms = clock_wall_ms();
    if (lease->get(f, &ends, e) < 0)
        return -1;
    if (ends <= until + SAME_MS)
        return 0;
    return err_set(e, ERR_USAGE,
                   "the nodes end in %s, and %s would be sooner (try: a longer time, or --shorten)",
                   str_human_ms(now, ends - now_ms), str_human_ms(wanted, until - now_ms));
}

static int extend(struct fleet *f, const struct provider_lease *lease, int64_t until, bool shorten,
                  struct err *e) {
    if (cluster_lock(&f->context->cluster, "extend", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0 ||
        fleet_connect(f, false, e) < 0 || (!shorten && refuse_shorter(f, lease, until, e) < 0))
        return -1;
    return lease->set(f, until, e) < 0 ? -1 : cluster_backup_leave(f, e);
}

int up_down_extend(struct context *s, int64_t for_ms, bool shorten, struct err *e) {
    struct inventory inv;
    struct fleet f;
    if (cluster_load(&s->cluster, &inv, e) < 0)
        return -1;
    const struct provider *p = provider_named(inv.provider);
    if (!p || !p->lease)
        return err_set(e, ERR_USAGE, "cluster '%s' has no lease: dtctl did not make its machines",
                       inv.name);
    if (check_limit(p->lease, for_ms, e) < 0)
        return -1;
    int64_t until = clock_wall_ms() + for_ms;
    fleet_open(&f, s, &inv, NULL, 0);
    int result = extend(&f, p->lease, until, shorten, e);
    if (result == 0) {
        show(&f, &inv, until, for_ms);
        explain(&f, &inv);
        if (fleet_failures(&f) < f.count)
            result = p->lease->tag(s, until, e);
    }
    fleet_report(&f);
    if (result == 0)
        result = fleet_verdict(&f, "extend", e);
    fleet_close(&f);
    return result;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct extend_flags *wish = flags;
    int64_t for_ms;
    return choose(s, rest, &for_ms, e) < 0 ? -1 : up_down_extend(s, for_ms, wish->shorten, e);
}

const struct command cmd_extend = {
    .verb =
        {.name = "extend",
         .summary = "let the nodes of provider aws live longer",
         .args = "[TIME]",
         .text =
             "Sets the time at which the nodes end themselves to TIME from now; without TIME, to "
             "lease.ttl from now. The maximum is 31 days. An earlier end than the present one "
             "needs --shorten. The tag dtctl-expires of the instances, which gc in other folders "
             "reads, changes too. Unreachable nodes are named with the reason, and the exit status "
             "is 3; the next up gives them the new end. When no node is reached, nothing changes.",
         .examples = "dtctl extend 4h\n"},
    .args_max = 1,
    .rows = &TABLE,
    .flags_bytes = sizeof(struct extend_flags),
    .run = run,
};
