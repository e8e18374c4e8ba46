// SPDX-License-Identifier: Apache-2.0
// Sends manifests to every node at once.
#include "job/send.h"

struct send_work {
    const struct manifest *manifest;
    const char *dest;
    enum xfer_mode mode;
    struct send_totals *totals;
    struct xfer *xfer;
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
    struct send_work *w = n->work;
    w->xfer = NULL;
    fleet_amount(n, p->bytes_done, p->bytes_total);
    if (w->totals) {
        w->totals->bytes_sent += p->bytes_done;
        w->totals->bytes_wire += p->bytes_wire;
        w->totals->bytes_all += p->bytes_all;
        w->totals->files_sent += p->files_done;
        w->totals->files_all += p->files_all;
    }
    fleet_done(n, e);
}

static int start_push(struct fleet_node *n, struct err *e) {
    static const struct xfer_events events = {on_progress, on_end};
    struct send_work *w = n->work;
    if (!w->manifest) {
        fleet_done(n, NULL);
        return 0;
    }
    struct xfer_push_spec spec = {
        .program = n->facts.program,
        .root = n->facts.root,
        .dest = w->dest,
        .mode = w->mode,
        .manifest = w->manifest,
    };
    w->xfer = xfer_push(n->link, &spec, &events, n, e);
    return w->xfer ? 0 : -1;
}

int send_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                   const char *dest, enum xfer_mode mode, struct send_totals *totals,
                   struct err *e) {
    struct send_work *work = arena_new(f->session->arena, struct send_work, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        work[i] = (struct send_work){manifests[i], dest, mode, totals, NULL};
        f->nodes[i].work = &work[i];
    }
    int result = fleet_each_resumed(f, operation, start_push, e);
    for (size_t i = 0; i < f->count; i++) {
        if (work[i].xfer)
            xfer_cancel(work[i].xfer); // interrupted
        f->nodes[i].work = NULL;
    }
    return result;
}

int send_manifest(struct fleet *f, const char *operation, const struct manifest *m,
                  const char *dest, enum xfer_mode mode, struct err *e) {
    const struct manifest **all =
        arena_new(f->session->arena, const struct manifest *, f->count + 1);
    for (size_t i = 0; i < f->count; i++)
        all[i] = m;
    return send_manifests(f, operation, (struct manifest *const *)all, dest, mode, NULL, e);
}
