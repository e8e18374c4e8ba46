// SPDX-License-Identifier: Apache-2.0
// dtctl plan: shows the cluster that up would make.
#include "plan.h"

#include "base/log.h"
#include "base/str.h"
#include "command.h"
#include "lifecycle/up.h"
#include "provider/provider.h"

static void names_json(struct json_out *j, const char *key, const char **names, size_t count) {
    json_array(j, key);
    for (size_t i = 0; i < count; i++)
        json_str(j, NULL, names[i]);
    json_end(j);
}

static void show_nodes(struct context *s, const struct provider_diff *d) {
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

int plan_show(struct context *s, bool compare, struct err *e) {
    const struct provider *p = provider_of(s->config);
    struct provider_diff d;
    size_t changes = 0;
    if ((p->find && p->find(s, true, e) < 0) || provider_diff(s, p, &d, e) < 0)
        return -1;
    screen_out(s->screen, "cluster %s, provider %s, %zu node%s\n", s->cluster.name, p->name,
               d.wanted.count, str_plural(d.wanted.count));
    if (p->show && p->show(s, &d, e) < 0)
        return -1;
    show_nodes(s, &d);
    if (compare && p->compare && p->compare(s, &d, &changes, e) < 0)
        return -1;
    if (d.added_count + d.removed_count + changes == 0)
        screen_out(s->screen, "nothing to change\n");
    return plan_json(s, p, &d, changes, e);
}

void plan_show_settings(struct context *s) {
    const char *text = config_without_effect(s->config);
    if (*text)
        log_warn(text, "%s", "");
    lifecycle_show_kept(s);
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    (void)rest;
    (void)flags;
    plan_show_settings(s);
    return plan_show(s, true, e);
}

const struct command cmd_plan = {
    .verb = {.name = "plan",
             .summary = "show the nodes that up would make and change",
             .text = "Compares the configured cluster with the existing one, and changes nothing. "
                     "Provider aws: also shows sizes, price, quota and, when the cluster is up, "
                     "the changes that Terraform would make. Only these changes need AWS."},
    .run = run,
};
