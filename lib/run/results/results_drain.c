// SPDX-License-Identifier: Apache-2.0
// Fetches the results of nodes that are about to be preempted. An empty file left/<node> marks the
// node's part as complete, for later dtctl processes too.
#include "run/results/results_drain.h"

#include "base/log.h"
#include "run/results/results.h"
#include "run/results/results_part.h"
#include "sys/file.h"

static void start_waiting(struct results_drain *r);

void results_drain_open(struct results_drain *r, struct follow *f) {
    *r = (struct results_drain){.follow = f, .end = &r->first};
    r->nodes = arena_new(f->context->arena, struct results_drain_node, f->count + 1);
}

static void warn_failed(const struct results_drain_node *w, const struct err *e) {
    log_warn("cannot fetch the results of a departing node", "node=%s reason=\"%s\"",
             w->node->node->info->name, e->text);
}

static void on_end(struct xfer *x, void *ctx, const struct err *e, const struct xfer_progress *p) {
    (void)x;
    struct results_drain_node *w = ctx;
    struct results_drain *r = w->drain;
    struct follow *f = r->follow;
    struct err why = *e;
    char bytes[STR_HUMAN_BYTES_MAX];
    w->xfer = NULL;
    r->under_way--;
    f->held--;
    const char *mark = results_part_mark(f->context, f->run, w->node->node->info->name);
    // The machine may end now: sync the part before the mark is written.
    if (why.code || file_sync_disk(run_path(&f->context->cluster, f->run, "left"), &why) < 0 ||
        file_write_atomic(mark, "", 0, 0600, &why) < 0)
        warn_failed(w, &why);
    else
        screen_note(f->context->screen, "node %s has left; its results are here (%s)",
                    w->node->node->info->name, str_human_bytes(bytes, p->bytes_all));
    start_waiting(r);
}

static struct xfer *start(struct results_drain_node *w, struct err *e) {
    static const struct xfer_events events = {.on_end = on_end};
    struct follow *f = w->drain->follow;
    unsigned kinds = RESULT_ALL | results_with_work(f->run);
    if (!w->node->node->up) {
        (void)err_set(e, ERR_NET, "it is not connected");
        return NULL;
    }
    if (file_make_dirs(run_path(&f->context->cluster, f->run, "left"), 0700, e) < 0)
        return NULL;
    return results_collect_start(w->node->node, f->run, kinds, &events, w, e);
}

static void start_waiting(struct results_drain *r) {
    while (r->first && r->under_way < FLEET_MOVING_NODES_MAX) {
        struct results_drain_node *w = r->first;
        struct err e = {0};
        r->first = w->next;
        if (!r->first)
            r->end = &r->first;
        w->waits = false;
        w->xfer = start(w, &e);
        if (w->xfer) {
            r->under_way++;
        } else {
            r->follow->held--;
            warn_failed(w, &e);
        }
    }
}

void results_drain_node(struct results_drain *r, const struct follow_node *n) {
    struct follow *f = r->follow;
    struct results_drain_node *w = &r->nodes[n->index];
    if (f->run->native || f->until_now || f->leave || n->no_status || w->xfer || w->waits ||
        !f->history.nodes[n->index].announced)
        return;
    *w = (struct results_drain_node){.drain = r, .node = n, .waits = true};
    *r->end = w;
    r->end = &w->next;
    f->held++;
    start_waiting(r);
}

void results_drain_close(struct results_drain *r) {
    for (size_t i = 0; i < r->follow->count; i++) {
        struct results_drain_node *w = &r->nodes[i];
        r->follow->held -= w->xfer || w->waits;
        if (w->xfer)
            xfer_cancel(w->xfer);
        w->xfer = NULL;
        w->waits = false;
    }
    r->first = NULL;
    r->end = &r->first;
    r->under_way = 0;
}
