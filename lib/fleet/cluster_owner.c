// SPDX-License-Identifier: Apache-2.0
// Marks the root folder and the runs on nodes with the id of their cluster.
#include "fleet/cluster_owner.h"

#include "base/hash.h"
#include "cluster/run_record.h"
#include "sys/file.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ID_BYTES = 16, ID_TEXT_BYTES_MAX = 64, HOST_BYTES_MAX = 256 };

static int make_id(struct context *s, const char *path, const char **id, struct err *e) {
    unsigned char bytes[ID_BYTES];
    char text[ID_BYTES * 2 + 2];
    hash_random(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + i * 2, 3, "%02x", bytes[i]);
    *id = arena_strdup(s->arena, text);
    text[ID_BYTES * 2] = '\n';
    return cluster_create(&s->cluster, e) < 0 ||
                   file_write_atomic(path, text, ID_BYTES * 2 + 1, 0600, e) < 0
               ? -1
               : 0;
}

int cluster_owner_id(struct context *s, const char **id, struct err *e) {
    const char *path = file_join(s->arena, s->cluster.dir, "owner");
    char *text = NULL;
    size_t len = 0;
    if (file_read(s->arena, path, ID_TEXT_BYTES_MAX, &text, &len, e) < 0) {
        if (e->code != ERR_NOT_FOUND)
            return -1;
        err_clear(e);
        return make_id(s, path, id, e);
    }
    text[strcspn(text, "\n")] = 0;
    if (!str_is_name(text, ID_TEXT_BYTES_MAX))
        return err_set(e, ERR_FORMAT, "'%s' holds no id of a cluster", path);
    *id = text;
    return 0;
}

const char *cluster_owner_description(struct context *s) {
    const struct passwd *pw = getpwuid(getuid());
    char host[HOST_BYTES_MAX] = "";
    if (gethostname(host, sizeof host - 1) < 0)
        host[0] = 0;
    const char *words = arena_printf(s->arena, "cluster '%s' in %s@%s:%s", s->cluster.name,
                                     pw ? pw->pw_name : "?", host[0] ? host : "?", s->cluster.base);
    return str_printable(s->arena, words, strlen(words));
}

struct mark {
    const char *rest;
};

static void on_marked(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct err e = {0};
    fleet_answer(r, &e);
    fleet_done(n, &e);
}

static int start_mark(struct fleet_node *n, struct err *e) {
    const struct mark *m = n->work;
    return transport_collect(n->link, fleet_line(n, NODE_VERB_OWN, m->rest), NULL, 0, on_marked, n,
                             e);
}

int cluster_owner_mark(struct fleet *f, struct err *e) {
    struct context *s = f->context;
    const char *id = NULL;
    if (cluster_owner_id(s, &id, e) < 0)
        return -1;
    struct mark m = {arena_printf(s->arena, "--owner %s --text %s", id,
                                  str_shell_quote(s->arena, cluster_owner_description(s)))};
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = &m;
    int result = fleet_each(f, NULL, start_mark, e);
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = NULL;
    return result;
}

int cluster_owner_add_run(struct context *s, const struct run *r, struct manifest *m,
                          struct err *e) {
    const char *id = NULL;
    if (cluster_owner_id(s, &id, e) < 0)
        return -1;
    const char *line = arena_printf(s->arena, "%s\n", id);
    // The node may have lost what `up` wrote there, and without the mark the run has no owner.
    const char *words = arena_printf(s->arena, "%s\n", cluster_owner_description(s));
    if (manifest_add_bytes(m, file_join(s->arena, "owners", id), words, strlen(words), 0644, e) < 0)
        return -1;
    return manifest_add_bytes(m, run_node_dir(s->arena, r->id, "owner"), line, strlen(line), 0600,
                              e);
}
