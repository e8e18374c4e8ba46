// SPDX-License-Identifier: Apache-2.0
// Generations of states that have come while a run is active. The node links one, this side fetches
// it, and the node then says whether it has stayed as it was.
#include "run/results/state_published.h"

#include "content/generation.h"
#include "run/monitor.h"
#include "sys/file.h"

#include <stdio.h>

enum { KEPT = 2 };

static const char *folder_of(struct arena *a, const struct context *s, const struct run *run,
                             const char *node) {
    return file_join(a, run_path(&s->cluster, run, "published"), node);
}

const char *state_published_newest(struct context *s, const struct run *run, const char *node) {
    const char *folder = folder_of(s->arena, s, run, node);
    int64_t number = generation_newest(folder);
    return number > 0 ? arena_printf(s->arena, "%s/%lld", folder, (long long)number) : NULL;
}

int state_published_remove(struct context *s, const struct run *run, const char *node,
                           struct err *e) {
    return file_remove_tree(
        node ? folder_of(s->arena, s, run, node) : run_path(&s->cluster, run, "published"), e);
}

static const char *node_folder(const struct publish_node *x, struct arena *a) {
    const struct follow *f = x->all->follow;
    return folder_of(a, f->context, f->run, x->node->node->info->name);
}

static void init(struct publish_node *x) {
    struct arena a = {0};
    int64_t number = generation_newest(node_folder(x, &a));
    x->number = number > 0 ? number : 0;
    arena_fini(&a);
}

static const char *dest(struct publish_node *x, struct arena *a, struct err *e) {
    const char *new = file_join(a, node_folder(x, a), "new");
    return file_remove_tree(new, e) == 0 && file_make_dirs(new, 0700, e) == 0
               ? file_join(a, new, "state")
               : NULL;
}

static int keep(struct publish_node *x, struct err *e) {
    struct arena a = {0};
    const char *folder = node_folder(x, &a);
    const char *new = file_join(&a, folder, "new");
    const char *to = arena_printf(&a, "%s/%lld", folder, (long long)x->number + 1);
    const char *old = arena_printf(&a, "%s/%lld", folder, (long long)x->number + 1 - KEPT);
    int rc = file_sync_disk(new, e);
    if (rc == 0 && rename(new, to) < 0)
        rc = err_errno(e, ERR_SYS, "cannot rename '%s' to '%s'", new, to);
    if (rc == 0)
        rc = file_sync_dir(folder, e);
    if (rc == 0)
        rc = file_remove_tree(old, e);
    x->number += rc == 0;
    arena_fini(&a);
    return rc;
}

static void note(const struct publish_node *x, const char *files, const char *bytes) {
    const struct follow *f = x->all->follow;
    monitor_note(f->context, f->run, "state-published", "peer", x->node->node->info->name, "files",
                 files, "bytes", bytes, NULL);
}

void state_published_open(struct publish *p, struct follow *f) {
    static const struct publish_kind kind = {.what = "state",
                                             .option = "",
                                             .folder = "snapshot/",
                                             .checks = true,
                                             .init = init,
                                             .dest = dest,
                                             .keep = keep,
                                             .note = note};
    publish_open(p, f, &kind, f->context->config->state_every_ms);
}
