// SPDX-License-Identifier: Apache-2.0
// Lists of the files of inputs, and runs that get the content of such a list.
#include "run/inputs/input_keep.h"

#include "content/generation.h"
#include "run/inputs/input_fanout.h"
#include "run/inputs/input_give.h"
#include "run/inputs/input_lists.h"
#include "run/inputs/input_record.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- lists --------------------------------------------------------------------------------------

static const char *list_path(const struct run_start *l, const char *run, const char *name) {
    const struct cluster *c = &l->context->cluster;
    return file_join(c->arena, file_join(c->arena, cluster_run_dir(c, run), "inputs"), name);
}

// The newest run of the task with a list of the input, and the input's record. 0: there is none.
static int find_before(struct run_start *l, const char *name, struct run *r,
                       const struct json **record, struct err *e) {
    struct run_walk walk;
    if (run_walk_open(&walk, &l->context->cluster, e) < 0)
        return -1;
    while (run_walk_next(&walk, r))
        if (strcmp(r->name, l->run.name) == 0 && strcmp(r->id, l->run.id) != 0 &&
            file_exists(list_path(l, r->id, name)) &&
            (*record = input_record_before(l, r, name)) != NULL)
            return 1;
    return 0;
}

// Takes over the hashes of objects that nodes have read. known: by entry of m.
static void learn(struct manifest *m, bool *known, const struct manifest *from, const char *below) {
    size_t len = strlen(below);
    for (size_t i = 0; from && i < from->count; i++) {
        const char *path = from->entries[i].path;
        if (strncmp(path, below, len) != 0 || path[len] != '/')
            continue;
        size_t at = manifest_lower_bound(m, path + len + 1);
        if (at == m->count || strcmp(m->entries[at].path, path + len + 1) != 0)
            continue;
        memcpy(m->entries[at].hash, from->entries[i].hash, HASH_BYTES);
        known[at] = true;
    }
}

// The input as it is on the nodes. Objects that no node was to have (uneven = drop) are left out.
static struct manifest *delivered(struct run_start *l, const struct run_start_input *in,
                                  struct err *e) {
    struct arena a = {0};
    struct manifest *all = manifest_new(), *out = manifest_new();
    const char *below = input_lists_folder(&a, in);
    bool learns = in->remote && !in->elastic; // input_elastic.c has the hashes of its own
    bool *known = arena_new(&a, bool, in->manifest->count);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < in->manifest->count; i++)
        rc = manifest_append(all, &in->manifest->entries[i], e);
    if (rc == 0)
        rc = manifest_sort(all, e);
    for (size_t n = 0; rc == 0 && learns && n < l->node_count; n++)
        learn(all, known, l->remote ? l->remote[n].files : NULL, below);
    if (rc == 0 && learns)
        learn(all, known, input_fanout_files(l), below);
    for (size_t i = 0; rc == 0 && i < all->count; i++)
        if (!learns || known[i] || all->entries[i].kind != MANIFEST_FILE)
            rc = manifest_append(out, &all->entries[i], e);
    if (rc == 0)
        rc = manifest_sort(out, e);
    manifest_free(all);
    arena_fini(&a);
    if (rc == 0)
        return out;
    manifest_free(out);
    return NULL;
}

static bool fits(const struct run_start_input *in) {
    return !config_input_is_streamed(in->config) && in->config->unit == CONFIG_UNIT_FILE &&
           in->manifest->count <= GENERATION_FILES_MAX &&
           in->manifest->names_bytes <= GENERATION_LIST_BYTES_MAX / 2;
}

// Runs with the same content share a file.
static int save(struct run_start *l, struct run_start_input *in, struct err *e) {
    const char *path = list_path(l, l->run.id, in->name);
    if (in->same_as && !in->remote && link(list_path(l, in->same_as, in->name), path) == 0)
        return 0;
    struct manifest *m = delivered(l, in, e);
    if (!m)
        return -1;
    struct strbuf list = {0};
    generation_encode(m, &list);
    int rc = list.len > GENERATION_LIST_BYTES_MAX
                 ? 0
                 : file_write_atomic(path, strbuf_cstr(&list), list.len, 0600, e);
    strbuf_fini(&list);
    manifest_free(m);
    return rc;
}

int input_keep_save(struct run_start *l, struct err *e) {
    for (size_t i = 0; i < l->input_count; i++) {
        if (!fits(&l->inputs[i]))
            continue;
        if (file_make_dirs(run_path(&l->context->cluster, &l->run, "inputs"), 0700, e) < 0 ||
            save(l, &l->inputs[i], e) < 0)
            return err_wrap(e, "the list of input '%s'", l->inputs[i].name);
    }
    return 0;
}

