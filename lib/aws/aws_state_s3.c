// SPDX-License-Identifier: Apache-2.0
// Shared clusters: every folder with the same aws.state (S3) sees the cluster. The outputs of the
// state carry the data between folders: `variables` (earlier choices, as in terraform.tfvars.json)
// and `inventory`. The login key is not in the state; users pass it on themselves.
#include "aws/aws_cluster.h"
#include "aws/aws_errors.h"
#include "aws/aws_tfvars.h"
#include "base/clock.h"
#include "base/log.h"
#include "remote/ssh_key.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

struct shared {
    struct context *context;
    struct terraform terraform;
    struct terraform_state state;
    struct aws_vars vars, here; // here: the variables in this folder; nodes 0: none
};

bool aws_shared(const struct context *s) {
    return s->config->aws.state[0] != 0;
}

static const char *output_text(const struct shared *h, const char *name, size_t *len) {
    const struct json *text = terraform_line_output(h->state.outputs, name);
    if (!text || text->type != JSON_STR)
        return NULL;
    *len = text->len;
    return text->str;
}

// ---- the variables ------------------------------------------------------------------------------

static bool same_vars(const struct aws_config *aws, const struct aws_vars *one,
                      const struct aws_vars *other) {
    struct strbuf a = {0}, b = {0};
    aws_vars_write(&a, aws, one);
    aws_vars_write(&b, aws, other);
    bool same = strcmp(strbuf_cstr(&a), strbuf_cstr(&b)) == 0;
    strbuf_fini(&a);
    strbuf_fini(&b);
    return same;
}

static int read_here(struct shared *h, struct err *e) {
    struct context *s = h->context;
    const char *path = h->terraform.vars_path;
    char *text;
    size_t len;
    if (file_is_absent(path))
        return 0;
    if (file_read(s->arena, path, TERRAFORM_VARS_BYTES_MAX, &text, &len, e) < 0 ||
        aws_vars_read(s->arena, text, len, &h->here, e) < 0)
        return err_wrap(e, "'%s'", path);
    return 0;
}

// The key that this folder generated for the node's first login; NULL: another folder generated it.
static const struct aws_vars_key *made_here(const struct shared *h, const char *name) {
    const struct aws_vars *here = &h->here, *vars = &h->vars;
    for (size_t i = 0; here->keys && vars->keys && i < here->nodes && i < vars->nodes; i++)
        if (str_eq(here->names[i], name))
            return here->keys[i].public_key[0] &&
                           str_eq(here->keys[i].public_key, vars->keys[i].public_key)
                       ? &here->keys[i]
                       : NULL;
    return NULL;
}

static int take_vars(struct shared *h, struct err *e) {
    struct context *s = h->context;
    const char *path = h->terraform.vars_path;
    struct strbuf out = {0};
    // The state has public keys only. The folder that made a node keeps the private key and
    // performs the first login.
    for (size_t i = 0; h->vars.keys && i < h->vars.nodes; i++) {
        const struct aws_vars_key *key = made_here(h, h->vars.names[i]);
        h->vars.keys[i] = key ? *key : (struct aws_vars_key){"", ""};
    }
    if (h->here.nodes && same_vars(&s->config->aws, &h->here, &h->vars))
        return 0;
    aws_vars_write(&out, &s->config->aws, &h->vars);
    int result = file_write_atomic(path, strbuf_cstr(&out), out.len, 0600, e);
    strbuf_fini(&out);
    return result;
}

// ---- the login key ------------------------------------------------------------------------------

// Only the private key has to be copied.
static int check_key(struct shared *h, struct err *e) {
    struct context *s = h->context;
    const char *path = s->cluster.key_path, *key = NULL;
    if (file_is_absent(path))
        return err_set(e, ERR_NOT_FOUND,
                       "cluster %s was made from another folder, and its login key is not here; "
                       "copy id_ed25519 and known_hosts from there to %s",
                       s->cluster.name, s->cluster.dir);
    if (ssh_key_file(s->arena, path, aws_cluster_key_name(s), &key, e) < 0)
        return -1;
    if (aws_cluster_same_key(h->vars.ssh_public_key, key))
        return 0;
    return err_set(e, ERR_CONFIG,
                   "'%s' is not the login key of cluster %s; copy id_ed25519 from the folder that "
                   "made the cluster, and remove '%s.pub'",
                   path, s->cluster.name, path);
}

