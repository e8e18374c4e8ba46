// SPDX-License-Identifier: Apache-2.0
// Creates instances: applies repeatedly until all nodes exist or no alternative is left. Terraform
// destroys the result of an attempt in one zone before it creates anything in another, so
// incomplete attempts never coexist.
#include "aws/aws_cluster.h"

#include "aws/aws_errors.h"
#include "aws/aws_fallback.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

enum {
    THROTTLE_PAUSE_MS = 20000,
    UNRECORDED_LOOKS_MAX = 3, // AWS lists new resources with a delay
    UNRECORDED_PAUSE_MS = 5000,
    ZONES_MAX = AWS_TRIES_ZONES_MAX
};

static const char TAKEN[] = "runs already"; // infra/main.tf
static const char OUTSIDE[] = " outside of the placement group";
static const char STOPPED[] = "stopped; dtctl up continues, dtctl down removes what was made";

struct make {
    struct aws_cluster *c;
    struct boot_progress *phases;
    struct aws_tries tries;
    const char **further; // arguments of apply: instances to replace; NULL: none
    bool fresh;           // no node of this cluster was ever ready; everything may be moved
    bool attempted;       // at least once
    bool begun;           // resources exist or were requested
    bool replaced_ending; // instances in state shutting-down were replaced
    const char *vars;     // the variables before the first attempt; NULL: none
    size_t vars_bytes;
    struct aws_refusal refusal; // of the current attempt; kind NONE: nothing refused yet
};

static void on_problem(struct make *m, const struct terraform_line *l) {
    struct arena *a = m->c->context->arena;
    const char *problem = terraform_problem(a, l);
    if (!problem || strcmp(l->summary, TERRAFORM_NOT_LOCKED) == 0) // Terraform waits for the lock
        return;
    struct aws_refusal r = aws_refusal_of(a, problem);
    if (m->refusal.kind == AWS_REFUSAL_NONE || aws_refusal_outranks(&r, &m->refusal))
        m->refusal = r;
}

static void on_line(void *ctx, const struct terraform_line *l) {
    struct make *m = ctx;
    on_problem(m, l);
    bool node = strcmp(l->type, "aws_instance") == 0 && l->index >= 0;
    m->begun |= l->kind == TERRAFORM_START && strcmp(l->action, "read") != 0;
    if (node && strcmp(l->action, "create") == 0) {
        if (l->kind == TERRAFORM_START)
            boot_progress_reach(m->phases, (size_t)l->index, PHASE_REQUESTED);
        else if (l->kind == TERRAFORM_COMPLETE)
            boot_progress_reach(m->phases, (size_t)l->index, PHASE_RUNNING);
    } else if (l->kind == TERRAFORM_START && node && strcmp(l->action, "delete") == 0) {
        boot_progress_say(m->phases, (size_t)l->index, "waiting for the end of its old instance");
    } else if (l->kind == TERRAFORM_START && strcmp(l->action, "create") == 0) {
        for (size_t i = 0; i < m->phases->count; i++)
            if (m->phases->nodes[i].at_ms[PHASE_REQUESTED] < 0)
                boot_progress_say(m->phases, i, "network, keys and groups exist");
    }
}

// ---- after a refusal ----------------------------------------------------------------------------

// The zones that offer the type, and the zone just tried.
static void learn_zones(struct make *m, const struct terraform_state *state) {
    const char *zones[ZONES_MAX], *chosen = NULL;
    size_t count = 0;
    // A given subnet determines the zone.
    if (!m->fresh || m->tries.zone_count || m->c->context->config->aws.subnet[0])
        return;
    for (size_t i = 0; i < state->count; i++) {
        const struct terraform_resource *r = &state->resources[i];
        const struct json *list = json_get(r->attributes, "locations");
        if (strcmp(r->type, "aws_subnet") == 0)
            chosen = json_get_str(r->attributes, "availability_zone", NULL);
        if (strcmp(r->type, "aws_ec2_instance_type_offerings") != 0 || !list ||
            list->type != JSON_ARRAY)
            continue;
        for (const struct json *z = list->child; z && count < ZONES_MAX; z = z->next)
            if (z->type == JSON_STR)
                zones[count++] = z->str;
    }
    aws_tries_learn(&m->tries, m->c->vars.region, zones, count, chosen);
    // The module chose this zone itself; record it.
    m->c->vars.zone = chosen;
}

