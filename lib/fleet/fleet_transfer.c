// SPDX-License-Identifier: Apache-2.0
// Pushes and fetches of many nodes at once.
#include "fleet/fleet_transfer.h"

#include "fleet/cluster_owner.h"
#include "sys/net.h"
#include "xfer/fanout.h"

_Static_assert((int)FLEET_SHARE_NODES_MAX <= (int)FANOUT_NODES_MAX, "one chain has all nodes");

struct transfer {
    fleet_transfer_start *start;
    void *ctx;
    struct transfer_totals *totals;
    struct xfer *xfer; // NULL when idle
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
    struct transfer *t = n->work;
    t->xfer = NULL;
    fleet_amount(n, p->bytes_done, p->bytes_total);
    t->totals->bytes += p->bytes_done;
    t->totals->bytes_wire += p->bytes_wire;
    t->totals->files += p->files_done;
    if (e->code == ERR_NONE) {
        t->totals->bytes_all += p->bytes_all;
        t->totals->files_all += p->files_all;
    }
    fleet_done(n, e);
}

static int start_node(struct fleet_node *n, struct err *e) {
    static const struct xfer_events events = {on_progress, on_end};
    struct transfer *t = n->work;
    t->xfer = t->start(t->ctx, n, &events, e);
    if (!t->xfer && e->code == ERR_NONE)
        fleet_done(n, NULL);
    return e->code == ERR_NONE ? 0 : -1;
}

static int each(struct fleet *f, const char *operation, fleet_transfer_start *start, void *ctx,
                struct transfer_totals *totals, size_t at_once, struct err *e) {
    struct transfer *all = arena_new(f->context->arena, struct transfer, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        all[i] = (struct transfer){start, ctx, totals, NULL};
        f->nodes[i].work = &all[i];
    }
    int result = fleet_each_resumed_of(f, operation, start_node, at_once, e);
    for (size_t i = 0; i < f->count; i++) {
        if (all[i].xfer)
            xfer_cancel(all[i].xfer); // the step was interrupted
        f->nodes[i].work = NULL;
    }
    return result;
}

int fleet_transfer_each(struct fleet *f, const char *operation, fleet_transfer_start *start,
                        void *ctx, struct transfer_totals *totals, struct err *e) {
    return each(f, operation, start, ctx, totals, FLEET_MOVING_NODES_MAX, e);
}

// ---- manifests to all nodes --------------------------------------------------------------------

struct send {
    struct manifest *const *manifests; // one per node
    const char *dest;
    enum xfer_mode mode;
    struct fanout *fanout;
    struct xfer_peers *peers; // per node; NULL: content is read here
    const char *const *results;
    const char *owner; // of the results
};

static struct xfer *start(void *ctx, struct fleet_node *n, const struct xfer_events *events,
                          struct err *e) {
    const struct send *s = ctx;
    struct xfer_push_spec spec = {
        .program = n->facts.program,
        .root = n->facts.root,
        .dest = s->dest,
        .mode = s->mode,
        .manifest = s->manifests[n->index],
        .fanout = s->fanout,
        .peers = s->peers ? &s->peers[n->index] : NULL,
        .address = n->info->address,
        .results = s->results,
        .owner = s->owner,
    };
    return spec.manifest ? xfer_push(n->link, &spec, events, n, e) : NULL;
}

static bool fans_out(const struct fleet *f) {
    return f->count > 1 && f->context->config->cluster.fanout != CONFIG_FANOUT_OFF;
}

int fleet_send_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, enum xfer_mode mode, struct transfer_totals *totals,
                         struct err *e) {
    struct transfer_totals ignored = {0};
    struct send s = {.manifests = manifests,
                     .dest = dest,
                     .mode = mode,
                     .fanout = fans_out(f) ? fanout_new(f->context->loop) : NULL};
    size_t pushes = 0;
    for (size_t i = 0; i < f->count; i++)
        pushes += manifests[i] && !f->nodes[i].failed;
    fanout_expect(s.fanout, pushes);
    int result = fleet_transfer_each(f, operation, start, &s, totals ? totals : &ignored, e);
    fanout_free(s.fanout);
    return result;
}

bool fleet_can_share(const struct fleet *f) {
    if (!fans_out(f) || f->count > FLEET_SHARE_NODES_MAX)
        return false;
    for (size_t n = 0; n < f->count; n++) {
        const struct fleet_node *node = &f->nodes[n];
        if (!node->failed && (!node->info->address || !net_is_numeric(node->info->address) ||
                              !node->link || transport_is_local(node->link)))
            return false;
    }
    return true;
}

int fleet_share_manifest(struct fleet *f, const char *operation, struct manifest *m,
                         const char *dest, struct xfer_peers *peers, struct transfer_totals *totals,
                         struct err *e) {
    struct manifest **all = arena_new(f->context->arena, struct manifest *, f->count + 1);
    struct send s = {.manifests = all,
                     .dest = dest,
                     .mode = XFER_MERGE,
                     .fanout = fanout_new(f->context->loop),
                     .peers = peers};
    for (size_t i = 0; i < f->count; i++)
        all[i] = m;
    int result = each(f, operation, start, &s, totals, FLEET_SHARE_NODES_MAX, e);
    fanout_free(s.fanout);
    return result;
}

int fleet_find_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, const char *const *results, struct xfer_peers *peers,
                         struct transfer_totals *totals, struct err *e) {
    struct send s = {.manifests = manifests,
                     .dest = dest,
                     .mode = XFER_MERGE,
                     .peers = peers,
                     .results = results};
    if (results && cluster_owner_id(f->context, &s.owner, e) < 0)
        return -1;
    return fleet_transfer_each(f, operation, start, &s, totals, e);
}

int fleet_send_manifest(struct fleet *f, const char *operation, const struct manifest *m,
                        const char *dest, enum xfer_mode mode, struct err *e) {
    const struct manifest **all =
        arena_new(f->context->arena, const struct manifest *, f->count + 1);
    for (size_t i = 0; i < f->count; i++)
        all[i] = m;
    return fleet_send_manifests(f, operation, (struct manifest *const *)all, dest, mode, NULL, e);
}
