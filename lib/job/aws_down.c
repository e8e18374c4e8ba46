// SPDX-License-Identifier: Apache-2.0
// Taking a cluster on AWS away: Terraform destroys what it knows, then everything with the
// cluster's tags is looked for, and ended, until AWS says that there is nothing.
#include "job/aws_cluster.h"
#include "job/provider.h"

#include "base/clock.h"
#include "base/log.h"
#include "job/aws_lease.h"
#include "job/node_runs.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 3, CONNECT_MS_MAX = 5000 };

// ---- is somebody using it? ---------------------------------------------------------------------

// Nodes that do not answer have nothing to lose: they end anyway.
static int refuse_if_busy(struct session *s, struct inventory *inv, struct err *e) {
    struct fleet f;
    struct node_runs runs = {0};
    int result;
    fleet_open(&f, s, inv, NULL, 0);
    f.env.connect_timeout_ms = CONNECT_MS_MAX;
    for (size_t i = 0; i < f.count; i++)
        f.nodes[i].left_out = !inv->nodes[i].dtrun || !inv->nodes[i].dtrun[0];
    result = fleet_connect(&f, true, e);
    if (result == 0)
        result = node_runs_ask(&f, NULL, &runs, e);
    for (size_t i = 0; i < runs.count && result == 0; i++)
        if (!runs.items[i].over)
            result = err_set(e, ERR_BUSY,
                             "run %s still goes on node '%s' (dtctl stop, or dtctl down --force)",
                             runs.items[i].run, inv->nodes[runs.items[i].node_index].name);
    fleet_close(&f);
    return result;
}

// ---- what it cost ------------------------------------------------------------------------------

int64_t aws_cluster_spent_mils(struct session *s, const struct inventory *inv) {
    int64_t total = 0, now = clock_wall_ms();
    for (size_t i = 0; i < inv->count; i++) {
        struct aws_config aws = s->config->aws;
        struct aws_plan p;
        int64_t since = clock_of_iso(inv->nodes[i].launched);
        if (inv->nodes[i].instance_type && inv->nodes[i].instance_type[0])
            aws.instance_type = inv->nodes[i].instance_type;
        aws_plan_make(&p, &aws, &s->config->lease, inv->name, "", 1);
        if (p.price_mils == 0)
            return -1;
        total += since < 0 || since > now ? 0 : aws_plan_cost_mils(&p, 1, now - since);
    }
    return total;
}

// ---- ending it ---------------------------------------------------------------------------------

static int destroy(struct aws_cluster *c, struct err *e) {
    static const char *const args[] = {"-destroy", NULL};
    struct terraform_result r;
    if (!file_exists(c->terraform.vars_path))
        return 0;
    screen_note(c->session->screen, "ending the instances of cluster %s …",
                c->session->cluster.name);
    if (terraform_apply(&c->terraform, "infra", args, NULL, NULL, &r, e) < 0)
        return -1;
    if (r.status == 0)
        return 0;
    terraform_failure(&c->terraform, &r, "down", e);
    return err_wrap(e, "something may still run and cost money");
}

// Until nothing is found. What is found is ended: the state did not know it.
static int verify(struct aws_cluster *c, size_t *swept, struct err *e) {
    struct terraform *t = &c->terraform;
    struct terraform_lock others;
    struct aws_found found = {0};
    *swept = 0;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (aws_sweep_find(t, c->vars.region, c->session->cluster.name, NULL, 0, &found, e) < 0)
            return err_wrap(e, "what is left could not be checked");
        if (found.count == 0)
            return aws_sweep_remove(t, &found, NULL, 0, e);
        if (aws_shared_alone(c, &others, e) < 0)
            return -1;
        for (size_t i = 0; i < found.count; i++)
            log_warn("this was left, unrecorded; it is ended now", "kind=%s id=%s",
                     found.items[i].kind, found.items[i].id);
        *swept += found.count;
        if (aws_sweep_remove(t, &found, NULL, 0, e) < 0)
            return -1;
    }
    return err_set(e, ERR_FAILED,
                   "%s %s and %zu others are still there after %d rounds; see the EC2 console "
                   "(tag dtctl-cluster = %s)",
                   found.items[0].kind, found.items[0].id, found.count - 1, ROUNDS_MAX,
                   c->session->cluster.name);
}

static int forget(struct aws_cluster *c, struct err *e) {
    struct session *s = c->session;
    unlink(c->terraform.vars_path);
    terraform_set_clean(&c->terraform);
    aws_lease_forget(s);
    return aws_ssh_remove(s, e) < 0 ? -1 : cluster_forget(&s->cluster, e);
}

int aws_take_down(struct session *s, bool force, struct provider_down_result *out, struct err *e) {
    struct aws_cluster *c = arena_new(s->arena, struct aws_cluster, 1);
    struct inventory inv = {0};
    bool known = cluster_exists(&s->cluster);
    if (!known && !terraform_was_used(s))
        return 0;
    if (known && cluster_load(&s->cluster, &inv, e) < 0)
        return -1;
    if (known && !force && refuse_if_busy(s, &inv, e) < 0)
        return -1;
    out->spent_mils = aws_cluster_spent_mils(s, &inv);
    size_t swept = 0, orphans = 0;
    // What no state knows goes first: what the state knows may be held by it.
    if (aws_cluster_open(c, s, e) < 0 || aws_sweep_orphans(c, &orphans, e) < 0 ||
        destroy(c, e) < 0 || verify(c, &swept, e) < 0 || forget(c, e) < 0)
        return -1;
    out->removed = inv.count;
    out->made_here = true;
    out->verified =
        arena_printf(s->arena,
                     "AWS has no instance, volume, address, network, group or key with the tags of "
                     "cluster %s in %s",
                     s->cluster.name, c->vars.region);
    out->swept = orphans + swept;
    return 0;
}
