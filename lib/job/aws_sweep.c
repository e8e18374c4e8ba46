// SPDX-License-Identifier: Apache-2.0
// Finding and ending what carries our tags, whoever lost track of it. The module infra/sweep reads
// everything with the tags into a state of its own; destroying that state ends it, and throwing the
// state away leaves it as it is.
#include "job/aws_cluster.h"

#include "base/clock.h"
#include "base/log.h"
#include "cluster/aws_refusal.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

enum { FOUND_MAX = 10000, STALE_PAUSE_MS = 5000, STALE_MS_MAX = 180000 };

static const char ROOT[] = "infra/sweep";

// Regions that an account has from the start; others are asked for by name (--region).
const char *const aws_sweep_regions[] = {"us-east-1",      "us-east-2",      "us-west-1",
                                         "us-west-2",      "ca-central-1",   "eu-central-1",
                                         "eu-west-1",      "eu-west-2",      "eu-west-3",
                                         "eu-north-1",     "ap-south-1",     "ap-northeast-1",
                                         "ap-northeast-2", "ap-northeast-3", "ap-southeast-1",
                                         "ap-southeast-2", "sa-east-1",      NULL};

struct scope {
    const char *region, *owner, *cluster;
    const char *const *keep;
    size_t keep_count;
    bool free_parts;
    int64_t started_ms;
};

static const char *sweep_path(const struct terraform *t, const char *name) {
    return file_join(t->session->arena, t->folder, name);
}

static void forget(const struct terraform *t) {
    unlink(sweep_path(t, "sweep.tfstate"));
    unlink(sweep_path(t, "sweep.tfstate.backup"));
}

static int write_vars(struct terraform *t, const struct scope *scope, struct err *e) {
    static const char *const services[] = {"ec2", "iam", "sts", "tagging"};
    const struct aws_config *aws = &t->session->config->aws;
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_str(&j, "region", scope->region);
    json_str(&j, "owner", scope->owner);
    json_str(&j, "cluster", scope->cluster);
    json_bool(&j, "free_parts", scope->free_parts);
    json_array(&j, "keep_clusters");
    for (size_t i = 0; i < scope->keep_count; i++)
        json_str(&j, NULL, scope->keep[i]);
    json_end(&j);
    json_object(&j, "endpoints");
    for (size_t i = 0; aws->endpoint_url[0] && i < sizeof services / sizeof services[0]; i++)
        json_str(&j, services[i], aws->endpoint_url);
    json_end(&j);
    json_bool(&j, "skip_checks", aws->endpoint_url[0] != 0);
    json_end(&j);
    int result = file_write_atomic(sweep_path(t, "infra/sweep/terraform.tfvars.json"),
                                   strbuf_cstr(&text), text.len, 0600, e);
    strbuf_fini(&text);
    return result;
}

static int read_found(struct terraform *t, const struct terraform_result *r, struct aws_found *out,
                      struct err *e) {
    const struct json *list = terraform_line_output(r->outputs, "found");
    *out = (struct aws_found){0};
    if (!list || list->type != JSON_ARRAY || list->len > FOUND_MAX)
        return err_set(e, ERR_FORMAT, "the sweep gave no list of what it found (log: %s)",
                       t->log_path);
    out->items = arena_new(t->session->arena, struct aws_found_item, list->len + 1);
    for (const struct json *i = list->child; i; i = i->next)
        out->items[out->count++] = (struct aws_found_item){
            .kind = json_get_str(i, "kind", ""),
            .id = json_get_str(i, "id", ""),
            .cluster = json_get_str(i, "cluster", ""),
            .name = json_get_str(i, "name", ""),
            .type = json_get_str(i, "type", ""),
            .zone = json_get_str(i, "zone", ""),
        };
    return 0;
}

// AWS's tagging API goes on to list what is gone, for a minute or so; taking that in fails.
static bool is_stale(const struct scope *scope, const struct terraform_result *r) {
    static const char *const words[] = {"non-existent remote object", "no matching EC2 Key Pair",
                                        NULL};
    for (int i = 0; scope->free_parts && words[i]; i++)
        if (r->status != 0 && !r->interrupted && strstr(r->problem, words[i]))
            return true;
    return false;
}

