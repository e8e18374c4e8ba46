// SPDX-License-Identifier: Apache-2.0
// Reads records from nodes and makes a cluster's folder of them.
#include "aws/aws_adopt.h"

#include "base/log.h"
#include "cluster/nodeset.h"
#include "conf/toml.h"
#include "fleet/fleet.h"
#include "provider/cluster_backup.h"
#include "sys/file.h"
#include "terraform/terraform.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct adopt {
    struct context *context;
    unsigned char key[AES_GCM_KEY_BYTES];
    const char *key_path;
    struct nodeset_login login; // of the node on the command line
    struct provider_adopted *out;
};

// ---- records on nodes ---------------------------------------------------------------------------

struct gather {
    struct fleet_node *node;
    struct strbuf text;
};

static void on_text(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    strbuf_add(&((struct gather *)ctx)->text, p, len);
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct gather *g = ctx;
    struct err e = {0};
    (void)r;
    if (end->how == TRANSPORT_LOST)
        e = *end->err;
    else if (g->text.overflow)
        err_set(&e, ERR_LIMIT, "its records are longer than %d bytes", ADOPT_BYTES_MAX);
    fleet_done(g->node, &e);
}

static int start_gather(struct fleet_node *n, struct err *e) {
    static const struct transport_run_events events = {.on_output = on_text, .on_end = on_end};
    const char *root = transport_path_word(n->fleet->context->arena, n->info->root);
    // Missing files are not an error.
    struct transport_command c = {
        .line = arena_printf(n->fleet->context->arena,
                             "cat %s/record %s/runs/*/record 2>/dev/null; true", root, root)};
    return transport_run(n->link, &c, &events, n->work, e) ? 0 : -1;
}

// Reads the records of every node of the fleet; texts has one entry per node, freed by the caller.
static int gather(struct fleet *f, struct gather *texts, struct err *e) {
    if (fleet_connect(f, false, e) < 0)
        return -1;
    for (size_t i = 0; i < f->count; i++) {
        texts[i].node = &f->nodes[i];
        strbuf_init(&texts[i].text, ADOPT_BYTES_MAX);
        f->nodes[i].work = &texts[i];
    }
    return fleet_each(f, NULL, start_gather, e);
}

// Returns the next line without its newline; false at the end.
static bool next_line(const char **at, const char *end, const char **line, size_t *len) {
    if (*at >= end)
        return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *line = *at;
    *len = (size_t)((stop ? stop : end) - *at);
    *at = stop ? stop + 1 : end;
    return true;
}

// ---- the cluster --------------------------------------------------------------------------------

static int write_file(struct adopt *a, const struct toml *record, const char *name, struct err *e) {
    struct context *s = a->context;
    for (const struct toml *f = toml_first(record, "file"); f; f = f->next) {
        const struct toml *text = toml_get(f, "text");
        if (!str_eq(toml_get_str(f, "path", ""), name) || !text || text->type != TOML_STRING)
            continue;
        const char *path = file_join(s->arena, s->cluster.dir, name);
        return file_make_dirs(file_dir(s->arena, path), 0700, e) < 0
                   ? -1
                   : file_write_atomic(path, text->str, text->len, 0600, e);
    }
    return 0;
}

static int write_key(struct adopt *a, struct err *e) {
    struct cluster *c = &a->context->cluster;
    char *text;
    size_t len;
    if (file_read(a->context->arena, a->key_path, RECORD_KEY_FILE_BYTES_MAX, &text, &len, e) < 0)
        return -1;
    int result = file_write_atomic(c->key_path, text, len, 0600, e);
    memset(text, 0, len);
    return result;
}