// Sets whether nodes entered a placement group by default, by the rule of infra/main.tf.
static void learn_group(struct make *m, const struct terraform_state *state) {
    bool made = false, has_efa = false;
    const struct aws_config *aws = &m->c->context->config->aws;
    for (size_t i = 0; i < state->count; i++) {
        const struct terraform_resource *r = &state->resources[i];
        made |= str_eq(r->type, "aws_placement_group");
        has_efa |= str_eq(r->type, "aws_ec2_instance_type") &&
                   json_get_int(r->attributes, "efa_maximum_interfaces", 0) > 0;
    }
    has_efa &= str_eq(aws_config_efa[aws->efa], "auto");
    m->tries.grouped = made && str_eq(aws_config_placement[aws->placement_group], "auto") &&
                       (m->c->vars.nodes > 1 || has_efa);
}

// Reads from Terraform's state what the next attempt depends on.
static void learn(struct make *m) {
    struct terraform_state state;
    struct err ignored = {0};
    if (terraform_state(&m->c->terraform, "infra", &state, &ignored) < 0)
        return;
    learn_zones(m, &state);
    learn_group(m, &state);
}

static void tell_next(struct make *m, const struct aws_refusal *r) {
    struct context *s = m->c->context;
    const struct aws_vars *v = &m->c->vars;
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "refused");
    json_str(&j, "kind", aws_refusal_name(r->kind));
    json_str(&j, "code", r->code);
    json_str(&j, "zone", v->zone);
    json_str(&j, "purchase", v->purchase);
    json_str(&j, "next_zone", m->tries.zone);
    json_str(&j, "next_purchase", m->tries.purchase);
    json_bool(&j, "next_outside_group", m->tries.outside);
    screen_event_end(s->screen, &text, &j);
    screen_note(s->screen, "%s, %s%s: refused (%s, %s); trying %s, %s%s",
                v->zone ? v->zone : "first zone", v->purchase, v->outside_group ? OUTSIDE : "",
                aws_refusal_name(r->kind), r->code[0] ? r->code : "no code",
                m->tries.zone ? m->tries.zone : "first zone", m->tries.purchase,
                m->tries.outside ? OUTSIDE : "");
}

// Destroys the resources of the attempts and keeps earlier ones. The state was just refreshed, so
// AWS is not queried again.
static int undo(struct make *m, const struct inventory *before, struct err *e) {
    static const char *const destroy[] = {"-destroy", "-refresh=false", NULL};
    struct aws_cluster *c = m->c;
    struct terraform_result r;
    c->vars.outside_group = c->before.outside_group;
    if (!m->fresh &&
        (aws_cluster_fill(c, before->count, before, e) < 0 || aws_cluster_write(c, e) < 0))
        return -1;
    if (m->begun &&
        terraform_apply(&c->terraform, "infra", m->fresh ? destroy : NULL, NULL, NULL, &r, e) < 0)
        return -1;
    if (m->begun && r.status != 0)
        return terraform_failure(&c->terraform, &r, "taking back what was made", e);
    if (m->fresh)
        unlink(c->terraform.vars_path);
    return 0;
}

// Text " (quota L-DB2E81BA, Running On-Demand G and VT instances; 2 nodes need 8 vCPUs)".
static const char *quota_words(const struct make *m, const struct aws_refusal *r) {
    struct context *s = m->c->context;
    const char *type = s->config->aws.instance_type;
    const struct aws_type *known = aws_instance_types_find(type);
    int way = aws_purchase_named(m->c->vars.purchase);
    struct aws_quota q =
        aws_instance_types_quota(type, way < 0 ? AWS_ON_DEMAND : (enum aws_purchase)way);
    size_t nodes = m->c->vars.nodes;
    if (r->kind != AWS_REFUSAL_QUOTA || (r->everywhere && !r->quota[0]))
        return "";
    if (r->quota[0])
        return arena_printf(s->arena, " (quota %s)", r->quota);
    const char *need =
        known ? arena_printf(s->arena, "; %zu node%s need%s %zu vCPUs", nodes, str_plural(nodes),
                             nodes == 1 ? "s" : "", nodes * (size_t)known->vcpus)
              : "";
    if (!q.code[0])
        return *need ? arena_printf(s->arena, " (%s)", need + 2) : "";
    return arena_printf(s->arena, " (quota %s, %s%s)", q.code, q.name, need);
}

