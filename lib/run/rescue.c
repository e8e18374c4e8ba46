// SPDX-License-Identifier: Apache-2.0
// An empty file left/<node> says that the node's part is whole, to any later dtctl, too.
#include "run/rescue.h"

#include "base/log.h"
#include "run/results.h"
#include "sys/file.h"

void rescue_open(struct rescue *r, struct follow *f) {
    *r = (struct rescue){.follow = f};
    r->nodes = arena_new(f->context->arena, struct rescue_node, f->count + 1);
}

static void tell_failed(const struct rescue_node *w, const struct err *e) {
    log_warn("what a node has that leaves could not be fetched", "node=%s reason=\"%s\"",
             w->node->node->info->name, e->text);
}

static void on_end(struct xfer *x, void *ctx, const struct err *e, const struct xfer_progress *p) {
    (void)x;
    struct rescue_node *w = ctx;
    struct follow *f = w->rescue->follow;
    struct err why = *e;
    char bytes[STR_HUMAN_BYTES_MAX];
    w->xfer = NULL;
    f->held--;
    const char *mark = collect_mark_path(f->context, f->run, w->node->node->info->name);
    // The machine may go at once, so its part is on the disk before the mark is there.
    if (why.code || file_sync_disk(run_path(&f->context->cluster, f->run, "left"), &why) < 0 ||
        file_write_atomic(mark, "", 0, 0600, &why) < 0)
        tell_failed(w, &why);
    else
        screen_note(f->context->screen, "node %s has left; what it had is here (%s)",
                    w->node->node->info->name, str_human_bytes(bytes, p->bytes_all));
}

void rescue_node(struct rescue *r, const struct follow_node *n) {
    static const struct xfer_events events = {.on_end = on_end};
    struct follow *f = r->follow;
    struct rescue_node *w = &r->nodes[n->index];
    struct err e = {0};
    if (f->run->native || f->until_now || f->leave || n->no_status || !n->node->up || w->xfer ||
        !f->story.nodes[n->index].announced)
        return;
    *w = (struct rescue_node){.rescue = r, .node = n};
    if (file_make_dirs(run_path(&f->context->cluster, f->run, "left"), 0700, &e) == 0)
        w->xfer = collect_start(n->node, f->run, &events, w, &e);
    if (w->xfer)
        f->held++;
    else
        tell_failed(w, &e);
}

void rescue_close(struct rescue *r) {
    for (size_t i = 0; i < r->follow->count; i++)
        if (r->nodes[i].xfer) {
            xfer_cancel(r->nodes[i].xfer);
            r->nodes[i].xfer = NULL;
            r->follow->held--;
        }
}
