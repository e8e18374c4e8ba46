// SPDX-License-Identifier: Apache-2.0
// The copies of each holder come into copies/<holder>/<owner>/<number> of the run's folder; the
// newest one of each owner is renamed to published/<owner>/<number>.
#include "run/results/state_copies.h"

#include "content/generation.h"
#include "fleet/fleet_transfer.h"
#include "run/results/state_published.h"
#include "sys/file.h"

#include <stdio.h>
#include <sys/stat.h>

struct copies {
    const struct run *run;
    const char *here;   // copies/
    const char **paths; // on a node
};

static struct xfer *start(void *ctx, struct fleet_node *n, const struct xfer_events *events,
                          struct err *e) {
    const struct copies *c = ctx;
    struct xfer_fetch_spec spec = {
        .program = n->facts.program,
        .root = n->facts.root,
        .paths = c->paths,
        .dest = file_join(n->fleet->context->arena, c->here, n->info->name),
        .missing_ok = true,
    };
    return xfer_fetch(n->link, &spec, events, n, e);
}

// When the newest generation that is here came; milliseconds since 1970, as numbers of copies are.
static int64_t time_here(struct context *s, const struct run *run, const char *owner) {
    const char *folder = state_published_newest(s, run, owner);
    struct stat st;
    return folder && stat(folder, &st) == 0 ? (int64_t)st.st_mtim.tv_sec * 1000 : 0;
}

static int take(struct fleet *f, const struct copies *c, const char *owner, struct err *e) {
    struct context *s = f->context;
    struct arena *a = s->arena;
    int64_t newest = time_here(s, c->run, owner);
    const char *from = NULL;
    for (size_t i = 0; i < f->count; i++) {
        const char *folder = file_join(a, file_join(a, c->here, f->nodes[i].info->name), owner);
        int64_t number = f->nodes[i].failed ? 0 : generation_newest(folder);
        if (number < 0)
            return err_set(e, ERR_SYS, "cannot read the folder '%s'", folder);
        if (number > newest) {
            newest = number;
            from = arena_printf(a, "%s/%lld", folder, (long long)number);
        }
    }
    if (!from)
        return 0;
    const char *to = file_join(a, run_path(&s->cluster, c->run, "published"), owner);
    const char *target = arena_printf(a, "%s/%lld", to, (long long)newest);
    if (file_make_dirs(to, 0700, e) < 0 || file_sync_disk(from, e) < 0)
        return -1;
    if (rename(from, target) < 0)
        return err_errno(e, ERR_SYS, "cannot rename '%s' to '%s'", from, target);
    return file_sync_dir(to, e);
}

int state_copies_fetch(struct fleet *f, const struct run *run, struct err *e) {
    struct context *s = f->context;
    struct copies c = {.run = run, .here = run_path(&s->cluster, run, "copies")};
    struct transfer_totals totals = {0};
    size_t count = 0;
    c.paths = arena_new(s->arena, const char *, f->count + 1);
    for (size_t i = 0; i < f->count; i++)
        if (f->nodes[i].failed)
            c.paths[count++] = file_join(s->arena, run_node_dir(s->arena, run->id, "copies"),
                                         f->nodes[i].info->name);
    if (count == 0 || count == f->count)
        return 0;
    int rc = fleet_transfer_each(f, "fetch copies", start, &c, &totals, e);
    for (size_t i = 0; rc == 0 && i < f->count; i++)
        if (f->nodes[i].failed)
            rc = take(f, &c, f->nodes[i].info->name, e);
    return rc == 0 ? file_remove_tree(c.here, e) : rc;
}
