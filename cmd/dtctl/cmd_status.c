// SPDX-License-Identifier: Apache-2.0
// dtctl status: the nodes of the cluster.
#include "command.h"

#include "base/clock.h"
#include "base/str.h"
#include "fleet/fleet_runs.h"
#include "provider/provider.h"
#include "watch.h"

#include <string.h>

// Prints the end of the nodes' lease, and their cost.
static int show_lease(struct context *s, struct fleet *f, const struct inventory *inv,
                      struct err *e) {
    const struct provider *p = provider_named(inv->provider);
    struct strbuf text = {0};
    struct json_out j;
    int64_t until = 0, now = clock_wall_ms();
    char left[STR_HUMAN_BYTES_MAX], cost[STR_MONEY_BYTES_MAX], rest[STR_MONEY_BYTES_MAX];
    if (!p || !p->lease)
        return 0;
    if (p->lease->get(f, &until, e) < 0)
        return -1;
    int64_t left_ms = until > now ? until - now : 0;
    int64_t spent = provider_spent_mils(s, inv), most = provider_cost_mils(s, inv, left_ms);
    screen_event(&text, &j, "lease");
    json_int(&j, "until_ms", until);
    json_int(&j, "left_ms", left_ms);
    if (spent >= 0)
        json_num(&j, "spent_usd", (double)spent / 1000);
    screen_event_end(s->screen, &text, &j);
    if (until)
        screen_out(s->screen, "lease: ends in %s", str_human_ms(left, left_ms));
    else
        screen_out(s->screen, "lease: not known");
    if (spent >= 0)
        screen_out(s->screen, "; spent about %s", str_money(cost, spent));
    if (most >= 0 && spent >= 0 && until)
        screen_out(s->screen, ", at most %s more until then", str_money(rest, most));
    screen_out(s->screen, "\n");
    return 0;
}

static void show_node(struct context *s, const struct fleet_node *n, const struct node_runs *runs,
                      bool gone) {
    char memory[STR_HUMAN_BYTES_MAX], disk[STR_HUMAN_BYTES_MAX];
    const struct node_run *going = NULL;
    int ranks = 0, others = 0;
    for (size_t i = 0; i < runs->count; i++)
        if (runs->items[i].node_index == n->index && !runs->items[i].over) {
            others += going != NULL;
            going = &runs->items[i];
            ranks += runs->items[i].ranks_running;
        }
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "node");
    json_str(&j, "node", n->info->name);
    json_str(&j, "address", n->info->address);
    json_str(&j, "state", gone ? "gone" : n->failed ? "unreachable" : going ? "busy" : "idle");
    json_str(&j, "error", n->failed ? n->err.text : NULL);
    json_str(&j, "run", going ? going->run : NULL);
    json_int(&j, "ranks_running", ranks);
    if (going) {
        json_str(&j, "run_state", going->state);
        json_int(&j, "round", going->round);
        json_int(&j, "restarts", going->restarts);
        json_int(&j, "max_restarts", going->max_restarts);
        json_str(&j, "reason", going->reason);
        json_bool(&j, "coordinator", going->coordinator);
    }
    if (n->ready) {
        json_str(&j, "version", n->facts.version);
        json_str(&j, "arch", n->facts.arch);
        json_int(&j, "cpus", n->facts.cpus);
        json_int(&j, "gpus", n->facts.gpus);
        json_int(&j, "memory_bytes", (int64_t)n->facts.memory_bytes);
        json_int(&j, "disk_free_bytes", (int64_t)n->facts.disk_free_bytes);
        json_int(&j, "clock_skew_ms", n->facts.clock_skew_ms);
    }
    screen_event_end(s->screen, &text, &j);
    if (n->failed) {
        screen_out(s->screen, "%-16s %-18s %-11s %s\n", n->info->name, n->info->address,
                   gone ? "gone" : "unreachable", n->err.text);
        return;
    }
    screen_out(s->screen, "%-16s %-18s %-11s %4d %4d %9s %9s  %s%s\n", n->info->name,
               n->info->address, going ? "busy" : "idle", n->facts.cpus, n->facts.gpus,
               str_human_bytes(memory, n->facts.memory_bytes),
               str_human_bytes(disk, n->facts.disk_free_bytes), going ? going->run : "",
               others ? " and more" : "");
    if (going && (going->round > 0 || going->coordinator))
        screen_out(s->screen, "  %s%s, round %d, %d of %d restarts%s%s\n", going->state,
                   going->coordinator ? ", coordinator" : "", going->round, going->restarts,
                   going->max_restarts, going->reason[0] ? ": " : "", going->reason);
}

static const struct option_row ROWS[] = {WATCH_ROWS("status")};
static const struct option_table TABLE = {"Status", ROWS, sizeof ROWS / sizeof ROWS[0]};

static int look_at_nodes(struct context *s, const struct cli_rest *rest,
                         const struct watch_flags *f, struct err *e) {
    struct inventory inv;
    struct fleet fleet;
    struct node_runs runs;
    size_t *indices = NULL, count = 0;
    if (cluster_load(&s->cluster, &inv, e) < 0 ||
        inventory_select(s->arena, &inv, rest->count ? rest->args[0] : NULL, &indices, &count, e) <
            0)
        return -1;
    fleet_open(&fleet, s, &inv, indices, count);
    if (fleet_connect(&fleet, true, e) < 0 || fleet_runs_ask(&fleet, NULL, &runs, e) < 0) {
        fleet_close(&fleet);
        return -1;
    }
    watch_begin(s, f);
    screen_out(s->screen, "cluster %s, provider %s, %zu node%s, up since %s\n", inv.name,
               inv.provider, inv.count, str_plural(inv.count), inv.created);
    screen_out(s->screen, "%-16s %-18s %-11s %4s %4s %9s %9s  %s\n", "NODE", "ADDRESS", "STATE",
               "CPUS", "GPUS", "MEMORY", "DISK FREE", "RUN");
    // A machine that does not answer may be gone for good; its provider knows.
    const bool *gone = provider_gone(&fleet, &inv);
    for (size_t i = 0; i < fleet.count; i++)
        show_node(s, &fleet.nodes[i], &runs, gone[fleet.nodes[i].info - inv.nodes]);
    int result = show_lease(s, &fleet, &inv, e);
    if (result == 0)
        result = fleet_verdict(&fleet, "status", e);
    fleet_close(&fleet);
    return result;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    return watch_again(s, look_at_nodes, rest, flags, e);
}

const struct command cmd_status = {
    .verb = {.name = "status",
             .summary = "show the nodes, whether they answer, and their runs",
             .args = "[NODES]"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct watch_flags),
    .args_max = 1,
    .run = run,
};
