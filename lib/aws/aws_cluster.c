// SPDX-License-Identifier: Apache-2.0
// Facts that are needed before Terraform runs.
#include "aws/aws_cluster.h"

#include "aws/aws_errors.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "remote/ssh_key.h"
#include "sys/file.h"

#include <ctype.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CONFIG_BYTES_MAX = 1 << 20, OWNER_BYTES_MAX = 64 };

// ---- region, owner
// -------------------------------------------------------------------------------

// The variables of the cluster's last apply; all empty: none.
static struct aws_vars vars_made(struct context *s) {
    const char *path = terraform_vars_path(s);
    char *text;
    size_t len;
    struct aws_vars v = {.region = "", .owner = ""};
    struct err ignored = {0};
    if (file_read(s->arena, path, TERRAFORM_VARS_BYTES_MAX, &text, &len, &ignored) < 0 ||
        aws_vars_read(s->arena, text, len, &v, &ignored) < 0)
        return (struct aws_vars){.region = "", .owner = ""};
    return v;
}

const char *aws_cluster_made_by(struct context *s) {
    struct aws_vars made = vars_made(s);
    return made.owner[0] ? made.owner : NULL;
}

bool aws_cluster_is_in(struct context *s, const char *region) {
    struct aws_vars made = vars_made(s);
    return !made.region[0] || strcmp(made.region, region) == 0;
}

struct aws_lease_end aws_cluster_lease_end(struct context *s, bool running) {
    struct aws_vars made = vars_made(s);
    return aws_lease_choose(clock_wall_ms(), s->config->lease.ttl_ms, made.region[0] ? &made : NULL,
                            aws_lease_decided(s), running);
}

int aws_cluster_region(struct context *s, const char **region, struct err *e) {
    const struct aws_config *aws = &s->config->aws;
    const char *made = vars_made(s).region, *other = env_get(s->env, "AWS_DEFAULT_REGION"),
               *home = env_get(s->env, "HOME");
    const char *file = env_get(s->env, "AWS_CONFIG_FILE");
    char *text;
    size_t len;
    struct err ignored = {0};
    // A cluster keeps its region: only a flag selects another one.
    bool told = option_place(&s->config->set, "aws.region")->source == OPTION_FLAG;
    *region = made[0] && !told ? made : aws->region;
    if (*region[0])
        return 0;
    if (other && *other) {
        *region = other;
        return 0;
    }
    const char *path =
        file && *file ? file : arena_printf(s->arena, "%s/.aws/config", home ? home : "");
    if (file_read(s->arena, path, CONFIG_BYTES_MAX, &text, &len, &ignored) == 0) {
        const char *found = aws_plan_profile_region(s->arena, text, aws->profile);
        if (found && *found) {
            *region = found;
            return 0;
        }
    }
    return err_set(e, ERR_CONFIG,
                   "%s: no region: neither here nor in AWS_REGION nor in '%s'; set one, such as "
                   "--region us-east-1",
                   config_where(s->config, "aws.region"), path);
}

