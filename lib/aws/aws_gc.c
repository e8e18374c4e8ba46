// SPDX-License-Identifier: Apache-2.0
// Finds and ends leftovers of this owner, region by region.
#include "aws/aws_gc.h"

#include "aws/aws_cluster.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

// --region asks for AWS; AWS_REGION alone does not.
bool aws_gc_wanted(struct context *s) {
    return s->config->cluster.provider == CONFIG_AWS || terraform_was_used(s) ||
           option_place(&s->config->set, "aws.region")->source == OPTION_FLAG;
}

// Clusters with variables in this folder; `up` and `down` handle them.
static int known_clusters(struct context *s, const char ***names, size_t *count, struct err *e) {
    char **all = NULL;
    if (cluster_list(s->arena, s->cluster.base, &all, e) < 0)
        return -1;
    *names = (const char **)all;
    *count = 0;
    for (size_t i = 0; all[i]; i++)
        if (!file_is_absent(arena_printf(s->arena,
                                         "%s/.dtctl/%s/terraform/infra/terraform.tfvars.json",
                                         s->cluster.base, all[i])))
            all[(*count)++] = all[i];
    return 0;
}

struct gc {
    struct context *context;
    struct terraform terraform;
    const char **keep; // clusters
    size_t keep_count;
    bool in_use;   // also remove clusters in use
    bool no_roles; // listing roles is not permitted
    struct aws_gone gone;
    struct provider_leftovers *out;
};

static void show(const struct gc *g, const char *event, const char *region,
                 const struct aws_found_item *i) {
    struct context *s = g->context;
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, event);
    json_str(&j, "region", region);
    json_str(&j, "kind", i->kind);
    json_str(&j, "id", i->id);
    json_str(&j, "cluster", i->cluster);
    json_str(&j, "type", i->type);
    json_str(&j, "launched", i->since);
    json_str(&j, "lease_end", i->expires);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "%-14s %-16s %-22s %-16s %-12s", region, i->kind, i->id, i->cluster,
               i->type);
    if (i->since[0])
        screen_out(s->screen, " since %s, lease until %s", i->since,
                   i->expires[0] ? i->expires : "?");
    screen_out(s->screen, "%s\n", strcmp(event, "in-use") == 0 ? " (in use)" : "");
}

static void keep(struct gc *g, const char *cluster) {
    for (size_t i = 0; i < g->keep_count; i++)
        if (strcmp(g->keep[i], cluster) == 0)
            return;
    const char **names = arena_new(g->context->arena, const char *, g->keep_count + 1);
    for (size_t i = 0; i < g->keep_count; i++)
        names[i] = g->keep[i];
    names[g->keep_count++] = cluster;
    g->keep = names;
}

// Excludes the clusters that may be in use from further searches. Returns the number of their
// instances.
static size_t spare_in_use(struct gc *g, const char *region, const struct aws_found *found) {
    size_t count = 0;
    for (size_t i = 0; i < found->count; i++) {
        const struct aws_found_item *one = &found->items[i];
        if (strcmp(one->kind, "instance") != 0 || clock_of_iso(one->expires) <= clock_wall_ms())
            continue;
        show(g, "in-use", region, one);
        keep(g, one->cluster);
        count++;
    }
    return count;
}

static int region_gc(struct gc *g, const char *region, struct err *e) {
    struct context *s = g->context;
    struct terraform *t = &g->terraform;
    struct aws_found found = {0};
    size_t spared, kept = g->keep_count;
    screen_note(s->screen, "looking in %s …", region);
    do {
        struct aws_wish wish = {
            .region = region, .keep = g->keep, .keep_count = g->keep_count, .roles = !g->no_roles};
        if (aws_sweep_find(t, &wish, &g->gone, &found, e) < 0)
            return err_wrap(e, "region %s", region);
        g->no_roles |= !found.roles;
        spared = g->in_use ? 0 : spare_in_use(g, region, &found);
        g->out->in_use += spared;
    } while (spared);
    g->keep_count = kept; // a cluster of the same name in another region is a different one
    g->out->regions++;
    g->out->found += found.count;
    for (size_t i = 0; i < found.count; i++)
        show(g, "leftover", region, &found.items[i]);
    if (found.count == 0 || s->config->dry_run || !s->config->yes) {
        aws_sweep_forget(t);
        return 0;
    }
    if (aws_sweep_remove(t, &found, &g->gone, NULL, 0, e) < 0)
        return -1;
    g->out->removed += found.count;
    return 0;
}

// Processes every region, also after errors in others.
static int regions_gc(struct gc *g, const char *const *regions, struct err *e) {
    struct strbuf refused = {0};
    size_t count = 0, failed = 0;
    for (; regions[count]; count++) {
        struct err why = {0};
        if (region_gc(g, regions[count], &why) == 0)
            continue;
        if (why.code == ERR_INTERRUPTED || !regions[1]) {
            *e = why;
            strbuf_fini(&refused);
            return -1;
        }
        log_error(why.text, "%s", "");
        strbuf_addf(&refused, "%s%s", failed++ ? ", " : "", regions[count]);
    }
    if (failed)
        err_set(e, ERR_FAILED, "%zu of %zu regions could not be cleared: %s", failed, count,
                strbuf_cstr(&refused));
    strbuf_fini(&refused);
    return failed ? -1 : 0;
}

int aws_gc(struct context *s, bool all_regions, bool in_use, struct provider_leftovers *out,
           struct err *e) {
    struct gc g = {.context = s, .in_use = in_use, .out = out};
    const char *region = NULL;
    size_t orphans;
    *out = (struct provider_leftovers){0};
    // A cluster whose state this folder shares is not a leftover.
    if (aws_cluster_region(s, &region, e) < 0 || aws_shared_find(s, false, e) < 0 ||
        terraform_open(&g.terraform, s, &aws_terraform, region, e) < 0)
        return -1;
    if (terraform_is_unclean(&g.terraform) && aws_cluster_is_in(s, region) && !s->config->dry_run) {
        struct aws_cluster c;
        if (aws_cluster_open(&c, s, e) < 0 || aws_sweep_orphans(&c, &orphans, e) < 0)
            return -1;
        out->found = out->removed = orphans;
        g.gone = c.gone;
    }
    if (known_clusters(s, &g.keep, &g.keep_count, e) < 0)
        return -1;
    const char *one[] = {region, NULL};
    if (regions_gc(&g, all_regions ? aws_sweep_regions : one, e) < 0)
        return -1;
    size_t rest = out->found - out->removed;
    if (rest && !s->config->dry_run)
        return err_set(e, ERR_USAGE,
                       "%zu thing%s of owner '%s' %s to no cluster in '%s/.dtctl' (try: dtctl gc "
                       "-y)",
                       rest, str_plural(rest), aws_cluster_owner(s),
                       rest == 1 ? "belongs" : "belong", s->cluster.base);
    return 0;
}
