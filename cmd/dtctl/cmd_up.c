// SPDX-License-Identifier: Apache-2.0
// dtctl up: makes the cluster that the configuration asks for.
#include "command.h"

#include "lifecycle/up.h"
#include "plan.h"
#include "provider/provider.h"
#include "up_down.h"

struct up_flags {
    bool force;
};

static const struct option_row ROWS[] = {
    {.flag = "force",
     .verbs = "up",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct up_flags, force),
     .marks = OPTION_NO_ENV,
     .help = "Drop nodes even when they have active runs, or results that were not fetched. Both "
             "are lost."},
};
static const struct option_table TABLE = {"Up", ROWS, sizeof ROWS / sizeof ROWS[0]};

static void show_up(struct context *s, const struct lifecycle_up_result *up) {
    char took[STR_HUMAN_BYTES_MAX], memory[STR_HUMAN_BYTES_MAX];
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "up");
    json_str(&j, "cluster", s->cluster.name);
    json_int(&j, "nodes", (int64_t)up->inventory.count);
    json_int(&j, "installed", (int64_t)up->uploaded);
    json_int(&j, "ms", up->took_ms);
    if (up->phases)
        boot_progress_json(up->phases, &j);
    screen_event_end(s->screen, &text, &j);
    if (up->phases) {
        boot_progress_format(up->phases, &text);
        screen_out(s->screen, "%s\n", strbuf_cstr(&text));
        strbuf_fini(&text);
    }
    screen_out(s->screen, "%-16s %-24s %5s %5s %10s\n", "NODE", "ADDRESS", "CPUS", "GPUS",
               "MEMORY");
    for (size_t i = 0; i < up->inventory.count; i++) {
        const struct inventory_node *n = &up->inventory.nodes[i];
        screen_out(s->screen, "%-16s %-24s %5lld %5lld %10s\n", n->name, n->address,
                   (long long)n->cpus, (long long)n->gpus,
                   str_human_bytes(memory, (uint64_t)n->memory_bytes));
    }
    screen_note(s->screen, "cluster %s is up (%s)", s->cluster.name,
                str_human_ms(took, up->took_ms));
}

// Instances that cost money are shown first, and made only after a yes.
static int ask(struct context *s, struct err *e) {
    if (!provider_of(s->config)->costs || s->config->yes)
        return 0;
    if (!context_can_ask(s))
        return err_set(e, ERR_USAGE,
                       "up makes instances that cost money, and there is no terminal to ask on; "
                       "look at dtctl plan, then say dtctl up -y");
    if (plan_show(s, false, e) < 0)
        return -1;
    int yes = context_ask(s, "make this?", e);
    return yes ? (yes > 0 ? 0 : -1) : err_set(e, ERR_FAILED, "nothing was made");
}

int up_down_make(struct context *s, bool force, bool *began, struct err *e) {
    struct lifecycle_up_result up;
    plan_show_settings(s);
    if (s->config->dry_run)
        return plan_show(s, false, e);
    if (ask(s, e) < 0)
        return -1;
    *began = true;
    if (lifecycle_up(s, force, &up, e) < 0)
        return -1;
    show_up(s, &up);
    return 0;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    (void)rest;
    const struct up_flags *f = flags;
    bool began;
    if (up_down_make(s, f->force, &began, e) < 0)
        return -1;
    if (!s->config->dry_run)
        screen_note(s->screen, "next: dtctl train");
    return 0;
}

const struct command cmd_up = {
    .verb =
        {.name = "up",
         .summary = "make or find the nodes and prepare them",
         .text =
             "Makes the configured cluster: checks every node (login, architecture, disk, clock, "
             "and that nodes reach each other), and installs the agent and the trainer there. A "
             "second up makes missing nodes, applies a changed number of nodes or a changed lease, "
             "and touches nothing else. Nodes that are no longer wanted are dropped last: up names "
             "them, fetches the results that exist on them only, and asks. Provider aws shows the "
             "instances and their cost and asks first (-y: does not ask).",
         .examples = "dtctl up   # two nodes on this computer, or as dtctl.toml says\n"
                     "dtctl up --provider hosts --host 'ubuntu@gpu[01-04].lab'   # listed "
                     "hosts\n"
                     "dtctl up --provider aws --instance-type g6.xlarge --nodes 2   # "
                     "instances\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct up_flags),
    .run = run,
};
