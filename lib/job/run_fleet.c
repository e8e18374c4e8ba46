// SPDX-License-Identifier: Apache-2.0
// The fleet of one run.
#include "job/run_fleet.h"

int run_fleet_open(struct run_fleet *r, struct session *s, const char *run, struct err *e) {
    const char *id = NULL;
    *r = (struct run_fleet){0};
    if (cluster_find_run(&s->cluster, run, &id, e) < 0 ||
        run_load(&s->cluster, id, &r->run, e) < 0 ||
        cluster_load(&s->cluster, &r->inventory, e) < 0)
        return -1;
    size_t *indices = arena_new(s->arena, size_t, r->run.node_count);
    for (size_t i = 0; i < r->run.node_count; i++) {
        int at = inventory_find(&r->inventory, r->run.nodes[i]);
        if (at < 0)
            return err_set(e, ERR_NOT_FOUND,
                           "run '%s' was on node '%s', which is no longer in cluster '%s'", id,
                           r->run.nodes[i], s->cluster.name);
        indices[i] = (size_t)at;
    }
    fleet_open(&r->fleet, s, &r->inventory, indices, r->run.node_count);
    return 0;
}