// Text "spot, then on-demand nodes of g6.xlarge: refused in us-east-1b and every other zone".
static const char *tried_words(const struct make *m, const struct aws_refusal *r) {
    struct context *s = m->c->context;
    struct strbuf text = {0};
    size_t zones = 0;
    for (size_t i = 0; i < m->tries.zone_count; i++)
        zones += m->tries.tried[i];
    for (size_t i = 0; i < m->tries.purchase_at; i++)
        strbuf_addf(&text, "%s, then ", m->tries.purchases[i]);
    strbuf_addf(&text, "%s nodes of %s: refused in ", m->c->vars.purchase,
                s->config->aws.instance_type);
    if (r->everywhere || !m->c->vars.zone)
        strbuf_adds(&text, m->c->vars.region);
    else
        strbuf_addf(&text, "%s%s", m->c->vars.zone, zones > 1 ? " and every other zone" : "");
    const char *words = arena_strdup(s->arena, strbuf_cstr(&text));
    strbuf_fini(&text);
    return words;
}

// AWS does not say which name was not found; this is the value that the user configured.
static const char *given_words(const struct make *m, const struct aws_refusal *r) {
    const struct config *config = m->c->context->config;
    const struct aws_config *aws = &config->aws;
    const struct {
        const char *about, *key, *value;
    } given[] = {
        {"no matching EC2 Subnet found", "aws.subnet", aws->subnet},
        {"no matching EC2 VPC found", "aws.vpc", aws->vpc},
        {"InvalidAMIID", "aws.image", aws->image},
        {"couldn't find resource", "aws.image", aws->image},
        {"query returned no results", "aws.image", aws->image},
        {"Invalid IAM Instance Profile", "aws.instance_profile", aws->instance_profile},
        {"InvalidCapacityReservationId", "aws.capacity_reservation", aws->capacity_reservation},
        {"KMSKey", "aws.kms_key", aws->kms_key},
        {"InvalidPlacementGroup.Unknown", "aws.placement_group_name", aws->placement_group_name},
    };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (given[i].value[0] &&
            (strstr(r->words, given[i].about) || strstr(r->code, given[i].about)))
            return arena_printf(m->c->context->arena, "; %s is '%s', in %s",
                                config_where(config, given[i].key), given[i].value,
                                m->c->vars.region);
    return "";
}

// When an answer of AWS is lost, the provider repeats the call. AWS refuses it as a duplicate, and
// the first result is in no state. Destroys the attempt and all unrecorded resources with the
// cluster's tags. The variables are written again first, since they name the owner.
static int undo_unrecorded(struct make *m, const struct inventory *before, struct err *e) {
    static const char why[] =
        "AWS created a resource but its answer was lost; removing the resource";
    struct aws_cluster *c = m->c;
    size_t removed = 0;
    if ((m->fresh && undo(m, before, e) < 0) || aws_cluster_write(c, e) < 0)
        return -1;
    for (int i = 0; i < UNRECORDED_LOOKS_MAX && removed == 0; i++) {
        if (i && context_pause(c->context, UNRECORDED_PAUSE_MS, e) < 0)
            return err_set(e, ERR_INTERRUPTED, STOPPED);
        if (aws_sweep_unrecorded(c, why, &removed, e) < 0)
            return -1;
    }
    return 0;
}

static int give_up(struct make *m, const struct aws_refusal *r, const struct inventory *before,
                   struct err *e) {
    struct aws_cluster *c = m->c;
    struct err undoing = {0};
    // Format these texts first: undo() changes the variables.
    const char *tried = tried_words(m, r), *quota = quota_words(m, r);
    const char *given = given_words(m, r);
    bool undone = undo(m, before, &undoing) == 0;
    if (undoing.code == ERR_INTERRUPTED) {
        *e = undoing;
        return -1;
    }
    return err_set(e, ERR_FAILED, "%s (%s%s%s%s%s): %.500s%s%s; %s; %s (%s%s%slog: %s)", tried,
                   aws_refusal_name(r->kind), r->code[0] ? ", " : "", r->code,
                   r->action[0] ? " of " : "", r->action, r->words, given, quota,
                   undone ? m->fresh ? "nothing is left of it" : "the nodes there were stay"
                          : "what was made is still there (dtctl down)",
                   r->next, r->request[0] ? "request " : "", r->request, r->request[0] ? ", " : "",
                   c->terraform.log_path);
}

// The variables of the last successful attempt, or none, so that `down` can use them.
static int put_vars_back(const struct make *m, struct err *e) {
    const char *path = m->c->terraform.vars_path;
    if (m->vars)
        return file_write_atomic(path, m->vars, m->vars_bytes, 0600, e);
    if (!m->begun)
        unlink(path);
    return 0;
}

