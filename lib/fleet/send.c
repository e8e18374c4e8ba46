// SPDX-License-Identifier: Apache-2.0
// Sends manifests to every node at once.
#include "fleet/send.h"

struct send {
    struct manifest *const *manifests; // one per node
    const char *dest;
    enum xfer_mode mode;
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
    };
    return spec.manifest ? xfer_push(n->link, &spec, events, n, e) : NULL;
}

int send_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                   const char *dest, enum xfer_mode mode, struct transfer_totals *totals,
                   struct err *e) {
    struct transfer_totals ignored = {0};
    struct send s = {manifests, dest, mode};
    return transfer_each(f, operation, start, &s, totals ? totals : &ignored, e);
}

int send_manifest(struct fleet *f, const char *operation, const struct manifest *m,
                  const char *dest, enum xfer_mode mode, struct err *e) {
    const struct manifest **all =
        arena_new(f->context->arena, const struct manifest *, f->count + 1);
    for (size_t i = 0; i < f->count; i++)
        all[i] = m;
    return send_manifests(f, operation, (struct manifest *const *)all, dest, mode, NULL, e);
}
