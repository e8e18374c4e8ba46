// SPDX-License-Identifier: Apache-2.0
// Provider aws: instances on EC2, created and removed by Terraform.
//
// up: leftovers of a killed command are removed; aws_instances.c applies until all nodes exist;
// aws_boot.c waits for each new node and rotates its host key. After that, nodes are like those of
// any provider.
#include "provider/provider.h"

#include "aws/aws_adopt.h"
#include "aws/aws_boot.h"
#include "aws/aws_cluster.h"
#include "aws/aws_gc.h"
#include "aws/aws_lease.h"
#include "aws/aws_settings.h"
#include "base/clock.h"
#include "base/log.h"
#include "fleet/network_check.h"

#include <string.h>
#include <unistd.h>

enum { AWS_NODES_MAX = 1000 };

static int aws_plan(struct context *s, struct inventory *out, struct err *e) {
    int64_t count = s->config->cluster.nodes;
    const char *region;
    if (aws_cluster_region(s, &region, e) < 0)
        return -1;
    if (aws_settings_check(s->config, region, e) < 0)
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

static enum aws_purchase purchase_of(const struct inventory_node *n) {
    int way = n->purchase ? aws_purchase_named(n->purchase) : -1;
    return way < 0 ? AWS_ON_DEMAND : (enum aws_purchase)way;
}

static int figures(struct context *s, const struct provider_diff *d, struct aws_plan *p,
                   struct err *e) {
    const char *region;
    if (aws_cluster_region(s, &region, e) < 0)
        return -1;
    aws_plan_make(p, &s->config->aws, &s->config->lease, s->cluster.name, region,
                  (int64_t)d->wanted.count);
    if (d->current.count == 0)
        return 0;
    aws_plan_bought(p, purchase_of(&d->current.nodes[0]));
    struct aws_lease_end end = aws_cluster_lease_end(s, true);
    bool has_end = s->config->lease.ttl_ms || aws_lease_decided(s);
    if (has_end && !end.moved) {
        p->until_ms = end.at_ms;
        p->left_ms = end.at_ms - clock_wall_ms();
    }
    return 0;
}

static int aws_show(struct context *s, const struct provider_diff *d, struct err *e) {
    struct aws_plan p;
    struct strbuf text = {0};
    if (figures(s, d, &p, e) < 0)
        return -1;
    aws_plan_format(&p, &text);
    screen_out(s->screen, "%s", strbuf_cstr(&text));
    strbuf_fini(&text);
    if (s->config->aws.sagemaker_type)
        screen_note(s->screen, "aws.instance_type: '%s' is taken as %s, its name on EC2",
                    s->config->aws.sagemaker_type, s->config->aws.instance_type);
    if (!p.type) {
        const char *near = aws_instance_types_nearest(s->config->aws.instance_type);
        if (near)
            screen_note(s->screen, "'%s' is not in the table; did you mean %s?",
                        s->config->aws.instance_type, near);
    }
    return 0;
}

static int aws_show_json(struct context *s, const struct provider_diff *d, struct json_out *j,
                         struct err *e) {
    struct aws_plan p;
    if (figures(s, d, &p, e) < 0)
        return -1;
    aws_plan_json(&p, j);
    return 0;
}

// ---- plan ---------------------------------------------------------------------------------------

struct plan_changes {
    struct context *context;
    size_t count;
};

static void on_planned(void *ctx, const struct terraform_line *l) {
    struct plan_changes *c = ctx;
    if (l->kind != TERRAFORM_PLANNED || strcmp(l->action, "noop") == 0)
        return;
    c->count++;
    screen_out(c->context->screen, "  %-8s %s\n", l->action, l->address);
}

// Compares the configuration with AWS. The variables of the last `up` are kept.
static int aws_compare(struct context *s, const struct provider_diff *d, size_t *changes,
                       struct err *e) {
    static const char file[] = "plan.tfvars.json";
    struct aws_cluster c;
    struct terraform_result r;
    struct plan_changes seen = {s, 0};
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
    // A change of the lease is sent to running nodes by up itself.
    bool told = d->current.count && c.has_before &&
                (c.before.ttl_s != c.vars.ttl_s || c.before.idle_s != c.vars.idle_s);
    if (result == 0 && told)
        screen_out(s->screen, "  %-8s lease of the nodes\n", "update");
    *changes = seen.count + told;
    return result;
}

// ---- up -----------------------------------------------------------------------------------------

static const char *bootstrap_key(const struct aws_cluster *c, const struct inventory_node *n) {
    for (size_t i = 0; i < c->vars.nodes; i++)
        if (strcmp(c->vars.names[i], n->name) == 0)
            return c->vars.keys[i].public_key;
    return "";
}

static int boot_nodes(struct aws_cluster *c, struct provider_made *m, int64_t *boot_ms,
                      struct err *e) {
    struct context *s = c->context;
    struct aws_boot_node *nodes = arena_new(s->arena, struct aws_boot_node, m->inv->count + 1);
    int64_t started = clock_mono_ms();
    size_t count = 0;
    for (size_t i = 0; i < m->inv->count; i++) {
        struct inventory_node *n = &m->inv->nodes[i];
        const char *first = bootstrap_key(c, n);
        bool has_own = n->host_key && n->host_key[0] && !str_eq(n->host_key, first);
        // A node made from another folder: known_hosts decides, and its key is not rotated here.
        bool accepted = aws_shared(s) && s->config->ssh.accept_host_keys;
        bool ours = m->phases->nodes[i].at_ms[PHASE_RUNNING] >= 0 || (c->has_before && !accepted);
        if (!has_own)
            nodes[count++] =
                (struct aws_boot_node){.info = n, .first_key = ours ? first : "", .row = i};
    }
    int result = aws_boot(s, m->phases, nodes, count, e);
    *boot_ms = clock_mono_ms() - started;
    boot_progress_hide(m->phases);
    return result < 0 || aws_ssh_known_keys(s, m->inv, e) < 0
               ? -1
               : aws_failed_settle(c, m, nodes, count, e);
}

// Another folder that shares the state may have made the cluster while this one waited for the
// lock. Its nodes are then used.
static int make_nodes(struct aws_cluster *c, struct provider_made *m,
                      const struct inventory *before, struct err *e) {
    struct context *s = c->context;
    size_t wanted = m->inv->count;
    struct inventory now = {0};
    struct err found = {0};
    int result = aws_make_nodes(c, m->phases, before, m->inv, e);
    if (result == 0 || e->code != ERR_EXISTS || !aws_shared(s))
        return result;
    boot_progress_hide(m->phases);
    if (aws_shared_find(s, true, &found) < 0) {
        *e = found;
        return -1;
    }
    if (!cluster_exists(&s->cluster)) // another cluster of the same name
        return -1;
    err_clear(e);
    if (cluster_load(&s->cluster, &now, e) < 0 || aws_cluster_open(c, s, e) < 0 ||
        aws_cluster_fill(c, wanted, &now, e) < 0)
        return -1;
    boot_progress_show(m->phases);
    return aws_make_nodes(c, m->phases, &now, m->inv, e);
}

// A changed lease.ttl also applies to running nodes. It is stored first, so that the next command
// sends it if this one fails.
static int decide_lease(const struct aws_cluster *c, struct err *e) {
    char limit[STR_HUMAN_BYTES_MAX];
    if (!c->end.moved)
        return 0;
    if (c->end.cut)
        log_warn("running nodes accept no later end; dtctl extend can move it again",
                 "where=\"%s\" limit=%s", config_where(c->context->config, "lease.ttl"),
                 str_human_ms(limit, (int64_t)AWS_LEASE_AHEAD_S_MAX * 1000));
    return aws_lease_decide(c->context, c->end.at_ms, e);
}

static int aws_make(struct context *s, const struct inventory *before, struct provider_made *m,
                    struct err *e) {
    struct aws_cluster *c = arena_new(s->arena, struct aws_cluster, 1);
    const char **names = arena_new(s->arena, const char *, m->inv->count + 1);
    int64_t boot_ms = 0;
    size_t removed;
    for (size_t i = 0; i < m->inv->count; i++)
        names[i] = m->inv->nodes[i].name;
    m->phases = boot_progress_open(s, names, m->inv->count);
    if (aws_cluster_open(c, s, e) < 0 || aws_sweep_orphans(c, &removed, e) < 0 ||
        aws_cluster_fill(c, m->inv->count, before, e) < 0 || decide_lease(c, e) < 0)
        return -1;
    boot_progress_show(m->phases);
    int result = make_nodes(c, m, before, e);
    if (result == 0) // from here on `down` and `status` know the nodes
        result = cluster_save(&s->cluster, m->inv, e);
    if (result == 0)
        result = boot_nodes(c, m, &boot_ms, e);
    boot_progress_hide(m->phases);
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

static int aws_check(struct context *s, struct fleet *f, struct err *e) {
    (void)s;
    if (aws_ready_check(f, e) < 0 || aws_lease_settle(f, e) < 0)
        return -1;
    provider_judge(f);
    return f->count > 1 ? network_check(f, e) : 0;
}

// ---- leases, costs, leftovers -------------------------------------------------------------------

static int64_t cost_mils(struct context *s, const struct inventory_node *n, int64_t ms) {
    const struct aws_config *aws = &s->config->aws;
    const char *type =
        n->instance_type && n->instance_type[0] ? n->instance_type : aws->instance_type;
    struct aws_plan p = {.price_mils = aws_plan_price_mils(aws, type, purchase_of(n))};
    return p.price_mils ? aws_plan_cost_mils(&p, 1, ms) : -1;
}

static uint64_t disk_bytes(const struct config *c, const char **key) {
    *key = "aws.root_gb";
    return (uint64_t)c->aws.root_gb << 30;
}

static bool discover(struct context *s, struct option_pair *out) {
    struct err ignored = {0};
    out->name = "aws.region";
    return aws_cluster_region(s, &out->value, &ignored) == 0;
}

static const struct provider_lease LEASE = {
    .ahead_ms_max = (int64_t)AWS_LEASE_AHEAD_S_MAX * 1000,
    .get = aws_lease_get,
    .set = aws_lease_set,
    .tag = aws_lease_tag,
};

static const char *replaced(const struct config *c) {
    return c->aws.replace;
}

static struct provider_account account(const struct config *c) {
    return (struct provider_account){
        .profile = c->aws.profile, .region = c->aws.region, .tags = c->aws.tags};
}

const struct provider provider_aws = {
    .name = "aws",
    .plan = aws_plan,
    .find = aws_shared_find,
    .left_something = terraform_was_used,
    .gone = aws_lease_gone,
    .show = aws_show,
    .show_json = aws_show_json,
    .compare = aws_compare,
    .make = aws_make,
    .check = aws_check,
    .take_down = aws_take_down,
    .disk_bytes = disk_bytes,
    .costs = true,
    .cost_mils = cost_mils,
    .lease = &LEASE,
    .leftovers_wanted = aws_gc_wanted,
    .leftovers = aws_gc,
    .adopt = aws_adopt_cluster,
    .doctor = aws_doctor,
    .discover = discover,
    .makes_keys = true,
    .replaced = replaced,
    .account = account,
};