// Another folder has made a cluster of this name. Terraform has only planned. Removes the variables
// of this attempt, or `down` would treat that cluster as its own.
static int refuse_taken(struct make *m, const char *problem, struct err *e) {
    const char *words = strstr(problem, "cluster ");
    unlink(m->c->terraform.vars_path);
    return err_set(
        e, ERR_EXISTS,
        "%s Work from there, choose another name with -c, or end it with dtctl gc -y --in-use",
        words ? words : problem);
}

// Returns 1 to retry with the new values of tries, 0 on success, -1 on failure.
static int attempt(struct make *m, const struct inventory *before, struct terraform_result *r,
                   struct err *e) {
    struct aws_cluster *c = m->c;
    struct context *s = c->context;
    static const char *const first[] = {"-var=new_cluster=true", NULL};
    // After the first attempt the state is current; skip the refresh.
    static const char *const again[] = {"-refresh=false", NULL};
    bool is_new = m->fresh && !c->has_before && !m->attempted;
    const char *const *further = is_new ? first : m->further || !m->attempted ? m->further : again;
    m->attempted = true;
    c->vars.zone = m->tries.zone;
    c->vars.purchase = m->tries.purchase;
    c->vars.outside_group = m->tries.outside;
    m->refusal = (struct aws_refusal){.kind = AWS_REFUSAL_NONE};
    if (aws_cluster_write(c, e) < 0 ||
        terraform_apply(&c->terraform, "infra", further, on_line, m, r, e) < 0)
        return -1;
    if (r->status == 0)
        return 0;
    if (strstr(r->problem, TAKEN))
        return refuse_taken(m, r->problem, e);
    if (is_new && r->not_locked) // another command made the cluster; these variables do not apply
        unlink(c->terraform.vars_path);
    if (r->interrupted || r->status >= 128 || r->not_locked)
        return terraform_failure(&c->terraform, r, "up", e);
    if (aws_cluster_refused(&c->terraform, r, e)) {
        struct err put = {0};
        if (put_vars_back(m, &put) < 0)
            *e = put;
        return -1;
    }
    struct aws_refusal refusal =
        m->refusal.kind == AWS_REFUSAL_NONE ? aws_refusal_of(s->arena, r->problem) : m->refusal;
    if (refusal.kind == AWS_REFUSAL_OTHER && !refusal.code[0] && !m->fresh)
        return terraform_failure(&c->terraform, r, "up", e);
    learn(m);
    if (!aws_tries_next(&m->tries, &refusal))
        return give_up(m, &refusal, before, e);
    boot_progress_hide(m->phases);
    tell_next(m, &refusal);
    boot_progress_show(m->phases);
    if (refusal.kind == AWS_REFUSAL_DUPLICATE && undo_unrecorded(m, before, e) < 0)
        return -1;
    if (refusal.kind == AWS_REFUSAL_THROTTLE && context_pause(s, THROTTLE_PAUSE_MS, e) < 0)
        return err_set(e, ERR_INTERRUPTED, STOPPED);
    return 1;
}

static int keep_vars(struct make *m, struct err *e) {
    const struct terraform *t = &m->c->terraform;
    char *text = NULL;
    if (file_is_absent(t->vars_path))
        return 0;
    if (file_read(t->context->arena, t->vars_path, TERRAFORM_VARS_BYTES_MAX, &text, &m->vars_bytes,
                  e) < 0)
        return -1;
    m->vars = text;
    return 0;
}

static void begin(struct make *m, const struct inventory *before) {
    static const char *const on_demand[] = {"on-demand"};
    struct aws_cluster *c = m->c;
    const struct aws_config *aws = &c->context->config->aws;
    m->fresh = before->count == 0;
    m->begun = m->fresh && c->has_before; // by an interrupted command
    if (!m->fresh && c->has_before) {
        // Further nodes join existing ones in the same zone with the same purchase option.
        const char **purchase = arena_new(c->context->arena, const char *, 1);
        purchase[0] = c->before.purchase;
        aws_tries_init(&m->tries, NULL, 0, purchase, 1);
        m->tries.zone = c->before.zone;
        m->tries.outside = c->before.outside_group;
        return;
    }
    size_t zones = aws->subnet[0] ? 0 : aws->zones.count; // a given subnet determines the zone
    bool ways = aws->fallback.count > 0;
    aws_tries_init(&m->tries, aws->zones.items, zones, ways ? aws->fallback.items : on_demand,
                   ways ? aws->fallback.count : 1);
}

