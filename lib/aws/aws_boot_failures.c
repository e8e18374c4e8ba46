// SPDX-License-Identifier: Apache-2.0
// Handles new nodes that did not become ready: asks AWS about nodes that never answered, and
// terminates the failed nodes unless they are kept.
#include "aws/aws_cluster.h"

#include "aws/aws_boot.h"
#include "base/log.h"
#include "provider/provider.h"

#include <string.h>
#include <unistd.h>

// The instance's resource in the state, or NULL.
static const struct terraform_resource *find(const struct terraform_state *state,
                                             const struct aws_boot_node *n) {
    for (size_t i = 0; i < state->count; i++)
        if (strcmp(state->resources[i].type, "aws_instance") == 0 &&
            str_eq(state->resources[i].id, n->info->instance_id))
            return &state->resources[i];
    return NULL;
}

static void look_at(struct aws_cluster *c, const struct terraform_state *state,
                    struct aws_boot_node *n) {
    struct context *s = c->context;
    const struct terraform_resource *r = find(state, n);
    const char *now = r && r->attributes ? json_get_str(r->attributes, "instance_state", "") : "";
    struct err seen = n->err;
    if (!r)
        err_set(&n->err, seen.code, "%s; AWS has no instance %s any more", seen.text,
                n->info->instance_id);
    else
        err_set(&n->err, seen.code, "%s; AWS says that %s is %s", seen.text, n->info->instance_id,
                now[0] ? now : "in no state");
    screen_note(s->screen,
                "%s: its console output (AWS keeps it for an hour): aws ec2 "
                "get-console-output --latest --output text --region %s --instance-id %s",
                n->info->name, c->vars.region, n->info->instance_id);
}

// Asks AWS for the state of the instances whose nodes did not answer.
static int look(struct aws_cluster *c, struct aws_boot_node *nodes, size_t count, struct err *e) {
    static const char *const refresh[] = {"-refresh-only", NULL};
    struct terraform_state state;
    struct terraform_result r;
    size_t silent = 0;
    for (size_t i = 0; i < count; i++)
        silent += nodes[i].failed && nodes[i].silent;
    if (silent == 0)
        return 0;
    if (terraform_apply(&c->terraform, "infra", refresh, NULL, NULL, &r, e) < 0)
        return -1;
    if (r.interrupted)
        return terraform_failure(&c->terraform, &r, "up", e);
    if (r.status != 0 || terraform_state(&c->terraform, "infra", &state, e) < 0) {
        err_clear(e); // the failures are reported all the same
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        if (nodes[i].failed && nodes[i].silent)
            look_at(c, &state, &nodes[i]);
    return 0;
}

// Terminates the failed nodes and keeps the others. When no node remains, everything else of the
// cluster is removed with them.
static int drop(struct aws_cluster *c, const struct aws_boot_node *nodes, size_t count, bool all,
                struct err *e) {
    struct arena *a = c->context->arena;
    struct terraform_state state;
    struct terraform_result r;
    size_t n = 0;
    if (terraform_state(&c->terraform, "infra", &state, e) < 0)
        return -1;
    const char **args = arena_new(a, const char *, count + 2);
    args[n++] = "-destroy";
    for (size_t i = 0; i < count && !all; i++) {
        const struct terraform_resource *one = nodes[i].failed ? find(&state, &nodes[i]) : NULL;
        if (one)
            args[n++] = arena_printf(a, "-target=%s", terraform_state_address(a, one));
    }
    if (n == 1 && !all)
        return 0;
    if (terraform_apply(&c->terraform, "infra", args, NULL, NULL, &r, e) < 0)
        return -1;
    if (r.status != 0)
        return terraform_failure(&c->terraform, &r, "ending failed nodes", e);
    if (all)
        unlink(c->terraform.vars_path);
    return 0;
}

static void tell(struct context *s, const struct aws_boot_node *n) {
    struct strbuf text = {0};
    struct json_out j;
    bool named = str_starts(n->err.text, "node ");
    log_error(arena_printf(s->arena, "%s%s%s%s", named ? "" : "node '", named ? "" : n->info->name,
                           named ? "" : "': ", n->err.text),
              "%s", "");
    screen_event(&text, &j, "node-failed");
    json_str(&j, "node", n->info->name);
    json_str(&j, "code", err_name(n->err.code));
    json_str(&j, "text", n->err.text);
    screen_event_end(s->screen, &text, &j);
}

static void tell_next(struct context *s, const struct aws_boot_node *n, bool keep) {
    const char *name = n->info->name;
    if (!keep)
        screen_note(s->screen,
                    "%s was terminated; dtctl up creates another (--keep keeps failed nodes)",
                    name);
    else if (n->silent)
        screen_note(s->screen, "%s is kept; dtctl up --replace %s replaces it", name, name);
    else
        screen_note(s->screen,
                    "%s is kept; dtctl ssh %s logs in to it, dtctl up --replace %s replaces it",
                    name, name, name);
}

int aws_failed_settle(struct aws_cluster *c, struct provider_made *m, struct aws_boot_node *nodes,
                      size_t count, struct err *e) {
    struct context *s = c->context;
    bool keep = s->config->aws.keep_failed;
    size_t stay = 0;
    m->failed = arena_new(s->arena, const char *, count + 1);
    if (look(c, nodes, count, e) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (!nodes[i].failed)
            continue;
        m->failed[m->failed_count++] = nodes[i].info->name;
        tell(s, &nodes[i]);
        if (nodes[i].first_key[0]) // the node may still use the key of the first login
            nodes[i].info->host_key = nodes[i].first_key;
        else // made from another folder, whose user may be logged in
            keep = true;
    }
    if (m->failed_count == 0)
        return 0;
    if (!keep && drop(c, nodes, count, m->failed_count == m->inv->count, e) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (nodes[i].failed)
            tell_next(s, &nodes[i], keep);
    for (size_t i = 0; i < m->inv->count; i++)
        if (keep || !provider_made_failed(m, m->inv->nodes[i].name))
            m->inv->nodes[stay++] = m->inv->nodes[i];
    m->inv->count = stay;
    return 0;
}
