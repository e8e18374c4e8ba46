// SPDX-License-Identifier: Apache-2.0
// Provider aws: instances on EC2, made and ended by Terraform.
//
// up: what an unclean end left is swept; aws_make.c applies until there are enough; aws_boot.c
// waits for each new node and gives it a host key of its own. From there on nodes are like any
// others.
#include "job/provider.h"

#include "base/clock.h"
#include "base/log.h"
#include "job/aws_boot.h"
#include "job/aws_cluster.h"
#include "job/aws_ready.h"
#include "job/reach.h"

#include <string.h>
#include <unistd.h>

enum { AWS_NODES_MAX = 1000 };

static int aws_plan(struct session *s, struct inventory *out, struct err *e) {
    int64_t count = s->config->cluster.nodes;
    const char *region;
    if (aws_cluster_region(s, &region, e) < 0)
        return -1;
    if (count < 1 || count > AWS_NODES_MAX)
        return err_set(e, ERR_CONFIG, "%s: provider aws makes 1 to %d nodes, not %lld",
                       config_where(s->config, "cluster.nodes"), AWS_NODES_MAX, (long long)count);
    out->nodes = arena_new(s->arena, struct inventory_node, (size_t)count);
    out->count = (size_t)count;
    for (size_t i = 0; i < out->count; i++)
        out->nodes[i] = (struct inventory_node){
            .name = aws_cluster_node_name(s->arena, i),
            .transport = INVENTORY_SSH,
            .user = s->config->aws.ssh_user,
            .address = "",
            .root = ".dtctl",
            .instance_type = s->config->aws.instance_type,
        };
    return 0;
}

static int figures(struct session *s, const struct provider_diff *d, struct aws_plan *p,
                   struct err *e) {
    const char *region;
    if (aws_cluster_region(s, &region, e) < 0)
        return -1;
    aws_plan_make(p, &s->config->aws, &s->config->lease, s->cluster.name, region,
                  (int64_t)d->wanted.count);
    return 0;
}

static int aws_show(struct session *s, const struct provider_diff *d, struct err *e) {
    struct aws_plan p;
    struct strbuf text = {0};
    if (figures(s, d, &p, e) < 0)
        return -1;
    aws_plan_format(&p, &text);
    screen_out(s->screen, "%s", strbuf_cstr(&text));
    strbuf_fini(&text);
    if (!p.type) {
        const char *near = aws_types_nearest(s->config->aws.instance_type);
        if (near)
            screen_note(s->screen, "'%s' is not in the table; did you mean %s?",
                        s->config->aws.instance_type, near);
    }
    return 0;
}

static int aws_show_json(struct session *s, const struct provider_diff *d, struct json_out *j,
                         struct err *e) {
    struct aws_plan p;
    if (figures(s, d, &p, e) < 0)
        return -1;
    aws_plan_json(&p, j);
    return 0;
}

// ---- what Terraform would do --------------------------------------------------------------------

struct changes {
    struct session *session;
    size_t count;
};

static void on_planned(void *ctx, const struct terraform_line *l) {
    struct changes *c = ctx;
    if (l->kind != TERRAFORM_PLANNED || strcmp(l->action, "noop") == 0)
        return;
    c->count++;
    screen_out(c->session->screen, "  %-8s %s\n", l->action, l->address);
}

