// SPDX-License-Identifier: Apache-2.0
// Takes a cluster on AWS down. Terraform destroys its state; then resources with the cluster's tags
// are searched and removed until AWS lists none.
#include "aws/aws_cluster.h"
#include "provider/provider.h"

#include "aws/aws_lease.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 3 };

// ---- removal ------------------------------------------------------------------------------------

static int destroy(struct aws_cluster *c, struct err *e) {
    static const char *const args[] = {"-destroy", NULL};
    struct terraform_result r;
    struct terraform_state state;
    if (file_is_absent(c->terraform.vars_path))
        return 0;
    screen_note(c->context->screen, "ending the instances of cluster %s …",
                c->context->cluster.name);
    if (terraform_state(&c->terraform, "infra", &state, e) < 0 ||
        terraform_apply(&c->terraform, "infra", args, NULL, NULL, &r, e) < 0)
        return -1;
    if (r.status == 0) {
        aws_gone_add_state(&c->gone, c->context->arena, &state);
        return 0;
    }
    terraform_failure(&c->terraform, &r, "down", e);
    return err_wrap(e, "instances may still run and cost money");
}

static bool costly(const struct aws_found *found) {
    bool costs = false;
    for (size_t i = 0; i < found->count; i++)
        costs |= aws_sweep_costs(&found->items[i]);
    return costs;
}

// Leftovers that cost nothing do not fail `down`; gc finds them later.
static int leave(struct aws_cluster *c, const struct aws_found *found) {
    for (size_t i = 0; i < found->count; i++)
        log_warn("a resource without cost is left; dtctl gc removes it later", "kind=%s id=%s",
                 found->items[i].kind, found->items[i].id);
    aws_sweep_forget(&c->terraform);
    return 0;
}

// Searches until nothing is found. Resources outside the state are removed.
static int verify(struct aws_cluster *c, struct aws_found *found, size_t *swept, struct err *e) {
    struct terraform *t = &c->terraform;
    struct terraform_lock others;
    struct aws_wish wish = {.region = c->vars.region,
                            .cluster = c->context->cluster.name,
                            .roles = c->context->config->aws.s3[0] != 0};
    *swept = 0;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (aws_sweep_find(t, &wish, &c->gone, found, e) < 0)
            return err_wrap(e, "cannot check for leftovers");
        if (found->count == 0) {
            aws_sweep_forget(t);
            return 0;
        }
        if (aws_shared_alone(c, &others, e) < 0)
            return -1;
        for (size_t i = 0; i < found->count; i++)
            log_warn("removing an unrecorded resource", "kind=%s id=%s", found->items[i].kind,
                     found->items[i].id);
        bool removed = aws_sweep_remove(t, found, &c->gone, NULL, 0, e) == 0;
        if (!removed && (costly(found) || e->code == ERR_INTERRUPTED || e->code == ERR_BUSY))
            return -1;
        if (!removed) {
            log_warn("cannot remove resources without cost", "reason=\"%s\"", e->text);
            err_clear(e);
            return leave(c, found);
        }
        *swept += found->count;
    }
    if (!costly(found))
        return leave(c, found);
    return err_set(e, ERR_FAILED,
                   "%s %s and %zu others are still there after %d rounds; see the EC2 console "
                   "(tag dtctl-cluster = %s)",
                   found->items[0].kind, found->items[0].id, found->count - 1, ROUNDS_MAX,
                   c->context->cluster.name);
}

// Names the searched kinds that do not exist any more.
static const char *verified_words(const struct aws_cluster *c, const struct aws_found *found) {
    bool whole = found->whole && found->count == 0;
    return arena_printf(c->context->arena, "AWS has no %s with the tags of cluster %s in %s%s",
                        whole ? "instance, volume, address, network, group or key"
                              : "instance, volume or address",
                        c->context->cluster.name, c->vars.region,
                        whole          ? ""
                        : found->count ? "; some things that cost nothing are left"
                                       : "; networks, groups and keys were not looked for");
}

static int forget(struct aws_cluster *c, struct err *e) {
    struct context *s = c->context;
    unlink(c->terraform.vars_path);
    terraform_set_clean(&c->terraform);
    aws_lease_forget(s);
    return aws_ssh_remove(s, e) < 0 ? -1 : cluster_forget(&s->cluster, e);
}

int aws_take_down(struct context *s, struct provider_down_result *out, struct err *e) {
    struct aws_cluster *c = arena_new(s->arena, struct aws_cluster, 1);
    struct inventory inv = {0};
    bool known = cluster_exists(&s->cluster);
    if (!known && !terraform_was_used(s))
        return 0;
    if (known && cluster_load(&s->cluster, &inv, e) < 0)
        return -1;
    out->spent_mils = known ? provider_spent_mils(s, &inv) : -1;
    struct aws_found found;
    size_t swept, orphans;
    // Unrecorded resources are removed first, since they may block the removal of recorded ones.
    if (aws_cluster_open(c, s, e) < 0 || aws_sweep_orphans(c, &orphans, e) < 0 ||
        destroy(c, e) < 0 || verify(c, &found, &swept, e) < 0 || forget(c, e) < 0)
        return -1;
    out->removed = inv.count;
    out->made_here = true;
    out->verified = verified_words(c, &found);
    out->swept = orphans + swept;
    return 0;
}
