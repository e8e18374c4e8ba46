// SPDX-License-Identifier: Apache-2.0
// dtctl plan and dtctl up: what a cluster would be, and bringing it up.
#include "command.h"

#include "cluster/nodeset.h"
#include "job/provider.h"

static void names_json(struct json_out *j, const char *key, const char **names, size_t count) {
    json_array(j, key);
    for (size_t i = 0; i < count; i++)
        json_str(j, NULL, names[i]);
    json_end(j);
}

static int tell_plan(struct session *s, struct err *e) {
    const struct provider *p = provider_of(s->config);
    struct provider_diff d;
    if (provider_diff(s, p, &d, e) < 0)
        return -1;
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "plan");
    json_str(&j, "cluster", s->cluster.name);
    json_str(&j, "provider", p->name);
    names_json(&j, "added", d.added, d.added_count);
    names_json(&j, "kept", d.kept, d.kept_count);
    names_json(&j, "removed", d.removed, d.removed_count);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "cluster %s, provider %s, %zu node%s\n", s->cluster.name, p->name,
               d.wanted.count, d.wanted.count == 1 ? "" : "s");
    for (size_t i = 0; i < d.wanted.count; i++) {
        const struct inventory_node *n = &d.wanted.nodes[i];
        bool known = inventory_find(&d.current, n->name) >= 0;
        screen_out(s->screen, "  %s %-20s %s%s%s\n", known ? "=" : "+", n->name,
                   n->user ? n->user : "", n->user ? "@" : "", n->host ? n->host : n->address);
    }
    for (size_t i = 0; i < d.removed_count; i++)
        screen_out(s->screen, "  - %s\n", d.removed[i]);
    if (d.added_count + d.removed_count == 0)
        screen_out(s->screen, "nothing to change\n");
    return 0;
}

static int run_plan(struct session *s, const struct cli_rest *rest, const void *flags,
                    struct err *e) {
    (void)rest;
    (void)flags;
    return tell_plan(s, e);
}

static void tell_up(struct session *s, const struct provider_up_result *up) {
    char took[STR_HUMAN_BYTES_MAX], memory[STR_HUMAN_BYTES_MAX];
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "up");
    json_str(&j, "cluster", s->cluster.name);
    json_int(&j, "nodes", (int64_t)up->inventory.count);
    json_int(&j, "installed", (int64_t)up->uploaded);
    json_int(&j, "ms", up->took_ms);
    screen_event_end(s->screen, &text, &j);
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

static int run_up(struct session *s, const struct cli_rest *rest, const void *flags,
                  struct err *e) {
    (void)rest;
    (void)flags;
    struct provider_up_result up;
    if (s->config->dry_run)
        return tell_plan(s, e);
    if (provider_up(s, &up, e) < 0)
        return -1;
    tell_up(s, &up);
    return 0;
}

const struct command cmd_plan = {
    .verb = {.name = "plan",
             .summary = "show what up would make and change",
             .text = "Compares the configuration with the cluster as it is known; reaches nobody "
                     "and changes nothing."},
    .run = run_plan,
};

const struct command cmd_up = {
    .verb = {.name = "up",
             .summary = "make or find the nodes and prepare them",
             .text = "Makes the cluster that the configuration asks for: checks every node (login, "
                     "architecture, disk, clock, and that nodes reach each other), and puts the "
                     "agent and the trainer there. Doing it again repairs what is missing and "
                     "touches nothing else.",
             .examples = "dtctl up   # two nodes on this computer, or as dtctl.toml says\n"
                         "dtctl up --provider hosts --host 'ubuntu@gpu[01-04].lab'   # listed "
                         "hosts\n"},
    .run = run_up,
};