// ---- the nodes ----------------------------------------------------------------------------------

// Nodes made from another folder are trusted by the known_hosts of that folder.
static int check_host_keys(struct shared *h, const struct inventory *inv, struct err *e) {
    struct context *s = h->context;
    for (size_t i = 0; i < inv->count && !s->config->ssh.accept_host_keys; i++) {
        const struct inventory_node *n = &inv->nodes[i];
        if ((!n->host_key || !n->host_key[0]) && !made_here(h, n->name))
            return err_set(e, ERR_HOSTKEY,
                           "node %s was made from another folder, and its host key is not known "
                           "here; copy known_hosts from there to %s when its up has ended, or say "
                           "--accept-host-keys",
                           n->name, s->cluster.dir);
    }
    return 0;
}

static int take_nodes(struct shared *h, bool needs_key, struct err *e) {
    struct context *s = h->context;
    struct inventory before = {0}, now;
    char launched[CLOCK_ISO_BYTES];
    size_t len;
    const char *text = output_text(h, "inventory", &len);
    bool known = cluster_exists(&s->cluster);
    if (!text) // an `up` was interrupted before its first output
        return 0;
    if ((known && cluster_load(&s->cluster, &before, e) < 0) ||
        inventory_parse(s->arena, text, len, "the inventory in the state", &now, e) < 0)
        return -1;
    // The lease starts when the nodes are made.
    int64_t made_ms = clock_of_iso(h->vars.expires) - h->vars.ttl_s * 1000;
    if (h->vars.ttl_s == 0 || made_ms < 0 || made_ms > clock_wall_ms())
        made_ms = clock_wall_ms();
    aws_cluster_remember(s, &before, clock_iso(launched, made_ms), &now);
    if (aws_ssh_known_keys(s, &now, e) < 0 || (needs_key && check_host_keys(h, &now, e) < 0))
        return -1;
    if (!known)
        screen_note(s->screen, "cluster %s is now as recorded in %s", s->cluster.name,
                    s->config->aws.state);
    return cluster_save(&s->cluster, &now, e);
}

// The cluster was taken down from another folder. After a killed command the local folder knows
// more.
static int forget(struct shared *h, struct err *e) {
    struct context *s = h->context;
    if (h->state.managed_count || terraform_is_unclean(&h->terraform))
        return 0;
    unlink(h->terraform.vars_path);
    unlink(config_kept_path(s->config));
    aws_lease_forget(s);
    if (!cluster_exists(&s->cluster))
        return 0;
    screen_note(s->screen, "cluster %s was taken down from another folder", s->cluster.name);
    return aws_ssh_remove(s, e) < 0 ? -1 : cluster_forget(&s->cluster, e);
}

static int find(struct context *s, bool needs_key, struct err *e) {
    struct shared *h = arena_new(s->arena, struct shared, 1);
    const char *region = NULL, *text;
    size_t len;
    *h = (struct shared){.context = s};
    if (aws_cluster_region(s, &region, e) < 0 ||
        terraform_open(&h->terraform, s, &aws_terraform, region, e) < 0 ||
        terraform_state(&h->terraform, "infra", &h->state, e) < 0)
        return -1;
    text = output_text(h, "variables", &len);
    if (!text)
        return forget(h, e);
    if (aws_vars_read(s->arena, text, len, &h->vars, e) < 0)
        return err_wrap(e, "the variables in the state");
    if ((needs_key && check_key(h, e) < 0) || read_here(h, e) < 0 ||
        take_nodes(h, needs_key, e) < 0)
        return -1;
    return take_vars(h, e);
}