static int write_cluster(struct adopt *a, char *text, size_t len, struct err *e) {
    struct context *s = a->context;
    struct toml *record;
    const char *name;
    if (toml_parse(s->arena, "record", text, len, &record, e) < 0 ||
        toml_need_str(record, "cluster", &name, e) < 0)
        return -1;
    if (strcmp(name, s->cluster.name) != 0)
        return err_set(e, ERR_CONFIG, "it is of cluster '%.80s', not '%s'; say -c %.80s", name,
                       s->cluster.name, name);
    if (write_key(a, e) < 0)
        return -1;
    for (size_t i = 0; record_files[i]; i++)
        if (write_file(a, record, record_files[i], e) < 0)
            return -1;
    return 0;
}

static int open_cluster(struct adopt *a, const char *node, const struct strbuf *from,
                        struct err *e) {
    const char *at = strbuf_cstr(from), *end = at + from->len, *line;
    size_t len, text_len;
    char *text;
    while (next_line(&at, end, &line, &len)) {
        if (cluster_backup_kind_of(line, len) != RECORD_CLUSTER)
            continue;
        if (cluster_backup_open(a->context->arena, a->key, RECORD_CLUSTER, line, len, &text,
                                &text_len, e) < 0)
            return err_wrap(e, "the record on node %s cannot be opened with '%s'", node,
                            a->key_path);
        return write_cluster(a, text, text_len, e) < 0 ? err_wrap(e, "the record on node %s", node)
                                                       : 0;
    }
    return err_set(e, ERR_NOT_FOUND,
                   "node %s has no record of a cluster; dtctl up leaves one on the first %d nodes "
                   "that it makes on AWS",
                   node, RECORD_NODES_MAX);
}

static int parse_login(struct adopt *a, const char *text, struct err *e) {
    struct nodeset set;
    if (nodeset_parse(a->context->arena, text, &set, e) < 0)
        return -1;
    if (set.count != 1)
        return err_set(e, ERR_USAGE, "'%s' are %zu nodes; one is enough", text, set.count);
    a->login = set.logins[0];
    return 0;
}

// Contacts the named node. Its host key is accepted for this one contact.
static int first_contact(struct adopt *a, struct err *e) {
    struct context *s = a->context;
    struct gather g = {0};
    struct fleet f;
    struct inventory_node node = {
        .name = a->login.host,
        .transport = INVENTORY_SSH,
        .user = a->login.user,
        .host = a->login.host,
        .port = a->login.port,
        .root = ".dtctl",
    };
    struct inventory one = {.name = s->cluster.name, .nodes = &node, .count = 1};
    const char *known_hosts = file_join(s->arena, s->cluster.dir, "known_hosts.first");
    fleet_open(&f, s, &one, NULL, 0);
    f.env.identity_path = a->key_path;
    f.env.known_hosts_path = known_hosts;
    f.env.accept_host_keys = true;
    int result = gather(&f, &g, e);
    if (result == 0 && f.nodes[0].failed) {
        *e = f.nodes[0].err;
        result = -1;
    }
    if (result == 0)
        result = open_cluster(a, node.name, &g.text, e);
    unlink(known_hosts);
    strbuf_fini(&g.text);
    fleet_close(&f);
    return result;
}

// ---- its runs -----------------------------------------------------------------------------------

static int keep_run(struct adopt *a, const char *line, size_t len, struct err *e) {
    struct context *s = a->context;
    struct run r;
    size_t text_len;
    char *text;
    if (cluster_backup_open(s->arena, a->key, RECORD_RUN, line, len, &text, &text_len, e) < 0 ||
        run_parse(s->arena, text, text_len, "record", &r, e) < 0)
        return -1;
    if (!str_is_name(r.id, CLUSTER_RUN_NAME_BYTES_MAX))
        return err_set(e, ERR_FORMAT, "'%.80s' is no name of a run", r.id);
    if (file_exists(cluster_run_dir(&s->cluster, r.id)))
        return 0; // the copy of another node
    // The nodes know the current state of the run; the other computer's folders are not available
    // here.
    r.state = "started";
    r.fetched = false;
    r.output_dir = run_path(&s->cluster, &r, "output");
    a->out->runs++;
    return run_save(&s->cluster, &r, e);
}

