// SPDX-License-Identifier: Apache-2.0
// Bringing the results of a run to this side.
#include "job/collect.h"

#include "base/log.h"
#include "job/launch.h"
#include "remote/xfer.h"
#include "sys/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct collect_node {
    const char *const *paths;
    const char *dest, *cache;
    struct xfer *xfer;
    struct collect_result *result;
};

static void on_progress(struct xfer *x, void *ctx, const struct xfer_progress *p) {
    (void)x;
    fleet_amount(ctx, p->bytes_done, p->bytes_total);
    if (p->bytes_total == 0)
        fleet_state(ctx, p->phase);
}

static void on_end(struct xfer *x, void *ctx, const struct err *e, const struct xfer_progress *p) {
    (void)x;
    struct fleet_node *n = ctx;
    struct collect_node *w = n->work;
    w->xfer = NULL;
    w->result->bytes += p->bytes_done;
    w->result->files += p->files_done;
    fleet_amount(n, p->bytes_done, p->bytes_total);
    fleet_done(n, e);
}

static int start_fetch(struct fleet_node *n, struct err *e) {
    static const struct xfer_events events = {on_progress, on_end};
    struct collect_node *w = n->work;
    struct xfer_fetch_spec spec = {
        .program = n->facts.program,
        .root = n->facts.root,
        .paths = w->paths,
        .dest = w->dest,
        .hash_cache_path = w->cache,
        .missing_ok = true,
    };
    w->xfer = xfer_fetch(n->link, &spec, &events, n, e);
    return w->xfer ? 0 : -1;
}

// One folder for all, or one per node when their files contradict each other.
static int put_together(struct session *s, struct fleet *f, struct run *run,
                        const struct collect_node *work, struct collect_result *out,
                        struct err *e) {
    const char **folders = arena_new(s->arena, const char *, f->count + 1);
    const char **names = arena_new(s->arena, const char *, f->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (f->nodes[i].failed || !file_exists(work[i].dest))
            continue;
        folders[count] = work[i].dest;
        names[count++] = f->nodes[i].info->name;
    }
    if (count == 0 || file_make_dirs(run->output_dir, 0755, e) < 0)
        return count == 0 ? 0 : -1;
    if (xfer_merge_folders(run->output_dir, folders, names, e) == 0)
        return 0;
    if (e->code != ERR_EXISTS)
        return -1;
    out->by_node = true;
    out->conflict = arena_strdup(s->arena, e->text);
    err_clear(e);
    for (size_t i = 0; i < count; i++) {
        const char *to = file_join(s->arena, run->output_dir, names[i]);
        if (file_remove_tree(to, e) < 0)
            return -1;
        if (rename(folders[i], to) == 0)
            continue;
        // Another file system: the folder is a copy of one node, so merging moves it.
        if (file_make_dirs(to, 0755, e) < 0 ||
            xfer_merge_folders(to, &folders[i], &names[i], e) < 0)
            return -1;
    }
    return 0;
}

int collect_results(struct fleet *f, struct run *run, struct collect_result *out, struct err *e) {
    struct session *s = f->session;
    struct arena *a = s->arena;
    struct collect_node *work = arena_new(a, struct collect_node, f->count + 1);
    const char *incoming = run_path(&s->cluster, run, "incoming");
    const char **paths = arena_new(a, const char *, 4);
    paths[0] = launch_node_dir(a, run->id, "output/");
    paths[1] = launch_node_dir(a, run->id, "model");
    paths[2] = launch_node_dir(a, run->id, "state");
    *out = (struct collect_result){0};
    for (size_t i = 0; i < f->count; i++) {
        work[i] = (struct collect_node){
            .paths = paths,
            .dest = file_join(a, incoming, f->nodes[i].info->name),
            .cache = file_join(a, s->cluster.dir, "hashes"),
            .result = out,
        };
        f->nodes[i].work = &work[i];
    }
    if (file_make_dirs(incoming, 0700, e) < 0)
        return -1;
    int result = fleet_each_resumed(f, "fetch", start_fetch, e);
    for (size_t i = 0; i < f->count; i++) {
        if (work[i].xfer)
            xfer_cancel(work[i].xfer); // interrupted; what has arrived is used next time
        f->nodes[i].work = NULL;
    }
    out->missing = fleet_failures(f);
    if (result == 0)
        result = put_together(s, f, run, work, out, e);
    if (result == 0 && out->missing == 0)
        result = file_remove_tree(incoming, e);
    return result;
}