// ---- the earlier content ------------------------------------------------------------------------

static int by_hash(const void *x, const void *y) {
    const struct manifest_entry *const *a = x, *const *b = y;
    return memcmp((*a)->hash, (*b)->hash, HASH_BYTES);
}

// Files that are still here get their paths, all others none.
static void find_sources(struct arena *a, struct manifest *old, const struct manifest *now) {
    const struct manifest_entry **here =
        arena_new(a, const struct manifest_entry *, now->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < now->count; i++)
        if (now->entries[i].kind == MANIFEST_FILE)
            here[count++] = &now->entries[i];
    qsort(here, count, sizeof *here, by_hash);
    for (size_t i = 0; i < old->count; i++) {
        const struct manifest_entry *key = &old->entries[i], **found;
        if (key->kind != MANIFEST_FILE)
            continue;
        found = count ? bsearch(&key, here, count, sizeof *here, by_hash) : NULL;
        old->entries[i].source = found ? arena_strdup(&old->arena, (*found)->source) : NULL;
    }
}

static int read_list(struct run_start *l, const struct run_start_input *in, const struct run *r,
                     struct manifest **out, struct err *e) {
    const char *path = list_path(l, r->id, in->name);
    struct arena a = {0};
    char *text;
    size_t len;
    int rc = file_read(&a, path, GENERATION_LIST_BYTES_MAX, &text, &len, e);
    if (rc == 0 && generation_decode(text, len, out, e) < 0)
        rc = err_wrap(e, "'%s'", path);
    arena_fini(&a);
    return rc;
}

int input_keep_take(struct run_start *l, struct run_start_input *in, bool folder, struct err *e) {
    const struct json *record;
    struct manifest *old = NULL;
    struct run r;
    char hex[HASH_HEX_BYTES];
    if (in->config->on_change != CONFIG_CHANGE_KEEP)
        return 0;
    int found = find_before(l, in->name, &r, &record, e);
    if (found <= 0)
        return found;
    const char *digest = json_get_str(record, "digest", "");
    hash_hex(hex, in->digest);
    if (!str_eq(json_get_str(record, "source", ""), in->config->source) || !hash_is_hex(digest) ||
        str_eq(digest, hex))
        return 0;
    if (json_get_bool(record, "folder", folder) != folder)
        return err_set(e, ERR_CONFIG,
                       "'%s' is a %s now and was a %s in run '%s', and on_change = keep (try: "
                       "--set inputs.%s.on_change=resend)",
                       in->config->source, folder ? "folder" : "file", folder ? "file" : "folder",
                       r.id, in->name);
    if (read_list(l, in, &r, &old, e) < 0)
        return -1;
    must(old);
    if (!in->remote)
        find_sources(l->context->arena, old, in->manifest);
    manifest_free(in->manifest);
    in->manifest = old;
    in->remote = NULL;
    in->changed_since = in->kept = r.id;
    return str_unhex(in->digest, HASH_BYTES, digest, e) < 0 ? -1 : 1;
}

// ---- sending ------------------------------------------------------------------------------------

struct input_keep {
    struct manifest *common;  // what every node gets
    struct manifest **shards; // by node
    size_t nodes;
};

static struct input_keep *keep_of(struct run_start *l) {
    if (l->keep)
        return l->keep;
    l->keep = arena_new(l->context->arena, struct input_keep, 1);
    l->keep->nodes = l->node_count;
    l->keep->common = manifest_new();
    l->keep->shards = arena_new(l->context->arena, struct manifest *, l->node_count + 1);
    for (size_t n = 0; n < l->node_count; n++)
        l->keep->shards[n] = manifest_new();
    return l->keep;
}

struct manifest *input_keep_shard(struct run_start *l, size_t node) {
    return keep_of(l)->shards[node];
}

struct manifest *input_keep_common(struct run_start *l) {
    return keep_of(l)->common;
}

// The input that a path on the nodes belongs to.
static const struct run_start_input *input_of(const struct run_start *l, const char *path) {
    for (size_t i = 0; i < l->input_count; i++) {
        const struct run_start_input *in = &l->inputs[i];
        size_t len = strlen(in->path);
        if (in->kept && str_starts(path, in->path) && (path[len] == '/' || !path[len]))
            return in;
    }
    return NULL;
}

