// SPDX-License-Identifier: Apache-2.0
// dtctl plan: shows the cluster that up would make; dtctl up: makes it.
#include "command.h"

#include "base/log.h"
#include "cluster/nodeset.h"
#include "lifecycle/up.h"
#include "provider/provider.h"

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
     .help = "Drop nodes also where runs still go, or have results that were not fetched. They are "
             "lost then."},
};
static const struct option_table TABLE = {"Up", ROWS, sizeof ROWS / sizeof ROWS[0]};

static void names_json(struct json_out *j, const char *key, const char **names, size_t count) {
    json_array(j, key);
    for (size_t i = 0; i < count; i++)
        json_str(j, NULL, names[i]);
    json_end(j);
}

static void tell_nodes(struct context *s, const struct provider_diff *d) {
    for (size_t i = 0; i < d->wanted.count; i++) {
        const struct inventory_node *n = &d->wanted.nodes[i];
        int known = inventory_find(&d->current, n->name);
        const char *host = known >= 0 ? d->current.nodes[known].host : n->host;
        const char *address = known >= 0 ? d->current.nodes[known].address : n->address;
        const char *where = host ? host : address;
        screen_out(s->screen, "  %s %-20s %s%s%s\n", known >= 0 ? "=" : "+", n->name,
                   n->user ? n->user : "", n->user && *where ? "@" : "", where);
    }
    for (size_t i = 0; i < d->removed_count; i++)
        screen_out(s->screen, "  - %s\n", d->removed[i]);
}

static int plan_json(struct context *s, const struct provider *p, const struct provider_diff *d,
                     size_t changes, struct err *e) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "plan");
    json_str(&j, "cluster", s->cluster.name);
    json_str(&j, "provider", p->name);
    names_json(&j, "added", d->added, d->added_count);
    names_json(&j, "kept", d->kept, d->kept_count);
    names_json(&j, "removed", d->removed, d->removed_count);
    if (p->compare)
        json_int(&j, "changes", (int64_t)changes);
    if (p->show_json && p->show_json(s, d, &j, e) < 0) {
        strbuf_fini(&text);
        return -1;
    }
    screen_event_end(s->screen, &text, &j);
    return 0;
}

// compare: also ask the provider for the present state.
static int tell_plan(struct context *s, bool compare, struct err *e) {
    const struct provider *p = provider_of(s->config);
    struct provider_diff d;
    size_t changes = 0;
    if ((p->find && p->find(s, true, e) < 0) || provider_diff(s, p, &d, e) < 0)
        return -1;
    screen_out(s->screen, "cluster %s, provider %s, %zu node%s\n", s->cluster.name, p->name,
               d.wanted.count, d.wanted.count == 1 ? "" : "s");
    if (p->show && p->show(s, &d, e) < 0)
        return -1;
    tell_nodes(s, &d);
    if (compare && p->compare && p->compare(s, &d, &changes, e) < 0)
        return -1;
    if (d.added_count + d.removed_count + changes == 0)
        screen_out(s->screen, "nothing to change\n");
    return plan_json(s, p, &d, changes, e);
}

static void tell_without_effect(const struct context *s) {
    const char *text = config_without_effect(s->config);
    if (*text)
        log_warn(text, "%s", "");
}

static int run_plan(struct context *s, const struct cli_rest *rest, const void *flags,
                    struct err *e) {
    (void)rest;
    (void)flags;
    tell_without_effect(s);
    lifecycle_tell_kept(s);
    return tell_plan(s, true, e);
}

static void tell_up(struct context *s, const struct lifecycle_up_result *up) {
    char took[STR_HUMAN_BYTES_MAX], memory[STR_HUMAN_BYTES_MAX];
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "up");
    json_str(&j, "cluster", s->cluster.name);
    json_int(&j, "nodes", (int64_t)up->inventory.count);
    json_int(&j, "installed", (int64_t)up->uploaded);
    json_int(&j, "ms", up->took_ms);
    if (up->phases)
        phases_json(up->phases, &j);
    screen_event_end(s->screen, &text, &j);
    if (up->phases) {
        phases_format(up->phases, &text);
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
    screen_note(s->screen, "cluster %s is up (%s); next: dtctl train", s->cluster.name,
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
    if (tell_plan(s, false, e) < 0)
        return -1;
    int yes = context_ask(s, "make this?", e);
    return yes ? (yes > 0 ? 0 : -1) : err_set(e, ERR_FAILED, "nothing was made");
}

static int run_up(struct context *s, const struct cli_rest *rest, const void *flags,
                  struct err *e) {
    (void)rest;
    const struct up_flags *f = flags;
    struct lifecycle_up_result up;
    tell_without_effect(s);
    lifecycle_tell_kept(s);
    if (s->config->dry_run)
        return tell_plan(s, false, e);
    if (ask(s, e) < 0 || lifecycle_up(s, f->force, &up, e) < 0)
        return -1;
    tell_up(s, &up);
    return 0;
}

const struct command cmd_plan = {
    .verb = {.name = "plan",
             .summary = "show the nodes that up would make and change",
             .text =
                 "Shows the cluster that the configuration asks for, beside the one that is "
                 "there, and changes nothing. Provider aws: also sizes, price, quota, and, when "
                 "the cluster is up, the changes that Terraform would make. Only these changes are "
                 "asked of AWS."},
    .run = run_plan,
};

const struct command cmd_up = {
    .verb = {.name = "up",
             .summary = "make or find the nodes and prepare them",
             .text = "Makes the cluster that the configuration asks for: checks every node (login, "
                     "architecture, disk, clock, and that nodes reach each other), and puts the "
                     "agent and the trainer there. A second up makes missing nodes, makes "
                     "the cluster larger or smaller where the number of nodes has changed, gives "
                     "nodes that run another lease where that has changed, and touches nothing "
                     "else. Nodes that are no longer wanted are dropped last, when the others "
                     "are there: up names them, brings the results that only they have, and asks. "
                     "Provider aws shows the instances and their cost first, "
                     "and asks (-y: it does not).",
             .examples = "dtctl up   # two nodes on this computer, or as dtctl.toml says\n"
                         "dtctl up --provider hosts --host 'ubuntu@gpu[01-04].lab'   # listed "
                         "hosts\n"
                         "dtctl up --provider aws --instance-type g6.xlarge --nodes 2   # "
                         "instances\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct up_flags),
    .run = run_up,
};
