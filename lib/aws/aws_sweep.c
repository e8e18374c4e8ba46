// SPDX-License-Identifier: Apache-2.0
// Finds and removes resources by their tags, also when no state records them. The module
// infra/sweep imports everything with the tags into a state of its own. Destroying that state
// removes the resources; discarding it keeps them.
#include "aws/aws_cluster.h"

#include "aws/aws_errors.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

enum { FOUND_MAX = 10000, SETTLE_PAUSE_MS = 5000, SETTLE_MS_MAX = 180000 };

static const char ROOT[] = "infra/sweep";

// Regions that are enabled by default; others must be named with --region.
const char *const aws_sweep_regions[] = {"us-east-1",      "us-east-2",      "us-west-1",
                                         "us-west-2",      "ca-central-1",   "eu-central-1",
                                         "eu-west-1",      "eu-west-2",      "eu-west-3",
                                         "eu-north-1",     "ap-south-1",     "ap-northeast-1",
                                         "ap-northeast-2", "ap-northeast-3", "ap-southeast-1",
                                         "ap-southeast-2", "sa-east-1",      NULL};

struct search {
    const struct aws_wish *wish;
    struct terraform *terraform;
    struct aws_gone *gone;
    const char *owner;
    bool free_parts, roles;
    int64_t started_ms;
    // Counters of the current attempt: missing resources without cost, missing resources with cost,
    // other errors.
    size_t found_gone, not_there, other;
    const char *why; // the first of the other errors
};

static const char *sweep_path(const struct terraform *t, const char *name) {
    return file_join(t->context->arena, t->folder, name);
}

void aws_sweep_forget(const struct terraform *t) {
    unlink(sweep_path(t, "sweep.tfstate"));
    unlink(sweep_path(t, "sweep.tfstate.backup"));
}

// ---- removed resources --------------------------------------------------------------------------

static bool gone_add(struct aws_gone *g, struct arena *a, const char *id) {
    if (!id[0] || g->count == FOUND_MAX || str_is_among(id, g->ids, g->count))
        return false;
    array_grow_in(a, g->ids, &g->room, g->count + 1);
    g->ids[g->count++] = arena_strdup(a, id);
    return true;
}

void aws_gone_add_state(struct aws_gone *g, struct arena *a, const struct terraform_state *state) {
    for (size_t i = 0; i < state->count; i++) {
        const struct terraform_resource *r = &state->resources[i];
        if (!r->managed)
            continue;
        gone_add(g, a, r->id);
        // Here the id of a key pair is its name; the tagging API has a different id.
        if (r->attributes)
            gone_add(g, a, json_get_str(r->attributes, "key_pair_id", ""));
    }
}

// ---- finding ------------------------------------------------------------------------------------