static void keep_runs(struct adopt *a, const struct gather *g) {
    const char *at = strbuf_cstr(&g->text), *end = at + g->text.len, *line;
    size_t len;
    while (next_line(&at, end, &line, &len)) {
        struct err e = {0};
        if (cluster_backup_kind_of(line, len) == RECORD_RUN && keep_run(a, line, len, &e) < 0)
            log_warn("cannot use the record of a run", "node=%s reason=\"%s\"", g->node->info->name,
                     e.text);
    }
}

static int check_named(const struct adopt *a, struct err *e) {
    const struct inventory *inv = &a->out->inventory;
    for (size_t i = 0; i < inv->count; i++)
        if (str_eq(inv->nodes[i].host, a->login.host) ||
            str_eq(inv->nodes[i].address, a->login.host))
            return 0;
    return err_set(e, ERR_NOT_FOUND, "cluster '%s' of this folder has no node at %s",
                   a->context->cluster.name, a->login.host);
}

// Contacts every node by the host key in the record.
static int second_contact(struct adopt *a, struct err *e) {
    struct inventory *inv = &a->out->inventory;
    struct gather *texts;
    struct fleet f;
    if (cluster_load(&a->context->cluster, inv, e) < 0 || (a->out->again && check_named(a, e) < 0))
        return -1;
    texts = arena_new(a->context->arena, struct gather, inv->count + 1);
    fleet_open(&f, a->context, inv, NULL, 0);
    int result = gather(&f, texts, e);
    for (size_t i = 0; i < f.count; i++) {
        if (result == 0 && !f.nodes[i].failed)
            keep_runs(a, &texts[i]);
        strbuf_fini(&texts[i].text);
    }
    fleet_report(&f);
    if (result == 0)
        result = fleet_verdict(&f, "adopt", e);
    fleet_close(&f);
    return result;
}

// After an interrupt or with a broken record the cluster can be adopted again, with its runs.
static void forget(struct adopt *a) {
    struct context *s = a->context;
    for (size_t i = 0; record_files[i]; i++)
        unlink(file_join(s->arena, s->cluster.dir, record_files[i]));
}

// A cluster that is here, and has this login key.
static bool is_here(struct adopt *a) {
    struct context *s = a->context;
    char *given, *own;
    size_t given_len, own_len;
    struct err e;
    if (!cluster_exists(&s->cluster) ||
        file_read(s->arena, s->cluster.key_path, RECORD_KEY_FILE_BYTES_MAX, &own, &own_len, &e) < 0)
        return false;
    bool same =
        file_read(s->arena, a->key_path, RECORD_KEY_FILE_BYTES_MAX, &given, &given_len, &e) == 0;
    if (same) {
        same = given_len == own_len && memcmp(given, own, own_len) == 0;
        memset(given, 0, given_len);
    }
    memset(own, 0, own_len);
    return same;
}

int aws_adopt_cluster(struct context *s, const char *login, const char *key_path,
                      struct provider_adopted *out, struct err *e) {
    struct adopt a = {.context = s, .key_path = key_path, .out = out};
    *out = (struct provider_adopted){0};
    out->again = is_here(&a);
    if (!out->again && (cluster_exists(&s->cluster) || terraform_was_used(s)))
        return err_set(e, ERR_EXISTS,
                       "cluster '%s' is known in this folder already ('%s'); nothing was changed",
                       s->cluster.name, s->cluster.dir);
    if (cluster_backup_key(s->arena, key_path, a.key, e) < 0 ||
        cluster_lock(&s->cluster, "adopt", CLUSTER_LOCK_WAIT_MS_MAX, e) < 0)
        return -1;
    int result = parse_login(&a, login, e);
    if (result == 0 && !out->again)
        result = first_contact(&a, e);
    if (result == 0) {
        result = second_contact(&a, e);
        if (result < 0 && e->code != ERR_SOME_FAILED) {
            if (!out->again)
                forget(&a);
            out->inventory.count = 0;
        }
    }
    memset(a.key, 0, sizeof a.key);
    return result;
}
