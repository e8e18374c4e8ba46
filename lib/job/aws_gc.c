// SPDX-License-Identifier: Apache-2.0
// Leftovers of this owner, region by region.
#include "job/aws_gc.h"

#include "base/log.h"
#include "job/aws_cluster.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

// A region on the command line is somebody who means AWS; one in the environment is not.
bool aws_gc_wanted(struct session *s) {
    return s->config->cluster.provider == CONFIG_AWS || terraform_was_used(s) ||
           option_place(&s->config->set, "aws.region")->source == OPTION_FLAG;
}

// Clusters with variables of their own: `up` and `down` know them.
static int known_clusters(struct session *s, const char ***names, size_t *count, struct err *e) {
    char **all = NULL;
    size_t n = 0;
    if (cluster_list(s->arena, s->cluster.base, &all, e) < 0)
        return -1;
    while (all[n])
        n++;
    *names = arena_new(s->arena, const char *, n + 1);
    *count = 0;
    for (size_t i = 0; i < n; i++)
        if (file_exists(arena_printf(s->arena, "%s/.dtctl/%s/terraform/infra/terraform.tfvars.json",
                                     s->cluster.base, all[i])))
            (*names)[(*count)++] = all[i];
    return 0;
}

static void show(struct session *s, const char *region, const struct aws_found_item *i) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "leftover");
    json_str(&j, "region", region);
    json_str(&j, "kind", i->kind);
    json_str(&j, "id", i->id);
    json_str(&j, "cluster", i->cluster);
    json_str(&j, "type", i->type);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "%-14s %-16s %-22s %-16s %s\n", region, i->kind, i->id, i->cluster,
               i->type);
}

static int region_gc(struct session *s, struct terraform *t, const char *region,
                     const char *const *keep, size_t keep_count, struct aws_gc_result *out,
                     struct err *e) {
    struct aws_found found = {0};
    screen_note(s->screen, "looking in %s …", region);
    if (aws_sweep_find(t, region, NULL, keep, keep_count, &found, e) < 0)
        return err_wrap(e, "region %s", region);
    out->regions++;
    out->found += found.count;
    for (size_t i = 0; i < found.count; i++)
        show(s, region, &found.items[i]);
    if (found.count == 0 || s->config->dry_run || !s->config->yes) {
        struct aws_found nothing = {0};
        return aws_sweep_remove(t, &nothing, NULL, 0, e); // throws the list away
    }
    if (aws_sweep_remove(t, &found, NULL, 0, e) < 0)
        return -1;
    out->removed += found.count;
    return 0;
}

int aws_gc(struct session *s, bool all_regions, struct aws_gc_result *out, struct err *e) {
    struct terraform t;
    const char *region = NULL, **keep = NULL;
    size_t keep_count = 0, orphans = 0;
    const char *one[2] = {NULL, NULL};
    *out = (struct aws_gc_result){0};
    // A cluster that this folder shares is none of the leftovers.
    if (aws_cluster_region(s, &region, e) < 0 || aws_shared_find(s, false, e) < 0 ||
        terraform_open(&t, s, region, e) < 0)
        return -1;
    if (terraform_is_unclean(&t) && !s->config->dry_run) {
        struct aws_cluster c;
        if (aws_cluster_open(&c, s, e) < 0 || aws_sweep_orphans(&c, &orphans, e) < 0)
            return -1;
        out->found = out->removed = orphans;
    }
    if (known_clusters(s, &keep, &keep_count, e) < 0)
        return -1;
    one[0] = region;
    const char *const *regions = all_regions ? aws_sweep_regions : one;
    for (size_t i = 0; regions[i]; i++)
        if (region_gc(s, &t, regions[i], keep, keep_count, out, e) < 0)
            return -1;
    if (out->found > out->removed && !s->config->dry_run)
        return err_set(e, ERR_USAGE,
                       "%zu things of owner '%s' belong to no cluster in '%s/.dtctl'; dtctl gc -y "
                       "ends them",
                       out->found - out->removed, aws_cluster_owner(s), s->cluster.base);
    return 0;
}