static int write_vars(const struct search *f, struct err *e) {
    static const char *const services[] = {"ec2", "iam", "sts", "tagging"};
    struct terraform *t = f->terraform;
    const struct aws_config *aws = &t->context->config->aws;
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_str(&j, "region", f->wish->region);
    json_str(&j, "owner", f->owner);
    json_str(&j, "cluster", f->wish->cluster);
    json_bool(&j, "free_parts", f->free_parts);
    json_bool(&j, "roles", f->roles);
    json_bool(&j, "ending", f->wish->ending);
    json_array(&j, "keep_clusters");
    for (size_t i = 0; i < f->wish->keep_count; i++)
        json_str(&j, NULL, f->wish->keep[i]);
    json_end(&j);
    json_array(&j, "gone_ids");
    for (size_t i = 0; i < f->gone->count; i++)
        json_str(&j, NULL, f->gone->ids[i]);
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

static int read_found(const struct search *f, const struct terraform_result *r,
                      struct aws_found *out, struct err *e) {
    struct terraform *t = f->terraform;
    const struct json *list = terraform_line_output(r->outputs, "found");
    *out = (struct aws_found){.whole = f->free_parts, .roles = f->roles};
    if (!list || list->type != JSON_ARRAY || list->len > FOUND_MAX)
        return err_set(e, ERR_FORMAT, "the sweep gave no list of what it found (log: %s)",
                       t->log_path);
    out->items = arena_new(t->context->arena, struct aws_found_item, list->len + 1);
    for (const struct json *i = list->child; i; i = i->next)
        out->items[out->count++] = (struct aws_found_item){
            .kind = json_get_str(i, "kind", ""),
            .id = json_get_str(i, "id", ""),
            .cluster = json_get_str(i, "cluster", ""),
            .name = json_get_str(i, "name", ""),
            .type = json_get_str(i, "type", ""),
            .zone = json_get_str(i, "zone", ""),
            .state = json_get_str(i, "state", ""),
            .since = json_get_str(i, "since", ""),
            .expires = json_get_str(i, "expires", ""),
        };
    return 0;
}

bool aws_sweep_costs(const struct aws_found_item *i) {
    return strcmp(i->kind, "instance") == 0 || strcmp(i->kind, "address") == 0 ||
           strcmp(i->kind, "volume") == 0;
}

// The tagging API may list removed resources for hours, and their import fails. Resources that cost
// money are listed by EC2 itself, where a short wait helps; they are never assumed gone.
static void on_line(void *ctx, const struct terraform_line *l) {
    static const char *const paid[] = {"aws_instance", "aws_eip", "aws_ebs_volume"};
    struct search *f = ctx;
    struct arena *a = f->terraform->context->arena;
    const char *type = "", *id = "";
    if (l->kind != TERRAFORM_DIAGNOSTIC || !l->is_error)
        return;
    bool missing = terraform_line_missing(a, l, &type, &id);
    if (missing && str_is_among(type, paid, sizeof paid / sizeof paid[0]))
        f->not_there++;
    else if (missing && gone_add(f->gone, a, id))
        f->found_gone++;
    else if (f->other++ == 0)
        f->why = terraform_problem(a, l);
}

// Excludes kinds that cannot be searched, so that the search can continue; false when nothing can
// be excluded.
static bool leave_out(struct search *f, const struct terraform_result *r) {
    struct arena *a = f->terraform->context->arena;
    const char *why = f->why ? f->why : r->problem;
    struct aws_refusal refusal = aws_refusal_of(a, why);
    bool refused = refusal.kind == AWS_REFUSAL_PERMISSION;
    if (refusal.kind == AWS_REFUSAL_CREDENTIALS) // no search is possible with them
        return false;
    if (f->roles && refused && strstr(why, "IAM")) {
        if (!f->wish->cluster)
            log_warn("skipping roles: permission denied", "permission=iam:ListRoles");
        f->roles = false;
        return true;
    }
    if (!f->free_parts)
        return false;
    f->free_parts = f->roles = false;
    if (refused && strstr(why, "GetResources"))
        log_warn("skipping networks, groups and keys: permission denied",
                 "permission=tag:GetResources");
    else
        log_warn("cannot search for networks, groups and keys", "reason=\"%s\" log=%s", why,
                 f->terraform->log_path);
    return true;
}

static int find_in(struct search *f, struct aws_found *out, struct err *e) {
    struct terraform *t = f->terraform;
    struct context *s = t->context;
    struct terraform_result r;
    // terraform_run instead of terraform_apply: nothing is created, so nothing can be left
    // unrecorded.
    const char *const args[] = {
        "apply", "-json", "-auto-approve", "-input=false", TERRAFORM_PARALLELISM, NULL};
    for (;;) {
        f->found_gone = f->not_there = f->other = 0;
        f->why = NULL;
        aws_sweep_forget(t);
        if (write_vars(f, e) < 0 || terraform_folder_root(t, ROOT, "sweep", e) < 0 ||
            terraform_run(t, ROOT, args, on_line, f, &r, e) < 0)
            return -1;
        if (r.status == 0)
            return read_found(f, &r, out, e);
        if (r.interrupted)
            return terraform_failure(t, &r, "looking for leftovers", e);
        if (f->other == 0 && f->found_gone)
            continue;
        bool settles =
            f->other == 0 && f->not_there && clock_mono_ms() - f->started_ms < SETTLE_MS_MAX;
        if (!settles && !leave_out(f, &r))
            return terraform_failure(t, &r, "looking for leftovers", e);
        if (!settles)
            continue;
        screen_note(s->screen, "AWS still lists removed resources; asking again …");
        if (context_pause(s, SETTLE_PAUSE_MS, e) < 0)
            return err_set(e, ERR_INTERRUPTED, "stopped while looking for leftovers");
    }
}

int aws_sweep_find(struct terraform *t, const struct aws_wish *wish, struct aws_gone *gone,
                   struct aws_found *out, struct err *e) {
    const char *maker = wish->cluster ? aws_cluster_made_by(t->context) : NULL;
    struct search f = {.wish = wish,
                       .terraform = t,
                       .gone = gone,
                       .owner = maker ? maker : aws_cluster_owner(t->context),
                       .free_parts = !wish->paid_only,
                       .roles = wish->roles && !wish->paid_only,
                       .started_ms = clock_mono_ms()};
    return find_in(&f, out, e);
}

// ---- ending -------------------------------------------------------------------------------------

int aws_sweep_remove(struct terraform *t, const struct aws_found *found, struct aws_gone *gone,
                     const char *const *except, size_t except_count, struct err *e) {
    struct terraform_state state, ended = {0};
    struct terraform_result r;
    struct arena *a = t->context->arena;
    size_t n = 0;
    if (found->count == 0) {
        aws_sweep_forget(t);
        return 0;
    }
    if (terraform_state(t, ROOT, &state, e) < 0)
        return -1;
    const char **args = arena_new(a, const char *, state.count + 2);
    ended.resources = arena_new(a, struct terraform_resource, state.count + 1);
    args[n++] = "-destroy";
    for (size_t i = 0; i < state.count; i++) {
        const struct terraform_resource *one = &state.resources[i];
        if (!one->managed || str_is_among(one->id, except, except_count))
            continue;
        ended.resources[ended.count++] = *one;
        if (except_count)
            args[n++] = arena_printf(a, "-target=%s", terraform_state_address(a, one));
    }
    if (ended.count == 0) { // all resources are to be kept
        aws_sweep_forget(t);
        return 0;
    }
    if (terraform_apply(t, ROOT, args, NULL, NULL, &r, e) < 0)
        return -1;
    if (r.status != 0)
        return terraform_failure(t, &r, "removing leftovers", e);
    aws_gone_add_state(gone, a, &ended);
    aws_sweep_forget(t);
    return 0;
}

int aws_sweep_unrecorded(struct aws_cluster *c, const char *why, size_t *removed, struct err *e) {
    struct terraform *t = &c->terraform;
    struct context *s = c->context;
    struct aws_wish wish = {
        .region = c->vars.region, .cluster = s->cluster.name, .roles = s->config->aws.s3[0] != 0};
    struct terraform_state state;
    struct terraform_lock left;
    struct aws_found found = {0};
    *removed = 0;
    if (terraform_settle(t, e) < 0 || aws_shared_alone(c, &left, e) < 0 ||
        terraform_state(t, "infra", &state, e) < 0 ||
        aws_sweep_find(t, &wish, &c->gone, &found, e) < 0)
        return -1;
    const char **known = arena_new(s->arena, const char *, state.count + 1);
    size_t known_count = 0;
    for (size_t i = 0; i < state.count; i++)
        if (state.resources[i].managed && state.resources[i].id[0])
            known[known_count++] = state.resources[i].id;
    for (size_t i = 0; i < found.count; i++) {
        if (str_is_among(found.items[i].id, known, known_count))
            continue;
        (*removed)++;
        log_warn(why, "kind=%s id=%s", found.items[i].kind, found.items[i].id);
    }
    if (*removed && aws_sweep_remove(t, &found, &c->gone, known, known_count, e) < 0)
        return -1;
    if (left.id[0]) {
        log_warn("terraform was killed while it held the lock of the state; releasing the lock",
                 "lock=%s", left.id);
        if (terraform_unlock(t, "infra", &left, e) < 0)
            return -1;
    }
    aws_sweep_forget(t);
    terraform_set_clean(t);
    return 0;
}

int aws_sweep_orphans(struct aws_cluster *c, size_t *removed, struct err *e) {
    *removed = 0;
    if (!terraform_is_unclean(&c->terraform))
        return 0;
    log_warn("the last command on this cluster was stopped or killed; looking for leftovers",
             "cluster=%s", c->context->cluster.name);
    return aws_sweep_unrecorded(c, "an earlier command left an unrecorded resource; removing it",
                                removed, e);
}