// Arguments that replace the instances with these ids, by their addresses in the state. first: an
// additional argument, or NULL.
static const char **replace_args(struct make *m, const char *first, const char *const *ids,
                                 size_t count, struct err *e) {
    struct arena *a = m->c->context->arena;
    struct terraform_state state;
    size_t n = 0;
    if (terraform_state(&m->c->terraform, "infra", &state, e) < 0)
        return NULL;
    const char **args = arena_new(a, const char *, state.count + 2);
    if (first)
        args[n++] = first;
    for (size_t i = 0; i < state.count; i++)
        for (size_t k = 0; k < count; k++)
            if (strcmp(state.resources[i].type, "aws_instance") == 0 &&
                str_eq(state.resources[i].id, ids[k]))
                args[n++] =
                    arena_printf(a, "-replace=%s", terraform_state_address(a, &state.resources[i]));
    return args;
}

// The instances that `up --replace` names.
static int choose_replaced(struct make *m, const struct inventory *before, struct err *e) {
    struct context *s = m->c->context;
    size_t *nodes = NULL, count = 0;
    if (!s->config->aws.replace[0])
        return 0;
    if (inventory_select(s->arena, before, s->config->aws.replace, &nodes, &count, e) < 0)
        return -1;
    const char **ids = arena_new(s->arena, const char *, count + 1);
    for (size_t i = 0; i < count; i++)
        ids[i] = before->nodes[nodes[i]].instance_id;
    m->further = replace_args(m, NULL, ids, count, e);
    return m->further ? 0 : -1;
}

// Terraform treats an instance in state shutting-down as existing until it is terminated minutes
// later. Replaces such instances. Returns 1 when another attempt is needed.
static int replace_ending(struct make *m, const struct terraform_result *r, struct err *e) {
    struct context *s = m->c->context;
    const struct json *facts = terraform_line_output(r->outputs, "facts");
    const struct json *nodes = facts ? json_get(facts, "nodes") : NULL;
    size_t count = 0;
    if (m->replaced_ending || !nodes || nodes->type != JSON_ARRAY)
        return 0;
    const char **ids = arena_new(s->arena, const char *, nodes->len + 1);
    for (const struct json *n = nodes->child; n; n = n->next) {
        const char *id = json_get_str(n, "id", ""), *state = json_get_str(n, "state", "");
        const char *name = json_get_str(n, "name", "");
        if (strcmp(state, "shutting-down") == 0) {
            boot_progress_hide(m->phases);
            screen_note(s->screen, "AWS is still ending %s (%s); a new one is created after that",
                        name, id);
            boot_progress_show(m->phases);
            ids[count++] = id;
        } else if (strcmp(state, "stopping") == 0 || strcmp(state, "stopped") == 0) {
            log_warn("AWS says that the instance of a node is stopped",
                     "node=%s id=%s remedy=\"start it there, or dtctl up --replace %s\"", name, id,
                     name);
        }
    }
    if (count == 0)
        return 0;
    m->replaced_ending = true;
    m->further = replace_args(m, "-refresh=false", ids, count, e);
    return m->further ? 1 : -1;
}

// ---- the inventory ------------------------------------------------------------------------------

static int read_inventory(struct make *m, const struct terraform_result *r,
                          const struct inventory *before, struct inventory *out, struct err *e) {
    struct context *s = m->c->context;
    char stamp[CLOCK_ISO_BYTES];
    const struct json *text = terraform_line_output(r->outputs, "inventory");
    if (!text || text->type != JSON_STR)
        return err_set(e, ERR_FORMAT, "terraform gave no inventory (log: %s)",
                       m->c->terraform.log_path);
    if (inventory_parse(s->arena, text->str, text->len, "terraform's inventory", out, e) < 0)
        return -1;
    aws_cluster_remember(s, before, clock_iso(stamp, clock_wall_ms()), out);
    return 0;
}

int aws_make_nodes(struct aws_cluster *c, struct boot_progress *p, const struct inventory *before,
                   struct inventory *out, struct err *e) {
    struct make m = {.c = c, .phases = p};
    struct terraform_result r;
    int again;
    begin(&m, before);
    if (keep_vars(&m, e) < 0 || choose_replaced(&m, before, e) < 0)
        return -1;
    do {
        again = attempt(&m, before, &r, e);
        if (again == 0)
            again = replace_ending(&m, &r, e);
    } while (again > 0);
    return again < 0 ? -1 : read_inventory(&m, &r, before, out, e);
}