// The default owner includes the computer's name, since many users of an account may be called
// ubuntu.
const char *aws_cluster_owner(struct context *s) {
    const char *given = s->config->aws.owner;
    struct passwd *pw = getpwuid(getuid());
    const char *name = pw ? pw->pw_name : env_get(s->env, "USER");
    char host[OWNER_BYTES_MAX + 1] = "";
    if (given[0])
        return given;
    if (gethostname(host, sizeof host - 1) < 0)
        host[0] = 0;
    char *owner =
        arena_printf(s->arena, "%s%s%s", name && *name ? name : "unknown", *host ? "@" : "", host);
    for (char *p = owner; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._@-", *p))
            *p = '-';
    if (!isalnum((unsigned char)*owner))
        *owner = 'x';
    if (strlen(owner) > OWNER_BYTES_MAX)
        owner[OWNER_BYTES_MAX] = 0;
    return owner;
}

// ---- the variables ------------------------------------------------------------------------------

static int read_before(struct aws_cluster *c, struct err *e) {
    struct context *s = c->context;
    char *text;
    size_t len;
    if (file_is_absent(c->terraform.vars_path))
        return 0;
    if (file_read(s->arena, c->terraform.vars_path, TERRAFORM_VARS_BYTES_MAX, &text, &len, e) < 0 ||
        aws_vars_read(s->arena, text, len, &c->before, e) < 0)
        return err_wrap(e, "'%s'", c->terraform.vars_path);
    c->has_before = c->before.region[0] != 0;
    return 0;
}

const char *aws_cluster_key_name(struct context *s) {
    return arena_printf(s->arena, "dtctl-%s", s->cluster.name);
}

bool aws_cluster_same_key(const char *one, const char *other) {
    size_t len = one ? strcspn(one, " ") : 0;
    len += len && one[len] ? 1 + strcspn(one + len + 1, " \r\n") : 0;
    return len && strncmp(one, other, len) == 0 && strchr(" \r\n", other[len]);
}

int aws_cluster_open(struct aws_cluster *c, struct context *s, struct err *e) {
    *c = (struct aws_cluster){.context = s};
    const char *key = NULL, *region = NULL;
    if (aws_cluster_region(s, &region, e) < 0 || cluster_create(&s->cluster, e) < 0)
        return -1;
    if (ssh_key_file(s->arena, s->cluster.key_path, aws_cluster_key_name(s), &key, e) < 0 ||
        terraform_open(&c->terraform, s, &aws_terraform, region, e) < 0 || read_before(c, e) < 0)
        return -1;
    if (c->has_before && strcmp(c->before.region, region) != 0)
        return err_set(e, ERR_CONFIG,
                       "%s: cluster '%s' is in %s, not %s; bring it down first, or choose another "
                       "name with -c",
                       config_where(s->config, "aws.region"), s->cluster.name, c->before.region,
                       region);
    c->vars = (struct aws_vars){
        .cluster = s->cluster.name,
        .owner = c->has_before ? c->before.owner : aws_cluster_owner(s),
        .region = region,
        .ssh_public_key =
            aws_cluster_same_key(c->before.ssh_public_key, key) ? c->before.ssh_public_key : key,
        .purchase = "on-demand",
        .outside_group = c->before.outside_group,
    };
    return 0;
}

const char *aws_cluster_node_name(struct arena *a, size_t rank) {
    return arena_printf(a, "node%zu", rank);
}

void aws_cluster_remember(struct context *s, const struct inventory *before, const char *launched,
                          struct inventory *now) {
    launched = arena_strdup(s->arena, launched);
    now->created = before->count && before->created[0] ? before->created : launched;
    for (size_t i = 0; i < now->count; i++) {
        struct inventory_node *n = &now->nodes[i];
        int at = inventory_find(before, n->name);
        const struct inventory_node *was = at < 0 ? NULL : &before->nodes[at];
        n->launched = launched;
        if (!was || !str_eq(was->instance_id, n->instance_id))
            continue;
        n->launched = was->launched;
        n->host_key = was->host_key;
        n->dtrun = was->dtrun;
        n->arch = was->arch;
        n->cpus = was->cpus;
        n->gpus = was->gpus;
        n->memory_bytes = was->memory_bytes;
    }
}

// One key per node: the key of the first login while the node may still use it, else a new one.
static int fill_keys(struct aws_cluster *c, const struct inventory *inv, struct err *e) {
    struct arena *a = c->context->arena;
    struct aws_vars *v = &c->vars;
    v->keys = arena_new(a, struct aws_vars_key, v->nodes + 1);
    for (size_t i = 0; i < v->nodes; i++) {
        int at = inventory_find(inv, v->names[i]);
        bool has_own = at >= 0 && inv->nodes[at].host_key && inv->nodes[at].host_key[0];
        bool given = c->before.keys && i < c->before.nodes && c->before.keys[i].public_key[0];
        struct ssh_key key;
        // A failed node that was kept still has the key of its first login.
        if (given && (!has_own || str_eq(inv->nodes[at].host_key, c->before.keys[i].public_key))) {
            v->keys[i] = c->before.keys[i];
            continue;
        }
        if (ssh_key_make(a, "bootstrap", &key, e) < 0)
            return -1;
        v->keys[i] = (struct aws_vars_key){key.private_key, key.public_key};
    }
    return 0;
}

// The lease is decided once per command, even if the variables are filled several times.
static void fill_lease(struct aws_cluster *c, const struct inventory *inv) {
    const struct lease_config *lease = &c->context->config->lease;
    struct aws_vars *v = &c->vars;
    char stamp[CLOCK_ISO_BYTES];
    v->ttl_s = lease->ttl_ms / 1000;
    v->idle_s = lease->idle_ms / 1000;
    if (v->expires)
        return;
    c->end = aws_lease_choose(clock_wall_ms(), lease->ttl_ms, c->has_before ? &c->before : NULL,
                              aws_lease_decided(c->context), inv->count > 0);
    v->expires = arena_printf(c->context->arena, "%.19sZ", clock_iso(stamp, c->end.at_ms));
}

static const char *random_word(struct arena *a) {
    unsigned char bytes[HASH_BYTES];
    char *hex = arena_new(a, char, HASH_HEX_BYTES);
    hash_random(bytes, sizeof bytes);
    hash_hex(hex, bytes);
    return hex;
}

int aws_cluster_fill(struct aws_cluster *c, size_t nodes, const struct inventory *inv,
                     struct err *e) {
    struct aws_vars *v = &c->vars;
    if (!v->made)
        v->made =
            c->has_before && c->before.made[0] ? c->before.made : random_word(c->context->arena);
    v->nodes = nodes;
    v->names = arena_new(c->context->arena, const char *, nodes + 1);
    for (size_t i = 0; i < nodes; i++)
        v->names[i] = aws_cluster_node_name(c->context->arena, i);
    fill_lease(c, inv);
    return aws_operator_cidrs_fill(c, e) < 0 || fill_keys(c, inv, e) < 0 ? -1 : 0;
}

int aws_cluster_write(struct aws_cluster *c, struct err *e) {
    struct strbuf text = {0};
    aws_vars_write(&text, &c->context->config->aws, &c->vars);
    int result = file_write_atomic(c->terraform.vars_path, strbuf_cstr(&text), text.len, 0600, e);
    strbuf_fini(&text);
    return result;
}

// ---- failures -----------------------------------------------------------------------------------

bool aws_cluster_refused(const struct terraform *t, const struct terraform_result *r,
                         struct err *e) {
    const struct config *config = t->context->config;
    const char *variable, *rule;
    if (!aws_refusal_variable(t->context->arena, r->problem, &variable, &rule))
        return false;
    const char *option = aws_vars_option(config, variable);
    err_set(e, ERR_CONFIG, "%s: %.500s (refused before anything was created; log: %s)",
            option ? config_where(config, option) : variable, rule, t->log_path);
    return true;
}

const char *aws_cluster_next_step(const struct context *s, const char *problem) {
    struct aws_refusal refusal = aws_refusal_of(s->arena, problem);
    bool may_not =
        refusal.kind == AWS_REFUSAL_CREDENTIALS || refusal.kind == AWS_REFUSAL_PERMISSION;
    return may_not ? refusal.next : "";
}