static int find_in(struct terraform *t, struct scope *scope, struct aws_found *out, struct err *e) {
    struct session *s = t->session;
    struct terraform_result r;
    forget(t);
    // terraform_run, not _apply: nothing is made here, so nothing can be left unrecorded.
    const char *const args[] = {"apply", "-json", "-auto-approve", "-input=false", NULL};
    if (write_vars(t, scope, e) < 0 || terraform_folder_root(t, ROOT, "sweep", e) < 0 ||
        terraform_run(t, ROOT, args, NULL, NULL, &r, e) < 0)
        return -1;
    if (r.status != 0 && !r.interrupted && scope->free_parts &&
        aws_refusal_of(t->session->arena, r.problem).kind == AWS_REFUSAL_PERMISSION) {
        log_warn("networks, groups and keys are not looked for: it is not permitted",
                 "permission=tag:GetResources");
        scope->free_parts = false;
        return find_in(t, scope, out, e);
    }
    if (is_stale(scope, &r) && clock_mono_ms() - scope->started_ms < STALE_MS_MAX) {
        screen_note(s->screen, "AWS still lists what is gone already; asking again …");
        if (session_pause(s, STALE_PAUSE_MS, e) < 0)
            return err_set(e, ERR_INTERRUPTED, "stopped while looking for what is left");
        return find_in(t, scope, out, e);
    }
    if (r.status != 0)
        return terraform_failure(t, &r, "looking for what is left", e);
    return read_found(t, &r, out, e);
}

int aws_sweep_find(struct terraform *t, const char *region, const char *cluster,
                   const char *const *keep, size_t keep_count, struct aws_found *out,
                   struct err *e) {
    const char *maker = cluster ? aws_cluster_made_by(t->session) : NULL;
    struct scope scope = {region,         maker ? maker : aws_cluster_owner(t->session),
                          cluster,        keep,
                          keep_count,     true,
                          clock_mono_ms()};
    return find_in(t, &scope, out, e);
}

// ---- ending ------------------------------------------------------------------------------------

static bool listed(const char *id, const char *const *ids, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(id, ids[i]) == 0)
            return true;
    return false;
}

int aws_sweep_remove(struct terraform *t, const struct aws_found *found, const char *const *except,
                     size_t except_count, struct err *e) {
    struct terraform_state state;
    struct terraform_result r;
    size_t n = 0;
    if (found->count == 0) {
        forget(t);
        return 0;
    }
    if (terraform_state(t, ROOT, &state, e) < 0)
        return -1;
    const char **args = arena_new(t->session->arena, const char *, state.count + 2);
    args[n++] = "-destroy";
    for (size_t i = 0; except_count && i < state.count; i++) {
        const struct terraform_resource *one = &state.resources[i];
        if (one->managed && !listed(one->id, except, except_count))
            args[n++] = arena_printf(t->session->arena, "-target=%s",
                                     terraform_state_address(t->session->arena, one));
    }
    if (except_count && n == 1) { // all of it is to stay
        forget(t);
        return 0;
    }
    if (terraform_apply(t, ROOT, args, NULL, NULL, &r, e) < 0)
        return -1;
    if (r.status != 0)
        return terraform_failure(t, &r, "ending what was left", e);
    forget(t);
    return 0;
}

int aws_sweep_unrecorded(struct aws_cluster *c, const char *why, size_t *removed, struct err *e) {
    struct terraform *t = &c->terraform;
    struct session *s = c->session;
    struct terraform_state state;
    struct terraform_lock left;
    struct aws_found found = {0};
    *removed = 0;
    if (terraform_settle(t, e) < 0 || aws_shared_alone(c, &left, e) < 0 ||
        terraform_state(t, "infra", &state, e) < 0 ||
        aws_sweep_find(t, c->vars.region, s->cluster.name, NULL, 0, &found, e) < 0)
        return -1;
    const char **known = arena_new(s->arena, const char *, state.count + 1);
    size_t known_count = 0;
    for (size_t i = 0; i < state.count; i++)
        if (state.resources[i].managed && state.resources[i].id[0])
            known[known_count++] = state.resources[i].id;
    for (size_t i = 0; i < found.count; i++) {
        if (listed(found.items[i].id, known, known_count))
            continue;
        (*removed)++;
        log_warn(why, "kind=%s id=%s", found.items[i].kind, found.items[i].id);
    }
    if (*removed && aws_sweep_remove(t, &found, known, known_count, e) < 0)
        return -1;
    if (left.id[0]) {
        log_warn("terraform was killed while it had the state locked; the lock is ended now",
                 "lock=%s", left.id);
        if (terraform_unlock(t, "infra", &left, e) < 0)
            return -1;
    }
    forget(t);
    terraform_set_clean(t);
    return 0;
}

int aws_sweep_orphans(struct aws_cluster *c, size_t *removed, struct err *e) {
    *removed = 0;
    if (!terraform_is_unclean(&c->terraform))
        return 0;
    log_warn("the last command on this cluster was stopped or killed; looking for what it left",
             "cluster=%s", c->session->cluster.name);
    return aws_sweep_unrecorded(
        c, "an earlier command left this behind, unrecorded; it is ended now", removed, e);
}