// Compares with what AWS has, where there is something; the variables of the last `up` stay.
static int aws_compare(struct session *s, const struct provider_diff *d, size_t *changes,
                       struct err *e) {
    static const char file[] = "plan.tfvars.json";
    struct aws_cluster c;
    struct terraform_result r;
    struct changes seen = {s, 0};
    *changes = 0;
    if (!terraform_was_used(s))
        return 0;
    if (cluster_lock(&s->cluster, "plan", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0 ||
        aws_cluster_open(&c, s, e) < 0 || aws_cluster_fill(&c, d->wanted.count, &d->current, e) < 0)
        return -1;
    c.vars.zone = c.before.zone;
    c.vars.purchase = c.before.purchase;
    const char *vars_path = c.terraform.vars_path;
    c.terraform.vars_path = arena_printf(s->arena, "%s/%s", c.terraform.folder, file);
    const char *args[] = {"plan",
                          "-json",
                          "-input=false",
                          "-lock=false",
                          arena_printf(s->arena, "-var-file=%s", c.terraform.vars_path),
                          NULL};
    int result = aws_cluster_write(&c, e);
    if (result == 0)
        result = terraform_run(&c.terraform, "infra", args, on_planned, &seen, &r, e);
    unlink(c.terraform.vars_path);
    c.terraform.vars_path = vars_path;
    if (result == 0 && r.status != 0)
        result = terraform_failure(&c.terraform, &r, "plan", e);
    *changes = seen.count;
    return result;
}

// ---- up ----------------------------------------------------------------------------------------

static const char *bootstrap_key(const struct aws_cluster *c, const struct inventory_node *n) {
    for (size_t i = 0; i < c->vars.nodes; i++)
        if (strcmp(c->vars.names[i], n->name) == 0)
            return c->vars.keys[i].public_key;
    return "";
}

// Ends nodes that did not become ready, and leaves the rest as it is.
static int drop_failed(struct aws_cluster *c, const struct aws_boot_node *nodes, size_t count,
                       struct err *e) {
    struct arena *a = c->session->arena;
    struct terraform_state state;
    struct terraform_result r;
    size_t n = 0;
    if (terraform_state(&c->terraform, "infra", &state, e) < 0)
        return -1;
    const char **args = arena_new(a, const char *, state.count + 2);
    args[n++] = "-destroy";
    for (size_t i = 0; i < state.count; i++) {
        const struct terraform_resource *one = &state.resources[i];
        for (size_t k = 0; k < count; k++)
            if (nodes[k].failed && strcmp(one->type, "aws_instance") == 0 &&
                str_eq(one->id, nodes[k].info->instance_id))
                args[n++] = arena_printf(a, "-target=%s", terraform_state_address(a, one));
    }
    if (n == 1)
        return 0;
    if (terraform_apply(&c->terraform, "infra", args, NULL, NULL, &r, e) < 0)
        return -1;
    return r.status == 0 ? 0 : terraform_failure(&c->terraform, &r, "ending failed nodes", e);
}

static void tell_failed(struct session *s, const struct aws_boot_node *n) {
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

// Failed nodes leave the inventory, unless they are kept to be looked at.
static int settle_failed(struct aws_cluster *c, struct provider_made *m,
                         const struct aws_boot_node *nodes, size_t count, struct err *e) {
    struct session *s = c->session;
    bool keep = s->config->aws.keep_failed;
    size_t stay = 0;
    m->failed = arena_new(s->arena, const char *, count + 1);
    for (size_t i = 0; i < count; i++) {
        if (!nodes[i].failed)
            continue;
        m->failed[m->failed_count++] = nodes[i].info->name;
        tell_failed(s, &nodes[i]);
        if (keep && nodes[i].first_key[0])
            nodes[i].info->host_key = nodes[i].first_key;
    }
    if (m->failed_count == 0)
        return 0;
    if (!keep && drop_failed(c, nodes, count, e) < 0)
        return -1;
    for (size_t i = 0; i < m->inv->count; i++) {
        bool failed = false;
        for (size_t k = 0; k < m->failed_count; k++)
            failed |= strcmp(m->failed[k], m->inv->nodes[i].name) == 0;
        if (!failed)
            m->inv->nodes[stay++] = m->inv->nodes[i];
        else if (keep)
            screen_note(s->screen, "%s is kept; dtctl ssh %s leads there, dtctl down ends it",
                        m->inv->nodes[i].name, m->inv->nodes[i].name);
        if (failed && keep)
            m->inv->nodes[stay++] = m->inv->nodes[i];
    }
    m->inv->count = stay;
    return 0;
}

static int boot_nodes(struct aws_cluster *c, struct provider_made *m, int64_t *boot_ms,
                      struct err *e) {
    struct session *s = c->session;
    struct aws_boot_node *nodes = arena_new(s->arena, struct aws_boot_node, m->inv->count + 1);
    int64_t started = clock_mono_ms();
    size_t count = 0;
    for (size_t i = 0; i < m->inv->count; i++) {
        struct inventory_node *n = &m->inv->nodes[i];
        const char *first = bootstrap_key(c, n);
        bool has_own = n->host_key && n->host_key[0] && !str_eq(n->host_key, first);
        // Made by somebody else: known_hosts decides, and the key is not ours to rotate.
        bool ours = m->phases->nodes[i].at_ms[PHASE_RUNNING] >= 0 || c->has_before;
        if (!has_own)
            nodes[count++] =
                (struct aws_boot_node){.info = n, .first_key = ours ? first : "", .row = i};
    }
    int result = aws_boot(s, m->phases, nodes, count, e);
    *boot_ms = clock_mono_ms() - started;
    phases_hide(m->phases);
    return result < 0 ? -1 : settle_failed(c, m, nodes, count, e);
}

static int aws_make(struct session *s, const struct inventory *before, struct provider_made *m,
                    struct err *e) {
    struct aws_cluster *c = arena_new(s->arena, struct aws_cluster, 1);
    const char **names = arena_new(s->arena, const char *, m->inv->count + 1);
    int64_t boot_ms = 0;
    size_t removed;
    for (size_t i = 0; i < m->inv->count; i++)
        names[i] = m->inv->nodes[i].name;
    m->phases = phases_open(s, names, m->inv->count);
    if (aws_cluster_open(c, s, e) < 0 || aws_sweep_orphans(c, &removed, e) < 0 ||
        aws_cluster_fill(c, m->inv->count, before, e) < 0)
        return -1;
    phases_show(m->phases);
    int result = aws_make_nodes(c, m->phases, before, m->inv, e);
    if (result == 0) // from here on `down` and `status` know the nodes
        result = cluster_save(&s->cluster, m->inv, e);
    if (result == 0)
        result = boot_nodes(c, m, &boot_ms, e);
    phases_hide(m->phases);
    if (result == 0 && m->inv->count == 0) {
        cluster_forget(&s->cluster, e);
        return err_set(e, ERR_FAILED, "no node became ready; nothing is left of them (log: %s)",
                       c->terraform.log_path);
    }
    if (result == 0)
        result = aws_ssh_write(s, m->inv, e);
    m->outside_ms = c->terraform.spent_ms;
    m->boot_ms = boot_ms;
    return result;
}

static int aws_check(struct session *s, struct fleet *f, struct err *e) {
    (void)s;
    if (aws_ready_check(f, e) < 0)
        return -1;
    provider_judge(f);
    return f->count > 1 ? reach_check(f, e) : 0;
}

const struct provider provider_aws = {
    .name = "aws",
    .plan = aws_plan,
    .show = aws_show,
    .show_json = aws_show_json,
    .compare = aws_compare,
    .make = aws_make,
    .check = aws_check,
    .take_down = aws_take_down,
    .costs = true,
};
