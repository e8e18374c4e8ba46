// SPDX-License-Identifier: Apache-2.0
// dtctl down: removes the cluster from its nodes, or ends them.
#include "command.h"

#include "base/str.h"
#include "up_down.h"

#include <stdio.h>

struct down_flags {
    const char *node;
    bool force, forget;
};

static const struct option_row ROWS[] = {
    {.flag = "node",
     .verbs = "down",
     .type = OPTION_STRING,
     .arg = "NODES",
     .offset = offsetof(struct down_flags, node),
     .marks = OPTION_NO_ENV,
     .help = "Only these nodes, such as node[0-3]."},
    {.flag = "force",
     .verbs = "down",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct down_flags, force),
     .marks = OPTION_NO_ENV,
     .help = "End active runs, and remove results that were not fetched."},
    {.flag = "forget",
     .verbs = "down",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct down_flags, forget),
     .marks = OPTION_NO_ENV,
     .help = "Remove unreachable nodes from the cluster; the files on them stay."},
};
static const struct option_table TABLE = {"Down", ROWS, sizeof ROWS / sizeof ROWS[0]};

static void show_ended(struct context *s, const struct provider_down_result *down) {
    char cost[STR_MONEY_BYTES_MAX];
    screen_out(s->screen, "%zu node%s ended; %s\n", down->removed, str_plural(down->removed),
               down->verified);
    if (down->swept)
        screen_out(s->screen,
                   "%zu resources that no state recorded were found by their tags and removed\n",
                   down->swept);
    if (down->spent_mils >= 0)
        screen_out(s->screen,
                   "the nodes cost about %s by list price, without volumes and traffic\n",
                   str_money(cost, down->spent_mils));
}

static void show_runs(struct context *s, const struct provider_down_result *down) {
    size_t here = down->runs_here, none = down->runs_none;
    if (here + none == 0)
        return;
    char rest[48] = "";
    if (none > 0)
        snprintf(rest, sizeof rest, "; %zu %s none", none, none == 1 ? "has" : "have");
    screen_note(s->screen, "%zu run%s %s results on this side, in %s%s", here, str_plural(here),
                here == 1 ? "has its" : "have their", s->cluster.runs_dir, rest);
}

int up_down_remove(struct context *s, const struct lifecycle_down_options *o, struct err *e) {
    struct provider_down_result down;
    char freed[STR_HUMAN_BYTES_MAX];
    bool was_up = cluster_exists(&s->cluster);
    if (lifecycle_down(s, o, &down, e) < 0)
        return -1;
    if (o->dry_run) {
        if (!was_up)
            screen_out(s->screen, "cluster %s is not up\n", s->cluster.name);
        return 0;
    }
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "down");
    json_str(&j, "cluster", s->cluster.name);
    json_int(&j, "nodes_removed", (int64_t)down.removed);
    json_int(&j, "freed_bytes", (int64_t)down.bytes);
    json_int(&j, "runs_left", (int64_t)down.runs_here);
    json_int(&j, "runs_without_results", (int64_t)down.runs_none);
    if (down.made_here) {
        json_str(&j, "verified", down.verified);
        json_int(&j, "swept", (int64_t)down.swept);
        if (down.spent_mils >= 0)
            json_num(&j, "cost_usd", (double)down.spent_mils / 1000);
    }
    screen_event_end(s->screen, &text, &j);
    if (down.made_here)
        show_ended(s, &down);
    else if (was_up)
        screen_out(s->screen, "%zu node%s cleaned, %s freed there\n", down.removed,
                   str_plural(down.removed), str_human_bytes(freed, down.bytes));
    else
        screen_out(s->screen, "cluster %s is not up\n", s->cluster.name);
    show_runs(s, &down);
    return 0;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    (void)rest;
    const struct down_flags *f = flags;
    const struct lifecycle_down_options o = {.nodes = f->node,
                                             .force = f->force,
                                             .forget = f->forget,
                                             .dry_run = s->config->dry_run,
                                             .way = "dtctl down --force"};
    return up_down_remove(s, &o, e);
}

const struct command cmd_down = {
    .verb = {.name = "down",
             .summary = "remove the cluster from its nodes; end the nodes that up made",
             .text =
                 "Removes this cluster's files from dtctl's folder on every node. Files of other "
                 "clusters and of push stay and are named. Results that exist on the nodes only "
                 "are fetched first. When that fails, or when a run is active, down removes "
                 "nothing without --force. On a terminal it asks first. Nodes that up made are "
                 "ended: down queries AWS until nothing with the cluster's tags is left, and "
                 "prints the cost. Fetched results stay. A second down does no harm."},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct down_flags),
    .run = run,
};