// True when the node lacks files that all are here. A file that is on no node fails the node.
static bool wants_rest(struct run_start *l, struct fleet_node *n, const struct manifest *m,
                       const bool *lacks) {
    const struct manifest_entry *first = NULL;
    size_t missing = 0;
    bool any = false;
    for (size_t i = 0; i < m->count; i++) {
        any |= lacks[i];
        if (!lacks[i] || m->entries[i].source)
            continue;
        first = first ? first : &m->entries[i];
        missing++;
    }
    if (!first || n->failed)
        return any && !n->failed;
    const struct run_start_input *in = input_of(l, first->path);
    struct err e;
    err_set(&e, ERR_NOT_FOUND,
            "input '%s' is kept as run '%s' had it, and %zu of its files are neither on this node "
            "nor here, '%s' the first (try: --set inputs.%s.on_change=resend)",
            in ? in->name : "", in ? in->kept : "", missing, file_base(first->path),
            in ? in->name : "NAME");
    fleet_fail(n, &e);
    return false;
}

void input_keep_add_results(struct run_start *l, const char *on_nodes) {
    struct arena *a = l->context->arena;
    size_t count = 0;
    while (l->results && l->results[count])
        if (str_eq(l->results[count++], on_nodes))
            return;
    const char **more = arena_new(a, const char *, count + 2);
    for (size_t i = 0; i < count; i++)
        more[i] = l->results[i];
    more[count] = on_nodes;
    l->results = more;
}

static struct xfer_peers *make_peers(struct arena *a, const struct fleet *f,
                                     struct manifest *const *all) {
    struct xfer_peers *peers = arena_new(a, struct xfer_peers, f->count + 1);
    for (size_t n = 0; n < f->count; n++)
        peers[n].lacks = arena_new(a, bool, all[n] ? all[n]->count + 1 : 1);
    return peers;
}

int input_keep_find(struct run_start *l, struct fleet *f, struct manifest *const *all,
                    struct xfer_peers **peers, struct err *e) {
    *peers = make_peers(l->context->arena, f, all);
    return fleet_find_manifests(f, "find", all, "", l->results, *peers, &l->sent, e);
}

// True when a node lacks some of what another one has.
static bool can_give(const struct fleet *f, size_t entries, const struct xfer_peers *peers) {
    const bool *first = NULL;
    for (size_t n = 0; n < f->count; n++) {
        if (f->nodes[n].failed)
            continue;
        if (first && memcmp(first, peers[n].lacks, entries * sizeof *first) != 0)
            return true;
        first = peers[n].lacks;
    }
    return false;
}

// Every node gets m. Content of a kept input may be on nodes alone, which then have to give it.
static int share(struct run_start *l, struct fleet *f, struct manifest *const *all,
                 struct xfer_peers **peers, struct err *e) {
    bool kept = false;
    for (size_t i = 0; i < l->input_count; i++)
        kept |= l->inputs[i].kept != NULL;
    if (l->results && input_keep_find(l, f, all, peers, e) < 0)
        return -1;
    bool may = kept || fleet_can_share(f);
    if (l->results && (!may || !can_give(f, all[0]->count, *peers)))
        return 0;
    *peers = make_peers(l->context->arena, f, all);
    return fleet_share_manifest(f, "keep", all[0], "", *peers, &l->sent, e);
}

// all: by node, its files. same: every node gets the same ones.
static int send(struct run_start *l, struct fleet *f, struct manifest **all, bool same,
                struct err *e) {
    struct xfer_peers *peers = NULL;
    bool any = false;
    int rc = 0;
    for (size_t n = 0; rc == 0 && n < f->count; n++)
        rc = manifest_sort(all[n], e);
    if (rc == 0)
        rc = same ? share(l, f, all, &peers, e) : input_keep_find(l, f, all, &peers, e);
    if (rc == 0 && !same)
        rc = input_give_shares(l, f, all, peers, e);
    for (size_t n = 0; rc == 0 && n < f->count; n++) {
        if (!wants_rest(l, &f->nodes[n], all[n], peers[n].lacks))
            all[n] = NULL;
        any |= all[n] != NULL;
    }
    return rc == 0 && any ? fleet_send_manifests(f, "push", all, "", XFER_MERGE, &l->sent, e) : rc;
}

int input_keep_send(struct run_start *l, struct fleet *f, struct err *e) {
    struct manifest **all = arena_new(l->context->arena, struct manifest *, f->count + 1);
    bool sharded = false;
    if (!l->keep)
        return 0;
    for (size_t n = 0; n < f->count; n++) {
        sharded |= l->keep->shards[n]->count > 0;
        all[n] = l->keep->common;
    }
    if (l->keep->common->count && send(l, f, all, true, e) < 0)
        return -1;
    return sharded ? send(l, f, memcpy(all, l->keep->shards, f->count * sizeof *all), false, e) : 0;
}

void input_keep_close(struct run_start *l) {
    if (!l->keep)
        return;
    manifest_free(l->keep->common);
    for (size_t n = 0; n < l->keep->nodes; n++)
        manifest_free(l->keep->shards[n]);
    l->keep = NULL;
}