int aws_shared_find(struct context *s, bool needs_key, struct err *e) {
    if (!aws_shared(s))
        return 0;
    bool locked_here = s->cluster.lock_fd < 0;
    if (cluster_lock(&s->cluster, "look", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0)
        return -1;
    int result = find(s, needs_key, e);
    if (locked_here)
        cluster_unlock(&s->cluster);
    return result;
}

// ---- other commands -----------------------------------------------------------------------------

int aws_shared_alone(struct aws_cluster *c, struct terraform_lock *left, struct err *e) {
    struct terraform *t = &c->terraform;
    *left = (struct terraform_lock){.id = ""};
    if (!aws_shared(c->context))
        return 0;
    if (terraform_locked(t, "infra", left, e) < 0)
        return -1;
    if (!left->id[0] || terraform_lock_is_left(t, left))
        return 0;
    return err_set(e, ERR_BUSY,
                   "another user works on this cluster, and new resources may be in no state yet: "
                   "%s; %s",
                   terraform_lock_words(t, left), terraform_lock_remedy(t, left));
}

// ---- the bucket ---------------------------------------------------------------------------------
//
// Configures Terraform's backend and explains errors with the bucket of aws.state.

// Joins a message that Terraform has wrapped into lines with a frame.
static const char *one_line(struct arena *a, const char *words) {
    static const char frame[] = "\u2502";
    struct strbuf text = {0};
    for (const char *p = words; *p;) {
        size_t gap = strspn(p, " \t\r\n");
        if (str_starts(p + gap, frame))
            gap += sizeof frame - 1;
        if (gap == 0)
            strbuf_addc(&text, *p++);
        else if (text.len && p[gap] && text.data[text.len - 1] != ' ')
            strbuf_addc(&text, ' ');
        p += gap;
    }
    const char *line = arena_strdup(a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return line;
}

// Calls whose names in policies differ.
static const char *in_policy(const char *action) {
    static const char *const names[][2] = {{"s3:HeadObject", "s3:GetObject"},
                                           {"s3:HeadBucket", "s3:ListBucket"},
                                           {"s3:ListObjectsV2", "s3:ListBucket"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(action, names[i][0]) == 0)
            return names[i][1];
    return action;
}

static bool explain(const struct context *s, const char *words, struct err *e) {
    const char *state = s->config->aws.state, *bucket = NULL, *folder = NULL;
    if (!state[0])
        return false;
    aws_vars_split_s3(s->arena, state, &bucket, &folder);
    static const char mark[] = "Error: "; // after lines about the progress of init
    const char *from = strstr(words, mark), *where = config_where(s->config, "aws.state");
    const char *line = one_line(s->arena, from ? from + sizeof mark - 1 : words);
    struct aws_refusal r = aws_refusal_of(s->arena, line);
    if (strstr(line, "bucket") && strstr(line, "does not exist"))
        err_set(e, ERR_CONFIG,
                "%s: there is no bucket '%s'; make it, with versioning, or name another", where,
                bucket);
    else if (r.kind == AWS_REFUSAL_CREDENTIALS)
        err_set(e, ERR_AUTH, "%s: bucket '%s' may not be used (%s); %s", where, bucket,
                r.code[0] ? r.code : r.words, r.next);
    else if (r.kind == AWS_REFUSAL_PERMISSION)
        err_set(e, ERR_AUTH,
                "%s: bucket '%s' may not be used (%s%s%s); dtctl needs s3:ListBucket of it, and "
                "s3:GetObject, s3:PutObject and s3:DeleteObject of what is in '%s%s%s/'",
                where, bucket, r.code, r.action[0] ? ": " : "", in_policy(r.action), folder,
                *folder ? "/" : "", s->cluster.name);
    else
        return false;
    return true;
}

static void backend(struct strbuf *out, const struct context *s, const char *region,
                    const char *path) {
    static const struct aws_config local = {.state = ""};
    aws_vars_backend(out, region ? &s->config->aws : &local, region ? region : "", s->cluster.name,
                     path);
}

static struct terraform_settings settings(const struct config *c) {
    return (struct terraform_settings){
        .program = c->aws.terraform, .profile = c->aws.profile, .in_s3 = c->aws.state[0] != '\0'};
}

const struct terraform_cloud aws_terraform = {.settings = settings,
                                              .backend = backend,
                                              .explain = explain,
                                              .refused = aws_cluster_refused,
                                              .next_step = aws_cluster_next_step};
